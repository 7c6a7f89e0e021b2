//! How fast one of 24 hard disks is rebuilt from the others, and what clients keep beside that: in virtual
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::{BlobDescription, ByteCount, DriveGroup, DriveId, StripeCode};
use pool::{BadShard, Pool, RepairOrder, Use};
use simulator::world::below;
use threads::{Mutex, simulated};

use crate::hard_disk::{DISK_RATE, HardDisks, fill};

const DISKS: u16 = 24;
const CLIENTS: usize = 192;
const CLIENT_FILE: u64 = 8 << 20;
const CLIENT_READ: u64 = 1 << 20;

/// What is rebuilt: so many stripes of 8+2 with a shard on the lost disk, of so many rows, of cells of 1 MiB
/// divided by the scale.
#[derive(Clone, Copy)]
struct Stripes {
    count: usize,
    rows: u64,
    scale: u64,
}

/// Whole stripes, on disks of an eighth of the size.
const WHOLE: Stripes = Stripes { count: 48, rows: 62, scale: 8 };
/// Beside clients: the shares at a drive are of bytes, so all is as large as it is.
const SHORT: Stripes = Stripes { count: 28, rows: 8, scale: 1 };
const NONE: Stripes = Stripes { count: 0, ..SHORT };

/// In bytes a second, on disks of the real size.
#[derive(Clone, Copy, Debug)]
struct Rates {
    read: f64,
    clients: f64,
}

impl Rates {
    /// Of what all disks but the lost one can read.
    fn share(self) -> f64 {
        self.read / (f64::from(DISKS - 1) * DISK_RATE as f64)
    }
}

fn shard_on(blob: &BlobDescription, lost: DriveId) -> Option<BadShard> {
    let shard = blob.stripes[0].drives.iter().position(|drive| *drive == lost)?;
    Some(BadShard { stripe: 0, shard: shard as u8, drive: lost })
}

/// Stripes with a shard on this disk, of which none of the others has far more than its part, as when a whole
/// disk is rebuilt.
fn stripes_on(
    pool: &Arc<Pool>,
    disks: &HardDisks,
    lost: DriveId,
    Stripes { count, rows, scale }: Stripes,
) -> Vec<BlobDescription> {
    let mut load = vec![0usize; usize::from(DISKS) + 2];
    let mut blobs = Vec::new();
    while blobs.len() < count {
        let blob = fill(pool, ((rows * 8) << 20) / scale);
        let most = 9 * (blobs.len() + 1) / usize::from(DISKS - 1) + 4;
        let others = || blob.stripes[0].drives.iter().filter(|drive| **drive != lost);
        if shard_on(&blob, lost).is_some() && others().all(|drive| load[usize::from(drive.0)] < most) {
            others().for_each(|drive| load[usize::from(drive.0)] += 1);
            blobs.push(blob);
            continue;
        }
        disks.forget(&blob);
    }
    blobs
}

/// A disk is lost, and so many stripes of it are rebuilt, as many at once as the pool has memory for.
fn run(stripes: Stripes, clients: usize, arena: ByteCount) -> Rates {
    run_work(Work::Rebuild, stripes, clients, arena)
}

/// What part of the time disks moved their arms, and transferred, on the average; and how long each did
/// either, in hundredths.
fn tell_times(before: &[(u64, u64)], after: &[(u64, u64)], seconds: f64) {
    let part = |before: u64, after: u64| (after - before) as f64 / 1e9 / seconds;
    let parts: Vec<(f64, f64)> =
        before.iter().zip(after).map(|(old, new)| (part(old.0, new.0), part(old.1, new.1))).collect();
    let average = |sum: f64| sum / f64::from(DISKS - 1);
    let (seeking, moving) = (parts.iter().map(|it| it.0).sum(), parts.iter().map(|it| it.1).sum());
    let busy: Vec<u32> = parts.iter().map(|it| ((it.0 + it.1) * 100.0).round() as u32).collect();
    println!("arms {:.3}, transfers {:.3}, busy {busy:?} %", average(seeking), average(moving));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// By as many at once as the pool has memory for.
    Rebuild,
    /// The disk is emptied, by one: as a rebalance does it, one shard after the other.
    Drain,
    /// Blobs are written anew, by one, as a change of code has it done.
    Rewrite,
}

