//! A tape drive without a tape: it counts blocks, and gives the same one each time, as protected as it is
//! set.

use std::sync::{Mutex, MutexGuard, PoisonError};

use iscsi::login::Name;
use iscsi::pdu::Lun;
use iscsi::target::{LogicalUnits, Nexus};
use scsi::lbp::BlockProtection;
use scsi::mode::{
    ControlDataProtection, ModeContent, ModeDirection, ModeForm, ModePage, ModeParameters, ProtectionMethod,
};
use scsi::position::PositionLong;
use scsi::vpd::{Vpd, VpdPage};
use scsi::{Cdb, Completion, Data, DeviceType, Inquiry, Packed, Sense, SenseKey, Status, Text};

use super::way::{TARGET, name};

/// The drive.
pub struct NullDrive {
    target: Name,
    /// A block, and its checksum behind it.
    block: Vec<u8>,
    state: Mutex<State>,
}

struct State {
    at: u64,
    protection: ControlDataProtection,
}

impl NullDrive {
    pub fn new(length: usize) -> Result<NullDrive, String> {
        let mut block: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
        BlockProtection::Crc32c.append(&mut block);
        let state = Mutex::new(State { at: 0, protection: ControlDataProtection::default() });
        Ok(NullDrive { target: name(TARGET)?, block, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries a command out; `None`: the drive does not have it.
    pub fn answer(&self, cdb: &Cdb, data: Data<'_>) -> Completion {
        match self.carried_out(cdb, data) {
            Some(transferred) => Completion { status: Status::Good, sense: Vec::new(), transferred },
            None => {
                let sense = Sense::new(SenseKey::IllegalRequest, 0x20, 0x00).encode();
                Completion { status: Status::CheckCondition, sense, transferred: 0 }
            }
        }
    }

    fn carried_out(&self, cdb: &Cdb, mut data: Data<'_>) -> Option<usize> {
        let length = data.length();
        let byte = |at: usize| cdb.bytes().get(at).copied().unwrap_or(0);
        let mut state = self.lock();
        match (cdb.operation_code(), byte(1), byte(2)) {
            // TEST UNIT READY, LOAD UNLOAD, PREVENT ALLOW MEDIUM REMOVAL.
            (0x00 | 0x1b | 0x1e, ..) => Some(0),
            (0x01, ..) => {
                state.at = 0;
                Some(0)
            }
            // LOCATE(16): the object.
            (0x92, ..) => {
                state.at = u64::from_be_bytes(*cdb.bytes().get(4..)?.first_chunk()?);
                Some(0)
            }
            (0x10, ..) => {
                state.at += u64::from(byte(4));
                Some(0)
            }
            (0x0a, ..) => {
                state.at += 1;
                Some(length)
            }
            (0x08, ..) => {
                state.at += 1;
                let [first, second] = data.in_range(0..length)?;
                let (block, checksum) = self.block.get(..length)?.split_at(first.len());
                first.copy_from_slice(block);
                second.copy_from_slice(checksum);
                Some(length)
            }
            (0x34, ..) => {
                let at = PositionLong { begin: state.at == 0, object: state.at, ..PositionLong::default() };
                given(&at.encode(), data)
            }
            (0x12, 0, _) => {
                let inquiry = Inquiry {
                    device_type: DeviceType::Tape,
                    removable: true,
                    version: 6,
                    response_format: 2,
                    vendor: Text::new("KIST")?,
                    product: Text::new("NO TAPE")?,
                    ..Inquiry::default()
                };
                given(&inquiry.encode(), data)
            }
            (0x12, _, 0x80) => {
                let page = VpdPage::SerialNumber(b"NOTAPE".to_vec());
                let vital = Vpd { qualifier: 0, device_type: DeviceType::Tape, page };
                given(&vital.encode(), data)
            }
            // MODE SENSE(6) of the protection.
            (0x1a, _, 0x0a) if byte(3) == 0xf0 => {
                let content = ModeContent::ControlDataProtection(state.protection.clone());
                let pages = vec![ModePage::from(content)];
                let all = ModeParameters { buffered: 1, pages, ..ModeParameters::default() };
                given(&all.encode(ModeForm::Six, ModeDirection::Sense), data)
            }
            (0x15, ..) => {
                let out = data.out_range(0..length)?.concat();
                let all = ModeParameters::decode(&out, ModeForm::Six, ModeDirection::Select).ok()?;
                for page in all.pages {
                    if let ModeContent::ControlDataProtection(page) = page.content {
                        let known = [ProtectionMethod::None, ProtectionMethod::Crc32c];
                        known.contains(&page.method).then(|| state.protection = page)?;
                    }
                }
                Some(length)
            }
            _ => None,
        }
    }
}

fn given(answer: &[u8], mut data: Data<'_>) -> Option<usize> {
    let length = answer.len().min(data.length());
    let into = data.in_range(0..length)?;
    into.into_iter().flatten().zip(answer).for_each(|(to, from)| *to = *from);
    Some(length)
}

impl LogicalUnits for NullDrive {
    fn targets(&self) -> Vec<Name> {
        vec![self.target.clone()]
    }

    fn luns(&self, _: &Name) -> Vec<Lun> {
        vec![Lun::default()]
    }

    fn execute(&self, _: &Nexus, _: Lun, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        self.answer(cdb, if into.is_empty() { Data::Out(out) } else { Data::In(into) })
    }
}
