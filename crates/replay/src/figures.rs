//! Figures of a record and of its replay.

use serde::Serialize;

/// What came of the requests and puts of a record. Times are seconds by the server's clock.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Figures {
    /// Requests that wanted something from tape.
    pub requests: u64,
    /// Those of which everything came.
    pub requests_done: u64,
    /// Wanted files that came; one that several requests wanted counts for each.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first request until the last wanted file had come.
    pub completion: f64,
    /// Of each request, from its first file asked for to its last one there: mean.
    pub request_mean: f64,
    /// The longest.
    pub request_longest: f64,
    /// Of each file: half of them waited no longer ...
    pub wait_median: f64,
    /// ... and nine tenths no longer than this.
    pub wait_90: f64,
    /// Mounts.
    pub mounts: u64,
    /// Those that were for reading.
    pub recall_mounts: u64,
    /// Those that were for writing.
    pub migrate_mounts: u64,
    /// Different tapes.
    pub tapes: u64,
    /// From the order to a tape that is ready: mean.
    pub mount_seconds: f64,
    /// From there to its way home: mean.
    pub mounted_seconds: f64,
    /// From there to the empty drive: mean.
    pub unmount_seconds: f64,
    /// Copies that were written and flushed.
    pub written_copies: u64,
    /// Their bytes.
    pub written: u64,
    /// From the first put until the last copy was flushed.
    pub migration: f64,
    /// From the beginning until the last wanted file had come and the last copy was flushed.
    pub all: f64,
}

/// A figure beside the other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// `s`, `bytes`, or nothing.
    pub unit: &'static str,
    /// As it was.
    pub recorded: f64,
    /// As the twin has it.
    pub predicted: f64,
    /// How much more the twin has, as a part of what was; `None` where nothing was.
    pub deviation: Option<f64>,
}

/// A request.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RequestLine {
    /// Its number.
    pub request: u64,
    /// Files of it that were on tape.
    pub files: u64,
    /// When it was made, seconds since the beginning.
    pub at: f64,
    /// How long it took; `None`: it was not done when the record ended.
    pub recorded: Option<f64>,
    /// How long it takes in the twin.
    pub predicted: Option<f64>,
}

/// A mount; seconds since the beginning.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MountLine {
    /// The drive.
    pub drive: String,
    /// The tape.
    pub vid: String,
    /// `recall`, `migrate` or `-`.
    pub kind: &'static str,
    /// When it was ordered.
    pub ordered: f64,
    /// When it was ready.
    pub ready: Option<f64>,
    /// When its way home began.
    pub unmounting: Option<f64>,
    /// When the drive was empty.
    pub unmounted: Option<f64>,
}

impl Figures {
    /// The figures one beside the other.
    #[must_use]
    pub fn rows(recorded: &Figures, predicted: &Figures) -> Vec<Row> {
        type Pick = fn(&Figures) -> f64;
        let rows: [(&str, &str, Pick); 19] = [
            ("requests", "", |of| of.requests as f64),
            ("requests done", "", |of| of.requests_done as f64),
            ("files", "", |of| of.files as f64),
            ("bytes", "bytes", |of| of.bytes as f64),
            ("wait: median", "s", |of| of.wait_median),
            ("wait: 90 %", "s", |of| of.wait_90),
            ("request: mean", "s", |of| of.request_mean),
            ("request: longest", "s", |of| of.request_longest),
            ("mount: mean", "s", |of| of.mount_seconds),
            ("mounted: mean", "s", |of| of.mounted_seconds),
            ("unmount: mean", "s", |of| of.unmount_seconds),
            ("mounts", "", |of| of.mounts as f64),
            ("mounts to read", "", |of| of.recall_mounts as f64),
            ("mounts to write", "", |of| of.migrate_mounts as f64),
            ("tapes", "", |of| of.tapes as f64),
            ("written", "bytes", |of| of.written as f64),
            ("migration", "s", |of| of.migration),
            ("completion", "s", |of| of.completion),
            ("all", "s", |of| of.all),
        ];
        let row = |(name, unit, pick): (&'static str, &'static str, Pick)| {
            let (was, is) = (pick(recorded), pick(predicted));
            let deviation = (was > 0.0).then(|| is / was - 1.0);
            Row { name, unit, recorded: was, predicted: is, deviation }
        };
        rows.into_iter().map(row).collect()
    }
}
