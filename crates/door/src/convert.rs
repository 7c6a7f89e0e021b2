//! The engine's types as JSON. Words for states are part of the interface and never change.

use archive::{
    ClassInfo, CopyInfo, CopyProgress, EvictDone, FileStat, Holding, Listed, ListedKind, PoolDriveInfo,
    PoolInfo, PutDone, QueueLine, RequestFile, RequestInfo, Selection, SettlingInfo, Stat, TapeContent,
    TapeDriveInfo, TapeInfo, TapeMotionInfo, Totals, WorkerInfo, refusal_text,
};
use base::{ArchivePath, RequestId, Timestamp, Uuid, Vid};
use catalogue::{Attributes, ContainerKind, EvictRefusal, FileKind, ItemState, RequestState};

use crate::foresee;
use entrance::headers::precise;

fn container_word(kind: &ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Pack => "pack",
        ContainerKind::File(_) => "file",
        ContainerKind::Segment { .. } => "segment",
    }
}

fn copy_word(progress: CopyProgress) -> &'static str {
    match progress {
        CopyProgress::Queued => "queued",
        CopyProgress::Writing => "writing",
        CopyProgress::Flushed => "flushed",
        CopyProgress::Indexed => "indexed",
    }
}

/// Shown in the place of the state of a cartridge that its library cannot identify.
const UNIDENTIFIED: &str = "unidentified";

fn request_word(state: RequestState) -> &'static str {
    match state {
        RequestState::Filling => "filling",
        RequestState::Active => "active",
        RequestState::Completed => "completed",
        RequestState::Cancelled => "cancelled",
        RequestState::Cancelling => "cancelling",
        RequestState::Forgetting => "forgetting",
    }
}

fn mode_text(attributes: &Attributes) -> String {
    format!("{:04o}", attributes.mode)
}

fn kind_and_target(kind: &FileKind) -> (String, Option<String>) {
    match kind {
        FileKind::Regular => ("file".to_owned(), None),
        FileKind::Symlink(target) => ("link".to_owned(), Some(target.clone())),
    }
}

fn vid_text(vid: Option<Vid>) -> Option<String> {
    vid.map(|vid| vid.to_string())
}

/// A file or directory.
pub(crate) fn stat_reply(stat: &Stat) -> wire::StatReply {
    match stat {
        Stat::Directory(directory) => wire::StatReply {
            path: directory.path.to_string(),
            kind: "directory".to_owned(),
            size: 0,
            mode: mode_text(&directory.attributes),
            owner: directory.attributes.owner.clone(),
            group: directory.attributes.group.clone(),
            mtime: precise(directory.attributes.mtime),
            created: precise(directory.created),
            target: None,
            class: directory.class.clone(),
            file: None,
        },
        Stat::File(file) => {
            let (kind, target) = kind_and_target(&file.kind);
            wire::StatReply {
                path: file.path.to_string(),
                kind,
                size: file.size.0,
                mode: mode_text(&file.attributes),
                owner: file.attributes.owner.clone(),
                group: file.attributes.group.clone(),
                mtime: precise(file.attributes.mtime),
                created: precise(file.created),
                target,
                class: Some(file.class.clone()),
                file: Some(file_reply(file)),
            }
        }
    }
}

fn file_reply(file: &FileStat) -> wire::FileReply {
    let pin = |(request, until): &(base::RequestId, Timestamp)| wire::PinReply {
        request: request.0,
        until: until.to_string(),
    };
    wire::FileReply {
        file_id: file.file.0,
        locality: file.locality.word().to_owned(),
        adler32: file.checksums.stream.adler32.to_string(),
        crc32c: file.checksums.stream.crc32c.to_string(),
        blake3: file.checksums.blake3.to_string(),
        copies_wanted: file.copies_wanted,
        tapes_away: file.is_away(),
        copies: file.copies.iter().map(copy_reply).collect(),
        pins: file.pins.iter().map(pin).collect(),
    }
}

