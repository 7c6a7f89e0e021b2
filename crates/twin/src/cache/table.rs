//! From a file to its entry: open addressing with linear probing. Four to eleven bytes an entry.

use scenario::model::scatter;

/// Where nothing is.
pub(super) const NONE: u32 = u32::MAX;

/// Slots of entries, by the files' ids, which are kept in the entries alone.
pub(super) struct Table {
    slots: Vec<u32>,
    len: usize,
}

impl Table {
    pub(super) fn new() -> Table {
        Table { slots: vec![NONE; 16], len: 0 }
    }

    /// The slot of a file; `id_of` tells the file of a slot.
    pub(super) fn get(&self, id: u64, id_of: impl Fn(u32) -> u64) -> Option<u32> {
        let mut at = self.home(id);
        loop {
            match self.slots[at] {
                NONE => return None,
                slot if id_of(slot) == id => return Some(slot),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Adds a file that is not there.
    pub(super) fn insert(&mut self, id: u64, slot: u32, id_of: impl Fn(u32) -> u64) {
        self.reserve(1, id_of);
        self.len += 1;
        self.set(id, slot);
    }

    /// Makes room for so many more files.
    pub(super) fn reserve(&mut self, more: usize, id_of: impl Fn(u32) -> u64) {
        let wanted = ((self.len + more) * 10 / 8 + 1).next_power_of_two();
        if wanted > self.slots.len() {
            for old in std::mem::replace(&mut self.slots, vec![NONE; wanted]) {
                if old != NONE {
                    self.set(id_of(old), old);
                }
            }
        }
    }

    /// Takes a file away that is there.
    pub(super) fn remove(&mut self, id: u64, id_of: impl Fn(u32) -> u64) {
        let mask = self.slots.len() - 1;
        let mut hole = self.home(id);
        while self.slots[hole] != NONE && id_of(self.slots[hole]) != id {
            hole = (hole + 1) & mask;
        }
        if self.slots[hole] == NONE {
            return;
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == NONE {
                break;
            }
            // It may move into the hole unless its home lies behind the hole.
            let home = self.home(id_of(slot));
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = NONE;
    }

    fn home(&self, id: u64) -> usize {
        scatter(id) as usize & (self.slots.len() - 1)
    }

    fn set(&mut self, id: u64, slot: u32) {
        let mut at = self.home(id);
        while self.slots[at] != NONE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }
}
