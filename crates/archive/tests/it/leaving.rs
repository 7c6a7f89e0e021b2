//! Files that leave the pool by themselves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use archive::{
    Archive, ArchiveError, Hold, LeavingSettings, Locality, Retention, RetentionMode, Settings, Stat, Water,
    Which,
};
use base::{ByteCount, Clock, Duration, Timestamp};

use crate::common::tight::open_tight_on;
use crate::common::{
    Instance, SystemClock, bytes, get, migrate_all, path, put, settled, stage, stop, wait_for, wait_until,
};
use crate::kept::DayClock;

const FILES: u64 = 10;
const FILE: usize = 3_000_000;

fn instance(change: impl Fn(&mut Settings)) -> Instance {
    Instance::with(ByteCount::mib(256), |settings: &mut Settings| {
        settings.pool.water = Some(Water { high_percent: 90, low_percent: 80 });
        change(settings);
    })
}

fn name(n: u64) -> String {
    format!("/l/file{n}")
}

fn put_all(archive: &Archive) {
    (0..FILES).for_each(|n| drop(put(archive, &name(n), &bytes(n, FILE))));
}

fn is_online(archive: &Archive, n: u64) -> bool {
    let Stat::File(stat) = archive.stat(&path(&name(n))).unwrap() else { panic!("no file") };
    matches!(stat.locality, Locality::Online | Locality::OnlineAndNearline)
}

/// The files that have left the pool.
fn gone(archive: &Archive) -> Vec<u64> {
    (0..FILES).filter(|n| !is_online(archive, *n)).collect()
}

