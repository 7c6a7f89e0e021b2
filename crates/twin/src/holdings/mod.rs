//! Where all files stand: those laid out at the beginning and those written since.
//!
//! Runs are kept, not files: 10^8 files take some MB. Where a file stands in its run is summed up when it is
//! asked for; a cursor makes that cheap for files that are asked for in order.

mod layout;
mod placed;
mod records;
#[cfg(test)]
mod tests;
mod vids;

use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::rc::Rc;

use base::Vid;

use layout::{Layout, Rule};
pub use placed::PlacedFile;
use records::Records;
use scenario::model::{
    ClassIndex, ClassModel, FileNumber, Holding, LibraryIndex, SEQUENCE_MAX, Site, scatter,
};

/// Index of a cartridge of the site, scratch ones included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct TapeIndex(pub u32);

/// Where a copy of a file stands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// Its tape.
    pub tape: TapeIndex,
    /// Its first byte on the tape.
    pub byte: u64,
    /// Larger: written later.
    pub order: u64,
}

/// The copies of a file: of those laid out first one for each tape pool of the class, then a duplicate, then
/// those written since. At most [`Copies::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copies {
    places: [Place; Copies::MAX],
    len: u8,
}

impl Copies {
    /// Most copies that are told; older ones come first.
    pub const MAX: usize = 4;

    fn push(&mut self, place: Place) {
        if let Some(slot) = self.places.get_mut(usize::from(self.len)) {
            *slot = place;
            self.len += 1;
        }
    }
}

impl Deref for Copies {
    type Target = [Place];

    fn deref(&self) -> &[Place] {
        &self.places[..usize::from(self.len)]
    }
}

/// A cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tape {
    /// Where it is.
    pub library: LibraryIndex,
    /// Index of its tape pool; `None`: scratch.
    pub tape_pool: Option<u16>,
    /// Bytes written.
    pub used: u64,
    /// Files written.
    pub files: u64,
    /// Nothing can be read from it any more.
    pub is_lost: bool,
}

/// Where all files stand.
pub struct Holdings {
    tapes: Vec<Tape>,
    classes: Vec<Class>,
    orders: u64,
}

struct Class {
    model: ClassModel,
    /// Files of a pack, by the mean size of files that go into packs.
    pack_files: u64,
    /// Numbers given.
    files: u64,
    groups: Vec<Group>,
    records: Records,
    /// Packs of several runs, by where each run begins.
    packs: BTreeMap<u64, Rc<[Range<u64>]>>,
}

/// The files of a holding, laid out once for all copies on tapes that are filled alike.
struct Group {
    files: Range<u64>,
    run_files: u64,
    layouts: Vec<Layout>,
}

impl Holdings {
    /// Lays out all holdings, one for each copy of their class and duplicates too; then come the scratch
    /// tapes, library by library. The seed decides which files have duplicates.
    #[must_use]
    pub fn new(site: &Site, seed: u64) -> Holdings {
        let classes = site.classes.iter().map(Class::new).collect();
        let mut holdings = Holdings { tapes: Vec::new(), classes, orders: 2 };
        for (index, holding) in site.holdings.iter().enumerate() {
            holdings.lay_out(site, holding, scatter(seed ^ scatter(index as u64)));
        }
        for (index, library) in site.libraries.iter().enumerate() {
            let index = LibraryIndex(index as u16);
            let scratch = Tape { library: index, tape_pool: None, used: 0, files: 0, is_lost: false };
            holdings.tapes.extend(std::iter::repeat_n(scratch, library.scratch as usize));
        }
        holdings
    }

    /// All cartridges, by [`TapeIndex`].
    #[must_use]
    pub fn tapes(&self) -> &[Tape] {
        &self.tapes
    }

    /// A cartridge, to change it.
    ///
    /// # Panics
    /// If there is no such cartridge.
    pub fn tape_mut(&mut self, tape: TapeIndex) -> &mut Tape {
        &mut self.tapes[tape.0 as usize]
    }

