//! Buckets, versions, holds and copies through the engine: bytes go in and come out again.

use crate::common::*;
use archive::{
    Archive, ArchiveError, BucketSettings, CloneOptions, Hold, KeyLine, KeyQuery, ObjectLine, PutDone,
    PutOptions, Stat, VersionQuery, Versioning, Which,
};
use base::{ByteCount, FileId, Name};
use catalogue::Attributes;

const MIB: usize = 1 << 20;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn instance() -> (Instance, Archive) {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    (instance, archive)
}

fn versioned(archive: &Archive, bucket: &str) {
    let settings = BucketSettings { versioning: Versioning::Enabled, ..BucketSettings::default() };
    archive.make_bucket(&name(bucket), "alice", &settings).unwrap();
}

/// A put as a door of objects does it.
fn options() -> PutOptions {
    PutOptions { make_parents: true, implied_parents: true, ..PutOptions::default() }
}

fn put_object(archive: &Archive, at: &str, content: &[u8]) -> PutDone {
    put_with(archive, at, content, options()).unwrap()
}

fn read(archive: &Archive, at: &str, which: Which) -> Result<Vec<u8>, ArchiveError> {
    let mut download = archive.open_object(&path(at), which, "alice")?;
    let mut out = Vec::new();
    while let Some(chunk) = download.next()? {
        out.extend_from_slice(chunk.as_ref());
    }
    Ok(out)
}

fn query(bucket: &str, prefix: &str, delimiter: Option<&str>, limit: usize) -> VersionQuery {
    let keys = KeyQuery {
        bucket: path(bucket),
        prefix: prefix.to_owned(),
        delimiter: delimiter.map(str::to_owned),
        after: String::new(),
        limit,
    };
    VersionQuery { keys, after_version: None }
}

/// All lines, in pages of `limit`.
fn versions(archive: &Archive, mut query: VersionQuery) -> Vec<KeyLine> {
    let mut lines = Vec::new();
    loop {
        let page = archive.list_versions(&query).unwrap();
        assert!(page.lines.len() <= query.keys.limit);
        lines.extend(page.lines);
        match page.next {
            Some((after, version)) => (query.keys.after, query.after_version) = (after, version),
            None => return lines,
        }
    }
}

/// A line in short: key, `*` if current, `-` if a marker, `0` if without a number.
fn short(lines: &[KeyLine]) -> Vec<String> {
    let object = |line: &ObjectLine| {
        let flag = |is_it, flag| if is_it { flag } else { "" };
        let flags = [(line.is_current, "*"), (line.is_marker, "-"), (line.is_null, "0")];
        let flags: String = flags.into_iter().map(|(is_it, text)| flag(is_it, text)).collect();
        format!("{} {flags}", line.key).trim_end().to_owned()
    };
    let text = |line: &KeyLine| match line {
        KeyLine::Prefix(prefix) => format!("{prefix} ..."),
        KeyLine::Object(line) => object(line),
    };
    lines.iter().map(text).collect()
}

#[test]
fn buckets_are_made_set_and_removed() {
    let (_instance, archive) = instance();
    versioned(&archive, "b");
    let made = archive.bucket(&name("b")).unwrap();
    assert_eq!((made.owner.as_str(), made.settings.versioning), ("alice", Versioning::Enabled));
    archive.make_directory(&path("/a"), Attributes::default(), None, false).unwrap();
    put(&archive, "/file", b"no bucket");
    let names: Vec<_> = archive.buckets().unwrap().into_iter().map(|bucket| bucket.name).collect();
    assert_eq!(names, [name("a"), name("b")]);
    let taken = archive.make_bucket(&name("a"), "bob", &BucketSettings::default());
    assert!(matches!(taken, Err(ArchiveError::Exists(_))), "{taken:?}");
    assert!(matches!(archive.bucket(&name("file")), Err(ArchiveError::NotFound(_))));
    let off = archive.set_bucket(&name("b"), &BucketSettings::default());
    assert!(matches!(off, Err(ArchiveError::Rejected(_))), "{off:?}");
    // With a marker in it a bucket is not empty; without one it goes.
    put_object(&archive, "/b/x/y/key", b"1");
    let removed = archive.remove_object(&path("/b/x/y/key"), Which::Current, false).unwrap();
    assert!(removed.marker);
    assert!(matches!(archive.remove_bucket(&name("b")), Err(ArchiveError::NotEmpty(_))));
    // Story: what only versions held was to be removed with the very command that had just said so.
    let held = archive.remove(&path("/b/x/y"));
    assert!(matches!(&held, Err(ArchiveError::HoldsVersions(at)) if *at == path("/b/x/y")), "{held:?}");
    for line in versions(&archive, query("/b", "", None, 10)) {
        let KeyLine::Object(line) = line else { panic!() };
        archive.remove_object(&path("/b/x/y/key"), Which::Version(line.file), false).unwrap();
    }
    assert!(matches!(archive.stat(&path("/b/x")), Err(ArchiveError::NotFound(_))), "went with its object");
    archive.remove_bucket(&name("b")).unwrap();
    assert!(matches!(archive.bucket(&name("b")), Err(ArchiveError::NotFound(_))));
}

