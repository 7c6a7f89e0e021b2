//! Locally repairable codes: what they repair, what they read for it, and that they give the right bytes.

use super::reference;

use base::{Adler32, Crc32c, StreamChecksums};
use erasure::{CodecError, Kernel, Lrc, StreamSums, cells_of};

fn stripe(lrc: &Lrc, length: usize, seed: u64) -> Vec<Vec<u8>> {
    let k = lrc.data_shards();
    let mut stripe = reference::noise(k, length, seed);
    let mut parity = vec![vec![0xEE; length]; lrc.shards() - k];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    lrc.encode(&reference::slices(&stripe), &mut outputs).unwrap();
    stripe.extend(parity);
    stripe
}

/// Reconstructs `wanted` from the shards that the code says it needs, and from no others.
fn assert_repairs(lrc: &Lrc, stripe: &[Vec<u8>], lost: &[usize], wanted: &[usize]) {
    let sources = lrc.repair_sources(lost, wanted).unwrap();
    assert!(sources.iter().all(|shard| !lost.contains(shard)));
    let present: Vec<(usize, &[u8])> =
        sources.iter().rev().map(|&shard| (shard, stripe[shard].as_slice())).collect();
    let mut found = vec![vec![0xEE; stripe[0].len()]; wanted.len()];
    let mut outputs: Vec<(usize, &mut [u8])> =
        wanted.iter().copied().zip(found.iter_mut().map(Vec::as_mut_slice)).collect();
    lrc.reconstruct(&present, &mut outputs).unwrap();
    for (shard, found) in wanted.iter().zip(&found) {
        assert!(found == &stripe[*shard], "shard {shard}, lost {lost:?}");
    }
}

/// Calls `each` with every way to lose `count` of `n` shards.
fn for_each_loss(n: usize, count: usize, mut each: impl FnMut(&[usize])) {
    let mut lost: Vec<usize> = (0..count).collect();
    loop {
        each(&lost);
        let Some(place) = (0..count).rfind(|&place| lost[place] < n - count + place) else { return };
        lost[place] += 1;
        for next in place + 1..count {
            lost[next] = lost[next - 1] + 1;
        }
    }
}

/// Losses that some code of this shape repairs: every group makes good one of its own, global parities the
/// rest.
fn is_possible(lrc: &Lrc, lost: &[usize]) -> bool {
    let beyond: usize = (0..lrc.groups())
        .map(|group| {
            lost.iter().filter(|&&shard| lrc.group_of(shard) == Some(group)).count().saturating_sub(1)
        })
        .sum();
    let globals = lost.iter().filter(|&&shard| lrc.group_of(shard).is_none()).count();
    beyond + globals <= lrc.global_parities()
}

/// For 1, 2, … lost shards: all patterns, those that any code of the shape can repair, and those repaired.
/// Of the most that can be lost only every `step`-th pattern is tried and counted.
fn counts(lrc: &Lrc, step: usize) -> Vec<(usize, usize, usize)> {
    let most = lrc.groups() + lrc.global_parities();
    (1..=most)
        .map(|count| {
            let (mut all, mut possible, mut repaired) = (0, 0, 0);
            let mut number = 0;
            for_each_loss(lrc.shards(), count, |lost| {
                number += 1;
                if count == most && number % step != 0 {
                    return;
                }
                all += 1;
                let (can, could) = (lrc.can_repair(lost), is_possible(lrc, lost));
                assert!(could || !can, "{lost:?} cannot be repaired by any code");
                possible += usize::from(could);
                repaired += usize::from(can);
            });
            (all, possible, repaired)
        })
        .collect()
}

#[test]
fn a_12_2_2_code_repairs_all_that_can_be_repaired() {
    let lrc = Lrc::new(12, 2, 2).unwrap();
    let expected = [(16, 16, 16), (120, 120, 120), (560, 560, 560), (1820, 1568, 1568)];
    assert_eq!(counts(&lrc, 1), expected);
}

/// Of six losses every tenth pattern is tried, with `KIST_ALL_LOSSES=1` (in a hunt) all of them.
#[test]
fn a_24_2_4_code_repairs_five_losses_and_nearly_all_of_six() {
    let lrc = Lrc::new(24, 2, 4).unwrap();
    let is_all = std::env::var("KIST_ALL_LOSSES").is_ok_and(|text| text == "1");
    let found = counts(&lrc, if is_all { 1 } else { 10 });
    let expected = [
        (30, 30, 30),
        (435, 435, 435),
        (4060, 4060, 4060),
        (27_405, 27_405, 27_405),
        (142_506, 142_506, 142_506),
        if is_all { (593_775, 569_023, SIX_OF_24_2_4) } else { (59_377, 56_889, 56_730) },
    ];
    assert_eq!(found, expected);
}

/// Patterns of six losses that a 24+2+4 code repairs.
const SIX_OF_24_2_4: usize = 567_421;

#[test]
fn the_predicate_is_what_repair_does() {
    let lrc = Lrc::new(12, 2, 2).unwrap();
    let stripe = stripe(&lrc, 90, 3);
    let mut refused = 0;
    for count in 1..=4 {
        for_each_loss(16, count, |lost| {
            assert_eq!(lrc.can_repair(lost), lrc.repair_sources(lost, lost).is_some(), "{lost:?}");
            if lrc.can_repair(lost) {
                assert_repairs(&lrc, &stripe, lost, lost);
            } else {
                refused += 1;
            }
        });
    }
    assert_eq!(refused, 1820 - 1568);
}

