//! Files that were put become containers, and containers are written to tapes: sealing, queues, writing
//! sessions.

use std::collections::{BTreeSet, VecDeque};

use base::{ByteCount, ClassId, Partition, TapePoolId};
use mechanics::TapeByte;
use scheduler::{Backlog, Event, SessionEnd};

use super::World;
use super::drives::Phase;
use super::planted::Planted;
use super::recall::SLICE;
use super::trace::MountKind;
use super::wants::Bits;
use crate::disks::Stream;
use crate::holdings::{Holdings, Place, TapeIndex};
use crate::model::{ClassIndex, FaultKind, FileNumber, Site};
use crate::moment::Moment;
use crate::outcome::DriveActivity;

/// Most members of a pack.
const PACK_MEMBERS_MAX: u64 = 20_000;
/// Bytes that are handed over at once where the way is slower than the drive.
const PIECE: u64 = 256 << 20;

/// Files that were sealed together: the class's files of a range that are small, or one large one.
#[derive(Clone, Default, Debug)]
pub(super) struct Container {
    pub(super) class: u16,
    first: u64,
    end: u64,
    is_pack: bool,
    pub(super) bytes: u64,
    files: u64,
    sealed: Moment,
    put_first: Moment,
    put_last: Moment,
    /// For each copy of its class: the tape on which it is under an index.
    on: [Option<TapeIndex>; 4],
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
    fn items(&self) -> u64 {
        self.put.len() as u64 + self.pack.files
    }

    fn bytes(&self) -> u64 {
        self.fresh_bytes + self.pack.bytes
    }

    pub(super) fn is_sealing(&self) -> bool {
        self.is_sealing
    }

    /// The server that sealed is gone.
    pub(super) fn stop_sealing(&mut self) {
        self.is_sealing = false;
    }
}

/// Everything that waits to be written.
pub(super) struct Migration {
    pub(super) todo: Vec<Todo>,
    pub(super) containers: Vec<Container>,
    free: Vec<u32>,
    /// By tape pool.
    pub(super) queues: Vec<VecDeque<u32>>,
    pub(super) queued: Vec<u64>,
    /// Bytes of copies that are not under an index.
    pub(super) backlog: u64,
    /// Copies that were lost with their tapes when they were not the only ones.
    pub(super) lost: u64,
}

impl Migration {
    pub(super) fn new(site: &Site, holdings: &Holdings) -> Self {
        let todo = |(at, class): (usize, &crate::model::ClassModel)| {
            let begin = holdings.files(ClassIndex(at as u16));
            let written = vec![Bits::default(); class.copies.len()];
            Todo { scanned: begin, complete: begin, begin, written, ..Todo::default() }
        };
        Migration {
            todo: site.classes.iter().enumerate().map(todo).collect(),
            containers: Vec::new(),
            free: Vec::new(),
            queues: vec![VecDeque::new(); site.tape_pools.len()],
            queued: vec![0; site.tape_pools.len()],
            backlog: 0,
            lost: 0,
        }
    }

    /// Nothing waits to be written.
    pub(super) fn is_drained(&self) -> bool {
        self.backlog == 0
    }

    fn keep(&mut self, container: Container) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.containers[at as usize] = container;
                at
            }
            None => {
                self.containers.push(container);
                self.containers.len() as u32 - 1
            }
        }
    }
}

/// How a session ends once what it does now is done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Ending {
    #[default]
    No,
    Drained,
    TapeFull,
}

/// What a drive's writing session knows.
#[derive(Default)]
pub(super) struct Writing {
    pool: u16,
    /// Written and not flushed, and where each begins.
    batch: Vec<(u32, u64)>,
    /// The container that is being written, where it begins, and how much of it is written.
    current: Option<(u32, u64, u64)>,
    since_flush: u64,
    flushed_at: Moment,
    since_index: u64,
    /// What the step that now ends has done.
    is_flushed: bool,
    pub(super) is_indexed: bool,
    ending: Ending,
    wanted: u64,
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

