//! Condemned trees against the directories that they name.

use base::{ByteCount, DirId};

use super::Check;
use crate::error::ReadError;
use crate::record::{Counter, TreeRecord};
use crate::table::Table;

impl Check<'_> {
    /// That a tree has a directory until it has ended, and none from then on. That the directory has no name
    /// is told with the directories.
    pub(super) fn trees(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Tree, |check, mut parts, key, tree: TreeRecord| {
            let id = DirId(parts.u64()?);
            let is_there = check.view.directory(id)?.is_some();
            match tree.ended {
                None => {
                    check.count(Counter::Trees, ByteCount(0));
                    check.expect(is_there, Table::Tree, key, "the directory does not exist");
                }
                Some(_) => check.expect(!is_there, Table::Tree, key, "the directory was not removed"),
            }
            Ok(())
        })
    }
}