fn copy_reply(copy: &CopyInfo) -> wire::CopyReply {
    wire::CopyReply {
        tape_pool: copy.tape_pool.clone(),
        state: copy_word(copy.state).to_owned(),
        vid: vid_text(copy.vid),
        away: copy.away,
        away_as: copy.away_as.as_ref().map(ToString::to_string),
        block: copy.block.map(|block| block.0),
        container: copy.container.0,
        container_kind: container_word(&copy.container_kind).to_owned(),
        tape_path: copy.tape_path.clone(),
        offset: copy.offset.0,
        length: copy.length.0,
        file_offset: match copy.container_kind {
            ContainerKind::Segment { file_offset, .. } => Some(file_offset.0),
            ContainerKind::Pack | ContainerKind::File(_) => None,
        },
    }
}

/// A line of a listing.
pub(crate) fn list_entry(listed: &Listed) -> wire::ListEntry {
    let (kind, target, class, locality, blake3) = match &listed.what {
        ListedKind::Directory => ("directory".to_owned(), None, None, None, None),
        ListedKind::File { kind, class, locality, blake3, .. } => {
            let (kind, target) = kind_and_target(kind);
            let locality = locality.word().to_owned();
            (kind, target, Some(class.clone()), Some(locality), Some(blake3.to_string()))
        }
    };
    wire::ListEntry {
        name: listed.name.to_string(),
        kind,
        size: listed.size.0,
        mode: mode_text(&listed.attributes),
        owner: listed.attributes.owner.clone(),
        group: listed.attributes.group.clone(),
        mtime: precise(listed.attributes.mtime),
        target,
        class,
        locality,
        blake3,
    }
}

/// What a put did.
pub(crate) fn put_reply(done: &PutDone) -> wire::PutReply {
    wire::PutReply {
        file_id: done.file.0,
        created: done.created,
        replaced: done.replaced,
        size: done.size.0,
        adler32: done.checksums.stream.adler32.to_string(),
        blake3: done.checksums.blake3.to_string(),
        class: done.class.clone(),
    }
}

/// A request.
pub(crate) fn request_reply(info: &RequestInfo) -> wire::RequestReply {
    let record = &info.record;
    wire::RequestReply {
        id: info.request.0,
        owner: record.owner.clone(),
        state: request_word(record.state).to_owned(),
        created: record.created.to_string(),
        started: record.started.map(|at| at.to_string()),
        ended: record.ended.map(|at| at.to_string()),
        pin_seconds: record.pin.as_secs(),
        priority: info.priority,
        files: record.files,
        bytes: record.bytes.0,
        done: record.done,
        done_bytes: record.done_bytes.0,
        failed: record.failed,
        cancelled: record.cancelled,
        refused: record.list.map_or(0, |list| list.refused),
        outlook: None,
    }
}

/// One file of a request.
pub(crate) fn request_file(file: &RequestFile) -> wire::RequestFileReply {
    let (state, error) = match &file.state {
        ItemState::Waiting | ItemState::WaitingUnpinned => ("waiting", None),
        ItemState::Done(_) => ("done", None),
        ItemState::Failed(reason) => ("failed", Some(reason.clone())),
        ItemState::Cancelled => ("cancelled", None),
        ItemState::Released => ("released", None),
    };
    let cause = file.failure.map(|failure| failure.word().to_owned());
    let (path, state) = (file.path.clone(), state.to_owned());
    let [started, ended] = [file.started, file.ended].map(|at| at.map(|at| at.to_string()));
    wire::RequestFileReply { path, size: file.size.0, state, error, cause, started, ended }
}

/// What an evict did.
pub(crate) fn evict_reply(done: &EvictDone) -> wire::EvictReply {
    let refused = |(path, refusal): &(String, EvictRefusal)| wire::RefusedReply {
        path: path.clone(),
        reason: refusal_text(refusal).into_owned(),
    };
    let reason = |(refusal, files): &(EvictRefusal, u64)| wire::RefusalCountReply {
        reason: refusal_text(refusal).into_owned(),
        files: *files,
        held_by: if *refusal == EvictRefusal::Pinned { held_by(done) } else { Vec::new() },
    };
    wire::EvictReply {
        evicted: done.evicted,
        bytes: done.bytes.0,
        already: done.already,
        refused_count: done.refused_count,
        refused: done.refused.iter().map(refused).collect(),
        reasons: done.reasons.iter().map(reason).collect(),
    }
}