#[test]
fn one_loss_in_a_group_is_repaired_from_the_group() {
    for (k, l, g) in [(12, 2, 2), (24, 2, 4), (13, 3, 2), (5, 5, 1), (7, 1, 0)] {
        let lrc = Lrc::new(k, l, g).unwrap();
        let stripe = stripe(&lrc, 1000, 5);
        for shard in 0..k + l {
            let group = lrc.group_of(shard);
            // A loss in every other group and of all global parities but one changes nothing.
            let mut lost: Vec<usize> =
                (0..l).filter(|&other| Some(other) != group).map(|other| k + other).collect();
            lost.extend(k + l + 1..k + l + g);
            lost.push(shard);
            let expected: Vec<usize> =
                (0..k + l).filter(|&other| other != shard && lrc.group_of(other) == group).collect();
            assert_eq!(lrc.repair_sources(&lost, &[shard]).unwrap(), expected, "{k}+{l}+{g} shard {shard}");
            assert_repairs(&lrc, &stripe, &lost, &[shard]);
        }
    }
}

#[test]
fn kernels_agree() {
    for (k, l, g) in [(12, 2, 2), (24, 2, 4), (24, 4, 6)] {
        let best = stripe(&Lrc::new(k, l, g).unwrap(), 70_001, 9);
        for kernel in Kernel::available() {
            let lrc = Lrc::with_kernel(k, l, g, kernel).unwrap();
            assert!(stripe(&lrc, 70_001, 9) == best, "{kernel} {k}+{l}+{g}");
            assert_repairs(&lrc, &best, &[0, 1, k + l], &[1, k + l, 0]);
        }
        for group in 0..l {
            let lrc = Lrc::new(k, l, g).unwrap();
            let mut sum = vec![0; 70_001];
            for shard in (0..k).filter(|&shard| lrc.group_of(shard) == Some(group)) {
                sum.iter_mut().zip(&best[shard]).for_each(|(sum, byte)| *sum ^= byte);
            }
            assert!(sum == best[k + group], "the local parity of group {group} is the sum of its data");
        }
    }
}

/// The weights of the first two data shards and the last in the global parities: part of the stripe format.
#[test]
fn global_weights_are_pinned() {
    let lrc = Lrc::new(12, 2, 2).unwrap();
    for column in [0usize, 1, 11] {
        let mut data = vec![vec![0u8; 1]; 12];
        data[column][0] = 1;
        let mut parity = vec![vec![0u8; 1]; 4];
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        lrc.encode(&reference::slices(&data), &mut outputs).unwrap();
        for global in 0..2u8 {
            let column = u8::try_from(column).unwrap();
            let expected = reference::mul(14 ^ column, reference::inv((15 + global) ^ column));
            assert_eq!(parity[2 + usize::from(global)], [expected], "data {column}, global {global}");
        }
    }
}

#[test]
fn wrong_use_is_refused() {
    for (k, l, g) in [(0, 0, 0), (4, 0, 2), (4, 5, 0), (250, 2, 4), (usize::MAX, 1, usize::MAX)] {
        assert!(matches!(Lrc::new(k, l, g), Err(CodecError::UnsupportedShape { .. })), "{k}+{l}+{g}");
    }
    let lrc = Lrc::new(4, 2, 1).unwrap();
    let shard = [1u8; 8];
    let refusal = |present: &[usize], wanted: &[usize]| {
        let present: Vec<(usize, &[u8])> = present.iter().map(|&index| (index, &shard[..])).collect();
        let mut bytes = vec![[0x5Au8; 8]; wanted.len()];
        let mut outputs: Vec<(usize, &mut [u8])> =
            wanted.iter().copied().zip(bytes.iter_mut().map(|bytes| &mut bytes[..])).collect();
        let error = lrc.reconstruct(&present, &mut outputs).unwrap_err();
        assert!(bytes.iter().flatten().all(|&byte| byte == 0x5A), "a refused call wrote");
        error
    };
    assert_eq!(refusal(&[1], &[0]), CodecError::NotRepairable { wanted: 1 });
    assert_eq!(refusal(&[1, 4, 0], &[0]), CodecError::WantedIsPresent { shard: 0 });
    assert_eq!(refusal(&[1, 1], &[0]), CodecError::RepeatedShard { shard: 1 });
    assert_eq!(refusal(&[7], &[0]), CodecError::UnknownShard { shard: 7, shards: 7 });
    assert!(!lrc.can_repair(&[7]));
    assert!(lrc.can_repair(&[]));
}

#[test]
fn checksums_come_with_the_encoding() {
    for (k, l, g, length) in
        [(6, 2, 2, 3 * 65_536 + 100), (12, 2, 2, 65_536), (4, 2, 1, 1), (5, 5, 0, 70_001)]
    {
        let lrc = Lrc::new(k, l, g).unwrap();
        let expected = stripe(&lrc, length, 5);
        let stream: Vec<u8> = expected[..k].concat();
        let mut parity = vec![vec![0xEE; length]; l + g];
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        let mut checksums = vec![Crc32c(7); (k + l + g) * cells_of(length, 65_536)];
        let mut sums = StreamSums {
            adler32: Some(Adler32::of(b"before")),
            crc32c: Some(Crc32c::of(b"before")),
            crc64nvme: None,
        };
        let data = reference::slices(&expected[..k]);
        let of = stream.len() - length / 2;
        lrc.encode_with_stream_sums(&data, &mut outputs, 65_536, &mut checksums, &mut sums, of).unwrap();
        assert_eq!(parity, expected[k..]);
        let cells: Vec<Crc32c> =
            expected.iter().flat_map(|shard| shard.chunks(65_536)).map(Crc32c::of).collect();
        assert_eq!(checksums, cells);
        let all = StreamChecksums::of(&[b"before", &stream[..of]].concat());
        assert_eq!((sums.adler32, sums.crc32c), (Some(all.adler32), Some(all.crc32c)));
    }
}
