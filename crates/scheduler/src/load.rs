//! Taking in the whole queue at a start, in bulk.

use std::collections::{BTreeMap, BTreeSet};

use base::{FileId, Timestamp, Vid};

use crate::WantedFile;
use crate::recall::{RecallQueue, Wanted};
use crate::scheduler::Scheduler;
use crate::worth::{FileSet, Item};

impl Scheduler {
    /// Takes in many wanted files at once, as at a start: as `Wanted` events would, but without deciding
    /// anything, which the next event does. Ten million take seconds where nothing is wanted yet and no tape
    /// is being read; else each is taken in by itself. Tapes that were told of before are known.
    pub fn load<C: AsRef<[Vid]>>(&mut self, now: Timestamp, files: impl Iterator<Item = WantedFile<C>>) {
        self.recall.expire(now);
        if self.recall.wanted.is_empty() && self.tapes.values().all(|tape| tape.drive.is_none()) {
            self.recall.load(files);
            return;
        }
        for wanted in files {
            let copies = wanted.copies.as_ref().to_vec();
            let WantedFile { file, bytes, since, priority, share, .. } = wanted;
            self.recall.want(&WantedFile { file, bytes, since, priority, share, copies });
        }
    }
}

impl RecallQueue {
    fn load<C: AsRef<[Vid]>>(&mut self, files: impl Iterator<Item = WantedFile<C>>) {
        let mut wanted: Vec<(FileId, Wanted)> = files.map(|file| (file.file, Wanted::new(&file))).collect();
        if !wanted.is_sorted_by(|a, b| a.0 < b.0) {
            // Of a file that is named twice the last word counts, as it does of events.
            wanted.reverse();
            wanted.sort_by_key(|(file, _)| *file);
            wanted.dedup_by_key(|(file, _)| *file);
        }
        let mut tapes = Tapes::default();
        for (file, wanted) in &mut wanted {
            wanted.held = self.is_held(wanted);
            self.groups.put_in(wanted);
            let item = wanted.item(*file, 1);
            for vid in wanted.usable() {
                let held = wanted.held && self.tapes.suspects.contains(&vid);
                let bulk = tapes.of(vid);
                if held { bulk.held.push(item) } else { bulk.waiting.push(item) }
            }
        }
        for (vid, bulk) in tapes.bulks {
            let (waiting, held) = (file_set(bulk.waiting), file_set(bulk.held));
            self.tapes.change(vid, |queue| {
                queue.waiting.absorb(waiting);
                queue.held.absorb(held);
            });
        }
        self.wanted = BTreeMap::from_iter(wanted);
    }
}

/// The files of one tape before they are sorted.
#[derive(Default)]
struct Bulk {
    waiting: Vec<Item>,
    held: Vec<Item>,
}

/// The tapes that are named, in the order in which they are first, and where each stands. Looking a tape up
/// takes one probe as a rule: there are as many look-ups as copies.
#[derive(Default)]
struct Tapes {
    bulks: Vec<(Vid, Bulk)>,
    /// One more than the place in `bulks`; 0: free. A power of two of slots, at most half of them taken.
    slots: Vec<usize>,
}

impl Tapes {
    fn of(&mut self, vid: Vid) -> &mut Bulk {
        if 2 * self.bulks.len() >= self.slots.len() {
            let slots = (2 * self.slots.len()).max(1024);
            self.slots = vec![0; slots];
            for at in 0..self.bulks.len() {
                let slot = self.slot(self.bulks[at].0);
                self.slots[slot] = at + 1;
            }
        }
        let slot = self.slot(vid);
        if self.slots[slot] == 0 {
            self.bulks.push((vid, Bulk::default()));
            self.slots[slot] = self.bulks.len();
        }
        &mut self.bulks[self.slots[slot] - 1].1
    }

    /// The slot of a tape, or the free one that it takes.
    fn slot(&self, vid: Vid) -> usize {
        let number = vid.as_bytes().iter().fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 && self.bulks[self.slots[slot] - 1].0 != vid {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

fn file_set(mut items: Vec<Item>) -> FileSet {
    let mut set = FileSet::default();
    items.iter().for_each(|item| set.count(item));
    items.sort_unstable_by_key(|item| (item.since, item.file));
    set.files = items.iter().map(|item| (item.since, item.file)).collect::<BTreeSet<_>>();
    set
}
