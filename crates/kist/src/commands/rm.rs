//! `kist rm`.

use crate::cli::Common;
use crate::client::{Client, archive_path};
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::transfer::{JOBS_DEFAULT, RemoteItem, RemoteKind, Tally, walk_remote};
use crate::{output, parallel, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The space on tape stays used until the tape is repacked.

Example:
  kist rm -r /demo-1")]
pub struct Args {
    /// Files, or directories with -r
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Remove directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// With -r and the path /: remove all files of the archive
    #[arg(long)]
    everything: bool,
    /// Requests at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let paths = args.paths.iter().map(|path| archive_path(path)).collect::<Outcome<Vec<_>>>()?;
    check_root(args, &paths)?;
    let client = common.connection.client()?;
    let tally = Tally::default();
    let mut total = 0;
    for path in paths {
        let stat = match client.stat(&path) {
            Ok(stat) => stat,
            Err(failure) => {
                total += 1;
                tally.add_failure(&path, failure);
                continue;
            }
        };
        let root = RemoteItem::of_stat(&stat)?;
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        match root.kind {
            RemoteKind::Directory if args.recursive => {
                directories.push(path.clone());
                walk_remote(&client, &root, &mut |item| {
                    let list = if item.kind == RemoteKind::Directory { &mut directories } else { &mut files };
                    list.push(item.path.clone());
                    Ok(())
                })?;
            }
            RemoteKind::Directory => {
                directories.push(path.clone());
            }
            RemoteKind::File | RemoteKind::Link(_) => files.push(path.clone()),
        }
        total += files.len() + directories.len();
        remove(&client, &files, &directories, args, common, &tally);
    }
    if tally.did_nothing() {
        return tally.outcome(total);
    }
    if !common.quiet {
        output::note(&format!("{} removed", text::plural(tally.done(), "name")));
    }
    if common.json {
        output::json(&serde_json::json!({ "removed": tally.done(), "failed": tally.failed() }))?;
    }
    tally.outcome(total)
}

fn check_root(args: &Args, paths: &[String]) -> Outcome {
    if !paths.iter().any(|path| path == "/") {
        return Ok(());
    }
    match (args.recursive, args.everything) {
        (false, _) => Err(Failure::new(Exit::Refused, "/ cannot be removed")),
        (true, false) => Err(Failure::new(
            Exit::Refused,
            "/ is the whole archive: to remove all files in it, say so: kist rm -r --everything /",
        )),
        (true, true) => Ok(()),
    }
}

fn remove(
    client: &Client,
    files: &[String],
    directories: &[String],
    args: &Args,
    common: &Common,
    tally: &Tally,
) {
    let total = files.len() + directories.len();
    let progress = Progress::start_of("rm", "name", total as u64, 0, common.quiet || total < 100);
    let delete = |path: &String| {
        match client.delete(path) {
            Ok(()) => tally.add_done(0),
            // Somebody else was faster, or the first answer got lost.
            Err(Failure { exit: Exit::NotFound, .. }) if total > 1 => tally.add_done(0),
            Err(failure) => tally.add_failure(path, failure),
        }
        progress.add_files(1);
    };
    parallel::each(files, args.jobs, &tally.stop, delete);
    for directory in directories.iter().rev().filter(|path| path.as_str() != "/") {
        delete(directory);
    }
}
