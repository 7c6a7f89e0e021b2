//! Everything that tapes, drives and the robot can do to an archive. Each test asserts that its fault
//! happened, that `why` tells the reason while somebody waits, and that every byte is there at the end.

use std::time::Duration;

use crate::common::{Instance, all, bytes, migrate_all, path, put, stage, stop, wait_for, wait_until};
use crate::faulty::{Trouble, check_all, data, drive, fill, place, round, vid};
use crate::held::{Gate, open_behind};
use archive::{
    About, Archive, CheckState, DamagedPart, SUSPECT_FAILURES_MAX, Selection, StageOptions, TapeUse,
};
use base::{ByteCount, RequestId, Vid};
use catalogue::TapeState;
use library::{DriveCommand, Faults};

fn why_waits_for(archive: &Archive, text: &str) {
    wait_until(&format!("the queue says '{text}'"), || {
        archive.queue().unwrap().iter().any(|line| line.reason.contains(text))
    });
}

/// The write fails in the second container: the first one, which no flush had confirmed, is kept, an index
/// names it, and nothing more is written to that tape.
#[test]
fn a_write_error_keeps_what_is_whole() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    faults.plan_write_error_once(vid(1), data(80));
    let files = fill(&archive);
    round(&archive, &files);
    assert!(faults.fired() > 0);
    let tape = archive.tape(vid(1)).unwrap();
    assert_eq!(tape.state, TapeState::ReadOnly, "{}", tape.reason);
    assert!(tape.reason.contains("adopted"), "{}", tape.reason);
    assert!(tape.containers >= 1, "the whole prefix is adopted");
    assert!(tape.torn.0 > 0);
    archive.close();
}

/// The tape ends within a container and has no room for an index: its copies go to another tape.
#[test]
fn an_early_end_without_room_for_an_index() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    faults.plan_end(vid(1), data(80));
    let files = fill(&archive);
    round(&archive, &files);
    assert!(faults.fired() > 0);
    let tape = archive.tape(vid(1)).unwrap();
    assert_eq!(tape.state, TapeState::ReadOnly, "{}", tape.reason);
    archive.close();
}

/// One block of a pack is unreadable: its neighbours come from the same tape, the hit file from the other
/// one, and the copy is written again.
#[test]
fn an_unreadable_block_is_served_from_the_other_copy_and_mended() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let before = place(&archive, "/t/small20");
    let (bad, block) = before[0];
    archive.set_tape(before[1].0, TapeUse::Disabled, "so that the other one is read").unwrap();
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    faults.plan_unreadable(bad, data(block.0 + 8));
    let request = stage(&archive, &["/t"]);
    wait_until("the neighbours are there", || archive.request(request).unwrap().record.done > 38);
    archive.set_tape(before[1].0, TapeUse::Active, "").unwrap();
    wait_for(&archive, request);
    let record = archive.request(request).unwrap().record;
    assert!(faults.fired() > 0);
    assert_eq!(record.failed, 0, "{:?}", archive.why_request(request));
    check_all(&archive, &files);
    wait_until("the copy is written again", || {
        let now = place(&archive, "/t/small20");
        now.len() == 2 && !now.contains(&(bad, block)) && archive.totals().unwrap().unindexed == 0
    });
    archive.close();
}

/// A check of NEARLINE tapes finds the place and names container, file and block; the two copies of the pack
/// mend each other although each is damaged.
#[test]
fn a_check_finds_damage_and_two_damaged_copies_mend_each_other() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let before = place(&archive, "/t/small3");
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let sound = |vid| {
        archive.check_tapes(&[vid]).unwrap();
        wait_until("the check is done", || {
            archive.tape_check(vid).unwrap().is_some_and(|check| check.state == CheckState::Done)
        });
        archive.tape_check(vid).unwrap().unwrap()
    };
    let clean = sound(before[0].0);
    assert_eq!((clean.damage_count, clean.containers_checked), (0, clean.containers), "{:?}", clean.damage);
    assert!(clean.indexes >= 2 && clean.segments >= 1, "{clean:?}");
    faults.plan_unreadable(before[0].0, data(before[0].1.0 + 2));
    faults.plan_unreadable(before[1].0, data(before[1].1.0 + 9));
    let found = sound(before[0].0);
    assert_eq!(found.damage_count, 1, "{:?}", found.damage);
    let damage = &found.damage[0];
    assert_eq!((damage.part, damage.block.0), (DamagedPart::Container, before[0].1.0 + 2));
    assert!(!damage.files.is_empty() && damage.tape_path.contains("packs"), "{damage:?}");
    wait_until("the copy is written again", || {
        let now = place(&archive, "/t/small3");
        now.len() == 2 && !now.contains(&before[0]) && archive.totals().unwrap().unindexed == 0
    });
    assert!(faults.fired() > 1, "both damaged blocks were read");
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    check_all(&archive, &files);
    archive.close();
}

