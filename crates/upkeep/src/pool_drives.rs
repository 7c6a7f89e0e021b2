//! What an operator does with the drives of the pool, and how redundant its content is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{BlobDescription, DriveId, Layout, Uuid};
use catalogue::{Command, PoolDriveState};
use drive::{DriveIo, DriveOpenError, ObjectDrive};
use location::DriveLocation;
use pool::{DriveHealth, PoolError};

use crate::Upkeep;
use crate::lost;
use ground::{ArchiveError, ScrubInfo, UpkeepSettings};

/// Blobs looked up together.
const PAGE: usize = 1_000;
/// How often a drive that is put in again is looked at while calls from before are in it, and how many times.
const LEFT_LOOK_EVERY: Duration = Duration::from_millis(100);
const LEFT_LOOKS: usize = 100;

/// How redundant the content of the pool is at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolHealth {
    /// Stripes and segments in all; 0 if every drive answers and has what it should, since then nothing is
    /// counted.
    pub stripes: u64,
    /// Of these, readable, but with a shard or copy on a drive that does not answer, or may lack it.
    pub degraded: u64,
    /// Of these, such that bear no further loss.
    pub critical: u64,
    /// Of these, such that cannot be read whole now.
    pub unreadable: u64,
    /// Stripes and segments of which no drive holds enough any more, as far as repairs have found them since
    /// the start. They count neither as degraded nor as unreadable: nothing is to come of waiting.
    pub lost: u64,
    /// Drives that do not answer: missing, away or lost.
    pub silent_drives: u64,
    /// Blobs and values that reads have found damaged, to be repaired soon.
    pub repairs_waiting: u64,
    /// Of these, such that were tried in vain: each rests, and is tried again, ever more seldom.
    pub repairs_failed: u64,
    /// Cells that did not come in time since the start, so that others stood in for them.
    pub late_cells: u64,
}

/// What came of `kist pool drive replace`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplacedDrive {
    /// The directory was empty: it is a new drive now and gets its shards back.
    New,
    /// The directory holds the drive itself: it is in use again.
    Returned,
}

impl Upkeep {
    /// Sets how the pool is kept, from now on.
    pub fn set_upkeep(&self, settings: UpkeepSettings) {
        self.set(settings);
    }

    /// How far the scrubber is, and what it found.
    #[must_use]
    pub fn scrub_info(&self) -> ScrubInfo {
        let upkeep = self;
        let mut info = upkeep.info();
        match upkeep.files_not_given() {
            Ok(files) => info.files = files,
            Err(error) => tracing::warn!(%error, "which files the pool cannot give is not known now"),
        }
        info.findings = upkeep.findings_told();
        (info.waiting, info.waiting_failed) = upkeep.repairs();
        info.rebuild = upkeep.rebuild_info();
        info.bound_totals();
        if let (true, Some(began)) = (info.running, info.began) {
            let seconds = upkeep.now().since(began).as_secs_f64();
            info.rate = if seconds > 0.0 { info.bytes.0 as f64 / seconds } else { 0.0 };
            let rest = info.bytes_total.0.saturating_sub(info.bytes.0) as f64;
            info.remaining =
                (info.rate > 0.0).then(|| base::Duration::try_from_secs_f64(rest / info.rate).ok()).flatten();
        }
        info
    }

    /// What reads have found damaged and is to be repaired, and how much of it was tried in vain and rests:
    /// the figures of all screens.
    fn repairs(&self) -> (u64, u64) {
        let failed = self.tried_in_vain.load(Ordering::Relaxed);
        ((self.pool.repairs_waiting() as u64).saturating_add(failed), failed)
    }

    /// Scrubs all of the pool now, as fast as clients let it; a pass under way goes on faster.
    pub fn scrub_now(&self) {
        self.order(|orders| orders.pass = true);
    }

