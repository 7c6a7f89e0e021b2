//! A restored server answers while its tapes and its pool are looked at; the order of that, and what waits.

use std::sync::Arc;
use std::time::Duration;

use archive::{
    About, Archive, ArchiveError, CloneOptions, Locality, Machines, RemoveTree, SettlingStage, StageOptions,
    Stat, TapeUse, Which,
};
use base::{ByteCount, ManualClock, Vid};
use catalogue::{EvictRefusal, TapeState};

use crate::common::{
    Instance, SystemClock, all, bytes, extents, get, migrate_all, path, put, settled, stage, wait_for,
    wait_until,
};
use crate::faulty::drive;
use crate::held::{Gate, open_behind, open_behind_at};
use crate::history::evict_all;
use crate::listed::{open_counted, open_listed};
use crate::restoring::{at_rest, check, dismounted, open, restore_to, shipped};

/// The instance as it is, with the catalogue of a point, and a gate before its drives.
fn restored_behind(instance: &Instance, archive: Archive, point: u64) -> (Archive, Gate) {
    restore_to(instance, archive, point);
    let gate = Gate::shut();
    (open_behind(instance, &gate), gate)
}

/// A server that is about to search its tapes, all scratch at the point, for a file that they alone have.
fn searching() -> (Instance, Archive, Gate) {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/file", &bytes(1, 300_000));
    let point = shipped(&archive);
    migrate_all(&archive);
    evict_all(&archive);
    put(&archive, "/other", &bytes(2, 1_000));
    shipped(&archive);
    let (archive, gate) = restored_behind(&instance, archive, point);
    wait_until("tapes are searched", || gate.waiting() > 0);
    (instance, archive, gate)
}

pub fn stage_of(archive: &Archive) -> Option<SettlingStage> {
    archive.settling().map(|settling| settling.stage)
}

pub fn locality(archive: &Archive, name: &str) -> Locality {
    let Ok(Stat::File(stat)) = archive.stat(&path(name)) else { panic!("{name} is no file") };
    stat.locality
}

/// Story: all tapes were mounted one after the other in one drive before the server answered: ten days for
/// ten thousand tapes.
#[test]
fn a_restored_server_answers_while_its_drives_look_at_tapes() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/evicted", &bytes(1, 300_000));
    migrate_all(&archive);
    evict_all(&archive);
    put(&archive, "/t/online", &bytes(2, 300_000));
    let point = shipped(&archive);
    // The tapes hold it, which the restored catalogue does not know.
    put(&archive, "/t/later", &bytes(3, 300_000));
    migrate_all(&archive);
    evict_all(&archive);

    let (archive, gate) = restored_behind(&instance, archive, point);
    wait_until("both drives look", || gate.waiting() == 2);
    assert_eq!(stage_of(&archive), Some(SettlingStage::WrittenTapes));
    assert_eq!(locality(&archive, "/t/evicted"), Locality::Nearline);
    let request = stage(&archive, &["/t/evicted"]);
    // It was evicted after the point: its bytes are nowhere but on a tape that nobody has looked at yet.
    assert_eq!(locality(&archive, "/t/online"), Locality::Online);
    assert!(
        matches!(get(&archive, "/t/online"), Err(ArchiveError::NotSettled { .. })),
        "not now, and not lost"
    );
    let options = StageOptions { owner: "test".to_owned(), pin: Duration::ZERO, priority: 5 };
    let refused = archive.stage(&all(&["/t/online"]), options);
    assert!(
        matches!(refused, Err(ArchiveError::NotSettled { .. })),
        "not told that it is there: {refused:?}"
    );
    let new = bytes(4, 300_000);
    put(&archive, "/t/new", &new);
    assert!(get(&archive, "/t/new").unwrap() == new);
    let evicted = archive.evict(&all(&["/t/new"])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (0, 1));
    assert_eq!(evicted.refused[0].1, EvictRefusal::NotSettled, "the restore is the reason, not an index");
    let status = archive.totals().unwrap();
    let told = |words: &str| status.warnings.iter().filter(|warning| warning.contains(words)).count();
    assert_eq!(told("all drives look at the tapes that may be written"), 1, "{:?}", status.warnings);
    assert_eq!(told("is out of use"), 0, "the drives have their reason: {:?}", status.warnings);
    archive.migrate_now(None).unwrap();
    // Drives that look at tapes were listed as down, and what waits for them was said to need an operator.
    for drive in archive.tape_drives() {
        assert_eq!((drive.state.as_str(), drive.vid.is_some()), ("looking", true), "{drive:?}");
        assert!(drive.reason.contains("the catalogue was restored"), "{drive:?}");
        let causes = archive.explain(&About::Drive(drive.name.clone())).unwrap();
        assert!(causes[0].text.contains("since the catalogue was restored"), "{causes:?}");
    }
    let queue = archive.queue().unwrap();
    let recall = queue.iter().find(|line| line.what.starts_with("recall")).unwrap();
    let cause = recall.cause.clone().unwrap();
    assert_eq!((cause.kind(), cause.needs_an_operator()), ("drives-look", false), "{cause}");
    assert!(status.stuck.is_empty(), "nobody has to do anything: {:?}", status.stuck);
    assert!(archive.end_quarantine().is_err());
    assert_eq!(gate.mounted(), [] as [Vid; 0]);

    gate.open(None);
    let archive = settled(archive);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    wait_for(&archive, request);
    assert!(get(&archive, "/t/evicted").unwrap() == bytes(1, 300_000));
    assert_eq!(locality(&archive, "/t/online"), Locality::Nearline);
    wait_for(&archive, stage(&archive, &["/t"]));
    assert!(get(&archive, "/t/online").unwrap() == bytes(2, 300_000));
    migrate_all(&archive);
    check(&archive);
    archive.close();
}

