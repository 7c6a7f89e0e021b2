//! Reading what leaves the pool by itself, and how far lifecycle rules have come.

use std::collections::BTreeSet;

use base::{ByteCount, ClassId, ContainerId, DirId, FileId, TapeKey, Vid};

use super::View;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::frame;
use crate::key::{self, Key};
use crate::record::{ContainerCopy, ContainerRecord, LifecycleCursor, Rule, TapeRecord};
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

    /// Whether a rule holds.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn holds(&self, rule: Rule) -> Result<bool, ReadError> {
        self.has(Table::Rule, &key::rule(rule))
    }

    /// Bytes of a file that lie in containers, if all of these have all their copies under an index; `None`
    /// if one has not. With all its bytes a file is safe on its tapes.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn safe_on_tape(&self, file: FileId) -> Result<Option<ByteCount>, ReadError> {
        let mut covered = 0u64;
        for (container, member) in self.parts(file)? {
            let record: ContainerRecord = self.expect(Table::Container, &key::container(container))?;
            if !record.is_safe() {
                return Ok(None);
            }
            covered += member.length.0;
        }
        Ok(Some(ByteCount(covered)))
    }

    /// A part of a file of which no copy under an index is on a tape that can give it ([`View::can_give`]),
    /// and the tapes that have one: without the pool nothing could read it now. `None`: tapes can give every
    /// part.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn not_given(&self, file: FileId) -> Result<Option<(ContainerId, Vec<Vid>)>, ReadError> {
        for (container, _) in self.parts(file)? {
            let record: ContainerRecord = self.expect(Table::Container, &key::container(container))?;
            let vids: Vec<Vid> = record.copies.iter().flat_map(ContainerCopy::safe_on).collect();
            if !self.one_can_give(&vids)? {
                return Ok(Some((container, vids)));
            }
        }
        Ok(None)
    }

    /// Whether one of these tapes can give what stands on it ([`View::can_give`]).
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn one_can_give(&self, vids: &[Vid]) -> Result<bool, ReadError> {
        for vid in vids {
            let tape: TapeRecord = self.expect(Table::Tape, &key::tape(*vid))?;
            if self.can_give(&tape)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys on whose being at hand it depends that tapes can give a file ([`View::not_given`]): whoever
    /// gives up what the pool has of it asks for them first.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn keys_counted_on(&self, file: FileId) -> Result<BTreeSet<TapeKey>, ReadError> {
        let mut keys = BTreeSet::new();
        for (container, _) in self.parts(file)? {
            let record: ContainerRecord = self.expect(Table::Container, &key::container(container))?;
            keys.append(&mut self.keys_of_those(record.copies.iter().flat_map(ContainerCopy::safe_on))?);
        }
        Ok(keys)
    }

    /// The same of what any of these tapes can give: none if one of them does so without a key.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn keys_of_those(&self, vids: impl IntoIterator<Item = Vid>) -> Result<BTreeSet<TapeKey>, ReadError> {
        let mut keys = BTreeSet::new();
        for vid in vids {
            let tape: TapeRecord = self.expect(Table::Tape, &key::tape(vid))?;
            match (self.can_give(&tape)?, tape.key) {
                (true, None) => return Ok(BTreeSet::new()),
                (true, Some(key)) => drop(keys.insert(key)),
                (false, _) => {}
            }
        }
        Ok(keys)
    }

    /// Whether members of containers may have to leave the pool now: `EvictCold` has something to do.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn has_cold_work(&self) -> Result<bool, ReadError> {
        Ok(!self.cold(1)?.is_empty() || self.back_in_use()?.is_some())
    }

    /// A tape that can give again what it has, and whose containers wait for that.
    pub(crate) fn back_in_use(&self) -> Result<Option<Vid>, ReadError> {
        let mut from = Key::new();
        loop {
            let vids = self.rows(Table::ColdWait, &from, None, 1, |mut parts, _, _| parts.vid())?;
            let Some(&vid) = vids.first() else { return Ok(None) };
            if self.tape(vid)?.map_or(Ok(true), |tape| self.can_give(&tape))? {
                return Ok(Some(vid));
            }
            assert!(*from <= *key::tape(vid), "each tape is looked at once");
            from = key::behind(key::cold_wait(vid, ContainerId(u64::MAX)));
        }
    }

    /// Containers that wait for a tape to give again what it has, at most `limit`.
    pub(crate) fn cold_waits(&self, vid: Vid, limit: usize) -> Result<Vec<ContainerId>, ReadError> {
        self.rows_within(Table::ColdWait, vid.as_bytes(), None, limit, |mut parts, key, value| {
            let Nothing = frame::open(Table::ColdWait, key, value)?;
            parts.vid()?;
            Ok(ContainerId(parts.u64()?))
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
