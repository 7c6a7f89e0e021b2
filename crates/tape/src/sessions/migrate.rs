//! A writing session: carries out what [`session::WritingSession`] says. Containers are planned and durable
//! in the run before their first block; a flush and its commit follow; an index when one is due.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::planted::{Bug, is_planted};
use base::{BlobPiece, BlockAddress, ByteCount, ContainerId, TapePoolId};
use catalogue::{Command, PlannedContainer, RunEnd, TapeState};
use mover::{Ended, MoverError, WriteContext, Written, write_containers};
use pool::TapeStream;
use scheduler::SessionEnd;
use session::{Choice, FlushRules, RunEnding, Situation, Target, WriteEnded, WritingAction, WritingEvent};

use super::plan::{self, PoolQueue};
use super::{MountedTape, SessionError};
use crate::room::{largest_container, reserve};
use ground::access::Notice;

/// What is chosen and how far it is.
struct Migration {
    tape_pool: TapePoolId,
    stream: TapeStream,
    /// In the run, and not committed.
    chosen: Vec<PlannedContainer>,
    /// On tape since the last flush.
    written: Written,
    /// A container whose bytes could not be had.
    fault: Option<SourceFault>,
    /// Why the tape is full, if it is.
    full: &'static str,
    /// Something came to tape.
    has_written: bool,
}

/// Its early warning, or its end, came while it was written.
const END_REACHED: &str = "its end was reached";
/// It was closed before that.
pub(crate) const REST_USELESS: &str = "nothing that waits fits into what is left of it";

/// Why the bytes of a container cannot be had.
enum SourceFault {
    /// Reading them failed, of this piece if it was one; blocks of it may be on tape.
    Unreadable(ContainerId, Option<BlobPiece>, MoverError),
    /// Nobody can say where they are.
    Unavailable(ContainerId, String),
}

