//! Drives of the pool that are emptied: what stands on them moves to the others, stripe by stripe, and then
//! they are taken out.
//!
//! What lasts is the word in the catalogue. How far it has come is kept in memory: after a restart all blobs
//! are gone through once more, which costs nothing for those that have moved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BlobId, DriveId, StripeSet, Timestamp};
use catalogue::{Command, PoolDriveState, ReadError};
use pool::{BadShard, DriveHealth};

use crate::Upkeep;
use crate::moving::{Moving, Round, standing};
use crate::pool_drives::{not_removed, refused};
use crate::pool_rebuild::shards_on;
use crate::scrub::Scrubber;
use ground::{ArchiveError, DrainInfo};

/// A look at all blobs for what stands on drives that are to be emptied.
pub(crate) struct Drain {
    drives: BTreeSet<DriveId>,
    /// It is known what stood on them.
    is_counted: bool,
    round: Round,
    /// By drive: what could not be moved in this round, and why the first of it.
    left: BTreeMap<DriveId, (u64, String)>,
}

impl Drain {
    fn of(drives: BTreeSet<DriveId>) -> Self {
        Drain { drives, is_counted: false, round: Round::new(), left: BTreeMap::new() }
    }
}

impl Scrubber {
    /// Moves the next stripe off drives that are to be emptied; `false` if there is nothing to be done now.
    pub(crate) fn drain(&mut self) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let drives = upkeep.pool.draining();
        let Some(mut drain) = self.drain.take_if(|drain| drain.drives == drives) else {
            return Ok(self.begin_drain(drives));
        };
        if !drain.round.is_due(upkeep.steady()) {
            self.drain = Some(drain);
            return Ok(false);
        }
        self.me.does("emptying drives");
        self.phase("emptying drives");
        let done = if drain.is_counted { self.drain_next(&mut drain) } else { self.count_drain(&mut drain) };
        self.phase("idle");
        if let Err(error) = &done {
            // It must not keep the scrubber from all else.
            tracing::warn!(%error, "drives that are to be emptied wait");
            drain.round.rest_after_failure(upkeep.steady());
        }
        self.drain = Some(drain);
        Ok(done.is_ok())
    }

    fn begin_drain(&mut self, drives: BTreeSet<DriveId>) -> bool {
        self.upkeep.drains(|drains| drains.retain(|drive, _| drives.contains(drive)));
        self.drain = (!drives.is_empty()).then(|| Drain::of(drives));
        self.drain.is_some()
    }

    /// Counts what stands on the drives, for who wants to know how long it takes.
    fn count_drain(&mut self, drain: &mut Drain) -> Result<(), ArchiveError> {
        let upkeep = &self.upkeep;
        let found = standing(upkeep)?;
        let since = since(upkeep)?;
        upkeep.drains(|drains| {
            for drive in &drain.drives {
                let on = found.get(drive).copied().unwrap_or_default();
                let since = since.get(drive).copied().unwrap_or_default();
                let began = upkeep.now();
                let info =
                    DrainInfo { since, began, shards: on.shards, bytes: on.bytes, ..DrainInfo::default() };
                drains.insert(*drive, info);
            }
        });
        drain.is_counted = true;
        Ok(())
    }

    fn drain_next(&mut self, drain: &mut Drain) -> Result<(), ArchiveError> {
        let Some((blob, stripe)) = drain.round.next() else { return self.drain_look(drain) };
        self.remove_left_behind();
        if let Err(error) = self.drain_stripe(drain, blob, stripe) {
            tracing::warn!(%blob, stripe, %error, "a stripe cannot be moved off a drive that is emptied");
            let on = drain.drives.clone();
            on.into_iter().for_each(|drive| note_left(drain, drive, &error.to_string()));
        }
        Ok(())
    }

    /// Looks at the next blobs; at the end of all, what the round has come to.
    fn drain_look(&mut self, drain: &mut Drain) -> Result<(), ArchiveError> {
        let drives = &drain.drives;
        let stands_there = |set: &StripeSet| set.drives.iter().any(|drive| drives.contains(drive));
        let more = drain.round.look(&self.upkeep, |weighed, stripe| {
            let set = usize::try_from(stripe).ok().and_then(|stripe| weighed.blob.stripes.get(stripe));
            Ok(set.is_some_and(stands_there))
        })?;
        if more {
            return Ok(());
        }
        let left = std::mem::take(&mut drain.left);
        let moved = drain.round.end(self.upkeep.steady(), !left.is_empty());
        self.upkeep.drains(|drains| {
            for (drive, info) in drains.iter_mut() {
                let (shards, reason) = left.get(drive).cloned().unwrap_or_default();
                info.stuck = shards;
                info.reason = (shards > 0).then_some(reason);
                // What moved may have been followed by more: a round that meets nothing says that it is
                // empty.
                info.is_empty = shards == 0 && moved == 0;
            }
        });
        Ok(())
    }

    fn drain_stripe(&mut self, drain: &mut Drain, id: BlobId, stripe: u32) -> Result<(), ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let moved = self.move_shards(id, |weighed| {
            let mut shards: BTreeSet<BadShard> =
                shards_on(&weighed.blob, &drain.drives).into_iter().collect();
            shards.retain(|shard| shard.stripe == stripe);
            let silent = upkeep.pool.silent_drives();
            for shard in shards.iter().filter(|shard| silent.contains(&shard.drive)) {
                note_left(drain, shard.drive, "the drive does not answer");
            }
            shards.retain(|shard| !silent.contains(&shard.drive));
            Ok((!shards.is_empty()).then_some(Moving::Away(shards)))
        })?;
        for (shard, why) in &moved.failed {
            note_left(drain, shard.drive, why);
        }
        drain.round.moved += moved.shards.len() as u64;
        upkeep.drains(|drains| {
            let each = moved.bytes.0 / (moved.shards.len().max(1) as u64);
            for shard in &moved.shards {
                if let Some(info) = drains.get_mut(&shard.drive) {
                    info.moved += 1;
                    info.moved_bytes.0 += each;
                    info.is_empty = false;
                }
            }
        });
        Ok(())
    }
}

