//! How the door is set up, and its bounds.

use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteCount, Clock, Duration};
use identity::XrootdTrust;

/// What the pool holds, and what more it takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Space {
    /// Bytes of files that the pool can hold.
    pub total: ByteCount,
    /// Of those, bytes that are free.
    pub free: ByteCount,
}

/// What a client gets that opens a file which is on tape only.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Nearline {
    /// An error at once.
    #[default]
    Refuse,
    /// The file is staged, if the client may, and the client asks again every few seconds until it is there.
    Stall,
}

/// How the door is set up.
#[derive(Clone)]
pub struct Settings {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The user that XRootD runs as; nobody else is spoken to.
    pub uid: u32,
    /// The group that gets the socket; `None`: that of the process.
    pub gid: Option<u32>,
    /// What is believed of XRootD.
    pub trust: XrootdTrust,
    /// Files that are on tape only.
    pub nearline: Nearline,
    /// For how long staged files are pinned.
    pub pin: Duration,
    /// What time it is, for what is made.
    pub clock: Arc<dyn Clock>,
    /// Asks for the room of the pool.
    pub space: Arc<dyn Fn() -> Option<Space> + Send + Sync>,
    /// The bounds.
    pub limits: Limits,
}

/// Bounds of the door, beside those of [`transfer::TransferLimits`] and of single frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections of the plugins at once, each with a thread; further ones are closed.
    pub connections: usize,
    /// Files that are open at once, for reading or writing. Nobody takes all of them ([`transfer::Places`]).
    pub open_files: usize,
    /// Calls with long answers at once: listings, and how requests stand.
    pub long_calls: usize,
    /// How far behind a piece that is missing others of a file may be, in bytes that are kept for it.
    pub window: ByteCount,
    /// Bytes of all such windows together.
    pub windows: ByteCount,
    /// An open file that is not used for this long gives back its place and what the engine holds ready.
    pub pause_after: Duration,
    /// One that is not used for this long is closed in the engine, and opened again when it is read on.
    pub let_go_after: Duration,
    /// The longest that the rest of a frame, or the taking of a reply, may take; then the connection ends.
    pub frame_wait: Duration,
    /// For how long the room of the pool is not asked for again.
    pub space_kept: Duration,
}

impl Default for Limits {
    /// For a site with a thousand jobs.
    fn default() -> Self {
        Limits {
            connections: 1_280,
            open_files: 1_024,
            long_calls: 32,
            window: ByteCount::mib(32),
            windows: ByteCount::mib(256),
            pause_after: Duration::from_millis(250),
            let_go_after: Duration::from_secs(5),
            frame_wait: Duration::from_secs(30),
            space_kept: Duration::from_secs(5),
        }
    }
}
