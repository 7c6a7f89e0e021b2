//! Clients that lie, stop, or never end: the target drops them, and serves the others meanwhile and
//! afterwards.

use std::time::{Duration, Instant};

use iscsi::initiator::Initiator;
use iscsi::login::{Message, Parameters};
use iscsi::pdu::{
    Command, Lun, NopOut, Pdu, Serial, Snack, Stage, Tag, TaskRequest, TaskResponse, TextRequest,
};
use iscsi::target::{Server, TargetConfig};
use iscsi::text::Keys;
use scsi::{Data, Transport};

use crate::raw::Raw;
use crate::unit::*;

/// A target with short limits.
fn start(change: impl FnOnce(&mut TargetConfig)) -> (std::sync::Arc<Ram>, Server) {
    serve(Ram::default(), |config| {
        // Long enough for a good client on a loaded machine.
        config.limits.login = Duration::from_secs(1);
        config.limits.pdu = Duration::from_secs(1);
        change(config);
    })
}

fn logged_in(server: &Server) -> Raw {
    let mut raw = Raw::connect(server.address());
    raw.log_in(&small(), false);
    raw
}

fn small() -> Parameters {
    Parameters { segment_max: 4096, burst_max: 8192, first_burst_max: 4096, ..Parameters::default() }
}

/// Everybody else is served, and nothing is left of who is gone.
fn is_well(server: &Server, name: &str) {
    let mut initiator = initiator(server, |_| {});
    round_trip(&mut initiator, 3000, 7);
    drop(initiator);
    let begun = Instant::now();
    while server.connections() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{name}: {} connections are left", server.connections());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!((server.sessions(), server.memory()), (0, 0), "{name}");
}

fn write(raw: &mut Raw, length: u32, tag: u32) -> Command {
    let cdb = record(WRITE_RECORD, length as usize, false);
    Command { write: true, expected_length: length, ..raw.next_command(cdb.bytes(), tag) }
}

fn read(raw: &mut Raw, length: u32, tag: u32) -> Command {
    let cdb = record(READ_RECORD, length as usize & 0xff_ffff, true);
    Command { read: true, expected_length: length, ..raw.next_command(cdb.bytes(), tag) }
}

