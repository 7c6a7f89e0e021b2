//! The device's end of a connection, without a store.
//!
//! [`Device`] is what all connections share: identities, PINs, cluster version, whether it is locked. A
//! [`Connection`] takes frames, refuses what may not be or is wrong, gathers batches, and hands out [`Work`]
//! for a store. The store tells the [`Outcome`], and that becomes the answer. What changes the device itself
//! is handed out, too, to be made durable before it is answered and before it holds.
//!
//! Whoever owns the sockets calls [`Connection::received`] in the order in which frames came, and
//! [`Connection::done`] in any order; a lock around the device is enough between threads.

mod batch;
mod check;
mod connection;
mod device;
mod kept;
mod work;

pub use connection::{Connection, HMAC_FAILURES_MAX, PIN_COMMAND_BYTES_MAX};
pub use device::{Device, DeviceSettings, DeviceState, StateChange};
pub use work::{Action, JobId, Operation, Outcome, RANGE_ANSWER_BYTES_MAX, Work};