    pub(super) fn tell_queued(&mut self, pool: usize) {
        let queue = &self.migration.queues[pool];
        let oldest = queue.front().map(|at| self.migration.containers[*at as usize].sealed.timestamp());
        let items = queue.len() as u64;
        let backlog = Backlog { items, bytes: ByteCount(self.migration.queued[pool]), oldest };
        self.tell(Event::Queued(TapePoolId(pool as u16 + 1), backlog));
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
        let site = &self.model.site;
        let model = &site.classes[usize::from(class)];
        let mut sealed = Vec::new();
        let todo = &mut self.migration.todo[usize::from(class)];
        while todo.scanned < todo.complete {
            let sequence = todo.scanned;
            todo.scanned += 1;
            if todo.skipped.remove(&sequence) {
                continue;
            }
            let Some(put) = todo.put.pop_front() else { break };
            let bytes = model.sizes.size(FileNumber { class: ClassIndex(class), sequence });
            todo.fresh_bytes -= bytes;
            let file = Container {
                class,
                first: sequence,
                end: sequence + 1,
                bytes,
                files: 1,
                put_first: put,
                put_last: put,
                sealed: self.now,
                ..Container::default()
            };
            if bytes >= model.large.0 {
                sealed.push(file);
                continue;
            }
            let pack = &mut todo.pack;
            if pack.files > 0 && (pack.bytes + bytes > model.pack.0 || pack.files >= PACK_MEMBERS_MAX) {
                sealed.push(Container { sealed: self.now, ..std::mem::take(pack) });
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
        if (partial && todo.pack.files > 0) || todo.pack.bytes >= model.pack.0.max(1) {
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

    pub(super) fn migrate(&mut self, drive: usize, tape_pool: TapePoolId) {
        let Some(tape) = self.drives[drive].tape else { return };
        self.drives[drive].phase = Phase::Migrating;
        self.trace_session(drive, MountKind::Migrate);
        self.drives[drive].session_since = self.now;
        let pool = tape_pool.0.saturating_sub(1);
        self.checked("own tapes");
        if self.holdings.tapes()[tape.0 as usize].tape_pool != Some(pool) {
            return self.violated(format!("tape {} is written for pool {tape_pool}", Holdings::vid(tape)));
        }
        let wanted = self.drives[drive].native_rate().min(self.model.site.path.stream.max(1));
        self.feed.begin(Stream::TapeWrite, wanted);
        let writing = &mut self.drives[drive].writing;
        (writing.pool, writing.wanted, writing.current) = (pool, wanted, None);
        (writing.since_flush, writing.ending, writing.flushed_at) = (0, Ending::No, self.now);
        (writing.is_flushed, writing.is_indexed) = (false, false);
        writing.batch.clear();
        if !self.tapes[tape.0 as usize].is_changed {
            writing.since_index = 0;
        }
        let end = TapeByte { partition: Partition::Data, byte: self.holdings.tapes()[tape.0 as usize].used };
        let at = self.drives[drive].locate(self.now, end);
        self.write_on(drive, tape, at);
    }

    /// What was to happen up to now has.
    pub(super) fn migrate_on(&mut self, drive: usize) {
        let Some(tape) = self.drives[drive].tape else { return };
        let writing = &mut self.drives[drive].writing;
        let (flushed, indexed) =
            (std::mem::take(&mut writing.is_flushed), std::mem::take(&mut writing.is_indexed));
        if flushed {
            let batch = std::mem::take(&mut self.drives[drive].writing.batch);
            for (container, _) in &batch {
                self.trace_written(self.migration.containers[*container as usize].bytes);
            }
            self.tapes[tape.0 as usize].flushed.extend(&batch);
            let pool = usize::from(self.drives[drive].writing.pool);
            self.tell_queued(pool);
        }
        if indexed {
            self.indexed(tape);
        }
        match std::mem::take(&mut self.drives[drive].writing.ending) {
            Ending::No => self.write_on(drive, tape, self.now),
            Ending::Drained => self.end_migration(drive, SessionEnd::Drained),
            Ending::TapeFull => {
                self.tapes[tape.0 as usize].is_full = true;
                self.tell_tape(tape);
                self.end_migration(drive, SessionEnd::TapeFull);
            }
        }
    }

    /// Writes until a flush is due, the queue is empty or the tape full; the drive's next event is behind it.
    fn write_on(&mut self, drive: usize, tape: TapeIndex, mut at: Moment) {
        if self.write_fails(drive, tape) {
            return;
        }
        let work = &self.model.site.work;
        let (flush_bytes, flush_age) = (work.flush_bytes.0.max(1), work.flush_age);
        let capacity = self.model.site.libraries[self.drives[drive].library].tape.capacity.0;
        let file_wait = self.model.site.path.write_file;
        let rate = self.feed.rate(Stream::TapeWrite, self.drives[drive].writing.wanted);
        let from = at;
        let (mut bytes_written, mut files_written) = (0, 0);
        let mut left = SLICE;
        let mut flushes = false;
        while left > 0 && !flushes {
            let used = self.holdings.tapes()[tape.0 as usize].used;
            let Some((container, begin, offset)) = self.drives[drive].writing.current.take() else {
                match self.next_container(drive, tape, used, capacity) {
                    Ok(container) => {
                        self.drives[drive].writing.current = Some((container, used, 0));
                        if !file_wait.is_zero() {
                            self.trail(drive, at, DriveActivity::Wait);
                            at = at.plus(file_wait);
                        }
                        continue;
                    }
                    Err(ending) => {
                        self.drives[drive].writing.ending = ending;
                        flushes = true;
                        break;
                    }
                }
            };
            let whole = self.migration.containers[container as usize].bytes;
            let bytes = (whole - offset).min(left);
            at = self.write_bytes(drive, at, bytes, rate);
            self.holdings.tape_mut(tape).used += bytes;
            self.tapes[tape.0 as usize].is_changed = true;
            bytes_written += bytes;
            left -= bytes;
            let writing = &mut self.drives[drive].writing;
            if offset + bytes < whole {
                writing.current = Some((container, begin, offset + bytes));
                continue;
            }
            writing.batch.push((container, begin));
            writing.since_flush += whole;
            writing.since_index += whole;
            files_written += self.migration.containers[container as usize].files;
            if work.flush_each_file {
                at = self.flush(drive, at);
            }
            let writing = &self.drives[drive].writing;
            flushes = writing.since_flush >= flush_bytes || at.since(writing.flushed_at) >= flush_age;
        }
        if flushes {
            at = self.flush(drive, at);
            let writing = &mut self.drives[drive].writing;
            (writing.since_flush, writing.is_flushed) = (0, !writing.batch.is_empty());
            writing.flushed_at = at;
            if writing.since_index >= work.index_bytes.0.max(1) {
                writing.since_index = 0;
                writing.is_indexed = true;
                at = self.write_index(drive, at, false);
            }
        }
        self.feed.moved(Stream::TapeWrite, bytes_written);
        self.meter.tape_written(from, at, drive, bytes_written, files_written);
        self.drive_at(drive, at);
    }

    fn next_container(
        &mut self,
        drive: usize,
        tape: TapeIndex,
        used: u64,
        capacity: u64,
    ) -> Result<u32, Ending> {
        let pool = usize::from(self.drives[drive].writing.pool);
        let Some(&next) = self.migration.queues[pool].front() else { return Err(Ending::Drained) };
        let bytes = self.migration.containers[next as usize].bytes;
        if used + bytes > capacity {
            return Err(Ending::TapeFull);
        }
        if used > 0 && self.pending.take(FaultKind::EarlyEnd) {
            self.meter.fault(FaultKind::EarlyEnd);
            self.tapes[tape.0 as usize].is_full = true;
            return Err(Ending::TapeFull);
        }
        self.migration.queues[pool].pop_front();
        self.migration.queued[pool] -= bytes;
        Ok(next)
    }

    fn write_bytes(&mut self, drive: usize, from: Moment, bytes: u64, rate: u64) -> Moment {
        let it = &mut self.drives[drive];
        let mut at = from;
        let mut left = bytes;
        let slower = rate < it.native_rate();
        while left > 0 {
            let piece = if slower { left.min(PIECE) } else { left };
            let wrote = it.motion.write(at.0 - it.stood, piece) + it.stood;
            let given = if slower { (u128::from(piece) * 1_000_000 / u128::from(rate)) as u64 } else { 0 };
            at = Moment(wrote.max(at.0 + given));
            left -= piece;
        }
        it.note_transfer(from, at, bytes, DriveActivity::Write);
        at
    }

    fn flush(&mut self, drive: usize, at: Moment) -> Moment {
        let it = &mut self.drives[drive];
        let done = Moment(it.motion.flush(at.0 - it.stood) + it.stood).max(at);
        if done > at {
            it.trail.push((at, DriveActivity::Write));
        }
        done
    }

    /// A write error, if one is to come: the tape is read-only from now on, what is under no index goes back
    /// to its queue.
    fn write_fails(&mut self, drive: usize, tape: TapeIndex) -> bool {
        let writes = self.drives[drive].writing.current.is_some()
            || !self.migration.queues[usize::from(self.drives[drive].writing.pool)].is_empty();
        if !writes || !self.pending.take(FaultKind::WriteError) {
            return false;
        }
        self.meter.fault(FaultKind::WriteError);
        self.drives[drive].trail.clear();
        self.tapes[tape.0 as usize].is_read_only = true;
        let flushed = std::mem::take(&mut self.tapes[tape.0 as usize].flushed);
        self.tapes[tape.0 as usize].is_changed = false;
        self.requeue(flushed.iter().map(|(container, _)| *container), self.drives[drive].writing.pool);
        self.tell_tape(tape);
        self.end_migration(drive, SessionEnd::Failed("a write failed".to_owned()));
        true
    }

    fn end_migration(&mut self, drive: usize, end: SessionEnd) {
        self.close_migration(drive);
        let pool = usize::from(self.drives[drive].writing.pool);
        self.idle(drive);
        self.tell_queued(pool);
        let name = self.drives[drive].name.clone();
        self.tell(Event::MigrationEnded(name, end));
    }

    /// The session is over, however it ended: what was not flushed goes back to its queue.
    pub(super) fn close_migration(&mut self, drive: usize) {
        let writing = &mut self.drives[drive].writing;
        self.feed.end(Stream::TapeWrite, writing.wanted);
        let batch = std::mem::take(&mut writing.batch);
        let current = writing.current.take().map(|(container, ..)| container);
        (writing.is_flushed, writing.is_indexed, writing.ending) = (false, false, Ending::No);
        let pool = writing.pool;
        let again: Vec<u32> = batch.iter().map(|(container, _)| *container).chain(current).collect();
        self.requeue(again.into_iter(), pool);
        self.session_max = self.session_max.max(self.now.since(self.drives[drive].session_since));
    }

    /// A session is broken off because its tape is lost.
    pub(super) fn fail_migration(&mut self, drive: usize, why: &str) {
        self.drives[drive].trail.clear();
        self.end_migration(drive, SessionEnd::Failed(why.to_owned()));
    }

    /// Containers go back to the front of their queue, in their order.
    fn requeue(&mut self, containers: impl DoubleEndedIterator<Item = u32>, pool: u16) {
        for container in containers.rev() {
            self.migration.queues[usize::from(pool)].push_front(container);
            self.migration.queued[usize::from(pool)] += self.migration.containers[container as usize].bytes;
        }
    }

    /// An index names everything on the tape: what was flushed counts as a copy from now on.
    pub(super) fn indexed(&mut self, tape: TapeIndex) {
        let mut flushed = std::mem::take(&mut self.tapes[tape.0 as usize].flushed);
        self.tapes[tape.0 as usize].is_changed = false;
        let Some(pool) = self.holdings.tapes()[tape.0 as usize].tape_pool else { return };
        for (container, byte) in flushed.drain(..) {
            self.copied(container, tape, pool, byte);
        }
        self.tapes[tape.0 as usize].flushed = flushed;
    }

    fn copied(&mut self, at: u32, tape: TapeIndex, pool: u16, byte: u64) {
        let container = self.migration.containers[at as usize].clone();
        let class = usize::from(container.class);
        let model = &self.model.site.classes[class];
        let Some(slot) = model.copies.iter().position(|of| *of == pool) else {
            return self.violated(format!("a container of class {} is on a tape of pool {pool}", model.name));
        };
        self.checked("one copy a pool");
        self.holdings.tape_mut(tape).files += container.files;
        self.migration.backlog -= container.bytes;
        let mut place = Place { tape, byte, order: 0 };
        let mut run = container.first..container.first;
        for sequence in self.members(&container) {
            if !self.migration.todo[class].written[slot].set(sequence) {
                return self.violated(format!(
                    "file {sequence} of class {} was written to pool {pool} twice",
                    model.name
                ));
            }
            if run.end != sequence && !run.is_empty() {
                self.holdings.record(ClassIndex(container.class), run.clone(), place);
                place.byte += self.bytes_of(container.class, run.clone());
            }
            run = if run.end == sequence && !run.is_empty() {
                run.start..sequence + 1
            } else {
                sequence..sequence + 1
            };
        }
        self.holdings.record(ClassIndex(container.class), run, place);
        if self.is_planted(Planted::WriteTwice, class) {
            self.migration.queues[usize::from(pool)].push_back(at);
            self.migration.queued[usize::from(pool)] += container.bytes;
            self.migration.backlog += container.bytes;
        }
        self.migration.containers[at as usize].on[slot] = Some(tape);
        let on = self.migration.containers[at as usize].on;
        if on[..model.copies.len()].iter().all(Option::is_some) {
            self.made_safe(&container);
            if self.planted != Some(Planted::WriteTwice) {
                self.migration.free.push(at);
                self.migration.containers[at as usize].files = 0;
            }
        }
    }

    /// The numbers of the files of a container.
    fn members(&self, container: &Container) -> Vec<u64> {
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

    fn bytes_of(&self, class: u16, run: std::ops::Range<u64>) -> u64 {
        let sizes = &self.model.site.classes[usize::from(class)].sizes;
        run.map(|sequence| sizes.size(FileNumber { class: ClassIndex(class), sequence })).sum()
    }

    /// All files of a container have all their copies.
    fn made_safe(&mut self, container: &Container) {
        let class = ClassIndex(container.class);
        let members = self.members(container);
        let count = members.len() as u64;
        let spread = container.put_last.0 - container.put_first.0;
        for (at, sequence) in (0..).zip(members) {
            let file = FileNumber { class, sequence };
            self.migration.todo[usize::from(class.0)].safe.set(sequence);
            self.cache.made_safe(file);
            let put = Moment(container.put_first.0 + (u128::from(spread) * at / u128::from(count)) as u64);
            self.meter.migrated(class, self.now.since(put));
        }
        self.evict();
    }

    /// A tape is lost: copies of files that have not all theirs are written again.
    pub(super) fn lose_copies(&mut self, tape: TapeIndex) {
        let flushed = std::mem::take(&mut self.tapes[tape.0 as usize].flushed);
        self.tapes[tape.0 as usize].is_changed = false;
        let Some(pool) = self.holdings.tapes()[tape.0 as usize].tape_pool else { return };
        self.requeue(flushed.iter().map(|(container, _)| *container), pool);
        self.migration.lost += self.holdings.tapes()[tape.0 as usize].files;
        for at in 0..self.migration.containers.len() {
            let container = &mut self.migration.containers[at];
            let Some(slot) = container.on.iter().position(|on| *on == Some(tape)) else { continue };
            if container.files == 0 {
                continue;
            }
            container.on[slot] = None;
            let container = container.clone();
            for sequence in self.members(&container) {
                self.migration.todo[usize::from(container.class)].written[slot].clear(sequence);
            }
            self.migration.backlog += container.bytes;
            self.requeue(std::iter::once(at as u32), pool);
        }
        self.tell_queued(usize::from(pool));
    }
}
