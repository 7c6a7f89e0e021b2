//! Our initiator on our target, over a socket.

use std::net::TcpListener;

use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::pdu::Lun;
use iscsi::target::{Server, TargetConfig};
use scsi::command::{Primary, Stream};
use scsi::{Command, Completion, Data, Sense, Status, Transport};
#[cfg(feature = "faults")]
use {scsi::TransportFault, vtl::Fault};

use crate::common::*;

fn serve(bench: &Bench) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, bench.target.clone(), TargetConfig::default()).unwrap()
}

fn unit(server: &Server, lun: u16) -> Initiator {
    let name = |text| Name::new(text).unwrap();
    let (initiator, target) = (name(INITIATOR), name("iqn.2026-01.org.kist:vtl"));
    let portal = server.address().to_string();
    let mut config = InitiatorConfig::new(&portal, initiator, target, Lun::of(lun).unwrap()).unwrap();
    config.limits.abort = PATIENCE;
    Initiator::new(config).unwrap()
}

fn send(unit: &mut Initiator, command: impl Into<Command>, data: Data<'_>) -> Completion {
    unit.execute(&command.into().encode().unwrap(), data, PATIENCE).unwrap()
}

/// Takes the unit attentions that wait, and tells them.
fn attentions(unit: &mut Initiator) -> Vec<(u8, u8, u8)> {
    let mut all = Vec::new();
    loop {
        let end = send(unit, Primary::TestUnitReady, Data::None);
        match Sense::decode(&end.sense) {
            Ok(sense) if sense.key == scsi::SenseKey::UnitAttention => all.push(code(&sense)),
            _ => return all,
        }
    }
}

fn write(length: u32) -> Stream {
    Stream::Write6 { fixed: false, length }
}

#[test]
fn a_tape_is_moved_written_and_read_over_a_socket() {
    let bench = Bench::new();
    let server = serve(&bench);
    let (mut changer, mut drive) = (unit(&server, CHANGER), unit(&server, DRIVE));
    assert_eq!(attentions(&mut changer), [(6, 0x29, 0)]);
    // The same initiator, and for each session another part of its name: another port.
    assert_eq!(attentions(&mut drive), [(6, 0x29, 0)]);
    assert_eq!(send(&mut changer, move_medium(SLOT, BAY), Data::None).status, Status::Good);
    assert_eq!(attentions(&mut drive), [(6, 0x28, 0)]);
    let lengths = [1usize, 100_001, 524_288, 4 << 20];
    for (seed, length) in (0..).zip(lengths) {
        let block = pattern(seed, length);
        assert_eq!(send(&mut drive, write(length as u32), Data::Out(&block)).transferred, length);
    }
    send(&mut drive, Stream::WriteFilemarks6 { immediate: false, count: 1 }, Data::None);
    send(&mut drive, Stream::Rewind { immediate: false }, Data::None);
    for (seed, length) in (0..).zip(lengths) {
        // With room for more: the residual is told by both, sense data and protocol.
        let mut into = vec![0; length + 10];
        let read = Stream::Read6 { suppress: false, fixed: false, length: length as u32 + 10 };
        let end = send(&mut drive, read, Data::In(&mut into));
        let sense = Sense::decode(&end.sense).unwrap();
        assert_eq!((sense.incorrect_length, sense.residual(), end.transferred), (true, Some(10), length));
        assert!(into[..length] == pattern(seed, length), "{length} other bytes");
    }
    let mut into = [0; 8];
    let read = Stream::Read6 { suppress: false, fixed: false, length: 8 };
    let end = send(&mut drive, read, Data::In(&mut into));
    assert!(Sense::decode(&end.sense).unwrap().filemark && end.transferred == 0);
    drive.reset_unit().unwrap();
    assert_eq!(attentions(&mut drive), [(6, 0x29, 0)]);
}

/// The initiator gives a command up that is not answered; what became of it is found out afterwards.
#[test]
#[cfg(feature = "faults")]
fn a_command_without_an_answer_is_given_up() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    let server = serve(&bench);
    let mut drive = unit(&server, DRIVE);
    attentions(&mut drive);
    for (fault, blocks) in [(Fault::NoAnswer, 0), (Fault::LostAnswer, 1)] {
        bench.target.faults().plan(DRIVE, 0x0a, fault.clone());
        let cdb = Command::from(write(3)).encode().unwrap();
        let error =
            drive.execute(&cdb, Data::Out(&[1, 2, 3]), std::time::Duration::from_millis(100)).unwrap_err();
        assert_eq!((error.fault, error.may_be_done), (TransportFault::TimeOut, true), "{error}");
        assert_eq!(attentions(&mut drive), [], "the session goes on");
        assert_eq!(host.place(), (0, blocks, 0), "{fault:?}");
    }
    assert_eq!((bench.target.faults().fired(), bench.target.faults().held()), (2, 0));
}
