//! Drives without room: they are full, and nothing else is wrong with them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{ByteCount, Clock, DriveGroup, DriveId, ManualClock, StripeCode, Timestamp};
use pool::{DriveHealth, Pool, PoolConfig, PoolError};

use super::common::{Bench, bytes, get, put, small_cells};

/// Time passes, drives are probed, and those probes have ended: stamps wait behind them.
fn second(pool: &Pool, clock: &ManualClock, commit: u64) -> Result<(), PoolError> {
    clock.advance(Duration::from_secs(1));
    pool.tend();
    pool.stamp(commit)
}

fn all_are(pool: &Pool, health: &DriveHealth) -> bool {
    pool.drive_health().iter().all(|(_, is)| is == health)
}

fn watched(bench: &mut Bench) -> (Arc<Pool>, Arc<ManualClock>) {
    let pool = bench.open(small_cells(), &[]);
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000_000)));
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    (pool, clock)
}

fn fill(bench: &Bench, full: bool) {
    bench.faults.iter().for_each(|faults| faults.full.store(full, Ordering::SeqCst));
}

/// Story: the superblock of a full drive could not be written, and so the drive was suspect. Once all were,
/// puts were refused since 'drives' were to be brought back, and each failed probe doubled the time until the
/// next, so that nothing went on for minutes after there was room.
#[test]
fn a_full_pool_is_called_full_and_goes_on_soon_after_there_is_room() {
    let mut bench = Bench::new(7);
    let (pool, clock) = watched(&mut bench);
    let value = bytes(40_000, 1);
    let earlier = put(&pool, &value).unwrap();
    fill(&bench, true);
    let refused = put(&pool, &value).unwrap_err();
    assert!(refused.is_full(), "{refused}");
    let refused = pool.put_small(b"small").unwrap_err();
    assert!(refused.is_full(), "{refused}");
    for _ in 0..60 {
        let refused = second(&pool, &clock, 9).unwrap_err();
        assert!(refused.is_full(), "{refused}");
        assert!(all_are(&pool, &DriveHealth::Full), "{:?}", pool.drive_health());
    }
    let refused = put(&pool, &value).unwrap_err();
    assert!(matches!(refused, PoolError::Full { width: 6, writable: 0 }), "{refused}");
    assert!(pool.check_placement().unwrap_err().is_full());
    assert!(get(&pool, &earlier).unwrap() == value, "it is read all the time");
    fill(&bench, false);
    for _ in 0..6 {
        second(&pool, &clock, 10).unwrap();
    }
    assert!(all_are(&pool, &DriveHealth::Up), "{:?}", pool.drive_health());
    let later = put(&pool, &value).unwrap();
    assert!(get(&pool, &later).unwrap() == value);
}

/// Story: a pool at 96 % took no put, and was full and not full in turn: a probe needs a page of room, and
/// what a refused put had taken was room again, for the next to be refused.
#[test]
fn a_drive_is_full_until_it_has_the_room_that_it_lacked() {
    let mut bench = Bench::new(6);
    let (pool, clock) = watched(&mut bench);
    let small = put(&pool, &bytes(40_000, 1)).unwrap();
    let room = |left: u64| bench.faults.iter().for_each(|faults| faults.room.store(left, Ordering::SeqCst));
    // A page finds room; a shard of the blob does not.
    room(16_384);
    let value = bytes(160_000, 2);
    let put_whole = || {
        let mut writer = pool.create_sized(ByteCount(value.len() as u64)).unwrap();
        writer.write(&value).and_then(|()| writer.finish())
    };
    let is_full = || matches!(pool.takes_files(), Err(PoolError::Full { width: 6, writable: 0 }));
    for _ in 0..12 {
        assert!(put_whole().unwrap_err().is_full());
        assert!(is_full() && all_are(&pool, &DriveHealth::Full), "{:?}", pool.drive_health());
        (0..3).for_each(|_| second(&pool, &clock, 9).unwrap());
        assert!(is_full() && all_are(&pool, &DriveHealth::Full), "{:?}", pool.drive_health());
    }
    assert_eq!(pool.status().errors, 0, "a full drive has no errors");
    // Too little came free, then enough.
    pool.remove(&small).unwrap();
    (0..12).for_each(|_| second(&pool, &clock, 10).unwrap());
    assert!(is_full(), "{:?}", pool.drive_health());
    room(100_000);
    let free = |bytes: u64| bench.faults.iter().for_each(|faults| faults.free.store(bytes, Ordering::SeqCst));
    // All drives stand on one file system, of which each needs about 45 kB: one alone would find as much.
    free(100_000);
    (0..12).for_each(|_| second(&pool, &clock, 10).unwrap());
    assert!(is_full(), "{:?}", pool.drive_health());
    free(10_000_000);
    (0..6).for_each(|_| second(&pool, &clock, 11).unwrap());
    assert!(pool.takes_files().is_ok() && all_are(&pool, &DriveHealth::Up), "{:?}", pool.drive_health());
    assert!(get(&pool, &put_whole().unwrap()).unwrap() == value);
}

