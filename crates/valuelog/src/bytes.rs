//! Numbers in bytes, little-endian.

use base::Uuid;

/// Reads numbers one behind the other; behind the end there are zeros.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => [0; N],
        }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(crate) fn number(&mut self) -> i32 {
        i32::from_le_bytes(self.array())
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        Uuid(self.array())
    }

    pub(crate) fn eight(&mut self) -> [u8; 8] {
        self.array()
    }

    /// The next bytes; `None` if there are not so many.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Writes numbers one behind the other into what has room for them.
pub(crate) struct Writer<'a>(pub(crate) &'a mut [u8], usize);

impl<'a> Writer<'a> {
    pub(crate) fn new(into: &'a mut [u8]) -> Self {
        Writer(into, 0)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        self
    }

    pub(crate) fn short(&mut self, n: u16) -> &mut Self {
        self.put(&n.to_le_bytes())
    }

    pub(crate) fn word(&mut self, n: u32) -> &mut Self {
        self.put(&n.to_le_bytes())
    }

    pub(crate) fn long(&mut self, n: u64) -> &mut Self {
        self.put(&n.to_le_bytes())
    }
}
