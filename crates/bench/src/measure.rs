//! The arguments, and what is measured of a whole instance.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::Server;
use config::{CONFIG_FILE, Size};
use drive::DriveIo;
use store::StoreOptions;
use tempfile::TempDir;
use terminal::{Exit, Failure, Outcome, Progress, output, parallel, text};
use wire::{MigrateBody, StatusReply};

use crate::http::Load;
use crate::rows::Row;
use crate::subject::{Call, Subject};
use crate::{budgets, cpu, disk, doors, engine, erasure, http, limits, rows, s3, schedule, tape};

/// All files of a measurement are below this.
const ALL: &str = "/bench";
/// How long recalled files stay pinned.
const PIN: Duration = Duration::from_secs(600);
/// What an instance of its own takes besides the files: catalogue, journals, room for its parity.
const RESERVE_BYTES: u64 = 1 << 30;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Each makes an instance of its own in --dir and removes it afterwards. In
memory (/dev/shm) the program is measured, on a disk the disk. put and get:
one large file; create: small durable files by many clients; stat: over HTTP
and in the catalogue; migrate and recall: files of 64 MiB and packs, untimed
virtual drives. all: every one beside its budget, the median of three runs.
erasure: the coder alone, in memory and without an instance, in turn with other
coders and with what the memory gives. schedule: the order in which a mounted
tape is read, on simulated tapes, without an instance. tape: what the way to a
tape drive costs, without one. s3: large and small
objects and listings, in turn with the servers named minio and versitygw.
disk: disks, files and JBODs, see kist help bench disk. doors: WebDAV, XRootD
and S3, see kist help bench doors.

Examples:
  kist bench put --dir /dev/shm --size 2GiB
  kist bench erasure --quick
  kist bench schedule --json
  kist bench s3 --dir /dev/shm --peer minio=/usr/local/bin/minio
  kist bench erasure --json --peer isa-l=target/release/examples/isal_peer")]
pub struct Args {
    /// What to measure
    #[arg(required = true)]
    what: Option<What>,
    /// What has arguments of its own
    #[command(subcommand)]
    of_its_own: Option<OfItsOwn>,
    /// Bytes of each file [default: 2GiB for put and get, 20kB for create and stat, 64MiB for migrate and
    /// recall]
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    size: Option<Size>,
    /// Files [default: 1 for put and get, 4000 for create and stat, 32 for migrate and recall]
    #[arg(long)]
    files: Option<u64>,
    /// Requests at once [default: 64 for create, 8 for stat, else 1]
    #[arg(long)]
    clients: Option<usize>,
    /// How the drives of the instance are read and written: auto, threads or uring, as `[pool] io` in
    /// kist.toml has it
    #[arg(long, default_value_t = DriveIo::Auto)]
    io: DriveIo,
    /// Where the instance is made; for `all` a directory in memory [default: the system's temporary
    /// directory]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// With `all`: where syncs are measured, a directory on a disk [default: the system's temporary
    /// directory]
    #[arg(long)]
    pub(crate) disk: Option<PathBuf>,
    /// With `all`, `erasure`, `s3` and `schedule`: a page whose generated part is written anew
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// With `all`: text for that page, such as the output of another measurement
    #[arg(long, value_name = "FILE", requires = "write")]
    pub(crate) with: Option<PathBuf>,
    /// With `schedule`: random sets of files for each row, for tests
    #[arg(long, hide = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// Those of `erasure`.
    #[command(flatten)]
    erasure: erasure::Args,
}

/// Measurements that share no arguments with the others.
#[derive(clap::Subcommand, Debug)]
enum OfItsOwn {
    /// Read and write disks, files, whole JBODs: sizes, mixes, orders; beside fio and the computed bottleneck
    Disk(disk::Args),
    /// Put and get over WebDAV, XRootD and S3, in turn with nginx and a stock XRootD; and the Tape REST API
    Doors(doors::Args),
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Write a large file over HTTP
    Put,
    /// Read it
    Get,
    /// Ask about files
    Stat,
    /// Write small durable files
    Create,
    /// Pool to tape
    Migrate,
    /// Tape to pool
    Recall,
    /// All of these beside the budgets of the design
    All,
    /// Code and check in memory, in turn with other coders
    Erasure,
    /// Order the wanted files of simulated tapes
    Schedule,
    /// The way to a tape drive, beside a plain TCP stream
    Tape,
    /// Put, get and list over S3, in turn with other servers
    S3,
}

