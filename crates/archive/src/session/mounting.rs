//! Mounting with label check, labelling of scratch tapes, indexes at the end, and what a crash left open.

use std::sync::Arc;

use base::{BlockAddress, ByteCount, Partition, RunId, TapePoolId, Uuid, Vid};
use catalogue::{Command, RunEnd, RunRecord, TapeRecord, TapeState};
use library::{DriveName, TapeDrive};
use ltfs::BlockSize;
use ltfs::changes::{ChangeNumber, ChangeSegment};
use mover::{Volume, VolumeError};

use super::{DriveThread, Mounted, OpenRun, SessionError, torn_bytes};
use crate::ArchiveError;
use crate::engine::Engine;

/// Most changes in one segment on tape.
const SEGMENT_CHANGES_MAX: usize = 500_000;
/// Most bytes of changes in one segment on tape.
const SEGMENT_BYTES_MAX: usize = 64 << 20;

impl DriveThread {
    /// Mounts a tape and checks its labels; labels it first if it is to be assigned or its labelling was cut
    /// short. On failure the drive is empty again and the reason is for people.
    pub(super) fn mount(&mut self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), String> {
        assert!(self.mounted.is_none(), "a tape is mounted into an empty drive");
        if let Err(error) = self.engine.library.mount(vid, &self.name) {
            // The cartridge itself, not the robot: take it out of the scheduler's choice.
            if matches!(error, library::LibraryError::Cartridge(_)) {
                self.engine.set_tape_aside(vid, TapeState::Suspect, &error.to_string());
            }
            return Err(error.to_string());
        }
        match self.open_volume(vid, assign) {
            Ok(volume) => {
                self.mounted = Some(Mounted { vid, volume, run: None, hurry_answered: 0, failed: false });
                self.engine.post_tape(vid);
                Ok(())
            }
            Err(error) => {
                self.note_failure(vid, &error);
                if matches!(error, SessionError::Volume(_)) {
                    self.engine.set_tape_aside(vid, TapeState::Suspect, &error.to_string());
                }
                if let Err(error) = self.engine.library.unmount(&self.name) {
                    tracing::error!(%vid, %error, "unmounting after a failed mount");
                }
                Err(error.to_string())
            }
        }
    }

    fn open_volume(&mut self, vid: Vid, assign: Option<TapePoolId>) -> Result<Volume, SessionError> {
        let engine = Arc::clone(&self.engine);
        engine.execute(Command::CountMount { vid })?;
        let mut record = engine.tape(vid)?;
        if record.state == TapeState::Scratch
            && let Some(tape_pool) = assign
        {
            // Look before the tape is given a name: a foreign cartridge stays as it is.
            match mover::identify(self.drive.as_mut())? {
                mover::Found::Blank => {}
                found => {
                    return Err(VolumeError::NotBlank { vid, found }.into());
                }
            }
            let uuid = (engine.random_uuid)().ok_or(ArchiveError::NoEntropy)?;
            engine.execute(Command::AssignTape { vid, tape_pool, uuid })?;
            record = engine.tape(vid)?;
        }
        match (record.state, record.uuid) {
            (TapeState::Labelling, Some(uuid)) => self.label(vid, uuid),
            (_, Some(uuid)) => open_labelled(&engine, self.drive.as_mut(), vid, uuid, &record),
            (_, None) => Err(ArchiveError::NoSuchTape(vid).into()),
        }
    }

    fn label(&mut self, vid: Vid, uuid: Uuid) -> Result<Volume, SessionError> {
        let bytes = u32::try_from(self.engine.settings.tape.block_bytes.0).unwrap_or(u32::MAX);
        let block_size = BlockSize::new(bytes).unwrap_or(BlockSize::DEFAULT);
        let now = self.engine.now();
        let volume = Volume::label(self.drive.as_mut(), vid, uuid, block_size, now)?;
        let end = self.drive.space_to_end_of_data(Partition::Data)?;
        self.engine.execute(Command::TapeLabelled {
            vid,
            generation: volume.generation(),
            index_block: volume.index_block(),
            end_of_data: end.block,
        })?;
        tracing::info!(%vid, %uuid, drive = %self.name, "labelled");
        Ok(volume)
    }

