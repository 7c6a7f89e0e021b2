//! How the engine stands.

use std::collections::BTreeMap;

use archive::{ArchiveError, HealthProblem, PoolInfo, Totals};
use authority::Operation;

use super::page::{Labels, Page};

fn label(name: &'static str, value: impl Into<String>) -> Labels {
    vec![(name, value.into())]
}

/// Writes all of it.
pub(super) fn write(page: &mut Page, engine: &dyn Operation) -> Result<(), ArchiveError> {
    let version =
        vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("instance", engine.instance().to_string())];
    page.gauges("server", "The server that is asked; always 1", [(version, 1.0)]);
    totals(page, &engine.totals()?);
    classes(page, engine)?;
    queues(page, engine)?;
    tapes(page, engine)?;
    pool(page, &engine.pool_info()?);
    health(page, engine)?;
    change_log(page, engine)?;
    backup(page, engine);
    Ok(())
}

fn totals(page: &mut Page, totals: &Totals) {
    page.gauge("warnings", "What an operator should know: see kist status", totals.warnings.len() as f64);
    let has = |word: &str| totals.problems.iter().any(|problem| problem.word() == word);
    let rows = HealthProblem::WORDS.map(|word| (label("reason", word), f64::from(u8::from(has(word)))));
    page.gauges("refuses_changes", "1 for each reason why changes are refused, or do not get to tape", rows);
    if let Some(clock) = &totals.clock {
        let ahead = clock.ahead() as f64 / 1e9;
        page.gauge(
            "clock_ahead_seconds",
            "By how much the system's clock is ahead of the trusted time",
            ahead,
        );
        let doubted = f64::from(u8::from(clock.is_doubted()));
        page.gauge("clock_in_doubt", "1 if the difference puts the time in doubt", doubted);
    }
    let evictable = totals.holders.evictable;
    page.gauge("evictable_files", "At most so many files could be evicted now", evictable.files as f64);
    page.gauge("evictable_bytes", "Their bytes", evictable.bytes.0 as f64);
    let pinned = totals.holders.pinned;
    page.gauge("pinned_files", "Files that could be evicted but for pins", pinned.files as f64);
    page.gauge("pinned_bytes", "Their bytes", pinned.bytes.0 as f64);
    page.gauge("lost_files", "Files of which no copy can be read: see kist scrub", totals.lost.files as f64);
    page.gauge("unindexed_containers", "Container copies not under an index yet", totals.unindexed as f64);
    page.counter("tape_mounts", "Mounts of tapes, ever", totals.mounts);
    page.counter("packs_sealed", "Packs sealed, ever", totals.packs);
    page.counter("tape_flushes", "Flushes committed, ever", totals.flushes.files);
    page.counter("tape_flushed_bytes", "Bytes that flushes covered, ever", totals.flushes.bytes.0);
    page.counter("tape_indexes", "Indexes of data partitions, ever", totals.indexes);
    page.gauge("tape_written_bytes", "Bytes on tapes", totals.tape_written.0 as f64);
}

fn classes(page: &mut Page, engine: &dyn Operation) -> Result<(), ArchiveError> {
    let classes = engine.classes()?;
    let rows = |value: fn(catalogue::Tally) -> u64| {
        let of = move |class: &archive::ClassInfo| {
            [("all", class.live), ("online", class.online), ("unsealed", class.todo)].map(|(state, tally)| {
                (vec![("class", class.name.clone()), ("state", state.to_owned())], value(tally) as f64)
            })
        };
        classes.iter().flat_map(of).collect::<Vec<_>>()
    };
    page.gauges("files", "Files of a class", rows(|tally| tally.files));
    page.gauges("file_bytes", "Bytes of files of a class", rows(|tally| tally.bytes.0));
    Ok(())
}

