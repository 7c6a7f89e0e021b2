//! What belongs to a cartridge: its memory, partitions, capacities, alerts, the best order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{BlockAddress, ByteCount, Partition};
use library::{VirtualLibrary, VirtualTiming, Waiter};
use mechanics::{DriveTiming, Geometry, RobotTiming};
use scsi::attribute::{Attribute, AttributeList, Attributes, NumberedList, id};
use scsi::command::{AttributeService, FormatKind, PageControl, Primary, RaoProcess, Stream};
use scsi::density::{DensityReport, MediumTypeReport};
use scsi::log::{
    LogPage, SupportedPages, TapeAlerts, capacity, error_counter, page, sequential_access, volume_statistics,
};
use scsi::mode::{MediumPartition, ModeContent};
use scsi::position::{WrapEnd, WrapEnds};
use scsi::rao::{RaoLimits, RaoList, RaoRequest, Segment};
use scsi::{Data, Packed, Text};
use vtl::Blank;

use crate::common::*;

fn attributes(host: &mut Host, partition: u8, first: u16) -> Attributes {
    Attributes::decode(&host.ask(read_attribute(AttributeService::Values, partition, first), 65_536)).unwrap()
}

fn read_attribute(service: AttributeService, partition: u8, first: u16) -> Primary {
    Primary::ReadAttribute {
        service,
        element: 0,
        element_type: 0,
        volume: 0,
        partition,
        first,
        allocation_length: 65_536,
        cached: false,
    }
}

fn write_attributes(host: &mut Host, partition: u8, all: Vec<Attribute>) -> Result<(), (u8, u8, u8)> {
    let data = Attributes(all).encode();
    let length = data.len() as u32;
    let command =
        Primary::WriteAttribute { through: true, element: 0, element_type: 0, volume: 0, partition, length };
    let end = host.send(&command.into(), Data::Out(&data));
    match end.status {
        scsi::Status::Good => Ok(()),
        _ => Err(code(&scsi::Sense::decode(&end.sense).unwrap())),
    }
}

#[test]
fn attributes_are_kept_for_each_partition() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let coherency = Attribute::new(0x080c, vec![7; 70]);
    let barcode = Attribute::new(id::BARCODE, b"KT0001                          ".to_vec());
    assert_eq!(write_attributes(&mut drive, 1, vec![barcode.clone(), coherency.clone()]), Ok(()));
    assert_eq!(attributes(&mut drive, 1, 0x0800), Attributes(vec![barcode, coherency.clone()]));
    assert_eq!(attributes(&mut drive, 0, 0x0800), Attributes::default());
    let all = attributes(&mut drive, 1, 0);
    assert_eq!(all.find(id::MAXIMUM_CAPACITY).unwrap().number(), Some(64));
    assert_eq!(all.find(id::REMAINING_CAPACITY).unwrap().number(), Some(64));
    assert_eq!(all.find(id::MEDIUM_SERIAL).unwrap().text(), "KT0001");
    assert!(all.find(id::MEDIUM_SERIAL).unwrap().read_only);
    let reference = all.find(id::VOLUME_CHANGE_REFERENCE).unwrap().number();
    drive.write(&[1]);
    assert!(attributes(&mut drive, 1, 0).find(id::VOLUME_CHANGE_REFERENCE).unwrap().number() > reference);
    let list = drive.ask(read_attribute(AttributeService::List, 1, 0), 4096);
    let listed: Vec<_> = all.0.iter().map(|attribute| attribute.id).collect();
    assert_eq!(AttributeList::decode(&list).unwrap().0, listed);
    let supported = drive.ask(read_attribute(AttributeService::Supported, 0, 0), 4096);
    assert!(AttributeList::decode(&supported).unwrap().0.contains(&0x080c));
    let partitions = drive.ask(read_attribute(AttributeService::Partitions, 0, 0), 4);
    assert_eq!(NumberedList::decode(&partitions).unwrap().count, 2);
    // One that is empty is taken away; wrong ones leave all as it was.
    assert_eq!(write_attributes(&mut drive, 1, vec![Attribute::new(id::BARCODE, vec![])]), Ok(()));
    let fine = Attribute::new(0x0801, vec![b' '; 32]);
    for wrong in [
        Attribute::new(id::MEDIUM_SERIAL, vec![b' '; 32]),
        Attribute::new(id::BARCODE, vec![b' '; 31]),
        Attribute::new(0x1400, vec![1; 4097]),
        Attribute::new(0x17fe, vec![1]),
    ] {
        let refused = write_attributes(&mut drive, 1, vec![fine.clone(), wrong]).unwrap_err();
        assert!(matches!(refused, (5, 0x26, 0 | 2)), "{refused:?}");
    }
    assert_eq!(attributes(&mut drive, 1, 0x0800), Attributes(vec![coherency]));
    let third = read_attribute(AttributeService::Values, 2, 0).into();
    assert_eq!(code(&drive.fails(&third, Data::In(&mut [0; 64]))), (5, 0x24, 0));
}

