//! Reading and writing of bytes with checked bounds: the one helper that all structures use.
//!
//! A structure of fixed fields states its layout once ([`Packed::layout`]) and is read, written and described
//! (which bits it uses) by the same lines. Lists are read by a [`Reader`] and written to a `Vec<u8>`.

use std::fmt;

use crate::code::Code;

/// Bytes that are not what they should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{structure}, byte {at}: {fault}")]
pub struct Malformed {
    /// The structure that was being read or written.
    pub structure: &'static str,
    /// The first byte of what is wrong, counted from the begin of the bytes that were given.
    pub at: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// They end too early: after a transfer that was too short, the command may be sent again with a larger
    /// buffer.
    #[error("{have} bytes are there, {needed} are needed")]
    Short {
        /// Bytes needed, counted from the begin of the bytes that were given.
        needed: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// A field has a value that has no meaning.
    #[error("{field} is {value:#x}, which has no meaning here")]
    Value {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A length contradicts what it is the length of.
    #[error("{field} is {value}, which is not the length of what it counts")]
    Length {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: usize,
    },
    /// Only when writing: a value is too large for its field.
    #[error("{value} is too large for its field of {bits} bits")]
    Large {
        /// The value.
        value: u64,
        /// The width of the field.
        bits: u32,
    },
}

impl Malformed {
    /// The same fault in bytes that begin `base` bytes into others.
    pub(crate) fn moved(mut self, base: usize) -> Malformed {
        self.at += base;
        if let Fault::Short { needed, have } = &mut self.fault {
            *needed += base;
            *have += base;
        }
        self
    }
}

/// A text of fixed width as SCSI has it: ASCII, on the left, filled with blanks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// `text` filled with blanks. `None` if it is too long or not printable ASCII.
    #[must_use]
    pub fn new(text: &str) -> Option<Text<N>> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let mut all = [b' '; N];
        let field = all.get_mut(..text.len()).filter(|_| printable)?;
        field.copy_from_slice(text.as_bytes());
        Some(Text(all))
    }

    /// Without the blanks and NULs behind it; what is not printable is a question mark.
    #[must_use]
    pub fn trimmed(&self) -> String {
        text_of(&self.0)
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text([b' '; N])
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.trimmed())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.trimmed(), f)
    }
}

/// Bytes of a text field for people: without blanks and NULs at its end, a question mark for what is not
/// printable.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' ')).map_or(0, |last| last + 1);
    let printable = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' };
    bytes.iter().take(end).map(printable).collect()
}

