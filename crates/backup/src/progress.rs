//! How far a restore or a rebuild is, for displays.

/// How far a long task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// What is being done, in words.
    pub what: &'static str,
    /// How much of it is done.
    pub done: u64,
    /// How much there is.
    pub total: u64,
    /// Containers, files and packs, that the tapes name which were read so far; 0 for other tasks.
    pub containers: u64,
}

impl Progress {
    pub(crate) fn of(what: &'static str, done: u64, total: u64) -> Self {
        Progress { what, done, total, containers: 0 }
    }
}
