//! The virtual library: a directory of cartridges, drives and robots in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use base::{ByteCount, Vid};

use super::atomic;
use super::cartridge::{self, Cartridge};
use super::cleaning::Cleaners;
#[cfg(feature = "faults")]
use super::faults::{DriveCommand, Faults};
use super::identity::{Identity, VirtualCartridgeOptions};
use super::tape_drive::{DriveBay, Loaded, VirtualDrive};
use super::timed::{Timed, VirtualTiming};
use crate::{
    CartridgeInfo, CleanerInfo, DriveName, Library, LibraryError, Place, Slot, TapeAlert, TapeDrive,
    TapeError,
};
#[cfg(feature = "faults")]
use crate::{DeviceError, Sense};

/// The most cartridges of one library.
const CARTRIDGES_MAX: usize = 1 << 20;
/// The import/export elements of one library.
const IMPORT_EXPORT_MAX: usize = 128;
/// Of what is no cartridge so many are told.
const WITHOUT_VID_MAX: usize = 100;

/// What a virtual library consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualLibraryConfig {
    /// The drives.
    pub drives: Vec<DriveName>,
    /// The robots, at least one. Drive `i` is served by robot `i` modulo their number.
    pub robots: u32,
    /// The cartridges to create, and what the data partition of each holds. Opening does not look at them:
    /// there the cartridges are those found in the directory.
    pub cartridges: Vec<(Vid, ByteCount)>,
    /// How the created cartridges are divided.
    pub options: VirtualCartridgeOptions,
    /// Whether pages of the data partition leave the page cache after a flush: keeps memory for the pool
    /// where tapes are large, costs speed where a tape is read back soon.
    pub drop_cache: bool,
}

/// A tape library made of files: `<directory>/cartridges/<VID>/`, and `<directory>/import-export/<VID>/` for
/// cartridges that come and go. `<directory>/cleaning/<VID>` is a cleaning cartridge; a file that holds a
/// number says how often it cleans still. Which cartridge is in which drive is not kept: after opening all
/// are in their slots.
pub struct VirtualLibrary {
    cartridges_directory: PathBuf,
    /// Need not be there: who puts nothing in and takes nothing out has none.
    import_export_directory: PathBuf,
    /// Need not be there either.
    cleaners: Cleaners,
    bays: Vec<Arc<DriveBay>>,
    robots: Vec<Mutex<()>>,
    cartridges: Mutex<Shelves>,
    timed: Option<Arc<Timed>>,
    #[cfg(feature = "faults")]
    faults: Faults,
}

/// What stands in the directory of cartridges, as last looked at.
#[derive(Default)]
struct Shelves {
    by_vid: BTreeMap<Vid, Shelf>,
    /// Those in import/export elements. An element's number is the cartridge's rank by VID.
    import_export: BTreeMap<Vid, Shelf>,
    /// Paths of what is there and is no cartridge.
    without_vid: Vec<String>,
    /// The times of the directories when they were looked at.
    seen: Option<Times>,
    /// Whether it must be looked at again even if its time has not changed: it may have changed within one
    /// step of its clock, or a cartridge that is gone is in a drive.
    again: bool,
    changes: u64,
}

/// When the directories of cartridges and of import/export elements were changed last.
type Times = (SystemTime, Option<SystemTime>);

/// A cartridge's row in the inventory. Its slot is its rank by VID.
struct Shelf {
    /// `None` if the directory does not say what it should.
    identity: Option<Identity>,
    drive: Option<DriveName>,
}

impl VirtualLibrary {
    /// Makes a library in `directory`, which is created if it does not exist, and opens it. Durable on
    /// return.
    ///
    /// # Errors
    /// [`LibraryError::CartridgeExists`] if one of the cartridges does, then those in front of it were made.
    pub fn create(directory: &Path, config: &VirtualLibraryConfig) -> Result<Self, LibraryError> {
        let cartridges = directory.join("cartridges");
        fs::create_dir_all(&cartridges).map_err(directory_error(&cartridges))?;
        atomic::sync_directory(directory).map_err(directory_error(directory))?;
        let library = Self::open(directory, config)?;
        for (vid, capacity) in &config.cartridges {
            library.add_cartridge(*vid, *capacity, &config.options)?;
        }
        Ok(library)
    }

