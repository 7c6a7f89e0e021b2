//! Containers whose bytes are to be had from tape: which tape gives each, one at a time, and what was read so
//! far.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlobDescription, BlockAddress, ByteCount, ContainerId, Vid};
use catalogue::TapeState;

use crate::maintenance::Maintenance;
use crate::room::Tape;
use ground::ArchiveError;

/// Containers that wait to be read whole from tapes; more are asked for again later.
pub(crate) const MENDS_MAX: usize = 10_000;
/// When no more than so many wait, those are: not one by one.
const MENDS_ASKED_AGAIN: usize = MENDS_MAX - MENDS_MAX / 10;

/// Places of a container's copies that are damaged, and how.
pub(crate) type DamagedPlaces = BTreeMap<(Vid, BlockAddress), String>;

/// Whether the bytes of a container come from tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FromTape {
    /// They are read as soon as a drive has time for that.
    Asked,
    /// Too many others are to be read: whoever wants them asks again.
    Later,
    /// No tape can give them, as far as is known.
    Nowhere,
}

/// Which tape is to give a container.
enum PlannedRead {
    From(Vid),
    /// It was read, and is being recorded.
    Settling,
    /// As [`FromTape::Later`].
    Later,
    /// None; what was read of it so far is of no use then.
    Nowhere(Option<Spool>),
}

/// What found no place among the mends.
#[derive(Default)]
pub(crate) struct PutOff {
    /// Tapes whose repack takes up no more before some are done.
    pub(crate) repacks: BTreeSet<Vid>,
    /// Damaged places. Those that find no place here either are found again by the next check or recall.
    pub(crate) damaged: BTreeMap<ContainerId, DamagedPlaces>,
}

impl PutOff {
    fn is_empty(&self) -> bool {
        self.repacks.is_empty() && self.damaged.is_empty()
    }
}

/// A container whose bytes are to be had from tape.
#[derive(Clone, Default, Debug)]
pub(crate) struct Mend {
    /// How long the container is.
    length: ByteCount,
    /// Places that are known to be damaged, and how.
    pub(crate) damaged: DamagedPlaces,
    /// Places that were read.
    pub(crate) tried: BTreeSet<(Vid, BlockAddress)>,
    /// What could be read so far. If that is all of it, it waits to be recorded.
    pub(crate) spool: Option<Spool>,
    /// All of it was read, and is just being recorded: nobody is to find meanwhile that no tape is left.
    pub(crate) settling: bool,
    /// No tape can give it, as far as is known.
    pub(crate) parked: bool,
    /// The tape that it is being read from.
    pub(crate) reader: Option<Vid>,
    /// Tapes that have their turn when that one is done.
    turned_away: BTreeSet<Vid>,
    /// The tapes that repacks take it off.
    pub(crate) repack: BTreeSet<Vid>,
}

impl Mend {
    pub(crate) fn length(&self) -> ByteCount {
        self.length
    }

    /// Whether nothing is lost but what is known of its damage, if it is forgotten.
    fn is_of_no_use(&self) -> bool {
        self.parked && self.repack.is_empty() && self.spool.is_none() && self.reader.is_none()
    }

    /// The tape that is to be read next, of those that can be.
    fn next_of(&self, places: &[(Vid, BlockAddress)]) -> Option<Vid> {
        if self.spool.as_ref().is_some_and(|spool| spool.missing.is_empty()) {
            // It is only to be recorded: any tape's session does that.
            return places.first().map(|(vid, _)| *vid);
        }
        let fresh = |place: &&(Vid, BlockAddress)| !self.tried.contains(*place);
        let sound = |place: &&(Vid, BlockAddress)| fresh(place) && !self.damaged.contains_key(*place);
        // Damaged ones together may have it all, one alone has not.
        let together = self.spool.is_some() || places.iter().filter(fresh).count() > 1;
        let damaged = || places.iter().find(fresh).filter(|_| together);
        places.iter().find(sound).or_else(damaged).map(|(vid, _)| *vid)
    }
}

/// Bytes of a container in the pool that no commit names yet.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    pub(crate) blob: BlobDescription,
    /// Offset and length of what is missing.
    pub(crate) missing: Vec<(u64, u64)>,
}

impl Spool {
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|(_, length)| length).sum()
    }
}

