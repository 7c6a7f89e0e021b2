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
        let mut copies: Vec<Vid> = wanted.iter().flat_map(|(_, wanted)| wanted.usable()).collect();
        copies.sort_unstable();
        copies.dedup();
        let mut sets: Vec<Bulk> = copies.iter().map(|_| Bulk::default()).collect();
        for (file, wanted) in &mut wanted {
            wanted.held = self.is_held(wanted);
            self.groups.put_in(wanted);
            let item = wanted.item(*file);
            for vid in wanted.usable() {
                let Ok(at) = copies.binary_search(&vid) else { continue };
                let Some(bulk) = sets.get_mut(at) else { continue };
                let held = wanted.held && self.tapes.suspects.contains(&vid);
                bulk.add(held, &item);
            }
        }
        self.wanted = BTreeMap::from_iter(wanted);
        for (vid, bulk) in copies.into_iter().zip(sets) {
            let (waiting, held) = bulk.sets();
            self.tapes.change(vid, |queue| {
                queue.waiting.absorb(waiting);
                queue.held.absorb(held);
            });
        }
    }
}

/// The files of one tape before they are sorted.
#[derive(Default)]
struct Bulk {
    waiting: (Vec<(Timestamp, FileId)>, FileSet),
    held: (Vec<(Timestamp, FileId)>, FileSet),
}

impl Bulk {
    fn add(&mut self, held: bool, item: &Item) {
        let (files, set) = if held { &mut self.held } else { &mut self.waiting };
        files.push((item.since, item.file));
        set.count(item);
    }

    fn sets(self) -> (FileSet, FileSet) {
        let finish = |(mut files, set): (Vec<_>, FileSet)| {
            files.sort_unstable();
            FileSet { files: BTreeSet::from_iter(files), ..set }
        };
        (finish(self.waiting), finish(self.held))
    }
}
