//! `kist pool import-kinetic`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::transfer::{PutSettings, Tally, put_input};
use client::{Client, archive_path, join};
use kinetic_import::{Cluster, FileInfo, FileStream, ImportError, LinkedDrives, ReadReport};
use kineticio::{ClusterDefinition, Document, FirstDrive, read_documents};
use terminal::{Exit, Failure, Outcome, Progress, Table, output, parallel, text};
use wire::MakeDirectoryBody;

use crate::cli::Common;

/// Files at once unless told otherwise: each has some 100 MiB of blocks in memory.
const JOBS_DEFAULT: usize = 2;
/// Files whose sizes are asked for at once.
const STAT_JOBS: usize = 16;
/// How long a drive may take to greet.
const GREETING_WITHIN: Duration = Duration::from_secs(20);
/// A document has fewer bytes.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
const COPY_BYTES: usize = 1 << 20;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The three documents are those that libkineticio reads: JSON, or the name of a file
with it; one file may be all three. Nothing is written to the drives. Files keep
their paths in the cluster, below what --to names. What is there already with the
same size is passed over, so that the same command again goes on where it stopped.
A damaged file is named with its reason, the others are put all the same, and the
exit code is 7. Times, owners and modes are not in such a cluster: EOS has them in
its namespace.

Examples:
  kist pool import-kinetic --location k.json --security k.json --cluster k.json --list
  kist pool import-kinetic --location k.json --security k.json --cluster k.json --dry-run
  kist pool import-kinetic --location l.json --security s.json --cluster c.json \\
      --to /eos/kinetic 00000000 00000001")]
pub struct Args {
    /// Where the drives are (KINETIC_DRIVE_LOCATION): JSON, or a file
    #[arg(long, value_name = "JSON|FILE")]
    location: String,
    /// Who may use them (KINETIC_DRIVE_SECURITY); a file keeps the keys out of the list of processes
    #[arg(long, value_name = "JSON|FILE")]
    security: String,
    /// Which drives are a cluster (KINETIC_CLUSTER_DEFINITION): JSON, or a file
    #[arg(long, value_name = "JSON|FILE")]
    cluster: String,
    /// The clusterID, if the document defines several
    #[arg(long)]
    id: Option<String>,
    /// Where the first chunk of a stripe is, if the places of the keys do not tell
    #[arg(long, value_name = "DRIVE", value_parser = ["hash", "after-hash"])]
    first_drive: Option<String>,
    /// List the files and their sizes
    #[arg(long, conflicts_with_all = ["to", "dry_run"])]
    list: bool,
    /// Where in the archive to put them
    #[arg(long, value_name = "DIRECTORY", required_unless_present_any = ["list", "dry_run"])]
    to: Option<String>,
    /// Read and check all, and put nothing
    #[arg(long)]
    dry_run: bool,
    /// Put what has another size than the file there in its place
    #[arg(long)]
    replace: bool,
    /// Files at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
    /// The storage class
    #[arg(long)]
    class: Option<String>,
    /// Files, or what their paths begin with before a '/' [default: all]
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

/// A file of the cluster.
struct Found {
    path: String,
    info: FileInfo,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let definition = definition(args)?;
    // Before the drives: who cannot put need not wait for them.
    let way = match &args.to {
        Some(to) if !args.dry_run => Some((common.connection.client()?, archive_path(to)?)),
        _ => None,
    };
    let cluster = open(args, &definition, common)?;
    let tally = Tally::default();
    let files = find(args, &cluster, &tally, common)?;
    if args.list {
        list(&files, &cluster, &tally, common)?;
        return tally.outcome(files.len() + usize::try_from(tally.failed()).unwrap_or(usize::MAX));
    }
    let bytes = files.iter().map(|file| file.info.size).sum();
    let title = if args.dry_run { "read" } else { "import" };
    let progress = Progress::start(title, files.len() as u64, bytes, common.quiet);
    let failed = usize::try_from(tally.failed()).unwrap_or(usize::MAX);
    let total = files.len().saturating_add(failed);
    let settings =
        PutSettings { jobs: args.jobs, class: args.class.clone(), again: true, ..PutSettings::default() };
    let import = Import {
        cluster: &cluster,
        way: way.as_ref(),
        settings: &settings,
        is_replacing: args.replace,
        progress: &progress,
        tally: &tally,
        made: Mutex::default(),
        seen: Mutex::default(),
    };
    parallel::each(&files, args.jobs, &tally.stop, |file| import.file(file));
    let elapsed = progress.elapsed();
    let seen = import.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    drop(progress);
    if !common.quiet && !tally.did_nothing() {
        let (what, speed) = (if args.dry_run { "read" } else { "put" }, text::speed(tally.bytes(), elapsed));
        let there = match tally.skipped() {
            0 => String::new(),
            skipped => format!(", {} there already", text::files(skipped)),
        };
        output::note(&format!("{what} {}, {speed}{there}{}", text::files(tally.done()), noticed(&seen)));
    }
    if common.json {
        let mut value = tally.json(elapsed);
        value["read"] = report_json(&seen);
        output::json(&value)?;
    }
    tally.outcome(total)
}

/// The text of a document that was given, as itself or as the name of a file.
fn text_of(option: &str, given: &str) -> Outcome<(String, String)> {
    if given.trim_start().starts_with('{') {
        return Ok((option.to_owned(), given.to_owned()));
    }
    let path = Path::new(given);
    let failed = |error: std::io::Error| Failure::io("reading", path, &error);
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > DOCUMENT_BYTES_MAX {
        return Err(Failure::usage(format!("{given}: a document has at most 16 MiB")));
    }
    Ok((format!("{option} {given}"), std::fs::read_to_string(path).map_err(failed)?))
}

fn definition(args: &Args) -> Outcome<ClusterDefinition> {
    let location = text_of("--location", &args.location)?;
    let security = text_of("--security", &args.security)?;
    let cluster = text_of("--cluster", &args.cluster)?;
    let all = read_documents(
        Document { name: &location.0, text: &location.1 },
        Document { name: &security.0, text: &security.1 },
        Document { name: &cluster.0, text: &cluster.1 },
    )
    .map_err(|error| Failure::usage(error.to_string()))?;
    let ids = all.iter().map(|cluster| cluster.id.as_str()).collect::<Vec<_>>().join(", ");
    let mut chosen = all.into_iter().filter(|cluster| args.id.as_ref().is_none_or(|id| *id == cluster.id));
    match (chosen.next(), chosen.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::new(Exit::NotFound, format!("{}: its clusters are: {ids}", cluster.0))),
        (Some(_), Some(_)) => Err(Failure::usage(format!("choose a cluster with --id: {ids}"))),
    }
}