/// All files come back as they were.
fn check_all(archive: &Archive) {
    wait_for(archive, stage(archive, &["/l"]));
    for n in 0..FILES {
        assert!(get(archive, &name(n)).unwrap() == bytes(n, FILE), "{n}");
    }
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

fn pool_max(settings: &mut Settings, most: usize) {
    settings.classes.iter_mut().for_each(|class| class.pool_max = Some(ByteCount(most as u64)));
}

/// A class that has more than its ceiling in the pool gives up what was not used for longest, down to low
/// water, as soon as tapes have it.
#[test]
fn a_class_above_its_ceiling_gives_up_what_was_used_least_recently() {
    let mut instance = instance(|settings| pool_max(settings, 10 * FILE));
    let archive = instance.open();
    let evictor = || archive.pool_info().unwrap().evictor;
    put_all(&archive);
    assert_eq!(gone(&archive), [0u64; 0], "nothing leaves that tapes do not have");
    migrate_all(&archive);
    wait_until("two files have left", || evictor().files == 2);
    assert_eq!(gone(&archive), [0, 1], "those that came first, and no more than is to leave");
    let info = evictor();
    assert_eq!((info.bytes, info.held_up), (ByteCount(2 * FILE as u64), false));
    assert!(info.last.is_some());
    // Story: a second round began behind what the first had read ahead, and took the newest.
    (FILES..FILES + 2).for_each(|n| drop(put(&archive, &name(n), &bytes(n, FILE))));
    migrate_all(&archive);
    wait_until("two more have left", || evictor().files == 4);
    assert_eq!(gone(&archive), [0, 1, 2, 3]);
    assert!((FILES..FILES + 2).all(|n| is_online(&archive, n)));
    stop(archive);
    // Without marks all stay.
    instance.settings.pool.water = None;
    instance.settings.classes.iter_mut().for_each(|class| class.pool_max = None);
    let archive = instance.open();
    check_all(&archive);
    assert_eq!(gone(&archive), [0u64; 0]);
    stop(archive);
}

/// What is pinned stays, and so does what is read until others have gone.
#[test]
fn pinned_files_stay_and_files_that_are_read_go_last() {
    let clock = DayClock::new();
    let mut instance = instance(|_| {});
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    put_all(&archive);
    migrate_all(&archive);
    stop(archive);
    clock.pass_days(1);
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    wait_for(&archive, stage(&archive, &[&name(1)]));
    get(&archive, &name(0)).unwrap();
    // What was read is noted when the server stops, too.
    stop(archive);
    pool_max(&mut instance.settings, 10 * FILE);
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    wait_until("two files have left", || archive.pool_info().unwrap().evictor.files == 2);
    assert_eq!(gone(&archive), [2, 3]);
    check_all(&archive);
    stop(archive);
}

/// A pool without room gives up files down to low water, once: it waits for the room that comes of it, here
/// for ever.
#[test]
fn a_full_pool_gives_up_files_and_waits_for_the_room_that_comes_of_it() {
    let instance = instance(|_| {});
    let clock = Arc::<StillClock>::default();
    let (archive, tightness) = open_tight_on(&instance, Arc::clone(&clock) as _);
    put_all(&archive);
    tightness.free.store(1_000_000, Ordering::SeqCst);
    migrate_all(&archive);
    let evictor = || archive.pool_info().unwrap().evictor;
    wait_until("two files have left", || evictor().files == 2);
    clock.0.set(SystemClock.steady()).unwrap();
    // Another look finds that no room has come of it yet.
    let looks = evictor().looks;
    wait_until("it was looked again", || {
        archive.make_room_now();
        evictor().looks > looks + 1
    });
    assert_eq!(gone(&archive), [0, 1]);
    stop(archive);
    let archive = instance.open();
    check_all(&archive);
    stop(archive);
}

/// Story: of files that were recalled together two left, which gave no byte back since all share one blob;
/// the evictor waited for that room for ten minutes, and who waited for room with it.
#[test]
fn files_that_share_a_blob_leave_until_it_is_free() {
    let instance = instance(|_| {});
    let (archive, tightness) = open_tight_on(&instance, Arc::new(SystemClock));
    put_all(&archive);
    migrate_all(&archive);
    let evicted = archive.evict(&crate::common::all(&["/l"])).unwrap();
    assert_eq!(evicted.evicted, FILES, "{:?}", evicted.refused);
    let request = stage(&archive, &["/l"]);
    wait_for(&archive, request);
    archive.release(request, None).unwrap();
    let before = archive.pool_info().unwrap().evictor.files;
    tightness.free.store(1_000_000, Ordering::SeqCst);
    // A round is told of as a whole.
    let left = || archive.pool_info().unwrap().evictor.files - before;
    wait_until("files have left", || left() > 0);
    assert_eq!((left(), gone(&archive).len() as u64), (FILES, FILES));
    tightness.free.store(0, Ordering::SeqCst);
    stop(archive);
}

/// Of a class its floor stays, and small files do; nothing else is taken for them.
#[test]
fn the_floor_of_a_class_and_small_files_stay() {
    let floor = LeavingSettings { pool_min: ByteCount(9 * FILE as u64), ..LeavingSettings::default() };
    let large = LeavingSettings { size_min: ByteCount(FILE as u64 + 1), ..LeavingSettings::default() };
    for (leaving, left) in [(floor, vec![0]), (large, vec![])] {
        let instance = instance(|settings| {
            pool_max(settings, 8 * FILE);
            settings.classes.iter_mut().for_each(|class| class.leaving = leaving);
        });
        let archive = instance.open();
        put_all(&archive);
        migrate_all(&archive);
        let evictor = || archive.pool_info().unwrap().evictor;
        wait_until("nothing more may leave", || {
            archive.make_room_now();
            evictor().held_up && evictor().files == left.len() as u64
        });
        assert_eq!(gone(&archive), left);
        stop(archive);
    }
}

/// With a residency of three days a file leaves when nobody has used it for three, whatever room there is.
#[test]
fn files_leave_that_nobody_has_used_for_as_long_as_their_class_says() {
    let clock = DayClock::new();
    let instance = Instance::with(ByteCount::mib(256), |settings: &mut Settings| {
        for class in &mut settings.classes {
            class.leaving.unused_for = Some(Duration::from_secs(3 * 86_400));
        }
    });
    let open = || settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    let archive = open();
    put_all(&archive);
    migrate_all(&archive);
    stop(archive);
    clock.pass_days(2);
    let archive = open();
    (5..FILES).for_each(|n| drop(get(&archive, &name(n)).unwrap()));
    stop(archive);
    clock.pass_days(2);
    let archive = open();
    wait_until("half of them have left", || archive.pool_info().unwrap().evictor.files == 5);
    assert_eq!(gone(&archive), [0, 1, 2, 3, 4]);
    assert_eq!(archive.verify_catalogue().unwrap(), []);
    stop(archive);
}

/// The system's clock, whose steady one stands still when a test says so.
#[derive(Default)]
struct StillClock(OnceLock<Duration>);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn steady(&self) -> Duration {
        self.0.get().copied().unwrap_or_else(|| SystemClock.steady())
    }
}

