//! What a session left behind that did not come to its end: the containers that are whole on tape are kept,
//! the rest is sealed off as garbage, and an index is owed behind it.

use base::planted::{Bug, is_planted};
use base::{BlockAddress, ByteCount, ContainerId, Generation, Partition, RunId, TapePosition, Vid};
use catalogue::{Command, ContainerRecord, CopyState, RunEnd, RunItem, RunRecord, TapeState};
use library::TapeDrive;
use mover::{ContainerOnTape, Stray, Stretch, Volume, VolumeError, read_back, survey};

use super::SessionError;
use super::mounted::OpenRun;
use crate::room::Tape;
use ground::ArchiveError;
use ground::truncated;

/// Items of a run looked at together.
const ITEMS_PAGE: usize = 1_024;
/// The newest sessions of all tapes among which the last one of a tape is looked for.
const RUNS_LOOKED_AT_MAX: u64 = 100_000;

/// An open run of an earlier session, taken over.
pub(super) struct Adopted {
    pub(super) run: OpenRun,
    /// Bytes behind the last whole container that belong to nothing.
    pub(super) torn: u64,
    /// What the tape is to be once its index is written, and why.
    pub(super) tape_state: TapeState,
    pub(super) reason: String,
    /// Adopted copies that took the place of others: to be read back once an index names them.
    pub(super) unverified: Vec<ContainerId>,
}

/// Takes over an open run on its mounted tape. From the last commit on, what was planned is read back block
/// by block; the whole prefix that has the checksums of its sealing is adopted, after a flush. Nothing is
/// written over: the index that follows stands behind everything. May be broken off at any point and done
/// again.
///
/// # Errors
/// If the tape ends before what the catalogue has committed, or drive or medium fail; the run is still open.
pub(super) fn adopt(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    volume: &mut Volume,
    id: RunId,
    run: &RunRecord,
) -> Result<Adopted, SessionError> {
    let vid = run.vid;
    room.keep_repack(vid)?;
    let record = room.tape(vid)?;
    let mut end = drive.space_to_end_of_data(Partition::Data)?.block;
    if end < record.end_of_data {
        // What the drive confirmed is gone: the tape must not be written, and its copies must be looked at.
        return Err(VolumeError::EndOfData { vid, expected: record.end_of_data, actual: end }.into());
    }
    let whole = whole_prefix(room, drive, volume, id, run, end)?;
    let adopted = u32::try_from(whole.len()).unwrap_or(u32::MAX);
    let committed = run.committed.saturating_add(adopted);
    let mut safe = record.end_of_data;
    let mut unverified = Vec::new();
    if let Some(last) = whole.last() {
        // What was read back may still be in the drive's memory only.
        drive.write_filemarks(0)?;
        safe = BlockAddress(last.block.0 + last.blocks.0);
        room.execute(Command::AdoptRun { run: id, committed, end_of_data: safe })?;
        for item in &whole {
            if super::plan::enter(room, volume, item.container, item.block)? {
                unverified.push(item.container);
            }
        }
    }
    if is_planted(Bug::OverwriteTorn) {
        drive.locate(TapePosition { partition: Partition::Data, block: safe })?;
        drive.write_filemarks(1)?;
        end = drive.position()?.block;
    }
    if end > safe {
        volume.mark_changed();
    }
    let torn = torn_bytes(drive, volume, safe, end)?;
    // A tape on which a write failed is kept for reading.
    let (tape_state, reason) = match record.state {
        TapeState::Suspect if record.when_well() != Some(TapeState::Active) => {
            let reason = format!("what was whole on it was adopted, no more is written: {}", record.reason);
            (TapeState::ReadOnly, truncated(&reason, 512))
        }
        _ => (TapeState::Active, String::new()),
    };
    let again = run.planned.saturating_sub(committed);
    tracing::info!(%vid, run = %id, adopted, again, torn, "a session that was cut short is taken over");
    let run = OpenRun { id, tape_pool: run.tape_pool, planned: run.planned, committed, end_of_data: end };
    Ok(Adopted { run, torn, tape_state, reason, unverified })
}

