//! Our initiator on our target, as it should be.

use std::sync::Arc;
use std::time::Duration;

use iscsi::initiator::{DiscoveredTarget, discover};
use iscsi::login::{Access, Account, DigestWish, Name, Parameters};
use iscsi::pdu::Lun;
use scsi::{Data, Status, Transport, TransportFault};

use crate::unit::*;

fn small(digest: (DigestWish, DigestWish), initial_r2t: bool, immediate_data: bool) -> Parameters {
    Parameters {
        header_digest: digest.0,
        data_digest: digest.1,
        segment_max: 1024,
        burst_max: 4096,
        first_burst_max: 2048,
        initial_r2t,
        immediate_data,
    }
}

/// Each length around each limit: what goes with the command, unasked, in one burst, in several.
const LENGTHS: [usize; 24] = [
    0, 1, 2, 3, 4, 5, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 3071, 3072, 3073, 4095, 4096, 4097,
    8191, 8193, 20_001,
];

#[test]
fn records_of_all_lengths_come_back_under_all_agreements() {
    use DigestWish::{Never, Require};
    for digest in [(Never, Never), (Require, Never), (Never, Require), (Require, Require)] {
        for (initial_r2t, immediate_data) in [(false, false), (false, true), (true, false), (true, true)] {
            // Each side in turn is the one that wants it so.
            for ours in [false, true] {
                let wishes = small(digest, initial_r2t, immediate_data);
                let (mut one, mut other) = (wishes, Parameters::default());
                (other.header_digest, other.data_digest) = (DigestWish::Prefer, DigestWish::Prefer);
                if ours {
                    std::mem::swap(&mut one, &mut other);
                }
                let (_ram, server) = serve(Ram::default(), |config| config.parameters = one);
                let mut initiator = initiator(&server, |config| config.parameters = other);
                for (seed, length) in LENGTHS.into_iter().enumerate() {
                    round_trip(&mut initiator, length, seed as u64 + 1);
                }
                let statistics = initiator.statistics();
                assert_eq!((statistics.logins, statistics.reconnects), (1, 0));
                comes_to_nothing(&server);
            }
        }
    }
}

#[test]
fn long_records_come_back() {
    for digest in [DigestWish::Never, DigestWish::Require] {
        let (_ram, server) =
            serve(Ram::default(), |config| config.parameters.data_digest = DigestWish::Prefer);
        let mut initiator = initiator(&server, |config| config.parameters.data_digest = digest);
        let most = initiator.transfer_max();
        for length in [512 * 1024 - 1, 512 * 1024, 512 * 1024 + 1, (1 << 20) + 1, (2 << 20) + 1, most - 100] {
            round_trip(&mut initiator, length, length as u64);
        }
        let statistics = initiator.statistics();
        assert_eq!(statistics.commands, 6 * 4);
        assert!(statistics.bytes_out > most as u64 && statistics.bytes_in > statistics.bytes_out);
        let mut much = vec![0; most + 1];
        let error = initiator.execute(&ready(), Data::In(&mut much), PATIENCE).unwrap_err();
        assert_eq!((error.fault, error.may_be_done), (TransportFault::Host, false), "{error}");
    }
}

#[test]
fn sense_data_comes_with_what_was_transferred() {
    let (_ram, server) = serve(Ram::default(), |_| {});
    let mut initiator = initiator(&server, |_| {});
    let unknown = initiator.execute(&cdb(&[0x1f, 0, 0, 0, 0, 0]), Data::None, PATIENCE).unwrap();
    assert_eq!(unknown, check(5, 0x20, 0));
    let bytes = pattern(5000, 1);
    initiator.execute(&record(WRITE_RECORD, 5000, false), Data::Out(&bytes), PATIENCE).unwrap();
    let mut into = vec![0; 6000];
    let short = initiator.execute(&record(READ_RECORD, 6000, false), Data::In(&mut into), PATIENCE).unwrap();
    assert_eq!((short.status, short.sense[2], short.transferred), (Status::CheckCondition, 0x20, 5000));
    assert!(into[..5000] == bytes[..]);
}

#[test]
fn units_are_told_of_sessions_and_know_them_apart() {
    let (ram, server) = serve(Ram::attending(), |_| {});
    let mut first = initiator(&server, |_| {});
    let mut second = initiator(&server, |config| config.initiator = Name::new("iqn.a:second").unwrap());
    for initiator in [&mut first, &mut second] {
        let ready_now = initiator.execute(&ready(), Data::None, PATIENCE).unwrap();
        assert_eq!(ready_now.sense[12], 0x29, "each session has its own unit attention");
        assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    }
    assert_eq!(server.sessions(), 2);
    drop((first, second));
    assert!(server.stop());
    let events = ram.events();
    let expected = [
        "begun iqn.2026-01.org.kist:test",
        "begun iqn.a:second",
        "ended iqn.2026-01.org.kist:test",
        "ended iqn.a:second",
    ];
    for event in expected {
        assert!(events.iter().any(|known| known == event), "{event} in {events:?}");
    }
    assert_eq!(events.len(), 4);
}

