//! Tapes that are shorter than their medium promises: what stands on a label is not what a drive finds.

use std::collections::BTreeSet;
use std::sync::Arc;

use archive::{Archive, Machines, TapeInfo};
use base::{ByteCount, Vid};
use catalogue::TapeState;
use library::{CartridgeInfo, Library, LibraryError};

use crate::common::{
    Instance, SystemClock, bytes, copy, get, migrate_all, put, settled, stage, stop, wait_for, wait_until,
};
use crate::history::evict_all;
use crate::restoring::at_rest;
use crate::within::as_the_library_within;

const HOLDS: ByteCount = ByteCount::mib(64);
/// What is kept of a tape of this size is more than a tape has.
const PROMISED: ByteCount = ByteCount::mib(8_192);

/// A library whose labels promise more than its cartridges have, but for some.
struct Promising {
    library: Arc<dyn Library>,
    promised: ByteCount,
}

impl Library for Promising {
    as_the_library_within!(
        changes drives without_vid out_of_reach library_of take_drive mount unmount look_again export import
    );

    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let promised = |cartridge| CartridgeInfo { capacity: self.promised, ..cartridge };
        Ok(self.library.inventory()?.into_iter().map(promised).collect())
    }
}

fn open(instance: &Instance, promised: ByteCount) -> Archive {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let library = Arc::new(Promising { library: Arc::clone(&machines.library), promised });
    let machines = Machines { library, ..machines };
    settled(Archive::open_on(machines, instance.settings.clone(), Arc::new(SystemClock)).unwrap())
}

fn labelled(archive: &Archive) -> Vec<TapeInfo> {
    archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_some()).collect()
}

/// As the drive says, less what stands there already.
fn is_as_told(capacity: ByteCount) -> bool {
    capacity <= HOLDS && capacity.0 > HOLDS.0 - HOLDS.0 / 32
}

/// Story: 100 GB cartridges whose labels said L8 were labelled one after the other, and each was full at
/// once: what is kept for indexes was more than was left.
#[test]
fn a_tape_that_is_shorter_than_promised_is_used_for_what_it_holds() {
    let instance = Instance::with(HOLDS, at_rest);
    let archive = open(&instance, PROMISED);
    put(&archive, "/t/first", &bytes(1, 10_000_000));
    migrate_all(&archive);
    let pools: BTreeSet<_> = labelled(&archive).iter().map(|tape| tape.tape_pool.clone()).collect();
    assert_eq!(labelled(&archive).len(), pools.len(), "{:?}", labelled(&archive));
    for tape in labelled(&archive) {
        assert!(is_as_told(tape.capacity) && tape.state == TapeState::Active, "{tape:?}");
    }
    // The second tape has shown the same: what was never labelled is believed to be alike.
    let scratch = archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_none());
    assert!(scratch.clone().count() > 0 && scratch.clone().all(|tape| is_as_told(tape.capacity)));
    put(&archive, "/t/second", &bytes(2, 30_000_000));
    migrate_all(&archive);
    assert_eq!(labelled(&archive).len(), pools.len(), "they have room for it");
    stop(archive);
    // A start knows it, whatever the label says.
    let archive = open(&instance, PROMISED);
    assert!(archive.tapes().unwrap().iter().all(|tape| is_as_told(tape.capacity)));
    stop(archive);
}

/// Story: 200 MB cartridges whose labels said L8, of 12 TB, were all full with nothing on them: of what is
/// less than a part of the promise the drive was not believed, and what is of use was reckoned by the label.
#[test]
fn however_much_is_promised_the_drive_that_labels_a_tape_is_believed() {
    let instance = Instance::with(HOLDS, at_rest);
    let archive = open(&instance, ByteCount(12_000_000_000_000));
    let content = bytes(1, 1_000_000);
    put(&archive, "/t/first", &content);
    migrate_all(&archive);
    let pools: BTreeSet<_> = labelled(&archive).iter().map(|tape| tape.tape_pool.clone()).collect();
    assert_eq!(labelled(&archive).len(), pools.len(), "{:?}", labelled(&archive));
    for tape in labelled(&archive) {
        assert!(is_as_told(tape.capacity) && tape.containers > 0, "{tape:?}");
        assert_eq!(tape.state, TapeState::Active, "{tape:?}");
    }
    evict_all(&archive);
    let request = stage(&archive, &["/t/first"]);
    wait_for(&archive, request);
    assert!(get(&archive, "/t/first").unwrap() == content);
    stop(archive);
}

