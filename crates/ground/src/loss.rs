//! What is about to be lost, for people who decide about it.

use std::fmt;

use base::{ByteCount, Count};

/// What is about to be LOST.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LossForeseen {
    /// So many files.
    pub files: u64,
    /// Uploads in parts that are open and have acknowledged parts that go.
    pub uploads: u64,
    /// The bytes of those files and parts.
    pub bytes: ByteCount,
    /// The first ones.
    pub named: Vec<String>,
}

impl LossForeseen {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.uploads == 0
    }

    /// Adds the bytes of one of them.
    pub fn add_bytes(&mut self, size: ByteCount) {
        self.bytes.0 = self.bytes.0.saturating_add(size.0);
    }
}

impl fmt::Display for LossForeseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: u64, one: &str| {
            let ending = if count == 1 { "" } else { "s" };
            (count > 0).then(|| format!("{} {one}{ending}", Count(count)))
        };
        let counts = [count(self.files, "file"), count(self.uploads, "open upload")];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        let all = self.files.saturating_add(self.uploads);
        let more = if all > self.named.len() as u64 { ", ..." } else { "" };
        write!(f, "{} ({}): {}{more}", counts.join(" and "), self.bytes, self.named.join(", "))
    }
}
