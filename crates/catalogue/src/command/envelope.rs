//! A command in time.

use base::Timestamp;

use super::Command;

/// A command and the time at which it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The time that all records made by this command carry, and that it decides by: the trusted one, which
    /// the system's clock may be ahead of or behind.
    pub at: Timestamp,
    /// The command.
    pub command: Command,
}

impl Envelope {
    /// The time after it: its own, unless it lets the time leap.
    #[must_use]
    pub fn time_after(&self) -> Timestamp {
        match self.command {
            Command::MoveTimeForward { to } => to,
            _ => self.at,
        }
    }
}