/// Which tapes may be written decides when writing goes on; which hold most, on most files.
#[test]
fn tapes_are_looked_at_in_the_order_of_what_they_decide() {
    let instance = Instance::with(ByteCount::mib(256), |settings| {
        at_rest(settings);
        settings.library.files_mut().unwrap().drives = 1;
        settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
    });
    let archive = open(&instance);
    for (round, length) in [4_000_000, 12_000_000, 8_000_000].into_iter().enumerate() {
        put(&archive, &format!("/t/file{round}"), &bytes(round as u64, length));
        migrate_all(&archive);
        for tape in archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_some()) {
            archive.set_tape(tape.vid, TapeUse::ReadOnly, "full enough").unwrap();
        }
    }
    put(&archive, "/t/last", &bytes(9, 1_000));
    migrate_all(&archive);
    let mut tapes = archive.tapes().unwrap();
    tapes.retain(|tape| tape.uuid.is_some());
    tapes.sort_by_key(|tape| (tape.reason.contains("full enough"), std::cmp::Reverse(tape.written)));
    let expected: Vec<Vid> = tapes.iter().map(|tape| tape.vid).collect();
    assert_eq!(expected.len(), 4);
    dismounted(&archive);
    let point = shipped(&archive);
    restore_to(&instance, archive, point);

    let gate = Gate::default();
    let archive = settled(open_behind(&instance, &gate));
    assert_eq!(gate.mounted(), expected);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    archive.close();
    drop(archive);
    // It is done once.
    let gate = Gate::default();
    let archive = open_behind(&instance, &gate);
    assert_eq!((archive.settling(), gate.mounted().len()), (None, 0));
    archive.close();
}

/// A drive that mounts nothing would have set tape after tape aside.
#[test]
fn a_drive_that_mounts_nothing_leaves_its_tapes_to_others() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/file", &bytes(1, 300_000));
    migrate_all(&archive);
    let point = shipped(&archive);
    restore_to(&instance, archive, point);

    let gate = Gate::shut();
    gate.break_drive(&drive(0));
    let archive = open_behind(&instance, &gate);
    wait_until("both drives look", || gate.waiting() == 2);
    gate.open(None);
    let archive = settled(archive);
    assert!(gate.refused() > 0, "the broken drive had its try");
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    for tape in archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_some()) {
        assert_eq!(tape.state, TapeState::Active, "{tape:?}");
    }
    archive.close();
}

/// A file that neither the pool nor a tape is known to have is not LOST before all tapes were searched; and a
/// server that is stopped meanwhile goes on with it at the next start.
#[test]
fn a_file_is_lost_only_when_all_tapes_were_searched() {
    let (instance, archive, gate) = searching();
    assert_eq!(stage_of(&archive), Some(SettlingStage::Missing));
    assert_eq!(locality(&archive, "/t/file"), Locality::Online, "nobody knows");
    assert!(matches!(get(&archive, "/t/file"), Err(ArchiveError::NotSettled { .. })));
    let closing = std::thread::spawn(move || archive.close());
    gate.open(None);
    closing.join().unwrap();

    let archive = settled(open_behind(&instance, &Gate::default()));
    assert_eq!(locality(&archive, "/t/file"), Locality::Nearline);
    wait_for(&archive, stage(&archive, &["/t"]));
    assert!(get(&archive, "/t/file").unwrap() == bytes(1, 300_000));
    check(&archive);
    archive.close();
}

/// A story of ten files in a pack that only tapes have: one was deleted while tapes were looked at, and the
/// catalogue refused the whole pack.
#[test]
fn a_delete_meanwhile_costs_no_other_file_of_its_pack() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/first", &bytes(9, 300_000));
    migrate_all(&archive);
    (0..10).for_each(|n| drop(put(&archive, &format!("/t/file{n}"), &bytes(n, 300_000))));
    let point = shipped(&archive);
    migrate_all(&archive);
    evict_all(&archive);
    let (archive, gate) = restored_behind(&instance, archive, point);
    wait_until("both drives look", || gate.waiting() == 2);
    gate.open(Some(1));
    wait_until("one was looked at", || archive.settling().unwrap().tapes_done == 1);
    assert_eq!(stage_of(&archive), Some(SettlingStage::WrittenTapes));
    archive.remove(&path("/t/file0")).unwrap();
    gate.open(None);
    let archive = settled(archive);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    wait_for(&archive, stage(&archive, &["/t"]));
    for n in 1..10 {
        assert!(get(&archive, &format!("/t/file{n}")).unwrap() == bytes(n, 300_000), "{n}");
    }
    check(&archive);
    archive.close();
}

