//! For the fuzz targets: headers of small values and footers of segments.

use base::{BlobId, Crc32c, Uuid};

use crate::record::{RECORD_HEADER_BYTES, RECORD_PAYLOAD_MAX, announced, footer_at_end};

/// A header or a footer as it is, and with a checksum that agrees.
///
/// # Panics
/// If something is announced that cannot be.
pub fn segment(data: &[u8]) {
    let (instance, segment) = (Uuid([7; 16]), BlobId(1 << 40 | 1));
    let check = |bytes: &[u8]| {
        if let Some(record) = announced(bytes, instance, segment, 4096) {
            assert!(record.length as usize <= RECORD_PAYLOAD_MAX);
        }
        if let Some(length) = footer_at_end(bytes, instance, segment) {
            assert!(length <= bytes.len());
        }
    };
    check(data);
    let mut header = data.to_vec();
    header.resize(RECORD_HEADER_BYTES.max(data.len()), 0);
    let crc = Crc32c::of(&header[..RECORD_HEADER_BYTES - 4]);
    header[RECORD_HEADER_BYTES - 4..RECORD_HEADER_BYTES].copy_from_slice(&crc.0.to_le_bytes());
    check(&header);
    if let Some(end) = data.len().checked_sub(4) {
        let mut footer = data.to_vec();
        let crc = Crc32c::of(&footer[..end]);
        footer[end..].copy_from_slice(&crc.0.to_le_bytes());
        check(&footer);
    }
}
