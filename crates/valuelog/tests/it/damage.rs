//! Bits that flip, sectors that are lost, writes that go elsewhere: never a wrong byte, always a typed error.

use std::collections::BTreeMap;

use base::ByteCount;
use valuelog::{Change, DamageKind, Delete, Durability, Expected, KeyRange, LogError, ValueLog};

use crate::disk::{Disk, Image, Random, Target, layout};
use crate::history::{put, show_all};

use Durability::{Back, Through};

const SEGMENT: usize = 64 << 10;

type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

/// A small store with everything in it: small and larger values, deletes, a batch, several segments.
fn filled(close: bool) -> (Image, Shown) {
    let disk = Disk::new(8, SEGMENT);
    disk.format(layout(SEGMENT as u64, 16 << 10));
    let log = disk.open().unwrap();
    let mut random = Random::new(11);
    for number in 0..12u8 {
        let length = [10, 3_000, 9_000][usize::from(number) % 3];
        log.put(&put(&[b'k', number], &random.bytes(length)), Back).unwrap();
    }
    log.delete(&Delete { key: &[b'k', 3], expected: Expected::Any }, Back).unwrap();
    let (one, two) = (random.bytes(700), random.bytes(80));
    let batch = [
        Change::Put(put(b"batch 1", &one)),
        Change::Delete(Delete { key: &[b'k', 4], expected: Expected::Any }),
        Change::Put(put(b"batch 2", &two)),
    ];
    log.batch(&batch, Through).unwrap();
    log.put(&put(b"last", b"value"), Through).unwrap();
    // Makes all before durable for whoever scans.
    log.put(&put(b"\xff", b"end"), Through).unwrap();
    let shown = show_all(&log);
    if close {
        log.close().unwrap();
    } else {
        drop(log);
    }
    (disk.image(), shown)
}

/// What is shown is right or a typed error; gives how many errors there were, and how many keys are missing
/// and not reported.
fn check(log: &ValueLog, shown: &Shown, case: &str) -> (usize, usize) {
    let (mut damaged, mut missing) = (0, 0);
    for (key, value) in shown {
        match log.get(key) {
            Ok(entry) => assert!(*entry.value == **value, "{case}: a wrong byte of {key:?}"),
            Err(LogError::Damaged(damage)) => {
                assert_eq!(damage.key.as_deref(), Some(&key[..]), "{case}");
                damaged += 1;
            }
            Err(LogError::NotFound) => missing += 1,
            Err(other) => panic!("{case}: {other}"),
        }
    }
    let extra = log.keys(&KeyRange::all(100)).into_iter().find(|key| !shown.contains_key(&key[..]));
    let is_told = log.recovery().damage.iter().any(|damage| damage.kind == DamageKind::Lost);
    assert!(extra.is_none() || is_told, "{case}: {extra:?} is back");
    (damaged, missing)
}

/// Each byte of a store that was closed, one after the other.
#[test]
fn a_flipped_byte_anywhere() {
    let (image, shown) = filled(true);
    let mut found = 0;
    for slot in 0..3 {
        for at in 0..SEGMENT {
            if image.slots[slot][at] == 0xd5 && at % 97 != 0 {
                // Nothing was ever written there.
                continue;
            }
            // A value is long; its neighbours tell the same.
            if at % 4096 > 600 && at % 23 != 0 {
                continue;
            }
            let mut flipped = image.clone();
            flipped.slots[slot][at] ^= 1 << (at % 8);
            let log = Disk::of(flipped).open().unwrap();
            let case = format!("segment {slot}, byte {at}");
            let (damaged, missing) = check(&log, &shown, &case);
            assert!(damaged <= 1, "{case}: {damaged} are damaged");
            assert_eq!(missing, 0, "{case}: keys are missing");
            let scan = log.scan(&KeyRange::all(100)).unwrap();
            assert_eq!(scan.damage.len(), damaged, "{case}: a scan finds the same");
            found += damaged;
        }
    }
    assert!(found > 1_000, "only {found} flips met anything");
}

/// In a store that was not closed, a record without a header has no table that knows of it: it is reported
/// as lost.
#[test]
fn a_flipped_byte_where_nothing_was_sealed() {
    let (image, shown) = filled(false);
    let (mut found, mut lost) = (0, 0);
    for slot in 0..3 {
        for at in (0..SEGMENT).step_by(7) {
            let mut flipped = image.clone();
            flipped.slots[slot][at] ^= 1 << (at % 8);
            let log = Disk::of(flipped).open().unwrap();
            let case = format!("segment {slot}, byte {at}");
            let (damaged, missing) = check(&log, &shown, &case);
            let recovery = log.recovery();
            // Nobody can tell a torn write from rot in what came last.
            let is_last = missing == 1 && log.get(b"\xff").is_err();
            assert!(missing == 0 || is_last || !recovery.damage.is_empty(), "{case}: {recovery:?}");
            found += damaged;
            lost += missing;
        }
    }
    assert!(found > 200 && lost > 5, "{found} damaged, {lost} lost");
}

