use super::*;
use crate::bytes::tests::{any_bytes, hex};
use proptest::prelude::*;

/// The example of fixed format in sg3_utils, inhex/fixed_sense.hex.
const FIXED: &str = "f0 00 03 00 00 12 34 0a  00 00 00 00 11 00 77 80 01 98";

/// The example of descriptor format in sg3_utils, inhex/descriptor_sense.hex.
const DESCRIPTORS: &str = "72 01 03 02 80 00 00 4c  00 0a 80 00 11 22 33 44 55 66 77 bb
    01 0a 00 00 33 44 55 66 77 bb cc ff  02 06 00 00 80 01 01 00  03 02 00 45  0a 06 02 01 02 00 32 01
    05 02 00 20  0b 1a 01 00 00 00 00 01 01 02 03 04 05 06 07 08 01 02 03 04 55 06 07 08 02 00 12 34";

fn round(bytes: &[u8]) {
    if let Ok(sense) = Sense::decode(bytes) {
        assert_eq!(Sense::decode(&sense.encode()), Ok(sense));
    }
}

#[test]
fn published_examples_are_read() {
    let sense = Sense::decode(&hex(FIXED)).unwrap();
    assert_eq!(sense.to_string(), "medium error: 11/00 unrecovered read error");
    assert_eq!((sense.information, sense.residual()), (Some(0x1234), Some(0x1234)));
    assert_eq!((sense.replaceable_unit, sense.key_specific), (0x77, KeySpecific::Retries(0x198)));
    assert_eq!(sense.encode(), hex(FIXED));

    let sense = Sense::decode(&hex(DESCRIPTORS)).unwrap();
    assert_eq!((sense.key, sense.additional.asc, sense.additional.ascq), (SenseKey::RecoveredError, 3, 2));
    assert_eq!(sense.information, Some(0x1122_3344_5566_77bb));
    assert_eq!(sense.command_specific, 0x3344_5566_77bb_ccff);
    assert_eq!(sense.key_specific, KeySpecific::Retries(257));
    assert!(sense.overflow && sense.incorrect_length && sense.replaceable_unit == 0x45);
    assert_eq!(sense.more.len(), 8 + 28);
}

#[test]
fn a_short_block_read_by_tape_is_understood() {
    // SSC-5, 7.5: SILI zero, 256 KiB asked for, a block of 64 KiB.
    let sense = Sense { incorrect_length: true, ..Sense::default() }.with_residual(0x30000);
    let bytes = sense.encode();
    assert_eq!(bytes, hex("f0 00 20 00 03 00 00 0a 00 00 00 00 00 00 00 00 00 00"));
    assert_eq!(Sense::decode(&bytes).unwrap().residual(), Some(0x30000));
}

#[test]
fn residuals_are_signed_in_both_formats() {
    for format in [SenseFormat::Fixed, SenseFormat::Descriptor] {
        let sense = Sense { format, ..Sense::default() };
        for residual in [-1, 1, 0, -4096, i64::from(i32::MIN), i64::from(i32::MAX)] {
            let read = Sense::decode(&sense.clone().with_residual(residual).encode()).unwrap();
            assert_eq!(read.residual(), Some(residual));
        }
        let far = sense.with_residual(1 << 40);
        assert_eq!(far.residual(), (format == SenseFormat::Descriptor).then_some(1 << 40));
    }
}

