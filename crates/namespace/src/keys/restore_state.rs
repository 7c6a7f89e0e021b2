//! Whether a file that tapes keep is in the pool for a while.

use base::FileId;
use catalogue::{FileRecord, ReadError, View};

use ground::RestoreState;

/// How a file stands between tape and pool: somebody waits for it, or pins keep it in the pool until the
/// last of them ends.
pub(crate) fn restore_state(
    view: &View<'_>,
    file: FileId,
    record: &FileRecord,
) -> Result<RestoreState, ReadError> {
    if !record.has_data() {
        return Ok(RestoreState::No);
    }
    if !record.is_online() {
        let is_wanted = !view.wants(file)?.is_empty();
        return Ok(if is_wanted { RestoreState::Ongoing } else { RestoreState::No });
    }
    let until = view.pins(file)?.into_iter().map(|(_, until)| until).max();
    Ok(until.map_or(RestoreState::No, RestoreState::Until))
}
