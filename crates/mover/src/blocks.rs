//! A fixed number of tape blocks that go round between the thread that fills them and the thread that empties
//! them.

use std::sync::Arc;
use std::sync::PoisonError;
use threads::Mutex;
use threads::mpsc::{Receiver, SyncSender, sync_channel};

/// A block's buffer. Goes back to its arena when dropped.
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// How many of the bytes are filled.
    pub(crate) length: usize,
    /// Files whose last byte is in it, or in front of it, and was not counted with an earlier block.
    pub(crate) files_ended: u64,
    home: SyncSender<Vec<u8>>,
}

impl Block {
    pub(crate) fn filled(&self) -> &[u8] {
        assert!(self.length <= self.bytes.len(), "a block holds no more than it has room for");
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn whole(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Appends as much of `from` as fits and gives the rest.
    pub(crate) fn append<'a>(&mut self, from: &'a [u8]) -> &'a [u8] {
        assert!(self.length <= self.bytes.len(), "a block holds no more than it has room for");
        let (now, later) = from.split_at(from.len().min(self.bytes.len() - self.length));
        self.bytes[self.length..self.length + now.len()].copy_from_slice(now);
        self.length += now.len();
        later
    }

    pub(crate) fn append_zeros(&mut self, count: u64) -> u64 {
        let now = usize::try_from(count).unwrap_or(usize::MAX).min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + now].fill(0);
        self.length += now;
        count - now as u64
    }

    pub(crate) fn is_full(&self) -> bool {
        self.length == self.bytes.len()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // The channel has room for every block of the arena; it is closed only when the session is over.
        let _ = self.home.try_send(std::mem::take(&mut self.bytes));
    }
}

/// The blocks of one session.
#[derive(Clone)]
pub(crate) struct BlockArena {
    free: Arc<Mutex<Receiver<Vec<u8>>>>,
    home: SyncSender<Vec<u8>>,
    size: usize,
}

impl BlockArena {
    /// `count` blocks of `size` bytes, at least 4.
    pub(crate) fn new(size: usize, count: usize) -> Self {
        assert!(size > 0, "a block of a tape has bytes");
        let count = count.max(4);
        let (home, free) = sync_channel(count);
        for _ in 0..count {
            home.try_send(vec![0; size]).expect("the channel has room for every block");
        }
        BlockArena { free: Arc::new(Mutex::new(free)), home, size }
    }

    /// An empty block; waits until one is free.
    pub(crate) fn take(&self) -> Block {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = free.recv().expect("the arena itself keeps the channel open");
        assert_eq!(bytes.len(), self.size, "each block that comes back is whole");
        Block { bytes, length: 0, files_ended: 0, home: self.home.clone() }
    }
}