    /// The volume identifier of a cartridge: in the order of the indices, `A00000` the first.
    #[must_use]
    pub fn vid(tape: TapeIndex) -> Vid {
        vids::vid(tape)
    }

    /// The cartridge of a volume identifier that [`Holdings::vid`] gives.
    #[must_use]
    pub fn index_of(vid: Vid) -> Option<TapeIndex> {
        vids::index_of(vid)
    }

    /// Numbers given to files of a class so far.
    #[must_use]
    pub fn files(&self, class: ClassIndex) -> u64 {
        self.class(class).files
    }

    /// Gives the next number to a file that is put. It has no copies yet.
    pub fn put(&mut self, class: ClassIndex) -> FileNumber {
        let known = &mut self.classes[usize::from(class.0)];
        let sequence = known.files;
        assert!(sequence < SEQUENCE_MAX, "a class holds at most 2^40 files");
        known.files += 1;
        FileNumber { class, sequence }
    }

    /// The size of a file in bytes.
    #[must_use]
    pub fn size(&self, file: FileNumber) -> u64 {
        self.class(file.class).model.sizes.size(file)
    }

    /// The mean size of a class's files in bytes, by its law.
    #[must_use]
    pub fn mean(&self, class: ClassIndex) -> f64 {
        self.class(class).model.sizes.mean()
    }

    /// Where a file can be read. Files asked for in order cost a step each, others the steps to the file
    /// from the last place that is known: some 100.
    pub fn copies(&mut self, file: FileNumber) -> Copies {
        let mut copies = Copies::default();
        let class = &mut self.classes[usize::from(file.class.0)];
        let size = |sequence| class.model.sizes.size(FileNumber { class: file.class, sequence });
        let at = class.groups.partition_point(|group| group.files.end <= file.sequence);
        let tapes = &self.tapes;
        let mut tell = |place: Place| {
            if !tapes[place.tape.0 as usize].is_lost {
                copies.push(place);
            }
        };
        if let Some(group) = class.groups.get_mut(at) {
            for layout in &mut group.layouts {
                layout.places(file.sequence, &size, &mut tell);
            }
        }
        class.records.find(file.sequence, &size, &mut tell);
        copies
    }

    /// The files of a file's pack, as far as a recall of packs goes: the file alone if it is a container of
    /// its own.
    #[must_use]
    pub fn pack_of(&self, file: FileNumber) -> Vec<Range<u64>> {
        let (class, sequence) = (self.class(file.class), file.sequence);
        let in_one = |run: Range<u64>| vec![run];
        if self.size(file) >= class.model.large.0 {
            return in_one(sequence..sequence + 1);
        }
        match class.records.range_of(sequence) {
            Some(range) => class.packs.get(&range.start).map_or_else(|| in_one(range), |pack| pack.to_vec()),
            None => in_one(class.laid_out_with(sequence)),
        }
    }

    /// The runs of a pack, each of which was recorded. Kept only where packs are recalled as a whole.
    pub fn record_pack(&mut self, class: ClassIndex, runs: &[Range<u64>]) {
        let known = &mut self.classes[usize::from(class.0)];
        if known.model.recall_packs && runs.len() > 1 {
            let pack: Rc<[Range<u64>]> = runs.into();
            known.packs.extend(runs.iter().map(|run| (run.start, Rc::clone(&pack))));
        }
    }

    /// Files that were written and flushed, one behind the other from `place` on. A file may be recorded
    /// again and again, once for each copy. What it does to [`Tape::used`] is the caller's.
    pub fn record(&mut self, class: ClassIndex, sequences: Range<u64>, mut place: Place) {
        self.orders += 1;
        place.order = place.order.max(self.orders);
        self.orders = place.order;
        let known = &mut self.classes[usize::from(class.0)];
        let sizes = &known.model.sizes;
        let size = |sequence| sizes.size(FileNumber { class, sequence });
        known.records.add(sequences, place, &size, !known.model.recall_packs);
    }

