//! Cleaning: what is needed of a segment is copied, and the segment used again.

use base::Uuid;
use base::planted::{Bug, is_planted};
use drive::PAGE;

use crate::buffers::Value;
use crate::error::{Damage, LogError};
use crate::index::{Place, packed_bytes};
use crate::limits::PAGE_WORD;
use crate::log::{Inner, ValueLog};
use crate::make::{Making, mark_free};
use crate::read::Wanted;
use crate::record::{At, Header, Kind, checksums_of, record_end};
use crate::recover_segment::{FoundRecord, read_records};
use crate::segment::{Mark, State as MarkState, entry_bytes};
use crate::state::{Privilege, SlotState, Spot};

/// Bytes of records that are copied with one append, if they are small.
const COPY_BYTES: u64 = 1 << 20;
/// And at most such a share of a segment.
const COPY_SHARE: u64 = 4;
/// Segments that are cleaned ahead before the thread looks up again.
const AHEAD_SEGMENTS: u32 = 2;

/// What came of cleaning a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cleaned {
    Freed,
    /// There is no segment to copy to.
    NoRoom,
    /// Something in it cannot be read; it is not tried again.
    Damaged,
}

/// A record that is copied, and its value.
struct Copy {
    record: FoundRecord,
    value: Option<Value>,
}

impl Copy {
    fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

impl ValueLog {
    /// Cleans a segment, if one is worth it. `false`: none is.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], [`LogError::Closed`].
    pub fn clean(&self) -> Result<bool, LogError> {
        self.inner.clean_ahead()
    }
}

impl Inner {
    /// Whether puts will soon have to wait for cleaning.
    pub(crate) fn wants_cleaning(&self) -> bool {
        let state = self.lock();
        state.check_open().is_ok() && state.available() <= state.reserve + AHEAD_SEGMENTS
    }

    /// Cleans a segment if one is worth it.
    pub(crate) fn clean_ahead(&self) -> Result<bool, LogError> {
        let before = self.lock().available();
        let mut making = self.making();
        // What gains nothing now is tried again later, and not at once.
        Ok(self.clean_one(&mut making, self.gain_min())? && self.lock().available() > before)
    }

    /// Cleans the segment of which the least is needed, if it gives back so many bytes. `false`: none does.
    pub(crate) fn clean_one(&self, making: &mut Making, gain: u64) -> Result<bool, LogError> {
        while let Some((slot, used)) = self.pick(gain)? {
            let cleaned = self.clean(making, slot, used);
            let mut state = self.lock();
            if state.slot(slot).state == SlotState::Cleaning {
                state.slot(slot).state = SlotState::Sealed;
            }
            drop(state);
            match cleaned? {
                Cleaned::Freed => return Ok(true),
                Cleaned::NoRoom => return Ok(false),
                Cleaned::Damaged => {}
            }
        }
        Ok(false)
    }

    /// Which segment is cleaned next.
    fn pick(&self, gain: u64) -> Result<Option<(u32, u64)>, LogError> {
        loop {
            let mut state = self.lock();
            state.check_open()?;
            let room = self.layout.segment.0 - 2 * PAGE as u64;
            let can_be = |slot: &crate::state::Slot| {
                slot.state == SlotState::Sealed
                    && (!slot.has_damage || slot.needed == 0)
                    && room.saturating_sub(slot.needed) >= gain
            };
            let slots = state.slots.iter().zip(0u32..).filter(|(slot, _)| can_be(slot));
            if let Some((_, picked)) = slots.min_by_key(|(slot, number)| (slot.needed, *number)) {
                let slot = state.slot(picked);
                slot.state = SlotState::Cleaning;
                let used = slot.used;
                return Ok(Some((picked, used)));
            }
            if !state.has_closing() && state.sealing == 0 && !state.close_wasteful_heads(gain) {
                return Ok(None);
            }
            // What is about to be sealed may be worth it then: it waits for a sync, or for writes of others.
            if state.sealing > 0 {
                drop(self.wait(state));
                continue;
            }
            drop(state);
            self.sync_now()?;
            let state = self.lock();
            if state.has_closing() && state.is_writing() && state.failure.is_none() {
                drop(self.wait(state));
            }
        }
    }

    fn clean(&self, making: &mut Making, slot: u32, used: u64) -> Result<Cleaned, LogError> {
        let store = self.lock().store;
        let found = read_records(&*self.medium, store, (slot, used), self.layout);
        let Some(records) = found else {
            // Nobody knows what stands in it; what is needed can still be read where the index says.
            self.lock().slot(slot).state = SlotState::Damaged;
            return Ok(Cleaned::Damaged);
        };
        if !self.copy_needed(making, &records, (store, slot, used))? {
            return Ok(Cleaned::NoRoom);
        }
        // Durable must be the copies, and whatever replaced what was not copied.
        if !is_planted(Bug::EarlySegmentReuse) {
            self.sync_now()?;
        }
        if self.lock().slot(slot).needed > 0 {
            // A record that could not be copied stays where it is, until it is written again.
            self.lock().slot(slot).has_damage = true;
            return Ok(Cleaned::Damaged);
        }
        let durable = self.lock().durable;
        let mark = Mark { store, slot, used, durable, state: MarkState::Free };
        let freed = mark_free(&*self.medium, mark, self.layout.segment_bytes());
        // Tombstones that kept it from counting go only when nothing in it can count any more, after whatever
        // crash.
        let freed = freed.and_then(|()| self.medium.sync());
        freed.map_err(|error| self.poison("freeing a segment", &error))?;
        self.counters.syncs.add(1);
        let mut state = self.lock();
        for record in records.iter().filter(|record| record.kind == Kind::Put) {
            let released = state.index.stale_has_gone(&record.key);
            state.release(released);
        }
        assert_eq!(state.slot(slot).needed, 0, "nothing is needed of a segment that is free");
        state.slot(slot).state = SlotState::Free;
        state.slot(slot).has_damage = false;
        state.free.insert(slot);
        drop(state);
        self.counters.cleaned.add(1);
        self.changed.notify_all();
        Ok(Cleaned::Freed)
    }