#[test]
fn a_robot_jam_is_told_and_waited_out() {
    let trouble = Trouble::with_retry(1, Duration::from_millis(500));
    let (archive, faults) = trouble.open();
    let jam_all = || (1..=6).for_each(|n| faults.plan_jam(vid(n)));
    jam_all();
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    // The robot jams until it is told: on a busy machine six jams are over before anybody asks.
    wait_until("the queue says 'robot'", || {
        jam_all();
        archive.queue().unwrap().iter().any(|line| line.reason.contains("robot"))
    });
    round(&archive, &files);
    assert!(faults.fired() > 0);
    archive.close();
}

#[test]
fn no_scratch_tape_is_told_and_waited_for() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    for n in 1..=6 {
        archive.set_tape(vid(n), TapeUse::Disabled, "none for this test").unwrap();
    }
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    why_waits_for(&archive, "there is no scratch tape");
    let why = archive.why_path(&path("/t/large0")).unwrap().join(" ");
    assert!(why.contains("there is no scratch tape"), "{why}");
    for n in 1..=6 {
        archive.set_tape(vid(n), TapeUse::Active, "").unwrap();
    }
    round(&archive, &files);
    archive.close();
}

/// All drives die in each state of a mount; requests wait with the reason and come when the drives are back,
/// without a hand.
#[test]
fn drives_that_die_in_any_state_are_tried_again() {
    let commands = [
        DriveCommand::Load,
        DriveCommand::Read,
        DriveCommand::Write,
        DriveCommand::Flush,
        DriveCommand::Locate,
        DriveCommand::Unload,
    ];
    for command in commands {
        let trouble = Trouble::new(2);
        let (archive, faults) = trouble.open();
        faults.plan_death(&drive(0), command);
        faults.plan_death(&drive(1), command);
        let files = fill(&archive);
        archive.migrate_now(None).unwrap();
        wait_until("both drives are down", || {
            archive.tape_drives().iter().all(|drive| drive.state == "down")
        });
        if !matches!(command, DriveCommand::Unload) {
            why_waits_for(&archive, "every tape drive is down");
        }
        assert!(faults.fired() >= 2, "{command:?}");
        faults.revive(&drive(0));
        faults.revive(&drive(1));
        round(&archive, &files);
        let suspect = archive.tapes().unwrap().into_iter().find(|tape| tape.state == TapeState::Suspect);
        assert_eq!(suspect.map(|tape| tape.reason), None, "a dead drive says nothing about a tape");
        archive.close();
    }
}

/// The server stops while its only drive is dead after it has written and before the flush: the next start
/// takes over what is on tape.
#[test]
fn a_start_adopts_what_a_dead_session_has_written() {
    let trouble = Trouble::new(1);
    let (archive, faults) = trouble.open();
    let first = ("/t/first".to_owned(), bytes(9, 3_000_000));
    put(&archive, &first.0, &first.1);
    migrate_all(&archive);
    let files: Vec<(String, Vec<u8>)> = [first].into_iter().chain(fill(&archive)).collect();
    faults.plan_death(&drive(0), DriveCommand::Flush);
    archive.migrate_now(None).unwrap();
    wait_until("the drive is down", || archive.tape_drives().iter().all(|drive| drive.state == "down"));
    assert!(faults.fired() > 0);
    archive.close();
    drop(archive);
    // It is mounted for that, which takes minutes with real tapes: nobody waits for it.
    let gate = Gate::shut();
    let archive = open_behind(&trouble.instance, &gate);
    check_all(&archive, &files[1..]);
    put(&archive, "/t/meanwhile", b"meanwhile");
    wait_until("the torn tape is to be mounted", || gate.waiting() > 0);
    assert_eq!(gate.mounted().len(), 0);
    gate.open(None);
    round(&archive, &files);
    let states: Vec<_> = archive.tapes().unwrap().into_iter().map(|tape| tape.state).collect();
    assert!(!states.contains(&TapeState::Suspect) && !states.contains(&TapeState::ReadOnly), "{states:?}");
    archive.close();
}

