//! What stands on a group of drives, by the class of the files and by when they were used.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archive::DriveLocation;
use archive::{Archive, GroupSettings, Machines, NewDrive, PlacingSettings, Water};
use base::{ByteCount, Clock, ManualClock, StripeCode};

use crate::added::Named;
use crate::common::tight::{TightDrive, Tightness};
use crate::common::{
    Instance, bytes, extents, get, migrate_all, put, scrub, settled, stage, stop, wait_for, wait_until,
};
use crate::history::evict_all;
use crate::hung_drives::Ticking;
use crate::rebalanced::assert_placed;
use crate::recoded::assert_nothing_else;

/// Drives in no group, and behind them those of the group.
const MAIN: u16 = 8;
const FAST: u16 = 5;
/// What the group gets: with four shards, the others with six.
const FAST_CODE: StripeCode = StripeCode::reed_solomon(2, 2);
const UNUSED_FOR: Duration = Duration::from_secs(2 * 3600);
const LENGTH: usize = 5_000_001;

/// An instance with a group of drives, which gets the files of class `large`.
fn grouped() -> Instance {
    Instance::with(ByteCount::mib(256), |settings| {
        let first = settings.pool.drives[0].clone();
        let drive = |id: u16| {
            let at = DriveLocation::Directory(first.at.directory().with_file_name(format!("d{id}")));
            let group = if id < MAIN { String::new() } else { "fast".to_owned() };
            archive::PoolDriveSettings { id, at, group, ..first.clone() }
        };
        settings.pool.drives = (0..MAIN + FAST).map(drive).collect();
        let water = Water { high_percent: 90, low_percent: 89 };
        settings.pool.groups = vec![GroupSettings { name: "fast".to_owned(), code: FAST_CODE, water }];
        for class in &mut settings.classes {
            (class.pack_age, class.pack_bytes) = (Duration::from_secs(1_000_000), ByteCount::mib(4_000));
        }
        settings.classes[1].placing =
            PlacingSettings { group: "fast".to_owned(), unused_for: Some(UNUSED_FOR) };
    })
}

/// Extents of striped blobs on the drives in no group, and on those of the group; segments not counted.
fn standing(instance: &Instance) -> (usize, usize) {
    let on = |id: u16| extents(&instance.directory.path().join(format!("pool/d{id}"))).len();
    ((0..MAIN).map(on).sum(), (MAIN..MAIN + FAST).map(on).sum())
}

/// Each shard stands on a drive of its own, nothing else does, and all of it is whole.
fn check(instance: &Instance) {
    assert_placed(instance, usize::MAX);
    assert_nothing_else(instance);
    let archive = instance.open();
    scrub(&archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed), (0, 0), "{:?}", info.findings);
    stop(archive);
}

fn moved(archive: &Archive) -> (u64, u64) {
    let groups = archive.pool_info().unwrap().groups;
    (groups[0].left.0, groups[0].came.0)
}

/// Uses are written down every ten minutes.
fn note_uses(archive: &Archive, clock: &ManualClock) {
    clock.advance(Duration::from_secs(601));
    let looks = archive.pool_info().unwrap().evictor.looks;
    wait_until("uses are noted", || {
        archive.make_room_now();
        archive.pool_info().unwrap().evictor.looks > looks + 1
    });
}

/// A file of the class of the group stands there, with its code; when nobody has used it for long it moves to
/// the others, and when it is used again it comes back. All along it is what it was.
#[test]
fn what_is_used_stands_on_the_group_and_what_is_not_on_the_others() {
    let instance = grouped();
    let clock = instance.clock();
    let archive = instance.start(&clock);
    // An hour has just begun: uses are known to the hour, and what is left of it would decide.
    clock.advance(Duration::from_secs(3_660 - clock.now().0 as u64 / 1_000_000_000 % 3_600));
    let ticking = Ticking::begin(&clock);
    let (one, other) = (bytes(1, LENGTH), bytes(2, 600_000));
    put(&archive, "/t/one", &one);
    put(&archive, "/t/other", &other);
    assert_eq!(standing(&instance), (6, 4), "each with the code of its drives");
    clock.advance(UNUSED_FOR + Duration::from_secs(3600));
    let whole = (LENGTH as u64, 0);
    wait_until("it has moved", || moved(&archive) == whole && standing(&instance) == (12, 0));
    assert_eq!(get(&archive, "/t/one").unwrap(), one);
    // The first use after long says nothing yet.
    note_uses(&archive, &clock);
    assert_eq!(moved(&archive), whole);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(get(&archive, "/t/one").unwrap(), one);
    note_uses(&archive, &clock);
    clock.advance(Duration::from_secs(15));
    let both = (LENGTH as u64, LENGTH as u64);
    wait_until("it has come back", || moved(&archive) == both && standing(&instance) == (6, 4));
    assert_eq!(get(&archive, "/t/one").unwrap(), one);
    assert_eq!(get(&archive, "/t/other").unwrap(), other);
    drop(ticking);
    stop(archive);
    check(&instance);
}

