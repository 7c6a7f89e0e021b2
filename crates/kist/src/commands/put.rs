//! `kist put`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::transfer::{JOBS_DEFAULT, LocalTree, PutItem, PutSettings, Putter, Tally, put_stream, walk};
use client::{Client, archive_path, join};
use terminal::{Exit, Failure, Outcome, Progress, output, parallel, text};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(override_usage = "kist put [OPTIONS] <LOCAL>... <REMOTE>")]
#[command(after_help = "\
A directory's content goes into REMOTE itself, so that the same command again
continues where it stopped: files with the same length and BLAKE3 in the
archive are skipped. Other content takes the place of what has that name, and
how often it did is said; --keep-existing refuses that. A file gets the name
REMOTE, or its own name in REMOTE if that is a directory or ends with '/'.
Several LOCALs get their own names in REMOTE; two of one name are refused. Kept: times, modes, owners' names,
symbolic links, empty directories.

Examples:
  kist put results /survey/2026
  kist put a.fits b.fits /survey/2026/
  tar c . | kist put - /backups/today.tar")]
pub struct Args {
    /// Files and directories, or - for standard input; the last one is where in the archive
    // One list: two would be told apart by what stands together, and an option amid them would be refused.
    #[arg(required = true, value_name = "LOCAL... REMOTE")]
    paths: Vec<PathBuf>,
    /// Files at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
    /// The storage class
    #[arg(long)]
    class: Option<String>,
    /// What belongs together on tape; default: each directory
    #[arg(long)]
    dataset: Option<String>,
    /// Refuse names that are taken by other content instead of making a new version
    #[arg(long)]
    keep_existing: bool,
    /// Send what is there already too
    #[arg(long)]
    again: bool,
    /// Give up at once when the pool has no room, also if some is being made
    #[arg(long)]
    no_wait: bool,
}

/// What is put, and where.
struct Way<'a> {
    local: &'a [PathBuf],
    remote: &'a str,
}

impl Args {
    fn way(&self) -> Outcome<Way<'_>> {
        match self.paths.split_last() {
            Some((remote, local)) if !local.is_empty() => {
                let wrong = || Failure::usage(format!("{}: a REMOTE is in UTF-8", remote.display()));
                Ok(Way { local, remote: remote.to_str().ok_or_else(wrong)? })
            }
            _ => Err(Failure::usage(
                "put needs what to put and where in the archive: kist put LOCAL... REMOTE",
            )),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let way = args.way()?;
    let client = common.connection.client()?;
    if way.local.iter().any(|local| local.as_os_str() == "-") {
        return stream(args, &way, common, &client);
    }
    let plan = plan(&way, &client)?;
    let settings = settings(args);
    let tally = Tally::default();
    let left_out = plan.left_out.len();
    for (path, failure) in plan.left_out {
        tally.add_failure(&path.display().to_string(), failure);
    }
    let bytes = plan.files.iter().map(|item| item.local.size).sum();
    let progress = Progress::start("put", plan.files.len() as u64, bytes, common.quiet);
    let putter = Putter::new(&client, &settings, &progress, &tally);
    if plan.directories.is_empty() {
        plan.parents.iter().try_for_each(|parent| putter.read_names(parent))?;
    }
    putter.directories(&plan.directories);
    let total = items(plan.files.len(), plan.directories.len() + left_out, tally.failed());
    putter.files(&plan.files);
    let elapsed = progress.elapsed();
    drop(progress);
    if tally.did_nothing() {
        return tally.outcome(total);
    }
    if !common.quiet {
        let skipped = match tally.skipped() {
            0 => String::new(),
            skipped => format!(", {} there already", text::files(skipped)),
        };
        let replaced = match tally.replaced() {
            0 => String::new(),
            replaced => format!(", {} in place of older versions", text::files(replaced)),
        };
        let speed = text::speed(tally.bytes(), elapsed);
        output::note(&format!("put {}, {speed}{replaced}{skipped}", text::files(tally.done())));
    }
    if common.json {
        output::json(&tally.json(elapsed))?;
    }
    tally.outcome(total)
}

/// Of how many items the exit code speaks, when `failed` of what is no file have. That a directory was made
/// is no success of the files that were to come into it.
fn items(files: usize, others: usize, failed: u64) -> usize {
    let failed = usize::try_from(failed).unwrap_or(usize::MAX);
    if files == 0 { others } else { files.saturating_add(failed) }
}

struct Plan {
    directories: Vec<PutItem>,
    files: Vec<PutItem>,
    parents: Vec<String>,
    left_out: Vec<(PathBuf, Failure)>,
}

fn plan(way: &Way<'_>, client: &Client) -> Outcome<Plan> {
    let into = way.remote.ends_with('/');
    let remote = archive_path(way.remote)?;
    let trees = way.local.iter().map(|local| walk(local).map(|tree| (local, tree)));
    let trees = trees.collect::<Outcome<Vec<(&PathBuf, LocalTree)>>>()?;
    let one_file = matches!(trees.as_slice(), [(_, tree)] if tree.directories.is_empty());
    let is_directory = || client.find(&remote).map(|stat| stat.is_some_and(|stat| stat.kind == "directory"));
    if !one_file {
        refuse_file(client, &remote)?;
    }
    let under_own_name = trees.len() > 1 || (one_file && (into || is_directory()?));
    let mut plan =
        Plan { directories: Vec::new(), files: Vec::new(), parents: Vec::new(), left_out: Vec::new() };
    let mut roots: BTreeMap<String, &PathBuf> = BTreeMap::new();
    for (local, tree) in trees {
        let root = if under_own_name { join(&remote, own_name(local)?) } else { remote.clone() };
        // One would take the place of the other, whichever comes first.
        if let Some(other) = roots.insert(root.clone(), local) {
            let (one, two) = (other.display(), local.display());
            let message = format!("{one} and {two} would both be {root}: put them one by one, or elsewhere");
            return Err(Failure::usage(message));
        }
        let place = |relative: &str| if relative.is_empty() { root.clone() } else { join(&root, relative) };
        let item = |local: client::transfer::LocalItem| PutItem { remote: place(&local.relative), local };
        plan.directories.extend(tree.directories.into_iter().map(item));
        plan.files.extend(tree.files.into_iter().map(item));
        plan.left_out.extend(tree.left_out);
        let parent =
            root.rsplit_once('/').map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent });
        if !plan.parents.iter().any(|known| known == parent) {
            plan.parents.push(parent.to_owned());
        }
    }
    Ok(plan)
}

