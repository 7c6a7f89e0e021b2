//! READ and WRITE.

use scsi::command::{PageControl, Primary, SpaceCode, Stream};
use scsi::lbp::BlockProtection;
use scsi::mode::{
    BlockDescriptor, ControlDataProtection, DeviceConfigurationExtension, ModeContent, ModeDirection,
    ModeForm, ModeParameters, ProtectionMethod,
};
use scsi::position::BlockLimits;
use scsi::{Data, Packed, Sense, Status};

use crate::common::*;

fn read(suppress: bool, fixed: bool, length: u32) -> scsi::Command {
    Stream::Read6 { suppress, fixed, length }.into()
}

#[test]
fn a_read_tells_of_another_length_a_filemark_and_the_end_of_data() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    drive.write(&pattern(1, 1000));
    drive.write(&pattern(2, 1000));
    drive.write(&pattern(3, 300_000));
    drive.marks(1);
    drive.locate(0, 0);
    // Longer than the block, shorter, and both without being told (SILI).
    let (sense, data) = drive.read(1500).unwrap_err();
    assert_eq!((code(&sense), sense.residual(), sense.incorrect_length), ((0, 0, 0), Some(500), true));
    assert_eq!((data, drive.place()), (pattern(1, 1000), (0, 1, 0)));
    let (sense, data) = drive.read(400).unwrap_err();
    assert_eq!((sense.residual(), sense.incorrect_length), (Some(-600), true));
    assert_eq!((data, drive.place()), (pattern(2, 1000)[..400].to_vec(), (0, 2, 0)));
    for (length, given) in [(400_000, 300_000), (7, 7)] {
        drive.locate(0, 2);
        let mut into = vec![0; length];
        assert_eq!(drive.go(&read(true, false, length as u32), Data::In(&mut into)), given);
        assert_eq!(into[..given], pattern(3, 300_000)[..given]);
        assert_eq!(drive.place(), (0, 3, 0));
    }
    let (sense, data) = drive.read(1000).unwrap_err();
    assert_eq!((code(&sense), sense.residual(), sense.filemark), ((0, 0, 1), Some(1000), true));
    assert_eq!((data, drive.place()), (vec![], (0, 4, 1)));
    let (sense, _) = drive.read(1000).unwrap_err();
    assert_eq!((code(&sense), sense.residual(), sense.end_of_medium), ((8, 0, 5), Some(1000), false));
    assert_eq!(drive.place(), (0, 4, 1));
    // Nothing asked for, nothing done.
    drive.locate(0, 0);
    drive.go(&read(false, false, 0), Data::None);
    drive.go(&Stream::Write6 { fixed: false, length: 0 }.into(), Data::None);
    assert_eq!(drive.place(), (0, 0, 0));
}

/// An initiator whose buffer is shorter than what its command asks for hears by how much.
#[test]
fn a_buffer_that_is_too_short_for_the_command_is_told() {
    use iscsi::target::{LogicalUnits, Nexus, NexusId};
    let bench = Bench::new();
    let mut drive = bench.loaded();
    drive.write(&pattern(1, 1000));
    drive.locate(0, 0);
    let nexus = Nexus {
        id: NexusId(1),
        initiator: iscsi::login::Name::new(INITIATOR).unwrap(),
        isid: iscsi::pdu::Isid::default(),
        target: bench.target.options().target.clone(),
    };
    bench.target.begun(&nexus);
    let lun = iscsi::pdu::Lun::of(DRIVE).unwrap();
    let mut into = [0; 100];
    let cdb = read(false, false, 1000).encode().unwrap();
    let first = bench.target.execute(&nexus, lun, &cdb, &[], &mut into);
    assert_eq!(first.status, Status::CheckCondition, "its unit attention");
    let end = bench.target.execute(&nexus, lun, &cdb, &[], &mut into);
    assert_eq!((end.status, end.transferred), (Status::Good, 1000));
    assert_eq!(into, pattern(1, 1000)[..100]);
    assert_eq!(drive.place(), (0, 1, 0));
    bench.target.ended(&nexus);
}

