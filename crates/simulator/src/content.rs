//! Bytes of files: each content has a number, and its bytes follow from it.

use base::Blake3;

/// A content: which one, and how long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Content {
    /// Its number, never used twice in a world.
    pub id: u64,
    /// Its length in bytes.
    pub length: usize,
}

impl Content {
    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut state = self.id.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut bytes = Vec::with_capacity(self.length + 8);
        while bytes.len() < self.length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(self.length);
        bytes
    }

    /// Its hash.
    #[must_use]
    pub fn blake3(self) -> Blake3 {
        Blake3::of(&self.bytes())
    }
}