#[test]
fn either_superblock_is_enough() {
    let (image, shown) = filled(true);
    for copy in 0..2 {
        for at in (0..80).chain(4090..4096) {
            let mut flipped = image.clone();
            flipped.superblocks[copy][at] ^= 0x80;
            let disk = Disk::of(flipped);
            let log = disk.open().unwrap();
            assert_eq!(check(&log, &shown, "superblock"), (0, 0));
            drop(log);
            let image = disk.image();
            assert!(image.superblocks[0] == image.superblocks[1], "both are whole again");
        }
    }
    let mut gone = image;
    gone.superblocks.iter_mut().for_each(|page| page[100] ^= 1);
    assert!(matches!(Disk::of(gone).open(), Err(valuelog::OpenError::Damaged(_))));
}

/// A sector that cannot be read, or holds what stood there before, or what belongs elsewhere.
#[test]
fn lost_and_misdirected_sectors() {
    let (image, shown) = filled(true);
    let before = Disk::new(8, SEGMENT);
    before.format(layout(SEGMENT as u64, 16 << 10));
    drop(before.open().unwrap());
    let before = before.image();
    for slot in 0..3 {
        for at in (0..SEGMENT).step_by(512) {
            let case = format!("segment {slot}, sector at {at}");
            let mut lost = image.clone();
            let old = before.slots[slot][at..at + 512].to_vec();
            lost.slots[slot][at..at + 512].copy_from_slice(&old);
            check_one(lost, &shown, &case);
            for other in [(slot + 1) % 3, slot] {
                let mut misdirected = image.clone();
                let from = if other == slot { (at + 4096) % SEGMENT } else { at };
                let strange = image.slots[other][from..from + 512].to_vec();
                misdirected.slots[slot][at..at + 512].copy_from_slice(&strange);
                check_one(misdirected, &shown, &case);
            }
        }
        for at in (0..SEGMENT).step_by(4096) {
            let disk = Disk::of(image.clone());
            disk.recorded().unreadable.push((slot as u32, at));
            let log = disk.open().unwrap();
            let (damaged, missing) = check(&log, &shown, &format!("segment {slot}, unreadable at {at}"));
            assert!(damaged <= 4 && missing == 0);
            drop(log);
            disk.recorded().unreadable.clear();
            let log = disk.open().unwrap();
            assert_eq!(check(&log, &shown, "readable again"), (0, 0));
        }
    }
}

fn check_one(image: Image, shown: &Shown, case: &str) {
    let log = Disk::of(image).open().unwrap();
    let (damaged, missing) = check(&log, shown, case);
    assert!(damaged <= 4 && missing == 0, "{case}: {damaged} damaged, {missing} missing");
}

/// Whole records at places that are not theirs: of an earlier use of the segment, of another store.
#[test]
fn a_whole_record_that_is_not_the_one() {
    let disk = Disk::new(8, SEGMENT);
    disk.format(layout(SEGMENT as u64, 16 << 10));
    let log = disk.open().unwrap();
    log.put(&put(b"one", b"1"), Through).unwrap();
    log.put(&put(b"two", b"2"), Through).unwrap();
    let places: Vec<usize> = {
        let image = disk.image();
        (4096..SEGMENT).step_by(4096).filter(|at| image.slots[0][*at..].starts_with(b"KISTVREC")).collect()
    };
    assert_eq!(places.len(), 2);
    let [one, two] = [places[0], places[1]];
    {
        let mut recorded = disk.recorded();
        let slot = recorded.image.part(Target::Slot(0));
        slot.copy_within(one..one + 4096, two);
    }
    let Err(LogError::Damaged(damage)) = log.get(b"two") else { panic!("a record of another place") };
    assert_eq!(
        (damage.kind, damage.segment, damage.offset),
        (DamageKind::Identity, 0, ByteCount(two as u64))
    );
    assert!(damage.to_string().contains("another record stands there"), "{damage}");
    assert_eq!(log.figures().damaged.0, 1);
    log.put(&put(b"two", b"good again"), Through).unwrap();
    assert_eq!(&*log.get(b"two").unwrap().value, b"good again");
    assert!(log.scan(&KeyRange::all(9)).unwrap().damage.is_empty());
}

/// A damaged record is not lost from sight by cleaning: it stays until it is written again, and the rest of
/// its segment goes.
#[test]
fn cleaning_leaves_damage_where_it_is() {
    let disk = Disk::new(8, SEGMENT);
    disk.format(layout(SEGMENT as u64, 16 << 10));
    let log = disk.open().unwrap();
    log.put(&put(b"bad", &[7; 9_000]), Through).unwrap();
    disk.recorded().image.part(Target::Slot(0))[4096 + 5_000] ^= 1;
    for round in 0..60u8 {
        log.put(&put(&[round % 5 + 1], &[round; 12_000]), Back).unwrap();
    }
    assert!(log.figures().cleaned.0 > 5);
    let damaged = |log: &ValueLog| match log.get(b"bad") {
        Err(LogError::Damaged(damage)) => damage.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(damaged(&log), DamageKind::Block(0));
    log.close().unwrap();
    let log = disk.open().unwrap();
    assert_eq!(damaged(&log), DamageKind::Block(0));
    log.put(&put(b"bad", b"good"), Back).unwrap();
    let used = log.figures().used;
    for round in 0..60u8 {
        log.put(&put(&[round % 5 + 1], &[round; 12_000]), Back).unwrap();
    }
    assert!(log.figures().used <= ByteCount(used.0 + SEGMENT as u64));
    assert_eq!(&*log.get(b"bad").unwrap().value, b"good");
}
