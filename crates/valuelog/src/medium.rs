//! What a store stands on: numbered slots of one size, and a superblock that is kept twice.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use drive::{AlignedBuffer, DirectIo, PAGE};
use rustix::fs::{Advice, OFlags, fadvise};

/// All that the store does to a disk. Offsets and lengths are whole pages.
pub trait Medium: Send + Sync {
    /// Says how large segments are and how many; before any other call but those of the superblock.
    ///
    /// # Errors
    /// If there is not so much room as there was: what there is, in bytes.
    fn fit(&self, segment_bytes: u32, slots: u32) -> Result<(), u64>;
    /// Reads one of the two superblocks.
    ///
    /// # Errors
    /// As the operating system says.
    fn read_superblock(&self, copy: usize, into: &mut [u8]) -> io::Result<()>;
    /// Writes one of the two superblocks; durable after [`Medium::sync`].
    ///
    /// # Errors
    /// As the operating system says.
    fn write_superblock(&self, copy: usize, page: &[u8]) -> io::Result<()>;
    /// Makes a slot ready to be written, whatever is in it.
    ///
    /// # Errors
    /// As the operating system says; nothing is half done.
    fn make(&self, slot: u32) -> io::Result<()>;
    /// Reads from a slot.
    ///
    /// # Errors
    /// As the operating system says.
    fn read(&self, slot: u32, offset: u32, into: &mut [u8]) -> io::Result<()>;
    /// Writes parts one behind the other into a slot; durable after [`Medium::sync`].
    ///
    /// # Errors
    /// As the operating system says.
    fn write(&self, slot: u32, offset: u32, parts: &[&[u8]]) -> io::Result<()>;
    /// Makes durable all that was written when it was called.
    ///
    /// # Errors
    /// As the operating system says; what was written before may be lost then.
    fn sync(&self) -> io::Result<()>;
    /// Has the next reads of a slot come from the disk, as far as that is possible.
    fn forget_cached(&self, slot: u32);
}

/// Whether memory can be written past the page cache as it is.
fn is_aligned(part: &[u8]) -> bool {
    part.as_ptr().align_offset(PAGE) == 0 && part.len().is_multiple_of(PAGE)
}

/// Writes parts one behind the other. What cannot go past the page cache as it is goes there as a copy.
pub(crate) fn write_parts(file: &File, direct: bool, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if direct && !parts.iter().all(|part| is_aligned(part)) {
        let mut copy = AlignedBuffer::new(length);
        let mut at = 0;
        for part in parts {
            copy.as_mut_slice()[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        return file.write_all_at(copy.as_slice(), offset);
    }
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let written = loop {
        match rustix::io::pwritev(file.as_fd(), &slices, offset) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    // What is left of a short write goes part by part.
    let (mut at, end) = (0, offset + length as u64);
    for part in parts {
        let skip = written.saturating_sub(at).min(part.len());
        if skip < part.len() {
            file.write_all_at(&part[skip..], offset + (at + skip) as u64)?;
        }
        at += part.len();
    }
    debug_assert_eq!(offset + at as u64, end, "all parts were written");
    Ok(())
}

/// Opens a file to be read and written, past the page cache if that is wanted and works.
pub(crate) fn open_file(path: &Path, direct: DirectIo, flags: OFlags) -> io::Result<(File, bool)> {
    let open = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        File::options().read(true).write(true).custom_flags(flags).open(path)
    };
    if direct != DirectIo::Off {
        let opened = open(flags | OFlags::DIRECT);
        // Some file systems refuse at the first transfer.
        let works = opened.as_ref().is_ok_and(|file| {
            let mut page = AlignedBuffer::new(PAGE);
            file.read_at(page.as_mut_slice(), 0).is_ok()
        });
        if works {
            return opened.map(|file| (file, true));
        }
        let is_otherwise = |error: &io::Error| error.kind() != io::ErrorKind::InvalidInput;
        if opened.as_ref().err().is_some_and(is_otherwise) {
            return opened.map(|file| (file, false));
        }
        if direct == DirectIo::On {
            return Err(io::ErrorKind::Unsupported.into());
        }
    }
    open(flags).map(|file| (file, false))
}

/// Drops what the page cache has of a file.
pub(crate) fn forget(file: &File, offset: u64, bytes: u64) {
    // Only a hint: a file system without a cache has nothing to drop.
    let _ = fadvise(file, offset, std::num::NonZeroU64::new(bytes), Advice::DontNeed);
}
