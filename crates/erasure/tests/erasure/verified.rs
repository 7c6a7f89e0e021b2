//! Reconstruction that verifies what it reads.

use super::reference;

use base::Crc32c;
use erasure::{Codec, CodecError, Kernel, cells_of};
use proptest::prelude::*;

/// Reconstructed shards, and the checksums of their cells.
type Found = (Vec<Vec<u8>>, Vec<Vec<Crc32c>>);

/// A stripe and the checksums of its cells, shard by shard.
struct Stripe {
    shards: Vec<Vec<u8>>,
    checksums: Vec<Vec<Crc32c>>,
    cell: usize,
}

impl Stripe {
    fn new(k: usize, m: usize, length: usize, cell: usize, seed: u64) -> Stripe {
        let mut shards = reference::noise(k, length, seed);
        shards.extend(reference::parity(&reference::slices(&shards), m));
        let checksums = shards.iter().map(|shard| shard.chunks(cell).map(Crc32c::of).collect()).collect();
        Stripe { shards, checksums, cell }
    }

    /// Reconstructs `lost` from `present`; bytes and checksums of the lost shards.
    fn reconstruct(&self, codec: &Codec, present: &[usize], lost: &[usize]) -> Result<Found, CodecError> {
        let present: Vec<(usize, &[u8], &[Crc32c])> =
            present.iter().map(|&at| (at, &self.shards[at][..], &self.checksums[at][..])).collect();
        let length = self.shards[0].len();
        let mut found = vec![vec![0xEE; length]; lost.len()];
        let mut sums = vec![vec![Crc32c(7); cells_of(length, self.cell)]; lost.len()];
        let mut wanted: Vec<(usize, &mut [u8], &mut [Crc32c])> = lost
            .iter()
            .zip(found.iter_mut().zip(&mut sums))
            .map(|(&at, (found, sums))| (at, &mut found[..], &mut sums[..]))
            .collect();
        codec.reconstruct_verified(&present, &mut wanted, self.cell)?;
        Ok((found, sums))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_cells_give_good_shards_and_a_bad_one_is_named(
        k in 1..20usize,
        m in 1..8usize,
        length in prop_oneof![0..400usize, 16_000..17_000usize, 0..140_000usize],
        cell in prop_oneof![Just(65_536usize), Just(16_384usize), 300..50_000usize],
        order in Just((0..27usize).collect::<Vec<_>>()).prop_shuffle(),
        wanted_count in 1..8usize,
        kept_count in 0..8usize,
        bad: (prop::sample::Index, prop::sample::Index, prop::sample::Index),
        seed: u64,
    ) {
        let mut stripe = Stripe::new(k, m, length, cell, seed);
        let order: Vec<usize> = order.into_iter().filter(|&shard| shard < k + m).collect();
        let (present, lost) = order.split_at(k + kept_count % m);
        let lost = &lost[..wanted_count.min(lost.len())];
        for kernel in Kernel::available() {
            let codec = Codec::with_kernel(k, m, kernel).unwrap();
            let (found, sums) = stripe.reconstruct(&codec, present, lost).unwrap();
            for (place, &shard) in lost.iter().enumerate() {
                prop_assert!(found[place] == stripe.shards[shard], "{kernel} {k}+{m}, shard {shard}");
                prop_assert_eq!(&sums[place], &stripe.checksums[shard]);
            }
        }
        if length > 0 && !lost.is_empty() {
            let mut read = present.to_vec();
            read.sort_unstable();
            let shard = read[bad.0.index(k)];
            let at = bad.1.index(length);
            stripe.shards[shard][at] ^= 1 << bad.2.index(8);
            for kernel in Kernel::available() {
                let codec = Codec::with_kernel(k, m, kernel).unwrap();
                let refused = stripe.reconstruct(&codec, present, lost).unwrap_err();
                prop_assert_eq!(refused, CodecError::BadCell { shard, cell: at / cell });
            }
        }
    }
}

#[test]
fn shards_that_are_not_read_are_not_checked() {
    let mut stripe = Stripe::new(4, 2, 1000, 300, 3);
    let codec = Codec::new(4, 2).unwrap();
    stripe.shards[5][0] ^= 1;
    assert!(stripe.reconstruct(&codec, &[5, 4, 3, 2, 1], &[0]).is_ok());
    stripe.shards[4][999] ^= 1;
    stripe.shards[3][999] ^= 1;
    stripe.shards[3][301] ^= 1;
    let first = CodecError::BadCell { shard: 3, cell: 1 };
    assert_eq!(stripe.reconstruct(&codec, &[5, 4, 3, 2, 1], &[0]), Err(first));
    assert_eq!(stripe.reconstruct(&codec, &[5, 4, 3, 2, 1], &[]), Ok((vec![], vec![])));
}

#[test]
fn wrong_use_is_refused_before_anything_is_written() {
    let stripe = Stripe::new(2, 1, 100, 50, 5);
    let codec = Codec::new(2, 1).unwrap();
    let (shard, sums) = (&stripe.shards[1][..], &stripe.checksums[1][..]);
    let parity = (2, &stripe.shards[2][..], &stripe.checksums[2][..]);
    let refusal = |present: &[(usize, &[u8], &[Crc32c])], lost: usize, places: usize, cell: usize| {
        let (mut bytes, mut found) = ([0x5Au8; 100], vec![Crc32c(7); places]);
        let refused = codec.reconstruct_verified(present, &mut [(lost, &mut bytes, &mut found)], cell);
        assert!(bytes == [0x5A; 100] && found.iter().all(|sum| *sum == Crc32c(7)), "a refused call wrote");
        refused.unwrap_err()
    };
    let wrong = CodecError::ChecksumCount { expected: 2, given: 1 };
    assert_eq!(refusal(&[(1, shard, &sums[..1]), parity], 0, 2, 50), wrong);
    assert_eq!(refusal(&[(1, shard, sums), parity], 0, 1, 50), wrong);
    assert_eq!(refusal(&[(1, shard, sums), parity], 0, 2, 0), CodecError::EmptyCell);
    let too_few = CodecError::TooFewPresent { present: 1, needed: 2 };
    assert_eq!(refusal(&[parity], 0, 2, 50), too_few);
    assert_eq!(refusal(&[(1, shard, sums), parity], 2, 2, 50), CodecError::WantedIsPresent { shard: 2 });
}
