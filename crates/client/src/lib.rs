//! What talks to a server: where it is and which key opens it, whom it trusts, its requests, whole trees on
//! their way up and down, and a server of one's own as a child process.
//!
//! It knows the types on the wire, and nothing of what the server is made of.

// Both panic when nobody reads; see `terminal::output`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod access;
mod child;
mod connection;
mod place;
mod request;
mod trust;
mod watched;

pub mod transfer;

pub use child::Server;
pub use connection::Connection;
pub use place::{
    ADMIN_KEY_FILE, DEFAULT_DIRECTORY, INSTANCE_FILE, RUN_KEY_FILE, SERVER_FILE, ServerFile, is_instance,
};
pub use request::{ATTEMPTS, Attempt, Client, LIST_PAGE, archive_path, join, retry};
pub use trust::{Trust, tls_of_a_server};
pub use watched::Watched;
