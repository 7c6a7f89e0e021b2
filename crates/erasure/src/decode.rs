//! The matrices: parity from data, and lost shards from those that remain.

use crate::field::{inv, mul};

/// The weight of data shard `column` in parity shard `row`, both as indexes in the stripe, as in ISA-L's
/// `gf_gen_cauchy1_matrix`; part of the stripe format.
pub(crate) fn parity_weight(row: usize, column: usize) -> u8 {
    let difference = u8::try_from(row ^ column).expect("a stripe has at most 255 shards");
    inv(difference)
}

/// The rows of all parity shards, `m` rows of `k` weights.
pub(crate) fn encode_rows(data_shards: usize, parity_shards: usize) -> Vec<u8> {
    (data_shards..data_shards + parity_shards)
        .flat_map(|row| (0..data_shards).map(move |column| parity_weight(row, column)))
        .collect()
}

/// One row of `k` weights for each wanted shard, to be applied to the chosen shards in their order.
///
/// `chosen` holds exactly `k` ascending indexes, none of them wanted. Only the lost data shards are solved
/// for, so the system to invert is never larger than the number of chosen parity shards. Costs O(e^3 + e^2 k)
/// for e of them.
pub(crate) fn decode_rows(data_shards: usize, chosen: &[usize], wanted: &[usize]) -> Vec<u8> {
    assert_eq!(chosen.len(), data_shards);
    assert!(chosen.is_sorted());
    let (data, parity) = chosen.split_at(chosen.partition_point(|&shard| shard < data_shards));
    let lost: Vec<usize> = (0..data_shards).filter(|shard| data.binary_search(shard).is_err()).collect();
    let lost_rows = solve(data, parity, &lost);

    let mut rows = Vec::with_capacity(wanted.len() * data_shards);
    for &shard in wanted {
        if shard < data_shards {
            let place = lost.binary_search(&shard).expect("a wanted data shard is not among the chosen");
            rows.extend_from_slice(&lost_rows[place]);
        } else {
            rows.extend(parity_row(shard, data, &lost, &lost_rows));
        }
    }
    rows
}

/// The weights of a parity shard: direct ones on the data at hand, and those of the lost data put in its
/// place.
fn parity_row(shard: usize, data: &[usize], lost: &[usize], lost_rows: &[Vec<u8>]) -> Vec<u8> {
    let mut row: Vec<u8> = data.iter().map(|&column| parity_weight(shard, column)).collect();
    row.resize(data.len() + lost.len(), 0);
    for (&column, lost_row) in lost.iter().zip(lost_rows) {
        add_scaled(&mut row, lost_row, parity_weight(shard, column));
    }
    row
}

/// Each lost data shard as weights over `data` followed by `parity`.
///
/// The parity equations say that the lost data, weighted, equal the parity plus the weighted data at hand.
/// Elimination on the left side turns the right side into the answer.
fn solve(data: &[usize], parity: &[usize], lost: &[usize]) -> Vec<Vec<u8>> {
    assert_eq!(parity.len(), lost.len());
    let size = lost.len();
    let mut left: Vec<Vec<u8>> = Vec::with_capacity(size);
    let mut right: Vec<Vec<u8>> = Vec::with_capacity(size);
    for (equation, &shard) in parity.iter().enumerate() {
        left.push(lost.iter().map(|&column| parity_weight(shard, column)).collect());
        let mut weights: Vec<u8> = data.iter().map(|&column| parity_weight(shard, column)).collect();
        weights.extend((0..size).map(|other| u8::from(other == equation)));
        right.push(weights);
    }
    for step in 0..size {
        // Every minor of a Cauchy matrix is non-zero, so elimination in order never meets a zero pivot.
        let scale = inv(left[step][step]);
        scale_row(&mut left[step], scale);
        scale_row(&mut right[step], scale);
        let (left_pivot, right_pivot) = (left[step].clone(), right[step].clone());
        for other in (0..size).filter(|&other| other != step) {
            let factor = left[other][step];
            add_scaled(&mut left[other], &left_pivot, factor);
            add_scaled(&mut right[other], &right_pivot, factor);
        }
    }
    right
}

pub(crate) fn scale_row(row: &mut [u8], factor: u8) {
    for weight in row {
        *weight = mul(*weight, factor);
    }
}

pub(crate) fn add_scaled(row: &mut [u8], other: &[u8], factor: u8) {
    for (weight, &addend) in row.iter_mut().zip(other) {
        *weight ^= mul(addend, factor);
    }
}
