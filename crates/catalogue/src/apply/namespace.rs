//! Directories, names, renames, deletes.

use base::{ClassId, DirId, Name, PATH_BYTES_MAX};

use super::{access, bucket, cold, hold, lifecycle, limit, quota, tree, upload, version};
use crate::command::{Outcome, Replace};
use crate::draft::Draft;
use crate::error::{Object, ReadError, Rejection};
use crate::key;
use crate::record::{Attributes, ClassRecord, DirectoryRecord, Entry, FileRecord, QuotaSubject};
use crate::table::Table;

/// Most bytes in the name of an owner or group.
pub(super) const PERSON_BYTES_MAX: usize = 64;
/// Most bytes of extended attributes, names and values together.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// The largest permission bits.
const MODE_MAX: u32 = 0o7777;
/// The most directories above one another that a rename walks through; ends the walk of a damaged tree.
pub(super) const DEPTH_MAX: usize = 1 << 16;

pub(super) fn check_attributes(attributes: &Attributes) -> Result<(), Rejection> {
    limit("bytes of an owner's name", attributes.owner.len(), PERSON_BYTES_MAX)?;
    limit("bytes of a group's name", attributes.group.len(), PERSON_BYTES_MAX)?;
    let bytes = attributes.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    limit("bytes of extended attributes", bytes, XATTR_BYTES_MAX)?;
    if attributes.mode > MODE_MAX {
        return Err(Rejection::LimitExceeded { what: "permission bits", limit: u64::from(MODE_MAX) });
    }
    Ok(())
}

/// Refuses a directory that is not there, or that is being removed with the tree it stands in.
pub(super) fn check_directory(draft: &Draft<'_>, id: DirId) -> Result<(), Rejection> {
    if draft.view().has(Table::Directory, &key::directory(id))? && !tree::is_condemned(draft, id)? {
        return Ok(());
    }
    Err(Rejection::NotFound(Object::Directory(id)))
}

pub(super) fn class(draft: &Draft<'_>, id: ClassId) -> Result<ClassRecord, Rejection> {
    draft.view().get(Table::Class, &key::class(id))?.ok_or(Rejection::NotFound(Object::Class(id)))
}

pub(super) fn check_name(parent: DirId, name: &Name) -> Result<(), Rejection> {
    if parent == DirId::ROOT && name.as_str() == ".kist" {
        return Err(Rejection::ReservedName);
    }
    Ok(())
}

fn taken(parent: DirId, name: &Name) -> Rejection {
    Rejection::NameTaken { parent, name: name.clone() }
}

pub(super) fn make_directory(
    draft: &mut Draft<'_>,
    parent: DirId,
    name: &Name,
    attributes: &Attributes,
    below: Option<ClassId>,
) -> Result<Outcome, Rejection> {
    check_attributes(attributes)?;
    check_name(parent, name)?;
    check_directory(draft, parent)?;
    if let Some(below) = below {
        class(draft, below)?;
    }
    if draft.view().entry(parent, name)?.is_some() {
        return Err(taken(parent, name));
    }
    let id = draft.change_meta(|meta| {
        meta.next_file += 1;
        DirId(meta.next_file - 1)
    })?;
    assert!(draft.view().directory(id)?.is_none(), "the number of a new directory was never given");
    let record = DirectoryRecord {
        parent,
        name: Some(name.clone()),
        created: draft.at,
        attributes: attributes.clone(),
        class: below,
    };
    draft.put(Table::Directory, key::directory(id), &record);
    draft.put(Table::Entry, key::entry(parent, name.as_str()), &Entry::Directory(id));
    Ok(Outcome::Directory(id))
}

fn named(draft: &Draft<'_>, parent: DirId, name: &Name) -> Result<Entry, Rejection> {
    check_directory(draft, parent)?;
    draft.view().entry(parent, name)?.ok_or_else(|| Rejection::NotFound(Object::Name(parent, name.clone())))
}

pub(super) fn remove_file(draft: &mut Draft<'_>, parent: DirId, name: &Name) -> Result<Outcome, Rejection> {
    match named(draft, parent, name)? {
        Entry::Directory(_) => Err(Rejection::IsADirectory { parent, name: name.clone() }),
        Entry::File(id) => {
            let removal = version::remove_current(draft, parent, name, Some(id))?;
            Ok(if removal.marker { Outcome::RemovedVersion(removal) } else { Outcome::Removed(id) })
        }
    }
}

pub(super) fn remove_directory(
    draft: &mut Draft<'_>,
    parent: DirId,
    name: &Name,
) -> Result<Outcome, Rejection> {
    match named(draft, parent, name)? {
        Entry::File(_) => Err(Rejection::NotADirectory { parent, name: name.clone() }),
        Entry::Directory(id) => {
            if !draft.view().list(id, None, 1)?.is_empty() || upload::any_below(draft, id)? {
                return Err(Rejection::DirectoryNotEmpty { parent, name: name.clone() });
            }
            if !draft.view().versions_in(id, None, 1)?.is_empty() {
                return Err(Rejection::DirectoryNotEmpty { parent, name: name.clone() });
            }
            if !upload::move_up(draft, id, parent)? {
                return Err(Rejection::DirectoryNotEmpty { parent, name: name.clone() });
            }
            tree::move_up(draft, id, parent)?;
            draft.remove(Table::Entry, key::entry(parent, name.as_str()));
            draft.remove(Table::Directory, key::directory(id));
            forget_settings(draft, id)?;
            Ok(Outcome::Done)
        }
    }
}

