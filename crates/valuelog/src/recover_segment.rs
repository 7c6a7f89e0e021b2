//! What stands in one segment: by the pages at its ends and its table, or, where those do not say, by its
//! records.

use std::collections::BTreeMap;

use base::planted::{Bug, is_planted};
use base::{ByteCount, Crc32c, Uuid};
use drive::{AlignedBuffer, PAGE};

use crate::error::{Damage, DamageKind};
use crate::limits::{Layout, PAGE_WORD};
use crate::medium::Medium;
use crate::record::{Header, Kind, STEP, Shape, chain};
use crate::segment::{Mark, State as MarkState, TableEntry, parse_table};

/// Bytes that are read at a time when a segment is scanned.
const READ_BYTES: usize = 1 << 20;

/// A record of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) kind: Kind,
    pub(crate) algorithm: i32,
    pub(crate) offset: u32,
    pub(crate) value_bytes: u32,
    pub(crate) sequence: u64,
    pub(crate) append: u64,
    pub(crate) key: Box<[u8]>,
    pub(crate) version: Box<[u8]>,
    pub(crate) tag: Box<[u8]>,
}

impl FoundRecord {
    pub(crate) fn shape(&self) -> Shape {
        let (key, version, tag) = (self.key.len(), self.version.len(), self.tag.len());
        Shape { key, version, tag, value: self.value_bytes as usize }
    }

    pub(crate) fn table_entry(&self, offset: u32, append: u64) -> TableEntry<'_> {
        TableEntry {
            kind: self.kind,
            algorithm: self.algorithm,
            offset,
            value_bytes: self.value_bytes,
            sequence: self.sequence,
            append,
            key: &self.key,
            version: &self.version,
            tag: &self.tag,
        }
    }

    fn of_table(entry: &TableEntry<'_>) -> FoundRecord {
        FoundRecord {
            kind: entry.kind,
            algorithm: entry.algorithm,
            offset: entry.offset,
            value_bytes: entry.value_bytes,
            sequence: entry.sequence,
            append: entry.append,
            key: entry.key.into(),
            version: entry.version.into(),
            tag: entry.tag.into(),
        }
    }

    fn of_header(header: &Header<'_>) -> FoundRecord {
        FoundRecord {
            kind: header.kind,
            algorithm: header.algorithm,
            offset: header.at.offset,
            value_bytes: header.value_bytes,
            sequence: header.sequence,
            append: header.append,
            key: header.key.into(),
            version: header.version.into(),
            tag: header.tag.into(),
        }
    }
}

/// What a segment is found to be.
pub(crate) enum Found {
    /// Nothing in it counts. `needs_marks`: it does not say so at both ends.
    Free { used: u64, needs_marks: bool },
    /// It says itself what stands in it.
    Sealed { used: u64, durable: u64, records: Vec<FoundRecord> },
    /// Its records say it.
    Scanned { scan: Scan, has_bad_table: bool },
}

/// Looks at a segment.
pub(crate) fn look(medium: &dyn Medium, store: Uuid, slot: u32, layout: Layout) -> Found {
    let segment = layout.segment_bytes();
    // The first record too: it tells of a page at the front that was never written.
    let mut front = AlignedBuffer::new(4 * PAGE);
    let (front_is_read, back) =
        (read(medium, slot, 0, front.as_mut_slice()), back(medium, store, slot, segment));
    let front_mark = front_is_read.then(|| Mark::parse(&front.as_slice()[..PAGE], store, slot)).flatten();
    let first = Header::parse(&front.as_slice()[PAGE..]).map(|(header, _)| header);
    let is_here = |header: &Header<'_>| {
        header.at.store == store && header.at.slot == slot && header.at.offset == PAGE_WORD
    };
    let first_used = first.filter(is_here).map(|header| header.at.used);
    let marks = || front_mark.into_iter().chain(back);
    let freed = marks().filter(|mark| mark.state == MarkState::Free).map(|mark| mark.used).max();
    let used = marks().filter(|mark| mark.state != MarkState::Free).map(|mark| mark.used);
    let used = used.chain(first_used).max().filter(|used| freed.is_none_or(|freed| *used > freed));
    match (used, freed) {
        (Some(used), _) => {
            let sealed = back.filter(|back| back.used == used);
            if let Some(Mark { state: MarkState::Sealed(table), durable, .. }) = sealed {
                let mut bytes = Vec::new();
                let records = table_bytes(medium, slot, table, segment, &mut bytes)
                    .then(|| parse_table(&bytes[..table.bytes as usize], table, segment))
                    .flatten();
                if let Some(records) = records {
                    let records = records.iter().map(FoundRecord::of_table).collect();
                    return Found::Sealed { used, durable, records };
                }
            }
            // Where only a record says it, it may be of an earlier use than others behind it.
            let uses = match marks().any(|mark| mark.used == used) {
                true => Uses::This(used),
                false => Uses::Above(freed.unwrap_or(0)),
            };
            let scan = scan(medium, store, slot, layout, &uses);
            Found::Scanned { scan, has_bad_table: sealed.is_some() }
        }
        (None, Some(freed)) if front_mark.is_some() => {
            Found::Free { used: freed, needs_marks: marks().filter(|m| m.used == freed).count() < 2 }
        }
        // What stands at the front may be lost, and what came after it not.
        (None, freed) => {
            let scan = scan(medium, store, slot, layout, &Uses::Above(freed.unwrap_or(0)));
            let is_empty = scan.records.is_empty() && scan.unreadable.is_empty();
            match is_empty {
                true => Found::Free { used: freed.unwrap_or(0), needs_marks: true },
                false => Found::Scanned { scan, has_bad_table: false },
            }
        }
    }
}

