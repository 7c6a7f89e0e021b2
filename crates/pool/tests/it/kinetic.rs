//! A pool over drives of the network: served in memory, over real sockets, mixed with directories.

#[path = "../../../kinetic_client/tests/it/serving.rs"]
mod serving;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{BlobDescription, DriveId, Epoch};
use drive::{DirectIo, DirectoryDrive, ObjectDrive};
use kinetic::Identity;
use kinetic::client::ClientSettings;
use kinetic_client::LinkSettings;
use kinetic_drive::{KineticDrive, KineticPlace};
use pool::{BadShard, DriveHealth, Pool};

use super::common::{INSTANCE, bytes, get, get_range, map, put, small_cells, wait_until};
use serving::{IDENTITY, KEY, Served};

/// So many drives of the network, and behind them so many directories.
struct Mixed {
    served: Vec<Served>,
    directories: Vec<tempfile::TempDir>,
    epoch: u32,
}

impl Mixed {
    fn new(served: u16, directories: u16) -> Self {
        let served: Vec<Served> = (0..served).map(|id| Served::new(&id.to_string())).collect();
        let directories: Vec<_> = (0..directories).map(|_| tempfile::tempdir().unwrap()).collect();
        let mixed = Mixed { served, directories, epoch: 0 };
        for id in 0..mixed.count() {
            match mixed.place(id) {
                Some(place) => place.format(INSTANCE, DriveId(id), false).unwrap(),
                None => DirectoryDrive::format(mixed.directory(id), INSTANCE, DriveId(id)).unwrap(),
            }
        }
        mixed
    }

    fn count(&self) -> u16 {
        (self.served.len() + self.directories.len()) as u16
    }

    fn directory(&self, id: u16) -> &std::path::Path {
        self.directories[usize::from(id) - self.served.len()].path()
    }

    fn place(&self, id: u16) -> Option<KineticPlace> {
        let served = self.served.get(usize::from(id))?;
        let client = ClientSettings {
            request_within: Duration::from_secs(10),
            ..ClientSettings::new(Identity(IDENTITY), KEY)
        };
        let settings = LinkSettings {
            back_off_min: Duration::from_millis(2),
            down_patience: Duration::from_millis(100),
            ..LinkSettings::new(vec![served.address.to_string()], client)
        };
        Some(KineticPlace::with(format!("kinetic://{}", served.address), settings))
    }

    fn drive(&self, id: u16) -> Arc<dyn ObjectDrive> {
        match self.place(id) {
            Some(place) => Arc::new(KineticDrive::open(&place, INSTANCE, DriveId(id)).unwrap()),
            None => Arc::new(
                DirectoryDrive::open(self.directory(id), INSTANCE, DriveId(id), DirectIo::Auto).unwrap(),
            ),
        }
    }

    fn open(&mut self) -> Arc<Pool> {
        self.epoch += 1;
        let drives = (0..self.count()).map(|id| (DriveId(id), Some(self.drive(id)))).collect();
        Pool::open(small_cells(), Epoch(self.epoch), map(self.count()), drives, Vec::new()).unwrap()
    }
}

fn shards_on(blob: &BlobDescription, drive: DriveId) -> BTreeSet<BadShard> {
    let mut shards = BTreeSet::new();
    for (stripe, set) in blob.stripes.iter().enumerate() {
        for (shard, on) in set.drives.iter().enumerate() {
            if *on == drive {
                shards.insert(BadShard { stripe: stripe as u32, shard: shard as u8, drive });
            }
        }
    }
    shards
}

