use proptest::prelude::*;

use super::*;
use crate::bytes::tests::hex;

const SETS: [CommandSet; 2] = [CommandSet::Stream, CommandSet::Changer];

fn cdb(text: &str) -> Cdb {
    Cdb::new(&hex(text)).unwrap()
}

fn check(text: &str, set: CommandSet, command: impl Into<Command>) {
    let command = command.into();
    assert_eq!(command.encode().unwrap(), cdb(text), "{}", command.name());
    assert_eq!(Command::decode(&cdb(text), set), Ok(command), "{}", command.name());
}

/// Bytes as the programs that are named send them, or as the tables of the standards give them.
#[test]
fn commands_are_the_bytes_of_the_standards() {
    let tape = CommandSet::Stream;
    check("00 00 00 00 00 00", tape, Primary::TestUnitReady);
    // Linux, drivers/scsi/scsi_scan.c: the first INQUIRY asks for 36 bytes.
    check("12 00 00 00 24 00", tape, Primary::Inquiry { vital: false, page: 0, allocation_length: 36 });
    check("12 01 83 00 ff 00", tape, Primary::Inquiry { vital: true, page: 0x83, allocation_length: 255 });
    // Linux, drivers/scsi/st.c: 64 KiB in a block of variable length; two filemarks; back over one filemark.
    check("08 00 01 00 00 00", tape, Stream::Read6 { suppress: false, fixed: false, length: 65_536 });
    check("10 00 00 00 02 00", tape, Stream::WriteFilemarks6 { immediate: false, count: 2 });
    check("11 01 ff ff ff 00", tape, Stream::Space6 { code: SpaceCode::Filemarks, count: -1 });
    // LTFS, src/tape_drivers/linux/sg/sg_tape.c: LOCATE(16) to a block of another partition, and to the end
    // of data.
    let to = |destination, partition, object| Stream::Locate16 {
        destination,
        change_partition: true,
        immediate: false,
        explicit: false,
        partition,
        object,
    };
    check("92 02 00 01 00 00 00 00 00 00 00 05 00 00 00 00", tape, to(Destination::Object, 1, 5));
    check("92 1a 00 00 00 00 00 00 00 00 00 00 00 00 00 00", tape, to(Destination::EndOfData, 0, 0));
    check(
        "34 06 00 00 00 00 00 00 00 00",
        tape,
        Stream::ReadPosition { form: PositionForm::Long, allocation_length: 0 },
    );
    // tape.md 3.1 and 3.2 (from CTA, taped/scsi/Structures.hpp).
    check(
        "a4 1d 02 00 00 00 00 00 00 48 00 00",
        tape,
        Stream::GenerateRao { process: RaoProcess::Reorder, uds_type: 0, length: 72 },
    );
    check(
        "a3 9d 00 00 00 00 00 00 00 08 00 00",
        tape,
        Stream::ReceiveRao { limits: true, offset: 0, allocation_length: 8, uds_type: 0 },
    );
    check(
        "a3 1f 45 02 00 00 00 00 0c 0c 00 00",
        tape,
        Stream::ReadEndOfWrapPosition { wrap_valid: false, all: true, wrap: 0, allocation_length: 3084 },
    );
    check(
        "a3 0c 80 00 00 00 00 00 20 00 00 00",
        tape,
        Primary::ReportSupportedOperationCodes {
            timeouts: true,
            report: SupportedReport::All,
            operation: 0,
            service_action: 0,
            allocation_length: 8192,
        },
    );
    // mtx, mtxl.c: READ ELEMENT STATUS with volume tags; MOVE MEDIUM.
    let changer = CommandSet::Changer;
    check(
        "b8 12 03 e8 00 0a 00 00 20 00 00 00",
        changer,
        Changer::ReadElementStatus {
            volume_tags: true,
            kind: ElementType::Storage,
            first: ElementAddress(1000),
            count: 10,
            mixed: false,
            current: false,
            identifiers: false,
            allocation_length: 8192,
        },
    );
    check(
        "a5 00 00 00 03 e8 01 00 00 00 00 00",
        changer,
        Changer::MoveMedium {
            transport: ElementAddress(0),
            from: ElementAddress(1000),
            to: ElementAddress(256),
            invert: false,
        },
    );
}

#[test]
fn one_operation_code_means_two_things() {
    let bytes = cdb("2b 00 00 00 00 00 05 00 00 00");
    assert_eq!(Command::decode(&bytes, CommandSet::Stream).unwrap().name(), "LOCATE(10)");
    let changer = Command::decode(&bytes, CommandSet::Changer);
    assert_eq!(changer, Err(CommandError::Field { name: "POSITION TO ELEMENT", byte: 6, bit: 2 }));
    let bytes = cdb("b5 20 00 10 00 00 00 00 00 00 00 00");
    assert_eq!(Command::decode(&bytes, CommandSet::Stream).unwrap().name(), "SECURITY PROTOCOL OUT");
}

