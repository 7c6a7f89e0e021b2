//! Packs whose copies are written again, or for the first time, although the pool lacks a part of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::common::{all, bytes, get, migrate_all, path, put, stage, wait_for, wait_until};
use crate::faulty::{Trouble, check_all, data, place};
use archive::{Archive, CheckState, Locality, Stat, TapeUse};
use base::Vid;
use library::Faults;

type Files = Vec<(String, Vec<u8>)>;

fn small_files(archive: &Archive) -> Files {
    let small: Files = (0..20).map(|n| (format!("/t/small{n}"), bytes(100 + n, 30_000))).collect();
    for (name, content) in &small {
        put(archive, name, content);
    }
    small
}

/// A pack on two tapes that is being taken off the first one, with no tape to go to; its members and its
/// skeleton are in the pool still.
struct HalfRepacked {
    archive: Archive,
    faults: Faults,
    /// The tape that is repacked, and the one with the other copy.
    old: Vid,
    other: Vid,
    /// Tapes that are set aside until the pack may go on.
    waiting: Vec<Vid>,
    files: Files,
}

impl HalfRepacked {
    fn new(trouble: &Trouble) -> Self {
        let (archive, faults) = trouble.open();
        put(&archive, "/t/first", &bytes(9, 3_000_000));
        migrate_all(&archive);
        let tapes: Vec<Vid> = place(&archive, "/t/first").into_iter().map(|(vid, _)| vid).collect();
        let (old, other) = (tapes[0], tapes[1]);
        let all = archive.tapes().unwrap().into_iter().map(|tape| tape.vid);
        let mut waiting: Vec<Vid> = all.filter(|vid| *vid != old).collect();
        for vid in &waiting {
            wait_until("it is set aside", || archive.set_tape(*vid, TapeUse::Disabled, "not yet").is_ok());
        }
        let files = small_files(&archive);
        archive.migrate_now(None).unwrap();
        wait_until("one copy is there", || place(&archive, "/t/small7").len() == 1);
        archive.repack_tape(old, "for the test").unwrap();
        wait_until("its session has ended", || {
            archive.tape_repack(old).unwrap().is_some_and(|repack| repack.under_way > 0)
        });
        archive.set_tape(other, TapeUse::Active, "").unwrap();
        waiting.retain(|vid| *vid != other);
        // Of the copy that is queued again the tape is told that it can be read from.
        wait_until("the other copy is there", || place(&archive, "/t/small7").len() == 2);
        wait_until("the files can go", || {
            archive.evict(&self::all(&["/t/first"])).unwrap().refused_count == 0
        });
        wait_until("the other copy is under an index", || safe_copies(&archive) == 1);
        HalfRepacked { archive, faults, old, other, waiting, files }
    }

    /// The others may be written to: the pack comes to one of them.
    fn go_on(&self) {
        for vid in &self.waiting {
            self.archive.set_tape(*vid, TapeUse::Active, "").unwrap();
        }
    }

    fn wait_for_repack(&self) {
        wait_until("nothing is left on it", || {
            self.archive.tape_repack(self.old).unwrap().is_some_and(|repack| repack.done)
        });
    }

    /// The copy that was written last is the one that is read.
    fn check_new_copy(&self) {
        self.archive.set_tape(self.other, TapeUse::Disabled, "so that the new one is read").unwrap();
        let evicted = self.archive.evict(&all(&["/t"])).unwrap();
        assert_eq!(evicted.refused_count, 0, "{:?}", evicted.refused);
        let request = stage(&self.archive, &["/t"]);
        wait_for(&self.archive, request);
        check_all(&self.archive, &self.files);
        self.archive.close();
    }
}

/// Copies of the pack that are at rest under an index.
fn safe_copies(archive: &Archive) -> usize {
    let Stat::File(stat) = archive.stat(&path("/t/small7")).unwrap() else { panic!("a file") };
    stat.copies.iter().filter(|copy| copy.state == archive::CopyProgress::Indexed).count()
}