/// Story: after a round that found nothing the evictor rested for up to ten minutes, whatever ended
/// meanwhile, and until then all displays said that nothing might leave. Here no rest ends by itself.
#[test]
fn the_end_of_a_pin_is_heard_at_once() {
    let mut instance = instance(|_| {});
    let archive = instance.open();
    put_all(&archive);
    migrate_all(&archive);
    let request = stage(&archive, &["/l"]);
    wait_for(&archive, request);
    stop(archive);
    pool_max(&mut instance.settings, 10 * FILE);
    let clock = Arc::<StillClock>::default();
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    let evictor = || archive.pool_info().unwrap().evictor;
    wait_until("nothing may leave", || evictor().held_up);
    assert!(!evictor().makes_room && gone(&archive).is_empty());
    clock.0.set(SystemClock.steady()).unwrap();
    let before = evictor();
    archive.release(request, None).unwrap();
    assert!(!evictor().held_up, "nobody knows that before it has looked");
    wait_until("two files have left", || evictor().files == 2);
    assert!(evictor().looks_at_once > before.looks_at_once);
    wait_until("all room has come", || !evictor().makes_room && !evictor().held_up);
    stop(archive);
}

/// Story: a legal hold was taken off, or a retention, and the files stayed for up to ten minutes more, the
/// rest of a look that had found nothing. Here no rest ends by itself.
#[test]
fn the_end_of_a_hold_is_heard_at_once() {
    let mut instance = instance(|_| {});
    let archive = instance.open();
    put_all(&archive);
    migrate_all(&archive);
    let hold = |archive: &Archive, legal| {
        let hold = Hold { retention: None, legal };
        (0..FILES).for_each(|n| archive.set_hold(&path(&name(n)), Which::Current, hold, false).unwrap());
    };
    hold(&archive, true);
    stop(archive);
    pool_max(&mut instance.settings, 10 * FILE);
    let clock = Arc::<StillClock>::default();
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    let evictor = || archive.pool_info().unwrap().evictor;
    wait_until("nothing may leave", || evictor().held_up);
    clock.0.set(SystemClock.steady()).unwrap();
    hold(&archive, false);
    // The first that may leave brings the class below its mark.
    wait_until("a file has left", || evictor().files > 0);
    stop(archive);
}

/// A retention whose time is over keeps nothing, though its record is still there.
#[test]
fn files_leave_whose_retention_has_ended() {
    let clock = DayClock::new();
    let mut instance = instance(|_| {});
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    put_all(&archive);
    migrate_all(&archive);
    for n in 0..FILES {
        let until = clock.now().plus(Duration::from_secs(3600));
        let retention = Some(Retention { mode: RetentionMode::Governance, until });
        let hold = Hold { retention, legal: false };
        archive.set_hold(&path(&name(n)), Which::Current, hold, false).unwrap();
    }
    stop(archive);
    pool_max(&mut instance.settings, 10 * FILE);
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    let evictor = || archive.pool_info().unwrap().evictor;
    wait_until("nothing may leave", || evictor().held_up);
    stop(archive);
    clock.pass_days(1);
    let archive = settled(Archive::open(instance.settings.clone(), Arc::clone(&clock) as _).unwrap());
    let evictor = || archive.pool_info().unwrap().evictor;
    wait_until("two files have left", || evictor().files == 2);
    stop(archive);
}

/// Story: a put that was refused below high water was refused again and again: nothing left for it.
#[test]
fn a_put_that_is_refused_has_files_leave_for_it() {
    let instance = instance(|settings| {
        settings.pool.water = Some(Water { high_percent: 99, low_percent: 40 });
    });
    let (archive, tightness) = open_tight_on(&instance, Arc::new(SystemClock));
    put_all(&archive);
    migrate_all(&archive);
    tightness.capacity.store(100_000_000, Ordering::SeqCst);
    tightness.free.store(8_000_000, Ordering::SeqCst);
    let evictor = || archive.pool_info().unwrap().evictor;
    let room_of_refusal = |size: u64| {
        let options = archive::PutOptions { length: Some(ByteCount(size)), ..Default::default() };
        match archive.begin_put(&path("/large"), options).err() {
            Some(ArchiveError::TooLittleRoom { room, .. }) => room.0,
            other => panic!("{other:?}"),
        }
    };
    wait_until("the pool tells its room", || room_of_refusal(1 << 50) < 400_000_000);
    wait_until("it was looked", || evictor().looks_at_once > 0);
    assert_eq!(gone(&archive), [0u64; 0], "nothing leaves for what would not fit then either");
    // Down to low water, and no further.
    let room = room_of_refusal(1 << 50);
    // Told as what is worth a wait, unlike what never fits.
    let options = archive::PutOptions { length: Some(ByteCount(room + 1)), ..Default::default() };
    let refused = archive.begin_put(&path("/large"), options).err();
    assert!(matches!(refused, Some(ArchiveError::RoomIsBeingMade { .. })), "{refused:?}");
    // 30 MB are used, and low water is at 18.4.
    wait_until("four files have left", || evictor().files == 4);
    let looks = evictor().looks_at_once;
    room_of_refusal(1 << 50);
    wait_until("it was looked again", || evictor().looks_at_once > looks);
    assert_eq!(gone(&archive), [0, 1, 2, 3]);
    stop(archive);
}

