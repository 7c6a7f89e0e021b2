//! The scrubber: reads and checks all of the pool over and over, slowly, repairs what it or a read finds, and
//! rebuilds what lost drives held.
//!
//! Its place in a pass is kept in memory: after a restart a pass begins anew.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex, MutexGuard};

use base::{
    BlobDescription, BlobId, BlobPiece, ByteCount, ContainerId, DriveId, Duration, FileId, Layout, Timestamp,
    Vid,
};
use catalogue::FileRecord;
use pool::DriveHealth;

use crate::Upkeep;
use crate::drain::Drain;
use crate::findings::{Findings, Found};
use crate::left_behind::{LeftBehind, OldShards};
use crate::lost::{self, Declared};
use crate::placing::Placing;
use crate::rebalance::{REBUILD_FIRST, Rebalance};
use crate::recode::Recode;
use crate::{pool_drives, pool_gaps, pool_rebuild, unknown};
use ground::{ArchiveError, DrainInfo, LeavingCause, PoolWork, ScrubInfo, UpkeepSettings, Worker};

mod pass;

/// Without being asked the first pass begins this long after the start.
const FIRST_PASS_AFTER: Duration = Duration::from_secs(600);
/// How often the scrubber looks without being rung.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What could not be rebuilt is tried again after so long, and each time after twice as long,
const REBUILD_REST_MIN: Duration = Duration::from_secs(5);
/// up to this.
const REBUILD_REST_MAX: Duration = Duration::from_secs(3_600);
/// After so long the drives are looked through again that could not be.
const UNKNOWN_AGAIN: Duration = Duration::from_secs(3_600);
/// How long it waits for clients before each row.
const YIELD_MAX: Duration = Duration::from_millis(100);
/// How long at once.
const YIELD_STEP: Duration = Duration::from_millis(5);
/// A pass that nobody asked for reads at least this many bytes a second.
const RATE_MIN: u64 = 4 << 20;
/// Blobs looked up together.
const BLOBS_PAGE: usize = 256;
/// Files and containers looked up together.
const FILES_PAGE: usize = 500;
/// Damaged blobs repaired before anything else is looked at.
const REPAIRS_AT_ONCE: usize = 16;
/// A blob whose repair was tried is left alone so long, twice as long after each further time ...
const TRIED_REST: Duration = Duration::from_secs(5);
/// ... at most so long.
const TRIED_KEPT: Duration = Duration::from_secs(3_600);
/// Blobs that are remembered; the passes of the scrubber come to all.
const TRIED_MAX: usize = 10_000;
/// Lost stripes remembered; with more, drives count as not filled.
const LOST_STRIPES_MAX: usize = 100_000;
/// Blobs with lost bytes remembered in a pass; the files of further ones are found by the next.
const LOST_BLOBS_MAX: usize = 100_000;

/// Blobs that are remembered to have an extent beside its place; of others it goes with the next look.
const KEPT_BESIDE_MAX: usize = 10_000;

/// What the scrubber is to do and does, and what wakes it.
pub(crate) struct Doing {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    settings: UpkeepSettings,
    orders: Orders,
    /// Drives whose content is rebuilt elsewhere.
    given_up: BTreeSet<DriveId>,
    info: ScrubInfo,
    /// Of these no drive holds enough any more.
    lost_stripes: BTreeSet<(BlobId, u32)>,
    /// Of these an extent beside its place was kept although its time was over.
    kept_beside: BTreeSet<BlobId>,
    /// Drives that are emptied, and how far that is.
    drains: BTreeMap<DriveId, DrainInfo>,
    /// Drives with shards that have moved and are kept for who reads them.
    left_on: BTreeSet<DriveId>,
    /// Tapes that are suspect or disabled.
    aside: BTreeSet<Vid>,
    woken: bool,
}

/// What is asked of the scrubber.
#[derive(Clone, Default, Debug)]
pub(crate) struct Orders {
    /// A pass now.
    pub(crate) pass: bool,
    /// What lost drives held is to be rebuilt.
    pub(crate) rebuild: bool,
    /// Files that cannot be read without the lost drives are to be found.
    pub(crate) find: bool,
    /// Files are to be decided about that waited for the keys of tapes.
    pub(crate) decide: bool,
    /// Lost files may be readable again.
    pub(crate) find_again: bool,
    /// A drive was put in, which may hold what was removed or has moved meanwhile.
    pub(crate) orphans: bool,
    /// An operator has ended the time for which extents were kept that nothing names.
    pub(crate) orphans_over: bool,
    /// New, empty drives that get their shards back.
    pub(crate) replaced: BTreeSet<DriveId>,
}

