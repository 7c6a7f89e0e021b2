//! How copies are bounded.

use std::path::PathBuf;

use base::{ByteCount, Duration};

use crate::address::AddressRules;
use crate::rate::LowestRate;

/// What a [`Client`](crate::Client) may do. All of it can be replaced while copies run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The authorities that may have signed another server's certificate: files in PEM, or directories of
    /// them such as /etc/grid-security/certificates. Empty: those of the system. Revocation lists are not
    /// read.
    pub authorities: Vec<PathBuf>,
    /// Which servers may be reached.
    pub addresses: AddressRules,
    /// How much may be going on.
    pub limits: Limits,
    /// How long is waited.
    pub timeouts: Timeouts,
}

/// How much may be going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Redirects of one request that are followed. dCache and XRootD redirect once.
    pub redirects: usize,
    /// Bytes of the head of an answer.
    pub header_bytes: usize,
    /// Lines of the head of an answer.
    pub headers: usize,
    /// Connections to all servers together; one caller gets as many as stay free, so half of them at most.
    pub connections: usize,
    /// Connections to one host, by its name; shared likewise.
    pub connections_per_host: usize,
    /// Connections by which one file is fetched at most, whatever the client wishes.
    pub streams: usize,
    /// Memory of one file that is fetched by several connections: what came too early waits in it.
    pub window: ByteCount,
}

/// How long is waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// For a name to be resolved, for a connection, and for TLS: each.
    pub connect: Duration,
    /// For the head of an answer. Another archive may well have to look for the file, or compute its
    /// checksum.
    pub first_byte: Duration,
    /// For `100 Continue`, after which a file is sent without it: some servers do not know it. A redirect
    /// that comes later than this ends the copy.
    pub continue_wait: Duration,
    /// For the answer to a file that was sent to its end: others compute checksums now.
    pub put_answer: Duration,
    /// For the bytes of a file.
    pub lowest: LowestRate,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            redirects: 10,
            header_bytes: 64 << 10,
            headers: 200,
            connections: 512,
            connections_per_host: 128,
            streams: 8,
            window: ByteCount(32 << 20),
        }
    }
}

impl Default for Timeouts {
    /// The lowest rate is that of XRootD's copies: 1 MiB in two minutes.
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(60),
            continue_wait: Duration::from_secs(5),
            put_answer: Duration::from_secs(300),
            lowest: LowestRate { bytes: ByteCount(1 << 20), window: Duration::from_secs(120) },
        }
    }
}
