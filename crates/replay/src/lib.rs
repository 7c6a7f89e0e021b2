//! A server's own record, run again in the twin: what was, beside what the twin would have foretold, and what
//! would have been with other drives or other rules.
//!
//! The record is the access log (crate `usage`) and the mounts that were written down; policy and timing are
//! those of the server's configuration. Times are those of the server's clock: a virtual library that is so
//! many times as fast as a real one is so here too.

mod build;
mod compare;
mod figures;
mod hurry;
mod record;
mod roll;
mod run;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_room;
mod words;

pub use figures::{Figures, MountLine, RequestLine, Row};
pub use hurry::find_forced;
pub use record::{Left, Record, Recorder};
pub use run::{Machines, RecordedMount, Replay, ReplayError, Server, ServerLibrary, replay};
pub use words::{html, text};
