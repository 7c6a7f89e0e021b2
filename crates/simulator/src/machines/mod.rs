//! Machines in memory: disks, a tape library, the catalogue's disk and a clock, with faults.
//!
//! They outlive the engines that are opened on them, as hardware outlives a process. All time passes through
//! [`Pace::pause`] and all chance comes from [`Pace::random`], so that one seed gives one run.

mod catalogue;
mod clock;
mod disk;
mod disk_state;
mod faults;
mod journal;
mod library;
mod pace;
mod tape_drive;
mod tape_state;
#[cfg(test)]
mod tests;
mod world;

pub use self::catalogue::SimCatalogue;
pub use self::clock::SimClock;
pub use self::disk::SimDisk;
pub use self::faults::{Fault, Faults, Target};
pub use self::journal::{Journal, Replay};
pub use self::library::{MountState, Overwrite, SimLibrary};
pub use self::pace::{Dice, Pace, RuntimePace, StillPace};
pub use self::tape_state::TapeObject;
pub use self::world::{MachineConfig, SimMachines};

pub(crate) use self::world::{Contents, Surroundings};
