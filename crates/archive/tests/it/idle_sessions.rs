//! What waits for tape and cannot come there now costs no mounts and no sessions.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use archive::{Archive, TapeUse};
use base::{ByteCount, Duration};
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{bytes, migrate_all, path, put, wait_until};
use crate::faulty::{Trouble, place, set_drives, vid};

/// Looks at the drives, and the time between two.
const LOOKS: u32 = 60;
const BETWEEN: Duration = Duration::from_millis(50);

fn extents(trouble: &Trouble) -> BTreeSet<PathBuf> {
    let buckets = trouble.instance.settings.pool.drives.iter().flat_map(|drive| {
        fs::read_dir(drive.at.directory().join("extents")).unwrap().map(|bucket| bucket.unwrap().path())
    });
    buckets.flat_map(|bucket| fs::read_dir(bucket).unwrap().map(|extent| extent.unwrap().path())).collect()
}

/// In how many looks a drive was writing, and how many mounts there were meanwhile.
fn looks(archive: &Archive) -> (u32, u64) {
    let mounts = archive.totals().unwrap().mounts;
    let mut writing = 0;
    for _ in 0..LOOKS {
        std::thread::sleep(BETWEEN);
        writing += u32::from(archive.tape_drives().iter().any(|drive| drive.state == "migrating"));
    }
    (writing, archive.totals().unwrap().mounts - mounts)
}

/// Story: of more than 1,000 containers that could not be written the rest counted as work. Sessions skipped
/// them, ended empty, and were begun again without a pause: tapes never came home, checks never had a drive.
/// And nobody was told that what is LOST never comes to tape: `kist wait` waited for ever.
#[test]
fn more_than_a_thousand_containers_that_rest_keep_no_drive() {
    const FILES: u64 = 1_030;
    let trouble = Trouble::with(2, Duration::from_secs(30), |settings| {
        settings.classes.iter_mut().for_each(|class| class.large_bytes = ByteCount(280_000));
    });
    let (archive, _) = trouble.open();
    put(&archive, "/t/good", &bytes(1, 300_000));
    migrate_all(&archive);
    set_drives(&archive, false);
    let before = extents(&trouble);
    for n in 0..FILES {
        put(&archive, &format!("/t/bad{n}"), &bytes(n + 2, 300_000));
    }
    archive.migrate_now(None).unwrap();
    wait_until("all is sealed", || archive.totals().unwrap().todo.files == 0);
    for shard in extents(&trouble).difference(&before) {
        fs::remove_file(shard).unwrap();
    }
    set_drives(&archive, true);
    let rests = |n: &u64| {
        let why = archive.why_path(&path(&format!("/t/bad{n}"))).unwrap().join(" ");
        why.contains("LOST")
    };
    let mut waiting: Vec<u64> = (0..FILES).collect();
    wait_until("all rest", || {
        waiting.retain(|n| !rests(n));
        waiting.is_empty()
    });
    wait_until("the drives are empty", || archive.tape_drives().iter().all(|drive| drive.vid.is_none()));
    let (writing, mounts) = looks(&archive);
    assert_eq!((writing, mounts), (0, 0));
    let stuck = archive.totals().unwrap().stuck;
    assert!(stuck.iter().any(|line| line.reason.contains("LOST")), "{stuck:?}");
    // Who comes next is served.
    put(&archive, "/t/new", &bytes(77, 500_000));
    archive.migrate_now(None).unwrap();
    wait_until("the new file is on tape", || place(&archive, "/t/new").len() == 2);
    archive.check_tapes(&[vid(1)]).unwrap();
    wait_until("the check has ended", || archive.tape_check(vid(1)).unwrap().unwrap().ended.is_some());
    archive.close();
}

/// Story: a container that fitted on a full or read-only tape of its pool alone, had that been empty, did not
/// rest: ten mounts in ten seconds, and a reason that named no cause.
#[test]
fn what_only_a_tape_that_is_not_written_would_take_is_not_tried() {
    let trouble = Trouble::with(2, Duration::from_secs(2), |settings| {
        settings.classes.iter_mut().for_each(|class| class.copies = vec!["vault-a".to_owned()]);
        settings.tape_pools.truncate(1);
    });
    let large = vid(9);
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: vec![(large, ByteCount::mib(512))],
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(&trouble.instance.settings.library.files().unwrap().directory, &config).unwrap();
    let (archive, _) = trouble.open();
    let others = |to| {
        for tape in archive.tapes().unwrap().iter().filter(|tape| tape.vid != large) {
            archive.set_tape(tape.vid, to, "for the test").unwrap();
        }
    };
    let is_home =
        || wait_until("it is home", || archive.tapes().unwrap().iter().all(|tape| tape.drive.is_none()));
    others(TapeUse::Disabled);
    put(&archive, "/t/first", &bytes(1, 3_000_000));
    migrate_all(&archive);
    is_home();
    assert_eq!(archive.tape(large).unwrap().tape_pool.as_deref(), Some("vault-a"));
    archive.set_tape(large, TapeUse::ReadOnly, "it is only read").unwrap();
    others(TapeUse::Active);
    put(&archive, "/t/second", &bytes(2, 3_000_000));
    migrate_all(&archive);
    is_home();
    // Sealed when a tape that takes it whole was written, it waits when none is any more.
    set_drives(&archive, false);
    archive.set_tape(large, TapeUse::Active, "it is written again").unwrap();
    others(TapeUse::Disabled);
    put(&archive, "/t/huge", &bytes(3, 200_000_000));
    archive.migrate_now(None).unwrap();
    wait_until("it is sealed", || archive.totals().unwrap().todo.files == 0);
    archive.set_tape(large, TapeUse::ReadOnly, "it is only read").unwrap();
    others(TapeUse::Active);
    let mounts = archive.totals().unwrap().mounts;
    set_drives(&archive, true);
    // It is cut for those that there are.
    migrate_all(&archive);
    is_home();
    let (writing, later) = looks(&archive);
    assert_eq!((writing, later), (0, 0));
    let mounts = archive.totals().unwrap().mounts - mounts;
    assert!(mounts <= 4, "{mounts} mounts");
    assert!(place(&archive, "/t/huge").len() >= 2, "in parts");
    archive.close();
}
