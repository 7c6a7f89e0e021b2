//! `kist mkdir`.

use door::wire::MakeDirectoryBody;

use crate::cli::Common;
use crate::client::archive_path;
use crate::failure::Outcome;

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
        client.post("/api/v1/mkdir", &body)?;
    }
    Ok(())
}
