//! Parts of a base: the catalogue's rows at one change, as files on tape from which a rebuild can begin.

use base::{Crc64, Uuid};

use crate::changes::ChangeNumber;

/// A part is closed before it becomes longer than this, unless one row alone is: it is in memory as a whole
/// when it is made, written and read.
pub const PART_BYTES: usize = 64 << 20;
/// The longest part that is read.
pub const PART_BYTES_MAX: usize = 256 << 20;
/// The most parts of a base: 64 TB of rows.
pub const PARTS_MAX: u32 = 999_999;
/// The longest key of a row.
pub const KEY_BYTES_MAX: usize = 511;
/// Length of the head.
pub const PART_HEAD_BYTES: usize = 72;

const MAGIC: &[u8; 8] = b"KISTBAS1";
const VERSION: u32 = 1;
const TRAILER_BYTES: usize = 8;
/// Table, length of the key, length of the value.
const ROW_HEAD_BYTES: usize = 7;
const LAST: u32 = 1;
/// Where the head has the instance, and the length of the body.
const INSTANCE_AT: usize = 16;
const BODY_LENGTH_AT: usize = 56;

/// The length of a whole part, and whose it is, by its first bytes; `None`: these do not begin one.
#[must_use]
pub fn part_at(first: &[u8]) -> Option<(u64, Uuid)> {
    let head = first.first_chunk::<PART_HEAD_BYTES>().filter(|head| head.starts_with(MAGIC))?;
    let body = u64::from_le_bytes(std::array::from_fn(|n| head[BODY_LENGTH_AT + n]));
    let frame = (PART_HEAD_BYTES + TRAILER_BYTES) as u64;
    let length = body.saturating_add(frame).min(PART_BYTES_MAX as u64);
    Some((length, Uuid(std::array::from_fn(|n| head[INSTANCE_AT + n]))))
}

/// What the head of a part says, but for what follows from its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartHead {
    /// The instance whose catalogue it is.
    pub instance: Uuid,
    /// The format of the catalogue's records, as its file `FORMAT` has it.
    pub format: u32,
    /// The newest change that the rows hold.
    pub change: ChangeNumber,
    /// Which part it is, from 1 on.
    pub part: u32,
    /// No part follows.
    pub is_last: bool,
    /// Rows in the parts before it.
    pub rows_before: u64,
}

/// A row of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BaseRow<'a> {
    /// The number of the table.
    pub table: u8,
    /// The key.
    pub key: &'a [u8],
    /// The record as the catalogue wrote it, with its own checksum.
    pub value: &'a [u8],
}

/// Why bytes are no part of a base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BasePartError {
    /// It does not start with the magic.
    #[error("this is no part of a catalogue's base")]
    Magic,
    /// A version that is not known.
    #[error("the part of a base has version {0}: use the release of Kist that wrote it, or a newer one")]
    Version(u32),
    /// The length is not what the head says, or beyond the limits.
    #[error("the part of a base has {0} bytes, not what its head says: read another copy")]
    Length(usize),
    /// The checksum is wrong.
    #[error("the checksum of a part of a base is wrong: read another copy")]
    Checksum,
    /// The checksum is right and the content is not.
    #[error("a part of a base contradicts itself: it was written wrongly, read another copy")]
    Contradiction,
}

/// A part that is being made: rows are added, then it is closed.
///
/// Little-endian:
///
/// ```text
///  0  8  "KISTBAS1"
///  8  4  version, 1
/// 12  4  format of the catalogue
/// 16 16  UUID of the instance
/// 32  8  number of the newest change that the rows hold
/// 40  8  rows in the parts before
/// 48  8  rows in this part
/// 56  8  length of the body in bytes
/// 64  4  number of the part, from 1
/// 68  4  1: the last part; else 0
/// 72  .  body: for each row its table (1), the lengths of key (2) and value (4), key, value
///  .  8  CRC-64/NVME of everything before
/// ```
#[derive(Clone, Debug)]
pub struct BasePartWriter {
    bytes: Vec<u8>,
    rows: u64,
}

impl Default for BasePartWriter {
    fn default() -> Self {
        BasePartWriter { bytes: vec![0; PART_HEAD_BYTES], rows: 0 }
    }
}

