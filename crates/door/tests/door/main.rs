//! The door as a client sees it, over real sockets, with an engine in memory.

mod api;
mod client;
mod data;
mod fake;
mod forged;
mod forged_tokens;
mod http2;
mod limits;
mod metrics;
mod mounted;
mod swapped;
mod tls;
mod works;
