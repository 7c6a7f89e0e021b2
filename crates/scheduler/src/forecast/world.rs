//! The scheduler in virtual time: what it orders is done in the time that it usually takes.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, ClassId, Duration, FileId, TapePoolId, Timestamp, Vid};

use session::{
    HasteCall, PackLimit, PackSize, Situation, WriteEnded, WritingAction, WritingEvent, WritingRules,
    WritingSession, Written,
};

use super::pace::seconds;
use super::summary::{Activity, Fate, Outlook, Summary};
use crate::recall::{Gathered, WantedGroup};
use crate::scheduler::Scheduler;
use crate::{Action, Backlog, CleaningEnd, DriveName, DriveState, Event, Reason, SessionEnd};

/// How far a forecast looks ahead.
pub const FORECAST_HORIZON: Duration = Duration::from_secs(30 * 86_400);
/// Most events that a forecast goes through; what is not done by then is not foretold.
pub const FORECAST_STEPS_MAX: usize = 50_000;
/// What a session that nobody waits for takes to make way.
const YIELD_AFTER: Duration = Duration::from_secs(30);
/// New files are taken to go on coming at the rate of the last hours, in steps of so long ...
const INFLOW_EVERY: Duration = Duration::from_secs(300);
/// ... and for so long.
const INFLOW_FOR: Duration = Duration::from_secs(12 * 3_600);
/// Files that a session has read before its own pace counts as much as the usual one, where it is faster.
const PACE_FILES: f64 = 32.0;
/// A writer takes such a part of its share of the queue at a time.
const WRITE_PARTS: u64 = 4;

/// Something that ends later.
#[derive(Debug)]
enum Later {
    Tell(Event),
    Read {
        drive: DriveName,
        vid: Vid,
    },
    /// What a writing session waits for has happened.
    Wrote {
        drive: DriveName,
        event: WritingEvent,
    },
    Sealed {
        class: ClassId,
        partial: bool,
    },
    Maintained {
        drive: DriveName,
        vid: Vid,
    },
    /// What has come for a class since the last time.
    Inflow {
        class: ClassId,
    },
}

pub(crate) struct World {
    scheduler: Scheduler,
    now: Timestamp,
    summary: Summary0,
    agenda: BTreeMap<(Timestamp, usize), Later>,
    steps: usize,
    /// Being written: containers and bytes by pool.
    in_flight: BTreeMap<TapePoolId, (u64, u64)>,
    /// What is left of what each pool had queued at the beginning, and since when it is written.
    queued: BTreeMap<TapePoolId, (u64, Option<Timestamp>)>,
    yielding: BTreeSet<DriveName>,
    /// Sessions that write.
    writers: BTreeMap<DriveName, Writer>,
    /// Drives that wrote at the beginning and have not ended yet.
    writing: BTreeSet<DriveName>,
    /// What is still to be found out.
    open: BTreeSet<FileId>,
    /// The same of classes.
    open_classes: BTreeSet<ClassId>,
    inflow: BTreeMap<ClassId, (f64, f64)>,
    outlook: Outlook,
}

/// A writing session, of which only sums are known.
struct Writer {
    session: WritingSession,
    vid: Vid,
    tape_pool: TapePoolId,
    /// Containers and bytes that are being written.
    items: u64,
    bytes: ByteCount,
}

/// What becomes safe when is nothing that a forecast tells: a flush takes no time of its own, and the pace of
/// writing has that of indexes in it.
const WRITING: WritingRules = WritingRules { flush_age: Duration::MAX, index_bytes: ByteCount(u64::MAX) };
/// Nothing is in a hurry, and nobody intervenes.
const CALM: Situation =
    Situation { stop: false, may_write: true, owes_index: false, room_waits: false, haste: HasteCall::NONE };

/// What it takes to clean a drive, with the moves of its cartridge: drives say two to five minutes.
const CLEANING: Duration = Duration::from_secs(240);

fn cleaned(drive: &DriveName) -> Event {
    Event::Cleaned(drive.clone(), CleaningEnd::Cleaned)
}