/// By the catalogue's word alone a copy would share bytes that nothing has: a copy and a delete, as S3
/// clients rename, would lose the file.
#[test]
fn what_was_not_looked_for_is_not_copied() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/a", &bytes(1, 300_000));
    migrate_all(&archive);
    let point = shipped(&archive);
    evict_all(&archive);
    let (archive, gate) = restored_behind(&instance, archive, point);
    wait_until("both drives look", || gate.waiting() == 2);
    for to in ["/t/b", "/t/a"] {
        let copied = archive.clone_object(&path("/t/a"), Which::Current, &path(to), CloneOptions::default());
        assert!(matches!(copied, Err(ArchiveError::NotSettled { .. })), "{copied:?}");
    }
    gate.open(None);
    let archive = settled(archive);
    wait_for(&archive, stage(&archive, &["/t"]));
    archive.clone_object(&path("/t/a"), Which::Current, &path("/t/b"), CloneOptions::default()).unwrap();
    archive.remove(&path("/t/a")).unwrap();
    assert!(get(&archive, "/t/b").unwrap() == bytes(1, 300_000));
    archive.close();
}

/// The tape of a file was repacked to one that was scratch at the point, and used again.
#[test]
fn files_whose_tape_is_another_volume_now_are_searched_for() {
    let instance = Instance::with(ByteCount::mib(256), |settings| {
        at_rest(settings);
        settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
    });
    let archive = open(&instance);
    put(&archive, "/t/a", &bytes(1, 3_000_000));
    migrate_all(&archive);
    let old = archive.tapes().unwrap().into_iter().find(|tape| tape.containers > 0).unwrap().vid;
    archive.set_tape(old, TapeUse::ReadOnly, "").unwrap();
    evict_all(&archive);
    let point = shipped(&archive);
    archive.repack_tape(old, "for the test").unwrap();
    wait_until("nothing is left on it", || {
        archive.migrate_now(None).unwrap();
        archive.tape_repack(old).unwrap().is_some_and(|repack| repack.done)
    });
    wait_until("it can be reclaimed", || archive.reclaim_tape(old).is_ok());
    for tape in archive.tapes().unwrap() {
        if tape.vid != old && tape.uuid.is_none() {
            archive.set_tape(tape.vid, TapeUse::Disabled, "").unwrap();
        } else if tape.state == TapeState::Active {
            archive.set_tape(tape.vid, TapeUse::ReadOnly, "").unwrap();
        }
    }
    put(&archive, "/t/new", &bytes(77, 3_000_000));
    migrate_all(&archive);
    assert!(archive.tape(old).unwrap().containers > 0);
    evict_all(&archive);
    restore_to(&instance, archive, point);
    let archive = open(&instance);
    assert_eq!(locality(&archive, "/t/a"), Locality::Nearline, "{:?}", archive.settling());
    wait_for(&archive, stage(&archive, &["/t/a"]));
    assert!(get(&archive, "/t/a").unwrap() == bytes(1, 3_000_000));
    archive.close();
}

/// An operator's word about a drive outlasts the look; tapes that no drive can look at are looked at before
/// they are used, and stay what they are. A server that is closed before all is settled looks again, for
/// which it needs a drive: so the first one is closed when it is settled, not when its tapes were looked at.
#[test]
fn drives_that_are_out_of_use_stay_so_and_set_no_tape_aside() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/a", &bytes(1, 300_000));
    migrate_all(&archive);
    archive.drive_down(drive(1).as_str(), "service").unwrap();
    let point = shipped(&archive);
    restore_to(&instance, archive, point);
    let gate = Gate::shut();
    let archive = open_behind(&instance, &gate);
    wait_until("the drive looks", || gate.waiting() == 1);
    archive.drive_down(drive(0).as_str(), "it burns").unwrap();
    gate.open(None);
    let archive = settled(archive);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    let state = |archive: &Archive| -> Vec<String> {
        archive.tape_drives().into_iter().map(|drive| drive.state).collect()
    };
    wait_until("it is down", || state(&archive) == ["down", "down"]);
    archive.close();
    drop(archive);

    let gate = Gate::default();
    let archive = settled(open_behind(&instance, &gate));
    assert_eq!((stage_of(&archive), gate.mounted().len()), (None, 0), "it was settled before");
    let point = shipped_by(&instance, archive);
    let archive = open_behind(&instance, &gate);
    wait_until("all but tapes is done", || stage_of(&archive) == Some(SettlingStage::OtherTapes));
    let used = archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_some());
    assert!(used.map(|tape| tape.state).all(|state| state == TapeState::Active), "{point}");
    assert_eq!(gate.mounted().len(), 0);
    archive.drive_up(drive(0).as_str()).unwrap();
    let archive = settled(archive);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    assert!(gate.mounted().len() >= 2);
    archive.close();
}

/// Restores the instance to where it is; all its drives are out of use.
fn shipped_by(instance: &Instance, archive: Archive) -> u64 {
    archive.close();
    drop(archive);
    let archive = open(instance);
    let point = shipped(&archive);
    restore_to(instance, archive, point);
    point
}

