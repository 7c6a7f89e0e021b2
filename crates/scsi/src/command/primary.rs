//! The primary commands (SPC-5, clause 6).

use super::{Entry, Set, Transfer, entry};
use crate::bytes::Layout;
use crate::code::codes;

codes! {
    closed
    /// Which values of mode pages, or of log parameters, are meant (SPC-5, 6.14.1 and 6.8.1).
    PageControl {
        Current = 0 "current values (of a log: thresholds)",
        Changeable = 1 "changeable values (of a log: cumulative values)",
        Default = 2 "default values (of a log: default thresholds)",
        Saved = 3 "saved values (of a log: default cumulative values)",
    }
}

impl PageControl {
    /// What a log page is asked for: cumulative values.
    pub const CUMULATIVE: PageControl = PageControl::Changeable;
}

codes! {
    closed
    /// Whether a medium may be taken out (SPC-5, 6.18; SMC-3, 6.9).
    Prevention {
        Allow = 0 "removal is allowed",
        Prevent = 1 "removal from the device is prevented",
        PreventAttached = 2 "removal from the attached changer is prevented (obsolete)",
        PreventBoth = 3 "removal from both is prevented (obsolete)",
    }
}

codes! {
    closed
    /// What REPORT LUNS lists (SPC-5, 6.33).
    SelectReport {
        Addressed = 0x00 "logical units without well known ones",
        WellKnown = 0x01 "well known logical units only",
        All = 0x02 "all logical units",
        Administrative = 0x10 "administrative logical units",
        AdministrativeAndMore = 0x11 "administrative logical units and those that are not conglomerates",
        Subsidiary = 0x12 "subsidiary logical units",
    }
}

codes! {
    closed
    /// What REPORT SUPPORTED OPERATION CODES tells (SPC-5, 6.35).
    SupportedReport {
        All = 0 "all commands",
        Operation = 1 "one operation code, which has no service actions",
        Service = 2 "one operation code with a service action",
        Either = 3 "one operation code, with a service action if it has any",
    }
}

codes! {
    closed
    /// What READ ATTRIBUTE gives (SPC-5, 6.20).
    AttributeService {
        Values = 0x00 "attribute values",
        List = 0x01 "the list of attributes",
        LogicalVolumes = 0x02 "the list of logical volumes",
        Partitions = 0x03 "the list of partitions",
        Supported = 0x05 "the attributes that are supported",
    }
}

codes! {
    closed
    /// What PERSISTENT RESERVE IN gives (SPC-5, 6.16).
    PersistentIn {
        Keys = 0 "registered keys",
        Reservation = 1 "the reservation",
        Capabilities = 2 "capabilities",
        FullStatus = 3 "all registrations and reservations",
    }
}

codes! {
    closed
    /// What PERSISTENT RESERVE OUT does (SPC-5, 6.17).
    PersistentOut {
        Register = 0 "registers a key, or takes it back",
        Reserve = 1 "makes a reservation",
        Release = 2 "releases the reservation",
        Clear = 3 "clears all registrations and the reservation",
        Preempt = 4 "takes the place of another holder",
        PreemptAndAbort = 5 "takes the place of another holder and aborts its commands",
        RegisterAndIgnoreKey = 6 "registers a key whatever was registered",
        RegisterAndMove = 7 "hands registration and reservation over to another initiator",
    }
}

