//! Uploads in parts, through the whole engine: any order, any lengths, crashes, and the way to tape and back.

use std::sync::Arc;

use crate::common::{
    Instance, SystemClock, all, bytes, get, migrate_all, path, put, stage, wait_for, wait_until,
};
use archive::{Archive, ArchiveError, CompleteOptions, PartInfo, PutOptions, UploadError};
use base::{ByteCount, Checksums, Name, UploadId};
use catalogue::{ABORT_PARTS_MAX, Command, Outcome};
use store::{CatalogueStore, StoreOptions};

fn open(archive: &Archive, at: &str) -> UploadId {
    let who = Some("alice".to_owned());
    let options = PutOptions { make_parents: true, who, ..PutOptions::default() };
    archive.open_multipart(&path(at), options).unwrap()
}

fn bucket(archive: &Archive) {
    archive.make_directory(&path("/bucket"), Default::default(), None, true).unwrap();
}

fn part(archive: &Archive, upload: UploadId, number: u16, content: &[u8], sized: bool) -> PartInfo {
    let length = sized.then_some(ByteCount(content.len() as u64));
    let mut part = archive.begin_part(upload, number, length).unwrap();
    for chunk in content.chunks(70_001) {
        part.write(chunk).unwrap();
    }
    part.finish(vec![("etag".to_owned(), vec![number as u8])]).unwrap()
}

fn complete(archive: &Archive, upload: UploadId, parts: &[u16]) -> Result<archive::PutDone, ArchiveError> {
    let xattrs = vec![("kist.s3.etag".to_owned(), b"abc-2".to_vec())];
    archive.complete_multipart(upload, parts, CompleteOptions { xattrs, ..Default::default() })
}

fn close(archive: Archive) {
    archive.close();
    drop(archive);
}

/// The catalogue of an instance that is not running.
fn store(instance: &Instance) -> CatalogueStore {
    let options = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap()
}

/// Files on the drives of the pool.
fn extents(directory: &std::path::Path) -> usize {
    let mut waiting = vec![directory.join("pool")];
    let mut count = 0;
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(at).unwrap().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(_) => count += 1,
                Err(_) => {}
            }
        }
    }
    count
}

fn is_sound(archive: &Archive) {
    assert_eq!(archive.verify_catalogue().unwrap().len(), 0);
}

/// Whether nothing is known of an upload any more.
fn is_gone<T>(answer: Result<T, ArchiveError>) -> bool {
    matches!(answer, Err(ArchiveError::Upload(UploadError::NoSuchUpload(_))))
}

#[test]
fn parts_in_any_order_and_of_any_length_make_the_file() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    bucket(&archive);
    let equal = [1 << 20, 1 << 20, 1 << 20, 123_457];
    let unequal = [300_000, 5, 0, 700_001, 262_144, 262_145];
    let single = [1_000_003];
    for (round, lengths) in [&equal[..], &unequal[..], &single[..]].into_iter().enumerate() {
        for sized in [true, false] {
            let name = format!("/bucket/a/b{round}-{sized}");
            let upload = open(&archive, &name);
            let whole = bytes(round as u64, lengths.iter().sum());
            let mut parts: Vec<(u16, &[u8])> = Vec::new();
            let mut rest = whole.as_slice();
            for (at, length) in lengths.iter().enumerate() {
                let (content, behind) = rest.split_at(*length);
                parts.push((at as u16 * 3 + 1, content));
                rest = behind;
            }
            part(&archive, upload, parts[0].0, b"put again later", sized);
            let numbers: Vec<u16> = parts.iter().map(|(number, _)| *number).collect();
            for (number, content) in parts.into_iter().rev() {
                part(&archive, upload, number, content, sized);
            }
            part(&archive, upload, 9_999, b"never named", sized);
            let done = complete(&archive, upload, &numbers).unwrap();
            assert!(done.created);
            assert_eq!(done.checksums, Checksums::of(&whole), "{name}");
            assert_eq!(get(&archive, &name).unwrap(), whole);
            let archive::Stat::File(stat) = archive.stat(&path(&name)).unwrap() else { panic!() };
            assert_eq!(stat.attributes.xattrs, [("kist.s3.etag".to_owned(), b"abc-2".to_vec())]);
        }
    }
    is_sound(&archive);
}

