//! One more drive of the pool while the server runs.
//!
//! In this order, so that a crash at any moment leaves either no drive, or one that the next start opens: the
//! directory becomes a drive and belongs to this server; the operator's file names it; the pool takes it in,
//! and only then something may be written to it. Who says it again after a crash goes on where it stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::DriveId;
use catalogue::{Command, PoolDriveState};
use drive::{BurnInId, BurnInVerdict, DriveOpenError, ObjectDrive};
use ground::{ArchiveError, NameDrive, PoolDriveFile, PoolDriveSettings};
use location::DriveLocation;
use pool::DriveHealth;

use crate::Upkeep;
use crate::pool_drives::{ReplacedDrive, open_when_left, refused};
use crate::seen_places::{SeenPlaces, directory};

/// How often the places of all drives are looked at, if others come meanwhile.
const LOOKS_MAX: usize = 3;

/// A drive that is to be added, as its operator says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDrive {
    /// Where it is.
    pub at: DriveLocation,
    /// The machine that it stands in, if its place does not say it; `None`: as the operator's file has it.
    pub host: Option<String>,
    /// Its failure domain; `None`: as the operator's file has it, else none.
    pub enclosure: Option<String>,
    /// The group that it is in; `None`: as the operator's file has it, else none.
    pub group: Option<String>,
    /// Make the directory if it is not there.
    pub make: bool,
    /// The burn-in that its place must have a record of, and that must have passed; `None`: any that has
    /// passed, or none.
    pub burn_in: Option<BurnInId>,
    /// Accept a burn-in that does not prove its disk, and where none is named, also one that has not passed.
    pub accept_burn_in: bool,
    /// Only look whether it could become a new drive.
    pub check: bool,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddedDrive {
    /// The number that it has.
    pub id: u16,
    /// What it is.
    pub what: AddedWhat,
}

/// What a drive is that was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddedWhat {
    /// The directory was empty: it is a new drive now.
    New,
    /// The directory held a drive of this instance, which is in use again.
    Returned,
    /// It was in use already: nothing was done.
    InUse,
    /// It can become a new drive, which only was asked: nothing was done.
    Possible,
}

/// What is to become of a place.
struct Plan {
    settings: PoolDriveSettings,
    /// The operator's file names it already.
    is_named: bool,
    /// There is a drive of this instance.
    is_stamped: bool,
}

impl NewDrive {
    /// What is at a place that is there, of which nothing is demanded but that it can become a drive.
    #[must_use]
    pub fn at(at: DriveLocation) -> NewDrive {
        let (make, accept_burn_in, check) = (false, false, false);
        NewDrive { at, host: None, enclosure: None, group: None, make, burn_in: None, accept_burn_in, check }
    }

    /// What the operator's file has of it, or is to have.
    fn settings(&self, id: DriveId, named: Option<&PoolDriveSettings>) -> Result<PoolDriveSettings, String> {
        let Some(named) = named else {
            let (at, host) = (self.at.clone(), self.host.clone());
            let enclosure = self.enclosure.clone().unwrap_or_default();
            let group = self.group.clone().unwrap_or_default();
            return Ok(PoolDriveSettings { id: id.0, at, host, enclosure, group });
        };
        let differs = self.host.as_ref().is_some_and(|host| Some(host) != named.host.as_ref())
            || self.enclosure.as_ref().is_some_and(|enclosure| *enclosure != named.enclosure)
            || self.group.as_ref().is_some_and(|group| *group != named.group);
        if differs {
            return Err(format!(
                "kist.toml names it as drive {id} with another host, enclosure or group: change it there"
            ));
        }
        Ok(named.clone())
    }
}

impl Upkeep {
    /// Says where the operator's file names the drives of the pool. Without it no drive is added while the
    /// server runs. Once: further calls do nothing.
    pub fn set_pool_drive_file(&self, file: Arc<dyn PoolDriveFile>) {
        let _ = self.drive_file.set(file);
    }

