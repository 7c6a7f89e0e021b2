//! Memory that direct I/O accepts.

use std::fmt;

use crate::object::PAGE;

/// A fixed number of bytes that begin at a multiple of [`PAGE`] in memory; zeroed when made.
pub struct AlignedBuffer {
    // One page more than asked for, so that an aligned start exists within; a Vec's heap block never moves.
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// Makes a buffer of `length` zero bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let storage = vec![0u8; length + PAGE];
        let start = storage.as_ptr().align_offset(PAGE);
        assert!(start <= PAGE, "a page holds an aligned address");
        AlignedBuffer { storage, start, length }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }

    /// The bytes, to be changed.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} B)", self.length)
    }
}
