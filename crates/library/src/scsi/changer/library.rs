//! [`Library`] over a changer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ByteCount, Vid};
use scsi::sense::AdditionalSense;
use scsi::{ElementAddress, ElementType};

use super::barcode::Barcode;
use super::bay::{Bay, BayHandle, BayState, DriveWords};
use super::elements::{Elements, Holdings, OwnElements, SeenElement, holdings};
use super::known::{Known, Mounted};
use super::moving::{Moved, Movement, bring};
use super::reach::{Devices, ScsiLibraryConfig, WantedDrive};
use super::robot::{Abilities, ChangerIdentity, Robot};
use crate::{
    CartridgeInfo, CleanerInfo, DriveName, DrivePlace, Library, LibraryCondition, LibraryError, Place, Slot,
    TapeAlert, TapeDrive, TapeError, Waiter,
};

/// A tape library behind a medium changer.
///
/// It need not be reached when it is made: until it is, it holds nothing and says so
/// ([`Library::out_of_reach`]).
pub struct ScsiLibrary {
    config: ScsiLibraryConfig,
    devices: Arc<dyn Devices>,
    waiter: Arc<dyn Waiter>,
    bays: Vec<Arc<Bay>>,
    /// Held while the robot moves.
    line: Mutex<Line>,
    known: Mutex<Known>,
}

/// The way to the changer.
#[derive(Default)]
pub(super) struct Line {
    robot: Option<Robot>,
    /// It is not tried again before.
    not_before: Option<u64>,
    /// When all elements were last read.
    compared: u64,
}

/// Element status unknown.
const STATUS_UNKNOWN: AdditionalSense = AdditionalSense { asc: 0x53, ascq: 0x08 };

/// What a changer is, has and can, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangerReport {
    /// Who it is.
    pub identity: ChangerIdentity,
    /// Its address.
    pub address: String,
    /// What it can do.
    pub abilities: Abilities,
    /// All elements, those of others too.
    pub elements: Elements,
    /// What it says of itself.
    pub condition: LibraryCondition,
}