    /// Opens the library in `directory`. `config.cartridges` and `config.options` are not looked at.
    ///
    /// # Errors
    /// If the directory is not a library, or the configuration contradicts itself. A single damaged cartridge
    /// is no error: the inventory shows it.
    pub fn open(directory: &Path, config: &VirtualLibraryConfig) -> Result<Self, LibraryError> {
        Self::open_with(directory, config, None)
    }

    /// Opens the library in `directory` as [`VirtualLibrary::open`] does, with drives and robots that take
    /// the time of real ones. `config.robots` is not looked at.
    ///
    /// # Errors
    /// As [`VirtualLibrary::open`]; [`LibraryError::Scale`] if the scale of time is no positive number.
    pub fn open_timed(
        directory: &Path,
        config: &VirtualLibraryConfig,
        timing: VirtualTiming,
    ) -> Result<Self, LibraryError> {
        Self::open_with(directory, config, Some(Arc::new(Timed::new(timing)?)))
    }

    fn open_with(
        directory: &Path,
        config: &VirtualLibraryConfig,
        timed: Option<Arc<Timed>>,
    ) -> Result<Self, LibraryError> {
        if config.robots == 0 {
            return Err(LibraryError::NoRobot);
        }
        #[cfg(feature = "faults")]
        let faults = Faults::default();
        let mut bays: Vec<Arc<DriveBay>> = Vec::new();
        for drive in &config.drives {
            if bays.iter().any(|bay| bay.name == *drive) {
                return Err(LibraryError::DuplicateDrive { drive: drive.clone() });
            }
            bays.push(Arc::new(DriveBay::new(
                drive.clone(),
                config.drop_cache,
                timed.clone(),
                #[cfg(feature = "faults")]
                faults.clone(),
            )));
        }
        let cartridges_directory = directory.join("cartridges");
        let import_export_directory = directory.join("import-export");
        let seen = times_of(&cartridges_directory, &import_export_directory)?;
        let cartridges = read_all(&cartridges_directory, &import_export_directory)?;
        let cartridges = Shelves { seen: Some(seen), again: true, ..cartridges };
        Ok(VirtualLibrary {
            cartridges_directory,
            import_export_directory,
            cleaners: Cleaners::new(directory.join("cleaning")),
            robots: (0..config.robots.min(config.drives.len().max(1) as u32))
                .map(|_| Mutex::new(()))
                .collect(),
            bays,
            cartridges: Mutex::new(cartridges),
            timed,
            #[cfg(feature = "faults")]
            faults,
        })
    }

    /// Adds a blank cartridge. Durable on return.
    ///
    /// # Errors
    /// [`LibraryError::CartridgeExists`]; others as the variants say.
    pub fn add_cartridge(
        &self,
        vid: Vid,
        capacity: ByteCount,
        options: &VirtualCartridgeOptions,
    ) -> Result<(), LibraryError> {
        let mut cartridges = self.lock_cartridges();
        if cartridges.by_vid.contains_key(&vid) || cartridges.import_export.contains_key(&vid) {
            return Err(LibraryError::CartridgeExists { vid });
        }
        if cartridges.by_vid.len() >= CARTRIDGES_MAX {
            return Err(LibraryError::LibraryFull { max: CARTRIDGES_MAX });
        }
        cartridge::create(&self.cartridges_directory, vid, capacity, options)?;
        let identity = Some(Identity::new(vid, capacity, options));
        cartridges.by_vid.insert(vid, Shelf { identity, drive: None });
        cartridges.changes += 1;
        Ok(())
    }

    /// Adds a cleaning cartridge that cleans so often. Durable on return.
    ///
    /// # Errors
    /// [`LibraryError::CartridgeExists`], [`LibraryError::Directory`].
    pub fn add_cleaning_cartridge(&self, vid: Vid, uses: u32) -> Result<(), LibraryError> {
        self.cleaners.add(vid, uses)
    }

    /// Turns the write protection of a cartridge in a slot on or off. Durable on return.
    ///
    /// # Errors
    /// [`LibraryError::CartridgeInUse`] if it is in a drive.
    pub fn set_write_protected(&self, vid: Vid, on: bool) -> Result<(), LibraryError> {
        let mut cartridges = self.lock_cartridges();
        let shelf = cartridges.by_vid.get_mut(&vid).ok_or(LibraryError::UnknownCartridge { vid })?;
        if let Some(drive) = &shelf.drive {
            return Err(LibraryError::CartridgeInUse { vid, drive: drive.clone() });
        }
        let directory = self.directory_of(vid);
        let _lock = cartridge::lock(&directory, vid, true)?;
        let identity = Identity { write_protected: on, ..Identity::read(&directory, vid)? };
        identity.write(&directory)?;
        shelf.identity = Some(identity);
        cartridges.changes += 1;
        Ok(())
    }

