//! Uploads in parts, as all rooms see them.

use base::{ArchivePath, Timestamp, UploadId};
use catalogue::{ReadError, UploadRecord, View};

use crate::{ArchiveError, Ground};

/// Uploads looked at together when those are searched that are being given up.
const ENDING_PAGE: usize = 1_000;

/// Calls `act` for all uploads, also those that are being given up.
pub fn each_upload(
    ground: &Ground,
    mut act: impl FnMut(UploadId, &UploadRecord) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut after = None;
    loop {
        let rows = ground.read(|view| view.uploads_before(Timestamp(i64::MAX), after, ENDING_PAGE))?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        after = Some(*last);
        for (id, record) in &rows {
            act(*id, record)?;
        }
        if ground.stopping() {
            return Ok(());
        }
    }
}

/// The path that an upload is to have; `None` if its bucket is gone.
pub fn path_of_upload(view: &View<'_>, record: &UploadRecord) -> Result<Option<ArchivePath>, ReadError> {
    let bucket = view.path_of_directory(record.bucket)?;
    Ok(bucket.and_then(|bucket| ArchivePath::new(&format!("{bucket}/{}", record.key)).ok()))
}
