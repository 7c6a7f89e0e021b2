//! A tape in a drive, labels checked: what is common to the sessions on it. Its run, its indexes, and its
//! closing before it is taken out.

use std::sync::Arc;

use base::planted::{Bug, is_planted};
use base::{BlockAddress, ByteCount, ContainerId, Generation, Partition, RunId, TapeKey, TapePoolId, Vid};
use catalogue::{Command, RunEnd, RunRecord, SEGMENTS_MAX, TapeRecord, TapeState, typed};
use library::{DriveName, TapeDrive, TapeError};
use ltfs::changes::{ChangeNumber, ChangeSegment};
use mover::{Stretch, Volume, VolumeError};
use scheduler::{Failure, SessionEnd};
use session::WritingSession;

use super::adopt::{self, Adopted};
use super::{Broken, SessionError, Verdict, is_of_a_write, is_worm, note_drive, verdict};
use crate::reclaim::room_for_index;
use crate::room::{Session, Tape, room_left};
use crate::tapes::covered;
use ground::{LeavingCause, truncated};

/// Most changes in one segment on tape.
const SEGMENT_CHANGES_MAX: usize = 500_000;
/// Most bytes of changes in one segment on tape.
const SEGMENT_BYTES_MAX: usize = 64 << 20;
/// The reason of a tape whose index has outgrown the index partition.
const INDEX_PARTITION_FULL: &str = "its index does not fit into the index partition any more: no more is \
    written to it, and other LTFS programs find its newest index on the data partition";

/// The reason of a tape whose last session is not indexed, since its pool has another key by now.
const OTHER_KEY: &str = "its pool has another key by now: what its last session wrote is written again to \
    another tape, and no more is written to it";

/// The tape in the drive, labels checked.
pub(super) struct Mounted {
    pub(super) vid: Vid,
    pub(super) volume: Volume,
    pub(super) run: Option<OpenRun>,
    /// The rules of writing to it, and how far it is.
    pub(super) writing: WritingSession,
    /// Whether something failed so that nothing more may be written to it in this mount.
    pub(super) failed: bool,
    /// Whether change-log segments were left out of the last index, since the tape has no room for them.
    pub(super) segment_left_out: bool,
    /// What is wrong with the newest index, if another one took its place.
    pub(super) index_fault: Option<String>,
    /// Copies written in place of others that no index covers yet: then they are read back.
    pub(super) unverified: Vec<ContainerId>,
    /// The key that the drive has for it.
    pub(super) key: Option<TapeKey>,
}

/// A session's run, as the catalogue has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRun {
    pub(super) id: RunId,
    pub(super) tape_pool: TapePoolId,
    /// Items planned so far.
    pub(super) planned: u32,
    /// Items committed so far.
    pub(super) committed: u32,
    /// End of data after the last commit or index.
    pub(super) end_of_data: BlockAddress,
}

/// A mounted tape and the drive that holds it: what a session works with.
pub(super) struct MountedTape<'a> {
    pub(super) room: &'a Arc<Tape>,
    pub(super) name: &'a DriveName,
    pub(super) drive: &'a mut Box<dyn TapeDrive>,
    pub(super) session: &'a Arc<Session>,
    /// What is wrong with the drive itself.
    pub(super) broken: &'a mut Option<Broken>,
    pub(super) tape: &'a mut Mounted,
}

