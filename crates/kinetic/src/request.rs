//! Requests as values.

use std::time::Duration;

use bytes::Bytes;

use crate::access::Acl;
use crate::auth::Secret;
use crate::code::{
    Algorithm, LogType, MessageType, PinOperation, PowerLevel, Priority, SecurityOperation, SetupOperation,
    StatusCode, Synchronization,
};
use crate::entry::{Change, Delete, Metadata, Put};
use crate::ids::ClusterVersion;
use crate::limits::Bounds;
use crate::push::Push;
use crate::wire;

/// Why a request is not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The code of the answer.
    pub code: StatusCode,
    /// Its text.
    pub text: &'static str,
}

impl Refusal {
    /// This code with this text.
    #[must_use]
    pub fn new(code: StatusCode, text: &'static str) -> Self {
        Refusal { code, text }
    }

    pub(crate) fn invalid(text: &'static str) -> Self {
        Refusal::new(StatusCode::InvalidRequest, text)
    }
}

/// A part of a request that is larger than the device accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}: {has}, the device accepts {limit}")]
pub struct Excess {
    /// What is too large.
    pub what: &'static str,
    /// How large it is.
    pub has: u64,
    /// How large it may be.
    pub limit: u64,
}

impl Excess {
    pub(crate) fn check(what: &'static str, has: usize, limit: u32) -> Result<(), Excess> {
        let (has, limit) = (has as u64, u64::from(limit));
        if has <= limit { Ok(()) } else { Err(Excess { what, has, limit }) }
    }
}

/// How a request shall be treated: the header, less what identifies it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Treatment {
    /// How long it may take at the device.
    pub timeout: Option<Duration>,
    /// No error recovery that takes long.
    pub early_exit: bool,
    /// What goes first.
    pub priority: Option<Priority>,
    /// For how long it may run before others have a turn.
    pub time_quanta: Option<Duration>,
}

impl Treatment {
    /// From a header. Negative spans are not stated ones; an unknown priority is refused.
    pub fn read(header: &wire::Header) -> Result<Self, Refusal> {
        let span =
            |span: Option<i64>| span.and_then(|span| u64::try_from(span).ok()).map(Duration::from_millis);
        let priority = match header.priority {
            None => None,
            Some(number) => {
                Some(Priority::from_number(number).ok_or(Refusal::invalid("a priority is 1 to 9"))?)
            }
        };
        Ok(Treatment {
            // A time of zero would end every request: with the devices that we know it means "none".
            timeout: span(header.timeout).filter(|span| !span.is_zero()),
            early_exit: header.early_exit.unwrap_or(false),
            priority,
            time_quanta: span(header.time_quanta),
        })
    }

    /// Into a header.
    pub fn write(&self, header: &mut wire::Header) {
        let span = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        header.timeout = self.timeout.map(span);
        header.early_exit = self.early_exit.then_some(true);
        header.priority = self.priority.map(Priority::number);
        header.time_quanta = self.time_quanta.map(span);
    }
}

/// Which entry is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The one with the key.
    Exact,
    /// The one with the next higher key.
    Next,
    /// The one with the next lower key.
    Previous,
}

/// Keys from one to another, in the order of their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// The lower bound.
    pub start: Bytes,
    /// Whether it is inside.
    pub start_inclusive: bool,
    /// The upper bound.
    pub end: Bytes,
    /// Whether it is inside.
    pub end_inclusive: bool,
    /// Most keys of the answer.
    pub max_returned: u32,
    /// The highest first.
    pub reverse: bool,
}

