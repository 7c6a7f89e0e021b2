//! Sense data: why a command ended as it did (SPC-5, 4.4).

mod names;

pub use names::{AdditionalSense, SenseKey};

use crate::bytes::{Fault, Malformed, Reader, set_length};

/// How sense data is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SenseFormat {
    /// 70h and 71h (SPC-5, 4.4.3).
    #[default]
    Fixed,
    /// 72h and 73h (SPC-5, 4.4.2).
    Descriptor,
}

/// What the sense key specific bytes hold, which depends on the sense key (SPC-5, 4.4.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum KeySpecific {
    /// Nothing (SKSV is zero).
    #[default]
    None,
    /// With ILLEGAL REQUEST: which field is wrong.
    Field(FieldPointer),
    /// With RECOVERED, MEDIUM and HARDWARE ERROR: how often it was tried again.
    Retries(u16),
    /// With NOT READY and NO SENSE: how far an operation is, in parts of 65,536.
    Progress(u16),
    /// With UNIT ATTENTION: whether conditions were lost because too many waited.
    AttentionsLost(bool),
    /// With other keys, as it came; its first bit is one.
    Raw([u8; 3]),
}

/// The field of a command or of parameter data that the device refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FieldPointer {
    /// In the command, not in the data that came with it.
    pub in_command: bool,
    /// The byte.
    pub byte: u16,
    /// The field's leftmost bit in it, if that is known.
    pub bit: Option<u8>,
}

/// Sense data.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sense {
    /// How it is laid out.
    pub format: SenseFormat,
    /// It is about an earlier command, one that had ended with GOOD: what was buffered may be lost.
    pub deferred: bool,
    /// The sense key.
    pub key: SenseKey,
    /// ASC and ASCQ.
    pub additional: AdditionalSense,
    /// A filemark was met.
    pub filemark: bool,
    /// The end of medium, or early warning, was met.
    pub end_of_medium: bool,
    /// A block had another length than was asked for.
    pub incorrect_length: bool,
    /// The device had more sense data than it could send, or the end did not come over.
    pub overflow: bool,
    /// The information field, if it is valid. See [`Sense::residual`].
    pub information: Option<u64>,
    /// The command-specific information field, zero if there is none.
    pub command_specific: u64,
    /// The sense key specific field.
    pub key_specific: KeySpecific,
    /// The field replaceable unit code, zero if there is none.
    pub replaceable_unit: u8,
    /// What is behind the fields of fixed format, or the descriptors that are not known, as they came.
    pub more: Vec<u8>,
}

/// What kind of change a unit attention condition reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnitAttention {
    /// 28/00: the medium may have changed (a changer: an inventory may have).
    MediumMayHaveChanged,
    /// 28/01, 28/02: an import or export element was accessed, a format may have changed.
    ElementAccessed,
    /// 29/xx: power on, a reset, or a nexus was lost: settings and the position are the device's own again.
    Reset,
    /// 2A/xx: mode or log parameters, reservations, encryption parameters changed.
    ParametersChanged,
    /// 3F/xx: microcode, inquiry data, identifiers or the list of logical units changed.
    InquiryDataChanged,
    /// Any other.
    Other,
}

impl Sense {
    const NAME: &'static str = "sense data";

    /// Sense data in fixed format, for a target.
    #[must_use]
    pub fn new(key: SenseKey, asc: u8, ascq: u8) -> Sense {
        Sense { key, additional: AdditionalSense { asc, ascq }, ..Sense::default() }
    }

    /// 5/24/00 or 5/26/00, with the field.
    #[must_use]
    pub fn invalid_field(field: FieldPointer) -> Sense {
        let asc = if field.in_command { 0x24 } else { 0x26 };
        Sense { key_specific: KeySpecific::Field(field), ..Sense::new(SenseKey::IllegalRequest, asc, 0) }
    }

    /// With what was asked for less what was done. Without information if the format cannot hold it.
    #[must_use]
    pub fn with_residual(mut self, residual: i64) -> Sense {
        self.information = match self.format {
            SenseFormat::Fixed => {
                i32::try_from(residual).ok().map(|narrow| u64::from(narrow.cast_unsigned()))
            }
            SenseFormat::Descriptor => Some(residual.cast_unsigned()),
        };
        self
    }

    /// The information field as the signed difference between what was asked for and what was done (SSC-5,
    /// 4.2.15).
    #[must_use]
    pub fn residual(&self) -> Option<i64> {
        let information = self.information?;
        match self.format {
            SenseFormat::Fixed => u32::try_from(information).ok().map(|field| i64::from(field.cast_signed())),
            SenseFormat::Descriptor => Some(information.cast_signed()),
        }
    }

