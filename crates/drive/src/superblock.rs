//! The superblock: one page that says whose drive this is, kept twice, as `drive.kist` and `drive.copy`.
//!
//! One damaged page must not cost a whole drive. The copy is written first; of two whole pages the newer one
//! holds.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use base::{Crc32c, DriveId, Epoch, Uuid};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use crate::object::{PAGE, Stamp};

pub(crate) const FILE_NAME: &str = "drive.kist";
pub(crate) const COPY_NAME: &str = "drive.copy";
const MAGIC: [u8; 8] = *b"KISTDRIV";
/// The version of a page that says nothing of gaps, as all did once.
const VERSION: u32 = 1;
/// The version of a page that does: a program that would forget them refuses it.
const VERSION_WITH_GAPS: u32 = 2;
const CRC_AT: usize = PAGE - 4;

/// Why a page is no superblock.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its magic, length or checksum is wrong.
    Damaged,
    /// It is of a version that this program does not know.
    Version(u32),
}

/// The page of a stamp. Offsets: 0 magic, 8 version u32, 12 zero, 16 instance, 32 drive u16, 36 epoch u32,
/// 40 commit u64, in version 2 48 gaps after u64, zeros, 4092 CRC-32C of all before; little-endian.
#[must_use]
pub fn encode(stamp: &Stamp) -> Vec<u8> {
    let mut page = vec![0u8; PAGE];
    let version = if stamp.gaps_after.is_some() { VERSION_WITH_GAPS } else { VERSION };
    page[0..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&version.to_le_bytes());
    page[16..32].copy_from_slice(&stamp.instance.0);
    page[32..34].copy_from_slice(&stamp.drive.0.to_le_bytes());
    page[36..40].copy_from_slice(&stamp.epoch.0.to_le_bytes());
    page[40..48].copy_from_slice(&stamp.commit.to_le_bytes());
    page[48..56].copy_from_slice(&stamp.gaps_after.unwrap_or(0).to_le_bytes());
    let crc = Crc32c::of(&page[..CRC_AT]);
    page[CRC_AT..].copy_from_slice(&crc.0.to_le_bytes());
    page
}

/// The stamp of a page.
///
/// # Errors
/// [`Refusal`].
pub fn decode(bytes: &[u8]) -> Result<Stamp, Refusal> {
    let page: &[u8; PAGE] = bytes.try_into().map_err(|_| Refusal::Damaged)?;
    let number = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
    if page[0..8] != MAGIC || number(CRC_AT) != Crc32c::of(&page[..CRC_AT]).0 {
        return Err(Refusal::Damaged);
    }
    let gaps_after = match number(8) {
        VERSION => None,
        VERSION_WITH_GAPS => Some(long(48)),
        other => return Err(Refusal::Version(other)),
    };
    let mut instance = [0u8; 16];
    instance.copy_from_slice(&page[16..32]);
    Ok(Stamp {
        instance: Uuid(instance),
        drive: DriveId(u16::from_le_bytes([page[32], page[33]])),
        epoch: Epoch(number(36)),
        commit: long(40),
        gaps_after,
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
        self.whole().max_by_key(Stamp::age)
    }

    /// The newest whole page of this drive: a misdirected write may have put another's beside it.
    pub(crate) fn newest_of(&self, instance: Uuid, drive: DriveId) -> Option<Stamp> {
        let is_its = |stamp: &Stamp| stamp.instance == instance && stamp.drive == drive;
        self.whole().filter(is_its).max_by_key(Stamp::age)
    }

    fn whole(&self) -> impl Iterator<Item = Stamp> {
        [&self.first, &self.copy].into_iter().filter_map(|page| match page {
            Ok(Ok(stamp)) => Some(*stamp),
            _ => None,
        })
    }

    /// Whether neither page is there.
    pub(crate) fn are_gone(&self) -> bool {
        let is_gone = |page: &io::Result<_>| matches!(page, Err(e) if e.kind() == io::ErrorKind::NotFound);
        is_gone(&self.first) && is_gone(&self.copy)
    }

    /// Whether there is a page, and each that is there can be read and is damaged.
    pub(crate) fn are_damaged(&self) -> bool {
        let pages = [&self.first, &self.copy];
        let is_damaged = |page: &io::Result<_>| matches!(page, Ok(Err(Refusal::Damaged)));
        let is_gone = |page: &io::Result<_>| matches!(page, Err(e) if e.kind() == io::ErrorKind::NotFound);
        pages.iter().any(|page| is_damaged(page))
            && pages.iter().all(|page| is_damaged(page) || is_gone(page))
    }

    /// Whether both pages say exactly this.
    pub(crate) fn both_say(&self, stamp: &Stamp) -> bool {
        [&self.first, &self.copy].into_iter().all(|page| matches!(page, Ok(Ok(found)) if found == stamp))
    }
}

/// Where a page is written before it takes its place.
fn temporary(name: &str) -> String {
    format!("{name}.new")
}

/// Whether a file is a page that was being written.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    [COPY_NAME, FILE_NAME].iter().any(|page| name == temporary(page).as_str())
}

/// Replaces the superblock: for the copy and then the first page a temporary file, sync, rename; then the
/// directory is synced. A failed sync is never repeated: what comes next is written to a new file.
///
/// By the open directory and not by its path, where another file system may be mounted by now.
pub(crate) fn write(directory: &File, stamp: &Stamp) -> io::Result<()> {
    let page = encode(stamp);
    for name in [COPY_NAME, FILE_NAME] {
        let temporary = temporary(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let opened = openat(directory, &temporary, flags, Mode::from_raw_mode(0o644));
        let written = opened.map_err(io::Error::from).and_then(|file| {
            let mut file = File::from(file);
            file.write_all(&page)?;
            file.sync_all()
        });
        if let Err(error) = written {
            // Should this fail too, the next stamp truncates it.
            let _ = unlinkat(directory, &temporary, AtFlags::empty());
            return Err(error);
        }
        renameat(directory, &temporary, directory, name)?;
    }
    directory.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Stamp {
        let (instance, drive) = (Uuid([7; 16]), DriveId(3));
        Stamp { instance, drive, epoch: Epoch(9), commit: 0x1_0000_0002, gaps_after: None }
    }

    fn golden(name: &str) -> Vec<u8> {
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
    }

    /// A page that says nothing of gaps is byte for byte what it was before there was a version 2.
    #[test]
    fn golden_pages() {
        let with_gaps = Stamp { gaps_after: Some(0x2_0000_0001), ..sample() };
        for (name, stamp) in [("superblock-v1.bin", sample()), ("superblock-v2.bin", with_gaps)] {
            assert_eq!(decode(&golden(name)), Ok(stamp), "{name}");
            assert!(golden(name) == encode(&stamp), "{name}");
        }
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
        page[8] = 3;
        let crc = Crc32c::of(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&crc.0.to_le_bytes());
        assert_eq!(decode(&page), Err(Refusal::Version(3)));
    }
}
