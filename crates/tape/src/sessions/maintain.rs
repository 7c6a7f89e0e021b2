//! A session of maintenance: copies that were written in place of others are read back, containers are read
//! whole into the pool, the tape is checked. It gives way as soon as somebody waits for the drive.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::planted::{Bug, is_planted};
use base::{
    BlobDescription, BlobPiece, BlockAddress, ByteCount, ContainerId, DriveGroup, StreamChecksums, Vid,
};
use blob::{BlobSink, NewBlob, Use};
use catalogue::{Command, ContainerKind, ContainerRecord, CopyState, PoolData, Requeue, typed};
use mover::{ContainerOnTape, ReadBack, read_back, read_piece_of};
use scheduler::SessionEnd;

use super::{MountedTape, SessionError};
use crate::held_back::HeldBack;
use crate::mends::{FromTape, Mend, Spool};
use crate::read_rests::unreadable;
use crate::room::Tape;
use crate::room_for_reads::is_without_room;
use ground::ArchiveError;
use ground::truncated;

/// Bytes between two looks at whether somebody waits for the drive.
const YIELD_BYTES: u64 = 64 << 20;
/// The most missing bytes of a container that are looked for on another tape.
const PATCH_BYTES_MAX: u64 = 256 << 20;

/// What became of one piece of work.
pub(super) enum Done {
    Yes,
    /// The drive is needed elsewhere.
    Yield,
}

