//! Striped blobs: every byte comes back, whatever is lost up to the parity; nothing wrong ever does.

use std::collections::BTreeSet;
use std::fs;

use super::common::{Bench, bytes, distinct, flip, get, get_range, map, pairs, put, small_cells};
use base::{BlobDescription, ByteCount, DriveId, Layout, StreamChecksums, StripeCode};
use pool::{DriveHealth, Pool, PoolConfig, PoolError};

#[test]
fn all_sizes_and_ranges_come_back() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let (row, stripe) = (32_768, 131_072);
    for size in [
        0,
        1,
        4095,
        4096,
        4097,
        8192,
        row - 1,
        row,
        row + 1,
        row + 5000,
        stripe - 1,
        stripe,
        stripe + 1,
        3 * stripe + 7,
    ] {
        let value = bytes(size, size as u64);
        let blob = put(&pool, &value).unwrap();
        assert_eq!((blob.length, blob.stripes.len()), (ByteCount(size as u64), size.div_ceil(stripe)));
        assert!(blob.stripes.iter().all(distinct));
        assert!(get(&pool, &blob).unwrap() == value, "size {size}");
        for (start, end) in
            [(0, 1), (1, 4098), (size / 3, size / 2), (size.saturating_sub(1), size), (size, size)]
        {
            let (start, end) = (start.min(size), end.min(size).max(start.min(size)));
            let read = get_range(&pool, &blob, start as u64, (end - start) as u64).unwrap();
            assert!(read == value[start..end], "size {size}, {start}..{end}");
        }
    }
    let status = pool.status();
    assert_eq!((status.errors, status.damaged, status.reconstructions), (0, 0, 0));
}

#[test]
fn the_cells_of_the_format_come_back() {
    let mut bench = Bench::new(6);
    let pool = bench.open(PoolConfig::new(super::common::INSTANCE, StripeCode::reed_solomon(4, 2)), &[]);
    for size in [(4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9 << 20] {
        let value = bytes(size, 3);
        let mut writer = pool.create_sized(ByteCount(size as u64)).unwrap();
        writer.write(&value).unwrap();
        let blob = writer.finish().unwrap();
        assert!(get(&pool, &blob).unwrap() == value, "size {size}");
        assert!(get_range(&pool, &blob, 3_000_000, 70_000).unwrap() == value[3_000_000..3_070_000]);
    }
}

#[test]
fn checksums_are_of_the_bytes_alone_and_nothing_follows_them() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    for size in [0, 1, 4096, 8192, 32_767, 32_768, 32_769, 131_072, 400_001] {
        let value = bytes(size, 9);
        let mut writer = pool.create().unwrap().with_checksums();
        value.chunks(7_001).for_each(|piece| writer.write(piece).unwrap());
        assert_eq!(writer.end().unwrap(), Some(StreamChecksums::of(&value)), "{size}");
        assert_eq!(writer.end().unwrap(), Some(StreamChecksums::of(&value)), "again");
        let blob = writer.finish().unwrap();
        assert!(get(&pool, &blob).unwrap() == value);
    }
    let mut writer = pool.create().unwrap();
    writer.write(b"no checksums").unwrap();
    assert_eq!(writer.end().unwrap(), None);
    assert!(matches!(writer.write(b"more"), Err(PoolError::WriterFailed(_))));
}

#[test]
fn whole_cells_come_with_their_checksums() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(100_000, 4);
    let blob = put(&pool, &value).unwrap();
    let sums = |offset: u64, length: u64| -> Vec<bool> {
        let mut reader = pool.read(&blob, ByteCount(offset), ByteCount(length)).unwrap().with_checksums();
        let pieces = std::iter::from_fn(|| reader.next().unwrap());
        pieces.map(|piece| piece.checksums().is_some()).collect()
    };
    assert!(sums(0, 100_000).iter().all(|known| *known));
    // A row from the midst of its first cell on: that one is not given out whole.
    assert_eq!(sums(5, 32_768 - 5), [false, true, true, true]);
    assert_eq!(sums(5, 10), [false]);
    let mut reader = pool.read(&blob, ByteCount(0), ByteCount(100_000)).unwrap();
    assert!(reader.next().unwrap().unwrap().checksums().is_none(), "nobody asked for them");
}

