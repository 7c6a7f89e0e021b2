//! Temporary.
use base::*; use scheduler::*; use std::collections::BTreeMap; use std::time::Instant;
fn rss() -> u64 { std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmRSS")).unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024 }
fn main() {
    let p = Policy { classes: BTreeMap::new(), tape_pools: BTreeMap::new(), recall_age: Duration::from_secs(3600), recall_bytes: ByteCount(u64::MAX), dismount_delay: Duration::from_secs(1), retry_delay: Duration::from_secs(1) };
    for order in ["random", "ascending"] {
    let mut s = Scheduler::new(p.clone()); let mut a = vec![];
    let n: u64 = 10_000_000; let tapes = 1000u64;
    for d in 0..8 { s.step(Timestamp(0), Event::DriveUp(format!("d{d}")), &mut a); }
    for t in 0..2 * tapes { s.step(Timestamp(0), Event::Tape(Vid::new(&format!("T{t:05}")).unwrap(), TapeSummary { tape_pool: Some(TapePoolId(1)), readable: true, writable: false, free: ByteCount(0), reason: String::new() }), &mut a); }
    let vids: Vec<Vid> = (0..2 * tapes).map(|t| Vid::new(&format!("T{t:05}")).unwrap()).collect();
    let before = rss(); let t0 = Instant::now();
    let mut x = 1u64;
    for i in 0..n {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let file = if order == "random" { x >> 20 } else { i };
        let h = (x >> 33) % tapes;
        s.step(Timestamp(i as i64), Event::Wanted { file: FileId(file), bytes: ByteCount(1_000_000), since: Timestamp(i as i64), copies: vec![vids[h as usize], vids[(tapes + h) as usize]] }, &mut a);
    }
    println!("{order}: {} B/file, {:.2} us/event", (rss() - before) / n, t0.elapsed().as_secs_f64() * 1e6 / n as f64);
    let t1 = Instant::now(); a.clear();
    s.step(Timestamp(3_600_000_000_000 + n as i64), Event::Tick, &mut a);
    println!("8 tapes of {} files chosen in {:?}, {} actions", n / tapes, t1.elapsed(), a.len());
    }
    // One tape of 100,000 files with two copies.
    let mut s = Scheduler::new(p); let mut a = vec![];
    for t in 0..2 { s.step(Timestamp(0), Event::Tape(Vid::new(&format!("T{t:05}")).unwrap(), TapeSummary { tape_pool: None, readable: true, writable: false, free: ByteCount(0), reason: String::new() }), &mut a); }
    for i in 0..100_000u64 { s.step(Timestamp(i as i64), Event::Wanted { file: FileId(i), bytes: ByteCount(1), since: Timestamp(i as i64), copies: vec![Vid::new("T00000").unwrap(), Vid::new("T00001").unwrap()] }, &mut a); }
    a.clear(); let t = Instant::now();
    s.step(Timestamp(4_000_000_000_000), Event::DriveUp("d".into()), &mut a);
    println!("one tape of 100k: {:?} {:?}", t.elapsed(), a);
}
