//! A drive's thread: carries out the scheduler's orders, one at a time, on the tape that it holds.

mod adopt;
mod base_on_tape;
mod clean;
mod history;
mod maintain;
mod migrate;
mod motion;
mod mounted;
mod mounting;
mod plan;
mod recall;
mod recall_order;
mod rests;
mod tape_verify;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use threads::mpsc::Receiver;

use base::{ByteCount, FailureCause, Vid};
use catalogue::TapeState;
use journal::MountKind;
use library::{DriveName, LibraryError, TapeDrive, TapeError};
use mounts::MountTracker;
use scheduler::{Event, Failure, SessionEnd};
use store::ExecuteError;

use crate::conductor::{DriveTask, Order};
use crate::room::{Session, Tape};
use crate::suspects;
use ground::ArchiveError;
use ground::Worker;

use mounted::{Mounted, MountedTape};
use rests::Rests;

pub(crate) use adopt::{give_up_run, has_skeleton, write_again};
pub(crate) use migrate::REST_USELESS;

/// Why a session on a mounted tape fails.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error(transparent)]
    Volume(#[from] mover::VolumeError),
    #[error(transparent)]
    Tape(#[from] ArchiveError),
    /// A blank tape was to be taken, and nothing that is queued for the pool can be written to it.
    #[error(
        "{vid} is not labelled: nothing of what is queued for tape pool {tape_pool} can be written to it; \
         kist why PATH tells what each file waits for"
    )]
    NothingToWrite { vid: Vid, tape_pool: String },
    /// An empty tape has no room.
    #[error(
        "drive {drive} says that only {told} fit on {vid}, which is empty; Kist uses no tape of less than \
         {}: put in a larger cartridge in its place; or, if another drive says otherwise, \
         kist tape reclaim {vid}",
        ground::SMALLEST_TAPE
    )]
    HoldsNothing { vid: Vid, drive: DriveName, told: ByteCount },
    /// The drive has just said of another one that it holds nothing.
    #[error(
        "{vid} is not labelled in drive {drive} now: it said of an empty tape that hardly anything fits on \
         it, and may say so of the next"
    )]
    DriveInDoubt { vid: Vid, drive: DriveName },
}

impl From<library::TapeError> for SessionError {
    fn from(error: library::TapeError) -> Self {
        SessionError::Volume(error.into())
    }
}

pub(crate) struct DriveThread {
    room: Arc<Tape>,
    name: DriveName,
    drive: Box<dyn TapeDrive>,
    mounted: Option<Mounted>,
    session: Arc<Session>,
    /// Keeps count of mounts, for reports.
    mounts: MountTracker,
    /// What is wrong with the drive itself.
    broken: Option<Broken>,
    /// Whether it does not encrypt when it is to.
    plain: Rests,
    /// Whether it says of empty tapes that they hold nothing.
    in_doubt: Rests,
}

/// A drive does not work.
struct Broken {
    reason: String,
    /// It says that it must be cleaned first.
    wants_cleaning: bool,
}

impl DriveThread {
    pub(crate) fn new(room: Arc<Tape>, name: DriveName, drive: Box<dyn TapeDrive>) -> Self {
        let session = room.session(name.as_str());
        let (drive, mounts) = MountTracker::follow(&room.mounts, &room.clock, drive);
        let (plain, in_doubt) = (Rests::default(), Rests::default());
        DriveThread { room, name, drive, mounted: None, session, mounts, broken: None, plain, in_doubt }
    }