/// Which requests hold what an evict left.
fn held_by(done: &EvictDone) -> Vec<wire::HeldByReply> {
    let one = |(request, held): (&RequestId, &Holding)| wire::HeldByReply {
        request: request.0,
        files: held.files,
        until: precise(held.until),
    };
    done.holding.iter().map(one).collect()
}

/// A tape.
pub(crate) fn tape_reply(tape: &TapeInfo) -> wire::TapeReply {
    wire::TapeReply {
        vid: tape.vid.to_string(),
        state: if tape.unidentified { UNIDENTIFIED } else { tape.state.word() }.to_owned(),
        reason: tape.reason.clone(),
        tape_pool: tape.tape_pool.clone(),
        library: tape.library.clone(),
        uuid: tape.uuid.map(|uuid| uuid.to_string()),
        capacity: tape.capacity.0,
        written: tape.written.0,
        committed: tape.committed.0,
        torn: tape.torn.0,
        containers: tape.containers,
        generation: tape.generation,
        end_of_data: tape.end_of_data.0,
        mounts: tape.mounts,
        drive: tape.drive.clone(),
        away: tape.away,
        leaving: tape.leaving,
        away_as: tape.away_as.as_ref().map(|away| away.kind.word().to_owned()),
        place: tape.away_as.as_ref().map(|away| away.place.clone()).filter(|place| !place.is_empty()),
        away_since: tape.away_as.as_ref().map(|away| away.since.to_string()),
        element: tape.element,
        key: tape.key.as_ref().map(|key| key.id.to_string()),
        key_check: tape.key.as_ref().map(|key| key.check.to_string()),
        key_at_hand: tape.key.as_ref().map(|_| tape.key_at_hand),
        key_outdated: tape.key_outdated,
        wanted_files: tape.wanted.files,
        wanted_bytes: tape.wanted.bytes.0,
        changes_through: tape.changes_through,
        history: tape.history.map(|history| wire::TapeHistoryReply {
            before: history.before.word().to_owned(),
            failures: history.failures,
            retry: history.retry.map(|at| at.to_string()),
            cause: history.cause.word().to_owned(),
        }),
    }
}

/// A container on a tape.
pub(crate) fn container_reply(content: &TapeContent) -> wire::ContainerReply {
    wire::ContainerReply {
        block: content.block.0,
        container: content.container.0,
        kind: container_word(&content.kind).to_owned(),
        length: content.length.0,
        tape_path: content.tape_path.clone(),
        live_members: content.live_members,
        live_bytes: content.live_bytes.0,
    }
}

/// A tape drive.
pub(crate) fn drive_reply(drive: &TapeDriveInfo) -> wire::DriveReply {
    wire::DriveReply {
        name: drive.name.clone(),
        state: drive.state.clone(),
        vid: vid_text(drive.vid),
        tape_pool: drive.tape_pool.clone(),
        library: drive.library.clone(),
        since: drive.since.map(|at| at.to_string()),
        files: drive.files,
        bytes: drive.bytes.0,
        // JSON has no words for infinite rates.
        rate: if drive.rate.is_finite() { drive.rate } else { 0.0 },
        reason: drive.reason.clone(),
        cause: drive.cause.as_ref().map(foresee::reason_reply),
        expected: drive.expected.as_ref().map(foresee::expected_reply),
        motion: drive.motion.as_ref().map(drive_motion),
    }
}

fn drive_motion(info: &TapeMotionInfo) -> wire::DriveMotionReply {
    let motion = &info.motion;
    wire::DriveMotionReply {
        session: info.session.to_owned(),
        vid: info.vid.to_string(),
        bytes: info.bytes.0,
        read: motion.bytes_read,
        written: motion.bytes_written,
        streamed: motion.bytes_streamed,
        seconds: motion.transfer_seconds(),
        rate: motion.rate_of(info.bytes.0),
        streaming: motion.streaming_seconds,
        locating: motion.locate_seconds,
        locates: motion.locates,
        flushing: motion.flush_seconds,
        backhitching: motion.backhitch_seconds,
        backhitches: motion.backhitches,
        waiting: motion.waiting_seconds,
    }
}

