//! Work on tapes that nobody waits for: what is to be checked, read whole into the pool, or closed, by tape.
//!
//! All of it is in memory only. What must go on after a restart is found in the catalogue again: open runs,
//! tapes that are repacked, queued copies whose bytes the pool lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use threads::MutexGuard;

use base::{BlockAddress, ByteCount, ContainerId, Timestamp, Vid};

use crate::awaited::AwaitedFiles;
use crate::mends::{DamagedPlaces, Mend, PutOff};
use crate::read_rests::ReadRests;
use crate::room::Tape;
use crate::room_for_reads::RoomForReads;
use crate::{CheckState, TapeCheck, TapeRepack};

/// Everything there is to do.
#[derive(Default)]
pub(crate) struct Maintenance {
    pub(crate) tapes: BTreeMap<Vid, TapeTasks>,
    /// Containers whose bytes are to be had from tape.
    pub(crate) mends: BTreeMap<ContainerId, Mend>,
    /// Files that wait for some of them, since no tape alone can give them.
    pub(crate) awaited: Arc<AwaitedFiles>,
    /// What is asked for again when there are fewer mends.
    pub(crate) put_off: PutOff,
    /// The last check of each tape.
    pub(crate) checks: BTreeMap<Vid, TapeCheck>,
    /// Checks that were asked for since the start.
    pub(crate) checks_asked: u64,
    pub(crate) repacks: BTreeMap<Vid, Repack>,
    /// Tapes that an operator wants reclaimed, and that wait for another one to take their history.
    pub(crate) reclaims: BTreeSet<Vid>,
    /// Tapes that could not take so much of the history: another one is asked.
    pub(crate) no_keepers: BTreeMap<Vid, ByteCount>,
    /// How often a tape was written for nothing but the history, or refused it, since the start.
    pub(crate) history_tries: u64,
    /// What drives said last of the room on tapes.
    pub(crate) room_left: BTreeMap<Vid, ByteCount>,
    /// Damaged places that are given up only when another copy is under an index: the last ones of their
    /// containers, whose bytes nothing but an image has.
    pub(crate) late: BTreeMap<ContainerId, DamagedPlaces>,
    /// By tape, the container whose reading gave way to others: next time it is read to its end.
    pub(crate) broken_off: BTreeMap<Vid, ContainerId>,
    /// Containers to be read of which the pool cannot give what it has.
    pub(crate) rests: ReadRests,
    /// Whether the pool has room for what is to be read into it.
    pub(crate) room: RoomForReads,
}

impl Maintenance {
    /// Nothing is to be done yet.
    pub(crate) fn begin(awaited: Arc<AwaitedFiles>) -> Self {
        Maintenance { awaited, ..Maintenance::default() }
    }

    /// Whether anything can be done on a tape now: one is not mounted for what waits for room in the pool.
    pub(crate) fn is_due(&self, vid: Vid) -> bool {
        let has_other = self.tapes.get(&vid).is_some_and(TapeTasks::has_other_than_reads);
        has_other || self.next_read(vid).is_some()
    }

    /// Whether something is to be done on a tape that its state does not put off.
    pub(crate) fn is_urgent(&self, vid: Vid) -> bool {
        self.tapes.get(&vid).is_some_and(|tasks| tasks.recover || tasks.look)
    }

    /// The container that a tape is to give next: the first one that neither rests nor waits for room in the
    /// pool.
    pub(crate) fn next_read(&self, vid: Vid) -> Option<ContainerId> {
        let length = |container: &ContainerId| self.mends.get(container).map_or(ByteCount(0), Mend::length);
        let mut reads = self.tapes.get(&vid)?.reads.iter();
        let is_kept = |id: &ContainerId| self.rests.keeps(*id) || self.room.keeps(length(id));
        reads.find(|container| !is_kept(container)).copied()
    }