impl Args {
    fn load(&self) -> Load {
        let (files, size, clients) = match self.what {
            Some(What::Put | What::Get) => (1, 2 << 30, 1),
            Some(What::Create) => (4000, 20_000, 64),
            Some(What::Stat) => (4000, 20_000, 8),
            Some(What::Migrate | What::Recall) => (32, 64 << 20, 2),
            // Each of its parts has its own.
            Some(What::All | What::Erasure | What::Schedule | What::Tape | What::S3) | None => (1, 0, 1),
        };
        Load {
            files: self.files.unwrap_or(files).max(1),
            size: self.size.map_or(size, |size| size.0.0),
            clients: self.clients.unwrap_or(clients).clamp(1, parallel::JOBS_MAX),
        }
    }

    /// What the measurement may take on the file system of --dir, at most.
    fn need(&self, is_in_memory: bool) -> u64 {
        let bytes = self.load().bytes();
        let with_parity = |bytes: u64| bytes.saturating_add(bytes / 10 * 6);
        let files = match self.what {
            Some(What::Migrate | What::Recall) => {
                let copies = bytes.saturating_mul(2);
                // In memory there are pages ready for the copies, as if these had parity.
                let copies = if is_in_memory { with_parity(copies) } else { copies };
                // The pool, the copies, and the tape that was written without the server.
                with_parity(bytes).saturating_add(copies).saturating_add(bytes)
            }
            _ => with_parity(bytes),
        };
        files.saturating_add(RESERVE_BYTES)
    }

    /// Refuses what would fill the file system of --dir, before anything is made there.
    fn check_room(&self) -> Outcome {
        let place = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let free =
            store::free_bytes(&place).map_err(|error| Failure::io("asking for room", &place, &error))?;
        let is_in_memory = crate::limits::is_in_memory(&place)
            .map_err(|error| Failure::io("asking for the kind of", &place, &error))?;
        let need = self.need(is_in_memory);
        if need <= free {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Refused,
            format!(
                "{}: {} are free, and this takes up to {}: name a directory with more room with --dir, or \
                 measure less with --size or --files (now {} of {})",
                place.display(),
                text::size(free),
                text::size(need),
                text::files(self.load().files),
                text::size(self.load().size),
            ),
        ))
    }
}

impl Args {
    fn s3(&self) -> s3::Args<'_> {
        s3::Args {
            peers: self.erasure.peers(),
            quick: self.erasure.is_quick(),
            files: self.files,
            size: self.size.map(|size| size.0.0),
            clients: self.clients,
            dir: self.dir.as_deref(),
            write: self.write.as_deref(),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args, call: Call<'_>) -> Outcome {
    match &args.of_its_own {
        Some(OfItsOwn::Disk(disk)) => return disk::run(disk, call.style),
        Some(OfItsOwn::Doors(doors)) => return doors::run(doors, call),
        None => {}
    }
    let Some(what) = args.what else { return Err(Failure::usage("name what is to be measured")) };
    if what == What::Erasure {
        return erasure::run(&args.erasure, args.write.as_deref(), call.style);
    }
    if what == What::Schedule && !args.erasure.is_given_beside_quick() {
        let of = schedule::Args { quick: args.erasure.is_quick(), seeds: args.seeds };
        return schedule::run(of, args.write.as_deref(), call.style);
    }
    if what == What::Tape && !args.erasure.is_given_beside_quick() {
        return tape::run(args.erasure.is_quick(), call.style);
    }
    if what == What::S3 {
        return s3::run(&args.s3(), call);
    }
    if args.erasure.is_given() {
        return Err(Failure::usage(
            "--peer belongs to `kist bench erasure` and `kist bench s3`, --quick to these, to \
             `kist bench schedule` and to `kist bench tape`",
        ));
    }
    if what == What::All {
        return budgets::run(args, call);
    }
    args.check_room()?;
    let bench = Bench::new(args.dir.as_deref(), args.load(), call)?.driven_by(args.io);
    let rows = match what {
        What::Put => bench.put()?,
        What::Get => bench.get()?,
        What::Stat => bench.stat()?,
        What::Create => bench.create()?,
        What::Migrate | What::Recall => bench.tape()?,
        What::All | What::Erasure | What::Schedule | What::Tape | What::S3 => Vec::new(),
    };
    rows::print(&rows, call.style)
}

/// One measurement with an instance of its own.
pub struct Bench<'a> {
    /// What is asked for.
    pub load: Load,
    temporary: TempDir,
    quiet: bool,
    subject: &'a dyn Subject,
    io: DriveIo,
}

