//! The index partition, which other LTFS programs read first.

use std::collections::BTreeSet;

use crate::common::{all, bytes, migrate_all, put, stage, wait_for, wait_until};
use crate::faulty::{Trouble, check_all, place, vid};
use base::{BlockAddress, Partition, TapePosition};
use catalogue::TapeState;

fn on_index(block: u64) -> TapePosition {
    TapePosition { partition: Partition::Index, block: BlockAddress(block) }
}

/// The index partition cannot be written: the tape is kept for reading, its copies count, and nobody tries to
/// write it whenever something is read from it. Story: each such attempt made it suspect, so that it could
/// not be read, until it was set aside for good.
#[test]
fn a_tape_whose_index_partition_cannot_be_written_stays_readable() {
    let trouble = Trouble::new(1);
    let (archive, faults) = trouble.open();
    // Behind the index of the labelling.
    (7..60).for_each(|block| faults.plan_write_error(vid(1), on_index(block)));
    let files = vec![("/t/large".to_owned(), bytes(1, 4_000_000))];
    put(&archive, &files[0].0, &files[0].1);
    migrate_all(&archive);
    wait_until("its session is given up", || archive.tape(vid(1)).unwrap().state == TapeState::ReadOnly);
    let tape = archive.tape(vid(1)).unwrap();
    assert!(tape.reason.contains("a torn session could not be closed"), "{}", tape.reason);
    let on: BTreeSet<_> = place(&archive, "/t/large").into_iter().map(|(vid, _)| vid).collect();
    assert!(on.contains(&vid(1)) && on.len() == 2, "its copies count: {on:?}");
    let fired = faults.fired();
    assert!(fired > 0);
    let other = on.into_iter().find(|other| *other != vid(1)).unwrap();
    archive.set_tape(other, archive::TapeUse::Disabled, "so that the first one is read").unwrap();
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.refused_count, 0, "{:?}", evicted.refused);
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    check_all(&archive, &files);
    wait_until("it is unmounted", || archive.tape_drives().iter().all(|drive| drive.state == "empty"));
    archive.close();
    assert_eq!(faults.fired(), fired, "nothing was written to it");
    drop(archive);
    let (archive, _) = trouble.open();
    assert_eq!(archive.tape(vid(1)).unwrap().state, TapeState::ReadOnly);
    archive.close();
}
