//! Repair must never make bytes worse than they are.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::common::{Answering, Bench, bytes, flip, get, get_range, put, small_cells, wait_until};
use base::{BlobDescription, BlobPiece, ByteCount, Crc32c};
use pool::{BadShard, CellDamage, Fault};

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

fn shard_of(blob: &BlobDescription, shard: usize) -> BadShard {
    BadShard { stripe: 0, shard: shard as u8, drive: blob.stripes[0].drives[shard] }
}

/// Story: of a row more cells were damaged than the code bears. The repair of the other rows copied that one
/// as it was, or wrote zeros where nothing was, and reported all shards as repaired: a drive that replaced
/// another was marked as filled.
#[test]
fn a_shard_with_a_row_that_cannot_be_computed_is_not_repaired() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(131_072, 1);
    let blob = put(&pool, &value).unwrap();
    // Rows 0, 2 and 3 can be computed: of row 1 shards 0, 1 and 2 are gone.
    let row = 1..2;
    fs::remove_file(bench.extent(&blob, 0, 0)).unwrap();
    fs::remove_file(bench.extent(&blob, 0, 1)).unwrap();
    flip(&bench.extent(&blob, 0, 2), 12_288 + 4096, 1);
    let raw = fs::read(bench.extent(&blob, 0, 2)).unwrap();
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    assert_eq!((report.bad.len(), report.lost.len()), (3, 3));
    let repaired = pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.moved.len()), (0, 0), "{repaired:?}");
    let failed: BTreeSet<BadShard> = repaired.failed.iter().map(|(bad, _)| *bad).collect();
    assert_eq!((failed, repaired.lost_rows), (report.bad, 1));
    let lost = &repaired.lost[0];
    let missing: Vec<BadShard> = (0..3).map(|shard| shard_of(&blob, shard)).collect();
    assert_eq!((lost.blob, lost.stripe, lost.row, &lost.missing), (blob.id, 0, 1, &missing));
    let text = format!("{} {}", lost.place(), lost.what());
    let drive = missing[0].drive;
    let expected = format!("row 1 cannot be computed: no whole cell on drive {drive} (shard 0), drive");
    assert!(text.contains(&expected), "{text}");
    // What could be computed is redundant again, what could not says so, and damaged bytes stay.
    let again = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    let found: Vec<(u8, Option<u64>)> = again.findings.iter().map(|f| (f.shard.shard, f.row)).collect();
    assert_eq!(found, [(0, Some(1)), (1, Some(1)), (2, Some(1))]);
    assert_eq!(again.findings[0].fault, Fault::Damaged(CellDamage::Void));
    assert_eq!(again.findings[2].fault, Fault::Damaged(CellDamage::Block));
    assert!(fs::read(bench.extent(&blob, 0, 2)).unwrap() == raw);
    let lost = row.start * 32_768..row.end * 32_768;
    assert!(get_range(&pool, &blob, 0, lost.start).unwrap() == value[..lost.start as usize]);
    let rest = get_range(&pool, &blob, lost.end, 131_072 - lost.end).unwrap();
    assert!(rest == value[lost.end as usize..]);
    // When the third shard is whole again the others follow from it.
    flip(&bench.extent(&blob, 0, 2), 12_288 + 4096, 1);
    let repaired = pool.repair(&blob, &again.bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.lost_rows), (3, 0), "{repaired:?}");
    assert!(pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean());
    assert!(get(&pool, &blob).unwrap() == value);
}

/// An extent of which nothing can be computed was made all the same, of zeros, and stood there as a shard.
#[test]
fn an_extent_of_which_nothing_can_be_computed_is_not_made() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(131_072, 1);
    let blob = put(&pool, &value).unwrap();
    let before: Vec<Vec<u8>> = (3..6).map(|n| fs::read(bench.extent(&blob, 0, n)).unwrap()).collect();
    (0..3).for_each(|shard| fs::remove_file(bench.extent(&blob, 0, shard)).unwrap());
    let bad: BTreeSet<BadShard> = (0..3).map(|shard| shard_of(&blob, shard)).collect();
    let repaired = pool.repair(&blob, &bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.failed.len(), repaired.lost_rows), (0, 3, 4));
    assert!((0..3).all(|shard| !bench.extent(&blob, 0, shard).exists()));
    let replacements = bench.path(bad.first().unwrap().drive.0).join("replacements");
    // The drive's queue lets go of what was begun when it comes to it.
    wait_until("what was begun is gone", || fs::read_dir(&replacements).unwrap().count() == 0);
    assert!((3..6).zip(before).all(|(n, before)| fs::read(bench.extent(&blob, 0, n)).unwrap() == before));
}

