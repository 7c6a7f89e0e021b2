//! What many small files took comes back when most of them leave the pool, and nothing else goes with it.

use std::fs;
use std::os::unix::fs::FileExt;

use base::ByteCount;

use crate::common::{Instance, all, extents, get, migrate_all, path, put, wait_until};
use crate::history::{Contents, recall_and_compare};
use crate::restoring::{at_rest, back_to, check, open, shipped};
use crate::small_files::{FILES, PAGE, check_kept, content, delete_nearly_all, fill, name, reopen, swept};

#[test]
fn the_space_of_small_files_comes_back_while_others_stay() {
    delete_nearly_all();
}

/// A restore to a point before reads what stayed, and takes from tape what went.
#[test]
fn a_point_before_they_went_has_all_small_files() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    fill(&archive);
    migrate_all(&archive);
    let point = shipped(&archive);
    let gone: Vec<String> = (0..FILES).filter(|n| n % 3 == 0).map(name).collect();
    gone.iter().for_each(|name| archive.remove(&path(name)).unwrap());
    swept(&archive);
    let archive = back_to(&instance, archive, point);
    // Nothing on tape is asked for: no value moved.
    check_kept(&archive, |n| n % 3 != 0);
    let contents: Contents = (0..FILES).map(|n| (name(n), content(n))).collect();
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// Deletes, evictions, puts and reads go on while space is given back.
#[test]
fn clients_go_on_while_space_is_given_back() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    fill(&archive);
    migrate_all(&archive);
    std::thread::scope(|scope| {
        let archive = &archive;
        scope.spawn(move || {
            (0..FILES).filter(|n| n % 4 == 0).for_each(|n| archive.remove(&path(&name(n))).unwrap());
        });
        scope.spawn(move || {
            for n in (0..FILES).filter(|n| n % 4 == 1) {
                assert_eq!(archive.evict(&all(&[&name(n)])).unwrap().evicted, 1);
            }
        });
        scope.spawn(move || {
            for n in (0..FILES).filter(|n| n % 4 == 2) {
                put(archive, &name(n), &content(n + FILES));
            }
        });
        scope.spawn(move || check_kept(archive, |n| n % 4 == 3));
    });
    swept(&archive);
    let archive = reopen(&instance, archive);
    check_kept(&archive, |n| n % 4 == 3);
    for n in (0..FILES).filter(|n| n % 4 == 2) {
        assert!(get(&archive, &name(n)).unwrap() == content(n + FILES), "{}", name(n));
    }
    check(&archive);
    archive.close();
}

/// A copy that lost a neighbour is repaired from the others after the deletes, which spared it there.
#[test]
fn a_damaged_neighbour_is_repaired_after_the_deletes() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    fill(&archive);
    let archive = reopen(&instance, archive);
    archive.close();
    drop(archive);
    // On the first drive that has a segment nothing is left of the records of every third page.
    let drives = instance.settings.pool.drives.iter().flat_map(|drive| extents(drive.at.directory()));
    let is_segment = |extent: &std::path::PathBuf| fs::read(extent).unwrap().starts_with(b"KISTSMAL");
    let segment = drives.max_by_key(|extent| (is_segment(extent), fs::metadata(extent).unwrap().len()));
    let segment = fs::OpenOptions::new().write(true).open(segment.unwrap()).unwrap();
    let pages = segment.metadata().unwrap().len() / PAGE;
    (0..pages - 8).step_by(3).for_each(|page| segment.write_all_at(&[0; 4096], page * PAGE).unwrap());
    let archive = open(&instance);
    let kept = |n: u64| n % 5 == 1;
    (0..FILES).filter(|n| !kept(*n)).for_each(|n| archive.remove(&path(&name(n))).unwrap());
    swept(&archive);
    check_kept(&archive, kept);
    let before = archive.scrub_info().passes;
    archive.scrub_now();
    wait_until("the pass is done", || archive.scrub_info().passes > before);
    let info = archive.scrub_info();
    assert_eq!(info.lost, 0, "{:?}", info.findings);
    check_kept(&archive, kept);
    check(&archive);
    archive.close();
}