    /// Reads sense data of either format. Fields behind the end of what came count as zero.
    ///
    /// # Errors
    /// If not even the key is there, the response code is not known, or a descriptor contradicts itself.
    pub fn decode(bytes: &[u8]) -> Result<Sense, Malformed> {
        let mut reader = Reader::new(Sense::NAME, bytes);
        let code = reader.u8()? & 0x7f;
        let format = match code {
            0x70 | 0x71 => SenseFormat::Fixed,
            0x72 | 0x73 => SenseFormat::Descriptor,
            value => {
                let fault = Fault::Value { field: "the response code", value: u64::from(value) };
                return Err(reader.fault(0, fault));
            }
        };
        let sense = Sense { format, deferred: code & 1 == 1, ..Sense::default() };
        match format {
            SenseFormat::Fixed => sense.decode_fixed(bytes),
            SenseFormat::Descriptor => sense.decode_descriptors(bytes),
        }
    }

    fn decode_fixed(mut self, bytes: &[u8]) -> Result<Sense, Malformed> {
        let mut reader = Reader::new(Sense::NAME, bytes);
        let [first, _, flags, i0, i1, i2, i3, length] = reader.array()?;
        // Devices announce less than they send, or more: what is there counts, up to the length they give.
        let given = reader.rest().get(..usize::from(length)).unwrap_or(reader.rest());
        let mut rest = [0; 10];
        for (field, byte) in rest.iter_mut().zip(given) {
            *field = *byte;
        }
        let [c0, c1, c2, c3, asc, ascq, unit, specific @ ..] = rest;
        self.key = SenseKey::of(flags & 0x0f);
        self.additional = AdditionalSense { asc, ascq };
        self.set_marks(flags);
        self.overflow = flags & 0x10 != 0;
        self.information = (first & 0x80 != 0).then(|| u64::from(u32::from_be_bytes([i0, i1, i2, i3])));
        self.command_specific = u64::from(u32::from_be_bytes([c0, c1, c2, c3]));
        self.replaceable_unit = unit;
        self.key_specific = KeySpecific::decode(self.key, specific);
        self.more = given.get(10..).unwrap_or_default().to_vec();
        Ok(self)
    }

    fn set_marks(&mut self, flags: u8) {
        self.filemark = flags & 0x80 != 0;
        self.end_of_medium = flags & 0x40 != 0;
        self.incorrect_length = flags & 0x20 != 0;
    }

    fn marks(&self) -> u8 {
        u8::from(self.filemark) << 7
            | u8::from(self.end_of_medium) << 6
            | u8::from(self.incorrect_length) << 5
    }

    fn decode_descriptors(mut self, bytes: &[u8]) -> Result<Sense, Malformed> {
        let mut reader = Reader::new(Sense::NAME, bytes);
        let [_, key, asc, ascq, overflow, _, _, length] = reader.array()?;
        self.key = SenseKey::of(key & 0x0f);
        self.additional = AdditionalSense { asc, ascq };
        self.overflow = overflow & 0x80 != 0;
        let cut = reader.rest().len() < usize::from(length);
        let mut list = reader.part(Sense::NAME, usize::from(length).min(reader.rest().len()))?;
        while !list.is_empty() {
            // Transports cut sense data off: the key, which came first, is worth more than a whole last
            // descriptor.
            if let Err(error) = self.decode_descriptor(&mut list) {
                if cut && matches!(error.fault, Fault::Short { .. }) {
                    self.overflow = true;
                    break;
                }
                return Err(error);
            }
        }
        Ok(self)
    }

    fn decode_descriptor(&mut self, list: &mut Reader<'_>) -> Result<(), Malformed> {
        let all = list.rest();
        let [kind, length] = list.array()?;
        let at = list.at();
        let body = list.take(usize::from(length))?;
        let wrong =
            list.fault(at - 1, Fault::Length { field: "the length of a descriptor", value: body.len() });
        match (kind, body) {
            (0x00, [valid, _, number @ ..]) => {
                let number = u64::from_be_bytes(number.try_into().map_err(|_| wrong)?);
                self.information = (valid & 0x80 != 0).then_some(number);
            }
            (0x01, [_, _, number @ ..]) => {
                self.command_specific = u64::from_be_bytes(number.try_into().map_err(|_| wrong)?);
            }
            (0x02, [_, _, a, b, c, _]) => self.key_specific = KeySpecific::decode(self.key, [*a, *b, *c]),
            (0x03, [_, unit]) => self.replaceable_unit = *unit,
            (0x04, [_, marks]) => self.set_marks(*marks),
            (0x05, [_, marks]) => self.incorrect_length |= marks & 0x20 != 0,
            (0x00..=0x05, _) => return Err(wrong),
            _ => self.more.extend_from_slice(all.get(..2 + body.len()).unwrap_or_default()),
        }
        Ok(())
    }

