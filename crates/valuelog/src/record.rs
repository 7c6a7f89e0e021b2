//! A record: what stands in a segment for a put, a delete or the end of a batch. The bytes are in
//! docs/format/value-log.md.

use base::{Crc32c, Uuid};
use drive::PAGE;

use crate::bytes::{Reader, Writer};
use crate::error::DamageKind;
use crate::limits::{BLOCK_BYTES, KEY_BYTES_MAX, TAG_BYTES_MAX, VALUE_BYTES_LIMIT, VERSION_BYTES_MAX};

/// Where records begin: at multiples of this.
pub(crate) const STEP: usize = 64;
/// A value of so many bytes begins at a page of its own, so that it can be written and read directly.
pub(crate) const PAGED_FROM: usize = 32 << 10;
/// Bytes of a header before key, version, tag and checksums.
pub(crate) const FIXED_BYTES: usize = 96;
/// Bytes of the longest header.
pub(crate) const HEADER_BYTES_MAX: usize = FIXED_BYTES
    + KEY_BYTES_MAX
    + 1
    + VERSION_BYTES_MAX
    + TAG_BYTES_MAX
    + 4 * VALUE_BYTES_LIMIT.div_ceil(BLOCK_BYTES);
const MAGIC: [u8; 8] = *b"KISTVREC";
const CRC_AT: usize = 92;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Put,
    Delete,
    /// All members of a batch stand before it.
    BatchEnd,
}

impl Kind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Kind::Put => 1,
            Kind::Delete => 2,
            Kind::BatchEnd => 3,
        }
    }

    pub(crate) fn of(number: u8) -> Option<Kind> {
        [Kind::Put, Kind::Delete, Kind::BatchEnd].into_iter().find(|kind| kind.number() == number)
    }
}

/// How long the parts of a record are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) key: usize,
    pub(crate) version: usize,
    pub(crate) tag: usize,
    pub(crate) value: usize,
}

/// Bytes of the header of such a record.
pub(crate) fn header_bytes(shape: Shape) -> usize {
    FIXED_BYTES + shape.key + shape.version + shape.tag + 4 * shape.value.div_ceil(BLOCK_BYTES)
}

/// Where the value begins of a record that begins there.
pub(crate) fn value_at(start: u32, header: usize, value: usize) -> u32 {
    let end = start as usize + header;
    let at = if value >= PAGED_FROM { end.next_multiple_of(PAGE) } else { end.next_multiple_of(8) };
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Where such a record ends, and another may begin.
pub(crate) fn record_end(start: u32, header: usize, value: usize) -> u32 {
    let end = (value_at(start, header, value) as usize).saturating_add(value);
    u32::try_from(end.next_multiple_of(STEP)).unwrap_or(u32::MAX)
}

/// Where a record stands, in which use of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) store: Uuid,
    pub(crate) slot: u32,
    pub(crate) used: u64,
    pub(crate) offset: u32,
}

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header<'a> {
    pub(crate) kind: Kind,
    pub(crate) algorithm: i32,
    pub(crate) value_bytes: u32,
    pub(crate) at: At,
    /// The order of changes: of two of a key the higher one holds. A copy keeps that of its original.
    pub(crate) sequence: u64,
    /// The order of appends, which is also that of copies.
    pub(crate) append: u64,
    /// All appends up to this one were durable when it was made.
    pub(crate) durable: u64,
    /// The first append of its batch; 0: it is of none.
    pub(crate) batch: u64,
    /// Its place in the batch; of an end: how many members there are.
    pub(crate) place: u32,
    pub(crate) key: &'a [u8],
    pub(crate) version: &'a [u8],
    pub(crate) tag: &'a [u8],
    /// The CRC-32C of each block of the value, four bytes each.
    pub(crate) checksums: &'a [u8],
}

impl<'a> Header<'a> {
    pub(crate) fn shape(&self) -> Shape {
        let (key, version, tag) = (self.key.len(), self.version.len(), self.tag.len());
        Shape { key, version, tag, value: self.value_bytes as usize }
    }

    pub(crate) fn bytes(&self) -> usize {
        header_bytes(self.shape())
    }

    pub(crate) fn value_at(&self) -> u32 {
        value_at(self.at.offset, self.bytes(), self.value_bytes as usize)
    }

    pub(crate) fn end(&self) -> u32 {
        record_end(self.at.offset, self.bytes(), self.value_bytes as usize)
    }

    /// Writes it to the beginning of `into`; gives its checksum.
    pub(crate) fn encode(&self, into: &mut [u8]) -> Crc32c {
        let bytes = self.bytes();
        let into = &mut into[..bytes];
        assert_eq!(self.checksums.len(), 4 * self.shape().value.div_ceil(BLOCK_BYTES), "one for each block");
        assert!((self.at.offset as usize).is_multiple_of(STEP), "records begin where they are looked for");
        let length = |part: &[u8]| u16::try_from(part.len()).unwrap_or(u16::MAX);
        let mut writer = Writer::new(into);
        writer.put(&MAGIC).put(&[self.kind.number(), 0]);
        writer.short(length(self.key)).short(length(self.version)).short(length(self.tag));
        writer.put(&self.algorithm.to_le_bytes()).word(self.value_bytes).put(&self.at.store.0);
        writer.long(self.at.used).word(self.at.slot).word(self.at.offset);
        writer.long(self.sequence).long(self.append).long(self.durable).long(self.batch);
        writer.word(self.place).word(0);
        writer.put(self.key).put(self.version).put(self.tag).put(self.checksums);
        let own = Crc32c::of(into);
        into[CRC_AT..FIXED_BYTES].copy_from_slice(&own.0.to_le_bytes());
        own
    }

