//! Versions: what gives way to a new file, what a delete leaves, what becomes current again.
//!
//! An entry is the current version; rows of `version` are the older ones and the markers. If there is an
//! entry for a file it is newer than all rows of its name; if there is none, the newest row is a marker.

use base::{DirId, FileId, Name};

use super::{hold, lifecycle, namespace};
use crate::command::{Outcome, Removal};
use crate::draft::Draft;
use crate::error::Rejection;
use crate::key;
use crate::record::{BucketRecord, Entry, FileRecord, Version, Versioning};
use crate::table::Table;

/// What is told to those who wait for a file that was deleted.
const DELETED: &str = "the file was deleted";

/// The bucket of a directory, if it keeps versions.
pub(super) fn keeper(draft: &Draft<'_>, parent: DirId) -> Result<Option<BucketRecord>, Rejection> {
    let bucket = draft.view().bucket_of(parent)?;
    Ok(bucket.map(|(_, bucket)| bucket).filter(BucketRecord::keeps_versions))
}

fn put_row(draft: &mut Draft<'_>, parent: DirId, name: &Name, id: FileId, version: Version) {
    draft.put(Table::Version, key::version(parent, name.as_str(), id), &version);
}

fn remove_row(draft: &mut Draft<'_>, parent: DirId, name: &Name, id: FileId) {
    draft.remove(Table::Version, key::version(parent, name.as_str(), id));
}

/// Condemns a file by its id.
fn condemn(draft: &mut Draft<'_>, id: FileId, why: &'static str) -> Result<(), Rejection> {
    let file: FileRecord = draft.view().expect(Table::File, &key::file(id))?;
    lifecycle::condemn(draft, id, file, why)
}

/// Makes room for a new current version or marker, which the caller puts: the file that has the name is
/// kept as a version, or condemned if nothing keeps it, as is the version without a number that a new one
/// without a number replaces. Gives the file that is kept no more.
pub(super) fn give_way(
    draft: &mut Draft<'_>,
    (parent, name): (DirId, &Name),
    current: Option<FileId>,
    why: &'static str,
) -> Result<Option<FileId>, Rejection> {
    let Some(bucket) = keeper(draft, parent)? else {
        if let Some(current) = current {
            condemn(draft, current, why)?;
        }
        return Ok(current);
    };
    let replaces_null = bucket.settings.versioning == Versioning::Suspended;
    if let Some(current) = current {
        if replaces_null && bucket.is_null(current) {
            condemn(draft, current, why)?;
            return Ok(Some(current));
        }
        put_row(draft, parent, name, current, Version::File);
    }
    if !replaces_null {
        return Ok(None);
    }
    let Some((null, version)) = draft.view().null_version(&bucket, parent, name)? else { return Ok(None) };
    remove_row(draft, parent, name, null);
    if version == Version::File {
        condemn(draft, null, why)?;
        return Ok(Some(null));
    }
    Ok(None)
}

/// Puts a marker on top of a name's versions.
pub(super) fn mark(draft: &mut Draft<'_>, parent: DirId, name: &Name) -> Result<FileId, Rejection> {
    let id = draft.change_meta(|meta| {
        meta.next_file += 1;
        FileId(meta.next_file - 1)
    })?;
    assert!(draft.view().file(id)?.is_none(), "the number of a new marker was never given");
    put_row(draft, parent, name, id, Version::Marker(draft.at));
    Ok(id)
}

/// Deletes the current version: for good, or a marker hides it.
pub(super) fn remove_current(
    draft: &mut Draft<'_>,
    parent: DirId,
    name: &Name,
    current: Option<FileId>,
) -> Result<Removal, Rejection> {
    let keeps = keeper(draft, parent)?.is_some();
    let gone = give_way(draft, (parent, name), current, DELETED)?;
    if current.is_some() {
        draft.remove(Table::Entry, key::entry(parent, name.as_str()));
    }
    let left = draft.view().entry(parent, name)?;
    assert!(!matches!(left, Some(Entry::File(_))), "a name that was removed stands for no file");
    if !keeps {
        return Ok(Removal { version: gone, marker: false, gone });
    }
    let marker = mark(draft, parent, name)?;
    Ok(Removal { version: Some(marker), marker: true, gone })
}

