//! Records of small values and the footer of a segment. The bytes are in docs/format/pool.md.

use base::planted::{Bug, is_planted};
use base::{BlobId, Crc32c, Uuid};
use drive::PAGE;

use crate::cell::{BLOCK_BYTES, CellDamage, GENERATION, read_u32};

/// Bytes in front of each small value.
pub(crate) const RECORD_HEADER_BYTES: usize = 80;
/// Records begin at multiples of this.
pub(crate) const RECORD_ALIGN: usize = 512;
/// The largest value that four block checksums cover.
pub(crate) const RECORD_PAYLOAD_MAX: usize = 4 * BLOCK_BYTES;

const RECORD_MAGIC: [u8; 8] = *b"KISTSMAL";
const FOOTER_MAGIC: [u8; 8] = *b"KISTSEGF";
const VERSION: u16 = 1;
const CRCS_AT: usize = 56;
const OWN_CRC_AT: usize = 76;
const TRAILER_BYTES: usize = 64;
const _: () = assert!(4 * RECORD_PAYLOAD_MAX / BLOCK_BYTES == 16, "a header has the checksum of each block");
const _: () = assert!(CRCS_AT + 16 <= OWN_CRC_AT && OWN_CRC_AT + 4 == RECORD_HEADER_BYTES);
const _: () = assert!(PAGE.is_multiple_of(RECORD_ALIGN), "no more records touch a page than it has sectors");

/// Where a record is: what its header must say besides its checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordIdentity {
    pub(crate) instance: Uuid,
    pub(crate) segment: BlobId,
    /// Offset of the record in the segment.
    pub(crate) offset: u64,
    /// Bytes of the value.
    pub(crate) length: u32,
}

/// Bytes that a value of `length` takes in a segment.
pub(crate) fn record_bytes(length: usize) -> usize {
    (RECORD_HEADER_BYTES + length).next_multiple_of(RECORD_ALIGN)
}

/// The checksums of a value's blocks, as they stand in its header.
pub(crate) fn block_crcs(value: &[u8]) -> [u8; 16] {
    let mut crcs = [0u8; 16];
    for (block, slot) in value.chunks(BLOCK_BYTES).zip(crcs.chunks_exact_mut(4)) {
        slot.copy_from_slice(&Crc32c::of(block).0.to_le_bytes());
    }
    crcs
}

/// Lays a value and its checksums where its record will be; [`RecordIdentity::seal`] completes the header.
pub(crate) fn lay(record: &mut [u8], value: &[u8], crcs: &[u8; 16]) {
    assert!(value.len() <= RECORD_PAYLOAD_MAX, "a header has the checksum of each block");
    let (header, rest) = record.split_at_mut(RECORD_HEADER_BYTES);
    header.fill(0);
    header[CRCS_AT..CRCS_AT + 16].copy_from_slice(crcs);
    let (payload, padding) = rest.split_at_mut(value.len());
    payload.copy_from_slice(value);
    padding.fill(0);
}