#[test]
fn conditions_are_told_apart() {
    let of = |key, asc, ascq| Sense::new(SenseKey::of(key), asc, ascq);
    assert_eq!(of(6, 0x28, 0).unit_attention(), Some(UnitAttention::MediumMayHaveChanged));
    assert_eq!(of(6, 0x28, 1).unit_attention(), Some(UnitAttention::ElementAccessed));
    assert_eq!(of(6, 0x29, 7).unit_attention(), Some(UnitAttention::Reset));
    assert_eq!(of(6, 0x2a, 1).unit_attention(), Some(UnitAttention::ParametersChanged));
    assert_eq!(of(6, 0x3f, 0x0e).unit_attention(), Some(UnitAttention::InquiryDataChanged));
    assert_eq!(of(2, 0x28, 0).unit_attention(), None);
    assert!(of(2, 4, 1).is_becoming_ready() && !of(2, 4, 2).is_becoming_ready());
    assert!(of(2, 0x3a, 0).is_medium_missing() && !of(5, 0x3a, 0).is_medium_missing());
    assert!(of(1, 0, 0x17).needs_cleaning() && !of(1, 0, 0x16).needs_cleaning());
    assert!(of(2, 0x30, 3).is_cleaning_cartridge() && !of(2, 0x30, 0).is_cleaning_cartridge());
    assert!(of(7, 0x27, 0).is_write_protected() && !of(7, 0x26, 0).is_write_protected());
    assert!(of(8, 0, 5).is_end_of_data() && !of(8, 0x14, 3).is_end_of_data());
    assert!(of(0x0d, 0, 2).is_end_of_partition() && of(3, 0, 2).is_end_of_partition());
    assert!(!of(0, 0, 2).is_end_of_partition());
    assert!(of(0, 0, 1).is_filemark() && Sense { filemark: true, ..Sense::default() }.is_filemark());
    let warned = Sense { end_of_medium: true, ..of(0, 0, 2) };
    assert!(warned.is_early_warning() && !of(0, 0, 2).is_early_warning());
    assert!(of(0, 0, 7).is_programmable_early_warning());
    assert!(of(3, 0x3b, 0).is_position_lost() && !of(5, 0x3b, 0x0e).is_position_lost());
    assert!(of(0x0b, 0x10, 1).is_block_protection_error() && !of(3, 0x10, 0).is_block_protection_error());
    assert!(of(7, 0x74, 1).is_encryption());
    assert!(of(5, 0x20, 0).is_unknown_command() && !of(5, 0x24, 0).is_unknown_command());
}

#[test]
fn a_field_pointer_names_the_byte_and_the_bit() {
    let sense = Sense::invalid_field(FieldPointer { in_command: true, byte: 1, bit: Some(4) });
    assert_eq!(sense.encode()[15..18], [0xcc, 0, 1]);
    assert_eq!(Sense::decode(&sense.encode()), Ok(sense.clone()));
    assert!(sense.to_string().ends_with("at byte 1 of the command, bit 4"), "{sense}");
}

#[test]
fn what_is_no_sense_data_is_refused() {
    assert_eq!(Sense::decode(&[]).unwrap_err().fault, Fault::Short { needed: 1, have: 0 });
    assert_eq!(Sense::decode(&[0x7f; 18]).unwrap_err().at, 0);
    let fault = Sense::decode(&hex("72 05 24 00 00 00 00 04 00 02 80 00")).unwrap_err();
    assert_eq!((fault.at, fault.fault), (9, Fault::Length { field: "the length of a descriptor", value: 2 }));
    // Nothing was cut off: the descriptor is longer than the list that it stands in.
    let fault =
        Sense::decode(&hex("72 05 24 00 00 00 00 04 00 0a 80 00 00 00 00 00 00 00 00 01")).unwrap_err();
    assert_eq!((fault.at, fault.fault), (10, Fault::Short { needed: 20, have: 12 }));
}

#[test]
fn a_cut_descriptor_is_left_out_and_the_key_kept() {
    let whole = hex(DESCRIPTORS);
    let sense = Sense::decode(&whole[..15]).unwrap();
    assert_eq!((sense.key, sense.information, sense.overflow), (SenseKey::RecoveredError, None, true));
}

#[test]
fn nothing_panics() {
    any_bytes(&[hex(FIXED), hex(DESCRIPTORS)], round);
}

proptest! {
    #[test]
    fn what_begins_as_sense_data_reads_back(
        code in 0x70u8..0x74, rest in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        let mut bytes = vec![code];
        bytes.extend(rest);
        round(&bytes);
    }

    #[test]
    fn round_trips(
        key in 0u8..16, asc in any::<u8>(), ascq in any::<u8>(), marks in any::<[bool; 5]>(),
        information in proptest::option::of(any::<u32>()), specific in any::<u32>(), fru in any::<u8>(),
        descriptor in any::<bool>(),
    ) {
        let [deferred, filemark, end_of_medium, incorrect_length, overflow] = marks;
        let sense = Sense {
            format: if descriptor { SenseFormat::Descriptor } else { SenseFormat::Fixed },
            deferred, filemark, end_of_medium, incorrect_length, overflow,
            information: information.map(u64::from),
            command_specific: u64::from(specific),
            replaceable_unit: fru,
            ..Sense::new(SenseKey::of(key), asc, ascq)
        };
        prop_assert_eq!(Sense::decode(&sense.encode()), Ok(sense));
    }
}
