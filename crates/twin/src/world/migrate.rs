//! Containers are written to tapes: queues, writing sessions, and what is a copy then.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use base::{ByteCount, ClassId, ContainerId, FailureCause, Partition, TapePoolId, Timestamp};
use mechanics::TapeByte;
use scheduler::{Backlog, Event, Failure, SessionEnd};
use session::{
    Accepted, Affinity, CHOOSE_WINDOW, Choice, FlushRules, MigrationQueue, Queued, RunEnding, Situation,
    Target, WriteEnded, WritingAction, WritingEvent, WritingRules, WritingSession, Written,
};

use super::World;
use super::drives::{Phase, failure_of};
use super::invariants::Check;
use super::planted::Planted;
use super::recall::SLICE;
use super::seal::{Container, Todo};
use super::span::Part;
use super::supply::Supply;
use super::trace::MountKind;
use crate::disks::Stream;
use crate::holdings::{Holdings, Place, TapeIndex};
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::{
    ClassIndex, FaultKind, FileNumber, Foreign, GatherBy, LABEL_GROUP_BYTES, Labels, Marks, Model, Site,
};

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
    /// Where data sets are written.
    affinity: Affinity,
}

impl Migration {
    pub(super) fn new(site: &Site, holdings: &Holdings) -> Self {
        let todo = |(at, class): (usize, &scenario::model::ClassModel)| {
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
            affinity: Affinity::default(),
        }
    }

    /// Nothing waits to be written.
    pub(super) fn is_drained(&self) -> bool {
        self.backlog == 0
    }

    /// Takes what was chosen out of its queue.
    fn take_out(&mut self, pool: usize, chosen: &VecDeque<u32>) {
        let queue = &mut self.queues[pool];
        let mut left: BTreeSet<u32> = chosen.iter().copied().collect();
        let mut passed = Vec::new();
        while !left.is_empty() {
            let Some(next) = queue.pop_front() else { break };
            if left.remove(&next) {
                self.queued[pool] -= self.containers[next as usize].bytes;
            } else {
                passed.push(next);
            }
        }
        assert!(left.is_empty(), "what is chosen was queued");
        passed.into_iter().rev().for_each(|container| queue.push_front(container));
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

/// What is written between two events of a drive.
struct Stretch {
    at: Moment,
    /// Bytes until what the stream gets is looked at anew.
    left: u64,
    bytes: u64,
    files: u64,
}

/// What a drive's writing session knows.
pub(super) struct Writing {
    pool: u16,
    /// The rules, and how far they are.
    pub(super) session: WritingSession,
    /// What the drive's next event tells the session; nothing while it is amid a write.
    outcome: Option<WritingEvent>,
    /// Chosen, and not begun.
    chosen: VecDeque<u32>,
    /// Written and not flushed, and where each begins.
    batch: Vec<(u32, u64)>,
    /// Bytes of these.
    unflushed: u64,
    /// The container that is being written, where it begins, and how much of it is written.
    current: Option<(u32, u64, u64)>,
    /// Up to which of its bytes this tape takes it.
    stop: u64,
    /// A part of one that is written up to the end of the tape and not flushed.
    part: Option<(u32, Part)>,
    /// An index is written with what the drive does now.
    pub(super) is_indexed: bool,
    wanted: u64,
}

impl Writing {
    pub(super) fn new(rules: WritingRules) -> Self {
        Writing {
            pool: 0,
            session: WritingSession::new(rules, Timestamp(0)),
            outcome: None,
            chosen: VecDeque::new(),
            batch: Vec::new(),
            unflushed: 0,
            current: None,
            stop: 0,
            part: None,
            is_indexed: false,
            wanted: 0,
        }
    }

    pub(super) fn pool(&self) -> u16 {
        self.pool
    }
}

/// What is queued for a tape pool.
struct PoolQueue<'a> {
    queue: &'a VecDeque<u32>,
    containers: &'a [Container],
    model: &'a Model,
    /// Bytes of a container that stand on earlier tapes.
    spanned: &'a dyn Fn(u32) -> u64,
}

impl PoolQueue<'_> {
    /// Other systems take containers in turn.
    fn data_set(&self, container: &Container) -> u64 {
        let class = &self.model.site.classes[usize::from(container.class)];
        if class.gather == GatherBy::Class || self.model.foreign != Foreign::default() {
            return 0;
        }
        (u64::from(container.class) << 48) + class.data_set(container.first()) + 1
    }
}