    /// Adds a drive to the pool, and names it in the operator's file if that does not yet: an empty
    /// directory, or one that holds a drive of this instance. It takes new data at once. No effect if it is
    /// in use.
    ///
    /// # Errors
    /// [`ArchiveError::NoNewDrive`]; [`ArchiveError::NoDriveDirectory`]; as [`Upkeep::pool_drive_replace`] of
    /// one that the pool knows.
    pub fn pool_drive_add(&self, wanted: &NewDrive) -> Result<AddedDrive, ArchiveError> {
        if !wanted.check {
            check_burnt_in(wanted)?;
        }
        self.look_and_add(wanted, false)
    }

    /// Looks at the places of all drives, and adds this one while no drive changes.
    fn look_and_add(&self, wanted: &NewDrive, accept_loss: bool) -> Result<AddedDrive, ArchiveError> {
        for _ in 0..LOOKS_MAX {
            let seen = self.look_at_places(&wanted.at)?;
            let _one = self.changes_drives();
            if let Some(added) = self.add_drive(wanted, accept_loss, &seen)? {
                return Ok(added);
            }
        }
        let reason = "other drives are being named and added at the same time: say it again".to_owned();
        Err(ArchiveError::NoNewDrive { at: wanted.at.clone(), reason })
    }

    /// Where this and all other drives are, and what they must be apart from.
    fn look_at_places(&self, at: &DriveLocation) -> Result<SeenPlaces, ArchiveError> {
        let mut seen = SeenPlaces::default();
        let catalogue = directory(&self.settings.catalogue_directory);
        [at, &catalogue].into_iter().for_each(|at| seen.look(at, true));
        let silent = self.pool.silent_drives();
        for drive in self.named_drives(at)?.iter().chain(&self.pool_drives.all()) {
            if !seen.has(&drive.at) {
                seen.look(&drive.at, !silent.contains(&DriveId(drive.id)));
            }
        }
        Ok(seen)
    }

    /// What the operator's file names, for a drive that is to be added.
    fn named_drives(&self, at: &DriveLocation) -> Result<Vec<PoolDriveSettings>, ArchiveError> {
        let named = self.file_for(at)?.drives();
        named.map_err(|error| ArchiveError::NoNewDrive { at: at.clone(), reason: error.to_string() })
    }

    /// The operator's file, for a drive that is to be added.
    fn file_for(&self, at: &DriveLocation) -> Result<&dyn PoolDriveFile, ArchiveError> {
        let none = || {
            let reason = "the settings of this server stand in no file".to_owned();
            ArchiveError::NoNewDrive { at: at.clone(), reason }
        };
        self.drive_file.get().map(AsRef::as_ref).ok_or_else(none)
    }

    /// Adds the drive of this number if the operator's file names it, though the start did not know it.
    pub(crate) fn add_named(
        &self,
        id: u16,
        make: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        let unknown = || ArchiveError::NoSuchPoolDrive(id);
        let file = self.drive_file.get().ok_or_else(unknown)?;
        let named = file.drives().map_err(|error| refused(DriveId(id), &error.to_string()))?;
        let entry = named.into_iter().find(|drive| drive.id == id).ok_or_else(unknown)?;
        let wanted = NewDrive { make, ..NewDrive::at(entry.at) };
        check_burnt_in(&wanted)?;
        let added = self.look_and_add(&wanted, accept_loss)?;
        Ok(match added.what {
            AddedWhat::New => ReplacedDrive::New,
            AddedWhat::Returned | AddedWhat::InUse | AddedWhat::Possible => ReplacedDrive::Returned,
        })
    }

