//! Cold classes and lifecycle rules.

use base::{ByteCount, ClassId, ContainerId, DirId};

use super::Check;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::key;
use crate::record::{LifecycleCursor, Rule};
use crate::table::Table;

impl Check<'_> {
    pub(super) fn cold(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Residency, |check, mut parts, key, _: Nothing| {
            let is_known = check.has_class(ClassId(parts.u16()?))?;
            check.expect(is_known, Table::Residency, key, "the class does not exist");
            Ok(())
        })?;
        self.walk(Table::Cold, |check, mut parts, key, _: ByteCount| {
            let is_known = check.view.container(ContainerId(parts.u64()?))?.is_some();
            check.expect(is_known, Table::Cold, key, "the container does not exist");
            Ok(())
        })?;
        self.walk(Table::ColdWait, |check, mut parts, key, _: Nothing| {
            // The container may be gone meanwhile: the row goes when the tape is in use again.
            let is_known = check.view.tape(parts.vid()?)?.is_some();
            check.expect(is_known, Table::ColdWait, key, "the tape does not exist");
            Ok(())
        })?;
        self.walk(Table::Rule, |check, _, key, _: Nothing| {
            let is_known = Rule::ALL.iter().any(|rule| key::rule(*rule) == key);
            check.expect(is_known, Table::Rule, key, "the rule is not known");
            Ok(())
        })?;
        self.walk(Table::Lifecycle, |check, mut parts, key, _: LifecycleCursor| {
            let is_known = check.view.directory(DirId(parts.u64()?))?.is_some();
            check.expect(is_known, Table::Lifecycle, key, "the directory does not exist");
            Ok(())
        })
    }
}