fn format(kind: FormatKind) -> scsi::Command {
    Stream::FormatMedium { verify: false, immediate: false, format: kind, length: 0 }.into()
}

fn two_partitions() -> ModeContent {
    ModeContent::MediumPartition(MediumPartition {
        additional_max: 1,
        additional: 1,
        by_initiator: true,
        size_unit: 3,
        unit_exponent: 9,
        sizes: vec![1, 0xffff],
        ..MediumPartition::default()
    })
}

#[test]
fn a_blank_cartridge_may_be_one_partition_and_keeps_what_it_is_formatted_to() {
    let bench = Bench::with(&config(), |options| options.blank = Blank::OnePartition);
    let mut drive = bench.loaded();
    drive.write(&pattern(1, 100));
    assert_eq!(drive.place(), (0, 1, 0));
    let end = drive.locate(1, 0);
    assert_eq!(code(&scsi::Sense::decode(&end.sense).unwrap()), (5, 0x24, 0));
    let reload = |drive: &mut Host| {
        drive.go(&unload(), Data::None);
        drive.go(&load(), Data::None);
    };
    reload(&mut drive);
    assert_eq!((drive.place(), drive.read(100)), ((0, 0, 0), Ok(pattern(1, 100))));
    // It is the data partition that was written.
    drive.go(&unload(), Data::None);
    let (name, vid) = (library::DriveName::new("vdrive1").unwrap(), vid(VID));
    {
        use library::Library as _;
        bench.library.mount(vid, &name).unwrap();
        bench.library.unmount(&name).unwrap();
    }
    drive.go(&load(), Data::None);
    drive.locate(0, 1);
    assert_eq!(code(&drive.fails(&format(FormatKind::Partition), Data::None)), (5, 0x3b, 0x0c));
    drive.locate(0, 0);
    drive.select(two_partitions()).unwrap();
    drive.go(&format(FormatKind::Partition), Data::None);
    assert_eq!(code(&drive.read(100).unwrap_err().0), (8, 0, 5));
    for again in [false, true] {
        if again {
            reload(&mut drive);
        }
        drive.locate(1, 0);
        assert_eq!(drive.place(), (1, 0, 0), "two partitions, blank as they are, also after a load");
    }
    // What is written on both stays what it is without the mark of this target too.
    drive.locate(0, 0);
    drive.go(&format(FormatKind::Default), Data::None);
    reload(&mut drive);
    let end = drive.locate(1, 0);
    assert_eq!(code(&scsi::Sense::decode(&end.sense).unwrap()), (5, 0x24, 0));
}

#[test]
fn a_cartridge_of_kist_has_two_partitions_whatever_blank_ones_have() {
    use library::Library as _;
    let directory = tempfile::tempdir().unwrap();
    let library = VirtualLibrary::create(directory.path(), &config()).unwrap();
    let name = library::DriveName::new("vdrive0").unwrap();
    library.mount(vid(VID), &name).unwrap();
    let mut drive = library.take_drive(&name).unwrap();
    drive.write_block(b"VOL1").unwrap();
    drive.locate(base::TapePosition { partition: Partition::Data, block: BlockAddress(0) }).unwrap();
    drive.write_block(b"VOL1 of b").unwrap();
    drop(drive);
    library.unmount(&name).unwrap();
    let mut options = vtl::Options::new(iscsi::login::Name::new("iqn.2026-01.org.kist:vtl").unwrap());
    options.blank = Blank::OnePartition;
    let library = std::sync::Arc::new(library);
    let target = vtl::Target::new(library.clone(), options).unwrap();
    let bench = Bench { directory, library, target };
    let mut drive = bench.loaded();
    assert_eq!((drive.place(), drive.read(4)), ((0, 0, 0), Ok(b"VOL1".to_vec())));
    drive.locate(1, 0);
    assert_eq!(drive.read(9), Ok(b"VOL1 of b".to_vec()));
}