impl ChangerReport {
    /// What all elements hold, as if all were ours; drives are named by their elements.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        let drives = self.elements.iter().filter(|(_, element)| element.kind == ElementType::DataTransfer);
        let named = drives.filter_map(|(at, _)| Some((*at, DriveName::new(&at.to_string()).ok()?)));
        let own = OwnElements { slots: None, drives: named.collect() };
        holdings(&self.elements, &own, &BTreeMap::new())
    }
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl ScsiLibrary {
    /// A library of these devices. Tries to reach the changer.
    ///
    /// # Errors
    /// [`LibraryError::DuplicateDrive`].
    pub fn new(
        config: ScsiLibraryConfig,
        devices: Arc<dyn Devices>,
        waiter: Arc<dyn Waiter>,
    ) -> Result<ScsiLibrary, LibraryError> {
        let mut names = BTreeSet::new();
        for (name, _) in &config.drives {
            if !names.insert(name) {
                return Err(LibraryError::DuplicateDrive { drive: name.clone() });
            }
        }
        let bays = config.drives.iter().map(|(name, _)| Bay::new(name.clone())).collect();
        let (line, known) = (Mutex::default(), Mutex::default());
        let library = ScsiLibrary { config, devices, waiter, bays, line, known };
        // What it says is kept, and told by `out_of_reach`.
        let _ = library.refresh(&mut library.line());
        Ok(library)
    }

    /// What the changer is, has and can; `None` if it is not reached.
    #[must_use]
    pub fn report(&self) -> Option<ChangerReport> {
        let line = self.line();
        let robot = line.robot.as_ref()?;
        let elements = self.known().elements.clone()?;
        Some(ChangerReport {
            identity: robot.identity.clone(),
            address: robot.address().to_owned(),
            abilities: robot.abilities.clone(),
            elements,
            condition: self.conditions().pop().unwrap_or_default(),
        })
    }

    /// Cleaning cartridges and what else our elements hold, as last read.
    #[must_use]
    pub fn cleaning_cartridges(&self) -> Vec<super::CleaningCartridge> {
        self.known().holdings().cleaning
    }

    /// Why a drive cannot be used, for those for which that is known.
    #[must_use]
    pub fn missing_drives(&self) -> Vec<(DriveName, String)> {
        let known = self.known();
        let missing = known.seats.iter().filter_map(|(name, seat)| Some((name.clone(), seat.clone().err()?)));
        missing.collect()
    }

    /// Has the robot look at all of our elements with its own eyes. Gives whether it can: where the changer
    /// serves others too, only one that can look at some elements does.
    ///
    /// # Errors
    /// If the changer is not reached, or fails.
    pub fn scan(&self) -> Result<bool, LibraryError> {
        let mut line = self.line();
        let own = self.config.slots.clone();
        let done = self.with_robot(&mut line, |robot| match &own {
            None => robot.initialize(None),
            Some(ranges) => {
                let mut done = true;
                for range in ranges {
                    done &= robot.initialize(Some(range.clone()))?;
                }
                Ok(done)
            }
        })?;
        self.refresh(&mut line)?;
        Ok(done)
    }

    pub(super) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bay(&self, drive: &DriveName) -> Result<&Arc<Bay>, LibraryError> {
        let bay = self.bays.iter().find(|bay| bay.name == *drive);
        bay.ok_or_else(|| LibraryError::UnknownDrive { drive: drive.clone() })
    }

    /// Does something with the changer, which is reached first if need be. After an error of the way to it,
    /// it is looked for anew the next time.
    fn with_robot<T>(
        &self,
        line: &mut Line,
        work: impl FnOnce(&mut Robot) -> Result<T, LibraryError>,
    ) -> Result<T, LibraryError> {
        let result = self.reached(line).and_then(work);
        let trouble = match &result {
            Err(error @ (LibraryError::Path { .. } | LibraryError::NotReached { .. })) => {
                line.robot = None;
                Some(why_of(error))
            }
            Err(error @ (LibraryError::NotReady { .. } | LibraryError::Reserved)) => Some(error.to_string()),
            _ => None,
        };
        self.known().trouble = trouble;
        result
    }

    fn trouble(&self) -> String {
        self.known().trouble.clone().unwrap_or_default()
    }

    fn reached<'a>(&self, line: &'a mut Line) -> Result<&'a mut Robot, LibraryError> {
        if line.robot.is_none() {
            let now = self.waiter.now_us();
            if line.not_before.is_some_and(|not_before| now < not_before) {
                return Err(not_reached(self.trouble()));
            }
            match self.reach() {
                Ok(robot) => (line.robot, line.not_before) = (Some(robot), None),
                Err(error) => {
                    // From now on: the search itself may have taken long.
                    let again = micros(self.config.times.reach_again);
                    let is_away = !matches!(error, LibraryError::NotReady { .. } | LibraryError::Reserved);
                    line.not_before = is_away.then(|| self.waiter.now_us().saturating_add(again));
                    return Err(error);
                }
            }
        }
        line.robot.as_mut().ok_or_else(|| not_reached("it is not reached".to_owned()))
    }

    fn reach(&self) -> Result<Robot, LibraryError> {
        let way = self.devices.changer().map_err(|error| not_reached(error.0))?;
        let mut robot = Robot::open(way, Arc::clone(&self.waiter))?;
        self.check_same(&mut robot)?;
        Ok(robot)
    }

    /// Refuses another changer than the one whose elements are known: what is where was asked of that one.
    fn check_same(&self, robot: &mut Robot) -> Result<(), LibraryError> {
        let known = self.known();
        match &known.identity {
            Some(before) if before.serial != robot.identity.serial => Err(not_reached(format!(
                "{} is the changer with serial number '{}', and was that with '{}': restart the server if \
                 this is meant",
                robot.address(),
                robot.identity.serial,
                before.serial
            ))),
            _ => Ok(()),
        }
    }

    /// Reads all elements.
    pub(super) fn refresh(&self, line: &mut Line) -> Result<(), LibraryError> {
        let is_first = self.known().elements.is_none();
        let (elements, identity, told) = self.with_robot(line, |robot| {
            if !robot.is_the_same()? {
                return Err(not_reached("another changer answers at its address".to_owned()));
            }
            let mut elements = robot.read_all()?;
            if is_first && self.scan_unknown(robot, &elements)? {
                elements = robot.read_all()?;
            }
            Ok((elements, robot.identity.clone(), robot.condition()))
        })?;
        line.compared = self.waiter.now_us();
        let mut known = self.known();
        known.replace(elements, &self.config);
        known.condition.heard(told, line.compared);
        known.identity = Some(identity);
        Ok(())
    }

    /// Has the robot look into slots of ours of which the changer does not know what is in them, as after its
    /// door was opened. Gives whether it did.
    fn scan_unknown(&self, robot: &mut Robot, elements: &Elements) -> Result<bool, LibraryError> {
        let own = OwnElements { slots: self.config.slots.clone(), ..OwnElements::default() };
        let unknown = elements.iter().filter(|(at, element)| {
            element.kind == ElementType::Storage
                && own.has_slot(**at)
                && element.exception == Some(STATUS_UNKNOWN)
        });
        // Run by run: what lies between two of ours may belong to others.
        let mut runs: Vec<RangeInclusive<u16>> = Vec::new();
        for (at, _) in unknown {
            match runs.last_mut() {
                Some(run) if run.end().checked_add(1) == Some(at.0) => *run = *run.start()..=at.0,
                _ => runs.push(at.0..=at.0),
            }
        }
        let mut done = false;
        for run in runs {
            done |= robot.initialize(Some(run))?;
        }
        Ok(done)
    }

    /// Looks at one element and takes over what is there.
    pub(super) fn look(
        &self,
        line: &mut Line,
        kind: ElementType,
        at: ElementAddress,
    ) -> Result<SeenElement, LibraryError> {
        let mut seen = self.with_robot(line, |robot| robot.look(kind, at.0..=at.0))?;
        let Some(element) = seen.remove(&at) else {
            return Err(not_reached(format!("the changer says nothing of element {at}")));
        };
        self.known().amend(Elements::from([(at, element.clone())]), false);
        Ok(element)
    }

    /// Where a drive stands.
    fn seat(&self, line: &mut Line, drive: &DriveName) -> Result<WantedDrive, LibraryError> {
        if self.known().elements.is_none() || line.robot.is_none() {
            self.refresh(line)?;
        }
        let missing = |why: String| LibraryError::DriveMissing { drive: drive.clone(), why };
        match self.known().seats.get(drive) {
            Some(seat) => seat.clone().map_err(missing),
            None => Err(LibraryError::UnknownDrive { drive: drive.clone() }),
        }
    }

    /// The seat of a drive that nothing is in.
    fn empty_seat(&self, line: &mut Line, drive: &DriveName) -> Result<WantedDrive, LibraryError> {
        let seat = self.seat(line, drive)?;
        let element = self.look(line, ElementType::DataTransfer, seat.element)?;
        if element.full {
            let vid = self.in_drive(drive, &seat, &element)?;
            return Err(LibraryError::DriveFull { drive: drive.clone(), vid });
        }
        Ok(seat)
    }

    /// The same, once what an earlier process has left in the drive, and nobody can read the label of there,
    /// is in the slot again from which the changer says it came: a cleaning cartridge, or a tape.
    fn free_seat(
        &self,
        line: &mut Line,
        drive: &DriveName,
        state: &mut BayState,
    ) -> Result<WantedDrive, LibraryError> {
        let occupied = match self.empty_seat(line, drive) {
            Err(error @ LibraryError::DriveOccupied { .. }) if state.loaded.is_none() => error,
            other => return other,
        };
        let seat = self.seat(line, drive)?;
        let left = self.known().element(seat.element).cloned();
        let source = left.filter(|element| element.barcode.is_none()).and_then(|element| element.source);
        let home = source.filter(|at| self.known().is_own_slot(*at));
        let Some(home) = home else { return Err(occupied) };
        if self.look(line, ElementType::Storage, home)?.full {
            return Err(occupied);
        }
        self.open_drive(&seat, state)?;
        if let Some(device) = state.drive.as_mut() {
            // What was not flushed is its business who left it.
            device.unload().map_err(|source| LibraryError::DriveOccupied {
                drive: drive.clone(),
                what: format!("no label ({source})"),
            })?;
        }
        let movement = Movement {
            vid: None,
            barcode: None,
            from: (ElementType::DataTransfer, seat.element),
            to: (ElementType::Storage, home),
        };
        match self.carry(line, &movement)? {
            Moved::There => self.empty_seat(line, drive),
            Moved::Stayed(_) | Moved::DestinationFull | Moved::Lost(_) => Err(occupied),
        }
    }

    pub(super) fn holdings(&self) -> Holdings {
        self.known().holdings()
    }

    fn capacity_of(&self, barcode: Option<&Barcode>) -> ByteCount {
        let by_label = barcode.map_or(ByteCount(0), Barcode::capacity);
        if by_label.0 > 0 { by_label } else { self.config.capacity }
    }

    /// What a full drive holds.
    fn in_drive(
        &self,
        drive: &DriveName,
        seat: &WantedDrive,
        element: &SeenElement,
    ) -> Result<Vid, LibraryError> {
        let mounted = self.known().mounted.get(&seat.element).map(|mounted| mounted.vid);
        let by_label = element.barcode.as_ref().and_then(|barcode| barcode.vid().ok());
        let occupied = || LibraryError::DriveOccupied {
            drive: drive.clone(),
            what: element.barcode.as_ref().map_or_else(|| "no label".to_owned(), ToString::to_string),
        };
        by_label.or(mounted).ok_or_else(occupied)
    }

    /// The slot of a cartridge, looked at: what is known may be old.
    pub(super) fn slot_of(
        &self,
        line: &mut Line,
        vid: Vid,
    ) -> Result<(ElementAddress, Option<Barcode>), LibraryError> {
        for is_fresh in [false, true] {
            if is_fresh {
                self.refresh(line)?;
            }
            let Some(cartridge) = self.holdings().cartridges.remove(&vid) else { continue };
            match cartridge.place {
                Place::Slot(_) => {
                    let element = self.look(line, ElementType::Storage, cartridge.at)?;
                    if element.full && element.barcode == cartridge.barcode {
                        return Ok((cartridge.at, element.barcode));
                    }
                }
                Place::Drive(drive) if is_fresh => {
                    return Err(LibraryError::CartridgeInUse { vid, drive });
                }
                Place::ImportExport(_) | Place::Unknown if is_fresh => {
                    return Err(LibraryError::NotInSlot { vid });
                }
                Place::Drive(_) | Place::ImportExport(_) | Place::Unknown => {}
            }
        }
        Err(LibraryError::UnknownCartridge { vid })
    }

    /// Brings a cartridge home that stands in another drive since before this process: nobody works with it.
    fn clear_other(&self, vid: Vid) -> Result<(), LibraryError> {
        let mut held = self.holdings();
        let of_cleaner = || held.cleaning.into_iter().find(|cleaner| cleaner.vid == Some(vid));
        let place = match held.cartridges.remove(&vid) {
            Some(cartridge) => Some(cartridge.place),
            None => of_cleaner().map(|cleaner| cleaner.place),
        };
        let Some(Place::Drive(other)) = place else { return Ok(()) };
        let bay = self.bay(&other)?;
        let in_use = || LibraryError::CartridgeInUse { vid, drive: other.clone() };
        let mut state = bay.try_lock().ok_or_else(in_use)?;
        if state.loaded.is_some() {
            return Err(in_use());
        }
        self.unmount_from(bay, &mut state).map(|_| ())
    }

    fn mount_into(&self, vid: Vid, bay: &Bay, state: &mut BayState) -> Result<(), LibraryError> {
        let drive = &bay.name;
        let mut line = self.line();
        let seat = self.free_seat(&mut line, drive, state)?;
        let (home, barcode) = self.slot_of(&mut line, vid)?;
        self.open_drive(&seat, state)?;
        self.bring_in(&mut line, &seat, barcode, Mounted { vid, home, is_cleaning: false })?;
        // The robot serves others while the drive loads.
        drop(line);
        state.loaded = Some(vid);
        let loaded = match state.drive.as_mut() {
            Some(device) => device.load(vid),
            None => Err(TapeError::NotLoaded { drive: drive.clone() }),
        };
        let Err(source) = loaded else { return Ok(()) };
        // It goes home again, so that another drive can have it. If that fails too it is found in this drive
        // at its next mount.
        let is_home = self.unmount_from(bay, state).is_ok();
        if matches!(source, TapeError::Path { .. }) {
            state.drive = None;
        }
        Err(LibraryError::LoadFailed { vid, drive: drive.clone(), is_home, source: Box::new(source) })
    }

    /// Moves a cartridge from its slot into a drive that was empty.
    fn bring_in(
        &self,
        line: &mut Line,
        seat: &WantedDrive,
        barcode: Option<Barcode>,
        mounted: Mounted,
    ) -> Result<(), LibraryError> {
        let (vid, drive) = (mounted.vid, &seat.name);
        let movement = Movement {
            vid: Some(vid),
            barcode,
            from: (ElementType::Storage, mounted.home),
            to: (ElementType::DataTransfer, seat.element),
        };
        match self.carry(line, &movement)? {
            Moved::There => {}
            Moved::Stayed(source) => {
                return Err(LibraryError::RobotJam { vid, drive: drive.clone(), source });
            }
            Moved::DestinationFull => {
                let element = self.look(line, ElementType::DataTransfer, seat.element)?;
                let vid = self.in_drive(drive, seat, &element)?;
                return Err(LibraryError::DriveFull { drive: drive.clone(), vid });
            }
            Moved::Lost(source) => return Err(LibraryError::Misplaced { vid, source }),
        }
        self.known().mounted.insert(seat.element, mounted);
        Ok(())
    }

    /// The slot of a cleaning cartridge, looked at.
    pub(super) fn cleaner_in_slot(
        &self,
        line: &mut Line,
        vid: Vid,
    ) -> Result<(ElementAddress, Option<Barcode>), LibraryError> {
        for is_fresh in [false, true] {
            if is_fresh {
                self.refresh(line)?;
            }
            let mut found = self.holdings().cleaning;
            found.retain(|cleaner| cleaner.vid == Some(vid));
            // Of two with one label, one that is in a slot serves as well as one that is in a drive.
            let best = found.into_iter().min_by_key(|cleaner| !matches!(cleaner.place, Place::Slot(_)));
            let Some(cleaner) = best else { continue };
            match cleaner.place {
                Place::Slot(_) => {
                    let element = self.look(line, ElementType::Storage, cleaner.at)?;
                    if element.full && element.barcode == cleaner.barcode {
                        return Ok((cleaner.at, element.barcode));
                    }
                }
                Place::Drive(drive) if is_fresh => return Err(LibraryError::CartridgeInUse { vid, drive }),
                Place::ImportExport(_) | Place::Unknown if is_fresh => {
                    return Err(LibraryError::NotInSlot { vid });
                }
                Place::Drive(_) | Place::ImportExport(_) | Place::Unknown => {}
            }
        }
        Err(LibraryError::UnknownCartridge { vid })
    }

    fn clean_in(
        &self,
        vid: Vid,
        most: std::time::Duration,
        bay: &Bay,
        state: &mut BayState,
    ) -> Result<Vec<TapeAlert>, LibraryError> {
        let drive = &bay.name;
        let mut line = self.line();
        let seat = self.free_seat(&mut line, drive, state)?;
        let (home, barcode) = self.cleaner_in_slot(&mut line, vid)?;
        self.open_drive(&seat, state)?;
        self.bring_in(&mut line, &seat, barcode, Mounted { vid, home, is_cleaning: true })?;
        // The robot serves others while the drive is cleaned.
        drop(line);
        let cleaned = match state.drive.as_mut() {
            Some(device) => device.clean(most),
            None => Err(TapeError::NotLoaded { drive: drive.clone() }),
        };
        let home = self.unmount_from(bay, state);
        if matches!(cleaned, Err(TapeError::Path { .. })) {
            state.drive = None;
        }
        let drive = drive.clone();
        match (cleaned, home) {
            // Somebody was faster: it is not in the drive.
            (Ok(alerts), Ok(_) | Err(LibraryError::DriveEmpty { .. })) => Ok(alerts),
            (Ok(alerts), Err(error)) => {
                Err(LibraryError::CleanerStays { vid, drive, alerts, source: Box::new(error) })
            }
            (Err(source), home) => {
                let is_home = matches!(home, Ok(_) | Err(LibraryError::DriveEmpty { .. }));
                Err(LibraryError::NotCleaned { vid, drive, is_home, source: Box::new(source) })
            }
        }
    }

    /// The drive, reached before a cartridge is brought to it.
    fn open_drive(&self, seat: &WantedDrive, state: &mut BayState) -> Result<(), LibraryError> {
        if state.drive.is_none() {
            let missing = |error: super::Unreached| LibraryError::DriveMissing {
                drive: seat.name.clone(),
                why: error.0,
            };
            let drive = self.devices.drive(seat).map_err(missing)?;
            let told = DriveWords { abilities: drive.abilities(), product: drive.product() };
            *self.bay(&seat.name)?.told() = told;
            state.drive = Some(drive);
        }
        Ok(())
    }

    /// Moves a cartridge and takes over what the two elements show.
    pub(super) fn carry(&self, line: &mut Line, movement: &Movement) -> Result<Moved, LibraryError> {
        let times = &self.config.times;
        let moved = self.with_robot(line, |robot| bring(robot, movement, times))?;
        let is_as_told = matches!(moved, Moved::There | Moved::Stayed(_));
        for (kind, at) in [movement.from, movement.to] {
            // What cannot be read now is read with the next inventory.
            if let Ok(seen) = self.with_robot(line, |robot| robot.look(kind, at.0..=at.0)) {
                self.known().amend(seen, is_as_told);
            } else if let Some(robot) = &mut line.robot {
                robot.is_stale = true;
            }
        }
        if let (Moved::Lost(_), Some(robot)) = (&moved, &mut line.robot) {
            robot.is_stale = true;
            // The hand too.
            let _ = self.refresh(line);
        }
        Ok(moved)
    }

    fn unmount_from(&self, bay: &Bay, state: &mut BayState) -> Result<Vid, LibraryError> {
        let drive = &bay.name;
        let (seat, vid, source) = {
            let mut line = self.line();
            let seat = self.seat(&mut line, drive)?;
            let element = self.look(&mut line, ElementType::DataTransfer, seat.element)?;
            if !element.full {
                state.loaded = None;
                self.known().mounted.remove(&seat.element);
                return Err(LibraryError::DriveEmpty { drive: drive.clone() });
            }
            let vid = self.in_drive(drive, &seat, &element)?;
            (seat, vid, element.source)
        };
        self.open_drive(&seat, state)?;
        // The robot serves others while the drive flushes and rewinds.
        let unloaded = match state.drive.as_mut() {
            Some(device) => device.unload(),
            None => Ok(None),
        };
        let flush = unloaded.map_err(|source| self.not_unloaded(drive, vid, source, state))?;
        let mut line = self.line();
        self.bring_home(&mut line, drive, &seat, vid, source)?;
        state.loaded = None;
        self.known().mounted.remove(&seat.element);
        match flush {
            Some(source) => Err(LibraryError::UnmountFlush { vid, source: Box::new(source) }),
            None => Ok(vid),
        }
    }

    fn not_unloaded(
        &self,
        drive: &DriveName,
        vid: Vid,
        source: TapeError,
        state: &mut BayState,
    ) -> LibraryError {
        if matches!(source, TapeError::Path { .. }) {
            state.drive = None;
        }
        LibraryError::UnloadFailed { vid, drive: drive.clone(), source: Box::new(source) }
    }

    /// Brings what is in a drive into a slot: its own, by our word or the changer's, or else any that is
    /// free.
    fn bring_home(
        &self,
        line: &mut Line,
        drive: &DriveName,
        seat: &WantedDrive,
        vid: Vid,
        source: Option<ElementAddress>,
    ) -> Result<(), LibraryError> {
        let mut tried = BTreeSet::new();
        for is_fresh in [false, true] {
            if is_fresh {
                // What was known may be old.
                self.refresh(line)?;
            }
            let slots = self.slots_for(seat, source);
            let barcode = self.known().element(seat.element).and_then(|element| element.barcode.clone());
            for slot in slots {
                if !tried.insert(slot) || self.look(line, ElementType::Storage, slot)?.full {
                    continue;
                }
                let movement = Movement {
                    vid: Some(vid),
                    barcode: barcode.clone(),
                    from: (ElementType::DataTransfer, seat.element),
                    to: (ElementType::Storage, slot),
                };
                match self.carry(line, &movement)? {
                    Moved::There => return Ok(()),
                    // Somebody was faster.
                    Moved::DestinationFull => {}
                    Moved::Stayed(source) => {
                        return Err(LibraryError::NotTaken { vid, drive: drive.clone(), source });
                    }
                    Moved::Lost(source) => {
                        self.known().mounted.remove(&seat.element);
                        return Err(LibraryError::Misplaced { vid, source });
                    }
                }
            }
        }
        Err(LibraryError::NoFreeSlot { vid, drive: drive.clone() })
    }

    /// The slots that what is in a drive may go to, the best first.
    fn slots_for(&self, seat: &WantedDrive, source: Option<ElementAddress>) -> Vec<ElementAddress> {
        let known = self.known();
        let home = known.mounted.get(&seat.element).map(|mounted| mounted.home);
        let all = home.into_iter().chain(source);
        let mut slots: Vec<ElementAddress> = all.filter(|at| known.is_own_slot(*at)).collect();
        slots.extend(known.free_slots());
        slots
    }
}

