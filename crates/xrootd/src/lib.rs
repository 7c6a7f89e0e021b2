//! The XRootD door: a local socket for the plugins of a stock XRootD server (`xrootd/` in the repository),
//! which speak the protocol of docs/reference/xrootd-socket.md. XRootD authenticates; who that is here, and
//! what they may, is decided by `authority`.
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing))]

mod connection;
mod engine;
mod errors;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod names;
mod people;
mod reading;
mod server;
mod settings;
mod staged;
mod staging;
mod window;
mod wire;
mod writing;

pub use engine::Engine;
pub use frame::{
    FRAME_BYTES_MAX, HEADER_BYTES, IO_BYTES_MAX, LIST_ENTRIES_MAX, PATH_BYTES_MAX, PATHS_MAX, SEGMENTS_MAX,
    TOKEN_BYTES_MAX, VERSION,
};
pub use server::{OpenError, Server, open};
pub use settings::{Limits, Nearline, Settings, Space};