impl MountedTape<'_> {
    /// Writes what is queued for the pool until nothing is left or the tape is full.
    pub(super) fn migrate(&mut self, tape_pool: TapePoolId) -> SessionEnd {
        let end = self.write_queued(tape_pool);
        self.room.planning().leave(self.tape.vid);
        end
    }

    fn write_queued(&mut self, tape_pool: TapePoolId) -> SessionEnd {
        let mut migration = Migration {
            tape_pool,
            stream: self.room.tape_stream(),
            chosen: Vec::new(),
            written: Written { containers: 0, bytes: 0, torn: 0, ended: Ended::All },
            fault: None,
            full: END_REACHED,
            has_written: false,
        };
        let mut event = WritingEvent::Begin;
        loop {
            let step = self.next_action(event).and_then(|action| match action {
                WritingAction::End(end) => Ok(Err(end)),
                action => self.write_step(action, &mut migration).map(Ok),
            });
            match step {
                Ok(Ok(next)) => event = next,
                Ok(Err(session::SessionEnd::Drained)) if !migration.has_written => return SessionEnd::Idle,
                Ok(Err(end)) => return end.into(),
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// What the rules say is next, as things stand now.
    fn next_action(&mut self, event: WritingEvent) -> Result<WritingAction, SessionError> {
        let room = self.room;
        let mounted = &mut *self.tape;
        let haste = room.haste().call();
        let is_changed = mounted.volume.is_changed();
        let may_index = matches!(event, WritingEvent::Flushed | WritingEvent::NothingQueued) && is_changed;
        let record = room.tape(mounted.vid)?;
        let situation = Situation {
            stop: room.stop.load(Ordering::Relaxed) || room.scheduler().is_retiring(&self.name.to_string()),
            may_write: record.state == TapeState::Active
                && !room.is_leaving(mounted.vid)
                && room.has_current_key(&record),
            owes_index: is_changed,
            room_waits: may_index && room.room_waits_for_index(mounted.vid),
            haste,
        };
        Ok(mounted.writing.step(room.now(), &situation, event))
    }

    /// Carries out one action; its outcome.
    fn write_step(
        &mut self,
        action: WritingAction,
        migration: &mut Migration,
    ) -> Result<WritingEvent, SessionError> {
        match action {
            WritingAction::Choose => self.choose(migration),
            WritingAction::Write => self.write_chosen(migration),
            WritingAction::Flush => {
                let Written { containers, bytes, .. } = migration.written;
                migration.has_written |= containers > 0;
                self.commit(&migration.chosen, containers, bytes)?;
                migration.chosen.drain(..containers);
                Ok(WritingEvent::Flushed)
            }
            WritingAction::Index { somebody_waits } => {
                migration.has_written = true;
                self.write_index()?;
                if !somebody_waits {
                    // A tape that is written to its end ends no run before.
                    self.write_base()?;
                }
                Ok(WritingEvent::Indexed)
            }
            WritingAction::EndRun(ending) => self.end_run(ending, migration),
            WritingAction::End(end) => unreachable!("the session has ended: {end:?}"),
        }
    }

    /// Chooses containers and takes them into the run, durably.
    fn choose(&mut self, migration: &mut Migration) -> Result<WritingEvent, SessionError> {
        assert!(migration.chosen.is_empty(), "all that was chosen before is written");
        let run = self.ensure_run(migration.tape_pool)?;
        let mounted = &*self.tape;
        let (vid, block_size) = (mounted.vid, mounted.volume.block_size());
        let record = self.room.tape(vid)?;
        let left = ByteCount(self.drive.remaining()?.0.saturating_sub(reserve(record.capacity).0));
        let pool = self.room.classes.tape_pools().get(&migration.tape_pool);
        let target = Target {
            vid,
            tape_pool: migration.tape_pool,
            room: left,
            empty_tape: largest_container(record.capacity),
            useful: self.room.useful_room(migration.tape_pool, left, record.capacity),
            flush: FlushRules::by_bytes(self.room.settings.tape.flush_bytes),
            left_to_others: pool.map_or(ByteCount(0), |pool| pool.mount_bytes),
        };
        let mut queue = PoolQueue::of(self.room, vid, migration.tape_pool)?;
        let mut planning = self.room.planning();
        let queued = match session::choose(&mut queue, &mut planning, self.room.now(), &target)? {
            Choice::Containers(queued) => {
                self.room.something_fits(vid);
                queued
            }
            Choice::Nothing => return Ok(WritingEvent::NothingQueued),
            Choice::TapeFull => {
                migration.full = REST_USELESS;
                return Ok(WritingEvent::TapeFull);
            }
            Choice::NothingFits => {
                drop(planning);
                self.room.nothing_fits(migration.tape_pool, vid, left);
                return Ok(WritingEvent::NothingFits);
            }
        };
        let planned = plan::places(&queued, run.end_of_data, block_size.bytes());
        self.room.execute(Command::AppendToRun { run: run.id, containers: planned.clone() })?;
        drop(planning);
        if let Some(run) = &mut self.tape.run {
            run.planned += planned.len() as u32;
        }
        migration.chosen = planned;
        Ok(WritingEvent::Chosen)
    }

    /// Streams what is chosen, until it is all written or a flush is due by time.
    fn write_chosen(&mut self, migration: &mut Migration) -> Result<WritingEvent, SessionError> {
        // What of it is evicted or moved meanwhile goes when it is written; nothing else waits for that.
        let (plans, unavailable, _held) = {
            let _reading = self.room.gate.enter();
            let (plans, unavailable) = self.build_plans(&migration.chosen);
            let held = self.room.gate.hold(plans.iter().flat_map(mover::ContainerPlan::blobs).collect());
            (plans, unavailable, held)
        };
        let read: Vec<_> = plans.iter().map(|plan| (plan.container, plan::only_piece(plan))).collect();
        let room = Arc::clone(self.room);
        let mounted = &mut *self.tape;
        let keep = reserve(room.tape(mounted.vid)?.capacity);
        let (vid, block_size, rules) = (mounted.vid, mounted.volume.block_size(), mounted.writing);
        let flush_due = || rules.flush_is_due(room.now());
        let context = WriteContext {
            store: room.blobs.as_ref(),
            buffer: room.settings.tape.buffer,
            progress: &self.session.bytes,
            containers: &self.session.items,
            files: &self.session.files,
            stop: &room.stop,
            flush_due: &flush_due,
            stream: &migration.stream,
            keep,
        };
        let mut written = write_containers(self.drive.as_mut(), vid, block_size, plans, context);
        let ended = match std::mem::replace(&mut written.ended, Ended::All) {
            Ended::All if unavailable.is_some() => {
                migration.fault = unavailable;
                WriteEnded::NoSource
            }
            Ended::All => WriteEnded::All,
            Ended::FlushDue => WriteEnded::FlushDue,
            Ended::Stopped => WriteEnded::Stopped,
            Ended::EarlyWarning | Ended::EndOfMedium => WriteEnded::TapeEnd,
            Ended::Source(container, error) => {
                let piece = read.iter().find(|(of, _)| *of == container).and_then(|(_, piece)| *piece);
                migration.fault = Some(SourceFault::Unreadable(container, piece, error));
                WriteEnded::NoSource
            }
            Ended::Unavailable(container, why) => {
                migration.fault = Some(SourceFault::Unavailable(container, why));
                WriteEnded::NoSource
            }
            Ended::Tape(error) => {
                // What is whole in front of the fault may be safe yet; if it is not, the next mount looks
                // for it. The session failed for the first fault: a drive that refuses all after it does not
                // say whose it was.
                if let Err(later) = self.commit(&migration.chosen, written.containers, written.bytes) {
                    let vid = self.tape.vid;
                    tracing::warn!(%vid, %later, "what was written in front of a fault is not committed");
                }
                return Err(error.into());
            }
        };
        let told = session::Written {
            containers: written.containers as u64,
            bytes: ByteCount(written.bytes),
            ended,
        };
        migration.written = written;
        Ok(WritingEvent::Written(told))
    }

    /// The plans up to the first container whose bytes cannot be had.
    fn build_plans(
        &self,
        containers: &[PlannedContainer],
    ) -> (Vec<mover::ContainerPlan>, Option<SourceFault>) {
        let mut plans = Vec::with_capacity(containers.len());
        for planned in containers {
            match plan::build(self.room, planned) {
                Ok(plan) => plans.push(plan),
                Err(error) => {
                    return (plans, Some(SourceFault::Unavailable(planned.container, error.to_string())));
                }
            }
        }
        (plans, None)
    }

    /// The first point: a synchronous flush, then the catalogue's commit of the first `count` that are behind
    /// it.
    fn commit(&mut self, chosen: &[PlannedContainer], count: usize, bytes: u64) -> Result<(), SessionError> {
        let whole = chosen.get(..count).unwrap_or_default();
        let Some(last) = whole.last() else { return Ok(()) };
        if !is_planted(Bug::MissingTapeFlush) {
            self.drive.write_filemarks(0)?;
        }
        let mounted = &mut *self.tape;
        for planned in whole {
            if plan::enter(self.room, &mut mounted.volume, planned.container, planned.block)? {
                mounted.unverified.push(planned.container);
            }
        }
        let run = mounted.run.as_mut().expect("a batch belongs to a run");
        let end_of_data = BlockAddress(last.block.0 + last.blocks.0);
        assert!(end_of_data > run.end_of_data, "what is committed stands behind what was");
        let committed = run.committed + whole.len() as u32;
        assert!(committed <= run.planned, "only what was planned is committed");
        self.room.execute(Command::CommitRun {
            run: run.id,
            committed: committed - u32::from(is_planted(Bug::DoubleCommit)),
            end_of_data,
            written: ByteCount(bytes),
        })?;
        if self.room.settings.pool.water.is_some() {
            // What is flushed lacks an index only, which is written for whoever finds no room.
            self.room.leaving.set_room_comes(true);
        }
        run.committed = committed;
        run.end_of_data = end_of_data;
        plan::recovered(self.room, whole);
        let vid = mounted.vid;
        self.room.access.push(|| Notice::Migrated {
            at: self.room.now(),
            vid,
            containers: whole.iter().map(|planned| (planned.container, planned.block)).collect(),
        });
        self.room.notifier.backlog_changed();
        Ok(())
    }

    /// Ends the open run, if there is one: what is planned and not written goes back to its queue.
    fn end_run(
        &mut self,
        ending: RunEnding,
        migration: &mut Migration,
    ) -> Result<WritingEvent, SessionError> {
        let fault = migration.fault.take();
        match &fault {
            Some(SourceFault::Unreadable(container, piece, error)) => {
                plan::rest_unreadable(self.room, *container, *piece, error)?;
            }
            Some(SourceFault::Unavailable(container, why)) => {
                plan::rest(self.room, *container, why);
            }
            None => {}
        }
        let torn = std::mem::take(&mut migration.written.torn);
        migration.chosen.clear();
        let mounted = &*self.tape;
        if mounted.run.is_some() {
            let (end, state, reason) = match ending {
                RunEnding::Finished => (RunEnd::Finished, TapeState::Active, ""),
                RunEnding::TapeFull => (RunEnd::TapeFull, TapeState::Full, migration.full),
                RunEnding::Failed => (RunEnd::Failed, TapeState::Active, ""),
            };
            self.end_early(end, state, reason, torn)?;
        }
        match fault {
            Some(SourceFault::Unreadable(container, _, error)) => {
                plan::give_up_lost(self.room, container, Some(&error))?;
            }
            Some(SourceFault::Unavailable(container, _)) => {
                plan::give_up_lost(self.room, container, None)?;
            }
            None => {}
        }
        Ok(WritingEvent::RunEnded)
    }
}
