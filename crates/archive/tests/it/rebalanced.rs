//! What is stored moves from the fuller drives of the pool to the emptier ones, with all that it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archive::DriveLocation;
use archive::{Archive, Machines, NewDrive, PoolWork, RebalanceInfo, Settings};
use base::{ByteCount, Clock, DriveId, ManualClock, PercentPoints};
use drive::ExtentId;

use crate::added::Named;
use crate::common::tight::{TightDrive, Tightness};
use crate::common::{Instance, SystemClock, extents, get, put, scrub, settled, stop, wait_for_pool};
use crate::drained::{check_files, content, load, name, put_files, small_packs};
use crate::hung_drives::Ticking;

const FILES: u64 = 40;
/// What a drive of [`sized`] holds.
const CAPACITY: u64 = 32 << 20;
/// What is free of it, whatever stands there: more than a segment of small files may come to take.
const FREE: u64 = 100 << 20;

fn at_rest(settings: &mut Settings) {
    for class in &mut settings.classes {
        (class.pack_age, class.pack_bytes) = (Duration::from_secs(3600), ByteCount::mib(4_000));
    }
}

/// An instance with so many drives, which stand where `host` says; six of them are there at first.
pub fn growing(drives: u16, host: fn(u16) -> Option<&'static str>) -> Instance {
    Instance::with(ByteCount::mib(256), |settings| {
        at_rest(settings);
        let first = settings.pool.drives[0].clone();
        settings.pool.drives = (0..drives)
            .map(|id| {
                let at = DriveLocation::Directory(first.at.directory().with_file_name(format!("d{id}")));
                archive::PoolDriveSettings { id, at, host: host(id).map(str::to_owned), ..first.clone() }
            })
            .collect();
    })
}

fn directory(instance: &Instance, drive: u16) -> PathBuf {
    instance.directory.path().join(format!("pool/d{drive}"))
}

/// The archive over the first drives of an instance, each of [`CAPACITY`], and what each of them does.
fn sized(instance: &Instance, drives: usize, clock: Arc<dyn Clock>) -> (Archive, Vec<Arc<Tightness>>) {
    let mut settings = instance.settings.clone();
    settings.pool.drives.truncate(drives);
    let mut machines = Machines::open(&settings, Arc::clone(&clock)).unwrap();
    let mut all = Vec::new();
    for (_, drive) in &mut machines.drives {
        let tightness = Arc::<Tightness>::default();
        tightness.capacity.store(CAPACITY, Ordering::SeqCst);
        tightness.free.store(FREE, Ordering::SeqCst);
        let inner = drive.take().unwrap();
        *drive = Some(Arc::new(TightDrive { inner, tightness: Arc::clone(&tightness) }));
        all.push(tightness);
    }
    (settled(Archive::open_on(machines, settings, clock).unwrap()), all)
}

/// A pool of six such drives with files, which has grown.
fn grown(instance: &Instance, drives: usize) -> (Archive, Vec<Arc<Tightness>>) {
    let (archive, _) = sized(instance, 6, Arc::new(SystemClock));
    put_files(&archive, 0..FILES);
    stop(archive);
    sized(instance, drives, Arc::new(SystemClock))
}

fn info(archive: &Archive) -> Option<RebalanceInfo> {
    archive.pool_info().unwrap().rebalance
}

fn ended(archive: &Archive) -> Option<String> {
    match info(archive)?.state {
        PoolWork::Ended(why) => Some(why),
        _ => None,
    }
}

/// Waits until it has ended; what is told then.
fn wait_ended(archive: &Archive) -> (String, RebalanceInfo) {
    wait_for_pool(archive, "the rebalance has ended", || ended(archive).is_some());
    (ended(archive).unwrap(), info(archive).unwrap())
}

fn waits(archive: &Archive) -> Option<String> {
    match info(archive)?.state {
        PoolWork::Waiting(why) => Some(why),
        _ => None,
    }
}

/// The bytes of the extents on each drive.
fn on_drives(instance: &Instance, drives: u16) -> Vec<u64> {
    let bytes =
        |drive| extents(&directory(instance, drive)).iter().map(|at| at.metadata().unwrap().len()).sum();
    (0..drives).map(bytes).collect()
}

