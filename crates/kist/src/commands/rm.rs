//! `kist rm`.

use crate::cli::Common;
use crate::client::{Client, archive_path};
use crate::failure::{Exit, Failure, Outcome};
use crate::parallel;
use crate::progress::Progress;
use crate::text;
use crate::transfer::{JOBS_DEFAULT, RemoteItem, RemoteKind, Tally, walk_remote};

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
    /// Requests at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT)]
    jobs: usize,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let tally = Tally::default();
    let mut total = 0;
    for path in &args.paths {
        let path = archive_path(path)?;
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
    if !common.quiet {
        eprintln!("{} removed", text::plural(tally.done(), "name"));
    }
    tally.outcome(total)
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
