//! Every kernel against the plain reference, for any shape, length and alignment.

use super::reference;

use erasure::{Codec, Kernel};
use proptest::prelude::*;

/// Encodes shards that begin `offset` bytes, and a little more each, into their buffers, and looks for stray
/// writes.
fn check_encode(kernel: Kernel, k: usize, m: usize, len: usize, offset: usize, seed: u64) {
    const GUARD: u8 = 0x5A;
    let at = |shard: usize| (offset + shard * 3) % 67;
    let data = reference::noise(k, len + 67, seed);
    let data: Vec<&[u8]> = data.iter().enumerate().map(|(shard, b)| &b[at(shard)..at(shard) + len]).collect();
    let mut buffers = vec![vec![GUARD; len + 2 * 67]; m];
    let mut parity: Vec<&mut [u8]> = buffers
        .iter_mut()
        .enumerate()
        .map(|(shard, buffer)| &mut buffer[at(k + shard)..at(k + shard) + len])
        .collect();
    Codec::with_kernel(k, m, kernel).unwrap().encode(&data, &mut parity).unwrap();

    for (shard, (buffer, expected)) in buffers.iter().zip(reference::parity(&data, m)).enumerate() {
        let (before, rest) = buffer.split_at(at(k + shard));
        let (found, after) = rest.split_at(len);
        assert!(found == expected, "{kernel} {k}+{m}, {len} bytes, offset {offset}, parity {shard}");
        assert!(before.iter().chain(after).all(|&byte| byte == GUARD), "{kernel} wrote outside its shard");
    }
}

/// Lengths: mostly about the width of a vector or a tile, sometimes any.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..300usize,
        4000..4200usize,
        8100..8300usize,
        16_300..16_600usize,
        32_700..33_000usize,
        0..70_000usize,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kernels_agree_with_the_reference(
        k in 1..24usize,
        m in 0..10usize,
        len in lengths(),
        offset in 0..67usize,
        seed: u64,
    ) {
        for kernel in Kernel::available() {
            check_encode(kernel, k, m, len, offset, seed);
        }
    }

    #[test]
    fn long_shards_agree_with_the_reference(
        k in 1..14usize,
        m in 1..8usize,
        len in 0..(2usize << 20),
        offset in 0..67usize,
        seed: u64,
    ) {
        // The plain reference and the portable kernel take a second for a stripe of this size.
        let len = len / k;
        check_encode(Kernel::best(), k, m, len, offset, seed);
    }

    #[test]
    fn reconstruction_gives_back_what_was_lost(
        k in 1..20usize,
        m in 1..10usize,
        len in 0..5000usize,
        seed: u64,
        order in Just((0..29usize).collect::<Vec<_>>()).prop_shuffle(),
        wanted_count in 0..10usize,
        kept_count in 0..10usize,
    ) {
        let stripe = stripe(k, m, len, seed);
        let order: Vec<usize> = order.into_iter().filter(|&shard| shard < k + m).collect();
        let (present, lost) = order.split_at(k + kept_count % m);
        let wanted = &lost[..wanted_count.min(lost.len())];
        for kernel in Kernel::available() {
            let codec = Codec::with_kernel(k, m, kernel).unwrap();
            reference::assert_reconstructs(&codec, &stripe, present, wanted);
        }
    }
}

fn stripe(k: usize, m: usize, len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut stripe = reference::noise(k, len, seed);
    stripe.extend(reference::parity(&reference::slices(&stripe), m));
    stripe
}

#[test]
fn every_short_length_is_right() {
    for kernel in Kernel::available() {
        for len in 0..300 {
            check_encode(kernel, 5, 6, len, len % 67, 7);
        }
    }
}

#[test]
fn the_widest_codes_work() {
    for kernel in Kernel::available() {
        for (k, m) in [(1, 254), (127, 128), (254, 1), (255, 0)] {
            check_encode(kernel, k, m, 200, 1, 11);
        }
        let codec = Codec::with_kernel(127, 128, kernel).unwrap();
        let parity: Vec<usize> = (127..255).collect();
        let data: Vec<usize> = (0..127).collect();
        reference::assert_reconstructs(&codec, &stripe(127, 128, 70, 13), &parity, &data);
    }
}

/// All ways to lose 1 to `m` shards of a stripe, with everything else present.
fn check_all_losses(k: usize, m: usize) {
    let stripe = stripe(k, m, 150, 17);
    let mut patterns = 0;
    for pattern in 1u32..1 << (k + m) {
        if pattern.count_ones() as usize > m {
            continue;
        }
        let (lost, present): (Vec<usize>, Vec<usize>) =
            (0..k + m).partition(|shard| pattern >> shard & 1 == 1);
        for kernel in Kernel::available() {
            let codec = Codec::with_kernel(k, m, kernel).unwrap();
            reference::assert_reconstructs(&codec, &stripe, &present, &lost);
        }
        patterns += 1;
    }
    let expected: usize = (1..=m).map(|lost| choose(k + m, lost)).sum();
    assert_eq!(patterns, expected);
}

fn choose(n: usize, r: usize) -> usize {
    (0..r).fold(1, |product, step| product * (n - step) / (step + 1))
}

#[test]
fn all_losses_of_4_2_are_repaired() {
    check_all_losses(4, 2);
}

#[test]
fn all_losses_of_10_2_are_repaired() {
    check_all_losses(10, 2);
}

#[test]
fn all_losses_of_12_4_are_repaired() {
    check_all_losses(12, 4);
}