#[test]
fn other_units_and_none() {
    let (_ram, server) = serve(Ram::default(), |_| {});
    let mut other = initiator(&server, |config| config.lun = Lun::of(300).unwrap());
    assert_eq!(other.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    let mut none = initiator(&server, |config| config.lun = Lun::of(7).unwrap());
    assert_eq!(none.execute(&ready(), Data::None, PATIENCE).unwrap(), check(5, 0x25, 0));
    let mut into = [0; 96];
    let inquiry = none.execute(&cdb(&[0x12, 0, 0, 0, 96, 0]), Data::In(&mut into), PATIENCE).unwrap();
    assert_eq!((inquiry, into[0]), (good(36), 0x7f));
    let sent = none.execute(&record(WRITE_RECORD, 5000, false), Data::Out(&[1; 5000]), PATIENCE).unwrap();
    assert_eq!(sent, check(5, 0x25, 0));
    let luns = cdb(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0]);
    let listed = other.execute(&luns, Data::In(&mut into), PATIENCE).unwrap();
    assert_eq!((listed, into[3]), (good(24), 16));
    assert_eq!(other.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0), "the session goes on");
}

fn account(name: &str, secret: &str) -> Account {
    Account::new(name, secret).unwrap()
}

#[test]
fn only_who_proves_it_gets_in() {
    let (user, own) = (account("user", "secret of the user"), account("ram", "secret of the target"));
    let access = Access::Chap { accounts: vec![user.clone()], own: Some(own.clone()) };
    let (_ram, server) = serve(Ram::default(), |config| config.access = access);
    let wrong = account("user", "secret of another");
    let runs = [
        (Some(&user), None, None),
        (Some(&user), Some(&own), None),
        (None, None, Some("0201")),
        (Some(&wrong), None, Some("0201")),
        (Some(&user), Some(&wrong), Some("could not prove")),
    ];
    for (ours, theirs, failure) in runs {
        let mut initiator = initiator(&server, |config| {
            (config.account, config.target_account) = (ours.cloned(), theirs.cloned());
        });
        match (initiator.execute(&ready(), Data::None, PATIENCE), failure) {
            (Ok(completion), None) => assert_eq!(completion, good(0)),
            (Err(error), Some(words)) => {
                assert!(error.what.contains(words), "{error}");
                assert!(
                    !error.what.contains("secret of the") && !error.what.contains("secret of another"),
                    "{error}"
                );
                assert_eq!((error.fault, error.may_be_done), (TransportFault::Host, false));
            }
            (result, _) => panic!("{result:?}, but {failure:?}"),
        }
    }
    let mut config = settings(&server.address().to_string(), TARGET, 0);
    (config.account, config.target_account) =
        (Some(user.clone()), Some(account("ram", "secret of the user")));
    assert!(iscsi::initiator::Initiator::new(config).is_err(), "the same secret for both directions");
    // An account on this side only: the target does not ask for it, and this side does not go on without.
    let (_ram, server) = serve(Ram::default(), |_| {});
    let mut initiator = initiator(&server, |config| config.account = Some(user));
    assert!(initiator.execute(&ready(), Data::None, PATIENCE).is_err());
}

#[test]
fn a_portal_tells_its_targets() {
    let (_ram, server) = serve(Ram::default(), |_| {});
    let config = settings(&server.address().to_string(), "iqn.any:thing", 0);
    let target = DiscoveredTarget {
        name: Name::new(TARGET).unwrap(),
        addresses: vec![format!("{},1", server.address())],
    };
    assert_eq!(discover(&config).unwrap(), [target]);
    assert_eq!(server.sessions(), 0);
}

struct Many;

impl iscsi::target::LogicalUnits for Many {
    fn targets(&self) -> Vec<Name> {
        (0..400).map(|number| Name::new(&format!("{TARGET}.{number:04}")).unwrap()).collect()
    }

    fn luns(&self, _target: &Name) -> Vec<Lun> {
        Vec::new()
    }

    fn execute(
        &self,
        _: &iscsi::target::Nexus,
        _: Lun,
        _: &scsi::Cdb,
        _: &[u8],
        _: &mut [u8],
    ) -> scsi::Completion {
        good(0)
    }
}

#[test]
fn a_long_list_of_targets_comes_in_parts() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = iscsi::target::Server::start(listener, Arc::new(Many), Default::default()).unwrap();
    let config = settings(&server.address().to_string(), "iqn.any:thing", 0);
    let found = discover(&config).unwrap();
    let names: Vec<Name> = found.into_iter().map(|target| target.name).collect();
    assert_eq!(names, iscsi::target::LogicalUnits::targets(&Many));
}

#[test]
fn who_is_quiet_is_pinged_and_answers() {
    let (_ram, server) = serve(Ram::default(), |config| config.limits.idle = Duration::from_millis(150));
    let mut initiator = initiator(&server, |_| {});
    initiator.connect().unwrap();
    // Within twice the time after which a quiet client is dropped.
    std::thread::sleep(Duration::from_millis(220));
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    let statistics = initiator.statistics();
    if statistics.logins == 1 {
        assert_eq!(statistics.pings_answered, 1);
    }
    // Who does not answer is dropped, and comes back with the next command.
    let logins = statistics.logins;
    while server.sessions() > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
    assert_eq!(initiator.statistics().logins, logins + 1);
    initiator.keep_alive().unwrap();
    assert_eq!(initiator.statistics().pings_sent, 1);
}

#[test]
fn units_and_targets_are_reset_on_request() {
    let (ram, server) = serve(Ram::default(), |_| {});
    let mut initiator = initiator(&server, |_| {});
    initiator.reset_unit().unwrap();
    initiator.reset_target().unwrap();
    assert_eq!(ram.events()[1..], ["reset 0", "reset 0", "reset 300"]);
    assert_eq!(initiator.statistics().task_functions, 2);
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
}
