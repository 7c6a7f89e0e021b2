//! What a tape library can do.

use std::fmt;
use std::time::Duration;

use base::{ByteCount, FailureCause, Vid};

use crate::{
    CartridgeError, ChangerAlert, DeviceError, DriveName, DriveProduct, Sense, TapeAlert, TapeDrive,
    TapeError,
};

/// A storage slot of a library: counted from 0, or the address of an element of a changer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a cartridge is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a slot.
    Slot(Slot),
    /// In a drive.
    Drive(DriveName),
    /// In a slot at the library's door, by which cartridges come and go: it is not mounted from there.
    ImportExport(Slot),
    /// Somewhere else: in the robot's hand after a move that failed, or where the library does not say.
    Unknown,
}

impl Place {
    /// Whether a cartridge can be brought from here into a drive, or is in one.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Place::Slot(_) | Place::Drive(_) => true,
            Place::ImportExport(_) | Place::Unknown => false,
        }
    }
}

/// A cartridge as the library knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CartridgeInfo {
    /// Its volume identifier.
    pub vid: Vid,
    /// Where it is.
    pub place: Place,
    /// What its data partition holds when empty; 0 if unknown.
    pub capacity: ByteCount,
    /// Whether its write protection is on.
    pub write_protected: bool,
    /// Whether the library cannot identify it; mounting it tells why.
    pub damaged: bool,
    /// The number of the library that it is in: 0 unless it comes from a
    /// [`Union`](crate::Union).
    pub library: u16,
}

/// A cartridge that cleans drives. It is no tape, and never mounted as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleanerInfo {
    /// Its volume identifier.
    pub vid: Vid,
    /// Where it is.
    pub place: Place,
    /// As in [`CartridgeInfo::library`].
    pub library: u16,
}

/// Where a drive stands and what it can do, as far as that is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DrivePlace {
    /// The address of its element in the changer.
    pub element: Option<u32>,
    /// What it can do, in words: of a drive that tells and was reached since the start.
    pub abilities: Vec<&'static str>,
    /// What it says that it is, of such a drive.
    pub product: Option<DriveProduct>,
}

