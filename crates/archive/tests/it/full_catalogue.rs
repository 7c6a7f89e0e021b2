//! A catalogue without room, and the tapes that its files wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use archive::{
    Archive, ArchiveError, CallProgress, Locality, Machines, PathSubmission, RemovalWait, RemoveTree,
    StageOptions, Stat, SubmittedPath, UpkeepSettings,
};
use base::{ByteCount, DirId, RequestId, Uuid};
use catalogue::{Command, Table, TapeState};
use scheduler::Reason;
use store::{
    CatalogueStore, CommitControl, CommitFate, ExecuteError, MemoryCatalogue, MemoryChange, Shortage,
    StoreOptions,
};

use crate::common::{
    Instance, SystemClock, all, bytes, extents, get, migrate_all, path, put, settled, stage, stop, wait_until,
};
use crate::faulty::check_all;

/// An instance with a small map, of which nothing goes to tape by itself.
fn small_map(map: ByteCount) -> Instance {
    Instance::with(ByteCount::mib(64), |settings| {
        settings.catalogue_map_size = map;
        settings.tape.retry_delay = Duration::from_secs(3600);
        for class in &mut settings.classes {
            class.pack_age = Duration::from_secs(3600);
            class.pack_bytes = ByteCount::mib(4);
        }
    })
}

/// Puts small files until the catalogue has no room for one more; gives them.
fn fill(archive: &Archive) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let full = loop {
        let (name, content) = (format!("/t/{:05}", files.len()), vec![7; 64]);
        let upload =
            archive.begin_put(&path(&name), archive::PutOptions { make_parents: true, ..Default::default() });
        let done = upload.and_then(|mut upload| {
            upload.write(&content)?;
            upload.finish()
        });
        match done {
            Ok(_) => files.push((name, content)),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, ArchiveError::Store(ExecuteError::MapFull)), "{full}");
    files
}

fn remove_tree(archive: &Archive, at: &str) -> DirId {
    let how = RemoveTree { owner: "test".to_owned(), directory: None, with_lists: false };
    archive.remove_tree(&path(at), how).unwrap().id
}

/// Tapes and drives have nothing to do with it: none is labelled in vain, set aside or suspected, and with a
/// larger map all goes on.
#[test]
fn a_full_catalogue_is_no_fault_of_tapes_or_drives() {
    let mut instance = small_map(ByteCount::mib(16));
    let archive = settled(instance.open());
    let files = fill(&archive);
    let tapes = archive.tapes().unwrap().len();
    let drives = archive.tape_drives().len();
    archive.migrate_now(None).unwrap();
    wait_until("the catalogue is told as the reason", || {
        let waits = archive.queue().unwrap();
        waits.iter().any(|line| matches!(line.cause, Some(Reason::CatalogueFull)))
    });
    let scratch = archive.tapes().unwrap().iter().filter(|tape| tape.state == TapeState::Scratch).count();
    assert!(scratch + drives >= tapes, "{scratch} of {tapes} are left");
    for tape in archive.tapes().unwrap() {
        assert!(
            !matches!(tape.state, TapeState::Suspect | TapeState::ReadOnly),
            "{} {}",
            tape.vid,
            tape.reason
        );
    }
    assert!(archive.tape_drives().iter().all(|drive| drive.state != "down"));
    stop(archive);
    instance.settings.catalogue_map_size = ByteCount::mib(64);
    let archive = settled(instance.open());
    wait_until("all is on tape", || {
        archive.migrate_now(None).unwrap();
        let totals = archive.totals().unwrap();
        totals.todo.files == 0 && totals.queued.files == 0 && totals.unindexed == 0
    });
    let every_hundredth: Vec<_> = files.into_iter().step_by(100).collect();
    check_all(&archive, &every_hundredth);
    put(&archive, "/t/new", &[1; 100]);
    stop(archive);
}

