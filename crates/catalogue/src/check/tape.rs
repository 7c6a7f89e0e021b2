//! Containers, copies, tapes, runs.

use base::{BlockAddress, ByteCount, ContainerId, FileId, RequestId, RunId, TapePoolId, Timestamp, Vid};

use super::Check;
use crate::command::{PRIORITY_MAX, PRIORITY_USUAL};
use crate::encoding::{MemberValue, Nothing, PartRecord};
use crate::error::ReadError;
use crate::key;
use crate::record::{
    BaseRecord, CleanerRecord, ClockRecord, ContainerKind, ContainerRecord, CopyState, Counter,
    DriveCleaning, DriveDiskRecord, LeapsBelieved, PoolDriveRecord, QueuedContainer, RebalanceRecord,
    RecodingRecord, RunItem, RunRecord, SealingRecord, TapeAway, TapeRecord, TapeState,
};
use crate::table::Table;

impl Check<'_> {
    pub(super) fn containers(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Container, |check, mut parts, key, container: ContainerRecord| {
            let id = ContainerId(parts.u64()?);
            check.refer(container.skeleton.as_slice());
            check.refer(container.image.as_slice());
            let fits = container.image.is_none_or(|image| image.length == container.length);
            check.expect(fits, Table::Container, key, "the image has another length");
            if container.kind == ContainerKind::Pack {
                check.count(Counter::PacksSealed, container.length);
            }
            let is_sealing = check.has::<SealingRecord>(Table::Sealing, &key::container(id))?;
            let is_right = is_sealing == container.copies.is_empty();
            check.expect(
                is_right,
                Table::Container,
                key,
                "the container has no copies and is not being sealed",
            );
            check.members(id, &container, key)?;
            check.copies(id, &container, key)
        })?;
        self.walk(Table::Member, |check, mut parts, key, member: MemberValue| {
            let container = ContainerId(parts.u64()?);
            let data_offset = ByteCount(parts.u64()?);
            let file = FileId(parts.u64()?);
            let part: Option<PartRecord> =
                check.view.get(Table::Part, &key::part(file, member.file_offset))?;
            let is_right = part == Some(PartRecord { container, data_offset });
            check.expect(is_right, Table::Member, key, "the file does not know this part");
            let is_known = check.view.container(container)?.is_some();
            check.expect(is_known, Table::Member, key, "the container does not exist");
            Ok(())
        })?;
        self.walk(Table::Sealing, |check, mut parts, key, sealing: SealingRecord| {
            let container = check.view.container(ContainerId(parts.u64()?))?;
            let is_right = container.is_some_and(|container| {
                let has = container.live_members.saturating_add(container.condemned_members);
                container.copies.is_empty() && (sealing.members == 0 || has == sealing.added)
            });
            check.expect(is_right, Table::Sealing, key, "the pack is not being sealed, or not so far");
            Ok(())
        })?;
        self.walk(Table::Queue, |check, mut parts, key, queued: QueuedContainer| {
            let pool = TapePoolId(parts.u16()?);
            check.count(Counter::Queued(pool), queued.length);
            let container = check.view.container(ContainerId(parts.u64()?))?;
            let is_right = container.is_some_and(|container| {
                let mut copies = container.copies.iter();
                (container.length, container.sealed) == (queued.length, queued.since)
                    && copies.any(|copy| copy.tape_pool == pool && copy.state == CopyState::Queued)
            });
            check.expect(is_right, Table::Queue, key, "the container does not wait for this tape pool");
            Ok(())
        })
    }

    fn members(&mut self, id: ContainerId, container: &ContainerRecord, key: &[u8]) -> Result<(), ReadError> {
        let (mut live, mut bytes, mut condemned) = (0u32, 0u64, 0u32);
        for member in self.view.members(id, None, usize::MAX)? {
            let file = self.view.file(member.file)?;
            self.expect(file.is_some(), Table::Container, key, "a member does not exist");
            if file.is_some_and(|file| file.is_named()) {
                live += 1;
                bytes += member.length.0;
            } else {
                condemned += 1;
            }
        }
        let counted = (live, bytes, condemned);
        let recorded = (container.live_members, container.live_bytes.0, container.condemned_members);
        self.expect(counted == recorded, Table::Container, key, "the members are miscounted");
        let is_waited_for = match container.kind {
            ContainerKind::Segment { file, .. } => !self.view.wants(file)?.is_empty(),
            ContainerKind::Pack | ContainerKind::File(_) => false,
        };
        let is_tidy = !container.is_settled()
            || (container.skeleton.is_none() && (container.image.is_none() || is_waited_for));
        self.expect(is_tidy, Table::Container, key, "skeleton or image are kept though all is settled");
        Ok(())
    }

    fn copies(&mut self, id: ContainerId, container: &ContainerRecord, key: &[u8]) -> Result<(), ReadError> {
        for copy in &container.copies {
            if let Some(source) = copy.source {
                let row = self.view.get(Table::Content, &key::content(source.vid, source.block))?;
                self.expect(row == Some(id), Table::Container, key, "a source is not where it is said to be");
            }
            let is_right = match copy.state {
                CopyState::Queued => {
                    self.has::<QueuedContainer>(Table::Queue, &key::queue(copy.tape_pool, id))?
                }
                CopyState::Planned { run, vid, .. } => {
                    self.view.run(run)?.is_some_and(|run| run.vid == vid && run.ended.is_none())
                }
                CopyState::Flushed { vid, block, .. } | CopyState::Indexed { vid, block } => {
                    self.view.get(Table::Content, &key::content(vid, block))? == Some(id)
                }
            };
            self.expect(is_right, Table::Container, key, "a copy is not where it is said to be");
            if let CopyState::Flushed { vid, block, .. } | CopyState::Indexed { vid, block } = copy.state {
                let tape = self.view.tape(vid)?;
                let is_indexed = matches!(copy.state, CopyState::Indexed { .. });
                let is_covered = tape.is_some_and(|tape| (block < tape.index_block) == is_indexed);
                self.expect(is_covered, Table::Container, key, "a copy before the last index is not indexed");
            }
        }
        Ok(())
    }

    pub(super) fn tapes(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Tape, |check, mut parts, key, tape: TapeRecord| {
            let vid = parts.vid()?;
            let content = check.view.content(vid, BlockAddress(0), usize::MAX)?;
            let mut bytes = 0;
            for (_, container) in &content {
                bytes += check.view.container(*container)?.map_or(0, |container| container.length.0);
            }
            let is_counted = (tape.containers, tape.committed.0) == (content.len() as u64, bytes);
            check.expect(is_counted, Table::Tape, key, "the tape's containers are miscounted");
            let is_open = match tape.run {
                None => true,
                Some(run) => check.has::<Vid>(Table::OpenRun, &key::run(run))?,
            };
            check.expect(is_open, Table::Tape, key, "the tape's run is not open");
            let is_sound = tape.history.is_none_or(|history| {
                let is_state =
                    !matches!(history.before, TapeState::Suspect | TapeState::Disabled | TapeState::Retired);
                is_state && (history.retry.is_none() || tape.state == TapeState::Suspect)
            });
            check.expect(is_sound, Table::Tape, key, "the history of the tape contradicts its state");
            let is_unused = tape.generation.0 == 0 && tape.containers == 0 && tape.uuid.is_none();
            let is_sound = tape.state != TapeState::Retired || is_unused;
            check.expect(is_sound, Table::Tape, key, "a retired tape holds something");
            let is_short = tape.away.is_none_or(|away| away.place.len() <= TapeAway::PLACE_MAX);
            check.expect(is_short, Table::Tape, key, "the place where the tape is kept is too long");
            Ok(())
        })?;
        self.walk(Table::Content, |check, mut parts, key, container: ContainerId| {
            let vid = parts.vid()?;
            let block = BlockAddress(parts.u64()?);
            let record = check.view.container(container)?;
            let is_right = record.is_some_and(|record| record.places().any(|at| at == (vid, block)));
            check.expect(is_right, Table::Content, key, "the container has no copy here");
            Ok(())
        })?;
        self.segments()?;
        self.walk(Table::DriveDown, |check, mut parts, key, _: String| {
            let is_named = !parts.text()?.is_empty();
            check.expect(is_named, Table::DriveDown, key, "the drive has no name");
            Ok(())
        })?;
        self.walk(Table::DriveCleaning, |check, mut parts, key, _: DriveCleaning| {
            let is_named = !parts.text()?.is_empty();
            check.expect(is_named, Table::DriveCleaning, key, "the drive has no name");
            Ok(())
        })?;
        self.walk(Table::KeyAtHand, |check, mut parts, key, _: Nothing| {
            let is_right = key::tape_key(&parts.tape_key()?) == key;
            check.expect(is_right, Table::KeyAtHand, key, "the key of tapes is named otherwise");
            Ok(())
        })?;
        self.walk(Table::TapeLeaving, |check, mut parts, key, _: Nothing| {
            let is_known = check.view.tape(parts.vid()?)?.is_some();
            check.expect(is_known, Table::TapeLeaving, key, "no such tape is known");
            Ok(())
        })?;
        self.walk(Table::PoolDrive, |_, mut parts, _, _: PoolDriveRecord| {
            parts.u16()?;
            Ok(())
        })?;
        self.walk(Table::DriveDisk, |check, mut parts, key, record: DriveDiskRecord| {
            parts.u16()?;
            check.expect(!record.known.disk.is_empty(), Table::DriveDisk, key, "a disk has a name");
            Ok(())
        })?;
        self.walk(Table::Recoding, |check, _, key, _: RecodingRecord| {
            check.expect(key == key::REBALANCE, Table::Recoding, key, "there is one such record");
            Ok(())
        })?;
        self.walk(Table::Rebalance, |check, _, key, _: RebalanceRecord| {
            check.expect(key == key::REBALANCE, Table::Rebalance, key, "there is one such record");
            Ok(())
        })?;
        self.walk(Table::Cleaner, |check, mut parts, key, cleaner: CleanerRecord| {
            parts.vid()?;
            let is_used = cleaner.uses > 0 || cleaner.unfit.is_some();
            check.expect(is_used, Table::Cleaner, key, "the cleaning cartridge was not used");
            Ok(())
        })?;
        self.walk(Table::Clock, |check, _, key, clock: ClockRecord| {
            let is_right = key == key::CLOCK && clock.moves.iter().all(|leap| leap.since <= leap.before);
            check.expect(is_right, Table::Clock, key, "what is known of the time contradicts itself");
            Ok(())
        })?;
        self.walk(Table::Leaps, |check, _, key, _: LeapsBelieved| {
            check.expect(key == key::CLOCK, Table::Leaps, key, "there is one such record");
            Ok(())
        })?;
        self.walk(Table::Unknown, |check, _, key, _: Timestamp| {
            // That it is unknown is so again at each look at the drives only.
            check.expect(key.len() == key::UNKNOWN_BYTES, Table::Unknown, key, "this is no extent");
            Ok(())
        })?;
        self.walk(Table::RequestPriority, |check, mut parts, key, priority: u8| {
            let is_right = priority <= PRIORITY_MAX && priority != PRIORITY_USUAL;
            check.expect(is_right, Table::RequestPriority, key, "there is no such priority");
            let is_known = check.view.request(RequestId(!parts.u64()?))?.is_some();
            check.expect(is_known, Table::RequestPriority, key, "there is no such request");
            Ok(())
        })?;
        self.runs()
    }

    /// Change-log segments: each on a tape that knows of it.
    fn segments(&mut self) -> Result<(), ReadError> {
        let last_change = self.view.last_change()?;
        let mut newest = std::collections::BTreeMap::new();
        self.walk(Table::Segment, |check, mut parts, key, last: u64| {
            let vid = parts.vid()?;
            let first = parts.u64()?;
            let fits = first > 0 && first <= last && last <= last_change;
            check.expect(fits, Table::Segment, key, "the range of changes is not in the log");
            let known = check.view.tape(vid)?.is_some_and(|tape| last <= tape.changes_through);
            check.expect(known, Table::Segment, key, "the tape does not know of these changes");
            let through: &mut u64 = newest.entry(vid).or_default();
            *through = last.max(*through);
            Ok(())
        })?;
        self.walk(Table::Trimmed, |check, _, key, _: u64| {
            check.expect(key == key::CLOCK, Table::Trimmed, key, "there is one such record");
            Ok(())
        })?;
        self.walk(Table::Base, |check, mut parts, key, base: BaseRecord| {
            let (vid, change) = (parts.vid()?, parts.u64()?);
            let fits = base.parts > 0 && change > 0 && change <= last_change;
            check.expect(fits, Table::Base, key, "the base ends with a change that was not made");
            let known = check.view.tape(vid)?.is_some_and(|tape| tape.generation.0 > 0);
            check.expect(known, Table::Base, key, "the base is on no labelled tape");
            Ok(())
        })?;
        self.walk(Table::Tape, |check, mut parts, key, tape: TapeRecord| {
            let through = newest.get(&parts.vid()?).copied().unwrap_or(0);
            let agrees = tape.changes_through == through;
            check.expect(agrees, Table::Tape, key, "the tape's newest change has no segment");
            Ok(())
        })
    }

    fn runs(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Run, |check, mut parts, key, run: RunRecord| {
            let id = RunId(parts.u64()?);
            let is_open = check.has::<Vid>(Table::OpenRun, &key::run(id))?;
            check.expect(
                is_open == run.ended.is_none(),
                Table::Run,
                key,
                "the run is open and ended, or neither",
            );
            let items = check.view.run_items(id, 0, usize::MAX)?;
            let is_counted = items.len() as u64 == u64::from(run.planned)
                && run.committed <= run.planned
                && run.indexed <= run.committed;
            check.expect(is_counted, Table::Run, key, "the run's items are miscounted");
            Ok(())
        })?;
        self.walk(Table::RunItem, |check, mut parts, key, item: RunItem| {
            let id = RunId(parts.u64()?);
            let number = parts.u32()?;
            let container = check.view.container(item.container)?;
            let run = check.view.run(id)?;
            let Some(run) = run else {
                check.expect(false, Table::RunItem, key, "the run does not exist");
                return Ok(());
            };
            let planned = CopyState::Planned { run: id, vid: run.vid, block: item.block };
            // What was committed may have been copied elsewhere and be gone since.
            let is_past = number < run.committed || run.ended.is_some();
            let is_right =
                is_past || container.is_some_and(|record| record.copies.iter().any(|c| c.state == planned));
            check.expect(is_right, Table::RunItem, key, "the container's copy does not say so");
            Ok(())
        })?;
        self.walk(Table::OpenRun, |check, mut parts, key, vid: Vid| {
            let id = RunId(parts.u64()?);
            let is_right = check.view.tape(vid)?.is_some_and(|tape| tape.run == Some(id));
            check.expect(is_right, Table::OpenRun, key, "the tape does not know this run");
            Ok(())
        })
    }
}