/// Why a library did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// No cartridge of that name.
    #[error("there is no cartridge {vid} in the library: put it in")]
    UnknownCartridge {
        /// The cartridge asked for.
        vid: Vid,
    },
    /// No drive of that name.
    #[error("there is no drive {drive} in the library: see its list of drives")]
    UnknownDrive {
        /// The drive asked for.
        drive: DriveName,
    },
    /// A library needs drives with different names.
    #[error("drive {drive} is configured twice: give each drive its own name")]
    DuplicateDrive {
        /// The name.
        drive: DriveName,
    },
    /// The cartridge is in another library than the drive.
    #[error(
        "cartridge {vid} is in library {library}, drive {drive} in {of_drive}: mount it in a drive of its own"
    )]
    OtherLibrary {
        /// The cartridge.
        vid: Vid,
        /// The drive.
        drive: DriveName,
        /// The library of the cartridge.
        library: String,
        /// The library of the drive.
        of_drive: String,
    },
    /// Two libraries have a cartridge of one name.
    #[error("cartridge {vid} is in two libraries: take one of the two out, or give it another VID")]
    CartridgeTwice {
        /// The cartridge.
        vid: Vid,
    },
    /// Too many libraries are joined.
    #[error("there are too many libraries: at most {max}")]
    TooManyLibraries {
        /// The limit.
        max: usize,
    },
    /// A library needs a robot.
    #[error("the library has no robot: configure at least one")]
    NoRobot,
    /// A library whose machines take time needs a scale of it.
    #[error("time cannot run {scale} times as fast: the scale is a number above 0")]
    Scale {
        /// What was configured.
        scale: f64,
    },
    /// A library has too many cartridges.
    #[error("the library is full: it holds {max} cartridges")]
    LibraryFull {
        /// The limit.
        max: usize,
    },
    /// The drive's handle is in use.
    #[error("drive {drive} is in use already: a drive has one user at a time")]
    DriveTaken {
        /// The drive.
        drive: DriveName,
    },
    /// The drive holds a cartridge.
    #[error("drive {drive} already holds cartridge {vid}: unmount it first")]
    DriveFull {
        /// The drive.
        drive: DriveName,
        /// What it holds.
        vid: Vid,
    },
    /// The drive holds no cartridge.
    #[error("drive {drive} holds no cartridge: there is nothing to unmount")]
    DriveEmpty {
        /// The drive.
        drive: DriveName,
    },
    /// The cartridge is not in a slot.
    #[error("cartridge {vid} is in drive {drive}: unmount it there first")]
    CartridgeInUse {
        /// The cartridge.
        vid: Vid,
        /// Where it is.
        drive: DriveName,
    },
    /// A cartridge of that name exists.
    #[error("there is a cartridge {vid} already: choose another VID")]
    CartridgeExists {
        /// The cartridge.
        vid: Vid,
    },
    /// The robot could not move the cartridge; it is still in its slot.
    #[error("the robot could not bring cartridge {vid} to drive {drive} ({source}): look into the library")]
    RobotJam {
        /// The cartridge.
        vid: Vid,
        /// Where it should have gone.
        drive: DriveName,
        /// What was heard of it.
        source: DeviceError,
    },
    /// The robot could not take the cartridge out of a drive; it is still in it.
    #[error(
        "the robot could not take cartridge {vid} out of drive {drive} ({source}): look into the library"
    )]
    NotTaken {
        /// The cartridge.
        vid: Vid,
        /// Where it is.
        drive: DriveName,
        /// What was heard of it.
        source: DeviceError,
    },
    /// After a movement that failed the cartridge is neither where it was nor where it should go.
    #[error(
        "cartridge {vid} is in the robot's hand, or where the library does not say ({source}): look into it"
    )]
    Misplaced {
        /// The cartridge.
        vid: Vid,
        /// What was heard of it.
        source: DeviceError,
    },
    /// No slot is free for what a drive holds; it is still in it.
    #[error("no slot is free for cartridge {vid}, which stays in drive {drive}: take others out")]
    NoFreeSlot {
        /// The cartridge.
        vid: Vid,
        /// Where it is.
        drive: DriveName,
    },
    /// The cartridge is at the library's door, or in its robot's hand.
    #[error("cartridge {vid} is at the library's door or in the robot's hand: bring it into a slot")]
    NotInSlot {
        /// The cartridge.
        vid: Vid,
    },
    /// The library has no import/export element that this instance may use.
    #[error("the library has no import/export element: open it to put cartridges in and to take them out")]
    NoImportExport,
    /// All import/export elements are full.
    #[error("all import/export elements of the library are full: take cartridges out of them")]
    ImportExportFull,
    /// The robot does not get at the import/export elements.
    #[error("the robot does not get at the import/export elements of the library: close their door")]
    ImportExportOpen,
    /// The cartridge stands in no import/export element.
    #[error("cartridge {vid} is in no import/export element: put it into one")]
    NotInImportExport {
        /// The cartridge.
        vid: Vid,
    },
    /// No slot is free for what stands in an import/export element, and stays there.
    #[error("no slot is free for cartridge {vid}, which stays in its import/export element: take others out")]
    NoSlotToImport {
        /// The cartridge.
        vid: Vid,
    },
    /// The robot could not bring a cartridge from a slot into an import/export element, or the other way; it
    /// is where it was.
    #[error(
        "the robot could not move cartridge {vid}, which is where it was ({source}): look into the library"
    )]
    NotMoved {
        /// The cartridge.
        vid: Vid,
        /// What was heard of it.
        source: DeviceError,
    },
    /// A drive holds something that has no VID.
    #[error("drive {drive} holds a cartridge that is none of ours ({what}): take it out")]
    DriveOccupied {
        /// The drive.
        drive: DriveName,
        /// Its label.
        what: String,
    },
    /// A drive of the configuration is not found, or not reached; nothing was moved to it.
    #[error("drive {drive} is not reached: {why}")]
    DriveMissing {
        /// The drive.
        drive: DriveName,
        /// Why.
        why: String,
    },
    /// A drive did not load the cartridge that the robot had brought.
    #[error(
        "drive {drive} does not load cartridge {vid}, which is {} ({source})",
        if *is_home { "in a slot again" } else { "still in it" }
    )]
    LoadFailed {
        /// The cartridge.
        vid: Vid,
        /// The drive.
        drive: DriveName,
        /// The cartridge is in a slot again.
        is_home: bool,
        /// What failed.
        source: Box<TapeError>,
    },
    /// A drive was not cleaned, or did not say so in time.
    #[error(
        "drive {drive} was not cleaned with {vid}, which is {} ({source}): look at both",
        if *is_home { "in a slot again" } else { "still in it" }
    )]
    NotCleaned {
        /// The cleaning cartridge.
        vid: Vid,
        /// The drive.
        drive: DriveName,
        /// The cartridge is in a slot again.
        is_home: bool,
        /// What the drive said.
        source: Box<TapeError>,
    },
    /// A drive has done with a cleaning cartridge, which was not brought back.
    #[error("cartridge {vid} was not brought back from drive {drive}, which has done with it ({source})")]
    CleanerStays {
        /// The cleaning cartridge.
        vid: Vid,
        /// The drive.
        drive: DriveName,
        /// The flags that the drive has raised, as [`Library::clean`] gives them.
        alerts: Vec<crate::TapeAlert>,
        /// What failed of the way back.
        source: Box<LibraryError>,
    },
    /// A drive keeps its cartridge.
    #[error("drive {drive} does not unload cartridge {vid}, which is still in it ({source})")]
    UnloadFailed {
        /// The cartridge.
        vid: Vid,
        /// The drive.
        drive: DriveName,
        /// What failed.
        source: Box<TapeError>,
    },
    /// The library is not found, not reached, or not the one that it was.
    #[error("the library is not reached: {why}")]
    NotReached {
        /// Why.
        why: String,
    },
    /// Another host has reserved the robot; nothing moved.
    #[error("another host has reserved the library: end its use there")]
    Reserved,
    /// The drive does not work; the cartridge is where it was.
    #[error("drive {drive} does not work ({source}): look at the drive")]
    DriveFailed {
        /// The drive.
        drive: DriveName,
        /// What was heard of it.
        source: DeviceError,
    },
    /// Library and host do not reach each other. Whether the last move was carried out is unknown: see the
    /// inventory.
    #[error("the library is not reached at {operation} ({source}): look at the cables and switches to it")]
    Path {
        /// What was tried.
        operation: &'static str,
        /// What was heard of it.
        source: DeviceError,
    },
    /// Another host has reserved the robot, or an operator has taken it: nothing moved.
    #[error("the library is in other hands ({sense}): it is tried again")]
    NotReady {
        /// What it said.
        sense: Sense,
    },
    /// The cartridge cannot be loaded or created; it is in its slot.
    #[error(transparent)]
    Cartridge(#[from] CartridgeError),
    /// The cartridge was unmounted, but what was not yet flushed may be lost.
    #[error(
        "cartridge {vid} was unmounted, but its last flush failed; only what came before counts: {source}"
    )]
    UnmountFlush {
        /// The cartridge.
        vid: Vid,
        /// What failed.
        source: Box<TapeError>,
    },
    /// The library's directory cannot be used.
    #[error("the library's directory {path} cannot be used: {source}")]
    Directory {
        /// The directory.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LibraryError {
    /// Whether a drive is of no use before somebody has looked at it.
    #[must_use]
    pub fn is_of_the_drive(&self) -> bool {
        match self {
            LibraryError::DriveFailed { .. }
            | LibraryError::DriveOccupied { .. }
            | LibraryError::NotCleaned { is_home: false, .. }
            // Whatever failed: nothing else goes into it before somebody, or a later try, has emptied it.
            | LibraryError::CleanerStays { .. } => true,
            LibraryError::LoadFailed { source, .. } | LibraryError::UnloadFailed { source, .. } => {
                source.is_of_the_drive()
            }
            _ => false,
        }
    }

    /// Whether a cleaning cartridge was, or may have been, in the drive in a cleaning that ended with this.
    #[must_use]
    pub fn was_in_drive(&self) -> bool {
        matches!(
            self,
            LibraryError::NotCleaned { .. } | LibraryError::CleanerStays { .. } | LibraryError::Path { .. }
        )
    }

    /// What it speaks against; `None`: nothing failed, but what was asked for cannot be done, or not now.
    #[must_use]
    pub fn cause(&self) -> Option<FailureCause> {
        match self {
            LibraryError::DriveFailed { .. } => Some(FailureCause::Drive),
            LibraryError::CleanerStays { source, .. } => source.cause(),
            LibraryError::Cartridge(error) if error.is_for_want_of_space() => Some(FailureCause::Host),
            LibraryError::Cartridge(_) => Some(FailureCause::Cartridge),
            LibraryError::RobotJam { .. }
            | LibraryError::NotTaken { .. }
            | LibraryError::NotMoved { .. }
            | LibraryError::Misplaced { .. }
            | LibraryError::NotReached { .. }
            | LibraryError::Path { .. } => Some(FailureCause::Robot),
            LibraryError::UnmountFlush { source, .. }
            | LibraryError::LoadFailed { source, .. }
            | LibraryError::NotCleaned { source, .. }
            | LibraryError::UnloadFailed { source, .. } => source.cause(),
            LibraryError::DriveMissing { .. } => Some(FailureCause::Path),
            LibraryError::DriveOccupied { .. } => Some(FailureCause::Drive),
            // Somebody moved a cartridge by hand, or the host does not reach the library.
            LibraryError::UnknownCartridge { .. }
            | LibraryError::UnknownDrive { .. }
            | LibraryError::DriveTaken { .. }
            | LibraryError::DriveFull { .. }
            | LibraryError::DriveEmpty { .. }
            | LibraryError::CartridgeInUse { .. }
            | LibraryError::NotInSlot { .. }
            | LibraryError::NoFreeSlot { .. }
            | LibraryError::Directory { .. } => Some(FailureCause::Unknown),
            LibraryError::NotReady { .. }
            | LibraryError::Reserved
            | LibraryError::NoImportExport
            | LibraryError::ImportExportFull
            | LibraryError::ImportExportOpen
            | LibraryError::NotInImportExport { .. }
            | LibraryError::NoSlotToImport { .. }
            | LibraryError::DuplicateDrive { .. }
            | LibraryError::OtherLibrary { .. }
            | LibraryError::CartridgeTwice { .. }
            | LibraryError::TooManyLibraries { .. }
            | LibraryError::NoRobot
            | LibraryError::Scale { .. }
            | LibraryError::LibraryFull { .. }
            | LibraryError::CartridgeExists { .. } => None,
        }
    }
}

