//! Every limit, at it and one beyond: what our client takes, and what the device says to one that does not
//! care.

use bytes::{Bytes, BytesMut};
use kinetic::client::{BatchOutcome, EndReason, Options, SubmitError};
use kinetic::server::{Action, DeviceState};
use kinetic::{
    Acl, Change, FrameReader, HmacKey, Identity, Limits, MESSAGE_BYTES_MAX, Progress, Put, Request, Secret,
    SecurityChange, Sender, Status, StatusCode, VALUE_BYTES_MAX, VALUE_BYTES_SKIPPED_MAX, seal, wire,
};

use crate::world::{KEY, Making, World, a_delete, a_put, arrived, bytes, get, put, range};

/// What becomes of a request with the client's own check, and at the device without.
fn both(limits: Limits, is_tls: bool, request: &Request) -> (bool, StatusCode) {
    let mut client = kinetic::client::ClientSettings::new(Identity(1), KEY);
    client.is_tls = is_tls;
    let mut world = World::make(Making { limits, is_tls, client, ..Making::default() });
    let is_taken = match world.client.submit(world.now, request.clone(), Options::default()) {
        Ok(_) => true,
        Err(SubmitError::TooLarge(_)) => false,
        Err(other) => panic!("{other}"),
    };
    (is_taken, raw(&mut world, 1, request, None).expect("an answer"))
}

/// A request straight to the device; the code of the answer, if there is one at once.
fn raw(world: &mut World, sequence: i64, request: &Request, batch: Option<u32>) -> Option<StatusCode> {
    let header = wire::Header {
        cluster_version: Some(0),
        connection_id: Some(world.connection.id().0),
        sequence: Some(sequence),
        message_type: Some(request.message_type().number()),
        batch_id: batch,
        ..wire::Header::default()
    };
    let (body, value) = request.write();
    let command = wire::Command { header: Some(header), body, status: None };
    let sender = (Identity(1), HmacKey::new(KEY));
    let frame = seal(Sender::Identity(sender.0, &sender.1), &command, value).unwrap();
    let mut actions = Vec::new();
    world.connection.received(&mut world.device, world.now, arrived(&frame), &mut actions);
    let works = std::mem::take(&mut actions);
    for action in works {
        match action {
            Action::Execute(work) if !world.is_slow => {
                let outcome = world.drive.execute(work.operation, &mut world.peers);
                world.connection.done(&mut world.device, world.now, work.job, outcome, &mut actions);
            }
            Action::Execute(work) => world.works.push(work),
            other => actions.push(other),
        }
    }
    actions.first().map(|action| {
        let Action::Send(frame) = action else { panic!("{action:?}") };
        let sealed = kinetic::Sealed::read(arrived(frame).message).unwrap();
        Status::read(sealed.open().unwrap().status.as_ref()).code
    })
}

fn sized(key: usize, version: usize, tag: usize, value: usize) -> Request {
    let mut put: Put = a_put("", "", "", "");
    put.key = Bytes::from(vec![b'k'; key]);
    put.metadata.version = Bytes::from(vec![b'v'; version]);
    put.metadata.tag = Bytes::from(vec![b't'; tag]);
    put.value = Bytes::from(vec![b'x'; value]);
    Request::Change(Change::Put(put))
}