    /// Counts how redundant the content of the pool is.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pool_health(&self) -> Result<PoolHealth, ArchiveError> {
        let upkeep = self;
        // One that was taken out is none of them: nothing stands on it.
        let silent = &upkeep.pool.silent_drives() - &upkeep.removed_drives();
        let lost = upkeep.lost_stripes();
        let (repairs_waiting, repairs_failed) = upkeep.repairs();
        let mut health = PoolHealth {
            lost: lost.len() as u64,
            silent_drives: silent.len() as u64,
            repairs_waiting,
            repairs_failed,
            late_cells: upkeep.pool.late_cells(),
            ..PoolHealth::default()
        };
        // What a drive may lack does not count as redundancy, nor as lost.
        let doubtful: BTreeSet<DriveId> =
            upkeep.pool.drives_with_gaps().into_keys().chain(silent.iter().copied()).collect();
        if doubtful.is_empty() {
            return Ok(health);
        }
        let mut known = BTreeMap::new();
        let mut count = |blob: &BlobDescription| {
            for (stripe, set) in (0u32..).zip(&blob.stripes) {
                let on = |drives: &BTreeSet<DriveId>| -> Vec<usize> {
                    (0..set.drives.len()).filter(|shard| drives.contains(&set.drives[*shard])).collect()
                };
                health.stripes += 1;
                let lacking = on(&doubtful);
                if lacking.is_empty() || lost.contains(&(blob.id, stripe)) {
                    continue;
                }
                let judge = |(layout, gone, lacking): &(Layout, Vec<usize>, Vec<usize>)| {
                    (pool::survives(*layout, gone), pool::survives_one_more(*layout, lacking))
                };
                let (is_readable, bears_more) =
                    *known.entry((blob.layout, on(&silent), lacking)).or_insert_with_key(judge);
                health.degraded += u64::from(is_readable);
                health.critical += u64::from(is_readable && !bears_more);
                health.unreadable += u64::from(!is_readable);
            }
        };
        let mut after = None;
        loop {
            let page = upkeep.blob_page(after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(health) };
            after = Some(*last);
            page.iter().filter_map(|(_, blob)| blob.as_ref()).for_each(&mut count);
        }
    }

    /// Gives up a drive for good: what it held is rebuilt on the others, least redundant first, and files
    /// that cannot be read without it and others lost before are NEARLINE or LOST. Holds until it, or
    /// another, is put in its place ([`Upkeep::pool_drive_replace`]). Durable on return.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::WouldLose`] if files would be LOST and that is not
    /// accepted.
    pub fn pool_drive_lost(&self, id: u16, accept_loss: bool) -> Result<(), ArchiveError> {
        let _one = self.changes_drives();
        self.health_of_drive(DriveId(id)).and_then(|health| not_removed(DriveId(id), &health))?;
        self.check_loss([DriveId(id)], accept_loss)?;
        self.pool.declare_lost(DriveId(id))?;
        self.ring();
        self.execute(Command::SetPoolDrive { drive: DriveId(id), state: Some(PoolDriveState::Lost) })
    }

    /// Rebuilds what missing and lost drives held now, or what this one held, without waiting for the time
    /// after which that happens by itself.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::Pool`] if it answers;
    /// [`ArchiveError::WouldLose`] if files would be LOST and that is not accepted.
    pub fn pool_rebuild(&self, id: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError> {
        let _one = self.changes_drives();
        let upkeep = self;
        if let Some(id) = id.map(DriveId) {
            let health = self.health_of_drive(id)?;
            not_removed(id, &health)?;
            match health {
                health if health.is_silent() => {
                    self.check_loss([id], accept_loss)?;
                    upkeep.pool.declare_lost(id)?;
                }
                _ => {
                    return Err(refused(
                        id,
                        "it answers: kist scrub --now finds and repairs what is damaged",
                    ));
                }
            }
        } else {
            let missing = upkeep.pool.drive_health().into_iter();
            let missing = missing.filter(|(_, health)| matches!(health, DriveHealth::Missing));
            let missing: Vec<DriveId> = missing.map(|(id, _)| id).collect();
            self.check_loss(missing.iter().copied(), accept_loss)?;
            missing.into_iter().try_for_each(|id| upkeep.pool.declare_lost(id))?;
        }
        upkeep.order(|orders| orders.rebuild = true);
        Ok(())
    }

    /// Puts a drive in the place of a missing or lost one: the directory of the settings is either empty,
    /// then it becomes a new drive and gets back what is not rebuilt elsewhere yet, or it holds the drive
    /// itself. `new`: a directory that is not there is made; without that it is refused, since it may be a
    /// disk that is not mounted. So is one that has become empty under a drive that was not given up. A new
    /// drive gives up what stood on the old one, as [`Upkeep::pool_drive_lost`]. One that the operator's file
    /// names since the start is added.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`], [`ArchiveError::NoDriveDirectory`], [`ArchiveError::Pool`] if the
    /// drive is in use, or the directory is another's; [`ArchiveError::WouldLose`] if files would be LOST and
    /// that is not accepted.
    pub fn pool_drive_replace(
        &self,
        id: u16,
        new: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        {
            let _one = self.changes_drives();
            if self.pool_drives.get(DriveId(id)).is_some() {
                return self.replace_drive(id, new, accept_loss);
            }
        }
        self.add_named(id, new, accept_loss)
    }

    /// As [`Upkeep::pool_drive_replace`], of one whose place is known, while no drive changes otherwise.
    pub(crate) fn replace_drive(
        &self,
        id: u16,
        new: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        let upkeep = self;
        let drive = DriveId(id);
        let at = self.location_of_drive(drive)?;
        let health = self.health_of_drive(drive)?;
        // An unmounted disk leaves its empty mount point. What has a superblock is never vacant.
        let is_vacant = at.is_vacant();
        match health {
            DriveHealth::Missing | DriveHealth::Lost | DriveHealth::Removed | DriveHealth::Wiped { .. } => {}
            DriveHealth::Away { .. } | DriveHealth::Suspect { .. } => match upkeep.pool.probe_drive(drive) {
                DriveHealth::Up => return Ok(ReplacedDrive::Returned),
                // Its directory is gone: to ask for a new one in its place is to give it up.
                _ if at.is_absent() || new && is_vacant => {}
                _ if is_vacant => return Err(refused(drive, &vacant(id, &at))),
                _ => {
                    let why = format!(
                        "it does not work: mend it; or give it up (kist pool drive lost {id}), put in \
                         another, and say kist pool drive replace {id}"
                    );
                    return Err(refused(drive, &why));
                }
            },
            // It is gone, and nothing has been asked of it since.
            _ if at.is_absent() || new && is_vacant => {}
            _ if is_vacant => return Err(refused(drive, &vacant(id, &at))),
            _ => {
                let why = format!("it is in use: kist pool drive lost {id} gives it up first");
                return Err(refused(drive, &why));
            }
        }
        if !new && at.is_absent() {
            return Err(ArchiveError::NoDriveDirectory { drive: id, at });
        }
        let what = match at.read_stamp() {
            Ok(_) => ReplacedDrive::Returned,
            Err(DriveOpenError::NotADrive(_)) => {
                self.check_loss([drive], accept_loss)?;
                ReplacedDrive::New
            }
            Err(error) => return Err(opening(drive, &error)),
        };
        if !matches!(health, DriveHealth::Missing | DriveHealth::Lost | DriveHealth::Removed) {
            // What held the directory that was emptied or is gone lets it go.
            upkeep.pool.declare_lost(drive)?;
        }
        if what == ReplacedDrive::New {
            when_left(drive, || at.format_unfilled(upkeep.instance, drive))?;
        }
        let opened = open_when_left(&at, upkeep.instance, drive, upkeep.ground.settings.pool.io)?;
        let last = upkeep.check_not_later(opened.as_ref())?;
        // Before a stripe can come to stand on it. A new one has nothing of which the old one was to be
        // emptied.
        let word = upkeep.word_of_drive(drive)?;
        let is_over = matches!(word, Some(PoolDriveState::Removed | PoolDriveState::Lost));
        if is_over || word.is_some() && what == ReplacedDrive::New {
            upkeep.execute(Command::SetPoolDrive { drive, state: None })?;
            upkeep.pool.set_draining(drive, false)?;
        }
        upkeep.pool.attach(opened, last)?;
        upkeep.is_put_in(drive, &at);
        Ok(what)
    }

    /// Refuses to give up drives with which the only copies of files would go.
    fn check_loss(
        &self,
        drives: impl IntoIterator<Item = DriveId>,
        accept_loss: bool,
    ) -> Result<(), ArchiveError> {
        let upkeep = self;
        // Those that were given up are no part of what is decided now, but of whether the rest is enough.
        let given_up = upkeep.pool.drive_health().into_iter().filter(|(_, health)| health.is_given_up());
        let before: BTreeSet<DriveId> = given_up.map(|(id, _)| id).chain(upkeep.given_up()).collect();
        let mut gone = before.clone();
        gone.extend(drives);
        if accept_loss || gone == before {
            return Ok(());
        }
        // Told of what tapes have: an hour-old word about their keys may not be true any more.
        upkeep.rely_on_all_keys()?;
        // Those that took the place of others have little of what should be on them before they are filled.
        gone.extend(unfilled(upkeep, true));
        let loss = lost::foresee(upkeep, &gone)?;
        if loss.is_empty() { Ok(()) } else { Err(ArchiveError::WouldLose(loss)) }
    }

    /// Where a drive of the pool is.
    pub fn location_of_drive(&self, id: DriveId) -> Result<DriveLocation, ArchiveError> {
        self.pool_drives.get(id).map(|drive| drive.at).ok_or(ArchiveError::NoSuchPoolDrive(id.0))
    }

    /// The drives that were taken out.
    pub(crate) fn removed_drives(&self) -> BTreeSet<DriveId> {
        let removed = |(id, health): (DriveId, DriveHealth)| (health == DriveHealth::Removed).then_some(id);
        self.pool.drive_health().into_iter().filter_map(removed).collect()
    }

    pub(crate) fn health_of_drive(&self, id: DriveId) -> Result<DriveHealth, ArchiveError> {
        let health = self.pool.drive_health();
        let found = health.into_iter().find(|(drive, _)| *drive == id).map(|(_, health)| health);
        found.ok_or(ArchiveError::NoSuchPoolDrive(id.0))
    }
}

