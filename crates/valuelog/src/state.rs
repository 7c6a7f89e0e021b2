//! What an open store knows: the index, its segments, and what is under way. Behind one lock, which is never
//! held while the disk works.

use std::collections::{BTreeSet, HashSet};

use base::{Crc32c, Uuid};
use drive::PAGE;

use crate::error::LogError;
use crate::index::{Index, Key, Released};
use crate::limits::{Layout, PAGE_WORD};
use crate::record::{At, Kind};
use crate::segment::{Mark, State as MarkState, Table, TableEntry, entry_bytes};

/// What a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotState {
    /// Nothing of it was ever used.
    Unmade,
    Free,
    /// Records are appended to it, or will not be any more and its table is not written yet.
    Open,
    Sealed,
    Cleaning,
    /// Of it something could not be read: it is left alone.
    Damaged,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) state: SlotState,
    /// The number of its present use.
    pub(crate) used: u64,
    /// Bytes of records in it that are needed.
    pub(crate) needed: u64,
    /// A record in it that is needed could not be copied.
    pub(crate) has_damage: bool,
}

/// Who appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Privilege {
    /// Leaves the reserve alone.
    Put,
    /// Leaves one segment for cleaning.
    Delete,
    /// Takes what there is, into a segment of its own.
    Clean,
}

/// A segment that records are appended to.
pub(crate) struct Head {
    pub(crate) slot: u32,
    pub(crate) used: u64,
    /// Where the next append goes.
    tail: u32,
    /// The table so far, of what is written.
    table: Vec<u8>,
    count: u32,
    /// What the table will have, with what is under way.
    table_bytes: usize,
    /// Appends under way.
    under_way: u32,
    last_append: u64,
}

impl Head {
    /// Its table and the page at its end, as they are written; and where.
    pub(crate) fn footer(&self, store: Uuid, durable: u64, layout: Layout) -> (u32, Vec<u8>) {
        footer(store, (self.slot, self.used), durable, (&self.table, self.count), layout)
    }

    /// Whether it can be sealed: all of it is durable.
    fn is_durable(&self, durable: u64) -> bool {
        self.under_way == 0 && self.last_append <= durable
    }
}

/// The table of a segment and the page at its end; and where they are written.
pub(crate) fn footer(
    store: Uuid,
    (slot, used): (u32, u64),
    durable: u64,
    (table, count): (&[u8], u32),
    layout: Layout,
) -> (u32, Vec<u8>) {
    let padded = table.len().next_multiple_of(PAGE);
    let offset = layout.segment_bytes() - u32::try_from(padded + PAGE).unwrap_or(u32::MAX);
    let described = Table {
        offset,
        bytes: u32::try_from(table.len()).unwrap_or(u32::MAX),
        count,
        checksum: Crc32c::of(table),
    };
    let mut bytes = vec![0; padded + PAGE];
    bytes[..table.len()].copy_from_slice(table);
    let mark = Mark { store, slot, used, durable, state: MarkState::Sealed(described) };
    mark.encode(&mut bytes[padded..]);
    (offset, bytes)
}

/// Room that an append has got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Where it begins.
    pub(crate) at: At,
    /// The number of its first record.
    pub(crate) first_append: u64,
    pub(crate) durable: u64,
    /// Whether the page at the front of the segment is still to be written.
    pub(crate) opens: bool,
}

/// There is no segment for an append: one must be made free or ready first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSlot;

pub(crate) struct State {
    pub(crate) store: Uuid,
    pub(crate) epoch: u32,
    pub(crate) layout: Layout,
    pub(crate) reserve: u32,
    pub(crate) index: Index,
    pub(crate) slots: Vec<Slot>,
    pub(crate) free: BTreeSet<u32>,
    /// Slots below are ready.
    pub(crate) made: u32,
    /// Slots below can be made ready: less than there are if the file system has no more room.
    pub(crate) limit: u32,
    uses: u32,
    head: Option<Head>,
    cleaning_head: Option<Head>,
    /// Heads that take no more and wait until they are durable.
    closing: Vec<Head>,
    /// Tables that are being written.
    pub(crate) sealing: u32,
    pub(crate) next_append: u64,
    /// First numbers of appends that are under way.
    pending: BTreeSet<u64>,
    /// Keys of changes that are under way: others of the same key wait.
    pub(crate) busy: HashSet<Key>,
    /// All appends up to this one are durable.
    pub(crate) durable: u64,
    pub(crate) is_syncing: bool,
    pub(crate) syncs_begun: u64,
    pub(crate) syncs_ended: u64,
    /// Bytes written since the last sync began.
    pub(crate) dirty: u64,
    /// Why nothing more is taken.
    pub(crate) failure: Option<String>,
    pub(crate) is_closed: bool,
    pub(crate) is_erasing: bool,
}

