//! Where the tape goes and what is said on the way.

use scsi::command::{Destination, PositionForm, SpaceCode, Stream};
use scsi::position::{PositionExtended, PositionShort};
use scsi::{Data, Packed, Sense, Status};

use crate::common::*;

/// Records and filemarks of partition 1: R R F R F F R, then the end of data.
const LAID: [bool; 7] = [true, true, false, true, false, false, true];

fn laid(bench: &Bench) -> Host {
    let mut drive = bench.loaded();
    drive.locate(1, 0);
    for (seed, is_record) in (0..).zip(LAID) {
        if is_record { drive.write(&pattern(seed, 100)) } else { drive.marks(1) }
    }
    drive
}

fn told(sense: &Sense) -> ((u8, u8, u8), i64, bool, bool) {
    (code(sense), sense.residual().unwrap(), sense.filemark, sense.end_of_medium)
}

/// Each step of SPACE is looked at twice: with all known of the tape, and nothing (after a new load).
fn each(check: impl Fn(&mut Host)) {
    let bench = Bench::new();
    let mut drive = laid(&bench);
    check(&mut drive);
    drive.go(&unload(), Data::None);
    drive.go(&load(), Data::None);
    check(&mut drive);
}

#[test]
fn space_over_blocks_stops_at_filemarks_and_ends() {
    each(|drive| {
        drive.locate(1, 0);
        assert_eq!(drive.space(SpaceCode::Blocks, 2), Ok(()));
        assert_eq!(drive.place(), (1, 2, 0));
        // Behind the filemark on the way forward.
        let sense = drive.space(SpaceCode::Blocks, 5).unwrap_err();
        assert_eq!((told(&sense), drive.place()), (((0, 0, 1), 5, true, false), (1, 3, 1)));
        // Before it on the way back.
        let sense = drive.space(SpaceCode::Blocks, -3).unwrap_err();
        assert_eq!((told(&sense), drive.place()), (((0, 0, 1), -3, true, false), (1, 2, 0)));
        let sense = drive.space(SpaceCode::Blocks, -9).unwrap_err();
        assert_eq!((told(&sense), drive.place()), (((0, 0, 4), -7, false, true), (1, 0, 0)));
        drive.locate(1, 6);
        let sense = drive.space(SpaceCode::Blocks, 4).unwrap_err();
        assert_eq!((told(&sense), drive.place()), (((8, 0, 5), 3, false, false), (1, 7, 3)));
        assert_eq!(drive.space(SpaceCode::Blocks, 0), Ok(()));
        assert_eq!(drive.place(), (1, 7, 3));
    });
}

#[test]
fn space_over_filemarks_goes_behind_them_or_before() {
    each(|drive| {
        drive.locate(1, 0);
        assert_eq!(drive.space(SpaceCode::Filemarks, 2), Ok(()));
        assert_eq!(drive.place(), (1, 5, 2));
        assert_eq!(drive.space(SpaceCode::Filemarks, -1), Ok(()));
        assert_eq!(drive.place(), (1, 4, 1));
        let sense = drive.space(SpaceCode::Filemarks, 5).unwrap_err();
        assert_eq!((told(&sense), drive.place()), (((8, 0, 5), 3, false, false), (1, 7, 3)));
        assert_eq!(drive.space(SpaceCode::Filemarks, -3), Ok(()));
        assert_eq!(drive.place(), (1, 2, 0));
        let sense = drive.space(SpaceCode::Filemarks, -2).unwrap_err();
        assert_eq!((told(&sense), drive.place()), (((0, 0, 4), -2, false, true), (1, 0, 0)));
        assert_eq!(drive.space(SpaceCode::EndOfData, 0), Ok(()));
        assert_eq!(drive.place(), (1, 7, 3));
        let sense = drive.space(SpaceCode::SequentialFilemarks, 1).unwrap_err();
        assert_eq!((code(&sense), drive.place()), ((5, 0x24, 0), (1, 7, 3)));
    });
}

fn locate(destination: Destination, partition: Option<u8>, object: u64) -> scsi::Command {
    let change_partition = partition.is_some();
    let partition = partition.unwrap_or(0);
    Stream::Locate16 { destination, change_partition, immediate: false, explicit: false, partition, object }
        .into()
}

