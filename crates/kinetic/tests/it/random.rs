//! Random requests come back as they were written, random bytes break nothing, and random orders of events
//! lose no outcome.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use kinetic::client::{Event, Options};
use kinetic::{
    Acl, Algorithm, Change, ClusterVersion, Delete, FrameLimits, FrameReader, FrameValue, Identity, KeyRange,
    LogType, Metadata, Peer, Permission, PinOperation, PowerLevel, Priority, Progress, Push, PushOperation,
    Put, Request, Scope, Sealed, Secret, SecurityChange, Sender, StatusCode, Synchronization, Treatment,
    Which, seal, wire,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{World, a_put, get};

fn some_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn key() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 1..20).prop_map(Bytes::from)
}

fn put() -> impl Strategy<Value = Put> {
    let metadata = (some_bytes(), some_bytes(), any::<Option<i32>>());
    let metadata = metadata.prop_map(|(version, tag, algorithm)| Metadata {
        version,
        tag,
        algorithm: algorithm.map(Algorithm),
    });
    (key(), metadata, some_bytes(), any::<bool>(), select(Synchronization::ALL), some_bytes()).prop_map(
        |(key, metadata, db_version, force, synchronization, value)| Put {
            key,
            metadata,
            db_version,
            force,
            synchronization,
            value,
        },
    )
}

fn range() -> impl Strategy<Value = KeyRange> {
    (some_bytes(), any::<bool>(), some_bytes(), any::<bool>(), 0..=i32::MAX as u32, any::<bool>()).prop_map(
        |(start, start_inclusive, end, end_inclusive, max_returned, reverse)| KeyRange {
            start,
            start_inclusive,
            end,
            end_inclusive,
            max_returned,
            reverse,
        },
    )
}

fn acl() -> impl Strategy<Value = Acl> {
    let permissions = vec(select(Permission::ALL), 1..5).prop_map(|mut permissions| {
        permissions.sort();
        permissions.dedup();
        permissions
    });
    let scope = (0..=i64::MAX as u64, some_bytes(), permissions, any::<bool>()).prop_map(
        |(offset, value, permissions, tls_required)| Scope { offset, value, permissions, tls_required },
    );
    (any::<i64>(), key(), vec(scope, 1..4), 1..=9).prop_map(|(identity, key, scopes, priority)| Acl {
        identity: Identity(identity),
        key: Secret::new(key),
        scopes,
        max_priority: Priority::from_number(priority).unwrap(),
    })
}

fn push() -> impl Strategy<Value = Push> {
    let peer = || {
        ("[a-z0-9.:]{1,20}", 1..=u16::MAX, any::<bool>()).prop_map(|(host, port, is_tls)| Peer {
            host,
            port,
            is_tls,
        })
    };
    let operation = |then: BoxedStrategy<Option<Push>>| {
        (key(), proptest::option::of(key()), some_bytes(), any::<bool>(), then).prop_map(
            |(key, new_key, version, force, then)| PushOperation {
                key,
                new_key,
                version,
                force,
                status: None,
                then,
            },
        )
    };
    let last = (peer(), vec(operation(Just(None).boxed()), 1..3))
        .prop_map(|(peer, operations)| Push { peer, operations });
    let then = proptest::option::of(last).boxed();
    (peer(), vec(operation(then), 1..3)).prop_map(|(peer, operations)| Push { peer, operations })
}

fn request() -> impl Strategy<Value = Request> {
    let which = select(&[Which::Exact, Which::Next, Which::Previous][..]);
    let pins = || (some_bytes(), some_bytes()).prop_map(|(old, new)| (Secret::new(old), Secret::new(new)));
    let logs: Vec<LogType> = LogType::ALL.iter().copied().filter(|one| *one != LogType::Device).collect();
    prop_oneof![
        (which, some_bytes(), any::<bool>()).prop_map(|(which, key, metadata_only)| Request::Get {
            which,
            key,
            metadata_only
        }),
        some_bytes().prop_map(|key| Request::GetVersion { key }),
        put().prop_map(|put| Request::Change(Change::Put(put))),
        (key(), some_bytes(), any::<bool>(), select(Synchronization::ALL)).prop_map(
            |(key, db_version, force, synchronization)| {
                Request::Change(Change::Delete(Delete { key, db_version, force, synchronization }))
            }
        ),
        range().prop_map(Request::GetKeyRange),
        range().prop_map(Request::MediaScan),
        range().prop_map(Request::MediaOptimize),
        any::<i64>().prop_map(|version| Request::SetClusterVersion(ClusterVersion(version))),
        some_bytes().prop_map(Request::Firmware),
        vec(acl(), 0..3).prop_map(|acls| Request::Security(SecurityChange::Acls(acls))),
        pins().prop_map(|(old, new)| Request::Security(SecurityChange::ErasePin { old, new })),
        pins().prop_map(|(old, new)| Request::Security(SecurityChange::LockPin { old, new })),
        select(logs).prop_map(|one| Request::GetLog { types: vec![one], device: None }),
        key().prop_map(|name| Request::GetLog { types: vec![LogType::Device], device: Some(name) }),
        push().prop_map(Request::Push),
        select(PinOperation::ALL).prop_map(Request::Pin),
        select(PowerLevel::ALL).prop_map(Request::SetPowerLevel),
        (0..=i32::MAX as u32).prop_map(|count| Request::EndBatch { count }),
        select(&[Request::Noop, Request::FlushAllData, Request::StartBatch, Request::AbortBatch][..]),
    ]
}