/// What comes back from tape stands on the group of its class as well; what comes together with files of
/// another class does not.
#[test]
fn what_is_recalled_stands_on_the_group() {
    let instance = grouped();
    let archive = instance.open();
    let one = bytes(1, LENGTH);
    put(&archive, "/t/one", &one);
    migrate_all(&archive);
    evict_all(&archive);
    wait_until("it is gone", || standing(&instance) == (0, 0));
    let request = stage(&archive, &["/t/one"]);
    wait_for(&archive, request);
    assert_eq!(standing(&instance), (0, 4));
    assert_eq!(get(&archive, "/t/one").unwrap(), one);
    stop(archive);
    check(&instance);
}

/// The archive over drives of the group that are as full as is said, those in no group as they are.
fn sized(instance: &Instance, clock: Arc<dyn Clock>) -> (Archive, Arc<Tightness>) {
    let settings = instance.settings.clone();
    let mut machines = Machines::open(&settings, Arc::clone(&clock)).unwrap();
    let tightness = Arc::<Tightness>::default();
    tightness.capacity.store(100 << 20, Ordering::SeqCst);
    tightness.free.store(100 << 20, Ordering::SeqCst);
    for (id, drive) in &mut machines.drives {
        if id.0 >= MAIN
            && let Some(inner) = drive.take()
        {
            *drive = Some(Arc::new(TightDrive { inner, tightness: Arc::clone(&tightness) }));
        }
    }
    (settled(Archive::open_on(machines, settings, clock).unwrap()), tightness)
}

/// A group without room refuses nothing: what is put goes to the others, and what was not used for longest
/// leaves a group that is above its high water.
#[test]
fn a_full_group_refuses_nothing_and_gives_up_what_was_not_used_for_longest() {
    let instance = grouped();
    let clock = instance.clock();
    let (archive, tightness) = sized(&instance, Arc::<ManualClock>::clone(&clock));
    let ticking = Ticking::begin(&clock);
    put(&archive, "/t/old", &bytes(1, LENGTH));
    clock.advance(Duration::from_secs(3600));
    put(&archive, "/t/new", &bytes(2, LENGTH));
    assert_eq!(standing(&instance), (0, 8));
    // 88 of 100 are taken: below the mark, and too much for another file of 30 MB.
    tightness.free.store(12 << 20, Ordering::SeqCst);
    wait_until("that is known", || archive.pool_info().unwrap().groups[0].room.room.0 < 60 << 20);
    put(&archive, "/t/large", &bytes(3, 30_000_000));
    assert_eq!(standing(&instance), (6, 8));
    // One of them makes as much room as is wanted; that the drives say so is for the test to tell.
    tightness.free.store(19 << 19, Ordering::SeqCst);
    wait_until("the old one leaves", || {
        let (left, _) = moved(&archive);
        if left > 0 {
            tightness.free.store(30 << 20, Ordering::SeqCst);
        }
        left > 0 && standing(&instance) == (12, 4)
    });
    clock.advance(Duration::from_secs(60));
    assert_eq!(moved(&archive), (LENGTH as u64, 0), "no more than has to");
    for (name, seed, length) in [("old", 1, LENGTH), ("new", 2, LENGTH), ("large", 3, 30_000_000)] {
        assert_eq!(get(&archive, &format!("/t/{name}")).unwrap(), bytes(seed, length));
    }
    drop(ticking);
    stop(archive);
    check(&instance);
}

/// A drive of a group is emptied onto the others of it; without enough of those, onto drives in none. A drive
/// that is added to a group gets what the group gets.
#[test]
fn drives_of_a_group_are_emptied_lost_and_added() {
    let mut instance = grouped();
    instance.settings.pool.drives.truncate(usize::from(MAIN) + 4);
    let file = Named::of(&instance);
    let archive = crate::added::open(&mut instance, &file);
    let files: Vec<(String, Vec<u8>)> =
        (0..10).map(|seed| (format!("/t/{seed}"), bytes(seed, 2_000_000))).collect();
    files.iter().for_each(|(name, content)| drop(put(&archive, name, content)));
    assert_eq!(standing(&instance), (0, 40));
    let gone = MAIN + 1;
    archive.pool_drive_drain(gone).unwrap();
    wait_until("it is empty", || {
        let info = archive.pool_info().unwrap();
        info.drives[usize::from(gone)].drain.as_ref().is_some_and(|drain| drain.is_empty)
    });
    assert_eq!(standing(&instance), (10, 30), "no other drive of the group had none of each");
    archive.pool_drive_keep(gone).unwrap();
    let at = DriveLocation::Directory(instance.directory.path().join("pool/added"));
    let add = |group: &str| {
        let new = NewDrive { group: Some(group.to_owned()), make: true, ..NewDrive::at(at.clone()) };
        archive.pool_drive_add(&new)
    };
    let refused = add("slow").unwrap_err().to_string();
    assert!(refused.contains("knows no group 'slow'"), "{refused}");
    let added = add("fast").unwrap().id;
    let info = archive.pool_info().unwrap();
    let drive = info.drives.iter().find(|drive| drive.id == added).unwrap();
    assert_eq!((drive.group.as_str(), info.groups[0].room.drives), ("fast", 5));
    for seed in 10..40 {
        put(&archive, &format!("/t/{seed}"), &bytes(seed, 1_100_000));
    }
    assert!(!extents(at.directory()).is_empty(), "it gets its part");
    for (name, content) in &files {
        assert_eq!(get(&archive, name).unwrap(), *content);
    }
    stop(archive);
    stop(crate::added::open(&mut instance, &file));
    check(&instance);
}
