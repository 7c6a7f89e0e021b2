//! Scrubbing and repair, drives that are taken out and put in, drives that hang and come back.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use super::common::{Answering, Bench, INSTANCE, bytes, flip, get, get_range, put, small_cells, wait_until};
use base::{BlobDescription, BlobPiece, ByteCount, Clock, DriveId, StripeSet, Timestamp};
use drive::{DirectIo, DirectoryDrive};
use pool::{BadShard, DriveHealth, Fault, Pool, PoolError, Repaired, ScrubReport};

/// A clock that tests move.
#[derive(Default)]
struct Hand(AtomicI64);

impl Hand {
    fn forward(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000_000 + self.0.load(Ordering::SeqCst))
    }
}

fn scrub(pool: &Arc<Pool>, blob: &BlobDescription, pieces: &[BlobPiece]) -> ScrubReport {
    pool.scrub_blob(blob, pieces, &mut |_| true).unwrap()
}

fn repair(pool: &Arc<Pool>, blob: &BlobDescription, bad: &BTreeSet<BadShard>) -> Repaired {
    pool.repair(blob, bad, &mut |_| true).unwrap()
}

/// The description after the catalogue has heard of the moves.
fn moved(blob: &BlobDescription, repaired: &Repaired) -> BlobDescription {
    let mut blob = blob.clone();
    for step in &repaired.moved {
        let stripe = &mut blob.stripes[step.stripe as usize];
        assert_eq!(stripe.id, step.from);
        *stripe = step.to.clone();
    }
    blob
}

#[test]
fn findings_name_shard_row_and_drive() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(200_000, 1);
    let blob = put(&pool, &value).unwrap();
    assert!(scrub(&pool, &blob, &[]).is_clean());
    // Cells are 12 KiB apart: this is the block of row 2, and the header of a parity cell.
    flip(&bench.extent(&blob, 0, 1), 2 * 12_288 + 4096 + 7, 3);
    flip(&bench.extent(&blob, 1, 5), 20, 0);
    let report = scrub(&pool, &blob, &[]);
    let shard = |stripe: u32, shard: u8| BadShard {
        stripe,
        shard,
        drive: blob.stripes[stripe as usize].drives[usize::from(shard)],
    };
    let found: Vec<(BadShard, Option<u64>)> = report.findings.iter().map(|f| (f.shard, f.row)).collect();
    assert_eq!(found, [(shard(0, 1), Some(2)), (shard(1, 5), Some(0))]);
    let text = report.findings[0].to_string();
    assert!(text.contains("row 2: the checksum of a block is wrong"), "{text}");
    assert!(matches!(report.findings[1].fault, Fault::Damaged(_)));
    let repaired = repair(&pool, &blob, &report.bad);
    assert_eq!(repaired.in_place, [shard(0, 1), shard(1, 5)]);
    assert!(scrub(&pool, &blob, &[]).is_clean());
}

/// Story: whatever a scrub or a repair of its own found stood on the list of repairs too, so that each blob
/// of a drive that was filled was read once more, and counted as waiting although it was whole.
#[test]
fn what_was_repaired_waits_for_no_repair() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let blob = put(&pool, &bytes(100_000, 1)).unwrap();
    let data = |row: u64| row * 12_288 + 4096;
    flip(&bench.extent(&blob, 0, 1), data(2), 3);
    let report = scrub(&pool, &blob, &[]);
    assert_eq!(repair(&pool, &blob, &report.bad).in_place.len(), 1);
    assert_eq!(pool.repairs_waiting(), 0);
    // What a read finds, what a repair finds in other shards, and what it cannot repair, is.
    flip(&bench.extent(&blob, 0, 1), data(0), 3);
    get(&pool, &blob).unwrap();
    assert_eq!(pool.take_repairs(10), [(blob.id, None)]);
    flip(&bench.extent(&blob, 0, 3), data(1), 3);
    assert_eq!(repair(&pool, &blob, &report.bad).in_place.len(), 1);
    assert_eq!(pool.take_repairs(10), [(blob.id, None)]);
    for shard in [0, 2] {
        flip(&bench.extent(&blob, 0, shard), data(1), 3);
    }
    let report = scrub(&pool, &blob, &[]);
    assert_eq!((repair(&pool, &blob, &report.bad).lost_rows, pool.repairs_waiting()), (1, 1));
}

