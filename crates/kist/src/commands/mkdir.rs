//! `kist mkdir`.

use client::archive_path;
use terminal::{Outcome, output};
use wire::MakeDirectoryBody;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist mkdir -p --class large /survey/2026/raw")]
pub struct Args {
    /// The directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Make missing parents; be content if it is there
    #[arg(short, long)]
    parents: bool,
    /// The storage class of files below
    #[arg(long)]
    class: Option<String>,
    /// Permission bits in octal
    #[arg(long, default_value = "0755")]
    mode: String,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let mut made = 0;
    for path in &args.paths {
        let body = MakeDirectoryBody {
            path: archive_path(path)?,
            parents: args.parents,
            mode: Some(args.mode.clone()),
            mtime: None,
            owner: None,
            group: None,
            class: args.class.clone(),
        };
        let (status, _) = client.post("/api/v1/mkdir", &body)?;
        made += u64::from(status == 201);
    }
    if !common.json {
        return Ok(());
    }
    output::json(&serde_json::json!({ "made": made, "skipped": args.paths.len() as u64 - made }))
}