/// Refuses what is said of a drive that is none any more.
pub(crate) fn not_removed(drive: DriveId, health: &DriveHealth) -> Result<(), ArchiveError> {
    match health {
        DriveHealth::Removed => {
            let why = format!("it was taken out: kist pool drive add {drive} takes its number up again");
            Err(refused(drive, &why))
        }
        _ => Ok(()),
    }
}

/// What to do about the empty directory of a drive that was not given up.
fn vacant(id: u16, at: &DriveLocation) -> String {
    if at.is_mounted() {
        return format!(
            "another, empty disk is mounted there: to take it for a new drive, kist pool drive replace {id} \
             --new; else mount the drive's own"
        );
    }
    format!(
        "its directory is empty, as that of a disk that is not mounted: mount it, or take the empty one for \
         a new drive (kist pool drive replace {id} --new)"
    )
}

/// The drives of the pool and where they are.
fn places(upkeep: &Upkeep) -> Vec<(DriveId, DriveLocation)> {
    upkeep.pool_drives.all().into_iter().map(|drive| (DriveId(drive.id), drive.at)).collect()
}

/// Drives that took the place of others and have not got all that they should hold; `silent_too`: also of
/// those that do not answer, which the caller waits for.
fn unfilled(upkeep: &Upkeep, silent_too: bool) -> BTreeSet<DriveId> {
    let silent = upkeep.pool.silent_drives();
    let drives = places(upkeep);
    let is_unfilled = |id: DriveId, at: &DriveLocation| match silent.contains(&id) {
        true => silent_too && at.is_unfilled(),
        false => is_unfilled(upkeep, id, at).unwrap_or(false),
    };
    drives.into_iter().filter(|(id, at)| is_unfilled(*id, at)).map(|(id, _)| id).collect()
}

