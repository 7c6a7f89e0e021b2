//! What is in the pool.

use std::collections::BTreeMap;

use base::Duration;

use crate::holdings::Holdings;
use crate::model::{ClassIndex, FileNumber, Site};
use crate::moment::Moment;

/// A file that has left the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The file.
    pub file: FileNumber,
    /// Its size.
    pub bytes: u64,
    /// How long nobody had used it.
    pub untouched: Duration,
}

/// The files in the pool.
pub struct Cache {
    capacity: u64,
    used: u64,
    files: BTreeMap<FileNumber, u64>,
}

impl Cache {
    /// The pool with what is resident at the beginning.
    #[must_use]
    pub fn new(site: &Site, _holdings: &mut Holdings) -> Cache {
        Cache { capacity: site.pool.capacity.0, used: 0, files: BTreeMap::new() }
    }

    /// Whether a file is in the pool.
    #[must_use]
    pub fn contains(&self, file: FileNumber) -> bool {
        self.files.contains_key(&file)
    }

    /// A file is used.
    pub fn touch(&mut self, _now: Moment, _file: FileNumber) {}

    /// A file comes; `safe`: it has all its copies. `false`: there is no room for it, nothing has changed.
    pub fn put_in(&mut self, _now: Moment, file: FileNumber, bytes: u64, _safe: bool) -> bool {
        let fits = self.used + bytes <= self.capacity;
        if fits {
            self.used += bytes;
            self.files.insert(file, bytes);
        }
        fits
    }

    /// The file has all its copies: it may be evicted from now on.
    pub fn made_safe(&mut self, _file: FileNumber) {}

    /// The file stays until it is unpinned as often as it was pinned.
    pub fn pin(&mut self, _file: FileNumber) {}

    /// One pin is taken away; that is a use of the file.
    pub fn unpin(&mut self, _now: Moment, _file: FileNumber) {}

    /// A file goes at once, whatever its state. Whether it was there.
    pub fn drop_file(&mut self, file: FileNumber) -> bool {
        let bytes = self.files.remove(&file);
        self.used -= bytes.unwrap_or(0);
        bytes.is_some()
    }

    /// Evicts what may go and has to.
    pub fn evict(&mut self, _now: Moment, _out: &mut Vec<Evicted>) {}

    /// When [`Cache::evict`] should be called next although nothing changes.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        None
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.capacity - self.used
    }

    /// Bytes that a class may still bring in; `None`: it has no limit of its own.
    #[must_use]
    pub fn free_of(&self, _class: ClassIndex) -> Option<u64> {
        None
    }

    /// Bytes in the pool.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of a class in the pool.
    #[must_use]
    pub fn used_of(&self, _class: ClassIndex) -> u64 {
        0
    }
}