impl KeyRange {
    /// Whether a key is inside. With reversed bounds none is.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        let above = key > self.start.as_ref() || (self.start_inclusive && key == self.start);
        let below = key < self.end.as_ref() || (self.end_inclusive && key == self.end);
        above && below
    }

    fn read(from: &wire::Range) -> Result<Self, Refusal> {
        let max_returned = u32::try_from(from.max_returned.unwrap_or(0));
        Ok(KeyRange {
            start: from.start_key.clone().unwrap_or_default(),
            start_inclusive: from.start_key_inclusive.unwrap_or(false),
            end: from.end_key.clone().unwrap_or_default(),
            end_inclusive: from.end_key_inclusive.unwrap_or(false),
            max_returned: max_returned.map_err(|_| Refusal::invalid("a number of keys is negative"))?,
            reverse: from.reverse.unwrap_or(false),
        })
    }

    fn write(&self) -> wire::Range {
        wire::Range {
            start_key: Some(self.start.clone()),
            end_key: Some(self.end.clone()),
            start_key_inclusive: Some(self.start_inclusive),
            end_key_inclusive: Some(self.end_inclusive),
            max_returned: Some(i32::try_from(self.max_returned).unwrap_or(i32::MAX)),
            reverse: self.reverse.then_some(true),
            keys: Vec::new(),
        }
    }

    fn check(&self, bounds: &Bounds) -> Result<(), Excess> {
        Excess::check("bytes of a key", self.start.len().max(self.end.len()), bounds.key_bytes)?;
        Excess::check("keys of a range", self.max_returned as usize, bounds.range_keys)
    }
}

/// Access lists or a PIN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecurityChange {
    /// These lists, instead of all there are.
    Acls(Vec<Acl>),
    /// The PIN for erasing.
    ErasePin {
        /// The present one.
        old: Secret,
        /// The next one; empty: none is asked for.
        new: Secret,
    },
    /// The PIN for locking.
    LockPin {
        /// The present one.
        old: Secret,
        /// The next one; empty: none is asked for.
        new: Secret,
    },
}

/// What is asked of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// GET, GETNEXT or GETPREVIOUS.
    Get {
        /// Which entry.
        which: Which,
        /// From where.
        key: Bytes,
        /// Without the value.
        metadata_only: bool,
    },
    /// GET of a part of a value: an extension of ours ([`crate::EXTENSION_GET_PART`]). A device that does not
    /// announce it must not be asked: it would answer with the whole value.
    GetPart {
        /// The key.
        key: Bytes,
        /// Where the part begins.
        offset: u64,
        /// How many bytes it has; the value has to have them.
        length: u64,
    },
    /// GETVERSION.
    GetVersion {
        /// Of which entry.
        key: Bytes,
    },
    /// PUT or DELETE; in a batch or not.
    Change(Change),
    /// GETKEYRANGE.
    GetKeyRange(KeyRange),
    /// SETUP: another cluster version.
    SetClusterVersion(ClusterVersion),
    /// SETUP: another program for the device.
    Firmware(Bytes),
    /// SECURITY.
    Security(SecurityChange),
    /// GETLOG.
    GetLog {
        /// Which logs.
        types: Vec<LogType>,
        /// The name that [`LogType::Device`] asks for.
        device: Option<Bytes>,
    },
    /// PEER2PEERPUSH.
    Push(Push),
    /// NOOP.
    Noop,
    /// FLUSHALLDATA.
    FlushAllData,
    /// PINOP; the PIN stands beside the command.
    Pin(PinOperation),
    /// MEDIASCAN.
    MediaScan(KeyRange),
    /// MEDIAOPTIMIZE.
    MediaOptimize(KeyRange),
    /// START_BATCH.
    StartBatch,
    /// END_BATCH.
    EndBatch {
        /// How many operations it has.
        count: u32,
    },
    /// ABORT_BATCH.
    AbortBatch,
    /// SET_POWER_LEVEL.
    SetPowerLevel(PowerLevel),
}