/// Story: a second passed until what an evict had removed counted as room, and the first put was refused.
#[test]
fn what_comes_free_is_room_at_once() {
    let mut bench = Bench::new(6);
    let (pool, _clock) = watched(&mut bench);
    let value = bytes(40_000, 1);
    let earlier = put(&pool, &value).unwrap();
    fill(&bench, true);
    assert!(put(&pool, &value).unwrap_err().is_full());
    assert!(all_are(&pool, &DriveHealth::Full), "{:?}", pool.drive_health());
    fill(&bench, false);
    assert!(put(&pool, &value).unwrap_err().is_full(), "nothing was removed, and no time passes");
    pool.remove(&earlier).unwrap();
    // The probes are behind the removals in the drives' queues.
    let begin = std::time::Instant::now();
    while pool.takes_files().is_err() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    assert!(all_are(&pool, &DriveHealth::Up), "{:?}", pool.drive_health());
    let later = put(&pool, &value).unwrap();
    assert!(get(&pool, &later).unwrap() == value);
}

/// Story: with 60 MB free on each drive a value of five bytes opened a segment, whose 64 MiB did not fit:
/// nothing was taken any more, for good, since nothing could be removed.
#[test]
fn a_segment_takes_no_more_room_than_drives_have_for_files() {
    let mut bench = Bench::new(6);
    let (pool, _clock) = watched(&mut bench);
    for faults in &bench.faults {
        faults.room.store(60_000_000, Ordering::SeqCst);
        // All drives stand on one file system.
        faults.free.store(6 * 60_000_000, Ordering::SeqCst);
    }
    for value in [&b"small"[..], &bytes(200_000, 1)] {
        let (blob, piece) = pool.put_small(value).unwrap();
        assert!(pool.read_small(&blob, &piece).unwrap()[..] == *value);
    }
    assert!(all_are(&pool, &DriveHealth::Up), "{:?}", pool.drive_health());
    pool.takes_files().unwrap();
    // A quota may leave less than the file system says; then only what is written is reserved.
    pool.seal_segments();
    bench.faults.iter().for_each(|faults| faults.room.store(100_000, Ordering::SeqCst));
    let (blob, piece) = pool.put_small(b"small").unwrap();
    assert!(pool.read_small(&blob, &piece).unwrap()[..] == b"small"[..]);
    assert!(pool.put_small(&bytes(200_000, 2)).unwrap_err().is_full());
}

/// What empties a pool is small. It is written on drives that were too full for something larger.
#[test]
fn a_drive_that_is_too_full_for_much_takes_less() {
    let mut bench = Bench::new(6);
    let (pool, clock) = watched(&mut bench);
    let room = |left: u64| bench.faults.iter().for_each(|faults| faults.room.store(left, Ordering::SeqCst));
    let free =
        |each: u64| bench.faults.iter().for_each(|faults| faults.free.store(6 * each, Ordering::SeqCst));
    let put_whole = |length: usize, is_client: bool| {
        let value = bytes(length, 3);
        let mut writer = pool.create_sized(ByteCount(length as u64)).unwrap();
        if is_client {
            writer = writer.used_by_client_of("somebody");
        }
        writer.write(&value).and_then(|()| writer.finish()).map(|blob| (blob, value))
    };
    room(30_000);
    free(30_000);
    assert!(put_whole(160_000, false).unwrap_err().is_full());
    assert!(all_are(&pool, &DriveHealth::Full), "{:?}", pool.drive_health());
    pool.check_placement().unwrap();
    for is_client in [false, true] {
        let (blob, value) = put_whole(45_000, is_client).unwrap();
        assert!(get(&pool, &blob).unwrap() == value, "client: {is_client}");
    }
    let (blob, piece) = pool.put_small(b"small").unwrap();
    assert!(pool.read_small(&blob, &piece).unwrap()[..] == b"small"[..]);
    assert!(pool.takes_files().unwrap_err().is_full(), "files may be larger");
    // Room above the floor is less than a shard of it: what clients send goes there no more.
    free(22_000);
    clock.advance(Duration::from_secs(2));
    assert!(put_whole(45_000, true).unwrap_err().is_full());
    put_whole(45_000, false).unwrap();
    // What is still smaller finds room where this does not.
    room(16_000);
    assert!(put_whole(45_000, false).unwrap_err().is_full());
    put_whole(8_000, false).unwrap();
    // None of this is room for what the drives lacked first.
    assert!(all_are(&pool, &DriveHealth::Full), "{:?}", pool.drive_health());
}

