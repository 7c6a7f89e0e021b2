//! Records of servers whose pool, haste or machines are unlike those of others.

use base::{ByteCount, FileId, Timestamp};
use usage::{FileSize, Migrated, Put, Recalled, What};

use super::tests::{MB, at, line, recalled, server, stage, state, vid};
use super::*;

fn put(recorder: &mut Recorder, seconds: i64, file: u64, bytes: u64) {
    let put = Put { file: FileId(file), bytes: ByteCount(bytes), set: 1, took: base::Duration::ZERO };
    recorder.push(line(seconds, What::Put(put)));
}

fn evicted(recorder: &mut Recorder, seconds: i64, files: std::ops::Range<u64>) {
    for file in files {
        recorder.push(line(seconds, What::Evicted(FileSize { file: FileId(file), bytes: None })));
    }
}

/// Wanted, and come so much later.
fn wanted(recorder: &mut Recorder, seconds: i64, request: u64, files: std::ops::Range<u64>, wait: i64) {
    for file in files.clone() {
        recorder.push(line(seconds, stage(file, request, file % 4)));
    }
    for file in files {
        let came = Recalled { bytes: ByteCount(MB), ..recalled(file, file % 4, wait as u64) };
        recorder.push(line(seconds + wait, What::Recalled(came)));
    }
}

/// 746 s were foretold where files had waited for 5.7 s: a class may hold so much of the pool, what was in it
/// left by the record, and the scheduler was not told, so that a tape for whose files there had been no room
/// rested for `retry_delay`.
#[test]
fn room_that_recorded_evictions_make_is_told_to_the_scheduler() {
    let mut server = server(2);
    server.classes[0].pool_max = Some(ByteCount(12 * MB));
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 9);
    wanted(&mut recorder, 0, 1, 0..12, 300);
    // While the first twelve are there, there is room for none of the others.
    for file in 12..24 {
        recorder.push(line(310, stage(file, 2, file % 4)));
    }
    evicted(&mut recorder, 500, 0..12);
    for file in 12..24 {
        let came = Recalled { bytes: ByteCount(MB), ..recalled(file, file % 4, 490) };
        recorder.push(line(800, What::Recalled(came)));
    }
    let replay = super::replay(&server, &recorder.finish(), &[]).unwrap();
    assert_eq!((&replay.outcome.violation, replay.left.requests), (&None, 0));
    assert_eq!((replay.recorded.requests_done, replay.predicted.requests_done), (2, 2));
    let second = replay.requests.iter().find(|request| request.request == 2).unwrap();
    let took = second.predicted.unwrap();
    assert!((200.0..600.0).contains(&took), "from 190 s on there was room: {took} s");
}

/// Puts waited at `pool_max`, which a server asks of recalls only: most of a record was never written.
#[test]
fn a_put_is_not_held_up_by_pool_max() {
    let mut server = server(2);
    server.classes[0].pool_max = Some(ByteCount(50 * MB));
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 3);
    (100..110).for_each(|file| put(&mut recorder, 0, file, 40 * MB));
    let replay = super::replay(&server, &recorder.finish(), &[]).unwrap();
    assert_eq!(replay.outcome.violation, None);
    assert!(replay.outcome.is_drained);
    assert_eq!(replay.predicted.written, 400 * MB);
}

fn migrated(recorder: &mut Recorder, seconds: i64, container: u64, members: u32, block: u64) {
    let migrated = Migrated {
        container: base::ContainerId(container),
        pool: "vault".to_owned(),
        vid: vid(2),
        block: base::BlockAddress(block),
        length: ByteCount(u64::from(members) * MB),
        members,
        repack: false,
    };
    recorder.push(line(seconds, What::Migrated(migrated)));
}

