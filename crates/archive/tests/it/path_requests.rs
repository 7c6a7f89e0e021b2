//! Requests that name paths one by one, as the Tape REST API has them.

use std::sync::Arc;

use crate::common::{
    Instance, SystemClock, bytes, get, migrate_all, path, put, put_with, stop, wait_for, wait_until,
};
use crate::faulty::set_drives;
use archive::{
    Archive, ArchiveError, ItemFailure, Locality, PathLocality, PathState, PathSubmission, PutOptions,
    RequestInfo, SubmittedPath, Which,
};
use base::{ByteCount, Duration, RequestId};
use catalogue::{
    AskedFor, AskedPath, Command, ItemState, Outcome, PathRefusal, REQUEST_PATHS_MAX, RequestItem,
    RequestState,
};
use store::{CatalogueStore, StoreOptions};

const HOUR: Duration = Duration::from_secs(3_600);

fn paths(texts: &[&str]) -> Vec<SubmittedPath> {
    texts.iter().map(|text| SubmittedPath::new((*text).to_owned(), None)).collect()
}

fn submission(owner: &str, texts: &[&str]) -> PathSubmission {
    PathSubmission { owner: owner.to_owned(), pin: HOUR, priority: 5, paths: paths(texts) }
}

fn state(archive: &Archive, request: RequestId, text: &str) -> PathState {
    let found = archive.path_request(request).unwrap().paths.into_iter().find(|(path, _)| path == text);
    found.unwrap_or_else(|| panic!("the request does not name {text}")).1
}

fn item(archive: &Archive, request: RequestId, text: &str) -> RequestItem {
    match state(archive, request, text) {
        PathState::File(item, _) => item,
        PathState::Refused(why) => panic!("{text}: {why:?}"),
    }
}

fn info(archive: &Archive, request: RequestId) -> RequestInfo {
    archive.path_request(request).unwrap().info
}

/// Three files that only tapes have, and one that is in the pool.
fn with_files(instance: &Instance) -> Archive {
    let archive = instance.open();
    for (seed, name) in (1..).zip(["/d/a", "/d/b", "/d/c"]) {
        put(&archive, name, &bytes(seed, 20_000));
    }
    migrate_all(&archive);
    archive.evict(&crate::common::all(&["/d"])).unwrap();
    put(&archive, "/d/here", &bytes(9, 10_000));
    archive
}

fn pins(archive: &Archive, at: &str) -> usize {
    archive.object(&path(at), Which::Current).unwrap().file.pins.len()
}

