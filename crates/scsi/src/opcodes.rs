//! Which commands a device knows: REPORT SUPPORTED OPERATION CODES (SPC-5, 6.35).

use crate::bytes::{Fault, Layout, Malformed, Packed, Reader, set_length};
use crate::code::codes;
use crate::command::KnownCommand;

/// How long a command takes (SPC-5, 6.35.4), in seconds. Zero: nothing is said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommandTimeouts {
    /// What the standard of the command says.
    pub command_specific: u8,
    /// What it usually takes, before it is worth asking.
    pub nominal_seconds: u32,
    /// When to give it up.
    pub recommended_seconds: u32,
}

/// Behind the length of two bytes.
impl Packed for CommandTimeouts {
    const NAME: &'static str = "command timeouts descriptor";
    const LENGTH: usize = 10;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(1, 1, &mut self.command_specific);
        l.number(2, 4, &mut self.nominal_seconds);
        l.number(6, 4, &mut self.recommended_seconds);
    }
}

fn timeouts(reader: &mut Reader<'_>) -> Result<CommandTimeouts, Malformed> {
    let length = reader.length16()?;
    reader.packed_in(length)
}

fn put_timeouts(out: &mut Vec<u8>, timeouts: &CommandTimeouts) {
    out.extend([0, 10]);
    out.extend(timeouts.encode());
}

/// A command in the list of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SupportedOpcode {
    /// The operation code.
    pub operation: u8,
    /// The service action, if the command has one.
    pub service_action: Option<u16>,
    /// The length of the command in bytes.
    pub length: u16,
    /// How long it takes, if that was asked for.
    pub timeouts: Option<CommandTimeouts>,
}

/// The answer that lists all commands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SupportedOpcodes(pub Vec<SupportedOpcode>);

impl SupportedOpcodes {
    const NAME: &'static str = "all_commands parameter data";

    /// What a device of ours that knows these commands answers.
    #[must_use]
    pub fn of(known: &[KnownCommand]) -> SupportedOpcodes {
        let one = |known: &KnownCommand| SupportedOpcode {
            operation: known.operation,
            service_action: known.service_action,
            length: u16::try_from(known.usage.len()).unwrap_or(u16::MAX),
            timeouts: None,
        };
        SupportedOpcodes(known.iter().map(one).collect())
    }

    /// Whether a command is in the list, with the service action if it has any.
    #[must_use]
    pub fn find(&self, operation: u8, service_action: Option<u16>) -> Option<&SupportedOpcode> {
        self.0.iter().find(|one| one.operation == operation && one.service_action == service_action)
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or a descriptor is.
    pub fn decode(bytes: &[u8]) -> Result<SupportedOpcodes, Malformed> {
        let mut reader = Reader::new(SupportedOpcodes::NAME, bytes);
        let length = reader.length32()?;
        let mut list = reader.part(SupportedOpcodes::NAME, length)?;
        let mut all = Vec::new();
        while !list.is_empty() {
            let [operation, _, high, low, _, flags] = list.array()?;
            let length = list.u16()?;
            all.push(SupportedOpcode {
                operation,
                service_action: (flags & 0x01 != 0).then_some(u16::from_be_bytes([high, low])),
                length,
                timeouts: if flags & 0x02 == 0 { None } else { Some(timeouts(&mut list)?) },
            });
        }
        Ok(SupportedOpcodes(all))
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        for one in &self.0 {
            out.extend([one.operation, 0]);
            out.extend(one.service_action.unwrap_or(0).to_be_bytes());
            let timed = u8::from(one.timeouts.is_some()) << 1;
            out.extend([0, timed | u8::from(one.service_action.is_some())]);
            out.extend(one.length.to_be_bytes());
            one.timeouts.iter().for_each(|timeouts| put_timeouts(&mut out, timeouts));
        }
        let length = out.len() - 4;
        set_length(&mut out, 0, 4, length);
        out
    }
}

codes! {
    open
    /// Whether a device knows a command.
    Support {
        Unknown = 0 "not known at the moment",
        No = 1 "not supported",
        Standard = 3 "supported as the standard says",
        Vendor = 5 "supported in the vendor's way",
    }
}

/// The answer about one command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OneOpcode {
    /// Whether it is supported.
    pub support: Support,
    /// The operation code, and behind it a one for each bit that the device looks at. Empty if not supported.
    pub usage: Vec<u8>,
    /// How long it takes, if that was asked for.
    pub timeouts: Option<CommandTimeouts>,
}