/// A directory went with its last object, and with it the list that kept others out of it: the next object
/// of that name could be read by whoever could read the bucket.
#[test]
fn a_directory_of_which_something_is_set_outlives_its_objects() {
    let (_instance, archive) = instance();
    archive.make_bucket(&name("b"), "alice", &BucketSettings::default()).unwrap();
    let limits = catalogue::QuotaLimits { bytes: None, files: Some(5) };
    for key in ["/b/kept/key", "/b/counted/key", "/b/free/key"] {
        put_object(&archive, key, b"1");
    }
    let list = vec![catalogue::AclEntry { subject: "user:anna".to_owned(), rights: 1 }];
    archive.set_acl(&path("/b/kept"), Some(list.clone())).unwrap();
    archive.set_quota(&archive::QuotaOf::Directory(path("/b/counted")), limits).unwrap();
    for key in ["/b/kept/key", "/b/counted/key", "/b/free/key"] {
        archive.remove_object(&path(key), Which::Current, false).unwrap();
    }
    assert!(matches!(archive.stat(&path("/b/free")), Err(ArchiveError::NotFound(_))));
    put_object(&archive, "/b/kept/key", b"2");
    assert_eq!(archive.acl(&path("/b/kept")).unwrap(), Some(list));
    assert_eq!(archive.quotas().unwrap().len(), 1);
    archive.remove_object(&path("/b/kept/key"), Which::Current, false).unwrap();
    archive.remove_bucket(&name("b")).unwrap();
    assert_eq!(archive.quotas().unwrap().len(), 0, "a bucket goes with all that is set in it");
}

/// A directory was made for an object and then put as one: it went with the other object.
#[test]
fn a_directory_that_is_an_object_outlives_those_below() {
    let (_instance, archive) = instance();
    archive.make_bucket(&name("b"), "alice", &BucketSettings::default()).unwrap();
    put_object(&archive, "/b/x/y/key", b"1");
    let mark = |value: Option<&[u8]>| {
        let changes = [("kist.s3.marker".to_owned(), value.map(<[u8]>::to_vec))];
        archive.set_xattrs(&path("/b/x"), Which::Current, &changes).unwrap();
    };
    mark(Some(b""));
    archive.remove_object(&path("/b/x/y/key"), Which::Current, false).unwrap();
    let lines = versions(&archive, query("/b", "", None, 10));
    assert_eq!(short(&lines), ["x/ *0"]);
    assert!(matches!(archive.remove_bucket(&name("b")), Err(ArchiveError::NotEmpty(_))));
    mark(None);
    archive.remove_bucket(&name("b")).unwrap();
}

#[test]
fn every_version_gives_its_own_bytes_from_the_pool_and_after_migration() {
    let (_instance, archive) = instance();
    versioned(&archive, "b");
    let contents = [bytes(1, 10), bytes(2, 3 * MIB), bytes(3, 100_000), bytes(4, 3 * MIB)];
    let files: Vec<FileId> =
        contents.iter().map(|content| put_object(&archive, "/b/dir/key", content).file).collect();
    let check = || {
        for (file, content) in files.iter().zip(&contents) {
            assert!(read(&archive, "/b/dir/key", Which::Version(*file)).unwrap() == *content);
            let stat = archive.object(&path("/b/dir/key"), Which::Version(*file)).unwrap();
            assert_eq!((stat.file.file, stat.is_current), (*file, *file == files[3]));
        }
        assert!(get(&archive, "/b/dir/key").unwrap() == contents[3]);
    };
    check();
    migrate_all(&archive);
    check();
    let totals = archive.totals().unwrap();
    assert_eq!((totals.live.files, totals.todo.files), (4, 0), "each version is on tape");
    archive.close();
}

