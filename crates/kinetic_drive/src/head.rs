//! The head of an extent: whose pieces it has, and which they are once it is sealed.

use base::{BlobId, Crc32c, Uuid};
use bytes::{BufMut, Bytes, BytesMut};
use drive::ExtentId;

use crate::keys::{Generation, Piece};

const MAGIC: [u8; 8] = *b"KISTHEAD";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 64;
const SEALED: u8 = 1;
const PUNCHED: u8 = 2;
/// The most pieces of an extent: their table fits into one value.
pub(crate) const PIECES_MAX: usize = 500_000;

/// What is known of an extent on the drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) generation: Generation,
    /// How often it was written over: part of its version.
    pub(crate) change: u32,
    /// All of it is there, and nothing is added. Else the drive is asked which pieces there are.
    pub(crate) is_sealed: bool,
    /// Some of its pieces may have holes.
    pub(crate) is_punched: bool,
    /// In order, each behind the one before; empty if it is not sealed.
    pub(crate) pieces: Vec<Piece>,
}

impl Head {
    pub(crate) fn pages(&self) -> u64 {
        self.pieces.last().map_or(0, |last| last.end())
    }

    pub(crate) fn encode(&self, instance: Uuid, id: ExtentId) -> Bytes {
        let mut bytes = BytesMut::with_capacity(FIXED_BYTES + 2 * self.pieces.len() + 4);
        bytes.put_slice(&MAGIC);
        bytes.put_u32_le(VERSION);
        bytes.put_u8(if self.is_sealed { SEALED } else { 0 } | if self.is_punched { PUNCHED } else { 0 });
        bytes.put_slice(&[0; 3]);
        bytes.put_slice(&instance.0);
        bytes.put_u64_le(id.blob.0);
        bytes.put_u32_le(id.stripe);
        bytes.put_u8(id.shard);
        bytes.put_slice(&[0; 3]);
        bytes.put_u64_le(self.generation.0);
        bytes.put_u32_le(self.change);
        bytes.put_u32_le(u32::try_from(self.pieces.len()).unwrap_or(u32::MAX));
        assert_eq!(bytes.len(), FIXED_BYTES, "the fixed part of a head");
        let mut next = 0;
        for piece in &self.pieces {
            assert_eq!(u64::from(piece.from), next, "pieces follow each other");
            next = piece.end();
            bytes.put_u16_le(piece.pages);
        }
        let crc = Crc32c::of(&bytes);
        bytes.put_u32_le(crc.0);
        bytes.freeze()
    }

    /// `None` if it is damaged, of another extent, or of an unknown version.
    pub(crate) fn decode(bytes: &[u8], instance: Uuid, id: ExtentId) -> Option<Head> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if Crc32c::of(body).0 != u32::from_le_bytes(*crc) {
            return None;
        }
        let (fixed, table) = body.split_first_chunk::<FIXED_BYTES>()?;
        let number = |at: usize| {
            let bytes = fixed.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
        let [.., _, _, _] = fixed;
        let is_its = fixed.starts_with(&MAGIC)
            && number(8) == VERSION
            && fixed.get(16..32)? == instance.0
            && BlobId(long(32)) == id.blob
            && number(40) == id.stripe
            && *fixed.get(44)? == id.shard;
        if !is_its || table.len() != 2 * number(60) as usize {
            return None;
        }
        let flags = *fixed.get(12)?;
        let (mut pieces, mut next) = (Vec::with_capacity(table.len() / 2), 0u32);
        for pages in table.chunks_exact(2) {
            let pages = u16::from_le_bytes(pages.try_into().ok()?);
            pieces.push(Piece { from: next, pages });
            next = next.checked_add(u32::from(pages))?;
        }
        Some(Head {
            generation: Generation(long(48)),
            change: number(56),
            is_sealed: flags & SEALED != 0,
            is_punched: flags & PUNCHED != 0,
            pieces,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_every_flipped_bit_is_refused() {
        let (instance, id) = (Uuid([3; 16]), ExtentId { blob: BlobId(1 << 40 | 7), stripe: 2, shard: 1 });
        let pieces = vec![Piece { from: 0, pages: 1 }, Piece { from: 1, pages: 256 }];
        let generation = Generation(0x1122_3344_5566_7788);
        let head = Head { generation, change: 1, is_sealed: true, is_punched: false, pieces };
        let bytes = head.encode(instance, id);
        assert_eq!(bytes.len(), 64 + 4 + 4);
        assert_eq!(&bytes[..16], b"KISTHEAD\x01\0\0\0\x01\0\0\0");
        assert_eq!(Head::decode(&bytes, instance, id), Some(head.clone()));
        assert_eq!(head.pages(), 257);
        assert_eq!(Head::decode(&bytes, Uuid([4; 16]), id), None);
        assert_eq!(Head::decode(&bytes, instance, ExtentId { shard: 2, ..id }), None);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&bad, instance, id), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(Head::decode(&bytes[..length], instance, id), None);
        }
    }
}
