//! Files that are larger than a tape: cut when they are sealed, joined when they come back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use archive::{
    About, Archive, CheckState, CompleteOptions, CopyInfo, CopyProgress, Locality, PutOptions, Stat, TapeUse,
};
use base::{BlockAddress, ByteCount, FileId, RequestId, Vid};
use catalogue::{ContainerKind, RequestState};
use library::VirtualCartridgeOptions;

use crate::common::{
    Instance, all, bytes, extents, get, migrate_all, path, put, put_with, scrub, stage, stop, wait_for,
    wait_until,
};
use crate::faulty::{Trouble, data, set_drives};
use crate::history::{blank_pool, destroy_catalogue, flip};
use crate::openness::read_cartridge;
use crate::rebuild::rebuild_all;
use crate::restoring;

/// What a cartridge of the tests has.
const CARTRIDGE: ByteCount = ByteCount::mib(20);
/// What an empty one takes: less a sixteenth.
const LARGEST: u64 = (20 << 20) - (20 << 16);
/// Where it is cut.
const PART: u64 = 18 << 20;
/// The last part of [`huge`].
const REST: u64 = 5_000_001;
const HUGE: &str = "/data/huge";

fn tapes(count: u32) -> Instance {
    Instance::with_many_tapes(count, CARTRIDGE, VirtualCartridgeOptions::default(), |_| {})
}

/// A file of three parts.
fn huge() -> Vec<u8> {
    bytes(7, (2 * PART + REST) as usize)
}

fn copies(archive: &Archive, at: &str) -> Vec<CopyInfo> {
    match archive.stat(&path(at)).unwrap() {
        Stat::File(stat) => stat.copies,
        Stat::Directory { .. } => panic!("{at} is a directory"),
    }
}

/// Offset and length of each part, from the containers.
fn parts(archive: &Archive, at: &str) -> BTreeMap<u64, u64> {
    let part = |copy: CopyInfo| match copy.container_kind {
        ContainerKind::Segment { file_offset, .. } => (file_offset.0, copy.length.0),
        ContainerKind::File(_) => (0, copy.length.0),
        ContainerKind::Pack => panic!("{at} is in a pack"),
    };
    copies(archive, at).into_iter().map(part).collect()
}

/// The copies of the part from this offset on, in the order of the tape pools.
fn copies_of(archive: &Archive, at: &str, offset: u64) -> Vec<CopyInfo> {
    let mut copies = copies(archive, at);
    copies.retain(|copy| match copy.container_kind {
        ContainerKind::Segment { file_offset, .. } => file_offset.0 == offset,
        ContainerKind::File(_) | ContainerKind::Pack => false,
    });
    copies
}

/// Where they stand.
fn places(archive: &Archive, at: &str, offset: u64) -> Vec<(Vid, BlockAddress)> {
    let place = |copy: CopyInfo| (copy.vid.unwrap(), copy.block.unwrap());
    copies_of(archive, at, offset).into_iter().map(place).collect()
}

fn vids(archive: &Archive, offset: u64) -> BTreeSet<Vid> {
    places(archive, HUGE, offset).into_iter().map(|(vid, _)| vid).collect()
}

fn evict(archive: &Archive, at: &str) {
    let evicted = archive.evict(&all(&[at])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (1, 0), "{evicted:?}");
    wait_until("the pool is empty", || archive.pool_info().unwrap().garbage == 0);
}

fn check(archive: &Archive) {
    let found = archive.verify_catalogue().unwrap();
    assert!(found.is_empty(), "{found:?}");
}

/// How many parts of the file came, as `kist why` tells.
fn come(archive: &Archive) -> Option<u32> {
    let causes = archive.explain(&About::Path(path(HUGE))).unwrap();
    let text = causes.iter().find_map(|cause| cause.text.strip_prefix("recall: "))?;
    text.split_once(" of 3 parts are in the pool")?.0.parse().ok()
}