#[test]
fn the_native_delete_hides_and_a_version_comes_back() {
    let (_instance, archive) = instance();
    versioned(&archive, "b");
    let first = put(&archive, "/b/key", b"first").file;
    let repeat = put(&archive, "/b/key", b"first");
    assert!(!repeat.created, "the native door keeps its idempotency");
    let again = put_object(&archive, "/b/key", b"first");
    assert!(again.created && again.file != first, "an object put makes a version");
    archive.remove(&path("/b/key")).unwrap();
    assert!(matches!(archive.stat(&path("/b/key")), Err(ArchiveError::NotFound(_))));
    let marker = match archive.object(&path("/b/key"), Which::Current) {
        Err(ArchiveError::DeleteMarker { version, .. }) => version,
        other => panic!("{other:?}"),
    };
    let gone = archive.object(&path("/b/key"), Which::Version(marker));
    assert!(matches!(gone, Err(ArchiveError::DeleteMarker { .. })), "{gone:?}");
    assert_eq!(read(&archive, "/b/key", Which::Version(first)).unwrap(), b"first");
    let removed = archive.remove_object(&path("/b/key"), Which::Version(marker), false).unwrap();
    assert_eq!((removed.version, removed.marker), (Some(marker), true));
    assert_eq!(archive.object(&path("/b/key"), Which::Current).unwrap().file.file, again.file);
    // What is not there is no error, whatever is missing.
    for at in ["/b/nothing", "/b/no/thing", "/none/at/all"] {
        archive.remove_object(&path(at), Which::Version(FileId(4711)), false).unwrap();
        archive.remove_object(&path(at), Which::Null, false).unwrap();
    }
    let nowhere = archive.remove_object(&path("/none/at/all"), Which::Current, false).unwrap();
    assert_eq!(nowhere.version, None);
}

#[test]
fn versions_are_listed_by_key_the_newest_first() {
    let (_instance, archive) = instance();
    archive.make_bucket(&name("b"), "alice", &BucketSettings::default()).unwrap();
    put_object(&archive, "/b/a/z", b"null");
    let settings = BucketSettings { versioning: Versioning::Enabled, ..BucketSettings::default() };
    archive.set_bucket(&name("b"), &settings).unwrap();
    for (at, content) in [("/b/a/z", "1"), ("/b/a-b", "2"), ("/b/a-b", "3"), ("/b/a/y", "4"), ("/b/c", "5")] {
        put_object(&archive, at, content.as_bytes());
    }
    archive.remove_object(&path("/b/a/y"), Which::Current, false).unwrap();
    archive.remove_object(&path("/b/c"), Which::Current, false).unwrap();
    archive.remove_object(&path("/b/c"), Which::Current, false).unwrap();
    // A name that had versions and is a directory by now.
    put_object(&archive, "/b/c/below", b"6");
    let all = ["a-b *", "a-b", "a/y *-", "a/y", "a/z *", "a/z 0", "c *-", "c -", "c", "c/below *"];
    for limit in [1, 2, 3, 100] {
        assert_eq!(short(&versions(&archive, query("/b", "", None, limit))), all, "pages of {limit}");
        let rolled = ["a-b *", "a-b", "a/ ...", "c *-", "c -", "c", "c/ ..."];
        assert_eq!(short(&versions(&archive, query("/b", "", Some("/"), limit))), rolled);
        let below = ["a/y *-", "a/y", "a/z *", "a/z 0"];
        assert_eq!(short(&versions(&archive, query("/b", "a/", Some("/"), limit))), below);
    }
    assert!(archive.list_versions(&query("/b", "", None, 0)).unwrap().lines.is_empty());
}