impl MountedTape<'_> {
    /// Does what is to be done on the mounted tape until nothing is left or the drive is needed.
    pub(super) fn maintain(&mut self) -> SessionEnd {
        let vid = self.tape.vid;
        self.room.set_tasks(vid, |tasks| tasks.recover = false);
        let is_tried_again = self.room.is_tried_again(vid);
        self.room.end_try(vid);
        match self.try_again(vid, is_tried_again).and_then(|()| self.do_tasks(vid)) {
            Ok(Done::Yes) => SessionEnd::Drained,
            Ok(Done::Yield) => SessionEnd::Stopped,
            Err(error) => self.fail(&error),
        }
    }

    /// A suspect tape whose time to be tried again comes while it is in the drive was looked at when it was
    /// mounted.
    fn try_again(&mut self, vid: Vid, is_tried_again: bool) -> Result<(), SessionError> {
        if is_tried_again {
            self.check_end(vid)?;
            let fault = self.tape.volume.label_fault().map(str::to_owned);
            self.room.found_well(vid, fault.as_deref());
        }
        Ok(())
    }

    fn do_tasks(&mut self, vid: Vid) -> Result<Done, SessionError> {
        loop {
            if self.must_yield() {
                return Ok(Done::Yield);
            }
            // It may have been disabled meanwhile.
            let held = self.room.held_back(vid);
            let next = {
                let maintenance = self.room.maintenance();
                let Some(tape) = maintenance.tapes.get(&vid) else { return Ok(Done::Yes) };
                if tape.look {
                    drop(maintenance);
                    self.look_at_mounted(vid)?;
                    continue;
                }
                if tape.index && held.is_none() {
                    drop(maintenance);
                    self.write_index_for_room()?;
                    continue;
                }
                let read = maintenance.next_read(vid);
                match held {
                    None => (tape.read_back.first().copied(), read, tape.is_to_ship(), tape.check),
                    Some(HeldBack::Resting) => (None, read, false, None),
                    Some(_) => return Ok(Done::Yes),
                }
            };
            let done = match next {
                (Some(container), ..) => self.read_back_copy(vid, container)?,
                (None, Some(container), ..) => self.read_whole(vid, container)?,
                (None, None, true, _) => self.ship_changes(vid)?,
                (None, None, false, Some(asked)) => self.check(vid, asked)?,
                (None, None, false, None) => return Ok(Done::Yes),
            };
            if matches!(done, Done::Yield) {
                return Ok(Done::Yield);
            }
        }
    }

    /// Looks at a tape that was in the drive before it was asked about since the catalogue was restored.
    fn look_at_mounted(&mut self, vid: Vid) -> Result<(), SessionError> {
        let room = Arc::clone(self.room);
        let is_as_known = room.settler().answer(self.drive.as_mut(), vid)?.unwrap_or(true);
        room.set_tasks(vid, |tasks| tasks.look = false);
        self.tape.failed |= !is_as_known;
        Ok(())
    }

    pub(super) fn must_yield(&self) -> bool {
        let room = self.room;
        room.stop.load(Ordering::Relaxed) || room.scheduler().must_yield(&self.name(), room.now())
    }

    /// Reads a container at its place on the mounted tape, looking up from time to time. `sink` gets its
    /// bytes.
    pub(super) fn read_container(
        &mut self,
        vid: Vid,
        what: &ContainerOnTape,
        mut sink: impl FnMut(&[u8]) -> bool,
    ) -> Result<ReadBack, SessionError> {
        let room = Arc::clone(self.room);
        let session = Arc::clone(self.session);
        let mounted = &*self.tape;
        let block_size = mounted.volume.block_size();
        let name = self.name();
        let mut since = 0u64;
        // One that gave way before is read to its end, or a large one would never be.
        let to_the_end = room.maintenance().broken_off.get(&vid) == Some(&what.container);
        let mut gave_way = false;
        let back = read_back(self.drive.as_mut(), vid, block_size, what, &mut |bytes| {
            session.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            since += bytes.len() as u64;
            if since >= YIELD_BYTES {
                since = 0;
                let stop = room.stop.load(Ordering::Relaxed);
                gave_way = stop || !to_the_end && room.scheduler().must_yield(&name, room.now());
                if gave_way {
                    return false;
                }
            }
            sink(bytes)
        })?;
        if gave_way {
            room.maintenance().broken_off.insert(vid, what.container);
        } else if to_the_end {
            room.maintenance().broken_off.remove(&vid);
        }
        if back.is_good() {
            let record = room.read(|view| view.container(what.container))?;
            let files = record.map_or(1, |record| record.live_members.max(1));
            self.session.files.fetch_add(files.into(), Ordering::Relaxed);
            self.session.items.fetch_add(1, Ordering::Relaxed);
        }
        Ok(back)
    }

    /// A copy that took the place of another one: only when it was read back is the other one given up.
    fn read_back_copy(&mut self, vid: Vid, container: ContainerId) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        let record = room.read(|view| view.container(container))?;
        let here = record.as_ref().and_then(|record| unverified_at(record, vid).map(|block| (record, block)));
        let mut verified = false;
        if let Some((record, block)) = here {
            let what = on_tape(container, record, block);
            let back = match is_planted(Bug::EarlyRelease) {
                true => ReadBack { faults: Vec::new(), stopped: false },
                false => self.read_container(vid, &what, |_| true)?,
            };
            if back.stopped {
                return Ok(Done::Yield);
            }
            match back.faults.first() {
                None => {
                    room.execute_on_container(Command::CopyVerified { container, vid, block })?;
                    room.members_moved(container)?;
                    verified = true;
                }
                Some(fault) => {
                    if !room.drop_spare_place(container, vid, block, &fault.reason)? {
                        room.copy_damaged(container, vid, block, &fault.reason)?;
                    }
                }
            }
        }
        room.set_tasks(vid, |tasks| tasks.read_back.remove(&container));
        room.repack_progressed(container)?;
        if verified {
            // This tape may be under repack itself: it could not give up a copy that was not read back.
            room.repack_again(container, vid)?;
        }
        Ok(Done::Yes)
    }

    /// Reads a container whole into the pool, or the part of it that others could not give, unless another
    /// drive does so with its own tape.
    fn read_whole(&mut self, vid: Vid, container: ContainerId) -> Result<Done, SessionError> {
        if !self.room.claim_mend(container, vid) {
            return Ok(Done::Yes);
        }
        let length = self.room.maintenance().mends.get(&container).map_or(ByteCount(0), Mend::length);
        let done = self.read_claimed(vid, container);
        self.room.release_mend(container, vid);
        let Err(SessionError::Tape(error)) = &done else { return done };
        // It is left to be read in both cases: neither the tape nor the drive is to blame.
        if is_without_room(error) {
            self.room.reads_wait_for_room(length);
        } else if let Some(blob) = unreadable(error) {
            self.room.read_rests(container, blob, &error.to_string())?;
        } else {
            return done;
        }
        Ok(Done::Yes)
    }

    fn read_claimed(&mut self, vid: Vid, container: ContainerId) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        let not_here = || room.set_tasks(vid, |tasks| tasks.reads.remove(&container));
        let mend = room.maintenance().mends.get(&container).cloned();
        let Some(record) = room.read(|view| view.container(container))? else {
            not_here();
            room.drop_mend(container)?;
            room.repack_progressed(container)?;
            return Ok(Done::Yes);
        };
        let Some(mend) = mend else {
            not_here();
            return Ok(Done::Yes);
        };
        if room.has_bytes(container, &record)? {
            not_here();
            return self.settle_read(vid, container, None);
        }
        if let Some(whole) = mend.spool.as_ref().filter(|spool| spool.missing.is_empty()) {
            // It could not be recorded when it was read.
            not_here();
            return self.settle_read(vid, container, Some(whole.blob.clone()));
        }
        let Some((_, block)) = record.places().find(|(at, _)| *at == vid) else {
            not_here();
            if room.want_bytes(container, |_| {})? != FromTape::Asked {
                room.repack_stuck(container)?;
            }
            return Ok(Done::Yes);
        };
        let what = on_tape(container, &record, block);
        let mut read = None;
        if let Some(spool) = mend.spool.as_ref().filter(|spool| spool.missing_bytes() <= PATCH_BYTES_MAX) {
            read = self.patch(vid, &what, spool)?;
        }
        if read.is_none() {
            // Too much is missing, or what both gave is not the container: this tape alone may have it all.
            read = self.spool(vid, &what, mend.spool.as_ref())?;
        }
        let Some((spool, reason)) = read else { return Ok(Done::Yield) };
        room.reads_found_room(record.length);
        let spool = replace_spool(&room, container, mend.spool, spool)?;
        if spool.missing.is_empty() {
            not_here();
            return self.settle_read(vid, container, Some(spool.blob));
        }
        not_here();
        let found = room.want_bytes(container, |mend| {
            mend.tried.insert((vid, block));
            mend.damaged.entry((vid, block)).or_insert(reason);
        })?;
        if found != FromTape::Asked {
            tracing::error!(%container, %vid, "no tape has all bytes of it; what can be read stays");
            room.repack_stuck(container)?;
        }
        Ok(Done::Yes)
    }

    /// Records that a container is in the pool. If that fails it stays to be done here, and comes again: what
    /// was put together from several tapes is kept for that, since none of them has it alone.
    fn settle_read(
        &self,
        vid: Vid,
        container: ContainerId,
        image: Option<BlobDescription>,
    ) -> Result<Done, SessionError> {
        let room = self.room;
        let set_settling = |settling: bool| {
            if let Some(mend) = room.maintenance().mends.get_mut(&container) {
                mend.settling = settling;
                if !settling {
                    // Without what was read, all tapes are to be read anew.
                    mend.tried.clear();
                }
            }
        };
        set_settling(true);
        let is_whole_spool = image.is_some();
        let settled = give_awaited(room, container, image).and_then(|image| {
            if is_whole_spool && let Some(mend) = room.maintenance().mends.get_mut(&container) {
                // From now on it is an image, a part of a file, or nothing.
                mend.spool = None;
            }
            image.map_or(Ok(false), |image| settle_mend(room, container, image))
        });
        if !matches!(settled, Ok(true)) {
            set_settling(false);
            room.set_tasks(vid, |tasks| tasks.reads.insert(container));
        }
        settled?;
        Ok(Done::Yes)
    }

    /// The whole container into one blob, zeros in place of what cannot be read, and why; `None` if the drive
    /// is needed. If `other` has more of it, that is given.
    fn spool(
        &mut self,
        vid: Vid,
        what: &ContainerOnTape,
        other: Option<&Spool>,
    ) -> Result<Option<(Spool, String)>, SessionError> {
        let room = Arc::clone(self.room);
        let mut writer = room.blobs.create(sized(what.length)).map_err(ArchiveError::from)?;
        let mut failed = None;
        let back = self.read_container(vid, what, |bytes| {
            failed = writer.write(bytes).err();
            failed.is_none()
        })?;
        if let Some(error) = failed {
            return Err(ArchiveError::from(error).into());
        }
        if back.stopped {
            return Ok(None);
        }
        let reason = back.faults.first().map_or_else(String::new, |fault| fault.reason.clone());
        let missing: Vec<(u64, u64)> = back.faults.iter().map(|fault| (fault.offset, fault.length)).collect();
        let told = missing.last().is_some_and(|(offset, length)| {
            back.faults.len() >= mover::FAULTS_MAX && offset + length == what.length.0
        });
        if told {
            // It ended early: the rest of the blob is zeros.
            let rest = missing.last().map_or(0, |(_, length)| *length);
            write_zeros(writer.as_mut(), rest)?;
        }
        let blob = writer.finish().map_err(ArchiveError::from)?;
        let spool = Spool { blob, missing };
        match other {
            Some(other) if other.missing_bytes() < spool.missing_bytes() => {
                room.blobs.remove(&spool.blob).map_err(ArchiveError::from)?;
                Ok(Some((other.clone(), reason)))
            }
            _ => Ok(Some((spool, reason))),
        }
    }

    /// What an earlier tape could not give, from this one, put together with the rest; `None` if that is not
    /// what was sealed, so that nobody knows which of them is wrong.
    fn patch(
        &mut self,
        vid: Vid,
        what: &ContainerOnTape,
        spool: &Spool,
    ) -> Result<Option<(Spool, String)>, SessionError> {
        let (patches, missing) = self.read_missing(vid, what, &spool.missing)?;
        let room = Arc::clone(self.room);
        let (blob, sums) = compose(&room, what, &spool.blob, &patches)?;
        if missing.is_empty() && sums != what.checksums {
            room.blobs.remove(&blob).map_err(ArchiveError::from)?;
            return Ok(None);
        }
        Ok(Some((Spool { blob, missing }, format!("parts of container {} cannot be read", what.container))))
    }

    /// The blocks of this tape that hold missing ranges, and the ranges that are missing still.
    #[allow(clippy::type_complexity)]
    fn read_missing(
        &mut self,
        vid: Vid,
        what: &ContainerOnTape,
        missing: &[(u64, u64)],
    ) -> Result<(Vec<(u64, Vec<u8>)>, Vec<(u64, u64)>), SessionError> {
        let mounted = &*self.tape;
        let size = u64::from(mounted.volume.block_size().bytes());
        let mut buffer = vec![0u8; usize::try_from(size).unwrap_or(0)];
        let (mut patches, mut still) = (Vec::new(), Vec::new());
        for (offset, length) in missing {
            let mut at = *offset;
            while at < offset + length {
                let number = at / size;
                let end = ((number + 1) * size).min(offset + length);
                let block = BlockAddress(what.block.0 + number);
                let read = read_piece_of(self.drive.as_mut(), vid, block, &mut buffer)?;
                let range = (at - number * size) as usize..(end - number * size) as usize;
                match read.and_then(|read| buffer.get(..read)?.get(range)) {
                    Some(bytes) => patches.push((at, bytes.to_vec())),
                    None => still.push((at, end - at)),
                }
                at = end;
            }
        }
        Ok((patches, still))
    }
}

