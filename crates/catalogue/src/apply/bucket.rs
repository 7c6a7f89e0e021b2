//! Settings of buckets, which are directories of the root.

use std::collections::BTreeSet;

use base::{DirId, FileId, Name};

use super::{cold, limit, namespace};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{Attributes, BucketSettings, DirectoryRecord, Versioning};
use crate::table::Table;

/// Most rules of a bucket.
const RULES_MAX: usize = 1000;
/// Most bytes in the prefix that a rule applies to.
const RULE_PREFIX_MAX: usize = 1024;
/// Most bytes of what a door keeps, names and values together.
const DOCUMENT_BYTES_MAX: usize = 64 << 10;
/// How often a bucket may begin or cease to number versions.
const TURNS_MAX: usize = 1000;

pub(super) fn make(
    draft: &mut Draft<'_>,
    name: &Name,
    attributes: &Attributes,
    settings: &BucketSettings,
) -> Result<Outcome, Rejection> {
    let outcome = namespace::make_directory(draft, DirId::ROOT, name, attributes, None)?;
    if let Outcome::Directory(id) = outcome {
        set(draft, id, settings)?;
    }
    Ok(outcome)
}

pub(super) fn set(draft: &mut Draft<'_>, id: DirId, settings: &BucketSettings) -> Result<Outcome, Rejection> {
    namespace::check_directory(draft, id)?;
    let directory = draft.view().directory(id)?.ok_or(Rejection::NotFound(Object::Directory(id)))?;
    let is_top = directory.parent == DirId::ROOT && id != DirId::ROOT;
    let refuse = |what| Err(Rejection::Malformed { object: Object::Directory(id), what });
    if !is_top {
        return refuse("only a directory of the root is a bucket");
    }
    check_sizes(id, settings)?;
    let known = draft.view().bucket(id)?;
    let mut bucket = known.clone().unwrap_or_default();
    let old = &bucket.settings;
    if old.versioning != Versioning::Off && settings.versioning == Versioning::Off {
        return refuse("a bucket that has kept versions cannot forget them: suspend versioning");
    }
    if old.object_lock && !settings.object_lock {
        return refuse("object lock stays on");
    }
    if settings.object_lock && settings.versioning != Versioning::Enabled {
        return refuse("object lock needs versioning enabled");
    }
    if settings.default_retention.is_some() && !settings.object_lock {
        return refuse("a default retention needs object lock");
    }
    let numbers = |versioning| versioning == Versioning::Enabled;
    let before = bucket.numbered.len();
    if numbers(old.versioning) != numbers(settings.versioning) {
        let next = FileId(draft.meta()?.next_file);
        match bucket.numbered.last() == Some(&next) {
            // Nothing was put since the last turn.
            true => drop(bucket.numbered.pop()),
            false => bucket.numbered.push(next),
        }
        limit("turns of versioning on and off", bucket.numbered.len(), TURNS_MAX)?;
    }
    let turns = bucket.numbered.len().abs_diff(before);
    assert_eq!(turns, usize::from(numbers(old.versioning) != numbers(settings.versioning)), "a turn is one");
    bucket.settings = settings.clone();
    if known.as_ref() != Some(&bucket) {
        draft.put(Table::Bucket, key::directory(id), &bucket);
    }
    Ok(Outcome::Done)
}

fn check_sizes(id: DirId, settings: &BucketSettings) -> Result<(), Rejection> {
    limit("rules of a bucket", settings.lifecycle.len(), RULES_MAX)?;
    let mut names = BTreeSet::new();
    for rule in &settings.lifecycle {
        limit("bytes of a rule's name", rule.id.len(), cold::RULE_BYTES_MAX)?;
        limit("bytes of a rule's prefix", rule.prefix.len(), RULE_PREFIX_MAX)?;
        // They would move one cursor, each back to where it begins.
        if !names.insert(&rule.id) {
            let what = "two lifecycle rules have the same name";
            return Err(Rejection::Malformed { object: Object::Directory(id), what });
        }
    }
    let bytes = settings.documents.iter().map(|(name, document)| name.len() + document.len()).sum();
    limit("bytes of a bucket's documents", bytes, DOCUMENT_BYTES_MAX)
}

/// Forgets a bucket whose directory goes.
pub(super) fn forget(draft: &mut Draft<'_>, id: DirId) -> Result<(), Rejection> {
    if draft.view().bucket(id)?.is_some() {
        draft.remove(Table::Bucket, key::directory(id));
    }
    Ok(())
}

/// Refuses to move a directory if that takes versions out of their bucket, or moves what a lock keeps in
/// its place.
pub(super) fn check_move(
    draft: &Draft<'_>,
    directory: DirId,
    record: &DirectoryRecord,
    to_parent: DirId,
) -> Result<(), Rejection> {
    let Some((from, bucket)) = draft.view().bucket_of(directory)? else { return Ok(()) };
    let name = || record.name.clone().ok_or(Rejection::NotFound(Object::Directory(directory)));
    let refuse = |what| Err(Rejection::KeepsVersions { parent: record.parent, name: name()?, what });
    if bucket.settings.object_lock {
        return refuse("with object lock a directory stays where it is");
    }
    if from == directory {
        return match to_parent == DirId::ROOT {
            true => Ok(()),
            false => refuse("a bucket stays a directory of the root"),
        };
    }
    let to = draft.view().bucket_of(to_parent)?.map(|(to, _)| to);
    if bucket.keeps_versions() && to != Some(from) {
        return refuse("a directory of such a bucket stays in it: put the files anew");
    }
    Ok(())
}