/// Each shard that the catalogue names stands on its drive, no two of a stripe on one; no host has more than
/// so many of them. Gives how many stripes there are.
pub fn assert_placed(instance: &Instance, together_max: usize) -> usize {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let drives: BTreeMap<DriveId, _> =
        machines.drives.iter().map(|(id, drive)| (*id, drive.clone().unwrap())).collect();
    let host = |id: DriveId| {
        let settings = instance.settings.pool.drives.iter().find(|drive| drive.id == id.0).unwrap();
        settings.host.clone().unwrap_or_default()
    };
    let blobs = machines.catalogue.read(|view| view.blobs(None, usize::MAX)).unwrap();
    let mut stripes = 0;
    for (id, _) in blobs {
        let blob = machines.catalogue.read(|view| view.blob(id)).unwrap().unwrap();
        for (stripe, set) in (0u32..).zip(&blob.stripes) {
            stripes += 1;
            assert_eq!(set.drives.iter().collect::<BTreeSet<_>>().len(), set.drives.len(), "{set:?}");
            let mut together: BTreeMap<String, usize> = BTreeMap::new();
            for (shard, drive) in (0u8..).zip(&set.drives) {
                *together.entry(host(*drive)).or_default() += 1;
                drives[drive].length(ExtentId { blob: blob.extents(), stripe, shard }).unwrap();
            }
            assert!(together.values().all(|count| *count <= together_max), "{together:?}");
        }
    }
    stripes
}

pub fn assert_whole(archive: &Archive, files: u64) {
    check_files(archive, 0..files);
    scrub(archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed), (0, 0), "{:?}", info.findings);
}

/// From 6 to 9 drives under puts, reads, sessions and removals, and over a restart.
#[test]
fn drives_that_are_added_get_their_part_of_what_is_stored() {
    let mut instance = Instance::with(ByteCount::mib(256), |settings| {
        small_packs(settings);
        settings.pool.drives.truncate(6);
    });
    let file = Named::of(&instance);
    let archive = crate::added::open(&mut instance, &file);
    put_files(&archive, 0..FILES);
    for drive in 6..9 {
        let at = DriveLocation::Directory(directory(&instance, drive));
        let wanted = NewDrive { make: true, ..NewDrive::at(at) };
        archive.pool_drive_add(&wanted).unwrap();
    }
    // All are parts of one file system, which is much larger: they are to be as equal as shards let them be.
    archive.pool_rebalance(PercentPoints(0)).unwrap();
    archive.pool_rebalance(PercentPoints(0)).unwrap();
    let begin = |archive: &Archive, files: u64| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| load(archive, files, &is_over));
            wait_for_pool(archive, "shards move", || info(archive).is_some_and(|info| info.moved > 5));
            is_over.store(true, Ordering::SeqCst);
            load.join().unwrap()
        })
    };
    let written = begin(&archive, FILES);
    stop(archive);
    let archive = crate::added::open(&mut instance, &file);
    // Begun anew: it may have come to its end with the first load.
    archive.pool_rebalance(PercentPoints(0)).unwrap();
    let more: Vec<Vec<u8>> = (written..written + 20).map(content).collect();
    put_files(&archive, written..written + 20);
    assert_eq!(more.len(), 20);
    let (why, told) = wait_ended(&archive);
    assert!(why.contains("no shard can move") || why.contains("balanced"), "{why}");
    assert_eq!(told.left_bytes, ByteCount(0));
    assert_whole(&archive, written + 20);
    stop(archive);
    assert_placed(&instance, 6);
    let on = on_drives(&instance, 9);
    let (most, least) = (on.iter().max().unwrap(), on.iter().min().unwrap());
    // Garbage may lie on some still.
    assert!(*least > 0 && most - least < most / 2, "{on:?}");
}