#[test]
fn sizes() {
    let limits = Limits {
        key_bytes: Some(10),
        version_bytes: Some(20),
        tag_bytes: Some(30),
        value_bytes: Some(40),
        range_keys: Some(5),
        identities: Some(2),
        pin_bytes: Some(4),
        ..Limits::stated()
    };
    let acls = |count: i64| {
        let acl = |identity| Acl { identity: Identity(identity), ..Acl::factory() };
        Request::Security(SecurityChange::Acls((1..=count).map(acl).collect()))
    };
    let pin = |length| {
        let (old, new) = (Secret::default(), Secret::new(vec![b'1'; length]));
        Request::Security(SecurityChange::LockPin { old, new })
    };
    let keys = |length| Request::GetVersion { key: Bytes::from(vec![b'k'; length]) };
    for (what, at, beyond) in [
        ("key", sized(10, 1, 1, 1), sized(11, 1, 1, 1)),
        ("version", sized(1, 20, 1, 1), sized(1, 21, 1, 1)),
        ("tag", sized(1, 1, 30, 1), sized(1, 1, 31, 1)),
        ("value", sized(1, 1, 1, 40), sized(1, 1, 1, 41)),
        ("key that is asked for", keys(10), keys(11)),
        (
            "keys of a range",
            Request::GetKeyRange(range("a", "z", 5)),
            Request::GetKeyRange(range("a", "z", 6)),
        ),
        (
            "key of a range",
            Request::GetKeyRange(range("0123456789", "z", 5)),
            Request::GetKeyRange(range("01234567890", "z", 5)),
        ),
        ("identities", acls(2), acls(3)),
        ("PIN", pin(4), pin(5)),
    ] {
        let (is_taken, code) = both(limits, true, &at);
        assert!(is_taken && code != StatusCode::InvalidRequest, "{what}, at the limit: {is_taken} {code:?}");
        let (is_taken, code) = both(limits, true, &beyond);
        assert!(!is_taken && code == StatusCode::InvalidRequest, "{what}, beyond: {is_taken} {code:?}");
    }
}

#[test]
fn whole_values() {
    let value = VALUE_BYTES_MAX as usize;
    assert_eq!(both(Limits::stated(), false, &sized(1, 1, 1, value)), (true, StatusCode::Success));
    // Over the wire: what is beyond is read over, answered, and the connection goes on.
    let mut world = World::new();
    let frame = |world: &World, sequence, value: Bytes| {
        let header = wire::Header {
            cluster_version: Some(0),
            connection_id: Some(world.connection.id().0),
            sequence: Some(sequence),
            message_type: Some(kinetic::MessageType::Put.number()),
            ..wire::Header::default()
        };
        let (body, _) = put("k", "", "1", "").write();
        let command = wire::Command { header: Some(header), body, status: None };
        seal(Sender::Identity(Identity(1), &HmacKey::new(KEY)), &command, value).unwrap()
    };
    let mut reader = FrameReader::new(world.device.frame_limits());
    let mut buffer = BytesMut::new();
    let mut give = |world: &mut World, sent: &kinetic::OutFrame| {
        buffer.extend_from_slice(&sent.to_vec());
        match reader
            .next(&mut buffer)
            .map_err(|error| world.connection.broken(&mut world.device, error, &mut Vec::new()))
        {
            Ok(Progress::Frame(frame)) => world.deliver(frame),
            Ok(Progress::More(_)) => panic!("a whole frame"),
            Err(()) => {}
        }
    };
    let long = frame(&world, 1, Bytes::from(vec![0; value + 1]));
    give(&mut world, &long);
    assert!(!world.connection.is_closed() && world.works.is_empty());
    let good = frame(&world, 2, Bytes::from_static(b"value"));
    give(&mut world, &good);
    assert_eq!(world.works.len(), 1, "the next frame is read");
    let too_long = frame(&world, 3, Bytes::from(vec![0; VALUE_BYTES_SKIPPED_MAX as usize + 1]));
    give(&mut world, &too_long);
    assert!(world.connection.is_closed());
}

#[test]
fn whole_messages() {
    let mut world = World::new();
    let body = wire::Body {
        range: Some(wire::Range { keys: vec![Bytes::from(vec![0; 1 << 19]); 2], ..Default::default() }),
        ..Default::default()
    };
    let command = wire::Command { body: Some(body), ..Default::default() };
    assert!(seal(Sender::Device, &command, Bytes::new()).is_err(), "not even sent");
    let mut buffer = BytesMut::new();
    let header = kinetic::FrameHeader { message: MESSAGE_BYTES_MAX + 1, value: 0 };
    buffer.extend_from_slice(&header.encode());
    let error = FrameReader::new(world.device.frame_limits()).next(&mut buffer).unwrap_err();
    let mut actions = Vec::new();
    world.connection.broken(&mut world.device, error, &mut actions);
    assert!(matches!(actions.as_slice(), [Action::Send(_), Action::Close]));
    assert_eq!(world.device.connections(), 0);
}

