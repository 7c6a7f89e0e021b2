//! The state, and what each event changes in it.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, ClassId, FileId, TapePoolId, Timestamp, Vid};

use crate::chores::Failure;
use crate::drive::Drive;
use crate::migration::PoolState;
use crate::recall::RecallQueue;
use crate::seal::ClassState;
use crate::{Action, Backlog, DriveName, DriveState, Event, Policy, TapeSummary};

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

/// What is known of a tape.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tape {
    /// `None`: wanted files name it, but no event has described it.
    pub(crate) summary: Option<TapeSummary>,
    /// A session found it full; until its next event it is not written to, whatever the last one said.
    pub(crate) full: bool,
    pub(crate) drive: Option<DriveName>,
    /// Its place among the tapes in slots that can be written.
    pub(crate) listed: Option<(Option<TapePoolId>, ByteCount, u64)>,
}

impl Tape {
    pub(crate) fn is_readable(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.readable)
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
}

/// Decides what is sealed, mounted, written and read next, and says why everything else waits.
///
/// Deterministic: the same policy, events and times give the same actions. It holds at most one entry per
/// wanted file and copy (below 300 bytes for a file with two copies) and little more.
///
/// Fairness: when migration and recall both wait for a drive, they get the drives that become free in turn,
/// so of two mounts in a row one is each side's. While something waits that this drive could serve, a mounted
/// tape gets at most one session of each kind. A session is never broken off: the longest wait for a drive is
/// one session, which for a migration is one full tape. Within recall, no tape waits behind younger ones for
/// longer than [`STARVATION`](crate::STARVATION).
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) policy: Policy,
    pub(crate) classes: BTreeMap<ClassId, ClassState>,
    pub(crate) pools: BTreeMap<TapePoolId, PoolState>,
    pub(crate) tapes: BTreeMap<Vid, Tape>,
    /// Tapes in slots that can be written, by pool: the fullest first, then the least often mounted; scratch
    /// tapes by mounts alone.
    pub(crate) writable: BTreeMap<Option<TapePoolId>, BTreeSet<(ByteCount, u64, Vid)>>,
    pub(crate) drives: BTreeMap<DriveName, Drive>,
    pub(crate) recall: RecallQueue,
    pub(crate) resting: BTreeMap<(Vid, DriveName), Rest>,
    /// Whose turn it is when both sides wait for a drive.
    pub(crate) turn: Side,
    /// Tapes with work that nobody waits for, and since when.
    pub(crate) chores: BTreeMap<Vid, Timestamp>,
    /// Drives that failed.
    pub(crate) failures: BTreeMap<DriveName, Failure>,
    /// Drives that an operator takes out of use, and why.
    pub(crate) retiring: BTreeMap<DriveName, String>,
    /// The earliest tick that was asked for and has not come.
    pub(crate) wake: Option<Timestamp>,
}

