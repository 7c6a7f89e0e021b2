//! Files that were put become containers: which, is the server's own rule.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

use base::{ByteCount, ClassId, FileId};
use scheduler::{Backlog, Event};
use session::{self, PackLimit, PackSize, Sealing, Waiting};

use super::World;
use super::wants::Bits;
use crate::holdings::TapeIndex;
use crate::moment::Moment;
use scenario::model::{ClassIndex, ClassModel, FileNumber};

/// Waiting files that are looked at together.
const TODO_PAGE: usize = 4_096;

/// Files that were sealed together, or one large one.
#[derive(Clone, Default, Debug)]
pub(super) struct Container {
    pub(super) class: u16,
    /// Numbers of its files, in the order in which they stand in it: those that follow each other as one.
    pub(super) runs: Vec<Range<u64>>,
    is_pack: bool,
    pub(super) bytes: u64,
    pub(super) files: u64,
    pub(super) sealed: Moment,
    pub(super) put_first: Moment,
    pub(super) put_last: Moment,
    /// For each copy of its class: the tape on which it is under an index.
    pub(super) on: [Option<TapeIndex>; 4],
}

/// The files of a class that are in no container yet.
#[derive(Default)]
pub(super) struct Todo {
    /// Wholly in the pool, by data set and number, and when each was there.
    waiting: BTreeMap<(u64, u64), Moment>,
    bytes: u64,
    since: Option<Moment>,
    /// Bytes that the scheduler knows of.
    told: u64,
    is_sealing: bool,
    /// Bits of copies that were written, for each copy of the class.
    pub(super) written: Vec<Bits>,
    pub(super) safe: Bits,
    /// Its files from here on were put in this run.
    pub(super) begin: u64,
}

impl Todo {
    /// Nothing was put yet; the next file has this number.
    pub(super) fn new(begin: u64, copies: usize) -> Self {
        Todo { begin, written: vec![Bits::default(); copies], ..Todo::default() }
    }

    /// Whether no file waits to be sealed.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_sealing(&self) -> bool {
        self.is_sealing
    }

    /// The server that sealed is gone.
    pub(super) fn stop_sealing(&mut self) {
        self.is_sealing = false;
    }

    /// Whether the scheduler is to be told that more waits: a seal is due with a pack's worth, and again with
    /// half a one more than what a seal left.
    fn is_news(&self, pack: u64) -> bool {
        let more = if self.told < pack { pack } else { self.told.saturating_add((pack / 2).max(1)) };
        !self.is_sealing && self.bytes >= more
    }
}

/// The waiting files of a class while they are sealed.
struct ClassFiles<'a> {
    class: ClassIndex,
    model: &'a ClassModel,
    now: Moment,
    todo: &'a mut Todo,
    sealed: Vec<Container>,
}

impl ClassFiles<'_> {
    /// Takes these files out; they are a container now.
    fn take(&mut self, files: impl Iterator<Item = FileId>, is_pack: bool) {
        let mut container = Container {
            class: self.class.0,
            is_pack,
            sealed: self.now,
            put_first: Moment(u64::MAX),
            ..Container::default()
        };
        for file in files.map(FileNumber::of) {
            let sequence = file.sequence;
            let put = self.todo.waiting.remove(&(self.model.data_set(sequence), sequence));
            let put = put.expect("a file that is sealed has waited");
            match container.runs.last_mut() {
                Some(run) if run.end == sequence => run.end += 1,
                _ => container.runs.push(sequence..sequence + 1),
            }
            container.bytes += self.model.sizes.size(file);
            container.files += 1;
            container.put_first = container.put_first.min(put);
            container.put_last = container.put_last.max(put);
        }
        self.todo.bytes -= container.bytes;
        self.sealed.push(container);
    }
}

impl Sealing for ClassFiles<'_> {
    type Error = Infallible;

    fn waiting(&mut self, after: Option<(u64, FileId)>) -> Result<Vec<Waiting>, Infallible> {
        let behind = after.map_or((0, 0), |(data_set, file)| (data_set, FileNumber::of(file).sequence + 1));
        let next = self.todo.waiting.range(behind..).take(TODO_PAGE).map(|((data_set, sequence), _)| {
            let file = FileNumber { class: self.class, sequence: *sequence };
            Waiting { data_set: *data_set, file: file.id(), size: self.model.sizes.size(file) }
        });
        Ok(next.collect())
    }

    /// Data sets are neighbours in the order of their numbers: no tree is modelled.
    fn place(&mut self, _: FileId) -> Result<String, Infallible> {
        Ok(String::new())
    }

    fn seal_files(&mut self, files: &[FileId]) -> Result<(), Infallible> {
        files.iter().for_each(|file| self.take(std::iter::once(*file), false));
        Ok(())
    }

    fn seal_pack(&mut self, files: &[Waiting]) -> Result<(), Infallible> {
        self.take(files.iter().map(|waiting| waiting.file), true);
        Ok(())
    }
}