/// A command that every device may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // The fields have the names of the standard; lengths are in bytes.
pub enum Primary {
    /// Whether the device is ready.
    TestUnitReady,
    /// Sense data without an error; `descriptor`: in that format.
    RequestSense { descriptor: bool, allocation_length: u8 },
    /// What the device is; with `vital`, the page of vital product data.
    Inquiry { vital: bool, page: u8, allocation_length: u16 },
    /// Sets mode pages.
    ModeSelect6 { page_format: bool, revert: bool, save: bool, length: u8 },
    /// Reads mode pages.
    ModeSense6 { no_descriptors: bool, control: PageControl, page: u8, subpage: u8, allocation_length: u8 },
    /// Sets mode pages.
    ModeSelect10 { page_format: bool, revert: bool, save: bool, length: u16 },
    /// Reads mode pages.
    ModeSense10 {
        long_lba: bool,
        no_descriptors: bool,
        control: PageControl,
        page: u8,
        subpage: u8,
        allocation_length: u16,
    },
    /// Resets or sets log parameters.
    LogSelect { reset: bool, save: bool, control: PageControl, page: u8, subpage: u8, length: u16 },
    /// Reads a log page from the parameter on.
    LogSense {
        save: bool,
        control: PageControl,
        page: u8,
        subpage: u8,
        parameter: u16,
        allocation_length: u16,
    },
    /// Whether media may be taken out.
    PreventAllowMediumRemoval { prevention: Prevention },
    /// The logical units of the target.
    ReportLuns { select: SelectReport, allocation_length: u32 },
    /// The commands that the device knows.
    ReportSupportedOperationCodes {
        timeouts: bool,
        report: SupportedReport,
        operation: u8,
        service_action: u16,
        allocation_length: u32,
    },
    /// Attributes of a medium's memory; `element`: of a changer.
    ReadAttribute {
        service: AttributeService,
        element: u16,
        element_type: u8,
        volume: u8,
        partition: u8,
        first: u16,
        allocation_length: u32,
        cached: bool,
    },
    /// Sets attributes of a medium's memory; `through`: not only in a cache.
    WriteAttribute { through: bool, element: u16, element_type: u8, volume: u8, partition: u8, length: u32 },
    /// Reads a page of a security protocol; with `blocks`, the length counts 512 bytes.
    SecurityProtocolIn { protocol: u8, specific: u16, blocks: bool, allocation_length: u32 },
    /// Sets a page of a security protocol.
    SecurityProtocolOut { protocol: u8, specific: u16, blocks: bool, length: u32 },
    /// Reads persistent reservations.
    PersistentReserveIn { service: PersistentIn, allocation_length: u16 },
    /// Changes persistent reservations.
    PersistentReserveOut { service: PersistentOut, scope: u8, kind: u8, length: u32 },
    /// Reserves the logical unit for this initiator (SPC-2).
    Reserve6,
    /// Ends that (SPC-2).
    Release6,
}

