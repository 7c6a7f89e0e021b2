//! The client against servers of every kind, over connections in memory: time is tokio's, and stands still
//! unless all wait.

mod addresses;
mod hostile;
mod loopback;
mod pull;
mod push;
mod several;
mod tls;
mod world;
