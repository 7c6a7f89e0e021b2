//! Drives that are added to the pool of a running server.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::{Instance, bytes, extents, put, scrub, stop, wait_for_pool};
use crate::drained::{check_files, load, put_files, small_packs};
use crate::replaced::instance;
use archive::DriveLocation;
use archive::{
    AddedDrive, AddedWhat, Archive, ArchiveError, DriveFileError, NameDrive, NewDrive, PoolDriveFile,
    PoolDriveSettings, ReplacedDrive,
};
use base::{ByteCount, DriveId, Uuid};
use drive::{BurnInId, BurnInRecord, BurnInVerdict};

const FILES: u64 = 30;

/// Where the server ends, as if killed, or the file cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    NotReady,
    BeforeNamed,
    AfterNamed,
}

/// The operator's file, in memory.
#[derive(Default)]
pub struct Named {
    drives: Arc<Mutex<Vec<PoolDriveSettings>>>,
    stop: Mutex<Option<Stop>>,
    /// Who looks next says so, and goes on when it is told to.
    hang: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

impl Named {
    pub fn of(instance: &Instance) -> Arc<Self> {
        let drives = Arc::new(Mutex::new(instance.settings.pool.drives.clone()));
        Arc::new(Named { drives, ..Named::default() })
    }

    fn list(&self) -> Vec<PoolDriveSettings> {
        self.drives.lock().unwrap().clone()
    }
}

fn stopped() -> DriveFileError {
    DriveFileError::Wrong("stopped here".into())
}

impl PoolDriveFile for Named {
    fn drives(&self) -> Result<Vec<PoolDriveSettings>, DriveFileError> {
        let hang = self.hang.lock().unwrap().take();
        if let Some((looking, go)) = hang {
            looking.send(()).unwrap();
            go.recv().unwrap();
        }
        Ok(self.list())
    }

    fn prepare(&self, drive: &PoolDriveSettings) -> Result<NameDrive, DriveFileError> {
        let (stop, drive, drives) = (*self.stop.lock().unwrap(), drive.clone(), Arc::clone(&self.drives));
        if stop == Some(Stop::NotReady) {
            return Err(stopped());
        }
        Ok(Box::new(move || {
            if stop == Some(Stop::BeforeNamed) {
                return Err(stopped());
            }
            drives.lock().unwrap().push(drive);
            if stop == Some(Stop::AfterNamed) { Err(stopped()) } else { Ok(()) }
        }))
    }
}

fn directory(instance: &Instance, drive: u16) -> PathBuf {
    instance.directory.path().join(format!("pool/d{drive}"))
}

fn at(instance: &Instance, drive: u16) -> DriveLocation {
    DriveLocation::Directory(directory(instance, drive))
}

fn wanted(instance: &Instance, drive: u16) -> NewDrive {
    NewDrive { make: true, ..NewDrive::at(at(instance, drive)) }
}

fn added(id: u16, what: AddedWhat) -> AddedDrive {
    AddedDrive { id, what }
}

/// Opens an instance as its file names the drives now.
pub fn open(instance: &mut Instance, file: &Arc<Named>) -> Archive {
    instance.settings.pool.drives = file.list();
    let archive = instance.open();
    archive.set_pool_drive_file(Arc::clone(file) as Arc<dyn PoolDriveFile>);
    archive
}

fn begin() -> (Instance, Arc<Named>, Archive) {
    let mut instance = instance();
    let file = Named::of(&instance);
    let archive = open(&mut instance, &file);
    put_files(&archive, 0..FILES);
    (instance, file, archive)
}

/// By their numbers.
fn states(archive: &Archive) -> Vec<(u16, &'static str)> {
    archive.pool_info().unwrap().drives.iter().map(|drive| (drive.id, drive.state)).collect()
}

fn up(count: u16) -> Vec<(u16, &'static str)> {
    (0..count).map(|id| (id, "up")).collect()
}

fn gaps(archive: &Archive) -> BTreeSet<u16> {
    let drives = archive.pool_info().unwrap().drives.into_iter();
    drives.filter(|drive| drive.gaps_after.is_some() || drive.filling).map(|drive| drive.id).collect()
}

fn assert_whole(archive: &Archive) {
    wait_for_pool(archive, "no drive may lack anything", || gaps(archive).is_empty());
    scrub(archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed), (0, 0), "{:?}", info.findings);
}