/// Story: the files of a removed directory stayed on a full catalogue, and nothing said why: 400 of them did
/// not fit into what is kept for removals, and were tried again for ever.
#[test]
fn a_removed_directory_makes_room_in_a_full_catalogue() {
    let instance = small_map(ByteCount::mib(4));
    let archive = settled(instance.open());
    put(&archive, "/kept", &[3; 64]);
    for number in 0..900 {
        put(&archive, &format!("/t/a{number:03}"), &[5; 64]);
    }
    let options = StageOptions { owner: "test".to_owned(), pin: base::Duration::from_secs(1), priority: 5 };
    let request = archive.stage(&all(&["/t"]), options).unwrap();
    let files = fill(&archive).len() as u64 + 900;
    assert!(!archive.health().is_empty());
    // Requests are released and forgotten, too, in that part of the map.
    let progress = CallProgress::default();
    archive.release_told(request, None, &progress).unwrap();
    assert_eq!(progress.files(), 900);
    let kept = UpkeepSettings { requests_kept: base::Duration::default(), ..UpkeepSettings::default() };
    archive.set_upkeep(kept);
    let id = remove_tree(&archive, "/t");
    wait_until("all that was in the directory is removed", || {
        let removal = archive.tree_removal(id).unwrap();
        assert_eq!(removal.waits, None);
        removal.record.ended.is_some()
    });
    assert_eq!(archive.tree_removal(id).unwrap().record.files, files);
    wait_until("the pool has what it held", || archive.pool_info().unwrap().garbage == 0);
    wait_until("the request is forgotten", || archive.request(request).is_err());
    assert_eq!(archive.health(), []);
    for number in 0..files / 5 {
        put(&archive, &format!("/again/{number}"), &[9; 64]);
    }
    assert_eq!(get(&archive, "/kept").unwrap(), [3; 64]);
    stop(archive);
}

/// A catalogue that has room for so many changed rows of a table in one commit.
struct Tight {
    table: Table,
    most: AtomicUsize,
    /// Behind the next commit that changes such rows there is room for none.
    is_last: AtomicBool,
}

impl Tight {
    fn changed(&self, changes: &[MemoryChange]) -> usize {
        changes.iter().filter(|change| change.table == self.table && change.old.is_some()).count()
    }
}

impl CommitControl for Tight {
    fn fate(&self, changes: &[MemoryChange]) -> CommitFate {
        match self.changed(changes) > self.most.load(Ordering::Relaxed) {
            true => CommitFate::MapFull,
            false => CommitFate::Durable,
        }
    }

    fn committed(&self, changes: &[MemoryChange]) {
        if self.changed(changes) > 0 && self.is_last.swap(false, Ordering::SeqCst) {
            self.most.store(0, Ordering::SeqCst);
        }
    }
}

fn tight(table: Table) -> (Instance, Archive, Arc<Tight>) {
    let instance = Instance::new(ByteCount::mib(64));
    let clock = Arc::new(SystemClock);
    let control =
        Arc::new(Tight { table, most: AtomicUsize::new(usize::MAX), is_last: AtomicBool::new(false) });
    let tables = MemoryCatalogue::with_control(Arc::<Tight>::clone(&control));
    let options = StoreOptions::new(ByteCount::mib(64), clock.clone());
    let catalogue = CatalogueStore::open_memory(&tables, options).unwrap();
    catalogue.execute(Command::Initialise { instance: Uuid::from_random([7; 16]) }).unwrap();
    let machines = Machines { catalogue, ..Machines::open(&instance.settings, clock.clone()).unwrap() };
    let archive = Archive::open_on(machines, instance.settings.clone(), clock).map(settled).unwrap();
    (instance, archive, control)
}

/// Not even one file can be removed: the removal says what it waits for, and goes on by itself.
#[test]
fn a_removal_without_room_says_so_and_goes_on_by_itself() {
    let (_instance, archive, control) = tight(Table::File);
    for number in 0..20 {
        put(&archive, &format!("/t/d/{number}"), &bytes(number, 100));
    }
    control.most.store(0, Ordering::Relaxed);
    let id = remove_tree(&archive, "/t");
    wait_until("the reason is told", || archive.tree_removal(id).unwrap().waits.is_some());
    let removal = archive.tree_removal(id).unwrap();
    assert_eq!((removal.record.files, &removal.waits), (0, &Some(RemovalWait::NoRoom(Shortage::Map))));
    assert!(removal.waits.as_ref().unwrap().to_string().contains("map is full"));
    assert_eq!(archive.tree_removals().unwrap(), [removal]);
    control.most.store(7, Ordering::Relaxed);
    wait_until("it is done", || archive.tree_removal(id).unwrap().record.ended.is_some());
    let removal = archive.tree_removal(id).unwrap();
    assert_eq!((removal.record.files, removal.waits), (20, None));
    stop(archive);
}