#[test]
fn blobs_live_on_drives_of_the_network_mixed_with_directories() {
    let mut mixed = Mixed::new(6, 2);
    let pool = mixed.open();
    let values: Vec<Vec<u8>> = (0..6).map(|n| bytes(50_000 + n * 90_000, n as u64)).collect();
    let blobs: Vec<BlobDescription> = values.iter().map(|value| put(&pool, value).unwrap()).collect();
    let small: Vec<_> = (0..20usize).map(|n| pool.put_small(&bytes(3000 + n, 7)).unwrap()).collect();
    let all_is_well = |pool: &Arc<Pool>, blobs: &[BlobDescription]| {
        for (blob, value) in blobs.iter().zip(&values) {
            assert!(get(pool, blob).unwrap() == *value);
            assert!(get_range(pool, blob, 40_001, 5_000).unwrap() == value[40_001..45_001]);
        }
        for (n, (blob, piece)) in small.iter().enumerate() {
            assert!(pool.read_small(blob, piece).unwrap()[..] == bytes(3000 + n, 7)[..]);
        }
    };
    all_is_well(&pool, &blobs);

    // Two drives are gone: reads and writes go on without them, and with them when they are back.
    for id in [0, 3] {
        mixed.served[id].refuse(true);
    }
    all_is_well(&pool, &blobs);
    let value = bytes(300_000, 99);
    let meanwhile = put(&pool, &value).unwrap();
    assert!(get(&pool, &meanwhile).unwrap() == value);
    for id in [0u16, 3] {
        mixed.served[usize::from(id)].refuse(false);
        wait_until("it is back", || pool.probe_drive(DriveId(id)) == DriveHealth::Up);
    }
    all_is_well(&pool, &blobs);

    // A drive loses values and has others spoilt: a scrub finds them, a repair makes them good.
    let drive = DriveId(1);
    let mut hurt = 0;
    mixed.served[1].drive(|drive| {
        for key in drive.keys().into_iter().filter(|key| key.starts_with(b"kist/x/") && key.len() > 22) {
            drive.spoil(&key);
            hurt += 1;
        }
    });
    assert!(hurt > 3, "{hurt}");
    pool.probe_drive(drive);
    let mut found = 0;
    for blob in &blobs {
        let report = pool.scrub_blob(blob, &[], &mut |_| true).unwrap();
        assert!(report.bad.iter().all(|bad| bad.drive == drive), "{report:?}");
        found += report.bad.len();
        let repaired = pool.repair(blob, &report.bad, &mut |_| true).unwrap();
        assert!(repaired.failed.is_empty() && repaired.in_place.len() == report.bad.len(), "{repaired:?}");
        assert!(pool.scrub_blob(blob, &[], &mut |_| true).unwrap().is_clean());
    }
    assert!(found > 3, "{found}");
    all_is_well(&pool, &blobs);

    // A drive is emptied: its shards move to others, directories among them.
    let drained = DriveId(2);
    pool.set_draining(drained, true).unwrap();
    let mut blobs = blobs;
    for blob in &mut blobs {
        let shards = shards_on(blob, drained);
        let moved = pool.move_away(blob, &shards, &mut |_| true).unwrap();
        assert!(moved.failed.is_empty() && moved.moved.len() == shards.len(), "{moved:?}");
        for step in moved.moved {
            blob.stripes[step.stripe as usize] = step.to;
        }
        pool.remove_moved(blob.extents(), &shards.into_iter().collect::<Vec<_>>()).unwrap();
    }
    all_is_well(&pool, &blobs);
    pool.set_draining(drained, false).unwrap();

    // The next epoch: all is found again, and the server of before is kept out.
    let old = mixed.drive(4);
    pool.close();
    drop(pool);
    let pool = mixed.open();
    all_is_well(&pool, &blobs);
    assert!(old.set_stamp(Epoch(1), 1).is_err() && old.list(None, 1).is_err());
    for blob in &blobs {
        pool.remove(blob).unwrap();
    }
    pool.close();
    let listed: Vec<_> = (0..6u16).flat_map(|id| mixed.drive(id).list(None, 1000).unwrap()).collect();
    assert!(blobs.iter().all(|blob| listed.iter().all(|id| id.blob != blob.extents())));
}

/// What was acknowledged is there, whatever each drive lost of what it had not flushed.
#[test]
fn what_was_acknowledged_outlives_a_power_failure_of_all_drives() {
    let mut mixed = Mixed::new(6, 0);
    let pool = mixed.open();
    let values: Vec<Vec<u8>> = (0..8).map(|n| bytes(30_000 + n * 50_000, n as u64)).collect();
    let blobs: Vec<BlobDescription> = values.iter().map(|value| put(&pool, value).unwrap()).collect();
    let small: Vec<_> = (0..8usize).map(|n| pool.put_small(&bytes(900 + n, 3)).unwrap()).collect();
    mixed.served.iter().for_each(|served| served.crash(|_| false));
    for (blob, value) in blobs.iter().zip(&values) {
        assert!(get(&pool, blob).unwrap() == *value);
        assert!(pool.scrub_blob(blob, &[], &mut |_| true).unwrap().is_clean());
    }
    for (n, (blob, piece)) in small.iter().enumerate() {
        assert!(pool.read_small(blob, piece).unwrap()[..] == bytes(900 + n, 3)[..]);
    }
    pool.close();
}
