//! Faults by operation code, and what errors of the traits become.

use base::{BlockAddress, Partition, TapePosition};
use iscsi::target::{LogicalUnits, Nexus, NexusId};
use library::{Condition, DriveCommand, DriveName, TapeAlert};
use scsi::command::{PositionForm, Primary, Stream};
use scsi::position::PositionLong;
use scsi::{Data, Packed, Sense, SenseKey, Status, Transport, TransportFault};
use vtl::Fault;

use crate::common::*;

const WRITE: u8 = 0x0a;
const LOCATE: u8 = 0x92;

fn write() -> scsi::Command {
    Stream::Write6 { fixed: false, length: 3 }.into()
}

fn at(partition: Partition, block: u64) -> TapePosition {
    TapePosition { partition, block: BlockAddress(block) }
}

#[test]
fn a_command_meets_what_was_planned_for_it_and_the_fault_is_counted() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let faults = bench.target.faults();
    faults.plan_at(DRIVE, WRITE, 1, 2, Fault::Sense(Sense::new(SenseKey::MediumError, 0x0c, 0)));
    drive.write(&[1, 2, 3]);
    for _ in 0..2 {
        assert_eq!(code(&drive.fails(&write(), Data::Out(&[1, 2, 3]))), (3, 0x0c, 0));
    }
    drive.write(&[1, 2, 3]);
    assert_eq!((drive.place(), faults.fired()), ((0, 2, 0), 2));
    faults.plan(DRIVE, WRITE, Fault::ReservationConflict);
    assert_eq!(drive.send(&write(), Data::Out(&[1, 2, 3])).status, Status::ReservationConflict);
    faults.plan(2, WRITE, Fault::ReservationConflict);
    drive.write(&[1, 2, 3]);
    faults.clear();
    assert_eq!((drive.place(), faults.fired()), ((0, 3, 0), 3));
}

#[test]
fn an_answer_is_lost_before_or_after_the_command_was_carried_out() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let faults = bench.target.faults();
    for (fault, blocks) in [(Fault::NoAnswer, 0), (Fault::LostAnswer, 1)] {
        faults.plan(DRIVE, WRITE, fault.clone());
        let cdb = write().encode().unwrap();
        let error = drive.0.execute(&cdb, Data::Out(&[1, 2, 3]), PATIENCE).unwrap_err();
        assert_eq!((error.fault, error.may_be_done), (TransportFault::TimeOut, true));
        assert_eq!(drive.place(), (0, blocks, 0), "{fault:?}");
    }
    assert_eq!(faults.fired(), 2);
}

#[test]
fn a_reset_is_told_to_all_and_the_tape_stands_elsewhere() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let mut other = bench.host_of(DRIVE, "iqn.2026-01.org.kist:other");
    let faults = bench.target.faults();
    for (fault, blocks) in [(Fault::ResetBefore, 1), (Fault::ResetAfter, 2)] {
        drive.locate(0, 0);
        drive.write(&[1, 2, 3]);
        faults.plan(DRIVE, WRITE, fault.clone());
        drive.0.execute(&write().encode().unwrap(), Data::Out(&[1, 2, 3]), PATIENCE).unwrap_err();
        for host in [&mut drive, &mut other] {
            assert_eq!(code(&host.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x29, 0));
            assert_eq!(host.place(), (0, 0, 0));
        }
        drive.space(scsi::command::SpaceCode::EndOfData, 0).unwrap();
        assert_eq!(drive.place(), (0, blocks, 0), "{fault:?}");
    }
    assert_eq!(faults.fired(), 2);
}

#[test]
fn a_locate_that_says_good_may_stand_elsewhere() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    (0..5).for_each(|_| drive.write(&[1, 2, 3]));
    for (by, block) in [(1, 4), (-2, 1)] {
        bench.target.faults().plan(DRIVE, LOCATE, Fault::WrongPosition(by));
        assert_eq!(drive.locate(0, 3).status, Status::Good);
        assert_eq!(drive.place(), (0, block, 0));
    }
    assert_eq!(bench.target.faults().fired(), 2);
}

/// Through a session of the iSCSI target a command that is not answered is held until it is given up.
#[test]
fn a_command_without_an_answer_is_held_until_it_is_aborted() {
    let bench = Bench::new();
    bench.loaded();
    let nexus = Nexus {
        id: NexusId(1),
        initiator: iscsi::login::Name::new(INITIATOR).unwrap(),
        isid: iscsi::pdu::Isid([1; 6]),
        target: bench.target.options().target.clone(),
    };
    bench.target.begun(&nexus);
    let lun = iscsi::pdu::Lun::of(DRIVE).unwrap();
    let ready = Primary::TestUnitReady.into();
    let run = |command: &scsi::Command, out: &[u8]| {
        bench.target.execute(&nexus, lun, &command.encode().unwrap(), out, &mut [])
    };
    assert_eq!(run(&ready, &[]).status, Status::CheckCondition);
    bench.target.faults().plan(DRIVE, WRITE, Fault::LostAnswer);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run(&write(), &[1, 2, 3]);
            ended.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while bench.target.faults().held() == 0 {
            std::thread::yield_now();
        }
        assert!(!ended.load(std::sync::atomic::Ordering::SeqCst));
        bench.target.abort(&nexus, lun);
    });
    bench.target.ended(&nexus);
    assert_eq!(bench.host(DRIVE).place(), (0, 1, 0), "it was carried out");
}