/// Which way a layout is gone through.
enum Side<'a> {
    Decode(&'a [u8]),
    Encode(&'a mut [u8]),
    Usage(&'a mut [u8]),
}

/// A structure's fields on their way from or to bytes.
pub struct Layout<'a> {
    structure: &'static str,
    side: Side<'a>,
    fault: Option<Malformed>,
    fault_bit: u32,
}

impl<'a> Layout<'a> {
    pub(crate) fn decoder(structure: &'static str, bytes: &'a [u8]) -> Self {
        Layout { structure, side: Side::Decode(bytes), fault: None, fault_bit: 7 }
    }

    pub(crate) fn encoder(structure: &'static str, bytes: &'a mut [u8]) -> Self {
        Layout { structure, side: Side::Encode(bytes), fault: None, fault_bit: 7 }
    }

    /// Sets all bits that the structure uses.
    pub(crate) fn usage(structure: &'static str, bytes: &'a mut [u8]) -> Self {
        Layout { structure, side: Side::Usage(bytes), fault: None, fault_bit: 7 }
    }

    /// The leftmost bit of the field in which the fault is.
    pub(crate) fn fault_bit(&self) -> u32 {
        self.fault_bit
    }

    pub(crate) fn finish(self) -> Result<(), Malformed> {
        self.fault.map_or(Ok(()), Err)
    }

    /// Notes the first fault.
    fn fail(&mut self, at: usize, fault: Fault) {
        let structure = self.structure;
        self.fault.get_or_insert(Malformed { structure, at, fault });
    }

    /// A field of `width` bits within the byte `at`, whose lowest bit is bit `low`.
    pub(crate) fn bits(&mut self, at: usize, low: u32, width: u32, value: &mut u8) {
        let mask = u8::MAX >> (8 - width.min(8));
        match &mut self.side {
            Side::Decode(bytes) => match bytes.get(at) {
                Some(byte) => *value = byte >> low & mask,
                None => self.short(at, 1),
            },
            Side::Encode(bytes) => match bytes.get_mut(at) {
                Some(_) if *value & !mask != 0 => {
                    let fault = Fault::Large { value: u64::from(*value), bits: width };
                    self.fail(at, fault);
                }
                Some(byte) => *byte |= *value << low,
                None => self.short(at, 1),
            },
            Side::Usage(bytes) => match bytes.get_mut(at) {
                Some(byte) => {
                    assert_eq!(*byte & mask << low, 0, "{}: two fields in byte {at}", self.structure);
                    *byte |= mask << low;
                }
                None => self.short(at, 1),
            },
        }
    }

    fn short(&mut self, at: usize, length: usize) {
        let have = match &self.side {
            Side::Decode(bytes) => bytes.len(),
            Side::Encode(bytes) | Side::Usage(bytes) => bytes.len(),
        };
        self.fail(at, Fault::Short { needed: at + length, have });
    }

    /// A single bit.
    pub(crate) fn flag(&mut self, at: usize, bit: u32, value: &mut bool) {
        let mut byte = u8::from(*value);
        self.bits(at, bit, 1, &mut byte);
        *value = byte == 1;
    }

    /// A field of `width` bits whose values stand for something.
    pub(crate) fn code<T: Code>(
        &mut self,
        at: usize,
        low: u32,
        width: u32,
        field: &'static str,
        value: &mut T,
    ) {
        let mut byte = value.byte();
        self.bits(at, low, width, &mut byte);
        match T::of(byte) {
            Some(known) => *value = known,
            None => {
                if self.fault.is_none() {
                    self.fault_bit = (low + width).saturating_sub(1);
                }
                self.fail(at, Fault::Value { field, value: u64::from(byte) });
            }
        }
    }

    /// The service action in byte 1 of a command that is known by it.
    pub(crate) fn service(&mut self, action: u8) {
        let mut value = action;
        self.bits(1, 0, 5, &mut value);
    }

    /// A whole number of `length` bytes, the most significant first.
    pub(crate) fn number<T>(&mut self, at: usize, length: usize, value: &mut T)
    where
        T: Copy + TryFrom<u64> + Into<u64>,
    {
        let mut wide = (*value).into().to_be_bytes();
        let Some((rest, field)) = wide.split_at_checked(wide.len() - length) else { return };
        if rest.iter().any(|byte| *byte != 0) {
            let fault = Fault::Large { value: (*value).into(), bits: 8 * u32::try_from(length).unwrap_or(8) };
            return self.fail(at, fault);
        }
        let mut bytes = [0; 8];
        let Some(part) = bytes.get_mut(..length) else { return };
        part.copy_from_slice(field);
        self.slice(at, part);
        wide = [0; 8];
        if let Some(low) = wide.get_mut(8 - length..) {
            low.copy_from_slice(part);
        }
        let read = u64::from_be_bytes(wide);
        match T::try_from(read) {
            Ok(number) => *value = number,
            Err(_) => self.fail(at, Fault::Value { field: "a number", value: read }),
        }
    }

    /// Bytes as they are.
    pub(crate) fn slice(&mut self, at: usize, value: &mut [u8]) {
        let range = at..at + value.len();
        let done = match &mut self.side {
            Side::Decode(bytes) => bytes.get(range).map(|field| value.copy_from_slice(field)),
            Side::Encode(bytes) => bytes.get_mut(range).map(|field| field.copy_from_slice(value)),
            Side::Usage(bytes) => bytes.get_mut(range).map(|field| {
                assert!(field.iter().all(|b| *b == 0), "{}: two fields at byte {at}", self.structure);
                field.fill(0xff);
            }),
        };
        if done.is_none() {
            self.short(at, value.len());
        }
    }

    /// A text of fixed width.
    pub(crate) fn text<const N: usize>(&mut self, at: usize, value: &mut Text<N>) {
        self.slice(at, &mut value.0);
    }

    /// A signed number of `length` bytes in two's complement.
    pub(crate) fn signed(&mut self, at: usize, length: usize, value: &mut i64) {
        let unused = 64 - 8 * u32::try_from(length).unwrap_or(8);
        let cut = value.unbounded_shl(unused).unbounded_shr(unused);
        if cut != *value {
            return self.fail(at, Fault::Large { value: value.unsigned_abs(), bits: 64 - unused });
        }
        let mut number = value.cast_unsigned().unbounded_shl(unused).unbounded_shr(unused);
        self.number(at, length, &mut number);
        *value = number.unbounded_shl(unused).cast_signed().unbounded_shr(unused);
    }
}

/// A structure of fixed fields.
pub trait Packed: Default + Clone {
    /// What the standard calls it.
    const NAME: &'static str;
    /// Its length in bytes.
    const LENGTH: usize;
    /// The least that must be there: older devices leave fields at the end out, which then count as zero.
    const LENGTH_MIN: usize = Self::LENGTH;

    /// Goes through all fields.
    fn layout(&mut self, l: &mut Layout<'_>);

    /// Reads it. Bytes behind it are ignored.
    ///
    /// # Errors
    /// If bytes are missing or a field has no meaning.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut all = vec![0; Self::LENGTH];
        let given = bytes.get(..Self::LENGTH.min(bytes.len())).unwrap_or_default();
        if given.len() < Self::LENGTH_MIN {
            let fault = Fault::Short { needed: Self::LENGTH_MIN, have: given.len() };
            return Err(Malformed { structure: Self::NAME, at: given.len(), fault });
        }
        if let Some(begin) = all.get_mut(..given.len()) {
            begin.copy_from_slice(given);
        }
        let mut value = Self::default();
        let mut layout = Layout::decoder(Self::NAME, &all);
        value.layout(&mut layout);
        layout.finish().map(|()| value)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a value is too large for its field, which is a mistake of the caller.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::LENGTH];
        let mut layout = Layout::encoder(Self::NAME, &mut bytes);
        self.clone().layout(&mut layout);
        let done = layout.finish();
        assert!(done.is_ok(), "{done:?}");
        bytes
    }

    /// The bits that its fields take.
    #[must_use]
    fn usage() -> Vec<u8> {
        let mut bytes = vec![0; Self::LENGTH];
        let mut layout = Layout::usage(Self::NAME, &mut bytes);
        Self::default().layout(&mut layout);
        let done = layout.finish();
        assert!(done.is_ok(), "{done:?}");
        bytes
    }
}

