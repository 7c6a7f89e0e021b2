//! Reading condemned trees.

use base::DirId;

use super::{DEPTH_MAX, View};
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::{Counter, DirectoryRecord, TreeRecord};
use crate::table::Table;

impl View<'_> {
    /// A condemned tree, also one that is gone, as long as it is remembered.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tree(&self, id: DirId) -> Result<Option<TreeRecord>, ReadError> {
        self.get(Table::Tree, &key::directory(id))
    }

    /// All condemned trees that are remembered, in the order of their directories' ids: at most
    /// [`TREES_MAX`](crate::TREES_MAX).
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn trees(&self) -> Result<Vec<(DirId, TreeRecord)>, ReadError> {
        self.rows(Table::Tree, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((DirId(parts.u64()?), frame::open(Table::Tree, key, value)?))
        })
    }

    /// Whether any tree is still being removed.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn has_condemned_trees(&self) -> Result<bool, ReadError> {
        Ok(self.tally(Counter::Trees)?.files > 0)
    }

    /// Whether a directory is, or stands in, a tree that is being removed: no path leads to it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_in_condemned_tree(&self, directory: DirId) -> Result<bool, ReadError> {
        Ok(self.has_condemned_trees()? && self.tree_above(directory)?.is_some())
    }

    /// The nearest condemned directory on the way up from one that is there, itself included.
    pub(crate) fn tree_above(&self, directory: DirId) -> Result<Option<DirId>, ReadError> {
        let mut at = directory;
        for _ in 0..DEPTH_MAX {
            if at == DirId::ROOT {
                return Ok(None);
            }
            if self.has(Table::Tree, &key::directory(at))? {
                return Ok(Some(at));
            }
            at = self.expect::<DirectoryRecord>(Table::Directory, &key::directory(at))?.parent;
        }
        Err(ReadError::inconsistent(Table::Directory, &key::directory(directory)))
    }
}
