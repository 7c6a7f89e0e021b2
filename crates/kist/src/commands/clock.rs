//! `kist clock`.

use terminal::{Outcome, output, text};
use wire::{AcceptClockBody, ClockReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Retentions, lifecycle rules and pins go by a trusted time, kept in the
catalogue. It follows the system's clock, but not a jump for which neither a
time server nor an operator vouches: not while the server runs, and at a start
not by more than a week (400 days if the kernel's clock is synchronised).

Examples:
  kist clock
  kist clock accept 2026-11-23
  kist clock accept --back 2026-11-23")]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Vouch for the system's clock: the trusted time becomes the system's
    Accept {
        /// Today's date, as 2026-11-23; the system's clock must show it
        #[arg(value_name = "DATE")]
        today: String,
        /// Let the trusted time go back, at the next start; retentions then last longer
        #[arg(long)]
        back: bool,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let clock: ClockReply = match &args.action {
        None => client.get("/api/v1/clock")?,
        Some(Action::Accept { today, back }) => {
            let body = AcceptClockBody { today: today.clone(), back: *back };
            client.post_for("/api/v1/clock/accept", &body)?
        }
    };
    if common.json { output::json(&clock) } else { output::write(&rendered(&clock)) }
}

fn rendered(clock: &ClockReply) -> String {
    let mut lines = vec![
        ("trusted time", text::whole_seconds(&clock.trusted)),
        ("system's clock", text::whole_seconds(&clock.system)),
        ("difference", difference(clock)),
        ("time server", if clock.synchronised { "yes, says the kernel" } else { "none known" }.to_owned()),
    ];
    if let Some(since) = &clock.doubted_since {
        lines.push(("in doubt since", text::whole_seconds(since)));
    }
    if let Some(to) = &clock.planned_back {
        let at = text::whole_seconds(to);
        lines.push(("goes back", format!("to {at}, at the next start: restart the server")));
    }
    for leap in &clock.moves {
        let [before, after] = [&leap.before, &leap.after].map(|at| text::whole_seconds(at));
        lines.push(("leapt", format!("from {before} to {after}")));
    }
    lines.iter().map(|(what, value)| format!("{what:<15} {value}\n")).collect()
}

fn difference(clock: &ClockReply) -> String {
    let span = |seconds: u64| match seconds {
        0..=119 => format!("{seconds} s"),
        120..=172_799 => format!("{:.1} h", seconds as f64 / 3_600.0),
        _ => format!("{:.1} days", seconds as f64 / 86_400.0),
    };
    let ahead = clock.ahead_seconds;
    if clock.follows {
        return "none: the trusted time follows the system's clock".to_owned();
    }
    let direction = if ahead > 0 { "ahead" } else { "behind" };
    format!(
        "the system's clock is {direction} by {} and not believed: if it is right, kist clock accept{} DATE",
        span(ahead.unsigned_abs()),
        if ahead > 0 { "" } else { " --back" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_believed_is_told_with_what_to_do() {
        let mut clock = ClockReply {
            trusted: "2026-11-23T10:00:00.5Z".to_owned(),
            system: "2036-11-23T10:00:00.5Z".to_owned(),
            ahead_seconds: 3_653 * 86_400,
            follows: false,
            synchronised: false,
            doubted_since: Some("2026-11-23T09:00:00Z".to_owned()),
            planned_back: None,
            moves: Vec::new(),
        };
        let told = rendered(&clock);
        assert!(
            told.contains("ahead by 3653.0 days and not believed: if it is right, kist clock accept DATE"),
            "{told}"
        );
        assert!(told.contains("in doubt since  2026-11-23"), "{told}");
        clock.ahead_seconds = -7_200;
        assert!(rendered(&clock).contains("behind by 2.0 h"), "{}", rendered(&clock));
        clock.follows = true;
        assert!(rendered(&clock).contains("follows the system's clock"));
    }
}