fn open(args: &Args, definition: &ClusterDefinition, common: &Common) -> Outcome<Arc<Cluster>> {
    let drives = LinkedDrives::new(definition)
        .map_err(|error| Failure::internal(format!("no thread can be started: {error}")))?;
    let away = drives.open(GREETING_WITHIN);
    for (drive, reason) in &away {
        let wwn = definition.drives.get(drive.0).map_or("", |drive| drive.wwn.as_str());
        if !common.quiet {
            output::note(&format!("kist: drive {} ({wwn}) is away: {reason}", drive.0));
        }
    }
    let parity = definition.shape.parity();
    if away.len() > parity {
        let (count, of) = (away.len(), definition.drives.len());
        let message = format!("{count} of {of} drives are away, and the cluster can do without {parity}");
        return Err(Failure::new(Exit::Unreachable, message));
    }
    let first = match args.first_drive.as_deref() {
        Some("hash") => Some(FirstDrive::Hash),
        Some(_) => Some(FirstDrive::AfterHash),
        None => None,
    };
    Cluster::open(definition, Box::new(drives), first).map_err(|error| failure(&error))
}

fn failure(error: &ImportError) -> Failure {
    let exit = match error {
        ImportError::DrivesAway { .. } => Exit::Unreachable,
        ImportError::FirstDrive => Exit::Refused,
        ImportError::NoFile => Exit::NotFound,
        ImportError::Thread(_) => Exit::Internal,
        _ => Exit::Differs,
    };
    Failure::new(exit, error.to_string())
}

