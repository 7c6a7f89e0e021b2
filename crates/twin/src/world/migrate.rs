//! Containers are written to tapes: queues, writing sessions, and what is a copy then.

use std::collections::VecDeque;

use base::{ByteCount, Partition, TapePoolId};
use mechanics::TapeByte;
use scheduler::session::WriteBatch;
use scheduler::{Backlog, Event, SessionEnd};

use super::World;
use super::drives::Phase;
use super::invariants::Check;
use super::planted::Planted;
use super::recall::SLICE;
use super::seal::{Container, Todo};
use super::span::Part;
use super::supply::Supply;
use super::trace::MountKind;
use crate::disks::Stream;
use crate::holdings::{Holdings, Place, TapeIndex};
use crate::model::{ClassIndex, FaultKind, FileNumber, LABEL_GROUP_BYTES, Labels, Marks, Site};
use crate::moment::Moment;
use crate::outcome::DriveActivity;

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
    /// By tape pool.
    pub(super) supply: Vec<Supply>,
    /// Copies that were lost with their tapes when they were not the only ones.
    pub(super) lost: u64,
}

impl Migration {
    pub(super) fn new(site: &Site, holdings: &Holdings) -> Self {
        let todo = |(at, class): (usize, &crate::model::ClassModel)| {
            Todo::new(holdings.files(ClassIndex(at as u16)), class.copies.len())
        };
        Migration {
            todo: site.classes.iter().enumerate().map(todo).collect(),
            containers: Vec::new(),
            free: Vec::new(),
            queues: vec![VecDeque::new(); site.tape_pools.len()],
            queued: vec![0; site.tape_pools.len()],
            backlog: 0,
            supply: vec![Supply::default(); site.tape_pools.len()],
            lost: 0,
        }
    }

    /// Nothing waits to be written.
    pub(super) fn is_drained(&self) -> bool {
        self.backlog == 0
    }

