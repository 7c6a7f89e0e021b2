//! An archive with jitter, faults and tapes of some length.

use std::collections::{BTreeMap, BTreeSet};

use base::{
    BlockAddress, ByteCount, ClassId, Duration, FileId, RequestId, ShareId, TapePoolId, Timestamp, Vid,
};
use mechanics::{LocateCost, TapeMap, Track};
use scheduler::{
    Action, Backlog, ClassPolicy, DriveName, Event, Expected, Forecast, Forecaster, Pace, Policy, Scheduler,
    SessionEnd, Subject, TapePoolPolicy, TapeSummary, TimeRange, WantedGroup,
};

use crate::sessions::{Reader, WriteStep, Writer, wanted};

const GB: u64 = 1_000_000_000;
const TAPES: u64 = 30;
const POOL: TapePoolId = TapePoolId(1);
const CLASS: ClassId = ClassId(1);
/// Requests come for so long.
const DAYS: u64 = 4;
/// Blocks of 1 MB; a tape of 12 TB.
const BLOCKS: u64 = 12_000_000;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|seed| seed * 7_919)
}

fn vid(number: u64) -> Vid {
    Vid::new(&format!("T{number:05}")).unwrap()
}

/// One range given, and what came.
#[derive(Clone, Debug)]
pub struct Told {
    pub what: &'static str,
    pub made: Timestamp,
    pub range: TimeRange,
    pub came: Timestamp,
}

impl Told {
    pub fn holds(&self) -> bool {
        self.range.earliest <= self.came && self.came <= self.range.latest
    }

    pub fn holds_shrunk(&self, factor: f64) -> bool {
        let early = self.range.likely.since(self.range.earliest).mul_f64(factor);
        let late = self.range.latest.since(self.range.likely).mul_f64(factor);
        self.range.likely.since(self.came) <= early && self.came.since(self.range.likely) <= late
    }

    pub fn width(&self) -> Duration {
        self.range.latest.since(self.range.earliest)
    }

    pub fn waited(&self) -> Duration {
        self.came.since(self.made)
    }

    /// The longest wait told over the shortest, of which a minute is no matter.
    pub fn spread(&self) -> f64 {
        let wait = |at: Timestamp| at.since(self.made).as_secs_f64() + 60.0;
        wait(self.range.latest) / wait(self.range.earliest)
    }
}

/// What ends later, and the drive's life in which it counts.
type Due = (Option<(DriveName, Life)>, Later);

/// Something that ends later.
#[derive(Clone, Debug)]
enum Later {
    Tell(Event),
    Mounted(DriveName, Vid),
    Read(DriveName, Vid),
    Write(DriveName, Vid),
    Sealed,
    Unmounted(DriveName),
    Request,
    Ingest,
    Fail(DriveName),
    Ask,
}

#[derive(Clone, Debug)]
struct File {
    copies: Vec<(Vid, u64)>,
    bytes: u64,
    request: RequestId,
}

#[derive(Clone, Debug)]
struct Request {
    files: u64,
    left: BTreeSet<FileId>,
    asked_on_the_way: bool,
}

/// What an open forecast speaks of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum About {
    Subject(Subject),
    File(FileId),
}

/// How often a drive was emptied by a failure; what it began before ends with that.
type Life = u64;

