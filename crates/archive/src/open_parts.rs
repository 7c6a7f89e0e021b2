//! Room that the parts of uploads take before they are a file. Quotas count files; parts are counted here, or
//! uploads that are never completed would fill the pool whatever the quotas say. The last word on the file
//! that they make has the command that completes the upload.

use std::collections::BTreeMap;

use base::{ArchivePath, ByteCount, Timestamp, UploadId};
use catalogue::{Entry, PARTS_MAX, QuotaSubject, ReadError, View};
use threads::{Mutex, MutexGuard};

use crate::multipart::path_of;
use crate::quotas::nearest;
use crate::{Archive, ArchiveError};

/// Uploads that are read together when all are read.
const PAGE: usize = 1_000;

/// The parts of all open uploads. Read from the catalogue when a quota is first asked for, and kept since.
#[derive(Default)]
pub(crate) struct OpenParts(Mutex<Option<Uploads>>);

#[derive(Default)]
struct Uploads {
    by_id: BTreeMap<UploadId, Held>,
    /// What all uploads of a directory and a group hold, so that few of them are looked up for each part.
    sums: BTreeMap<Place, u64>,
}

/// Where a file will stand, and of which group.
type Place = (ArchivePath, String);

/// What one upload holds.
struct Held {
    place: Place,
    /// Stamp and size of the parts that are stored, by their numbers.
    parts: BTreeMap<u16, (u64, u64)>,
    /// Bytes of parts that are on their way in.
    reserved: u64,
}

impl Held {
    fn bytes(&self) -> u64 {
        self.parts.values().fold(self.reserved, |sum, (_, size)| sum.saturating_add(*size))
    }
}

/// Room for one part on its way in; given back when it is dropped.
pub(crate) struct PartRoom {
    archive: Archive,
    upload: UploadId,
    number: u16,
    bytes: u64,
}

impl Uploads {
    /// Changes what an upload holds, if it is known, and the sum that it is in.
    fn change<T>(&mut self, upload: UploadId, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let held = self.by_id.get_mut(&upload)?;
        let before = held.bytes();
        let done = change(held);
        let (place, after) = (held.place.clone(), held.bytes());
        let sum = self.sums.entry(place).or_default();
        *sum = sum.saturating_sub(before).saturating_add(after);
        Some(done)
    }

    fn forget(&mut self, upload: UploadId) {
        self.change(upload, |held| (held.parts, held.reserved) = (BTreeMap::new(), 0));
        let Some(held) = self.by_id.remove(&upload) else { return };
        if self.by_id.values().all(|other| other.place != held.place) {
            self.sums.remove(&held.place);
        }
    }

    /// What all uploads hold of which a quota would count the files.
    fn held_of(&self, view: &View<'_>, subject: &QuotaSubject) -> Result<u64, ReadError> {
        let mut sum = 0u64;
        for ((directory, group), bytes) in self.sums.iter().filter(|(_, bytes)| **bytes > 0) {
            let counts = match subject {
                QuotaSubject::Group(of) => of == group,
                QuotaSubject::Directory(_) => {
                    let quotas = view.quotas_of(nearest(view, directory)?, "")?;
                    quotas.iter().any(|(known, _)| known == subject)
                }
            };
            sum = sum.saturating_add(if counts { *bytes } else { 0 });
        }
        Ok(sum)
    }
}

/// All parts that the catalogue knows.
fn read_all(view: &View<'_>) -> Result<Uploads, ReadError> {
    let (mut uploads, mut after) = (Uploads::default(), None);
    loop {
        let page = view.uploads_before(Timestamp(i64::MAX), after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(uploads) };
        after = Some(*last);
        for (id, record) in page.iter().filter(|(_, record)| !record.ending) {
            let Some(path) = path_of(view, record)? else { continue };
            uploads.know(*id, &path, &record.plan.attributes.group);
            let rows = view.upload_parts(*id, 0, usize::from(PARTS_MAX))?;
            let parts = rows.into_iter().map(|(number, part)| (number, (part.stamp, part.size.0)));
            uploads.change(*id, |held| held.parts.extend(parts));
        }
    }
}

impl Uploads {
    fn know(&mut self, upload: UploadId, path: &ArchivePath, group: &str) {
        let directory = path.split().map_or_else(ArchivePath::root, |(directory, _)| directory);
        let place = (directory, group.to_owned());
        let held = || Held { place, parts: BTreeMap::new(), reserved: 0 };
        self.by_id.entry(upload).or_insert_with(held);
    }
}

