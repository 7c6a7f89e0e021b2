//! A writing session: plan and make durable, stream, flush and commit, again and again; an index when one is
//! due.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::planted::{Bug, is_planted};
use base::{BlockAddress, ByteCount, TapePoolId, Vid};
use catalogue::{Command, PlannedContainer, RunEnd, TapeState};
use library::TapeError;
use mover::{Ended, VolumeError, WriteContext, Written, write_containers};
use pool::TapeStream;
use scheduler::SessionEnd;

use super::plan::{self, Planned};
use super::{DriveThread, OpenRun, SessionError};
use crate::access_log::Notice;
use crate::engine::reserve;

impl DriveThread {
    /// Writes what is queued for the pool until nothing is left or the tape is full.
    pub(super) fn migrate(&mut self, vid: Vid, tape_pool: TapePoolId) -> SessionEnd {
        let end = self.write_queued(vid, tape_pool);
        self.engine.affinity().leave(vid);
        end
    }

    fn write_queued(&mut self, vid: Vid, tape_pool: TapePoolId) -> SessionEnd {
        let mounted = self.mounted.as_ref().map(|mounted| (mounted.vid, mounted.failed));
        if mounted != Some((vid, false)) {
            return SessionEnd::Failed(format!("tape {vid} is not ready in drive {}", self.name).into());
        }
        let stream = self.engine.tape_stream();
        loop {
            if self.engine.stop.load(Ordering::Relaxed) || self.engine.scheduler().is_retiring(&self.name()) {
                return SessionEnd::Stopped;
            }
            match self.migrate_batch(tape_pool, &stream) {
                Ok(None) => {}
                Ok(Some(SessionEnd::Drained)) => match self.answer_hurry() {
                    Ok(()) => return SessionEnd::Drained,
                    Err(error) => return self.fail(&error),
                },
                Ok(Some(end)) => return end,
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Somebody who asked for haste waits for the index, not for the unmount; while packs of what was there
    /// then are still being made, for that of the next session too.
    fn answer_hurry(&mut self) -> Result<(), SessionError> {
        let (hurried, is_sealed) = {
            let haste = self.engine.haste();
            (haste.last(), haste.is_sealed())
        };
        let Some(mounted) = &mut self.mounted else { return Ok(()) };
        if hurried <= mounted.hurry_answered || !mounted.volume.is_changed() {
            return Ok(());
        }
        if is_sealed {
            mounted.hurry_answered = hurried;
        }
        self.write_index()
    }

    /// One batch, from plan to commit; `Some` ends the session.
    fn migrate_batch(
        &mut self,
        tape_pool: TapePoolId,
        stream: &TapeStream,
    ) -> Result<Option<SessionEnd>, SessionError> {
        let mounted = self.mounted.as_ref().expect("a session has a mounted tape");
        let record = self.engine.tape(mounted.vid)?;
        if record.state != TapeState::Active {
            // An operator has set it otherwise: what is on it gets its index, nothing more is written.
            if mounted.run.is_some() {
                self.finish_run(RunEnd::Finished, TapeState::Active, "", 0)?;
            }
            return Ok(Some(SessionEnd::Stopped));
        }
        let run = self.ensure_run(tape_pool)?;
        let mounted = self.mounted.as_ref().expect("a run is on a mounted tape");
        let room = self.drive.remaining()?.0.saturating_sub(reserve(record.capacity).0);
        let block_size = mounted.volume.block_size();
        let empty_tape = crate::engine::largest_container(record.capacity);
        let target = plan::Target {
            vid: mounted.vid,
            tape_pool,
            block_size: block_size.bytes(),
            room: ByteCount(room),
            empty_tape,
        };
        let planned = plan::take(&self.engine, &run, &target)?;
        let containers = match planned {
            Planned::Containers(containers) => containers,
            Planned::Nothing => return Ok(Some(SessionEnd::Drained)),
            Planned::TapeFull => {
                self.finish_run(RunEnd::TapeFull, TapeState::Full, "its end was reached", 0)?;
                return Ok(Some(SessionEnd::TapeFull));
            }
        };
        if let Some(mounted) = &mut self.mounted
            && let Some(run) = &mut mounted.run
        {
            run.planned += containers.len() as u32;
        }
        self.write_planned(&containers, stream)
    }

    /// Streams what is planned, with a flush and commit whenever one is due by time and at the end.
    fn write_planned(
        &mut self,
        mut containers: &[PlannedContainer],
        stream: &TapeStream,
    ) -> Result<Option<SessionEnd>, SessionError> {
        loop {
            let (plans, broken) = self.build_plans(containers);
            let began = self.engine.now();
            let engine = Arc::clone(&self.engine);
            let flush_due = || engine.now().since(began) >= engine.settings.tape.flush_age;
            let mounted = self.mounted.as_mut().expect("a run is on a mounted tape");
            let context = WriteContext {
                pool: &engine.pool,
                buffer: engine.settings.tape.buffer,
                progress: &self.session.bytes,
                containers: &self.session.files,
                stop: &engine.stop,
                flush_due: &flush_due,
                stream,
            };
            let (vid, block_size) = (mounted.vid, mounted.volume.block_size());
            let mut written = write_containers(self.drive.as_mut(), vid, block_size, plans, context);
            if let (Ended::All, Some((container, error))) = (&written.ended, broken) {
                written.ended = Ended::Unavailable(container, error);
            }
            self.commit(containers, &written)?;
            match written.ended {
                Ended::FlushDue => {
                    containers = containers.get(written.containers..).unwrap_or_default();
                }
                _ => return self.after(written),
            }
        }
    }

    /// The plans up to the first container whose bytes cannot be had.
    fn build_plans(
        &self,
        containers: &[PlannedContainer],
    ) -> (Vec<mover::ContainerPlan>, Option<(base::ContainerId, String)>) {
        let mut plans = Vec::with_capacity(containers.len());
        for planned in containers {
            match plan::build(&self.engine, planned) {
                Ok(plan) => plans.push(plan),
                Err(error) => return (plans, Some((planned.container, error.to_string()))),
            }
        }
        (plans, None)
    }

    /// The first point: a synchronous flush, then the catalogue's commit of what is behind it.
    fn commit(&mut self, containers: &[PlannedContainer], written: &Written) -> Result<(), SessionError> {
        let whole = containers.get(..written.containers).unwrap_or_default();
        let Some(last) = whole.last() else { return Ok(()) };
        if !is_planted(Bug::MissingTapeFlush) {
            self.drive.write_filemarks(0)?;
        }
        let mounted = self.mounted.as_mut().expect("a run is on a mounted tape");
        for planned in whole {
            if plan::enter(&self.engine, &mut mounted.volume, planned.container, planned.block)? {
                mounted.unverified.push(planned.container);
            }
        }
        let run = mounted.run.as_mut().expect("a batch belongs to a run");
        let end_of_data = BlockAddress(last.block.0 + last.blocks.0);
        let committed = run.committed + whole.len() as u32;
        self.engine.execute(Command::CommitRun {
            run: run.id,
            committed: committed - u32::from(is_planted(Bug::DoubleCommit)),
            end_of_data,
            written: ByteCount(written.bytes),
        })?;
        run.committed = committed;
        run.end_of_data = end_of_data;
        run.since_index += written.bytes;
        plan::recovered(&self.engine, whole);
        let vid = mounted.vid;
        self.engine.access.push(|| Notice::Migrated {
            at: self.engine.now(),
            vid,
            containers: whole.iter().map(|planned| (planned.container, planned.block)).collect(),
        });
        self.engine.bell.backlog_changed();
        Ok(())
    }

    fn after(&mut self, written: Written) -> Result<Option<SessionEnd>, SessionError> {
        let torn = written.torn;
        match written.ended {
            Ended::All | Ended::FlushDue => {
                let due = self.engine.settings.tape.index_bytes.0;
                let run: Option<OpenRun> = self.mounted.as_ref().and_then(|mounted| mounted.run);
                if run.is_some_and(|run| run.since_index >= due) {
                    self.write_index()?;
                    // A tape that is written to its end ends no run before.
                    self.write_base()?;
                }
                Ok(None)
            }
            Ended::Stopped => {
                self.end_early(RunEnd::Finished, TapeState::Active, "", torn)?;
                Ok(Some(SessionEnd::Stopped))
            }
            Ended::EarlyWarning | Ended::EndOfMedium => {
                self.end_early(RunEnd::TapeFull, TapeState::Full, "its end was reached", torn)?;
                Ok(Some(SessionEnd::TapeFull))
            }
            Ended::Source(container, error) => {
                plan::rest_unreadable(&self.engine, container, &error)?;
                self.end_early(RunEnd::Failed, TapeState::Active, "", torn)?;
                plan::give_up_lost(&self.engine, container, Some(&error))?;
                Ok(None)
            }
            Ended::Unavailable(container, why) => {
                plan::rest(&self.engine, container, why);
                self.end_early(RunEnd::Failed, TapeState::Active, "", torn)?;
                plan::give_up_lost(&self.engine, container, None)?;
                Ok(None)
            }
            Ended::Tape(error) => Err(error.into()),
        }
    }

    /// Ends a run of which planned containers are not written: they go back to their queue. An index is
    /// written if there is room for one; without it the committed containers stay `flushed`, and their files
    /// in the pool.
    fn end_early(
        &mut self,
        end: RunEnd,
        tape_state: TapeState,
        reason: &str,
        torn: u64,
    ) -> Result<(), SessionError> {
        let mounted = self.mounted.as_mut().expect("a run is on a mounted tape");
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
        let mounted = self.mounted.as_mut().expect("a run is on a mounted tape");
        let Some(run) = mounted.run else { return Ok(()) };
        let end_of_data = self.drive.space_to_end_of_data(base::Partition::Data)?.block;
        self.engine.execute(Command::EndRun {
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
        super::adopt::write_again(&self.engine, vid, "no index on its tape names it")?;
        self.engine.repack_after_run(vid);
        Ok(())
    }
}
