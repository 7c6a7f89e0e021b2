//! Putting the tape room together, and its threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use threads::Mutex;
use threads::mpsc::sync_channel;

use backup::BackupReach;
use base::{LibraryId, RequestId};
use ground::{Duty, Ground, OpenError, SettlingInfo, Upward, Worker};
use journal::{DriveFitFile, MountLog};
use library::Library;
use mounts::Mounts;
use namespace::Namespace;
use scheduler::{Event, Scheduler};
use settle::Settling;
use upkeep::Upkeep;

use crate::conductor::{Conductor, ORDERS_MAX, SEALS_MAX, run_sealer};
use crate::flow::Flow;
use crate::foresight::Foresight;
use crate::inventory::Inventory;
use crate::room::{OfTerm, Tape};
use crate::sessions::DriveThread;
use crate::tape_retries::TapeRetries;

/// What the tape room is made of.
pub struct TapeParts {
    /// What it stands on.
    pub ground: Arc<Ground>,
    /// The room of names.
    pub namespace: Arc<Namespace>,
    /// The room that keeps what is there.
    pub upkeep: Arc<Upkeep>,
    /// The libraries.
    pub library: Arc<dyn Library>,
    /// [`Library::changes`] of the inventory that the ground knows.
    pub changes: u64,
    /// Gives the ids of new volumes.
    pub random_uuid: Arc<dyn Fn() -> Option<base::Uuid> + Send + Sync>,
    /// Where mounts are written down.
    pub mount_log: Option<Arc<dyn MountLog>>,
    /// Where it is kept what the locates of each drive say of it.
    pub drive_fits: Option<DriveFitFile>,
    /// What the ground knows as [`Ground::settled`].
    pub settling: Arc<Settling>,
    /// Whether the catalogue is shipped to a backup.
    pub has_backup: bool,
}

/// What a room knows that has begun, and is to start.
pub struct Begun {
    /// Tape drives that an operator has taken out of use, and why.
    down: BTreeMap<String, String>,
    /// Whether a restored catalogue is to be compared with pool and tapes.
    settles: bool,
}

impl Tape {
    /// The tapes of what stands on this ground.
    ///
    /// # Errors
    /// If the settings name a model of drives that is not known.
    pub fn new(parts: TapeParts) -> Result<Arc<Self>, OpenError> {
        let TapeParts { ground, namespace, upkeep, library, changes, .. } = parts;
        let scheduler = Scheduler::new(ground.classes.policy(&ground.settings));
        let fits = crate::fits::KnownFits::open(parts.drive_fits);
        let foresight = Foresight::new(ground.classes.pace(&ground.settings, &fits.all())?);
        let term = ground.catalogue.term();
        tracing::debug!(%term, "what is planned belongs to this term of the change log");
        let tape = Arc::new(Tape {
            blobs: Arc::new(ground.pool.blobs()),
            ground,
            random_uuid: parts.random_uuid,
            library,
            scheduler: Mutex::new(scheduler),
            own: OfTerm::begin(term),
            foresight,
            dissolving: AtomicBool::new(false),
            ordering: Mutex::new(()),
            recall_arrivals: AtomicU64::new(0),
            tape_states: Mutex::default(),
            tape_retries: TapeRetries::default(),
            keys_missing: crate::keys::KeysMissing::default(),
            sessions: Mutex::new(BTreeMap::new()),
            mounts: Arc::new(Mounts::new(parts.mount_log)),
            fits,
            inventory: Inventory::new(changes),
            namespace,
            upkeep,
            backup_reach: Arc::new(BackupReach::default()),
            evictor: crate::evictor::Evictor::default(),
            bases: crate::bases::Bases::default(),
            settling: parts.settling,
            seal_failures: crate::seal::SealFailures::default(),
            submissions_left: Mutex::default(),
        });
        if parts.has_backup {
            // Before the sweeper runs: nobody knows yet what the backup has.
            tape.backup_reach.begins();
        }
        let above: Arc<dyn Upward> = Arc::clone(&tape) as Arc<dyn Upward>;
        let is_first = tape.above.set(Arc::downgrade(&above)).is_ok();
        assert!(is_first, "the ground has one tape room");
        Ok(tape)
    }

    /// Does what comes before the first thread: gives up what the last server left half sealed, and finds out
    /// whether a restored catalogue is to be settled.
    ///
    /// # Errors
    /// If the catalogue cannot be read, or the restored one not be compared.
    pub fn begin(&self) -> Result<Begun, OpenError> {
        // Before what is on tape is compared with the catalogue: no tape has anything of these.
        if let Err(error) = crate::seal::give_up_unfinished(self) {
            tracing::error!(%error, "packs whose sealing did not end are given up later");
        }
        let down: BTreeMap<_, _> = self.catalogue.read(|view| view.drives_down())?.into_iter().collect();
        let settles = self.settler().begin(&down).map_err(|error| OpenError::Settle(Box::new(error)))?;
        Ok(Begun { down, settles })
    }