impl Default for Doing {
    fn default() -> Self {
        let state = State {
            orders: Orders { find_again: true, ..Orders::default() },
            info: ScrubInfo { phase: "idle".to_owned(), ..ScrubInfo::default() },
            ..State::default()
        };
        Doing { state: Mutex::new(state), rung: Condvar::new() }
    }
}

impl Upkeep {
    fn state(&self) -> MutexGuard<'_, State> {
        self.doing.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> UpkeepSettings {
        self.state().settings
    }

    pub(crate) fn set(&self, settings: UpkeepSettings) {
        self.state().settings = settings;
        self.ring();
    }

    /// A stripe of which no drive holds enough any more; `false` if there are too many to remember.
    pub(crate) fn note_lost_stripe(&self, blob: BlobId, stripe: u32) -> bool {
        let lost = &mut self.state().lost_stripes;
        lost.contains(&(blob, stripe)) || lost.len() < LOST_STRIPES_MAX && lost.insert((blob, stripe))
    }

    /// An extent of a blob is kept beside its place.
    pub(crate) fn note_kept_beside(&self, blob: BlobId) {
        let kept = &mut self.state().kept_beside;
        if kept.len() < KEPT_BESIDE_MAX {
            kept.insert(blob);
        }
    }

    /// How a tape stands now. When one can give again what it has, files that were LOST because it could not
    /// are looked for.
    pub fn note_tape(&self, vid: Vid, can_give: bool) {
        let is_back = {
            let aside = &mut self.state().aside;
            if !can_give {
                aside.insert(vid);
            }
            can_give && aside.remove(&vid)
        };
        if is_back {
            self.leaving.tell(LeavingCause::MayLeave);
            self.order(|orders| orders.find_again = true);
        }
    }

    /// Blobs were removed, or are whole again: what is kept of them beside its place is to go too.
    pub(crate) fn need_nothing_beside(&self, blobs: &[BlobId]) {
        let found = {
            let mut state = self.state();
            blobs.iter().filter(|blob| state.kept_beside.remove(blob)).count()
        };
        if found > 0 {
            self.order(|orders| orders.orphans = true);
        }
    }

    pub(crate) fn lost_stripes(&self) -> BTreeSet<(BlobId, u32)> {
        self.state().lost_stripes.clone()
    }

    /// When drives come back, and before all is rebuilt: whoever looks finds them anew.
    pub(crate) fn forget_lost_stripes(&self) {
        self.state().lost_stripes.clear();
    }

    /// Whether shards that have moved off a drive are kept there for who reads them.
    pub(crate) fn is_left_on(&self, drive: DriveId) -> bool {
        self.state().left_on.contains(&drive)
    }

    /// What is known of drives that are emptied.
    pub(crate) fn drains(&self, change: impl FnOnce(&mut BTreeMap<DriveId, DrainInfo>)) {
        change(&mut self.state().drains);
    }

    /// Changes what is asked, and wakes the scrubber.
    pub(crate) fn order(&self, change: impl FnOnce(&mut Orders)) {
        let mut state = self.state();
        change(&mut state.orders);
        if state.orders.pass {
            state.info.hurried = true;
        }
        drop(state);
        self.ring();
    }

    pub(crate) fn ring(&self) {
        self.state().woken = true;
        self.doing.rung.notify_all();
    }

    /// The drives whose content is rebuilt elsewhere.
    pub fn given_up(&self) -> BTreeSet<DriveId> {
        self.state().given_up.clone()
    }

    /// Drives that were replaced and whose rebuild has not begun.
    fn replaced(&self) -> BTreeSet<DriveId> {
        self.state().orders.replaced.clone()
    }

    fn take_orders(&self) -> Orders {
        std::mem::take(&mut self.state().orders)
    }

    /// Waits until it is rung, at most for `patience`.
    fn wait(&self, patience: Duration) {
        let mut state = self.state();
        if !state.woken {
            state = self.doing.rung.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.woken = false;
    }

    /// Waits for a moment, rung or not.
    fn pause(&self, span: Duration) {
        let state = self.state();
        drop(self.doing.rung.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0);
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut ScrubInfo)) {
        change(&mut self.state().info);
    }

    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn info(&self) -> ScrubInfo {
        self.state().info.clone()
    }
}