fn refused(archive: &Archive, drive: &NewDrive) -> String {
    let error = archive.pool_drive_add(drive).unwrap_err();
    assert!(matches!(error, ArchiveError::NoNewDrive { .. }), "{error}");
    error.to_string()
}

/// Of a good disk.
fn record(id: BurnInId) -> BurnInRecord {
    BurnInRecord {
        id,
        verdict: BurnInVerdict::Passed,
        is_direct: true,
        is_judged_by_place: true,
        ended: base::Timestamp(1_800_000_000_000_000_000),
        bytes: ByteCount(1 << 40),
        capacity: ByteCount(1 << 41),
        write_rate: ByteCount(200_000_000),
        read_rate: ByteCount(210_000_000),
        median_max: Duration::from_millis(8),
        p99_max: Duration::from_millis(20),
        faults: 0,
        slow_places: 0,
    }
}

/// Story: the command that burns a disk in may run on another machine, where the same path is another disk.
#[test]
fn a_drive_that_is_to_be_burnt_in_has_the_record_of_just_that() {
    let (instance, _file, archive) = begin();
    let path = directory(&instance, 9);
    let id = BurnInId(77);
    let record = record(id);
    let drive = NewDrive { burn_in: Some(id), ..wanted(&instance, 9) };
    fs::create_dir_all(&path).unwrap();
    assert!(refused(&archive, &drive).contains("no record of its burn-in 000000000000004d"));
    BurnInRecord { id: BurnInId(78), ..record }.write(&path).unwrap();
    assert!(refused(&archive, &drive).contains("another burn-in, 000000000000004e"));
    for verdict in [BurnInVerdict::Slow, BurnInVerdict::Faulty] {
        BurnInRecord { verdict, ..record }.write(&path).unwrap();
        let said = refused(&archive, &drive);
        assert!(said.contains(&format!("has not passed, and called it {}", verdict.word())), "{said}");
    }
    for (doubtful, why) in [
        (BurnInRecord { is_direct: false, ..record }, "not read from the disk alone"),
        (BurnInRecord { is_judged_by_place: false, ..record }, "not judged by place"),
    ] {
        doubtful.write(&path).unwrap();
        let said = refused(&archive, &drive);
        assert!(said.contains(why) && said.contains("--accept-burn-in"), "{said}");
    }
    assert!(!path.join("drive.kist").exists(), "no drive was made of it");
    record.write(&path).unwrap();
    let added = archive.pool_drive_add(&drive).unwrap();
    assert_eq!(added.what, AddedWhat::New);
    let told = || {
        let pool = archive.pool_info().unwrap();
        pool.drives.into_iter().find(|told| told.id == added.id).unwrap().burn_in
    };
    assert_eq!(told(), Some(record));
    assert_eq!(archive.pool_info().unwrap().drives[0].burn_in, None);
}

/// Story: a disk that its burn-in had called faulty was added without a word.
#[test]
fn a_disk_that_has_not_passed_is_added_only_if_that_is_accepted() {
    let (instance, _file, archive) = begin();
    let path = directory(&instance, 9);
    fs::create_dir_all(&path).unwrap();
    for verdict in [BurnInVerdict::Slow, BurnInVerdict::Faulty] {
        BurnInRecord { verdict, ..record(BurnInId(77)) }.write(&path).unwrap();
        let said = refused(&archive, &wanted(&instance, 9));
        assert!(said.contains(&format!("called its disk {}", verdict.word())), "{said}");
    }
    fs::write(path.join("burn-in.kist"), "KISTBURN").unwrap();
    assert!(refused(&archive, &wanted(&instance, 9)).contains("no whole record of a burn-in"));
    BurnInRecord { verdict: BurnInVerdict::Faulty, ..record(BurnInId(77)) }.write(&path).unwrap();
    let accepted = NewDrive { accept_burn_in: true, ..wanted(&instance, 9) };
    assert_eq!(archive.pool_drive_add(&accepted).unwrap().what, AddedWhat::New);
    // It has been accepted then.
    assert_eq!(archive.pool_drive_add(&wanted(&instance, 9)).unwrap().what, AddedWhat::InUse);
}

