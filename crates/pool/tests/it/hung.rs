//! Drives that answer nothing at all, not even how much room they have.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use base::{BlobDescription, ByteCount, Clock, ManualClock, Timestamp};
use pool::{DriveHealth, OrphanCandidate, Pool};

use super::common::{Answering, Bench, bytes, get, put, small_cells, wait_until};

/// Reads a value and compares it.
type Read = Box<dyn FnOnce(&Arc<Pool>, &BlobDescription) -> bool + Send>;

/// Longer than anything here takes on a loaded machine; a call that hangs fails the test by it.
const PATIENCE: Duration = Duration::from_secs(60);

struct Watched {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
    blob: BlobDescription,
    /// The drive of its first shard.
    victim: u16,
}

fn watched(bench: &mut Bench) -> Watched {
    let pool = bench.open(small_cells(), &[]);
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000_000)));
    pool.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let blob = put(&pool, &bytes(150_000, 1)).unwrap();
    let victim = blob.stripes[0].drives[0].0;
    Watched { pool, clock, blob, victim }
}

fn health(pool: &Pool, drive: u16) -> DriveHealth {
    let all = pool.drive_health();
    all.into_iter().find(|(id, _)| id.0 == drive).map(|(_, health)| health).unwrap()
}

/// What a call gives on a thread of its own, while a second passes after each moment in which it does not
/// come back, if `time` is to pass.
fn called<T: Send + 'static>(
    what: &str,
    Watched { pool, clock, .. }: &Watched,
    time: bool,
    call: impl FnOnce(&Pool) -> T + Send + 'static,
) -> T {
    let (sender, came) = channel();
    let of = Arc::clone(pool);
    std::thread::spawn(move || drop(sender.send(call(&of))));
    let begin = std::time::Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Ok(came) = came.recv_timeout(Duration::from_millis(50)) {
            return came;
        }
        if time {
            clock.advance(Duration::from_secs(1));
            pool.tend();
        }
    }
    panic!("{what} waits for a drive that hangs");
}

/// Story: who asked for the room of the pool asked each drive himself, puts and the thread that finds drives
/// that hang among them. One that did not even answer that stopped all for good, and was never set aside.
#[test]
fn a_drive_that_answers_nothing_is_set_aside_and_stops_nobody_who_asks_for_room() {
    let mut bench = Bench::new(8);
    let watched = watched(&mut bench);
    let Watched { pool, clock, victim, .. } = &watched;
    let free = |pool: &Pool| -> Vec<ByteCount> { pool.spaces().iter().map(|drive| drive.free).collect() };
    bench.faults.iter().for_each(|faults| faults.free.store(8_000_000, Ordering::SeqCst));
    clock.advance(Duration::from_secs(2));
    assert!(free(pool).iter().all(|free| *free == ByteCount(1_000_000)), "all stand on one file system");
    let _answering = Answering(Arc::clone(&bench.faults[usize::from(*victim)]));
    bench.faults[usize::from(*victim)].mute.store(true, Ordering::SeqCst);
    bench.faults.iter().for_each(|faults| faults.free.store(16_000_000, Ordering::SeqCst));
    // The first who ask wait a moment for its answer, later ones do not.
    clock.advance(Duration::from_secs(2));
    called("the room of the pool", &watched, false, free);
    for second in (2..=30).step_by(2) {
        clock.advance(Duration::from_secs(2));
        called("a look at the drives", &watched, false, Pool::tend);
        let told = called("the room of the pool", &watched, false, free);
        for (drive, free) in (0..).zip(told) {
            let known = if drive == *victim { 1_000_000 } else { 2_000_000 };
            assert_eq!(free, ByteCount(known), "drive {drive} after {second} s");
        }
        called("a put", &watched, false, |pool| pool.takes_files().unwrap());
        called("the status", &watched, false, |pool| pool.status().drives.len());
        assert_eq!(health(pool, *victim), DriveHealth::Up, "after {second} s");
    }
    assert!(bench.faults[usize::from(*victim)].fired() > 0, "it was asked");
    clock.advance(Duration::from_secs(2));
    pool.tend();
    assert!(matches!(health(pool, *victim), DriveHealth::Away { .. }), "{:?}", health(pool, *victim));
    let value = bytes(40_000, 2);
    let other = put(pool, &value).unwrap();
    assert!(other.stripes.iter().all(|set| set.drives.iter().all(|drive| drive.0 != *victim)));
    assert!(get(pool, &other).unwrap() == value);
    // It answers again.
    bench.faults[usize::from(*victim)].mute.store(false, Ordering::SeqCst);
    let victim = *victim;
    called("a probe", &watched, true, move |pool| wait_until_up(pool, victim));
    assert!(free(pool).iter().all(|free| *free == ByteCount(2_000_000)), "{:?}", free(pool));
}