#[test]
fn a_wrong_cartridge_is_refused_untouched() {
    let trouble = Trouble::with_retry(1, Duration::from_secs(4));
    let (archive, faults) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let tapes = place(&archive, "/t/large0");
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
    for (vid, _) in &tapes {
        faults.plan_wrong_cartridge(*vid, blank);
    }
    let request = stage(&archive, &["/t"]);
    wait_until("both tapes are suspect", || {
        tapes.iter().all(|(vid, _)| archive.tape(*vid).unwrap().state == TapeState::Suspect)
    });
    assert_eq!(faults.fired(), 2);
    wait_until("the reason names what was found", || {
        archive.why_request(request).unwrap().join(" ").contains("holds nothing, expected volume")
    });
    for (vid, _) in &tapes {
        archive.set_tape(*vid, TapeUse::Active, "the right ones are in their slots").unwrap();
    }
    wait_for(&archive, request);
    check_all(&archive, &files);
    archive.close();
}

#[test]
fn a_lost_position_is_found_again() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    faults.plan_lost_position(vid(1), data(7));
    let files = fill(&archive);
    round(&archive, &files);
    assert!(faults.fired() > 0);
    assert_ne!(archive.tape(vid(1)).unwrap().state, TapeState::Suspect);
    archive.close();
}

/// Two tapes fail one after the other in the only drive: the drive is at fault, the tapes keep their name.
#[test]
fn two_tapes_that_fail_in_one_drive_are_not_at_fault() {
    let trouble = Trouble::new(1);
    let (archive, faults) = trouble.open();
    for n in 1..=6 {
        for block in 0..40 {
            faults.plan_write_error(vid(n), data(10 + block));
        }
    }
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    wait_until("the drive is down", || {
        archive.tape_drives().iter().any(|drive| drive.reason.contains("one after the other"))
    });
    faults.clear();
    assert!(faults.fired() >= 2);
    round(&archive, &files);
    let tapes = archive.tapes().unwrap();
    let aside = tapes.iter().filter(|tape| tape.state == TapeState::Suspect).count();
    assert_eq!(aside, 0, "{tapes:?}");
    archive.close();
}

/// Everything on a tape goes to others of its pool, is read back, and the tape is labelled anew.
#[test]
fn repack_and_reclaim() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let old = place(&archive, "/t/small7")[0].0;
    let other = place(&archive, "/t/small7")[1].0;
    archive.remove(&path("/t/large2")).unwrap();
    let files: Vec<_> = files.into_iter().filter(|(name, _)| name != "/t/large2").collect();
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    archive.repack_tape(old, "for the test").unwrap();
    wait_until("nothing is left on it", || {
        archive.tape_repack(old).unwrap().is_some_and(|repack| repack.done)
    });
    let places = place(&archive, "/t/small7");
    assert!(places.len() == 2 && places.iter().all(|(vid, _)| *vid != old), "{places:?}");
    wait_until("it can be reclaimed", || archive.reclaim_tape(old).is_ok());
    let tape = archive.tape(old).unwrap();
    assert_eq!((tape.state, tape.uuid), (TapeState::Scratch, None));
    // The other copies are not needed to read everything.
    archive.set_tape(other, TapeUse::Disabled, "").unwrap();
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    check_all(&archive, &files);
    archive.set_tape(other, TapeUse::Active, "").unwrap();
    // Only the reclaimed tape is free for a new pool's first file when all others are set aside.
    for tape in archive.tapes().unwrap() {
        if tape.vid != old && tape.uuid.is_none() {
            archive.set_tape(tape.vid, TapeUse::Disabled, "").unwrap();
        }
    }
    let pool = archive.tape(places[0].0).unwrap().tape_pool;
    for tape in archive.tapes().unwrap() {
        if tape.tape_pool == pool && tape.state == TapeState::Active {
            archive.set_tape(tape.vid, TapeUse::ReadOnly, "").unwrap();
        }
    }
    put(&archive, "/t/new", &bytes(77, 3_000_000));
    migrate_all(&archive);
    assert!(place(&archive, "/t/new").iter().any(|(vid, _)| *vid == old), "the reclaimed tape is labelled");
    assert_eq!(faults.fired(), 0);
    archive.close();
}

