//! What the device does with what no good client sends.

use bytes::Bytes;
use kinetic::server::{Action, Connection, HMAC_FAILURES_MAX};
use kinetic::{
    Frame, HmacKey, Identity, MessageType, OutFrame, Request, Sealed, Sender, Status, StatusCode, Vouched,
    seal, wire,
};

use crate::world::{KEY, World, arrived, bytes, get, put};

/// A request straight to the device of a world; the code of the answer, if there is one.
pub fn raw(world: &mut World, sequence: i64, request: &Request, batch: Option<u32>) -> Option<StatusCode> {
    let (mut connection, _) = world.device.accept(false).expect("room");
    std::mem::swap(&mut connection, &mut world.connection);
    let mut own = connection;
    let code = raw_on(world, &mut own, sequence, request, batch);
    // The one that stood in for it is not needed.
    let mut other = std::mem::replace(&mut world.connection, own);
    other.closed(&mut world.device);
    code
}

/// The same on another connection.
pub fn raw_on(
    world: &mut World,
    connection: &mut Connection,
    sequence: i64,
    request: &Request,
    batch: Option<u32>,
) -> Option<StatusCode> {
    let command = command(connection, sequence, request, batch);
    let key = HmacKey::new(KEY);
    let frame = seal(Sender::Identity(Identity(1), &key), &command, request.write().1).unwrap();
    send(world, connection, arrived(&frame)).first().map(code)
}

fn command(connection: &Connection, sequence: i64, request: &Request, batch: Option<u32>) -> wire::Command {
    let header = wire::Header {
        cluster_version: Some(0),
        connection_id: Some(connection.id().0),
        sequence: Some(sequence),
        message_type: Some(request.message_type().number()),
        batch_id: batch,
        ..wire::Header::default()
    };
    wire::Command { header: Some(header), body: request.write().0, status: None }
}

/// What is sent for a frame, with all work done.
fn send(world: &mut World, connection: &mut Connection, frame: Frame) -> Vec<OutFrame> {
    let (mut actions, mut sent) = (Vec::new(), Vec::new());
    connection.received(&mut world.device, world.now, frame, &mut actions);
    while !actions.is_empty() {
        match actions.remove(0) {
            Action::Send(frame) => sent.push(frame),
            Action::Execute(work) => {
                let outcome = world.drive.execute(work.operation, &mut world.peers);
                connection.done(&mut world.device, world.now, work.job, outcome, &mut actions);
            }
            Action::Close => assert!(connection.is_closed()),
        }
    }
    sent
}

fn open(frame: &OutFrame) -> (Vouched, wire::Command) {
    let sealed = Sealed::read(arrived(frame).message).unwrap();
    let command = sealed.open().unwrap();
    (sealed.vouched, command)
}

fn code(frame: &OutFrame) -> StatusCode {
    Status::read(open(frame).1.status.as_ref()).code
}

fn signed(command: &wire::Command, key: &[u8]) -> Frame {
    let key = HmacKey::new(key);
    arrived(&seal(Sender::Identity(Identity(1), &key), command, Bytes::new()).unwrap())
}

#[test]
fn nothing_is_played_again() {
    let mut world = World::new();
    let (mut one, _) = world.device.accept(false).unwrap();
    let frame = signed(&command(&one, 5, &put("a", "", "1", ""), None), KEY);
    assert_eq!(code(&send(&mut world, &mut one, frame.clone())[0]), StatusCode::Success);
    assert_eq!(code(&send(&mut world, &mut one, frame.clone())[0]), StatusCode::InvalidRequest);
    for (sequence, expected) in [
        (4, StatusCode::InvalidRequest),
        (5, StatusCode::InvalidRequest),
        (6, StatusCode::NotFound),
        (9, StatusCode::NotFound),
    ] {
        assert_eq!(raw_on(&mut world, &mut one, sequence, &get("x"), None), Some(expected), "{sequence}");
    }
    let (mut two, _) = world.device.accept(false).unwrap();
    let said = send(&mut world, &mut two, frame);
    assert_eq!(code(&said[0]), StatusCode::InvalidRequest, "of another connection");
    // What was refused has used its number up.
    assert_eq!(
        raw_on(&mut world, &mut two, 7, &put("", "", "1", ""), None),
        Some(StatusCode::InvalidRequest)
    );
    assert_eq!(
        raw_on(&mut world, &mut two, 7, &put("b", "", "1", ""), None),
        Some(StatusCode::InvalidRequest)
    );
    assert_eq!(world.drive.count(), 1);
    // What nobody vouches for has not: else a stranger could bar the way.
    let forged = signed(&command(&two, 1000, &put("c", "", "1", ""), None), b"wrong");
    assert_eq!(code(&send(&mut world, &mut two, forged)[0]), StatusCode::HmacFailure);
    assert_eq!(raw_on(&mut world, &mut two, 8, &get("a"), None), Some(StatusCode::Success));
}

