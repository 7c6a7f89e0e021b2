//! Checksums that are computed while coding, against checksums computed afterwards.

use super::reference;

use base::{Adler32, Crc32c, Crc64};
use erasure::{Codec, CodecError, Kernel, StreamSums, cells_of, find_bad_cell};
use proptest::prelude::*;

/// All checksums of a stream that has come as far as `bytes`.
fn sums(bytes: &[u8]) -> StreamSums {
    let (adler32, crc32c, crc64nvme) = (Adler32::of(bytes), Crc32c::of(bytes), Crc64::of(bytes));
    StreamSums { adler32: Some(adler32), crc32c: Some(crc32c), crc64nvme: Some(crc64nvme) }
}

fn check(kernel: Kernel, k: usize, m: usize, length: usize, cell: usize, seed: u64) {
    let data = reference::noise(k, length, seed);
    let data = reference::slices(&data);
    let codec = Codec::with_kernel(k, m, kernel).unwrap();
    let cells = cells_of(length, cell);
    let mut parity = vec![vec![0xEE; length]; m];
    // What the places held before must not matter.
    let mut checksums = vec![Crc32c(7); cells * (k + m)];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    // The stream began before the stripe and ends anywhere in it.
    let stream_bytes = seed as usize % (k * length + 1);
    let mut stream = sums(b"before");
    let before = StreamSums { adler32: None, ..stream };
    codec
        .encode_with_stream_sums(&data, &mut outputs, cell, &mut checksums, &mut stream, stream_bytes)
        .unwrap();
    let mut plain = vec![Crc32c(7); cells * (k + m)];
    codec.encode_with_checksums(&data, &mut outputs, cell, &mut plain).unwrap();
    assert!(plain == checksums);
    let whole = [b"before", &data.concat()[..stream_bytes]].concat();
    assert_eq!(stream, sums(&whole), "{kernel} {k}+{m}, {length} bytes, {stream_bytes} of stream");
    let mut some = before;
    codec.encode_with_stream_sums(&data, &mut outputs, cell, &mut plain, &mut some, stream_bytes).unwrap();
    assert_eq!(some, StreamSums { adler32: None, ..stream }, "what is not wanted is not there");

    assert!(parity == reference::encode(&codec, &data), "{kernel} {k}+{m}, {length} bytes");
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

#[test]
fn a_stream_longer_than_the_data_is_refused() {
    let codec = Codec::new(2, 1).unwrap();
    let (shard, mut parity, mut checksums) = ([1u8; 100], [0x5Au8; 100], [Crc32c(7); 3]);
    let mut stream = sums(b"before");
    let mut outputs: [&mut [u8]; 1] = [&mut parity];
    let data: [&[u8]; 2] = [&shard, &shard];
    let refused = codec.encode_with_stream_sums(&data, &mut outputs, 100, &mut checksums, &mut stream, 201);
    assert_eq!(refused, Err(CodecError::StreamTooLong { given: 201, at_most: 200 }));
    assert_eq!((parity, checksums, stream), ([0x5A; 100], [Crc32c(7); 3], sums(b"before")));
}
