//! A target that lies, stops, or never ends: the initiator says what is wrong, in time, and whether the
//! command may have been carried out.

use std::time::{Duration, Instant};

use iscsi::initiator::{Escalation, Initiator, InitiatorConfig};
use iscsi::login::{DigestWish, Parameters};
use iscsi::pdu::{
    Answered, AsyncMessage, Command, DataIn, Lun, NopIn, Pdu, ReadyToTransfer, Reject, Residual, Response,
    Serial, Stage, Tag, TaskRequest, TaskResponse,
};
use scsi::{Data, Transport, TransportError, TransportFault};

use crate::raw::{Raw, target};
use crate::unit::*;

const LIMIT: Duration = Duration::from_millis(300);
/// The limit, each step of giving up, and a loaded machine.
const AT_MOST: Duration = Duration::from_secs(10);

fn config(portal: &str) -> InitiatorConfig {
    let mut config = settings(portal, TARGET, 0);
    config.limits.pdu = Duration::from_millis(200);
    config.limits.abort = Duration::from_millis(100);
    config
}

/// What a script answers to.
enum Kind {
    Read(usize),
    Write(usize),
}

fn run(initiator: &mut Initiator, kind: &Kind) -> Result<scsi::Completion, TransportError> {
    let begun = Instant::now();
    let result = match kind {
        Kind::Read(length) => {
            let mut into = vec![0; *length];
            initiator.execute(&record(READ_RECORD, *length, true), Data::In(&mut into), LIMIT)
        }
        Kind::Write(length) => {
            let bytes = pattern(*length, 1);
            initiator.execute(&record(WRITE_RECORD, *length, false), Data::Out(&bytes), LIMIT)
        }
    };
    assert!(begun.elapsed() < AT_MOST, "it took {:?}", begun.elapsed());
    result
}

/// Lets a script answer a command, which must fail in this way.
fn fails(
    name: &str,
    kind: Kind,
    fault: TransportFault,
    script: impl Fn(&mut Raw, &Command) + Send + Sync + 'static,
) {
    fails_with(name, kind, fault, |_| {}, script);
}

fn fails_with(
    name: &str,
    kind: Kind,
    fault: TransportFault,
    change: impl Fn(&mut InitiatorConfig),
    script: impl Fn(&mut Raw, &Command) + Send + Sync + 'static,
) {
    let portal = target(move |raw, number| {
        let parameters =
            Parameters { data_digest: DigestWish::Prefer, header_digest: DigestWish::Prefer, ..small() };
        raw.welcome(&parameters);
        let Some((command, _)) = raw.command() else { return };
        match number {
            0 => {
                script(raw, &command);
                // What comes then is no matter; the initiator ends it.
                raw.is_closed_by_peer();
            }
            // The session after it is as good as any.
            _ => {
                let numbers = raw.count();
                raw.send(response(&command, numbers), &[]);
                raw.command();
            }
        }
    });
    let mut config = config(&portal);
    change(&mut config);
    let mut initiator = Initiator::new(config).unwrap();
    // The limit is that of the command.
    initiator.connect().unwrap_or_else(|error| panic!("{name}: {error}"));
    let error = run(&mut initiator, &kind).expect_err(name);
    assert_eq!((error.fault, error.may_be_done), (fault, true), "{name}: {error}");
    let after = initiator.execute(&ready(), Data::None, PATIENCE);
    assert_eq!(after.unwrap_or_else(|error| panic!("{name}: {error}")), good(0), "{name}");
    assert_eq!(initiator.statistics().reconnects, 1, "{name}");
}

fn small() -> Parameters {
    Parameters { segment_max: 4096, burst_max: 8192, first_burst_max: 4096, ..Parameters::default() }
}

fn plain_response(tag: Tag, numbers: Answered) -> Response {
    Response { response: 0, status: 0, tag, numbers, data_count: Serial(0), residual: Residual::None }
}

fn response(command: &Command, numbers: Answered) -> Pdu {
    Pdu::Response(plain_response(command.tag, numbers))
}

