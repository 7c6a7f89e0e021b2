#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::unwrap_used))]
//! A client of Open Kinetic drives, over TCP or TLS, on two threads a drive.
//!
//! [`Link`] is the way to one drive. Any thread gives it requests ([`Link::submit`], [`Link::call`]); many
//! are under way at one time, and each has exactly one outcome. It connects by itself, tries the drive's
//! other addresses, and waits longer after each failure. After a connection that broke it sends reads again,
//! and asks the drive what became of each write before it tells anybody: an answer is what the drive says,
//! never what a connection suggests.

mod desk;
mod frames;
mod link;
mod named;
mod pin;
mod run;
mod settings;
mod stream;
mod trust;

pub use desk::{Answered, CallError, Work};
pub use link::Link;
pub use named::{SECRET_BYTES_MAX, SecretError, read_secret, with_port};
pub use pin::{PIN_WITHIN, pin};
pub use settings::{
    BACK_OFF_MAX, BACK_OFF_MIN, BACKLOG_MAX, CONNECT_WITHIN, DOWN_PATIENCE, LinkSettings, PATIENCE,
    SUBMITTED_BYTES_MAX,
};
pub use trust::{Trust, TrustError};
