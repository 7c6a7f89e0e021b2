//! What small values leave when they are deleted beside others.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use super::common::{Bench, bytes, flip, small_cells};
use base::{BlobDescription, BlobPiece};
use drive::{PAGE, SECTOR};
use pool::{BadShard, Pool, PoolConfig, Unneeded};

/// Values of a kilobyte in one sealed segment: three to a page, most of them in two pages.
struct Stored {
    bench: Bench,
    pool: Arc<Pool>,
    blob: BlobDescription,
    pieces: Vec<BlobPiece>,
    values: Vec<Vec<u8>>,
    known: Unneeded,
}

fn config() -> PoolConfig {
    PoolConfig { segment_size: base::ByteCount::mib(4), ..small_cells() }
}

impl Stored {
    fn new(count: usize) -> Self {
        let mut bench = Bench::new(6);
        let pool = bench.open(config(), &[]);
        let values: Vec<Vec<u8>> = (0..count).map(|n| bytes(1_000 + n % 50, n as u64)).collect();
        let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let stored: Vec<_> = pool.put_small_all(&slices).into_iter().map(Result::unwrap).collect();
        pool.seal_segments();
        let blob = stored[0].0.clone();
        assert!(stored.iter().all(|(it, _)| it.id == blob.id), "one segment");
        let pieces = stored.into_iter().map(|(_, piece)| piece).collect();
        Stored { bench, pool, blob, pieces, values, known: Unneeded::new() }
    }

    /// Deletes values as the sweeper does, and remembers what it does.
    fn delete(&mut self, gone: impl Iterator<Item = usize>) -> u64 {
        let gone: Vec<BlobPiece> = gone.map(|n| self.pieces[n]).collect();
        let back = self.pool.give_back(&self.blob, &gone, &self.known);
        assert!(back.failure.is_none(), "{:?}", back.failure);
        self.known.extend(back.pages);
        back.bytes.0
    }

    fn check(&self, kept: impl Iterator<Item = usize>) {
        for n in kept {
            let value = self.pool.read_small(&self.blob, &self.pieces[n]);
            assert!(*value.unwrap() == *self.values[n], "value {n}");
        }
    }

    /// Bytes of each copy that are not in a hole.
    fn allocated(&self) -> Vec<u64> {
        (0..3)
            .map(|copy| fs::metadata(self.bench.extent(&self.blob, 0, copy)).unwrap().blocks() * 512)
            .collect()
    }
}

/// Story: 100,000 small files were deleted but for ten, and the pool had 769 MB for 10.8 kB of them until the
/// last one of each segment went: a value shares its pages with others, and only whole pages of one value
/// were given back.
#[test]
fn a_page_goes_with_its_last_value_whatever_the_order() {
    let count = 1_200;
    let mut stored = Stored::new(count);
    let before = stored.allocated();
    let kept = |n: usize| n % 400 == 7;
    // In three rounds, so that most pages lose their values one after the other.
    let mut given_back = 0;
    for round in 0..3 {
        given_back += stored.delete((0..count).filter(|n| n % 3 == round && !kept(*n)));
        stored.check((0..count).filter(|n| n % 3 > round || kept(*n)));
    }
    let after = stored.allocated();
    for (before, after) in before.iter().zip(&after) {
        // The holes of a file take a block of ext4's own.
        let own = (after + given_back).saturating_sub(*before);
        assert!(own == 0 || own == PAGE as u64, "{before} bytes, then {after}, {given_back} given back");
        // A kept value has one or two pages; there is a footer for all.
        let footer = (count * 8 + 64).next_multiple_of(PAGE) as u64;
        assert!(after - own <= 3 * 2 * PAGE as u64 + footer, "{after} bytes for three values");
    }
    stored.check((0..count).filter(|n| kept(*n)));
    // A repeat does no harm, whatever was remembered of the pages.
    stored.known.clear();
    stored.delete((0..count).filter(|n| !kept(*n)));
    stored.check((0..count).filter(|n| kept(*n)));
    assert_eq!(stored.allocated(), after);
}

/// What stands beside a deleted value is left alone on each drive by what stands there: one that lost a
/// neighbour decides nothing for the others.
#[test]
fn a_neighbour_that_one_drive_has_lost_stays_on_the_others() {
    let mut stored = Stored::new(30);
    let victim = stored.pieces[10];
    let lost = (0..3).map(|copy| stored.bench.extent(&stored.blob, 0, copy)).collect::<Vec<_>>();
    // The first drive has zeros where a value stood, the second a flipped bit.
    let zeros = vec![0; 3 * SECTOR];
    let file = fs::OpenOptions::new().write(true).open(&lost[0]).unwrap();
    file.write_all_at(&zeros, victim.offset.0).unwrap();
    flip(&lost[1], victim.offset.0 + 300, 2);
    stored.delete((0..30).filter(|n| *n != 10));
    stored.check(std::iter::once(10));
}

