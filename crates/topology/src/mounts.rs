//! Which directory is on which disk, and what uses a disk: from what the kernel has mounted and stacked.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::{Disk, Machine};
use crate::reader::Reader;

/// What is mounted here, as the kernel shows it to a process.
pub(crate) const MOUNTINFO: &str = "/proc/self/mountinfo";
/// The most devices that one stands on by way of others that are followed: a stack is a few high.
const BELOW_MAX: usize = 4_096;

/// A mounted file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// The device that it is on, such as `8:16`.
    pub number: String,
    /// Which directory of the file system is mounted: `/` if it is the whole.
    pub root: String,
    /// Where.
    pub point: String,
    /// What kind, such as `xfs`.
    pub kind: String,
}

impl Mount {
    /// Reads a line of `mountinfo` (proc_pid_mountinfo(5)).
    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        let [_, _, number, root, point, ..] = fields[..] else { return None };
        let kind = after.split(' ').next()?.to_owned();
        Some(Mount { number: number.to_owned(), root: plain(root)?, point: plain(point)?, kind })
    }
}

/// A path of `mountinfo`, in which blanks and the like stand as three octal digits.
fn plain(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(u8::is_ascii_digit));
        match digits {
            Some(digits) => {
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?);
                rest = after.get(3..)?;
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Where devices are mounted, by number.
pub(crate) fn places(mountinfo: &str) -> BTreeMap<String, String> {
    mountinfo.lines().filter_map(Mount::parse).map(|mount| (mount.number, mount.point)).collect()
}

/// A block device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Block {
    number: String,
    /// What it stands on: of a device of the device mapper or the like its parts, of a partition its disk.
    below: BTreeSet<String>,
    /// What stands on it.
    above: BTreeSet<String>,
    partitions: BTreeSet<String>,
}

/// What is mounted on a machine, and which block devices stand on which.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mounts {
    mounts: Vec<Mount>,
    blocks: BTreeMap<String, Block>,
    swapped: BTreeSet<String>,
    /// What is mounted or swapped to could not be read: nothing is known to be free.
    is_blind: bool,
}

/// Why it is not known on which disk a directory is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotOnDisk {
    /// What is mounted cannot be read.
    #[error("what is mounted cannot be read")]
    Blind,
    /// The file system that is mounted there has no block device, as one in memory.
    #[error("its file system is on no block device ({0})")]
    NoDevice(String),
    /// All that it stood on is gone.
    #[error("the disk under its file system is gone")]
    Gone,
    /// It stands on a device that is no disk of the machine, or on several.
    #[error("its file system stands on {0}, and not on a single disk")]
    NoOneDisk(String),
}

/// Who has a disk that is to be free.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InUse {
    /// What is mounted cannot be read.
    #[error("what is mounted cannot be read")]
    Blind,
    /// Something of it is mounted.
    #[error("it is mounted at {0}")]
    Mounted(String),
    /// It has partitions.
    #[error("it has partitions")]
    Partitions,
    /// Something stands on it, such as a RAID or a volume.
    #[error("{0} stands on it")]
    Held(String),
    /// The system swaps to it.
    #[error("it is swapped to")]
    Swap,
    /// Several paths lead to it, and no map stands over all of them: written by one path, it would be read
    /// by the others from their own memory.
    #[error("several paths lead to it, and no multipath map stands over them: see kist disk paths")]
    NoMap,
    /// It has no block device.
    #[error("it has no block device")]
    NoBlock,
}

