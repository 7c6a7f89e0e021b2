//! Opening and closing the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use threads::mpsc::sync_channel;
use threads::{Doorbell, JoinHandle, Mutex};

use backup::{BackupReach, BackupSettings, BackupStatus, OlderLines, Worker, WorkerParts};
use base::{Clock, DriveId, Duration, Epoch, LibraryId, RequestId, Uuid};
use catalogue::{Command, Object, Rejection, Rule, typed};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use library::CartridgeInfo;
use pool::{Pool, PoolConfig};
use scheduler::{Event, Scheduler};
use store::CatalogueStore;

use crate::bell::Bell;
use crate::classes::Classes;
use crate::conductor::{Conductor, ORDERS_MAX, SEALS_MAX, run_sealer};
use crate::engine::Engine;
use crate::flow::Flow;
use crate::foresight::Foresight;
use crate::inventory::Inventory;
use crate::libraries::Libraries;
use crate::scrub::Upkeep;
use crate::settle::{self, drives_of};
use crate::small::{SmallPuts, run_repeats, run_small_puts};
use crate::tape::DriveThread;
use crate::trees::RemovalWaits;
use crate::unknown;
use crate::{ArchiveError, Machines, OpenError, PoolDrive, PoolShape, Settings};

/// A stopping engine waits for its access log to go on for no longer than this.
const ACCESS_LOG_PATIENCE: Duration = Duration::from_secs(5);

/// The engine. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    backup: OnceLock<Arc<Worker>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The threads of small puts, which serve clients until all others have ended.
    small: Mutex<Vec<JoinHandle<()>>>,
    /// The thread of the access log, the last to end, and not waited for for ever.
    access: Mutex<Option<JoinHandle<()>>>,
}

impl Archive {
    /// Opens the instance on the machines that its settings name; see [`Archive::open_on`].
    ///
    /// # Errors
    /// Says which part cannot be opened, and why. Nothing is running then.
    pub fn open(settings: Settings, clock: Arc<dyn Clock>) -> Result<Archive, OpenError> {
        let machines = Machines::open(&settings, Arc::clone(&clock))?;
        Archive::open_on(machines, settings, clock)
    }