/// The scrubber's thread.
pub(crate) fn run(upkeep: &Arc<Upkeep>, me: &Arc<Worker>) {
    let mut scrubber = Scrubber {
        upkeep: Arc::clone(upkeep),
        me: Arc::clone(me),
        pass: None,
        asked: false,
        next_pass: upkeep.now().plus(FIRST_PASS_AFTER),
        debt: Duration::ZERO,
        left_behind: LeftBehind::default(),
        has_left_out: false,
        rebuild_again: None,
        // At once: what is not removed takes room, no more, so nobody waits for it.
        unknown_due: Some(upkeep.now()),
        unknown_over: false,
        quarantine_due: Duration::ZERO,
        silent_since: BTreeMap::new(),
        given_up: BTreeSet::new(),
        still_with_gaps: BTreeSet::new(),
        asked_for_gaps: BTreeSet::new(),
        tried: BTreeMap::new(),
        drain: None,
        rebalance: None,
        recode: None,
        placing: Placing::default(),
        tally: pool_rebuild::Tally::default(),
    };
    while !upkeep.stopping() {
        if upkeep.settled.holds_pool() {
            me.rests();
            upkeep.wait(LOOK_EVERY);
            continue;
        }
        if let Err(error) = scrubber.step() {
            tracing::error!(%error, "scrubbing failed; it goes on with the next blob");
            me.failed(&error);
            upkeep.found([Found::other(format!("a part was not checked: {error}"))]);
            me.rests();
            upkeep.wait(LOOK_EVERY);
        }
    }
}

/// A blob on the repair list, or where a value of a segment begins.
type Listed = (BlobId, Option<ByteCount>);

fn listed(blob: BlobId, value: Option<BlobPiece>) -> Listed {
    (blob, value.map(|value| value.offset))
}

/// Something that could not be repaired.
struct Tried {
    value: Option<BlobPiece>,
    /// Until when it is left alone.
    until: Timestamp,
    /// How often it was tried.
    times: u32,
}

/// A rebuild that is tried again.
#[derive(Clone, Copy)]
struct Again {
    /// When, by the steady clock.
    due: Duration,
    /// The rest before it.
    rest: Duration,
}

pub(crate) struct Scrubber {
    pub(crate) upkeep: Arc<Upkeep>,
    /// Its thread.
    pub(crate) me: Arc<Worker>,
    pass: Option<Pass>,
    /// A pass was asked for and has not begun.
    asked: bool,
    next_pass: Timestamp,
    /// Time that is still to be waited for what was read.
    debt: Duration,
    left_behind: LeftBehind,
    /// Whether a rebuild has left a shard as it was: its drive did not answer, or too few others were whole.
    pub(crate) has_left_out: bool,
    /// When what could not be rebuilt is tried again.
    rebuild_again: Option<Again>,
    /// When the drives are to be looked through for what nothing names, and what of it was kept long enough.
    unknown_due: Option<Timestamp>,
    /// An operator has ended the time of what was noted; until a look has gone through all drives.
    unknown_over: bool,
    /// When what a restore keeps is measured, by the steady clock.
    quarantine_due: Duration,
    /// Since when drives do not answer.
    silent_since: BTreeMap<DriveId, Duration>,
    /// Drives whose content is rebuilt elsewhere.
    given_up: BTreeSet<DriveId>,
    /// Drives that were gone through for gaps, and have some that could not be filled.
    still_with_gaps: BTreeSet<DriveId>,
    /// Those for which a pass was asked, since files may be lost with the gaps.
    asked_for_gaps: BTreeSet<DriveId>,
    /// What stood on the repair list and could not be repaired: it is left alone for a while, and tried again
    /// without anybody asking. What cannot be repaired would come back at once, by what reads find.
    tried: BTreeMap<Listed, Tried>,
    /// The look for what stands on drives that are to be emptied.
    pub(crate) drain: Option<Drain>,
    /// A rebalance under way.
    pub(crate) rebalance: Option<Rebalance>,
    /// A change of code under way.
    pub(crate) recode: Option<Recode>,
    /// What moves between groups of drives.
    pub(crate) placing: Placing,
    /// What the log is told at the end of what is done now.
    pub(crate) tally: pool_rebuild::Tally,
}