/// Remembers what could be read of a container, in place of what was known before.
fn replace_spool(
    room: &Tape,
    container: ContainerId,
    old: Option<Spool>,
    new: Spool,
) -> Result<Spool, ArchiveError> {
    room.maintenance().mends.entry(container).or_default().spool = Some(new.clone());
    if let Some(old) = old.filter(|old| old.blob.id != new.blob.id) {
        room.blobs.remove(&old.blob)?;
    }
    Ok(new)
}

/// Who waits for a container gets what it waits for before damaged copies are given up: with the last place
/// it would fail. Gives the image that is to be recorded yet; `None` outside: it came to nothing, and must be
/// read again.
#[allow(clippy::option_option)]
fn give_awaited(
    room: &Tape,
    container: ContainerId,
    image: Option<BlobDescription>,
) -> Result<Option<Option<BlobDescription>>, ArchiveError> {
    let damaged: Vec<_> = {
        let maintenance = room.maintenance();
        maintenance.mends.get(&container).into_iter().flat_map(|mend| mend.damaged.keys().copied()).collect()
    };
    let Some(blob) = image else {
        room.give_awaited_of_image(container, &damaged)?;
        return Ok(Some(None));
    };
    match room.give_awaited(container, &blob, &damaged) {
        Ok(false) => Ok(Some(Some(blob))),
        Ok(true) => {
            let record = room.read(|view| view.container(container))?;
            let is_there = record.map_or(Ok(true), |record| room.has_bytes(container, &record))?;
            // Nobody waits for it any more: then the blob is not kept.
            Ok(is_there.then_some(None))
        }
        Err(error) => {
            if !error.is_certain_refusal()
                && let Some(mend) = room.maintenance().mends.get_mut(&container)
            {
                // The blob may be in use now: it is not to be removed as what was read in vain.
                mend.spool = None;
            }
            Err(error)
        }
    }
}

