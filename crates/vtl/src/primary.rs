//! The primary commands that all units have alike (SPC-5).

use iscsi::target::Nexus;
use scsi::command::{KnownCommand, PageControl, PersistentIn, Primary, SelectReport, SupportedReport};
use scsi::log::{LogPage, SupportedPages};
use scsi::luns::Luns;
use scsi::mode::{BlockDescriptor, ModeContent, ModeDirection, ModeForm, ModePage, ModeParameters};
use scsi::opcodes::{CommandTimeouts, OneOpcode, SupportedOpcodes};
use scsi::reservation::{ReservationCapabilities, ReserveOutList};
use scsi::sense::SenseFormat;
use scsi::vpd::{Association, CodeSet, Designator, DesignatorType, Vpd, VpdPage};
use scsi::{Cdb, Command, CommandSet, DeviceType, Inquiry, Lun, Packed, Sense, SenseKey, Text};

use crate::answer::{Outcome, Refusal, give, parameters};
use crate::gate::Gate;
use crate::reservation::TYPES;

/// What a unit says of itself.
pub struct Identity {
    pub device_type: DeviceType,
    pub vendor: Text<8>,
    pub product: Text<16>,
    pub revision: Text<4>,
    pub serial: String,
    /// Vital product data beside the pages 00h, 80h and 83h.
    pub more: Vec<VpdPage>,
    /// The standards that it follows (SPC-5, version descriptors).
    pub standards: [u16; 8],
}

/// SAM-5, SPC-4, iSCSI, SSC-4 and SMC-3, each without a version claimed.
pub const SAM: u16 = 0x00a0;
pub const SPC: u16 = 0x0460;
pub const ISCSI: u16 = 0x0960;
pub const SSC: u16 = 0x0520;
pub const SMC: u16 = 0x0480;

impl Identity {
    /// The T10 designator: vendor, product and serial number. The changer names its drives by theirs.
    pub fn designator(&self) -> Designator {
        let mut value = self.vendor.0.to_vec();
        value.extend(self.product.0);
        value.extend(self.serial.bytes());
        Designator {
            protocol: None,
            code_set: CodeSet::Ascii,
            association: Association::Unit,
            kind: DesignatorType::T10,
            value,
        }
    }

    /// An NAA name of the locally assigned kind (3h), from a hash of vendor, product and serial number.
    fn naa(&self) -> Designator {
        /// FNV-1a.
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let hash = self
            .designator()
            .value
            .iter()
            .fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        let name = 3 << 60 | hash >> 4;
        Designator {
            code_set: CodeSet::Binary,
            kind: DesignatorType::Naa,
            value: name.to_be_bytes().to_vec(),
            ..self.designator()
        }
    }

    fn page(&self, code: u8) -> Option<VpdPage> {
        match code {
            0x00 => {
                let more = self.more.iter().map(VpdPage::code);
                Some(VpdPage::Supported([0x00, 0x80, 0x83].into_iter().chain(more).collect()))
            }
            0x80 => Some(VpdPage::SerialNumber(self.serial.clone().into_bytes())),
            0x83 => Some(VpdPage::Identification(vec![self.designator(), self.naa()])),
            _ => self.more.iter().find(|page| page.code() == code).cloned(),
        }
    }

    fn inquiry(&self, vital: bool, page: u8) -> Result<Vec<u8>, Refusal> {
        if vital {
            let page = self.page(page).ok_or_else(|| Refusal::field(2))?;
            return Ok(Vpd { qualifier: 0, device_type: self.device_type, page }.encode());
        }
        if page != 0 {
            return Err(Refusal::field(2));
        }
        let inquiry = Inquiry {
            device_type: self.device_type,
            removable: true,
            version: 6,
            command_queue: true,
            vendor: self.vendor,
            product: self.product,
            revision: self.revision,
            standards: self.standards,
            ..Inquiry::default()
        };
        Ok(inquiry.encode())
    }
}

/// A unit for the commands that are alike.
pub struct Common<'a> {
    pub identity: &'a Identity,
    pub gate: &'a Gate,
    pub set: CommandSet,
    pub luns: &'a [Lun],
    /// Commands of the set that this unit does not have, by operation code and service action.
    pub missing: &'a [(u8, Option<u16>)],
}

