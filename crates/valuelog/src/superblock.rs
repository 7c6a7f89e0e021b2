//! The superblock: one page, kept twice, that says what store this is. The bytes are in
//! docs/format/value-log.md.

use base::{ByteCount, Crc32c, Uuid};
use drive::PAGE;

use crate::bytes::{Reader, Writer};
use crate::limits::{Layout, SEGMENTS_LIMIT};

/// The version of all that stands in a store.
pub(crate) const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"KISTVLOG";
const CRC_AT: usize = PAGE - 4;

/// What the superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) store: Uuid,
    /// Rises with every writing; of two whole pages the higher one holds.
    pub(crate) generation: u64,
    /// How often the store was opened; part of the number of each use of a segment.
    pub(crate) epoch: u32,
    pub(crate) layout: Layout,
    pub(crate) slots: u32,
    /// Slots below were made ready; in those above nothing is.
    pub(crate) made: u32,
    /// Slots below are still to be overwritten: a secure erase is under way.
    pub(crate) wipe: u32,
}

/// Why a page is no superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Nothing of it is a superblock.
    None,
    Damaged,
    Version(u32),
}

impl Superblock {
    pub(crate) fn encode(&self, page: &mut [u8]) {
        let page = &mut page[..PAGE];
        page.fill(0);
        let mut writer = Writer::new(page);
        writer.put(&MAGIC).word(VERSION).word(0).put(&self.store.0).long(self.generation);
        writer.word(self.epoch).word(self.slots).word(self.made).word(self.wipe);
        writer.long(self.layout.segment.0).long(self.layout.value_max.0);
        let own = Crc32c::of(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&own.0.to_le_bytes());
    }

    pub(crate) fn parse(page: &[u8]) -> Result<Superblock, Refusal> {
        let page: &[u8; PAGE] = page.try_into().map_err(|_| Refusal::None)?;
        let mut reader = Reader(page);
        if reader.eight() != MAGIC {
            return Err(Refusal::None);
        }
        if Reader(&page[CRC_AT..]).word() != Crc32c::of(&page[..CRC_AT]).0 {
            return Err(Refusal::Damaged);
        }
        let version = reader.word();
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        reader.word();
        let (store, generation) = (reader.uuid(), reader.long());
        let (epoch, slots, made, wipe) = (reader.word(), reader.word(), reader.word(), reader.word());
        let layout = Layout { segment: ByteCount(reader.long()), value_max: ByteCount(reader.long()) };
        if layout.check().is_err() || slots > SEGMENTS_LIMIT || made > slots || wipe > slots {
            return Err(Refusal::Damaged);
        }
        Ok(Superblock { store, generation, epoch, layout, slots, made, wipe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        let layout = Layout::default();
        Superblock { store: Uuid([7; 16]), generation: 3, epoch: 2, layout, slots: 100, made: 48, wipe: 0 }
    }

    #[test]
    fn golden_page_comes_back_and_each_flipped_bit_is_seen() {
        let mut page = vec![9; PAGE];
        sample().encode(&mut page);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/superblock-v1.bin");
        assert!(std::fs::read(path).unwrap() == page, "the format is kept");
        assert_eq!(Superblock::parse(&page), Ok(sample()));
        assert_eq!(Superblock::parse(&page[1..]), Err(Refusal::None));
        for bit in (0..80 * 8).chain((CRC_AT - 4) * 8..PAGE * 8) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::parse(&page).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn unknown_version_and_senseless_figures_are_refused() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut page = vec![0; PAGE];
            sample().encode(&mut page);
            change(&mut page);
            let own = Crc32c::of(&page[..CRC_AT]);
            page[CRC_AT..].copy_from_slice(&own.0.to_le_bytes());
            Superblock::parse(&page).unwrap_err()
        };
        assert_eq!(refused(&|page| page[8] = 2), Refusal::Version(2));
        assert_eq!(refused(&|page| page[48] = 101), Refusal::Damaged, "more made than there are");
        assert_eq!(refused(&|page| page[57] = 1), Refusal::Damaged, "a segment of odd size");
    }
}
