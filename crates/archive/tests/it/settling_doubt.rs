//! What a restore makes of tapes whose newest index cannot be read or understood.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::{Archive, Machines, SettlingStage, open_library};
use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use library::{CartridgeInfo, DriveName, Library, LibraryError, ReadBlock, TapeDrive};
use ltfs::coherency::VOLUME_COHERENCY;
use store::{CatalogueStore, StoreOptions};

use crate::common::{
    Instance, SystemClock, bytes, get, migrate_all, put, settled, stage, wait_for, wait_until,
};
use crate::held::{Gate, open_behind};
use crate::history::evict_all;
use crate::restoring::{at_rest, check, open, restore_to, shipped};
use crate::settling::{locality, on_one_tape, stage_of};
use crate::within::as_the_library_within;
use archive::Locality;

/// One tape has a file that the catalogue, restored to a point before, believes in the pool.
fn with_a_later_file() -> Instance {
    let (instance, archive, _) = on_one_tape();
    put(&archive, "/t/later", &bytes(2, 300_000));
    let point = shipped(&archive);
    migrate_all(&archive);
    evict_all(&archive);
    restore_to(&instance, archive, point);
    instance
}

/// Writes the newest index of partitions of all volumes again, with one digit changed: it can be read, and is
/// not what its hash says. The cartridge memory forgets about indexes.
fn spoil_newest_indexes(instance: &Instance, partitions: &[Partition]) {
    let library = open_library(&instance.settings.library).unwrap();
    let name = library.drives().remove(0);
    let mut drive = library.take_drive(&name).unwrap();
    let mut spoilt = 0;
    for cartridge in library.inventory().unwrap() {
        library.mount(cartridge.vid, &name).unwrap();
        for partition in partitions {
            spoilt += u64::from(spoil_newest_index(drive.as_mut(), *partition));
        }
        library.unmount(&name).unwrap();
    }
    assert!(spoilt > 0);
}

fn spoil_newest_index(drive: &mut dyn TapeDrive, partition: Partition) -> bool {
    let end = drive.space_to_end_of_data(partition).unwrap().block.0;
    let mut buffer = vec![0; 1 << 16];
    let mut blocks = Vec::new();
    // From its closing file mark back to the opening one.
    for block in (0..end.saturating_sub(1)).rev() {
        drive.locate(TapePosition { partition, block: BlockAddress(block) }).unwrap();
        match drive.read_block(&mut buffer).unwrap() {
            ReadBlock::Data(length) => blocks.push(buffer[..length].to_vec()),
            _ => break,
        }
    }
    blocks.reverse();
    let tag = b"<generationnumber>";
    let Some(first) = blocks.first_mut().filter(|block| block.starts_with(b"<?xml")) else { return false };
    let at = memchr::memmem::find(first, tag).unwrap() + tag.len();
    first[at] = if first[at] == b'9' { b'8' } else { first[at] + 1 };
    let begin = BlockAddress(end - 1 - blocks.len() as u64);
    drive.locate(TapePosition { partition, block: begin }).unwrap();
    for block in &blocks {
        drive.write_block(block).unwrap();
    }
    drive.write_filemarks(1).unwrap();
    [Partition::Index, Partition::Data].iter().for_each(|of| {
        drive.write_attribute(*of, VOLUME_COHERENCY.id, &[]).unwrap();
    });
    true
}

