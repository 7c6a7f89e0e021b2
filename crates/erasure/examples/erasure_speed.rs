//! Prints the encoding speed of every kernel in GB (10^9 bytes) of data per second, parity not counted.
//!
//! `cache` encodes one stripe again and again; `memory` goes round a set of stripes larger than any cache.

use erasure::{Codec, CodecError, Kernel};
use std::time::{Duration, Instant};

const MEMORY_SET_BYTES: usize = 256 << 20;
const ROUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 5;

fn main() -> Result<(), CodecError> {
    println!("{:<12} {:>5} {:>9} {:>7} {:>10}", "kernel", "code", "shard KiB", "cache", "memory");
    for kernel in Kernel::available() {
        for (k, m) in [(4, 2), (8, 2), (12, 4)] {
            for shard_kib in [64, 1024] {
                let codec = Codec::with_kernel(k, m, kernel)?;
                let bytes = shard_kib << 10;
                let cache = speed(&codec, bytes, 1)?;
                let memory = speed(&codec, bytes, MEMORY_SET_BYTES / (bytes * (k + m)))?;
                println!("{kernel:<12} {:>5} {shard_kib:>9} {cache:>7.1} {memory:>10.1}", format!("{k}+{m}"));
            }
        }
    }
    Ok(())
}

/// The best of several rounds over `stripes` stripes.
fn speed(codec: &Codec, shard_bytes: usize, stripes: usize) -> Result<f64, CodecError> {
    let (k, m) = (codec.data_shards(), codec.parity_shards());
    let mut buffer: Vec<u8> =
        (0..stripes * (k + m) * shard_bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 16) as u8).collect();
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let (begin, mut encoded) = (Instant::now(), 0);
        while begin.elapsed() < ROUND {
            for stripe in buffer.chunks_exact_mut((k + m) * shard_bytes) {
                let (data, parity) = stripe.split_at_mut(k * shard_bytes);
                let data: Vec<&[u8]> = data.chunks_exact(shard_bytes).collect();
                let mut parity: Vec<&mut [u8]> = parity.chunks_exact_mut(shard_bytes).collect();
                codec.encode(&data, &mut parity)?;
                encoded += k * shard_bytes;
            }
        }
        best = best.max(encoded as f64 / begin.elapsed().as_secs_f64() / 1e9);
    }
    Ok(best)
}
