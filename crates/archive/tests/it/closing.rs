//! The threads of an archive, and that it ends at once when it is closed.

use std::time::{Duration, Instant};

use crate::common::{Instance, bytes, path, put, wait_until};
use base::ByteCount;

/// Closing sometimes took ten seconds. The sweeper waits for readers of what it is about to remove, and that
/// wait heard the one ring that told it to end; it then slept until its next turn.
#[test]
fn a_sweeper_that_waits_for_readers_does_not_keep_the_end_waiting() {
    for _ in 0..3 {
        let instance = Instance::new(ByteCount::mib(64));
        let archive = instance.open();
        put(&archive, "/read", &bytes(1, 100_000));
        let reader = archive.open_read(&path("/read")).unwrap();
        archive.remove(&path("/read")).unwrap();
        // Meanwhile the sweeper comes to what the reader holds.
        for n in 0..20 {
            put(&archive, "/other", &bytes(n, 1_000));
        }
        let begin = Instant::now();
        archive.close();
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        drop(reader);
    }
}

/// Each thread tells what it does, and none is left when the archive is closed.
#[test]
fn every_thread_tells_what_it_does_until_the_end() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let doing = |name: &str| {
        let threads = archive.totals().unwrap().threads;
        threads.into_iter().find(|thread| thread.name == name).map(|thread| thread.doing)
    };
    for name in ["small-puts", "small-repeats", "conductor", "sealer", "sweeper", "lifecycle", "inventory"] {
        wait_until(name, || doing(name) == Some("waiting"));
    }
    wait_until("the scrubber", || doing("scrubber").is_some());
    wait_until("the end of what the last stop broke off", || doing("resume") == Some("ended"));
    let drives = archive.tape_drives();
    assert!(
        !drives.is_empty() && drives.iter().all(|drive| doing(&format!("tape-{}", drive.name)).is_some())
    );
    // Nobody has removed a tree yet.
    assert_eq!(doing("trees"), None);
    archive.close();
    assert_eq!(archive.totals().unwrap().threads, []);
}
