//! Backup and quarantine: what protects against the loss of the catalogue.

use serde::{Deserialize, Serialize};

/// `GET /api/v1/backup`: how the backup of the catalogue stands.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BackupReply {
    /// Whether `[backup]` is configured; if not, the rest means nothing.
    pub on: bool,
    /// Its directory.
    pub directory: String,
    /// The line that is written, from 1.
    pub line: u32,
    /// The newest change of the catalogue.
    pub change: u64,
    /// The newest change in the directory.
    pub shipped: u64,
    /// When the directory last had everything.
    pub shipped_at: Option<String>,
    /// The change of the newest snapshot.
    pub snapshot: Option<u64>,
    /// When it was taken.
    pub snapshot_at: Option<String>,
    /// Snapshots asked for.
    pub asked: u64,
    /// Those of them that were tried; `failing` says how it went.
    pub answered: u64,
    /// Why the last attempt failed.
    pub failing: Option<String>,
    /// How long the catalogue's log of changes is.
    #[serde(default)]
    pub log: Option<ChangeLogReply>,
}

/// How long the catalogue's log of changes is, and why.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeLogReply {
    /// Changes in it.
    pub changes: u64,
    /// What it takes of the catalogue.
    pub bytes: u64,
    /// The oldest of them.
    pub first: u64,
    /// The newest change that tapes of all pools have in a base; 0: there is none.
    pub base: u64,
    /// Why its oldest change is kept.
    pub kept: String,
    /// Why no base of the catalogue can be made, if the last try failed.
    pub failing: Option<String>,
}

/// `POST /api/v1/backup/snapshot`: a snapshot is taken; that is over when `answered` has reached `asked`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SnapshotReply {
    /// What `answered` of [`BackupReply`] reaches; `None` if no backup is configured.
    pub asked: Option<u64>,
}

/// `POST /api/v1/pool/quarantine/end`: what came of it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuarantineEndReply {
    /// Whether there was a quarantine of a restore.
    pub was_on: bool,
    /// Extents that were removed.
    pub removed: u64,
    /// Bytes that they took of the drives.
    pub removed_bytes: u64,
    /// What is not removed yet, by the reason.
    pub left: Vec<QuarantineLeftReply>,
}

/// Extents that the end of a quarantine has not removed yet.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuarantineLeftReply {
    /// Why: `garbage` (the sweeper removes them now), `beside` (the scrubber reads the rest of their stripes
    /// first), `failed` (their drive did not remove them: the log has its error), `away` (their drive does
    /// not answer); more words may be added.
    pub why: String,
    /// So many.
    pub extents: u64,
    /// Bytes that they take of the drives, as far as these tell.
    pub bytes: u64,
}

/// `GET /api/v1/pool/quarantine`: pool bytes that are kept although the catalogue does not name them.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuarantineReply {
    /// Whether there is a quarantine: since a restore until an operator ends it.
    pub on: bool,
    /// Extents in it: shards of large blobs on drives, and copies of segments of small files.
    pub extents: u64,
    /// Of how many blobs they are, counted up to a million. The catalogue does not know any more which files
    /// these held.
    #[serde(default)]
    pub blobs: u64,
    /// Bytes that they take of the drives.
    #[serde(default)]
    pub bytes: u64,
    /// Extents that nothing names, such as a crash leaves: each is kept for `[pool] unknown_kept`.
    pub unknown: u64,
    /// Of how many blobs these are.
    #[serde(default)]
    pub unknown_blobs: u64,
    /// Bytes that these take of the drives.
    #[serde(default)]
    pub unknown_bytes: u64,
    /// When the first of these is removed.
    pub unknown_until: Option<String>,
}
