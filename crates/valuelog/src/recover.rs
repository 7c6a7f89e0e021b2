//! Opening: the superblock, then what each segment says, then the index.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use base::{ByteCount, Count, Uuid};
use drive::{AlignedBuffer, PAGE};
use threads::{Condvar, Doorbell, Mutex};

use crate::buffers::Buffers;
use crate::erase::wipe_slots;
use crate::error::{Damage, OpenError};
use crate::figures::Counters;
use crate::index::{Entry, Place};
use crate::limits::{
    KEY_BYTES_MAX, Layout, PAGE_WORD, RESERVE_SEGMENTS_MIN, Settings, TAG_BYTES_MAX, VERSION_BYTES_MAX,
};
use crate::log::{Inner, ValueLog};
use crate::make::{Making, write_mark};
use crate::medium::Medium;
use crate::record::{Shape, header_bytes, record_end};
use crate::recover_segment::{Found, FoundRecord, Judged, Scan, look};
use crate::segment::{Mark, State as MarkState};
use crate::state::{SlotState, State, footer};
use crate::superblock::{Refusal, Superblock};

/// What was found at opening.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Segments of which the table told what is in them.
    pub tables: Count,
    /// Segments that were scanned, as those are that were open at a crash.
    pub scanned: Count,
    /// Of those, segments with a table that does not agree with its checksum: a crash may leave one, and so
    /// may a disk that goes bad.
    pub bad_tables: Count,
    /// Records that a crash has left in part, or without the rest of their batch; none was durable.
    pub dropped: Count,
    /// What is damaged of what was durable.
    pub damage: Vec<Damage>,
}

/// Reads the superblocks: the newer one, and which it is.
pub(crate) fn read_superblock(medium: &dyn Medium, path: &Path) -> Result<(Superblock, usize), OpenError> {
    let read = |copy: usize| {
        let mut page = AlignedBuffer::new(PAGE);
        medium.read_superblock(copy, page.as_mut_slice()).map(|()| Superblock::parse(page.as_slice()))
    };
    let (first, copy) = (read(0), read(1));
    let found = [&first, &copy];
    let versions = found.iter().filter_map(|page| match page {
        Ok(Err(Refusal::Version(version))) => Some(*version),
        _ => None,
    });
    if let Some(version) = versions.max() {
        return Err(OpenError::Version { path: path.to_owned(), version });
    }
    let whole = found.iter().enumerate().filter_map(|(copy, page)| match page {
        Ok(Ok(superblock)) => Some((*superblock, copy)),
        _ => None,
    });
    if let Some(newest) = whole.max_by_key(|(superblock, _)| superblock.generation) {
        return Ok(newest);
    }
    if matches!((&first, &copy), (Ok(Err(Refusal::None)), Ok(Err(Refusal::None)))) {
        return Err(OpenError::NotAStore(path.to_owned()));
    }
    match (first, copy) {
        (Err(source), Err(_)) => {
            Err(OpenError::Io { path: path.to_owned(), operation: "reading the superblocks", source })
        }
        _ => Err(OpenError::Damaged(path.to_owned())),
    }
}

impl ValueLog {
    /// Opens the store on this medium.
    ///
    /// # Errors
    /// As [`ValueLog::open`].
    #[doc(hidden)]
    pub fn open_on(
        medium: Box<dyn Medium>,
        path: &Path,
        expected: Option<Uuid>,
        settings: Settings,
    ) -> Result<ValueLog, OpenError> {
        let failed = |operation| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, operation, source }
        };
        let (superblock, newest) = read_superblock(&*medium, path)?;
        if let Some(expected) = expected.filter(|expected| *expected != superblock.store) {
            return Err(OpenError::OtherStore { path: path.to_owned(), found: superblock.store, expected });
        }
        let layout = superblock.layout;
        medium.fit(layout.segment_bytes(), superblock.slots).map_err(|found| OpenError::Shrunk {
            path: path.to_owned(),
            found: ByteCount(found),
            expected: ByteCount(u64::from(superblock.slots) * layout.segment.0),
        })?;
        // What a process that was killed has written is either durable now, or nobody sees it.
        medium.sync().map_err(failed("syncing"))?;
        let mut making = Making { superblock, newest };
        if superblock.wipe > 0 {
            wipe_slots(&*medium, superblock.wipe, layout.segment_bytes()).map_err(failed("erasing"))?;
        }
        let next = Superblock { wipe: 0, epoch: superblock.epoch.saturating_add(1), ..superblock };
        making.write(&*medium, next).map_err(failed("writing the superblock"))?;
        let reserve = settings.reserve_segments.max(RESERVE_SEGMENTS_MIN);
        let mut state = State::new(next.store, next.epoch, layout, next.slots, reserve);
        state.made = next.made;
        let recovery = recover(&*medium, &mut state).map_err(failed("mending a segment"))?;
        let inner = Inner {
            medium,
            layout,
            settings,
            buffers: Buffers::new(record_bytes_max(layout)),
            state: Mutex::new(state),
            changed: Condvar::new(),
            making: Mutex::new(making),
            counters: Counters::default(),
            doorbell: Doorbell::default(),
            is_stopping: AtomicBool::new(false),
        };
        Ok(ValueLog::new(inner, recovery))
    }
}

