//! Drives that ask to be cleaned, on a virtual library that has cleaning cartridges.

use std::sync::Arc;
use std::time::Duration;

use archive::{Archive, ArchiveError, LibrarySettings, Machines};
use base::Vid;
use catalogue::TapeState;
use library::{
    Condition, DriveCommand, DriveName, Faults, Library, LibraryError, TapeAlert, Union,
    VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig,
};

use crate::common::{SystemClock, migrate_all, settled, wait_until};
use crate::faulty::{Trouble, drive, fill, round};

fn cleaner(name: &str) -> Vid {
    Vid::new(name).unwrap()
}

/// A library of one drive with these cleaning cartridges.
fn with_cleaners(names: &[&str], uses_max: u32) -> Trouble {
    let trouble = Trouble::with(1, Duration::from_millis(200), |settings| {
        settings.tape.mounts.cleaning.uses_max = uses_max;
        settings.tape.dismount_delay = Duration::ZERO;
    });
    names.iter().for_each(|name| put_in(&trouble, name));
    trouble
}

fn put_in(trouble: &Trouble, name: &str) {
    let directory = &trouble.instance.settings.library.files().unwrap().directory;
    std::fs::create_dir_all(directory.join("cleaning")).unwrap();
    std::fs::write(directory.join("cleaning").join(name), b"").unwrap();
}

fn uses(archive: &Archive) -> Vec<(String, u32)> {
    let cleaners = archive.cleaning().unwrap().cleaners.into_iter();
    cleaners.map(|cleaner| (cleaner.vid.to_string(), cleaner.uses)).collect()
}

fn asks(archive: &Archive) -> Option<bool> {
    let drives = archive.cleaning().unwrap().drives;
    drives.into_iter().find(|(name, _)| name == "vdrive0").and_then(|(_, it)| Some(it.asks?.urgent))
}

/// Files that are being written while the drive asks to be cleaned before its next mount.
fn write_until_it_asks(archive: &Archive, faults: &Faults) -> Vec<(String, Vec<u8>)> {
    faults.plan_alert(&drive(0), TapeAlert::CLEAN_NOW);
    let files = fill(archive);
    archive.migrate_now(None).unwrap();
    wait_until("it asks", || asks(archive) == Some(true));
    files
}

fn was_cleaned(archive: &Archive) -> bool {
    archive.cleaning().unwrap().drives.iter().any(|(_, it)| it.cleaned.is_some())
}

fn wait_for_cleanings(faults: &Faults, count: usize) {
    wait_until("the drive was cleaned", || faults.cleanings().len() == count);
}

/// TapeAlert 20 and 21: the drive is cleaned once, the use is counted for good, and the archive goes on.
#[test]
fn a_drive_that_asks_for_it_is_cleaned_and_the_use_is_counted() {
    for (alert, name) in [(TapeAlert::CLEAN_NOW, "now"), (TapeAlert::CLEAN_PERIODIC, "in idle time")] {
        let trouble = with_cleaners(&["CLN001", "CLN002"], 50);
        let (archive, faults) = trouble.open();
        faults.plan_alert(&drive(0), alert);
        let files = fill(&archive);
        migrate_all(&archive);
        wait_until("it was cleaned", || was_cleaned(&archive));
        assert_eq!(faults.cleanings(), [(drive(0), cleaner("CLN001"))], "{name}");
        assert_eq!(asks(&archive), None);
        round(&archive, &files);
        // It is no tape.
        assert!(archive.tapes().unwrap().iter().all(|tape| !tape.vid.as_str().starts_with("CLN")));
        archive.close();
        drop(archive);
        let (archive, faults) = trouble.open();
        assert_eq!(uses(&archive), [("CLN001".to_owned(), 1), ("CLN002".to_owned(), 0)]);
        assert!(was_cleaned(&archive));
        // Within a day it is not cleaned again, and that is told.
        faults.plan_alert(&drive(0), alert);
        let tapes = archive.tapes().unwrap();
        let used = tapes.iter().find(|tape| tape.containers > 0).unwrap();
        archive.check_tapes(&[used.vid]).unwrap();
        wait_until("it asks", || asks(&archive).is_some());
        assert_eq!(faults.cleanings(), []);
        let told = || archive.totals().unwrap().warnings;
        wait_until("it is told", || told().iter().any(|it| it.contains("asks to be cleaned again")));
        // By an operator's word it is.
        archive.clean_drive("vdrive0", None).unwrap();
        wait_for_cleanings(&faults, 1);
        wait_until("it does not ask", || asks(&archive).is_none());
        archive.close();
    }
}