fn note_left(drain: &mut Drain, drive: DriveId, why: &str) {
    drain.left.entry(drive).or_insert_with(|| (0, why.to_owned())).0 += 1;
}

/// Since when drives are to be emptied.
fn since(upkeep: &Upkeep) -> Result<BTreeMap<DriveId, Timestamp>, ReadError> {
    let drives = upkeep.catalogue.read(|view| view.pool_drives())?;
    Ok(drives.into_iter().map(|(drive, record)| (drive, record.since)).collect())
}

impl Upkeep {
    /// Has a drive emptied: from now on it gets nothing new, and what it holds moves to the others. Durable
    /// on return; no effect if that is so.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::Pool`] if it does not answer, or too few others
    /// would take files.
    pub fn pool_drive_drain(&self, id: u16) -> Result<(), ArchiveError> {
        let _one = self.changes_drives();
        self.drain_drive(DriveId(id))
    }

    /// As [`Upkeep::pool_drive_drain`], while no drive changes otherwise.
    pub(crate) fn drain_drive(&self, drive: DriveId) -> Result<(), ArchiveError> {
        let id = drive.0;
        let health = self.health_of_drive(drive)?;
        if self.pool.draining().contains(&drive) {
            return Ok(());
        }
        not_removed(drive, &health)?;
        if health.is_silent() {
            let why = format!(
                "it does not answer, so nothing can be read from it: kist pool drive lost {id} has what it \
                 held rebuilt on the others"
            );
            return Err(refused(drive, &why));
        }
        let (left, needed) = (self.pool.taking_files_without(drive), self.pool.config().widest());
        if left < needed {
            let why = format!(
                "without it {left} drives take files, {needed} are needed: add drives first (kist pool drive \
                 add), or make room"
            );
            return Err(refused(drive, &why));
        }
        self.pool.set_draining(drive, true)?;
        let said = self.execute(Command::SetPoolDrive { drive, state: Some(PoolDriveState::Draining) });
        if said.as_ref().is_err_and(ArchiveError::is_certain_refusal) {
            self.pool.set_draining(drive, false)?;
        }
        self.ring();
        said
    }