/// A summary without its scheduler.
struct Summary0 {
    groups: BTreeMap<FileId, (WantedGroup, Gathered)>,
    pace: super::Pace,
    activities: BTreeMap<DriveName, Activity>,
    sealing: BTreeMap<ClassId, Timestamp>,
}

impl World {
    pub(crate) fn new(summary: Summary) -> Self {
        let Summary { scheduler, made, groups, pace, activities, sealing, inflow, sample } = summary;
        let outlook = Outlook {
            made,
            groups: BTreeMap::new(),
            tapes: BTreeMap::new(),
            tape_pools: BTreeMap::new(),
            classes: BTreeMap::new(),
            drives: BTreeMap::new(),
            steps: 0,
            sample,
        };
        let waiting = scheduler.pools.iter().filter(|(_, state)| state.backlog.items > 0);
        let queued = waiting.map(|(id, state)| (*id, (state.backlog.bytes.0, None))).collect();
        let classes = scheduler.classes.iter().filter(|(_, state)| state.backlog.items > 0);
        World {
            open_classes: classes.map(|(class, _)| *class).collect(),
            inflow,
            open: groups.keys().copied().collect(),
            scheduler,
            now: made,
            summary: Summary0 { groups, pace, activities, sealing },
            agenda: BTreeMap::new(),
            steps: 0,
            in_flight: BTreeMap::new(),
            queued,
            yielding: BTreeSet::new(),
            writers: BTreeMap::new(),
            writing: BTreeSet::new(),
            outlook,
        }
    }

    pub(crate) fn run(mut self) -> Outlook {
        self.go_on();
        self.tell(Event::Tick);
        for (class, (_, bytes)) in self.inflow.clone() {
            if bytes > 0.0 {
                self.later(INFLOW_EVERY, Later::Inflow { class });
            }
        }
        let end = self.outlook.made.plus(FORECAST_HORIZON);
        while !self.is_settled() && self.steps < FORECAST_STEPS_MAX {
            let Some(((at, _), later)) = self.agenda.pop_first() else { break };
            if at > end {
                break;
            }
            self.now = at;
            self.happen(later);
        }
        if !self.is_settled() {
            // What waits for its age first has it by then: what is left waits for something else.
            self.now = end;
            self.tell(Event::Tick);
        }
        self.conclude()
    }

    /// What the drives and the sealer were at goes on.
    fn go_on(&mut self) {
        let states: Vec<(DriveName, DriveState)> =
            self.scheduler.drives().map(|(name, state)| (name.clone(), state.clone())).collect();
        for (drive, state) in states {
            match state {
                DriveState::Down { .. } | DriveState::Empty | DriveState::Idle { .. } => {}
                DriveState::Mounting { vid, .. } => {
                    let left = self.left_of(&drive, self.summary.pace.mount);
                    self.drive_busy(&drive, left, Later::Tell(Event::Mounted(drive.clone(), vid)));
                }
                DriveState::Cleaning { .. } => {
                    let left = self.left_of(&drive, CLEANING);
                    self.drive_busy(&drive, left, Later::Tell(cleaned(&drive)));
                }
                DriveState::Unmounting { .. } => {
                    let left = self.left_of(&drive, self.summary.pace.unmount);
                    self.drive_busy(&drive, left, Later::Tell(Event::Unmounted(drive.clone())));
                }
                DriveState::Maintaining { vid, .. } => {
                    let left = self.left_of(&drive, self.summary.pace.maintenance);
                    self.drive_busy(&drive, left, Later::Maintained { drive: drive.clone(), vid });
                }
                DriveState::Recalling { vid, since } => self.read_on(&drive, vid, since),
                DriveState::Migrating { vid, tape_pool, .. } => {
                    self.writing.insert(drive.clone());
                    self.begin_writing(drive.clone(), vid, tape_pool);
                    self.wrote(drive, WritingEvent::Begin);
                }
            }
        }
        let classes = self.scheduler.classes.iter();
        let sealing: Vec<_> = classes.filter_map(|(class, state)| Some((*class, state.sealing?))).collect();
        for (class, partial) in sealing {
            let since = self.summary.sealing.get(&class).copied().unwrap_or(self.now);
            self.open_classes.insert(class);
            self.seal(class, partial, since);
        }
    }