fn data_in(tag: Tag, numbers: Answered, number: u32, offset: u32) -> DataIn {
    DataIn {
        last: true,
        acknowledge: false,
        end: None,
        lun: Lun::default(),
        tag,
        target_tag: Tag::NONE,
        numbers,
        number: Serial(number),
        offset,
    }
}

fn r2t(tag: Tag, numbers: Answered, number: u32, offset: u32, length: u32) -> Pdu {
    let lun = Lun::default();
    Pdu::ReadyToTransfer(ReadyToTransfer {
        lun,
        tag,
        target_tag: Tag(5),
        numbers,
        number: Serial(number),
        offset,
        length,
    })
}

#[test]
fn cut_connections_and_silence() {
    use TransportFault::{Path, TimeOut};
    fails("closed at once", Kind::Read(100), Path, |raw, _| {
        raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    fails("closed, half of a header", Kind::Read(100), Path, |raw, _| {
        raw.bytes(&[0x21; 20]);
        raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    fails("closed, half of the data", Kind::Read(100), Path, |raw, command| {
        let whole = Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)).whole(&[1; 100], raw.digests);
        raw.bytes(&whole[..80]);
        raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    fails("closed between data and status", Kind::Read(100), Path, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)), &[1; 100]);
        raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    fails("silent", Kind::Read(100), TimeOut, |_, _| {});
    fails("silent while data is to be taken", Kind::Write(8_000_000), TimeOut, |raw, command| {
        raw.send(r2t(command.tag, raw.numbers(), 0, 4096, 8192), &[]);
        std::thread::sleep(Duration::from_secs(1));
    });
    fails("half a header, then silent", Kind::Read(100), TimeOut, |raw, _| raw.bytes(&[0x21; 20]));
    fails("half of the data, then silent", Kind::Read(100), TimeOut, |raw, command| {
        let whole = Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)).whole(&[1; 100], raw.digests);
        raw.bytes(&whole[..80]);
    });
    fails("one byte now and then", Kind::Read(100), TimeOut, |raw, command| {
        let whole = response(command, raw.numbers()).whole(&[], raw.digests);
        for byte in &whole[..40] {
            raw.bytes(&[*byte]);
            std::thread::sleep(Duration::from_millis(15));
        }
    });
    fails("pings without end", Kind::Read(100), TimeOut, |raw, _| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            let numbers = raw.numbers();
            let ping = NopIn { lun: Lun::default(), tag: Tag::NONE, target_tag: Tag(1), numbers };
            raw.send(Pdu::NopIn(ping), &[]);
        }
    });
}

#[test]
fn a_target_that_is_gone_is_noticed_long_before_the_limit_of_the_command() {
    let portal = target(|raw, _| {
        raw.welcome(&small());
        raw.command();
        // Takes the ping and says nothing.
        raw.is_closed_by_peer();
    });
    let mut config = config(&portal);
    (config.limits.ping_after, config.limits.ping) = (Duration::from_millis(50), Duration::from_millis(50));
    let mut initiator = Initiator::new(config).unwrap();
    let begun = Instant::now();
    let error = initiator.execute(&ready(), Data::None, Duration::from_secs(3600)).unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, true), "{error}");
    assert!(begun.elapsed() < AT_MOST);
}