fn log(host: &mut Host, page: u8, parameter: u16) -> Vec<u8> {
    let control = PageControl::CUMULATIVE;
    let command =
        Primary::LogSense { save: false, control, page, subpage: 0, parameter, allocation_length: 4096 };
    host.ask(command, 4096)
}

#[test]
fn log_pages_tell_of_volume_and_capacity() {
    let bench = Bench::with(&config(), |options| options.barcode_suffix = "L8".into());
    let mut drive = bench.loaded();
    drive.locate(1, 0);
    drive.write(&pattern(1, 4 << 20));
    let pages = SupportedPages::decode(&log(&mut drive, 0, 0)).unwrap().pages;
    for (code, _) in pages.into_iter().skip(1) {
        assert_eq!(LogPage::decode(&log(&mut drive, code, 0)).unwrap().code, code);
    }
    let volume = LogPage::decode(&log(&mut drive, page::VOLUME_STATISTICS, 0)).unwrap();
    assert_eq!(volume.number(volume_statistics::PAGE_VALID), Some(1));
    assert_eq!(volume.find(volume_statistics::BARCODE).unwrap().text(), "KT0001L8");
    let used = volume.find(volume_statistics::PARTITION_USED).unwrap().partitions().unwrap();
    assert_eq!(used, [(1, 4)]);
    let capacities = LogPage::decode(&log(&mut drive, page::TAPE_CAPACITY, 0)).unwrap();
    assert_eq!(capacities.number(capacity::ALTERNATE_REMAINING), Some(60));
    assert_eq!(capacities.number(capacity::ALTERNATE_MAXIMUM), Some(64));
    let one = LogPage::decode(&log(&mut drive, page::TAPE_CAPACITY, 4)).unwrap();
    assert_eq!(one.parameters.len(), 1, "from the parameter on");
    let absent = Primary::LogSense {
        save: false,
        control: PageControl::CUMULATIVE,
        page: 0x3e,
        subpage: 0,
        parameter: 0,
        allocation_length: 64,
    };
    assert_eq!(code(&drive.fails(&absent.into(), Data::In(&mut [0; 64]))), (5, 0x24, 0));
    drive.go(&unload(), Data::None);
    let volume = LogPage::decode(&log(&mut drive, page::VOLUME_STATISTICS, 0)).unwrap();
    assert_eq!((volume.parameters.len(), volume.number(0)), (1, Some(0)));
    let alerts = LogPage::decode(&log(&mut bench.host(CHANGER), page::TAPE_ALERT, 0)).unwrap();
    assert_eq!(TapeAlerts::of_log(&alerts), TapeAlerts(0));
}

