//! A block device, or a file of fixed size: slots one behind the other.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use drive::{DirectIo, PAGE};
use rustix::fs::OFlags;

use crate::medium::{Medium, forget, open_file, write_parts};

/// Where the first slot begins: the first superblock stands before it, and slots begin where erase blocks of
/// solid-state disks do.
const SLOTS_AT: u64 = 1 << 20;

pub(crate) struct Raw {
    file: File,
    direct: bool,
    bytes: u64,
    segment_bytes: AtomicU32,
}

impl Raw {
    /// Opens and locks it. A block device that is mounted, or otherwise in use, is busy.
    pub(crate) fn open(path: &Path, direct: DirectIo) -> io::Result<Raw> {
        let is_device = std::fs::metadata(path)?.file_type().is_block_device();
        let flags = if is_device { OFlags::EXCL } else { OFlags::empty() };
        let (mut file, direct) = open_file(path, direct, flags)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let bytes = file.seek(SeekFrom::End(0))? / PAGE as u64 * PAGE as u64;
        Ok(Raw { file, direct, bytes, segment_bytes: AtomicU32::new(0) })
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Bytes for slots.
    pub(crate) fn room(&self) -> u64 {
        self.bytes.saturating_sub(SLOTS_AT + PAGE as u64)
    }

    /// Whether nothing stands where a superblock, or that of a file system, would.
    pub(crate) fn is_blank(&self) -> io::Result<bool> {
        let length = usize::try_from(self.bytes.min(SLOTS_AT)).unwrap_or(0);
        let mut front = drive::AlignedBuffer::new(length);
        self.file.read_exact_at(front.as_mut_slice(), 0)?;
        Ok(front.as_slice().iter().all(|byte| *byte == 0))
    }

    fn superblock_at(&self, copy: usize) -> u64 {
        if copy == 0 { 0 } else { self.bytes.saturating_sub(PAGE as u64) }
    }

    fn at(&self, slot: u32, offset: u32) -> u64 {
        SLOTS_AT + u64::from(slot) * u64::from(self.segment_bytes.load(Ordering::Relaxed)) + u64::from(offset)
    }
}

impl Medium for Raw {
    fn fit(&self, segment_bytes: u32, slots: u32) -> Result<(), u64> {
        self.segment_bytes.store(segment_bytes, Ordering::Relaxed);
        let needed = u64::from(slots) * u64::from(segment_bytes);
        if needed <= self.room() { Ok(()) } else { Err(self.bytes) }
    }

    fn read_superblock(&self, copy: usize, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, self.superblock_at(copy))
    }

    fn write_superblock(&self, copy: usize, page: &[u8]) -> io::Result<()> {
        write_parts(&self.file, self.direct, self.superblock_at(copy), &[page])
    }

    fn make(&self, _slot: u32) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, slot: u32, offset: u32, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, self.at(slot, offset))
    }

    fn write(&self, slot: u32, offset: u32, parts: &[&[u8]]) -> io::Result<()> {
        write_parts(&self.file, self.direct, self.at(slot, offset), parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn forget_cached(&self, slot: u32) {
        forget(&self.file, self.at(slot, 0), u64::from(self.segment_bytes.load(Ordering::Relaxed)));
    }
}
