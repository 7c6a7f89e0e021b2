//! Commands as values and as command descriptor blocks (SPC-5, clause 6; SSC-5, clauses 5 to 7; SMC-3, clause
//! 6).
//!
//! Each set has one table of its commands and one layout of each command's fields. Encoding, decoding and the
//! usage data that REPORT SUPPORTED OPERATION CODES gives all go by them.

mod changer;
mod diagnostic;
mod primary;
mod stream;
#[cfg(test)]
mod tests;

pub use changer::{Changer, ElementAddress, ElementType};
pub use diagnostic::Diagnostic;
pub use primary::{
    AttributeService, PageControl, PersistentIn, PersistentOut, Prevention, Primary, SelectReport,
    SupportedReport,
};
pub use stream::{AllowOverwrite, Destination, FormatKind, PositionForm, RaoProcess, SpaceCode, Stream};

use crate::bytes::{Layout, Malformed};
use crate::sense::{FieldPointer, Sense, SenseKey};
use crate::transport::Cdb;

/// Which commands a logical unit has beside the primary ones: some operation codes mean different things.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommandSet {
    /// A tape drive.
    Stream,
    /// A medium changer.
    Changer,
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    /// One that every device may have (SPC-5).
    Primary(Primary),
    /// One of tape drives (SSC-5).
    Stream(Stream),
    /// One of medium changers (SMC-3).
    Changer(Changer),
}

/// Which way the data of a command goes and how many bytes at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transfer {
    /// There is none.
    None,
    /// From the device.
    In(u64),
    /// To the device.
    Out(u64),
}

impl Transfer {
    fn input(length: impl Into<u64>) -> Transfer {
        Transfer::In(length.into())
    }

    fn output(length: impl Into<u64>) -> Transfer {
        Transfer::Out(length.into())
    }
}

/// Why a command descriptor block is no command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The operation code is not known.
    #[error("operation code {0:02X}h is not known")]
    OperationCode(u8),
    /// There are fewer bytes than the operation code asks for.
    #[error("operation code {operation:02X}h has {needed} bytes, {have} came")]
    Short {
        /// The operation code.
        operation: u8,
        /// Bytes that belong to it.
        needed: usize,
        /// Bytes that came.
        have: usize,
    },
    /// A field holds what has no meaning, or a reserved bit is set.
    #[error("{name}: the field at byte {byte}, bit {bit} is not valid")]
    Field {
        /// The command.
        name: &'static str,
        /// The byte of the field.
        byte: u8,
        /// Its leftmost bit.
        bit: u8,
    },
}

impl CommandError {
    /// What a device answers.
    #[must_use]
    pub fn sense(&self) -> Sense {
        match *self {
            CommandError::OperationCode(_) | CommandError::Short { .. } => {
                Sense::new(SenseKey::IllegalRequest, 0x20, 0x00)
            }
            CommandError::Field { byte, bit, .. } => {
                Sense::invalid_field(FieldPointer { in_command: true, byte: u16::from(byte), bit: Some(bit) })
            }
        }
    }
}

/// A command of a set as its table has it.
struct Entry<T: 'static> {
    operation: u8,
    /// The service actions that it is known by, none if it has no such field.
    services: &'static [u8],
    name: &'static str,
    blank: T,
}

const fn entry<T>(operation: u8, services: &'static [u8], name: &'static str, blank: T) -> Entry<T> {
    Entry { operation, services, name, blank }
}

/// The commands of one standard.
trait Set: Copy + PartialEq + 'static {
    const TABLE: &'static [Entry<Self>];
    /// The fields behind the operation code, but for the control byte.
    fn layout(&mut self, l: &mut Layout<'_>);
    fn transfer(&self, block_length: u32) -> Transfer;

    fn entry(&self) -> Option<&'static Entry<Self>> {
        let kind = std::mem::discriminant(self);
        Self::TABLE.iter().find(|entry| std::mem::discriminant(&entry.blank) == kind)
    }

    fn encode(mut self) -> Result<Cdb, Malformed> {
        let mut bytes = [0; Cdb::LENGTH_MAX];
        let (operation, name) = self.entry().map_or((0, ""), |entry| (entry.operation, entry.name));
        bytes[0] = operation;
        let mut layout = Layout::encoder(name, &mut bytes);
        self.layout(&mut layout);
        layout.finish()?;
        let length = cdb_length(operation).unwrap_or(bytes.len());
        let own = bytes.get(..length).unwrap_or(&bytes);
        Ok(Cdb::new(own).unwrap_or_else(|_| unreachable!("every group has the length of a command")))
    }

    /// `None` if the set does not have the operation code.
    fn decode(bytes: &[u8; Cdb::LENGTH_MAX], length: usize) -> Option<Result<Self, CommandError>> {
        let [operation, first, ..] = *bytes;
        let same = || Self::TABLE.iter().filter(|entry| entry.operation == operation);
        let name = same().next()?.name;
        let fits =
            |entry: &&Entry<Self>| entry.services.is_empty() || entry.services.contains(&(first & 0x1f));
        let Some(entry) = same().find(fits) else {
            return Some(Err(CommandError::Field { name, byte: 1, bit: 4 }));
        };
        Some(entry.decode(bytes, length))
    }
}

impl<T: Set> Entry<T> {
    fn usage(&self) -> [u8; Cdb::LENGTH_MAX] {
        let mut usage = [0; Cdb::LENGTH_MAX];
        let mut blank = self.blank;
        blank.layout(&mut Layout::usage(self.name, &mut usage));
        usage[0] = self.operation;
        usage
    }