/// A pass under way.
struct Pass {
    place: Place,
    /// Bytes of striped blobs that can neither be read nor rebuilt; their files are named when all files are
    /// gone through.
    lost: BTreeMap<BlobId, Vec<(u64, u64)>>,
}

enum Place {
    Blobs { page: VecDeque<BlobId>, after: Option<BlobId>, within: Option<(BlobDescription, u32)> },
    Files { after: Option<FileId> },
    Containers { after: Option<ContainerId> },
}

impl Scrubber {
    /// Does the next small thing, most urgent first.
    fn step(&mut self) -> Result<(), ArchiveError> {
        self.me.does("looking after drives");
        self.watch_drives();
        self.remove_left_behind();
        let orders = self.upkeep.take_orders();
        // Kept, since what is more urgent ends this step.
        self.asked |= orders.pass;
        // By this thread, which alone moves stripes: an extent that is not in the catalogue yet is no orphan.
        let is_due = self.unknown_due.is_some_and(|due| due <= self.upkeep.now());
        self.unknown_over |= orders.orphans_over;
        if orders.orphans || is_due {
            self.look_for_unknown();
        }
        if self.quarantine_due <= self.upkeep.steady() {
            self.quarantine_due = unknown::measure_quarantine(&self.upkeep);
        }
        // What was ordered is taken: an error must not cost what is ordered besides.
        if orders.find
            && let Err(error) = self.find_lost()
        {
            tracing::error!(%error, "not all lost files were found; the next pass finds the others");
            self.me.failed(&error);
        }
        if orders.decide {
            match self.upkeep.decide() {
                Ok(declared) => self.declared(&declared),
                Err(error) => {
                    tracing::error!(%error, "not all that waited for keys is decided; the next pass does it");
                    self.me.failed(&error);
                }
            }
        }
        if orders.find_again
            && self.upkeep.some_lost.swap(false, Ordering::SeqCst)
            && let Err(error) = self.find_again()
        {
            self.upkeep.some_lost.store(true, Ordering::SeqCst);
            tracing::error!(%error, "not all lost files were tried; the next pass tries the others");
            self.me.failed(&error);
        }
        let is_again = self.rebuild_again.is_some_and(|again| again.due <= self.upkeep.steady());
        if is_again {
            pool_drives::resume_unfilled(&self.upkeep);
        }
        if orders.rebuild || is_again || !orders.replaced.is_empty() {
            self.upkeep.rebalancing.state(PoolWork::Waiting(REBUILD_FIRST.to_owned()));
            self.upkeep.recoding.state(PoolWork::Waiting(REBUILD_FIRST.to_owned()));
            self.phase("rebuilding");
            self.me.does("rebuilding");
            self.has_left_out = false;
            let rebuilt = pool_rebuild::all(self, &orders.replaced);
            self.tally.tell();
            self.phase("idle");
            self.rest_rebuild(rebuilt.is_err() || self.has_left_out);
            if let Err(error) = self.find_lost_stripes(&orders.replaced) {
                tracing::error!(%error, "not all lost files were found; the next pass finds the others");
            }
            rebuilt?;
            // Else the mark on them stays: they are rebuilt after a rest, when a drive comes back, and at the
            // next start.
            let stopped = self.upkeep.stopping();
            if !stopped && !self.has_left_out {
                // One that was replaced once more meanwhile is blank again.
                let again = self.upkeep.replaced();
                pool_drives::filled(&self.upkeep, &(&orders.replaced - &again));
            }
        }
        self.fill_gaps()?;
        if self.repair_list()? {
            return Ok(());
        }
        if self.move_some()? {
            return Ok(());
        }
        if self.pass.is_none() && (self.asked || self.next_pass <= self.upkeep.now()) {
            let hurried = std::mem::take(&mut self.asked);
            self.begin(hurried)?;
        }
        if self.pass.is_none() {
            self.tally.tell();
            self.me.rests();
            self.upkeep.wait(LOOK_EVERY);
            return Ok(());
        }
        if self.upkeep.info().hurried {
            self.debt = Duration::ZERO;
        }
        self.me.does("scrubbing");
        if self.debt > Duration::ZERO {
            let now = self.debt.min(LOOK_EVERY);
            self.upkeep.wait(now);
            self.debt -= now;
            return Ok(());
        }
        self.advance()
    }

