//! Change-log segments: a numbered range of the catalogue's changes as one file on tape.

use base::{Crc64, Uuid};

/// The number of a change in the log of its instance; consecutive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ChangeNumber(pub u64);

/// The most changes in a segment.
pub const SEGMENT_CHANGES_MAX: usize = 1_000_000;
/// The longest change in bytes.
pub const CHANGE_BYTES_MAX: usize = 16 << 20;
/// The longest segment in bytes.
pub const SEGMENT_BYTES_MAX: usize = 1 << 30;
/// Length of the head.
pub const SEGMENT_HEAD_BYTES: usize = 64;

const MAGIC: &[u8; 8] = b"KISTCHG1";
const VERSION: u32 = 1;
const TRAILER_BYTES: usize = 8;

/// A segment read from its bytes. Change number `first + i` is `changes[i]`.
///
/// Little-endian:
///
/// ```text
///  0  8  "KISTCHG1"
///  8  4  version, 1
/// 12  4  zero
/// 16 16  UUID of the instance
/// 32  8  number of the first change
/// 40  8  number of the last change
/// 48  8  count of changes, last - first + 1
/// 56  8  length of the body in bytes
/// 64  .  body: for each change its length (4) and its bytes
///  .  8  CRC-64/NVME of everything before
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeSegment<'a> {
    /// The instance whose changes these are.
    pub instance: Uuid,
    /// The number of the first change.
    pub first: ChangeNumber,
    /// The number of the last change.
    pub last: ChangeNumber,
    /// The changes, each as the catalogue wrote it.
    pub changes: Vec<&'a [u8]>,
}

/// Why changes cannot be written as one segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentEncodeError {
    /// None, more than [`SEGMENT_CHANGES_MAX`], or numbers beyond 64 bits.
    #[error("a segment of {0} changes cannot be: write 1 to 1000000")]
    Count(usize),
    /// One is longer than [`CHANGE_BYTES_MAX`].
    #[error("change {number} has {length} bytes, more than 16 MiB", number = .number.0)]
    ChangeTooLong {
        /// The change.
        number: ChangeNumber,
        /// Its length.
        length: usize,
    },
    /// All together are longer than [`SEGMENT_BYTES_MAX`].
    #[error("the segment would have more than 1 GiB: split it")]
    TooLong,
}

/// Why bytes are no segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// It does not start with the magic.
    #[error("this is no change-log segment")]
    Magic,
    /// A version that is not known.
    #[error("the change-log segment has version {0}: use the release of Kist that wrote it, or a newer one")]
    Version(u32),
    /// The length is not what the head says, or beyond the limits.
    #[error("the change-log segment has {0} bytes, not what its head says: read another copy")]
    Length(usize),
    /// The checksum is wrong.
    #[error("the change-log segment's checksum is wrong: read another copy")]
    Checksum,
    /// The checksum is right and the content is not.
    #[error("the change-log segment contradicts itself: it was written wrongly, read another copy")]
    Contradiction,
}

impl<'a> ChangeSegment<'a> {
    /// Writes `changes`, numbered from `first` on, as a segment.
    ///
    /// # Errors
    /// If they are none, too many or too long.
    pub fn encode<B: AsRef<[u8]>>(
        instance: Uuid,
        first: ChangeNumber,
        changes: &[B],
    ) -> Result<Vec<u8>, SegmentEncodeError> {
        let count = changes.len();
        let last = (count as u64).checked_sub(1).and_then(|more| first.0.checked_add(more));
        let Some(last) = last.filter(|_| count <= SEGMENT_CHANGES_MAX) else {
            return Err(SegmentEncodeError::Count(count));
        };
        let body: usize = changes.iter().map(|change| change.as_ref().len() + 4).sum();
        let total = SEGMENT_HEAD_BYTES + body + TRAILER_BYTES;
        let long = changes.iter().enumerate().find(|(_, change)| change.as_ref().len() > CHANGE_BYTES_MAX);
        if let Some((at, change)) = long {
            let number = ChangeNumber(first.0 + at as u64);
            return Err(SegmentEncodeError::ChangeTooLong { number, length: change.as_ref().len() });
        }
        if total > SEGMENT_BYTES_MAX {
            return Err(SegmentEncodeError::TooLong);
        }
        let mut out = Vec::with_capacity(total);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        out.extend(instance.0);
        for number in [first.0, last, count as u64, body as u64] {
            out.extend(number.to_le_bytes());
        }
        assert_eq!(out.len(), SEGMENT_HEAD_BYTES, "the head has its length");
        for change in changes {
            let bytes = change.as_ref();
            let length = u32::try_from(bytes.len()).expect("a change is at most 16 MiB");
            out.extend(length.to_le_bytes());
            out.extend(bytes);
        }
        out.extend(Crc64::of(&out).0.to_le_bytes());
        assert_eq!(out.len(), total, "the segment has its length");
        Ok(out)
    }