/// Story: the end of a retention wakes nobody: files that it alone kept stayed until the rest of the last
/// look was over, up to ten minutes, though something waited for their room.
#[test]
fn the_end_of_a_retention_ends_the_rest_of_a_look_that_found_nothing() {
    let mut instance = instance(|_| {});
    let archive = instance.open();
    put_all(&archive);
    migrate_all(&archive);
    stop(archive);
    pool_max(&mut instance.settings, 10 * FILE);
    let clock = instance.clock();
    let held_for = Duration::from_secs(700);
    let archive = {
        let settings = Settings {
            pool: archive::PoolSettings { water: None, ..instance.settings.pool.clone() },
            ..instance.settings.clone()
        };
        let clock = base::TrustedClock::new(Arc::<base::ManualClock>::clone(&clock));
        settled(Archive::open(settings, Arc::new(clock)).unwrap())
    };
    let until = clock.now().plus(held_for);
    for n in 0..FILES {
        let retention = Some(Retention { mode: RetentionMode::Governance, until });
        archive.set_hold(&path(&name(n)), Which::Current, Hold { retention, legal: false }, false).unwrap();
    }
    stop(archive);
    let archive = instance.start(&clock);
    let evictor = || archive.pool_info().unwrap().evictor;
    let look = || {
        let looks = evictor().looks;
        wait_until("it was looked", || {
            archive.make_room_now();
            evictor().looks > looks + 1
        });
    };
    look();
    // Each round finds nothing, and the next one comes after twice as long: now after ten minutes.
    for rest in [10, 20, 40, 80, 160, 320] {
        clock.advance(Duration::from_secs(rest));
        look();
        assert!(evictor().held_up && gone(&archive).is_empty());
    }
    clock.advance(Duration::from_secs(75));
    look();
    wait_until("two files have left", || evictor().files == 2);
    stop(archive);
}

/// Story: a tree larger than the pool was put into a new instance whose tape pools wait for more bytes than
/// the pool holds: puts were refused as `pool-full`, and nothing went to tape for hours.
#[test]
fn who_waits_for_room_has_what_waits_for_a_tape_written() {
    let instance = instance(|settings| {
        settings.pool.water = Some(Water { high_percent: 99, low_percent: 40 });
        settings.tape.dismount_delay = Duration::from_secs(3_600);
        settings.tape_pools.iter_mut().for_each(|pool| {
            (pool.mount_bytes, pool.mount_age) = (ByteCount::gib(900), Duration::from_secs(86_400));
            pool.drives_max = 1;
        });
        settings.classes.iter_mut().for_each(|class| {
            (class.pack_bytes, class.pack_age) = (ByteCount::gib(900), Duration::from_secs(86_400));
            class.copies.truncate(1);
        });
    });
    let (archive, tightness) = open_tight_on(&instance, Arc::new(SystemClock));
    put_all(&archive);
    let evictor = || archive.pool_info().unwrap().evictor;
    let looks = evictor().looks;
    archive.make_room_now();
    wait_until("it was looked", || evictor().looks > looks + 1);
    assert_eq!((archive.totals().unwrap().todo.files, archive.totals().unwrap().mounts), (FILES, 0));
    tightness.capacity.store(100_000_000, Ordering::SeqCst);
    tightness.free.store(4_000_000, Ordering::SeqCst);
    let mut waited = 0;
    wait_until("files have gone to tape and left", || {
        let options = archive::PutOptions { length: Some(ByteCount(25_000_000)), ..Default::default() };
        match archive.begin_put(&path("/large"), options) {
            // As long as the pool does not know yet how little room there is.
            Ok(_) => {}
            Err(ArchiveError::RoomIsBeingMade { .. }) => waited += 1,
            Err(error) => panic!("{error}"),
        }
        evictor().files > 0
    });
    assert!(waited > 0);
    assert_eq!((archive.totals().unwrap().todo.files, archive.totals().unwrap().mounts), (0, 1));
    stop(archive);
}