    /// The faults planned for this library.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    fn directory_of(&self, vid: Vid) -> PathBuf {
        self.cartridges_directory.join(vid.as_str())
    }

    fn lock_cartridges(&self) -> MutexGuard<'_, Shelves> {
        self.cartridges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The drive, and its robot's lock. Robots that take time are given their moves one by one instead.
    fn bay(&self, drive: &DriveName) -> Result<(&Arc<DriveBay>, Option<MutexGuard<'_, ()>>), LibraryError> {
        let unknown = || LibraryError::UnknownDrive { drive: drive.clone() };
        let index = self.bays.iter().position(|bay| bay.name == *drive).ok_or_else(unknown)?;
        let bay = self.bays.get(index).ok_or_else(unknown)?;
        let robot = self.robots.get(index % self.robots.len().max(1)).ok_or(LibraryError::NoRobot)?;
        let lock = || robot.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((bay, self.timed.is_none().then(lock)))
    }

    /// Takes a cartridge off its shelf, so that no other mount can.
    fn reserve(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let mut cartridges = self.lock_cartridges();
        cartridges.in_slot(vid)?.drive = Some(drive.clone());
        Ok(())
    }

    /// The robot takes its time, and holds up nobody who asks what is where.
    fn robot_moves(&self) {
        if let Some(timed) = &self.timed {
            timed.move_cartridge();
        }
    }

    /// Moves a cartridge that no drive holds from one directory to the other. Durable on return.
    fn rename(&self, vid: Vid, from: &Path, to: &Path) -> Result<(), LibraryError> {
        #[cfg(feature = "faults")]
        if self.faults.jams(vid) {
            return Err(LibraryError::NotMoved { vid, source: DeviceError::Sense(Sense::MOVE_FAILED) });
        }
        let (old, new) = (from.join(vid.as_str()), to.join(vid.as_str()));
        // Another process may be reading it.
        let _lock = cartridge::lock(&old, vid, true)?;
        fs::rename(old, new).map_err(directory_error(to))?;
        for directory in [to, from] {
            atomic::sync_directory(directory).map_err(directory_error(directory))?;
        }
        Ok(())
    }

    fn put_back(&self, vid: Vid) {
        if let Some(shelf) = self.lock_cartridges().by_vid.get_mut(&vid) {
            shelf.drive = None;
        }
    }

    /// What stands in the slot from which this cartridge is taken: by plan another one.
    fn taken_from_slot(&self, vid: Vid) -> Vid {
        #[cfg(feature = "faults")]
        if let Some(stray) = self.faults.stray(vid) {
            return stray;
        }
        vid
    }
}

