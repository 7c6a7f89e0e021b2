//! Drives with a queue: what is handed to them, and what they make of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pool::Pool;

use super::common::{Bench, Seen, bytes, get, put, small_cells};

fn on_threads(pool: &Arc<Pool>, count: usize, work: impl Fn(&Arc<Pool>, u64) + Sync) {
    std::thread::scope(|scope| {
        for n in 0..count as u64 {
            let work = &work;
            scope.spawn(move || work(pool, n));
        }
    });
}

fn most(bench: &Bench, of: impl Fn(&Seen) -> usize) -> usize {
    bench.seen.iter().map(|seen| of(seen)).max().unwrap_or_default()
}

#[test]
fn a_drive_with_a_queue_has_many_operations_under_way() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    on_threads(&pool, 16, |pool, n| {
        let value = bytes(400_000 + 999 * n as usize, n);
        let blob = put(pool, &value).unwrap();
        for _ in 0..3 {
            assert_eq!(get(pool, &blob).unwrap(), value, "blob {n}");
        }
        let small = bytes(20_000, n);
        let (segment, piece) = pool.put_small(&small).unwrap();
        assert_eq!(&*pool.read_small(&segment, &piece).unwrap(), &small[..]);
        pool.remove(&blob).unwrap();
    });
    let seen = |of: fn(&Seen) -> usize| most(&bench, of);
    let (reads, writes) =
        (seen(|seen| seen.reads.load(Ordering::SeqCst)), seen(|seen| seen.writes.load(Ordering::SeqCst)));
    let overtaken: usize = bench.seen.iter().map(|seen| seen.overtaken.load(Ordering::SeqCst)).sum();
    assert!(reads > 4 && writes > 4, "at most {reads} reads and {writes} writes at one time");
    assert!(overtaken > 100, "{overtaken} operations were done before an older one");
}

#[test]
fn operations_that_fail_or_are_dropped_cost_no_byte() {
    // Two drives fail; a write gives up the spare, too, if it cannot be filled since a source fails
    // meanwhile.
    let mut bench = Bench::new(10);
    let pool = bench.open(small_cells(), &[]);
    let values: Vec<Vec<u8>> = (0..12).map(|n| bytes(300_000, n)).collect();
    let blobs: Vec<_> = values.iter().map(|value| put(&pool, value).unwrap()).collect();
    // No row can lose more than its two parity cells.
    for seen in &bench.seen[..2] {
        seen.fail_one_in.store(8, Ordering::SeqCst);
        seen.drop_one_in.store(8, Ordering::SeqCst);
    }
    on_threads(&pool, blobs.len(), |pool, n| {
        assert_eq!(get(pool, &blobs[n as usize]).unwrap(), values[n as usize], "blob {n}");
        let value = bytes(250_000, 100 + n);
        // A write that loses a drive goes on on a spare.
        let blob = put(pool, &value).unwrap();
        assert_eq!(get(pool, &blob).unwrap(), value, "blob {n} written meanwhile");
    });
    for seen in &bench.seen[..2] {
        assert!(seen.spoilt.load(Ordering::SeqCst) > 0, "the faults fired");
    }
}