    pub(super) fn keep(&mut self, container: Container) -> u32 {
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

/// What is written between two events of a drive.
struct Stretch {
    at: Moment,
    /// Bytes until what the stream gets is looked at anew.
    left: u64,
    bytes: u64,
    files: u64,
}

/// What a drive's writing session knows.
#[derive(Default)]
pub(super) struct Writing {
    pool: u16,
    /// Written and not flushed, and where each begins.
    batch: Vec<(u32, u64)>,
    /// The container that is being written, where it begins, and how much of it is written.
    current: Option<(u32, u64, u64)>,
    /// Up to which of its bytes this tape takes it.
    stop: u64,
    /// A part of one that is written up to the end of the tape and not flushed.
    part: Option<(u32, Part)>,
    since_flush: WriteBatch,
    flushed_at: Moment,
    since_index: u64,
    /// What the step that now ends has done.
    is_flushed: bool,
    pub(super) is_indexed: bool,
    ending: Ending,
    wanted: u64,
    /// The last haste that was answered with an index, of the tape that is mounted.
    pub(super) answered: u32,
}

impl Writing {
    pub(super) fn pool(&self) -> u16 {
        self.pool
    }
}

impl World<'_> {
    pub(super) fn tell_queued(&mut self, pool: usize) {
        self.note_supply(pool);
        let queue = &self.migration.queues[pool];
        let oldest = queue.front().map(|at| self.migration.containers[*at as usize].sealed.timestamp());
        let items = queue.len() as u64;
        let backlog = Backlog { items, bytes: ByteCount(self.migration.queued[pool]), oldest };
        self.tell(Event::Queued(TapePoolId(pool as u16 + 1), backlog));
    }

    pub(super) fn migrate(&mut self, drive: usize, tape_pool: TapePoolId) {
        let Some(tape) = self.drives[drive].tape else { return };
        self.drives[drive].phase = Phase::Migrating;
        self.trace_session(drive, MountKind::Migrate);
        self.drives[drive].session_since = self.now;
        let pool = tape_pool.0.saturating_sub(1);
        self.checked(Check::OwnTapes);
        if self.holdings.tapes()[tape.0 as usize].tape_pool != Some(pool) {
            return self.violated(format!("tape {} is written for pool {tape_pool}", Holdings::vid(tape)));
        }
        let wanted = self.drives[drive].native_rate().min(self.model.site.path.stream(false));
        self.feed.begin(Stream::TapeWrite, wanted);
        let writing = &mut self.drives[drive].writing;
        (writing.pool, writing.wanted, writing.current) = (pool, wanted, None);
        (writing.since_flush, writing.ending) = (WriteBatch::default(), Ending::No);
        writing.flushed_at = self.now;
        (writing.is_flushed, writing.is_indexed) = (false, false);
        writing.batch.clear();
        if !self.tapes[tape.0 as usize].is_changed {
            writing.since_index = 0;
        }
        let end = TapeByte { partition: Partition::Data, byte: self.holdings.tapes()[tape.0 as usize].used };
        let at = self.drives[drive].locate(self.now, end);
        self.write_on(drive, tape, at);
    }

    /// Tapes of before the run on which not every container finds room were found full when they were
    /// written. Otherwise each of thousands would be mounted once more, the fullest first, to find that out.
    pub(super) fn close_full_tapes(&mut self) {
        let classes = &self.model.site.classes;
        let most: Vec<u64> = (0..self.model.site.tape_pools.len() as u16)
            .map(|pool| {
                let written = classes.iter().filter(|class| class.copies.contains(&pool));
                written.map(|class| class.pack.0.max(class.sizes.largest())).max().unwrap_or(0)
            })
            .collect();
        for (tape, state) in self.holdings.tapes().iter().zip(&mut self.tapes) {
            let capacity = self.model.site.libraries[usize::from(tape.library.0)].tape.capacity.0;
            let most = tape.tape_pool.map_or(0, |pool| most[usize::from(pool)]);
            let needs = if self.model.foreign.spans { 1 } else { most };
            state.is_full |= capacity.saturating_sub(tape.used) < needs.min(most);
        }
    }

    /// What was to happen up to now has.
    pub(super) fn migrate_on(&mut self, drive: usize) {
        let Some(tape) = self.drives[drive].tape else { return };
        if let Some((container, part)) = self.drives[drive].writing.part.take() {
            let pool = self.drives[drive].writing.pool;
            self.part_is_written(container, pool, part);
            self.requeue(std::iter::once(container), pool);
        }
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
            Ending::Drained if self.owes_index(drive, tape) => self.answer_hurry(drive),
            Ending::Drained => self.end_migration(drive, SessionEnd::Drained),
            Ending::TapeFull => {
                self.tapes[tape.0 as usize].is_full = true;
                self.tell_tape(tape);
                self.end_migration(drive, SessionEnd::TapeFull);
            }
        }
    }

    /// An operator has everything written that waits, as `kist migrate --now` does.
    pub(super) fn migrate_all_now(&mut self) {
        self.hurried += 1;
        self.tell(Event::MigrateNow(None));
    }

    /// Somebody who asked for haste waits for the index, not for the unmount: as in the server.
    fn owes_index(&self, drive: usize, tape: TapeIndex) -> bool {
        self.drives[drive].writing.answered < self.hurried && self.tapes[tape.0 as usize].is_changed
    }

    fn answer_hurry(&mut self, drive: usize) {
        let writing = &mut self.drives[drive].writing;
        (writing.answered, writing.since_index) = (self.hurried, 0);
        (writing.is_indexed, writing.ending) = (true, Ending::Drained);
        let at = self.write_index(drive, self.now, false);
        self.drive_at(drive, at);
    }

    /// Writes until a flush is due, the queue is empty or the tape full; the drive's next event is behind it.
    fn write_on(&mut self, drive: usize, tape: TapeIndex, at: Moment) {
        if self.write_fails(drive, tape) {
            return;
        }
        let rate = self.feed.rate(Stream::TapeWrite, self.drives[drive].writing.wanted);
        let mut stretch = Stretch { at, left: SLICE, bytes: 0, files: 0 };
        let mut flushes = false;
        while stretch.left > 0 && !flushes {
            flushes = self.write_some(drive, tape, rate, &mut stretch);
        }
        if flushes {
            stretch.at = self.end_batch(drive, stretch.at);
        }
        self.feed.moved(Stream::TapeWrite, stretch.bytes);
        self.meter.tape_written(at, stretch.at, drive, stretch.bytes, stretch.files);
        self.drive_at(drive, stretch.at);
    }

