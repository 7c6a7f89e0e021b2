//! What keeps the drives of a pool going: probes, setting aside, taking out and putting in.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{BlobId, BlobPiece, Clock, DriveId};
use cluster::{DriveEntry, DriveMap, DriveState};
use drive::ObjectDrive;

use crate::config::HUNG_AFTER;
use crate::drives::PoolDrive;
use crate::error::PoolError;
use crate::gather::{Gather, lock};
use crate::pool::Pool;
use crate::status::{DriveHealth, DriveSpace};

impl Pool {
    /// Gives the pool a clock, for late reads, hung drives and probes. Without one none of these happens
    /// but that reads are made good after a fixed time.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.watch().set_clock(clock);
    }

    /// Sets drives aside that have been at one job for too long, and probes failed ones whose rest is over.
    /// To be called about once a second.
    pub fn tend(&self) {
        for drive in self.drives() {
            let Some(present) = drive.attached() else { continue };
            let device = &present.device;
            // In this order: a probe ends its silence before it makes a drive that was away one that is up.
            let is_away = device.is_away();
            let silence = device.silence();
            if silence > HUNG_AFTER && !is_away {
                device.set_aside(format!("it has not answered for {} s", silence.as_secs()));
                present.abandon();
            }
            // A drive that is still at its job answers no probe.
            if silence <= HUNG_AFTER && device.begin_probe() {
                present.probe();
            }
        }
    }

    /// Probes a drive that failed, without waiting for the end of its rest; gives what it is then.
    pub fn probe_drive(&self, id: DriveId) -> DriveHealth {
        let Some(drive) = self.drive(id) else { return DriveHealth::Missing };
        if let Some(present) = drive.attached()
            && present.device.silence() <= HUNG_AFTER
        {
            present.device.probed(present.device.drive.probe());
        }
        drive.health()
    }

    /// Room on the drives, at most a second old.
    #[must_use]
    pub fn spaces(&self) -> Vec<DriveSpace> {
        let space = |drive: &PoolDrive| {
            let device = drive.device();
            let full = drive.health() == DriveHealth::Full;
            let space = device.as_ref().and_then(|device| device.space());
            DriveSpace {
                id: drive.id,
                up: device.is_some_and(|device| device.is_up()),
                full,
                capacity: space.map_or(base::ByteCount(0), |space| space.capacity),
                free: space.map_or(base::ByteCount(0), |space| space.free),
            }
        };
        self.drives().map(space).collect()
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

    /// Whether clients wait for drives at this moment.
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
    pub fn silent_drives(&self) -> std::collections::BTreeSet<DriveId> {
        self.drives().filter(|drive| drive.device().is_none()).map(|drive| drive.id).collect()
    }

    /// Compares the superblocks with what they should be and writes those anew that differ; gives the drives
    /// concerned.
    pub fn scrub_superblocks(&self) -> Vec<(DriveId, String)> {
        let mut found = Vec::new();
        for present in self.drives().filter_map(PoolDrive::present) {
            let gather = Gather::new();
            let ticket = gather.ticket();
            present.write(Box::new(move |device| {
                let Err(error) = device.drive.check_stamp() else { return ticket.done(None) };
                let stamp = device.drive.stamp();
                let what = match device.drive.set_stamp(stamp.epoch, stamp.commit) {
                    Ok(()) => format!("{error}; written anew"),
                    Err(worse) => {
                        device.write_failed(&worse);
                        format!("{error}; {worse}")
                    }
                };
                ticket.done(Some(what));
            }));
            let what = gather.wait_unless(|_| present.device.is_away()).pop().flatten();
            found.extend(what.map(|what| (present.device.drive.id(), what)));
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

    /// Puts a drive in the place of a missing or lost one: the same come back, or a new empty one. It is
    /// stamped, durably, before anything is written to it.
    ///
    /// # Errors
    /// [`PoolError::DriveState`], [`PoolError::EpochUsed`] if it was written by a later server,
    /// [`PoolError::Drive`] if it cannot be stamped.
    pub fn attach(&self, drive: Arc<dyn ObjectDrive>, commit: u64) -> Result<(), PoolError> {
        let id = drive.id();
        let place = self.drive(id).ok_or_else(|| no_such_drive(id))?;
        if !matches!(place.health(), DriveHealth::Missing | DriveHealth::Lost) {
            let reason = "it is in use: declare it lost first, if it is to be replaced".to_owned();
            return Err(PoolError::DriveState { drive: id, reason });
        }
        let (found, given) = (drive.stamp().epoch, self.epoch());
        if found > given {
            return Err(PoolError::EpochUsed { drive: id, found, given });
        }
        drive.set_stamp(given, commit)?;
        if !place.attach(drive) {
            let reason = "it was put in meanwhile".to_owned();
            return Err(PoolError::DriveState { drive: id, reason });
        }
        self.set_drive_state(id, DriveState::Up);
        Ok(())
    }

    fn set_drive_state(&self, id: DriveId, state: DriveState) {
        let mut sets = lock(self.sets());
        let map = sets.map();
        let change = |entry: &DriveEntry| {
            let state = if entry.id == id { state } else { entry.state };
            DriveEntry { state, ..entry.clone() }
        };
        // The same ids as before, so they are distinct.
        if let Ok(map) = DriveMap::new(map.epoch(), map.drives().iter().map(change).collect()) {
            sets.set_map(map);
        }
    }

    /// How often reads did not wait for a drive that was late, since opening.
    #[must_use]
    pub fn late_cells(&self) -> u64 {
        let devices = self.drives().filter_map(PoolDrive::attached);
        devices.map(|present| present.device.counters.late.load(Ordering::Relaxed)).sum()
    }
}

fn no_such_drive(drive: DriveId) -> PoolError {
    let reason = "there is no such drive in the settings: kist pool show lists them".to_owned();
    PoolError::DriveState { drive, reason }
}