/// Story: a point between a flush and its index. The tape was set aside, its flushed copy given up since the
/// catalogue said that the pool had the bytes, and the file was LOST.
#[test]
fn a_point_between_flush_and_index_loses_nothing() {
    for offset in 0.. {
        let instance = Instance::with(ByteCount::mib(256), at_rest);
        let archive = open(&instance);
        put(&archive, "/first", &bytes(9, 300_000));
        migrate_all(&archive);
        put(&archive, "/t/file0", &bytes(1, 3_000_000));
        let begin = shipped(&archive);
        migrate_all(&archive);
        let end = shipped(&archive);
        put(&archive, "/t/file1", &bytes(2, 3_000_000));
        migrate_all(&archive);
        evict_all(&archive);
        if begin + offset > end {
            return archive.close();
        }
        restore_to(&instance, archive, begin + offset);
        let archive = open(&instance);
        assert_ne!(locality(&archive, "/t/file0"), Locality::Lost, "{offset} of {}", end - begin);
        wait_for(&archive, stage(&archive, &["/t/file0"]));
        assert!(get(&archive, "/t/file0").unwrap() == bytes(1, 3_000_000), "{offset}");
        archive.close();
    }
}

/// A pack was sealed while tapes were searched, and a container on tape took one of its members away: it
/// could never be written.
#[test]
fn a_pack_that_lost_a_member_to_a_tape_is_sealed_anew() {
    let (_instance, archive, gate) = searching();
    put(&archive, "/t/new", &bytes(5, 200_000));
    archive.migrate_now(None).unwrap();
    wait_until("all is sealed", || archive.totals().unwrap().todo.files == 0);
    gate.open(None);
    let archive = settled(archive);
    wait_until("it is on tape", || {
        // What is sealed anew waits for its age.
        archive.migrate_now(None).unwrap();
        locality(&archive, "/t/new") == Locality::OnlineAndNearline
    });
    assert_eq!(locality(&archive, "/t/file"), Locality::Nearline);
    check(&archive);
    archive.close();
}

/// Lets time pass while somebody looks all the time, as the engine does: what passes unseen does not count.
fn pass_time(archive: &Archive, clock: &ManualClock, seconds: u64) {
    for done in (0..seconds).step_by(5) {
        archive.settling().unwrap();
        clock.advance(base::Duration::from_secs(5.min(seconds - done)));
    }
    archive.settling().unwrap();
}

/// Two tapes that may be written and two that may not, restored to where they are.
fn with_two_written_tapes() -> Instance {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    put(&archive, "/t/old", &bytes(1, 300_000));
    migrate_all(&archive);
    for tape in archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_some()) {
        archive.set_tape(tape.vid, TapeUse::ReadOnly, "").unwrap();
    }
    put(&archive, "/t/file", &bytes(2, 300_000));
    migrate_all(&archive);
    let point = shipped(&archive);
    restore_to(&instance, archive, point);
    instance
}

/// A mount in one drive does not come back, and the other drive has looked at its tape and is about to look
/// at one more.
fn hanging() -> (Instance, Archive, Gate, Vid) {
    let instance = with_two_written_tapes();
    let (gate, clock) = (Gate::shut(), instance.clock());
    gate.hang(&drive(0));
    let archive = open_behind_at(&instance, &gate, clock.clone());
    // Else the other one might have had both tapes before this one came.
    wait_until("one drive hangs", || gate.hanging() == 1);
    gate.open(Some(1));
    wait_until("the other has looked", || archive.settling().unwrap().tapes_done == 1);
    let look = archive.settling().unwrap().looking.remove(0);
    assert_eq!((look.drive.as_str(), look.silent), (drive(0).as_str(), base::Duration::ZERO));
    // Less than the limit: all is held up, and said.
    pass_time(&archive, &clock, 3_599);
    assert_eq!(stage_of(&archive), Some(SettlingStage::WrittenTapes));
    let warnings = archive.totals().unwrap().warnings;
    let named = format!("drive {} looks at tape {} and has not answered for 3599 s", drive(0), look.vid);
    assert!(warnings.iter().any(|warning| warning.contains(&named)), "{warnings:?}");
    for about in [About::Tape(look.vid), About::Drive(drive(0).as_str().to_owned())] {
        let why = archive.explain(&about).unwrap();
        assert!(why[0].text.contains("since the catalogue was restored, before any tape"), "{why:?}");
    }
    pass_time(&archive, &clock, 1);
    wait_until("the look is given up", || stage_of(&archive) > Some(SettlingStage::WrittenTapes));
    (instance, archive, gate, look.vid)
}

/// Story: a robot was stuck, and the drives that waited for it were given up, their tapes set aside; a server
/// whose machine stood still for hours did the same when it went on.
#[test]
fn no_drive_is_given_up_for_a_stuck_robot_or_a_machine_that_stood_still() {
    let instance = with_two_written_tapes();
    let (gate, clock) = (Gate::shut(), instance.clock());
    [0, 1].iter().for_each(|n| gate.hang(&drive(*n)));
    let archive = open_behind_at(&instance, &gate, clock.clone());
    wait_until("both drives wait for the robot", || gate.hanging() == 2);
    archive.settling().unwrap();
    clock.advance(base::Duration::from_secs(7_200));
    let looking = archive.settling().unwrap().looking;
    assert!(looking.iter().all(|look| look.silent <= base::LOOK_LATE_MAX), "{looking:?}");
    pass_time(&archive, &clock, 3_700);
    let settling = archive.settling().unwrap();
    assert_eq!(settling.stage, SettlingStage::WrittenTapes);
    assert!(settling.looking.iter().all(|look| look.waits_for_library), "{settling:?}");
    assert_eq!((settling.looking.len(), settling.looking[0].silent.as_secs() > 3_600), (2, true));
    let warnings = archive.totals().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("is the robot stuck?")), "{warnings:?}");
    // One of them is served: now it is known that the robot works, and who hangs.
    gate.free(&drive(1));
    gate.open(None);
    wait_until("the other one is given up", || stage_of(&archive) > Some(SettlingStage::WrittenTapes));
    wait_until("it alone is out of use", || {
        let downs = archive.tape_drives().into_iter().filter(|drive| drive.state == "down");
        downs.map(|drive| drive.name).eq([drive(0).as_str()])
    });
    gate.free(&drive(0));
    archive.close();
}

