//! What each call does, and the limits at and one beyond.

use std::ops::Bound;

use base::{ByteCount, Uuid};
use valuelog::{
    BATCH_CHANGES_MAX, BLOCK_BYTES, Change, Delete, Durability, Erase, Expected, KEY_BYTES_MAX, KeyRange,
    Layout, LogError, OpenError, Put, Settings, TAG_BYTES_MAX, VERSION_BYTES_MAX, ValueLog,
};

use crate::disk::{Disk, Event, Random, STORE, Target, layout, settings};
use crate::history::{put, show_all};

use Durability::{Back, Through};

fn disk() -> Disk {
    let disk = Disk::new(12, 512 << 10);
    disk.format(layout(512 << 10, 256 << 10));
    disk
}

fn versioned<'a>(key: &'a [u8], value: &'a [u8], version: &'a [u8], expected: Expected<'a>) -> Put<'a> {
    Put { version, expected, ..put(key, value) }
}

fn delete<'a>(key: &'a [u8], expected: Expected<'a>) -> Delete<'a> {
    Delete { key, expected }
}

/// The table of the Kinetic protocol: what stands, what is given, what comes of a put and of a delete.
#[test]
fn compare_and_set() {
    use Expected::{Any, Version};
    type Outcome = Result<(), LogError>;
    fn is(outcome: &Outcome, expected: &str) -> bool {
        match outcome {
            Ok(()) => expected == "done",
            Err(LogError::VersionMismatch) => expected == "mismatch",
            Err(LogError::NotFound) => expected == "missing",
            Err(_) => false,
        }
    }
    for (stands, given, of_put, of_delete) in [
        (None, Version(b""), "done", "missing"),
        (None, Version(b"1"), "mismatch", "missing"),
        (None, Any, "done", "done"),
        (Some(&b""[..]), Version(b""), "done", "done"),
        (Some(b""), Version(b"1"), "mismatch", "mismatch"),
        (Some(b"1"), Version(b""), "mismatch", "mismatch"),
        (Some(b"1"), Version(b"1"), "done", "done"),
        (Some(b"1"), Version(b"2"), "mismatch", "mismatch"),
        (Some(b"1"), Any, "done", "done"),
    ] {
        let log = disk().open().unwrap();
        for key in [b"p", b"d"] {
            if let Some(version) = stands {
                log.put(&versioned(key, b"old", version, Any), Back).unwrap();
            }
        }
        let case = (stands, given);
        let put = log.put(&versioned(b"p", b"new", b"2", given), Back);
        assert!(is(&put, of_put), "{case:?}: {put:?}");
        let deleted = log.delete(&delete(b"d", given), Back);
        assert!(is(&deleted, of_delete), "{case:?}: {deleted:?}");
        if put.is_ok() {
            let entry = log.get(b"p").unwrap();
            assert_eq!((&*entry.value, &*entry.metadata.version), (&b"new"[..], &b"2"[..]));
        }
        assert_eq!(log.get(b"d").is_ok(), stands.is_some() && deleted.is_err());
    }
}

#[test]
fn a_batch_sees_what_it_did_before_and_is_all_or_nothing() {
    use Expected::{Any, Version};
    let disk = disk();
    let log = disk.open().unwrap();
    let chain = [
        Change::Put(versioned(b"a", b"1", b"1", Version(b""))),
        Change::Put(versioned(b"a", b"2", b"2", Version(b"1"))),
        Change::Delete(delete(b"a", Version(b"2"))),
        Change::Put(versioned(b"a", b"3", b"3", Version(b""))),
        Change::Delete(delete(b"nothing", Any)),
        Change::Put(versioned(b"b", &[7; 100_000], b"", Any)),
    ];
    log.batch(&chain, Through).unwrap();
    assert_eq!(&*log.get(b"a").unwrap().value, b"3");
    let refused = log.batch(&[chain[5], chain[2], chain[3]], Through);
    assert!(matches!(
        &refused,
        Err(LogError::Batch { place: 1, source }) if matches!(**source, LogError::VersionMismatch)
    ));
    let shown = show_all(&log);
    log.batch(&[], Through).unwrap();
    assert_eq!(show_all(&log), shown);
    drop(log);
    assert_eq!(show_all(&disk.open().unwrap()), shown);
}

