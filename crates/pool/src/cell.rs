//! The header of a cell: what binds a payload to its blob, place and checksums. The bytes are in
//! docs/format/pool.md.

use std::ops::Range;

use base::planted::{Bug, is_planted};
use base::{BlobId, Crc32c, StreamChecksums, Uuid};
use drive::PAGE;
use erasure::find_bad_cell;

/// Bytes of the header in front of each payload.
pub(crate) const HEADER_BYTES: usize = PAGE;
/// Payload bytes under one CRC-32C.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// The same as the header has it.
const BLOCK_LOG2: u8 = 16;
const _: () = assert!(1 << BLOCK_LOG2 == BLOCK_BYTES);
/// Blocks in the largest payload.
pub(crate) const BLOCKS_MAX: usize = 16;
/// The generation of a blob as first written; others are reserved.
pub(crate) const GENERATION: u32 = 1;

const MAGIC: [u8; 8] = *b"KISTCELL";
/// In the place of a cell that could not be computed: never read as one.
const VOID_MAGIC: [u8; 8] = *b"KISTVOID";
const VERSION: u16 = 1;
const IDENTITY: Range<usize> = 0..64;
const CRCS_AT: usize = 64;
/// The blob that was written anew here; zero if it is the blob itself.
const OF_AT: usize = CRCS_AT + 4 * BLOCKS_MAX;
const OWN_CRC_AT: usize = HEADER_BYTES - 4;
const _: () =
    assert!(OF_AT + 8 <= OWN_CRC_AT, "a header has room for the checksum of each block, and a blob");

/// What a cell must say of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CellIdentity {
    pub(crate) instance: Uuid,
    /// As drives name it.
    pub(crate) blob: BlobId,
    /// Whose it is, if that blob was written anew under another id. No part of what a cell is known by.
    pub(crate) of: Option<BlobId>,
    pub(crate) stripe: u32,
    /// The row within the stripe.
    pub(crate) row: u32,
    pub(crate) shard: u8,
    pub(crate) data: u8,
    pub(crate) parity: u8,
    /// How many of the parity shards are local.
    pub(crate) local: u8,
    /// Bytes of payload, padding included.
    pub(crate) payload: u32,
    /// Bytes of the file in it; the payload for parity.
    pub(crate) valid: u32,
}

/// What is wrong with a cell that could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellDamage {
    /// The header's checksum or magic.
    Header,
    /// A whole header of another cell, blob, instance or format: a lost or misdirected write.
    Identity,
    /// A payload block.
    Block,
    /// Nothing was ever there: the row could not be computed when the shard was written anew.
    Void,
}

