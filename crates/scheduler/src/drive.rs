//! The tape drives: what each does, and how it goes from one state to the next.

use std::fmt;

use base::{ShareId, TapePoolId, Timestamp, Vid};

use crate::maintenance::NOTHING_DONE;
use crate::recall::JOIN_MAX;
use crate::scheduler::{Scheduler, Side};
use crate::{Action, DriveName, Failure, SessionEnd};

/// What a tape is mounted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To be written: containers of this tape pool.
    Migration(TapePoolId),
    /// To be read: wanted files.
    Recall,
    /// For work that nobody waits for.
    Maintenance,
}

/// What a tape drive does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveState {
    /// It must not be used.
    Down {
        /// Why, for people.
        reason: String,
    },
    /// It may be used and holds no tape.
    Empty,
    /// A tape is on its way into it, or its label is being checked.
    Mounting {
        /// The tape.
        vid: Vid,
        /// What for.
        purpose: Purpose,
    },
    /// It holds a tape and does nothing.
    Idle {
        /// The tape.
        vid: Vid,
        /// Since when.
        since: Timestamp,
    },
    /// It writes.
    Migrating {
        /// The tape.
        vid: Vid,
        /// The pool whose containers are written.
        tape_pool: TapePoolId,
        /// Since when.
        since: Timestamp,
    },
    /// It reads.
    Recalling {
        /// The tape.
        vid: Vid,
        /// Since when.
        since: Timestamp,
    },
    /// It checks or copies what nobody waits for.
    Maintaining {
        /// The tape.
        vid: Vid,
        /// Since when.
        since: Timestamp,
    },
    /// The tape is on its way to its slot, or its indexes are being written.
    Unmounting {
        /// The tape.
        vid: Vid,
    },
    /// A cleaning cartridge is in it, or on its way in or out.
    Cleaning {
        /// The cleaning cartridge.
        vid: Vid,
        /// Since when.
        since: Timestamp,
    },
}

impl DriveState {
    /// The tape in the drive or on its way in or out; a cleaning cartridge is none.
    #[must_use]
    pub fn vid(&self) -> Option<Vid> {
        match self {
            DriveState::Down { .. } | DriveState::Empty | DriveState::Cleaning { .. } => None,
            DriveState::Mounting { vid, .. }
            | DriveState::Idle { vid, .. }
            | DriveState::Migrating { vid, .. }
            | DriveState::Recalling { vid, .. }
            | DriveState::Maintaining { vid, .. }
            | DriveState::Unmounting { vid } => Some(*vid),
        }
    }
}

impl fmt::Display for DriveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveState::Down { reason } => write!(f, "down: {reason}"),
            DriveState::Empty => write!(f, "empty"),
            DriveState::Mounting { vid, purpose: Purpose::Recall } => write!(f, "mounting {vid} to read"),
            DriveState::Mounting { vid, purpose: Purpose::Migration(_) } => {
                write!(f, "mounting {vid} to write")
            }
            DriveState::Mounting { vid, purpose: Purpose::Maintenance } => {
                write!(f, "mounting {vid} to check it")
            }
            DriveState::Maintaining { vid, since } => write!(f, "checking {vid} since {since}"),
            DriveState::Idle { vid, since } => write!(f, "idle with {vid} since {since}"),
            DriveState::Migrating { vid, since, .. } => write!(f, "writing {vid} since {since}"),
            DriveState::Recalling { vid, since } => write!(f, "reading {vid} since {since}"),
            DriveState::Unmounting { vid } => write!(f, "unmounting {vid}"),
            DriveState::Cleaning { vid, since } => write!(f, "being cleaned with {vid} since {since}"),
        }
    }
}

