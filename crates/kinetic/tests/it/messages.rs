//! Every message of the table, once.

use bytes::Bytes;
use kinetic::client::BatchOutcome;
use kinetic::model::Drive;
use kinetic::{
    Acl, Answer, Change, ClusterVersion, Identity, KeyRange, LogType, MessageType, Peer, PinOperation,
    PowerLevel, Push, PushOperation, Request, Secret, SecurityChange, StatusCode, Synchronization, Which,
};

use crate::world::{World, a_put, bytes, delete, get, put, range};

fn entry(answer: &Answer) -> (&[u8], &[u8], &[u8]) {
    let Answer::Entry(entry) = answer else { panic!("{answer:?}") };
    (&entry.key, &entry.metadata.version, &entry.value)
}

fn keys(answer: &Answer) -> Vec<&str> {
    let Answer::Keys(keys) = answer else { panic!("{answer:?}") };
    keys.iter().map(|key| std::str::from_utf8(key).unwrap()).collect()
}

#[test]
fn entries() {
    let mut world = World::new();
    assert_eq!(world.status(put("b", "", "1", "value of b")), StatusCode::Success);
    assert_eq!(world.status(put("d", "", "1", "value of d")), StatusCode::Success);
    let response = world.call(get("b"));
    assert_eq!(entry(&response.answer), (&b"b"[..], &b"1"[..], &b"value of b"[..]));
    let Answer::Entry(whole) = &response.answer else { unreachable!() };
    assert_eq!(kinetic::check_tag(&whole.metadata, &whole.value), kinetic::TagCheck::Agrees);
    let only = Request::Get { which: Which::Exact, key: bytes("b"), metadata_only: true };
    let response = world.call(only);
    assert_eq!(entry(&response.answer), (&b"b"[..], &b"1"[..], &b""[..]));
    let Answer::Entry(metadata) = &response.answer else { unreachable!() };
    assert_eq!(metadata.metadata, whole.metadata);
    let version = world.call(Request::GetVersion { key: bytes("b") });
    assert_eq!(version.answer, Answer::Version(bytes("1")));

    for (which, from, found) in [
        (Which::Next, "", Some("b")),
        (Which::Next, "a", Some("b")),
        (Which::Next, "b", Some("d")),
        (Which::Next, "d", None),
        (Which::Previous, "e", Some("d")),
        (Which::Previous, "d", Some("b")),
        (Which::Previous, "b", None),
    ] {
        let response = world.call(Request::Get { which, key: bytes(from), metadata_only: false });
        match found {
            Some(key) => assert_eq!(entry(&response.answer).0, key.as_bytes(), "{which:?} {from}"),
            None => assert_eq!(response.status.code, StatusCode::NotFound, "{which:?} {from}"),
        }
    }

    assert_eq!(world.status(put("b", "1", "2", "another")), StatusCode::Success);
    assert_eq!(world.status(delete("b", "1")), StatusCode::VersionMismatch);
    assert_eq!(world.status(delete("b", "2")), StatusCode::Success);
    assert_eq!(world.status(get("b")), StatusCode::NotFound);
    assert_eq!(world.status(delete("b", "2")), StatusCode::NotFound);
}

#[test]
fn ranges() {
    let mut world = World::new();
    for key in ["a", "b", "c", "d"] {
        assert_eq!(world.status(put(key, "", "1", key)), StatusCode::Success);
    }
    let mut ask = |range: KeyRange| {
        let response = world.call(Request::GetKeyRange(range));
        assert!(response.status.is_success());
        keys(&response.answer).join("")
    };
    assert_eq!(ask(range("a", "d", 200)), "abcd");
    assert_eq!(ask(range("a", "d", 2)), "ab");
    assert_eq!(ask(KeyRange { reverse: true, ..range("a", "d", 2) }), "dc");
    assert_eq!(ask(KeyRange { start_inclusive: false, ..range("a", "d", 200) }), "bcd");
    assert_eq!(ask(KeyRange { end_inclusive: false, ..range("a", "d", 200) }), "abc");
    assert_eq!(ask(range("d", "a", 200)), "", "reversed bounds");
    assert_eq!(ask(range("aa", "bz", 200)), "b");
}