impl Request {
    /// The type of its message.
    #[must_use]
    pub fn message_type(&self) -> MessageType {
        match self {
            Request::Get { which: Which::Exact, .. } | Request::GetPart { .. } => MessageType::Get,
            Request::Get { which: Which::Next, .. } => MessageType::GetNext,
            Request::Get { which: Which::Previous, .. } => MessageType::GetPrevious,
            Request::GetVersion { .. } => MessageType::GetVersion,
            Request::Change(Change::Put(_)) => MessageType::Put,
            Request::Change(Change::Delete(_)) => MessageType::Delete,
            Request::GetKeyRange(_) => MessageType::GetKeyRange,
            Request::SetClusterVersion(_) | Request::Firmware(_) => MessageType::Setup,
            Request::Security(_) => MessageType::Security,
            Request::GetLog { .. } => MessageType::GetLog,
            Request::Push(_) => MessageType::Peer2PeerPush,
            Request::Noop => MessageType::Noop,
            Request::FlushAllData => MessageType::FlushAllData,
            Request::Pin(_) => MessageType::PinOp,
            Request::MediaScan(_) => MessageType::MediaScan,
            Request::MediaOptimize(_) => MessageType::MediaOptimize,
            Request::StartBatch => MessageType::StartBatch,
            Request::EndBatch { .. } => MessageType::EndBatch,
            Request::AbortBatch => MessageType::AbortBatch,
            Request::SetPowerLevel(_) => MessageType::SetPowerLevel,
        }
    }

    /// Checks it against what a device accepts. Client and server ask this one function.
    pub fn check(&self, bounds: &Bounds) -> Result<(), Excess> {
        let key = |key: &Bytes| Excess::check("bytes of a key", key.len(), bounds.key_bytes);
        let version =
            |version: &Bytes| Excess::check("bytes of a version", version.len(), bounds.version_bytes);
        match self {
            Request::Get { key: one, .. }
            | Request::GetPart { key: one, .. }
            | Request::GetVersion { key: one } => key(one),
            Request::Change(Change::Put(put)) => {
                key(&put.key)?;
                version(&put.db_version)?;
                version(&put.metadata.version)?;
                Excess::check("bytes of a tag", put.metadata.tag.len(), bounds.tag_bytes)?;
                Excess::check("bytes of a value", put.value.len(), bounds.value_bytes)
            }
            Request::Change(Change::Delete(delete)) => {
                key(&delete.key)?;
                version(&delete.db_version)
            }
            Request::GetKeyRange(range) | Request::MediaScan(range) | Request::MediaOptimize(range) => {
                range.check(bounds)
            }
            Request::Security(SecurityChange::Acls(acls)) => {
                Excess::check("identities", acls.len(), bounds.identities)
            }
            Request::Security(SecurityChange::ErasePin { new, .. } | SecurityChange::LockPin { new, .. }) => {
                Excess::check("bytes of a PIN", new.bytes().len(), bounds.pin_bytes)
            }
            Request::Push(push) => push.check(bounds),
            Request::EndBatch { count } => {
                Excess::check("operations of a batch", *count as usize, bounds.batch_operations)
            }
            Request::Firmware(program) => {
                Excess::check("bytes of a value", program.len(), bounds.value_bytes)
            }
            Request::SetClusterVersion(_)
            | Request::GetLog { .. }
            | Request::Noop
            | Request::FlushAllData
            | Request::Pin(_)
            | Request::StartBatch
            | Request::AbortBatch
            | Request::SetPowerLevel(_) => Ok(()),
        }
    }

