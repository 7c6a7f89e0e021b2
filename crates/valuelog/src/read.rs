//! Reading: nothing is given that was not compared with its checksums, and with the place it is to stand at.

use base::ByteCount;
use drive::PAGE;

use crate::buffers::Value;
use crate::change::{USER, check_key, spaced};
use crate::error::{Damage, DamageKind, LogError};
use crate::index;
use crate::limits::BLOCK_BYTES;
use crate::log::{Inner, ValueLog};
use crate::record::{At, Header, Shape, header_bytes, value_at};

/// What stands at a key, without its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// The version that was given with it.
    pub version: Box<[u8]>,
    /// The tag that was given with it.
    pub tag: Box<[u8]>,
    /// What kind of tag it is.
    pub algorithm: i32,
    /// The length of the value.
    pub length: ByteCount,
}

impl Metadata {
    pub(crate) fn of(entry: &index::Entry) -> Metadata {
        Metadata {
            version: entry.version().into(),
            tag: entry.tag().into(),
            algorithm: entry.algorithm,
            length: ByteCount(u64::from(entry.value_bytes)),
        }
    }
}

/// What stands at a key.
#[derive(Debug)]
pub struct Entry {
    /// All but the value.
    pub metadata: Metadata,
    /// The value, or the part of it that was asked for.
    pub value: Value,
}

/// Where a record is looked for, and what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) at: At,
    pub(crate) sequence: u64,
    pub(crate) shape: Shape,
}

impl ValueLog {
    /// What stands at a key.
    ///
    /// # Errors
    /// [`LogError::NotFound`], [`LogError::Damaged`].
    pub fn get(&self, key: &[u8]) -> Result<Entry, LogError> {
        check_key(key)?;
        self.inner.get(&spaced(USER, key), None)
    }

    /// A part of what stands at a key; only the blocks that it touches are read and compared.
    ///
    /// # Errors
    /// As [`ValueLog::get`], and [`LogError::BeyondEnd`].
    pub fn get_part(&self, key: &[u8], offset: ByteCount, length: ByteCount) -> Result<Entry, LogError> {
        check_key(key)?;
        self.inner.get(&spaced(USER, key), Some((offset.0, length.0)))
    }

    /// What the owner of the store has kept for itself.
    ///
    /// # Errors
    /// As [`ValueLog::get`].
    pub fn get_own(&self, key: &[u8]) -> Result<Entry, LogError> {
        self.inner.get(&Inner::own_key(key)?, None)
    }

    /// What stands at a key, without reading it from the disk.
    ///
    /// # Errors
    /// [`LogError::NotFound`].
    pub fn metadata(&self, key: &[u8]) -> Result<Metadata, LogError> {
        check_key(key)?;
        let state = self.inner.lock();
        state.index.get(&spaced(USER, key)).map(Metadata::of).ok_or(LogError::NotFound)
    }
}

impl Inner {
    /// Where the record of a key stands now.
    fn wanted(&self, key: &[u8]) -> Result<(Wanted, Metadata), LogError> {
        let state = self.lock();
        if state.is_closed {
            return Err(LogError::Closed);
        }
        let entry = state.index.get(key).ok_or(LogError::NotFound)?;
        let (slot, offset) = (entry.place.slot, entry.place.offset);
        let at = At { store: state.store, slot, used: state.slots[slot as usize].used, offset };
        Ok((Wanted { at, sequence: entry.sequence, shape: entry.shape(key) }, Metadata::of(entry)))
    }

    /// Reads an entry, or a part of it: first byte and length.
    pub(crate) fn get(&self, key: &[u8], part: Option<(u64, u64)>) -> Result<Entry, LogError> {
        let mut sought = self.wanted(key)?;
        loop {
            let (wanted, metadata) = sought;
            let length = metadata.length.0;
            let (from, bytes) = part.unwrap_or((0, length));
            let end = from.checked_add(bytes).filter(|end| *end <= length);
            let end = end.ok_or(LogError::BeyondEnd { end: from.saturating_add(bytes), length })?;
            let cast = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            let damage = match self.read(key, &wanted, cast(from)..cast(end)) {
                Ok(value) => {
                    self.counters.reads.add(1);
                    self.counters.read.add(bytes);
                    return Ok(Entry { metadata, value });
                }
                Err(damage) => damage,
            };
            // Nothing keeps a segment from being cleaned and used again while it is read: then the key is
            // somewhere else by now.
            sought = self.wanted(key)?;
            if sought.0 == wanted {
                return Err(self.met(damage));
            }
        }
    }

