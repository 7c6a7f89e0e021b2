//! Tapes and containers that hold nothing any more: all but one tape of a pool can be reclaimed, and what was
//! removed is not written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Instance, SystemClock, bytes, migrate_all, path, put, wait_until};
use crate::history::{destroy_catalogue, facts};
use crate::rebuild::try_rebuild;
use crate::restoring::at_rest;
use archive::{About, Archive, ArchiveError, Settings, TapeUse};
use base::{ByteCount, Vid};
use catalogue::{Command, Envelope, MemoryStore, TapeState, View};
use scheduler::Reason;
use store::{CatalogueStore, StoreOptions};

/// The tapes of a pool with labels.
pub fn tapes_of(archive: &Archive, pool: &str) -> Vec<Vid> {
    let tapes = archive.tapes().unwrap();
    let of_pool = tapes.iter().filter(|tape| tape.tape_pool.as_deref() == Some(pool));
    of_pool.map(|tape| tape.vid).collect()
}

pub fn dismounted(archive: &Archive) {
    wait_until("the tapes are unmounted", || archive.tapes().unwrap().iter().all(|it| it.drive.is_none()));
}

/// Writes each file to a tape of its own in the first pool, and closes it; then all files are removed and the
/// tapes repacked. No scratch tape is left.
pub fn emptied(archive: &Archive, rounds: u64) -> Vec<Vid> {
    for round in 0..rounds {
        put(archive, &format!("/{round}/file"), &bytes(round + 1, 300_000));
        migrate_all(archive);
        dismounted(archive);
        for vid in tapes_of(archive, "vault-a") {
            archive.set_tape(vid, TapeUse::ReadOnly, "for the test").unwrap();
        }
    }
    let emptied = tapes_of(archive, "vault-a");
    assert_eq!(emptied.len() as u64, rounds);
    for tape in archive.tapes().unwrap().iter().filter(|tape| tape.uuid.is_none()) {
        archive.set_tape(tape.vid, TapeUse::Disabled, "no scratch tape is left").unwrap();
    }
    (0..rounds).for_each(|round| archive.remove(&path(&format!("/{round}/file"))).unwrap());
    for vid in &emptied {
        archive.repack_tape(*vid, "for the test").unwrap();
        wait_until("the tape is empty", || archive.tape_repack(*vid).unwrap().is_some_and(|it| it.done));
    }
    emptied
}

/// The whole history is there. That a tape which keeps it for others still has what was removed is told, and
/// is no loss: its newest index is younger than the history on it.
fn rebuilt_from_tapes(instance: &Instance) {
    destroy_catalogue(instance);
    let rebuilt = try_rebuild(instance).unwrap();
    assert_eq!((rebuilt.missing_from, rebuilt.inconsistencies), (None, 0), "{rebuilt:?}");
}

/// What tapes give back is what there was.
fn comes_back_from_tapes(instance: &Instance, archive: Archive) {
    let before = facts(&archive);
    archive.close();
    drop(archive);
    rebuilt_from_tapes(instance);
    let archive = instance.open();
    assert_eq!(facts(&archive), before);
    archive.close();
}

fn scratch_among(archive: &Archive, tapes: &[Vid]) -> usize {
    tapes.iter().filter(|vid| archive.tape(**vid).unwrap().state == TapeState::Scratch).count()
}

/// The catalogue of an instance that is not running.
fn store(instance: &Instance) -> CatalogueStore {
    let options = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap()
}

pub fn single_pool(settings: &mut Settings) {
    at_rest(settings);
    settings.tape_pools.truncate(1);
    settings.classes.iter_mut().for_each(|class| class.copies = vec!["vault-a".to_owned()]);
}

/// Story: no scratch tape was left while repacked tapes held nothing, and nothing named these, or the command
/// that makes them scratch.
#[test]
fn empty_tapes_are_named_where_scratch_tapes_lack() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    let tapes = emptied(&archive, 2);
    let of_tape = archive.explain(&About::Tape(tapes[0])).unwrap();
    assert!(of_tape.iter().any(|cause| cause.text.contains("it is empty")), "{of_tape:?}");
    put(&archive, "/more", &bytes(9, 300_000));
    archive.migrate_now(None).unwrap();
    wait_until("the queue names the empty tapes", || {
        archive.queue().unwrap().iter().any(|line| {
            line.cause == Some(Reason::OnlyEmptyTapes { tapes: tapes.clone() })
                && line.reason.contains(&format!("kist tape reclaim {}", tapes[0]))
        })
    });
    wait_until("the first is scratch", || archive.reclaim_tape(tapes[0]).is_ok());
    migrate_all(&archive);
    assert_eq!(archive.tape(tapes[0]).unwrap().state, TapeState::Active);
    archive.close();
}