#[test]
fn more_damage_than_parity_in_one_row_is_named_and_left_as_it_is() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(100_000, 1);
    let blob = put(&pool, &value).unwrap();
    // Three cells of row 1, and one of row 0 that can be rebuilt.
    for shard in [0, 2, 4] {
        flip(&bench.extent(&blob, 0, shard), 12_288 + 4096, 1);
    }
    flip(&bench.extent(&blob, 0, 0), 4096, 1);
    let before = fs::read(bench.extent(&blob, 0, 4)).unwrap();
    let report = scrub(&pool, &blob, &[]);
    let cell = |n: u64| (ByteCount(32_768 + n * 8192), ByteCount(8192));
    assert_eq!(report.lost, [cell(0), cell(2)]);
    let repaired = repair(&pool, &blob, &report.bad);
    assert_eq!(repaired.lost_rows, 1);
    assert!(fs::read(bench.extent(&blob, 0, 4)).unwrap() == before, "lost rows do not get worse");
    let again = scrub(&pool, &blob, &[]);
    assert_eq!((again.lost, again.found), (report.lost, 3));
    assert!(get_range(&pool, &blob, 0, 32_768).unwrap() == value[..32_768]);
    assert!(matches!(get(&pool, &blob), Err(PoolError::Unrecoverable { .. })));
}

#[test]
fn a_lost_drive_is_rebuilt_elsewhere_and_a_new_one_takes_its_place() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..20).map(|n| bytes(9000 * n + 1, n as u64)).collect();
    let blobs: Vec<BlobDescription> = values.iter().map(|value| put(&pool, value).unwrap()).collect();
    let small = bytes(20_000, 9);
    let (segment, piece) = pool.put_small(&small).unwrap();
    pool.seal_segments();
    let lost = segment.stripes[0].drives[1];
    pool.declare_lost(lost).unwrap();
    assert_eq!(pool.status().drives[usize::from(lost.0)].health, DriveHealth::Lost);
    let mut all: Vec<(BlobDescription, Vec<BlobPiece>)> =
        blobs.into_iter().map(|b| (b, Vec::new())).collect();
    all.push((segment, vec![piece]));
    let mut concerned = 0;
    for (blob, pieces) in &mut all {
        let report = scrub(&pool, blob, pieces);
        let uses = blob.stripes.iter().filter(|set| set.drives.contains(&lost)).count();
        assert_eq!((report.bad.len(), report.lost.len()), (uses, 0));
        let repaired = repair(&pool, blob, &report.bad);
        assert_eq!((repaired.moved.len(), repaired.failed.len()), (uses, 0), "{repaired:?}");
        concerned += uses;
        *blob = moved(blob, &repaired);
        assert!(scrub(&pool, blob, pieces).is_clean());
    }
    assert!(concerned > 3);
    // Two more may go now.
    let gone: Vec<u16> = (0..8).filter(|n| *n != lost.0).take(2).collect();
    gone.iter().for_each(|n| pool.declare_lost(DriveId(*n)).unwrap());
    for ((blob, _), value) in all.iter().zip(&values) {
        assert!(get(&pool, blob).unwrap() == *value);
    }
    // A new drive in the place of the first gets data again.
    let path = bench.path(lost.0).join("../new");
    DirectoryDrive::format(&path, INSTANCE, lost).unwrap();
    let new = DirectoryDrive::open(&path, INSTANCE, lost, DirectIo::Auto).unwrap();
    pool.attach(Arc::new(new), 5).unwrap();
    let second = DirectoryDrive::format(&path, INSTANCE, lost);
    assert!(second.is_err());
    let value = bytes(300_000, 77);
    let blob = put(&pool, &value).unwrap();
    assert!(blob.stripes.iter().all(|set| set.drives.contains(&lost)), "six of six drives are needed");
    assert!(get(&pool, &blob).unwrap() == value);
}

