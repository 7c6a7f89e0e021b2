//! How much somebody may keep. Whatever counts a file in or out of its class charges quotas here; what a
//! command charges in all is checked and written at its end, so that a file that takes the place of another
//! needs room only for the difference.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use base::{DirId, FileId, UploadId};

use super::{limit, namespace};
use crate::command::{BATCH_FILES_MAX, Outcome, QUOTAS_MAX};
use crate::draft::Draft;
use crate::error::{Object, ReadError, Rejection};
use crate::frame;
use crate::key::{self, KeyReader};
use crate::record::{
    Counter, DirectoryRecord, FileRecord, QuotaCounting, QuotaLimits, QuotaRecord, QuotaSubject, Tally,
    UploadRecord, UploadUse,
};
use crate::table::Table;

/// Whether a file begins or ceases to count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
}

fn are_set(draft: &Draft<'_>) -> Result<bool, ReadError> {
    Ok(draft.tallied(Counter::Quotas)?.files > 0)
}

/// Has a file count, or count no more, where it stands and for its group. Without quotas this costs one look
/// at a tally.
pub(super) fn charge(
    draft: &mut Draft<'_>,
    id: FileId,
    file: &FileRecord,
    way: Way,
) -> Result<(), Rejection> {
    let sign = if way == Way::In { 1 } else { -1 };
    let bytes = i128::from(sign) * i128::from(file.size.0);
    add(draft, id, (file.parent, &file.attributes.group), (sign, bytes))
}

/// Has bytes count, or count no more, that are no file yet. `id` says when what they belong to began, as that
/// of a file does: the first count of a quota comes by at both in that order.
pub(super) fn charge_bytes(
    draft: &mut Draft<'_>,
    id: FileId,
    directory: DirId,
    group: &str,
    bytes: i128,
) -> Result<(), Rejection> {
    add(draft, id, (directory, group), (0, bytes))
}

fn add(
    draft: &mut Draft<'_>,
    id: FileId,
    (directory, group): (DirId, &str),
    (files, bytes): (i64, i128),
) -> Result<(), Rejection> {
    if !are_set(draft)? {
        return Ok(());
    }
    let quotas = draft.view().quotas_of(directory, group)?;
    for (subject, quota) in quotas {
        if quota.has_seen(id) {
            let charged = draft.charges.entry(subject).or_default();
            charged.0 += files;
            charged.1 += bytes;
        }
    }
    Ok(())
}

/// Writes what a command charged, if the quotas allow it.
pub(super) fn settle(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    for (subject, (files, bytes)) in std::mem::take(&mut draft.charges) {
        if (files, bytes) == (0, 0) {
            continue;
        }
        let key = key::quota(&subject);
        let mut quota: QuotaRecord = draft.view().expect(Table::Quota, &key)?;
        let more = |change: i128| u64::try_from(change).unwrap_or(if change > 0 { u64::MAX } else { 0 });
        if let Some((what, limit, used)) = quota.excess(more(files.into()), more(bytes)) {
            return Err(Rejection::QuotaExceeded { subject, what, limit, used });
        }
        let sum = |used: u64, change: i128| {
            let sum = i128::from(used).checked_add(change).and_then(|sum| u64::try_from(sum).ok());
            sum.ok_or_else(|| ReadError::inconsistent(Table::Quota, &key))
        };
        quota.used.files = sum(quota.used.files, files.into())?;
        quota.used.bytes.0 = sum(quota.used.bytes.0, bytes)?;
        let is_within = |limit: Option<u64>, used| limit.is_none_or(|limit| used <= limit);
        let of_bytes = quota.limits.bytes.map(|limit| limit.0);
        assert!(bytes <= 0 || is_within(of_bytes, quota.used.bytes.0), "bytes do not grow beyond a quota");
        assert!(files <= 0 || is_within(quota.limits.files, quota.used.files), "nor do files");
        draft.put(Table::Quota, key, &quota);
    }
    Ok(())
}

