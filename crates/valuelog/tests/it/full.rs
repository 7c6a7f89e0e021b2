//! A store that is full: puts are refused, deletes taken, and it goes on.

use valuelog::{Delete, Durability, Expected, LogError};

use crate::disk::{Disk, Random, layout};
use crate::history::{put, show_all};

use Durability::Back;

fn key(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn delete(key: &[u8]) -> Delete<'_> {
    Delete { key, expected: Expected::Any }
}

/// Fills it, gives it back in several orders, and fills it again.
#[test]
fn filled_given_back_and_filled_again() {
    for (value, order) in [(20_000, 1), (20_000, 7), (3_000, 1), (100, 3), (40_000, 2)] {
        let disk = Disk::new(14, 256 << 10);
        disk.format(layout(256 << 10, 64 << 10));
        let log = disk.open().unwrap();
        let mut filled = Vec::new();
        for round in 0..3 {
            let mut count = 0;
            let refused = loop {
                match log.put(&put(&key(count), &vec![count as u8; value]), Back) {
                    Ok(()) => count += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, LogError::NoSpace), "{refused}");
            filled.push(count);
            let figures = log.figures();
            let share = figures.needed.0 as f64 / figures.capacity.0 as f64;
            // A small record takes a page until cleaning packs it.
            assert!(share > if value < 4096 { 0.6 } else { 0.75 }, "round {round}: {value} B: {share}");
            assert!(matches!(log.put(&put(b"more", &vec![1; value]), Back), Err(LogError::NoSpace)));
            for number in 0..count {
                assert_eq!(&*log.get(&key(number)).unwrap().value, &vec![number as u8; value][..]);
            }
            // An overwrite frees what it replaces only when it is done.
            for number in (0..count).map(|number| (number * order) % count) {
                log.delete(&delete(&key(number)), Back).unwrap_or_else(|error| {
                    panic!("round {round}, {value} B: delete {number} of {count}: {error}")
                });
            }
            (0..count).for_each(|number| drop(log.delete(&delete(&key(number)), Back)));
            assert_eq!(log.figures().keys.0, 0);
        }
        let (least, most) = (filled.iter().min().unwrap(), filled.iter().max().unwrap());
        assert!(least * 10 >= most * 9, "each time about the same fits: {filled:?}");
        log.put(&put(b"last", b"one"), Durability::Through).unwrap();
        drop(log);
        let shown = show_all(&disk.open().unwrap());
        assert_eq!(shown.len(), 1, "nothing that was deleted is back");
    }
}

/// A store at 80 % goes on for ever with overwrites, and what it shows is right after each reopening.
#[test]
fn overwritten_for_long() {
    let disk = Disk::new(16, 128 << 10);
    disk.format(layout(128 << 10, 32 << 10));
    let mut random = Random::new(3);
    let mut log = disk.open().unwrap();
    let keys = 13 * 128 * 7 / 10 / 16;
    let mut versions = vec![0usize; keys];
    let (mut cleaned, mut copied, mut written) = (0, 0, 0);
    for step in 0..4_000 {
        let number = if step < keys { step } else { random.below(keys) };
        versions[number] = step;
        log.put(&put(&key(number), &vec![step as u8; 15_000]), Back).unwrap();
        disk.recorded().events.clear();
        if step % 500 == 499 {
            let figures = log.figures();
            cleaned += figures.cleaned.0;
            copied += figures.copied.0;
            written += figures.written.0;
            drop(log);
            log = disk.open().unwrap();
            for (number, step) in versions.iter().enumerate() {
                assert_eq!(&*log.get(&key(number)).unwrap().value, &vec![*step as u8; 15_000][..]);
            }
        }
    }
    assert!(cleaned > 30, "{cleaned} segments cleaned");
    assert!(copied * 10 < written * 9, "{copied} of {written} bytes were copies");
}

/// Tombstones go when nothing is left that they hold back.
#[test]
fn tombstones_do_not_pile_up() {
    let disk = Disk::new(10, 64 << 10);
    disk.format(layout(64 << 10, 16 << 10));
    let log = disk.open().unwrap();
    for number in 0..3_000 {
        log.put(&put(&key(number), &[1; 5_000]), Back).unwrap();
        log.delete(&delete(&key(number)), Back).unwrap();
        disk.recorded().events.clear();
    }
    let figures = log.figures();
    assert!(figures.tombstones.0 < 200, "{figures:?}");
    assert_eq!(figures.keys.0, 0);
    log.close().unwrap();
    assert_eq!(show_all(&disk.open().unwrap()).len(), 0);
}
