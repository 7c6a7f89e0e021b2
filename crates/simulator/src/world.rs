//! A simulated machine room with one engine in it, and how to ask that engine something.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archive::{
    Aim, Archive, ArchiveError, ChangeLogSettings, ClassSettings, FlowSettings, GroupSettings,
    LibrarySettings, MountSettings, OpenError, PlacingSettings, PoolDriveSettings, PoolSettings, PoolShape,
    Settings, ShareSettings, TapePoolSettings, TapeSettings, Water,
};
use base::{ByteCount, Clock, StripeCode, Timestamp, TrustedClock};
use threads::simulated::{self, Process};

use crate::invariants::{Quiet, check_machines};
use crate::machines::{MachineConfig, Pace, SimClock, SimMachines};
use crate::oracle::Oracle;

/// When simulations begin: 2026-11-21.
const START: Timestamp = Timestamp(1_795_219_200_000_000_000);
/// How long a supervisor waits before it starts a dead engine again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// How many starts in a row may fail once nothing is wrong any more.
const CALM_STARTS_MAX: u32 = 4;

/// Time and chance of the running simulation.
struct Simulation;

impl Pace for Simulation {
    #[track_caller]
    fn pause(&self, nanos: u64) {
        simulated::pause(Duration::from_nanos(nanos));
    }

    fn random(&self) -> u64 {
        simulated::random()
    }
}

/// A random number below `end`; 0 if `end` is 0.
#[must_use]
pub fn below(end: u64) -> u64 {
    simulated::random().checked_rem(end).unwrap_or(0)
}

/// One of several, by chance.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn one_of<T: Copy>(choices: &[T]) -> T {
    choices[below(choices.len() as u64) as usize]
}

/// What became of a call.
#[derive(Debug)]
pub enum Called<T> {
    /// It was answered.
    Done(T),
    /// The engine died meanwhile: it may have been carried out or not.
    Killed,
    /// There was no engine.
    Down,
}

/// The engine that runs, or is being started.
#[derive(Default)]
struct Engine {
    process: Option<Process>,
    archive: Option<Archive>,
    /// Somebody found that it cannot work any more.
    is_sick: bool,
}

