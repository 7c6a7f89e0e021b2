//! Mounts of a real engine, written down and added up.

use std::sync::Arc;

use crate::common::{Instance, SystemClock, all, bytes, migrate_all, put, stage, wait_for, wait_until};
use crate::faulty::{Trouble, data, drive, fill, vid};
use archive::{
    Archive, Machines, MountKind, MountLog, MountLogFiles, MountSessionEnd, ReportBy, Symptom, Verdict,
    WaitingFor,
};
use base::{BlockAddress, ByteCount, Duration, Partition, TapePosition, Timestamp};
use library::TapeAlert;

const DAY: Duration = Duration::from_secs(86_400);

fn open_logged(instance: &Instance, log: Arc<dyn MountLog>) -> Archive {
    let clock = Arc::new(SystemClock);
    let mut machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    machines.mount_log = Some(log);
    Archive::open_on(machines, instance.settings.clone(), clock).unwrap()
}

fn to_tape_and_back(archive: &Archive) -> u64 {
    let files: Vec<Vec<u8>> = (1..=12).map(|seed| bytes(seed, 400_000)).collect();
    for (number, content) in files.iter().enumerate() {
        put(archive, &format!("/data/file{number}"), content);
    }
    migrate_all(archive);
    assert_eq!(archive.evict(&all(&["/data"])).unwrap().evicted, 12);
    let request = stage(archive, &["/data"]);
    wait_for(archive, request);
    assert_eq!(archive.request(request).unwrap().record.done, 12);
    files.iter().map(|content| content.len() as u64).sum()
}

#[test]
fn every_mount_that_a_tape_counts_is_written_down() {
    let mut instance = Instance::new(ByteCount::mib(512));
    instance.settings.tape.dismount_delay = Duration::from_secs(3_600);
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MountLogFiles::new(directory.path()));
    let archive = open_logged(&instance, log.clone());
    let before = archive.tape_report(DAY, ReportBy::Drive).unwrap();
    assert!(before.is_logged && before.rows.is_empty() && before.ages.is_empty(), "{before:?}");
    let total_bytes = to_tape_and_back(&archive);
    // A request has ended a moment before the session that served it.
    let going_on = || archive.tape_report(DAY, ReportBy::Tape).unwrap().total;
    wait_until("the session is counted, before the tape is home", || going_on().read.0 >= total_bytes);
    assert!(going_on().mounted_now >= 1, "{:?}", going_on());
    archive.close();

    let mounts = archive.totals().unwrap().mounts;
    let mut records = Vec::new();
    log.read(Timestamp(0), &mut |record| records.push(record)).unwrap();
    assert!(mounts >= 2, "two copies stand on two tapes");
    assert_eq!(records.len() as u64, mounts);
    for record in &records {
        let (loaded, ready) = (record.loaded.unwrap(), record.ready.unwrap());
        let (unmounting, unmounted) = (record.unmounting.unwrap(), record.unmounted.unwrap());
        let times = [record.ordered, loaded, ready, unmounting, unmounted];
        assert!(times.is_sorted(), "{record:?}");
        assert!(record.failed.is_none() && record.tape_pool.is_some(), "{record:?}");
        assert!(record.moving <= unmounting.since(ready), "{record:?}");
        for session in &record.sessions {
            assert!(ready <= session.began && session.began <= session.ended, "{record:?}");
            assert!(session.first_byte <= session.last_byte, "{record:?}");
            let is_within = |at: Timestamp| session.began <= at && at <= session.ended;
            assert!(session.first_byte.is_none_or(is_within), "{record:?}");
            assert!(session.moving <= session.ended.since(session.began), "{record:?}");
        }
    }
    let ordered_for = |kind| records.iter().filter(move |record| record.kind == kind);
    assert!(ordered_for(MountKind::Migrate).count() >= 2, "{records:?}");
    assert!(ordered_for(MountKind::Migrate).all(|record| record.queue.oldest.is_some()), "{records:?}");
    let sessions = || records.iter().flat_map(|record| &record.sessions);
    let recalled: Vec<_> = sessions().filter(|session| session.kind == MountKind::Recall).collect();
    assert_eq!(recalled.iter().map(|session| session.bytes.0).sum::<u64>(), total_bytes);
    assert_eq!(recalled.iter().map(|session| session.files).sum::<u64>(), 12);
    assert!(recalled.iter().all(|session| session.end == MountSessionEnd::Drained), "{recalled:?}");
    assert!(recalled.iter().map(|session| session.read.0).sum::<u64>() >= total_bytes);
    let written: u64 = sessions().map(|session| session.written.0).sum();
    assert!(written >= 2 * total_bytes, "two copies: {written}");

    drop(archive);
    // The next server reads what this one wrote, and a window of no length holds only what goes on.
    let archive = open_logged(&instance, log);
    let report = archive.tape_report(DAY, ReportBy::Pool).unwrap();
    assert_eq!(report.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["vault-a", "vault-b"]);
    assert_eq!(report.rows.iter().map(|row| row.mounts).sum::<u64>(), report.total.mounts);
    assert!(report.total.mounts >= mounts, "{report:?}");
    assert!(report.total.written.0 >= 2 * total_bytes, "{report:?}");
    assert!(report.total.efficiency().is_some_and(|share| share > 0.0), "{report:?}");
    let now = archive.tape_report(Duration::ZERO, ReportBy::Drive).unwrap();
    assert_eq!(now.total.mounts, now.total.mounted_now, "{now:?}");
    archive.close();
}

