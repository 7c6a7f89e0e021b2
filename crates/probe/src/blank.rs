//! Whether a disk holds nothing, and the file system that is made on one that does.
//!
//! What is not proven to be blank is left alone: a disk with data on it that is formatted cannot be had back.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command as Program;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, SeekFrom};

use crate::same_disk::read_at;

/// Bytes of the first and the last part of a disk that are read whole: superblocks, partition tables, labels
/// of RAID, LVM and ZFS stand there.
pub const ENDS: u64 = 16 * 1024 * 1024;
/// Bytes of a sample.
const SAMPLE: u64 = 1024 * 1024;
/// Samples in between, spread evenly: together with the ends a disk is read for some seconds.
const SAMPLES: u64 = 256;
/// What places are aligned to, for direct reads.
const BLOCK: u64 = 4_096;
/// What is waited after a file system was made, or twice as long as that took: another machine at the same
/// enclosure that made one at the same time has ended by then, and the last one stands there.
const SETTLE_MIN: Duration = Duration::from_secs(5);
/// Where a file system is mounted for a moment to see whether it is empty.
const LOOK_AT: &str = "/run/kist-disk-watch";
/// Bytes of XFS's superblock that are looked at.
const XFS_BYTES: u64 = 4_096;

/// Why a disk is not known to hold nothing, or why it got no file system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotMade {
    /// Somebody has it open for himself, or it cannot be opened.
    #[error("/dev/{0} is in use, or cannot be opened: {1}")]
    Open(String, io::Error),
    /// It cannot be read there.
    #[error("/dev/{0} cannot be read at byte {1}: {2}")]
    Read(String, u64, io::Error),
    /// Something stands there.
    #[error("/dev/{0} is not blank: something stands at byte {1}")]
    Standing(String, u64),
    /// It is too small for a file system.
    #[error("/dev/{0} is smaller than two times {ENDS} bytes")]
    Small(String),
    /// A file system of ours is there whose making did not end.
    #[error(
        "a file system that was being made on /dev/{0} is not whole: wipefs -a /dev/{0}, and it is made anew"
    )]
    HalfMade(String),
    /// A file system of ours is there, and something is in it.
    #[error("the file system that was made on /dev/{0} at some time is not empty any more")]
    NotEmpty(String),
    /// A program did not do it.
    #[error("{0}: {1}")]
    Program(String, String),
    /// Another machine made a file system there at the same time.
    #[error(
        "another file system than the one that was made stands on /dev/{0}: another machine uses the disk"
    )]
    Another(String),
}

impl NotMade {
    /// A word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            NotMade::Open(..) => "in-use",
            NotMade::Read(..) => "unreadable",
            NotMade::Standing(..) => "not-blank",
            NotMade::Small(_) => "too-small",
            NotMade::HalfMade(_) => "half-made",
            NotMade::NotEmpty(_) => "not-empty",
            NotMade::Program(..) => "failed",
            NotMade::Another(_) => "another-machine",
        }
    }
}

/// A file system of Kist's own making, as its superblock says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    /// Whole.
    Whole,
    /// It was being made, and that did not end.
    Half,
    /// Something else, or nothing.
    No,
}

/// Whether nothing of others is in a directory.
pub type Vacant = fn(&Path) -> io::Result<bool>;

/// Makes an XFS of this UUID on a disk that is proven to be blank, or finds the one that was made by the same
/// words before and is whole. `device`: such as `sdd`, which nothing is known to use; `is_vacant`: whether
/// what is in it by then is nobody's.
///
/// # Errors
/// [`NotMade`]; nothing is written to a disk that is not blank.
pub fn file_system(device: &str, uuid: &str, is_vacant: Vacant) -> Result<(), NotMade> {
    match own(device, uuid)? {
        Own::Whole => return is_empty(device, is_vacant),
        Own::Half => return Err(NotMade::HalfMade(device.to_owned())),
        Own::No => is_blank(device)?,
    }
    let begin = Instant::now();
    // Without -f: it refuses by itself what has a signature of anything.
    let path = format!("/dev/{device}");
    program("mkfs.xfs", &["-q", "-m", &format!("uuid={uuid}"), &path])?;
    thread::sleep((begin.elapsed() * 2).max(SETTLE_MIN));
    match own(device, uuid)? {
        Own::Whole => Ok(()),
        Own::Half | Own::No => Err(NotMade::Another(device.to_owned())),
    }
}

