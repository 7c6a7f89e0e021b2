//! Every command, and every status that a device gives.

use base::ByteCount;
use bytes::Bytes;
use drive_server::Server;
use kinetic::client::{BatchOutcome, ClientSettings, EndReason};
use kinetic::{
    Acl, Algorithm, Answer, Change, ClusterVersion, HmacKey, Identity, KeyRange, LogType, Metadata, Peer,
    Permission, PowerLevel, Push, PushOperation, Put, Request, Scope, Secret, SecurityChange, StatusCode,
    Synchronization, Which,
};
use valuelog::Expected;

use StatusCode::{
    DataError, Expired, Hibernate, InvalidRequest, NoSpace, NotAuthorized, NotFound, PermDataError, Success,
    VersionFailure, VersionMismatch,
};

use crate::wire::{Wire, a_delete, a_put, bytes, delete, get, noise, put, range, serve, settings, store};

struct World {
    server: Server,
    wire: Wire,
    _directory: tempfile::TempDir,
}

fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let wire = Wire::connect(server.plain()[0]);
    World { server, wire, _directory: directory }
}

fn neighbour(which: Which, key: &str) -> Request {
    Request::Get { which, key: bytes(key), metadata_only: false }
}

fn key_of(answer: Answer) -> Option<String> {
    match answer {
        Answer::Entry(entry) => Some(String::from_utf8(entry.key.to_vec()).unwrap()),
        _ => None,
    }
}

fn keys_of(answer: Answer) -> Vec<String> {
    let Answer::Keys(keys) = answer else { panic!("keys") };
    keys.iter().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
}

#[test]
fn compare_and_set_as_the_core_says() {
    let World { mut wire, server: _server, _directory } = world();
    let mut number = 0;
    for stands in [None, Some(""), Some("1")] {
        for given in ["", "1", "2"] {
            for force in [false, true] {
                number += 1;
                let key = format!("k{number}");
                let case = format!("{stands:?}, {given}, {force}");
                let begin = |wire: &mut Wire| {
                    let forced = Put { force: true, ..a_put(&key, "", stands.unwrap_or(""), "old") };
                    assert_eq!(wire.code(Request::Change(Change::Put(forced))), Success);
                    if stands.is_none() {
                        assert_eq!(wire.code(delete(&key, "")), Success);
                    }
                };
                begin(&mut wire);
                let one = Put { force, ..a_put(&key, given, "n", "new") };
                let expected = kinetic::check_put(stands.map(str::as_bytes), &one).err().unwrap_or(Success);
                assert_eq!(wire.code(Request::Change(Change::Put(one))), expected, "put: {case}");
                begin(&mut wire);
                let one = kinetic::Delete { force, ..a_delete(&key, given) };
                let expected =
                    kinetic::check_delete(stands.map(str::as_bytes), &one).err().unwrap_or(Success);
                assert_eq!(wire.code(Request::Change(Change::Delete(one))), expected, "delete: {case}");
            }
        }
    }
}

