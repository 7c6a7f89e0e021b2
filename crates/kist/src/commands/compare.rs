//! `kist compare`.

use std::collections::HashSet;
use std::path::PathBuf;

use client::transfer::{
    ComparePair, JOBS_DEFAULT, LocalTree, RemoteItem, RemoteKind, Tally, compare_all, walk, walk_remote,
};
use client::{Client, archive_path, join};
use terminal::{Exit, Failure, Outcome, Progress, output, parallel, text};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Reads every file of LOCAL and of REMOTE and compares all bytes, not checksums.
What is on one side only differs, too. Exit code 7 if anything differs.

Example:
  kist compare results /survey/2026")]
pub struct Args {
    /// A file or directory here
    local: PathBuf,
    /// Its counterpart in the archive
    remote: String,
    /// Files at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let remote = archive_path(&args.remote)?;
    let tree = walk(&args.local)?;
    let only_there = one_side_only(&client, &tree, &remote, args)?;
    let tally = Tally::default();
    for (path, failure) in only_there {
        tally.add_failure(&path, failure);
    }
    for (path, failure) in &tree.left_out {
        tally.add_failure(&path.display().to_string(), failure.clone());
    }
    let place = |relative: &str| if relative.is_empty() { remote.clone() } else { join(&remote, relative) };
    let pairs: Vec<ComparePair> =
        tree.files.iter().map(|file| ComparePair::new(file, place(&file.relative))).collect();
    let progress = Progress::start("compare", pairs.len() as u64, tree.bytes(), common.quiet);
    compare_all(&client, &pairs, args.jobs, &progress, &tally);
    let elapsed = progress.elapsed();
    drop(progress);
    if tally.did_nothing() {
        return tally.outcome(pairs.len().max(2));
    }
    if common.json {
        output::json(&serde_json::json!({
            "equal": tally.done(),
            "failed": tally.failed(),
            "differing": tally.failures_json(),
            "bytes": tally.bytes(),
            "seconds": elapsed.as_secs_f64(),
        }))?;
    } else {
        output::line(&format!(
            "{} equal, {} differ or failed; compared {}",
            text::files(tally.done()),
            text::count(tally.failed()),
            text::speed(tally.bytes(), elapsed)
        ))?;
    }
    tally.outcome(pairs.len().max(2))
}

/// What is only in the archive, and directories that are only here. Refuses a tree that cannot be read whole.
fn one_side_only(
    client: &Client,
    tree: &LocalTree,
    remote: &str,
    args: &Args,
) -> Outcome<Vec<(String, Failure)>> {
    let root = RemoteItem::of_stat(&client.stat(remote)?)?;
    if root.kind != RemoteKind::Directory {
        root.refuse_nearline()?;
        return Ok(Vec::new());
    }
    let (mut files, mut nearline) = (0u64, 0u64);
    let mut found = Vec::new();
    let here: HashSet<&str> =
        tree.files.iter().chain(&tree.directories).map(|item| item.relative.as_str()).collect();
    let mut there = HashSet::from([String::new()]);
    walk_remote(client, &root, &mut |item| {
        files += u64::from(item.kind != RemoteKind::Directory);
        nearline += u64::from(item.is_nearline());
        if !here.contains(item.relative.as_str()) {
            let message = format!("{}: only in the archive, not in {}", item.path, args.local.display());
            found.push((item.path.clone(), Failure::new(Exit::Differs, message)));
        }
        if item.kind == RemoteKind::Directory {
            there.insert(item.relative.clone());
        }
        Ok(())
    })?;
    root.refuse_nearline_below(nearline, files)?;
    for directory in tree.directories.iter().filter(|directory| !there.contains(&directory.relative)) {
        let message = format!("{}: the directory is not in the archive", directory.path.display());
        found.push((directory.relative.clone(), Failure::new(Exit::Differs, message)));
    }
    Ok(found)
}
