//! `kist release`.

use door::wire::ReleaseBody;

use crate::cli::Common;
use crate::client::archive_path;
use crate::failure::Outcome;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Ends the pins of a request, so that the pool may use the space again.

Example:
  kist release 17 /survey/2026/a.fits")]
pub struct Args {
    /// The request that staged them
    request: u64,
    /// Only these files; none: all of the request
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let paths = args.paths.iter().map(|path| archive_path(path)).collect::<Outcome<Vec<_>>>()?;
    let body = ReleaseBody { paths: (!paths.is_empty()).then_some(paths) };
    common.connection.client()?.post(&format!("/api/v1/requests/{}/release", args.request), &body).map(drop)
}