/// Refuses to move a directory across the border of a directory with a quota, since nobody knows what stands
/// below without reading all of it.
pub(super) fn check_border(
    draft: &Draft<'_>,
    directory: DirId,
    from: DirId,
    to: DirId,
) -> Result<(), Rejection> {
    if !are_set(draft)? || from == to {
        return Ok(());
    }
    let above = |parent| -> Result<Vec<QuotaSubject>, ReadError> {
        Ok(draft.view().quotas_of(parent, "")?.into_iter().map(|(subject, _)| subject).collect())
    };
    if above(from)? != above(to)? {
        return Err(Rejection::AcrossQuota(directory));
    }
    Ok(())
}

pub(super) fn set(
    draft: &mut Draft<'_>,
    subject: &QuotaSubject,
    limits: Option<QuotaLimits>,
) -> Result<Outcome, Rejection> {
    let key = key::quota(subject);
    let known: Option<QuotaRecord> = draft.view().get(Table::Quota, &key)?;
    let quota = match (known, limits) {
        (None, None) => return Err(Rejection::NotFound(Object::Quota(subject.clone()))),
        (Some(_), None) => {
            forget(draft, subject)?;
            return Ok(Outcome::Done);
        }
        (Some(known), Some(limits)) if known.limits == limits => return Ok(Outcome::Done),
        (Some(known), Some(limits)) => QuotaRecord { limits, ..known },
        (None, Some(limits)) => {
            check_subject(draft, subject)?;
            let known = draft.tallied(Counter::Quotas)?.files;
            limit("quotas", usize::try_from(known).unwrap_or(usize::MAX), QUOTAS_MAX - 1)?;
            let counting = QuotaCounting { next: FileId(0), until: FileId(draft.meta()?.next_file) };
            draft.count(Counter::Quotas, 1, 0)?;
            draft.count(Counter::QuotasCounting, 1, 0)?;
            QuotaRecord { limits, used: Tally::default(), counting: Some(counting) }
        }
    };
    draft.put(Table::Quota, key, &quota);
    Ok(Outcome::Done)
}

fn check_subject(draft: &Draft<'_>, subject: &QuotaSubject) -> Result<(), Rejection> {
    match subject {
        QuotaSubject::Directory(id) => namespace::check_directory(draft, *id),
        QuotaSubject::Group(group) if group.is_empty() => Err(Rejection::Malformed {
            object: Object::Quota(subject.clone()),
            what: "the group has no name",
        }),
        QuotaSubject::Group(group) => {
            limit("bytes of a group's name", group.len(), namespace::PERSON_BYTES_MAX)
        }
    }
}

/// Ends a quota, if there is one.
pub(super) fn forget(draft: &mut Draft<'_>, subject: &QuotaSubject) -> Result<(), Rejection> {
    if !are_set(draft)? {
        return Ok(());
    }
    let key = key::quota(subject);
    if let Some(quota) = draft.view().get::<QuotaRecord>(Table::Quota, &key)? {
        draft.discount(Counter::Quotas, 1, 0)?;
        if quota.counting.is_some() {
            draft.discount(Counter::QuotasCounting, 1, 0)?;
        }
        draft.remove(Table::Quota, key);
    }
    Ok(())
}

/// Counts the next files that were there before the quota.
pub(super) fn count(draft: &mut Draft<'_>, subject: &QuotaSubject) -> Result<Outcome, Rejection> {
    let key = key::quota(subject);
    let known: Option<QuotaRecord> = draft.view().get(Table::Quota, &key)?;
    let Some(mut quota) = known else { return Err(Rejection::NotFound(Object::Quota(subject.clone()))) };
    let Some(counting) = quota.counting else { return Ok(Outcome::More(false)) };
    let (found, behind) = files_of(draft, subject, counting)?;
    quota.used.files = quota.used.files.saturating_add(found.files);
    quota.used.bytes.0 = quota.used.bytes.0.saturating_add(found.bytes.0);
    quota.counting = behind.map(|next| QuotaCounting { next, ..counting });
    if behind.is_none() {
        draft.discount(Counter::QuotasCounting, 1, 0)?;
    }
    draft.put(Table::Quota, key, &quota);
    Ok(Outcome::More(behind.is_some()))
}