fn queues(page: &mut Page, engine: &dyn Operation) -> Result<(), ArchiveError> {
    // By kind of queue: a series for each tape that is wanted would never end.
    let mut kinds = BTreeMap::<String, (u64, u64, f64)>::new();
    let mut reasons = BTreeMap::<(String, &'static str), u64>::new();
    for line in engine.queue()? {
        let kind = line.what.split(' ').next().unwrap_or_default().to_owned();
        if let Some(cause) = &line.cause {
            *reasons.entry((kind.clone(), cause.kind())).or_default() += line.items;
        }
        let sum = kinds.entry(kind).or_default();
        let age = line.age.map_or(0.0, |age| age.as_secs_f64());
        *sum = (sum.0.saturating_add(line.items), sum.1.saturating_add(line.bytes.0), sum.2.max(age));
    }
    let rows = |value: fn(&(u64, u64, f64)) -> f64| {
        kinds.iter().map(|(kind, sum)| (label("queue", kind.clone()), value(sum))).collect::<Vec<_>>()
    };
    page.gauges("queue_items", "Files or containers that wait", rows(|sum| sum.0 as f64));
    page.gauges("queue_bytes", "Their bytes", rows(|sum| sum.1 as f64));
    page.gauges("queue_oldest_seconds", "How long the oldest waits", rows(|sum| sum.2));
    let rows = reasons.iter().map(|((kind, reason), items)| {
        (vec![("queue", kind.clone()), ("reason", (*reason).to_owned())], *items as f64)
    });
    page.gauges("queue_reason_items", "The same by the reason why they wait", rows);
    Ok(())
}

fn tapes(page: &mut Page, engine: &dyn Operation) -> Result<(), ArchiveError> {
    let mut states = BTreeMap::<(String, String), (u64, u64)>::new();
    for tape in engine.tapes()? {
        let state = tape.state.word().to_owned();
        let sum = states.entry((tape.tape_pool.unwrap_or_default(), state)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(tape.capacity.0.saturating_sub(tape.written.0)));
    }
    let labels =
        |(pool, state): &(String, String)| vec![("tape_pool", pool.clone()), ("state", state.clone())];
    page.gauges("tapes", "Tapes", states.iter().map(|(of, sum)| (labels(of), sum.0 as f64)));
    let free = states.iter().map(|(of, sum)| (labels(of), sum.1 as f64));
    page.gauges("tape_free_bytes", "Native capacity of tapes that is not written", free);
    let drives = engine.tape_drives();
    let rows =
        drives.iter().map(|drive| (vec![("drive", drive.name.clone()), ("state", drive.state.clone())], 1.0));
    page.gauges("tape_drive_state", "1 for the state that a tape drive is in", rows);
    let rows = drives.iter().map(|drive| (label("drive", drive.name.clone()), drive.rate));
    page.gauges("tape_drive_bytes_per_second", "Rate of a tape drive's session", rows);
    Ok(())
}

fn pool(page: &mut Page, pool: &PoolInfo) {
    let rows = |value: fn(&archive::PoolDriveInfo) -> f64| {
        pool.drives.iter().map(|d| (label("drive", d.id.to_string()), value(d))).collect::<Vec<_>>()
    };
    let up = rows(|drive| if drive.up { 1.0 } else { 0.0 });
    page.gauges("pool_drive_up", "Whether a drive of the pool works; a full one does", up);
    let full = rows(|drive| if drive.full { 1.0 } else { 0.0 });
    page.gauges("pool_drive_full", "Whether only a lack of room keeps new files from it", full);
    let gaps = rows(|drive| if drive.gaps_after.is_some() { 1.0 } else { 0.0 });
    page.gauges("pool_drive_gaps", "Whether a drive may lack what was written while it was away", gaps);
    let slow = rows(|drive| drive.slow.map_or(0.0, |times| times as f64));
    page.gauges("pool_drive_slow", "How many times as long as others a slow drive takes; 0: it is not", slow);
    page.gauges("pool_drive_capacity_bytes", "What it can hold", rows(|drive| drive.capacity.0 as f64));
    page.gauges("pool_drive_used_bytes", "What it holds", rows(|drive| drive.used.0 as f64));
    let counters = |value: fn(&archive::PoolDriveInfo) -> u64| {
        pool.drives.iter().map(|d| (label("drive", d.id.to_string()), value(d))).collect::<Vec<_>>()
    };
    page.counters("pool_drive_read_bytes", "Bytes read since the start", counters(|d| d.read.0));
    page.counters("pool_drive_written_bytes", "Bytes written since the start", counters(|d| d.written.0));
    page.counters(
        "pool_drive_errors",
        "Errors since the start; that it was full is none",
        counters(|d| d.errors),
    );
    page.counter("pool_reconstructed_cells", "Cells rebuilt on read since the start", pool.reconstructed);
    let evictor = &pool.evictor;
    page.counter("pool_evicted_files", "Files that left by themselves since the start", evictor.files);
    page.counter("pool_evicted_bytes", "Bytes of files that left by themselves", evictor.bytes.0);
    let held_up = if evictor.held_up { 1.0 } else { 0.0 };
    page.gauge("pool_evictor_held_up", "Whether more is to leave than may", held_up);
    page.gauge("pool_garbage", "Blobs and values that wait for removal", pool.garbage as f64);
    if let Some(rebalance) = &pool.rebalance {
        page.gauge(
            "pool_rebalance_active",
            "Whether what is stored moves, or waits to",
            active(&rebalance.state),
        );
        page.gauge(
            "pool_rebalance_moved_bytes",
            "Written by it since the start",
            rebalance.moved_bytes.0 as f64,
        );
        page.gauge("pool_rebalance_left_bytes", "About what is to move still", rebalance.left_bytes.0 as f64);
        if let Some(spread) = rebalance.spread {
            page.gauge(
                "pool_rebalance_spread",
                "How far drives are apart, of their sizes",
                spread.points() / 100.0,
            );
        }
    }
    if let Some(recoding) = &pool.recoding {
        page.gauge(
            "pool_recoding_active",
            "Whether blobs get another code, or wait to",
            active(&recoding.state),
        );
        page.gauge("pool_recoding_bytes", "Of blobs that got it since the start", recoding.bytes.0 as f64);
        page.gauge(
            "pool_recoding_bytes_total",
            "About how many there will be",
            recoding.bytes_total.0 as f64,
        );
    }
    if let Some(small) = &pool.small {
        page.gauge("pool_small_values", "Values in segments", small.values as f64);
        let copied = small.copied.0 as f64;
        page.gauge("pool_small_copied_bytes", "Bytes of values in segments, in all copies", copied);
        page.gauge("pool_small_taken_bytes", "What segments take on all drives", small.taken.0 as f64);
    }
}

fn active(state: &archive::PoolWork) -> f64 {
    if matches!(state, archive::PoolWork::Ended(_)) { 0.0 } else { 1.0 }
}

fn health(page: &mut Page, engine: &dyn Operation) -> Result<(), ArchiveError> {
    let health = engine.pool_health()?;
    let states = [
        ("degraded", health.degraded),
        ("critical", health.critical),
        ("unreadable", health.unreadable),
        ("lost", health.lost),
    ];
    let rows = states.map(|(state, count)| (label("state", state), count as f64));
    page.gauges("pool_stripes", "Stripes and segments that lack something", rows);
    page.gauge("pool_repairs_waiting", "What reads have found damaged", health.repairs_waiting as f64);
    page.gauge("pool_repairs_failed", "Of that, what was tried in vain", health.repairs_failed as f64);
    page.counter("pool_late_cells", "Cells that others stood in for, in time", health.late_cells);
    let scrub = engine.scrub_info();
    page.gauge("scrub_found", "Found wrong in this pass", scrub.found as f64);
    page.gauge("scrub_repaired", "Repaired in this pass", scrub.repaired as f64);
    page.gauge("scrub_failed", "Not to be repaired in this pass", scrub.failed as f64);
    page.gauge("scrub_lost_files", "Files of which no copy can be read", scrub.lost as f64);
    Ok(())
}

fn change_log(page: &mut Page, engine: &dyn Operation) -> Result<(), ArchiveError> {
    let Some(log) = engine.change_log()? else { return Ok(()) };
    page.gauge("catalogue_log_changes", "Changes in the log of the catalogue", log.changes as f64);
    page.gauge("catalogue_log_bytes", "Bytes of the catalogue that its log takes", log.bytes as f64);
    let behind = log.last.saturating_sub(log.base.max(log.first.saturating_sub(1)));
    let about = "Changes that came behind the newest base which tapes of all pools have";
    page.gauge("catalogue_changes_behind_base", about, behind.min(log.changes) as f64);
    Ok(())
}

fn backup(page: &mut Page, engine: &dyn Operation) {
    let Some(backup) = engine.backup_status() else { return };
    // Not known before the backup was first looked at: no sample then.
    if let Some(behind) = backup.behind() {
        let about = "Changes of the catalogue that are not shipped yet";
        page.gauge("backup_changes_behind", about, behind as f64);
    }
    let failing = if backup.failing.is_some() { 1.0 } else { 0.0 };
    page.gauge("backup_failing", "Whether the last attempt failed", failing);
}