impl BasePartWriter {
    /// Adds a row; `false`, and nothing is done, if the part must be closed first, or the row cannot be in
    /// any part: an empty part takes every row that can.
    pub fn add(&mut self, row: BaseRow<'_>) -> bool {
        let more = ROW_HEAD_BYTES + row.key.len() + row.value.len();
        let (limit, length) = match self.rows {
            0 => (PART_BYTES_MAX, PART_HEAD_BYTES + more + TRAILER_BYTES),
            _ => (PART_BYTES, self.bytes.len() + more + TRAILER_BYTES),
        };
        let (Ok(key), Ok(value)) = (u16::try_from(row.key.len()), u32::try_from(row.value.len())) else {
            return false;
        };
        if length > limit || row.key.len() > KEY_BYTES_MAX {
            return false;
        }
        self.bytes.push(row.table);
        self.bytes.extend(key.to_le_bytes());
        self.bytes.extend(value.to_le_bytes());
        self.bytes.extend(row.key);
        self.bytes.extend(row.value);
        self.rows += 1;
        true
    }

    /// Rows in it.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of the part.
    #[must_use]
    pub fn close(self, head: &PartHead) -> Vec<u8> {
        let BasePartWriter { mut bytes, rows } = self;
        let mut front = Vec::with_capacity(PART_HEAD_BYTES);
        front.extend(MAGIC);
        front.extend(VERSION.to_le_bytes());
        front.extend(head.format.to_le_bytes());
        front.extend(head.instance.0);
        let body = (bytes.len() - PART_HEAD_BYTES) as u64;
        for number in [head.change.0, head.rows_before, rows, body] {
            front.extend(number.to_le_bytes());
        }
        front.extend(head.part.to_le_bytes());
        front.extend((if head.is_last { LAST } else { 0 }).to_le_bytes());
        bytes.splice(..PART_HEAD_BYTES, front);
        bytes.extend(Crc64::of(&bytes).0.to_le_bytes());
        bytes
    }
}

/// A part that was read; the rows borrow from its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BasePart<'a> {
    /// What its head says.
    pub head: PartHead,
    /// Its rows, in the order of tables and keys.
    pub rows: Vec<BaseRow<'a>>,
}

impl<'a> BasePart<'a> {
    /// Reads a part.
    ///
    /// # Errors
    /// If it is anything but what [`BasePartWriter`] makes.
    pub fn parse(bytes: &'a [u8]) -> Result<BasePart<'a>, BasePartError> {
        let length = BasePartError::Length(bytes.len());
        if !bytes.starts_with(MAGIC) {
            return Err(BasePartError::Magic);
        }
        let Some((checked, trailer)) = bytes.split_last_chunk::<TRAILER_BYTES>() else { return Err(length) };
        let Some((head, body)) = checked.split_first_chunk::<PART_HEAD_BYTES>() else { return Err(length) };
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| head[at + n]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| head[at + n]));
        if bytes.len() > PART_BYTES_MAX || u64_at(BODY_LENGTH_AT) != body.len() as u64 {
            return Err(length);
        }
        if Crc64::of(checked) != Crc64(u64::from_le_bytes(*trailer)) {
            return Err(BasePartError::Checksum);
        }
        // What is damaged has any version: it is believed behind the checksum only.
        if u32_at(8) != VERSION {
            return Err(BasePartError::Version(u32_at(8)));
        }
        let head = PartHead {
            instance: Uuid(std::array::from_fn(|n| head[INSTANCE_AT + n])),
            format: u32_at(12),
            change: ChangeNumber(u64_at(32)),
            part: u32_at(64),
            is_last: u32_at(68) == LAST,
            rows_before: u64_at(40),
        };
        let (count, flags) = (u64_at(48), u32_at(68));
        if flags > LAST
            || !(1..=PARTS_MAX).contains(&head.part)
            || (head.part == 1) != (head.rows_before == 0)
        {
            return Err(BasePartError::Contradiction);
        }
        let rows = split_rows(body, count).ok_or(BasePartError::Contradiction)?;
        Ok(BasePart { head, rows })
    }
}

