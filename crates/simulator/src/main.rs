//! `simulator --seed N --faults M`: worlds from a seed on until so many faults have happened. With
//! `--worlds 1` one world is replayed; `--profile NAME` makes all worlds alike; `--bug NAME` plants a bug
//! first; `--log` shows what the engine says.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::planted::{Bug, plant};
use simulator::faults::Profile;
use simulator::report::{Campaign, Until, campaign};

/// How often a long campaign says how far it is.
const TOLD_EVERY_SECONDS: u64 = 10;

/// One line about a campaign that goes on.
fn tell(sum: &Campaign, wanted: u64, time: Duration) {
    let rate = sum.total() as f64 / time.as_secs_f64().max(0.001);
    let mut text = format!("{} worlds, {} faults, {rate:.0} faults/s", sum.worlds, sum.total());
    if wanted != u64::MAX {
        let left = wanted.saturating_sub(sum.total()) as f64 / rate.max(0.001) / 60.0;
        text += &format!(", {left:.0} min left");
    }
    eprintln!("{text}");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    if arguments.iter().any(|argument| argument == "--log") {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG).init();
    }
    let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
    if let Some(name) = text("--bug") {
        let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
        let Some(bug) = bug else {
            eprintln!("there is no bug {name}; there are {:?}", Bug::ALL);
            return ExitCode::FAILURE;
        };
        plant(Some(bug));
    }
    let faults = number("--faults").unwrap_or(u64::MAX);
    let usual = if faults == u64::MAX { 1 } else { u64::MAX };
    let until = Until {
        faults,
        worlds: number("--worlds").unwrap_or(usual),
        time: Duration::from_secs(number("--seconds").unwrap_or(86_400)),
        profile: text("--profile")
            .and_then(|name| Profile::ALL.into_iter().find(|profile| format!("{profile:?}") == name)),
    };
    let last = AtomicU64::new(0);
    let done = campaign(number("--seed").unwrap_or(1), until, &|sum: &Campaign, time: Duration| {
        let round = time.as_secs() / TOLD_EVERY_SECONDS;
        if last.fetch_max(round, Ordering::Relaxed) < round {
            tell(sum, faults, time);
        }
    });
    println!("{}", done.table());
    for failed in &done.failures {
        println!(
            "seed {} FAILED ({:?}): {}",
            failed.seed,
            failed.profile,
            failed.failure.as_deref().unwrap_or("")
        );
        println!(
            "replay: cargo run -p simulator -- --seed {} --worlds 1 --profile {:?}",
            failed.seed, failed.profile
        );
    }
    let missing = done.missing();
    if faults != u64::MAX && !missing.is_empty() && done.failures.is_empty() {
        println!("never happened: {missing:?}");
        return ExitCode::FAILURE;
    }
    if done.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
