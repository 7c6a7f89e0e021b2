//! Cartridges that are scratch by the catalogue and hold something.

use std::time::Duration;

use crate::common::{bytes, migrate_all, put, wait_until};
use crate::faulty::{Trouble, check_all, drive, place, vid};
use base::{Timestamp, Uuid};
use catalogue::TapeState;
use library::Library;
use ltfs::BlockSize;
use mover::{Found, Volume, identify};

const FOREIGN: Uuid = Uuid([9; 16]);

/// After a restore, tapes that were labelled since were scratch by the catalogue. Each that was to be
/// labelled was refused, as it must be, but after three of them the drive was taken out of use for 40
/// minutes, and longer each time, although it had read well what they hold.
#[test]
fn cartridges_that_are_not_blank_are_set_aside_and_the_drive_goes_on() {
    // Whoever rests does so for longer than the test waits.
    let trouble = Trouble::with_retry(1, Duration::from_secs(3_600));
    let labelled = || (1..=4).map(vid);
    let library_before = trouble.library();
    for vid in labelled() {
        library_before.mount(vid, &drive(0)).unwrap();
        let mut handle = library_before.take_drive(&drive(0)).unwrap();
        Volume::label(handle.as_mut(), vid, FOREIGN, BlockSize::DEFAULT, None, None, Timestamp(1)).unwrap();
        drop(handle);
        library_before.unmount(&drive(0)).unwrap();
    }
    drop(library_before);
    let (archive, _) = trouble.open();
    let files = vec![("/t/large".to_owned(), bytes(1, 3_000_000))];
    put(&archive, &files[0].0, &files[0].1);
    archive.migrate_now(None).unwrap();
    wait_until("it is on both tapes that are blank", || place(&archive, "/t/large").len() == 2);
    migrate_all(&archive);
    check_all(&archive, &files);
    let drives = archive.tape_drives();
    assert!(drives.iter().all(|drive| drive.state != "down"), "{drives:?}");
    for vid in labelled() {
        let tape = archive.tape(vid).unwrap();
        assert_eq!((tape.state, tape.uuid), (TapeState::Suspect, None), "{vid}");
        assert!(
            tape.reason.contains("is not blank") && tape.reason.contains("LTFS volume"),
            "{}",
            tape.reason
        );
    }
    archive.close();
    drop(archive);
    let library = trouble.library();
    for vid in labelled() {
        library.mount(vid, &drive(0)).unwrap();
        let mut handle = library.take_drive(&drive(0)).unwrap();
        let found = identify(handle.as_mut()).unwrap();
        assert!(matches!(found, Found::Volume { uuid, .. } if uuid == FOREIGN), "untouched: {found}");
        drop(handle);
        library.unmount(&drive(0)).unwrap();
    }
}
