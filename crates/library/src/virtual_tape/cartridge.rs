//! A loaded cartridge: its identity, memory and partitions, locked against other processes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use base::{ByteCount, Partition, Vid};

use super::atomic;
use super::error::CartridgeError;
use super::frame::Home;
use super::identity::{Identity, VirtualCartridgeOptions};
use super::memory::{Memory, VOLUME_CHANGE_REFERENCE};
use super::partition::PartitionFile;

/// A loaded cartridge. Dropping it closes it without a flush, as a loss of power would.
pub struct Cartridge {
    pub identity: Identity,
    pub memory: Memory,
    /// Whether a write or flush failed: nothing more is written then.
    pub poisoned: bool,
    directory: PathBuf,
    index: PartitionFile,
    data: PartitionFile,
    /// Whether the volume change reference rose since the load, and since it was last read: what is appended
    /// then belongs to the same change.
    raised: bool,
    _lock: CartridgeLock,
}

/// The lock of a cartridge. It is given up when this is dropped, and not only when the file is closed: a
/// program that another thread starts just then has a copy of the open file until it has replaced itself
/// (`fork`, then `exec`), and with it would have the lock.
pub struct CartridgeLock(File);

impl Drop for CartridgeLock {
    fn drop(&mut self) {
        // If it cannot, the close does it.
        let _ = self.0.unlock();
    }
}

/// Takes the lock of a cartridge: exclusive to load it, shared to read it aside.
pub fn lock(directory: &Path, vid: Vid, exclusive: bool) -> Result<CartridgeLock, CartridgeError> {
    let path = Identity::path(directory);
    let file = File::open(&path).map_err(CartridgeError::file(&path, "open"))?;
    let locked = if exclusive { file.try_lock() } else { file.try_lock_shared() };
    match locked {
        Ok(()) => Ok(CartridgeLock(file)),
        Err(TryLockError::WouldBlock) => Err(CartridgeError::Locked { vid }),
        Err(TryLockError::Error(error)) => Err(CartridgeError::file(&path, "lock")(error)),
    }
}

/// Makes the directory of a blank cartridge within `parent`: complete and durable on return, or not there.
pub fn create(
    parent: &Path,
    vid: Vid,
    capacity: ByteCount,
    options: &VirtualCartridgeOptions,
) -> Result<(), CartridgeError> {
    let directory = parent.join(vid.as_str());
    let unfinished = parent.join(format!("{vid}.new"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(CartridgeError::file(&unfinished, "remove"))?;
    }
    fs::create_dir(&unfinished).map_err(CartridgeError::file(&unfinished, "create"))?;
    for partition in [Partition::Index, Partition::Data] {
        PartitionFile::create(&unfinished, Home { vid, partition })?;
    }
    let memory = Memory::path(&unfinished);
    Memory::new(vid).write(&unfinished).map_err(CartridgeError::file(&memory, "write"))?;
    Identity::new(vid, capacity, options).write(&unfinished)?;
    fs::rename(&unfinished, &directory).map_err(CartridgeError::file(&directory, "create"))?;
    atomic::sync_directory(parent).map_err(CartridgeError::file(parent, "sync"))
}

impl Cartridge {
    /// Loads the cartridge of a directory.
    pub fn load(directory: &Path, vid: Vid) -> Result<Self, CartridgeError> {
        let lock = lock(directory, vid, true)?;
        let identity = Identity::read(directory, vid)?;
        let memory = match Memory::read(directory, vid) {
            // The memory only helps to find what the tape itself tells: without it the tape must stay
            // readable.
            Err(error) if error.is_loss() => Memory::new(vid),
            result => result?,
        };
        let writable = !identity.write_protected;
        let open = |partition| PartitionFile::load(directory, Home { vid, partition }, writable);
        Ok(Cartridge {
            index: open(Partition::Index)?,
            data: open(Partition::Data)?,
            identity,
            memory,
            poisoned: false,
            directory: directory.to_owned(),
            raised: false,
            _lock: lock,
        })
    }

    pub fn vid(&self) -> Vid {
        self.identity.vid
    }

    pub fn partition(&self, partition: Partition) -> &PartitionFile {
        match partition {
            Partition::Index => &self.index,
            Partition::Data => &self.data,
        }
    }

    pub fn partition_mut(&mut self, partition: Partition) -> &mut PartitionFile {
        match partition {
            Partition::Index => &mut self.index,
            Partition::Data => &mut self.data,
        }
    }

    /// Raises the volume change reference, durably, before the medium changes: with the first object written
    /// after a load or after the reference was read, and whenever objects are `lost` to a write or a format.
    pub fn note_change(&mut self, lost: bool) -> io::Result<()> {
        if lost || !self.raised {
            let next = self.memory.change_reference.saturating_add(1);
            let memory = Memory { change_reference: next, ..self.memory.clone() };
            memory.write(&self.directory)?;
            self.memory = memory;
            self.raised = true;
        }
        Ok(())
    }

    /// An attribute of the memory, as the host reads it. Who has read the volume change reference may have
    /// written down that the tape is as it is now: the next object written makes another one of it.
    pub fn read_attribute(&mut self, partition: Partition, id: u16) -> Option<Vec<u8>> {
        if id == VOLUME_CHANGE_REFERENCE {
            self.raised = false;
        }
        self.memory.get(partition, id)
    }

    /// Replaces the memory, durably.
    pub fn set_memory(&mut self, memory: Memory) -> io::Result<()> {
        memory.write(&self.directory)?;
        self.memory = memory;
        Ok(())
    }

    /// Makes both partitions durable.
    pub fn flush(&mut self) -> io::Result<()> {
        self.data.flush()?;
        self.index.flush()
    }

    /// Empties both partitions, durably.
    pub fn format(&mut self) -> io::Result<()> {
        for partition in [Partition::Data, Partition::Index] {
            let partition = self.partition_mut(partition);
            if partition.end().objects > 0 {
                partition.cut(0)?;
            }
        }
        Ok(())
    }

    /// Flushes and saves the indexes. What a failed write left behind is not promised and thus not flushed.
    pub fn unload(mut self) -> io::Result<()> {
        if self.poisoned || self.identity.write_protected {
            return Ok(());
        }
        self.flush()?;
        self.data.save_index();
        self.index.save_index();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: a cartridge that had just been unloaded could not be loaded (3/53/00), once in many runs: the
    /// test beside it started a program, which held a copy of all open files for a moment.
    #[test]
    fn a_copy_of_the_open_file_does_not_keep_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let vid = Vid::new("KT0001").unwrap();
        create(directory.path(), vid, ByteCount::mib(1), &VirtualCartridgeOptions::default()).unwrap();
        let directory = directory.path().join("KT0001");
        for exclusive in [true, false] {
            let held = lock(&directory, vid, exclusive).unwrap();
            assert!(matches!(lock(&directory, vid, true), Err(CartridgeError::Locked { .. })));
            let copy = held.0.try_clone().unwrap();
            drop(held);
            drop(lock(&directory, vid, true).unwrap());
            drop(copy);
        }
    }
}