    /// The thread: until no more tasks can come; then the tape is brought home in good order. `looks`:
    /// before the first one, it takes part in looking at tapes since the catalogue was restored.
    pub(crate) fn run(mut self, tasks: &Receiver<DriveTask>, looks: bool, me: &Worker) {
        self.let_cleaner_out();
        if looks {
            me.does("looking at tapes");
            let room = Arc::clone(&self.room);
            room.settler().look_at_written(&self.name, self.drive.as_mut());
        }
        if self.room.settling.wait_for_tapes() && looks {
            // An operator may have taken it out of use meanwhile: the last word is heard last.
            let _one = self.room.ordering.lock().unwrap_or_else(PoisonError::into_inner);
            let down = self.room.read(|view| view.drives_down()).unwrap_or_default();
            if !down.iter().any(|(drive, _)| drive == self.name.as_str()) {
                self.room.notifier.post(Event::DriveUp(self.name()));
            }
        }
        me.rests();
        for task in tasks {
            let order = match task {
                DriveTask::Order(order) => order,
                DriveTask::Clear(vid) => {
                    me.does("looking at a failure");
                    self.room.clear_tape(self.name.as_str(), vid);
                    me.rests();
                    continue;
                }
            };
            me.does(order.word());
            let motion = motion::SessionMotion::begin(self.drive.as_mut(), &order);
            let event = self.carry_out(order);
            motion.end(self.drive.as_mut(), &self.session);
            let event = self.judge_drive(event);
            self.room.notifier.post(event);
            self.room.notifier.backlog_changed();
            me.rests();
        }
        if self.mounted.is_some() {
            me.does(Order::Unmount.word());
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
                let end = self.ready(vid).map_or_else(|end| end, |mut tape| tape.migrate(tape_pool));
                self.count_session(MountKind::Migrate, &end);
                self.room.post_tape(vid);
                Event::MigrationEnded(self.name(), end)
            }
            Order::Recall { vid } => {
                let end = self.holding(vid).map_or_else(|end| end, |mut tape| tape.recall());
                self.count_session(MountKind::Recall, &end);
                Event::RecallEnded(self.name(), end)
            }
            Order::Maintain { vid } => {
                let end = self.ready(vid).map_or_else(|end| end, |mut tape| tape.maintain());
                self.count_session(MountKind::Maintain, &end);
                self.room.post_tape(vid);
                Event::MaintenanceEnded(self.name(), end)
            }
            Order::Clean { vid } => Event::Cleaned(self.name(), self.clean(vid)),
            Order::Unmount => {
                self.unmount();
                Event::Unmounted(self.name())
            }
        }
    }

    /// A drive that does not work goes down; a tape on which a session went well is cleared of its failures.
    fn judge_drive(&mut self, event: Event) -> Event {
        if self.broken.is_some() {
            return self.drive_broke();
        }
        match &event {
            Event::MigrationEnded(_, SessionEnd::Failed(_))
            | Event::MaintenanceEnded(_, SessionEnd::Failed(_))
            | Event::RecallEnded(_, SessionEnd::Failed(_) | SessionEnd::NoRoom) => {}
            Event::MigrationEnded(..) | Event::RecallEnded(..) | Event::MaintenanceEnded(..) => {
                self.went_well();
                // A suspect tape that gave what was asked of it is still to be tried, or set aside.
                let is_suspect = |vid| self.room.tape(vid).is_ok_and(|it| it.state == TapeState::Suspect);
                if let Some(mounted) = self.mounted.as_ref().filter(|mounted| !is_suspect(mounted.vid)) {
                    self.room.forget_failures(mounted.vid, false);
                }
            }
            _ => {}
        }
        event
    }

    /// A session in this drive went well. One that read and wrote nothing says nothing: it may only have
    /// closed what was cut short.
    fn went_well(&mut self) {
        if self.session.items.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.in_doubt.works();
        if let Some(mounted) = &self.mounted {
            self.room.tape_retries.stayed(mounted.vid);
        }
    }

    /// The drive itself does not work. Its tape, if it cannot be taken out, stays in it until the drive is
    /// tried again.
    fn drive_broke(&mut self) -> Event {
        if self.mounted.is_some() {
            self.unmount();
        }
        let broken = self.broken.take();
        if broken.as_ref().is_some_and(|broken| broken.wants_cleaning) {
            self.room.must_be_cleaned(self.name.as_str());
        }
        let reason = broken.map_or_else(String::new, |broken| broken.reason);
        tracing::error!(drive = %self.name, reason, "the drive does not work");
        Event::DriveFailed(self.name(), reason)
    }

    fn note_broken(&mut self, reason: String) {
        self.broken.get_or_insert(Broken { reason, wants_cleaning: false });
    }

    fn count_session(&mut self, kind: MountKind, end: &SessionEnd) {
        let items = self.session.items.load(Ordering::Relaxed);
        let bytes = ByteCount(self.session.bytes.load(Ordering::Relaxed));
        self.mounts.session_ended(&self.room, kind, end, items, bytes);
        if let Some(orders) = self.session.orders.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.mounts.orders(&self.room, &orders);
        }
    }

    fn begin_session(&mut self) {
        let mut began = self.session.began.lock().unwrap_or_else(PoisonError::into_inner);
        *began = Some(self.room.now());
        self.session.files.store(0, Ordering::Relaxed);
        self.session.items.store(0, Ordering::Relaxed);
        self.session.bytes.store(0, Ordering::Relaxed);
        self.mounts.session_began(&self.room);
    }

    /// Puts a tape that was opened into the drive's keeping.
    fn take(&mut self, mounted: Mounted) -> MountedTape<'_> {
        let DriveThread { room, name, drive, session, broken, mounted: slot, .. } = self;
        let tape = slot.insert(mounted);
        MountedTape { room, name, drive, session, broken, tape }
    }

    /// The tape in the drive, to work with.
    fn on_tape(&mut self) -> Option<MountedTape<'_>> {
        let DriveThread { room, name, drive, session, broken, mounted, .. } = self;
        mounted.as_mut().map(|tape| MountedTape { room, name, drive, session, broken, tape })
    }

    /// The tape of an order.
    fn holding(&mut self, vid: Vid) -> Result<MountedTape<'_>, SessionEnd> {
        let refused = format!("tape {vid} is not in drive {}", self.name);
        let tape = self.on_tape().filter(|on| on.tape.vid == vid);
        tape.ok_or_else(|| SessionEnd::Failed(refused.into()))
    }

    /// The same, unless something has failed on it in this mount, so that it may be written.
    fn ready(&mut self, vid: Vid) -> Result<MountedTape<'_>, SessionEnd> {
        let refused = format!("tape {vid} is not ready in drive {}", self.name);
        let tape = self.holding(vid)?;
        if tape.tape.failed { Err(SessionEnd::Failed(refused.into())) } else { Ok(tape) }
    }
}