#[test]
fn ranges_outside_are_refused() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let blob = put(&pool, &bytes(100, 1)).unwrap();
    for (offset, length) in [(0, 101), (101, 0), (u64::MAX, 2)] {
        let result = pool.read(&blob, ByteCount(offset), ByteCount(length));
        assert!(matches!(result.err(), Some(PoolError::OutOfRange { .. })));
    }
    let wrong = |change: fn(&mut BlobDescription)| {
        let mut other = blob.clone();
        change(&mut other);
        assert!(matches!(
            pool.read(&other, ByteCount(0), ByteCount(1)).err(),
            Some(PoolError::Description(_))
        ));
    };
    wrong(|blob| blob.stripes.clear());
    wrong(|blob| blob.length = ByteCount(1 << 40));
    wrong(|blob| blob.stripes[0].drives.truncate(5));
    wrong(|blob| blob.layout = Layout::Segment { copies: 6 });
}

#[test]
fn any_two_of_eight_drives_may_be_lost() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(400_000, 5);
    let blob = put(&pool, &value).unwrap();
    drop(pool);
    let mut reconstructions = 0;
    for lost in pairs(8) {
        let pool = bench.open(small_cells(), &lost);
        assert!(get(&pool, &blob).unwrap() == value, "lost {lost:?}");
        assert!(get_range(&pool, &blob, 40_000, 3_000).unwrap() == value[40_000..43_000], "lost {lost:?}");
        reconstructions += pool.status().reconstructions;
    }
    assert!(reconstructions > 100, "losses were felt: {reconstructions}");
}

#[test]
fn one_more_loss_is_an_error_that_names_the_blob() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let blob = put(&pool, &bytes(100_000, 5)).unwrap();
    drop(pool);
    let lost: Vec<u16> = blob.stripes[0].drives[..3].iter().map(|drive| drive.0).collect();
    let pool = bench.open(small_cells(), &lost);
    match get(&pool, &blob) {
        Err(PoolError::Unrecoverable { blob: id, offset, found, needed, .. }) => {
            assert_eq!((id, offset, found, needed), (blob.id, ByteCount(0), 3, 4));
        }
        other => panic!("{other:?}"),
    }
    // What needs none of the lost shards is still served.
    assert_eq!(get_range(&pool, &blob, 3 * 8192, 8192).unwrap(), &bytes(100_000, 5)[3 * 8192..4 * 8192]);
}

#[test]
fn drives_that_lose_their_files_while_open_are_made_good() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(300_000, 8);
    let blob = put(&pool, &value).unwrap();
    for stripe in 0..blob.stripes.len() {
        fs::remove_file(bench.extent(&blob, stripe, 0)).unwrap();
        fs::remove_file(bench.extent(&blob, stripe, 3)).unwrap();
    }
    assert!(get(&pool, &blob).unwrap() == value);
    assert!(pool.status().errors > 0 && pool.status().reconstructions > 0);
}

#[test]
fn every_damaged_part_of_a_cell_is_found_and_made_good() {
    let mut config = small_cells();
    config.cell_size = ByteCount::kib(128);
    config.extent_size = ByteCount::kib(512);
    config.arena = ByteCount::mib(6);
    let mut bench = Bench::new(6);
    let pool = bench.open(config, &[]);
    let value = bytes(700_000, 11);
    let blob = put(&pool, &value).unwrap();
    let header = (0..160).chain((160..4096).step_by(397)).chain(4092..4096);
    let payload = [4096, 4096 + 65_535, 4096 + 65_536, 4096 + 131_071];
    let mut found = 0;
    for (n, byte) in header.chain(payload).enumerate() {
        let file = bench.extent(&blob, 0, 1);
        flip(&file, byte, (n % 8) as u8);
        assert!(get(&pool, &blob).unwrap() == value, "byte {byte}");
        found += 1;
        assert_eq!(pool.status().damaged, found, "byte {byte} was noticed");
        flip(&file, byte, (n % 8) as u8);
    }
    assert_eq!(pool.status().reconstructions, found);
}