impl Common<'_> {
    /// Carries a primary command out, if it is one of those that are alike.
    pub fn execute(&self, nexus: &Nexus, command: &Primary, out: &[u8], into: &mut [u8]) -> Option<Outcome> {
        Some(match *command {
            Primary::Inquiry { vital, page, allocation_length } => {
                self.identity.inquiry(vital, page).map(|data| give(&data, u64::from(allocation_length), into))
            }
            Primary::RequestSense { descriptor, allocation_length } => {
                Ok(self.request_sense(nexus, descriptor, allocation_length, into))
            }
            Primary::ReportLuns { select, allocation_length } => {
                Ok(self.report_luns(select, allocation_length, into))
            }
            Primary::ReportSupportedOperationCodes {
                timeouts,
                report,
                operation,
                service_action,
                allocation_length,
            } => self
                .opcodes(timeouts, report, operation, service_action)
                .map(|data| give(&data, u64::from(allocation_length), into)),
            Primary::PersistentReserveIn { service, allocation_length } => {
                let data = match service {
                    PersistentIn::Keys => self.gate.keys().encode(),
                    PersistentIn::Reservation => self.gate.reservation().encode(),
                    PersistentIn::Capabilities => {
                        ReservationCapabilities { types_valid: true, types: TYPES, ..Default::default() }
                            .encode()
                    }
                    PersistentIn::FullStatus => self.gate.full_status().encode(),
                };
                Ok(give(&data, u64::from(allocation_length), into))
            }
            Primary::PersistentReserveOut { service, scope, kind, length } => {
                parameters(out, u64::from(length)).and_then(|data| {
                    let list = ReserveOutList::decode(data).map_err(|error| Refusal::malformed(&error))?;
                    self.gate.persist(nexus, service, (scope, kind), &list.parameters)?;
                    Ok(data.len())
                })
            }
            Primary::Reserve6 => self.gate.reserve(nexus).map(|()| 0),
            Primary::Release6 => self.gate.release(nexus).map(|()| 0),
            Primary::PreventAllowMediumRemoval { prevention } => {
                self.gate.prevent(nexus, prevention);
                Ok(0)
            }
            _ => return None,
        })
    }

    /// The unit attention that waits, as data, or that there is none.
    fn request_sense(&self, nexus: &Nexus, descriptor: bool, allocation: u8, into: &mut [u8]) -> usize {
        let mut sense = match self.gate.take_attention(nexus) {
            Some(attention) => Sense::new(SenseKey::UnitAttention, attention.asc, attention.ascq),
            None => Sense::new(SenseKey::NoSense, 0, 0),
        };
        sense.format = if descriptor { SenseFormat::Descriptor } else { SenseFormat::Fixed };
        give(&sense.encode(), u64::from(allocation), into)
    }

    fn report_luns(&self, select: SelectReport, allocation: u32, into: &mut [u8]) -> usize {
        let luns = match select {
            SelectReport::Addressed | SelectReport::All => self.luns.to_vec(),
            // There are neither well known units nor units of units.
            _ => Vec::new(),
        };
        give(&Luns(luns).encode(), u64::from(allocation), into)
    }

    fn known(&self) -> Vec<KnownCommand> {
        let mut all = Command::known(self.set);
        all.retain(|known| {
            !self.missing.contains(&(known.operation, known.service_action))
                && !self.missing.contains(&(known.operation, None))
        });
        all
    }

    /// Refuses a command that this unit does not have: 5/20/00, and 5/24/00 if others of its operation code
    /// are known.
    pub fn check(&self, cdb: &Cdb) -> Result<(), Refusal> {
        let service = cdb.bytes().get(1).map(|byte| u16::from(byte & 0x1f));
        let operation = cdb.operation_code();
        let lacks = |missing| self.missing.contains(&missing);
        if lacks((operation, None)) {
            return Err(Refusal::illegal(0x20, 0));
        }
        if service.is_some() && lacks((operation, service)) {
            return Err(Refusal::bit(1, 4));
        }
        Ok(())
    }

    fn opcodes(
        &self,
        timeouts: bool,
        report: SupportedReport,
        operation: u8,
        service: u16,
    ) -> Result<Vec<u8>, Refusal> {
        // How long a command takes depends on the library: zero, nothing is said.
        let times = timeouts.then(CommandTimeouts::default);
        let known = self.known();
        let mut same = known.iter().filter(|one| one.operation == operation);
        let has_services = same.clone().any(|one| one.service_action.is_some());
        let one = match report {
            SupportedReport::All => {
                let mut all = SupportedOpcodes::of(&known);
                all.0.iter_mut().for_each(|one| one.timeouts.clone_from(&times));
                return Ok(all.encode());
            }
            SupportedReport::Operation if has_services => return Err(Refusal::field(2)),
            SupportedReport::Service if same.clone().next().is_some() && !has_services => {
                return Err(Refusal::field(2));
            }
            SupportedReport::Operation => same.next(),
            SupportedReport::Service => same.find(|one| one.service_action == Some(service)),
            SupportedReport::Either => {
                same.find(|one| one.service_action.is_none_or(|action| action == service))
            }
        };
        let timeouts = times.filter(|_| one.is_some());
        Ok(OneOpcode { timeouts, ..OneOpcode::of(one) }.encode())
    }
}

/// A command that no unit of this target has: REGISTER AND MOVE.
pub const MISSING: [(u8, Option<u16>); 1] = [(0x5f, Some(7))];

/// What MODE SENSE asks for.
#[derive(Clone, Copy)]
pub struct ModeRequest {
    pub form: ModeForm,
    pub no_descriptors: bool,
    pub control: PageControl,
    pub page: u8,
    pub subpage: u8,
    pub allocation: u64,
}