fn state(archive: &Archive, request: RequestId) -> RequestState {
    archive.request(request).unwrap().record.state
}

/// Files of all drives of the pool.
fn extents_of(instance: &Instance) -> usize {
    instance.settings.pool.drives.iter().map(|drive| extents(drive.at.directory()).len()).sum()
}

/// Takes cartridges out of the library, or puts them back. The archive is closed.
fn set_away(instance: &Instance, vids: &BTreeSet<Vid>, away: bool) {
    for vid in vids {
        let there = instance.cartridge(*vid);
        let here = instance.directory.path().join(format!("shelf-{vid}"));
        let (from, to) = if away { (&there, &here) } else { (&here, &there) };
        fs::rename(from, to).unwrap();
    }
}

/// A file that is on its tapes and not in the pool; those that have all but the part at `offset` are on a
/// shelf. Gives the tapes on the shelf.
fn one_part_in_reach(instance: &Instance, offset: u64) -> BTreeSet<Vid> {
    let archive = instance.open();
    put(&archive, HUGE, &huge());
    migrate_all(&archive);
    evict(&archive, HUGE);
    let of_part = vids(&archive, offset);
    let mut others: BTreeSet<Vid> =
        [0, PART, 2 * PART].iter().flat_map(|offset| vids(&archive, *offset)).collect();
    others.retain(|vid| !of_part.contains(vid));
    stop(archive);
    set_away(instance, &others, true);
    others
}

#[test]
fn a_file_of_three_tapes_goes_to_tape_and_back() {
    let instance = tapes(8);
    let archive = instance.open();
    let content = huge();
    put(&archive, HUGE, &content);
    put(&archive, "/data/other", &bytes(8, 3_000_000));
    migrate_all(&archive);
    let expected = BTreeMap::from([(0, PART), (PART, PART), (2 * PART, REST)]);
    assert_eq!(parts(&archive, HUGE), expected);
    assert_eq!(copies(&archive, HUGE).len(), 6, "each part has two copies");
    expected.keys().for_each(|offset| assert_eq!(vids(&archive, *offset).len(), 2, "on two tapes"));
    evict(&archive, HUGE);
    check(&archive);
    let request = stage(&archive, &[HUGE]);
    wait_for(&archive, request);
    assert_eq!(archive.request(request).unwrap().record.done, 1);
    assert!(get(&archive, HUGE).unwrap() == content);
    let part = archive.open_read(&path(HUGE)).unwrap();
    assert_eq!(part.stat().locality, Locality::OnlineAndNearline);
    drop(part);
    check(&archive);
    archive.release(request, None).unwrap();
    evict(&archive, HUGE);
    assert_eq!(extents_of(&instance), extents_of_the_other(&archive, &instance), "all pieces are gone");
    archive.close();
}

/// What is in the pool beside the file: the one that was not evicted.
fn extents_of_the_other(archive: &Archive, instance: &Instance) -> usize {
    archive.remove(&path(HUGE)).unwrap();
    wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
    extents_of(instance)
}

/// Story: a file that was one byte larger than a tape takes was refused at the put, also of S3.
#[test]
fn what_an_empty_tape_takes_is_not_cut_and_one_byte_more_is() {
    let instance = tapes(8);
    let archive = instance.open();
    let whole = bytes(1, LARGEST as usize);
    let cut = bytes(2, LARGEST as usize + 1);
    put(&archive, "/data/whole", &whole);
    // Without its length, as a stream of which nobody knows where it ends.
    put_with(&archive, "/data/cut", &cut, PutOptions { make_parents: true, ..PutOptions::default() })
        .unwrap();
    migrate_all(&archive);
    assert_eq!(parts(&archive, "/data/whole"), BTreeMap::from([(0, LARGEST)]));
    assert!(matches!(copies(&archive, "/data/whole")[0].container_kind, ContainerKind::File(_)));
    let expected = BTreeMap::from([(0, PART), (PART, LARGEST + 1 - PART)]);
    assert_eq!(parts(&archive, "/data/cut"), expected);
    for (name, content) in [("/data/whole", whole), ("/data/cut", cut)] {
        evict(&archive, name);
        wait_for(&archive, stage(&archive, &[name]));
        assert!(get(&archive, name).unwrap() == content, "{name}");
    }
    archive.close();
}