/// Story: what hinders a drive was found after its burn-in of two days.
#[test]
fn what_can_be_added_is_known_before_and_asking_changes_nothing() {
    let (instance, file, archive) = begin();
    let ask = |drive: &NewDrive| archive.pool_drive_add(&NewDrive { check: true, ..drive.clone() });
    let (names, states) = (file.list().len(), states(&archive));
    let drive = wanted(&instance, 9);
    assert_eq!(ask(&drive).unwrap().what, AddedWhat::Possible);
    let mounted = NewDrive { make: false, ..drive.clone() };
    assert!(ask(&mounted).unwrap_err().to_string().contains("the directory is not there"));
    let path = directory(&instance, 9);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("mine"), "x").unwrap();
    assert!(ask(&drive).unwrap_err().to_string().contains("is not empty"));
    fs::remove_file(path.join("mine")).unwrap();
    assert_eq!(ask(&drive).unwrap().what, AddedWhat::Possible);
    assert!(ask(&wanted(&instance, 0)).unwrap_err().to_string().contains("the place of drive 0"));
    assert_eq!((file.list().len(), self::states(&archive)), (names, states));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

/// Puts, reads, removals and sessions go on meanwhile; the next start finds it as it was.
#[test]
fn a_drive_is_added_under_load_and_takes_its_part_at_once() {
    let mut instance = Instance::with(ByteCount::mib(256), small_packs);
    let file = Named::of(&instance);
    let archive = open(&mut instance, &file);
    put_files(&archive, 0..FILES);
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&archive, FILES, &is_over));
        let drive = NewDrive { enclosure: Some("e1".into()), ..wanted(&instance, 8) };
        assert_eq!(archive.pool_drive_add(&drive).unwrap(), added(8, AddedWhat::New));
        assert_eq!(gaps(&archive), BTreeSet::new(), "it lacks nothing, and was not away");
        wait_for_pool(&archive, "stripes are on it", || extents(&directory(&instance, 8)).len() > 10);
        is_over.store(true, Ordering::SeqCst);
        load.join().unwrap()
    });
    assert_eq!(states(&archive), up(9));
    let info = archive.pool_info().unwrap().drives[8].clone();
    assert_eq!((info.path, info.errors), (directory(&instance, 8).display().to_string(), 0));
    let totals = archive.totals().unwrap();
    assert_eq!((totals.pool_drives, totals.pool_drives_up), (9, 9));
    assert_eq!(archive.pool_health().unwrap().silent_drives, 0);
    let named = file.list();
    assert_eq!((named.len(), named[8].enclosure.as_str()), (9, "e1"));
    check_files(&archive, 0..written);
    assert_whole(&archive);
    stop(archive);

    let archive = open(&mut instance, &file);
    assert_eq!((states(&archive), gaps(&archive)), (up(9), BTreeSet::new()));
    check_files(&archive, 0..written);
    assert_whole(&archive);
    // It is one of them in all respects.
    archive.pool_drive_drain(8).unwrap();
    wait_for_pool(&archive, "it is empty", || archive.pool_drive_remove(8).is_ok());
    check_files(&archive, 0..written);
    stop(archive);
}

/// Even parts are 6 of 9: the sets in which it is come more often than in turn.
#[test]
fn it_gets_as_many_stripes_as_the_others() {
    let (instance, _, archive) = begin();
    archive.pool_drive_add(&wanted(&instance, 8)).unwrap();
    let before: Vec<usize> = (0..9).map(|n| extents(&directory(&instance, n)).len()).collect();
    for n in 0..90 {
        drop(put(&archive, &format!("/more/{n}"), &bytes(n, 300_000)));
    }
    let counts = (0..9).map(|n| extents(&directory(&instance, n)).len() - before[usize::from(n)]);
    let counts: Vec<usize> = counts.collect();
    assert!(counts.iter().all(|count| (45..=75).contains(count)), "{counts:?}");
    stop(archive);
}

