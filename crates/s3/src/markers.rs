//! Keys that end with a slash: a directory that was put as an object of no bytes.

use archive::{ArchiveError, DirectoryStat, FileStat, Locality, Stat};
use base::{ByteCount, Checksums, FileId};
use catalogue::{Attributes, FileKind};
use s3s::S3ErrorCode;

use crate::answers::{Known, absent, bucket_exists, no_such_key};
use crate::context::{Failure, Guest};
use crate::keys::Place;
use crate::metadata::{self, text};

/// The MD5 of nothing.
pub(crate) const EMPTY_MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// The marker of a key.
pub(crate) fn find(guest: &Guest, place: &Place) -> Result<Known, Failure> {
    match guest.engine.stat(&place.path).map_err(|error| absent(guest, place, None, error))? {
        Stat::Directory(stat) if text(&stat.attributes, metadata::MARKER).is_some() => Ok(known(stat)),
        _ => Err(no_such_key(place)),
    }
}

fn known(stat: DirectoryStat) -> Known {
    let mut attributes = stat.attributes;
    attributes.xattrs.push((metadata::ETAG.to_owned(), EMPTY_MD5.as_bytes().to_vec()));
    let file = FileStat {
        path: stat.path,
        file: FileId(0),
        kind: FileKind::Regular,
        size: ByteCount(0),
        created: stat.created,
        attributes,
        checksums: Checksums::of(b""),
        class: String::new(),
        locality: Locality::Online,
        copies: Vec::new(),
        copies_wanted: 0,
        pins: Vec::new(),
    };
    Known { file, object: None, named: false }
}

/// Makes the marker, or marks a directory that is there; what an earlier put said of it is replaced.
pub(crate) fn put(guest: &Guest, place: &Place, attributes: Attributes) -> Result<(), Failure> {
    bucket_exists(guest, place)?;
    let wanted = attributes.xattrs.clone();
    match guest.engine.make_directory(&place.path, attributes, None, true) {
        Ok(()) | Err(ArchiveError::Exists(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let Stat::Directory(stat) = guest.engine.stat(&place.path)? else { return Err(no_such_key(place)) };
    let is_said = |name: &str| name.starts_with(metadata::TAG) || name.starts_with("user.");
    let there = &stat.attributes.xattrs;
    let old = there.iter().filter(|(name, _)| is_said(name) && wanted.iter().all(|(new, _)| new != name));
    let mut changes: Vec<_> = old.map(|(name, _)| (name.clone(), None)).collect();
    let new = wanted.iter().filter(|pair| !there.contains(pair));
    changes.extend(new.map(|(name, value)| (name.clone(), Some(value.clone()))));
    if changes.is_empty() {
        return Ok(());
    }
    Ok(guest.engine.set_xattrs(&place.path, archive::Which::Current, &changes)?)
}

/// Removes the marker: the directory with it, if nothing is in it, and those above made for it.
pub(crate) fn remove(guest: &Guest, place: &Place) -> Result<(), Failure> {
    match find(guest, place) {
        Ok(_) => {}
        Err(failure) if failure.0.code() == &S3ErrorCode::NoSuchKey => return bucket_exists(guest, place),
        // Whoever may not look has deleted nothing.
        Err(failure) => return Err(failure),
    }
    // A directory that is made for its objects only goes with the last of them: at once, if there is none.
    let unmark = [(metadata::MARKER.to_owned(), None), ("kist.implied".to_owned(), Some(b"1".to_vec()))];
    match guest.engine.set_xattrs(&place.path, archive::Which::Current, &unmark) {
        Err(ArchiveError::NotFound(_)) => Ok(()),
        other => Ok(other?),
    }
}
