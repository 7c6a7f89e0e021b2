//! A copy stands on its tape once, whatever became of it there, and the index names it once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::{About, Archive, CopyProgress, MountLog, MountLogFiles, Stat, TapeUse};
use base::{BlockAddress, Clock, ContainerId, Partition, TapePosition, Vid};
use catalogue::TapeState;
use library::{Condition, DriveCommand, Faults, ReadBlock, TapeDrive};
use ltfs::{BlockSize, Index};

use crate::common::{SystemClock, all, bytes, migrate_all, path, put, stage, stop, wait_for, wait_until};
use crate::faulty::{Trouble, check_all, data, drive, fill, place, set_drives};

/// The newest index of a tape's data partition, read block by block.
fn newest_index(drive: &mut dyn TapeDrive) -> Option<Index> {
    let end = drive.space_to_end_of_data(Partition::Data).unwrap().block.0;
    let (mut buffer, mut newest, mut object) = (vec![0; 1 << 16], None, Vec::new());
    for block in 0..end {
        drive.locate(TapePosition { partition: Partition::Data, block: BlockAddress(block) }).unwrap();
        match drive.read_block(&mut buffer).unwrap() {
            ReadBlock::Data(length) => object.extend_from_slice(&buffer[..length]),
            _ => {
                if object.starts_with(b"<?xml") {
                    newest = Index::parse(&object, BlockSize::new(1 << 16).unwrap()).ok().or(newest);
                }
                object.clear();
            }
        }
    }
    newest
}

type Named = BTreeMap<(Vid, ContainerId), Vec<BlockAddress>>;

/// The places at which the newest indexes of all tapes name each container. The archive is closed.
fn named(trouble: &Trouble) -> Named {
    let mut named = Named::new();
    let library = archive::open_library(&trouble.instance.settings.library).unwrap();
    let name = library.drives().remove(0);
    let mut drive = library.take_drive(&name).unwrap();
    for cartridge in library.inventory().unwrap() {
        library.mount(cartridge.vid, &name).unwrap();
        for (_, file) in newest_index(drive.as_mut()).iter().flat_map(|index| index.tree.iter()) {
            let of_it = file.xattrs.iter().find(|(key, _)| key == "kist.container");
            let Some((_, container)) = of_it else { continue };
            let container = String::from_utf8(container.clone()).unwrap().parse().unwrap();
            let places = named.entry((cartridge.vid, ContainerId(container))).or_default();
            places.push(file.extents[0].start_block);
        }
        library.unmount(&name).unwrap();
    }
    named
}

fn containers_on(archive: &Archive, vid: Vid) -> BTreeMap<ContainerId, BlockAddress> {
    let (content, _) = archive.tape_content(vid, BlockAddress(0), 1_000).unwrap();
    content.into_iter().map(|found| (found.container, found.block)).collect()
}

/// Story: a tape that was to be repacked was given back before its copies had gone elsewhere. They were
/// written to it a second time, and its index named both places.
#[test]
fn a_tape_that_is_given_back_keeps_the_copies_that_were_to_leave_it() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let (vid, _) = place(&archive, "/t/large0")[0];
    let before = repack_without_drives(&archive, vid);
    archive.set_tape(vid, TapeUse::Active, "it is well after all").unwrap();
    set_drives(&archive, true);
    put(&archive, "/t/late", &bytes(7, 3_000_000));
    migrate_all(&archive);
    let after = containers_on(&archive, vid);
    assert!(before.iter().all(|(container, block)| after.get(container) == Some(block)), "{after:?}");
    check_all(&archive, &files);
    stop(archive);
    let named = named(&trouble);
    assert!(named.len() > before.len());
    for ((on, container), places) in &named {
        assert_eq!(places.len(), 1, "{container} on {on}");
    }
}

/// The drives are down, and all copies on the tape wait to go elsewhere.
fn repack_without_drives(archive: &Archive, vid: Vid) -> BTreeMap<ContainerId, BlockAddress> {
    let before = containers_on(archive, vid);
    assert!(before.len() >= 5, "{before:?}");
    set_drives(archive, false);
    archive.repack_tape(vid, "for the test").unwrap();
    wait_until("all its copies wait to go elsewhere", || {
        archive.tape_repack(vid).unwrap().is_some_and(|repack| repack.under_way == before.len() as u64)
    });
    before
}

