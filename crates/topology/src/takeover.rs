//! Which new disk takes the place of a dead one: the one in the same slot. Pure.
//!
//! A slot is known by the enclosure's logical identifier and the number that stands on it: names of devices,
//! and the order in which the kernel finds enclosures, change with each start. What cannot be proven is not
//! taken: a disk in a wrong place is seen by nobody, and one with data on it cannot be had back.

use std::fmt;

use crate::machine::{Disk, DiskKey, Machine, Place};
use crate::mounts::{InUse, Mounts, NotOnDisk};

/// Where a disk stands, as it is known after a restart too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// The logical identifier of the enclosure.
    pub enclosure: u64,
    /// The number of the slot that stands on it.
    pub number: u32,
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of enclosure {:016x}", self.number, self.enclosure)
    }
}

/// A disk in its slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskInSlot {
    /// Where.
    pub slot: SlotId,
    /// Which disk, as [`DiskKey`] has it in words.
    pub disk: String,
}

/// Why it is not proven in which slot a disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unproven {
    /// The disk says nothing of itself.
    #[error("the disk gives no name of its own and no serial number")]
    Nameless,
    /// No enclosure says that it has it.
    #[error("no enclosure says in which slot the disk is")]
    NoSlot,
    /// The enclosure has no identifier, or two have the same.
    #[error("the enclosure of the disk cannot be told from others")]
    Enclosure,
    /// Two slots of the enclosure have one number, or the slot has another disk.
    #[error("the slot of the disk cannot be told from others")]
    Slot,
}

/// A drive that is given up, or does not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostDrive {
    /// Its number.
    pub id: u16,
    /// Where it was.
    pub was: Option<DiskInSlot>,
    /// Its directory, without links in it.
    pub directory: String,
    /// Nothing is in the directory, as far as it can be listed.
    pub is_empty: bool,
}

/// What may be taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Policy {
    /// Nothing.
    No,
    /// An empty file system that somebody has mounted at the drive's directory.
    Mounted,
    /// A blank disk besides, on which a file system is made.
    Blank,
}

/// What takes the place of a lost drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// What is mounted at its directory.
    Mounted {
        /// The disk, of [`Machine::disks`].
        disk: usize,
        /// The device of the file system, such as `8:16`.
        number: String,
    },
    /// A disk on which a file system is to be made, if it is blank.
    Disk {
        /// The disk, of [`Machine::disks`].
        disk: usize,
        /// Its block device, such as `sdd`; of one with several paths the map over them.
        device: String,
        /// What is left of the dead one is still mounted at the directory.
        unmount: bool,
    },
}

/// Why no disk takes the place of one that is dead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Left {
    /// Nobody wants it.
    #[error("kist.toml does not have lost drives replaced (pool.replace)")]
    Policy,
    /// It is not known where the dead one was.
    #[error("the slot of the lost drive was never known")]
    SlotUnknown,
    /// Two lost drives were on one disk, or in one slot.
    #[error("another lost drive was on the same disk or in the same slot")]
    SharedSlot,
    /// Nothing that could be taken is in its slot.
    #[error("no disk is seen in its slot")]
    NothingThere,
    /// It is not proven that the disk is in this slot.
    #[error("{0}")]
    Unproven(Unproven),
    /// The disk in the slot is the one that was there.
    #[error("the disk in its slot is the lost one itself: when it is mounted, it is taken up as it is")]
    SameDisk,
    /// The lost disk is in the machine still, elsewhere.
    #[error("the lost disk is in this machine still, elsewhere: mount it at {0}")]
    Moved(String),
    /// The disk in the slot is known as that of another drive.
    #[error("the disk in its slot is that of drive {0}")]
    OfAnotherDrive(u16),
    /// What is mounted at the directory is on another disk, or on none that can be told.
    #[error("what is mounted at its directory is not on the disk in its slot")]
    OtherMounted,
    /// The directory is not the whole of its file system, or several file systems of the disk are mounted.
    #[error("what is mounted at its directory is not the whole disk in its slot, and that alone")]
    InPart,
    /// Something is in it.
    #[error("something stands on the file system that is mounted at its directory")]
    NotEmpty,
    /// The disk is used otherwise.
    #[error("the disk in its slot is in use: {0}")]
    InUse(InUse),
    /// Nothing is mounted there, and that a file system be made is not wanted.
    #[error("no file system of the disk in its slot is mounted at {0}")]
    NotMounted(String),
}

impl Left {
    /// A word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Left::Policy => "policy",
            Left::SlotUnknown => "slot-unknown",
            Left::SharedSlot => "shared-slot",
            Left::NothingThere => "nothing-there",
            Left::Unproven(_) => "unproven",
            Left::SameDisk => "same-disk",
            Left::Moved(_) => "moved",
            Left::OfAnotherDrive(_) => "of-another-drive",
            Left::OtherMounted => "other-mounted",
            Left::InPart => "in-part",
            Left::NotEmpty => "not-empty",
            Left::InUse(_) => "in-use",
            Left::NotMounted(_) => "not-mounted",
        }
    }
}

