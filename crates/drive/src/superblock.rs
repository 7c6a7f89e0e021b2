//! The superblock `drive.kist`: one page that says whose drive this is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use base::{Crc32c, DriveId, Epoch, Uuid};

use crate::object::{PAGE, Stamp};

pub(crate) const FILE_NAME: &str = "drive.kist";
const TEMPORARY_NAME: &str = "drive.kist.new";
const MAGIC: [u8; 8] = *b"KISTDRIV";
const VERSION: u32 = 1;
const CRC_AT: usize = PAGE - 4;

/// Why a page is no superblock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Damaged,
    Version(u32),
}

/// The page of a stamp. Offsets: 0 magic, 8 version u32, 12 zero, 16 instance, 32 drive u16, 36 epoch u32,
/// 40 commit u64, zeros, 4092 CRC-32C of all before; little-endian.
pub(crate) fn encode(stamp: &Stamp) -> Vec<u8> {
    let mut page = vec![0u8; PAGE];
    page[0..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_le_bytes());
    page[16..32].copy_from_slice(&stamp.instance.0);
    page[32..34].copy_from_slice(&stamp.drive.0.to_le_bytes());
    page[36..40].copy_from_slice(&stamp.epoch.0.to_le_bytes());
    page[40..48].copy_from_slice(&stamp.commit.to_le_bytes());
    let crc = Crc32c::of(&page[..CRC_AT]);
    page[CRC_AT..].copy_from_slice(&crc.0.to_le_bytes());
    page
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Stamp, Refusal> {
    let page: &[u8; PAGE] = bytes.try_into().map_err(|_| Refusal::Damaged)?;
    let number = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    if page[0..8] != MAGIC || number(CRC_AT) != Crc32c::of(&page[..CRC_AT]).0 {
        return Err(Refusal::Damaged);
    }
    if number(8) != VERSION {
        return Err(Refusal::Version(number(8)));
    }
    let mut instance = [0u8; 16];
    instance.copy_from_slice(&page[16..32]);
    Ok(Stamp {
        instance: Uuid(instance),
        drive: DriveId(u16::from_le_bytes([page[32], page[33]])),
        epoch: Epoch(number(36)),
        commit: u64::from(number(40)) | u64::from(number(44)) << 32,
    })
}

/// Replaces the superblock: temporary file, sync, rename, sync of the directory.
pub(crate) fn write(directory: &Path, stamp: &Stamp) -> io::Result<()> {
    let temporary = directory.join(TEMPORARY_NAME);
    let mut file = File::create(&temporary)?;
    file.write_all(&encode(stamp))?;
    file.sync_all()?;
    fs::rename(&temporary, directory.join(FILE_NAME))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Stamp {
        Stamp { instance: Uuid([7; 16]), drive: DriveId(3), epoch: Epoch(9), commit: 0x1_0000_0002 }
    }

    #[test]
    fn round_trip_and_every_flipped_bit_is_refused() {
        let page = encode(&sample());
        assert_eq!(decode(&page), Ok(sample()));
        assert_eq!(decode(&page[1..]), Err(Refusal::Damaged));
        for bit in (0..64 * 8).chain((CRC_AT - 8) * 8..PAGE * 8) {
            let mut bad = page.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bad), Err(Refusal::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn unknown_version_is_named() {
        let mut page = encode(&sample());
        page[8] = 2;
        let crc = Crc32c::of(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&crc.0.to_le_bytes());
        assert_eq!(decode(&page), Err(Refusal::Version(2)));
    }
}
