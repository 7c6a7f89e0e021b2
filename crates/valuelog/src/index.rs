//! The index in memory: where the record of each key stands, and what is said of it.
//!
//! Of a key that was deleted it keeps the place of the tombstone as long as a put of it stands anywhere on
//! the disk: without the tombstone that put would count again after a start.

use std::collections::{BTreeMap, HashMap};

use base::planted::{Bug, is_planted};
use drive::PAGE;

use crate::record::{Kind, PAGED_FROM, STEP, Shape, header_bytes};

/// What an entry costs beside its bytes: the nodes of the map, the entry, and what the allocator adds.
const ENTRY_OVERHEAD: u64 = 192;

pub(crate) type Key = Box<[u8]>;

/// Where a record stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) offset: u32,
}

/// What stands at a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) sequence: u64,
    pub(crate) value_bytes: u32,
    pub(crate) algorithm: i32,
    version_bytes: u16,
    /// Version and tag.
    words: Box<[u8]>,
    /// Other puts of this key on the disk.
    stale: u32,
}

impl Entry {
    pub(crate) fn new(
        place: Place,
        sequence: u64,
        (value_bytes, algorithm): (u32, i32),
        version: &[u8],
        tag: &[u8],
    ) -> Entry {
        let version_bytes = u16::try_from(version.len()).unwrap_or(u16::MAX);
        let words = [version, tag].concat().into_boxed_slice();
        Entry { place, sequence, value_bytes, algorithm, version_bytes, words, stale: 0 }
    }

    pub(crate) fn version(&self) -> &[u8] {
        &self.words[..usize::from(self.version_bytes)]
    }

    pub(crate) fn tag(&self) -> &[u8] {
        &self.words[usize::from(self.version_bytes)..]
    }

