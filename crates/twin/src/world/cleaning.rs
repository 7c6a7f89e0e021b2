//! Drives get dirty, ask to be cleaned, and are, with cartridges that are used up.

use base::{Duration, LibraryId, Timestamp, Vid};
use scheduler::{CLEAN_IDLE_MAX, CleaningDue, CleaningEnd, CleaningUrgency, DriveState, Event};

use super::World;
use super::agenda::What;
use super::drives::Phase;
use super::invariants::Check;
use super::planted::Planted;
use crate::holdings::Holdings;
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::{FaultKind, Model};

/// Cleaning cartridges of a library.
const CARTRIDGES: usize = 2;
/// What a cleaning takes: two minutes, as LTO drives say (IBM and HPE name two to five).
const CLEANS: Duration = Duration::from_secs(120);
/// An operator puts a new cartridge in for one that is used up after so long.
const REPLACED_AFTER: Duration = Duration::from_secs(6 * 3600);
/// A drive that asks in idle time only goes first after a day; half a day later it has been cleaned, unless
/// something keeps it from that.
const CLEANED_WITHIN: Duration = Duration::from_secs(12 * 3600);
/// What has kept a drive from being cleaned may have ended just now.
const JUST_NOW: Duration = Duration::from_secs(3600);

/// What is known of cleaning, by everybody but the scheduler.
pub(super) struct Cleaning {
    /// Some fault has to do with it: else there are no cartridges, and nobody is told of any.
    is_modelled: bool,
    /// Cartridges that can be used, the first to be used first.
    usable: Vec<(LibraryId, Vid)>,
    /// How many there were by now.
    made: u32,
    /// By drive: what it asks for, and when it was cleaned last.
    asks: Vec<Option<CleaningDue>>,
    cleaned: Vec<Option<Timestamp>>,
}

impl Cleaning {
    pub(super) fn new(model: &Model, drives: usize) -> Self {
        let kinds = [FaultKind::DirtyDrive, FaultKind::CleanerUsedUp];
        let is_modelled = model.faults.iter().any(|fault| kinds.contains(&fault.kind));
        let mut cleaning = Cleaning {
            is_modelled,
            usable: Vec::new(),
            made: 0,
            asks: vec![None; drives],
            cleaned: vec![None; drives],
        };
        for library in 0..model.site.libraries.len() {
            (0..CARTRIDGES).for_each(|_| cleaning.put_in(library));
        }
        cleaning
    }

    fn put_in(&mut self, library: usize) {
        self.made += 1;
        let name = format!("CLN{:03}", self.made % 1_000);
        if let (Ok(vid), Ok(library)) = (Vid::new(&name), u16::try_from(library)) {
            self.usable.push((LibraryId(library), vid));
        }
    }
}