#[test]
fn reading() {
    let World { mut wire, server: _server, _directory } = world();
    for key in ["a", "b", "d"] {
        assert_eq!(wire.code(put(key, "", "1", noise(40_000, 1))), Success);
    }
    let Answer::Version(version) = wire.call(Request::GetVersion { key: bytes("b") }).answer else {
        panic!()
    };
    assert_eq!(&version[..], b"1");
    assert_eq!(wire.code(Request::GetVersion { key: bytes("c") }), NotFound);
    let next = |wire: &mut Wire, key: &str| key_of(wire.call(neighbour(Which::Next, key)).answer);
    let previous = |wire: &mut Wire, key: &str| key_of(wire.call(neighbour(Which::Previous, key)).answer);
    assert_eq!(next(&mut wire, "b").as_deref(), Some("d"));
    assert_eq!(next(&mut wire, "d"), None);
    assert_eq!(next(&mut wire, "").as_deref(), Some("a"));
    assert_eq!(previous(&mut wire, "c").as_deref(), Some("b"));
    assert_eq!((previous(&mut wire, "a"), previous(&mut wire, "")), (None, None));
    let response = wire.call(Request::Get { which: Which::Exact, key: bytes("a"), metadata_only: true });
    let Answer::Entry(entry) = response.answer else { panic!("an entry") };
    assert!(entry.value.is_empty() && entry.metadata.tag.len() == 4 && &entry.metadata.version[..] == b"1");
    // What a device does not know of an algorithm, it keeps; and that none was given.
    for algorithm in [None, Some(Algorithm(0)), Some(Algorithm(-1)), Some(Algorithm(100))] {
        let mut one = Put { force: true, ..a_put("algorithm", "", "1", "v") };
        one.metadata = Metadata { algorithm, tag: bytes("any tag"), ..one.metadata };
        assert_eq!(wire.code(Request::Change(Change::Put(one))), Success);
        let Answer::Entry(entry) = wire.call(get("algorithm")).answer else { panic!("an entry") };
        assert_eq!((entry.metadata.algorithm, &entry.metadata.tag[..]), (algorithm, &b"any tag"[..]));
    }
}

#[test]
fn parts_of_values() {
    let World { mut wire, server: _server, _directory } = world();
    let value = noise(300_000, 5);
    assert_eq!(wire.code(put("k", "", "1", value.clone())), Success);
    let log = wire
        .call(Request::GetLog { types: vec![LogType::Device], device: Some(bytes(kinetic::EXTENSIONS_LOG)) });
    let Answer::Log { device, .. } = log.answer else { panic!("a log") };
    assert!(device.split(|byte| *byte == b'\n').any(|line| line == kinetic::EXTENSION_GET_PART.as_bytes()));
    let part = |offset, length| Request::GetPart { key: bytes("k"), offset, length };
    for (offset, length) in [(0, 0), (0, 300_000), (65_535, 2), (65_536, 65_536), (299_999, 1), (300_000, 0)]
    {
        let Answer::Entry(entry) = wire.call(part(offset, length)).answer else {
            panic!("{offset}, {length}")
        };
        assert!(entry.value == value[offset as usize..(offset + length) as usize], "{offset}, {length}");
        assert_eq!((&entry.metadata.version[..], entry.metadata.tag.len()), (&b"1"[..], 4));
    }
    for (offset, length) in [(0, 300_001), (300_000, 1), (300_001, 0), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(wire.code(part(offset, length)), InvalidRequest, "{offset}, {length}");
    }
    assert_eq!(wire.code(Request::GetPart { key: bytes("x"), offset: 0, length: 1 }), NotFound);
}

#[test]
fn ranges() {
    let World { mut wire, server: _server, _directory } = world();
    // More than are looked at in one step.
    for number in 0..600 {
        let mut one = a_put(&format!("{number:04}"), "", "1", "");
        one.synchronization = Synchronization::WriteBack;
        assert_eq!(wire.code(Request::Change(Change::Put(one))), Success);
    }
    let ask = |wire: &mut Wire, range: KeyRange| keys_of(wire.call(Request::GetKeyRange(range)).answer);
    let all: Vec<String> = (0..600).map(|number| format!("{number:04}")).collect();
    assert_eq!(ask(&mut wire, range("0100", "0105", 200)), all[100..=105]);
    let open = KeyRange { start_inclusive: false, end_inclusive: false, ..range("0100", "0105", 200) };
    assert_eq!(ask(&mut wire, open), all[101..105]);
    assert_eq!(ask(&mut wire, range("0", "9", 3)), all[..3]);
    let last = KeyRange { reverse: true, ..range("0", "9", 2) };
    assert_eq!(ask(&mut wire, last), ["0599", "0598"]);
    assert!(ask(&mut wire, range("9", "0", 200)).is_empty() && ask(&mut wire, range("0", "9", 0)).is_empty());
    assert_eq!(ask(&mut wire, range("0", "9", 200)).len(), 200);
    // Keys that an identity does not see are passed over and not counted.
    let World { mut wire, server: _server, _directory } = restricted();
    assert_eq!(ask(&mut wire, range("a", "z", 2)), ["m1", "m2"]);
    assert_eq!(key_of(wire.call(neighbour(Which::Next, "a")).answer).as_deref(), Some("m1"));
    assert_eq!(key_of(wire.call(neighbour(Which::Previous, "z")).answer).as_deref(), Some("m2"));
    assert_eq!(wire.code(get("a1")), NotAuthorized);
    assert_eq!(wire.code(put("m1", "1", "2", "v")), NotAuthorized);
}