impl Maintenance {
    /// Which tape is to give a container, of the places where it can be read. `change` adds what is known of
    /// it.
    fn plan_read(
        &mut self,
        container: ContainerId,
        length: ByteCount,
        change: impl FnOnce(&mut Mend),
        places: &[(Vid, BlockAddress)],
    ) -> PlannedRead {
        if self.mends.len() >= MENDS_MAX && !self.mends.contains_key(&container) {
            let mut mend = Mend { length, ..Mend::default() };
            change(&mut mend);
            let Some(vid) = mend.next_of(places) else { return PlannedRead::Nowhere(None) };
            if !self.forget_one_of_no_use() {
                return PlannedRead::Later;
            }
            self.mends.insert(container, mend);
            return PlannedRead::From(vid);
        }
        let mend = self.mends.entry(container).or_default();
        mend.length = length;
        change(mend);
        if mend.settling {
            return PlannedRead::Settling;
        }
        if let Some(vid) = mend.next_of(places) {
            mend.parked = false;
            return PlannedRead::From(vid);
        }
        // What is known of damage waits until another tape can be read.
        mend.parked = true;
        mend.tried.clear();
        let spool = mend.spool.take();
        if mend.damaged.is_empty() && mend.repack.is_empty() {
            // Whoever wants it asks again.
            self.mends.remove(&container);
        }
        PlannedRead::Nowhere(spool)
    }

    /// Makes place for a container that can be read, in place of one that cannot. The damage of that one is
    /// found again by the next check or recall.
    fn forget_one_of_no_use(&mut self) -> bool {
        // Of one that somebody waits for it is just being told that no tape has it all.
        let is_spare = |id: &ContainerId, mend: &Mend| mend.is_of_no_use() && !self.awaited.has(*id);
        let of_no_use = self.mends.iter().find(|(id, mend)| is_spare(id, mend)).map(|(id, _)| *id);
        of_no_use.is_some_and(|container| self.mends.remove(&container).is_some())
    }
}

