//! What all units say of themselves, and unit attentions.

use scsi::command::{PageControl, Primary, SelectReport, SupportedReport};
use scsi::luns::Luns;
use scsi::mode::{
    Control, ControlDataProtection, ModeContent, ModeDirection, ModeForm, ModeParameters, ProtectionMethod,
};
use scsi::opcodes::{OneOpcode, Support, SupportedOpcodes};
use scsi::sense::SenseFormat;
use scsi::vpd::{DesignatorType, Vpd, VpdPage};
use scsi::{Cdb, Data, DeviceType, Inquiry, Packed, Sense, SenseKey, Status, Transport};

use crate::common::*;

fn vital(host: &mut Host, page: u8) -> VpdPage {
    Vpd::decode(&host.ask(Primary::Inquiry { vital: true, page, allocation_length: 4096 }, 4096))
        .unwrap()
        .page
}

#[test]
fn units_say_what_they_are_and_the_changer_names_its_drives() {
    let bench = Bench::new();
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.host(DRIVE));
    let inquiry = Primary::Inquiry { vital: false, page: 0, allocation_length: 96 };
    let of = |host: &mut Host| Inquiry::decode(&host.ask(inquiry, 96)).unwrap();
    assert_eq!(of(&mut changer).device_type, DeviceType::Changer);
    let tape = of(&mut drive);
    assert_eq!((tape.device_type, tape.removable), (DeviceType::Tape, true));
    assert_eq!((tape.vendor.to_string(), tape.product.to_string()), ("KIST".into(), "VIRTUAL DRIVE".into()));
    // No more than was asked for, and a page that is not there.
    assert_eq!(drive.ask(Primary::Inquiry { vital: false, page: 0, allocation_length: 5 }, 96).len(), 5);
    let sense = drive.fails(
        &Primary::Inquiry { vital: true, page: 0xb5, allocation_length: 96 }.into(),
        Data::In(&mut [0; 96]),
    );
    assert_eq!(code(&sense), (5, 0x24, 0));

    let VpdPage::Supported(pages) = vital(&mut drive, 0) else { panic!() };
    assert_eq!(pages, [0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4]);
    for page in pages {
        assert_eq!(vital(&mut drive, page).code(), page);
    }
    assert_eq!(vital(&mut changer, 0), VpdPage::Supported(vec![0x00, 0x80, 0x83]));
    assert_eq!(vital(&mut drive, 0x80).serial(), "KISTVTL0D00");
    assert_eq!(vital(&mut drive, 0xb3).serial(), vital(&mut changer, 0x80).serial());
    let VpdPage::DataTransferElement(address) = vital(&mut drive, 0xb4) else { panic!() };
    let bays = changer.elements(scsi::command::ElementType::DataTransfer);
    let own = bays.iter().find(|bay| bay.address == address).unwrap();
    let VpdPage::Identification(names) = vital(&mut drive, 0x83) else { panic!() };
    let t10 = names.iter().find(|name| name.kind == DesignatorType::T10).unwrap();
    assert_eq!(own.identifier.as_ref().unwrap().value, t10.value);
    let VpdPage::Identification(others) = vital(&mut bench.host(2), 0x83) else { panic!() };
    assert!(others.iter().all(|other| !names.contains(other)), "drives have names of their own");
}

#[test]
fn the_commands_that_a_unit_tells_of_are_those_that_it_has() {
    let bench = Bench::new();
    for (lun, has, lacks) in [(CHANGER, 0xa5, 0x8c), (DRIVE, 0x92, 0xa5)] {
        let mut host = bench.host(lun);
        let ask = |report, operation, service_action| Primary::ReportSupportedOperationCodes {
            timeouts: false,
            report,
            operation,
            service_action,
            allocation_length: 4096,
        };
        let all = SupportedOpcodes::decode(&host.ask(ask(SupportedReport::All, 0, 0), 4096)).unwrap();
        assert!(all.find(has, None).is_some() && all.find(lacks, None).is_none());
        for operation in 0..=255 {
            let is_told = all.0.iter().any(|one| one.operation == operation);
            // With all behind the operation code zero: what is known is carried out, or refused for another
            // reason.
            let length = scsi::command::cdb_length(operation).unwrap_or(6);
            let mut bytes = vec![0; length];
            bytes[0] = operation;
            let end = host.0.execute(&Cdb::new(&bytes).unwrap(), Data::None, PATIENCE).unwrap();
            let is_unknown = Sense::decode(&end.sense).is_ok_and(|sense| sense.is_unknown_command());
            assert_eq!(is_told, !is_unknown, "unit {lun}, {operation:02x}");
            // LOAD UNLOAD and others leave no attention, but a reservation may have been made.
            host.send(&Primary::Release6.into(), Data::None);
        }
        let one = |host: &mut Host, report, operation, service| {
            OneOpcode::decode(&host.ask(ask(report, operation, service), 4096)).unwrap().support
        };
        assert_eq!(one(&mut host, SupportedReport::Operation, 0x12, 0), Support::Standard);
        assert_eq!(one(&mut host, SupportedReport::Operation, lacks, 0), Support::No);
        assert_eq!(one(&mut host, SupportedReport::Service, 0x5f, 6), Support::Standard);
        assert_eq!(one(&mut host, SupportedReport::Either, 0x5f, 7), Support::No);
        let wrong = ask(SupportedReport::Operation, 0x5f, 0).into();
        assert_eq!(code(&host.fails(&wrong, Data::In(&mut [0; 64]))), (5, 0x24, 0));
    }
}