#[test]
fn lengths_beyond_the_limit_are_refused_and_a_block_of_which_a_part_is_missing_is_not_written() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let limits =
        BlockLimits::decode(&drive.ask(Stream::ReadBlockLimits { maximum_object: false }, 6)).unwrap();
    assert_eq!((limits.longest, limits.shortest, limits.granularity), (8 << 20, 1, 0));
    let write = |length| Stream::Write6 { fixed: false, length }.into();
    let longest = vec![7; 8 << 20];
    assert_eq!(drive.go(&write(8 << 20), Data::Out(&longest)), 8 << 20);
    let longer = vec![7; (8 << 20) + 1];
    assert_eq!(code(&drive.fails(&write((8 << 20) + 1), Data::Out(&longer))), (5, 0x24, 0));
    assert_eq!(code(&drive.fails(&write(1000), Data::Out(&longest[..999]))), (5, 0x24, 0));
    let mut into = vec![0; 16 << 20];
    assert_eq!(code(&drive.fails(&read(false, false, (8 << 20) + 5), Data::In(&mut into))), (5, 0x24, 0));
    let marks = Stream::WriteFilemarks6 { immediate: false, count: 1025 };
    assert_eq!(code(&drive.fails(&marks.into(), Data::None)), (5, 0x24, 0));
    assert_eq!(drive.place(), (0, 1, 0), "one block was written");
    let fixed = Stream::Write6 { fixed: true, length: 1 };
    assert_eq!(code(&drive.fails(&fixed.into(), Data::Out(&[1]))), (5, 0x24, 0));
}

#[test]
fn writing_cuts_off_what_stands_behind() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    (0..4).for_each(|seed| drive.write(&pattern(seed, 50)));
    drive.marks(2);
    assert_eq!(drive.place(), (0, 6, 2));
    drive.locate(0, 2);
    drive.write(&pattern(9, 60));
    assert_eq!(drive.place(), (0, 3, 0));
    assert_eq!(code(&drive.read(50).unwrap_err().0), (8, 0, 5));
    // A flush alone cuts nothing off.
    drive.locate(0, 1);
    drive.marks(0);
    drive.space(SpaceCode::EndOfData, 0).unwrap();
    assert_eq!(drive.place(), (0, 3, 0));
}

fn set_block_length(drive: &mut Host, block_length: u32) {
    let descriptors = vec![BlockDescriptor { density: 0, blocks: 0, block_length }];
    let data = ModeParameters { buffered: 1, descriptors, ..ModeParameters::default() }
        .encode(ModeForm::Six, ModeDirection::Select);
    let length = data.len() as u8;
    let command = Primary::ModeSelect6 { page_format: false, revert: false, save: false, length };
    drive.go(&command.into(), Data::Out(&data));
}

#[test]
fn blocks_of_fixed_length_go_several_at_once() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    set_block_length(&mut drive, 100);
    let data = pattern(5, 300);
    drive.go(&Stream::Write6 { fixed: true, length: 3 }.into(), Data::Out(&data));
    drive.write(&pattern(6, 60));
    drive.marks(1);
    drive.locate(0, 0);
    let mut into = vec![0; 200];
    assert_eq!(drive.go(&read(false, true, 2), Data::In(&mut into)), 200);
    assert_eq!(into, data[..200]);
    // One more, then a block of another length: the residual counts blocks.
    let mut into = vec![0; 400];
    let end = drive.send(&read(false, true, 4), Data::In(&mut into));
    let sense = Sense::decode(&end.sense).unwrap();
    assert_eq!((sense.incorrect_length, sense.residual(), end.transferred), (true, Some(3), 160));
    assert_eq!((&into[..100], &into[100..160]), (&data[200..], &pattern(6, 60)[..]));
    let end = drive.send(&read(false, true, 4), Data::In(&mut into));
    let sense = Sense::decode(&end.sense).unwrap();
    assert_eq!((sense.filemark, sense.residual(), drive.place()), (true, Some(4), (0, 5, 1)));
    assert_eq!(code(&drive.fails(&read(true, true, 1), Data::In(&mut into))), (5, 0x24, 0));
    // More at once than a transfer may have.
    let most = (16 << 20) / 100;
    assert_eq!(drive.send(&read(false, true, most), Data::In(&mut into)).transferred, 0);
    assert_eq!(code(&drive.fails(&read(false, true, most + 1), Data::In(&mut into))), (5, 0x24, 0));
    // With a length set, SILI spares a short block only (SSC-5, READ(6)).
    drive.locate(0, 0);
    let end = drive.send(&read(true, false, 60), Data::In(&mut into));
    assert_eq!(Sense::decode(&end.sense).unwrap().residual(), Some(-40));
    drive.locate(0, 0);
    assert_eq!(drive.go(&read(true, false, 400), Data::In(&mut into)), 100);
}

