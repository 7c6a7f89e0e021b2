//! Making a drive.

use std::path::Path;

use base::{ByteCount, Uuid};
use kinetic::server::DeviceState;
use valuelog::{FormatError, Layout, LogError, OpenError, Place, Settings, ValueLog};

use crate::state;
use crate::store::new_id;

/// Why no drive was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// There are no random numbers.
    #[error("the operating system gives no random numbers")]
    NoEntropy,
    /// The place is none for a store.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The store that was made cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It takes no state.
    #[error("the state of the drive cannot be kept: {0}")]
    State(#[from] LogError),
}

/// Where a drive is: a directory, also one that is to be made; or a block device or a file.
#[must_use]
pub fn place_of(path: &Path) -> Place {
    let is_raw = path.exists() && !path.is_dir();
    if is_raw { Place::Raw(path.to_owned()) } else { Place::Directory(path.to_owned()) }
}

/// Makes a drive of a place; gives its name. `room`: how large it becomes. `replace`: what stands there may
/// be lost.
///
/// # Errors
/// [`MakeError`].
pub fn format(
    place: &Place,
    room: Option<ByteCount>,
    replace: bool,
    first: &DeviceState,
) -> Result<Uuid, MakeError> {
    let id = new_id().ok_or(MakeError::NoEntropy)?;
    ValueLog::format(place, id, Layout::default(), room, replace)?;
    let log = ValueLog::open(place, Some(id), Settings { background: false, ..Settings::default() })?;
    state::renew(&log, first, id, 0)?;
    log.close()?;
    Ok(id)
}