/// Whether a drive has not got all that it should hold; `None` if it does not answer.
fn is_unfilled(upkeep: &Upkeep, id: DriveId, at: &DriveLocation) -> Option<bool> {
    let at = at.clone();
    upkeep.pool.on_thread_of(id, move || at.is_unfilled())
}

/// Orders the rebuild of drives that took the place of others and are not filled, at a start and when a drive
/// comes back. One that is away is filled when it is put in again.
pub(crate) fn resume_unfilled(upkeep: &Upkeep) {
    let unfilled = unfilled(upkeep, false);
    if !unfilled.is_empty() {
        tracing::warn!(?unfilled, "drives that were replaced are not filled yet: their rebuild begins anew");
        unfilled.iter().for_each(|drive| upkeep.pool.set_filling(*drive, true));
        upkeep.order(|orders| orders.replaced.extend(unfilled));
    }
}

/// The drives that may lack something, but for those that are filled as a whole.
pub(crate) fn with_gaps(upkeep: &Upkeep) -> BTreeSet<DriveId> {
    let gaps = upkeep.pool.drives_with_gaps();
    let is_filled = |id: DriveId, at: &DriveLocation| is_unfilled(upkeep, id, at) == Some(false);
    let drives = places(upkeep).into_iter();
    drives.filter(|(id, at)| gaps.contains_key(id) && is_filled(*id, at)).map(|(id, _)| id).collect()
}

