//! What each stream of the pool gets.
//!
//! A disk has a second of time each second. Streams of tapes and whole files come in large requests, clients'
//! random reads and writes in small ones; a small request always costs a seek, a large one costs a seek with
//! the likelihood that the disk's last request was another stream's: streams stand on disks at random, so it
//! is nothing for a few streams, 0.37 for as many as disks, and towards 1 for more. Disks that do not seek
//! (SSDs) read and write at the same time.
//!
//! Controllers, network and the servers between pool and tape are limits on sums. All is shared by filling
//! up: every stream rises by requests, that is in proportion to the size of its requests, until it has what
//! it wants or something that it needs is used up. With `tape_first` the streams of tapes are filled up
//! before clients, who keep a thirty-second of everything so that none stands still.
//!
//! Left out: which disk a file lies on (all are used alike), caches of controllers beyond not waiting for
//! writes, drives' reordering of requests (a scenario gives the mean seek with it), and rebuilds.

mod fill;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fill::{Costs, Flow, LIMITS, fill_up};
use scenario::model::{DataPath, Disks, PoolModel};

/// What is shared, by index into [`Costs`].
const DISK_TIME: usize = 0;
const DISK_WRITE_TIME: usize = 1;
const CONTROLLER_READ: usize = 2;
const CONTROLLER_WRITE: usize = 3;
const CONTROLLER_TOTAL: usize = 4;
const NETWORK_OUT: usize = 5;
const NETWORK_IN: usize = 6;
const TAPE_PATH: usize = 7;
const TAPE_BACK: usize = 8;
const TAPE_OUT: usize = 9;

/// Of everything, what tape streams leave to clients where they go first.
const CLIENT_SHARE: f64 = 1.0 / 32.0;

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
    /// A client reads here and there, a request at a time.
    RandomRead,
    /// A client writes here and there.
    RandomWrite,
}

impl Stream {
    fn is_tape(self) -> bool {
        matches!(self, Stream::TapeRead | Stream::TapeWrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Stream::RandomRead | Stream::RandomWrite)
    }

    /// Whether it reads from the pool's disks.
    fn reads(self) -> bool {
        matches!(self, Stream::TapeWrite | Stream::ClientRead | Stream::RandomRead)
    }
}

/// The pool's disks, and the ways to and from them, shared by streams.
pub struct Feed {
    pool: PoolModel,
    path: DataPath,
    /// Streams that want the same, and what each of them gets.
    groups: BTreeMap<(Stream, u64), Group>,
    streams: u64,
    is_stale: bool,
    disks: f64,
    network: f64,
    read: u64,
    written: u64,
}

#[derive(Default)]
struct Group {
    count: u64,
    rate: u64,
}

impl Feed {
    /// The feed of a pool, without streams.
    #[must_use]
    pub fn new(pool: &PoolModel, path: &DataPath) -> Feed {
        Feed {
            pool: pool.clone(),
            path: *path,
            groups: BTreeMap::new(),
            streams: 0,
            is_stale: false,
            disks: 1.0,
            network: 1.0,
            read: 0,
            written: 0,
        }
    }

    /// A stream begins that would take so many bytes a second. Streams that want the same share a line of
    /// the account: round what is wanted where drives differ by little.
    pub fn begin(&mut self, stream: Stream, wanted: u64) {
        self.groups.entry((stream, wanted)).or_default().count += 1;
        self.streams += 1;
        self.is_stale = true;
    }

    /// A stream ends that began with the same arguments.
    ///
    /// # Panics
    /// If there is none.
    pub fn end(&mut self, stream: Stream, wanted: u64) {
        let key = (stream, wanted);
        let group = self.groups.get_mut(&key).expect("a stream ends as it began");
        group.count -= 1;
        if group.count == 0 {
            self.groups.remove(&key);
        }
        self.streams -= 1;
        self.is_stale = true;
    }

    /// What one such stream gets now, bytes a second, at least 1. If there is none: what it would get.
    pub fn rate(&mut self, stream: Stream, wanted: u64) -> u64 {
        if self.is_stale {
            self.share();
        }
        if let Some(group) = self.groups.get(&(stream, wanted)) {
            return group.rate;
        }
        self.begin(stream, wanted);
        self.share();
        let rate = self.groups.get(&(stream, wanted)).map_or(1, |group| group.rate);
        self.end(stream, wanted);
        rate
    }

    /// Disks and network have so much of their usual capacity from now on; 1.0 is usual.
    pub fn slow(&mut self, disks: f64, network: f64) {
        self.disks = disks.max(1e-6);
        self.network = network.max(1e-6);
        self.is_stale = true;
    }

    /// A stream has moved so many bytes: for [`Feed::sums`], which stop at the most that a number holds.
    pub fn moved(&mut self, stream: Stream, bytes: u64) {
        if stream.reads() {
            self.read = self.read.saturating_add(bytes);
        } else {
            self.written = self.written.saturating_add(bytes);
        }
    }

