//! What a pool tells about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ByteCount, DriveGroup, DriveId};
use drive::{BurnInRecord, DriveStatus, QueueEngine};

/// New files do not go to a drive that has less than this part of it free ...
const FLOOR_PART: u64 = 50;
/// ... or less than this, whichever is less.
const FLOOR_BYTES_MAX: u64 = 1 << 30;

/// Whether a drive is of use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveHealth {
    /// Reads and writes.
    Up,
    /// A write failed for lack of space; reads, and writes again once something on it was removed.
    Full,
    /// A write or sync failed; reads only, until a probe succeeds.
    Suspect {
        /// The error, for people.
        reason: String,
    },
    /// It does not answer, or every read fails: neither, until a probe succeeds.
    Away {
        /// What happened, for people.
        reason: String,
    },
    /// It was emptied, or given to another, while it was in use: neither, and what it held is rebuilt on
    /// other drives, until an operator puts it in again.
    Wiped {
        /// What was found, for people.
        reason: String,
    },
    /// Not given at opening.
    Missing,
    /// Declared lost: what it held is rebuilt on other drives.
    Lost,
    /// Taken out of the pool when nothing stood on it any more.
    Removed,
}

impl DriveHealth {
    /// It works; whether it has room is another matter.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self, DriveHealth::Up | DriveHealth::Full)
    }

    /// New data may be written there.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        *self == DriveHealth::Up
    }

    /// One word for people and programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            DriveHealth::Up => "up",
            DriveHealth::Full => "full",
            DriveHealth::Suspect { .. } => "suspect",
            DriveHealth::Away { .. } => "away",
            DriveHealth::Wiped { .. } => "wiped",
            DriveHealth::Missing => "missing",
            DriveHealth::Lost => "lost",
            DriveHealth::Removed => "removed",
        }
    }

    /// What happened to it, for people.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            DriveHealth::Suspect { reason }
            | DriveHealth::Away { reason }
            | DriveHealth::Wiped { reason } => Some(reason),
            DriveHealth::Up
            | DriveHealth::Full
            | DriveHealth::Missing
            | DriveHealth::Lost
            | DriveHealth::Removed => None,
        }
    }

    /// Neither read nor written: what it holds, or held, is not to be had for now.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        match self {
            DriveHealth::Up | DriveHealth::Full | DriveHealth::Suspect { .. } => false,
            DriveHealth::Away { .. }
            | DriveHealth::Wiped { .. }
            | DriveHealth::Missing
            | DriveHealth::Lost
            | DriveHealth::Removed => true,
        }
    }

    /// What it held will not come back by itself: it is rebuilt without waiting.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        matches!(self, DriveHealth::Wiped { .. } | DriveHealth::Lost | DriveHealth::Removed)
    }
}

/// One drive. Counters are since opening.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveReport {
    /// The drive.
    pub id: DriveId,
    /// The drives with which it holds stripes.
    pub group: DriveGroup,
    /// Its path or address; empty if missing.
    pub name: String,
    /// Whether it is of use.
    pub health: DriveHealth,
    /// It may lack what was written after this change of the catalogue, since it was away or put back from an
    /// old copy, and has not been gone through yet.
    pub gaps_after: Option<u64>,
    /// The burn-in of which its place has a record.
    pub burn_in: Option<BurnInRecord>,
    /// How it is read and written, and how many reads, and how many writes, it is handed at one time; `None`
    /// if missing.
    pub queue: Option<(QueueEngine, usize)>,
    /// It is to be emptied: it gets nothing new, and what it holds moves to the others.
    pub drains: bool,
    /// It is new and is given the shards that should be on it: it lacks them all, and was not away.
    pub filling: bool,
    /// Size; 0 if unknown. Of a file system that drives share, an even part, as of the next two.
    pub capacity: ByteCount,
    /// Taken, by whomever.
    pub used: ByteCount,
    /// Free.
    pub free: ByteCount,
    /// Bytes read, headers included.
    pub bytes_read: ByteCount,
    /// Bytes written, headers included.
    pub bytes_written: ByteCount,
    /// Syncs done.
    pub syncs: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Cells and records whose checksum or identity was wrong.
    pub damaged: u64,
    /// Cells and records of this drive that others had to stand in for.
    pub reconstructions: u64,
    /// Cells that did not come in time, so that others stood in for them.
    pub late: u64,
    /// How often it was taken up again after it had failed.
    pub recoveries: u64,
    /// How many times as long as the others it takes, if it is much slower: new data goes to those.
    pub slow: Option<u64>,
    /// For how long it has been at the oldest of its jobs; a drive that hangs is set aside by it.
    pub silence: Duration,
}

/// Room on one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveSpace {
    /// The drive.
    pub id: DriveId,
    /// The drives with which it holds stripes.
    pub group: DriveGroup,
    /// Whether it is of use.
    pub health: DriveHealth,
    /// It is to be emptied, and gets nothing new.
    pub drains: bool,
    /// Size; 0 if unknown. Of a file system that drives share, an even part, as of what is free.
    pub capacity: ByteCount,
    /// Free.
    pub free: ByteCount,
    /// Of a full drive: what is as large as this finds no room there.
    pub refuses_from: Option<ByteCount>,
}