impl Scheduler {
    /// A scheduler that knows no drive, tape or file yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Scheduler {
            policy,
            classes: BTreeMap::new(),
            pools: BTreeMap::new(),
            tapes: BTreeMap::new(),
            writable: BTreeMap::new(),
            drives: BTreeMap::new(),
            recall: RecallQueue::default(),
            resting: BTreeMap::new(),
            turn: Side::Recall,
            chores: BTreeMap::new(),
            failures: BTreeMap::new(),
            retiring: BTreeMap::new(),
            wake: None,
        }
    }

    /// Takes in one event and appends what is to be done now, in this order.
    ///
    /// Events that do not fit the state (a late answer from a drive that is down) are ignored. Costs a few
    /// microseconds, but time proportional to a tape's wanted files when a tape is chosen or given up.
    pub fn step(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        self.recall.expire(now);
        self.resting.retain(|_, rest| rest.until > now);
        self.revive(now);
        self.apply(now, event, actions);
        self.decide(now, actions);
    }

    /// Replaces the policy; it is looked at from the next event on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The recall session of `vid` asks which of these files it may read: those that are wanted, have a copy
    /// there that has not just failed, and that no other session has claimed. They are this session's until
    /// they are not wanted any more, their copy fails, or the session ends. All `false` if no recall session
    /// runs on `vid`.
    #[must_use]
    pub fn claim(&mut self, vid: Vid, files: &[FileId]) -> Vec<bool> {
        let drive = self.tapes.get(&vid).and_then(|tape| tape.drive.as_ref());
        let state = drive.and_then(|name| self.state(name));
        let recalling = matches!(state, Some(DriveState::Recalling { .. }));
        files.iter().map(|file| recalling && self.recall.claim(vid, *file)).collect()
    }

    /// Every drive that was ever told of, by name, and what it does.
    pub fn drives(&self) -> impl Iterator<Item = (&DriveName, &DriveState)> {
        self.drives.iter().map(|(name, drive)| (name, &drive.state))
    }

    fn apply(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::DriveUp(drive) => {
                self.failures.remove(&drive);
                self.retiring.remove(&drive);
                self.drive_up(drive);
            }
            Event::DriveDown(drive, reason) => self.drive_down(drive, reason),
            Event::DriveFailed(drive, reason) => self.drive_failed(drive, reason, now),
            Event::RetireDrive(drive, reason) => self.retire(drive, reason),
            Event::Maintain(vid, wanted) => self.maintain(vid, wanted, now),
            Event::Tape(vid, summary) => self.tape(vid, summary),
            Event::Todo(class, backlog) => self.todo(class, backlog),
            Event::Queued(tape_pool, backlog) => self.queued(tape_pool, backlog),
            Event::MigrateNow(class) => self.migrate_now(class),
            Event::SealEnded(class) => self.seal_ended(class, now),
            Event::Wanted { file, bytes, since, copies } => self.recall.want(file, bytes, since, &copies),
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
            Event::MountFailed(drive, vid, cause) => self.mount_failed(&drive, vid, cause, now),
            Event::MigrationEnded(drive, end) => {
                self.drive_proved(&drive, &end);
                self.migration_ended(&drive, end, now, actions);
            }
            Event::RecallEnded(drive, end) => {
                self.drive_proved(&drive, &end);
                self.recall_ended(&drive, end, now, actions);
            }
            Event::MaintenanceEnded(drive, end) => {
                self.drive_proved(&drive, &end);
                self.maintenance_ended(&drive, end, now, actions);
            }
            Event::Unmounted(drive) => self.unmounted(&drive),
            // The engine has used up the tick that was asked for.
            Event::Tick => self.wake = None,
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
        let tape = self.tapes.entry(vid).or_default();
        let in_slot = tape.drive.is_none();
        self.recall.set_mountable(vid, in_slot && tape.is_readable());
        let key = tape.summary.as_ref().filter(|_| in_slot && tape.is_writable()).map(|summary| {
            let free = summary.tape_pool.map_or(ByteCount(0), |_| summary.free);
            (summary.tape_pool, free, summary.mounts)
        });
        if let Some((tape_pool, free, mounts)) = std::mem::replace(&mut tape.listed, key) {
            let was = self.writable.entry(tape_pool).or_default().remove(&(free, mounts, vid));
            assert!(was, "the list of writable tapes lacks {vid}");
        }
        if let Some((tape_pool, free, mounts)) = key {
            let new = self.writable.entry(tape_pool).or_default().insert((free, mounts, vid));
            assert!(new, "tape {vid} is listed twice as writable");
        }
    }

    pub(crate) fn rest(&mut self, drive: &DriveName, vid: Vid, cause: String, now: Timestamp) {
        let until = now.plus(self.policy.retry_delay);
        self.resting.insert((vid, drive.clone()), Rest { until, cause });
    }

    pub(crate) fn rests(&self, drive: &DriveName, vid: Vid) -> bool {
        !self.resting.is_empty() && self.resting.contains_key(&(vid, drive.clone()))
    }

    fn recall_progressed(&mut self, vid: Vid) {
        let drive = self.tapes.get(&vid).and_then(|tape| tape.drive.as_ref());
        if let Some(drive) = drive.and_then(|name| self.drives.get_mut(name)) {
            drive.progress |= matches!(drive.state, DriveState::Recalling { .. });
        }
    }

    /// Checks the whole state against itself and panics if it contradicts itself. Linear in everything known,
    /// so it is for tests and for the twin, between events; transitions check what they touch by themselves.
    pub fn assert_consistent(&self) {
        for (name, drive) in &self.drives {
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
