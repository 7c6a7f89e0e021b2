//! `kist bench s3`: Kist and other S3 servers on the same memory-backed drives, in turn.

// The client and the server of it are those of `kist bench doors`, too.
pub mod body;
pub mod caller;
mod figures;
pub mod link;
pub mod load;
pub mod ours;
pub mod sign;
pub mod target;

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use terminal::{Failure, Outcome, output};

use self::body::Checked;
use self::figures::{Report, Row};
use self::load::{Plan, Took};
use self::target::{DRIVES, Kind, Target};
use super::erasure::Program;
use super::{limits, page};
use crate::subject::{Call, Subject};

/// Times by server, round and phase.
type Rounds = Vec<(&'static str, Vec<Vec<Took>>)>;

/// Rounds of each; the median counts.
const ROUNDS: usize = 3;
/// Connections for large objects, as many as clients' transfer managers use at least.
const STREAMS: usize = 4;
/// What Kist has to reach against MinIO.
const BARS: [(&str, f64); 6] =
    [(PUT, 3.0), (PUT_MD5, 1.5), (GET, 1.1), (PUT_SMALL, 2.0), (GET_SMALL, 2.0), (LIST, 2.0)];
const PUT: &str = "put, CRC-64 in a trailer";
const PUT_MD5: &str = "put, Content-MD5";
const GET: &str = "get";
const PUT_SMALL: &str = "put, 16 kB";
const GET_SMALL: &str = "get, 16 kB";
const LIST: &str = "list";

/// What `kist bench s3` takes of the arguments of `kist bench`.
pub struct Args<'a> {
    /// Other servers.
    pub peers: &'a [Program],
    /// Less, in less than a minute or two.
    pub quick: bool,
    /// Large objects.
    pub files: Option<u64>,
    /// Bytes of each.
    pub size: Option<u64>,
    /// Connections for small ones.
    pub clients: Option<usize>,
    /// Where the drives are made.
    pub dir: Option<&'a Path>,
    /// A page whose generated part is written anew.
    pub write: Option<&'a Path>,
}

impl Args<'_> {
    fn plan(&self) -> Plan {
        let (files, size, small, keys, rounds) = match self.quick {
            true => (2, 64 << 20, 2_000, 10_000, 1),
            false => (8, 256 << 20, 20_000, 1_000_000, ROUNDS),
        };
        Plan {
            files: self.files.unwrap_or(files).max(1),
            size: self.size.unwrap_or(size).max(1),
            streams: STREAMS,
            small,
            clients: self.clients.unwrap_or(64).clamp(1, terminal::parallel::JOBS_MAX),
            keys,
            rounds,
        }
    }
}

/// Measures all servers, prints the table, and writes the page if one is named.
pub fn run(args: &Args<'_>, call: Call<'_>) -> Outcome {
    let mut kinds = vec![Kind::Kist];
    for peer in args.peers {
        kinds.push(Kind::peer(&peer.name, &peer.path)?);
    }
    let place = args.dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let bench = Bench { plan: args.plan(), kinds, place, quiet: call.style.quiet, subject: call.subject };
    let mut rows = Vec::new();
    rows.extend(bench.large()?);
    rows.extend(bench.large_md5()?);
    rows.extend(bench.small()?);
    rows.extend(bench.list()?);
    let bar = |operation: &str| BARS.iter().find(|(name, _)| *name == operation).map(|(_, bar)| *bar);
    let report = Report::of(rows, bar);
    if let Some(page) = args.write {
        page::write(page, "kist bench s3", &report.markdown(&bench.note()))?;
    }
    if call.style.json { output::json(&report) } else { output::write(&report.text()) }
}

struct Bench<'a> {
    plan: Plan,
    kinds: Vec<Kind>,
    place: PathBuf,
    quiet: bool,
    subject: &'a dyn Subject,
}