#[test]
fn of_every_three_lost_drives_exactly_the_files_concerned_are_lost() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..24).map(|n| bytes(1000 + n * n * 700, n as u64)).collect();
    let blobs: Vec<BlobDescription> = values.iter().map(|value| put(&pool, value).unwrap()).collect();
    let small: Vec<_> = (0..10).map(|n| pool.put_small(&bytes(3000, n)).unwrap()).collect();
    pool.close();
    drop(pool);
    let (mut lost_in_all, mut kept_in_all) = (0, 0);
    for a in 0..8u16 {
        for b in a + 1..8 {
            for c in b + 1..8 {
                let pool = bench.open(small_cells(), &[a, b, c]);
                for (blob, value) in blobs.iter().zip(&values) {
                    let piece = BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length };
                    let told = pool.has_drives_for(blob, &piece).unwrap();
                    match get(&pool, blob) {
                        Ok(read) => assert!(told && read == *value),
                        Err(PoolError::Unrecoverable { .. }) => assert!(!told),
                        Err(other) => panic!("{other}"),
                    }
                    *if told { &mut kept_in_all } else { &mut lost_in_all } += 1;
                    assert_eq!(scrub(&pool, blob, &[]).lost.is_empty(), told);
                }
                for (blob, piece) in &small {
                    let told = pool.has_drives_for(blob, piece).unwrap();
                    assert_eq!(pool.read_small(blob, piece).is_ok(), told);
                }
            }
        }
    }
    assert!(lost_in_all > 50 && kept_in_all > 50, "{lost_in_all} {kept_in_all}");
}

/// A pool whose clock the test moves, with a value in it.
struct Watched {
    pool: Arc<Pool>,
    clock: Arc<Hand>,
    value: Vec<u8>,
    blob: BlobDescription,
    /// The drive of its first shard.
    victim: usize,
}

fn watched(bench: &mut Bench) -> Watched {
    let pool = bench.open(small_cells(), &[]);
    let clock = Arc::new(Hand::default());
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let value = bytes(150_000, 1);
    let blob = put(&pool, &value).unwrap();
    let victim = usize::from(blob.stripes[0].drives[0].0);
    Watched { pool, clock, value, blob, victim }
}

/// On a loaded machine the scrub at the end missed a drive that had never failed: the test moved the clock by
/// more than a drive may be silent while that drive was still at a read that a get no longer waited for, so
/// it was rightly set aside.
#[test]
fn a_drive_that_fails_every_call_is_set_aside_and_comes_back() {
    let mut bench = Bench::new(8);
    let Watched { pool, clock, value, blob, victim } = watched(&mut bench);
    bench.faults[victim].set_dead(true);
    let health = |pool: &Pool| pool.status().drives[victim].health.clone();
    for _ in 0..40 {
        assert!(get(&pool, &blob).unwrap() == value);
    }
    assert!(bench.faults[victim].fired() > 0 && matches!(health(&pool), DriveHealth::Away { .. }));
    let other = put(&pool, &value).unwrap();
    assert!(other.stripes.iter().all(|set| !set.drives.contains(&DriveId(victim as u16))));
    // As long as a drive may be at one job. No job before this time is running then on a drive that works:
    // both threads of each have come to one that was given them here, and only drives of the blob are read.
    let forward = || {
        scrub(&pool, &blob, &[]);
        pool.scrub_superblocks();
        clock.forward(Duration::from_secs(30));
    };
    // It does not answer the first probes, then it does.
    for _ in 0..3 {
        forward();
        pool.tend();
        pool.scrub_superblocks();
        assert!(matches!(health(&pool), DriveHealth::Away { .. }));
    }
    bench.faults[victim].set_dead(false);
    wait_until("it is taken up again", || {
        forward();
        pool.tend();
        health(&pool) == DriveHealth::Up
    });
    assert!(pool.drive_health().iter().all(|(_, health)| *health == DriveHealth::Up));
    assert_eq!(pool.status().drives[victim].recoveries, 1);
    let report = scrub(&pool, &blob, &[]);
    assert!(report.is_clean(), "{report:?} {:?}", pool.drive_health());
}

