//! Crash images: one history, cut at any point, with what was not synced lost, torn or there, and an engine
//! that is opened on what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use archive::{Archive, ArchiveError, PoolShape, PutOptions, Selection, Settings, StageOptions, has_ended};
use base::{ArchivePath, ByteCount, Clock, StripeCode, Timestamp};
use threads::simulated;

use crate::content::Content;
use crate::invariants::{Descriptor, Quiet, Rule, check_quiet, check_tree};
use crate::machines::{Dice, Journal, MachineConfig, Replay, RuntimePace, SimClock, SimMachines};
use crate::world::{below, settings};

/// When histories begin: 2026-11-21.
const START: Timestamp = Timestamp(1_795_219_200_000_000_000);
/// Between the history and what follows the crash.
const DAY: i64 = 86_400_000_000_000;
/// Clients that change files at the same time.
const CLIENTS: u64 = 3;
const PATHS: u64 = 5;
/// Virtual time within which all has to be done after a crash.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// One in so many images is cut once more.
const TWICE: u64 = 20;
const SECOND_CUTS: usize = 4;
const CELL: ByteCount = ByteCount::kib(16);

/// Something that a client did to a path.
#[derive(Clone, Debug)]
struct Fact {
    path: ArchivePath,
    /// What the path holds afterwards.
    content: Option<Content>,
    /// Length of the journal when it was asked for.
    begun: usize,
    /// And when it was acknowledged; `None` if it never was.
    acknowledged: Option<usize>,
}

/// A run without faults, and all that happened in it.
pub struct History {
    seed: u64,
    machines: SimMachines,
    settings: Settings,
    journal: Journal,
    facts: Vec<Fact>,
}

/// How far an image is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// It is opened, and what is in the pool is read.
    Opened,
    /// Some are also cut again, recalled from tape, or brought to an end.
    Whole,
}

/// What was done so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Histories run.
    pub histories: u64,
    /// Images opened.
    pub images: u64,
    /// Acknowledged files read back whole.
    pub files: u64,
    /// Files brought back from tape for that.
    pub recalled: u64,
    /// Images of what followed another image.
    pub second: u64,
    /// Images on which everything was brought to an end.
    pub finished: u64,
    /// Images in which a call was under way.
    pub in_flight: u64,
    /// Calls on machines in all histories, at each of which one may be cut.
    pub points: u64,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = [
            ("histories", self.histories),
            ("points to cut at", self.points),
            ("images opened", self.images),
            ("of them while a call was under way", self.in_flight),
            ("of a second crash", self.second),
            ("brought to an end", self.finished),
            ("files read back whole", self.files),
            ("of them recalled from tape", self.recalled),
        ];
        rows.iter().try_for_each(|(what, count)| writeln!(f, "{what:<36} {count:>12}"))
    }
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: Tally) {
        self.histories += other.histories;
        self.images += other.images;
        self.files += other.files;
        self.recalled += other.recalled;
        self.second += other.second;
        self.finished += other.finished;
        self.in_flight += other.in_flight;
        self.points += other.points;
    }
}

/// A broken promise, with all that is needed to see it again.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The history's seed.
    pub seed: u64,
    /// Where it was cut.
    pub at: usize,
    /// The seed of what the crash left.
    pub dice: u64,
    /// What was found.
    pub what: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Broken { seed, at, dice, what } = self;
        write!(f, "history {seed} cut at {at}, image {dice}: {what}")
    }
}

fn config() -> MachineConfig {
    MachineConfig {
        disks: 5,
        disk_capacity: ByteCount::mib(64),
        tapes: 5,
        tape_capacity: ByteCount::mib(24),
        ..MachineConfig::default()
    }
}

fn open(machines: &SimMachines, settings: &Settings, start: Timestamp) -> Result<Archive, String> {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(start, simulated::now));
    let opened = machines.open(Arc::clone(&clock)).map_err(|error| error.to_string())?;
    let shape = PoolShape { cell_size: Some(CELL), segment_size: Some(ByteCount::mib(1)) };
    Archive::open_shaped(opened, settings.clone(), clock, shape).map_err(|error| error.to_string())
}

fn pause(span: Duration) {
    simulated::pause(span);
}

/// The clients of a history.
struct Recorder {
    archive: Archive,
    journal: Journal,
    facts: Mutex<Vec<Fact>>,
}

impl Recorder {
    fn begin(&self, path: &ArchivePath, content: Option<Content>) -> usize {
        let fact = Fact { path: path.clone(), content, begun: self.journal.len(), acknowledged: None };
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.push(fact);
        facts.len() - 1
    }

    fn acknowledge(&self, number: usize) {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts[number].acknowledged = Some(self.journal.len());
    }