/// A drive and what was done with the tape in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Drive {
    pub(crate) state: DriveState,
    /// What the tape was mounted for.
    pub(crate) mounted_for: Side,
    /// Whether the tape has had a session of this kind since it was mounted.
    pub(crate) migrated: bool,
    /// The same for reading.
    pub(crate) recalled: bool,
    /// The kind of the last session.
    pub(crate) last: Option<Side>,
    /// Whether the running session has got anything done.
    pub(crate) progress: bool,
    /// Its idle tape is unmounted as soon as a robot is free.
    pub(crate) leaves: bool,
    /// On whose behalf it is used.
    pub(crate) share: ShareId,
    /// Who wanted how many bytes from the tape when that began.
    pub(crate) parts: Vec<(ShareId, u64)>,
    /// Until when its time is charged.
    pub(crate) charged: Timestamp,
    /// Since when its tape is on its way, if it is mounting or unmounting one.
    pub(crate) moves_since: Timestamp,
}

impl Drive {
    fn new(state: DriveState) -> Self {
        Drive {
            state,
            mounted_for: Side::Recall,
            migrated: false,
            recalled: false,
            last: None,
            progress: false,
            leaves: false,
            share: ShareId(0),
            parts: Vec::new(),
            charged: Timestamp(0),
            moves_since: Timestamp(0),
        }
    }
}

impl Scheduler {
    pub(crate) fn drive_up(&mut self, name: DriveName) {
        let drive = self.drives.entry(name).or_insert_with(|| Drive::new(DriveState::Empty));
        if matches!(drive.state, DriveState::Down { .. }) {
            drive.state = DriveState::Empty;
        }
        self.recount_libraries();
    }

    pub(crate) fn drive_down(&mut self, name: DriveName, reason: String) {
        let old = self.drives.insert(name.clone(), Drive::new(DriveState::Down { reason }));
        if let Some(vid) = old.and_then(|drive| drive.state.vid()) {
            self.take_out_of(&name, vid);
        }
        self.recount_libraries();
    }

