//! `kist pool drive burn-in`: a disk before its first use.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use base::ByteCount;
use bench::disks::{self, FaultShown, brief, mb};
use config::Size;
use disk_load::{
    BLOCK, BurnIn, BurntIn, Engine, Far, SlowPlace, Slowness, Stage, Stamp, Target, TargetError, Verdict,
    ZONE_BYTES_LEAST, ZONES_LEAST, Zone,
};
use drive::{
    BurnInDoubt, BurnInId, BurnInRecord, BurnInVerdict, DirectoryDrive, DirectoryLock, DriveOpenError,
};
use serde::{Serialize, Serializer};
use terminal::{Exit, Failure, Outcome, Progress, Style, Table, output, text};

/// The most that is burnt in: 128 TiB.
const SIZE_MAX: ByteCount = ByteCount(1 << 47);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
All that is free is written but for 1 GiB, read in another order and compared byte for
byte, and then read at random zone by zone. The verdict is 'passed', 'slow' (in which
places, and why) or 'faulty'. It takes twice as long as writing the disk: two days for
20 TB. In a directory its files have no names and are gone when the command ends,
however it ends; what is left there is the record of the result, burn-in.kist, which
kist pool drive show tells of when the directory is a drive. Without --size the directory
must have a file system of its own and be empty, since its disk may not be mounted:
--shared fills what is free there all the same. A file or block device is written over
only if --destroy names it once more and nothing stands on it.

Examples:
  kist pool drive burn-in /mnt/d8
  kist pool drive burn-in /mnt/d8 --size 100GB     a part of it
  sudo kist pool drive burn-in /dev/sdb --destroy ZL200042")]
pub struct Args {
    /// The directory that is to become a drive; or a block device or a file
    path: PathBuf,
    /// Write so much [default: all that is free but for 1 GiB; of a device or file, all]
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    size: Option<Size>,
    /// Fill the directory's file system although it is that of the directory above, or holds something
    #[arg(long, conflicts_with_all = ["size", "destroy"])]
    shared: bool,
    /// The device or file once more, by its path or the disk's serial number: it is written over
    #[arg(long, value_name = "NAME")]
    destroy: Option<String>,
}

/// A part of a disk, with its figures.
#[derive(Serialize)]
struct ZoneShown {
    first_byte: u64,
    bytes: u64,
    write_bytes_per_second: f64,
    read_bytes_per_second: f64,
    median_seconds: f64,
    p99_seconds: f64,
}

/// A place that is slow.
#[derive(Serialize)]
struct SlowShown {
    first_byte: u64,
    bytes: u64,
    /// `rate` in bytes a second; `median`, `p99` and `retries` in seconds.
    what: &'static str,
    found: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<f64>,
    text: String,
}

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    path: PathBuf,
    kind: &'static str,
    /// Which burn-in it was.
    id: String,
    #[serde(serialize_with = "as_word")]
    verdict: BurnInVerdict,
    bytes: u64,
    /// Bytes of the whole file system, file or device.
    capacity: u64,
    engine: String,
    is_direct: bool,
    is_judged_by_place: bool,
    /// Why it does not prove its disk; empty: it does.
    doubts: Vec<String>,
    write_bytes_per_second: f64,
    read_bytes_per_second: f64,
    slow: Vec<SlowShown>,
    faults: Vec<FaultShown>,
    zones: Vec<ZoneShown>,
    notes: Vec<String>,
    /// Why there is no record of it, although there should be.
    #[serde(skip)]
    unrecorded: Option<(Exit, String)>,
}

/// What is to be burnt in, and how.
pub struct Wanted<'a> {
    /// The directory, device or file.
    pub path: &'a Path,
    /// Bytes to be written.
    pub size: Option<Size>,
    /// The device or file once more.
    pub destroy: Option<&'a str>,
    /// A directory may share its file system.
    pub is_shared: bool,
    /// What cannot prove the disk is not begun; what takes the disk all the same.
    pub unless_proof: Option<&'a str>,
    /// Which burn-in it is.
    pub id: BurnInId,
}