#[test]
fn truncated_and_misdirected_extents_are_found() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(100_000, 12);
    let (blob, other) = (put(&pool, &value).unwrap(), put(&pool, &bytes(100_000, 13)).unwrap());
    // Two extents change places: between shards, and between blobs.
    let swap = |a: &std::path::Path, b: &std::path::Path| {
        let (in_a, in_b) = (fs::read(a).unwrap(), fs::read(b).unwrap());
        fs::write(a, in_b).unwrap();
        fs::write(b, in_a).unwrap();
    };
    swap(&bench.extent(&blob, 0, 0), &bench.extent(&blob, 0, 1));
    assert!(get(&pool, &blob).unwrap() == value);
    swap(&bench.extent(&blob, 0, 0), &bench.extent(&blob, 0, 1));
    swap(&bench.extent(&blob, 0, 2), &bench.extent(&other, 0, 2));
    assert!(get(&pool, &blob).unwrap() == value);
    assert!(pool.status().damaged >= 9, "each row noticed it: {:?}", pool.status().damaged);
    let file = fs::OpenOptions::new().write(true).open(bench.extent(&blob, 0, 1)).unwrap();
    file.set_len(12_288 + 5000).unwrap();
    assert!(get(&pool, &blob).unwrap() == value);
}

#[test]
fn a_drive_that_fails_at_any_append_is_replaced() {
    for (after, dies) in (0..9).map(|after| (after, after % 3 == 1)) {
        let mut bench = Bench::new(8);
        let pool = bench.open(small_cells(), &[]);
        let value = bytes(200_000, 14);
        let victim = 3u16;
        let faults = std::sync::Arc::clone(&bench.faults[usize::from(victim)]);
        faults.fail_append(after, dies);
        let blobs: Vec<_> = (0..3).map(|_| put(&pool, &value).unwrap()).collect();
        assert!(faults.fired() > 0, "append {after} failed");
        let health = pool.status().drives[usize::from(victim)].health.clone();
        assert!(matches!(health, DriveHealth::Suspect { .. }), "{health:?}");
        let later = put(&pool, &value).unwrap();
        assert!(later.stripes.iter().all(|set| !set.drives.contains(&DriveId(victim))));
        drop(pool);
        // Full redundancy: every shard is where its set says, and any two drives may go.
        for blob in blobs.iter().chain([&later]) {
            for (stripe, set) in blob.stripes.iter().enumerate() {
                let length = |shard| fs::metadata(bench.extent(blob, stripe, shard)).unwrap().len();
                assert!(set.drives.len() == 6 && (0..6).all(|shard| length(shard) == length(0)));
            }
        }
        for other in [0, 5] {
            let pool = bench.open(small_cells(), &[victim, other]);
            for blob in &blobs {
                assert!(blob.stripes.iter().all(distinct));
                assert!(get(&pool, blob).unwrap() == value, "append {after}");
            }
        }
    }
}

#[test]
fn without_a_spare_the_write_is_refused_and_leaves_nothing() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    bench.faults[2].fail_append(5, false);
    match put(&pool, &bytes(390_000, 15)) {
        Err(PoolError::Placement(_)) => {}
        other => panic!("{other:?}"),
    }
    assert!(bench.faults[2].fired() > 0);
    assert_eq!(bench.extents(), Vec::<std::path::PathBuf>::new());
    assert!(matches!(put(&pool, &[1]), Err(PoolError::Placement(_))), "five drives are too few for 4+2");
}