impl Set for Primary {
    const TABLE: &'static [Entry<Self>] = {
        use Primary as P;
        &[
            entry(0x00, &[], "TEST UNIT READY", P::TestUnitReady),
            entry(0x03, &[], "REQUEST SENSE", P::RequestSense { descriptor: false, allocation_length: 0 }),
            entry(0x12, &[], "INQUIRY", P::Inquiry { vital: false, page: 0, allocation_length: 0 }),
            entry(
                0x15,
                &[],
                "MODE SELECT(6)",
                P::ModeSelect6 { page_format: false, revert: false, save: false, length: 0 },
            ),
            entry(0x16, &[], "RESERVE(6)", P::Reserve6),
            entry(0x17, &[], "RELEASE(6)", P::Release6),
            entry(
                0x1a,
                &[],
                "MODE SENSE(6)",
                P::ModeSense6 {
                    no_descriptors: false,
                    control: PageControl::Current,
                    page: 0,
                    subpage: 0,
                    allocation_length: 0,
                },
            ),
            entry(
                0x1e,
                &[],
                "PREVENT ALLOW MEDIUM REMOVAL",
                P::PreventAllowMediumRemoval { prevention: Prevention::Allow },
            ),
            entry(
                0x4c,
                &[],
                "LOG SELECT",
                P::LogSelect {
                    reset: false,
                    save: false,
                    control: PageControl::Current,
                    page: 0,
                    subpage: 0,
                    length: 0,
                },
            ),
            entry(
                0x4d,
                &[],
                "LOG SENSE",
                P::LogSense {
                    save: false,
                    control: PageControl::Current,
                    page: 0,
                    subpage: 0,
                    parameter: 0,
                    allocation_length: 0,
                },
            ),
            entry(
                0x55,
                &[],
                "MODE SELECT(10)",
                P::ModeSelect10 { page_format: false, revert: false, save: false, length: 0 },
            ),
            entry(
                0x5a,
                &[],
                "MODE SENSE(10)",
                P::ModeSense10 {
                    long_lba: false,
                    no_descriptors: false,
                    control: PageControl::Current,
                    page: 0,
                    subpage: 0,
                    allocation_length: 0,
                },
            ),
            entry(
                0x5e,
                &[0, 1, 2, 3],
                "PERSISTENT RESERVE IN",
                P::PersistentReserveIn { service: PersistentIn::Keys, allocation_length: 0 },
            ),
            entry(
                0x5f,
                &[0, 1, 2, 3, 4, 5, 6, 7],
                "PERSISTENT RESERVE OUT",
                P::PersistentReserveOut { service: PersistentOut::Register, scope: 0, kind: 0, length: 0 },
            ),
            entry(
                0x8c,
                &[0, 1, 2, 3, 5],
                "READ ATTRIBUTE",
                P::ReadAttribute {
                    service: AttributeService::Values,
                    element: 0,
                    element_type: 0,
                    volume: 0,
                    partition: 0,
                    first: 0,
                    allocation_length: 0,
                    cached: false,
                },
            ),
            entry(
                0x8d,
                &[],
                "WRITE ATTRIBUTE",
                P::WriteAttribute {
                    through: false,
                    element: 0,
                    element_type: 0,
                    volume: 0,
                    partition: 0,
                    length: 0,
                },
            ),
            entry(
                0xa0,
                &[],
                "REPORT LUNS",
                P::ReportLuns { select: SelectReport::Addressed, allocation_length: 0 },
            ),
            entry(
                0xa2,
                &[],
                "SECURITY PROTOCOL IN",
                P::SecurityProtocolIn { protocol: 0, specific: 0, blocks: false, allocation_length: 0 },
            ),
            entry(
                0xa3,
                &[0x0c],
                "REPORT SUPPORTED OPERATION CODES",
                P::ReportSupportedOperationCodes {
                    timeouts: false,
                    report: SupportedReport::All,
                    operation: 0,
                    service_action: 0,
                    allocation_length: 0,
                },
            ),
            entry(
                0xb5,
                &[],
                "SECURITY PROTOCOL OUT",
                P::SecurityProtocolOut { protocol: 0, specific: 0, blocks: false, length: 0 },
            ),
        ]
    };

    fn layout(&mut self, l: &mut Layout<'_>) {
        match self {
            Primary::TestUnitReady | Primary::Reserve6 | Primary::Release6 => {}
            Primary::RequestSense { descriptor, allocation_length } => {
                l.flag(1, 0, descriptor);
                l.number(4, 1, allocation_length);
            }
            Primary::Inquiry { vital, page, allocation_length } => {
                l.flag(1, 0, vital);
                l.number(2, 1, page);
                l.number(3, 2, allocation_length);
            }
            Primary::ModeSelect6 { page_format, revert, save, length } => {
                mode_select(l, page_format, revert, save);
                l.number(4, 1, length);
            }
            Primary::ModeSelect10 { page_format, revert, save, length } => {
                mode_select(l, page_format, revert, save);
                l.number(7, 2, length);
            }
            Primary::ModeSense6 { no_descriptors, control, page, subpage, allocation_length } => {
                l.flag(1, 3, no_descriptors);
                page_of(l, control, page, subpage);
                l.number(4, 1, allocation_length);
            }
            Primary::ModeSense10 { long_lba, no_descriptors, control, page, subpage, allocation_length } => {
                l.flag(1, 4, long_lba);
                l.flag(1, 3, no_descriptors);
                page_of(l, control, page, subpage);
                l.number(7, 2, allocation_length);
            }
            Primary::LogSelect { reset, save, control, page, subpage, length } => {
                l.flag(1, 1, reset);
                l.flag(1, 0, save);
                page_of(l, control, page, subpage);
                l.number(7, 2, length);
            }
            Primary::LogSense { save, control, page, subpage, parameter, allocation_length } => {
                l.flag(1, 0, save);
                page_of(l, control, page, subpage);
                l.number(5, 2, parameter);
                l.number(7, 2, allocation_length);
            }
            Primary::PreventAllowMediumRemoval { prevention } => l.code(4, 0, 2, "PREVENT", prevention),
            Primary::ReportLuns { select, allocation_length } => {
                l.code(2, 0, 8, "SELECT REPORT", select);
                l.number(6, 4, allocation_length);
            }
            Primary::ReportSupportedOperationCodes {
                timeouts,
                report,
                operation,
                service_action,
                allocation_length,
            } => {
                l.service(0x0c);
                l.flag(2, 7, timeouts);
                l.code(2, 0, 3, "REPORTING OPTIONS", report);
                l.number(3, 1, operation);
                l.number(4, 2, service_action);
                l.number(6, 4, allocation_length);
            }
            Primary::ReadAttribute {
                service,
                element,
                element_type,
                volume,
                partition,
                first,
                allocation_length,
                cached,
            } => {
                l.code(1, 0, 5, "SERVICE ACTION", service);
                attribute_of(l, element, element_type, volume, partition);
                l.number(8, 2, first);
                l.number(10, 4, allocation_length);
                l.flag(14, 0, cached);
            }
            Primary::WriteAttribute { through, element, element_type, volume, partition, length } => {
                l.flag(1, 0, through);
                attribute_of(l, element, element_type, volume, partition);
                l.number(10, 4, length);
            }
            Primary::SecurityProtocolIn { protocol, specific, blocks, allocation_length: length }
            | Primary::SecurityProtocolOut { protocol, specific, blocks, length } => {
                l.number(1, 1, protocol);
                l.number(2, 2, specific);
                l.flag(4, 7, blocks);
                l.number(6, 4, length);
            }
            Primary::PersistentReserveIn { service, allocation_length } => {
                l.code(1, 0, 5, "SERVICE ACTION", service);
                l.number(7, 2, allocation_length);
            }
            Primary::PersistentReserveOut { service, scope, kind, length } => {
                l.code(1, 0, 5, "SERVICE ACTION", service);
                l.bits(2, 4, 4, scope);
                l.bits(2, 0, 4, kind);
                l.number(5, 4, length);
            }
        }
    }

    fn transfer(&self, _block_length: u32) -> Transfer {
        let blocks = |count: u32, blocks: bool| u64::from(count) * if blocks { 512 } else { 1 };
        match *self {
            Primary::TestUnitReady
            | Primary::Reserve6
            | Primary::Release6
            | Primary::PreventAllowMediumRemoval { .. } => Transfer::None,
            Primary::RequestSense { allocation_length, .. }
            | Primary::ModeSense6 { allocation_length, .. } => Transfer::input(allocation_length),
            Primary::Inquiry { allocation_length, .. }
            | Primary::ModeSense10 { allocation_length, .. }
            | Primary::LogSense { allocation_length, .. }
            | Primary::PersistentReserveIn { allocation_length, .. } => Transfer::input(allocation_length),
            Primary::ReportLuns { allocation_length, .. }
            | Primary::ReportSupportedOperationCodes { allocation_length, .. }
            | Primary::ReadAttribute { allocation_length, .. } => Transfer::input(allocation_length),
            Primary::SecurityProtocolIn { blocks: b, allocation_length, .. } => {
                Transfer::In(blocks(allocation_length, b))
            }
            Primary::ModeSelect6 { length, .. } => Transfer::output(length),
            Primary::ModeSelect10 { length, .. } | Primary::LogSelect { length, .. } => {
                Transfer::output(length)
            }
            Primary::WriteAttribute { length, .. } | Primary::PersistentReserveOut { length, .. } => {
                Transfer::output(length)
            }
            Primary::SecurityProtocolOut { blocks: b, length, .. } => Transfer::Out(blocks(length, b)),
        }
    }
}

fn mode_select(l: &mut Layout<'_>, page_format: &mut bool, revert: &mut bool, save: &mut bool) {
    l.flag(1, 4, page_format);
    l.flag(1, 1, revert);
    l.flag(1, 0, save);
}

fn page_of(l: &mut Layout<'_>, control: &mut PageControl, page: &mut u8, subpage: &mut u8) {
    l.code(2, 6, 2, "PC", control);
    l.bits(2, 0, 6, page);
    l.number(3, 1, subpage);
}

/// Whose attributes they are (SPC-5, 6.20; the element as SMC-3 has it).
fn attribute_of(
    l: &mut Layout<'_>,
    element: &mut u16,
    element_type: &mut u8,
    volume: &mut u8,
    partition: &mut u8,
) {
    l.number(2, 2, element);
    l.bits(4, 0, 4, element_type);
    l.number(5, 1, volume);
    l.number(7, 1, partition);
}
