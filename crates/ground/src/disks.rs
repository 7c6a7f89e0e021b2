//! On which disks the drives of the pool are, what these say of themselves, and what follows from it.

use base::Timestamp;
use catalogue::{DriveDisk, DriveSlot};
use drive::BurnInDemand;

/// Most reasons that are taken for one verdict.
pub const DISK_REASONS_MAX: usize = 16;
/// Most bytes of a text that is told of a disk.
pub const DISK_TEXT_BYTES_MAX: usize = 256;

/// What is done about a disk that foretells its failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PredictedFailure {
    /// It is told.
    #[default]
    Tell,
    /// Its drive is emptied onto the others.
    Drain,
}

/// What takes the place of a drive that is lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ReplaceLost {
    /// Nothing by itself.
    #[default]
    No,
    /// An empty file system that somebody has mounted at its directory, on another disk in its slot.
    Mounted,
    /// A blank disk in its slot besides, on which a file system is made.
    Blank,
}

impl ReplaceLost {
    /// As `kist.toml` has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ReplaceLost::No => "no",
            ReplaceLost::Mounted => "mounted",
            ReplaceLost::Blank => "blank",
        }
    }
}

/// What is done by itself about the disks of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskPolicy {
    /// About disks that foretell their failure.
    pub predicted_failure: PredictedFailure,
    /// About drives that are lost.
    pub replace: ReplaceLost,
    /// How far a disk is burnt in before it takes a lost one's place.
    pub replace_burn_in: BurnInDemand,
    /// The light of a slot is on while its disk is to be pulled.
    pub lights: bool,
}

/// Why a disk is judged as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskReason {
    /// A word for programs.
    pub word: String,
    /// For people.
    pub text: String,
    /// It foretells that the disk fails while it can be read still.
    pub predicts: bool,
}

/// The disk that was found under a drive's directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundDisk {
    /// Its name in the world, else vendor, model and serial number.
    pub disk: String,
    /// Its slot, if that is proven.
    pub slot: Option<DriveSlot>,
    /// What is to be done about it: `good`, `unknown`, `watch` or `replace`.
    pub verdict: String,
    /// Why.
    pub reasons: Vec<DiskReason>,
}

/// What keeps something from being done by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// A word for programs.
    pub word: String,
    /// For people.
    pub text: String,
}

/// What a look at the machine has shown of one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskReport {
    /// The drive.
    pub drive: u16,
    /// The disk under its directory, which holds this drive.
    pub found: Option<FoundDisk>,
    /// Why nothing takes its place, though it is lost.
    pub waits: Option<Waits>,
}

/// What is known of the disk that a drive is on, or was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveDiskInfo {
    /// What the catalogue knows.
    pub known: DriveDisk,
    /// Since when it is on this disk, in this slot.
    pub since: Timestamp,
    /// When it was last seen there since the start.
    pub seen: Option<Timestamp>,
    /// What was said of the disk then: `good`, `unknown`, `watch` or `replace`; empty: nothing yet.
    pub verdict: String,
    /// Why.
    pub reasons: Vec<DiskReason>,
    /// Why nothing is done by itself, though it is lost or foretells its failure.
    pub waits: Option<Waits>,
    /// The light of its slot is to be on.
    pub wants_light: bool,
}

/// A drive for who watches its disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedDrive {
    /// Its number.
    pub id: u16,
    /// Its directory.
    pub path: String,
    /// It works, so that its directory is on its disk.
    pub is_up: bool,
    /// Another disk may take its place.
    pub is_lost: bool,
    /// What is known of its disk.
    pub disk: Option<DriveDiskInfo>,
}

/// What who watches the disks of the server's machine needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskWatch {
    /// What tells this run of this machine from all others; empty if it cannot be told.
    pub boot: String,
    /// The instance.
    pub instance: String,
    /// User and group that own the server's catalogue, and are to own a new drive.
    pub owner: (u32, u32),
    /// What is done by itself.
    pub policy: DiskPolicy,
    /// Why nothing is done by itself now.
    pub holds: Option<Waits>,
    /// The drives.
    pub drives: Vec<WatchedDrive>,
}

/// A disk that is to take the place of a lost drive's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// Which.
    pub disk: String,
    /// The slot in which it is proven to be.
    pub slot: DriveSlot,
    /// The number of the device of the file system that is mounted at the drive's directory: major, minor.
    pub device: (u32, u32),
}