#[test]
fn what_is_wrong_is_pointed_at() {
    let refused = |text: &str| Command::decode(&cdb(text), CommandSet::Stream).unwrap_err();
    // A reserved bit, a code without meaning, a service action that does not exist, NACA.
    assert_eq!(refused("08 08 00 00 00 00"), CommandError::Field { name: "READ(6)", byte: 1, bit: 3 });
    assert_eq!(refused("11 07 00 00 00 00"), CommandError::Field { name: "SPACE(6)", byte: 1, bit: 3 });
    assert_eq!(
        refused("a3 1e 00 00 00 00 00 00 00 00 00 00"),
        CommandError::Field { name: "RECEIVE RECOMMENDED ACCESS ORDER", byte: 1, bit: 4 }
    );
    assert_eq!(
        refused("00 00 00 00 00 04"),
        CommandError::Field { name: "TEST UNIT READY", byte: 5, bit: 2 }
    );
    assert_eq!(refused("28 00 00 00 00 00 00 00 00 00"), CommandError::OperationCode(0x28));
    assert_eq!(refused("92 00 00 00 00 00"), CommandError::Short { operation: 0x92, needed: 16, have: 6 });
    let sense = refused("08 08 00 00 00 00").sense();
    assert_eq!(sense.encode()[..18], hex("70 00 05 00 00 00 00 0a 00 00 00 00 24 00 00 cb 00 01"));
    assert!(CommandError::OperationCode(0x28).sense().is_unknown_command());
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let read = |length| Command::from(Stream::Read6 { suppress: false, fixed: false, length }).encode();
    assert!(read((1 << 24) - 1).is_ok() && read(1 << 24).is_err());
    let space = |count| Command::from(Stream::Space6 { code: SpaceCode::Blocks, count }).encode();
    assert!(space(-(1 << 23)).is_ok() && space(1 << 23).is_err());
    let page = Primary::ModeSense6 {
        no_descriptors: false,
        control: PageControl::Current,
        page: 0x40,
        subpage: 0,
        allocation_length: 0,
    };
    assert!(Command::from(page).encode().is_err());
}

#[test]
fn lengths_and_directions() {
    let read = |fixed| Command::from(Stream::Read6 { suppress: false, fixed, length: 10 }).transfer(512);
    assert_eq!((read(false), read(true)), (Transfer::In(10), Transfer::In(5120)));
    let out = Primary::SecurityProtocolOut { protocol: 0x20, specific: 0x10, blocks: true, length: 2 };
    assert_eq!(Command::from(out).transfer(0), Transfer::Out(1024));
    assert_eq!(Command::from(Stream::Rewind { immediate: true }).transfer(0), Transfer::None);
}

#[test]
fn iscsi_gives_sixteen_bytes_for_every_command() {
    let long = cdb("12 00 00 00 24 00 00 00 00 00 00 00 00 00 00 00");
    let short = Command::decode(&cdb("12 00 00 00 24 00"), CommandSet::Stream);
    assert_eq!(Command::decode(&long, CommandSet::Stream), short);
}

#[test]
fn every_command_is_found_by_its_own_bytes_and_lies_in_its_usage() {
    let tape: Vec<_> = Command::known(CommandSet::Stream);
    assert!(tape.len() > 50 && tape.is_sorted_by_key(|known| (known.operation, known.service_action)));
    for set in SETS {
        for known in Command::known(set) {
            assert_eq!(known.usage.len(), cdb_length(known.operation).unwrap(), "{}", known.name);
            assert_eq!(known.usage.last(), Some(&0), "{}: the control byte", known.name);
            let mut bytes = vec![0; known.usage.len()];
            bytes[0] = known.operation;
            if let Some(service) = known.service_action {
                bytes[1] = u8::try_from(service).unwrap();
            }
            if known.name == "READ END OF WRAP POSITION" {
                bytes[2] = 0x45;
            }
            let command = Command::decode(&Cdb::new(&bytes).unwrap(), set).unwrap();
            assert_eq!((command.name(), command.encode().unwrap().bytes()), (known.name, &bytes[..]));
        }
    }
}

proptest! {
    #[test]
    fn what_is_read_is_written_the_same(
        mut bytes in any::<[u8; 16]>(), at in any::<prop::sample::Index>(),
        changer in any::<bool>(), plain in any::<bool>()
    ) {
        let set = SETS[usize::from(changer)];
        let known = Command::known(set);
        let known = &known[at.index(known.len())];
        let length = known.usage.len();
        if plain {
            // Only bits that are used, so that most are commands.
            for (byte, used) in bytes.iter_mut().zip(&known.usage) {
                *byte &= used;
            }
            bytes[0] = known.operation;
            if let Some(service) = known.service_action {
                bytes[1] = bytes[1] & !0x1f | u8::try_from(service).unwrap();
            }
            bytes[length - 1] = 0;
        }
        let cdb = Cdb::new(&bytes[..length]).unwrap();
        match Command::decode(&cdb, set) {
            Ok(command) => {
                let mut written = command.encode().unwrap();
                // What is vendor specific in the control byte is not kept.
                if bytes[length - 1] != 0 {
                    bytes[length - 1] = 0;
                    written = Cdb::new(written.bytes()).unwrap();
                }
                prop_assert_eq!(written.bytes(), &bytes[..length]);
                prop_assert_eq!(Command::decode(&written, set), Ok(command));
            }
            Err(error) => drop(error.sense()),
        }
    }
}
