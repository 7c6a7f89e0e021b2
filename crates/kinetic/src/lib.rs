#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]
//! Open Kinetic: drives that are servers of keys and values.
//!
//! Pure: no I/O, no clock, no threads, no random numbers. [`FrameReader`] takes frames from bytes, [`Client`]
//! and [`server::Connection`] are the two ends of a connection, and whoever owns the socket carries bytes
//! between it and them. Keys, versions and values are slices of the bytes that came: who keeps a small one
//! for long copies it, or keeps the whole frame.
//!
//! What is sent and understood, and where devices differ, is written in `docs/reference/kinetic.md`.

mod access;
mod auth;
pub mod client;
mod code;
mod entry;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod ids;
mod limits;
mod log;
mod message;
pub mod model;
mod push;
mod request;
mod response;
pub mod server;
mod status;
pub mod wire;

pub use access::{Acl, KeyFilter, SCOPES_MAX, Scope};
pub use auth::{HMAC_BYTES, HmacKey, Secret};
pub use client::Client;
pub use code::{
    Algorithm, AuthType, HMAC_SHA1, LogType, MessageType, Permission, PinOperation, PowerLevel, Priority,
    SecurityOperation, SetupOperation, StatusCode, Synchronization,
};
pub use entry::{
    Change, Delete, Metadata, Put, TagCheck, check_batch, check_delete, check_put, check_tag, crc32c_tag,
};
pub use frame::{
    Frame, FrameError, FrameHeader, FrameLimits, FrameReader, FrameValue, HEADER_BYTES, MAGIC,
    MESSAGE_BYTES_MAX, OutFrame, Progress, VALUE_BYTES_MAX, VALUE_BYTES_SKIPPED_MAX,
};
pub use ids::{BatchNumber, ClusterVersion, ConnectionId, Identity, Sequence};
pub use limits::{Bounds, Limits, assumed};
pub use log::{Capacity, Configuration, Interface, Log, Statistics, Temperature, Utilization};
pub use message::{MessageError, Sealed, Sender, Vouched, seal};
pub use push::{HOST_BYTES_MAX, PUSH_DEPTH_MAX, PUSH_OPERATIONS_MAX, Peer, Push, PushOperation, PushOutcome};
pub use request::{Excess, KeyRange, Refusal, Request, SecurityChange, Treatment, Which};
pub use response::{Answer, Entry, Reply, Response};
pub use status::{STATUS_TEXT_BYTES_MAX, Status};

/// The version of the protocol that is spoken. Version 4 is understood.
pub const PROTOCOL_VERSION: &str = "3.0.6";
/// The name of the device log in which a device of ours lists its extensions, one on each line.
pub const EXTENSIONS_LOG: &str = "kist.extensions";
/// The extension by which a GET can ask for a part of a value.
pub const EXTENSION_GET_PART: &str = "get-part/1";
/// Port without TLS.
pub const PORT: u16 = 8123;
/// Port with TLS.
pub const TLS_PORT: u16 = 8443;