/// Whether a disk holds nothing: nobody has it, and its first and last bytes and samples in between are
/// zeros.
///
/// # Errors
/// [`NotMade`].
pub fn is_blank(device: &str) -> Result<(), NotMade> {
    let file = open(device)?;
    let size = rustix::fs::seek(&file, SeekFrom::End(0));
    let size = size.map_err(|error| NotMade::Open(device.to_owned(), error.into()))?;
    holds_nothing(device, size, |at, length| read_at(&file, at, length))
}

/// The same, however it is read.
fn holds_nothing(
    device: &str,
    size: u64,
    mut read: impl FnMut(u64, u64) -> io::Result<Vec<u8>>,
) -> Result<(), NotMade> {
    // What is behind the last whole block of a disk, no disk has.
    let size = size / BLOCK * BLOCK;
    if size < 2 * ENDS {
        return Err(NotMade::Small(device.to_owned()));
    }
    for (at, length) in places(size) {
        let bytes = read(at, length).map_err(|error| NotMade::Read(device.to_owned(), at, error))?;
        if let Some(found) = bytes.iter().position(|byte| *byte != 0) {
            return Err(NotMade::Standing(device.to_owned(), at + found as u64));
        }
    }
    Ok(())
}

/// Which parts are read: both ends, then samples; all of a small disk.
fn places(size: u64) -> Vec<(u64, u64)> {
    let whole = |from: u64, to: u64| {
        let steps = (to - from).div_ceil(SAMPLE);
        (0..steps).map(move |step| (from + step * SAMPLE, SAMPLE.min(to - from - step * SAMPLE)))
    };
    let between = size - 2 * ENDS;
    let mut places: Vec<(u64, u64)> = whole(0, ENDS).chain(whole(size - ENDS, size)).collect();
    if between <= SAMPLES * SAMPLE {
        places.extend(whole(ENDS, size - ENDS));
    } else {
        let step = (between - SAMPLE) / (SAMPLES - 1);
        places.extend((0..SAMPLES).map(|sample| (ENDS + sample * step / BLOCK * BLOCK, SAMPLE)));
    }
    places
}

/// Whether the file system of Kist's own making stands on a disk.
fn own(device: &str, uuid: &str) -> Result<Own, NotMade> {
    let file = open(device)?;
    let bytes = read_at(&file, 0, XFS_BYTES).map_err(|error| NotMade::Read(device.to_owned(), 0, error))?;
    Ok(of_superblock(&bytes, uuid))
}

/// Whether the file system of a device, which is mounted, is the one of this UUID. `device`: below `/dev`.
#[must_use]
pub fn is_own(device: &str, uuid: &str) -> bool {
    let bytes = OpenOptions::new().read(true).open(Path::new("/dev").join(device)).and_then(|mut file| {
        let mut bytes = vec![0; XFS_BYTES as usize];
        io::Read::read_exact(&mut file, &mut bytes)?;
        Ok(bytes)
    });
    bytes.is_ok_and(|bytes| of_superblock(&bytes, uuid) == Own::Whole)
}

/// By XFS's superblock (linux: fs/xfs/libxfs/xfs_format.h, `struct xfs_dsb`): its magic number, its UUID, and
/// whether it is still being made.
fn of_superblock(bytes: &[u8], uuid: &str) -> Own {
    let digits: String = uuid.chars().filter(|letter| *letter != '-').collect();
    let there: String =
        bytes.get(32..48).unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
    match (bytes.get(..4), bytes.get(126)) {
        (Some(b"XFSB"), Some(0)) if there == digits => Own::Whole,
        (Some(b"XFSB"), Some(_)) if there == digits => Own::Half,
        _ => Own::No,
    }
}

/// Whether nothing of others is in the file system of a device, which is looked at where nobody else sees it.
fn is_empty(device: &str, is_vacant: Vacant) -> Result<(), NotMade> {
    let place = Path::new(LOOK_AT);
    let failed = |error: io::Error| NotMade::Program(format!("looking at {LOOK_AT}"), error.to_string());
    match fs::create_dir(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    program("mount", &["-t", "xfs", "-o", "ro", &format!("/dev/{device}"), LOOK_AT])?;
    let found = is_vacant(place);
    unmount(place)?;
    // Left behind, it is in nobody's way.
    let _ = fs::remove_dir(place);
    match found.map_err(failed)? {
        false => Err(NotMade::NotEmpty(device.to_owned())),
        true => Ok(()),
    }
}

/// Unmounts what a call before this one was looking at when it was killed.
pub fn end_of_look() {
    if Path::new(LOOK_AT).exists() {
        // Nothing is mounted there, as a rule.
        let _ = unmount(Path::new(LOOK_AT));
    }
}

/// Mounts the XFS on a device at a directory.
///
/// # Errors
/// [`NotMade::Program`].
pub fn mount(device: &str, directory: &Path) -> Result<(), NotMade> {
    program("mount", &["-t", "xfs", &format!("/dev/{device}"), &directory.to_string_lossy()])
}

/// Unmounts what is left of a disk that is gone: not by force, and not while anybody uses it.
///
/// # Errors
/// [`NotMade::Program`].
pub fn unmount(directory: &Path) -> Result<(), NotMade> {
    program("umount", &[&directory.to_string_lossy()])
}

fn program(name: &str, arguments: &[&str]) -> Result<(), NotMade> {
    let failed = |why: String| NotMade::Program(format!("{name} {}", arguments.join(" ")), why);
    let done = Program::new(name).args(arguments).output().map_err(|error| failed(error.to_string()))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(failed(said.split_whitespace().collect::<Vec<_>>().join(" ")))
        }
    }
}

