//! What is in the pool.
//!
//! Files that may go stand in lists by the time of their last use, some seconds to a minute in each list, so
//! that a file is found its place at once whenever it may go again. An entry takes about 50 bytes.

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::{ByteCount, Duration, FileId};

use crate::holdings::Holdings;
use crate::moment::Moment;
use scenario::model::{ClassIndex, ClassModel, FileNumber, PoolModel, Site};
use session::{Limits, Water};
use table::{NONE, Table};

/// The beginning of a run in the cache's own time, microseconds: some decades, so that what was used before
/// has a time too.
const BEGIN: u64 = 1 << 50;

/// Nothing was used longer ago than this before the beginning.
const AGE_MAX: u64 = 10 * 365 * 86_400 * 1_000_000;

/// The widest list: 2^26 microseconds, a minute.
const SHIFT_MAX: u32 = 26;

/// A file that has left the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The file.
    pub file: FileNumber,
    /// Its size.
    pub bytes: u64,
    /// How long nobody had used it; nothing if it was there at the beginning and nobody used it since.
    pub untouched: Option<Duration>,
}

/// The files in the pool.
pub struct Cache {
    limits: Limits,
    used: u64,
    entries: Vec<Entry>,
    /// The first of the entries that are free, chained by `next`.
    free: u32,
    table: Table,
    classes: Vec<Class>,
    keeps_all: bool,
}

struct Entry {
    id: u64,
    bytes: u64,
    last: u64,
    previous: u32,
    next: u32,
    pins: u16,
    is_safe: bool,
    is_listed: bool,
}

struct Class {
    residency: u64,
    limits: Option<Limits>,
    used: u64,
    /// A list holds the files used last within 2^shift microseconds.
    shift: u32,
    lists: BTreeMap<u64, List>,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

impl Cache {
    /// The pool with what is resident at the beginning: of each holding the newest files, the oldest of
    /// these at the end of their residency, as far as the pool takes them below its high water.
    #[must_use]
    pub fn new(site: &Site, holdings: &mut Holdings) -> Cache {
        let limits = limits(site.pool.capacity, &site.pool);
        let classes: Vec<Class> = site.classes.iter().map(|class| Class::new(class, &site.pool)).collect();
        let table = Table::new();
        let mut cache =
            Cache { limits, used: 0, entries: Vec::new(), free: NONE, table, classes, keeps_all: false };
        let mut ends = vec![0u64; site.classes.len()];
        for holding in &site.holdings {
            let class = holding.class;
            let end = &mut ends[usize::from(class.0)];
            *end += holding.files;
            let resident = holding.files / 1000 * u64::from(holding.resident_per_mille)
                + holding.files % 1000 * u64::from(holding.resident_per_mille) / 1000;
            cache.fill(class, *end, resident.min(holding.files), holdings);
        }
        cache
    }

    /// Nothing is evicted by itself any more: files leave with [`Cache::drop_file`] only.
    pub fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// Whether a file is in the pool.
    #[must_use]
    pub fn contains(&self, file: FileNumber) -> bool {
        self.slot(file).is_some()
    }

    /// A file is used.
    pub fn touch(&mut self, now: Moment, file: FileNumber) {
        if let Some(slot) = self.slot(file) {
            self.unlist(slot);
            let entry = &mut self.entries[slot as usize];
            entry.last = entry.last.max(BEGIN + now.0);
            self.list(slot);
        }
    }

    /// A file comes; `safe`: it has all its copies. A file that is there already is used. `false`: there is
    /// no room for it, nothing has changed. The ceiling of its class is for who recalls to look at
    /// ([`Cache::free_of`]): as in the server, it holds up no put.
    pub fn put_in(&mut self, now: Moment, file: FileNumber, bytes: u64, safe: bool) -> bool {
        if self.contains(file) {
            self.touch(now, file);
            if safe {
                self.made_safe(file);
            }
            return true;
        }
        if self.free() < bytes {
            return false;
        }
        self.insert(file, bytes, BEGIN + now.0, safe);
        true
    }

    /// The file has all its copies: it may be evicted from now on.
    pub fn made_safe(&mut self, file: FileNumber) {
        if let Some(slot) = self.slot(file) {
            self.entries[slot as usize].is_safe = true;
            self.list(slot);
        }
    }

