//! One connection of a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Timestamp;
use bytes::Bytes;
use prost::Message as _;

use super::batch::OpenBatches;
use super::check::{is_allowed, is_awake, is_sound};
use super::device::{Device, DeviceState, Known, StateChange, unsolicited};
use super::work::{Action, JobId, Operation, Outcome, RANGE_ANSWER_BYTES_MAX, Work};
use crate::auth::Secret;
use crate::code::{LogType, MessageType, Permission, PinOperation, PowerLevel, StatusCode};
use crate::frame::{Frame, FrameError, FrameValue};
use crate::ids::{BatchNumber, ConnectionId, Identity, Sequence};
use crate::message::{Sealed, Sender, Vouched, seal};
use crate::request::{Refusal, Request, SecurityChange, Treatment};
use crate::response::Reply;
use crate::status::Status;
use crate::wire;

/// Most bytes of a command that comes with a PIN: it is read before the PIN can be checked.
pub const PIN_COMMAND_BYTES_MAX: usize = 4096;
/// Wrong keys and PINs after which a connection is closed: guessing needs many.
pub const HMAC_FAILURES_MAX: u32 = 16;

/// Who is answered.
#[derive(Clone, Debug)]
enum Asker {
    /// An identity, with the key that it had when it asked.
    Known(Arc<Known>),
    /// An identity whose key is not known.
    Unknown(Identity),
    /// Whoever knew the PIN.
    Pin,
}

/// What an answer needs to know of its request.
#[derive(Clone, Debug)]
struct Asked {
    asker: Asker,
    sequence: Option<Sequence>,
    message_type: Option<MessageType>,
}

#[derive(Debug)]
struct Job {
    asked: Asked,
    message_type: MessageType,
    began: Timestamp,
    value_bytes: u64,
    kind: Kind,
}

/// What is left to be done when the work is.
#[derive(Debug)]
enum Kind {
    Plain,
    /// The change of the state holds.
    State(StateChange),
    Batch {
        sequences: Vec<Sequence>,
        lockings: u64,
    },
    Power(PowerLevel),
    Log(Vec<LogType>),
}

/// Why a frame has no ordinary answer.
enum Trouble {
    /// The answer is this.
    Refused(Refusal),
    /// The connection ends; the device says why.
    Ended(Refusal),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Trouble::Refused(refusal)
    }
}

