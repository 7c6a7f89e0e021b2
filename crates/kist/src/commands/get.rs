//! `kist get`.

use std::path::{Path, PathBuf};

use client::transfer::{
    GetItem, Getter, JOBS_DEFAULT, RemoteItem, RemoteKind, Tally, download_to, walk_remote,
};
use client::{Client, archive_path, retry};
use terminal::{Failure, Outcome, Progress, output, parallel, text};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The content of one directory goes into LOCAL itself; the same command again
skips what is here with the same length and BLAKE3. A file gets the name
LOCAL, or its own name if LOCAL is a directory or ends with '/'. Several
REMOTEs get their own names in LOCAL. Each file arrives under a temporary
name, is checked against its BLAKE3, and is then renamed. Files on tape only
are refused: bring them back with kist stage first.

Examples:
  kist get /survey/2026 results
  kist get /backups/today.tar - | tar t")]
pub struct Args {
    /// Files and directories of the archive
    #[arg(required = true, value_name = "REMOTE")]
    remote: Vec<String>,
    /// Where to, or - for standard output
    #[arg(required = true)]
    local: PathBuf,
    /// Files at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
    /// Fetch what is here already too
    #[arg(long)]
    again: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if args.local.as_os_str() == "-" {
        return args.remote.iter().try_for_each(|path| to_standard_output(&client, &archive_path(path)?));
    }
    let (directories, files) = plan(args, &client)?;
    let tally = Tally::default();
    let bytes = files.iter().map(|item| item.remote.size).sum();
    let progress = Progress::start("get", files.len() as u64, bytes, common.quiet);
    let getter =
        Getter { client: &client, jobs: args.jobs, again: args.again, progress: &progress, tally: &tally };
    getter.make_directories(&directories);
    getter.files(&files);
    getter.finish_directories(&directories);
    let elapsed = progress.elapsed();
    drop(progress);
    if tally.did_nothing() {
        return tally.outcome(files.len() + directories.len());
    }
    if !common.quiet {
        let skipped = match tally.skipped() {
            0 => String::new(),
            skipped => format!(", {} here already", text::files(skipped)),
        };
        let speed = text::speed(tally.bytes(), elapsed);
        output::note(&format!("got {}, {speed}{skipped}", text::files(tally.done())));
    }
    if common.json {
        output::json(&tally.json(elapsed))?;
    }
    tally.outcome(files.len() + directories.len())
}

/// What to get and where to put it: directories, parents first, and files.
fn plan(args: &Args, client: &Client) -> Outcome<(Vec<GetItem>, Vec<GetItem>)> {
    let into = args.local.to_string_lossy().ends_with('/');
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    for path in &args.remote {
        let root = RemoteItem::of_stat(&client.stat(&archive_path(path)?)?)?;
        let is_directory = root.kind == RemoteKind::Directory;
        let under_own_name = args.remote.len() > 1 || (!is_directory && (into || args.local.is_dir()));
        let local = if under_own_name { args.local.join(own_name(&root.path)?) } else { args.local.clone() };
        if under_own_name && !args.local.is_dir() {
            let made = std::fs::create_dir_all(&args.local);
            made.map_err(|error| Failure::io("making the directory", &args.local, &error))?;
        }
        if !is_directory {
            root.refuse_nearline()?;
            files.push(GetItem { remote: root, local });
            continue;
        }
        let place = |relative: &str| -> PathBuf { local.join(Path::new(relative)) };
        let (mut nearline, before) = (0u64, files.len());
        directories.push(GetItem { remote: root.clone(), local: local.clone() });
        walk_remote(client, &root, &mut |item| {
            let list = if item.kind == RemoteKind::Directory { &mut directories } else { &mut files };
            nearline += u64::from(item.is_nearline());
            list.push(GetItem { remote: item.clone(), local: place(&item.relative) });
            Ok(())
        })?;
        root.refuse_nearline_below(nearline, (files.len() - before) as u64)?;
    }
    Ok((directories, files))
}

fn own_name(path: &str) -> Outcome<&str> {
    match path.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => Ok(name),
        _ => Err(Failure::usage("the root has no name of its own: get it alone")),
    }
}

fn to_standard_output(client: &Client, path: &str) -> Outcome {
    let progress = Progress::start("get", 1, 0, true);
    let mut written = false;
    let mut out = Counting { inner: std::io::stdout().lock(), written: &mut written };
    // What was written cannot be taken back, so only a request that brought nothing is repeated.
    let done = retry(|_| {
        download_to(client, path, &mut out, &progress).map_err(|mut attempt| {
            if *out.written {
                attempt.again = None;
            }
            attempt
        })
    });
    drop(out);
    done.map(drop)?;
    output::flush()
}

struct Counting<'a> {
    inner: std::io::StdoutLock<'static>,
    written: &'a mut bool,
}

impl std::io::Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.written = true;
        match self.inner.write(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