fn drain_reply(drain: &archive::DrainInfo) -> wire::DrainReply {
    wire::DrainReply {
        since: drain.since.to_string(),
        shards: drain.shards,
        bytes: drain.bytes.0,
        moved: drain.moved,
        moved_bytes: drain.moved_bytes.0,
        stuck: drain.stuck,
        reason: drain.reason.clone(),
        empty: drain.is_empty,
        rate: drain.rate.0,
        remaining_seconds: drain.remaining.map(|left| left.as_secs_f64()),
    }
}

fn group_reply(group: &archive::GroupInfo) -> wire::PoolGroupReply {
    wire::PoolGroupReply {
        name: group.name.clone(),
        code: group.code.to_string(),
        drives: group.room.drives as u64,
        drives_taking: group.room.takers as u64,
        capacity: group.room.capacity.0,
        used: group.room.used.0,
        high_water_percent: group.water.high_percent,
        low_water_percent: group.water.low_percent,
        left_bytes: group.left.0,
        came_bytes: group.came.0,
        state: group.state.word("moving").to_owned(),
        reason: group.state.reason().map(str::to_owned),
    }
}

fn recoding_reply(recoding: &archive::RecodingInfo) -> wire::RecodingReply {
    wire::RecodingReply {
        state: recoding.state.word("writing").to_owned(),
        reason: recoding.state.reason().map(str::to_owned),
        to: recoding.to.to_string(),
        since: recoding.since.to_string(),
        blobs: recoding.blobs,
        blobs_total: recoding.blobs_total,
        bytes: recoding.bytes.0,
        bytes_total: recoding.bytes_total.0,
        rate: recoding.rate.0,
        remaining_seconds: recoding.remaining.map(|left| left.as_secs_f64()),
    }
}

/// How far a rebuild is.
pub(crate) fn rebuild_reply(rebuild: &archive::RebuildInfo) -> wire::RebuildReply {
    wire::RebuildReply {
        began: rebuild.began.to_string(),
        stripes: rebuild.stripes,
        stripes_total: rebuild.stripes_total,
        bytes: rebuild.bytes.0,
        bytes_total: rebuild.bytes_total.0,
        counted: rebuild.is_counted,
        bears: rebuild.bears,
        level_stripes: rebuild.level_stripes,
        level_total: rebuild.level_total,
        rate: rebuild.rate.0,
        remaining_seconds: rebuild.remaining.map(|left| left.as_secs_f64()),
    }
}

fn rebalance_reply(rebalance: &archive::RebalanceInfo) -> wire::RebalanceReply {
    wire::RebalanceReply {
        state: rebalance.state.word("moving").to_owned(),
        reason: rebalance.state.reason().map(str::to_owned),
        to: rebalance.to.0,
        since: rebalance.since.to_string(),
        spread: rebalance.spread.map(|spread| spread.points()),
        moved: rebalance.moved,
        moved_bytes: rebalance.moved_bytes.0,
        left_bytes: rebalance.left_bytes.0,
        rate: rebalance.rate.0,
        remaining_seconds: rebalance.remaining.map(|left| left.as_secs_f64()),
    }
}

/// What a burn-in said.
fn burn_in_reply(burn_in: &archive::BurnInRecord) -> wire::BurnInReply {
    wire::BurnInReply {
        id: burn_in.id.to_string(),
        verdict: burn_in.verdict.word().to_owned(),
        ended: burn_in.ended.to_string(),
        bytes: burn_in.bytes.0,
        capacity: burn_in.capacity.0,
        write_rate: burn_in.write_rate.0,
        read_rate: burn_in.read_rate.0,
        median_seconds_max: burn_in.median_max.as_secs_f64(),
        p99_seconds_max: burn_in.p99_max.as_secs_f64(),
        faults: burn_in.faults,
        slow_places: burn_in.slow_places,
        is_direct: burn_in.is_direct,
        is_judged_by_place: burn_in.is_judged_by_place,
        doubts: burn_in.doubts().iter().map(ToString::to_string).collect(),
    }
}