/// How far the copies of the large files are that stand on a tape, and where that is. The pack is left out:
/// the pool does not have it whole, so a repack has it read before it queues a copy.
fn copies_on(archive: &Archive, vid: Vid) -> Vec<(ContainerId, BlockAddress, CopyProgress)> {
    let copies = |n: u32| {
        let Stat::File(stat) = archive.stat(&path(&format!("/t/large{n}"))).unwrap() else {
            panic!("a file")
        };
        let here = stat.copies.into_iter().filter(|copy| copy.vid == Some(vid));
        here.map(|copy| (copy.container, copy.block.unwrap(), copy.state)).collect::<Vec<_>>()
    };
    (0..4).flat_map(copies).collect()
}

fn all_are(copies: &[(ContainerId, BlockAddress, CopyProgress)], state: CopyProgress) -> bool {
    copies.len() == 4 && copies.iter().all(|(.., progress)| *progress == state)
}

/// Story: each of them was kept with a commit of its own when a drive planned, while no other drive planned.
#[test]
fn copies_stay_on_a_tape_from_the_moment_that_its_repack_is_called_off() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let (vid, _) = place(&archive, "/t/large0")[0];
    let before = repack_without_drives(&archive, vid);
    let leaving = copies_on(&archive, vid);
    assert!(all_are(&leaving, CopyProgress::Queued), "{leaving:?}");
    archive.set_tape(vid, TapeUse::Active, "it is well after all").unwrap();
    let kept = copies_on(&archive, vid);
    assert!(all_are(&kept, CopyProgress::Indexed), "{kept:?}");
    assert!(kept.iter().all(|(container, block, _)| before.get(container) == Some(block)), "{kept:?}");
    assert_eq!(archive.totals().unwrap().queued.files, 0);
    assert_eq!(archive.tape_repack(vid).unwrap(), None);
    // They can leave it yet.
    archive.repack_tape(vid, "for the test").unwrap();
    assert!(all_are(&copies_on(&archive, vid), CopyProgress::Queued));
    set_drives(&archive, true);
    migrate_all(&archive);
    wait_until("it is empty", || archive.tape_repack(vid).unwrap().is_some_and(|repack| repack.done));
    check_all(&archive, &files);
    archive.close();
}

#[test]
fn copies_leave_a_tape_that_is_disabled_and_stay_on_one_that_is_only_read() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let (vid, _) = place(&archive, "/t/large0")[0];
    let before = repack_without_drives(&archive, vid);
    archive.set_tape(vid, TapeUse::Disabled, "a test").unwrap();
    assert!(all_are(&copies_on(&archive, vid), CopyProgress::Queued));
    // What a server before this one has left is found too.
    stop(archive);
    let (archive, _) = trouble.open();
    assert!(all_are(&copies_on(&archive, vid), CopyProgress::Queued));
    archive.set_tape(vid, TapeUse::ReadOnly, "a test").unwrap();
    let kept = copies_on(&archive, vid);
    assert!(all_are(&kept, CopyProgress::Indexed), "{kept:?}");
    assert_eq!(containers_on(&archive, vid), before);
    check_all(&archive, &files);
    archive.close();
}

/// Story: containers whose repack was called off were read from tapes, to be thrown away.
#[test]
fn nothing_is_read_any_more_for_a_repack_that_was_called_off() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let (vid, _) = place(&archive, "/t/large0")[0];
    repack_without_drives(&archive, vid);
    let tapes: Vec<Vid> = archive.tapes().unwrap().iter().map(|tape| tape.vid).collect();
    let is_read = || {
        let causes = tapes.iter().flat_map(|vid| archive.explain(&About::Tape(*vid)).unwrap());
        causes.into_iter().any(|cause| cause.text.contains("work that nobody waits for"))
    };
    wait_until("they are to be read", is_read);
    archive.set_tape(vid, TapeUse::Active, "it is well after all").unwrap();
    wait_until("nothing is to be read", || !is_read());
    assert_eq!(archive.totals().unwrap().queued.files, 0);
    set_drives(&archive, true);
    wait_for(&archive, stage(&archive, &["/t"]));
    check_all(&archive, &files);
    archive.close();
}

fn hurt(content: &BTreeMap<ContainerId, BlockAddress>, block: BlockAddress) -> ContainerId {
    *content.iter().find(|(_, at)| **at == block).unwrap().0
}

