//! Many small files in common segments, most of which leave the pool.

#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::MetadataExt;

use archive::Archive;
use base::ByteCount;

use crate::common::{Instance, bytes, extents, get, path, put, wait_until};
use crate::restoring::{at_rest, check, open};

/// As many as it takes for pages that several share.
pub const FILES: u64 = 2_000;
const CLIENTS: u64 = 16;
pub const PAGE: u64 = 4096;

pub fn name(n: u64) -> String {
    format!("/d{}/file{n}", n % 7)
}

pub fn content(n: u64) -> Vec<u8> {
    bytes(n + 1, 1_000 + n as usize % 160)
}

/// By several at once, so that their values share batches, and so pages.
pub fn fill(archive: &Archive) {
    (0..7).for_each(|n| drop(put(archive, &name(n), &content(n))));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for n in (7..FILES).filter(|n| n % CLIENTS == client) {
                    put(archive, &name(n), &content(n));
                }
            });
        }
    });
}

pub fn reopen(instance: &Instance, archive: Archive) -> Archive {
    archive.close();
    drop(archive);
    open(instance)
}

pub fn swept(archive: &Archive) {
    wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
}

fn is_kept(n: u64) -> bool {
    n % 200 == 11
}

pub fn check_kept(archive: &Archive, kept: impl Fn(u64) -> bool) {
    for n in (0..FILES).filter(|n| kept(*n)) {
        assert!(get(archive, &name(n)).unwrap() == content(n), "{}", name(n));
    }
}

fn allocated(instance: &Instance) -> u64 {
    let drives = instance.settings.pool.drives.iter();
    let extents = drives.flat_map(|drive| extents(drive.at.directory()));
    extents.map(|extent| fs::metadata(extent).unwrap().blocks() * 512).sum()
}

/// Story: of 100,000 small files ten stayed, and held 769 MB for 10.8 kB. Half of the files go before a
/// restart, the others after it: what was known of their common pages is in the catalogue.
pub fn delete_nearly_all() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    fill(&archive);
    let archive = reopen(&instance, archive);
    let before = allocated(&instance);
    assert!(before > FILES * 3 * 1_536, "{before}");
    let remove = |archive: &Archive, of: u64| {
        let gone = (0..FILES).filter(|n| n % 2 == of && !is_kept(*n));
        gone.for_each(|n| archive.remove(&path(&name(n))).unwrap());
        swept(archive);
    };
    remove(&archive, 0);
    check_kept(&archive, |n| n % 2 == 1 || is_kept(n));
    check(&archive);
    let archive = reopen(&instance, archive);
    remove(&archive, 1);
    check_kept(&archive, is_kept);
    check(&archive);
    let kept = (0..FILES).filter(|n| is_kept(*n)).count() as u64;
    // One or two pages each in three copies, and the footers of their segments.
    let most = 3 * (kept * 2 * PAGE + FILES * 8 + 4 * PAGE);
    let after = allocated(&instance);
    assert!(after <= most, "{after} bytes for {kept} small files, {before} for {FILES}");
    let told = || archive.pool_info().unwrap().small.filter(|small| small.values == kept);
    wait_until("what they take is measured", || told().is_some_and(|small| small.taken.0 <= most));
    let small = told().unwrap();
    assert_eq!(small.copied.0, small.bytes.0 * 3);
    assert!(small.amplification().unwrap() < 10.0, "{small:?}");
    let archive = reopen(&instance, archive);
    check_kept(&archive, is_kept);
    archive.close();
}