    /// Body and value of the message.
    #[must_use]
    pub fn write(&self) -> (Option<wire::Body>, Bytes) {
        let mut body = wire::Body::default();
        let mut value = Bytes::new();
        match self {
            Request::Get { key, metadata_only, .. } => {
                body.key_value = Some(wire::KeyValue {
                    key: Some(key.clone()),
                    metadata_only: metadata_only.then_some(true),
                    ..wire::KeyValue::default()
                });
            }
            Request::GetPart { key, offset, length } => {
                body.key_value = Some(wire::KeyValue {
                    key: Some(key.clone()),
                    part_offset: Some(*offset),
                    part_length: Some(*length),
                    ..wire::KeyValue::default()
                });
            }
            Request::GetVersion { key } => {
                body.key_value = Some(wire::KeyValue { key: Some(key.clone()), ..Default::default() });
            }
            Request::Change(Change::Put(put)) => {
                body.key_value = Some(write_put(put));
                value = put.value.clone();
            }
            Request::Change(Change::Delete(delete)) => body.key_value = Some(write_delete(delete)),
            Request::GetKeyRange(range) | Request::MediaScan(range) | Request::MediaOptimize(range) => {
                body.range = Some(range.write());
            }
            Request::SetClusterVersion(version) => {
                body.setup = Some(wire::Setup {
                    new_cluster_version: Some(version.0),
                    setup_op_type: Some(SetupOperation::ClusterVersion.number()),
                    ..wire::Setup::default()
                });
            }
            Request::Firmware(program) => {
                body.setup = Some(wire::Setup {
                    firmware_download: Some(true),
                    setup_op_type: Some(SetupOperation::Firmware.number()),
                    ..wire::Setup::default()
                });
                value = program.clone();
            }
            Request::Security(change) => body.security = Some(write_security(change)),
            Request::GetLog { types, device } => {
                body.get_log = Some(wire::GetLog {
                    types: types.iter().map(|one| one.number()).collect(),
                    device: device.clone().map(|name| wire::DeviceLog { name: Some(name) }),
                    ..wire::GetLog::default()
                });
            }
            Request::Push(push) => body.p2p_operation = Some(push.write()),
            Request::Pin(operation) => {
                body.pin_op = Some(wire::PinOp { pin_op_type: Some(operation.number()) });
            }
            Request::EndBatch { count } => {
                let count = i32::try_from(*count).unwrap_or(i32::MAX);
                body.batch = Some(wire::Batch { count: Some(count), ..wire::Batch::default() });
            }
            Request::SetPowerLevel(level) => body.power = Some(wire::Power { level: Some(level.number()) }),
            Request::Noop | Request::FlushAllData | Request::StartBatch | Request::AbortBatch => {
                return (None, value);
            }
        }
        (Some(body), value)
    }

    /// From a message.
    pub fn read(message_type: Option<i32>, body: Option<wire::Body>, value: Bytes) -> Result<Self, Refusal> {
        let unknown = Refusal::invalid("the type of the message is missing or unknown");
        let message_type = message_type.and_then(MessageType::from_number).ok_or(unknown)?;
        let body = body.unwrap_or_default();
        let range = |range: Option<wire::Range>| {
            KeyRange::read(&range.ok_or(Refusal::invalid("the body has no range"))?)
        };
        let which = match message_type {
            MessageType::GetNext => Which::Next,
            MessageType::GetPrevious => Which::Previous,
            _ => Which::Exact,
        };
        Ok(match message_type {
            MessageType::Get | MessageType::GetNext | MessageType::GetPrevious => {
                let (key, entry) = key_of(body.key_value)?;
                match (entry.part_offset, entry.part_length) {
                    (None, None) => {}
                    (Some(offset), Some(length)) if which == Which::Exact => {
                        return Ok(Request::GetPart { key, offset, length });
                    }
                    _ => {
                        return Err(Refusal::invalid(
                            "a part has an offset and a length, and is for GET alone",
                        ));
                    }
                }
                Request::Get { which, key, metadata_only: entry.metadata_only.unwrap_or(false) }
            }
            MessageType::GetVersion => Request::GetVersion { key: key_of(body.key_value)?.0 },
            MessageType::Put => Request::Change(Change::Put(read_put(body.key_value, value)?)),
            MessageType::Delete => Request::Change(Change::Delete(read_delete(body.key_value)?)),
            MessageType::GetKeyRange => Request::GetKeyRange(range(body.range)?),
            MessageType::MediaScan => Request::MediaScan(range(body.range)?),
            MessageType::MediaOptimize => Request::MediaOptimize(range(body.range)?),
            MessageType::Setup => read_setup(body.setup, value)?,
            MessageType::Security => Request::Security(read_security(body.security)?),
            MessageType::GetLog => read_get_log(body.get_log)?,
            MessageType::Peer2PeerPush => {
                let push = body.p2p_operation.ok_or(Refusal::invalid("the body has no push"))?;
                Request::Push(Push::read(&push)?)
            }
            MessageType::Noop => Request::Noop,
            MessageType::FlushAllData => Request::FlushAllData,
            MessageType::PinOp => {
                let number = body.pin_op.and_then(|operation| operation.pin_op_type);
                let operation = number.and_then(PinOperation::from_number);
                Request::Pin(operation.ok_or(Refusal::invalid("the operation of a PIN is unknown"))?)
            }
            MessageType::StartBatch => Request::StartBatch,
            MessageType::EndBatch => {
                let count = body.batch.and_then(|batch| batch.count);
                let count = count.and_then(|count| u32::try_from(count).ok());
                Request::EndBatch { count: count.ok_or(Refusal::invalid("the batch has no count"))? }
            }
            MessageType::AbortBatch => Request::AbortBatch,
            MessageType::SetPowerLevel => {
                let number = body.power.and_then(|power| power.level);
                let level = number.and_then(PowerLevel::from_number);
                Request::SetPowerLevel(level.ok_or(Refusal::invalid("the power level is unknown"))?)
            }
        })
    }
}

