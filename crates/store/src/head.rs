//! The file `HEAD` beside LMDB's own: the number of the newest commit, written after it. LMDB falls back to
//! the commit before if the newest meta page is replaced by an older copy of itself; nothing in its file
//! can tell, this does.
//!
//! It is not synced, so that it costs no time: after a power failure it may be older than the tables, never
//! newer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Crc64;

pub(crate) const NAME: &str = "HEAD";
const MAGIC: &[u8; 8] = b"KISTHEAD";
const BYTES: usize = 24;

/// The open file, and what was written last by this process.
pub(crate) struct Head {
    file: File,
    /// 0: nothing yet.
    last: AtomicU64,
}

impl Head {
    pub(crate) fn open(dir: &Path) -> io::Result<Head> {
        let file = File::options().create(true).truncate(false).write(true).open(dir.join(NAME))?;
        Ok(Head { file, last: AtomicU64::new(0) })
    }

    /// `[magic 8][commit u64 LE][CRC-64/NVME u64 LE of the 16 before]`. A failure is no reason to refuse
    /// what is committed.
    pub(crate) fn write(&self, commit: u64) {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&commit.to_le_bytes());
        let checksum = Crc64::of(&bytes[..16]).0.to_le_bytes();
        bytes[16..].copy_from_slice(&checksum);
        assert_eq!(commit_in(&bytes), Some(commit), "what is written is what a start reads");
        assert!(commit > self.last(), "the newest commit only rises");
        let _ = self.file.write_all_at(&bytes, 0);
        self.last.store(commit, Ordering::SeqCst);
    }

    /// The newest commit of this process; 0 if there was none.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }
}

/// The commit that the file names; `None` if there is no file, or what it says was torn by a power failure.
pub(crate) fn newest_commit(dir: &Path) -> io::Result<Option<u64>> {
    let bytes = match std::fs::read(dir.join(NAME)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(bytes) = <[u8; BYTES]>::try_from(bytes) else { return Ok(None) };
    Ok(commit_in(&bytes))
}

fn commit_in(bytes: &[u8; BYTES]) -> Option<u64> {
    let is_sound = bytes[..8] == *MAGIC && Crc64::of(&bytes[..16]).0.to_le_bytes() == bytes[16..];
    is_sound.then(|| u64::from_le_bytes(std::array::from_fn(|at| bytes[8 + at])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_commit_is_read_back_and_damage_is_no_witness() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(newest_commit(dir.path()).unwrap(), None);
        let head = Head::open(dir.path()).unwrap();
        assert_eq!(newest_commit(dir.path()).unwrap(), None);
        head.write(7);
        head.write(8);
        assert_eq!(newest_commit(dir.path()).unwrap(), Some(8));
        let mut bytes = std::fs::read(dir.path().join(NAME)).unwrap();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(dir.path().join(NAME), &bytes).unwrap();
            assert_eq!(newest_commit(dir.path()).unwrap(), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
