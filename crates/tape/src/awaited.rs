//! Files that somebody waits for, and whose last place on tape is damaged too: they wait as long as their
//! container may be put together from what its copies still have, and are taken from that.
//!
//! What lasts is the row of that last place in the recall set of its tape, which is left there: a restart
//! reads it once more, finds the damage again, and has the copies put together. As long as the mend is known
//! here, no tape is mounted for that place: what would be read there is known. When the mend has ended, in
//! whatever way, the file is looked at anew.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base::{
    BlobDescription, BlobPiece, BlockAddress, ByteCount, ContainerId, DriveGroup, FileId, StreamChecksums,
    Vid,
};
use blob::{BlobFault, NewBlob, Use};
use catalogue::{
    BULK_FILES, Command, ContainerKind, ContainerRecord, MemberRecord, PartsRecalled, ReadError, RecallDone,
    RecallKey, View,
};
use scheduler::{Event, Reason};

use crate::mends::FromTape;
use crate::room::{Tape, in_recall_set};
use crate::room_for_reads::is_without_room;
use ground::ArchiveError;
use ground::access::Notice;
use ground::truncated;
use threads::{Mutex, MutexGuard};

/// Files of which it is known here what they wait for. Others wait as well; they are tried again, and what
/// becomes of them is seen then.
const AWAITED_MAX: usize = 100_000;
/// Bytes of files that are taken from a container with one commit; a larger file is taken alone.
const GIVEN_BYTES: u64 = 256 << 20;
/// Members looked at together.
const MEMBERS_PAGE: usize = 1_000;

/// Where a wanted file could not be read that waits for its container to be put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Awaited {
    place: (Vid, BlockAddress),
    reason: String,
}

/// The files that wait for containers. Under a lock of its own, under which nobody posts: the conductor asks
/// here, and waits for no other one.
#[derive(Default)]
pub(crate) struct AwaitedFiles(Mutex<ByContainer>);

type ByContainer = BTreeMap<(ContainerId, FileId), Awaited>;

impl AwaitedFiles {
    fn lock(&self) -> MutexGuard<'_, ByContainer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, container: ContainerId, file: FileId, awaited: Awaited) {
        let mut files = self.lock();
        if files.len() < AWAITED_MAX {
            files.insert((container, file), awaited);
        }
    }

    fn of_container(container: ContainerId) -> std::ops::RangeInclusive<(ContainerId, FileId)> {
        (container, FileId(0))..=(container, FileId(u64::MAX))
    }

    /// Whether any file waits for a container.
    pub(crate) fn has(&self, container: ContainerId) -> bool {
        self.lock().range(Self::of_container(container)).next().is_some()
    }

    /// Whether a file waits for a container, since it could not be read at this place.
    pub(crate) fn is_put_off(
        &self,
        file: FileId,
        container: ContainerId,
        place: (Vid, BlockAddress),
    ) -> bool {
        self.lock().get(&(container, file)).is_some_and(|awaited| awaited.place == place)
    }

    /// One of the files whose last place is on a tape.
    fn first_on(&self, vid: Vid) -> Option<FileId> {
        self.lock().iter().find(|(_, awaited)| awaited.place.0 == vid).map(|((_, file), _)| *file)
    }

    /// The first of these containers for which a file waits.
    fn first_of(
        &self,
        file: FileId,
        containers: impl IntoIterator<Item = ContainerId>,
    ) -> Option<ContainerId> {
        let files = self.lock();
        containers.into_iter().find(|container| files.contains_key(&(*container, file)))
    }

    /// What was known of those who wait for a container.
    fn forget(&self, container: ContainerId) -> Vec<(FileId, Awaited)> {
        let mut files = self.lock();
        let known: Vec<FileId> =
            files.range(Self::of_container(container)).map(|((_, file), _)| *file).collect();
        known.into_iter().filter_map(|file| Some((file, files.remove(&(container, file))?))).collect()
    }
}

/// A file whose bytes are to be taken from a container that the pool has.
struct Given {
    file: FileId,
    member: MemberRecord,
    sums: StreamChecksums,
}

