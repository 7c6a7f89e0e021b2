//! The memory of the pool: a counted number of equal buffers, each with room for one cell and its header.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex};

use base::StreamChecksums;
use blob::Use;
use drive::AlignedBuffer;

use crate::gather::lock;

/// Rows that a tape stream has in work: one being filled, two on their way.
const STREAM_ROWS: usize = 3;
/// An arena of fewer rows keeps some for tape streams only while one runs.
const ROWS_KEPT_FROM: usize = 4;

/// A fixed number of cell buffers, handed out several at once in order of asking, to tape streams first.
///
/// A part is kept for tape streams, so that slow clients cannot hold all of it while a tape waits. Whoever
/// waits holds nothing of the same arena that only he can give back, so nobody waits for ever.
pub(crate) struct Arena {
    buffer_bytes: usize,
    capacity: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    free: Vec<AlignedBuffer>,
    in_use: usize,
    /// Of those in use, the ones that tape streams have.
    streams_use: usize,
    /// So many are given to tape streams only.
    kept: usize,
    waiting: VecDeque<u64>,
    streams_waiting: VecDeque<u64>,
    next_waiter: u64,
}

impl Arena {
    pub(crate) fn new(buffer_bytes: usize, capacity: usize) -> Arc<Self> {
        let state = State::default();
        Arc::new(Arena { buffer_bytes, capacity, state: Mutex::new(state), returned: Condvar::new() })
    }

    /// The most buffers that can be had at once.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keeps a share for tape streams, of which some run now or none, where a row has so many cells: a
    /// stream's whole work if the arena is large, else one row, and of a small arena only while a stream
    /// runs.
    pub(crate) fn keep(&self, row: usize, some_run: bool) {
        let rows = self.capacity / row.max(1);
        let kept = match rows {
            _ if rows >= ROWS_KEPT_FROM * STREAM_ROWS => STREAM_ROWS * row,
            _ if rows >= ROWS_KEPT_FROM || (some_run && rows >= 2) => row,
            _ => 0,
        };
        assert!(kept <= self.capacity, "no more is kept for streams than there is");
        lock(&self.state).kept = kept;
        self.returned.notify_all();
    }

