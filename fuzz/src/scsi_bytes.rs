//! What devices and initiators of SCSI send: commands, sense data, parameter data.

use std::fmt::Debug;

use scsi::ata;
use scsi::attribute::{AttributeList, Attributes, NumberedList};
use scsi::density::{DensityReport, MediumTypeReport};
use scsi::element::ElementStatus;
use scsi::enclosure::{Additional, Configuration, Descriptors, EnclosureStatus, SlotControl, Thresholds};
use scsi::lbp::BlockProtection;
use scsi::log::{DeviceStatus, LogPage, SupportedPages, TapeAlerts, disk};
use scsi::luns::Luns;
use scsi::mode::{ModeDirection, ModeForm, ModeParameters};
use scsi::opcodes::{OneOpcode, SupportedOpcodes};
use scsi::position::{
    BlockLimits, ObjectLimit, PositionExtended, PositionLong, PositionShort, WrapEnd, WrapEnds,
};
use scsi::rao::{RaoLimits, RaoList, RaoRequest};
use scsi::reservation::{
    FullStatus, RegisterAndMove, Reservation, ReservationCapabilities, ReservationKeys, ReserveOutList,
};
use scsi::security::{
    EncryptionCapabilities, EncryptionManagement, EncryptionPages, EncryptionStatus, KeyFormats,
    NextBlockStatus, ProtocolList, SetDataEncryption,
};
use scsi::vpd::Vpd;
use scsi::{Cdb, Command, CommandSet, Inquiry, Malformed, Packed, Sense};

use crate::split;

/// What is read comes back when it is written and read again.
fn again<T: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    if let Ok(value) = decode(data) {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
}

fn packed<T: Packed + PartialEq + Debug>(data: &[u8]) {
    again(data, T::decode, T::encode);
}

fn mode(data: &[u8], form: ModeForm, direction: ModeDirection) {
    again(data, |bytes| ModeParameters::decode(bytes, form, direction), |read| read.encode(form, direction));
}

fn log(data: &[u8]) {
    again(data, LogPage::decode, LogPage::encode);
    if let Ok(page) = LogPage::decode(data) {
        for parameter in &page.parameters {
            let _ = (parameter.number(), parameter.text(), parameter.partitions());
        }
        let alerts = TapeAlerts::of_log(&page);
        assert_eq!(TapeAlerts::of_log(&alerts.to_log()), alerts);
        let _ = (TapeAlerts::of_response(&page), DeviceStatus::of_log(&page));
        let _ = (disk::Informational::of_log(&page), disk::BackgroundScan::of_log(&page));
        let _ = (disk::ports(&page), disk::life_used(&page), disk::reference_celsius(&page));
    }
}