#[test]
fn it_ends_when_drives_are_as_near_as_was_asked() {
    let instance = growing(9, |_| None);
    let (archive, _) = grown(&instance, 9);
    let before = on_drives(&instance, 9);
    assert!(before[..6].iter().all(|bytes| *bytes > 3_000_000) && before[6..] == [0; 3], "{before:?}");
    archive.pool_rebalance(PercentPoints(5)).unwrap();
    let (why, told) = wait_ended(&archive);
    assert!(why.starts_with("balanced: "), "{why}");
    assert!(
        told.spread.unwrap().points() <= 5.0 && told.moved > 10 && told.moved_bytes.0 > 1_000_000,
        "{told:?}"
    );
    wait_for_pool(&archive, "what has moved is removed", || {
        let on = on_drives(&instance, 9);
        on.iter().sum::<u64>() == before.iter().sum::<u64>()
    });
    let on = on_drives(&instance, 9);
    let apart = on.iter().max().unwrap() - on.iter().min().unwrap();
    assert!(apart * 100 <= CAPACITY * 7, "as the files lie there, small ones with their headers: {on:?}");
    // Once more it has nothing to do.
    archive.pool_rebalance(PercentPoints(5)).unwrap();
    wait_for_pool(&archive, "it has ended again", || {
        info(&archive).is_some_and(|now| now.since != told.since && now.state.word("moving") == "ended")
    });
    assert_eq!(info(&archive).unwrap().moved, 0);
    // The fullest of them give way to no more than what was asked.
    archive.pool_rebalance(PercentPoints(100)).unwrap();
    wait_ended(&archive);
    assert_whole(&archive, FILES);
    stop(archive);
    assert_placed(&instance, 6);
    let (archive, _) = sized(&instance, 9, Arc::new(SystemClock));
    assert_eq!(info(&archive), None, "the word is over");
    stop(archive);
}

#[test]
fn the_word_lasts_over_a_restart_until_it_is_ended() {
    let instance = growing(9, |_| None);
    let (archive, _) = grown(&instance, 9);
    assert_eq!((info(&archive), archive.pool_rebalance_end().unwrap()), (None, false));
    archive.pool_rebalance(PercentPoints(1)).unwrap();
    let since = info(&archive).unwrap().since;
    stop(archive);
    let (archive, _) = sized(&instance, 9, Arc::new(SystemClock));
    let told = info(&archive).unwrap();
    assert_eq!((told.to, told.since), (PercentPoints(1), since));
    wait_for_pool(&archive, "shards move", || info(&archive).is_some_and(|info| info.moved > 0));
    // Another word counts from then on.
    archive.pool_rebalance(PercentPoints(0)).unwrap();
    if archive.pool_rebalance_end().unwrap() {
        assert!(ended(&archive).unwrap().contains("an operator"), "{:?}", info(&archive));
    }
    assert!(!archive.pool_rebalance_end().unwrap());
    wait_for_pool(&archive, "the scrubber is idle", || archive.scrub_info().phase == "idle");
    assert_whole(&archive, FILES);
    stop(archive);
    assert_placed(&instance, 6);
    let (archive, _) = sized(&instance, 9, Arc::new(SystemClock));
    assert_eq!(info(&archive), None);
    stop(archive);
}

/// What was added to one of three hosts takes from that host only: else its loss would take too many shards.
#[test]
fn it_ends_where_failure_domains_let_nothing_move() {
    let instance = growing(9, |id| Some(["a", "a", "b", "b", "c", "c", "a", "a", "a"][usize::from(id)]));
    let (archive, _) = grown(&instance, 9);
    archive.pool_rebalance(PercentPoints(3)).unwrap();
    let (why, told) = wait_ended(&archive);
    assert!(why.contains("no shard can move to an emptier drive with gain"), "{why}");
    assert!(told.spread.unwrap().points() > 3.0 && told.moved > 0, "{told:?}");
    assert_whole(&archive, FILES);
    stop(archive);
    assert_placed(&instance, 2);
}

/// A damaged cell is computed from the others on its way: it is not copied.
#[test]
fn what_is_damaged_is_rebuilt_on_its_way() {
    let instance = growing(9, |_| None);
    let (archive, _) = grown(&instance, 6);
    stop(archive);
    for file in extents(&directory(&instance, 2)) {
        let mut bytes = fs::read(&file).unwrap();
        let at = bytes.len() / 2;
        bytes[at..at + 100].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&file, bytes).unwrap();
    }
    let damaged = extents(&directory(&instance, 2)).len();
    let (archive, _) = sized(&instance, 9, Arc::new(SystemClock));
    archive.pool_rebalance(PercentPoints(0)).unwrap();
    wait_ended(&archive);
    wait_for_pool(&archive, "what has moved is removed", || {
        extents(&directory(&instance, 2)).len() < damaged
    });
    check_files(&archive, 0..FILES);
    scrub(&archive);
    let findings = archive.scrub_info().findings;
    let is_of_new = |line: &&String| ["drive 6", "drive 7", "drive 8"].iter().any(|new| line.contains(new));
    assert_eq!(findings.iter().find(is_of_new), None);
    scrub(&archive);
    assert_eq!(archive.scrub_info().found, 0);
    stop(archive);
    assert_placed(&instance, 6);
}

