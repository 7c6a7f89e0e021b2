//! What the worker ships, and what a restore makes of it: the newest point, a time, whatever a kill left.

use std::fs;

use backup::{OlderLines, PoolSeen, RestoreError, RestoreTo, newest_shipped, restore};
use base::{Clock, Duration, Uuid};

use crate::server::{INSTANCE, Instance, MAP};

/// Story: a snapshot is taken while writing goes on, so it is newer than the last segment. A kill at that
/// moment made the next start go on behind the snapshot: the changes between were shipped never, the line had
/// a gap for ever, and no restore succeeded any more, not even from another line.
#[test]
fn a_kill_between_snapshot_and_segment_leaves_no_gap() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("one");
    server.ship();
    for n in 0..3 {
        server.make(&format!("later{n}"));
        server.ship();
    }
    server.snapshot();
    server.close();
    let from = instance.from();
    let line = from.lines().unwrap().remove(0);
    // What the kill left: the newest snapshot, and not the segments that lead up to it.
    let segments = line.segments().unwrap();
    let newest = line.snapshots().unwrap().last().unwrap().0;
    let lost: Vec<_> = segments.iter().skip(1).collect();
    assert!(lost.iter().any(|segment| segment.first < newest), "{segments:?}");
    for segment in &lost {
        fs::remove_file(&segment.path).unwrap();
    }
    let middle = segments[1].first;
    let server = instance.start();
    server.make("after the kill");
    let end = server.ship();
    let before = server.close();
    let line = from.lines().unwrap().pop().unwrap();
    assert_eq!(line.number, 1);
    assert_eq!(line.segments().unwrap().last().unwrap().last, end);
    assert_eq!(instance.restored(RestoreTo::Change(middle)).unwrap().change, middle);
    instance.restored(RestoreTo::Newest).unwrap();
    assert_eq!(instance.tables(), before);
}

/// A crash may leave half a segment and half a snapshot; both have other names until they are whole.
#[test]
fn a_crash_while_shipping_leaves_a_usable_chain() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("one");
    server.ship();
    server.close();
    let line = instance.backup().join("line-0001");
    let half = line.join("segments/.new-00000000000000000099-00000000000000000100.kcl");
    fs::write(&half, b"KISTCHG1").unwrap();
    let half_snapshot = line.join("snapshots/.new-snapshot");
    fs::create_dir(&half_snapshot).unwrap();
    fs::write(half_snapshot.join("data.mdb"), b"half").unwrap();
    let server = instance.start();
    server.make("two");
    server.ship();
    server.snapshot();
    let before = server.close();
    assert!(!half.exists() && !half_snapshot.exists());
    assert_eq!(instance.restored(RestoreTo::Newest).unwrap().line, 1);
    assert_eq!(instance.tables(), before);
}