/// What a changer says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LibraryCondition {
    /// The library, by its number in a [`Union`](crate::Union), else 0.
    pub library: u16,
    /// Flags that it has raised in the last day, ascending. A changer tells each once, and does not say when
    /// it holds no more.
    pub alerts: Vec<ChangerAlert>,
    /// Its temperature in degrees Celsius, if it tells one.
    pub celsius: Option<u8>,
    /// What its robot has done, as far as it counts: what is counted, and how often.
    pub counts: Vec<(RobotCount, u64)>,
}

/// What a robot counts (SMC-3, media changer statistics).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)] // What they are is said by their words.
pub enum RobotCount {
    Moves,
    Picks,
    PickRetries,
    Places,
    PlaceRetries,
    LabelsRead,
    LabelsUnread,
    DoorOpens,
    ImportExportOpens,
    Scans,
}

impl RobotCount {
    /// The same word for the same count, for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RobotCount::Moves => "moves",
            RobotCount::Picks => "picks",
            RobotCount::PickRetries => "pick_retries",
            RobotCount::Places => "places",
            RobotCount::PlaceRetries => "place_retries",
            RobotCount::LabelsRead => "labels_read",
            RobotCount::LabelsUnread => "labels_unread",
            RobotCount::DoorOpens => "door_opens",
            RobotCount::ImportExportOpens => "import_export_opens",
            RobotCount::Scans => "scans",
        }
    }
}

