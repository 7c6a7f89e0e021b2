//! `kist release`.

use door::wire::ReleaseBody;

use crate::cli::Common;
use crate::client::{Client, archive_path};
use crate::failure::Outcome;
use crate::output;

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
    let paths = (!paths.is_empty()).then_some(paths);
    let of = paths.clone();
    release(&common.connection.client()?, args.request, paths)?;
    if common.json {
        output::json(&serde_json::json!({ "request": args.request, "paths": of }))
    } else {
        Ok(())
    }
}

/// Ends the pins of a request, all or those of `paths`.
pub fn release(client: &Client, request: u64, paths: Option<Vec<String>>) -> Outcome {
    client.post(&format!("/api/v1/requests/{request}/release"), &ReleaseBody { paths }).map(drop)
}