impl Mounts {
    /// Reads them from the tree that a machine is read from.
    #[must_use]
    pub fn read(reader: &Reader<'_>) -> Mounts {
        // Longer than one value: a line for each file system.
        let text = |path| reader.bytes(path).and_then(|bytes| String::from_utf8(bytes).ok());
        let mountinfo = text(MOUNTINFO);
        let swaps = text("/proc/swaps").unwrap_or_default();
        let mut blocks = BTreeMap::new();
        for name in reader.names("/sys/block") {
            let at = |file: &str| format!("/sys/block/{name}/{file}");
            let Some(number) = reader.text(&at("dev")) else { continue };
            let parts = reader.names(&at("")).into_iter();
            let partitions: BTreeSet<String> = parts.filter(|part| part.starts_with(&name)).collect();
            for part in &partitions {
                let Some(number) = reader.text(&at(&format!("{part}/dev"))) else { continue };
                let above = reader.names(&at(&format!("{part}/holders"))).into_iter().collect();
                let below = BTreeSet::from([name.clone()]);
                blocks.insert(part.clone(), Block { number, below, above, ..Block::default() });
            }
            let below = reader.names(&at("slaves")).into_iter().collect();
            let above = reader.names(&at("holders")).into_iter().collect();
            blocks.insert(name, Block { number, below, above, partitions });
        }
        let swapped = swaps.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("/dev/"));
        Mounts {
            is_blind: mountinfo.is_none(),
            mounts: mountinfo.unwrap_or_default().lines().filter_map(Mount::parse).collect(),
            swapped: swapped.map(str::to_owned).collect(),
            blocks,
        }
    }

    /// The file system that a directory is in: the last one that was mounted at the longest part of its path.
    /// `path` has no links in it.
    #[must_use]
    pub fn over(&self, path: &str) -> Option<&Mount> {
        let is_above = |mount: &&Mount| {
            let rest = path.strip_prefix(mount.point.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.mounts.iter().filter(is_above).max_by_key(|mount| mount.point.len())
    }

    /// What is mounted at this very path.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Mount> {
        self.over(path).filter(|mount| mount.point == path)
    }

    /// The disk that a file system is on, of [`Machine::disks`]; and whether it has the whole disk.
    ///
    /// # Errors
    /// [`NotOnDisk`].
    pub fn disk_of(&self, machine: &Machine, mount: &Mount) -> Result<(usize, bool), NotOnDisk> {
        // Only what has no device of its own has the major number 0.
        if mount.number.starts_with("0:") {
            return Err(NotOnDisk::NoDevice(mount.number.clone()));
        }
        let top = self.blocks.iter().find(|(_, block)| block.number == mount.number);
        let (name, _) = top.ok_or(NotOnDisk::Gone)?;
        let (leaves, is_whole) = self.leaves(name);
        // A map without its paths, or paths that the kernel does not have any more.
        let is_gone = |leaf: &String| leaf.starts_with("dm-") || !self.blocks.contains_key(leaf);
        if leaves.iter().all(is_gone) {
            return Err(NotOnDisk::Gone);
        }
        let is_path =
            |disk: &Disk, leaf: &String| disk.paths.iter().any(|path| path.block.as_ref() == Some(leaf));
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for leaf in leaves.iter().filter(|leaf| !is_gone(leaf)) {
            let disks = machine.disks.iter().enumerate().filter(|(_, disk)| is_path(disk, leaf));
            let disks: Vec<usize> = disks.map(|(at, _)| at).collect();
            let [disk] = disks[..] else { return Err(NotOnDisk::NoOneDisk(name.clone())) };
            found.insert(disk);
        }
        match found.iter().collect::<Vec<_>>()[..] {
            [disk] => Ok((*disk, is_whole)),
            _ => Err(NotOnDisk::NoOneDisk(name.clone())),
        }
    }

    /// The lowest devices below one, and whether no partition is on the way.
    fn leaves(&self, name: &str) -> (BTreeSet<String>, bool) {
        let (mut leaves, mut is_whole) = (BTreeSet::new(), true);
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut rest = vec![name.to_owned()];
        while let Some(name) = rest.pop() {
            if seen.len() >= BELOW_MAX || !seen.insert(name.clone()) {
                continue;
            }
            match self.blocks.get(&name) {
                Some(block) if !block.below.is_empty() => {
                    let is_part = |below: &String| {
                        self.blocks.get(below).is_some_and(|below| below.partitions.contains(&name))
                    };
                    is_whole &= !block.below.iter().any(is_part);
                    rest.extend(block.below.iter().cloned());
                }
                _ => drop(leaves.insert(name)),
            }
        }
        (leaves, is_whole)
    }

    /// How many file systems of a disk are mounted, or none that could be found out.
    #[must_use]
    pub fn mounts_of(&self, machine: &Machine, disk: usize) -> usize {
        self.all_of(machine, disk).len()
    }

    /// The file systems of a disk that are mounted, as far as that could be found out, and whether each has
    /// the whole disk.
    #[must_use]
    pub fn all_of(&self, machine: &Machine, disk: usize) -> Vec<(&Mount, bool)> {
        let of = |mount| match self.disk_of(machine, mount) {
            Ok((at, is_whole)) if at == disk => Some((mount, is_whole)),
            _ => None,
        };
        self.mounts.iter().filter_map(of).collect()
    }

    /// The block device of a disk as a whole that nobody uses, as far as that can be told without opening it:
    /// of one with several paths the map over them.
    ///
    /// # Errors
    /// [`InUse`].
    pub fn unused(&self, disk: &Disk) -> Result<String, InUse> {
        if self.is_blind {
            return Err(InUse::Blind);
        }
        let paths: BTreeSet<String> = disk.paths.iter().filter_map(|path| path.block.clone()).collect();
        let over = |block: &Block| block.below == paths;
        let device = match paths.iter().collect::<Vec<_>>()[..] {
            [] => return Err(InUse::NoBlock),
            [one] if disk.paths.len() == 1 => one.clone(),
            _ => {
                let map = self.blocks.iter().find(|(name, block)| name.starts_with("dm-") && over(block));
                map.map(|(name, _)| name.clone()).ok_or(InUse::NoMap)?
            }
        };
        for name in paths.iter().chain([&device]) {
            let block = self.blocks.get(name).ok_or(InUse::NoBlock)?;
            if let Some(mount) = self.mounts.iter().find(|mount| mount.number == block.number) {
                return Err(InUse::Mounted(mount.point.clone()));
            }
            if !block.partitions.is_empty() {
                return Err(InUse::Partitions);
            }
            if self.swapped.contains(name) {
                return Err(InUse::Swap);
            }
            if let Some(holder) = block.above.iter().find(|holder| **holder != device) {
                return Err(InUse::Held(holder.clone()));
            }
        }
        Ok(device)
    }
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