/// Story: a mount that never came back held up all writing to tape, and the sweeper, for ever.
#[test]
fn a_mount_that_does_not_come_back_holds_up_its_tape_only() {
    let (instance, archive, gate, vid) = hanging();
    let tape = archive.tape(vid).unwrap();
    assert_eq!(tape.state, TapeState::ReadOnly);
    assert!(tape.reason.contains("has it, and has not answered for 3600 s"), "{}", tape.reason);
    gate.open(None);
    put(&archive, "/t/new", &bytes(3, 300_000));
    migrate_all(&archive);
    assert_eq!(locality(&archive, "/t/new"), Locality::OnlineAndNearline);
    let archive = settled(archive);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Unsettled), "what it holds is not known");
    assert_eq!(archive.settling().unwrap().unseen, [vid]);
    assert_eq!(archive.evict(&all(&["/t/file"])).unwrap().evicted, 0);
    assert!(archive.why_path(&path("/t/file")).is_ok());
    gate.free(&drive(0));
    archive.close();
    drop(archive);

    let archive = settled(open_behind(&instance, &Gate::default()));
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    assert_eq!(archive.evict(&all(&["/t/file"])).unwrap().evicted, 1);
    wait_for(&archive, stage(&archive, &["/t"]));
    assert!(get(&archive, "/t/file").unwrap() == bytes(2, 300_000));
    check(&archive);
    archive.close();
}

/// A drive that comes back while others are looked at has its tape looked at after all.
#[test]
fn a_drive_that_was_given_up_and_comes_back_settles_its_tape() {
    let (_instance, archive, gate, vid) = hanging();
    wait_until("others are looked at", || stage_of(&archive) == Some(SettlingStage::OtherTapes));
    assert_eq!(archive.settling().unwrap().unseen, [vid]);
    gate.free(&drive(0));
    wait_until("it may be looked at", || archive.settling().unwrap().unseen.is_empty());
    gate.open(None);
    let archive = settled(archive);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled));
    assert!(gate.mounted().iter().filter(|mounted| **mounted == vid).count() >= 2);
    archive.close();
}

/// Story: a server that was told to stop while it looked for shards went through all of its drives first.
#[test]
fn a_stop_does_not_wait_for_the_search_for_shards() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    (0..20).for_each(|n| drop(put(&archive, &format!("/t/file{n}"), &bytes(n, 300_000))));
    let point = shipped(&archive);
    restore_to(&instance, archive, point);
    let gone = &extents(instance.settings.pool.drives[0].at.directory())[0];
    std::fs::remove_file(gone).unwrap();
    let (archive, lists) = open_listed(&instance, Arc::new(SystemClock), 3);
    assert_eq!(lists.calls_after_stop(&archive), 0);
    assert_eq!(stage_of(&archive), Some(SettlingStage::Pool), "nothing was decided by half a list");
    drop(archive);
    let archive = settled(open_behind(&instance, &Gate::default()));
    (0..20).for_each(|n| assert!(get(&archive, &format!("/t/file{n}")).unwrap() == bytes(n, 300_000)));
    archive.close();
}

/// Story: after a restore each small file was read from the pool by itself, 150 µs on a disk: of ten million
/// files none could be evicted for 25 minutes.
#[test]
fn small_files_are_looked_for_together_after_a_restore() {
    const FILES: u64 = 300;
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    (0..FILES).for_each(|n| drop(put(&archive, &format!("/t/file{n}"), &bytes(n, 64))));
    let point = shipped(&archive);
    restore_to(&instance, archive, point);
    let (archive, counted) = open_counted(&instance, Arc::new(SystemClock));
    let archive = settled(archive);
    let reads = counted.reads();
    assert!(reads < FILES as usize / 3, "{reads} reads for {FILES} files");
    (0..FILES).for_each(|n| assert!(get(&archive, &format!("/t/file{n}")).unwrap() == bytes(n, 64)));
    archive.close();
}

/// The tapes on which a session was open at the point that was restored.
fn torn(instance: &Instance) -> Vec<Vid> {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let runs = machines.catalogue.read(|view| view.open_runs()).unwrap();
    runs.into_iter().map(|(_, run)| run.vid).collect()
}