#[test]
fn a_failed_sync_is_never_repeated() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let faults: Vec<_> = bench.faults.iter().take(2).cloned().collect();
    faults.iter().for_each(|faults| faults.fail_sync(1));
    let value = bytes(500_000, 16);
    let blobs: Vec<_> = (0..3).map(|_| put(&pool, &value).unwrap()).collect();
    for faults in &faults {
        assert_eq!(faults.fired(), 1, "the fault fired");
        assert_eq!(faults.syncs_after_failure.load(std::sync::atomic::Ordering::SeqCst), 0);
    }
    drop(pool);
    let pool = bench.open(small_cells(), &[0, 1]);
    for blob in &blobs {
        assert!(get(&pool, blob).unwrap() == value);
    }
}

#[test]
fn more_failures_than_parity_refuse_the_write() {
    let mut bench = Bench::new(12);
    let pool = bench.open(small_cells(), &[]);
    bench.faults.iter().take(12).for_each(|faults| faults.fail_append(1, true));
    assert!(matches!(
        put(&pool, &bytes(500_000, 17)),
        Err(PoolError::WriteLost { .. } | PoolError::Placement(_))
    ));
    assert!(bench.faults.iter().map(|faults| faults.fired()).sum::<u64>() >= 3);
}

#[test]
fn an_aborted_write_leaves_nothing() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    for size in [0, 1, 40_000, 300_000] {
        let mut writer = pool.create().unwrap();
        writer.write(&bytes(size, 18)).unwrap();
        drop(writer);
        assert_eq!(bench.extents().len(), 0, "size {size}");
    }
    let blob = put(&pool, &bytes(300_000, 18)).unwrap();
    assert_eq!(bench.extents().len(), 6 * blob.stripes.len());
    pool.remove(&blob).unwrap();
    pool.remove(&blob).unwrap();
    assert_eq!(bench.extents().len(), 0);
}

#[test]
fn what_a_crash_left_is_found_in_the_next_epoch() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let kept = put(&pool, &bytes(50_000, 19)).unwrap();
    let mut torn = pool.create().unwrap();
    torn.write(&bytes(200_000, 20)).unwrap();
    let torn_id = torn.id();
    assert_eq!(candidates(&pool), vec![], "extents of this epoch are no candidates");
    // The process ends without destructors: the writer, its drives' locks apart, is just gone.
    let sets = pool.new_sets();
    let (status, drives) = (pool.status(), 8);
    assert_eq!(status.drives.len(), drives);
    let crashed = bench.extents().len();
    copy_away(&mut bench);
    drop((torn, pool));
    restore(&mut bench);
    assert_eq!(bench.extents().len(), crashed);
    let pool = bench.open_with(small_cells(), &[], sets).unwrap();
    let found = candidates(&pool);
    assert_eq!(found.len(), crashed);
    for orphan in found.iter().filter(|candidate| candidate.extent.blob != kept.id) {
        assert_eq!(orphan.extent.blob, torn_id);
        pool.remove_orphan(orphan).unwrap();
    }
    assert_eq!(bench.extents().len(), 6);
    assert!(get(&pool, &kept).unwrap() == bytes(50_000, 19));
}

fn candidates(pool: &Pool) -> Vec<pool::OrphanCandidate> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = pool.list_orphan_candidates(cursor, 3).unwrap();
        all.extend(page.candidates);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

/// Keeps the extents beside the drives while destructors run.
fn copy_away(bench: &mut Bench) {
    for drive in 0..8 {
        for bucket in fs::read_dir(bench.path(drive).join("extents")).unwrap() {
            let bucket = bucket.unwrap().path();
            let aside = bench.path(drive).join("aside").join(bucket.file_name().unwrap());
            fs::create_dir_all(&aside).unwrap();
            for file in fs::read_dir(bucket).unwrap() {
                let file = file.unwrap().path();
                fs::copy(&file, aside.join(file.file_name().unwrap())).unwrap();
            }
        }
    }
}