impl World<'_> {
    /// Tells the scheduler of cartridges, and of drives that ask.
    pub(super) fn tell_cleaning(&mut self) {
        if !self.cleaning.is_modelled {
            return;
        }
        self.tell(Event::CleaningCartridges(self.cleaning.usable.clone()));
        for drive in 0..self.drives.len() {
            if let Some(due) = self.cleaning.asks[drive] {
                let name = self.drives[drive].name.clone();
                self.tell(Event::CleanDrive(name, Some(due)));
            }
        }
    }

    /// A drive asks to be cleaned, before its next mount or in idle time.
    pub(super) fn gets_dirty(&mut self, drive: usize, must: bool) {
        let known = self.cleaning.asks[drive];
        let urgency = if must { CleaningUrgency::Now } else { CleaningUrgency::Idle };
        if known.is_some_and(|known| known.urgency >= urgency) {
            return;
        }
        self.meter.fault(FaultKind::DirtyDrive);
        let cleaned = self.cleaning.cleaned[drive];
        let due = CleaningDue { urgency, since: self.now.timestamp(), with: None, cleaned };
        self.cleaning.asks[drive] = Some(due);
        if self.planted != Some(Planted::ForgetDirtyDrives) {
            let name = self.drives[drive].name.clone();
            self.tell(Event::CleanDrive(name, Some(due)));
        }
    }

    /// A robot brings a cleaning cartridge into an empty drive.
    pub(super) fn clean(&mut self, drive: usize, vid: Vid) {
        self.checked(Check::CleanerInOneDrive);
        let holds = |phase: &Phase| matches!(phase, Phase::Cleaning { vid: held, .. } if *held == vid);
        if let Some(other) = self.drives.iter().position(|it| holds(&it.phase)) {
            return self.violated(format!("{vid} is to clean drive {drive}, and is in drive {other}"));
        }
        if !self.cleaning.usable.contains(&(self.library_id(drive), vid)) {
            return self.violated(format!("drive {drive} is to be cleaned with {vid}, which it cannot be"));
        }
        if self.drives[drive].phase != Phase::Empty {
            if self.drives[drive].phase != Phase::Broken {
                let phase = self.drives[drive].phase.clone();
                self.violated(format!("drive {drive} is to be cleaned, and does {phase:?}"));
            }
            return self.refuses(drive, vid);
        }
        self.drives[drive].phase = Phase::Cleaning { vid, is_out: false };
        self.trail(drive, self.now, DriveActivity::Mount);
        let there = self.robot(drive, self.now);
        self.drive_at(drive, there.plus(CLEANS));
    }

    /// The drive has done with its cleaning cartridge; then the robot has brought that home.
    pub(super) fn cleans_on(&mut self, drive: usize, vid: Vid, is_out: bool) {
        if !is_out {
            // Not before: a robot that is given the move earlier would wait for it.
            let at = self.robot(drive, self.now);
            self.drives[drive].phase = Phase::Cleaning { vid, is_out: true };
            return self.drive_at(drive, at);
        }
        self.drives[drive].phase = Phase::Empty;
        self.meter.drive(self.now, drive, DriveActivity::Idle);
        let library = self.drives[drive].library;
        let end = if self.libraries[library].away_until > self.now {
            self.meter.fault(FaultKind::LibraryAway);
            CleaningEnd::Failed("the library is not reached".to_owned())
        } else if self.pending.take(FaultKind::CleanerUsedUp) {
            self.meter.fault(FaultKind::CleanerUsedUp);
            self.cleaning.usable.retain(|(_, other)| *other != vid);
            self.agenda.enter(self.now.plus(REPLACED_AFTER), What::NewCleaner { library: library as u16 });
            self.tell(Event::CleaningCartridges(self.cleaning.usable.clone()));
            CleaningEnd::Unfit
        } else {
            self.cleaning.asks[drive] = None;
            self.cleaning.cleaned[drive] = Some(self.now.timestamp());
            CleaningEnd::Cleaned
        };
        let name = self.drives[drive].name.clone();
        self.tell(Event::Cleaned(name, end));
    }

    /// An operator puts a new cartridge in.
    pub(super) fn new_cleaner(&mut self, library: usize) {
        self.cleaning.put_in(library);
        self.tell(Event::CleaningCartridges(self.cleaning.usable.clone()));
    }

    /// What a drive that was broken until now says to what it was ordered to take; `None`: that was a tape.
    pub(super) fn says_it_was_broken(&self, vid: Vid) -> Option<CleaningEnd> {
        let is_tape = Holdings::index_of(vid).is_some_and(|tape| (tape.0 as usize) < self.tapes.len());
        (!is_tape).then(|| CleaningEnd::Failed("it was broken until now".to_owned()))
    }

    /// A drive that asks is cleaned in the end, unless something keeps it from that which the scheduler can
    /// name.
    pub(super) fn check_cleaning(&mut self) {
        if !self.cleaning.is_modelled || !self.is_up {
            return;
        }
        self.checked(Check::DirtyDriveIsCleaned);
        let before = Moment(self.now.0.saturating_sub(JUST_NOW.as_micros() as u64));
        let mut forgotten = None;
        for (name, state) in self.scheduler.drives() {
            let Some(drive) = self.names.get(name).copied() else { continue };
            let Some(asks) = self.cleaning.asks[drive] else { continue };
            let is_late = asks.since.plus(CLEAN_IDLE_MAX + CLEANED_WITHIN) < self.now.timestamp();
            let is_free = matches!(state, DriveState::Empty | DriveState::Idle { .. });
            let jammed = self.libraries[self.drives[drive].library].jammed_until > before;
            let is_kept = jammed || self.scheduler.cleaning_bar(name, before.timestamp()).is_some();
            if is_late && is_free && !is_kept {
                forgotten = Some(format!("drive {name} asks to be cleaned since {}, and is not", asks.since));
            }
        }
        forgotten.into_iter().for_each(|what| self.violated(what));
    }
}