/// A virtual machine that is moved stands still for a while, and then each drive that is at a job seems to
/// have been at it for that long. All were set aside at once, and puts refused.
#[test]
fn no_drive_is_to_blame_when_everything_stood_still() {
    let mut bench = Bench::new(8);
    let Watched { pool, clock, value, blob, victim } = watched(&mut bench);
    let second = || {
        clock.forward(Duration::from_secs(1));
        pool.tend();
    };
    clock.forward(Duration::from_secs(1));
    second();
    let _answering = Answering(Arc::clone(&bench.faults[victim]));
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    assert!(get(&pool, &blob).unwrap() == value, "others stand in for what does not come");
    let health = || pool.status().drives[victim].health.clone();
    clock.forward(Duration::from_secs(3600));
    pool.tend();
    assert_eq!(health(), DriveHealth::Up, "it was at its job for no longer than anybody looked");
    // It hangs all the same, and that is found in the time that it takes.
    (0..30).for_each(|_| second());
    assert!(matches!(health(), DriveHealth::Away { .. }), "{:?}", health());
    bench.faults[victim].hung.store(false, Ordering::SeqCst);
    wait_until("it is taken up again", || {
        second();
        health() == DriveHealth::Up
    });
    // One that hangs just when all goes on is found in the same time: its job began before the next look.
    clock.forward(Duration::from_secs(3600));
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    assert!(get(&pool, &blob).unwrap() == value);
    (0..40).for_each(|_| second());
    assert!(matches!(health(), DriveHealth::Away { .. }), "{:?}", health());
    bench.faults[victim].hung.store(false, Ordering::SeqCst);
}

/// Story: a job of a drive that was under way when the server gave the pool its clock seemed to have begun
/// with the machine. The drive was set aside as one that hangs, for some seconds after a start.
#[test]
fn a_job_of_before_the_clock_did_not_begin_with_the_machine() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(150_000, 1);
    let blob = put(&pool, &value).unwrap();
    let victim = usize::from(blob.stripes[0].drives[0].0);
    let _answering = Answering(Arc::clone(&bench.faults[victim]));
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    assert!(get(&pool, &blob).unwrap() == value, "others stand in for what does not come");
    wait_until("it is at its job", || bench.faults[victim].fired() > 0);
    let clock = Arc::new(Hand::default());
    clock.forward(Duration::from_secs(2754));
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let health = || pool.status().drives[victim].health.clone();
    pool.tend();
    assert_eq!(health(), DriveHealth::Up);
    // It hangs all the same, and that is found in the time that it takes.
    for _ in 0..40 {
        clock.forward(Duration::from_secs(1));
        pool.tend();
    }
    assert!(matches!(health(), DriveHealth::Away { .. }), "{:?}", health());
    bench.faults[victim].hung.store(false, Ordering::SeqCst);
}

/// A clock that leaps behind the first reading, once it is told to.
#[derive(Default)]
struct Leaping {
    hand: Hand,
    armed: AtomicBool,
}

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        self.hand.now()
    }

    fn steady(&self) -> Duration {
        let steady = self.hand.steady();
        if self.armed.swap(false, Ordering::SeqCst) {
            self.hand.forward(Duration::from_secs(3_600));
        }
        steady
    }
}

