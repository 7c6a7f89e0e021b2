//! What must hold whatever happens.

use std::collections::BTreeMap;

use base::{Duration, Vid};
use scheduler::DriveState;

use super::World;
use super::drives::Phase;
use crate::holdings::{Holdings, TapeIndex};
use crate::moment::Moment;
use scenario::model::{ClassIndex, FileNumber};

/// The whole state is checked every so many events at the beginning, and ever more seldom: a run of n events
/// is checked some log n times 16 in all.
const WHOLE_EVERY: u64 = 256;
/// Files of a class whose copies are looked up one by one at the end.
const FILES_MAX: u64 = 20_000;

/// An invariant.
#[derive(Clone, Copy)]
pub(super) enum Check {
    BoundOnWaiting,
    CleanerInOneDrive,
    CopiesAtTheEnd,
    DirtyDriveIsCleaned,
    EndsOnce,
    EvictedWithItsCopies,
    NothingForgotten,
    NothingWantedIsForgotten,
    OneCopyAPool,
    OneSessionADrive,
    OwnTapes,
    PutRefused,
    PutTooLarge,
    TapeInOneDrive,
    TheWholeState,
}

impl Check {
    const ALL: [Check; 15] = [
        Check::BoundOnWaiting,
        Check::CleanerInOneDrive,
        Check::CopiesAtTheEnd,
        Check::DirtyDriveIsCleaned,
        Check::EndsOnce,
        Check::EvictedWithItsCopies,
        Check::NothingForgotten,
        Check::NothingWantedIsForgotten,
        Check::OneCopyAPool,
        Check::OneSessionADrive,
        Check::OwnTapes,
        Check::PutRefused,
        Check::PutTooLarge,
        Check::TapeInOneDrive,
        Check::TheWholeState,
    ];

    fn name(self) -> &'static str {
        match self {
            Check::BoundOnWaiting => "bound on waiting",
            Check::CleanerInOneDrive => "cleaning cartridge in one drive",
            Check::CopiesAtTheEnd => "copies at the end",
            Check::DirtyDriveIsCleaned => "dirty drive is cleaned",
            Check::EndsOnce => "ends once",
            Check::EvictedWithItsCopies => "evicted with its copies",
            Check::NothingForgotten => "nothing forgotten",
            Check::NothingWantedIsForgotten => "nothing wanted is forgotten",
            Check::OneCopyAPool => "one copy a pool",
            Check::OneSessionADrive => "one session a drive",
            Check::OwnTapes => "own tapes",
            Check::PutRefused => "put refused: larger than the pool",
            Check::PutTooLarge => "put refused: larger than a cartridge",
            Check::TapeInOneDrive => "tape in one drive",
            Check::TheWholeState => "the whole state",
        }
    }
}

/// How often each invariant was checked.
#[derive(Default)]
pub(super) struct Checks {
    counts: [u64; Check::ALL.len()],
    each: u64,
    whole_at: u64,
    /// The level that the meter was told last: bytes in the pool, and to be written.
    pub(super) levelled: (u64, u64),
}

impl Checks {
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = Check::ALL.into_iter().zip(self.counts).filter(|(_, times)| *times > 0);
        let mut counts: Vec<_> = counts.map(|(check, times)| (check.name(), times)).collect();
        counts.push(("pool within its capacity", self.each));
        counts.push(("requests neither lost nor won", self.each));
        counts
    }
}

