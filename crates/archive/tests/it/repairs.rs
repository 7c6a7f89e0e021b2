//! Repairs of the pool that do not succeed at first.

use std::fs;
use std::path::PathBuf;

use base::{ByteCount, Duration};

use crate::common::{Instance, bytes, extents, get, put, wait_until};

/// Story: what could not be repaired once was never tried again but by a whole pass, though only a drive had
/// not given its shards for a moment.
#[test]
fn a_repair_that_failed_is_told_and_tried_again() {
    let instance = Instance::new(ByteCount::mib(256));
    let clock = instance.clock();
    let archive = instance.start(&clock);
    put(&archive, "/file", &bytes(1, 3_000_000));
    // Of six shards four are needed.
    let drives = instance.settings.pool.drives.iter();
    let shards: Vec<PathBuf> = drives.filter_map(|drive| extents(&drive.path).into_iter().next()).collect();
    assert!(shards.len() >= 6, "{shards:?}");
    let aside = instance.directory.path().join("aside");
    fs::create_dir(&aside).unwrap();
    let place = |shard: &PathBuf| aside.join(shard.to_str().unwrap().replace('/', "_"));
    for shard in &shards[..3] {
        fs::rename(shard, place(shard)).unwrap();
    }
    assert!(get(&archive, "/file").is_err());
    let health = || archive.pool_health().unwrap();
    wait_until("it was tried in vain", || health().repairs_failed == 1);
    assert_eq!(health().repairs_waiting, 1);
    for shard in &shards[..3] {
        fs::rename(place(shard), shard).unwrap();
    }
    clock.advance(Duration::from_secs(6));
    wait_until("it was tried again", || health().repairs_waiting == 0);
    assert_eq!(health().repairs_failed, 0);
    archive.close();
}