impl ModeRequest {
    pub fn of(command: &Primary) -> Option<ModeRequest> {
        match *command {
            Primary::ModeSense6 { no_descriptors, control, page, subpage, allocation_length } => {
                let allocation = u64::from(allocation_length);
                Some(ModeRequest { form: ModeForm::Six, no_descriptors, control, page, subpage, allocation })
            }
            Primary::ModeSense10 { no_descriptors, control, page, subpage, allocation_length, .. } => {
                let allocation = u64::from(allocation_length);
                Some(ModeRequest { form: ModeForm::Ten, no_descriptors, control, page, subpage, allocation })
            }
            _ => None,
        }
    }

    /// Whether these pages belong to the answer: one by its code, all, or all with their subpages.
    fn wants(&self, (page, subpage): (u8, Option<u8>)) -> bool {
        const ALL: u8 = 0x3f;
        const ALL_SUBPAGES: u8 = 0xff;
        let same_page = self.page == ALL || self.page == page;
        let same_subpage = self.subpage == ALL_SUBPAGES || self.subpage == subpage.unwrap_or(0);
        same_page && same_subpage
    }

    /// The answer, from all pages that the unit has.
    pub fn answer(
        &self,
        head: ModeParameters,
        descriptor: Option<BlockDescriptor>,
        pages: Vec<ModeContent>,
        into: &mut [u8],
    ) -> Outcome {
        if self.control == PageControl::Saved {
            // 5/39/00: saving parameters is not supported.
            return Err(Refusal::illegal(0x39, 0));
        }
        let pages: Vec<ModePage> =
            pages.into_iter().filter(|page| self.wants(page.code())).map(ModePage::from).collect();
        // Page 0 is that of the vendor: nothing but header and descriptor.
        if pages.is_empty() && self.page != 0 {
            return Err(Refusal::field(2));
        }
        let descriptors = descriptor.filter(|_| !self.no_descriptors).into_iter().collect();
        let parameters = ModeParameters { descriptors, pages, ..head };
        let longest = match self.form {
            ModeForm::Six => 256,
            ModeForm::Ten => 65_536,
        };
        let whole = parameters.encode(ModeForm::Ten, ModeDirection::Sense);
        if whole.len() > longest {
            return Err(Refusal::field(2));
        }
        Ok(give(&parameters.encode(self.form, ModeDirection::Sense), self.allocation, into))
    }
}

/// What MODE SELECT brings, and its length.
pub fn mode_select(command: &Primary, out: &[u8]) -> Option<Result<(ModeParameters, usize), Refusal>> {
    let (form, page_format, revert, save, length) = match *command {
        Primary::ModeSelect6 { page_format, revert, save, length } => {
            (ModeForm::Six, page_format, revert, save, u64::from(length))
        }
        Primary::ModeSelect10 { page_format, revert, save, length } => {
            (ModeForm::Ten, page_format, revert, save, u64::from(length))
        }
        _ => return None,
    };
    let read = || {
        if save {
            return Err(Refusal::bit(1, 0));
        }
        if revert {
            return Err(Refusal::bit(1, 1));
        }
        let data = parameters(out, length)?;
        if data.is_empty() {
            return Ok((ModeParameters::default(), 0));
        }
        let all = ModeParameters::decode(data, form, ModeDirection::Select)
            .map_err(|error| Refusal::malformed(&error))?;
        if !page_format && !all.pages.is_empty() {
            return Err(Refusal::bit(1, 4));
        }
        Ok((all, data.len()))
    };
    Some(read())
}

/// LOG SENSE: the list of pages, or one of them.
pub fn log_sense(
    command: &Primary,
    codes: &[u8],
    page_of: impl FnOnce(u8) -> Result<LogPage, Refusal>,
    into: &mut [u8],
) -> Outcome {
    let Primary::LogSense { save, control, page, subpage, parameter, allocation_length } = *command else {
        return Err(Refusal::illegal(0x20, 0));
    };
    if save {
        return Err(Refusal::bit(1, 0));
    }
    // Of counters, what they are; there are no thresholds.
    if !matches!(control, PageControl::CUMULATIVE | PageControl::Current) {
        return Err(Refusal::bit(2, 7));
    }
    let listed = || codes.iter().map(|code| (*code, 0));
    let data = match (page, subpage) {
        (0, 0) => SupportedPages { with_subpages: false, pages: listed().collect() }.encode(),
        (0, 0xff) => {
            let pages = listed().chain([(0, 0xff)]).collect();
            SupportedPages { with_subpages: true, pages }.encode()
        }
        (code, 0) if codes.contains(&code) => {
            let mut page = page_of(code)?;
            page.parameters.retain(|one| one.code >= parameter);
            if page.parameters.is_empty() {
                return Err(Refusal::field(5));
            }
            page.encode()
        }
        (_, 0) => return Err(Refusal::field(2)),
        _ => return Err(Refusal::field(3)),
    };
    Ok(give(&data, u64::from(allocation_length), into))
}