pub struct World {
    pub told: Vec<Told>,
    pub failures: u32,
    scheduler: Scheduler,
    forecaster: Forecaster,
    now: Timestamp,
    seq: u64,
    number: u64,
    agenda: BTreeMap<(Timestamp, u64), Due>,
    lives: BTreeMap<DriveName, Life>,
    files: BTreeMap<FileId, File>,
    on_tape: BTreeMap<Vid, BTreeSet<(u64, FileId)>>,
    readers: BTreeMap<DriveName, Reader>,
    writers: BTreeMap<DriveName, Writer>,
    /// Counts what came to be wanted.
    arrivals: u64,
    reading: BTreeMap<DriveName, Vid>,
    requests: BTreeMap<RequestId, Request>,
    next: u64,
    todo: Vec<(Timestamp, u64)>,
    queued: Vec<(Timestamp, u64)>,
    free: BTreeMap<Vid, u64>,
    open: Vec<(About, &'static str, Timestamp, TimeRange)>,
    track: Track,
    until: Timestamp,
}

fn policy() -> Policy {
    let class = ClassPolicy { name: "raw".into(), pack_bytes: ByteCount(10 * GB), pack_age: secs(1_800) };
    let pool = TapePoolPolicy {
        name: "first".into(),
        mount_bytes: ByteCount(500 * GB),
        mount_age: secs(4 * 3_600),
        drives_max: 1,
        ..TapePoolPolicy::default()
    };
    Policy {
        classes: BTreeMap::from([(CLASS, class)]),
        tape_pools: BTreeMap::from([(POOL, pool)]),
        recall_age: secs(300),
        recall_bytes: ByteCount(200 * GB),
        dismount_delay: secs(120),
        retry_delay: secs(900),
        ..Policy::default()
    }
}

fn track() -> Track {
    let locate = LocateCost {
        base_us: 4.29e6,
        wrap_change_us: 6.69e6,
        band_change_us: 3.2e6,
        landing_zone_change_us: -6.04e6,
        direction_change_us: 5.22e6,
        step_back_us: 11.32e6,
        lpos_us: 619.2,
        least_us: 1e6,
    };
    let map = TapeMap::even(BLOCKS / 208, 208, 0, 208, 2_696..171_097);
    Track { map, locate, block_us: 1e12 / 3.6e8 / 1e6, error: Some(0.0), fitted: None }
}

impl World {
    pub fn run(seed: u64) -> World {
        let pace = Pace { tape_pools: BTreeMap::from([(CLASS, vec![POOL])]), ..Pace::default() };
        let mut world = World {
            told: Vec::new(),
            failures: 0,
            scheduler: Scheduler::new(policy()),
            forecaster: Forecaster::new(pace),
            now: Timestamp(1_000_000_000_000_000),
            seq: 0,
            number: seed,
            agenda: BTreeMap::new(),
            lives: BTreeMap::new(),
            files: BTreeMap::new(),
            on_tape: BTreeMap::new(),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            arrivals: 0,
            reading: BTreeMap::new(),
            requests: BTreeMap::new(),
            next: 1,
            todo: Vec::new(),
            queued: Vec::new(),
            free: BTreeMap::new(),
            open: Vec::new(),
            track: track(),
            until: Timestamp(0),
        };
        world.until = world.now.plus(secs(DAYS * 86_400));
        world.begin();
        // Twice as long: by then everything is done.
        let end = world.now.plus(secs(2 * DAYS * 86_400));
        while let Some(((at, _), (owner, later))) = world.agenda.pop_first() {
            if at > end {
                break;
            }
            world.now = at;
            if owner.is_none_or(|(drive, life)| world.lives[&drive] == life) {
                world.happen(later);
            }
        }
        assert!(world.requests.values().all(|request| request.left.is_empty()), "everything came");
        world
    }

    fn begin(&mut self) {
        let drives = 3 + self.below(3);
        for drive in 0..drives {
            let name = format!("drive{drive}");
            self.lives.insert(name.clone(), 0);
            self.tell(Event::DriveUp(name.clone()));
            let first = self.below(2 * 86_400);
            self.later(secs(first), None, Later::Fail(name));
        }
        for number in 0..TAPES {
            let free = if number < 6 { 4_000 * GB } else { 0 };
            self.free.insert(vid(number), free);
            self.tell_tape(vid(number));
        }
        self.later(secs(60), None, Later::Request);
        self.later(secs(90), None, Later::Ingest);
        self.later(secs(1_200), None, Later::Ask);
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.number =
            self.number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.number >> 33) % limit
    }

    /// Around `mean` seconds, now and then three times as long.
    fn jitter(&mut self, mean: u64) -> Duration {
        let long = if self.below(20) == 0 { 3 } else { 1 };
        Duration::from_millis(long * (mean * 600 + self.below(mean * 800)))
    }

    fn later(&mut self, after: Duration, owner: Option<&DriveName>, later: Later) {
        self.seq += 1;
        let owner = owner.map(|drive| (drive.clone(), self.lives[drive]));
        self.agenda.insert((self.now.plus(after), self.seq), (owner, later));
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.forecaster.step(&mut self.scheduler, self.now, event.clone(), &mut actions);
        self.note(&event);
        for action in actions {
            self.carry_out(action);
        }
    }

    fn tell_tape(&mut self, vid: Vid) {
        let free = ByteCount(self.free[&vid]);
        let summary = TapeSummary {
            tape_pool: Some(POOL),
            readable: true,
            writable: free.0 > 0,
            free,
            labelled: true,
            mounts: 0,
            reason: String::new(),
            ..TapeSummary::default()
        };
        self.tell(Event::Tape(vid, summary));
    }

