//! One world from its seed: users and disasters, then calm, then everything is looked at.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archive::{ArchiveError, ChangeLogSettings, Selection, StageOptions, Stat, TapeUse, has_ended};
use base::{ArchivePath, RequestId, StripeCode};
use catalogue::View;
use threads::simulated;

use crate::clients::{Client, check_copies, give_back, path, read, selection};
use crate::content::Content;
use crate::faults::{Chaos, Profile, ROTTEN_POOL};
use crate::invariants::{Quiet, check_quiet};
use crate::machines::SimMachines;
use crate::world::{CELL_SIZE, Called, World, below};
use crate::{operator, pool_operator};

/// Which of seven worlds trims its log.
const SHORT_LOG: u64 = 5;
/// Clients of a world.
const CLIENTS: u64 = 4;
/// Virtual time after the end of all faults within which everything must be done.
const CALM_MAX: Duration = Duration::from_secs(4 * 3_600);
/// The longest that garbage may wait when all is done, in virtual time.
const SWEPT_MAX: Duration = Duration::from_secs(600);
/// How often somebody looks whether it is.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// What is to be simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Everything follows from it.
    pub seed: u64,
    /// Operations of each client.
    pub operations: u64,
    /// `None`: by the seed.
    pub profile: Option<Profile>,
}

impl Plan {
    /// The usual world of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Plan { seed, operations: 50, profile: None }
    }
}

/// What a world went through.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What it suffered from.
    pub profile: Profile,
    /// Faults that happened, by kind.
    pub faults: BTreeMap<String, u64>,
    /// What else was counted.
    pub counters: BTreeMap<&'static str, u64>,
    /// Why it failed, with an invariant's number where one was broken.
    pub failure: Option<String>,
    /// How long it took in virtual time.
    pub elapsed: Duration,
    /// How often a task was put on.
    pub switches: u64,
}