/// What the scheduler is told of a tape that failed in a drive; before the tape is suspect.
fn failure_of(room: &Tape, vid: Vid, error: &SessionError) -> Failure {
    let may_be_the_drive = matches!(
        error,
        SessionError::Volume(mover::VolumeError::Tape(
            TapeError::Medium { .. } | TapeError::NotLoaded { .. }
        ))
    );
    // One that is tried again says nothing about the drive.
    let was_well = || room.tape(vid).is_ok_and(|record| record.state != TapeState::Suspect);
    Failure { suspect: may_be_the_drive && was_well(), ..error.failure() }
}

/// What follows from the failure of a session.
struct Verdict {
    failure: Failure,
    suspects_tape: bool,
}

/// Whose failure it was. A drive that has no cartridge any more that was opened in it was reset, or the
/// library began anew: that says nothing about the medium, which was read a moment ago, unless the same tape
/// drops out again and again.
fn verdict(room: &Tape, vid: Vid, error: &SessionError, was_opened: bool) -> Verdict {
    let is_gone = was_opened
        && matches!(error, SessionError::Volume(mover::VolumeError::Tape(TapeError::NotLoaded { .. })));
    if is_gone && scheduler::spares_what_dropped_out(room.tape_retries.dropped_out(vid)) {
        let failure = Failure { cause: Some(FailureCause::Path), ..error.failure() };
        return Verdict { failure, suspects_tape: false };
    }
    Verdict { failure: failure_of(room, vid, error), suspects_tape: is_the_tapes_fault(error) }
}