#[test]
fn what_breaks_the_protocol_ends_the_session() {
    type Script = fn(&mut Raw);
    let scripts: [(&str, Script); 20] = [
        ("what a target sends", |raw| {
            let numbers = raw.numbers();
            raw.send(Pdu::TaskResponse(TaskResponse { response: 0, tag: Tag(1), numbers }), &[]);
        }),
        ("a second login", |raw| {
            let message = Message { stage: Stage::Security, transit: None, keys: Keys::new() };
            raw.send(Pdu::LoginRequest(Raw::login_request(&message)), &[]);
        }),
        ("unknown operation code", |raw| raw.bytes(&[0x3e; 48])),
        ("recovery", |raw| {
            let (lun, tag, target_tag) = (Lun::default(), Tag(1), Tag(1));
            let (expected_answer, first) = (Serial(0), Serial(0));
            raw.send(
                Pdu::Snack(Snack { kind: 0, lun, tag, target_tag, expected_answer, first, count: 0 }),
                &[],
            );
        }),
        ("a gap between commands", |raw| {
            raw.command = raw.command.plus(1);
            let command = raw.next_command(&[0; 6], 1);
            raw.send(Pdu::Command(command), &[]);
        }),
        ("a tag twice", |raw| {
            for _ in 0..2 {
                let command = write(raw, 100, 1);
                raw.send(Pdu::Command(command), &[]);
            }
        }),
        ("data with a read", |raw| {
            let command = read(raw, 100, 1);
            raw.send(Pdu::Command(command), &[1; 100]);
        }),
        ("more data than the command has", |raw| {
            let command = write(raw, 100, 1);
            raw.send(Pdu::Command(command), &[1; 101]);
        }),
        ("more data than may go with a command", |raw| {
            let command = write(raw, 10_000, 1);
            raw.send(Pdu::Command(command), &[1; 4097]);
        }),
        ("more data unasked than agreed", |raw| {
            let command = Command { last: false, ..write(raw, 10_000, 1) };
            raw.send(Pdu::Command(command), &[]);
            raw.send(Pdu::DataOut(Raw::data_out(1, Tag::NONE, 0, 0, true)), &[1; 4097]);
        }),
        ("unasked data that nobody announced", |raw| {
            let command = write(raw, 10_000, 1);
            raw.send(Pdu::Command(command), &[]);
            raw.send(Pdu::DataOut(Raw::data_out(1, Tag::NONE, 0, 0, true)), &[1; 100]);
        }),
        ("announced, but there is none", |raw| {
            let command = Command { last: false, ..write(raw, 100, 1) };
            raw.send(Pdu::Command(command), &[1; 100]);
        }),
        ("data with a gap", |raw| {
            let command = Command { last: false, ..write(raw, 10_000, 1) };
            raw.send(Pdu::Command(command), &[]);
            raw.send(Pdu::DataOut(Raw::data_out(1, Tag::NONE, 0, 1, true)), &[1; 100]);
        }),
        ("data out of order", |raw| {
            let command = Command { last: false, ..write(raw, 10_000, 1) };
            raw.send(Pdu::Command(command), &[]);
            raw.send(Pdu::DataOut(Raw::data_out(1, Tag::NONE, 1, 0, true)), &[1; 100]);
        }),
        ("data far behind the end", |raw| {
            let command = Command { last: false, ..write(raw, 10_000, 1) };
            raw.send(Pdu::Command(command), &[]);
            raw.send(Pdu::DataOut(Raw::data_out(1, Tag::NONE, 0, u32::MAX, true)), &[1; 100]);
        }),
        ("data without end", |raw| {
            let command = Command { last: false, ..write(raw, 10_000, 1) };
            raw.send(Pdu::Command(command), &[]);
            for number in 0..1000 {
                raw.send(Pdu::DataOut(Raw::data_out(1, Tag::NONE, number, 0, false)), &[]);
            }
        }),
        ("data under another tag than was asked", |raw| {
            let command = write(raw, 10_000, 1);
            raw.send(Pdu::Command(command), &[]);
            let Some((Pdu::ReadyToTransfer(asked), _)) = raw.read() else { panic!("not asked") };
            let tag = Tag(asked.target_tag.0 + 1);
            raw.send(Pdu::DataOut(Raw::data_out(1, tag, 0, 0, false)), &[1; 4096]);
        }),
        ("less data than was asked", |raw| {
            let command = write(raw, 10_000, 1);
            raw.send(Pdu::Command(command), &[]);
            let Some((Pdu::ReadyToTransfer(asked), _)) = raw.read() else { panic!("not asked") };
            raw.send(Pdu::DataOut(Raw::data_out(1, asked.target_tag, 0, 0, true)), &[1; 4096]);
        }),
        ("a segment that is too long", |raw| {
            let mut header = Pdu::Command(write(raw, 100, 1)).encode(0);
            header[5..8].fill(0xff);
            raw.bytes(&header);
        }),
        ("a huge ping", |raw| {
            let numbers = raw.sent();
            let (lun, tag, target_tag) = (Lun::default(), Tag(1), Tag::NONE);
            raw.send(Pdu::NopOut(NopOut { immediate: true, lun, tag, target_tag, numbers }), &[0; 70_000]);
        }),
    ];
    let (_ram, server) = start(|_| {});
    for (name, script) in scripts {
        let mut raw = logged_in(&server);
        script(&mut raw);
        assert!(raw.is_closed_by_peer(), "{name}");
        drop(raw);
        is_well(&server, name);
    }
}

#[test]
fn who_cuts_the_connection_anywhere_leaves_nothing() {
    let (_ram, server) = start(|_| {});
    // What is said after the login: a write with all kinds of data, a read, an abort, a ping.
    let mut raw = logged_in(&server);
    let mut bytes = Vec::new();
    let digests = raw.digests;
    let mut say = |pdu: Pdu, data: &[u8]| bytes.extend(pdu.whole(data, digests));
    let command = Command { last: false, ..write(&mut raw, 6000, 1) };
    say(Pdu::Command(command), &[1; 1000]);
    say(Pdu::DataOut(Raw::data_out(1, Tag::NONE, 0, 1000, true)), &[2; 3096]);
    let command = read(&mut raw, 6000, 2);
    say(Pdu::Command(command), &[]);
    let numbers = raw.sent();
    say(
        Pdu::NopOut(NopOut {
            immediate: true,
            lun: Lun::default(),
            tag: Tag(3),
            target_tag: Tag::NONE,
            numbers,
        }),
        b"hello",
    );
    drop(raw);
    for length in (0..bytes.len()).step_by(61).chain([48, 1047, 1048, 1096, bytes.len()]) {
        let mut raw = logged_in(&server);
        raw.bytes(&bytes[..length]);
    }
    is_well(&server, "cut after the login");
    let keys =
        b"InitiatorName=iqn.a:i\0SessionType=Normal\0TargetName=iqn.2026-01.org.kist:ram\0AuthMethod=None\0";
    let message = Message {
        stage: Stage::Security,
        transit: Some(Stage::Operational),
        keys: Keys::parse(keys).unwrap(),
    };
    let login = Pdu::LoginRequest(Raw::login_request(&message)).whole(keys, Default::default());
    for length in 0..login.len() {
        let mut raw = Raw::connect(server.address());
        raw.bytes(&login[..length]);
    }
    is_well(&server, "cut in the login");
}