/// Put, `migrate --now`, evict, wanted, twice: the second time the tape was in a drive already, no mount told
/// of the haste, and what had been put waited in the twin for `pack_age` and `mount_age`. What was evicted
/// meanwhile had never left its pool, and nothing was compared.
fn hasty() -> (Record, RecordedMount) {
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 3);
    for (round, base) in [(0, 100u64), (1, 200)] {
        let begin = round * 1_000;
        (base..base + 10).for_each(|file| put(&mut recorder, begin, file, MB));
        migrated(&mut recorder, begin + 200, base, 10, 7 + round as u64 * 20);
        evicted(&mut recorder, begin + 400, base..base + 10);
        for file in base..base + 10 {
            recorder.push(line(begin + 410, stage(file, base, 2)));
            let came = Recalled { bytes: ByteCount(MB), ..recalled(file, 2, 100) };
            recorder.push(line(begin + 500, What::Recalled(came)));
        }
    }
    let mount = RecordedMount {
        drive: "vdrive0".to_owned(),
        vid: vid(2),
        kind: Some(twin::world::MountKind::Migrate),
        ordered: at(1),
        ready: Some(at(100)),
        unmounting: None,
        unmounted: None,
        is_failed: false,
        tape_pool: Some("vault".to_owned()),
        queued: ByteCount(10 * MB),
        oldest: Some(at(0)),
        is_forced: false,
    };
    (recorder.finish(), mount)
}

#[test]
fn haste_is_seen_where_the_tape_was_in_a_drive_already() {
    let mut server = server(2);
    for pool in server.policy.tape_pools.values_mut() {
        pool.mount_age = base::Duration::from_secs(8 * 3_600);
    }
    for class in server.policy.classes.values_mut() {
        class.pack_age = base::Duration::from_secs(3_600);
    }
    server.policy.dismount_delay = base::Duration::from_secs(5_000);
    let (record, mount) = hasty();
    let mut mounts = [mount];
    find_forced(&mut mounts, &server.policy);
    assert!(mounts[0].is_forced);
    let wanted = [at(1), at(1_000).plus(base::Duration::from_millis(1))];
    assert_eq!(hurry::times(&server, &record, &mounts), wanted);
    // A pack may be larger than files that are containers of their own.
    server.classes[0].large = ByteCount(2 * MB);
    assert_eq!(hurry::times(&server, &record, &mounts), wanted);
    server.classes[0].large = ByteCount(1 << 40);
    let replay = super::replay(&server, &record, &mounts).unwrap();
    assert_eq!(replay.outcome.violation, None);
    assert_eq!((replay.left.forced, replay.left.hits, replay.left.requests), (2, 0, 0));
    assert_eq!((replay.recorded.requests, replay.predicted.requests_done), (2, 2));
    assert!(replay.predicted.migration < 2_000.0, "{}", replay.predicted.migration);
    // Packs that are full, or old enough, need nobody's haste.
    server.policy.classes.values_mut().for_each(|class| class.pack_bytes = ByteCount(10 * MB));
    assert_eq!(hurry::times(&server, &record, &mounts[..1]), [at(1)]);
    let none: [Timestamp; 0] = [];
    server.policy.classes.values_mut().for_each(|class| class.pack_bytes = ByteCount(100 * MB));
    server.policy.classes.values_mut().for_each(|class| class.pack_age = base::Duration::from_secs(200));
    assert_eq!(hurry::times(&server, &record, &[]), none);
}

/// An eviction that the twin was not ready for was looked at once more each second, or forgotten where the
/// file was still on its way: it then stayed for good.
#[test]
fn what_was_recorded_to_leave_leaves_once_it_has_come() {
    let mut server = server(1);
    server.classes[0].pool_max = Some(ByteCount(12 * MB));
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 9);
    // The twin takes longer than 20 s for four tapes with one drive.
    wanted(&mut recorder, 0, 1, 0..12, 20);
    evicted(&mut recorder, 30, 0..12);
    wanted(&mut recorder, 40, 2, 12..24, 20);
    let replay = super::replay(&server, &recorder.finish(), &[]).unwrap();
    assert_eq!((&replay.outcome.violation, replay.left.requests), (&None, 0));
    assert_eq!((replay.recorded.requests_done, replay.predicted.requests_done), (2, 2));
    assert!(replay.predicted.request_longest < 800.0, "{}", replay.predicted.request_longest);
}