#[test]
fn a_server_that_dies_keeps_the_parts_and_the_answer() {
    let instance = Instance::new(ByteCount::mib(256));
    let whole = bytes(1, 1_200_000);
    let (first, second) = whole.split_at(700_000);
    let archive = instance.open();
    bucket(&archive);
    let upload = open(&archive, "/bucket/file");
    let stored = part(&archive, upload, 1, first, true);
    // One that is on its way when the server dies.
    let mut torn = archive.begin_part(upload, 2, None).unwrap();
    torn.write(second).unwrap();
    drop(torn);
    close(archive);

    let archive = instance.open();
    let (parts, more) = archive.parts(upload, 0, 10).unwrap();
    assert_eq!((parts.len(), parts[0].stamp, more), (1, stored.stamp, false));
    assert_eq!(archive.multipart(upload).unwrap().owner, "alice");
    let missing = complete(&archive, upload, &[1, 2]);
    assert!(matches!(missing, Err(ArchiveError::Upload(UploadError::NoSuchPart { number: 2, .. }))));
    part(&archive, upload, 2, second, true);
    let done = complete(&archive, upload, &[1, 2]).unwrap();
    close(archive);

    // Its answer was lost: the client asks again.
    let archive = instance.open();
    let again = complete(&archive, upload, &[1, 2]).unwrap();
    assert_eq!((again.file, again.created, again.checksums), (done.file, false, done.checksums));
    assert_eq!(get(&archive, "/bucket/file").unwrap(), whole);
    assert_eq!(archive.completed_multipart(&path("/bucket/file"), upload).unwrap().file, done.file);
    let other = archive.completed_multipart(&path("/bucket/other"), upload);
    assert!(is_gone(other));
    assert!(is_gone(archive.abort_multipart(upload)));
    assert!(is_gone(archive.begin_part(upload, 1, None)));
    assert!(is_gone(archive.parts(upload, 0, 1)));
    assert_eq!(get(&archive, "/bucket/file").unwrap(), whole);
    is_sound(&archive);
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    bucket(&archive);
    let (kept, upload) = (open(&archive, "/bucket/kept"), open(&archive, "/bucket/file"));
    part(&archive, upload, 1, &bytes(1, 600_000), true);
    part(&archive, upload, 2, b"small", true);
    let late = archive.begin_part(upload, 3, None).unwrap();
    let name = Name::new("bucket").unwrap();
    let (listed, more) = archive.multiparts(&name, "", None, 1).unwrap();
    assert_eq!((listed[0].upload, listed[0].path.as_str(), more), (upload, "/bucket/file", true));
    let (listed, more) = archive.multiparts(&name, "", Some(("file", upload)), 1).unwrap();
    assert_eq!((listed[0].upload, more), (kept, false));
    assert!(matches!(archive.remove(&path("/bucket")), Err(ArchiveError::NotEmpty(_))));
    let before = extents(instance.directory.path());
    for upload in [kept, upload] {
        archive.abort_multipart(upload).unwrap();
        assert!(is_gone(archive.abort_multipart(upload)));
    }
    assert!(is_gone(late.finish(vec![])));
    assert!(is_gone(complete(&archive, upload, &[1])));
    archive.remove(&path("/bucket")).unwrap();
    // Six shards of the large part, at the least.
    wait_until("the parts are removed", || extents(instance.directory.path()) + 6 <= before);
    is_sound(&archive);
}

