//! What happened on one day, by storage class: figures that can be added to those of other days.

use std::collections::BTreeMap;

use base::{ByteCount, FileId, Timestamp};

use crate::analysis::{ANALYSIS_CLASSES_MAX, OTHER_CLASSES};
use crate::figures::Count;
use crate::files::DistinctFiles;
use crate::histogram::Histogram;
use crate::series::{DAY, HOUR, Moved};
use crate::stored::{Stored as _, seal, stored, unseal};

/// What a file with the figures of a day begins with.
const DAY_MAGIC: &[u8; 8] = b"KISTUDAY";
/// The version of its content.
const DAY_VERSION: u32 = 1;
/// Distinct files of a class and day that are remembered, at 8 bytes each; of more, a sample.
pub(crate) const DAY_FILES_MAX: usize = 4_096;

/// A day in UTC, counted from 1970-01-01 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DayNumber(pub i64);

impl DayNumber {
    /// The day of a moment.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        DayNumber(at.0.div_euclid(DAY))
    }

    /// Its first moment.
    #[must_use]
    pub fn begin(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(DAY))
    }

    /// The first moment after it.
    #[must_use]
    pub fn end(self) -> Timestamp {
        Timestamp(self.0.saturating_add(1).saturating_mul(DAY))
    }
}

/// The name under which a class is added up: its own as long as there is room.
pub(crate) fn told_apart<'a, T>(classes: &BTreeMap<String, T>, name: &'a str) -> &'a str {
    let others = usize::from(classes.contains_key(OTHER_CLASSES));
    let has_room = classes.len() - others < ANALYSIS_CLASSES_MAX;
    if has_room || classes.contains_key(name) { name } else { OTHER_CLASSES }
}

/// Counts and how values are spread: what adds up.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) lines: u64,
    pub(crate) puts: Count,
    pub(crate) gets: Count,
    pub(crate) refused: u64,
    pub(crate) hits: Count,
    pub(crate) misses: Count,
    pub(crate) staged: Count,
    pub(crate) staged_online: u64,
    pub(crate) recalled: Count,
    pub(crate) evicted: Count,
    pub(crate) deleted: u64,
    pub(crate) migrated: Count,
    pub(crate) repacked: Count,
    pub(crate) sizes_written: Histogram,
    pub(crate) sizes_read: Histogram,
    pub(crate) waits: Histogram,
    pub(crate) rereads: Histogram,
}

stored!(Counts {
    lines,
    puts,
    gets,
    refused,
    hits,
    misses,
    staged,
    staged_online,
    recalled,
    evicted,
    deleted,
    migrated,
    repacked,
    sizes_written,
    sizes_read,
    waits,
    rereads,
});

impl Counts {
    pub(crate) fn merge(&mut self, other: &Counts) {
        let Counts { puts, gets, hits, misses, staged, recalled, evicted, migrated, repacked, .. } = other;
        self.puts.merge(*puts);
        self.gets.merge(*gets);
        self.hits.merge(*hits);
        self.misses.merge(*misses);
        self.staged.merge(*staged);
        self.recalled.merge(*recalled);
        self.evicted.merge(*evicted);
        self.migrated.merge(*migrated);
        self.repacked.merge(*repacked);
        let Counts { lines, refused, staged_online, deleted, .. } = other;
        self.lines = self.lines.saturating_add(*lines);
        self.refused = self.refused.saturating_add(*refused);
        self.staged_online = self.staged_online.saturating_add(*staged_online);
        self.deleted = self.deleted.saturating_add(*deleted);
        let Counts { sizes_written, sizes_read, waits, rereads, .. } = other;
        self.sizes_written.merge(sizes_written);
        self.sizes_read.merge(sizes_read);
        self.waits.merge(waits);
        self.rereads.merge(rereads);
    }
}

/// One class on one day.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct ClassDay {
    pub(crate) counts: Counts,
    /// What moved in each hour of the day in which anything did.
    pub(crate) hours: BTreeMap<u64, Moved>,
    /// Files that were read.
    pub(crate) read: DistinctFiles,
}

stored!(ClassDay { counts, hours, read });

impl ClassDay {
    pub(crate) fn moved(&mut self, at: Timestamp, moved: Moved) {
        let hour = at.0.rem_euclid(DAY) / HOUR;
        self.hours.entry(hour.unsigned_abs()).or_default().add(moved);
    }

    pub(crate) fn reads(&mut self, file: FileId) {
        self.read.add(file, DAY_FILES_MAX);
    }
}

/// How the pool and the classes stood.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Standing {
    /// Bytes of files that the pool takes.
    pub(crate) pool: Option<ByteCount>,
    pub(crate) classes: BTreeMap<String, ClassStanding>,
}

/// How a class was configured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClassStanding {
    pub(crate) copies: u32,
    pub(crate) pool_max: Option<ByteCount>,
}

stored!(Standing { pool, classes });
stored!(ClassStanding { copies, pool_max });

/// What happened on one day.
#[derive(Clone, PartialEq, Debug)]
pub struct Day {
    /// Its first line.
    pub(crate) first: Timestamp,
    pub(crate) lines: u64,
    pub(crate) dropped: u64,
    /// Lines that are damaged, and lines that a newer Kist has written.
    pub(crate) damaged: u64,
    pub(crate) newer: u64,
    /// Misses of which it was forgotten that they wait for their read.
    pub(crate) forgotten: u64,
    /// Each interval between reads stands for up to so many.
    pub(crate) sampled: u64,
    /// At its last line of state, or before it.
    pub(crate) standing: Standing,
    pub(crate) classes: BTreeMap<String, ClassDay>,
}

stored!(Day { first, lines, dropped, damaged, newer, forgotten, sampled, standing, classes });

impl Day {
    pub(crate) fn new(first: Timestamp, standing: Standing) -> Self {
        let classes = BTreeMap::new();
        Day { first, lines: 0, dropped: 0, damaged: 0, newer: 0, forgotten: 0, sampled: 1, standing, classes }
    }

    /// The figures of a class, or of those beyond [`ANALYSIS_CLASSES_MAX`].
    pub(crate) fn class(&mut self, name: &str) -> &mut ClassDay {
        let name = told_apart(&self.classes, name);
        if !self.classes.contains_key(name) {
            self.classes.insert(name.to_owned(), ClassDay::default());
        }
        self.classes.entry(name.to_owned()).or_default()
    }

    /// Lines that were added up.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// As a file: see `docs/format/access-log.md`.
    #[must_use]
    pub fn encode(&self, number: DayNumber) -> Vec<u8> {
        seal(DAY_MAGIC, DAY_VERSION, |out| {
            number.0.put(out);
            self.put(out);
        })
    }

    /// What [`Day::encode`] wrote; `None` of another day, another version, or what is not whole.
    #[must_use]
    pub fn decode(number: DayNumber, file: &[u8]) -> Option<Self> {
        let (written, day) = unseal::<(i64, Day)>(DAY_MAGIC, DAY_VERSION, file)?;
        (written == number.0).then_some(day)
    }
}
