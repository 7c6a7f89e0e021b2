//! A reading session: the wanted files of the mounted tape in the planned order, committed batch by batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::planted::{Bug, is_planted};
use base::{BlockAddress, ContainerId, FileId, Vid};
use catalogue::{Command, PartsRecalled, ReadError, RecallDone, View};
use mover::{RecallBatch, RecallEnd};
use scheduler::{Event, SessionEnd};

use super::recall_order::RecallOrder;
use super::{MountedTape, SessionError};
use crate::room::Tape;
use crate::space::SessionClaims;
use ground::access::Notice;
use ground::{ArchiveError, LeavingCause, truncated};

impl MountedTape<'_> {
    /// Reads what is wanted from the mounted tape until nothing is left; requests that arrive meanwhile join.
    pub(super) fn recall(&mut self) -> SessionEnd {
        let room = Arc::clone(self.room);
        let (vid, block_size) = (self.tape.vid, self.tape.volume.block_size());
        let track = room.track(self.drive.as_mut(), block_size.bytes());
        let claims = SessionClaims::new(&room);
        let session = Arc::clone(self.session);
        let (size, orders) = (block_size.bytes(), &session.orders);
        let mut order = RecallOrder::new(&room, vid, track, size, orders, &claims);
        let stream = room.tape_stream();
        let mut failure = None;
        let mut damaged = BTreeMap::new();
        let result = mover::recall(
            self.drive.as_mut(),
            vid,
            block_size,
            room.blobs.as_ref(),
            room.settings.tape.buffer,
            &self.session.bytes,
            &room.stop,
            &mut |drive| order.next_batch(drive),
            &mut |batch| {
                session.files.fetch_add(batch.files.len() as u64, Ordering::Relaxed);
                session.items.fetch_add(batch.files.len() as u64, Ordering::Relaxed);
                let result = commit(&room, vid, batch, &mut damaged);
                claims.done();
                let go_on = result.is_ok();
                failure = result.err();
                go_on
            },
            &stream,
        );
        if result.is_ok() {
            room.learn_locates(self.drive.as_mut(), block_size.bytes());
        }
        // Only now: the neighbours of what could not be read were served from here.
        for (container, (block, reason)) in damaged {
            if let Err(error) = room.copy_damaged(container, vid, block, &reason) {
                tracing::error!(%vid, %container, %error, "a damaged copy cannot be recorded");
            }
        }
        match (result, failure) {
            (Ok(()), None) if room.stop.load(Ordering::Relaxed) => SessionEnd::Stopped,
            (Ok(()), None) => order.end(),
            (Ok(()), Some(error)) => SessionEnd::Failed(SessionError::Tape(error).failure()),
            (Err(RecallEnd::Store(error)), None) if room.is_for_want_of_room(error.fault) => {
                tracing::warn!(%vid, %error, "the pool filled meanwhile; the rest waits for room");
                room.leaving.tell(LeavingCause::RecallWaits);
                SessionEnd::NoRoom
            }
            (Err(RecallEnd::Tape(error)), _) => self.fail(&SessionError::Volume(error)),
            (Err(error), _) => SessionEnd::Failed(error.to_string().into()),
        }
    }
}

/// Commits a batch whose bytes are synced in the pool, then tells the scheduler.
fn commit(
    room: &Tape,
    vid: Vid,
    batch: RecallBatch,
    damaged: &mut BTreeMap<ContainerId, (BlockAddress, String)>,
) -> Result<(), ArchiveError> {
    let (mut come, mut files, mut parts, mut failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for recalled in batch.files {
        match (recalled.result, recalled.part) {
            (Ok(piece), None) => files.push((recalled.file, vec![piece])),
            (Ok(piece), Some(container)) => parts.push((container, piece)),
            (Err(fault), part) => {
                failed.push((recalled.file, part, fault));
                continue;
            }
        }
        come.push(recalled.file);
    }
    let mut wanted = room.wanted_since(&come);
    if !come.is_empty() {
        let blob = batch.blob.clone();
        let blobs = batch.blob.into_iter().collect();
        let are_whole = parts.is_empty();
        let command = match are_whole {
            true => Command::RecallDone(Box::new(RecallDone { blobs, files })),
            false => Command::PartsRecalled(Box::new(PartsRecalled { blobs, files, parts })),
        };
        if let Err(error) = room.execute(command) {
            if error.is_certain_refusal()
                && let Some(blob) = blob
                && let Err(error) = room.blobs.remove(&blob)
            {
                tracing::warn!(%error, "an unused blob stays until the next start");
            }
            return Err(error);
        }
        if !are_whole {
            // A file has come with its last part.
            wanted = room.read(|view| {
                let mut online = Vec::with_capacity(wanted.len());
                for wanted in wanted {
                    if view.file(wanted.file)?.is_some_and(|file| file.is_online()) {
                        online.push(wanted);
                    }
                }
                Ok(online)
            })?;
        }
    } else if let Some(blob) = batch.blob {
        room.blobs.remove(&blob)?;
    }
    room.access.push(|| Notice::Recalled { at: room.now(), vid, files: wanted });
    come.into_iter().for_each(|file| room.notifier.wants_changed(file));
    for (file, part, fault) in failed {
        tracing::error!(%vid, %file, %fault, "a copy cannot be recalled");
        if is_planted(Bug::LostRequest) {
            room.notifier.post(Event::NotWanted(file));
            continue;
        }
        let reason = truncated(&fault.to_string(), 512);
        let mut places = room.read(|view| places_on(view, file, vid))?;
        places.retain(|(container, _)| part.is_none_or(|part| part == *container));
        for (container, block) in &places {
            damaged.insert(*container, (*block, reason.clone()));
        }
        let mut is_awaited = false;
        for (container, block) in &places {
            is_awaited |= room.is_awaited(file, *container, (vid, *block), &reason)?;
        }
        if is_awaited {
            room.notifier.post(Event::CopyFailed(file, vid));
        } else if part.is_none() {
            room.execute(Command::RecallCopyFailed { file, vid, reason })?;
            room.notifier.post(Event::CopyFailed(file, vid));
        } else {
            // The tape may give another part of the file.
            for (_, block) in places {
                let reason = reason.clone();
                room.execute(Command::RecallPlaceFailed { vid, block, reason })?;
            }
        }
        room.notifier.wants_changed(file);
    }
    Ok(())
}

/// The containers with parts of a file that stand on a tape, and where.
fn places_on(view: &View<'_>, file: FileId, vid: Vid) -> Result<Vec<(ContainerId, BlockAddress)>, ReadError> {
    let mut places = Vec::new();
    for (container, _) in view.parts(file)? {
        if let Some(record) = view.container(container)? {
            let here = record.places().filter(|(on, _)| *on == vid);
            places.extend(here.map(|(_, block)| (container, block)));
        }
    }
    Ok(places)
}
