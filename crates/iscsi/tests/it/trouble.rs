//! Our initiator on our target when something takes too long, ends, or is full.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use iscsi::initiator::{Escalation, Initiator};
use iscsi::login::Name;
use iscsi::target::{Server, TargetConfig};
use scsi::{Data, Status, Transport, TransportFault};

use crate::unit::*;

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_command_without_an_answer_is_aborted_and_the_session_goes_on() {
    let (ram, server) = serve(Ram::default(), |_| {});
    let mut initiator = initiator(&server, |_| {});
    initiator.connect().unwrap();
    let mut into = [0; 100];
    let error = initiator.execute(&hold(), Data::In(&mut into), SHORT).unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::TimeOut, true), "{error}");
    assert!(error.what.contains("aborted"), "{error}");
    assert_eq!(ram.events()[1..], ["abort 0"]);
    assert_eq!(into, [0; 100], "nothing of it arrives");
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    let statistics = initiator.statistics();
    assert_eq!((statistics.logins, statistics.time_outs, statistics.task_functions), (1, 1, 1));
    assert_eq!((server.sessions(), server.memory()), (1, 0));
}

#[test]
fn a_unit_that_does_not_stop_costs_the_session_and_holds_up_the_next() {
    let (ram, server) = serve(Ram::stubborn(), |config| {
        config.limits.login = Duration::from_millis(500);
    });
    let mut initiator = initiator(&server, |config| {
        config.limits.abort = SHORT;
        config.escalation = Escalation::Target;
    });
    initiator.connect().unwrap();
    let begun = Instant::now();
    let error = initiator.execute(&hold(), Data::None, SHORT).unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::TimeOut, true), "{error}");
    assert!(error.what.contains("session was ended"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3));
    // The unit still works for the old session: a new one of the same name would not know of that.
    let error = initiator.execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert!(error.what.contains("0301"), "{error}");
    assert!(!error.may_be_done);
    ram.release();
    while server.sessions() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    assert_eq!(initiator.statistics().reconnects, 1);
}

#[test]
fn a_long_command_is_kept_alive_by_pings() {
    let (ram, server) = serve(Ram::default(), |_| {});
    let mut initiator = initiator(&server, |config| config.limits.ping_after = Duration::from_millis(20));
    let release = std::thread::spawn(move || {
        ram.wait_for_held();
        std::thread::sleep(Duration::from_millis(400));
        ram.release();
    });
    let mut into = [0; 10];
    assert_eq!(initiator.execute(&hold(), Data::In(&mut into), PATIENCE).unwrap(), good(10));
    assert_eq!(into, [b'h'; 10]);
    release.join().unwrap();
    assert!(initiator.statistics().pings_sent >= 2, "{:?}", initiator.statistics());
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    assert_eq!(initiator.statistics().logins, 1);
}

#[test]
fn a_stop_lets_what_runs_end_and_answers_it() {
    let (ram, server) = serve(Ram::default(), |_| {});
    let mut first = initiator(&server, |_| {});
    let mut idle = initiator(&server, |config| config.initiator = Name::new("iqn.a:idle").unwrap());
    idle.connect().unwrap();
    let running = std::thread::spawn(move || {
        let answer = first.execute(&hold(), Data::None, PATIENCE);
        (answer, first)
    });
    ram.wait_for_held();
    let units = ram.clone();
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        units.release();
    });
    assert!(server.stop());
    release.join().unwrap();
    let (answer, mut first) = running.join().unwrap();
    assert_eq!(answer.unwrap(), good(0));
    assert!(ram.events().iter().all(|event| !event.starts_with("abort")), "{:?}", ram.events());
    for initiator in [&mut first, &mut idle] {
        let error = initiator.execute(&ready(), Data::None, PATIENCE).unwrap_err();
        assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, false), "{error}");
    }
}