/// The pool.
pub(crate) fn pool_reply(pool: &PoolInfo) -> wire::PoolReply {
    let drive = |drive: &PoolDriveInfo| wire::PoolDriveReply {
        id: drive.id,
        path: drive.path.clone(),
        host: drive.host.clone(),
        group: drive.group.clone(),
        state: drive.state.to_owned(),
        reason: drive.reason.clone(),
        up: drive.up,
        full: drive.full,
        gaps_after: drive.gaps_after,
        filling: drive.filling,
        slow: drive.slow,
        burn_in: drive.burn_in.as_ref().map(burn_in_reply),
        io: drive.queue.map_or("", |(engine, _)| engine.word()).to_owned(),
        depth: drive.queue.map_or(0, |(_, depth)| depth as u64),
        drain: drive.drain.as_ref().map(drain_reply),
        disk: drive.disk.as_ref().map(crate::disks::disk_reply),
        capacity: drive.capacity.0,
        used: drive.used.0,
        read: drive.read.0,
        written: drive.written.0,
        errors: drive.errors,
    };
    wire::PoolReply {
        data: pool.data,
        local_parity: pool.local_parity,
        parity: pool.parity,
        segment_copies: pool.segment_copies,
        full: pool.refuses == Some(archive::HealthProblem::PoolFull),
        refuses: pool.refuses.as_ref().map(|problem| problem.word().to_owned()),
        refuses_text: pool.refuses.as_ref().map(ToString::to_string),
        online_files: pool.online.files,
        online_bytes: pool.online.bytes.0,
        reconstructed: pool.reconstructed,
        garbage: pool.garbage,
        small: pool.small.map(|small| wire::SmallFilesReply {
            segments: small.segments,
            values: small.values,
            bytes: small.bytes.0,
            copied: small.copied.0,
            taken: small.taken.0,
            amplification: small.amplification(),
            at: small.at.to_string(),
        }),
        evictor: wire::EvictorReply {
            high_water_percent: pool.evictor.water.map(|water| water.high_percent),
            low_water_percent: pool.evictor.water.map(|water| water.low_percent),
            online_bytes: pool.evictor.online.0,
            room_bytes: pool.evictor.room.0,
            evicted_files: pool.evictor.files,
            evicted_bytes: pool.evictor.bytes.0,
            last: pool.evictor.last.map(|at| at.to_string()),
            held_up: pool.evictor.held_up,
            makes_room: pool.evictor.makes_room,
        },
        rebuild: pool.rebuild.as_ref().map(rebuild_reply),
        rebalance: pool.rebalance.as_ref().map(rebalance_reply),
        recoding: pool.recoding.as_ref().map(recoding_reply),
        groups: pool.groups.iter().map(group_reply).collect(),
        drives: pool.drives.iter().map(drive).collect(),
    }
}

/// A storage class.
pub(crate) fn class_reply(class: &ClassInfo) -> wire::ClassReply {
    wire::ClassReply {
        name: class.name.clone(),
        up_to: class.up_to.map(|bytes| bytes.0),
        copies: class.copies.clone(),
        pack_bytes: class.pack_bytes.0,
        large_bytes: class.large_bytes.0,
        files: class.live.files,
        bytes: class.live.bytes.0,
        online_files: class.online.files,
        online_bytes: class.online.bytes.0,
        todo_files: class.todo.files,
        todo_bytes: class.todo.bytes.0,
        pool_group: class.placing.group.clone(),
        pool_group_seconds: class.placing.unused_for.map(|span| span.as_secs()),
        pool_max: class.pool_max.map(|bytes| bytes.0),
        pool_min: Some(class.leaving.pool_min.0).filter(|bytes| *bytes > 0),
        evict_min: Some(class.leaving.size_min.0).filter(|bytes| *bytes > 0),
        residency: if class.cold {
            "tape"
        } else if class.leaving.unused_for.is_some() {
            "unused"
        } else {
            "pool"
        }
        .to_owned(),
        residency_seconds: class.leaving.unused_for.map(|span| span.as_secs()),
    }
}

/// Something that waits.
pub(crate) fn queue_reply(line: &QueueLine) -> wire::QueueReply {
    wire::QueueReply {
        what: line.what.clone(),
        items: line.items,
        bytes: line.bytes.0,
        oldest: line.oldest.map(|at| at.to_string()),
        oldest_seconds: line.age.map(|age| age.as_secs()),
        reason: line.reason.clone(),
        cause: line.cause.as_ref().map(foresee::reason_reply),
        expected: line.expected.as_ref().map(foresee::expected_reply),
    }
}