    /// Orders a mount on behalf of a share.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is another thing, and one place calls it for each purpose"
    )]
    pub(crate) fn mount(
        &mut self,
        name: &DriveName,
        vid: Vid,
        purpose: Purpose,
        share: ShareId,
        assign: Option<TapePoolId>,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        assert_eq!(self.state(name), Some(&DriveState::Empty), "a mount needs an empty drive");
        self.put_into(name, vid);
        let mounted_for = match purpose {
            Purpose::Migration(_) => Side::Migration,
            Purpose::Recall | Purpose::Maintenance => Side::Recall,
        };
        let drive = Drive::new(DriveState::Mounting { vid, purpose });
        let parts = self.parts(vid, purpose == Purpose::Recall);
        self.drives.insert(
            name.clone(),
            Drive { mounted_for, share, parts, charged: now, moves_since: now, ..drive },
        );
        if purpose == Purpose::Recall {
            self.recall.open(vid, Timestamp(i64::MAX));
        }
        actions.push(Action::Mount { drive: name.clone(), vid, assign });
    }

    /// Who is charged for a drive with this tape; nobody but the share it is used for if it is not read.
    fn parts(&self, vid: Vid, read: bool) -> Vec<(ShareId, u64)> {
        if read { self.recall.parts(vid).into_iter().collect() } else { Vec::new() }
    }

    pub(crate) fn mounted(&mut self, name: &DriveName, vid: Vid, now: Timestamp) {
        match self.state(name) {
            Some(DriveState::Mounting { vid: ordered, purpose }) if *ordered == vid => {
                if let Purpose::Migration(tape_pool) = *purpose {
                    // A scratch tape is the pool's from now on, also if its own event comes later.
                    if let Some(summary) = self.tapes.get_mut(&vid).and_then(|tape| tape.summary.as_mut()) {
                        summary.tape_pool.get_or_insert(tape_pool);
                    }
                }
            }
            // A tape that was in the drive before we began.
            Some(DriveState::Empty) if self.tapes.get(&vid).is_none_or(|tape| tape.drive.is_none()) => {
                self.put_into(name, vid);
            }
            _ => return,
        }
        self.set_state(name, DriveState::Idle { vid, since: now });
    }

    pub(crate) fn mount_failed(&mut self, name: &DriveName, vid: Vid, failure: &Failure, now: Timestamp) {
        let expected =
            matches!(self.state(name), Some(DriveState::Mounting { vid: ordered, .. }) if *ordered == vid);
        if expected {
            self.note_host(name, vid, failure, now);
            if matches!(self.state(name), Some(DriveState::Mounting { purpose: Purpose::Maintenance, .. })) {
                self.maintenance_mount_failed(vid, failure, now);
            }
            self.set_state(name, DriveState::Empty);
            self.take_out_of(name, vid);
            self.failed_together(name, vid, failure, now);
        }
    }

    pub(crate) fn start_migration(
        &mut self,
        name: &DriveName,
        tape_pool: TapePoolId,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let share = self.policy.tape_pools.get(&tape_pool).map_or(ShareId(0), |policy| policy.share);
        let vid = self.idle_tape(name);
        self.recall.close(vid);
        self.set_state(name, DriveState::Migrating { vid, tape_pool, since: now });
        if let Some(drive) = self.drives.get_mut(name) {
            (drive.migrated, drive.last, drive.progress) = (true, Some(Side::Migration), false);
            (drive.share, drive.parts, drive.charged) = (share, Vec::new(), now);
        }
        actions.push(Action::Migrate { drive: name.clone(), vid, tape_pool });
    }

    pub(crate) fn start_recall(
        &mut self,
        name: &DriveName,
        share: ShareId,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let vid = self.idle_tape(name);
        let parts = self.parts(vid, true);
        self.recall.open(vid, now.plus(JOIN_MAX));
        assert!(self.recall.has_assigned(vid), "a recall session needs files");
        self.set_state(name, DriveState::Recalling { vid, since: now });
        if let Some(drive) = self.drives.get_mut(name) {
            (drive.recalled, drive.last, drive.progress) = (true, Some(Side::Recall), false);
            (drive.share, drive.parts, drive.charged) = (share, parts, now);
        }
        actions.push(Action::Recall { drive: name.clone(), vid });
    }

    pub(crate) fn migration_ended(
        &mut self,
        name: &DriveName,
        end: SessionEnd,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let Some(&DriveState::Migrating { vid, tape_pool, .. }) = self.state(name) else { return };
        self.judge(name, vid, &end, now);
        let progress = self.drives.get(name).is_some_and(|drive| drive.progress);
        self.set_state(name, DriveState::Idle { vid, since: now });
        let others = self.writers(tape_pool) > 0;
        let pool = self.pools.entry(tape_pool).or_default();
        let found_no_more = matches!(end, SessionEnd::Drained | SessionEnd::Idle);
        pool.enough = (others && found_no_more).then_some(pool.backlog.bytes);
        if end == SessionEnd::Idle && !others && pool.backlog.items > 0 {
            pool.unfinished = false;
            self.rest_idle(name, vid, tape_pool, now);
            self.unmount(name, actions);
            return;
        }
        if end == SessionEnd::TapeFull {
            if let Some(tape) = self.tapes.get_mut(&vid) {
                tape.full = true;
            }
            pool.unfinished = pool.backlog.items > 0;
            if self.recall.waiting(vid).is_none() {
                self.unmount(name, actions);
            }
        } else {
            pool.unfinished &= !found_no_more;
            if !matches!(end, SessionEnd::Idle | SessionEnd::Failed(_)) {
                self.end_idle_rests(tape_pool);
            }
            self.session_ended(name, vid, end, progress, now, actions);
        }
    }

    pub(crate) fn recall_ended(
        &mut self,
        name: &DriveName,
        end: SessionEnd,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let Some(&DriveState::Recalling { vid, .. }) = self.state(name) else { return };
        self.judge(name, vid, &end, now);
        let progress = self.drives.get(name).is_some_and(|drive| drive.progress);
        self.recall.close(vid);
        self.set_state(name, DriveState::Idle { vid, since: now });
        self.session_ended(name, vid, end, progress, now, actions);
    }

    /// A session that did not fail speaks for its drive and its tape, and one that has written for this host.
    pub(crate) fn judge(&mut self, name: &DriveName, vid: Vid, end: &SessionEnd, now: Timestamp) {
        self.host_proved(name, end);
        match end {
            SessionEnd::Failed(failure) => self.note_host(name, vid, failure, now),
            _ => {
                self.drive_proved(name);
                self.worked_together(name, vid);
            }
        }
    }

    /// A session that failed or got nothing done is not begun again at once: tape and drive part for a while.
    pub(crate) fn session_ended(
        &mut self,
        name: &DriveName,
        vid: Vid,
        end: SessionEnd,
        progress: bool,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        match end {
            SessionEnd::Failed(failure) => self.failed_together(name, vid, &failure, now),
            _ if progress => return,
            // Tape and drive did nothing wrong, the drive is free for others. But the next session might find
            // no room either, whatever is said to be free: the tape is not mounted for that again at once.
            SessionEnd::NoRoom => {
                self.no_room.insert(vid, now.plus(self.policy.retry_delay));
            }
            _ => {
                self.rest(name, vid, NOTHING_DONE.to_owned(), now);
            }
        }
        self.unmount(name, actions);
    }

    /// Unmounts an idle tape, as soon as a robot is free.
    pub(crate) fn unmount(&mut self, name: &DriveName, actions: &mut Vec<Action>) {
        let vid = self.idle_tape(name);
        self.recall.close(vid);
        let robot = self.has_robot(name);
        let now = self.recall.tapes.now;
        if let Some(drive) = self.drives.get_mut(name) {
            drive.leaves = true;
            if robot {
                drive.moves_since = now;
                drive.state = DriveState::Unmounting { vid };
                actions.push(Action::Unmount { drive: name.clone() });
            }
        }
    }

    /// Whether the drive's library can move one more tape now. A drive that is cleaned holds no robot: of the
    /// minutes that this takes a robot works for seconds, in which a mount waits within the library.
    pub(crate) fn has_robot(&self, name: &DriveName) -> bool {
        let limit = self.policy.mounts_at_once_max;
        let library = self.library_of(name);
        if let Some(census) = self.drives.census() {
            return census.moving(library) < limit;
        }
        let moving = |(name, drive): &(&DriveName, &Drive)| {
            let moves = matches!(drive.state, DriveState::Mounting { .. } | DriveState::Unmounting { .. });
            moves && self.library_of(name) == library
        };
        limit == usize::MAX || self.drives.iter().filter(moving).count() < limit
    }

    pub(crate) fn unmounted(&mut self, name: &DriveName, now: Timestamp) {
        let Some(vid) = self.state(name).and_then(DriveState::vid) else { return };
        let cool_until = now.plus(self.policy.remount_delay);
        if cool_until > now {
            self.cooling.insert(vid, cool_until);
        }
        self.drives.insert(name.clone(), Drive::new(DriveState::Empty));
        self.take_out_of(name, vid);
    }

    /// The tape of an idle drive that is not about to be unmounted.
    pub(crate) fn idle_vid(&self, name: &DriveName) -> Option<Vid> {
        let drive = self.drives.get(name)?;
        match drive.state {
            DriveState::Idle { vid, .. } if !drive.leaves => Some(vid),
            _ => None,
        }
    }

    pub(crate) fn state(&self, name: &DriveName) -> Option<&DriveState> {
        self.drives.get(name).map(|drive| &drive.state)
    }

    pub(crate) fn idle_tape(&self, name: &DriveName) -> Vid {
        let Some(&DriveState::Idle { vid, .. }) = self.state(name) else {
            panic!("drive {name} must be idle for its next session");
        };
        assert_eq!(self.tapes.get(&vid).and_then(|tape| tape.drive.as_ref()), Some(name));
        vid
    }

    pub(crate) fn set_state(&mut self, name: &DriveName, state: DriveState) {
        if let Some(drive) = self.drives.get_mut(name) {
            drive.state = state;
        }
    }

    fn put_into(&mut self, name: &DriveName, vid: Vid) {
        let tape = self.tapes.entry(vid).or_default();
        assert_eq!(tape.drive, None, "tape {vid} is in a drive already");
        tape.drive = Some(name.clone());
        self.refresh(vid);
    }

    fn take_out_of(&mut self, name: &DriveName, vid: Vid) {
        self.recall.close(vid);
        let tape = self.tapes.entry(vid).or_default();
        assert_eq!(tape.drive.as_ref(), Some(name), "tape {vid} is not in the drive it comes out of");
        tape.drive = None;
        self.refresh(vid);
    }
}