/// Reads bytes from the front.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    structure: &'static str,
    bytes: &'a [u8],
    /// Where `bytes` begin in what was given.
    base: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Reader { structure, bytes, base: 0 }
    }

    /// Where it stands.
    pub(crate) fn at(&self) -> usize {
        self.base
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn fault(&self, at: usize, fault: Fault) -> Malformed {
        Malformed { structure: self.structure, at, fault }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let Some((field, rest)) = self.bytes.split_at_checked(length) else {
            let fault =
                Fault::Short { needed: self.base.saturating_add(length), have: self.base + self.bytes.len() };
            return Err(self.fault(self.base, fault));
        };
        self.bytes = rest;
        self.base += length;
        Ok(field)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let field = self.take(N)?;
        let mut all = [0; N];
        all.copy_from_slice(field);
        Ok(all)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self) -> Result<u32, Malformed> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of two bytes.
    pub(crate) fn length16(&mut self) -> Result<usize, Malformed> {
        self.u16().map(usize::from)
    }

    /// A length of four bytes.
    pub(crate) fn length32(&mut self) -> Result<usize, Malformed> {
        self.u32().map(|length| usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// The next bytes on their own, as another structure.
    pub(crate) fn part(&mut self, structure: &'static str, length: usize) -> Result<Reader<'a>, Malformed> {
        let base = self.base;
        Ok(Reader { structure, bytes: self.take(length)?, base })
    }

    /// A structure of fixed fields.
    pub(crate) fn packed<T: Packed>(&mut self) -> Result<T, Malformed> {
        self.packed_in(T::LENGTH)
    }

    /// A structure of fixed fields in so many bytes.
    pub(crate) fn packed_in<T: Packed>(&mut self, length: usize) -> Result<T, Malformed> {
        let base = self.base;
        T::decode(self.take(length)?).map_err(|error| error.moved(base))
    }
}

/// Writes a length into the `width` bytes at `at`.
///
/// # Panics
/// If it is too large for them: whoever makes a list must know how long it may be.
pub(crate) fn set_length(out: &mut [u8], at: usize, width: usize, length: usize) {
    let bytes = u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes();
    let (high, low) = bytes.split_at(bytes.len() - width);
    assert!(
        high.iter().all(|byte| *byte == 0),
        "a list of {length} bytes does not fit a length of {width} bytes"
    );
    if let Some(field) = out.get_mut(at..at + width) {
        field.copy_from_slice(low);
    }
}

#[cfg(test)]
pub(crate) mod tests;
