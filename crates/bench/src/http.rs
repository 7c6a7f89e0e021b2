//! Requests over HTTP by a client that only sends and throws away: the server is what is measured.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use client::Server;
use terminal::{Failure, Outcome, text};

use super::cpu;
use super::raw::{RawConnection, Reply};
use super::rows::Row;

/// Bytes that a body repeats: different in every 64 KiB, so that nothing is the same twice by chance.
const PATTERN_BYTES: usize = 4 << 20;

/// What is put.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Files.
    pub files: u64,
    /// Bytes of each.
    pub size: u64,
    /// Requests at once.
    pub clients: usize,
}

impl Load {
    /// Bytes in all.
    pub fn bytes(self) -> u64 {
        self.files.saturating_mul(self.size)
    }

    /// The path of a file: a hundred in a directory.
    pub fn path(self, number: u64) -> String {
        format!("/bench/{:04}/{number:08}", number / 100)
    }

    /// All paths.
    pub fn paths(self) -> Vec<String> {
        (0..self.files).map(|number| self.path(number)).collect()
    }
}

/// Bytes that a body consists of.
fn pattern() -> Vec<u8> {
    let mut pattern = vec![0u8; PATTERN_BYTES];
    for (at, chunk) in pattern.chunks_mut(8).enumerate() {
        let word = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
    }
    pattern
}

/// Puts all files and gives how long it took and what the server used.
pub fn put(server: &Server, load: Load) -> Outcome<(f64, f64)> {
    let pattern = pattern();
    timed(server, load, |wire, number| {
        let target = format!("/data{}", load.path(number));
        // The first bytes say which file it is.
        let head = (number + 1).wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        let key = text::random_uuid()?.to_string();
        let reply = wire.put(&target, &key, load.size, &head, &pattern);
        check(&target, reply, |reply| matches!(reply.status, 200 | 201))
    })
}

/// Gets all files.
pub fn get(server: &Server, load: Load) -> Outcome<(f64, f64)> {
    timed(server, load, |wire, number| {
        let target = format!("/data{}", load.path(number));
        let reply = wire.get(&target);
        check(&target, reply, |reply| reply.status == 200 && reply.bytes == load.size)
    })
}

/// Asks about all files.
pub fn stat(server: &Server, load: Load) -> Outcome<(f64, f64)> {
    timed(server, load, |wire, number| {
        let target = format!("/api/v1/stat?path={}", load.path(number));
        let reply = wire.get(&target);
        check(&target, reply, |reply| reply.status == 200)
    })
}

/// Requests nothing but the server's health: the most that its HTTP gives.
pub fn nothing(server: &Server, load: Load) -> Outcome<Row> {
    let (seconds, cpu) =
        timed(server, load, |wire, _| check("/healthz", wire.get("/healthz"), |reply| reply.status == 200))?;
    Ok(Row::operations("empty requests", load.files, 0, seconds).cores(cpu))
}

fn check(target: &str, reply: std::io::Result<Reply>, is_good: impl Fn(&Reply) -> bool) -> Outcome {
    match reply {
        Ok(reply) if is_good(&reply) => Ok(()),
        Ok(reply) => Err(Failure::internal(format!("{target}: {reply:?}"))),
        Err(error) => Err(Failure::internal(format!("{target}: {error}"))),
    }
}

/// Runs `work` for each file's number, with a connection for each client; gives seconds, and processor
/// seconds of the server.
fn timed(
    server: &Server,
    load: Load,
    work: impl Fn(&mut RawConnection, u64) -> Outcome + Sync,
) -> Outcome<(f64, f64)> {
    let next = AtomicUsize::new(0);
    let mut wires = Vec::new();
    for _ in 0..load.clients {
        wires.push(
            RawConnection::connect(&server.client).map_err(|error| Failure::internal(error.to_string()))?,
        );
    }
    let run = |mut wire: RawConnection| -> Outcome {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed) as u64;
            if number >= load.files {
                return Ok(());
            }
            // The first failure ends all.
            work(&mut wire, number).inspect_err(|_| {
                next.store(usize::try_from(load.files).unwrap_or(usize::MAX), Ordering::Relaxed);
            })?;
        }
    };
    let before = cpu::seconds(server.pid());
    let started = Instant::now();
    let results: Vec<Outcome> = std::thread::scope(|scope| {
        let running: Vec<_> = wires.into_iter().map(|wire| scope.spawn(|| run(wire))).collect();
        let failed = || Err(Failure::internal("a client of the measurement panicked"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    results.into_iter().collect::<Outcome>()?;
    Ok((seconds, cpu::seconds(server.pid()) - before))
}