/// Story: each tape of a pool refused to be reclaimed since it alone had some of the change log; none could
/// be written, no scratch tape was left, and nothing helped.
#[test]
fn of_tapes_that_hold_nothing_any_more_all_but_one_can_be_reclaimed() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    let tapes = emptied(&archive, 3);
    wait_until("all but one are scratch", || {
        tapes.iter().for_each(|vid| drop(archive.reclaim_tape(*vid)));
        scratch_among(&archive, &tapes) == 2
    });
    let last = tapes_of(&archive, "vault-a");
    assert_eq!(last.len(), 1);
    dismounted(&archive);
    let before = archive.tape(last[0]).unwrap();
    let refused = archive.reclaim_tape(last[0]).unwrap_err();
    assert!(matches!(refused, ArchiveError::SegmentsOwed { other: None, .. }), "{refused}");
    let after = archive.tape(last[0]).unwrap();
    assert_eq!((after.state, after.reason), (before.state, before.reason), "a refusal changes nothing");
    let facts_before = facts(&archive);
    assert!(facts_before.contains_key("/2"), "{facts_before:?}");
    // The tape that is left gives the catalogue back alone.
    comes_back_from_tapes(&instance, archive);
}

/// What a kill behind each single change leaves of a tape, from its first change on: its label and its state.
fn after_each_change(instance: &Instance, vid: Vid) -> Vec<(Envelope, Option<base::Uuid>, TapeState)> {
    let changes = store(instance).read(|view| view.changes(1, usize::MAX, usize::MAX)).unwrap();
    assert_eq!(changes.first().map(|(number, _)| *number), Some(1), "the log goes back to the first change");
    let mut replayed = MemoryStore::new();
    let mut after = Vec::new();
    for (_, bytes) in changes {
        let envelope = Envelope::decode(&bytes).unwrap();
        catalogue::apply(&mut replayed, &envelope).unwrap();
        if let Some(tape) = View::new(&replayed).tape(vid).unwrap() {
            after.push((envelope, tape.uuid, tape.state));
        }
    }
    after
}

/// Story: a tape that took the change log for another one was made active, given its run, and set to be
/// repacked again, with three commits: a kill between them left an emptied tape active, and it was written.
#[test]
fn an_emptied_tape_is_active_at_no_moment_while_it_takes_the_change_log() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    let tapes = emptied(&archive, 2);
    wait_until("all but one are scratch", || {
        tapes.iter().for_each(|vid| drop(archive.reclaim_tape(*vid)));
        scratch_among(&archive, &tapes) == 1
    });
    let keeper = tapes_of(&archive, "vault-a")[0];
    dismounted(&archive);
    archive.close();
    drop(archive);
    let after = after_each_change(&instance, keeper);
    let emptied_at = after.iter().position(|(.., state)| *state == TapeState::Repacking).unwrap();
    let (_, uuid, _) = after[emptied_at];
    let begins =
        |command: &Command| matches!(command, Command::BeginHistoryRun { vid, .. } if *vid == keeper);
    let mut runs = 0;
    for (envelope, label, state) in &after[emptied_at..] {
        runs += usize::from(begins(&envelope.command));
        assert_eq!((*label, *state), (uuid, TapeState::Repacking), "behind {envelope:?}");
    }
    assert!(runs > 0, "it took the change log");
}

/// Story: all emptied tapes of two pools were reclaimed one after the other, again and again. Each was
/// written once more for the next one, and none became scratch; the last ones of the two pools waited for
/// each other.
#[test]
fn of_the_emptied_tapes_of_all_pools_the_last_one_stays_whatever_the_order_is() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = instance.open();
    emptied(&archive, 2);
    let labelled = || [tapes_of(&archive, "vault-a"), tapes_of(&archive, "vault-b")].concat();
    for vid in tapes_of(&archive, "vault-b") {
        archive.repack_tape(vid, "for the test").unwrap();
        wait_until("the tape is empty", || archive.tape_repack(vid).unwrap().is_some_and(|it| it.done));
    }
    let (all, before) = (labelled(), archive.totals().unwrap().mounts);
    assert!(all.len() >= 3, "{all:?}");
    wait_until("all but one are scratch", || {
        labelled().iter().for_each(|vid| drop(archive.reclaim_tape(*vid)));
        dismounted(&archive);
        labelled().len() == 1
    });
    let mounts = archive.totals().unwrap().mounts - before;
    assert!(mounts <= 2 * all.len() as u64, "{mounts} mounts for {} tapes", all.len());
    comes_back_from_tapes(&instance, archive);
}

/// A tape that was active was set to be repacked by the refusal: then its pool had no tape to write to.
#[test]
fn the_only_tape_of_the_only_pool_stays_as_it_is() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    put(&archive, "/one", &bytes(1, 300_000));
    migrate_all(&archive);
    dismounted(&archive);
    archive.remove(&path("/one")).unwrap();
    let only = tapes_of(&archive, "vault-a")[0];
    archive.repack_tape(only, "for the test").unwrap();
    wait_until("the tape is empty", || archive.tape_repack(only).unwrap().is_some_and(|it| it.done));
    archive.set_tape(only, TapeUse::Active, "").unwrap();
    let refused = archive.reclaim_tape(only).unwrap_err();
    assert!(refused.to_string().contains("put in a blank one"), "{refused}");
    assert_eq!(archive.tape(only).unwrap().state, TapeState::Active);
    archive.close();
}

