//! The sweeper: removes garbage from the pool once no reader can be in it, and lets pins and old answers
//! expire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, BlobPiece, Layout};
use catalogue::{Command, Garbage, ReadError, TypedCommand, UnneededSectors, typed};
use store::{ExecuteError, Shortage};

use crate::Upkeep;
use ground::ArchiveError;
use ground::{LeavingCause, Worker};

/// Garbage removed between two commits.
const GARBAGE_BATCH_MAX: usize = 500;
/// Garbage for which readers are waited for together.
const GARBAGE_SEEN_MAX: usize = 20_000;
/// How often the sweeper looks without being asked.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How soon it looks again while readers are still inside.
const READERS_RETRY: Duration = Duration::from_millis(20);

/// Tells the pool's drives how far the catalogue is, so that an older copy of it is recognised at a later
/// start.
pub(crate) fn stamp(upkeep: &Upkeep) {
    // After a failed commit nobody knows whether the newest change is durable.
    if !upkeep.catalogue.is_writing() {
        return;
    }
    match upkeep.catalogue.read(|view| view.last_change()) {
        Ok(change) => {
            let stamps = upkeep.pool.stamps();
            if let Some(newer) = stamps.iter().find(|stamp| stamp.commit > change) {
                tracing::error!(change, seen = newer.commit, "the catalogue is older than its drives know");
                return;
            }
            let known = stamps.iter().all(|stamp| stamp.commit == change);
            match if known { Ok(()) } else { upkeep.pool.stamp(change) } {
                // Of a full drive is told elsewhere, once.
                Err(error) if error.is_full() => tracing::debug!(%error, "a full drive cannot be stamped"),
                Err(error) => tracing::warn!(%error, "a pool drive cannot be stamped"),
                Ok(()) => {}
            }
        }
        Err(error) => tracing::error!(%error, "the catalogue's newest change cannot be read"),
    }
}

/// Tells the drives of the pool what they are to know, and looks at those too that have nothing to be told
/// of.
fn attend_to_drives(upkeep: &Upkeep) {
    stamp(upkeep);
    upkeep.pool.check_places();
}

/// The sweeper's thread.
pub(crate) fn run(upkeep: &Upkeep, me: &Worker, also: &mut dyn FnMut() -> Result<(), ArchiveError>) {
    let mut requests = crate::forget::Round::default();
    let mut segments = crate::segment_use::Round::new(upkeep.pool.epoch());
    let mut lacks = None;
    while !upkeep.stopping() {
        me.does("sweeping");
        upkeep.keep_time();
        attend_to_drives(upkeep);
        tell_room(upkeep, &mut lacks);
        if !upkeep.settled.holds_pool()
            && let Err(error) = sweep(upkeep)
        {
            tracing::error!(%error, "sweeping failed");
            me.failed(&error);
        }
        if let Err(error) = crate::forget::count_older_paths(upkeep) {
            tracing::error!(%error, "what paths of old requests take of the catalogue is not counted");
            me.failed(&error);
        }
        let is_behind = requests.turn(upkeep).unwrap_or_else(|error| {
            tracing::error!(%error, "old requests are not forgotten");
            me.failed(&error);
            false
        });
        if let Err(error) = segments.turn(upkeep) {
            tracing::error!(%error, "what small values take of the pool is not measured");
            me.failed(&error);
        }
        if let Err(error) = also() {
            tracing::error!(%error, "the catalogue's log is not trimmed");
            me.failed(&error);
        }
        // Waiting for readers may have heard the ring that tells to stop.
        if !is_behind && !upkeep.stopping() {
            me.rests();
            upkeep.sweep.wait(SWEEP_EVERY);
        }
    }
}

/// Says once that the catalogue has no room, and once that it has some again: what is refused meanwhile is
/// told to those who asked.
fn tell_room(upkeep: &Upkeep, before: &mut Option<Shortage>) {
    let now = upkeep.catalogue.lack().map(|(shortage, _)| shortage);
    if now == *before {
        return;
    }
    match now {
        Some(shortage) => tracing::error!("{}: changes are refused", ExecuteError::from(shortage)),
        None => tracing::info!("the catalogue has room: changes are taken again"),
    }
    *before = now;
}

fn sweep(upkeep: &Upkeep) -> Result<(), ArchiveError> {
    if expire(upkeep, typed::ExpireSomePins {})? {
        upkeep.leaving.tell(LeavingCause::MayLeave);
    }
    expire(upkeep, typed::ExpireSomeAnswers {})?;
    evict_cold(upkeep)?;
    namespace::count_quotas(upkeep)?;
    loop {
        let garbage = upkeep.read(|view| view.garbage(GARBAGE_SEEN_MAX))?;
        if garbage.is_empty() || upkeep.stopping() {
            return Ok(());
        }
        // A segment that is to go must take no more values: it is sealed before the gate turns, so that
        // whoever stored a value in it is waited for, and its commit is refused while the garbage is still
        // recorded.
        let is_segment =
            |g: &Garbage| matches!(g, Garbage::Blob(blob) if matches!(blob.layout, Layout::Segment { .. }));
        if garbage.iter().any(is_segment) {
            upkeep.pool.seal_segments();
        }
        let mark = upkeep.gate.turn();
        let mut told = upkeep.steady();
        while !upkeep.gate.has_left(mark) && !is_planted(Bug::RemoveUnderReaders) {
            if upkeep.stopping() {
                return Ok(());
            }
            upkeep.sweep.wait(READERS_RETRY);
            upkeep.keep_time();
            // A download may take hours: drives are told and looked at meanwhile as at other times.
            if upkeep.steady().saturating_sub(told) >= SWEEP_EVERY {
                told = upkeep.steady();
                attend_to_drives(upkeep);
            }
            // A download may take hours, and must not keep what tapes have in the pool as long.
            evict_cold(upkeep)?;
        }
        if remove_in_batches(upkeep, garbage)? == 0 {
            return Ok(());
        }
    }
}