/// The bytes of blocks behind the last whole container that belong to nothing, each for a whole one. Indexes,
/// segments and bases stand there too, if the catalogue is older than the tape.
pub(super) fn torn_bytes(
    drive: &mut dyn TapeDrive,
    volume: &Volume,
    safe: BlockAddress,
    end: BlockAddress,
) -> Result<u64, SessionError> {
    let stretch = Stretch { partition: Partition::Data, from: safe, to: end };
    let mut blocks = 0_u64;
    survey(drive, volume.uuid(), volume.block_size(), stretch, &mut |stray| {
        let belongs = matches!(stray, Stray::Index(..) | Stray::Segment(..) | Stray::Base(..));
        blocks += u64::from(!belongs);
        true
    })?;
    Ok(blocks.saturating_mul(volume.block_size().bytes().into()))
}

/// The planned items from the last commit on that are whole on tape, up to the first that is not.
fn whole_prefix(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    volume: &Volume,
    id: RunId,
    run: &RunRecord,
    end: BlockAddress,
) -> Result<Vec<RunItem>, SessionError> {
    let mut whole = Vec::new();
    let mut from = run.committed;
    loop {
        let items = room.read(|view| view.run_items(id, from, ITEMS_PAGE))?;
        if items.is_empty() {
            return Ok(whole);
        }
        from = from.saturating_add(items.len() as u32);
        for item in items {
            let record = room.read(|view| view.container(item.container))?;
            let Some(record) = record.filter(|_| item.block.0.saturating_add(item.blocks.0) <= end.0) else {
                return Ok(whole);
            };
            let what = ContainerOnTape {
                container: item.container,
                block: item.block,
                length: record.length,
                checksums: record.checksums,
            };
            let back = read_back(drive, run.vid, volume.block_size(), &what, &mut |_| true)?;
            if !back.is_good() {
                return Ok(whole);
            }
            whole.push(item);
        }
    }
}

/// Stretches behind the newest index in which no container of the catalogue stands, up to `end`.
pub(super) fn gaps_behind(
    room: &Tape,
    vid: Vid,
    block_size: u32,
    from: BlockAddress,
    end: BlockAddress,
) -> Result<Vec<(BlockAddress, BlockAddress)>, ArchiveError> {
    let mut gaps = Vec::new();
    let mut at = from;
    let mut next = from;
    loop {
        let content = room.read(|view| {
            let mut found = Vec::new();
            for (block, container) in view.content(vid, next, ITEMS_PAGE)? {
                let length = view.container(container)?.map_or(0, |record| record.length.0);
                found.push((block, length.div_ceil(u64::from(block_size)).max(1)));
            }
            Ok(found)
        })?;
        let Some((last, _)) = content.last() else { break };
        next = BlockAddress(last.0 + 1);
        for (block, blocks) in content {
            if block > at {
                gaps.push((at, block));
            }
            at = BlockAddress(at.0.max(block.0 + blocks));
        }
    }
    if end > at {
        gaps.push((at, end));
    }
    Ok(gaps)
}

/// Leaves out the generations of indexes that stand behind the newest one of the catalogue: sessions whose
/// last word never reached it wrote them, and no two indexes of a volume may carry the same number. With
/// `enter`, change-log segments that are found there are entered in the index again.
pub(super) fn pass_over_strays(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    volume: &mut Volume,
    from: BlockAddress,
    end: BlockAddress,
    enter: bool,
) -> Result<(), SessionError> {
    let (vid, block_size) = (volume.vid(), volume.block_size());
    let gaps = gaps_behind(room, vid, block_size.bytes(), from, end)?;
    let mut highest = Generation(0);
    let mut unknown = 0;
    let mut segments = Vec::new();
    for (from, to) in gaps {
        let stretch = Stretch { partition: Partition::Data, from, to };
        survey(drive, volume.uuid(), block_size, stretch, &mut |stray| {
            match stray {
                Stray::Index(_, index) => highest = highest.max(index.generation),
                Stray::BadIndex(_, Some(generation), _) => highest = highest.max(generation),
                Stray::BadIndex(_, None, _) | Stray::Unreadable(..) => unknown += 1,
                Stray::Segment(block, length, first, last) => segments.push((block, length, first, last)),
                Stray::BadSegment(..) | Stray::Base(..) | Stray::BadBase(..) | Stray::Torn(_) => {}
            }
            true
        })?;
    }
    let highest = Generation(highest.0.max(volume.generation().0) + unknown);
    if highest > volume.generation() {
        tracing::warn!(%vid, generation = %highest, "indexes that nobody knows of are passed over");
        volume.skip_generations(highest);
    }
    for (block, length, first, last) in segments.into_iter().filter(|_| enter) {
        let file = mover::FileOnTape {
            path: ltfs::naming::changes_path(first, last),
            length: ByteCount(length),
            block,
            modified: room.now(),
            xattrs: Vec::new(),
        };
        // One that is entered already needs no second entry.
        let _ = volume.add(file, room.now());
    }
    Ok(())
}

