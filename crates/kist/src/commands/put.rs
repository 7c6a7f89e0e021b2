//! `kist put`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::transfer::{JOBS_DEFAULT, LocalTree, PutItem, PutSettings, Putter, Tally, put_stream, walk};
use client::{Client, archive_path, join};
use terminal::{Failure, Outcome, Progress, output, parallel, text};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
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
    /// Files and directories, or - for standard input
    #[arg(required = true, value_name = "LOCAL")]
    local: Vec<PathBuf>,
    /// Where in the archive
    #[arg(required = true)]
    remote: String,
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
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if args.local.iter().any(|local| local.as_os_str() == "-") {
        return stream(args, common, &client);
    }
    let plan = plan(args, &client)?;
    let settings = settings(args);
    let tally = Tally::default();
    let total = plan.files.len() + plan.directories.len() + plan.left_out.len();
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

struct Plan {
    directories: Vec<PutItem>,
    files: Vec<PutItem>,
    parents: Vec<String>,
    left_out: Vec<(PathBuf, Failure)>,
}

fn plan(args: &Args, client: &Client) -> Outcome<Plan> {
    let into = args.remote.ends_with('/');
    let remote = archive_path(&args.remote)?;
    let trees = args.local.iter().map(|local| walk(local).map(|tree| (local, tree)));
    let trees = trees.collect::<Outcome<Vec<(&PathBuf, LocalTree)>>>()?;
    let one_file = matches!(trees.as_slice(), [(_, tree)] if tree.directories.is_empty());
    let is_directory = || client.find(&remote).map(|stat| stat.is_some_and(|stat| stat.kind == "directory"));
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
    }
}

fn stream(args: &Args, common: &Common, client: &Client) -> Outcome {
    if args.local.len() != 1 || args.remote.ends_with('/') {
        return Err(Failure::usage(
            "standard input goes alone to the full path of a file: kist put - /path/file",
        ));
    }
    let remote = archive_path(&args.remote)?;
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