/// The records of a segment of which the use is known, as they were when it was sealed; `None` if some cannot
/// be read.
pub(crate) fn read_records(
    medium: &dyn Medium,
    store: Uuid,
    (slot, used): (u32, u64),
    layout: Layout,
) -> Option<Vec<FoundRecord>> {
    let segment = layout.segment_bytes();
    let mark = back(medium, store, slot, segment).filter(|mark| mark.used == used)?;
    let MarkState::Sealed(table) = mark.state else { return None };
    let mut bytes = Vec::new();
    if !table_bytes(medium, slot, table, segment, &mut bytes) {
        return None;
    }
    let entries = parse_table(&bytes[..table.bytes as usize], table, segment)?;
    Some(entries.iter().map(FoundRecord::of_table).collect())
}

fn read(medium: &dyn Medium, slot: u32, offset: u32, into: &mut [u8]) -> bool {
    let is_read = medium.read(slot, offset, into).is_ok();
    if !is_read {
        into.fill(0);
    }
    is_read
}

fn back(medium: &dyn Medium, store: Uuid, slot: u32, segment: u32) -> Option<Mark> {
    let mut page = AlignedBuffer::new(PAGE);
    read(medium, slot, segment - PAGE_WORD, page.as_mut_slice());
    Mark::parse(page.as_slice(), store, slot)
}

/// Reads the table of a segment; `false` if it is not there.
fn table_bytes(
    medium: &dyn Medium,
    slot: u32,
    table: crate::segment::Table,
    segment: u32,
    into: &mut Vec<u8>,
) -> bool {
    let padded = (table.bytes as usize).next_multiple_of(PAGE);
    let is_placed = table.offset >= PAGE_WORD
        && table.offset.is_multiple_of(PAGE_WORD)
        && table.offset as usize + padded + PAGE <= segment as usize;
    if !is_placed {
        return false;
    }
    let mut buffer = AlignedBuffer::new(padded);
    let is_read = read(medium, slot, table.offset, buffer.as_mut_slice());
    into.extend_from_slice(buffer.as_slice());
    is_read
}

/// Which records of a segment are looked for.
pub(crate) enum Uses {
    /// Those of this use.
    This(u64),
    /// Those of the last use after this one.
    Above(u64),
}

/// A record that a scan has found.
#[derive(Clone, Debug)]
pub(crate) struct ScannedRecord {
    record: FoundRecord,
    used: u64,
    durable: u64,
    batch: u64,
    place: u32,
    end: u32,
    /// The checksum of its header.
    checksum: Crc32c,
    /// What is wrong with its value.
    damage: Option<DamageKind>,
}

/// What a scan of a segment has found.
pub(crate) struct Scan {
    pub(crate) used: u64,
    pub(crate) records: Vec<ScannedRecord>,
    /// Pages that cannot be read.
    pub(crate) unreadable: Vec<u32>,
}

/// Looks for records wherever one may begin. The segment is held in memory.
pub(crate) fn scan(medium: &dyn Medium, store: Uuid, slot: u32, layout: Layout, uses: &Uses) -> Scan {
    let segment = layout.segment_bytes() as usize;
    let mut bytes = AlignedBuffer::new(segment);
    let mut unreadable = Vec::new();
    for start in (0..segment).step_by(READ_BYTES) {
        let end = segment.min(start + READ_BYTES);
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        if read(medium, slot, number(start), &mut bytes.as_mut_slice()[start..end]) {
            continue;
        }
        for page in (start..end).step_by(PAGE) {
            if !read(medium, slot, number(page), &mut bytes.as_mut_slice()[page..page + PAGE]) {
                unreadable.push(number(page));
            }
        }
    }
    let mut records = scan_bytes(bytes.as_slice(), store, slot, uses);
    let used = records.iter().map(|record| record.used).max().unwrap_or(match uses {
        Uses::This(used) | Uses::Above(used) => *used,
    });
    records.retain(|record| record.used == used);
    Scan { used, records, unreadable }
}

