//! Nothing that a later point of the backup needs is destroyed by what happens after a restore to an earlier
//! one, nor by what a server does that could not look at all drives and tapes yet.

use std::fs;
use std::path::{Path, PathBuf};

use archive::{Archive, CloneOptions, CompleteOptions, Which};
use base::ByteCount;

use crate::common::{
    Instance, all, bytes, extents, extents_quarantined, get, migrate_all, path, put, stage, wait_until,
};
use crate::histories::begin_upload;
use crate::history::{Contents, evict_all, recall_and_compare};
use crate::restoring::{at_rest, back_to, check, give_up_the_past, open, replace_lost, restore_to, shipped};

fn instance() -> Instance {
    Instance::with(ByteCount::mib(256), at_rest)
}

fn put_as(archive: &Archive, contents: &mut Contents, name: &str, seed: u64, length: usize) {
    let content = bytes(seed, length);
    put(archive, name, &content);
    contents.insert(name.to_owned(), content);
}

/// Lets the sweeper go by once more: what is younger than the restore is removed at once.
fn sweep(archive: &Archive) {
    put(archive, "/swept", &bytes(77, 5_000));
    archive.remove(&path("/swept")).unwrap();
    wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
}

/// Story: after a restore to a point, what the restored catalogue knew and did not need any more was removed
/// within seconds: parts of an upload that was completed later, a segment in which later files had values,
/// bytes that a later copy shared, files that a rule or a user deleted. A later point of the same backup
/// named them all, and they were LOST there.
#[test]
fn what_goes_after_a_restore_is_kept_for_later_points() {
    let instance = instance();
    let archive = open(&instance);
    let mut contents = Contents::new();
    put_as(&archive, &mut contents, "/small", 1, 5_000);
    put_as(&archive, &mut contents, "/shared", 2, 300_000);
    put_as(&archive, &mut contents, "/deleted", 3, 300_000);
    put_as(&archive, &mut contents, "/deleted-too", 4, 5_000);
    let parts = bytes(5, 600_000);
    let upload = begin_upload(&archive, "/u/uploaded", &parts);
    let first = shipped(&archive);
    put_as(&archive, &mut contents, "/beside-small", 6, 6_000);
    archive.complete_multipart(upload, &[1], CompleteOptions::default()).unwrap();
    contents.insert("/u/uploaded".to_owned(), parts);
    archive.clone_object(&path("/shared"), Which::Current, &path("/copy"), CloneOptions::default()).unwrap();
    contents.insert("/copy".to_owned(), contents["/shared"].clone());
    let second = shipped(&archive);

    let archive = back_to(&instance, archive, first);
    migrate_all(&archive);
    ["/deleted", "/deleted-too"].iter().for_each(|name| archive.remove(&path(name)).unwrap());
    assert_eq!(archive.evict(&all(&["/"])).unwrap().refused_count, 0);
    sweep(&archive);
    assert!(extents_quarantined(&archive) > 0);
    check(&archive);

    let archive = back_to(&instance, archive, second);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// What is kept for later points goes when the quarantine is ended.
#[test]
fn what_was_kept_for_later_points_goes_with_the_quarantine() {
    let instance = instance();
    let archive = open(&instance);
    let mut contents = Contents::new();
    for n in 0..8 {
        put_as(&archive, &mut contents, &format!("/file{n}"), n, 300_000);
    }
    let extents = || {
        instance.settings.pool.drives.iter().map(|drive| extents(drive.at.directory()).len()).sum::<usize>()
    };
    let of_files = 8 * 6;
    let point = shipped(&archive);
    let archive = back_to(&instance, archive, point);
    migrate_all(&archive);
    evict_all(&archive);
    assert_eq!(extents_quarantined(&archive), of_files);
    let before = extents();
    give_up_the_past(&archive, &instance);
    archive.end_quarantine().unwrap();
    wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
    assert_eq!((extents_quarantined(&archive), extents()), (0, before - of_files as usize));
    recall_and_compare(&archive, &contents);
    archive.close();
}

/// Uploads that were begun after the restore belong to clients of now.
#[test]
fn uploads_that_were_begun_after_a_restore_outlast_starts_that_do_not_settle_it() {
    let instance = instance();
    let archive = open(&instance);
    put(&archive, "/file", &bytes(1, 300_000));
    migrate_all(&archive);
    let old = begin_upload(&archive, "/u/old", &bytes(2, 300_000));
    let point = shipped(&archive);
    let tapes = used_tapes(&instance, &archive);
    restore_to(&instance, archive, point);
    tapes.iter().for_each(|tape| fs::rename(tape, aside(tape)).unwrap());
    let archive = open(&instance);
    assert!(archive.multipart(old).is_err(), "nobody knows whether the pool has its parts");
    let content = bytes(3, 300_000);
    let upload = begin_upload(&archive, "/u/new", &content);
    archive.close();
    drop(archive);
    let archive = open(&instance);
    assert!(archive.end_quarantine().unwrap_err().to_string().contains("not settled"));
    archive.complete_multipart(upload, &[1], CompleteOptions::default()).unwrap();
    assert!(get(&archive, "/u/new").unwrap() == content);
    archive.close();
}

fn used_tapes(instance: &Instance, archive: &Archive) -> Vec<PathBuf> {
    let used = archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_some());
    used.map(|tape| instance.cartridge(tape.vid)).collect()
}

