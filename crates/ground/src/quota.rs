//! Quotas: whose they are, and one that is exceeded, in the words of users.

use std::fmt;

use base::{ArchivePath, ByteCount};
use catalogue::{QuotaRecord, QuotaSubject, ReadError, View};

use crate::{ArchiveError, Ground};

/// Whose files a quota counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QuotaOf {
    /// All below a directory.
    Directory(ArchivePath),
    /// All of a group: a virtual organisation.
    Group(String),
}

impl fmt::Display for QuotaOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaOf::Directory(path) => write!(f, "{path}"),
            QuotaOf::Group(group) => write!(f, "group '{group}'"),
        }
    }
}

/// How much may still be put into a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLeft {
    /// What the quota that is nearest to its limit counts; `None`: no quota in bytes holds there.
    pub used: Option<ByteCount>,
    /// Bytes of new files, by that quota and the room of the pool.
    pub available: ByteCount,
}

/// A quota, and how it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaInfo {
    /// Whose.
    pub of: QuotaOf,
    /// Its limits, and what is used.
    pub record: QuotaRecord,
}

impl QuotaInfo {
    /// How much of the first count is done, from 0 to 1; 1 once it is complete.
    #[must_use]
    pub fn counted(&self) -> f64 {
        match self.record.counting {
            None => 1.0,
            Some(counting) if counting.until.0 == 0 => 1.0,
            Some(counting) => counting.next.0 as f64 / counting.until.0 as f64,
        }
    }
}

/// A subject in the words of users; `None` if its directory is gone.
pub fn named(view: &View<'_>, subject: QuotaSubject) -> Result<Option<QuotaOf>, ReadError> {
    Ok(match subject {
        QuotaSubject::Group(group) => Some(QuotaOf::Group(group)),
        // One that is being removed with its tree has no path any more.
        QuotaSubject::Directory(id) if view.directory(id)?.is_none() || view.is_in_condemned_tree(id)? => {
            None
        }
        QuotaSubject::Directory(id) => {
            let path = view.path_of_directory(id)?.and_then(|path| ArchivePath::new(&path).ok());
            path.map(QuotaOf::Directory)
        }
    })
}

impl Ground {
    /// A quota that is exceeded, in the words of users.
    pub fn exceeded(&self, subject: QuotaSubject, what: &'static str, limit: u64, used: u64) -> ArchiveError {
        let unnamed = subject.to_string();
        match self.read(|view| named(view, subject)) {
            Ok(of) => {
                let of = of.map_or(unnamed, |of| of.to_string());
                ArchiveError::QuotaExceeded { of, what, limit, used }
            }
            Err(error) => error,
        }
    }
}