/// Refuses to put several below what is a file: each of them would fail for it.
fn refuse_file(client: &Client, remote: &str) -> Outcome {
    match client.find(remote) {
        Ok(Some(stat)) if stat.kind != "directory" => {
            let message = format!("{remote} is a {}, no directory: choose another REMOTE", stat.kind);
            Err(Failure::new(Exit::Refused, message))
        }
        // Something above it is a file.
        Err(failure) if failure.word.as_deref() == Some("not-a-directory") => Err(failure),
        // Who may put may not have to look; what else is wrong each put tells.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn own_name(local: &Path) -> Outcome<&str> {
    local.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        let message = format!("{}: it has no name of its own in UTF-8: put it alone", local.display());
        Failure::usage(message)
    })
}

fn settings(args: &Args) -> PutSettings {
    PutSettings {
        jobs: args.jobs,
        class: args.class.clone(),
        dataset: args.dataset.clone(),
        keep_existing: args.keep_existing,
        again: args.again || args.keep_existing,
        no_wait: args.no_wait,
    }
}

fn stream(args: &Args, way: &Way<'_>, common: &Common, client: &Client) -> Outcome {
    if way.local.len() != 1 || way.remote.ends_with('/') {
        return Err(Failure::usage(
            "standard input goes alone to the full path of a file: kist put - /path/file",
        ));
    }
    let remote = archive_path(way.remote)?;
    let progress = Progress::start("put", 1, 0, common.quiet);
    let reply = put_stream(client, &settings(args), &mut std::io::stdin().lock(), &remote, &progress)?;
    let elapsed = progress.elapsed();
    drop(progress);
    if !common.quiet {
        let what = match (reply.created, reply.replaced) {
            (true, true) => ", in place of an older version",
            (true, false) => "",
            (false, _) => ", the same was there already",
        };
        output::note(&format!("put {}{what}", text::speed(reply.size, elapsed)));
    }
    if common.json { output::json(&reply) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// Story: a tree of which a full pool refused every file ended with 1, since directories were made.
    #[test]
    fn directories_that_were_made_are_no_items_that_were_done() {
        let exit = |files: u64, directories, failed_first: u64| {
            let tally = Tally::default();
            let full = || Failure::new(Exit::Refused, "full");
            (0..failed_first).for_each(|_| tally.add_failure("/d", full()));
            let total = items(files as usize, directories, tally.failed());
            (0..files).for_each(|_| tally.add_failure("/f", full()));
            tally.outcome(total).err().map(|failure| failure.exit)
        };
        assert_eq!(exit(3, 5, 0), Some(Exit::Refused));
        assert_eq!(exit(3, 5, 2), Some(Exit::Refused));
        assert_eq!(exit(0, 5, 2), Some(Exit::SomeFailed));
        assert_eq!(exit(0, 2, 2), Some(Exit::Refused));
        assert_eq!(exit(0, 2, 0), None);
    }

    /// Story: `kist put f --class small /x` was refused: unexpected argument '/x'.
    #[test]
    fn options_may_stand_between_the_paths() {
        for line in ["put a b --class C /x", "put a --class C b /x", "put --class C a b /x --jobs 2"] {
            let cli = Cli::try_parse_from(["kist"].into_iter().chain(line.split(' '))).unwrap();
            let Some(Command::Put(args)) = cli.command else { panic!("{line}") };
            let way = args.way().unwrap();
            assert_eq!((way.local, way.remote), (&[PathBuf::from("a"), PathBuf::from("b")][..], "/x"));
            assert_eq!(args.class.as_deref(), Some("C"), "{line}");
        }
        let cli = Cli::try_parse_from(["kist", "put", "-", "--class", "C"]).unwrap();
        let Some(Command::Put(args)) = cli.command else { panic!("put") };
        assert!(args.way().err().unwrap().message.contains("LOCAL... REMOTE"));
        assert!(Cli::try_parse_from(["kist", "put"]).is_err());
    }
}