/// A device with an identity 7 that may read and list keys with `m`.
fn restricted() -> World {
    let directory = tempfile::tempdir().unwrap();
    let log = store(directory.path(), 200);
    let server =
        Server::start(log, drive_server::Settings { is_security_over_tls: false, ..settings() }).unwrap();
    let mut wire = Wire::connect(server.plain()[0]);
    for key in ["a1", "a2", "m1", "m2", "x1", "x2"] {
        assert_eq!(wire.code(put(key, "", "1", "v")), Success);
    }
    let scope = Scope {
        offset: 0,
        value: bytes("m"),
        permissions: vec![Permission::Read, Permission::Range],
        tls_required: false,
    };
    let other =
        Acl { identity: Identity(7), key: Secret::new("seven"), scopes: vec![scope], ..Acl::factory() };
    let acls = vec![Acl::factory(), other];
    assert_eq!(wire.code(Request::Security(SecurityChange::Acls(acls))), Success);
    let mut wire = Wire::open(server.plain()[0], ClientSettings::new(Identity(7), b"seven"));
    wire.greeted();
    World { server, wire, _directory: directory }
}

#[test]
fn batches() {
    let World { mut wire, server: _server, _directory } = world();
    let one = |key: &str, from: &str, to: &str| Change::Put(a_put(key, from, to, noise(1_000, 1)));
    let committed = wire.batch([one("a", "", "1"), one("b", "", "1"), one("a", "1", "2")]);
    assert_eq!(committed, BatchOutcome::Committed(vec![0, 1, 2]));
    let failed = wire.batch([one("c", "", "1"), one("b", "x", "2")]);
    let BatchOutcome::Failed { operation, status } = failed else { panic!("{failed:?}") };
    assert_eq!((operation, status.code), (Some(1), VersionMismatch));
    assert_eq!(wire.code(Request::GetVersion { key: bytes("c") }), NotFound, "nothing of it was done");
    let gone = wire.batch([Change::Delete(a_delete("a", "2")), Change::Delete(a_delete("b", "1"))]);
    assert_eq!(gone, BatchOutcome::Committed(vec![0, 1]));
    let failed = wire.batch([Change::Delete(a_delete("a", "2"))]);
    let BatchOutcome::Failed { status, .. } = failed else { panic!("{failed:?}") };
    assert_eq!(status.code, NotFound);
    assert_eq!(wire.batch([]), BatchOutcome::Committed(vec![]));
    // The most that a batch may be: half a segment of this store, less room for headers.
    let most: Vec<Change> = (0..15)
        .map(|number| Change::Put(a_put(&format!("m{number}"), "", "1", noise(100 << 10, number))))
        .collect();
    assert!(matches!(wire.batch(most), BatchOutcome::Committed(all) if all.len() == 15));
    let bytes = wire.client.greeting().unwrap().bounds().batch_bytes;
    assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn a_value_and_its_tag_agree() {
    let World { mut wire, server, _directory } = world();
    let mut wrong = a_put("k", "", "1", noise(100_000, 1));
    wrong.value = noise(100_000, 2);
    assert_eq!(
        wire.code(Request::Change(Change::Put(wrong.clone()))),
        DataError,
        "it was changed on its way"
    );
    let failed = wire.batch([Change::Put(a_put("l", "", "1", "v")), Change::Put(wrong)]);
    let BatchOutcome::Failed { operation, status } = failed else { panic!("{failed:?}") };
    assert_eq!((operation, status.code), (Some(1), DataError));
    // What stands there all the same, a scan finds.
    for number in 0..700 {
        let (key, is_wrong) = (format!("s{number:03}"), number % 300 == 7);
        let tag = kinetic::crc32c_tag(if is_wrong { b"other" } else { b"value" });
        let put = valuelog::Put {
            key: key.as_bytes(),
            value: b"value",
            version: b"1",
            tag: &tag,
            algorithm: 4,
            expected: Expected::Any,
        };
        server.store().put(&put, valuelog::Durability::Back).unwrap();
    }
    let scanned = wire.call(Request::MediaScan(range("s", "t", 200)));
    assert_eq!(scanned.status.code, Success);
    let Answer::Scanned { damaged, last } = scanned.answer else { panic!("a scan") };
    assert_eq!((damaged, last), (vec![bytes("s007"), bytes("s307"), bytes("s607")], None));
    // As many as are asked for, and from there on again.
    let (mut from, mut found) = (range("s", "t", 1), Vec::new());
    loop {
        let scanned = wire.call(Request::MediaScan(from.clone()));
        let Answer::Scanned { damaged, last } = scanned.answer else { panic!("a scan") };
        found.extend(damaged);
        let Some(last) = last else { break };
        assert_eq!(scanned.status.code, Expired);
        from = KeyRange { start: last, start_inclusive: false, ..from };
    }
    assert_eq!(found, [bytes("s007"), bytes("s307"), bytes("s607")]);
    assert_eq!(wire.code(Request::MediaOptimize(range("", "z", 200))), Success);
}

#[test]
fn damage_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let mut wire = Wire::connect(server.plain()[0]);
    let value = noise(200_000, 9);
    assert_eq!(wire.code(put("k", "", "1", value.clone())), Success);
    assert_eq!(wire.code(put("l", "", "1", noise(200_000, 8))), Success);
    // Bits of the value flip on the disk.
    let segments = directory.path().join("store/segments");
    let mut flipped = 0;
    for file in std::fs::read_dir(segments).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(64).position(|window| window == &value[100_000..100_064]) {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1);
    assert_eq!(wire.code(get("k")), PermDataError);
    assert_eq!(wire.code(Request::GetPart { key: bytes("k"), offset: 100_000, length: 10 }), PermDataError);
    let part = wire.call(Request::GetPart { key: bytes("k"), offset: 0, length: 65_536 });
    let Answer::Entry(entry) = part.answer else { panic!("its other blocks are whole") };
    assert!(entry.value == value[..65_536]);
    assert_eq!(wire.code(get("l")), Success);
    let Answer::Scanned { damaged, .. } = wire.call(Request::MediaScan(range("a", "z", 10))).answer else {
        panic!("a scan")
    };
    assert_eq!(damaged, [bytes("k")]);
    let log = wire.call(Request::GetLog { types: vec![LogType::Messages], device: None });
    let Answer::Log { log, .. } = log.answer else { panic!("a log") };
    assert!(String::from_utf8_lossy(&log.messages).contains("the checksum of block 1"), "{:?}", log.messages);
    assert_eq!(wire.code(put("k", "1", "2", value.clone())), Success, "a put makes it good");
    let Answer::Entry(entry) = wire.call(get("k")).answer else { panic!("an entry") };
    assert!(entry.value == value);
}

