//! What a drive can do: asked for (REPORT SUPPORTED OPERATION CODES), or tried and remembered. Never assumed.

use std::collections::BTreeSet;

use ::scsi::Command;
use ::scsi::command::{Primary, SupportedReport};
use ::scsi::opcodes::SupportedOpcodes;

use super::super::unit::{Failure, Unit};

/// Operation codes of commands that not all drives have.
pub mod op {
    pub const PERSISTENT_RESERVE: u8 = 0x5f;
    pub const RESERVE: u8 = 0x16;
    pub const LOG_SENSE: u8 = 0x4d;
    pub const READ_ATTRIBUTE: u8 = 0x8c;
    pub const LOCATE_10: u8 = 0x2b;
    pub const LOCATE_16: u8 = 0x92;
    pub const GENERATE_RAO: u8 = 0xa4;
    pub const MAINTENANCE_IN: u8 = 0xa3;
    pub const REPORT_DENSITY: u8 = 0x44;
    pub const MODE_SENSE: u8 = 0x1a;
    pub const SECURITY_PROTOCOL_IN: u8 = 0xa2;
}

/// READ, which every tape drive has: a list without it is no list.
const READ: u8 = 0x08;
/// Bytes of the list of commands that are asked for: some 100 of 20 bytes are usual.
const LIST_BYTES: u32 = 16 * 1024;

/// What an archive makes use of: operation code, service action, what it is good for.
const KNOWN: [(u8, Option<u16>, &str); 9] = [
    (op::LOCATE_16, None, "locate"),
    (0x04, None, "partitions"),
    (op::READ_ATTRIBUTE, None, "cartridge memory"),
    (op::LOG_SENSE, None, "log pages"),
    (op::REPORT_DENSITY, None, "densities"),
    (op::PERSISTENT_RESERVE, Some(0), "reservations"),
    (0xb5, None, "encryption"),
    (op::GENERATE_RAO, Some(0x1d), "recommended access order"),
    (op::MAINTENANCE_IN, Some(0x1f), "ends of wraps"),
];

/// What a drive with this list of commands can do of it.
pub fn words(list: &SupportedOpcodes) -> Vec<&'static str> {
    let can = KNOWN.iter().filter(|(operation, service, _)| {
        list.0
            .iter()
            .any(|one| one.operation == *operation && (service.is_none() || one.service_action == *service))
    });
    can.map(|(_, _, word)| *word).collect()
}

/// What is known of a drive's commands.
#[derive(Default, Debug)]
pub struct Abilities {
    listed: Option<SupportedOpcodes>,
    refused: BTreeSet<(u8, u16)>,
}

impl Abilities {
    /// Asks for the list. A drive that has none is tried.
    ///
    /// # Errors
    /// Anything but a refusal.
    pub fn probe(unit: &mut Unit) -> Result<Abilities, Failure> {
        for timeouts in [true, false] {
            let command = Command::from(Primary::ReportSupportedOperationCodes {
                timeouts,
                report: SupportedReport::All,
                operation: 0,
                service_action: 0,
                allocation_length: LIST_BYTES,
            });
            match unit.ask(&command, LIST_BYTES as usize) {
                Ok(answer) => {
                    let list = SupportedOpcodes::decode(&answer).ok();
                    if let Some(list) = list.filter(|list| list.find(READ, None).is_some()) {
                        unit.believe(&list);
                        return Ok(Abilities { listed: Some(list), refused: BTreeSet::new() });
                    }
                }
                Err(failure) if failure.is_refusal() => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(Abilities::default())
    }

    /// Whether a command is worth a try.
    pub fn may(&self, operation: u8, service_action: u16) -> bool {
        let known = |list: &SupportedOpcodes| {
            list.find(operation, Some(service_action)).or(list.find(operation, None)).is_some()
        };
        !self.refused.contains(&(operation, service_action)) && self.listed.as_ref().is_none_or(known)
    }

    /// What the drive can do of what an archive makes use of, by its list; empty without one.
    pub fn words(&self) -> Vec<&'static str> {
        self.listed.as_ref().map(words).unwrap_or_default()
    }

    /// The drive has refused it: it is not asked again.
    pub fn refused(&mut self, operation: u8, service_action: u16) {
        self.refused.insert((operation, service_action));
    }
}