/// What of a name is the file; a directory is refused.
fn file_of(draft: &Draft<'_>, parent: DirId, name: &Name) -> Result<Option<FileId>, Rejection> {
    match draft.view().entry(parent, name)? {
        None => Ok(None),
        Some(Entry::File(id)) => Ok(Some(id)),
        Some(Entry::Directory(_)) => Err(Rejection::IsADirectory { parent, name: name.clone() }),
    }
}

pub(super) fn remove_object(
    draft: &mut Draft<'_>,
    parent: DirId,
    name: &Name,
    if_current: Option<FileId>,
) -> Result<Outcome, Rejection> {
    namespace::check_directory(draft, parent)?;
    let current = file_of(draft, parent, name)?;
    if if_current.is_some() && if_current != current {
        return Err(Rejection::NotCurrent { parent, name: name.clone(), current });
    }
    Ok(Outcome::RemovedVersion(remove_current(draft, parent, name, current)?))
}

pub(super) fn remove_version(
    draft: &mut Draft<'_>,
    (parent, name): (DirId, &Name),
    which: Option<FileId>,
    bypass: bool,
) -> Result<Outcome, Rejection> {
    namespace::check_directory(draft, parent)?;
    let entry = draft.view().entry(parent, name)?;
    let current = match entry {
        Some(Entry::File(id)) => Some(id),
        _ => None,
    };
    let bucket = draft.view().bucket_of(parent)?.map(|(_, bucket)| bucket).unwrap_or_default();
    let is_it = |id: &FileId| which.map_or_else(|| bucket.is_null(*id), |which| which == *id);
    if let Some(current) = current.filter(is_it) {
        hold::release(draft, current, bypass)?;
        condemn(draft, current, DELETED)?;
        draft.remove(Table::Entry, key::entry(parent, name.as_str()));
        promote(draft, parent, name)?;
        let removal = Removal { version: Some(current), marker: false, gone: Some(current) };
        return Ok(Outcome::RemovedVersion(removal));
    }
    let found = match which {
        Some(id) => draft.view().version(parent, name, id)?.map(|version| (id, version)),
        None => draft.view().null_version(&bucket, parent, name)?,
    };
    let Some((id, version)) = found else { return Ok(Outcome::RemovedVersion(Removal::default())) };
    remove_row(draft, parent, name, id);
    let is_marker = version != Version::File;
    if !is_marker {
        hold::release(draft, id, bypass)?;
        condemn(draft, id, DELETED)?;
    } else if current.is_none() {
        promote_under(draft, (parent, name), entry)?;
    }
    let gone = (!is_marker).then_some(id);
    Ok(Outcome::RemovedVersion(Removal { version: Some(id), marker: is_marker, gone }))
}

/// After a marker went: what stands below it becomes current, unless the name is a directory's by now.
fn promote_under(
    draft: &mut Draft<'_>,
    (parent, name): (DirId, &Name),
    entry: Option<Entry>,
) -> Result<(), Rejection> {
    let newest = draft.view().versions(parent, name, None, 1)?;
    if entry.is_some() && newest.iter().any(|(_, version)| *version == Version::File) {
        return Err(Rejection::NameTaken { parent, name: name.clone() });
    }
    promote(draft, parent, name)
}

/// Makes the newest version current if it is a file; there must be no entry.
fn promote(draft: &mut Draft<'_>, parent: DirId, name: &Name) -> Result<(), Rejection> {
    if let Some((id, Version::File)) = draft.view().versions(parent, name, None, 1)?.first().copied() {
        remove_row(draft, parent, name, id);
        draft.put(Table::Entry, key::entry(parent, name.as_str()), &Entry::File(id));
    }
    Ok(())
}

/// Refuses to move a file away if the marker that it leaves would be the second version without a number.
pub(super) fn check_left(draft: &Draft<'_>, parent: DirId, name: &Name) -> Result<(), Rejection> {
    let Some(bucket) = keeper(draft, parent)? else { return Ok(()) };
    if bucket.settings.versioning == Versioning::Suspended
        && draft.view().null_version(&bucket, parent, name)?.is_some()
    {
        let what = "delete its version without a number before the file is renamed";
        return Err(Rejection::KeepsVersions { parent, name: name.clone(), what });
    }
    Ok(())
}

/// Whether a name has versions beside the current one.
pub(super) fn has_rows(draft: &Draft<'_>, parent: DirId, name: &Name) -> Result<bool, Rejection> {
    Ok(!draft.view().versions(parent, name, None, 1)?.is_empty())
}