#[test]
fn a_server_that_is_killed_in_between_leaves_no_drive_or_one_that_the_next_start_takes_up() {
    for (point, drives_after) in [(Stop::NotReady, 8), (Stop::BeforeNamed, 8), (Stop::AfterNamed, 9)] {
        let (mut instance, file, archive) = begin();
        *file.stop.lock().unwrap() = Some(point);
        let said = refused(&archive, &wanted(&instance, 8));
        assert!(said.contains("stopped here"), "{said}");
        assert_eq!(states(&archive), up(8));
        assert_eq!(directory(&instance, 8).join("drive.kist").exists(), point != Stop::NotReady);
        put_files(&archive, FILES..FILES + 10);
        stop(archive);
        *file.stop.lock().unwrap() = None;

        let archive = open(&mut instance, &file);
        assert_eq!(states(&archive), up(drives_after), "{point:?}");
        check_files(&archive, 0..FILES + 10);
        // Said once more it is done, or was.
        let what = match point {
            Stop::NotReady => AddedWhat::New,
            Stop::BeforeNamed => AddedWhat::Returned,
            Stop::AfterNamed => AddedWhat::InUse,
        };
        assert_eq!(archive.pool_drive_add(&wanted(&instance, 8)).unwrap(), added(8, what), "{point:?}");
        assert_eq!((states(&archive), file.list().len()), (up(9), 9));
        put_files(&archive, FILES + 10..FILES + 50);
        assert!(extents(&directory(&instance, 8)).len() > 5);
        check_files(&archive, 0..FILES + 50);
        assert_whole(&archive);
        stop(archive);
    }
}

#[test]
fn what_is_no_place_for_a_new_drive_is_refused_and_nothing_is_changed() {
    let (instance, file, archive) = begin();
    let drive = |id: u16| wanted(&instance, id);
    // Something is in it.
    fs::create_dir_all(directory(&instance, 8)).unwrap();
    fs::write(directory(&instance, 8).join("mine"), "x").unwrap();
    let said = refused(&archive, &drive(8));
    assert!(said.contains("is not empty"), "{said}");
    assert_eq!(fs::read_dir(directory(&instance, 8)).unwrap().count(), 1);
    // Another instance's.
    at(&instance, 9).format(Uuid::from_random([8; 16]), DriveId(9)).unwrap();
    assert!(refused(&archive, &drive(9)).contains("drive 9 of another instance"));
    // Its disk may not be mounted.
    let said = refused(&archive, &NewDrive { make: false, ..drive(10) });
    assert!(said.contains("not there: mount its disk"), "{said}");
    assert!(!directory(&instance, 10).exists());
    // A copy of one that is in use.
    crate::common::copy(&directory(&instance, 3), &directory(&instance, 11));
    let said = refused(&archive, &drive(11));
    assert!(said.contains("drive 3 of the pool is at"), "{said}");
    // Within another drive: one of its directories is empty.
    let inside = NewDrive { at: DriveLocation::Directory(directory(&instance, 3).join("new")), ..drive(3) };
    assert!(refused(&archive, &inside).contains("in the place of drive 3"));
    let catalogue = instance.settings.catalogue_directory.join("d");
    let inside = NewDrive { at: DriveLocation::Directory(catalogue), ..drive(3) };
    assert!(refused(&archive, &inside).contains("the catalogue's directory"));
    // One that the file names as another.
    at(&instance, 12).format(Uuid::from_random([7; 16]), DriveId(12)).unwrap();
    let entry = PoolDriveSettings {
        id: 20,
        at: at(&instance, 12),
        host: None,
        enclosure: String::new(),
        group: String::new(),
    };
    file.drives.lock().unwrap().push(entry);
    let said = refused(&archive, &drive(12));
    assert!(said.contains("holds drive 12, and kist.toml names it as drive 20"), "{said}");
    assert_eq!(states(&archive), up(8));
    assert_eq!(file.list().len(), 9);
    check_files(&archive, 0..FILES);
    stop(archive);
    let without = instance.open();
    assert!(refused(&without, &drive(13)).contains("in no file"));
    stop(without);
}