/// Story: with a `cartridge_capacity` below what the cartridges hold, a tape was never written again once so
/// much was on it, and nothing said why.
#[test]
fn a_tape_that_holds_more_than_promised_is_used_for_what_it_holds() {
    let instance = Instance::with(HOLDS, at_rest);
    let archive = open(&instance, ByteCount::mib(16));
    put(&archive, "/t/first", &bytes(1, 10_000_000));
    migrate_all(&archive);
    let first: Vec<Vid> = labelled(&archive).iter().map(|tape| tape.vid).collect();
    for n in 2..5 {
        put(&archive, &format!("/t/file{n}"), &bytes(n, 10_000_000));
        migrate_all(&archive);
    }
    let used: Vec<Vid> = labelled(&archive).iter().map(|tape| tape.vid).collect();
    assert_eq!(used, first, "{:?}", labelled(&archive));
    assert!(labelled(&archive).iter().all(|tape| is_as_told(tape.capacity)), "{:?}", labelled(&archive));
    stop(archive);
}

/// A cartridge on which hardly anything fits is never called full: it is taken out of use, and told why.
#[test]
fn a_tape_that_holds_next_to_nothing_is_not_called_full() {
    let tiny = ByteCount::mib(4);
    let instance =
        Instance::with_many_tapes(3, tiny, library::VirtualCartridgeOptions::default(), |settings| {
            at_rest(settings);
            settings.tape.retry_delay = base::Duration::from_secs(3_600);
        });
    let archive = open(&instance, ByteCount(12_000_000_000_000));
    put(&archive, "/t/first", &bytes(1, 100_000));
    archive.migrate_now(None).unwrap();
    wait_until("a tape is refused", || {
        labelled(&archive).iter().any(|tape| tape.state == TapeState::Disabled)
    });
    for tape in labelled(&archive).iter().filter(|tape| tape.state == TapeState::Disabled) {
        assert!(tape.reason.contains(&format!("fit on {}, which is empty", tape.vid)), "{tape:?}");
    }
    assert!(archive.tapes().unwrap().iter().all(|tape| tape.state != TapeState::Full));
    stop(archive);
}

/// Story: a tape whose labelling was cut short before the drive was asked, and one that an earlier version
/// had labelled, was full with nothing on it. What is put into use again is looked at again; and nobody is
/// told to reclaim it, only for it to be labelled and found to be the same.
#[test]
fn an_empty_tape_that_is_mounted_again_is_asked_again_what_it_holds() {
    let tiny = ByteCount::mib(4);
    let options = library::VirtualCartridgeOptions::default;
    let instance = Instance::with_many_tapes(1, tiny, options(), |settings| {
        at_rest(settings);
        settings.tape.retry_delay = base::Duration::from_millis(50);
    });
    let archive = open(&instance, ByteCount(12_000_000_000_000));
    put(&archive, "/t/first", &bytes(1, 100_000));
    archive.migrate_now(None).unwrap();
    let refused = || archive.tapes().unwrap().iter().all(|tape| tape.state == TapeState::Disabled);
    wait_until("the tape is refused", refused);
    let vid = labelled(&archive)[0].vid;
    archive.set_tape(vid, archive::TapeUse::Active, "for the test").unwrap();
    wait_until("the tape is refused again", refused);
    assert!(labelled(&archive)[0].reason.contains("which is empty"), "{:?}", labelled(&archive));
    let why = format!("{:?}", archive.explain(&archive::About::Tape(vid)).unwrap());
    assert!(!why.contains("makes it scratch"), "{why}");
    stop(archive);
}