impl RecordIdentity {
    fn encode(&self) -> [u8; CRCS_AT] {
        let mut bytes = [0u8; CRCS_AT];
        bytes[0..8].copy_from_slice(&RECORD_MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&GENERATION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.instance.0);
        bytes[32..40].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.offset.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Completes a header whose checksums are laid.
    pub(crate) fn seal(&self, record: &mut [u8]) {
        record[..CRCS_AT].copy_from_slice(&self.encode());
        let own = Crc32c::of(&record[..OWN_CRC_AT]);
        record[OWN_CRC_AT..RECORD_HEADER_BYTES].copy_from_slice(&own.0.to_le_bytes());
        debug_assert_eq!(
            self.verify(&record[..RECORD_HEADER_BYTES + self.length as usize]),
            Ok(()),
            "a record is read again as it is written"
        );
    }

    /// Checks a record: header and value, without padding.
    pub(crate) fn verify(&self, record: &[u8]) -> Result<(), CellDamage> {
        let Some((header, value)) = record.split_at_checked(RECORD_HEADER_BYTES) else {
            return Err(CellDamage::Header);
        };
        if is_planted(Bug::UncheckedCell) {
            return Ok(());
        }
        let own = Crc32c::of(&header[..OWN_CRC_AT]).0;
        if read_u32(header, OWN_CRC_AT) != own || header[0..8] != RECORD_MAGIC {
            return Err(CellDamage::Header);
        }
        let bound = header[..CRCS_AT] == self.encode() || is_planted(Bug::UnboundCell);
        if !bound || value.len() != self.length as usize {
            return Err(CellDamage::Identity);
        }
        if header[CRCS_AT..CRCS_AT + 16] != block_crcs(value) {
            return Err(CellDamage::Block);
        }
        Ok(())
    }
}

/// The record that a header at `offset` of a segment announces, if its checksum and all else agree.
pub(crate) fn announced(
    header: &[u8],
    instance: Uuid,
    segment: BlobId,
    offset: u64,
) -> Option<RecordIdentity> {
    let header = header.get(..RECORD_HEADER_BYTES)?;
    if header[..8] != RECORD_MAGIC || read_u32(header, OWN_CRC_AT) != Crc32c::of(&header[..OWN_CRC_AT]).0 {
        return None;
    }
    let identity = RecordIdentity { instance, segment, offset, length: read_u32(header, 48) };
    let fits = identity.length as usize <= RECORD_PAYLOAD_MAX;
    (fits && header[..CRCS_AT] == identity.encode()).then_some(identity)
}

/// Bytes of the footer at the end of `tail`, the last bytes of a segment, if there is a whole one.
pub(crate) fn footer_at_end(tail: &[u8], instance: Uuid, segment: BlobId) -> Option<usize> {
    let trailer = tail.get(tail.len().checked_sub(TRAILER_BYTES)?..)?;
    let length = read_u32(trailer, 48) as usize;
    let bytes = tail.get(tail.len().checked_sub(length)?..)?;
    let whole = trailer[..8] == FOOTER_MAGIC
        && trailer[16..32] == instance.0
        && trailer[32..40] == segment.0.to_le_bytes()
        && length.is_multiple_of(PAGE)
        && length >= PAGE
        && read_u32(bytes, length - 4) == Crc32c::of(&bytes[..length - 4]).0;
    whole.then_some(length)
}

/// Bytes of the footer of a segment with `records` records, in whole pages.
pub(crate) fn footer_bytes(records: usize) -> usize {
    (8 * records + TRAILER_BYTES).next_multiple_of(PAGE)
}

/// The footer: offset and length of each record, zeros, and a trailer at the very end of the segment.
pub(crate) fn footer(instance: Uuid, segment: BlobId, offset: u64, records: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(footer_bytes(records.len()));
    for (at, length) in records {
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
    }
    bytes.resize(footer_bytes(records.len()), 0);
    let start = bytes.len() - TRAILER_BYTES;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
    let trailer = &mut bytes[start..];
    trailer[0..8].copy_from_slice(&FOOTER_MAGIC);
    trailer[8..10].copy_from_slice(&VERSION.to_le_bytes());
    trailer[12..16].copy_from_slice(&count.to_le_bytes());
    trailer[16..32].copy_from_slice(&instance.0);
    trailer[32..40].copy_from_slice(&segment.0.to_le_bytes());
    trailer[40..48].copy_from_slice(&offset.to_le_bytes());
    trailer[48..52].copy_from_slice(&length.to_le_bytes());
    let end = bytes.len() - 4;
    let crc = Crc32c::of(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.0.to_le_bytes());
    let again = footer_at_end(&bytes, instance, segment);
    assert_eq!(again, Some(bytes.len()), "a footer is found again as it is written");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: BlobId = BlobId(0x0000_0300_0000_0009);
    const INSTANCE: Uuid = Uuid([0xcd; 16]);

    /// A segment of two values in one batch, and its footer.
    fn segment() -> (Vec<u8>, Vec<RecordIdentity>) {
        let values: [Vec<u8>; 2] =
            [b"a small value".to_vec(), (0..70_000).map(|n| (n % 249) as u8).collect()];
        let mut bytes = Vec::new();
        let mut identities = Vec::new();
        let mut listed = Vec::new();
        for value in &values {
            let (offset, length) = (bytes.len() as u64, value.len() as u32);
            let identity = RecordIdentity { instance: INSTANCE, segment: SEGMENT, offset, length };
            let mut record = vec![0xee; record_bytes(value.len())];
            lay(&mut record, value, &block_crcs(value));
            identity.seal(&mut record);
            bytes.extend(record);
            identities.push(identity);
            listed.push((offset as u32, length));
        }
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        let at = bytes.len() as u64;
        bytes.extend(footer(INSTANCE, SEGMENT, at, &listed));
        (bytes, identities)
    }

    #[test]
    fn golden_segment() {
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/segment-v1.bin");
        assert!(std::fs::read(golden).unwrap() == segment().0, "the format of segments changed");
    }

    #[test]
    fn the_footer_is_found_from_the_end() {
        let (bytes, identities) = segment();
        let trailer = &bytes[bytes.len() - TRAILER_BYTES..];
        let (count, length) = (read_u32(trailer, 12) as usize, read_u32(trailer, 48) as usize);
        let at = read_u32(trailer, 40) as usize;
        assert_eq!((count, at + length), (2, bytes.len()));
        assert_eq!(read_u32(&bytes, bytes.len() - 4), Crc32c::of(&bytes[at..bytes.len() - 4]).0);
        for (n, identity) in identities.iter().enumerate() {
            assert_eq!(u64::from(read_u32(&bytes, at + 8 * n)), identity.offset);
            assert_eq!(read_u32(&bytes, at + 8 * n + 4), identity.length);
        }
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_found() {
        let (bytes, identities) = segment();
        let record = &bytes[..RECORD_HEADER_BYTES + 13];
        assert_eq!(identities[0].verify(record), Ok(()));
        for bit in 0..record.len() * 8 {
            let mut bad = record.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(identities[0].verify(&bad).is_err(), "bit {bit}");
        }
        assert_eq!(identities[1].verify(record), Err(CellDamage::Identity));
    }
}