    /// The file stays until it is unpinned as often as it was pinned.
    pub fn pin(&mut self, file: FileNumber) {
        if let Some(slot) = self.slot(file) {
            self.unlist(slot);
            let pins = &mut self.entries[slot as usize].pins;
            *pins = pins.checked_add(1).expect("a file is pinned by at most 65,535 users");
        }
    }

    /// One pin is taken away; that is a use of the file.
    pub fn unpin(&mut self, now: Moment, file: FileNumber) {
        if let Some(slot) = self.slot(file) {
            let entry = &mut self.entries[slot as usize];
            entry.pins = entry.pins.saturating_sub(1);
            self.touch(now, file);
        }
    }

    /// A file goes at once, whatever its state. Whether it was there.
    pub fn drop_file(&mut self, file: FileNumber) -> bool {
        let slot = self.slot(file);
        slot.map(|slot| self.remove(slot)).is_some()
    }

    /// Evicts what has outlived its residency, then, above high water of a class's ceiling or of the pool,
    /// what was used least recently, down to low water. Only files that are safe and not pinned go.
    pub fn evict(&mut self, now: Moment, out: &mut Vec<Evicted>) {
        if self.keeps_all {
            return;
        }
        let time = BEGIN + now.0;
        for class in 0..self.classes.len() {
            while self.classes[class].expiry().is_some_and(|expiry| expiry <= time) {
                self.evict_oldest(class, time, out);
            }
            let Some(limits) = self.classes[class].limits else { continue };
            if limits.is_above(ByteCount(self.classes[class].used)) {
                while self.classes[class].used > limits.low.0 && self.evict_oldest(class, time, out) {}
            }
        }
        if self.limits.is_above(ByteCount(self.used)) {
            while self.used > self.limits.low.0 {
                let oldest = (0..self.classes.len())
                    .filter_map(|class| self.classes[class].oldest().map(|since| (since, class)));
                let Some((_, class)) = oldest.min() else { break };
                self.evict_oldest(class, time, out);
            }
        }
    }