/// One world. Clones are one.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    machines: SimMachines,
    clock: SimClock,
    settings: Settings,
    /// The code that kist.toml has by now.
    code: Mutex<StripeCode>,
    engine: Mutex<Engine>,
    oracle: Mutex<Oracle>,
    counters: Mutex<BTreeMap<&'static str, u64>>,
    is_calm: Mutex<bool>,
    has_good_disks: Mutex<bool>,
    has_good_machines: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A new world with nothing running, its pool at 2+2.
    #[must_use]
    pub fn new() -> Self {
        Self::with_code(StripeCode::reed_solomon(2, 2))
    }

    /// A new world with nothing running, and two more disks than a stripe of its pool needs.
    ///
    /// # Panics
    /// If the code has more shards than machines have disks.
    #[must_use]
    pub fn with_code(code: StripeCode) -> Self {
        Self::with_machines(code, (2, 0), ChangeLogSettings::default(), 16, ByteCount::mib(24))
    }

    /// As [`World::with_code`], with so many more disks than a stripe needs and so many besides in a group
    /// that gets large files, another log of changes and other tapes: so many, of such a capacity.
    ///
    /// # Panics
    /// As [`World::with_code`].
    #[must_use]
    pub fn with_machines(
        code: StripeCode,
        (spare_disks, group_disks): (u16, u16),
        change_log: ChangeLogSettings,
        tapes: u16,
        tape_capacity: ByteCount,
    ) -> Self {
        let config = MachineConfig {
            disks: u16::try_from(code.width()).unwrap() + spare_disks + group_disks,
            // A group is full soon where disks are small.
            disk_capacity: ByteCount::mib(if group_disks > 0 { 24 } else { 256 }),
            tape_drives: 2,
            robots: 1,
            tapes,
            tape_capacity,
            ..MachineConfig::default()
        };
        let mut settings = Settings { change_log, ..settings(&config, code) };
        if group_disks > 0 {
            give_group(&mut settings, group_disks);
        }
        Self::on(&config, settings)
    }

    /// A new world with nothing running, of such machines and an engine that is set so.
    #[must_use]
    pub fn on(config: &MachineConfig, settings: Settings) -> Self {
        let machines = SimMachines::new(config, Arc::new(Simulation));
        World(Arc::new(Inner {
            code: Mutex::new(settings.pool.code),
            settings,
            machines,
            clock: SimClock::new(START, simulated::now),
            engine: Mutex::default(),
            oracle: Mutex::default(),
            counters: Mutex::default(),
            is_calm: Mutex::new(false),
            has_good_disks: Mutex::new(false),
            has_good_machines: Mutex::new(false),
        }))
    }

    /// The machines.
    #[must_use]
    pub fn machines(&self) -> &SimMachines {
        &self.0.machines
    }

    /// The clock that the engine sees.
    #[must_use]
    pub fn clock(&self) -> &SimClock {
        &self.0.clock
    }

    /// The engine's settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The code that the pool has from the next start on.
    pub fn set_code(&self, code: StripeCode) {
        *lock(&self.0.code) = code;
    }

    /// That code.
    #[must_use]
    pub fn code(&self) -> StripeCode {
        *lock(&self.0.code)
    }

    /// What must be there.
    pub fn oracle(&self) -> MutexGuard<'_, Oracle> {
        lock(&self.0.oracle)
    }

    /// Counts something for the report.
    pub fn count(&self, what: &'static str) {
        *lock(&self.0.counters).entry(what).or_default() += 1;
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.0.counters).clone()
    }

    /// No fault happens from now on, so that everything has to work.
    pub fn calm(&self) {
        *lock(&self.0.is_calm) = true;
    }

    /// Whether no fault happens any more.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        *lock(&self.0.is_calm)
    }

    /// No disk ever fails in this world.
    pub fn keep_disks_good(&self) {
        *lock(&self.0.has_good_disks) = true;
    }

    /// Whether no disk ever fails in this world.
    #[must_use]
    pub fn has_good_disks(&self) -> bool {
        *lock(&self.0.has_good_disks)
    }

    /// No machine ever loses what it has made durable: at each crash all of it is looked for.
    pub fn keep_machines_good(&self) {
        *lock(&self.0.has_good_machines) = true;
    }

    /// Calls the engine, in its process. It dies with it.
    #[track_caller]
    pub fn call<T: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce(&Archive) -> T + Send + 'static,
    ) -> Called<T> {
        let place = Location::caller();
        let (process, archive) = {
            let engine = lock(&self.0.engine);
            match (engine.process, engine.archive.clone()) {
                (Some(process), Some(archive)) => (process, archive),
                _ => return Called::Down,
            }
        };
        let task = process.spawn(&format!("{name} ({place})"), move || f(&archive));
        match task.join() {
            Ok(value) => Called::Done(value),
            Err(_) => Called::Killed,
        }
    }

    /// As [`World::call`] for a verb of the engine; an engine that says that it cannot work is started anew.
    #[track_caller]
    pub fn ask<T: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce(&Archive) -> Result<T, ArchiveError> + Send + 'static,
    ) -> Called<Result<T, ArchiveError>> {
        let called = self.call(name, f);
        if let Called::Done(Err(ArchiveError::Store(error))) = &called
            && !matches!(error, store::ExecuteError::MapFull | store::ExecuteError::InPart(_))
        {
            lock(&self.0.engine).is_sick = true;
        }
        called
    }

    /// The engine cannot work any more: it is to be started anew.
    pub fn is_to_restart(&self) {
        lock(&self.0.engine).is_sick = true;
    }

    /// Kills the engine where it stands; the machines go on.
    pub fn kill(&self) {
        self.0.machines.process_crash();
        self.end();
    }

    /// Cuts the power of engine and machines.
    pub fn cut_power(&self) {
        self.0.machines.power_loss();
        self.end();
    }

    /// Whatever it was doing, a commit leaves the catalogue whole.
    fn check_catalogue(&self) {
        let snapshot = self.0.machines.catalogue().tables().snapshot();
        let found = catalogue::View::new(&snapshot).check();
        let found = found.unwrap_or_else(|error| panic!("I6: the catalogue cannot be read: {error}"));
        assert!(found.is_empty(), "I6: the catalogue contradicts itself: {found:?}");
        if *lock(&self.0.has_good_machines) {
            let quiet =
                Quiet { may_have_moved: true, has_whole_runs: false, ..Quiet::after_crash(CELL_SIZE) };
            let found = check_machines(&self.0.machines, &quiet);
            let lines: Vec<String> = found.iter().take(4).map(ToString::to_string).collect();
            assert!(found.is_empty(), "I1: after a crash {} are broken:\n{}", found.len(), lines.join("\n"));
            self.count("crashes after which machines hold all that was committed");
        }
    }

    /// Ends the process. Its machines must have been told before.
    fn end(&self) {
        self.check_catalogue();
        let engine = std::mem::take(&mut *lock(&self.0.engine));
        if let Some(process) = engine.process {
            if !process.is_dead() {
                process.kill();
            }
            process.bury(engine.archive);
        }
    }

    /// Whether an engine answers.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let engine = lock(&self.0.engine);
        engine.archive.is_some() && !engine.is_sick
    }

    /// Starts an engine; the one before is dead.
    ///
    /// # Errors
    /// Why it did not start; `None` if it was killed before.
    pub fn start(&self) -> Result<(), Option<OpenError>> {
        let process = Process::new();
        lock(&self.0.engine).process = Some(process);
        let machines = self.0.machines.clone();
        // As a server has it: what jumps is the clock behind it.
        let clock = TrustedClock::new(Arc::new(self.0.clock.clone()));
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let mut settings = self.0.settings.clone();
        settings.pool.code = self.code();
        // Every other server has no class for its group: what stands there is to leave it.
        if !settings.pool.groups.is_empty() && below(2) == 0 {
            settings.classes.iter_mut().for_each(|class| class.placing = PlacingSettings::default());
        }
        let task = process.spawn("open", move || {
            let opened = machines.open(Arc::clone(&clock))?;
            Archive::open_shaped(opened, settings, clock, shape())
        });
        match task.join() {
            Ok(Ok(archive)) => {
                lock(&self.0.engine).archive = Some(archive);
                self.count("starts");
                Ok(())
            }
            Ok(Err(error)) => {
                self.0.machines.process_crash();
                self.end();
                Err(Some(error))
            }
            Err(_) => Err(None),
        }
    }

    /// Keeps an engine running for ever: the task of whoever restarts servers.
    ///
    /// # Panics
    /// If the engine does not start although nothing is wrong.
    pub fn supervise(&self) {
        let mut failed = 0;
        loop {
            let is_sick = lock(&self.0.engine).is_sick;
            if is_sick {
                self.count("restarts of an engine that could not write");
                self.0.machines.process_crash();
                self.end();
            }
            if lock(&self.0.engine).process.is_none_or(Process::is_dead) {
                match self.start() {
                    Ok(()) => failed = 0,
                    Err(None) => {}
                    Err(Some(error)) => {
                        self.count("failed starts");
                        failed = if self.is_calm() { failed + 1 } else { 0 };
                        assert!(failed < CALM_STARTS_MAX, "the engine does not start: {error}");
                    }
                }
            }
            simulated::pause(RESTART_PAUSE);
        }
    }
}

