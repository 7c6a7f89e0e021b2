//! Files put as objects, files that share the bytes of others, attributes that change.

use base::{DirId, FileId, Layout};

use super::{bucket, hold, limit, namespace, pool, put, version};
use crate::command::{CloneFile, Command, Outcome, PutFile, PutObject};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{Attributes, FileRecord};
use crate::table::Table;

/// Most bytes in the name of an extended attribute.
const XATTR_NAME_MAX: usize = 255;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::SetBucket { dir, settings } => bucket::set(draft, *dir, settings),
        Command::MakeBucket { name, attributes, settings } => bucket::make(draft, name, attributes, settings),
        Command::PutObject(object) => put_object(draft, object),
        Command::CloneFile(clone) => clone_file(draft, clone),
        Command::RemoveObject { parent, name, if_current } => {
            version::remove_object(draft, *parent, name, *if_current)
        }
        Command::RemoveVersion { parent, name, version: which, bypass } => {
            version::remove_version(draft, (*parent, name), *which, *bypass)
        }
        Command::SetHold { file, hold, bypass } => hold::set(draft, *file, *hold, *bypass),
        Command::SetXattrs { file, changes } => set_xattrs(draft, *file, changes),
        Command::SetDirectoryXattrs { dir, changes } => set_directory_xattrs(draft, *dir, changes),
        _ => unreachable!("apply sends commands about objects only"),
    }
}

fn put_object(draft: &mut Draft<'_>, object: &PutObject) -> Result<Outcome, Rejection> {
    let PutObject { put, if_current, hold, always } = object;
    put::put(draft, put, put::How { if_current: *if_current, hold: *hold, always: *always, pieces: None })
}

fn clone_file(draft: &mut Draft<'_>, clone: &CloneFile) -> Result<Outcome, Rejection> {
    let source = named(draft, clone.source)?;
    let refuse =
        |state, needed| Err(Rejection::WrongState { object: Object::File(clone.source), state, needed });
    if !source.is_online() {
        return refuse("not in the pool", "in the pool: stage it first");
    }
    for piece in &source.pieces {
        let blob = draft.view().blob_record(piece.blob)?;
        let is_segment = |layout| matches!(layout, Layout::Segment { .. });
        // What is given up of a segment is given up by place, whoever else refers to it.
        if blob.is_none_or(|blob| is_segment(blob.layout)) {
            return refuse("a small value", "larger: copy its bytes");
        }
    }
    let put = PutFile {
        parent: clone.parent,
        name: clone.name.clone(),
        kind: source.kind,
        size: source.size,
        attributes: clone.attributes.clone().unwrap_or(source.attributes),
        checksums: source.checksums,
        class: clone.class,
        dataset: clone.dataset,
        data: None,
        replace: clone.replace,
        idempotency: None,
    };
    let how = put::How {
        if_current: clone.if_current,
        hold: clone.hold,
        always: true,
        pieces: Some(&source.pieces),
    };
    // Before what it replaces lets go of its bytes, which may be the same.
    pool::refer(draft, &source.pieces)?;
    put::put(draft, &put, how)
}

fn named(draft: &Draft<'_>, id: FileId) -> Result<FileRecord, Rejection> {
    let file = draft.view().file(id)?.filter(FileRecord::is_named);
    file.ok_or(Rejection::NotFound(Object::File(id)))
}

fn set_xattrs(
    draft: &mut Draft<'_>,
    id: FileId,
    changes: &[(String, Option<Vec<u8>>)],
) -> Result<Outcome, Rejection> {
    let mut file = named(draft, id)?;
    if change(&mut file.attributes, changes, Object::File(id))? {
        draft.put(Table::File, key::file(id), &file);
    }
    Ok(Outcome::Done)
}

fn set_directory_xattrs(
    draft: &mut Draft<'_>,
    id: DirId,
    changes: &[(String, Option<Vec<u8>>)],
) -> Result<Outcome, Rejection> {
    let object = Object::Directory(id);
    let mut directory = draft.view().directory(id)?.ok_or(Rejection::NotFound(object.clone()))?;
    if change(&mut directory.attributes, changes, object)? {
        draft.put(Table::Directory, key::directory(id), &directory);
    }
    Ok(Outcome::Done)
}

/// Changes extended attributes; gives whether that made a difference.
fn change(
    attributes: &mut Attributes,
    changes: &[(String, Option<Vec<u8>>)],
    object: Object,
) -> Result<bool, Rejection> {
    let before = attributes.xattrs.clone();
    for (name, value) in changes {
        limit("bytes of the name of an extended attribute", name.len(), XATTR_NAME_MAX)?;
        if name.is_empty() || name.contains('\0') {
            let what = "the name of an extended attribute is empty or has a NUL";
            return Err(Rejection::Malformed { object, what });
        }
        let known = attributes.xattrs.iter_mut().find(|(known, _)| known == name);
        match (known, value) {
            (Some((_, old)), Some(value)) => old.clone_from(value),
            (Some(_), None) => attributes.xattrs.retain(|(known, _)| known != name),
            (None, Some(value)) => attributes.xattrs.push((name.clone(), value.clone())),
            (None, None) => {}
        }
    }
    namespace::check_attributes(attributes)?;
    Ok(attributes.xattrs != before)
}
