//! The sweeper: removes garbage from the pool once no reader can be in it, and lets pins and old answers
//! expire.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, BlobPiece, Layout};
use catalogue::{Command, Garbage, ReadError, TypedCommand, UnneededSectors, typed};
use store::{ExecuteError, Shortage};

use crate::ArchiveError;
use crate::engine::Engine;
use ground::Worker;

/// Garbage removed between two commits.
const GARBAGE_BATCH_MAX: usize = 500;
/// How often the sweeper looks without being asked.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How soon it looks again while readers are still inside.
const READERS_RETRY: Duration = Duration::from_millis(20);

/// Tells the pool's drives how far the catalogue is, so that an older copy of it is recognised at a later
/// start.
pub(crate) fn stamp(engine: &Engine) {
    // After a failed commit nobody knows whether the newest change is durable.
    if !engine.catalogue.is_writing() {
        return;
    }
    match engine.catalogue.read(|view| view.last_change()) {
        Ok(change) => {
            let stamps = engine.pool.stamps();
            if let Some(newer) = stamps.iter().find(|stamp| stamp.commit > change) {
                tracing::error!(change, seen = newer.commit, "the catalogue is older than its drives know");
                return;
            }
            let known = stamps.iter().all(|stamp| stamp.commit == change);
            match if known { Ok(()) } else { engine.pool.stamp(change) } {
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
fn attend_to_drives(engine: &Engine) {
    stamp(engine);
    engine.pool.check_places();
}

/// The sweeper's thread.
pub(crate) fn run(engine: &Arc<Engine>, me: &Worker) {
    let mut requests = crate::forget::Round::default();
    let mut segments = crate::segment_use::Round::new(engine.pool.epoch());
    let mut base_asked = crate::change_log::BasesAsked::default();
    let mut lacks = None;
    while !engine.stop.load(Ordering::Relaxed) {
        me.does("sweeping");
        engine.keep_time();
        attend_to_drives(engine);
        tell_room(engine, &mut lacks);
        if !engine.settling.holds_pool()
            && let Err(error) = sweep(engine)
        {
            tracing::error!(%error, "sweeping failed");
            me.failed(&error);
        }
        let is_behind = requests.turn(engine).unwrap_or_else(|error| {
            tracing::error!(%error, "old requests are not forgotten");
            me.failed(&error);
            false
        });
        if let Err(error) = segments.turn(engine) {
            tracing::error!(%error, "what small values take of the pool is not measured");
            me.failed(&error);
        }
        if let Err(error) = crate::change_log::turn(engine, &mut base_asked) {
            tracing::error!(%error, "the catalogue's log is not trimmed");
            me.failed(&error);
        }
        // Waiting for readers may have heard the ring that tells to stop.
        if !is_behind && !engine.stop.load(Ordering::Relaxed) {
            me.rests();
            engine.sweep.wait(SWEEP_EVERY);
        }
    }
}

/// Says once that the catalogue has no room, and once that it has some again: what is refused meanwhile is
/// told to those who asked.
fn tell_room(engine: &Engine, before: &mut Option<Shortage>) {
    let now = engine.catalogue.lack().map(|(shortage, _)| shortage);
    if now == *before {
        return;
    }
    match now {
        Some(shortage) => tracing::error!("{}: changes are refused", ExecuteError::from(shortage)),
        None => tracing::info!("the catalogue has room: changes are taken again"),
    }
    *before = now;
}

fn sweep(engine: &Arc<Engine>) -> Result<(), ArchiveError> {
    expire(engine, typed::ExpireSomePins {})?;
    expire(engine, typed::ExpireSomeAnswers {})?;
    evict_cold(engine)?;
    namespace::count_quotas(engine)?;
    loop {
        let garbage = engine.read(|view| view.garbage(GARBAGE_BATCH_MAX))?;
        if garbage.is_empty() || engine.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A segment that is to go must take no more values: it is sealed before the gate turns, so that
        // whoever stored a value in it is waited for, and its commit is refused while the garbage is still
        // recorded.
        let is_segment =
            |g: &Garbage| matches!(g, Garbage::Blob(blob) if matches!(blob.layout, Layout::Segment { .. }));
        if garbage.iter().any(is_segment) {
            engine.pool.seal_segments();
        }
        let mark = engine.gate.turn();
        let mut told = engine.steady();
        while !engine.gate.has_left(mark) && !is_planted(Bug::RemoveUnderReaders) {
            if engine.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            engine.sweep.wait(READERS_RETRY);
            engine.keep_time();
            // A download may take hours: drives are told and looked at meanwhile as at other times.
            if engine.steady().saturating_sub(told) >= SWEEP_EVERY {
                told = engine.steady();
                attend_to_drives(engine);
            }
            // A download may take hours, and must not keep what tapes have in the pool as long.
            evict_cold(engine)?;
        }
        if remove(engine, garbage)? == 0 {
            return Ok(());
        }
    }
}

/// Files of cold classes leave the pool when tapes have them.
fn evict_cold(engine: &Engine) -> Result<(), ArchiveError> {
    while !engine.stop.load(Ordering::Relaxed) && engine.read(|view| view.has_cold_work())? {
        if !engine.ask(typed::EvictSomeCold {})? {
            break;
        }
    }
    Ok(())
}

fn expire(engine: &Engine, some: impl TypedCommand<Answer = u32> + Clone) -> Result<(), ArchiveError> {
    // Fewer than were asked for are no sign that there are no more: a full catalogue drops fewer.
    while engine.ask(some.clone())? > 0 {}
    Ok(())
}

/// Removes from the pool, then from the catalogue; gives how much went. What a sick drive does not remove is
/// left to the next start, which finds it as an orphan: it must not keep other garbage waiting.
fn remove(engine: &Engine, garbage: Vec<Garbage>) -> Result<usize, ArchiveError> {
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
        match engine.pool.remove(&blob) {
            // It takes values again; its turn comes with the next sweep.
            Err(pool::PoolError::SegmentOpen(_)) => continue,
            Err(error) => tracing::warn!(%error, "garbage stays on a drive of the pool until the next start"),
            Ok(()) => {}
        }
        blobs.push(blob.id);
    }
    let mut removed = blobs.len();
    if removed > 0 {
        let told = engine.execute(Command::GarbageRemoved { blobs: blobs.clone(), values: Vec::new() });
        if let Err(ArchiveError::Store(error)) = &told
            && error.is_in_part()
        {
            let gone = engine.read(|view| {
                let of_all = blobs.iter().map(|blob| Ok((*blob, view.is_garbage(*blob)?)));
                of_all.collect::<Result<Vec<_>, ReadError>>()
            })?;
            blobs = gone.into_iter().filter(|(_, is_garbage)| !is_garbage).map(|(blob, _)| blob).collect();
            engine.upkeep.blobs_removed(&blobs);
        }
        told?;
        engine.upkeep.blobs_removed(&blobs);
    }
    let (mut gone, mut pages) = (Vec::new(), Vec::new());
    for (blob, pieces) in values.into_values() {
        pages.extend(give_back(engine, &blob, &pieces)?);
        gone.extend(pieces);
    }
    if !gone.is_empty() {
        removed += gone.len();
        engine.execute(Command::ValuesRemoved { values: gone, pages })?;
    }
    Ok(removed)
}

/// Gives back what values of a segment held that others still use, as far as whole pages of it are unneeded;
/// what is unneeded of the others is for the catalogue to know.
fn give_back(
    engine: &Engine,
    blob: &BlobDescription,
    values: &[BlobPiece],
) -> Result<Vec<UnneededSectors>, ArchiveError> {
    let touched: BTreeSet<u32> =
        values.iter().flat_map(|piece| pool::sectors_of(piece).into_keys()).collect();
    let known = engine.read(|view| {
        let sectors = |page: u32| Ok((page, view.unneeded_sectors(blob.id, page)?));
        touched.into_iter().map(sectors).collect::<Result<pool::Unneeded, _>>()
    })?;
    let back = engine.pool.give_back(blob, values, &known);
    if let Some(error) = &back.failure {
        tracing::warn!(%error, segment = %blob.id, "space of small values stays taken on a drive");
    }
    let changed = back.pages.into_iter().filter(|(page, sectors)| known.get(page) != Some(sectors));
    Ok(changed.map(|(page, sectors)| UnneededSectors { blob: blob.id, page, sectors }).collect())
}