    /// Has a drive that is being emptied in use again; what has moved stays where it is.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::Pool`] if it is not being emptied.
    pub fn pool_drive_keep(&self, id: u16) -> Result<(), ArchiveError> {
        let _one = self.changes_drives();
        let drive = DriveId(id);
        self.health_of_drive(drive)?;
        if !self.pool.draining().contains(&drive) {
            return Err(refused(drive, "it is not being emptied: kist pool show tells what it is"));
        }
        // Before it is in use again: else the policy could begin anew.
        self.note_kept(drive)?;
        self.execute(Command::SetPoolDrive { drive, state: None })?;
        self.pool.set_draining(drive, false)?;
        self.ring();
        Ok(())
    }

    /// Takes a drive out of the pool on which no stripe stands any more. Durable on return: it is not opened
    /// by the next start either, whatever the settings name.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchPoolDrive`]; [`ArchiveError::Pool`] if it is in use, or something stands on it,
    /// or is still read from it, or a restore may want what stands on it.
    pub fn pool_drive_remove(&self, id: u16) -> Result<(), ArchiveError> {
        let _one = self.changes_drives();
        let drive = DriveId(id);
        let health = self.health_of_drive(drive)?;
        let before = self.word_of_drive(drive)?;
        if health == DriveHealth::Removed {
            return Ok(());
        }
        if before.is_none() && !health.is_silent() {
            let why = format!("it is in use: kist pool drive drain {id} has it emptied first");
            return Err(refused(drive, &why));
        }
        if self.read(|view| Ok(view.is_restored()? || view.quarantine()?.is_some()))? {
            let why = "since a restore there may be something on it that the catalogue does not name: kist \
                       pool quarantine --end first, when the restore is settled";
            return Err(refused(drive, why));
        }
        // Once before anything is said: a word that comes too early refuses what is under way.
        self.check_empty(drive, &health)?;
        // From this word on no stripe can come to stand on it, so that what is counted then is all there is.
        self.execute(Command::SetPoolDrive { drive, state: Some(PoolDriveState::Leaving) })?;
        if let Err(error) = self.check_empty(drive, &health) {
            self.execute(Command::SetPoolDrive { drive, state: before })?;
            return Err(error);
        }
        self.execute(Command::SetPoolDrive { drive, state: Some(PoolDriveState::Removed) })?;
        self.pool.take_out(drive)?;
        self.ring();
        Ok(())
    }

    /// Refuses if a stripe stands on a drive, or what moved from it is still read there.
    fn check_empty(&self, drive: DriveId, health: &DriveHealth) -> Result<(), ArchiveError> {
        let found = standing(self)?;
        let shards = found.get(&drive).map_or(0, |on| on.shards);
        if shards > 0 {
            let next = match health.is_silent() {
                true => format!("kist pool drive lost {drive} has them rebuilt on the others"),
                false => "kist pool show tells how far they have moved, and why some stay".to_owned(),
            };
            return Err(refused(drive, &format!("{shards} shards stand on it still: {next}")));
        }
        if !health.is_silent() && self.is_left_on(drive) {
            return Err(refused(drive, "what has moved is still being read there: try again in a moment"));
        }
        Ok(())
    }

    /// What an operator wants of a drive, if it is not simply in use.
    pub(crate) fn word_of_drive(&self, drive: DriveId) -> Result<Option<PoolDriveState>, ArchiveError> {
        let words = self.read(|view| view.pool_drives())?;
        Ok(words.into_iter().find(|(known, _)| *known == drive).map(|(_, record)| record.state))
    }

    /// Drives that are being emptied, and how far that is.
    #[must_use]
    pub fn drain_info(&self) -> BTreeMap<DriveId, DrainInfo> {
        let mut drains = BTreeMap::new();
        self.drains(|known| drains.clone_from(known));
        // The scrubber may not have heard yet that one is not to be emptied any more.
        let draining = self.pool.draining();
        drains.retain(|drive, _| draining.contains(drive));
        let now = self.now();
        for info in drains.values_mut() {
            info.estimate(now);
        }
        drains
    }
}
