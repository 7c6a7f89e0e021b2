//! Requests over HTTP, without hashing at the client: the server is what is measured.

use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::cpu;
use super::rows::Row;
use crate::child::Server;
use crate::client::{Client, retry};
use crate::failure::{Failure, Outcome};
use crate::parallel;
use crate::text;
use crate::transfer::Tally;

/// Bytes that a body repeats: different in every 64 KiB, so that nothing is the same twice by chance.
const PATTERN_BYTES: usize = 4 << 20;

/// A body of pattern bytes; its first eight say which file it is.
struct Pattern<'a> {
    pattern: &'a [u8],
    head: [u8; 8],
    at: u64,
    length: u64,
}

impl Read for Pattern<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.length - self.at).unwrap_or(usize::MAX);
        let from: &[u8] = match self.head.get(self.at as usize..).filter(|_| self.at < 8) {
            Some(rest) => rest,
            None => self.pattern.get((self.at % self.pattern.len() as u64) as usize..).unwrap_or_default(),
        };
        let count = from.len().min(buffer.len()).min(left);
        buffer.get_mut(..count).unwrap_or_default().copy_from_slice(from.get(..count).unwrap_or_default());
        self.at += count as u64;
        Ok(count)
    }
}

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
        self.files * self.size
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

/// Puts all files and gives how long it took and what the server used.
pub fn put(server: &Server, load: Load) -> Outcome<(f64, f64)> {
    let mut pattern = vec![0u8; PATTERN_BYTES];
    for (at, chunk) in pattern.chunks_mut(8).enumerate() {
        let word = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
    }
    let numbers: Vec<u64> = (0..load.files).collect();
    timed(server, &numbers, load.clients, |client, number| {
        let target = format!("/data{}", load.path(*number));
        let headers = [("idempotency-key", text::random_uuid()?.to_string())];
        let mut response = retry(|_| {
            let head = (number + 1).wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
            let mut body = Pattern { pattern: &pattern, head, at: 0, length: load.size };
            client.send_put(&target, &headers, Some(load.size), &mut body)
        })?;
        response.body_mut().read_to_vec().map(drop).map_err(|error| Failure::internal(error.to_string()))
    })
}

/// Gets all files.
pub fn get(server: &Server, load: Load) -> Outcome<(f64, f64)> {
    timed(server, &load.paths(), load.clients, |client, path| {
        let response = retry(|_| client.send_get(&format!("/data{path}"), &[]))?;
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0u8; 1 << 20];
        let mut bytes = 0u64;
        loop {
            match reader.read(&mut buffer).map_err(|error| Failure::internal(format!("{path}: {error}")))? {
                0 => break,
                count => bytes += count as u64,
            }
        }
        if bytes == load.size {
            Ok(())
        } else {
            Err(Failure::internal(format!("{path}: {bytes} bytes came")))
        }
    })
}

/// Asks about all files.
pub fn stat(server: &Server, load: Load) -> Outcome<(f64, f64)> {
    timed(server, &load.paths(), load.clients, |client, path| client.stat(path).map(drop))
}

/// Requests nothing but the server's health: the most that its HTTP gives.
pub fn nothing(server: &Server, load: Load) -> Outcome<Row> {
    let (seconds, cpu) = timed(server, &load.paths(), load.clients, |client, _| {
        let mut response = retry(|_| client.send_get("/healthz", &[]))?;
        response.body_mut().read_to_vec().map(drop).map_err(|error| Failure::internal(error.to_string()))
    })?;
    Ok(Row::operations("empty requests", load.files, 0, seconds).cores(cpu))
}

/// Runs `work` over all items; gives seconds, and processor seconds of the server.
fn timed<T: Sync>(
    server: &Server,
    items: &[T],
    clients: usize,
    work: impl Fn(&Client, &T) -> Outcome + Sync,
) -> Outcome<(f64, f64)> {
    let tally = Tally::default();
    let before = cpu::seconds(server.pid());
    let started = Instant::now();
    parallel::each(items, clients, &tally.stop, |item| {
        if let Err(failure) = work(&server.client, item) {
            tally.stop.store(true, Ordering::Relaxed);
            tally.add_failure("bench", failure);
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    tally.outcome(items.len())?;
    Ok((seconds, cpu::seconds(server.pid()) - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_their_length_and_differ() {
        let pattern: Vec<u8> = (0..100u8).collect();
        let read = |head: u64, length| {
            let mut bytes = Vec::new();
            let head = head.to_le_bytes();
            Pattern { pattern: &pattern, head, at: 0, length }.read_to_end(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(read(1, 250).len(), 250);
        assert_eq!(read(1, 3).len(), 3);
        assert_eq!(read(1, 0).len(), 0);
        assert_ne!(read(1, 250), read(2, 250));
        assert_eq!(read(1, 250)[8..100], pattern[8..100]);
    }
}
