//! Instances that write bases of their catalogue often, and what their log must keep.

#![allow(dead_code)]

use archive::{Archive, ChangeLogInfo, ChangeLogSettings, Settings};
use base::Duration;

use crate::common::{Instance, bytes, migrate_all, path, put, wait_until};
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
    wait_until("the bases are recorded", || archive.change_log().unwrap().base >= change);
    archive.change_log().unwrap()
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