impl Library for VirtualLibrary {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let cartridges = self.lock_cartridges();
        let in_slots = cartridges.by_vid.iter().enumerate().map(|(rank, (vid, shelf))| {
            (vid, shelf, shelf.drive.clone().map_or(Place::Slot(Slot(rank as u32)), Place::Drive))
        });
        let in_elements = cartridges.import_export.iter().enumerate();
        let in_elements =
            in_elements.map(|(rank, (vid, shelf))| (vid, shelf, Place::ImportExport(Slot(rank as u32))));
        let rows = in_slots.chain(in_elements).map(|(vid, shelf, place)| CartridgeInfo {
            vid: *vid,
            place,
            capacity: ByteCount(shelf.identity.map_or(0, |identity| identity.data.total)),
            write_protected: shelf.identity.is_some_and(|identity| identity.write_protected),
            damaged: shelf.identity.is_none(),
            library: 0,
        });
        let mut rows: Vec<CartridgeInfo> = rows.collect();
        rows.sort_by_key(|row| row.vid);
        Ok(rows)
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        // Before the names are read: what comes meanwhile gives the directory another time.
        let times = times_of(&self.cartridges_directory, &self.import_export_directory)?;
        let mut cartridges = self.lock_cartridges();
        if cartridges.seen != Some(times) || cartridges.again {
            cartridges.look_again(&self.cartridges_directory, &self.import_export_directory, times)?;
        } else {
            cartridges.look_at_unidentified(&self.cartridges_directory);
        }
        Ok(cartridges.changes)
    }

    fn look_again(&self, _scan: bool) -> Result<(), LibraryError> {
        self.lock_cartridges().again = true;
        self.changes().map(drop)
    }

    fn without_vid(&self) -> Vec<String> {
        self.lock_cartridges().without_vid.clone()
    }

    fn out_of_reach(&self) -> Vec<String> {
        Vec::new()
    }

    fn library_of(&self, _drive: &DriveName) -> u16 {
        0
    }

    fn drives(&self) -> Vec<DriveName> {
        self.bays.iter().map(|bay| bay.name.clone()).collect()
    }

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        let bay = self.bays.iter().find(|bay| bay.name == *name);
        let bay = bay.ok_or_else(|| LibraryError::UnknownDrive { drive: name.clone() })?;
        let mut state = bay.lock();
        if state.taken {
            return Err(LibraryError::DriveTaken { drive: name.clone() });
        }
        state.taken = true;
        Ok(Box::new(VirtualDrive::new(Arc::clone(bay))))
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let (bay, _robot) = self.bay(drive)?;
        let mut state = bay.lock();
        if let Some(loaded) = &state.loaded {
            return Err(LibraryError::DriveFull { drive: drive.clone(), vid: loaded.cartridge.vid() });
        }
        self.reserve(vid, drive)?;
        #[cfg(feature = "faults")]
        if self.faults.jams(vid) {
            self.put_back(vid);
            let source = DeviceError::Sense(Sense::MOVE_FAILED);
            return Err(LibraryError::RobotJam { vid, drive: drive.clone(), source });
        }
        #[cfg(feature = "faults")]
        if self.faults.is_dead(drive, DriveCommand::Load) {
            self.put_back(vid);
            return Err(drive_failed(drive));
        }
        if let Some(timed) = &self.timed {
            timed.move_cartridge();
        }
        let taken = self.taken_from_slot(vid);
        match Cartridge::load(&self.directory_of(taken), taken) {
            Ok(cartridge) => {
                state.loaded = Some(Loaded::new(cartridge, vid));
                state.load(self.timed.as_deref());
                Ok(())
            }
            Err(error) => {
                self.put_back(vid);
                Err(error.into())
            }
        }
    }

    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError> {
        let (bay, _robot) = self.bay(drive)?;
        let mut state = bay.lock();
        #[cfg(feature = "faults")]
        if state.loaded.is_some() && self.faults.is_dead(drive, DriveCommand::Unload) {
            return Err(drive_failed(drive));
        }
        let loaded = state.loaded.take().ok_or_else(|| LibraryError::DriveEmpty { drive: drive.clone() })?;
        let vid = loaded.slot_of;
        let unloaded = state.unload(loaded.cartridge, self.timed.as_deref());
        if let Some(timed) = &self.timed {
            timed.move_cartridge();
        }
        self.put_back(vid);
        match unloaded {
            Ok(()) => Ok(vid),
            Err(source) => {
                let source = Box::new(TapeError::Medium { vid, operation: "flush", source: source.into() });
                Err(LibraryError::UnmountFlush { vid, source })
            }
        }
    }

    fn cleaners(&self) -> Vec<CleanerInfo> {
        self.cleaners.all()
    }

    fn clean(&self, vid: Vid, drive: &DriveName, _most: Duration) -> Result<Vec<TapeAlert>, LibraryError> {
        let (bay, robot) = self.bay(drive)?;
        let state = bay.lock();
        if let Some(loaded) = &state.loaded {
            return Err(LibraryError::DriveFull { drive: drive.clone(), vid: loaded.cartridge.vid() });
        }
        if !self.cleaners.all().iter().any(|cleaner| cleaner.vid == vid) {
            return Err(LibraryError::UnknownCartridge { vid });
        }
        #[cfg(feature = "faults")]
        if self.faults.jams(vid) {
            let source = DeviceError::Sense(Sense::MOVE_FAILED);
            return Err(LibraryError::RobotJam { vid, drive: drive.clone(), source });
        }
        #[cfg(feature = "faults")]
        if self.faults.is_dead(drive, DriveCommand::Load) {
            return Err(drive_failed(drive));
        }
        self.cleaners.take(vid, drive)?;
        self.robot_moves();
        drop(robot);
        let does_clean = self.cleaners.use_up(vid);
        if let Some(timed) = &self.timed
            && matches!(does_clean, Ok(true))
        {
            timed.clean();
        }
        self.robot_moves();
        self.cleaners.put_back(vid);
        #[cfg(feature = "faults")]
        {
            self.faults.cleaned(drive, vid);
            if let Some(source) = self.faults.cleaning_error(drive) {
                let (drive, source) = (drive.clone(), Box::new(source));
                return Err(LibraryError::NotCleaned { vid, drive, is_home: true, source });
            }
            let alerts = self.faults.alerts_of_cleaning(vid);
            if self.faults.cleaner_stays(vid) {
                let (drive, jam) = (drive.clone(), DeviceError::Sense(Sense::MOVE_FAILED));
                let source = Box::new(LibraryError::NotTaken { vid, drive: drive.clone(), source: jam });
                return Err(LibraryError::CleanerStays { vid, drive, alerts, source });
            }
            if !alerts.is_empty() {
                return Ok(alerts);
            }
        }
        // 22 of a cartridge that is used up.
        does_clean.map(|cleans| if cleans { Vec::new() } else { vec![TapeAlert::CLEANER_USED_UP] })
    }

    fn export(&self, vid: Vid) -> Result<Slot, LibraryError> {
        let is_tape = self.lock_cartridges().in_slot(vid).map(drop);
        // Those for cleaning stand in a directory of their own, from which an operator takes them.
        if is_tape.is_err() && self.cleaners.all().iter().any(|cleaner| cleaner.vid == vid) {
            return Err(LibraryError::NoImportExport);
        }
        is_tape?;
        self.robot_moves();
        // Held over the move: nobody mounts what is on its way.
        let mut cartridges = self.lock_cartridges();
        cartridges.in_slot(vid)?;
        if cartridges.import_export.len() >= IMPORT_EXPORT_MAX {
            return Err(LibraryError::ImportExportFull);
        }
        let to = &self.import_export_directory;
        fs::create_dir_all(to).map_err(directory_error(to))?;
        if let Some(above) = to.parent() {
            atomic::sync_directory(above).map_err(directory_error(above))?;
        }
        self.rename(vid, &self.cartridges_directory, to)?;
        let shelf = cartridges.by_vid.remove(&vid).ok_or(LibraryError::UnknownCartridge { vid })?;
        cartridges.import_export.insert(vid, shelf);
        cartridges.changes += 1;
        let rank = cartridges.import_export.keys().position(|other| *other == vid);
        Ok(Slot(rank.unwrap_or(0) as u32))
    }

    fn import(&self, vid: Vid) -> Result<Slot, LibraryError> {
        let is_there = |cartridges: &Shelves| match cartridges.import_export.contains_key(&vid) {
            true => Ok(()),
            false => Err(LibraryError::NotInImportExport { vid }),
        };
        is_there(&self.lock_cartridges())?;
        self.robot_moves();
        let mut cartridges = self.lock_cartridges();
        is_there(&cartridges)?;
        if cartridges.by_vid.len() >= CARTRIDGES_MAX {
            return Err(LibraryError::NoSlotToImport { vid });
        }
        self.rename(vid, &self.import_export_directory, &self.cartridges_directory)?;
        let shelf = cartridges.import_export.remove(&vid);
        cartridges.by_vid.extend(shelf.map(|shelf| (vid, shelf)));
        cartridges.changes += 1;
        let rank = cartridges.by_vid.keys().position(|other| *other == vid);
        Ok(Slot(rank.unwrap_or(0) as u32))
    }
}