impl<'a> Bench<'a> {
    /// Nothing is made yet but a directory.
    pub fn new(place: Option<&Path>, load: Load, call: Call<'a>) -> Outcome<Self> {
        let place = place.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let temporary = tempfile::Builder::new().prefix("kist-bench-").tempdir_in(&place);
        let temporary = temporary.map_err(|error| Failure::io("making the instance", &place, &error))?;
        Ok(Bench { load, temporary, quiet: call.style.quiet, subject: call.subject, io: DriveIo::Auto })
    }

    /// Says how the drives are read and written.
    fn driven_by(self, io: DriveIo) -> Self {
        Bench { io, ..self }
    }

    pub fn directory(&self) -> PathBuf {
        self.temporary.path().join("instance")
    }

    pub fn start(&self) -> Outcome<Server> {
        let directory = self.directory();
        self.subject.make(&directory, None)?;
        let file = directory.join(CONFIG_FILE);
        let failed = |error| Failure::io("setting the way of its drives in", &file, &error);
        let text = std::fs::read_to_string(&file).map_err(failed)?;
        let set = text.replacen("[pool]\n", &format!("[pool]\nio = \"{}\"\n", self.io), 1);
        std::fs::write(&file, set).map_err(failed)?;
        Server::start(&directory)
    }

    fn note(&self, what: &str) {
        if !self.quiet {
            output::note(&format!("bench: {what}"));
        }
    }

    /// Keeps pages ready for so many bytes of files, with their parity, until it is dropped.
    fn warm(&self, bytes: u64) -> Outcome<limits::Warm> {
        limits::warm(self.raw(), bytes + bytes * 6 / 10 + (256 << 20))
    }

    pub fn raw(&self) -> &Path {
        self.temporary.path()
    }

    pub fn put(&self) -> Outcome<Vec<Row>> {
        self.note("the limits of this machine");
        let bytes = self.load.bytes();
        let (memory, loopback) = (limits::memory_copy(), limits::loopback()?);
        let disk = limits::disk_write(self.raw(), bytes)?;
        let warm = self.warm(bytes)?;
        let (pool, _) = engine::pool(self.raw(), bytes, self.io)?;
        drop(warm);
        self.note("put over HTTP");
        let server = self.start()?;
        let _warm = self.warm(bytes)?;
        let (seconds, cpu) = http::put(&server, self.load)?;
        server.stop()?;
        let row = Row::bytes("put over HTTP", bytes, seconds).cores(cpu);
        let rows = [row.clone().against(&pool), row.clone().against(&loopback), row.against(&disk)];
        Ok(rows.into_iter().chain([pool, loopback, disk, memory]).collect())
    }

    pub fn get(&self) -> Outcome<Vec<Row>> {
        self.note("the limits of this machine");
        let bytes = self.load.bytes();
        let memory = limits::memory_copy();
        let (_, pool) = engine::pool(self.raw(), bytes, self.io)?;
        self.note("put, then get over HTTP");
        let server = self.start()?;
        let warm = self.warm(bytes)?;
        http::put(&server, self.load)?;
        drop(warm);
        let loopback = limits::loopback()?;
        let (seconds, cpu) = http::get(&server, self.load)?;
        server.stop()?;
        let row = Row::bytes("get over HTTP", bytes, seconds).cores(cpu);
        Ok(vec![row.clone().against(&loopback), row.against(&pool), pool, loopback, memory])
    }

    pub fn create(&self) -> Outcome<Vec<Row>> {
        let load = self.load;
        self.note("the limits of this machine");
        let syncs = limits::disk_syncs(self.raw())?;
        let server = self.start()?;
        let empty = http::nothing(&server, load)?;
        self.note("durable puts over HTTP");
        let (seconds, cpu) = http::put(&server, load)?;
        server.stop()?;
        let name = format!("durable puts, {} clients", load.clients);
        let row = Row::operations(&name, load.files, load.bytes(), seconds).cores(cpu);
        Ok(vec![row.clone().against(&syncs), row.against(&empty), syncs, empty])
    }