#[test]
fn limits_at_and_one_beyond() {
    let disk = disk();
    let log = disk.open().unwrap();
    let long = |length: usize| vec![b'x'; length];
    let too_large = |done: Result<(), LogError>, what: &str| {
        let is_it = matches!(&done, Err(LogError::TooLarge { what: found, .. }) if *found == what);
        assert!(is_it, "{what}: {done:?}");
    };
    let [key, version, tag] = [KEY_BYTES_MAX, VERSION_BYTES_MAX, TAG_BYTES_MAX].map(long);
    let value = long(256 << 10);
    let most = Put { key: &key, value: &value, version: &version, tag: &tag, ..put(b"", b"") };
    log.put(&most, Through).unwrap();
    let [key1, version1, tag1] = [KEY_BYTES_MAX + 1, VERSION_BYTES_MAX + 1, TAG_BYTES_MAX + 1].map(long);
    let value1 = long((256 << 10) + 1);
    too_large(log.put(&Put { key: &key1, ..most }, Back), "bytes of a key");
    too_large(log.put(&Put { version: &version1, ..most }, Back), "bytes of a version");
    too_large(log.put(&Put { tag: &tag1, ..most }, Back), "bytes of a tag");
    too_large(log.put(&Put { value: &value1, ..most }, Back), "bytes of a value");
    assert!(matches!(log.put(&put(b"", b""), Back), Err(LogError::EmptyKey)));
    assert!(matches!(log.get(b""), Err(LogError::EmptyKey)));
    assert!(matches!(log.get(&key1), Err(LogError::TooLarge { .. })));
    let deletes = vec![Change::Delete(delete(b"k", Expected::Any)); BATCH_CHANGES_MAX + 1];
    log.batch(&deletes[1..], Back).unwrap();
    too_large(log.batch(&deletes, Back), "changes of a batch");
    let big = Change::Put(put(b"big", &value));
    too_large(log.batch(&[big], Back), "bytes of a batch with its headers");
    // 241,664 bytes and a page for the header, one for the end, and one for the table: half a segment.
    let fits = long((256 << 10) - 3 * 4096);
    log.batch(&[Change::Put(put(b"big", &fits))], Back).unwrap();
    drop(log);
    let log = disk.open().unwrap();
    let entry = log.get(&key).unwrap();
    assert_eq!((&*entry.value, &entry.metadata.version[..]), (&value[..], &version[..]));
    assert_eq!((&entry.metadata.tag[..], entry.metadata.algorithm), (&tag[..], 4));
}

#[test]
fn parts_of_values() {
    let log = disk().open().unwrap();
    let value = Random::new(5).bytes(200_000);
    let lengths = [0, 1, 100, (32 << 10) - 1, 32 << 10, BLOCK_BYTES, BLOCK_BYTES + 1, 200_000];
    for length in lengths {
        let value = &value[..length];
        log.put(&put(b"k", value), Back).unwrap();
        assert_eq!(&*log.get(b"k").unwrap().value, value);
        let ends = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, length / 2, length];
        for from in ends {
            for to in ends.into_iter().filter(|to| *to >= from) {
                let bytes = ByteCount((to - from) as u64);
                let part = log.get_part(b"k", ByteCount(from as u64), bytes);
                if to <= length {
                    assert_eq!(&*part.unwrap().value, &value[from..to], "{from}..{to} of {length}");
                } else {
                    assert!(matches!(part, Err(LogError::BeyondEnd { .. })), "{from}..{to} of {length}");
                }
            }
        }
        assert!(matches!(
            log.get_part(b"k", ByteCount(1), ByteCount(u64::MAX)),
            Err(LogError::BeyondEnd { .. })
        ));
    }
    assert_eq!(log.metadata(b"k").unwrap().length, ByteCount(200_000));
    assert!(matches!(log.metadata(b"j"), Err(LogError::NotFound)));
}

