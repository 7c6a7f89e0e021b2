//! Client and server against each other, in memory.

mod access;
mod batches;
mod client;
mod cut;
mod golden;
mod limits;
mod messages;
mod pins;
mod random;
mod server;
mod statuses;
mod world;
