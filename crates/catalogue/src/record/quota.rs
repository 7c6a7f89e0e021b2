//! How much somebody may keep.

use std::fmt;

use base::{ByteCount, DirId, FileId};

use crate::record::Tally;

/// Whose files a quota counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuotaSubject {
    /// All files below a directory.
    Directory(DirId),
    /// All files of a group (a virtual organisation), wherever they stand; 1 to 64 bytes.
    Group(String),
}

impl fmt::Display for QuotaSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaSubject::Directory(id) => write!(f, "directory {id}"),
            QuotaSubject::Group(group) => write!(f, "group '{group}'"),
        }
    }
}

/// How much a quota allows. Without limits it only counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaLimits {
    /// Bytes in all.
    pub bytes: Option<ByteCount>,
    /// Files in all, links and empty ones among them.
    pub files: Option<u64>,
}

/// How far the first count of a quota's files is. Files from `until` on are counted as they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaCounting {
    /// The first file that was not looked at yet.
    pub next: FileId,
    /// The first file that was made after the quota was set.
    pub until: FileId,
}

/// A quota.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaRecord {
    /// What it allows.
    pub limits: QuotaLimits,
    /// What is used; while files are still being counted, what was counted so far.
    pub used: Tally,
    /// How far the count of the files is that were there before the quota; `None`: it is complete.
    pub counting: Option<QuotaCounting>,
}

impl QuotaRecord {
    /// Whether `used` has to do with a file of this number.
    #[must_use]
    pub fn has_seen(&self, file: FileId) -> bool {
        self.counting.is_none_or(|counting| file < counting.next || file >= counting.until)
    }

    /// What there would be too much of, and its limit, if the use rose by as much; use that does not rise is
    /// never too much.
    #[must_use]
    pub fn excess(&self, files: u64, bytes: u64) -> Option<(&'static str, u64, u64)> {
        let over = |limit: Option<u64>, used: u64, more: u64| {
            limit.filter(|limit| more > 0 && used.saturating_add(more) > *limit).map(|limit| (limit, used))
        };
        let bytes = over(self.limits.bytes.map(|bytes| bytes.0), self.used.bytes.0, bytes);
        let files = over(self.limits.files, self.used.files, files);
        bytes
            .map(|(limit, used)| ("bytes", limit, used))
            .or(files.map(|(limit, used)| ("files", limit, used)))
    }
}
