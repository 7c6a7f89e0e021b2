//! `kist pool`.

use door::wire::PoolReply;

use crate::cli::Common;
use crate::failure::Outcome;
use crate::table::Table;
use crate::{output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist pool show")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show the drives of the pool and what they hold
    Show,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let Action::Show = args.action;
    let pool: PoolReply = common.connection.client()?.get("/api/v1/pool")?;
    if common.json {
        return output::json(&pool);
    }
    output::line(&format!(
        "{}+{} shards, small files {} times; {}, {} online; {} cells rebuilt on read, {} blobs to remove",
        pool.data,
        pool.parity,
        pool.segment_copies,
        text::files(pool.online_files),
        text::size(pool.online_bytes),
        text::count(pool.reconstructed),
        text::count(pool.garbage)
    ))?;
    let mut table =
        Table::new(&[">drive", "state", ">fs size", ">fs used", ">read", ">written", ">errors", "directory"]);
    for drive in pool.drives {
        table.row(vec![
            drive.id.to_string(),
            drive.state,
            text::size(drive.capacity),
            text::size(drive.used),
            text::size(drive.read),
            text::size(drive.written),
            text::count(drive.errors),
            drive.path,
        ]);
    }
    output::write(&table.render())?;
    output::line("fs size and fs used are of the file systems: drives on one disk share them")
}