    /// Waits for `count` buffers; their content is arbitrary.
    pub(crate) fn acquire(self: &Arc<Self>, count: usize, whose: Use) -> Vec<CellBuffer> {
        assert!(count <= self.capacity, "{count} buffers asked of an arena of {}", self.capacity);
        let mut state = lock(&self.state);
        let turn = state.next_waiter;
        state.next_waiter += 1;
        state.queue(whose).push_back(turn);
        while state.queue(whose).front() != Some(&turn) || !self.is_free(&state, count, whose) {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.queue(whose).pop_front();
        let taken = self.take(&mut state, count, whose);
        // The next in the queue may fit as well.
        self.returned.notify_all();
        taken
    }

    /// Takes `count` buffers if they are free and nobody waits, as for reading ahead.
    pub(crate) fn try_acquire(self: &Arc<Self>, count: usize, whose: Use) -> Option<Vec<CellBuffer>> {
        let mut state = lock(&self.state);
        // What a stream reads ahead leaves half of the memory to others.
        let most = (self.capacity / 2).max(state.kept);
        let is_too_much = whose == Use::Stream && state.streams_use + count > most;
        let available = !is_too_much && state.queue(whose).is_empty() && self.is_free(&state, count, whose);
        available.then(|| self.take(&mut state, count, whose))
    }

    /// Takes `count` buffers for a client of which nobody knows how long it will keep them: only if nobody
    /// waits, and half of what clients can have stays for others.
    pub(crate) fn try_acquire_spare(self: &Arc<Self>, count: usize) -> Option<Vec<CellBuffer>> {
        let mut state = lock(&self.state);
        let half = self.capacity.saturating_sub(state.kept) / 2;
        let spare = state.waiting.is_empty()
            && state.in_use - state.streams_use + count <= half
            && self.is_free(&state, count, Use::Client);
        spare.then(|| self.take(&mut state, count, Use::Client))
    }

    /// Whether the first who waits may have so many now.
    fn is_free(&self, state: &State, count: usize, whose: Use) -> bool {
        let fits = self.capacity - state.in_use >= count;
        if whose == Use::Stream {
            return fits;
        }
        // A row wider than what is left for others has the arena to itself: it must be readable.
        let limit = self.capacity.saturating_sub(state.kept).max(count);
        fits && state.streams_waiting.is_empty() && state.in_use - state.streams_use + count <= limit
    }

    fn take(self: &Arc<Self>, state: &mut State, count: usize, whose: Use) -> Vec<CellBuffer> {
        state.in_use += count;
        if whose == Use::Stream {
            state.streams_use += count;
        }
        assert!(state.in_use <= self.capacity, "no more is handed out than there is");
        assert!(state.streams_use <= state.in_use, "what streams use is in use");
        let keep = state.free.len().saturating_sub(count);
        let mut buffers = state.free.split_off(keep);
        buffers.resize_with(count, || AlignedBuffer::new(self.buffer_bytes));
        let is_whole = |buffer: &AlignedBuffer| buffer.as_slice().len() == self.buffer_bytes;
        assert!(buffers.iter().all(is_whole), "each buffer has its length");
        buffers
            .into_iter()
            .map(|buffer| CellBuffer { buffer: Some(buffer), arena: Arc::clone(self), whose, sums: None })
            .collect()
    }

    fn give_back(&self, buffer: AlignedBuffer, whose: Use) {
        let mut state = lock(&self.state);
        assert!(state.in_use > 0, "a buffer comes back once");
        state.in_use -= 1;
        if whose == Use::Stream {
            assert!(state.streams_use > 0, "and to the use that it was taken for");
            state.streams_use -= 1;
        }
        state.free.push(buffer);
        assert!(state.free.len() + state.in_use <= self.capacity, "no more buffers exist than there may be");
        if !state.waiting.is_empty() || !state.streams_waiting.is_empty() {
            self.returned.notify_all();
        }
    }

    /// Gives memory that nobody has back to the system.
    pub(crate) fn free_all(&self) {
        let free = std::mem::take(&mut lock(&self.state).free);
        drop(free);
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        lock(&self.state).free.len()
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        lock(&self.state).in_use
    }
}

impl State {
    fn queue(&mut self, whose: Use) -> &mut VecDeque<u64> {
        if whose == Use::Stream { &mut self.streams_waiting } else { &mut self.waiting }
    }
}

/// One buffer of an arena, which goes back when it is dropped.
pub(crate) struct CellBuffer {
    buffer: Option<AlignedBuffer>,
    arena: Arc<Arena>,
    whose: Use,
    /// The checksums of a range of it, as long as nothing is written to it.
    sums: Option<(Range<usize>, StreamChecksums)>,
}

impl CellBuffer {
    pub(crate) fn whose(&self) -> Use {
        self.whose
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], AlignedBuffer::as_slice)
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.sums = None;
        self.buffer.as_mut().map_or(&mut [], AlignedBuffer::as_mut_slice)
    }

    /// Keeps the checksums of a range, which were computed as it lies here now.
    pub(crate) fn keep_sums(&mut self, range: Range<usize>, sums: StreamChecksums) {
        assert!(range.end <= self.as_slice().len(), "the sums are of bytes in the buffer");
        self.sums = Some((range, sums));
    }
}

impl Drop for CellBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.arena.give_back(buffer, self.whose);
        }
    }
}

/// Verified bytes read from the pool; dropping it frees the memory for other readers.
pub struct PoolBuffer {
    memory: Memory,
    range: Range<usize>,
    /// Of all its bytes, if they are known.
    sums: Option<StreamChecksums>,
}

enum Memory {
    Cell(CellBuffer),
    Own(AlignedBuffer),
}

impl PoolBuffer {
    pub(crate) fn of_cell(cell: CellBuffer, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= cell.as_slice().len(), "the range is in the buffer");
        let sums = cell.sums.as_ref().filter(|(of, _)| *of == range).map(|(_, sums)| *sums);
        PoolBuffer { memory: Memory::Cell(cell), range, sums }
    }

    pub(crate) fn own(buffer: AlignedBuffer, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= buffer.as_slice().len(),
            "the range is in the buffer"
        );
        PoolBuffer { memory: Memory::Own(buffer), range, sums: None }
    }
}

