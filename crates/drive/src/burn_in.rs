//! The record of a burn-in: one page beside the superblock, in the directory that is or becomes a drive.
//!
//! It is written by the command that burns a disk in, before the directory is a drive, and never again.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use base::{ByteCount, Crc32c, Timestamp};

use crate::object::PAGE;

const FILE_NAME: &str = "burn-in.kist";
const TEMPORARY: &str = "burn-in.kist.new";
const MAGIC: [u8; 8] = *b"KISTBURN";
const VERSION: u32 = 1;
const CRC_AT: usize = PAGE - 4;

/// Which burn-in it was: random, so that the record of one directory does not pass for that of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurnInId(pub u64);

impl fmt::Display for BurnInId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl BurnInId {
    /// Reads 16 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<BurnInId> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u64::from_str_radix(text, 16).ok().map(BurnInId)).flatten()
    }
}

/// What a burn-in said of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurnInVerdict {
    /// All was written and read, and no place is slower than it should be.
    Passed,
    /// All bytes are right, and some places are slow.
    Slow,
    /// Operations failed, or bytes were wrong.
    Faulty,
}

impl BurnInVerdict {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            BurnInVerdict::Passed => "passed",
            BurnInVerdict::Slow => "slow",
            BurnInVerdict::Faulty => "faulty",
        }
    }
}

/// What came of a burn-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurnInRecord {
    /// Which it was.
    pub id: BurnInId,
    /// What it said.
    pub verdict: BurnInVerdict,
    /// Whether the kernel's cache was passed by.
    pub is_direct: bool,
    /// Whether there were zones enough to compare places.
    pub is_judged_by_place: bool,
    /// When it ended, by the clock of the command's machine.
    pub ended: Timestamp,
    /// Bytes that were written and read.
    pub bytes: ByteCount,
    /// Size of the file system that they are part of.
    pub capacity: ByteCount,
    /// Bytes a second that were written in order.
    pub write_rate: ByteCount,
    /// Bytes a second that were read in order.
    pub read_rate: ByteCount,
    /// The highest median latency of a zone.
    pub median_max: Duration,
    /// The longest latency of a zone that 99 of 100 reads kept.
    pub p99_max: Duration,
    /// Operations that failed.
    pub faults: u64,
    /// Places that are slow.
    pub slow_places: u32,
}

/// Why there is no record that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BurnInRecordError {
    /// The system refused.
    #[error("{}: {operation} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// It is none, or damaged.
    #[error("{}: this is no whole record of a burn-in: remove it, and burn the disk in again", .0.display())]
    Damaged(PathBuf),
    /// Of a version to come.
    #[error("{}: version {version} of a record of a burn-in is unknown to this program", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// Of which directory a record is. One that was copied with all that lay beside it says nothing of the disk
/// that it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Place {
    /// When the directory was made, nanoseconds since 1970; 0: nobody knows. No number of a device or file
    /// system, which some of these change from one mount to the next (xfs).
    made: i64,
    /// Bytes of its file system; 0: nobody knows.
    capacity: u64,
}

impl Place {
    fn of(directory: &Path) -> io::Result<Place> {
        let space = rustix::fs::statvfs(directory)?;
        // Not all file systems know it.
        let made = fs::metadata(directory)?.created().ok();
        let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        Ok(Place {
            made: made.and_then(|made| i64::try_from(made.as_nanos()).ok()).unwrap_or(0),
            capacity: space.f_blocks.saturating_mul(space.f_frsize),
        })
    }

    /// The size counts where nothing better is known, since file systems grow. What is not known is taken for
    /// the same.
    fn may_be(self, other: Place) -> bool {
        let agree = |known: bool, is_same: bool| known.then_some(is_same);
        agree(self.made != 0 && other.made != 0, self.made == other.made)
            .or(agree(self.capacity != 0 && other.capacity != 0, self.capacity == other.capacity))
            .unwrap_or(true)
    }
}

/// Why a burn-in that has passed does not prove its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurnInDoubt {
    /// What was read may never have been on the disk.
    NotDirect,
    /// There were too few zones to compare places.
    NotByPlace,
}

impl BurnInDoubt {
    /// All that there are of a burn-in.
    #[must_use]
    pub fn of(is_direct: bool, is_judged_by_place: bool) -> Vec<BurnInDoubt> {
        let doubts = [(is_direct, BurnInDoubt::NotDirect), (is_judged_by_place, BurnInDoubt::NotByPlace)];
        doubts.into_iter().filter(|(is_good, _)| !is_good).map(|(_, doubt)| doubt).collect()
    }
}

impl fmt::Display for BurnInDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BurnInDoubt::NotDirect => {
                "not read from the disk alone: its file system keeps what it reads in memory"
            }
            BurnInDoubt::NotByPlace => "not judged by place: too few bytes to tell slow places",
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Damaged,
    Version(u32),
}