fn restore(bench: &mut Bench) {
    for drive in 0..8 {
        fs::remove_dir_all(bench.path(drive).join("extents")).unwrap();
        fs::rename(bench.path(drive).join("aside"), bench.path(drive).join("extents")).unwrap();
    }
}

#[test]
fn an_epoch_is_used_once() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let epoch = pool.epoch();
    pool.stamp(77).unwrap();
    assert!(pool.stamps().iter().all(|stamp| stamp.epoch == epoch && stamp.commit == 77));
    drop(pool);
    let drives = (0..6).map(|n| {
        let drive = drive::DirectoryDrive::open(
            &bench.path(n),
            super::common::INSTANCE,
            DriveId(n),
            drive::DirectIo::Off,
        );
        (DriveId(n), Some(std::sync::Arc::new(drive.unwrap()) as std::sync::Arc<dyn drive::ObjectDrive>))
    });
    let again = Pool::open(small_cells(), epoch, map(6), drives.collect(), Vec::new());
    assert!(matches!(again.err(), Some(PoolError::EpochUsed { .. })));
}

#[test]
fn sets_stay_across_restarts() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let used: Vec<_> = (0..4).map(|n| put(&pool, &bytes(10, n)).unwrap().stripes[0].clone()).collect();
    let new: BTreeSet<_> = pool.new_sets().iter().map(|set| set.id).collect();
    assert!(used.iter().all(|set| new.contains(&set.id)));
    drop(pool);
    let pool = bench.open_with(small_cells(), &[], used.clone()).unwrap();
    put(&pool, &[1]).unwrap();
    assert!(pool.new_sets().iter().all(|set| used.iter().all(|known| known.id < set.id)));
}

#[test]
fn many_writers_and_readers_share_the_least_memory() {
    let mut config = small_cells();
    config.arena = ByteCount(5 * 6 * 12_288);
    let mut bench = Bench::new(8);
    let pool = bench.open(config.clone(), &[]);
    let value = bytes(700_000, 21);
    let blob = put(&pool, &value).unwrap();
    // Damage and loss that readers find on the way, while others hold the memory.
    for stripe in 0..blob.stripes.len() - 1 {
        flip(&bench.extent(&blob, stripe, 1), 13_000, 3);
        flip(&bench.extent(&blob, stripe, 2), 30_000, 3);
    }
    fs::remove_file(bench.extent(&blob, 1, 0)).unwrap();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (pool, blob, value) = (&pool, &blob, &value);
            scope.spawn(move || {
                for _ in 0..3 {
                    assert!(get(pool, blob).unwrap() == *value);
                    let own = bytes(90_000, n);
                    assert!(get(pool, &put(pool, &own).unwrap()).unwrap() == own);
                }
            });
        }
    });
    config.arena = ByteCount(config.arena.0 - 1);
    drop(pool);
    assert!(matches!(bench.open_with(config, &[], Vec::new()).err(), Some(PoolError::Config(_))));
}

#[test]
fn a_full_drive_is_used_again_once_it_has_space() {
    let mut bench = Bench::new(7);
    let pool = bench.open(small_cells(), &[]);
    let clock = std::sync::Arc::new(base::ManualClock::new(base::Timestamp(1_000_000_000)));
    pool.set_clock(std::sync::Arc::clone(&clock) as std::sync::Arc<dyn base::Clock>);
    let value = bytes(40_000, 22);
    let earlier = put(&pool, &value).unwrap();
    let victim = earlier.stripes[0].drives[0];
    let faults = std::sync::Arc::clone(&bench.faults[usize::from(victim.0)]);
    let health = |pool: &Pool| pool.status().drives[usize::from(victim.0)].health.clone();
    faults.full.store(true, std::sync::atomic::Ordering::SeqCst);
    // Sets are taken in turn: soon one with the full drive is due.
    let blobs: Vec<_> = (0..7).map(|_| put(&pool, &value).unwrap()).collect();
    assert!(faults.fired() > 0 && health(&pool) == DriveHealth::Full);
    assert!(blobs.iter().all(|blob| !blob.stripes[0].drives.contains(&victim)));
    assert!(blobs.iter().all(|blob| get(&pool, blob).unwrap() == value));
    faults.full.store(false, std::sync::atomic::Ordering::SeqCst);
    pool.remove(&earlier).unwrap();
    // It is tried before it is used, soon after something on it was removed.
    clock.advance(std::time::Duration::from_secs(1));
    pool.tend();
    pool.stamp(9).unwrap();
    assert_eq!(health(&pool), DriveHealth::Up);
    let later: Vec<_> = (0..14).map(|_| put(&pool, &value).unwrap()).collect();
    assert!(later.iter().any(|blob| blob.stripes[0].drives.contains(&victim)));
}

