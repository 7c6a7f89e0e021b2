//! For the fuzz targets: records of a cartridge, with seals that agree.

use base::{Partition, Vid};

use super::block64::{Block64, SEALED_BYTES};
use super::durable::DurableMark;
use super::frame::{FrameHeader, Home};
use super::{cipher, index_file, memory};

/// A frame's header, a mark, an index, the memory, or an encrypted record, by the first byte.
///
/// # Panics
/// If what is read is not what is written.
pub fn cartridge(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let Ok(vid) = Vid::new("KF0001") else { return };
    let home = Home { vid, partition: Partition::Data };
    let mut block = [0u8; SEALED_BYTES];
    let length = rest.len().min(SEALED_BYTES);
    block[..length].copy_from_slice(&rest[..length]);
    let sealed = Block64(block).seal();
    match which % 5 {
        0 => {
            let offset = Block64(sealed).u64_at(24);
            if let Ok(header) = FrameHeader::decode(sealed, home, offset) {
                assert!(header.encode(home) == sealed, "{header:?}");
            }
        }
        1 => {
            if let Some(mark) = DurableMark::decode(&Block64(sealed), home) {
                assert!(mark.payload <= mark.end, "{mark:?}");
            }
        }
        2 => {
            let far = DurableMark { counter: 1, cuts: 0, objects: 1 << 60, end: 1 << 60, payload: 1 << 60 };
            index_file::check(rest, &far, home);
        }
        3 => memory::check(rest),
        // By the first byte: the kept corpus counts on the order.
        _ => cipher::check(rest),
    }
}