#[test]
fn a_copy_shares_large_bytes_and_copies_small_ones() {
    let (_instance, archive) = instance();
    versioned(&archive, "b");
    let (large, small) = (bytes(5, 5 * MIB), bytes(6, 1000));
    let attributes = Attributes { xattrs: vec![("user.meta.a".into(), b"b".to_vec())], ..Default::default() };
    let with = PutOptions { attributes: attributes.clone(), ..options() };
    put_with(&archive, "/b/large", &large, with).unwrap();
    let source = put_object(&archive, "/b/small", &small);
    let clone = |from: &str, to: &str, options| {
        archive.clone_object(&path(from), Which::Current, &path(to), options).unwrap()
    };
    let used = |archive: &Archive| -> u64 {
        archive.pool_info().unwrap().drives.iter().map(|drive| drive.written.0).sum()
    };
    let before = used(&archive);
    let copy = clone("/b/large", "/other/deep/large", CloneOptions::default());
    assert!(used(&archive) - before < large.len() as u64 / 8, "no byte of it was written again");
    assert_eq!((copy.size.0, copy.created, copy.replaced), (large.len() as u64, true, false));
    assert_eq!(
        archive.object(&path("/other/deep/large"), Which::Current).unwrap().file.attributes,
        attributes
    );
    let changed = CloneOptions { attributes: Some(Attributes::default()), ..CloneOptions::default() };
    let copied = clone("/b/small", "/b/small", changed);
    assert!(copied.file != source.file);
    // The copies do not depend on what they were made of.
    let source = archive.object(&path("/b/large"), Which::Current).unwrap().file.file;
    archive.remove_object(&path("/b/large"), Which::Version(source), false).unwrap();
    archive.remove_object(&path("/b/small"), Which::Version(copied.file), false).unwrap();
    archive.migrate_now(None).unwrap();
    migrate_all(&archive);
    assert!(get(&archive, "/other/deep/large").unwrap() == large);
    assert!(get(&archive, "/b/small").unwrap() == small, "the version below is current again");
    let missing = archive.clone_object(&path("/b/x"), Which::Current, &path("/b/y"), CloneOptions::default());
    assert!(matches!(missing, Err(ArchiveError::NotFound(_))), "{missing:?}");
    archive.close();
}

#[test]
fn a_put_on_a_condition_is_refused_before_its_body_or_at_its_end() {
    let (_instance, archive) = instance();
    let first = put_object(&archive, "/d/key", b"first").file;
    let on = |if_current| PutOptions { if_current: Some(if_current), ..options() };
    let early = archive.begin_put(&path("/d/key"), on(FileId(4711))).err();
    assert!(matches!(early, Some(ArchiveError::NotCurrent(_))), "{early:?}");
    let early = archive.begin_put(&path("/d/none"), on(first)).err();
    assert!(matches!(early, Some(ArchiveError::NotCurrent(_))), "{early:?}");
    for size in [10, 2 * MIB] {
        let current = archive.object(&path("/d/key"), Which::Current).unwrap().file.file;
        let mut upload = archive.begin_put(&path("/d/key"), on(current)).unwrap();
        upload.write(&bytes(7, size)).unwrap();
        put_object(&archive, "/d/key", format!("came between {size}").as_bytes());
        let late = upload.finish();
        assert!(matches!(late, Err(ArchiveError::NotCurrent(_))), "{late:?}");
        let current = archive.object(&path("/d/key"), Which::Current).unwrap().file.file;
        put_with(&archive, "/d/key", &bytes(8, size), on(current)).unwrap();
    }
}

