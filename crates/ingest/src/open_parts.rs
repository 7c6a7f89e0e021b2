//! Room for parts of uploads on their way in. What is stored stands in the quotas of the catalogue, and the
//! command that records a part has the last word. This refuses before the bytes are sent, and also counts the
//! bytes of other parts that are on their way.

use std::collections::BTreeMap;

use base::{ByteCount, DirId, UploadId};
use catalogue::{QuotaSubject, ReadError, View};
use threads::{Mutex, MutexGuard};

use crate::Ingest;
use ground::ArchiveError;

/// Bytes of parts that are on their way, by where and for which group they count. As many entries at most as
/// transfers run at once.
#[derive(Default)]
pub(crate) struct OpenParts(Mutex<BTreeMap<Place, u64>>);

/// Where the parts of an upload count, and of which group.
type Place = (DirId, String);

/// Room for one part on its way in; given back before the command that counts it, or when it is dropped.
pub(crate) struct PartRoom {
    ingest: Ingest,
    upload: UploadId,
    number: u16,
    /// Where its bytes are reserved, and how many; `None`: no quota counts them.
    reserved: Option<(Place, u64)>,
}

/// A quota without room: whose, its limit, and what is used with all that is on its way.
type Exceeded = (QuotaSubject, u64, u64);

impl OpenParts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, u64>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Ingest {
    /// Room for a part of so many bytes, more of which may be asked for as they come.
    ///
    /// # Errors
    /// [`ArchiveError::QuotaExceeded`].
    pub(crate) fn room_for_part(
        &self,
        upload: UploadId,
        number: u16,
        length: ByteCount,
    ) -> Result<PartRoom, ArchiveError> {
        let mut room = PartRoom { ingest: self.clone(), upload, number, reserved: None };
        room.grow(length.0)?;
        Ok(room)
    }
}

impl PartRoom {
    /// Has the part hold so many bytes in all, if the quotas allow it.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let ingest = self.ingest.clone();
        let ingest = &*ingest.0;
        let own = self.reserved.as_ref().map_or(0, |(_, bytes)| *bytes);
        let Some(more) = bytes.checked_sub(own).filter(|more| *more > 0) else { return Ok(()) };
        let mut on_the_way = ingest.open_parts.lock();
        let exceeded = ingest.read(|view| {
            if !view.has_quotas()? {
                return Ok(None);
            }
            let place = match &self.reserved {
                Some((place, _)) => place.clone(),
                None => match place_of(view, self.upload)? {
                    Some(place) => place,
                    None => return Ok(None),
                },
            };
            let exceeded = exceeded(view, &on_the_way, &place, self, bytes, own)?;
            if exceeded.is_none() {
                let sum = on_the_way.entry(place.clone()).or_default();
                *sum = sum.saturating_add(more);
                self.reserved = Some((place, bytes));
            }
            Ok(exceeded)
        });
        drop(on_the_way);
        match exceeded? {
            Some((subject, limit, used)) => Err(ingest.exceeded(subject, "bytes", limit, used)),
            None => Ok(()),
        }
    }
}

impl PartRoom {
    /// Has the part hold nothing any more.
    pub(crate) fn give_back(&mut self) {
        let Some((place, bytes)) = self.reserved.take() else { return };
        let mut on_the_way = self.ingest.0.open_parts.lock();
        if let Some(sum) = on_the_way.get_mut(&place) {
            *sum = sum.saturating_sub(bytes);
            if *sum == 0 {
                on_the_way.remove(&place);
            }
        }
    }
}

impl Drop for PartRoom {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Where the parts of an upload count; `None`: nowhere, since it began before parts counted, or has ended.
fn place_of(view: &View<'_>, upload: UploadId) -> Result<Option<Place>, ReadError> {
    let Some(usage) = view.upload_use(upload)? else { return Ok(None) };
    let record = view.upload(upload)?;
    Ok(record.map(|record| (usage.directory, record.plan.attributes.group)))
}

/// The first quota without room for a part of `bytes`, of which `own` are reserved.
fn exceeded(
    view: &View<'_>,
    on_the_way: &BTreeMap<Place, u64>,
    place: &Place,
    room: &PartRoom,
    bytes: u64,
    own: u64,
) -> Result<Option<Exceeded>, ReadError> {
    let (directory, group) = place;
    // The directory may have been removed since the part began: the command finds where it counts now.
    if view.directory(*directory)?.is_none() {
        return Ok(None);
    }
    let replaced = view.upload_part(room.upload, room.number)?.map_or(0, |part| part.size.0);
    for (subject, quota) in view.quotas_of(*directory, group)? {
        let Some(ByteCount(limit)) = quota.limits.bytes else { continue };
        let others = sum_for(view, on_the_way, &subject)?.saturating_sub(own);
        let used = quota.used.bytes.0.saturating_add(others);
        if bytes > replaced && used.saturating_add(bytes - replaced) > limit {
            return Ok(Some((subject, limit, used)));
        }
    }
    Ok(None)
}

/// What of all bytes on their way a quota counts.
fn sum_for(
    view: &View<'_>,
    on_the_way: &BTreeMap<Place, u64>,
    subject: &QuotaSubject,
) -> Result<u64, ReadError> {
    let mut sum = 0u64;
    for ((directory, group), bytes) in on_the_way {
        let counts = match subject {
            QuotaSubject::Group(of) => of == group,
            QuotaSubject::Directory(_) => {
                let is_there = view.directory(*directory)?.is_some();
                let quotas = if is_there { view.quotas_of(*directory, "")? } else { Vec::new() };
                quotas.iter().any(|(known, _)| known == subject)
            }
        };
        sum = sum.saturating_add(if counts { *bytes } else { 0 });
    }
    Ok(sum)
}