/// Story: an entry in the file and a formatted directory were of no use before the next start.
#[test]
fn a_drive_that_the_file_names_by_hand_is_put_in_by_its_place_or_number() {
    let (mut instance, file, archive) = begin();
    let entry = |id: u16, directory: u16, instance: &Instance| PoolDriveSettings {
        id,
        at: at(instance, directory),
        host: None,
        enclosure: "e2".into(),
        group: String::new(),
    };
    file.drives.lock().unwrap().extend([entry(30, 8, &instance), entry(31, 9, &instance)]);
    at(&instance, 8).format(Uuid::from_random([7; 16]), DriveId(30)).unwrap();
    let other = NewDrive { enclosure: Some("e3".into()), ..wanted(&instance, 8) };
    assert!(refused(&archive, &other).contains("another host, enclosure or group"));
    assert_eq!(archive.pool_drive_add(&wanted(&instance, 8)).unwrap(), added(30, AddedWhat::Returned));
    assert_eq!(archive.pool_drive_add(&wanted(&instance, 8)).unwrap(), added(30, AddedWhat::InUse));
    assert!(matches!(archive.pool_drive_replace(32, true, false), Err(ArchiveError::NoSuchPoolDrive(32))));
    assert_eq!(archive.pool_drive_replace(31, true, false).unwrap(), ReplacedDrive::New);
    assert_eq!(gaps(&archive), BTreeSet::new());
    // The next number is above all.
    assert_eq!(archive.pool_drive_add(&wanted(&instance, 10)).unwrap(), added(32, AddedWhat::New));
    put_files(&archive, FILES..FILES + 60);
    assert!((8..11).all(|n| extents(&directory(&instance, n)).len() > 5));
    stop(archive);
    let archive = open(&mut instance, &file);
    let expected: Vec<_> = up(8).into_iter().chain([30, 31, 32].map(|id| (id, "up"))).collect();
    assert_eq!(states(&archive), expected);
    check_files(&archive, 0..FILES + 60);
    assert_whole(&archive);
    stop(archive);
}

/// One that was taken out and left the file, and one that left it with all that it holds.
#[test]
fn drives_that_left_the_file_come_back_by_their_place() {
    let (mut instance, file, archive) = begin();
    archive.pool_drive_drain(5).unwrap();
    wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(5).is_ok());
    stop(archive);
    file.drives.lock().unwrap().retain(|drive| ![3, 5].contains(&drive.id));
    let archive = open(&mut instance, &file);
    let state = |id: u16| states(&archive).into_iter().find(|(drive, _)| *drive == id).map(|found| found.1);
    assert_eq!((state(3), state(5)), (Some("missing"), None));
    let last = archive.pool_drive_add(&wanted(&instance, 8)).unwrap();
    assert_eq!(last, added(8, AddedWhat::New), "no number is given twice");
    for drive in [3, 5] {
        let back = archive.pool_drive_add(&wanted(&instance, drive)).unwrap();
        assert_eq!(back, added(drive, AddedWhat::Returned));
    }
    assert_eq!(states(&archive), up(9));
    put_files(&archive, FILES..FILES + 40);
    check_files(&archive, 0..FILES + 40);
    assert_whole(&archive);
    stop(archive);
    let archive = open(&mut instance, &file);
    assert_eq!(states(&archive), up(9));
    check_files(&archive, 0..FILES + 40);
    assert_whole(&archive);
    stop(archive);
}

/// Story: the entry of a drive in use was deleted from the file, and who said `add` was told that it is in
/// use and named there. The next start missed it, with all that had been written to it since.
#[test]
fn a_drive_in_use_that_the_file_names_no_more_is_named_again() {
    let (mut instance, file, archive) = begin();
    file.drives.lock().unwrap().retain(|drive| drive.id != 3);
    assert_eq!(archive.pool_drive_add(&wanted(&instance, 3)).unwrap(), added(3, AddedWhat::InUse));
    assert!(file.list().iter().any(|drive| drive.id == 3), "{:?}", file.list());
    stop(archive);
    let archive = open(&mut instance, &file);
    assert_eq!(states(&archive), up(8));
    check_files(&archive, 0..FILES);
    stop(archive);
}

/// Story: a directory of the pool hung, and while a drive was added, which looks at all of them, it could not
/// be given up.
#[test]
fn a_drive_is_given_up_while_others_are_looked_at_for_a_new_one() {
    let (instance, file, archive) = begin();
    let ((looking, looks), (go, gone)) = (mpsc::channel(), mpsc::channel());
    *file.hang.lock().unwrap() = Some((looking, gone));
    std::thread::scope(|scope| {
        let adds = scope.spawn(|| archive.pool_drive_add(&wanted(&instance, 8)));
        looks.recv().unwrap();
        let (ended, end) = mpsc::channel();
        let archive = &archive;
        scope.spawn(move || ended.send(archive.pool_drive_lost(0, false)).unwrap());
        // Only a test that fails waits so long.
        let lost = end.recv_timeout(std::time::Duration::from_secs(60));
        go.send(()).unwrap();
        lost.expect("it is given up meanwhile").unwrap();
        assert_eq!(adds.join().unwrap().unwrap(), added(8, AddedWhat::New));
    });
    stop(archive);
}
