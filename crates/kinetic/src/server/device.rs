//! What all connections of a device share.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Duration;

use super::connection::Connection;
use crate::access::Acl;
use crate::auth::{HmacKey, Secret};
use crate::code::{LogType, MessageType, PowerLevel, StatusCode};
use crate::frame::{FrameLimits, OutFrame, VALUE_BYTES_SKIPPED_MAX};
use crate::ids::{ClusterVersion, ConnectionId, Identity};
use crate::limits::{Bounds, Limits};
use crate::log::{Configuration, Log, Statistics};
use crate::message::{MessageError, Sender, seal};
use crate::status::Status;
use crate::wire;

/// What does not change while a device runs.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceSettings {
    /// Who it is.
    pub configuration: Configuration,
    /// What it accepts.
    pub limits: Limits,
    /// Keys and PINs are set over TLS only.
    pub is_security_over_tls: bool,
    /// The number of the first connection: one that no earlier run has used, so that nothing recorded then
    /// can be played again.
    pub connection_first: ConnectionId,
}

/// What a device keeps when it is off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceState {
    /// Who may what.
    pub acls: Vec<Acl>,
    /// The generation of the cluster it belongs to.
    pub cluster_version: ClusterVersion,
    /// Empty: it cannot be locked.
    pub lock_pin: Secret,
    /// Empty: it cannot be erased.
    pub erase_pin: Secret,
    /// Whether it is locked.
    pub is_locked: bool,
}

impl DeviceState {
    /// Of a new device: anybody who knows the well-known key may do everything.
    #[must_use]
    pub fn factory() -> Self {
        DeviceState {
            acls: vec![Acl::factory()],
            cluster_version: ClusterVersion(0),
            lock_pin: Secret::default(),
            erase_pin: Secret::default(),
            is_locked: false,
        }
    }

    /// With a change.
    #[must_use]
    pub fn with(&self, change: &StateChange) -> Self {
        let mut state = self.clone();
        match change {
            StateChange::Acls(acls) => state.acls.clone_from(acls),
            StateChange::ClusterVersion(version) => state.cluster_version = *version,
            StateChange::LockPin(pin) => state.lock_pin = pin.clone(),
            StateChange::ErasePin(pin) => state.erase_pin = pin.clone(),
            StateChange::Locked(is_locked) => state.is_locked = *is_locked,
            StateChange::Factory => state = DeviceState::factory(),
        }
        state
    }
}

/// A change of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateChange {
    /// Other access lists, instead of all there are.
    Acls(Vec<Acl>),
    /// Another cluster version.
    ClusterVersion(ClusterVersion),
    /// Another PIN for locking.
    LockPin(Secret),
    /// Another PIN for erasing.
    ErasePin(Secret),
    /// Locked or not.
    Locked(bool),
    /// All of it as in a new device.
    Factory,
}

/// An identity and its key, ready for use.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) acl: Acl,
    pub(super) key: HmacKey,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counter {
    count: u64,
    bytes: u64,
    latency_max: Duration,
}

/// A device, less its store.
#[derive(Debug)]
pub struct Device {
    settings: DeviceSettings,
    bounds: Bounds,
    state: DeviceState,
    known: BTreeMap<Identity, Arc<Known>>,
    power: PowerLevel,
    connections: u32,
    connection_next: i64,
    batches: u32,
    /// How often it was locked: batches of before are gone.
    pub(super) lockings: u64,
    /// A change of the state is being made durable; there is one at a time.
    pub(super) is_changing: bool,
    counters: BTreeMap<MessageType, Counter>,
}

impl Device {
    /// With the state that was kept.
    #[must_use]
    pub fn new(settings: DeviceSettings, state: DeviceState) -> Self {
        let (bounds, connection_next) = (settings.limits.bounds(), settings.connection_first.0);
        let mut device = Device {
            settings,
            bounds,
            known: BTreeMap::new(),
            state,
            power: PowerLevel::Operational,
            connections: 0,
            connection_next,
            batches: 0,
            lockings: 0,
            is_changing: false,
            counters: BTreeMap::new(),
        };
        device.know();
        device
    }

    /// What it keeps.
    #[must_use]
    pub fn state(&self) -> &DeviceState {
        &self.state
    }

