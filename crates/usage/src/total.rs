//! Days added up, and the figures of all of them.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, Timestamp};

use crate::day::{ClassDay, Counts, Day, DayNumber, Standing, told_apart};
use crate::figures::{
    CacheLife, ClassUsage, Count, Daily, Movement, QUANTILES, SizeBucket, Sizes, Spans, Usage, Window,
};
use crate::files::DistinctFiles;
use crate::histogram::Histogram;
use crate::residency::Uses;
use crate::series::{DAY, HOUR, Moved, Series};
use crate::tracker::Tracker;

/// Distinct files of a class that are told apart, at some 16 bytes each; of more, a sample.
const FILES_MAX: usize = 200_000;

/// Days added up, the oldest first, of all classes or of one.
#[derive(Debug)]
pub struct Total {
    /// Only this class.
    class: Option<String>,
    first: Option<Timestamp>,
    lines: u64,
    dropped: u64,
    damaged: u64,
    newer: u64,
    forgotten: u64,
    sampled: u64,
    standing: Standing,
    classes: BTreeMap<String, Tally>,
    all: Tally,
}

/// The figures of one class while they grow.
#[derive(Debug)]
struct Tally {
    counts: Counts,
    read: DistinctFiles,
    days: Series,
    hours: Series,
    moved: Moved,
}

impl Tally {
    fn new() -> Self {
        Tally {
            counts: Counts::default(),
            read: DistinctFiles::default(),
            days: Series::days(),
            hours: Series::hours(),
            moved: Moved::default(),
        }
    }

    fn add(&mut self, number: DayNumber, day: &ClassDay) {
        self.counts.merge(&day.counts);
        self.read.merge(&day.read, FILES_MAX);
        for (hour, moved) in &day.hours {
            let hours = i64::try_from(*hour).unwrap_or(0).saturating_mul(HOUR);
            let at = Timestamp(number.begin().0.saturating_add(hours));
            self.days.add(at, *moved);
            self.hours.add(at, *moved);
            self.moved.add(*moved);
        }
    }
}

impl Total {
    /// Of no day yet.
    #[must_use]
    pub fn new(class: Option<&str>) -> Self {
        Total {
            class: class.map(str::to_owned),
            first: None,
            lines: 0,
            dropped: 0,
            damaged: 0,
            newer: 0,
            forgotten: 0,
            sampled: 1,
            standing: Standing::default(),
            classes: BTreeMap::new(),
            all: Tally::new(),
        }
    }

    /// Adds a day.
    pub fn add(&mut self, number: DayNumber, day: &Day) {
        self.first = Some(self.first.map_or(day.first, |first| first.min(day.first)));
        self.dropped = self.dropped.saturating_add(day.dropped);
        self.damaged = self.damaged.saturating_add(day.damaged);
        self.newer = self.newer.saturating_add(day.newer);
        self.forgotten = self.forgotten.saturating_add(day.forgotten);
        self.sampled = self.sampled.max(day.sampled);
        if day.standing.pool.is_some() {
            self.standing.clone_from(&day.standing);
        }
        for (name, class) in &day.classes {
            if self.class.as_deref().is_some_and(|only| only != name) {
                continue;
            }
            self.lines = self.lines.saturating_add(class.counts.lines);
            self.all.add(number, class);
            let name = told_apart(&self.classes, name);
            self.classes.entry(name.to_owned()).or_insert_with(Tally::new).add(number, class);
        }
    }

    /// There are lines since then, whether or not of these days.
    pub fn begins(&mut self, first: Option<Timestamp>) {
        self.first = [self.first, first].into_iter().flatten().min();
    }

    /// The days were a tracker's: how things stand is what it knows last.
    pub fn stands(&mut self, tracker: &Tracker) {
        self.begins(tracker.first());
        if tracker.standing().pool.is_some() || !tracker.standing().classes.is_empty() {
            self.standing.clone_from(tracker.standing());
        }
    }

    /// Lines of these days that are damaged, and lines that a newer Kist has written.
    #[must_use]
    pub fn unreadable(&self) -> (u64, u64) {
        (self.damaged, self.newer)
    }

    /// The figures, of this window.
    #[must_use]
    pub fn end(mut self, window: Window) -> Usage {
        let from = self.first.map(|first| first.max(window.since));
        let covered = from.map_or(0, |from| window.until.0.saturating_sub(from.0));
        let days = (covered as f64 / DAY as f64).max(1.0);
        let sampled = self.classes.values().map(|class| class.read.weight()).fold(self.sampled, u64::max);
        let classes: Vec<ClassUsage> = std::mem::take(&mut self.classes)
            .into_iter()
            .map(|(name, tally)| {
                let read = tally.read.count();
                self.class_usage(name, &tally, read, days)
            })
            .collect();
        let read = classes.iter().map(|class| class.files_read).sum();
        let name = self.class.clone().unwrap_or_default();
        let all = self.class_usage(name, &self.all, read, days);
        Usage {
            window,
            from,
            days,
            lines: self.lines,
            dropped: self.dropped,
            pool: self.standing.pool,
            sampled,
            misses_forgotten: self.forgotten,
            all,
            classes,
        }
    }

