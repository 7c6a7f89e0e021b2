//! The catalogue is destroyed and made anew from cartridges alone.

use std::fs;
use std::sync::Arc;

use crate::common::{Instance, PATIENCE, SystemClock, bytes, get, migrate_all, path, put, wait_until};
use crate::faulty::{data, drive};
use crate::held::{Gate, Held};
use crate::history::{
    blank_pool, compare, destroy_catalogue, evict_all, facts, first_part, recall_and_compare, second_part,
};
use archive::{open_library, pool_seen};
use backup::{Progress, RebuildError, Rebuilt, rebuild};
use base::{BlockAddress, ByteCount, Clock, Partition, TapePosition, Vid};
use library::{
    DriveName, Faults, Library, ReadBlock, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig,
};

pub fn try_rebuild(instance: &Instance) -> Result<Rebuilt, RebuildError> {
    let library = open_library(&instance.settings.library).unwrap();
    rebuild_from(instance, library.as_ref(), &mut |_| {})
}

pub fn rebuild_from(
    instance: &Instance,
    library: &dyn Library,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt, RebuildError> {
    let settings = &instance.settings;
    let (seen, _) = pool_seen(settings);
    let spool = instance.directory.path().join("spool");
    let rebuilt = rebuild(
        (library, &settings.tape_keys()),
        seen,
        &settings.catalogue_directory,
        &spool,
        settings.catalogue_map_size,
        SystemClock.now(),
        progress,
    );
    fs::remove_dir_all(&spool).unwrap();
    rebuilt
}

pub fn rebuild_all(instance: &Instance) -> Rebuilt {
    let rebuilt = try_rebuild(instance).unwrap();
    assert_eq!((rebuilt.missing_from, rebuilt.inconsistencies), (None, 0), "{rebuilt:?}");
    assert!(rebuilt.tapes.iter().all(|tape| tape.unknown == 0), "{rebuilt:?}");
    rebuilt
}

#[test]
fn everything_comes_back_from_the_tapes() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    let mut contents = first_part(&archive);
    migrate_all(&archive);
    second_part(&archive, &mut contents);
    migrate_all(&archive);
    let before = facts(&archive);
    archive.close();
    drop(archive);

    // With the pool as it was: what is in it stays online.
    destroy_catalogue(&instance);
    rebuild_all(&instance);
    let archive = instance.open();
    assert_eq!(facts(&archive), before);
    compare(&archive, &contents);
    migrate_all(&archive);
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    archive.close();
    drop(archive);

    // With a blank pool: everything is NEARLINE.
    destroy_catalogue(&instance);
    blank_pool(&instance);
    rebuild_all(&instance);
    let archive = instance.open();
    assert_eq!(facts(&archive), before);
    recall_and_compare(&archive, &contents);
    archive.close();
}

/// The numbers of changes jump when a catalogue is rebuilt, and what was given up is not replayed.
#[test]
fn a_rebuilt_catalogue_can_be_rebuilt_again() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    let mut contents = first_part(&archive);
    migrate_all(&archive);
    archive.close();
    drop(archive);
    for round in 0..3u64 {
        destroy_catalogue(&instance);
        blank_pool(&instance);
        let rebuilt = rebuild_all(&instance);
        assert_eq!(rebuilt.change >> 32, 2 * round, "{rebuilt:?}");
        let archive = instance.open();
        recall_and_compare(&archive, &contents);
        let name = format!("/new{round}");
        contents.insert(name.clone(), bytes(round, 2_700_000));
        put(&archive, &name, &contents[&name]);
        migrate_all(&archive);
        let before = facts(&archive);
        archive.close();
        drop(archive);
        destroy_catalogue(&instance);
        rebuild_all(&instance);
        let archive = instance.open();
        assert_eq!(facts(&archive), before);
        recall_and_compare(&archive, &contents);
        archive.close();
        drop(archive);
    }
}

