//! A site in virtual time: the production scheduler and sessions, driven as the engine drives them.
//!
//! Everything that happens stands on an agenda; each event changes the world, tells the scheduler, and what
//! the scheduler orders enters the agenda again. What a drive does until its next event is computed at once:
//! up to a batch of a recall, or up to a flush of a migration.
//!
//! # What the model leaves out
//!
//! - Small data sets go together in the order of their numbers, not by where they stand in the tree. Other
//!   systems take containers in turn, not by data set.
//! - Blocks and headers: files stand byte by byte one behind the other; compression.
//! - Archive mode unthreading and what an unload winds more after large transfers (LTO-9), a cartridge's
//!   first load, drives' recommended orders (RAO). Drives get dirty by faults alone, not by work.
//! - Repacking, verifying, scrubbing, deletes but for those of a record; copies of a lost tape are not made
//!   again once a file was safe.
//! - A new plan of a session is made when something new is wanted from its own tape, not from any. With more
//!   than 128 files in it (the server: 4,096) what is new is put where it costs least.
//! - The pool writes as fast as its streams get: a batch is stored when its last byte was read.
//! - A stream's share is looked at once for each client's file, and every 4 GiB of a tape's.
//! - A sealed container takes 100 ms to make, whatever its size.
//! - A lost drive's tape is in its slot at once. A server that stops waits for its robots before it starts.
//! - Requests of clients while the server is down are accepted, and wait.

mod agenda;
mod cleaning;
mod drives;
mod faults;
mod invariants;
mod migrate;
mod planted;
mod recall;
mod recorded;
mod requests;
mod restart;
mod room;
mod seal;
mod span;
mod supply;
mod trace;
mod volume;
mod wants;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Duration, FileId};
use scheduler::{Action, DriveName, Event, Scheduler};

use self::agenda::{Agenda, What};
use self::cleaning::Cleaning;
use self::drives::{Drive, Library, TapeState};
use self::faults::{Pending, Source};
use self::invariants::Check;
use self::migrate::Migration;
use self::requests::Streams;
use self::room::Room;
use self::wants::{Ledger, Wants};
use crate::cache::Cache;
use crate::disks::Feed;
use crate::holdings::{Holdings, TapeIndex};
use crate::meter::{End, Level, Meter};
use crate::moment::Moment;
use crate::users::{Act, Users};
use report::outcome::Outcome;
use scenario::model::{FaultKind, Model};

pub use planted::Planted;
pub use recorded::{Leaves, TapeIs, run_recorded};
pub use trace::{MountKind, MountTrace, ServedTrace, Trace};

/// Bytes of a block.
const BLOCK: u64 = 512 << 10;
/// Who watches is told after so many events.
const WATCH_EVENTS: u64 = 10_000;
/// A seal takes so long.
const SEAL_TIME: Duration = Duration::from_millis(100);

/// Runs a model to its end.
#[must_use]
pub fn run(model: &Model, seed: u64) -> Outcome {
    run_planted(model, seed, None)
}

/// The same with a bug planted in the world. What panics inside becomes the outcome's violation.
#[must_use]
pub fn run_planted(model: &Model, seed: u64, planted: Option<Planted>) -> Outcome {
    run_watched(model, seed, planted, &mut |_, _| {})
}

/// The same, telling now and then how far it is: the present, and events since it told before.
#[must_use]
pub fn run_watched(
    model: &Model,
    seed: u64,
    planted: Option<Planted>,
    watch: &mut dyn FnMut(Moment, u64),
) -> Outcome {
    let running = std::panic::AssertUnwindSafe(|| {
        let mut world = World::new(model, seed, planted);
        let mut events = 0;
        while world.step() {
            events += 1;
            if events == WATCH_EVENTS {
                watch(world.now, events);
                events = 0;
            }
        }
        watch(world.now, events);
        world.finish()
    });
    std::panic::catch_unwind(running).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("?");
        let violation = Some(format!("seed {seed}: an assertion failed: {text}"));
        Outcome { variant: model.name.clone(), seed, violation, ..Outcome::default() }
    })
}