/// The pages of an enclosure, each with its length of two bytes before it: the others go by the
/// configuration.
fn enclosure(data: &[u8]) {
    let mut rest = data;
    let mut next = || {
        let (length, behind) = rest.split_at_checked(2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let (page, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        Some(page)
    };
    let Some(page) = next() else { return };
    again(page, Configuration::decode, Configuration::encode);
    let Ok(configuration) = Configuration::decode(page) else { return };
    while let Some(page) = next() {
        again(page, |bytes| EnclosureStatus::decode(bytes, &configuration), EnclosureStatus::encode);
        again(page, |bytes| Thresholds::decode(bytes, &configuration), Thresholds::encode);
        again(page, |bytes| Descriptors::decode(bytes, &configuration), Descriptors::encode);
        if let Ok(status) = EnclosureStatus::decode(page, &configuration) {
            let _ = status.control(0, 0, SlotControl { identify: true });
        }
        if let Ok(read) = Additional::decode(page) {
            let _ = read.placed(&configuration);
        }
    }
}

fn protected(data: &[u8]) {
    for protection in [BlockProtection::Crc32c, BlockProtection::ReedSolomon] {
        let mut block = data.to_vec();
        protection.append(&mut block);
        assert_eq!(protection.verify(&block).is_ok(), !data.is_empty());
        let _ = protection.verify(data);
    }
}

/// The structures, by the first byte of an input. New ones go to the end: the kept corpus counts on the
/// order.
const DATA: &[fn(&[u8])] = &[
    packed::<Inquiry>,
    |data| again(data, Vpd::decode, Vpd::encode),
    packed::<PositionShort>,
    packed::<PositionLong>,
    packed::<PositionExtended>,
    packed::<BlockLimits>,
    packed::<ObjectLimit>,
    packed::<WrapEnd>,
    |data| again(data, WrapEnds::decode, WrapEnds::encode),
    |data| mode(data, ModeForm::Six, ModeDirection::Sense),
    |data| mode(data, ModeForm::Six, ModeDirection::Select),
    |data| mode(data, ModeForm::Ten, ModeDirection::Sense),
    |data| mode(data, ModeForm::Ten, ModeDirection::Select),
    log,
    |data| again(data, SupportedPages::decode, SupportedPages::encode),
    |data| again(data, DensityReport::decode, DensityReport::encode),
    |data| again(data, MediumTypeReport::decode, MediumTypeReport::encode),
    |data| again(data, Attributes::decode, Attributes::encode),
    |data| again(data, AttributeList::decode, AttributeList::encode),
    packed::<NumberedList>,
    |data| again(data, ElementStatus::decode, ElementStatus::encode),
    |data| again(data, SupportedOpcodes::decode, SupportedOpcodes::encode),
    |data| again(data, OneOpcode::decode, OneOpcode::encode),
    |data| again(data, RaoRequest::decode, RaoRequest::encode),
    |data| again(data, RaoList::decode, RaoList::encode),
    packed::<RaoLimits>,
    |data| again(data, ReservationKeys::decode, ReservationKeys::encode),
    |data| again(data, Reservation::decode, Reservation::encode),
    packed::<ReservationCapabilities>,
    |data| again(data, FullStatus::decode, FullStatus::encode),
    |data| again(data, ReserveOutList::decode, ReserveOutList::encode),
    |data| again(data, RegisterAndMove::decode, RegisterAndMove::encode),
    |data| again(data, ProtocolList::decode, ProtocolList::encode),
    |data| again(data, EncryptionPages::decode, EncryptionPages::encode),
    |data| again(data, EncryptionCapabilities::decode, EncryptionCapabilities::encode),
    |data| again(data, EncryptionStatus::decode, EncryptionStatus::encode),
    |data| again(data, NextBlockStatus::decode, NextBlockStatus::encode),
    |data| again(data, SetDataEncryption::decode, SetDataEncryption::encode),
    |data| again(data, Luns::decode, Luns::encode),
    protected,
    |data| again(data, KeyFormats::decode, KeyFormats::encode),
    |data| again(data, EncryptionManagement::decode_page, EncryptionManagement::encode_page),
    enclosure,
    |data| again(data, Additional::decode, Additional::encode),
    |data| drop((ata::attributes(data), ata::thresholds(data))),
];

/// Parameter data.
pub(crate) fn data(data: &[u8]) {
    let (which, rest) = split(data);
    if let Some(run) = DATA.get(usize::from(which) % DATA.len()) {
        run(rest);
    }
}

/// Sense data, and all that is asked of it.
pub(crate) fn sense(data: &[u8]) {
    again(data, Sense::decode, Sense::encode);
    if let Ok(sense) = Sense::decode(data) {
        let _ = (sense.to_string(), sense.residual(), sense.unit_attention());
    }
}

/// Commands of either set.
pub(crate) fn command(data: &[u8]) {
    let (which, rest) = split(data);
    let set = if which % 2 == 0 { CommandSet::Stream } else { CommandSet::Changer };
    let Ok(cdb) = Cdb::new(rest) else { return };
    match Command::decode(&cdb, set) {
        Ok(command) => {
            let _ = (command.transfer(u32::MAX), command.name());
            let written = command.encode();
            assert_eq!(written.map(|cdb| Command::decode(&cdb, set)), Ok(Ok(command)));
        }
        Err(error) => drop((error.sense().encode(), error.to_string())),
    }
}
