//! Classes whose files live on tape: they leave the pool by themselves, come back for a while, and leave
//! again; rules send files there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::common::{Instance, bytes, get, migrate_all, path, put, put_with, wait_until};
use archive::{
    Archive, ArchiveError, BucketSettings, LifecycleRule, Locality, PutOptions, RestoreState, Selection,
    StageOptions, Which,
};
use base::{ByteCount, Checksums, Clock, DirId, Duration, Name, Timestamp};
use catalogue::{Attributes, Command, FileKind, Outcome, PutFile, Replace};

const DAY: Duration = Duration::from_secs(86_400);

/// The system's time, and as much more as a test says.
#[derive(Default)]
struct Ahead(AtomicI64);

impl Ahead {
    fn skip(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp(i64::try_from(since.as_nanos()).unwrap() + self.0.load(Ordering::SeqCst))
    }
}

/// An instance with a cold class beside its usual ones.
fn instance(change: impl FnOnce(&mut archive::Settings)) -> Instance {
    Instance::with(ByteCount::mib(512), |settings| {
        let mut cold = settings.classes[0].clone();
        cold.name = "glacier".to_owned();
        cold.up_to = None;
        cold.cold = true;
        settings.classes.push(cold);
        change(settings);
    })
}

fn open(instance: &Instance) -> (Archive, Arc<Ahead>) {
    let clock = Arc::new(Ahead::default());
    (
        Archive::open(instance.settings.clone(), Arc::<Ahead>::clone(&clock))
            .map(crate::common::settled)
            .unwrap(),
        clock,
    )
}

fn put_cold(archive: &Archive, at: &str, content: &[u8]) {
    let class = Some("glacier".to_owned());
    put_with(archive, at, content, PutOptions { make_parents: true, class, ..PutOptions::default() })
        .unwrap();
}

fn locality(archive: &Archive, at: &str) -> Locality {
    archive.object(&path(at), Which::Current).unwrap().file.locality
}

fn restore_state(archive: &Archive, at: &str) -> RestoreState {
    archive.object(&path(at), Which::Current).unwrap().restore
}

fn restore(archive: &Archive, at: &str, days: u32) -> bool {
    let options = StageOptions { owner: "test".to_owned(), pin: DAY * days, priority: 9 };
    archive.restore_object(&path(at), Which::Current, options).unwrap()
}

/// Has the sweeper look now.
fn sweep(archive: &Archive) {
    archive.evict(&Selection { paths: Vec::new(), recursive: false }).unwrap();
}

