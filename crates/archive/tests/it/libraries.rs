//! Two libraries: each tape pool writes to tapes of its own, and either gives the files back.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{
    Instance, SystemClock, all, bytes, get, migrate_all, path, put, put_with, stage, wait_for, wait_until,
};
use crate::history::{blank_pool, destroy_catalogue};
use archive::{Archive, LibrarySettings, OpenError, PutOptions, Settings, Stat, open_libraries, pool_seen};
use backup::rebuild;
use base::{ByteCount, Clock, Vid};
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

const FILES: u64 = 12;

/// Pool `vault-a` in the first library, whose tapes are KT…, and `vault-b` in another, with FR….
fn instance(change: impl FnOnce(&mut Settings)) -> Instance {
    instance_with_far(ByteCount::mib(128), change)
}

fn instance_with_far(cartridge: ByteCount, change: impl FnOnce(&mut Settings)) -> Instance {
    let instance = Instance::with(ByteCount::mib(128), |settings| {
        let directory = settings.library.files().unwrap().directory.with_file_name("far");
        let far = LibrarySettings { name: "far".to_owned(), ..LibrarySettings::only(directory, 1) };
        settings.more_libraries = vec![far];
        settings.tape_pools[0].library = Some("library".to_owned());
        settings.tape_pools[1].library = Some("far".to_owned());
        change(settings);
    });
    let cartridges = (1..=3).map(|n| (Vid::new(&format!("FR{n:04}")).unwrap(), cartridge));
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: cartridges.collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let far = instance.settings.library.files().unwrap().directory.with_file_name("far");
    VirtualLibrary::create(&far, &config).unwrap();
    instance
}

fn name(n: u64) -> String {
    format!("/t/{n}")
}

fn fill(archive: &Archive) {
    for n in 0..FILES {
        put(archive, &name(n), &bytes(n, 700_000));
    }
    migrate_all(archive);
}

fn copies(archive: &Archive) -> BTreeSet<(String, String)> {
    let mut copies = BTreeSet::new();
    for n in 0..FILES {
        let Stat::File(stat) = archive.stat(&path(&name(n))).unwrap() else { panic!("a file") };
        assert_eq!(stat.copies.len(), 2);
        let tape = |vid: Option<Vid>| vid.unwrap().as_str()[..2].to_owned();
        copies.extend(stat.copies.iter().map(|copy| (copy.tape_pool.clone(), tape(copy.vid))));
    }
    copies
}

fn apart() -> BTreeSet<(String, String)> {
    [("vault-a", "KT"), ("vault-b", "FR")].map(|(pool, tape)| (pool.to_owned(), tape.to_owned())).into()
}

fn round(archive: &Archive) {
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    let request = stage(archive, &["/t"]);
    wait_for(archive, request);
    assert_eq!(archive.request(request).unwrap().record.failed, 0);
    for n in 0..FILES {
        assert!(get(archive, &name(n)).unwrap() == bytes(n, 700_000), "{n}");
    }
    archive.release(request, None).unwrap();
}

#[test]
fn copies_stand_apart_and_either_library_gives_the_files() {
    let instance = instance(|_| {});
    let archive = instance.open();
    fill(&archive);
    assert_eq!(copies(&archive), apart());
    round(&archive);
    for (down, up) in [(&["vdrive0", "vdrive1"][..], "far-vdrive0"), (&["far-vdrive0"], "vdrive0")] {
        for drive in down {
            archive.drive_down(drive, "for the test").unwrap();
        }
        wait_until("they are out of use", || {
            archive.tape_drives().iter().filter(|drive| drive.state == "down").count() == down.len()
        });
        assert!(archive.tape_drives().iter().any(|drive| drive.name == up));
        round(&archive);
        for drive in down {
            archive.drive_up(drive).unwrap();
        }
        wait_until("they are back", || archive.tape_drives().iter().all(|drive| drive.state != "down"));
    }
    archive.close();
}

#[test]
fn a_pool_waits_for_scratch_tapes_of_its_own_library() {
    let instance = instance(|_| {});
    let far = instance.settings.library.files().unwrap().directory.with_file_name("far");
    let away = far.with_file_name("away");
    fs::create_dir(&away).unwrap();
    for n in 1..=3 {
        let vid = format!("FR{n:04}");
        fs::rename(far.join("cartridges").join(&vid), away.join(&vid)).unwrap();
    }
    let archive = instance.open();
    put(&archive, "/t/0", &bytes(1, 700_000));
    archive.migrate_now(None).unwrap();
    wait_until("the first copy is there", || {
        let Stat::File(stat) = archive.stat(&path("/t/0")).unwrap() else { panic!("a file") };
        stat.copies.iter().filter(|copy| copy.vid.is_some()).count() == 1
    });
    let queued = archive.totals().unwrap().queued.files;
    assert_eq!(queued, 1, "the second one is not written to a tape beside the first");
    archive.close();
}

#[test]
fn a_catalogue_is_made_anew_from_the_tapes_of_both() {
    let instance = instance(|_| {});
    let archive = instance.open();
    fill(&archive);
    archive.close();
    drop(archive);
    destroy_catalogue(&instance);
    blank_pool(&instance);
    let settings = &instance.settings;
    let library = open_libraries(settings).unwrap();
    let spool = instance.directory.path().join("spool");
    let (seen, _) = pool_seen(settings);
    let (into, map_size) = (&settings.catalogue_directory, settings.catalogue_map_size);
    let rebuilt = rebuild(
        (library.as_ref(), &library::TapeKeys::default()),
        seen,
        into,
        &spool,
        map_size,
        SystemClock.now(),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(rebuilt.tapes.iter().filter(|tape| tape.containers > 0).count(), 2, "{rebuilt:?}");
    fs::remove_dir_all(&spool).unwrap();
    drop(library);
    let archive = instance.open();
    assert_eq!(copies(&archive), apart());
    archive.close();
}

#[test]
fn a_library_that_is_not_there_is_told() {
    let instance = instance(|settings| settings.tape_pools[1].library = Some("elsewhere".to_owned()));
    let error = archive::Archive::open(instance.settings.clone(), std::sync::Arc::new(SystemClock));
    assert!(matches!(error, Err(OpenError::UnknownLibrary { .. })));
}

/// All copies of a file are cut at the same bounds: the smaller of the two libraries' limits.
#[test]
fn a_part_is_as_large_as_both_libraries_take() {
    let instance = instance_with_far(ByteCount::mib(32), |settings| {
        let mut near = settings.classes[1].clone();
        (near.name, near.up_to) = ("near".to_owned(), Some(ByteCount(0)));
        near.copies.truncate(1);
        settings.classes.insert(0, near);
    });
    let archive = instance.open();
    let content = bytes(1, (30 << 20) + 1);
    for class in ["large", "near"] {
        let options = PutOptions { class: Some(class.to_owned()), ..PutOptions::default() };
        put_with(&archive, &format!("/{class}"), &content, options).unwrap();
    }
    migrate_all(&archive);
    let lengths = |file: &str| {
        let Stat::File(stat) = archive.stat(&path(file)).unwrap() else { panic!() };
        stat.copies.iter().map(|copy| copy.length.0).collect::<Vec<_>>()
    };
    assert_eq!((lengths("/large"), lengths("/near")), (vec![30 << 20, 30 << 20, 1, 1], vec![(30 << 20) + 1]));
    archive.close();
}