/// What a session was writing at the point is on its tape, and nobody knows before the session is closed:
/// until then its file is not LOST, although all other tapes could be searched.
#[test]
fn a_file_is_not_lost_beside_an_open_torn_session() {
    let mut beside = 0;
    for offset in 0.. {
        let instance = Instance::with(ByteCount::mib(256), |settings| {
            at_rest(settings);
            // The large file and the small ones go to tapes of their own.
            for (class, tape_pool) in settings.classes.iter_mut().zip(["vault-a", "vault-b"]) {
                class.copies = vec![tape_pool.to_owned()];
            }
        });
        let archive = open(&instance);
        put(&archive, "/first", &bytes(9, 300_000));
        migrate_all(&archive);
        put(&archive, "/t/file", &bytes(1, 3_000_000));
        let begin = shipped(&archive);
        migrate_all(&archive);
        let end = shipped(&archive);
        evict_all(&archive);
        if begin + offset > end {
            archive.close();
            break;
        }
        restore_to(&instance, archive, begin + offset);
        let torn = torn(&instance);
        let gate = Gate::shut();
        let archive = open_behind(&instance, &gate);
        wait_until("tapes are looked at", || gate.waiting() > torn.len());
        torn.iter().for_each(|vid| gate.hold(*vid));
        gate.open(None);
        let is_over = || archive.settling().unwrap().stage.is_over();
        // The look has ended it, if its tape holds what the point does not know.
        wait_until("the session is about to be closed", || gate.hanging() == 1 || is_over());
        if gate.hanging() == 1 {
            wait_until("files were looked for", || stage_of(&archive) > Some(SettlingStage::Pool));
            put(&archive, "/new", &bytes(2, 300_000));
            wait_until("another tape is written", || {
                archive.migrate_now(None).unwrap();
                locality(&archive, "/new") == Locality::OnlineAndNearline
            });
            assert_eq!(stage_of(&archive), Some(SettlingStage::OtherTapes), "{offset}");
            assert_ne!(locality(&archive, "/t/file"), Locality::Lost, "{offset}");
            beside += 1;
        }
        gate.hold_none();
        let archive = settled(archive);
        assert_ne!(locality(&archive, "/t/file"), Locality::Lost, "{offset}");
        // An index, segments and file marks behind the last container were counted as torn once.
        let tapes = archive.tapes().unwrap();
        assert!(tapes.iter().all(|tape| tape.torn.0 == 0), "{offset}: {tapes:?}");
        wait_for(&archive, stage(&archive, &["/t/file"]));
        assert!(get(&archive, "/t/file").unwrap() == bytes(1, 3_000_000), "{offset}");
        archive.close();
    }
    assert!(beside > 2, "{beside} points were within a session");
}

/// An instance restored to a point within a session that a look at its tape does not end, and that tape; the
/// tape leaves the library behind that look.
fn without_a_torn_tape() -> (Instance, Archive, Gate, Vid) {
    for offset in 0.. {
        let instance = Instance::with(ByteCount::mib(256), |settings| {
            at_rest(settings);
            for (class, tape_pool) in settings.classes.iter_mut().zip(["vault-a", "vault-b"]) {
                class.copies = vec![tape_pool.to_owned()];
            }
        });
        let archive = open(&instance);
        put(&archive, "/first", &bytes(9, 300_000));
        migrate_all(&archive);
        put(&archive, "/t/file", &bytes(1, 3_000_000));
        let begin = shipped(&archive);
        migrate_all(&archive);
        let end = shipped(&archive);
        evict_all(&archive);
        assert!(begin + offset <= end, "no point was within a session");
        restore_to(&instance, archive, begin + offset);
        let torn = torn(&instance);
        let gate = Gate::shut();
        let archive = open_behind(&instance, &gate);
        wait_until("tapes are looked at", || gate.waiting() > torn.len());
        torn.iter().for_each(|vid| gate.take_out(*vid));
        gate.open(None);
        let settling = || archive.settling().unwrap();
        wait_until("it is over", || settling().stage.is_over());
        if settling().stage == SettlingStage::Unsettled {
            return (instance, archive, gate, torn[0]);
        }
        archive.close();
    }
    unreachable!("a session has an end");
}

/// A file that nothing has but a tape which could not be looked at: a stage said "online already, now
/// pinned", and no get ever gave it.
fn not_there_now(archive: &Archive, name: &str) {
    assert_eq!(archive.settling().unwrap().missing, 1);
    let options = StageOptions { owner: "test".to_owned(), pin: Duration::ZERO, priority: 5 };
    let staged = archive.stage(&all(&[name]), options);
    assert!(matches!(staged, Err(ArchiveError::NotSettled { .. })), "{staged:?}");
    assert!(matches!(get(archive, name), Err(ArchiveError::NotSettled { .. })));
    let warnings = archive.totals().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("1 files (named in the log)")), "{warnings:?}");
}

/// Story: a tape with a session that was open at the point left the library, and the settling of the restore
/// waited for it without an end and without a word.
#[test]
fn a_torn_tape_that_left_the_library_is_told_and_holds_up_nothing_else() {
    let (_instance, archive, gate, vid) = without_a_torn_tape();
    assert_eq!(archive.settling().unwrap().absent, [vid]);
    assert_ne!(locality(&archive, "/t/file"), Locality::Lost);
    not_there_now(&archive, "/t/file");
    let Ok(Stat::File(stat)) = archive.stat(&path("/t/file")) else { panic!("no file") };
    assert!(!stat.copies.is_empty(), "what the tape may have is not given up");
    let warnings = archive.totals().unwrap().warnings;
    let told = format!("a session of before the restore is open on {vid}");
    assert!(warnings.iter().any(|warning| warning.contains(&told)), "{warnings:?}");
    put(&archive, "/new", &bytes(2, 300_000));
    wait_until("other tapes are written", || {
        archive.migrate_now(None).unwrap();
        locality(&archive, "/new") == Locality::OnlineAndNearline
    });
    // It goes on by itself.
    gate.put_back(vid);
    wait_until("it is settled", || stage_of(&archive) == Some(SettlingStage::Settled));
    assert_eq!(archive.settling().unwrap().absent, []);
    wait_for(&archive, stage(&archive, &["/t/file"]));
    assert!(get(&archive, "/t/file").unwrap() == bytes(1, 3_000_000));
    check(&archive);
    archive.close();
}

