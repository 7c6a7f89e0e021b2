//! What stands in a segment beside its records: the page at its front, the page at its end, and the table of
//! its records before that. The bytes are in docs/format/value-log.md.

use base::planted::{Bug, is_planted};
use base::{Crc32c, Uuid};
use drive::PAGE;

use crate::bytes::{Reader, Writer};
use crate::limits::{KEY_BYTES_MAX, PAGE_WORD, TAG_BYTES_MAX, VERSION_BYTES_MAX};
use crate::record::{Kind, Shape, header_bytes, record_end};

const MAGIC: [u8; 8] = *b"KISTVSEG";
const CRC_AT: usize = PAGE - 4;
const ENTRY_FIXED: usize = 40;

/// What a page at the front or the end of a segment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Of the front: records of this use stand behind it, as far as none of its pages says otherwise.
    Used,
    /// Nothing of this use or an earlier one counts.
    Free,
    /// Of the end: no more comes, and this is the table of it.
    Sealed(Table),
}

/// Where the table of a segment stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) count: u32,
    pub(crate) checksum: Crc32c,
}

/// The page at the front or the end of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) store: Uuid,
    pub(crate) slot: u32,
    pub(crate) used: u64,
    /// All appends up to this one are durable.
    pub(crate) durable: u64,
    pub(crate) state: State,
}

impl Mark {
    pub(crate) fn encode(&self, page: &mut [u8]) {
        let page = &mut page[..PAGE];
        page.fill(0);
        let (state, table) = match self.state {
            State::Used => (1, None),
            State::Free => (2, None),
            State::Sealed(table) => (3, Some(table)),
        };
        let mut writer = Writer::new(page);
        writer.put(&MAGIC).word(crate::superblock::VERSION).word(state).put(&self.store.0);
        writer.long(self.used).word(self.slot).word(0).long(self.durable);
        if let Some(table) = table {
            writer.word(table.offset).word(table.bytes).word(table.count).word(table.checksum.0);
        }
        let own = Crc32c::of(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&own.0.to_le_bytes());
    }

    /// Reads a page; `None` if it is none of this store and slot.
    pub(crate) fn parse(page: &[u8], store: Uuid, slot: u32) -> Option<Mark> {
        let mark = Mark::parse_any(page)?;
        (mark.store == store && mark.slot == slot).then_some(mark)
    }

    /// Reads a page of any store and slot.
    pub(crate) fn parse_any(page: &[u8]) -> Option<Mark> {
        let page: &[u8; PAGE] = page.try_into().ok()?;
        let mut reader = Reader(page);
        if reader.eight() != MAGIC || Reader(&page[CRC_AT..]).word() != Crc32c::of(&page[..CRC_AT]).0 {
            return None;
        }
        if reader.word() != crate::superblock::VERSION {
            return None;
        }
        let state = reader.word();
        let store = reader.uuid();
        let used = reader.long();
        let slot = reader.word();
        reader.word();
        let durable = reader.long();
        let table = Table {
            offset: reader.word(),
            bytes: reader.word(),
            count: reader.word(),
            checksum: Crc32c(reader.word()),
        };
        let state = match state {
            1 => State::Used,
            2 => State::Free,
            3 => State::Sealed(table),
            _ => return None,
        };
        Some(Mark { store, slot, used, durable, state })
    }
}

/// A record as the table of its segment has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableEntry<'a> {
    pub(crate) kind: Kind,
    pub(crate) algorithm: i32,
    pub(crate) offset: u32,
    pub(crate) value_bytes: u32,
    pub(crate) sequence: u64,
    pub(crate) append: u64,
    pub(crate) key: &'a [u8],
    pub(crate) version: &'a [u8],
    pub(crate) tag: &'a [u8],
}

/// Bytes of a record in the table.
pub(crate) fn entry_bytes(key: usize, version: usize, tag: usize) -> usize {
    (ENTRY_FIXED + key + version + tag).next_multiple_of(8)
}

impl<'a> TableEntry<'a> {
    pub(crate) fn shape(&self) -> Shape {
        let (key, version, tag) = (self.key.len(), self.version.len(), self.tag.len());
        Shape { key, version, tag, value: self.value_bytes as usize }
    }

    /// Where its record ends.
    pub(crate) fn end(&self) -> u32 {
        record_end(self.offset, header_bytes(self.shape()), self.value_bytes as usize)
    }