#[test]
fn errors_of_the_drive_become_their_sense_data() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let (name, vid) = (DriveName::new("vdrive0").unwrap(), vid(VID));
    let faults = bench.library.faults();
    let ready = Primary::TestUnitReady.into();
    for (condition, expected) in [
        (Condition::Reset, (6, 0x29, 0)),
        (Condition::Busy, (2, 4, 1)),
        (Condition::Dirty, (4, 0, 0x17)),
        (Condition::Unreached, (4, 8, 1)),
        (Condition::HostFails, (0xb, 0x55, 3)),
    ] {
        faults.plan_condition(&name, DriveCommand::Write, condition, 1);
        let sense = drive.fails(&write(), Data::Out(&[1, 2, 3]));
        assert_eq!((code(&sense), sense.residual()), (expected, Some(3)), "{condition:?}");
    }
    faults.plan_condition(&name, DriveCommand::Write, Condition::Reserved, 1);
    assert_eq!(drive.send(&write(), Data::Out(&[1, 2, 3])).status, Status::ReservationConflict);
    drive.go(&ready, Data::None);

    // A block that cannot be read: the tape stays before it.
    (0..3).for_each(|_| drive.write(&[1, 2, 3]));
    faults.plan_unreadable(vid, at(Partition::Index, 1));
    drive.locate(0, 1);
    let (sense, _) = drive.read(3).unwrap_err();
    assert_eq!((code(&sense), sense.residual(), drive.place()), ((3, 0x11, 0), Some(3), (0, 1, 0)));

    // A position that is not known.
    faults.plan_lost_position(vid, at(Partition::Index, 1));
    let form = PositionForm::Long;
    let told = drive.ask(Stream::ReadPosition { form, allocation_length: 0 }, 32);
    let told = PositionLong::decode(&told).unwrap();
    assert!(told.unknown && told.file_unknown);
    faults.plan_lost_position(vid, at(Partition::Index, 1));
    assert_eq!(code(&drive.fails(&write(), Data::Out(&[1, 2, 3]))), (3, 0x3b, 0));

    // A write that failed, then a cartridge that takes no more until it was unloaded.
    drive.locate(0, 3);
    faults.plan_write_error_once(vid, at(Partition::Index, 3));
    assert_eq!(code(&drive.fails(&write(), Data::Out(&[1, 2, 3]))), (3, 0x0c, 0));
    assert_eq!(code(&drive.fails(&write(), Data::Out(&[1, 2, 3]))), (3, 0x50, 0));
    drive.go(&unload(), Data::None);
    drive.go(&load(), Data::None);
    drive.space(scsi::command::SpaceCode::EndOfData, 0).unwrap();
    drive.write(&[1, 2, 3]);
    faults.plan_no_space_once(vid, at(Partition::Index, 4));
    assert_eq!(code(&drive.fails(&write(), Data::Out(&[1, 2, 3]))), (0xb, 0x55, 3));

    // Flags are told once.
    faults.plan_alert(&name, TapeAlert::CLEAN_NOW);
    for flags in [vec![20], vec![]] {
        assert_eq!(drive.flags(), flags);
    }
    faults.plan_death(&name, DriveCommand::Read);
    assert_eq!(code(&drive.read(3).unwrap_err().0), (4, 0x44, 0));
    assert_eq!(code(&drive.fails(&unload(), Data::None)), (4, 0x44, 0));
}

#[test]
fn a_robot_that_jams_leaves_the_cartridge_where_it_was() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    let faults = bench.library.faults();
    faults.plan_jam(vid(VID));
    assert_eq!(code(&changer.fails(&move_medium(SLOT, BAY), Data::None)), (4, 0x15, 1));
    faults.plan_death(&DriveName::new("vdrive0").unwrap(), DriveCommand::Load);
    assert_eq!(code(&changer.fails(&move_medium(SLOT, BAY), Data::None)), (4, 0x44, 0));
    let shelf = changer.elements(scsi::command::ElementType::Storage);
    assert_eq!((shelf[0].volume(), faults.fired()), (Some(VID.into()), 2));
    changer.go(&move_medium(SLOT, BAY + 1), Data::None);
}

#[test]
fn a_cartridge_that_cannot_be_loaded_stays_in_its_slot() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    std::fs::write(bench.directory.path().join("cartridges/KT0001/cartridge.kist"), b"torn").unwrap();
    assert_eq!(code(&changer.fails(&move_medium(SLOT, BAY), Data::None)), (3, 0x53, 0));
    assert_eq!(changer.elements(scsi::command::ElementType::Storage)[0].volume(), Some(VID.into()));
}
