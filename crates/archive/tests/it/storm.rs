//! Trouble on several tapes at once: drives do not mount them again and again for what nobody can give.
//!
//! Story: with a stale suspect tape and copies damaged on several others, all drives mounted tapes without
//! a pause, 40 to 78 times each in 35 seconds, and labelled one scratch tape after the other with nothing
//! on it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use archive::{Archive, MountLog, MountLogFiles, TapeUse};
use base::{BlockAddress, ByteCount, Clock, RequestId, Timestamp, Vid};
use catalogue::TapeState;
use library::{Faults, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{SystemClock, all, bytes, copy, get, migrate_all, put, stage, stop, wait_until};
use crate::faulty::{Trouble, data, place, set_drives, vid};
use crate::unreadable::{put_bad, seal, wait_for_rests};

/// Files of a round, a container each.
const FILES: u64 = 6;
const DRIVES: u16 = 4;
const TAPES: u16 = 20;
/// Most mounts of one tape: five attempts until a suspect one is set aside, five rests of three containers
/// that cannot be written, and what is read and mended. Measured: 4 to 10.
const MOUNTS_MAX: u64 = 24;
/// Most mounts of all of them; measured: 26 to 29. With containers that rest counted as waiting: 260.
const ALL_MOUNTS_MAX: u64 = 80;

fn content(round: &str, n: u64) -> Vec<u8> {
    bytes(round.len() as u64 * 1_000 + u64::from(round.as_bytes()[0]) + n * 7, 3_000_000)
}

fn write(archive: &Archive, round: &str) {
    for n in 0..FILES {
        put(archive, &format!("/t/{round}{n}"), &content(round, n));
    }
    migrate_all(archive);
}

fn trouble() -> Trouble {
    let trouble = Trouble::new(DRIVES);
    let cartridges = (7..=TAPES).map(|n| (vid(n), ByteCount::mib(128))).collect();
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges,
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(&trouble.instance.settings.library.files().unwrap().directory, &config).unwrap();
    trouble
}

/// How often each tape was sent for since then, whatever came of it.
fn mounts(log: &MountLogFiles, since: Timestamp) -> BTreeMap<Vid, u64> {
    let mut mounts = BTreeMap::new();
    log.read(since, &mut |record| *mounts.entry(record.vid).or_default() += 1).unwrap();
    mounts
}

/// The tape of a pool that has a file.
fn tape_of(archive: &Archive, file: &str, pool: &str) -> (Vid, BlockAddress) {
    let of_pool = |vid: Vid| archive.tape(vid).unwrap().tape_pool.as_deref() == Some(pool);
    place(archive, file).into_iter().find(|(vid, _)| of_pool(*vid)).unwrap()
}

fn damage(archive: &Archive, faults: &Faults, file: &str, pool: &str) {
    let (vid, block) = tape_of(archive, file, pool);
    faults.plan_unreadable(vid, data(block.0 + 3));
}

fn waiting(archive: &Archive, request: RequestId) -> Vec<String> {
    let (files, _) = archive.request_files(request, 0, 100).unwrap();
    let waits = files.into_iter().filter(|file| file.state.waits());
    waits.map(|file| file.path).collect()
}

fn scratch(archive: &Archive) -> usize {
    archive.tapes().unwrap().iter().filter(|tape| tape.state == TapeState::Scratch).count()
}

#[test]
fn a_stale_tape_and_damage_on_others_make_no_storm_of_mounts() {
    let trouble = trouble();
    let (archive, _) = trouble.open();
    write(&archive, "f");
    let (stale, _) = tape_of(&archive, "/t/f0", "vault-b");
    stop(archive);
    let cartridge = trouble.instance.cartridge(stale);
    let old = cartridge.with_extension("old");
    let old = trouble.instance.directory.path().join(old.file_name().unwrap());
    copy(&cartridge, &old);
    let (archive, _) = trouble.open();
    write(&archive, "g");
    assert_eq!(tape_of(&archive, "/t/g0", "vault-b").0, stale, "it goes on with the same tape");
    stop(archive);
    // Somebody puts an older copy of the cartridge into the library.
    fs::remove_dir_all(&cartridge).unwrap();
    copy(&old, &cartridge);
    let log = Arc::new(MountLogFiles::new(&trouble.instance.directory.path().join("mounts")));
    let (archive, faults) = trouble.open_logged(Some(log.clone()));
    let (first, _) = tape_of(&archive, "/t/g0", "vault-a");
    archive.set_tape(first, TapeUse::ReadOnly, "for the test").unwrap();
    write(&archive, "h");
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.evicted, 3 * FILES, "{:?}", evicted.refused);
    for n in 0..3 {
        // Of g the other copy is on the stale tape, which does not have it.
        damage(&archive, &faults, &format!("/t/g{n}"), "vault-a");
        damage(&archive, &faults, &format!("/t/h{n}"), "vault-a");
        damage(&archive, &faults, &format!("/t/h{}", n + 3), "vault-b");
    }
    let (began, blank) = (SystemClock.now(), scratch(&archive));
    let request = stage(&archive, &["/t"]);
    wait_until("all has come but what no tape can give", || {
        let waits = waiting(&archive, request);
        waits.iter().all(|file| file.starts_with("/t/g"))
    });
    let is_aside = || archive.tape(stale).unwrap().reason.contains("not tried again by itself");
    wait_until("the stale tape is set aside", is_aside);
    assert!(faults.fired() >= 9, "{}", faults.fired());
    for round in ["f", "h"] {
        for n in 0..FILES {
            assert!(get(&archive, &format!("/t/{round}{n}")).unwrap() == content(round, n), "{round}{n}");
        }
    }
    // All that is on the damaged tape is to go elsewhere; three containers no tape can give.
    archive.repack_tape(first, "for the test").unwrap();
    let is_stuck = || archive.tape_repack(first).unwrap().is_some_and(|repack| repack.stuck == 3);
    wait_until("the repack has moved all others", is_stuck);
    // And others that wait for tape, which the pool cannot give any more.
    set_drives(&archive, false);
    let bad = ["/t/bad0", "/t/bad1", "/t/bad2"];
    let shards = bad.map(|name| put_bad(&trouble, &archive, name, 3_000_000));
    seal(&archive);
    shards.iter().flatten().for_each(|path| fs::remove_file(path).unwrap());
    set_drives(&archive, true);
    archive.migrate_now(None).unwrap();
    wait_for_rests(&archive, bad[0], 5);
    let labelled = blank - scratch(&archive);
    archive.close();
    let mounts = mounts(&log, began);
    assert!(mounts.values().all(|count| *count <= MOUNTS_MAX), "{mounts:?}");
    assert!(mounts.values().sum::<u64>() <= ALL_MOUNTS_MAX, "{mounts:?}");
    assert_eq!(labelled, 0, "what was damaged fits on the tapes that are begun");
}
