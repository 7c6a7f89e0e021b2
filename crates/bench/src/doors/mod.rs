//! `kist bench doors`: the same files through WebDAV, XRootD and S3, in turn with nginx and a stock XRootD on
//! plain directories of the same file system; and how long the Tape REST API takes for a large request.

mod bed;
mod figures;
mod load;
mod peers;
mod tape_rest;

use std::path::{Path, PathBuf};

use config::Size;
use terminal::{Failure, Outcome, output, parallel};

use self::bed::Bed;
use self::figures::{Report, Row};
use self::load::{Amount, Files, Source};
use self::peers::{Found, Wanted};
use super::{limits, page};
use crate::subject::Call;

/// Rounds of each; the median counts.
const ROUNDS: usize = 3;
/// Small files, and bytes of each.
const SMALL_FILES: u64 = 10_000;
const SMALL_BYTES: u64 = 16_000;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
One large file over one connection and many small files, put and got through
each door of one instance, in turn: S3, WebDAV, XRootD with Kist's plugins, and
beside them nginx with its DAV module and a stock XRootD, both on plain
directories of the same file system. HTTP is spoken by one client within this
program, which sends what was made before and throws away what it gets; XRootD by
xrdcp. Then a request of the Tape REST API with all small files, which only tapes
have. What is missing on this machine is told, and its rows are left out. XRootD
listens at all addresses of the machine while it is measured.

Examples:
  kist bench doors --quick --dir /dev/shm
  kist bench doors --json --dir /dev/shm --plugins target/xrootd")]
