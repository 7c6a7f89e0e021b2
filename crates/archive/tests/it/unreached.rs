//! What is told while a library was not reached since the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::{Archive, ArchiveError, Machines, TapeExport};
use base::{ByteCount, Vid};
use library::{CartridgeInfo, DriveCommand, DriveName, Library, LibraryError};

use crate::common::{Instance, SystemClock, bytes, migrate_all, path, put, settled, stop, wait_until};
use crate::keys::{drive, open_with_faults};
use crate::restoring::at_rest;
use crate::within::as_the_library_within;

/// A library that is not reached before it is back.
struct Unreached {
    library: Arc<dyn Library>,
    is_back: Arc<AtomicBool>,
}

impl Unreached {
    fn is_back(&self) -> bool {
        self.is_back.load(Ordering::SeqCst)
    }

    fn reached(&self) -> Result<(), LibraryError> {
        match self.is_back() {
            true => Ok(()),
            false => Err(LibraryError::NotReached { why: "it is away".to_owned() }),
        }
    }
}

impl Library for Unreached {
    as_the_library_within!(
        drives without_vid out_of_reach library_of take_drive unmount look_again export import
    );

    fn changes(&self) -> Result<u64, LibraryError> {
        Ok(self.library.changes()? + u64::from(self.is_back()))
    }

    fn unreached(&self) -> Vec<u16> {
        if self.is_back() { Vec::new() } else { vec![0] }
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

fn open(instance: &Instance) -> (Archive, Arc<AtomicBool>) {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let is_back = Arc::new(AtomicBool::new(false));
    let library = Unreached { library: Arc::clone(&machines.library), is_back: Arc::clone(&is_back) };
    let machines = Machines { library: Arc::new(library), ..machines };
    let archive = Archive::open_on(machines, instance.settings.clone(), Arc::new(SystemClock)).unwrap();
    (settled(archive), is_back)
}

/// Stories: a file was "being written" to a tape that no drive had, since a session on it was cut short
/// before the start; a tape that no library had shown yet was not there, and one that was known was in no
/// library and could not be exported.
#[test]
fn what_a_library_may_hold_that_was_not_reached_is_not_called_absent() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let (archive, faults) = open_with_faults(&instance);
    put(&archive, "/t/first", &bytes(1, 300_000));
    migrate_all(&archive);
    // Not the flush of the session that wrote the first file.
    let rests = |state: &str| matches!(state, "idle" | "empty");
    wait_until("no session runs", || archive.tape_drives().iter().all(|drive| rests(&drive.state)));
    faults.plan_death(&drive(0), DriveCommand::Flush);
    put(&archive, "/t/begun", &bytes(2, 300_000));
    archive.migrate_now(None).unwrap();
    wait_until("the drive dies with a tape in a session", || faults.fired() > 0);
    stop(archive);

    let (archive, is_back) = open(&instance);
    let why = archive.why_path(&path("/t/begun")).unwrap();
    assert!(why.iter().all(|line| !line.contains("being written")), "{why:?}");
    let begun = why.iter().find(|line| line.contains("begun on")).unwrap();
    assert!(begun.contains("not reached since the start"), "{begun}");
    let unknown = Vid::new("KT0999").unwrap();
    let told = archive.tape(unknown).unwrap_err();
    assert!(matches!(&told, ArchiveError::TapeNotSeen { unreached, .. } if unreached.len() == 1), "{told}");
    assert!(matches!(archive.export_tape(unknown), Err(ArchiveError::TapeNotSeen { .. })));
    let known = archive.tapes().unwrap().into_iter().find(|tape| tape.containers > 0).unwrap().vid;
    let export = archive.export_tape(known).unwrap();
    let TapeExport::Waiting { reason, begins: true } = &export else { panic!("{export:?}") };
    assert!(reason.contains("was not reached since the start"), "{reason}");

    is_back.store(true, Ordering::SeqCst);
    archive.take_inventory().unwrap();
    assert!(matches!(archive.tape(unknown), Err(ArchiveError::NoSuchTape(_))));
    wait_until("the tape is exported", || archive.tape(known).unwrap().away_as.is_some());
    stop(archive);
}
