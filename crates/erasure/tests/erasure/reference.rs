//! The code written a second time, as slowly and plainly as possible, and what the tests feed it with.

use erasure::Codec;

/// Carry-less product of two bytes, reduced by long division.
pub fn mul(a: u8, b: u8) -> u8 {
    let mut wide = 0u16;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            wide ^= u16::from(a) << bit;
        }
    }
    for bit in (8..15).rev() {
        if wide >> bit & 1 == 1 {
            wide ^= 0x11D << (bit - 8);
        }
    }
    u8::try_from(wide).unwrap()
}

/// The inverse by trial.
pub fn inv(a: u8) -> u8 {
    (1..=255).find(|&b| mul(a, b) == 1).unwrap()
}

/// Parity by definition.
pub fn parity(data: &[&[u8]], m: usize) -> Vec<Vec<u8>> {
    let k = data.len();
    (k..k + m).map(|row| weighted_sum(data, |column| inv(byte(row ^ column)))).collect()
}

/// Local and global parity of a locally repairable code by definition.
pub fn lrc_parity(data: &[&[u8]], l: usize, g: usize) -> Vec<Vec<u8>> {
    let k = data.len();
    let group = |shard: usize| (0..l).find(|group| shard < (group + 1) * (k / l) + (group + 1).min(k % l));
    let locals = (0..l).map(|local| weighted_sum(data, |column| u8::from(group(column) == Some(local))));
    let globals = (k + l..k + l + g)
        .map(|row| weighted_sum(data, |column| mul(byte((k + l) ^ column), inv(byte((row + 1) ^ column)))));
    locals.chain(globals).collect()
}

fn byte(value: usize) -> u8 {
    u8::try_from(value).unwrap()
}

fn weighted_sum(data: &[&[u8]], weight: impl Fn(usize) -> u8) -> Vec<u8> {
    let mut sum = vec![0u8; data[0].len()];
    for (column, shard) in data.iter().enumerate() {
        let weight = weight(column);
        let products: Vec<u8> = (0..=255).map(|byte| mul(weight, byte)).collect();
        for (sum, &byte) in sum.iter_mut().zip(*shard) {
            *sum ^= products[usize::from(byte)];
        }
    }
    sum
}

/// `count` shards of reproducible noise.
pub fn noise(count: usize, len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| (0..len).map(|_| next()).collect()).collect()
}

pub fn slices(shards: &[Vec<u8>]) -> Vec<&[u8]> {
    shards.iter().map(Vec::as_slice).collect()
}

/// Encodes into buffers full of other bytes.
pub fn encode(codec: &Codec, data: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0xEE; data[0].len()]; codec.parity_shards()];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    codec.encode(data, &mut outputs).unwrap();
    parity
}

/// Reconstructs `lost` from `present`, each by index in `stripe`, and compares.
pub fn assert_reconstructs(codec: &Codec, stripe: &[Vec<u8>], present: &[usize], lost: &[usize]) {
    let present: Vec<(usize, &[u8])> =
        present.iter().map(|&shard| (shard, stripe[shard].as_slice())).collect();
    let mut found = vec![vec![0xEE; stripe[0].len()]; lost.len()];
    let mut wanted: Vec<(usize, &mut [u8])> =
        lost.iter().copied().zip(found.iter_mut().map(Vec::as_mut_slice)).collect();
    codec.reconstruct(&present, &mut wanted).unwrap();
    for (shard, found) in lost.iter().zip(&found) {
        assert!(
            found == &stripe[*shard],
            "shard {shard} of {codec:?}, lost {lost:?}",
            codec = codec.kernel()
        );
    }
}