/// Nobody was told from which tape a file could be read whose copy was queued again by a repack: a test that
/// waited for both tapes waited for ever. The members left the pool before the skeleton did, so the bytes
/// come from tape.
#[test]
fn a_pack_whose_members_left_the_pool_before_its_skeleton_comes_from_tape() {
    let trouble = Trouble::new(2);
    let pack = HalfRepacked::new(&trouble);
    assert_eq!(pack.archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    pack.go_on();
    pack.wait_for_repack();
    pack.check_new_copy();
}

/// A member that was deleted is gone from the pool, and the others are there: what the pool has is not the
/// whole pack.
#[test]
fn a_pack_with_a_deleted_member_comes_from_tape() {
    let trouble = Trouble::new(2);
    let mut pack = HalfRepacked::new(&trouble);
    pack.archive.remove(&path("/t/small3")).unwrap();
    pack.files.retain(|(name, _)| name != "/t/small3");
    pack.go_on();
    pack.wait_for_repack();
    pack.check_new_copy();
}

/// The place that a repack reads from is damaged: the other copy gives the bytes of both.
#[test]
fn a_damaged_source_is_mended_from_the_other_copy() {
    let trouble = Trouble::new(2);
    let pack = HalfRepacked::new(&trouble);
    let at = place(&pack.archive, "/t/small7");
    let (_, block) = *at.iter().find(|(vid, _)| *vid == pack.old).unwrap();
    assert_eq!(pack.archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    pack.faults.plan_unreadable(pack.old, data(block.0 + 3));
    pack.archive.check_tapes(&[pack.old]).unwrap();
    wait_until("the check is done", || {
        pack.archive.tape_check(pack.old).unwrap().is_some_and(|check| check.state == CheckState::Done)
    });
    assert!(pack.faults.fired() > 0);
    pack.go_on();
    pack.wait_for_repack();
    wait_until("both copies are there", || safe_copies(&pack.archive) == 2);
    pack.check_new_copy();
}

fn extents(trouble: &Trouble) -> BTreeMap<String, Vec<PathBuf>> {
    extents_of(&trouble.instance)
}

/// Extents of the pool by blob.
fn extents_of(instance: &crate::common::Instance) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found = BTreeMap::<String, Vec<PathBuf>>::new();
    for drive in &instance.settings.pool.drives {
        for bucket in fs::read_dir(drive.at.directory().join("extents")).unwrap() {
            for extent in fs::read_dir(bucket.unwrap().path()).unwrap() {
                let path = extent.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                let blob = name.split('.').next().unwrap().to_owned();
                found.entry(blob).or_default().push(path);
            }
        }
    }
    found
}

/// Removes the one striped blob that is there, a pack's skeleton among segments of small files.
fn lose_skeleton(trouble: &Trouble) {
    let striped: Vec<_> = extents(trouble).into_values().filter(|paths| paths.len() == 6).collect();
    assert_eq!(striped.len(), 1, "the skeleton alone is striped: {striped:?}");
    striped[0].iter().for_each(|path| fs::remove_file(path).unwrap());
}

fn set_all_tapes(archive: &Archive, to: TapeUse) {
    for tape in archive.tapes().unwrap() {
        wait_until("it is set", || archive.set_tape(tape.vid, to, "for the test").is_ok());
    }
}

/// Small files in a pack that waits for tapes.
fn sealed(trouble: &Trouble) -> (Archive, Files) {
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let files = small_files(&archive);
    archive.migrate_now(None).unwrap();
    wait_until("the pack is sealed", || archive.totals().unwrap().todo.files == 0);
    (archive, files)
}

/// The containers of a small file.
fn containers(archive: &Archive) -> BTreeSet<base::ContainerId> {
    let Stat::File(stat) = archive.stat(&path("/t/small7")).unwrap() else { panic!("a file") };
    stat.copies.iter().map(|copy| copy.container).collect()
}

/// A sealed pack that no tape had, and whose skeleton the pool had lost, waited for ever, and its files with
/// it, though the pool had them all.
#[test]
fn a_pack_that_lost_its_skeleton_before_any_tape_had_it_is_sealed_anew() {
    let trouble = Trouble::new(2);
    let (archive, files) = sealed(&trouble);
    archive.remove(&path("/t/small5")).unwrap();
    let files: Files = files.into_iter().filter(|(name, _)| name != "/t/small5").collect();
    archive.close();
    drop(archive);
    lose_skeleton(&trouble);
    let (archive, _) = trouble.open();
    comes_in_another_pack(&archive, &files);
    crate::faulty::round(&archive, &files);
    archive.close();
}

/// A pack that waits for tapes, with a member of which the pool has lost all bytes.
fn sealed_with_a_bad_member(trouble: &Trouble) -> (Archive, Files) {
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let before = extents(trouble);
    put(&archive, "/t/bad", &bytes(1, 300_000));
    let new = extents(trouble).into_iter().filter(|(blob, _)| !before.contains_key(blob));
    let shards: Vec<PathBuf> = new.flat_map(|(_, paths)| paths).collect();
    assert_eq!(shards.len(), 6, "the shards of the file");
    let files = small_files(&archive);
    archive.migrate_now(None).unwrap();
    wait_until("the pack is sealed", || archive.totals().unwrap().todo.files == 0);
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    (archive, files)
}

/// The pack of the small files is given up, and another one of them comes to tape.
fn comes_in_another_pack(archive: &Archive, files: &Files) {
    let pack = containers(archive);
    set_all_tapes(archive, TapeUse::Active);
    archive.migrate_now(None).unwrap();
    wait_until("the pack is given up", || containers(archive).is_disjoint(&pack));
    migrate_all(archive);
    for (name, _) in files {
        assert_eq!(place(archive, name).len(), 2, "{name}: {:?}", archive.why_path(&path(name)));
    }
}

/// A member of a sealed pack that no tape had was lost with its drives: the others waited for ever.
#[test]
fn a_pack_with_a_lost_member_is_sealed_anew_without_it() {
    let trouble = Trouble::new(2);
    let (archive, files) = sealed_with_a_bad_member(&trouble);
    archive.scrub_now();
    wait_until("the file is known to be lost", || {
        let Stat::File(stat) = archive.stat(&path("/t/bad")).unwrap() else { panic!("a file") };
        stat.locality == Locality::Lost
    });
    comes_in_another_pack(&archive, &files);
    assert!(get(&archive, "/t/bad").is_err());
    archive.close();
}

/// The bytes of a deleted member were kept for the pack alone, and could not be read: nobody can be told that
/// they are lost, and the others waited for ever.
#[test]
fn a_pack_with_an_unreadable_deleted_member_is_sealed_anew_without_it() {
    let trouble = Trouble::new(2);
    let (archive, files) = sealed_with_a_bad_member(&trouble);
    archive.remove(&path("/t/bad")).unwrap();
    comes_in_another_pack(&archive, &files);
    crate::faulty::round(&archive, &files);
    archive.close();
}

/// A file whose copies were flushed and under no index was LOST when the pool lost it; it stayed so after the
/// index was written, until the scrubber came to it.
#[test]
fn a_lost_file_is_nearline_as_soon_as_an_index_covers_it() {
    let instance = crate::common::Instance::with(base::ByteCount::mib(128), |settings| {
        // The tapes stay in their drives, and get no index.
        settings.tape.dismount_delay = std::time::Duration::from_secs(3600);
    });
    let archive = instance.open();
    let before = extents_of(&instance);
    put(&archive, "/t/file", &bytes(5, 3_000_000));
    let shards: Vec<PathBuf> = extents_of(&instance)
        .into_iter()
        .filter(|(blob, _)| !before.contains_key(blob))
        .flat_map(|(_, paths)| paths)
        .collect();
    assert_eq!(shards.len(), 6);
    let stat = || {
        let Stat::File(stat) = archive.stat(&path("/t/file")).unwrap() else { panic!("a file") };
        stat
    };
    let is_flushed = |copy: &archive::CopyInfo| copy.state == archive::CopyProgress::Flushed;
    wait_until("both copies are flushed", || {
        let copies = stat().copies;
        copies.len() == 2 && copies.iter().all(is_flushed)
    });
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    archive.scrub_now();
    wait_until("it is lost", || stat().locality == Locality::Lost);
    assert!(stat().copies.iter().all(is_flushed), "no index covers it: {:?}", stat().copies);
    // Somebody is in a hurry: a session that drains after that writes its index at once.
    let mut number = 0;
    wait_until("it is back from tape", || {
        number += 1;
        put(&archive, &format!("/t/other{number}"), &bytes(6, 3_000_000));
        archive.migrate_now(None).unwrap();
        get(&archive, "/t/file").is_ok_and(|found| found == bytes(5, 3_000_000))
    });
    archive.close();
}

/// Story: both copies of a pack were damaged at different places, and put together into an image in the pool,
/// the only whole copy. When the pool could not give it for a moment, it was dropped, and made garbage of.
#[test]
fn an_image_that_cannot_be_read_for_a_moment_is_kept() {
    let trouble = Trouble::new(2);
    let (archive, faults) = trouble.open();
    let files = small_files(&archive);
    migrate_all(&archive);
    wait_until("both", || safe_copies(&archive) == 2);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let at = place(&archive, "/t/small7");
    let vids: Vec<Vid> = archive.tapes().unwrap().into_iter().map(|tape| tape.vid).collect();
    let ours: Vec<Vid> = at.iter().map(|(vid, _)| *vid).collect();
    for vid in &vids {
        let to = if ours.contains(vid) { TapeUse::ReadOnly } else { TapeUse::Disabled };
        wait_until("it is set", || archive.set_tape(*vid, to, "for the test").is_ok());
    }
    faults.plan_unreadable(at[0].0, data(at[0].1.0 + 2));
    faults.plan_unreadable(at[1].0, data(at[1].1.0 + 6));
    archive.check_tapes(&ours).unwrap();
    wait_until("one copy is queued, from an image", || place(&archive, "/t/small7").len() == 1);
    let striped = || extents(&trouble).into_values().filter(|paths| paths.len() == 6).flatten();
    let away = |path: &PathBuf| trouble.instance.directory.path().join(path.file_name().unwrap());
    wait_until("the image is in the pool", || striped().count() > 0);
    let moved: Vec<(PathBuf, PathBuf)> = striped().map(|path| (path.clone(), away(&path))).collect();
    moved.iter().for_each(|(from, to)| fs::rename(from, to).unwrap());
    for vid in vids.iter().filter(|vid| !ours.contains(vid)) {
        archive.set_tape(*vid, TapeUse::Active, "").unwrap();
    }
    archive.migrate_now(None).unwrap();
    let is_resting = || archive.why_path(&path("/t/small7")).unwrap().join(" ").contains("lost");
    wait_until("a drive has found that it cannot be read", is_resting);
    moved.iter().for_each(|(from, to)| fs::rename(to, from).unwrap());
    // A recall may still meet a damaged place while the image is on its way to other tapes.
    wait_until("every file can be read", || {
        archive.migrate_now(None).unwrap();
        let request = stage(&archive, &["/t"]);
        wait_until("it ends", || archive::has_ended(archive.request(request).unwrap().record.state));
        files.iter().all(|(name, content)| get(&archive, name).is_ok_and(|found| found == *content))
    });
    archive.close();
}
