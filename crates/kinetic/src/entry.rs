//! What an entry is, and the one rule by which a write replaces another: compare and set on its version.

use std::collections::BTreeMap;

use base::Crc32c;
use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::code::{Algorithm, StatusCode, Synchronization};

/// All of an entry but its key and its value.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Metadata {
    /// The version: bytes that mean nothing to a device.
    pub version: Bytes,
    /// What protects the value.
    pub tag: Bytes,
    /// What kind of tag it is.
    pub algorithm: Option<Algorithm>,
}

/// Stores a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Put {
    /// The key.
    pub key: Bytes,
    /// What the entry will carry.
    pub metadata: Metadata,
    /// Which version stands there now; empty: none, or an empty one.
    pub db_version: Bytes,
    /// Whatever stands there.
    pub force: bool,
    /// When it is durable.
    pub synchronization: Synchronization,
    /// The value.
    pub value: Bytes,
}

/// Removes a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delete {
    /// The key.
    pub key: Bytes,
    /// Which version stands there now.
    pub db_version: Bytes,
    /// Whatever stands there, and if nothing does.
    pub force: bool,
    /// When it is durable.
    pub synchronization: Synchronization,
}

/// Whether a put may replace what stands there: the version of the entry, or `None` if there is none.
///
/// Without `force`, the version given must be the one that stands there, byte for byte. Where there is no
/// entry, an empty version must be given; an entry with an empty version is replaced by giving that.
pub fn check_put(stands: Option<&[u8]>, put: &Put) -> Result<(), StatusCode> {
    is_expected(stands.unwrap_or_default(), &put.db_version, put.force)
}

/// Whether a delete may remove what stands there. A missing key is [`StatusCode::NotFound`], with `force`
/// it is a success.
pub fn check_delete(stands: Option<&[u8]>, delete: &Delete) -> Result<(), StatusCode> {
    match stands {
        None if delete.force => Ok(()),
        None => Err(StatusCode::NotFound),
        Some(version) => is_expected(version, &delete.db_version, delete.force),
    }
}

fn is_expected(stands: &[u8], given: &[u8], force: bool) -> Result<(), StatusCode> {
    if force || stands == given { Ok(()) } else { Err(StatusCode::VersionMismatch) }
}

/// A put or a delete of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Stores a value.
    Put(Put),
    /// Removes a key.
    Delete(Delete),
}

impl Change {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match self {
            Change::Put(put) => &put.key,
            Change::Delete(delete) => &delete.key,
        }
    }

    /// Bytes of its value.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        match self {
            Change::Put(put) => put.value.len() as u64,
            Change::Delete(_) => 0,
        }
    }

    /// Whether it may be made over what stands there.
    pub fn check(&self, stands: Option<&[u8]>) -> Result<(), StatusCode> {
        match self {
            Change::Put(put) => check_put(stands, put),
            Change::Delete(delete) => check_delete(stands, delete),
        }
    }

    /// The version that stands there once it is made.
    #[must_use]
    pub fn leaves(&self) -> Option<&Bytes> {
        match self {
            Change::Put(put) => Some(&put.metadata.version),
            Change::Delete(_) => None,
        }
    }
}

/// Whether all changes of a batch may be made, in their order: each sees what those before it leave. Else
/// the place of the first that may not, and why. `stands` says the version of what stands at a key.
pub fn check_batch<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    mut stands: impl FnMut(&[u8]) -> Option<Bytes>,
) -> Result<(), (usize, StatusCode)> {
    let mut left: BTreeMap<&[u8], Option<Bytes>> = BTreeMap::new();
    for (place, change) in changes.into_iter().enumerate() {
        let key = change.key().as_ref();
        let version = left.entry(key).or_insert_with(|| stands(key));
        change.check(version.as_deref()).map_err(|code| (place, code))?;
        *version = change.leaves().cloned();
    }
    Ok(())
}

/// What a tag says of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagCheck {
    /// It agrees.
    Agrees,
    /// It does not: the value is not the one that was written.
    Differs,
    /// It cannot be checked: no tag, or of a kind that only its writer knows.
    Unknown,
}

