//! A tiny archive in virtual time: carries out actions, answers with events, and checks that each action is
//! legal.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet};

use base::{
    BlockAddress, ByteCount, ClassId, Duration, FileId, LibraryId, ShareId, TapePoolId, Timestamp, Vid,
};
use mechanics::{LocateCost, TapeMap, Track};
use scheduler::{
    Action, Backlog, ClassPolicy, DriveName, DriveState, Event, Policy, Scheduler, SessionEnd,
    TapePoolPolicy, TapeSummary,
};

use crate::sessions::{Reader, WriteStep, Writer, wanted};

pub const GB: u64 = 1_000_000_000;
/// More steps than any test needs; a scheduler that asks in circles is stopped here.
const STEPS_MAX: u64 = 2_000_000;

pub fn vid(number: usize) -> Vid {
    Vid::new(&format!("T{number:05}")).unwrap()
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn at(n: i64) -> Timestamp {
    Timestamp(n * 1_000_000_000)
}

/// Locates of a few seconds over a tape of ten million blocks.
fn track() -> Track {
    let locate = LocateCost {
        base_us: 4e6,
        wrap_change_us: 6e6,
        band_change_us: 3e6,
        landing_zone_change_us: 0.0,
        direction_change_us: 5e6,
        step_back_us: 0.0,
        lpos_us: 600.0,
        least_us: 1e6,
    };
    Track {
        map: TapeMap::even(100_000, 100, 0, 100, 0..100_000),
        locate,
        block_us: 1_000.0,
        error: Some(0.0),
        fitted: None,
    }
}

pub fn policy() -> Policy {
    let class =
        |name: &str| ClassPolicy { name: name.into(), pack_bytes: ByteCount(4 * GB), pack_age: secs(600) };
    let pool = |name: &str| TapePoolPolicy {
        name: name.into(),
        mount_bytes: ByteCount(50 * GB),
        mount_age: secs(3600),
        drives_max: 2,
        ..TapePoolPolicy::default()
    };
    Policy {
        classes: BTreeMap::from([(ClassId(1), class("raw")), (ClassId(2), class("user"))]),
        tape_pools: BTreeMap::from([(TapePoolId(1), pool("first")), (TapePoolId(2), pool("second"))]),
        recall_age: secs(300),
        recall_bytes: ByteCount(100 * GB),
        dismount_delay: secs(120),
        retry_delay: secs(900),
        ..Policy::default()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Slot {
    Down,
    Empty,
    Busy(Vid),
    Holds(Vid),
}

#[derive(Clone, Debug)]
struct Cartridge {
    library: LibraryId,
    suspect: bool,
    pool: Option<TapePoolId>,
    free: u64,
    readable: bool,
}

/// Something that ends later.
#[derive(Clone, Debug)]
enum Later {
    Tell(Event),
    Seal(ClassId),
    Mounted(DriveName, Vid, Option<TapePoolId>),
    Write(DriveName, Vid, TapePoolId),
    Read(DriveName, Vid),
    Unmounted(DriveName, Vid),
    Outside(Outside),
}

/// What happens to the archive from outside.
#[derive(Clone, Debug)]
pub enum Outside {
    Ingest { class: ClassId, bytes: u64 },
    Want { file: FileId, bytes: u64, copies: Vec<Vid> },
    WantFor { file: FileId, bytes: u64, copies: Vec<Vid>, priority: u8, share: ShareId },
    Cancel(FileId),
    DriveDown(usize),
    DriveUp(usize),
    FailMounts(u32),
    FailReads(u32),
    FailSessions(u32),
    Unreadable(Vid),
    Readable(Vid),
    MigrateNow(Option<ClassId>),
}

/// The drive that something happens in, and which of its lives; what it began ends with that life.
type Owner = Option<(DriveName, u64)>;

pub struct Engine {
    pub scheduler: Scheduler,
    pub now: Timestamp,
    pub log: Vec<(Timestamp, Action)>,
    pub mounts: u32,
    pub read: u64,
    pub todo: BTreeMap<ClassId, Vec<(Timestamp, u64)>>,
    pub queued: BTreeMap<TapePoolId, Vec<(Timestamp, u64)>>,
    pub wanted: BTreeMap<FileId, Vec<Vid>>,
    /// How long each file that was read had waited.
    pub waits: Vec<(FileId, Duration)>,
    /// Since when each wanted file waits.
    pub since: BTreeMap<FileId, Timestamp>,
    /// The longest session so far.
    pub session_max: Duration,
    /// Mounts, reads and sessions that failed because they were to.
    pub failed: u32,
    sessions: BTreeMap<DriveName, Timestamp>,
    readers: BTreeMap<DriveName, Reader>,
    writers: BTreeMap<DriveName, Writer>,
    /// Counts what came to be wanted.
    arrivals: u64,
    libraries: BTreeMap<DriveName, LibraryId>,
    track: Track,
    policy: Policy,
    drives: BTreeMap<DriveName, (Slot, u64)>,
    tapes: BTreeMap<Vid, Cartridge>,
    agenda: BTreeMap<(Timestamp, u64), (Owner, Later)>,
    sealing: BTreeSet<ClassId>,
    fail: [u32; 3],
    step: u64,
    check_every: u64,
}

impl Engine {
    pub fn new(policy: Policy, drives: usize) -> Self {
        Self::in_libraries(policy, &[drives])
    }

    /// So many drives in each library.
    pub fn in_libraries(policy: Policy, drives: &[usize]) -> Self {
        let mut engine = Engine {
            policy: policy.clone(),
            waits: Vec::new(),
            since: BTreeMap::new(),
            session_max: Duration::ZERO,
            failed: 0,
            sessions: BTreeMap::new(),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            arrivals: 0,
            libraries: BTreeMap::new(),
            track: track(),
            scheduler: Scheduler::new(policy),
            now: at(1_000_000),
            log: Vec::new(),
            mounts: 0,
            read: 0,
            todo: BTreeMap::new(),
            queued: BTreeMap::new(),
            wanted: BTreeMap::new(),
            drives: BTreeMap::new(),
            tapes: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sealing: BTreeSet::new(),
            fail: [0; 3],
            step: 0,
            check_every: 1,
        };
        for (library, drives) in drives.iter().enumerate() {
            for _ in 0..*drives {
                let (drive, library) = (name(engine.drives.len()), LibraryId(library as u16));
                engine.drives.insert(drive.clone(), (Slot::Empty, 0));
                engine.libraries.insert(drive.clone(), library);
                engine.tell(Event::DriveIn(drive.clone(), library));
                engine.tell(Event::DriveUp(drive));
            }
        }
        engine
    }

    /// Checks the scheduler's whole state only after each so many events.
    pub fn check_every(&mut self, events: u64) {
        self.check_every = events;
    }

    pub fn add_tape(&mut self, vid: Vid, pool: Option<u16>, free: u64) {
        self.add_tape_in(vid, 0, pool, free);
    }

    pub fn add_tape_in(&mut self, vid: Vid, library: u16, pool: Option<u16>, free: u64) {
        let (library, pool) = (LibraryId(library), pool.map(TapePoolId));
        let cartridge = Cartridge { library, suspect: false, pool, free, readable: true };
        self.tapes.insert(vid, cartridge);
        self.tell_tape(vid);
    }

    pub fn set_suspect(&mut self, vid: Vid, suspect: bool) {
        self.tapes.get_mut(&vid).unwrap().suspect = suspect;
        self.tell_tape(vid);
    }

    pub fn outside(&mut self, after: Duration, what: Outside) {
        self.later(after, None, Later::Outside(what));
    }

    /// Carries on until nothing is on the agenda but later than `span` from now.
    pub fn run(&mut self, span: Duration) {
        let end = self.now.plus(span);
        while let Some((&(time, _), _)) = self.agenda.first_key_value() {
            if time > end {
                break;
            }
            let Some(((time, _), (owner, later))) = self.agenda.pop_first() else { break };
            assert!(time >= self.now, "time runs forward");
            self.now = time;
            let alive = owner.is_none_or(|(drive, life)| self.drives[&drive].1 == life);
            if alive {
                self.happen(later);
            }
        }
        self.now = end;
    }

    pub fn is_drained(&self) -> bool {
        let todo = self.todo.values().all(Vec::is_empty);
        todo && self.queued.values().all(Vec::is_empty) && self.wanted.is_empty()
    }

    fn later(&mut self, after: Duration, owner: Option<&DriveName>, later: Later) {
        self.step += 1;
        assert!(self.step < STEPS_MAX, "the scheduler goes in circles at {}", self.now);
        let owner = owner.map(|drive| (drive.clone(), self.drives[drive].1));
        self.agenda.insert((self.now.plus(after), self.step), (owner, later));
    }

    pub fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.scheduler.step(self.now, event, &mut actions);
        self.step += 1;
        if self.step.is_multiple_of(self.check_every) {
            self.scheduler.assert_consistent();
        }
        for (share, (_, drives)) in self.scheduler.shares() {
            let limit = self.policy.shares.get(&share).map_or(usize::MAX, |share| share.drives_max);
            assert!(drives <= limit, "share {share} has {drives} drives at {}", self.now);
        }
        for action in actions {
            self.log.push((self.now, action.clone()));
            self.carry_out(action);
        }
    }

    fn tell_tape(&mut self, vid: Vid) {
        let tape = &self.tapes[&vid];
        let (free, readable, reason) = (ByteCount(tape.free), tape.readable, "set aside".into());
        let summary = TapeSummary {
            tape_pool: tape.pool,
            readable,
            writable: readable && free.0 > 0,
            free,
            written: ByteCount(0),
            labelled: true,
            mounts: 0,
            leaves: !readable,
            library: tape.library,
            suspect: tape.suspect,
            reason,
        };
        self.tell(Event::Tape(vid, summary));
    }

    fn backlog(items: Option<&Vec<(Timestamp, u64)>>) -> Backlog {
        let items = items.map_or(&[][..], |items| items);
        let bytes = ByteCount(items.iter().map(|(_, bytes)| bytes).sum());
        Backlog { items: items.len() as u64, bytes, oldest: items.iter().map(|(since, _)| *since).min() }
    }

    fn tell_queued(&mut self, pool: TapePoolId) {
        self.tell(Event::Queued(pool, Self::backlog(self.queued.get(&pool))));
    }

    fn tell_todo(&mut self, class: ClassId) {
        self.tell(Event::Todo(class, Self::backlog(self.todo.get(&class))));
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Seal { class, .. } => {
                assert!(self.sealing.insert(class), "one seal of a class at a time");
                self.later(secs(1), None, Later::Seal(class));
            }
            Action::Mount { drive, vid, assign } => {
                assert_eq!(self.drives[&drive].0, Slot::Empty, "mounts go into empty drives");
                let elsewhere = self.drives.values().any(|(slot, _)| match slot {
                    Slot::Busy(other) | Slot::Holds(other) => *other == vid,
                    _ => false,
                });
                assert!(!elsewhere, "tape {vid} is in two drives");
                assert_eq!(self.libraries[&drive], self.tapes[&vid].library, "drives take their own tapes");
                assert_eq!(assign.is_some(), assign.is_some() && self.tapes[&vid].pool.is_none());
                self.assert_robot(&drive);
                self.mounts += 1;
                self.set(&drive, Slot::Busy(vid));
                self.later(secs(90), Some(&drive.clone()), Later::Mounted(drive, vid, assign));
            }
            Action::Migrate { drive, vid, tape_pool } => {
                assert_eq!(self.drives[&drive].0, Slot::Holds(vid), "sessions need the tape, one at a time");
                assert_eq!(self.tapes[&vid].pool, Some(tape_pool), "a pool is written to its own tapes");
                self.begin_session(&drive);
                self.writers.insert(drive.clone(), Writer::new(vid));
                self.set(&drive, Slot::Busy(vid));
                self.later(secs(10), Some(&drive.clone()), Later::Write(drive, vid, tape_pool));
            }
            Action::Recall { drive, vid } => {
                assert_eq!(self.drives[&drive].0, Slot::Holds(vid), "sessions need the tape, one at a time");
                assert!(self.tapes[&vid].readable, "tape {vid} must not be read");
                self.begin_session(&drive);
                self.readers.insert(drive.clone(), Reader::new(vid));
                self.set(&drive, Slot::Busy(vid));
                self.later(secs(5), Some(&drive.clone()), Later::Read(drive, vid));
            }
            Action::Maintain { drive, vid } => panic!("nobody asked to check {vid} in {drive}"),
            Action::Clean { drive, .. } => panic!("nobody asks to clean {drive}"),
            Action::Unmount { drive } => {
                let Slot::Holds(vid) = self.drives[&drive].0 else { panic!("nothing to unmount in {drive}") };
                self.assert_robot(&drive);
                self.set(&drive, Slot::Busy(vid));
                self.later(secs(60), Some(&drive.clone()), Later::Unmounted(drive, vid));
            }
            Action::Clear { .. } => {}
            Action::WakeAt(time) => {
                assert!(time > self.now, "a tick in the past");
                let after = time.since(self.now);
                self.later(after, None, Later::Tell(Event::Tick));
            }
        }
    }

    fn set(&mut self, drive: &DriveName, slot: Slot) {
        self.drives.get_mut(drive).unwrap().0 = slot;
    }

    /// A robot begins to move a tape for this drive.
    fn assert_robot(&self, drive: &DriveName) {
        let library = self.libraries[drive];
        let moves =
            |state: &DriveState| matches!(state, DriveState::Mounting { .. } | DriveState::Unmounting { .. });
        let moving =
            self.scheduler.drives().filter(|(name, state)| self.libraries[*name] == library && moves(state));
        assert!(moving.count() <= self.policy.mounts_at_once_max, "too many tapes are moved in {library}");
    }

    fn begin_session(&mut self, drive: &DriveName) {
        self.sessions.insert(drive.clone(), self.now);
    }

    fn end_session(&mut self, drive: &DriveName) {
        let begun = self.sessions.remove(drive).expect("a session that ends has begun");
        self.session_max = self.session_max.max(self.now.since(begun));
    }

    fn fails(&mut self, kind: usize) -> bool {
        let fails = self.fail[kind] > 0;
        self.failed += u32::from(fails);
        self.fail[kind] = self.fail[kind].saturating_sub(1);
        fails
    }

    fn happen(&mut self, later: Later) {
        match later {
            Later::Tell(event) => self.tell(event),
            Later::Seal(class) => self.seal(class),
            Later::Mounted(drive, vid, assign) => {
                if self.fails(0) {
                    self.set(&drive, Slot::Empty);
                    self.tell(Event::MountFailed(drive, vid, "robot jam".into()));
                    return;
                }
                if assign.is_some() {
                    self.tapes.get_mut(&vid).unwrap().pool = assign;
                    self.tell_tape(vid);
                }
                self.set(&drive, Slot::Holds(vid));
                self.tell(Event::Mounted(drive, vid));
            }
            Later::Write(drive, vid, pool) => self.write(drive, vid, pool),
            Later::Read(drive, vid) => self.read(drive, vid),
            Later::Unmounted(drive, _) => {
                self.set(&drive, Slot::Empty);
                self.tell(Event::Unmounted(drive));
            }
            Later::Outside(outside) => self.outside_now(outside),
        }
    }

    /// Every class goes to both pools.
    fn seal(&mut self, class: ClassId) {
        let files = self.todo.remove(&class).unwrap_or_default();
        if !files.is_empty() {
            let bytes = files.iter().map(|(_, bytes)| bytes).sum();
            for pool in [TapePoolId(1), TapePoolId(2)] {
                self.queued.entry(pool).or_default().push((self.now, bytes));
            }
        }
        self.tell_todo(class);
        self.tell_queued(TapePoolId(1));
        self.tell_queued(TapePoolId(2));
        self.sealing.remove(&class);
        self.tell(Event::SealEnded(class));
    }

    fn write(&mut self, drive: DriveName, vid: Vid, pool: TapePoolId) {
        if self.fails(2) {
            return self.end_migration(drive, vid, SessionEnd::Failed("write error".into()));
        }
        let (now, tape) = (self.now, self.tapes.get_mut(&vid).unwrap());
        let (queue, writer) = (self.queued.entry(pool).or_default(), self.writers.get_mut(&drive).unwrap());
        match writer.go_on(now, tape.readable, queue, &mut tape.free) {
            WriteStep::Writes(_) => {
                self.tell_queued(pool);
                self.later(secs(10), Some(&drive.clone()), Later::Write(drive, vid, pool));
            }
            WriteStep::TapeFull => {
                tape.free = 0;
                self.tell_tape(vid);
                self.write(drive, vid, pool);
            }
            WriteStep::Ends(end) => self.end_migration(drive, vid, end.into()),
        }
    }

    fn end_migration(&mut self, drive: DriveName, vid: Vid, end: SessionEnd) {
        self.end_session(&drive);
        self.set(&drive, Slot::Holds(vid));
        self.tell(Event::MigrationEnded(drive, end));
    }

    fn end_recall(&mut self, drive: DriveName, vid: Vid, end: SessionEnd) {
        self.end_session(&drive);
        self.set(&drive, Slot::Holds(vid));
        self.tell(Event::RecallEnded(drive, end));
    }

    /// Files stand on tape in the order of their numbers, one block each.
    fn read(&mut self, drive: DriveName, vid: Vid) {
        if self.fails(2) {
            return self.end_recall(drive, vid, SessionEnd::Failed("drive error".into()));
        }
        let on_tape = || {
            let here = self.wanted.iter().filter(|(_, copies)| copies.contains(&vid));
            here.map(|(file, _)| wanted(*file, file.0, 1)).collect()
        };
        let now = self.now.since(Timestamp(0));
        let reader = self.readers.get_mut(&drive).unwrap();
        let next = reader.next(now, self.arrivals, &mut self.scheduler, &self.track, on_tape);
        let Some(file) = next else { return self.end_recall(drive, vid, SessionEnd::Drained) };
        reader.head = BlockAddress(file.0 + 1);
        if self.wanted.contains_key(&file) {
            if self.fails(1) {
                self.tell(Event::CopyFailed(file, vid));
            } else {
                self.wanted.remove(&file);
                let since = self.since.remove(&file).unwrap();
                self.waits.push((file, self.now.since(since)));
                self.read += 1;
                self.tell(Event::NotWanted(file));
            }
        }
        self.later(secs(5), Some(&drive.clone()), Later::Read(drive, vid));
    }

    fn outside_now(&mut self, outside: Outside) {
        match outside {
            Outside::Ingest { class, bytes } => {
                self.todo.entry(class).or_default().push((self.now, bytes));
                self.tell_todo(class);
            }
            Outside::Want { file, bytes, copies } => {
                let (priority, share) = (0, ShareId(0));
                self.outside_now(Outside::WantFor { file, bytes, copies, priority, share });
            }
            Outside::WantFor { file, bytes, copies, priority, share } => {
                self.arrivals += 1;
                self.wanted.insert(file, copies.clone());
                self.since.insert(file, self.now);
                let (bytes, since) = (ByteCount(bytes), self.now);
                self.tell(Event::Wanted { file, bytes, since, priority, share, copies });
            }
            Outside::Cancel(file) => {
                self.wanted.remove(&file);
                self.tell(Event::NotWanted(file));
            }
            Outside::DriveDown(drive) => {
                let drive = name(drive);
                if let Some((slot, life)) = self.drives.get_mut(&drive) {
                    (*slot, *life) = (Slot::Down, *life + 1);
                    self.tell(Event::DriveDown(drive, "on fire".into()));
                }
            }
            Outside::DriveUp(drive) => {
                let drive = name(drive);
                if self.drives.get(&drive).is_some_and(|(slot, _)| *slot == Slot::Down) {
                    self.set(&drive, Slot::Empty);
                    self.tell(Event::DriveUp(drive));
                }
            }
            Outside::FailMounts(count) => self.fail[0] = count,
            Outside::FailReads(count) => self.fail[1] = count,
            Outside::FailSessions(count) => self.fail[2] = count,
            Outside::Unreadable(vid) => self.set_readable(vid, false),
            Outside::Readable(vid) => self.set_readable(vid, true),
            Outside::MigrateNow(class) => self.tell(Event::MigrateNow(class)),
        }
    }

    fn set_readable(&mut self, vid: Vid, readable: bool) {
        if let Some(tape) = self.tapes.get_mut(&vid) {
            tape.readable = readable;
            self.tell_tape(vid);
        }
    }

    /// Mounts of this tape so far.
    pub fn mounts_of(&self, vid: Vid) -> usize {
        self.log
            .iter()
            .filter(|(_, action)| matches!(action, Action::Mount { vid: of, .. } if *of == vid))
            .count()
    }
}

pub fn name(drive: usize) -> DriveName {
    format!("drive{drive}")
}
