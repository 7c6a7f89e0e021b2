//! Scopes, priorities and TLS, from both ends.

use kinetic::client::{ClientSettings, Options};
use kinetic::server::DeviceState;
use kinetic::{
    Acl, Answer, ClusterVersion, Identity, LogType, Permission, PowerLevel, Priority, Request, Scope, Secret,
    SecurityChange, StatusCode, Treatment, Which,
};

use crate::world::{Making, World, bytes, delete, get, put, range};

fn scope(value: &str, permissions: &[Permission]) -> Scope {
    let permissions = permissions.to_vec();
    Scope { offset: 0, value: bytes(value), permissions, tls_required: false }
}

fn world(scopes: Vec<Scope>, is_tls: bool) -> World {
    let limited =
        Acl { identity: Identity(2), key: Secret::new("two"), scopes, max_priority: Priority::NORMAL };
    let acls = vec![Acl::factory(), limited];
    let state = DeviceState { acls, ..DeviceState::factory() };
    let mut client = ClientSettings::new(Identity(2), b"two");
    client.is_tls = is_tls;
    World::make(Making { state, is_tls, client, ..Making::default() })
}

#[test]
fn each_permission_allows_its_requests_and_no_other() {
    let acls = SecurityChange::Acls(vec![Acl::factory()]);
    let push = kinetic::Push {
        peer: kinetic::Peer { host: "h".to_owned(), port: 1, is_tls: false },
        operations: vec![kinetic::PushOperation {
            key: bytes("k"),
            new_key: None,
            version: bytes(""),
            force: false,
            status: None,
            then: None,
        }],
    };
    let cases = [
        (get("k"), Permission::Read),
        (Request::GetVersion { key: bytes("k") }, Permission::Read),
        (Request::Get { which: Which::Next, key: bytes("k"), metadata_only: true }, Permission::Read),
        (Request::Get { which: Which::Previous, key: bytes("k"), metadata_only: true }, Permission::Read),
        (put("k", "", "1", ""), Permission::Write),
        (delete("k", ""), Permission::Delete),
        (Request::GetKeyRange(range("a", "z", 9)), Permission::Range),
        (Request::MediaScan(range("a", "z", 9)), Permission::Range),
        (Request::MediaOptimize(range("a", "z", 9)), Permission::Range),
        (Request::SetClusterVersion(ClusterVersion(0)), Permission::Setup),
        (Request::Firmware(bytes("f")), Permission::Setup),
        (Request::Push(push), Permission::PeerToPeer),
        (Request::GetLog { types: vec![LogType::Limits], device: None }, Permission::GetLog),
        (Request::Security(acls), Permission::Security),
        (Request::SetPowerLevel(PowerLevel::Operational), Permission::PowerManagement),
    ];
    for permission in Permission::ALL {
        assert!(cases.iter().any(|(_, needed)| needed == permission), "{permission:?} is tried");
        for (request, needed) in &cases {
            let mut world = world(vec![scope("", &[*permission])], true);
            let code = world.status(request.clone());
            let is_refused = code == StatusCode::NotAuthorized;
            assert_eq!(is_refused, needed != permission, "{request:?} with {permission:?}: {code:?}");
        }
    }
    // For these nothing is needed.
    let mut world = world(vec![scope("x", &[Permission::Read])], false);
    assert_eq!(world.status(Request::Noop), StatusCode::Success);
    assert_eq!(world.status(Request::FlushAllData), StatusCode::Success);
}

#[test]
fn keys_outside_of_a_scope_are_neither_read_nor_seen() {
    use Permission::{Range, Read, Write};
    let mut world = world(vec![scope("b", &[Read, Range]), scope("", &[Write])], false);
    for key in ["a1", "b1", "b2", "c1"] {
        assert_eq!(world.status(put(key, "", "1", key)), StatusCode::Success);
    }
    assert_eq!(world.status(get("b1")), StatusCode::Success);
    assert_eq!(world.status(get("a1")), StatusCode::NotAuthorized);
    assert_eq!(world.status(get("a2")), StatusCode::NotAuthorized, "whether it is there or not");
    let response = world.call(Request::GetKeyRange(range("a", "z", 9)));
    assert_eq!(response.answer, Answer::Keys(vec![bytes("b1"), bytes("b2")]));
    let response = world.call(Request::GetKeyRange(range("a", "z", 1)));
    assert_eq!(response.answer, Answer::Keys(vec![bytes("b1")]), "what is not seen is not counted");
    for (which, from, found) in
        [(Which::Next, "a", Some("b1")), (Which::Next, "b2", None), (Which::Previous, "z", Some("b2"))]
    {
        let response = world.call(Request::Get { which, key: bytes(from), metadata_only: true });
        let key = match response.answer {
            Answer::Entry(entry) => Some(entry.key),
            _ => None,
        };
        assert_eq!(key, found.map(bytes), "{which:?} {from}");
    }
}

#[test]
fn a_scope_for_tls_is_none_without() {
    let scopes = || vec![Scope { tls_required: true, ..scope("", &[Permission::Read]) }];
    assert_eq!(world(scopes(), false).status(get("k")), StatusCode::NotAuthorized);
    assert_eq!(world(scopes(), true).status(get("k")), StatusCode::NotFound);
}

#[test]
fn keys_are_set_over_tls_only() {
    let acls = || Request::Security(SecurityChange::Acls(vec![Acl::factory()]));
    assert_eq!(World::new().status(acls()), StatusCode::InvalidRequest);
    assert_eq!(World::tls().status(acls()), StatusCode::Success);
    let none = Request::Security(SecurityChange::Acls(Vec::new()));
    assert_eq!(World::tls().status(none), StatusCode::InvalidRequest, "nobody could undo it");
    let twice = Request::Security(SecurityChange::Acls(vec![Acl::factory(), Acl::factory()]));
    assert_eq!(World::tls().status(twice), StatusCode::InvalidRequest);
}

#[test]
fn a_priority_has_a_limit() {
    let mut world = world(vec![Scope::everything()], false);
    for (number, code) in [(1, StatusCode::Success), (5, StatusCode::Success), (6, StatusCode::NotAuthorized)]
    {
        let treatment = Treatment { priority: Priority::from_number(number), ..Treatment::default() };
        let options = Options { treatment, within: None };
        let ticket = world.client.submit(world.now, Request::FlushAllData, options).unwrap();
        world.settle();
        assert_eq!(world.answer(ticket).status.code, code, "{number}");
    }
}

#[test]
fn the_key_that_asked_signs_the_answer() {
    let mut world = World::tls();
    let next = Acl { key: Secret::new("another"), ..Acl::factory() };
    // The client would not take an answer that was signed with another key.
    assert_eq!(world.status(Request::Security(SecurityChange::Acls(vec![next]))), StatusCode::Success);
    world.submit(Request::Noop);
    world.settle();
    assert!(world.ended().is_some(), "the old key is worth nothing any more");
}
