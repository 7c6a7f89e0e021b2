//! Clusters that an independent writer in Python has written are read byte for byte.

mod damaged;
#[path = "../../../kinetic_client/tests/it/serving.rs"]
mod serving;
mod sockets;
mod whole;
mod written;