    /// Under the lock. `None`: a drive came since all places were looked at, and they are to be looked at
    /// anew.
    fn add_drive(
        &self,
        wanted: &NewDrive,
        accept_loss: bool,
        seen: &SeenPlaces,
    ) -> Result<Option<AddedDrive>, ArchiveError> {
        let at = &wanted.at;
        let named = self.named_drives(at)?;
        if !named.iter().chain(&self.pool_drives.all()).all(|drive| seen.has(&drive.at)) {
            return Ok(None);
        }
        let plan = self.plan(wanted, &named, seen)?;
        let id = DriveId(plan.settings.id);
        let health = self.health_of_drive(id).ok();
        if wanted.check {
            self.check_new(wanted, &plan, health.is_some(), seen)?;
            return Ok(Some(AddedDrive { id: id.0, what: AddedWhat::Possible }));
        }
        match health {
            Some(health) => {
                let how = (wanted.make, accept_loss);
                self.add_known(plan.settings, plan.is_named, &health, how).map(Some)
            }
            None => self.add_unknown(wanted, plan, seen).map(Some),
        }
    }

    /// Which drive a place is or is to become, where the pool and the operator's file agree.
    fn plan(
        &self,
        wanted: &NewDrive,
        named: &[PoolDriveSettings],
        seen: &SeenPlaces,
    ) -> Result<Plan, ArchiveError> {
        let at = &wanted.at;
        let no = |reason: String| ArchiveError::NoNewDrive { at: at.clone(), reason };
        let entry = named.iter().find(|drive| seen.is_same(&drive.at, at));
        let stamped = self.drive_at(at)?;
        let id = match (entry.map(|entry| DriveId(entry.id)), stamped) {
            (Some(named), Some(found)) if named != found => {
                return Err(no(format!(
                    "it holds drive {found}, and kist.toml names it as drive {named}: give it the number \
                     that it has"
                )));
            }
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => self.next_drive(named)?.ok_or_else(|| no("no number is left".to_owned()))?,
        };
        let settings = wanted.settings(id, entry).map_err(no)?;
        if self.settings.pool.group(&settings.group).is_none() {
            let group = &settings.group;
            return Err(no(format!(
                "this server knows no group '{group}': write [pool.groups.{group}] into kist.toml, and \
                 restart it"
            )));
        }
        self.check_apart(&settings, named, seen).map_err(no)?;
        let known = self.health_of_drive(id).ok().and_then(|_| self.pool_drives.get(id));
        if let Some(place) = known.map(|known| known.at).filter(|place| !seen.is_same(place, at)) {
            return Err(no(format!(
                "drive {id} of the pool is at {place}: to open it elsewhere change its path in kist.toml \
                 and restart the server"
            )));
        }
        Ok(Plan { settings, is_named: entry.is_some(), is_stamped: stamped.is_some() })
    }

    /// Demands a place that can become a drive, as far as that can be told without doing it.
    fn check_new(
        &self,
        wanted: &NewDrive,
        plan: &Plan,
        is_known: bool,
        seen: &SeenPlaces,
    ) -> Result<(), ArchiveError> {
        let no = |reason: String| ArchiveError::NoNewDrive { at: wanted.at.clone(), reason };
        if plan.is_stamped || is_known {
            let id = plan.settings.id;
            return Err(no(format!(
                "it is the place of drive {id} of the pool already, and a disk is burnt in before its first \
                 use"
            )));
        }
        self.check_place(wanted, seen).map_err(no)?;
        if !plan.is_named {
            // Only what hinders it is asked.
            drop(self.prepare_name(&plan.settings)?);
        }
        if wanted.at.is_absent() {
            return Ok(());
        }
        match wanted.at.can_be_made() {
            Ok(true) => Ok(()),
            Ok(false) => Err(no(DriveOpenError::NotEmpty(wanted.at.to_string().into()).to_string())),
            Err(error) => Err(no(format!("it cannot be listed: {error}"))),
        }
    }