/// As [`scan`], in a segment that is in memory.
pub(crate) fn scan_bytes(bytes: &[u8], store: Uuid, slot: u32, uses: &Uses) -> Vec<ScannedRecord> {
    let mut records = Vec::new();
    let mut at = PAGE;
    while at + STEP <= bytes.len() {
        let header = Header::parse(&bytes[at..]).filter(|(header, _)| {
            let is_of_use = match uses {
                Uses::This(used) => header.at.used == *used,
                Uses::Above(used) => header.at.used > *used,
            };
            let is_here = header.at.store == store
                && header.at.slot == slot
                && header.at.offset as usize == at
                && header.end() as usize <= bytes.len();
            // A key has its name space and a byte; the end of a batch has none.
            let is_whole = (header.kind == Kind::BatchEnd) == header.key.is_empty();
            is_of_use && is_here && is_whole
        });
        let Some((header, checksum)) = header else {
            at += STEP;
            continue;
        };
        let value = header.value_at() as usize;
        let value = bytes.get(value..value + header.value_bytes as usize).unwrap_or_default();
        let damage = header.check_blocks(0, value).err();
        records.push(ScannedRecord {
            record: FoundRecord::of_header(&header),
            used: header.at.used,
            durable: header.durable,
            batch: header.batch,
            place: header.place,
            end: header.end(),
            checksum,
            damage,
        });
        at = header.end() as usize;
    }
    records
}

/// What counts of a scanned segment.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) whole: Vec<FoundRecord>,
    /// They were durable, so that what is wrong with them is no torn write.
    pub(crate) damaged: Vec<FoundRecord>,
    pub(crate) damages: Vec<Damage>,
    /// Records that were not durable and are not all there.
    pub(crate) dropped: u64,
}

impl Scan {
    /// The highest number of an append that is known to have been durable.
    pub(crate) fn durable(&self) -> u64 {
        self.records.iter().map(|record| record.durable).max().unwrap_or(0)
    }

    /// The highest number of an append.
    pub(crate) fn last_append(&self) -> u64 {
        self.records.iter().map(|record| record.record.append).max().unwrap_or(0)
    }

    /// Decides what counts: all appends up to `durable` were durable once.
    pub(crate) fn judge(self, slot: u32, durable: u64) -> Judged {
        let mut judged = Judged::default();
        let damage = |key: Option<&[u8]>, offset: u32, kind: DamageKind| Damage {
            key: key.and_then(|key| key.get(1..)).map(Into::into),
            segment: slot,
            offset: ByteCount(u64::from(offset)),
            kind,
        };
        let unreadable = self.unreadable.iter();
        judged.damages.extend(unreadable.map(|page| damage(None, *page, DamageKind::Unreadable)));
        let mut batches: BTreeMap<u64, Vec<ScannedRecord>> = BTreeMap::new();
        let mut end = PAGE_WORD;
        for record in self.records {
            // Appends begin at the next page; where one is missing there was another, with a lower number
            // than this one has.
            if record.record.offset >= end + PAGE_WORD && record.record.append <= durable.saturating_add(1) {
                judged.damages.push(damage(None, end, DamageKind::Lost));
            }
            end = record.end;
            if record.batch > 0 {
                batches.entry(record.batch).or_default().push(record);
            } else {
                judged.take(record, durable, &damage);
            }
        }
        for (batch, records) in batches {
            let counts = batch <= durable || is_complete(&records);
            if counts && !is_whole_in_number(&records) {
                let first = records.first().map_or(0, |record| record.record.offset);
                judged.damages.push(damage(None, first, DamageKind::Lost));
            }
            for record in records {
                if record.record.kind == Kind::BatchEnd {
                    continue;
                }
                if counts {
                    // All of it was durable, or all of it is whole.
                    judged.take(record, u64::MAX, &damage);
                } else {
                    judged.dropped += 1;
                }
            }
        }
        judged
    }
}

impl Judged {
    fn take(
        &mut self,
        found: ScannedRecord,
        durable: u64,
        damage: &impl Fn(Option<&[u8]>, u32, DamageKind) -> Damage,
    ) {
        match found.damage {
            None => self.whole.push(found.record),
            Some(_) if is_planted(Bug::UncheckedTail) => self.whole.push(found.record),
            Some(kind) if found.record.append <= durable => {
                self.damages.push(damage(Some(&found.record.key), found.record.offset, kind));
                self.damaged.push(found.record);
            }
            Some(_) => self.dropped += 1,
        }
    }
}

/// Whether as many records of a batch are found as it had.
fn is_whole_in_number(records: &[ScannedRecord]) -> bool {
    let end = records.last().filter(|end| end.record.kind == Kind::BatchEnd);
    end.is_some_and(|end| end.place as usize == records.len() - 1)
}

/// Whether all of a batch is there as it was written: a crash may have left any of it.
fn is_complete(records: &[ScannedRecord]) -> bool {
    let Some((end, members)) = records.split_last() else { return false };
    if end.record.kind != Kind::BatchEnd {
        return false;
    }
    if is_planted(Bug::UncheckedBatch) {
        return true;
    }
    let mut checksum = Crc32c::default();
    for (member, place) in members.iter().zip(0u32..) {
        if member.place != place || member.damage.is_some() || member.record.kind == Kind::BatchEnd {
            return false;
        }
        checksum = chain(checksum, member.checksum);
    }
    end.place as usize == members.len() && *end.record.tag == checksum.0.to_le_bytes()
}
