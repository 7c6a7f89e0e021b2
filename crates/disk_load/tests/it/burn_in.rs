//! Burn-ins: of a made disk in virtual time, with slow places and faults, and of files by both engines.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::ByteCount;
use disk_load::{
    BLOCK, BurnIn, BurntIn, Contents, EngineError, Far, Fault, Load, Measured, PAGE, RunsLoads, Slowness,
    Stage, Stamp, Target, Until, Verdict, Wrong, ZONE_BYTES_LEAST, ZONES, files,
};
use tempfile::TempDir;

use crate::engines;

const RUN: Stamp = Stamp(99);

fn never() -> &'static AtomicBool {
    static NEVER: AtomicBool = AtomicBool::new(false);
    &NEVER
}

/// A disk of 64 zones that is there in numbers only: what an operation takes follows from its place, and how
/// often its block was read.
struct MadeDisk<T: Fn(u64, u64, u64) -> Result<Duration, Fault>> {
    /// By offset, bytes, and how many reads of this load came before.
    takes: T,
    operations: Cell<u64>,
}

impl<T: Fn(u64, u64, u64) -> Result<Duration, Fault>> RunsLoads for MadeDisk<T> {
    fn run(&self, load: Load<'_>) -> Result<Measured, EngineError> {
        let Until::Operations(count) = load.until else { panic!("a burn-in ends by itself") };
        let mut workload = load.workload;
        let mut measured = Measured::default();
        for _ in 0..count {
            let operation = workload.next_operation();
            let bytes = workload.shape().block.0;
            self.operations.set(self.operations.get() + 1);
            match (self.takes)(operation.offset.0, bytes, self.operations.get()) {
                Ok(took) => {
                    measured.add(operation, bytes as usize, took);
                    measured.span += took;
                }
                Err(fault) => measured.faults.add(fault, operation.offset),
            }
        }
        Ok(measured)
    }
}

/// 64 zones of the least size, of which nothing is written: the disk is made.
fn burn_made(takes: impl Fn(u64, u64, u64) -> Result<Duration, Fault>) -> BurntIn {
    burn_with(&MadeDisk { takes, operations: Cell::new(0) })
}

fn burn_with(engine: &dyn RunsLoads) -> BurntIn {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sparse");
    let length = ByteCount(ZONES * ZONE_BYTES_LEAST.0);
    File::create(&path).unwrap().set_len(length.0).unwrap();
    let parts = [Target::open(&path, BLOCK).unwrap()];
    let burn =
        BurnIn { parts: &parts, part_length: length, engine, stamp: RUN, stop: never(), tell: &|_| {} };
    burn.run().unwrap().unwrap()
}

/// 260 MB/s outside, 120 inside; half a turn and a short seek for what is small.
fn hdd(offset: u64, bytes: u64) -> Duration {
    let part = offset as f64 / (ZONES * ZONE_BYTES_LEAST.0) as f64;
    let rate = (260f64.powi(2) * (1.0 - part) + 120f64.powi(2) * part).sqrt() * 1e6;
    let moved = Duration::from_secs_f64(bytes as f64 / rate);
    if bytes < BLOCK.0 { moved + Duration::from_micros(5_000 + offset % 4_000) } else { moved }
}

fn zone_of(offset: u64) -> u64 {
    offset / ZONE_BYTES_LEAST.0
}

#[test]
fn a_disk_as_it_should_be_passes_and_its_curve_is_told() {
    let done = burn_made(|offset, bytes, _| Ok(hdd(offset, bytes)));
    assert_eq!(done.profile.verdict(), Verdict::Passed);
    let zones = &done.profile.zones;
    assert_eq!(zones.len() as u64, ZONES);
    assert!(zones.windows(2).all(|pair| pair[0].read_rate > pair[1].read_rate));
    assert!(zones[0].read_rate > 2.0 * zones[63].read_rate && zones[0].write_rate > 250e6);
    assert!(zones.iter().all(|zone| (5..8).contains(&zone.median.as_millis())), "{zones:?}");
    assert_eq!(done.read.bytes(), ZONES * ZONE_BYTES_LEAST.0);
}

#[test]
fn slow_zones_are_found_after_all_looks() {
    let slow = |offset: u64, bytes: u64, _| {
        let factor = match (zone_of(offset), bytes < BLOCK.0) {
            (50, false) => 2,
            (9, true) => 4,
            _ => 1,
        };
        Ok(hdd(offset, bytes) * factor)
    };
    let Verdict::Slow(places) = burn_made(slow).profile.verdict() else { panic!("it is slow") };
    let said: Vec<String> = places.iter().map(ToString::to_string).collect();
    let at: Vec<u64> = places.iter().map(|place| zone_of(place.begin.0)).collect();
    // All reads of zone 9 take four times as long: its median, and with it what 99 of 100 keep.
    assert_eq!(at, [9, 9, 50], "{said:?}");
    assert!(matches!(places[2].why, Slowness::Rate { .. }), "{said:?}");
}

