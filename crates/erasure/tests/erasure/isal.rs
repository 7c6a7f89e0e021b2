//! Byte for byte what ISA-L computes, for every small shape.

use super::reference;

use erasure::{Codec, Kernel};

// The crate builds and links the library; its own declarations cover compression only.
use isal_sys as _;

unsafe extern "C" {
    fn gf_gen_cauchy1_matrix(matrix: *mut u8, rows: i32, columns: i32);
    fn ec_init_tables(columns: i32, rows: i32, weights: *const u8, tables: *mut u8);
    fn ec_encode_data(
        length: i32,
        columns: i32,
        rows: i32,
        tables: *const u8,
        data: *const *const u8,
        parity: *const *mut u8,
    );
}

fn isal_parity(data: &[&[u8]], m: usize) -> Vec<Vec<u8>> {
    let (k, length) = (data.len(), data[0].len());
    let mut matrix = vec![0u8; (k + m) * k];
    let mut tables = vec![0u8; 32 * k * m];
    let mut parity = vec![vec![0u8; length]; m];
    let sources: Vec<*const u8> = data.iter().map(|shard| shard.as_ptr()).collect();
    let outputs: Vec<*mut u8> = parity.iter_mut().map(|shard| shard.as_mut_ptr()).collect();
    let int = |value: usize| i32::try_from(value).unwrap();
    // SAFETY: the matrix has k + m rows of k weights, the tables 32 bytes for each weight of parity, every
    // shard `length` bytes.
    unsafe {
        gf_gen_cauchy1_matrix(matrix.as_mut_ptr(), int(k + m), int(k));
        ec_init_tables(int(k), int(m), matrix[k * k..].as_ptr(), tables.as_mut_ptr());
        let (sources, outputs) = (sources.as_ptr(), outputs.as_ptr());
        ec_encode_data(int(length), int(k), int(m), tables.as_ptr(), sources, outputs);
    }
    parity
}

#[test]
fn all_shapes_up_to_20_and_6_are_isals() {
    for k in 1..=20 {
        for m in 1..=6 {
            let length = 1000 + 37 * k + 11 * m;
            let data = reference::noise(k, length, (k * 7 + m) as u64);
            let data = reference::slices(&data);
            let expected = isal_parity(&data, m);
            for kernel in Kernel::available() {
                let codec = Codec::with_kernel(k, m, kernel).unwrap();
                assert!(reference::encode(&codec, &data) == expected, "{kernel} {k}+{m}");
            }
        }
    }
}

#[test]
fn wide_codes_in_long_shards_are_isals() {
    for (k, m, length) in [(32, 4, 200_001), (24, 8, 70_000), (50, 20, 33_000), (16, 4, (1 << 20) + 5)] {
        let data = reference::noise(k, length, 5);
        let data = reference::slices(&data);
        let expected = isal_parity(&data, m);
        for kernel in Kernel::available().into_iter().filter(|kernel| *kernel != Kernel::Portable) {
            let codec = Codec::with_kernel(k, m, kernel).unwrap();
            assert!(reference::encode(&codec, &data) == expected, "{kernel} {k}+{m}");
        }
    }
}