/// One drive that says something else of each tape makes nobody believe so of the others.
#[test]
fn tapes_that_differ_from_each_other_say_nothing_of_the_others() {
    let instance = Instance::with_many_tapes(1, HOLDS, library::VirtualCartridgeOptions::default(), at_rest);
    let config = library::VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: Vec::new(),
        options: library::VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let directory = &instance.settings.library.files().unwrap().directory;
    let library = library::VirtualLibrary::open(directory, &config).unwrap();
    for n in 2..7 {
        let holds = ByteCount::mib(64 + 16 * (n - 1));
        library.add_cartridge(Vid::new(&format!("KT{n:04}")).unwrap(), holds, &config.options).unwrap();
    }
    drop(library);
    let archive = open(&instance, PROMISED);
    put(&archive, "/t/first", &bytes(1, 1_000_000));
    migrate_all(&archive);
    assert_eq!(labelled(&archive).len(), 2);
    let scratch = archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_none());
    assert!(scratch.clone().count() == 4 && scratch.clone().all(|tape| tape.capacity == PROMISED));
    stop(archive);
}

/// A file that would fit on a tape as it was promised is cut as soon as two tapes have shown what they hold,
/// and not one is labelled after the other for the whole of it.
#[test]
fn a_file_that_fits_on_no_tape_as_it_is_uses_up_none() {
    let instance = Instance::with_many_tapes(12, HOLDS, library::VirtualCartridgeOptions::default(), at_rest);
    let archive = open(&instance, PROMISED);
    let content = bytes(3, 100_000_000);
    put(&archive, "/t/large", &content);
    migrate_all(&archive);
    let empty: Vec<Vid> =
        labelled(&archive).iter().filter(|tape| tape.containers == 0).map(|tape| tape.vid).collect();
    assert_eq!(empty, [], "{:?}", labelled(&archive));
    evict_all(&archive);
    let request = stage(&archive, &["/t/large"]);
    wait_for(&archive, request);
    assert!(get(&archive, "/t/large").unwrap() == content);
    stop(archive);
}

/// One odd cartridge says nothing of the others; and what was believed of them is taken back by the first
/// that holds what is promised.
#[test]
fn what_is_promised_counts_again_with_the_first_tape_that_holds_it() {
    let instance = Instance::with_many_tapes(8, HOLDS, library::VirtualCartridgeOptions::default(), at_rest);
    let archive = open(&instance, PROMISED);
    put(&archive, "/t/first", &bytes(1, 1_000_000));
    migrate_all(&archive);
    assert!(archive.tapes().unwrap().iter().all(|tape| is_as_told(tape.capacity)));
    let scratch: Vec<TapeInfo> =
        archive.tapes().unwrap().into_iter().filter(|tape| tape.uuid.is_none()).collect();
    stop(archive);
    // The scratch tapes are others now, and hold what their labels say.
    let promised = ByteCount::mib(128);
    let scratch: Vec<Vid> = scratch.iter().map(|tape| tape.vid).collect();
    let made = tempfile::tempdir().unwrap();
    let config = library::VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: scratch.iter().map(|vid| (*vid, promised)).collect(),
        options: library::VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    drop(library::VirtualLibrary::create(made.path(), &config).unwrap());
    for vid in &scratch {
        std::fs::remove_dir_all(instance.cartridge(*vid)).unwrap();
        copy(&made.path().join("cartridges").join(vid.as_str()), &instance.cartridge(*vid));
    }
    let archive = open(&instance, promised);
    let used: Vec<Vid> = labelled(&archive).iter().map(|tape| tape.vid).collect();
    for vid in &used {
        archive.set_tape(*vid, archive::TapeUse::ReadOnly, "for the test").unwrap();
    }
    put(&archive, "/t/second", &bytes(2, 1_000_000));
    migrate_all(&archive);
    let others = archive.tapes().unwrap().into_iter().filter(|tape| !used.contains(&tape.vid));
    assert!(others.clone().count() == 6 && others.clone().all(|tape| tape.capacity == promised));
    stop(archive);
}
