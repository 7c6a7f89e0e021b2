//! The order in which the files in the pool were used.

use base::{ClassId, FileId};

use super::Check;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::record::{FileRecord, Rule, UseHour};
use crate::table::Table;

impl Check<'_> {
    /// A file in the pool stands in the order.
    pub(super) fn stands_by_use(
        &mut self,
        id: FileId,
        file: &FileRecord,
        key: &[u8],
    ) -> Result<(), ReadError> {
        let is_looked_at = self.view.by_use_behind()?.is_none_or(|behind| id <= behind);
        if file.has_data() && is_looked_at && self.view.holds(Rule::OrderedByUse)? {
            let stands = self.view.stands_by_use(id, file)?.is_some();
            self.expect(stands, Table::File, key, "the file in the pool does not stand by its use");
        }
        Ok(())
    }

    pub(super) fn by_use(&mut self) -> Result<(), ReadError> {
        self.walk(Table::ByUse, |check, mut parts, key, _: Nothing| {
            let (class, hour) = (ClassId(parts.u16()?), UseHour(parts.u32()?));
            let id = FileId(parts.u64()?);
            let is_right = match check.view.file(id)?.filter(|file| file.is_named() && file.is_online()) {
                Some(file) => {
                    file.has_data() && file.class == class && check.view.last_use(id, &file)? == hour
                }
                None => false,
            };
            check.expect(is_right, Table::ByUse, key, "no file in the pool was used last in this hour");
            Ok(())
        })?;
        self.walk(Table::LastUse, |check, mut parts, key, _: UseHour| {
            let id = FileId(parts.u64()?);
            let is_right = match check.view.file(id)? {
                Some(file) => check.view.stands_by_use(id, &file)?.is_some(),
                None => false,
            };
            check.expect(is_right, Table::LastUse, key, "the file does not stand by its use");
            Ok(())
        })?;
        self.walk(Table::ByUseBehind, |check, _, key, _: FileId| {
            let holds = check.view.holds(Rule::OrderedByUse)?;
            check.expect(holds, Table::ByUseBehind, key, "there is no order of use");
            Ok(())
        })
    }
}
