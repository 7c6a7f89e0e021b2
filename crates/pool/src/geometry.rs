//! Where the bytes of a striped blob lie: rows of cells, stripes of rows.

use std::ops::Range;

use base::{BlobDescription, ByteCount, Layout, StripeCode};
use drive::PAGE;

use crate::cell::HEADER_BYTES;

/// The arithmetic of one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) code: StripeCode,
    pub(crate) data: usize,
    pub(crate) parity: usize,
    pub(crate) cell_bytes: usize,
    pub(crate) rows_per_stripe: u64,
}

impl Geometry {
    pub(crate) fn new(code: StripeCode, cell_size: ByteCount, extent_size: ByteCount) -> Self {
        let cell_bytes = usize::try_from(cell_size.0).unwrap_or(usize::MAX);
        let rows_per_stripe = extent_size.0 / (cell_size.0 + HEADER_BYTES as u64);
        assert!(
            code.exists() && cell_bytes.is_multiple_of(PAGE) && rows_per_stripe > 0,
            "such a code, and settings checked at opening"
        );
        Geometry { code, data: code.data.into(), parity: code.parity(), cell_bytes, rows_per_stripe }
    }

    pub(crate) fn width(&self) -> usize {
        self.data + self.parity
    }

    /// File bytes in a full row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.data as u64 * self.cell_bytes as u64
    }

    /// File bytes in a full stripe.
    pub(crate) fn stripe_bytes(&self) -> ByteCount {
        ByteCount(self.row_bytes().saturating_mul(self.rows_per_stripe))
    }

    pub(crate) fn rows(&self, length: u64) -> u64 {
        length.div_ceil(self.row_bytes())
    }

    pub(crate) fn stripes(&self, length: u64) -> u64 {
        self.rows(length).div_ceil(self.rows_per_stripe)
    }

    /// The payload length of each cell of a row that holds `bytes` bytes of the file.
    pub(crate) fn payload(&self, bytes: u64) -> usize {
        let share = bytes.div_ceil(self.data as u64).next_multiple_of(PAGE as u64);
        let payload = usize::try_from(share).unwrap_or(usize::MAX).min(self.cell_bytes);
        assert!(payload.is_multiple_of(PAGE), "cells are written in whole pages");
        assert!(
            payload as u64 * self.data as u64 >= bytes.min(self.row_bytes()),
            "a row has room for its bytes"
        );
        payload
    }

    /// File bytes in a row of a blob of `length` bytes.
    pub(crate) fn bytes_of_row(&self, length: u64, row: u64) -> u64 {
        length.saturating_sub(row * self.row_bytes()).min(self.row_bytes())
    }

    /// File bytes in one cell of a row that holds `bytes`; a parity cell counts as full.
    pub(crate) fn valid(&self, bytes: u64, shard: usize) -> usize {
        let payload = self.payload(bytes);
        if shard >= self.data {
            return payload;
        }
        let before = shard as u64 * payload as u64;
        usize::try_from(bytes.saturating_sub(before)).unwrap_or(usize::MAX).min(payload)
    }

    /// Stripe and row within it.
    pub(crate) fn place(&self, row: u64) -> (u64, u64) {
        (row / self.rows_per_stripe, row % self.rows_per_stripe)
    }

    /// Where a row's cell begins in its extent; all rows before it in a stripe are full.
    pub(crate) fn extent_offset(&self, row_in_stripe: u64) -> u64 {
        row_in_stripe * (HEADER_BYTES + self.cell_bytes) as u64
    }

    /// The length of each extent of a stripe of a blob of `length` bytes.
    pub(crate) fn extent_bytes(&self, length: u64, stripe: u64) -> u64 {
        let first = stripe * self.rows_per_stripe;
        let rows = self.rows(length).saturating_sub(first).min(self.rows_per_stripe);
        let Some(last) = rows.checked_sub(1) else { return 0 };
        let payload = self.payload(self.bytes_of_row(length, first + last));
        let bytes = self.extent_offset(last) + (HEADER_BYTES + payload) as u64;
        assert!(bytes <= self.extent_offset(self.rows_per_stripe), "an extent has no more rows than it may");
        bytes
    }

    /// Whether a description of a striped blob agrees with its layout.
    pub(crate) fn fits(&self, blob: &BlobDescription) -> bool {
        let distinct = |drives: &[base::DriveId]| {
            drives.iter().enumerate().all(|(at, drive)| !drives[..at].contains(drive))
        };
        blob.layout == Layout::Striped { code: self.code }
            && self.stripes(blob.length.0) == blob.stripes.len() as u64
            && blob.stripes.iter().all(|set| set.drives.len() == self.width() && distinct(&set.drives))
    }
}