/// A drive that works no more before it is cleaned came up again after a rest, as dirty as before.
#[test]
fn a_drive_that_refuses_to_work_is_cleaned() {
    let trouble = Trouble::with(1, Duration::from_secs(3600), |_| {});
    put_in(&trouble, "CLN001");
    let (archive, faults) = trouble.open();
    faults.plan_condition(&drive(0), DriveCommand::Write, Condition::Dirty, 1);
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    wait_for_cleanings(&faults, 1);
    assert!(faults.fired() > 0);
    // With the long rest of drives that fail it would not come up by itself. Its tape rests.
    wait_until("it is in use", || archive.tape_drives()[0].state != "down");
    drop(files);
    archive.close();
}

/// Used up by count, by the drive's word, and failed: each is told, and no other use is made of it.
#[test]
fn cartridges_that_are_used_up_are_set_aside_and_told() {
    let trouble = with_cleaners(&["CLN001", "CLN002"], 1);
    let (archive, faults) = trouble.open();
    faults.plan_used_up(cleaner("CLN001"));
    archive.clean_drive("vdrive0", None).unwrap();
    // The first one did not clean it; the second is used up by count.
    wait_for_cleanings(&faults, 2);
    wait_until("it was cleaned", || was_cleaned(&archive));
    assert_eq!(faults.cleanings(), [(drive(0), cleaner("CLN001")), (drive(0), cleaner("CLN002"))]);
    let warnings = archive.totals().unwrap().warnings;
    let told = |what: &str| warnings.iter().any(|it| it.contains(what));
    assert!(
        told("CLN001 is used no more (TapeAlert 22") && told("CLN002 is used no more (it was used 1"),
        "{warnings:?}"
    );
    assert!(matches!(archive.clean_drive("vdrive0", None), Err(ArchiveError::NoCleaner { .. })));
    let other = archive.clean_drive("vdrive0", Some(cleaner("CLN009")));
    assert!(matches!(other, Err(ArchiveError::NoSuchCleaner { .. })));
    // By name it is used all the same, and counted anew.
    archive.clean_drive("vdrive0", Some(cleaner("CLN002"))).unwrap();
    wait_for_cleanings(&faults, 3);
    archive.close();
}

#[test]
fn a_drive_goes_on_or_rests_without_a_cleaning_cartridge_and_one_that_comes_is_used() {
    let trouble = with_cleaners(&[], 50);
    let (archive, faults) = trouble.open();
    let files = write_until_it_asks(&archive, &faults);
    let warnings = archive.totals().unwrap().warnings;
    let told: Vec<_> = warnings.iter().filter(|it| it.contains("asks to be cleaned")).collect();
    assert!(told.len() == 1 && told[0].contains("put one in"), "{warnings:?}");
    wait_until("it rests", || archive.tape_drives()[0].state == "empty");
    put_in(&trouble, "CLN003");
    archive.refresh_inventory(false).unwrap();
    wait_for_cleanings(&faults, 1);
    round(&archive, &files);
    assert_eq!(uses(&archive), [("CLN003".to_owned(), 1)]);
    archive.close();
}

/// What a drive asked for outlives the server; an operator who uses it as it is ends it.
#[test]
fn what_a_drive_asks_for_outlives_the_server() {
    let trouble = with_cleaners(&[], 50);
    let (archive, faults) = trouble.open();
    let files = write_until_it_asks(&archive, &faults);
    archive.close();
    drop(archive);
    let (archive, _) = trouble.open();
    assert_eq!(asks(&archive), Some(true));
    let why = || archive.tape_drives()[0].cause.as_ref().map(|cause| cause.kind());
    wait_until("it rests", || why() == Some("to-be-cleaned"));
    archive.drive_up("vdrive0").unwrap();
    round(&archive, &files);
    assert_eq!(asks(&archive), None);
    archive.close();
}

/// A jam on the way is told and tried again. It was no use of the cartridge.
#[test]
fn a_cleaning_that_failed_is_tried_again() {
    let trouble = with_cleaners(&["CLN001"], 50);
    let (archive, faults) = trouble.open();
    faults.plan_jam(cleaner("CLN001"));
    archive.clean_drive("vdrive0", Some(cleaner("CLN001"))).unwrap();
    wait_for_cleanings(&faults, 1);
    wait_until("it was cleaned", || was_cleaned(&archive));
    assert!(faults.fired() > 0);
    assert_eq!(uses(&archive), [("CLN001".to_owned(), 1)]);
    let files = fill(&archive);
    round(&archive, &files);
    assert!(matches!(archive.clean_drive("vdrive9", None), Err(ArchiveError::NoSuchDrive(_))));
    archive.drive_down("vdrive0", "service").unwrap();
    let refused = archive.clean_drive("vdrive0", None);
    assert!(matches!(refused, Err(ArchiveError::DriveOutOfUse { .. })), "{refused:?}");
    archive.close();
}