/// Story: the machine stood still, or a clock of a test leapt, just when a look at the drives had begun: all
/// that were at a job had been at it for so long, and were set aside.
#[test]
fn no_drive_is_to_blame_when_everything_stood_still_in_the_middle_of_a_look() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let clock = Arc::new(Leaping::default());
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let value = bytes(150_000, 1);
    let blob = put(&pool, &value).unwrap();
    let victim = usize::from(blob.stripes[0].drives[0].0);
    clock.hand.forward(Duration::from_secs(1));
    pool.tend();
    let _answering = Answering(Arc::clone(&bench.faults[victim]));
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    assert!(get(&pool, &blob).unwrap() == value);
    clock.armed.store(true, Ordering::SeqCst);
    pool.tend();
    assert!(!clock.armed.load(Ordering::SeqCst), "the look has read the clock");
    pool.tend();
    assert!(
        pool.drive_health().iter().all(|(_, health)| *health == DriveHealth::Up),
        "{:?}",
        pool.drive_health()
    );
}

/// A directory that was moved away, or whose disk was unmounted, has no extents: that said of each that it
/// was lost, while the drive stayed in use.
#[test]
fn a_drive_whose_directory_is_gone_is_away_until_it_is_back() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(30_000, 1);
    let blob = put(&pool, &value).unwrap();
    let drives = pool_drives_of(&blob);
    let health = |pool: &Pool, drive: DriveId| {
        pool.drive_health().into_iter().find(|(id, _)| *id == drive).map(|(_, health)| health)
    };
    let moved = |drive: DriveId| (bench.path(drive.0), bench.path(drive.0 + 100));
    for drive in &drives[..3] {
        let (here, there) = moved(*drive);
        std::fs::rename(here, there).unwrap();
    }
    assert!(matches!(get(&pool, &blob), Err(PoolError::Unrecoverable { .. })));
    for drive in &drives[..3] {
        let found = health(&pool, *drive);
        assert!(matches!(found, Some(DriveHealth::Away { .. })), "{drive}: {found:?}");
        assert!(matches!(pool.probe_drive(*drive), DriveHealth::Away { .. }));
    }
    // An empty directory in its place is not the drive.
    let (here, there) = moved(drives[0]);
    std::fs::create_dir(&here).unwrap();
    assert!(matches!(pool.probe_drive(drives[0]), DriveHealth::Away { .. }));
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(there, here).unwrap();
    assert_eq!(pool.probe_drive(drives[0]), DriveHealth::Up);
    assert!(get(&pool, &blob).unwrap() == value);
}