#[cfg(feature = "faults")]
fn drive_failed(drive: &DriveName) -> LibraryError {
    LibraryError::DriveFailed { drive: drive.clone(), source: DeviceError::Sense(Sense::INTERNAL_FAILURE) }
}

impl Shelves {
    /// The row of a cartridge that stands in its slot.
    fn in_slot(&mut self, vid: Vid) -> Result<&mut Shelf, LibraryError> {
        if self.import_export.contains_key(&vid) {
            return Err(LibraryError::NotInSlot { vid });
        }
        let shelf = self.by_vid.get_mut(&vid).ok_or(LibraryError::UnknownCartridge { vid })?;
        match &shelf.drive {
            Some(drive) => Err(LibraryError::CartridgeInUse { vid, drive: drive.clone() }),
            None => Ok(shelf),
        }
    }

    /// Takes over what stands in the directories now, which had these times just before.
    fn look_again(
        &mut self,
        directory: &Path,
        import_export: &Path,
        times: Times,
    ) -> Result<(), LibraryError> {
        let now = read_all(directory, import_export)?;
        let (mut found, in_elements, without_vid) = (now.by_vid, now.import_export, now.without_vid);
        let is_as_before =
            |vid, shelf: &Shelf| self.by_vid.get(vid).is_some_and(|old| old.identity == shelf.identity);
        let came = found.iter().filter(|(vid, shelf)| !is_as_before(*vid, shelf)).count();
        let mut went = 0;
        self.again = self.seen != Some(times);
        self.seen = Some(times);
        for (vid, shelf) in std::mem::take(&mut self.by_vid) {
            match found.get_mut(&vid) {
                Some(here) => here.drive = shelf.drive,
                // It goes when it has left the drive.
                None if shelf.drive.is_some() => {
                    self.again = true;
                    found.insert(vid, shelf);
                }
                None => went += 1,
            }
        }
        let content = |shelves: &BTreeMap<Vid, Shelf>| -> Vec<(Vid, Option<Identity>)> {
            shelves.iter().map(|(vid, shelf)| (*vid, shelf.identity)).collect()
        };
        let is_other =
            self.without_vid != without_vid || content(&self.import_export) != content(&in_elements);
        self.by_vid = found;
        self.import_export = in_elements;
        // Somebody moved it by hand while a drive has it: it stands there when it has left the drive.
        self.import_export.retain(|vid, _| !self.by_vid.contains_key(vid));
        self.without_vid = without_vid;
        self.changes += u64::from(came + went > 0 || is_other);
        Ok(())
    }

