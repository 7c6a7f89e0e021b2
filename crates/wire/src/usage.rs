//! What users did.

use serde::{Deserialize, Serialize};

/// Files and their bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsageCountReply {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Files of one power of two.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SizeBucketReply {
    /// From this size on and below twice as much.
    pub from: u64,
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How large files are. `by_count` and `by_bytes` belong to [`UsageReply::quantiles`].
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SizesReply {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their mean.
    pub mean: u64,
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// Sizes that so many of the files do not exceed.
    pub by_count: Vec<u64>,
    /// Sizes up to which files hold so much of the bytes.
    pub by_bytes: Vec<u64>,
    /// By powers of two, those without files left out.
    pub buckets: Vec<SizeBucketReply>,
}

/// How long something lasts, in seconds.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsageSpansReply {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The longest.
    pub most: f64,
    /// What so many of them do not exceed, for [`UsageReply::quantiles`].
    pub by_count: Vec<f64>,
}

/// A residency and what comes of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ResidencyReply {
    /// How long files would stay after their last put or read.
    pub seconds: f64,
    /// The share of reads with a known use before them that came within that time.
    pub share: f64,
    /// The share of all reads that the pool would serve; those without a known use before them are none.
    #[serde(default)]
    pub hit_rate: f64,
    /// Bytes that would stand in the pool on the mean: an upper bound.
    #[serde(default)]
    pub space: u64,
}

/// A hit rate and what it takes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HitRateReply {
    /// The share of all reads that the pool is to serve.
    pub wanted: f64,
    /// The shortest residency with it; null if not even to keep all gives it.
    pub takes: Option<ResidencyReply>,
}

/// One kind of movement, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DailyReply {
    /// A day, on the mean.
    pub mean: f64,
    /// On the day with the most.
    pub peak_day: u64,
    /// In the hour with the most.
    pub peak_hour: u64,
}

/// A day or hour with the most.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PeakReply {
    /// When it began.
    pub begin: String,
    /// Its bytes.
    pub bytes: u64,
}

/// What moved on a day, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DayReply {
    /// When it began.
    pub begin: String,
    /// Written by clients.
    pub written: u64,
    /// Sent to clients.
    pub read: u64,
    /// Read from tape.
    pub recalled: u64,
    /// Written to tape, all copies.
    pub migrated: u64,
    /// Of files that were asked for and were not in the pool.
    pub missed: u64,
}

/// What moved.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MovementReply {
    /// Written by clients.
    pub written: DailyReply,
    /// Sent to clients.
    pub read: DailyReply,
    /// Read from tape.
    pub recalled: DailyReply,
    /// Written to tape, all copies.
    pub migrated: DailyReply,
    /// The day on which clients wrote and read most.
    pub peak_day: Option<PeakReply>,
    /// The hour in which they did.
    pub peak_hour: Option<PeakReply>,
    /// All traffic over that of clients.
    pub internal_factor: Option<f64>,
    /// The newest days on which anything moved.
    pub days: Vec<DayReply>,
}

/// How long files stay in the pool: `space / fill`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CacheLifeReply {
    /// C: bytes of pool space.
    pub space: Option<u64>,
    /// `(1 - h) R + W` in bytes a day.
    pub fill: f64,
    /// The same at its peak.
    pub fill_peak: f64,
    /// The day of the peak.
    pub peak_day: Option<PeakReply>,
    /// Days at the mean.
    pub mean_days: Option<f64>,
    /// Days at the peak.
    pub least_days: Option<f64>,
}

/// What `kist plan site` takes of a class. Files and bytes are those of a day.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkloadReply {
    /// Files stored.
    pub files_written: f64,
    /// W: bytes stored.
    pub bytes_written: f64,
    /// Reads, hits and misses.
    pub files_read: f64,
    /// R: bytes read, hits and misses.
    pub bytes_read: f64,
    /// Files that come from tape.
    pub files_recalled: f64,
    /// Bytes that come from tape.
    pub bytes_recalled: f64,
    /// Bytes that go to tape, all copies.
    pub bytes_migrated: f64,
    /// The mean size of new files.
    pub mean_written: Option<u64>,
    /// The mean size of files read.
    pub mean_read: Option<u64>,
    /// Bytes stored on the day with the most.
    pub peak_written: u64,
    /// Bytes sent on the day with the most.
    pub peak_read: u64,
    /// Bytes recalled on the day with the most.
    pub peak_recalled: u64,
    /// C: the pool space of the class.
    pub space: Option<u64>,
}

/// A class, or all of them.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClassUsageReply {
    /// The class; `total` of all.
    pub name: String,
    /// Tape copies that it asks for.
    pub copies: Option<u32>,
    /// New versions.
    pub puts: UsageCountReply,
    /// Gets that were served, and the bytes sent.
    pub gets: UsageCountReply,
    /// Gets refused, since the file was on tape only.
    pub refused: u64,
    /// Reads: hits and misses.
    pub accesses: UsageCountReply,
    /// Reads that the pool served without a recall before.
    pub hits: UsageCountReply,
    /// Reads for which a file had to come from tape.
    pub misses: UsageCountReply,
    /// The share of hits, 0 to 1.
    pub hit_rate: Option<f64>,
    /// h: the same by bytes.
    pub hit_rate_bytes: Option<f64>,
    /// Files of recall requests.
    pub staged: UsageCountReply,
    /// Of those, such as the pool had.
    pub staged_online: u64,
    /// Files that came back from tape.
    pub recalled: UsageCountReply,
    /// Files that left the pool.
    pub evicted: UsageCountReply,
    /// Versions that lost their name.
    pub deleted: u64,
    /// Containers written to tape, each copy by itself.
    pub migrated: UsageCountReply,
    /// Containers that a repack wrote.
    pub repacked: UsageCountReply,
    /// About how many files were read.
    pub files_read: u64,
    /// How large new files are.
    pub sizes_written: Option<SizesReply>,
    /// How large the files read are.
    pub sizes_read: Option<SizesReply>,
    /// How long recalled files had been wanted.
    pub wait_seconds: Option<UsageSpansReply>,
    /// How long after its last put or read a file is read again.
    pub reread_seconds: Option<UsageSpansReply>,
    /// What residencies would serve, and take; empty if nothing was read again.
    pub residencies: Vec<ResidencyReply>,
    /// What hit rates would take.
    #[serde(default)]
    pub for_hit_rates: Vec<HitRateReply>,
    /// What moved.
    pub movement: MovementReply,
    /// How long files stay.
    pub cache: CacheLifeReply,
    /// What a planner takes.
    pub workload: WorkloadReply,
}

/// `GET /api/v1/report/usage`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsageReply {
    /// From this time on ...
    pub since: String,
    /// ... until this one.
    pub until: String,
    /// Since when there are lines of it.
    pub from: Option<String>,
    /// Days that means a day are over.
    pub days: f64,
    /// Whether accesses are written down.
    pub logged: bool,
    /// What is wrong with the log, in words.
    pub trouble: Option<String>,
    /// Lines that were added up.
    pub lines: u64,
    /// Lines that the log lacks.
    pub dropped: u64,
    /// Bytes of files that the pool takes.
    pub pool: Option<u64>,
    /// Distinct files and intervals are those of one file of so many.
    pub sampled: u64,
    /// The shares of `by_count` and `by_bytes`.
    pub quantiles: Vec<f64>,
    /// By name.
    pub classes: Vec<ClassUsageReply>,
    /// Of all.
    pub total: ClassUsageReply,
}