    fn stat(&self) -> Outcome<Vec<Row>> {
        let load = self.load;
        let server = self.start()?;
        self.note("files to ask about");
        http::put(&server, Load { clients: 64, ..load })?;
        self.note("stat over HTTP");
        let empty = http::nothing(&server, load)?;
        let (seconds, cpu) = http::stat(&server, load)?;
        server.stop()?;
        self.note("stat in the catalogue");
        let config = config::load(&self.directory().join(CONFIG_FILE))
            .map_err(|error| Failure::internal(error.to_string()))?;
        let settings = config.settings(&self.directory());
        let (directory, map_size) = (&settings.catalogue_directory, settings.catalogue_map_size);
        let options = || StoreOptions::new(map_size, self.subject.clock());
        let mut paths = load.paths();
        let ordered = engine::catalogue(directory, options(), &paths, "catalogue alone, in order")?;
        // By a step that is coprime to most counts, so that neighbours are far apart.
        paths.sort_by_key(|path| base::Crc32c::of(path.as_bytes()).0);
        let random = engine::catalogue(directory, options(), &paths, "catalogue alone, at random")?;
        let row = Row::operations("stat over HTTP", load.files, 0, seconds).cores(cpu);
        Ok(vec![row.against(&empty), empty, ordered, random])
    }

    pub fn tape(&self) -> Outcome<Vec<Row>> {
        let load = self.load;
        self.note("the limits of this machine");
        let warm = self.warm(load.bytes())?;
        let (write, read) = engine::tape(self.raw(), load.bytes())?;
        drop(warm);
        let disk = limits::disk_write(self.raw(), load.bytes())?;
        let server = self.start()?;
        self.note("files to migrate");
        http::put(&server, load)?;
        self.note("migrate, two copies");
        let warm = self.warm(2 * load.bytes())?;
        let before: StatusReply = server.client.get("/api/v1/status")?;
        let (migrated, seconds, cpu) = self.phase(&server, |progress| {
            server.client.post("/api/v1/migrate", &MigrateBody::default())?;
            self.subject.wait(&server.client, progress, Duration::from_secs(3600))?;
            let after: StatusReply = server.client.get("/api/v1/status")?;
            Ok(after.tape_written.saturating_sub(before.tape_written))
        })?;
        let migrate = Row::bytes("migrate, all copies", migrated, seconds).cores(cpu);
        self.subject.evict(&server.client, ALL)?;
        drop(warm);
        self.note("recall");
        let _warm = self.warm(load.bytes())?;
        let (recalled, seconds, cpu) =
            self.phase(&server, |progress| self.subject.stage(&server.client, ALL, PIN, progress))?;
        server.stop()?;
        let recall = Row::bytes("recall", recalled, seconds).cores(cpu);
        let rows = [migrate.clone().against(&write), migrate.against(&disk), recall.against(&read)];
        Ok(rows.into_iter().chain([write, read, disk]).collect())
    }

    /// Runs one phase; gives what it gives, seconds, and processor seconds of the server.
    fn phase(
        &self,
        server: &Server,
        work: impl FnOnce(&Progress) -> Outcome<u64>,
    ) -> Outcome<(u64, f64, f64)> {
        let before = cpu::seconds(server.pid());
        let started = Instant::now();
        let progress = Progress::start("bench", 0, 0, true);
        let bytes = work(&progress)?;
        Ok((bytes, started.elapsed().as_secs_f64(), cpu::seconds(server.pid()) - before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ByteCount;

    fn args(what: What) -> Args {
        Args {
            what: Some(what),
            of_its_own: None,
            size: None,
            files: None,
            clients: None,
            io: DriveIo::Auto,
            dir: None,
            disk: None,
            write: None,
            with: None,
            seeds: None,
            erasure: erasure::Args::default(),
        }
    }

    /// Story: a measurement took 6.9 GB of a small disk without looking.
    #[test]
    fn what_would_fill_the_disk_is_refused_before_anything_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let dir = Some(directory.path().to_owned());
        let small = Args { size: Some(Size(ByteCount(1000))), dir: dir.clone(), ..args(What::Migrate) };
        assert!(args(What::Migrate).need(false) > 9_800_000_000, "4.56 times the files were seen");
        assert!(small.need(true) < RESERVE_BYTES + 200_000);
        let much = Args { files: Some(u64::MAX), dir, ..args(What::Migrate) };
        let failure = much.check_room().unwrap_err();
        assert_eq!(failure.exit, Exit::Refused);
        for word in ["--dir", "--size", "free"] {
            assert!(failure.message.contains(word), "{failure}");
        }
    }

    #[test]
    fn defaults_fit_what_is_measured() {
        assert_eq!(args(What::Put).load().bytes(), 2 << 30);
        assert_eq!(args(What::Create).load().clients, 64);
        let some =
            Args { size: Some(Size(ByteCount(5))), files: Some(3), clients: Some(0), ..args(What::Get) };
        assert_eq!((some.load().bytes(), some.load().clients), (15, 1));
    }
}