    /// Copies what is needed of a segment. `false`: there is no room for it.
    fn copy_needed(
        &self,
        making: &mut Making,
        records: &[FoundRecord],
        (store, slot, used): (Uuid, u32, u64),
    ) -> Result<bool, LogError> {
        let most = COPY_BYTES.min(self.layout.segment.0 / COPY_SHARE);
        let (mut group, mut bytes) = (Vec::new(), 0);
        for record in records {
            let place = Place { slot, offset: record.offset };
            if !self.lock().index.is_needed(record.kind, &record.key, place) {
                continue;
            }
            let at = At { store, slot, used, offset: record.offset };
            let wanted = Wanted { at, sequence: record.sequence, shape: record.shape() };
            let value = match record.kind {
                Kind::Put => match self.read(&record.key, &wanted, 0..record.value_bytes as usize) {
                    Ok(value) => Some(value),
                    Err(damage) => {
                        self.note(damage);
                        continue;
                    }
                },
                _ => None,
            };
            let more = packed_bytes(record.shape());
            if bytes > 0 && bytes + more > most && !self.copy(making, &mut group, slot)? {
                return Ok(false);
            }
            bytes = if group.is_empty() { more } else { bytes + more };
            group.push(Copy { record: record.clone(), value });
        }
        Ok(group.is_empty() || self.copy(making, &mut group, slot)?)
    }

    fn note(&self, damage: Damage) {
        // Whoever asks for it is told, and a scan lists it.
        let _ = self.met(damage);
    }

    /// Appends copies. They keep the order of what they are copies of.
    fn copy(&self, making: &mut Making, group: &mut Vec<Copy>, from: u32) -> Result<bool, LogError> {
        let (mut at, mut starts, mut table) = (0u32, Vec::with_capacity(group.len()), 0);
        for Copy { record, .. } in group.iter() {
            starts.push(at);
            at = record_end(at, crate::record::header_bytes(record.shape()), record.value_bytes as usize);
            table += entry_bytes(record.key.len(), record.version.len(), record.tag.len());
        }
        let bytes = at.next_multiple_of(PAGE_WORD);
        let spot = loop {
            let reserved = self.lock().reserve(Privilege::Clean, bytes, table, group.len() as u64);
            match reserved {
                Ok(spot) => break spot,
                Err(_) if self.lock().available() > 0 => self.make_ready(making)?,
                Err(_) => return Ok(false),
            }
        };
        let written = self.write_copies(spot, bytes, &starts, group);
        let mut state = self.lock();
        if let Err(error) = written {
            state.abandon(spot);
            drop(state);
            return Err(self.poison("copying records", &error));
        }
        let numbered = || (spot.first_append..).zip(&starts).zip(group.iter());
        let entries =
            numbered().map(|((append, start), copy)| copy.record.table_entry(spot.at.offset + start, append));
        state.written(spot, u64::from(bytes), entries);
        for ((_, start), Copy { record, .. }) in numbered() {
            let old = Place { slot: from, offset: record.offset };
            let new = Place { slot: spot.at.slot, offset: spot.at.offset + start };
            if state.index.moved(record.kind, &record.key, old, new) {
                let needed = packed_bytes(record.shape());
                state.need(new.slot, needed, Some((from, needed)));
            }
        }
        drop(state);
        self.counters.copied.add(u64::from(bytes));
        self.changed.notify_all();
        group.clear();
        Ok(true)
    }

    fn write_copies(&self, spot: Spot, bytes: u32, starts: &[u32], group: &[Copy]) -> std::io::Result<()> {
        if spot.opens {
            self.open_segment(spot)?;
        }
        let mut buffer = self.buffers.get(bytes as usize);
        let into = &mut buffer.bytes_mut()[..bytes as usize];
        let mut filled = 0usize;
        for ((start, copy), append) in starts.iter().zip(group).zip(spot.first_append..) {
            let (record, value) = (&copy.record, copy.value());
            let checksums = checksums_of(value);
            let at = At { offset: spot.at.offset + start, ..spot.at };
            let header = Header {
                kind: record.kind,
                algorithm: record.algorithm,
                value_bytes: record.value_bytes,
                at,
                sequence: record.sequence,
                append,
                durable: spot.durable,
                batch: 0,
                place: 0,
                key: &record.key,
                version: &record.version,
                tag: &record.tag,
                checksums: &checksums,
            };
            let value_at = (header.value_at() - spot.at.offset) as usize;
            into[filled..value_at].fill(0);
            header.encode(&mut into[*start as usize..value_at]);
            into[value_at..value_at + value.len()].copy_from_slice(value);
            filled = value_at + value.len();
        }
        into[filled..].fill(0);
        self.write(spot.at.slot, spot.at.offset, &[&buffer.bytes()[..bytes as usize]])
    }
}
