//! Many threads at one store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use valuelog::{Delete, Durability, Expected, KeyRange, LogError, Settings};

use crate::disk::{Disk, Event, layout, settings};
use crate::history::{put, show_all};

/// Writers of their own keys and of one shared by compare and set, readers, a scan, and the thread behind it
/// all: each reads what it has written, while segments are cleaned under it.
#[test]
fn all_at_once() {
    let disk = Disk::new(16, 256 << 10);
    disk.format(layout(256 << 10, 64 << 10));
    let log = disk.open_with(Settings { background: true, ..settings() }).unwrap();
    let is_done = AtomicBool::new(false);
    let (won, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    log.put(&valuelog::Put { version: b"0", ..put(b"shared", b"") }, Durability::Back).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u8)
            .map(|writer| {
                let (log, won) = (&log, &won);
                scope.spawn(move || {
                    for round in 0..150u32 {
                        let key = [writer + 1, (round % 7) as u8];
                        let length = [100, 5_000, 50_000][round as usize % 3];
                        let value = vec![(round as u8) ^ writer; length];
                        let durability = if round % 5 == 0 { Durability::Through } else { Durability::Back };
                        log.put(&put(&key, &value), durability).unwrap();
                        assert_eq!(&*log.get(&key).unwrap().value, &value[..]);
                        if round % 11 == 10 {
                            let expected = Expected::Version(b"version");
                            log.delete(&Delete { key: &key, expected }, Durability::Back).unwrap();
                            assert!(matches!(log.get(&key), Err(LogError::NotFound)));
                        }
                        let stands = log.metadata(b"shared").unwrap().version;
                        let number: u64 = String::from_utf8_lossy(&stands).parse().unwrap();
                        let next = (number + 1).to_string().into_bytes();
                        let expected = Expected::Version(&stands);
                        let asked = valuelog::Put { version: &next, expected, ..put(b"shared", &next) };
                        match log.put(&asked, Durability::Back) {
                            Ok(()) => drop(won.fetch_add(1, Ordering::Relaxed)),
                            Err(LogError::VersionMismatch) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    for key in log.keys(&KeyRange::all(100)) {
                        match log.get(&key) {
                            Ok(entry) => assert!(
                                key[..] == *b"shared"
                                    || entry.value.iter().all(|byte| *byte == entry.value[0])
                            ),
                            Err(LogError::NotFound) => {}
                            Err(error) => panic!("{error}"),
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(log.scan(&KeyRange::all(20)).unwrap().damage.is_empty());
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
    });
    let version = log.metadata(b"shared").unwrap().version;
    assert_eq!(String::from_utf8_lossy(&version), won.load(Ordering::Relaxed).to_string());
    assert!(log.figures().cleaned.0 > 0, "{:?}", log.figures());
    assert!(reads.load(Ordering::Relaxed) > 0);
    let shown = show_all(&log);
    log.close().unwrap();
    assert_eq!(show_all(&disk.open().unwrap()), shown);
}

/// Callers at the same time share syncs: each caller waits for one that begins after its write.
#[test]
fn syncs_are_shared() {
    let disk = Disk::new(12, 256 << 10);
    disk.format(layout(256 << 10, 64 << 10));
    let log = disk.open().unwrap();
    let puts = 8 * 50;
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let log = &log;
            scope.spawn(move || {
                for _ in 0..50 {
                    log.put(&put(&[writer + 1], b"v"), Durability::Through).unwrap();
                }
            });
        }
    });
    let syncs = disk.recorded().events.iter().filter(|event| matches!(event, Event::Sync)).count();
    assert!(syncs <= puts + 20, "{syncs} syncs for {puts} puts");
    // All was durable: a crash that loses all since the last sync loses nothing.
    let recorded = disk.recorded();
    let image = crate::history::crashed(&recorded.base, &recorded.events, |_, _| false);
    assert_eq!(show_all(&Disk::of(image).open().unwrap()).len(), 8);
}