#[test]
fn the_medium() {
    let mut world = World::new();
    for key in ["a", "b", "c"] {
        assert_eq!(world.status(put(key, "", "1", "value")), StatusCode::Success);
    }
    world.drive.spoil(b"b");
    let scan = world.call(Request::MediaScan(range("a", "z", 200)));
    assert_eq!(scan.status.code, StatusCode::Success);
    assert_eq!(scan.answer, Answer::Scanned { damaged: vec![bytes("b")], last: None });
    assert_eq!(world.status(Request::MediaOptimize(range("a", "z", 0))), StatusCode::Success);
}

#[test]
fn writing_back_and_flushing() {
    let mut world = World::new();
    let back = |key: &str, synchronization| {
        Request::Change(Change::Put(kinetic::Put { synchronization, ..a_put(key, "", "1", key) }))
    };
    assert_eq!(world.status(back("a", Synchronization::WriteBack)), StatusCode::Success);
    assert_eq!(world.status(back("b", Synchronization::WriteThrough)), StatusCode::Success);
    world.drive.crash(|_| false);
    assert_eq!(world.status(get("a")), StatusCode::NotFound);
    assert_eq!(world.status(get("b")), StatusCode::Success);
    assert_eq!(world.status(back("a", Synchronization::WriteBack)), StatusCode::Success);
    assert_eq!(world.status(Request::FlushAllData), StatusCode::Success);
    world.drive.crash(|_| false);
    assert_eq!(world.status(get("a")), StatusCode::Success);
    assert_eq!(world.status(back("c", Synchronization::WriteBack)), StatusCode::Success);
    assert_eq!(world.status(back("d", Synchronization::Flush)), StatusCode::Success);
    world.drive.crash(|_| false);
    assert_eq!(world.status(get("c")), StatusCode::Success);
}

#[test]
fn logs() {
    let mut world = World::new();
    assert_eq!(world.status(put("a", "", "1", "0123456789")), StatusCode::Success);
    assert_eq!(world.status(get("a")), StatusCode::Success);
    for one in LogType::ALL.iter().filter(|one| **one != LogType::Device) {
        let response = world.call(Request::GetLog { types: vec![*one], device: None });
        let Answer::Log { log, .. } = response.answer else { panic!("{one:?}") };
        assert_eq!(log.types, [*one]);
        let has = [
            (LogType::Utilizations, !log.utilizations.is_empty()),
            (LogType::Temperatures, !log.temperatures.is_empty()),
            (LogType::Capacities, log.capacity.is_some()),
            (LogType::Configuration, log.configuration.is_some()),
            (LogType::Statistics, !log.statistics.is_empty()),
            (LogType::Messages, !log.messages.is_empty()),
            (LogType::Limits, log.limits.is_some()),
        ];
        for (other, is_there) in has {
            assert_eq!(is_there, other == *one, "{other:?} in the answer to {one:?}");
        }
        if let Some(put) = log.statistics.iter().find(|one| one.request() == Some(MessageType::Put)) {
            assert_eq!((put.count, put.bytes), (1, 10));
        }
    }
    let named = |name| Request::GetLog { types: vec![LogType::Device], device: Some(bytes(name)) };
    world.drive.logs.insert(bytes("kist.log"), bytes("all is well"));
    let response = world.call(named("kist.log"));
    let Answer::Log { device, .. } = response.answer else { panic!() };
    assert_eq!(device, bytes("all is well"));
    assert_eq!(world.status(named("other")), StatusCode::NotFound);
}

fn push_of(port: u16, key: &str, new_key: &str, then: Option<Push>) -> Push {
    let operation = PushOperation {
        key: bytes(key),
        new_key: Some(bytes(new_key)),
        version: Bytes::new(),
        force: false,
        status: None,
        then,
    };
    let peer = Peer { host: "other".to_owned(), port, is_tls: false };
    Push { peer, operations: vec![operation] }
}

