//! Memory that other processes can map, too.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// A fixed number of bytes in memory, zeroed when made, that processes of the same user can open as a file
/// and map. Nothing is left behind when it is dropped or the process dies.
pub struct SharedMemory {
    file: OwnedFd,
    address: NonNull<u8>,
    length: usize,
}

impl SharedMemory {
    /// Makes memory of `length` bytes, at least 1. Its pages come when they are touched.
    pub fn new(length: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("kist", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        // No other process can cut the file short and so turn a read of this one into a signal.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses, of a file that keeps its length.
        let address =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, &file, 0)? };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { file, address, length })
    }

    /// The bytes, to be read and changed.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length and lasts as long as `self`, which is borrowed exclusively.
        // Other processes learn of the memory within `lend` only, where no such borrow can exist, and are
        // bound to leave it alone afterwards.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.length) }
    }

    /// Lets other processes use the memory while `work` runs, which is given the path that they open. When it
    /// returns they must have stopped to write; they may keep their mapping.
    pub fn lend<R>(&mut self, work: impl FnOnce(&Path) -> R) -> R {
        work(&PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no borrow of it is left.
        let unmapped = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours is unmapped");
    }
}

// SAFETY: the address is that of a mapping of the whole process, used through `self` alone.
unsafe impl Send for SharedMemory {}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} B)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_opening_of_the_file_sees_and_changes_the_bytes() {
        let mut memory = SharedMemory::new(10_000).unwrap();
        assert!(memory.bytes().iter().all(|byte| *byte == 0) && memory.bytes().len() == 10_000);
        memory.bytes()[9_999] = 7;
        memory.lend(|path| {
            let mut bytes = std::fs::read(path).unwrap();
            assert_eq!((bytes.len(), bytes[9_999]), (10_000, 7));
            bytes[0] = 3;
            let file = std::fs::File::options().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_at(&file, &bytes, 0).unwrap();
            assert!(file.set_len(1).is_err(), "nobody can cut it short");
        });
        assert_eq!((memory.bytes()[0], memory.bytes()[9_999]), (3, 7));
    }

    #[test]
    fn no_bytes_at_all_are_refused() {
        assert!(SharedMemory::new(0).is_err());
    }
}