    /// Opens a run on the mounted tape if there is none, standing at its end of data.
    pub(super) fn ensure_run(&mut self, tape_pool: TapePoolId) -> Result<OpenRun, SessionError> {
        let mounted = self.mounted.as_mut().expect("a run needs a mounted tape");
        let record = self.engine.tape(mounted.vid)?;
        if let Some(run) = mounted.run {
            mounted.volume.go_to_end(self.drive.as_mut(), record.end_of_data)?;
            return Ok(run);
        }
        if let Some(run) = record.run {
            // The end of an earlier session could not be recorded: what it planned goes back to its queue.
            self.engine.execute(Command::EndRun {
                run,
                end: RunEnd::Failed,
                tape_state: TapeState::Active,
                reason: String::new(),
                end_of_data: Some(record.end_of_data),
                torn: ByteCount(0),
            })?;
        }
        mounted.volume.go_to_end(self.drive.as_mut(), record.end_of_data)?;
        let begin = Command::BeginRun {
            vid: mounted.vid,
            drive: self.name.as_str().to_owned(),
            start: record.end_of_data,
        };
        let catalogue::Outcome::Run(id) = self.engine.execute(begin)? else {
            unreachable!("beginning a run gives a run");
        };
        let run = OpenRun {
            id,
            tape_pool,
            planned: 0,
            committed: 0,
            end_of_data: record.end_of_data,
            since_index: 0,
        };
        mounted.run = Some(run);
        Ok(run)
    }

    /// The second point: the newest changes and an index on the data partition, then the catalogue's word
    /// that all committed containers are under it. Afterwards files may be evicted.
    pub(super) fn write_index(&mut self) -> Result<(), SessionError> {
        let mounted = self.mounted.as_mut().expect("an index needs a mounted tape");
        let Some(run) = mounted.run.as_mut() else { return Ok(()) };
        let engine = &self.engine;
        let now = engine.now();
        let before = mounted.volume.own_bytes_written();
        let changes =
            write_changes(engine, self.drive.as_mut(), mounted.vid, run.tape_pool, &mut mounted.volume)?;
        let (index_block, end_of_data) = mounted.volume.write_data_index(self.drive.as_mut(), now)?;
        let written = ByteCount(mounted.volume.own_bytes_written() - before);
        engine.execute(Command::IndexWritten {
            run: run.id,
            generation: mounted.volume.generation(),
            index_block,
            end_of_data,
            written,
            changes: changes.into_iter().collect(),
        })?;
        run.end_of_data = end_of_data;
        run.since_index = 0;
        engine.sweep.ring();
        Ok(())
    }

    /// Writes what is owed to the tape and brings it to its slot. The drive is empty afterwards, whatever
    /// happened.
    pub(super) fn unmount(&mut self) {
        if let Err(error) = self.close_volume() {
            self.fail(&error);
        }
        if let Err(error) = self.engine.library.unmount(&self.name) {
            tracing::error!(drive = %self.name, %error, "unmount");
        }
        if let Some(mounted) = self.mounted.take() {
            self.engine.post_tape(mounted.vid);
        }
    }

    fn close_volume(&mut self) -> Result<(), SessionError> {
        let Some(mounted) = &self.mounted else { return Ok(()) };
        if mounted.failed {
            return Ok(());
        }
        let writable = self.engine.tape(mounted.vid)?.state == TapeState::Active;
        if mounted.run.is_some() || (mounted.volume.is_changed() && writable) {
            self.finish_run(RunEnd::Finished, TapeState::Active, "", 0)?;
        }
        let now = self.engine.now();
        let mounted = self.mounted.as_mut().expect("it is still mounted");
        // A tape that ended without its last index keeps the one before on both partitions.
        if mounted.volume.is_changed() {
            return Ok(());
        }
        Ok(mounted.volume.write_index_partition(self.drive.as_mut(), now)?)
    }

    /// Indexes and ends the run; `torn` bytes of it belong to no committed container.
    pub(super) fn finish_run(
        &mut self,
        end: RunEnd,
        tape_state: TapeState,
        reason: &str,
        torn: u64,
    ) -> Result<(), SessionError> {
        let mounted = self.mounted.as_ref().expect("a run is on a mounted tape");
        if mounted.volume.is_changed() {
            if mounted.run.is_none() {
                let record = self.engine.tape(mounted.vid)?;
                if let Some(tape_pool) = record.tape_pool {
                    self.ensure_run(tape_pool)?;
                }
            }
            self.write_index()?;
        }
        let mounted = self.mounted.as_mut().expect("a run is on a mounted tape");
        if let Some(run) = mounted.run {
            self.engine.execute(Command::EndRun {
                run: run.id,
                end,
                tape_state,
                reason: reason.to_owned(),
                end_of_data: Some(run.end_of_data),
                torn: ByteCount(torn),
            })?;
            mounted.run = None;
        }
        Ok(())
    }
}

/// Loads the volume at its newest index and enters what was flushed after it: a session that ended without an
/// index has left such containers, and the next index takes them in.
fn open_labelled(
    engine: &Engine,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    uuid: Uuid,
    record: &TapeRecord,
) -> Result<Volume, SessionError> {
    let mut volume = Volume::open(drive, vid, uuid, record.generation, record.index_block)?;
    let mut from = BlockAddress(record.index_block.0 + 1);
    loop {
        let content = engine.read(|view| view.content(vid, from, 1_000))?;
        let Some((last, _)) = content.last() else { return Ok(volume) };
        from = BlockAddress(last.0 + 1);
        for (block, container) in content {
            super::plan::enter(engine, &mut volume, container, block)?;
        }
    }
}

