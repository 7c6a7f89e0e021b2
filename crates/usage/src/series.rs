//! Bytes by day and by hour.

use std::collections::BTreeMap;

use base::{ByteCount, Timestamp};

/// Nanoseconds of an hour.
pub(crate) const HOUR: i64 = 3_600_000_000_000;
/// Nanoseconds of a day.
pub(crate) const DAY: i64 = 24 * HOUR;
/// Hours that are told apart; older ones are remembered by their peak alone.
const HOURS_OPEN_MAX: usize = 72;
/// Days that are told apart, and given out.
pub const DAYS_MAX: usize = 1_000;

/// What moved in some time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moved {
    /// Written by clients.
    pub written: ByteCount,
    /// Sent to clients.
    pub read: ByteCount,
    /// Read from tape into the pool.
    pub recalled: ByteCount,
    /// Written to tape, each copy by itself, repacks not counted.
    pub migrated: ByteCount,
    /// Of files that were asked for and were not in the pool.
    pub missed: ByteCount,
}

impl Moved {
    /// What clients wrote and read.
    #[must_use]
    pub fn external(&self) -> ByteCount {
        ByteCount(self.written.0.saturating_add(self.read.0))
    }

    /// What came into the cache: `(1 - h) R + W`.
    #[must_use]
    pub fn fill(&self) -> ByteCount {
        ByteCount(self.missed.0.saturating_add(self.written.0))
    }

    fn all(&mut self) -> [&mut ByteCount; 5] {
        [&mut self.written, &mut self.read, &mut self.recalled, &mut self.migrated, &mut self.missed]
    }

    pub(crate) fn add(&mut self, mut other: Moved) {
        for (mine, more) in self.all().into_iter().zip(other.all()) {
            mine.0 = mine.0.saturating_add(more.0);
        }
    }

    fn max(&mut self, mut other: Moved) {
        for (mine, more) in self.all().into_iter().zip(other.all()) {
            *mine = (*mine).max(*more);
        }
    }
}

crate::stored::stored!(Moved { written, read, recalled, migrated, missed });

/// The day or hour in which the most moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Peak {
    /// When it began, in UTC.
    pub begin: Timestamp,
    /// What moved.
    pub bytes: ByteCount,
}

/// Sums by days or hours in UTC.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    width: i64,
    rows_max: usize,
    rows: BTreeMap<i64, Moved>,
    /// The most of each kind in a row that was given up.
    most: Moved,
    /// The peaks of what was given up: of external traffic, and of what came into the cache.
    external: Option<Peak>,
    fill: Option<Peak>,
}

impl Series {
    pub(crate) fn days() -> Self {
        Series::new(DAY, DAYS_MAX)
    }

    pub(crate) fn hours() -> Self {
        Series::new(HOUR, HOURS_OPEN_MAX)
    }

    fn new(width: i64, rows_max: usize) -> Self {
        let (rows, most) = (BTreeMap::new(), Moved::default());
        Series { width, rows_max, rows, most, external: None, fill: None }
    }

    pub(crate) fn add(&mut self, at: Timestamp, moved: Moved) {
        self.rows.entry(at.0.div_euclid(self.width)).or_default().add(moved);
        if self.rows.len() > self.rows_max
            && let Some((row, moved)) = self.rows.pop_first()
        {
            self.most.max(moved);
            let begin = self.begin(row);
            self.external = larger(self.external, Peak { begin, bytes: moved.external() });
            self.fill = larger(self.fill, Peak { begin, bytes: moved.fill() });
        }
    }

    fn begin(&self, row: i64) -> Timestamp {
        Timestamp(row.saturating_mul(self.width))
    }

    pub(crate) fn rows(&self) -> Vec<(Timestamp, Moved)> {
        self.rows.iter().map(|(row, moved)| (self.begin(*row), *moved)).collect()
    }

    /// The most of each kind in one row; not all of the same one.
    pub(crate) fn most(&self) -> Moved {
        let mut most = self.most;
        self.rows.values().for_each(|moved| most.max(*moved));
        most
    }

    pub(crate) fn external_peak(&self) -> Option<Peak> {
        self.peak(self.external, Moved::external)
    }

    pub(crate) fn fill_peak(&self) -> Option<Peak> {
        self.peak(self.fill, Moved::fill)
    }

    fn peak(&self, before: Option<Peak>, of: fn(&Moved) -> ByteCount) -> Option<Peak> {
        let peaks = self.rows.iter().map(|(row, moved)| Peak { begin: self.begin(*row), bytes: of(moved) });
        peaks.fold(before, larger).filter(|peak| peak.bytes.0 > 0)
    }
}

/// The larger one; of equals the earlier.
fn larger(known: Option<Peak>, peak: Peak) -> Option<Peak> {
    known.filter(|known| known.bytes >= peak.bytes).or(Some(peak))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive_the_rows_that_are_given_up() {
        let mut series = Series::hours();
        let moved = |bytes| Moved { written: ByteCount(bytes), ..Moved::default() };
        assert_eq!(series.external_peak(), None);
        for hour in 0..200 {
            let bytes = if hour == 3 { 50 } else { 1 };
            series.add(Timestamp(hour * HOUR + 5), moved(bytes));
            series.add(Timestamp(hour * HOUR + 6), moved(bytes));
        }
        assert_eq!(series.rows().len(), HOURS_OPEN_MAX);
        let peak = Peak { begin: Timestamp(3 * HOUR), bytes: ByteCount(100) };
        assert_eq!((series.external_peak(), series.fill_peak()), (Some(peak), Some(peak)));
        assert_eq!(series.most(), moved(100));
    }
}
