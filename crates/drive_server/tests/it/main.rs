//! The server over real sockets, with the client of the core.

mod basic;
mod commands;
mod crash;
mod cut;
mod hostile;
mod tls;
mod wire;