#[test]
fn who_stops_is_dropped() {
    let (_ram, server) = start(|config| config.limits.idle = Duration::from_millis(100));
    let begun = Instant::now();
    let silent = Raw::connect(server.address());
    let mut half = Raw::connect(server.address());
    half.bytes(&[0x43; 30]);
    let mut in_login = Raw::connect(server.address());
    let mut keys = Keys::new();
    keys.push("InitiatorName", "iqn.a:slow");
    keys.push("SessionType", "Discovery");
    let message = Message { stage: Stage::Security, transit: None, keys };
    in_login.send(Pdu::LoginRequest(Raw::login_request(&message)), &message.keys.bytes());
    let after_login = logged_in(&server);
    let mut within_a_pdu = Raw::connect(server.address());
    within_a_pdu.log_in(&small(), true);
    within_a_pdu.bytes(&[0; 47]);
    for mut raw in [silent, half, in_login, after_login, within_a_pdu] {
        assert!(raw.is_closed_by_peer());
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    is_well(&server, "silent");
    // A login that goes on and on.
    let mut raw = Raw::connect(server.address());
    let message = Message { stage: Stage::Security, transit: None, keys: message.keys };
    for round in 0..200 {
        raw.send(Pdu::LoginRequest(Raw::login_request(&message)), &message.keys.bytes());
        if raw.read().is_none() {
            assert!(round > 10);
            break;
        }
        assert!(round < 100, "a login has an end");
    }
    is_well(&server, "endless login");
}

#[test]
fn who_takes_no_answers_is_dropped_and_what_is_kept_for_it_is_limited() {
    const MEMORY: usize = 8 << 20;
    let (_ram, server) = start(|config| config.limits.memory = MEMORY);
    let mut whole = initiator(&server, |_| {});
    round_trip(&mut whole, 1 << 20, 3);
    let mut raw = logged_in(&server);
    for tag in 0..200 {
        let command = read(&mut raw, 1 << 20, tag);
        raw.send(Pdu::Command(command), &[]);
        assert!(server.memory() <= MEMORY);
    }
    while server.sessions() > 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop((raw, whole));
    is_well(&server, "takes no answers");
}

#[test]
fn numbers_outside_of_the_window_are_left_alone() {
    let (_ram, server) = start(|_| {});
    let mut raw = logged_in(&server);
    for number in [0, 1000, u32::MAX] {
        let mut command = raw.next_command(&[0; 6], 7);
        command.numbers.command = Serial(number);
        raw.send(Pdu::Command(command), &[]);
    }
    raw.command = Serial(1);
    let command = raw.next_command(&[0; 6], 8);
    raw.send(Pdu::Command(command), &[]);
    let Some((Pdu::Response(response), _)) = raw.read() else { panic!("no response") };
    assert_eq!((response.tag, response.status), (Tag(8), 0));
    drop(raw);
    is_well(&server, "outside of the window");
}

#[test]
fn lengths_that_nobody_has_memory_for_are_refused_by_the_command() {
    let (_ram, server) = start(|_| {});
    let mut raw = logged_in(&server);
    for (tag, is_read) in [(1, true), (2, false)] {
        let command = if is_read { read(&mut raw, u32::MAX, tag) } else { write(&mut raw, u32::MAX, tag) };
        raw.send(Pdu::Command(command), &[]);
        let Some((Pdu::Response(response), sense)) = raw.read() else { panic!("no response") };
        assert_eq!((response.tag, response.status), (Tag(tag), 2));
        assert_eq!((sense[4], sense[14]), (5, 0x24));
    }
    assert_eq!(server.memory(), 0);
    // Both directions at once.
    let command = Command { write: true, ..read(&mut raw, 100, 3) };
    raw.send(Pdu::Command(command), &[]);
    let Some((Pdu::Response(response), _)) = raw.read() else { panic!("no response") };
    assert_eq!(response.status, 2);
    drop(raw);
    is_well(&server, "long");
}

#[test]
fn tasks_are_managed_in_order() {
    let (ram, server) = start(|_| {});
    let mut raw = logged_in(&server);
    let function = |raw: &mut Raw, function: u8, tag: u32, referenced: u32| {
        let (lun, numbers) = (Lun::default(), raw.sent());
        let (referenced, referenced_command) = (Tag(referenced), Serial(0));
        let expected_data = Serial(0);
        let request = TaskRequest {
            immediate: true,
            function,
            lun,
            tag: Tag(tag),
            referenced,
            numbers,
            referenced_command,
            expected_data,
        };
        raw.send(Pdu::TaskRequest(request), &[]);
    };
    let expect = |raw: &mut Raw, tag: u32, expected: u8| match raw.read() {
        Some((Pdu::TaskResponse(response), _)) => {
            assert_eq!((response.tag, response.response), (Tag(tag), expected));
        }
        other => panic!("{other:?}, not the response to {tag}"),
    };
    function(&mut raw, TaskRequest::ABORT_TASK, 100, 55);
    expect(&mut raw, 100, TaskResponse::NO_TASK);
    function(&mut raw, 7, 101, 0);
    expect(&mut raw, 101, TaskResponse::NOT_SUPPORTED);
    function(&mut raw, TaskRequest::TASK_REASSIGN, 102, 0);
    expect(&mut raw, 102, TaskResponse::NO_REASSIGN);

    // One whose data never comes, and one behind it that is whole.
    let command = write(&mut raw, 10_000, 1);
    raw.send(Pdu::Command(command), &[]);
    assert!(matches!(raw.read(), Some((Pdu::ReadyToTransfer(_), _))));
    let command = raw.next_command(&[0; 6], 2);
    raw.send(Pdu::Command(command), &[]);
    function(&mut raw, TaskRequest::ABORT_TASK, 103, 1);
    let mut seen = Vec::new();
    for _ in 0..2 {
        match raw.read() {
            Some((Pdu::TaskResponse(response), _)) => seen.push((response.tag, response.response)),
            Some((Pdu::Response(response), _)) => seen.push((response.tag, response.status)),
            other => panic!("{other:?}"),
        }
    }
    seen.sort();
    assert_eq!(seen, [(Tag(2), 0), (Tag(103), 0)]);
    // Its data may be on its way still.
    raw.send(Pdu::DataOut(Raw::data_out(1, Tag(0), 0, 0, true)), &[1; 100]);

    // One that runs and one that waits; a reset ends both, and then answers.
    for tag in [3, 4] {
        let command = raw.next_command(hold().bytes(), tag);
        raw.send(Pdu::Command(command), &[]);
    }
    ram.wait_for_held();
    function(&mut raw, TaskRequest::LUN_RESET, 104, 0);
    expect(&mut raw, 104, TaskResponse::COMPLETE);
    assert_eq!(ram.events()[1..], ["abort 0", "reset 0"]);
    assert_eq!(server.memory(), 0);
    drop(raw);
    is_well(&server, "task management");
}

#[test]
fn questions_of_a_discovery() {
    let (_ram, server) = start(|_| {});
    let mut raw = Raw::connect(server.address());
    raw.log_in(&small(), true);
    let mut ask = |text: &[u8], target_tag: Tag| {
        let (lun, numbers) = (Lun::default(), raw.sent());
        let request = TextRequest {
            immediate: true,
            last: true,
            goes_on: false,
            lun,
            tag: Tag(1),
            target_tag,
            numbers,
        };
        raw.send(Pdu::TextRequest(request), text);
        raw.read()
    };
    let answer = ask(b"X-thing=1\0SendTargets=iqn.other:one\0", Tag::NONE);
    let Some((Pdu::TextResponse(_), data)) = answer else { panic!("{answer:?}") };
    assert_eq!(data, b"X-thing=NotUnderstood\0");
    let answer = ask(b"", Tag(77));
    assert!(matches!(answer, Some((Pdu::Reject(_), _))), "goes on from what was not said: {answer:?}");
    // Commands are not for discoveries.
    let mut raw = Raw::connect(server.address());
    raw.log_in(&small(), true);
    let command = raw.next_command(&[0; 6], 1);
    raw.send(Pdu::Command(command), &[]);
    assert!(raw.is_closed_by_peer());
    drop(raw);
    is_well(&server, "discovery");
}

#[test]
fn logins_that_are_refused() {
    let (_ram, server) = start(|_| {});
    let names = "InitiatorName=iqn.a:i\0TargetName=iqn.2026-01.org.kist:ram\0";
    let ask = |change: &dyn Fn(&mut iscsi::pdu::LoginRequest), text: &[u8]| {
        let mut raw = Raw::connect(server.address());
        let message = Message { stage: Stage::Security, transit: None, keys: Keys::new() };
        let mut request = Raw::login_request(&message);
        change(&mut request);
        raw.send(Pdu::LoginRequest(request), text);
        match raw.read() {
            Some((Pdu::LoginResponse(response), _)) => Some(response.status),
            None => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&|_| {}, names.as_bytes()), Some(0));
    assert_eq!(ask(&|request| request.version_min = 1, names.as_bytes()), Some(0x0205));
    assert_eq!(ask(&|request| request.session = 9, names.as_bytes()), Some(0x020a));
    assert_eq!(ask(&|request| request.stage = Stage::FullFeature, names.as_bytes()), Some(0x0200));
    assert_eq!(ask(&|_| {}, b"no text\0"), Some(0x0200));
    assert_eq!(ask(&|_| {}, &[b'a'; 8193]), None, "more than a PDU may have before it is agreed");
    let unknown: String = (0..700).map(|number| format!("X-{number}=1\0")).collect();
    assert_eq!(ask(&|_| {}, format!("{names}{unknown}").as_bytes()), Some(0x0200));
    // Text that goes on for ever.
    let mut raw = Raw::connect(server.address());
    let message = Message { stage: Stage::Security, transit: None, keys: Keys::new() };
    let request = iscsi::pdu::LoginRequest { goes_on: true, ..Raw::login_request(&message) };
    let mut status = 0;
    for _ in 0..9 {
        raw.send(Pdu::LoginRequest(request), &[b'a'; 8192]);
        let Some((Pdu::LoginResponse(response), _)) = raw.read() else { panic!("no response") };
        status = response.status;
        if status != 0 {
            break;
        }
    }
    assert_eq!(status, 0x0200);
    drop(raw);
    is_well(&server, "refused");
}

#[test]
fn random_bytes_are_harmless() {
    let (_ram, server) = start(|config| {
        config.limits.pdu = Duration::from_millis(300);
        config.limits.idle = Duration::from_millis(300);
    });
    for seed in 1..150 {
        let (mut raw, is_in) = match seed % 4 {
            0 => (Raw::connect(server.address()), false),
            _ => (logged_in(&server), true),
        };
        let mut bytes = pattern(480, seed);
        if is_in {
            // PDUs of an initiator without data, every field random.
            for header in bytes.chunks_mut(48) {
                header[0] = (header[0] & 0x47).min(0x46);
                header[4..8].fill(0);
                if seed % 2 == 0 {
                    // Numbers that count, and few units and tags.
                    header[24..28].fill(0);
                    header[27] = 1;
                    header[0] |= 0x40;
                    header[8..16].fill(0);
                    header[16..19].fill(0);
                }
            }
        }
        raw.bytes(&bytes);
    }
    is_well(&server, "random");
    let mut initiator: Initiator = initiator(&server, |_| {});
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
}

#[test]
fn who_begins_writes_and_sends_no_data_leaves_memory_for_the_others() {
    let (_ram, server) = start(|config| {
        (config.limits.session_memory, config.limits.memory) = (1 << 20, 2 << 20);
    });
    let mut raw = logged_in(&server);
    let mut full = 0;
    for tag in 0..20 {
        let command = write(&mut raw, 100_000, tag);
        raw.send(Pdu::Command(command), &[]);
        match raw.read() {
            Some((Pdu::ReadyToTransfer(_), _)) => {}
            Some((Pdu::Response(response), _)) => full += u32::from(response.status == 0x28),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(full, 10, "of a MiB ten have room");
    let mut whole = initiator(&server, |_| {});
    round_trip(&mut whole, 1 << 19, 3);
    drop((raw, whole));
    is_well(&server, "sends no data");
}
