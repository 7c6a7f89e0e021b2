//! What cannot be read is refused, and said in numbers.

use bytes::Bytes;
use kinetic_import::ImportError;
use kineticio::{
    BlockNumber, Damage, DriveIndex, FirstDrive, Placement, data_key, handoff_key, metadata_key,
};

use crate::written::{Geometry, Written, read};

const FIRST: FirstDrive = FirstDrive::AfterHash;
const PATH: &str = "00000000/2b+9";

fn written() -> Written {
    Geometry { data: 4, parity: 2, chunk_kib: 1, drives: 9, first: FIRST }.write(&["2b+9"])
}

fn key(block: u32) -> Bytes {
    data_key("Grid", PATH.as_bytes(), BlockNumber(block))
}

fn drive(block: u32, chunk: usize) -> usize {
    let DriveIndex(drive) = Placement { drives: 9, first: FIRST }.drive(&key(block), chunk);
    drive
}

fn damage(written: &Written) -> (u32, Damage) {
    let cluster = written.open(Some(FIRST), &[]).unwrap();
    match read(&cluster, PATH) {
        Err(ImportError::Block { block, damage }) => (block.0, damage),
        other => panic!("{other:?}"),
    }
}

fn spoil(written: &mut Written, block: u32, chunks: &[usize]) {
    written.change(|drives| {
        for chunk in chunks {
            let entry = drives[drive(block, *chunk)].get_mut(&key(block)).unwrap();
            let mut value = entry.value.to_vec();
            let middle = value.len() / 2;
            value[middle] ^= 1;
            entry.value = value.into();
        }
    });
}

#[test]
fn damaged_chunks_are_computed_from_others_up_to_the_limit() {
    for chunks in [&[0usize][..], &[5], &[0, 3], &[2, 4], &[4, 5]] {
        let mut written = written();
        spoil(&mut written, 1, chunks);
        let (bytes, report) = read(&written.open(Some(FIRST), &[]).unwrap(), PATH).unwrap();
        assert!(bytes == written.bytes(PATH));
        // Parity that is not needed is not read.
        assert!(report.damaged <= chunks.len() as u64);
        assert_eq!(report.rebuilt, chunks.iter().filter(|chunk| **chunk < 4).count() as u64);
    }
    let mut written = written();
    spoil(&mut written, 1, &[0, 3, 5]);
    let (block, damage) = damage(&written);
    let Damage::TooFewChunks { of, needed, versions, damaged, nothing, unreachable, .. } = &damage else {
        panic!("{damage}")
    };
    assert_eq!((block, *of, *needed, versions[0].chunks), (1, 6, 4, 3));
    assert_eq!((*damaged, *nothing, *unreachable), (3, 0, 0));
    let said = damage.to_string();
    assert!(said.starts_with("of 6 chunks 4 are needed, and there are 3 of version "), "{said}");
}

#[test]
fn one_drive_more_than_the_limit_is_refused() {
    let mut written = written();
    let lost: Vec<usize> = [0, 2, 4].iter().map(|chunk| drive(0, *chunk)).collect();
    let cluster = written.open(Some(FIRST), &lost).unwrap();
    assert!(
        matches!(read(&cluster, PATH), Err(ImportError::DrivesAway { away, parity: 2 }) if away.len() == 3)
    );
    // Drives that were replaced by empty ones: they answer, and have nothing.
    written.change(|drives| lost.iter().for_each(|drive| drives[*drive].clear()));
    let (block, damage) = damage(&written);
    let Damage::TooFewChunks { versions, nothing, .. } = damage else { panic!("{damage}") };
    assert_eq!((block, versions[0].chunks, nothing), (0, 3, 3));
}

/// Two copies of different versions: nothing says which was the last.
#[test]
fn versions_that_nothing_tells_apart_are_refused() {
    let mut written = Geometry { data: 1, parity: 1, chunk_kib: 1, drives: 4, first: FIRST }.write(&["9"]);
    let key = data_key("Grid", b"00000000/9", BlockNumber(0));
    let place = Placement { drives: 4, first: FIRST };
    let DriveIndex(second) = place.drive(&key, 1);
    let other = Bytes::from_static(b"000000000900000000-0000-4000-8000-000000000000");
    let entry = written.drives[second][&key].clone();
    written.change(|drives| {
        drives[second].get_mut(&key).unwrap().version = other.clone();
    });
    let refused = read(&written.open(Some(FIRST), &[]).unwrap(), "00000000/9").unwrap_err();
    let ImportError::Block { damage: Damage::Ambiguous { versions }, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(versions.len(), 2);
    // A chunk that was handed off decides.
    written.change(|drives| {
        let handoff = handoff_key(&key, &entry.version, 1);
        drives[(second + 1) % 4].insert(handoff, entry);
    });
    let (bytes, report) = read(&written.open(Some(FIRST), &[]).unwrap(), "00000000/9").unwrap();
    assert!(bytes == written.bytes("00000000/9"));
    assert_eq!(report.handoffs, 1);
}

#[test]
fn a_key_without_chunks_is_said() {
    let mut written = written();
    let (beyond, stray) = (key(7), drive(7, 6));
    let entry = written.drives[drive(0, 0)][&key(0)].clone();
    written.change(|drives| drives[stray].insert(beyond, entry).map_or((), |_| ()));
    let cluster = written.open(Some(FIRST), &[]).unwrap();
    let refused = cluster.stat(PATH.as_bytes()).unwrap_err();
    assert_eq!(refused, ImportError::LastBlock { block: BlockNumber(7) });
    assert_eq!(cluster.stat(b"nowhere").unwrap_err(), ImportError::NoFile);
}

#[test]
fn a_version_of_something_else_is_damage() {
    let mut written = written();
    written.change(|drives| {
        for chunk in 0..6 {
            let entry = drives[drive(2, chunk)].get_mut(&key(2)).unwrap();
            entry.version = Bytes::from_static(b"crc failed");
        }
    });
    let refused = written.open(Some(FIRST), &[]).unwrap().stat(PATH.as_bytes()).unwrap_err();
    let ImportError::Block { damage: Damage::TooFewChunks { damaged, .. }, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(damaged, 6);
}

/// Without tags a file is read, and it is said that nothing was checked.
#[test]
fn what_has_no_tag_is_not_checked() {
    let mut written = written();
    written.change(|drives| {
        drives.iter_mut().flat_map(|drive| drive.values_mut()).for_each(|entry| entry.tag = Bytes::new());
    });
    let (bytes, report) = read(&written.open(None, &[]).unwrap(), PATH).unwrap();
    assert!(bytes == written.bytes(PATH));
    assert!(report.checked.unchecked > 0 && report.checked.crc32c == 0);
}

/// If stripes are on all drives and the copies of metadata too, nothing tells where they begin.
#[test]
fn placement_is_not_guessed() {
    let mut written = written();
    let with = |written: &Written| written.open(None, &[]).map(|cluster| cluster.first_drive());
    assert_eq!(with(&written), Ok(FIRST));
    let anywhere = metadata_key("Grid", b"anywhere");
    written.change(|drives| {
        for drive in drives {
            let entry = drive.values().next().cloned().unwrap_or_default();
            drive.clear();
            drive.insert(anywhere.clone(), entry);
        }
    });
    assert_eq!(with(&written), Err(ImportError::FirstDrive));
    assert_eq!(written.open(Some(FIRST), &[]).map(|cluster| cluster.first_drive()), Ok(FIRST));
}