impl CellIdentity {
    fn encode(&self) -> [u8; 64] {
        let mut bytes = [0u8; 64];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10] = self.local;
        bytes[12..16].copy_from_slice(&GENERATION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.instance.0);
        bytes[32..40].copy_from_slice(&self.blob.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.stripe.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.row.to_le_bytes());
        bytes[48..52].copy_from_slice(&[self.shard, self.data, self.parity, BLOCK_LOG2]);
        bytes[52..56].copy_from_slice(&self.payload.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.valid.to_le_bytes());
        bytes
    }

    /// The blob as the catalogue names it.
    pub(crate) fn owner(&self) -> BlobId {
        self.of.unwrap_or(self.blob)
    }

    fn say_whose(&self, header: &mut [u8]) {
        if let Some(of) = self.of {
            header[OF_AT..OF_AT + 8].copy_from_slice(&of.0.to_le_bytes());
        }
    }

    /// What the header of a cell says that it is, if it is a whole one of this instance.
    pub(crate) fn announced(header: &[u8; HEADER_BYTES], instance: Uuid) -> Option<CellIdentity> {
        let word = |at: usize| read_u32(header, at);
        let long = |at: usize| u64::from(word(at)) | (u64::from(word(at + 4)) << 32);
        let of = long(OF_AT);
        let [shard, data, parity] = [header[48], header[49], header[50]];
        let identity = CellIdentity {
            instance,
            blob: BlobId(long(32)),
            of: (of != 0).then_some(BlobId(of)),
            stripe: word(40),
            row: word(44),
            shard,
            data,
            parity,
            local: header[10],
            payload: word(52),
            valid: word(56),
        };
        identity.verify_header(header).is_ok().then_some(identity)
    }

    /// Writes the header in front of a payload that is complete. `cell` is header and payload, `checksums`
    /// those of the payload's blocks.
    pub(crate) fn seal(&self, cell: &mut [u8], checksums: &[Crc32c]) {
        assert_eq!(cell.len(), HEADER_BYTES + self.payload as usize, "header and payload");
        assert_eq!(checksums.len(), (self.payload as usize).div_ceil(BLOCK_BYTES), "a checksum a block");
        assert!(checksums.len() <= BLOCKS_MAX, "a header has room for the checksum of each block");
        assert!(self.valid <= self.payload, "no more of a cell is a blob's than there is");
        let width = usize::from(self.data) + usize::from(self.parity);
        assert!(usize::from(self.shard) < width, "the shard is one of its code");
        let header = &mut cell[..HEADER_BYTES];
        header.fill(0);
        header[IDENTITY].copy_from_slice(&self.encode());
        for (checksum, slot) in checksums.iter().zip(header[CRCS_AT..].chunks_exact_mut(4)) {
            slot.copy_from_slice(&checksum.0.to_le_bytes());
        }
        self.say_whose(header);
        let own = Crc32c::of(&header[..OWN_CRC_AT]);
        header[OWN_CRC_AT..].copy_from_slice(&own.0.to_le_bytes());
        assert_eq!(self.verify_header(cell), Ok(()), "a header is read again as it is written");
    }

    /// Says that this cell could not be computed: whoever reads it is told so, and never takes it for one.
    pub(crate) fn seal_void(&self, cell: &mut [u8]) {
        cell.fill(0);
        let header = &mut cell[..HEADER_BYTES];
        header[IDENTITY].copy_from_slice(&self.encode());
        header[..8].copy_from_slice(&VOID_MAGIC);
        self.say_whose(header);
        let own = Crc32c::of(&header[..OWN_CRC_AT]);
        header[OWN_CRC_AT..].copy_from_slice(&own.0.to_le_bytes());
        let is_void = self.verify_header(cell) == Err(CellDamage::Void) || is_planted(Bug::UncheckedCell);
        assert!(is_void, "what was not computed is never read as bytes of a blob");
    }

    /// Checks the header and the payload bytes in `range`, which begins at a block and ends at one or at the
    /// end.
    pub(crate) fn verify(&self, cell: &[u8], range: &Range<usize>) -> Result<(), CellDamage> {
        assert_eq!(cell.len(), HEADER_BYTES + self.payload as usize, "header and payload");
        self.verify_header(cell)?;
        if is_planted(Bug::UncheckedCell) {
            return Ok(());
        }
        let payload = &cell[HEADER_BYTES..][range.clone()];
        let is_intact = find_bad_cell(payload, BLOCK_BYTES, &stored_checksums(cell, range)).is_none();
        if is_intact { Ok(()) } else { Err(CellDamage::Block) }
    }

    /// Checks the header and the whole payload, and gives the checksums of the bytes of the file in it: both
    /// of a block while it lies in the cache, and its own checksum goes into that of all.
    pub(crate) fn verify_and_sum(&self, cell: &[u8]) -> Result<StreamChecksums, CellDamage> {
        assert_eq!(cell.len(), HEADER_BYTES + self.payload as usize, "header and payload");
        self.verify_header(cell)?;
        let payload = &cell[HEADER_BYTES..];
        let (mut sums, mut left) = (StreamChecksums::default(), self.valid as usize);
        let stored = stored_checksums(cell, &(0..payload.len()));
        for (block, stored) in payload.chunks(BLOCK_BYTES).zip(stored) {
            let crc32c = Crc32c::of(block);
            if crc32c != stored && !is_planted(Bug::UncheckedCell) {
                return Err(CellDamage::Block);
            }
            let bytes = &block[..left.min(block.len())];
            left -= bytes.len();
            // The last block may be padded.
            let crc32c = if bytes.len() == block.len() { crc32c } else { Crc32c::of(bytes) };
            sums.crc32c = sums.crc32c.combine(crc32c, bytes.len() as u64);
            sums.adler32 = sums.adler32.extend(bytes);
        }
        assert_eq!(left, 0, "each byte of the blob in this cell is summed");
        Ok(sums)
    }

    /// Checks the header alone.
    pub(crate) fn verify_header(&self, cell: &[u8]) -> Result<(), CellDamage> {
        let header = &cell[..HEADER_BYTES];
        if is_planted(Bug::UncheckedCell) {
            return Ok(());
        }
        let is_intact = read_u32(header, OWN_CRC_AT) == Crc32c::of(&header[..OWN_CRC_AT]).0;
        if is_intact && header[0..8] == VOID_MAGIC {
            return Err(CellDamage::Void);
        }
        if !is_intact || header[0..8] != MAGIC {
            return Err(CellDamage::Header);
        }
        if header[IDENTITY] != self.encode() && !is_planted(Bug::UnboundCell) {
            return Err(CellDamage::Identity);
        }
        Ok(())
    }
}

/// What the header says the checksums of the blocks in `range` are.
pub(crate) fn stored_checksums(cell: &[u8], range: &Range<usize>) -> Vec<Crc32c> {
    assert!(range.end <= BLOCK_BYTES * BLOCKS_MAX, "the checksum of each block stands in the header");
    let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
    blocks.map(|block| Crc32c(read_u32(cell, CRCS_AT + 4 * block))).collect()
}

