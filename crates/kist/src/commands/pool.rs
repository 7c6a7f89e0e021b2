//! `kist pool`.

use door::protection::QuarantineReply;
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
    /// Show what is kept although a restored catalogue does not name it, or remove it
    Quarantine {
        /// Remove it: nothing of the time between the restored point and the restore is wanted any more
        #[arg(long)]
        end: bool,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    if let Action::Quarantine { end } = args.action {
        return quarantine(end, common);
    }
    let client = common.connection.client()?;
    let pool: PoolReply = client.get("/api/v1/pool")?;
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
    let kept: QuarantineReply = client.get("/api/v1/pool/quarantine")?;
    if kept.on {
        output::line(&quarantine_text(kept))?;
    }
    output::line("fs size and fs used are of the file systems: drives on one disk share them")
}

fn quarantine(end: bool, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if end {
        client.post("/api/v1/pool/quarantine/end", &serde_json::json!({}))?;
    }
    let kept: QuarantineReply = client.get("/api/v1/pool/quarantine")?;
    if common.json { output::json(&kept) } else { output::line(&quarantine_text(kept)) }
}

fn quarantine_text(kept: QuarantineReply) -> String {
    if !kept.on {
        return "there is no quarantine".to_owned();
    }
    format!(
        "quarantine: {} on the drives that the restored catalogue does not name; they are kept until \
         kist pool quarantine --end",
        text::plural(kept.extents, "extent")
    )
}