/// Gone for good: who disables it gives its session up.
#[test]
fn the_session_of_a_torn_tape_that_is_disabled_is_given_up() {
    let (_instance, archive, _gate, vid) = without_a_torn_tape();
    archive.set_tape(vid, TapeUse::Disabled, "gone for good").unwrap();
    wait_until("it is not waited for", || archive.settling().unwrap().absent.is_empty());
    assert_eq!(archive.tape(vid).unwrap().state, TapeState::Disabled);
    wait_until("it is over", || archive.settling().unwrap().stage.is_over());
    archive.close();
}

/// Two tapes hold the copies of a pack that the catalogue does not know, and two drives read them at once:
/// each copy gets a tape pool of its own.
#[test]
fn two_drives_that_take_over_at_once_give_each_copy_its_pool() {
    for round in 0..5 {
        let (_instance, archive, gate) = searching();
        wait_until("both drives search", || gate.waiting() == 2);
        gate.open(None);
        let archive = settled(archive);
        let Ok(Stat::File(stat)) = archive.stat(&path("/t/file")) else { panic!("no file") };
        assert_eq!(stat.locality, Locality::Nearline, "{round}");
        let used: Vec<_> = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0).collect();
        let mut pools: Vec<_> = used.iter().map(|tape| tape.tape_pool.clone()).collect();
        pools.sort();
        pools.dedup();
        assert_eq!((used.len(), pools.len()), (2, 2), "{round}: {used:?}");
        check(&archive);
        archive.close();
    }
}

/// Story: the requester of a recall saw the old names in a removed directory, whatever its list had said.
#[test]
fn a_file_of_a_removed_directory_has_no_name_in_requests() {
    let (_instance, archive, gate) = searching();
    put(&archive, "/t/new", &bytes(4, 1_000));
    put(&archive, "/kept/file", &bytes(3, 1_000));
    let request = stage(&archive, &["/t/new", "/kept"]);
    let names = |archive: &Archive| -> Vec<String> {
        let (files, _) = archive.request_files(request, 0, 10).unwrap();
        files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!(names(&archive), ["/t/new", "/kept/file"]);
    let how = RemoveTree { owner: "test".to_owned(), directory: None, with_lists: false };
    let removal = archive.remove_tree(&path("/t"), how).unwrap();
    assert!(removal.waits.is_some(), "nothing is removed while it is not settled");
    let now = names(&archive);
    assert!(now[0].starts_with("(file ") && now[0].ends_with(", deleted)"), "{now:?}");
    assert_eq!(now[1], "/kept/file");
    gate.open(None);
    settled(archive).close();
}

/// A server with one copy of each file, and a file that is on one tape only; which one.
pub fn on_one_tape() -> (Instance, Archive, Vid) {
    let instance = Instance::with(ByteCount::mib(256), |settings| {
        at_rest(settings);
        settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
    });
    let archive = open(&instance);
    put(&archive, "/t/file", &bytes(1, 300_000));
    migrate_all(&archive);
    evict_all(&archive);
    let tape = archive.tapes().unwrap().into_iter().find(|tape| tape.containers > 0).unwrap();
    (instance, archive, tape.vid)
}

/// What a disabled tape has is out of reach, not LOST: also if no drive can look at it.
#[test]
fn a_file_on_disabled_tapes_only_is_not_lost_by_a_restore() {
    for is_there in [true, false] {
        let (instance, archive, vid) = on_one_tape();
        archive.set_tape(vid, TapeUse::Disabled, "it is in the safe").unwrap();
        let point = shipped(&archive);
        restore_to(&instance, archive, point);
        let cartridge = instance.cartridge(vid);
        let away = instance.directory.path().join("away");
        if !is_there {
            std::fs::rename(&cartridge, &away).unwrap();
        }
        let archive = settled(open_behind(&instance, &Gate::default()));
        assert_eq!(stage_of(&archive), Some(SettlingStage::Settled), "{:?}", archive.settling());
        assert_eq!(locality(&archive, "/t/file"), Locality::Nearline, "{is_there}");
        assert_eq!(archive.tape(vid).unwrap().state, TapeState::Disabled);
        archive.close();
        drop(archive);
        if !is_there {
            std::fs::rename(&away, &cartridge).unwrap();
        }
        let archive = open_behind(&instance, &Gate::default());
        archive.set_tape(vid, TapeUse::ReadOnly, "").unwrap();
        wait_for(&archive, stage(&archive, &["/t"]));
        assert!(get(&archive, "/t/file").unwrap() == bytes(1, 300_000), "{is_there}");
        archive.close();
    }
}

/// Story: a tape that was disabled at the point had got the only copy of a file afterwards, and was in the
/// safe: the file was LOST, and the restore settled, although the tape had it.
#[test]
fn a_file_is_not_lost_while_a_disabled_tape_was_not_searched() {
    for is_brought in [true, false] {
        let (instance, archive, first) = on_one_tape();
        put(&archive, "/t/later", &bytes(2, 300_000));
        for tape in archive.tapes().unwrap() {
            archive.set_tape(tape.vid, TapeUse::Disabled, "not yet").unwrap();
        }
        let point = shipped(&archive);
        for tape in archive.tapes().unwrap().into_iter().filter(|tape| tape.vid != first) {
            archive.set_tape(tape.vid, TapeUse::Active, "").unwrap();
        }
        migrate_all(&archive);
        evict_all(&archive);
        let used = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0);
        let vid = used.map(|tape| tape.vid).find(|vid| *vid != first).unwrap();
        restore_to(&instance, archive, point);
        let (cartridge, safe) = (instance.cartridge(vid), instance.directory.path().join("safe"));
        std::fs::rename(&cartridge, &safe).unwrap();

        let archive = settled(open_behind(&instance, &Gate::default()));
        let settling = archive.settling().unwrap();
        assert_eq!((settling.stage, settling.missing), (SettlingStage::Unsettled, 1), "{settling:?}");
        assert_eq!((settling.unsearched, settling.unseen), (vec![vid], Vec::new()));
        assert_ne!(locality(&archive, "/t/later"), Locality::Lost);
        not_there_now(&archive, "/t/later");
        let warnings = archive.totals().unwrap().warnings;
        let told = format!("disabled tapes were not: {vid}");
        assert!(warnings.iter().any(|warning| warning.contains(&told)), "{warnings:?}");
        if !is_brought {
            archive.remove(&path("/t/later")).unwrap();
        }
        archive.close();
        drop(archive);
        if is_brought {
            std::fs::rename(&safe, &cartridge).unwrap();
        }
        let archive = settled(open_behind(&instance, &Gate::default()));
        assert_eq!(stage_of(&archive), Some(SettlingStage::Settled), "{:?}", archive.settling());
        if is_brought {
            assert_eq!(locality(&archive, "/t/later"), Locality::Nearline);
            archive.set_tape(vid, TapeUse::ReadOnly, "").unwrap();
            wait_for(&archive, stage(&archive, &["/t/later"]));
            assert!(get(&archive, "/t/later").unwrap() == bytes(2, 300_000));
        }
        check(&archive);
        archive.close();
    }
}