impl OneOpcode {
    const NAME: &'static str = "one_command parameter data";

    /// What a device of ours answers about a command that it knows, or about another.
    #[must_use]
    pub fn of(known: Option<&KnownCommand>) -> OneOpcode {
        match known {
            Some(known) => {
                OneOpcode { support: Support::Standard, usage: known.usage.clone(), timeouts: None }
            }
            None => OneOpcode { support: Support::No, ..OneOpcode::default() },
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off, or the command is longer than any.
    pub fn decode(bytes: &[u8]) -> Result<OneOpcode, Malformed> {
        let mut reader = Reader::new(OneOpcode::NAME, bytes);
        let [_, flags] = reader.array()?;
        let length = reader.length16()?;
        if length > 260 {
            return Err(reader.fault(2, Fault::Length { field: "the CDB size", value: length }));
        }
        Ok(OneOpcode {
            support: Support::of(flags & 0x07),
            usage: reader.take(length)?.to_vec(),
            timeouts: if flags & 0x80 == 0 { None } else { Some(timeouts(&mut reader)?) },
        })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If the command is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0, u8::from(self.timeouts.is_some()) << 7 | self.support.byte() & 0x07, 0, 0];
        set_length(&mut out, 2, 2, self.usage.len());
        out.extend(&self.usage);
        self.timeouts.iter().for_each(|timeouts| put_timeouts(&mut out, timeouts));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};
    use crate::command::{Command, CommandSet};

    /// The begin of sg3_utils, inhex/opcodes.hex (a disk), its length adapted, and one command with a service
    /// action.
    const OPCODES: &str = "00 00 00 20 12 00 00 00 00 00 00 06 a0 00 00 00 00 00 00 0c
        03 00 00 00 00 00 00 06 a3 00 00 0c 00 01 00 0c";

    #[test]
    fn a_published_list_is_read() {
        packed::<CommandTimeouts>();
        let all = SupportedOpcodes::decode(&hex(OPCODES)).unwrap();
        assert_eq!(all.encode(), hex(OPCODES));
        assert_eq!(all.find(0xa3, Some(0x0c)).map(|one| one.length), Some(12));
        assert_eq!(all.find(0xa3, Some(0x0d)), None);
    }

    #[test]
    fn what_our_devices_know_can_be_said_and_read() {
        let all = SupportedOpcodes::of(&Command::known(CommandSet::Stream));
        assert!(all.find(0x92, None).is_some() && all.find(0xa3, Some(0x1d)).is_some());
        assert_eq!(SupportedOpcodes::decode(&all.encode()), Ok(all));
        // LOCATE(16): what is used of each byte, by the table of its fields.
        let known = Command::known(CommandSet::Stream);
        let one = OneOpcode::of(known.iter().find(|known| known.name == "LOCATE(16)"));
        assert_eq!(one.encode(), hex("00 03 00 10 92 1b 01 ff ff ff ff ff ff ff ff ff 00 00 00 00"));
        assert_eq!(OneOpcode::of(None).encode(), hex("00 01 00 00"));
    }

    #[test]
    fn nothing_panics() {
        let timeouts =
            Some(CommandTimeouts { command_specific: 0, nominal_seconds: 1, recommended_seconds: 1200 });
        let one = OneOpcode { support: Support::Standard, usage: vec![0x12, 1, 2, 3, 4, 5], timeouts };
        let all = SupportedOpcodes(vec![SupportedOpcode {
            operation: 0x5e,
            service_action: Some(1),
            length: 10,
            timeouts: one.timeouts.clone(),
        }]);
        assert_eq!(OneOpcode::decode(&hex("00 01 00 00")).unwrap().support, Support::No);
        any_bytes(&[hex(OPCODES), all.encode()], |bytes| {
            if let Ok(all) = SupportedOpcodes::decode(bytes) {
                assert_eq!(SupportedOpcodes::decode(&all.encode()), Ok(all));
            }
        });
        any_bytes(&[one.encode()], |bytes| {
            if let Ok(one) = OneOpcode::decode(bytes) {
                assert_eq!(OneOpcode::decode(&one.encode()), Ok(one));
            }
        });
    }
}
