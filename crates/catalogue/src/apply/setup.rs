//! A new catalogue, a new writer, tape pools and storage classes.

use base::{BlobId, ClassId, DirId, Epoch, TapePoolId, Uuid};

use super::{limit, online, request};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::encoding::{Meta, Nothing};
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{Attributes, ClassRecord, DirectoryRecord, Rule};
use crate::table::Table;

/// Most tape copies of a class.
pub const CLASS_COPIES_MAX: usize = 16;
/// Most bytes in the name of a class or tape pool.
pub const LABEL_BYTES_MAX: usize = 32;
/// Most classes, and most tape pools.
const IDS_MAX: u16 = u16::MAX - 1;

pub(super) fn initialise(draft: &mut Draft<'_>, instance: Uuid) -> Result<Outcome, Rejection> {
    if draft.known_meta()?.is_some() {
        return Err(Rejection::AlreadyInitialised);
    }
    let root = DirectoryRecord {
        parent: DirId::ROOT,
        name: None,
        created: draft.at,
        attributes: Attributes { mtime: draft.at, mode: 0o755, ..Attributes::default() },
        class: None,
    };
    draft.put(Table::Directory, key::directory(DirId::ROOT), &root);
    let meta = Meta {
        instance,
        epoch: Epoch(0),
        next_file: DirId::ROOT.0 + 1,
        next_container: 1,
        next_request: 1,
        next_run: 1,
        next_class: 1,
        next_tape_pool: 1,
        next_change: 1,
        quarantine: None,
        restored: false,
    };
    draft.put_meta(meta);
    Ok(Outcome::Done)
}

pub(super) fn open_epoch(draft: &mut Draft<'_>) -> Result<Outcome, Rejection> {
    if draft.meta()?.epoch.0 >= BlobId::EPOCH_MAX {
        return Err(Rejection::LimitExceeded {
            what: "starts of the writer",
            limit: u64::from(BlobId::EPOCH_MAX),
        });
    }
    // Whoever starts has asked nobody for keys yet.
    for key in draft.view().keys_at_hand()? {
        draft.remove(Table::KeyAtHand, key::tape_key(&key));
    }
    draft.change_meta(|meta| {
        meta.epoch.0 += 1;
        Outcome::Epoch(meta.epoch)
    })
}

pub(super) fn adopt_rule(draft: &mut Draft<'_>, rule: Rule) -> Result<Outcome, Rejection> {
    if !draft.view().holds(rule)? {
        draft.put(Table::Rule, key::rule(rule), &Nothing);
        if rule == Rule::OrderedByUse && draft.view().has_files()? {
            online::begin_order(draft);
        }
        if rule == Rule::PathsCounted {
            request::begin_to_count_paths(draft)?;
        }
    }
    Ok(Outcome::Done)
}

fn check_label(what: &'static str, name: &str) -> Result<(), Rejection> {
    if name.is_empty() {
        return Err(Rejection::LimitExceeded { what, limit: LABEL_BYTES_MAX as u64 });
    }
    limit(what, name.len(), LABEL_BYTES_MAX)
}

pub(super) fn define_tape_pool(draft: &mut Draft<'_>, name: &str) -> Result<Outcome, Rejection> {
    check_label("bytes of a tape pool's name (and at least 1)", name)?;
    if let Some((id, _)) = draft.view().tape_pools()?.into_iter().find(|(_, known)| known == name) {
        return Ok(Outcome::TapePool(id));
    }
    if draft.meta()?.next_tape_pool > IDS_MAX {
        return Err(Rejection::LimitExceeded { what: "tape pools", limit: u64::from(IDS_MAX) });
    }
    let id = draft.change_meta(|meta| {
        meta.next_tape_pool += 1;
        TapePoolId(meta.next_tape_pool - 1)
    })?;
    let is_new = !draft.view().has(Table::TapePool, &key::tape_pool(id))?;
    assert!(is_new, "the number of a new tape pool was never given");
    draft.put(Table::TapePool, key::tape_pool(id), &name.to_owned());
    Ok(Outcome::TapePool(id))
}

pub(super) fn define_class(
    draft: &mut Draft<'_>,
    name: &str,
    copies: &[TapePoolId],
) -> Result<Outcome, Rejection> {
    check_label("bytes of a class's name (and at least 1)", name)?;
    limit("tape copies of a class", copies.len(), CLASS_COPIES_MAX)?;
    for (at, pool) in copies.iter().enumerate() {
        if draft.view().get::<String>(Table::TapePool, &key::tape_pool(*pool))?.is_none() {
            return Err(Rejection::NotFound(Object::TapePool(*pool)));
        }
        if copies.iter().take(at).any(|other| other == pool) {
            let what = "a class names this tape pool twice: each copy needs a pool of its own";
            return Err(Rejection::Malformed { object: Object::TapePool(*pool), what });
        }
    }
    let known = draft.view().classes()?.into_iter().find(|(_, class)| class.name == name);
    let id = match known {
        Some((id, class)) if class.copies == copies => return Ok(Outcome::Class(id)),
        Some((id, _)) => id,
        None => {
            if draft.meta()?.next_class > IDS_MAX {
                return Err(Rejection::LimitExceeded { what: "storage classes", limit: u64::from(IDS_MAX) });
            }
            draft.change_meta(|meta| {
                meta.next_class += 1;
                ClassId(meta.next_class - 1)
            })?
        }
    };
    draft.put(Table::Class, key::class(id), &ClassRecord { name: name.to_owned(), copies: copies.to_vec() });
    Ok(Outcome::Class(id))
}