#[test]
fn blocks_are_protected_by_both_methods_on_both_ways() {
    for (method, protection) in [
        (ProtectionMethod::Crc32c, BlockProtection::Crc32c),
        (ProtectionMethod::ReedSolomon, BlockProtection::ReedSolomon),
    ] {
        let bench = Bench::new();
        let mut drive = bench.loaded();
        let page = |on_write, on_read| {
            let (information_length, on_recover) = (4, false);
            ModeContent::ControlDataProtection(ControlDataProtection {
                method,
                information_length,
                on_write,
                on_read,
                on_recover,
            })
        };
        drive.select(page(true, true)).unwrap();
        let mut block = pattern(1, 1000);
        protection.append(&mut block);
        drive.write(&block);
        let mut damaged = block.clone();
        damaged[500] ^= 1;
        let command = Stream::Write6 { fixed: false, length: 1004 }.into();
        assert_eq!(code(&drive.fails(&command, Data::Out(&damaged))), (0xb, 0x10, 1));
        let tiny = Stream::Write6 { fixed: false, length: 4 }.into();
        assert_eq!(code(&drive.fails(&tiny, Data::Out(&[0; 4]))), (5, 0x24, 0));
        assert_eq!(drive.place(), (0, 1, 0), "what was damaged is not written");
        // Back with its checksum: exact, with more room than needed, and with less.
        for length in [1004, 1400, 1002, 1000, 900] {
            drive.locate(0, 0);
            let data = match drive.read(length) {
                Ok(data) => data,
                Err((sense, data)) => {
                    assert_eq!(sense.residual(), Some(length as i64 - 1004));
                    data
                }
            };
            assert_eq!(data, block[..length.min(1004)], "{length}");
        }
        // Without it on the way back, the checksum is not part of the block.
        drive.select(page(true, false)).unwrap();
        drive.locate(0, 0);
        assert_eq!(drive.read(1000), Ok(pattern(1, 1000)));
    }
}

/// The end of a partition: warned of with each block behind the early warning, then nothing more fits.
#[test]
fn the_end_comes_with_a_warning() {
    let mut config = config();
    config.options.index_capacity = Some(base::ByteCount(40_000));
    let bench = Bench::with(&config, |_| {});
    let mut drive = bench.loaded();
    let block = vec![3; 1000];
    let write: scsi::Command = Stream::Write6 { fixed: false, length: 1000 }.into();
    let (mut warned, mut written) = (0, 0);
    let end = loop {
        let end = drive.send(&write, Data::Out(&block));
        if end.status == Status::CheckCondition {
            let sense = Sense::decode(&end.sense).unwrap();
            assert!(sense.end_of_medium);
            if code(&sense) != (0, 0, 2) {
                break sense;
            }
            assert_eq!((sense.residual(), end.transferred), (Some(0), 1000));
            warned += 1;
        } else {
            assert_eq!(warned, 0, "each block behind the first warning warns");
        }
        written += 1;
        assert_eq!(drive.position().end, warned > 0);
    };
    assert_eq!((code(&end), end.residual()), ((0xd, 0, 2), Some(1000)));
    assert_eq!((drive.place(), written, warned), ((0, 40, 0), 40, 10));
    // Filemarks still fit, and warn too; a flush does not.
    let marks = |count| Stream::WriteFilemarks6 { immediate: false, count }.into();
    assert_eq!(code(&drive.fails(&marks(1), Data::None)), (0, 0, 2));
    drive.go(&marks(0), Data::None);
    drive.locate(0, 5);
    assert!(!drive.position().end);
}

fn early_warning_page(drive: &mut Host, control: PageControl) -> DeviceConfigurationExtension {
    let page = Primary::ModeSense10 {
        long_lba: false,
        no_descriptors: true,
        control,
        page: 0x10,
        subpage: 1,
        allocation_length: 255,
    };
    let answer = drive.ask(page, 255);
    let parameters = ModeParameters::decode(&answer, ModeForm::Ten, ModeDirection::Sense).unwrap();
    let found = parameters.pages.into_iter().find_map(|page| match page.content {
        ModeContent::DeviceConfigurationExtension(page) => Some(page),
        _ => None,
    });
    found.unwrap()
}

