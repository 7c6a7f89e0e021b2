//! Checksums that are computed while coding, against checksums computed afterwards.

use super::reference;

use base::{Adler32, Crc32c};
use erasure::{Codec, CodecError, Kernel, cells_of, find_bad_cell};
use proptest::prelude::*;

fn check(kernel: Kernel, k: usize, m: usize, length: usize, cell: usize, seed: u64) {
    let data = reference::noise(k, length, seed);
    let data = reference::slices(&data);
    let codec = Codec::with_kernel(k, m, kernel).unwrap();
    let cells = cells_of(length, cell);
    let mut parity = vec![vec![0xEE; length]; m];
    // What the places held before must not matter.
    let mut checksums = vec![Crc32c(7); cells * (k + m)];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    let adler = codec.encode_with_stream_checksum(&data, &mut outputs, cell, &mut checksums).unwrap();
    let mut plain = vec![Crc32c(7); cells * (k + m)];
    codec.encode_with_checksums(&data, &mut outputs, cell, &mut plain).unwrap();

    assert!(plain == checksums);
    assert!(parity == reference::encode(&codec, &data), "{kernel} {k}+{m}, {length} bytes");
    assert_eq!(adler, Adler32::of(&data.concat()), "{kernel} {k}+{m}, {length} bytes");
    let shards = data.iter().copied().chain(parity.iter().map(Vec::as_slice));
    for (shard, bytes) in shards.enumerate() {
        let found = &checksums[shard * cells..(shard + 1) * cells];
        let expected: Vec<Crc32c> = bytes.chunks(cell).map(Crc32c::of).collect();
        assert_eq!(found, expected, "{kernel} {k}+{m}, {length} bytes, cells of {cell}, shard {shard}");
        assert_eq!(find_bad_cell(bytes, cell, found), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn checksums_are_those_of_the_cells(
        k in 1..20usize,
        m in 0..9usize,
        length in prop_oneof![0..400usize, 16_000..17_000usize, 60_000..70_000usize, 0..200_000usize],
        cell in prop_oneof![Just(65_536usize), Just(4096usize), 300..50_000usize],
        seed: u64,
    ) {
        for kernel in Kernel::available().into_iter().filter(|kernel| *kernel != Kernel::Portable) {
            check(kernel, k, m, length, cell, seed);
        }
        check(Kernel::Portable, k, m, length.min(3000), cell, seed);
    }
}

#[test]
fn a_bad_cell_is_found() {
    let mut shard = reference::noise(1, 300_000, 3).remove(0);
    let mut expected: Vec<Crc32c> = shard.chunks(65_536).map(Crc32c::of).collect();
    shard[2 * 65_536 + 17] ^= 1;
    assert_eq!(find_bad_cell(&shard, 65_536, &expected), Some(2));
    assert_eq!(find_bad_cell(&shard[..131_072], 65_536, &expected), Some(2), "a cell is missing");
    expected.truncate(2);
    assert_eq!(find_bad_cell(&shard, 65_536, &expected), Some(2), "a cell is not known");
}

#[test]
fn places_for_checksums_must_fit() {
    let codec = Codec::new(2, 1).unwrap();
    let shard = [1u8; 100];
    let mut parity = [0x5Au8; 100];
    let mut encode = |cell, places| {
        let mut checksums = vec![Crc32c(7); places];
        let result = codec.encode_with_checksums(&[&shard, &shard], &mut [&mut parity], cell, &mut checksums);
        assert!(checksums.iter().all(|checksum| *checksum == Crc32c(7)), "a refused call wrote");
        result
    };
    assert_eq!(encode(0, 6), Err(CodecError::EmptyCell));
    assert_eq!(encode(50, 5), Err(CodecError::ChecksumCount { expected: 6, given: 5 }));
    assert_eq!(parity, [0x5A; 100]);
}
