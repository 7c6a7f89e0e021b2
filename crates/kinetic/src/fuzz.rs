//! For the fuzz targets: what the other end of a connection may say.

use std::collections::BTreeSet;

use base::{Duration, Timestamp};
use bytes::{Bytes, BytesMut};
use prost::Message as _;

use crate::client::{Client, ClientSettings, Event, Options};
use crate::frame::{Frame, FrameHeader, FrameLimits, FrameReader, FrameValue, HEADER_BYTES, Progress};
use crate::ids::{ConnectionId, Identity};
use crate::log::Configuration;
use crate::message::{Sealed, Sender, seal};
use crate::model::{Drive, Peers};
use crate::server::{Action, Device, DeviceSettings, DeviceState};
use crate::{
    Answer, Limits, Log, MessageType, Permission, PinOperation, Push, Refusal, Request, Secret, Status,
    StatusCode, Treatment, wire,
};

const KEY: &[u8] = b"asdfasdf";
const LIMITS: FrameLimits = FrameLimits { message: 2000, value: 500, skipped: 1000 };

/// Frames, and the messages in them. The first byte says in pieces of how many bytes they come.
///
/// # Panics
/// If a limit does not hold, or what was read does not come back.
pub fn frames(data: &[u8]) {
    let Some((step, data)) = data.split_first() else { return };
    let (mut reader, mut buffer) = (FrameReader::new(LIMITS), BytesMut::new());
    for piece in data.chunks(usize::from(*step).max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match reader.next(&mut buffer) {
                Err(_) => return,
                Ok(Progress::More(more)) => {
                    assert!(more > 0 && more <= HEADER_BYTES + 2000 + 500 + 1000, "{more}");
                    break;
                }
                Ok(Progress::Frame(frame)) => message(frame),
            }
        }
    }
}

fn message(frame: Frame) {
    let value = match frame.value {
        FrameValue::Whole(value) => value,
        FrameValue::Skipped(length) => {
            assert!(length > LIMITS.value && length <= LIMITS.skipped);
            return;
        }
    };
    assert!(frame.message.len() <= 2000 && value.len() <= 500);
    let Ok(sealed) = Sealed::read(frame.message) else { return };
    let Ok(command) = sealed.open() else { return };
    let header = command.header.unwrap_or_default();
    for request in MessageType::ALL {
        let status = Status::read(command.status.as_ref());
        let _ = Answer::read(*request, &status, command.body.clone(), value.clone());
    }
    if let Some(log) = command.body.as_ref().and_then(|body| body.get_log.as_ref()) {
        let once = Log::read(log).write();
        // Portions need not be numbers, so the bytes are compared.
        assert_eq!(Log::read(&once).write().encode_to_vec(), once.encode_to_vec());
    }
    if let Some(push) = command.body.as_ref().and_then(|body| body.p2p_operation.as_ref()) {
        let _ = Push::read(push);
    }
    if let Ok(treatment) = Treatment::read(&header) {
        let mut again = wire::Header::default();
        treatment.write(&mut again);
        assert_eq!(Treatment::read(&again), Ok(treatment));
    }
    if let Ok(request) = Request::read(header.message_type, command.body, value) {
        let (body, value) = request.write();
        let number = request.message_type().number();
        let again: Result<Request, Refusal> = Request::read(Some(number), body, value);
        assert_eq!(again.as_ref(), Ok(&request));
    }
}

/// Pieces: a byte that says what is done with the piece, a byte for its length, and the piece, which is a
/// command. A device takes it as a request, and a client that has asked for something as an answer, each
/// signed or not, and with the numbers of the header made right or not.
///
/// # Panics
/// If a bound does not hold, or a request has no outcome or two.
pub fn conversation(data: &[u8]) {
    let mut pieces = Vec::new();
    let mut rest = data;
    while let [kind, length, tail @ ..] = rest {
        let (piece, behind) = tail.split_at(usize::from(*length).min(tail.len()));
        pieces.push((*kind, piece));
        rest = behind;
    }
    to_device(&pieces);
    to_client(&pieces);
}

fn sealed(kind: u8, piece: &[u8], number: i64, is_answer: bool) -> Option<Frame> {
    let key = crate::HmacKey::new(KEY);
    let mut command = wire::Command::decode(piece).ok()?;
    if kind & 1 == 0 {
        let header = command.header.get_or_insert_default();
        header.connection_id = Some(1);
        if is_answer {
            header.ack_sequence = Some(number);
        } else {
            header.sequence = Some(number);
        }
    }
    let pin = Secret::new(&b"1"[..]);
    let sender = match kind >> 1 & 3 {
        0 | 1 => Sender::Identity(Identity(1), &key),
        2 => Sender::Pin(Some(&pin)),
        _ => Sender::Device,
    };
    let value = Bytes::from(vec![kind; usize::from(kind >> 3)]);
    let frame = seal(sender, &command, value).ok()?;
    let frame = frame.to_vec();
    let header = FrameHeader::decode(*frame.first_chunk()?).ok()?;
    let (message, value) = frame.get(HEADER_BYTES..)?.split_at_checked(header.message as usize)?;
    Some(Frame::new(Bytes::copy_from_slice(message), Bytes::copy_from_slice(value)))
}