/// LOG SELECT sets counters back, those of one page or of all, and other hosts hear of it; nothing else.
#[test]
fn counters_are_set_back() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let mut other = bench.host_of(DRIVE, "iqn.2026-01.org.kist:other");
    let select = |reset, save, page, subpage, length| -> scsi::Command {
        let control = PageControl::CUMULATIVE;
        Primary::LogSelect { reset, save, control, page, subpage, length }.into()
    };
    let bytes = |drive: &mut Host| {
        let of = |drive: &mut Host, page, parameter| {
            LogPage::decode(&log(drive, page, 0)).unwrap().number(parameter).unwrap()
        };
        let written = of(drive, page::WRITE_ERRORS, error_counter::BYTES);
        let read = of(drive, page::READ_ERRORS, error_counter::BYTES);
        (written, read, of(drive, page::SEQUENTIAL_ACCESS, sequential_access::BYTES_FROM_HOST))
    };
    drive.write(&pattern(1, 5000));
    drive.locate(0, 0);
    drive.read(5000).unwrap();
    assert_eq!(bytes(&mut drive), (5000, 5000, 5000));
    drive.go(&select(false, false, page::WRITE_ERRORS, 0, 0), Data::None);
    assert_eq!(bytes(&mut drive), (5000, 5000, 5000), "nothing to reset, nothing to set");
    for (refused, why) in [
        (select(true, true, page::WRITE_ERRORS, 0, 0), "nothing is saved"),
        (select(false, false, page::WRITE_ERRORS, 0, 4), "counters are not set to a value"),
        (select(true, false, page::TAPE_CAPACITY, 0, 0), "a capacity is no counter"),
        (select(true, false, 0x3e, 0, 0), "no such page"),
        (select(true, false, page::WRITE_ERRORS, 1, 0), "no such subpage"),
    ] {
        let data = if refused == select(false, false, page::WRITE_ERRORS, 0, 4) {
            Data::Out(&[2, 0, 0, 0])
        } else {
            Data::None
        };
        assert_eq!(code(&drive.fails(&refused, data)), (5, 0x24, 0), "{why}");
    }
    assert_eq!(bytes(&mut drive), (5000, 5000, 5000));
    other.go(&Primary::TestUnitReady.into(), Data::None);

    drive.go(&select(true, false, page::WRITE_ERRORS, 0, 0), Data::None);
    assert_eq!(bytes(&mut drive), (0, 5000, 5000));
    assert_eq!(code(&other.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x02));
    drive.write(&pattern(2, 700));
    assert_eq!(bytes(&mut drive), (700, 5000, 5700));
    drive.go(&select(true, false, 0, 0, 0), Data::None);
    assert_eq!(bytes(&mut drive), (0, 0, 0), "all of them");
    drive.write(&pattern(3, 300));
    assert_eq!(bytes(&mut drive), (300, 0, 300));
    // What the volume holds is what it holds.
    let volume = LogPage::decode(&log(&mut drive, page::VOLUME_STATISTICS, 0)).unwrap();
    assert_eq!(volume.number(volume_statistics::PAGE_VALID), Some(1));
    let refused = bench.host(CHANGER).fails(&select(true, false, 0, 0, 0), Data::None);
    assert_eq!(code(&refused), (5, 0x20, 0), "a changer counts nothing");
}

#[test]
fn a_drive_has_one_density() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let ask =
        |medium_type, medium| Stream::ReportDensitySupport { medium_type, medium, allocation_length: 512 };
    let drives = DensityReport::decode(&drive.ask(ask(false, false), 512)).unwrap();
    assert_eq!((drives.0.len(), drives.0[0].primary, drives.0[0].capacity_megabytes), (1, 0x5e, 12_000_000));
    let medium = DensityReport::decode(&drive.ask(ask(false, true), 512)).unwrap();
    assert_eq!(medium.0[0].capacity_megabytes, 67);
    let types = MediumTypeReport::decode(&drive.ask(ask(true, false), 512)).unwrap();
    assert_eq!(types.0[0].densities[0], 0x5e);
}

/// A clock that goes on when somebody waits.
#[derive(Debug, Default)]
struct Virtual(AtomicU64);

impl Waiter for Virtual {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait_until(&self, until_us: u64) {
        self.0.fetch_max(until_us, Ordering::SeqCst);
    }
}

const BLOCK: usize = 1 << 16;

/// A library whose drives know their geometry: ten blocks a wrap.
fn timed() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    drop(VirtualLibrary::create(directory.path(), &config()).unwrap());
    let timing = VirtualTiming {
        drive: DriveTiming { recommends_order: true, ..mechanics::timing("LTO-8").unwrap() },
        geometry: Geometry::ltfs(208, ByteCount(10 * BLOCK as u64), 2_696..171_097),
        robot: RobotTiming { robots: 1, move_us: 12_000_000 },
        scale: 1.0,
        waiter: Arc::new(Virtual::default()),
    };
    let library = Arc::new(VirtualLibrary::open_timed(directory.path(), &config(), timing).unwrap());
    let mut options = vtl::Options::new(iscsi::login::Name::new("iqn.2026-01.org.kist:vtl").unwrap());
    options.geometry = true;
    let target = vtl::Target::new(library.clone(), options).unwrap();
    Bench { directory, library, target }
}