    /// How awake it is.
    #[must_use]
    pub fn power(&self) -> PowerLevel {
        self.power
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Batches that are open.
    #[must_use]
    pub fn batches(&self) -> u32 {
        self.batches
    }

    /// What it accepts.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// What the reader of frames of its connections accepts. Longer values are read over and refused.
    #[must_use]
    pub fn frame_limits(&self) -> FrameLimits {
        FrameLimits {
            message: self.bounds.message_bytes,
            value: self.bounds.value_bytes,
            skipped: VALUE_BYTES_SKIPPED_MAX,
        }
    }

    /// A connection was made: the connection and what it sends first; or, if there are too many, no
    /// connection and what is sent before it is closed.
    pub fn accept(&mut self, is_tls: bool) -> Result<(Connection, OutFrame), OutFrame> {
        let too_many = || {
            let text = "the device has as many connections as it accepts";
            let status = Status::new(StatusCode::ConnectionTerminated, text);
            unsolicited(wire::Header::default(), &status, None)
        };
        if self.connections >= self.bounds.connections {
            return Err(too_many());
        }
        let id = ConnectionId(self.connection_next);
        let status = match (self.state.is_locked, self.power) {
            (true, _) => Status::new(StatusCode::DeviceLocked, "the device is locked"),
            (false, PowerLevel::Hibernate) => Status::new(StatusCode::Hibernate, "the device hibernates"),
            (false, PowerLevel::Shutdown) => Status::new(StatusCode::Shutdown, "the device shuts down"),
            (false, PowerLevel::Fail) => Status::new(StatusCode::InternalError, "the device has failed"),
            (false, PowerLevel::Operational) => Status::success(),
        };
        let log = Log {
            types: vec![LogType::Configuration, LogType::Limits],
            configuration: Some(self.configuration()),
            limits: Some(self.settings.limits),
            ..Log::default()
        };
        let header = wire::Header {
            connection_id: Some(id.0),
            cluster_version: Some(self.state.cluster_version.0),
            ..wire::Header::default()
        };
        let greeting = unsolicited(header, &status, Some(&log));
        self.connection_next = self.connection_next.wrapping_add(1);
        self.connections += 1;
        assert!(self.connections <= self.bounds.connections, "more connections than there may be");
        Ok((Connection::new(id, is_tls), greeting))
    }

    pub(super) fn known(&self, identity: Identity) -> Option<&Arc<Known>> {
        self.known.get(&identity)
    }

    pub(super) fn is_security_over_tls(&self) -> bool {
        self.settings.is_security_over_tls
    }

    pub(super) fn disconnected(&mut self) {
        assert!(self.connections > 0, "a connection ends that was not counted");
        self.connections -= 1;
    }

    pub(super) fn open_batch(&mut self) -> bool {
        let has_room = self.batches < self.bounds.batches;
        self.batches += u32::from(has_room);
        assert!(self.batches <= self.bounds.batches, "more batches than there may be");
        has_room
    }

    pub(super) fn close_batch(&mut self, lockings: u64) {
        if lockings == self.lockings {
            assert!(self.batches > 0, "a batch ends that was not counted");
            self.batches -= 1;
        }
    }

    /// A change is durable: now it holds.
    pub(super) fn change(&mut self, change: &StateChange) {
        self.state = self.state.with(change);
        match change {
            StateChange::Locked(true) | StateChange::Factory => {
                self.lockings += 1;
                self.batches = 0;
            }
            _ => {}
        }
        self.know();
    }

    pub(super) fn set_power(&mut self, power: PowerLevel) {
        self.power = power;
    }

    pub(super) fn count(&mut self, message_type: MessageType, bytes: u64, latency: Duration) {
        let counter = self.counters.entry(message_type).or_default();
        counter.count += 1;
        counter.bytes += bytes;
        counter.latency_max = counter.latency_max.max(latency);
    }

    /// Completes the logs of the store with what the device itself knows.
    pub(super) fn complete(&self, types: &[LogType], log: &mut Log) {
        log.types = types.to_vec();
        if types.contains(&LogType::Configuration) {
            log.configuration = Some(self.configuration());
        }
        if types.contains(&LogType::Limits) {
            log.limits = Some(self.settings.limits);
        }
        if types.contains(&LogType::Statistics) {
            let one = |(message_type, counter): (&MessageType, &Counter)| Statistics {
                message_type: message_type.number(),
                count: counter.count,
                bytes: counter.bytes,
                latency_max: Some(u64::try_from(counter.latency_max.as_micros()).unwrap_or(u64::MAX)),
            };
            log.statistics = self.counters.iter().map(one).collect();
        }
    }

    fn configuration(&self) -> Configuration {
        let power_level = match self.power {
            PowerLevel::Operational => PowerLevel::Operational,
            _ => PowerLevel::Hibernate,
        };
        Configuration { power_level: Some(power_level), ..self.settings.configuration.clone() }
    }

    fn know(&mut self) {
        let known = |acl: &Acl| {
            let key = HmacKey::new(acl.key.bytes());
            (acl.identity, Arc::new(Known { acl: acl.clone(), key }))
        };
        self.known = self.state.acls.iter().map(known).collect();
    }
}

/// What the device says by itself.
pub(super) fn unsolicited(header: wire::Header, status: &Status, log: Option<&Log>) -> OutFrame {
    let body = log.map(|log| wire::Body { get_log: Some(log.write()), ..wire::Body::default() });
    let command = wire::Command { header: Some(header.clone()), body, status: Some(status.write()) };
    let sealed = seal(Sender::Device, &command, bytes::Bytes::new());
    // Only a configuration of a megabyte would not fit: then the device greets without it.
    sealed.unwrap_or_else(|_: MessageError| unsolicited(header, status, None))
}