/// Removes what nobody holds. What is held, by a tape session for example, goes when that has it.
fn remove_in_batches(upkeep: &Upkeep, garbage: Vec<Garbage>) -> Result<usize, ArchiveError> {
    let mut free: Vec<Garbage> =
        garbage.into_iter().filter(|item| !upkeep.gate.is_held(item.blob())).collect();
    let mut removed = 0;
    while !free.is_empty() && !upkeep.stopping() {
        let rest = free.split_off(free.len().min(GARBAGE_BATCH_MAX));
        removed += remove(upkeep, std::mem::replace(&mut free, rest))?;
    }
    Ok(removed)
}

/// Files of cold classes leave the pool when tapes have them.
fn evict_cold(upkeep: &Upkeep) -> Result<(), ArchiveError> {
    while !upkeep.stopping() && upkeep.read(|view| view.has_cold_work())? {
        // Which of them it counts on is decided by the change itself.
        upkeep.rely_on_all_keys()?;
        if !upkeep.ask(typed::EvictSomeCold {})? {
            break;
        }
    }
    Ok(())
}

/// Whether any expired.
fn expire(upkeep: &Upkeep, some: impl TypedCommand<Answer = u32> + Clone) -> Result<bool, ArchiveError> {
    let mut any = false;
    // Fewer than were asked for are no sign that there are no more: a full catalogue drops fewer.
    while upkeep.ask(some.clone())? > 0 {
        any = true;
    }
    Ok(any)
}

/// Removes from the pool, then from the catalogue; gives how much went. What a sick drive does not remove is
/// left to the next start, which finds it as an orphan: it must not keep other garbage waiting.
fn remove(upkeep: &Upkeep, garbage: Vec<Garbage>) -> Result<usize, ArchiveError> {
    let mut blobs: Vec<BlobId> = Vec::new();
    let mut values: BTreeMap<BlobId, (BlobDescription, Vec<BlobPiece>)> = BTreeMap::new();
    for item in garbage {
        let blob = match item {
            Garbage::Value(blob, piece) => {
                values.entry(blob.id).or_insert_with(|| (blob, Vec::new())).1.push(piece);
                continue;
            }
            Garbage::Blob(blob) => blob,
        };
        match upkeep.pool.remove(&blob) {
            // It takes values again; its turn comes with the next sweep.
            Err(pool::PoolError::SegmentOpen(_)) => continue,
            Err(error) => tracing::warn!(%error, "garbage stays on a drive of the pool until the next start"),
            Ok(()) => {}
        }
        blobs.push(blob.id);
    }
    let mut removed = blobs.len();
    if removed > 0 {
        let told = upkeep.execute(Command::GarbageRemoved { blobs: blobs.clone(), values: Vec::new() });
        if let Err(ArchiveError::Store(error)) = &told
            && error.is_in_part()
        {
            let gone = upkeep.read(|view| {
                let of_all = blobs.iter().map(|blob| Ok((*blob, view.is_garbage(*blob)?)));
                of_all.collect::<Result<Vec<_>, ReadError>>()
            })?;
            blobs = gone.into_iter().filter(|(_, is_garbage)| !is_garbage).map(|(blob, _)| blob).collect();
            upkeep.need_nothing_beside(&blobs);
        }
        told?;
        upkeep.need_nothing_beside(&blobs);
    }
    let (mut gone, mut pages) = (Vec::new(), Vec::new());
    for (blob, pieces) in values.into_values() {
        pages.extend(give_back(upkeep, &blob, &pieces)?);
        gone.extend(pieces);
    }
    if !gone.is_empty() {
        removed += gone.len();
        upkeep.execute(Command::ValuesRemoved { values: gone, pages })?;
    }
    Ok(removed)
}

/// Gives back what values of a segment held that others still use, as far as whole pages of it are unneeded;
/// what is unneeded of the others is for the catalogue to know.
fn give_back(
    upkeep: &Upkeep,
    blob: &BlobDescription,
    values: &[BlobPiece],
) -> Result<Vec<UnneededSectors>, ArchiveError> {
    let touched: BTreeSet<u32> =
        values.iter().flat_map(|piece| pool::sectors_of(piece).into_keys()).collect();
    let known = upkeep.read(|view| {
        let sectors = |page: u32| Ok((page, view.unneeded_sectors(blob.id, page)?));
        touched.into_iter().map(sectors).collect::<Result<pool::Unneeded, _>>()
    })?;
    let back = upkeep.pool.give_back(blob, values, &known);
    if let Some(error) = &back.failure {
        tracing::warn!(%error, segment = %blob.id, "space of small values stays taken on a drive");
    }
    let changed = back.pages.into_iter().filter(|(page, sectors)| known.get(page) != Some(sectors));
    Ok(changed.map(|(page, sectors)| UnneededSectors { blob: blob.id, page, sectors }).collect())
}