#[test]
fn an_abort_that_was_cut_short_goes_on_at_the_next_start() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    bucket(&archive);
    let upload = open(&archive, "/bucket/file");
    for number in 1..=ABORT_PARTS_MAX as u16 + 1 {
        part(&archive, upload, number, b"small", true);
    }
    close(archive);
    // What the server had done when it died: the first batch.
    let catalogue = store(&instance);
    let first = catalogue.execute(Command::AbortUpload { upload }).unwrap();
    assert_eq!(first, Outcome::More(true));
    assert!(catalogue.read(|view| view.upload(upload)).unwrap().is_some());
    drop(catalogue);
    let archive = instance.open();
    assert!(is_gone(archive.multipart(upload)));
    assert!(is_gone(archive.begin_part(upload, 1, None)));
    let name = Name::new("bucket").unwrap();
    assert_eq!(archive.multiparts(&name, "", None, 10).unwrap().0, []);
    is_sound(&archive);
    close(archive);
    assert_eq!(store(&instance).read(|view| view.upload(upload)).unwrap(), None);
}

#[test]
fn what_cannot_be_completed_is_refused_and_stays_open() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    bucket(&archive);
    put(&archive, "/bucket/taken", b"it was here before");
    let upload = open(&archive, "/bucket/taken");
    let first = part(&archive, upload, 1, b"one", true);
    let options = CompleteOptions { keep_existing: true, ..Default::default() };
    assert!(matches!(archive.complete_multipart(upload, &[1], options), Err(ArchiveError::Exists(_))));
    part(&archive, upload, 1, b"another", true);
    let options = CompleteOptions { stamps: vec![first.stamp], ..Default::default() };
    let stale = archive.complete_multipart(upload, &[1], options);
    assert!(matches!(stale, Err(ArchiveError::Upload(UploadError::PartChanged { number: 1, .. }))));
    assert!(complete(&archive, upload, &[]).is_err());
    assert!(matches!(archive.begin_part(upload, 0, None), Err(ArchiveError::Limit { .. })));
    assert!(matches!(archive.begin_part(upload, 10_001, None), Err(ArchiveError::Limit { .. })));
    let mut short = archive.begin_part(upload, 2, Some(ByteCount(10))).unwrap();
    short.write(b"short").unwrap();
    assert!(matches!(short.finish(vec![]), Err(ArchiveError::LengthMismatch { .. })));
    assert_eq!(get(&archive, "/bucket/taken").unwrap(), b"it was here before");
    assert!(complete(&archive, upload, &[1]).unwrap().replaced);
    assert_eq!(get(&archive, "/bucket/taken").unwrap(), b"another");
    for at in ["/", "/file", "/bucket"] {
        assert!(archive.open_multipart(&path(at), PutOptions::default()).is_err(), "{at}");
    }
    is_sound(&archive);
}

/// A file of as many pieces as there may be goes to tape, out of the pool and back.
#[test]
fn a_file_of_ten_thousand_parts_goes_to_tape_and_back() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    bucket(&archive);
    let upload = open(&archive, "/bucket/many");
    let whole = bytes(3, 9_990 * 300 + 10 * 300_000);
    let mut parts: Vec<&[u8]> = whole[..9_990 * 300].chunks(300).collect();
    parts.extend(whole[9_990 * 300..].chunks(300_000));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (archive, parts) = (&archive, &parts);
            scope.spawn(move || {
                for (at, content) in parts.iter().enumerate().filter(|(at, _)| at % 8 == worker) {
                    part(archive, upload, at as u16 + 1, content, true);
                }
            });
        }
    });
    let numbers: Vec<u16> = (1..=10_000).collect();
    let began = std::time::Instant::now();
    let done = complete(&archive, upload, &numbers).unwrap();
    println!("10,000 parts were completed in {:?}", began.elapsed());
    assert_eq!(done.checksums, Checksums::of(&whole));
    assert_eq!(get(&archive, "/bucket/many").unwrap(), whole);
    migrate_all(&archive);
    let evicted = archive.evict(&all(&["/bucket"])).unwrap();
    assert_eq!(evicted.evicted, 1, "{evicted:?}");
    assert!(matches!(get(&archive, "/bucket/many"), Err(ArchiveError::Nearline { .. })));
    let request = stage(&archive, &["/bucket/many"]);
    wait_for(&archive, request);
    assert_eq!(get(&archive, "/bucket/many").unwrap(), whole);
    is_sound(&archive);
}
