//! Instances that write bases of their catalogue often, and what their log must keep.

#![allow(dead_code)]

use std::fs;

use archive::{Archive, ChangeLogInfo, ChangeLogSettings, LogKept, Settings};
use base::{Crc32c, Crc64, Duration, Vid};
use ltfs::catalogue_base::{BasePart, BaseRow};

use crate::common::{Instance, bytes, migrate_all, path, put, wait_until};
use crate::faulty::{Trouble, data};
use crate::restoring;

/// Bases whenever a few changes were made; nothing is kept for its age.
pub fn often(settings: &mut Settings) {
    settings.change_log = ChangeLogSettings {
        base_changes: 60,
        base_log_percent: 0,
        keep_changes: 20,
        keep_age: Duration::ZERO,
    };
}

/// As [`often`], and nothing goes to tape without being asked for.
pub fn often_at_rest(settings: &mut Settings) {
    often(settings);
    restoring::at_rest(settings);
}

/// As [`often_at_rest`], and everything stays in the log.
pub fn kept(settings: &mut Settings) {
    often_at_rest(settings);
    settings.change_log.keep_changes = u64::MAX;
}

/// Makes so many changes.
pub fn changes(archive: &Archive, name: &str, count: u64) {
    for n in 0..count {
        put(archive, &format!("/{name}/f{n:04}"), &bytes(n + 1, 90));
    }
}

/// Waits until the sweeper has gone round, which looks at the log after it has removed garbage.
pub fn swept(archive: &Archive) {
    for round in ["/swept1", "/swept2"] {
        put(archive, round, &bytes(3, 3_000_000));
        archive.remove(&path(round)).unwrap();
        wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
    }
}

/// Migrates until the tapes of all pools have a base behind `change`.
pub fn base_behind(archive: &Archive, change: u64) -> ChangeLogInfo {
    migrate_all(archive);
    let mut waiting = std::time::Instant::now();
    wait_until("the bases are recorded", || {
        let is_behind = archive.change_log().unwrap().base >= change;
        // One that was made just before `change`, since it was overdue, leaves none due: further changes do.
        if !is_behind && waiting.elapsed() > std::time::Duration::from_secs(5) {
            for _ in 0..150 {
                put(archive, "/further", &bytes(1, 90));
                archive.remove(&path("/further")).unwrap();
            }
            waiting = std::time::Instant::now();
        }
        is_behind
    });
    archive.change_log().unwrap()
}

/// Changes that bring nothing to tape.
pub fn changes_of_names(archive: &Archive, from: &str, count: u64) {
    for n in 0..count {
        let (odd, even) = (path(&format!("{from}.odd")), path(from));
        let (from, to) = if n.is_multiple_of(2) { (&even, &odd) } else { (&odd, &even) };
        archive.rename(from, to, false).unwrap();
    }
}

/// A frame of a virtual cartridge: bytes of its header, and where that has the length and the checksum of the
/// payload and its own.
const FRAME: usize = 64;
const FRAME_LENGTH: usize = 8;
const FRAME_CRC: usize = 12;
const FRAME_OWN_CRC: usize = 60;

/// Puts a copy of one row of a base in the place of another one of the same table: all checksums of the tape,
/// the part and the row are right, and a row is lost.
pub fn lose_a_row(instance: &Instance, vid: Vid, change: u64) {
    let mut lost = 0;
    for file in fs::read_dir(instance.cartridge(vid)).unwrap() {
        let file = file.unwrap().path();
        let mut content = fs::read(&file).unwrap();
        let mut places: Vec<usize> = memchr::memmem::find_iter(&content, b"KISTBAS1").collect();
        places.retain(|at| content[at + 32..at + 40] == change.to_le_bytes());
        for at in places {
            // The part is cut into frames.
            let u32_at = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
            let body = u64::from_le_bytes(content[at + 56..at + 64].try_into().unwrap()) as usize;
            let (mut part, mut frames, mut frame) = (Vec::new(), Vec::new(), at - FRAME);
            while part.len() < 72 + body + 8 {
                let length = u32_at(frame + FRAME_LENGTH);
                part.extend_from_slice(&content[frame + FRAME..frame + FRAME + length]);
                frames.push((frame, length));
                frame = (frame + FRAME + length).next_multiple_of(8);
            }
            let Some((from, to, length)) = two_rows(&part) else { continue };
            part.copy_within(from..from + length, to);
            let end = part.len() - 8;
            let crc = Crc64::of(&part[..end]).0.to_le_bytes();
            part[end..].copy_from_slice(&crc);
            assert!(BasePart::parse(&part).is_ok(), "the part seems to be whole");
            let mut rest = part.as_slice();
            for (frame, length) in frames {
                let (payload, behind) = rest.split_at(length);
                rest = behind;
                content[frame + FRAME..frame + FRAME + length].copy_from_slice(payload);
                let crc = Crc32c::of(payload).0.to_le_bytes();
                content[frame + FRAME_CRC..frame + FRAME_CRC + 4].copy_from_slice(&crc);
                let own = Crc32c::of(&content[frame..frame + FRAME_OWN_CRC]).0.to_le_bytes();
                content[frame + FRAME_OWN_CRC..frame + FRAME].copy_from_slice(&own);
            }
            lost += 1;
        }
        fs::write(&file, content).unwrap();
    }
    assert!(lost > 0, "tape {vid} has the base at {change}");
}

/// Where two rows of one table stand in a part, and their length, which is the same.
fn two_rows(part: &[u8]) -> Option<(usize, usize, usize)> {
    let read = BasePart::parse(part).unwrap();
    let length = |row: &BaseRow<'_>| 7 + row.key.len() + row.value.len();
    let mut at = 72;
    for rows in read.rows.windows(2) {
        let (a, b) = (&rows[0], &rows[1]);
        let next = at + length(a);
        if a.table == b.table && a.key.len() == b.key.len() && length(a) == length(b) {
            return Some((at, next, length(a)));
        }
        at = next;
    }
    None
}

/// Nothing goes to tape, and the log is all that there is: none of it may go.
pub fn the_log_stays_without_a_base() {
    let instance = Instance::with(base::ByteCount::mib(64), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 300);
    swept(&archive);
    let log = archive.change_log().unwrap();
    assert_eq!((log.first, log.base), (1, 0), "{log:?}");
    assert!(log.changes > 300 && log.last == log.changes, "{log:?}");
    archive.close();
}

/// Story: a base counted as soon as it was written. One that no drive could read had the log trimmed.
pub fn the_log_stays_if_no_base_can_be_read_back() {
    let trouble = Trouble::with(2, std::time::Duration::from_millis(200), often_at_rest);
    let (archive, faults) = trouble.open();
    changes(&archive, "a", 10);
    migrate_all(&archive);
    wait_until("the tapes are unmounted", || archive.tapes().unwrap().iter().all(|it| it.drive.is_none()));
    for tape in archive.tapes().unwrap().iter().filter(|tape| tape.containers > 0) {
        (0..200).for_each(|n| faults.plan_unreadable(tape.vid, data(tape.end_of_data.0 + n)));
    }
    changes(&archive, "b", 300);
    migrate_all(&archive);
    wait_until("the tapes are unmounted", || archive.tapes().unwrap().iter().all(|it| it.drive.is_none()));
    swept(&archive);
    let log = archive.change_log().unwrap();
    assert_eq!((log.first, log.base), (1, 0), "{log:?}");
    assert!(matches!(log.kept, LogKept::NoBase { .. }), "{log:?}");
    assert!(faults.fired() > 0, "a base was read back");
    archive.close();
}