#[test]
fn the_numbers_of_the_header_have_to_be_there() {
    let mut world = World::new();
    let (mut connection, _) = world.device.accept(false).unwrap();
    type Change = fn(&mut wire::Header);
    let changes: [(Change, StatusCode); 4] = [
        (|header| header.connection_id = None, StatusCode::InvalidRequest),
        (|header| header.connection_id = Some(1), StatusCode::InvalidRequest),
        (|header| header.sequence = None, StatusCode::InvalidRequest),
        (|header| header.priority = Some(10), StatusCode::InvalidRequest),
    ];
    for (sequence, (change, expected)) in (1..).zip(changes) {
        let mut command = command(&connection, sequence, &Request::Noop, None);
        change(command.header.as_mut().unwrap());
        assert_eq!(code(&send(&mut world, &mut connection, signed(&command, KEY))[0]), expected);
    }
    assert!(!connection.is_closed());
}

#[test]
fn answers_name_what_they_answer() {
    let mut world = World::new();
    let (mut connection, _) = world.device.accept(false).unwrap();
    let noop = command(&connection, 77, &Request::Noop, None);
    let said = send(&mut world, &mut connection, signed(&noop, KEY));
    let (vouched, answer) = open(&said[0]);
    let header = answer.header.unwrap();
    assert_eq!((header.ack_sequence, header.message_type), (Some(77), Some(29)));
    assert_eq!(header.connection_id, Some(connection.id().0));
    assert!(matches!(vouched, Vouched::Identity { identity: Identity(1), .. }));
    // To an identity that is not known: without a type and without an HMAC.
    let said = send(&mut world, &mut connection, signed(&noop, b"wrong"));
    let (vouched, answer) = open(&said[0]);
    let header = answer.header.unwrap();
    assert_eq!((header.ack_sequence, header.message_type), (Some(77), None));
    assert_eq!(vouched, Vouched::Identity { identity: Identity(1), hmac: Bytes::new() });
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let device_speaks = seal(Sender::Device, &wire::Command::default(), Bytes::new()).unwrap();
    let key = HmacKey::new(KEY);
    let no_command = {
        use prost::Message as _;
        let garbage = Bytes::from_static(&[0xff]);
        let hmac = Bytes::copy_from_slice(&key.sign(&garbage));
        let message = wire::Message {
            auth_type: Some(1),
            hmac_auth: Some(wire::HmacAuth { identity: Some(1), hmac: Some(hmac) }),
            pin_auth: None,
            command_bytes: Some(garbage),
        };
        Frame::new(Bytes::from(message.encode_to_vec()), Bytes::new())
    };
    for (what, frame) in [
        ("no protobuf", Frame::new(Bytes::from_static(&[0xff, 0xff]), Bytes::new())),
        ("an empty message", Frame::new(Bytes::new(), Bytes::new())),
        ("an unsolicited status", arrived(&device_speaks)),
        ("a command that is none", no_command),
    ] {
        let mut world = World::new();
        let (mut connection, _) = world.device.accept(false).unwrap();
        let said = send(&mut world, &mut connection, frame);
        assert_eq!((said.len(), code(&said[0])), (1, StatusCode::ConnectionTerminated), "{what}");
        assert!(connection.is_closed(), "{what}");
        let noop = signed(&command(&connection, 1, &Request::Noop, None), KEY);
        assert!(send(&mut world, &mut connection, noop).is_empty(), "{what}: nothing is taken any more");
    }
}

#[test]
fn guessing_keys_ends_the_connection() {
    let mut world = World::new();
    let (mut connection, _) = world.device.accept(false).unwrap();
    for guess in 1..HMAC_FAILURES_MAX {
        let frame = signed(&command(&connection, i64::from(guess), &Request::Noop, None), b"guess");
        assert_eq!(code(&send(&mut world, &mut connection, frame)[0]), StatusCode::HmacFailure);
    }
    let frame = signed(&command(&connection, 99, &Request::Noop, None), b"guess");
    assert_eq!(code(&send(&mut world, &mut connection, frame)[0]), StatusCode::ConnectionTerminated);
}