/// A cell whose end was torn off was zeroed from its beginning when its row could not be computed; reads that
/// need the first block alone had had it until then.
#[test]
fn what_is_left_of_a_torn_cell_stays() {
    let mut bench = Bench::new(8);
    let mut config = small_cells();
    // Two blocks of 64 KiB a cell, one row.
    (config.cell_size, config.extent_size) = (ByteCount::kib(128), ByteCount::kib(600));
    config.arena = ByteCount::mib(16);
    let pool = bench.open(config, &[]);
    let value = bytes(5 * 512 * 1024 - 1, 1);
    let blob = put(&pool, &value).unwrap();
    let cell = 4096 + 131_072;
    // Of the second row: shard 0 ends within its second block, 1 and 2 are damaged there; of the first row
    // each is damaged in one cell, which can be computed.
    let torn = fs::read(bench.extent(&blob, 0, 0)).unwrap();
    fs::write(bench.extent(&blob, 0, 0), &torn[..cell + 4096 + 65_536 + 8192]).unwrap();
    for shard in [1, 2] {
        flip(&bench.extent(&blob, 0, shard), (cell + 4096 + 65_536) as u64, 1);
    }
    flip(&bench.extent(&blob, 0, 0), 4096, 1);
    let first_block = || get_range(&pool, &blob, 524_288, 1000);
    assert!(first_block().unwrap() == value[524_288..525_288]);
    let bad: BTreeSet<BadShard> = (0..3).map(|shard| shard_of(&blob, shard)).collect();
    let repaired = pool.repair(&blob, &bad, &mut |_| true).unwrap();
    assert!(repaired.in_place.is_empty() && repaired.lost_rows > 0, "{repaired:?}");
    assert!(first_block().unwrap() == value[524_288..525_288]);
    assert!(get_range(&pool, &blob, 0, 1000).unwrap() == value[..1000]);
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

/// A value was whole on a drive that was away alone; the other copies were written anew without it and
/// counted as repaired, and a replaced drive as filled.
#[test]
fn a_copy_that_may_lack_a_value_of_an_absent_drive_is_not_repaired() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let stored: Vec<_> = (0..5).map(|n| pool.put_small(&bytes(20_000, n)).unwrap()).collect();
    let segment = stored[0].0.clone();
    let pieces: Vec<BlobPiece> = stored.iter().map(|(_, piece)| *piece).collect();
    pool.close();
    drop(pool);
    for copy in [0, 1] {
        flip(&bench.extent(&segment, 0, copy), pieces[2].offset.0 + 5000, 1);
    }
    let bad = BTreeSet::from([shard_of(&segment, 0)]);
    let pool = bench.open(small_cells(), &[segment.stripes[0].drives[2].0]);
    let repaired = pool.repair(&segment, &bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.failed.len()), (0, 1), "{repaired:?}");
    pool.close();
    drop(pool);
    let pool = bench.open(small_cells(), &[]);
    let repaired = pool.repair(&segment, &bad, &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.failed.len()), (1, 0), "{repaired:?}");
    let report = pool.scrub_blob(&segment, &pieces, &mut |_| true).unwrap();
    assert_eq!((report.found, report.lost.len()), (1, 0), "copy 1 is as it was");
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
    let _answering = Answering(Arc::clone(&bench.faults[victim]));
    bench.faults[victim].hung.store(true, Ordering::SeqCst);
    for ((blob, piece), value) in stored.iter().zip(&values) {
        assert!(pool.read_small(blob, piece).unwrap()[..] == value[..]);
    }
    assert!(bench.faults[victim].fired() > 0);
    bench.faults[victim].hung.store(false, Ordering::SeqCst);
}