impl Bench<'_> {
    /// Runs each round on each server in turn, each time a new one on empty drives; gives the rounds of each
    /// server and phase.
    fn rounds(
        &self,
        what: &str,
        bytes: u64,
        work: impl Fn(&Target) -> Outcome<Vec<Took>>,
    ) -> Outcome<Rounds> {
        let mut all: Rounds = self.kinds.iter().map(|kind| (kind.name(), Vec::new())).collect();
        for round in 1..=self.plan.rounds {
            for (kind, found) in self.kinds.iter().zip(&mut all) {
                self.say(&format!("{what}: {}, round {round} of {}", kind.name(), self.plan.rounds));
                let directory = self.directory()?;
                let target = Target::start(kind, directory.path(), DRIVES, self.subject)?;
                let _warm = limits::warm(directory.path(), bytes + bytes * 6 / 10 + (256 << 20))?;
                found.1.push(work(&target)?);
            }
        }
        Ok(all)
    }

    /// Rows of the phases of all servers.
    fn rows(
        &self,
        phases: &[(&'static str, &'static str)],
        found: Vec<(&'static str, Vec<Vec<Took>>)>,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, (operation, unit)) in phases.iter().enumerate() {
            for (server, rounds) in &found {
                let of = rounds.iter().filter_map(|round| round.get(at).copied()).collect();
                rows.push(Row::new(operation, server, unit, of));
            }
        }
        rows
    }

    fn large(&self) -> Outcome<Vec<Row>> {
        let plan = self.plan;
        let found = self.rounds("large objects", plan.files * plan.size, |target| {
            Ok(vec![load::put_large(target, plan, Checked::Trailer)?, load::get_large(target, plan)?])
        })?;
        Ok(self.rows(&[(PUT, "B/s"), (GET, "B/s")], found))
    }

    fn large_md5(&self) -> Outcome<Vec<Row>> {
        let plan = self.plan;
        let found = self.rounds("large objects with an MD5", plan.files * plan.size, |target| {
            Ok(vec![load::put_large(target, plan, Checked::Md5)?])
        })?;
        Ok(self.rows(&[(PUT_MD5, "B/s")], found))
    }

    fn small(&self) -> Outcome<Vec<Row>> {
        let plan = self.plan;
        let found = self.rounds("small objects", plan.small * load::SMALL_BYTES as u64, |target| {
            Ok(vec![load::put_small(target, plan)?, load::get_small(target, plan)?])
        })?;
        Ok(self.rows(&[(PUT_SMALL, "1/s"), (GET_SMALL, "1/s")], found))
    }

    /// Listings, on one server after the other, since making the keys takes longest. MinIO has one drive
    /// here: a file and a directory a key and drive would fill the memory, and with one it has less to ask.
    fn list(&self) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        for kind in &self.kinds {
            self.say(&format!("making {} keys: {}", self.plan.keys, kind.name()));
            let directory = self.directory()?;
            let target = Target::start(kind, directory.path(), 1, self.subject)?;
            load::make_keys(&target, self.plan)?;
            let rounds =
                (0..self.plan.rounds).map(|_| load::list(&target, self.plan)).collect::<Outcome<_>>()?;
            rows.push(Row::new(LIST, kind.name(), "1/s", rounds));
        }
        Ok(rows)
    }

    fn directory(&self) -> Outcome<TempDir> {
        let made = tempfile::Builder::new().prefix("kist-bench-").tempdir_in(&self.place);
        made.map_err(|error| Failure::io("making the drives", &self.place, &error))
    }

    fn say(&self, what: &str) {
        if !self.quiet {
            output::note(&format!("bench: {what}"));
        }
    }

    fn note(&self) -> String {
        let Plan { files, size, streams, small, clients, keys, rounds } = self.plan;
        format!(
            "{files} objects of {} over {streams} connections; {small} small ones over {clients}; \
             {keys} keys in pages of 1000, one connection, MinIO on one drive. Median of {rounds}. {}",
            terminal::text::size(size),
            target::note()
        )
    }
}