/// A site in virtual time.
pub struct World<'m> {
    model: &'m Model,
    seed: u64,
    now: Moment,
    end: Moment,
    agenda: Agenda,
    scheduler: Scheduler,
    /// Events that were told while another one was being worked on.
    told: VecDeque<Event>,
    is_telling: bool,
    actions: Vec<Action>,
    names: BTreeMap<DriveName, usize>,
    drives: Vec<Drive>,
    repairs: Vec<Moment>,
    libraries: Vec<Library>,
    tapes: Vec<TapeState>,
    holdings: Holdings,
    users: Users,
    users_at: Moment,
    acts: Vec<Act>,
    cache: Cache,
    feed: Feed,
    meter: Meter,
    wants: Wants,
    ledger: Ledger,
    admitted: u64,
    /// Wanted files that the tape system is not told of yet.
    outside: VecDeque<FileId>,
    bad_copies: BTreeSet<(FileId, TapeIndex)>,
    migration: Migration,
    room: Room,
    room_lacked: bool,
    streams: Vec<Streams>,
    saturated: Moment,
    saturate_at: Moment,
    pending: Pending,
    cleaning: Cleaning,
    sources: Vec<Source>,
    slow: BTreeMap<FaultKind, Moment>,
    is_storm: bool,
    is_up: bool,
    wake: Moment,
    is_level_new: bool,
    events: u64,
    steps: u64,
    mount_max: Duration,
    unmount_max: Duration,
    session_max: Duration,
    checks: invariants::Checks,
    violation: Option<String>,
    spans: span::Spans,
    /// Files that leave the pool at times that were recorded.
    evictions: VecDeque<(Moment, FileId, Leaves)>,
    /// Files that were recorded to have left by now, and were not there or had not all their copies.
    overdue: BTreeSet<FileId>,
    /// Files that were recorded to have been removed by now, and are not wholly in the pool yet.
    removed: BTreeSet<FileId>,
    /// An operator had everything written at once; whoever has written answers with an index.
    haste: session::Haste,
    /// What is written down for a comparison with a record.
    trace: Option<Trace>,
    planted: Option<Planted>,
    has_struck: bool,
}

impl<'m> World<'m> {
    /// The world at its beginning: everything is told to the scheduler, nothing has happened yet.
    #[must_use]
    pub fn new(model: &'m Model, seed: u64, planted: Option<Planted>) -> Self {
        let mut world = World::over(model, seed, planted, Holdings::new(&model.site, seed));
        world.close_full_tapes();
        world.begin();
        world
    }

    /// The same over holdings that were made before; [`World::begin`] is still to be called.
    pub(crate) fn over(
        model: &'m Model,
        seed: u64,
        planted: Option<Planted>,
        mut holdings: Holdings,
    ) -> Self {
        let site = &model.site;
        let cache = Cache::new(site, &mut holdings);
        let drives = drives::drives(&site.libraries, site.work.writing_rules(), World::reading_rules(model));
        let names: Vec<String> = drives.iter().map(|drive| drive.name.clone()).collect();
        let count = names.len();
        let sources = model.faults.iter().enumerate().map(|(at, fault)| Source::new(fault, seed, at));
        World {
            model,
            seed,
            now: Moment(0),
            end: Moment(0).plus(model.span),
            agenda: Agenda::default(),
            scheduler: Scheduler::new(model.policy.clone()),
            told: VecDeque::new(),
            is_telling: false,
            actions: Vec::new(),
            names: names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect(),
            repairs: vec![Moment(0); drives.len()],
            drives,
            libraries: drives::libraries(&site.libraries),
            tapes: holdings.tapes().iter().map(|_| TapeState::default()).collect(),
            users: Users::new(model, seed),
            users_at: Moment(u64::MAX),
            acts: Vec::new(),
            cache,
            feed: Feed::new(&site.pool, &site.path),
            meter: Meter::new(model, seed, names),
            wants: Wants::default(),
            ledger: Ledger::default(),
            admitted: 0,
            outside: VecDeque::new(),
            bad_copies: BTreeSet::new(),
            migration: Migration::new(site, &holdings),
            holdings,
            room: Room::new(site),
            room_lacked: false,
            streams: vec![Streams::default(); model.workloads.len()],
            saturated: Moment(0),
            saturate_at: Moment(0),
            pending: Pending::default(),
            cleaning: Cleaning::new(model, count),
            sources: sources.collect(),
            slow: BTreeMap::new(),
            is_storm: false,
            is_up: true,
            wake: Moment(u64::MAX),
            is_level_new: true,
            events: 0,
            steps: 0,
            mount_max: Duration::ZERO,
            unmount_max: Duration::ZERO,
            session_max: Duration::ZERO,
            checks: invariants::Checks::default(),
            violation: None,
            spans: span::Spans::default(),
            evictions: VecDeque::new(),
            overdue: BTreeSet::new(),
            removed: BTreeSet::new(),
            haste: session::Haste::default(),
            trace: None,
            planted,
            has_struck: false,
        }
    }