/// The newest changes that no tape of this pool has yet, as a segment before the index. Gives their range.
fn write_changes(
    engine: &Engine,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    tape_pool: TapePoolId,
    volume: &mut Volume,
) -> Result<Option<(u64, u64)>, SessionError> {
    let tapes = engine.read(|view| view.tapes())?;
    let shipped = tapes
        .iter()
        .filter(|(_, record)| record.tape_pool == Some(tape_pool))
        .map(|(_, record)| record.changes_through)
        .max()
        .unwrap_or(0);
    let changes = engine.read(|view| view.changes(shipped + 1, SEGMENT_CHANGES_MAX, SEGMENT_BYTES_MAX))?;
    let (Some((first, _)), Some((last, _))) = (changes.first(), changes.last()) else { return Ok(None) };
    let (first, last) = (ChangeNumber(*first), ChangeNumber(*last));
    let bodies: Vec<&[u8]> = changes.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    let segment = match ChangeSegment::encode(engine.instance, first, &bodies) {
        Ok(segment) => segment,
        Err(error) => {
            tracing::error!(%vid, %error, "a change-log segment cannot be written; the index is");
            return Ok(None);
        }
    };
    let path = ltfs::naming::changes_path(first, last);
    volume.write_small_file(drive, path, &segment, engine.now())?;
    Ok(Some((first.0, last.0)))
}

/// Runs that the last server left open: their tapes are mounted one by one, the end of data is found, the run
/// is ended there, and an index takes in what was committed. Nothing is written over; what was not committed
/// goes back to its queue and its bytes are counted as torn.
pub(crate) fn recover_torn_runs(engine: &Arc<Engine>, drive: &DriveName) -> Result<(), ArchiveError> {
    for (id, run) in engine.read(|view| view.open_runs())? {
        tracing::warn!(vid = %run.vid, run = %id, "the last server left a tape session open");
        if let Err(error) = recover(engine, drive, id, &run) {
            let reason = format!("a torn session could not be closed: {error}");
            tracing::error!(vid = %run.vid, %error, "a torn session cannot be closed");
            engine.execute(Command::EndRun {
                run: id,
                end: RunEnd::Torn,
                tape_state: TapeState::ReadOnly,
                reason: crate::engine::truncated(&reason, 512),
                end_of_data: None,
                torn: ByteCount(0),
            })?;
        }
    }
    Ok(())
}

fn recover(engine: &Arc<Engine>, drive: &DriveName, id: RunId, run: &RunRecord) -> Result<(), SessionError> {
    let handle = engine.library.take_drive(drive).map_err(ArchiveError::from)?;
    let mut thread = DriveThread::new(Arc::clone(engine), drive.clone(), handle);
    engine.library.mount(run.vid, drive).map_err(ArchiveError::from)?;
    let result = end_torn_run(&mut thread, id, run);
    thread.unmount();
    result
}

fn end_torn_run(thread: &mut DriveThread, id: RunId, run: &RunRecord) -> Result<(), SessionError> {
    let engine = Arc::clone(&thread.engine);
    let record = engine.tape(run.vid)?;
    let uuid = record.uuid.ok_or(ArchiveError::NoSuchTape(run.vid))?;
    let mut volume = open_labelled(&engine, thread.drive.as_mut(), run.vid, uuid, &record)?;
    let end = thread.drive.space_to_end_of_data(Partition::Data)?;
    if end.block < record.end_of_data {
        // What the drive confirmed is gone: the tape must not be written, and its copies must be looked at.
        return Err(
            VolumeError::EndOfData { vid: run.vid, expected: record.end_of_data, actual: end.block }.into()
        );
    }
    let torn = torn_bytes(Some(end.block), record.end_of_data, &volume);
    // Even if nothing new was committed, the index behind the torn blocks says that they are no data. One of
    // them may be an index itself.
    if end.block > record.end_of_data {
        volume.skip_generation();
    }
    engine.execute(Command::EndRun {
        run: id,
        end: RunEnd::Torn,
        tape_state: TapeState::Active,
        reason: String::new(),
        end_of_data: Some(end.block),
        torn,
    })?;
    let again = run.planned.saturating_sub(run.committed);
    let (vid, torn_bytes) = (run.vid, torn.0);
    tracing::info!(%vid, run = %id, again, torn_bytes, "closed: what was not committed goes to tape again");
    thread.mounted = Some(Mounted { vid: run.vid, volume, run: None, hurry_answered: 0, failed: false });
    Ok(())
}