/// A number that no burn-in had.
pub fn new_id() -> Outcome<BurnInId> {
    Ok(BurnInId(u64::from_le_bytes(text::random()?)))
}

/// Runs the command.
pub fn run(args: &Args, style: Style) -> Outcome {
    let wanted = Wanted {
        path: &args.path,
        size: args.size,
        destroy: args.destroy.as_deref(),
        is_shared: args.shared,
        unless_proof: None,
        id: new_id()?,
    };
    let report = burn_in(&wanted, style)?;
    match style.json {
        true => output::json(&report)?,
        false => output::write(&report.text())?,
    }
    report.judge()
}

/// Burns in what a path names, and shows how far it is.
pub fn burn_in(wanted: &Wanted<'_>, style: Style) -> Outcome<Report> {
    let (bed, engine) = prepare(wanted)?;
    if !style.quiet {
        bed.notes.iter().for_each(|note| output::note(&format!("burn-in: {note}")));
    }
    let progress = Progress::start_of("burn-in", "file", 0, 0, style.quiet);
    // Never set: who interrupts the command ends its process, with which the files go.
    let stop = AtomicBool::new(false);
    let report = carry_out(wanted, &bed, engine, &stop, &|far| show(&progress, far))?;
    report.ok_or_else(|| Failure::internal("burn-in: it was stopped"))
}

/// Burns in what a path names beside other work, until it is stopped: `None`, and nothing is left then.
pub fn burn_in_beside(wanted: &Wanted<'_>, stop: &AtomicBool, tell: &dyn Fn(Far)) -> Outcome<Option<Report>> {
    let (bed, engine) = prepare(wanted)?;
    carry_out(wanted, &bed, engine, stop, tell)
}

/// Opens what is to be burnt in. What an earlier burn-in said does not hold from here on.
fn prepare(wanted: &Wanted<'_>) -> Outcome<(Bed, Engine)> {
    let path = wanted.path;
    let size = wanted.size.map(|size| size.0);
    if let Some(size) = size.filter(|size| *size < BLOCK || *size > SIZE_MAX) {
        return Err(Failure::usage(format!(
            "--size {}: a burn-in writes from {} to {}",
            Size(size),
            Size(BLOCK),
            Size(SIZE_MAX)
        )));
    }
    let mut bed = Bed::open(wanted)?;
    if let Some((next, doubt)) = wanted.unless_proof.zip(bed.doubts().first()) {
        let path = path.display();
        return Err(Failure::new(
            Exit::Refused,
            format!("{path}: its burn-in would not prove the disk: {doubt}; {next}"),
        ));
    }
    if bed.is_recorded {
        // What it says does not hold any more.
        let removed = BurnInRecord::remove(path);
        removed.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    }
    let (engine, reason) = disks::engine(None)?;
    bed.notes.extend(reason);
    Ok((bed, engine))
}

fn carry_out(
    wanted: &Wanted<'_>,
    bed: &Bed,
    engine: Engine,
    stop: &AtomicBool,
    tell: &dyn Fn(Far),
) -> Outcome<Option<Report>> {
    let (path, id) = (wanted.path, wanted.id);
    let burn = BurnIn {
        parts: &bed.parts,
        part_length: bed.part_length,
        engine: &engine,
        stamp: Stamp(id.0),
        stop,
        tell,
    };
    let done = burn.run().map_err(|error| Failure::internal(format!("burn-in: {error}")))?;
    let Some(done) = done else { return Ok(None) };
    let mut report = Report::of(path, id, bed, engine.to_string(), &done);
    if bed.is_recorded {
        // The work of days is told all the same.
        let written = bed.write(path, &record(id, &report, &done));
        report.unrecorded = written.err().map(|failure| (failure.exit, failure.message));
    }
    Ok(Some(report))
}

