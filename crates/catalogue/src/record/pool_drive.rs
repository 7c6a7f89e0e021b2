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
}

/// A pool drive that is not simply in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolDriveRecord {
    /// What is wanted of it.
    pub state: PoolDriveState,
    /// Since when.
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
