//! A drive's thread: carries out the scheduler's orders, one at a time, on the tape that it holds.

mod migrate;
mod mounting;
mod plan;
mod recall;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use threads::mpsc::Receiver;

use base::{BlockAddress, RunId, TapePoolId, Vid};
use catalogue::{Command, RunEnd, TapeState};
use library::{DriveName, TapeDrive, TapeError};
use mover::Volume;
use scheduler::{Event, SessionEnd};

use crate::ArchiveError;
use crate::conductor::Order;
use crate::engine::{Engine, Session, truncated};

pub(crate) use mounting::recover_torn_runs;

/// The tape in the drive, labels checked.
struct Mounted {
    vid: Vid,
    volume: Volume,
    run: Option<OpenRun>,
    /// The last call for haste that an index of this mount has answered.
    hurry_answered: i64,
    /// Whether something failed so that nothing more may be written to it in this mount.
    failed: bool,
}

/// A session's run, as the catalogue has it.
#[derive(Clone, Copy, Debug)]
struct OpenRun {
    id: RunId,
    tape_pool: TapePoolId,
    /// Items planned so far.
    planned: u32,
    /// Items committed so far.
    committed: u32,
    /// End of data after the last commit or index.
    end_of_data: BlockAddress,
    /// Bytes committed since the last index.
    since_index: u64,
}

/// Why a session on a mounted tape fails.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error(transparent)]
    Volume(#[from] mover::VolumeError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl From<library::TapeError> for SessionError {
    fn from(error: library::TapeError) -> Self {
        SessionError::Volume(error.into())
    }
}

pub(crate) struct DriveThread {
    engine: Arc<Engine>,
    name: DriveName,
    drive: Box<dyn TapeDrive>,
    mounted: Option<Mounted>,
    session: Arc<Session>,
    /// Tapes that failed in this drive one after the other, with nothing that went well between, and what
    /// each was before.
    failed_tapes: Vec<(Vid, TapeState)>,
}

/// So many tapes that fail in one drive in a row are the drive's fault, not theirs.
const FAILED_TAPES_MAX: usize = 2;

impl DriveThread {
    pub(crate) fn new(engine: Arc<Engine>, name: DriveName, drive: Box<dyn TapeDrive>) -> Self {
        let session = engine.session(name.as_str());
        DriveThread { engine, name, drive, mounted: None, session, failed_tapes: Vec::new() }
    }

