//! Puts, deletes and batches: each is one append, written by the thread of its caller with no lock held.

use base::Crc32c;
use drive::PAGE;

use crate::buffers::Buffer;
use crate::change::{Change, Delete, Durability, OWN, Prepared, Put, USER, check_all, check_key, spaced};
use crate::error::LogError;
use crate::index::{Entry, Place, memory_bytes, packed_bytes};
use crate::limits::{BATCH_CHANGES_MAX, BATCH_SHARE};
use crate::log::{Inner, ValueLog};
use crate::record::{At, HEADER_BYTES_MAX, Header, Kind, PAGED_FROM, Shape, chain, header_bytes, record_end};
use crate::segment::{Mark, State as MarkState};
use crate::state::{Privilege, Spot, State, table_bytes};

impl ValueLog {
    /// Stores a value.
    ///
    /// # Errors
    /// [`LogError::VersionMismatch`], [`LogError::TooLarge`], [`LogError::NoSpace`], [`LogError::IndexFull`];
    /// [`LogError::Poisoned`] if it is unknown whether it was done.
    pub fn put(&self, put: &Put<'_>, durability: Durability) -> Result<(), LogError> {
        self.inner.change(USER, &[Change::Put(*put)], durability, None)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As [`ValueLog::put`], and [`LogError::NotFound`].
    pub fn delete(&self, delete: &Delete<'_>, durability: Durability) -> Result<(), LogError> {
        self.inner.change(USER, &[Change::Delete(*delete)], durability, None)
    }

    /// Makes all of these changes or none, through a crash at any moment too. Each sees what those before it
    /// leave.
    ///
    /// # Errors
    /// [`LogError::Batch`] says which cannot be made and why; [`LogError::TooLarge`] of the batch as a whole.
    pub fn batch(&self, changes: &[Change<'_>], durability: Durability) -> Result<(), LogError> {
        self.inner.change(USER, changes, durability, Some(()))
    }

    /// Keeps something for the owner of the store itself: apart from all keys, and found by no walk.
    ///
    /// # Errors
    /// As [`ValueLog::put`].
    pub fn put_own(&self, put: &Put<'_>) -> Result<(), LogError> {
        self.inner.change(OWN, &[Change::Put(*put)], Durability::Through, None)
    }
}

/// How the records of an append lie in it: where each begins, from the beginning of the append.
struct Plan {
    starts: Vec<u32>,
    /// Whole pages.
    bytes: u32,
    table_bytes: usize,
    /// Numbers that it takes.
    numbers: u64,
}

impl Plan {
    fn of(changes: &[&Prepared<'_>], is_batch: bool) -> Plan {
        // Appends begin at pages; all places in them are from there.
        let (mut at, mut starts, mut table) = (0u32, Vec::with_capacity(changes.len() + 1), 0);
        for change in changes {
            starts.push(at);
            at = record_end(at, header_bytes(change.shape()), change.value.len());
            table += table_bytes(change.kind, &change.key, change.version, change.tag);
        }
        if is_batch {
            starts.push(at);
            at = record_end(at, end_bytes(), 0);
        }
        let bytes = (at as usize).next_multiple_of(PAGE);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Plan { numbers: starts.len() as u64, starts, bytes, table_bytes: table }
    }
}

/// Bytes of the header of a batch's end, whose tag is the checksum of its members.
fn end_bytes() -> usize {
    header_bytes(Shape { key: 0, version: 0, tag: 4, value: 0 })
}

impl Inner {
    /// Makes changes; `batch`: all or none.
    fn change(
        &self,
        space: u8,
        changes: &[Change<'_>],
        durability: Durability,
        batch: Option<()>,
    ) -> Result<(), LogError> {
        let of_batch = |place: usize, error: LogError| match batch {
            Some(()) => LogError::Batch { place, source: Box::new(error) },
            None => error,
        };
        if changes.len() > BATCH_CHANGES_MAX {
            let (what, length) = ("changes of a batch", changes.len());
            return Err(LogError::TooLarge { what, length, most: BATCH_CHANGES_MAX });
        }
        let value_max = usize::try_from(self.layout.value_max.0).unwrap_or(usize::MAX);
        let mut prepared = Vec::with_capacity(changes.len());
        for (place, change) in changes.iter().enumerate() {
            let one = Prepared::new(space, change, value_max).map_err(|error| of_batch(place, error))?;
            prepared.push(one);
        }
        self.append(&prepared, batch.is_some(), of_batch)?;
        match durability {
            Durability::Through => self.sync_now(),
            Durability::Back => self.write_back(),
        }
    }

    /// Takes care that not too much is left to be synced.
    fn write_back(&self) -> Result<(), LogError> {
        let dirty = self.lock().dirty;
        let most = self.settings.dirty_bytes_max.0;
        if self.settings.background && dirty > most / 2 {
            self.doorbell.ring();
        }
        if dirty > most { self.flush() } else { Ok(()) }
    }

    /// Writes changes, after which others see them.
    fn append(
        &self,
        changes: &[Prepared<'_>],
        is_batch: bool,
        of_batch: impl Fn(usize, LogError) -> LogError,
    ) -> Result<(), LogError> {
        let all: Vec<&Prepared<'_>> = changes.iter().collect();
        let most = self.layout.segment_bytes() / BATCH_SHARE;
        let whole = Plan::of(&all, is_batch);
        if is_batch && (whole.bytes as usize + whole.table_bytes) > most as usize {
            let (what, length) =
                ("bytes of a batch with its headers", whole.bytes as usize + whole.table_bytes);
            return Err(LogError::TooLarge { what, length, most: most as usize });
        }
        let is_put = changes.iter().any(|change| change.kind == Kind::Put);
        let privilege = if is_put { Privilege::Put } else { Privilege::Delete };
        let mut attempts = 0;
        let (spot, plan, done) = loop {
            let mut state = self.lock();
            while state.is_erasing || changes.iter().any(|change| state.busy.contains(&change.key[..])) {
                state.check_open()?;
                state = self.wait(state);
            }
            state.check_open()?;
            let are_done = check_all(changes, is_batch, &state.index)
                .map_err(|(place, error)| of_batch(place, error))?;
            let done: Vec<&Prepared<'_>> =
                changes.iter().zip(are_done).filter(|(_, is_done)| *is_done).map(|(one, _)| one).collect();
            if done.is_empty() {
                return Ok(());
            }
            if is_put {
                self.check_index(&state, &done)?;
            }
            let plan = Plan::of(&done, is_batch);
            match state.reserve(privilege, plan.bytes, plan.table_bytes, plan.numbers) {
                Ok(spot) => {
                    state.busy.extend(done.iter().map(|change| change.key.clone().into_boxed_slice()));
                    break (spot, plan, done);
                }
                Err(_) => drop(state),
            }
            attempts += 1;
            self.provide(privilege, attempts)?;
        };
        let written = self.write_append(spot, &plan, &done, is_batch);
        let mut state = self.lock();
        match &written {
            Ok(()) => publish(&mut state, spot, &plan, &done),
            Err(error) => {
                state.fail(format!("a write failed: {error}"));
                state.abandon(spot);
            }
        }
        for change in &done {
            state.busy.remove(&change.key[..]);
        }
        drop(state);
        self.changed.notify_all();
        self.counters.writes.add(1);
        written.map_err(|_| LogError::Poisoned)
    }

    fn check_index(&self, state: &State, changes: &[&Prepared<'_>]) -> Result<(), LogError> {
        let most = self.settings.index_bytes_max;
        let puts = changes.iter().filter(|change| change.kind == Kind::Put);
        let more: u64 = puts
            .map(|put| {
                let old = state.index.bytes_of(&put.key);
                memory_bytes(&put.key, put.version.len(), put.tag.len()).saturating_sub(old)
            })
            .sum();
        let used = base::ByteCount(state.index.bytes());
        if more > 0 && used.0 + more > most.0 { Err(LogError::IndexFull { used, most }) } else { Ok(()) }
    }

    fn write_append(
        &self,
        spot: Spot,
        plan: &Plan,
        changes: &[&Prepared<'_>],
        is_batch: bool,
    ) -> std::io::Result<()> {
        if spot.opens {
            self.open_segment(spot)?;
        }
        match changes {
            [change] if !is_batch && change.value.len() >= PAGED_FROM => self.write_large(spot, change),
            _ => {
                let mut buffer = self.buffers.get(plan.bytes as usize);
                fill(buffer.bytes_mut(), spot, plan, changes, is_batch);
                self.write(spot.at.slot, spot.at.offset, &[&buffer.bytes()[..plan.bytes as usize]])
            }
        }
    }

    /// The page at the front of a segment, before the first append to it.
    pub(crate) fn open_segment(&self, spot: Spot) -> std::io::Result<()> {
        let At { store, slot, used, .. } = spot.at;
        let mark = Mark { store, slot, used, durable: spot.durable, state: MarkState::Used };
        let mut page = self.buffers.get(PAGE);
        mark.encode(page.bytes_mut());
        self.write(slot, 0, &[&page.bytes()[..PAGE]])
    }

    /// A large value goes to the disk from where the caller has it: only what is no whole page is copied.
    fn write_large(&self, spot: Spot, change: &Prepared<'_>) -> std::io::Result<()> {
        let header = header_of(change, spot.at, spot.first_append, spot.durable, (0, 0));
        let front = (header.value_at() - spot.at.offset) as usize;
        let (whole, rest) = change.value.split_at(change.value.len() / PAGE * PAGE);
        let mut ends: Buffer = self.buffers.get(HEADER_BYTES_MAX.next_multiple_of(PAGE) + PAGE);
        let (first, last) = ends.bytes_mut().split_at_mut(front);
        let end = header.encode_padded(first);
        debug_assert!(end <= front, "the header stands before the value");
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()..PAGE].fill(0);
        let last = if rest.is_empty() { &[][..] } else { &last[..PAGE] };
        self.write(spot.at.slot, spot.at.offset, &[first, whole, last])
    }

    /// What the owner keeps.
    pub(crate) fn own_key(key: &[u8]) -> Result<Vec<u8>, LogError> {
        check_key(key)?;
        Ok(spaced(OWN, key))
    }
}

fn header_of<'a>(
    change: &'a Prepared<'_>,
    at: At,
    number: u64,
    durable: u64,
    (batch, place): (u64, u32),
) -> Header<'a> {
    Header {
        kind: change.kind,
        algorithm: change.algorithm,
        value_bytes: u32::try_from(change.value.len()).unwrap_or(u32::MAX),
        at,
        sequence: number,
        append: number,
        durable,
        batch,
        place,
        key: &change.key,
        version: change.version,
        tag: change.tag,
        checksums: &change.checksums,
    }
}

/// Puts the records of an append together.
fn fill(into: &mut [u8], spot: Spot, plan: &Plan, changes: &[&Prepared<'_>], is_batch: bool) {
    let into = &mut into[..plan.bytes as usize];
    let batch = if is_batch { spot.first_append } else { 0 };
    let (mut filled, mut members, mut place) = (0usize, Crc32c::default(), 0u32);
    for (change, start) in changes.iter().zip(&plan.starts) {
        let at = At { offset: spot.at.offset + start, ..spot.at };
        let number = spot.first_append + u64::from(place);
        let header = header_of(change, at, number, spot.durable, (batch, place));
        let (start, value) = (*start as usize, (header.value_at() - spot.at.offset) as usize);
        into[filled..value].fill(0);
        members = chain(members, header.encode(&mut into[start..value]));
        into[value..value + change.value.len()].copy_from_slice(change.value);
        filled = value + change.value.len();
        place += 1;
    }
    into[filled..].fill(0);
    if let Some(start) = plan.starts.get(changes.len()).filter(|_| is_batch) {
        let tag = members.0.to_le_bytes();
        let number = spot.first_append + u64::from(place);
        let end = Header {
            kind: Kind::BatchEnd,
            algorithm: 0,
            value_bytes: 0,
            at: At { offset: spot.at.offset + start, ..spot.at },
            sequence: number,
            append: number,
            durable: spot.durable,
            batch,
            place,
            key: &[],
            version: &[],
            tag: &tag,
            checksums: &[],
        };
        end.encode(&mut into[*start as usize..]);
    }
}

/// Lets others see what was written.
fn publish(state: &mut State, spot: Spot, plan: &Plan, changes: &[&Prepared<'_>]) {
    let numbered = || (spot.first_append..).zip(&plan.starts).zip(changes);
    let entries =
        numbered().map(|((number, start), change)| change.table_entry(spot.at.offset + start, number));
    state.written(spot, u64::from(plan.bytes), entries);
    for ((number, start), change) in numbered() {
        let place = Place { slot: spot.at.slot, offset: spot.at.offset + start };
        let instead_of = match change.kind {
            Kind::Put => {
                let value = u32::try_from(change.value.len()).unwrap_or(u32::MAX);
                let words = (value, change.algorithm);
                let entry = Entry::new(place, number, words, change.version, change.tag);
                state.index.put(&change.key, entry)
            }
            _ => state.index.delete(&change.key, place, number),
        };
        state.need(place.slot, packed_bytes(change.shape()), instead_of);
    }
}

impl Header<'_> {
    /// Writes it and zeros behind it; gives its length.
    fn encode_padded(&self, into: &mut [u8]) -> usize {
        let bytes = self.bytes();
        self.encode(into);
        into[bytes..].fill(0);
        bytes
    }
}
