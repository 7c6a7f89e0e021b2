//! Further copies of segments.

use std::fs;
use std::sync::atomic::Ordering;

use base::{BlobDescription, BlobId, BlobPiece, ByteCount, Layout, StripeSet};
use pool::{Copied, PoolConfig, PoolError};

use super::common::{Bench, bytes, distinct, flip, small_cells};

type Stored = (BlobDescription, BlobPiece);

fn with_copies(copies: u8) -> PoolConfig {
    PoolConfig { segment_copies: copies, ..small_cells() }
}

/// Small values in one sealed segment of three copies.
fn stored(bench: &mut Bench) -> (Vec<Stored>, Vec<Vec<u8>>) {
    let pool = bench.open(with_copies(3), &[]);
    let values: Vec<Vec<u8>> = (0..40).map(|n| bytes(300 + 997 * n, n as u64)).collect();
    let stored: Vec<Stored> = values.iter().map(|value| pool.put_small(value).unwrap()).collect();
    assert!(stored.iter().all(|(blob, _)| *blob == stored[0].0));
    pool.close();
    (stored, values)
}

fn copied(blob: &BlobDescription, to: StripeSet) -> BlobDescription {
    let layout = Layout::Segment { copies: to.drives.len() as u8 };
    BlobDescription { layout, stripes: vec![to], ..blob.clone() }
}

/// Each value can be read with the further copies alone; those that there were stay where they are.
#[test]
fn a_segment_gets_the_copies_that_it_lacks() {
    let mut bench = Bench::new(8);
    let (stored, values) = stored(&mut bench);
    let old = stored[0].0.clone();
    // One copy is damaged, in the first value: the new ones get it from the others.
    flip(&bench.extent(&old, 0, 1), 200, 3);
    let known = old.stripes.clone();
    let pool = bench.open_with(with_copies(5), &[], known).unwrap();
    assert!(pool.lacks_copies(old.layout));
    let Copied { to, failure, .. } = pool.add_copies(&old, &mut |_| true).unwrap();
    assert_eq!(failure, None);
    assert!(distinct(&to) && to.drives.len() == 5 && to.drives.starts_with(&old.stripes[0].drives));
    let anew = copied(&old, to);
    assert!(!pool.lacks_copies(anew.layout));
    (0..3).for_each(|copy| fs::remove_file(bench.extent(&anew, 0, copy)).unwrap());
    for ((_, piece), value) in stored.iter().zip(&values) {
        assert!(*pool.read_small(&anew, piece).unwrap() == *value);
    }
    fs::remove_file(bench.extent(&anew, 0, 3)).unwrap();
    assert!(*pool.read_small(&anew, &stored[7].1).unwrap() == values[7]);
}

/// What may be in the copy of a drive that does not answer alone is not passed by, and neither is a drive
/// that failed while its copy was written.
#[test]
fn a_segment_is_not_copied_by_half() {
    let mut bench = Bench::new(8);
    let (stored, values) = stored(&mut bench);
    let old = stored[0].0.clone();
    let pool = bench.open_with(with_copies(4), &[], old.stripes.clone()).unwrap();
    let to = pool.add_copies(&old, &mut |_| true).unwrap().to;
    let last = &bench.faults[usize::from(to.drives[3].0)];
    last.fail_append(0, true);
    let failed = pool.add_copies(&old, &mut |_| true).unwrap();
    assert!(failed.failure.is_some() && last.fired() > 0, "{failed:?}");
    drop(pool);
    let away = old.stripes[0].drives[0].0;
    flip(&bench.extent(&old, 0, 1), 200, 3);
    flip(&bench.extent(&old, 0, 2), 200, 3);
    let pool = bench.open_with(with_copies(4), &[away], old.stripes.clone()).unwrap();
    let failed = pool.add_copies(&old, &mut |_| true).unwrap();
    assert!(failed.failure.is_some(), "its first value may be whole there");
    assert!(pool.add_copies(&old, &mut |_| false).unwrap().failure.is_some(), "broken off");
    drop(pool);
    let pool = bench.open_with(with_copies(4), &[], old.stripes.clone()).unwrap();
    let whole = pool.add_copies(&old, &mut |_| true).unwrap();
    assert_eq!(whole.failure, None);
    let anew = copied(&old, whole.to);
    (0..3).for_each(|copy| fs::remove_file(bench.extent(&anew, 0, copy)).unwrap());
    assert!(*pool.read_small(&anew, &stored[0].1).unwrap() == values[0]);
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let mut bench = Bench::new(4);
    let pool = bench.open(with_copies(3), &[]);
    let (open, _) = pool.put_small(b"small").unwrap();
    drop(pool);
    let pool = bench.open_with(with_copies(5), &[], open.stripes.clone()).unwrap();
    assert!(matches!(pool.add_copies(&open, &mut |_| true), Err(PoolError::Placement(_))), "four drives");
    drop(pool);
    let pool = bench.open_with(with_copies(3), &[], open.stripes.clone()).unwrap();
    let (open, _) = pool.put_small(b"small").unwrap();
    assert!(matches!(pool.add_copies(&open, &mut |_| true), Err(PoolError::SegmentOpen(_))));
    let striped = BlobDescription {
        id: BlobId(1),
        layout: Layout::Striped { code: small_cells().code },
        length: ByteCount(9),
        ..open
    };
    assert!(matches!(pool.add_copies(&striped, &mut |_| true), Err(PoolError::Description(_))));
    assert_eq!(bench.faults[0].fired.load(Ordering::SeqCst), 0);
}
