//! `[tape]`, `[tape_pool.NAME]` and `[foreign]`.

use serde::{Deserialize, Serialize};

use session::{RECALL_BATCH_BYTES, REPLAN_EVERY};

use quantity::{Bytes, Count, Span};

/// A second.
const SECOND: u64 = 1_000_000;

/// `[tape]`: the words of the server's configuration, and what the twin must know beside.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tape {
    /// Flush after so much.
    pub flush_bytes: Bytes,
    /// Or so long.
    pub flush_age: Span,
    /// Index after so much.
    pub index_bytes: Bytes,
    /// Bytes of an index for each file on the tape.
    pub index_bytes_a_file: Bytes,
    /// Each file is flushed by itself.
    pub flush_each_file: bool,
    /// Read and committed together.
    pub recall_batch: Bytes,
    /// Later requests join at most so often.
    pub replan: Span,
    /// Recall when the oldest waits so long.
    pub recall_age: Span,
    /// Or when so much is wanted.
    pub recall_bytes: Bytes,
    /// Or so many files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall_files: Option<Count>,
    /// Or one of this priority or a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall_at_once: Option<u32>,
    /// Drives kept for recall.
    pub recall_drives_min: u32,
    /// Most drives for recall at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall_drives_max: Option<u32>,
    /// Drives kept for migration.
    pub migration_drives_min: u32,
    /// Most drives for migration at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_drives_max: Option<u32>,
    /// What waits longer goes first.
    pub starvation: Span,
    /// Drive time used so long ago counts half.
    pub share_half_life: Span,
    /// Most mounts and unmounts under way in a library; 0: any number.
    pub mounts_at_once: u32,
    /// A tape that was unmounted rests for so long.
    pub remount_delay: Span,
    /// Unless so much waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remount_bytes: Option<Bytes>,
    /// Keep idle tapes mounted.
    pub dismount_delay: Span,
    /// Leave what failed alone.
    pub retry_delay: Span,
}

impl Default for Tape {
    fn default() -> Self {
        Tape {
            flush_bytes: Bytes(32 << 30),
            flush_age: Span(300 * SECOND),
            index_bytes: Bytes(300 << 30),
            index_bytes_a_file: Bytes(1_000),
            flush_each_file: false,
            recall_batch: Bytes(RECALL_BATCH_BYTES.0),
            replan: Span(REPLAN_EVERY.as_micros() as u64),
            recall_age: Span(15 * SECOND),
            recall_bytes: Bytes(100 << 30),
            recall_files: None,
            recall_at_once: None,
            recall_drives_min: 0,
            recall_drives_max: None,
            migration_drives_min: 0,
            migration_drives_max: None,
            starvation: Span(6 * 3600 * SECOND),
            share_half_life: Span(6 * 3600 * SECOND),
            mounts_at_once: 0,
            remount_delay: Span(0),
            remount_bytes: None,
            dismount_delay: Span(60 * SECOND),
            retry_delay: Span(600 * SECOND),
        }
    }
}

/// `[tape_pool.NAME]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TapePool {
    /// The library; the only one if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Mount when so much waits.
    pub mount_bytes: Bytes,
    /// Or so long.
    pub mount_age: Span,
    /// Most drives at once.
    pub drives_max: u32,
    /// Drives kept for it.
    pub drives_min: u32,
    /// Most tapes that are begun and not full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_tapes_max: Option<u32>,
}

impl Default for TapePool {
    fn default() -> Self {
        TapePool {
            library: None,
            mount_bytes: Bytes(100 << 30),
            mount_age: Span(8 * 3600 * SECOND),
            drives_max: 1,
            drives_min: 0,
            open_tapes_max: None,
        }
    }
}

/// `[foreign]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Foreign {
    /// Most files that the tape system knows of at a time; 0: any number.
    pub queue_limit: Count,
    /// Which copy is read.
    pub copies: CopyRule,
    /// In which order a tape is read.
    pub order: ReadOrder,
    /// Requests of a window, with `order = "window"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// A flush after so many files; 0: as the server, after so many containers or members.
    pub flush_files: Count,
    /// Labels around each file.
    pub labels: Labels,
    /// What their file marks cost, with labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    /// A file goes on on the next tape.
    pub spans: bool,
}

/// Labels around each file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Labels {
    /// None.
    #[default]
    None,
    /// Header, file, trailer, each with a file mark.
    Aul,
}

/// What a file mark costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marks {
    /// Nothing.
    Immediate,
    /// A flush.
    Synchronous,
}

/// Which copy is read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyRule {
    /// Whichever saves mounts.
    #[default]
    Any,
    /// The last one written.
    Newest,
    /// That of the first tape pool.
    First,
}

/// In which order a tape is read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOrder {
    /// Planned.
    #[default]
    Planned,
    /// By position.
    Block,
    /// As asked for.
    Arrival,
    /// In windows of requests, nearest first.
    Window,
}
