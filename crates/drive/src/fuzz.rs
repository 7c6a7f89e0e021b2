//! For the fuzz targets: superblocks.

use base::Crc32c;

use crate::object::PAGE;
use crate::superblock::{decode, encode};

/// A superblock as it is, and as a page with a checksum that agrees.
///
/// # Panics
/// If what is read is not what is written.
pub fn superblock(data: &[u8]) {
    let _ = decode(data);
    let mut page = data.to_vec();
    page.resize(PAGE, 0);
    let crc = Crc32c::of(&page[..PAGE - 4]);
    page[PAGE - 4..].copy_from_slice(&crc.0.to_le_bytes());
    if let Ok(stamp) = decode(&page) {
        assert!(decode(&encode(&stamp)) == Ok(stamp), "{stamp:?}");
    }
}
