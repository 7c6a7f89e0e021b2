//! The log on a file system without room.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration as StdDuration, Instant};

use super::tests::{Still, entry, read};
use super::*;

/// A file system of its own, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with a word about it, where mounting is not allowed.
    fn mount(at: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(at));
        }
        eprintln!("skipped: this machine does not let the test mount a file system");
        None
    }

    fn fill(&self) -> PathBuf {
        let path = self.0.join("other");
        let mut other = std::fs::File::create(&path).unwrap();
        assert!(io::copy(&mut io::repeat(7), &mut other).is_err());
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn wait_for(audit: &Audit, room: Room) {
    let begin = Instant::now();
    while audit.room() != room {
        assert!(begin.elapsed() < StdDuration::from_secs(60), "{:?} and not {room:?}", audit.room());
        std::thread::yield_now();
    }
}

/// Found by filling the disk of a server: changes waited for the log without an end, after they were made.
#[test]
fn a_full_log_says_so_before_it_has_no_room_and_goes_on_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path().join("disk"), "8m") else { return };
    let audit = Audit::open(&disk.0, Arc::new(Still)).unwrap();
    let other = disk.fill();
    let mut written = Vec::new();
    let mut fill_to = |room: Room| {
        for n in 0.. {
            written.push(format!("/{room:?}/{n}/{}", "x".repeat(4000)));
            audit.record(entry(written.last().unwrap()));
            audit.flush();
            if audit.room() == room {
                break;
            }
            assert!(n < 1000, "the log never fills");
        }
    };
    fill_to(Room::Reserve);
    fill_to(Room::None);
    // What was under way still finds its place, and nobody waits; refusals are counted.
    for n in 0..20 {
        written.push(format!("/under way/{n}"));
        audit.record(entry(written.last().unwrap()));
    }
    audit.flush();
    let refusals = AUDIT_QUEUE_MAX + 10;
    for _ in 0..refusals {
        audit.record(AuditEntry { outcome: Outcome::Refused, ..entry("/no") });
    }
    std::fs::remove_file(other).unwrap();
    wait_for(&audit, Room::Enough);
    written.push("/after".to_owned());
    audit.record(entry("/after"));
    audit.close();
    let (mut found, summary) = read(&disk.0).unwrap();
    assert_eq!(found.iter().filter(|what| *what == "refusals").count(), 1);
    found.retain(|what| what != "refusals");
    assert!(found == written && summary.is_complete);
}

/// A line that finds no room at all waits for it, and its caller does not.
#[test]
fn lines_without_room_wait_and_their_callers_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path().join("disk"), "1m") else { return };
    let audit = Audit::open(&disk.0, Arc::new(Still)).unwrap();
    assert_eq!(audit.room(), Room::None, "too small for what must be left");
    let other = disk.fill();
    let names: Vec<String> = (0..300).map(|n| format!("/{n}/{}", "x".repeat(4000))).collect();
    names.iter().for_each(|name| audit.record(entry(name)));
    wait_for(&audit, Room::None);
    std::fs::remove_file(other).unwrap();
    let mut options = Command::new("mount");
    let larger = options.args(["-o", "remount,size=16m"]).arg(&disk.0).status().unwrap();
    assert!(larger.success());
    wait_for(&audit, Room::Enough);
    audit.close();
    assert_eq!(read(&disk.0).unwrap().0, names);
}
