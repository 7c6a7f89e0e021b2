//! What is remembered of single files, in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, FileId, Timestamp};

/// Files whose recall or refusal waits for its read, in each of two generations, at some 12 bytes each.
const MISSES_MAX: usize = 500_000;
/// Files whose last access is remembered, at some 40 bytes each.
const SEEN_MAX: usize = 200_000;

/// Files that were asked for while they were on tape, and were not read since: the read to come is the same
/// access, and is served from tape.
#[derive(Default, Debug)]
pub(crate) struct OpenMisses {
    young: BTreeSet<FileId>,
    old: BTreeSet<FileId>,
    /// Files that were forgotten for want of memory; a later read of them counts as a hit.
    pub(crate) forgotten: u64,
}

impl OpenMisses {
    /// Remembers a miss; whether it is a new one.
    pub(crate) fn open(&mut self, file: FileId) -> bool {
        if self.old.contains(&file) || !self.young.insert(file) {
            return false;
        }
        if self.young.len() > MISSES_MAX {
            let before = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.forgotten += before.len() as u64;
        }
        true
    }

    /// The file was read, or is no more in the pool; whether a miss had been open.
    pub(crate) fn close(&mut self, file: FileId) -> bool {
        self.young.remove(&file) || self.old.remove(&file)
    }
}

/// When files were last put or read: of all, or as long as they are too many of every second, fourth, eighth.
#[derive(Clone, Default, Debug)]
pub(crate) struct SeenFiles {
    seen: BTreeMap<FileId, Timestamp>,
    /// One file of 2^level is followed.
    level: u32,
}

crate::stored::stored!(OpenMisses { young, old, forgotten });
crate::stored::stored!(SeenFiles { seen, level });

impl SeenFiles {
    /// How many files each one that is followed stands for.
    pub(crate) fn weight(&self) -> u64 {
        1u64.checked_shl(self.level).unwrap_or(u64::MAX)
    }

    /// A file was put.
    pub(crate) fn wrote(&mut self, file: FileId, at: Timestamp) {
        if is_sampled(file, self.level) {
            self.seen.insert(file, at);
            self.thin_out();
        }
    }

    /// A file was read; gives the time since its last put or read, if that is known. `is_first`: it is not
    /// one more range of the same read.
    pub(crate) fn read(&mut self, file: FileId, at: Timestamp, is_first: bool) -> Option<Duration> {
        if !is_sampled(file, self.level) {
            return None;
        }
        let before = self.seen.insert(file, at);
        self.thin_out();
        before.filter(|_| is_first).map(|before| at.since(before))
    }

    fn thin_out(&mut self) {
        while self.seen.len() > SEEN_MAX {
            self.level += 1;
            let level = self.level;
            self.seen.retain(|file, _| is_sampled(*file, level));
        }
    }
}

/// Distinct files: all of them, or as long as they are too many of every second, fourth, eighth. Which ones
/// depends on the file alone, so that those of several days can be put together.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct DistinctFiles {
    files: BTreeSet<FileId>,
    /// One file of 2^level is in it.
    level: u32,
}

crate::stored::stored!(DistinctFiles { files, level });

impl DistinctFiles {
    /// Adds a file; at most `most` are kept.
    pub(crate) fn add(&mut self, file: FileId, most: usize) {
        if is_sampled(file, self.level) {
            self.files.insert(file);
            self.thin_out(most);
        }
    }

    /// Adds those of another one; at most `most` are kept.
    pub(crate) fn merge(&mut self, other: &DistinctFiles, most: usize) {
        if other.level > self.level {
            self.level = other.level;
            self.files.retain(|file| is_sampled(*file, other.level));
        }
        let level = self.level;
        self.files.extend(other.files.iter().filter(|file| is_sampled(**file, level)));
        self.thin_out(most);
    }

    /// About how many there are.
    pub(crate) fn count(&self) -> u64 {
        (self.files.len() as u64).saturating_mul(self.weight())
    }

    /// How many files each one stands for.
    pub(crate) fn weight(&self) -> u64 {
        1u64.checked_shl(self.level).unwrap_or(u64::MAX)
    }

    fn thin_out(&mut self, most: usize) {
        while self.files.len() > most {
            self.level += 1;
            let level = self.level;
            self.files.retain(|file| is_sampled(*file, level));
        }
    }
}

/// Whether a file belongs to the one of 2^level that are followed.
fn is_sampled(file: FileId, level: u32) -> bool {
    level == 0 || level < 64 && mixed(file.0) >> (64 - level) == 0
}

/// Every bit of the result depends on every bit of the number (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_open_until_it_is_read() {
        let mut misses = OpenMisses::default();
        assert!(misses.open(FileId(1)) && !misses.open(FileId(1)));
        assert!(misses.close(FileId(1)) && !misses.close(FileId(1)));
        for file in 0..(3 * MISSES_MAX as u64) {
            assert!(misses.open(FileId(file)));
        }
        assert!(misses.young.len() <= MISSES_MAX && misses.old.len() <= MISSES_MAX + 1);
        assert!(misses.forgotten > 0, "memory is bounded, and says what that cost");
        assert!(misses.close(FileId(3 * MISSES_MAX as u64 - 1)) && !misses.close(FileId(0)));
    }

    #[test]
    fn many_files_are_sampled_without_bias() {
        let mut seen = SeenFiles::default();
        let mut read = [DistinctFiles::default(), DistinctFiles::default()];
        let files = 4 * SEEN_MAX as u64;
        (0..files).for_each(|file| {
            seen.read(FileId(file), Timestamp(0), true);
            read[(file % 2) as usize].add(FileId(file), SEEN_MAX);
        });
        assert!(seen.seen.len() <= SEEN_MAX && seen.weight() >= 4);
        let found = read[0].count();
        assert!(found.abs_diff(files / 2) < files / 50, "{found} of {}", files / 2);
    }

    #[test]
    fn samples_of_days_put_together_are_the_sample_of_all() {
        let (most, mut all, mut whole) = (500, DistinctFiles::default(), DistinctFiles::default());
        for day in 0..20 {
            let mut one = DistinctFiles::default();
            for file in (day * 100)..(day * 100 + 400 * (day % 3)) {
                one.add(FileId(file), most);
                whole.add(FileId(file), most);
            }
            all.merge(&one, most);
        }
        assert_eq!(all, whole);
        assert!(all.weight() > 1, "there were too many for all of them");
    }

    #[test]
    fn further_ranges_are_not_read_again() {
        let mut seen = SeenFiles::default();
        let second = |count: i64| Timestamp(count * 1_000_000_000);
        seen.wrote(FileId(1), second(0));
        assert_eq!(seen.read(FileId(1), second(5), true), Some(Duration::from_secs(5)));
        assert_eq!(seen.read(FileId(1), second(6), false), None);
        assert_eq!(seen.read(FileId(1), second(100), true), Some(Duration::from_secs(94)));
        assert_eq!(seen.read(FileId(2), second(100), true), None);
    }
}