    fn backlog(items: &[(Timestamp, u64)]) -> Backlog {
        let bytes = ByteCount(items.iter().map(|(_, bytes)| bytes).sum());
        Backlog { items: items.len() as u64, bytes, oldest: items.first().map(|(since, _)| *since) }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Mount { drive, vid, .. } => {
                let takes = self.jitter(75);
                self.later(takes, Some(&drive.clone()), Later::Mounted(drive, vid));
            }
            Action::Clean { drive, .. } => panic!("nobody asks to clean {drive}"),
            Action::Unmount { drive } => {
                let takes = self.jitter(110);
                self.later(takes, Some(&drive.clone()), Later::Unmounted(drive));
            }
            Action::Recall { drive, vid } => {
                self.readers.insert(drive.clone(), Reader::new(vid));
                self.reading.insert(drive.clone(), vid);
                self.later(secs(15), Some(&drive.clone()), Later::Read(drive, vid));
            }
            Action::Migrate { drive, vid, .. } => {
                self.writers.insert(drive.clone(), Writer::new(vid));
                let takes = self.jitter(30);
                self.later(takes, Some(&drive.clone()), Later::Write(drive, vid));
            }
            Action::Seal { .. } => {
                let takes = self.jitter(20);
                self.later(takes, None, Later::Sealed);
            }
            Action::Clear { .. } => {}
            Action::WakeAt(at) => self.later(at.since(self.now), None, Later::Tell(Event::Tick)),
            Action::Maintain { .. } => panic!("nobody asked for maintenance"),
        }
    }

    fn happen(&mut self, later: Later) {
        match later {
            Later::Tell(event) => self.tell(event),
            Later::Mounted(drive, vid) => self.tell(Event::Mounted(drive, vid)),
            Later::Unmounted(drive) => self.tell(Event::Unmounted(drive)),
            Later::Read(drive, vid) => self.read(drive, vid),
            Later::Write(drive, vid) => self.write(drive, vid),
            Later::Sealed => self.sealed(),
            Later::Ingest => self.ingest(),
            Later::Request => {
                self.request();
                let wait = 120 + self.below(3_600);
                if self.now.plus(secs(wait)) < self.until {
                    self.later(secs(wait), None, Later::Request);
                }
            }
            Later::Ask => {
                self.ask();
                if self.now < self.until || self.requests.values().any(|request| !request.left.is_empty()) {
                    self.later(secs(1_200), None, Later::Ask);
                }
            }
            Later::Fail(drive) => {
                self.failures += 1;
                self.reading.remove(&drive);
                self.readers.remove(&drive);
                self.writers.remove(&drive);
                *self.lives.get_mut(&drive).unwrap() += 1;
                self.tell(Event::DriveFailed(drive.clone(), "it hangs".into()));
                let next = 86_400 + self.below(2 * 86_400);
                if self.now.plus(secs(next)) < self.until {
                    self.later(secs(next), None, Later::Fail(drive));
                }
            }
        }
    }

    fn ingest(&mut self) {
        let bytes = (5 + self.below(40)) * GB;
        self.todo.push((self.now, bytes));
        self.tell(Event::Todo(CLASS, Self::backlog(&self.todo)));
        let wait = 120 + self.below(900);
        if self.now < self.until {
            self.later(secs(wait), None, Later::Ingest);
        }
    }

    fn sealed(&mut self) {
        let bytes: u64 = self.todo.drain(..).map(|(_, bytes)| bytes).sum();
        if bytes > 0 {
            self.queued.push((self.now, bytes));
        }
        self.tell(Event::Todo(CLASS, Backlog::default()));
        self.tell(Event::Queued(POOL, Self::backlog(&self.queued)));
        self.tell(Event::SealEnded(CLASS));
    }

    /// A few files of one tape, a campaign over many, or a large part of one tape.
    fn request(&mut self) {
        let id = RequestId(self.next);
        self.next += 1;
        let shape = self.below(10);
        let (tapes, files) = match shape {
            0..=5 => (1, 1 + self.below(6)),
            6..=7 => (3 + self.below(9), 20 + self.below(120)),
            8 => (1, 60 + self.below(200)),
            _ => (1 + self.below(3), 10 + self.below(30)),
        };
        let tapes: Vec<u64> = (0..tapes).map(|_| self.below(TAPES)).collect();
        let mut left = BTreeSet::new();
        for _ in 0..files {
            let first = tapes[self.below(tapes.len() as u64) as usize];
            let mut copies = vec![(vid(first), self.below(BLOCKS))];
            if self.below(3) == 0 {
                let second = (first + 1 + self.below(TAPES - 1)) % TAPES;
                copies.push((vid(second), self.below(BLOCKS)));
            }
            let file = FileId(self.next);
            self.next += 1;
            let bytes = (1 + self.below(4)) * GB;
            for (vid, block) in &copies {
                self.on_tape.entry(*vid).or_default().insert((*block, file));
            }
            left.insert(file);
            self.arrivals += 1;
            let tapes: Vec<Vid> = copies.iter().map(|(vid, _)| *vid).collect();
            self.files.insert(file, File { copies, bytes, request: id });
            let bytes = ByteCount(bytes);
            self.tell(Event::Wanted {
                file,
                bytes,
                since: self.now,
                priority: 0,
                share: ShareId(0),
                copies: tapes,
            });
        }
        let files = left.len() as u64;
        self.requests.insert(id, Request { files, left, asked_on_the_way: false });
        self.ask_of(id, "request");
    }

    fn read(&mut self, drive: DriveName, vid: Vid) {
        let Some(mut reader) = self.readers.remove(&drive) else { return };
        let (on_tape, files) = (&self.on_tape, &self.files);
        let all = || {
            let of = on_tape.get(&vid).into_iter().flatten();
            of.map(|(block, file)| wanted(*file, *block, files[file].bytes / 1_000_000)).collect()
        };
        let now = self.now.since(Timestamp(0));
        let next = reader.next(now, self.arrivals, &mut self.scheduler, &self.track, all);
        let Some(file) = next else {
            self.tell(Event::RecallEnded(drive, SessionEnd::Drained));
            return;
        };
        let bytes = self.files[&file].bytes;
        let block = self.files[&file].copies.iter().find(|(of, _)| *of == vid).map_or(0, |(_, block)| *block);
        let place = |block: u64| self.track.place(BlockAddress(block.min(BLOCKS - 1)));
        let way = self.track.locate_us(place(reader.head.0), place(block));
        let takes = way + self.track.read_us(bytes / 1_000_000);
        reader.head = BlockAddress(block + bytes / 1_000_000);
        self.readers.insert(drive.clone(), reader);
        self.later(Duration::from_micros(takes), Some(&drive.clone()), Later::Read(drive, vid));
        // Told at the begin of its reading; within a session that makes no odds.
        self.came(file);
    }

    fn came(&mut self, file: FileId) {
        let Some(known) = self.files.remove(&file) else { return };
        for (vid, block) in &known.copies {
            self.on_tape.get_mut(vid).unwrap().remove(&(*block, file));
        }
        self.close(&About::File(file));
        self.tell(Event::NotWanted(file));
        let request = self.requests.get_mut(&known.request).unwrap();
        request.left.remove(&file);
        if request.left.is_empty() {
            let subject = Subject::Request(known.request);
            self.forecaster.came(&subject, self.now);
            self.close(&About::Subject(subject));
        } else if 2 * request.left.len() as u64 <= request.files && !request.asked_on_the_way {
            request.asked_on_the_way = true;
            self.ask_of(known.request, "request, on the way");
        }
    }

    fn write(&mut self, drive: DriveName, vid: Vid) {
        let Some(writer) = self.writers.get_mut(&drive) else { return };
        let free = self.free.get_mut(&vid).expect("a tape that is written is known");
        match writer.go_on(self.now, true, &mut self.queued, free) {
            WriteStep::Writes(bytes) => {
                self.tell(Event::Queued(POOL, Self::backlog(&self.queued)));
                let takes = self.jitter(bytes / 330_000_000);
                self.later(takes, Some(&drive.clone()), Later::Write(drive, vid));
            }
            WriteStep::TapeFull => {
                *free = 0;
                self.tell_tape(vid);
                self.write(drive, vid);
            }
            WriteStep::Ends(end) => {
                self.writers.remove(&drive);
                self.tell(Event::MigrationEnded(drive, end.into()));
            }
        }
    }

    fn forecast(&mut self) -> Forecast {
        let outlook = self.forecaster.summary(&mut self.scheduler, self.now).run();
        self.forecaster.forecast(outlook)
    }

    /// Asks as a person would, about a request.
    fn ask_of(&mut self, id: RequestId, what: &'static str) {
        let forecast = self.forecast();
        let mut groups: BTreeMap<WantedGroup, u64> = BTreeMap::new();
        for file in &self.requests[&id].left {
            *groups.entry(self.scheduler.group_of(*file).unwrap()).or_default() += 1;
        }
        let told = forecast.of_request(&groups);
        assert_eq!(told.groups.len(), groups.len(), "every group is told of");
        let subject = Subject::Request(id);
        if let Some(nominal) = told.nominal {
            self.forecaster.foretell(subject.clone(), self.now, nominal);
        }
        assert!(told.expected.is_some(), "every request is foretold");
        self.told_of(About::Subject(subject), what, told.expected);
    }

    /// Asks about everything, as a monitor would.
    fn ask(&mut self) {
        let forecast = self.forecast();
        for number in 0..TAPES {
            let told = forecast.of_tape(vid(number));
            self.told_of(About::Subject(Subject::Tape(vid(number))), "tape", told);
        }
        for drive in self.lives.keys().cloned().collect::<Vec<_>>() {
            let told = forecast.of_drive(&drive);
            self.told_of(About::Subject(Subject::Drive(drive)), "drive", told);
        }
        self.told_of(About::Subject(Subject::TapePool(POOL)), "tape pool", forecast.of_tape_pool(POOL));
        self.told_of(About::Subject(Subject::Class(CLASS)), "class", forecast.of_class(CLASS));
        if !self.files.is_empty() {
            let at = self.below(self.files.len() as u64) as usize;
            let file = *self.files.keys().nth(at).unwrap();
            let group = self.scheduler.group_of(file).unwrap();
            self.told_of(About::File(file), "file", forecast.of_group(&group, 1));
        }
    }

    fn told_of(&mut self, about: About, what: &'static str, expected: Option<Expected>) {
        match expected {
            Some(Expected::Within(range)) => {
                assert!(range.earliest >= self.now && range.latest > self.now, "a range in the past");
                assert!(range.earliest <= range.likely && range.likely <= range.latest, "{range:?}");
                self.open.push((about, what, self.now, range));
            }
            Some(other) => panic!("{about:?}: {other:?}"),
            None => {}
        }
    }

    fn close(&mut self, about: &About) {
        self.close_if(about, |_| true);
    }

    fn close_if(&mut self, about: &About, holds: impl Fn(Timestamp) -> bool) {
        let came = self.now;
        let (over, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<_>, _>(|(of, _, made, _)| of == about && holds(*made));
        self.open = open;
        self.told.extend(over.into_iter().map(|(_, what, made, range)| Told { what, made, range, came }));
    }

    fn drop_open(&mut self, about: &About) {
        self.open.retain(|(of, ..)| of != about);
    }

    /// What an event says of open forecasts.
    fn note(&mut self, event: &Event) {
        let drive_ended = |world: &mut World, drive: &DriveName| {
            world.close(&About::Subject(Subject::Drive(drive.clone())));
        };
        match event {
            Event::RecallEnded(drive, end) => {
                drive_ended(self, drive);
                if let Some(vid) = self.reading.remove(drive).filter(|_| *end == SessionEnd::Drained) {
                    self.close(&About::Subject(Subject::Tape(vid)));
                }
            }
            Event::Mounted(drive, _) | Event::Unmounted(drive) | Event::MigrationEnded(drive, _) => {
                drive_ended(self, drive);
            }
            Event::DriveFailed(drive, _) => self.drop_open(&About::Subject(Subject::Drive(drive.clone()))),
            Event::SealEnded(_) => self.close(&About::Subject(Subject::Class(CLASS))),
            Event::Queued(..) => {
                let oldest = self.queued.first().map(|(since, _)| *since);
                let over = |made: Timestamp| oldest.is_none_or(|oldest| oldest > made);
                self.close_if(&About::Subject(Subject::TapePool(POOL)), over);
            }
            Event::NotWanted(_) => {
                // What was wanted from a tape may have come from another one.
                let gone: Vec<Vid> =
                    self.on_tape.iter().filter(|(_, files)| files.is_empty()).map(|(vid, _)| *vid).collect();
                for vid in gone {
                    self.on_tape.remove(&vid);
                    if !self.reading.values().any(|read| *read == vid) {
                        self.drop_open(&About::Subject(Subject::Tape(vid)));
                    }
                }
            }
            _ => {}
        }
    }
}