    /// When [`Cache::evict`] should be called next although nothing changes: when a residency has passed, to
    /// a 64th of it or a minute.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        if self.keeps_all {
            return None;
        }
        let expiry = self.classes.iter().filter_map(Class::expiry).min()?;
        (expiry < u64::MAX).then(|| Moment(expiry.saturating_sub(BEGIN)))
    }

    /// Whether [`Cache::evict`] would evict for want of room, if there is anything that may go.
    #[must_use]
    pub fn is_above_high_water(&self) -> bool {
        let is_above =
            |class: &Class| class.limits.is_some_and(|limits| limits.is_above(ByteCount(class.used)));
        self.limits.is_above(ByteCount(self.used)) || self.classes.iter().any(is_above)
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.limits.most.0 - self.used
    }

    /// Bytes that recalls may still bring in of a class; `None`: it has no limit of its own.
    #[must_use]
    pub fn free_of(&self, class: ClassIndex) -> Option<u64> {
        let class = &self.classes[usize::from(class.0)];
        class.limits.map(|limits| limits.most.0.saturating_sub(class.used))
    }

    /// Bytes in the pool.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of a class in the pool.
    #[must_use]
    pub fn used_of(&self, class: ClassIndex) -> u64 {
        self.classes[usize::from(class.0)].used
    }

    fn fill(&mut self, class: ClassIndex, end: u64, resident: u64, holdings: &Holdings) {
        let residency = self.classes[usize::from(class.0)].residency.min(AGE_MAX);
        let room = self.limits.high.0.saturating_sub(self.used) as f64 / holdings.mean(class).max(1.0);
        let expected = resident.min(room as u64) as usize;
        self.entries.reserve_exact(expected);
        self.table.reserve(expected, |slot| self.entries[slot as usize].id);
        for back in 0..resident {
            let file = FileNumber { class, sequence: end - 1 - back };
            let bytes = holdings.size(file);
            let known = &self.classes[usize::from(class.0)];
            let is_full = known.limits.is_some_and(|limits| known.used + bytes > limits.high.0);
            if is_full || self.used + bytes > self.limits.high.0 {
                break;
            }
            let age = u128::from(residency) * u128::from(back) / u128::from(resident);
            self.insert(file, bytes, BEGIN - age as u64, true);
        }
    }

    fn slot(&self, file: FileNumber) -> Option<u32> {
        self.table.get(file.id().0, |slot| self.entries[slot as usize].id)
    }

    fn insert(&mut self, file: FileNumber, bytes: u64, last: u64, is_safe: bool) {
        let id = file.id().0;
        let entry = Entry { id, bytes, last, previous: NONE, next: NONE, pins: 0, is_safe, is_listed: false };
        let slot = match self.free {
            NONE => {
                assert!(self.entries.len() < NONE as usize, "a pool holds fewer than 2^32 files");
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
            slot => {
                self.free = self.entries[slot as usize].next;
                self.entries[slot as usize] = entry;
                slot
            }
        };
        self.table.insert(id, slot, |slot| self.entries[slot as usize].id);
        self.used += bytes;
        self.classes[usize::from(file.class.0)].used += bytes;
        self.list(slot);
    }

    fn remove(&mut self, slot: u32) {
        self.unlist(slot);
        let (id, bytes) = (self.entries[slot as usize].id, self.entries[slot as usize].bytes);
        self.table.remove(id, |slot| self.entries[slot as usize].id);
        self.used -= bytes;
        self.classes[class_of(id)].used -= bytes;
        self.entries[slot as usize].next = self.free;
        self.free = slot;
    }

    fn evict_oldest(&mut self, class: usize, time: u64, out: &mut Vec<Evicted>) -> bool {
        let Some(list) = self.classes[class].lists.first_entry() else { return false };
        let slot = list.get().head;
        let entry = &self.entries[slot as usize];
        let untouched = (entry.last > BEGIN).then(|| Duration::from_micros(time.saturating_sub(entry.last)));
        out.push(Evicted { file: FileNumber::of(FileId(entry.id)), bytes: entry.bytes, untouched });
        self.remove(slot);
        true
    }

    /// Puts an entry to the end of the list of its time, if it may go.
    fn list(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if entry.is_listed || !entry.is_safe || entry.pins > 0 {
            return;
        }
        let class = &mut self.classes[class_of(entry.id)];
        let list = class.lists.entry(entry.last >> class.shift).or_insert(List { head: slot, tail: NONE });
        entry.is_listed = true;
        entry.previous = list.tail;
        entry.next = NONE;
        let tail = std::mem::replace(&mut list.tail, slot);
        if tail != NONE {
            self.entries[tail as usize].next = slot;
        }
    }

    fn unlist(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if !entry.is_listed {
            return;
        }
        entry.is_listed = false;
        let (previous, next, id, last) = (entry.previous, entry.next, entry.id, entry.last);
        if previous != NONE {
            self.entries[previous as usize].next = next;
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE && next != NONE {
            return;
        }
        let class = &mut self.classes[class_of(id)];
        let key = last >> class.shift;
        if previous == NONE && next == NONE {
            class.lists.remove(&key);
        } else if let Some(list) = class.lists.get_mut(&key) {
            match previous {
                NONE => list.head = next,
                _ => list.tail = previous,
            }
        }
    }
}

/// The marks that the server has too.
fn limits(most: ByteCount, pool: &PoolModel) -> Limits {
    Limits::new(most, Water { high_percent: pool.high_water_percent, low_percent: pool.low_water_percent })
}

impl Class {
    fn new(class: &ClassModel, pool: &PoolModel) -> Class {
        let residency = u64::try_from(class.residency.as_micros()).unwrap_or(u64::MAX);
        let shift = (residency / 64).max(1).ilog2().min(SHIFT_MAX);
        let limits = class.pool_max.map(|most| limits(most, pool));
        Class { residency, limits, used: 0, shift, lists: BTreeMap::new() }
    }

    /// The time of the list that was used least recently.
    fn oldest(&self) -> Option<u64> {
        self.lists.first_key_value().map(|(key, _)| key << self.shift)
    }

    /// When all of that list have outlived their residency.
    fn expiry(&self) -> Option<u64> {
        self.oldest().map(|oldest| (oldest + (1 << self.shift)).saturating_add(self.residency))
    }
}

fn class_of(id: u64) -> usize {
    usize::from(FileNumber::of(FileId(id)).class.0)
}
