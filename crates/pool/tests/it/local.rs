//! A locally repairable code as a layout: nothing is lost that the code can repair, and the loss of one shard
//! is repaired from its group.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::common::{Bench, bytes, flip, get, get_range, put, small_cells};
use base::{BlobDescription, ByteCount, Layout, StripeCode};
use pool::{BadShard, Fault, Pool, PoolConfig, PoolError, survives};

const CODE: StripeCode = StripeCode { data: 6, local: 2, global: 2 };
const WIDTH: usize = 10;

/// 6+2+2 with cells of 8 KiB and 4 rows a stripe: a row is 48 KiB.
fn local_cells() -> PoolConfig {
    PoolConfig { code: CODE, arena: ByteCount::mib(3), ..small_cells() }
}

fn bad(blob: &BlobDescription, shards: &[usize]) -> BTreeSet<BadShard> {
    let shard =
        |shard: &usize| BadShard { stripe: 0, shard: *shard as u8, drive: blob.stripes[0].drives[*shard] };
    shards.iter().map(shard).collect()
}

fn scrub_is_clean(pool: &Arc<Pool>, blob: &BlobDescription) -> bool {
    pool.scrub_blob(blob, &[], &mut |_| true).unwrap().is_clean()
}

#[test]
fn every_set_of_four_losses_is_read_through_or_named() {
    let mut bench = Bench::new(WIDTH as u16);
    let pool = bench.open(local_cells(), &[]);
    // The last row is short.
    let value = bytes(3 * 49_152 + 20_000, 11);
    let blob = put(&pool, &value).unwrap();
    assert_eq!((blob.layout, blob.stripes.len()), (Layout::Striped { code: CODE }, 1));
    assert!(get(&pool, &blob).unwrap() == value && scrub_is_clean(&pool, &blob));
    drop(pool);
    let (mut whole, mut lost) = (0, 0);
    for gone in (0..1usize << WIDTH).filter(|gone| gone.count_ones() == 4) {
        let shards: Vec<usize> = (0..WIDTH).filter(|shard| gone >> shard & 1 == 1).collect();
        let drives: Vec<u16> = shards.iter().map(|shard| blob.stripes[0].drives[*shard].0).collect();
        let pool = bench.open(local_cells(), &drives);
        let piece = base::BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length };
        assert_eq!(pool.has_drives_for(&blob, &piece).unwrap(), survives(blob.layout, &shards));
        match get(&pool, &blob) {
            Ok(read) => {
                assert!(read == value && survives(blob.layout, &shards), "{shards:?}");
                assert!(get_range(&pool, &blob, 50_000, 9_000).unwrap() == value[50_000..59_000]);
                whole += 1;
            }
            Err(PoolError::Unrecoverable { blob: id, .. }) => {
                assert!(id == blob.id && !survives(blob.layout, &shards), "{shards:?}");
                lost += 1;
            }
            Err(error) => panic!("{shards:?}: {error}"),
        }
    }
    assert!(whole > 150 && lost > 0, "{whole} read, {lost} lost");
}

#[test]
fn one_loss_is_repaired_from_its_group_alone() {
    let mut bench = Bench::new(WIDTH as u16);
    let pool = bench.open(local_cells(), &[]);
    let value = bytes(4 * 49_152, 3);
    let blob = put(&pool, &value).unwrap();
    let drives = &blob.stripes[0].drives;
    let read = |pool: &Arc<Pool>| -> Vec<u64> {
        let status = pool.status();
        let of = |drive: &base::DriveId| status.drives.iter().find(|d| d.id == *drive).unwrap().bytes_read.0;
        drives.iter().map(of).collect()
    };
    for (lost, group) in [(1, [0, 2, 6]), (4, [3, 5, 7]), (6, [0, 1, 2])] {
        std::fs::remove_file(bench.extent(&blob, 0, lost)).unwrap();
        let before = read(&pool);
        let repaired = pool.repair(&blob, &bad(&blob, &[lost]), &mut |_| true).unwrap();
        assert_eq!((repaired.in_place.len(), repaired.failed.len(), repaired.lost_rows), (1, 0, 0));
        let after = read(&pool);
        let touched: Vec<usize> = (0..WIDTH).filter(|shard| after[*shard] > before[*shard]).collect();
        assert_eq!(touched, group, "shard {lost}");
        assert!(scrub_is_clean(&pool, &blob));
    }
    // A degraded read takes no more than the group either.
    std::fs::remove_file(bench.extent(&blob, 0, 1)).unwrap();
    let before = read(&pool);
    assert!(get_range(&pool, &blob, 8192, 8192).unwrap() == value[8192..16_384]);
    let after = read(&pool);
    let touched: Vec<usize> = (0..WIDTH).filter(|shard| after[*shard] > before[*shard]).collect();
    assert_eq!(touched, [0, 2, 6]);
}