/// Each path has its own fate: what cannot be brought is told with the request, and keeps nothing from
/// coming. Times are kept over a restart.
#[test]
fn each_path_has_its_own_fate_and_its_times() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    put(&archive, "/d/empty", b"");
    let asked = ["//d///a", "/d/b/", "/d/here", "/d", "/d/none", "/d/empty", "d/c", "/d/../c", "/d/a"];
    let request = archive.stage_paths(submission("anna", &asked)).unwrap();
    wait_for(&archive, request);
    let found = archive.path_request(request).unwrap();
    let texts: Vec<&str> = found.paths.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts, &asked[..8], "each path once, as the client wrote it first");
    for (text, why) in [
        ("/d", PathRefusal::Directory),
        ("/d/none", PathRefusal::NotFound),
        ("/d/empty", PathRefusal::NoData),
        ("d/c", PathRefusal::NoPath),
        ("/d/../c", PathRefusal::NoPath),
    ] {
        assert_eq!(state(&archive, request, text), PathState::Refused(why));
    }
    let record = &found.info.record;
    let list = record.list.unwrap();
    assert_eq!((list.paths, list.refused, record.files, record.done), (8, 5, 3, 3));
    assert!(record.created <= record.started.unwrap() && record.started <= record.ended, "{record:?}");
    for text in ["//d///a", "/d/b/", "/d/here"] {
        let item = item(&archive, request, text);
        assert!(matches!(item.state, ItemState::Done(_)), "{text}: {item:?}");
        let started = item.started.unwrap_or_else(|| panic!("{text}: {item:?}"));
        assert!(record.created <= started && Some(started) <= item.ended(), "{item:?}");
        assert!(item.ended() <= record.ended, "{item:?}");
    }
    assert_eq!(item(&archive, request, "/d/here").started, item(&archive, request, "/d/here").ended());
    assert_eq!((pins(&archive, "/d/a"), pins(&archive, "/d/here"), pins(&archive, "/d/c")), (1, 1, 0));
    assert_eq!(get(&archive, "/d/a").unwrap(), bytes(1, 20_000));
    let (files, next) = archive.request_files(request, 0, 100).unwrap();
    assert_eq!((files.len(), next), (8, None), "the refused ones stand behind the files");
    assert!(files[3..].iter().all(|file| file.failure == Some(ItemFailure::Refused)), "{files:?}");
    stop(archive);
    let archive = instance.open();
    assert_eq!(archive.path_request(request).unwrap(), found);
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// Each file is pinned for as long as its path says, or else as the submission does; of two paths to one file
/// the longer time counts.
#[test]
fn each_file_has_its_own_pin() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    let mut asked = submission("anna", &["/d/a", "/d/b", "/d/here"]);
    asked.paths[1].pin = Some(HOUR * 48);
    asked.paths[2].pin = Some(HOUR * 2);
    let request = archive.stage_paths(asked).unwrap();
    wait_for(&archive, request);
    let held = |at: &str, text: &str| {
        let done = item(&archive, request, text).ended().unwrap();
        let pins = archive.object(&path(at), Which::Current).unwrap().file.pins;
        (pins.len(), pins[0].1.0 - done.0)
    };
    let hours = |hours: i64| (1, hours * 3_600_000_000_000);
    assert_eq!(held("/d/a", "/d/a"), hours(1));
    assert_eq!(held("/d/b", "/d/b"), hours(48));
    assert_eq!(held("/d/here", "/d/here"), hours(2));
    archive.release_paths(request, &paths(&["/d//b", "/d/c", "/elsewhere"])).unwrap();
    assert_eq!((pins(&archive, "/d/a"), pins(&archive, "/d/b")), (1, 0), "only what is named is given back");
    assert_eq!(item(&archive, request, "/d/b").state, ItemState::Released);
    assert!(item(&archive, request, "/d/b").ended().is_some(), "it is still told when it came");
    archive.close();
}

