//! What the scrubber has found and done, for people: like things of one blob in one line with their number,
//! and the files that the pool could not give, as they stand when somebody asks.

use std::collections::{BTreeSet, VecDeque};

use base::{BlobId, FileId};
use catalogue::FileState;
use pool::{BadShard, Finding, LostRow};

use crate::Upkeep;
use crate::lost::path_of;
use ground::ArchiveError;

/// Lines kept of what was found.
const FINDINGS_KEPT: usize = 200;
/// Files kept that the pool could not give, and LOST files that are named.
const FILES_KEPT: usize = 1_000;

/// One thing that was found or done. Those of one blob of which the same is said are one line.
pub(crate) struct Found {
    blob: Option<BlobId>,
    place: String,
    what: String,
}

impl Found {
    /// Something that is no blob's.
    pub(crate) fn other(what: String) -> Self {
        Found { blob: None, place: String::new(), what }
    }

    /// Something of a shard.
    pub(crate) fn of_shard(blob: BlobId, shard: &BadShard, what: &str) -> Self {
        Found { blob: Some(blob), place: shard.to_string(), what: what.to_owned() }
    }

    /// Something that is said of each of many places of a blob.
    pub(crate) fn at(blob: BlobId, place: String, what: &str) -> Self {
        Found { blob: Some(blob), place, what: what.to_owned() }
    }

    /// By itself.
    pub(crate) fn line(&self) -> String {
        self.in_words(1)
    }

    fn in_words(&self, times: u64) -> String {
        let Found { blob, place, what } = self;
        match blob {
            None => what.clone(),
            Some(blob) if times == 1 => format!("blob {blob}, {place}: {what}"),
            Some(blob) => format!("blob {blob}: {what}; {} times, the first: {place}", base::Count(times)),
        }
    }

    fn is_like(&self, other: &Found) -> bool {
        self.blob.is_some() && (self.blob, &self.what) == (other.blob, &other.what)
    }
}

impl From<&Finding> for Found {
    fn from(found: &Finding) -> Self {
        let row = found.row.map(|row| format!(", row {row}")).unwrap_or_default();
        Found::at(found.blob, format!("{}{row}", found.shard), &found.fault.to_string())
    }
}

impl From<&LostRow> for Found {
    fn from(lost: &LostRow) -> Self {
        Found::at(lost.blob, lost.place(), &lost.what())
    }
}

/// What is remembered of the present or last pass.
#[derive(Default)]
pub(crate) struct Findings {
    /// The newest last, each with how often it was found.
    lines: VecDeque<(Found, u64)>,
    /// Files that became NEARLINE since the pool could not give them.
    nearline: BTreeSet<FileId>,
}

impl Findings {
    fn add(&mut self, found: Found) {
        if let Some((_, times)) = self.lines.iter_mut().rev().find(|(other, _)| other.is_like(&found)) {
            *times += 1;
            return;
        }
        if self.lines.len() == FINDINGS_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back((found, 1));
    }

    fn lines(&self) -> Vec<String> {
        self.lines.iter().map(|(found, times)| found.in_words(*times)).collect()
    }
}

impl Upkeep {
    /// Takes note of what was found or done.
    pub(crate) fn found(&self, found: impl IntoIterator<Item = Found>) {
        let mut findings = self.findings();
        found.into_iter().for_each(|found| findings.add(found));
    }

    /// Files have become NEARLINE since the pool could not give them.
    pub(crate) fn note_nearline(&self, files: &[FileId]) {
        let nearline = &mut self.findings().nearline;
        let room = FILES_KEPT.saturating_sub(nearline.len());
        nearline.extend(files.iter().take(room));
    }

    /// A pass begins.
    pub(crate) fn forget_findings(&self) {
        *self.findings() = Findings::default();
    }

    /// What was found and done, one line for the like things of a blob.
    pub(crate) fn findings_told(&self) -> Vec<String> {
        self.findings().lines()
    }

    /// Files that the pool cannot give now: those that are LOST, and those that are NEARLINE since the
    /// scrubber found them damaged. Those that have come back are none.
    pub(crate) fn files_not_given(&self) -> Result<Vec<String>, ArchiveError> {
        let lost = self.first_lost(FILES_KEPT)?;
        let noted: Vec<FileId> = self.findings().nearline.iter().copied().collect();
        let nearline = self.read(|view| {
            let mut nearline = Vec::new();
            for id in noted {
                let file = view.file(id)?;
                if file.is_some_and(|file| file.state == FileState::Live && !file.is_online()) {
                    nearline.push(id);
                }
            }
            Ok(nearline)
        })?;
        let lost = lost.into_iter().map(|file| format!("{} LOST", path_of(self, file)));
        let nearline = nearline.into_iter().map(|file| format!("{} NEARLINE", path_of(self, file)));
        Ok(lost.chain(nearline).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::DriveId;

    /// Story: one file of 300 rows had 300 lines.
    #[test]
    fn like_things_of_a_blob_are_one_line_with_their_number() {
        let mut findings = Findings::default();
        let shard = |shard| BadShard { stripe: 0, shard, drive: DriveId(shard.into()) };
        for row in 0..1_200 {
            let place = format!("{}, row {row}", shard(2));
            findings.add(Found::at(BlobId(7), place, "a block is wrong"));
            findings.add(Found::of_shard(BlobId(8 + row % 2), &shard(1), "repaired"));
        }
        findings.add(Found::of_shard(BlobId(7), &shard(3), "repaired"));
        findings.add(Found::other("a superblock".to_owned()));
        findings.add(Found::other("a superblock".to_owned()));
        let lines = findings.lines();
        let short: Vec<String> =
            lines.iter().map(|line| line.replace("blob 000000000000000", "blob ")).collect();
        assert_eq!(
            short,
            [
                "blob 7: a block is wrong; 1,200 times, the first: stripe 0, shard 2, drive 2, row 0",
                "blob 8: repaired; 600 times, the first: stripe 0, shard 1, drive 1",
                "blob 9: repaired; 600 times, the first: stripe 0, shard 1, drive 1",
                "blob 7, stripe 0, shard 3, drive 3: repaired",
                "a superblock",
                "a superblock",
            ]
        );
        for blob in 0..1_000 {
            findings.add(Found::of_shard(BlobId(blob), &shard(1), "repaired"));
        }
        assert_eq!(findings.lines().len(), FINDINGS_KEPT, "no more than are kept, the newest");
    }
}