/// The bytes of a container are in the pool, as `image` if they came from tape: what waited for that is
/// recorded, and only then forgotten.
fn settle_mend(
    room: &Tape,
    container: ContainerId,
    mut image: Option<BlobDescription>,
) -> Result<bool, ArchiveError> {
    loop {
        let Some(mend) = room.maintenance().mends.get(&container).cloned() else {
            image.iter().try_for_each(|blob| room.blobs.remove(blob))?;
            return Ok(true);
        };
        settle(room, container, &mend, image.take())?;
        let mut maintenance = room.maintenance();
        // A repack may have asked for it meanwhile.
        let is_same = |now: &Mend| now.repack == mend.repack && now.damaged == mend.damaged;
        if maintenance.mends.get(&container).is_none_or(is_same) {
            drop(maintenance.mends.remove(&container));
            drop(maintenance);
            room.forget_awaited(container);
            mend.spool.iter().try_for_each(|spool| room.blobs.remove(&spool.blob))?;
            room.ask_again()?;
            return Ok(true);
        }
    }
}

fn settle(
    room: &Tape,
    container: ContainerId,
    mend: &Mend,
    image: Option<BlobDescription>,
) -> Result<(), ArchiveError> {
    let wanted = requeue(room, container, mend);
    // Damaged copies of a container whose members were all deleted meanwhile are given up, not mended.
    let gives_up = !mend.damaged.is_empty()
        && room.read(|view| view.container(container))?.is_none_or(|record| record.is_empty());
    match (wanted, image) {
        (Ok(_), image) if gives_up => {
            image.iter().try_for_each(|blob| room.blobs.remove(blob))?;
        }
        (Ok(true), Some(image)) => {
            if !store(room, container, mend, &image)? {
                return room.repack_progressed(container);
            }
        }
        (Ok(true), None) => {}
        (wanted, image) => {
            image.iter().try_for_each(|blob| room.blobs.remove(blob))?;
            wanted?;
            return room.repack_progressed(container);
        }
    }
    for ((vid, block), reason) in &mend.damaged {
        room.give_up(container, *vid, *block, reason)?;
    }
    room.repack_progressed(container)?;
    room.own.resting.forget(&[container]);
    room.notifier.backlog_changed();
    Ok(())
}