fn key_of(entry: Option<wire::KeyValue>) -> Result<(Bytes, wire::KeyValue), Refusal> {
    let entry = entry.ok_or(Refusal::invalid("the body has no entry"))?;
    let key = entry.key.clone().ok_or(Refusal::invalid("the entry has no key"))?;
    Ok((key, entry))
}

/// What is not stated is durable at once: the safest, and what a put without a word should mean.
fn read_synchronization(number: Option<i32>) -> Result<Synchronization, Refusal> {
    match number {
        None => Ok(Synchronization::WriteThrough),
        Some(number) => {
            Synchronization::from_number(number).ok_or(Refusal::invalid("the synchronization is unknown"))
        }
    }
}

fn read_put(entry: Option<wire::KeyValue>, value: Bytes) -> Result<Put, Refusal> {
    let (key, entry) = key_of(entry)?;
    Ok(Put {
        key,
        metadata: Metadata {
            version: entry.new_version.unwrap_or_default(),
            tag: entry.tag.unwrap_or_default(),
            algorithm: entry.algorithm.map(Algorithm),
        },
        db_version: entry.db_version.unwrap_or_default(),
        force: entry.force.unwrap_or(false),
        synchronization: read_synchronization(entry.synchronization)?,
        value,
    })
}

fn write_put(put: &Put) -> wire::KeyValue {
    wire::KeyValue {
        new_version: Some(put.metadata.version.clone()),
        key: Some(put.key.clone()),
        db_version: Some(put.db_version.clone()),
        tag: Some(put.metadata.tag.clone()),
        algorithm: put.metadata.algorithm.map(|algorithm| algorithm.0),
        metadata_only: None,
        force: put.force.then_some(true),
        synchronization: Some(put.synchronization.number()),
        ..wire::KeyValue::default()
    }
}

fn read_delete(entry: Option<wire::KeyValue>) -> Result<Delete, Refusal> {
    let (key, entry) = key_of(entry)?;
    Ok(Delete {
        key,
        db_version: entry.db_version.unwrap_or_default(),
        force: entry.force.unwrap_or(false),
        synchronization: read_synchronization(entry.synchronization)?,
    })
}

fn write_delete(delete: &Delete) -> wire::KeyValue {
    wire::KeyValue {
        key: Some(delete.key.clone()),
        db_version: Some(delete.db_version.clone()),
        force: delete.force.then_some(true),
        synchronization: Some(delete.synchronization.number()),
        ..wire::KeyValue::default()
    }
}

