//! A drive's thread: carries out the scheduler's orders, one at a time, on the tape that it holds.

mod adopt;
mod maintain;
mod migrate;
mod motion;
mod mounting;
mod plan;
mod recall;
mod recall_order;
mod tape_verify;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use threads::mpsc::Receiver;

use base::{BlockAddress, ContainerId, RunId, TapePoolId, Vid};
use catalogue::TapeState;
use library::{DriveName, LibraryError, TapeDrive, TapeError};
use mover::{Volume, VolumeError};
use scheduler::{Culprit, Event, Failure, SessionEnd};

use crate::ArchiveError;
use crate::conductor::Order;
use crate::engine::{Engine, Session, truncated};
use crate::mount_log::{MountKind, MountTracker};
use crate::suspects;

pub(crate) use adopt::{has_skeleton, write_again};
pub(crate) use mounting::recover_torn_runs;
pub(crate) use recall_order::{RECALL_BATCH_BYTES, REPLAN_EVERY};

/// The tape in the drive, labels checked.
struct Mounted {
    vid: Vid,
    volume: Volume,
    run: Option<OpenRun>,
    /// The last call for haste that an index of this mount has answered.
    hurry_answered: i64,
    /// Whether something failed so that nothing more may be written to it in this mount.
    failed: bool,
    /// What is wrong with the newest index, if another one took its place.
    index_fault: Option<String>,
    /// Copies written in place of others that no index covers yet: then they are read back.
    unverified: Vec<ContainerId>,
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
    /// Keeps count of mounts, for reports.
    mounts: MountTracker,
    /// Tapes that failed in this drive one after the other, with nothing that went well between, and what
    /// each was before.
    failed_tapes: Vec<(Vid, TapeState)>,
    /// What is wrong with the drive itself.
    broken: Option<String>,
}

/// So many tapes that fail in one drive in a row are the drive's fault, not theirs.
const FAILED_TAPES_MAX: usize = 2;

impl DriveThread {
    pub(crate) fn new(engine: Arc<Engine>, name: DriveName, drive: Box<dyn TapeDrive>) -> Self {
        let session = engine.session(name.as_str());
        let (drive, mounts) = MountTracker::follow(&engine, drive);
        DriveThread {
            engine,
            name,
            drive,
            mounted: None,
            session,
            mounts,
            failed_tapes: Vec::new(),
            broken: None,
        }
    }