    pub(crate) fn shape(&self, key: &[u8]) -> Shape {
        let (version, tag) = (self.version().len(), self.tag().len());
        Shape { key: key.len(), version, tag, value: self.value_bytes as usize }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tombstone {
    place: Place,
    sequence: u64,
    stale: u32,
}

/// Bytes that a record takes of a segment that is packed by cleaning; never more than it took before.
pub(crate) fn packed_bytes(shape: Shape) -> u64 {
    let header = header_bytes(shape);
    let bytes = if shape.value >= PAGED_FROM {
        header.next_multiple_of(PAGE) + shape.value.next_multiple_of(STEP)
    } else {
        (header.next_multiple_of(8) + shape.value).next_multiple_of(STEP)
    };
    bytes as u64
}

fn tombstone_bytes(key: &[u8]) -> u64 {
    packed_bytes(Shape { key: key.len(), version: 0, tag: 0, value: 0 })
}

/// What an entry takes in memory.
pub(crate) fn memory_bytes(key: &[u8], version: usize, tag: usize) -> u64 {
    ENTRY_OVERHEAD + (key.len() + version + tag) as u64
}

/// A record that is needed no more: in which slot, and how much of it was needed.
pub(crate) type Released = (u32, u64);

#[derive(Default)]
pub(crate) struct Index {
    present: BTreeMap<Key, Entry>,
    deleted: HashMap<Key, Tombstone>,
    bytes: u64,
}

impl Index {
    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.present.get(key)
    }

    /// What it takes in memory for a key.
    pub(crate) fn bytes_of(&self, key: &[u8]) -> u64 {
        match self.present.get(key) {
            Some(entry) => memory_bytes(key, entry.version().len(), entry.tag().len()),
            None if self.has_tombstone(key) => memory_bytes(key, 0, 0),
            None => 0,
        }
    }

    pub(crate) fn present(&self) -> &BTreeMap<Key, Entry> {
        &self.present
    }

    /// Whether a tombstone is kept of this key.
    pub(crate) fn has_tombstone(&self, key: &[u8]) -> bool {
        self.deleted.contains_key(key)
    }

    /// Whether the record at this place is what makes a key what it is.
    pub(crate) fn is_needed(&self, kind: Kind, key: &[u8], place: Place) -> bool {
        match kind {
            Kind::Put => self.present.get(key).is_some_and(|entry| entry.place == place),
            Kind::Delete => self.deleted.get(key).is_some_and(|tombstone| tombstone.place == place),
            Kind::BatchEnd => false,
        }
    }

    /// A put is on the disk; what it replaces is needed no more.
    pub(crate) fn put(&mut self, key: &[u8], mut entry: Entry) -> Option<Released> {
        self.bytes += memory_bytes(key, entry.version().len(), entry.tag().len());
        let tombstone = self.forget_tombstone(key);
        let released = match self.present.get_mut(key) {
            Some(old) => {
                self.bytes -= memory_bytes(key, old.version().len(), old.tag().len());
                entry.stale = old.stale + 1;
                let released = (old.place.slot, packed_bytes(old.shape(key)));
                *old = entry;
                return Some(released);
            }
            None => tombstone.map(|tombstone| {
                entry.stale = tombstone.stale;
                (tombstone.place.slot, tombstone_bytes(key))
            }),
        };
        self.present.insert(key.into(), entry);
        released
    }

    /// A delete is on the disk; what it removes is needed no more.
    pub(crate) fn delete(&mut self, key: &[u8], place: Place, sequence: u64) -> Option<Released> {
        let old_tombstone = self.forget_tombstone(key);
        let old = self.present.remove(key);
        if let Some(old) = &old {
            self.bytes -= memory_bytes(key, old.version().len(), old.tag().len());
        }
        let stale = old.as_ref().map_or(0, |old| old.stale + 1) + old_tombstone.map_or(0, |old| old.stale);
        self.bytes += memory_bytes(key, 0, 0);
        self.deleted.insert(key.into(), Tombstone { place, sequence, stale });
        match (old, old_tombstone) {
            (Some(old), _) => Some((old.place.slot, packed_bytes(old.shape(key)))),
            (None, Some(old)) => Some((old.place.slot, tombstone_bytes(key))),
            (None, None) => None,
        }
    }

    fn forget_tombstone(&mut self, key: &[u8]) -> Option<Tombstone> {
        let tombstone = self.deleted.remove(key);
        if tombstone.is_some() {
            self.bytes -= memory_bytes(key, 0, 0);
        }
        tombstone
    }

    /// Cleaning has copied a record. Gives whether the copy counts; else it was replaced meanwhile.
    pub(crate) fn moved(&mut self, kind: Kind, key: &[u8], from: Place, to: Place) -> bool {
        if kind == Kind::Delete {
            let tombstone = self.deleted.get_mut(key).filter(|tombstone| tombstone.place == from);
            let is_moved = tombstone.is_some();
            tombstone.into_iter().for_each(|tombstone| tombstone.place = to);
            return is_moved;
        }
        // Original and copy are both on the disk from now on, and at most one of them counts.
        if let Some(entry) = self.present.get_mut(key) {
            entry.stale += 1;
            let is_moved = entry.place == from;
            if is_moved {
                entry.place = to;
            }
            return is_moved;
        }
        if let Some(tombstone) = self.deleted.get_mut(key) {
            tombstone.stale += 1;
        }
        false
    }

    /// A put of this key that did not count is gone from the disk. Gives a tombstone that is needed no more.
    pub(crate) fn stale_has_gone(&mut self, key: &[u8]) -> Option<Released> {
        if let Some(entry) = self.present.get_mut(key) {
            entry.stale = entry.stale.saturating_sub(1);
            return None;
        }
        let tombstone = self.deleted.get_mut(key)?;
        tombstone.stale = tombstone.stale.saturating_sub(1);
        if tombstone.stale > 0 && !is_planted(Bug::DroppedTombstone) {
            return None;
        }
        let slot = tombstone.place.slot;
        self.forget_tombstone(key);
        Some((slot, tombstone_bytes(key)))
    }

    /// At opening: a record was found. The order in which they are found does not matter, but that of two of
    /// the same change the first counts.
    pub(crate) fn found(&mut self, kind: Kind, key: &[u8], entry: Entry) {
        let stands = self.present.get(key).map(|entry| entry.sequence);
        let stands = stands.or_else(|| self.deleted.get(key).map(|tombstone| tombstone.sequence));
        if stands.is_none_or(|stands| stands < entry.sequence) {
            match kind {
                Kind::Put => self.put(key, entry),
                _ => self.delete(key, entry.place, entry.sequence),
            };
        } else if kind == Kind::Put {
            if let Some(present) = self.present.get_mut(key) {
                present.stale += 1;
            } else if let Some(tombstone) = self.deleted.get_mut(key) {
                tombstone.stale += 1;
            }
        }
    }

    /// At opening, when all is found: drops tombstones of which nothing older is left, and gives what is
    /// needed in which slot.
    pub(crate) fn settle(&mut self, mut needed: impl FnMut(u32, u64)) {
        let bytes = &mut self.bytes;
        self.deleted.retain(|key, tombstone| {
            if tombstone.stale == 0 {
                *bytes -= memory_bytes(key, 0, 0);
            }
            tombstone.stale > 0
        });
        self.deleted.iter().for_each(|(key, tombstone)| needed(tombstone.place.slot, tombstone_bytes(key)));
        let present = self.present.iter();
        present.for_each(|(key, entry)| needed(entry.place.slot, packed_bytes(entry.shape(key))));
    }

    /// Keys of which a tombstone is kept.
    pub(crate) fn tombstones(&self) -> usize {
        self.deleted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: u32, sequence: u64) -> Entry {
        Entry::new(Place { slot, offset: 4096 }, sequence, (10, 0), b"v", b"")
    }

    fn place(slot: u32) -> Place {
        Place { slot, offset: 4096 }
    }

    #[test]
    fn a_tombstone_is_kept_until_the_last_put_has_gone() {
        let mut index = Index::default();
        assert_eq!(index.put(b"k", entry(1, 1)), None);
        assert!(index.put(b"k", entry(2, 2)).is_some());
        assert!(index.delete(b"k", place(3), 3).is_some());
        assert!(index.get(b"k").is_none() && index.is_needed(Kind::Delete, b"k", place(3)));
        assert_eq!(index.stale_has_gone(b"k"), None);
        assert!(index.moved(Kind::Delete, b"k", place(3), place(4)));
        assert_eq!(index.stale_has_gone(b"k"), Some((4, tombstone_bytes(b"k"))));
        assert_eq!((index.tombstones(), index.bytes()), (0, 0));
    }

    #[test]
    fn records_are_found_in_any_order() {
        let records = [(Kind::Put, 1, 1), (Kind::Put, 2, 2), (Kind::Delete, 3, 3), (Kind::Put, 4, 2)];
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
        for order in orders {
            let mut index = Index::default();
            for (kind, slot, sequence) in order.map(|at| records[at]) {
                index.found(kind, b"k", entry(slot, sequence));
            }
            assert!(index.get(b"k").is_none(), "{order:?}");
            assert_eq!(index.deleted[&b"k"[..]].stale, 3, "{order:?}");
        }
    }

    #[test]
    fn a_copy_that_comes_late_does_not_count() {
        let mut index = Index::default();
        index.put(b"k", entry(1, 1));
        index.put(b"k", entry(2, 5));
        assert!(!index.moved(Kind::Put, b"k", place(1), place(3)));
        assert!(index.moved(Kind::Put, b"k", place(2), place(4)));
        index.delete(b"k", place(5), 6);
        // Two originals and two copies.
        for _ in 0..3 {
            assert_eq!(index.stale_has_gone(b"k"), None);
        }
        assert!(index.stale_has_gone(b"k").is_some());
    }
}
