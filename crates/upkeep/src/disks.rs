//! The disks under the drives of the pool, as who watches the machine tells of them, and what is done about
//! them by itself: a drive whose disk foretells its failure is emptied, another disk takes the place of a
//! lost one. The server cannot look at devices itself: it does not run as root.

use std::collections::{BTreeMap, BTreeSet};

use base::{DriveId, Timestamp};
use catalogue::{Command, DriveDisk, DriveDiskRecord, DriveSlot};
use drive::BurnInState;
use ground::{
    ArchiveError, DISK_REASONS_MAX, DISK_TEXT_BYTES_MAX, DiskReason, DiskReport, DiskWatch, DriveDiskInfo,
    FoundDisk, PredictedFailure, ReplaceLost, TakeOver, Waits, WatchedDrive, truncated,
};
use location::DriveLocation;
use pool::DriveHealth;

use crate::Upkeep;
use crate::pool_drives::{ReplacedDrive, refused};
use crate::predicted::{self, Facts, LOOKS_NEEDED};

/// What the last look at the machine has shown of a drive. It is told anew each minute: a start forgets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// The disk was found at this time.
    seen: Option<Timestamp>,
    disk: String,
    verdict: String,
    reasons: Vec<DiskReason>,
    /// Looks in a row that foretold a failure of this disk.
    predictions: u32,
    /// Why nothing takes its place.
    waits: Option<Waits>,
    /// Why it is not emptied, though its failure is foretold.
    waits_drain: Option<Waits>,
}

pub(crate) type Looks = BTreeMap<DriveId, Look>;
type Records = BTreeMap<DriveId, DriveDiskRecord>;

impl Look {
    fn note(&mut self, found: FoundDisk, now: Timestamp) {
        let FoundDisk { disk, verdict, mut reasons, .. } = found;
        let predicts = reasons.iter().any(|reason| reason.predicts);
        let is_same = self.disk == disk;
        self.predictions = match predicts {
            true if is_same => self.predictions.saturating_add(1),
            predicts => u32::from(predicts),
        };
        reasons.truncate(DISK_REASONS_MAX);
        for reason in &mut reasons {
            reason.text = bounded(&reason.text);
            reason.word = bounded(&reason.word);
        }
        (self.seen, self.disk, self.verdict, self.reasons) = (Some(now), disk, bounded(&verdict), reasons);
    }

    /// Why its failure is foretold.
    fn prediction(&self) -> Option<&DiskReason> {
        self.reasons.iter().find(|reason| reason.predicts)
    }
}

fn bounded(text: &str) -> String {
    truncated(text, DISK_TEXT_BYTES_MAX)
}

