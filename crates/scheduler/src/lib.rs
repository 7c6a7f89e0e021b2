//! What to mount, write and read next, and why everything else waits.
//!
//! Pure: time and events come in, actions go out. The same code runs in the daemon and in the twin.

mod event;
mod policy;

pub use event::{Action, Backlog, Event, SessionEnd, TapeSummary};
pub use policy::{ClassPolicy, Policy, TapePoolPolicy};

/// A tape drive's name.
pub type DriveName = String;
