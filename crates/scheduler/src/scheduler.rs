//! The state, and what each event changes in it.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, ClassId, FileId, LibraryId, ShareId, TapePoolId, Timestamp, Vid};

use crate::census::Drives;
use crate::cleaning::Cleaning;
use crate::failures::{Blame, DriveFailures, HostRest, Retiring};
use crate::maintenance::MaintenanceRest;
use crate::migration::PoolState;
use crate::recall::RecallQueue;
use crate::seal::ClassState;
use crate::share::Usage;
use crate::worth::TapePlace;
use crate::{Action, Backlog, DriveName, DriveState, Event, Policy, TapeSummary, WantedFile};

/// The two things a drive is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Migration,
    Recall,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Side::Migration => Side::Recall,
            Side::Recall => Side::Migration,
        }
    }
}

/// Tapes of one library and one pool; without a pool: scratch tapes.
pub(crate) type Shelf = (LibraryId, Option<TapePoolId>);

/// What is known of a tape.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tape {
    /// `None`: wanted files name it, but no event has described it.
    pub(crate) summary: Option<TapeSummary>,
    /// A session found it full; until its next event it is not written to, whatever the last one said.
    pub(crate) full: bool,
    pub(crate) drive: Option<DriveName>,
    /// Its place among the tapes in slots that can be written.
    pub(crate) listed: Option<(Shelf, ByteCount, u64)>,
}

impl Tape {
    pub(crate) fn is_readable(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.readable)
    }

    pub(crate) fn library(&self) -> LibraryId {
        self.summary.as_ref().map_or(LibraryId(0), |summary| summary.library)
    }

    pub(crate) fn is_writable(&self) -> bool {
        !self.full && self.summary.as_ref().is_some_and(|summary| summary.writable && summary.free.0 > 0)
    }
}

/// A tape and a drive that are kept apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    pub(crate) until: Timestamp,
    pub(crate) cause: String,
    /// The tape pool of which nothing could be written: more that waits for it ends the rest.
    pub(crate) idle_of: Option<TapePoolId>,
}