fn show(progress: &Progress, far: Far) {
    progress.heard();
    progress.note(match far.stage {
        Stage::Writes => "writes",
        Stage::Reads => "reads and compares",
        Stage::Random => "reads at random",
        Stage::LooksAgain => "looks again at what seems slow",
    });
    progress.set_totals(0, far.of.0);
    progress.set(0, far.done.0);
}

/// What is burnt in.
struct Bed {
    parts: Vec<Target>,
    part_length: ByteCount,
    capacity: ByteCount,
    /// Of a directory: nobody makes a drive of it meanwhile.
    lock: Option<DirectoryLock>,
    /// Its directory is to become a drive.
    is_recorded: bool,
    notes: Vec<String>,
}

impl Bed {
    fn open(wanted: &Wanted<'_>) -> Outcome<Bed> {
        let Wanted { path, destroy, .. } = *wanted;
        let size = wanted.size.map(|size| size.0);
        let is_directory = path.is_dir();
        if let Some(name) = destroy.filter(|name| is_directory || !disks::names(name, path)) {
            let what = if is_directory { "a directory is not written over" } else { "that is another one" };
            let path = path.display();
            return Err(Failure::usage(format!("--destroy {name}: {what}: {path} is to be burnt in")));
        }
        let mut bed = match is_directory {
            true => Bed::of_directory(path, size, wanted.is_shared)?,
            false => Bed::of_device(path, size, destroy.is_some())?,
        };
        bed.notes.extend(bed.parts.first().and_then(disks::warning));
        if !bed.is_judged_by_place() {
            bed.notes.push(format!(
                "{}: {} are too few to tell slow places: that takes {}",
                path.display(),
                text::size(bed.part_length.0),
                text::size(ZONE_BYTES_LEAST.0 * ZONES_LEAST as u64)
            ));
        }
        Ok(bed)
    }

    fn is_judged_by_place(&self) -> bool {
        disk_load::compares_places(self.parts.len(), self.part_length)
    }

    fn is_direct(&self) -> bool {
        self.parts.iter().all(Target::is_direct)
    }

    /// Why it will not prove its disk.
    fn doubts(&self) -> Vec<BurnInDoubt> {
        BurnInDoubt::of(self.is_direct(), self.is_judged_by_place())
    }

    /// Puts the record into the directory, if that is still the one that was burnt in, and no drive.
    fn write(&self, path: &Path, record: &BurnInRecord) -> Outcome {
        if !self.lock.as_ref().is_some_and(|lock| lock.is_of(path)) {
            let what = format!(
                "{}: it is not the directory any more that was burnt in, and the result is not recorded: was \
                 its disk unmounted? Mount it, and burn it in again",
                path.display()
            );
            return Err(Failure::new(Exit::Refused, what));
        }
        check_no_drive(path)?;
        record.write(path).map_err(|error| Failure::new(Exit::Internal, error.to_string()))
    }

    fn of_directory(path: &Path, size: Option<ByteCount>, is_shared: bool) -> Outcome<Bed> {
        // One that is in use is locked, and told by its stamp; one may be made before the lock is ours.
        check_no_drive(path)?;
        let lock = DirectoryLock::take(path);
        let lock = lock.map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
        check_no_drive(path)?;
        disk_load::clear_leftovers(path).map_err(disks::failed)?;
        let listed = DirectoryDrive::can_be_made(path);
        let is_recorded = listed.map_err(|error| Failure::io("listing", path, &error))?;
        if size.is_none() && !is_shared {
            disk_load::check_mounted(path).map_err(disks::failed)?;
            if !is_recorded {
                return Err(disks::failed(TargetError::Holds(path.to_owned())));
            }
        }
        let mut notes = Vec::new();
        if !is_recorded {
            notes.push(format!(
                "{} holds something and cannot become a drive: the result is not recorded there",
                path.display()
            ));
        }
        let parts = disk_load::files(path, size).map_err(disks::failed)?;
        let part_length = parts.first().map_or(ByteCount(0), Target::length);
        let space = rustix::fs::statvfs(path)
            .map_err(|error| Failure::io("asking for the size of", path, &error.into()))?;
        let capacity = ByteCount(space.f_blocks.saturating_mul(space.f_frsize));
        Ok(Bed { parts, part_length, capacity, lock: Some(lock), is_recorded, notes })
    }

