//! Buffers that are used again: memory that the kernel has given already costs nothing the next time.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, PoisonError};

use drive::{AlignedBuffer, PAGE};
use threads::Mutex;

/// Buffers that are kept of each size.
const KEPT_MAX: usize = 32;
/// What a record with a small value fits into.
const SMALL_BYTES: usize = 64 << 10;

/// Buffers of two sizes, for small values and for the longest.
pub(crate) struct Buffers {
    sizes: [usize; 2],
    kept: [Mutex<Vec<AlignedBuffer>>; 2],
}

impl Buffers {
    /// `largest`: bytes of the longest record.
    pub(crate) fn new(largest: usize) -> Arc<Buffers> {
        let sizes = [SMALL_BYTES, largest.next_multiple_of(PAGE).max(SMALL_BYTES)];
        Arc::new(Buffers { sizes, kept: Default::default() })
    }

    /// A buffer of at least so many bytes, which hold anything.
    pub(crate) fn get(self: &Arc<Self>, bytes: usize) -> Buffer {
        let size = self.sizes.iter().position(|size| bytes <= *size);
        let kept = size.and_then(|size| self.kept[size].lock().unwrap_or_else(PoisonError::into_inner).pop());
        let length = size.map_or(bytes.next_multiple_of(PAGE), |size| self.sizes[size]);
        let buffer = kept.unwrap_or_else(|| AlignedBuffer::new(length));
        Buffer { buffer: Some(buffer), size, home: Arc::clone(self) }
    }
}

/// A buffer that goes home when it is dropped.
pub(crate) struct Buffer {
    buffer: Option<AlignedBuffer>,
    size: Option<usize>,
    home: Arc<Buffers>,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], AlignedBuffer::as_slice)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], AlignedBuffer::as_mut_slice)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(size), Some(buffer)) = (self.size, self.buffer.take()) {
            let mut kept = self.home.kept[size].lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT_MAX {
                kept.push(buffer);
            }
        }
    }
}

/// A value, or a part of one, that agrees with its checksums. Its memory is used again when it is dropped.
pub struct Value {
    buffer: Buffer,
    range: Range<usize>,
}

impl Value {
    pub(crate) fn new(buffer: Buffer, range: Range<usize>) -> Value {
        assert!(range.end <= buffer.bytes().len(), "a value is part of its buffer");
        Value { buffer, range }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.bytes()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} B)", self.len())
    }
}