/// What is told of an error of the way to a changer.
fn why_of(error: &LibraryError) -> String {
    match error {
        LibraryError::NotReached { why } => why.clone(),
        other => other.to_string(),
    }
}

fn not_reached(why: String) -> LibraryError {
    LibraryError::NotReached { why }
}

impl Library for ScsiLibrary {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let known = self.known();
        if let (Some(_), Some(trouble)) = (&known.elements, &known.trouble) {
            return Err(not_reached(trouble.clone()));
        }
        let held = known.holdings().cartridges.into_iter();
        Ok(held
            .map(|(vid, cartridge)| CartridgeInfo {
                vid,
                place: cartridge.place,
                capacity: self.capacity_of(cartridge.barcode.as_ref()),
                write_protected: false,
                damaged: false,
                library: 0,
            })
            .collect())
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        // A robot on its way is not held up, and holds up nobody: what it hears is counted.
        let mut line = match self.line.try_lock() {
            Ok(line) => line,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Ok(self.known().changes),
        };
        let is_due = self.waiter.now_us().saturating_sub(line.compared) >= micros(self.config.times.compare);
        let asked = self.with_robot(&mut line, |robot| {
            robot.ready(std::time::Duration::ZERO)?;
            Ok(robot.is_stale)
        });
        let is_new = self.known().elements.is_none();
        let asked = asked.and_then(|is_stale| match is_stale || is_due || is_new {
            true => self.refresh(&mut line),
            false => Ok(()),
        });
        let known = self.known();
        match asked {
            // Until it is reached for the first time it holds nothing: that is no failure, and is told.
            Err(_) if known.elements.is_none() => Ok(known.changes),
            asked => asked.map(|()| known.changes),
        }
    }

    fn look_again(&self, scan: bool) -> Result<(), LibraryError> {
        // Whoever asks for it may just have mended what was in the way: that it rests after a search that
        // failed is for the question that is asked all the time.
        self.line().not_before = None;
        match scan {
            true => self.scan().map(drop),
            false => self.refresh(&mut self.line()),
        }
    }

    fn without_vid(&self) -> Vec<String> {
        self.holdings().without_vid
    }

    fn out_of_reach(&self) -> Vec<String> {
        let known = self.known();
        let drives = known
            .seats
            .iter()
            .filter_map(|(name, seat)| seat.as_ref().err().map(|why| format!("drive {name}: {why}")));
        let trouble = known.trouble.iter().map(|why| not_reached(why.clone()).to_string());
        trouble.chain(drives).collect()
    }

    fn unreached(&self) -> Vec<u16> {
        if self.known().elements.is_some() { Vec::new() } else { vec![0] }
    }

    fn conditions(&self) -> Vec<LibraryCondition> {
        let now = self.waiter.now_us();
        self.known().condition.told(now).into_iter().collect()
    }

    fn drives(&self) -> Vec<DriveName> {
        self.bays.iter().map(|bay| bay.name.clone()).collect()
    }

    fn library_of(&self, _drive: &DriveName) -> u16 {
        0
    }

    fn drive_place(&self, drive: &DriveName) -> DrivePlace {
        let element =
            self.known().seats.get(drive).and_then(|seat| Some(seat.as_ref().ok()?.element.0.into()));
        let DriveWords { abilities, product } =
            self.bay(drive).map(|bay| bay.told().clone()).unwrap_or_default();
        DrivePlace { element, abilities, product }
    }

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        let bay = self.bay(name)?;
        let mut state = bay.lock();
        if state.is_taken {
            return Err(LibraryError::DriveTaken { drive: name.clone() });
        }
        state.is_taken = true;
        Ok(Box::new(BayHandle(Arc::clone(bay))))
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let bay = self.bay(drive)?;
        let mut state = bay.lock();
        let result = self.mount_into(vid, bay, &mut state);
        match result {
            Err(LibraryError::CartridgeInUse { .. }) => {
                self.clear_other(vid)?;
                self.mount_into(vid, bay, &mut state)
            }
            other => other,
        }
    }

    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError> {
        let bay = self.bay(drive)?;
        let mut state = bay.lock();
        self.unmount_from(bay, &mut state)
    }

    fn cleaners(&self) -> Vec<CleanerInfo> {
        let cleaning = self.holdings().cleaning.into_iter();
        let mut all: Vec<CleanerInfo> = cleaning
            .filter_map(|it| Some(CleanerInfo { vid: it.vid?, place: it.place, library: 0 }))
            .collect();
        all.sort_by_key(|cleaner| cleaner.vid);
        all
    }

    fn clean(
        &self,
        vid: Vid,
        drive: &DriveName,
        most: std::time::Duration,
    ) -> Result<Vec<TapeAlert>, LibraryError> {
        let bay = self.bay(drive)?;
        let mut state = bay.lock();
        match self.clean_in(vid, most, bay, &mut state) {
            Err(LibraryError::CartridgeInUse { .. }) => {
                self.clear_other(vid)?;
                self.clean_in(vid, most, bay, &mut state)
            }
            other => other,
        }
    }

    fn export(&self, vid: Vid) -> Result<Slot, LibraryError> {
        self.export_from_slot(vid)
    }

    fn import(&self, vid: Vid) -> Result<Slot, LibraryError> {
        self.import_into_slot(vid)
    }
}