/// A repack asked for while its tape was being written was refused, but had made the tape read-only: who did
/// not ask again lost the tape for ever, and an hour of them all scratch tapes.
#[test]
fn a_tape_that_is_being_written_is_repacked_when_its_session_has_ended() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let old = place(&archive, "/t/small7")[0].0;
    let mut number = 0;
    wait_until("it is being written", || {
        number += 1;
        put(&archive, &format!("/t/more{number}"), &bytes(number, 300_000));
        archive.migrate_now(None).unwrap();
        matches!(archive.reclaim_tape(old), Err(archive::ArchiveError::TapeInUse(_)))
    });
    assert_eq!(archive.tape(old).unwrap().state, TapeState::Active, "a refusal changes nothing");
    archive.repack_tape(old, "for the test").unwrap();
    wait_until("nothing is left on it", || {
        archive.tape_repack(old).unwrap().is_some_and(|repack| repack.done)
    });
    wait_until("it can be reclaimed", || archive.reclaim_tape(old).is_ok());
    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    check_all(&archive, &files);
    archive.close();
}

/// Both tapes of a container were repacked together, with the files out of the pool: its bytes were read from
/// tape for one of the two repacks only, and the other one never ended.
#[test]
fn two_tapes_that_hold_the_same_containers_are_repacked_together() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let old: Vec<Vid> = place(&archive, "/t/small7").into_iter().map(|(vid, _)| vid).collect();
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    for vid in &old {
        archive.repack_tape(*vid, "for the test").unwrap();
    }
    for vid in &old {
        wait_until("nothing is left on it", || {
            archive.tape_repack(*vid).unwrap().is_some_and(|repack| repack.done)
        });
        wait_until("it can be reclaimed", || archive.reclaim_tape(*vid).is_ok());
    }
    let places = place(&archive, "/t/small7");
    assert!(places.len() == 2 && places.iter().all(|(vid, _)| !old.contains(vid)), "{places:?}");
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    check_all(&archive, &files);
    archive.close();
}

#[test]
fn a_drive_is_taken_out_of_use_and_given_back() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    archive.drive_down("vdrive0", "cleaning").unwrap();
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    why_waits_for(&archive, "cleaning");
    archive.drive_up("vdrive0").unwrap();
    round(&archive, &files);
    archive.close();
}

/// A drive that an operator had taken out of use was in use again after a restart.
#[test]
fn a_drive_stays_out_of_use_over_a_restart() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    archive.drive_down("vdrive0", "its head is worn").unwrap();
    archive.close();
    drop(archive);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    why_waits_for(&archive, "its head is worn");
    assert!(archive.tape_drives().iter().all(|drive| drive.state == "down"));
    archive.drive_up("vdrive0").unwrap();
    archive.close();
    drop(archive);
    let (archive, _) = trouble.open();
    round(&archive, &files);
    archive.close();
}

/// Until the scheduler had heard of the drives after a start, none was listed, and `drive up` knew none.
#[test]
fn the_drives_are_known_from_the_first_moment() {
    const STARTS: usize = 20;
    let trouble = Trouble::new(2);
    for start in 0..STARTS {
        let (archive, _) = trouble.open();
        let names: Vec<_> = archive.tape_drives().into_iter().map(|drive| drive.name).collect();
        assert_eq!(names, ["vdrive0", "vdrive1"], "start {start}");
        names.iter().for_each(|name| archive.drive_up(name).unwrap());
        stop(archive);
    }
}

type Files = Vec<(String, Vec<u8>)>;