#[test]
fn draining_drives_get_no_new_data() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(40_000, 23);
    let earlier: Vec<_> = (0..4).map(|_| put(&pool, &value).unwrap()).collect();
    let mut entries = map(8).drives().to_vec();
    entries[5].state = cluster::DriveState::Draining;
    pool.set_map(cluster::DriveMap::new(base::Epoch(2), entries).unwrap());
    let later: Vec<_> = (0..16).map(|_| put(&pool, &value).unwrap()).collect();
    assert!(later.iter().all(|blob| !blob.stripes[0].drives.contains(&DriveId(5))));
    assert!(earlier.iter().chain(&later).all(|blob| get(&pool, blob).unwrap() == value));
}

#[test]
fn bad_sectors_in_different_rows_do_not_add_up() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(131_072, 24);
    let blob = put(&pool, &value).unwrap();
    // Four shards refuse, each in another row of one stripe: no row lacks more than one.
    for row in 0..4 {
        let drive = usize::from(blob.stripes[0].drives[row].0);
        let offset = row as i64 * (8192 + 4096);
        bench.faults[drive].bad_sector.store(offset + 1, std::sync::atomic::Ordering::SeqCst);
    }
    assert!(get(&pool, &blob).unwrap() == value);
    let fired: u64 = bench.faults.iter().map(|faults| faults.fired()).sum();
    assert!(fired >= 4, "{fired} reads failed");
}

/// In a row of which a shard is known to be lost, cells are checked by the computation that reads them: every
/// further damage must be found there, whether the damaged cell is wanted or only read from.
#[test]
fn damage_in_degraded_rows_is_found_by_what_computes_from_them() {
    for code in [StripeCode::reed_solomon(4, 2), StripeCode { data: 4, local: 2, global: 1 }] {
        let config = PoolConfig { code, arena: ByteCount::mib(3), ..small_cells() };
        let mut bench = Bench::new(code.width() as u16);
        let pool = bench.open(config.clone(), &[]);
        let value = bytes(131_072, 5);
        let blob = put(&pool, &value).unwrap();
        drop(pool);
        let mut damaged = 0;
        for gone in 0..4 {
            let drive = blob.stripes[0].drives[gone].0;
            for bad in (0..code.width()).filter(|shard| *shard != gone) {
                // In the second row, in the last block byte of the cell.
                let path = bench.extent(&blob, 0, bad);
                flip(&path, 12_288 + 4096 + 8191, 3);
                let pool = bench.open(config.clone(), &[drive]);
                assert!(get(&pool, &blob).unwrap() == value, "{code}: {gone} gone, {bad} damaged");
                let from = 32_768 + gone as u64 * 8192;
                let part = get_range(&pool, &blob, from + 100, 8000).unwrap();
                assert!(part == value[from as usize + 100..][..8000], "{code}: {gone}, {bad}");
                damaged += pool.status().damaged;
                drop(pool);
                flip(&path, 12_288 + 4096 + 8191, 3);
            }
        }
        assert!(damaged >= 16, "{code}: {damaged} cells were found damaged");
    }
}