    /// Moves the next shards off drives that are to be emptied, writes what is in another code or in the
    /// wrong group of drives anew, or moves shards of a rebalance; whether the pass that nobody asked for
    /// waits: for the first, and for the others as long as it rests anyway.
    fn move_some(&mut self) -> Result<bool, ArchiveError> {
        let drains = self.drain()?;
        let began = self.upkeep.steady();
        let drains_first = drains.then_some("drives are being emptied first");
        let recodes = self.recode(drains_first)?;
        if recodes && let Some(rebalance) = &mut self.rebalance {
            rebalance.forget_what_stands();
        }
        let recodes_first = recodes.then_some("what is in another code is written anew first");
        let places = self.place(drains_first.or(recodes_first))?;
        if places && let Some(rebalance) = &mut self.rebalance {
            rebalance.forget_what_stands();
        }
        let places_first = places.then_some("what is in the wrong group of drives moves first");
        let moves = self.rebalance(drains_first.or(recodes_first).or(places_first))? || recodes || places;
        if self.asked || self.upkeep.info().hurried {
            return Ok(false);
        }
        if moves {
            self.debt = self.debt.saturating_sub(self.upkeep.steady().saturating_sub(began));
        }
        let pass_is_due = match &self.pass {
            Some(_) => self.debt == Duration::ZERO,
            None => self.next_pass <= self.upkeep.now(),
        };
        Ok(drains || moves && !pass_is_due)
    }

    /// Whether what could not be rebuilt is to be tried again.
    pub(crate) fn rebuild_is_due(&self) -> bool {
        self.rebuild_again.is_some()
    }

    /// Goes through drives that may lack something, once until something changes.
    fn fill_gaps(&mut self) -> Result<(), ArchiveError> {
        let drives = &pool_drives::with_gaps(&self.upkeep) - &self.still_with_gaps;
        if drives.is_empty() {
            return Ok(());
        }
        self.still_with_gaps.extend(&drives);
        self.phase("looking for gaps");
        let filled = pool_gaps::fill(self, &drives);
        self.phase("idle");
        let stopped = self.upkeep.stopping();
        let has_lost = self.has_left_out || !self.upkeep.lost_stripes().is_empty();
        if has_lost && !stopped && !drives.is_subset(&self.asked_for_gaps) {
            // What is lost with the gaps is found by reading all of it, and its files are named; once.
            self.asked_for_gaps.extend(&drives);
            self.asked = true;
        }
        filled
    }

    pub(crate) fn phase(&self, phase: &str) {
        self.upkeep.note(|info| phase.clone_into(&mut info.phase));
    }

    /// The drives whose content is to be rebuilt elsewhere.
    pub(crate) fn given_up(&self) -> &BTreeSet<DriveId> {
        &self.given_up
    }

    /// What could not be rebuilt, since drives were late or did not answer, is tried again, ever more seldom.
    fn rest_rebuild(&mut self, failed: bool) {
        let rest = match self.rebuild_again {
            Some(again) => (again.rest * 2).min(REBUILD_REST_MAX),
            None => REBUILD_REST_MIN,
        };
        let due = self.upkeep.steady().saturating_add(rest);
        self.rebuild_again = failed.then_some(Again { due, rest });
    }

    /// Goes through the drives for what nothing names, and knows when to do so again.
    fn look_for_unknown(&mut self) {
        self.unknown_due = match unknown::look(&self.upkeep, &self.left_behind, self.unknown_over) {
            Ok(due) => {
                self.unknown_over = false;
                due
            }
            Err(error) => {
                tracing::warn!(%error, "what nothing names stays on the drives for now");
                Some(self.upkeep.now().plus(UNKNOWN_AGAIN))
            }
        };
    }

    /// Looks which drives do not answer, and for how long.
    fn watch_drives(&mut self) {
        // Not by the trusted time: when it leaps nobody has waited for a drive.
        let now = self.upkeep.steady();
        let patience = self.upkeep.settings().rebuild_after;
        let health = self.upkeep.pool.drive_health();
        let silent = DriveHealth::is_silent;
        let before = self.silent_since.len();
        self.silent_since.retain(|id, _| health.iter().any(|(drive, health)| drive == id && silent(health)));
        let came_back = self.silent_since.len() < before;
        for (id, _) in health.iter().filter(|(_, health)| silent(health)) {
            self.silent_since.entry(*id).or_insert(now);
        }
        let is_given_up = |id: &DriveId, health: &DriveHealth| {
            let waited = self.silent_since.get(id).is_some_and(|since| now.saturating_sub(*since) > patience);
            health.is_given_up() || silent(health) && waited
        };
        let given_up: BTreeSet<DriveId> =
            health.iter().filter(|(id, health)| is_given_up(id, health)).map(|(id, _)| *id).collect();
        let more = given_up.difference(&self.given_up).next().is_some();
        self.upkeep.state().given_up.clone_from(&given_up);
        self.given_up = given_up;
        if more || came_back {
            self.upkeep.order(|orders| {
                orders.find |= more;
                orders.rebuild |= more;
                orders.find_again |= came_back;
                orders.orphans |= came_back;
            });
        }
        if came_back {
            self.upkeep.forget_lost_stripes();
            self.still_with_gaps.clear();
            self.asked_for_gaps.clear();
            // What they hold may be what a replaced drive could not be filled without.
            pool_drives::resume_unfilled(&self.upkeep);
        }
    }

