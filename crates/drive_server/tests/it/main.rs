//! The server over real sockets, with the client of the core.

mod basic;
mod wire;