#[test]
fn luns_are_the_changer_and_the_drives() {
    let bench = Bench::new();
    let ask = Primary::ReportLuns { select: SelectReport::Addressed, allocation_length: 256 };
    let luns = Luns::decode(&bench.host(CHANGER).ask(ask, 256)).unwrap();
    assert_eq!(luns.0.iter().map(|lun| lun.number().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    let mut nobody = Host(bench.target.transport(3, INITIATOR).unwrap());
    assert_eq!(code(&nobody.fails(&Primary::TestUnitReady.into(), Data::None)), (5, 0x25, 0));
}

#[test]
fn a_session_begins_with_a_unit_attention_which_some_commands_leave_alone() {
    let bench = Bench::new();
    let ready = Primary::TestUnitReady.into();
    let mut host = Host(bench.target.transport(CHANGER, INITIATOR).unwrap());
    host.ask(Primary::Inquiry { vital: false, page: 0, allocation_length: 96 }, 96);
    host.ask(Primary::ReportLuns { select: SelectReport::All, allocation_length: 16 }, 16);
    assert_eq!(code(&host.fails(&ready, Data::None)), (6, 0x29, 0));
    host.go(&ready, Data::None);
    drop(host);
    // The same initiator again: its session was lost. REQUEST SENSE tells it as data, once.
    let mut again = Host(bench.target.transport(CHANGER, INITIATOR).unwrap());
    let ask = Primary::RequestSense { descriptor: true, allocation_length: 252 };
    let sense = Sense::decode(&again.ask(ask, 252)).unwrap();
    assert_eq!((code(&sense), sense.format), ((6, 0x29, 7), SenseFormat::Descriptor));
    assert_eq!(code(&Sense::decode(&again.ask(ask, 252)).unwrap()), (0, 0, 0));
    again.go(&ready, Data::None);
}

#[test]
fn all_sessions_hear_of_another_cartridge_and_of_modes_that_others_set() {
    let bench = Bench::new();
    let mut one = bench.loaded();
    let mut other = bench.host_of(DRIVE, "iqn.2026-01.org.kist:other");
    let ready = Primary::TestUnitReady.into();
    one.select(ModeContent::Control(Control { descriptor_sense: true, ..Control::default() })).unwrap();
    one.go(&ready, Data::None);
    assert_eq!(code(&other.fails(&ready, Data::None)), (6, 0x2a, 1));
    other.go(&ready, Data::None);
    // Unloaded and loaded again by one of them: the other hears of it.
    one.go(&unload(), Data::None);
    let sense = other.fails(&ready, Data::None);
    assert_eq!((code(&sense), sense.format), ((2, 0x3a, 0), SenseFormat::Descriptor));
    one.go(&load(), Data::None);
    one.go(&ready, Data::None);
    assert_eq!(code(&other.fails(&ready, Data::None)), (6, 0x28, 0));
    other.go(&ready, Data::None);
}

fn mode_sense(
    host: &mut Host,
    form: ModeForm,
    control: PageControl,
    page: u8,
    subpage: u8,
) -> ModeParameters {
    let command = match form {
        ModeForm::Six => {
            Primary::ModeSense6 { no_descriptors: false, control, page, subpage, allocation_length: 255 }
        }
        ModeForm::Ten => Primary::ModeSense10 {
            long_lba: false,
            no_descriptors: false,
            control,
            page,
            subpage,
            allocation_length: 4096,
        },
    };
    ModeParameters::decode(&host.ask(command, 4096), form, ModeDirection::Sense).unwrap()
}

#[test]
fn mode_pages_are_read_alike_in_both_forms_and_one_by_one() {
    let bench = Bench::new();
    for (lun, count) in [(CHANGER, 5), (DRIVE, 8)] {
        let mut host = bench.host(lun);
        for control in [PageControl::Current, PageControl::Default, PageControl::Changeable] {
            let all = mode_sense(&mut host, ModeForm::Ten, control, 0x3f, 0xff);
            assert_eq!(all.pages.len(), count, "unit {lun}");
            assert_eq!(mode_sense(&mut host, ModeForm::Six, control, 0x3f, 0xff), all);
            for page in &all.pages {
                let (number, subpage) = page.content.code();
                let one = mode_sense(&mut host, ModeForm::Ten, control, number, subpage.unwrap_or(0));
                assert_eq!(one.pages, std::slice::from_ref(page));
            }
            let plain = mode_sense(&mut host, ModeForm::Ten, control, 0x3f, 0);
            assert!(plain.pages.iter().all(|page| page.content.code().1.is_none()));
        }
        let saved = Primary::ModeSense6 {
            no_descriptors: false,
            control: PageControl::Saved,
            page: 0x3f,
            subpage: 0,
            allocation_length: 255,
        };
        assert_eq!(code(&host.fails(&saved.into(), Data::In(&mut [0; 255]))), (5, 0x39, 0));
        let absent = Primary::ModeSense6 {
            no_descriptors: false,
            control: PageControl::Current,
            page: 0x19,
            subpage: 0,
            allocation_length: 255,
        };
        assert_eq!(code(&host.fails(&absent.into(), Data::In(&mut [0; 255]))), (5, 0x24, 0));
    }
}

/// A page as it is read can be written back; one that would change what cannot be changed is refused whole.
#[test]
fn a_mode_select_is_taken_over_whole_or_not_at_all() {
    let bench = Bench::new();
    for lun in [CHANGER, DRIVE] {
        let mut host = bench.host(lun);
        for page in mode_sense(&mut host, ModeForm::Ten, PageControl::Current, 0x3f, 0xff).pages {
            assert_eq!(host.select(page.content.clone()), Ok(()), "{page:?}");
        }
    }
    let mut drive = bench.host(DRIVE);
    let protection = ControlDataProtection {
        method: ProtectionMethod::Crc32c,
        information_length: 4,
        on_write: true,
        on_read: true,
        on_recover: false,
    };
    let wrong = ControlDataProtection { information_length: 8, ..protection.clone() };
    let both = ModeParameters {
        buffered: 1,
        pages: vec![
            ModeContent::Control(Control { descriptor_sense: true, ..Control::default() }).into(),
            ModeContent::ControlDataProtection(wrong).into(),
        ],
        ..ModeParameters::default()
    }
    .encode(ModeForm::Ten, ModeDirection::Select);
    let command =
        |length| Primary::ModeSelect10 { page_format: true, revert: false, save: false, length }.into();
    assert_eq!(code(&drive.fails(&command(both.len() as u16), Data::Out(&both))), (5, 0x26, 2));
    let now = mode_sense(&mut drive, ModeForm::Ten, PageControl::Current, 0x0a, 0);
    assert_eq!(now.pages[0].content, ModeContent::Control(Control::default()));
    assert_eq!(drive.select(ModeContent::ControlDataProtection(protection)), Ok(()));
    // Cut off within a page, and less than the command says.
    assert_eq!(code(&drive.fails(&command(12), Data::Out(&both[..12]))), (5, 0x1a, 0));
    assert_eq!(code(&drive.fails(&command(200), Data::Out(&both))), (5, 0x1a, 0));
    drive.go(&command(0), Data::None);
}

#[test]
fn malformed_commands_are_refused_with_their_field() {
    let bench = Bench::new();
    let mut drive = bench.host(DRIVE);
    let mut raw = |bytes: &[u8]| {
        let end = drive.0.execute(&Cdb::new(bytes).unwrap(), Data::None, PATIENCE).unwrap();
        assert_eq!(end.status, Status::CheckCondition);
        let sense = Sense::decode(&end.sense).unwrap();
        (code(&sense), sense.key_specific)
    };
    assert_eq!(raw(&[0xc0, 0, 0, 0, 0, 0]).0, (5, 0x20, 0));
    assert_eq!(raw(&[0x92, 0, 0, 0, 0, 0]).0, (5, 0x20, 0), "too short for its operation code");
    let (code, field) = raw(&[0x00, 0, 0x10, 0, 0, 0]);
    assert_eq!(code, (5, 0x24, 0));
    let pointer = scsi::sense::FieldPointer { in_command: true, byte: 2, bit: Some(4) };
    assert_eq!(field, scsi::sense::KeySpecific::Field(pointer));
    assert_eq!(SenseKey::IllegalRequest.byte(), 5);
}
