//! What is whole, or as degraded as it may be.

use kineticio::FirstDrive::{self, AfterHash, Hash};

use crate::written::{Count, Geometry, SIZES, Written, is_whole, list, read, sets};

fn geometry(data: usize, parity: usize, chunk_kib: usize, drives: usize, first: FirstDrive) -> Geometry {
    Geometry { data, parity, chunk_kib, drives, first }
}

/// Everything is listed and read, with all drives there.
fn check_all(written: &Written, first: FirstDrive) {
    let cluster = written.open(None, &[]).unwrap();
    if written.definition.drives.len() > written.definition.shape.parity() + 1 {
        assert_eq!(cluster.first_drive(), first);
    }
    let mut paths: Vec<&str> = written.files.iter().map(|(path, _)| path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(list(&cluster), paths);
    for (path, bytes) in &written.files {
        let (came, report) = read(&cluster, path).unwrap();
        assert!(came == *bytes, "{path}");
        assert_eq!((report.checked.unchecked, report.checked.crc32, report.damaged), (0, 0, 0), "{path}");
        assert_eq!(report.hole_bytes > 0, path == "sparse", "{path}");
        assert_eq!(report.checked.crc32c == 0, bytes.is_empty(), "{path}");
        let attributes = cluster.attributes(path.as_bytes()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let came: Vec<_> = attributes.iter().map(|(n, v)| (path.clone(), text(n), text(v))).collect();
        let expected = written.attributes.iter().filter(|(of, ..)| of == path).cloned();
        assert_eq!(came, expected.collect::<Vec<_>>());
    }
    // Only copies need stand-ins while no drive is away: of stripes a majority of the chunks is there. With
    // two drives the stand-in is on the other one, which has the other copy.
    let handed_off = read(&cluster, "handed-off").unwrap().1;
    let is_copies = written.definition.shape.data(kineticio::Redundancy::Coded) == 1;
    if written.definition.drives.len() > 2 {
        assert_eq!(handed_off.handoffs > 0, is_copies);
    }
}

/// Every set of drives that may be missing, and one drive more.
fn check_missing(written: &Written, first: FirstDrive, is_bare: bool) {
    let (count, parity) = (written.definition.drives.len(), written.definition.shape.parity());
    let chunks = written.definition.shape.chunks(kineticio::Redundancy::Coded);
    let spare = count >= chunks + parity;
    let (rebuilt, handed_off) = (Count::default(), Count::default());
    for away in sets(count, parity) {
        let cluster = written.open(Some(first), &away).unwrap();
        for (path, bytes) in &written.files {
            let is_handed_off = path.starts_with("handed-off") && spare;
            if is_whole(path) || is_handed_off {
                let (came, report) = read(&cluster, path).unwrap_or_else(|e| panic!("{path} {away:?}: {e}"));
                assert!(came == *bytes, "{path} without {away:?}");
                if report.rebuilt > 0 {
                    rebuilt.add();
                }
                if report.handoffs > 0 {
                    handed_off.add();
                }
            }
        }
        if !is_bare {
            assert_eq!(list(&cluster).len(), written.files.len());
        }
    }
    assert!(handed_off.get() > 0 || !spare, "no stand-in was ever read");
    assert!(rebuilt.get() > 0 || chunks == parity + 1, "nothing was ever decoded");
}

#[test]
fn copies() {
    for (drives, first) in [(2, Hash), (2, AfterHash), (3, Hash), (5, AfterHash)] {
        for chunk_kib in [1, 64] {
            let written = geometry(1, 1, chunk_kib, drives, first).write(&SIZES);
            check_all(&written, first);
            check_missing(&written, first, false);
        }
    }
}

#[test]
fn four_and_two() {
    for (chunk_kib, drives, first) in [(1, 6, AfterHash), (1, 9, Hash), (64, 8, AfterHash), (64, 6, Hash)] {
        let written = geometry(4, 2, chunk_kib, drives, first).write(&SIZES);
        check_all(&written, first);
        check_missing(&written, first, false);
    }
}

#[test]
fn sixteen_and_four() {
    let written = geometry(16, 4, 1, 20, AfterHash).write(&["1", "1b-1", "1b+1"]);
    check_all(&written, AfterHash);
    check_missing(&written, AfterHash, true);
    let written = geometry(16, 4, 64, 24, Hash).write(&["0", "1b", "2b+1"]);
    check_all(&written, Hash);
}

#[test]
fn chunks_of_a_mebibyte() {
    let written = geometry(4, 2, 1024, 8, AfterHash).write(&["1b", "1b+1"]);
    check_all(&written, AfterHash);
    let cluster = written.open(None, &[2, 5]).unwrap();
    assert!(read(&cluster, "00000000/1b+1").unwrap().0 == written.bytes("00000000/1b+1"));
    let written = geometry(16, 4, 1024, 20, Hash).write(&["1b+1"]);
    let cluster = written.open(None, &[0, 7, 8, 19]).unwrap();
    assert!(read(&cluster, "00000000/1b+1").unwrap().0 == written.bytes("00000000/1b+1"));
}