    /// Bytes read from the disks and written to them so far, parity included.
    #[must_use]
    pub fn sums(&self) -> (u64, u64) {
        (self.read, (self.written as f64 * self.pool.write_factor) as u64)
    }

    fn share(&mut self) {
        self.is_stale = false;
        let mut left = self.capacities();
        let mut flows: Vec<((Stream, u64), Flow)> =
            self.groups.iter().map(|(key, group)| (*key, self.flow(key.0, key.1, group.count))).collect();
        if self.pool.tape_first {
            let split = flows.partition_point(|((stream, _), _)| stream.is_tape());
            let (tapes, clients) = flows.split_at_mut(split);
            let kept = if clients.is_empty() { 0.0 } else { CLIENT_SHARE };
            let used = fill_up(tapes, left.map(|capacity| capacity * (1.0 - kept)));
            for (left, used) in left.iter_mut().zip(used) {
                *left -= used;
            }
            fill_up(clients, left);
        } else {
            fill_up(&mut flows, left);
        }
        for (key, flow) in flows {
            if let Some(group) = self.groups.get_mut(&key) {
                group.rate = (flow.rate as u64).max(1);
            }
        }
    }

    fn capacities(&self) -> Costs {
        let mut all = [f64::INFINITY; LIMITS];
        if let Some(disks) = &self.pool.disks {
            all[DISK_TIME] = f64::from(disks.count) * self.disks;
            all[DISK_WRITE_TIME] = all[DISK_TIME];
            all[CONTROLLER_READ] = disks.read_limit as f64 * self.disks;
            all[CONTROLLER_WRITE] = disks.write_limit as f64 * self.disks;
            all[CONTROLLER_TOTAL] = disks.total_limit as f64 * self.disks;
        }
        all[NETWORK_OUT] = self.pool.network.total as f64 * self.network;
        all[NETWORK_IN] = all[NETWORK_OUT];
        all[TAPE_PATH] = self.path.total as f64;
        all[TAPE_BACK] = self.path.read.total as f64;
        all[TAPE_OUT] = self.path.write.total as f64;
        all
    }

    /// What a stream costs for each byte a second, and what it would get alone.
    fn flow(&self, stream: Stream, wanted: u64, count: u64) -> Flow {
        let mut cost = [0.0; LIMITS];
        let mut most = wanted as f64;
        let mut request = 1.0;
        if stream.is_tape() {
            // What is read from tape is written to the pool.
            let reads_tape = stream == Stream::TapeRead;
            most = most.min(self.path.stream(reads_tape) as f64);
            cost[TAPE_PATH] = 1.0;
            cost[if reads_tape { TAPE_BACK } else { TAPE_OUT }] = 1.0;
        } else {
            most = most.min(self.pool.network.stream as f64 * self.network);
            cost[if stream.reads() { NETWORK_OUT } else { NETWORK_IN }] = 1.0;
        }
        if let Some(disks) = &self.pool.disks {
            let factor = if stream.reads() { 1.0 } else { self.pool.write_factor.max(1.0) };
            let operations =
                if stream == Stream::RandomWrite { factor.max(disks.small_write_factor) } else { factor };
            let (bytes, seconds) = self.request(disks, stream);
            let is_duplex = disks.seek.is_zero() && !stream.reads();
            cost[if is_duplex { DISK_WRITE_TIME } else { DISK_TIME }] = seconds / bytes * operations;
            cost[if stream.reads() { CONTROLLER_READ } else { CONTROLLER_WRITE }] = factor;
            cost[CONTROLLER_TOTAL] = factor;
            if stream == Stream::RandomRead {
                // It waits for each request before it sends the next one.
                most = most.min(bytes / seconds);
            }
            request = bytes;
        }
        Flow { count: count as f64, most: most.max(1.0), weight: request, cost, rate: 0.0 }
    }

    /// A request of a stream: its bytes, and how long it takes a disk.
    fn request(&self, disks: &Disks, stream: Stream) -> (f64, f64) {
        let request = if stream.is_random() { disks.client_request } else { disks.stream_request };
        let bytes = (request.0 as f64).max(1.0);
        let seeks = match stream.is_random() {
            true => 1.0,
            false => seek_share(self.streams, disks.count),
        };
        (bytes, seeks * disks.seek.as_secs_f64() + bytes / (disks.rate as f64).max(1.0))
    }
}

/// How likely a disk's last request was another stream's than the one that it serves: the mean of
/// `(k - 1) / k` over `k` streams on its disk, the stream itself and a Poisson number of others.
fn seek_share(streams: u64, disks: u32) -> f64 {
    let others = streams.saturating_sub(1) as f64 / f64::from(disks.max(1));
    if others > 0.0 { 1.0 + (-others).exp_m1() / others } else { 0.0 }
}
