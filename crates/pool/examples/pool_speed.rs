//! Writes and reads a striped blob, and stores small values, over drives given as arguments; prints GB/s.
//!
//! `speed [--data k] [--parity m] [--gib n] DRIVE...`: each is a path or a URL of an empty or absent drive,
//! which is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use base::{ByteCount, DriveGroup, DriveId, Epoch, StripeCode, Uuid};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use drive::DriveLocation;
use pool::{Pool, PoolConfig};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut data, mut parity, mut gib) = (4u8, 2u8, 2u64);
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or("a number is missing");
        match argument.as_str() {
            "--data" => data = number()?.parse()?,
            "--parity" => parity = number()?.parse()?,
            "--gib" => gib = number()?.parse()?,
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let pool = open(&paths, data, parity)?;
    for round in 0..3 {
        large(&pool, ByteCount::gib(gib), round)?;
    }
    for callers in [1, 8, 64] {
        small(&pool, callers)?;
    }
    pool.close();
    Ok(())
}

fn open(paths: &[PathBuf], data: u8, parity: u8) -> Result<Arc<Pool>, Failure> {
    let instance = Uuid([1; 16]);
    let (mut drives, mut entries) = (Vec::new(), Vec::new());
    for (number, path) in paths.iter().enumerate() {
        let id = DriveId(u16::try_from(number)?);
        let at = DriveLocation::parse(path, Path::new(""))?;
        at.format(instance, id)?;
        drives.push((id, Some(at.open(instance, id)?)));
        let domain = FailureDomain { disk: number.to_string(), ..FailureDomain::default() };
        entries.push(DriveEntry { id, domain, group: DriveGroup::MAIN, state: DriveState::Up, weight: 1 });
    }
    let map = DriveMap::new(Epoch(1), entries)?;
    Ok(Pool::open(
        PoolConfig::new(instance, StripeCode::reed_solomon(data, parity)),
        Epoch(1),
        map,
        drives,
        Vec::new(),
    )?)
}

fn large(pool: &Arc<Pool>, length: ByteCount, round: u64) -> Result<(), Failure> {
    let piece: Vec<u8> =
        (0..1 << 20).map(|n: u64| (n.wrapping_mul(0x9e37_79b9 + round) >> 13) as u8).collect();
    let start = Instant::now();
    let mut writer = pool.create_sized(length)?;
    for _ in 0..length.0 >> 20 {
        writer.write(&piece)?;
    }
    let blob = writer.finish()?;
    let put = length.0 as f64 / 1e9 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut reader = pool.read(&blob, ByteCount(0), length)?;
    let mut read = 0;
    while let Some(bytes) = reader.next()? {
        read += bytes.len() as u64;
    }
    let get = read as f64 / 1e9 / start.elapsed().as_secs_f64();
    println!("{length}: put {put:.2} GB/s, get {get:.2} GB/s");
    pool.remove(&blob)?;
    Ok(())
}

fn small(pool: &Arc<Pool>, callers: usize) -> Result<(), Failure> {
    const EACH: usize = 200;
    let before = pool.status().syncs;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|n| {
                scope.spawn(move || {
                    let value = vec![n as u8; 20_000];
                    (0..EACH).try_for_each(|_| pool.put_small(&value).map(drop))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let syncs = pool.status().syncs - before;
    let puts = callers * EACH;
    println!("{callers} callers, 20 kB: {:.0} puts/s, {syncs} syncs for {puts} puts", puts as f64 / seconds);
    Ok(())
}
