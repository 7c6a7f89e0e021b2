//! Work on tapes that nobody waits for: what is to be checked, read whole into the pool, or closed, by tape.
//!
//! All of it is in memory only. What must go on after a restart is found in the catalogue again: open runs,
//! tapes that are repacked, queued copies whose bytes the pool lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use threads::MutexGuard;

use base::{BlobDescription, BlobPiece, BlockAddress, ByteCount, ContainerId, FileId, Timestamp, Vid};
use catalogue::{Command, ContainerKind, ContainerRecord, CopyState, ReadError, Rejection, TapeState, View};
use ltfs::pack::SKELETON_FRAME_BYTES;

use crate::awaited::{Awaited, AwaitedFiles};
use crate::room::Tape;
use crate::room_for_reads::RoomForReads;
use crate::{CheckState, TapeCheck, TapeRepack};
use ground::ArchiveError;
use ground::truncated;

/// Containers that wait to be read whole from tapes; more are asked for again later.
const MENDS_MAX: usize = 10_000;
/// When no more than so many wait, those are: not one by one.
const MENDS_ASKED_AGAIN: usize = MENDS_MAX - MENDS_MAX / 10;
/// Members looked at together.
const MEMBERS_PAGE: usize = 1_000;
/// The data of a pack's members is filled up to records of this length.
const RECORD_BYTES: u64 = 512;

/// Places of a container's copies that are damaged, and how.
pub(crate) type DamagedPlaces = BTreeMap<(Vid, BlockAddress), String>;

/// Everything there is to do.
#[derive(Default)]
pub(crate) struct Maintenance {
    pub(crate) tapes: BTreeMap<Vid, TapeTasks>,
    /// Containers whose bytes are to be had from tape.
    pub(crate) mends: BTreeMap<ContainerId, Mend>,
    /// Files that wait for some of them, since no tape alone can give them.
    pub(crate) awaited: AwaitedFiles,
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
    /// Whether the pool has room for what is to be read into it.
    pub(crate) room: RoomForReads,
}

impl Maintenance {
    /// Whether anything can be done on a tape now: one is not mounted for what waits for room in the pool.
    pub(crate) fn is_due(&self, vid: Vid) -> bool {
        let has_other = self.tapes.get(&vid).is_some_and(TapeTasks::has_other_than_reads);
        has_other || self.next_read(vid).is_some()
    }

    /// Whether something is to be done on a tape that its state does not put off.
    pub(crate) fn is_urgent(&self, vid: Vid) -> bool {
        self.tapes.get(&vid).is_some_and(|tasks| tasks.recover || tasks.look)
    }

    /// The container that a tape is to give next: the first one that does not wait for room in the pool.
    pub(crate) fn next_read(&self, vid: Vid) -> Option<ContainerId> {
        let length = |container: &ContainerId| self.mends.get(container).map_or(ByteCount(0), Mend::length);
        let mut reads = self.tapes.get(&vid)?.reads.iter();
        reads.find(|container| !self.room.keeps(length(container))).copied()
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
        let of_no_use = self.mends.iter().find(|(_, mend)| mend.is_of_no_use()).map(|(id, _)| *id);
        let Some(container) = of_no_use else { return false };
        self.mends.remove(&container);
        self.forget_awaited(container);
        true
    }

    /// What was known of those who wait for a container.
    pub(crate) fn forget_awaited(&mut self, container: ContainerId) -> Vec<(FileId, Awaited)> {
        let of_it = (container, FileId(0))..=(container, FileId(u64::MAX));
        let files: Vec<FileId> = self.awaited.range(of_it).map(|((_, file), _)| *file).collect();
        let known = |file| Some((file, self.awaited.remove(&(container, file))?));
        files.into_iter().filter_map(known).collect()
    }

    /// If nothing is to be read any more, what was lacks no room either.
    fn forget_room_of_nothing(&mut self) {
        if self.room.short().is_some() && self.with_reads().next().is_none() {
            self.room.forget();
        }
    }
}

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
    damaged: BTreeMap<ContainerId, DamagedPlaces>,
}

