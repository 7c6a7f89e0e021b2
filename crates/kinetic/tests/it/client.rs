//! What the client does with time, with order, and with devices that are not as they should be.

use base::Duration;
use bytes::Bytes;
use kinetic::client::{
    Client, ClientSettings, EndReason, Event, Fate, GREETING_WITHIN, OVERDUE_MAX, Options, REQUEST_WITHIN,
    SubmitError, Verdict, Why,
};
use kinetic::{
    Answer, FrameError, HmacKey, Identity, Limits, LogType, MessageType, OutFrame, Request, Sender, Status,
    StatusCode, seal, wire,
};

use crate::world::{KEY, Making, World, arrived, get, put};

fn answer(sequence: i64, change: impl FnOnce(&mut wire::Command)) -> wire::Command {
    let header = wire::Header {
        ack_sequence: Some(sequence),
        message_type: Some(MessageType::Noop.response_number()),
        ..wire::Header::default()
    };
    let status = Some(Status::success().write());
    let mut command = wire::Command { header: Some(header), body: None, status };
    change(&mut command);
    command
}

fn signed(command: &wire::Command) -> OutFrame {
    let key = HmacKey::new(KEY);
    seal(Sender::Identity(Identity(1), &key), command, Bytes::new()).unwrap()
}

/// A client that has asked for a NOOP, which nobody answers.
fn asked() -> World {
    let mut world = World::new();
    world.budget = 0;
    world.submit(Request::Noop);
    world.settle();
    world.lose_requests();
    world
}

#[test]
fn the_device_speaks_first() {
    let now = base::Timestamp(0);
    let mut client = Client::new(ClientSettings::new(Identity(1), KEY), now);
    let refused = client.submit(now, Request::Noop, Options::default());
    assert_eq!(refused, Err(SubmitError::NotGreeted));
    assert!(client.transmit(now).is_none());
    assert_eq!(client.deadline(), Some(now.plus(GREETING_WITHIN)));
    client.tick(now.plus(GREETING_WITHIN));
    assert_eq!(client.event(), Some(Event::Ended(EndReason::GreetingOverdue)));
    assert_eq!(client.submit(now, Request::Noop, Options::default()), Err(SubmitError::Ended));
    assert_eq!((client.event(), client.deadline()), (None, None));

    let mut client = Client::new(ClientSettings::new(Identity(1), KEY), now);
    let busy = wire::Command {
        status: Some(Status::new(StatusCode::ServiceBusy, "").write()),
        ..Default::default()
    };
    client.received(now, arrived(&seal(Sender::Device, &busy, Bytes::new()).unwrap()));
    assert!(matches!(client.event(), Some(Event::Ended(EndReason::NotGreeted(_)))));
}

#[test]
fn a_greeting_of_version_3() {
    // No power level, limits as −1.
    let now = base::Timestamp(0);
    let mut client = Client::new(ClientSettings::new(Identity(1), KEY), now);
    let limits =
        wire::Limits { max_key_size: Some(4096), max_tag_size: Some(u32::MAX), ..Default::default() };
    let log = wire::GetLog { limits: Some(limits), ..Default::default() };
    let header = wire::Header { connection_id: Some(-5), ..Default::default() };
    let command = wire::Command {
        header: Some(header),
        body: Some(wire::Body { get_log: Some(log), ..Default::default() }),
        status: Some(Status::success().write()),
    };
    client.received(now, arrived(&seal(Sender::Device, &command, Bytes::new()).unwrap()));
    let Some(Event::Greeted(greeting)) = client.event() else { panic!() };
    assert_eq!(greeting.connection.0, -5);
    assert_eq!(
        (greeting.limits.key_bytes, greeting.limits.tag_bytes, greeting.limits.reads),
        (Some(4096), None, None)
    );
    client.submit(now, Request::Noop, Options::default()).unwrap();
    let frame = client.transmit(now).unwrap();
    let sealed = kinetic::Sealed::read(arrived(&frame).message).unwrap();
    assert_eq!(sealed.open().unwrap().header.unwrap().connection_id, Some(-5));
}

