//! What the analysis finds: plain data.

use base::{ByteCount, Duration, Timestamp};

use crate::residency::Residency;
use crate::series::{Moved, Peak};

/// The shares of which quantiles are given.
pub const QUANTILES: [f64; 5] = [0.1, 0.25, 0.5, 0.9, 0.99];

/// From when on and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first moment that belongs to it.
    pub since: Timestamp,
    /// The first that does not any more.
    pub until: Timestamp,
}

/// Files and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: ByteCount,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: ByteCount) {
        self.files += 1;
        self.bytes.0 = self.bytes.0.saturating_add(bytes.0);
    }

    pub(crate) fn merge(&mut self, other: Count) {
        self.files = self.files.saturating_add(other.files);
        self.bytes.0 = self.bytes.0.saturating_add(other.bytes.0);
    }

    /// The mean size, rounded down; `None` of none.
    #[must_use]
    pub fn mean(&self) -> Option<ByteCount> {
        self.bytes.0.checked_div(self.files).map(ByteCount)
    }
}

crate::stored::stored!(Count { files, bytes });

/// Files of one power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeBucket {
    /// Files from this size on and below twice as much.
    pub from: ByteCount,
    /// They.
    pub count: Count,
}

/// How large files are. Quantiles are at most an eighth off; the rest is exact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// All of them.
    pub count: Count,
    /// Their mean.
    pub mean: ByteCount,
    /// The smallest.
    pub least: ByteCount,
    /// The largest.
    pub most: ByteCount,
    /// The sizes that the shares of [`QUANTILES`] of the files do not exceed.
    pub by_count: [ByteCount; 5],
    /// The sizes up to which files hold the shares of [`QUANTILES`] of the bytes.
    pub by_bytes: [ByteCount; 5],
    /// By powers of two, those without files left out.
    pub buckets: Vec<SizeBucket>,
}

/// How long something lasts. Quantiles are at most an eighth off; the rest is exact but for a millisecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spans {
    /// How many; of what is sampled, about how many.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// The longest.
    pub most: Duration,
    /// What the shares of [`QUANTILES`] of them do not exceed.
    pub quantiles: [Duration; 5],
}

/// One kind of movement.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Daily {
    /// Bytes a day, on the mean of all days.
    pub mean: f64,
    /// Bytes of the day with the most.
    pub peak_day: ByteCount,
    /// Bytes of the hour with the most.
    pub peak_hour: ByteCount,
}

/// What moved each day; days and hours are those of UTC.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Movement {
    /// Written by clients.
    pub written: Daily,
    /// Sent to clients.
    pub read: Daily,
    /// Read from tape into the pool.
    pub recalled: Daily,
    /// Written to tape, each copy by itself, repacks not counted.
    pub migrated: Daily,
    /// The day on which clients wrote and read most.
    pub peak_day: Option<Peak>,
    /// The hour in which they did.
    pub peak_hour: Option<Peak>,
    /// All internal and external traffic over what clients wrote and read: 2 if each byte that a client
    /// writes goes to tape once.
    pub internal_factor: Option<f64>,
    /// Each of the newest [`crate::DAYS_MAX`] days on which anything moved.
    pub days: Vec<(Timestamp, Moved)>,
}

/// How long a file stays in the pool: `C / ((1 - h) R + W)`. A lower bound: every read and write is taken to
/// touch another file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CacheLife {
    /// C: the pool space of the class, or all of the pool; `None` if the log does not say.
    pub space: Option<ByteCount>,
    /// `(1 - h) R + W`, bytes a day on the mean.
    pub fill: f64,
    /// The same on the day with the most, or the mean if that is more.
    pub fill_peak: f64,
    /// The day with the most.
    pub peak_day: Option<Peak>,
    /// Days at the mean.
    pub mean_days: Option<f64>,
    /// Days at the peak: the shortest.
    pub least_days: Option<f64>,
}

/// One class, or all of them.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassUsage {
    /// Its name; empty of all.
    pub name: String,
    /// Tape copies that it asks for; `None` if the log does not say.
    pub copies: Option<u32>,
    /// New versions.
    pub puts: Count,
    /// Gets that were served, and the bytes sent.
    pub gets: Count,
    /// Gets that were refused, since the file was on tape only.
    pub refused: u64,
    /// Reads that the pool served, without a recall before; and the bytes sent, of each read at most the size
    /// of its file. Ranges of a file that follow each other within a minute are one read.
    pub hits: Count,
    /// Reads for which a file had to come from tape: each refusal, request or recall together with the read
    /// that follows it; and the sizes of the files.
    pub misses: Count,
    /// Files of recall requests.
    pub staged: Count,
    /// Of those, such as the pool had already.
    pub staged_online: u64,
    /// Files that came back from tape.
    pub recalled: Count,
    /// Files that left the pool.
    pub evicted: Count,
    /// Versions that lost their name.
    pub deleted: u64,
    /// Containers written to tape, each copy by itself.
    pub migrated: Count,
    /// Containers that a repack wrote.
    pub repacked: Count,
    /// About how many distinct files were read.
    pub files_read: u64,
    /// How large new files are.
    pub sizes_written: Option<Sizes>,
    /// How large the files of hits and misses are.
    pub sizes_read: Option<Sizes>,
    /// How long recalled files had been wanted.
    pub waits: Option<Spans>,
    /// How long after a put or read of a file it is read again.
    pub rereads: Option<Spans>,
    /// What the pool would serve if files stayed for so long; empty if nothing was read again.
    pub residencies: Vec<Residency>,
    /// How long files would have to stay for such hit rates; `None` if not even to keep all gives one.
    pub for_hit_rates: Vec<(f64, Option<Residency>)>,
    /// What moved.
    pub movement: Movement,
    /// How long files stay.
    pub cache: CacheLife,
}

