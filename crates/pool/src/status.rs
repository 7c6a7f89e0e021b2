//! What a pool tells about itself.

use base::{ByteCount, DriveId};

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
}

impl DriveHealth {
    /// Neither read nor written: what it holds, or held, is not to be had for now.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        match self {
            DriveHealth::Up | DriveHealth::Full | DriveHealth::Suspect { .. } => false,
            DriveHealth::Away { .. }
            | DriveHealth::Wiped { .. }
            | DriveHealth::Missing
            | DriveHealth::Lost => true,
        }
    }

    /// What it held will not come back by itself: it is rebuilt without waiting.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        matches!(self, DriveHealth::Wiped { .. } | DriveHealth::Lost)
    }
}

/// One drive. Counters are since opening.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveReport {
    /// The drive.
    pub id: DriveId,
    /// Its path or address; empty if missing.
    pub name: String,
    /// Whether it is of use.
    pub health: DriveHealth,
    /// It may lack what was written after this change of the catalogue, since it was away or put back from an
    /// old copy, and has not been gone through yet.
    pub gaps_after: Option<u64>,
    /// Size; 0 if unknown.
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
}

/// Room on one drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveSpace {
    /// The drive.
    pub id: DriveId,
    /// Whether it takes new data.
    pub up: bool,
    /// Whether it takes none only because it is full.
    pub full: bool,
    /// Size; 0 if unknown.
    pub capacity: ByteCount,
    /// Free.
    pub free: ByteCount,
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
