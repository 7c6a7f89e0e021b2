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
use scsi::{Cdb, Completion, DeviceType, Inquiry, Packed, Sense, SenseKey, Status, Text};

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
    pub fn answer(&self, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        match self.carried_out(cdb, out, into) {
            Some(transferred) => Completion { status: Status::Good, sense: Vec::new(), transferred },
            None => {
                let sense = Sense::new(SenseKey::IllegalRequest, 0x20, 0x00).encode();
                Completion { status: Status::CheckCondition, sense, transferred: 0 }
            }
        }
    }

    fn carried_out(&self, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Option<usize> {
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
                Some(out.len())
            }
            (0x08, ..) => {
                state.at += 1;
                let block = self.block.get(..into.len())?;
                into.copy_from_slice(block);
                Some(into.len())
            }
            (0x34, ..) => {
                let at = PositionLong { begin: state.at == 0, object: state.at, ..PositionLong::default() };
                Some(given(&at.encode(), into))
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
                Some(given(&inquiry.encode(), into))
            }
            (0x12, _, 0x80) => {
                let page = VpdPage::SerialNumber(b"NOTAPE".to_vec());
                let vital = Vpd { qualifier: 0, device_type: DeviceType::Tape, page };
                Some(given(&vital.encode(), into))
            }
            // MODE SENSE(6) of the protection.
            (0x1a, _, 0x0a) if byte(3) == 0xf0 => {
                let content = ModeContent::ControlDataProtection(state.protection.clone());
                let pages = vec![ModePage::from(content)];
                let all = ModeParameters { buffered: 1, pages, ..ModeParameters::default() };
                Some(given(&all.encode(ModeForm::Six, ModeDirection::Sense), into))
            }
            (0x15, ..) => {
                let all = ModeParameters::decode(out, ModeForm::Six, ModeDirection::Select).ok()?;
                for page in all.pages {
                    if let ModeContent::ControlDataProtection(page) = page.content {
                        let known = [ProtectionMethod::None, ProtectionMethod::Crc32c];
                        known.contains(&page.method).then(|| state.protection = page)?;
                    }
                }
                Some(out.len())
            }
            _ => None,
        }
    }
}

fn given(answer: &[u8], into: &mut [u8]) -> usize {
    into.iter_mut().zip(answer).for_each(|(to, from)| *to = *from);
    answer.len().min(into.len())
}

impl LogicalUnits for NullDrive {
    fn targets(&self) -> Vec<Name> {
        vec![self.target.clone()]
    }

    fn luns(&self, _: &Name) -> Vec<Lun> {
        vec![Lun::default()]
    }

    fn execute(&self, _: &Nexus, _: Lun, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        self.answer(cdb, out, into)
    }
}
