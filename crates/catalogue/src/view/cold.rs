//! Reading what leaves the pool by itself, and how far lifecycle rules have come.

use base::{ByteCount, ClassId, ContainerId, DirId};

use super::View;
use crate::error::ReadError;
use crate::frame;
use crate::key::{self, Key};
use crate::record::LifecycleCursor;
use crate::table::Table;

impl View<'_> {
    /// Whether files of a class leave the pool by themselves.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_cold(&self, class: ClassId) -> Result<bool, ReadError> {
        self.has(Table::Residency, &key::class(class))
    }

    /// Whether there is any such class.
    pub(crate) fn has_cold(&self) -> Result<bool, ReadError> {
        Ok(!self.rows(Table::Residency, &[], None, 1, |_, _, _| Ok(()))?.is_empty())
    }

    /// Containers with all their copies whose members may have to leave the pool, at most `limit`, each with
    /// the offset from which its members were not looked at yet.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn cold(&self, limit: usize) -> Result<Vec<(ContainerId, ByteCount)>, ReadError> {
        self.rows(Table::Cold, &[], None, limit, |mut parts, key, value| {
            Ok((ContainerId(parts.u64()?), frame::open(Table::Cold, key, value)?))
        })
    }

    /// How far a rule of a bucket has come; `action` tells what it does, of those that one rule may do.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn lifecycle_cursor(
        &self,
        dir: DirId,
        rule: &str,
        action: u8,
    ) -> Result<Option<LifecycleCursor>, ReadError> {
        self.get(Table::Lifecycle, &key::lifecycle(dir, action, rule))
    }

    pub(crate) fn lifecycle_keys(&self, dir: DirId) -> Result<Vec<Key>, ReadError> {
        self.rows_within(Table::Lifecycle, &key::directory(dir), None, usize::MAX, |_, key, _| {
            Ok(key.to_vec())
        })
    }
}