#[test]
fn what_is_held_is_refused_to_everybody_and_named() {
    let (_instance, archive) = instance();
    versioned(&archive, "b");
    let legal = Hold { retention: None, legal: true };
    let held = PutOptions { hold: Some(legal), ..options() };
    put_with(&archive, "/d/key", b"held", held.clone()).unwrap();
    let version = put_with(&archive, "/b/key", b"held", held).unwrap().file;
    let is_held = |result: Result<(), ArchiveError>| {
        let text = result.as_ref().map_err(ToString::to_string).unwrap_err().clone();
        assert!(matches!(result, Err(ArchiveError::Held { .. })) && text.contains("legal hold"), "{text}");
    };
    is_held(archive.remove(&path("/d/key")));
    is_held(archive.remove_object(&path("/d/key"), Which::Current, true).map(drop));
    is_held(archive.remove_object(&path("/b/key"), Which::Version(version), true).map(drop));
    is_held(put_with(&archive, "/d/key", b"small", options()).map(drop));
    is_held(put_with(&archive, "/d/key", &bytes(9, 2 * MIB), options()).map(drop));
    put(&archive, "/d/other", b"other");
    is_held(archive.rename(&path("/d/other"), &path("/d/key"), true));
    is_held(archive.rename(&path("/d/key"), &path("/d/elsewhere"), true));
    let clone =
        archive.clone_object(&path("/d/other"), Which::Current, &path("/d/key"), CloneOptions::default());
    is_held(clone.map(drop));
    assert_eq!(get(&archive, "/d/key").unwrap(), b"held");
    let none = Hold::default();
    archive.set_hold(&path("/d/key"), Which::Current, none, false).unwrap();
    archive.remove(&path("/d/key")).unwrap();
    assert_eq!(archive.object(&path("/b/key"), Which::Version(version)).unwrap().hold, legal);
}

#[test]
fn directories_made_for_objects_go_with_the_last_one_and_come_again() {
    let (_instance, archive) = instance();
    archive.make_bucket(&name("b"), "alice", &BucketSettings::default()).unwrap();
    archive.make_directory(&path("/b/kept"), Attributes::default(), None, false).unwrap();
    for at in ["/b/kept/x/y/one", "/b/kept/x/two"] {
        put_object(&archive, at, b"1");
    }
    archive.remove_object(&path("/b/kept/x/y/one"), Which::Current, false).unwrap();
    assert!(matches!(archive.stat(&path("/b/kept/x/y")), Err(ArchiveError::NotFound(_))));
    // A put that looked the directory up before it went makes it anew.
    for size in [10, 2 * MIB] {
        let mut upload = archive.begin_put(&path("/b/kept/x/late"), options()).unwrap();
        upload.write(&bytes(1, size)).unwrap();
        archive.remove_object(&path("/b/kept/x/two"), Which::Current, false).unwrap();
        upload.finish().unwrap();
        archive.remove_object(&path("/b/kept/x/late"), Which::Current, false).unwrap();
        assert!(matches!(archive.stat(&path("/b/kept/x")), Err(ArchiveError::NotFound(_))));
    }
    assert!(matches!(archive.stat(&path("/b/kept")), Ok(Stat::Directory(_))), "somebody made it");
    // One that is an object itself stays until it is said to be none.
    put_object(&archive, "/b/dir/key", b"1");
    let marker = |value: Option<&[u8]>| ("kist.s3.marker".to_owned(), value.map(<[u8]>::to_vec));
    let implied = |value: Option<&[u8]>| ("kist.implied".to_owned(), value.map(<[u8]>::to_vec));
    let dir = path("/b/dir");
    archive.set_xattrs(&dir, Which::Current, &[marker(Some(b"")), implied(None)]).unwrap();
    archive.remove_object(&path("/b/dir/key"), Which::Current, false).unwrap();
    assert!(archive.stat(&dir).is_ok());
    archive.set_xattrs(&dir, Which::Current, &[marker(None), implied(Some(b"1"))]).unwrap();
    assert!(matches!(archive.stat(&dir), Err(ArchiveError::NotFound(_))));
}

#[test]
fn attributes_of_any_version_change() {
    let (_instance, archive) = instance();
    versioned(&archive, "b");
    let old = put_object(&archive, "/b/key", b"old").file;
    put_object(&archive, "/b/key", b"new");
    let tag = ("kist.tag.a".to_owned(), Some(b"b".to_vec()));
    archive.set_xattrs(&path("/b/key"), Which::Version(old), &[tag]).unwrap();
    let xattrs = |which| archive.object(&path("/b/key"), which).unwrap().file.attributes.xattrs;
    assert_eq!(xattrs(Which::Version(old)), [("kist.tag.a".to_owned(), b"b".to_vec())]);
    assert_eq!(xattrs(Which::Current), []);
    let missing = archive.set_xattrs(&path("/b/none"), Which::Current, &[]);
    assert!(matches!(missing, Err(ArchiveError::NotFound(_))), "{missing:?}");
}