#[test]
fn wraps_end_where_the_drive_says() {
    let bench = timed();
    let mut drive = bench.loaded();
    drive.locate(1, 0);
    (0..25).for_each(|seed| drive.write(&pattern(seed, BLOCK)));
    let ask = |wrap_valid, all, wrap| Stream::ReadEndOfWrapPosition {
        wrap_valid,
        all,
        wrap,
        allocation_length: 512,
    };
    let ends = WrapEnds::decode(&drive.ask(ask(false, true, 0), 512)).unwrap();
    let told: Vec<_> = ends.0.iter().map(|wrap| (wrap.wrap, wrap.partition, wrap.object)).collect();
    assert_eq!(told, [(0, 1, 10), (1, 1, 20), (2, 1, 25)]);
    let one = |drive: &mut Host, command| WrapEnd::decode(&drive.ask(command, 10)).unwrap().object;
    assert_eq!(one(&mut drive, ask(true, false, 1)), 20);
    drive.locate(1, 3);
    assert_eq!(one(&mut drive, ask(false, false, 0)), 10);
    for wrong in [ask(true, false, 3), ask(true, true, 0)] {
        assert_eq!(code(&drive.fails(&wrong.into(), Data::In(&mut [0; 64]))), (5, 0x24, 0));
    }
}

fn generate(drive: &mut Host, process: RaoProcess, segments: &[Segment]) -> Result<(), (u8, u8, u8)> {
    let data = RaoRequest(segments.to_vec()).encode();
    let command = Stream::GenerateRao { process, uds_type: 0, length: data.len() as u32 };
    let end = drive.send(&command.into(), Data::Out(&data));
    match end.status {
        scsi::Status::Good => Ok(()),
        _ => Err(code(&scsi::Sense::decode(&end.sense).unwrap())),
    }
}

#[test]
fn a_drive_recommends_an_order() {
    let bench = timed();
    let mut drive = bench.loaded();
    drive.locate(1, 0);
    (0..60).for_each(|seed| drive.write(&pattern(seed, BLOCK)));
    drive.locate(1, 0);
    let receive = |limits, offset, allocation_length| Stream::ReceiveRao {
        limits,
        offset,
        allocation_length,
        uds_type: 0,
    };
    let limits = RaoLimits::decode(&drive.ask(receive(true, 0, 64), 64)).unwrap();
    assert_eq!((limits.segments, limits.descriptor_bytes), (2_730, 32));
    assert_eq!(code(&drive.fails(&receive(false, 0, 64).into(), Data::In(&mut [0; 64]))), (5, 0x2c, 0));
    let segment =
        |name: &str, begin| Segment { name: Text::new(name).unwrap(), partition: 1, begin, end: begin + 2 };
    let wanted = [segment("far", 55), segment("near", 2), segment("back", 30)];
    assert_eq!(generate(&mut drive, RaoProcess::Keep, &wanted), Ok(()));
    let names = |drive: &mut Host| {
        let list = RaoList::decode(&drive.ask(receive(false, 0, 4096), 4096)).unwrap();
        list.segments.iter().map(|one| one.segment.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut drive), ["far", "near", "back"]);
    assert_eq!(generate(&mut drive, RaoProcess::Reorder, &wanted), Ok(()));
    let order = names(&mut drive);
    assert_eq!(order[0], "near", "{order:?}");
    // In portions, and wrong ones.
    let part = RaoList::decode(&drive.ask(receive(false, 32, 40), 40)).unwrap();
    assert_eq!((part.list_length, part.segments[0].segment.name.to_string()), (96, order[1].clone()));
    assert_eq!(code(&drive.fails(&receive(false, 33, 64).into(), Data::In(&mut [0; 64]))), (5, 0x24, 0));
    assert_eq!(generate(&mut drive, RaoProcess::Unspecified, &wanted), Err((5, 0x24, 0)));
    let elsewhere = Segment { partition: 0, ..segment("index", 0) };
    assert_eq!(generate(&mut drive, RaoProcess::Reorder, &[elsewhere]), Err((5, 0x26, 2)));
    assert_eq!(generate(&mut drive, RaoProcess::Reorder, &[segment("beyond", 100)]), Err((8, 0, 5)));
    let many = vec![segment("many", 1); 2_731];
    assert_eq!(generate(&mut drive, RaoProcess::Reorder, &many), Err((5, 0x24, 0)));
    // Without geometry both are unknown.
    let plain = Bench::new();
    let mut drive = plain.loaded();
    assert_eq!(generate(&mut drive, RaoProcess::Reorder, &wanted), Err((5, 0x20, 0)));
}
