//! Repair must never make bytes worse than they are.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use crate::common::{Bench, bytes, flip, get, put, small_cells};
use base::{BlobPiece, Crc32c};
use pool::{BadShard, Fault};

/// A repair of shards 0, 1 and 2, each with one bad cell in another row, met a row whose drives failed for a
/// moment. It took the row for lost, filled the cells that it could not read with zeros, and renamed the
/// result over extents that had been whole there: of six whole cells three were left.
#[test]
fn a_passing_failure_of_reads_is_not_written_down() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(131_072, 1);
    let blob = put(&pool, &value).unwrap();
    let mut bad = BTreeSet::new();
    for shard in 0..3usize {
        flip(&bench.extent(&blob, 0, shard), shard as u64 * 12_288 + 4096, 1);
        let drive = blob.stripes[0].drives[shard];
        bad.insert(BadShard { stripe: 0, shard: shard as u8, drive });
        // The row's read, and the one of the cell as it lies there.
        let faults = &bench.faults[usize::from(drive.0)];
        faults.passing_from.store(3 * 12_288, Ordering::SeqCst);
        faults.passing.store(2, Ordering::SeqCst);
    }
    let repaired = pool.repair(&blob, &bad, &mut |_| true).unwrap();
    let fired: u64 = bench.faults.iter().map(|faults| faults.fired()).sum();
    assert_eq!((fired, repaired.lost_rows, repaired.in_place.len()), (6, 1, 0), "{repaired:?}");
    assert_eq!(repaired.failed.len(), 3);
    assert!(get(&pool, &blob).unwrap() == value, "nothing got worse");
    let repaired = pool.repair(&blob, &bad, &mut |_| true).unwrap();
    assert_eq!(repaired.in_place.len(), 3, "{repaired:?}");
    assert!(pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean());
}

/// A repair of a segment took copies that could not be read at the moment for copies that had ended: it
/// sealed a copy that was cut off in the middle over the one that it was to repair.
#[test]
fn a_copy_of_a_segment_is_not_cut_off_where_it_cannot_be_read() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..60).map(|n| bytes(200_000 - n * 1000, n as u64)).collect();
    let stored: Vec<_> = values.iter().map(|value| pool.put_small(value).unwrap()).collect();
    let segment = stored[0].0.clone();
    pool.seal_segments();
    flip(&bench.extent(&segment, 0, 0), stored[3].1.offset.0 + 100, 5);
    let before = fs::read(bench.extent(&segment, 0, 0)).unwrap();
    for drive in &segment.stripes[0].drives {
        let faults = &bench.faults[usize::from(drive.0)];
        faults.passing_from.store(4 << 20, Ordering::SeqCst);
        faults.passing.store(1 << 20, Ordering::SeqCst);
    }
    let bad = BTreeSet::from([BadShard { stripe: 0, shard: 0, drive: segment.stripes[0].drives[0] }]);
    let repaired = pool.repair(&segment, &bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.failed.len()), (0, 1), "{repaired:?}");
    assert!(bench.faults.iter().map(|faults| faults.fired()).sum::<u64>() > 0);
    assert!(fs::read(bench.extent(&segment, 0, 0)).unwrap() == before);
    bench.faults.iter().for_each(|faults| faults.passing.store(0, Ordering::SeqCst));
    let repaired = pool.repair(&segment, &bad, &mut |_| true).unwrap();
    assert_eq!(repaired.in_place.len(), 1, "{repaired:?}");
    let pieces: Vec<BlobPiece> = stored.iter().map(|(_, piece)| *piece).collect();
    assert!(pool.scrub_blob(&segment, &pieces, &mut |_| true).unwrap().is_clean());
}

/// Puts another payload into a cell, with checksums that are right.
fn forge(path: &std::path::Path, cell: usize) {
    let mut file = fs::read(path).unwrap();
    let (header, payload) = file[cell..cell + 12_288].split_at_mut(4096);
    payload[77] ^= 1;
    // Where the format has the checksum of the first block, and the header's own.
    header[64..68].copy_from_slice(&Crc32c::of(payload).0.to_le_bytes());
    let own = Crc32c::of(&header[..4092]).0.to_le_bytes();
    header[4092..].copy_from_slice(&own);
    fs::write(path, file).unwrap();
}

/// Scrubbing found parity that did not belong to its data, under checksums that were right; the repair took
/// the wrong cell for whole, wrote it again, and reported success. A later reconstruction from it gave wrong
/// bytes with new, right checksums.
#[test]
fn wrong_parity_is_computed_anew_and_never_rebuilt_from() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(131_072, 1);
    let blob = put(&pool, &value).unwrap();
    forge(&bench.extent(&blob, 0, 4), 12_288);
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    assert!(report.findings.iter().all(|finding| finding.fault == Fault::Parity), "{report:?}");
    assert_eq!(report.bad.len(), 1);
    // A data cell of the same row is damaged before the repair: which of the others is wrong is not known.
    flip(&bench.extent(&blob, 0, 0), 12_288 + 4096, 1);
    let data = BTreeSet::from([BadShard { stripe: 0, shard: 0, drive: blob.stripes[0].drives[0] }]);
    let repaired = pool.repair(&blob, &data, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.failed.len()), (0, 1), "{repaired:?}");
    flip(&bench.extent(&blob, 0, 0), 12_288 + 4096, 1);
    let repaired = pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    assert_eq!(repaired.in_place.len(), 1, "{repaired:?}");
    assert!(pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean());
    // All parity is wrong: the data is the suspect.
    forge(&bench.extent(&blob, 0, 4), 0);
    forge(&bench.extent(&blob, 0, 5), 0);
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    let repaired = pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.failed.len()), (0, 2), "{repaired:?}");
    assert!(repaired.failed[0].1.contains("verify the file"));
    assert!(get(&pool, &blob).unwrap() == value);
}

/// A drive that hung held up every reader of small values on it, since they read on their own threads.
#[test]
fn small_values_are_read_without_a_drive_that_hangs() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..12).map(|n| bytes(3000, n)).collect();
    let stored: Vec<_> = values.iter().map(|value| pool.put_small(value).unwrap()).collect();
    let victim = usize::from(stored[0].0.stripes[0].drives[1].0);
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    for ((blob, piece), value) in stored.iter().zip(&values) {
        assert!(pool.read_small(blob, piece).unwrap()[..] == value[..]);
    }
    assert!(bench.faults[victim].fired() > 0);
    bench.faults[victim].hung.store(false, Ordering::SeqCst);
}