/// Story: a copy that was found unreadable was written again to the tape on which it stood, and the index
/// named the old place too: under the name that a reader of LTFS opens.
#[test]
fn an_index_names_the_new_place_of_a_copy_that_was_written_again_and_no_other() {
    let trouble = Trouble::new(1);
    let (archive, faults) = trouble.open();
    let files = fill(&archive);
    migrate_all(&archive);
    let (bad, block) = place(&archive, "/t/large0")[0];
    let before = containers_on(&archive, bad);
    faults.plan_unreadable(bad, data(block.0 + 3));
    archive.check_tapes(&[bad]).unwrap();
    let hurt = hurt(&before, block);
    wait_until("the copy was given up", || containers_on(&archive, bad).get(&hurt) != Some(&block));
    faults.clear();
    if archive.tape(bad).unwrap().state != TapeState::Active {
        archive.set_tape(bad, TapeUse::Active, "it is cleaned").unwrap();
    }
    migrate_all(&archive);
    wait_until("it is on the tape again", || containers_on(&archive, bad).len() == before.len());
    let after = containers_on(&archive, bad);
    let moved: Vec<_> = before.iter().filter(|(container, at)| after.get(container) != Some(at)).collect();
    assert!(matches!(moved[..], [(_, at)] if *at == block), "{moved:?}");
    check_all(&archive, &files);
    stop(archive);
    let named = named(&trouble);
    for (container, block) in &after {
        assert_eq!(named.get(&(bad, *container)), Some(&vec![*block]), "{container}");
    }
}

/// A file whose session on tape is cut short by its drive; then no drive is in use.
fn cut_short(archive: &Archive, faults: &Faults) -> (String, Vec<u8>) {
    wait_until("the drive is empty", || archive.tape_drives().iter().all(|drive| drive.vid.is_none()));
    faults.plan_condition(&drive(0), DriveCommand::Flush, Condition::Unreached, 1);
    let late = ("/t/late".to_owned(), bytes(7, 3_000_000));
    put(archive, &late.0, &late.1);
    archive.migrate_now(None).unwrap();
    wait_until("the session is cut short", || faults.fired() == 1);
    set_drives(archive, false);
    late
}

/// Files on two tapes, and a session on one of them that was cut short.
struct Short {
    trouble: Trouble,
    archive: Archive,
    faults: Faults,
    files: Vec<(String, Vec<u8>)>,
    tapes: Vec<(Vid, BlockAddress)>,
}

fn a_session_cut_short() -> Short {
    let trouble = Trouble::with_retry(1, Duration::from_secs(3));
    let (archive, faults) = trouble.open();
    let mut files = fill(&archive);
    migrate_all(&archive);
    let tapes = place(&archive, "/t/large0");
    files.push(cut_short(&archive, &faults));
    Short { trouble, archive, faults, files, tapes }
}

/// Story: a session was cut short, and at the next mount the robot brought another cartridge. That was taken
/// for a fault of the tape that nobody had seen: its session was given up, the tape was read only, and what
/// stood on it was written again elsewhere.
#[test]
fn a_session_is_not_given_up_because_another_cartridge_came() {
    let Short { trouble: _trouble, archive, faults, files, tapes } = a_session_cut_short();
    let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
    tapes.iter().for_each(|(vid, _)| faults.plan_wrong_cartridge(*vid, blank));
    set_drives(&archive, true);
    wait_until("another cartridge came", || faults.fired() > 1);
    migrate_all(&archive);
    let states = || tapes.iter().map(|(vid, _)| archive.tape(*vid).unwrap().state).collect::<Vec<_>>();
    wait_until("both are in use", || states() == [TapeState::Active; 2]);
    assert_eq!(place(&archive, "/t/late").len(), 2);
    check_all(&archive, &files);
    archive.close();
}

/// Story: a cartridge could not be loaded once, with a session open on it: that was given up at once, and the
/// tape kept for reading alone.
#[test]
fn a_session_is_not_given_up_because_its_tape_cannot_be_loaded_once() {
    let Short { trouble, archive, files, tapes, .. } = a_session_cut_short();
    let cartridges: Vec<_> = tapes.iter().map(|(vid, _)| trouble.instance.cartridge(*vid)).collect();
    let aside = |cartridge: &Path| cartridge.join("partition-b.aside");
    let part = |cartridge: &Path| cartridge.join("partition-b.rec");
    cartridges.iter().for_each(|at| std::fs::rename(part(at), aside(at)).unwrap());
    set_drives(&archive, true);
    let states = || tapes.iter().map(|(vid, _)| archive.tape(*vid).unwrap().state).collect::<Vec<_>>();
    wait_until("one cannot be loaded", || states().contains(&TapeState::Suspect));
    cartridges.iter().for_each(|at| std::fs::rename(aside(at), part(at)).unwrap());
    migrate_all(&archive);
    wait_until("both are in use", || states() == [TapeState::Active; 2]);
    check_all(&archive, &files);
    archive.close();
}