    fn class_usage(&self, name: String, tally: &Tally, files_read: u64, days: f64) -> ClassUsage {
        let state = self.standing.classes.get(&name);
        let ceiling = state.and_then(|state| state.pool_max);
        let space = match (self.standing.pool, ceiling) {
            (Some(pool), Some(ceiling)) => Some(pool.min(ceiling)),
            (pool, ceiling) => pool.or(ceiling),
        };
        let counts = &tally.counts;
        let uses = uses(counts, days);
        ClassUsage {
            name,
            copies: state.map(|state| state.copies),
            puts: counts.puts,
            gets: counts.gets,
            refused: counts.refused,
            hits: counts.hits,
            misses: counts.misses,
            staged: counts.staged,
            staged_online: counts.staged_online,
            recalled: counts.recalled,
            evicted: counts.evicted,
            deleted: counts.deleted,
            migrated: counts.migrated,
            repacked: counts.repacked,
            files_read,
            sizes_written: sizes(&counts.sizes_written),
            sizes_read: sizes(&counts.sizes_read),
            waits: spans(&counts.waits, Duration::from_millis),
            rereads: spans(&counts.rereads, Duration::from_millis),
            residencies: uses.residencies(),
            for_hit_rates: uses.for_hit_rates(),
            cache: cache_life(tally, space, days),
            movement: movement(tally, days),
        }
    }
}

fn uses(counts: &Counts, days: f64) -> Uses<'_> {
    let (put, read) = (counts.sizes_written.whole, counts.sizes_read.whole);
    let mean = (put.sum as f64 + read.sum as f64) / (put.count as f64 + read.count as f64).max(1.0);
    let reads = counts.hits.files.saturating_add(counts.misses.files);
    Uses { intervals: &counts.rereads, puts: counts.puts.files, reads, mean, days }
}

fn movement(tally: &Tally, days: f64) -> Movement {
    let (day, hour, all) = (tally.days.most(), tally.hours.most(), &tally.moved);
    let daily = |of: fn(&Moved) -> ByteCount| Daily {
        mean: of(all).0 as f64 / days,
        peak_day: of(&day),
        peak_hour: of(&hour),
    };
    let external = all.external().0 as f64;
    let internal = all.recalled.0 as f64 + all.migrated.0 as f64;
    Movement {
        written: daily(|moved| moved.written),
        read: daily(|moved| moved.read),
        recalled: daily(|moved| moved.recalled),
        migrated: daily(|moved| moved.migrated),
        peak_day: tally.days.external_peak(),
        peak_hour: tally.hours.external_peak(),
        internal_factor: (external > 0.0).then(|| (external + internal) / external),
        days: tally.days.rows(),
    }
}

fn cache_life(tally: &Tally, space: Option<ByteCount>, days: f64) -> CacheLife {
    let fill = tally.moved.fill().0 as f64 / days;
    let peak_day = tally.days.fill_peak();
    let fill_peak = peak_day.map_or(fill, |peak| fill.max(peak.bytes.0 as f64));
    let lasts = |fill: f64| space.filter(|_| fill > 0.0).map(|space| space.0 as f64 / fill);
    let (mean_days, least_days) = (lasts(fill), lasts(fill_peak));
    CacheLife { space, fill, fill_peak, peak_day, mean_days, least_days }
}

fn sizes(histogram: &Histogram) -> Option<Sizes> {
    let bytes = |sum: u128| ByteCount(u64::try_from(sum).unwrap_or(u64::MAX));
    let count = Count { files: histogram.whole.count, bytes: bytes(histogram.whole.sum) };
    let bucket = |(power, bucket): (u32, crate::histogram::Bucket)| SizeBucket {
        from: ByteCount(if power == 0 { 0 } else { 1 << power }),
        count: Count { files: bucket.count, bytes: bytes(bucket.sum) },
    };
    Some(Sizes {
        count,
        mean: count.mean()?,
        least: ByteCount(histogram.least),
        most: ByteCount(histogram.most),
        by_count: QUANTILES.map(|share| ByteCount(histogram.quantile(share))),
        by_bytes: QUANTILES.map(|share| ByteCount(histogram.quantile_of_sum(share))),
        buckets: histogram.powers().into_iter().map(bucket).collect(),
    })
}

fn spans(histogram: &Histogram, unit: fn(u64) -> Duration) -> Option<Spans> {
    (histogram.whole.count > 0).then(|| Spans {
        count: histogram.whole.count,
        mean: unit(histogram.whole.mean()),
        most: unit(histogram.most),
        quantiles: QUANTILES.map(|share| unit(histogram.quantile(share))),
    })
}