/// Found under load: readers that waited for memory kept what had come too late for them. When late cells had
/// taken all of it, nobody read from the pool any more.
#[test]
fn cells_that_come_late_are_not_held_by_readers_that_wait_for_memory() {
    let mut bench = Bench::new(6);
    let mut config = small_cells();
    config.arena = ByteCount::kib(360);
    let pool = bench.open(config, &[]);
    let value = bytes(30_000, 1);
    let blob = put(&pool, &value).unwrap();
    let two = || pool_drives_of(&blob).into_iter().take(2).map(|drive| &bench.faults[usize::from(drive.0)]);
    let _answering: Vec<_> = two().map(|faults| Answering(Arc::clone(faults))).collect();
    let hung = |pool: &Pool, is: bool| {
        for faults in two() {
            faults.hung.store(is, Ordering::SeqCst);
        }
        pool.late_cells()
    };
    hung(&pool, true);
    let readers: Vec<_> = (0..12)
        .map(|_| {
            let (pool, blob, value) = (Arc::clone(&pool), blob.clone(), value.clone());
            std::thread::spawn(move || assert!(get(&pool, &blob).unwrap() == value))
        })
        .collect();
    // Nothing more becomes late: late cells have the memory.
    let (mut late, mut since) = (0, std::time::Instant::now());
    wait_until("all memory waits for the drives", || {
        if pool.late_cells() != late {
            (late, since) = (pool.late_cells(), std::time::Instant::now());
        }
        late > 0 && since.elapsed() > Duration::from_secs(2)
    });
    assert!(late >= 6 && hung(&pool, false) == late, "{late} cells were late");
    wait_until("all have read", || readers.iter().all(std::thread::JoinHandle::is_finished));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

fn pool_drives_of(blob: &base::BlobDescription) -> Vec<DriveId> {
    blob.stripes[0].drives.clone()
}

/// On a loaded machine the drives that work were at a job for half a minute of the test's time too, and were
/// rightly set aside, until the writer had none left: time passes here only while they have just answered.
#[test]
fn reads_and_writes_go_on_without_a_drive_that_hangs() {
    let mut bench = Bench::new(8);
    let Watched { pool, clock, value, blob, victim } = watched(&mut bench);
    let _answering = Answering(Arc::clone(&bench.faults[victim]));
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    assert!(get(&pool, &blob).unwrap() == value, "others stand in for what does not come");
    assert!(pool.late_cells() > 0 && bench.faults[victim].fired() > 0);
    let writer = std::thread::spawn({
        let (pool, value) = (Arc::clone(&pool), value.clone());
        move || (0..8).map(|_| put(&pool, &value).unwrap()).collect::<Vec<_>>()
    });
    let others_answer = || {
        let all = pool.status().drives;
        let mut others = all.iter().enumerate().filter(|(drive, _)| *drive != victim);
        others.all(|(_, drive)| drive.silence < Duration::from_secs(10))
    };
    wait_until("the writer is done", || {
        if others_answer() {
            clock.forward(Duration::from_secs(1));
        }
        pool.tend();
        writer.is_finished()
    });
    let away = |set: &StripeSet| !set.drives.contains(&DriveId(victim as u16));
    let written = writer.join().unwrap();
    assert!(written.iter().all(|blob| blob.stripes.iter().all(away)));
    assert!(written.iter().all(|blob| get(&pool, blob).unwrap() == value));
    bench.faults[victim].hung.store(false, Ordering::SeqCst);
    wait_until("it is taken up again", || {
        clock.forward(Duration::from_secs(30));
        pool.tend();
        pool.status().drives[victim].health == DriveHealth::Up
    });
}

#[test]
fn a_copy_of_a_segment_is_rebuilt_record_by_record() {
    // Each copy has its own damage; every record is whole in one of them at least.
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..60).map(|n| bytes(200_000 - n * 1000, n as u64)).collect();
    let stored: Vec<_> = values.iter().map(|value| pool.put_small(value).unwrap()).collect();
    let segment = stored[0].0.clone();
    let pieces: Vec<BlobPiece> = stored.iter().map(|(_, piece)| *piece).collect();
    let bad: BTreeSet<BadShard> = scrub(&pool, &segment, &pieces).bad;
    assert!(bad.is_empty());
    pool.seal_segments();
    for (n, piece) in pieces.iter().enumerate() {
        for copy in (0..3).filter(|copy| n % 4 < 3 && *copy != n % 3) {
            flip(&bench.extent(&segment, 0, copy), piece.offset.0 + 100, 5);
        }
    }
    let report = scrub(&pool, &segment, &pieces);
    assert_eq!((report.bad.len(), report.lost.len(), report.found), (3, 0, 90));
    // One copy after the other, so that each is made from the two others and itself.
    let repaired = repair(&pool, &segment, &report.bad);
    assert_eq!((repaired.in_place.len(), repaired.failed.len()), (3, 0));
    assert!(scrub(&pool, &segment, &pieces).is_clean());
    let whole = fs::read(bench.extent(&segment, 0, 0)).unwrap();
    assert!((1..3).all(|copy| fs::read(bench.extent(&segment, 0, copy)).unwrap() == whole));
}