    fn put(&self, path: &ArchivePath, content: Content) -> Result<(), ArchiveError> {
        let options = PutOptions { make_parents: true, ..PutOptions::default() };
        let number = self.begin(path, Some(content));
        let mut upload = self.archive.begin_put(path, options)?;
        for chunk in content.bytes().chunks(50_000) {
            upload.write(chunk)?;
        }
        upload.finish()?;
        self.acknowledge(number);
        Ok(())
    }

    fn client(&self, client: u64, operations: u64) -> Result<(), ArchiveError> {
        let mut held: BTreeMap<u64, Content> = BTreeMap::new();
        for operation in 0..operations {
            let is_long = below(4) == 0;
            pause(Duration::from_millis(below(if is_long { 300_000 } else { 4_000 })));
            let name = below(PATHS);
            let at = path(client, name);
            match below(10) {
                0 | 1 if held.remove(&name).is_some() => {
                    let number = self.begin(&at, None);
                    self.archive.remove(&at)?;
                    self.acknowledge(number);
                }
                2 if held.contains_key(&name) => {
                    let other = (name + 1) % PATHS;
                    let to = path(client, other);
                    let content = held.remove(&name);
                    let (gone, come) = (self.begin(&at, None), self.begin(&to, content));
                    self.archive.rename(&at, &to, true)?;
                    self.acknowledge(gone);
                    self.acknowledge(come);
                    held.extend(content.map(|content| (other, content)));
                }
                _ => {
                    let id = (client + 1) << 32 | operation;
                    let length = match below(8) {
                        // Too large for a segment.
                        0 => 262_145 + below(300_000),
                        1 => below(60_000),
                        _ => below(9_000),
                    };
                    let content = Content { id, length: length as usize };
                    self.put(&at, content)?;
                    held.insert(name, content);
                }
            }
        }
        Ok(())
    }

    /// Sends files to tape, out of the pool and back.
    fn operator(&self, rounds: u64) -> Result<(), ArchiveError> {
        let all = Selection { paths: vec![root()], recursive: true };
        for _ in 0..rounds {
            pause(Duration::from_millis(below(60_000)));
            self.archive.migrate_now(None)?;
            pause(Duration::from_secs(below(500)));
            drop(self.archive.evict(&all)?);
            pause(Duration::from_secs(below(30)));
            if below(2) == 0 {
                let options = StageOptions {
                    owner: "history".to_owned(),
                    pin: Duration::ZERO,
                    priority: catalogue::PRIORITY_USUAL,
                };
                self.archive.stage(&all, options)?;
                pause(Duration::from_secs(below(200)));
            }
        }
        Ok(())
    }
}

fn root() -> ArchivePath {
    ArchivePath::new("/").unwrap_or_else(|error| unreachable!("{error}"))
}

fn path(client: u64, name: u64) -> ArchivePath {
    ArchivePath::new(&format!("/c{client}/f{name}")).unwrap_or_else(|error| unreachable!("{error}"))
}