    /// Tells the scheduler of everything; nothing has happened yet.
    pub(crate) fn begin(&mut self) {
        for at in 0..self.sources.len() {
            let begin = Moment(0).plus(self.model.faults[at].begin);
            let next = self.sources[at].next(begin);
            self.agenda.enter(next, What::Fault(at as u16));
        }
        for class in 0..self.model.site.classes.len() {
            let class = scenario::model::ClassIndex(class as u16);
            self.meter.pool_of(self.now, class, self.cache.used_of(class));
        }
        self.tell_all();
        self.evict();
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// The scheduler, to ask it.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The next thing happens; `false`: the run is over.
    pub fn step(&mut self) -> bool {
        self.plan_users();
        if self.violation.is_some() || (self.model.until_done && self.is_done()) {
            return false;
        }
        if self.agenda.next().is_none_or(|next| next > self.end) {
            self.checked(Check::NothingForgotten);
            if self.agenda.next().is_none() && self.wants.len() > 0 {
                self.violated(format!("{} wanted files are waited for by nobody", self.wants.len()));
            }
            if self.agenda.next().is_some() || !self.model.until_done {
                self.now = self.end;
            }
            return false;
        }
        let Some((at, what)) = self.agenda.pop() else { return false };
        if at > self.now {
            self.tell_level();
            self.now = at;
        }
        self.events += 1;
        self.happen(what);
        self.check_event();
        true
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Users => {
                if self.users_at <= self.now {
                    self.users_at = Moment(u64::MAX);
                    self.users_event();
                }
            }
            What::Tick => {
                if self.wake <= self.now {
                    self.wake = Moment(u64::MAX);
                    self.tell(Event::Tick);
                }
            }
            What::Drive { drive, life } => {
                let drive = usize::from(drive);
                if self.drives[drive].life == life {
                    self.drive_event(drive);
                }
            }
            What::Wrote { file, from, wanted } => self.client_wrote(file, from, wanted),
            What::Read { file, from, wanted } => self.client_read(file, from, wanted),
            What::Seal { class, partial } => {
                if self.is_up && self.migration.todo[usize::from(class)].is_sealing() {
                    self.seal(class, partial);
                }
            }
            What::Evict => self.evict_event(),
            What::EvictRecorded => self.evict_recorded(),
            What::MigrateNow => self.migrate_all_now(),
            What::Room => self.room_event(),
            What::Pins => self.end_pins(),
            What::Saturate => self.saturate_event(),
            What::Fault(at) => self.fault_event(usize::from(at)),
            What::FaultEnds(at) => self.fault_ends(usize::from(at)),
            What::Repaired { drive } => self.repaired(usize::from(drive)),
            What::NewCleaner { library } => self.new_cleaner(usize::from(library)),
            What::Start => self.start_server(),
        }
    }

    fn plan_users(&mut self) {
        if let Some(next) = self.users.next().filter(|next| *next < self.users_at) {
            self.users_at = next.max(self.now);
            self.agenda.enter(self.users_at, What::Users);
        }
    }

    /// Tells the scheduler of an event and carries out what it orders. While the server is down nothing is
    /// told: all of it is, when it starts.
    fn tell(&mut self, event: Event) {
        if !self.is_up {
            return;
        }
        if self.is_telling {
            self.told.push_back(event);
            return;
        }
        self.is_telling = true;
        let mut next = Some(event);
        let mut actions = std::mem::take(&mut self.actions);
        while let Some(event) = next {
            self.steps += 1;
            self.scheduler.step(self.now.timestamp(), event, &mut actions);
            for action in actions.drain(..) {
                self.carry_out(action);
            }
            next = self.told.pop_front();
        }
        self.actions = actions;
        self.is_telling = false;
    }