#[test]
fn pushes_go_on_from_device_to_device() {
    let mut world = World::new();
    for port in [1, 2] {
        world.peers.insert(("other".to_owned(), port), Drive::default());
    }
    assert_eq!(world.status(put("a", "", "1", "value")), StatusCode::Success);
    let response = world.call(Request::Push(push_of(1, "a", "b", Some(push_of(2, "b", "c", None)))));
    assert_eq!(response.status.code, StatusCode::Success);
    for (port, key) in [(1, b"b"), (2, b"c")] {
        let (metadata, value) = world.peers[&("other".to_owned(), port)].stands(key).unwrap();
        assert_eq!((&metadata.version[..], &value[..]), (&b"1"[..], &b"value"[..]));
    }
    // Once more: what stands there has a version now.
    let response = world.call(Request::Push(push_of(1, "a", "b", Some(push_of(2, "b", "c", None)))));
    assert_eq!(response.status.code, StatusCode::NestedOperationErrors);
    let Answer::Push(outcomes) = response.answer else { panic!() };
    assert_eq!(outcomes[0].status.code, StatusCode::VersionMismatch);
    assert_eq!(outcomes[0].then[0].status.code, StatusCode::NotAttempted);
    let response = world.call(Request::Push(push_of(3, "a", "b", None)));
    let Answer::Push(outcomes) = response.answer else { panic!() };
    assert_eq!(outcomes[0].status.code, StatusCode::RemoteConnectionError);
}

#[test]
fn setting_up() {
    let mut world = World::new();
    assert_eq!(world.status(Request::Noop), StatusCode::Success);
    assert_eq!(world.status(Request::Firmware(bytes("program"))), StatusCode::Success);
    assert_eq!(world.drive.firmware, [bytes("program")]);
    for level in [PowerLevel::Hibernate, PowerLevel::Operational] {
        assert_eq!(world.status(Request::SetPowerLevel(level)), StatusCode::Success);
        assert_eq!((world.drive.power, world.device.power()), (level, level));
    }
    assert_eq!(world.status(Request::SetClusterVersion(ClusterVersion(5))), StatusCode::Success);
    assert_eq!(world.drive.state().cluster_version, ClusterVersion(5));
    let response = world.call(Request::Noop);
    assert_eq!(response.status.code, StatusCode::VersionFailure, "this client is of another generation");
    assert_eq!(response.cluster_version, Some(ClusterVersion(5)), "the device says of which it is");
    world.client.set_cluster_version(ClusterVersion(5));
    assert_eq!(world.status(Request::Noop), StatusCode::Success);
}

#[test]
fn security() {
    let mut world = World::tls();
    let other = Acl { identity: Identity(7), key: Secret::new("other"), ..Acl::factory() };
    let acls = SecurityChange::Acls(vec![Acl::factory(), other.clone()]);
    assert_eq!(world.status(Request::Security(acls)), StatusCode::Success);
    assert_eq!(world.drive.state().acls, [Acl::factory(), other]);
    let pin = |old: &'static str, new: &'static str| (Secret::new(old), Secret::new(new));
    let (old, new) = pin("", "1234");
    let change = Request::Security(SecurityChange::LockPin { old, new });
    assert_eq!(world.status(change.clone()), StatusCode::Success);
    assert_eq!(world.status(change), StatusCode::NotAuthorized, "the present PIN is another one now");
    let (old, new) = pin("", "5678");
    assert_eq!(world.status(Request::Security(SecurityChange::ErasePin { old, new })), StatusCode::Success);
    assert_eq!(world.pin(PinOperation::Lock, "1234"), StatusCode::Success);
    assert_eq!(world.pin(PinOperation::Unlock, "1234"), StatusCode::Success);
}

#[test]
fn batches() {
    let mut world = World::new();
    let batch = world.begin();
    world.client.add(batch, Change::Put(a_put("a", "", "1", "x"))).unwrap();
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Committed(vec![0])));
    let batch = world.begin();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Open));
    world.client.abort(world.now, batch).unwrap();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Aborted));
    assert_eq!(world.device.batches(), 0);
}