/// Records that replaced drives have what they should hold, but those that do not answer.
pub(crate) fn filled(upkeep: &Upkeep, replaced: &BTreeSet<DriveId>) {
    let silent = upkeep.pool.silent_drives();
    for (id, at) in places(upkeep) {
        if !replaced.contains(&id) || silent.contains(&id) {
            continue;
        }
        // In this order: that it is this drive still is looked at by the first, and not by the second.
        if let Err(error) = upkeep.pool.has_no_gaps(id) {
            tracing::error!(drive = %id, %error, "the next start rebuilds the drive once more");
            continue;
        }
        match upkeep.pool.on_thread_of(id, move || at.set_filled()) {
            None => tracing::error!(drive = %id, "it does not answer: its rebuild begins anew when it does"),
            Some(Ok(())) => {
                upkeep.pool.set_filling(id, false);
                tracing::info!(drive = %id, "the drive has all that it should hold");
            }
            Some(Err(error)) => {
                tracing::error!(drive = %id, %error, "the next start rebuilds the drive once more");
            }
        }
    }
}

/// Opens a drive, once it was left.
pub(crate) fn open_when_left(
    at: &DriveLocation,
    instance: Uuid,
    drive: DriveId,
    io: DriveIo,
) -> Result<Arc<dyn ObjectDrive>, ArchiveError> {
    when_left(drive, || at.open(instance, drive, io))
}

/// Does what needs the lock of a drive's directory. Calls of ours that began before the drive was given up
/// may still be in it: they are waited for a while.
fn when_left<T>(drive: DriveId, attempt: impl Fn() -> Result<T, DriveOpenError>) -> Result<T, ArchiveError> {
    for _ in 0..LEFT_LOOKS {
        match attempt() {
            Err(DriveOpenError::Locked(_)) => threads::Doorbell::default().wait(LEFT_LOOK_EVERY),
            done => return done.map_err(|error| opening(drive, &error)),
        }
    }
    let reason = "calls to it from before have not ended, or another process has it open: try again later";
    Err(refused(drive, reason))
}

pub(crate) fn refused(drive: DriveId, reason: &str) -> ArchiveError {
    ArchiveError::Pool(PoolError::DriveState { drive, reason: reason.to_owned() })
}

fn opening(drive: DriveId, error: &DriveOpenError) -> ArchiveError {
    refused(drive, &error.to_string())
}