    /// Begins the next container, or writes of the one that is begun. Whether a flush is due.
    fn write_some(&mut self, drive: usize, tape: TapeIndex, rate: u64, stretch: &mut Stretch) -> bool {
        let used = self.holdings.tapes()[tape.0 as usize].used;
        let Some((container, begin, offset)) = self.drives[drive].writing.current.take() else {
            return self.begin_container(drive, tape, used, stretch);
        };
        if offset == self.spanned(container, drive) {
            stretch.at = self.write_label(drive, tape, stretch.at);
        }
        let whole = self.migration.containers[container as usize].bytes;
        let stop = self.drives[drive].writing.stop.min(whole);
        let bytes = (stop - offset).min(stretch.left);
        stretch.at = self.write_bytes(drive, stretch.at, bytes, rate);
        self.holdings.tape_mut(tape).used += bytes;
        self.tapes[tape.0 as usize].is_changed = true;
        stretch.bytes += bytes;
        stretch.left -= bytes;
        let writing = &mut self.drives[drive].writing;
        if offset + bytes < stop {
            writing.current = Some((container, begin, offset + bytes));
            return false;
        }
        if stop < whole {
            return self.end_of_part(drive, tape, container, begin);
        }
        let (own, files) = (whole - self.spanned(container, drive), self.files_of(container));
        let writing = &mut self.drives[drive].writing;
        writing.batch.push((container, begin));
        writing.since_flush.add(ByteCount(own), files);
        writing.since_index += own;
        stretch.files += files;
        stretch.at = self.write_trailer(drive, tape, stretch.at);
        let work = &self.model.site.work;
        if work.flush_each_file {
            stretch.at = self.flush(drive, stretch.at);
        }
        let writing = &self.drives[drive].writing;
        let is_full = match self.model.foreign.flush_files {
            0 => writing.since_flush.is_full(work.flush_bytes),
            most => writing.since_flush.has_bytes(work.flush_bytes) || writing.since_flush.members >= most,
        };
        is_full || stretch.at.since(writing.flushed_at) >= work.flush_age
    }

    /// The tape ends within a container: its part there counts, the rest is the first to be written on the
    /// next one.
    fn end_of_part(&mut self, drive: usize, tape: TapeIndex, container: u32, begin: u64) -> bool {
        let bytes = self.drives[drive].writing.stop - self.spanned(container, drive);
        let writing = &mut self.drives[drive].writing;
        writing.part = Some((container, Part { tape, byte: begin, bytes }));
        writing.since_flush.add(ByteCount(bytes), 0);
        writing.since_index += bytes;
        writing.ending = Ending::TapeFull;
        true
    }

    /// Takes the next container; if there is none that fits, the session ends behind a flush, which is due.
    fn begin_container(&mut self, drive: usize, tape: TapeIndex, used: u64, stretch: &mut Stretch) -> bool {
        let container = match self.next_container(drive, tape, used) {
            Ok(container) => container,
            Err(ending) => {
                self.drives[drive].writing.ending = ending;
                return true;
            }
        };
        let already = self.spanned(container, drive);
        let capacity = self.model.site.libraries[self.drives[drive].library].tape.capacity.0;
        let room = capacity.saturating_sub(used).saturating_sub(self.model.foreign.labels.bytes());
        let writing = &mut self.drives[drive].writing;
        writing.current = Some((container, used, already));
        writing.stop = if self.model.foreign.spans { already.saturating_add(room) } else { u64::MAX };
        let file_wait = self.model.site.path.write_file;
        if !file_wait.is_zero() {
            self.trail(drive, stretch.at, DriveActivity::Wait);
            stretch.at = stretch.at.plus(file_wait);
        }
        false
    }

    /// Flushes what was written, and writes an index if one is due.
    fn end_batch(&mut self, drive: usize, at: Moment) -> Moment {
        let at = self.flush(drive, at);
        let index_bytes = self.model.site.work.index_bytes.0.max(1);
        let writing = &mut self.drives[drive].writing;
        (writing.since_flush, writing.is_flushed) = (WriteBatch::default(), !writing.batch.is_empty());
        writing.flushed_at = at;
        if writing.since_index < index_bytes {
            return at;
        }
        writing.since_index = 0;
        writing.is_indexed = true;
        self.write_index(drive, at, false)
    }

