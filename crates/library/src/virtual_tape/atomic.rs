//! Replacing small files: temporary file, write, fsync, rename, fsync of the directory.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Replaces `path` by `bytes`; after a crash it holds the old content or the new. Durable on return.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Replaces `path` by `bytes` without waiting for the disk: for files that carry a checksum and can be
/// rebuilt.
pub fn replace_lazily(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("idx-tmp");
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

/// Makes the entries of a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads a file of at most `limit` bytes; a longer one yields its first `limit + 1`.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