/// An upload in parts has pieces of its own, which the cuts do not know.
#[test]
fn an_upload_in_parts_is_cut_where_tapes_end() {
    let instance = tapes(8);
    let archive = instance.open();
    let content = huge();
    put(&archive, "/data/first", b"the bucket is there");
    let upload = archive
        .open_multipart(&path(HUGE), PutOptions { make_parents: true, ..PutOptions::default() })
        .unwrap();
    let mut named = Vec::new();
    for (number, chunk) in (1u16..).zip(content.chunks(7_000_003)) {
        let mut part = archive.begin_part(upload, number, Some(ByteCount(chunk.len() as u64))).unwrap();
        part.write(chunk).unwrap();
        part.finish(Vec::new()).unwrap();
        named.push(number);
    }
    archive.complete_multipart(upload, &named, CompleteOptions::default()).unwrap();
    migrate_all(&archive);
    assert_eq!(parts(&archive, HUGE).len(), 3);
    evict(&archive, HUGE);
    wait_for(&archive, stage(&archive, &[HUGE]));
    assert!(get(&archive, HUGE).unwrap() == content);
    archive.close();
}

/// One part comes, the server is stopped, and goes on with the others: what came is not read again.
#[test]
fn a_recall_goes_on_where_a_stop_left_it() {
    for offset in [0, PART] {
        let instance = tapes(6);
        let shelf = one_part_in_reach(&instance, offset);
        let archive = instance.open();
        let request = stage(&archive, &[HUGE]);
        wait_until("one part came", || come(&archive) == Some(1));
        check(&archive);
        assert!(archive.open_read(&path(HUGE)).is_err(), "a part is no file");
        stop(archive);
        // The tapes that gave it are not needed any more.
        set_away(&instance, &shelf, false);
        let archive = instance.open();
        assert_eq!(come(&archive), Some(1));
        vids(&archive, offset).difference(&shelf).for_each(|vid| {
            archive.set_tape(*vid, TapeUse::Disabled, "so that it is not read again").unwrap();
        });
        wait_for(&archive, request);
        assert_eq!(archive.request(request).unwrap().record.done, 1);
        assert!(get(&archive, HUGE).unwrap() == huge());
        check(&archive);
        archive.close();
    }
}

/// Half of the file is in the pool, and nobody waits for it any more: its room is free again.
#[test]
fn a_cancel_and_a_delete_half_way_give_the_room_back() {
    for deleted in [false, true] {
        let instance = tapes(6);
        one_part_in_reach(&instance, PART);
        let archive = instance.open();
        let before = extents_of(&instance);
        let request = stage(&archive, &[HUGE]);
        wait_until("one part came", || come(&archive) == Some(1));
        assert!(extents_of(&instance) > before);
        if deleted {
            archive.remove(&path(HUGE)).unwrap();
            assert_eq!(state(&archive, request), RequestState::Completed);
        } else {
            archive.cancel_request(request).unwrap();
            assert_eq!(state(&archive, request), RequestState::Cancelled);
        }
        wait_until("the room is free", || extents_of(&instance) == before);
        check(&archive);
        archive.close();
    }
}

