//! What an operator wants of the drives of the pool.

use base::{PercentPoints, StripeCode, Timestamp};

/// What an operator wants of a pool drive that is not simply in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolDriveState {
    /// It takes no new data, and what it holds moves to the others.
    Draining,
    /// As draining, and from now on no stripe comes to stand on it: it is counted whether one does. A start
    /// takes it for draining.
    Leaving,
    /// It is no drive of the pool any more: no stripe stands on it, and none comes to.
    Removed,
    /// It is given up: not read and not written, and what it held is rebuilt on the others, until it or
    /// another one is put in its place.
    Lost,
}

/// A pool drive that is not simply in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolDriveRecord {
    /// What is wanted of it.
    pub state: PoolDriveState,
    /// Since when.
    pub since: Timestamp,
}

/// A slot of an enclosure, as it is known over restarts too: names of devices change with each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DriveSlot {
    /// The logical identifier of the enclosure.
    pub enclosure: u64,
    /// The number of the slot that stands on it.
    pub number: u32,
}

/// On which disk a drive of the pool is, and what became of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveDisk {
    /// The disk by its name in the world, else by vendor, model and serial number; 1 to 256 bytes.
    pub disk: String,
    /// The slot that it stands in, if that is proven.
    pub slot: Option<DriveSlot>,
    /// The slot whose light was switched on for the drive; `None`: none is on that is to be switched off.
    pub light: Option<DriveSlot>,
    /// Why the drive is emptied, if nobody but the policy had it emptied: its disk expects to fail.
    pub drained: Option<String>,
    /// An operator ended such a drain: none begins by itself while the drive is on this disk.
    pub kept: bool,
}

/// On which disk a drive of the pool is, and since when that is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveDiskRecord {
    /// What is known.
    pub known: DriveDisk,
    /// Since when it is on this disk, in this slot.
    pub since: Timestamp,
}

/// What is stored moves between the drives of the pool until they are about equally full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebalanceRecord {
    /// It ends when the fullest drive and the emptiest are no further apart.
    pub to: PercentPoints,
    /// Since when.
    pub since: Timestamp,
}

/// What is stored in another code is written anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecodingRecord {
    /// In this one.
    pub to: StripeCode,
    /// Since when.
    pub since: Timestamp,
}