#[test]
fn answers_that_no_target_may_give() {
    use TransportFault::Protocol;
    fails("wrong number", Kind::Read(0), Protocol, |raw, command| {
        raw.answer = raw.answer.plus(1);
        let numbers = raw.count();
        raw.send(response(command, numbers), &[]);
    });
    fails("number repeated", Kind::Read(100), Protocol, |raw, command| {
        raw.answer = raw.answer.plus(u32::MAX);
        let numbers = raw.count();
        raw.send(response(command, numbers), &[]);
    });
    fails("answer to another task", Kind::Read(0), Protocol, |raw, command| {
        let numbers = raw.count();
        raw.send(Pdu::Response(plain_response(Tag(command.tag.0 + 1), numbers)), &[]);
    });
    fails("data of another task", Kind::Read(100), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(Tag(command.tag.0 + 1), raw.numbers(), 0, 0)), &[1; 100]);
    });
    fails("data behind the end", Kind::Read(100), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)), &[1; 101]);
    });
    fails("data far behind the end", Kind::Read(100), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, u32::MAX)), &[1; 100]);
    });
    fails("data with a gap", Kind::Read(100), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 1)), &[1; 99]);
    });
    fails("data twice", Kind::Read(200), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)), &[1; 100]);
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 1, 0)), &[1; 100]);
    });
    fails("data whose number is missing", Kind::Read(200), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 1, 0)), &[1; 100]);
    });
    fails("data for a write", Kind::Write(100), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)), &[1; 100]);
    });
    fails("good, but data is missing", Kind::Read(100), Protocol, |raw, command| {
        raw.send(Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)), &[1; 99]);
        let numbers = raw.count();
        raw.send(response(command, numbers), &[]);
    });
    fails("good, but not all was asked for", Kind::Write(10_000), Protocol, |raw, command| {
        let numbers = raw.count();
        raw.send(response(command, numbers), &[]);
    });
    fails("sense data longer than the data", Kind::Read(0), Protocol, |raw, command| {
        let numbers = raw.count();
        let pdu = Response { status: 2, ..plain_response(command.tag, numbers) };
        raw.send(Pdu::Response(pdu), &[0, 19, 0x70, 0, 5]);
    });
    fails("more data of an answer than is taken", Kind::Read(0), Protocol, |raw, command| {
        let numbers = raw.count();
        raw.send(response(command, numbers), &[0; 9000]);
    });
    fails("rejected", Kind::Read(0), Protocol, |raw, _| {
        let numbers = raw.count();
        raw.send(Pdu::Reject(Reject { reason: 4, numbers, number: Serial(0) }), &[0; 48]);
    });
    fails("a command", Kind::Read(0), Protocol, |raw, command| raw.send(Pdu::Command(*command), &[]));
    fails("unknown operation code", Kind::Read(0), Protocol, |raw, _| raw.bytes(&[0x3e; 48]));
    fails("a segment that is too long", Kind::Read(100), Protocol, |raw, command| {
        let mut header = Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)).encode(0);
        header[5..8].fill(0xff);
        raw.bytes(&header);
    });
}

#[test]
fn requests_for_data_that_no_target_may_make() {
    use TransportFault::Protocol;
    fails("for a read", Kind::Read(100), Protocol, |raw, command| {
        raw.send(r2t(command.tag, raw.numbers(), 0, 0, 100), &[]);
    });
    let wrong = [
        ("behind the end", 0, 4096, 8193),
        ("behind the end of all", 0, u32::MAX, 8192),
        ("nothing", 0, 4096, 0),
        ("more than a burst", 0, 4096, 8200),
        ("out of order", 1, 4096, 1000),
        ("again", 0, 0, 1000),
        ("with a gap", 0, 5000, 1000),
    ];
    for (name, number, offset, length) in wrong {
        fails(name, Kind::Write(20_000), Protocol, move |raw, command| {
            raw.send(r2t(command.tag, raw.numbers(), number, offset, length), &[]);
        });
    }
}

#[test]
fn failures_that_a_target_may_tell() {
    use TransportFault::Path;
    fails("failure within the target", Kind::Read(0), Path, |raw, command| {
        let numbers = raw.count();
        raw.send(Pdu::Response(Response { response: 1, ..plain_response(command.tag, numbers) }), &[]);
    });
    for event in [AsyncMessage::DROP_CONNECTION, AsyncMessage::DROP_SESSION] {
        fails("dropped", Kind::Read(0), Path, move |raw, _| {
            let numbers = raw.count();
            let message = AsyncMessage { lun: Lun::default(), numbers, event, vendor: 0, parameters: [0; 3] };
            raw.send(Pdu::AsyncMessage(message), &[]);
        });
    }
}