impl MigrationQueue for PoolQueue<'_> {
    type Error = Infallible;
    type Cursor = usize;

    fn window(&mut self, after: Option<usize>) -> Result<Option<(Vec<Queued>, usize)>, Infallible> {
        let from = after.unwrap_or(0);
        let labels = self.model.foreign.labels.bytes();
        let queued = |at: &u32| {
            let container = &self.containers[*at as usize];
            Queued {
                container: ContainerId(u64::from(*at)),
                data_set: self.data_set(container),
                length: ByteCount(container.bytes - (self.spanned)(*at) + labels),
                can_span: self.model.foreign.spans && !container.is_pack(),
            }
        };
        let window: Vec<Queued> = self.queue.iter().skip(from).take(CHOOSE_WINDOW).map(queued).collect();
        let next = from + window.len();
        Ok(Some((window, next)).filter(|(window, _)| !window.is_empty()))
    }

    fn accept(&mut self, queued: &Queued) -> Result<Accepted, Infallible> {
        Ok(Accepted::Yes { members: self.containers[queued.container.0 as usize].files })
    }

    fn is_too_large(&mut self, _: &Queued) {}
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
        (writing.pool, writing.wanted, writing.is_indexed) = (pool, wanted, false);
        writing.outcome = Some(WritingEvent::Begin);
        let end = TapeByte { partition: Partition::Data, byte: self.holdings.tapes()[tape.0 as usize].used };
        let at = self.drives[drive].locate(self.now, end);
        self.drive_at(drive, at);
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
        let Some(mut event) = self.drives[drive].writing.outcome.take() else {
            return self.write_on(drive, tape);
        };
        self.take_effect(drive, tape, event);
        loop {
            let state = &self.tapes[tape.0 as usize];
            let situation = Situation {
                stop: self.scheduler.is_retiring(&self.drives[drive].name),
                may_write: !state.is_read_only && !state.is_suspect && !state.is_unreadable,
                owes_index: state.is_changed,
                // No put is refused here, and a recall that finds no room waits for the pool's own rules.
                room_waits: false,
                haste: self.haste.call(),
            };
            let action = self.drives[drive].writing.session.step(self.now.timestamp(), &situation, event);
            let (outcome, at) = match action {
                WritingAction::Choose => {
                    event = self.choose(drive, tape);
                    continue;
                }
                WritingAction::Write => return self.write_on(drive, tape),
                WritingAction::Flush => (WritingEvent::Flushed, self.flush(drive, self.now)),
                WritingAction::Index { .. } => (WritingEvent::Indexed, self.write_index_now(drive, false)),
                WritingAction::EndRun(ending) => {
                    self.give_back_chosen(drive);
                    if ending == RunEnding::TapeFull {
                        self.tapes[tape.0 as usize].is_full = true;
                    }
                    let owes = self.tapes[tape.0 as usize].is_changed && situation.may_write;
                    let at = if owes { self.write_index_now(drive, true) } else { self.now };
                    (WritingEvent::RunEnded, at)
                }
                WritingAction::End(end) => return self.end_migration(drive, end.into()),
            };
            self.drives[drive].writing.outcome = Some(outcome);
            return self.drive_at(drive, at);
        }
    }

    /// What an outcome changes in the world, before the session is told.
    fn take_effect(&mut self, drive: usize, tape: TapeIndex, event: WritingEvent) {
        match event {
            WritingEvent::Flushed => self.flushed(drive, tape),
            WritingEvent::Indexed | WritingEvent::RunEnded => {
                if std::mem::take(&mut self.drives[drive].writing.is_indexed) {
                    self.indexed(tape);
                }
                if event == WritingEvent::RunEnded {
                    self.tell_tape(tape);
                }
            }
            _ => {}
        }
    }

    fn flushed(&mut self, drive: usize, tape: TapeIndex) {
        if let Some((container, part)) = self.drives[drive].writing.part.take() {
            let pool = self.drives[drive].writing.pool;
            self.part_is_written(container, pool, part);
            self.requeue(std::iter::once(container), pool);
        }
        let batch = std::mem::take(&mut self.drives[drive].writing.batch);
        self.drives[drive].writing.unflushed = 0;
        for (container, _) in &batch {
            self.trace_written(self.migration.containers[*container as usize].bytes);
        }
        self.tapes[tape.0 as usize].flushed.extend(&batch);
        self.tell_queued(usize::from(self.drives[drive].writing.pool));
    }

    /// An index, which is there with the drive's next event.
    fn write_index_now(&mut self, drive: usize, both: bool) -> Moment {
        self.drives[drive].writing.is_indexed = true;
        self.write_index(drive, self.now, both)
    }

    /// An operator has everything written that waits, as `kist migrate --now` does.
    pub(super) fn migrate_all_now(&mut self) {
        let classes = (0..self.migration.todo.len()).map(|class| ClassId(class as u16 + 1));
        let now = self.now.timestamp();
        self.haste.ask_for(classes.clone(), now);
        let todo = &self.migration.todo;
        let with_files = classes.filter(|class| !todo[usize::from(class.0) - 1].is_empty());
        self.haste.hasten(with_files, now);
        self.tell(Event::MigrateNow(None));
    }

    /// Chooses what is written next, and takes it out of its queue.
    fn choose(&mut self, drive: usize, tape: TapeIndex) -> WritingEvent {
        let pool = self.drives[drive].writing.pool;
        let tape_pool = TapePoolId(pool + 1);
        let policy = self.model.policy.tape_pools.get(&tape_pool);
        let (work, foreign) = (&self.model.site.work, &self.model.foreign);
        let capacity = self.model.site.libraries[self.drives[drive].library].tape.capacity.0;
        // What goes on on the next tape still needs its labels on this one.
        let kept = if foreign.spans { foreign.labels.bytes() } else { 0 };
        let used = self.holdings.tapes()[tape.0 as usize].used.saturating_add(kept);
        let target = Target {
            vid: Holdings::vid(tape),
            tape_pool,
            room: ByteCount(capacity.saturating_sub(used)),
            empty_tape: ByteCount(capacity),
            // A model closes each tape that nothing fits on: what smaller containers would add is little.
            useful: ByteCount(u64::MAX),
            flush: FlushRules {
                bytes: work.flush_bytes,
                files: if foreign.flush_files == 0 { u64::MAX } else { foreign.flush_files },
            },
            left_to_others: policy.map_or(ByteCount(0), |policy| policy.mount_bytes),
        };
        let spans = &self.spans;
        let migration = &mut self.migration;
        let mut queue = PoolQueue {
            queue: &migration.queues[usize::from(pool)],
            containers: &migration.containers,
            model: self.model,
            spanned: &|container| spans.written(container, pool),
        };
        let now = self.now.timestamp();
        let Ok(choice) = session::choose(&mut queue, &mut migration.affinity, now, &target);
        match choice {
            Choice::Containers(queued) => {
                let chosen: VecDeque<u32> = queued.iter().map(|queued| queued.container.0 as u32).collect();
                migration.take_out(usize::from(pool), &chosen);
                self.drives[drive].writing.chosen = chosen;
                WritingEvent::Chosen
            }
            Choice::Nothing => WritingEvent::NothingQueued,
            Choice::TapeFull => WritingEvent::TapeFull,
            Choice::NothingFits => WritingEvent::NothingFits,
        }
    }

    /// Writes what is chosen, up to where what the stream gets is looked at anew; the drive's next event is
    /// behind it.
    fn write_on(&mut self, drive: usize, tape: TapeIndex) {
        if self.write_fails(drive, tape) || self.path_breaks(drive, tape) {
            return;
        }
        let at = self.now;
        let rate = self.feed.rate(Stream::TapeWrite, self.drives[drive].writing.wanted);
        let mut stretch = Stretch { at, left: SLICE, bytes: 0, files: 0 };
        let mut ended = None;
        while stretch.left > 0 && ended.is_none() {
            ended = self.write_some(drive, tape, rate, &mut stretch);
        }
        self.feed.moved(Stream::TapeWrite, stretch.bytes);
        self.meter.tape_written(at, stretch.at, drive, stretch.bytes, stretch.files);
        let writing = &mut self.drives[drive].writing;
        let containers = writing.batch.len() as u64 + u64::from(writing.part.is_some());
        let bytes = ByteCount(writing.unflushed);
        writing.outcome = ended.map(|ended| WritingEvent::Written(Written { containers, bytes, ended }));
        self.drive_at(drive, stretch.at);
    }

    /// Begins the next container, or writes of the one that is begun. Gives why that is all, once it is.
    fn write_some(
        &mut self,
        drive: usize,
        tape: TapeIndex,
        rate: u64,
        stretch: &mut Stretch,
    ) -> Option<WriteEnded> {
        let Some((container, begin, offset)) = self.drives[drive].writing.current.take() else {
            return self.begin_container(drive, tape, stretch);
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
        let own = stop - self.spanned(container, drive);
        let writing = &mut self.drives[drive].writing;
        if offset + bytes < stop {
            writing.current = Some((container, begin, offset + bytes));
            return None;
        }
        writing.unflushed += own;
        if stop < whole {
            // The rest is the first to be written on the next tape.
            writing.part = Some((container, Part { tape, byte: begin, bytes: own }));
            return Some(WriteEnded::TapeEnd);
        }
        writing.batch.push((container, begin));
        stretch.files += self.files_of(container);
        stretch.at = self.write_trailer(drive, tape, stretch.at);
        if self.model.site.work.flush_each_file {
            stretch.at = self.flush(drive, stretch.at);
        }
        let writing = &self.drives[drive].writing;
        match writing.chosen.is_empty() {
            true => Some(WriteEnded::All),
            false => writing.session.flush_is_due(stretch.at.timestamp()).then_some(WriteEnded::FlushDue),
        }
    }

    /// Takes the next container of what is chosen, unless the tape turns out to be at its end.
    fn begin_container(
        &mut self,
        drive: usize,
        tape: TapeIndex,
        stretch: &mut Stretch,
    ) -> Option<WriteEnded> {
        let used = self.holdings.tapes()[tape.0 as usize].used;
        if used > 0 && self.pending.take(FaultKind::EarlyEnd) {
            self.meter.fault(FaultKind::EarlyEnd);
            return Some(WriteEnded::TapeEnd);
        }
        let Some(container) = self.drives[drive].writing.chosen.pop_front() else {
            return Some(WriteEnded::All);
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
        None
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

    /// A write error, if one is to come: the tape is suspect. What was flushed stands on it, and gets its
    /// index when the session that was cut short is closed, as maintenance; then the tape is kept for
    /// reading.
    fn write_fails(&mut self, drive: usize, tape: TapeIndex) -> bool {
        if !self.pending.take(FaultKind::WriteError) {
            return false;
        }
        self.meter.fault(FaultKind::WriteError);
        self.drives[drive].trail.clear();
        self.tapes[tape.0 as usize].is_suspect = true;
        self.tell_tape(tape);
        self.tell(Event::Maintain(Holdings::vid(tape), true));
        let failure = failure_of("a write failed", FailureCause::Cartridge);
        self.end_migration(drive, SessionEnd::Failed(failure));
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
        self.give_back_chosen(drive);
        let writing = &mut self.drives[drive].writing;
        self.feed.end(Stream::TapeWrite, writing.wanted);
        let batch = std::mem::take(&mut writing.batch);
        let part = writing.part.take().map(|(container, _)| container);
        (writing.is_indexed, writing.outcome, writing.unflushed) = (false, None, 0);
        let pool = writing.pool;
        let again: Vec<u32> = batch.iter().map(|(container, _)| *container).chain(part).collect();
        self.requeue(again.into_iter(), pool);
        if let Some(tape) = self.drives[drive].tape {
            self.migration.affinity.leave(Holdings::vid(tape));
        }
        self.session_max = self.session_max.max(self.now.since(self.drives[drive].session_since));
    }

    /// What is chosen and not written goes back to its queue.
    fn give_back_chosen(&mut self, drive: usize) {
        let writing = &mut self.drives[drive].writing;
        let current = writing.current.take().map(|(container, ..)| container);
        let again: Vec<u32> = current.into_iter().chain(std::mem::take(&mut writing.chosen)).collect();
        let pool = writing.pool;
        self.requeue(again.into_iter(), pool);
    }

    /// A session is broken off: its tape is lost, or the way to its drive.
    pub(super) fn fail_migration(&mut self, drive: usize, failure: Failure) {
        self.drives[drive].trail.clear();
        self.end_migration(drive, SessionEnd::Failed(failure));
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
            let file = FileNumber { class: ClassIndex(container.class), sequence: container.first() };
            if self.spans.begins_elsewhere(file.id(), slot, tape) {
                // It is recorded where it begins, and is lost as what was safe already: not written again.
                self.migration.lost += container.files;
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