#[test]
fn outstanding() {
    let limits = Limits { reads: Some(3), writes: Some(2), ..Limits::stated() };
    let mut world = World::limited(limits);
    world.is_slow = true;
    for number in 0..5 {
        world.submit(get("a"));
        world.submit(put(&format!("k{number}"), "", "1", ""));
    }
    world.settle();
    let (reads, writes): (Vec<_>, Vec<_>) =
        world.works.iter().partition(|work| matches!(work.operation, kinetic::server::Operation::Get { .. }));
    assert_eq!((reads.len(), writes.len()), (3, 2), "the client keeps within what the device states");
    world.is_slow = false;
    world.settle();
    assert_eq!(world.events.len(), 10, "and goes on when answers come");
    assert!(world.drive.count() == 5);

    // A client that does not care.
    let mut world = World::limited(limits);
    world.is_slow = true;
    for sequence in 1..=3 {
        assert_eq!(raw(&mut world, sequence, &get("a"), None), None, "under way");
    }
    assert_eq!(raw(&mut world, 4, &get("a"), None), Some(StatusCode::ServiceBusy));
    for sequence in 5..=6 {
        assert_eq!(raw(&mut world, sequence, &put("a", "", "1", ""), None), None, "under way");
    }
    assert_eq!(raw(&mut world, 7, &put("a", "", "1", ""), None), Some(StatusCode::ServiceBusy));
    world.work_at(0);
    assert_eq!(raw(&mut world, 8, &get("a"), None), None, "there is room again");
}

#[test]
fn one_change_of_the_state_at_a_time() {
    let mut world = World::new();
    world.is_slow = true;
    let change = Request::SetClusterVersion(kinetic::ClusterVersion(0));
    assert_eq!(raw(&mut world, 1, &change, None), None);
    assert_eq!(raw(&mut world, 2, &change, None), Some(StatusCode::ServiceBusy));
    world.work_at(0);
    assert_eq!(raw(&mut world, 3, &change, None), None);
}

#[test]
fn connections() {
    let limits = Limits { connections: Some(2), ..Limits::stated() };
    let mut device = kinetic::server::Device::new(crate::world::settings(limits), DeviceState::factory());
    let (mut one, _) = device.accept(false).unwrap();
    let (two, _) = device.accept(false).unwrap();
    assert_ne!(one.id(), two.id());
    let last_word = device.accept(false).unwrap_err();
    let mut client =
        kinetic::Client::new(kinetic::client::ClientSettings::new(Identity(1), KEY), base::Timestamp(0));
    client.received(base::Timestamp(0), arrived(&last_word));
    let Some(kinetic::client::Event::Ended(EndReason::Terminated(_))) = client.event() else { panic!() };
    one.closed(&mut device);
    one.closed(&mut device);
    assert_eq!(device.connections(), 1, "counted once");
    assert!(device.accept(false).is_ok());
}

fn batch_limits() -> Limits {
    Limits {
        batch_operations: Some(3),
        batch_deletes: Some(1),
        batch_bytes: Some(10),
        batches: Some(2),
        ..Limits::stated()
    }
}