    /// The tape that a container is read from, or is to be.
    pub(crate) fn tape_that_gives(&self, container: ContainerId) -> Option<Vid> {
        let reader = self.mends.get(&container).and_then(|mend| mend.reader);
        let asked =
            || self.tapes.iter().find(|(_, tape)| tape.reads.contains(&container)).map(|(vid, _)| *vid);
        reader.or_else(asked)
    }

    /// The tapes of which containers are to be read into the pool.
    pub(crate) fn with_reads(&self) -> impl Iterator<Item = Vid> {
        self.tapes.iter().filter(|(_, tape)| !tape.reads.is_empty()).map(|(vid, _)| *vid)
    }

    /// Whether room comes by itself: containers that repacks have read, or had in the pool, are on their way
    /// to tape; or some were just written, and it was not yet tried whether there is room now.
    pub(crate) fn makes_room(&self) -> bool {
        let is_read = |container: &ContainerId| !self.mends.contains_key(container);
        let holds = |repack: &Repack| repack.under_way.keys().any(is_read);
        let wrote = |repack: &Repack| repack.progress.moved > 0 && !self.room.is_lasting();
        self.repacks.values().any(|repack| holds(repack) || wrote(repack))
    }

    /// If nothing is to be read any more, what was lacks no room either.
    pub(crate) fn forget_room_of_nothing(&mut self) {
        if self.room.short().is_some() && self.with_reads().next().is_none() {
            self.room.forget();
        }
    }
}

/// A check that is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AskedCheck {
    /// Which one: a session may be about one that was called off meanwhile.
    pub(crate) number: u64,
    /// It goes on at this block.
    pub(crate) from: BlockAddress,
}

/// What is to be done on one tape.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct TapeTasks {
    /// A session was cut short; mounting the tape closes it.
    pub(crate) recover: bool,
    pub(crate) check: Option<AskedCheck>,
    /// Containers to be read whole into the pool.
    pub(crate) reads: BTreeSet<ContainerId>,
    /// Copies that were written here in place of others, to be read back.
    pub(crate) read_back: BTreeSet<ContainerId>,
    /// Something waits for room in the pool, and what stands here under no index may leave it under one.
    pub(crate) index: bool,
    /// Change-log segments are owed to it.
    pub(crate) ship: bool,
    /// The same, though it is not written any more: another one is to be reclaimed that has them alone.
    pub(crate) keep_history: bool,
    /// It is to be looked at since the catalogue was restored; mounting it does that.
    pub(crate) look: bool,
}

impl TapeTasks {
    pub(crate) fn is_to_ship(&self) -> bool {
        self.ship || self.keep_history
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == TapeTasks::default()
    }

    fn has_other_than_reads(&self) -> bool {
        let TapeTasks { recover, check, reads: _, read_back, index, ship: _, keep_history: _, look } = self;
        *recover || check.is_some() || !read_back.is_empty() || *index || self.is_to_ship() || *look
    }
}

/// How far a repack is.
#[derive(Clone, Default, Debug)]
pub(crate) struct Repack {
    /// Where the tape's content is looked at next.
    pub(crate) from: BlockAddress,
    /// Containers on their way to other tapes.
    pub(crate) under_way: BTreeMap<ContainerId, ByteCount>,
    /// Whether the last pass over the content took anything up.
    pub(crate) moved: bool,
    pub(crate) progress: TapeRepack,
}

impl Repack {
    pub(crate) fn bytes_under_way(&self) -> ByteCount {
        ByteCount(self.under_way.values().map(|bytes| bytes.0).sum())
    }
}

impl Tape {
    pub(crate) fn maintenance(&self) -> MutexGuard<'_, Maintenance> {
        self.own.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is to be done on a tape and tells the scheduler whether anything is.
    pub(crate) fn set_tasks<T>(&self, vid: Vid, change: impl FnOnce(&mut TapeTasks) -> T) -> T {
        self.set_tasks_under(&mut self.maintenance(), vid, change)
    }