#[test]
fn walks() {
    let log = disk().open().unwrap();
    for key in [&b"a"[..], b"b", b"ba", b"c", b"\xff\xff"] {
        log.put(&put(key, key), Back).unwrap();
    }
    log.put_own(&put(b"acl", b"everybody")).unwrap();
    log.delete(&delete(b"c", Expected::Any), Back).unwrap();
    let next = |key: &[u8]| log.next(key).unwrap().map(|(key, _)| key.to_vec());
    let previous = |key: &[u8]| log.previous(key).unwrap().map(|(key, _)| key.to_vec());
    assert_eq!(next(b"a"), Some(b"b".to_vec()));
    assert_eq!(next(b"b"), Some(b"ba".to_vec()));
    assert_eq!(next(b"ba"), Some(b"\xff\xff".to_vec()), "what is deleted is passed over");
    assert_eq!(next(b"\xff\xff"), None, "what the owner keeps is no key");
    assert_eq!(previous(b"b"), Some(b"a".to_vec()));
    assert_eq!(previous(b"zz"), Some(b"ba".to_vec()));
    assert_eq!(previous(b"a"), None);
    let keys = |start, end, most, reverse| {
        let keys = log.keys(&KeyRange { start, end, most, reverse });
        keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(keys(Included(b"a"), Included(b"ba"), 9, false), ["a", "b", "ba"]);
    assert_eq!(keys(Excluded(b"a"), Excluded(b"ba"), 9, false), ["b"]);
    assert_eq!(keys(Included(b"a"), Included(b"ba"), 2, true), ["ba", "b"]);
    assert_eq!(keys(Included(b"a"), Unbounded, 2, false), ["a", "b"]);
    assert_eq!(keys(Included(b"ba"), Included(b"a"), 9, false), Vec::<String>::new());
    assert_eq!(keys(Excluded(b"a"), Excluded(b"a"), 9, false), Vec::<String>::new());
    assert_eq!(keys(Included(b"a"), Included(b"a"), 9, false), ["a"]);
    assert_eq!(keys(Included(b"a"), Unbounded, 0, false), Vec::<String>::new());
    assert_eq!(&*log.get_own(b"acl").unwrap().value, b"everybody");
    assert!(matches!(log.get(b"acl"), Err(LogError::NotFound)));
}

#[test]
fn closed_cleanly_it_is_opened_by_its_tables() {
    let disk = disk();
    let log = disk.open().unwrap();
    for number in 0..40u8 {
        log.put(&put(&[number + 1], &vec![number; 30_000]), Back).unwrap();
    }
    log.delete(&delete(&[3], Expected::Any), Back).unwrap();
    let shown = show_all(&log);
    assert_eq!(shown.len(), 39);
    log.close().unwrap();
    let log = disk.open().unwrap();
    assert_eq!((log.recovery().scanned.0, log.recovery().tables.0), (0, 3));
    assert_eq!(show_all(&log), shown);
    let figures = log.figures();
    assert_eq!((figures.keys.0, figures.tombstones.0), (39, 1));
    assert_eq!(figures.capacity, ByteCount(9 * (512 << 10)));
    assert_eq!(figures.used, ByteCount(3 * (512 << 10)));
    assert!(figures.needed.0 > 39 * 30_000 && figures.needed < figures.used);
    assert_eq!(figures.reads.0, 39);
    assert_eq!(figures.read, ByteCount(39 * 30_000));
}

/// What is written back is not synced for each; what is written through shares syncs with nobody here.
#[test]
fn syncs() {
    let disk = disk();
    let log = disk.open().unwrap();
    log.put(&put(b"k", b"v"), Through).unwrap();
    let syncs = || disk.recorded().events.iter().filter(|event| matches!(event, Event::Sync)).count();
    let before = syncs();
    for _ in 0..10 {
        log.put(&put(b"k", b"v"), Back).unwrap();
    }
    assert_eq!(syncs(), before);
    log.flush().unwrap();
    assert_eq!(syncs(), before + 1);
    log.flush().unwrap();
    assert_eq!(syncs(), before + 1, "there is nothing to be synced");
    log.put(&put(b"k", b"v"), Through).unwrap();
    assert_eq!(syncs(), before + 2);
    let few = Settings { dirty_bytes_max: ByteCount(100_000), ..settings() };
    let log = {
        drop(log);
        disk.open_with(few).unwrap()
    };
    log.put(&put(b"k", b"v"), Through).unwrap();
    let before = syncs();
    for _ in 0..10 {
        log.put(&put(b"k", &vec![1; 60_000]), Back).unwrap();
    }
    assert_eq!(syncs(), before + 5, "bytes that are not durable are bounded");
}

#[test]
fn the_index_has_a_limit() {
    let disk = disk();
    let bounded = Settings { index_bytes_max: ByteCount(1_000), ..settings() };
    let log = disk.open_with(bounded).unwrap();
    let mut keys = 0u8;
    let refused = loop {
        match log.put(&put(&[keys + 1], b"v"), Back) {
            Ok(()) => keys += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LogError::IndexFull { .. }) && refused.is_full(), "{refused}");
    assert_eq!(u64::from(keys), 1_000 / (192 + 2 + 7 + 3));
    log.put(&put(&[1], b"other"), Back).unwrap();
    log.delete(&delete(&[1], Expected::Any), Back).unwrap();
    log.put(&put(&[1], b"again"), Back).unwrap();
    drop(log);
    assert_eq!(show_all(&disk.open_with(bounded).unwrap()).len(), usize::from(keys), "it opens in any case");
}

#[test]
fn other_stores_and_versions_are_refused() {
    let disk = disk();
    let other = ValueLog::open_on(
        Box::new(disk.clone()),
        std::path::Path::new("disk"),
        Some(Uuid([1; 16])),
        settings(),
    );
    assert!(matches!(other, Err(OpenError::OtherStore { found: STORE, .. })));
    for copy in 0..2 {
        let mut recorded = disk.recorded();
        let page = recorded.image.part(Target::Superblock(copy));
        page[8] = 2;
        let crc = base::Crc32c::of(&page[..4092]);
        page[4092..].copy_from_slice(&crc.0.to_le_bytes());
    }
    assert!(matches!(disk.open(), Err(OpenError::Version { version: 2, .. })));
    assert!(matches!(Disk::new(9, 64 << 10).open(), Err(OpenError::NotAStore(_))));
    let too_few = ValueLog::format_on(&disk, std::path::Path::new("disk"), STORE, Layout::default(), 5);
    assert!(too_few.is_err());
    for bad in [layout((512 << 10) + 512, 1 << 10), layout(64 << 10, 60 << 10), layout(256 << 20, 17 << 20)] {
        let made = ValueLog::format_on(&disk, std::path::Path::new("disk"), STORE, bad, 12);
        assert!(made.is_err(), "{bad:?}");
    }
}

#[test]
fn erased_is_erased() {
    for how in [Erase::Quick, Erase::Secure] {
        let disk = disk();
        let log = disk.open().unwrap();
        log.put(&put(b"k", b"a secret that nobody finds"), Through).unwrap();
        log.put_own(&put(b"pin", b"1234")).unwrap();
        let id = Uuid([9; 16]);
        log.erase(id, how).unwrap();
        assert_eq!(log.id(), id);
        assert!(matches!(log.get(b"k"), Err(LogError::NotFound)));
        assert!(matches!(log.get_own(b"pin"), Err(LogError::NotFound)));
        log.put(&put(b"new", b"n"), Through).unwrap();
        drop(log);
        let image = disk.image();
        let is_secret = |bytes: &[u8]| bytes.windows(8).any(|part| part == b"a secret");
        // The first segment is used again at once; the secret stood there.
        assert!(how == Erase::Quick || !image.slots.iter().any(|slot| is_secret(slot)));
        let open = |disk: &Disk, id| {
            ValueLog::open_on(Box::new(disk.clone()), std::path::Path::new("disk"), Some(id), settings())
        };
        assert!(matches!(open(&disk, STORE), Err(OpenError::OtherStore { .. })));
        let log = open(&disk, id).unwrap();
        assert_eq!(show_all(&log).len(), 1);
    }
}

/// An erase that is cut off at any write has erased everything or nothing, and a secure one is completed.
#[test]
fn an_erase_that_is_cut_off() {
    let start = disk();
    let log = start.open().unwrap();
    log.put(&put(b"k", b"a secret that nobody finds"), Through).unwrap();
    drop(log);
    let mut seen = [0; 2];
    for writes in 0..60 {
        let disk = Disk::of(start.image());
        let log = disk.open().unwrap();
        disk.recorded().writes_left = Some(writes);
        let erased = log.erase(Uuid([9; 16]), Erase::Secure);
        drop(log);
        disk.recorded().writes_left = None;
        let log =
            ValueLog::open_on(Box::new(disk.clone()), std::path::Path::new("d"), None, settings()).unwrap();
        if log.id() == STORE {
            assert!(erased.is_err());
            assert_eq!(&*log.get(b"k").unwrap().value, b"a secret that nobody finds");
            seen[0] += 1;
        } else {
            assert!(matches!(log.get(b"k"), Err(LogError::NotFound)));
            let is_secret = |bytes: &[u8]| bytes.windows(8).any(|part| part == b"a secret");
            assert!(!disk.image().slots.iter().any(|slot| is_secret(slot)), "after {writes} writes");
            seen[1] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 10, "{seen:?}");
}

/// A write or a sync that fails ends all changes, and nothing that was durable is lost.
#[test]
fn failures_poison_the_store() {
    for fail_sync in [false, true] {
        for left in 0..30 {
            let disk = disk();
            let log = disk.open().unwrap();
            log.put(&put(b"first", b"v"), Through).unwrap();
            {
                let mut recorded = disk.recorded();
                let counter = if fail_sync { &mut recorded.syncs_left } else { &mut recorded.writes_left };
                *counter = Some(left);
            }
            let mut durable = 0u8;
            let failed = loop {
                match log.put(&put(&[durable + 1], &vec![durable; 50_000]), Through) {
                    Ok(()) => durable += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(failed, LogError::Poisoned), "{failed}");
            assert!(log.failure().is_some());
            assert!(matches!(log.put(&put(b"k", b"v"), Back), Err(LogError::Poisoned)));
            assert!(matches!(log.flush(), Err(LogError::Poisoned)));
            assert_eq!(&*log.get(b"first").unwrap().value, b"v", "it can still be read");
            drop(log);
            disk.recorded().syncs_left = None;
            disk.recorded().writes_left = None;
            let log = disk.open().unwrap();
            for number in 0..durable {
                assert_eq!(&*log.get(&[number + 1]).unwrap().value, &vec![number; 50_000][..]);
            }
        }
    }
}