/// What a drive says of itself at the end of a mount is written down, and `status` tells a drive that says
/// that it is defective.
#[test]
fn what_a_drive_counts_is_told_and_remembered() {
    let trouble = Trouble::new(1);
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MountLogFiles::new(directory.path()));
    let (archive, faults) = trouble.open_logged(Some(log.clone()));
    faults.plan_retries_in(&drive(0), 2);
    faults.plan_alert(&drive(0), TapeAlert(30));
    faults.plan_alert(&drive(0), TapeAlert(3));
    fill(&archive);
    migrate_all(&archive);
    archive.close();
    let mut records = Vec::new();
    log.read(Timestamp(0), &mut |record| records.push(record)).unwrap();
    assert!(records.len() >= 2, "{records:?}");
    let flags: Vec<u8> = records.iter().flat_map(|record| record.alerts.clone()).collect();
    assert_eq!(flags, [3, 30], "told once, sorted");
    for record in &records {
        let counted = record.counted.unwrap();
        // All of the mount, from the load on: also what was read to look at the labels.
        assert!(counted.written.unwrap() >= record.written && record.written.0 > 0, "{record:?}");
        assert!(counted.read.unwrap() >= record.read, "{record:?}");
        for errors in [counted.writing, counted.reading] {
            let tries = errors.corrected.map(|corrected| 2 * corrected);
            assert_eq!((errors.retries, errors.uncorrected), (tries, Some(0)), "{record:?}");
        }
        assert!(counted.writing.corrected.unwrap() > 0, "{record:?}");
        assert_eq!(record.product.as_ref().unwrap().serial, "vdrive0");
    }
    drop(archive);

    // The next server knows it from the log.
    let (archive, faults) = trouble.open_logged(Some(log.clone()));
    let mounts = archive.drive_mounts("vdrive0").unwrap();
    assert_eq!(mounts.len(), records.len());
    assert!(mounts.is_sorted_by(|one, next| one.ended >= next.ended), "the newest first");
    assert!(archive.drive_mounts("vdrive9").is_err());
    let health = archive.machine_health();
    assert_eq!(health.drives["vdrive0"].verdict, Verdict::Bad);
    let warnings = archive.totals().unwrap().warnings;
    let warned = warnings.iter().any(|it| it.starts_with("tape drive vdrive0 is bad (TapeAlert 30: "));
    assert!(warned, "{warnings:?}");

    // A mount that failed counts too: labels that cannot be read are an error of drive or tape. What ends
    // while the server runs is known at once.
    let label = TapePosition { partition: Partition::Index, block: BlockAddress(0) };
    faults.plan_unreadable(vid(1), label);
    faults.plan_unreadable(vid(1), data(0));
    archive.check_tapes(&[vid(1)]).unwrap();
    wait_until("the mount failed", || {
        archive.drive_mounts("vdrive0").unwrap().iter().any(|mount| mount.failed.is_some())
    });
    let mounts = archive.drive_mounts("vdrive0").unwrap();
    let failed = mounts.iter().find(|mount| mount.failed.is_some()).unwrap();
    assert_eq!((failed.vid, failed.uncorrected().is_some_and(|count| count > 0)), (vid(1), true));
    assert!(faults.fired() > 0);
    let health = archive.machine_health();
    let pair = health.pairs.iter().find(|pair| pair.vid == vid(1)).unwrap();
    assert!(matches!(pair.symptoms[0], Symptom::Uncorrected(_)), "{pair:?}");
    archive.close();
}

/// A disk that is full, or a directory that is not there, costs figures and nothing else.
#[test]
fn a_log_that_cannot_be_written_stops_no_session() {
    let instance = Instance::new(ByteCount::mib(512));
    let directory = tempfile::tempdir().unwrap();
    let in_the_way = directory.path().join("log");
    std::fs::write(&in_the_way, b"a file").unwrap();
    let archive = open_logged(&instance, Arc::new(MountLogFiles::new(&in_the_way)));
    to_tape_and_back(&archive);
    let report = archive.tape_report(DAY, ReportBy::Drive).unwrap();
    assert!(report.trouble.is_some(), "{report:?}");
    archive.close();
    assert_eq!(std::fs::read(&in_the_way).unwrap(), b"a file");
}

#[test]
fn what_waits_has_ages() {
    // Nothing is migrated by itself within an hour.
    let instance = Instance::with(ByteCount::mib(512), |settings| {
        settings.classes.iter_mut().for_each(|class| class.pack_age = Duration::from_secs(3600));
    });
    let archive = instance.open();
    for number in 0..3 {
        put(&archive, &format!("/data/file{number}"), &bytes(number, 1_000));
    }
    let report = archive.tape_report(DAY, ReportBy::Drive).unwrap();
    assert!(!report.is_logged, "nothing was handed in to write to");
    let [age] = &report.ages[..] else { panic!("{report:?}") };
    assert!(matches!(&age.waiting, WaitingFor::Seal(_)), "{age:?}");
    assert_eq!((age.items, age.bytes, age.partial), (3, ByteCount(3_000), false));
    assert!(age.oldest >= age.median && age.oldest < Duration::from_secs(600), "{age:?}");
    let line = &archive.queue().unwrap()[0];
    assert!(line.oldest.is_some() && line.age.is_some_and(|age| age < Duration::from_secs(600)), "{line:?}");
    archive.close();
}
