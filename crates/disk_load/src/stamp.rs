//! What is written: pages that say of which run they are and where they belong, so that a block from another
//! place, an old one or none is seen when it is read. Pure.

use std::fmt;

use base::ByteCount;
use durability::SplitMix;

/// Bytes that carry a stamp each.
pub const PAGE: usize = 4096;
/// What a stamped page begins with.
const MAGIC: [u8; 8] = *b"KISTLOAD";
/// Bytes of a stamp: 0 magic, 8 run u64, 16 offset u64, 24 check u64; little-endian.
const STAMP_BYTES: usize = 32;

/// Which run wrote a page; random, so that no two runs have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(pub u64);

/// What was read in place of a page of this run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Wrong {
    /// A page of this run that belongs elsewhere.
    Place,
    /// A page of another run.
    Run,
    /// No page that was ever written by a load.
    Foreign,
    /// A page whose stamp is right, and whose other bytes are not.
    Body,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Place => "a block that belongs elsewhere",
            Wrong::Run => "a block of an earlier run",
            Wrong::Foreign => "a block that was not written",
            Wrong::Body => "a block with changed bytes",
        })
    }
}

fn check_of(run: u64, offset: u64) -> u64 {
    SplitMix::new(run ^ offset.rotate_left(17) ^ u64::from_le_bytes(MAGIC)).bits()
}

fn word(page: &[u8], at: usize) -> Option<u64> {
    let bytes: [u8; 8] = page.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Run and offset of a page that a load has written.
fn read(page: &[u8]) -> Option<(u64, u64)> {
    let (run, offset) = (word(page, 8)?, word(page, 16)?);
    let is_stamped = page.starts_with(&MAGIC) && word(page, 24)? == check_of(run, offset);
    is_stamped.then_some((run, offset))
}

/// Whether a load, of whatever run, has written this page.
#[must_use]
pub fn is_stamped(page: &[u8]) -> bool {
    read(page).is_some()
}

fn pages(offset: ByteCount) -> impl Iterator<Item = u64> {
    (offset.0..).step_by(PAGE)
}

impl Stamp {
    /// Stamps all pages of a block that is to be written at `offset`; other bytes stay. Cheap: a line of the
    /// cache a page.
    pub fn put(self, block: &mut [u8], offset: ByteCount) {
        for (page, at) in block.chunks_exact_mut(PAGE).zip(pages(offset)) {
            let Some(stamp) = page.first_chunk_mut::<STAMP_BYTES>() else { continue };
            stamp[0..8].copy_from_slice(&MAGIC);
            stamp[8..16].copy_from_slice(&self.0.to_le_bytes());
            stamp[16..24].copy_from_slice(&at.to_le_bytes());
            stamp[24..32].copy_from_slice(&check_of(self.0, at).to_le_bytes());
        }
    }

    /// Checks the stamps of a block that was read at `offset`.
    ///
    /// # Errors
    /// What was found in place of the first page that is not as it should be.
    pub fn check(self, block: &[u8], offset: ByteCount) -> Result<(), Wrong> {
        for (page, at) in block.chunks_exact(PAGE).zip(pages(offset)) {
            match read(page) {
                Some((run, found)) if (run, found) == (self.0, at) => {}
                Some((run, _)) if run == self.0 => return Err(Wrong::Place),
                Some(_) => return Err(Wrong::Run),
                None => return Err(Wrong::Foreign),
            }
        }
        Ok(())
    }

    /// Fills all pages of a block so that every byte follows from run and place.
    pub fn paint(self, block: &mut [u8], offset: ByteCount) {
        for (page, at) in block.chunks_exact_mut(PAGE).zip(pages(offset)) {
            let mut bytes = SplitMix::new(check_of(self.0, at));
            for word in page.chunks_exact_mut(8) {
                word.copy_from_slice(&bytes.bits().to_le_bytes());
            }
        }
        self.put(block, offset);
    }

    /// Checks every byte of a block that was painted.
    ///
    /// # Errors
    /// As [`Stamp::check`]; [`Wrong::Body`].
    pub fn check_painted(self, block: &[u8], offset: ByteCount) -> Result<(), Wrong> {
        self.check(block, offset)?;
        for (page, at) in block.chunks_exact(PAGE).zip(pages(offset)) {
            let mut bytes = SplitMix::new(check_of(self.0, at));
            let words = page.chunks_exact(8).map(|word| (word, bytes.bits().to_le_bytes()));
            if words.skip(STAMP_BYTES / 8).any(|(word, expected)| word != expected) {
                return Err(Wrong::Body);
            }
        }
        Ok(())
    }
}

/// Takes the stamps off a block, so that what an earlier operation left in memory does not pass for what is
/// read next.
pub fn clear(block: &mut [u8]) {
    for page in block.chunks_exact_mut(PAGE) {
        if let Some(stamp) = page.first_chunk_mut::<STAMP_BYTES>() {
            stamp.fill(0);
        }
    }
}

/// Bytes that no disk can compress.
pub fn scatter(block: &mut [u8], seed: u64) {
    let mut bytes = SplitMix::new(seed);
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&bytes.bits().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Stamp = Stamp(77);
    const AT: ByteCount = ByteCount(1 << 20);

    fn block() -> Vec<u8> {
        let mut block = vec![0; 4 * PAGE];
        scatter(&mut block, 3);
        RUN.put(&mut block, AT);
        block
    }

    #[test]
    fn a_block_is_known_by_run_and_place() {
        let block = block();
        assert_eq!(RUN.check(&block, AT), Ok(()));
        assert_eq!(RUN.check(&block, ByteCount(0)), Err(Wrong::Place));
        assert_eq!(Stamp(78).check(&block, AT), Err(Wrong::Run));
        assert!(is_stamped(&block) && !is_stamped(&block[8..]) && !is_stamped(&[]));
    }

    #[test]
    fn every_page_of_a_block_counts() {
        for page in 0..4 {
            let mut block = block();
            block[page * PAGE..(page + 1) * PAGE].fill(0);
            assert_eq!(RUN.check(&block, AT), Err(Wrong::Foreign), "page {page}");
        }
        // Two pages that changed places.
        let mut swapped = block();
        let (one, other) = swapped.split_at_mut(PAGE);
        one.swap_with_slice(&mut other[..PAGE]);
        assert_eq!(RUN.check(&swapped, AT), Err(Wrong::Place));
    }

    #[test]
    fn what_an_earlier_operation_left_does_not_pass() {
        let mut block = block();
        clear(&mut block);
        assert_eq!(RUN.check(&block, AT), Err(Wrong::Foreign));
    }

    #[test]
    fn every_flipped_bit_of_a_painted_block_is_seen() {
        let mut block = vec![0; 2 * PAGE];
        RUN.paint(&mut block, AT);
        assert_eq!(RUN.check_painted(&block, AT), Ok(()));
        assert_eq!(RUN.check(&block, AT), Ok(()));
        for bit in (0..block.len() * 8).step_by(997).chain(0..STAMP_BYTES * 8) {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(RUN.check_painted(&block, AT).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