/// What was left by a crash was listed and measured past the drive's own threads: one that hung held up the
/// thread that mends the pool for good, and was not found.
#[test]
fn extents_of_earlier_epochs_are_listed_without_a_drive_that_hangs() {
    let mut bench = Bench::new(8);
    let first = watched(&mut bench);
    let (blob, victim) = (first.blob.id, first.victim);
    drop(first);
    let watched = watched(&mut bench);
    let listed = move |pool: &Pool| {
        let (mut found, mut cursor) = (Vec::<OrphanCandidate>::new(), None);
        loop {
            let page = pool.list_orphan_candidates(cursor, 100).unwrap();
            found.extend(page.candidates.iter().filter(|extent| extent.extent.blob == blob));
            cursor = page.next;
            if cursor.is_none() {
                return found;
            }
        }
    };
    let all = listed(&watched.pool);
    let of_victim = *all.iter().find(|orphan| orphan.drive.0 == victim).unwrap();
    assert!(watched.pool.orphan_bytes(&of_victim).unwrap().0 > 0);
    let _answering = Answering(Arc::clone(&bench.faults[usize::from(victim)]));
    let hang = |is: bool| bench.faults[usize::from(victim)].mute.store(is, Ordering::SeqCst);
    hang(true);
    let found = called("a listing", &watched, true, listed);
    assert!(!found.is_empty() && found.iter().all(|orphan| orphan.drive.0 != victim), "the others are");
    hang(false);
    called("a probe", &watched, true, move |pool| wait_until_up(pool, victim));
    hang(true);
    let bytes = called("a measuring", &watched, true, move |pool| pool.orphan_bytes(&of_victim));
    assert_eq!(bytes.unwrap(), ByteCount(0), "it is not there");
    assert!(matches!(health(&watched.pool, victim), DriveHealth::Away { .. }));
    hang(false);
    called("a probe", &watched, true, move |pool| wait_until_up(pool, victim));
}

fn wait_until_up(pool: &Pool, drive: u16) {
    while health(pool, drive) != DriveHealth::Up {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// On a loaded machine three cells of a row were late at once, one of them on a drive that hung. The reader
/// waited for that one as well, until the drive was set aside, though the two others came a moment later.
#[test]
fn a_drive_that_hangs_does_not_hold_up_late_cells_that_suffice() {
    let mut bench = Bench::new(8);
    let Watched { pool, blob, .. } = watched(&mut bench);
    let (small, piece) = pool.put_small(b"a small value").unwrap();
    let faults = |drive: base::DriveId| &bench.faults[usize::from(drive.0)];
    let reads: [(BlobDescription, &[usize], Read); 2] = [
        // Two of its data and one of its parity, of 4+2.
        (blob, &[0, 1, 4], Box::new(|pool, blob| get(pool, blob).unwrap() == bytes(150_000, 1))),
        // The copy that is asked first, and the others.
        (
            small,
            &[0, 1, 2],
            Box::new(move |pool, blob| pool.read_small(blob, &piece).unwrap()[..] == *b"a small value"),
        ),
    ];
    for (blob, slow, read) in reads {
        let before = pool.late_cells();
        let hung: Vec<_> = slow.iter().map(|shard| faults(blob.stripes[0].drives[*shard])).collect();
        let _answering: Vec<_> = hung.iter().map(|faults| Answering(Arc::clone(faults))).collect();
        hung.iter().for_each(|faults| faults.hung.store(true, Ordering::SeqCst));
        let (of, read_blob) = (Arc::clone(&pool), blob.clone());
        let reader = std::thread::spawn(move || read(&of, &read_blob));
        wait_until("what comes is late", || pool.late_cells() >= before + 3);
        hung[1..].iter().for_each(|faults| faults.hung.store(false, Ordering::SeqCst));
        wait_until("the others suffice", || reader.is_finished());
        assert!(reader.join().unwrap() && hung[0].fired() > 0);
    }
}
