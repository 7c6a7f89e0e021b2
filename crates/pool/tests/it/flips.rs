//! Bits flip, pages are torn, swapped and old, in every kind of file that a pool has: nothing wrong is ever
//! read, everything that matters is found, and all of it is repaired.
//!
//! `KIST_FLIPS` says how many times; if it is not set, 500, the fewest that meet every kind
//! of damage. A hunt takes 3,000 and more.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::common::{Bench, bytes, get, put, small_cells};
use base::{BlobDescription, BlobPiece, ByteCount};
use pool::Pool;

const PAGE: usize = 4096;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// What a pool holds, and which files hold it.
struct Stock {
    pool: Arc<Pool>,
    striped: Vec<(BlobDescription, Vec<u8>)>,
    segment: BlobDescription,
    small: Vec<(BlobPiece, Vec<u8>)>,
    /// Files of each stripe or segment, and the superblocks by drive: of one group at most two are damaged at
    /// once.
    groups: Vec<(Group, Vec<PathBuf>)>,
    originals: BTreeMap<PathBuf, Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Group {
    Striped(usize),
    Segment,
    Superblock,
}

impl Stock {
    fn new(bench: &mut Bench) -> Self {
        let mut config = small_cells();
        config.segment_size = ByteCount::mib(1);
        let pool = bench.open(config, &[]);
        let striped: Vec<_> = [(1, 5000), (2, 140_000), (3, 40_000)]
            .into_iter()
            .map(|(seed, length)| bytes(length, seed))
            .map(|value| (put(&pool, &value).unwrap(), value))
            .collect();
        let values: Vec<Vec<u8>> = (0..12usize).map(|n| bytes(n * n * 300, n as u64 + 10)).collect();
        let stored: Vec<(BlobDescription, BlobPiece)> =
            values.iter().map(|value| pool.put_small(value).unwrap()).collect();
        pool.seal_segments();
        let segment = stored[0].0.clone();
        assert!(stored.iter().all(|(blob, _)| *blob == segment));
        let small = stored.into_iter().map(|(_, piece)| piece).zip(values).collect();
        let mut groups: Vec<(Group, Vec<PathBuf>)> = Vec::new();
        for (number, (blob, _)) in striped.iter().enumerate() {
            for stripe in 0..blob.stripes.len() {
                let files = (0..6).map(|shard| bench.extent(blob, stripe, shard)).collect();
                groups.push((Group::Striped(number), files));
            }
        }
        groups.push((Group::Segment, (0..3).map(|copy| bench.extent(&segment, 0, copy)).collect()));
        for drive in 0..8 {
            let pages = ["drive.kist", "drive.copy"].map(|name| bench.path(drive).join(name));
            groups.push((Group::Superblock, pages.to_vec()));
        }
        let files = groups.iter().flat_map(|(_, files)| files.clone());
        let originals = files.map(|file| (file.clone(), fs::read(&file).unwrap())).collect();
        Stock { pool, striped, segment, small, groups, originals }
    }

    fn read_all(&self) {
        for (blob, value) in &self.striped {
            assert!(get(&self.pool, blob).unwrap() == *value, "wrong bytes were read");
        }
        for (piece, value) in &self.small {
            let read = self.pool.read_small(&self.segment, piece).unwrap();
            assert!(*read == value[..], "wrong bytes were read");
        }
    }

    /// Scrubs and repairs a group; how much was found.
    fn scrub(&self, group: Group) -> u64 {
        let pieces: Vec<BlobPiece> = self.small.iter().map(|(piece, _)| *piece).collect();
        let (blob, pieces) = match group {
            Group::Superblock => return self.pool.scrub_superblocks().len() as u64,
            Group::Striped(number) => (&self.striped[number].0, &[][..]),
            Group::Segment => (&self.segment, &pieces[..]),
        };
        let report = self.pool.scrub_blob(blob, pieces, &mut |_| true).unwrap();
        assert!(report.complete && report.lost.is_empty(), "{report:?}");
        if report.found > 0 {
            let repaired = self.pool.repair(blob, &report.bad, &mut |_| true).unwrap();
            assert_eq!(
                (repaired.in_place.len(), repaired.failed.len()),
                (report.bad.len(), 0),
                "{repaired:?}"
            );
            assert!(repaired.moved.is_empty() && repaired.lost_rows == 0);
            let after = self.pool.scrub_blob(blob, pieces, &mut |_| true).unwrap();
            assert!(after.is_clean(), "{after:?}");
        }
        report.found
    }