/// The part of one row that a read wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowPart {
    pub(crate) row: u64,
    /// File bytes in the row.
    pub(crate) bytes: u64,
    /// The wanted bytes within the row.
    pub(crate) wanted: Range<u64>,
}

impl RowPart {
    /// The data cells that hold the wanted bytes.
    pub(crate) fn cells(&self, geometry: &Geometry) -> Range<usize> {
        assert!(
            self.wanted.start < self.wanted.end && self.wanted.end <= self.bytes,
            "bytes of the row are wanted"
        );
        let payload = geometry.payload(self.bytes) as u64;
        let index = |at: u64| usize::try_from(at / payload).unwrap_or(usize::MAX);
        index(self.wanted.start)..index(self.wanted.end - 1) + 1
    }

    /// The wanted bytes of one cell, within its payload.
    pub(crate) fn within(&self, geometry: &Geometry, cell: usize) -> Range<usize> {
        let payload = geometry.payload(self.bytes) as u64;
        let start = cell as u64 * payload;
        let clamp = |at: u64| usize::try_from(at.clamp(start, start + payload) - start).unwrap_or(usize::MAX);
        clamp(self.wanted.start)..clamp(self.wanted.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stripe_of_the_format_has_63_rows() {
        let geometry = Geometry::new(StripeCode::reed_solomon(4, 2), ByteCount::mib(1), ByteCount::mib(64));
        assert_eq!(geometry.rows_per_stripe, 63);
        assert_eq!(geometry.stripes(252 << 20), 1);
        assert_eq!(geometry.stripes((252 << 20) + 1), 2);
        assert_eq!(geometry.payload(1), 4096);
        assert_eq!(geometry.payload(4 << 20), 1 << 20);
        assert_eq!(geometry.payload((4 << 20) - 1), 1 << 20);
        assert_eq!(geometry.extent_bytes((252 << 20) + 1, 1), 8192);
    }

    proptest! {
        #[test]
        fn cells_hold_every_byte_once(data in 1u8..9, length in 0u64..200_000) {
            let code = StripeCode::reed_solomon(data, 2);
            let geometry = Geometry::new(code, ByteCount(8192), ByteCount(50_000));
            let rows = geometry.rows(length);
            let mut total = 0;
            for row in 0..rows {
                let bytes = geometry.bytes_of_row(length, row);
                prop_assert!(bytes > 0);
                total += (0..geometry.data).map(|cell| geometry.valid(bytes, cell) as u64).sum::<u64>();
            }
            prop_assert_eq!(total, length);
        }

        #[test]
        fn parts_of_cells_cover_what_is_wanted(bytes in 1u64..=32_768, a in 0u64..32_768, b in 0u64..32_768) {
            let geometry = Geometry::new(StripeCode::reed_solomon(4, 2), ByteCount(8192), ByteCount(50_000));
            let (start, end) = (a.min(b).min(bytes - 1), (a.max(b) + 1).min(bytes));
            prop_assume!(start < end);
            let part = RowPart { row: 0, bytes, wanted: start..end };
            let sum: usize = part.cells(&geometry).map(|cell| part.within(&geometry, cell).len()).sum();
            prop_assert_eq!(sum as u64, end - start);
        }
    }
}
