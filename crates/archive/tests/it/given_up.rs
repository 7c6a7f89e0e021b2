//! What is given up only when another place has it, and what was asked for and must not be forgotten.

use std::fs;
use std::time::Duration;

use crate::common::{Instance, all, bytes, get, migrate_all, put, stage, wait_for, wait_until};
use crate::faulty::{Trouble, check_all, data, fill, place, round, vid};
use crate::restoring::{at_rest, open};
use crate::settling::locality;
use archive::{Archive, ArchiveError, Locality, TapeUse, refusal_text};
use base::{ByteCount, Vid};
use catalogue::{EvictRefusal, TapeState};

/// Files whose drives were away and whose tapes were out of use were staged: they lost their pool copy at
/// once, which the drives could have brought back, and the request waited for tapes that nobody can read.
#[test]
fn a_stage_gives_up_no_pool_copy_for_tapes_that_cannot_be_read() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let used = (1..=6).map(vid).filter(|vid| archive.tape(*vid).unwrap().containers > 0);
    let disabled: Vec<_> = used.collect();
    assert!(disabled.len() >= 2);
    for vid in disabled {
        archive.set_tape(vid, TapeUse::Disabled, "it is broken").unwrap();
    }
    archive.close();
    drop(archive);
    let drives = &trouble.instance.settings.pool.drives;
    // Every stripe of 4+2 over 8 drives has at least 3 of these 5.
    for drive in &drives[..5] {
        fs::rename(drive.at.directory(), drive.at.directory().with_extension("away")).unwrap();
    }
    let (archive, _) = trouble.open();
    assert!(get(&archive, "/t/large0").is_err());
    stage(&archive, &["/t"]);
    archive.close();
    drop(archive);
    for drive in &drives[..5] {
        fs::rename(drive.at.directory().with_extension("away"), drive.at.directory()).unwrap();
    }
    let (archive, _) = trouble.open();
    check_all(&archive, &files);
    archive.close();
}

/// A repack was asked for while the tape was being written, and then a write failed on it: closing its run
/// made it read-only, and the repack was forgotten without a word.
#[test]
fn a_repack_is_not_forgotten_when_the_tape_fails_before_it_begins() {
    let trouble = Trouble::with(2, Duration::from_millis(200), |settings| {
        settings.tape.flush_bytes = ByteCount::mib(100);
    });
    let (archive, faults) = trouble.open();
    faults.plan_write_error_once(vid(1), data(1_000));
    // All is queued before the first tape is there, so that one batch has it.
    for n in 1..=6 {
        archive.set_tape(vid(n), TapeUse::Disabled, "").unwrap();
    }
    let mut files = fill(&archive);
    for n in 0..14 {
        files.push((format!("/t/more{n}"), bytes(n, 4_000_000)));
        put(&archive, &files[files.len() - 1].0, &files[files.len() - 1].1);
    }
    archive.migrate_now(None).unwrap();
    wait_until("all is queued", || archive.totals().unwrap().todo.files == 0);
    for n in 1..=6 {
        archive.set_tape(vid(n), TapeUse::Active, "").unwrap();
    }
    while !place(&archive, "/t/large0").iter().any(|(on, _)| *on == vid(1)) {
        std::thread::yield_now();
    }
    archive.repack_tape(vid(1), "for the test").unwrap();
    wait_until("nothing is left on it", || {
        archive.tape_repack(vid(1)).unwrap().is_some_and(|repack| repack.done)
    });
    assert!(faults.fired() > 0);
    round(&archive, &files);
    archive.close();
}