#[test]
fn the_state_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let changed = || drive_server::Settings { is_security_over_tls: false, ..settings() };
    let first = {
        let server = Server::start(store(directory.path(), 200), changed()).unwrap();
        let mut wire = Wire::connect(server.plain()[0]);
        assert_eq!(wire.code(Request::SetClusterVersion(ClusterVersion(5))), Success);
        assert_eq!(wire.code(Request::Noop), VersionFailure, "it belongs to another generation now");
        wire.client.set_cluster_version(ClusterVersion(5));
        assert_eq!(wire.code(put("k", "", "1", "v")), Success);
        let acls = vec![Acl { key: Secret::new("other"), ..Acl::factory() }];
        assert_eq!(wire.code(Request::Security(SecurityChange::Acls(acls))), Success);
        let greeting = wire.client.greeting().unwrap().clone();
        wire.submit(Request::Noop);
        assert!(matches!(wire.end(), EndReason::KeyRefused(_)), "the old key is none any more");
        greeting
    };
    let server = Server::start(store(directory.path(), 200), changed()).unwrap();
    let mut client = ClientSettings::new(Identity(1), b"other");
    client.cluster_version = ClusterVersion(5);
    let mut wire = Wire::open(server.plain()[0], client);
    wire.greeted();
    let greeting = wire.client.greeting().unwrap().clone();
    assert_eq!(greeting.configuration.world_wide_name, first.configuration.world_wide_name);
    assert!(greeting.connection > first.connection, "no number of a connection is used again");
    assert_eq!(wire.code(get("k")), Success);
    let refused = wire.call(Request::Firmware(bytes("a program")));
    assert_eq!(refused.status.code, InvalidRequest);
    assert!(refused.status.text.contains("not replaced"), "{}", refused.status.text);
}