    /// Whether all that differs from the original is of no meaning: behind the records of a segment.
    fn is_padding(&self, group: Group, file: &Path) -> bool {
        if group != Group::Segment {
            return false;
        }
        let (now, before) = (fs::read(file).unwrap(), &self.originals[file]);
        let covered = |at: usize| {
            self.small.iter().any(|(piece, value)| {
                let start = piece.offset.0 as usize;
                (start..start + 80 + value.len()).contains(&at)
            })
        };
        now.len() <= before.len() && (0..before.len()).all(|at| now.get(at) == before.get(at) || !covered(at))
    }
}

const KINDS: [&str; 6] = ["bit", "torn page", "swapped pages", "stale page", "short", "gone"];

/// Damages a file in one of the ways; `false` if that changes nothing.
fn damage(stock: &Stock, random: &mut Random, file: &Path, kind: usize) -> bool {
    let before = &stock.originals[file];
    let mut now = before.clone();
    let pages = before.len() / PAGE;
    let page = random.below(pages) * PAGE;
    match KINDS[kind] {
        "bit" => now[page + random.below(PAGE)] ^= 1 << random.below(8),
        "torn page" => now[page + random.below(PAGE / 512) * 512..page + PAGE].fill(0),
        "swapped pages" => {
            let other = random.below(pages) * PAGE;
            let moved = now[other..other + PAGE].to_vec();
            now.copy_within(page..page + PAGE, other);
            now[page..page + PAGE].copy_from_slice(&moved);
        }
        "stale page" => {
            // What another extent has in this place, as after a misdirected write, or of an older owner.
            let others: Vec<&Vec<u8>> = stock.originals.values().filter(|o| o.len() >= page + PAGE).collect();
            let other = others[random.below(others.len())];
            now[page..page + PAGE].copy_from_slice(&other[page..page + PAGE]);
        }
        "short" => now.truncate(page),
        _ => {
            fs::remove_file(file).unwrap();
            return true;
        }
    }
    fs::write(file, &now).unwrap();
    now != *before
}

#[test]
fn nothing_wrong_is_read_and_everything_is_repaired() {
    let flips: usize = std::env::var("KIST_FLIPS").map_or(500, |n| n.parse().unwrap());
    let mut bench = Bench::new(8);
    let stock = Stock::new(&mut bench);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut found = [0u64; KINDS.len()];
    let (mut nothing, mut padding) = (0, 0);
    for _ in 0..flips {
        let (group, files) = stock.groups[random.below(stock.groups.len())].clone();
        // Of two superblock pages one must be left, of shards as many as the parity bears may go.
        let many = if group == Group::Superblock { 1 } else { 1 + random.below(2) };
        let first = random.below(files.len());
        let mut changed = Vec::new();
        for n in 0..many {
            let file = &files[(first + n) % files.len()];
            // Mostly single bits.
            let kind = if random.below(4) < 3 { 0 } else { random.below(KINDS.len()) };
            if damage(&stock, &mut random, file, kind) {
                changed.push((file.clone(), kind));
            } else {
                nothing += 1;
            }
        }
        stock.read_all();
        let touched: Vec<bool> =
            changed.iter().map(|(file, _)| !file.exists() || !stock.is_padding(group, file)).collect();
        let seen = stock.scrub(group);
        assert!(seen > 0 || !touched.contains(&true), "silent: {group:?} {changed:?}");
        for ((file, kind), touched) in changed.into_iter().zip(touched) {
            if touched {
                found[kind] += 1;
            } else {
                padding += 1;
            }
            if stock.is_padding(group, &file) {
                fs::write(&file, &stock.originals[&file]).unwrap();
            }
            assert!(fs::read(&file).unwrap() == stock.originals[&file], "{group:?} {file:?} is repaired");
        }
    }
    stock.read_all();
    println!(
        "{flips} times; found and repaired: {}",
        KINDS.iter().zip(found).map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
    );
    println!("without effect {nothing}, of no meaning {padding}, silent 0");
    assert!(flips < 500 || found.iter().all(|count| *count > 0), "{found:?}");
}
