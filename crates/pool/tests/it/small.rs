//! Small values: shared syncs, copies to fall back on, holes, segments that end.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::common::{Answering, Bench, bytes, distinct, flip, pairs, small_cells};
use base::{BlobDescription, BlobPiece, ByteCount, DriveId, StripeCode};
use pool::{Pool, PoolConfig, PoolError};

fn small_segments() -> PoolConfig {
    let mut config = small_cells();
    config.segment_size = ByteCount::mib(1);
    config
}

fn put(pool: &Pool, value: &[u8]) -> (BlobDescription, BlobPiece) {
    pool.put_small(value).unwrap()
}

fn check(pool: &Pool, stored: &(BlobDescription, BlobPiece), value: &[u8]) {
    assert!(*pool.read_small(&stored.0, &stored.1).unwrap() == *value, "{:?}", stored.1);
}

#[test]
fn all_sizes_come_back_up_to_the_limit() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_segments(), &[]);
    let mut stored = Vec::new();
    for size in [0, 1, 431, 432, 433, 4096, 20_000, 65_536, 65_537, 262_143, 262_144] {
        let value = bytes(size, size as u64);
        let place = put(&pool, &value);
        assert_eq!((place.1.length, place.1.blob), (ByteCount(size as u64), place.0.id));
        check(&pool, &place, &value);
        stored.push((place, value));
    }
    let over = pool.put_small(&bytes(262_145, 1));
    assert!(matches!(over, Err(PoolError::TooLarge { .. })));
    pool.close();
    assert!(matches!(pool.put_small(&[1]), Err(PoolError::Closed)));
    drop(pool);
    let pool = bench.open(small_segments(), &[]);
    stored.iter().for_each(|(place, value)| check(&pool, place, value));
}

#[test]
fn any_two_of_eight_drives_may_be_lost() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_segments(), &[]);
    let values: Vec<Vec<u8>> = (0..40).map(|n| bytes(50_000, n)).collect();
    let stored: Vec<_> = values.iter().map(|value| put(&pool, value)).collect();
    assert!(stored.iter().all(|(blob, _)| blob.stripes.len() == 1 && distinct(&blob.stripes[0])));
    drop(pool);
    for lost in pairs(8) {
        let pool = bench.open(small_segments(), &lost);
        stored.iter().zip(&values).for_each(|(place, value)| check(&pool, place, value));
    }
    let (blob, piece) = &stored[0];
    let lost: Vec<u16> = blob.stripes[0].drives.iter().map(|drive| drive.0).collect();
    let pool = bench.open(small_segments(), &lost);
    match pool.read_small(blob, piece) {
        Err(PoolError::Unrecoverable { blob: id, offset, .. }) => {
            assert_eq!((id, offset), (blob.id, piece.offset));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_callers_share_syncs() {
    const CALLERS: u64 = 16;
    const EACH: u64 = 15;
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let (waiting, stored, places) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    let hang = |hung| bench.faults.iter().for_each(|faults| faults.hung.store(hung, Ordering::SeqCst));
    std::thread::scope(|scope| {
        let _answering: Vec<_> = bench.faults.iter().map(|faults| Answering(Arc::clone(faults))).collect();
        for caller in 0..CALLERS {
            let (pool, waiting, stored, places) = (&pool, &waiting, &stored, &places);
            scope.spawn(move || {
                for n in 0..EACH {
                    let value = bytes(1000 + n as usize, caller * 1000 + n);
                    waiting.fetch_add(1, Ordering::SeqCst);
                    let place = put(pool, &value);
                    // Whoever has nothing more to store waits for the others, in the eyes of the drives.
                    waiting.fetch_sub(u64::from(n + 1 < EACH), Ordering::SeqCst);
                    stored.fetch_add(1, Ordering::SeqCst);
                    places.lock().unwrap().push((place, value));
                }
            });
        }
        // The drives answer only when all callers wait for them, as drives that are slow do.
        while stored.load(Ordering::SeqCst) < CALLERS * EACH {
            hang(true);
            while waiting.load(Ordering::SeqCst) < CALLERS {
                std::thread::yield_now();
            }
            let before = stored.load(Ordering::SeqCst);
            hang(false);
            while before < CALLERS * EACH && stored.load(Ordering::SeqCst) == before {
                std::thread::yield_now();
            }
        }
    });
    let places = places.into_inner().unwrap();
    assert_eq!(places.len() as u64, CALLERS * EACH);
    places.iter().for_each(|(place, value)| check(&pool, place, value));
    let syncs = pool.status().syncs;
    assert!(syncs > 0 && syncs < CALLERS * EACH * 3 / 2, "{syncs} syncs on 3 drives for {}", CALLERS * EACH);
}

#[test]
fn damaged_records_are_read_from_another_copy() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(70_000, 1);
    let stored = put(&pool, &value);
    let files: Vec<_> = (0..3).map(|copy| bench.extent(&stored.0, 0, copy)).collect();
    for byte in (0..80).chain([80, 65_615, 65_616, 70_079]) {
        let (a, b) = (&files[byte as usize % 3], &files[(byte as usize + 1) % 3]);
        flip(a, byte, 1);
        flip(b, byte, 6);
        check(&pool, &stored, &value);
        flip(a, byte, 1);
        flip(b, byte, 6);
    }
    assert!(pool.status().damaged >= 80 && pool.status().reconstructions >= 80, "{:?}", pool.status());
    files.iter().for_each(|file| flip(file, 100, 0));
    assert!(matches!(pool.read_small(&stored.0, &stored.1), Err(PoolError::Unrecoverable { .. })));
    // A piece that lies elsewhere finds no header of its own.
    let off = BlobPiece { offset: ByteCount(512), ..stored.1 };
    assert!(pool.read_small(&stored.0, &off).is_err());
    let other = BlobPiece { blob: base::BlobId(1), ..stored.1 };
    assert!(matches!(pool.read_small(&stored.0, &other), Err(PoolError::Description(_))));
}

#[test]
fn holes_spare_the_neighbours() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..6).map(|n| bytes(9_000 + 700 * n as usize, n)).collect();
    let stored: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = values.iter().map(|value| scope.spawn(|| put(&pool, value))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for _ in 0..2 {
        for gone in [1, 3] {
            pool.punch(&stored[gone].0, &stored[gone].1).unwrap();
        }
    }
    for kept in [0, 2, 4, 5] {
        check(&pool, &stored[kept], &values[kept]);
    }
    assert!(pool.read_small(&stored[1].0, &stored[1].1).is_err(), "it is gone");
}