fn run_work(work: Work, stripes: Stripes, clients: usize, arena: ByteCount) -> Rates {
    let outcome = simulated::run(13, move || {
        let disks = HardDisks::scaled(DISKS, ByteCount::gib(2), stripes.scale);
        let pool = disks.open_with(StripeCode::reed_solomon(8, 2), arena);
        let lost = disks.machines.disks()[3].id();
        let blobs = stripes_on(&pool, &disks, lost, stripes);
        let files: Arc<Vec<_>> =
            Arc::new((0..if clients > 0 { 60 } else { 0 }).map(|_| fill(&pool, CLIENT_FILE)).collect());
        match work {
            Work::Rebuild => pool.declare_lost(lost).unwrap(),
            Work::Drain | Work::Rewrite => pool.set_draining(lost, true).unwrap(),
        }
        let order = Mutex::new(RepairOrder::default());
        for blob in blobs {
            let drives = blob.stripes[0].drives.iter().copied().filter(|drive| *drive != lost).collect();
            order.lock().unwrap().add(blob, drives);
        }
        let is_over = AtomicBool::new(false);
        let (given, repaired) = (AtomicU64::new(0), AtomicU64::new(0));
        let client = || {
            while !is_over.load(Ordering::Relaxed) {
                let file = &files[below(files.len() as u64) as usize];
                let at = below((CLIENT_FILE - CLIENT_READ) >> 12) << 12;
                let mut reader =
                    pool.read(file, ByteCount(at), ByteCount(CLIENT_READ)).unwrap().used_by(Use::Client);
                while let Some(piece) = reader.next().unwrap() {
                    given.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
            }
        };
        let worker = || {
            while !is_over.load(Ordering::Relaxed) {
                let Some((blob, drives)) = order.lock().unwrap().take() else { return };
                let bad = shard_on(&blob, lost).into_iter().collect();
                let goes_on = || !is_over.load(Ordering::Relaxed);
                let mut pace = |bytes: ByteCount| {
                    repaired.fetch_add(bytes.0, Ordering::Relaxed);
                    goes_on()
                };
                let done = match work {
                    Work::Rebuild => pool.repair(&blob, &bad, &mut pace),
                    Work::Drain => pool.move_away(&blob, &bad, &mut pace),
                    Work::Rewrite => {
                        let mut rewrite = pool.rewrite(&blob, DriveGroup::MAIN).unwrap();
                        while let Some(bytes) = rewrite.step().unwrap()
                            && pace(bytes)
                        {}
                        continue;
                    }
                };
                assert!(!goes_on() || done.unwrap().failed.is_empty());
                order.lock().unwrap().over(&drives);
            }
        };
        let rates = threads::scope(|scope| {
            (0..clients).for_each(|_| drop(scope.spawn(client)));
            (0..if work == Work::Rebuild { pool.repairs_at_once() } else { 1 })
                .for_each(|_| drop(scope.spawn(worker)));
            // Until the queues are as full as they get; and to where stripes are left for all.
            simulated::pause(Duration::from_millis(500));
            let times = disks.times();
            let (began, before) =
                (simulated::now(), (repaired.load(Ordering::Relaxed), given.load(Ordering::Relaxed)));
            let is_enough = || {
                simulated::now() - began > 3_000_000_000
                    || stripes.count > 0 && order.lock().unwrap().waiting() == 0
            };
            while !is_enough() {
                simulated::pause(Duration::from_millis(5));
            }
            let seconds = Duration::from_nanos(simulated::now() - began).as_secs_f64();
            let rate = |now: &AtomicU64, before| {
                (now.load(Ordering::Relaxed) - before) as f64 * stripes.scale as f64 / seconds
            };
            // Of ten cells nine are read and one is written.
            let rates = Rates { read: 0.9 * rate(&repaired, before.0), clients: rate(&given, before.1) };
            is_over.store(true, Ordering::Relaxed);
            tell_times(&times, &disks.times(), seconds);
            rates
        });
        pool.close();
        rates
    });
    outcome.result.unwrap_or_else(|failure| panic!("{failure}"))
}

/// The budget of 0.8 is missed: a tenth of what the disks do is writing, an arm takes its time, and cells
/// that wait for the slowest disk of their row take the memory.
#[test]
fn a_drive_is_rebuilt_from_all_others() {
    let _one = crate::alone();
    let (large, default) = (run(WHOLE, 0, ByteCount::gib(2)), run(WHOLE, 0, ByteCount::mib(128)));
    println!(
        "arena of 2 GiB: {:.3}, {large:?}\nof 128 MiB: {:.3}, {default:?}",
        large.share(),
        default.share()
    );
    assert!(large.share() > 0.65, "{large:?}");
    assert!(default.share() > 0.42, "{default:?}");
}

#[test]
fn clients_at_saturation_keep_most_of_what_they_have_beside_a_rebuild() {
    let _one = crate::alone();
    let (alone, beside) = (run(NONE, CLIENTS, ByteCount::gib(2)), run(SHORT, CLIENTS, ByteCount::gib(2)));
    println!("alone {alone:?}\nbeside a rebuild {beside:?}: {:.3}", beside.clients / alone.clients);
    assert!(beside.clients >= 0.6 * alone.clients, "{beside:?} of {alone:?}");
    assert!(beside.read > 0.0, "it goes on: {beside:?}");
}

/// As it is done at a drive, without the scrubber's own waiting for clients.
#[test]
fn clients_at_saturation_keep_most_of_what_they_have_beside_moves() {
    let _one = crate::alone();
    for (name, work) in [("a drain", Work::Drain), ("writing anew", Work::Rewrite)] {
        let alone = run_work(work, NONE, CLIENTS, ByteCount::gib(2)).clients;
        let beside = run_work(work, SHORT, CLIENTS, ByteCount::gib(2));
        println!("beside {name} {beside:?}: {:.3}", beside.clients / alone);
        assert!(beside.clients >= 0.8 * alone, "{name}: {beside:?} of {alone}");
        assert!(beside.read > 0.0, "it goes on: {beside:?}");
    }
}