/// The tally of the next files of a subject, and of the parts of the uploads that began between them, and
/// where to go on.
fn files_of(
    draft: &Draft<'_>,
    subject: &QuotaSubject,
    QuotaCounting { next, until }: QuotaCounting,
) -> Result<(Tally, Option<FileId>), ReadError> {
    let mut members = Members { draft, subject, below: BTreeMap::new() };
    let uploads = uploads_between(draft, next, until)?;
    // As many uploads as one batch may have: it ends behind the last of them.
    let end = match uploads.last() {
        Some((upload, _)) if uploads.len() >= BATCH_FILES_MAX => FileId(upload.0 + 1),
        _ => until,
    };
    let (mut tally, mut looked, mut last) = (Tally::default(), 0, next);
    draft.view().each(Table::File, &key::file(next), Some(&key::file(end)), |key, value| {
        let file: FileRecord = frame::open(Table::File, key, value)?;
        last = FileId(KeyReader::new(Table::File, key).u64()?);
        looked += 1;
        if file.counts_for_quotas() && members.has(file.parent, &file.attributes.group)? {
            tally.files += 1;
            tally.bytes.0 = tally.bytes.0.saturating_add(file.size.0);
        }
        Ok(if looked >= BATCH_FILES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let behind = if looked < BATCH_FILES_MAX { end } else { FileId(last.0 + 1) };
    assert!(behind > next || next >= until, "each batch counts on, so that the count ends");
    assert!(behind <= until, "no file is counted that was put after the quota was set");
    for (upload, usage) in uploads.into_iter().filter(|(upload, _)| upload.0 < behind.0) {
        let record: UploadRecord = draft.view().expect(Table::Upload, &key::upload(upload))?;
        if members.has(usage.directory, &record.plan.attributes.group)? {
            tally.bytes.0 = tally.bytes.0.saturating_add(usage.bytes.0);
        }
    }
    Ok((tally, (behind < until).then_some(behind)))
}

/// The first uploads that began behind one file and before another, at most as many as files in a batch.
fn uploads_between(
    draft: &Draft<'_>,
    from: FileId,
    to: FileId,
) -> Result<Vec<(UploadId, UploadUse)>, ReadError> {
    let (from, to) = (key::file(from), key::file(to));
    draft.view().rows(Table::UploadUse, &from, Some(&to), BATCH_FILES_MAX, |mut parts, key, value| {
        Ok((UploadId(parts.u64()?), frame::open(Table::UploadUse, key, value)?))
    })
}

/// What a quota counts.
struct Members<'d, 't> {
    draft: &'d Draft<'t>,
    subject: &'d QuotaSubject,
    /// Whether directories that were looked at are below that of the quota.
    below: BTreeMap<DirId, bool>,
}

impl Members<'_, '_> {
    fn has(&mut self, parent: DirId, group: &str) -> Result<bool, ReadError> {
        match self.subject {
            QuotaSubject::Group(counted) => Ok(counted == group),
            QuotaSubject::Directory(id) => match self.below.get(&parent) {
                Some(known) => Ok(*known),
                None => {
                    let known = is_below(self.draft, parent, *id)?;
                    self.below.insert(parent, known);
                    Ok(known)
                }
            },
        }
    }
}

pub(super) fn is_below(draft: &Draft<'_>, directory: DirId, above: DirId) -> Result<bool, ReadError> {
    let mut at = directory;
    for _ in 0..namespace::DEPTH_MAX {
        if at == above {
            return Ok(true);
        }
        if at == DirId::ROOT {
            return Ok(false);
        }
        at = draft.view().expect::<DirectoryRecord>(Table::Directory, &key::directory(at))?.parent;
    }
    Err(ReadError::inconsistent(Table::Directory, &key::directory(directory)))
}