/// The slot in which a disk is, if that is proven.
///
/// # Errors
/// [`Unproven`].
pub fn disk_in_slot(machine: &Machine, at: usize) -> Result<DiskInSlot, Unproven> {
    let disk: &Disk = machine.disks.get(at).ok_or(Unproven::Nameless)?;
    let name = disk.key.to_string();
    let is_it = |other: &&Disk| other.key.to_string() == name;
    if matches!(disk.key, DiskKey::Device(_)) || machine.disks.iter().filter(is_it).count() != 1 {
        return Err(Unproven::Nameless);
    }
    let place = disk.place.ok_or(Unproven::NoSlot)?;
    let enclosure = machine.enclosures.get(place.enclosure).ok_or(Unproven::NoSlot)?;
    let slot = enclosure.slots.get(place.slot).ok_or(Unproven::NoSlot)?;
    let identifier = enclosure.identifier.ok_or(Unproven::Enclosure)?;
    let id = SlotId { enclosure: identifier, number: slot.number };
    if machine.enclosures.iter().filter(|other| other.identifier == Some(identifier)).count() != 1 {
        return Err(Unproven::Enclosure);
    }
    if slot.disk != Some(at) || slot_at(machine, id) != Some(place) {
        return Err(Unproven::Slot);
    }
    Ok(DiskInSlot { slot: id, disk: name })
}

/// Where the slot of this name is, if there is one alone.
#[must_use]
pub fn slot_at(machine: &Machine, id: SlotId) -> Option<Place> {
    let enclosures = machine.enclosures.iter().enumerate();
    let places = enclosures.filter(|(_, one)| one.identifier == Some(id.enclosure)).flat_map(|(at, one)| {
        let slots = one.slots.iter().enumerate().filter(|(_, slot)| slot.number == id.number);
        slots.map(move |(slot, _)| Place { enclosure: at, slot })
    });
    match places.collect::<Vec<_>>()[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// What takes the place of each lost drive, in their order, or why nothing does. `others`: the disks that
/// other drives are known to be on.
#[must_use]
pub fn take_over(
    machine: &Machine,
    mounts: &Mounts,
    lost: &[LostDrive],
    others: &[(u16, String)],
    policy: Policy,
) -> Vec<Result<Taken, Left>> {
    let of = |drive: &LostDrive| {
        let was = drive.was.as_ref().ok_or(Left::SlotUnknown)?;
        let is_same = |other: &&DiskInSlot| other.slot == was.slot || other.disk == was.disk;
        if lost.iter().filter_map(|other| other.was.as_ref()).filter(is_same).count() > 1 {
            return Err(Left::SharedSlot);
        }
        take(machine, mounts, drive, was, others, policy)
    };
    lost.iter().map(of).collect()
}

fn take(
    machine: &Machine,
    mounts: &Mounts,
    drive: &LostDrive,
    was: &DiskInSlot,
    others: &[(u16, String)],
    policy: Policy,
) -> Result<Taken, Left> {
    let place = slot_at(machine, was.slot).ok_or(Left::NothingThere)?;
    let slot = machine.enclosures.get(place.enclosure).and_then(|one| one.slots.get(place.slot));
    let at = slot.and_then(|slot| slot.disk).ok_or(Left::NothingThere)?;
    let found = disk_in_slot(machine, at).map_err(Left::Unproven)?;
    let disk = machine.disks.get(at).ok_or(Left::NothingThere)?;
    if found.disk == was.disk {
        return Err(Left::SameDisk);
    }
    if machine.disks.iter().any(|other| other.key.to_string() == was.disk) {
        return Err(Left::Moved(drive.directory.clone()));
    }
    if let Some((id, _)) = others.iter().find(|(id, other)| *id != drive.id && *other == found.disk) {
        return Err(Left::OfAnotherDrive(*id));
    }
    let mut unmount = false;
    if let Some(mount) = mounts.at(&drive.directory) {
        match mounts.disk_of(machine, mount) {
            Ok((on, is_whole)) if on == at => {
                return match () {
                    () if policy < Policy::Mounted => Err(Left::Policy),
                    () if !is_whole || mount.root != "/" || mounts.mounts_of(machine, at) != 1 => {
                        Err(Left::InPart)
                    }
                    () if !drive.is_empty => Err(Left::NotEmpty),
                    () => Ok(Taken::Mounted { disk: at, number: mount.number.clone() }),
                };
            }
            // What is left of the dead one: its device is gone.
            Err(NotOnDisk::Gone) => unmount = true,
            Ok(_) | Err(_) => return Err(Left::OtherMounted),
        }
    }
    if policy == Policy::No {
        return Err(Left::Policy);
    }
    if policy != Policy::Blank {
        return Err(Left::NotMounted(drive.directory.clone()));
    }
    let device = mounts.unused(disk).map_err(Left::InUse)?;
    Ok(Taken::Disk { disk: at, device, unmount })
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