proptest! {
    #[test]
    fn requests_come_back(request in request(), step in 1_usize..50) {
        let (body, value) = request.write();
        let header = wire::Header {
            message_type: Some(request.message_type().number()),
            ..wire::Header::default()
        };
        let command = wire::Command { header: Some(header), body, status: None };
        let sent = seal(Sender::Device, &command, value).unwrap().to_vec();
        let (mut reader, mut buffer) = (FrameReader::new(FrameLimits::default()), BytesMut::new());
        let mut frames = Vec::new();
        for piece in sent.chunks(step) {
            buffer.extend_from_slice(piece);
            if let Progress::Frame(frame) = reader.next(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        prop_assert_eq!(frames.len(), 1);
        let frame = frames.remove(0);
        let command = Sealed::read(frame.message).unwrap().open().unwrap();
        let FrameValue::Whole(value) = frame.value else { panic!("whole") };
        let number = command.header.unwrap().message_type;
        prop_assert_eq!(Request::read(number, command.body, value), Ok(request));
    }

    #[test]
    fn treatments_come_back(
        timeout in proptest::option::of(1_u64..1 << 40),
        quanta in proptest::option::of(0_u64..1 << 40),
        early_exit: bool,
        priority in proptest::option::of(1..=9),
    ) {
        let treatment = Treatment {
            timeout: timeout.map(base::Duration::from_millis),
            early_exit,
            priority: priority.and_then(Priority::from_number),
            time_quanta: quanta.map(base::Duration::from_millis),
        };
        let mut header = wire::Header::default();
        treatment.write(&mut header);
        prop_assert_eq!(Treatment::read(&header), Ok(treatment));
    }

    #[test]
    fn any_bytes_break_nothing(data in vec(any::<u8>(), 0..400)) {
        kinetic::fuzz::frames(&data);
        kinetic::fuzz::conversation(&data);
    }

    /// A request of ours with some bytes changed, as a message that is vouched for.
    #[test]
    fn what_is_nearly_a_request_breaks_nothing(
        request in request(),
        changes in vec((any::<usize>(), any::<u8>()), 0..4),
        kind: u8,
    ) {
        use prost::Message as _;
        let (body, _) = request.write();
        let header = wire::Header {
            message_type: Some(request.message_type().number()),
            batch_id: (kind & 0x40 != 0).then_some(1),
            ..wire::Header::default()
        };
        let mut bytes = wire::Command { header: Some(header), body, status: None }.encode_to_vec();
        for (at, to) in changes {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        bytes.truncate(255);
        let mut data = vec![kind, bytes.len() as u8];
        data.extend_from_slice(&bytes);
        let twice = data.repeat(3);
        kinetic::fuzz::conversation(&twice);
        let framed = vec![7, b'F', 0, 0, 0, 0, 0, 0, 0, 0];
        kinetic::fuzz::frames(&framed);
    }

    #[test]
    fn filters_see_what_lists_allow(acl in acl(), key in some_bytes(), is_tls: bool) {
        for permission in Permission::ALL {
            prop_assert!(kinetic::fuzz::filter_agrees(&acl, *permission, is_tls, &key));
        }
    }

    /// Many requests, answered in any order and cut off somewhere: each has one outcome, and what succeeded
    /// stands there.
    #[test]
    fn every_request_has_one_outcome(
        order in vec(any::<usize>(), 0..40),
        count in 1_usize..40,
        budget in 0_usize..20_000,
    ) {
        let mut world = World::new();
        world.is_slow = true;
        world.budget = budget;
        let mut asked = BTreeMap::new();
        for number in 0..count {
            let key = format!("{number}");
            let request = match number % 3 {
                0 => get("0"),
                _ => Request::Change(Change::Put(a_put(&key, "", "1", &key))),
            };
            let ticket = world.client.submit(world.now, request, Options::default()).unwrap();
            asked.insert(ticket, (number, key));
        }
        world.settle();
        for place in order {
            if !world.works.is_empty() {
                let place = place % world.works.len();
                world.work_at(place);
                world.settle();
            }
        }
        let (events, (_, drive)) = world.cut();
        for event in &events {
            match event {
                Event::Answered { ticket, response } => {
                    let (number, key) = asked.remove(ticket).expect("one outcome");
                    if number % 3 != 0 {
                        prop_assert_eq!(response.status.code, StatusCode::Success);
                        prop_assert!(drive.stands(key.as_bytes()).is_some());
                    }
                }
                Event::Unanswered { ticket, fate, .. } => {
                    let (_, key) = asked.remove(ticket).expect("one outcome");
                    if *fate == kinetic::client::Fate::NotSent {
                        prop_assert!(drive.stands(key.as_bytes()).is_none());
                    }
                }
                Event::Ended(_) => {}
                other => panic!("{other:?}"),
            }
        }
        prop_assert!(asked.is_empty());
        prop_assert!(matches!(events.last(), Some(Event::Ended(_))));
    }
}