    fn next_container(&mut self, drive: usize, tape: TapeIndex, used: u64) -> Result<u32, Ending> {
        let capacity = self.model.site.libraries[self.drives[drive].library].tape.capacity.0;
        let pool = usize::from(self.drives[drive].writing.pool);
        let Some(&next) = self.migration.queues[pool].front() else { return Err(Ending::Drained) };
        let bytes = self.migration.containers[next as usize].bytes;
        let left = bytes - self.spanned(next, drive);
        let labels = self.model.foreign.labels.bytes();
        let may_span = self.model.foreign.spans && !self.migration.containers[next as usize].is_pack();
        if used + labels + if may_span { 1 } else { left } > capacity {
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
        let most = if slower { it.piece() } else { bytes };
        while left > 0 {
            let piece = left.min(most);
            let wrote = it.motion.write(at.0 - it.stood, piece) + it.stood;
            let given = if slower { (u128::from(piece) * 1_000_000 / u128::from(rate)) as u64 } else { 0 };
            at = Moment(wrote.max(at.0 + given));
            left -= piece;
        }
        it.note_transfer(from, at, bytes, DriveActivity::Write);
        at
    }

    /// A group of labels and the file mark behind it.
    fn write_label(&mut self, drive: usize, tape: TapeIndex, at: Moment) -> Moment {
        if self.model.foreign.labels == Labels::None {
            return at;
        }
        let rate = self.drives[drive].native_rate();
        let at = self.write_bytes(drive, at, LABEL_GROUP_BYTES, rate);
        self.holdings.tape_mut(tape).used += LABEL_GROUP_BYTES;
        self.write_mark(drive, at)
    }

    /// The file mark behind a file, its trailer, and the mark behind that.
    fn write_trailer(&mut self, drive: usize, tape: TapeIndex, at: Moment) -> Moment {
        if self.model.foreign.labels == Labels::None {
            return at;
        }
        let at = self.write_mark(drive, at);
        self.write_label(drive, tape, at)
    }

    fn write_mark(&mut self, drive: usize, at: Moment) -> Moment {
        match self.model.foreign.marks {
            Marks::Immediate => at,
            Marks::Synchronous => self.flush(drive, at),
        }
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
        self.end_migration(drive, SessionEnd::Failed("a write failed".into()));
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
        let part = writing.part.take().map(|(container, _)| container);
        (writing.is_flushed, writing.is_indexed, writing.ending) = (false, false, Ending::No);
        let pool = writing.pool;
        let again: Vec<u32> =
            batch.iter().map(|(container, _)| *container).chain(current).chain(part).collect();
        self.requeue(again.into_iter(), pool);
        self.session_max = self.session_max.max(self.now.since(self.drives[drive].session_since));
    }

    /// A session is broken off because its tape is lost.
    pub(super) fn fail_migration(&mut self, drive: usize, why: &str) {
        self.drives[drive].trail.clear();
        self.end_migration(drive, SessionEnd::Failed(why.into()));
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
        self.checked(Check::OneCopyAPool);
        self.holdings.tape_mut(tape).files += container.files;
        self.migration.backlog -= container.bytes;
        let mut place = self.end_of_span(at, slot, Place { tape, byte, order: 0 });
        for sequence in container.members() {
            if !self.migration.todo[class].written[slot].set(sequence) {
                return self.violated(format!(
                    "file {sequence} of class {} was written to pool {pool} twice",
                    model.name
                ));
            }
        }
        let of = ClassIndex(container.class);
        for run in &container.runs {
            self.holdings.record(of, run.clone(), place);
            place.byte += self.bytes_of(container.class, run.clone());
        }
        self.holdings.record_pack(of, &container.runs);
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

    /// All files of a container have all their copies.
    fn made_safe(&mut self, container: &Container) {
        let class = ClassIndex(container.class);
        let count = container.files;
        let spread = container.put_last.0 - container.put_first.0;
        for (at, sequence) in (0..).zip(container.members()) {
            let file = FileNumber { class, sequence };
            self.migration.todo[usize::from(class.0)].safe.set(sequence);
            self.cache.made_safe(file);
            self.leaves_late(file);
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
        self.spans.forget(tape);
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
            for sequence in container.members() {
                self.migration.todo[usize::from(container.class)].written[slot].clear(sequence);
            }
            self.migration.backlog += container.bytes;
            self.requeue(std::iter::once(at as u32), pool);
        }
        self.tell_queued(usize::from(pool));
    }
}
