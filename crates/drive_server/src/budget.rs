//! Memory for values: who wants some and does not get it is woken when there is more.

use std::mem;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use drive::AlignedBuffer;
use threads::{Mutex, MutexGuard};

use crate::wake::Wake;

/// Buffers come in these sizes: whole pages, so that a value goes to the disk without a copy.
const SIZES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Buffers that are kept of each size.
const KEPT_MAX: usize = 32;

/// So many bytes and no more.
pub(crate) struct Budget {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    total: u64,
    free: u64,
    waiting: Vec<Arc<Wake>>,
    kept: [Vec<AlignedBuffer>; SIZES.len()],
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Arc<Budget> {
        Arc::new(Budget { state: Mutex::new(State { total: bytes, free: bytes, ..State::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much of it; or nothing, and `wake` is rung when there is more.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64, wake: &Arc<Wake>) -> Option<Permit> {
        let mut state = self.lock();
        if state.free < bytes {
            if !state.waiting.iter().any(|other| Arc::ptr_eq(other, wake)) {
                state.waiting.push(Arc::clone(wake));
            }
            return None;
        }
        state.free -= bytes;
        Some(Permit { bytes, home: Arc::clone(self) })
    }

    /// A buffer for a value; or nothing, as [`Budget::take`].
    pub(crate) fn buffer(self: &Arc<Self>, bytes: usize, wake: &Arc<Wake>) -> Option<ValueBuffer> {
        let size = SIZES.iter().position(|size| bytes <= *size)?;
        let permit = self.take(SIZES[size] as u64, wake)?;
        let kept = self.lock().kept[size].pop();
        let buffer = kept.unwrap_or_else(|| AlignedBuffer::new(SIZES[size]));
        Some(ValueBuffer { buffer: Some(buffer), bytes, size, permit })
    }

    /// What is taken.
    pub(crate) fn taken(&self) -> u64 {
        let state = self.lock();
        state.total - state.free
    }

    fn give_back(&self, bytes: u64) {
        let mut state = self.lock();
        state.free += bytes;
        assert!(state.free <= state.total, "no more is given back than was taken");
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(|wake| wake.ring());
    }
}

/// A share of a budget, given back when it is dropped.
pub(crate) struct Permit {
    bytes: u64,
    home: Arc<Budget>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.home.give_back(self.bytes);
    }
}

/// Where a value is read to.
pub(crate) struct ValueBuffer {
    buffer: Option<AlignedBuffer>,
    bytes: usize,
    size: usize,
    permit: Permit,
}

impl ValueBuffer {
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer.as_mut_slice()[..bytes])
    }

    /// As a value, whose memory is used again when nobody has it any more.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ValueBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.as_slice()[..self.bytes])
    }
}

impl Drop for ValueBuffer {
    fn drop(&mut self) {
        let mut state = self.permit.home.lock();
        let kept = &mut state.kept[self.size];
        if let Some(buffer) = self.buffer.take().filter(|_| kept.len() < KEPT_MAX) {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let (budget, wake) = (Budget::new(100), Arc::new(Wake::new().unwrap()));
        let all = budget.take(100, &wake).unwrap();
        assert!(budget.take(1, &wake).is_none() && budget.take(1, &wake).is_none());
        assert_eq!(budget.lock().waiting.len(), 1, "it waits once");
        drop(all);
        assert!(budget.lock().waiting.is_empty(), "it was woken");
        let part = budget.take(60, &wake).unwrap();
        assert!(budget.take(41, &wake).is_none());
        assert_eq!(budget.taken(), 60);
        drop((part, budget.take(40, &wake).unwrap()));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn buffers_are_used_again() {
        let (budget, wake) = (Budget::new(3 << 20), Arc::new(Wake::new().unwrap()));
        let mut buffer = budget.buffer(70_000, &wake).unwrap();
        buffer.bytes_mut().fill(7);
        let value = buffer.into_bytes();
        assert_eq!((value.len(), value[69_999]), (70_000, 7));
        assert_eq!(value.as_ptr().align_offset(drive::PAGE), 0);
        let at = value.as_ptr();
        assert_eq!(budget.taken(), 256 << 10);
        drop(value);
        assert_eq!(budget.taken(), 0);
        assert_eq!(budget.buffer(100_000, &wake).unwrap().into_bytes().as_ptr(), at);
        assert!(budget.buffer((1 << 20) + 1, &wake).is_none(), "no value is longer");
    }
}