#[test]
fn a_loss_in_a_damaged_group_is_repaired_from_the_whole_row() {
    let mut bench = Bench::new(WIDTH as u16);
    let pool = bench.open(local_cells(), &[]);
    let value = bytes(4 * 49_152, 4);
    let blob = put(&pool, &value).unwrap();
    std::fs::remove_file(bench.extent(&blob, 0, 1)).unwrap();
    // In the same group, in the second row.
    flip(&bench.extent(&blob, 0, 2), 12_288 + 4096, 1);
    let repaired = pool.repair(&blob, &bad(&blob, &[1]), &mut |_| true).unwrap();
    assert_eq!((repaired.in_place.len(), repaired.lost_rows), (1, 0), "{repaired:?}");
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    assert_eq!(report.bad, bad(&blob, &[2]));
    pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    assert!(scrub_is_clean(&pool, &blob) && get(&pool, &blob).unwrap() == value);
}

#[test]
fn drives_that_fail_while_a_stripe_is_written_are_made_good() {
    let mut moved = 0;
    for lost in [vec![0], vec![7], vec![0, 3, 9], vec![1, 4, 8]] {
        let mut bench = Bench::new(WIDTH as u16 + 4);
        let pool = bench.open(local_cells(), &[]);
        let value = bytes(4 * 49_152, 6);
        // A drive that is not of the set feels nothing; the others fail at their first or second row.
        for drive in &lost {
            bench.faults[*drive].fail_append(1, true);
        }
        let blob = put(&pool, &value).unwrap();
        let fired = bench.faults.iter().filter(|faults| faults.fired.load(Ordering::SeqCst) > 0).count();
        moved += fired;
        assert!(get(&pool, &blob).unwrap() == value, "{lost:?}");
        let on_lost = blob.stripes[0].drives.iter().any(|drive| {
            let faults = bench.faults.get(usize::from(drive.0));
            faults.is_some_and(|faults| faults.fired.load(Ordering::SeqCst) > 0)
        });
        assert!(!on_lost, "{lost:?}: {:?}", blob.stripes[0]);
    }
    assert!(moved >= 4, "{moved} drives of the sets failed");
}

#[test]
fn wrong_local_parity_is_found_and_computed_anew() {
    let mut bench = Bench::new(WIDTH as u16);
    let pool = bench.open(local_cells(), &[]);
    let blob = put(&pool, &bytes(4 * 49_152, 7)).unwrap();
    // Another payload under checksums that are right.
    let path = bench.extent(&blob, 0, 6);
    let mut file = std::fs::read(&path).unwrap();
    file[4096 + 5] ^= 0x10;
    let payload = base::Crc32c::of(&file[4096..12_288]).0.to_le_bytes();
    file[64..68].copy_from_slice(&payload);
    let own = base::Crc32c::of(&file[..4092]).0.to_le_bytes();
    file[4092..4096].copy_from_slice(&own);
    std::fs::write(&path, file).unwrap();
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    assert_eq!(report.bad, bad(&blob, &[6]));
    assert!(report.findings.iter().all(|finding| finding.fault == Fault::Parity));
    let repaired = pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    assert_eq!(repaired.in_place.len(), 1, "{repaired:?}");
    assert!(scrub_is_clean(&pool, &blob));
}

/// The same shards in another code are another format: a stripe of 6+4 read as 6+2+2 would rebuild wrong
/// bytes under checksums that are right.
#[test]
fn a_stripe_is_not_read_with_another_code() {
    let mut bench = Bench::new(WIDTH as u16);
    let config = PoolConfig { code: StripeCode::reed_solomon(6, 4), ..local_cells() };
    let pool = bench.open(config, &[]);
    let mut blob = put(&pool, &bytes(49_152, 7)).unwrap();
    blob.layout = Layout::Striped { code: CODE };
    assert!(matches!(get(&pool, &blob), Err(PoolError::Unrecoverable { .. })));
}