    fn carry_out(&mut self, action: Action) {
        let of =
            |names: &BTreeMap<DriveName, usize>, drive: &DriveName| names.get(drive).copied().unwrap_or(0);
        match action {
            Action::Seal { class, partial } => self.begin_seal(class, partial),
            Action::Mount { drive, vid, assign } => {
                let drive = of(&self.names, &drive);
                self.mount(drive, vid, assign.map(|pool| pool.0 - 1));
            }
            Action::Migrate { drive, tape_pool, vid } => {
                let drive = of(&self.names, &drive);
                if self.begins_session(drive, vid) {
                    self.migrate(drive, tape_pool);
                }
            }
            Action::Recall { drive, vid } => {
                let drive = of(&self.names, &drive);
                if self.begins_session(drive, vid) {
                    self.recall(drive);
                }
            }
            Action::Maintain { drive, vid } => {
                let drive = of(&self.names, &drive);
                if self.begins_session(drive, vid) {
                    self.maintain(drive);
                }
            }
            Action::Clean { drive, vid } => {
                let drive = of(&self.names, &drive);
                self.clean(drive, vid);
            }
            Action::Unmount { drive } => {
                let drive = of(&self.names, &drive);
                self.unmount(drive);
            }
            // No tape is suspect in the twin.
            Action::Clear { vid, .. } => {
                let tape = Holdings::index_of(vid).filter(|tape| (tape.0 as usize) < self.tapes.len());
                if let Some(tape) = tape.filter(|tape| self.tapes[tape.0 as usize].is_suspect) {
                    self.tapes[tape.0 as usize].is_suspect = false;
                    self.tell_tape(tape);
                }
            }
            Action::WakeAt(at) => {
                let at = Moment::of(at);
                if at < self.wake {
                    self.wake = at;
                    self.agenda.enter(at, What::Tick);
                }
            }
        }
    }

    /// Whether everything that was asked for is done.
    fn is_done(&self) -> bool {
        self.is_drained() && self.users.is_over()
    }

    fn is_drained(&self) -> bool {
        self.wants.len() == 0
            && self.migration.is_drained()
            && self.room.puts_waiting == 0
            && self.room.clients == 0
    }

    fn tell_level(&mut self) {
        let used = self.cache.used();
        let backlog = self.migration.backlog;
        if !self.is_level_new && (used, backlog) == self.checks.levelled {
            return;
        }
        self.is_level_new = false;
        self.checks.levelled = (used, backlog);
        let level =
            Level { queue: self.wants.len() as u64, oldest: self.wants.oldest(), backlog, pool_used: used };
        self.meter.level(self.now, level);
    }

    /// What came of it.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        self.is_level_new = true;
        self.tell_level();
        for drive in 0..self.drives.len() {
            self.end_trail(drive);
        }
        self.saturate_event();
        let is_drained = self.is_drained() && (self.users.is_over() || !self.model.until_done);
        self.check_end(is_drained);
        let (read, written) = self.feed.sums();
        self.meter.pool_io(read, written);
        for (name, times) in self.checks.counts() {
            self.meter.checks(name, times);
        }
        let violation = self.violation.take();
        let (events, steps) = (self.events, self.steps);
        let scratch = self.holdings.tapes().iter().filter(|tape| tape.tape_pool.is_none() && !tape.is_lost);
        let (scratch_left, puts_waiting) = (scratch.count() as u64, self.room.puts_waiting as u64);
        let (no_tape_since, no_tape_bytes) = self.without_tape();
        let no_room_bytes = self.without_room();
        let end = End {
            is_drained,
            violation,
            events,
            steps,
            scratch_left,
            puts_waiting,
            puts_too_large: self.room.puts_too_large,
            no_tape_since,
            no_tape_bytes,
            no_room_bytes,
        };
        self.meter.finish(self.now, end)
    }
}
