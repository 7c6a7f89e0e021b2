//! What keeps files from being deleted, whoever asks and through whichever door: looked at whenever a file
//! would be condemned.

use base::{FileId, Name};

use super::tree;
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{BucketRecord, FileRecord, Hold, Retention, RetentionMode};
use crate::table::Table;

/// Refuses if something keeps the file now.
pub(super) fn check(draft: &Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    let held = draft.view().hold(id)?.in_force(draft.at);
    if held == Hold::default() {
        return Ok(());
    }
    Err(Rejection::Held { file: id, name: file.name.clone(), hold: held })
}

/// Ends a retention of mode governance if the command may; what else keeps the file is met when it is
/// condemned.
pub(super) fn release(draft: &mut Draft<'_>, id: FileId, bypass: bool) -> Result<(), Rejection> {
    let hold = draft.view().hold(id)?;
    let governance = |retention: Retention| retention.mode == RetentionMode::Governance;
    if bypass && hold.retention.is_some_and(governance) {
        put(draft, id, Hold { retention: None, ..hold });
    }
    Ok(())
}

fn put(draft: &mut Draft<'_>, id: FileId, hold: Hold) {
    match hold == Hold::default() {
        true => draft.remove(Table::Hold, key::file(id)),
        false => draft.put(Table::Hold, key::file(id), &hold),
    }
}

/// Forgets what kept a file that is gone.
pub(super) fn forget(draft: &mut Draft<'_>, id: FileId) -> Result<(), Rejection> {
    if draft.view().has(Table::Hold, &key::file(id))? {
        draft.remove(Table::Hold, key::file(id));
    }
    Ok(())
}

/// Gives a new file its hold: the one named, else the default of its bucket.
pub(super) fn begin(
    draft: &mut Draft<'_>,
    id: FileId,
    name: &Name,
    named: Option<Hold>,
    bucket: Option<&BucketRecord>,
) -> Result<(), Rejection> {
    // A legal hold alone leaves the retention to the bucket.
    let named = named.unwrap_or_default();
    let default = bucket.and_then(|bucket| bucket.settings.default_retention);
    if named.retention.is_none() && default.is_some() && draft.view().clock()?.doubted.is_some() {
        // Counted from a wrong time it would end too early, or lock the file for years.
        return Err(Rejection::TimeDoubted { name: name.clone() });
    }
    let default = default.map(|(mode, kept)| Retention { mode, until: draft.at.plus(kept) });
    let hold = Hold { retention: named.retention.or(default), legal: named.legal };
    if hold != Hold::default() {
        put(draft, id, hold);
    }
    Ok(())
}

pub(super) fn set(draft: &mut Draft<'_>, id: FileId, new: Hold, bypass: bool) -> Result<Outcome, Rejection> {
    let file = draft.view().file(id)?.filter(FileRecord::is_named);
    let file = file.ok_or(Rejection::NotFound(Object::File(id)))?;
    if tree::is_condemned(draft, file.parent)? {
        return Err(Rejection::NotFound(Object::File(id)));
    }
    let old = draft.view().hold(id)?;
    if old == new {
        return Ok(Outcome::Done);
    }
    if let Some(retention) = old.in_force(draft.at).retention
        && !may_change(retention, new.retention, bypass)
    {
        let hold = Hold { retention: Some(retention), legal: false };
        return Err(Rejection::Held { file: id, name: file.name, hold });
    }
    let is_past = |retention: Retention| retention.until <= draft.at && Some(retention) != old.retention;
    if new.retention.is_some_and(is_past) {
        let what = "a retention ends in the future: name a later time";
        return Err(Rejection::Malformed { object: Object::File(id), what });
    }
    let locked = old.in_force(draft.at).retention.filter(|held| held.mode == RetentionMode::Compliance);
    let is_kept =
        |held: Retention| new.retention.is_some_and(|new| new.mode == held.mode && new.until >= held.until);
    assert!(locked.is_none_or(is_kept), "nothing shortens a retention of mode compliance");
    put(draft, id, new);
    Ok(Outcome::Done)
}

/// Longer always; in mode compliance never less; in mode governance with the right to.
fn may_change(old: Retention, new: Option<Retention>, bypass: bool) -> bool {
    let is_longer = new.is_some_and(|new| new.until >= old.until);
    let is_weaker = new.is_none_or(|new| new.mode == RetentionMode::Governance);
    match old.mode {
        RetentionMode::Compliance => is_longer && !is_weaker,
        RetentionMode::Governance => bypass || is_longer,
    }
}
