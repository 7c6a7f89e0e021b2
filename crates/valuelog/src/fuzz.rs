//! For the fuzz targets: records, tables, pages at the ends of segments, superblocks.

use base::{Crc32c, Uuid};
use drive::PAGE;

use crate::record::Header;
use crate::recover_segment::{Uses, scan_bytes};
use crate::segment::{Mark, State, Table, parse_table};
use crate::superblock::Superblock;

const STORE: Uuid = Uuid([7; 16]);

/// A record as it is, and with a checksum that agrees; and the segment that begins with it.
///
/// # Panics
/// If what is read is not what is written.
pub fn record(data: &[u8]) {
    let mut data = data.to_vec();
    let _ = Header::parse(&data);
    // Lengths first, so that the checksum covers what the header claims.
    for _ in 0..2 {
        if let Some((header, _)) = Header::parse(&data) {
            let mut written = vec![0; header.bytes()];
            header.encode(&mut written);
            assert!(data.starts_with(&written), "{header:?}");
            assert!(header.value_at() <= header.end());
        }
        seal(&mut data);
    }
    let mut segment = vec![0; PAGE];
    segment.extend_from_slice(&data);
    for found in [Uses::This(5), Uses::Above(0)] {
        scan_bytes(&segment, STORE, 3, &found);
    }
}

/// Makes the checksum of a record agree, if it claims no more than there is.
fn seal(data: &mut [u8]) {
    let length =
        |at: usize| data.get(at..at + 2).map_or(0, |two| usize::from(two[0]) | usize::from(two[1]) << 8);
    let value = length(20) | length(22) << 16;
    let bytes = 96 + length(10) + length(12) + length(14) + 4 * value.div_ceil(crate::BLOCK_BYTES);
    if let Some(whole) = data.get_mut(..bytes) {
        whole[92..96].fill(0);
        let own = Crc32c::of(whole);
        whole[92..96].copy_from_slice(&own.0.to_le_bytes());
    }
}

/// The table of a segment, with a checksum that agrees.
///
/// # Panics
/// If what is read is not what is written.
pub fn table(data: &[u8]) {
    let (count, data) = data.split_first().map_or((0, data), |(count, rest)| (*count, rest));
    let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let table = Table { offset: 0, bytes, count: u32::from(count), checksum: Crc32c::of(data) };
    if let Some(entries) = parse_table(data, table, 1 << 20) {
        let mut written = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut written));
        let described = Table { checksum: Crc32c::of(&written), ..table };
        assert!(parse_table(&written, described, 1 << 20) == Some(entries));
    }
}

/// A superblock, and a page at the end of a segment, with checksums that agree.
///
/// # Panics
/// If what is read is not what is written.
pub fn pages(data: &[u8]) {
    let mut page = data.to_vec();
    page.resize(PAGE, 0);
    let own = Crc32c::of(&page[..PAGE - 4]);
    page[PAGE - 4..].copy_from_slice(&own.0.to_le_bytes());
    let mut written = vec![0; PAGE];
    if let Ok(superblock) = Superblock::parse(&page) {
        superblock.encode(&mut written);
        assert!(Superblock::parse(&written) == Ok(superblock), "{superblock:?}");
    }
    if let Some(mark) = Mark::parse_any(&page) {
        mark.encode(&mut written);
        assert!(Mark::parse_any(&written) == Some(mark), "{mark:?}");
        if let State::Sealed(described) = mark.state {
            assert!(described.count <= described.bytes || parse_table(&[], described, 1 << 20).is_none());
        }
    }
}