/// What is on tape only, with a library that brings wrong cartridges for both of its tapes once.
fn nearline_on_suspects(archive: &Archive, faults: &Faults) -> (Files, Vec<Vid>, RequestId) {
    let files = fill(archive);
    migrate_all(archive);
    let tapes: Vec<Vid> = place(archive, "/t/large0").into_iter().map(|(vid, _)| vid).collect();
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
    // Else what is wanted is read from the tape that is in the drive still.
    wait_until("the drive is empty", || archive.tape_drives().iter().all(|drive| drive.vid.is_none()));
    for vid in &tapes {
        faults.plan_wrong_cartridge(*vid, blank);
    }
    let request = stage(archive, &["/t"]);
    wait_until("both tapes are suspect", || {
        tapes.iter().all(|vid| archive.tape(*vid).unwrap().state == TapeState::Suspect)
    });
    (files, tapes, request)
}

/// One transient error at a mount made a tape suspect for good, and who waited for it waited for ever.
#[test]
fn suspect_tapes_are_tried_again_by_themselves() {
    let trouble = Trouble::with_retry(1, Duration::from_secs(3));
    let (archive, faults) = trouble.open();
    let (files, tapes, request) = nearline_on_suspects(&archive, &faults);
    wait_until("why tells that it is tried again", || {
        archive.why_request(request).unwrap().join(" ").contains("failure 1 in a row; tried again after")
    });
    wait_for(&archive, request);
    assert_eq!(faults.fired(), 2);
    assert_eq!(archive.request(request).unwrap().record.failed, 0);
    check_all(&archive, &files);
    let read =
        tapes.iter().map(|vid| archive.tape(*vid).unwrap()).find(|tape| tape.state == TapeState::Active);
    let reason = read.expect("one that was read is what it was").reason;
    assert!(reason.contains("found well") && !reason.contains("tried again after"), "{reason}");
    archive.close();
}

#[test]
fn suspect_tapes_are_tried_again_after_a_restart() {
    let trouble = Trouble::with_retry(1, Duration::from_secs(10));
    let (archive, faults) = trouble.open();
    let (files, tapes, request) = nearline_on_suspects(&archive, &faults);
    assert_eq!(faults.fired(), 2);
    archive.close();
    drop(archive);
    let (archive, _) = trouble.open();
    assert!(tapes.iter().all(|vid| archive.tape(*vid).unwrap().state == TapeState::Suspect));
    wait_for(&archive, request);
    check_all(&archive, &files);
    archive.close();
}

/// A tape that fails at every attempt is left to the operator, and `why` says so.
#[test]
fn a_tape_that_fails_again_and_again_is_set_aside() {
    let trouble = Trouble::new(1);
    let (archive, faults) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let tapes = place(&archive, "/t/large0");
    let (bad, other) = (tapes[0].0, tapes[1].0);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    archive.set_tape(other, TapeUse::Disabled, "so that the other one is read").unwrap();
    let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
    faults.plan_wrong_cartridge(bad, blank);
    let request = stage(&archive, &["/t"]);
    for failure in 1..=SUSPECT_FAILURES_MAX {
        wait_until("it fails", || faults.fired() >= failure as usize);
        if failure < SUSPECT_FAILURES_MAX {
            faults.plan_wrong_cartridge(bad, blank);
        }
    }
    wait_until("why leaves it to the operator", || {
        let why = archive.why_request(request).unwrap().join(" ");
        why.contains("failure 5 in a row; not tried again by itself") && why.contains("kist tape set")
    });
    archive.set_tape(bad, TapeUse::Active, "its slot holds it now").unwrap();
    wait_for(&archive, request);
    check_all(&archive, &files);
    assert_eq!(faults.fired(), SUSPECT_FAILURES_MAX as usize);
    archive.close();
}

/// The copy that is checked lies beside the catalogue, and is gone afterwards, also one of a killed server.
#[test]
fn the_catalogue_is_verified_in_a_copy() {
    let trouble = Trouble::new(1);
    let copy = trouble.instance.settings.catalogue_directory.with_file_name("catalogue.verifying");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join("data.mdb"), b"cut short").unwrap();
    let (archive, _) = trouble.open();
    assert!(!copy.exists(), "a start removes it");
    fill(&archive);
    migrate_all(&archive);
    std::fs::create_dir(&copy).unwrap();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
    assert!(!copy.exists(), "it is removed afterwards");
    archive.close();
}