impl Report {
    /// Faults of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// Simulates one world.
#[must_use]
pub fn simulate(plan: Plan) -> Report {
    let profile = plan.profile.unwrap_or(Profile::ALL[(plan.seed % Profile::ALL.len() as u64) as usize]);
    let seen: Rc<RefCell<Option<World>>> = Rc::default();
    let outcome = simulated::run(plan.seed, || {
        let (tapes, capacity) = profile.tapes();
        let (code, spare_disks) = match profile {
            // Every other one has a group of disks.
            Profile::Pool if plan.seed % 2 == 1 => {
                (pool_operator::CODES[0], (pool_operator::DISKS - 4, pool_operator::GROUP_DISKS))
            }
            Profile::Pool => (pool_operator::CODES[0], (pool_operator::DISKS - 4, 0)),
            _ => (code(plan.seed), (2, 0)),
        };
        let world = World::with_machines(code, spare_disks, change_log(plan.seed), tapes, capacity);
        *seen.borrow_mut() = Some(world.clone());
        live(&world, plan, profile);
        world.kill();
    });
    let world = seen.borrow_mut().take();
    let (mut faults, mut counters) = (BTreeMap::new(), BTreeMap::new());
    let mut failure = outcome.result.err().map(|failure| failure.to_string());
    if let Some(world) = world {
        let trace = world.machines().trace();
        let counts = world.machines().faults().counts();
        faults = counts.into_iter().map(|(fault, count)| (format!("{fault:?}"), count)).collect();
        counters = world.counters();
        for (name, counter) in [("LostAnswer", "answers lost"), ("NoScratchTape", "all scratch tapes taken")]
        {
            if let Some(count) = counters.get(counter) {
                faults.insert(name.to_owned(), *count);
            }
        }
        drop(world);
        if failure.is_none() && trace.strong_count() > 0 {
            failure = Some("a dead engine stays in memory: it holds itself".to_owned());
        }
    }
    Report {
        seed: plan.seed,
        profile,
        faults,
        counters,
        failure,
        elapsed: outcome.elapsed,
        switches: outcome.switches,
    }
}

/// The code of the pool of a world: most are 2+2, every fourth is locally repairable. All bear two losses,
/// whichever they are.
fn code(seed: u64) -> StripeCode {
    match seed % 4 {
        3 if seed % 8 == 3 => StripeCode { data: 4, local: 2, global: 1 },
        3 => StripeCode { data: 4, local: 2, global: 2 },
        _ => StripeCode::reed_solomon(2, 2),
    }
}

/// Most worlds keep all of their log, so that it can be replayed from its beginning; every seventh writes
/// bases often and trims it.
fn change_log(seed: u64) -> ChangeLogSettings {
    if seed % 7 != SHORT_LOG {
        return ChangeLogSettings::default();
    }
    ChangeLogSettings {
        base_changes: 300,
        base_log_percent: 0,
        keep_changes: 100,
        keep_age: base::Duration::from_secs(20),
    }
}

/// What is counted when everything was looked at in a world whose log was trimmed behind bases.
pub const CHECKS_OF_A_TRIMMED_LOG: &str = "checks of a trimmed log";

/// Whether changes have left the log: tapes have a base in their place then, or had it.
fn log_is_trimmed(machines: &SimMachines) -> bool {
    let snapshot = machines.catalogue().tables().snapshot();
    View::new(&snapshot).first_change().is_ok_and(|first| first > 1)
}

fn live(world: &World, plan: Plan, profile: Profile) {
    spawn(world, "supervisor", World::supervise);
    while !world.is_up() {
        simulated::pause(Duration::from_millis(100));
    }
    if profile.has_good_disks() {
        world.keep_disks_good();
    }
    if profile.has_good_machines() {
        world.keep_machines_good();
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let chaos = threads::Builder::new().name("chaos".to_owned()).spawn({
        let (world, is_over) = (world.clone(), Arc::clone(&is_over));
        move || {
            let mut chaos = Chaos::new(&world, profile);
            chaos.run(|| is_over.load(Ordering::Relaxed));
            chaos.end();
        }
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let world = world.clone();
            threads::Builder::new().name(format!("client {number}")).spawn(move || {
                let mut client = Client::new(&world, number, CLIENTS, profile);
                client.work(plan.operations, profile.thinking());
            })
        })
        .collect();
    for client in clients {
        let _ = client.map(threads::JoinHandle::join);
    }
    is_over.store(true, Ordering::Relaxed);
    let _ = chaos.map(threads::JoinHandle::join);
    Aftermath::new(world, profile).check();
}

fn spawn(world: &World, name: &str, run: impl FnOnce(&World) + Send + 'static) {
    let world = world.clone();
    let _ = threads::Builder::new().name(name.to_owned()).spawn(move || run(&world));
}

/// When all faults are over.
pub struct Aftermath {
    world: World,
    profile: Profile,
    /// Whether tapes of one pool may be unreadable.
    has_rot: bool,
}

impl Aftermath {
    /// After the faults of a profile.
    #[must_use]
    pub fn new(world: &World, profile: Profile) -> Self {
        Aftermath { world: world.clone(), profile, has_rot: profile.has_rot() }
    }

    /// Checks everything.
    ///
    /// # Panics
    /// With the number of the invariant that is broken.
    pub fn check(&self) {
        self.world.calm();
        // Whoever repairs a machine room starts its servers anew.
        self.world.kill();
        if self.profile == Profile::Pool {
            pool_operator::finish(self, &self.world);
        }
        self.settle();
        self.read_all();
        self.settle();
        self.sweep();
        self.invariants();
        if self.profile == Profile::Repack {
            let repacked = operator::repack_all(&self.world, "vault-a");
            repacked.unwrap_or_else(|what| panic!("I7: a repack does not end: {what}"));
            self.settle();
        }
        if self.has_rot {
            let chaos = Chaos::new(&self.world, self.profile);
            (0..20).for_each(|_| chaos.rot_tape());
        }
        self.recall_all();
        self.settle();
        self.read_all();
        self.sweep();
        self.invariants();
    }

    /// Asks until there is an answer; nothing keeps it from coming for long.
    ///
    /// # Errors
    /// Those of the engine.
    ///
    /// # Panics
    /// If there is none.
    pub fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        f: impl Fn(&archive::Archive) -> Result<T, ArchiveError> + Send + Clone + 'static,
    ) -> Result<T, ArchiveError> {
        let deadline = simulated::now() + CALM_MAX.as_nanos() as u64;
        while simulated::now() < deadline {
            match self.world.ask(name, f.clone()) {
                Called::Done(Err(ArchiveError::Store(error))) => panic!("I7: {name}: {error}"),
                Called::Done(result) => return result,
                Called::Killed | Called::Down => simulated::pause(Duration::from_secs(1)),
            }
        }
        panic!("I7: {name} gets no answer\n{}", simulated::report());
    }

    /// I7: waits until nothing is named any more that waits.
    ///
    /// # Panics
    /// If something waits still when it should not.
    pub fn wait_until(
        &self,
        what: &'static str,
        waiting: impl Fn(&archive::Archive) -> Result<Option<String>, ArchiveError> + Send + Clone + 'static,
    ) {
        let deadline = simulated::now() + CALM_MAX.as_nanos() as u64;
        loop {
            let waits = self.ask(what, waiting.clone()).unwrap_or_else(|error| panic!("I7: {error}"));
            let Some(waits) = waits else { return };
            assert!(simulated::now() < deadline, "I7: {what}: {waits}\n{}", simulated::report());
            simulated::pause(LOOK_EVERY);
        }
    }

    /// I7: with nothing wrong any more, everything that waits is done in bounded time.
    ///
    /// # Panics
    /// If something waits still.
    pub fn settle(&self) {
        let deadline = simulated::now() + CALM_MAX.as_nanos() as u64;
        loop {
            operator::reclaim(&self.world);
            let _ = self.ask("operate", |archive| {
                give_back(archive)?;
                archive.migrate_now(None)
            });
            simulated::pause(LOOK_EVERY);
            let waiting = self.ask("look what waits", |archive| {
                let totals = archive.totals()?;
                let mut lines: Vec<String> =
                    archive.queue()?.iter().map(|line| format!("{}: {}", line.what, line.reason)).collect();
                if totals.todo.files + totals.queued.files + totals.unindexed > 0 {
                    lines.push(format!("{totals:?}"));
                }
                Ok(lines)
            });
            let waiting = waiting.unwrap_or_else(|error| panic!("I7: {error}"));
            let requests = self.open_requests();
            if waiting.is_empty() && requests.is_empty() {
                return;
            }
            if simulated::now() > deadline {
                // If it is because bytes are gone, that is what is to be said.
                self.read_all();
                let why = self.ask("tapes", |archive| {
                    let tapes = archive.tapes()?.into_iter();
                    let tapes: Vec<String> = tapes
                        .map(|tape| {
                            format!("{} {:?} {:?} {}", tape.vid, tape.state, tape.tape_pool, tape.reason)
                        })
                        .collect();
                    Ok(format!("{}\n{:?}", tapes.join("\n"), archive.tape_drives()))
                });
                panic!(
                    "I7: after {CALM_MAX:?} without faults still wait {waiting:?}, requests {requests:?}\n\
                     {}\n{}",
                    why.unwrap_or_default(),
                    simulated::report()
                );
            }
        }
    }

    /// I6: what nobody needs is removed soon, with no readers left. A copy that was just read back may have
    /// made garbage of an image a moment ago.
    fn sweep(&self) {
        let deadline = simulated::now() + SWEPT_MAX.as_nanos() as u64;
        while self.ask("pool", |archive| Ok(archive.pool_info()?.garbage)).is_ok_and(|garbage| garbage > 0) {
            assert!(simulated::now() < deadline, "I6: garbage waits for {SWEPT_MAX:?}");
            simulated::pause(Duration::from_secs(5));
        }
    }

    fn open_requests(&self) -> Vec<RequestId> {
        let requests = self.world.oracle().requests.clone();
        let mut open = Vec::new();
        for request in requests {
            match self.ask("request", move |archive| archive.request(request)) {
                Ok(info) if has_ended(info.record.state) => {}
                Ok(_) => open.push(request),
                Err(error) => panic!("I1: {error}, but it was acknowledged"),
            }
        }
        open
    }

    /// I1, I2: everything is there, and is what was put.
    fn read_all(&self) {
        let paths: Vec<ArchivePath> = self.world.oracle().paths().map(|(path, _)| path.clone()).collect();
        for path in paths {
            let found = self.look(&path);
            let Some(content) = found else { continue };
            let at = path.clone();
            let bytes = match self.ask("get", move |archive| read(archive, &at, false)) {
                Ok(bytes) => bytes,
                Err(ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. }) => {
                    self.stage(&selection(&path));
                    let at = path.clone();
                    let bytes = self.ask("get", move |archive| read(archive, &at, false));
                    bytes.unwrap_or_else(|error| panic!("I1: {error} after its recall"))
                }
                Err(error) => panic!("I1: {error}"),
            };
            assert!(bytes == content.bytes(), "I1: {path} has other bytes than were put");
            self.world.count("files read back");
        }
    }