/// The checksums of the blocks of a payload.
pub(crate) fn checksums_of(payload: &[u8]) -> Vec<Crc32c> {
    payload.chunks(BLOCK_BYTES).map(Crc32c::of).collect()
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CellIdentity {
        CellIdentity {
            instance: Uuid([0xab; 16]),
            blob: BlobId(0x0000_0300_0000_0007),
            of: None,
            stripe: 2,
            row: 5,
            shard: 1,
            data: 4,
            parity: 2,
            local: 0,
            payload: 69_632,
            valid: 69_000,
        }
    }

    fn cell() -> Vec<u8> {
        let mut cell: Vec<u8> = (0..HEADER_BYTES + 69_632).map(|n| (n % 251) as u8).collect();
        let checksums = checksums_of(&cell[HEADER_BYTES..]);
        sample().seal(&mut cell, &checksums);
        cell
    }

    #[test]
    fn golden_cell() {
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cell-v1.bin");
        assert!(std::fs::read(golden).unwrap() == cell(), "the format of cells changed");
    }

    /// What a cell says of itself, and whose it is, which is no part of what it is known by.
    #[test]
    fn a_cell_that_was_written_anew_says_whose_it_is() {
        let identity = CellIdentity { of: Some(BlobId(0x0000_0200_0000_0005)), ..sample() };
        let mut bytes = cell();
        let checksums = checksums_of(&bytes[HEADER_BYTES..]);
        identity.seal(&mut bytes, &checksums);
        assert_eq!(bytes[128..136], [5, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(bytes[136..OWN_CRC_AT], [0; OWN_CRC_AT - 136]);
        assert_eq!(sample().verify(&bytes, &(0..69_632)), Ok(()));
        let header = |bytes: &[u8]| <[u8; HEADER_BYTES]>::try_from(&bytes[..HEADER_BYTES]).unwrap();
        let announced = |bytes: &[u8]| CellIdentity::announced(&header(bytes), sample().instance);
        assert_eq!(announced(&bytes), Some(identity));
        assert_eq!(announced(&cell()), Some(sample()));
        assert_eq!(CellIdentity::announced(&header(&bytes), Uuid([1; 16])), None);
        bytes[130] ^= 1;
        assert_eq!(announced(&bytes), None);
    }

    /// The header of what could not be computed; zeros behind it. It is never taken for a cell.
    #[test]
    fn golden_void() {
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cell-void-v1.bin");
        let mut void = cell();
        sample().seal_void(&mut void);
        assert!(std::fs::read(golden).unwrap() == void[..HEADER_BYTES], "the format of cells changed");
        assert!(void[HEADER_BYTES..].iter().all(|byte| *byte == 0));
        assert_eq!(sample().verify(&void, &(0..69_632)), Err(CellDamage::Void));
        assert_eq!(sample().verify_and_sum(&void), Err(CellDamage::Void));
        assert_eq!(sample().verify_header(&void), Err(CellDamage::Void));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = cell();
        assert_eq!(sample().verify(&good, &(0..69_632)), Ok(()));
        let bytes = &good[HEADER_BYTES..][..69_000];
        assert_eq!(sample().verify_and_sum(&good), Ok(StreamChecksums::of(bytes)));
        let payload_bits = (HEADER_BYTES * 8..good.len() * 8).step_by(997);
        for bit in (0..HEADER_BYTES * 8).step_by(5).chain(0..1024).chain(payload_bits) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(sample().verify(&bad, &(0..69_632)).is_err(), "bit {bit}");
            assert!(sample().verify_and_sum(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_sums_of_a_cell_are_those_of_the_files_bytes_in_it() {
        for (payload, valid) in
            [(69_632, 69_632), (69_632, 65_536), (69_632, 4_096), (69_632, 1), (69_632, 0), (4096, 9)]
        {
            let identity = CellIdentity { payload, valid, ..sample() };
            let mut cell: Vec<u8> = (0..HEADER_BYTES + payload as usize).map(|n| (n % 241) as u8).collect();
            cell[HEADER_BYTES + valid as usize..].fill(0);
            let checksums = checksums_of(&cell[HEADER_BYTES..]);
            identity.seal(&mut cell, &checksums);
            let bytes = &cell[HEADER_BYTES..][..valid as usize];
            assert_eq!(
                identity.verify_and_sum(&cell),
                Ok(StreamChecksums::of(bytes)),
                "{valid} of {payload}"
            );
        }
    }

    #[test]
    fn another_place_is_another_identity() {
        let good = cell();
        let others: [fn(&mut CellIdentity); 9] = [
            |i| i.blob.0 += 1,
            |i| i.stripe += 1,
            |i| i.row += 1,
            |i| i.shard += 1,
            |i| i.data += 1,
            |i| i.parity += 1,
            |i| i.local += 1,
            |i| i.valid -= 1,
            |i| i.instance.0[0] ^= 1,
        ];
        for other in others {
            let mut identity = sample();
            other(&mut identity);
            assert_eq!(identity.verify(&good, &(0..69_632)), Err(CellDamage::Identity), "{identity:?}");
        }
    }
}
