//! What must never change: the parity bytes of the stripe format.

use super::reference;

use erasure::{Codec, Kernel};

/// Weights as printed by `gf_gen_cauchy1_matrix` of ISA-L 2.30.
const ISAL_12_4: [[u8; 12]; 4] = [
    [0x3d, 0xaa, 0x5d, 0x96, 0xad, 0x9d, 0xdd, 0x98, 0x47, 0xa7, 0x7a, 0xba],
    [0xaa, 0x3d, 0x96, 0x5d, 0x9d, 0xad, 0x98, 0xdd, 0xa7, 0x47, 0xba, 0x7a],
    [0x5d, 0x96, 0x3d, 0xaa, 0xdd, 0x98, 0xad, 0x9d, 0x7a, 0xba, 0x47, 0xa7],
    [0x96, 0x5d, 0xaa, 0x3d, 0x98, 0xdd, 0x9d, 0xad, 0xba, 0x7a, 0xa7, 0x47],
];

/// Parity of [`fixed_input`] as computed by `ec_encode_data_base` of ISA-L 2.30.
const ISAL_4_2_PARITY: [[u8; 16]; 2] = [
    [0x77, 0xaf, 0xac, 0xa2, 0x36, 0x13, 0x10, 0xb5, 0xf1, 0x4e, 0x6f, 0x88, 0x49, 0x37, 0xa4, 0xe5],
    [0xa3, 0xcf, 0x8d, 0x6b, 0x74, 0xdd, 0xf6, 0x8d, 0x87, 0x7b, 0xe8, 0x80, 0x73, 0x5f, 0x13, 0xa9],
];

/// Code, shard length in bytes, and FNV-1a of each parity shard of [`fixed_input`] as ISA-L 2.30 computed it.
const ISAL_DIGESTS: [(usize, usize, &[u64]); 4] = [
    (4, 65536, &[0x8367355dba9f2605, 0xecd023728ff3d1e5]),
    (12, 65536, &[0x0d1c506ef2eebdf5, 0x7303bff61fcad3f5, 0x4b080a33abe0dd15, 0xeab39b063291f235]),
    (10, 1000, &[0x577c3a8624d4eb44, 0x22ed03a2e8ad573a]),
    (16, 1000, &[0x0a756fd63dd9c9dc, 0x9b8728d6bfe3db66, 0x90de4d834b560cf8, 0x0e2d5123eef03bb4]),
];

fn fixed_input(k: usize, len: usize) -> Vec<Vec<u8>> {
    let byte = |shard: usize, at: usize| (at * 7 + shard * 37 + (at >> 8) * 11) as u8;
    (0..k).map(|shard| (0..len).map(|at| byte(shard, at)).collect()).collect()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn the_parity_of_a_4_2_stripe_is_pinned() {
    for kernel in Kernel::available() {
        let codec = Codec::with_kernel(4, 2, kernel).unwrap();
        let parity = reference::encode(&codec, &reference::slices(&fixed_input(4, 16)));
        assert_eq!(parity, ISAL_4_2_PARITY, "{kernel}");
    }
}

#[test]
fn parity_is_what_isal_computes() {
    for kernel in Kernel::available() {
        for (k, len, digests) in ISAL_DIGESTS {
            let codec = Codec::with_kernel(k, digests.len(), kernel).unwrap();
            let parity = reference::encode(&codec, &reference::slices(&fixed_input(k, len)));
            let found: Vec<u64> = parity.iter().map(|shard| fnv1a(shard)).collect();
            assert_eq!(found, digests, "{kernel} {k}+{}", digests.len());
        }
    }
}

/// The weight of data shard `column` in parity `row` is what a 1 in that shard alone gives.
fn weights(codec: &Codec) -> Vec<Vec<u8>> {
    let k = codec.data_shards();
    let identity: Vec<Vec<u8>> =
        (0..k).map(|shard| (0..k).map(|at| u8::from(at == shard)).collect()).collect();
    reference::encode(codec, &reference::slices(&identity))
}

#[test]
fn the_matrix_is_the_cauchy_matrix() {
    assert_eq!(weights(&Codec::new(12, 4).unwrap()), ISAL_12_4);
    for (k, m) in [(1, 1), (1, 254), (4, 2), (10, 2), (16, 4), (32, 4), (100, 5), (127, 128), (254, 1)] {
        let found = weights(&Codec::new(k, m).unwrap());
        for (row, found) in found.iter().enumerate() {
            for (column, &weight) in found.iter().enumerate() {
                let difference = u8::try_from((k + row) ^ column).unwrap();
                assert_eq!(reference::mul(weight, difference), 1, "{k}+{m} row {row} column {column}");
            }
        }
    }
}
