//! Codes of many shapes as layouts: what is lost is read through, repaired, moved or named, and nothing wrong
//! is ever written under checksums that are right.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::common::{Bench, bytes, flip, get, get_range, put, small_cells};
use base::{BlobDescription, BlobPiece, ByteCount, Crc32c, DriveGroup, Layout, StreamChecksums, StripeCode};
use pool::{BadShard, PoolConfig, PoolError, survives};

const CODE: StripeCode = StripeCode { data: 6, local: 2, global: 2 };

fn config(code: StripeCode) -> PoolConfig {
    PoolConfig { code, arena: ByteCount::mib(3), ..small_cells() }
}

fn bad(blob: &BlobDescription, shards: &[usize]) -> BTreeSet<BadShard> {
    let shard =
        |shard: &usize| BadShard { stripe: 0, shard: *shard as u8, drive: blob.stripes[0].drives[*shard] };
    shards.iter().map(shard).collect()
}

/// Another payload in the first cell under checksums that are right.
fn forge(path: &Path) {
    let mut file = std::fs::read(path).unwrap();
    file[4096 + 5] ^= 0x10;
    let payload = Crc32c::of(&file[4096..12_288]).0.to_le_bytes();
    file[64..68].copy_from_slice(&payload);
    let own = Crc32c::of(&file[..4092]).0.to_le_bytes();
    file[4092..4096].copy_from_slice(&own);
    std::fs::write(path, file).unwrap();
}

/// One wrong local parity (right checksums) and one lost data shard: the globals still know the truth.
fn chain(code: StripeCode) -> (bool, bool, bool) {
    let mut bench = Bench::new(10);
    let pool = bench.open(config(code), &[]);
    let value = bytes(4 * 49_152, 3);
    let blob = put(&pool, &value).unwrap();
    forge(&bench.extent(&blob, 0, 6));
    std::fs::remove_file(bench.extent(&blob, 0, 1)).unwrap();
    let repaired = pool.repair(&blob, &bad(&blob, &[1]), &mut |_| true).unwrap();
    let refused = !repaired.failed.is_empty();
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    let clean = report.is_clean();
    let right = get(&pool, &blob).unwrap() == value;
    (refused, clean, right)
}

#[test]
fn reed_solomon_refuses_what_contradicts() {
    let (refused, clean, _) = chain(StripeCode::reed_solomon(6, 4));
    assert!(refused && !clean);
}

#[test]
fn a_wrong_local_parity_does_not_become_wrong_data_for_good() {
    let (refused, clean, right) = chain(CODE);
    assert!(refused || !clean || right, "wrong bytes, and every check of the pool says that all is well");
}

/// Of several losses one can be rebuilt: it is.
#[test]
fn what_can_be_rebuilt_is_though_the_rest_cannot() {
    let mut bench = Bench::new(10);
    let pool = bench.open(config(CODE), &[]);
    let value = bytes(4 * 49_152, 3);
    let blob = put(&pool, &value).unwrap();
    // Group 1 (3, 4, 5 and parity 7) and both globals are gone; of group 0 only shard 1, which 0, 2, 6 give.
    let lost = [1, 3, 4, 7, 8, 9];
    for shard in lost {
        std::fs::remove_file(bench.extent(&blob, 0, shard)).unwrap();
    }
    assert!(get_range(&pool, &blob, 8192, 8192).unwrap() == value[8192..16_384]);
    pool.repair(&blob, &bad(&blob, &lost), &mut |_| true).unwrap();
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    let still: Vec<u8> = report.bad.iter().map(|bad| bad.shard).collect();
    assert!(!still.contains(&1), "{still:?}");
}

/// Likewise where the stripe moves to other drives.
#[test]
fn what_can_be_rebuilt_elsewhere_is_though_the_rest_cannot() {
    let mut bench = Bench::new(17);
    let pool = bench.open(config(CODE), &[]);
    let value = bytes(4 * 49_152, 3);
    let blob = put(&pool, &value).unwrap();
    drop(pool);
    let lost = [1, 3, 4, 7, 8, 9];
    let drives: Vec<u16> = lost.iter().map(|shard| blob.stripes[0].drives[*shard].0).collect();
    let pool = bench.open_with(config(CODE), &drives, blob.stripes.clone()).unwrap();
    let repaired = pool.repair(&blob, &bad(&blob, &lost), &mut |_| true).unwrap();
    assert!(!repaired.moved.is_empty(), "shard 1 can be rebuilt and is not");
}

