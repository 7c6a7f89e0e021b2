//! Whether a restored catalogue was compared with pool and tapes, for those who must wait for it.

use base::FileId;

/// How far the settling of a restored catalogue is. A catalogue that was not restored is settled.
pub trait Settled: Send + Sync {
    /// Whether nothing of the pool may be removed, moved or repaired yet.
    fn holds_pool(&self) -> bool;

    /// Whether tapes that have not been looked at may have what the catalogue lacks.
    fn waits_for_tapes(&self) -> bool;

    /// Those of the files of which it is not known yet whether the pool has them.
    fn doubted(&self, files: &[FileId]) -> Vec<FileId>;
}
