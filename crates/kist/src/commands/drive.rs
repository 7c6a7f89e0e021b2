//! `kist drive`.

use door::wire::DriveReply;

use crate::cli::Common;
use crate::failure::Outcome;
use crate::table::Table;
use crate::{output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist drive ls")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the tape drives and what they do
    Ls,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let Action::Ls = args.action;
    let drives: Vec<DriveReply> = common.connection.client()?.get("/api/v1/drives")?;
    if common.json {
        return output::json(&drives);
    }
    let mut table =
        Table::new(&["drive", "state", "tape", "tape pool", "since", ">files", ">bytes", ">rate", "reason"]);
    for drive in drives {
        table.row(vec![
            drive.name,
            drive.state,
            drive.vid.unwrap_or_else(|| "-".to_owned()),
            drive.tape_pool.unwrap_or_else(|| "-".to_owned()),
            drive.since,
            text::count(drive.files),
            text::size(drive.bytes),
            format!("{}/s", text::size(drive.rate.max(0.0) as u64)),
            drive.reason,
        ]);
    }
    output::write(&table.render())
}