/// A tape that was disabled at the point and put into use afterwards has files that nothing else has.
#[test]
fn a_tape_that_was_disabled_at_the_point_is_searched_too() {
    let (instance, archive, first) = on_one_tape();
    put(&archive, "/t/later", &bytes(2, 300_000));
    for tape in archive.tapes().unwrap() {
        archive.set_tape(tape.vid, TapeUse::Disabled, "not yet").unwrap();
    }
    let point = shipped(&archive);
    for tape in archive.tapes().unwrap().into_iter().filter(|tape| tape.vid != first) {
        archive.set_tape(tape.vid, TapeUse::Active, "").unwrap();
    }
    migrate_all(&archive);
    evict_all(&archive);
    restore_to(&instance, archive, point);
    let archive = settled(open_behind(&instance, &Gate::default()));
    assert_eq!(locality(&archive, "/t/later"), Locality::Nearline, "{:?}", archive.settling());
    assert_eq!(locality(&archive, "/t/file"), Locality::Nearline);
    check(&archive);
    archive.close();
}

/// Flips a bit of the newest index on each partition of each cartridge; a second time mends it.
fn flip_newest_indexes(instance: &Instance) -> usize {
    let mut flipped = 0;
    for cartridge in
        std::fs::read_dir(instance.settings.library.files().unwrap().directory.join("cartridges")).unwrap()
    {
        for file in std::fs::read_dir(cartridge.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            let mut content = std::fs::read(&file).unwrap();
            if let Some(at) = memchr::memmem::rfind(&content, b"<?xml") {
                content[at + 60] ^= 1;
                std::fs::write(&file, content).unwrap();
                flipped += 1;
            }
        }
    }
    flipped
}

/// Story: the newest index of a tape could not be read, for once. The look went back to the one before, the
/// tape counted as wholly known, and the files that it held whole were LOST for good.
#[test]
fn nothing_is_lost_on_the_word_of_a_tape_whose_newest_index_cannot_be_read() {
    let (instance, archive, _) = on_one_tape();
    put(&archive, "/t/later", &bytes(2, 300_000));
    let point = shipped(&archive);
    migrate_all(&archive);
    evict_all(&archive);
    restore_to(&instance, archive, point);
    assert!(flip_newest_indexes(&instance) > 0);
    let archive = settled(open_behind(&instance, &Gate::default()));
    let settling = archive.settling().unwrap();
    assert_eq!(settling.stage, SettlingStage::Unsettled, "{settling:?}");
    assert!(!settling.unseen.is_empty(), "{settling:?}");
    assert_ne!(locality(&archive, "/t/later"), Locality::Lost);
    not_there_now(&archive, "/t/later");
    archive.close();
    drop(archive);
    flip_newest_indexes(&instance);
    let archive = settled(open_behind(&instance, &Gate::default()));
    assert_eq!(stage_of(&archive), Some(SettlingStage::Settled), "{:?}", archive.settling());
    wait_for(&archive, stage(&archive, &["/t/later"]));
    assert!(get(&archive, "/t/later").unwrap() == bytes(2, 300_000));
    archive.close();
}
