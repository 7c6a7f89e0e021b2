//! Opening and closing the engine.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use threads::Doorbell;

use backup::{BackupSettings, BackupStatus, OlderLines, Worker, WorkerParts};
use base::{Clock, DriveGroup, DriveId, Epoch, Uuid};
use catalogue::{Command, Object, PoolDriveState, Rejection, Rule, typed};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use pool::{Pool, PoolConfig};
use store::CatalogueStore;

use crate::machines::lost_drives;
use crate::{ArchiveError, Machines, OpenError, PoolShape, Settings};
use ground::{
    AccessQueue, Classes, Duty, Ground, LeavingSignal, Libraries, Notifier, PoolDrive, PoolDriveFile,
    PoolDriveList, Settled, Uses, Workers,
};
use ingest::Ingest;
use namespace::Namespace;
use settle::Settling;
use tape::{Tape, TapeParts};
use upkeep::Upkeep;

/// [`library::Library::changes`] of a library that did not answer: any answer is another number.
const CHANGES_UNKNOWN: u64 = u64::MAX;

/// The engine. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Archive(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ground: Arc<Ground>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) ingest: Ingest,
    pub(crate) tape: Arc<Tape>,
    pub(crate) backup: OnceLock<Arc<Worker>>,
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
        let Machines { catalogue, drives, library, random_uuid, mount_log, drive_fits, access_log, backup } =
            machines;
        let instance = catalogue.read(|view| view.instance())?.ok_or(OpenError::NotInitialised)?;
        // Before anything is written: a refusal that changes the catalogue would wear off.
        check_not_older(&catalogue, &drives)?;
        let has_backup = backup.is_some();
        if let Some(directory) = backup {
            check_backup_not_ahead(&catalogue, instance, directory)?;
        }
        upkeep::begin_time(&catalogue, clock.as_ref())?;
        let epoch = catalogue.ask(typed::OpenEpoch {})?;
        for rule in Rule::ALL {
            catalogue.execute(Command::AdoptRule { rule })?;
        }
        let classes = Classes::define(&settings, &catalogue)?;
        let pool = open_pool(&settings, shape, &catalogue, drives, epoch)?;
        // Before the first job of a drive: one that began without a clock would seem to hang for decades.
        pool.set_clock(Arc::clone(&clock));
        // Before the inventory: what comes meanwhile is another change.
        let held = || ground::libraries::inventory(&catalogue, library.as_ref());
        let asked = library.changes().and_then(|changes| Ok((changes, held()?)));
        let (changes, inventory) = asked.unwrap_or_else(|error| {
            // Reads from the pool and puts need no library: it is asked again every few seconds.
            tracing::error!(%error, "the library does not say what it holds; it is asked again");
            (CHANGES_UNKNOWN, Vec::new())
        });
        ground::libraries::register_tapes(&catalogue, &inventory)?;
        let libraries = Libraries::new(&settings, inventory);
        let settling = Arc::new(Settling::default());
        let settled: Arc<dyn Settled> = Arc::clone(&settling) as Arc<dyn Settled>;
        let ground = Arc::new(Ground {
            pool_drives: PoolDriveList::new(settings.pool.drives.clone()),
            settings,
            clock,
            instance,
            catalogue: Arc::new(catalogue),
            pool,
            libraries,
            classes,
            notifier: Notifier::default(),
            gate: Arc::default(),
            stop: AtomicBool::new(false),
            sweep: Doorbell::default(),
            leaving: LeavingSignal::default(),
            lifecycle: Doorbell::default(),
            access: AccessQueue::new(access_log),
            uses: Uses::default(),
            settled,
            above: OnceLock::new(),
            workers: Workers::default(),
        });
        let namespace = Arc::new(Namespace::new(Arc::clone(&ground)));
        let upkeep = Arc::new(Upkeep::new(Arc::clone(&ground)));
        let ingest = Ingest::new(Arc::clone(&ground), Arc::clone(&namespace), Arc::clone(&upkeep));
        let tape = Tape::new(TapeParts {
            ground: Arc::clone(&ground),
            namespace: Arc::clone(&namespace),
            upkeep: Arc::clone(&upkeep),
            library,
            changes,
            random_uuid,
            mount_log,
            drive_fits,
            settling,
            has_backup,
        })?;
        upkeep::clean_verifying(&ground.settings.catalogue_directory);
        backup::remove_made_bases(&ground.settings.catalogue_directory);
        let begun = tape.begin()?;
        let backup = OnceLock::new();
        let archive = Archive(Arc::new(Inner { ground, namespace, upkeep, ingest, tape, backup }));
        if let Err(error) = archive.start(&begun) {
            archive.close();
            return Err(error);
        }
        Ok(archive)
    }

    /// Whether [`Archive::close`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.ground.stopping()
    }

    /// Says where the operator's file names the drives of the pool, once: without it no drive is added while
    /// the server runs.
    pub fn set_pool_drive_file(&self, file: Arc<dyn PoolDriveFile>) {
        self.0.upkeep.set_pool_drive_file(file);
    }

    /// Starts the backup of the catalogue, once; further calls do nothing. It never stops the archive:
    /// whether it works is to be asked with [`Archive::backup_status`].
    ///
    /// # Errors
    /// If its thread cannot be started.
    pub fn start_backup(&self, settings: BackupSettings) -> Result<(), OpenError> {
        let ground = &self.0.ground;
        let parts = WorkerParts {
            catalogue: Arc::clone(&ground.catalogue),
            clock: Arc::clone(&ground.clock),
            instance: ground.instance,
            reach: Arc::clone(self.0.tape.backup_reach()),
        };
        let worker = Arc::new(Worker::new(settings, parts));
        if self.0.backup.set(Arc::clone(&worker)).is_err() {
            return Ok(());
        }
        if ground.stopping() {
            // Whoever closed the engine may not have met it.
            worker.stop();
        }
        let duty = Duty::new("backup", &worker, |worker| worker.stop());
        ground.start(duty, move |me| {
            me.does("shipping");
            worker.run();
        })
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
        self.0.ground.read(|view| view.quarantine())
    }

    /// How far a restored catalogue was compared with pool and tapes; `None` if it was none when the server
    /// was started.
    #[must_use]
    pub fn settling(&self) -> Option<crate::SettlingInfo> {
        self.0.tape.settling()
    }

    /// What is in quarantine, if there is one: the extents of epochs up to [`Archive::quarantine`] whose blob
    /// the catalogue does not know, or nobody refers to any more. Lists all drives.
    ///
    /// # Errors
    /// If catalogue or drives cannot be read.
    pub fn quarantined(&self) -> Result<Option<crate::KeptExtents>, ArchiveError> {
        self.quarantine()?.map(|until| self.0.upkeep.quarantined(until)).transpose()
    }

    /// What is kept although nothing names it, since a crashed writer may have left it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn unknown_kept(&self) -> Result<crate::UnknownKept, ArchiveError> {
        self.0.upkeep.unknown_kept()
    }

    /// Ends the quarantine of a restore, if there is one, and removes what was in it, and the extents that
    /// are kept for a while ([`Archive::unknown_kept`]). Tells what is not removed yet, and why.
    ///
    /// # Errors
    /// [`ArchiveError::QuarantineNeeded`] while the backup keeps a line of before the restore; if the
    /// catalogue cannot be written or a drive cannot be listed.
    pub fn end_quarantine(&self) -> Result<crate::QuarantineEnded, ArchiveError> {
        let ground = &self.0.ground;
        // The command itself is not refused: logs of earlier servers have it at such times.
        if ground.read(|view| view.is_restored())? {
            let is_over = self.0.tape.settling().is_none_or(|settling| settling.stage.is_over());
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
        self.0.upkeep.end_quarantine(|| self.check_quarantine_may_end())
    }

    /// Refuses while a line of the backup is kept to which the catalogue could go back to before its last
    /// restore.
    fn check_quarantine_may_end(&self) -> Result<(), ArchiveError> {
        let Some(backup) = self.0.backup.get() else { return Ok(()) };
        match backup.older_lines().map_err(|error| ArchiveError::Backup(Box::new(error)))? {
            Some(OlderLines { directories, line }) => {
                Err(ArchiveError::QuarantineNeeded { directories, line })
            }
            None => Ok(()),
        }
    }

    /// The instance's id.
    #[must_use]
    pub fn instance(&self) -> Uuid {
        self.0.ground.instance
    }
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
    let said = |state| catalogue.read(|view| view.pool_drives_in(state));
    // A start in the middle of a removal begins it anew.
    for drive in said(PoolDriveState::Leaving)? {
        catalogue.execute(Command::SetPoolDrive { drive, state: Some(PoolDriveState::Draining) })?;
    }
    let (draining, removed) = (said(PoolDriveState::Draining)?, said(PoolDriveState::Removed)?);
    let lost = catalogue.read(lost_drives)?;
    // Of a restored catalogue: they are in use again.
    for drive in &said(PoolDriveState::Lost)? - &lost {
        catalogue.execute(Command::SetPoolDrive { drive, state: None })?;
    }
    let known_sets = catalogue.read(|view| view.stripe_sets())?;
    let mut entries: Vec<DriveEntry> =
        settings.pool.drives.iter().map(|drive| drive.entry(&settings.pool)).collect();
    // Stripes may stand on a drive that the settings do not name any more: it is missing until it is given
    // up.
    let named: BTreeSet<DriveId> = entries.iter().map(|entry| entry.id).collect();
    let in_sets: BTreeSet<DriveId> = known_sets.iter().flat_map(|set| set.drives.iter().copied()).collect();
    for id in &(&in_sets - &named) - &removed {
        tracing::warn!(
            drive = %id,
            "kist.toml does not name a drive of the pool on which stripes may stand: it counts as missing; \
             kist pool drive remove takes it out if nothing does"
        );
        let domain = FailureDomain { disk: format!("drive {id}"), ..FailureDomain::default() };
        entries.push(DriveEntry { id, domain, group: DriveGroup::MAIN, state: DriveState::Down, weight: 1 });
    }
    let map = DriveMap::new(epoch, entries)?;
    // One that was taken out or given up is not opened, whatever stands in its directory.
    let is_out = |id: &DriveId| removed.contains(id) || lost.contains(id);
    let drives = drives.into_iter().map(|(id, drive)| (id, drive.filter(|_| !is_out(&id)))).collect();
    let instance = catalogue.read(|view| view.instance())?.ok_or(OpenError::NotInitialised)?;
    let groups = settings.pool.groups.iter().map(|group| group.code).collect();
    let arena = settings.pool.arena;
    let config = PoolConfig { arena, groups, ..PoolConfig::new(instance, settings.pool.code) };
    let config = PoolConfig {
        cell_size: shape.cell_size.unwrap_or(config.cell_size),
        segment_size: shape.segment_size.unwrap_or(config.segment_size),
        ..config
    };
    let pool = Pool::open(config, epoch, map, drives, known_sets)?;
    removed.intersection(&named).try_for_each(|id| pool.take_out(*id))?;
    lost.iter()
        .filter(|id| named.contains(id) || in_sets.contains(id))
        .try_for_each(|id| pool.declare_lost(*id))?;
    draining.intersection(&named).try_for_each(|id| pool.set_draining(*id, true))?;
    // Stamped before anything is written: from now on an older catalogue is recognised.
    if let Err(error) = pool.stamp(catalogue.read(|view| view.last_change())?) {
        tracing::error!(%error, "a pool drive cannot be written");
    }
    Ok(pool)
}
