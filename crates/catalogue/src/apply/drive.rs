//! Tape drives that an operator has taken out of use.

use super::{limit, reason};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::table::Table;

/// Most bytes in a tape drive's name.
pub(super) const DRIVE_BYTES_MAX: usize = 128;

pub(super) fn set_down(draft: &mut Draft<'_>, drive: &str, down: Option<&str>) -> Result<Outcome, Rejection> {
    limit("bytes of a drive's name", drive.len(), DRIVE_BYTES_MAX)?;
    if drive.is_empty() {
        let what = "a drive has a name";
        return Err(Rejection::Malformed { object: Object::Drive(drive.to_owned()), what });
    }
    let known: Option<String> = draft.view().get(Table::DriveDown, &key::drive(drive))?;
    let down = down.map(reason);
    if known == down {
        return Ok(Outcome::Done);
    }
    match down {
        Some(why) => draft.put(Table::DriveDown, key::drive(drive), &why),
        None => draft.remove(Table::DriveDown, key::drive(drive)),
    }
    Ok(Outcome::Done)
}