/// A client whose answer was lost submits the same again and gets the same request, as long as that has not
/// ended, also of a server that was started anew. Nobody else gets it.
#[test]
fn the_same_submission_is_one_request_until_it_ends() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let first = archive.stage_paths(submission("anna", &["/d/a", "/d/b", "/d/none"])).unwrap();
    let again = archive.stage_paths(submission("anna", &["/d//none", "/d/b", "/d/a", "/d/a/"])).unwrap();
    assert_eq!(again, first, "in another order, and written otherwise");
    let mut longer = submission("anna", &["/d/a", "/d/b", "/d/none"]);
    longer.pin = HOUR * 2;
    let others = [
        archive.stage_paths(submission("bert", &["/d/a", "/d/b", "/d/none"])).unwrap(),
        archive.stage_paths(submission("anna", &["/d/a", "/d/b"])).unwrap(),
        archive.stage_paths(longer).unwrap(),
    ];
    assert!(!others.contains(&first), "{others:?}");
    stop(archive);
    let archive = instance.open();
    assert_eq!(archive.stage_paths(submission("anna", &["/d/a", "/d/b", "/d/none"])).unwrap(), first);
    set_drives(&archive, true);
    wait_for(&archive, first);
    let anew = archive.stage_paths(submission("anna", &["/d/a", "/d/b", "/d/none"])).unwrap();
    assert_ne!(anew, first, "it has ended");
    assert_eq!(info(&archive, anew).record.state, RequestState::Completed, "all is there");
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// Found by a reader: who submitted the same again got a request of which some files would never come.
#[test]
fn the_same_submission_is_another_request_once_the_first_will_not_give_all() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let stage = |texts: &[&str]| archive.stage_paths(submission("anna", texts)).unwrap();
    let first = stage(&["/d/a", "/d/b", "/d/here"]);
    archive.cancel_paths(first, &paths(&["/d/a"])).unwrap();
    let second = stage(&["/d/a", "/d/b", "/d/here"]);
    assert_ne!(second, first, "a file was cancelled");
    archive.release_paths(second, &paths(&["/d/here"])).unwrap();
    let third = stage(&["/d/a", "/d/b", "/d/here"]);
    assert_ne!(third, second, "a file was given back");
    archive.release_paths(third, &paths(&["/d/b"])).unwrap();
    let fourth = stage(&["/d/a", "/d/b", "/d/here"]);
    assert_ne!(fourth, third, "a file will not be held when it comes");
    assert_eq!(stage(&["/d/a", "/d/b", "/d/here"]), fourth);
    assert_eq!(item(&archive, fourth, "/d/a").state, ItemState::Waiting);
    assert!(matches!(item(&archive, fourth, "/d/here").state, ItemState::Done(_)));
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// Found by a reader: the same submission with a better token, or after a file had been put that was missing,
/// was told the refusals of before.
#[test]
fn what_was_refused_and_is_there_by_now_is_another_submission() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let missing = archive.stage_paths(submission("anna", &["/d/a", "/d/none"])).unwrap();
    assert_eq!(archive.stage_paths(submission("anna", &["/d/a", "/d/none"])).unwrap(), missing);
    put(&archive, "/d/none", &bytes(7, 1_000));
    let there = archive.stage_paths(submission("anna", &["/d/a", "/d/none"])).unwrap();
    assert_ne!(there, missing);
    assert!(matches!(item(&archive, there, "/d/none").state, ItemState::Done(_)));
    let mut refused = submission("anna", &["/d/a", "/d/b"]);
    refused.paths[1].path = Err(PathRefusal::NotAllowed);
    let refused = archive.stage_paths(refused).unwrap();
    let allowed = archive.stage_paths(submission("anna", &["/d/a", "/d/b"])).unwrap();
    assert_ne!(allowed, refused);
    assert_eq!(item(&archive, allowed, "/d/b").state, ItemState::Waiting);
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// Two clients, or a client that gave up waiting, submit the same at the same time: one request comes of it.
#[test]
fn the_same_submission_at_the_same_time_is_one_request() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let mut texts: Vec<String> = (0..2_000).map(|n| format!("/none/{n}")).collect();
    texts.push("/d/a".to_owned());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found: Vec<RequestId> = std::thread::scope(|scope| {
        let submit = || archive.stage_paths(submission("anna", &texts)).unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(submit)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.iter().all(|request| *request == found[0]), "{found:?}");
    assert_eq!(archive.requests(None, 100).unwrap().len(), 1, "nothing is left of the others");
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// Some files are cancelled, by whatever way their paths are written; one foreign path, and nothing is done.
#[test]
fn some_files_are_cancelled_or_none() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let request = archive.stage_paths(submission("anna", &["/d/a", "/d/b", "/d/here", "/d/none"])).unwrap();
    let refused = archive.cancel_paths(request, &paths(&["/d/a", "/d/c"]));
    assert!(
        matches!(&refused, Err(ArchiveError::NotInRequest { path, .. }) if path == "/d/c"),
        "{refused:?}"
    );
    assert_eq!(item(&archive, request, "/d/a").state, ItemState::Waiting, "nothing was done");
    archive.cancel_paths(request, &paths(&["//d/a", "/d/none", "/d/here"])).unwrap();
    let cancelled = item(&archive, request, "/d/a");
    assert_eq!((&cancelled.state, cancelled.started), (&ItemState::Cancelled, None));
    assert!(cancelled.ended().is_some());
    assert_eq!(pins(&archive, "/d/here"), 0, "what had come is given back");
    assert_eq!(info(&archive, request).record.state, RequestState::Active);
    set_drives(&archive, true);
    wait_for(&archive, request);
    let locality = |at: &str| archive.object(&path(at), Which::Current).unwrap().file.locality;
    assert_eq!(locality("/d/b"), Locality::OnlineAndNearline);
    assert_eq!(locality("/d/a"), Locality::Nearline, "nobody wanted it any more");
    archive.cancel_paths(request, &paths(&["/d/b"])).unwrap();
    assert_eq!(pins(&archive, "/d/b"), 0, "a cancel of what has come gives it back");
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

#[test]
fn a_deleted_request_is_gone_with_all_that_it_held() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let request = archive.stage_paths(submission("anna", &["/d/a", "/d/here", "/d/none"])).unwrap();
    archive.delete_request(request).unwrap();
    assert!(matches!(archive.path_request(request), Err(ArchiveError::NoSuchRequest(_))));
    assert!(matches!(archive.delete_request(request), Err(ArchiveError::NoSuchRequest(_))));
    assert!(matches!(archive.request(request), Err(ArchiveError::NoSuchRequest(_))));
    assert_eq!(pins(&archive, "/d/here"), 0);
    let ended = archive.stage_paths(submission("anna", &["/d/here"])).unwrap();
    assert_eq!(info(&archive, ended).record.state, RequestState::Completed);
    archive.delete_request(ended).unwrap();
    assert_eq!(pins(&archive, "/d/here"), 0);
    let plain = crate::common::stage(&archive, &["/d/here"]);
    assert!(matches!(archive.path_request(plain), Err(ArchiveError::NoSuchRequest(_))), "it names no paths");
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// The server ended while it filled a request: its client never heard of it, and nothing of it is worked on.
/// The same submission makes a new one.
#[test]
fn a_request_that_was_being_filled_is_gone_after_a_restart() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = with_files(&instance);
    set_drives(&archive, false);
    let file = archive.object(&path("/d/a"), Which::Current).unwrap().file.file;
    stop(archive);
    let options = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    let store = CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap();
    let open = Command::OpenPathRequest { owner: "anna".to_owned(), pin: HOUR };
    let Outcome::Request(request) = store.execute(open).unwrap() else { panic!("a request") };
    let asked = AskedPath { path: "/d/a".to_owned(), file: AskedFor::File(file), pin: None };
    store.execute(Command::AddPaths { request, paths: vec![asked] }).unwrap();
    drop(store);
    let archive = instance.open();
    wait_until("nothing is left of it", || archive.request(request).is_err());
    let anew = archive.stage_paths(submission("anna", &["/d/a"])).unwrap();
    assert_ne!(anew, request);
    set_drives(&archive, true);
    wait_for(&archive, anew);
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// As many paths as a request takes, and one more.
#[test]
fn a_request_takes_ten_thousand_paths() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = instance.open();
    let texts: Vec<String> = (0..=REQUEST_PATHS_MAX).map(|n| format!("/none/{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let too_many = archive.stage_paths(submission("anna", &texts));
    assert!(matches!(too_many, Err(ArchiveError::Limit { limit: 10_000, .. })), "{too_many:?}");
    assert_eq!(archive.requests(None, 10).unwrap(), []);
    let request = archive.stage_paths(submission("anna", &texts[1..])).unwrap();
    let found = archive.path_request(request).unwrap();
    assert_eq!((found.paths.len(), found.info.record.state), (10_000, RequestState::Completed));
    archive.cancel_paths(request, &paths(&texts[1..])).unwrap();
    archive.delete_request(request).unwrap();
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// Where bytes are, and whether a tape can give them now.
#[test]
fn localities_tell_whether_a_tape_can_give_a_file_now() {
    let instance = Instance::with(ByteCount::mib(512), |settings| {
        let mut disk = settings.classes[0].clone();
        (disk.name, disk.up_to, disk.copies) = ("disk".to_owned(), None, Vec::new());
        settings.classes.push(disk);
    });
    let archive = with_files(&instance);
    let options = PutOptions { class: Some("disk".to_owned()), ..PutOptions::default() };
    put_with(&archive, "/d/disk", &bytes(9, 10_000), options).unwrap();
    put(&archive, "/d/empty", b"");
    let look = || {
        let paths = ["/d/a", "/d/disk", "/d/empty", "/d", "/d/none"].map(path);
        archive.localities(&paths).unwrap()
    };
    let near = |unavailable| {
        let (locality, size) = (Locality::Nearline, ByteCount(20_000));
        PathLocality::File { locality, size, unavailable }
    };
    let online =
        |size| PathLocality::File { locality: Locality::Online, size: ByteCount(size), unavailable: false };
    let rest = [online(10_000), online(0), PathLocality::Directory, PathLocality::Missing];
    assert_eq!((look()[0], &look()[1..]), (near(false), &rest[..]));
    set_drives(&archive, false);
    assert_eq!((look()[0], &look()[1..]), (near(true), &rest[..]), "no drive is in use");
    set_drives(&archive, true);
    let on: Vec<_> = archive.object(&path("/d/a"), Which::Current).unwrap().file.copies;
    for copy in on {
        archive.set_tape(copy.vid.unwrap(), archive::TapeUse::Disabled, "a test").unwrap();
    }
    assert_eq!(look()[0], near(true), "its tapes are set aside");
    archive.close();
}