    fn left_of(&self, drive: &DriveName, usually: Duration) -> Duration {
        let since = self.summary.activities.get(drive).map_or(self.now, |activity| activity.since);
        // What should be over may end at any moment; the longer it lasts already, the longer it may.
        let took = self.now.since(since);
        usually.checked_sub(took).unwrap_or_default().max(took.mul_f64(0.1).min(usually))
    }

    fn drive_busy(&mut self, drive: &DriveName, left: Duration, later: Later) {
        let end = self.now.plus(left);
        self.outlook.drives.insert(drive.clone(), Fate::Done { begin: self.now, end });
        self.later(left, later);
    }

    /// A reading session under way, of which some is done.
    fn read_on(&mut self, drive: &DriveName, vid: Vid, since: Timestamp) {
        let nothing = Activity { since, files: 0, bytes: ByteCount(0) };
        let done = self.summary.activities.get(drive).copied().unwrap_or(nothing);
        let (files, bytes) = self.assigned(vid);
        let (pace, written) = (&self.summary.pace, self.scheduler.written(vid));
        let (all, all_bytes) = (files + done.files, ByteCount(bytes.0 + done.bytes.0));
        let whole = pace.reading(all, all_bytes, written);
        let locates = pace.locates_within(all, all_bytes, written).as_secs_f64();
        let of_files = files as f64 / all.max(1) as f64;
        let still = pace.reading(0, bytes, ByteCount(0)).as_secs_f64() + locates * of_files;
        let still = still - if done.files > 0 { self.summary.pace.begin.as_secs_f64() } else { 0.0 };
        let whole = whole.as_secs_f64().max(1e-3);
        let part = 1.0 - (still / whole).clamp(0.0, 1.0);
        let took = self.now.since(done.since).as_secs_f64();
        // The further it is, the more this session's own pace counts; and by the files that it has read:
        // thousands of them show how fast the drive is, however small a part of all they are.
        let own = took / (part * whole).max(1e-3);
        let shown = done.files as f64 / (done.files as f64 + PACE_FILES);
        let usual = own.min(1.0).powf(shown) * whole;
        let left = (1.0 - part) * ((1.0 - part) * usual + took * part.sqrt());
        let end = self.now.plus(seconds(left));
        self.begin_reading(vid, done.since, end);
        self.drive_busy(drive, seconds(left), Later::Read { drive: drive.clone(), vid });
    }

    fn assigned(&self, vid: Vid) -> (u64, ByteCount) {
        let files = self.scheduler.recall.assigned(vid);
        let groups = files.iter().filter_map(|file| self.summary.groups.get(file));
        groups.fold((0, ByteCount(0)), |(files, bytes), (_, group)| {
            (files + group.files, ByteCount(bytes.0.saturating_add(group.bytes.0)))
        })
    }

    fn begin_reading(&mut self, vid: Vid, begin: Timestamp, end: Timestamp) {
        let fate = Fate::Done { begin, end };
        for file in self.scheduler.recall.assigned(vid) {
            self.open.remove(&file);
            if let Some((group, _)) = self.summary.groups.get(&file) {
                self.outlook.groups.entry(group.clone()).or_insert_with(|| fate.clone());
            }
        }
        self.outlook.tapes.entry(vid).or_insert(fate);
    }

    fn later(&mut self, after: Duration, later: Later) {
        self.steps += 1;
        self.agenda.insert((self.now.plus(after), self.steps), later);
    }