#[test]
fn a_code_that_does_not_exist_keeps_nothing() {
    let layout = Layout::Striped { code: StripeCode { data: 0, local: 0, global: 10 } };
    assert!(!survives(layout, &[0]));
}

#[test]
fn a_layout_that_does_not_exist_is_an_error_and_no_panic() {
    let mut bench = Bench::new(10);
    let pool = bench.open(config(CODE), &[]);
    let mut blob = put(&pool, &bytes(49_152, 7)).unwrap();
    for code in [
        StripeCode { data: 0, local: 0, global: 10 },
        StripeCode { data: 4, local: 5, global: 1 },
        StripeCode { data: 200, local: 40, global: 40 },
        StripeCode { data: 255, local: 255, global: 255 },
    ] {
        blob.layout = Layout::Striped { code };
        let piece = BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length };
        let gone: BTreeSet<_> = blob.stripes[0].drives.iter().copied().collect();
        let quiet = |what: &str, run: &mut dyn FnMut() -> bool| {
            let is_error = catch_unwind(AssertUnwindSafe(run));
            assert!(matches!(is_error, Ok(true)), "{code} {what}: {is_error:?}");
        };
        quiet("read", &mut || get(&pool, &blob).is_err());
        quiet("scrub", &mut || pool.scrub_blob(&blob, &[], &mut |_| true).is_err());
        quiet("repair", &mut || pool.repair(&blob, &bad(&blob, &[1]), &mut |_| true).is_err());
        quiet("drives", &mut || pool.has_drives_without(&blob, &piece, &gone).is_err());
    }
}

fn shapes() -> Vec<StripeCode> {
    let mut shapes = Vec::new();
    for (data, local, global) in [
        (1, 0, 0),
        (1, 1, 0),
        (1, 0, 2),
        (2, 2, 1),
        (3, 2, 0),
        (3, 0, 1),
        (5, 2, 2),
        (5, 3, 1),
        (4, 4, 4),
        (7, 1, 3),
        (7, 0, 5),
    ] {
        shapes.push(StripeCode { data, local, global });
    }
    shapes
}

/// Sizes at every boundary: each cell's header is right, the sums are those of the bytes, and every loss is
/// either read through or named, as `survives` says; with the least arena.
#[test]
fn every_size_and_loss() {
    let mut seed = 1;
    for code in shapes() {
        let width = code.width();
        let mut bench = Bench::new(width as u16);
        let mut config = PoolConfig { code, ..small_cells() };
        config.cell_size = ByteCount::kib(136);
        config.extent_size = ByteCount::kib(140 * 2);
        config.arena = ByteCount(width as u64 * 140 * 1024 * 5);
        let cell = 136 * 1024;
        let row = cell * usize::from(code.data);
        let pool = bench.open(config.clone(), &[]);
        let k = usize::from(code.data);
        let mut sizes: Vec<usize> = vec![0, 1, row, row * 2, row * 3];
        for edge in [4096, 4096 * k, 65_536, 65_536 * k, 69_632 * k, cell, row, row * 2] {
            sizes.extend([edge - 1, edge, edge + 1]);
        }
        sizes.push(row * 2 + 4095);
        let mut blobs = Vec::new();
        for size in sizes {
            seed += 1;
            let value = bytes(size, seed);
            let mut writer = pool.create().unwrap().with_checksums();
            for piece in value.chunks(100_003) {
                writer.write(piece).unwrap();
            }
            let sums = writer.end().unwrap().unwrap();
            assert!(sums == StreamChecksums::of(&value), "{code} {size}");
            assert!(writer.end().unwrap() == Some(sums));
            assert!(writer.write(b"x").is_err());
            // A refusal to take more does not spoil what is there.
            let blob = writer.finish();
            let blob = blob.unwrap();
            assert!(get(&pool, &blob).unwrap() == value, "{code} {size}");
            assert!(pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean(), "{code} {size}");
            for (stripe, set) in blob.stripes.iter().enumerate() {
                for shard in 0..set.drives.len() {
                    let file = std::fs::read(bench.extent(&blob, stripe, shard)).unwrap();
                    let mut at = 0;
                    while at < file.len() {
                        let payload = u32::from_le_bytes(file[at + 52..at + 56].try_into().unwrap()) as usize;
                        let body = &file[at + 4096..at + 4096 + payload];
                        for (n, block) in body.chunks(65_536).enumerate() {
                            let stored = &file[at + 64 + 4 * n..][..4];
                            assert_eq!(stored, Crc32c::of(block).0.to_le_bytes());
                        }
                        assert!(
                            file[at + 64 + 4 * payload.div_ceil(65_536)..at + 4092].iter().all(|b| *b == 0)
                        );
                        at += 4096 + payload;
                    }
                }
            }
            blobs.push((value, blob));
        }
        drop(pool);
        for gone in 0..1usize << width {
            seed += 1;
            if width > 6 && !seed.is_multiple_of(23) {
                continue;
            }
            let gone: Vec<u16> = (0..width as u16).filter(|n| gone >> n & 1 == 1).collect();
            if gone.len() == width {
                continue;
            }
            let pool = bench.open(config.clone(), &gone);
            for (value, blob) in blobs.iter().skip(seed as usize % 5).step_by(5) {
                let there = blob.stripes.iter().all(|set| {
                    let lost: Vec<usize> =
                        (0..width).filter(|shard| gone.contains(&set.drives[*shard].0)).collect();
                    survives(blob.layout, &lost)
                });
                match get(&pool, blob) {
                    Ok(read) => assert!(read == *value, "{code} {gone:?}"),
                    Err(PoolError::Unrecoverable { .. }) => assert!(!there, "{code} {gone:?}"),
                    Err(error) => panic!("{error}"),
                }
                if there {
                    let from = value.len() / 3;
                    let length = (value.len() - from).min(70_000);
                    let read = get_range(&pool, blob, from as u64, length as u64).unwrap();
                    assert!(read == value[from..from + length]);
                }
            }
        }
    }
}