/// The pool loses what came of the file: it is asked for again, and read from its tapes once more.
#[test]
fn a_part_that_the_pool_lost_is_read_again() {
    let instance = tapes(6);
    let mut shelf = one_part_in_reach(&instance, PART);
    let archive = instance.open();
    let request = stage(&archive, &[HUGE]);
    wait_until("one part came", || come(&archive) == Some(1));
    let in_reach = vids(&archive, PART);
    stop(archive);
    // More than the code bears; and nothing is read again before that was looked at.
    for drive in instance.settings.pool.drives.iter().take(5) {
        extents(drive.at.directory()).iter().for_each(|extent| fs::remove_file(extent).unwrap());
    }
    set_away(&instance, &in_reach, true);
    shelf.extend(in_reach);
    let archive = instance.open();
    scrub(&archive);
    assert_eq!(come(&archive), Some(0));
    check(&archive);
    stop(archive);
    set_away(&instance, &shelf, false);
    let archive = instance.open();
    wait_for(&archive, request);
    assert!(get(&archive, HUGE).unwrap() == huge());
    archive.close();
}

/// Deleted when it is sealed and on no tape: none is written for it, and its room is free.
#[test]
fn parts_of_a_deleted_file_go_to_no_tape() {
    let trouble = trouble();
    let (archive, _) = trouble.open();
    set_drives(&archive, false);
    let before = extents_of(&trouble.instance);
    put(&archive, HUGE, &huge());
    wait_until("it is sealed", || copies(&archive, HUGE).len() == 6);
    archive.remove(&path(HUGE)).unwrap();
    set_drives(&archive, true);
    archive.migrate_now(None).unwrap();
    wait_until("nothing is queued", || archive.totals().unwrap().queued.files == 0);
    wait_until("the room is free", || extents_of(&trouble.instance) == before);
    assert!(archive.tapes().unwrap().iter().all(|tape| tape.containers == 0));
    check(&archive);
    archive.close();
}

fn trouble() -> Trouble {
    Trouble::of(tapes(8), 2)
}

/// One copy of one part cannot be read: the other one serves, and the part alone is written again.
#[test]
fn a_damaged_part_is_read_from_its_other_copy_and_written_again() {
    let trouble = trouble();
    let (archive, faults) = trouble.open();
    let content = huge();
    put(&archive, HUGE, &content);
    migrate_all(&archive);
    evict(&archive, HUGE);
    let before: Vec<_> = [0, PART, 2 * PART].map(|offset| places(&archive, HUGE, offset)).to_vec();
    let (bad, good) = (before[1][0], before[1][1]);
    archive.set_tape(good.0, TapeUse::Disabled, "so that the other one is read").unwrap();
    faults.plan_unreadable(bad.0, data(bad.1.0 + 3));
    let request = stage(&archive, &[HUGE]);
    wait_until("the damaged block was read", || faults.fired() > 0);
    archive.set_tape(good.0, TapeUse::Active, "").unwrap();
    wait_for(&archive, request);
    assert_eq!(archive.request(request).unwrap().record.failed, 0, "{:?}", archive.why_request(request));
    assert!(get(&archive, HUGE).unwrap() == content);
    wait_until("the part is written again", || {
        let now = places_if_written(&archive, PART);
        now.len() == 2 && !now.contains(&bad) && archive.totals().unwrap().unindexed == 0
    });
    for (offset, before) in [0, 2 * PART].into_iter().zip([&before[0], &before[2]]) {
        assert_eq!(&places(&archive, HUGE, offset), before, "the other parts stay where they are");
    }
    check(&archive);
    archive.close();
}

/// Story: both copies of a part were damaged, at different places, and the request failed for good, although
/// they were put together a second later.
#[test]
fn a_part_that_is_damaged_in_both_copies_comes_from_what_they_have_together() {
    let trouble = trouble();
    let (archive, faults) = trouble.open();
    let content = huge();
    put(&archive, HUGE, &content);
    migrate_all(&archive);
    evict(&archive, HUGE);
    let places = places(&archive, HUGE, PART);
    faults.plan_unreadable(places[0].0, data(places[0].1.0 + 3));
    faults.plan_unreadable(places[1].0, data(places[1].1.0 + 11));
    let request = stage(&archive, &[HUGE]);
    wait_for(&archive, request);
    assert_eq!(archive.request(request).unwrap().record.failed, 0, "{:?}", archive.why_request(request));
    assert!(faults.fired() > 1, "both damaged blocks were read");
    assert!(get(&archive, HUGE).unwrap() == content);
    wait_until("the part is written again", || {
        let now = places_if_written(&archive, PART);
        now.len() == 2
            && !places.iter().all(|place| now.contains(place))
            && archive.totals().unwrap().unindexed == 0
    });
    check(&archive);
    archive.close();
}