#[test]
fn sequences_rise_and_answers_come_in_any_order() {
    let mut world = World::new();
    world.is_slow = true;
    let tickets: Vec<_> = (0..4).map(|number| world.submit(put(&format!("{number}"), "", "1", ""))).collect();
    world.settle();
    for place in [2, 0, 1, 0] {
        world.work_at(place);
    }
    world.settle();
    let answered: Vec<_> = world
        .events
        .iter()
        .map(|event| match event {
            Event::Answered { ticket, response } => (*ticket, response.status.code),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: Vec<_> = [2, 0, 3, 1].map(|place| (tickets[place], StatusCode::Success)).into();
    assert_eq!(answered, expected);
}

#[test]
fn a_full_queue_refuses() {
    let mut client = ClientSettings::new(Identity(1), KEY);
    client.queue_max = 3;
    let mut world = World::make(Making { client, ..Making::default() });
    for _ in 0..3 {
        world.submit(Request::Noop);
    }
    let refused = world.client.submit(world.now, Request::Noop, Options::default());
    assert_eq!(refused, Err(SubmitError::Full(3)));
    world.settle();
    assert_eq!(world.status(Request::Noop), StatusCode::Success);
}

#[test]
fn a_device_that_states_nothing_is_asked_all_the_same() {
    for limits in [Limits::default(), Limits { reads: Some(0), writes: Some(0), ..Limits::stated() }] {
        let mut making = Making { limits, ..Making::default() };
        making.client.window_max = 4;
        let mut world = World::make(making);
        world.is_slow = true;
        for _ in 0..10 {
            world.submit(get("a"));
        }
        let sent = std::iter::from_fn(|| world.client.transmit(world.now)).count();
        assert_eq!(sent, if limits.reads == Some(0) { 1 } else { 4 });
    }
}

#[test]
fn overdue_requests_have_an_outcome_and_keep_their_place() {
    let mut world = World::limited(Limits { writes: Some(1), ..Limits::stated() });
    world.is_slow = true;
    let sent = world.submit(put("a", "", "1", ""));
    let waiting = world.submit(put("b", "", "1", ""));
    world.settle();
    assert_eq!(world.client.deadline(), Some(world.now.plus(REQUEST_WITHIN)));
    world.pass(REQUEST_WITHIN - Duration::from_nanos(1));
    assert!(world.events.is_empty());
    world.pass(Duration::from_nanos(1));
    let fates: Vec<_> = world.events.drain(..).collect();
    let [
        Event::Unanswered { ticket: one, fate: Fate::Unknown(Some(question)), why: Why::Deadline },
        Event::Unanswered { ticket: two, fate: Fate::NotSent, why: Why::Deadline },
    ] = fates.as_slice()
    else {
        panic!("{fates:?}")
    };
    assert_eq!((*one, *two), (sent, waiting));
    let later = world.submit(put("c", "", "1", ""));
    world.settle();
    assert_eq!(world.works.len(), 1, "its place at the device is still taken");
    world.is_slow = false;
    world.settle();
    let Event::Late { ticket, response } = &world.events[0] else { panic!("{:?}", world.events) };
    assert!(*ticket == sent && response.status.is_success());
    assert!(world.answer(later).status.is_success());
    let response = world.call(question.request());
    assert_eq!(question.verdict(&response), Verdict::Applied);
    assert_eq!(world.status(get("b")), StatusCode::NotFound, "it was never sent");
}

#[test]
fn a_device_that_answers_nothing_is_left() {
    let mut world = World::new();
    world.is_slow = true;
    for _ in 0..OVERDUE_MAX {
        world.submit(get("a"));
    }
    world.settle();
    world.pass(REQUEST_WITHIN);
    assert_eq!(world.ended(), Some(&EndReason::Unresponsive(OVERDUE_MAX)));
    let repeatable = |event: &&Event| matches!(event, Event::Unanswered { fate: Fate::Repeatable, .. });
    assert_eq!(world.events.iter().filter(repeatable).count(), OVERDUE_MAX as usize);
    assert_eq!(world.events.len(), OVERDUE_MAX as usize + 1, "one outcome each");
}

#[test]
fn own_deadlines() {
    let mut world = World::new();
    world.is_slow = true;
    let options = Options { within: Some(Duration::from_millis(5)), ..Options::default() };
    world.client.submit(world.now, get("a"), options).unwrap();
    world.submit(get("b"));
    world.settle();
    world.pass(Duration::from_millis(5));
    assert_eq!(world.events.len(), 1);
}

#[test]
fn who_is_not_the_device_is_not_believed() {
    let wrong = HmacKey::new(b"wrong");
    let done = answer(1, |_| {});
    for (what, frame) in [
        ("a wrong key", seal(Sender::Identity(Identity(1), &wrong), &done, Bytes::new()).unwrap()),
        ("no key", seal(Sender::NoKey(Identity(1)), &done, Bytes::new()).unwrap()),
        ("another identity", {
            let key = HmacKey::new(KEY);
            seal(Sender::Identity(Identity(2), &key), &done, Bytes::new()).unwrap()
        }),
        ("a PIN", seal(Sender::Pin(None), &done, Bytes::new()).unwrap()),
    ] {
        let mut world = asked();
        world.inject(&frame);
        assert_eq!(world.ended(), Some(&EndReason::Unauthentic), "{what}");
        assert!(matches!(world.events[0], Event::Unanswered { .. }), "{what}");
    }
    // Nor is an unsolicited status an answer.
    let mut world = asked();
    world.inject(&seal(Sender::Device, &done, Bytes::new()).unwrap());
    assert!(matches!(world.events.as_slice(), [Event::Notice(_)]), "{:?}", world.events);
}

#[test]
fn answers_that_are_odd() {
    let mut world = asked();
    world.inject(&signed(&answer(1, |command| header(command).message_type = None)));
    assert!(matches!(world.events.as_slice(), [Event::Answered { .. }]), "a type need not be there");

    let mut world = asked();
    world.inject(&signed(&answer(1, |command| header(command).message_type = Some(1))));
    assert_eq!(world.ended(), Some(&EndReason::WrongType));

    let mut world = asked();
    world.inject(&signed(&answer(99, |_| {})));
    world.inject(&signed(&answer(1, |command| header(command).ack_sequence = None)));
    world.inject(&signed(&answer(1, |_| {})));
    world.inject(&signed(&answer(1, |_| {})));
    assert_eq!((world.events.len(), world.client.strays()), (1, 3), "each is taken once");

    let mut world = asked();
    let unknown = |command: &mut wire::Command| {
        command.status = Some(wire::Status { code: Some(99), ..Default::default() });
    };
    world.inject(&signed(&answer(1, unknown)));
    let Event::Answered { response, .. } = &world.events[0] else { panic!() };
    assert_eq!((response.status.code, response.status.number), (StatusCode::Invalid, 99));

    let mut world = asked();
    world.client.received(world.now, kinetic::Frame::new(Bytes::from_static(b"\xff"), Bytes::new()));
    world.settle();
    assert_eq!(world.ended(), Some(&EndReason::Malformed));

    let mut world = asked();
    world.client.broken(FrameError::Magic(0));
    world.settle();
    assert_eq!(world.ended(), Some(&EndReason::Frame(FrameError::Magic(0))));
}

fn header(command: &mut wire::Command) -> &mut wire::Header {
    command.header.as_mut().unwrap()
}

#[test]
fn logs_of_a_later_version() {
    let mut world = World::new();
    world.budget = 0;
    world.submit(Request::GetLog { types: vec![LogType::Statistics], device: None });
    world.settle();
    world.lose_requests();
    let later = answer(1, |command| {
        header(command).message_type = Some(MessageType::GetLog.response_number());
        let statistics = vec![
            wire::Statistics { message_type: Some(99), count: Some(1), ..Default::default() },
            wire::Statistics::default(),
        ];
        let configuration = wire::Configuration {
            current_power_level: Some(9),
            port: Some(-1),
            vendor: Some(Bytes::from_static(b"\xff")),
            ..Default::default()
        };
        let log = wire::GetLog {
            types: vec![4, 77],
            statistics,
            configuration: Some(configuration),
            ..Default::default()
        };
        command.body = Some(wire::Body { get_log: Some(log), ..Default::default() });
    });
    world.inject(&signed(&later));
    let Event::Answered { response, .. } = &world.events[0] else { panic!("{:?}", world.events) };
    let Answer::Log { log, .. } = &response.answer else { panic!() };
    assert_eq!((log.types.as_slice(), log.statistics.len()), (&[LogType::Statistics][..], 1));
    assert_eq!(log.statistics[0].request(), None);
    let configuration = log.configuration.as_ref().unwrap();
    assert_eq!((configuration.power_level, configuration.port), (None, None));
}

#[test]
fn another_number_for_the_connection() {
    let mut world = World::new();
    let header = wire::Header { connection_id: Some(4711), ..Default::default() };
    let status = Some(Status::success().write());
    let command = wire::Command { header: Some(header), body: None, status };
    world.inject(&seal(Sender::Device, &command, Bytes::new()).unwrap());
    world.submit(Request::Noop);
    let frame = world.client.transmit(world.now).unwrap();
    let sealed = kinetic::Sealed::read(arrived(&frame).message).unwrap();
    assert_eq!(sealed.open().unwrap().header.unwrap().connection_id, Some(4711));
}

#[test]
fn what_does_not_fit_into_a_message_is_not_sent() {
    let limits = Limits { key_bytes: Some(2 << 20), ..Limits::stated() };
    let mut world = World::limited(limits);
    let ticket = world.submit(Request::GetVersion { key: Bytes::from(vec![0; (1 << 20) + 1]) });
    world.settle();
    let told = Event::Unanswered { ticket, fate: Fate::NotSent, why: Why::TooLong };
    assert_eq!(world.events, [told]);
    world.events.clear();
    assert_eq!(world.status(Request::Noop), StatusCode::Success);
}

#[test]
fn the_end_comes_once_and_last() {
    let mut world = World::new();
    world.is_slow = true;
    world.submit(put("a", "", "1", ""));
    world.submit(get("a"));
    world.settle();
    world.submit(Request::Noop);
    world.client.close();
    world.client.lost();
    world.settle();
    let fates: Vec<_> = world
        .events
        .iter()
        .map(|event| match event {
            Event::Unanswered { fate, .. } => match fate {
                Fate::Unknown(_) => "unknown",
                Fate::Repeatable => "repeatable",
                Fate::NotSent => "not sent",
            },
            Event::Ended(EndReason::Closed) => "ended",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(fates, ["unknown", "repeatable", "not sent", "ended"]);
    assert_eq!(world.client.pending(), 0);
}

#[test]
fn the_last_word_of_a_device_is_the_reason() {
    let complaint = || {
        let status = Some(Status::new(StatusCode::InvalidRequest, "too many batches").write());
        let command = wire::Command { status, ..wire::Command::default() };
        seal(Sender::Device, &command, Bytes::new()).unwrap()
    };
    let mut world = asked();
    world.inject(&complaint());
    world.client.lost();
    world.settle();
    let Some(EndReason::Terminated(status)) = world.ended() else { panic!("{:?}", world.events) };
    assert_eq!(status.text, "too many batches");
    // Something else came after it: that was not the reason.
    let mut world = asked();
    world.inject(&complaint());
    world.inject(&signed(&answer(1, |_| {})));
    world.client.lost();
    world.settle();
    assert_eq!(world.ended(), Some(&EndReason::Lost));
}

#[test]
fn a_device_that_does_not_know_the_identity_may_say_next_to_nothing() {
    let mut world = asked();
    // authType HMACAUTH and no more, as Seagate's simulator has it.
    world.client.received(world.now, kinetic::Frame::new(Bytes::from_static(b"\x20\x01"), Bytes::new()));
    world.settle();
    assert!(matches!(world.ended(), Some(EndReason::KeyRefused(_))), "{:?}", world.ended());
}
