//! Adding the log up, line by line, in bounded memory.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, FileId, Timestamp};

use crate::access::{Access, ClassState, Get, What};
use crate::figures::{
    CacheLife, ClassUsage, Count, Daily, Movement, QUANTILES, Rereads, SizeBucket, Sizes, Spans, Usage,
    Window,
};
use crate::files::{OpenMisses, SeenFiles};
use crate::histogram::Histogram;
use crate::reads::Reads;
use crate::series::{DAY, Moved, Series};

/// Classes that are told apart; further ones are added up as [`OTHER_CLASSES`].
pub const ANALYSIS_CLASSES_MAX: usize = 256;
/// The name under which classes beyond [`ANALYSIS_CLASSES_MAX`], and lines without a class, are added up.
pub const OTHER_CLASSES: &str = "(other)";
/// The residencies of which [`Rereads::within`] tells.
const RESIDENCIES: [u64; 8] =
    [3_600, 6 * 3_600, 86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400, 90 * 86_400];
/// The class of what is added up in all.
const ALL: u16 = u16::MAX;

/// Adds lines up. They should come in the order of their times; a little disorder does no harm.
///
/// Memory is bounded by the limits of this crate, whatever the log's length: some 70 MB at most.
#[derive(Debug)]
pub struct Analysis {
    window: Window,
    /// Only this class.
    class: Option<String>,
    first: Option<Timestamp>,
    lines: u64,
    dropped: u64,
    pool: Option<ByteCount>,
    states: BTreeMap<String, ClassState>,
    numbers: BTreeMap<String, u16>,
    tallies: BTreeMap<u16, Tally>,
    misses: OpenMisses,
    reads: Reads,
    seen: SeenFiles,
}

/// The figures of one class while they grow.
#[derive(Debug)]
struct Tally {
    puts: Count,
    gets: Count,
    refused: u64,
    hits: Count,
    misses: Count,
    staged: Count,
    staged_online: u64,
    recalled: Count,
    evicted: Count,
    deleted: u64,
    migrated: Count,
    repacked: Count,
    sizes_written: Histogram,
    sizes_read: Histogram,
    waits: Histogram,
    rereads: Histogram,
    days: Series,
    hours: Series,
    moved: Moved,
}

impl Tally {
    fn new() -> Self {
        let none = Count::default();
        Tally {
            puts: none,
            gets: none,
            refused: 0,
            hits: none,
            misses: none,
            staged: none,
            staged_online: 0,
            recalled: none,
            evicted: none,
            deleted: 0,
            migrated: none,
            repacked: none,
            sizes_written: Histogram::default(),
            sizes_read: Histogram::default(),
            waits: Histogram::default(),
            rereads: Histogram::default(),
            days: Series::days(),
            hours: Series::hours(),
            moved: Moved::default(),
        }
    }

    fn moved(&mut self, at: Timestamp, moved: Moved) {
        self.days.add(at, moved);
        self.hours.add(at, moved);
        self.moved.add(moved);
    }
}

impl Analysis {
    /// Of a window, of all classes or of one.
    #[must_use]
    pub fn new(window: Window, class: Option<&str>) -> Self {
        Analysis {
            window,
            class: class.map(str::to_owned),
            first: None,
            lines: 0,
            dropped: 0,
            pool: None,
            states: BTreeMap::new(),
            numbers: BTreeMap::new(),
            tallies: BTreeMap::from([(ALL, Tally::new())]),
            misses: OpenMisses::default(),
            reads: Reads::default(),
            seen: SeenFiles::default(),
        }
    }