impl Tape {
    /// Has a container read whole from a tape that can give it, so that a copy can be written. `change` adds
    /// what is known of it.
    pub(crate) fn want_bytes(
        &self,
        container: ContainerId,
        change: impl FnOnce(&mut Mend),
    ) -> Result<FromTape, ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else {
            self.drop_mend(container)?;
            return Ok(FromTape::Nowhere);
        };
        let places = self.places(container)?;
        let planned = self.maintenance().plan_read(container, record.length, change, &places);
        let vid = match planned {
            PlannedRead::From(vid) => vid,
            PlannedRead::Settling => return Ok(FromTape::Asked),
            PlannedRead::Later => return Ok(FromTape::Later),
            PlannedRead::Nowhere(abandoned) => {
                // Before anything that may fail: nobody waits for it in vain.
                self.fail_awaited(container)?;
                abandoned.iter().try_for_each(|spool| self.blobs.remove(&spool.blob))?;
                return Ok(FromTape::Nowhere);
            }
        };
        self.set_tasks(vid, |tasks| tasks.reads.insert(container));
        Ok(FromTape::Asked)
    }

    /// Some containers are not to be read any more: what found no place among them is asked for again.
    pub(crate) fn ask_again(&self) -> Result<(), ArchiveError> {
        let PutOff { repacks, damaged } = {
            let mut maintenance = self.maintenance();
            if maintenance.put_off.is_empty() {
                return Ok(());
            }
            // What no tape can give makes place.
            let busy = maintenance.mends.values().filter(|mend| !mend.is_of_no_use()).count();
            if busy > MENDS_ASKED_AGAIN {
                return Ok(());
            }
            std::mem::take(&mut maintenance.put_off)
        };
        for (container, places) in damaged {
            for ((vid, block), reason) in places {
                self.copy_damaged(container, vid, block, &reason)?;
            }
        }
        repacks.into_iter().try_for_each(|vid| self.repack_continue(vid))
    }

    /// Lets one tape at a time give a container: of two, each would put what it read in place of what the
    /// other one did, and in the end no tape would be left to try. `false`: another one is read, and `vid`
    /// has its turn behind it.
    pub(crate) fn claim_mend(&self, container: ContainerId, vid: Vid) -> bool {
        let mut maintenance = self.maintenance();
        let Some(mend) = maintenance.mends.get_mut(&container) else { return true };
        if mend.reader.is_none_or(|reader| reader == vid) {
            mend.reader = Some(vid);
            return true;
        }
        mend.turned_away.insert(vid);
        self.set_tasks_under(&mut maintenance, vid, |tasks| tasks.reads.remove(&container));
        false
    }

    /// The tape that was read is done, or has to give way: whoever was turned away has its turn.
    pub(crate) fn release_mend(&self, container: ContainerId, vid: Vid) {
        let turned_away = match self.maintenance().mends.get_mut(&container) {
            Some(mend) if mend.reader == Some(vid) => {
                mend.reader = None;
                std::mem::take(&mut mend.turned_away)
            }
            _ => BTreeSet::new(),
        };
        for vid in turned_away {
            self.set_tasks(vid, |tasks| tasks.reads.insert(container));
        }
    }

    /// Forgets a container whose bytes are not needed any more.
    pub(crate) fn drop_mend(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let mend = self.maintenance().mends.remove(&container);
        // Who waits for it is tried again.
        self.forget_awaited(container);
        if let Some(spool) = mend.and_then(|mend| mend.spool) {
            self.blobs.remove(&spool.blob)?;
        }
        Ok(())
    }

    /// The repack of a tape was called off: of these containers, those that nobody else wants are not read
    /// from other tapes any more. One that a drive reads just now is read to its end, where the drive finds
    /// that it was called off.
    pub(crate) fn drop_mends_of_repack(
        &self,
        vid: Vid,
        containers: &[ContainerId],
    ) -> Result<(), ArchiveError> {
        let settled = self.read(|view| {
            let mut settled = BTreeSet::new();
            for container in containers {
                if view.container(*container)?.is_none_or(|record| record.is_settled()) {
                    settled.insert(*container);
                }
            }
            Ok(settled)
        })?;
        let (mut dropped, mut spools) = (BTreeSet::new(), Vec::new());
        {
            let mut maintenance = self.maintenance();
            for container in containers {
                let Some(mend) = maintenance.mends.get_mut(container) else { continue };
                if mend.reader.is_some() {
                    continue;
                }
                mend.repack.remove(&vid);
                let is_wanted = !mend.repack.is_empty() || !mend.damaged.is_empty();
                if !is_wanted && settled.contains(container) {
                    spools.extend(maintenance.mends.remove(container).and_then(|mend| mend.spool));
                    dropped.insert(*container);
                }
            }
            let mut changed = Vec::new();
            maintenance.tapes.retain(|vid, tape| {
                let before = tape.reads.len();
                tape.reads.retain(|container| !dropped.contains(container));
                if tape.reads.len() != before {
                    changed.push(*vid);
                }
                !tape.is_empty()
            });
            for vid in changed {
                self.notifier.maintain(vid, self.is_due(&maintenance, vid));
            }
            maintenance.forget_room_of_nothing();
        }
        self.own.resting.forget(&settled);
        dropped.iter().for_each(|container| self.forget_awaited(*container));
        spools.iter().try_for_each(|spool| self.blobs.remove(&spool.blob))?;
        self.ask_again()
    }

    /// A tape can be read again: containers that waited for one are looked at once more.
    pub(crate) fn retry_mends(&self) -> Result<(), ArchiveError> {
        let parked: Vec<ContainerId> = {
            let maintenance = self.maintenance();
            let is_read = |container: &ContainerId| {
                maintenance.tapes.values().any(|tape| tape.reads.contains(container))
            };
            maintenance.mends.keys().copied().filter(|container| !is_read(container)).collect()
        };
        for container in parked {
            self.want_bytes(container, |_| {})?;
        }
        Ok(())
    }

    /// A tape is suspect, disabled or gone: what it was to give is read from other tapes, or waits until one
    /// can give it. What a drive reads from it just now is read to its end.
    pub(crate) fn read_elsewhere(&self, vid: Vid) -> Result<(), ArchiveError> {
        let asked: Vec<ContainerId> = {
            let maintenance = self.maintenance();
            let is_read = |container: &ContainerId| {
                maintenance.mends.get(container).is_some_and(|mend| mend.reader == Some(vid))
            };
            let reads = maintenance.tapes.get(&vid).into_iter().flat_map(|tape| &tape.reads);
            reads.copied().filter(|container| !is_read(container)).collect()
        };
        for container in asked {
            self.set_tasks(vid, |tasks| tasks.reads.remove(&container));
            if self.want_bytes(container, |_| {})? != FromTape::Asked {
                self.repack_stuck(container)?;
            }
        }
        Ok(())
    }

    /// Where a container can be read, tapes in good state first.
    fn places(&self, container: ContainerId) -> Result<Vec<(Vid, BlockAddress)>, ArchiveError> {
        self.read(|view| {
            let Some(record) = view.container(container)? else { return Ok(Vec::new()) };
            let mut places = Vec::new();
            for (vid, block) in record.places().filter(|(vid, _)| self.libraries.holds(*vid)) {
                let Some(tape) = view.tape(vid)? else { continue };
                // It gives nothing until its key is there; then what waits is looked at once more.
                if self.key_missing(&tape).is_some() {
                    continue;
                }
                let rank = match tape.state {
                    TapeState::Active | TapeState::Full | TapeState::ReadOnly | TapeState::Repacking => 0,
                    // One that is set aside gives nothing before somebody has looked at it.
                    TapeState::Suspect if !self.is_given_up(vid, &tape) => 1,
                    _ => continue,
                };
                places.push((rank, vid, block));
            }
            places.sort_unstable();
            Ok(places.into_iter().map(|(_, vid, block)| (vid, block)).collect())
        })
    }

    /// The tapes with copies of a container that cannot be read now: disabled, set aside, or not there.
    pub(crate) fn out_of_reach(&self, container: ContainerId) -> Result<Vec<Vid>, ArchiveError> {
        let within = self.places(container)?;
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(Vec::new()) };
        let others = record.places().filter(|place| !within.iter().any(|(vid, at)| (*vid, *at) == *place));
        Ok(others.map(|(vid, _)| vid).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: with as many mends as can be planned, the next damaged container was said to be given by no
    /// tape: its repack was stuck, and a pack that stood on no other was about to be given up.
    #[test]
    fn more_than_can_be_planned_is_asked_for_again() {
        let (first, second) = (Vid::new("KS0001").unwrap(), Vid::new("KS0002").unwrap());
        let [one, other] = [first, second].map(|vid| (vid, BlockAddress(7)));
        let mut maintenance = Maintenance::default();
        let damaged = |mend: &mut Mend| drop(mend.damaged.insert(one, "unreadable".to_owned()));
        let mut plan = |id: u64, places: &[(Vid, BlockAddress)]| match maintenance.plan_read(
            ContainerId(id),
            ByteCount(9),
            damaged,
            places,
        ) {
            PlannedRead::From(vid) => (FromTape::Asked, Some(vid), maintenance.mends.len()),
            PlannedRead::Settling => unreachable!("nothing is being recorded"),
            PlannedRead::Later => (FromTape::Later, None, maintenance.mends.len()),
            PlannedRead::Nowhere(_) => (FromTape::Nowhere, None, maintenance.mends.len()),
        };
        let most = MENDS_MAX as u64;
        for id in 0..most {
            assert_eq!(plan(id, &[one, other]), (FromTape::Asked, Some(second), id as usize + 1));
        }
        assert_eq!(plan(most, &[one, other]), (FromTape::Later, None, MENDS_MAX));
        assert_eq!(plan(most, &[one]), (FromTape::Nowhere, None, MENDS_MAX), "its only place is damaged");
        assert_eq!(plan(most, &[]), (FromTape::Nowhere, None, MENDS_MAX));
        assert_eq!(
            plan(0, &[one, other]),
            (FromTape::Asked, Some(second), MENDS_MAX),
            "it is planned already"
        );
    }

    /// Story: ten thousand containers of a ruined tape, which no other has, were in the way of all others
    /// until the next start: repacks of sound tapes took up nothing, and damage of what has another copy was
    /// not mended.
    #[test]
    fn what_no_tape_can_give_makes_place() {
        let [ruined, first, second] = ["KS0001", "KS0002", "KS0003"].map(|vid| Vid::new(vid).unwrap());
        let at = |vid| (vid, BlockAddress(7));
        let mut maintenance = Maintenance::default();
        let damaged =
            |vid| move |mend: &mut Mend| drop(mend.damaged.insert(at(vid), "unreadable".to_owned()));
        let most = MENDS_MAX as u64;
        for id in 0..most {
            let planned =
                maintenance.plan_read(ContainerId(id), ByteCount(9), damaged(ruined), &[at(ruined)]);
            assert!(matches!(planned, PlannedRead::Nowhere(None)));
        }
        assert_eq!(maintenance.mends.len(), MENDS_MAX, "it is known for when another tape can be read");
        let places = [at(first), at(second)];
        for id in most..2 * most {
            let planned = maintenance.plan_read(ContainerId(id), ByteCount(9), damaged(first), &places);
            assert!(matches!(planned, PlannedRead::From(vid) if vid == second), "{id}");
            assert_eq!(maintenance.mends.len(), MENDS_MAX);
        }
        let planned = maintenance.plan_read(ContainerId(2 * most), ByteCount(9), damaged(first), &places);
        assert!(matches!(planned, PlannedRead::Later), "none that can be read is forgotten");
    }
}