    /// Starts the conductor, the sealer, one thread for each drive, and what else the tapes need.
    ///
    /// # Errors
    /// If a drive cannot be taken, or the system has no threads for them.
    pub fn start(self: &Arc<Self>, begun: &Begun) -> Result<(), OpenError> {
        let needs_keys = self.needs_keys();
        // Before the drives' threads: until then no session writes a base.
        if !needs_keys {
            self.upkeep.asked_for_keys(false);
        }
        // Before anything is told of tapes.
        self.know_what_leaves()?;
        // Before the drives' threads: what those tell of tapes is newer.
        let tapes = self.tapes_known()?;
        let (orders, drives) = self.start_drives(begun)?;
        // Before the drives: one that must be cleaned gets no tape when it comes up.
        let mut known = self.cleaning_known()?;
        known.extend(drives);
        // The drives first: one that comes up takes time in proportion to the tapes that are known.
        known.extend(tapes);
        let (sealer, seals) = sync_channel(SEALS_MAX);
        self.go("sealer", |tape| tape.settling.stop(), move |tape, me| run_sealer(tape, &seals, me))?;
        if needs_keys {
            self.go("keys", |tape| tape.keys_missing.stop(), |tape, me| crate::keys::run(tape, me))?;
        }
        if self.needs_evictor() {
            self.go("evictor", |tape| tape.leaving.ring(), |tape, me| crate::evictor::run(tape, me))?;
        }
        self.go("inventory", |tape| tape.inventory.stop(), |tape, me| crate::inventory::run(tape, me))?;
        let conductor = Conductor {
            room: Arc::clone(self),
            began: self.now(),
            drives: orders,
            known,
            sealer,
            todo_since: BTreeMap::new(),
            sealing: BTreeMap::new(),
            wake: None,
            flow: Flow::default(),
            too_large: false,
            resting: Arc::default(),
        };
        self.go("conductor", |tape| tape.notifier.stop(), move |_, me| conductor.run(me))?;
        if begun.settles {
            self.go(
                "settle",
                |tape| tape.settling.stop(),
                move |tape, me| {
                    tape.settler().run(me);
                },
            )?;
        }
        // Only requests of before this start: those that come from now on tell of their files themselves.
        let newest = self.catalogue.read(|view| view.requests(None, 1))?;
        let before = newest.first().map_or(RequestId(0), |(id, _)| RequestId(id.0 + 1));
        self.go("resume", |tape| tape.settling.stop(), move |tape, me| resume(tape, before, me))
    }

    /// What the scheduler is to know of all tapes.
    fn tapes_known(&self) -> Result<Vec<Event>, OpenError> {
        let tapes = self.catalogue.read(|view| view.tapes())?;
        Ok(tapes.into_iter().map(|(vid, record)| Event::Tape(vid, self.summary_of(vid, &record))).collect())
    }

    /// Starts a thread for each drive. Gives what hands them their orders, and what the scheduler is to know
    /// of the drives.
    fn start_drives(self: &Arc<Self>, begun: &Begun) -> Result<(Orders, Vec<Event>), OpenError> {
        let (mut orders, mut known) = (BTreeMap::new(), Vec::new());
        for name in self.library.drives() {
            let (sender, receiver) = sync_channel(ORDERS_MAX);
            let handle = self.library.take_drive(&name)?;
            let thread = DriveThread::new(Arc::clone(self), name.clone(), handle);
            orders.insert(name.as_str().to_owned(), sender);
            let library = LibraryId(self.library.library_of(&name));
            let is_down = begun.down.contains_key(name.as_str());
            let looks = begun.settles && !is_down;
            let own = name.as_str().to_owned();
            known.push(Event::DriveIn(own.clone(), library));
            known.push(match begun.down.get(&own) {
                Some(reason) => Event::DriveDown(own, reason.clone()),
                None if looks => Event::DriveDown(own, settle::DRIVES_LOOK.to_owned()),
                None => Event::DriveUp(own),
            });
            let name = format!("tape-{name}");
            self.go(&name, |tape| tape.settling.stop(), move |_, me| thread.run(&receiver, looks, me))?;
        }
        Ok((orders, known))
    }

    fn go(
        self: &Arc<Self>,
        name: &str,
        wake: impl Fn(&Tape) + Send + Sync + 'static,
        run: impl FnOnce(&Arc<Tape>, &Arc<Worker>) + Send + 'static,
    ) -> Result<(), OpenError> {
        let own = Arc::clone(self);
        self.ground.start(Duty::new(name, self, wake), move |me| run(&own, me))
    }

    /// The libraries.
    pub fn library(&self) -> &dyn Library {
        self.library.as_ref()
    }

    /// How far the backup of the catalogue has its log of changes.
    pub fn backup_reach(&self) -> &Arc<BackupReach> {
        &self.backup_reach
    }

    /// How far a restored catalogue was compared with pool and tapes; `None` if it was none when the server
    /// was started.
    pub fn settling(&self) -> Option<SettlingInfo> {
        self.settling.info(self.now(), self.steady())
    }
}

/// What hands their orders to the drives.
type Orders = BTreeMap<String, threads::mpsc::SyncSender<crate::conductor::DriveTask>>;

/// Goes on with what the last stop broke off.
fn resume(room: &Tape, before: RequestId, me: &Worker) {
    me.does("going on with requests");
    if let Err(error) = crate::resume::finish_requests(room, before) {
        tracing::error!(%error, "open requests cannot be read");
        me.failed(&error);
    }
    if let Err(error) = ingest::finish_aborts(room) {
        tracing::error!(%error, "uploads in parts cannot be read");
        me.failed(&error);
    }
    me.rests();
    // What is to be written again is decided by what the pool has.
    if !room.settling.wait_for_pool() {
        return;
    }
    me.does("going on with tapes");
    if let Err(error) = crate::tapes::resume(room) {
        tracing::error!(%error, "what is to be done on tapes cannot be read");
        me.failed(&error);
    }
}