    /// What a path holds, which must be something that it may hold.
    fn look(&self, path: &ArchivePath) -> Option<Content> {
        let at = path.clone();
        let possible = self.world.oracle().possible(path);
        match self.ask("stat", move |archive| archive.stat(&at)) {
            Ok(Stat::File(stat)) => {
                check_copies(&self.world, path, &stat);
                let mut contents = possible.contents.iter().copied().flatten();
                let found = contents.find(|content| stat.checksums.blake3 == content.blake3());
                let found =
                    found.unwrap_or_else(|| panic!("I1: {path} holds none of {possible:?}: {stat:?}"));
                self.world.oracle().know(path, Some(found));
                Some(found)
            }
            Ok(Stat::Directory(_)) => panic!("I1: {path} became a directory"),
            Err(ArchiveError::NotFound(_)) => {
                assert!(possible.contents.contains(&None), "I1: {path} is gone: {possible:?}");
                self.world.oracle().know(path, None);
                None
            }
            Err(error) => panic!("I1: {error}"),
        }
    }

    /// Stages and waits for the end; `is_operated`: meanwhile somebody gives drives and tapes back.
    fn stage_and_wait(&self, selection: &Selection, pin: Duration, is_operated: bool) -> RequestId {
        let selection = selection.clone();
        let options = StageOptions { owner: "reader".to_owned(), pin, priority: catalogue::PRIORITY_USUAL };
        let request = self.ask("stage", move |archive| archive.stage(&selection, options.clone()));
        let request = request.unwrap_or_else(|error| panic!("I7: stage: {error}"));
        self.world.oracle().requests.push(request);
        let deadline = simulated::now() + CALM_MAX.as_nanos() as u64;
        while self.open_requests().contains(&request) {
            if simulated::now() > deadline {
                self.never_ends(request);
            }
            if is_operated {
                let _ = self.ask("operate", give_back);
            }
            simulated::pause(LOOK_EVERY);
        }
        request
    }