impl Upkeep {
    /// What who watches the disks of this machine needs.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn disk_watch(&self) -> Result<DiskWatch, ArchiveError> {
        let mut disks = self.drive_disks()?;
        let drives = self.pool.drive_health().into_iter().filter_map(|(id, health)| {
            let place = self.pool_drives.get(id)?;
            Some(WatchedDrive {
                id: id.0,
                path: place.at.to_string(),
                is_up: health.is_up(),
                is_lost: may_be_taken(&health),
                disk: disks.remove(&id),
            })
        });
        let drives = drives.collect();
        let owner = std::fs::metadata(&self.settings.catalogue_directory);
        let owner = owner.map_or((0, 0), |found| {
            use std::os::unix::fs::MetadataExt;
            (found.uid(), found.gid())
        });
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok(DiskWatch {
            boot: boot.trim().to_owned(),
            instance: self.instance.to_string(),
            owner,
            policy: self.settings().disks,
            holds: self.holds()?,
            drives,
        })
    }

    /// Takes note of what a look at this machine has shown, and does what follows from it. Gives the drive
    /// that is emptied from now on, if one is.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError`] of the catalogue.
    pub fn disks_found(&self, reports: Vec<DiskReport>) -> Result<Option<u16>, ArchiveError> {
        let _one = self.changes_drives();
        let health: BTreeMap<DriveId, DriveHealth> = self.pool.drive_health().into_iter().collect();
        if let Some(unknown) = reports.iter().find(|report| !health.contains_key(&DriveId(report.drive))) {
            return Err(ArchiveError::NoSuchPoolDrive(unknown.drive));
        }
        let records = self.disk_records()?;
        let now = self.now();
        for DiskReport { drive, found, waits } in reports {
            let drive = DriveId(drive);
            let is_up = health.get(&drive).is_some_and(DriveHealth::is_up);
            // What is under the directory of one that does not work may be any disk.
            let found = found.filter(|_| is_up);
            if let Some(found) = &found {
                self.record_disk(drive, found, records.get(&drive))?;
            }
            self.with_looks(|looks| {
                let look = looks.entry(drive).or_default();
                look.waits =
                    waits.map(|waits| Waits { word: bounded(&waits.word), text: bounded(&waits.text) });
                if let Some(found) = found {
                    look.note(found, now);
                }
            });
        }
        self.drain_predicted(&health, now)
    }

    fn record_disk(
        &self,
        drive: DriveId,
        found: &FoundDisk,
        known: Option<&DriveDiskRecord>,
    ) -> Result<(), ArchiveError> {
        let before = known.map(|record| &record.known);
        let is_same = before.is_some_and(|before| before.disk == found.disk);
        let (drained, kept) = match before.filter(|_| is_same) {
            Some(before) => (before.drained.clone(), before.kept),
            None => (None, false),
        };
        // A slot that one look cannot prove is not forgotten: the disk is the same.
        let slot = found.slot.or(before.filter(|_| is_same).and_then(|before| before.slot));
        let light = before.and_then(|before| before.light);
        let disk = DriveDisk { disk: found.disk.clone(), slot, light, drained, kept };
        if before == Some(&disk) {
            return Ok(());
        }
        self.execute(Command::SetDriveDisk { drive, disk: Some(disk) })
    }

    /// Has a drive emptied whose disk foretells its failure, if that is wanted and the pool can bear it.
    fn drain_predicted(
        &self,
        health: &BTreeMap<DriveId, DriveHealth>,
        now: Timestamp,
    ) -> Result<Option<u16>, ArchiveError> {
        let records = self.disk_records()?;
        let looks = self.looks();
        let facts = self.facts(health, now, &records, &looks);
        let wants = self.settings().disks.predicted_failure == PredictedFailure::Drain;
        let held = match self.holds()? {
            Some(holds) => Err(holds),
            None => predicted::which(&facts)
                .map_err(|waits| Waits { word: waits.word().to_owned(), text: waits.text() }),
        };
        let chosen = match held {
            _ if !wants => Ok(None),
            held => held,
        };
        let drained = match chosen {
            Ok(Some(drive)) => self.drain_one(drive, &records, &looks),
            Ok(None) => Ok(None),
            Err(waits) => Err(waits),
        };
        let waits = drained.as_ref().err().cloned();
        let is_waiting = |one: &Facts| one.is_predicted && !one.is_draining && !one.is_drained;
        let waiting: BTreeSet<DriveId> =
            facts.iter().filter(|one| is_waiting(one)).map(|one| one.drive).collect();
        self.with_looks(|looks| {
            for (drive, look) in looks.iter_mut() {
                let now = waits.clone().filter(|_| waiting.contains(drive));
                if let Some(waits) = now.as_ref().filter(|_| look.waits_drain != now) {
                    let why = &waits.text;
                    tracing::warn!(%drive, why, "its disk foretells its failure; it is not emptied");
                }
                look.waits_drain = now;
            }
        });
        Ok(drained.unwrap_or(None))
    }

    fn facts(
        &self,
        health: &BTreeMap<DriveId, DriveHealth>,
        now: Timestamp,
        records: &Records,
        looks: &Looks,
    ) -> Vec<Facts> {
        let (draining, gaps) = (self.pool.draining(), self.pool.drives_with_gaps());
        let there = health.iter().filter(|(_, health)| **health != DriveHealth::Removed);
        let one = |(drive, health): (&DriveId, &DriveHealth)| {
            let record = records.get(drive).map(|record| &record.known);
            let look = looks.get(drive);
            // What was said before is not what is so: it is told anew with each look.
            let is_current = |look: &&Look| {
                record.is_some_and(|record| record.disk == look.disk) && look.seen == Some(now)
            };
            Facts {
                drive: *drive,
                is_predicted: look.filter(is_current).is_some_and(|look| look.predictions >= LOOKS_NEEDED),
                is_drained: record.is_some_and(|record| record.drained.is_some()),
                is_kept: record.is_some_and(|record| record.kept),
                is_draining: draining.contains(drive),
                is_unwell: health.is_silent() || gaps.contains_key(drive),
            }
        };
        there.map(one).collect()
    }

    /// Has one emptied. That the policy did it is recorded before: else it would count as an operator's word.
    fn drain_one(&self, drive: DriveId, records: &Records, looks: &Looks) -> Result<Option<u16>, Waits> {
        let reason = looks.get(&drive).and_then(Look::prediction).map(|reason| reason.text.clone());
        let Some((record, why)) = records.get(&drive).zip(reason) else { return Ok(None) };
        let set = |drained| {
            let disk = Some(DriveDisk { drained, ..record.known.clone() });
            self.execute(Command::SetDriveDisk { drive, disk })
        };
        let failed =
            |error: &ArchiveError| Waits { word: "refused".to_owned(), text: bounded(&error.to_string()) };
        set(Some(why.clone())).map_err(|error| failed(&error))?;
        if let Err(error) = self.drain_drive(drive) {
            if let Err(again) = set(None) {
                tracing::error!(%drive, error = %again, "it counts as emptied by itself, and is not");
            }
            return Err(failed(&error));
        }
        let slot = words_of_slot(record.known.slot);
        let disk = &record.known.disk;
        tracing::warn!(%drive, disk, slot, why, "its disk foretells its failure: it is emptied");
        Ok(Some(drive.0))
    }

    /// An operator has ended a drain: none begins by itself while the drive is on this disk.
    pub(crate) fn note_kept(&self, drive: DriveId) -> Result<(), ArchiveError> {
        let records = self.disk_records()?;
        let Some(known) = records.get(&drive).map(|record| &record.known) else { return Ok(()) };
        if known.drained.is_none() {
            return Ok(());
        }
        let disk = DriveDisk { drained: None, kept: true, ..known.clone() };
        self.execute(Command::SetDriveDisk { drive, disk: Some(disk) })
    }

    /// Records that the light of a drive's slot is switched on for it, or off again. Before it is switched
    /// on, and after it was switched off: a light that somebody else has switched on is not known here.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::Pool`] if nothing is known of its disk.
    pub fn drive_light(&self, id: u16, slot: Option<DriveSlot>) -> Result<(), ArchiveError> {
        let _one = self.changes_drives();
        let drive = DriveId(id);
        self.health_of_drive(drive)?;
        let records = self.disk_records()?;
        let none = || refused(drive, "it is not known on which disk it is: kist disk watch tells that");
        let known = records.get(&drive).map(|record| record.known.clone()).ok_or_else(none)?;
        if known.light == slot {
            return Ok(());
        }
        if slot.is_some() && slot != known.slot {
            return Err(refused(drive, "its disk is in another slot"));
        }
        self.execute(Command::SetDriveDisk { drive, disk: Some(DriveDisk { light: slot, ..known }) })
    }

    /// Another disk takes the place of a lost drive's: the one that is proven to be in its slot, and whose
    /// empty file system is mounted at its directory.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::Pool`] if that is not wanted, or the drive is not
    /// lost, or something is not as it was said; [`ArchiveError::WouldLose`] if files would be LOST by it.
    pub fn drive_taken_over(&self, id: u16, by: &TakeOver) -> Result<ReplacedDrive, ArchiveError> {
        let _one = self.changes_drives();
        let drive = DriveId(id);
        let at = self.location_of_drive(drive)?;
        let health = self.health_of_drive(drive)?;
        let records = self.disk_records()?;
        self.check_taken(drive, &health, by, &records)?;
        self.check_burnt_in(drive, &at)?;
        let (major, minor) = by.device;
        if !at.is_mounted() || at.file_system() != Some(device_number(major, minor)) {
            return Err(refused(
                drive,
                &format!("no file system of device {major}:{minor} is mounted at {at}"),
            ));
        }
        if !at.is_vacant() {
            return Err(refused(
                drive,
                &format!("something stands in {at}: nothing is made of that by itself"),
            ));
        }
        let replaced = self.replace_drive(id, true, false)?;
        let light = records.get(&drive).and_then(|record| record.known.light);
        let disk =
            DriveDisk { disk: by.disk.clone(), slot: Some(by.slot), light, drained: None, kept: false };
        self.execute(Command::SetDriveDisk { drive, disk: Some(disk) })?;
        let slot = words_of_slot(Some(by.slot));
        let new = &by.disk;
        tracing::warn!(%drive, new, slot, "another disk in its slot takes the place of a lost one");
        self.with_looks(|looks| drop(looks.remove(&drive)));
        Ok(replaced)
    }

    /// Who watches has burnt the disk in, if that is wanted: its record says so.
    fn check_burnt_in(&self, drive: DriveId, at: &DriveLocation) -> Result<(), ArchiveError> {
        let record = at.burn_in().map_err(|error| refused(drive, &error.to_string()))?;
        let demand = self.settings().disks.replace_burn_in;
        match demand.judge(record.as_ref()) {
            BurnInState::Enough => Ok(()),
            BurnInState::Needed => Err(refused(
                drive,
                &format!(
                    "no record in {at} says that its burn-in was {} (pool.replace_burn_in): kist disk watch \
                     burns it in",
                    demand.word()
                ),
            )),
            BurnInState::Failed(bad) => Err(refused(
                drive,
                &format!("the burn-in of the disk at {at} says {}: put in another", bad.verdict.word()),
            )),
        }
    }

    fn check_taken(
        &self,
        drive: DriveId,
        health: &DriveHealth,
        by: &TakeOver,
        records: &Records,
    ) -> Result<(), ArchiveError> {
        let no = |why: &str| Err(refused(drive, why));
        if self.settings().disks.replace == ReplaceLost::No {
            return no("kist.toml does not have lost drives replaced (pool.replace)");
        }
        if let Some(holds) = self.holds()? {
            return no(&holds.text);
        }
        if !may_be_taken(health) {
            return no("it is not lost");
        }
        let Some(known) = records.get(&drive).map(|record| &record.known) else {
            return no("it was never known on which disk it was");
        };
        if known.slot != Some(by.slot) {
            return no("the lost disk was in another slot");
        }
        if by.disk.is_empty() || known.disk == by.disk {
            return no("this is the lost disk itself: when it is mounted, it is taken up as it is");
        }
        match records.iter().find(|(other, record)| **other != drive && record.known.disk == by.disk) {
            Some((other, _)) => no(&format!("the disk is that of drive {other}")),
            None => Ok(()),
        }
    }

    /// Why nothing is done by itself now: after a restore the catalogue may be older than what stands in
    /// which slot.
    fn holds(&self) -> Result<Option<Waits>, ArchiveError> {
        let is_doubtful = self.read(|view| Ok(view.is_restored()? || view.quarantine()?.is_some()))?;
        let text = "after a restore nothing is done about disks by itself: what the catalogue knows of slots \
                    may be old (kist pool quarantine --end, when it is settled)";
        Ok(is_doubtful.then(|| Waits { word: "restored".to_owned(), text: text.to_owned() }))
    }

    /// On which disks the drives are, what was said of these, and what is to be done.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn drive_disks(&self) -> Result<BTreeMap<DriveId, DriveDiskInfo>, ArchiveError> {
        let (records, looks) = (self.disk_records()?, self.looks());
        let health: BTreeMap<DriveId, DriveHealth> = self.pool.drive_health().into_iter().collect();
        let (given_up, drains) = (self.given_up(), self.drain_info());
        let lights = self.settings().disks.lights;
        let one = |(drive, record): (DriveId, DriveDiskRecord)| {
            let DriveDiskRecord { known, since } = record;
            let look = looks.get(&drive).cloned().unwrap_or_default();
            let is_current = look.disk == known.disk;
            let is_lost = health.get(&drive) == Some(&DriveHealth::Lost)
                || given_up.contains(&drive) && health.get(&drive).is_some_and(DriveHealth::is_silent);
            let is_out = health.get(&drive) == Some(&DriveHealth::Removed);
            let is_empty = drains.get(&drive).is_some_and(|drain| drain.is_empty);
            let wants_light = lights
                && known.slot.is_some()
                && (is_lost && !is_out || known.drained.is_some() && (is_empty || is_out));
            let waits = match is_lost || !health.get(&drive).is_some_and(DriveHealth::is_up) {
                true => look.waits,
                false => look.waits_drain,
            };
            let info = DriveDiskInfo {
                seen: look.seen.filter(|_| is_current),
                verdict: if is_current { look.verdict } else { String::new() },
                reasons: if is_current { look.reasons } else { Vec::new() },
                known,
                since,
                waits,
                wants_light,
            };
            (drive, info)
        };
        Ok(records.into_iter().map(one).collect())
    }

    fn disk_records(&self) -> Result<Records, ArchiveError> {
        Ok(self.read(|view| view.drive_disks())?.into_iter().collect())
    }

    fn looks(&self) -> Looks {
        let mut copy = Looks::new();
        self.with_looks(|looks| copy.clone_from(looks));
        copy
    }
}

/// Whether another disk may take the place of a drive's by itself. One that was taken out is none of the
/// pool; one that was emptied under the server is looked at by a person.
fn may_be_taken(health: &DriveHealth) -> bool {
    matches!(
        health,
        DriveHealth::Missing | DriveHealth::Lost | DriveHealth::Away { .. } | DriveHealth::Suspect { .. }
    )
}

/// The number of a device as the system has it (linux: include/linux/kdev_t.h, `new_encode_dev`, as the C
/// library widens it).
fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

/// A slot for people; empty: none is known.
#[must_use]
pub(crate) fn words_of_slot(slot: Option<DriveSlot>) -> String {
    slot.map_or_else(String::new, |slot| format!("slot {} of enclosure {:016x}", slot.number, slot.enclosure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_as_the_system_does() {
        assert_eq!(device_number(8, 16), 0x810);
        assert_eq!(device_number(254, 300), 0x10_fe2c);
        // /dev/null, by what the system says itself.
        let null = std::os::unix::fs::MetadataExt::rdev(&std::fs::metadata("/dev/null").unwrap());
        assert_eq!(device_number(1, 3), null);
    }
}