    /// Writes sense data.
    ///
    /// # Panics
    /// If [`Sense::more`] makes it longer than a length of one byte can say.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self.format {
            SenseFormat::Fixed => self.encode_fixed(),
            SenseFormat::Descriptor => self.encode_descriptors(),
        }
    }

    fn encode_fixed(&self) -> Vec<u8> {
        let information = self.information.and_then(|field| u32::try_from(field).ok());
        let overflow = u8::from(self.overflow) << 4;
        let mut out = vec![0x70 | u8::from(self.deferred) | u8::from(information.is_some()) << 7, 0];
        out.push(self.marks() | overflow | self.key.byte());
        out.extend(information.unwrap_or(0).to_be_bytes());
        out.push(0);
        out.extend(u32::try_from(self.command_specific).unwrap_or(0).to_be_bytes());
        out.extend([self.additional.asc, self.additional.ascq, self.replaceable_unit]);
        out.extend(self.key_specific.encode());
        out.extend(&self.more);
        let length = out.len() - 8;
        set_length(&mut out, 7, 1, length);
        out
    }

    fn encode_descriptors(&self) -> Vec<u8> {
        let mut out =
            vec![0x72 | u8::from(self.deferred), self.key.byte(), self.additional.asc, self.additional.ascq];
        out.extend([u8::from(self.overflow) << 7, 0, 0, 0]);
        if let Some(information) = self.information {
            out.extend([0x00, 0x0a, 0x80, 0]);
            out.extend(information.to_be_bytes());
        }
        if self.command_specific != 0 {
            out.extend([0x01, 0x0a, 0, 0]);
            out.extend(self.command_specific.to_be_bytes());
        }
        if self.key_specific != KeySpecific::None {
            out.extend([0x02, 0x06, 0, 0]);
            out.extend(self.key_specific.encode());
            out.push(0);
        }
        if self.replaceable_unit != 0 {
            out.extend([0x03, 0x02, 0, self.replaceable_unit]);
        }
        if self.marks() != 0 {
            out.extend([0x04, 0x02, 0, self.marks()]);
        }
        out.extend(&self.more);
        let length = out.len() - 8;
        set_length(&mut out, 7, 1, length);
        out
    }

    /// What a unit attention condition reports, if this is one.
    #[must_use]
    pub fn unit_attention(&self) -> Option<UnitAttention> {
        (self.key == SenseKey::UnitAttention).then_some(match self.pair() {
            (0x28, 0x00) => UnitAttention::MediumMayHaveChanged,
            (0x28, _) => UnitAttention::ElementAccessed,
            (0x29, _) => UnitAttention::Reset,
            (0x2a, _) => UnitAttention::ParametersChanged,
            (0x3f, _) => UnitAttention::InquiryDataChanged,
            _ => UnitAttention::Other,
        })
    }

    fn pair(&self) -> (u8, u8) {
        (self.additional.asc, self.additional.ascq)
    }

    /// 04/01, and 04/07 (an operation is in progress): it becomes ready without help.
    #[must_use]
    pub fn is_becoming_ready(&self) -> bool {
        self.key == SenseKey::NotReady && matches!(self.pair(), (0x04, 0x01 | 0x04 | 0x07))
    }

    /// 3A/xx: there is no medium.
    #[must_use]
    pub fn is_medium_missing(&self) -> bool {
        self.key == SenseKey::NotReady && self.additional.asc == 0x3a
    }

    /// 00/17 (cleaning requested), 30/07 (cleaning failed): the drive wants to be cleaned.
    #[must_use]
    pub fn needs_cleaning(&self) -> bool {
        matches!(self.pair(), (0x00, 0x17) | (0x30, 0x07))
    }

    /// 30/03: a cleaning cartridge is in the drive.
    #[must_use]
    pub fn is_cleaning_cartridge(&self) -> bool {
        self.pair() == (0x30, 0x03)
    }

    /// 27/xx: writing is not allowed, by the cartridge, by the device or because of WORM.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        self.additional.asc == 0x27 || self.key == SenseKey::DataProtect && self.pair() == (0x30, 0x0c)
    }

    /// A filemark was met (FILEMARK, or 00/01).
    #[must_use]
    pub fn is_filemark(&self) -> bool {
        self.filemark || self.pair() == (0x00, 0x01)
    }

    /// 00/05: behind the last that was written. Old devices say only BLANK CHECK.
    #[must_use]
    pub fn is_end_of_data(&self) -> bool {
        self.pair() == (0x00, 0x05) || self.key == SenseKey::BlankCheck && self.pair() == (0x00, 0x00)
    }

    /// VOLUME OVERFLOW, or 00/02 with an error: the end of the partition. Without an error 00/02 is
    /// [`Sense::is_early_warning`].
    #[must_use]
    pub fn is_end_of_partition(&self) -> bool {
        let at_end = matches!(self.key, SenseKey::VolumeOverflow | SenseKey::MediumError);
        at_end && self.pair() == (0x00, 0x02) || self.key == SenseKey::VolumeOverflow
    }

    /// The begin of the partition (00/04).
    #[must_use]
    pub fn is_beginning_of_partition(&self) -> bool {
        self.pair() == (0x00, 0x04)
    }

    /// The end comes near, the command was carried out: EOM with no error (SSC-5, 4.2.4).
    #[must_use]
    pub fn is_early_warning(&self) -> bool {
        self.end_of_medium
            && matches!(self.key, SenseKey::NoSense | SenseKey::RecoveredError)
            && !self.is_end_of_data()
    }

    /// 00/07: the programmable early warning zone was entered (SSC-5, 4.2.5).
    #[must_use]
    pub fn is_programmable_early_warning(&self) -> bool {
        self.pair() == (0x00, 0x07)
    }

    /// 3B/00 to 3B/02 and 3B/08 to 3B/0C, as tape drives report them: ask where the tape stands before going
    /// on.
    #[must_use]
    pub fn is_position_lost(&self) -> bool {
        matches!(self.pair(), (0x3b, 0x00..=0x02 | 0x08..=0x0c))
    }

    /// 10/01 to 10/05: the checksum of a block was wrong, or the method (logical block protection). 10/00 is
    /// an error of the medium.
    #[must_use]
    pub fn is_block_protection_error(&self) -> bool {
        matches!(self.pair(), (0x10, 0x01..=0x05))
    }

    /// 74/xx: encryption or another matter of security.
    #[must_use]
    pub fn is_encryption(&self) -> bool {
        self.additional.asc == 0x74
    }

    /// 20/00: the device does not know the command.
    #[must_use]
    pub fn is_unknown_command(&self) -> bool {
        self.key == SenseKey::IllegalRequest && self.pair() == (0x20, 0x00)
    }
}

