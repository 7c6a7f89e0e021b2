//! The disk pool, the network, and the way between pool and tape.

use base::{ByteCount, Duration};

/// The disk pool.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolModel {
    /// Space for files.
    pub capacity: ByteCount,
    /// Above this part of it (percent) files are evicted that may go, least recently used first ...
    pub high_water_percent: u8,
    /// ... down to this part.
    pub low_water_percent: u8,
    /// What the bytes lie on; nothing: as fast as anything wants.
    pub disks: Option<Disks>,
    /// Shards that are written for each byte: (k + m) / k.
    pub write_factor: f64,
    /// Whether tape streams get their rate before clients do. Else all share alike.
    pub tape_first: bool,
    /// The ways in and out.
    pub network: Network,
}

/// Disks behind their controllers, bus and network. Rates are bytes a second.
///
/// A disk serves a request of `n` bytes in `seek + n / rate`. Streams of tapes and whole files come in
/// requests of `stream_request` bytes, clients' random reads and writes in requests of `client_request`.
/// Streams that have a disk to themselves do not seek; `streams + clients` that share one do.
#[derive(Clone, PartialEq, Debug)]
pub struct Disks {
    /// How many.
    pub count: u32,
    /// Of one disk, streaming.
    pub rate: u64,
    /// A mean seek and half a turn; nothing for SSDs.
    pub seek: Duration,
    /// Bytes that a stream moves on a disk before another one has its turn.
    pub stream_request: ByteCount,
    /// Bytes of a client's request on a disk.
    pub client_request: ByteCount,
    /// Controllers or host bus adapters, all together: reads.
    pub read_limit: u64,
    /// The same for writes.
    pub write_limit: u64,
    /// Reads and writes together.
    pub total_limit: u64,
    /// Disk operations for each client's write that does not fill a stripe: 1, or more where parity is read,
    /// changed and written (RAID 5: 4, RAID 6: 6).
    pub small_write_factor: f64,
}

/// Bytes a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// All clients together, in each direction.
    pub total: u64,
    /// One client's stream.
    pub stream: u64,
}

/// What the way between pool and tape costs for each file, and how fast it is at most: a server's processes,
/// transactions and disks, as far as they are not modelled by themselves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DataPath {
    /// The drive waits so long before each file that is read, and does not read ahead meanwhile.
    pub read_file: Duration,
    /// The drive waits so long before each file that is written.
    pub write_file: Duration,
    /// Bytes a second to or from one drive.
    pub stream: u64,
    /// Bytes a second to and from all drives.
    pub total: u64,
    /// The way back alone, from tape to the pool.
    pub read: OneWay,
    /// The way out alone, from the pool to tape.
    pub write: OneWay,
}

/// Bytes a second in one direction between pool and tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneWay {
    /// One drive.
    pub stream: u64,
    /// All drives.
    pub total: u64,
}

impl OneWay {
    /// No limit beside those of both directions.
    pub const FREE: OneWay = OneWay { stream: u64::MAX, total: u64::MAX };
}

impl DataPath {
    /// What one drive's stream gets at most, which reads the tape or writes it.
    #[must_use]
    pub fn stream(&self, reads_tape: bool) -> u64 {
        let way = if reads_tape { self.read } else { self.write };
        self.stream.min(way.stream).max(1)
    }
}
