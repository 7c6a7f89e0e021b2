//! An archive that is closed ends at once.

use std::time::{Duration, Instant};

use crate::common::{Instance, bytes, path, put};
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