    /// Refuses a place that is no drive yet and where a disk may be missing.
    fn check_place(&self, wanted: &NewDrive, seen: &SeenPlaces) -> Result<(), String> {
        if wanted.make {
            return Ok(());
        }
        if wanted.at.is_absent() {
            return Err("the directory is not there: mount its disk, or have it made with --new".to_owned());
        }
        self.check_own_file_system(&wanted.at, seen)
    }

    /// A drive that the pool does not know.
    fn add_unknown(
        &self,
        wanted: &NewDrive,
        plan: Plan,
        seen: &SeenPlaces,
    ) -> Result<AddedDrive, ArchiveError> {
        let Plan { settings, is_named, is_stamped } = plan;
        let (at, id) = (&wanted.at, DriveId(settings.id));
        let no = |reason: String| ArchiveError::NoNewDrive { at: at.clone(), reason };
        if !is_stamped {
            self.check_place(wanted, seen).map_err(no)?;
        }
        // Made ready before the directory becomes a drive: what hinders it is known then.
        let name = match is_named {
            true => None,
            false => Some(self.prepare_name(&settings)?),
        };
        if !is_stamped {
            at.format(self.instance, id).map_err(|error| no(error.to_string()))?;
        }
        let opened = open_when_left(at, self.instance, id, self.ground.settings.pool.io)?;
        let last = self.check_not_later(opened.as_ref())?;
        self.pool.stamp_new(opened.as_ref(), last)?;
        name.map_or(Ok(()), |name| name()).map_err(|error| no(error.to_string()))?;
        // One that was taken out, and is put in again.
        if self.word_of_drive(id)?.is_some() {
            self.execute(Command::SetPoolDrive { drive: id, state: None })?;
        }
        self.pool.add(settings.entry(&self.settings.pool), opened)?;
        self.pool_drives.add(settings);
        tracing::info!(drive = %id, %at, "one more drive of the pool");
        let what = if is_stamped { AddedWhat::Returned } else { AddedWhat::New };
        if what == AddedWhat::Returned {
            self.is_put_in(id, at);
        }
        self.ring();
        Ok(AddedDrive { id: id.0, what })
    }

    /// Makes ready to name a drive in the operator's file.
    fn prepare_name(&self, drive: &PoolDriveSettings) -> Result<NameDrive, ArchiveError> {
        let name = self.file_for(&drive.at)?.prepare(drive);
        name.map_err(|error| ArchiveError::NoNewDrive { at: drive.at.clone(), reason: error.to_string() })
    }

    /// A drive that the pool knows: in use, or to be put in again, or one on which stripes stand though the
    /// start did not find it in the operator's file.
    fn add_known(
        &self,
        settings: PoolDriveSettings,
        is_named: bool,
        health: &DriveHealth,
        (make, accept_loss): (bool, bool),
    ) -> Result<AddedDrive, ArchiveError> {
        let (id, at) = (DriveId(settings.id), settings.at.clone());
        let no = |reason: String| ArchiveError::NoNewDrive { at: at.clone(), reason };
        let known = self.pool_drives.get(id);
        // One that was taken out, or whose entry was deleted while it is in use, is named again too: the next
        // start knows no other drives.
        if !is_named {
            self.prepare_name(&settings)?().map_err(|error| no(error.to_string()))?;
        }
        if known.is_none() {
            let entry = settings.entry(&self.settings.pool);
            self.pool.set_group(id, entry.group);
            self.pool.set_domain(id, entry.domain);
            self.pool_drives.add(settings);
            if self.word_of_drive(id)? == Some(PoolDriveState::Draining) {
                self.pool.set_draining(id, true)?;
            }
        }
        let what = match health {
            DriveHealth::Up | DriveHealth::Full => AddedWhat::InUse,
            _ => match self.replace_drive(id.0, make, accept_loss)? {
                ReplacedDrive::New => AddedWhat::New,
                ReplacedDrive::Returned => AddedWhat::Returned,
            },
        };
        Ok(AddedDrive { id: id.0, what })
    }