/// Story: a session was given up whose tape nobody could see. When an operator gave the tape back it ended
/// elsewhere than the catalogue said, and was suspect at each use from then on.
#[test]
fn a_tape_is_written_again_behind_what_a_session_left_that_was_given_up() {
    let Short { trouble: _trouble, archive, files, tapes, .. } = a_session_cut_short();
    let ends = || tapes.iter().map(|(vid, _)| archive.tape(*vid).unwrap().end_of_data).collect::<Vec<_>>();
    let known = ends();
    for (vid, _) in &tapes {
        archive.set_tape(*vid, TapeUse::Disabled, "nobody finds it").unwrap();
        archive.set_tape(*vid, TapeUse::Active, "it was behind the rack").unwrap();
    }
    for blank in archive.tapes().unwrap().iter().filter(|tape| tape.uuid.is_none()) {
        archive.set_tape(blank.vid, TapeUse::Disabled, "they are to be written, and no other").unwrap();
    }
    set_drives(&archive, true);
    migrate_all(&archive);
    for (vid, _) in &tapes {
        let tape = archive.tape(*vid).unwrap();
        assert_eq!(tape.state, TapeState::Active, "{vid}: {}", tape.reason);
    }
    let torn: u64 = tapes.iter().map(|(vid, _)| archive.tape(*vid).unwrap().torn.0).sum();
    assert!(torn >= 3_000_000, "what was given up is counted: {torn} of {known:?} to {:?}", ends());
    check_all(&archive, &files);
    archive.close();
}

/// Story: a tape went out of the library with a session open on it. What had been planned for it waited for
/// it for ever, and nothing that an operator could say changed that.
#[test]
fn what_was_planned_for_a_tape_that_is_disabled_goes_to_another_one() {
    let Short { trouble: _trouble, archive, files, tapes, .. } = a_session_cut_short();
    for (vid, _) in &tapes {
        archive.set_tape(*vid, TapeUse::Disabled, "it is at the bottom of the sea").unwrap();
    }
    set_drives(&archive, true);
    migrate_all(&archive);
    // Of the tape whose session was not cut short the copy may stand where it was written.
    let is_elsewhere = |vid: Vid| tapes.iter().all(|(old, _)| *old != vid);
    let late = place(&archive, "/t/late");
    assert!(late.len() == 2 && late.iter().any(|(vid, _)| is_elsewhere(*vid)), "{late:?}");
    check_all(&archive, &files);
    archive.close();
}

/// Story: a suspect tape whose open session was taken over well stayed suspect in its drive until it was
/// mounted once more, and sessions without work followed one another as fast as they could.
#[test]
fn a_suspect_tape_whose_session_was_taken_over_is_in_use_again() {
    let trouble = Trouble::with(2, Duration::from_secs(3), |settings| {
        settings.tape.dismount_delay = Duration::from_secs(60);
    });
    let log = Arc::new(MountLogFiles::new(&trouble.instance.directory.path().join("mounts")));
    let (archive, faults) = trouble.open_logged(Some(log.clone()));
    fill(&archive);
    migrate_all(&archive);
    let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
    set_drives(&archive, false);
    (0..2).for_each(|number| {
        faults.plan_condition(&drive(number), DriveCommand::Flush, Condition::Unreached, 1);
    });
    put(&archive, "/t/late", &bytes(7, 3_000_000));
    archive.drive_up("vdrive0").unwrap();
    archive.migrate_now(None).unwrap();
    wait_until("a session is cut short", || faults.fired() >= 1);
    set_drives(&archive, false);
    faults.clear();
    let (before, began) = (faults.fired(), SystemClock.now());
    let tapes = place(&archive, "/t/large0");
    tapes.iter().for_each(|(vid, _)| faults.plan_wrong_cartridge(*vid, blank));
    set_drives(&archive, true);
    wait_until("another cartridge came", || faults.fired() > before);
    let states = || tapes.iter().map(|(vid, _)| archive.tape(*vid).unwrap().state).collect::<Vec<_>>();
    wait_until("both are in use", || states() == [TapeState::Active; 2]);
    migrate_all(&archive);
    archive.close();
    let mut mounts: BTreeMap<Vid, u32> = BTreeMap::new();
    log.read(began, &mut |record| *mounts.entry(record.vid).or_default() += 1).unwrap();
    for (vid, _) in &tapes {
        assert!(mounts.get(vid).is_none_or(|count| *count <= 2), "a wrong one and the right one: {mounts:?}");
    }
}