/// Ends a run whose tape cannot be recovered: the tape is read only from now on, with the reason, and copies
/// that no index covers are written again.
pub(crate) fn give_up_run(room: &Tape, id: RunId, vid: Vid, why: &str) -> Result<(), ArchiveError> {
    tracing::error!(%vid, run = %id, why, "a session that was cut short cannot be closed well");
    let reason = truncated(&format!("a torn session could not be closed: {why}"), 512);
    room.keep_repack(vid)?;
    room.execute(Command::EndRun {
        run: id,
        end: RunEnd::Torn,
        tape_state: TapeState::ReadOnly,
        reason: reason.clone(),
        end_of_data: None,
        torn: ByteCount(0),
    })?;
    write_again(room, vid, &reason)?;
    room.repack_after_run(vid);
    room.post_tape(vid);
    Ok(())
}

/// Whether the last session on a tape was given up, so that nobody knows where it ended.
pub(super) fn was_given_up(room: &Tape, vid: Vid) -> Result<bool, ArchiveError> {
    let record = room.tape(vid)?;
    let last = room.read(|view| view.last_run(vid, RUNS_LOOKED_AT_MAX))?;
    // One that was closed well has an index behind its beginning.
    let is_open_ended =
        |run: RunRecord| matches!(run.ended, Some((_, RunEnd::Torn))) && record.index_block < run.start;
    Ok(last.is_some_and(is_open_ended))
}

/// Copies that no index of a tape covers, and none will: they go back to their queue. Their bytes are in the
/// pool, since only indexed copies let files leave it; but a restored catalogue may be older than an index
/// that did: what the pool does not have stays expected where it stands.
pub(crate) fn write_again(room: &Tape, vid: Vid, why: &str) -> Result<(), ArchiveError> {
    let record = room.tape(vid)?;
    let mut from = BlockAddress(record.index_block.0 + 1);
    loop {
        let content = room.read(|view| view.content(vid, from, ITEMS_PAGE))?;
        let Some((last, _)) = content.last() else { return Ok(()) };
        from = BlockAddress(last.0 + 1);
        for (block, container) in content {
            let found = room.read(|view| view.container(container))?;
            let flushed = found.filter(|record| {
                record.copies.iter().any(|copy| {
                    matches!(copy.state, CopyState::Flushed { .. })
                        && copy.state.place() == Some((vid, block))
                })
            });
            let Some(record) = flushed else { continue };
            if is_in_pool(room, container, &record)? {
                room.drop_spare_place(container, vid, block, why)?;
            }
        }
        room.notifier.backlog_changed();
    }
}

/// Whether copies stand on a tape from a block on that no index covers, and the pool has the bytes of each,
/// so that all can be written once more.
pub(super) fn can_be_written_again(
    room: &Tape,
    vid: Vid,
    mut from: BlockAddress,
) -> Result<bool, ArchiveError> {
    let mut is_any = false;
    loop {
        let content = room.read(|view| view.content(vid, from, ITEMS_PAGE))?;
        let Some((last, _)) = content.last() else { return Ok(is_any) };
        from = BlockAddress(last.0 + 1);
        is_any = true;
        for (_, container) in content {
            let Some(record) = room.read(|view| view.container(container))? else { continue };
            if !(record.is_empty() || is_in_pool(room, container, &record)?) {
                return Ok(false);
            }
        }
    }
}

/// Whether the pool has all that a copy of a container is written from.
fn is_in_pool(room: &Tape, container: ContainerId, record: &ContainerRecord) -> Result<bool, ArchiveError> {
    Ok(room.has_bytes(container, record)? && has_skeleton(room, record))
}

/// Whether the skeleton of a container, if it has one, can be read from the pool.
pub(crate) fn has_skeleton(room: &Tape, record: &ContainerRecord) -> bool {
    let Some(skeleton) = &record.skeleton else { return true };
    let _reading = room.gate.enter();
    let Ok(Some(blob)) = room.read(|view| view.blob(skeleton.blob)) else { return false };
    room.read_whole(&blob, skeleton).is_ok()
}
