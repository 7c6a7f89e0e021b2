//! Files that are whole or not there.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use base::{Blake3, Uuid};
use ltfs::changes::{ChangeSegment, SEGMENT_BYTES_MAX};

use crate::error::BackupError;
use crate::layout::SegmentFile;

/// What a crash left of them is removed.
pub(crate) use journal::TEMPORARY;

/// Bytes copied or hashed at a time.
const COPY_BYTES: usize = 1 << 20;

/// Writes `directory/name`: after a crash it is whole or not there.
pub(crate) fn write_durable(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), BackupError> {
    journal::write_durable(directory, name, bytes)
        .map_err(|error| BackupError::at(&directory.join(name), "writing")(error))
}

/// Syncs the names in a directory.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), BackupError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(BackupError::at(directory, "syncing"))
}

/// Removes what a crash left half written.
pub(crate) fn remove_temporary(directory: &Path) -> Result<(), BackupError> {
    let failed = BackupError::at(directory, "tidying");
    for entry in fs::read_dir(directory).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        let is_temporary =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(TEMPORARY));
        if is_temporary {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(BackupError::at(&path, "removing"))?;
        }
    }
    Ok(())
}

/// Which side of a copy failed.
pub(crate) enum CopyError {
    Reading(io::Error),
    Writing(io::Error),
}

/// Length and BLAKE3 of a file; with `to` also its copy, not yet synced.
pub(crate) fn hash_file(path: &Path, mut to: Option<&mut File>) -> Result<(u64, Blake3), CopyError> {
    let mut file = File::open(path).map_err(CopyError::Reading)?;
    let (mut hasher, mut length) = (blake3::Hasher::new(), 0u64);
    let mut buffer = vec![0u8; COPY_BYTES];
    loop {
        let count = file.read(&mut buffer).map_err(CopyError::Reading)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
        if let Some(to) = to.as_deref_mut() {
            to.write_all(bytes).map_err(CopyError::Writing)?;
        }
        length += count as u64;
    }
    Ok((length, Blake3(*hasher.finalize().as_bytes())))
}

/// Reads a whole segment and lets `f` look at it once it agrees with its checksum, its name and `instance`.
pub(crate) fn read_segment<T>(
    segment: &SegmentFile,
    instance: Uuid,
    f: impl FnOnce(&ChangeSegment<'_>) -> T,
) -> Result<T, BackupError> {
    let mut bytes = Vec::new();
    let file = File::open(&segment.path);
    let read = file.and_then(|file| file.take(SEGMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|source| BackupError::UnreadableSegment {
        path: segment.path.clone(),
        first: segment.first,
        source,
    })?;
    let parsed = ChangeSegment::parse(&bytes).map_err(|source| BackupError::DamagedSegment {
        path: segment.path.clone(),
        first: segment.first,
        source,
    })?;
    if parsed.instance != instance || (parsed.first.0, parsed.last.0) != (segment.first, segment.last) {
        return Err(BackupError::WrongSegment { path: segment.path.clone() });
    }
    Ok(f(&parsed))
}