/// A tape library: cartridges in slots, drives, robots. May be used from many threads.
pub trait Library: Send + Sync {
    /// All cartridges, ordered by VID.
    ///
    /// # Errors
    /// If the library cannot be asked.
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError>;

    /// The same as far as it can be had: of several libraries those that can be asked answer for themselves,
    /// and one that is away is taken to hold what it held when it was last asked. [`Library::out_of_reach`]
    /// names it. Not for who concludes from a cartridge that is missing here that there is none.
    ///
    /// # Errors
    /// If no library can be asked.
    fn inventory_in_reach(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        self.inventory()
    }

    /// How often the inventory has changed since the library was opened by anything but mounts and unmounts:
    /// cartridges that came, went or became readable. Who sees another number than before takes the
    /// inventory anew. Asked every few seconds: what a driver hears of a change (a unit attention, a
    /// directory's time) it counts here.
    ///
    /// # Errors
    /// If the library cannot be asked.
    fn changes(&self) -> Result<u64, LibraryError>;

    /// Looks now at what stands where, which [`Library::changes`] does by itself after a unit attention and
    /// now and then; a change is counted there. `scan`: a robot looks at every slot with its own eyes, which
    /// can take minutes, and moves nothing meanwhile; one that cannot says what it knows.
    ///
    /// # Errors
    /// If the library cannot be asked.
    fn look_again(&self, scan: bool) -> Result<(), LibraryError> {
        let _ = scan;
        self.changes().map(drop)
    }