    /// Reads the record of a key, and of its value these bytes.
    pub(crate) fn read(
        &self,
        key: &[u8],
        wanted: &Wanted,
        part: std::ops::Range<usize>,
    ) -> Result<Value, Damage> {
        self.read_checked(key, wanted, part).map_err(|kind| Damage {
            key: key.get(1..).map(Into::into),
            segment: wanted.at.slot,
            offset: ByteCount(u64::from(wanted.at.offset)),
            kind,
        })
    }

    fn read_checked(
        &self,
        key: &[u8],
        wanted: &Wanted,
        part: std::ops::Range<usize>,
    ) -> Result<Value, DamageKind> {
        assert!(part.start <= part.end && part.end <= wanted.shape.value, "a part is within its value");
        let (start, header) = (wanted.at.offset as usize, header_bytes(wanted.shape));
        let value = value_at(wanted.at.offset, header, wanted.shape.value) as usize;
        let first_page = start / PAGE * PAGE;
        // Whole blocks, of which the checksums are.
        let first_block = part.start / BLOCK_BYTES;
        let blocks =
            first_block * BLOCK_BYTES..(part.end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES).min(wanted.shape.value);
        let end = |at: usize| (value + at).next_multiple_of(PAGE);
        if first_block == 0 {
            let length = end(blocks.end).max((start + header).next_multiple_of(PAGE)) - first_page;
            let mut buffer = self.buffers.get(length);
            self.fetch(wanted.at.slot, first_page, &mut buffer.bytes_mut()[..length])?;
            let bytes = &buffer.bytes()[..length];
            let header = checked_header(&bytes[start - first_page..], key, wanted)?;
            let value = value - first_page;
            header.check_blocks(0, &bytes[value..value + blocks.end])?;
            return Ok(Value::new(buffer, value + part.start..value + part.end));
        }
        let header_end = (start + header).next_multiple_of(PAGE);
        let mut front = self.buffers.get(header_end - first_page);
        self.fetch(wanted.at.slot, first_page, &mut front.bytes_mut()[..header_end - first_page])?;
        let header =
            checked_header(&front.bytes()[start - first_page..header_end - first_page], key, wanted)?;
        let from = (value + blocks.start) / PAGE * PAGE;
        let mut buffer = self.buffers.get(end(blocks.end) - from);
        self.fetch(wanted.at.slot, from, &mut buffer.bytes_mut()[..end(blocks.end) - from])?;
        let block = value + blocks.start - from;
        header.check_blocks(first_block, &buffer.bytes()[block..block + blocks.len()])?;
        let part = value + part.start - from..value + part.end - from;
        Ok(Value::new(buffer, part))
    }

    fn fetch(&self, slot: u32, offset: usize, into: &mut [u8]) -> Result<(), DamageKind> {
        let offset = u32::try_from(offset).map_err(|_| DamageKind::Unreadable)?;
        self.medium.read(slot, offset, into).map_err(|_| DamageKind::Unreadable)
    }
}

/// The header of a record, if it is the one that is wanted.
fn checked_header<'a>(bytes: &'a [u8], key: &[u8], wanted: &Wanted) -> Result<Header<'a>, DamageKind> {
    let (header, _) = Header::parse(bytes).ok_or(DamageKind::Header)?;
    let is_it = header.at == wanted.at
        && header.sequence == wanted.sequence
        && header.key == key
        && header.shape() == wanted.shape;
    if is_it { Ok(header) } else { Err(DamageKind::Identity) }
}