impl OpenParts {
    fn lock(&self) -> MutexGuard<'_, Option<Uploads>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// An upload is complete, or being given up: its parts are a file's, or garbage.
    pub(crate) fn ended(&self, upload: UploadId) {
        if let Some(uploads) = &mut *self.lock() {
            uploads.forget(upload);
        }
    }
}

impl Archive {
    /// Room for a part of so many bytes, more of which may be asked for as they come.
    ///
    /// # Errors
    /// [`ArchiveError::QuotaExceeded`]; [`ArchiveError::NoSuchUpload`].
    pub(crate) fn room_for_part(
        &self,
        upload: UploadId,
        number: u16,
        length: ByteCount,
    ) -> Result<PartRoom, ArchiveError> {
        let mut room = PartRoom { archive: self.clone(), upload, number, bytes: 0 };
        room.grow(length.0)?;
        Ok(room)
    }
}

impl PartRoom {
    /// Has the part hold so many bytes in all, if the quotas allow it.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let archive = self.archive.clone();
        let engine = archive.engine();
        let more = bytes.saturating_sub(self.bytes);
        let mut locked = engine.open_parts.lock();
        let exceeded = engine.read(|view| {
            if locked.is_none() {
                if !view.has_quotas()? {
                    return Ok(Ok(None));
                }
                *locked = Some(read_all(view)?);
            }
            let Some(uploads) = &mut *locked else { return Ok(Ok(None)) };
            let Some(record) = view.upload(self.upload)?.filter(|record| !record.ending) else {
                return Ok(Err(ArchiveError::NoSuchUpload(self.upload)));
            };
            let Some(path) = path_of(view, &record)? else {
                return Ok(Err(ArchiveError::NoSuchUpload(self.upload)));
            };
            // In this order it is known only as long as it is open: whoever ends it says so afterwards.
            uploads.know(self.upload, &path, &record.plan.attributes.group);
            let exceeded = if more > 0 && view.has_quotas()? {
                exceeded(view, uploads, self, &path, &record.plan.attributes.group, more)?
            } else {
                None
            };
            if exceeded.is_none() {
                uploads.change(self.upload, |held| held.reserved = held.reserved.saturating_add(more));
                self.bytes += more;
            }
            Ok(Ok(exceeded))
        });
        drop(locked);
        match exceeded?? {
            Some((subject, limit, used)) => Err(engine.exceeded(subject, "bytes", limit, used)),
            None => Ok(()),
        }
    }

    /// The part is stored, with this stamp, in place of an older one of its number.
    pub(crate) fn stored(mut self, stamp: u64, size: ByteCount) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(uploads) = &mut *self.archive.engine().open_parts.lock() {
            uploads.change(self.upload, |held| {
                held.reserved = held.reserved.saturating_sub(bytes);
                // Of two that came at a time the catalogue has the one with the higher stamp.
                let part = held.parts.entry(self.number).or_default();
                *part = (stamp, size.0).max(*part);
            });
        }
    }
}

impl Drop for PartRoom {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        if let Some(uploads) = &mut *self.archive.engine().open_parts.lock() {
            uploads.change(self.upload, |held| held.reserved = held.reserved.saturating_sub(self.bytes));
        }
    }
}

/// The first quota without room for `more` bytes of a part, its limit, and what is used with all parts that
/// wait.
fn exceeded(
    view: &View<'_>,
    uploads: &Uploads,
    room: &PartRoom,
    path: &ArchivePath,
    group: &str,
    more: u64,
) -> Result<Option<(QuotaSubject, u64, u64)>, ReadError> {
    let directory = path.split().map_or_else(ArchivePath::root, |(directory, _)| directory);
    // What the file takes the place of gives room back, once; so does a part of the same number.
    let replaced = match view.resolve(path)? {
        Some(Entry::File(old)) => view.file(old)?.map_or(0, |old| old.size.0),
        _ => 0,
    };
    let own = uploads.by_id.get(&room.upload);
    let old_part = own.and_then(|held| held.parts.get(&room.number)).map_or(0, |(_, size)| *size);
    let own = own.map_or(0, Held::bytes);
    for (subject, quota) in view.quotas_of(nearest(view, &directory)?, group)? {
        let Some(ByteCount(limit)) = quota.limits.bytes else { continue };
        let others = uploads.held_of(view, &subject)?.saturating_sub(own);
        let used = quota.used.bytes.0.saturating_add(others);
        let after = own.saturating_add(more).saturating_sub(old_part).saturating_sub(replaced);
        if used.saturating_add(after) > limit {
            return Ok(Some((subject, limit, used.saturating_add(own))));
        }
    }
    Ok(None)
}