/// Where a part stands now, without copies that are queued.
fn places_if_written(archive: &Archive, offset: u64) -> Vec<(Vid, BlockAddress)> {
    copies_of(archive, HUGE, offset).iter().filter_map(|copy| copy.vid.zip(copy.block)).collect()
}

/// The tape of one part is emptied while the file is not in the pool; and a check of a tape reads its part.
#[test]
fn a_repack_and_a_check_take_a_part_as_any_container() {
    let instance = tapes(8);
    let archive = instance.open();
    put(&archive, HUGE, &huge());
    migrate_all(&archive);
    evict(&archive, HUGE);
    let (from, _) = places(&archive, HUGE, PART)[0];
    archive.check_tapes(&[from]).unwrap();
    wait_until("the check is done", || {
        archive.tape_check(from).unwrap().is_some_and(|check| check.state == CheckState::Done)
    });
    let sound = archive.tape_check(from).unwrap().unwrap();
    assert_eq!((sound.damage_count, sound.containers_checked), (0, sound.containers), "{:?}", sound.damage);
    archive.repack_tape(from, "for the test").unwrap();
    wait_until("the tape is empty", || archive.tape_repack(from).unwrap().is_some_and(|it| it.done));
    assert!(!vids(&archive, PART).contains(&from));
    check(&archive);
    assert!(extents_of(&instance) < 20, "what was read for the repack is given up");
    let request = stage(&archive, &[HUGE]);
    wait_for(&archive, request);
    assert!(get(&archive, HUGE).unwrap() == huge());
    archive.close();
}

/// A stranger has the cartridges and no Kist: the parts have names that say what they are part of and come in
/// order, so that `cat` joins them.
#[test]
fn a_stranger_joins_the_parts_without_kist() {
    let instance = tapes(14);
    let archive = instance.open();
    let (content, before) = (huge(), bytes(3, (PART + REST) as usize));
    let done = put(&archive, HUGE, &before);
    migrate_all(&archive);
    let again = put(&archive, HUGE, &content);
    migrate_all(&archive);
    let used: Vec<Vid> = archive
        .tapes()
        .unwrap()
        .into_iter()
        .filter(|tape| tape.containers > 0)
        .map(|tape| tape.vid)
        .collect();
    archive.close();
    let out = tempfile::tempdir().unwrap();
    for vid in used {
        let target = out.path().join(vid.as_str());
        read_cartridge(&instance.cartridge(vid), &target);
        for entry in fs::read_dir(target.join("data")).into_iter().flatten() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), out.path().join(entry.file_name())).unwrap();
        }
    }
    // As a shell does for `cat huge~ID.part-*`.
    let joined = |version: FileId| -> (usize, Vec<u8>) {
        let names = fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.starts_with(&format!("huge~{version}.part-")));
        names.sort();
        (names.len(), names.iter().flat_map(|name| fs::read(out.path().join(name)).unwrap()).collect())
    };
    assert!(joined(again.file) == (3, content));
    assert!(joined(done.file) == (2, before), "both versions are there");
}

#[test]
fn a_rebuild_from_the_tapes_knows_the_parts() {
    let instance = tapes(8);
    let archive = instance.open();
    let content = huge();
    put(&archive, HUGE, &content);
    migrate_all(&archive);
    let before = parts(&archive, HUGE);
    restoring::dismounted(&archive);
    stop(archive);
    destroy_catalogue(&instance);
    blank_pool(&instance);
    rebuild_all(&instance);
    let archive = instance.open();
    assert_eq!(parts(&archive, HUGE), before);
    wait_for(&archive, stage(&archive, &[HUGE]));
    assert!(get(&archive, HUGE).unwrap() == content);
    check(&archive);
    archive.close();
}