    /// Reads a segment. The changes borrow from `bytes`.
    ///
    /// # Errors
    /// If it is anything but what [`ChangeSegment::encode`] makes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SegmentError> {
        let length = SegmentError::Length(bytes.len());
        let Some((head, body)) = bytes.split_first_chunk::<SEGMENT_HEAD_BYTES>() else {
            return Err(if bytes.starts_with(MAGIC) { length } else { SegmentError::Magic });
        };
        let Some(head) = head.strip_prefix(MAGIC) else { return Err(SegmentError::Magic) };
        let mut head = Fields(head);
        let version = head.u32().ok_or(SegmentError::Magic)?;
        if bytes.len() > SEGMENT_BYTES_MAX {
            return Err(length);
        }
        let Some((body, trailer)) = body.split_last_chunk::<TRAILER_BYTES>() else { return Err(length) };
        let checked = bytes.get(..bytes.len() - TRAILER_BYTES).unwrap_or_default();
        let read = head.rest_of_head().ok_or(SegmentError::Contradiction)?;
        if read.body != body.len() as u64 {
            return Err(length);
        }
        if Crc64::of(checked) != Crc64(u64::from_le_bytes(*trailer)) {
            return Err(SegmentError::Checksum);
        }
        // What is damaged has any version: it is believed behind the checksum only.
        if version != VERSION {
            return Err(SegmentError::Version(version));
        }
        let spans = read.last.checked_sub(read.first).and_then(|span| span.checked_add(1));
        if read.reserved != 0 || spans != Some(read.count) || read.count > SEGMENT_CHANGES_MAX as u64 {
            return Err(SegmentError::Contradiction);
        }
        let changes = split_changes(body, read.count).ok_or(SegmentError::Contradiction)?;
        let (first, last) = (ChangeNumber(read.first), ChangeNumber(read.last));
        Ok(ChangeSegment { instance: read.instance, first, last, changes })
    }
}

/// What follows magic and version.
struct RestOfHead {
    reserved: u32,
    instance: Uuid,
    first: u64,
    last: u64,
    count: u64,
    body: u64,
}

/// Little-endian fields, read one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(|field| u32::from_le_bytes(*field))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(|field| u64::from_le_bytes(*field))
    }

    fn rest_of_head(&mut self) -> Option<RestOfHead> {
        Some(RestOfHead {
            reserved: self.u32()?,
            instance: Uuid(*self.take()?),
            first: self.u64()?,
            last: self.u64()?,
            count: self.u64()?,
            body: self.u64()?,
        })
    }
}

fn split_changes(body: &[u8], count: u64) -> Option<Vec<&[u8]>> {
    let mut changes = Vec::new();
    let mut rest = Fields(body);
    for _ in 0..count {
        let length = usize::try_from(rest.u32()?).ok().filter(|&length| length <= CHANGE_BYTES_MAX)?;
        let (change, tail) = rest.0.split_at_checked(length)?;
        changes.push(change);
        rest.0 = tail;
    }
    rest.0.is_empty().then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_and_damage() {
        let encode =
            |first, changes: &[Vec<u8>]| ChangeSegment::encode(Uuid([1; 16]), ChangeNumber(first), changes);
        assert_eq!(encode(1, &[]), Err(SegmentEncodeError::Count(0)));
        assert_eq!(encode(u64::MAX, &[vec![], vec![]]), Err(SegmentEncodeError::Count(2)));
        assert!(encode(u64::MAX, &[vec![]]).is_ok());
        assert!(encode(1, &vec![vec![]; SEGMENT_CHANGES_MAX]).is_ok());
        assert!(encode(1, &vec![vec![]; SEGMENT_CHANGES_MAX + 1]).is_err());
        assert!(encode(1, &[vec![0; CHANGE_BYTES_MAX]]).is_ok());
        assert!(encode(1, &[vec![0; CHANGE_BYTES_MAX + 1]]).is_err());
        let good = encode(7, &[b"one".to_vec(), b"two".to_vec()]).unwrap();
        assert_eq!(ChangeSegment::parse(b"KIST"), Err(SegmentError::Magic));
        assert_eq!(ChangeSegment::parse(&good[..20]), Err(SegmentError::Length(20)));
        assert_eq!(ChangeSegment::parse(&good[..good.len() - 1]), Err(SegmentError::Length(good.len() - 1)));
        let mut other = good.clone();
        other[8] = 2;
        let end = other.len() - TRAILER_BYTES;
        let sum = Crc64::of(&other[..end]).0.to_le_bytes();
        other[end..].copy_from_slice(&sum);
        assert_eq!(ChangeSegment::parse(&other), Err(SegmentError::Version(2)));
    }

    proptest! {
        #[test]
        fn round_trips_and_any_flipped_bit_is_found(
            instance in any::<[u8; 16]>(),
            first in 0..u64::MAX - 20,
            changes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..10),
            bit in any::<proptest::sample::Index>(),
        ) {
            let mut bytes = ChangeSegment::encode(Uuid(instance), ChangeNumber(first), &changes).unwrap();
            let segment = ChangeSegment::parse(&bytes).unwrap();
            prop_assert_eq!(segment.instance, Uuid(instance));
            prop_assert_eq!(segment.last.0, first + changes.len() as u64 - 1);
            prop_assert_eq!(segment.changes, changes.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Damage is damage, and no version.
            let error = ChangeSegment::parse(&bytes).unwrap_err();
            prop_assert!(!matches!(error, SegmentError::Version(_)), "bit {bit}: {error}");
        }

        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let with_magic = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &bytes].concat();
            let _ = (ChangeSegment::parse(&bytes), ChangeSegment::parse(&with_magic));
        }
    }
}
