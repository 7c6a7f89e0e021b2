//! Drives that are added to an open pool, and how much new data each drive gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::common::{Bench, INSTANCE, bytes, get, map, put, small_cells, wait_until};
use base::DriveId;
use drive::{DirectIo, DirectoryDrive};
use pool::{DriveHealth, Pool, PoolError};

fn made(bench: &Bench, id: u16) -> Arc<DirectoryDrive> {
    DirectoryDrive::format(&bench.path(id), INSTANCE, DriveId(id)).unwrap();
    Arc::new(DirectoryDrive::open(&bench.path(id), INSTANCE, DriveId(id), DirectIo::Auto).unwrap())
}

/// How many of so many stripes each drive gets.
fn stripes(pool: &Arc<Pool>, count: u64) -> BTreeMap<u16, u64> {
    let mut counts = BTreeMap::new();
    for n in 0..count {
        let blob = put(pool, &bytes(20_000, n)).unwrap();
        let drives = blob.stripes.iter().flat_map(|set| &set.drives);
        drives.for_each(|drive| *counts.entry(drive.0).or_default() += 1);
    }
    counts
}

#[test]
fn drives_are_added_while_others_read_and_write() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(7).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3u64 {
            let (pool, is_over) = (&pool, &is_over);
            scope.spawn(move || {
                let mut seen = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let value = bytes(150_000, worker << 32 | seen);
                    let blob = put(pool, &value).unwrap();
                    assert!(get(pool, &blob).unwrap() == value);
                    let (segment, piece) = pool.put_small(&value[..5_000]).unwrap();
                    assert!(*pool.read_small(&segment, &piece).unwrap() == value[..5_000]);
                    pool.check_placement().unwrap();
                    assert!(pool.silent_drives().is_empty());
                    seen += 1;
                }
            });
        }
        let map = map(300);
        for id in [6, 299] {
            let drive = made(&bench, id);
            pool.stamp_new(drive.as_ref(), 9).unwrap();
            pool.add(map.get(DriveId(id)).unwrap().clone(), drive).unwrap();
            let used =
                || pool.status().drives.iter().any(|drive| drive.id.0 == id && drive.bytes_written.0 > 0);
            wait_until("something is written to it", used);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert_eq!((pool.drives_with_gaps().len(), pool.drive_health().len()), (0, 8));
    assert!(pool.drive_health().iter().all(|(_, health)| *health == DriveHealth::Up));
    let again = map(300).get(DriveId(299)).unwrap().clone();
    let other = tempfile::tempdir().unwrap();
    DirectoryDrive::format(other.path(), INSTANCE, DriveId(299)).unwrap();
    let copy = DirectoryDrive::open(other.path(), INSTANCE, DriveId(299), DirectIo::Auto).unwrap();
    pool.stamp_new(&copy, 9).unwrap();
    assert!(matches!(pool.add(again, Arc::new(copy)), Err(PoolError::DriveState { .. })));
}

#[test]
#[should_panic(expected = "it belongs to this server before it is written")]
fn a_drive_that_was_not_stamped_is_not_taken_in() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let _ = pool.add(map(7).get(DriveId(6)).unwrap().clone(), made(&bench, 6));
}

/// Even parts of 200 stripes of 6 on 16 drives are 75.
#[test]
fn new_data_goes_to_drives_by_their_room() {
    let mut bench = Bench::new(16);
    let pool = bench.open(small_cells(), &[]);
    bench.faults.iter().for_each(|faults| faults.free.store(1 << 40, Ordering::SeqCst));
    bench.faults[3].free.store(1 << 44, Ordering::SeqCst);
    bench.faults[9].free.store(1 << 38, Ordering::SeqCst);
    assert_eq!(pool.status().drives.len(), 16, "they have told it");
    let counts = stripes(&pool, 200);
    let others = counts.iter().filter(|(drive, _)| ![3, 9].contains(*drive));
    assert!(others.clone().all(|(_, count)| (55..=90).contains(count)), "{counts:?}");
    assert!((120..=160).contains(&counts[&3]) && (20..=50).contains(&counts[&9]), "{counts:?}");
}