impl Container {
    pub(super) fn is_pack(&self) -> bool {
        self.is_pack
    }

    /// The number of its first file.
    pub(super) fn first(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.start)
    }

    /// The numbers of its files.
    pub(super) fn members(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().cloned().flatten()
    }
}

impl World<'_> {
    /// A client has written a file.
    pub(super) fn file_put(&mut self, file: FileNumber) {
        let class = usize::from(file.class.0);
        let model = &self.model.site.classes[class];
        let copies = model.copies.len() as u64;
        if copies == 0 {
            return;
        }
        let bytes = self.holdings.size(file);
        let todo = &mut self.migration.todo[class];
        let old = todo.waiting.insert((model.data_set(file.sequence), file.sequence), self.now);
        assert!(old.is_none(), "a file is put once");
        todo.bytes += bytes;
        let was_empty = todo.since.is_none();
        todo.since.get_or_insert(self.now);
        let tells = was_empty || todo.is_news(model.pack.0);
        self.migration.backlog += bytes * copies;
        if self.removed_late(file) {
            return;
        }
        if tells {
            self.tell_todo(class);
        }
    }

    /// A file that was removed waits to be sealed no more; `false`: it did not wait.
    pub(super) fn drop_unsealed(&mut self, file: FileNumber) -> bool {
        let class = usize::from(file.class.0);
        let model = &self.model.site.classes[class];
        let todo = &mut self.migration.todo[class];
        if todo.waiting.remove(&(model.data_set(file.sequence), file.sequence)).is_none() {
            return false;
        }
        let bytes = self.holdings.size(file);
        todo.bytes -= bytes;
        todo.since = todo.since.filter(|_| !todo.waiting.is_empty());
        self.migration.backlog -= bytes * model.copies.len() as u64;
        self.is_level_new = true;
        self.cache.drop_file(file);
        self.meter.pool_of(self.now, file.class, self.cache.used_of(file.class));
        self.tell_todo(class);
        true
    }

    pub(super) fn tell_todo(&mut self, class: usize) {
        let todo = &mut self.migration.todo[class];
        todo.told = todo.bytes;
        let oldest = todo.since.map(Moment::timestamp);
        let items = todo.waiting.len() as u64;
        let backlog = Backlog { items, bytes: ByteCount(todo.bytes), oldest };
        self.tell(Event::Todo(ClassId(class as u16 + 1), backlog));
    }

    /// A `Seal` was ordered.
    pub(super) fn begin_seal(&mut self, class: ClassId, partial: bool) {
        let class = class.0.saturating_sub(1);
        if let Some(todo) = self.migration.todo.get_mut(usize::from(class)) {
            todo.is_sealing = true;
            let at = self.now.plus(super::SEAL_TIME);
            self.agenda.enter(at, super::agenda::What::Seal { class, partial });
        }
    }

    /// Files that wait become containers.
    pub(super) fn seal(&mut self, class: u16, partial: bool) {
        let model = &self.model.site.classes[usize::from(class)];
        let largest = ByteCount(self.model.site.largest_on_tape(model));
        let size = PackSize::of(model.pack, PackLimit { largest, ..PackLimit::NONE });
        let todo = &mut self.migration.todo[usize::from(class)];
        todo.is_sealing = false;
        let mut files =
            ClassFiles { class: ClassIndex(class), model, now: self.now, todo, sealed: Vec::new() };
        let Ok(()) = session::seal(&mut files, size, model.large, partial);
        let sealed = files.sealed;
        let todo = &mut self.migration.todo[usize::from(class)];
        if partial {
            let began = Moment(self.now.0.saturating_sub(super::SEAL_TIME.as_micros() as u64)).timestamp();
            self.haste.seal_ended(ClassId(class + 1), began, todo.waiting.is_empty());
        }
        if partial || todo.waiting.is_empty() {
            todo.since = Some(self.now).filter(|_| !todo.waiting.is_empty());
        }
        for container in sealed {
            let bytes = container.bytes;
            let at = self.migration.keep(container);
            for pool in &model.copies {
                self.migration.queues[usize::from(*pool)].push_back(at);
                self.migration.queued[usize::from(*pool)] += bytes;
            }
        }
        self.tell_todo(usize::from(class));
        for pool in &model.copies {
            self.tell_queued(usize::from(*pool));
        }
        self.tell(Event::SealEnded(ClassId(class + 1)));
    }

    pub(super) fn files_of(&self, container: u32) -> u64 {
        self.migration.containers[container as usize].files
    }

    pub(super) fn bytes_of(&self, class: u16, run: Range<u64>) -> u64 {
        let sizes = &self.model.site.classes[usize::from(class)].sizes;
        run.map(|sequence| sizes.size(FileNumber { class: ClassIndex(class), sequence })).sum()
    }
}