/// Nothing was compared, and nothing said why.
#[test]
fn a_library_without_timing_is_compared_by_what_it_did() {
    let mut server = server(2);
    let (real, robots) = (server.libraries[0].timing.clone(), server.libraries[0].robots);
    server.libraries[0].machines = Machines::Untimed;
    server.libraries[0].timing = real.faster(1_000.0);
    server.libraries[0].robots = robots.faster(1_000.0);
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 9);
    wanted(&mut recorder, 0, 1, 0..12, 61);
    let record = recorder.finish();
    let untimed = super::replay(&server, &record, &[]).unwrap();
    assert_eq!((untimed.recorded.files, untimed.predicted.files), (12, 12));
    assert_eq!(untimed.predicted.recall_mounts, 4);
    assert!(untimed.rows.iter().all(|row| row.unit != "s"), "{:?}", untimed.rows);
    for name in ["files", "bytes", "mounts", "tapes", "written"] {
        assert!(untimed.rows.iter().any(|row| row.name == name), "{name}");
    }
    let text = super::text(&untimed);
    assert!(text.starts_with("library library takes no time") && text.contains("order of mounts"), "{text}");
    assert!(!text.contains("completion"), "{text}");
    server.libraries[0].machines = Machines::Supposed;
    server.libraries[0].timing = real;
    let supposed = super::replay(&server, &record, &[]).unwrap();
    let wait = supposed.rows.iter().find(|row| row.name == "wait: median").unwrap();
    assert!(wait.deviation.is_none() && wait.predicted > wait.recorded, "{wait:?}");
    assert!(supposed.rows.iter().any(|row| row.name == "files" && row.deviation.is_some()));
    assert!(super::text(&supposed).starts_with("library library took no time when"));
}

/// Files that were put and removed again before they were sealed stayed in the twin until some tape took
/// them, here for the 6 hours of `mount_age`; what was wanted meanwhile found no room and came hours late.
/// What was wanted and removed was read all the same.
#[test]
fn removed_files_leave_the_queue_and_are_waited_for_no_more() {
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 9);
    recorder.record.pool = 92 * MB;
    (100..110).for_each(|file| put(&mut recorder, 0, file, 9 * MB));
    let removed = |recorder: &mut Recorder, seconds: i64, files: std::ops::Range<u64>| {
        for file in files {
            recorder.push(line(seconds, What::Deleted(FileSize { file: FileId(file), bytes: None })));
        }
    };
    // In the pool alone, not sealed yet: there is no room for anything else.
    removed(&mut recorder, 10, 100..110);
    wanted(&mut recorder, 20, 1, 0..12, 300);
    // Its only tape is mounted for nothing else; nobody waits for it any more when recall_age has passed.
    recorder.push(line(1_000, stage(47, 2, 7)));
    removed(&mut recorder, 1_010, 47..48);
    // Sealed by then, as a pack: it goes to tape as it is.
    put(&mut recorder, 2_000, 120, 40 * MB);
    removed(&mut recorder, 2_500, 120..121);
    let replay = super::replay(&server(2), &recorder.finish(), &[]).unwrap();
    assert_eq!(replay.outcome.violation, None);
    assert!(replay.outcome.is_drained, "something waits for ever");
    assert_eq!(replay.left.deleted, 12);
    let says = &replay.predicted;
    assert!(says.request_longest < 1_000.0, "there was room from 10 s on: {} s", says.request_longest);
    assert_eq!(says.written, 40 * MB, "what was removed before it was sealed is not written");
    let tapes: Vec<&str> = replay.predicted_mounts.iter().map(|mount| mount.kind).collect();
    assert_eq!(tapes.iter().filter(|kind| **kind == "recall").count(), 4, "{tapes:?}");
}