    fn of_device(path: &Path, size: Option<ByteCount>, is_to_be_destroyed: bool) -> Outcome<Bed> {
        let opened = match is_to_be_destroyed {
            true => Target::open_to_destroy(path, BLOCK),
            false => Target::open(path, BLOCK)
                .and_then(|target| Err(TargetError::ReadOnly { path: path.to_owned(), kind: target.kind() })),
        };
        let target = opened.map_err(disks::failed)?;
        let length = size.unwrap_or(target.length()).min(target.length());
        let part_length = ByteCount(length.0 - length.0 % BLOCK.0);
        let capacity = target.length();
        let (parts, notes) = (vec![target], Vec::new());
        Ok(Bed { parts, part_length, capacity, lock: None, is_recorded: false, notes })
    }
}

fn as_word<S: Serializer>(verdict: &BurnInVerdict, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(verdict.word())
}

fn check_no_drive(path: &Path) -> Outcome {
    match DirectoryDrive::read_stamp(path) {
        Err(DriveOpenError::NotADrive(_)) => Ok(()),
        Ok(stamp) => {
            let what = format!(
                "{}: drive {} of instance {} is there: a disk is burnt in before its first use; kist bench \
                 disk measures one that is in use",
                path.display(),
                stamp.drive,
                stamp.instance
            );
            Err(Failure::new(Exit::Refused, what))
        }
        Err(error) => Err(Failure::new(Exit::Refused, error.to_string())),
    }
}

fn record(id: BurnInId, report: &Report, done: &BurntIn) -> BurnInRecord {
    let zones = &done.profile.zones;
    let longest = |of: fn(&Zone) -> std::time::Duration| zones.iter().map(of).max().unwrap_or_default();
    BurnInRecord {
        id,
        verdict: report.verdict,
        is_direct: report.is_direct,
        is_judged_by_place: report.is_judged_by_place,
        ended: text::now(),
        bytes: ByteCount(report.bytes),
        capacity: ByteCount(report.capacity),
        write_rate: ByteCount(done.written.rate() as u64),
        read_rate: ByteCount(done.read.rate() as u64),
        median_max: longest(|zone| zone.median),
        p99_max: longest(|zone| zone.p99),
        faults: done.profile.faults.count(),
        slow_places: u32::try_from(report.slow.len()).unwrap_or(u32::MAX),
    }
}

impl ZoneShown {
    fn of(zone: &Zone) -> ZoneShown {
        ZoneShown {
            first_byte: zone.begin.0,
            bytes: zone.length.0,
            write_bytes_per_second: zone.write_rate,
            read_bytes_per_second: zone.read_rate,
            median_seconds: zone.median.as_secs_f64(),
            p99_seconds: zone.p99.as_secs_f64(),
        }
    }
}

impl SlowShown {
    fn of(place: &SlowPlace) -> SlowShown {
        let (what, found, expected) = match place.why {
            Slowness::Rate { found, expected } => ("rate", found, Some(expected)),
            Slowness::Median { found, expected } => {
                ("median", found.as_secs_f64(), Some(expected.as_secs_f64()))
            }
            Slowness::P99 { found, expected } => ("p99", found.as_secs_f64(), Some(expected.as_secs_f64())),
            Slowness::Retries(took) => ("retries", took.as_secs_f64(), None),
        };
        let (first_byte, bytes) = (place.begin.0, place.length.0);
        SlowShown { first_byte, bytes, what, found, expected, text: place.to_string() }
    }
}

