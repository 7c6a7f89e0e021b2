//! What is known of the time: whether it is in doubt, and when it leapt.

use base::{Duration, FileId, Timestamp};

/// The one record of the table `clock`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClockRecord {
    /// When the time was noted last.
    pub noted: Timestamp,
    /// Since when the system's clock and the trusted time contradict each other.
    pub doubted: Option<Timestamp>,
    /// The next start goes back to this time.
    pub planned_back: Option<Timestamp>,
    /// Leaps of the time after a doubt, oldest first.
    pub moves: Vec<TimeMove>,
}

/// A leap of the time. What was made while the time was in doubt carries times that say nothing about its
/// age: it counts as made when the doubt ended, which is the latest that it can be, so that nothing is
/// destroyed for an age that it has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeMove {
    /// Times from there on are in doubt,
    pub since: Timestamp,
    /// and up to there, which was the time before the leap.
    pub before: Timestamp,
    /// The time after the leap.
    pub after: Timestamp,
    /// Files and uploads with lower ids were there before the leap.
    pub below: FileId,
}

impl ClockRecord {
    /// From when on the age of a file or upload counts that was made at `made`.
    #[must_use]
    pub fn age_from(&self, id: FileId, made: Timestamp) -> Timestamp {
        self.moves.iter().fold(made, |made, leap| {
            let is_doubtful = id < leap.below && leap.since <= made && made <= leap.before;
            if is_doubtful { leap.after } else { made }
        })
    }

    /// From when on something waits that has waited since `since`. A time of the future was recorded before
    /// the time was set back.
    #[must_use]
    pub fn waits_from(&self, since: Timestamp, now: Timestamp) -> Timestamp {
        if since <= now {
            return since;
        }
        self.moves.last().map_or(now, |leap| leap.after.min(now))
    }
}

/// How far starts have let the time leap on the word of a system's clock that nobody vouches for. What the
/// time runs on its own is taken off it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeapsBelieved {
    /// By so much, at `at`.
    pub sum: Duration,
    /// After the last one.
    pub at: Timestamp,
}

impl LeapsBelieved {
    /// What is left of it at a later time.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> Duration {
        self.sum.saturating_sub(now.since(self.at))
    }
}
