//! The directory that is to become a drive, of whoever names the disk. Pure.
//!
//! A disk is what it says of itself, by whatever path or name it was found: what is mounted counts if it
//! stands on this disk, and not on a device of its name.

use crate::machine::{Disk, Machine};
use crate::mounts::{InUse, Mount, Mounts};

/// File systems of drives.
const KINDS: [&str; 2] = ["xfs", "ext4"];

/// Why a disk has no directory that may become a drive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoPlace {
    /// Nothing of it is mounted, and nobody else uses it.
    #[error("nothing of it is mounted")]
    Unmounted {
        /// Its block device, of several paths the map over them.
        device: String,
    },
    /// Nothing of it is mounted, and somebody uses it.
    #[error("nothing of it is mounted, and {0}")]
    InUse(InUse),
    /// It is mounted at several places, or has several file systems.
    #[error(
        "it is mounted at {}: a drive has its disk for itself; name the directory if that is meant",
        .0.join(", ")
    )]
    Several(Vec<String>),
    /// A part of it is mounted: a partition, or a directory of its file system.
    #[error("only a part of it is mounted at {0}: name that directory if it is meant")]
    Part(String),
    /// Not the file system of a drive.
    #[error("a file system {kind} is mounted at {point}: a drive has one of {}", KINDS.join(" or "))]
    Kind {
        /// Its kind.
        kind: String,
        /// Where.
        point: String,
    },
}

/// What is mounted of a disk, of [`Machine::disks`]: the one file system on the whole of it.
///
/// # Errors
/// [`NoPlace`].
pub fn drive_place<'a>(machine: &Machine, mounts: &'a Mounts, disk: usize) -> Result<&'a Mount, NoPlace> {
    let found: Vec<(&Mount, bool)> = mounts.all_of(machine, disk);
    let (mount, is_whole) = match found[..] {
        [one] => one,
        [] => return Err(unmounted(mounts, machine.disks.get(disk))),
        [..] => {
            let points = found.iter().map(|(mount, _)| mount.point.clone());
            return Err(NoPlace::Several(points.collect()));
        }
    };
    if !is_whole || mount.root != "/" {
        return Err(NoPlace::Part(mount.point.clone()));
    }
    if !KINDS.contains(&mount.kind.as_str()) {
        return Err(NoPlace::Kind { kind: mount.kind.clone(), point: mount.point.clone() });
    }
    Ok(mount)
}

fn unmounted(mounts: &Mounts, disk: Option<&Disk>) -> NoPlace {
    match disk.ok_or(InUse::NoBlock).and_then(|disk| mounts.unused(disk)) {
        Ok(device) => NoPlace::Unmounted { device },
        Err(why) => NoPlace::InUse(why),
    }
}