impl Report {
    fn of(path: &Path, id: BurnInId, bed: &Bed, engine: String, done: &BurntIn) -> Report {
        let profile = &done.profile;
        let (verdict, slow) = match profile.verdict() {
            Verdict::Passed => (BurnInVerdict::Passed, Vec::new()),
            Verdict::Slow(places) => (BurnInVerdict::Slow, places.iter().map(SlowShown::of).collect()),
            Verdict::Faulty => (BurnInVerdict::Faulty, Vec::new()),
        };
        Report {
            path: path.to_owned(),
            kind: bed.parts.first().map_or("", |part| part.kind().name()),
            id: id.to_string(),
            verdict,
            bytes: done.read.read.bytes,
            capacity: bed.capacity.0,
            engine,
            is_direct: bed.is_direct(),
            is_judged_by_place: bed.is_judged_by_place(),
            doubts: bed.doubts().iter().map(ToString::to_string).collect(),
            write_bytes_per_second: done.written.rate(),
            read_bytes_per_second: done.read.rate(),
            slow,
            faults: disks::faults(path, &profile.faults),
            zones: profile.zones.iter().map(ZoneShown::of).collect(),
            notes: bed.notes.clone(),
            unrecorded: None,
        }
    }

    /// For people: the curve, then what is to be known of it.
    pub fn text(&self) -> String {
        let headings = [">from", ">zone", ">written", ">read", ">p50", ">p99"];
        let mut table = Table::new(&headings);
        for zone in &self.zones {
            table.row(vec![
                text::size(zone.first_byte),
                text::size(zone.bytes),
                mb(zone.write_bytes_per_second),
                mb(zone.read_bytes_per_second),
                brief(zone.median_seconds),
                brief(zone.p99_seconds),
            ]);
        }
        let mut out = table.render();
        out.push_str(&format!("\n{}\n", self.summary()));
        self.slow.iter().for_each(|place| out.push_str(&format!("slow: {}\n", place.text)));
        for fault in &self.faults {
            let (times, at) = (text::plural(fault.count, "time"), fault.first_byte);
            out.push_str(&format!("{}: {times}, the lowest at byte {at}\n", fault.what));
        }
        self.notes.iter().for_each(|note| out.push_str(&format!("{note}\n")));
        out
    }

    /// What came of it, in a line, and in another one what it does not prove.
    pub fn summary(&self) -> String {
        let doubts = match self.doubts.is_empty() {
            true => String::new(),
            false => format!("\nthis does not prove the disk: {}", self.doubts.join("; ")),
        };
        format!(
            "{}: {}: {} of {} written at {}, read at {} and compared; {}, {}{doubts}",
            self.path.display(),
            self.verdict.word(),
            text::size(self.bytes),
            text::size(self.capacity),
            mb(self.write_bytes_per_second),
            mb(self.read_bytes_per_second),
            self.engine,
            if self.is_direct { "direct I/O" } else { "through the kernel's cache" }
        )
    }

    /// Demands that it has passed.
    pub fn judge(&self) -> Outcome {
        let path = self.path.display();
        if let Some(worst) = self.faults.iter().max_by_key(|fault| (fault.is_of_data, fault.count)) {
            let exit = if worst.is_of_data { Exit::Differs } else { Exit::SomeFailed };
            let all: u64 = self.faults.iter().map(|fault| fault.count).sum();
            return Err(Failure::new(
                exit,
                format!(
                    "{path} is faulty: {} failed; {}, {}, the lowest at byte {}: use another disk, and look \
                     at 'kist disk health'",
                    text::plural(all, "operation"),
                    worst.what,
                    text::plural(worst.count, "time"),
                    worst.first_byte
                ),
            ));
        }
        let Some(first) = self.slow.first() else {
            let unrecorded = self.unrecorded.clone();
            return unrecorded.map_or(Ok(()), |(exit, what)| Err(Failure::new(exit, what)));
        };
        let more = match self.slow.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Err(Failure::new(
            Exit::Refused,
            format!(
                "{path} is slow in places: {}{more}: use another disk, or burn it in again when the machine \
                 is idle",
                first.text
            ),
        ))
    }
}
