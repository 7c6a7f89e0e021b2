//! Other devices, to which entries are pushed.

use base::Duration;
use kinetic::client::ClientSettings;
use kinetic::{
    Answer, ClusterVersion, Identity, Peer, Push, PushOperation, PushOutcome, Put, Request, Secret, Status,
    StatusCode, Synchronization,
};
use kinetic_client::{Answered, CallError, Link, LinkSettings, Trust};
use valuelog::{LogError, ValueLog};

use crate::store::{code_of, metadata_of};

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
    fn put(&self, put: Put) -> Status;
    /// Has the other device push entries to a third.
    ///
    /// # Errors
    /// Why it did not.
    fn push(&self, push: &Push) -> Result<Vec<PushOutcome>, Status>;
}

/// Reaches other devices by the client of Kist.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Which of them are believed over TLS; none: TLS is not spoken with them.
    pub trust: Option<Trust>,
}

fn remote(text: &str) -> Status {
    Status::new(StatusCode::RemoteConnectionError, text)
}

impl Peers for Clients {
    fn connect(&self, peer: &Peer, pusher: &Pusher, within: Duration) -> Result<Box<dyn PeerLink>, Status> {
        let trust = match (peer.is_tls, &self.trust) {
            (false, _) => None,
            (true, Some(trust)) => Some(trust.clone()),
            (true, None) => return Err(remote("this device was not told which certificates to believe")),
        };
        let address = match peer.host.contains(':') && !peer.host.starts_with('[') {
            true => format!("[{}]:{}", peer.host, peer.port),
            false => format!("{}:{}", peer.host, peer.port),
        };
        let mut client = ClientSettings::new(pusher.identity, pusher.key.bytes());
        client.cluster_version = pusher.cluster_version;
        client.is_tls = peer.is_tls;
        let mut settings = LinkSettings::new(vec![address], client);
        settings.trust = trust;
        settings.connect_within = settings.connect_within.min(within);
        settings.patience = settings.patience.min(within);
        settings.down_patience = settings.down_patience.min(within);
        let link = Link::new("kinetic-peer", settings)
            .map_err(|error| Status::new(StatusCode::InternalError, &error.to_string()))?;
        link.set_cluster_version(pusher.cluster_version);
        link.open(within).map_err(|error| remote(&error.to_string()))?;
        Ok(Box::new(link))
    }
}

fn status_of(error: &CallError) -> Status {
    let code = match error {
        CallError::Overtaken(_) => StatusCode::VersionMismatch,
        CallError::Unknown(_) => StatusCode::Expired,
        CallError::NotTaken(_) => StatusCode::InvalidRequest,
        _ => StatusCode::RemoteConnectionError,
    };
    Status::new(code, &error.to_string())
}

impl PeerLink for Link {
    fn put(&self, put: Put) -> Status {
        match self.call(Request::Change(kinetic::Change::Put(put))) {
            Ok(Answered { response, .. }) => response.status,
            Err(error) => status_of(&error),
        }
    }

    fn push(&self, push: &Push) -> Result<Vec<PushOutcome>, Status> {
        let answered = self.call(Request::Push(push.clone())).map_err(|error| status_of(&error))?;
        match answered.response.answer {
            Answer::Push(outcomes) => Ok(outcomes),
            _ => Err(answered.response.status),
        }
    }
}

/// Puts entries to another device. Each operation has a status afterwards.
pub(crate) fn push(log: &ValueLog, peers: &dyn Peers, pusher: &Pusher, push: &mut Push, within: Duration) {
    let began = std::time::Instant::now();
    let left = || within.saturating_sub(began.elapsed());
    let link = match peers.connect(&push.peer, pusher, left()) {
        Ok(link) => link,
        Err(status) => {
            push.operations.iter_mut().for_each(|operation| fail(operation, &status));
            return;
        }
    };
    for operation in &mut push.operations {
        if left().is_zero() {
            fail(operation, &Status::new(StatusCode::NotAttempted, "the time of the push was over"));
            continue;
        }
        let status = match entry_of(log, operation) {
            Ok(put) => link.put(put),
            Err(error) => Status::new(code_of(&error), &error.to_string()),
        };
        if !status.is_success() {
            fail(operation, &status);
            continue;
        }
        operation.status = Some(status);
        if let Some(then) = &mut operation.then {
            match link.push(then) {
                Ok(outcomes) => enter(then, outcomes),
                Err(status) => then.operations.iter_mut().for_each(|one| fail(one, &status)),
            }
        }
    }
}

fn entry_of(log: &ValueLog, operation: &PushOperation) -> Result<Put, LogError> {
    let found = log.get(&operation.key)?;
    Ok(Put {
        key: operation.new_key.clone().unwrap_or_else(|| operation.key.clone()),
        metadata: metadata_of(&found.metadata),
        db_version: operation.version.clone(),
        force: operation.force,
        synchronization: Synchronization::WriteThrough,
        value: bytes::Bytes::from_owner(found.value),
    })
}

/// An operation failed, and what was to come after it is not tried.
fn fail(operation: &mut PushOperation, status: &Status) {
    operation.status = Some(status.clone());
    let after = Status::new(StatusCode::NotAttempted, "the operation before it failed");
    if let Some(then) = &mut operation.then {
        then.operations.iter_mut().for_each(|one| fail(one, &after));
    }
}

/// Enters what another device says of its operations; what it leaves out, nobody knows.
fn enter(push: &mut Push, outcomes: Vec<PushOutcome>) {
    let mut outcomes = outcomes.into_iter();
    for operation in &mut push.operations {
        match outcomes.next() {
            Some(PushOutcome { status, then, .. }) => {
                operation.status = Some(status);
                if let Some(behind) = &mut operation.then {
                    enter(behind, then);
                }
            }
            None => fail(operation, &Status::new(StatusCode::Expired, "the other device does not say")),
        }
    }
}