/// A drive was clean, and the robot did not bring the cartridge back: the drive counted as empty, and as
/// dirty, and was cleaned again.
#[test]
fn a_drive_that_is_clean_and_keeps_the_cartridge_is_not_cleaned_again() {
    let trouble = with_cleaners(&["CLN001"], 50);
    let (archive, faults) = trouble.open();
    faults.plan_cleaner_stays(cleaner("CLN001"));
    faults.plan_alert(&drive(0), TapeAlert::CLEAN_NOW);
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    wait_until("it was cleaned", || was_cleaned(&archive));
    assert!(faults.fired() > 0);
    assert_eq!(asks(&archive), None);
    // It is looked at like any drive that failed, and comes up by itself.
    round(&archive, &files);
    assert_eq!(faults.cleanings().len(), 1);
    assert_eq!(uses(&archive), [("CLN001".to_owned(), 1)]);
    archive.close();
}

/// Where another library has a cleaning cartridge, a drive whose own library cleans by itself asked for it
/// for ever.
#[test]
fn the_cartridges_of_another_library_clean_no_drive_of_this_one() {
    let trouble = Trouble::with(1, Duration::from_millis(200), |settings| {
        settings.tape.dismount_delay = Duration::ZERO;
        let directory = settings.library.files().unwrap().directory.with_file_name("far");
        let far = LibrarySettings { name: "far".to_owned(), ..LibrarySettings::only(directory, 1) };
        settings.more_libraries = vec![far];
    });
    let far = trouble.instance.settings.library.files().unwrap().directory.with_file_name("far");
    let config = VirtualLibraryConfig {
        drives: vec![DriveName::new("far-vdrive0").unwrap()],
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let far = VirtualLibrary::create(&far, &config).unwrap();
    far.add_cleaning_cartridge(cleaner("CLN001"), 50).unwrap();
    let near = trouble.library();
    let faults = near.faults();
    let settings = trouble.instance.settings.clone();
    let members: Vec<(String, Arc<dyn Library>)> =
        vec![("library".to_owned(), Arc::new(near)), ("far".to_owned(), Arc::new(far))];
    let machines = Machines::open(&settings, Arc::new(SystemClock)).unwrap();
    let machines = Machines { library: Arc::new(Union::new(members).unwrap()), ..machines };
    let archive = settled(Archive::open_on(machines, settings, Arc::new(SystemClock)).unwrap());
    let files = fill(&archive);
    migrate_all(&archive);
    wait_until("the drives are empty", || archive.tape_drives().iter().all(|it| it.state == "empty"));
    let tapes = archive.tapes().unwrap();
    let used = tapes.iter().find(|tape| tape.containers > 0).unwrap().vid;
    faults.plan_alert(&drive(0), TapeAlert::CLEAN_PERIODIC);
    archive.check_tapes(&[used]).unwrap();
    wait_until("it asks", || asks(&archive) == Some(false));
    // Without the flag at its next mount its own library has cleaned it.
    round(&archive, &files);
    wait_until("it does not ask any more", || asks(&archive).is_none());
    assert_eq!(faults.cleanings(), []);
    archive.close();
}

/// A WORM cartridge among the scratch tapes: it is not labelled, says why, and is left alone.
#[test]
fn a_worm_cartridge_is_not_labelled_and_says_so() {
    let trouble = with_cleaners(&[], 50);
    let (archive, faults) = trouble.open();
    let first = archive.tapes().unwrap()[0].vid;
    faults.plan_worm(first);
    let files = fill(&archive);
    round(&archive, &files);
    let tape = archive.tape(first).unwrap();
    assert!(faults.fired() > 0, "it was tried");
    assert_eq!((tape.state, tape.generation, tape.containers), (TapeState::Disabled, 0, 0), "{tape:?}");
    assert!(tape.reason.contains("WORM cartridge"), "{tape:?}");
    archive.close();
}

/// Story: the export of a cartridge that was used up was refused since there was no such tape, and the log
/// called that an error of the server. A virtual library has no door for it; it is asked, and says so.
#[test]
fn the_library_is_asked_to_export_a_cleaning_cartridge() {
    let trouble = with_cleaners(&["CLN001"], 50);
    let (archive, _) = trouble.open();
    let error = archive.export_tape(cleaner("CLN001")).unwrap_err();
    assert!(matches!(error, ArchiveError::Library(LibraryError::NoImportExport)), "{error}");
    let error = archive.export_tape(cleaner("CLN009")).unwrap_err();
    assert!(matches!(error, ArchiveError::NoSuchTape(_)), "{error}");
    archive.close();
}