/// Noise: each zone is slow the first time that it is read, and not when it is looked at again.
#[test]
fn what_is_slow_once_is_no_slow_place() {
    let seen = RefCell::new(std::collections::BTreeMap::<(u64, bool), u64>::new());
    let blocks = ZONE_BYTES_LEAST.0 / BLOCK.0;
    let noisy = |offset: u64, bytes: u64, _| {
        let is_small = bytes < BLOCK.0;
        let mut seen = seen.borrow_mut();
        let count = seen.entry((zone_of(offset), is_small)).or_insert(0);
        *count += 1;
        // Written once and then read once in order; 128 small reads.
        let first = if is_small { 128 } else { 2 * blocks };
        let is_hit = *count <= first && [3, 31, 32, 60].contains(&zone_of(offset));
        Ok(hdd(offset, bytes) * if is_hit { 5 } else { 1 })
    };
    assert_eq!(burn_made(noisy).profile.verdict(), Verdict::Passed);
    assert!(seen.borrow()[&(31, false)] > 2 * blocks, "it was looked at again");
}

#[test]
fn a_block_that_needs_retries_is_told_from_one_that_waited_once() {
    let bad = 20 * ZONE_BYTES_LEAST.0 + 7 * BLOCK.0;
    let waited = Cell::new(0);
    let disk = |offset: u64, bytes: u64, _| {
        let is_block = bytes == BLOCK.0;
        Ok(match () {
            () if is_block && offset == bad => Duration::from_millis(70),
            // Another one waits once when it is read.
            () if is_block && offset == 5 * BLOCK.0 => {
                waited.set(waited.get() + 1);
                if waited.get() == 2 { Duration::from_millis(75) } else { hdd(offset, bytes) }
            }
            () => hdd(offset, bytes),
        })
    };
    let Verdict::Slow(places) = burn_made(disk).profile.verdict() else { panic!("it is slow") };
    assert_eq!(places.len(), 1, "{places:?}");
    assert_eq!((places[0].begin.0, places[0].length), (bad, BLOCK));
    assert_eq!(places[0].why, Slowness::Retries(Duration::from_millis(70)));
    assert!(waited.get() > 2, "it was read again");
}

#[test]
fn refused_operations_are_faults_with_their_places_and_end_a_hopeless_run() {
    const EIO: i32 = 5;
    let bad = 33 * ZONE_BYTES_LEAST.0;
    let one = burn_made(|offset, bytes, _| match offset == bad && bytes == BLOCK.0 {
        true => Err(Fault::Read(EIO)),
        false => Ok(hdd(offset, bytes)),
    });
    assert_eq!(one.profile.verdict(), Verdict::Faulty);
    assert_eq!(one.profile.faults.0[&Fault::Read(EIO)].first.0, bad);
    let asked = Cell::new(0);
    let all = burn_made(|_, _, count| {
        asked.set(count);
        Err(Fault::Write(EIO))
    });
    assert_eq!(all.profile.verdict(), Verdict::Faulty);
    assert!(asked.get() < 2_000, "{} operations", asked.get());
}

/// Story: "passed" said nothing of what was never done.
#[test]
fn less_than_was_to_be_is_a_fault() {
    struct Skips<'a, T: Fn(u64, u64, u64) -> Result<Duration, Fault>>(&'a MadeDisk<T>, u64, bool);
    impl<T: Fn(u64, u64, u64) -> Result<Duration, Fault>> RunsLoads for Skips<'_, T> {
        fn run(&self, load: Load<'_>) -> Result<Measured, EngineError> {
            let Skips(disk, zone, writes) = self;
            let shape = load.workload.shape();
            let is_it = zone_of(shape.begin.0) == *zone && shape.mix.has_reads() != *writes;
            match (load.until, is_it && shape.block == BLOCK) {
                (Until::Operations(count), true) => {
                    disk.run(Load { until: Until::Operations(count - 1), ..load })
                }
                _ => disk.run(load),
            }
        }
    }
    for writes in [true, false] {
        let disk = MadeDisk { takes: |offset, bytes, _| Ok(hdd(offset, bytes)), operations: Cell::new(0) };
        let profile = burn_with(&Skips(&disk, 41, writes)).profile;
        assert_eq!(profile.verdict(), Verdict::Faulty);
        assert_eq!(profile.faults.0[&Fault::NotDone].first.0, 41 * ZONE_BYTES_LEAST.0);
    }
}