impl State {
    pub(crate) fn new(store: Uuid, epoch: u32, layout: Layout, slots: u32, reserve: u32) -> State {
        let slot = Slot { state: SlotState::Unmade, used: 0, needed: 0, has_damage: false };
        State {
            store,
            epoch,
            layout,
            reserve,
            index: Index::default(),
            slots: vec![slot; slots as usize],
            free: BTreeSet::new(),
            made: 0,
            limit: slots,
            uses: 0,
            head: None,
            cleaning_head: None,
            closing: Vec::new(),
            sealing: 0,
            next_append: 1,
            pending: BTreeSet::new(),
            busy: HashSet::new(),
            durable: 0,
            is_syncing: false,
            syncs_begun: 0,
            syncs_ended: 0,
            dirty: 0,
            failure: None,
            is_closed: false,
            is_erasing: false,
        }
    }

    /// Whether changes are taken.
    pub(crate) fn check_open(&self) -> Result<(), LogError> {
        match (self.is_closed, &self.failure) {
            (true, _) => Err(LogError::Closed),
            (_, Some(_)) => Err(LogError::Poisoned),
            _ => Ok(()),
        }
    }

    pub(crate) fn slot(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// All appends up to this one are written.
    pub(crate) fn written_through(&self) -> u64 {
        self.pending.first().map_or(self.next_append, |first| *first) - 1
    }

    /// Whether appends are under way.
    pub(crate) fn is_writing(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.busy.is_empty() && !self.is_syncing && self.sealing == 0
    }

    /// Segments that are free or can be made so without cleaning.
    pub(crate) fn available(&self) -> u32 {
        u32::try_from(self.free.len()).unwrap_or(u32::MAX) + (self.limit - self.made)
    }

    /// Whether somebody may take a segment.
    pub(crate) fn may_take(&self, privilege: Privilege) -> bool {
        let least = match privilege {
            Privilege::Put => self.reserve,
            Privilege::Delete => 1,
            Privilege::Clean => 0,
        };
        self.available() > least
    }

    /// Room for an append of so many bytes (whole pages) and entries in the table, and for so many numbers.
    pub(crate) fn reserve(
        &mut self,
        privilege: Privilege,
        bytes: u32,
        table_bytes: usize,
        numbers: u64,
    ) -> Result<Spot, NoSlot> {
        let segment = self.layout.segment_bytes() as usize;
        let fits = |head: &Head| {
            let table = (head.table_bytes + table_bytes).next_multiple_of(PAGE);
            (head.tail + bytes) as usize + table + PAGE <= segment
        };
        let is_cleaning = privilege == Privilege::Clean;
        let present = if is_cleaning { &self.cleaning_head } else { &self.head };
        let mut opens = false;
        if !present.as_ref().is_some_and(fits) {
            // A head stays as it is where there is none to follow: something smaller may still fit.
            if !self.may_take(privilege) {
                return Err(NoSlot);
            }
            let slot = self.free.pop_first().ok_or(NoSlot)?;
            let full = if is_cleaning { self.cleaning_head.take() } else { self.head.take() };
            self.closing.extend(full);
            self.uses += 1;
            let used = u64::from(self.epoch) << 32 | u64::from(self.uses);
            let fresh = Slot { state: SlotState::Open, used, needed: 0, has_damage: false };
            *self.slot(slot) = fresh;
            let head = Head {
                slot,
                used,
                tail: PAGE_WORD,
                table: Vec::new(),
                count: 0,
                table_bytes: 0,
                under_way: 0,
                last_append: 0,
            };
            let present = if is_cleaning { &mut self.cleaning_head } else { &mut self.head };
            *present = Some(head);
            opens = true;
        }
        let first_append = self.next_append;
        let present = if is_cleaning { &mut self.cleaning_head } else { &mut self.head };
        let Some(head) = present.as_mut().filter(|head| fits(head)) else {
            // Nothing that may be written is larger than a segment.
            return Err(NoSlot);
        };
        let at = At { store: self.store, slot: head.slot, used: head.used, offset: head.tail };
        head.tail += bytes;
        head.table_bytes += table_bytes;
        head.under_way += 1;
        head.last_append = first_append + numbers - 1;
        self.next_append += numbers;
        self.pending.insert(first_append);
        Ok(Spot { at, first_append, durable: self.durable, opens })
    }

    /// An append is written: its records are entered into the table of their segment.
    pub(crate) fn written<'a>(
        &mut self,
        spot: Spot,
        bytes: u64,
        entries: impl Iterator<Item = TableEntry<'a>>,
    ) {
        self.pending.remove(&spot.first_append);
        self.dirty += bytes;
        let mut heads = self.head.iter_mut().chain(&mut self.cleaning_head).chain(&mut self.closing);
        let head = heads.find(|head| head.slot == spot.at.slot && head.used == spot.at.used);
        assert!(head.is_some(), "a segment is open as long as something is written to it");
        let Some(head) = head else { return };
        head.under_way -= 1;
        for entry in entries {
            entry.encode(&mut head.table);
            head.count += 1;
        }
        assert!(head.table.len() <= head.table_bytes, "the table has the room that was kept for it");
    }