/// The files that were asked for, with their sizes. Of what is damaged it is told.
fn find(args: &Args, cluster: &Cluster, tally: &Tally, common: &Common) -> Outcome<Vec<Found>> {
    let mut paths: BTreeSet<Vec<u8>> = BTreeSet::new();
    let all = [String::new()];
    let asked = if args.paths.is_empty() { &all[..] } else { &args.paths };
    for beginning in asked {
        let before = paths.len();
        let is_asked = |path: &[u8]| {
            let rest = path.strip_prefix(beginning.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || beginning.is_empty() || rest.starts_with(b"/"))
        };
        let mut each = |path: &[u8]| {
            if is_asked(path) {
                paths.insert(path.to_vec());
            }
            ControlFlow::Continue(())
        };
        cluster.list(beginning.as_bytes(), &mut each).map_err(|error| failure(&error))?;
        if paths.len() == before && !beginning.is_empty() {
            tally
                .add_failure(beginning, Failure::new(Exit::NotFound, "the cluster has no file of this name"));
        }
    }
    let paths: Vec<Vec<u8>> = paths.into_iter().collect();
    let progress = Progress::start("list", paths.len() as u64, 0, common.quiet);
    let found = Mutex::new(Vec::new());
    parallel::each(&paths, STAT_JOBS, &tally.stop, |path| {
        let shown = String::from_utf8_lossy(path);
        match (String::from_utf8(path.clone()), cluster.stat(path)) {
            (_, Err(error)) => tally.add_failure(&shown, failure(&error)),
            (Err(_), _) => {
                let message = "its path is not in UTF-8, and a name of the archive is";
                tally.add_failure(&shown, Failure::new(Exit::Refused, message));
            }
            (Ok(path), Ok(info)) => {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(Found { path, info });
            }
        }
        progress.add_files(1);
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn list(files: &[Found], cluster: &Cluster, tally: &Tally, common: &Common) -> Outcome {
    if common.json {
        let mut values = Vec::new();
        for Found { path, info } in files {
            let attributes = match cluster.attributes(path.as_bytes()) {
                Ok(attributes) => attributes,
                Err(error) => {
                    tally.add_failure(path, failure(&error));
                    Vec::new()
                }
            };
            let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let attributes: serde_json::Map<String, serde_json::Value> =
                attributes.iter().map(|(name, value)| (lossy(name), lossy(value).into())).collect();
            values.push(serde_json::json!({
                "path": path,
                "size": info.size,
                "blocks": info.blocks,
                "attributes": attributes,
            }));
        }
        return output::json(&serde_json::json!({ "files": values, "failures": tally.failures_json() }));
    }
    let mut table = Table::new(&["SIZE", "BLOCKS", "PATH"]);
    for Found { path, info } in files {
        table.row(vec![text::size(info.size), info.blocks.to_string(), path.clone()]);
    }
    output::write(&table.render())
}

/// What all files of an import share.
struct Import<'a> {
    cluster: &'a Arc<Cluster>,
    way: Option<&'a (Client, String)>,
    settings: &'a PutSettings,
    is_replacing: bool,
    progress: &'a Progress,
    tally: &'a Tally,
    made: Mutex<BTreeSet<String>>,
    seen: Mutex<ReadReport>,
}

impl Import<'_> {
    fn file(&self, file: &Found) {
        match self.put(file) {
            Ok(true) => self.tally.add_done(file.info.size),
            Ok(false) => {
                self.tally.add_skipped();
                self.progress.add_bytes(file.info.size);
            }
            Err(failure) => self.tally.add_failure(&file.path, failure),
        }
        self.progress.add_files(1);
    }

    /// Puts a file; `false` if it was there already.
    fn put(&self, file: &Found) -> Outcome<bool> {
        let Some((client, to)) = self.way else {
            return self.read(file).map(|()| true);
        };
        let remote = archive_path(&join(to, file.path.trim_start_matches('/')))?;
        let before = client.find(&remote)?;
        if let Some(stat) = &before {
            if stat.kind == "file" && stat.size == file.info.size {
                return Ok(false);
            }
            if !self.is_replacing || stat.kind != "file" {
                let (there, ours) = (text::size(stat.size), text::size(file.info.size));
                let message = format!(
                    "{remote} is there and another one: a {} of {there}, the cluster's has {ours}; --replace \
                     puts that in the place of a file",
                    stat.kind
                );
                return Err(Failure::new(Exit::Refused, message));
            }
        }
        self.parent(client, &remote)?;
        let mut stream = self.open(file)?;
        // Nothing is sent as of unknown length: no server is asked whether it would take it.
        let length = Some(file.info.size).filter(|size| *size > 0);
        let put = put_input(client, self.settings, &mut stream, length, &remote, self.progress);
        self.notice(file, stream.report());
        // The put broke off since the file could not be read.
        if let Some(error) = stream.failure() {
            return Err(failure(error));
        }
        if put?.replaced {
            self.tally.add_replaced();
        }
        Ok(true)
    }

    fn open(&self, file: &Found) -> Outcome<FileStream> {
        FileStream::open(self.cluster, file.path.as_bytes(), file.info.clone())
            .map_err(|error| failure(&error))
    }

    fn read(&self, file: &Found) -> Outcome {
        let mut stream = self.open(file)?;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let count = std::io::Read::read(&mut stream, &mut buffer);
            if let Some(error) = stream.failure() {
                return Err(failure(error));
            }
            match count {
                Ok(0) | Err(_) => break,
                Ok(count) => self.progress.add_bytes(count as u64),
            }
        }
        self.notice(file, stream.report());
        Ok(())
    }

    /// Makes the directory that the file comes into, once.
    fn parent(&self, client: &Client, remote: &str) -> Outcome {
        let parent = remote.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_new = self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(parent.to_owned());
        if !parent.is_empty() && is_new {
            let body = MakeDirectoryBody {
                path: parent.to_owned(),
                parents: true,
                mode: None,
                mtime: None,
                owner: None,
                group: None,
                class: None,
            };
            client.post("/api/v1/mkdir", &body)?;
        }
        Ok(())
    }

    fn notice(&self, file: &Found, report: &ReadReport) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.checked.add(report.checked);
        seen.rebuilt += report.rebuilt;
        seen.handoffs += report.handoffs;
        seen.damaged += report.damaged;
        seen.hole_bytes += report.hole_bytes;
        drop(seen);
        if report.hole_bytes > 0 && !self.progress.is_quiet() {
            let holes = text::size(report.hole_bytes);
            output::note(&format!("kist: {}: {holes} of it were never written and are zeros", file.path));
        }
    }
}