/// Story: a copy that was written anew had space for all that was ever deleted.
#[test]
fn a_copy_that_is_written_anew_has_the_same_holes() {
    let mut stored = Stored::new(1_000);
    stored.delete((0..1_000).filter(|n| *n != 500));
    let before = stored.allocated();
    let piece = stored.pieces[500];
    flip(&stored.bench.extent(&stored.blob, 0, 1), piece.offset.0 + 300, 2);
    let bad = BadShard { stripe: 0, shard: 1, drive: stored.blob.stripes[0].drives[1] };
    let repaired = stored.pool.repair(&stored.blob, &BTreeSet::from([bad]), &mut |_| true).unwrap();
    assert_eq!(repaired.in_place, [bad]);
    assert_eq!(stored.allocated(), before);
    stored.check(std::iter::once(500));
    assert!(stored.pool.scrub_blob(&stored.blob, &[piece], &mut |_| true).unwrap().is_clean());
}

/// Story: each `kill -9` left the segment that was open with the 64 MiB reserved for it, for ever.
#[test]
fn what_kills_left_reserved_is_given_back() {
    let mut bench = Bench::new(6);
    let mut stored = Vec::new();
    for n in 0..10 {
        let pool = bench.open(config(), &[]);
        stored.push(pool.put_small(&bytes(5_000, n)).unwrap());
        // Not closed: its segment stays open.
        drop(pool);
    }
    let taken = |bench: &Bench| {
        bench.extents().iter().map(|extent| fs::metadata(extent).unwrap().blocks() * 512).sum::<u64>()
    };
    assert!(taken(&bench) >= 10 * 3 * (4 << 20), "each has its 4 MiB reserved on three drives");
    let pool = bench.open(config(), &[]);
    let open = pool.put_small(&bytes(5_000, 77)).unwrap();
    for (blob, _) in &stored {
        let room = pool.room_of_segment(blob).unwrap();
        assert!(room.0 <= 3 * (8_192 + 16_384), "{room}");
    }
    assert_eq!(pool.room_of_segment(&open.0), None, "it is written still");
    pool.put_small(&bytes(5_000, 78)).unwrap();
    assert!(taken(&bench) < 3 * (4 << 20) + 11 * 3 * 24_576, "{}", taken(&bench));
    for (n, (blob, piece)) in (0..).zip(&stored) {
        assert!(*pool.read_small(blob, piece).unwrap() == *bytes(5_000, n));
    }
}

/// Nor does a segment keep it that is abandoned since a drive failed.
#[test]
fn what_an_abandoned_segment_had_reserved_is_given_back() {
    let mut bench = Bench::new(6);
    let pool = bench.open(config(), &[]);
    let before = pool.put_small(&bytes(5_000, 1)).unwrap();
    let victim = before.0.stripes[0].drives[1];
    bench.faults[usize::from(victim.0)].fail_sync(0);
    let after = pool.put_small(&bytes(5_000, 2)).unwrap();
    assert_ne!(before.0.id, after.0.id);
    assert!(bench.faults[usize::from(victim.0)].fired() > 0);
    for copy in [0, 2] {
        let taken = fs::metadata(bench.extent(&before.0, 0, copy)).unwrap().blocks() * 512;
        assert!(taken <= 65_536, "{taken}");
    }
    assert!(*pool.read_small(&before.0, &before.1).unwrap() == *bytes(5_000, 1));
}

/// A value that nobody knows of, since its put is about to be committed, is a neighbour as any.
#[test]
fn a_value_that_is_not_committed_yet_keeps_its_page() {
    let mut stored = Stored::new(40);
    let uncommitted = [3, 17, 18, 39];
    stored.delete((0..40).filter(|n| !uncommitted.contains(n)));
    stored.check(uncommitted.into_iter());
}

/// A drive that is away does not keep the others from giving back.
#[test]
fn a_drive_that_is_away_keeps_only_its_own_space() {
    let mut stored = Stored::new(300);
    let away = stored.blob.stripes[0].drives[0].0;
    stored.pool = {
        let known = vec![stored.blob.stripes[0].clone()];
        stored.pool.close();
        let closed = std::mem::replace(&mut stored.pool, Bench::new(6).open(config(), &[]));
        drop(closed);
        stored.bench.open_with(config(), &[away], known).unwrap()
    };
    let before = stored.allocated();
    let given_back = stored.delete((0..300).filter(|n| *n != 150));
    let after = stored.allocated();
    assert!(given_back > 100_000, "{given_back}");
    assert_eq!((0..3).map(|n| before[n] - after[n]).collect::<Vec<_>>(), [0, given_back, given_back]);
    stored.check(std::iter::once(150));
}