impl World<'_> {
    /// An invariant does not hold: the run ends.
    pub(super) fn violated(&mut self, what: String) {
        let (seed, now) = (self.seed, self.now.seconds());
        self.violation.get_or_insert_with(|| format!("seed {seed}, at {now:.6} s: {what}"));
    }

    pub(super) fn checked(&mut self, check: Check) {
        self.checks.counts[check as usize] += 1;
    }

    /// Cheap, so after each event.
    pub(super) fn check_event(&mut self) {
        self.checks.each += 1;
        let (used, capacity) = (self.cache.used(), self.model.site.pool.capacity.0);
        if used > capacity {
            self.violated(format!("the pool holds {used} bytes, more than its {capacity}"));
        }
        if self.ledger.ended() > self.ledger.begun {
            self.violated(format!("{} of {} requests have ended", self.ledger.ended(), self.ledger.begun));
        }
        if self.events >= self.checks.whole_at {
            self.checks.whole_at = self.events + (self.events / 8).max(WHOLE_EVERY);
            self.check_whole();
        }
    }

    /// A session needs its tape in its drive, and no other session there.
    pub(super) fn begins_session(&mut self, drive: usize, vid: Vid) -> bool {
        self.checked(Check::OneSessionADrive);
        let it = &self.drives[drive];
        let tape = it.tape.map(Holdings::vid);
        let holds = it.phase == Phase::Idle && tape == Some(vid);
        if !holds {
            let phase = it.phase.clone();
            self.violated(format!(
                "a session of {vid} begins in drive {drive}, which has {tape:?} and {phase:?}"
            ));
        }
        holds
    }

    /// Everything against everything.
    fn check_whole(&mut self) {
        self.checked(Check::TheWholeState);
        let waiters: u64 = self.wants.iter().map(|want| want.waiters().count() as u64).sum();
        let open = self.ledger.begun - self.ledger.ended();
        if waiters != open {
            self.violated(format!("{waiters} wait, and {open} requests have not ended"));
        }
        let bytes: u64 = self.wants.iter().map(|want| want.bytes).sum();
        if bytes != self.wants.bytes || self.room.wanted.iter().sum::<u64>() != bytes {
            self.violated(format!("{bytes} bytes are wanted, {} were counted", self.wants.bytes));
        }
        if !self.room.claims.is_consistent() {
            self.violated("room is claimed that no class has".to_owned());
        }
        for (pool, queue) in self.migration.queues.iter().enumerate() {
            let bytes: u64 = queue.iter().map(|at| self.migration.containers[*at as usize].bytes).sum();
            if bytes != self.migration.queued[pool] {
                let told = self.migration.queued[pool];
                return self
                    .violated(format!("{bytes} bytes are queued for pool {pool}, {told} were counted"));
            }
        }
        self.check_drives();
        self.check_cleaning();
        if self.is_up {
            self.scheduler.assert_consistent();
            self.check_known();
        }
    }

    fn check_drives(&mut self) {
        let mut held: BTreeMap<TapeIndex, usize> = BTreeMap::new();
        for drive in 0..self.drives.len() {
            let Some(tape) = self.drives[drive].tape else { continue };
            if let Some(other) = held.insert(tape, drive) {
                return self
                    .violated(format!("tape {} is in drives {other} and {drive}", Holdings::vid(tape)));
            }
            if self.tapes[tape.0 as usize].drive != Some(drive as u16) {
                return self.violated(format!("tape {} is not where it is", Holdings::vid(tape)));
            }
        }
        if !self.is_up {
            return;
        }
        let mut wrong = None;
        for (name, state) in self.scheduler.drives() {
            let Some(drive) = self.names.get(name).copied() else { continue };
            let phase = &self.drives[drive].phase;
            let agrees = match (state, phase) {
                (DriveState::Down { .. } | DriveState::Empty, Phase::Empty | Phase::Broken)
                | (
                    DriveState::Mounting { .. },
                    Phase::Mounting { .. } | Phase::Refusing(_) | Phase::Unmounting { .. },
                )
                | (DriveState::Idle { .. }, Phase::Idle)
                | (DriveState::Recalling { .. }, Phase::Recalling)
                | (DriveState::Migrating { .. }, Phase::Migrating)
                | (DriveState::Maintaining { .. }, Phase::Maintaining)
                | (DriveState::Unmounting { .. }, Phase::Unmounting { .. })
                | (DriveState::Cleaning { .. }, Phase::Cleaning { .. } | Phase::Refusing(_))
                // It was told down after failures, while it holds nothing.
                | (DriveState::Down { .. }, Phase::Refusing(_)) => true,
                _ => false,
            };
            if !agrees {
                wrong = Some(format!("drive {name} is '{state}' to the scheduler, and does {phase:?}"));
            }
        }
        wrong.into_iter().for_each(|what| self.violated(what));
    }

    /// The scheduler knows of all that is wanted.
    fn check_known(&mut self) {
        self.checked(Check::NothingWantedIsForgotten);
        let known = self.scheduler.files_wanted() as u64;
        if known > self.admitted {
            let told = self.admitted;
            return self.violated(format!("the scheduler wants {known} files, where {told} are wanted"));
        }
        let now = self.now.timestamp();
        let stride = (self.wants.len() / 1_000).max(1);
        let mut lost = None;
        for want in self.wants.iter().step_by(stride).filter(|want| want.admitted.is_some()) {
            if self.scheduler.why_recalling(want.file, now).is_none() {
                lost = Some(FileNumber::of(want.file));
            }
        }
        if let Some(file) = lost {
            let class = file.class.0;
            self.violated(format!("file {} of class {class} is wanted, and forgotten", file.sequence));
        }
    }

    /// A session of a recall begins: nobody has waited for it longer than the scheduler promises. Where
    /// something failed or the pool had no room nothing is promised.
    pub(super) fn check_bound(&mut self, drive: usize) {
        let Some(tape) = self.drives[drive].tape else { return };
        let foreign = &self.model.foreign;
        let is_foreign = foreign.queue_limit > 0 || foreign.spans;
        if !self.model.faults.is_empty() || self.room_lacked || is_foreign {
            return;
        }
        let policy = &self.model.policy;
        let library = self.drives[drive].library;
        let drives = self.drives.iter().filter(|it| it.library == library).count();
        let kept = policy.migration.drives_min
            + policy.shares.values().map(|share| share.drives_min).sum::<usize>()
            + policy.tape_pools.values().map(|pool| pool.drives_min).sum::<usize>();
        let most = policy.recall.drives_max.min(policy.mounts_at_once_max);
        let most = policy.shares.values().map(|share| share.drives_max).fold(most, usize::min);
        let usable = drives.saturating_sub(kept).min(most);
        if usable == 0 {
            return;
        }
        self.clear_wanted(tape);
        let wanted = &self.tapes[tape.0 as usize].wanted;
        let oldest = wanted.iter().filter_map(|file| self.wants.get(*file)?.admitted).min();
        let Some(oldest) = oldest else { return };
        let waited = self.now.since(oldest);
        let least = policy.starvation.max(policy.recall_age) + Duration::from_secs(60);
        if waited <= least {
            return;
        }
        let others = self.tapes.iter().filter(|state| !state.wanted.is_empty()).count() as u32;
        let rounds = (2 * (others + self.mounted_since())).div_ceil(usable as u32) + 1;
        let one = self.mount_max + self.unmount_max + 2 * self.session_max.max(scheduler::JOIN_MAX);
        let bound = least + rounds * one;
        if waited > bound {
            let vid = Holdings::vid(tape);
            self.violated(format!("{vid} was waited for {waited:?}, and at most {bound:?} is promised"));
        }
    }

    /// Tapes that may have stood before this one and are done with.
    fn mounted_since(&self) -> u32 {
        self.tapes.iter().filter(|state| state.mounts > 0).count() as u32
    }

    /// At the end: nothing is left over, and every file that was put has its copies.
    pub(super) fn check_end(&mut self, is_drained: bool) {
        if self.violation.is_some() {
            return;
        }
        self.check_whole();
        self.checked(Check::CopiesAtTheEnd);
        for class in 0..self.model.site.classes.len() {
            let todo = &self.migration.todo[class];
            let put = todo.safe.count;
            let wrong = todo.written.iter().any(|written| written.count < put);
            if wrong {
                self.violated(format!("files of class {class} count as safe and lack copies"));
            }
            self.check_copies(class, is_drained);
        }
        if is_drained && self.ledger.begun != self.ledger.ended() {
            let open = self.ledger.begun - self.ledger.ended();
            self.violated(format!("{open} requests never ended"));
        }
    }

    /// Files that were put in this run have one copy in each pool of their class, unless tapes were lost.
    fn check_copies(&mut self, class: usize, is_drained: bool) {
        let index = ClassIndex(class as u16);
        let (begin, end) = (self.migration.todo[class].begin, self.holdings.files(index));
        let copies = self.model.site.classes[class].copies.clone();
        let stride = ((end - begin) / FILES_MAX).max(1);
        let has_lost = self.migration.lost > 0 || self.tapes.iter().any(|state| state.is_unreadable);
        let mut sequence = begin;
        while sequence < end && self.violation.is_none() {
            let file = FileNumber { class: index, sequence };
            let places = self.holdings.copies(file);
            let is_safe = self.migration.todo[class].safe.get(sequence);
            for pool in &copies {
                let tapes = self.holdings.tapes();
                let here = places
                    .iter()
                    .filter(|place| tapes[place.tape.0 as usize].tape_pool == Some(*pool))
                    .count();
                let lacks = here == 0 && is_safe && !has_lost;
                if here > 1 || lacks {
                    self.violated(format!(
                        "file {sequence} of class {class} has {here} copies in pool {pool}"
                    ));
                }
            }
            let was_taken = !copies.is_empty() && self.cache.contains(file);
            if is_drained && !is_safe && was_taken {
                self.violated(format!("file {sequence} of class {class} has not all its copies at the end"));
            }
            sequence += stride;
        }
    }

    /// When the run ends at the latest.
    #[must_use]
    pub fn end(&self) -> Moment {
        self.end
    }
}
