//! How figures are written into files: little-endian numbers, one after the other.
//! See `docs/format/access-log.md`.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, FileId, Timestamp};

/// What is left of the bytes that are read.
pub(crate) type Input<'a> = &'a [u8];

/// Something that is written into a file.
pub(crate) trait Stored: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes it off the front; `None` if the bytes are none of it.
    fn take(input: &mut Input<'_>) -> Option<Self>;
}

/// The same fields in the same order, there and back.
macro_rules! stored {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::stored::Stored for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($crate::stored::Stored::put($field, out);)*
            }

            fn take(input: &mut $crate::stored::Input<'_>) -> Option<Self> {
                $(let $field = $crate::stored::Stored::take(input)?;)*
                Some($name { $($field),* })
            }
        }
    };
}
pub(crate) use stored;

fn take_bytes<'a>(input: &mut Input<'a>, count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(taken)
}

impl Stored for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(u64::from_le_bytes(take_bytes(input, 8)?.try_into().ok()?))
    }
}

impl Stored for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(i64::from_le_bytes(take_bytes(input, 8)?.try_into().ok()?))
    }
}

impl Stored for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(u128::from_le_bytes(take_bytes(input, 16)?.try_into().ok()?))
    }
}

impl Stored for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(u32::from_le_bytes(take_bytes(input, 4)?.try_into().ok()?))
    }
}

impl Stored for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        match take_bytes(input, 1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Stored for ByteCount {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        u64::take(input).map(ByteCount)
    }
}

impl Stored for FileId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        u64::take(input).map(FileId)
    }
}

impl Stored for Timestamp {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        i64::take(input).map(Timestamp)
    }
}

impl Stored for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let length = usize::try_from(u64::take(input)?).ok()?;
        String::from_utf8(take_bytes(input, length)?.to_vec()).ok()
    }
}

impl<T: Stored> Stored for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        if bool::take(input)? { T::take(input).map(Some) } else { Some(None) }
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some((A::take(input)?, B::take(input)?))
    }
}

/// As many as the bytes say, which end before memory does: each item has a byte at least.
impl<T: Stored> Stored for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let count = u64::take(input)?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(T::take(input)?);
        }
        Some(items)
    }
}

impl<K: Stored + Ord, V: Stored> Stored for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Vec::<(K, V)>::take(input).map(|items| items.into_iter().collect())
    }
}

impl<K: Stored + Ord> Stored for BTreeSet<K> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|key| key.put(out));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Vec::<K>::take(input).map(|items| items.into_iter().collect())
    }
}

/// A file: 8 bytes that say what it is, the version, the length of what follows, that, and CRC-32C of all
/// before.
pub(crate) fn seal(magic: &[u8; 8], version: u32, content: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = Vec::new();
    content(&mut body);
    let mut file = magic.to_vec();
    version.put(&mut file);
    (body.len() as u64).put(&mut file);
    file.extend_from_slice(&body);
    base::Crc32c::of(&file).0.put(&mut file);
    file
}

/// What a file holds; `None` if it is another one, of another version, or not whole.
pub(crate) fn unseal<T: Stored>(magic: &[u8; 8], version: u32, file: &[u8]) -> Option<T> {
    let (sealed, mut checksum) = file.split_at_checked(file.len().checked_sub(4)?)?;
    if u32::take(&mut checksum)? != base::Crc32c::of(sealed).0 {
        return None;
    }
    let mut input = sealed.strip_prefix(magic)?;
    let is_known = u32::take(&mut input)? == version && u64::take(&mut input)? == input.len() as u64;
    let content = T::take(&mut input).filter(|_| is_known)?;
    input.is_empty().then_some(content)
}
