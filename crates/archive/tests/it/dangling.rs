//! Names whose record is missing: damage, which is refused and never answered as absent.
//!
//! Story: a name whose file record was gone was answered "no such file", left out of listings, and skipped by
//! a stage that then said that all was done. A client that synchronises by names deletes its own copy on
//! that word. Below a directory whose record was gone a bucket was taken for one that keeps no versions, and
//! the next put destroyed the old version.

use std::fmt::Debug;
use std::sync::Arc;

use archive::{
    Archive, ArchiveError, BucketSettings, Hold, KeyQuery, Machines, PutOptions, VersionQuery, Versioning,
    Which,
};
use base::{ByteCount, Name, Uuid};
use catalogue::{Command, Entry, ReadError, Table, View};
use store::{CatalogueStore, MemoryCatalogue, StoreOptions};

use crate::common::{Instance, SystemClock, all, path, put_with};

/// An archive whose catalogue lies in memory, where a test can reach it.
fn open() -> (Instance, Archive, MemoryCatalogue) {
    let instance = Instance::new(ByteCount::mib(64));
    let clock = Arc::new(SystemClock);
    let tables = MemoryCatalogue::new();
    let options = StoreOptions::new(ByteCount::mib(64), clock.clone());
    let catalogue = CatalogueStore::open_memory(&tables, options).unwrap();
    catalogue.execute(Command::Initialise { instance: Uuid::from_random([7; 16]) }).unwrap();
    let machines = Machines { catalogue, ..Machines::open(&instance.settings, clock.clone()).unwrap() };
    let archive =
        Archive::open_on(machines, instance.settings.clone(), clock).map(crate::common::settled).unwrap();
    let settings = BucketSettings { versioning: Versioning::Enabled, ..BucketSettings::default() };
    archive.make_bucket(&Name::new("b").unwrap(), "alice", &settings).unwrap();
    (instance, archive, tables)
}

fn put(archive: &Archive, at: &str, content: &[u8]) -> Result<archive::PutDone, ArchiveError> {
    put_with(archive, at, content, PutOptions { make_parents: true, ..PutOptions::default() })
}

/// Takes away the record that a path leads to.
fn lose(tables: &MemoryCatalogue, at: &str) -> u64 {
    let snapshot = tables.snapshot();
    let (table, id) = match View::new(&snapshot).resolve(&path(at)).unwrap().unwrap() {
        Entry::Directory(id) => (Table::Directory, id.0),
        Entry::File(id) => (Table::File, id.0),
    };
    assert!(tables.overwrite(table, &id.to_be_bytes(), None).is_some(), "{at}");
    id
}

/// Refused as damage that names both ends.
fn refused<T: Debug>(what: &str, name: &str, id: u64, result: Result<T, ArchiveError>) {
    let error = result.err().unwrap_or_else(|| panic!("{what} is answered"));
    assert!(matches!(error, ArchiveError::Catalogue(ReadError::Dangling { .. })), "{what}: {error:?}");
    let text = error.to_string();
    let names_both = text.contains(&format!("'{name}' in directory")) && text.contains(&format!("{id}"));
    assert!(names_both && text.contains("restore the catalogue"), "{what}: {text}");
}

fn keys(limit: usize) -> KeyQuery {
    let (prefix, after) = (String::new(), String::new());
    KeyQuery { bucket: path("/b"), prefix, delimiter: None, after, limit }
}

fn read(archive: &Archive, at: &str, which: Which) -> Result<usize, ArchiveError> {
    let mut download = archive.open_object(&path(at), which, "alice")?;
    let mut read = 0;
    while let Some(chunk) = download.next()? {
        read += chunk.as_ref().len();
    }
    Ok(read)
}