#[test]
fn logs() {
    let World { mut wire, server, _directory } = world();
    assert_eq!(wire.code(put("k", "", "1", noise(1 << 20, 1))), Success);
    let types = vec![
        LogType::Utilizations,
        LogType::Temperatures,
        LogType::Capacities,
        LogType::Configuration,
        LogType::Statistics,
        LogType::Messages,
        LogType::Limits,
    ];
    let Answer::Log { log, .. } = wire.call(Request::GetLog { types, device: None }).answer else { panic!() };
    let capacity = log.capacity.unwrap();
    let figures = server.store().figures();
    assert_eq!(capacity.nominal_bytes, figures.capacity.0);
    assert!(capacity.portion_full > 0.0 && capacity.portion_full < 0.1, "{capacity:?}");
    assert!(log.utilizations.iter().all(|one| (0.0..=1.0).contains(&one.portion)), "{:?}", log.utilizations);
    assert!(log.utilizations.iter().any(|one| one.name == "CPU"));
    let configuration = log.configuration.unwrap();
    assert_eq!(configuration.serial_number, server.name().to_string());
    assert_eq!(configuration.port, Some(server.plain()[0].port()));
    let puts = log.statistics.iter().find(|one| one.request() == Some(kinetic::MessageType::Put)).unwrap();
    assert_eq!((puts.count, puts.bytes), (1, 1 << 20));
    let limits = log.limits.unwrap();
    assert_eq!(
        kinetic::Limits { batch_bytes: kinetic::Limits::stated().batch_bytes, ..limits },
        kinetic::Limits::stated()
    );
    let named = |name: &str| Request::GetLog { types: vec![LogType::Device], device: Some(bytes(name)) };
    assert_eq!(wire.code(named("com.Seagate.Kinetic.HDD.Gen1")), NotFound);
}

#[test]
fn power() {
    let World { mut wire, server, _directory } = world();
    assert_eq!(wire.code(put("k", "", "1", "v")), Success);
    assert_eq!(wire.code(Request::SetPowerLevel(PowerLevel::Hibernate)), Success);
    assert_eq!(wire.code(get("k")), Hibernate);
    assert_eq!(wire.code(Request::SetPowerLevel(PowerLevel::Operational)), Success);
    assert_eq!(wire.code(get("k")), Success);
    assert_eq!(wire.code(Request::SetPowerLevel(PowerLevel::Shutdown)), Success);
    // It ends by itself.
    server.wait().unwrap();
}