fn record_bytes_max(layout: Layout) -> usize {
    let value = usize::try_from(layout.value_max.0).unwrap_or(usize::MAX);
    let shape = Shape { key: KEY_BYTES_MAX + 1, version: VERSION_BYTES_MAX, tag: TAG_BYTES_MAX, value };
    record_end(0, header_bytes(shape), value) as usize
}

/// A segment that was scanned.
struct Tail {
    slot: u32,
    scan: Scan,
}

fn recover(medium: &dyn Medium, state: &mut State) -> std::io::Result<Recovery> {
    let (store, layout) = (state.store, state.layout);
    let mut recovery = Recovery::default();
    let (mut durable, mut last_append) = (0, 0);
    let (mut tails, mut unmarked) = (Vec::new(), Vec::new());
    for slot in 0..state.made {
        medium.forget_cached(slot);
        match look(medium, store, slot, layout) {
            Found::Free { used, needs_marks } => {
                state.slot(slot).used = used;
                if needs_marks {
                    unmarked.push(slot);
                }
                free(state, slot);
            }
            Found::Sealed { used, durable: up_to, records } => {
                recovery.tables.0 += 1;
                durable = durable.max(up_to);
                state.slot(slot).used = used;
                state.slot(slot).state = SlotState::Sealed;
                for record in &records {
                    last_append = last_append.max(record.append);
                    enter(state, slot, record);
                }
            }
            Found::Scanned { scan, has_bad_table } => {
                recovery.scanned.0 += 1;
                recovery.bad_tables.0 += u64::from(has_bad_table);
                durable = durable.max(scan.durable());
                last_append = last_append.max(scan.last_append());
                tails.push(Tail { slot, scan });
            }
        }
    }
    state.next_append = last_append.max(durable) + 1;
    let (mut damaged, mut unsealed) = (Vec::new(), Vec::new());
    for Tail { slot, scan } in tails {
        let (used, is_readable) = (scan.used, scan.unreadable.is_empty());
        let Judged { whole, damaged: rotten, damages, dropped } = scan.judge(slot, durable);
        recovery.dropped.0 += dropped;
        recovery.damage.extend(damages);
        state.slot(slot).used = used;
        whole.iter().for_each(|record| enter(state, slot, record));
        let is_empty = whole.is_empty() && rotten.is_empty();
        match (is_readable, is_empty) {
            (true, true) => {
                unmarked.push(slot);
                free(state, slot);
            }
            (true, false) => {
                unsealed.push((slot, footer_of(state, (slot, used, durable), &whole, &rotten)));
                state.slot(slot).state = SlotState::Sealed;
            }
            // Another time more of it may be read.
            (false, _) => state.slot(slot).state = SlotState::Damaged,
        }
        damaged.extend(rotten.into_iter().map(|record| (slot, record)));
    }
    // Last, so that of two records of the same change the whole one counts.
    damaged.iter().for_each(|(slot, record)| enter(state, *slot, record));
    let mark = |slot: u32, is_free: bool| Mark {
        store,
        slot,
        used: state.slots[slot as usize].used,
        durable,
        state: if is_free { MarkState::Free } else { MarkState::Used },
    };
    // One end is whole at any time: torn at both, a segment would be taken for what it was before.
    let fronts = unmarked.iter().map(|slot| mark(*slot, true));
    for mark in fronts.chain(unsealed.iter().map(|(slot, _)| mark(*slot, false))) {
        write_mark(medium, mark, 0)?;
    }
    if !unmarked.is_empty() || !unsealed.is_empty() {
        medium.sync()?;
    }
    for slot in &unmarked {
        write_mark(medium, mark(*slot, true), layout.segment_bytes() - PAGE_WORD)?;
    }
    for (slot, (offset, footer)) in &unsealed {
        medium.write(*slot, *offset, &[footer.as_slice()])?;
    }
    medium.sync()?;
    // All that counts is durable, and what does not is settled. Said before, what is torn would count as
    // durable after a crash of this opening.
    state.durable = state.next_append - 1;
    let slots = &mut state.slots;
    state.index.settle(|slot, bytes| slots[slot as usize].needed += bytes);
    Ok(recovery)
}

fn free(state: &mut State, slot: u32) {
    state.slot(slot).state = SlotState::Free;
    state.free.insert(slot);
}

fn enter(state: &mut State, slot: u32, record: &FoundRecord) {
    let place = Place { slot, offset: record.offset };
    let words = (record.value_bytes, record.algorithm);
    let entry = Entry::new(place, record.sequence, words, &record.version, &record.tag);
    state.index.found(record.kind, &record.key, entry);
}

/// The table of a segment that has none, and where it is written: what does not count now never will.
fn footer_of(
    state: &State,
    (slot, used, durable): (u32, u64, u64),
    whole: &[FoundRecord],
    damaged: &[FoundRecord],
) -> (u32, AlignedBuffer) {
    let mut records: Vec<&FoundRecord> = whole.iter().chain(damaged).collect();
    records.sort_by_key(|record| record.offset);
    let (mut table, mut count) = (Vec::new(), 0);
    for record in records {
        record.table_entry(record.offset, record.append).encode(&mut table);
        count += 1;
    }
    let (offset, bytes) = footer(state.store, (slot, used), durable, (&table, count), state.layout);
    let mut aligned = AlignedBuffer::new(bytes.len());
    aligned.as_mut_slice().copy_from_slice(&bytes);
    (offset, aligned)
}