impl KeySpecific {
    fn decode(key: SenseKey, bytes: [u8; 3]) -> KeySpecific {
        let [flags, high, low] = bytes;
        let number = u16::from_be_bytes([high, low]);
        if flags & 0x80 == 0 {
            return KeySpecific::None;
        }
        match key {
            SenseKey::IllegalRequest => KeySpecific::Field(FieldPointer {
                in_command: flags & 0x40 != 0,
                byte: number,
                bit: (flags & 0x08 != 0).then_some(flags & 0x07),
            }),
            SenseKey::RecoveredError | SenseKey::MediumError | SenseKey::HardwareError => {
                KeySpecific::Retries(number)
            }
            SenseKey::NoSense | SenseKey::NotReady => KeySpecific::Progress(number),
            SenseKey::UnitAttention => KeySpecific::AttentionsLost(flags & 0x01 != 0),
            _ => KeySpecific::Raw(bytes),
        }
    }

    fn encode(self) -> [u8; 3] {
        let numbered = |flags: u8, number: u16| {
            let [high, low] = number.to_be_bytes();
            [flags, high, low]
        };
        match self {
            KeySpecific::None => [0; 3],
            KeySpecific::Field(FieldPointer { in_command, byte, bit }) => {
                let pointer = bit.map_or(0, |bit| 0x08 | bit & 0x07);
                numbered(0x80 | u8::from(in_command) << 6 | pointer, byte)
            }
            KeySpecific::Retries(number) | KeySpecific::Progress(number) => numbered(0x80, number),
            KeySpecific::AttentionsLost(lost) => [0x80 | u8::from(lost), 0, 0],
            KeySpecific::Raw([flags, high, low]) => [flags | 0x80, high, low],
        }
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.additional)?;
        for (set, name) in [
            (self.filemark, "filemark"),
            (self.end_of_medium, "end of medium"),
            (self.incorrect_length, "incorrect length"),
            (self.deferred, "deferred, about an earlier command"),
        ] {
            if set {
                write!(f, ", {name}")?;
            }
        }
        match self.key_specific {
            KeySpecific::Field(FieldPointer { in_command, byte, bit }) => {
                let place = if in_command { "command" } else { "parameters" };
                write!(f, ", at byte {byte} of the {place}")?;
                bit.map_or(Ok(()), |bit| write!(f, ", bit {bit}"))
            }
            KeySpecific::Progress(part) => write!(f, ", {} % done", u32::from(part) * 100 / 65_536),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
