//! Repairs of the pool that do not succeed at first.

use std::fs;
use std::path::PathBuf;

use archive::Archive;
use base::{ByteCount, Duration};

use crate::common::{Instance, bytes, extents, get, path, put, wait_for_pool, wait_until};

/// No file goes to tape: what the pool does not have is LOST.
fn untaped() -> Instance {
    Instance::with(ByteCount::mib(256), |settings| {
        settings.classes.iter_mut().for_each(|class| class.copies.clear());
    })
}

/// Story: no line of `kist status` told how many files are LOST.
#[test]
fn lost_files_are_counted_and_named() {
    let instance = untaped();
    let archive = instance.open();
    let lost = |archive: &Archive| archive.totals().unwrap().lost;
    wait_until("all files were looked at", || lost(&archive).is_counted);
    for name in ["/a", "/b"] {
        put(&archive, name, &bytes(1, 3_000_000));
    }
    assert_eq!(lost(&archive).files, 0);
    for drive in &instance.settings.pool.drives[..4] {
        extents(drive.at.directory()).iter().for_each(|shard| fs::remove_file(shard).unwrap());
    }
    archive.scrub_now();
    wait_for_pool(&archive, "the files are LOST", || lost(&archive).files == 2);
    let named = archive.scrub_info().files;
    assert!(["/a LOST", "/b LOST"].iter().all(|line| named.iter().any(|told| told == line)), "{named:?}");
    archive.remove(&path("/a")).unwrap();
    assert_eq!(lost(&archive).files, 1, "what is removed counts no more");
    archive.close();
    drop(archive);
    let archive = instance.open();
    wait_until("they are counted at the start", || lost(&archive).is_counted);
    assert_eq!(lost(&archive).files, 1);
    archive.close();
}

/// Story: what could not be repaired once was never tried again but by a whole pass, though only a drive had
/// not given its shards for a moment.
#[test]
fn a_repair_that_failed_is_told_and_tried_again() {
    let instance = untaped();
    let clock = instance.clock();
    let archive = instance.start(&clock);
    put(&archive, "/file", &bytes(1, 3_000_000));
    // Of six shards four are needed.
    let drives = instance.settings.pool.drives.iter();
    let shards: Vec<PathBuf> =
        drives.filter_map(|drive| extents(drive.at.directory()).into_iter().next()).collect();
    assert!(shards.len() >= 6, "{shards:?}");
    let aside = instance.directory.path().join("aside");
    fs::create_dir(&aside).unwrap();
    let place = |shard: &PathBuf| aside.join(shard.to_str().unwrap().replace('/', "_"));
    for shard in &shards[..3] {
        fs::rename(shard, place(shard)).unwrap();
    }
    assert!(get(&archive, "/file").is_err());
    let health = || archive.pool_health().unwrap();
    wait_for_pool(&archive, "it was tried in vain", || health().repairs_failed == 1);
    assert_eq!(health().repairs_waiting, 1);
    // Story: `kist scrub` said 0 while `kist pool show` said 1.
    let info = archive.scrub_info();
    assert_eq!((info.waiting, info.waiting_failed), (1, 1));
    for shard in &shards[..3] {
        fs::rename(place(shard), shard).unwrap();
    }
    clock.advance(Duration::from_secs(6));
    wait_for_pool(&archive, "it was tried again", || health().repairs_waiting == 0);
    assert_eq!(health().repairs_failed, 0);
    archive.close();
}
