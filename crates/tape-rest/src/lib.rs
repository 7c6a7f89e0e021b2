//! The WLCG Tape REST API, version 1, by which FTS, Rucio and gfal2 have files brought from tape. It is a
//! service that a listener of WebDAV hands all requests to whose path begins with [`ROOT`]. What it means,
//! and what real clients make of it, stands in `docs/reference/tape-rest.md`.

mod address;
mod body;
mod engine;
#[doc(hidden)]
pub mod fuzz;
mod hints;
mod input;
mod output;
mod problem;
mod service;
mod settings;

pub use address::ROOT;
pub use engine::Engine;
pub use service::{NAME, service};
pub use settings::{TapeRestLimits, TapeRestSettings};