    /// A write or sync has failed: nothing more is taken.
    pub(crate) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    /// An append has failed.
    pub(crate) fn abandon(&mut self, spot: Spot) {
        self.pending.remove(&spot.first_append);
    }

    /// A record is needed at this place from now on, another one not any more.
    pub(crate) fn need(&mut self, slot: u32, bytes: u64, instead_of: Option<Released>) {
        self.slot(slot).needed += bytes;
        self.release(instead_of);
    }

    pub(crate) fn release(&mut self, released: Option<Released>) {
        if let Some((slot, bytes)) = released {
            let slot = self.slot(slot);
            assert!(slot.needed >= bytes, "what is released was needed");
            slot.needed -= bytes;
        }
    }

    /// Whether heads wait to be sealed.
    pub(crate) fn has_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Has heads sealed in which so many bytes are not needed, so that they can be cleaned. `false`: none is.
    pub(crate) fn close_wasteful_heads(&mut self, gain: u64) -> bool {
        let slots = &self.slots;
        let wasteful = |head: &mut Head| {
            let filled = u64::from(head.tail - PAGE_WORD);
            filled.saturating_sub(slots[head.slot as usize].needed) >= gain
        };
        let closed = [self.head.take_if(wasteful), self.cleaning_head.take_if(wasteful)];
        let before = self.closing.len();
        self.closing.extend(closed.into_iter().flatten());
        self.closing.len() > before
    }

    /// No more is appended to the heads.
    pub(crate) fn close_heads(&mut self) {
        let heads = [self.head.take(), self.cleaning_head.take()];
        self.closing.extend(heads.into_iter().flatten());
    }

    /// Takes the heads that can be sealed.
    pub(crate) fn take_durable_heads(&mut self) -> Vec<Head> {
        let durable = self.durable;
        let ready: Vec<Head> = self.closing.extract_if(.., |head| head.is_durable(durable)).collect();
        self.sealing += u32::try_from(ready.len()).unwrap_or(u32::MAX);
        ready
    }

    /// Forgets everything: the store was erased.
    pub(crate) fn clear(&mut self, store: Uuid) {
        let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let mut fresh = State::new(store, self.epoch, self.layout, slots, self.reserve);
        fresh.uses = self.uses;
        fresh.next_append = self.next_append;
        fresh.durable = self.next_append - 1;
        fresh.syncs_begun = self.syncs_begun;
        fresh.syncs_ended = self.syncs_ended;
        fresh.is_erasing = self.is_erasing;
        *self = fresh;
    }
}

/// Bytes of the table for a record.
pub(crate) fn table_bytes(kind: Kind, key: &[u8], version: &[u8], tag: &[u8]) -> usize {
    if kind == Kind::BatchEnd { 0 } else { entry_bytes(key.len(), version.len(), tag.len()) }
}