/// Opens a block device for nobody else, past the page cache.
fn open(device: &str) -> Result<File, NotMade> {
    let flags = i32::try_from((OFlags::DIRECT | OFlags::CLOEXEC | OFlags::EXCL).bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(Path::new("/dev").join(device));
    opened.map_err(|error| NotMade::Open(device.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const SIZE: u64 = 2 * ENDS + 10 * 1024 * SAMPLE;

    /// What comes of a disk with one byte at this place, and which places were read.
    fn with(size: u64, standing: Option<u64>) -> (Result<(), NotMade>, Vec<(u64, u64)>) {
        let asked = RefCell::new(Vec::new());
        let read = |at: u64, length: u64| {
            asked.borrow_mut().push((at, length));
            let mut bytes = vec![0; length as usize];
            if let Some(byte) = standing.and_then(|one| bytes.get_mut(one.checked_sub(at)? as usize)) {
                *byte = 1;
            }
            Ok(bytes)
        };
        (holds_nothing("sdd", size, read), asked.into_inner())
    }

    #[test]
    fn a_byte_at_either_end_or_in_a_sample_is_found() {
        let (blank, asked) = with(SIZE, None);
        blank.unwrap();
        assert!(asked.iter().all(|(at, length)| at % BLOCK == 0 && at + length <= SIZE));
        assert_eq!(asked.iter().map(|(_, length)| length).sum::<u64>(), 2 * ENDS + SAMPLES * SAMPLE);
        let middle = asked[asked.len() / 2].0 + 77;
        for at in [0, ENDS - 1, ENDS, middle, SIZE - ENDS, SIZE - 1] {
            let found = with(SIZE, Some(at)).0;
            assert!(matches!(found, Err(NotMade::Standing(_, place)) if place == at), "{at}: {found:?}");
        }
        // A signature of ZFS, which keeps four labels; a GPT's second copy in the last block.
        for at in [128 * 1024, SIZE - 256 * 1024, SIZE - 512] {
            assert!(with(SIZE, Some(at)).0.is_err(), "{at}");
        }
    }

    #[test]
    fn all_of_a_small_disk_is_read_and_none_too_small_is_blank() {
        let size = 2 * ENDS + 64 * SAMPLE + 4 * BLOCK;
        for at in (0..size).step_by(999_983) {
            assert!(with(size, Some(at)).0.is_err(), "{at}");
        }
        assert!(with(size, None).0.is_ok() && with(2 * ENDS, None).0.is_ok());
        assert!(matches!(with(2 * ENDS - 1, None).0, Err(NotMade::Small(_))));
        assert!(matches!(with(0, None).0, Err(NotMade::Small(_))));
    }

    #[test]
    fn what_cannot_be_read_is_not_blank() {
        let bad = |at: u64, length: u64| match at {
            0 => Ok(vec![0; length as usize]),
            _ => Err(io::Error::other("medium error")),
        };
        assert!(matches!(holds_nothing("sdd", SIZE, bad), Err(NotMade::Read(..))));
    }

    #[test]
    fn only_its_own_file_system_is_known_again() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        let mut bytes = vec![0; 4096];
        assert_eq!(of_superblock(&bytes, uuid), Own::No);
        bytes[..4].copy_from_slice(b"XFSB");
        assert_eq!(of_superblock(&bytes, uuid), Own::No, "somebody's");
        let own = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        bytes[32..40].copy_from_slice(&own);
        bytes[40..48].copy_from_slice(&own);
        assert_eq!(of_superblock(&bytes, uuid), Own::Whole);
        bytes[126] = 1;
        assert_eq!(of_superblock(&bytes, uuid), Own::Half);
        bytes[0] = b'x';
        assert_eq!(of_superblock(&bytes, uuid), Own::No);
        assert_eq!(of_superblock(&[], uuid), Own::No);
    }
}