/// What was noticed, for people.
fn noticed(report: &ReadReport) -> String {
    let mut said = String::new();
    for (count, what) in [
        (report.rebuilt, "computed from others"),
        (report.handoffs, "from stand-ins"),
        (report.damaged, "damaged"),
        (report.checked.unchecked, "without a checksum that is known"),
    ] {
        if count > 0 {
            said.push_str(&format!(", {} {what}", text::plural(count, "chunk")));
        }
    }
    said
}

fn report_json(report: &ReadReport) -> serde_json::Value {
    serde_json::json!({
        "chunks_crc32c": report.checked.crc32c,
        "chunks_crc32": report.checked.crc32,
        "chunks_unchecked": report.checked.unchecked,
        "chunks_rebuilt": report.rebuilt,
        "chunks_from_handoffs": report.handoffs,
        "chunks_damaged": report.damaged,
        "hole_bytes": report.hole_bytes,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    const DOCUMENTS: [&str; 6] = ["--location", "k", "--security", "k", "--cluster", "k"];

    #[test]
    fn it_lists_or_reads_or_puts() {
        let parse = |rest: &[&str]| {
            Cli::try_parse_from([&["kist", "pool", "import-kinetic"], &DOCUMENTS[..], rest].concat()).is_ok()
        };
        for good in [
            &["--list"][..],
            &["--dry-run", "a"],
            &["--to", "/x"],
            &["--to", "/x", "a", "b", "--first-drive", "hash"],
            &["--list", "--json"],
        ] {
            assert!(parse(good), "{good:?}");
        }
        for bad in
            [&[][..], &["a"], &["--list", "--to", "/x"], &["--list", "--dry-run"], &["--first-drive", "2"]]
        {
            assert!(!parse(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_document_is_text_or_a_file() {
        assert_eq!(text_of("--cluster", " {}").unwrap(), ("--cluster".to_owned(), " {}".to_owned()));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("k.json");
        std::fs::write(&file, "{\"cluster\": []}").unwrap();
        let name = file.to_str().unwrap();
        let (shown, text) = text_of("--cluster", name).unwrap();
        assert_eq!((shown, text.as_str()), (format!("--cluster {name}"), "{\"cluster\": []}"));
        assert!(text_of("--cluster", "/nowhere/k.json").is_err());
    }

    #[test]
    fn what_was_noticed_is_said() {
        let report = ReadReport { rebuilt: 2, damaged: 1, ..ReadReport::default() };
        assert_eq!(noticed(&report), ", 2 chunks computed from others, 1 chunk damaged");
        assert_eq!(noticed(&ReadReport::default()), "");
    }
}
