//! Values as bytes: little-endian fixed integers, LEB128 varints in their shortest form, counted sequences.

use base::{
    Adler32, Blake3, BlobId, BlockAddress, BlockCount, ByteCount, ClassId, ContainerId, Crc32c, DirId,
    DriveId, Duration, Epoch, FileId, Generation, KeyCheck, KeyId, Name, PercentPoints, RequestId, RunId,
    StripeSetId, TapeKey, TapePoolId, Timestamp, Uuid, Vid,
};

use crate::record::UseHour;

/// Bytes still to be decoded.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(length)?;
        self.bytes = tail;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next byte, which stays.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// A varint. The longer forms of a number are refused, so that each value has one encoding.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (shift == 63 && bits > 1) || (shift > 0 && byte == 0) {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

pub(crate) fn put_varint(number: u64, out: &mut Vec<u8>) {
    let (mut value, begin) = (number, out.len());
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
    let again = out.get(begin..).and_then(|bytes| Reader::new(bytes).varint());
    debug_assert_eq!(again, Some(number), "a number is read again as it is written");
}

/// A value with exactly one form in bytes, of at least one byte.
pub(crate) trait Codec: Sized {
    /// The first bytes that values of this type may have, if it is a choice.
    const TAGS: &'static [u8] = &[];

    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads a value; `None` if the bytes are none.
    fn take(input: &mut Reader<'_>) -> Option<Self>;
}

impl Codec for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        input.byte()
    }
}

impl Codec for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        match input.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Codec for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(*self, out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        input.varint()
    }
}

impl Codec for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(u64::from(*self), out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        u32::try_from(input.varint()?).ok()
    }
}

impl Codec for u16 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(u64::from(*self), out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        u16::try_from(input.varint()?).ok()
    }
}

impl<const N: usize> Codec for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        input.array()
    }
}

/// A wrapper's value, encoded as what it wraps.
macro_rules! wrapped {
    ($($name:ident),*) => {$(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(input: &mut Reader<'_>) -> Option<Self> {
                Codec::take(input).map($name)
            }
        }
    )*};
}

wrapped!(
    FileId,
    DirId,
    ContainerId,
    RequestId,
    RunId,
    StripeSetId,
    DriveId,
    ClassId,
    TapePoolId,
    Epoch,
    ByteCount,
    BlockAddress,
    BlockCount,
    Generation,
    UseHour,
    PercentPoints,
    Uuid,
    Blake3
);

/// A number whose bits are all in use, so that a varint would waste space.
macro_rules! fixed {
    ($($name:ident($inner:ty)),*) => {$(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0.to_le_bytes());
            }
            fn take(input: &mut Reader<'_>) -> Option<Self> {
                input.array().map(<$inner>::from_le_bytes).map($name)
            }
        }
    )*};
}

fixed!(Timestamp(i64), Adler32(u32), Crc32c(u32));

impl Codec for BlobId {
    fn put(&self, out: &mut Vec<u8>) {
        self.epoch().put(out);
        self.sequence().put(out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        BlobId::new(Codec::take(input)?, Codec::take(input)?)
    }
}

impl Codec for Vid {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        Vid::new(std::str::from_utf8(input.take(6)?).ok()?).ok()
    }
}

impl Codec for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
        self.subsec_nanos().put(out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let (seconds, nanos): (u64, u32) = Codec::take(input)?;
        (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
    }
}

impl Codec for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        out.extend_from_slice(self.as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let length = usize::try_from(input.varint()?).ok()?;
        std::str::from_utf8(input.take(length)?).ok().map(str::to_owned)
    }
}

impl Codec for KeyId {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.as_str().len() as u64, out);
        out.extend_from_slice(self.as_str().as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let length = usize::try_from(input.varint()?).ok()?;
        KeyId::new(std::str::from_utf8(input.take(length)?).ok()?).ok()
    }
}

impl Codec for TapeKey {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.extend_from_slice(&self.check.0);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let id = KeyId::take(input)?;
        let check = input.take(KeyCheck::BYTES)?.try_into().ok()?;
        Some(TapeKey { id, check: KeyCheck(check) })
    }
}

impl Codec for Name {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.as_str().len() as u64, out);
        out.extend_from_slice(self.as_str().as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let length = usize::try_from(input.varint()?).ok()?;
        Name::new(std::str::from_utf8(input.take(length)?).ok()?).ok()
    }
}