#[test]
fn batches_at_the_client() {
    let mut world = World::limited(batch_limits());
    let one = world.begin();
    let two = world.begin();
    let third = world.client.begin_batch(world.now, Options::default());
    assert_eq!(third, Err(SubmitError::TooManyBatches(2)));
    let add = |world: &mut World, batch, change| world.client.add(batch, change);
    for (key, value) in [("a", "12345"), ("b", "12345")] {
        assert_eq!(add(&mut world, one, Change::Put(a_put(key, "", "1", value))), Ok(()));
    }
    let beyond = add(&mut world, one, Change::Put(a_put("c", "", "1", "1")));
    assert!(matches!(beyond, Err(SubmitError::TooLarge(excess)) if excess.what == "bytes of a batch"));
    assert_eq!(add(&mut world, one, Change::Delete(a_delete("a", "1"))), Ok(()));
    let beyond = add(&mut world, one, Change::Put(a_put("c", "", "1", "")));
    assert!(matches!(beyond, Err(SubmitError::TooLarge(excess)) if excess.what == "operations of a batch"));
    assert_eq!(add(&mut world, two, Change::Delete(a_delete("b", "1"))), Ok(()));
    let beyond = add(&mut world, two, Change::Delete(a_delete("b", "1")));
    assert!(matches!(beyond, Err(SubmitError::TooLarge(excess)) if excess.what == "deletes of a batch"));
    world.client.commit(world.now, one).unwrap();
    world.settle();
    assert_eq!(world.batch_outcome(one), Some(BatchOutcome::Committed(vec![0, 1, 2])));
    assert!(world.client.begin_batch(world.now, Options::default()).is_ok(), "there is room again");
}

#[test]
fn batches_at_the_device() {
    let start = Request::StartBatch;
    let end = |count| Request::EndBatch { count };
    let a_put = |value: &str| put("k", "", "1", value);
    let forced = || {
        let delete = kinetic::Delete { force: true, ..a_delete("k", "") };
        Request::Change(Change::Delete(delete))
    };
    let mut world = World::limited(batch_limits());
    assert_eq!(raw(&mut world, 1, &start, Some(1)), Some(StatusCode::Success));
    assert_eq!(raw(&mut world, 2, &start, Some(2)), Some(StatusCode::Success));
    assert_eq!(raw(&mut world, 3, &start, Some(3)), Some(StatusCode::ServiceBusy), "one too many");
    assert_eq!(raw(&mut world, 4, &a_put("1234567890"), Some(1)), None);
    assert_eq!(raw(&mut world, 5, &forced(), Some(1)), None);
    assert_eq!(raw(&mut world, 6, &forced(), Some(2)), None);
    assert_eq!(raw(&mut world, 7, &a_put(""), Some(1)), None);
    assert_eq!(raw(&mut world, 8, &end(3), Some(1)), Some(StatusCode::Success), "all at their limits");
    assert_eq!(raw(&mut world, 9, &start, Some(3)), Some(StatusCode::Success), "there is room again");

    for (what, beyond) in [
        ("operations", vec![a_put(""), forced(), a_put("1"), forced()]),
        ("bytes", vec![a_put("1234567890"), a_put("1")]),
        ("deletes", vec![forced(), forced()]),
    ] {
        let mut world = World::limited(batch_limits());
        assert_eq!(raw(&mut world, 1, &start, Some(1)), Some(StatusCode::Success));
        let last = beyond.len() - 1;
        for (place, request) in beyond.iter().enumerate() {
            let said = raw(&mut world, 2 + place as i64, request, Some(1));
            let expected = (place == last).then_some(StatusCode::InvalidBatch);
            assert_eq!(said, expected, "{what}: operation {place}");
        }
        assert!(world.connection.is_closed() && world.device.batches() == 0, "{what}");
    }
}

#[test]
fn an_answer_fits_into_a_message() {
    let limits = Limits { range_keys: Some(1000), ..Limits::stated() };
    let mut world = World::limited(limits);
    for number in 0..300 {
        let mut put = a_put("", "", "1", "");
        put.key = Bytes::from(format!("{number:04096}"));
        let status = world.status(Request::Change(Change::Put(put)));
        assert_eq!(status, StatusCode::Success);
    }
    let response = world.call(Request::GetKeyRange(range("", "~", 1000)));
    let kinetic::Answer::Keys(keys) = response.answer else { panic!("{:?}", response.status) };
    assert!((200..300).contains(&keys.len()), "{} keys: as many as fit", keys.len());
    let mut rest = range("", "~", 1000);
    rest.start = keys.last().unwrap().clone();
    rest.start_inclusive = false;
    let kinetic::Answer::Keys(others) = world.call(Request::GetKeyRange(rest)).answer else { panic!() };
    assert_eq!(keys.len() + others.len(), 300);
    assert_eq!(keys[0], bytes(&format!("{:04096}", 0)));
}
