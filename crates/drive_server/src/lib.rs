//! A server that makes a disk an Open Kinetic drive: the protocol of `kinetic` on sockets, over a store of
//! `valuelog`.
//!
//! A connection has one thread, which reads, answers what costs nothing, and waits; work for the store is
//! done by a few threads for all connections, and whoever has an answer sends it. Threads and limits are
//! listed in `docs/reference/threads.md`, the protocol in `docs/reference/kinetic.md`.

// What comes from the network is not cast without a look.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod announce;
mod budget;
mod error;
mod figures;
mod format;
mod incoming;
mod limits;
mod link;
mod peers;
mod pool;
mod server;
mod session;
mod state;
mod store;
mod tls;
mod wake;

pub use announce::{EVERY as ANNOUNCED_EVERY, GROUP as ANNOUNCED_TO};
pub use error::{StartError, TlsError};
pub use format::{MakeError, format, place_of};
pub use limits::{
    BACKGROUND_MAX, FRAME_WITHIN, HANDSHAKE_WITHIN, LINGER_WITHIN, MEMORY_MIN, OUT_BYTES_MAX, PUSH_WITHIN,
    PUSHES_MAX, Patience, SCAN_WITHIN, SEND_WITHIN, STOP_WITHIN, Settings,
};
pub use peers::{Clients, PeerLink, Peers, Pusher};
pub use server::{Server, StopHandle};
pub use tls::TlsFiles;