    /// One that is not whole may have been on its way here.
    fn look_at_unidentified(&mut self, directory: &Path) {
        for (vid, shelf) in self.by_vid.iter_mut().filter(|(_, shelf)| shelf.identity.is_none()) {
            shelf.identity = Identity::read(&directory.join(vid.as_str()), *vid).ok();
            self.changes += u64::from(shelf.identity.is_some());
        }
    }
}

fn times_of(cartridges: &Path, import_export: &Path) -> Result<Times, LibraryError> {
    let of = |directory: &Path| fs::metadata(directory).and_then(|metadata| metadata.modified());
    let elements = match of(import_export) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        other => Some(other.map_err(directory_error(import_export))?),
    };
    Ok((of(cartridges).map_err(directory_error(cartridges))?, elements))
}

/// What stands in slots, in import/export elements, and what is no cartridge. One that is in both is in its
/// slot, and the other one told.
fn read_all(cartridges: &Path, import_export: &Path) -> Result<Shelves, LibraryError> {
    let (by_vid, mut without_vid) = read_shelves(cartridges)?;
    let mut in_elements = BTreeMap::new();
    if import_export.is_dir() {
        let (found, more) = read_shelves(import_export)?;
        without_vid.extend(more);
        for (vid, shelf) in found {
            if by_vid.contains_key(&vid) {
                without_vid.push(import_export.join(vid.as_str()).display().to_string());
            } else {
                in_elements.insert(vid, shelf);
            }
        }
    }
    without_vid.truncate(WITHOUT_VID_MAX);
    Ok(Shelves { by_vid, import_export: in_elements, without_vid, ..Shelves::default() })
}

pub fn directory_error(path: &Path) -> impl FnOnce(std::io::Error) -> LibraryError {
    let path = path.to_owned();
    move |source| LibraryError::Directory { path, source }
}

/// All directories that are named after a VID, and what else is there: somebody may take it for a cartridge.
/// Unfinished cartridges and what a file system makes are not told.
fn read_shelves(directory: &Path) -> Result<(BTreeMap<Vid, Shelf>, Vec<String>), LibraryError> {
    let (mut shelves, mut without_vid) = (BTreeMap::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(directory_error(directory))? {
        let path = entry.map_err(directory_error(directory))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(vid) = Vid::new(&name) else {
            let is_known = name.starts_with('.') || name.ends_with(".new") || name == "lost+found";
            if !is_known && without_vid.len() < WITHOUT_VID_MAX {
                without_vid.push(path.display().to_string());
            }
            continue;
        };
        if shelves.len() >= CARTRIDGES_MAX {
            return Err(LibraryError::LibraryFull { max: CARTRIDGES_MAX });
        }
        shelves.insert(vid, Shelf { identity: Identity::read(&path, vid).ok(), drive: None });
    }
    without_vid.sort();
    Ok((shelves, without_vid))
}