/// Story: who asked in the very moment in which the last container left the only tape with the change log got
/// it reclaimed: what it alone had was asked of the tape as it had been.
#[test]
fn the_only_tape_is_not_reclaimed_in_the_moment_in_which_it_is_emptied() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    for round in 0..20 {
        let file = format!("/{round}");
        put(&archive, &file, &bytes(round + 1, 300_000));
        migrate_all(&archive);
        dismounted(&archive);
        let only = tapes_of(&archive, "vault-a")[0];
        archive.remove(&path(&file)).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        assert!(archive.reclaim_tape(only).is_err(), "the change log is on no other tape");
                    }
                });
            }
            archive.repack_tape(only, "for the test").unwrap();
            wait_until("the tape is empty", || archive.tape(only).unwrap().containers == 0);
            is_done.store(true, Ordering::Relaxed);
        });
        archive.set_tape(only, TapeUse::Active, "").unwrap();
    }
    archive.close();
}

/// The last tape of a pool goes too where the tapes of another one have the change log.
#[test]
fn the_last_tape_of_a_pool_is_reclaimed_when_another_pool_has_the_log() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = instance.open();
    let tapes = emptied(&archive, 2);
    wait_until("all are scratch", || {
        tapes.iter().for_each(|vid| drop(archive.reclaim_tape(*vid)));
        scratch_among(&archive, &tapes) == 2
    });
    dismounted(&archive);
    let facts_before = facts(&archive);
    archive.close();
    drop(archive);
    rebuilt_from_tapes(&instance);
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    archive.close();
}

/// Story: files were removed when one tape had their pack; it was written to the second one all the same, and
/// who waited for the queue waited for that.
#[test]
fn what_was_removed_is_not_written_a_second_time() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    put(&archive, "/first", &bytes(9, 3_000_000));
    migrate_all(&archive);
    dismounted(&archive);
    let (first, second) = (tapes_of(&archive, "vault-a")[0], tapes_of(&archive, "vault-b")[0]);
    for tape in archive.tapes().unwrap().iter().filter(|tape| tape.vid != first) {
        archive.set_tape(tape.vid, TapeUse::Disabled, "not yet").unwrap();
    }
    let queued = || archive.totals().unwrap().queued.files;
    put(&archive, "/dead", &bytes(1, 300_000));
    put(&archive, "/live", &bytes(2, 3_000_000));
    archive.migrate_now(None).unwrap();
    wait_until("the first tape has both", || {
        let totals = archive.totals().unwrap();
        (totals.todo.files, totals.queued.files, totals.unindexed) == (0, 2, 0)
    });
    archive.remove(&path("/dead")).unwrap();
    wait_until("the second copy of it is not waited for", || queued() == 1);
    // Of what no tape has both copies go.
    wait_until("it is set aside", || archive.set_tape(first, TapeUse::Disabled, "not yet").is_ok());
    put(&archive, "/dead", &bytes(3, 300_000));
    archive.migrate_now(None).unwrap();
    wait_until("it is sealed", || queued() == 3);
    archive.remove(&path("/dead")).unwrap();
    wait_until("neither copy is waited for", || queued() == 1);
    archive.set_tape(second, TapeUse::Active, "").unwrap();
    archive.migrate_now(None).unwrap();
    wait_until("it is on tape", || queued() == 0 && archive.totals().unwrap().unindexed == 0);
    assert_eq!(archive.tape(second).unwrap().containers, 2, "the file of before, and what was not removed");
    archive.close();
}

/// Story: a tape was closed for good, with the words that its end was reached, when the next container did
/// not fit into what was left, though smaller ones would have.
#[test]
fn a_tape_stays_open_for_smaller_containers_and_is_not_mounted_in_vain() {
    let instance = Instance::with(ByteCount::mib(64), |settings| {
        single_pool(settings);
        settings.tape_pools[0].drives_max = 1;
    });
    let archive = instance.open();
    let write = |at: &str, mib: usize| {
        put(&archive, at, &bytes(mib as u64, mib << 20));
        migrate_all(&archive);
        dismounted(&archive);
    };
    write("/half", 36);
    let first = tapes_of(&archive, "vault-a")[0];
    write("/larger", 45);
    let mounts = archive.tape(first).unwrap().mounts;
    write("/another", 44);
    write("/third", 43);
    let told = archive.tape(first).unwrap();
    assert_eq!((told.state, told.reason.as_str(), told.mounts), (TapeState::Active, "", mounts));
    assert_eq!(tapes_of(&archive, "vault-a").len(), 4);
    write("/small", 20);
    let told = archive.tape(first).unwrap();
    assert_eq!((told.containers, tapes_of(&archive, "vault-a").len()), (2, 4), "{told:?}");
    archive.close();
}