    /// The thread: until no more orders can come; then the tape is brought home in good order.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        for order in orders {
            let motion = motion::SessionMotion::begin(self.drive.as_mut(), &order);
            let event = self.carry_out(order);
            motion.end(self.drive.as_mut(), &self.session);
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
                Err(failure) => Event::MountFailed(self.name(), vid, failure),
            },
            Order::Migrate { vid, tape_pool } => {
                let end = self.migrate(vid, tape_pool);
                self.count_session(MountKind::Migrate, &end);
                self.engine.post_tape(vid);
                Event::MigrationEnded(self.name(), end)
            }
            Order::Recall { vid } => {
                let end = self.recall(vid);
                self.count_session(MountKind::Recall, &end);
                Event::RecallEnded(self.name(), end)
            }
            Order::Maintain { vid } => {
                let end = self.maintain(vid);
                self.count_session(MountKind::Maintain, &end);
                self.engine.post_tape(vid);
                Event::MaintenanceEnded(self.name(), end)
            }
            Order::Unmount => {
                self.unmount();
                Event::Unmounted(self.name())
            }
        }
    }

    /// When tape after tape fails in this drive, the drive is taken out of use and the tapes get their good
    /// name back.
    fn judge_drive(&mut self, event: Event) -> Event {
        if self.broken.is_some() {
            return self.drive_broke();
        }
        match &event {
            Event::MigrationEnded(_, SessionEnd::Failed(_))
            | Event::MaintenanceEnded(_, SessionEnd::Failed(_))
            | Event::RecallEnded(_, SessionEnd::Failed(_) | SessionEnd::NoRoom) => {}
            Event::MigrationEnded(..) | Event::RecallEnded(..) | Event::MaintenanceEnded(..) => {
                self.failed_tapes.clear();
                if let Some(mounted) = &self.mounted {
                    let mut once = self.engine.rehabilitated.lock().unwrap_or_else(PoisonError::into_inner);
                    once.remove(&mounted.vid);
                    self.engine.forget_failures(mounted.vid);
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
        tracing::error!(drive = %self.name, reason, "the drive is taken out of use for a while");
        if self.mounted.is_some() {
            self.unmount();
        }
        for (vid, before) in tapes {
            self.rehabilitate(vid, before);
        }
        Event::DriveFailed(self.name(), reason)
    }

    /// The drive itself does not work. Its tape, if it cannot be taken out, stays in it until the drive is
    /// tried again.
    fn drive_broke(&mut self) -> Event {
        if self.mounted.is_some() {
            self.unmount();
        }
        let reason = self.broken.take().unwrap_or_default();
        tracing::error!(drive = %self.name, reason, "the drive does not work");
        Event::DriveFailed(self.name(), reason)
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
            self.engine.forget_failures(vid);
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
            // One that is tried again says nothing about the drive.
            && record.state != TapeState::Suspect
        {
            self.failed_tapes.push((vid, record.state));
        }
    }

    fn count_session(&mut self, kind: MountKind, end: &SessionEnd) {
        self.mounts.session_ended(&self.engine, kind, end, &self.session);
    }

    fn begin_session(&mut self) {
        let mut began = self.session.began.lock().unwrap_or_else(PoisonError::into_inner);
        *began = Some(self.engine.now());
        self.session.files.store(0, Ordering::Relaxed);
        self.session.bytes.store(0, Ordering::Relaxed);
        self.mounts.session_began(&self.engine);
    }

    /// Sets the mounted tape aside after a failure: its run ends, what was not committed goes back to its
    /// queue.
    fn fail(&mut self, error: &SessionError) -> SessionEnd {
        if let Some(vid) = self.mounted.as_ref().map(|mounted| mounted.vid) {
            self.note_failure(vid, error);
        }
        self.note_drive(error);
        let Some(mounted) = &mut self.mounted else { return SessionEnd::Failed(error.failure()) };
        let vid = mounted.vid;
        mounted.failed = true;
        tracing::error!(%vid, drive = %self.name, %error, "session failed");
        let reason = truncated(&error.to_string(), 512);
        // The run stays open: the next mount takes over what of it is whole on tape, in whatever drive.
        if mounted.run.take().is_some() {
            self.engine.chore(vid, |chores| chores.recover = true);
        }
        if is_the_tapes_fault(error) {
            self.engine.suspect_tape(vid, &reason, is_of_a_write(error));
        }
        self.engine.post_tape(vid);
        SessionEnd::Failed(Failure { cause: reason, ..error.failure() })
    }

    /// Remembers that the drive itself does not work.
    fn note_drive(&mut self, error: &SessionError) {
        let what = match error {
            SessionError::Volume(mover::VolumeError::Tape(error @ TapeError::DriveFailed { .. })) => {
                error.to_string()
            }
            SessionError::Archive(ArchiveError::Library(error @ LibraryError::DriveFailed { .. })) => {
                error.to_string()
            }
            _ => return,
        };
        self.broken.get_or_insert(what);
    }
}

impl SessionError {
    /// What the scheduler is told of it. What the drive has read well, and is not what it should be, says
    /// nothing about the drive.
    fn failure(&self) -> Failure {
        let culprit = match self {
            SessionError::Volume(
                VolumeError::NotBlank { .. }
                | VolumeError::WrongLabel { .. }
                | VolumeError::Index { .. }
                | VolumeError::EndOfData { .. }
                | VolumeError::Path { .. }
                | VolumeError::Tape(
                    TapeError::WriteProtected { .. }
                    | TapeError::BeyondEndOfData { .. }
                    | TapeError::EndOfMedium { .. },
                ),
            )
            | SessionError::Archive(ArchiveError::Library(LibraryError::Cartridge(_))) => Culprit::Cartridge,
            SessionError::Archive(ArchiveError::NothingToWrite { .. }) => Culprit::Nobody,
            SessionError::Volume(_) | SessionError::Archive(_) => Culprit::Unknown,
        };
        Failure { cause: self.to_string(), culprit }
    }
}

/// Whether a write to the tape failed.
fn is_of_a_write(error: &SessionError) -> bool {
    matches!(error, SessionError::Volume(mover::VolumeError::Tape(error)) if suspects::is_of_a_write(error))
}

/// Whether a session's error speaks against the tape: one of the drive, the catalogue or the pool does not.
fn is_the_tapes_fault(error: &SessionError) -> bool {
    match error {
        SessionError::Volume(mover::VolumeError::Tape(
            TapeError::DriveFailed { .. } | TapeError::PositionUnknown { .. },
        )) => false,
        SessionError::Volume(_) => true,
        SessionError::Archive(_) => false,
    }
}

/// An upper bound of the bytes between the last commit and the end of data.
fn torn_bytes(end: Option<BlockAddress>, committed: BlockAddress, volume: &Volume) -> base::ByteCount {
    let blocks = end.map_or(0, |end| end.0.saturating_sub(committed.0));
    base::ByteCount(blocks.saturating_mul(u64::from(volume.block_size().bytes())))
}