#[test]
fn bodies_that_lack_their_part_are_refused() {
    let mut world = World::new();
    let (mut connection, _) = world.device.accept(false).unwrap();
    let bodiless = [MessageType::Noop, MessageType::FlushAllData];
    for (sequence, message_type) in (1..).zip(MessageType::ALL) {
        let mut command = command(&connection, sequence, &Request::Noop, None);
        command.header.as_mut().unwrap().message_type = Some(message_type.number());
        let said = code(&send(&mut world, &mut connection, signed(&command, KEY))[0]);
        let expected = match message_type {
            one if bodiless.contains(one) => StatusCode::Success,
            MessageType::StartBatch | MessageType::AbortBatch => StatusCode::InvalidBatch,
            _ => StatusCode::InvalidRequest,
        };
        assert_eq!(said, expected, "{message_type:?}");
    }
}

#[test]
fn fields_that_nobody_knows_are_passed_over() {
    use prost::Message as _;
    let mut world = World::new();
    let (mut connection, _) = world.device.accept(false).unwrap();
    let mut bytes = command(&connection, 1, &get("a"), None).encode_to_vec();
    // Field 100, a number; field 101, bytes.
    bytes.extend_from_slice(&[0xa0, 0x06, 0x05, 0xaa, 0x06, 0x01, 0x00]);
    let key = HmacKey::new(KEY);
    let mut message = wire::Message {
        auth_type: Some(1),
        hmac_auth: Some(wire::HmacAuth {
            identity: Some(1),
            hmac: Some(Bytes::copy_from_slice(&key.sign(&bytes))),
        }),
        pin_auth: None,
        command_bytes: Some(Bytes::from(bytes)),
    }
    .encode_to_vec();
    message.extend_from_slice(&[0xa0, 0x06, 0x05]);
    let said = send(&mut world, &mut connection, Frame::new(Bytes::from(message), Bytes::new()));
    assert_eq!(code(&said[0]), StatusCode::NotFound);
}

#[test]
fn version_3_says_by_its_fields_what_version_4_says_by_types() {
    let mut world = World::tls();
    let (mut connection, _) = world.device.accept(true).unwrap();
    let mut send_body = |sequence, message_type: MessageType, body: wire::Body| {
        let mut command = command(&connection, sequence, &Request::Noop, None);
        command.header.as_mut().unwrap().message_type = Some(message_type.number());
        command.body = Some(body);
        code(&send(&mut world, &mut connection, signed(&command, KEY))[0])
    };
    let setup = |setup| wire::Body { setup: Some(setup), ..wire::Body::default() };
    let security = |security| wire::Body { security: Some(security), ..wire::Body::default() };
    let firmware = wire::Setup { firmware_download: Some(true), ..wire::Setup::default() };
    assert_eq!(send_body(1, MessageType::Setup, setup(firmware)), StatusCode::Success);
    let acl = wire::Security { acl: vec![kinetic::Acl::factory().write()], ..wire::Security::default() };
    assert_eq!(send_body(2, MessageType::Security, security(acl.clone())), StatusCode::Success);
    let pin = wire::Security { new_lock_pin: Some(bytes("1")), ..wire::Security::default() };
    assert_eq!(send_body(3, MessageType::Security, security(pin)), StatusCode::Success);
    let pin = wire::Security { new_erase_pin: Some(bytes("2")), ..wire::Security::default() };
    assert_eq!(send_body(4, MessageType::Security, security(pin)), StatusCode::Success);
    let both = wire::Security { new_lock_pin: Some(bytes("3")), ..acl };
    assert_eq!(send_body(5, MessageType::Security, security(both)), StatusCode::InvalidRequest);
    let version = wire::Setup { new_cluster_version: Some(3), ..wire::Setup::default() };
    assert_eq!(send_body(6, MessageType::Setup, setup(version)), StatusCode::Success);
    let state = world.device.state();
    assert_eq!((state.lock_pin.is(b"1"), state.erase_pin.is(b"2")), (true, true));
    assert_eq!(state.cluster_version, kinetic::ClusterVersion(3));
    assert_eq!(world.drive.firmware.len(), 1);
}
