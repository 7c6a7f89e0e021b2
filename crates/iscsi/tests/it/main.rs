//! The initiator on the target, both with hostile peers, and both with strangers.

mod hostile_client;
mod hostile_target;
mod loopback;
mod raw;
mod stranger;
mod strangers;
mod trouble;
mod unit;