    /// Which drive of this instance stands at a place; `None` if there is none.
    fn drive_at(&self, at: &DriveLocation) -> Result<Option<DriveId>, ArchiveError> {
        let no = |reason: String| ArchiveError::NoNewDrive { at: at.clone(), reason };
        match at.read_stamp() {
            Ok(stamp) if stamp.instance != self.instance => {
                Err(no(format!("it holds drive {} of another instance, {}", stamp.drive, stamp.instance)))
            }
            Ok(stamp) => Ok(Some(stamp.drive)),
            Err(DriveOpenError::NotADrive(_)) => Ok(None),
            Err(error) => Err(no(error.to_string())),
        }
    }

    /// The number of one more drive: above all that were ever given, as far as anybody knows.
    fn next_drive(&self, named: &[PoolDriveSettings]) -> Result<Option<DriveId>, ArchiveError> {
        let mut given: BTreeSet<DriveId> = named.iter().map(|drive| DriveId(drive.id)).collect();
        given.extend(self.pool_drives.all().iter().map(|drive| DriveId(drive.id)));
        given.extend(self.pool.drive_health().into_iter().map(|(drive, _)| drive));
        let (words, sets) = self.read(|view| Ok((view.pool_drives()?, view.stripe_sets()?)))?;
        given.extend(words.into_iter().map(|(drive, _)| drive));
        given.extend(sets.into_iter().flat_map(|set| set.drives));
        Ok(given.last().map_or(Some(0), |last| last.0.checked_add(1)).map(DriveId))
    }

    /// Refuses a place in or around that of another drive, or of the catalogue.
    fn check_apart(
        &self,
        drive: &PoolDriveSettings,
        named: &[PoolDriveSettings],
        seen: &SeenPlaces,
    ) -> Result<(), String> {
        // Where one stood that was taken out, and is not named any more, there is none.
        let removed = self.removed_drives();
        let mut known = self.pool_drives.all();
        known.retain(|known| !removed.contains(&DriveId(known.id)));
        let other = known
            .iter()
            .chain(named)
            .find(|other| other.id != drive.id && seen.overlap(&other.at, &drive.at));
        if let Some(other) = other {
            return Err(format!("it is in the place of drive {}, {}, or around it", other.id, other.at));
        }
        let catalogue = &self.settings.catalogue_directory;
        if seen.overlap(&directory(catalogue), &drive.at) {
            return Err(format!("it is in the catalogue's directory {}, or around it", catalogue.display()));
        }
        Ok(())
    }

    /// Where each drive has a file system of its own, a further one that shares it with another is a disk
    /// that was not mounted: refused, unless the operator says that a new directory is meant.
    fn check_own_file_system(&self, at: &DriveLocation, seen: &SeenPlaces) -> Result<(), String> {
        let Some(new) = seen.file_system(at) else { return Ok(()) };
        let others: Vec<(String, u64)> = self
            .pool_drives
            .all()
            .into_iter()
            .filter_map(|drive| Some((format!("drive {}", drive.id), seen.file_system(&drive.at)?)))
            .collect();
        let catalogue = directory(&self.settings.catalogue_directory);
        let catalogue = seen.file_system(&catalogue).map(|of| ("the catalogue".to_owned(), of));
        match shared_with(new, &others, catalogue.as_ref()) {
            Some(other) => Err(format!(
                "it is on the file system of {other}, and each drive of the pool has one of its own: mount \
                 its disk there, or say --new if it is meant to share that one"
            )),
            None => Ok(()),
        }
    }

    /// The newest change of the catalogue, which must not be behind what a drive has seen.
    pub(crate) fn check_not_later(&self, drive: &dyn ObjectDrive) -> Result<u64, ArchiveError> {
        let last = self.read(|view| view.last_change())?;
        if drive.stamp().commit > last {
            let why = "it has seen a later state than the catalogue, which is an older copy";
            return Err(refused(drive.id(), why));
        }
        Ok(last)
    }

