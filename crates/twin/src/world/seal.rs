//! Files that were put become containers.

use std::collections::{BTreeSet, VecDeque};

use base::{ByteCount, ClassId};
use scheduler::{Backlog, Event};

use super::World;
use super::wants::Bits;
use crate::holdings::TapeIndex;
use crate::model::{ClassIndex, ClassModel, FileNumber};
use crate::moment::Moment;

/// Most members of a pack.
const PACK_MEMBERS_MAX: u64 = 20_000;

/// Files that were sealed together: the class's files of a range that are small, or one large one.
#[derive(Clone, Default, Debug)]
pub(super) struct Container {
    pub(super) class: u16,
    pub(super) first: u64,
    end: u64,
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
    /// Files below were looked at.
    scanned: u64,
    /// Files below are wholly in the pool.
    complete: u64,
    /// When each file between was there.
    put: VecDeque<Moment>,
    fresh_bytes: u64,
    /// The pack that is being filled.
    pack: Container,
    since: Option<Moment>,
    is_sealing: bool,
    /// Numbers of files that were never taken in.
    skipped: BTreeSet<u64>,
    /// Bits of copies that were written, for each copy of the class.
    pub(super) written: Vec<Bits>,
    pub(super) safe: Bits,
    /// Its files from here on were put in this run.
    pub(super) begin: u64,
}

impl Todo {
    /// Nothing was put yet; the next file has this number.
    pub(super) fn new(begin: u64, copies: usize) -> Self {
        let written = vec![Bits::default(); copies];
        Todo { scanned: begin, complete: begin, begin, written, ..Todo::default() }
    }

    fn items(&self) -> u64 {
        self.put.len() as u64 + self.pack.files
    }

    fn bytes(&self) -> u64 {
        self.fresh_bytes + self.pack.bytes
    }

    /// Takes in every file that is wholly in the pool: large ones and packs that are full are sealed.
    /// `pack_most`: bytes of a pack.
    fn gather(
        &mut self,
        now: Moment,
        class: u16,
        model: &ClassModel,
        pack_most: u64,
        sealed: &mut Vec<Container>,
    ) {
        while self.scanned < self.complete {
            let sequence = self.scanned;
            self.scanned += 1;
            if self.skipped.remove(&sequence) {
                continue;
            }
            let Some(put) = self.put.pop_front() else { break };
            let bytes = model.sizes.size(FileNumber { class: ClassIndex(class), sequence });
            self.fresh_bytes -= bytes;
            let file = Container {
                class,
                first: sequence,
                end: sequence + 1,
                bytes,
                files: 1,
                put_first: put,
                put_last: put,
                sealed: now,
                ..Container::default()
            };
            if bytes >= model.large.0 {
                sealed.push(file);
                continue;
            }
            let pack = &mut self.pack;
            if pack.files > 0 && (pack.bytes + bytes > pack_most || pack.files >= PACK_MEMBERS_MAX) {
                sealed.push(Container { sealed: now, ..std::mem::take(pack) });
            }
            if pack.files == 0 {
                *pack = Container { is_pack: true, ..file };
            } else {
                pack.end = sequence + 1;
                pack.bytes += bytes;
                pack.files += 1;
                pack.put_last = put;
            }
        }
    }

    pub(super) fn is_sealing(&self) -> bool {
        self.is_sealing
    }

    /// The server that sealed is gone.
    pub(super) fn stop_sealing(&mut self) {
        self.is_sealing = false;
    }
}

impl World<'_> {
    /// A client has written a file; those of its class before it are there.
    pub(super) fn file_put(&mut self, file: FileNumber) {
        let class = usize::from(file.class.0);
        let copies = self.model.site.classes[class].copies.len() as u64;
        if copies == 0 {
            return;
        }
        let bytes = self.holdings.size(file);
        let todo = &mut self.migration.todo[class];
        while todo.complete < file.sequence {
            assert!(todo.skipped.contains(&todo.complete), "files of a class are put in order");
            todo.complete += 1;
        }
        todo.complete += 1;
        todo.put.push_back(self.now);
        todo.fresh_bytes += bytes;
        let was_empty = todo.since.is_none();
        todo.since.get_or_insert(self.now);
        let full = todo.bytes() >= self.model.site.classes[class].pack.0;
        let tells = was_empty || (full && !todo.is_sealing);
        self.migration.backlog += bytes * copies;
        if tells {
            self.tell_todo(class);
        }
    }

    /// A file was never taken in: its number is passed over.
    pub(super) fn file_skipped(&mut self, file: FileNumber) {
        self.migration.todo[usize::from(file.class.0)].skipped.insert(file.sequence);
    }

    pub(super) fn tell_todo(&mut self, class: usize) {
        let todo = &self.migration.todo[class];
        let oldest = todo.since.map(Moment::timestamp);
        let backlog = Backlog { items: todo.items(), bytes: ByteCount(todo.bytes()), oldest };
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

    /// Files that wait become containers: large ones at once, packs when they are full, and with `partial`
    /// also the last one.
    pub(super) fn seal(&mut self, class: u16, partial: bool) {
        let model = &self.model.site.classes[usize::from(class)];
        let pack_most = model.pack.0.min(self.model.site.largest_on_tape(model));
        let todo = &mut self.migration.todo[usize::from(class)];
        let mut sealed = Vec::new();
        todo.gather(self.now, class, model, pack_most, &mut sealed);
        if (partial && todo.pack.files > 0) || todo.pack.bytes >= pack_most.max(1) {
            sealed.push(Container { sealed: self.now, ..std::mem::take(&mut todo.pack) });
        }
        todo.is_sealing = false;
        if partial || todo.items() == 0 {
            todo.since = Some(self.now).filter(|_| todo.items() > 0);
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

    /// The numbers of the files of a container.
    pub(super) fn members(&self, container: &Container) -> Vec<u64> {
        if !container.is_pack {
            return vec![container.first];
        }
        let model = &self.model.site.classes[usize::from(container.class)];
        let class = ClassIndex(container.class);
        let all = container.first..container.end;
        let is_all = container.end - container.first == container.files;
        all.filter(|sequence| {
            is_all || model.sizes.size(FileNumber { class, sequence: *sequence }) < model.large.0
        })
        .collect()
    }

    pub(super) fn bytes_of(&self, class: u16, run: std::ops::Range<u64>) -> u64 {
        let sizes = &self.model.site.classes[usize::from(class)].sizes;
        run.map(|sequence| sizes.size(FileNumber { class: ClassIndex(class), sequence })).sum()
    }
}
