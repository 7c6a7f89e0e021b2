//! Limits of a server, each with its name, and its settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteCount, Duration};
use kinetic::Limits;

use crate::peers::{Clients, Peers};

/// How long TLS may take to be agreed on.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// How long a frame may take from its first byte to its last: 17 kB/s for the longest.
pub const FRAME_WITHIN: Duration = Duration::from_secs(60);
/// How long a client may take none of what is sent to it.
pub const SEND_WITHIN: Duration = Duration::from_secs(60);
/// How long the last words of a connection may take.
pub const LINGER_WITHIN: Duration = Duration::from_secs(2);
/// The same, where the server stops.
pub(crate) const STOP_LINGER: Duration = Duration::from_millis(50);
/// How long a stop waits for what is under way before it cuts connections.
pub const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How long a scan or a cleaning without a deadline goes on before it answers how far it came.
pub const SCAN_WITHIN: Duration = Duration::from_secs(20);
/// Scans and cleanings at a time.
pub const BACKGROUND_MAX: usize = 2;
/// Pushes at a time: each waits for another device.
pub const PUSHES_MAX: usize = 2;
/// How long a push without a deadline may take.
pub const PUSH_WITHIN: Duration = Duration::from_secs(30);
/// Bytes that wait to be sent on a connection before nothing more is read from it.
pub const OUT_BYTES_MAX: usize = 4 << 20;
/// Pieces that are sent with one call.
pub(crate) const GATHER_MAX: usize = 64;
/// Answers that are gathered before they are sent.
pub(crate) const ANSWERS_MAX: usize = 128;
/// Bytes that are read at a time where no long value comes.
pub(crate) const READ_BYTES: usize = 32 << 10;
/// Values from here on are read to where they stay.
pub(crate) const LONG_VALUE_BYTES: usize = 32 << 10;
/// Values up to here are answered as a copy, so that they do not hold a whole buffer of the store.
pub(crate) const COPIED_BYTES_MAX: usize = 16 << 10;
/// What a buffer of the store has beside the value.
pub(crate) const RECORD_BYTES_BESIDE: u64 = 16 << 10;
/// The least memory for values: all batches that may be open, a value of each connection, and some for
/// answers.
pub const MEMORY_MIN: ByteCount = ByteCount::mib(192);
/// Connections beside those that the device accepts: they are told that there are too many.
pub(crate) const REFUSED_CONNECTIONS_MAX: usize = 16;
/// Keys that are looked at before others have a turn.
pub(crate) const WALK_KEYS: usize = 256;

/// How long clients have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// See [`HANDSHAKE_WITHIN`].
    pub handshake: Duration,
    /// See [`FRAME_WITHIN`].
    pub frame: Duration,
    /// See [`SEND_WITHIN`].
    pub send: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { handshake: HANDSHAKE_WITHIN, frame: FRAME_WITHIN, send: SEND_WITHIN }
    }
}

/// How a server behaves.
#[derive(Clone)]
pub struct Settings {
    /// Where it listens without TLS.
    pub plain: Vec<SocketAddr>,
    /// Where it listens with TLS.
    pub tls: Vec<SocketAddr>,
    /// What it speaks TLS with.
    pub tls_config: Option<Arc<rustls::ServerConfig>>,
    /// What it states.
    pub limits: Limits,
    /// Threads that work on the store.
    pub workers: usize,
    /// Memory for values that come and go, of all connections.
    pub memory: ByteCount,
    /// Keys and PINs are set over TLS only.
    pub is_security_over_tls: bool,
    /// How other devices are reached.
    pub peers: Arc<dyn Peers>,
    /// How long clients have.
    pub patience: Patience,
    /// What the store stands on, whose figures are told.
    pub disk: Option<PathBuf>,
    /// Whether it says by multicast that it is there.
    pub is_announced: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            plain: Vec::new(),
            tls: Vec::new(),
            tls_config: None,
            limits: Limits::stated(),
            workers: 8,
            memory: ByteCount::mib(512),
            is_security_over_tls: true,
            peers: Arc::new(Clients::default()),
            patience: Patience::default(),
            disk: None,
            is_announced: false,
        }
    }
}