#[test]
fn checksums_are_looked_at() {
    let require = |config: &mut InitiatorConfig| {
        (config.parameters.data_digest, config.parameters.header_digest) =
            (DigestWish::Require, DigestWish::Require);
    };
    for at in [10, 48, 52, 151, 152, 155] {
        fails_with(
            "a flipped bit",
            Kind::Read(100),
            TransportFault::Protocol,
            require,
            move |raw, command| {
                let mut bytes =
                    Pdu::DataIn(data_in(command.tag, raw.numbers(), 0, 0)).whole(&[1; 100], raw.digests);
                assert_eq!(bytes.len(), 156);
                bytes[at] ^= 0x10;
                raw.bytes(&bytes);
                let numbers = raw.count();
                raw.send(response(command, numbers), &[]);
            },
        );
    }
}

#[test]
fn random_answers_are_harmless() {
    for seed in 1..60 {
        let portal = target(move |raw, _| {
            if seed % 3 > 0 {
                raw.welcome(&small());
                raw.command();
            }
            let mut bytes = pattern(300, seed);
            // Half of them begin with an operation code of a target.
            if seed % 2 == 0 {
                bytes[0] = 0x20 | bytes[0] & 0x17;
                bytes[4..7].fill(0);
            }
            raw.bytes(&bytes);
        });
        let mut initiator = Initiator::new(config(&portal)).unwrap();
        run(&mut initiator, &Kind::Read(100)).expect_err("no answer by chance");
    }
}

#[test]
fn messages_between_answers_are_counted_and_heeded() {
    let portal = target(|raw, number| {
        raw.welcome(&small());
        let Some((command, _)) = raw.command() else { return };
        let events = if number == 0 { [AsyncMessage::SCSI, 0xff, AsyncMessage::LOGOUT] } else { [0, 0, 0] };
        for event in events {
            let numbers = raw.count();
            let message = AsyncMessage { lun: Lun::default(), numbers, event, vendor: 0, parameters: [0; 3] };
            raw.send(Pdu::AsyncMessage(message), &[0, 0]);
        }
        let numbers = raw.count();
        raw.send(response(&command, numbers), &[]);
        let next = raw.read();
        if number == 0 {
            assert!(
                matches!(next, Some((Pdu::LogoutRequest(_), _))),
                "the target has asked for it: {next:?}"
            );
        }
    });
    let mut initiator = Initiator::new(config(&portal)).unwrap();
    for _ in 0..2 {
        assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    }
    let statistics = initiator.statistics();
    assert_eq!((statistics.logins, statistics.async_messages, statistics.unit_messages), (2, 6, 4));
}

/// How a target takes it that a command is given up: the response to each function in turn, and whether it
/// answers the command before the first.
fn gives_up(escalation: Escalation, responses: &'static [u8], answers: bool) -> (String, u64, Vec<u8>) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let theirs = seen.clone();
    let portal = target(move |raw, number| {
        raw.welcome(&small());
        let Some((command, _)) = raw.command() else { return };
        if number > 0 {
            let numbers = raw.count();
            raw.send(response(&command, numbers), &[]);
            raw.command();
            return;
        }
        for (step, response_code) in responses.iter().enumerate() {
            let Some((Pdu::TaskRequest(request), _)) = raw.read() else { return };
            theirs.lock().unwrap().push(request.function);
            if request.function == TaskRequest::ABORT_TASK {
                assert_eq!(
                    (request.referenced, request.referenced_command),
                    (command.tag, command.numbers.command)
                );
            }
            if answers && step == 0 {
                let numbers = raw.count();
                raw.send(response(&command, numbers), &[]);
            }
            let numbers = raw.count();
            let done = TaskResponse { response: *response_code, tag: request.tag, numbers };
            raw.send(Pdu::TaskResponse(done), &[]);
        }
        if let Some((command, _)) = raw.command() {
            let numbers = raw.count();
            raw.send(response(&command, numbers), &[]);
            raw.command();
        }
    });
    let mut config = config(&portal);
    config.escalation = escalation;
    config.limits.abort = Duration::from_secs(2);
    let mut initiator = Initiator::new(config).unwrap();
    initiator.connect().unwrap();
    let result = match initiator.execute(&ready(), Data::None, Duration::from_millis(50)) {
        Ok(completion) => format!("{completion:?}"),
        Err(error) => {
            assert_eq!((error.fault, error.may_be_done), (TransportFault::TimeOut, true), "{error}");
            error.what
        }
    };
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0), "the way goes on");
    let functions = seen.lock().unwrap().clone();
    (result, initiator.statistics().logins, functions)
}