    /// Appends it to a table.
    pub(crate) fn encode(&self, table: &mut Vec<u8>) {
        let length = |part: &[u8]| u16::try_from(part.len()).unwrap_or(u16::MAX);
        let start = table.len();
        table.resize(start + entry_bytes(self.key.len(), self.version.len(), self.tag.len()), 0);
        let mut writer = Writer::new(&mut table[start..]);
        writer.put(&[self.kind.number(), 0]);
        writer.short(length(self.key)).short(length(self.version)).short(length(self.tag));
        writer.put(&self.algorithm.to_le_bytes()).word(self.offset).word(self.value_bytes).word(0);
        writer.long(self.sequence).long(self.append);
        writer.put(self.key).put(self.version).put(self.tag);
    }

    fn parse(reader: &mut Reader<'a>) -> Option<TableEntry<'a>> {
        let mut fixed = Reader(reader.take(ENTRY_FIXED)?);
        let kind = Kind::of(fixed.byte()).filter(|kind| *kind != Kind::BatchEnd)?;
        fixed.byte();
        let (key, version, tag) =
            (usize::from(fixed.short()), usize::from(fixed.short()), usize::from(fixed.short()));
        if key == 0 || key > KEY_BYTES_MAX + 1 || version > VERSION_BYTES_MAX || tag > TAG_BYTES_MAX {
            return None;
        }
        let algorithm = fixed.number();
        let (offset, value_bytes) = (fixed.word(), fixed.word());
        fixed.word();
        let (sequence, append) = (fixed.long(), fixed.long());
        let mut parts = Reader(reader.take(entry_bytes(key, version, tag) - ENTRY_FIXED)?);
        let (key, version, tag) = (parts.take(key)?, parts.take(version)?, parts.take(tag)?);
        Some(TableEntry { kind, algorithm, offset, value_bytes, sequence, append, key, version, tag })
    }
}

/// Reads the table of a segment. `None` if it is damaged: it then counts for nothing.
pub(crate) fn parse_table(bytes: &[u8], table: Table, segment: u32) -> Option<Vec<TableEntry<'_>>> {
    if Crc32c::of(bytes) != table.checksum && !is_planted(Bug::UncheckedFooter) {
        return None;
    }
    let mut reader = Reader(bytes);
    let mut entries = Vec::new();
    while !reader.0.is_empty() {
        let entry = TableEntry::parse(&mut reader)?;
        if entry.offset < PAGE_WORD || entry.end() > segment {
            return None;
        }
        entries.push(entry);
    }
    (entries.len() == table.count as usize).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_each_flipped_bit_is_seen() {
        let table = Table { offset: 8192, bytes: 88, count: 2, checksum: Crc32c(0x1234_5678) };
        for state in [State::Used, State::Free, State::Sealed(table)] {
            let mark = Mark { store: Uuid([7; 16]), slot: 9, used: 0x2_0000_0001, durable: 77, state };
            let mut page = vec![1; PAGE];
            mark.encode(&mut page);
            assert_eq!(Mark::parse(&page, Uuid([7; 16]), 9), Some(mark));
            assert_eq!(Mark::parse(&page, Uuid([8; 16]), 9), None);
            assert_eq!(Mark::parse(&page, Uuid([7; 16]), 8), None);
            for bit in (0..80 * 8).chain((CRC_AT - 4) * 8..PAGE * 8) {
                page[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Mark::parse_any(&page), None, "bit {bit}");
                page[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn golden_footer() {
        let mut bytes = Vec::new();
        let put = TableEntry {
            kind: Kind::Put,
            algorithm: 4,
            offset: 4096,
            value_bytes: 100,
            sequence: 11,
            append: 12,
            key: b"\0key",
            version: b"version",
            tag: b"tag!",
        };
        let delete = TableEntry { kind: Kind::Delete, value_bytes: 0, offset: 8192, key: b"\0other", ..put };
        put.encode(&mut bytes);
        delete.encode(&mut bytes);
        let table =
            Table { offset: 12288, bytes: bytes.len() as u32, count: 2, checksum: Crc32c::of(&bytes) };
        assert_eq!(parse_table(&bytes, table, 1 << 20), Some(vec![put, delete]));
        assert_eq!(parse_table(&bytes, table, 8192), None, "a record behind the end");
        assert_eq!(parse_table(&bytes, Table { count: 3, ..table }, 1 << 20), None);
        let mark = Mark { store: Uuid([7; 16]), slot: 9, used: 5, durable: 12, state: State::Sealed(table) };
        let mut page = vec![0; PAGE];
        mark.encode(&mut page);
        bytes.extend_from_slice(&page);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/footer-v1.bin");
        assert!(std::fs::read(path).unwrap() == bytes, "the format is kept");
        for at in 0..table.bytes as usize {
            bytes[at] ^= 0x10;
            assert_eq!(parse_table(&bytes[..table.bytes as usize], table, 1 << 20), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }
}
