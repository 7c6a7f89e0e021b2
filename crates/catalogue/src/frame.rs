//! What surrounds every record: its format version before it, a checksum over table, key and value behind it.

use base::Crc64;

use crate::codec::{Codec, Reader};
use crate::error::{ReadError, hex};
use crate::table::Table;

/// The format version of records written by this Kist.
pub const RECORD_VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 8;

/// The bytes of a record: `[version u8][fields][CRC-64/NVME u64 LE over table number, key, version, fields]`.
pub(crate) fn seal<T: Codec>(table: Table, key: &[u8], value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    out.push(RECORD_VERSION);
    value.put(&mut out);
    finish(table, key, out)
}

/// As [`seal`] for fields that are bytes already.
pub(crate) fn seal_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1 + CHECKSUM_BYTES);
    out.push(RECORD_VERSION);
    out.extend_from_slice(bytes);
    finish(table, key, out)
}

/// Most bytes of table, key and body that are brought together before they are summed.
const JOINED_MAX: usize = 512;

/// The checksum over table number, key and body. A short record is copied into one piece first, since three
/// short sums cost more than a copy and one sum.
fn checksum(table: Table, key: &[u8], body: &[u8]) -> Crc64 {
    let mut joined = [0u8; JOINED_MAX];
    let length = 1 + key.len() + body.len();
    let Some(all) = joined.get_mut(..length) else {
        return Crc64::of_parts(&[&[table.number()], key, body]);
    };
    let (number, rest) = all.split_at_mut(1);
    let (key_part, body_part) = rest.split_at_mut(key.len());
    number.copy_from_slice(&[table.number()]);
    key_part.copy_from_slice(key);
    body_part.copy_from_slice(body);
    Crc64::of(all)
}

fn finish(table: Table, key: &[u8], mut out: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(table, key, &out);
    out.extend_from_slice(&checksum.0.to_le_bytes());
    assert_eq!(out.first(), Some(&RECORD_VERSION), "a record begins with its version");
    debug_assert!(check_record(table, key, &out).is_ok(), "a record of {table:?} carries its own checksum");
    out
}

/// The fields of a record as bytes, after its checksum and version were verified.
pub(crate) fn open_bytes<'a>(table: Table, key: &[u8], value: &'a [u8]) -> Result<&'a [u8], ReadError> {
    let damaged = || ReadError::damaged(table, key);
    let at = value.len().checked_sub(CHECKSUM_BYTES).ok_or_else(damaged)?;
    let (body, found) = value.split_at_checked(at).ok_or_else(damaged)?;
    if checksum(table, key, body).0.to_le_bytes() != found {
        return Err(damaged());
    }
    match body.split_first() {
        Some((&RECORD_VERSION, fields)) => Ok(fields),
        Some((&version, _)) if version > RECORD_VERSION => {
            Err(ReadError::Newer { table, key: hex(key), version })
        }
        _ => Err(damaged()),
    }
}

/// Whether the record under a key of a table is what was written there.
///
/// # Errors
/// [`ReadError`] names table and key.
pub fn check_record(table: Table, key: &[u8], value: &[u8]) -> Result<(), ReadError> {
    open_bytes(table, key, value).map(drop)
}

/// The value of a record.
pub(crate) fn open<T: Codec>(table: Table, key: &[u8], value: &[u8]) -> Result<T, ReadError> {
    let mut reader = Reader::new(open_bytes(table, key, value)?);
    match T::take(&mut reader) {
        Some(value) if reader.is_empty() => Ok(value),
        _ => Err(ReadError::damaged(table, key)),
    }
}
