//! The superblock: one page that says whose drive this is, kept twice, as `drive.kist` and `drive.copy`.
//!
//! One damaged page must not cost a whole drive. The copy is written first; of two whole pages the newer one
//! holds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use base::{Crc32c, DriveId, Epoch, Uuid};

use crate::object::{PAGE, Stamp};

pub(crate) const FILE_NAME: &str = "drive.kist";
pub(crate) const COPY_NAME: &str = "drive.copy";
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

/// What the two pages of a directory say.
pub(crate) struct Pages {
    pub(crate) first: io::Result<Result<Stamp, Refusal>>,
    pub(crate) copy: io::Result<Result<Stamp, Refusal>>,
}

impl Pages {
    pub(crate) fn read(directory: &Path) -> Pages {
        let page = |name: &str| fs::read(directory.join(name)).map(|bytes| decode(&bytes));
        Pages { first: page(FILE_NAME), copy: page(COPY_NAME) }
    }

    /// The newest whole page.
    pub(crate) fn newest(&self) -> Option<Stamp> {
        let whole = [&self.first, &self.copy].into_iter().filter_map(|page| match page {
            Ok(Ok(stamp)) => Some(*stamp),
            _ => None,
        });
        whole.max_by_key(|stamp| (stamp.epoch, stamp.commit))
    }

    /// Whether both pages say exactly this.
    pub(crate) fn both_say(&self, stamp: &Stamp) -> bool {
        [&self.first, &self.copy].into_iter().all(|page| matches!(page, Ok(Ok(found)) if found == stamp))
    }
}

/// Replaces the superblock: for the copy and then the first page a temporary file, sync, rename; then the
/// directory is synced. A failed sync is never repeated: what comes next is written to a new file.
pub(crate) fn write(directory: &Path, stamp: &Stamp) -> io::Result<()> {
    let page = encode(stamp);
    for name in [COPY_NAME, FILE_NAME] {
        let temporary = directory.join(format!("{name}.new"));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(&page)?;
            file.sync_all()
        });
        if let Err(error) = written {
            // Should this fail too, the next stamp truncates it.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        fs::rename(&temporary, directory.join(name))?;
    }
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