/// Decides what is sealed, mounted, written and read next, and says why everything else waits.
///
/// Deterministic: the same policy, events and times give the same actions. It holds at most one entry per
/// wanted file and copy (below 300 bytes for a file with two copies) and little more.
///
/// # Order
///
/// A drive that becomes free goes, first, to a side, share or pool for which drives are kept (`drives_min`)
/// and that has fewer; then, when migration and recall both wait, to each side in turn, so of two mounts in a
/// row one is each side's. Within a side what starves goes first, oldest first; then the share that has had
/// least drive time against its weight; within the share the tape with the best priority, then the one whose
/// turn comes first (the library's time a file, with ageing: `worth.rs`). A drive counts for the share on
/// whose behalf it was mounted, from the order to mount until its session has ended; its time is charged to
/// all shares that want something from the tape, in proportion. Files of a share that is at its maximum are
/// read from a tape that is mounted for another one all the same.
///
/// # The bound on waiting
///
/// A session is never broken off, and files join it during its first hour only
/// ([`JOIN_MAX`](crate::JOIN_MAX)), so it lasts at most S: that hour and one whole tape. While something
/// waits that a drive could serve, a mounted tape gets at most one session of each kind, so a drive is free
/// again after M + 2 S at most, M being a mount and an unmount. From the age of `starvation` (A) on, a tape
/// that is wanted goes before all whose oldest request is younger. Let N be the other tapes of its library
/// with older requests at that time, and D the drives of the library that are up, less those that are kept
/// for others (and at most its share's and recall's maximum, the robots and the streams). Then each of at
/// most N + 1 tapes gets a mount, at most as many mounts of migration come between, and
///
/// > a file waits at most A + (ceil(2 (N + 1) / D) + 1) (M + 2 S)
///
/// before the session that reads it begins. Failures add to it the rest of what failed and one M + 2 S each;
/// nothing is promised while no drive is up, the pool has no room, or no copy may be read.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) policy: Policy,
    pub(crate) classes: BTreeMap<ClassId, ClassState>,
    pub(crate) pools: BTreeMap<TapePoolId, PoolState>,
    pub(crate) tapes: BTreeMap<Vid, Tape>,
    /// Tapes in slots that can be written, by pool: the fullest first, then the least often mounted; scratch
    /// tapes by mounts alone.
    pub(crate) writable: BTreeMap<Shelf, BTreeSet<(ByteCount, u64, Vid)>>,
    pub(crate) drives: Drives,
    /// Where drives are, if not in library 0.
    pub(crate) drive_libraries: BTreeMap<DriveName, LibraryId>,
    /// Drives that are up, of libraries that have one.
    pub(crate) libraries_up: BTreeMap<LibraryId, usize>,
    pub(crate) recall: RecallQueue,
    pub(crate) resting: BTreeMap<(Vid, DriveName), Rest>,
    /// Whose turn it is when both sides wait for a drive.
    pub(crate) turn: Side,
    /// Tapes with work that nobody waits for, numbered in the order in which they were told.
    pub(crate) maintenance_due: BTreeMap<Vid, u64>,
    /// The number given last.
    pub(crate) maintenance_told: u64,
    /// Tapes of which that failed.
    pub(crate) maintenance_rests: BTreeMap<Vid, MaintenanceRest>,
    /// Drives that are to be cleaned.
    pub(crate) cleaning_due: BTreeMap<DriveName, Cleaning>,
    /// Cleaning cartridges that may be used, in this order.
    pub(crate) cleaners: Vec<(LibraryId, Vid)>,
    /// Drives that failed.
    pub(crate) failures: BTreeMap<DriveName, DriveFailures>,
    /// Drives that an operator takes out of use, and why.
    pub(crate) retiring: BTreeMap<DriveName, Retiring>,
    /// Which tapes failed in which drives.
    pub(crate) blame: Blame,
    /// Libraries to whose tapes this host cannot write.
    pub(crate) host_rests: BTreeMap<LibraryId, HostRest>,
    /// Tapes that are set aside after failures.
    pub(crate) asides: BTreeMap<Vid, Rest>,
    /// Tapes that were just unmounted, and until when they rest in their slots.
    pub(crate) cooling: BTreeMap<Vid, Timestamp>,
    /// Tapes from which nothing that was wanted found room in the pool, and until when they are not read.
    pub(crate) no_room: BTreeMap<Vid, Timestamp>,
    pub(crate) usage: Usage,
    /// Free bytes of the pool for all (`None`) and for shares; what is not named is not limited.
    pub(crate) space: BTreeMap<Option<ShareId>, u64>,
    /// Sessions that the pool can feed.
    pub(crate) streams: usize,
    /// The earliest tick that was asked for and has not come.
    pub(crate) wake: Option<Timestamp>,
}