    /// After a drive was put in that may hold something, or lack something.
    pub(crate) fn is_put_in(&self, drive: DriveId, at: &DriveLocation) {
        let is_unfilled = at.is_unfilled();
        self.pool.set_filling(drive, is_unfilled);
        self.order(|orders| {
            orders.find_again = true;
            orders.orphans = true;
            if is_unfilled {
                orders.replaced.insert(drive);
            }
        });
        self.some_lost.store(true, Ordering::SeqCst);
    }
}

/// Demands the record of the burn-in that is named, or that no record speaks against the disk.
fn check_burnt_in(wanted: &NewDrive) -> Result<(), ArchiveError> {
    let checked = match wanted.burn_in {
        Some(id) => check_this_burn_in(wanted, id),
        None if wanted.accept_burn_in => Ok(()),
        None => check_any_burn_in(&wanted.at),
    };
    checked.map_err(|reason| ArchiveError::NoNewDrive { at: wanted.at.clone(), reason })
}

/// It was made by a command that may run on another machine, where the same path is another disk: the record
/// tells.
fn check_this_burn_in(wanted: &NewDrive, id: BurnInId) -> Result<(), String> {
    let record = wanted.at.burn_in().map_err(|error| error.to_string())?;
    let record = record.ok_or_else(|| {
        format!("no record of its burn-in {id} is there: burn it in on the server's machine")
    })?;
    if record.id != id {
        return Err(format!(
            "it has the record of another burn-in, {}, not of {id}: burn it in on the server's machine",
            record.id
        ));
    }
    if record.verdict != BurnInVerdict::Passed {
        return Err(format!("its burn-in {id} has not passed, and called it {}", record.verdict.word()));
    }
    match record.doubts().first() {
        Some(doubt) if !wanted.accept_burn_in => Err(format!(
            "its burn-in {id} does not prove the disk: {doubt}; --accept-burn-in adds it all the same"
        )),
        _ => Ok(()),
    }
}

/// A drive that is in use has long been accepted.
fn check_any_burn_in(at: &DriveLocation) -> Result<(), String> {
    if !matches!(at.read_stamp(), Err(DriveOpenError::NotADrive(_))) {
        return Ok(());
    }
    match at.burn_in() {
        Ok(Some(record)) if record.verdict != BurnInVerdict::Passed => Err(format!(
            "its burn-in {} called its disk {}: use another one, or burn it in again; kist pool drive add \
             PATH --accept-burn-in adds it all the same",
            record.id,
            record.verdict.word()
        )),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error}; kist pool drive add PATH --accept-burn-in adds it all the same")),
    }
}

/// With what a new drive shares its file system, if none of the others shares its own with another one.
fn shared_with<'o>(
    new: u64,
    others: &'o [(String, u64)],
    catalogue: Option<&'o (String, u64)>,
) -> Option<&'o str> {
    let own: BTreeSet<u64> = others.iter().map(|(_, of)| *of).collect();
    if own.len() < others.len() {
        return None;
    }
    others.iter().chain(catalogue).find(|(_, of)| *of == new).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_was_not_mounted_is_seen_where_each_drive_has_its_own_file_system() {
        let drive = |id: u64, of| (format!("drive {id}"), of);
        let catalogue = ("the catalogue".to_owned(), 1);
        let apart = [drive(0, 10), drive(1, 11), drive(2, 12)];
        assert_eq!(shared_with(13, &apart, Some(&catalogue)), None);
        assert_eq!(shared_with(11, &apart, Some(&catalogue)), Some("drive 1"));
        assert_eq!(shared_with(1, &apart, Some(&catalogue)), Some("the catalogue"));
        // A trial on one disk.
        let together = [drive(0, 1), drive(1, 1), drive(2, 12)];
        assert_eq!(shared_with(1, &together, Some(&catalogue)), None);
        assert_eq!(shared_with(1, &[], Some(&catalogue)), Some("the catalogue"));
    }
}