/// All cartridges as they are, to be put back.
fn keep_cartridges(instance: &Instance) -> (PathBuf, PathBuf) {
    let cartridges = instance.settings.library.files().unwrap().directory.join("cartridges");
    let kept = instance.directory.path().join("kept-cartridges");
    copy_all(&cartridges, &kept);
    (cartridges, kept)
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn is_found(archive: &Archive) {
    assert_eq!(stage_of(archive), Some(SettlingStage::Settled), "{:?}", archive.settling());
    assert_eq!(locality(archive, "/t/later"), Locality::Nearline);
    wait_for(archive, stage(archive, &["/t"]));
    assert!(get(archive, "/t/later").unwrap() == bytes(2, 300_000));
    check(archive);
}

/// Story: an index that could be read and was not what had been written was no doubt: the look went back to
/// the one before, and the files that the tape held were LOST.
#[test]
fn nothing_is_lost_on_the_word_of_a_tape_whose_newest_index_is_not_what_was_written() {
    let instance = with_a_later_file();
    let (cartridges, kept) = keep_cartridges(&instance);
    spoil_newest_indexes(&instance, &[Partition::Data, Partition::Index]);
    let archive = settled(open_behind(&instance, &Gate::default()));
    let settling = archive.settling().unwrap();
    assert_eq!(settling.stage, SettlingStage::Unsettled, "{settling:?}");
    assert!(!settling.unseen.is_empty(), "{settling:?}");
    assert_ne!(locality(&archive, "/t/later"), Locality::Lost);
    archive.close();
    drop(archive);
    fs::remove_dir_all(&cartridges).unwrap();
    fs::rename(&kept, &cartridges).unwrap();
    let archive = settled(open_behind(&instance, &Gate::default()));
    is_found(&archive);
    archive.close();
}

/// The newest index of the data partition is spoilt, and its copy on the index partition is whole: that one
/// counts, and nothing is left open.
#[test]
fn the_copy_on_the_index_partition_takes_the_place_of_a_spoilt_index() {
    let instance = with_a_later_file();
    spoil_newest_indexes(&instance, &[Partition::Data]);
    let archive = settled(open_behind(&instance, &Gate::default()));
    is_found(&archive);
    archive.close();
}

/// A library that is not reached for a while.
struct Away {
    library: Arc<dyn Library>,
    is_back: Arc<AtomicBool>,
}

impl Away {
    fn reached(&self) -> Result<(), LibraryError> {
        match self.is_back.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(not_reached()),
        }
    }
}

fn not_reached() -> LibraryError {
    LibraryError::NotReached { why: "it is away".to_owned() }
}

impl Library for Away {
    as_the_library_within!(
        drives without_vid out_of_reach library_of take_drive unmount look_again export import
    );

    fn changes(&self) -> Result<u64, LibraryError> {
        Ok(self.library.changes()? + u64::from(self.is_back.load(Ordering::SeqCst)))
    }

    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        self.reached()?;
        self.library.inventory()
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        self.reached()?;
        self.library.mount(vid, drive)
    }
}

/// A point at which a tape was labelled, and nothing was on it by the catalogue. The library was away when
/// tapes were looked at; when it was back the catalogue counted as settled, although nobody had looked at
/// what was written to the tape since.
#[test]
fn a_labelled_tape_of_a_library_that_was_away_is_not_seen() {
    for offset in 1.. {
        // With one drive: no other tape is being labelled at the point.
        let instance = Instance::with(ByteCount::mib(256), |settings| {
            at_rest(settings);
            settings.library.files_mut().unwrap().drives = 1;
        });
        let archive = open(&instance);
        put(&archive, "/t/file", &bytes(1, 300_000));
        let point = shipped(&archive) + offset;
        migrate_all(&archive);
        assert!(point < shipped(&archive), "there is a point between the label and what is written");
        restore_to(&instance, archive, point);
        let options = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
        let store = CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap();
        let mut tapes = store.read(|view| view.tapes()).unwrap();
        drop(store);
        assert!(tapes.iter().all(|(_, tape)| tape.containers == 0), "before anything is on one");
        tapes.retain(|(_, tape)| tape.may_be_written() && tape.generation.0 > 0);
        let [(vid, _)] = &tapes[..] else { continue };
        let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
        let is_back = Arc::new(AtomicBool::new(false));
        let library = Away { library: Arc::clone(&machines.library), is_back: Arc::clone(&is_back) };
        let machines = Machines { library: Arc::new(library), ..machines };
        let archive = Archive::open_on(machines, instance.settings.clone(), Arc::new(SystemClock)).unwrap();
        wait_until("it waits for the library", || archive.settling().unwrap().failing.is_some());
        is_back.store(true, Ordering::SeqCst);
        let archive = settled(archive);
        assert_eq!(stage_of(&archive), Some(SettlingStage::Unsettled));
        assert_eq!(archive.settling().unwrap().unseen, [*vid]);
        archive.close();
        return;
    }
}