/// What stands between a burn-in and an engine.
struct Between<B: Fn(&Load<'_>)> {
    engine: disk_load::Engine,
    before: B,
}

impl<B: Fn(&Load<'_>)> RunsLoads for Between<B> {
    fn run(&self, load: Load<'_>) -> Result<Measured, EngineError> {
        (self.before)(&load);
        self.engine.run(load)
    }
}

const FILE: ByteCount = ByteCount(16 << 20);

fn burn_files(
    count: usize,
    engine: disk_load::Engine,
    stop: &AtomicBool,
    before: impl Fn(&Load<'_>),
    tell: &dyn Fn(Far),
) -> (TempDir, Option<BurntIn>) {
    let directory = tempfile::tempdir().unwrap();
    let parts: Vec<Target> = (0..count).map(|_| Target::temporary(directory.path(), FILE).unwrap()).collect();
    let between = Between { engine, before };
    let burn = BurnIn { parts: &parts, part_length: FILE, engine: &between, stamp: RUN, stop, tell };
    let done = burn.run().unwrap();
    (directory, done)
}

/// Of files this small nothing is said about places.
#[test]
fn files_are_written_and_every_byte_of_them_read() {
    for engine in engines() {
        let far = RefCell::new(Vec::new());
        let (directory, done) = burn_files(2, engine, never(), |_| {}, &|now| far.borrow_mut().push(now));
        let done = done.unwrap();
        assert_eq!(done.profile.verdict(), Verdict::Passed, "{engine} {:?}", done.profile.faults);
        assert_eq!((done.written.write.bytes, done.read.read.bytes), (2 * FILE.0, 2 * FILE.0), "{engine}");
        let last = *far.borrow().last().unwrap();
        assert_eq!((last.done, last.of, last.stage), (last.of, ByteCount(4 * FILE.0), Stage::Random));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the files have no names");
    }
}

/// Planted before the reads: a page that was never written, one with a changed byte, two that changed places,
/// and one of another part.
#[test]
fn wrong_pages_are_faults_with_their_place_on_the_whole_disk() {
    type Change = fn(&File);
    let changes: [(Change, Wrong); 4] = [
        (|file| file.write_all_at(&vec![0; PAGE], 3 * BLOCK.0).unwrap(), Wrong::Foreign),
        (|file| file.write_all_at(&[7; 512], 3 * BLOCK.0 + 1024).unwrap(), Wrong::Body),
        (
            |file| {
                let mut page = vec![0; PAGE];
                Stamp(RUN.0 + 1).paint(&mut page, ByteCount(9 * BLOCK.0));
                file.write_all_at(&page, 3 * BLOCK.0).unwrap();
            },
            Wrong::Place,
        ),
        (
            |file| {
                let mut page = vec![0; PAGE];
                RUN.paint(&mut page, ByteCount(3 * BLOCK.0));
                file.write_all_at(&page, 3 * BLOCK.0).unwrap();
            },
            Wrong::Run,
        ),
    ];
    for engine in engines() {
        for (change, wrong) in changes {
            let planted = Cell::new(false);
            let plant = |load: &Load<'_>| {
                let is_second = load.contents == Contents::Painted(Stamp(RUN.0 + 1));
                if is_second && load.workload.shape().mix.has_reads() && !planted.replace(true) {
                    // Through another open file, without direct I/O.
                    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(load.file));
                    change(&File::options().write(true).open(path).unwrap());
                }
            };
            let (_directory, done) = burn_files(2, engine, never(), plant, &|_| {});
            assert!(planted.get());
            let profile = done.unwrap().profile;
            assert_eq!(profile.verdict(), Verdict::Faulty, "{engine} {wrong}");
            let first = profile.faults.0[&Fault::Data(wrong)].first;
            assert_eq!(first.0, FILE.0 + 3 * BLOCK.0, "{engine} {wrong}");
        }
    }
}

#[test]
fn a_burn_in_that_is_stopped_says_nothing_of_the_disk() {
    for engine in engines() {
        let stop = AtomicBool::new(false);
        let stop_at_once = |_: Far| stop.store(true, Ordering::Relaxed);
        let (directory, done) = burn_files(1, engine, &stop, |_| {}, &stop_at_once);
        assert_eq!(done, None, "{engine}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn files_take_what_was_said_in_whole_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let parts = files(directory.path(), Some(ByteCount((5 << 20) + 4096))).unwrap();
    let lengths: Vec<ByteCount> = parts.iter().map(Target::length).collect();
    assert_eq!(lengths, [ByteCount(5 << 20)]);
    let refused = files(directory.path(), Some(ByteCount(1 << 60))).unwrap_err();
    assert!(refused.to_string().contains(" free"), "{refused}");
}