#[test]
fn a_command_is_given_up_step_by_step_and_no_further_than_allowed() {
    use Escalation::{Target, Task, Unit};
    let (complete, none, refused) =
        (TaskResponse::COMPLETE, TaskResponse::NO_TASK, TaskResponse::NOT_SUPPORTED);
    assert_eq!((complete, none, refused), (0, 1, 5));
    let runs: [(_, &[u8], _, _, u64, &[u8]); 7] = [
        (Task, &[0], false, "the command was aborted", 1, &[1]),
        (Task, &[1], false, "the command was aborted", 1, &[1]),
        (Task, &[5], false, "the session was ended", 2, &[1]),
        (Unit, &[5, 0], false, "the unit was reset", 1, &[1, 5]),
        (Unit, &[5, 255], false, "the session was ended", 2, &[1, 5]),
        (Target, &[5, 255, 0], false, "the target was reset", 1, &[1, 5, 6]),
        (Target, &[1], true, "status: Good", 1, &[1]),
    ];
    for (escalation, responses, answers, words, logins, functions) in runs {
        let (result, logged_in, seen) = gives_up(escalation, responses, answers);
        let what = format!("{escalation:?} {responses:?}: {result}");
        assert!(result.contains(words), "{what}");
        assert_eq!((logged_in, &seen[..]), (logins, functions), "{what}");
    }
}

fn login_response(stage: Stage, transit: Option<Stage>, status: u16, isid: iscsi::pdu::Isid) -> Pdu {
    Pdu::LoginResponse(iscsi::pdu::LoginResponse {
        transit,
        goes_on: false,
        stage,
        version_max: 0,
        version: 0,
        isid,
        session: 1,
        tag: Tag(0),
        numbers: Answered::default(),
        status,
    })
}

/// A login that must fail, with nothing sent of the command.
fn no_login(name: &str, words: &str, script: impl Fn(&mut Raw, iscsi::pdu::Isid) + Send + Sync + 'static) {
    let portal = target(move |raw, _| {
        while let Some((Pdu::LoginRequest(request), _)) = raw.read() {
            script(raw, request.isid);
        }
    });
    let mut config = config(&portal);
    config.limits.login = Duration::from_millis(300);
    let mut initiator = Initiator::new(config).unwrap();
    let begun = Instant::now();
    let error = initiator.execute(&ready(), Data::None, PATIENCE).expect_err(name);
    assert!(!error.may_be_done, "{name}: {error}");
    assert!(error.what.contains(words), "{name}: {error}");
    assert!(begun.elapsed() < AT_MOST);
}

#[test]
fn who_cannot_connect_learns_what_to_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = Initiator::new(config(&portal)).unwrap().execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert!(error.what.contains(&portal) && error.what.contains("start the target"), "{error}");
    let nowhere = "no-such-host.invalid:3260";
    let error = Initiator::new(config(nowhere)).unwrap().execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert!(error.what.contains(nowhere) && error.what.contains("look at the name"), "{error}");
}

