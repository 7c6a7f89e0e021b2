//! What stands on a disk or in a file that is to be written over. Pure: it is given the bytes at both ends.
//!
//! Signatures of what is usual have names. Anything else that is neither zeros nor what a load has written is
//! something unknown, and is not destroyed either.

use std::fmt;

use crate::stamp::{self, PAGE};

/// Bytes that are looked at, at either end: all superblocks, labels and tables that are listed below are
/// within.
pub const LOOKED_AT: usize = 1 << 20;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What it is.
    pub what: &'static str,
    /// At which byte its sign begins.
    pub at: u64,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.what, self.at)
    }
}

/// A signature at a place from the beginning.
struct Sign {
    at: usize,
    bytes: &'static [u8],
    what: &'static str,
}

const fn sign(at: usize, bytes: &'static [u8], what: &'static str) -> Sign {
    Sign { at, bytes, what }
}

/// From the beginning of the disk; what is more exact comes first.
const SIGNS: [Sign; 29] = [
    sign(0, b"KISTDRIV", "a superblock of Kist"),
    sign(0, b"XFSB", "an XFS file system"),
    sign(1024 + 56, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    sign(65_536 + 64, b"_BHRfS_M", "a Btrfs file system"),
    sign(1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    sign(0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    sign(16_384, b"SKUL\xba\xbe", "an encrypted volume (LUKS)"),
    sign(0, b"LABELONE", "a physical volume of LVM"),
    sign(512, b"LABELONE", "a physical volume of LVM"),
    sign(1024, b"LABELONE", "a physical volume of LVM"),
    sign(1536, b"LABELONE", "a physical volume of LVM"),
    sign(0, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID"),
    sign(4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID"),
    sign(4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca], "a bcache device"),
    sign(0, b"bluestore block device", "an OSD of Ceph"),
    sign(4086, b"SWAPSPACE2", "swap space"),
    sign(4086, b"SWAP-SPACE", "swap space"),
    sign(32_769, b"CD001", "an ISO 9660 file system"),
    sign(3, b"NTFS    ", "an NTFS file system"),
    sign(3, b"EXFAT   ", "an exFAT file system"),
    sign(54, b"FAT", "a FAT file system"),
    sign(82, b"FAT32", "a FAT file system"),
    sign(0, b"\x01\x16\x19\x70", "a UFS file system"),
    sign(0, b"MSWIN4.1", "a FAT file system"),
    sign(512, b"EFI PART", "a partition table (GPT)"),
    sign(4096, b"EFI PART", "a partition table (GPT)"),
    sign(0, b"ORCLDISK", "a disk of Oracle ASM"),
    sign(32, b"ORCLDISK", "a disk of Oracle ASM"),
    sign(510, &[0x55, 0xaa], "a partition table (MBR)"),
];

/// What ZFS writes into its labels, of which there are two at either end: `ub_magic` in both byte orders.
const ZFS: [[u8; 8]; 2] = [[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]];

/// The anchor of a DDF RAID in the last sector, in both byte orders.
const DDF: [[u8; 4]; 2] = [[0xde, 0x11, 0xde, 0x11], [0x11, 0xde, 0x11, 0xde]];

/// The anchor of an Intel RAID, in the last but one.
const IMSM: &[u8] = b"Intel Raid ISM Cfg";

/// What stands between these ends of a disk: the first and the last [`LOOKED_AT`] bytes, or all of it twice
/// if it is smaller. `length` is that of the disk.
#[must_use]
pub fn standing(head: &[u8], tail: &[u8], length: u64) -> Option<Standing> {
    let tail_at = length.saturating_sub(tail.len() as u64);
    let named =
        SIGNS.iter().find(|sign| head.get(sign.at..).is_some_and(|rest| rest.starts_with(sign.bytes)));
    if let Some(sign) = named {
        return Some(Standing { what: sign.what, at: sign.at as u64 });
    }
    [(head, 0), (tail, tail_at)].into_iter().find_map(|(bytes, begin)| unnamed(bytes, begin))
}

/// Signs whose place is counted from the end or varies, and then anything.
fn unnamed(bytes: &[u8], begin: u64) -> Option<Standing> {
    const RAID: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
    let mut unknown = None;
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        let at = begin + (number * PAGE) as u64;
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let has = |sign: &[u8], each: usize| page.chunks(each).any(|part| part.starts_with(sign));
        let what = match () {
            () if has(b"EFI PART", 512) => "a backup partition table (GPT)",
            () if page.starts_with(&RAID) => "a member of a Linux RAID",
            () if ZFS.iter().any(|magic| has(magic, 1024)) => "a member of a ZFS pool",
            () if DDF.iter().any(|magic| has(magic, 512)) => "a member of a hardware RAID (DDF)",
            () if has(IMSM, 512) => "a member of an Intel RAID",
            // What a load has written, with nothing else that is known behind its stamp.
            () if stamp::is_stamped(page) => continue,
            () => {
                unknown = unknown.or(Some(Standing { what: "data of an unknown kind", at }));
                continue;
            }
        };
        return Some(Standing { what, at });
    }
    unknown
}

#[cfg(test)]
mod tests {
    use base::ByteCount;

    use super::*;
    use crate::stamp::Stamp;

    const LENGTH: u64 = 1 << 30;

    fn on(head: &[u8], tail: &[u8]) -> Option<Standing> {
        standing(head, tail, LENGTH)
    }

    #[test]
    fn an_empty_disk_and_one_that_a_load_has_written_are_free() {
        let mut head = vec![0; LOOKED_AT];
        let mut tail = head.clone();
        assert_eq!(on(&head, &tail), None);
        Stamp(5).put(&mut head, ByteCount(0));
        Stamp(6).paint(&mut tail, ByteCount(LENGTH - LOOKED_AT as u64));
        assert_eq!(on(&head, &tail), None);
        assert_eq!(standing(&[], &[], 0), None);
    }

    /// Story: a disk that was measured became a member of a RAID, whose anchor left the first bytes of its
    /// page.
    #[test]
    fn the_anchor_of_a_raid_is_seen_behind_a_stamp() {
        for (anchor, from_end) in [(&DDF[0][..], 512), (&DDF[1][..], 512), (IMSM, 1024)] {
            let mut tail = vec![0; LOOKED_AT];
            Stamp(6).put(&mut tail, ByteCount(LENGTH - LOOKED_AT as u64));
            let at = tail.len() - from_end;
            tail[at..at + anchor.len()].copy_from_slice(anchor);
            assert!(on(&[], &tail).unwrap().what.contains("RAID"));
        }
    }

    #[test]
    fn every_sign_is_seen_under_its_name() {
        for sign in &SIGNS {
            let mut head = vec![0; LOOKED_AT];
            head[sign.at..sign.at + sign.bytes.len()].copy_from_slice(sign.bytes);
            let found = on(&head, &vec![0; LOOKED_AT]).unwrap();
            assert_eq!((found.what, found.at), (sign.what, sign.at as u64));
        }
    }

    #[test]
    fn signs_at_the_end_and_at_no_fixed_place_are_seen() {
        let free = vec![0; LOOKED_AT];
        let with = |at: usize, bytes: &[u8]| {
            let mut end = free.clone();
            end[at..at + bytes.len()].copy_from_slice(bytes);
            end
        };
        let gpt = on(&free, &with(LOOKED_AT - 512, b"EFI PART")).unwrap();
        assert_eq!((gpt.what, gpt.at), ("a backup partition table (GPT)", LENGTH - 4096));
        let raid = on(&free, &with(LOOKED_AT - 8192, &[0xfc, 0x4e, 0x2b, 0xa9])).unwrap();
        assert_eq!(raid.what, "a member of a Linux RAID");
        for magic in &ZFS {
            let zfs = on(&with(131_072 + 3 * 1024, magic), &free).unwrap();
            assert_eq!(zfs.what, "a member of a ZFS pool");
        }
    }

    #[test]
    fn a_single_byte_of_something_else_is_not_destroyed() {
        let free = vec![0; LOOKED_AT];
        for at in [0, 5000, LOOKED_AT - 1] {
            let mut one = free.clone();
            one[at] = 1;
            let found = on(&one, &free).unwrap();
            assert_eq!((found.what, found.at), ("data of an unknown kind", (at / 4096 * 4096) as u64));
            assert!(on(&free, &one).is_some());
        }
    }
}