#[test]
fn full_segments_are_sealed_with_a_footer() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_segments(), &[]);
    let values: Vec<Vec<u8>> = (0..60).map(|n| bytes(40_000, n)).collect();
    let stored: Vec<_> = values.iter().map(|value| put(&pool, value)).collect();
    let first = &stored[0].0;
    assert_ne!(first.id, stored[59].0.id);
    for copy in 0..3 {
        let bytes = fs::read(bench.extent(first, 0, copy)).unwrap();
        assert!(bytes.len() <= 1 << 20);
        assert_eq!(&bytes[bytes.len() - 64..bytes.len() - 56], b"KISTSEGF");
    }
    let open = &stored[59].0;
    assert!(matches!(pool.remove(open), Err(PoolError::SegmentOpen(id)) if id == open.id));
    pool.seal_segments();
    pool.remove(open).unwrap();
    stored.iter().zip(&values).filter(|(place, _)| place.0.id != open.id).for_each(|(place, value)| {
        check(&pool, place, value);
    });
    // The next value opens another segment.
    let next = put(&pool, b"next");
    assert!(next.0.id > open.id);
    check(&pool, &next, b"next");
}

#[test]
fn a_failed_drive_moves_the_segment() {
    for on_sync in [false, true] {
        let mut bench = Bench::new(6);
        let pool = bench.open(small_cells(), &[]);
        let before = put(&pool, b"before");
        let victim = before.0.stripes[0].drives[1];
        let faults = Arc::clone(&bench.faults[usize::from(victim.0)]);
        if on_sync {
            faults.fail_sync(0);
        } else {
            faults.fail_append(0, true);
        }
        let after = put(&pool, b"after");
        assert!(faults.fired() > 0, "the fault fired");
        assert_eq!(faults.syncs_after_failure.load(std::sync::atomic::Ordering::SeqCst), 0);
        assert_ne!(before.0.id, after.0.id);
        assert!(!after.0.stripes[0].drives.contains(&victim));
        check(&pool, &before, b"before");
        check(&pool, &after, b"after");
        drop(pool);
        let pool = bench.open(small_cells(), &[victim.0]);
        check(&pool, &before, b"before");
        check(&pool, &after, b"after");
    }
}

#[test]
fn too_few_drives_refuse_small_values() {
    let mut bench = Bench::new(3);
    let mut config = small_cells();
    config.code = StripeCode::reed_solomon(1, 1);
    config.segment_copies = 3;
    let pool = bench.open(config, &[]);
    bench.faults[0].fail_sync(0);
    match pool.put_small(b"x") {
        Err(PoolError::GroupCommit(reason)) => {
            assert!(matches!(*reason, PoolError::Placement(_)), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert!(bench.faults[0].fired() > 0);
    assert_eq!(pool.status().drives.iter().filter(|d| d.id == DriveId(0)).count(), 1);
}

/// After a restore each of ten million small values was read by itself, 50 to 150 µs each.
#[test]
fn many_values_are_looked_at_with_few_reads_and_only_whole_ones_are_there() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..1_000).map(|n| bytes(64, n)).collect();
    let all: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let stored: Vec<_> = pool.put_small_all(&all).into_iter().map(Result::unwrap).collect();
    let blob = stored[0].0.clone();
    assert!(stored.iter().all(|(of, _)| of.id == blob.id));
    // In whatever order they are asked for.
    let mut pieces: Vec<BlobPiece> = stored.into_iter().map(|(_, piece)| piece).collect();
    pieces.rotate_left(300);
    let read = || pool.status().drives.iter().map(|drive| drive.bytes_read.0).sum::<u64>();
    let before = read();
    assert_eq!(pool.verify_together(&blob, &pieces), [true; 1_000]);
    // Half a kilobyte for each, and not a page.
    assert!(read() - before <= 1_000 * 512 + 4096, "{} bytes were read", read() - before);

    // What is damaged, elsewhere, or longer than it was is not there; its neighbours are.
    flip(&bench.extent(&blob, 0, 0), pieces[7].offset.0 + 80, 3);
    pieces[8].length = ByteCount(65);
    pieces[9].offset.0 += 512 * 5_000;
    let found = pool.verify_together(&blob, &pieces);
    assert_eq!(found.iter().filter(|is_there| !**is_there).count(), 3);
    assert_eq!(found[7..10], [false; 3]);
    // Of a copy that is gone nothing is known.
    fs::remove_file(bench.extent(&blob, 0, 0)).unwrap();
    assert_eq!(pool.verify_together(&blob, &pieces), [false; 1_000]);
    assert_eq!(pool.verify_together(&blob, &[]), [false; 0]);
}