impl Scheduler {
    /// A scheduler that knows no drive, tape or file yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let mut recall = RecallQueue::default();
        recall.tapes.set_policy(&policy);
        Scheduler {
            policy,
            classes: BTreeMap::new(),
            pools: BTreeMap::new(),
            tapes: BTreeMap::new(),
            writable: BTreeMap::new(),
            drives: Drives::default(),
            drive_libraries: BTreeMap::new(),
            libraries_up: BTreeMap::new(),
            recall,
            resting: BTreeMap::new(),
            turn: Side::Recall,
            maintenance_due: BTreeMap::new(),
            maintenance_told: 0,
            maintenance_rests: BTreeMap::new(),
            cleaning_due: BTreeMap::new(),
            cleaners: Vec::new(),
            failures: BTreeMap::new(),
            retiring: BTreeMap::new(),
            blame: Blame::default(),
            host_rests: BTreeMap::new(),
            asides: BTreeMap::new(),
            cooling: BTreeMap::new(),
            no_room: BTreeMap::new(),
            usage: Usage::default(),
            space: BTreeMap::new(),
            streams: usize::MAX,
            wake: None,
        }
    }

    /// Takes in one event and appends what is to be done now, in this order.
    ///
    /// Events that do not fit the state (a late answer from a drive that is down) are ignored. Costs a few
    /// microseconds, but time proportional to a tape's wanted files when a tape is chosen, given up or
    /// becomes suspect, and to the tapes when a drive comes up or goes down.
    pub fn step(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        self.take_in(now, event, actions);
        self.decide(now, actions);
    }

    /// Takes in one event and decides nothing but what cannot be left for later.
    pub(crate) fn take_in(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        self.recall.expire(now);
        self.resting.retain(|_, rest| rest.until > now);
        self.cooling.retain(|_, until| *until > now);
        self.no_room.retain(|_, until| *until > now);
        self.end_asides(now);
        self.end_host_rests(now);
        self.end_maintenance_rests(now);
        if self.changes_drives(&event) {
            self.charge(now);
        }
        self.revive(now);
        self.apply(now, event, actions);
        self.clear_tapes(actions);
    }

    /// Replaces the policy; it is looked at from the next event on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.recall.tapes.set_policy(&policy);
        self.policy = policy;
    }

    /// The recall session of `vid` asks which of these files it may read: those that are wanted, have a copy
    /// there that has not just failed, and that no other session has claimed. They are this session's until
    /// they are not wanted any more, their copy fails, or the session ends. Those that were wanted after the
    /// session's first hour are left to the next one. All `false` if no recall session runs on `vid`.
    #[must_use]
    pub fn claim(&mut self, vid: Vid, files: &[FileId]) -> Vec<bool> {
        let drive = self.tapes.get(&vid).and_then(|tape| tape.drive.as_ref());
        let state = drive.and_then(|name| self.state(name));
        let recalling = matches!(state, Some(DriveState::Recalling { .. }));
        files.iter().map(|file| recalling && self.recall.claim(vid, *file)).collect()
    }

    /// Files that are wanted now.
    #[must_use]
    pub fn files_wanted(&self) -> usize {
        self.recall.wanted.len()
    }

    /// Every drive that was ever told of, by name, and what it does.
    pub fn drives(&self) -> impl Iterator<Item = (&DriveName, &DriveState)> {
        self.drives.iter().map(|(name, drive)| (name, &drive.state))
    }

    /// Whether an event may change what a drive is used for, so that its time until now is charged.
    fn changes_drives(&self, event: &Event) -> bool {
        !matches!(
            event,
            Event::Wanted { .. }
                | Event::NotWanted(_)
                | Event::CopyFailed(..)
                | Event::Todo(..)
                | Event::Queued(..)
                | Event::Tape(..)
        )
    }

    fn apply(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::DriveUp(drive) => {
                self.failures.remove(&drive);
                self.retiring.remove(&drive);
                self.release_drive(&drive);
                self.drive_up(drive);
            }
            Event::DriveIn(drive, library) => self.drive_in(drive, library),
            Event::DriveDown(drive, reason) => {
                // Not to be used, so it is not tried again by itself either.
                self.failures.remove(&drive);
                if self.retiring.get(&drive).is_some_and(|retiring| retiring.retry.is_some()) {
                    self.retiring.remove(&drive);
                }
                self.drive_down(drive, reason);
            }
            Event::DriveFailed(drive, reason) => self.drive_failed(drive, reason, now),
            Event::RetireDrive(drive, reason) => self.retire(drive, reason),
            Event::CleanDrive(drive, due) => self.clean_drive(drive, due),
            Event::Cleaned(drive, end) => self.cleaned(&drive, end, now),
            Event::CleaningCartridges(usable) => self.cleaning_cartridges(usable),
            Event::Maintain(vid, wanted) => self.maintain(vid, wanted),
            Event::Tape(vid, summary) => self.tape(vid, summary),
            Event::Todo(class, backlog) => self.todo(class, backlog),
            Event::Queued(tape_pool, backlog) => self.queued(tape_pool, backlog),
            Event::MigrateNow(class) => {
                self.try_host_now(now);
                self.migrate_now(class, now);
            }
            Event::MigrateForRoom { classes, tape_pools } => {
                self.migrate_for_room(&classes, &tape_pools, now);
            }
            Event::SealEnded(class) => self.seal_ended(class, now),
            Event::Wanted { file, bytes, since, priority, share, copies } => {
                self.recall.want(&WantedFile { file, bytes, since, priority, share, copies });
            }
            Event::NotWanted(file) => {
                if let Some(vid) = self.recall.unwant(file) {
                    self.recall_progressed(vid);
                }
            }
            Event::CopyFailed(file, vid) => {
                let until = now.plus(self.policy.retry_delay);
                if self.recall.copy_failed(file, vid, until) {
                    self.recall_progressed(vid);
                }
            }
            Event::Mounted(drive, vid) => self.mounted(&drive, vid, now),
            Event::MountFailed(drive, vid, failure) => self.mount_failed(&drive, vid, &failure, now),
            Event::MigrationEnded(drive, end) => self.migration_ended(&drive, end, now, actions),
            Event::RecallEnded(drive, end) => self.recall_ended(&drive, end, now, actions),
            Event::MaintenanceEnded(drive, end) => self.maintenance_ended(&drive, end, now, actions),
            Event::Unmounted(drive) => self.unmounted(&drive, now),
            Event::TapeReleased(vid) => {
                self.maintenance_rests.remove(&vid);
                self.release_tape(vid);
            }
            Event::PoolSpace { share, free } => self.pool_space(share, free.0),
            Event::RoomMade => self.no_room.clear(),
            Event::Streams { max } => {
                if self.streams == 0 && max > 0 {
                    self.end_rests_of_host();
                }
                self.streams = max;
            }
            // The engine has used up the tick that was asked for.
            Event::Tick => self.wake = None,
        }
    }

    /// Where there was no room there is some: what found none may be read again.
    fn pool_space(&mut self, share: Option<ShareId>, free: u64) {
        let old = match free {
            u64::MAX => self.space.remove(&share),
            free => self.space.insert(share, free),
        };
        if old == Some(0) && free > 0 {
            self.no_room.clear();
        }
    }

    fn tape(&mut self, vid: Vid, summary: TapeSummary) {
        if !summary.readable {
            self.recall.stop_joining(vid);
        }
        let tape = self.tapes.entry(vid).or_default();
        tape.full = false;
        tape.summary = Some(summary);
        self.refresh(vid);
    }

    /// Brings what is derived from a tape's summary and place up to date.
    pub(crate) fn refresh(&mut self, vid: Vid) {
        let aside = self.asides.contains_key(&vid);
        let cool_until = self.cooling.get(&vid).copied().unwrap_or(Timestamp(i64::MIN));
        let tape = self.tapes.entry(vid).or_default();
        let (library, in_slot) = (tape.library(), tape.drive.is_none());
        let suspect = tape.summary.as_ref().is_some_and(|summary| summary.suspect);
        let available = tape.is_readable() && !aside && self.libraries_up.contains_key(&library);
        let mountable = available && in_slot;
        self.recall.place_tape(vid, TapePlace { library, suspect, available, mountable, cool_until });
        let listed = in_slot && !aside && tape.is_writable();
        let key = tape.summary.as_ref().filter(|_| listed).map(|summary| {
            let free = summary.tape_pool.map_or(ByteCount(0), |_| summary.free);
            ((library, summary.tape_pool), free, summary.mounts)
        });
        if let Some((shelf, free, mounts)) = std::mem::replace(&mut tape.listed, key) {
            let was = self.writable.entry(shelf).or_default().remove(&(free, mounts, vid));
            assert!(was, "the list of writable tapes lacks {vid}");
        }
        if let Some((shelf, free, mounts)) = key {
            let new = self.writable.entry(shelf).or_default().insert((free, mounts, vid));
            assert!(new, "tape {vid} is listed twice as writable");
        }
    }

    /// The library of a drive.
    #[must_use]
    pub fn library_of(&self, drive: &DriveName) -> LibraryId {
        self.drive_libraries.get(drive).copied().unwrap_or_default()
    }

    fn drive_in(&mut self, drive: DriveName, library: LibraryId) {
        self.drive_libraries.insert(drive, library);
        self.drives.forget_census();
        self.recount_libraries();
    }

    /// Drives came up or went down: the tapes of libraries that have the first one or none any more are in
    /// reach or out of it, and what a tape takes of its library is another part of it. Linear in the tapes,
    /// if so.
    pub(crate) fn recount_libraries(&mut self) {
        let mut up: BTreeMap<LibraryId, usize> = BTreeMap::new();
        for (name, drive) in self.drives.iter() {
            if !matches!(drive.state, DriveState::Down { .. }) {
                *up.entry(self.library_of(name)).or_default() += 1;
            }
        }
        self.recall.tapes.set_drives(&up);
        let (old, new): (BTreeSet<LibraryId>, BTreeSet<LibraryId>) =
            (self.libraries_up.keys().copied().collect(), up.keys().copied().collect());
        self.libraries_up = up;
        let changed: BTreeSet<LibraryId> = old.symmetric_difference(&new).copied().collect();
        if !changed.is_empty() {
            let tapes = self.tapes.iter().filter(|(_, tape)| changed.contains(&tape.library()));
            let tapes: Vec<Vid> = tapes.map(|(vid, _)| *vid).collect();
            tapes.into_iter().for_each(|vid| self.refresh(vid));
        }
    }

    pub(crate) fn rest(&mut self, drive: &DriveName, vid: Vid, cause: String, now: Timestamp) {
        let until = now.plus(self.policy.retry_delay);
        self.blame.of_host.remove(&(vid, drive.clone()));
        self.resting.insert((vid, drive.clone()), Rest { until, cause, idle_of: None });
    }

    pub(crate) fn rests(&self, drive: &DriveName, vid: Vid) -> bool {
        !self.resting.is_empty() && self.resting.contains_key(&(vid, drive.clone()))
    }

    fn recall_progressed(&mut self, vid: Vid) {
        if let Some(name) = self.tapes.get(&vid).and_then(|tape| tape.drive.as_ref()) {
            self.drives.note_progress(name, |state| matches!(state, DriveState::Recalling { .. }));
        }
    }

    /// Checks the whole state against itself and panics if it contradicts itself. Linear in everything known,
    /// so it is for tests and for the twin, between events; transitions check what they touch by themselves.
    pub fn assert_consistent(&self) {
        for (name, drive) in self.drives.iter() {
            if let Some(vid) = drive.state.vid() {
                let back = self.tapes.get(&vid).and_then(|tape| tape.drive.as_ref());
                assert_eq!(back, Some(name), "drive {name} holds {vid}, which is elsewhere");
            }
        }
        let held = self.drives.values().filter(|drive| drive.state.vid().is_some()).count();
        let placed = self.tapes.values().filter(|tape| tape.drive.is_some()).count();
        assert_eq!(held, placed, "a tape is in at most one drive, a drive holds at most one tape");
        for tape in self.tapes.values() {
            assert!(tape.drive.is_none() || tape.listed.is_none(), "a tape in a drive is not in its slot");
        }
        self.recall.check();
    }
}

/// Whether the oldest of a backlog has waited for `age`, or when it will have.
pub(crate) fn ripe_at(backlog: &Backlog, age: std::time::Duration) -> Option<Timestamp> {
    backlog.oldest.filter(|_| backlog.items > 0).map(|oldest| oldest.plus(age))
}