    fn find_lost(&mut self) -> Result<(), ArchiveError> {
        if self.given_up.is_empty() {
            return Ok(());
        }
        self.phase("looking for lost files");
        let declared = lost::find(&self.upkeep, &self.given_up)?;
        self.declared(&declared);
        self.phase("idle");
        Ok(())
    }

    /// Names the files of stripes that a rebuild could not read any more: no drive stays given up when
    /// others have taken the places, so that nothing else looks for them before a pass comes to them.
    fn find_lost_stripes(&mut self, replaced: &BTreeSet<DriveId>) -> Result<(), ArchiveError> {
        let stripes = self.upkeep.lost_stripes();
        if stripes.len() >= LOST_STRIPES_MAX && !replaced.is_subset(&self.asked_for_gaps) {
            // There are more than are remembered: a pass finds them all.
            self.asked_for_gaps.extend(replaced);
            self.asked = true;
        }
        let blobs: BTreeSet<BlobId> = stripes.into_iter().map(|(blob, _)| blob).collect();
        if blobs.is_empty() {
            return Ok(());
        }
        self.phase("looking for lost files");
        let declared = lost::find_in(&self.upkeep, &blobs);
        self.phase("idle");
        self.declared(&declared?);
        Ok(())
    }

    fn declared(&self, declared: &Declared) {
        self.upkeep.note_nearline(&declared.nearline);
        self.upkeep.note(|info| {
            info.lost += declared.lost_count;
            info.nearline += declared.nearline_count;
        });
    }

    /// Tries all lost files.
    fn find_again(&mut self) -> Result<(), ArchiveError> {
        self.phase("looking for lost files");
        self.upkeep.lost_files.begin_count();
        let mut after = None;
        loop {
            let files = self.upkeep.read(|view| view.files(after, lost::PAGE))?;
            let Some((last, _)) = files.last() else {
                self.upkeep.lost_files.end_count();
                break;
            };
            after = Some(*last);
            self.upkeep.lost_files.count(&files);
            // Drives that were filled without them lack their shards.
            self.asked |= self.found_again(&files)? > 0;
            if self.upkeep.stopping() {
                break;
            }
        }
        self.phase("idle");
        Ok(())
    }

    fn found_again(&mut self, files: &[(FileId, FileRecord)]) -> Result<u64, ArchiveError> {
        let found = lost::find_again(&self.upkeep, files)?;
        self.tally.found_again += found;
        self.upkeep.note(|info| info.found_again += found);
        Ok(found)
    }

    /// Removes what moved stripes have left behind, as far as nobody reads it.
    pub(crate) fn remove_left_behind(&mut self) {
        for OldShards { extents, shards: old, .. } in self.left_behind.take_unread(&self.upkeep.gate) {
            // A shard may have come back meanwhile to where it was.
            let unnamed = self.upkeep.read(|view| {
                let mut unnamed = Vec::new();
                for bad in old {
                    if !view.is_known_extent(extents, (bad.stripe, bad.shard), bad.drive)? {
                        unnamed.push(bad);
                    }
                }
                Ok(unnamed)
            });
            let removed = unnamed.and_then(|old| Ok(self.upkeep.pool.remove_moved(extents, &old)?));
            if let Err(error) = removed {
                tracing::warn!(%error, "what a moved stripe left behind stays until the next start");
            }
        }
        self.tell_left_behind();
    }

    fn tell_left_behind(&self) {
        self.upkeep.state().left_on = self.left_behind.drives();
    }

    /// Bytes of blobs that were written anew and are still read as they were.
    pub(crate) fn left_behind_bytes(&self) -> u64 {
        self.left_behind.bytes()
    }