#[test]
fn pruning_keeps_the_window_whole() {
    let instance = Instance::new();
    let server = instance.start();
    let mut points = Vec::new();
    for n in 0..6 {
        server.make(&format!("f{n}"));
        points.push((server.ship(), server.tables()));
        server.snapshot();
    }
    server.close();
    let line = instance.from().lines().unwrap().remove(0);
    let oldest = line.snapshots().unwrap()[0].0;
    assert_eq!(line.snapshots().unwrap().len(), 3);
    assert!(line.segments().unwrap()[0].last > oldest, "segments that nobody needs are removed");
    let (mut whole, mut refused) = (0, 0);
    for (change, expected) in points {
        match instance.restored(RestoreTo::Change(change)) {
            Ok(_) => {
                assert_eq!(instance.tables(), expected);
                whole += 1;
            }
            Err(RestoreError::NothingFor { .. }) => {
                assert!(change < oldest);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(whole >= 2 && refused >= 2, "{whole} {refused}");
}

#[test]
fn restores_to_a_time() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("in the snapshot");
    server.ship();
    server.make("one");
    server.ship();
    let time = instance.clock.now();
    let before = server.tables();
    server.make("two");
    server.ship();
    server.close();
    let restored = instance.restored(RestoreTo::Time(time)).unwrap();
    assert!(restored.changed_at <= time);
    assert_eq!(instance.tables(), before);
}

/// What is dropped elsewhere counts on what the worker tells: it tells nothing before it has shipped.
#[test]
fn the_worker_tells_how_far_it_is_and_why_not() {
    let instance = Instance::new();
    let parent = instance.directory.path().join("not mounted");
    let server = instance.start_into(INSTANCE, parent.join("backup"));
    assert_eq!(server.reach.through(), Some(0), "there is a backup, and it has not told yet");
    server.worker.turn(true);
    let reason = server.worker.status().failing.unwrap();
    assert!(reason.contains("not mounted/backup"), "{reason}");
    assert_eq!((server.reach.through(), server.reach.counts()), (Some(0), false));
    fs::create_dir(&parent).unwrap();
    server.make("one");
    let change = server.ship();
    assert_eq!((server.reach.through(), server.reach.counts()), (Some(change), true));
    server.make("two");
    assert_eq!(server.reach.through(), Some(change), "what was made since is not shipped");
    server.close();
    assert_eq!(newest_shipped(&parent.join("backup"), INSTANCE).unwrap(), Some(change + 1));
    assert_eq!(newest_shipped(&instance.backup(), INSTANCE).unwrap(), None, "there is none");
    // The directory of another instance is left alone.
    let other = Instance::new();
    let server = other.start_into(Uuid([8; 16]), parent.join("backup"));
    server.worker.turn(true);
    let reason = server.worker.status().failing.unwrap();
    assert!(reason.contains("choose another directory"), "{reason}");
    assert_eq!(newest_shipped(&parent.join("backup"), INSTANCE).unwrap(), Some(change + 1));
}

/// The history that a restore gives up stays in its line, and the worker says so as long as it is there.
#[test]
fn a_restored_history_goes_on_in_a_line_of_its_own() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("one");
    let middle = server.ship();
    server.make("two");
    server.ship();
    assert_eq!(server.worker.older_lines().unwrap(), None);
    let given_up = server.close();
    fs::remove_dir_all(instance.catalogue()).unwrap();
    let accept = Some((PoolSeen::default(), instance.clock.now()));
    let to = RestoreTo::Change(middle);
    restore(&instance.from(), to, &instance.catalogue(), MAP, accept, &mut |_| {}).unwrap();
    let server = instance.start();
    server.make("another");
    server.ship();
    let oldest = instance.backup().join("line-0001");
    assert_eq!(server.worker.older_lines().unwrap(), Some(OlderLines { directories: vec![oldest], line: 2 }));
    // Story: the quarantine could not be ended while the directory of an older line was there, though nothing
    // was in it any more.
    let [segments, snapshots] =
        ["segments", "snapshots"].map(|part| instance.backup().join("line-0001").join(part));
    let [kept_segments, kept_snapshots] = ["a", "b"].map(|name| instance.backup().join(name));
    fs::rename(&segments, &kept_segments).unwrap();
    assert!(server.worker.older_lines().unwrap().is_some(), "its snapshots are there");
    fs::rename(&snapshots, &kept_snapshots).unwrap();
    assert_eq!(server.worker.older_lines().unwrap(), None);
    fs::create_dir(&snapshots).unwrap();
    assert_eq!(server.worker.older_lines().unwrap(), None);
    fs::rename(&kept_segments, &segments).unwrap();
    assert!(server.worker.older_lines().unwrap().is_some(), "its segments are there");
    fs::remove_dir(&snapshots).unwrap();
    fs::rename(&kept_snapshots, &snapshots).unwrap();
    let before = server.close();
    assert_eq!(instance.restored(RestoreTo::Newest).unwrap().line, 2);
    assert_eq!(instance.tables(), before);
    let newest = instance.from().lines().unwrap().remove(0).segments().unwrap().pop().unwrap().last;
    assert_eq!(instance.restored(RestoreTo::Change(newest)).unwrap().line, 1);
    assert_eq!(instance.tables(), given_up);
}

/// The thread ships what comes while it runs, and ends when it is stopped.
#[test]
fn the_thread_ships_until_it_is_stopped() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("one");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.worker.run());
        let asked = server.worker.ask();
        let begun = std::time::Instant::now();
        while server.worker.status().answered < asked {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", server.worker.status());
            std::thread::yield_now();
        }
        server.worker.stop();
        thread.join().unwrap();
    });
    let status = server.worker.status();
    assert_eq!((status.failing, status.shipped), (None, status.change));
}