/// The catalogue of a point before the file was sealed: what the tapes hold of it is taken over, part by
/// part.
#[test]
fn a_restore_to_before_the_sealing_takes_the_parts_over() {
    let instance = Instance::with_many_tapes(8, CARTRIDGE, VirtualCartridgeOptions::default(), |settings| {
        restoring::at_rest(settings);
    });
    let archive = restoring::open(&instance);
    let content = huge();
    put(&archive, HUGE, &content);
    let point = restoring::shipped(&archive);
    migrate_all(&archive);
    let before = parts(&archive, HUGE);
    restoring::dismounted(&archive);
    evict(&archive, HUGE);
    let archive = restoring::back_to(&instance, archive, point);
    restoring::check(&archive);
    assert_eq!(parts(&archive, HUGE), before);
    assert!(copies(&archive, HUGE).iter().all(|copy| copy.vid.is_some()), "{:?}", copies(&archive, HUGE));
    wait_for(&archive, stage(&archive, &[HUGE]));
    assert!(get(&archive, HUGE).unwrap() == content);
    archive.close();
}

/// Cut off between two parts: the next seal goes on behind what is sealed, and both together are the file.
#[test]
fn a_seal_that_was_cut_off_goes_on_behind_its_last_part() {
    let instance = Instance::with_many_tapes(8, CARTRIDGE, VirtualCartridgeOptions::default(), |settings| {
        restoring::at_rest(settings);
    });
    let archive = restoring::open(&instance);
    let content = huge();
    put(&archive, HUGE, &content);
    set_drives(&archive, false);
    let before = restoring::shipped(&archive);
    archive.migrate_now(None).unwrap();
    wait_until("it is sealed", || copies(&archive, HUGE).len() == 6);
    let sealed = restoring::shipped(&archive);
    assert_eq!(sealed - before, 6, "three containers are reserved, then sealed");
    // As it is after a crash behind the first of them.
    let archive = restoring::back_to(&instance, archive, before + 4);
    assert_eq!(parts(&archive, HUGE), BTreeMap::from([(0, PART)]));
    restoring::check(&archive);
    set_drives(&archive, true);
    migrate_all(&archive);
    assert_eq!(parts(&archive, HUGE), BTreeMap::from([(0, PART), (PART, PART), (2 * PART, REST)]));
    evict(&archive, HUGE);
    wait_for(&archive, stage(&archive, &[HUGE]));
    assert!(get(&archive, HUGE).unwrap() == content);
    archive.close();
}

/// The pool cannot give the file: nothing of it is queued, and others are sealed.
#[test]
fn a_file_that_cannot_be_read_comes_to_no_tape_and_keeps_nobody_waiting() {
    let instance = Instance::with_many_tapes(8, CARTRIDGE, VirtualCartridgeOptions::default(), |settings| {
        restoring::at_rest(settings);
    });
    let archive = instance.open();
    put(&archive, HUGE, &huge());
    put(&archive, "/data/other", &bytes(8, 3_000_000));
    stop(archive);
    // More than two shards of a row, which the code bears; those of the other file are smaller.
    for drive in instance.settings.pool.drives.iter().take(5) {
        for extent in extents(drive.at.directory()) {
            if fs::metadata(&extent).unwrap().len() > 2 << 20 {
                flip(&extent);
            }
        }
    }
    let archive = instance.open();
    archive.migrate_now(None).unwrap();
    let is_there = |copy: &CopyInfo| copy.state == CopyProgress::Indexed;
    wait_until("the other one is on tape", || {
        let copies = copies(&archive, "/data/other");
        copies.len() == 2 && copies.iter().all(is_there)
    });
    wait_until("it is known that it is lost", || archive.totals().unwrap().todo.files == 0);
    assert!(copies(&archive, HUGE).is_empty());
    check(&archive);
    archive.close();
}