#[test]
fn locate_goes_to_blocks_files_and_the_end_of_data() {
    each(|drive| {
        drive.go(&locate(Destination::File, Some(1), 2), Data::None);
        assert_eq!(drive.place(), (1, 5, 2));
        drive.go(&locate(Destination::File, None, 0), Data::None);
        assert_eq!(drive.place(), (1, 0, 0));
        drive.go(&locate(Destination::EndOfData, None, 0), Data::None);
        assert_eq!(drive.place(), (1, 7, 3));
        drive.go(&locate(Destination::Object, Some(0), 0), Data::None);
        assert_eq!(drive.place(), (0, 0, 0));
        // Behind the end of data the tape stops there.
        for command in [locate(Destination::Object, Some(1), 8), locate(Destination::File, Some(1), 4)] {
            drive.locate(0, 0);
            assert_eq!(code(&drive.fails(&command, Data::None)), (8, 0, 5));
            assert_eq!(drive.place(), (1, 7, 3));
        }
        let sense = drive.fails(&locate(Destination::Object, Some(2), 0), Data::None);
        assert_eq!((code(&sense), drive.place()), ((5, 0x24, 0), (1, 7, 3)));
        let ten = |object, partition| {
            let (vendor_address, change_partition, immediate) = (false, true, false);
            Stream::Locate10 { vendor_address, change_partition, immediate, object, partition }.into()
        };
        drive.go(&ten(3, 1), Data::None);
        assert_eq!(drive.place(), (1, 3, 1));
        assert_eq!(code(&drive.fails(&ten(0, 3), Data::None)), (5, 0x24, 0));
        drive.go(&Stream::Rewind { immediate: false }.into(), Data::None);
        assert_eq!(drive.place(), (1, 0, 0), "to the begin of the partition");
    });
}

#[test]
fn the_position_is_the_same_in_all_forms() {
    let bench = Bench::new();
    let mut drive = laid(&bench);
    drive.locate(1, 4);
    let form = |form, allocation_length| Stream::ReadPosition { form, allocation_length };
    let short = PositionShort::decode(&drive.ask(form(PositionForm::Short, 0), 20)).unwrap();
    assert_eq!((short.partition, short.first, short.last, short.unknown), (1, 4, 4, false));
    let long = PositionExtended::decode(&drive.ask(form(PositionForm::Extended, 32), 32)).unwrap();
    assert_eq!((long.partition, long.first, long.begin), (1, 4, false));
    drive.locate(1, 0);
    assert!(drive.position().begin && !drive.position().end);
    let vendor = form(PositionForm::ShortVendor, 0).into();
    assert_eq!(code(&drive.fails(&vendor, Data::In(&mut [0; 20]))), (5, 0x24, 0));
}

#[test]
fn without_a_cartridge_nothing_moves() {
    let bench = Bench::new();
    let mut drive = bench.host(DRIVE);
    for command in [
        Stream::Rewind { immediate: false }.into(),
        locate(Destination::Object, Some(0), 0),
        locate(Destination::EndOfData, None, 0),
        Stream::Space6 { code: SpaceCode::Blocks, count: 1 }.into(),
        Stream::WriteFilemarks6 { immediate: false, count: 0 }.into(),
        Stream::ReadPosition { form: PositionForm::Long, allocation_length: 0 }.into(),
        load(),
    ] {
        let sense = drive.fails(&command, Data::In(&mut [0; 32]));
        assert_eq!(code(&sense), (2, 0x3a, 0), "{command:?}");
    }
    assert_eq!(drive.send(&unload(), Data::None).status, Status::Good, "there is nothing to do");
}

#[test]
fn a_cartridge_that_is_held_waits_for_its_load() {
    let bench = Bench::new();
    let mut drive = laid(&bench);
    let hold = Stream::LoadUnload {
        immediate: false,
        hold: true,
        end_of_tape: false,
        retension: false,
        load: false,
    };
    drive.go(&hold.into(), Data::None);
    let ready = scsi::command::Primary::TestUnitReady.into();
    assert_eq!(code(&drive.fails(&ready, Data::None)), (2, 4, 2));
    drive.go(&load(), Data::None);
    assert_eq!(drive.place(), (0, 0, 0));
    // A second load goes to the begin.
    drive.locate(1, 7);
    drive.go(&load(), Data::None);
    assert_eq!(drive.place(), (0, 0, 0));
}
