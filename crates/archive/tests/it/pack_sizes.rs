//! No pack is larger than what an empty tape takes.

use std::fs;
use std::time::Duration;

use archive::{Archive, Stat};
use base::{ByteCount, ContainerId, Vid};
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{Instance, all, bytes, get, migrate_all, path, put, stage, stop, wait_for, wait_until};

/// Two of them fit on a small tape, three do not.
const FILE: usize = 3_400_000;
const FILES: u64 = 6;
const SMALL_TAPE: ByteCount = ByteCount::mib(10);
const HOUR: Duration = Duration::from_secs(3600);

/// One copy of each file, in packs that are sealed when they are full or somebody is in a hurry.
fn instance(cartridge: ByteCount, pack_bytes: ByteCount) -> Instance {
    Instance::with_many_tapes(8, cartridge, VirtualCartridgeOptions::default(), |settings| {
        settings.tape_pools.truncate(1);
        settings.tape_pools[0].mount_age = HOUR;
        for class in &mut settings.classes {
            class.copies.truncate(1);
            class.pack_age = HOUR;
            (class.pack_bytes, class.large_bytes) = (pack_bytes, ByteCount::mib(9));
        }
    })
}

fn put_files(archive: &Archive) {
    (0..FILES).for_each(|n| drop(put(archive, &format!("/t/file{n}"), &bytes(n, FILE))));
}

fn container(archive: &Archive, file: u64) -> ContainerId {
    let Stat::File(stat) = archive.stat(&path(&format!("/t/file{file}"))).unwrap() else { panic!("a file") };
    stat.copies.first().expect("it is sealed").container
}

/// All files come from tape.
fn read_from_tape(archive: &Archive) {
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().evicted, FILES);
    wait_for(archive, stage(archive, &["/t"]));
    for n in 0..FILES {
        assert!(get(archive, &format!("/t/file{n}")).unwrap() == bytes(n, FILE), "file {n}");
    }
}

/// Story: a pack ended with the file that filled it. With that file it had more than an empty tape takes: it
/// was left alone again and again, and its files never came to tape.
#[test]
fn a_pack_ends_before_the_file_that_no_tape_takes_with_it() {
    let instance = instance(SMALL_TAPE, ByteCount(8_000_000));
    let archive = instance.open();
    put_files(&archive);
    migrate_all(&archive);
    assert_eq!(container(&archive, 0), container(&archive, 1), "two fit");
    assert_ne!(container(&archive, 1), container(&archive, 2), "three do not");
    read_from_tape(&archive);
    archive.close();
}

/// Packs of before the tapes were exchanged for smaller ones, or of a release that made larger ones, waited
/// for ever.
#[test]
fn a_pack_that_no_tape_takes_any_more_is_sealed_anew() {
    let instance = instance(ByteCount::mib(128), ByteCount(16_000_000));
    let archive = instance.open();
    for drive in archive.tape_drives() {
        archive.drive_down(&drive.name, "not yet").unwrap();
    }
    put_files(&archive);
    archive.migrate_now(None).unwrap();
    wait_until("all is sealed", || archive.totals().unwrap().todo.files == 0);
    let pack = container(&archive, 0);
    assert_eq!(pack, container(&archive, 2), "a large tape takes three");
    stop(archive);
    let directory = &instance.settings.library.files().unwrap().directory;
    fs::remove_dir_all(directory.join("cartridges")).unwrap();
    let small = |n: u16| (Vid::new(&format!("KS{n:04}")).unwrap(), SMALL_TAPE);
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: (1..=8).map(small).collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(directory, &config).unwrap();
    let archive = instance.open();
    for drive in archive.tape_drives() {
        archive.drive_up(&drive.name).unwrap();
    }
    wait_until("it is dissolved", || {
        archive.migrate_now(None).unwrap();
        let Stat::File(stat) = archive.stat(&path("/t/file0")).unwrap() else { panic!("a file") };
        stat.copies.first().is_some_and(|copy| copy.container != pack)
    });
    migrate_all(&archive);
    assert_ne!(container(&archive, 0), container(&archive, 2), "no small tape takes three");
    read_from_tape(&archive);
    archive.close();
}
