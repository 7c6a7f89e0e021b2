//! Mounts of a real engine, written down and added up.

use std::sync::Arc;

use crate::common::{Instance, SystemClock, all, bytes, migrate_all, put, stage, wait_for, wait_until};
use archive::{Archive, Machines, MountKind, MountLog, MountLogFiles, MountSessionEnd, ReportBy, WaitingFor};
use base::{ByteCount, Duration, Timestamp};

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
