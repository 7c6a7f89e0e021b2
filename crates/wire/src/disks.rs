//! The disks under the drives of the pool: what who watches them tells, and is told.

use serde::{Deserialize, Serialize};

/// A slot of an enclosure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveSlotWire {
    /// The logical identifier of the enclosure: 16 hexadecimal digits.
    pub enclosure: String,
    /// The number of the slot that stands on it.
    pub number: u32,
}

/// Why a disk is judged as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiskReasonWire {
    /// A word for programs, as `kist disk health` has it.
    pub reason: String,
    /// For people.
    pub text: String,
    /// It foretells that the disk fails while it can be read still.
    #[serde(default)]
    pub predicts: bool,
}

/// Why nothing is done by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiskWaitsWire {
    /// A word for programs.
    pub reason: String,
    /// For people.
    pub text: String,
}

/// The disk that a drive is on, or was when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveDiskReply {
    /// Its name in the world, else vendor, model and serial number.
    pub disk: String,
    /// Its slot, if that was ever proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<DriveSlotWire>,
    /// Since when it is known to be on this disk, in this slot.
    pub since: String,
    /// When it was last seen there since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// What was said of the disk then: `good`, `unknown`, `watch` or `replace`; empty: nothing yet.
    #[serde(default)]
    pub verdict: String,
    /// Why.
    #[serde(default)]
    pub reasons: Vec<DiskReasonWire>,
    /// The slot whose light was switched on for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light: Option<DriveSlotWire>,
    /// The light of its slot is to be on.
    #[serde(default)]
    pub wants_light: bool,
    /// Why the drive is emptied, if nobody but the policy had it emptied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<String>,
    /// An operator ended such a drain: none begins by itself while it is on this disk.
    #[serde(default)]
    pub kept: bool,
    /// Why nothing is done by itself, though it is lost or foretells its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<DiskWaitsWire>,
}

/// A drive for who watches its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WatchedDriveReply {
    /// Its number.
    pub id: u16,
    /// Its directory.
    pub path: String,
    /// It works.
    pub up: bool,
    /// Another disk may take its place.
    pub lost: bool,
    /// What is known of its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DriveDiskReply>,
}

/// `GET /api/v1/pool/disks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiskWatchReply {
    /// What tells this run of the server's machine from all others (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// The instance.
    pub instance: String,
    /// The user that is to own a new drive.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// `tell` or `drain`.
    pub predicted_failure: String,
    /// `no`, `mounted` or `blank`.
    pub replace: String,
    /// `off`, `quick` or `full`: how far a disk is burnt in before.
    pub replace_burn_in: String,
    /// Lights of slots are switched.
    pub lights: bool,
    /// Why nothing is done by itself now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<DiskWaitsWire>,
    /// The drives.
    pub drives: Vec<WatchedDriveReply>,
}

/// The disk that was found under a drive's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundDiskBody {
    /// Its name in the world, else vendor, model and serial number.
    pub disk: String,
    /// Its slot, if that is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<DriveSlotWire>,
    /// `good`, `unknown`, `watch` or `replace`.
    pub verdict: String,
    /// Why.
    #[serde(default)]
    pub reasons: Vec<DiskReasonWire>,
}

/// What a look has shown of one drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskReportBody {
    /// The drive.
    pub drive: u16,
    /// The disk under its directory, which holds this drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundDiskBody>,
    /// Why nothing takes its place, though it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<DiskWaitsWire>,
}

/// `POST /api/v1/pool/disks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DisksFoundBody {
    /// What was found.
    pub drives: Vec<DiskReportBody>,
}

/// The answer to `POST /api/v1/pool/disks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DisksFoundReply {
    /// The drive that is emptied from now on, since its disk foretells its failure.
    #[serde(default)]
    pub drained: Option<u16>,
}

/// `POST /api/v1/pool/drives/{id}/light`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveLightBody {
    /// The slot whose light is about to be switched on for the drive; none: it is off again.
    #[serde(default)]
    pub slot: Option<DriveSlotWire>,
}

/// `POST /api/v1/pool/drives/{id}/take-over`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeOverBody {
    /// The disk.
    pub disk: String,
    /// The slot in which it is proven to be: that of the lost one.
    pub slot: DriveSlotWire,
    /// The device of the empty file system that is mounted at the drive's directory: its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
}
