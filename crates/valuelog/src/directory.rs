//! A directory of a file system: a file for each slot, made with all its room when it is first needed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use drive::{DirectIo, DirectoryLock, PAGE};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use threads::{Mutex, MutexGuard};

use crate::error::of_lock;
use crate::medium::{Medium, forget, open_file, write_parts};

const SUPERBLOCKS: [&str; 2] = ["store.kist", "store.copy"];
const SEGMENTS: &str = "segments";
/// Files that are kept open for reading.
const OPEN_FILES_MAX: usize = 128;

pub(crate) struct Directory {
    path: PathBuf,
    direct: DirectIo,
    is_direct: bool,
    segment_bytes: AtomicU32,
    superblocks: [File; 2],
    open: Mutex<HashMap<u32, Arc<File>>>,
    // Kept open until they are synced: a descriptor that is opened later may miss the error of a write.
    unsynced: Mutex<Unsynced>,
    // One sync at a time: who comes meanwhile waits for what the one before has taken.
    syncing: Mutex<()>,
    _lock: DirectoryLock,
}

#[derive(Default)]
struct Unsynced {
    files: HashMap<u32, Arc<File>>,
    superblocks: [bool; 2],
    names: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Directory {
    /// Makes what is not there yet of a store without its superblock.
    pub(crate) fn prepare(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)?;
        let _lock = DirectoryLock::take(path).map_err(of_lock)?;
        match fs::create_dir(path.join(SEGMENTS)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for name in SUPERBLOCKS {
            let file =
                File::options().create(true).truncate(false).write(true).mode(0o600).open(path.join(name))?;
            file.set_len(PAGE as u64)?;
            file.sync_all()?;
        }
        File::open(path)?.sync_all()?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        above.map_or(Ok(()), |above| File::open(above)?.sync_all())
    }

    /// Whether nothing is in the directory, or nothing but what a call that was killed has prepared.
    pub(crate) fn is_blank(path: &Path) -> io::Result<bool> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let is_hollow = name == SEGMENTS && fs::read_dir(entry.path())?.next().is_none();
            let is_zero = SUPERBLOCKS.iter().any(|known| name == *known)
                && fs::read(entry.path())?.iter().all(|byte| *byte == 0);
            if !is_hollow && !is_zero && name != "lost+found" {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn open(path: &Path, direct: DirectIo) -> io::Result<Directory> {
        let lock = DirectoryLock::take(path).map_err(of_lock)?;
        let (first, is_direct) = open_file(&path.join(SUPERBLOCKS[0]), direct, OFlags::empty())?;
        let (copy, _) = open_file(&path.join(SUPERBLOCKS[1]), direct, OFlags::empty())?;
        Ok(Directory {
            path: path.to_owned(),
            direct: if is_direct { direct } else { DirectIo::Off },
            is_direct,
            segment_bytes: AtomicU32::new(0),
            superblocks: [first, copy],
            open: Mutex::default(),
            unsynced: Mutex::default(),
            syncing: Mutex::default(),
            _lock: lock,
        })
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn name(&self, slot: u32) -> PathBuf {
        self.path.join(SEGMENTS).join(format!("{slot:08x}"))
    }

    fn file(&self, slot: u32) -> io::Result<Arc<File>> {
        if let Some(file) = locked(&self.open).get(&slot) {
            return Ok(Arc::clone(file));
        }
        let (file, is_direct) = open_file(&self.name(slot), self.direct, OFlags::empty())?;
        debug_assert_eq!(is_direct, self.is_direct, "all files of a directory are alike");
        let file = Arc::new(file);
        let mut open = locked(&self.open);
        if open.len() >= OPEN_FILES_MAX {
            open.clear();
        }
        open.insert(slot, Arc::clone(&file));
        Ok(file)
    }
}

impl Medium for Directory {
    fn fit(&self, segment_bytes: u32, _slots: u32) -> Result<(), u64> {
        self.segment_bytes.store(segment_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn read_superblock(&self, copy: usize, into: &mut [u8]) -> io::Result<()> {
        self.superblocks[copy].read_exact_at(into, 0)
    }

    fn write_superblock(&self, copy: usize, page: &[u8]) -> io::Result<()> {
        write_parts(&self.superblocks[copy], self.is_direct, 0, &[page])?;
        locked(&self.unsynced).superblocks[copy] = true;
        Ok(())
    }

    fn make(&self, slot: u32) -> io::Result<()> {
        let name = self.name(slot);
        let bytes = u64::from(self.segment_bytes.load(Ordering::Relaxed));
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&name)?;
        let reserved = match fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => file.set_len(bytes),
            reserved => reserved,
        };
        if let Err(error) = reserved.and_then(|()| file.sync_all()) {
            // Without its room it is of no use; the next attempt makes it again.
            let _ = fs::remove_file(name);
            return Err(error);
        }
        locked(&self.unsynced).names = true;
        Ok(())
    }

    fn read(&self, slot: u32, offset: u32, into: &mut [u8]) -> io::Result<()> {
        self.file(slot)?.read_exact_at(into, u64::from(offset))
    }

    fn write(&self, slot: u32, offset: u32, parts: &[&[u8]]) -> io::Result<()> {
        let file = self.file(slot)?;
        write_parts(&file, self.is_direct, u64::from(offset), parts)?;
        locked(&self.unsynced).files.insert(slot, file);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let _alone = locked(&self.syncing);
        let unsynced = std::mem::take(&mut *locked(&self.unsynced));
        for file in unsynced.files.values() {
            file.sync_data()?;
        }
        if unsynced.names {
            File::open(self.path.join(SEGMENTS))?.sync_all()?;
        }
        for (file, is_unsynced) in self.superblocks.iter().zip(unsynced.superblocks) {
            if is_unsynced {
                file.sync_data()?;
            }
        }
        Ok(())
    }

    fn forget_cached(&self, slot: u32) {
        if let Ok(file) = self.file(slot) {
            forget(&file, 0, 0);
        }
    }
}