#[test]
fn a_full_drive() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(store(directory.path(), 48), settings()).unwrap();
    let mut wire = Wire::connect(server.plain()[0]);
    let mut count = 0;
    loop {
        let mut one = a_put(&format!("{count}"), "", "1", noise(1 << 20, count));
        one.synchronization = Synchronization::WriteBack;
        match wire.code(Request::Change(Change::Put(one))) {
            Success => count += 1,
            code => {
                assert_eq!(code, NoSpace);
                break;
            }
        }
    }
    assert!(count > 20 && ByteCount(server.store().figures().needed.0) > ByteCount::mib(20), "{count}");
    let failed = wire.batch([Change::Put(a_put("b", "", "1", noise(1 << 20, 1)))]);
    let BatchOutcome::Failed { status, .. } = failed else { panic!("{failed:?}") };
    assert_eq!(status.code, NoSpace);
    assert_eq!(wire.code(get("0")), Success);
    for number in 0..count {
        assert_eq!(wire.code(delete(&format!("{number}"), "1")), Success, "{number}");
    }
    assert_eq!(wire.code(put("again", "", "1", noise(1 << 20, 1))), Success);
}

fn operation(key: &str, new_key: Option<&str>) -> PushOperation {
    PushOperation {
        key: bytes(key),
        new_key: new_key.map(bytes),
        version: Bytes::new(),
        force: false,
        status: None,
        then: None,
    }
}

fn peer(server: &Server) -> Peer {
    Peer { host: "127.0.0.1".to_owned(), port: server.plain()[0].port(), is_tls: false }
}

#[test]
fn entries_are_pushed_from_drive_to_drive() {
    let (mut a, mut b, mut c) = (world(), world(), world());
    let value = noise(700_000, 3);
    assert_eq!(a.wire.code(put("k", "", "1", value.clone())), Success);
    assert_eq!(b.wire.code(put("taken", "", "9", "other")), Success);
    let mut on = operation("k", None);
    // From A to B, and from there to C under another name.
    on.then = Some(Push { peer: peer(&c.server), operations: vec![operation("k", Some("k of c"))] });
    let mut onto = operation("k", Some("taken"));
    onto.then = Some(Push { peer: peer(&c.server), operations: vec![operation("taken", None)] });
    let push = Push { peer: peer(&b.server), operations: vec![on, operation("none", None), onto] };
    let response = a.wire.call(Request::Push(push));
    assert_eq!(response.status.code, StatusCode::NestedOperationErrors);
    let Answer::Push(outcomes) = response.answer else { panic!("a push") };
    let codes: Vec<StatusCode> = outcomes.iter().map(|one| one.status.code).collect();
    assert_eq!(codes, [Success, NotFound, VersionMismatch]);
    assert_eq!(outcomes[0].then[0].status.code, Success);
    assert_eq!(outcomes[2].then[0].status.code, StatusCode::NotAttempted);
    for (wire, key) in [(&mut b.wire, "k"), (&mut c.wire, "k of c")] {
        let Answer::Entry(entry) = wire.call(get(key)).answer else { panic!("{key}") };
        assert!(entry.value == value && &entry.metadata.version[..] == b"1" && entry.metadata.tag.len() == 4);
    }
    // To itself, which is another drive to it; and to nobody.
    let own = Push { peer: peer(&a.server), operations: vec![operation("k", Some("copy"))] };
    assert_eq!(a.wire.code(Request::Push(own)), Success);
    let nobody = Peer { host: "127.0.0.1".to_owned(), port: 1, is_tls: false };
    let response = a.wire.call(Request::Push(Push { peer: nobody, operations: vec![operation("k", None)] }));
    let Answer::Push(outcomes) = response.answer else { panic!("a push") };
    assert_eq!(outcomes[0].status.code, StatusCode::RemoteConnectionError);
}

#[test]
fn a_wrong_key_is_refused() {
    let World { server, _directory, .. } = world();
    let mut client = ClientSettings::new(Identity(1), b"wrong");
    client.key = HmacKey::new(b"wrong");
    let mut wire = Wire::open(server.plain()[0], client);
    wire.greeted();
    let ticket = wire.submit(Request::Noop);
    let answered = wire.answer(ticket);
    assert!(answered.is_none_or(|response| response.status.code == StatusCode::HmacFailure));
}