    fn stage(&self, selection: &Selection) {
        let request = self.stage_and_wait(selection, Duration::from_secs(7 * 86_400), true);
        self.world.oracle().requests.retain(|other| *other != request);
        let released = self.ask("release", move |archive| archive.release(request, None));
        released.unwrap_or_else(|error| panic!("I7: release: {error}"));
    }

    /// A request that waits for ever is one that somebody has forgotten: which file, and who says what of it.
    fn never_ends(&self, request: RequestId) -> ! {
        let said = self.ask("why", move |archive| {
            let mut said = archive.why_request(request)?;
            said.extend(archive.queue()?.iter().map(|line| format!("queue: {}: {}", line.what, line.reason)));
            Ok(said)
        });
        let said = said.unwrap_or_else(|error| vec![error.to_string()]);
        let is_forgotten = !said.iter().any(|line| line.starts_with("queue: "));
        let how = if is_forgotten { "is forgotten: nothing is queued for it" } else { "never ends" };
        panic!("I7: {request} {how}: {}\n{}", said.join("; "), simulated::report());
    }

    /// Throws everything out of the pool and brings it back from tape; every other world with the tapes of
    /// one pool alone.
    fn recall_all(&self) {
        // Also those whose answer was lost.
        let released = self.ask("release all", |archive| {
            for info in archive.requests(None, 10_000)? {
                archive.release(info.request, None)?;
            }
            Ok(())
        });
        released.unwrap_or_else(|error| panic!("I7: release: {error}"));
        // What only tapes that are set aside have stays in the pool.
        let _ = self.ask("operate", give_back);
        let all = Selection { paths: vec![path("/")], recursive: true };
        let evicted = self.ask("evict all", {
            let all = all.clone();
            move |archive| archive.evict(&all)
        });
        let evicted = evicted.unwrap_or_else(|error| panic!("I7: evict: {error}"));
        assert_eq!(evicted.refused, [], "I4: with all copies under an index every file can be evicted");
        (0..evicted.evicted).for_each(|_| self.world.count("files evicted"));
        let without = match below(3) {
            _ if self.profile == Profile::Repack => Some("vault-b"),
            0 if self.has_rot => Some(ROTTEN_POOL),
            _ if self.has_rot => None,
            0 => Some("vault-a"),
            1 => Some("vault-b"),
            _ => None,
        };
        let changed = self.ask("take one pool's tapes", move |archive| {
            for tape in archive.tapes()?.into_iter().filter(|tape| tape.tape_pool.as_deref() == without) {
                if without.is_some() {
                    archive.set_tape(tape.vid, TapeUse::Disabled, "one copy has to do")?;
                }
            }
            Ok(())
        });
        if let Err(error) = changed {
            self.world.count("tapes that could not be taken away");
            drop(error);
        }
        self.stage_without_operator(&all);
    }

    /// As `stage`, but nobody gives the tapes back.
    fn stage_without_operator(&self, all: &Selection) {
        let request = self.stage_and_wait(all, Duration::ZERO, false);
        let info = self.ask("request", move |archive| archive.request(request));
        let info = info.unwrap_or_else(|error| panic!("I7: {error}"));
        assert_eq!(info.record.failed, 0, "I1: recalls fail: {:?}", info.record);
    }

    /// What the machines say, with nobody working on them.
    ///
    /// # Panics
    /// With all that is broken.
    pub fn invariants(&self) {
        let quiet = Quiet {
            is_migrated: true,
            is_swept: true,
            is_whole: self.profile.has_good_disks(),
            has_good_tapes: !self.has_rot && self.profile != Profile::Repack,
            has_whole_runs: false,
            may_have_moved: true,
            cell_size: CELL_SIZE,
        };
        let found = check_quiet(self.world.machines(), &quiet);
        let lines: Vec<String> = found.iter().take(8).map(ToString::to_string).collect();
        assert!(found.is_empty(), "{} violations:\n{}", found.len(), lines.join("\n"));
        self.world.count("checks of all invariants");
        if log_is_trimmed(self.world.machines()) {
            self.world.count(CHECKS_OF_A_TRIMMED_LOG);
        }
    }
}
