//! The memory of the pool: a counted number of equal buffers, each with room for one cell and its header.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex};

use drive::AlignedBuffer;

use crate::gather::lock;

/// A fixed number of cell buffers, handed out several at once in order of asking.
///
/// Whoever waits holds nothing of the same arena that only he can give back, so nobody waits for ever.
pub(crate) struct Arena {
    buffer_bytes: usize,
    capacity: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: Vec<AlignedBuffer>,
    in_use: usize,
    waiting: VecDeque<u64>,
    next_waiter: u64,
}

impl Arena {
    pub(crate) fn new(buffer_bytes: usize, capacity: usize) -> Arc<Self> {
        let state = State { free: Vec::new(), in_use: 0, waiting: VecDeque::new(), next_waiter: 0 };
        Arc::new(Arena { buffer_bytes, capacity, state: Mutex::new(state), returned: Condvar::new() })
    }

    /// The most buffers that can be had at once.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Waits for `count` buffers; their content is arbitrary.
    pub(crate) fn acquire(self: &Arc<Self>, count: usize) -> Vec<CellBuffer> {
        assert!(count <= self.capacity, "{count} buffers asked of an arena of {}", self.capacity);
        let mut state = lock(&self.state);
        let turn = state.next_waiter;
        state.next_waiter += 1;
        state.waiting.push_back(turn);
        while state.waiting.front() != Some(&turn) || self.capacity - state.in_use < count {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_front();
        let taken = self.take(&mut state, count);
        // The next in the queue may fit as well.
        self.returned.notify_all();
        taken
    }

    /// Takes `count` buffers if they are free and nobody waits.
    pub(crate) fn try_acquire(self: &Arc<Self>, count: usize) -> Option<Vec<CellBuffer>> {
        let mut state = lock(&self.state);
        let available = state.waiting.is_empty() && self.capacity - state.in_use >= count;
        available.then(|| self.take(&mut state, count))
    }

    fn take(self: &Arc<Self>, state: &mut State, count: usize) -> Vec<CellBuffer> {
        state.in_use += count;
        let keep = state.free.len().saturating_sub(count);
        let mut buffers = state.free.split_off(keep);
        buffers.resize_with(count, || AlignedBuffer::new(self.buffer_bytes));
        buffers
            .into_iter()
            .map(|buffer| CellBuffer { buffer: Some(buffer), arena: Arc::clone(self) })
            .collect()
    }

    fn give_back(&self, buffer: AlignedBuffer) {
        let mut state = lock(&self.state);
        assert!(state.in_use > 0, "a buffer comes back once");
        state.in_use -= 1;
        state.free.push(buffer);
        if !state.waiting.is_empty() {
            self.returned.notify_all();
        }
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        lock(&self.state).in_use
    }
}

/// One buffer of an arena, which goes back when it is dropped.
pub(crate) struct CellBuffer {
    buffer: Option<AlignedBuffer>,
    arena: Arc<Arena>,
}

impl CellBuffer {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], AlignedBuffer::as_slice)
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], AlignedBuffer::as_mut_slice)
    }
}

impl Drop for CellBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.arena.give_back(buffer);
        }
    }
}

/// Verified bytes read from the pool; dropping it frees the memory for other readers.
pub struct PoolBuffer {
    memory: Memory,
    range: Range<usize>,
}

enum Memory {
    Cell(CellBuffer),
    Own(AlignedBuffer),
}

impl PoolBuffer {
    pub(crate) fn of_cell(cell: CellBuffer, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= cell.as_slice().len(), "the range is in the buffer");
        PoolBuffer { memory: Memory::Cell(cell), range }
    }

    pub(crate) fn own(buffer: AlignedBuffer, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= buffer.as_slice().len(),
            "the range is in the buffer"
        );
        PoolBuffer { memory: Memory::Own(buffer), range }
    }
}

impl PoolBuffer {
    /// The same bytes in memory of their own, the pool's given back: for bytes that somebody may keep for
    /// long.
    #[must_use]
    pub fn detach(self) -> Self {
        if matches!(self.memory, Memory::Own(_)) {
            return self;
        }
        let bytes = self.as_ref();
        let mut own = AlignedBuffer::new(bytes.len().next_multiple_of(drive::PAGE).max(drive::PAGE));
        own.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        let range = 0..bytes.len();
        PoolBuffer { memory: Memory::Own(own), range }
    }

    /// The same buffer, of which only `part` is seen.
    ///
    /// # Panics
    /// If `part` is not within the buffer.
    #[must_use]
    pub fn slice(mut self, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= self.range.len(), "the part is in the buffer");
        self.range = self.range.start + part.start..self.range.start + part.end;
        self
    }
}

impl AsRef<[u8]> for PoolBuffer {
    fn as_ref(&self) -> &[u8] {
        let all = match &self.memory {
            Memory::Cell(cell) => cell.as_slice(),
            Memory::Own(buffer) => buffer.as_slice(),
        };
        &all[self.range.clone()]
    }
}

impl Deref for PoolBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl fmt::Debug for PoolBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolBuffer({} B)", self.range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_counted_and_come_back() {
        let arena = Arena::new(4096, 3);
        let two = arena.acquire(2);
        assert!(arena.try_acquire(2).is_none());
        let waiter = threads::spawn({
            let arena = Arc::clone(&arena);
            move || arena.acquire(3).len()
        });
        drop(two);
        assert_eq!(waiter.join().unwrap(), 3);
        assert_eq!(arena.in_use(), 0);
    }
}
