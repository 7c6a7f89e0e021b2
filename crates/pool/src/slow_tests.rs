//! Tests of where new data goes when a drive is slow.

use base::{DriveGroup, Epoch, StripeCode, Uuid};
use blob::Use;
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use drive::{DirectIo, DirectoryDrive, ObjectDrive};

use super::*;
use crate::slow::Kind;

const INSTANCE: Uuid = Uuid([1; 16]);

/// A pool of 2+1 on so many drives, and their directories.
fn pool(count: u16) -> (Vec<tempfile::TempDir>, Arc<Pool>) {
    let mut config = PoolConfig::new(INSTANCE, StripeCode::reed_solomon(2, 1));
    config.segment_copies = 2;
    let directories: Vec<_> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
    let drives = (0..).zip(&directories).map(|(id, directory)| {
        DirectoryDrive::format(directory.path(), INSTANCE, DriveId(id)).unwrap();
        let drive = DirectoryDrive::open(directory.path(), INSTANCE, DriveId(id), DirectIo::Off).unwrap();
        (DriveId(id), Some(Arc::new(drive) as Arc<dyn ObjectDrive>))
    });
    let entry = |id: u16| DriveEntry {
        id: DriveId(id),
        domain: FailureDomain { disk: id.to_string(), ..FailureDomain::default() },
        group: DriveGroup::MAIN,
        state: DriveState::Up,
        weight: 1,
    };
    let map = DriveMap::new(Epoch(1), (0..count).map(entry).collect()).unwrap();
    let pool = Pool::open(config, Epoch(1), map, drives.collect(), Vec::new()).unwrap();
    (directories, pool)
}

/// So many operations of each drive, which take 10 ms, and on the slow one as long as said.
fn work(pool: &Pool, slow: DriveId, span: Duration) {
    for _ in 0..40 {
        for drive in pool.drives() {
            let span = if drive.id == slow { span } else { Duration::from_millis(10) };
            drive.attached().unwrap().device.took_span(Kind::Append, span);
        }
    }
}

fn chosen(pool: &Pool) -> BTreeSet<DriveId> {
    let choose = |_| pool.choose_set(3, ByteCount(4096), Use::Client).unwrap().drives;
    (0..40).flat_map(choose).collect()
}

/// Story: of 12 disks one took ten times as long, and every put waited for it.
#[test]
fn a_slow_drive_gets_new_data_only_without_enough_others() {
    let (_directories, pool) = pool(4);
    let slow = DriveId(2);
    assert!(chosen(&pool).contains(&slow));
    work(&pool, slow, Duration::from_millis(200));
    let told = pool.status().drives.iter().map(|drive| drive.slow.is_some()).collect::<Vec<_>>();
    assert_eq!(told, [false, false, true, false]);
    assert!(pool.status().drives.iter().all(|drive| drive.health == DriveHealth::Up));
    assert!(!chosen(&pool).contains(&slow));
    // Without it no set is left: it keeps what it gets, and is written to.
    pool.drive(DriveId(0)).unwrap().device().unwrap().set_aside("a test".into());
    assert!(chosen(&pool).contains(&slow));
    pool.drive(DriveId(0)).unwrap().attached().unwrap().device.probed(Ok(()));
    work(&pool, slow, Duration::from_millis(10));
    assert!(chosen(&pool).contains(&slow), "it is well again");
}

#[test]
fn small_values_go_to_another_segment_when_a_drive_of_theirs_becomes_slow() {
    let (_directories, pool) = pool(4);
    let segment = |pool: &Pool| pool.put_small(b"a value").unwrap().0;
    let first = segment(&pool);
    assert_eq!(segment(&pool).id, first.id);
    let slow = first.stripes[0].drives[0];
    work(&pool, slow, Duration::from_millis(200));
    let second = segment(&pool);
    assert!(second.id != first.id && !second.stripes[0].drives.contains(&slow));
    assert_eq!(segment(&pool).id, second.id);
    // All are slow now but one: a segment does not end for what it cannot do without.
    for drive in &second.stripes[0].drives {
        work(&pool, *drive, Duration::from_millis(400));
    }
    let third = segment(&pool);
    assert_eq!(segment(&pool).id, third.id);
}
