//! What each stream of the pool gets.

use crate::model::{DataPath, PoolModel};

/// What a stream does with the pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// From tape to the pool: writes on its disks.
    TapeRead,
    /// From the pool to tape: reads.
    TapeWrite,
    /// A client reads a whole file.
    ClientRead,
    /// A client writes a whole file.
    ClientWrite,
    /// A client reads here and there.
    RandomRead,
    /// A client writes here and there.
    RandomWrite,
}

/// The pool's disks, and the ways to and from them, shared by streams.
pub struct Feed {
    read: u64,
    written: u64,
}

impl Feed {
    /// The feed of a pool, without streams.
    #[must_use]
    pub fn new(_pool: &PoolModel, _path: &DataPath) -> Feed {
        Feed { read: 0, written: 0 }
    }

    /// A stream begins that would take so many bytes a second.
    pub fn begin(&mut self, _stream: Stream, _wanted: u64) {}

    /// A stream ends that began with the same arguments.
    pub fn end(&mut self, _stream: Stream, _wanted: u64) {}

    /// What one such stream gets now, bytes a second, at least 1.
    pub fn rate(&mut self, _stream: Stream, wanted: u64) -> u64 {
        wanted.max(1)
    }

    /// Disks and network have so much of their usual capacity from now on; 1.0 is usual.
    pub fn slow(&mut self, _disks: f64, _network: f64) {}

    /// A stream has moved so many bytes: for [`Feed::sums`].
    pub fn moved(&mut self, stream: Stream, bytes: u64) {
        match stream {
            Stream::TapeWrite | Stream::ClientRead | Stream::RandomRead => self.read += bytes,
            Stream::TapeRead | Stream::ClientWrite | Stream::RandomWrite => self.written += bytes,
        }
    }

    /// Bytes read from the disks and written to them so far, parity included.
    #[must_use]
    pub fn sums(&self) -> (u64, u64) {
        (self.read, self.written)
    }
}