fn aside(path: &Path) -> PathBuf {
    let name = format!("{}.aside", path.file_name().unwrap().to_str().unwrap());
    path.ancestors().nth(2).unwrap().join(name)
}

/// Story: the first start after a restore missed drives to which shards had moved, and tapes. It decided
/// nothing; then a get, the scrubber or a stage met files that it could not read, took their tapes' word, and
/// gave up the pool copies, which the drives and nobody else had.
#[test]
fn nothing_is_given_up_before_a_restore_is_settled() {
    let instance = instance();
    let archive = open(&instance);
    let names: Vec<String> = (0..12).map(|n| format!("/t/file{n}")).collect();
    let content = |n: usize| bytes(n as u64 + 1, if n.is_multiple_of(3) { 3_000 } else { 300_000 });
    names.iter().enumerate().for_each(|(n, name)| drop(put(&archive, name, &content(n))));
    migrate_all(&archive);
    let tapes = used_tapes(&instance, &archive);
    let point = shipped(&archive);
    for drive in 0..4 {
        replace_lost(&archive, &instance, drive, 0);
    }
    restore_to(&instance, archive, point);
    let drives = [4usize, 5, 6].map(|drive| instance.settings.pool.drives[drive].at.directory().to_owned());
    let away: Vec<&PathBuf> = drives.iter().chain(&tapes).collect();
    away.iter().for_each(|path| fs::rename(path, aside(path)).unwrap());
    let archive = open(&instance);
    let unreadable = names.iter().filter(|name| get(&archive, name).is_err()).count();
    assert!(unreadable > 0, "the drives that are away decide on no file");
    let before = archive.scrub_info().passes;
    archive.scrub_now();
    wait_until("the pass is done", || archive.scrub_info().passes > before);
    stage(&archive, &["/"]);
    sweep(&archive);
    archive.close();
    drop(archive);
    away.iter().for_each(|path| fs::rename(aside(path), path).unwrap());
    // What is found is found in the pool: the tapes stay where they are.
    tapes.iter().for_each(|tape| fs::rename(tape, aside(tape)).unwrap());
    let archive = open(&instance);
    for (n, name) in names.iter().enumerate() {
        assert!(get(&archive, name).unwrap() == content(n), "{name}");
    }
    check(&archive);
    archive.close();
}

