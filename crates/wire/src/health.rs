//! How well tape drives and tapes are.

use serde::{Deserialize, Serialize};

use crate::{DriveReply, ReadOrderReply};

/// How well a drive or a tape is, by its mounts of the last 90 days.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthRowReply {
    /// The drive or tape.
    pub name: String,
    /// `bad`, `doubtful`, `well` or `too-few-mounts`.
    pub verdict: String,
    /// Why, with figures, in words.
    pub reason: String,
    /// Mounts that count: of each tape in each drive the newest 8.
    pub mounts: u64,
    /// The tapes that were in the drive, or the drives in which the tape was.
    pub partners: u64,
    /// Bytes of blocks read and written in these mounts.
    pub bytes: u64,
    /// Errors corrected in them, if drives tell.
    pub corrected: Option<u64>,
    /// Errors not corrected in them, if drives tell.
    pub uncorrected: Option<u64>,
}

/// What is conspicuous in a drive's work with a tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SymptomReply {
    /// `uncorrected`, `alert`, `corrected` or `slow`.
    pub kind: String,
    /// How many errors or which TapeAlert flag; corrected errors for 10^9 bytes; bytes a second.
    pub value: f64,
    /// What is usual with drives of this model: of `corrected` and `slow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<f64>,
    /// The same in words.
    pub text: String,
}

/// A tape in a drive: the newest 8 mounts of the last 90 days.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthPairReply {
    /// The drive.
    pub drive: String,
    /// The tape.
    pub vid: String,
    /// How many mounts.
    pub mounts: u64,
    /// When the last of them ended.
    pub last: String,
    /// Bytes of blocks read and written in them.
    pub bytes: u64,
    /// Errors corrected in them, if the drive tells.
    pub corrected: Option<u64>,
    /// Errors not corrected in them, if the drive tells.
    pub uncorrected: Option<u64>,
    /// Errors corrected for 10^9 bytes, if the drive tells.
    pub corrected_per_gb: Option<f64>,
    /// Bytes a second while it was written, if that was much.
    pub write_rate: Option<f64>,
    /// Whether that was enough to say that drive and tape do well, if nothing is conspicuous.
    pub measured: bool,
    /// What is conspicuous, the worst first.
    pub symptoms: Vec<SymptomReply>,
}

/// `GET /api/v1/report/health`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthReply {
    /// The drives that had mounts in the last 90 days, or those in which the tape asked for was.
    pub drives: Vec<HealthRowReply>,
    /// The tapes that had, or the one asked for.
    pub tapes: Vec<HealthRowReply>,
    /// Each tape in each drive, by drive.
    pub pairs: Vec<HealthPairReply>,
}

/// A mount that is over.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveMountReply {
    /// The tape.
    pub vid: String,
    /// When it was over.
    pub ended: String,
    /// What it was for: `migrate`, `recall`, `maintain` or `recover`.
    pub purpose: String,
    /// Bytes of blocks read and written.
    pub bytes: u64,
    /// Bytes a second while it was written, if that was much.
    pub write_rate: Option<f64>,
    /// Errors corrected, if the drive tells.
    pub corrected: Option<u64>,
    /// Errors not corrected, if the drive tells.
    pub uncorrected: Option<u64>,
    /// The drive's temperature at its end in degrees Celsius, if it tells.
    pub celsius: Option<u8>,
    /// Whose order was read, if the drive has one of its own.
    pub order: Option<ReadOrderReply>,
    /// TapeAlert flags that the drive raised.
    pub alerts: Vec<AlertReply>,
    /// Why it failed.
    pub failed: Option<String>,
}

/// A TapeAlert flag.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AlertReply {
    /// Its number.
    pub flag: u8,
    /// What it means.
    pub meaning: String,
}

/// What a drive is, as it said in its last mount.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveProductReply {
    /// Its vendor.
    pub vendor: String,
    /// Its model.
    pub product: String,
    /// The revision of its firmware.
    pub firmware: String,
    /// Its serial number.
    pub serial: String,
}

/// By what the model of a drive was fitted to what its locates took.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveFitReply {
    /// The drive's model.
    pub model: String,
    /// The medium's model.
    pub medium: String,
    /// The factor on the part of a locate that does not depend on the way.
    pub fixed: f64,
    /// The factor on the part that does.
    pub way: f64,
    /// Locates of which it was made.
    pub samples: u64,
    /// By which part of what it takes the model is off with it, the median of the locates.
    pub error: f64,
    /// When the newest of the locates was made.
    pub at: String,
}

/// `GET /api/v1/drives/NAME`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveContentReply {
    /// What it does.
    pub drive: DriveReply,
    /// What it is; null until a mount has ended in which it said so.
    pub product: Option<DriveProductReply>,
    /// The address of its element in the changer, if it has one that is known.
    #[serde(default)]
    pub element: Option<u32>,
    /// What it can do, by the commands that it lists; empty until it was used since the server's start.
    #[serde(default)]
    pub abilities: Vec<String>,
    /// How well it is; null without a mount in the last 90 days.
    pub health: Option<HealthRowReply>,
    /// By what the model was fitted to its locates; an entry for each kind of media.
    #[serde(default)]
    pub fits: Vec<DriveFitReply>,
    /// What it said of its cleaning in its last mount (TapeAlert 20 to 23), if it did.
    pub cleaning: Option<AlertReply>,
    /// It asks to be cleaned, and was not yet: `now` before its next mount, or `idle` when nothing waits.
    #[serde(default)]
    pub asks_cleaning: Option<String>,
    /// When Kist cleaned it last.
    #[serde(default)]
    pub cleaned: Option<String>,
    /// Each tape that was in it.
    pub tapes: Vec<HealthPairReply>,
    /// Its last 20 mounts, the newest first.
    pub mounts: Vec<DriveMountReply>,
}
