//! Clients that send slowly beside others: nobody holds memory of the pool while he waits for his client.
//!
//! Nine slow uploads of one user held all rows of the arena for writers, each for as long as its client took
//! to fill it, and every larger put of everybody waited.

use std::sync::Arc;
use std::time::Duration;

use super::common::{Bench, bytes, get, small_cells};
use base::{BlobDescription, ByteCount, Clock, ManualClock, Timestamp};
use pool::{BlobWriter, Pool, PoolConfig};

const ROW: usize = 32_768;

/// 4+2 with rows of 32 KiB, and nine of them for writers.
fn config() -> PoolConfig {
    let mut config = small_cells();
    config.arena = ByteCount(20 * 6 * (8192 + 4096));
    config
}

fn begin(pool: &Arc<Pool>, caller: &str) -> BlobWriter {
    pool.create().unwrap().used_by_client_of(caller).with_checksums()
}

fn put(pool: &Arc<Pool>, caller: &str, value: &[u8]) -> BlobDescription {
    let mut writer = begin(pool, caller);
    value.chunks(10_007).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

#[test]
fn uploads_that_have_just_begun_leave_memory_to_others() {
    let mut bench = Bench::new(6);
    let pool = bench.open(config(), &[]);
    let mut slow: Vec<BlobWriter> = (0..16).map(|_| begin(&pool, "anna")).collect();
    slow.iter_mut().for_each(|writer| writer.write(&[7; 100]).unwrap());
    let value = bytes(10 * ROW + 77, 1);
    assert!(get(&pool, &put(&pool, "bert", &value)).unwrap() == value);
    for mut writer in slow {
        writer.write(&[7; ROW]).unwrap();
        let blob = writer.finish().unwrap();
        assert!(get(&pool, &blob).unwrap() == [7; ROW + 100]);
    }
    let report = pool.gathering_report();
    assert_eq!((report.free, report.most), (report.total, None));
}

/// They were quick, so that each of them fills its row in the arena, as far as that goes. Then they stop.
#[test]
fn uploads_that_stand_still_give_their_rows_back() {
    let mut bench = Bench::new(6);
    let pool = bench.open(config(), &[]);
    let values: Vec<Vec<u8>> = (0..16).map(|n| bytes(3 * ROW + 5000, n)).collect();
    let mut slow: Vec<BlobWriter> = Vec::new();
    for value in &values {
        let mut writer = begin(&pool, "anna");
        // In parts of cells, across their ends.
        value[..2 * ROW + 20_001].chunks(7_001).for_each(|piece| writer.write(piece).unwrap());
        writer.pause();
        slow.push(writer);
    }
    let other = bytes(10 * ROW + 77, 99);
    assert!(get(&pool, &put(&pool, "bert", &other)).unwrap() == other);
    for (mut writer, value) in slow.into_iter().zip(&values) {
        writer.pause();
        value[2 * ROW + 20_001..].chunks(3_001).for_each(|piece| writer.write(piece).unwrap());
        let sums = writer.end().unwrap();
        assert_eq!(sums, Some(base::StreamChecksums::of(value)));
        assert!(get(&pool, &writer.finish().unwrap()).unwrap() == *value);
    }
}

/// A client that sends a little all the time never stands still.
#[test]
fn uploads_that_trickle_give_their_rows_back() {
    let mut bench = Bench::new(6);
    let pool = bench.open(config(), &[]);
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let mut slow: Vec<BlobWriter> = Vec::new();
    for _ in 0..16 {
        let mut writer = begin(&pool, "anna");
        writer.write(&[7; 2 * ROW + 100]).unwrap();
        clock.advance(Duration::from_millis(251));
        writer.write(&[7; 100]).unwrap();
        slow.push(writer);
    }
    let value = bytes(10 * ROW + 77, 1);
    assert!(get(&pool, &put(&pool, "bert", &value)).unwrap() == value);
    for mut writer in slow {
        clock.advance(Duration::from_secs(10));
        writer.write(&[7; 2 * ROW]).unwrap();
        let blob = writer.finish().unwrap();
        assert!(get(&pool, &blob).unwrap() == [7; 4 * ROW + 200]);
    }
}

/// However many rows a caller begins and however slowly: half of the memory for them stays.
#[test]
fn a_caller_with_many_slow_uploads_waits_for_itself_alone() {
    let mut bench = Bench::new(6);
    let pool = bench.open(config(), &[]);
    let total = pool.gathering_report().total.0 as usize;
    let half = total / ROW / 2;
    let mut slow: Vec<BlobWriter> = (0..half).map(|_| begin(&pool, "anna")).collect();
    slow.iter_mut().for_each(|writer| writer.write(&[7; 100]).unwrap());
    let waits = std::thread::spawn({
        let mut writer = begin(&pool, "anna");
        move || {
            writer.write(&[8; 100]).unwrap();
            writer.finish().unwrap()
        }
    });
    while pool.gathering_report().waiting == 0 {
        std::thread::yield_now();
    }
    let value = bytes(10 * ROW + 77, 1);
    assert!(get(&pool, &put(&pool, "bert", &value)).unwrap() == value);
    let report = pool.gathering_report();
    assert_eq!((report.waiting, report.most), (1, Some(("anna".to_owned(), ByteCount((half * ROW) as u64)))));
    drop(slow.pop());
    let blob = waits.join().unwrap();
    assert!(get(&pool, &blob).unwrap() == [8; 100]);
}