/// Story: a stripe was put on a drive with too little room for it, whose turn it was, where others had
/// enough: it was full from then on.
#[test]
fn a_stripe_goes_where_it_has_room() {
    let mut bench = Bench::new(8);
    let (pool, clock) = watched(&mut bench);
    for (n, faults) in bench.faults.iter().enumerate() {
        let room = if n < 2 { 30_000 } else { 1_000_000 };
        faults.room.store(room, Ordering::SeqCst);
        faults.free.store(room, Ordering::SeqCst);
    }
    clock.advance(Duration::from_secs(2));
    pool.check_placement().unwrap();
    assert_eq!(pool.spaces().len(), 8, "each is asked");
    for n in 0..32 {
        let mut writer = pool.create_sized(ByteCount(160_000)).unwrap();
        writer.write(&bytes(160_000, n)).unwrap();
        writer.finish().unwrap();
    }
    assert!(all_are(&pool, &DriveHealth::Up), "{:?}", pool.drive_health());
}

/// Story: room that a large file had claimed in a group of drives stayed claimed until the file's end, though
/// what was written of it was counted as used by then: twice as much as it took was kept from others.
#[test]
fn room_that_is_claimed_in_a_group_is_given_back_as_it_is_written() {
    const STRIPE: usize = 4 * 4 * 8_192;
    let mut bench = Bench::new(12);
    let config = PoolConfig { groups: vec![StripeCode::reed_solomon(4, 2)], ..small_cells() };
    let pool = bench.open(config, &[]);
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000_000)));
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let group = DriveGroup(1);
    (6..12).for_each(|n| pool.set_group(DriveId(n), group));
    // Of each drive a fifth of what is free is not for files; and twelve share a file system.
    let free = |stripes: usize| {
        let each = 12 * (stripes * STRIPE / 4 * 5 / 4);
        bench.faults[6..].iter().for_each(|faults| faults.free.store(each as u64, Ordering::SeqCst));
        clock.advance(Duration::from_secs(2));
    };
    free(14);
    let value = bytes(12 * STRIPE, 1);
    let mut writer = pool.create_on(group, Some(ByteCount(value.len() as u64))).unwrap();
    let other = ByteCount(STRIPE as u64);
    assert!(!pool.has_room_in(group, ByteCount(3 * STRIPE as u64)), "most of it is claimed");
    let (first, rest) = value.split_at(8 * STRIPE);
    writer.write(first).unwrap();
    free(6);
    let (next, rest) = rest.split_at(2 * STRIPE);
    writer.write(next).unwrap();
    assert!(pool.has_room_in(group, other), "what is not written yet is claimed, and no more");
    assert!(!pool.has_room_in(group, ByteCount(6 * STRIPE as u64)), "but that is");
    writer.write(rest).unwrap();
    let blob = writer.finish().unwrap();
    assert_eq!(pool.group_of_blob(&blob), group);
    assert!(get(&pool, &blob).unwrap() == value);
    free(2);
    assert!(pool.has_room_in(group, other), "nothing is claimed any more");
}

/// Drives that are away are no full pool, whatever else is full.
#[test]
fn too_few_drives_are_not_called_a_full_pool() {
    let mut bench = Bench::new(7);
    let pool = bench.open(small_cells(), &[0, 1]);
    assert!(matches!(pool.check_placement(), Err(PoolError::Placement(_))));
    assert!(matches!(pool.takes_files(), Err(PoolError::Placement(_))));
    fill(&bench, true);
    assert!(!put(&pool, &bytes(40_000, 1)).unwrap_err().is_full());
    assert!(matches!(pool.stamp(9), Err(error) if error.is_full()));
    assert!(matches!(pool.check_placement(), Err(PoolError::Placement(_))));
}

/// One that failed and answers again is full if its probe finds no room: it is read, and not suspect.
#[test]
fn a_suspect_drive_that_works_again_may_be_full() {
    let mut bench = Bench::new(7);
    let (pool, clock) = watched(&mut bench);
    let blob = put(&pool, &bytes(40_000, 1)).unwrap();
    let victim = usize::from(blob.stripes[0].drives[0].0);
    let health = || pool.status().drives[victim].health.clone();
    bench.faults[victim].fail_append(0, false);
    (0..7).for_each(|n| drop(put(&pool, &bytes(40_000, n)).unwrap()));
    assert!(matches!(health(), DriveHealth::Suspect { .. }), "{:?}", health());
    fill(&bench, true);
    (0..8).for_each(|_| drop(second(&pool, &clock, 9)));
    // The stamps skip a suspect drive, and wait for no probe of it.
    let begin = std::time::Instant::now();
    while health() != DriveHealth::Full && begin.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    assert_eq!(health(), DriveHealth::Full);
}