/// Takes the container off the tapes that are repacked. Gives whether its bytes are needed: not if only
/// repacks asked for them, and they need them no longer.
fn requeue(room: &Tape, container: ContainerId, mend: &Mend) -> Result<bool, ArchiveError> {
    let mut wanted = mend.repack.is_empty() || !mend.damaged.is_empty();
    for vid in &mend.repack {
        // The repack may have been called off while the bytes were read.
        if room.tape(*vid)?.state != catalogue::TapeState::Repacking {
            continue;
        }
        match room.ask_on_container(typed::RequeueCopy { container, vid: *vid }) {
            Ok(requeue) => wanted |= requeue == Some(Requeue::Queued),
            Err(error @ ArchiveError::Rejected(_)) => {
                tracing::error!(%container, %vid, %error, "a repack cannot take a container off its tape");
                room.repack_stuck(container)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(wanted)
}

/// The image becomes the container's. A damaged copy is given up with the same change, so that what can be
/// read of it stays until its bytes are safe. `false` if the catalogue refused it: nobody needs the image.
fn store(
    room: &Tape,
    container: ContainerId,
    mend: &Mend,
    blob: &BlobDescription,
) -> Result<bool, ArchiveError> {
    let piece = BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length };
    let image = PoolData { blobs: vec![blob.clone()], pieces: vec![piece] };
    let record = room.read(|view| view.container(container))?;
    let damaged: Vec<_> = mend.damaged.keys().copied().collect();
    let first = record.as_ref().map_or(Ok(None), |it| room.first_to_give_up(container, it, &damaged))?;
    let first = first.and_then(|place| Some((place, mend.damaged.get(&place)?)));
    let (command, given_up) = match first {
        Some(((vid, block), reason)) => {
            let reason = truncated(reason, 512);
            (Command::MendCopy { container, vid, block, reason, image }, Some(vid))
        }
        None => (Command::StoreImage { container, image }, None),
    };
    match room.execute(command) {
        Ok(()) => {
            given_up.into_iter().try_for_each(|vid| room.place_dropped(container, vid))?;
            // It may be a part of a file that somebody waits, or waited until now, for.
            if let Some(ContainerKind::Segment { file, .. }) = record.map(|record| record.kind) {
                room.notifier.wants_changed(file);
            }
            Ok(true)
        }
        Err(error) => {
            if error.is_certain_refusal() {
                room.blobs.remove(blob)?;
            }
            if matches!(error, ArchiveError::Rejected(_)) {
                tracing::warn!(%container, %error, "its bytes came from tape, and nobody needs them now");
                return Ok(false);
            }
            Err(error)
        }
    }
}

/// The present place on `vid` of a copy under an index whose older place is not released.
pub(super) fn unverified_at(record: &ContainerRecord, vid: Vid) -> Option<BlockAddress> {
    record.copies.iter().find_map(|copy| match copy.state {
        CopyState::Indexed { vid: on, block } if on == vid && copy.source.is_some() => Some(block),
        _ => None,
    })
}

pub(super) fn on_tape(
    container: ContainerId,
    record: &ContainerRecord,
    block: BlockAddress,
) -> ContainerOnTape {
    ContainerOnTape { container, block, length: record.length, checksums: record.checksums }
}

/// A blob of the engine's own, of this length.
fn sized(length: ByteCount) -> NewBlob {
    NewBlob { length: Some(length), whose: Use::Engine, group: DriveGroup::MAIN }
}

fn write_zeros(writer: &mut dyn BlobSink, mut count: u64) -> Result<(), ArchiveError> {
    let zeros = vec![0u8; 1 << 20];
    while count > 0 {
        let now = count.min(zeros.len() as u64);
        writer.write(zeros.get(..now as usize).unwrap_or_default())?;
        count -= now;
    }
    Ok(())
}

/// A new blob: the old one with patches laid over it, and the checksums of the whole.
fn compose(
    room: &Tape,
    what: &ContainerOnTape,
    old: &BlobDescription,
    patches: &[(u64, Vec<u8>)],
) -> Result<(BlobDescription, StreamChecksums), ArchiveError> {
    let mut writer = room.blobs.create(sized(what.length))?;
    let piece = BlobPiece { blob: old.id, offset: ByteCount(0), length: what.length };
    let mut reader = room.blobs.read(old, &piece, (ByteCount(0), what.length), Use::Engine)?;
    let (mut at, mut sums) = (0u64, StreamChecksums::default());
    while let Some(chunk) = reader.next()? {
        let mut bytes = chunk.to_vec();
        let end = at + bytes.len() as u64;
        for (offset, patch) in patches {
            let (from, to) = (at.max(*offset), end.min(offset + patch.len() as u64));
            if from < to
                && let Some(into) = bytes.get_mut((from - at) as usize..(to - at) as usize)
                && let Some(new) = patch.get((from - offset) as usize..(to - offset) as usize)
            {
                into.copy_from_slice(new);
            }
        }
        sums = sums.extend(&bytes);
        writer.write(&bytes)?;
        at = end;
    }
    Ok((writer.finish()?, sums))
}
