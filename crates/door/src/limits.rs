//! Every bound that the door sets to its clients and to itself.

use base::{ByteCount, Duration};

/// All limits of the door. The defaults are for a server with hundreds of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once; a further one is told 503 and closed.
    pub connections: usize,
    /// Requests at once of one principal; a further one is answered 429.
    pub principal_requests: usize,
    /// Bodies of files that are streamed at once, in and out; each has a thread.
    pub transfers: usize,
    /// Downloads at once that hand on the pool's own memory; further ones copy, so that clients that stop
    /// reading cannot hold all of it.
    pub loans: usize,
    /// Other calls of the engine at once; each has a thread.
    pub calls: usize,
    /// How long a request waits for one of the two above before it is answered 503.
    pub admission_wait: Duration,
    /// Request line and header fields together; more is answered 431.
    pub header_bytes: usize,
    /// Header fields; more are answered 431.
    pub header_count: usize,
    /// Path and query of a request; longer is answered 414.
    pub uri_bytes: usize,
    /// From the opening of a connection, or from the end of a reply, to the end of the next request's header.
    /// It is thus also the longest time that an idle connection is kept.
    pub header_deadline: Duration,
    /// A JSON body; a longer one is answered 413.
    pub json_bytes: usize,
    /// JSON bodies up to this size are read whatever goes on.
    pub json_small_bytes: usize,
    /// Longer ones, or of unknown length, at once: bounds the memory for them.
    pub json_large_at_once: usize,
    /// A whole JSON body has to be there after this long, else 408.
    pub json_deadline: Duration,
    /// Paths in one request; more are answered 413.
    pub paths: usize,
    /// Lines of one page of a listing; `limit=` above it is lowered to it.
    pub page: usize,
    /// Lines of a page if the client names no `limit=`.
    pub page_default: usize,
    /// Bytes that a client has to send or take within [`Limits::rate_window`] ...
    pub rate_bytes: ByteCount,
    /// ... of time in which the door waits for it: else 408, or the connection is closed.
    pub rate_window: Duration,
    /// Pieces of a file between the connection and the engine, of at most 1 MiB each.
    pub pieces: usize,
    /// The buffer of a connection, and so the largest piece of a body that is read at once.
    pub buffer_bytes: usize,
    /// How long and ...
    pub linger: Duration,
    /// ... for how many bytes a closed connection still listens, so that the client gets to read the last
    /// reply.
    pub linger_bytes: u64,
    /// How long requests may still run once the door is asked to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 2048,
            principal_requests: 512,
            transfers: 96,
            loans: 6,
            calls: 64,
            admission_wait: Duration::from_secs(10),
            header_bytes: 64 << 10,
            header_count: 100,
            uri_bytes: 16 << 10,
            header_deadline: Duration::from_secs(30),
            json_bytes: 16 << 20,
            json_small_bytes: 64 << 10,
            json_large_at_once: 4,
            json_deadline: Duration::from_secs(60),
            paths: 100_000,
            page: 10_000,
            page_default: 1000,
            rate_bytes: ByteCount::kib(960),
            rate_window: Duration::from_secs(60),
            pieces: 2,
            buffer_bytes: 512 << 10,
            linger: Duration::from_secs(2),
            linger_bytes: 64 << 20,
            drain: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Threads for blocking calls, so that admitted work never waits for a thread.
    #[must_use]
    pub fn blocking_threads(&self) -> usize {
        self.transfers.saturating_add(self.calls).max(1)
    }
}
