//! The client against a drive in memory over real sockets.

mod calls;
mod serving;
mod tls;