fn live(seed: u64, settings: &Settings) -> Result<(SimMachines, Vec<Fact>), String> {
    let machines = SimMachines::with_journal(&config(), Arc::new(RuntimePace));
    let journal = machines.journal().cloned().unwrap_or_default();
    let archive = open(&machines, settings, START)?;
    let recorder = Recorder { archive, journal, facts: Mutex::default() };
    let operations = 3 + seed % 6;
    threads::scope(|scope| {
        let recorder = &recorder;
        let mut tasks: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || recorder.client(client, operations))).collect();
        tasks.push(scope.spawn(move || recorder.operator(1 + seed % 3)));
        tasks.into_iter().try_for_each(|task| match task.join() {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    // Some end in the midst of what they do, some go on until all is written, some are closed properly.
    if seed.is_multiple_of(3) {
        recorder.archive.migrate_now(None).map_err(|error| error.to_string())?;
        pause(Duration::from_secs(400));
    }
    if seed.is_multiple_of(2) {
        recorder.archive.close();
    }
    Ok((machines, recorder.facts.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

impl History {
    /// Runs a history.
    ///
    /// # Errors
    /// If something is refused, although nothing is wrong with the machines.
    pub fn new(seed: u64) -> Result<History, String> {
        let settings = settings(&config(), StripeCode::reed_solomon(2, 2));
        let outcome = simulated::run(seed, || live(seed, &settings));
        let (machines, facts) = outcome.result.map_err(|failure| failure.to_string())??;
        let journal = machines.journal().cloned().unwrap_or_default();
        Ok(History { seed, machines, settings, journal, facts })
    }

    /// How many points it may be cut at.
    #[must_use]
    pub fn points(&self) -> usize {
        self.journal.len()
    }

    /// The same for histories in which the same was asked for and acknowledged at the same points.
    #[must_use]
    pub fn fingerprint(&self) -> base::Blake3 {
        base::Blake3::of(format!("{} {:?}", self.points(), self.facts).as_bytes())
    }

    /// Points at which it is cut: half of them right behind an acknowledgement.
    fn cuts(&self, images: usize, dice: &mut Dice) -> Vec<usize> {
        let acknowledged: Vec<usize> = self.facts.iter().filter_map(|fact| fact.acknowledged).collect();
        let mut cut = |number: usize| match acknowledged.get(dice.below(acknowledged.len() as u64) as usize) {
            Some(at) if number.is_multiple_of(2) => *at,
            _ => dice.below(self.points() as u64 + 1) as usize,
        };
        let mut cuts: Vec<usize> = (0..images).map(&mut cut).collect();
        cuts.sort_unstable();
        cuts
    }

    /// What each path may hold if it is cut there, and whether anything was under way.
    fn expected(&self, at: usize) -> (BTreeMap<ArchivePath, BTreeSet<Option<Content>>>, bool) {
        let mut paths: BTreeMap<ArchivePath, BTreeSet<Option<Content>>> = BTreeMap::new();
        let mut is_in_flight = false;
        for fact in self.facts.iter().filter(|fact| fact.begun <= at) {
            let possible = paths.entry(fact.path.clone()).or_insert_with(|| BTreeSet::from([None]));
            if fact.acknowledged.is_some_and(|acknowledged| acknowledged <= at) {
                possible.clear();
            } else {
                is_in_flight = true;
            }
            possible.insert(fact.content);
        }
        (paths, is_in_flight)
    }

    /// Looks at one image again.
    ///
    /// # Errors
    /// As [`History::check`].
    pub fn check_one(&self, at: usize, seed: u64) -> Result<Tally, Broken> {
        let Some(mut replay) = self.machines.replay() else { return Ok(Tally::default()) };
        replay.advance(at);
        self.check_cut(&replay, at, seed, Depth::Whole)
    }

    /// Cuts the history at several points and opens an engine on each image.
    ///
    /// # Errors
    /// The first image on which something acknowledged is not there, or an invariant does not hold.
    pub fn check(&self, images: usize, depth: Depth) -> Result<Tally, Broken> {
        let mut dice = Dice::new(self.seed ^ 0x1357_9bdf);
        let mut tally = Tally { histories: 1, points: self.points() as u64, ..Tally::default() };
        let Some(mut replay) = self.machines.replay() else { return Ok(tally) };
        for at in self.cuts(images, &mut dice) {
            replay.advance(at);
            tally.add(self.check_cut(&replay, at, dice.roll(), depth)?);
        }
        Ok(tally)
    }

    fn check_cut(&self, replay: &Replay, at: usize, seed: u64, depth: Depth) -> Result<Tally, Broken> {
        let twice = (depth == Depth::Whole && seed.is_multiple_of(TWICE)).then(Journal::default);
        let image = |journal| replay.image(&mut Dice::new(seed), Arc::new(RuntimePace), journal);
        let checked = match twice {
            None => self.check_image(at, seed, depth, || image(None)),
            Some(journal) => self.check_twice(at, seed, || image(Some(journal))),
        };
        checked.map_err(|what| Broken { seed: self.seed, at, dice: seed, what })
    }

    /// What follows the crash is cut by a second one.
    fn check_twice(
        &self,
        at: usize,
        seed: u64,
        image: impl FnOnce() -> SimMachines,
    ) -> Result<Tally, String> {
        let outcome = simulated::run(seed, || -> Result<SimMachines, String> {
            let machines = image();
            let archive = open(&machines, &self.settings, Timestamp(START.0 + DAY))?;
            archive.migrate_now(None).map_err(|error| error.to_string())?;
            pause(Duration::from_secs(seed % 300));
            Ok(machines)
        });
        let machines = outcome.result.map_err(|failure| failure.to_string())??;
        let mut tally = Tally::default();
        let Some(mut replay) = machines.replay() else { return Ok(tally) };
        let points = machines.journal().map_or(0, Journal::len) as u64;
        let mut dice = Dice::new(!seed);
        let mut cuts: Vec<usize> = (0..SECOND_CUTS).map(|_| dice.below(points + 1) as usize).collect();
        cuts.sort_unstable();
        for cut in cuts {
            replay.advance(cut);
            let second = dice.roll();
            let image = || replay.image(&mut Dice::new(second), Arc::new(RuntimePace), None);
            let found = self.check_image(at, second, Depth::Whole, image);
            tally.add(found.map_err(|what| format!("second crash at {cut}: {what}"))?);
            tally.second += 1;
        }
        Ok(tally)
    }

    fn check_image(
        &self,
        at: usize,
        seed: u64,
        depth: Depth,
        image: impl FnOnce() -> SimMachines,
    ) -> Result<Tally, String> {
        let goes_on = depth == Depth::Whole;
        let (paths, is_in_flight) = self.expected(at);
        let outcome = simulated::run(seed, || -> Result<Tally, String> {
            let machines = image();
            let mut tally = Tally { images: 1, in_flight: is_in_flight.into(), ..Tally::default() };
            let archive = open(&machines, &self.settings, Timestamp(START.0 + 2 * DAY))?;
            let snapshot = machines.catalogue().tables().snapshot();
            let found = check_tree(&::catalogue::View::new(&snapshot), &descriptors(&paths));
            if let Some(first) = found.first() {
                return Err(first.to_string());
            }
            let reader = Reader { archive: &archive, recall: goes_on && seed.is_multiple_of(4) };
            for (path, possible) in &paths {
                reader.read(path, possible, &mut tally)?;
            }
            let is_finished = goes_on && seed.is_multiple_of(8);
            if is_finished {
                reader.finish()?;
                tally.finished += 1;
            }
            archive.close();
            let quiet = Quiet { is_whole: true, ..Quiet::after_crash(CELL) };
            let quiet = if is_finished { Quiet::done(CELL) } else { quiet };
            let violations = check_quiet(&machines, &quiet);
            match violations.first() {
                Some(first) => Err(format!("{first} ({} in all)", violations.len())),
                None => Ok(tally),
            }
        });
        outcome.result.map_err(|failure| failure.to_string())?
    }
}

fn descriptors(
    paths: &BTreeMap<ArchivePath, BTreeSet<Option<Content>>>,
) -> BTreeMap<ArchivePath, BTreeSet<Option<Descriptor>>> {
    let of = |content: &Option<Content>| content.map(|content| Descriptor::of(&content.bytes()));
    paths.iter().map(|(path, possible)| (path.clone(), possible.iter().map(of).collect())).collect()
}

/// Reads back what an image holds.
struct Reader<'a> {
    archive: &'a Archive,
    /// Whether what is on tape only is brought back.
    recall: bool,
}

impl Reader<'_> {
    fn read(
        &self,
        path: &ArchivePath,
        possible: &BTreeSet<Option<Content>>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let bytes = match self.bytes(path) {
            Err(ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. }) if !self.recall => {
                return Ok(());
            }
            Err(ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. }) => {
                self.stage(path)?;
                tally.recalled += 1;
                self.bytes(path)
            }
            other => other,
        };
        let lost = |what: &str| Err(format!("{:?}: {path}: {what}, may hold {possible:?}", Rule::Kept));
        match bytes {
            Ok(bytes) => {
                let is_right = possible.iter().flatten().any(|content| content.bytes() == bytes);
                tally.files += 1;
                if is_right { Ok(()) } else { lost("has other bytes") }
            }
            Err(ArchiveError::NotFound(_)) if possible.contains(&None) => Ok(()),
            Err(error) => lost(&error.to_string()),
        }
    }

    fn bytes(&self, path: &ArchivePath) -> Result<Vec<u8>, ArchiveError> {
        let mut download = self.archive.open_read(path)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = download.next()? {
            bytes.extend_from_slice(chunk.as_ref());
        }
        Ok(bytes)
    }

    /// Lets all that waits be done: everything on its tapes and under indexes, garbage swept.
    fn finish(&self) -> Result<(), String> {
        let deadline = simulated::now() + PATIENCE.as_nanos() as u64;
        loop {
            self.archive.migrate_now(None).map_err(|error| error.to_string())?;
            pause(Duration::from_secs(60));
            let totals = self.archive.totals().map_err(|error| error.to_string())?;
            if totals.todo.files + totals.queued.files + totals.unindexed == 0 {
                pause(Duration::from_secs(60));
                return Ok(());
            }
            if simulated::now() > deadline {
                return Err(format!("after {PATIENCE:?} not all is on tape: {totals:?}"));
            }
        }
    }

    fn stage(&self, path: &ArchivePath) -> Result<(), String> {
        let selection = Selection { paths: vec![path.clone()], recursive: false };
        let options = StageOptions {
            owner: "reader".to_owned(),
            pin: Duration::from_secs(3_600),
            priority: catalogue::PRIORITY_USUAL,
        };
        let request = self.archive.stage(&selection, options).map_err(|error| error.to_string())?;
        let deadline = simulated::now() + PATIENCE.as_nanos() as u64;
        loop {
            let info = self.archive.request(request).map_err(|error| error.to_string())?;
            if has_ended(info.record.state) {
                return Ok(());
            }
            if simulated::now() > deadline {
                return Err(format!("the recall of {path} never ends: {:?}", info.record));
            }
            pause(Duration::from_secs(10));
        }
    }
}
