//! Cleaning of drives: who asks, with what, and how often that was used.

use std::collections::BTreeMap;

use base::{LibraryId, Vid};
use catalogue::{CleanerRecord, Command, DriveCleaning, ReadError};
use library::{CleanerInfo, DriveName, Place, TapeAlert};
use scheduler::{CleaningDue, CleaningUrgency, DriveState, Event};

use crate::room::Tape;
use ground::{ArchiveError, CleaningCartridgeInfo, CleaningInfo};

/// Why a cleaning cartridge that was used so often as it may be is used no more.
fn worn(uses: u32) -> String {
    format!("it was used {uses} times (tape.cleaning_uses_max)")
}

impl Tape {
    fn cleaner_records(&self) -> Result<BTreeMap<Vid, CleanerRecord>, ReadError> {
        Ok(self.catalogue.read(|view| view.cleaners())?.into_iter().collect())
    }

    /// Why a cleaning cartridge is not used by policy.
    fn unfit(&self, record: &CleanerRecord) -> Option<String> {
        let most = self.settings.tape.mounts.cleaning.uses_max;
        let is_worn = most > 0 && record.uses >= most;
        record.unfit.clone().or_else(|| is_worn.then(|| worn(record.uses)))
    }

    /// The cleaning cartridges that may be used: first those that were used most, so that they are used up
    /// one after the other.
    fn usable_cleaners(&self) -> Result<Vec<(LibraryId, Vid)>, ReadError> {
        let records = self.cleaner_records()?;
        let record = |cleaner: &CleanerInfo| records.get(&cleaner.vid).cloned().unwrap_or_default();
        let mut usable = self.library.cleaners();
        usable.retain(|cleaner| cleaner.place.is_in_use() && self.unfit(&record(cleaner)).is_none());
        usable.sort_by_key(|cleaner| (std::cmp::Reverse(record(cleaner).uses), cleaner.vid));
        Ok(usable.into_iter().map(|cleaner| (LibraryId(cleaner.library), cleaner.vid)).collect())
    }

