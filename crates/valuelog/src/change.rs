//! Puts and deletes as callers give them, and the rule by which one may replace what stands there.

use std::collections::BTreeMap;

use crate::error::LogError;
use crate::index::Index;
use crate::limits::{KEY_BYTES_MAX, TAG_BYTES_MAX, VERSION_BYTES_MAX};
use crate::record::{Kind, Shape, checksums_of};
use crate::segment::TableEntry;

/// What must stand at a key for a change to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected<'a> {
    /// An entry with this version. For a put, an empty version also means that there is none.
    Version(&'a [u8]),
    /// Whatever stands there, and for a delete also nothing.
    Any,
}

/// When a change is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// When the call returns. Calls at the same time share a sync.
    Through,
    /// After the next flush, or within the time and bytes of the settings.
    Back,
}

/// Stores a value.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The version that the entry gets: bytes that mean nothing to the store.
    pub version: &'a [u8],
    /// What the caller protects the value with; kept as it is.
    pub tag: &'a [u8],
    /// What kind of tag it is; kept as it is.
    pub algorithm: i32,
    /// What must stand there.
    pub expected: Expected<'a>,
}

/// Removes a key.
#[derive(Clone, Copy, Debug)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What must stand there.
    pub expected: Expected<'a>,
}

/// A change of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Stores a value.
    Put(Put<'a>),
    /// Removes a key.
    Delete(Delete<'a>),
}

/// The name space of keys of users.
pub(crate) const USER: u8 = 0;
/// That of what the owner of the store keeps for itself.
pub(crate) const OWN: u8 = 1;

/// A key with its name space.
pub(crate) fn spaced(space: u8, key: &[u8]) -> Vec<u8> {
    let mut spaced = Vec::with_capacity(key.len() + 1);
    spaced.push(space);
    spaced.extend_from_slice(key);
    spaced
}

/// A change that is within the limits, with the checksums of its value.
pub(crate) struct Prepared<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: Vec<u8>,
    pub(crate) value: &'a [u8],
    pub(crate) version: &'a [u8],
    pub(crate) tag: &'a [u8],
    pub(crate) algorithm: i32,
    pub(crate) checksums: Vec<u8>,
    expected: Expected<'a>,
}

fn check_length(what: &'static str, length: usize, most: usize) -> Result<(), LogError> {
    if length <= most { Ok(()) } else { Err(LogError::TooLarge { what, length, most }) }
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), LogError> {
    if key.is_empty() {
        return Err(LogError::EmptyKey);
    }
    check_length("bytes of a key", key.len(), KEY_BYTES_MAX)
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(space: u8, change: &Change<'a>, value_max: usize) -> Result<Self, LogError> {
        match *change {
            Change::Put(put) => {
                check_key(put.key)?;
                check_length("bytes of a version", put.version.len(), VERSION_BYTES_MAX)?;
                check_length("bytes of a tag", put.tag.len(), TAG_BYTES_MAX)?;
                check_length("bytes of a value", put.value.len(), value_max)?;
                Ok(Prepared {
                    kind: Kind::Put,
                    key: spaced(space, put.key),
                    value: put.value,
                    version: put.version,
                    tag: put.tag,
                    algorithm: put.algorithm,
                    checksums: checksums_of(put.value),
                    expected: put.expected,
                })
            }
            Change::Delete(delete) => {
                check_key(delete.key)?;
                Ok(Prepared {
                    kind: Kind::Delete,
                    key: spaced(space, delete.key),
                    value: &[],
                    version: &[],
                    tag: &[],
                    algorithm: 0,
                    checksums: Vec::new(),
                    expected: delete.expected,
                })
            }
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape {
            key: self.key.len(),
            version: self.version.len(),
            tag: self.tag.len(),
            value: self.value.len(),
        }
    }

    /// As the table of a segment has it.
    pub(crate) fn table_entry(&self, offset: u32, number: u64) -> TableEntry<'_> {
        TableEntry {
            kind: self.kind,
            algorithm: self.algorithm,
            offset,
            value_bytes: u32::try_from(self.value.len()).unwrap_or(u32::MAX),
            sequence: number,
            append: number,
            key: &self.key,
            version: self.version,
            tag: self.tag,
        }
    }

    /// Whether it may be made over what stands there: the version of the entry, if there is one.
    fn check(&self, stands: Option<&[u8]>) -> Result<(), LogError> {
        let (version, is_put) = match (stands, self.kind) {
            (Some(version), _) => (version, true),
            (None, Kind::Put) => (&[][..], true),
            (None, _) => (&[][..], false),
        };
        match self.expected {
            Expected::Any => Ok(()),
            Expected::Version(_) if !is_put => Err(LogError::NotFound),
            Expected::Version(expected) if expected == version => Ok(()),
            Expected::Version(_) => Err(LogError::VersionMismatch),
        }
    }
}

/// Whether all changes may be made in their order, each over what those before it leave; else the place of
/// the first that may not. Gives for each whether it needs a record: a delete of nothing does not.
///
/// In a batch it does as long as there is a tombstone: the record of that one may be lost in a crash which
/// the batch survives.
pub(crate) fn check_all(
    changes: &[Prepared<'_>],
    is_batch: bool,
    index: &Index,
) -> Result<Vec<bool>, (usize, LogError)> {
    let mut left: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    let mut are_done = Vec::with_capacity(changes.len());
    for (place, change) in changes.iter().enumerate() {
        let key = change.key.as_slice();
        let stands = left.entry(key).or_insert_with(|| index.get(key).map(|entry| entry.version()));
        change.check(*stands).map_err(|error| (place, error))?;
        let is_put = change.kind == Kind::Put;
        are_done.push(is_put || stands.is_some() || (is_batch && index.has_tombstone(key)));
        *stands = is_put.then_some(change.version);
    }
    Ok(are_done)
}