#[test]
fn logins_that_lead_nowhere() {
    use Stage::{FullFeature, Operational, Security};
    no_login("silent", "no answer in time", |_, _| {});
    no_login("closed", "see whether it is an iSCSI target", |raw, _| {
        raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    no_login("refused", "allow the initiator iqn.2026-01.org.kist:test there", |raw, isid| {
        raw.send(login_response(Security, None, 0x0202, isid), &[]);
    });
    no_login("unknown status", "FFFF", |raw, isid| {
        raw.send(login_response(Security, None, 0xffff, isid), &[]);
    });
    no_login("for ever", "does not end", |raw, isid| raw.send(login_response(Security, None, 0, isid), &[]));
    no_login("another stage", "stage", |raw, isid| raw.send(login_response(Operational, None, 0, isid), &[]));
    no_login("a stage too far", "stage", |raw, isid| {
        raw.send(login_response(Security, Some(FullFeature), 0, isid), &[]);
    });
    no_login("another ISID", "another", |raw, _| {
        raw.send(login_response(Security, Some(Operational), 0, iscsi::pdu::Isid([1; 6])), &[]);
    });
    no_login("wants a proof", "CHAP", |raw, isid| {
        raw.send(login_response(Security, None, 0, isid), b"AuthMethod=CHAP\0");
    });
    no_login("no text", "key=value", |raw, isid| {
        raw.send(login_response(Security, None, 0, isid), b"nothing\0");
    });
    no_login("text twice", "twice", |raw, isid| {
        raw.send(login_response(Security, None, 0, isid), b"A=1\0A=1\0");
    });
    no_login("a long text", "at most 8192", |raw, isid| {
        raw.send(login_response(Security, None, 0, isid), &[b'a'; 9000]);
    });
    no_login("text that goes on for ever", "too long", |raw, isid| {
        let Pdu::LoginResponse(response) = login_response(Security, None, 0, isid) else { unreachable!() };
        let response = iscsi::pdu::LoginResponse { goes_on: true, ..response };
        raw.send(Pdu::LoginResponse(response), &[b'a'; 8192]);
    });
    no_login("an answer of another kind", "something else", |raw, _| {
        let numbers = raw.numbers();
        raw.send(Pdu::Response(plain_response(Tag(0), numbers)), &[]);
    });
    no_login("impossible value", "MaxBurstLength=1", |raw, isid| {
        raw.send(login_response(Security, Some(Operational), 0, isid), &[]);
        raw.read();
        raw.send(login_response(Operational, Some(FullFeature), 0, isid), b"MaxBurstLength=1\0");
    });
    no_login("recovery that nobody offered", "ErrorRecoveryLevel=2", |raw, isid| {
        raw.send(login_response(Security, Some(Operational), 0, isid), &[]);
        raw.read();
        raw.send(login_response(Operational, Some(FullFeature), 0, isid), b"ErrorRecoveryLevel=2\0");
    });
    no_login("keys by the hundred", "unknown keys", |raw, isid| {
        raw.send(login_response(Security, Some(Operational), 0, isid), &[]);
        raw.read();
        let keys: String = (0..700).map(|number| format!("X-{number}=1\0")).collect();
        raw.send(login_response(Operational, None, 0, isid), keys.as_bytes());
    });
    no_login("moved to nowhere", "0101", |raw, isid| {
        raw.send(login_response(Security, None, 0x0101, isid), &[]);
    });
    no_login("moved for ever", "moved again", |raw, isid| {
        let here = format!("TargetAddress={},1\0", raw.stream.local_addr().unwrap());
        raw.send(login_response(Security, None, 0x0102, isid), here.as_bytes());
    });
}

#[test]
fn who_has_moved_is_found() {
    let (_ram, server) = serve(Ram::default(), |_| {});
    let to = server.address();
    let portal = target(move |raw, _| {
        let Some((Pdu::LoginRequest(request), _)) = raw.read() else { return };
        let there = format!("TargetAddress={to},1\0");
        raw.send(login_response(Stage::Security, None, 0x0101, request.isid), there.as_bytes());
    });
    let mut initiator = Initiator::new(config(&portal)).unwrap();
    round_trip(&mut initiator, 1000, 1);
}