#[test]
fn a_file_without_a_record_is_not_absent() {
    let (_instance, archive, tables) = open();
    put(&archive, "/b/x/other", b"other").unwrap();
    put(&archive, "/b/x/key", b"first").unwrap();
    let id = lose(&tables, "/b/x/key");
    let at = path("/b/x/key");
    let is_refused = |what: &str, result: Result<(), ArchiveError>| refused(what, "key", id, result);
    is_refused("stat", archive.stat(&at).map(drop));
    is_refused("list", archive.list(&path("/b/x"), None, 10).map(drop));
    is_refused("read", archive.open_read(&at).map(drop));
    is_refused("object", archive.object(&at, Which::Current).map(drop));
    is_refused("open_object", archive.open_object(&at, Which::Current, "alice").map(drop));
    is_refused("keys", archive.list_keys(&keys(10)).map(drop));
    is_refused(
        "versions",
        archive.list_versions(&VersionQuery { keys: keys(10), after_version: None }).map(drop),
    );
    is_refused("remove", archive.remove(&at));
    is_refused("hold", archive.set_hold(&at, Which::Current, Hold { legal: true, ..Hold::default() }, false));
    is_refused("xattrs", archive.set_xattrs(&at, Which::Current, &[("user.a".into(), Some(vec![1]))]));
    is_refused("put", put(&archive, "/b/x/key", b"second").map(drop));
    is_refused("why", archive.why_path(&at).map(drop));
    is_refused("owner", archive.set_owner(&at, Some("bob"), None));
    is_refused("access", archive.access_chain(&at).map(drop));
    for selection in [all(&["/b/x/key"]), all(&["/"])] {
        is_refused("evict", archive.evict(&selection).map(drop));
        let options =
            archive::StageOptions { owner: "a".into(), pin: std::time::Duration::ZERO, priority: 5 };
        is_refused("stage", archive.stage(&selection, options).map(drop));
    }
    assert!(matches!(archive.stat(&path("/b/x/none")), Err(ArchiveError::NotFound(_))), "others still are");
    assert_eq!(read(&archive, "/b/x/other", Which::Current).unwrap(), 5);
    archive.close();
}

#[test]
fn a_version_without_a_record_is_not_absent() {
    let (_instance, archive, tables) = open();
    let old = put(&archive, "/b/x/key", b"first").unwrap().file;
    put(&archive, "/b/x/key", b"second").unwrap();
    assert!(tables.overwrite(Table::File, &old.0.to_be_bytes(), None).is_some());
    let (at, which) = (path("/b/x/key"), Which::Version(old));
    let is_refused = |what: &str, result: Result<(), ArchiveError>| refused(what, "key", old.0, result);
    is_refused("object", archive.object(&at, which).map(drop));
    is_refused("open_object", archive.open_object(&at, which, "alice").map(drop));
    is_refused(
        "versions",
        archive.list_versions(&VersionQuery { keys: keys(10), after_version: None }).map(drop),
    );
    assert_eq!(read(&archive, "/b/x/key", Which::Current).unwrap(), 6);
    archive.close();
}

#[test]
fn nothing_below_a_directory_without_a_record_is_absent() {
    let (_instance, archive, tables) = open();
    let old = put(&archive, "/b/x/y/key", b"first").unwrap().file;
    let id = lose(&tables, "/b/x");
    let is_refused = |what: &str, result: Result<(), ArchiveError>| refused(what, "x", id, result);
    is_refused("stat", archive.stat(&path("/b/x")).map(drop));
    is_refused("list", archive.list(&path("/b"), None, 10).map(drop));
    is_refused("list below", archive.list(&path("/b/x"), None, 10).map(drop));
    for absent in ["/b/x/none", "/b/x/none/deep", "/b/x/y/none"] {
        is_refused(absent, archive.stat(&path(absent)).map(drop));
        let object = archive.object(&path(absent), Which::Current);
        assert!(matches!(object, Err(ArchiveError::Catalogue(_))), "{absent}: {object:?}");
        is_refused(absent, put(&archive, absent, b"new").map(drop));
    }
    is_refused("make", archive.make_directory(&path("/b/x/new"), Default::default(), None, false));
    // Whether the bucket keeps versions is not known here: nothing may give way.
    let put = put(&archive, "/b/x/y/key", b"second");
    assert!(put.is_err(), "{put:?}");
    let removed = archive.remove_object(&path("/b/x/y/key"), Which::Current, false);
    assert!(removed.is_err(), "{removed:?}");
    let snapshot = tables.snapshot();
    let record = View::new(&snapshot).file(old).unwrap().unwrap();
    assert!(record.is_named(), "{record:?}");
    archive.close();
}

#[test]
fn a_bucket_without_a_record_is_not_absent() {
    let (_instance, archive, tables) = open();
    put(&archive, "/b/key", b"first").unwrap();
    let id = lose(&tables, "/b");
    let is_refused = |what: &str, result: Result<(), ArchiveError>| refused(what, "b", id, result);
    let bucket = Name::new("b").unwrap();
    is_refused("bucket", archive.bucket(&bucket).map(drop));
    is_refused("buckets", archive.buckets().map(drop));
    is_refused("set", archive.set_bucket(&bucket, &BucketSettings::default()));
    is_refused("remove", archive.remove_bucket(&bucket));
    is_refused("keys", archive.list_keys(&keys(10)).map(drop));
    is_refused("delete", archive.remove_object(&path("/b/key"), Which::Current, false).map(drop));
    archive.close();
}