/// Found by a reader: the request of a submission that failed, which could not be removed either, counted
/// among the open ones of its owner until the next start.
#[test]
fn what_a_submission_left_without_room_goes_with_the_next_one() {
    let (_instance, archive, control) = tight(Table::Request);
    let submission = || PathSubmission {
        owner: "anna".to_owned(),
        pin: Duration::from_secs(60),
        priority: 5,
        paths: vec![SubmittedPath::new("/none".to_owned(), None)],
    };
    let known = || -> Vec<RequestId> {
        archive.requests(None, 10).unwrap().into_iter().map(|info| info.request).collect()
    };
    // The request is opened; nothing can be added to it, nor can it be removed.
    control.most.store(0, Ordering::SeqCst);
    let failed = archive.stage_paths(submission());
    assert!(matches!(failed, Err(ArchiveError::Store(ExecuteError::MapFull))), "{failed:?}");
    let left = known();
    assert_eq!(left.len(), 1, "it could not be removed");
    control.most.store(usize::MAX, Ordering::SeqCst);
    let request = archive.stage_paths(submission()).unwrap();
    assert_eq!(known(), [request], "{left:?} is gone");
    stop(archive);
}

/// The progress of a cancel rose by 400 for each part, however small it was.
#[test]
fn a_cancel_in_small_parts_counts_what_is_done() {
    let (_instance, archive, control) = tight(Table::RequestItem);
    for number in 0..30 {
        put(&archive, &format!("/t/{number:02}"), &bytes(number, 100));
    }
    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().evicted, 30);
    for drive in archive.tape_drives() {
        archive.drive_down(&drive.name, "a test").unwrap();
    }
    let request = stage(&archive, &["/t"]);
    control.most.store(7, Ordering::Relaxed);
    let progress = CallProgress::default();
    archive.cancel_request_told(request, &progress).unwrap();
    assert_eq!(progress.files(), 30);
    assert_eq!(archive.request(request).unwrap().record.cancelled, 30);
    stop(archive);
}

/// Story: what the pool had lost was recorded in part, and the rest found no room: nobody asked for the files
/// back that were NEARLINE by then.
#[test]
fn files_that_are_recorded_as_lost_in_part_are_asked_for() {
    let (instance, archive, control) = tight(Table::File);
    for number in 0..20 {
        put(&archive, &format!("/t/{number:02}"), &bytes(number, 100));
    }
    migrate_all(&archive);
    for drive in archive.tape_drives() {
        archive.drive_down(&drive.name, "a test").unwrap();
    }
    for drive in &instance.settings.pool.drives {
        extents(drive.at.directory()).iter().for_each(|extent| std::fs::remove_file(extent).unwrap());
    }
    control.most.store(7, Ordering::SeqCst);
    control.is_last.store(true, Ordering::SeqCst);
    archive.scrub_now();
    // A request is made before it is given its files.
    let asked = || {
        let requests = archive.requests(None, 10).unwrap();
        requests.iter().map(|request| u64::from(request.record.files)).sum::<u64>()
    };
    let is_nearline = |number: &u64| match archive.stat(&path(&format!("/t/{number:02}"))).unwrap() {
        Stat::File(file) => file.locality == Locality::Nearline,
        Stat::Directory(_) => false,
    };
    // What is recorded as lost comes into the request a moment later, and the two are counted one by one.
    wait_until("all that are recorded are asked for", || {
        let nearline = (0..20).filter(is_nearline).count() as u64;
        (1..20).contains(&nearline) && asked() == nearline
    });
    assert!(!control.is_last.load(Ordering::SeqCst));
    stop(archive);
}