/// Version 3 says by the fields what is meant, version 4 by a type beside them.
fn read_setup(setup: Option<wire::Setup>, value: Bytes) -> Result<Request, Refusal> {
    let setup = setup.ok_or(Refusal::invalid("the body has no setup"))?;
    let operation = match setup.setup_op_type {
        Some(number) => SetupOperation::from_number(number),
        None if setup.firmware_download == Some(true) => Some(SetupOperation::Firmware),
        None => setup.new_cluster_version.map(|_| SetupOperation::ClusterVersion),
    };
    match operation.ok_or(Refusal::invalid("the setup has no known type"))? {
        SetupOperation::Firmware => Ok(Request::Firmware(value)),
        SetupOperation::ClusterVersion => {
            let version = setup.new_cluster_version;
            let version = version.ok_or(Refusal::invalid("the setup has no cluster version"))?;
            Ok(Request::SetClusterVersion(ClusterVersion(version)))
        }
    }
}

fn write_security(change: &SecurityChange) -> wire::Security {
    let (mut security, operation) = (
        wire::Security::default(),
        match change {
            SecurityChange::Acls(_) => SecurityOperation::Acl,
            SecurityChange::ErasePin { .. } => SecurityOperation::ErasePin,
            SecurityChange::LockPin { .. } => SecurityOperation::LockPin,
        },
    );
    security.security_op_type = Some(operation.number());
    match change {
        SecurityChange::Acls(acls) => security.acl = acls.iter().map(Acl::write).collect(),
        SecurityChange::ErasePin { old, new } => {
            security.old_erase_pin = Some(old.bytes().clone());
            security.new_erase_pin = Some(new.bytes().clone());
        }
        SecurityChange::LockPin { old, new } => {
            security.old_lock_pin = Some(old.bytes().clone());
            security.new_lock_pin = Some(new.bytes().clone());
        }
    }
    security
}

/// Version 3 says by the fields what is meant, version 4 by a type beside them. One thing at a time: a
/// request for two of them would be half done if the second failed.
fn read_security(security: Option<wire::Security>) -> Result<SecurityChange, Refusal> {
    let security = security.ok_or(Refusal::invalid("the body has no security"))?;
    let has_acls = !security.acl.is_empty();
    let (has_erase, has_lock) = (security.new_erase_pin.is_some(), security.new_lock_pin.is_some());
    if usize::from(has_acls) + usize::from(has_erase) + usize::from(has_lock) > 1 {
        return Err(Refusal::invalid("access lists and PINs are set one at a time"));
    }
    let operation = match security.security_op_type {
        Some(number) => SecurityOperation::from_number(number),
        None if has_acls => Some(SecurityOperation::Acl),
        None if has_erase => Some(SecurityOperation::ErasePin),
        None if has_lock => Some(SecurityOperation::LockPin),
        None => None,
    };
    let pin = |pin: Option<Bytes>| Secret::new(pin.unwrap_or_default());
    match operation.ok_or(Refusal::invalid("the security has no known type"))? {
        SecurityOperation::Acl => {
            let acls = security.acl.iter().map(Acl::read).collect::<Result<Vec<_>, _>>()?;
            Ok(SecurityChange::Acls(acls))
        }
        SecurityOperation::ErasePin => Ok(SecurityChange::ErasePin {
            old: pin(security.old_erase_pin),
            new: pin(security.new_erase_pin),
        }),
        SecurityOperation::LockPin => {
            Ok(SecurityChange::LockPin { old: pin(security.old_lock_pin), new: pin(security.new_lock_pin) })
        }
    }
}

fn read_get_log(log: Option<wire::GetLog>) -> Result<Request, Refusal> {
    let log = log.ok_or(Refusal::invalid("the body has no log"))?;
    let mut types = Vec::new();
    for number in &log.types {
        let one = LogType::from_number(*number).ok_or(Refusal::invalid("the type of a log is unknown"))?;
        if !types.contains(&one) {
            types.push(one);
        }
    }
    if types.is_empty() {
        return Err(Refusal::invalid("no log is asked for"));
    }
    let device = log.device.and_then(|device| device.name);
    let names_one = device.as_ref().is_some_and(|name| !name.is_empty());
    if types.contains(&LogType::Device) && (!names_one || types.len() > 1) {
        return Err(Refusal::invalid("a log of the maker is asked for alone, by its name"));
    }
    Ok(Request::GetLog { types, device })
}
