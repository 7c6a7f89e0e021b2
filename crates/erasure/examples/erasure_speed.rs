//! Measures Kist and its peers on the same buffers, round after round in turn, and prints a JSON row for each
//! code, shard size and source.
//!
//! `erasure_speed [PEER…]`: each argument is the program of a peer, see `benches/peers/README.md`. The best
//! of all rounds counts: what else the machine does can only make a round slower.

use erasure::Codec;
use erasure::bench::{Operation, Work};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const CODES: [(usize, usize); 6] = [(4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (32, 4)];
const SHARDS: [usize; 3] = [8 << 10, 128 << 10, 1 << 20];
const OPERATIONS: [Operation; 7] = [
    Operation::Encode,
    Operation::DecodeOne,
    Operation::DecodeAll,
    Operation::EncodeChecked,
    Operation::EncodeThenCheck,
    Operation::Verify,
    Operation::ReadAndWrite,
];
/// More than any cache.
const MEMORY_BYTES: usize = 1 << 30;
/// One round from the cache, and one from memory: short, so that some go by undisturbed.
const CACHE_ROUND: Duration = Duration::from_micros(400);
const MEMORY_ROUND: Duration = Duration::from_millis(4);
const ROUNDS: usize = 120;

struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(program: &str) -> Result<Peer, Box<dyn Error>> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the peer has no pipes".into());
        };
        Ok(Peer { child, requests, answers: BufReader::new(answers) })
    }

    /// GB/s of one round.
    fn round(&mut self, request: &str) -> Result<f64, Box<dyn Error>> {
        writeln!(self.requests, "{request}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let number =
            answer.split("\"gbps\":").nth(1).and_then(|rest| rest.trim().trim_end_matches('}').parse().ok());
        number.ok_or_else(|| format!("the peer answered {answer}").into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut peers =
        std::env::args().skip(1).map(|program| Peer::start(&program)).collect::<Result<Vec<_>, _>>()?;
    let path = format!("/dev/shm/kist-erasure-speed-{}", std::process::id());
    let outcome = measure(&mut peers, &path);
    std::fs::remove_file(&path)?;
    for peer in &mut peers {
        peer.child.kill()?;
        peer.child.wait()?;
    }
    outcome
}

fn measure(peers: &mut [Peer], path: &str) -> Result<(), Box<dyn Error>> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    file.set_len(MEMORY_BYTES as u64)?;
    let buffer = map(&file)?;
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at.wrapping_mul(2_654_435_761) >> 16) as u8;
    }
    for (k, m) in CODES {
        for shard in SHARDS {
            for cached in [true, false] {
                let stripes = if cached { 1 } else { MEMORY_BYTES / ((k + m) * shard) };
                let used = &mut buffer[..stripes * (k + m) * shard];
                for operation in OPERATIONS {
                    row((k, m, shard, cached), operation, used, peers, path)?;
                }
            }
        }
    }
    Ok(())
}

fn row(
    (k, m, shard, cached): (usize, usize, usize, bool),
    operation: Operation,
    buffer: &mut [u8],
    peers: &mut [Peer],
    path: &str,
) -> Result<(), Box<dyn Error>> {
    let time = if cached { CACHE_ROUND } else { MEMORY_ROUND };
    let mut work = Work::new(Codec::new(k, m)?, operation, shard);
    let stripe = work.stripe_bytes();
    let stripes = buffer.len() / stripe;
    let offered = matches!(operation, Operation::Encode | Operation::DecodeOne | Operation::DecodeAll);
    let peers = if offered { peers } else { &mut [] };
    let request = format!("{} {k} {m} {shard} {stripes} 1 {} {path}", operation.name(), time.as_micros());
    let mut best = vec![0.0_f64; 1 + peers.len()];
    let mut at = 0;
    for _ in 0..ROUNDS {
        let (begin, mut done) = (Instant::now(), 0);
        while begin.elapsed() < time {
            done += work.run(&mut buffer[at * stripe..][..stripe])?;
            at = (at + 1) % stripes;
        }
        best[0] = best[0].max(done as f64 / begin.elapsed().as_secs_f64() / 1e9);
        for (peer, best) in peers.iter_mut().zip(&mut best[1..]) {
            *best = best.max(peer.round(&request)?);
        }
    }
    let source = if cached { "cache" } else { "memory" };
    let others: Vec<String> = best[1..].iter().map(|gbps| format!("{gbps:.1}")).collect();
    println!(
        "{{\"code\":\"{k}+{m}\",\"shard\":{shard},\"source\":\"{source}\",\"cores\":1,\"operation\":\"{}\",\
         \"gbps\":{:.1},\"peers\":[{}]}}",
        operation.name(),
        best[0],
        others.join(",")
    );
    Ok(())
}

/// The whole file, shared with the peers.
fn map(file: &File) -> Result<&'static mut [u8], Box<dyn Error>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file of this length, which stays for the life of the process. Peers write to
    // it only while they answer a request, and this process waits meanwhile.
    unsafe {
        let address = mmap(std::ptr::null_mut(), MEMORY_BYTES, access, MapFlags::SHARED, file, 0)?;
        Ok(std::slice::from_raw_parts_mut(address.cast(), MEMORY_BYTES))
    }
}