/// Forgets all that was set of a directory that goes.
pub(super) fn forget_settings(draft: &mut Draft<'_>, id: DirId) -> Result<(), Rejection> {
    bucket::forget(draft, id)?;
    cold::forget_directory(draft, id)?;
    access::forget(draft, id)?;
    quota::forget(draft, &QuotaSubject::Directory(id))
}

/// Refuses a name that stands for something else than what was meant.
pub(super) fn check_entry(
    draft: &Draft<'_>,
    (parent, name): (DirId, &Name),
    meant: Entry,
) -> Result<(), Rejection> {
    let found = named(draft, parent, name)?;
    if found == meant {
        return Ok(());
    }
    let current = match found {
        Entry::File(id) => Some(id),
        Entry::Directory(_) => None,
    };
    Err(Rejection::NotCurrent { parent, name: name.clone(), current })
}

pub(super) fn rename(
    draft: &mut Draft<'_>,
    (from_parent, from_name): (DirId, &Name),
    (to_parent, to_name): (DirId, &Name),
    replace: Replace,
) -> Result<Outcome, Rejection> {
    let source = named(draft, from_parent, from_name)?;
    check_directory(draft, to_parent)?;
    if (from_parent, from_name) == (to_parent, to_name) {
        return Ok(Outcome::Renamed { moved: source, replaced: None });
    }
    check_name(to_parent, to_name)?;
    check_length(draft, to_parent, to_name)?;
    match source {
        Entry::Directory(id) => {
            check_not_below(draft, id, to_parent)?;
            let record: DirectoryRecord = draft.view().expect(Table::Directory, &key::directory(id))?;
            bucket::check_move(draft, id, &record, to_parent)?;
            quota::check_border(draft, id, from_parent, to_parent)?;
        }
        Entry::File(id) => {
            let record: FileRecord = draft.view().expect(Table::File, &key::file(id))?;
            hold::check(draft, id, &record)?;
            check_history(draft, to_parent, to_name)?;
            version::check_left(draft, from_parent, from_name)?;
        }
    }
    let replaced = match draft.view().entry(to_parent, to_name)? {
        None => None,
        Some(Entry::File(old)) if matches!(source, Entry::File(_)) && replace == Replace::Allowed => {
            let file: FileRecord = draft.view().expect(Table::File, &key::file(old))?;
            lifecycle::condemn(draft, old, file, "the file was replaced")?;
            Some(old)
        }
        Some(_) => return Err(taken(to_parent, to_name)),
    };
    draft.remove(Table::Entry, key::entry(from_parent, from_name.as_str()));
    draft.put(Table::Entry, key::entry(to_parent, to_name.as_str()), &source);
    match source {
        Entry::Directory(id) => {
            let mut record: DirectoryRecord = draft.view().expect(Table::Directory, &key::directory(id))?;
            record.parent = to_parent;
            record.name = Some(to_name.clone());
            draft.put(Table::Directory, key::directory(id), &record);
        }
        Entry::File(id) => {
            let mut record: FileRecord = draft.view().expect(Table::File, &key::file(id))?;
            quota::charge(draft, id, &record, quota::Way::Out)?;
            record.parent = to_parent;
            record.name = to_name.clone();
            quota::charge(draft, id, &record, quota::Way::In)?;
            draft.put(Table::File, key::file(id), &record);
            if version::has_rows(draft, from_parent, from_name)? {
                version::mark(draft, from_parent, from_name)?;
            }
        }
    }
    assert_eq!(draft.view().entry(to_parent, to_name)?, Some(source), "it has its new name");
    assert_eq!(draft.view().entry(from_parent, from_name)?, None, "and not the old one any more");
    Ok(Outcome::Renamed { moved: source, replaced })
}

/// Refuses to move a file over what a bucket keeps: the versions of a name are in the order of their ids.
fn check_history(draft: &Draft<'_>, parent: DirId, name: &Name) -> Result<(), Rejection> {
    if version::keeper(draft, parent)?.is_none() {
        return Ok(());
    }
    let is_file = matches!(draft.view().entry(parent, name)?, Some(Entry::File(_)));
    if is_file || version::has_rows(draft, parent, name)? {
        let what = "a rename cannot replace it: put the file anew, or choose a name that was never used";
        return Err(Rejection::KeepsVersions { parent, name: name.clone(), what });
    }
    Ok(())
}

/// Refuses a path that would be too long. Only the moved name itself is looked at, since the longest path
/// below a directory is not known without reading all of it: what stands there may become too long to be
/// named and is reached again by a second rename of the directory.
fn check_length(draft: &Draft<'_>, parent: DirId, name: &Name) -> Result<(), Rejection> {
    let above = draft.view().path_of_directory(parent)?;
    let above = above.ok_or(Rejection::NotFound(Object::Directory(parent)))?;
    let bytes = above.trim_end_matches('/').len() + 1 + name.as_str().len();
    if bytes > PATH_BYTES_MAX {
        return Err(Rejection::PathTooLong { bytes });
    }
    Ok(())
}

fn check_not_below(draft: &Draft<'_>, directory: DirId, to: DirId) -> Result<(), Rejection> {
    let mut at = to;
    for _ in 0..DEPTH_MAX {
        if at == directory {
            return Err(Rejection::IntoItself { directory, to });
        }
        if at == DirId::ROOT {
            return Ok(());
        }
        at = draft.view().expect::<DirectoryRecord>(Table::Directory, &key::directory(at))?.parent;
    }
    Err(ReadError::inconsistent(Table::Directory, &key::directory(to)).into())
}