/// The device's end of one connection.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    is_tls: bool,
    sequence_last: Option<i64>,
    jobs: BTreeMap<JobId, Job>,
    job_next: i64,
    reads: u32,
    writes: u32,
    batches: OpenBatches,
    failures: u32,
    is_closed: bool,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, is_tls: bool) -> Self {
        Connection {
            id,
            is_tls,
            sequence_last: None,
            jobs: BTreeMap::new(),
            job_next: 1,
            reads: 0,
            writes: 0,
            batches: OpenBatches::default(),
            failures: 0,
            is_closed: false,
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Whether it is closed. Work that was handed out is finished all the same.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Work that is not done yet.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// A frame came.
    pub fn received(&mut self, device: &mut Device, now: Timestamp, frame: Frame, actions: &mut Vec<Action>) {
        if self.is_closed {
            return;
        }
        if let Err(refusal) = self.take(device, now, frame, actions) {
            self.terminate(device, refusal, actions);
        }
        self.check_books();
    }

    /// What came is no frame.
    pub fn broken(&mut self, device: &mut Device, error: FrameError, actions: &mut Vec<Action>) {
        let text = match error {
            FrameError::Magic(_) => "what came is no frame: it does not begin with 0x46",
            FrameError::MessageTooLong { .. } => "the message is longer than the device accepts",
            FrameError::ValueTooLong { .. } => "the value is longer than the device reads over",
        };
        self.terminate(device, Refusal::new(StatusCode::ConnectionTerminated, text), actions);
    }

    /// The connection is gone. What it had open is dropped; call it once, whoever closed it.
    pub fn closed(&mut self, device: &mut Device) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.batches.drop_all(device);
            device.disconnected();
        }
    }

    /// Work is done.
    ///
    /// # Panics
    /// If it was never handed out, or was done before: then an answer would go to the wrong request.
    pub fn done(
        &mut self,
        device: &mut Device,
        now: Timestamp,
        job: JobId,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let job = self.jobs.remove(&job);
        assert!(job.is_some(), "work is done that was not handed out");
        let Some(Job { asked, message_type, began, value_bytes, kind }) = job else { return };
        let under_way = if message_type.is_read() { &mut self.reads } else { &mut self.writes };
        *under_way -= 1;
        self.check_books();
        let (status, reply) = conclude(device, kind, outcome);
        let sent_bytes = match &reply {
            Reply::Entry(entry) => entry.value.len() as u64,
            _ => 0,
        };
        device.count(message_type, value_bytes + sent_bytes, now.since(began));
        self.reply(device, &asked, &status, &reply, actions);
    }

    /// What has to add up.
    fn check_books(&self) {
        assert_eq!(self.jobs.len(), self.reads as usize + self.writes as usize, "work that is counted");
    }

    fn take(
        &mut self,
        device: &mut Device,
        now: Timestamp,
        frame: Frame,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let ended = |text| Refusal::new(StatusCode::ConnectionTerminated, text);
        let sealed = Sealed::read(frame.message);
        let sealed = sealed.map_err(|_| ended("what came is no message of the protocol"))?;
        let (asker, pin) = match &sealed.vouched {
            Vouched::Unsolicited => return Err(ended("only a device speaks unasked")),
            Vouched::Pin(_) if !self.is_tls => return Err(ended("a PIN is taken over TLS only")),
            Vouched::Pin(_) if sealed.command.len() > PIN_COMMAND_BYTES_MAX => {
                return Err(ended("the command that came with a PIN is too long"));
            }
            Vouched::Pin(pin) => (Asker::Pin, Some(pin.clone())),
            Vouched::Identity { identity, hmac } => {
                let known = device.known(*identity).cloned();
                match known.filter(|known| known.key.verify(&sealed.command, hmac)) {
                    Some(known) => (Asker::Known(known), None),
                    None => return self.not_vouched(device, *identity, &sealed.command, actions),
                }
            }
        };
        let command = sealed.open().map_err(|_| ended("what came is no command of the protocol"))?;
        let header = command.header.unwrap_or_default();
        let asked = Asked {
            asker,
            sequence: header.sequence.map(Sequence),
            message_type: header.message_type.and_then(MessageType::from_number),
        };
        // A PIN is for PIN operations alone.
        if pin.is_some() && asked.message_type != Some(MessageType::PinOp) {
            return Err(ended("a PIN came with a command that is not for PINs"));
        }
        let is_member = header.batch_id.is_some()
            && !matches!(
                asked.message_type,
                Some(MessageType::StartBatch | MessageType::EndBatch | MessageType::AbortBatch)
            );
        let decided = self.decide(device, now, &asked, &header, command.body, frame.value, pin, actions);
        match decided {
            Ok(()) => Ok(()),
            // There is no answer to an operation of a batch by which it could be told.
            Err(Trouble::Refused(refusal)) if is_member => {
                Err(Refusal::new(StatusCode::InvalidBatch, refusal.text))
            }
            Err(Trouble::Refused(refusal)) => {
                let status = Status::new(refusal.code, refusal.text);
                self.reply(device, &asked, &status, &Reply::Nothing, actions);
                Ok(())
            }
            Err(Trouble::Ended(refusal)) => Err(refusal),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    fn decide(
        &mut self,
        device: &mut Device,
        now: Timestamp,
        asked: &Asked,
        header: &wire::Header,
        body: Option<wire::Body>,
        value: FrameValue,
        pin: Option<Secret>,
        actions: &mut Vec<Action>,
    ) -> Result<(), Trouble> {
        let sequence = self.check_header(asked, header)?;
        let FrameValue::Whole(value) = value else {
            return Err(Refusal::invalid("the value is longer than the device accepts").into());
        };
        let value_bytes = value.len() as u64;
        let request = Request::read(header.message_type, body, value)?;
        is_awake(device, &request)?;
        let treatment = Treatment::read(header)?;
        let (kind, operation) = match (&asked.asker, pin) {
            (Asker::Known(known), _) => {
                if header.cluster_version.unwrap_or(0) != device.state().cluster_version.0 {
                    let text = "the device belongs to another cluster version";
                    return Err(Refusal::new(StatusCode::VersionFailure, text).into());
                }
                if device.state().is_locked {
                    return Err(Refusal::new(StatusCode::DeviceLocked, "the device is locked").into());
                }
                is_allowed(device, known, self.is_tls, &request, &treatment)?;
                is_sound(device, &request)?;
                match header.batch_id.map(BatchNumber) {
                    Some(number) => match self.batch(device, number, sequence, request)? {
                        Batched::Ended(ended) => *ended,
                        Batched::Added => return Ok(()),
                        Batched::Done => {
                            let status = Status::success();
                            self.reply(device, asked, &status, &Reply::Nothing, actions);
                            return Ok(());
                        }
                    },
                    None => {
                        let Some(prepared) = prepare(device, known, self.is_tls, request)? else {
                            device.count(MessageType::Noop, 0, base::Duration::ZERO);
                            let status = Status::success();
                            self.reply(device, asked, &status, &Reply::Nothing, actions);
                            return Ok(());
                        };
                        prepared
                    }
                }
            }
            (_, Some(pin)) => self.prepare_pin(device, &request, &pin)?,
            _ => return Err(Refusal::new(StatusCode::NotAuthorized, "nobody vouches for it").into()),
        };
        self.start(device, now, asked, (kind, operation), value_bytes, treatment, actions)?;
        Ok(())
    }

    /// The guard against replays: whatever is refused later, its number is used up.
    fn check_header(&mut self, asked: &Asked, header: &wire::Header) -> Result<Sequence, Refusal> {
        if *header == wire::Header::default() {
            return Err(Refusal::new(StatusCode::HeaderRequired, "the command has no header"));
        }
        if header.connection_id != Some(self.id.0) {
            return Err(Refusal::invalid("the connectionID is not the one that the device gave"));
        }
        let Some(sequence) = asked.sequence else {
            return Err(Refusal::invalid("the header has no sequence"));
        };
        if self.sequence_last.is_some_and(|last| sequence.0 <= last) {
            return Err(Refusal::invalid("the sequence is not higher than the one before"));
        }
        self.sequence_last = Some(sequence.0);
        Ok(sequence)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    fn start(
        &mut self,
        device: &mut Device,
        now: Timestamp,
        asked: &Asked,
        (kind, operation): (Kind, Operation),
        value_bytes: u64,
        treatment: Treatment,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let Some(message_type) = asked.message_type else { return Ok(()) };
        let bounds = device.bounds();
        let (under_way, limit) = match message_type.is_read() {
            true => (&mut self.reads, bounds.reads),
            false => (&mut self.writes, bounds.writes),
        };
        let is_change = matches!(kind, Kind::State(_));
        if *under_way >= limit || (is_change && device.is_changing) {
            if let Kind::Batch { lockings, .. } = kind {
                device.close_batch(lockings);
            }
            let text = "as many requests are under way as the device accepts";
            return Err(Refusal::new(StatusCode::ServiceBusy, text));
        }
        *under_way += 1;
        device.is_changing |= is_change;
        let job = JobId(self.job_next);
        self.job_next += 1;
        let identity = match &asked.asker {
            Asker::Known(known) => Some(known.acl.identity),
            Asker::Unknown(_) | Asker::Pin => None,
        };
        let asked = asked.clone();
        self.jobs.insert(job, Job { asked, message_type, began: now, value_bytes, kind });
        let deadline = treatment.timeout.map(|timeout| now.plus(timeout));
        actions.push(Action::Execute(Work { job, identity, operation, treatment, deadline }));
        Ok(())
    }

    fn batch(
        &mut self,
        device: &mut Device,
        number: BatchNumber,
        sequence: Sequence,
        request: Request,
    ) -> Result<Batched, Trouble> {
        match request {
            Request::StartBatch => {
                self.batches.start(device, number)?;
                Ok(Batched::Done)
            }
            Request::Change(change) => {
                self.batches.add(device, number, sequence, change)?;
                Ok(Batched::Added)
            }
            Request::AbortBatch => {
                let batch = self.batches.take(device, number).map_err(Trouble::Ended)?;
                device.close_batch(batch.lockings);
                Ok(Batched::Done)
            }
            Request::EndBatch { count } => {
                let batch = self.batches.take(device, number).map_err(Trouble::Ended)?;
                if count as usize != batch.changes.len() {
                    device.close_batch(batch.lockings);
                    let text = "the batch has another number of operations than its end says";
                    return Err(Refusal::new(StatusCode::InvalidBatch, text).into());
                }
                let kind = Kind::Batch { sequences: batch.sequences, lockings: batch.lockings };
                Ok(Batched::Ended(Box::new((kind, Operation::Batch(batch.changes)))))
            }
            _ => Err(Refusal::new(StatusCode::InvalidBatch, "a batch holds PUT and DELETE only").into()),
        }
    }

    fn prepare_pin(
        &mut self,
        device: &Device,
        request: &Request,
        pin: &Secret,
    ) -> Result<(Kind, Operation), Trouble> {
        let Request::Pin(operation) = request else {
            return Err(Refusal::invalid("a PIN came with a command that is not for PINs").into());
        };
        let state = device.state();
        let kept = match operation {
            PinOperation::Lock | PinOperation::Unlock => &state.lock_pin,
            PinOperation::Erase | PinOperation::SecureErase => &state.erase_pin,
        };
        let refused = |code, text| Err(Refusal::new(code, text).into());
        // Without this, whoever reaches the TLS port of a new device could erase it.
        if kept.bytes().is_empty() {
            return refused(StatusCode::NotAuthorized, "no PIN is set for this: set one first");
        }
        if !kept.is(pin.bytes()) {
            self.failures += 1;
            if self.failures >= HMAC_FAILURES_MAX {
                let text = "too many wrong keys or PINs";
                return Err(Trouble::Ended(Refusal::new(StatusCode::ConnectionTerminated, text)));
            }
            return refused(StatusCode::NotAuthorized, "the PIN is another one");
        }
        let change = match operation {
            PinOperation::Lock if state.is_locked => {
                return refused(StatusCode::DeviceLocked, "the device is locked already");
            }
            PinOperation::Unlock if !state.is_locked => {
                return refused(StatusCode::DeviceAlreadyUnlocked, "the device is not locked");
            }
            PinOperation::Lock => StateChange::Locked(true),
            PinOperation::Unlock => StateChange::Locked(false),
            PinOperation::Erase | PinOperation::SecureErase => StateChange::Factory,
        };
        let next = state.with(&change);
        let operation = match operation {
            PinOperation::Lock | PinOperation::Unlock => Operation::Save(next),
            PinOperation::Erase => Operation::Erase { is_secure: false, state: next },
            PinOperation::SecureErase => Operation::Erase { is_secure: true, state: next },
        };
        Ok((Kind::State(change), operation))
    }

    /// Nobody vouches for the command: only so much of it is read as the answer needs.
    fn not_vouched(
        &mut self,
        device: &mut Device,
        identity: Identity,
        command: &Bytes,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        self.failures += 1;
        if self.failures >= HMAC_FAILURES_MAX {
            let text = "too many wrong keys or PINs";
            return Err(Refusal::new(StatusCode::ConnectionTerminated, text));
        }
        let header = wire::CommandHeader::decode(command.clone()).ok().and_then(|command| command.header);
        let sequence = header.and_then(|header| header.sequence).map(Sequence);
        let asker = Asker::Unknown(identity);
        let asked = Asked { asker, sequence, message_type: None };
        let status = Status::new(StatusCode::HmacFailure, "the identity is unknown, or its HMAC is wrong");
        self.reply(device, &asked, &status, &Reply::Nothing, actions);
        Ok(())
    }

    fn reply(
        &self,
        device: &Device,
        asked: &Asked,
        status: &Status,
        reply: &Reply,
        actions: &mut Vec<Action>,
    ) {
        if self.is_closed {
            return;
        }
        let is_fenced = status.code == StatusCode::VersionFailure;
        let header = wire::Header {
            cluster_version: is_fenced.then_some(device.state().cluster_version.0),
            connection_id: Some(self.id.0),
            ack_sequence: asked.sequence.map(|sequence| sequence.0),
            message_type: asked.message_type.map(MessageType::response_number),
            ..wire::Header::default()
        };
        let sender = match &asked.asker {
            Asker::Known(known) => Sender::Identity(known.acl.identity, &known.key),
            Asker::Unknown(identity) => Sender::NoKey(*identity),
            Asker::Pin => Sender::Pin(None),
        };
        let (body, value) = reply.write();
        let command = wire::Command { header: Some(header), body, status: Some(status.write()) };
        if let Ok(frame) = seal(sender, &command, value) {
            actions.push(Action::Send(frame));
            return;
        }
        let status = Status::new(StatusCode::InternalError, "the answer does not fit into a message");
        let command = wire::Command { body: None, status: Some(status.write()), ..command };
        if let Ok(frame) = seal(sender, &command, Bytes::new()) {
            actions.push(Action::Send(frame));
        }
    }

    fn terminate(&mut self, device: &mut Device, refusal: Refusal, actions: &mut Vec<Action>) {
        if self.is_closed {
            return;
        }
        let status = Status::new(refusal.code, refusal.text);
        let header = wire::Header { connection_id: Some(self.id.0), ..wire::Header::default() };
        actions.push(Action::Send(unsolicited(header, &status, None)));
        actions.push(Action::Close);
        self.closed(device);
    }
}

/// What became of a request with the number of a batch.
enum Batched {
    /// It is answered at once.
    Done,
    /// There is no answer.
    Added,
    /// The batch is to be committed.
    Ended(Box<(Kind, Operation)>),
}

/// What is to be done for a request, and afterwards; nothing for a NOOP.
fn prepare(
    device: &Device,
    known: &Known,
    is_tls: bool,
    request: Request,
) -> Result<Option<(Kind, Operation)>, Refusal> {
    let filter = |permission| known.acl.filter(permission, is_tls);
    let save = |change: StateChange| {
        let next: DeviceState = device.state().with(&change);
        Some((Kind::State(change), Operation::Save(next)))
    };
    let plain = |operation| Some((Kind::Plain, operation));
    Ok(match request {
        Request::Noop => None,
        Request::Get { which, key, metadata_only } => {
            let filter = filter(Permission::Read);
            plain(Operation::Get { which, key, metadata_only, filter })
        }
        Request::GetPart { key, offset, length } => plain(Operation::GetPart { key, offset, length }),
        Request::GetVersion { key } => plain(Operation::GetVersion { key }),
        Request::Change(change) => plain(Operation::Change(change)),
        Request::GetKeyRange(range) => {
            plain(Operation::KeyRange { range, filter: filter(Permission::Range) })
        }
        Request::MediaScan(range) => plain(Operation::MediaScan { range, filter: filter(Permission::Range) }),
        Request::MediaOptimize(range) => plain(Operation::MediaOptimize { range }),
        Request::FlushAllData => plain(Operation::Flush),
        Request::Push(push) => plain(Operation::Push(push)),
        Request::Firmware(program) => plain(Operation::Firmware(program)),
        Request::SetPowerLevel(level) => Some((Kind::Power(level), Operation::Power(level))),
        Request::GetLog { types, device: Some(name) } if types.contains(&LogType::Device) => {
            plain(Operation::DeviceLog(name))
        }
        Request::GetLog { types, .. } => Some((Kind::Log(types.clone()), Operation::Log(types))),
        Request::SetClusterVersion(version) => save(StateChange::ClusterVersion(version)),
        Request::Security(SecurityChange::Acls(acls)) => save(StateChange::Acls(acls)),
        Request::Security(SecurityChange::ErasePin { new, .. }) => save(StateChange::ErasePin(new)),
        Request::Security(SecurityChange::LockPin { new, .. }) => save(StateChange::LockPin(new)),
        Request::StartBatch | Request::EndBatch { .. } | Request::AbortBatch => {
            return Err(Refusal::new(StatusCode::InvalidBatch, "the header has no batchID"));
        }
        Request::Pin(_) => return Err(Refusal::invalid("a PIN operation came without a PIN")),
    })
}

/// What follows from an outcome, for the device and for the answer.
fn conclude(device: &mut Device, kind: Kind, outcome: Outcome) -> (Status, Reply) {
    let is_done = matches!(outcome, Outcome::Done);
    let mut batch = None;
    match kind {
        Kind::Plain => {}
        Kind::State(change) => {
            device.is_changing = false;
            if is_done {
                device.change(&change);
            }
        }
        Kind::Power(level) if is_done => device.set_power(level),
        Kind::Power(_) => {}
        Kind::Batch { sequences, lockings } => {
            device.close_batch(lockings);
            batch = Some(sequences);
        }
        Kind::Log(types) => {
            if let Outcome::Log(mut log) = outcome {
                device.complete(&types, &mut log);
                return (Status::success(), Reply::Log { log, device: Bytes::new() });
            }
        }
    }
    let reply = match outcome {
        Outcome::Done => match batch {
            Some(committed) => Reply::Batch { committed, failed: None },
            None => Reply::Nothing,
        },
        Outcome::Entry(entry) => Reply::Entry(entry),
        Outcome::Version(version) => Reply::Version(version),
        Outcome::Keys(keys) => Reply::Keys(that_fit(keys)),
        Outcome::Scanned { damaged, last } => {
            let status = match &last {
                None => Status::success(),
                Some(_) => {
                    Status::new(StatusCode::Expired, "there is more to be looked at behind the last key")
                }
            };
            return (status, Reply::Scanned { damaged: that_fit(damaged), last });
        }
        Outcome::Log(log) => Reply::Log { log, device: Bytes::new() },
        Outcome::DeviceLog(device) => {
            let log = Box::new(crate::Log { types: vec![LogType::Device], ..crate::Log::default() });
            Reply::Log { log, device }
        }
        Outcome::Push(push) => {
            let status = match push.all_succeeded() {
                true => Status::success(),
                false => Status::new(StatusCode::NestedOperationErrors, "see the status of each operation"),
            };
            return (status, Reply::Push(push));
        }
        Outcome::BatchFailed { place, code } => {
            let failed = batch.and_then(|sequences| sequences.get(place).copied());
            let text = "an operation of the batch may not be done; nothing of it is";
            return (Status::new(code, text), Reply::Batch { committed: Vec::new(), failed });
        }
        Outcome::Refused(status) => return (status, Reply::Nothing),
    };
    (Status::success(), reply)
}

/// As many of the keys as fit into a message, from the first on.
fn that_fit(mut keys: Vec<Bytes>) -> Vec<Bytes> {
    const BYTES_BESIDE: usize = 8;
    let mut bytes = 0;
    let fit = keys.iter().take_while(|key| {
        bytes += key.len() + BYTES_BESIDE;
        bytes <= RANGE_ANSWER_BYTES_MAX
    });
    keys.truncate(fit.count());
    keys
}