/// Story: one empty cartridge directory made every put above 256 KiB fail: the largest tape held nothing.
#[test]
fn a_cartridge_that_nobody_can_identify_limits_no_put() {
    let instance = Instance::new(ByteCount::mib(256));
    let library = instance.settings.library.files().unwrap().directory.join("cartridges");
    std::fs::create_dir(library.join("KT0008")).unwrap();
    std::fs::create_dir(library.join("NOTATAPE1234")).unwrap();
    copy_directory(&library.join("KT0001"), &library.join("KT0009"));
    let archive = instance.open();
    put(&archive, "/large", &bytes(1, 3_000_000));
    let warnings = archive.totals().unwrap().warnings;
    let warning = warnings.iter().find(|warning| warning.contains("cannot identify")).unwrap();
    assert!(warning.contains("2 cartridges: KT0008, KT0009"), "{warning}");
    assert!(warning.contains("kist why KT0008"), "{warning}");
    assert!(warnings.iter().any(|warning| warning.contains("NOTATAPE1234 has no VID")), "{warnings:?}");
    // Story: it was shown as a scratch tape for which nothing waits.
    let why = archive.explain(&About::Tape(vid(8))).unwrap();
    let texts: Vec<&str> = why.iter().map(|cause| cause.text.as_str()).collect();
    assert!(matches!(texts[..], [text] if text.contains("kist tape dump KT0008")), "{texts:?}");
    for tape in archive.tapes().unwrap() {
        assert_eq!(tape.unidentified, tape.vid == vid(8) || tape.vid == vid(9), "{tape:?}");
        assert!(!tape.unidentified || tape.reason.contains("cannot identify"), "{tape:?}");
    }
    // Story: these said that it is scratch, and of one that is disabled the reason was empty.
    let refused = [
        archive.set_tape(vid(8), TapeUse::Active, ""),
        archive.set_tape(vid(8), TapeUse::ReadOnly, ""),
        archive.repack_tape(vid(8), ""),
        archive.reclaim_tape(vid(8)),
    ];
    for refused in refused {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("cannot identify") && !text.contains("scratch"), "{text}");
    }
    archive.set_tape(vid(9), TapeUse::Disabled, "").unwrap();
    let reason = archive.tape(vid(9)).unwrap().reason;
    assert!(reason.contains("disabled; the library cannot identify"), "{reason}");
    archive.set_tape(vid(9), TapeUse::Active, "").unwrap();
    archive.set_tape(vid(9), TapeUse::Disabled, "known").unwrap();
    let warnings = archive.totals().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("1 cartridge: KT0008")), "{warnings:?}");
    assert!(!archive.tape(vid(9)).unwrap().unidentified);
    migrate_all(&archive);
    archive.close();
    drop(archive);
    // Somebody repairs it.
    std::fs::remove_dir_all(library.join("KT0009")).unwrap();
    std::fs::remove_dir_all(library.join("KT0008")).unwrap();
    copy_directory(&library.join("KT0001"), &library.join("KT0009"));
    let archive = instance.open();
    archive.close();
}

fn copy_directory(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Story: a list of 10,001 paths was refused by a limit that nobody had told, and left a request behind.
#[test]
fn a_list_longer_than_a_batch_is_staged_and_evicted() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    put(&archive, "/one", &bytes(1, 1_000));
    put(&archive, "/two", &bytes(2, 1_000));
    let mut paths = vec![path("/one"); 10_000];
    paths.push(path("/two"));
    let selection = Selection { paths, recursive: false };
    let options = StageOptions { owner: "test".to_owned(), pin: Duration::ZERO, priority: 5 };
    let request = archive.stage(&selection, options).unwrap();
    assert_eq!(archive.request(request).unwrap().record.files, 2);
    wait_for(&archive, request);
    archive.release(request, None).unwrap();
    migrate_all(&archive);
    assert_eq!(archive.evict(&selection).unwrap().evicted, 2);
    archive.close();
}