fn split_rows(mut body: &[u8], count: u64) -> Option<Vec<BaseRow<'_>>> {
    let mut rows = Vec::new();
    for _ in 0..count {
        let (head, rest) = body.split_first_chunk::<ROW_HEAD_BYTES>()?;
        let [table, k0, k1, v0, v1, v2, v3] = *head;
        let key_length = usize::from(u16::from_le_bytes([k0, k1]));
        let value_length = usize::try_from(u32::from_le_bytes([v0, v1, v2, v3])).ok()?;
        let (key, rest) = rest.split_at_checked(key_length).filter(|_| key_length <= KEY_BYTES_MAX)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        rows.push(BaseRow { table, key, value });
        body = rest;
    }
    (body.is_empty() && count > 0).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(part: u32) -> PartHead {
        PartHead {
            instance: Uuid([9; 16]),
            format: 3,
            change: ChangeNumber(77),
            part,
            is_last: true,
            rows_before: u64::from(part - 1) * 5,
        }
    }

    #[test]
    fn a_part_is_closed_at_its_limit_and_takes_one_long_row() {
        let mut part = BasePartWriter::default();
        let long = vec![1; PART_BYTES];
        assert!(part.add(BaseRow { table: 1, key: b"k", value: &long }));
        assert!(!part.add(BaseRow { table: 1, key: b"l", value: b"" }));
        assert_eq!(BasePart::parse(&part.close(&head(1))).unwrap().rows.len(), 1);
        let frame = PART_HEAD_BYTES + ROW_HEAD_BYTES + TRAILER_BYTES;
        let mut part = BasePartWriter::default();
        let longest = vec![1; PART_BYTES_MAX - frame + 1];
        assert!(!part.add(BaseRow { table: 1, key: b"", value: &longest }));
        assert!(part.add(BaseRow { table: 1, key: b"", value: &longest[1..] }));
        assert!(BasePart::parse(&part.close(&head(1))).is_ok());
        let mut part = BasePartWriter::default();
        assert!(!part.add(BaseRow { table: 1, key: &[0; KEY_BYTES_MAX + 1], value: b"" }));
        assert!(part.add(BaseRow { table: 1, key: &[0; KEY_BYTES_MAX], value: b"" }));
        assert_eq!(BasePart::parse(&part.close(&head(2))).unwrap().head, head(2));
    }

    #[test]
    fn a_part_is_known_by_its_first_bytes() {
        let mut part = BasePartWriter::default();
        assert!(part.add(BaseRow { table: 1, key: b"k", value: b"v" }));
        let mut bytes = part.close(&head(1));
        assert_eq!(part_at(&bytes[..PART_HEAD_BYTES]), Some((bytes.len() as u64, Uuid([9; 16]))));
        assert_eq!(part_at(&bytes[..PART_HEAD_BYTES - 1]), None);
        bytes[56..64].fill(255);
        assert_eq!(part_at(&bytes), Some((PART_BYTES_MAX as u64, Uuid([9; 16]))));
        bytes[0] ^= 1;
        assert_eq!(part_at(&bytes), None);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let part = |of: &PartHead| {
            let mut part = BasePartWriter::default();
            assert!(part.add(BaseRow { table: 1, key: b"k", value: b"v" }));
            part.close(of)
        };
        for wrong in [PartHead { part: 0, ..head(1) }, PartHead { rows_before: 0, ..head(2) }] {
            assert_eq!(BasePart::parse(&part(&wrong)), Err(BasePartError::Contradiction));
        }
        let empty = BasePartWriter::default().close(&head(1));
        assert_eq!(BasePart::parse(&empty), Err(BasePartError::Contradiction));
        let good = part(&head(1));
        assert_eq!(BasePart::parse(&good[..20]), Err(BasePartError::Length(20)));
        assert_eq!(BasePart::parse(&good[..good.len() - 1]), Err(BasePartError::Length(good.len() - 1)));
        let mut other = good;
        other[8] = 2;
        let end = other.len() - TRAILER_BYTES;
        let sum = Crc64::of(&other[..end]).0.to_le_bytes();
        other[end..].copy_from_slice(&sum);
        assert_eq!(BasePart::parse(&other), Err(BasePartError::Version(2)));
    }

    proptest! {
        #[test]
        fn round_trips_and_any_flipped_bit_is_found(
            rows in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..20),
                 proptest::collection::vec(any::<u8>(), 0..40)), 1..10),
            bit in any::<proptest::sample::Index>(),
        ) {
            let rows: Vec<BaseRow<'_>> =
                rows.iter().map(|(table, key, value)| BaseRow { table: *table, key, value }).collect();
            let mut part = BasePartWriter::default();
            prop_assert!(rows.iter().all(|row| part.add(*row)));
            let mut bytes = part.close(&head(3));
            let read = BasePart::parse(&bytes).unwrap();
            prop_assert_eq!((read.head, read.rows), (head(3), rows));
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Damage is damage, and no version.
            let error = BasePart::parse(&bytes).unwrap_err();
            prop_assert!(!matches!(error, BasePartError::Version(_)), "bit {bit}: {error}");
        }

        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let with_magic = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &bytes].concat();
            let _ = (BasePart::parse(&bytes), BasePart::parse(&with_magic));
        }
    }
}