/// Whether a file of this name is the record of a burn-in, or was becoming one.
pub(crate) fn is_burn_in_file(name: &OsStr) -> bool {
    name == FILE_NAME || name == TEMPORARY
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Offsets: 0 magic, 8 version u32, 12 verdict u8, 13 flags u8 (1 direct, 2 judged by place), 16 id u64, 24
/// ended i64 ns, 32 bytes u64, 40 capacity u64, 48 write rate u64, 56 read rate u64, 64 highest median u64
/// ns, 72 longest p99 u64 ns, 80 faults u64, 88 slow places u32, 96 when the directory was made i64 ns, 104
/// bytes of its file system u64, zeros, 4092 CRC-32C of all before; little-endian.
fn encode(record: &BurnInRecord, place: Place) -> Vec<u8> {
    let mut page = vec![0u8; PAGE];
    page[0..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_le_bytes());
    page[12] = match record.verdict {
        BurnInVerdict::Passed => 0,
        BurnInVerdict::Slow => 1,
        BurnInVerdict::Faulty => 2,
    };
    page[13] = u8::from(record.is_direct) | u8::from(record.is_judged_by_place) << 1;
    let words = [
        record.id.0,
        record.ended.0.cast_unsigned(),
        record.bytes.0,
        record.capacity.0,
        record.write_rate.0,
        record.read_rate.0,
        nanos(record.median_max),
        nanos(record.p99_max),
        record.faults,
        u64::from(record.slow_places),
        place.made.cast_unsigned(),
        place.capacity,
    ];
    for (word, at) in words.iter().zip((16..).step_by(8)) {
        page[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let crc = Crc32c::of(&page[..CRC_AT]);
    page[CRC_AT..].copy_from_slice(&crc.0.to_le_bytes());
    page
}

fn decode(bytes: &[u8]) -> Result<(BurnInRecord, Place), Refusal> {
    let page: &[u8; PAGE] = bytes.try_into().map_err(|_| Refusal::Damaged)?;
    let number = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
    if page[0..8] != MAGIC || number(CRC_AT) != Crc32c::of(&page[..CRC_AT]).0 {
        return Err(Refusal::Damaged);
    }
    if number(8) != VERSION {
        return Err(Refusal::Version(number(8)));
    }
    let verdict = match page[12] {
        0 => BurnInVerdict::Passed,
        1 => BurnInVerdict::Slow,
        2 => BurnInVerdict::Faulty,
        _ => return Err(Refusal::Damaged),
    };
    let place = Place { made: long(96).cast_signed(), capacity: long(104) };
    let record = BurnInRecord {
        id: BurnInId(long(16)),
        verdict,
        is_direct: page[13] & 1 != 0,
        is_judged_by_place: page[13] & 2 != 0,
        ended: Timestamp(long(24).cast_signed()),
        bytes: ByteCount(long(32)),
        capacity: ByteCount(long(40)),
        write_rate: ByteCount(long(48)),
        read_rate: ByteCount(long(56)),
        median_max: Duration::from_nanos(long(64)),
        p99_max: Duration::from_nanos(long(72)),
        faults: long(80),
        slow_places: number(88),
    };
    Ok((record, place))
}

impl BurnInRecord {
    /// Why it does not prove its disk, whatever it says of it.
    #[must_use]
    pub fn doubts(&self) -> Vec<BurnInDoubt> {
        BurnInDoubt::of(self.is_direct, self.is_judged_by_place)
    }

    /// The record in a directory; `None` if there is none, or one of another directory or file system.
    ///
    /// # Errors
    /// [`BurnInRecordError`].
    pub fn read(directory: &Path) -> Result<Option<BurnInRecord>, BurnInRecordError> {
        let path = directory.join(FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(BurnInRecordError::Io { path, operation: "reading", source }),
        };
        match decode(&bytes) {
            Ok((record, place)) => {
                let here = Place::of(directory);
                let here = here.map_err(|source| BurnInRecordError::Io {
                    path,
                    operation: "looking beside",
                    source,
                })?;
                Ok(place.may_be(here).then_some(record))
            }
            Err(Refusal::Damaged) => Err(BurnInRecordError::Damaged(path)),
            Err(Refusal::Version(version)) => Err(BurnInRecordError::Version { path, version }),
        }
    }

    /// Puts the record into a directory, in place of one that is there, and binds it to that one; durable on
    /// return.
    ///
    /// # Errors
    /// [`BurnInRecordError::Io`].
    pub fn write(&self, directory: &Path) -> Result<(), BurnInRecordError> {
        let (temporary, path) = (directory.join(TEMPORARY), directory.join(FILE_NAME));
        let write = || -> io::Result<()> {
            let mut file = File::create(&temporary)?;
            // Whoever burns in, the server reads it, which may run as another user.
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            file.write_all(&encode(self, Place::of(directory)?))?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&temporary);
            BurnInRecordError::Io { path: path.clone(), operation: "writing", source }
        })
    }

    /// Removes the record of an earlier burn-in: what it said does not hold while another one is under way.
    /// Durable on return.
    ///
    /// # Errors
    /// [`BurnInRecordError::Io`].
    pub fn remove(directory: &Path) -> Result<(), BurnInRecordError> {
        let path = directory.join(FILE_NAME);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => File::open(directory).and_then(|directory| directory.sync_all()),
        };
        removed.map_err(|source| BurnInRecordError::Io { path, operation: "removing", source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { made: 1_700_000_000_987_654_321, capacity: 20_000_000_004_096 };

    fn sample() -> BurnInRecord {
        BurnInRecord {
            id: BurnInId(0x0123_4567_89ab_cdef),
            verdict: BurnInVerdict::Slow,
            is_direct: true,
            is_judged_by_place: true,
            ended: Timestamp(1_800_000_000_123_456_789),
            bytes: ByteCount(19_990_000_000_000),
            capacity: ByteCount(20_000_000_000_000),
            write_rate: ByteCount(199_000_000),
            read_rate: ByteCount(201_000_000),
            median_max: Duration::from_micros(7_900),
            p99_max: Duration::from_millis(61),
            faults: 0,
            slow_places: 3,
        }
    }

    #[test]
    fn golden_page() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/burn-in-v1.bin");
        let golden = fs::read(path).unwrap();
        assert_eq!(decode(&golden), Ok((sample(), Place::default())));
        assert!(golden == encode(&sample(), Place::default()));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/burn-in-v1-bound.bin");
        let golden = fs::read(path).unwrap();
        assert_eq!(decode(&golden), Ok((sample(), PLACE)));
        assert!(golden == encode(&sample(), PLACE));
    }

    #[test]
    fn round_trip_and_every_flipped_bit_is_refused() {
        for verdict in [BurnInVerdict::Passed, BurnInVerdict::Slow, BurnInVerdict::Faulty] {
            for (is_direct, is_judged_by_place) in [(false, true), (true, false)] {
                let record = BurnInRecord { verdict, is_direct, is_judged_by_place, ..sample() };
                assert_eq!(decode(&encode(&record, PLACE)), Ok((record, PLACE)));
            }
        }
        let page = encode(&sample(), PLACE);
        assert_eq!(decode(&page[1..]), Err(Refusal::Damaged));
        for bit in (0..120 * 8).chain((CRC_AT - 8) * 8..PAGE * 8) {
            let mut bad = page.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bad), Err(Refusal::Damaged), "bit {bit}");
        }
        let mut later = page.clone();
        later[8] = 2;
        let crc = Crc32c::of(&later[..CRC_AT]).0.to_le_bytes();
        later[CRC_AT..].copy_from_slice(&crc);
        assert_eq!(decode(&later), Err(Refusal::Version(2)));
    }

    #[test]
    fn a_directory_has_the_last_record_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let read = || BurnInRecord::read(directory.path());
        assert_eq!(read().unwrap(), None);
        sample().write(directory.path()).unwrap();
        let passed = BurnInRecord { verdict: BurnInVerdict::Passed, ..sample() };
        passed.write(directory.path()).unwrap();
        assert_eq!(read().unwrap(), Some(passed));
        fs::write(directory.path().join(FILE_NAME), b"KISTBURN").unwrap();
        assert!(matches!(read(), Err(BurnInRecordError::Damaged(_))));
        BurnInRecord::remove(directory.path()).unwrap();
        BurnInRecord::remove(directory.path()).unwrap();
        assert_eq!(read().unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    /// Story: a drive was copied file by file onto a new disk, and that one had "passed" then.
    #[test]
    fn a_record_that_was_copied_says_nothing_of_where_it_came_to() {
        let made = |directory: &tempfile::TempDir| Place::of(directory.path()).unwrap().made;
        let one = tempfile::tempdir().unwrap();
        // Those of one tick of the kernel's clock cannot be told apart, nor any where nobody knows.
        let is_another = |other: &tempfile::TempDir| made(&one) == 0 || made(other) != made(&one);
        let other =
            std::iter::repeat_with(|| tempfile::tempdir().unwrap()).find(|other| is_another(other)).unwrap();
        sample().write(one.path()).unwrap();
        fs::copy(one.path().join(FILE_NAME), other.path().join(FILE_NAME)).unwrap();
        assert_eq!(BurnInRecord::read(one.path()).unwrap(), Some(sample()));
        if made(&one) != 0 {
            assert_eq!(BurnInRecord::read(other.path()).unwrap(), None);
        }
    }

    #[test]
    fn places_are_told_apart_by_what_is_known_of_both() {
        assert!(PLACE.may_be(PLACE) && PLACE.may_be(Place::default()) && Place::default().may_be(PLACE));
        assert!(!PLACE.may_be(Place { made: 1, ..PLACE }));
        assert!(!PLACE.may_be(Place { capacity: 1, made: 0 }));
        assert!(PLACE.may_be(Place { made: 0, ..PLACE }));
        assert!(PLACE.may_be(Place { capacity: 1, ..PLACE }), "it was grown");
    }

    #[test]
    fn ids_are_16_digits() {
        assert_eq!(BurnInId::parse("0123456789abcdef"), Some(sample().id));
        assert_eq!(sample().id.to_string(), "0123456789abcdef");
        for text in ["", "123", "+123456789abcdef", "0123456789abcdefa"] {
            assert_eq!(BurnInId::parse(text), None, "{text}");
        }
    }
}