    /// Starts the engine's threads on opened machines: the conductor, the sealer, the sweeper, and one for
    /// each tape drive. Tape sessions that a crash left open are closed when drives are free.
    ///
    /// # Errors
    /// Says which part cannot be opened, and why. Nothing is running then.
    pub fn open_on(
        machines: Machines,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Archive, OpenError> {
        Archive::open_shaped(machines, settings, clock, PoolShape::default())
    }

    /// As [`Archive::open_on`], with a pool of another shape: for simulations, which want many small cells.
    /// An instance keeps its shape for life.
    ///
    /// # Errors
    /// As [`Archive::open_on`].
    pub fn open_shaped(
        machines: Machines,
        settings: Settings,
        clock: Arc<dyn Clock>,
        shape: PoolShape,
    ) -> Result<Archive, OpenError> {
        if settings.classes.is_empty() {
            return Err(OpenError::NoClass);
        }
        let Machines { catalogue, drives, library, random_uuid, mount_log, access_log, backup } = machines;
        let instance = catalogue.read(|view| view.instance())?.ok_or(OpenError::NotInitialised)?;
        // Before anything is written: a refusal that changes the catalogue would wear off.
        check_not_older(&catalogue, &drives)?;
        let has_backup = backup.is_some();
        if let Some(directory) = backup {
            check_backup_not_ahead(&catalogue, instance, directory)?;
        }
        crate::keep_time::begin(&catalogue, clock.as_ref())?;
        let epoch = catalogue.ask(typed::OpenEpoch {})?;
        for rule in Rule::ALL {
            catalogue.execute(Command::AdoptRule { rule })?;
        }
        let classes = Classes::define(&settings, &catalogue)?;
        let drives_here = drives_of(&drives);
        let pool = open_pool(&settings, shape, &catalogue, drives, epoch)?;
        // Before the first job of a drive: one that began without a clock would seem to hang for decades.
        pool.set_clock(Arc::clone(&clock));
        // Before the inventory: what comes meanwhile is another change.
        let changes = library.changes()?;
        let inventory = library.inventory()?;
        for CartridgeInfo { vid, capacity, .. } in &inventory {
            catalogue.execute(Command::RegisterTape { vid: *vid, capacity: *capacity })?;
        }
        let libraries = Libraries::new(&settings, inventory);
        let scheduler = Scheduler::new(classes.policy(&settings));
        let foresight = Foresight::new(classes.pace(&settings)?);
        let engine = Arc::new(Engine {
            settings,
            clock,
            random_uuid,
            instance,
            catalogue: Arc::new(catalogue),
            pool,
            library,
            libraries,
            classes,
            scheduler: Mutex::new(scheduler),
            foresight,
            bell: Bell::default(),
            gate: Arc::default(),
            stop: AtomicBool::new(false),
            planning: Mutex::default(),
            dissolving: AtomicBool::new(false),
            keeping_time: Mutex::new(()),
            ordering: Mutex::new(()),
            wishes: AtomicU64::new(0),
            haste: Mutex::default(),
            tape_states: Mutex::default(),
            verifying: Mutex::new(()),
            tape_retries: Mutex::default(),
            resting: Mutex::new(HashMap::new()),
            chores: Mutex::default(),
            sessions: Mutex::new(BTreeMap::new()),
            mounts: crate::mount_log::Mounts::new(mount_log),
            access: crate::access_log::AccessQueue::new(access_log),
            sweep: Doorbell::default(),
            trees: Doorbell::default(),
            removal_waits: RemovalWaits::default(),
            removing: AtomicBool::new(false),
            lifecycle: Doorbell::default(),
            inventory: Inventory::new(changes),
            upkeep: Upkeep::default(),
            segment_use: Mutex::default(),
            small: SmallPuts::default(),
            space: crate::space::Space::default(),
            open_parts: crate::open_parts::OpenParts::default(),
            backup_reach: Arc::new(BackupReach::default()),
            bases: crate::bases::Bases::default(),
            settling: crate::settle::Settling::default(),
            lost_files: crate::lost_files::LostFiles::default(),
            seal_failures: crate::seal::SealFailures::default(),
        });
        if has_backup {
            // Before the sweeper runs: nobody knows yet what the backup has.
            engine.backup_reach.begins();
        }
        // Before what is on tape is compared with the catalogue: no tape has anything of these.
        if let Err(error) = crate::seal::give_up_unfinished(&engine) {
            tracing::error!(%error, "packs whose sealing did not end are given up later");
        }
        crate::verify::clean(&engine.settings.catalogue_directory);
        backup::remove_made_bases(&engine.settings.catalogue_directory);
        let down: BTreeMap<_, _> = engine.catalogue.read(|view| view.drives_down())?.into_iter().collect();
        let settles = settle::begin(&engine, &down).map_err(|error| OpenError::Settle(Box::new(error)))?;
        let archive = Archive(Arc::new(Inner {
            engine,
            backup: OnceLock::new(),
            threads: Mutex::new(Vec::new()),
            small: Mutex::new(Vec::new()),
            access: Mutex::new(None),
        }));
        if let Err(error) = archive.start(&down, settles.then_some(drives_here)) {
            archive.close();
            return Err(error);
        }
        Ok(archive)
    }

    /// Stops sessions at the next good point, writes owed indexes, unmounts, seals open segments. Afterwards
    /// every operation that writes is refused.
    pub fn close(&self) {
        let engine = &self.0.engine;
        engine.stop.store(true, Ordering::SeqCst);
        engine.bell.stop();
        engine.settling.stop();
        engine.sweep.ring();
        engine.lifecycle.ring();
        engine.trees.ring();
        engine.inventory.stop();
        if let Some(backup) = self.0.backup.get() {
            backup.stop();
        }
        engine.upkeep.ring();
        let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
        join(threads);
        engine.small.stop();
        join(std::mem::take(&mut *self.0.small.lock().unwrap_or_else(PoisonError::into_inner)));
        engine.pool.close();
        crate::sweep::stamp(engine);
        self.close_access_log();
        if let Some(backup) = self.0.backup.get() {
            // What the other threads did last.
            backup.turn(false);
        }
    }

    /// Whether [`Archive::close`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.engine.stopping()
    }

    /// Starts the thread that removes what is in condemned trees, unless it runs: most servers never need it.
    pub(crate) fn start_removing(&self) -> Result<(), OpenError> {
        let engine = Arc::clone(&self.0.engine);
        if engine.removing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.spawn("trees", move || crate::trees::run(&engine))
    }

    fn start_access_log(&self) -> Result<(), OpenError> {
        if self.engine().access.log().is_some() {
            let engine = Arc::clone(&self.0.engine);
            let thread = guarded("access-log", move || crate::access_log::run(&engine))?;
            *self.0.access.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        }
        Ok(())
    }