    fn tell(&mut self, event: Event) {
        self.steps += 1;
        let mut actions = Vec::new();
        self.scheduler.step(self.now, event, &mut actions);
        for action in actions {
            self.carry_out(action);
        }
        self.make_way();
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Seal { class, partial } => self.seal(class, partial, self.now),
            Action::Mount { drive, vid, .. } => {
                self.later(self.summary.pace.mount, Later::Tell(Event::Mounted(drive, vid)));
            }
            Action::Unmount { drive } => {
                self.later(self.summary.pace.unmount, Later::Tell(Event::Unmounted(drive)));
            }
            Action::Clean { drive, .. } => {
                self.later(CLEANING, Later::Tell(cleaned(&drive)));
            }
            Action::Recall { drive, vid } => {
                let (files, bytes) = self.assigned(vid);
                let takes = self.summary.pace.reading(files, bytes, self.scheduler.written(vid));
                self.begin_reading(vid, self.now, self.now.plus(takes));
                self.later(takes, Later::Read { drive, vid });
            }
            // Not at once: the scheduler has not said its last word on this event yet.
            Action::Migrate { drive, vid, tape_pool } => {
                self.begin_writing(drive.clone(), vid, tape_pool);
                self.later(self.summary.pace.begin, Later::Wrote { drive, event: WritingEvent::Begin });
            }
            Action::Maintain { drive, vid } => {
                self.later(self.summary.pace.maintenance, Later::Maintained { drive, vid });
            }
            // Nothing fails in a forecast.
            Action::Clear { .. } => {}
            Action::WakeAt(time) => {
                self.steps += 1;
                self.agenda.insert((time.max(self.now), self.steps), Later::Tell(Event::Tick));
            }
        }
    }

    /// Sessions that nobody waits for end where somebody waits for their drive.
    fn make_way(&mut self) {
        if self.scheduler.maintenance_due.is_empty() {
            return;
        }
        let maintaining = |state: &DriveState| matches!(state, DriveState::Maintaining { .. });
        for drive in self.scheduler.drives_that(maintaining) {
            let Some(vid) = self.scheduler.state(&drive).and_then(DriveState::vid) else { continue };
            if !self.yielding.contains(&drive) && self.scheduler.must_yield(&drive, self.now) {
                self.yielding.insert(drive.clone());
                self.later(YIELD_AFTER, Later::Maintained { drive, vid });
            }
        }
    }

    fn happen(&mut self, later: Later) {
        match later {
            Later::Tell(event) => self.tell(event),
            Later::Read { drive, vid } => {
                for file in self.scheduler.recall.assigned(vid) {
                    self.tell(Event::NotWanted(file));
                }
                self.tell(Event::RecallEnded(drive, SessionEnd::Drained));
            }
            Later::Wrote { drive, event } => self.wrote(drive, event),
            Later::Inflow { class } => self.inflow(class),
            Later::Sealed { class, partial } => self.sealed(class, partial),
            Later::Maintained { drive, vid } => {
                let is_at_it = matches!(self.scheduler.state(&drive),
                    Some(DriveState::Maintaining { vid: of, .. }) if *of == vid);
                if !is_at_it {
                    return;
                }
                let end = if self.yielding.remove(&drive) {
                    SessionEnd::Stopped
                } else {
                    self.tell(Event::Maintain(vid, false));
                    SessionEnd::Drained
                };
                self.tell(Event::MaintenanceEnded(drive, end));
            }
        }
    }

    fn begin_writing(&mut self, drive: DriveName, vid: Vid, tape_pool: TapePoolId) {
        let session = WritingSession::new(WRITING, self.now);
        self.writers.insert(drive, Writer { session, vid, tape_pool, items: 0, bytes: ByteCount(0) });
    }

    /// A writing session goes on.
    fn wrote(&mut self, drive: DriveName, mut event: WritingEvent) {
        loop {
            let Some(writer) = self.writers.get_mut(&drive) else { return };
            let (vid, tape_pool, items, bytes) = (writer.vid, writer.tape_pool, writer.items, writer.bytes);
            event = match writer.session.step(self.now, &CALM, event) {
                WritingAction::Choose => self.choose(&drive, vid, tape_pool),
                WritingAction::Write => {
                    let written = Written { containers: items, bytes, ended: WriteEnded::All };
                    let takes = self.summary.pace.writing(bytes);
                    return self.later(takes, Later::Wrote { drive, event: WritingEvent::Written(written) });
                }
                WritingAction::Flush => {
                    self.written(vid, tape_pool, items, bytes);
                    WritingEvent::Flushed
                }
                WritingAction::Index { .. } => WritingEvent::Indexed,
                WritingAction::EndRun(_) => WritingEvent::RunEnded,
                WritingAction::End(end) => {
                    self.writers.remove(&drive);
                    if self.writing.remove(&drive) {
                        let fate = Fate::Done { begin: self.outlook.made, end: self.now };
                        self.outlook.drives.insert(drive.clone(), fate);
                    }
                    return self.tell(Event::MigrationEnded(drive, end.into()));
                }
            };
        }
    }

    /// The next part of a pool's queue goes to a tape.
    fn choose(&mut self, drive: &DriveName, vid: Vid, tape_pool: TapePoolId) -> WritingEvent {
        let backlog = self.scheduler.pools.get(&tape_pool).map(|state| state.backlog).unwrap_or_default();
        let (items_taken, bytes_taken) = self.in_flight.get(&tape_pool).copied().unwrap_or_default();
        let items_left = backlog.items.saturating_sub(items_taken);
        let bytes_left = backlog.bytes.0.saturating_sub(bytes_taken);
        if items_left == 0 {
            return WritingEvent::NothingQueued;
        }
        let summary = self.scheduler.tapes.get(&vid).and_then(|tape| tape.summary.as_ref());
        let free = summary.map_or(0, |summary| summary.free.0);
        let mean = (bytes_left / items_left).max(1);
        if free < mean {
            return WritingEvent::TapeFull;
        }
        let writers = u64::try_from(self.scheduler.writers(tape_pool)).unwrap_or(u64::MAX).max(1);
        let items = (items_left / writers.saturating_mul(WRITE_PARTS)).max(1).min(free / mean);
        let bytes = ByteCount(if items == items_left { bytes_left.min(free) } else { items * mean });
        self.in_flight.insert(tape_pool, (items_taken + items, bytes_taken + bytes.0));
        if let Some((_, begin)) = self.queued.get_mut(&tape_pool) {
            begin.get_or_insert(self.now);
        }
        if let Some(writer) = self.writers.get_mut(drive) {
            (writer.items, writer.bytes) = (items, bytes);
        }
        WritingEvent::Chosen
    }

    fn written(&mut self, vid: Vid, tape_pool: TapePoolId, items: u64, bytes: ByteCount) {
        if let Some((items_taken, bytes_taken)) = self.in_flight.get_mut(&tape_pool) {
            *items_taken = items_taken.saturating_sub(items);
            *bytes_taken = bytes_taken.saturating_sub(bytes.0);
        }
        if let Some(summary) = self.scheduler.tapes.get_mut(&vid).and_then(|tape| tape.summary.as_mut()) {
            summary.free = ByteCount(summary.free.0.saturating_sub(bytes.0));
        }
        if let Some((left, begin)) = self.queued.get_mut(&tape_pool) {
            *left = left.saturating_sub(bytes.0);
            if *left == 0 {
                let fate = Fate::Done { begin: begin.unwrap_or(self.now), end: self.now };
                self.queued.remove(&tape_pool);
                self.outlook.tape_pools.insert(tape_pool, fate);
            }
        }
        let backlog = self.scheduler.pools.get(&tape_pool).map(|state| state.backlog).unwrap_or_default();
        let items = backlog.items.saturating_sub(items);
        let bytes = ByteCount(backlog.bytes.0.saturating_sub(bytes.0));
        let oldest = backlog.oldest.filter(|_| items > 0);
        self.tell(Event::Queued(tape_pool, Backlog { items, bytes, oldest }));
    }

    fn inflow(&mut self, class: ClassId) {
        let (files, bytes) = self.inflow.get(&class).copied().unwrap_or_default();
        let step = INFLOW_EVERY.as_secs_f64();
        let backlog = self.scheduler.classes.get(&class).map(|state| state.backlog).unwrap_or_default();
        let backlog = Backlog {
            items: backlog.items + ((files * step) as u64).max(1),
            bytes: ByteCount(backlog.bytes.0.saturating_add((bytes * step) as u64)),
            oldest: backlog.oldest.or(Some(self.now)),
        };
        self.tell(Event::Todo(class, backlog));
        if self.now < self.outlook.made.plus(INFLOW_FOR) {
            self.later(INFLOW_EVERY, Later::Inflow { class });
        }
    }

    fn seal(&mut self, class: ClassId, partial: bool, since: Timestamp) {
        let bytes = self.scheduler.classes.get(&class).map(|state| state.backlog.bytes).unwrap_or_default();
        let takes = self.summary.pace.sealing(bytes);
        let left = takes.checked_sub(self.now.since(since)).unwrap_or_default();
        let fate = Fate::Done { begin: since, end: self.now.plus(left) };
        if self.open_classes.remove(&class) {
            self.outlook.classes.insert(class, fate);
        }
        self.later(left, Later::Sealed { class, partial });
    }

    fn sealed(&mut self, class: ClassId, partial: bool) {
        let backlog = self.scheduler.classes.get(&class).map(|state| state.backlog).unwrap_or_default();
        let pack = self.scheduler.policy.classes.get(&class).map_or(ByteCount(1), |policy| policy.pack_bytes);
        let size = PackSize::of(pack, PackLimit::NONE);
        let sealed = session::seal_in_bulk(backlog.items, backlog.bytes, size, partial);
        let (items, bytes) = (sealed.files_left, ByteCount(sealed.bytes_left));
        let oldest = backlog.oldest.filter(|_| items > 0);
        self.tell(Event::Todo(class, Backlog { items, bytes, oldest }));
        for tape_pool in self.summary.pace.tape_pools.get(&class).cloned().unwrap_or_default() {
            let queued = self.scheduler.pools.get(&tape_pool).map(|s| s.backlog).unwrap_or_default();
            let queued = Backlog {
                items: queued.items + sealed.containers,
                bytes: ByteCount(queued.bytes.0.saturating_add(sealed.bytes)),
                oldest: queued.oldest.or(Some(self.now)).filter(|_| sealed.bytes > 0 || queued.items > 0),
            };
            self.tell(Event::Queued(tape_pool, queued));
        }
        self.tell(Event::SealEnded(class));
    }

    fn is_settled(&self) -> bool {
        self.open.is_empty()
            && self.queued.is_empty()
            && self.open_classes.is_empty()
            && self.writing.is_empty()
    }

    /// What is not done by the end has a reason that lasts, or takes longer.
    fn conclude(mut self) -> Outlook {
        let never = |reason: Reason| match reason.needs_an_operator() {
            true => Fate::Never(reason),
            false => Fate::Late,
        };
        for file in &self.open {
            let Some((group, _)) = self.summary.groups.get(file) else { continue };
            let reason = self.scheduler.why_recalling(*file, self.now).unwrap_or(Reason::NothingWaits);
            // If no tape is to give it, it waits for what is not known here.
            let fate = if group.copies().is_empty() { Fate::Late } else { never(reason) };
            for vid in group.copies() {
                self.outlook.tapes.entry(*vid).or_insert_with(|| fate.clone());
            }
            self.outlook.groups.insert(group.clone(), fate);
        }
        for tape_pool in self.queued.keys() {
            let fate = never(self.scheduler.why_migrating(*tape_pool, self.now));
            self.outlook.tape_pools.insert(*tape_pool, fate);
        }
        for class in &self.open_classes {
            let fate = never(self.scheduler.why_sealing(*class, self.now));
            self.outlook.classes.insert(*class, fate);
        }
        self.outlook.steps = self.steps;
        self.outlook
    }
}
