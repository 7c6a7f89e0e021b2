//! `kist get`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::transfer::{
    GetItem, Getter, JOBS_DEFAULT, RemoteItem, RemoteKind, Tally, download_to, walk_remote,
};
use client::{Client, archive_path, retry};
use terminal::{Failure, Outcome, Progress, output, parallel, text};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(override_usage = "kist get [OPTIONS] <REMOTE>... <LOCAL>")]
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
    /// Files and directories of the archive; the last one is where to, or - for standard output
    // One list: two would be told apart by what stands together, and an option amid them would be refused.
    #[arg(required = true, value_name = "REMOTE... LOCAL")]
    paths: Vec<PathBuf>,
    /// Files at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
    /// Fetch what is here already too
    #[arg(long)]
    again: bool,
}

/// What is got, and where to.
struct Way<'a> {
    remote: Vec<&'a str>,
    local: &'a Path,
}

impl Args {
    fn way(&self) -> Outcome<Way<'_>> {
        match self.paths.split_last() {
            Some((local, remote)) if !remote.is_empty() => {
                let wrong = |path: &Path| Failure::usage(format!("{}: a REMOTE is in UTF-8", path.display()));
                let remote = remote.iter().map(|path| path.to_str().ok_or_else(|| wrong(path)));
                Ok(Way { remote: remote.collect::<Outcome<_>>()?, local })
            }
            _ => Err(Failure::usage("get needs what to get and where to: kist get REMOTE... LOCAL")),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let way = args.way()?;
    let client = common.connection.client()?;
    if way.local.as_os_str() == "-" {
        return way.remote.iter().try_for_each(|path| to_standard_output(&client, &archive_path(path)?));
    }
    let (directories, files) = plan(&way, &client)?;
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
fn plan(way: &Way<'_>, client: &Client) -> Outcome<(Vec<GetItem>, Vec<GetItem>)> {
    refuse_one_place(way)?;
    let into = way.local.to_string_lossy().ends_with('/');
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    for path in &way.remote {
        let root = RemoteItem::of_stat(&client.stat(&archive_path(path)?)?)?;
        let is_directory = root.kind == RemoteKind::Directory;
        let under_own_name = way.remote.len() > 1 || (!is_directory && (into || way.local.is_dir()));
        let local = if under_own_name { way.local.join(own_name(&root.path)?) } else { way.local.to_owned() };
        if under_own_name && !way.local.is_dir() {
            let made = std::fs::create_dir_all(way.local);
            made.map_err(|error| Failure::io("making the directory", way.local, &error))?;
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

/// Refuses two of one name: one would take the place of the other, whichever comes first.
fn refuse_one_place(way: &Way<'_>) -> Outcome {
    if way.remote.len() < 2 {
        return Ok(());
    }
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for remote in &way.remote {
        let path = archive_path(remote)?;
        let name = own_name(&path)?.to_owned();
        let place = way.local.join(&name);
        if let Some(other) = names.insert(name, remote) {
            let place = place.display();
            let message = if other == *remote {
                format!("{remote} is named twice: both would be {place}")
            } else {
                format!("{other} and {remote} would both be {place}: get them one by one, or elsewhere")
            };
            return Err(Failure::usage(message));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// Story: a file that was named twice ended with "another kist get writes this file now".
    #[test]
    fn two_of_one_name_are_refused_before_the_first_byte() {
        let refused = |remote: &[&str]| {
            let way = Way { remote: remote.to_vec(), local: Path::new("out") };
            refuse_one_place(&way).err().map(|failure| (failure.exit.code(), failure.message))
        };
        let twice = "/a/x is named twice: both would be out/x";
        assert_eq!(refused(&["/a/x", "/a/x"]), Some((2, twice.to_owned())));
        let both = "/a/x and /b/x/ would both be out/x: get them one by one, or elsewhere";
        assert_eq!(refused(&["/a/x", "/b/x/"]), Some((2, both.to_owned())));
        assert_eq!(refused(&["/a/x", "/a/y"]), None);
        assert_eq!(refused(&["/a/x"]), None);
    }

    /// Story: `kist get /s/f --jobs 2 out` was refused: unexpected argument 'out'.
    #[test]
    fn options_may_stand_between_the_paths() {
        for line in ["get /a /b --jobs 2 out", "get /a --jobs 2 /b out", "get --jobs 2 /a /b out --again"] {
            let cli = Cli::try_parse_from(["kist"].into_iter().chain(line.split(' '))).unwrap();
            let Some(Command::Get(args)) = cli.command else { panic!("{line}") };
            let way = args.way().unwrap();
            assert_eq!((way.remote, way.local, args.jobs), (vec!["/a", "/b"], Path::new("out"), 2), "{line}");
        }
        let cli = Cli::try_parse_from(["kist", "get", "/a"]).unwrap();
        let Some(Command::Get(args)) = cli.command else { panic!("get") };
        assert!(args.way().err().unwrap().message.contains("REMOTE... LOCAL"));
    }
}