impl Default for World {
    fn default() -> Self {
        World::new()
    }
}

/// Bytes of a cell of the pool.
pub const CELL_SIZE: ByteCount = ByteCount::kib(32);

fn shape() -> PoolShape {
    PoolShape { cell_size: Some(CELL_SIZE), segment_size: Some(ByteCount::mib(2)) }
}

/// The last disks are in a group that gets large files, which is above its high water with a few of them.
fn give_group(settings: &mut Settings, disks: u16) {
    let name = || "fast".to_owned();
    let first = settings.pool.drives.len().saturating_sub(usize::from(disks));
    settings.pool.drives.iter_mut().skip(first).for_each(|drive| drive.group = name());
    let (code, water) = (StripeCode::reed_solomon(2, 2), Water { high_percent: 2, low_percent: 1 });
    settings.pool.groups = vec![GroupSettings { name: name(), code, water }];
    let placing = PlacingSettings { group: name(), unused_for: None };
    settings.classes.last_mut().into_iter().for_each(|class| class.placing = placing.clone());
}

/// The settings of an engine on such machines.
#[must_use]
pub fn settings(config: &MachineConfig, code: StripeCode) -> Settings {
    let class = |name: &str, up_to: Option<ByteCount>| ClassSettings {
        name: name.to_owned(),
        up_to,
        copies: vec!["vault-a".to_owned(), "vault-b".to_owned()],
        large_bytes: ByteCount::kib(256),
        pack_bytes: ByteCount::kib(512),
        pack_age: Duration::from_secs(8),
        data_set_depth: None,
        recall_packs: false,
        cold: false,
        pool_max: None,
        placing: archive::PlacingSettings::default(),
        leaving: archive::LeavingSettings::default(),
        share: ShareSettings::default(),
    };
    let tape_pool = |name: &str| TapePoolSettings {
        name: name.to_owned(),
        mount_bytes: ByteCount::mib(1),
        mount_age: Duration::from_secs(12),
        drives_max: 1,
        drives_min: 0,
        open_tapes_max: None,
        library: None,
        encryption: None,
    };
    let drives = (1..=config.disks).map(|id| PoolDriveSettings {
        id,
        at: location::DriveLocation::Directory(format!("disk{id}").into()),
        host: None,
        enclosure: String::new(),
        group: String::new(),
    });
    Settings {
        catalogue_directory: "catalogue".into(),
        catalogue_map_size: ByteCount::mib(64),
        pool: PoolSettings {
            code,
            arena: ByteCount::mib(8),
            io: drive::DriveIo::Auto,
            groups: Vec::new(),
            unknown_kept: Duration::ZERO,
            water: None,
            drives: drives.collect(),
        },
        library: LibrarySettings::only("library".into(), config.tape_drives),
        more_libraries: Vec::new(),
        classes: vec![class("small", Some(ByteCount::kib(64))), class("large", None)],
        tape_pools: vec![tape_pool("vault-a"), tape_pool("vault-b")],
        change_log: ChangeLogSettings::default(),
        tape: TapeSettings {
            block_bytes: ByteCount::kib(32),
            flush_bytes: ByteCount::kib(512),
            flush_age: Duration::from_secs(30),
            index_bytes: ByteCount::mib(1),
            buffer: ByteCount::kib(512),
            recall_age: Duration::from_secs(5),
            recall_bytes: ByteCount::mib(1),
            recall_aim: Aim::LastFile,
            recall_order_from: archive::OrderFrom::Cheaper,
            dismount_delay: Duration::from_secs(10),
            retry_delay: Duration::from_secs(20),
            mounts: MountSettings::default(),
            flow: FlowSettings::default(),
        },
    }
}