impl ClassUsage {
    /// Reads, by files and by bytes.
    #[must_use]
    pub fn accesses(&self) -> Count {
        let files = self.hits.files + self.misses.files;
        Count { files, bytes: ByteCount(self.hits.bytes.0.saturating_add(self.misses.bytes.0)) }
    }

    /// The share of reads that the pool served, 0 to 1; `None` without reads.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        share(self.hits.files, self.accesses().files)
    }

    /// h: the same by bytes.
    #[must_use]
    pub fn hit_rate_bytes(&self) -> Option<f64> {
        share(self.hits.bytes.0, self.accesses().bytes.0)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What users did in a window, and what follows.
#[derive(Clone, PartialEq, Debug)]
pub struct Usage {
    /// The window.
    pub window: Window,
    /// Since when there are lines of it; `None` without lines.
    pub from: Option<Timestamp>,
    /// Days from then to its end, at least one: what means a day are over.
    pub days: f64,
    /// Lines that were added up.
    pub lines: u64,
    /// Lines that the log lacks.
    pub dropped: u64,
    /// Bytes of files that the pool takes; `None` if the log does not say.
    pub pool: Option<ByteCount>,
    /// Distinct files and intervals between reads are those of one file of so many; 1: exact.
    pub sampled: u64,
    /// Misses of which it was forgotten that they wait for their read, which counts as a hit besides.
    pub misses_forgotten: u64,
    /// All classes, or the one that was asked for.
    pub all: ClassUsage,
    /// Each class, by name.
    pub classes: Vec<ClassUsage>,
}

/// What a planner needs of a class.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassWorkload {
    /// Its name.
    pub name: String,
    /// Tape copies.
    pub copies: Option<u32>,
    /// Files stored each day.
    pub files_written: f64,
    /// W: bytes stored each day.
    pub bytes_written: f64,
    /// Reads each day, hits and misses.
    pub files_read: f64,
    /// R: bytes read each day, hits and misses.
    pub bytes_read: f64,
    /// The share of reads served from the pool.
    pub hit_rate: Option<f64>,
    /// h: the share of the bytes.
    pub hit_rate_bytes: Option<f64>,
    /// Files that come from tape each day.
    pub files_recalled: f64,
    /// Bytes that come from tape each day.
    pub bytes_recalled: f64,
    /// Bytes that go to tape each day, all copies.
    pub bytes_migrated: f64,
    /// The mean size of new files.
    pub mean_written: Option<ByteCount>,
    /// The mean size of files read.
    pub mean_read: Option<ByteCount>,
    /// Bytes stored on the day with the most.
    pub peak_written: ByteCount,
    /// Bytes sent on the day with the most.
    pub peak_read: ByteCount,
    /// Bytes recalled on the day with the most.
    pub peak_recalled: ByteCount,
    /// C: its pool space.
    pub space: Option<ByteCount>,
    /// What hit rates take, as [`ClassUsage::for_hit_rates`].
    pub for_hit_rates: Vec<(f64, Option<Residency>)>,
}

impl Usage {
    /// The workload of each class, as `kist plan site` takes it.
    #[must_use]
    pub fn workloads(&self) -> Vec<ClassWorkload> {
        self.classes.iter().map(|class| self.workload(class)).collect()
    }

    /// The workload of one class, or of [`Usage::all`].
    #[must_use]
    pub fn workload(&self, class: &ClassUsage) -> ClassWorkload {
        let (daily, accesses) = (|number: u64| number as f64 / self.days, class.accesses());
        ClassWorkload {
            name: class.name.clone(),
            copies: class.copies,
            files_written: daily(class.puts.files),
            bytes_written: daily(class.puts.bytes.0),
            files_read: daily(accesses.files),
            bytes_read: daily(accesses.bytes.0),
            hit_rate: class.hit_rate(),
            hit_rate_bytes: class.hit_rate_bytes(),
            files_recalled: daily(class.recalled.files),
            bytes_recalled: daily(class.recalled.bytes.0),
            bytes_migrated: daily(class.migrated.bytes.0),
            mean_written: class.puts.mean(),
            mean_read: class.sizes_read.as_ref().map(|sizes| sizes.mean),
            peak_written: class.movement.written.peak_day,
            peak_read: class.movement.read.peak_day,
            peak_recalled: class.movement.recalled.peak_day,
            space: class.cache.space,
            for_hit_rates: class.for_hit_rates.clone(),
        }
    }
}