/// No move is recorded before the copy is durable: what cannot be synced is not named anywhere.
#[test]
fn a_copy_that_is_not_durable_is_not_recorded() {
    let instance = growing(9, |_| None);
    let (archive, drives) = grown(&instance, 9);
    drives[6..].iter().for_each(|drive| drive.fail_seals.store(true, Ordering::SeqCst));
    archive.pool_rebalance(PercentPoints(5)).unwrap();
    let failed = || drives[6..].iter().map(|drive| drive.seals_failed.load(Ordering::SeqCst)).sum::<u64>();
    wait_for_pool(&archive, "a move was tried", || failed() > 0);
    wait_for_pool(&archive, "it waits for them", || waits(&archive).is_some());
    assert_eq!(info(&archive).unwrap().moved, 0);
    check_files(&archive, 0..FILES);
    stop(archive);
    assert_placed(&instance, 6);
    let (archive, _) = sized(&instance, 9, Arc::new(SystemClock));
    let (why, _) = wait_ended(&archive);
    assert!(why.starts_with("balanced: "), "{why}");
    assert_whole(&archive, FILES);
    stop(archive);
    assert_placed(&instance, 6);
}

/// A drive that answers nothing holds nobody up: the others level off, and it takes its part when it is back.
#[test]
fn a_drive_that_hangs_takes_its_part_when_it_is_back() {
    let instance = growing(9, |_| None);
    let (archive, _) = grown(&instance, 6);
    stop(archive);
    let clock = instance.clock();
    let of_test: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let (archive, drives) = sized(&instance, 9, of_test);
    let _ticking = Ticking::begin(&clock);
    let gaps = || archive.pool_info().unwrap().drives.iter().any(|drive| drive.gaps_after.is_some());
    wait_for_pool(&archive, "no drive may lack anything", || !gaps());
    drives[3].hold_reads.store(true, Ordering::SeqCst);
    archive.pool_rebalance(PercentPoints(5)).unwrap();
    (0..8).for_each(|n| assert!(get(&archive, &name(n)).unwrap() == content(n)));
    let state = || archive.pool_info().unwrap().drives[3].state;
    wait_for_pool(&archive, "it is set aside", || state() == "away");
    wait_for_pool(&archive, "shards move, and the rebalance waits", || {
        info(&archive).is_some_and(|info| info.moved > 0) && waits(&archive).is_some()
    });
    drives[3].hold_reads.store(false, Ordering::SeqCst);
    let (why, told) = wait_ended(&archive);
    assert!(why.starts_with("balanced: ") && told.spread.unwrap().points() <= 5.0, "{why}");
    check_files(&archive, 0..FILES);
    stop(archive);
    assert_placed(&instance, 6);
}

/// The drive is emptied first, and what was on it is balanced with the rest.
#[test]
fn a_drive_is_emptied_before_the_others_are_made_equal() {
    let instance = growing(9, |_| None);
    let (archive, _) = grown(&instance, 9);
    archive.pool_drive_drain(1).unwrap();
    archive.pool_rebalance(PercentPoints(5)).unwrap();
    put(&archive, "/beside", &content(7));
    let (why, _) = wait_ended(&archive);
    assert!(why.starts_with("balanced: "), "{why}");
    let empty = || archive.pool_info().unwrap().drives[1].drain.clone().is_some_and(|drain| drain.is_empty);
    wait_for_pool(&archive, "it is empty", empty);
    wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(1).is_ok());
    assert_whole(&archive, FILES);
    stop(archive);
    assert!(extents(&directory(&instance, 1)).is_empty());
}