#[test]
fn one_tape_of_two_is_enough() {
    let mut complete = 0;
    for which in 0..2 {
        let instance = Instance::new(ByteCount::mib(256));
        let archive = instance.open();
        let mut contents = first_part(&archive);
        migrate_all(&archive);
        second_part(&archive, &mut contents);
        migrate_all(&archive);
        let before = facts(&archive);
        let used: Vec<Vid> =
            archive.tapes().unwrap().iter().filter(|tape| tape.containers > 0).map(|tape| tape.vid).collect();
        assert_eq!(used.len(), 2);
        archive.close();
        drop(archive);
        let lost = used[which];
        destroy_catalogue(&instance);
        blank_pool(&instance);
        let aside = instance.directory.path().join("aside");
        fs::rename(instance.cartridge(lost), &aside).unwrap();
        let rebuilt = try_rebuild(&instance).unwrap();
        let archive = instance.open();
        let after = facts(&archive);
        if after == before {
            complete += 1;
            assert_eq!(rebuilt.absent, [lost]);
        } else {
            // Its last index may be older than the other tape's: then so is what it tells.
            let newest = rebuilt.changed_at;
            assert!(after.keys().all(|name| before.contains_key(name)), "{newest} {rebuilt:?}");
        }
        for name in after.keys().filter(|name| contents.contains_key(*name)) {
            let request = crate::common::stage(&archive, &[name]);
            let begin = std::time::Instant::now();
            while !archive::has_ended(archive.request(request).unwrap().record.state) {
                let why = || (archive.why_request(request), archive.tapes().unwrap());
                assert!(begin.elapsed() < PATIENCE, "{name}: {:?}", why());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            if before.get(name) == after.get(name) {
                assert!(get(&archive, name).unwrap() == contents[name], "{name}");
            }
        }
        archive.close();
        drop(archive);
    }
    assert!(complete >= 1);
}

/// A foreign cartridge is told and left as it is.
#[test]
fn foreign_cartridges_are_left_alone() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    put(&archive, "/one", &bytes(1, 2_500_000));
    migrate_all(&archive);
    archive.close();
    drop(archive);
    let library = open_library(&instance.settings.library).unwrap();
    let vid = Vid::new("KT0006").unwrap();
    let name = library.drives().remove(0);
    let mut drive = library.take_drive(&name).unwrap();
    library.mount(vid, &name).unwrap();
    drive.format_partitions().unwrap();
    drive.write_block(b"somebody else's").unwrap();
    drive.write_filemarks(0).unwrap();
    library.unmount(&name).unwrap();
    drop((drive, library));
    destroy_catalogue(&instance);
    let rebuilt = rebuild_all(&instance);
    let foreign = rebuilt.tapes.iter().find(|tape| tape.vid == vid).unwrap();
    assert!(foreign.what.contains("left alone"), "{foreign:?}");
    let archive = instance.open();
    assert_eq!(get(&archive, "/one").unwrap(), bytes(1, 2_500_000));
    assert!(archive.stat(&path("/one")).is_ok());
    archive.close();
}

