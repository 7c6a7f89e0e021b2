//! Reading in which order the files in the pool were used.

use base::{ClassId, FileId};

use super::View;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::{FileRecord, UseHour};
use crate::table::Table;

impl View<'_> {
    /// Files of a class in the pool that have bytes, the one first that was not used for longest; behind
    /// `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn by_use(
        &self,
        class: ClassId,
        after: Option<(UseHour, FileId)>,
        limit: usize,
    ) -> Result<Vec<(UseHour, FileId)>, ReadError> {
        let after = after.map(|(hour, file)| key::by_use(class, hour, file));
        self.rows_within(Table::ByUse, &key::class(class), after, limit, |mut parts, key, value| {
            let Nothing = frame::open(Table::ByUse, key, value)?;
            parts.u16()?;
            Ok((UseHour(parts.u32()?), FileId(parts.u64()?)))
        })
    }

    /// The hour in which a file in the pool was used last.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn last_use(&self, id: FileId, file: &FileRecord) -> Result<UseHour, ReadError> {
        let later = self.get(Table::LastUse, &key::file(id))?;
        Ok(later.unwrap_or_else(|| UseHour::of(file.created)))
    }

    /// Whether all files in the pool stand in the order of their use: it may be younger than they are.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_ordered_by_use(&self) -> Result<bool, ReadError> {
        Ok(self.holds(crate::Rule::OrderedByUse)? && self.by_use_behind()?.is_none())
    }

    /// Up to which file those were looked at that are older than the order, if they are not through.
    pub(crate) fn by_use_behind(&self) -> Result<Option<FileId>, ReadError> {
        self.get(Table::ByUseBehind, key::CLOCK)
    }

    /// Whether there is any file.
    pub(crate) fn has_files(&self) -> Result<bool, ReadError> {
        Ok(!self.rows(Table::File, &[], None, 1, |_, _, _| Ok(()))?.is_empty())
    }

    /// Where a file stands in the order of use; `None` if it does not.
    pub(crate) fn stands_by_use(&self, id: FileId, file: &FileRecord) -> Result<Option<UseHour>, ReadError> {
        let hour = self.last_use(id, file)?;
        Ok(self.has(Table::ByUse, &key::by_use(file.class, hour, id))?.then_some(hour))
    }
}
