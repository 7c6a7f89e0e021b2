//! What to mount, write and read next, and why everything else waits.
//!
//! Pure: time and events come in, actions go out. The same code runs in the daemon and in the twin.

mod chores;
mod decide;
mod drive;
mod event;
mod migration;
pub mod order;
mod policy;
mod reason;
mod recall;
mod scheduler;
mod seal;
mod why;

pub use chores::DRIVE_REST_MAX;
pub use drive::{DriveState, Purpose};
pub use event::{Action, Backlog, Event, SessionEnd, TapeSummary};
pub use policy::{ClassPolicy, Policy, TapePoolPolicy};
pub use reason::Reason;
pub use recall::{COPIES_MAX, STARVATION};
pub use scheduler::Scheduler;

/// A tape drive's name.
pub type DriveName = String;
