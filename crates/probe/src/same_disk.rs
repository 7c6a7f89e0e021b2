//! Whether block devices lead to one disk. Names in the world are unique by standard only, and to take two
//! disks for one would destroy both.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::multipath::MapError;

/// Bytes of each place that must be the same by all paths: at the beginning file systems and superblocks
/// stand.
const COMPARED: u64 = 64 * 1024;
/// What direct reads are aligned to; no disk has larger blocks.
const BLOCK: u64 = 4_096;
/// A file system writes while a place is read by both ways: it is read again so often.
const TRIES: u32 = 8;
/// The longest that a path is read from before it is left out.
const COMPARE_MAX: Duration = Duration::from_secs(10);

/// Whether all these paths are in nobody's use and begin with the same bytes.
pub fn are_one_disk(blocks: &[String]) -> Result<(), MapError> {
    let mut first: Option<(&String, Vec<u8>)> = None;
    // All at once: whoever wants one meanwhile is refused.
    let mut held: Vec<File> = Vec::new();
    for block in blocks {
        let failed = |source| MapError::InUse(block.clone(), source);
        let file = open(block, OFlags::EXCL).map_err(failed)?;
        let bytes = read_at(&file, 0, COMPARED).map_err(failed)?;
        held.push(file);
        match &first {
            Some((other, known)) if *known != bytes => {
                return Err(MapError::Differ((*other).clone(), block.clone()));
            }
            Some(_) => {}
            None => first = Some((block, bytes)),
        }
    }
    Ok(())
}

/// Whether this path is in nobody's use, and has the bytes that are read through the map.
pub fn is_of_map(block: &str, map: &str, sectors: u64) -> Result<(), MapError> {
    let (done, ended) = mpsc::channel();
    let (name, other) = (block.to_owned(), map.to_owned());
    let of_thread = move || {
        let _ = done.send(compare(&name, &other, sectors.saturating_mul(512)));
    };
    let failed = |source| MapError::InUse(block.to_owned(), source);
    // One that hangs holds up nobody, and is in use until it has ended.
    thread::Builder::new().name("compare".to_owned()).spawn(of_thread).map_err(failed)?;
    match ended.recv_timeout(COMPARE_MAX) {
        Ok(compared) => compared,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(failed(io::ErrorKind::TimedOut.into()))
        }
    }
}

fn compare(block: &str, map: &str, size: u64) -> Result<(), MapError> {
    let path = open(block, OFlags::EXCL).map_err(|source| MapError::InUse(block.to_owned(), source))?;
    let through = open(map, OFlags::empty()).map_err(|source| MapError::Unread(map.to_owned(), source))?;
    has_the_same(
        size,
        |at, length| read_at(&through, at, length).map_err(|source| MapError::Unread(map.to_owned(), source)),
        |at, length| read_at(&path, at, length).map_err(|source| MapError::Unread(block.to_owned(), source)),
    )?
    .then_some(())
    .ok_or_else(|| MapError::Differ(map.to_owned(), block.to_owned()))
}

/// Whether the first, the last and the middle bytes are the same by both ways. A place differs only if it
/// does while nobody writes there; one that is written all the time is not known to be the same.
fn has_the_same<E>(
    size: u64,
    mut through_map: impl FnMut(u64, u64) -> Result<Vec<u8>, E>,
    mut by_path: impl FnMut(u64, u64) -> Result<Vec<u8>, E>,
) -> Result<bool, E> {
    let length = size.min(COMPARED);
    let aligned = |at: u64| at / BLOCK * BLOCK;
    for at in [0, aligned((size - length) / 2), aligned(size - length)] {
        let mut before = through_map(at, length)?;
        let mut is_same = false;
        for _ in 0..TRIES {
            let bytes = by_path(at, length)?;
            let after = through_map(at, length)?;
            is_same = bytes == before || bytes == after;
            if is_same || before == after {
                break;
            }
            before = after;
        }
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens a block device past the page cache, which knows what was read before.
fn open(block: &str, more: OFlags) -> io::Result<File> {
    let flags = i32::try_from((OFlags::DIRECT | OFlags::CLOEXEC | more).bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(flags).open(Path::new("/dev").join(block))
}

/// Reads so many bytes from there into memory that direct reads can go to.
pub(crate) fn read_at(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let length = usize::try_from(length).map_err(too_long)?;
    let block = usize::try_from(BLOCK).map_err(too_long)?;
    let mut memory = vec![0; length + block];
    let begin = memory.as_ptr().align_offset(block);
    let Some(into) = memory.get_mut(begin..begin.saturating_add(length)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let read = rustix::io::pread(file, &mut *into, at)?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(into.to_vec())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    const SIZE: u64 = 1 << 20;

    fn part(disk: &[u8], at: u64, length: u64) -> Result<Vec<u8>, Infallible> {
        Ok(disk[at as usize..(at + length) as usize].to_vec())
    }

    #[test]
    fn a_path_to_another_disk_is_told_by_any_of_three_places() {
        let disk = vec![7; SIZE as usize];
        let same = |other: &[u8]| {
            let map = |at, length| part(&disk, at, length);
            has_the_same(SIZE, map, |at, length| part(other, at, length)).unwrap()
        };
        assert!(same(&disk));
        for at in [0, SIZE / 2, SIZE - 1] {
            let mut other = disk.clone();
            other[at as usize] = 8;
            assert!(!same(&other), "{at}");
        }
    }

    #[test]
    fn what_is_written_meanwhile_is_read_again() {
        // Each read through the map but the last finds other bytes than the one before.
        let reads = Cell::new(0);
        let map = |_, length: u64| {
            reads.set((reads.get() + 1).min(5));
            Ok::<_, Infallible>(vec![reads.get(); length as usize])
        };
        assert!(has_the_same(SIZE, map, |_, length| Ok(vec![5; length as usize])).unwrap());
        // One that never finds what the map has is left out, though the map never stands still.
        let reads = Cell::new(0_u8);
        let map = |_, length: u64| {
            reads.set(reads.get() + 1);
            Ok::<_, Infallible>(vec![reads.get(); length as usize])
        };
        assert!(!has_the_same(SIZE, map, |_, length| Ok(vec![0; length as usize])).unwrap());
    }

    #[test]
    fn a_place_that_cannot_be_read_is_told() {
        let good = |_, length: u64| Ok(vec![0; length as usize]);
        let bad = |at, length: u64| if at == 0 { Ok(vec![0; length as usize]) } else { Err(at) };
        assert!(has_the_same(SIZE, good, bad).is_err());
        assert!(has_the_same(SIZE, bad, good).is_err());
    }
}