pub struct Args {
    /// A smoke test of some seconds: less of everything, once
    #[arg(long)]
    quick: bool,
    /// Bytes of the large file [default: 1GiB]
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    size: Option<Size>,
    /// Small files, of 16 kB each [default: 10000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    files: Option<u64>,
    /// Connections for small files over HTTP; xrdcp has four
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Rounds; the median counts [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Where all is made: a directory in memory, or on a disk, which others may enter [default: the system's
    /// temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The directory of XRootD's plugins, if it is none that the system searches
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// nginx with its DAV module [default: the one that is found in PATH, /usr/sbin or /usr/local/sbin]
    #[arg(long, value_name = "PROGRAM")]
    nginx: Option<PathBuf>,
    /// A page whose generated part is written anew
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// How much of each.
#[derive(Clone, Copy, Debug)]
struct Plan {
    large: Files,
    small: Files,
    clients: usize,
    rounds: usize,
}

impl Args {
    fn plan(&self) -> Plan {
        let (size, files, rounds) =
            if self.quick { (32 << 20, 500, 1) } else { (1 << 30, SMALL_FILES, ROUNDS) };
        let size = self.size.map_or(size, |size| size.0.0).max(1);
        Plan {
            large: Files { amount: Amount::Large, count: 1, size },
            small: Files { amount: Amount::Small, count: self.files.unwrap_or(files), size: SMALL_BYTES },
            clients: self.clients.clamp(1, parallel::JOBS_MAX),
            rounds: self.rounds.map_or(rounds, |rounds| rounds as usize),
        }
    }
}

/// Measures all doors and peers that are there, prints the tables, and writes the page if one is named.
pub fn run(args: &Args, call: Call<'_>) -> Outcome {
    let place = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let place = place.canonicalize().map_err(|error| Failure::io("entering", &place, &error))?;
    let plan = args.plan();
    let found = peers::find(&Wanted { plugins: args.plugins.as_deref(), nginx: args.nginx.as_deref() })?;
    if !call.style.quiet {
        found.missing.iter().for_each(|missing| output::note(&format!("bench: {}", missing.told())));
    }
    let bench = Bench { plan, found, place, call };
    bench.check_room()?;
    let mut rows = bench.rows(plan.large, 1)?;
    rows.extend(bench.rows(plan.small, plan.clients)?);
    let tape = bench.tape_rest()?;
    let report = Report::of(rows, tape, bench.found.missing.clone(), bench.note());
    if let Some(page) = &args.write {
        page::write(page, "kist bench doors", &report.markdown())?;
    }
    if call.style.json { output::json(&report) } else { output::write(&report.text()) }
}

struct Bench<'a> {
    plan: Plan,
    found: Found,
    place: PathBuf,
    call: Call<'a>,
}

impl Bench<'_> {
    /// Puts and gets of all servers. Each round begins with new servers on empty directories, and another
    /// server is the first.
    fn rows(&self, files: Files, clients: usize) -> Outcome<Vec<Row>> {
        let source = Source::new(files)?;
        let servers = self.found.servers();
        let mut rows: Vec<Row> = Vec::new();
        for operation in files.operations() {
            rows.extend(servers.iter().map(|server| Row::new(operation, *server, files)));
        }
        for round in 0..self.plan.rounds {
            let directory = self.directory()?;
            let bed = Bed::start(directory.path(), &self.found, self.call.subject)?;
            let load = load::Load::new(&bed, &source, clients, directory.path())?;
            for operation in files.operations() {
                for at in 0..servers.len() {
                    let Some(server) = servers.get((at + round) % servers.len()) else { continue };
                    self.say(&format!(
                        "{}: {}, round {} of {}",
                        operation.name(),
                        server.name(),
                        round + 1,
                        self.plan.rounds
                    ));
                    // xrdcp writes the small files that it gets.
                    let _warm = limits::warm(directory.path(), with_parity(files.bytes()))?;
                    let took = load.run(operation, *server)?;
                    let row = rows.iter_mut().find(|row| row.is_of(operation, *server));
                    if let Some(row) = row {
                        row.push(took);
                    }
                }
            }
        }
        Ok(rows)
    }

    fn tape_rest(&self) -> Outcome<Vec<tape_rest::Took>> {
        let source = Source::new(self.plan.small)?;
        let mut all = Vec::new();
        for round in 1..=self.plan.rounds {
            self.say(&format!("Tape REST API, round {round} of {}", self.plan.rounds));
            let directory = self.directory()?;
            let bed = Bed::start(directory.path(), &Found::default(), self.call.subject)?;
            all.push(tape_rest::measure(&bed, &source, self.plan.clients, self.call.subject)?);
        }
        Ok(all)
    }

    /// A directory that XRootD's own user can enter.
    fn directory(&self) -> Outcome<tempfile::TempDir> {
        use std::os::unix::fs::PermissionsExt;
        let failed =
            |error: std::io::Error| Failure::io("making the servers' directory", &self.place, &error);
        let mode = std::fs::Permissions::from_mode(0o755);
        tempfile::Builder::new()
            .prefix("kist-bench-")
            .permissions(mode)
            .tempdir_in(&self.place)
            .map_err(failed)
    }

    /// Refuses what would fill the file system, before anything is made there.
    fn check_room(&self) -> Outcome {
        let bytes = self.plan.large.bytes().max(self.plan.small.bytes());
        // Three doors of Kist, two plain directories, what xrdcp sends, pages that are ready; some beside.
        let need = with_parity(bytes)
            .saturating_mul(4)
            .saturating_add(bytes.saturating_mul(3))
            .saturating_add(1 << 30);
        check_room(&self.place, need)
    }

    fn say(&self, what: &str) {
        if !self.call.style.quiet {
            output::note(&format!("bench: {what}"));
        }
    }

    fn note(&self) -> String {
        let Plan { large, small, clients, rounds } = self.plan;
        format!(
            "Large: a file of {} over one connection. Small: {} of {}, HTTP over {clients} connections, \
             `xrdcp -r --parallel {}`. Median of {rounds}; ratios are medians of those of each round, with \
             the least and the most. Kist: {}",
            terminal::text::size(large.size),
            terminal::text::files(small.count),
            terminal::text::size(small.size),
            load::XRDCP_PARALLEL,
            bed::note(),
        )
    }
}

fn with_parity(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 10 * 6).saturating_add(256 << 20)
}

fn check_room(place: &Path, need: u64) -> Outcome {
    let free = store::free_bytes(place).map_err(|error| Failure::io("asking for room", place, &error))?;
    if need <= free {
        return Ok(());
    }
    let (free, need) = (terminal::text::size(free), terminal::text::size(need));
    Err(Failure::new(
        terminal::Exit::Refused,
        format!(
            "{}: {free} are free, and this takes up to {need}: name a directory with more room with --dir, \
             or measure less with --size or --files",
            place.display()
        ),
    ))
}