    /// The figures of all `records` in a window.
    #[must_use]
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Access>, window: Window) -> Usage {
        let mut analysis = Analysis::new(window, None);
        records.into_iter().for_each(|access| analysis.add(access));
        analysis.end()
    }

    /// Adds a line. What is outside of the window is left out, but for lines of state before it.
    pub fn add(&mut self, access: &Access) {
        if access.at >= self.window.until {
            return;
        }
        self.first = Some(self.first.map_or(access.at, |first| first.min(access.at)));
        match &access.what {
            What::Start(start) => self.pool = Some(start.pool),
            What::Class(state) => {
                let name = access.class.clone().unwrap_or_default();
                if self.states.len() < ANALYSIS_CLASSES_MAX || self.states.contains_key(&name) {
                    self.states.insert(name, state.clone());
                }
            }
            _ => {}
        }
        let is_left_out = access.is_state() || access.at < self.window.since;
        if is_left_out {
            return;
        }
        if let What::Dropped { count } = access.what {
            self.dropped = self.dropped.saturating_add(count);
            return;
        }
        let class = access.class.as_deref().unwrap_or(OTHER_CLASSES);
        if self.class.as_deref().is_some_and(|only| only != class) {
            return;
        }
        self.lines += 1;
        let class = self.number(class);
        self.count(class, access);
    }

    fn number(&mut self, class: &str) -> u16 {
        if let Some(number) = self.numbers.get(class) {
            return *number;
        }
        let class = if self.numbers.len() < ANALYSIS_CLASSES_MAX { class } else { OTHER_CLASSES };
        let next = self.numbers.len() as u16;
        *self.numbers.entry(class.to_owned()).or_insert(next)
    }

    /// Changes the figures of a class and those of all.
    fn both(&mut self, class: u16, change: impl Fn(&mut Tally)) {
        for number in [class, ALL] {
            change(self.tallies.entry(number).or_insert_with(Tally::new));
        }
    }

    fn count(&mut self, class: u16, access: &Access) {
        let at = access.at;
        match &access.what {
            What::Put(put) => {
                self.seen.put(put.file, at, class);
                self.both(class, |tally| {
                    tally.puts.add(put.bytes);
                    tally.sizes_written.add(put.bytes.0, 1);
                    tally.moved(at, Moved { written: put.bytes, ..Moved::default() });
                });
            }
            What::Get(get) => self.count_get(class, at, get),
            What::Stage(stage) => {
                self.both(class, |tally| {
                    tally.staged.add(stage.bytes);
                    tally.staged_online += u64::from(stage.online);
                });
                if !stage.online {
                    self.miss(class, at, stage.file, stage.bytes);
                }
            }
            What::Recalled(recalled) => {
                // One that nobody asked for came along with its pack, and is no access. The others were
                // counted when they were asked for, if that was in the window.
                let asked = recalled.wait.map(|wait| Timestamp(at.0.saturating_sub(nanos(wait))));
                let begin = self.first.map_or(self.window.since, |first| first.max(self.window.since));
                if asked.is_some_and(|asked| asked < begin) {
                    self.miss(class, at, recalled.file, recalled.bytes);
                }
                self.both(class, |tally| {
                    tally.recalled.add(recalled.bytes);
                    if let Some(wait) = recalled.wait {
                        tally.waits.add(millis(wait), 1);
                    }
                    tally.moved(at, Moved { recalled: recalled.bytes, ..Moved::default() });
                });
            }
            What::Evicted(file) => {
                self.misses.close(file.file);
                self.reads.forget(file.file);
                self.both(class, |tally| tally.evicted.add(file.bytes.unwrap_or_default()));
            }
            What::Deleted(file) => {
                self.misses.close(file.file);
                self.reads.forget(file.file);
                self.both(class, |tally| tally.deleted += 1);
            }
            What::Migrated(migrated) => self.both(class, |tally| {
                if migrated.repack {
                    tally.repacked.add(migrated.length);
                } else {
                    tally.migrated.add(migrated.length);
                    tally.moved(at, Moved { migrated: migrated.length, ..Moved::default() });
                }
            }),
            _ => {}
        }
    }

    fn count_get(&mut self, class: u16, at: Timestamp, get: &Get) {
        if !get.online {
            self.both(class, |tally| tally.refused += 1);
            return self.miss(class, at, get.file, get.bytes);
        }
        let from_tape = self.misses.close(get.file);
        let part = self.reads.get(at, get, from_tape);
        let since = self.seen.read(get.file, at, class, part.is_first);
        let weight = self.seen.weight();
        self.both(class, |tally| {
            tally.gets.add(get.sent);
            // A miss was counted with the file's size when somebody wanted it.
            if part.is_hit {
                tally.hits.files = tally.hits.files.saturating_add(u64::from(part.is_first));
                tally.hits.bytes = ByteCount(tally.hits.bytes.0.saturating_add(part.bytes.0));
            }
            if part.is_hit && part.is_first {
                tally.sizes_read.add(get.bytes.0, 1);
            }
            if let Some(since) = since {
                tally.rereads.add(millis(since), weight);
            }
            tally.moved(at, Moved { read: get.sent, ..Moved::default() });
        });
    }

    /// Somebody wants a file that is on tape; once until it is read.
    fn miss(&mut self, class: u16, at: Timestamp, file: FileId, bytes: ByteCount) {
        if self.misses.open(file) {
            self.both(class, |tally| {
                tally.misses.add(bytes);
                tally.sizes_read.add(bytes.0, 1);
                tally.moved(at, Moved { missed: bytes, ..Moved::default() });
            });
        }
    }

    /// The figures.
    #[must_use]
    pub fn end(mut self) -> Usage {
        let from = self.first.map(|first| first.max(self.window.since));
        let covered = from.map_or(0, |from| self.window.until.0.saturating_sub(from.0));
        let days = (covered as f64 / DAY as f64).max(1.0);
        let all = self.tallies.remove(&ALL).unwrap_or_else(Tally::new);
        let names: Vec<(String, u16)> =
            self.numbers.iter().map(|(name, number)| (name.clone(), *number)).collect();
        let mut classes = Vec::with_capacity(names.len());
        for (name, number) in names {
            let Some(tally) = self.tallies.remove(&number) else { continue };
            let read = self.seen.read_files(number);
            classes.push(self.class_usage(name, tally, read, days));
        }
        let read = classes.iter().map(|class| class.files_read).sum();
        let name = self.class.clone().unwrap_or_default();
        let all = self.class_usage(name, all, read, days);
        Usage {
            window: self.window,
            from,
            days,
            lines: self.lines,
            dropped: self.dropped,
            pool: self.pool,
            sampled: self.seen.weight(),
            misses_forgotten: self.misses.forgotten,
            all,
            classes,
        }
    }

    fn class_usage(&self, name: String, tally: Tally, files_read: u64, days: f64) -> ClassUsage {
        let state = self.states.get(&name);
        let ceiling = state.and_then(|state| state.pool_max);
        let space = match (self.pool, ceiling) {
            (Some(pool), Some(ceiling)) => Some(pool.min(ceiling)),
            (pool, ceiling) => pool.or(ceiling),
        };
        ClassUsage {
            name,
            copies: state.map(|state| u32::try_from(state.pools.len()).unwrap_or(u32::MAX)),
            puts: tally.puts,
            gets: tally.gets,
            refused: tally.refused,
            hits: tally.hits,
            misses: tally.misses,
            staged: tally.staged,
            staged_online: tally.staged_online,
            recalled: tally.recalled,
            evicted: tally.evicted,
            deleted: tally.deleted,
            migrated: tally.migrated,
            repacked: tally.repacked,
            files_read,
            sizes_written: sizes(&tally.sizes_written),
            sizes_read: sizes(&tally.sizes_read),
            waits: spans(&tally.waits, Duration::from_millis),
            rereads: rereads(&tally.rereads),
            cache: cache_life(&tally, space, days),
            movement: movement(&tally, days),
        }
    }
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

fn rereads(histogram: &Histogram) -> Option<Rereads> {
    let spans = spans(histogram, Duration::from_millis)?;
    let share = |seconds: &u64| histogram.below(*seconds * 1_000) as f64 / histogram.whole.count as f64;
    let within = RESIDENCIES.iter().map(|seconds| (Duration::from_secs(*seconds), share(seconds)));
    Some(Rereads { spans, within: within.collect() })
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