/// Remembers that the drive itself does not work.
fn note_drive(broken: &mut Option<Broken>, error: &SessionError) {
    let what = match error {
        SessionError::Volume(mover::VolumeError::Tape(error)) if error.is_of_the_drive() => error.to_string(),
        SessionError::Tape(ArchiveError::Library(error)) if error.is_of_the_drive() => error.to_string(),
        _ => return,
    };
    broken.get_or_insert(Broken { reason: what, wants_cleaning: error.wants_cleaning() });
}

impl SessionError {
    /// What it speaks against. Errors of the pool come with one tape or with all of them: what fails with
    /// several partners shows which, and rests longer each time. A catalogue that takes nothing comes with
    /// all, and speaks against this host.
    fn cause(&self) -> Option<FailureCause> {
        match self {
            // It reads and writes the tapes of other pools.
            error if error.is_for_want_of_encryption() => None,
            SessionError::Volume(error) => error.cause(),
            SessionError::Tape(ArchiveError::Library(error)) => error.cause(),
            SessionError::NothingToWrite { .. } | SessionError::DriveInDoubt { .. } => None,
            // The cartridge, or a drive that does not know: the next ones show which.
            SessionError::HoldsNothing { .. } => Some(FailureCause::Unknown),
            SessionError::Tape(ArchiveError::Store(error)) if !matches!(error, ExecuteError::Rejected(_)) => {
                Some(FailureCause::Host)
            }
            SessionError::Tape(_) => Some(FailureCause::Unknown),
        }
    }

    /// Whether the drive does not encrypt as it is to.
    fn is_for_want_of_encryption(&self) -> bool {
        use mover::VolumeError::Tape;
        matches!(self, SessionError::Volume(Tape(TapeError::EncryptionUnsupported { .. })))
    }

    /// Whether the drive says that it must be cleaned.
    fn wants_cleaning(&self) -> bool {
        let of_drive = |error: &TapeError| matches!(error, TapeError::CleaningNeeded { .. });
        match self {
            SessionError::Volume(mover::VolumeError::Tape(error)) => of_drive(error),
            SessionError::Tape(ArchiveError::Library(
                LibraryError::LoadFailed { source, .. } | LibraryError::UnloadFailed { source, .. },
            )) => of_drive(source),
            _ => false,
        }
    }

    /// What the scheduler is told of it.
    fn failure(&self) -> Failure {
        Failure { reason: self.to_string(), cause: self.cause(), suspect: false }
    }
}

/// Whether the tape is WORM, and was to be written.
fn is_worm(error: &SessionError) -> bool {
    matches!(error, SessionError::Volume(mover::VolumeError::Tape(TapeError::Worm { .. })))
}

/// Whether a write to the tape failed.
fn is_of_a_write(error: &SessionError) -> bool {
    matches!(error, SessionError::Volume(mover::VolumeError::Tape(error)) if suspects::is_of_a_write(error))
}

/// Whether the tape is to be suspected for a session's error: one of the drive, the way to it, the catalogue
/// or the pool is no reason.
fn is_the_tapes_fault(error: &SessionError) -> bool {
    match error {
        SessionError::Volume(error) if error.is_of_the_key() => false,
        SessionError::Volume(mover::VolumeError::Tape(error)) if error.spares_the_medium() => false,
        SessionError::Volume(_) => scheduler::suspects_tape(error.cause()),
        SessionError::Tape(_)
        | SessionError::NothingToWrite { .. }
        | SessionError::HoldsNothing { .. }
        | SessionError::DriveInDoubt { .. } => false,
    }
}
