//! Which drive it is: by serial number and identifiers, never by the name of a device file.

use ::scsi::command::Primary;
use ::scsi::vpd::{Association, Designator, DesignatorType, Vpd, VpdPage};
use ::scsi::{Command, DeviceType, Inquiry, Packed};

use super::super::unit::{Failure, Unit};

/// Bytes of an INQUIRY answer that are asked for.
const ANSWER_BYTES: u16 = 1024;
/// Bytes of standard INQUIRY data: older devices refuse to be asked for more than a byte can say.
const STANDARD_BYTES: u16 = 96;

/// What tells a drive from all others.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DriveIdentity {
    /// Its serial number (page 80h).
    pub serial: String,
    /// Its identifiers (page 83h): those of the unit, not of the way to it. Empty if it has none.
    pub designators: Vec<Designator>,
}

impl DriveIdentity {
    /// A drive of which only the serial number is known, as from a configuration.
    #[must_use]
    pub fn of_serial(serial: &str) -> DriveIdentity {
        DriveIdentity { serial: serial.to_owned(), designators: Vec::new() }
    }

    /// Whether what was found is the drive that was expected: the serial number is the same, and if both have
    /// identifiers that are unique in the world, one of them at least.
    #[must_use]
    pub fn is(&self, found: &DriveIdentity) -> bool {
        let has_all = self.designators.is_empty() || found.designators.is_empty();
        let shares = self.designators.iter().any(|one| found.designators.contains(one));
        self.serial == found.serial && (has_all || shares)
    }
}

/// Whether an identifier is of the unit itself and unique: a vendor's text may be that of a model.
fn is_unique(designator: &Designator) -> bool {
    designator.association == Association::Unit
        && matches!(
            designator.kind,
            DesignatorType::T10
                | DesignatorType::Eui64
                | DesignatorType::Naa
                | DesignatorType::Name
                | DesignatorType::Uuid
        )
}

fn inquiry(vital: bool, page: u8, allocation_length: u16) -> Command {
    Command::from(Primary::Inquiry { vital, page, allocation_length })
}

/// A page of vital product data, `None` if the device has none such.
fn page(unit: &mut Unit, code: u8) -> Result<Option<VpdPage>, Failure> {
    match unit.ask(&inquiry(true, code, ANSWER_BYTES), usize::from(ANSWER_BYTES)) {
        Ok(answer) => {
            let page = Vpd::decode(&answer).map_err(Failure::Strange)?.page;
            Ok(Some(page).filter(|page| page.code() == code))
        }
        Err(failure) if failure.is_refusal() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What the device says that it is. INQUIRY is answered whatever condition waits, and leaves it waiting.
///
/// # Errors
/// If it does not answer.
pub fn read(unit: &mut Unit) -> Result<(Inquiry, DriveIdentity), Failure> {
    let answer = unit.ask(&inquiry(false, 0, STANDARD_BYTES), usize::from(STANDARD_BYTES))?;
    let standard = Inquiry::decode(&answer).map_err(Failure::Strange)?;
    let serial = page(unit, 0x80)?.map(|page| page.serial()).unwrap_or_default();
    let designators = match page(unit, 0x83)? {
        Some(VpdPage::Identification(all)) => all.into_iter().filter(is_unique).collect(),
        _ => Vec::new(),
    };
    Ok((standard, DriveIdentity { serial, designators }))
}

/// Whether a tape drive answered.
pub fn is_tape(inquiry: &Inquiry) -> bool {
    inquiry.qualifier == 0 && inquiry.device_type == DeviceType::Tape
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::scsi::vpd::CodeSet;

    fn named(value: u8) -> Designator {
        Designator {
            protocol: None,
            code_set: CodeSet::Binary,
            association: Association::Unit,
            kind: DesignatorType::Naa,
            value: vec![value; 8],
        }
    }

    #[test]
    fn a_drive_is_told_by_serial_and_identifiers() {
        let drive = |serial: &str, ids: &[u8]| DriveIdentity {
            serial: serial.to_owned(),
            designators: ids.iter().map(|id| named(*id)).collect(),
        };
        let ours = drive("1068001234", &[1, 2]);
        assert!(ours.is(&drive("1068001234", &[2, 3])));
        assert!(DriveIdentity::of_serial("1068001234").is(&ours));
        for other in [drive("1068001235", &[1, 2]), drive("1068001234", &[3]), drive("", &[1, 2])] {
            assert!(!ours.is(&other), "{other:?}");
        }
    }
}