    /// What stands where cartridges do and has no VID by which it could be asked for, in words that lead to
    /// it (a path, a slot): it is left alone, and told. As of the inventory.
    fn without_vid(&self) -> Vec<String>;

    /// What could not be asked or found the last time, in words: the library, or some of its drives. Until a
    /// library was reached for the first time it holds nothing, and says so here.
    fn out_of_reach(&self) -> Vec<String>;

    /// The numbers of the libraries that were not reached since the start: what they hold is not known. Asks
    /// nobody.
    fn unreached(&self) -> Vec<u16> {
        Vec::new()
    }

    /// What changers say of themselves, one row for each that was reached and says something. As last asked,
    /// with the inventory; nothing is asked for by this.
    fn conditions(&self) -> Vec<LibraryCondition> {
        Vec::new()
    }

    /// All drives, in the order of the configuration.
    fn drives(&self) -> Vec<DriveName>;

    /// The number of the library that a drive is in, 0 unless this is a [`Union`](crate::Union): the drive
    /// takes cartridges of that one only.
    fn library_of(&self, drive: &DriveName) -> u16;

    /// Where a drive stands and what it can do. Asks nobody.
    fn drive_place(&self, drive: &DriveName) -> DrivePlace {
        let _ = drive;
        DrivePlace::default()
    }

    /// The handle of a drive, for its one mover thread. Dropping it gives the drive back.
    ///
    /// # Errors
    /// [`LibraryError::UnknownDrive`]; [`LibraryError::DriveTaken`] while another handle exists.
    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError>;

    /// Brings a cartridge from its slot into a drive and loads it. Blocks; moves of one robot wait for each
    /// other.
    ///
    /// # Errors
    /// After an error the cartridge is where it was.
    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError>;

    /// Flushes, unloads the drive and brings its cartridge back into its slot. Waits for the drive's current
    /// command.
    ///
    /// # Errors
    /// After [`LibraryError::UnmountFlush`] the cartridge is in its slot nevertheless; after others nothing
    /// moved.
    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError>;

    /// Cleaning cartridges, ordered by VID, as of the last look. One without a label that is a VID cannot be
    /// asked for, and is not among them.
    fn cleaners(&self) -> Vec<CleanerInfo> {
        Vec::new()
    }

    /// Brings a cleaning cartridge from its slot into an empty drive, waits until the drive has done with it,
    /// `most` at the longest, and brings it back. Gives the flags that the drive has raised then: 22 and 23
    /// say that the cartridge did not clean. Blocks for minutes.
    ///
    /// # Errors
    /// After [`LibraryError::NotCleaned`] the cartridge is where that says, and after
    /// [`LibraryError::CleanerStays`] still in the drive as a rule, from which the next mount brings it home.
    /// After [`LibraryError::Path`] nobody knows. After others it was never in the drive
    /// ([`LibraryError::was_in_drive`]).
    fn clean(&self, vid: Vid, drive: &DriveName, most: Duration) -> Result<Vec<TapeAlert>, LibraryError> {
        let _ = (drive, most);
        Err(LibraryError::UnknownCartridge { vid })
    }

    /// Brings a cartridge from its slot into a free import/export element, from which an operator takes it;
    /// gives that element. Blocks as a mount does. It counts as a change of the inventory.
    ///
    /// # Errors
    /// [`LibraryError::CartridgeInUse`] if it is in a drive; [`LibraryError::NoImportExport`],
    /// [`LibraryError::ImportExportFull`], [`LibraryError::ImportExportOpen`]. After an error the cartridge
    /// is where it was, but for [`LibraryError::Misplaced`].
    fn export(&self, vid: Vid) -> Result<Slot, LibraryError> {
        let _ = vid;
        Err(LibraryError::NoImportExport)
    }

    /// Brings a cartridge from an import/export element into a free slot; gives that slot. Blocks as a mount
    /// does. It counts as a change of the inventory.
    ///
    /// # Errors
    /// [`LibraryError::NotInImportExport`], [`LibraryError::NoSlotToImport`],
    /// [`LibraryError::ImportExportOpen`]. After an error the cartridge is where it was, but for
    /// [`LibraryError::Misplaced`].
    fn import(&self, vid: Vid) -> Result<Slot, LibraryError> {
        Err(LibraryError::NotInImportExport { vid })
    }
}
