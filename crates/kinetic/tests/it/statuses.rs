//! Every status code: those that the device gives by itself, and all that a store may give.

use std::collections::BTreeSet;

use bytes::Bytes;
use kinetic::client::{BatchOutcome, ClientSettings, EndReason};
use kinetic::server::{DeviceState, Outcome};
use kinetic::{
    Acl, Change, ClusterVersion, HmacKey, Identity, LogType, Permission, PowerLevel, Request, Scope, Sender,
    Status, StatusCode, seal, wire,
};

use crate::world::{KEY, Making, World, a_put, arrived, get, put};

#[test]
fn what_a_store_says_arrives() {
    let mut world = World::new();
    for code in StatusCode::ALL {
        let mut status = Status::new(*code, "a text");
        status.detail = Bytes::from_static(b"\xff\x00");
        world.outcomes.push(Outcome::Refused(status.clone()));
        let response = world.call(get("a"));
        assert_eq!(response.status, status);
    }
}

#[test]
fn what_the_device_says_itself() {
    let mut seen = BTreeSet::new();
    let mut expect = |found: StatusCode, expected: StatusCode| {
        assert_eq!(found, expected);
        seen.insert(found);
    };

    let mut world = World::new();
    expect(world.status(Request::Noop), StatusCode::Success);
    expect(world.status(get("a")), StatusCode::NotFound);
    expect(world.status(put("a", "1", "2", "")), StatusCode::VersionMismatch);
    expect(world.status(put("", "", "2", "")), StatusCode::InvalidRequest);
    world.drive.capacity_bytes = 4;
    expect(world.status(put("a", "", "2", "12345")), StatusCode::NoSpace);

    for (level, code) in [
        (PowerLevel::Hibernate, StatusCode::Hibernate),
        (PowerLevel::Shutdown, StatusCode::Shutdown),
        (PowerLevel::Fail, StatusCode::InternalError),
    ] {
        assert_eq!(world.status(Request::SetPowerLevel(level)), StatusCode::Success);
        expect(world.status(Request::Noop), code);
    }
    assert_eq!(world.status(Request::SetPowerLevel(PowerLevel::Operational)), StatusCode::Success);

    assert_eq!(world.status(Request::SetClusterVersion(ClusterVersion(1))), StatusCode::Success);
    expect(world.status(Request::Noop), StatusCode::VersionFailure);

    let scopes = vec![Scope { permissions: vec![Permission::Read], ..Scope::everything() }];
    let acls = vec![Acl { scopes, ..Acl::factory() }];
    let mut world =
        World::make(Making { state: DeviceState { acls, ..DeviceState::factory() }, ..Making::default() });
    expect(world.status(put("a", "", "1", "")), StatusCode::NotAuthorized);

    let state = DeviceState { is_locked: true, ..DeviceState::factory() };
    let mut world = World::make(Making { state, ..Making::default() });
    let greeting = world.client.greeting().unwrap();
    assert_eq!(greeting.status.code, StatusCode::DeviceLocked, "the greeting says so already");
    expect(world.status(Request::Noop), StatusCode::DeviceLocked);

    // What only other programs than our client would send.
    for (change, code) in [
        (as_is as fn(&mut wire::Command), StatusCode::Success),
        (|command| command.header = None, StatusCode::HeaderRequired),
        (|command| header(command).message_type = Some(49), StatusCode::InvalidRequest),
        (|command| header(command).message_type = None, StatusCode::InvalidRequest),
        (with_wrong_hmac, StatusCode::NoSuchHmacAlgorithm),
    ] {
        let mut world = World::tls();
        expect(raw(&mut world, change, KEY), code);
    }
    let mut world = World::new();
    expect(raw(&mut world, as_is, b"wrong"), StatusCode::HmacFailure);

    let mut client = ClientSettings::new(Identity(1), b"wrong");
    client.is_tls = true;
    let mut world = World::make(Making { client, ..Making::default() });
    world.submit(Request::Noop);
    world.settle();
    let Some(EndReason::KeyRefused(status)) = world.ended() else { panic!("{:?}", world.events) };
    expect(status.code, StatusCode::HmacFailure);

    // In batches, pushes and so on they are found by the tests of those.
    let elsewhere = [
        (StatusCode::Invalid, "no device sends it"),
        (StatusCode::NotAttempted, "messages.rs"),
        (StatusCode::RemoteConnectionError, "messages.rs"),
        (StatusCode::NestedOperationErrors, "messages.rs"),
        (StatusCode::DeviceAlreadyUnlocked, "pins.rs"),
        (StatusCode::InvalidBatch, "batches.rs"),
        (StatusCode::ConnectionTerminated, "server.rs"),
        (StatusCode::ServiceBusy, "limits.rs"),
        (StatusCode::Expired, "by the store alone"),
        (StatusCode::DataError, "by the store alone"),
        (StatusCode::PermDataError, "by the store alone"),
    ];
    for code in StatusCode::ALL {
        let is_elsewhere = elsewhere.iter().any(|(other, _)| other == code);
        assert!(seen.contains(code) != is_elsewhere, "{code:?}");
    }
}

fn as_is(_: &mut wire::Command) {}

fn header(command: &mut wire::Command) -> &mut wire::Header {
    command.header.as_mut().unwrap()
}

fn with_wrong_hmac(command: &mut wire::Command) {
    header(command).message_type = Some(kinetic::MessageType::Security.number());
    let mut acl = Acl::factory().write();
    acl.hmac_algorithm = Some(2);
    let security = wire::Security { acl: vec![acl], ..wire::Security::default() };
    command.body = Some(wire::Body { security: Some(security), ..wire::Body::default() });
}

/// A NOOP, changed, straight to the device; the code of its answer.
fn raw(world: &mut World, change: impl Fn(&mut wire::Command), key: &[u8]) -> StatusCode {
    let header = wire::Header {
        cluster_version: Some(0),
        connection_id: Some(world.connection.id().0),
        sequence: Some(1),
        message_type: Some(kinetic::MessageType::Noop.number()),
        ..wire::Header::default()
    };
    let mut command = wire::Command { header: Some(header), ..wire::Command::default() };
    change(&mut command);
    let frame = seal(Sender::Identity(Identity(1), &HmacKey::new(key)), &command, Bytes::new()).unwrap();
    let mut actions = Vec::new();
    world.connection.received(&mut world.device, world.now, arrived(&frame), &mut actions);
    let [kinetic::server::Action::Send(answer)] = actions.as_slice() else { panic!("{actions:?}") };
    let sealed = kinetic::Sealed::read(arrived(answer).message).unwrap();
    Status::read(sealed.open().unwrap().status.as_ref()).code
}

#[test]
fn doubt_about_a_batch_is_told() {
    for (code, is_doubtful) in [
        (StatusCode::Expired, true),
        (StatusCode::InternalError, true),
        (StatusCode::NoSpace, false),
        (StatusCode::PermDataError, false),
    ] {
        let mut world = World::new();
        let batch = world.begin();
        world.client.add(batch, Change::Put(a_put("a", "", "1", "x"))).unwrap();
        world.client.commit(world.now, batch).unwrap();
        world.outcomes.push(Outcome::refused(code, ""));
        world.settle();
        match world.batch_outcome(batch).unwrap() {
            BatchOutcome::Doubtful { question, .. } => assert!(is_doubtful && question.is_some()),
            BatchOutcome::Failed { .. } => assert!(!is_doubtful),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.status(Request::GetLog { types: vec![LogType::Limits], device: None }).number(), 1);
    }
}