impl PutOff {
    fn is_empty(&self) -> bool {
        self.repacks.is_empty() && self.damaged.is_empty()
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

    fn is_empty(&self) -> bool {
        *self == TapeTasks::default()
    }

    fn has_other_than_reads(&self) -> bool {
        let TapeTasks { recover, check, reads: _, read_back, ship: _, keep_history: _, look } = self;
        *recover || check.is_some() || !read_back.is_empty() || self.is_to_ship() || *look
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
    parked: bool,
    /// The tape that it is being read from.
    reader: Option<Vid>,
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

    fn set_tasks_under<T>(
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

    /// Whether the pool has all bytes of a container.
    pub(crate) fn has_bytes(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<bool, ArchiveError> {
        Ok(record.image.is_some() || self.has_members(container, record)?)
    }

    /// Whether the pool has all bytes of a container without an image: those of deleted members too, since
    /// all copies are equal byte for byte.
    fn has_members(&self, container: ContainerId, record: &ContainerRecord) -> Result<bool, ArchiveError> {
        let is_online = |view: &View<'_>, file| -> Result<bool, ReadError> {
            Ok(view.file(file)?.is_some_and(|file| file.is_online()))
        };
        match &record.kind {
            ContainerKind::File(file) | ContainerKind::Segment { file, .. } => {
                self.read(|view| is_online(view, *file))
            }
            ContainerKind::Pack => {
                let Some(skeleton) = &record.skeleton else { return Ok(false) };
                let mut held = skeleton.length.0.saturating_sub(SKELETON_FRAME_BYTES as u64);
                let mut after = None;
                loop {
                    let (members, online) = self.read(|view| {
                        let members = view.members(container, after, MEMBERS_PAGE)?;
                        let mut online = true;
                        for member in &members {
                            online = online && is_online(view, member.file)?;
                        }
                        Ok((members, online))
                    })?;
                    if !online {
                        return Ok(false);
                    }
                    let data = members.iter().map(|member| member.length.0.next_multiple_of(RECORD_BYTES));
                    held = held.saturating_add(data.sum());
                    let Some(last) = members.last() else { return Ok(held >= record.length.0) };
                    after = Some((last.data_offset, last.file));
                }
            }
        }
    }

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
                abandoned.iter().try_for_each(|spool| self.blobs.remove(&spool.blob))?;
                self.fail_awaited(container)?;
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
        let Some(tape) = maintenance.tapes.get_mut(&vid) else { return false };
        tape.reads.remove(&container);
        if tape.is_empty() {
            maintenance.tapes.remove(&vid);
        }
        self.notifier.maintain(vid, self.is_due(&maintenance, vid));
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
        spools.iter().try_for_each(|spool| self.blobs.remove(&spool.blob))?;
        self.ask_again()
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

    /// A container, if it still has a copy at this place.
    fn standing_at(
        &self,
        container: ContainerId,
        at: (Vid, BlockAddress),
    ) -> Result<Option<ContainerRecord>, ArchiveError> {
        let record = self.read(|view| view.container(container))?;
        Ok(record.filter(|record| record.places().any(|place| place == at)))
    }

    /// A copy was found damaged. If its bytes are in the pool it is written again at once; if another tape
    /// may have them, once they were read there. The last copy stays what it is: what can be read of it is
    /// worth more than nothing.
    pub(crate) fn copy_damaged(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let Some(record) = self.standing_at(container, (vid, block))? else { return Ok(()) };
        tracing::error!(%container, %vid, %block, reason, "a copy on tape is damaged");
        if self.has_bytes(container, &record)? || record.is_empty() {
            return self.give_up(container, vid, block, reason);
        }
        let asked = self.want_bytes(container, |mend| {
            mend.damaged.insert((vid, block), reason.to_owned());
        })?;
        match asked {
            FromTape::Asked => {}
            FromTape::Later => self.put_off_damage(container, (vid, block), reason),
            FromTape::Nowhere => {
                tracing::error!(%container, %vid, "no other copy can mend it; what can be read of it stays");
            }
        }
        Ok(())
    }

    fn put_off_damage(&self, container: ContainerId, place: (Vid, BlockAddress), reason: &str) {
        let put_off = &mut self.maintenance().put_off.damaged;
        let has_place = put_off.len() < MENDS_MAX || put_off.contains_key(&container);
        if has_place {
            put_off.entry(container).or_default().insert(place, reason.to_owned());
        }
        let (vid, asked_again) = (place.0, has_place);
        tracing::warn!(%container, %vid, asked_again, "as many copies as can be are being mended already");
    }

    /// Gives up a damaged place of a container whose bytes are in the pool. The last place is kept as long as
    /// nothing but an image has them: without a place, its members would be LOST.
    pub(crate) fn give_up(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let Some(record) = self.standing_at(container, (vid, block))? else { return Ok(()) };
        let is_last = record.places().all(|place| place == (vid, block));
        if record.is_empty() || !is_last || self.has_members(container, &record)? {
            return self.drop_spare_place(container, vid, block, reason);
        }
        tracing::warn!(%container, %vid, %block, "the last place is given up when a new copy is written");
        let mut maintenance = self.maintenance();
        if maintenance.late.len() < MENDS_MAX || maintenance.late.contains_key(&container) {
            maintenance.late.entry(container).or_default().insert((vid, block), reason.to_owned());
        }
        Ok(())
    }

    /// Gives up the image of a container, if it is still the one that could not be read, so that another is
    /// made from tape. It stays while drives of the pool may come back that have it, and while no tape has a
    /// place that is not known to be damaged: it may be the only whole copy.
    pub(crate) fn drop_bad_image(
        &self,
        container: ContainerId,
        image: BlobPiece,
    ) -> Result<(), ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(()) };
        if record.image != Some(image) || !self.upkeep.no_drive_may_come_back() {
            return Ok(());
        }
        // The tapes that the catalogue names may hold something else since a restore.
        if self.read(|view| view.is_restored())? {
            return Ok(());
        }
        let has_another = {
            let maintenance = self.maintenance();
            let late = maintenance.late.get(&container);
            let mended = maintenance.mends.get(&container).map(|mend| &mend.damaged);
            let is_damaged =
                |place| [late, mended].into_iter().flatten().any(|known| known.contains_key(&place));
            record.places().any(|place| !is_damaged(place))
        };
        if !has_another {
            tracing::error!(%container, "its image cannot be read now and is kept: no tape has it whole");
            return Ok(());
        }
        self.execute_on_container(Command::ImageLost { container, image })?;
        // It may be a part of a file that somebody waits for.
        self.members_moved(container)?;
        self.sweep.ring();
        Ok(())
    }

    /// An index was written: damaged places that waited for another copy are given up.
    pub(crate) fn give_up_late(&self) -> Result<(), ArchiveError> {
        let waiting = self.maintenance().late.clone();
        for (container, places) in waiting {
            let record = self.read(|view| view.container(container))?;
            let is_sound = |state: CopyState| {
                matches!(state, CopyState::Indexed { .. })
                    && state.place().is_some_and(|place| !places.contains_key(&place))
            };
            if record.is_some_and(|record| !record.copies.iter().any(|copy| is_sound(copy.state))) {
                continue;
            }
            self.maintenance().late.remove(&container);
            for ((vid, block), reason) in places {
                self.give_up(container, vid, block, &reason)?;
            }
        }
        Ok(())
    }

    /// Gives up a place of a container that the pool had when it was looked at, or that is to have another
    /// one. If members were evicted since, and this is the last place of all, it stays, as the last one does.
    pub(crate) fn drop_spare_place(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let why = truncated(reason, 512);
        match self.execute_on_container(Command::GiveUpPlace { container, vid, block, reason: why }) {
            Err(ArchiveError::Rejected(Rejection::WrongState { .. })) => {
                tracing::warn!(%container, %vid, %block, reason, "its bytes left the pool: it stays");
                self.want_bytes(container, |mend| {
                    mend.damaged.insert((vid, block), reason.to_owned());
                })?;
                Ok(())
            }
            done => {
                done?;
                self.place_dropped(container, vid)
            }
        }
    }

    /// Records that a place has nothing of a container, and tells of everybody who waits for it.
    pub(crate) fn drop_place(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let reason = truncated(reason, 512);
        self.execute_on_container(Command::CopyDamaged { container, vid, block, reason })?;
        self.upkeep.note_lost_members(container)?;
        self.place_dropped(container, vid)
    }

    /// Tells of everybody who waits for a place that was given up.
    pub(crate) fn place_dropped(&self, container: ContainerId, vid: Vid) -> Result<(), ArchiveError> {
        self.members_moved(container)?;
        self.notifier.backlog_changed();
        self.post_tape(vid);
        Ok(())
    }

    /// Tells of the wanted members of a container whose places changed.
    pub(crate) fn members_moved(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let (members, wanted) = self.read(|view| {
                let members = view.members(container, after, MEMBERS_PAGE)?;
                let mut wanted = Vec::new();
                for member in &members {
                    if !view.wants(member.file)?.is_empty() {
                        wanted.push(member.file);
                    }
                }
                Ok((members, wanted))
            })?;
            wanted.into_iter().for_each(|file| self.notifier.wants_changed(file));
            let Some(last) = members.last() else { return Ok(()) };
            after = Some((last.data_offset, last.file));
        }
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