    /// Ends the access log, unless its disk hangs: statistics hold up no stop.
    fn close_access_log(&self) {
        let engine = &self.0.engine;
        engine.access.stop();
        let thread = self.0.access.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        if engine.access.wait_for_end(ACCESS_LOG_PATIENCE) {
            join([thread]);
        } else {
            tracing::error!("the disk of the access log does not answer: its last lines are missing");
        }
    }

    /// Starts the backup of the catalogue, once; further calls do nothing. It never stops the archive:
    /// whether it works is to be asked with [`Archive::backup_status`].
    ///
    /// # Errors
    /// If its thread cannot be started.
    pub fn start_backup(&self, settings: BackupSettings) -> Result<(), OpenError> {
        let engine = &self.0.engine;
        let parts = WorkerParts {
            catalogue: Arc::clone(&engine.catalogue),
            clock: Arc::clone(&engine.clock),
            instance: engine.instance,
            reach: Arc::clone(&engine.backup_reach),
        };
        let worker = Arc::new(Worker::new(settings, parts));
        if self.0.backup.set(Arc::clone(&worker)).is_err() {
            return Ok(());
        }
        if engine.stopping() {
            // Whoever closed the engine may not have met it.
            worker.stop();
        }
        self.spawn("backup", move || worker.run())
    }

    /// How the backup of the catalogue stands; `None` if there is none.
    #[must_use]
    pub fn backup_status(&self) -> Option<BackupStatus> {
        self.0.backup.get().map(|backup| backup.status())
    }

    /// Asks for a snapshot now; it is taken when [`BackupStatus::answered`] has reached the number given.
    /// `None` if there is no backup.
    #[must_use]
    pub fn backup_now(&self) -> Option<u64> {
        self.0.backup.get().map(|backup| backup.ask())
    }