impl MountedTape<'_> {
    pub(super) fn name(&self) -> scheduler::DriveName {
        self.name.as_str().to_owned()
    }

    /// Sets the tape aside after a failure: its run ends, what was not committed goes back to its queue.
    pub(super) fn fail(&mut self, error: &SessionError) -> SessionEnd {
        note_drive(self.broken, error);
        let vid = self.tape.vid;
        let Verdict { failure, suspects_tape } = verdict(self.room, vid, error, true);
        self.tape.failed = true;
        tracing::error!(%vid, drive = %self.name, %error, "session failed");
        let reason = truncated(&error.to_string(), 512);
        // The run stays open: the next mount takes over what of it is whole on tape, in whatever drive.
        if self.tape.run.take().is_some() {
            self.room.set_tasks(vid, |tasks| tasks.recover = true);
        }
        if is_worm(error) {
            self.room.set_tape_aside(vid, TapeState::ReadOnly, &reason);
        } else if suspects_tape {
            self.room.suspect_tape(vid, error.cause(), &reason, is_of_a_write(error));
        }
        self.room.post_tape(vid);
        SessionEnd::Failed(Failure { reason, ..failure })
    }

    /// A suspect tape that is to be written again must end where the catalogue says: an older copy of the
    /// cartridge has good labels and a good index too.
    pub(super) fn check_end(&mut self, vid: Vid) -> Result<(), SessionError> {
        let record = self.room.tape(vid)?;
        if record.when_well() == Some(TapeState::Active) {
            self.go_to_end(&record)?;
        }
        Ok(())
    }

    /// Moves to the end of data, which is where the catalogue says, or behind what a session left there that
    /// was given up unseen: then it says where that begins and ends.
    fn go_to_end(&mut self, record: &TapeRecord) -> Result<Option<Stretch>, SessionError> {
        let mounted = &*self.tape;
        match mounted.volume.go_to_end(self.drive.as_mut(), record.end_of_data) {
            Ok(()) => Ok(None),
            // An older copy of the cartridge would end before.
            Err(VolumeError::EndOfData { vid, expected, actual })
                if actual > expected && adopt::was_given_up(self.room, vid)? =>
            {
                Ok(Some(Stretch { partition: Partition::Data, from: expected, to: actual }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Seals off what a session left that was given up: an index behind it names what is known, and nothing
    /// is written over.
    fn close_given_up(
        &mut self,
        record: &TapeRecord,
        tape_pool: TapePoolId,
        left: Stretch,
    ) -> Result<(), SessionError> {
        let mounted = &mut *self.tape;
        let (room, vid) = (self.room, mounted.vid);
        let (from, to) = (left.from, left.to);
        tracing::warn!(%vid, %from, %to, "what a session left that was given up is passed over");
        let volume = &mut mounted.volume;
        adopt::pass_over_strays(room, self.drive.as_mut(), volume, left.from, left.to, false)?;
        let torn = adopt::torn_bytes(self.drive.as_mut(), volume, left.from, left.to)?;
        volume.mark_changed();
        let run = self.begin_run(record, tape_pool)?;
        self.tape.run = Some(OpenRun { end_of_data: left.to, ..run });
        self.finish_run(RunEnd::Torn, TapeState::Active, "", torn)
    }

    pub(super) fn begin_run(
        &self,
        record: &TapeRecord,
        tape_pool: TapePoolId,
    ) -> Result<OpenRun, SessionError> {
        // Else the tape was emptied meanwhile, and is to be another volume.
        if record.key != self.tape.key {
            return Err(ground::ArchiveError::TapeInUse(self.tape.vid).into());
        }
        let start = record.end_of_data;
        let begin = typed::BeginRun { vid: self.tape.vid, drive: self.name.as_str().to_owned(), start };
        let id = self.room.ask(begin)?;
        Ok(OpenRun { id, tape_pool, planned: 0, committed: 0, end_of_data: start })
    }

    /// Takes over a session that was cut short, and closes it.
    pub(super) fn take_over(&mut self, id: RunId, run: &RunRecord) -> Result<(), SessionError> {
        let adopted = adopt::adopt(self.room, self.drive.as_mut(), &mut self.tape.volume, id, run)?;
        self.close_torn(adopted)
    }

    /// Writes the index that takes in what was adopted, behind everything, and ends the run.
    fn close_torn(&mut self, adopted: Adopted) -> Result<(), SessionError> {
        let Adopted { run, torn, tape_state, reason, unverified } = adopted;
        self.tape.run = Some(run);
        self.tape.unverified.extend(unverified);
        self.end_early(RunEnd::Torn, tape_state, &reason, torn)
    }

    /// Ends a run of which planned containers are not written. An index is written if there is room for one;
    /// without it the committed containers stay `flushed`, and their files in the pool.
    pub(super) fn end_early(
        &mut self,
        end: RunEnd,
        tape_state: TapeState,
        reason: &str,
        torn: u64,
    ) -> Result<(), SessionError> {
        let mounted = &mut *self.tape;
        if torn > 0 {
            mounted.volume.mark_changed();
        }
        match self.finish_run(end, tape_state, reason, torn) {
            Err(SessionError::Volume(VolumeError::Tape(TapeError::EndOfMedium { .. }))) => {
                self.end_without_index(torn)
            }
            other => other,
        }
    }

    pub(super) fn end_without_index(&mut self, torn: u64) -> Result<(), SessionError> {
        let Some(run) = self.tape.run else { return Ok(()) };
        let end_of_data = self.drive.space_to_end_of_data(base::Partition::Data)?.block;
        let torn = torn.max(self.not_counted(self.tape.vid)?);
        let mounted = &mut *self.tape;
        self.room.execute(Command::EndRun {
            run: run.id,
            end: RunEnd::TapeFull,
            tape_state: TapeState::ReadOnly,
            reason: "the tape ended before its last index could be written".to_owned(),
            end_of_data: Some(end_of_data),
            torn: ByteCount(torn),
        })?;
        mounted.run = None;
        mounted.failed = true;
        let vid = mounted.vid;
        super::adopt::write_again(self.room, vid, "no index on its tape names it")?;
        self.room.repack_after_run(vid);
        Ok(())
    }

    /// Whether the next index would cover copies without the changes that tell of them: these go to tapes
    /// with the key that their pool has now alone. Copies that the pool does not have any more are covered
    /// all the same: without an index nobody could read them again.
    fn covers_without_changes(&self) -> Result<bool, SessionError> {
        let (room, vid) = (self.room, self.tape.vid);
        let record = room.tape(vid)?;
        let behind = BlockAddress(record.index_block.0 + 1);
        Ok(!room.has_current_key(&record) && super::adopt::can_be_written_again(room, vid, behind)?)
    }

    /// Ends the session on a tape with another key than its pool has now, without an index: what none covers
    /// is in the pool, and goes to tapes with the pool's key.
    fn end_of_other_key(&mut self, torn: u64) -> Result<(), SessionError> {
        let vid = self.tape.vid;
        match self.tape.run {
            Some(run) => {
                let end_of_data = self.drive.space_to_end_of_data(Partition::Data)?.block;
                let torn = torn.max(self.not_counted(vid)?);
                self.room.execute(Command::EndRun {
                    run: run.id,
                    end: RunEnd::Torn,
                    tape_state: TapeState::ReadOnly,
                    reason: OTHER_KEY.to_owned(),
                    end_of_data: Some(end_of_data),
                    torn: ByteCount(torn),
                })?;
            }
            None => self.room.set_tape_aside(vid, TapeState::ReadOnly, OTHER_KEY),
        }
        tracing::warn!(%vid, "{OTHER_KEY}");
        (self.tape.run, self.tape.failed) = (None, true);
        super::adopt::write_again(self.room, vid, OTHER_KEY)?;
        self.room.repack_after_run(vid);
        Ok(())
    }

    /// Bytes that stand on the tape and that the catalogue has not counted: what was written and no commit
    /// tells of.
    fn not_counted(&mut self, vid: Vid) -> Result<u64, SessionError> {
        let left = self.drive.remaining()?;
        Ok(room_left(&self.room.tape(vid)?).0.saturating_sub(left.0))
    }

    /// Opens a run on the mounted tape if there is none, standing at its end of data.
    pub(super) fn ensure_run(&mut self, tape_pool: TapePoolId) -> Result<OpenRun, SessionError> {
        let mounted = &mut *self.tape;
        let vid = mounted.vid;
        let mut record = self.room.tape(vid)?;
        if let Some(run) = mounted.run {
            mounted.volume.go_to_end(self.drive.as_mut(), record.end_of_data)?;
            return Ok(run);
        }
        if let Some(run) = record.run {
            // The end of an earlier session could not be recorded: what it planned goes back to its queue.
            self.room.execute(Command::EndRun {
                run,
                end: RunEnd::Failed,
                tape_state: TapeState::Active,
                reason: String::new(),
                end_of_data: Some(record.end_of_data),
                torn: ByteCount(0),
            })?;
            self.room.repack_after_run(vid);
        }
        if let Some(left) = self.go_to_end(&record)? {
            self.close_given_up(&record, tape_pool, left)?;
            record = self.room.tape(vid)?;
            self.tape.volume.go_to_end(self.drive.as_mut(), record.end_of_data)?;
        }
        let run = self.begin_run(&record, tape_pool)?;
        self.tape.run = Some(run);
        Ok(run)
    }

    /// The second point: the newest changes and an index on the data partition, then the catalogue's word
    /// that all committed containers are under it. Afterwards files may be evicted.
    pub(super) fn write_index(&mut self) -> Result<(), SessionError> {
        let mounted = &mut *self.tape;
        let Some(run) = mounted.run.as_mut() else { return Ok(()) };
        let room = self.room;
        let now = room.now();
        let covers_from = room.tape(mounted.vid)?.index_block;
        let before = mounted.volume.own_bytes_written();
        let (vid, tape_pool) = (mounted.vid, run.tape_pool);
        let Shipped { segments: changes, is_whole } =
            write_changes(room, self.drive.as_mut(), vid, tape_pool, &mut mounted.volume)?;
        mounted.segment_left_out = !is_whole;
        let early = is_planted(Bug::EarlyIndexed);
        let (index_block, end_of_data) = match early {
            true => mounted.volume.predict_index(self.drive.as_mut(), now)?,
            false => mounted.volume.write_data_index(self.drive.as_mut(), now)?,
        };
        let written = ByteCount(mounted.volume.own_bytes_written() - before);
        room.execute(Command::IndexWritten {
            run: run.id,
            generation: Generation(mounted.volume.generation().0 + u64::from(early)),
            index_block,
            end_of_data,
            written,
            changes,
        })?;
        if early {
            mounted.volume.write_data_index(self.drive.as_mut(), now)?;
        }
        run.end_of_data = end_of_data;
        mounted.writing.indexed();
        room.index_is_written(mounted.vid);
        let unverified = std::mem::take(&mut mounted.unverified);
        if !unverified.is_empty() {
            room.set_tasks(mounted.vid, |tasks| tasks.read_back.extend(unverified));
        }
        room.sweep.ring();
        room.leaving.tell(LeavingCause::MayLeave);
        room.give_up_late()?;
        // The scrubber finds what is missed here: no reason to end a session.
        if let Err(error) = upkeep::index_written(&room.upkeep, mounted.vid, covers_from) {
            tracing::error!(vid = %mounted.vid, %error, "files that an index covers now stay LOST");
        }
        Ok(())
    }

    /// Writes the index that something waits for which needs room in the pool, unless the unmount is near.
    pub(super) fn write_index_for_room(&mut self) -> Result<(), SessionError> {
        let (room, vid) = (self.room, self.tape.vid);
        let record = room.tape(vid)?;
        let may_write = record.state == TapeState::Active && !room.is_leaving(vid);
        if may_write && self.tape.volume.is_changed() && !self.covers_without_changes()? {
            self.write_index()?;
        }
        room.index_is_written(vid);
        Ok(())
    }

    pub(super) fn close_volume(&mut self) -> Result<(), SessionError> {
        let mounted = &*self.tape;
        if mounted.failed {
            return Ok(());
        }
        let (vid, state) = (mounted.vid, self.room.tape(mounted.vid)?.state);
        if mounted.run.is_some() || (mounted.volume.is_changed() && state == TapeState::Active) {
            return self.finish_run(RunEnd::Finished, TapeState::Active, "", 0);
        }
        // A tape that ended without its last index keeps the one before on both partitions, and one that is
        // only kept for reading is not written at all.
        let may_write = matches!(state, TapeState::Active | TapeState::Full | TapeState::Repacking);
        if mounted.volume.is_changed() || !may_write {
            return Ok(());
        }
        if !self.write_index_partition()? && state == TapeState::Active {
            self.room.set_tape_aside(vid, TapeState::ReadOnly, INDEX_PARTITION_FULL);
        }
        Ok(())
    }

    /// The third point: the newest index on the index partition too, and the cartridge memory brought up to
    /// date. `false`: it does not fit there any more; the data partition alone describes the volume then.
    fn write_index_partition(&mut self) -> Result<bool, SessionError> {
        let now = self.room.now();
        let mounted = &mut *self.tape;
        if mounted.volume.is_changed() {
            return Ok(true);
        }
        match mounted.volume.write_index_partition(self.drive.as_mut(), now) {
            Ok(()) => Ok(true),
            Err(VolumeError::Tape(TapeError::EndOfMedium { vid, at }))
                if at.partition == Partition::Index =>
            {
                tracing::error!(%vid, "{INDEX_PARTITION_FULL}");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Indexes both partitions and ends the run; `torn` bytes of it belong to no committed container. The run
    /// is open until the index partition is written: so a start that finds it open knows what may be owed.
    pub(super) fn finish_run(
        &mut self,
        end: RunEnd,
        tape_state: TapeState,
        reason: &str,
        torn: u64,
    ) -> Result<(), SessionError> {
        let mounted = &*self.tape;
        if mounted.volume.is_changed() && self.covers_without_changes()? {
            return self.end_of_other_key(torn);
        }
        if mounted.volume.is_changed() {
            if mounted.run.is_none() {
                let record = self.room.tape(mounted.vid)?;
                if let Some(tape_pool) = record.tape_pool {
                    self.ensure_run(tape_pool)?;
                }
            }
            // To seal off what was given up takes an index of its own.
            if self.tape.volume.is_changed() {
                self.write_index()?;
            }
        }
        if (end, tape_state) == (RunEnd::Finished, TapeState::Active) {
            self.write_base()?;
        }
        let fits = self.write_index_partition()?;
        let (tape_state, reason) =
            if fits { (tape_state, reason) } else { (TapeState::ReadOnly, INDEX_PARTITION_FULL) };
        let mounted = &mut *self.tape;
        if let Some(run) = mounted.run {
            self.room.execute(Command::EndRun {
                run: run.id,
                end,
                tape_state,
                reason: reason.to_owned(),
                end_of_data: Some(run.end_of_data),
                torn: ByteCount(torn),
            })?;
            mounted.run = None;
            self.room.repack_after_run(mounted.vid);
        }
        Ok(())
    }
}

/// What was written of the change log.
struct Shipped {
    /// The ranges of its segments.
    segments: Vec<(u64, u64)>,
    /// Whether the tape had room for all of them.
    is_whole: bool,
}

/// All changes that no other tape of this pool has yet, as segments before the index, as far as there is room
/// for them and the index: one that is cut short would only take what is left.
fn write_changes(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    tape_pool: TapePoolId,
    volume: &mut Volume,
) -> Result<Shipped, SessionError> {
    // A tape with another key than its pool has now, or none, gets nothing new; its index covers nothing new.
    if !room.has_current_key(&room.tape(vid)?) {
        return Ok(Shipped { segments: Vec::new(), is_whole: false });
    }
    let keeping = room.keeping_history(vid);
    let (covered, newest) = room.read(|view| {
        let covered = covered(view, tape_pool, |of, tape| keeping.counts(of, tape))?;
        Ok((covered, view.last_change()?))
    })?;
    let mut shipped = Shipped { segments: Vec::new(), is_whole: true };
    let mut next = 1;
    for (first, last) in covered.into_iter().chain([(newest.saturating_add(1), u64::MAX)]) {
        while next < first && next <= newest && shipped.segments.len() < SEGMENTS_MAX {
            let mut changes = room.read(|view| view.changes(next, SEGMENT_CHANGES_MAX, SEGMENT_BYTES_MAX))?;
            changes.retain(|(number, _)| *number < first);
            // A restore leaves numbers out: a segment has none missing.
            let begin = changes.first().map_or(0, |(number, _)| *number);
            let unbroken = changes.iter().zip(begin..).take_while(|((number, _), n)| number == n).count();
            changes.truncate(unbroken);
            let Some((last, _)) = changes.last() else { break };
            next = last + 1;
            match write_segment(room, drive, vid, volume, &changes)? {
                Segment::OnTape => shipped.segments.push((begin, next - 1)),
                Segment::NoRoom => shipped.is_whole = false,
                Segment::None => {}
            }
        }
        next = next.max(last.saturating_add(1));
    }
    Ok(shipped)
}

/// What became of a segment.
enum Segment {
    OnTape,
    /// The tape has no room for it and the index behind it.
    NoRoom,
    /// The changes cannot be one.
    None,
}

/// One segment of changes whose numbers follow each other.
fn write_segment(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    volume: &mut Volume,
    changes: &[(u64, Vec<u8>)],
) -> Result<Segment, SessionError> {
    let (Some((first, _)), Some((last, _))) = (changes.first(), changes.last()) else {
        return Ok(Segment::None);
    };
    let (first, last) = (ChangeNumber(*first), ChangeNumber(*last));
    let path = ltfs::naming::changes_path(first, last);
    if volume.tree().lookup(&path).is_some() {
        return Ok(Segment::OnTape);
    }
    let bodies: Vec<&[u8]> = changes.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    let segment = match ChangeSegment::encode(room.instance, first, &bodies) {
        Ok(segment) => segment,
        Err(error) => {
            tracing::error!(%vid, %error, "a change-log segment cannot be written; the index is");
            return Ok(Segment::None);
        }
    };
    let needed = segment.len() as u64 + room_for_index(room.tape(vid)?.capacity).0;
    let left = drive.remaining()?.0;
    if needed > left {
        tracing::info!(%vid, needed, left, "a change-log segment goes to another tape");
        return Ok(Segment::NoRoom);
    }
    volume.write_small_file(drive, path, &segment, room.now())?;
    Ok(Segment::OnTape)
}
