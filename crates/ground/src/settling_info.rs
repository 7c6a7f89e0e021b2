//! How far a restored catalogue was compared with pool and tapes, as displays get it.

use backup::TapeLook;
use base::{Duration, Timestamp, Vid};

/// What is being done about a restore; see `docs/operations.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SettlingStage {
    /// All drives look at the tapes that may be written; none is written before.
    WrittenTapes,
    /// Files are looked for in the pool; nothing is removed from it before.
    Pool,
    /// The labels of all other tapes with data are checked, when drives have nothing better to do.
    OtherTapes,
    /// Files are missing: all other tapes are searched for them.
    Missing,
    /// Not all could be looked at: the next start tries again.
    Unsettled,
    /// The catalogue agrees with pool and tapes.
    Settled,
}

/// How far the settling of a restore is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettlingInfo {
    /// What is being done.
    pub stage: SettlingStage,
    /// When this server began with it.
    pub began: Timestamp,
    /// Tapes to be looked at, as far as is known.
    pub tapes: u64,
    /// Tapes that were looked at.
    pub tapes_done: u64,
    /// Files of before the restore.
    pub files: u64,
    /// Of those, such that were looked for in the pool.
    pub files_done: u64,
    /// How long the present stage takes at the rate so far; `None` as long as nobody can tell.
    pub left: Option<Duration>,
    /// Tapes that may be written that drives look at now.
    pub looking: Vec<TapeLook>,
    /// Tapes that could not be looked at, and decide on files.
    pub unseen: Vec<Vid>,
    /// Disabled tapes that could not be searched for files that nothing else has.
    pub unsearched: Vec<Vid>,
    /// Tapes on which a session was open at the point, and that no library has or that failed too often: all
    /// else is looked at, and when they are back it goes on by itself.
    pub absent: Vec<Vid>,
    /// When it is over, files that no tape but those that were not seen or searched may have: they are
    /// neither LOST nor staged, and nothing is settled.
    pub missing: u64,
    /// Why it cannot go on now; it is tried again.
    pub failing: Option<String>,
}

/// The rest of a stage at the rate so far; `None` as long as nobody can tell.
#[must_use]
pub fn time_left(took: Duration, done: u64, of: u64) -> Option<Duration> {
    let rest = of.checked_sub(done)?;
    let nanos = took.as_nanos().checked_mul(u128::from(rest))?.checked_div(u128::from(done))?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

impl SettlingStage {
    /// Its name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SettlingStage::WrittenTapes => "written-tapes",
            SettlingStage::Pool => "pool",
            SettlingStage::OtherTapes => "other-tapes",
            SettlingStage::Missing => "missing-files",
            SettlingStage::Unsettled => "unsettled",
            SettlingStage::Settled => "settled",
        }
    }

    /// Whether nothing more is done about it in this run of the server.
    #[must_use]
    pub fn is_over(self) -> bool {
        self >= SettlingStage::Unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_by_the_rate_so_far() {
        assert_eq!(time_left(Duration::from_secs(60), 3, 12), Some(Duration::from_secs(180)));
        assert_eq!(time_left(Duration::from_secs(60), 12, 12), Some(Duration::ZERO));
        assert_eq!(time_left(Duration::from_secs(60), 0, 12), None);
        assert_eq!(time_left(Duration::from_secs(60), 13, 12), None);
    }
}
