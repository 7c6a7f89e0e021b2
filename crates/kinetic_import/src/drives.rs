//! The drives of a cluster as they are asked.

use bytes::Bytes;
use kinetic::KeyRange;
use kineticio::{DriveIndex, Found};

/// Keys that are asked for at a time: what Seagate's simulator gives, and so many of the longest ones are
/// still fewer bytes than an answer may have, so that fewer keys say that there are no more.
pub const KEYS_PER_ANSWER: u32 = 200;

/// What a drive is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// For an entry, with or without its value.
    Get(DriveIndex, Bytes, bool),
    /// For keys.
    Keys(DriveIndex, KeyRange),
}

/// Drives that can be read: the real ones, or a test's.
pub trait Drives: Send + Sync {
    /// How many the cluster has, reachable or not.
    fn count(&self) -> usize;

    /// The entry with a key: [`Found::Entry`], [`Found::Nothing`] or [`Found::Failed`]. Without the value if
    /// that is not wanted.
    fn get(&self, drive: DriveIndex, key: &Bytes, with_value: bool) -> Found;

    /// Keys in order: [`Found::Keys`] or [`Found::Failed`].
    fn key_range(&self, drive: DriveIndex, range: &KeyRange) -> Found;

    /// Asks all of it, at once where it can, and gives the answers in the order of the questions.
    fn ask(&self, queries: &[Query]) -> Vec<Found> {
        let one = |query: &Query| match query {
            Query::Get(drive, key, with_value) => self.get(*drive, key, *with_value),
            Query::Keys(drive, range) => self.key_range(*drive, range),
        };
        queries.iter().map(one).collect()
    }
}