    /// The same, but nothing if a try to take the history ended after `tries`; whether it was done.
    pub(crate) fn set_tasks_as_of(&self, tries: u64, vid: Vid, change: impl FnOnce(&mut TapeTasks)) -> bool {
        let mut maintenance = self.maintenance();
        let is_known = maintenance.history_tries == tries;
        if is_known {
            self.set_tasks_under(&mut maintenance, vid, change);
        }
        is_known
    }

    pub(crate) fn set_tasks_under<T>(
        &self,
        maintenance: &mut Maintenance,
        vid: Vid,
        change: impl FnOnce(&mut TapeTasks) -> T,
    ) -> T {
        let before = self.is_due(maintenance, vid);
        let tape = maintenance.tapes.entry(vid).or_default();
        let result = change(tape);
        if tape.is_empty() {
            maintenance.tapes.remove(&vid);
        }
        let after = self.is_due(maintenance, vid);
        maintenance.forget_room_of_nothing();
        // Told under the lock, so that the last word is the last change.
        if after || before {
            self.notifier.maintain(vid, after);
        }
        result
    }

    /// Forgets what was to be done on a tape that holds nothing any more.
    pub(crate) fn forget_tasks(&self, vid: Vid) {
        if self.maintenance().tapes.contains_key(&vid) {
            self.set_tasks(vid, |tasks| *tasks = TapeTasks::default());
        }
        let mut maintenance = self.maintenance();
        maintenance.broken_off.remove(&vid);
        maintenance.no_keepers.remove(&vid);
        maintenance.room_left.remove(&vid);
    }

    /// Notes damage that a check found.
    pub(crate) fn note_check(&self, vid: Vid, change: impl FnOnce(&mut TapeCheck)) {
        if let Some(check) = self.maintenance().checks.get_mut(&vid) {
            change(check);
        }
    }
}

impl TapeCheck {
    /// A check that was asked for now.
    pub(crate) fn asked(vid: Vid, now: Timestamp, containers: u64, bytes: ByteCount) -> Self {
        TapeCheck {
            vid,
            state: CheckState::Waiting,
            reason: String::new(),
            asked: now,
            began: None,
            ended: None,
            containers,
            containers_checked: 0,
            bytes,
            bytes_checked: ByteCount(0),
            busy: base::Duration::ZERO,
            indexes: 0,
            segments: 0,
            torn_blocks: 0,
            damage: Vec::new(),
            damage_count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Duration;

    use super::*;

    /// Story: a repack whose own containers held the pool was said to need somebody, and ended by itself 8 s
    /// later.
    #[test]
    fn what_a_repack_has_read_makes_room() {
        let (vid, need) = (Vid::new("KS0001").unwrap(), ByteCount(3_000_000));
        let second = |n: u64| Timestamp(0).plus(Duration::from_secs(n));
        let mut maintenance = Maintenance::default();
        let repack = |maintenance: &mut Maintenance, ids: &[u64], moved: u64| {
            let under_way = ids.iter().map(|id| (ContainerId(*id), need)).collect();
            let progress = TapeRepack { moved, ..TapeRepack::default() };
            maintenance.repacks.insert(vid, Repack { under_way, progress, ..Repack::default() });
        };
        maintenance.mends.insert(ContainerId(1), Mend::default());
        maintenance.room.found_none(need, ByteCount(0), second(0), Duration::from_secs(5));
        repack(&mut maintenance, &[1], 0);
        assert!(!maintenance.makes_room(), "others hold the room");
        repack(&mut maintenance, &[1, 2], 0);
        assert!(maintenance.makes_room(), "2 is read and goes to tape");
        repack(&mut maintenance, &[1], 1);
        assert!(maintenance.makes_room(), "one was written, and its room was not tried yet");
        maintenance.room.look(second(5), (second(5), ByteCount(0)));
        maintenance.room.found_none(need, ByteCount(0), second(6), Duration::from_secs(5));
        assert!(!maintenance.makes_room(), "that was not enough");
    }
}