impl PoolBuffer {
    /// The checksums of all its bytes, if they were computed where the bytes were verified: see
    /// [`crate::PieceReader::with_checksums`].
    #[must_use]
    pub fn checksums(&self) -> Option<StreamChecksums> {
        self.sums
    }

    /// The same buffer, of which only `part` is seen.
    ///
    /// # Panics
    /// If `part` is not within the buffer.
    #[must_use]
    pub fn slice(mut self, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= self.range.len(), "the part is in the buffer");
        self.sums = self.sums.filter(|_| part.len() == self.range.len());
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
        let two = arena.acquire(2, Use::Client);
        assert!(arena.try_acquire(2, Use::Client).is_none());
        let waiter = threads::spawn({
            let arena = Arc::clone(&arena);
            move || arena.acquire(3, Use::Client).len()
        });
        drop(two);
        assert_eq!(waiter.join().unwrap(), 3);
        assert_eq!(arena.in_use(), 0);
    }

    /// A client that is slow, or held back, may keep what it has for long: a tape cannot wait for it.
    #[test]
    fn clients_cannot_hold_all_memory_that_tapes_need() {
        for (rows, kept) in [(2, 1), (3, 1), (4, 1), (11, 1), (12, 3), (30, 3)] {
            let arena = Arena::new(4096, rows * 6);
            arena.keep(6, true);
            let mut held = Vec::new();
            while let Some(row) = arena.try_acquire(6, Use::Client) {
                held.push(row);
            }
            assert_eq!(held.len(), rows - kept, "{rows} rows");
            for _ in 0..kept {
                held.push(arena.acquire(6, Use::Stream));
            }
            assert_eq!(arena.in_use(), rows * 6);
        }
    }

    #[test]
    fn clients_of_unknown_pace_leave_half_to_others() {
        // Of twelve rows three are kept for streams: half of the other nine is four.
        for (rows, spare) in [(1, 0), (2, 1), (9, 4), (12, 4)] {
            let arena = Arena::new(4096, rows * 6);
            arena.keep(6, false);
            let held: Vec<_> = std::iter::from_fn(|| arena.try_acquire_spare(6)).collect();
            assert_eq!(held.len(), spare, "{rows} rows");
        }
    }

    #[test]
    fn a_small_arena_keeps_nothing_while_no_stream_runs() {
        let arena = Arena::new(4096, 12);
        arena.keep(6, false);
        let all = [arena.acquire(6, Use::Client), arena.acquire(6, Use::Client)];
        arena.keep(6, true);
        drop(all);
        let _row = arena.acquire(6, Use::Client);
        assert!(arena.try_acquire(6, Use::Client).is_none(), "now the other is a stream's");
        assert!(arena.try_acquire(6, Use::Stream).is_some());
    }

    #[test]
    fn a_row_wider_than_the_share_of_clients_can_still_be_read() {
        let arena = Arena::new(4096, 12);
        arena.keep(6, true);
        let wide = arena.acquire(9, Use::Client);
        assert!(arena.try_acquire(3, Use::Client).is_none());
        assert!(arena.try_acquire(3, Use::Stream).is_some());
        drop(wide);
        assert_eq!(arena.acquire(12, Use::Engine).len(), 12);
    }

    #[test]
    fn a_stream_that_waits_goes_before_clients_that_waited_longer() {
        let arena = Arena::new(4096, 12);
        arena.keep(6, true);
        let client = arena.acquire(6, Use::Client);
        let first = arena.acquire(6, Use::Stream);
        let waiter = threads::spawn({
            let arena = Arc::clone(&arena);
            move || arena.acquire(12, Use::Stream).len()
        });
        while lock(&arena.state).streams_waiting.is_empty() {
            std::thread::yield_now();
        }
        drop(client);
        assert!(arena.try_acquire(6, Use::Client).is_none(), "the stream waits for these");
        drop(first);
        assert_eq!(waiter.join().unwrap(), 12);
    }
}