/// Checks a value by its tag, as a media scan does. Known are SHA-1 (20 bytes) and CRC-32C (4 bytes,
/// big-endian); number 4 is CRC32 in the list of version 3.0.6, so a tag of that number and of another
/// length is not ours to judge.
#[must_use]
pub fn check_tag(metadata: &Metadata, value: &[u8]) -> TagCheck {
    let agrees = match metadata.algorithm {
        Some(Algorithm::CRC32C) if metadata.tag.len() == 4 => metadata.tag == crc32c_tag(value),
        Some(Algorithm::SHA1) if metadata.tag.len() == 20 => metadata.tag == Sha1::digest(value).as_slice(),
        _ => return TagCheck::Unknown,
    };
    if agrees { TagCheck::Agrees } else { TagCheck::Differs }
}

/// The tag of a value for [`Algorithm::CRC32C`]: four bytes, big-endian.
#[must_use]
pub fn crc32c_tag(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Crc32c::of(value).0.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn put(key: &'static str, from: &'static str, to: &'static str, force: bool) -> Put {
        Put {
            key: Bytes::from_static(key.as_bytes()),
            metadata: Metadata { version: Bytes::from_static(to.as_bytes()), ..Metadata::default() },
            db_version: Bytes::from_static(from.as_bytes()),
            force,
            synchronization: Synchronization::WriteThrough,
            value: Bytes::new(),
        }
    }

    fn delete(key: &'static str, from: &'static str, force: bool) -> Delete {
        let (key, db_version) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(from.as_bytes()));
        Delete { key, db_version, force, synchronization: Synchronization::WriteThrough }
    }

    #[test]
    fn compare_and_set() {
        use StatusCode::{NotFound, VersionMismatch};
        type Stands = Option<&'static [u8]>;
        let (none, empty, one): (Stands, Stands, Stands) = (None, Some(b""), Some(b"1"));
        for (stands, given, force, of_put, of_delete) in [
            (none, "", false, Ok(()), Err(NotFound)),
            (none, "1", false, Err(VersionMismatch), Err(NotFound)),
            (none, "1", true, Ok(()), Ok(())),
            (empty, "", false, Ok(()), Ok(())),
            (empty, "1", false, Err(VersionMismatch), Err(VersionMismatch)),
            (one, "", false, Err(VersionMismatch), Err(VersionMismatch)),
            (one, "1", false, Ok(()), Ok(())),
            (one, "2", false, Err(VersionMismatch), Err(VersionMismatch)),
            (one, "2", true, Ok(()), Ok(())),
        ] {
            let case = (stands, given, force);
            assert_eq!(check_put(stands, &put("k", given, "n", force)), of_put, "{case:?}");
            assert_eq!(check_delete(stands, &delete("k", given, force)), of_delete, "{case:?}");
        }
    }

    #[test]
    fn a_batch_sees_what_it_did_before() {
        let chain = [
            Change::Put(put("a", "", "1", false)),
            Change::Put(put("a", "1", "2", false)),
            Change::Delete(delete("a", "2", false)),
            Change::Put(put("a", "", "3", false)),
        ];
        assert_eq!(check_batch(&chain, |_| None), Ok(()));
        let stood = |_: &[u8]| Some(Bytes::from_static(b"0"));
        assert_eq!(check_batch(&chain, stood), Err((0, StatusCode::VersionMismatch)));
        assert_eq!(check_batch(&chain[2..], |_| None), Err((0, StatusCode::NotFound)));
        let again = [Change::Put(put("a", "", "1", false)), Change::Put(put("a", "", "2", false))];
        assert_eq!(check_batch(&again, |_| None), Err((1, StatusCode::VersionMismatch)));
    }

    #[test]
    fn tags() {
        let of = |algorithm: Algorithm, tag: Bytes| {
            check_tag(&Metadata { tag, algorithm: Some(algorithm), ..Metadata::default() }, b"123456789")
        };
        let crc = Bytes::from_static(&[0xe3, 0x06, 0x92, 0x83]);
        assert_eq!(of(Algorithm::CRC32C, crc.clone()), TagCheck::Agrees, "the check value of CRC-32C");
        assert_eq!(of(Algorithm::CRC32C, Bytes::from_static(&[0; 4])), TagCheck::Differs);
        assert_eq!(of(Algorithm::CRC32C, Bytes::from_static(&[0; 8])), TagCheck::Unknown);
        assert_eq!(of(Algorithm::CRC32, crc), TagCheck::Unknown);
        let sha = Bytes::copy_from_slice(&Sha1::digest(b"123456789"));
        assert_eq!(of(Algorithm::SHA1, sha), TagCheck::Agrees);
        assert_eq!(of(Algorithm::SHA1, Bytes::from_static(&[0; 20])), TagCheck::Differs);
        assert_eq!(check_tag(&Metadata::default(), b""), TagCheck::Unknown);
    }
}
