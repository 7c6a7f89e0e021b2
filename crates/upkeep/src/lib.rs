//! The room that keeps what is there: scrubbing, repair and rebuilding of the pool, files that it has lost,
//! the removal of garbage, the trusted time, and the check of the catalogue.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, PoisonError};

use ground::{ArchiveError, Duty, Ground, OpenError, PoolDriveFile, RebalanceInfo, RecodingInfo, SegmentUse};
use threads::{Mutex, MutexGuard};

mod add_drive;
mod anew;
mod away;
mod copies;
mod disks;
mod drain;
mod findings;
mod forget;
mod keep_time;
mod left_behind;
mod lost;
mod lost_files;
mod moving;
mod placing;
mod pool_drives;
mod pool_gaps;
mod pool_rebuild;
mod pool_work;
mod predicted;
mod rebalance;
mod rebuild_progress;
mod rebuild_workers;
mod recode;
mod scrub;
mod seen_places;
mod segment_use;
mod sweep;
mod undecided;
mod unknown;
mod verify;

use pool_work::Told;

pub use add_drive::{AddedDrive, AddedWhat, NewDrive};
pub use away::{give_up, is_out_of_reach, nearline, no_tape_gives, refusal, refused, refuses_evict};
pub use keep_time::{apart, begin as begin_time};
pub use lost::{
    NAMED_MAX, declare_file, declare_members, index_written, keys_counted_on, met, parts, path_of,
    record_lost,
};
pub use pool_drives::{PoolHealth, ReplacedDrive};
pub use unknown::{KeptExtents, QuarantineEnded, UnknownKept, WhyLeft};
pub use verify::{CatalogueFinding, clean as clean_verifying};

/// The upkeep of one instance. It stands on the [`Ground`], all of which it has as its own.
pub struct Upkeep {
    ground: Arc<Ground>,
    /// What the scrubber is to do, and how far it is.
    doing: scrub::Doing,
    /// What it has found.
    findings: Mutex<findings::Findings>,
    /// Whether there may be lost files.
    some_lost: AtomicBool,
    /// Whether all keys of tapes were asked for since the start.
    keys_asked: AtomicBool,
    /// Files that wait for that and that the pool cannot give.
    undecided: undecided::Undecided,
    /// How much of the repair list was tried in vain and is tried again.
    tried_in_vain: AtomicU64,
    /// The files that are known to be LOST.
    lost_files: lost_files::LostFiles,
    /// What small values take of the pool, as last measured.
    segment_use: Mutex<Option<SegmentUse>>,
    /// What the quarantine of a restore keeps, as last measured.
    quarantine_use: Mutex<Option<KeptExtents>>,
    /// Held while the clocks are compared: they are by one at a time.
    keeping_time: Mutex<()>,
    /// Held while an operator changes what a drive of the pool is: what one was told stands until it is done.
    changing_drives: Mutex<()>,
    /// How far a rebalance is, or the last one came.
    rebalancing: Told<RebalanceInfo>,
    /// How far a change of code is, or the last one came.
    recoding: Told<RecodingInfo>,
    /// What has moved between groups of drives.
    placed: Mutex<placing::Placed>,
    /// Where the operator names the drives of the pool.
    drive_file: OnceLock<Arc<dyn PoolDriveFile>>,
    /// Held while the catalogue is verified.
    verifying: Mutex<()>,
    /// What the last look at the machine has shown of the disks under the drives.
    disk_looks: Mutex<disks::Looks>,
}

impl Deref for Upkeep {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl Upkeep {
    /// The upkeep of what stands on this ground.
    #[must_use]
    pub fn new(ground: Arc<Ground>) -> Self {
        Upkeep {
            ground,
            doing: scrub::Doing::default(),
            findings: Mutex::default(),
            some_lost: AtomicBool::new(true),
            keys_asked: AtomicBool::new(false),
            undecided: undecided::Undecided::default(),
            tried_in_vain: AtomicU64::new(0),
            lost_files: lost_files::LostFiles::default(),
            segment_use: Mutex::default(),
            quarantine_use: Mutex::default(),
            keeping_time: Mutex::new(()),
            changing_drives: Mutex::new(()),
            rebalancing: Told::default(),
            recoding: Told::default(),
            placed: Mutex::default(),
            drive_file: OnceLock::new(),
            verifying: Mutex::new(()),
            disk_looks: Mutex::default(),
        }
    }

    /// Starts the sweeper and the scrubber. `also` is done at each turn of the sweeper.
    ///
    /// # Errors
    /// If the system has no threads for them.
    pub fn start(
        self: &Arc<Self>,
        mut also: impl FnMut() -> Result<(), ArchiveError> + Send + 'static,
    ) -> Result<(), OpenError> {
        let own = Arc::clone(self);
        let sweeper = Duty::new("sweeper", self, |upkeep| upkeep.sweep.ring());
        self.ground.start(sweeper, move |me| sweep::run(&own, me, &mut also))?;
        pool_drives::resume_unfilled(self);
        let own = Arc::clone(self);
        let scrubber = Duty::new("scrubber", self, Upkeep::ring);
        self.ground.start(scrubber, move |me| scrub::run(&own, me))
    }

    /// Tells the drives of the pool what the newest change is.
    pub fn stamp(&self) {
        sweep::stamp(self);
    }

    /// What the quarantine of a restore keeps, as last measured; `None` without one, or before that.
    pub fn quarantine_use(&self) -> Option<KeptExtents> {
        *self.quarantine_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What small values take of the pool, as last measured.
    pub fn segment_use(&self) -> Option<SegmentUse> {
        *self.segment_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn placed(&self) -> MutexGuard<'_, placing::Placed> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes_drives(&self) -> MutexGuard<'_, ()> {
        self.changing_drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_looks(&self, change: impl FnOnce(&mut disks::Looks)) {
        change(&mut self.disk_looks.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether what the pool cannot read now it cannot read later either: no drive is away that may come
    /// back.
    pub fn no_drive_may_come_back(&self) -> bool {
        self.pool.silent_drives().is_subset(&self.given_up())
    }

    /// Keeps files that were found LOST.
    pub fn note_lost(&self, files: &[base::FileId]) {
        self.lost_files.add(files);
    }
}