/// Counters.
pub(crate) fn status_reply(instance: Uuid, totals: &Totals, memory_anonymous: u64) -> wire::StatusReply {
    wire::StatusReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: instance.to_string(),
        warnings: totals.warnings.clone(),
        pool_capacity: totals.pool_capacity.0,
        pool_used: totals.pool_used.0,
        pool_drives: totals.pool_drives,
        pool_drives_up: totals.pool_drives_up,
        pool_drives_full: totals.pool_drives_full,
        refuses: totals.problems.iter().map(|problem| problem.word().to_owned()).collect(),
        files: totals.live.files,
        bytes: totals.live.bytes.0,
        online_files: totals.online.files,
        online_bytes: totals.online.bytes.0,
        evictable_files: totals.holders.evictable.files,
        evictable_bytes: totals.holders.evictable.bytes.0,
        pinned_files: totals.holders.pinned.files,
        pinned_bytes: totals.holders.pinned.bytes.0,
        waiting: totals.stuck.iter().map(queue_reply).collect(),
        lost_files: Some(totals.lost.files),
        lost_files_counted: totals.lost.is_counted,
        todo_files: totals.todo.files,
        queued_containers: totals.queued.files,
        queued_bytes: totals.queued.bytes.0,
        wanted_files: Some(totals.wanted.files),
        wanted_bytes: totals.wanted.bytes.0,
        repack_containers: totals.repacked,
        repair_containers: totals.repairs.files,
        unindexed_containers: totals.unindexed,
        mounts: totals.mounts,
        packs: totals.packs,
        flushes: totals.flushes.files,
        indexes: totals.indexes,
        tape_written: totals.tape_written.0,
        memory_anonymous,
        settling: totals.settling.as_ref().map(settling_reply),
        threads: totals.threads.iter().map(thread_reply).collect(),
    }
}

fn thread_reply(thread: &WorkerInfo) -> wire::ThreadReply {
    let (failed, error) = thread.failed.clone().unzip();
    wire::ThreadReply {
        name: thread.name.clone(),
        doing: thread.doing.to_owned(),
        since: thread.since.to_string(),
        failed: failed.map(|at| at.to_string()),
        error,
    }
}

fn settling_reply(settling: &SettlingInfo) -> wire::SettlingReply {
    wire::SettlingReply {
        stage: settling.stage.name().to_owned(),
        began: settling.began.to_string(),
        tapes: settling.tapes,
        tapes_done: settling.tapes_done,
        files: settling.files,
        files_done: settling.files_done,
        left_seconds: settling.left.map(|left| left.as_secs()),
        unseen: settling.unseen.iter().map(ToString::to_string).collect(),
        absent: settling.absent.iter().map(ToString::to_string).collect(),
        unsearched: settling.unsearched.iter().map(ToString::to_string).collect(),
        missing: settling.missing,
    }
}

/// A selection in short, for the audit log.
pub(crate) fn selection_text(selection: &Selection) -> String {
    let first = selection.paths.first().map_or("", ArchivePath::as_str);
    match selection.paths.len() {
        0 | 1 => first.to_owned(),
        count => format!("{count} paths, the first is {first}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalogue::TapeState;

    /// The words by which lists are filtered are those that they show.
    #[test]
    fn states_have_the_words_that_filters_know() {
        let tapes = [
            TapeState::Scratch,
            TapeState::Labelling,
            TapeState::Active,
            TapeState::Full,
            TapeState::ReadOnly,
            TapeState::Suspect,
            TapeState::Disabled,
            TapeState::Repacking,
            TapeState::Retired,
        ];
        let shown: Vec<&str> = tapes.map(TapeState::word).into_iter().chain([UNIDENTIFIED]).collect();
        assert_eq!(shown, wire::TAPE_STATES);
        let requests = [
            RequestState::Filling,
            RequestState::Active,
            RequestState::Completed,
            RequestState::Cancelling,
            RequestState::Cancelled,
            RequestState::Forgetting,
        ];
        assert_eq!(requests.map(request_word), wire::REQUEST_STATES);
    }
}