/// Story: drives were lost and rebuilt elsewhere, and came back with what they had held damaged. After a
/// restore to before that, the damaged extents stood where the catalogue named them, nobody looked for the
/// whole ones, and the files were LOST.
#[test]
fn whole_shards_are_found_although_damaged_ones_stand_in_their_places() {
    let instance = instance();
    let archive = open(&instance);
    let mut contents = Contents::new();
    for n in 0..24 {
        let length = if n % 3 == 0 { 3_000 } else { 300_000 };
        put_as(&archive, &mut contents, &format!("/t/file{n}"), n, length);
    }
    let point = shipped(&archive);
    for drive in 0..4 {
        replace_lost(&archive, &instance, drive, 0);
    }
    restore_to(&instance, archive, point);
    let mut damaged = 0;
    for drive in &instance.settings.pool.drives[..4] {
        let gone = drive.at.directory().with_extension("gone0");
        for extent in extents(&gone) {
            let to = drive.at.directory().join(extent.strip_prefix(&gone).unwrap());
            if to.exists() {
                continue;
            }
            // Every second one is cut off, the others have other bytes.
            let content = fs::read(&extent).unwrap();
            let content =
                if damaged % 2 == 0 { vec![0; 4096] } else { content.iter().map(|byte| !byte).collect() };
            fs::write(to, content).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 40, "{damaged} extents");
    let archive = open(&instance);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// Story: as above with two drives, and a third shard of each stripe damaged where no header tells. Enough
/// seemed to be there, nobody looked for the whole shards, and the first read made the files LOST.
#[test]
fn whole_shards_are_found_although_enough_seems_to_be_there() {
    let instance = instance();
    let archive = open(&instance);
    let mut contents = Contents::new();
    (0..12).for_each(|n| put_as(&archive, &mut contents, &format!("/t/file{n}"), n, 300_000));
    let point = shipped(&archive);
    (0..2).for_each(|drive| replace_lost(&archive, &instance, drive, 0));
    restore_to(&instance, archive, point);
    let mut cut_off = 0;
    for drive in &instance.settings.pool.drives[..2] {
        let gone = drive.at.directory().with_extension("gone0");
        for extent in extents(&gone) {
            let to = drive.at.directory().join(extent.strip_prefix(&gone).unwrap());
            if !to.exists() {
                fs::write(to, vec![0; 4096]).unwrap();
                cut_off += 1;
            }
        }
    }
    assert!(cut_off > 12, "{cut_off} extents");
    extents(instance.settings.pool.drives[2].at.directory()).iter().for_each(|extent| damage(extent));
    let archive = open(&instance);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// Story: a whole shard that stood beside its place was removed when its time was over, though the one in its
/// place was damaged.
#[test]
fn a_shard_beside_its_place_stays_until_the_one_in_its_place_was_read() {
    let instance = instance();
    let archive = instance.open();
    put(&archive, "/file", &bytes(1, 300_000));
    archive.close();
    drop(archive);
    let drives = || instance.settings.pool.drives.iter().map(|drive| drive.at.directory());
    let is_shard = |extent: &PathBuf| fs::read(extent).unwrap().starts_with(b"KISTCELL");
    let from = drives().flat_map(extents).find(is_shard).unwrap();
    let name = from.file_name().unwrap();
    let bucket = from.parent().unwrap().file_name().unwrap();
    let stripe = name.to_str().unwrap().rsplit_once('.').unwrap().0;
    let holds = |drive: &Path| extents(drive).iter().any(|it| it.to_str().unwrap().contains(stripe));
    let beside = drives().find(|drive| !holds(drive)).unwrap().join("extents").join(bucket).join(name);
    fs::copy(&from, &beside).unwrap();
    damage(&from);
    let archive = instance.open();
    archive.scrub_now();
    wait_until("it is written anew", || fs::read(&from).unwrap() == fs::read(&beside).unwrap());
    assert!(beside.exists(), "the start found the one in its place damaged");
    archive.close();
    drop(archive);
    let archive = instance.open();
    wait_until("nobody needs it", || !beside.exists());
    assert!(get(&archive, "/file").unwrap() == bytes(1, 300_000));
    archive.close();
}

/// Wrong bytes behind the header of the first cell.
fn damage(extent: &Path) {
    let mut content = fs::read(extent).unwrap();
    content[5_000] ^= 1;
    fs::write(extent, content).unwrap();
}