/// A copy under no index was said to be in the pool, and its place given up by a repack unlooked at. The pool
/// had lost it: the tape held the only bytes, was empty in the catalogue, and could be reclaimed.
#[test]
fn a_repack_keeps_a_flushed_copy_that_the_pool_has_lost() {
    let trouble = Trouble::with(1, Duration::from_millis(200), |settings| {
        for class in &mut settings.classes {
            class.copies.truncate(1);
            class.pack_age = Duration::ZERO;
        }
        settings.tape.dismount_delay = Duration::from_secs(4);
    });
    let (archive, faults) = trouble.open();
    put(&archive, "/t/large", &bytes(1, 4_000_000));
    wait_until("it is flushed", || archive.tapes().unwrap().iter().any(|tape| tape.containers == 1));
    let (on, block) = place(&archive, "/t/large")[0];
    let tape = archive.tape(on).unwrap();
    assert_eq!(archive.totals().unwrap().unindexed, 1, "no index covers it");
    // There is no room for an index, so that none ever will.
    faults.plan_end(on, data(tape.end_of_data.0));
    for drive in &trouble.instance.settings.pool.drives {
        for bucket in fs::read_dir(drive.at.directory().join("extents")).unwrap() {
            for extent in fs::read_dir(bucket.unwrap().path()).unwrap() {
                fs::remove_file(extent.unwrap().path()).unwrap();
            }
        }
    }
    let read = get(&archive, "/t/large").map(drop);
    assert!(matches!(read, Err(ArchiveError::Lost(_))), "{read:?}");
    archive.repack_tape(on, "for the test").unwrap();
    wait_until("the repack has looked at it", || {
        archive.tape_repack(on).unwrap().is_some_and(|repack| repack.stuck > 0 || repack.done)
    });
    assert!(faults.fired() > 0);
    assert_eq!(archive.tape(on).unwrap().state, TapeState::Repacking);
    assert_eq!(place(&archive, "/t/large"), [(on, block)], "the only bytes that are left");
    assert!(archive.reclaim_tape(on).is_err());
    archive.close();
}

/// The tapes that hold containers, all disabled.
fn disable_used(archive: &Archive) -> Vec<Vid> {
    let used: Vec<Vid> =
        archive.tapes().unwrap().iter().filter(|tape| tape.containers > 0).map(|tape| tape.vid).collect();
    for vid in &used {
        archive.set_tape(*vid, TapeUse::Disabled, "it is in the safe").unwrap();
    }
    used
}

/// Both tapes of a file were disabled, and an evict gave up what the pool had without a word: the only bytes
/// that could be read.
#[test]
fn an_evict_gives_up_no_pool_copy_while_all_its_tapes_are_set_aside() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/file", &bytes(1, 300_000));
    migrate_all(&archive);
    let used = disable_used(&archive);
    assert_eq!(used.len(), 2);
    let done = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!((done.evicted, done.refused_count), (0, 1));
    let EvictRefusal::TapesSetAside(mut vids) = done.refused[0].1.clone() else {
        panic!("{:?}", done.refused);
    };
    let told = refusal_text(&done.refused[0].1);
    assert!(used.iter().all(|vid| told.contains(vid.as_str())), "{told}");
    vids.sort();
    assert_eq!(vids, used);
    assert!(get(&archive, "/t/file").unwrap() == bytes(1, 300_000));
    archive.set_tape(used[0], TapeUse::ReadOnly, "").unwrap();
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().evicted, 1, "one of them is enough");
    wait_for(&archive, stage(&archive, &["/t"]));
    assert!(get(&archive, "/t/file").unwrap() == bytes(1, 300_000));
    archive.close();
}

/// A class whose files live on tape did the same by itself.
#[test]
fn files_that_live_on_tape_leave_the_pool_when_a_tape_can_be_read_again() {
    let instance = Instance::with(ByteCount::mib(256), |settings| {
        at_rest(settings);
        settings.classes.iter_mut().for_each(|class| class.cold = true);
    });
    let archive = open(&instance);
    put(&archive, "/t/file", &bytes(1, 300_000));
    let request = stage(&archive, &["/t"]);
    migrate_all(&archive);
    let used = disable_used(&archive);
    archive.release(request, None).unwrap();
    assert_eq!(locality(&archive, "/t/file"), Locality::OnlineAndNearline);
    archive.set_tape(used[1], TapeUse::ReadOnly, "").unwrap();
    wait_until("it leaves", || locality(&archive, "/t/file") == Locality::Nearline);
    archive.close();
}