/// Story: all that a full pool had was on tape, and nothing of it under an index: puts and recalls waited for
/// the unmount, an hour here, and `kist queue` said that nothing waits.
#[test]
fn who_waits_for_room_has_tapes_in_drives_write_their_index() {
    let instance = instance(|settings| {
        settings.pool.water = Some(Water { high_percent: 99, low_percent: 40 });
        settings.tape.dismount_delay = Duration::from_secs(3_600);
        settings.tape.index_bytes = ByteCount(u64::MAX);
        settings.tape_pools.iter_mut().for_each(|pool| {
            // One drive: none is given up for another pool, with an index before the unmount.
            (pool.mount_bytes, pool.drives_max) = (ByteCount(1), 1);
        });
        settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
    });
    let (archive, tightness) = open_tight_on(&instance, Arc::new(SystemClock));
    put_all(&archive);
    let totals = || archive.totals().unwrap();
    let is_flushed = || {
        let totals = totals();
        (totals.todo.files, totals.queued.files) == (0, 0) && totals.unindexed == FILES
    };
    wait_until("all is flushed", is_flushed);
    let is_idle = || archive.tape_drives().iter().any(|drive| drive.state == "idle");
    wait_until("the tape stays in its drive", is_idle);
    assert_eq!((totals().indexes, gone(&archive)), (0, vec![]), "no index is due by itself");
    assert_eq!(archive.queue().unwrap(), [], "nothing waits for room");
    let why = archive.why_path(&path(&name(0))).unwrap();
    assert!(why.iter().all(|why| why.contains("at once when something waits for room")), "{why:?}");
    tightness.capacity.store(100_000_000, Ordering::SeqCst);
    tightness.free.store(4_000_000, Ordering::SeqCst);
    let refused = |size: u64| {
        let options = archive::PutOptions { length: Some(ByteCount(size)), ..Default::default() };
        let begun = archive.begin_put(&path("/large"), options);
        matches!(begun, Err(ArchiveError::TooLittleRoom { .. } | ArchiveError::RoomIsBeingMade { .. }))
    };
    let is_told_to_wait = || {
        let options = archive::PutOptions { length: Some(ByteCount(25_000_000)), ..Default::default() };
        match archive.begin_put(&path("/large"), options) {
            Ok(_) => false,
            Err(ArchiveError::RoomIsBeingMade { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    };
    wait_until("a put finds no room, and is told at once that some is being made", is_told_to_wait);
    wait_until("the tape has an index, and files have left", || {
        refused(25_000_000);
        totals().indexes == 1 && archive.pool_info().unwrap().evictor.files > 0
    });
    assert_eq!(totals().mounts, 1, "the tape stays in its drive");
    assert!(is_idle());
    stop(archive);
}

/// Story: whoever had staged a tree had to give it back file by file: `kist release N DIRECTORY` was refused.
#[test]
fn what_is_released_of_a_request_may_be_a_directory() {
    let instance = instance(|_| {});
    let archive = instance.open();
    for path in ["/l/a/one", "/l/a/b/two", "/l/ab/three", "/l/four"] {
        put(&archive, path, &bytes(1, 1_000));
    }
    let request = stage(&archive, &["/l"]);
    let beside = stage(&archive, &["/l/a"]);
    let released = |request| {
        let (files, _) = archive.request_files(request, 0, 100).unwrap();
        let given_back = files.into_iter().filter(|file| file.state == catalogue::ItemState::Released);
        given_back.map(|file| file.path).collect::<std::collections::BTreeSet<_>>()
    };
    archive.release(request, Some(&[path("/l/a")])).unwrap();
    assert_eq!(released(request), ["/l/a/b/two", "/l/a/one"].map(str::to_owned).into());
    archive.release(request, Some(&[path("/l/four")])).unwrap();
    assert_eq!(released(request).len(), 3);
    assert_eq!(released(beside).len(), 0, "another request");
    assert!(archive.release(request, Some(&[path("/l/none")])).is_err());
    archive.release(request, Some(&[path("/")])).unwrap();
    assert_eq!(released(request).len(), 4);
    stop(archive);
}
