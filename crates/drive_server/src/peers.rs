//! Other devices, to which entries are pushed.

use base::Duration;
use kinetic::{ClusterVersion, Identity, Peer, Push, PushOutcome, Put, Secret, Status, StatusCode};

/// Who pushes: the identity that asked for it, which the other device has to know too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pusher {
    /// The identity.
    pub identity: Identity,
    /// Its key.
    pub key: Secret,
    /// The cluster version of this device.
    pub cluster_version: ClusterVersion,
}

/// Reaches other devices.
pub trait Peers: Send + Sync {
    /// A connection to another device.
    ///
    /// # Errors
    /// Why it was not reached: [`StatusCode::RemoteConnectionError`].
    fn connect(&self, peer: &Peer, pusher: &Pusher, within: Duration) -> Result<Box<dyn PeerLink>, Status>;
}

/// A connection to another device.
pub trait PeerLink {
    /// Puts an entry; durable when it succeeds.
    fn put(&mut self, put: Put, within: Duration) -> Status;
    /// Has the other device push entries to a third.
    ///
    /// # Errors
    /// Why it did not.
    fn push(&mut self, push: &Push, within: Duration) -> Result<Vec<PushOutcome>, Status>;
}

/// Reaches nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn connect(&self, _: &Peer, _: &Pusher, _: Duration) -> Result<Box<dyn PeerLink>, Status> {
        Err(Status::new(StatusCode::RemoteConnectionError, "this device pushes to no other"))
    }
}