    /// Takes over what is to be removed once its readers have left. Called without a reading of one's own.
    pub(crate) fn leave(&mut self, moved: Vec<OldShards>) {
        // What is on drives that are not there is found when they are put in.
        let silent = self.upkeep.pool.silent_drives();
        let there = moved.into_iter().filter_map(|mut old| {
            old.shards.retain(|bad| !silent.contains(&bad.drive));
            (!old.shards.is_empty()).then_some(old)
        });
        self.left_behind.leave(&self.upkeep.gate, there.collect());
        self.tell_left_behind();
    }

    /// Repairs some of what reads have found damaged; `false` if there was nothing.
    fn repair_list(&mut self) -> Result<bool, ArchiveError> {
        let list = self.upkeep.pool.take_repairs(REPAIRS_AT_ONCE);
        let now = self.upkeep.now();
        // With so many that cannot be repaired only the passes repair.
        let is_full = self.tried.len() >= TRIED_MAX;
        let mut due: Vec<(BlobId, Option<BlobPiece>)> = list
            .into_iter()
            .filter(|(blob, value)| !is_full && !self.tried.contains_key(&listed(*blob, *value)))
            .collect();
        let rested = self.tried.iter().filter(|(_, tried)| tried.until <= now);
        due.extend(rested.take(REPAIRS_AT_ONCE).map(|((blob, _), tried)| (*blob, tried.value)));
        let mut worked = false;
        for (blob, value) in &due {
            worked = true;
            self.phase("repairing");
            let pieces: Vec<BlobPiece> = value.iter().copied().collect();
            // One that cannot be repaired does not cost the others of the list.
            let helped = self.repair_listed(*blob, &pieces).unwrap_or_else(|error| {
                tracing::error!(%blob, %error, "a damaged blob cannot be repaired");
                false
            });
            let key = listed(*blob, *value);
            if helped {
                self.tried.remove(&key);
            } else {
                let times = self.tried.get(&key).map_or(0, |tried| tried.times);
                let rest = TRIED_REST.saturating_mul(1 << times.min(16)).min(TRIED_KEPT);
                let tried = Tried { value: *value, until: now.plus(rest), times: times.saturating_add(1) };
                self.tried.insert(key, tried);
            }
        }
        self.upkeep.tried_in_vain.store(self.tried.len() as u64, Ordering::Relaxed);
        if worked {
            self.phase("idle");
        }
        Ok(worked)
    }

    /// Checks and repairs a blob of the list; whether nothing is left to be repaired.
    fn repair_listed(&mut self, id: BlobId, pieces: &[BlobPiece]) -> Result<bool, ArchiveError> {
        let stripes = match self.upkeep.read(|view| view.blob(id))? {
            Some(blob) if matches!(blob.layout, Layout::Striped { .. }) => blob.stripes.len(),
            Some(_) => 1,
            None => return Ok(true),
        };
        let failed = |scrubber: &Self| scrubber.upkeep.info().failed;
        let mut helped = true;
        for stripe in 0..stripes {
            let before = failed(self);
            let report = self.check(id, u32::try_from(stripe).unwrap_or(u32::MAX), pieces)?;
            helped &= report.complete;
            let waits = self.upkeep.pool.silent_drives();
            let is_left = report.bad.iter().any(|bad| waits.contains(&bad.drive));
            helped &= report.lost.is_empty() && !is_left && failed(self) == before;
        }
        if helped {
            self.upkeep.need_nothing_beside(&[id]);
        }
        Ok(helped)
    }
}

/// As [`pace`], of a rebuild: what clients want goes first at each drive, but for a share, so that what bears
/// few further losses does not wait for a time without clients.
pub(crate) fn pace_rebuild(upkeep: &Upkeep, bytes: ByteCount) -> bool {
    upkeep.pool.pace(bytes.0);
    !upkeep.stopping()
}

/// Lets clients go first, for a while, and then stands in line with them for what tape streams leave. `false`
/// when the server stops.
pub(crate) fn pace(upkeep: &Upkeep, bytes: ByteCount) -> bool {
    let mut waited = Duration::ZERO;
    while waited < YIELD_MAX && upkeep.pool.is_busy() && !upkeep.stopping() {
        upkeep.pause(YIELD_STEP);
        waited += YIELD_STEP;
    }
    upkeep.pool.pace(bytes.0);
    !upkeep.stopping()
}
