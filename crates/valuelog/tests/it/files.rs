//! Directories, files of fixed size, and what the operating system does with them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use base::{ByteCount, Uuid};
use drive::DirectIo;
use valuelog::{Durability, FormatError, Layout, OpenError, Place, Settings, ValueLog};

use crate::disk::{STORE, layout, settings};
use crate::history::{put, show_all};

const ROOM: ByteCount = ByteCount::mib(12);

fn small() -> Layout {
    layout(1 << 20, 256 << 10)
}

/// A directory and a file, on the file system of temporary files and in memory.
fn places(directory: &std::path::Path) -> [Place; 2] {
    let raw = directory.join("raw");
    File::create(&raw).unwrap().set_len(ROOM.0 + (2 << 20)).unwrap();
    [Place::Directory(directory.join("directory")), Place::Raw(raw)]
}

fn above() -> Vec<tempfile::TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    let mut above = vec![tempfile::tempdir().unwrap()];
    above.extend(memory.exists().then(|| tempfile::tempdir_in(memory).unwrap()));
    above
}

#[test]
fn both_places_hold_the_same() {
    for above in above() {
        for place in places(above.path()) {
            for direct in [DirectIo::Auto, DirectIo::Off] {
                ValueLog::format(&place, STORE, small(), Some(ROOM), true).unwrap();
                assert_eq!(ValueLog::identify(&place).unwrap(), STORE);
                let settings = Settings { direct, background: true, ..settings() };
                let mut log = ValueLog::open(&place, Some(STORE), settings).unwrap();
                let mut cleaned = 0;
                for round in 0..3 {
                    for number in 0..60u32 {
                        let length = [10, 5_000, 40_000, 262_144, 100_001][number as usize % 5];
                        let value: Vec<u8> = (0..length).map(|at| (at * 3 + number + round) as u8).collect();
                        let durability = if number % 9 == 0 { Durability::Through } else { Durability::Back };
                        // Aligned or not, as callers have it.
                        let skip = (number as usize % 3).min(value.len());
                        log.put(&put(&number.to_be_bytes()[2..], &value[skip..]), durability).unwrap();
                    }
                    let shown = show_all(&log);
                    cleaned += log.figures().cleaned.0;
                    if round == 1 {
                        log.close().unwrap();
                    } else {
                        drop(log);
                    }
                    log = ValueLog::open(&place, Some(STORE), settings).unwrap();
                    assert!(show_all(&log) == shown, "{place:?}, {direct:?}, round {round}");
                    for (key, value) in shown.iter().filter(|(_, value)| value.len() > 70_000) {
                        let part = log.get_part(key, ByteCount(65_000), ByteCount(5_000)).unwrap();
                        assert_eq!(&*part.value, &value[65_000..70_000]);
                    }
                }
                assert!(cleaned > 0, "nothing was cleaned");
            }
        }
    }
}

#[test]
fn one_opens_it() {
    let above = tempfile::tempdir().unwrap();
    for place in places(above.path()) {
        ValueLog::format(&place, STORE, small(), Some(ROOM), false).unwrap();
        let log = ValueLog::open(&place, None, settings()).unwrap();
        assert!(matches!(ValueLog::open(&place, None, settings()), Err(OpenError::Locked(_))));
        assert!(matches!(ValueLog::identify(&place), Err(OpenError::Locked(_))));
        let again = ValueLog::format(&place, STORE, small(), Some(ROOM), true);
        assert!(matches!(again, Err(FormatError::Locked(_))), "{again:?}");
        drop(log);
        let other = ValueLog::open(&place, Some(Uuid([1; 16])), settings());
        assert!(matches!(other, Err(OpenError::OtherStore { .. })));
        assert!(ValueLog::open(&place, Some(STORE), settings()).is_ok());
    }
}

#[test]
fn what_stands_there_is_not_overwritten_unasked() {
    let above = tempfile::tempdir().unwrap();
    for place in places(above.path()) {
        let format = |replace| ValueLog::format(&place, STORE, small(), Some(ROOM), replace);
        assert!(matches!(ValueLog::open(&place, None, settings()), Err(OpenError::NotAStore(_))));
        format(false).unwrap();
        assert!(matches!(format(false), Err(FormatError::NotEmpty(_))));
        format(true).unwrap();
    }
    let strange = above.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("thesis.tex"), "x").unwrap();
    let place = Place::Directory(strange);
    let made = ValueLog::format(&place, STORE, small(), Some(ROOM), false);
    assert!(matches!(made, Err(FormatError::NotEmpty(_))));
    let tiny = Place::Directory(above.path().join("tiny"));
    let made = ValueLog::format(&tiny, STORE, small(), Some(ByteCount::mib(5)), false);
    assert!(matches!(made, Err(FormatError::Room { least: 6, .. })), "{made:?}");
    ValueLog::format(&tiny, STORE, small(), Some(ByteCount::mib(6)), false).unwrap();
}

#[test]
fn a_file_that_has_become_shorter_is_refused() {
    let above = tempfile::tempdir().unwrap();
    let [_, place] = places(above.path());
    ValueLog::format(&place, STORE, small(), None, false).unwrap();
    let file = File::options().write(true).open(place.path()).unwrap();
    file.set_len(4 << 20).unwrap();
    assert!(matches!(ValueLog::open(&place, None, settings()), Err(OpenError::Shrunk { .. })));
    file.write_all_at(&[0; 4096], 0).unwrap();
    assert!(matches!(ValueLog::open(&place, None, settings()), Err(OpenError::NotAStore(_))));
}

/// Segments get their files, with all their room, when they are first needed.
#[test]
fn files_of_segments_have_their_room() {
    let above = tempfile::tempdir().unwrap();
    let [place, _] = places(above.path());
    ValueLog::format(&place, STORE, small(), Some(ByteCount::mib(40)), false).unwrap();
    let segments = || fs::read_dir(place.path().join("segments")).unwrap().count();
    let log = ValueLog::open(&place, None, settings()).unwrap();
    assert_eq!(segments(), 0);
    log.put(&put(b"k", b"v"), Durability::Through).unwrap();
    assert_eq!(segments(), 16);
    let first = fs::metadata(place.path().join("segments/00000000")).unwrap();
    assert_eq!(first.len(), 1 << 20);
    log.close().unwrap();
    // A file that somebody has removed is damage and no store without it.
    fs::remove_file(place.path().join("segments/00000000")).unwrap();
    let log = ValueLog::open(&place, None, settings()).unwrap();
    assert!(!log.recovery().damage.is_empty());
}
