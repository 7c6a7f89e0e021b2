//! The client side of HTTP third-party copy: this server fetches a file from another one ([`Client::pull`])
//! or sends one to it ([`Client::push`]), because a client asked it to.
//!
//! The client chooses the URL. So this crate is first of all a guard: which addresses and ports may be
//! reached at all ([`AddressRules`]), that what was checked is what is connected to, what is told of a
//! failure ([`Error`]), and how much of this server one remote host can take up ([`Limits`], [`Timeouts`]).
//! It knows nothing of the engine; who may ask for a copy, and what becomes of the bytes, is for its caller.

// What comes from another server may be anything.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod address;
mod body;
mod client;
mod connect;
mod connections;
mod digests;
mod error;
mod exchange;
#[doc(hidden)]
pub mod fuzz;
pub mod markers;
mod pull;
mod push;
mod ranges;
mod rate;
mod settings;
mod target;
mod trust;
mod until_head;

pub use address::{AddressRules, Exception, HostPattern, Network, PortRange, RuleError};
pub use body::PullBody;
pub use client::{Client, Net, Wire};
pub use digests::Digests;
pub use error::Error;
pub use pull::{Checksums, Head, Pull, Want};
pub use push::{How, Push};
pub use rate::LowestRate;
pub use settings::{Limits, Settings, Timeouts};
pub use trust::TrustError;
