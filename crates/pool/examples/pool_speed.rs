//! Writes and reads a striped blob, stores small values, and has many callers write blobs of 4 MiB and read
//! 64 KiB anywhere in them, over drives given as arguments; prints what comes of it in a second.
//!
//! `speed [--data k] [--parity m] [--mib n] [--io auto|threads|uring] DRIVE...`: each is a path or a URL of
//! an empty or absent drive, which is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use base::{ByteCount, DriveGroup, DriveId, Epoch, StripeCode, Uuid};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use drive::DriveIo;
use location::DriveLocation;
use pool::{Pool, PoolConfig};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut data, mut parity, mut mib, mut io) = (4u8, 2u8, 2048u64, DriveIo::Auto);
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or("a number is missing");
        match argument.as_str() {
            "--data" => data = number()?.parse()?,
            "--parity" => parity = number()?.parse()?,
            "--mib" => mib = number()?.parse()?,
            "--io" => io = number()?.parse()?,
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let pool = open(&paths, data, parity, io)?;
    for round in 0..3 {
        large(&pool, ByteCount::mib(mib), round)?;
    }
    for callers in [1, 8, 64] {
        small(&pool, callers)?;
    }
    for callers in [1, 8, 32] {
        many(&pool, callers)?;
    }
    pool.close();
    Ok(())
}

fn open(paths: &[PathBuf], data: u8, parity: u8, io: DriveIo) -> Result<Arc<Pool>, Failure> {
    let instance = Uuid([1; 16]);
    let (mut drives, mut entries) = (Vec::new(), Vec::new());
    for (number, path) in paths.iter().enumerate() {
        let id = DriveId(u16::try_from(number)?);
        let at = DriveLocation::parse(path, Path::new(""))?;
        at.format(instance, id)?;
        drives.push((id, Some(at.open(instance, id, io)?)));
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

/// Blobs of 4 MiB, each durable before the next, then reads of 64 KiB at random places.
fn many(pool: &Arc<Pool>, callers: usize) -> Result<(), Failure> {
    const BLOBS: usize = 64;
    const READS: usize = 4_000;
    let length = ByteCount::mib(4);
    let on_all = |work: &(dyn Fn(usize) -> Result<(), pool::PoolError> + Sync)| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..callers).map(|caller| scope.spawn(move || work(caller))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        })?;
        Ok::<f64, pool::PoolError>(start.elapsed().as_secs_f64())
    };
    let made = std::sync::Mutex::new(Vec::new());
    let put = on_all(&|caller| {
        for number in (caller..BLOBS).step_by(callers) {
            let mut writer = pool.create_sized(length)?;
            (0..4).try_for_each(|_| writer.write(&vec![number as u8; 1 << 20]))?;
            let blob = writer.finish()?;
            made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(blob);
        }
        Ok(())
    })?;
    let blobs = made.into_inner().unwrap_or_default();
    let get = on_all(&|caller| {
        let mut random = caller as u64 + 1;
        for _ in (caller..READS).step_by(callers) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let blob = &blobs[(random >> 33) as usize % blobs.len()];
            let at = ((random >> 40) % (length.0 >> 16)) << 16;
            let mut reader = pool.read(blob, ByteCount(at), ByteCount(1 << 16))?;
            while reader.next()?.is_some() {}
        }
        Ok(())
    })?;
    println!(
        "{callers} callers: {:.0} blobs of 4 MiB/s, {:.0} reads of 64 KiB/s",
        BLOBS as f64 / put,
        READS as f64 / get
    );
    blobs.iter().try_for_each(|blob| pool.remove(blob))?;
    Ok(())
}
