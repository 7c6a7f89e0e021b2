//! Whether a restored catalogue was compared with pool and tapes, for those who must wait for it.

use base::{ArchivePath, FileId};
use pool::{Depth, PieceState};

use crate::{ArchiveError, Ground};

/// How far the settling of a restored catalogue is. A catalogue that was not restored is settled.
pub trait Settled: Send + Sync {
    /// Whether nothing of the pool may be removed, moved or repaired yet.
    fn holds_pool(&self) -> bool;

    /// Whether tapes that have not been looked at may have what the catalogue lacks.
    fn waits_for_tapes(&self) -> bool;

    /// Those of the files of which it is not known yet whether the pool has them.
    fn doubted(&self, files: &[FileId]) -> Vec<FileId>;
}

impl Ground {
    /// Refuses files that are in the pool by the catalogue's word alone, which nobody has looked for yet or
    /// has found: who asks for them must not be told that they are there.
    pub fn check_online(&self, files: &[FileId]) -> Result<(), ArchiveError> {
        for id in self.settled.doubted(files) {
            let Some(file) = self.read(|view| view.file(id))? else { continue };
            for piece in &file.pieces {
                let blob = self.read(|view| view.blob(piece.blob))?;
                let state =
                    blob.map(|blob| self.pool.verify_piece(&blob, piece, Depth::Headers)).transpose()?;
                if matches!(state, None | Some(PieceState::Gone))
                    && let Some(path) = self.read(|view| view.path_of_file(id))?
                    && let Ok(path) = ArchivePath::new(&path)
                {
                    return Err(ArchiveError::NotSettled { path });
                }
            }
        }
        Ok(())
    }
}
