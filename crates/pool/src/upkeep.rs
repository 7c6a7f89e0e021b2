//! What keeps the drives of a pool going: probes, setting aside, taking out and putting in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{BlobId, BlobPiece, ByteCount, Clock, DriveGroup, DriveId};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain, StripeSets};
use drive::{DriveError, ObjectDrive};

use crate::config::{HUNG_AFTER, SPACE_PATIENCE};
use crate::drives::{PoolDrive, Present};
use crate::error::PoolError;
use crate::gather::{Gather, Ticket, lock};
use crate::pool::{Pool, take_up};
use crate::status::{DriveHealth, DriveSpace};

/// A superblock that was not what it should be.
#[derive(Debug)]
pub struct BadSuperblock {
    /// The drive.
    pub drive: DriveId,
    /// What was wrong.
    pub fault: DriveError,
    /// Why it was not written anew; `None` if it was.
    pub failure: Option<DriveError>,
}

impl fmt::Display for BadSuperblock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => write!(f, "{}; written anew", self.fault),
            Some(failure) => write!(f, "{}; not written anew: {failure}", self.fault),
        }
    }
}

impl Pool {
    /// Gives the pool a clock, for late reads, hung drives and probes. Without one none of these happens
    /// but that reads are made good after a fixed time.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.watch().set_clock(clock);
    }

    /// Sets drives aside that have been at one job for too long, and probes failed ones whose rest is over.
    /// To be called about once a second.
    pub fn tend(&self) {
        let (now, lost) = self.watch().begin_look();
        if let Some(lost) = lost {
            tracing::warn!(
                seconds = lost.as_secs(),
                "nobody looked at the drives of the pool for long: none is to blame for that time"
            );
            self.drives()
                .filter_map(PoolDrive::attached)
                .for_each(|present| present.device.forget_future(now));
        }
        for drive in self.drives() {
            let Some(present) = drive.attached() else { continue };
            let device = &present.device;
            // In this order: a probe ends its silence before it makes a drive that was away one that is up.
            let is_away = device.is_away();
            let silence = device.silence(now);
            if silence > HUNG_AFTER && !is_away {
                device.set_aside(format!("it has not answered for {} s", silence.as_secs()));
                present.abandon();
            }
            // A drive that is still at its job answers no probe.
            if silence <= HUNG_AFTER && device.begin_probe() {
                self.probe(&present, None);
            }
        }
    }

    /// Tries full drives on which something came free, without waiting for the next look: what an evict or a
    /// refused put has given back is room at once. Each try writes a page, and is made only if the file
    /// system has what the drive lacked. Waits a moment for what comes of it.
    pub(crate) fn try_full_drives(&self) {
        let now = self.watch().now();
        let gather = Gather::new();
        // What came free on one drive is room of all that share its file system.
        self.drives().filter_map(PoolDrive::attached).for_each(|present| present.device.forget_space());
        for present in self.drives().filter_map(PoolDrive::attached) {
            let device = &present.device;
            if device.lacked().is_some() && device.silence(now) <= HUNG_AFTER && device.begin_probe() {
                self.probe(&present, Some(gather.ticket()));
            }
        }
        gather.wait_for(SPACE_PATIENCE);
    }

    /// After [`crate::drives::Device::begin_probe`].
    fn probe(&self, present: &Present, ticket: Option<Ticket<()>>) {
        present.probe(self.shares(), self.config().widest_row(), ticket);
    }

    /// Has these drives asked for their room, of which what is known is older than a second or ceased to
    /// count, and waits a moment for their answers.
    pub(crate) fn ask_spaces(&self, drives: impl Iterator<Item = Arc<Present>>) {
        let gather = Gather::new();
        drives.for_each(|present| present.ask_space(&gather));
        gather.wait_for(SPACE_PATIENCE);
    }

    /// As [`Pool::ask_spaces`], of all drives.
    pub(crate) fn ask_all_spaces(&self) {
        self.ask_spaces(self.drives().filter_map(PoolDrive::attached));
    }

    /// Looks whether each drive still stands where it was opened and has its superblock; one that does not is
    /// set aside. Waits for nothing: a drive that hangs is found by [`Pool::tend`].
    pub fn check_places(&self) {
        for present in self.drives().filter_map(PoolDrive::present) {
            present.call_writer(Box::new(|device| {
                device.gone();
            }));
        }
    }

    /// Drives that are there and may lack what was written after a change of the catalogue, which is given:
    /// they were away, or put back from an old copy, and have not been gone through.
    #[must_use]
    pub fn drives_with_gaps(&self) -> BTreeMap<DriveId, u64> {
        let devices = self.drives().filter_map(|drive| Some((drive.id, drive.device()?)));
        devices.filter_map(|(id, device)| Some((id, device.gaps_after()?))).collect()
    }

    /// Records, durably, that a drive was gone through and has all that it should.
    ///
    /// # Errors
    /// [`PoolError::Drive`] if that cannot be written on it; [`PoolError::DriveState`] if it is not there.
    pub fn has_no_gaps(&self, id: DriveId) -> Result<(), PoolError> {
        let gather = Gather::new();
        let ticket = gather.ticket();
        let present = self.drive(id).and_then(PoolDrive::present).ok_or_else(|| not_there(id))?;
        present.call_writer(Box::new(move |device| {
            ticket.done(
                device.drive.set_gaps(None).inspect_err(|error| device.write_failed(error, ByteCount(0))),
            );
        }));
        let written = gather.wait_unless(|_| present.device.is_away()).pop();
        Ok(written.ok_or_else(|| not_there(id))??)
    }

    /// Has the reading thread of a drive look at what stands beside its extents, where a drive that hangs
    /// does not answer either; `None` if the drive is not there, or is set aside meanwhile.
    pub fn on_thread_of<T: Send + 'static>(
        &self,
        id: DriveId,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.drive(id).and_then(PoolDrive::present)?.ask_reader(move |_| look())
    }

    /// Probes a drive that failed, without waiting for the end of its rest; gives what it is then. One that
    /// does not answer is waited for as long as it takes to set it aside.
    pub fn probe_drive(&self, id: DriveId) -> DriveHealth {
        let Some(drive) = self.drive(id) else { return DriveHealth::Missing };
        if let Some(present) = drive.attached()
            && present.device.silence(self.watch().now()) <= HUNG_AFTER
            && !present.device.health().is_given_up()
        {
            let gather = Gather::new();
            self.probe(&present, Some(gather.ticket()));
            gather.wait_for(HUNG_AFTER);
        }
        drive.health()
    }

    /// Room on the drives, at most a second old; of those that do not answer, or are set aside, what was last
    /// known. No drive that hangs is waited for.
    #[must_use]
    pub fn spaces(&self) -> Vec<DriveSpace> {
        self.ask_all_spaces();
        let shares = self.shares();
        let space = |drive: &PoolDrive| {
            let device = drive.device();
            let space = device.as_ref().and_then(|device| device.space()).map(|space| shares.of(space));
            DriveSpace {
                id: drive.id,
                group: drive.group(),
                health: drive.health(),
                drains: drive.drains(),
                capacity: space.map_or(ByteCount(0), |space| space.capacity),
                free: space.map_or(ByteCount(0), |space| space.free),
                refuses_from: device.as_ref().and_then(|device| device.refuses_from()),
            }
        };
        self.drives().map(space).collect()
    }

    /// Puts a blob on the list of those to be repaired: it is read whole then, and what is wrong is mended.
    pub fn needs_repair(&self, blob: BlobId) {
        self.watch().needs_repair(blob, None);
    }

    /// Blobs, and small values of segments, that reads have found damaged since they were last taken, at most
    /// `limit`.
    #[must_use]
    pub fn take_repairs(&self, limit: usize) -> Vec<(BlobId, Option<BlobPiece>)> {
        self.watch().take_repairs(limit)
    }

    /// How many blobs wait to be repaired.
    #[must_use]
    pub fn repairs_waiting(&self) -> usize {
        self.watch().repairs()
    }

    /// How many stripes may be repaired at once: as many as there is memory for.
    #[must_use]
    pub fn repairs_at_once(&self) -> usize {
        self.repair_room().shares.at_once
    }

    /// Whether clients or tape streams wait for drives at this moment.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.drives().filter_map(PoolDrive::present).any(|present| present.is_busy())
    }

    /// All drives and their health.
    #[must_use]
    pub fn drive_health(&self) -> Vec<(DriveId, DriveHealth)> {
        self.drives().map(|drive| (drive.id, drive.health())).collect()
    }

    /// Drives that do not give what they hold: missing, lost or set aside.
    #[must_use]
    pub fn silent_drives(&self) -> BTreeSet<DriveId> {
        self.drives().filter(|drive| drive.device().is_none()).map(|drive| drive.id).collect()
    }

    /// Compares the superblocks with what they should be and writes those anew that differ, where the drive
    /// still is what it was; gives the drives concerned.
    pub fn scrub_superblocks(&self) -> Vec<BadSuperblock> {
        let mut found = Vec::new();
        for present in self.drives().filter_map(PoolDrive::present) {
            let gather = Gather::new();
            let ticket = gather.ticket();
            present.call_writer(Box::new(move |device| {
                let Err(fault) = device.drive.check_stamp() else { return ticket.done(None) };
                let (stamp, drive) = (device.drive.stamp(), device.drive.id());
                let written = device.drive.set_stamp(stamp.epoch, stamp.commit);
                let failure = written.inspect_err(|error| device.write_failed(error, ByteCount(0))).err();
                ticket.done(Some(BadSuperblock { drive, fault, failure }));
            }));
            found.extend(gather.wait_unless(|_| present.device.is_away()).pop().flatten());
        }
        found
    }

    /// Gives up a drive for good: it is neither read nor written any more, and what it held can be rebuilt
    /// on the others. It may be put in again, or another in its place, with [`Pool::attach`].
    ///
    /// # Errors
    /// [`PoolError::DriveState`] if there is no such drive.
    pub fn declare_lost(&self, id: DriveId) -> Result<(), PoolError> {
        let drive = self.drive(id).ok_or_else(|| no_such_drive(id))?;
        drive.declare_lost();
        self.set_drive_state(id, DriveState::Down);
        Ok(())
    }

    /// Has a drive emptied, or in use again: while it drains it is read, and gets nothing new. An open
    /// segment of small values on it is sealed.
    ///
    /// # Errors
    /// [`PoolError::DriveState`] if there is no such drive.
    pub fn set_draining(&self, id: DriveId, drains: bool) -> Result<(), PoolError> {
        let drive = self.drive(id).ok_or_else(|| no_such_drive(id))?;
        drive.set_drains(drains);
        if drive.attached().is_some() {
            self.set_drive_state(id, state_of(drive));
        }
        if drains {
            self.seal_segments();
        }
        Ok(())
    }

    /// How many drives in no group take new files, but for one: what comes off any drive finds room there.
    #[must_use]
    pub fn taking_files_without(&self, id: DriveId) -> usize {
        let main = self.spaces_of(DriveGroup::MAIN);
        main.iter().filter(|drive| drive.id != id && drive.takes_files()).count()
    }

    /// The drives that are to be emptied.
    #[must_use]
    pub fn draining(&self) -> BTreeSet<DriveId> {
        self.drives().filter(|drive| drive.drains()).map(|drive| drive.id).collect()
    }

    /// Takes a drive out, on which no stripe stands: it is neither read nor written any more, and let go.
    ///
    /// # Errors
    /// [`PoolError::DriveState`] if there is no such drive.
    pub fn take_out(&self, id: DriveId) -> Result<(), PoolError> {
        let drive = self.drive(id).ok_or_else(|| no_such_drive(id))?;
        drive.remove();
        drive.set_drains(false);
        self.set_drive_state(id, DriveState::Down);
        Ok(())
    }

    /// Puts a drive in the place of a missing or lost one: the same come back, or a new empty one. It is
    /// stamped, durably, before anything is written to it.
    ///
    /// # Errors
    /// [`PoolError::DriveState`], [`PoolError::EpochUsed`] if it was written by a later server,
    /// [`PoolError::Drive`] if it cannot be stamped.
    pub fn attach(&self, drive: Arc<dyn ObjectDrive>, commit: u64) -> Result<(), PoolError> {
        let id = drive.id();
        let place = self.drive(id).ok_or_else(|| no_such_drive(id))?;
        if !matches!(place.health(), DriveHealth::Missing | DriveHealth::Lost | DriveHealth::Removed) {
            let reason = "it is in use: declare it lost first, if it is to be replaced".to_owned();
            return Err(PoolError::DriveState { drive: id, reason });
        }
        self.stamp_new(drive.as_ref(), commit)?;
        if !place.attach(drive) {
            let reason = "it was put in meanwhile".to_owned();
            return Err(PoolError::DriveState { drive: id, reason });
        }
        self.set_drive_state(id, state_of(place));
        Ok(())
    }

    /// Stamps a drive that is to be put in, durably: that it belongs to this server from now on.
    ///
    /// One that has no place in the pool, and that no set of it names, was never one of its drives: so it
    /// lacks nothing, and was not away.
    ///
    /// # Errors
    /// [`PoolError::EpochUsed`] if it was written by a later server, [`PoolError::Drive`] if it cannot be
    /// stamped.
    pub fn stamp_new(&self, drive: &dyn ObjectDrive, commit: u64) -> Result<(), PoolError> {
        let (id, found, given) = (drive.id(), drive.stamp().epoch, self.epoch());
        if found > given {
            return Err(PoolError::EpochUsed { drive: id, found, given });
        }
        let others =
            self.drives().filter_map(PoolDrive::attached).map(|other| other.device.drive.stamp().age());
        let told = others.max();
        let newest = told.max(Some((given, 0)));
        // No more than the others were told of: if all ends now they are not behind a drive that came in.
        let of_others = told.filter(|(epoch, _)| *epoch == given).map(|(_, commit)| commit);
        let commit = of_others.map_or(commit, |told| commit.min(told));
        let is_known = self.drive(id).is_some() || self.is_in_a_set(id);
        Ok(take_up(drive, newest.filter(|_| is_known), given, commit)?)
    }

    /// Adds a place for one more drive, which [`Pool::stamp_new`] has stamped, and puts it in: it takes new
    /// data at once. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// [`PoolError::DriveState`] if there is a place of its number.
    ///
    /// # Panics
    /// If the entry is of another drive, or it was not stamped.
    pub fn add(&self, entry: DriveEntry, drive: Arc<dyn ObjectDrive>) -> Result<(), PoolError> {
        let id = entry.id;
        assert_eq!(id, drive.id(), "the entry is of this drive");
        assert_eq!(drive.stamp().epoch, self.epoch(), "it belongs to this server before it is written");
        // The map comes last: who finds the drive in a set finds its place.
        let place = PoolDrive::new((id, entry.group), Some(drive), self.watch());
        self.places().add(place).map_err(|_| {
            let reason = "the pool has one of this number already: kist pool show lists them".to_owned();
            PoolError::DriveState { drive: id, reason }
        })?;
        set_entry(&mut lock(self.sets()), DriveEntry { state: DriveState::Up, ..entry });
        Ok(())
    }

    /// Says anew where a drive stands, by which others it fails; what may be done with it stays.
    pub fn set_domain(&self, id: DriveId, domain: FailureDomain) {
        self.change_entry(id, |entry| DriveEntry { domain, ..entry });
    }

    /// Whether a stripe set names a drive. Of one that none does, nothing can stand on it.
    fn is_in_a_set(&self, id: DriveId) -> bool {
        lock(self.sets()).names(id)
    }

    /// Whether a drive took the place of another and is being filled: what it lacks meanwhile is not counted
    /// as its errors.
    pub fn set_filling(&self, id: DriveId, is_filling: bool) {
        if let Some(device) = self.drive(id).and_then(PoolDrive::device) {
            device.filling.store(is_filling, Ordering::Relaxed);
        }
    }

    fn set_drive_state(&self, id: DriveId, state: DriveState) {
        self.change_entry(id, |entry| DriveEntry { state, ..entry });
    }

    /// Under one lock: what others change of the entry meanwhile stays.
    pub(crate) fn change_entry(&self, id: DriveId, change: impl FnOnce(DriveEntry) -> DriveEntry) {
        let mut sets = lock(self.sets());
        if let Some(entry) = sets.map().get(id).cloned() {
            set_entry(&mut sets, change(entry));
        }
    }

    /// How often reads did not wait for a drive that was late, since opening.
    #[must_use]
    pub fn late_cells(&self) -> u64 {
        let devices = self.drives().filter_map(PoolDrive::attached);
        devices.map(|present| present.device.counters.late.load(Ordering::Relaxed)).sum()
    }
}

/// What the map says of a drive that is there.
/// Puts an entry into the map, in the place of the one of this drive, if there is one.
fn set_entry(sets: &mut StripeSets, entry: DriveEntry) {
    let map = sets.map();
    let others = map.drives().iter().filter(|other| other.id != entry.id).cloned();
    // The others are distinct, and none of them is this one.
    if let Ok(map) = DriveMap::new(map.epoch(), others.chain([entry.clone()]).collect()) {
        sets.set_map(map);
    }
}

fn state_of(drive: &PoolDrive) -> DriveState {
    if drive.drains() { DriveState::Draining } else { DriveState::Up }
}

fn not_there(drive: DriveId) -> PoolError {
    let reason = "it does not answer: it is gone through when it is back".to_owned();
    PoolError::DriveState { drive, reason }
}

fn no_such_drive(drive: DriveId) -> PoolError {
    let reason = "there is no such drive in the settings: kist pool show lists them".to_owned();
    PoolError::DriveState { drive, reason }
}