    /// The thread: until no more orders can come; then the tape is brought home in good order.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        for order in orders {
            let event = self.carry_out(order);
            let event = self.judge_drive(event);
            self.engine.bell.post(event);
            self.engine.bell.backlog_changed();
        }
        if self.mounted.is_some() {
            self.unmount();
        }
    }

    fn name(&self) -> scheduler::DriveName {
        self.name.as_str().to_owned()
    }

    fn carry_out(&mut self, order: Order) -> Event {
        self.begin_session();
        match order {
            Order::Mount { vid, assign } => match self.mount(vid, assign) {
                Ok(()) => Event::Mounted(self.name(), vid),
                Err(reason) => Event::MountFailed(self.name(), vid, reason),
            },
            Order::Migrate { vid, tape_pool } => {
                let end = self.migrate(vid, tape_pool);
                self.engine.post_tape(vid);
                Event::MigrationEnded(self.name(), end)
            }
            Order::Recall { vid } => Event::RecallEnded(self.name(), self.recall(vid)),
            Order::Unmount => {
                self.unmount();
                Event::Unmounted(self.name())
            }
        }
    }

    /// When tape after tape fails in this drive, the drive is taken out of use and the tapes get their good
    /// name back.
    fn judge_drive(&mut self, event: Event) -> Event {
        match &event {
            Event::MigrationEnded(_, SessionEnd::Failed(_))
            | Event::RecallEnded(_, SessionEnd::Failed(_)) => {}
            Event::MigrationEnded(..) | Event::RecallEnded(..) => {
                self.failed_tapes.clear();
                if let Some(mounted) = &self.mounted {
                    let mut once = self.engine.rehabilitated.lock().unwrap_or_else(PoisonError::into_inner);
                    once.remove(&mounted.vid);
                }
            }
            _ => {}
        }
        if self.failed_tapes.len() < FAILED_TAPES_MAX {
            return event;
        }
        let tapes = std::mem::take(&mut self.failed_tapes);
        let names: Vec<&str> = tapes.iter().map(|(vid, _)| vid.as_str()).collect();
        let reason = format!("the tapes {} failed in it one after the other", names.join(" and "));
        tracing::error!(drive = %self.name, reason, "the drive is taken out of use until the next start");
        if self.mounted.is_some() {
            self.unmount();
        }
        for (vid, before) in tapes {
            self.rehabilitate(vid, before);
        }
        Event::DriveDown(self.name(), reason)
    }

    /// Makes a tape what it was before it failed here, unless somebody has decided otherwise meanwhile. Only
    /// once: a tape that fails in a second drive too is the one at fault.
    fn rehabilitate(&self, vid: Vid, before: TapeState) {
        let mut once = self.engine.rehabilitated.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspect = self.engine.tape(vid).is_ok_and(|record| record.state == TapeState::Suspect);
        let can_be = !matches!(before, TapeState::Labelling | TapeState::Suspect | TapeState::Disabled);
        if is_suspect && can_be && once.insert(vid) {
            let reason = format!("it failed in drive {}, as others did", self.name);
            self.engine.set_tape_aside(vid, before, &reason);
        }
    }

    /// Remembers a tape that failed in this drive for a reason that may be the drive's.
    fn note_failure(&mut self, vid: Vid, error: &SessionError) {
        let may_be_the_drive = matches!(
            error,
            SessionError::Volume(mover::VolumeError::Tape(
                TapeError::Medium { .. } | TapeError::NotLoaded { .. }
            ))
        );
        let is_known = self.failed_tapes.iter().any(|(failed, _)| *failed == vid);
        let second = self.engine.rehabilitated.lock().unwrap_or_else(PoisonError::into_inner).contains(&vid);
        if may_be_the_drive
            && !is_known
            && !second
            && let Ok(record) = self.engine.tape(vid)
        {
            self.failed_tapes.push((vid, record.state));
        }
    }

    fn begin_session(&self) {
        let mut began = self.session.began.lock().unwrap_or_else(PoisonError::into_inner);
        *began = Some(self.engine.now());
        self.session.files.store(0, Ordering::Relaxed);
        self.session.bytes.store(0, Ordering::Relaxed);
    }

    /// Sets the mounted tape aside after a failure: its run ends, what was not committed goes back to its
    /// queue.
    fn fail(&mut self, error: &SessionError) -> SessionEnd {
        if let Some(vid) = self.mounted.as_ref().map(|mounted| mounted.vid) {
            self.note_failure(vid, error);
        }
        let Some(mounted) = &mut self.mounted else { return SessionEnd::Failed(error.to_string()) };
        let vid = mounted.vid;
        mounted.failed = true;
        tracing::error!(%vid, drive = %self.name, %error, "session failed");
        let reason = truncated(&error.to_string(), 512);
        // A fault of the catalogue or pool says nothing about the tape.
        let tape_state = match error {
            SessionError::Volume(_) => TapeState::Suspect,
            SessionError::Archive(_) => TapeState::Active,
        };
        let end_of_data = self.drive.space_to_end_of_data(base::Partition::Data).ok().map(|end| end.block);
        if let Some(run) = mounted.run.take() {
            let end = Command::EndRun {
                run: run.id,
                end: RunEnd::Failed,
                tape_state,
                reason: reason.clone(),
                end_of_data,
                torn: torn_bytes(end_of_data, run.end_of_data, &mounted.volume),
            };
            if let Err(error) = self.engine.execute(end) {
                tracing::error!(%vid, %error, "the end of a failed run cannot be recorded as it was found");
                let end = Command::EndRun {
                    run: run.id,
                    end: RunEnd::Failed,
                    tape_state: TapeState::Suspect,
                    reason: reason.clone(),
                    end_of_data: None,
                    torn: base::ByteCount(0),
                };
                if let Err(error) = self.engine.execute(end) {
                    tracing::error!(%vid, %error, "a failed run stays open until the tape is mounted again");
                }
            }
        } else if tape_state == TapeState::Suspect {
            self.engine.set_tape_aside(vid, TapeState::Suspect, &reason);
        }
        self.engine.post_tape(vid);
        SessionEnd::Failed(reason)
    }
}

/// An upper bound of the bytes between the last commit and the end of data.
fn torn_bytes(end: Option<BlockAddress>, committed: BlockAddress, volume: &Volume) -> base::ByteCount {
    let blocks = end.map_or(0, |end| end.0.saturating_sub(committed.0));
    base::ByteCount(blocks.saturating_mul(u64::from(volume.block_size().bytes())))
}