impl<T: Codec> Codec for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        match input.byte()? {
            0 => Some(None),
            1 => T::take(input).map(Some),
            _ => None,
        }
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let count = usize::try_from(input.varint()?).ok()?;
        // Each item has at least one byte, so a false count cannot claim more memory than the input
        // justifies.
        if count > input.remaining() {
            return None;
        }
        (0..count).map(|_| T::take(input)).collect()
    }
}

impl<T: Codec> Codec for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        T::take(input).map(Box::new)
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        Some((A::take(input)?, B::take(input)?))
    }
}

/// Encodes a structure field by field in the order given; a forgotten field does not compile.
macro_rules! record {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(input: &mut Reader<'_>) -> Option<Self> {
                $(let $field = Codec::take(input)?;)*
                Some(Self { $($field),* })
            }
        }
    };
}

/// Stands before the two newest fields of a grown record if the newest one is there; the older one, a choice
/// first, never begins with it.
pub(crate) const BOTH_GREW: u8 = 0xff;

/// What stands before three fields that came to a record later, if the third one has a value.
pub(crate) const ALL_GREW: u8 = 0xfe;

/// Encodes a record whose last three fields came to it later, one after the other: nothing stands for
/// `None`s, as in records from before, and the oldest one stands alone while the others are `None`. It can be
/// no field of another record.
macro_rules! grown_record {
    ($name:ident { $($field:ident),* $(,)? } $older:ident, $newer:ident, $newest:ident) => {
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field,)* $older, $newer, $newest } = self;
                $($field.put(out);)*
                match ($older, $newer, $newest) {
                    (None, None, None) => {}
                    (Some(older), None, None) => older.put(out),
                    (older, Some(newer), None) => {
                        out.push($crate::codec::BOTH_GREW);
                        older.put(out);
                        newer.put(out);
                    }
                    (older, newer, Some(newest)) => {
                        out.push($crate::codec::ALL_GREW);
                        older.put(out);
                        newer.put(out);
                        newest.put(out);
                    }
                }
            }
            fn take(input: &mut Reader<'_>) -> Option<Self> {
                $(let $field = Codec::take(input)?;)*
                let ($older, $newer, $newest) = match input.peek() {
                    None => (None, None, None),
                    Some($crate::codec::BOTH_GREW) => {
                        input.byte()?;
                        (Codec::take(input)?, Some(Codec::take(input)?), None)
                    }
                    Some($crate::codec::ALL_GREW) => {
                        input.byte()?;
                        (Codec::take(input)?, Codec::take(input)?, Some(Codec::take(input)?))
                    }
                    Some(_) => (Some(Codec::take(input)?), None, None),
                };
                Some(Self { $($field,)* $older, $newer, $newest })
            }
        }
    };
}

/// Encodes a choice as its tag and the fields of the variant; a forgotten variant or field does not compile.
macro_rules! choice {
    ($name:ident {
        $($tag:literal = $variant:ident $(($($t:ident),*))? $({ $($f:ident),* $(,)? })?),* $(,)?
    }) => {
        impl Codec for $name {
            const TAGS: &'static [u8] = &[$($tag),*];

            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($t),*))? $({ $($f),* })? => {
                        out.push($tag);
                        $($($t.put(out);)*)?
                        $($($f.put(out);)*)?
                    })*
                }
            }
            fn take(input: &mut Reader<'_>) -> Option<Self> {
                match input.byte()? {
                    $($tag => {
                        $($(let $t = Codec::take(input)?;)*)?
                        $($(let $f = Codec::take(input)?;)*)?
                        Some(Self::$variant $(($($t),*))? $({ $($f),* })?)
                    })*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {choice, grown_record, record};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varints_have_one_form() {
        let decode = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(decode(&[0x00]), Some(0));
        assert_eq!(decode(&[0x80, 0x01]), Some(128));
        assert_eq!(decode(&[0x80, 0x00]), None);
        assert_eq!(decode(&[0x80]), None);
        assert_eq!(decode(&[0xff; 10]), None);
        let mut out = Vec::new();
        put_varint(u64::MAX, &mut out);
        assert_eq!((out.len(), decode(&out)), (10, Some(u64::MAX)));
    }

    #[test]
    fn a_false_count_is_refused() {
        assert_eq!(Vec::<u64>::take(&mut Reader::new(&[0xff, 0xff, 0xff, 0x7f, 1, 2])), None);
    }

    proptest! {
        #[test]
        fn varints_round_trip(value in any::<u64>()) {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert!(reader.is_empty());
        }
    }
}