#[test]
fn a_cold_file_leaves_comes_back_for_a_while_and_leaves_again() {
    let instance = instance(|_| {});
    let (archive, clock) = open(&instance);
    let content = bytes(1, 300_000);
    put_cold(&archive, "/b/cold", &content);
    put(&archive, "/b/warm", &content);
    assert_eq!(get(&archive, "/b/cold").unwrap(), content, "in the pool until tapes have it");
    migrate_all(&archive);
    wait_until("the file has left", || locality(&archive, "/b/cold") == Locality::Nearline);
    assert_eq!(locality(&archive, "/b/warm"), Locality::OnlineAndNearline);
    assert!(matches!(get(&archive, "/b/cold"), Err(ArchiveError::Nearline { .. })));
    assert_eq!(restore_state(&archive, "/b/cold"), RestoreState::No);

    assert!(!restore(&archive, "/b/cold", 1), "it was on tape");
    wait_until("it is back", || matches!(restore_state(&archive, "/b/cold"), RestoreState::Until(_)));
    assert_eq!(get(&archive, "/b/cold").unwrap(), content);
    let RestoreState::Until(first) = restore_state(&archive, "/b/cold") else { panic!("restored") };
    assert!(restore(&archive, "/b/cold", 3), "it is there");
    let RestoreState::Until(longer) = restore_state(&archive, "/b/cold") else { panic!("restored") };
    assert!(longer.0 - first.0 >= 2 * 86_400 * 1_000_000_000 - 1, "extended");

    clock.skip(DAY * 2);
    sweep(&archive);
    wait_until("the first pin is over", || {
        archive.object(&path("/b/cold"), Which::Current).unwrap().file.pins.len() == 1
    });
    assert_eq!(get(&archive, "/b/cold").unwrap(), content, "the longer one keeps it");
    clock.skip(DAY * 2);
    sweep(&archive);
    wait_until("the file has left again", || locality(&archive, "/b/cold") == Locality::Nearline);
    assert_eq!(restore_state(&archive, "/b/cold"), RestoreState::No);
    assert!(matches!(get(&archive, "/b/cold"), Err(ArchiveError::Nearline { .. })));
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

#[test]
fn a_slow_reader_keeps_no_other_file_in_the_pool() {
    let instance = instance(|_| {});
    let (archive, _) = open(&instance);
    put(&archive, "/b/read", &bytes(2, 3_000_000));
    // A reader within what was deleted holds up the removal of garbage.
    let mut reader = archive.open_read(&path("/b/read")).unwrap();
    assert!(reader.next().unwrap().is_some());
    archive.remove(&path("/b/read")).unwrap();
    let content = bytes(1, 3_000_000);
    put_cold(&archive, "/b/cold", &content);
    migrate_all(&archive);
    wait_until("the file has left", || locality(&archive, "/b/cold") == Locality::Nearline);
    while reader.next().unwrap().is_some() {}
    drop(reader);
    put_cold(&archive, "/b/last", &content);
    migrate_all(&archive);
    // Whether or not the sweeper came to it before the stop.
    archive.close();
    drop(archive);
    let (archive, _) = open(&instance);
    wait_until("the file has left", || locality(&archive, "/b/last") == Locality::Nearline);
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

#[test]
fn a_changed_class_sends_a_file_to_tape() {
    let instance = instance(|_| {});
    let (archive, _) = open(&instance);
    let content = bytes(1, 100_000);
    put(&archive, "/b/before", &content);
    archive.change_class(&path("/b/before"), "glacier").unwrap();
    migrate_all(&archive);
    wait_until("what waited has left", || locality(&archive, "/b/before") == Locality::Nearline);
    put(&archive, "/b/after", &content);
    migrate_all(&archive);
    assert_eq!(locality(&archive, "/b/after"), Locality::OnlineAndNearline);
    archive.change_class(&path("/b/after"), "glacier").unwrap();
    assert_eq!(locality(&archive, "/b/after"), Locality::Nearline, "tapes had it");
    let unknown = archive.change_class(&path("/b/after"), "nothing").unwrap_err();
    assert!(matches!(unknown, ArchiveError::NoSuchClass { .. }), "{unknown}");
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

fn rule(prefix: &str) -> LifecycleRule {
    LifecycleRule {
        id: format!("rule {prefix}"),
        enabled: true,
        prefix: prefix.to_owned(),
        transition: None,
        expiration: None,
        abort_uploads: None,
    }
}

#[test]
fn rules_send_files_to_tape_and_delete_them() {
    let instance = instance(|_| {});
    let (archive, clock) = open(&instance);
    let name = Name::new("bucket").unwrap();
    let transition = Some((DAY * 30, "glacier".to_owned()));
    let settings = BucketSettings {
        lifecycle: vec![
            LifecycleRule { transition, ..rule("data/") },
            LifecycleRule { expiration: Some(DAY * 10), ..rule("tmp/") },
        ],
        ..BucketSettings::default()
    };
    archive.make_bucket(&name, "alice", &settings).unwrap();
    for file in ["/bucket/data/old", "/bucket/tmp/old", "/bucket/other", "/elsewhere/data/old"] {
        put(&archive, file, &bytes(1, 50_000));
    }
    clock.skip(DAY * 11);
    put(&archive, "/bucket/tmp/young", &bytes(2, 50_000));
    // Setting a bucket has its rules looked at.
    archive.set_bucket(&name, &settings).unwrap();
    wait_until("what is temporary is gone", || archive.stat(&path("/bucket/tmp/old")).is_err());
    assert!(archive.stat(&path("/bucket/tmp/young")).is_ok());
    let class = |file: &str| archive.object(&path(file), Which::Current).unwrap().file.class;
    assert_eq!(class("/bucket/data/old"), "small");
    clock.skip(DAY * 20);
    archive.set_bucket(&name, &settings).unwrap();
    wait_until("data is on its way to tape", || class("/bucket/data/old") == "glacier");
    assert_eq!(class("/bucket/other"), "small");
    assert_eq!(class("/elsewhere/data/old"), "small");
    wait_until("the rest is gone", || archive.stat(&path("/bucket/tmp/young")).is_err());
    // Another rule of the same name begins anew.
    let mut wider = settings.clone();
    wider.lifecycle[0].prefix = String::new();
    archive.set_bucket(&name, &wider).unwrap();
    wait_until("the rest follows", || class("/bucket/other") == "glacier");
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

#[test]
fn keys_are_listed_in_the_order_of_their_bytes() {
    let instance = instance(|_| {});
    let (archive, _) = open(&instance);
    let keys = ["a-b", "a.txt", "a/x", "a/y/z", "a0", "b"];
    for key in keys {
        put(&archive, &format!("/bucket/{key}"), b"1");
    }
    let query = archive::KeyQuery {
        bucket: path("/bucket"),
        prefix: String::new(),
        delimiter: None,
        after: String::new(),
        limit: 4,
    };
    let lines = |page: &archive::KeyPage| -> Vec<String> {
        let name = |line: &archive::KeyLine| match line {
            archive::KeyLine::Prefix(prefix) => prefix.clone(),
            archive::KeyLine::Object(object) => object.key.clone(),
        };
        page.lines.iter().map(name).collect()
    };
    let first = archive.list_keys(&query).unwrap();
    assert_eq!(lines(&first), keys[..4]);
    let after = first.next.unwrap();
    let second = archive.list_keys(&archive::KeyQuery { after, ..query.clone() }).unwrap();
    assert_eq!((lines(&second), second.next), (vec!["a0".to_owned(), "b".to_owned()], None));
    let delimiter = Some("/".to_owned());
    let rolled = archive.list_keys(&archive::KeyQuery { delimiter, limit: 10, ..query.clone() }).unwrap();
    assert_eq!(lines(&rolled), ["a-b", "a.txt", "a/", "a0", "b"]);
    let none = archive.list_keys(&archive::KeyQuery { bucket: path("/none"), ..query });
    assert!(matches!(none, Err(ArchiveError::NotFound(_))));
    archive.close();
}

/// Fills a bucket without a byte of data: `directories` of `files` each, named so that keys and names of
/// directories are in different orders.
fn fill(instance: &Instance, directories: u64, files: u64) {
    let clock = Arc::new(Ahead::default());
    let options = store::StoreOptions::new(instance.settings.catalogue_map_size, clock);
    let catalogue = store::CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap();
    let classes = catalogue.read(|view| view.classes()).unwrap();
    let class = classes.iter().find(|(_, class)| class.name == "disk").unwrap().0;
    let make = |parent, name: &str| {
        let command = Command::MakeDirectory {
            parent,
            name: Name::new(name).unwrap(),
            attributes: Attributes::default(),
            class: None,
        };
        match catalogue.execute(command).unwrap() {
            Outcome::Directory(id) => id,
            other => panic!("{other:?}"),
        }
    };
    let bucket = make(DirId::ROOT, "big");
    for n in 0..directories {
        let parent = make(bucket, &format!("d{n}"));
        let put = |file| {
            Command::PutFile(Box::new(PutFile {
                parent,
                name: Name::new(&format!("file-{file:06}")).unwrap(),
                kind: FileKind::Regular,
                size: ByteCount(0),
                attributes: Attributes {
                    xattrs: vec![("kist.s3.etag".to_owned(), vec![b'e'; 32])],
                    ..Attributes::default()
                },
                checksums: Checksums::of(b""),
                class,
                dataset: parent.0,
                data: None,
                replace: Replace::Refused,
                idempotency: None,
            }))
        };
        for result in catalogue.execute_all((0..files).map(put).collect()).unwrap() {
            result.unwrap();
        }
    }
}

#[test]
fn many_keys_are_listed_page_by_page() {
    let instance = instance(|settings| {
        let mut disk = settings.classes[0].clone();
        disk.name = "disk".to_owned();
        disk.up_to = None;
        disk.copies.clear();
        settings.classes.push(disk);
    });
    open(&instance).0.close();
    fill(&instance, 100, 500);
    let (archive, _) = open(&instance);
    let mut query = archive::KeyQuery {
        bucket: path("/big"),
        prefix: String::new(),
        delimiter: None,
        after: String::new(),
        limit: 1_000,
    };
    let begin = std::time::Instant::now();
    let mut keys: Vec<String> = Vec::new();
    loop {
        let page = archive.list_keys(&query).unwrap();
        keys.extend(page.lines.into_iter().map(|line| match line {
            archive::KeyLine::Object(object) => object.key,
            archive::KeyLine::Prefix(prefix) => panic!("{prefix}"),
        }));
        let Some(next) = page.next else { break };
        query.after = next;
    }
    let rate = keys.len() as f64 / begin.elapsed().as_secs_f64();
    println!("{rate:.0} keys/s in pages of 1,000");
    assert_eq!(keys.len(), 50_000);
    assert!(keys.is_sorted());
    query.after.clear();
    query.delimiter = Some("/".to_owned());
    let page = archive.list_keys(&query).unwrap();
    assert_eq!((page.lines.len(), page.next), (100, None));
    archive.close();
}
