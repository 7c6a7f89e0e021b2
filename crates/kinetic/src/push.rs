//! Entries that go from device to device.

use bytes::Bytes;

use crate::limits::Bounds;
use crate::request::{Excess, Refusal};
use crate::status::Status;
use crate::wire;

/// Most devices in a row (A to B to C has two pushes).
pub const PUSH_DEPTH_MAX: usize = 8;
/// Most operations of a request, nested ones included.
pub const PUSH_OPERATIONS_MAX: usize = 4096;
/// Most bytes of the name of a host.
pub const HOST_BYTES_MAX: usize = 255;

/// The other device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether TLS is spoken.
    pub is_tls: bool,
}

/// One entry that is put to the other device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushOperation {
    /// Its key here.
    pub key: Bytes,
    /// Its key there, if it is another one.
    pub new_key: Option<Bytes>,
    /// The version that stands there now.
    pub version: Bytes,
    /// Whatever stands there.
    pub force: bool,
    /// What became of it; in answers.
    pub status: Option<Status>,
    /// What the other device then puts to a third.
    pub then: Option<Push>,
}

/// Entries for one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    /// The other device.
    pub peer: Peer,
    /// The entries.
    pub operations: Vec<PushOperation>,
}

impl Push {
    /// Whether all operations, nested ones too, have a status and succeeded.
    #[must_use]
    pub fn all_succeeded(&self) -> bool {
        self.operations.iter().all(|operation| {
            operation.status.as_ref().is_some_and(Status::is_success)
                && operation.then.as_ref().is_none_or(Push::all_succeeded)
        })
    }

    /// Operations, nested ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        let nested = self.operations.iter().filter_map(|operation| operation.then.as_ref());
        self.operations.len() + nested.map(Push::count).sum::<usize>()
    }

    pub(crate) fn check(&self, bounds: &Bounds) -> Result<(), Excess> {
        for operation in &self.operations {
            let longest = operation.key.len().max(operation.new_key.as_ref().map_or(0, Bytes::len));
            Excess::check("bytes of a key", longest, bounds.key_bytes)?;
            Excess::check("bytes of a version", operation.version.len(), bounds.version_bytes)?;
            if let Some(then) = &operation.then {
                then.check(bounds)?;
            }
        }
        Ok(())
    }

    /// From a message.
    pub fn read(from: &wire::P2pOperation) -> Result<Self, Refusal> {
        let push = Push::read_to(from, PUSH_DEPTH_MAX)?;
        if push.count() > PUSH_OPERATIONS_MAX {
            return Err(Refusal::invalid("a push has at most 4096 operations"));
        }
        Ok(push)
    }

    fn read_to(from: &wire::P2pOperation, depth: usize) -> Result<Self, Refusal> {
        let depth = depth.checked_sub(1).ok_or(Refusal::invalid("a push passes at most 8 devices"))?;
        let peer = from.peer.as_ref().ok_or(Refusal::invalid("a push has no peer"))?;
        let host = peer.hostname.as_ref().filter(|host| !host.is_empty() && host.len() <= HOST_BYTES_MAX);
        let port = peer.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        let peer = Peer {
            host: host
                .and_then(|host| String::from_utf8(host.to_vec()).ok())
                .ok_or(Refusal::invalid("a peer has no host"))?,
            port: port.ok_or(Refusal::invalid("a peer has no port"))?,
            is_tls: peer.tls.unwrap_or(false),
        };
        let operation = |from: &wire::PushOperation| {
            Ok(PushOperation {
                key: from.key.clone().ok_or(Refusal::invalid("an operation of a push has no key"))?,
                new_key: from.new_key.clone(),
                version: from.version.clone().unwrap_or_default(),
                force: from.force.unwrap_or(false),
                status: from.status.as_ref().map(|status| Status::read(Some(status))),
                then: from.p2pop.as_ref().map(|then| Push::read_to(then, depth)).transpose()?,
            })
        };
        let operations = from.operation.iter().map(operation).collect::<Result<Vec<_>, _>>()?;
        if operations.is_empty() {
            return Err(Refusal::invalid("a push has no operations"));
        }
        Ok(Push { peer, operations })
    }

    /// As a message of a request.
    #[must_use]
    pub fn write(&self) -> wire::P2pOperation {
        let operation = |from: &PushOperation| wire::PushOperation {
            key: Some(from.key.clone()),
            version: (!from.version.is_empty()).then(|| from.version.clone()),
            new_key: from.new_key.clone(),
            force: from.force.then_some(true),
            status: from.status.as_ref().map(Status::write),
            p2pop: from.then.as_ref().map(|then| Box::new(then.write())),
        };
        wire::P2pOperation {
            peer: Some(wire::Peer {
                hostname: Some(Bytes::from(self.peer.host.clone())),
                port: Some(i32::from(self.peer.port)),
                tls: Some(self.peer.is_tls),
            }),
            operation: self.operations.iter().map(operation).collect(),
            all_child_operations_succeeded: None,
        }
    }

    /// As a message of an answer.
    #[must_use]
    pub fn write_answer(&self) -> wire::P2pOperation {
        wire::P2pOperation { all_child_operations_succeeded: Some(self.all_succeeded()), ..self.write() }
    }
}

/// What became of one operation of a push, as an answer says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushOutcome {
    /// The key, if the answer names it.
    pub key: Option<Bytes>,
    /// How it ended; [`crate::StatusCode::Invalid`] if the answer does not say.
    pub status: Status,
    /// What became of the operations behind it.
    pub then: Vec<PushOutcome>,
}

impl PushOutcome {
    /// From the message of an answer; nothing in it has to be there.
    #[must_use]
    pub fn read(from: &wire::P2pOperation) -> Vec<PushOutcome> {
        let outcome = |from: &wire::PushOperation| PushOutcome {
            key: from.key.clone(),
            status: Status::read(from.status.as_ref()),
            then: from.p2pop.as_ref().map(|then| PushOutcome::read(then)).unwrap_or_default(),
        };
        from.operation.iter().map(outcome).collect()
    }
}
