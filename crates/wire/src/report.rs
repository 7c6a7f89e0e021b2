//! Reports on tapes and drives.

use serde::{Deserialize, Serialize};

/// How spans are spread; seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SpreadReply {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The middle one.
    pub median: f64,
    /// 95 of 100 are not longer.
    pub p95: f64,
    /// The longest.
    pub max: f64,
}

/// Mounts by what they were ordered for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MountsForReply {
    /// To write.
    pub migrate: u64,
    /// To read what is wanted.
    pub recall: u64,
    /// To check, read back or repack.
    pub maintain: u64,
    /// To close what a crash had left open.
    pub recover: u64,
}

/// Figures of a drive, tape or tape pool, or of all.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReportRowReply {
    /// The drive, tape or tape pool.
    pub name: String,
    /// Cartridges that came into a drive.
    pub mounts: u64,
    /// Of those, such as are still there.
    pub mounted_now: u64,
    /// Of those, by what they were ordered for.
    pub mounts_for: MountsForReply,
    /// Mounts and unmounts that failed.
    pub mount_failures: u64,
    /// Sessions.
    pub sessions: u64,
    /// Sessions that failed.
    pub session_failures: u64,
    /// From the order until labels and index were read.
    pub mount_seconds: Option<SpreadReply>,
    /// From the end of the last index to the empty drive.
    pub unmount_seconds: Option<SpreadReply>,
    /// How long the oldest that a mount was made for had waited when it was ordered.
    pub wait_seconds: Option<SpreadReply>,
    /// Bytes of files and containers read.
    pub read: u64,
    /// Bytes of containers written.
    pub written: u64,
    /// Files recalled and containers written or read.
    pub files: u64,
    /// Bytes of files and containers a mount.
    pub bytes_per_mount: Option<u64>,
    /// Mounts for 10^12 bytes of files and containers.
    pub mounts_per_tb: Option<f64>,
    /// Bytes of blocks read, gaps and indexes included.
    pub tape_read: u64,
    /// Bytes of blocks written, indexes included.
    pub tape_written: u64,
    /// Commands that moved the tape elsewhere.
    pub locates: u64,
    /// How long tapes stood mounted and ready.
    pub mounted_seconds: f64,
    /// How long data flowed.
    pub moving_seconds: f64,
    /// The share of the time in which data flowed, 0 to 1: of the mounted time, or of what the drive counted.
    pub efficiency: Option<f64>,
    /// Bytes of blocks a second while data flowed.
    pub rate: Option<f64>,
    /// That rate over the drive's native one, if known.
    pub of_native: Option<f64>,
    /// How long the drives say they moved without transfer, if they say.
    pub locating_seconds: Option<f64>,
    /// How long the drives say they stood or went back since the host was too slow, if they say.
    pub starved_seconds: Option<f64>,
    /// How often the drives say they had to go back, if they say.
    pub back_hitches: Option<u64>,
    /// Whose orders were read, if a drive that has its own was asked.
    pub order: Option<ReadOrderReply>,
}

/// What came of asking drives for their orders of reading (RAO).
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReadOrderReply {
    /// Plans for which a drive gave an order.
    pub compared: u64,
    /// Of those, such as were read in the drive's order; the others were read in Kist's.
    pub drives: u64,
    /// What Kist's orders of them cost by the model: locates and gaps read through.
    pub own_seconds: f64,
    /// What the drives' orders of the same cost by the model.
    pub drive_seconds: f64,
    /// Plans for which a drive failed, or gave what is no order.
    pub failed: u64,
}

/// How long what waits has waited.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueAgeReply {
    /// `seal`, `migrate`, `recall-class`, `recall-pool` or `recall-tape`.
    pub queue: String,
    /// The class, tape pool or tape.
    pub name: String,
    /// Files or containers.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The longest wait.
    pub oldest_seconds: f64,
    /// Half of them wait longer.
    pub median_seconds: f64,
    /// Whether only the first of a long queue were looked at.
    pub partial: bool,
}

/// `GET /api/v1/report/tape`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeReportReply {
    /// Mounts that ended from this time on ...
    pub since: String,
    /// ... until this one, or go on.
    pub until: String,
    /// `drive`, `tape` or `pool`.
    pub by: String,
    /// Whether mounts are written down.
    pub logged: bool,
    /// What is wrong with the log, in words.
    pub trouble: Option<String>,
    /// By name.
    pub rows: Vec<ReportRowReply>,
    /// Of all.
    pub total: ReportRowReply,
    /// How long what waits now has waited.
    pub queue_ages: Vec<QueueAgeReply>,
}