#[test]
fn after_a_restart_of_the_target_the_next_command_finds_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let units = std::sync::Arc::new(Ram::default());
    let server = Server::start(listener, units.clone(), TargetConfig::default()).unwrap();
    let mut initiator = initiator(&server, |_| {});
    round_trip(&mut initiator, 1000, 1);
    assert!(server.stop());
    let listener = TcpListener::bind(address).unwrap();
    let server = Server::start(listener, units, TargetConfig::default()).unwrap();
    round_trip(&mut initiator, 1000, 2);
    assert_eq!(initiator.statistics().reconnects, 1);
    drop((initiator, server));
}

#[test]
fn a_new_session_of_the_same_name_ends_the_old_one() {
    let (ram, server) = serve(Ram::default(), |_| {});
    let mut old = initiator(&server, |_| {});
    let mut config = settings(&server.address().to_string(), TARGET, 0);
    config.isid = iscsi::pdu::Isid([0x80, 1, 2, 3, 4, 5]);
    let mut first = Initiator::new(config.clone()).unwrap();
    let running = std::thread::spawn(move || first.execute(&hold(), Data::None, PATIENCE));
    ram.wait_for_held();
    let mut second = Initiator::new(config).unwrap();
    assert_eq!(second.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    let error = running.join().unwrap().unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, true), "{error}");
    let name = "iqn.2026-01.org.kist:test";
    let expected =
        [format!("begun {name}"), "abort 0".into(), format!("ended {name}"), format!("begun {name}")];
    assert_eq!(ram.events(), expected, "the new one begins when nothing of the old one runs any more");
    // Another ISID is another session.
    assert_eq!(old.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    assert_eq!(server.sessions(), 2);
}

#[test]
fn places_and_memory_have_an_end() {
    let (_ram, server) = serve(Ram::default(), |config| {
        config.limits.sessions = 2;
        config.limits.connections = 3;
        config.limits.memory = 8192;
        config.limits.transfer_max = 10_000;
    });
    let portal = server.address().to_string();
    let another = || Initiator::new(settings(&portal, TARGET, 0)).unwrap();
    let mut both = [another(), another()];
    for initiator in &mut both {
        round_trip(initiator, 4000, 1);
    }
    let error = another().execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert!(error.what.contains("0302") && !error.may_be_done, "{error}");
    let [first, _second] = &mut both;
    let full = first.execute(&record(WRITE_RECORD, 8193, false), Data::Out(&[1; 8193]), PATIENCE).unwrap();
    assert_eq!((full.status, full.transferred), (Status::TaskSetFull, 0));
    let mut into = [0; 8193];
    let full = first.execute(&record(READ_RECORD, 8193, true), Data::In(&mut into), PATIENCE).unwrap();
    assert_eq!(full.status, Status::TaskSetFull);
    let much =
        first.execute(&record(WRITE_RECORD, 10_001, false), Data::Out(&[1; 10_001]), PATIENCE).unwrap();
    assert_eq!(much, check(5, 0x24, 0));
    round_trip(first, 4000, 2);
    first.execute(&record(WRITE_RECORD, 8192, false), Data::Out(&[1; 8192]), PATIENCE).unwrap();
    comes_to_nothing(&server);
    // A third connection is one in its login; a fourth finds no place.
    let _third = std::net::TcpStream::connect(server.address()).unwrap();
    while server.connections() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut fourth = another();
    let error = fourth.execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, false), "{error}");
}

#[test]
fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut initiator = Initiator::new(settings(&address, TARGET, 0)).unwrap();
    let error = initiator.execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, false), "{error}");
    assert!(error.what.starts_with(&format!("iscsi://{address}/{TARGET}/0: ")), "{error}");
}

#[test]
fn a_unit_that_panics_costs_its_session_and_no_other() {
    let (_ram, server) = serve(Ram::default(), |_| {});
    let mut other = initiator(&server, |_| {});
    other.connect().unwrap();
    let mut initiator = initiator(&server, |_| {});
    let mut bytes = [0; 16];
    bytes[0] = PANIC;
    let error = initiator.execute(&cdb(&bytes), Data::None, PATIENCE).unwrap_err();
    assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, true), "{error}");
    for initiator in [&mut other, &mut initiator] {
        round_trip(initiator, 1000, 1);
    }
    assert_eq!(other.statistics().logins, 1);
}
