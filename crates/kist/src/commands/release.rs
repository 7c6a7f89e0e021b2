//! `kist release`.

use client::{Client, Watched, archive_path};
use terminal::{Outcome, output, text};
use wire::ReleaseBody;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Ends the pins of a request, so that the pool may use the space again. Files
that have not come yet are recalled, and get no pin: kist request cancel ends
their recall too.

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
    release(&common.connection.client()?, args.request, paths, common.quiet)?;
    let what = match of.as_ref().map_or(0, Vec::len) as u64 {
        0 => "all its files".to_owned(),
        files => text::files(files),
    };
    let said = serde_json::json!({ "request": args.request, "paths": of });
    output::done(common, &said, &format!("request {}: {what} pinned no more", args.request))
}

/// Ends the pins of a request, all or those of `paths`.
pub fn release(client: &Client, request: u64, paths: Option<Vec<String>>, quiet: bool) -> Outcome {
    let target = format!("/api/v1/requests/{request}/release");
    let mut watched = Watched::new("release", quiet);
    client.post_long(&target, &ReleaseBody { paths }, &mut |work| watched.show(work)).map(drop)
}