    /// The epoch up to which blobs that the catalogue does not know are kept, since it was restored.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn quarantine(&self) -> Result<Option<Epoch>, ArchiveError> {
        self.0.engine.read(|view| view.quarantine())
    }

    /// How far a restored catalogue was compared with pool and tapes; `None` if it was none when the server
    /// was started.
    #[must_use]
    pub fn settling(&self) -> Option<crate::SettlingInfo> {
        self.0.engine.settling.info(self.0.engine.now(), self.0.engine.steady())
    }

    /// What is in quarantine, if there is one: the extents of epochs up to [`Archive::quarantine`] whose blob
    /// the catalogue does not know, or nobody refers to any more. Lists all drives.
    ///
    /// # Errors
    /// If catalogue or drives cannot be read.
    pub fn quarantined(&self) -> Result<Option<crate::KeptExtents>, ArchiveError> {
        self.quarantine()?.map(|until| unknown::count_unused(&self.0.engine, until)).transpose()
    }

    /// What is kept although nothing names it, since a crashed writer may have left it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn unknown_kept(&self) -> Result<crate::UnknownKept, ArchiveError> {
        unknown::kept(&self.0.engine)
    }

    /// Ends the quarantine of a restore, if there is one, and removes what was in it, and the extents that
    /// are kept for a while ([`Archive::unknown_kept`]). Gives how many extents that were.
    ///
    /// # Errors
    /// [`ArchiveError::QuarantineNeeded`] while the backup keeps a line of before the restore; if the
    /// catalogue cannot be written or a drive cannot be listed.
    pub fn end_quarantine(&self) -> Result<u64, ArchiveError> {
        let engine = &self.0.engine;
        // The command itself is not refused: logs of earlier servers have it at such times.
        if engine.read(|view| view.is_restored())? {
            let is_over = engine.settling.stage().is_none_or(crate::SettlingStage::is_over);
            let (state, needed) = if is_over {
                let state = "restored and not settled: a tape or a drive of the pool could not be looked at";
                (state, "settled: put it in, or replace it, and restart the server")
            } else {
                (
                    "restored, and being compared with pool and tapes",
                    "settled: kist status says how far it is",
                )
            };
            let object = Object::Catalogue;
            return Err(ArchiveError::Rejected(Rejection::WrongState { object, state, needed }));
        }
        let restored = self.quarantine()?;
        // Beyond what a restore has left only what was found before and told: not what a catalogue does not
        // know just now.
        let noted = unknown::all_noted(engine)?;
        engine.catalogue.check_pages()?;
        if restored.is_some() {
            self.check_quarantine_may_end()?;
            engine.execute(Command::EndQuarantine)?;
            engine.sweep.ring();
        }
        let mut removed = 0;
        unknown::for_each_unknown(engine, engine.pool.epoch(), |candidate| {
            let is_of_restore = restored.is_some_and(|until| candidate.extent.blob.epoch() <= until);
            if is_of_restore || noted.contains_key(&unknown::named(candidate)) {
                removed += u64::from(unknown::remove(engine, candidate));
            }
        })?;
        // What stands beside its place, by the thread that moves shards.
        engine.upkeep.order(|orders| orders.orphans = true);
        tracing::warn!(removed, "the quarantine has ended");
        Ok(removed)
    }

    /// Refuses while a line of the backup is kept to which the catalogue could go back to before its last
    /// restore.
    fn check_quarantine_may_end(&self) -> Result<(), ArchiveError> {
        let Some(backup) = self.0.backup.get() else { return Ok(()) };
        match backup.older_lines().map_err(|error| ArchiveError::Backup(Box::new(error)))? {
            Some(OlderLines { oldest, lines, line }) => {
                Err(ArchiveError::QuarantineNeeded { directory: oldest, lines, line })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn engine_arc(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// The instance's id.
    #[must_use]
    pub fn instance(&self) -> Uuid {
        self.0.engine.instance
    }

    /// `down`: tape drives that an operator has taken out of use; `settled_with`: the drives of the pool that
    /// a restored catalogue is compared with.
    fn start(
        &self,
        down: &BTreeMap<String, String>,
        settled_with: Option<settle::Drives>,
    ) -> Result<(), OpenError> {
        let engine = &self.0.engine;
        let (small, repeats) = (Arc::clone(engine), Arc::clone(engine));
        let small = guarded("small-puts", move || run_small_puts(&small))?;
        self.0.small.lock().unwrap_or_else(PoisonError::into_inner).push(small);
        self.start_access_log()?;
        let repeats = guarded("small-repeats", move || run_repeats(&repeats))?;
        self.0.small.lock().unwrap_or_else(PoisonError::into_inner).push(repeats);
        let mut orders = BTreeMap::new();
        for name in engine.library.drives() {
            let (sender, receiver) = sync_channel(ORDERS_MAX);
            let handle = engine.library.take_drive(&name)?;
            let thread = DriveThread::new(Arc::clone(engine), name.clone(), handle);
            orders.insert(name.as_str().to_owned(), sender);
            let library = LibraryId(engine.library.library_of(&name));
            let is_down = down.contains_key(name.as_str());
            let looks = settled_with.is_some() && !is_down;
            let own = name.as_str().to_owned();
            engine.bell.post(Event::DriveIn(own.clone(), library));
            engine.bell.post(match down.get(&own) {
                Some(reason) => Event::DriveDown(own, reason.clone()),
                None if looks => Event::DriveDown(own, settle::DRIVES_LOOK.to_owned()),
                None => Event::DriveUp(own),
            });
            self.spawn(&format!("tape-{name}"), move || thread.run(&receiver, looks))?;
        }
        for (vid, record) in engine.catalogue.read(|view| view.tapes())? {
            engine.bell.post(Event::Tape(vid, engine.summary_of(vid, &record)));
        }
        let (sealer, seals) = sync_channel(SEALS_MAX);
        self.spawn("sealer", {
            let engine = Arc::clone(engine);
            move || run_sealer(&engine, &seals)
        })?;
        self.spawn("sweeper", {
            let engine = Arc::clone(engine);
            move || crate::sweep::run(&engine)
        })?;
        if engine.catalogue.read(|view| view.has_condemned_trees())? {
            self.start_removing()?;
        }
        self.spawn("lifecycle", {
            let archive = self.clone();
            move || crate::lifecycle::run(&archive)
        })?;
        self.spawn("inventory", {
            let engine = Arc::clone(engine);
            move || crate::inventory::run(&engine)
        })?;
        crate::pool_drives::resume_unfilled(engine);
        self.spawn("scrubber", {
            let engine = Arc::clone(engine);
            move || crate::scrub::run(&engine)
        })?;
        let conductor = Conductor {
            engine: Arc::clone(engine),
            began: engine.now(),
            drives: orders,
            sealer,
            todo_since: BTreeMap::new(),
            sealing: BTreeMap::new(),
            wake: None,
            flow: Flow::default(),
            too_large: false,
            resting: BTreeSet::new(),
        };
        self.spawn("conductor", move || conductor.run())?;
        if let Some(drives) = settled_with {
            let engine = Arc::clone(engine);
            self.spawn("settle", move || settle::run(&engine, &drives))?;
        }
        // Only requests of before this start: those that come from now on tell of their files themselves.
        let newest = engine.catalogue.read(|view| view.requests(None, 1))?;
        let before = newest.first().map_or(RequestId(0), |(id, _)| RequestId(id.0 + 1));
        self.spawn("resume", {
            let engine = Arc::clone(engine);
            move || {
                if let Err(error) = crate::resume::finish_requests(&engine, before) {
                    tracing::error!(%error, "open requests cannot be read");
                }
                if let Err(error) = crate::multipart::finish_aborts(&engine) {
                    tracing::error!(%error, "uploads in parts cannot be read");
                }
                // What is to be written again is decided by what the pool has.
                if !engine.settling.wait_for_pool() {
                    return;
                }
                if let Err(error) = crate::tapes::resume(&engine) {
                    tracing::error!(%error, "what is to be done on tapes cannot be read");
                }
            }
        })
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = guarded(name, run)?;
        self.0.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread of the engine ended with a panic");
        }
    }
}

/// Starts a thread of the engine.
fn guarded(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    // A part of the engine that panicked has left its work in an unknown state, and the others wait for it
    // for ever. A restart is a tested path, so the process ends.
    let dying = || tracing::error!("a thread of the engine panicked: the server ends, start it again");
    threads::spawn_guarded(name, run, dying).map_err(OpenError::Thread)
}

/// A drive that has seen a later change, or a later start, than the catalogue proves that an older catalogue
/// was put in place by hand: then nothing is opened, since what such a catalogue does not know is not
/// garbage. (One that `kist restore` or `kist rebuild` made has higher numbers.)
fn check_not_older(catalogue: &CatalogueStore, drives: &[PoolDrive]) -> Result<(), OpenError> {
    let (last_change, last_epoch) = catalogue.read(|view| Ok((view.last_change()?, view.epoch()?)))?;
    for (id, drive) in drives {
        let Some(stamp) = drive.as_ref().map(|drive| drive.stamp()) else { continue };
        if stamp.commit > last_change {
            let (catalogue, seen) = (last_change, stamp.commit);
            return Err(OpenError::CatalogueTooOld { catalogue, drive: id.0, seen });
        }
        if stamp.epoch > last_epoch {
            let given = Epoch(last_epoch.0.saturating_add(1));
            return Err(pool::PoolError::EpochUsed { drive: *id, found: stamp.epoch, given }.into());
        }
    }
    Ok(())
}

/// What was shipped was committed before. A backup that cannot be read says nothing, and its thread will tell
/// why.
fn check_backup_not_ahead(
    catalogue: &CatalogueStore,
    instance: Uuid,
    directory: PathBuf,
) -> Result<(), OpenError> {
    let change = catalogue.read(|view| view.last_change())?;
    match backup::newest_shipped(&directory, instance) {
        Ok(Some(shipped)) if shipped > change => {
            Err(OpenError::BackupAhead { catalogue: change, directory, shipped })
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "the backup does not tell whether the catalogue is the newest one");
            Ok(())
        }
    }
}

/// Opens the pool over the drives that are there.
fn open_pool(
    settings: &Settings,
    shape: PoolShape,
    catalogue: &CatalogueStore,
    drives: Vec<PoolDrive>,
    epoch: Epoch,
) -> Result<Arc<Pool>, OpenError> {
    let entries = settings.pool.drives.iter().map(|drive| DriveEntry {
        id: DriveId(drive.id),
        domain: FailureDomain {
            host: drive.host().to_owned(),
            enclosure: drive.enclosure.clone(),
            disk: drive.at.to_string(),
        },
        state: DriveState::Up,
        weight: 1,
    });
    let map = DriveMap::new(epoch, entries.collect())?;
    let instance = catalogue.read(|view| view.instance())?.ok_or(OpenError::NotInitialised)?;
    let config = PoolConfig { arena: settings.pool.arena, ..PoolConfig::new(instance, settings.pool.code) };
    let config = PoolConfig {
        cell_size: shape.cell_size.unwrap_or(config.cell_size),
        segment_size: shape.segment_size.unwrap_or(config.segment_size),
        ..config
    };
    let pool = Pool::open(config, epoch, map, drives, catalogue.read(|view| view.stripe_sets())?)?;
    // Stamped before anything is written: from now on an older catalogue is recognised.
    if let Err(error) = pool.stamp(catalogue.read(|view| view.last_change())?) {
        tracing::error!(%error, "a pool drive cannot be written");
    }
    Ok(pool)
}