fn early_warning(megabytes: u16) -> ModeContent {
    ModeContent::DeviceConfigurationExtension(DeviceConfigurationExtension {
        early_warning_size: megabytes,
        ..DeviceConfigurationExtension::default()
    })
}

/// Programmable early warning (SSC-5, 4.2.5): so many megabytes before the other one the first write into the
/// zone is told, that one alone, and each position in it is.
#[test]
fn a_warning_comes_as_early_as_it_is_asked_for() {
    const BLOCK: usize = 500_000;
    let mut config = config();
    // 8 MB, of which the last one is behind early warning.
    config.cartridges = vec![(vid(VID), base::ByteCount(8_000_000))];
    config.options.early_warning = Some(base::ByteCount(1_000_000));
    let bench = Bench::with(&config, |_| {});
    let mut drive = bench.loaded();
    assert_eq!(early_warning_page(&mut drive, PageControl::Changeable).early_warning_size, u16::MAX);
    // No other unit is known, and nothing else of the page is to be set.
    let other =
        DeviceConfigurationExtension { early_warning_size: 1, early_warning_unit: 1, ..Default::default() };
    let refused = drive.select(ModeContent::DeviceConfigurationExtension(other)).unwrap_err();
    assert_eq!(code(&refused), (5, 0x26, 2));
    assert_eq!(early_warning_page(&mut drive, PageControl::Current).early_warning_size, 0);
    drive.select(early_warning(2)).unwrap();
    assert_eq!(early_warning_page(&mut drive, PageControl::Current).early_warning_size, 2);
    assert_eq!(early_warning_page(&mut drive, PageControl::Default).early_warning_size, 0);
    drive.locate(1, 0);
    let write: scsi::Command = Stream::Write6 { fixed: false, length: BLOCK as u32 }.into();
    let block = pattern(1, BLOCK);
    let mut told = Vec::new();
    for written in 1..=16_u64 {
        let end = drive.send(&write, Data::Out(&block));
        let position = drive.position();
        // With 5 MB written 3 are left: 2 before early warning, and what is behind it.
        assert_eq!(position.beyond_early_warning, written >= 10, "{written}");
        if end.status == Status::CheckCondition {
            let sense = Sense::decode(&end.sense).unwrap();
            assert_eq!((sense.residual(), end.transferred), (Some(0), BLOCK));
            told.push((written, code(&sense), sense.end_of_medium));
        }
    }
    assert_eq!(told, [(10, (0, 0, 7), false), (15, (0, 0, 2), true), (16, (0, 0, 2), true)]);
    // In front of the zone, and at the end of data after another load.
    drive.locate(1, 9);
    assert!(!drive.position().beyond_early_warning);
    drive.locate(1, 12);
    assert!(drive.position().beyond_early_warning);
    drive.go(&unload(), Data::None);
    drive.go(&load(), Data::None);
    drive.locate(1, 12);
    drive.space(SpaceCode::EndOfData, 0).unwrap();
    assert!(drive.position().beyond_early_warning, "set as it was, and seen at the end of data");
    // Whoever cuts off what is in it has left it, and is told anew.
    drive.locate(1, 4);
    drive.write(&block);
    assert!(!drive.position().beyond_early_warning);
    (6..10).for_each(|_| drive.write(&block));
    assert_eq!(code(&drive.fails(&write, Data::Out(&block))), (0, 0, 7));
    // The index partition has none: the library does not tell what is left of it.
    drive.locate(0, 0);
    drive.write(&block);
    assert!(!drive.position().beyond_early_warning);
}

#[test]
fn a_protected_cartridge_takes_nothing() {
    let bench = Bench::new();
    bench.library.set_write_protected(vid(VID), true).unwrap();
    let mut drive = bench.host(DRIVE);
    let mut changer = bench.host(CHANGER);
    changer.send(&Primary::TestUnitReady.into(), Data::None);
    changer.go(&move_medium(SLOT, BAY), Data::None);
    drive.fails(&Primary::TestUnitReady.into(), Data::None);
    let write = Stream::Write6 { fixed: false, length: 4 }.into();
    assert_eq!(code(&drive.fails(&write, Data::Out(&[1; 4]))), (7, 0x27, 0));
    let mark = Stream::WriteFilemarks6 { immediate: false, count: 1 }.into();
    assert_eq!(code(&drive.fails(&mark, Data::None)), (7, 0x27, 0));
    assert_eq!(drive.place(), (0, 0, 0));
}
