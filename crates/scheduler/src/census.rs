//! The drives, and a count of what they do that is kept until one of them changes: most events change none.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use base::{LibraryId, TapePoolId, Timestamp, Vid};

use crate::drive::Drive;
use crate::scheduler::{Scheduler, Side};
use crate::share::{Ledger, side_of};
use crate::{DriveName, DriveState, Purpose};

/// All drives by name. Whoever may change one gives up the count.
#[derive(Clone, Default, Debug)]
pub(crate) struct Drives {
    all: BTreeMap<DriveName, Drive>,
    census: Option<Census>,
}

impl Deref for Drives {
    type Target = BTreeMap<DriveName, Drive>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Drives {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.census = None;
        &mut self.all
    }
}

impl Drives {
    /// The count, if no drive has changed since it was taken.
    pub(crate) fn census(&self) -> Option<&Census> {
        self.census.as_ref()
    }

    /// What is counted has changed although no drive has.
    pub(crate) fn forget_census(&mut self) {
        self.census = None;
    }

    /// All drives, for changes of what is not counted: neither states nor shares.
    pub(crate) fn uncounted_mut(&mut self) -> impl Iterator<Item = &mut Drive> {
        self.all.values_mut()
    }

    /// A session of this drive has got something done, if it has one of this kind: nothing that is counted.
    pub(crate) fn note_progress(&mut self, name: &DriveName, is_its: impl Fn(&DriveState) -> bool) {
        if let Some(drive) = self.all.get_mut(name) {
            drive.progress |= is_its(&drive.state);
        }
    }
}

/// What the drives of one library do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LibraryCount {
    library: LibraryId,
    /// Mounts and unmounts under way.
    moving: usize,
    empty: usize,
    /// Idle tapes that are to be unmounted as soon as a robot is free.
    leaving: usize,
}

/// What all drives do.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Census {
    pub(crate) ledger: Ledger,
    libraries: Vec<LibraryCount>,
    /// Tapes in drives that do nothing and are not about to be unmounted.
    idle: Vec<Vid>,
    /// Since when each idle tape is idle, those that are to be unmounted too.
    pub(crate) idle_since: Vec<Timestamp>,
    writers: Vec<(TapePoolId, usize)>,
}

impl Census {
    /// Drives that write to a pool or are being given a tape to do so.
    pub(crate) fn writers(&self, tape_pool: TapePoolId) -> usize {
        let of = self.writers.iter().find(|(id, _)| *id == tape_pool);
        of.map_or(0, |(_, writers)| *writers)
    }

    /// Mounts and unmounts that are under way in a library.
    pub(crate) fn moving(&self, library: LibraryId) -> usize {
        let of = self.libraries.iter().find(|count| count.library == library);
        of.map_or(0, |count| count.moving)
    }

    fn library(&mut self, library: LibraryId) -> &mut LibraryCount {
        let at = self.libraries.iter().position(|count| count.library == library);
        let at = at.unwrap_or_else(|| {
            self.libraries.push(LibraryCount { library, moving: 0, empty: 0, leaving: 0 });
            self.libraries.len() - 1
        });
        &mut self.libraries[at]
    }

    fn count(&mut self, library: LibraryId, drive: &Drive) {
        if let Some(side) = side_of(&drive.state) {
            self.ledger.add(drive.share, side);
        }
        if let Some(pool) = pool_written(&drive.state) {
            match self.writers.iter_mut().find(|(id, _)| *id == pool) {
                Some((_, writers)) => *writers += 1,
                None => self.writers.push((pool, 1)),
            }
        }
        match drive.state {
            DriveState::Mounting { .. } | DriveState::Unmounting { .. } => self.library(library).moving += 1,
            DriveState::Empty => self.library(library).empty += 1,
            DriveState::Idle { vid, since } => {
                self.idle_since.push(since);
                if drive.leaves {
                    self.library(library).leaving += 1;
                } else {
                    self.idle.push(vid);
                }
            }
            _ => {}
        }
    }
}

/// The pool that a drive in this state writes to, or is being given a tape to write to.
pub(crate) fn pool_written(state: &DriveState) -> Option<TapePoolId> {
    match state {
        DriveState::Migrating { tape_pool, .. }
        | DriveState::Mounting { purpose: Purpose::Migration(tape_pool), .. } => Some(*tape_pool),
        _ => None,
    }
}

impl Scheduler {
    /// Counts what the drives do, if that has changed.
    pub(crate) fn take_census(&mut self) {
        if self.drives.census.is_none() {
            let mut census = Census::default();
            // Both are in the order of names.
            let mut libraries = self.drive_libraries.iter().peekable();
            for (name, drive) in &self.drives.all {
                while libraries.next_if(|(other, _)| *other < name).is_some() {}
                let library = libraries.next_if(|(other, _)| *other == name);
                census.count(library.map_or_else(LibraryId::default, |(_, library)| *library), drive);
            }
            self.drives.census = Some(census);
        }
    }

    /// Whether no drive can be ordered to do anything now, seen at a glance: `true` is certain, `false` means
    /// that it has to be looked at. Most events come while all drives are busy, or while nothing is worth a
    /// mount.
    ///
    /// Each part of [`Scheduler::decide`] that orders something for a drive needs an empty drive and a robot,
    /// or an idle drive; and of these, something that is due, or that the idle tape has work of its own.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        let Some(census) = self.drives.census() else { return false };
        if !self.retiring.is_empty() || self.may_clean(now) {
            return false;
        }
        let limit = self.policy.mounts_at_once_max;
        let with_robot = || census.libraries.iter().filter(|count| count.moving < limit);
        if with_robot().any(|count| count.leaving > 0) {
            return false;
        }
        if census.idle.is_empty() && with_robot().all(|count| count.empty == 0) {
            return true;
        }
        self.maintenance_due.is_empty() && !self.is_anything_due(now, &census.ledger) && {
            census.idle_since.iter().all(|since| since.plus(self.policy.dismount_delay) > now)
                && census.idle.iter().all(|vid| !self.leaves_at_once(*vid) && self.recall.is_unwanted(*vid))
                && census.idle.iter().all(|vid| self.migration_to(*vid).is_none())
        }
    }

    /// Whether a tape is worth a mount, whichever drive might take it, or a pool is to be written.
    fn is_anything_due(&self, now: Timestamp, ledger: &Ledger) -> bool {
        self.may_recall(now, ledger)
            || self.pools.iter().any(|(id, state)| state.backlog.items > 0 && self.pool_due(*id, now))
    }

    /// Whether recall may have one more drive, the pool has room, and some tape is worth a mount or starves.
    pub(crate) fn may_recall(&self, now: Timestamp, ledger: &Ledger) -> bool {
        self.may_side(Side::Recall, ledger)
            && self.lacks(None, false).is_none()
            && !self.recall.tapes.nothing_due(self.starved(now))
    }
}
