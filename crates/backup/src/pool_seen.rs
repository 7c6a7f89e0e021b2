//! What the pool knows of a catalogue that is lost.

use base::{Epoch, Uuid};

/// What the drives of the pool know, as far as they are there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolSeen {
    /// The instance that they belong to.
    pub instance: Option<Uuid>,
    /// The newest epoch that wrote to any of them.
    pub epoch: Epoch,
    /// The newest change that any of them has been told of.
    pub change: u64,
}