    /// A tape is unreadable for good: no copy is on it any more.
    pub fn forget_tape(&mut self, tape: TapeIndex) {
        self.tape_mut(tape).is_lost = true;
    }

    /// Of the files laid out, those whose first copy stands on the first `tapes` tapes of their class; all
    /// for 0. Ascending; neighbours are in one range.
    #[must_use]
    pub fn on_first_tapes(&self, class: ClassIndex, tapes: u32) -> Vec<Range<u64>> {
        let known = self.class(class);
        let laid_out = known.groups.last().map_or(0, |group| group.files.end);
        if tapes == 0 {
            return std::iter::once(0..laid_out).filter(|all| !all.is_empty()).collect();
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut left = tapes;
        for group in &known.groups {
            let Some(layout) = group.layouts.first() else { continue };
            let size = |sequence| known.model.sizes.size(FileNumber { class, sequence });
            layout.on_first_tapes(left, &size, |sequence| match ranges.last_mut() {
                Some(last) if last.end == sequence => last.end += 1,
                _ => ranges.push(sequence..sequence + 1),
            });
            left = left.saturating_sub(layout.tapes());
        }
        ranges
    }

    fn class(&self, class: ClassIndex) -> &Class {
        &self.classes[usize::from(class.0)]
    }

    fn lay_out(&mut self, site: &Site, holding: &Holding, key: u64) {
        let class = &mut self.classes[usize::from(holding.class.0)];
        let files = class.files..class.files + holding.files;
        class.files = files.end;
        let size = |sequence| class.model.sizes.size(FileNumber { class: holding.class, sequence });
        let mut layouts: Vec<Layout> = Vec::new();
        let mut rules = Vec::new();
        for pool in &class.model.copies {
            rules.push((*pool, holding.fill.0, Rule::all(holding)));
        }
        if let (Some(pool), true) = (class.model.copies.first(), holding.duplicates_per_mille > 0) {
            rules.push((*pool, u64::MAX, Rule::duplicates(holding, key)));
        }
        for (pool, fill, rule) in rules {
            let Some(tape_pool) = site.tape_pools.get(usize::from(pool)) else { continue };
            let library = tape_pool.library;
            let Some(model) = site.libraries.get(usize::from(library.0)) else { continue };
            let capacity = model.tape.capacity.0;
            let fill = if fill == 0 { capacity } else { fill.min(capacity) };
            let new = Tape { library, tape_pool: Some(pool), used: 0, files: 0, is_lost: false };
            match layouts.last_mut().filter(|alike| alike.fill() == fill && !rule.is_of_some()) {
                Some(alike) => alike.copy(&mut self.tapes, &new),
                None => layouts.push(Layout::new(files.clone(), rule, fill, &mut self.tapes, &new, &size)),
            }
        }
        let run_files = u64::from(holding.run_files.max(1));
        class.groups.push(Group { files, run_files, layouts });
    }
}

impl Class {
    /// Of the files laid out: those of the pack of one of them.
    fn laid_out_with(&self, sequence: u64) -> Range<u64> {
        let at = self.groups.partition_point(|group| group.files.end <= sequence);
        let Some(group) = self.groups.get(at) else { return sequence..sequence + 1 };
        let inside = sequence - group.files.start;
        let run = inside - inside % group.run_files;
        let pack = run + (inside - run) / self.pack_files * self.pack_files;
        let end = (pack + self.pack_files).min(run + group.run_files) + group.files.start;
        pack + group.files.start..end.min(group.files.end)
    }

    fn new(model: &ClassModel) -> Class {
        let pack_files = (model.pack.0 as f64 / model.sizes.mean().max(1.0)) as u64;
        Class {
            model: model.clone(),
            pack_files: pack_files.max(1),
            files: 0,
            groups: Vec::new(),
            records: Records::default(),
            packs: BTreeMap::new(),
        }
    }
}