    fn decode(&self, bytes: &[u8; Cdb::LENGTH_MAX], length: usize) -> Result<T, CommandError> {
        /// NACA: an auto contingent allegiance is asked for, which no device of ours has.
        const NACA: u8 = 0x04;
        let wrong = |byte: usize, bit: u32| {
            let (byte, bit) = (u8::try_from(byte).unwrap_or(0), u8::try_from(bit).unwrap_or(7));
            CommandError::Field { name: self.name, byte, bit }
        };
        for (at, (byte, used)) in bytes.iter().zip(self.usage()).enumerate().take(length).skip(1) {
            let reserved = if at + 1 == length { byte & NACA } else { byte & !used };
            if let Some(bit) = reserved.checked_ilog2() {
                return Err(wrong(at, bit));
            }
        }
        let mut value = self.blank;
        let mut layout = Layout::decoder(self.name, bytes);
        value.layout(&mut layout);
        let bit = layout.fault_bit();
        layout.finish().map(|()| value).map_err(|fault| wrong(fault.at, bit))
    }
}

/// The length of a command with this operation code: the first three bits, the group, say it (SPC-5,
/// 4.2.5.1). `None` for commands of variable length and vendors' groups.
#[must_use]
pub fn cdb_length(operation_code: u8) -> Option<usize> {
    match operation_code >> 5 {
        0 => Some(6),
        1 | 2 => Some(10),
        4 => Some(16),
        5 => Some(12),
        _ => None,
    }
}

impl From<Primary> for Command {
    fn from(command: Primary) -> Self {
        Command::Primary(command)
    }
}

impl From<Stream> for Command {
    fn from(command: Stream) -> Self {
        Command::Stream(command)
    }
}

impl From<Changer> for Command {
    fn from(command: Changer) -> Self {
        Command::Changer(command)
    }
}

/// A command that a logical unit knows, for REPORT SUPPORTED OPERATION CODES.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownCommand {
    /// The operation code.
    pub operation: u8,
    /// The service action, if the command has one.
    pub service_action: Option<u16>,
    /// What the standard calls it.
    pub name: &'static str,
    /// The operation code, and behind it a one for each bit that the device looks at.
    pub usage: Vec<u8>,
}

impl Command {
    /// The command as it goes over the wire.
    ///
    /// # Errors
    /// If a value is too large for its field.
    pub fn encode(&self) -> Result<Cdb, Malformed> {
        match *self {
            Command::Primary(command) => command.encode(),
            Command::Stream(command) => command.encode(),
            Command::Changer(command) => command.encode(),
        }
    }

    /// Reads a command. More bytes than belong to its operation code are ignored: iSCSI always carries 16.
    ///
    /// # Errors
    /// As a device refuses it.
    pub fn decode(cdb: &Cdb, set: CommandSet) -> Result<Command, CommandError> {
        let operation = cdb.operation_code();
        let unknown = CommandError::OperationCode(operation);
        let needed = cdb_length(operation).ok_or(unknown)?;
        let have = cdb.bytes().len();
        let given = cdb.bytes().get(..needed).ok_or(CommandError::Short { operation, needed, have })?;
        let mut bytes = [0; Cdb::LENGTH_MAX];
        for (all, byte) in bytes.iter_mut().zip(given) {
            *all = *byte;
        }
        let own = match set {
            CommandSet::Stream => Stream::decode(&bytes, needed).map(|found| found.map(Command::Stream)),
            CommandSet::Changer => Changer::decode(&bytes, needed).map(|found| found.map(Command::Changer)),
        };
        let primary = || Primary::decode(&bytes, needed).map(|found| found.map(Command::Primary));
        match own {
            // The same operation code may have service actions in the other set.
            Some(Err(error)) => primary().filter(Result::is_ok).unwrap_or(Err(error)),
            Some(found) => found,
            None => primary().unwrap_or(Err(unknown)),
        }
    }

    /// What the standard calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let name = match self {
            Command::Primary(command) => command.entry().map(|entry| entry.name),
            Command::Stream(command) => command.entry().map(|entry| entry.name),
            Command::Changer(command) => command.entry().map(|entry| entry.name),
        };
        name.unwrap_or_default()
    }

    /// Its data. `block_length` counts only for READ and WRITE of blocks of fixed length.
    #[must_use]
    pub fn transfer(&self, block_length: u32) -> Transfer {
        match self {
            Command::Primary(command) => command.transfer(block_length),
            Command::Stream(command) => command.transfer(block_length),
            Command::Changer(command) => command.transfer(block_length),
        }
    }

    /// All commands of a logical unit, in order of operation codes.
    #[must_use]
    pub fn known(set: CommandSet) -> Vec<KnownCommand> {
        let mut all = known_of(Primary::TABLE);
        match set {
            CommandSet::Stream => all.extend(known_of(Stream::TABLE)),
            CommandSet::Changer => {
                all.retain(|known| !Changer::TABLE.iter().any(|own| own.operation == known.operation));
                all.extend(known_of(Changer::TABLE));
            }
        }
        all.sort_by_key(|known| (known.operation, known.service_action));
        all
    }
}

fn known_of<T: Set>(table: &'static [Entry<T>]) -> Vec<KnownCommand> {
    let one = |entry: &Entry<T>, service: Option<u8>| {
        let length = cdb_length(entry.operation).unwrap_or(Cdb::LENGTH_MAX);
        let mut usage = entry.usage();
        if let Some(service) = service {
            usage[1] = usage[1] & !0x1f | service;
        }
        KnownCommand {
            operation: entry.operation,
            service_action: service.map(u16::from),
            name: entry.name,
            usage: usage.into_iter().take(length).collect(),
        }
    };
    let mut all = Vec::new();
    for entry in table {
        if entry.services.is_empty() {
            all.push(one(entry, None));
        }
        all.extend(entry.services.iter().map(|service| one(entry, Some(*service))));
    }
    all
}
