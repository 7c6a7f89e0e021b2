//! `kist drive`.

use door::wire::{DriveReply, ReasonBody};

use crate::cli::Common;
use crate::failure::Outcome;
use crate::table::Table;
use crate::{expected, output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  kist drive ls\n  kist drive up vdrive0\n  kist drive down vdrive0")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the tape drives and what they do
    Ls,
    /// Give a drive back to use that was taken out of it
    Up {
        /// The drive
        name: String,
    },
    /// Take a drive out of use: at once if it is empty, else when its session has ended
    Down {
        /// The drive
        name: String,
        /// Why, for other operators
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    if let Action::Up { name } = &args.action {
        let target = format!("/api/v1/drives/{}/up", text::encode(name));
        common.connection.client()?.post(&target, &serde_json::json!({}))?;
        return if common.json { output::json(&serde_json::json!({ "name": name })) } else { Ok(()) };
    }
    if let Action::Down { name, reason } = &args.action {
        let target = format!("/api/v1/drives/{}/down", text::encode(name));
        common.connection.client()?.post(&target, &ReasonBody { reason: reason.clone() })?;
        let said = serde_json::json!({ "name": name, "reason": reason });
        return if common.json { output::json(&said) } else { Ok(()) };
    }
    let drives: Vec<DriveReply> = common.connection.client()?.get("/api/v1/drives")?;
    if common.json {
        return output::json(&drives);
    }
    let now = text::now();
    let headings =
        ["drive", "state", "tape", "tape pool", "since", ">files", ">bytes", ">rate", "done", "reason"];
    let mut table = Table::new(&headings);
    for drive in drives {
        table.row(vec![
            drive.name,
            drive.state,
            drive.vid.unwrap_or_else(|| "-".to_owned()),
            drive.tape_pool.unwrap_or_else(|| "-".to_owned()),
            text::whole_seconds(&drive.since),
            text::count(drive.files),
            text::size(drive.bytes),
            format!("{}/s", text::size(drive.rate.max(0.0) as u64)),
            expected::words_or_dash(drive.expected.as_ref(), now),
            drive.reason,
        ]);
    }
    output::write(&table.render())
}