fn limits() -> Limits {
    Limits {
        value_bytes: Some(20),
        batch_operations: Some(3),
        batch_bytes: Some(40),
        batches: Some(2),
        reads: Some(2),
        writes: Some(2),
        ..Limits::stated()
    }
}

fn to_device(pieces: &[(u8, &[u8])]) {
    let settings = DeviceSettings {
        configuration: Configuration::default(),
        limits: limits(),
        is_security_over_tls: true,
        connection_first: ConnectionId(1),
    };
    let pin = Secret::new(&b"1"[..]);
    let state = DeviceState { lock_pin: pin.clone(), erase_pin: pin, ..DeviceState::factory() };
    let mut device = Device::new(settings, state);
    let (mut drive, mut peers) = (Drive::default(), Peers::new());
    let Ok((mut connection, _)) = device.accept(true) else { return };
    let (mut works, mut number) = (Vec::new(), 0);
    for (kind, piece) in pieces {
        number += 1;
        let now = Timestamp(number);
        let Some(frame) = sealed(*kind, piece, number, false) else { continue };
        let mut actions = Vec::new();
        connection.received(&mut device, now, frame, &mut actions);
        assert!(actions.len() <= 2, "one answer, or a last word and the end");
        works.extend(actions.into_iter().filter_map(|action| match action {
            Action::Execute(work) => Some(work),
            Action::Send(_) | Action::Close => None,
        }));
        assert!(works.len() <= 4 && works.len() == connection.jobs(), "within the window");
        assert!(device.batches() <= 2);
        if kind & 0x80 != 0 {
            for work in works.drain(..) {
                let outcome = drive.execute(work.operation, &mut peers);
                let mut actions = Vec::new();
                connection.done(&mut device, now, work.job, outcome, &mut actions);
                assert!(actions.len() == usize::from(!connection.is_closed()));
            }
        }
    }
    connection.closed(&mut device);
    assert!(device.connections() == 0);
    for work in works {
        let outcome = drive.execute(work.operation, &mut peers);
        let mut actions = Vec::new();
        connection.done(&mut device, Timestamp(number), work.job, outcome, &mut actions);
        assert!(actions.is_empty(), "nobody is there to be answered");
    }
    assert!(device.batches() == 0, "all batches were dropped");
}

fn to_client(pieces: &[(u8, &[u8])]) {
    let settings = ClientSettings { is_tls: true, ..ClientSettings::new(Identity(1), KEY) };
    let mut client = Client::new(settings, Timestamp(0));
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    let (mut number, mut is_ended) = (0, false);
    for (kind, piece) in pieces {
        let now = Timestamp(i64::from(number) * 1_000_000_000);
        let request = match number % 4 {
            0 => Request::GetVersion { key: Bytes::from_static(b"k") },
            1 => Request::FlushAllData,
            2 => Request::GetLog { types: vec![crate::LogType::Limits], device: None },
            _ => Request::Noop,
        };
        let options = Options { within: Some(Duration::from_secs(5)), ..Options::default() };
        asked.extend(client.submit(now, request, options));
        let pin = Secret::new(&b"1"[..]);
        asked.extend(client.submit_pin(now, PinOperation::Unlock, pin, options));
        let _ = client.begin_batch(now, options).map(|batch| client.commit(now, batch));
        while client.transmit(now).is_some() {}
        number += 1;
        if let Some(frame) = sealed(*kind, piece, i64::from(number), true) {
            client.received(now, frame);
        }
        client.tick(now);
        outcomes(&mut client, &mut answered, &mut is_ended);
    }
    client.close();
    outcomes(&mut client, &mut answered, &mut is_ended);
    assert!(is_ended && asked == answered, "every request has one outcome");
    assert!(client.pending() == 0);
}

fn outcomes(client: &mut Client, answered: &mut BTreeSet<crate::client::Ticket>, is_ended: &mut bool) {
    while let Some(event) = client.event() {
        assert!(!*is_ended, "something happened behind the end");
        match event {
            Event::Answered { ticket, response } => {
                assert!(answered.insert(ticket), "two outcomes");
                assert!(response.status.code != StatusCode::Success || response.status.number == 1);
            }
            Event::Unanswered { ticket, .. } => assert!(answered.insert(ticket), "two outcomes"),
            Event::Late { ticket, .. } => assert!(answered.contains(&ticket), "late without an outcome"),
            Event::Ended(_) => *is_ended = true,
            Event::Greeted(_) | Event::Batch { .. } | Event::Notice(_) => {}
        }
    }
}

/// Access lists: what is read can be written and read again, and a filter sees what the list allows.
#[must_use]
pub fn filter_agrees(acl: &crate::Acl, permission: Permission, is_tls: bool, key: &[u8]) -> bool {
    acl.filter(permission, is_tls).sees(key) == acl.allows_key(permission, is_tls, key)
}
