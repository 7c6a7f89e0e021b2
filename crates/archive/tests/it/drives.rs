//! How many drives a class may have at once.

use std::sync::Arc;

use crate::common::{Instance, SystemClock, all, bytes, get, migrate_all, put, stage, wait_for};
use archive::{Archive, DriveLimits, Machines, MountKind, MountLog, MountLogFiles, MountRecord};
use base::{ByteCount, Timestamp};

const FILES: u64 = 20;
const FILE_BYTES: usize = 3_000_000;

/// Brings files of one class back from several tapes with two drives, and gives when a drive was on its way
/// to read or read: from the order to mount, or from the session if the tape was mounted already.
fn recalls(drives: DriveLimits) -> Vec<(Timestamp, Timestamp)> {
    let instance = Instance::with(ByteCount::mib(32), |settings| {
        for class in &mut settings.classes {
            class.copies = vec!["vault-a".to_owned()];
            class.share.drives = drives;
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MountLogFiles::new(directory.path()));
    let clock = Arc::new(SystemClock);
    let mut machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    machines.mount_log = Some(log.clone());
    let archive = Archive::open_on(machines, instance.settings.clone(), clock).unwrap();
    there_and_back(&archive);
    archive.close();

    let mut spans = Vec::new();
    log.read(Timestamp(0), &mut |record: MountRecord| {
        let sessions = record.sessions.iter().filter(|session| session.kind == MountKind::Recall);
        for (number, session) in sessions.enumerate() {
            let was_for_it = record.kind == MountKind::Recall && number == 0;
            let from = if was_for_it { record.ordered } else { session.began };
            spans.push((from, session.ended));
        }
    })
    .unwrap();
    spans.sort_unstable();
    spans
}

fn there_and_back(archive: &Archive) {
    let name = |n: u64| format!("/d/{n}");
    for n in 0..FILES {
        put(archive, &name(n), &bytes(n, FILE_BYTES));
    }
    migrate_all(archive);
    assert_eq!(archive.evict(&all(&["/d"])).unwrap().evicted, FILES);
    let request = stage(archive, &["/d"]);
    wait_for(archive, request);
    assert_eq!(u64::from(archive.request(request).unwrap().record.done), FILES);
    for n in 0..FILES {
        assert!(get(archive, &name(n)).unwrap() == bytes(n, FILE_BYTES), "{n}");
    }
}

fn overlap(spans: &[(Timestamp, Timestamp)]) -> bool {
    spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

#[test]
fn a_class_never_has_more_drives_than_it_may() {
    let free = recalls(DriveLimits::default());
    assert!(overlap(&free), "with no limit, both drives read at once: {free:?}");
    let limited = recalls(DriveLimits { min: 0, max: Some(1) });
    assert!(limited.len() >= 2, "the files stand on several tapes: {limited:?}");
    assert!(!overlap(&limited), "{limited:?}");
}
