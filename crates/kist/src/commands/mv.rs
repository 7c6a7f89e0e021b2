//! `kist mv`.

use client::archive_path;
use terminal::{Outcome, output};
use wire::RenameBody;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Only the name changes; no data moves.\n\nExample:\n  kist mv /in/run7 /runs/7")]
pub struct Args {
    /// What is there
    from: String,
    /// What it shall be called: the whole new path
    to: String,
    /// Replace a file that has the new name
    #[arg(long)]
    replace: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let body =
        RenameBody { from: archive_path(&args.from)?, to: archive_path(&args.to)?, replace: args.replace };
    common.connection.client()?.post("/api/v1/rename", &body)?;
    if common.json { output::json(&serde_json::json!({ "from": body.from, "to": body.to })) } else { Ok(()) }
}