impl Tape {
    /// A file, or the part of it in this container, could not be read at a place. `true`: it was the last
    /// place to be tried, and the file came from the pool, or goes on waiting there; `false`: the place is of
    /// no more use to it.
    pub(crate) fn is_awaited(
        &self,
        file: FileId,
        container: ContainerId,
        place: (Vid, BlockAddress),
        reason: &str,
    ) -> Result<bool, ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(false) };
        let is_last = |view: &View<'_>| {
            let rows = wanted_at(view, file, container, &record)?;
            Ok(rows.contains(&place) && rows.iter().all(|row| *row == place))
        };
        if !self.read(is_last)? {
            return Ok(false);
        }
        match self.give_awaited_of_image(container, &[place]) {
            Ok(_) if self.read(|view| Ok(view.wants(file)?.is_empty()))? => return Ok(true),
            Ok(_) => {}
            // The pool has it, and has no room for it beside, or lacks drives, for a while.
            Err(error) if is_passing(&error) => {
                tracing::warn!(%container, %file, %error, "it cannot be taken from the pool now");
                return Ok(true);
            }
            Err(ArchiveError::Blob(error)) => {
                tracing::error!(%container, %file, %error, "the pool cannot give it either");
            }
            Err(error) => return Err(error),
        }
        if self.has_bytes(container, &record)? {
            return Ok(false);
        }
        let asked = self.want_bytes(container, |mend| {
            mend.damaged.insert(place, reason.to_owned());
        })?;
        if asked == FromTape::Asked {
            // Under the lock: it may have come to its end meanwhile, and whoever ends it forgets what is
            // known here afterwards.
            let maintenance = self.maintenance();
            // Of one that waits for other tapes nobody is told any more that it has failed.
            if maintenance.mends.get(&container).is_some_and(|mend| !mend.parked) {
                self.own.awaited.note(container, file, Awaited { place, reason: reason.to_owned() });
            }
        }
        Ok(asked != FromTape::Nowhere)
    }

    /// No tape can give a container whole: who waits for it gets the true cause.
    pub(crate) fn fail_awaited(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let awaited = self.own.awaited.forget(container);
        let files: Vec<FileId> = awaited.iter().map(|(file, _)| *file).collect();
        let failed = if awaited.is_empty() { Ok(()) } else { self.fail_each(container, awaited) };
        // Who could not be told is tried again.
        files.into_iter().for_each(|file| self.notifier.wants_changed(file));
        failed
    }

    fn fail_each(&self, container: ContainerId, awaited: Vec<(FileId, Awaited)>) -> Result<(), ArchiveError> {
        let why = match self.out_of_reach(container)?.first() {
            None => "the copies of its container do not have all of it together either".to_owned(),
            Some(vid) => format!("its copy on {vid}, which may have what is missing, cannot be read now"),
        };
        for (file, Awaited { place: (vid, block), reason }) in awaited {
            tracing::error!(%container, %file, %vid, %block, "no tape has all bytes of what is waited for");
            let (parts, here) =
                self.read(|view| Ok((view.parts(file)?.len(), view.container(container)?)))?;
            if here.is_none_or(|record| record.places().all(|place| place != (vid, block))) {
                continue;
            }
            let reason = truncated(&format!("{reason}; {why}"), 512);
            self.execute(match parts {
                0 | 1 => Command::RecallCopyFailed { file, vid, reason },
                _ => Command::RecallPlaceFailed { vid, block, reason },
            })?;
            self.notifier.post(Event::CopyFailed(file, vid));
        }
        Ok(())
    }

    /// Nothing is put together any more for those who wait for a container: they are tried again.
    pub(crate) fn forget_awaited(&self, container: ContainerId) {
        let files = self.own.awaited.forget(container);
        files.into_iter().for_each(|(file, _)| self.notifier.wants_changed(file));
    }

    /// Why a file waits that waits for its container.
    pub(crate) fn why_awaited(&self, file: FileId) -> Result<Option<Reason>, ReadError> {
        let parts = self.catalogue.read(|view| view.parts(file))?;
        let parts = parts.into_iter().map(|(container, _)| container);
        let Some(container) = self.own.awaited.first_of(file, parts) else { return Ok(None) };
        let Some(record) = self.catalogue.read(|view| view.container(container))? else { return Ok(None) };
        let wait = self.bytes_wait_for(container, &record)?;
        Ok(wait.map(|wait| Reason::BeingMended { container, cause: Box::new(wait.reason) }))
    }

    /// The same of a tape that is not read for any file but those that wait for their containers.
    pub(crate) fn why_awaited_on(&self, vid: Vid) -> Result<Option<Reason>, ReadError> {
        self.own.awaited.first_on(vid).map_or(Ok(None), |file| self.why_awaited(file))
    }

    /// The bytes of a container are in the pool, in a blob that no commit names yet: files that wait for them
    /// and are wanted at damaged places only are taken from there. A part of a larger file comes with the
    /// change that records the blob and gives up a damaged place: with two changes, a request that is called
    /// off between them would leave neither. `true`: there is no such place but the one it is wanted at, and
    /// the blob is that part now.
    pub(crate) fn give_awaited(
        &self,
        container: ContainerId,
        blob: &BlobDescription,
        damaged: &[(Vid, BlockAddress)],
    ) -> Result<bool, ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(false) };
        let piece = BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length };
        if let ContainerKind::Segment { file, .. } = record.kind {
            if self.read(|view| Ok(view.wants(file)?.is_empty()))? {
                return Ok(false);
            }
            let mut standing = record.places().filter(|place| damaged.contains(place));
            let is_only_copy = record.places().count() == 1;
            let first = self.first_to_give_up(container, &record, damaged)?;
            if is_only_copy || first.is_some() || standing.next().is_none() {
                return Ok(false);
            }
            let parts = vec![(container, piece)];
            let done = PartsRecalled { blobs: vec![blob.clone()], files: Vec::new(), parts };
            self.execute(Command::PartsRecalled(Box::new(done)))?;
            self.notifier.wants_changed(file);
            return Ok(true);
        }
        self.give(container, &record, (blob, piece), damaged)?;
        Ok(false)
    }

    /// The damaged place of a container that can be given up with the change that records its bytes: of a
    /// part of a file, not the only place that the part is wanted at, or that change would fail who waits.
    pub(crate) fn first_to_give_up(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
        damaged: &[(Vid, BlockAddress)],
    ) -> Result<Option<(Vid, BlockAddress)>, ArchiveError> {
        let standing: Vec<_> = record.places().filter(|place| damaged.contains(place)).collect();
        if record.places().count() == 1 {
            return Ok(None);
        }
        let wanted = match record.kind {
            ContainerKind::Segment { file, .. } => {
                self.read(|view| wanted_at(view, file, container, record))?
            }
            ContainerKind::Pack | ContainerKind::File(_) => Vec::new(),
        };
        let is_free =
            |place: &(Vid, BlockAddress)| wanted.is_empty() || wanted.iter().any(|row| row != place);
        Ok(standing.into_iter().find(is_free))
    }

    /// As [`Tape::give_awaited`], of a container that the pool has already. `false`: it does not have it as a
    /// whole.
    pub(crate) fn give_awaited_of_image(
        &self,
        container: ContainerId,
        damaged: &[(Vid, BlockAddress)],
    ) -> Result<bool, ArchiveError> {
        let _reading = self.gate.enter();
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(false) };
        let Some(image) = record.image else { return Ok(false) };
        // The image of a part is the part: nobody waits for it any more.
        if matches!(record.kind, ContainerKind::Segment { .. }) {
            return Ok(true);
        }
        let Some(blob) = self.read(|view| view.blob(image.blob))? else { return Ok(false) };
        self.give(container, &record, (&blob, image), damaged)?;
        Ok(true)
    }

    fn give(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
        from: (&BlobDescription, BlobPiece),
        damaged: &[(Vid, BlockAddress)],
    ) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let (members, given) = self.read(|view| {
                let members = view.members(container, after, MEMBERS_PAGE)?;
                let mut given = Vec::new();
                for member in &members {
                    let rows = wanted_at(view, member.file, container, record)?;
                    let may = !rows.is_empty() && rows.iter().all(|place| damaged.contains(place));
                    let file = view.file(member.file)?.filter(|file| may && file.is_named());
                    let is_whole = |size: ByteCount| size == member.length && size.0 > 0;
                    if let Some(file) = file.filter(|file| !file.is_online() && is_whole(file.size)) {
                        let (file, sums) = (member.file, file.checksums.stream);
                        given.push(Given { file, member: *member, sums });
                    }
                }
                Ok((members, given))
            })?;
            let mut left = given.as_slice();
            while !left.is_empty() {
                let (batch, others) = left.split_at(batch_of(left));
                left = others;
                self.give_batch(container, from, batch)?;
            }
            let Some(last) = members.last() else { return Ok(()) };
            after = Some((last.data_offset, last.file));
        }
    }

    /// Copies files out of a container: its blob goes when its copies are written again.
    fn give_batch(
        &self,
        container: ContainerId,
        (blob, piece): (&BlobDescription, BlobPiece),
        batch: &[Given],
    ) -> Result<(), ArchiveError> {
        let length = ByteCount(batch.iter().map(|given| given.member.length.0).sum());
        let mut writer = self.blobs.create(NewBlob {
            length: Some(length),
            whose: Use::Engine,
            group: DriveGroup::MAIN,
        })?;
        let mut ends = Vec::with_capacity(batch.len());
        let mut at = 0_u64;
        for given in batch {
            let range = (given.member.data_offset, given.member.length);
            let mut source = self.blobs.read(blob, &piece, range, Use::Engine)?;
            let (begin, mut sums) = (at, StreamChecksums::default());
            while let Some(bytes) = source.next()? {
                sums = sums.extend(bytes);
                writer.write(bytes)?;
                at += bytes.len() as u64;
            }
            assert_eq!(at - begin, given.member.length.0, "the pool gives as much as it was asked for");
            match sums == given.sums {
                true => ends.push((given.file, begin, given.member.length)),
                false => tracing::error!(%container, file = %given.file, "its bytes in the container differ"),
            }
        }
        let new = writer.finish()?;
        let of_new = |offset, length| BlobPiece { blob: new.id, offset: ByteCount(offset), length };
        let files: Vec<_> =
            ends.iter().map(|(file, begin, length)| (*file, vec![of_new(*begin, *length)])).collect();
        let come: Vec<FileId> = ends.iter().map(|(file, ..)| *file).collect();
        if come.is_empty() {
            return Ok(self.blobs.remove(&new)?);
        }
        let wanted = self.wanted_since(&come);
        let done = RecallDone { blobs: vec![new.clone()], files };
        if let Err(error) = self.execute(Command::RecallDone(Box::new(done))) {
            if error.is_certain_refusal() {
                self.blobs.remove(&new)?;
            }
            return Err(error);
        }
        tracing::info!(%container, files = come.len(), "files come from what their copies have together");
        if let Some(vid) = self.read(|view| view.container(container))?.and_then(|it| it.places().next()) {
            let (at, vid) = (self.now(), vid.0);
            self.access.push(|| Notice::Recalled { at, vid, files: wanted });
        }
        come.into_iter().for_each(|file| self.notifier.wants_changed(file));
        Ok(())
    }
}

/// Whether what the pool refused it gives, or takes, later.
fn is_passing(error: &ArchiveError) -> bool {
    is_without_room(error) || matches!(error, ArchiveError::Blob(error) if error.fault == BlobFault::Shortage)
}

/// How many of the first files are taken together.
fn batch_of(files: &[Given]) -> usize {
    let mut bytes = 0_u64;
    let fits = |given: &&Given| {
        bytes = bytes.saturating_add(given.member.length.0);
        bytes <= GIVEN_BYTES
    };
    files.iter().take(BULK_FILES).take_while(fits).count().max(1)
}

/// The places of a container at which a file is wanted.
fn wanted_at(
    view: &View<'_>,
    file: FileId,
    container: ContainerId,
    record: &ContainerRecord,
) -> Result<Vec<(Vid, BlockAddress)>, ReadError> {
    let mut places = Vec::new();
    if view.wants(file)?.is_empty() {
        return Ok(places);
    }
    for (_, member) in view.parts(file)?.into_iter().filter(|(of, _)| *of == container) {
        for (vid, block) in record.places() {
            if in_recall_set(view, RecallKey { vid, block, data_offset: member.data_offset, file })? {
                places.push((vid, block));
            }
        }
    }
    Ok(places)
}