    /// Reads the header at the beginning of `bytes` and gives its checksum with it. Only what it says of
    /// itself is checked, not whether it belongs there.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<(Header<'a>, Crc32c)> {
        let mut reader = Reader(bytes);
        if reader.eight() != MAGIC {
            return None;
        }
        let kind = Kind::of(reader.byte())?;
        let zero = reader.byte();
        let (key, version, tag) = (reader.short(), reader.short(), reader.short());
        let algorithm = reader.number();
        let value_bytes = reader.word();
        let store = reader.uuid();
        let used = reader.long();
        let (slot, offset) = (reader.word(), reader.word());
        let (sequence, append, durable, batch) = (reader.long(), reader.long(), reader.long(), reader.long());
        let place = reader.word();
        let shape = Shape {
            key: usize::from(key),
            version: usize::from(version),
            tag: usize::from(tag),
            value: usize::try_from(value_bytes).ok()?,
        };
        let is_too_long = shape.key > KEY_BYTES_MAX + 1
            || shape.version > VERSION_BYTES_MAX
            || shape.tag > TAG_BYTES_MAX
            || shape.value > VALUE_BYTES_LIMIT;
        if zero != 0 || is_too_long || !(offset as usize).is_multiple_of(STEP) {
            return None;
        }
        let whole = bytes.get(..header_bytes(shape))?;
        let own = Crc32c(Reader(&whole[CRC_AT..]).word());
        let checksum = Crc32c::of(&whole[..CRC_AT]).extend(&[0; 4]).extend(&whole[FIXED_BYTES..]);
        if own != checksum {
            return None;
        }
        let mut rest = Reader(&whole[FIXED_BYTES..]);
        let header = Header {
            kind,
            algorithm,
            value_bytes,
            at: At { store, slot, used, offset },
            sequence,
            append,
            durable,
            batch,
            place,
            key: rest.take(shape.key)?,
            version: rest.take(shape.version)?,
            tag: rest.take(shape.tag)?,
            checksums: rest.0,
        };
        Some((header, own))
    }

    /// Whether these bytes of the value, which begin with this block, are what was written.
    pub(crate) fn check_blocks(&self, first: usize, bytes: &[u8]) -> Result<(), DamageKind> {
        check_blocks(self.checksums, first, bytes)
    }
}

/// As [`Header::check_blocks`].
pub(crate) fn check_blocks(checksums: &[u8], first: usize, bytes: &[u8]) -> Result<(), DamageKind> {
    for (place, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let place = first + place;
        let known = checksums.get(4 * place..4 * place + 4).map(|bytes| Reader(bytes).word());
        if known != Some(Crc32c::of(block).0) {
            return Err(DamageKind::Block(u32::try_from(place).unwrap_or(u32::MAX)));
        }
    }
    Ok(())
}

/// The checksums of the blocks of a value, as a header has them.
pub(crate) fn checksums_of(value: &[u8]) -> Vec<u8> {
    value.chunks(BLOCK_BYTES).flat_map(|block| Crc32c::of(block).0.to_le_bytes()).collect()
}

/// The checksum of a batch: over those of the headers of its members, which hold those of their values.
pub(crate) fn chain(so_far: Crc32c, header: Crc32c) -> Crc32c {
    so_far.extend(&header.0.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: &[u8], checksums: &[u8]) -> Vec<u8> {
        let header = Header {
            kind: Kind::Put,
            algorithm: 4,
            value_bytes: value.len() as u32,
            at: At { store: Uuid([7; 16]), slot: 3, used: 0x1_0000_0002, offset: 8192 },
            sequence: 11,
            append: 12,
            durable: 10,
            batch: 9,
            place: 2,
            key: b"\0key",
            version: b"version",
            tag: b"tag!",
            checksums,
        };
        let mut bytes = vec![0; header.bytes()];
        header.encode(&mut bytes);
        assert_eq!(Header::parse(&bytes).unwrap().0, header);
        bytes
    }

    #[test]
    fn golden_header() {
        let value = [5; 100];
        let bytes = sample(&value, &checksums_of(&value));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/record-v1.bin");
        assert!(std::fs::read(path).unwrap() == bytes, "the format is kept");
    }

    #[test]
    fn each_flipped_bit_and_each_missing_byte_is_seen() {
        let value = vec![9; BLOCK_BYTES + 1];
        let checksums = checksums_of(&value);
        let mut bytes = sample(&value, &checksums);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_none(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..bytes.len() {
            assert!(Header::parse(&bytes[..length]).is_none(), "{length} bytes");
        }
        let (header, _) = Header::parse(&bytes).unwrap();
        assert_eq!(header.check_blocks(0, &value), Ok(()));
        assert_eq!(header.check_blocks(1, &value[BLOCK_BYTES..]), Ok(()));
        assert_eq!(header.check_blocks(1, &[9, 9]), Err(DamageKind::Block(1)));
        assert_eq!(header.check_blocks(2, &[9]), Err(DamageKind::Block(2)), "there is no such block");
    }

    #[test]
    fn places() {
        let at = |start, header, value| (value_at(start, header, value), record_end(start, header, value));
        assert_eq!(at(4096, 97, 0), (4200, 4224));
        assert_eq!(at(4096, 100, 24), (4200, 4224));
        assert_eq!(at(4096, 100, 25), (4200, 4288));
        assert_eq!(at(4096, 100, PAGED_FROM - 1), (4200, 4200 + PAGED_FROM as u32 + 24));
        assert_eq!(at(4096, 100, PAGED_FROM), (8192, 8192 + PAGED_FROM as u32));
        assert_eq!(at(4096, 4096, PAGED_FROM), (8192, 8192 + PAGED_FROM as u32));
    }
}