/// Damage in different cells of different rows, many readers, the least arena: no reader hangs.
#[test]
fn many_readers_of_damaged_stripes_in_little_memory() {
    let mut bench = Bench::new(10);
    let mut config = config(CODE);
    config.arena = ByteCount(10 * 12_288 * 5);
    let pool = bench.open(config, &[]);
    let value = bytes(12 * 49_152 + 777, 3);
    let blob = put(&pool, &value).unwrap();
    for stripe in 0..blob.stripes.len() {
        for row in 0..4u64 {
            for loss in 0..4u64 {
                let shard = (stripe as u64 * 7 + row * 3 + loss * 5 + (loss & 1)) % 10;
                let path = bench.extent(&blob, stripe, shard as usize);
                let at = row * 12_288 + 4096 + 9;
                if std::fs::metadata(&path).unwrap().len() > at {
                    flip(&path, at, 1);
                }
            }
        }
    }
    std::thread::scope(|scope| {
        for reader in 0..8usize {
            let (pool, blob, value) = (&pool, &blob, &value);
            scope.spawn(move || {
                for turn in 0..20 {
                    let from = (reader * 31 + turn * 17) * 997 % (value.len() - 1);
                    let length = (value.len() - from).min(120_000);
                    let read = get_range(pool, blob, from as u64, length as u64);
                    match read {
                        Ok(read) => assert!(read == value[from..from + length]),
                        Err(PoolError::Unrecoverable { .. }) => (),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// Damage at random, repairs of a part of what is found: a cell never changes into another that is whole, and
/// when all is repaired, what could be determined is as it was.
#[test]
fn repairs_write_what_was_there_or_nothing_whole() {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut stuck = 0;
    for turn in 0..10u64 {
        let shapes = [(6, 2, 2), (5, 3, 1), (4, 2, 0), (7, 1, 3), (4, 4, 1), (4, 0, 3), (6, 2, 2)];
        let (data, local, global) = shapes[turn as usize % shapes.len()];
        let code = StripeCode { data, local, global };
        let width = code.width();
        let mut bench = Bench::new(width as u16 + 3);
        let pool = bench.open(config(code), &[]);
        let value = bytes(usize::from(data) * 8192 * 3 + 1 + dice.roll(30_000) as usize, turn);
        let blob = put(&pool, &value).unwrap();
        let before: Vec<Vec<u8>> =
            (0..width).map(|shard| std::fs::read(bench.extent(&blob, 0, shard)).unwrap()).collect();
        let rows = before[0].len().div_ceil(12_288);
        let mut gone: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); rows];
        let losses = 1 + dice.roll(6);
        for _ in 0..losses {
            let shard = dice.roll(width as u64) as usize;
            let path = bench.extent(&blob, 0, shard);
            if dice.roll(3) == 0 {
                let _ = std::fs::remove_file(&path);
                gone.iter_mut().for_each(|gone| {
                    gone.insert(shard);
                });
            } else if path.exists() {
                let row = dice.roll(rows as u64) as usize;
                if gone[row].insert(shard) {
                    flip(&path, row as u64 * 12_288 + dice.roll(2) * 4096 + dice.roll(100), 3);
                }
            }
        }
        let lost_rows = gone
            .iter()
            .filter(|gone| !survives(blob.layout, &gone.iter().copied().collect::<Vec<_>>()))
            .count();
        for round in 0..6 {
            let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
            let mut wanted = report.bad.clone();
            if round < 4 {
                wanted.retain(|_| dice.roll(2) == 0);
            }
            let repaired = pool.repair(&blob, &wanted, &mut |_| true).unwrap();
            assert!(repaired.lost_rows as usize <= lost_rows, "{code} {gone:?} {repaired:?}");
            for (shard, before) in before.iter().enumerate() {
                let path = bench.extent(&blob, 0, shard);
                let Ok(now) = std::fs::read(&path) else { continue };
                for row in 0..rows {
                    let range = row * 12_288..before.len().min((row + 1) * 12_288);
                    let (Some(now), was) = (now.get(range.clone()), &before[range]) else { continue };
                    let is_whole = now[..8] == *b"KISTCELL"
                        && Crc32c::of(&now[..4092]).0.to_le_bytes() == now[4092..4096]
                        && Crc32c::of(&now[4096..]).0.to_le_bytes() == now[64..68];
                    assert!(!is_whole || now == was, "{code} {gone:?} row {row} shard {shard}");
                    assert!(
                        gone[row].contains(&shard) || now == was,
                        "{code} {gone:?}: a whole cell is lost"
                    );
                }
            }
        }
        let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
        if lost_rows == 0 {
            assert!(report.is_clean(), "{code} {gone:?} {report:?}");
            assert!(get(&pool, &blob).unwrap() == value);
        } else {
            stuck += 1;
        }
    }
    assert!(stuck > 0, "some damage was beyond repair");
}

/// Reed-Solomon, as before local codes: a row that is lost does not keep the others from being repaired.
#[test]
fn a_lost_row_does_not_stop_the_repair_of_the_others() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(4 * 32_768, 3);
    let blob = put(&pool, &value).unwrap();
    // Row 0 has three good cells of four needed, that of shard 5 among them.
    for shard in [0, 1, 2] {
        flip(&bench.extent(&blob, 0, shard), 4096, 1);
    }
    // Shard 5 is damaged in row 2, which can be rebuilt.
    flip(&bench.extent(&blob, 0, 5), 2 * 12_288 + 4096, 1);
    let repaired = pool.repair(&blob, &bad(&blob, &[5]), &mut |_| true);
    let repaired = repaired.unwrap();
    assert_eq!((repaired.in_place.len(), repaired.lost_rows), (1, 1), "{repaired:?}");
}

/// One data cell that is not what was encoded (right checksums), another of its group lost: with the globals
/// as witnesses the repair would see that the shards contradict one another.
#[test]
fn wrong_data_does_not_spread_in_its_group() {
    let mut bench = Bench::new(10);
    let pool = bench.open(config(CODE), &[]);
    let value = bytes(4 * 49_152, 3);
    let blob = put(&pool, &value).unwrap();
    let before = std::fs::read(bench.extent(&blob, 0, 1)).unwrap();
    let globals = std::fs::read(bench.extent(&blob, 0, 8)).unwrap();
    forge(&bench.extent(&blob, 0, 0));
    std::fs::remove_file(bench.extent(&blob, 0, 1)).unwrap();
    for _ in 0..2 {
        let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
        pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    }
    let is_as_before = |shard: usize, before: &[u8]| {
        std::fs::read(bench.extent(&blob, 0, shard)).is_ok_and(|now| now == before)
    };
    let clean = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean();
    assert!(!clean, "wrong bytes, and every check of the pool says that all is well");
    assert!(is_as_before(1, &before) || is_as_before(8, &globals), "nothing is left of what shard 1 was");
}

/// Drives go for good and cells are damaged besides; what was on them is moved, then what is found repaired.
#[test]
fn moves_keep_every_byte() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut moved, mut refused) = (0, 0);
    for turn in 0..5u64 {
        let mut bench = Bench::new(16);
        let pool = bench.open(config(CODE), &[]);
        let value = bytes(49_152 * 3 + 1 + dice.roll(30_000) as usize, turn);
        let mut blob = put(&pool, &value).unwrap();
        drop(pool);
        let mut lost = BTreeSet::new();
        for _ in 0..1 + dice.roll(3) {
            lost.insert(dice.roll(10) as usize);
        }
        let drives: Vec<u16> = lost.iter().map(|shard| blob.stripes[0].drives[*shard].0).collect();
        for _ in 0..dice.roll(3) {
            let shard = dice.roll(10) as usize;
            flip(&bench.extent(&blob, 0, shard), dice.roll(3) * 12_288 + 4096 + dice.roll(99), 1);
        }
        let pool = bench.open_with(config(CODE), &drives, blob.stripes.clone()).unwrap();
        let can = get(&pool, &blob);
        let lost: Vec<usize> = lost.into_iter().collect();
        let repaired = pool.repair(&blob, &bad(&blob, &lost), &mut |_| true).unwrap();
        match (&can, repaired.moved.first()) {
            (_, Some(step)) => {
                blob.stripes[0] = step.to.clone();
                moved += 1;
            }
            (Ok(_), None) => panic!("readable and not moved: {repaired:?}"),
            (Err(_), None) => {
                refused += 1;
                continue;
            }
        }
        for _ in 0..2 {
            let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
            pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
        }
        let now = get(&pool, &blob);
        if can.is_ok() {
            assert!(now.unwrap() == value && pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean());
        } else {
            println!("{:?} {:?}", can.err(), now.map(drop));
        }
    }
    println!("{moved} moved, {refused} not");
}

#[test]
fn what_is_told_of_an_unreadable_stripe() {
    let mut bench = Bench::new(10);
    let pool = bench.open(config(CODE), &[]);
    let blob = put(&pool, &bytes(4 * 49_152, 3)).unwrap();
    for shard in [0, 1, 2, 6] {
        std::fs::remove_file(bench.extent(&blob, 0, shard)).unwrap();
    }
    let error = get(&pool, &blob).unwrap_err().to_string();
    println!("{error}");
    assert!(!error.contains("6 of 6"), "{error}");
}

fn on_drives(bench: &Bench) -> usize {
    bench.extents().len()
}

/// Several stripes, read with a drive away, in another code and another number of stripes; what is given up
/// in between leaves nothing.
#[test]
fn a_blob_is_written_anew_in_another_code() {
    let mut bench = Bench::new(13);
    let pool = bench.open(config(StripeCode::reed_solomon(4, 2)), &[]);
    let value = bytes(9 * 49_152 + 77, 5);
    let blob = put(&pool, &value).unwrap();
    drop(pool);
    for code in [CODE, StripeCode::reed_solomon(8, 4), StripeCode::reed_solomon(2, 1)] {
        let pool = bench.open(config(code), &[blob.stripes[0].drives[0].0]);
        let before = on_drives(&bench);
        let mut left_off = pool.rewrite(&blob, DriveGroup::MAIN).unwrap();
        left_off.step().unwrap();
        drop(left_off);
        assert_eq!(on_drives(&bench), before, "what was not ended is removed");
        let mut rewrite = pool.rewrite(&blob, DriveGroup::MAIN).unwrap();
        let mut written = 0;
        while let Some(step) = rewrite.step().unwrap() {
            written += step.0;
        }
        assert_eq!(written, blob.length.0);
        let anew = rewrite.finish().unwrap();
        assert_eq!((anew.id, anew.layout), (blob.id, Layout::Striped { code }));
        assert!(get(&pool, &anew).unwrap() == value && get(&pool, &blob).unwrap() == value);
        assert!(get_range(&pool, &anew, 49_000, 9_000).unwrap() == value[49_000..58_000]);
        // Damage of it is found and mended as of any other blob, by the id that the catalogue has.
        flip(&bench.extent(&anew, 0, 1), 4096 + 7, 3);
        assert!(get(&pool, &anew).unwrap() == value);
        assert_eq!(pool.take_repairs(9), [(blob.id, None)]);
        let report = pool.scrub_blob(&anew, &[], &mut |_| true).unwrap();
        let repaired = pool.repair(&anew, &report.bad, &mut |_| true).unwrap();
        assert!(repaired.failed.is_empty() && !repaired.in_place.is_empty(), "{repaired:?}");
        assert!(pool.scrub_blob(&anew, &[], &mut |_| true).unwrap().is_clean());
        pool.remove(&anew).unwrap();
        assert_eq!(on_drives(&bench), before);
    }
}
