//! The files of a directory drive: their names, how they are made and opened, and what errors mean.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ByteCount, DriveId};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::error::is_full;
use crate::lock::identity;
use crate::object::PAGE;
use crate::writer::FileExtentWriter;
use crate::{DriveError, ExtentId};

pub(crate) const EXTENTS: &str = "extents";
/// Where extents are written that replace others; what a crash left there is removed at opening.
pub(crate) const REPLACEMENTS: &str = "replacements";

/// What the drive, its writers and its queue share. The lock of the directory ends with the last of them.
pub(crate) struct Shared {
    pub(crate) id: DriveId,
    suspect: AtomicBool,
    // Held for its lock, which ends with the last descriptor; `None`: it is not there, or cannot be read.
    directory: Mutex<Option<File>>,
}

impl Shared {
    pub(crate) fn new(id: DriveId, directory: File) -> Arc<Self> {
        Arc::new(Shared { id, suspect: AtomicBool::new(false), directory: Mutex::new(Some(directory)) })
    }

    pub(crate) fn directory(&self) -> MutexGuard<'_, Option<File>> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By which the directory that is held is known again.
    pub(crate) fn held(&self) -> Option<(u64, u64)> {
        identity(self.directory().as_ref()?.metadata())
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    pub(crate) fn clear_suspect(&self) {
        self.suspect.store(false, Ordering::Relaxed);
    }
}

/// The files of a drive.
pub(crate) struct Files {
    pub(crate) shared: Arc<Shared>,
    pub(crate) path: PathBuf,
    /// Whether file data bypasses the page cache.
    pub(crate) direct: bool,
}

impl Files {
    pub(crate) fn bucket(&self, bucket: u8) -> PathBuf {
        self.path.join(EXTENTS).join(format!("{bucket:02x}"))
    }

    pub(crate) fn file(&self, id: ExtentId) -> PathBuf {
        self.bucket(id.bucket()).join(id.to_string())
    }

    pub(crate) fn failed(&self, extent: ExtentId, operation: &'static str, source: io::Error) -> DriveError {
        let drive = self.shared.id;
        match source.kind() {
            io::ErrorKind::NotFound => DriveError::NotFound { drive, extent },
            io::ErrorKind::AlreadyExists => DriveError::Exists { drive, extent },
            _ if is_full(&source) => DriveError::Full { drive, extent },
            _ => DriveError::Io { drive, extent, operation, source },
        }
    }

    /// The file of an extent that was to be read could not be opened.
    pub(crate) fn not_opened(&self, id: ExtentId, source: io::Error) -> DriveError {
        self.failed(id, "opening", source)
    }

    /// So many bytes could not be read from there.
    pub(crate) fn not_read(
        &self,
        id: ExtentId,
        offset: ByteCount,
        length: usize,
        source: io::Error,
    ) -> DriveError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => DriveError::Truncated {
                drive: self.shared.id,
                extent: id,
                end: ByteCount(offset.0.saturating_add(length as u64)),
            },
            _ => self.failed(id, "reading", source),
        }
    }

    /// Whether it can be read past the page cache.
    pub(crate) fn can_be_direct(&self, offset: ByteCount, into: &[u8]) -> bool {
        self.direct
            && into.as_ptr().align_offset(PAGE) == 0
            && into.len().is_multiple_of(PAGE)
            && offset.0.is_multiple_of(PAGE as u64)
    }

    /// [`crate::ObjectDrive::create`].
    pub(crate) fn create(
        &self,
        id: ExtentId,
        preallocate: ByteCount,
    ) -> Result<FileExtentWriter, DriveError> {
        self.writer(id, preallocate, self.file(id), None)
    }

    /// [`crate::ObjectDrive::replace`].
    pub(crate) fn replace(
        &self,
        id: ExtentId,
        preallocate: ByteCount,
    ) -> Result<FileExtentWriter, DriveError> {
        // A name of its own: the writer of an attempt that was given up may still live, and removes its file.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.path.join(REPLACEMENTS).join(format!("{id}.{number}"));
        self.writer(id, preallocate, temporary.clone(), Some((temporary, self.file(id))))
    }

    /// Makes the file of an extent under a name that is not taken.
    fn writer(
        &self,
        id: ExtentId,
        preallocate: ByteCount,
        name: PathBuf,
        rename: Option<(PathBuf, PathBuf)>,
    ) -> Result<FileExtentWriter, DriveError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(direct_flag(self.direct));
        let file = options.open(&name).map_err(|source| self.failed(id, "creation", source))?;
        let reserved = match reserve(&file, preallocate) {
            Ok(reserved) => reserved,
            Err(error) => {
                // The name is of no use without the space; if this fails too, it is garbage of this epoch.
                let _ = fs::remove_file(name);
                return Err(self.failed(id, "reserving space", error));
            }
        };
        Ok(FileExtentWriter {
            shared: Arc::clone(&self.shared),
            id,
            file,
            parent: self.bucket(id.bucket()),
            direct: self.direct,
            reserved,
            length: 0,
            name_is_durable: false,
            poisoned: false,
            rename,
        })
    }
}

/// Reserves space behind the end of a file, so that the length stays what was written; how much: a file
/// system that cannot do it is no error.
fn reserve(file: &File, bytes: ByteCount) -> io::Result<u64> {
    if bytes.0 == 0 {
        return Ok(0);
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes.0).map_err(io::Error::from) {
        Ok(()) => Ok(bytes.0),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(0),
        Err(error) => Err(error),
    }
}

pub(crate) fn direct_flag(direct: bool) -> i32 {
    if direct { OFlags::DIRECT.bits() as i32 } else { 0 }
}
