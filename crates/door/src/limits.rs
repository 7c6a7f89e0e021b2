//! Every bound that the door sets to its clients and to itself.

use base::Duration;
use transfer::TransferLimits;

/// All limits of the door. The defaults are for a server with hundreds of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once; a further one is told 503 and closed.
    pub connections: usize,
    /// Requests at once of one principal; a further one is answered 429.
    pub principal_requests: usize,
    /// Bodies of files, over all doors.
    pub transfer: TransferLimits,
    /// Other calls of the engine at once; each has a thread. They are shared as
    /// places for bodies are ([`transfer::Places`]).
    pub calls: usize,
    /// Calls at once that may go through very many files or a whole catalogue, such as stage, cancel, release
    /// and evict: each has a thread, and they do not take the places of the others.
    pub long_calls: usize,
    /// A call over very many files is answered with 202 after this long, if its client takes that, and goes
    /// on: asking again costs little, and a shorter one is better answered at once.
    pub answer_soon: Duration,
    /// Request line and header fields together; more is answered 431.
    pub header_bytes: usize,
    /// Header fields; more are answered 431.
    pub header_count: usize,
    /// Path and query of a request; longer is answered 414.
    pub uri_bytes: usize,
    /// From the opening of a connection, or from the end of a reply, to the end of the next request's header.
    /// It is thus also the longest time that an idle connection is kept, with HTTP/2 too.
    pub header_deadline: Duration,
    /// A JSON body; a longer one is answered 413.
    pub json_bytes: usize,
    /// JSON bodies up to this size are read whatever goes on.
    pub json_small_bytes: usize,
    /// Longer ones, or of unknown length, at once: bounds the memory for them.
    pub json_large_at_once: usize,
    /// A JSON body with a list of paths, whose length is announced, instead of [`Limits::json_bytes`]: a
    /// longer one is answered 413.
    pub json_list_bytes: usize,
    /// Bodies above [`Limits::json_bytes`] at once; with the paths that they are made into they keep their
    /// places until their calls end.
    pub json_lists_at_once: usize,
    /// A whole JSON body has to be there after this long, else 408.
    pub json_deadline: Duration,
    /// Paths in one request; more are answered 413.
    pub paths: usize,
    /// Lines of one page of a listing; `limit=` above it is lowered to it.
    pub page: usize,
    /// Lines of a page if the client names no `limit=`.
    pub page_default: usize,
    /// The buffer of a connection, and so the largest piece of a body that is read at once.
    pub buffer_bytes: usize,
    /// How long and ...
    pub linger: Duration,
    /// ... for how many bytes a closed connection still listens, so that the client gets to read the last
    /// reply.
    pub linger_bytes: u64,
    /// How long requests may still run once the door is asked to stop.
    pub drain: Duration,
    /// Requests a second that one principal may begin over time; more are answered 429. `None`: any number.
    pub requests_per_second: Option<u32>,
    /// A TLS handshake has to be over after this long.
    pub handshake_deadline: Duration,
    /// How often the files of certificates are looked at for changes.
    pub certificate_watch: Duration,
    /// Streams at once of an HTTP/2 connection; the client is told, and a further one is refused.
    pub streams: u32,
    /// Requests that the client of an HTTP/2 connection may take back at once, and ...
    pub resets: u32,
    /// ... the rate at which that allowance comes back; above it the connection is closed.
    pub resets_per_second: u32,
    /// What the client of an HTTP/2 connection may send ahead in one stream ...
    pub stream_window_bytes: u32,
    /// ... and in all streams of it.
    pub connection_window_bytes: u32,
    /// The largest frame of HTTP/2 that is read; 16 KiB to 16 MiB.
    pub frame_bytes: u32,
    /// What waits to be sent in one stream of HTTP/2.
    pub send_buffer_bytes: usize,
    /// After this long without a frame the client of an HTTP/2 connection is asked whether it is there, and
    /// ...
    pub ping_every: Duration,
    /// ... has to answer within this time.
    pub ping_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 2048,
            principal_requests: 512,
            transfer: TransferLimits::default(),
            calls: 64,
            long_calls: 16,
            answer_soon: Duration::from_secs(1),
            header_bytes: 64 << 10,
            header_count: 100,
            uri_bytes: 16 << 10,
            header_deadline: Duration::from_secs(30),
            json_bytes: 16 << 20,
            json_small_bytes: 64 << 10,
            json_large_at_once: 4,
            json_list_bytes: 128 << 20,
            json_lists_at_once: 2,
            json_deadline: Duration::from_secs(60),
            paths: 100_000,
            page: 10_000,
            page_default: 1000,
            buffer_bytes: 512 << 10,
            linger: Duration::from_secs(2),
            linger_bytes: 64 << 20,
            drain: Duration::from_secs(30),
            requests_per_second: None,
            handshake_deadline: Duration::from_secs(10),
            certificate_watch: Duration::from_secs(10),
            streams: 128,
            resets: 200,
            resets_per_second: 20,
            stream_window_bytes: 512 << 10,
            connection_window_bytes: 1 << 20,
            frame_bytes: 64 << 10,
            send_buffer_bytes: 256 << 10,
            ping_every: Duration::from_secs(20),
            ping_deadline: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// Threads for blocking calls of the door's own service and of all transfers, so that admitted work never
    /// waits for a thread.
    #[must_use]
    pub fn blocking_threads(&self) -> usize {
        let calls = self.calls.saturating_add(self.long_calls);
        self.transfer.at_once.saturating_add(calls).max(1)
    }
}