/// All drives read cartridges at once; what one cannot mount others do, and it is told how far it is.
#[test]
fn all_drives_read_the_tapes() {
    let instance =
        Instance::with(ByteCount::mib(256), |settings| settings.library.files_mut().unwrap().drives = 3);
    let archive = instance.open();
    let contents = first_part(&archive);
    migrate_all(&archive);
    archive.close();
    drop(archive);
    destroy_catalogue(&instance);

    let gate = Gate::shut();
    gate.break_drive(&DriveName::new("vdrive1").unwrap());
    let library = open_library(&instance.settings.library).unwrap();
    let held = Held { library, gate: gate.clone() };
    let mut told = Vec::new();
    let rebuilt = std::thread::scope(|scope| {
        let rebuilt = scope.spawn(|| rebuild_from(&instance, &held, &mut |progress| told.push(progress)));
        wait_until("all drives mount", || gate.waiting() == 3);
        gate.open(None);
        rebuilt.join().unwrap().unwrap()
    });
    assert!(gate.refused() > 0, "the broken drive had its try");
    assert_eq!((rebuilt.missing_from, rebuilt.inconsistencies), (None, 0), "{rebuilt:?}");
    let named: u64 = rebuilt.tapes.iter().map(|tape| tape.containers).sum();
    let tapes: Vec<Progress> = told.into_iter().filter(|told| told.what == "tapes read").collect();
    let counts: Vec<u64> = tapes.iter().map(|told| told.done).collect();
    assert_eq!(counts, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(tapes.last().map(|told| (told.total, told.containers)), Some((6, named)));
    let archive = instance.open();
    compare(&archive, &contents);
    archive.close();
}

/// The instance with its catalogue destroyed, and its library with faults.
pub fn destroyed_with_faults(instance: &Instance, drives: u16) -> (VirtualLibrary, Faults) {
    destroy_catalogue(instance);
    let config = VirtualLibraryConfig {
        drives: (0..drives).map(drive).collect(),
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let library =
        VirtualLibrary::open(&instance.settings.library.files().unwrap().directory, &config).unwrap();
    let faults = library.faults();
    (library, faults)
}

/// Where blocks of data partitions stand that begin with these bytes.
pub fn blocks_with(library: &dyn Library, head: &[u8]) -> Vec<(Vid, BlockAddress)> {
    let name = library.drives().remove(0);
    let mut drive = library.take_drive(&name).unwrap();
    let mut found = Vec::new();
    for cartridge in library.inventory().unwrap() {
        library.mount(cartridge.vid, &name).unwrap();
        let end = drive.space_to_end_of_data(Partition::Data).unwrap().block;
        let mut buffer = vec![0; 1 << 16];
        for block in (0..end.0).map(BlockAddress) {
            drive.locate(TapePosition { partition: Partition::Data, block }).unwrap();
            if let ReadBlock::Data(length) = drive.read_block(&mut buffer).unwrap()
                && buffer[..length].starts_with(head)
            {
                found.push((cartridge.vid, block));
            }
        }
        library.unmount(&name).unwrap();
    }
    assert!(!found.is_empty());
    found
}

/// Story: what one drive could not read of the change-log segments of a tape was told, and no other drive was
/// tried.
#[test]
fn segments_that_one_drive_cannot_read_another_one_reads() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    let contents = first_part(&archive);
    migrate_all(&archive);
    let before = facts(&archive);
    archive.close();
    drop(archive);
    let (library, faults) = destroyed_with_faults(&instance, 2);
    let segments = blocks_with(&library, b"KISTCHG1");
    for (vid, block) in &segments {
        faults.plan_unreadable_in(&drive(0), *vid, data(block.0));
    }
    let gate = Gate::default();
    gate.hang(&drive(1));
    let held = Held { library: Arc::new(library), gate: gate.clone() };
    let rebuilt = std::thread::scope(|scope| {
        let rebuilt = scope.spawn(|| rebuild_from(&instance, &held, &mut |_| {}));
        wait_until("the first drive has met what it cannot read", || faults.fired() > 0);
        gate.free(&drive(1));
        rebuilt.join().unwrap().unwrap()
    });
    assert_eq!((rebuilt.missing_from, &rebuilt.unread[..]), (None, &[][..]), "{rebuilt:?}");
    let archive = instance.open();
    assert_eq!(facts(&archive), before);
    compare(&archive, &contents);
    archive.close();
}

/// What no drive can read is named with its tape, and whether it may be missed.
#[test]
fn what_no_drive_can_read_is_named() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    let contents = first_part(&archive);
    migrate_all(&archive);
    archive.close();
    drop(archive);
    let (library, faults) = destroyed_with_faults(&instance, 2);
    let segments = blocks_with(&library, b"KISTCHG1");
    let (vid, block) = segments[0];
    faults.plan_unreadable(vid, data(block.0));
    let rebuilt = rebuild_from(&instance, &library, &mut |_| {}).unwrap();
    let [unread] = &rebuilt.unread[..] else { panic!("{rebuilt:?}") };
    assert_eq!((unread.vid, unread.may_have_more), (vid, false), "the other tape has it: {unread:?}");
    assert!(unread.what.contains("a change-log segment is unreadable"), "{unread:?}");
    let archive = instance.open();
    compare(&archive, &contents);
    archive.close();
    drop(archive);
    // The whole tape: nobody knows what it may have.
    destroy_catalogue(&instance);
    for partition in [Partition::Index, Partition::Data] {
        for block in (0..4).map(BlockAddress) {
            faults.plan_unreadable(vid, TapePosition { partition, block });
        }
    }
    let rebuilt = rebuild_from(&instance, &library, &mut |_| {}).unwrap();
    let [unread] = &rebuilt.unread[..] else { panic!("{rebuilt:?}") };
    assert_eq!((unread.vid, unread.may_have_more), (vid, true), "{unread:?}");
    let archive = instance.open();
    compare(&archive, &contents);
    archive.close();
}