impl DriveSpace {
    /// Whether new files may go there.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        takes_files(&self.health, self.drains, self.capacity, self.free)
    }

    /// What new files may take of it.
    #[must_use]
    pub fn room_for_files(&self) -> ByteCount {
        if self.takes_files() { above_floor(self.capacity, self.free) } else { ByteCount(0) }
    }
}

impl DriveReport {
    /// Whether new files may go there.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        takes_files(&self.health, self.drains, self.capacity, self.free)
    }

    /// Whether only a lack of room keeps new files from it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.health.is_up() && !self.drains && !self.takes_files()
    }
}

/// The one rule for room on a drive. What is below the floor is left to what empties the pool: headers of
/// packs, and recalled files.
fn takes_files(health: &DriveHealth, drains: bool, capacity: ByteCount, free: ByteCount) -> bool {
    health.is_writable() && !drains && above_floor(capacity, free).0 > 0
}

/// What is free of it for new files; what is below is left to what empties the pool.
pub(crate) fn above_floor(capacity: ByteCount, free: ByteCount) -> ByteCount {
    ByteCount(free.0.saturating_sub((capacity.0 / FLOOR_PART).min(FLOOR_BYTES_MAX)))
}

/// How many drives share each file system.
pub(crate) struct FileSystemShares(BTreeMap<u64, u64>);

impl FileSystemShares {
    pub(crate) fn count(drives: impl Iterator<Item = DriveStatus>) -> Self {
        let mut counts = BTreeMap::new();
        drives.filter_map(|status| status.file_system).for_each(|id| *counts.entry(id).or_default() += 1);
        FileSystemShares(counts)
    }

    /// How many drives share the file system of one; itself counts.
    pub(crate) fn sharing(&self, status: DriveStatus) -> u64 {
        status.file_system.and_then(|id| self.0.get(&id)).copied().unwrap_or(1).max(1)
    }

    /// A drive's even part of what is shared, so that sums over drives count no byte twice.
    pub(crate) fn of(&self, status: DriveStatus) -> DriveStatus {
        let sharing = self.sharing(status);
        let part = |bytes: ByteCount| ByteCount(bytes.0 / sharing);
        let (capacity, used, free) = (part(status.capacity), part(status.used), part(status.free));
        DriveStatus { capacity, used, free, ..status }
    }
}

/// All drives, and sums over them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolStatus {
    /// The drives in order of their ids.
    pub drives: Vec<DriveReport>,
    /// Sum of capacities of present drives.
    pub capacity: ByteCount,
    /// Sum of used space.
    pub used: ByteCount,
    /// Sum of free space.
    pub free: ByteCount,
    /// Sum of bytes read.
    pub bytes_read: ByteCount,
    /// Sum of bytes written.
    pub bytes_written: ByteCount,
    /// Sum of syncs.
    pub syncs: u64,
    /// Sum of errors.
    pub errors: u64,
    /// Sum of damaged cells and records.
    pub damaged: u64,
    /// Sum of reconstructions.
    pub reconstructions: u64,
}

impl PoolStatus {
    pub(crate) fn of(drives: Vec<DriveReport>) -> Self {
        let bytes = |of: fn(&DriveReport) -> ByteCount| {
            ByteCount(drives.iter().fold(0, |sum, drive| sum.saturating_add(of(drive).0)))
        };
        let number = |of: fn(&DriveReport) -> u64| drives.iter().map(of).sum();
        PoolStatus {
            capacity: bytes(|d| d.capacity),
            used: bytes(|d| d.used),
            free: bytes(|d| d.free),
            bytes_read: bytes(|d| d.bytes_read),
            bytes_written: bytes(|d| d.bytes_written),
            syncs: number(|d| d.syncs),
            errors: number(|d| d.errors),
            damaged: number(|d| d.damaged),
            reconstructions: number(|d| d.reconstructions),
            drives,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten directories of one disk made a pool of ten times its size.
    #[test]
    fn a_file_system_that_drives_share_is_counted_once() {
        let status = |file_system, capacity| DriveStatus {
            capacity: ByteCount(capacity),
            used: ByteCount(capacity / 4),
            free: ByteCount(capacity / 2),
            suspect: false,
            file_system,
        };
        let drives = [status(Some(7), 900), status(Some(7), 900), status(Some(7), 900), status(Some(8), 500)];
        let drives = drives.into_iter().chain([status(None, 100), status(None, 100)]);
        let shares = FileSystemShares::count(drives.clone());
        let parts: Vec<DriveStatus> = drives.map(|drive| shares.of(drive)).collect();
        let sum = |of: fn(&DriveStatus) -> ByteCount| parts.iter().map(|part| of(part).0).sum::<u64>();
        assert_eq!(sum(|part| part.capacity), 900 + 500 + 100 + 100);
        assert_eq!(sum(|part| part.used), 225 + 125 + 25 + 25);
        assert_eq!(sum(|part| part.free), 450 + 250 + 50 + 50);
    }
}