    /// What the scheduler is told at the start.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub(crate) fn cleaning_known(&self) -> Result<Vec<Event>, ReadError> {
        let usable = self.usable_cleaners()?;
        *self.inventory.cleaners() = Some(usable.clone());
        let mut known = vec![Event::CleaningCartridges(usable)];
        if self.settings.tape.mounts.cleaning.is_by_policy() {
            let drives = self.catalogue.read(|view| view.drives_cleaning())?;
            let due = |(drive, cleaning)| Some(Event::CleanDrive(drive, Some(due(cleaning)?)));
            known.extend(drives.into_iter().filter_map(due));
        }
        Ok(known)
    }

    /// Tells the scheduler of cleaning cartridges that came, went, or are used no more.
    pub(crate) fn look_at_cleaners(&self) {
        // Before the look: who looks later tells later.
        let mut known = self.inventory.cleaners();
        let usable = match self.usable_cleaners() {
            Ok(usable) => usable,
            Err(error) => {
                tracing::error!(%error, "which cleaning cartridges may be used is not known");
                return;
            }
        };
        if known.as_ref() != Some(&usable) {
            *known = Some(usable.clone());
            self.notifier.post(Event::CleaningCartridges(usable));
        }
    }

    fn drive_cleaning(&self, drive: &str) -> Result<DriveCleaning, ArchiveError> {
        let drives = self.read(|view| view.drives_cleaning())?;
        Ok(drives.into_iter().find(|(name, _)| name == drive).map(|(_, it)| it).unwrap_or_default())
    }

    /// A drive asks to be cleaned, or not any more; durable before the scheduler hears of it, if it can be.
    fn set_asks(&self, drive: &str, urgent: Option<bool>) -> Result<(), ArchiveError> {
        let known = self.drive_cleaning(drive)?;
        if known.asks.map(|asks| asks.urgent) == urgent {
            return Ok(());
        }
        self.execute(Command::SetDriveCleaning { drive: drive.to_owned(), urgent })?;
        let due = due(self.drive_cleaning(drive)?);
        self.notifier.post(Event::CleanDrive(drive.to_owned(), due));
        Ok(())
    }

    /// What a drive said when its tape left it: it asks to be cleaned. One that has asked goes on asking
    /// until it was cleaned, since some tell it once; but where no cleaning cartridge is seen, the library or
    /// somebody may have cleaned it.
    pub(crate) fn heard_of_cleaning(&self, drive: &DriveName, alerts: &[TapeAlert]) {
        let library = self.library.library_of(drive);
        let drive = drive.as_str();
        if !self.settings.tape.mounts.cleaning.is_by_policy() {
            return;
        }
        let urgent = if alerts.contains(&TapeAlert::CLEAN_NOW) {
            Some(true)
        } else if alerts.contains(&TapeAlert::CLEAN_PERIODIC) {
            Some(false)
        } else if !self.library.cleaners().iter().any(|cleaner| cleaner.library == library) {
            None
        } else {
            return;
        };
        let known = self.drive_cleaning(drive).unwrap_or_default().asks;
        // One that must be cleaned does not become less urgent.
        let urgent = urgent.map(|urgent| urgent || known.is_some_and(|asks| asks.urgent));
        self.note_asks(drive, urgent);
    }

    /// The same of a drive that does not work before it is cleaned.
    pub(crate) fn must_be_cleaned(&self, drive: &str) {
        if self.settings.tape.mounts.cleaning.is_by_policy() {
            self.note_asks(drive, Some(true));
        }
    }

    fn note_asks(&self, drive: &str, urgent: Option<bool>) {
        if let Err(error) = self.set_asks(drive, urgent) {
            tracing::error!(drive, %error, "that a drive asks to be cleaned cannot be recorded");
        }
    }

    /// An operator uses a drive as it is.
    pub(crate) fn forget_cleaning(&self, drive: &str) -> Result<(), ArchiveError> {
        self.set_asks(drive, None)?;
        self.notifier.post(Event::CleanDrive(drive.to_owned(), None));
        Ok(())
    }

    /// Has a drive cleaned as soon as its session has ended, with the cartridge `with` or any that may be
    /// used. One that is named is used whatever was counted of it, and counted anew if it was used up. An
    /// order is forgotten if the server ends before it is carried out.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchDrive`], [`ArchiveError::DriveOutOfUse`], [`ArchiveError::NoSuchCleaner`],
    /// [`ArchiveError::NoCleaner`]; if the catalogue cannot be read or written.
    pub fn clean_drive(&self, drive: &str, with: Option<Vid>) -> Result<(), ArchiveError> {
        self.known_drive(drive)?;
        let _one = self.ordering.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let down = self.read(|view| view.drives_down())?;
        if let Some((drive, reason)) = down.into_iter().find(|(name, _)| name == drive) {
            return Err(ArchiveError::DriveOutOfUse { drive, reason });
        }
        let library = self.scheduler().library_of(&drive.to_owned());
        if let Some(vid) = with {
            let is_there =
                |it: &CleanerInfo| it.vid == vid && it.library == library.0 && it.place.is_in_use();
            if !self.library.cleaners().iter().any(is_there) {
                return Err(ArchiveError::NoSuchCleaner { vid, drive: drive.to_owned() });
            }
            let record = self.cleaner_records()?.remove(&vid).unwrap_or_default();
            if self.unfit(&record).is_some() {
                self.execute(Command::CountCleaning { vid, anew: true })?;
                self.look_at_cleaners();
            }
        } else if !self.usable_cleaners()?.iter().any(|(of, _)| *of == library) {
            return Err(ArchiveError::NoCleaner { drive: drive.to_owned() });
        }
        // Its cartridges may have come just now.
        self.look_at_cleaners();
        let cleaned = self.drive_cleaning(drive)?.cleaned;
        let (urgency, since) = (CleaningUrgency::Ordered, self.now());
        let due = CleaningDue { urgency, since, with, cleaned };
        self.notifier.post(Event::CleanDrive(drive.to_owned(), Some(due)));
        Ok(())
    }

    /// Cleaning cartridges, and what is known of the cleaning of drives.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn cleaning(&self) -> Result<CleaningInfo, ArchiveError> {
        let records = self.cleaner_records()?;
        let uses_max = self.settings.tape.mounts.cleaning.uses_max;
        let cleaners = self.library.cleaners().into_iter().map(|cleaner| {
            let record = records.get(&cleaner.vid).cloned().unwrap_or_default();
            let (drive, slot) = match cleaner.place {
                Place::Drive(drive) => (Some(drive.as_str().to_owned()), None),
                Place::Slot(slot) | Place::ImportExport(slot) => (None, Some(slot.0)),
                Place::Unknown => (None, None),
            };
            CleaningCartridgeInfo {
                vid: cleaner.vid,
                library: self.libraries.name(cleaner.library).to_owned(),
                drive,
                slot,
                uses: record.uses,
                uses_max: (uses_max > 0).then_some(uses_max),
                unfit: self.unfit(&record),
            }
        });
        let cleaners = cleaners.collect();
        Ok(CleaningInfo { cleaners, drives: self.read(|view| view.drives_cleaning())? })
    }

    /// What an operator should know: drives that ask to be cleaned and are not, and cartridges that are used
    /// no more.
    pub(crate) fn warn_of_cleaning(&self) -> Vec<String> {
        let unreached = self.library.unreached();
        let (scheduler, now) = (self.scheduler(), self.now());
        // What stands in a library that was not reached is not known, cleaning cartridges too.
        let is_reached = |name: &str| {
            DriveName::new(name).map_or(true, |name| !unreached.contains(&self.library.library_of(&name)))
        };
        let drives: Vec<String> = scheduler
            .drives()
            .filter(|(name, _)| is_reached(name))
            .filter(|(_, state)| !matches!(state, DriveState::Cleaning { .. }))
            .filter_map(|(name, _)| Some(scheduler.why_unclean(name, now)?.to_string()))
            .collect();
        drop(scheduler);
        let cleaners = self.cleaning().unwrap_or_default().cleaners.into_iter().filter_map(|cleaner| {
            let why = cleaner.unfit?;
            Some(format!(
                "cleaning cartridge {0} is used no more ({why}): take it out (kist tape export {0}), and put \
                 another one in",
                cleaner.vid
            ))
        });
        drives.into_iter().chain(cleaners).collect()
    }
}

/// What the scheduler is to know of a drive.
fn due(cleaning: DriveCleaning) -> Option<CleaningDue> {
    let asks = cleaning.asks?;
    let urgency = if asks.urgent { CleaningUrgency::Now } else { CleaningUrgency::Idle };
    Some(CleaningDue { urgency, since: asks.since, with: None, cleaned: cleaning.cleaned })
}
