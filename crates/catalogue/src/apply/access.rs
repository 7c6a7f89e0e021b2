//! Owners, and who may do what in a directory.

use std::collections::BTreeSet;

use base::{DirId, FileId};

use super::{limit, namespace, quota};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{ACL_ENTRIES_MAX, AclEntry, Attributes, Counter, DirectoryRecord, Entry, FileRecord};
use crate::table::Table;

/// Most bytes of the subject of an entry.
const SUBJECT_BYTES_MAX: usize = 256;

pub(super) fn set_acl(
    draft: &mut Draft<'_>,
    directory: DirId,
    entries: Option<&[AclEntry]>,
) -> Result<Outcome, Rejection> {
    namespace::check_directory(draft, directory)?;
    let Some(entries) = entries else {
        forget(draft, directory)?;
        return Ok(Outcome::Done);
    };
    check(directory, entries)?;
    let known: Option<Vec<AclEntry>> = draft.view().get(Table::Acl, &key::acl(directory))?;
    if known.as_deref() != Some(entries) {
        if known.is_none() {
            draft.count(Counter::Acls, 1, 0)?;
        }
        draft.put(Table::Acl, key::acl(directory), &entries.to_vec());
    }
    Ok(Outcome::Done)
}

fn check(directory: DirId, entries: &[AclEntry]) -> Result<(), Rejection> {
    limit("entries of an access control list", entries.len(), ACL_ENTRIES_MAX)?;
    let malformed = |what| Err(Rejection::Malformed { object: Object::Directory(directory), what });
    let mut subjects = BTreeSet::new();
    for AclEntry { subject, .. } in entries {
        limit("bytes of the subject of an access control entry", subject.len(), SUBJECT_BYTES_MAX)?;
        if subject.is_empty() {
            return malformed("an access control entry has no subject");
        }
        if !subjects.insert(subject) {
            return malformed("two access control entries have the same subject");
        }
    }
    Ok(())
}

/// Ends a directory's access control list, if it has one.
pub(super) fn forget(draft: &mut Draft<'_>, directory: DirId) -> Result<(), Rejection> {
    let is_any = draft.tallied(Counter::Acls)?.files > 0;
    if is_any && draft.view().has(Table::Acl, &key::acl(directory))? {
        draft.discount(Counter::Acls, 1, 0)?;
        draft.remove(Table::Acl, key::acl(directory));
    }
    Ok(())
}

pub(super) fn set_owner(
    draft: &mut Draft<'_>,
    entry: Entry,
    owner: Option<&str>,
    group: Option<&str>,
) -> Result<Outcome, Rejection> {
    let change = |attributes: &mut Attributes| {
        let before = attributes.clone();
        attributes.owner = owner.map_or(std::mem::take(&mut attributes.owner), str::to_owned);
        attributes.group = group.map_or(std::mem::take(&mut attributes.group), str::to_owned);
        namespace::check_attributes(attributes)?;
        Ok::<_, Rejection>(*attributes != before)
    };
    match entry {
        Entry::Directory(id) => {
            let known: Option<DirectoryRecord> = draft.view().directory(id)?;
            let mut record = known.ok_or(Rejection::NotFound(Object::Directory(id)))?;
            if change(&mut record.attributes)? {
                draft.put(Table::Directory, key::directory(id), &record);
            }
        }
        Entry::File(id) => {
            let mut record = counted(draft, id)?;
            let before = record.clone();
            if change(&mut record.attributes)? {
                quota::charge(draft, id, &before, quota::Way::Out)?;
                quota::charge(draft, id, &record, quota::Way::In)?;
                draft.put(Table::File, key::file(id), &record);
            }
        }
    }
    Ok(Outcome::Done)
}

fn counted(draft: &Draft<'_>, id: FileId) -> Result<FileRecord, Rejection> {
    let record = draft.view().file(id)?.filter(FileRecord::counts_for_quotas);
    record.ok_or(Rejection::NotFound(Object::File(id)))
}
