//! Files that somebody waits for, and a ledger of all requests.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use base::FileId;

use crate::moment::Moment;

/// Scatters the number of a file; looked up by key only, never gone through.
#[derive(Clone, Copy, Default)]
pub(super) struct Scatter(u64);

impl Hasher for Scatter {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A map by file whose order is never looked at.
pub(super) type ByFile<T> = HashMap<FileId, T, BuildHasherDefault<Scatter>>;

/// One request for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Waiter {
    pub(super) workload: u16,
    /// Its number in the ledger.
    pub(super) request: u64,
    pub(super) since: Moment,
}

/// A file that is wanted from tape.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub(super) file: FileId,
    pub(super) bytes: u64,
    pub(super) since: Moment,
    pub(super) priority: u8,
    /// Since when the scheduler knows of it.
    pub(super) admitted: Option<Moment>,
    pub(super) first: Waiter,
    pub(super) others: Vec<Waiter>,
}

impl Want {
    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// All files that are wanted.
#[derive(Default)]
pub(super) struct Wants {
    /// In no order that means anything, but always the same one.
    open: Vec<Want>,
    places: ByFile<u32>,
    /// By age; with those that are wanted no more.
    by_age: VecDeque<(Moment, FileId)>,
    pub(super) bytes: u64,
}

impl Wants {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn at(&self, index: usize) -> Option<&Want> {
        self.open.get(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Want> {
        self.open.iter()
    }

    pub(super) fn get(&self, file: FileId) -> Option<&Want> {
        self.places.get(&file).and_then(|at| self.open.get(*at as usize))
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut Want> {
        self.places.get(&file).and_then(|at| self.open.get_mut(*at as usize))
    }

    pub(super) fn insert(&mut self, want: Want) {
        self.bytes += want.bytes;
        self.by_age.push_back((want.since, want.file));
        let old = self.places.insert(want.file, self.open.len() as u32);
        assert!(old.is_none(), "file {} is wanted twice", want.file);
        self.open.push(want);
    }

    pub(super) fn remove(&mut self, file: FileId) -> Option<Want> {
        let at = self.places.remove(&file)? as usize;
        let want = self.open.swap_remove(at);
        self.bytes -= want.bytes;
        if let Some(moved) = self.open.get(at) {
            self.places.insert(moved.file, at as u32);
        }
        Some(want)
    }

    /// Since when the file waits that has waited longest.
    pub(super) fn oldest(&mut self) -> Option<Moment> {
        while let Some(&(since, file)) = self.by_age.front() {
            if self.get(file).is_some_and(|want| want.since == since) {
                return Some(since);
            }
            self.by_age.pop_front();
        }
        None
    }
}

/// One bit for each of many things.
#[derive(Clone, Default, Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    pub(super) count: u64,
}

impl Bits {
    /// Sets a bit; `false` if it was set.
    pub(super) fn set(&mut self, at: u64) -> bool {
        let word = (at / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (at % 64);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    pub(super) fn clear(&mut self, at: u64) {
        if self.get(at) {
            self.words[(at / 64) as usize] &= !(1 << (at % 64));
            self.count -= 1;
        }
    }

    pub(super) fn get(&self, at: u64) -> bool {
        self.words.get((at / 64) as usize).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

/// Every request ends once: counted by itself, whatever else is known of it.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) begun: u64,
    ended: Bits,
}

impl Ledger {
    pub(super) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// `false`: it has ended before.
    pub(super) fn end(&mut self, request: u64) -> bool {
        self.ended.set(request)
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.count
    }
}
