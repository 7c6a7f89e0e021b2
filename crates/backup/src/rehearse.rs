//! A restore for practice: into a directory of its own, checked from end to end, compared with what was live.

use std::path::Path;

use base::ByteCount;
use store::SnapshotReader;

use crate::choose::newest_change;
use crate::error::RestoreError;
use crate::layout::BackupDirectory;
use crate::progress::Progress;
use crate::restore::{RestoreTo, Restored, replay_line, restore_before};

/// Inconsistencies that are told one by one.
const INCONSISTENCIES_SHOWN_MAX: usize = 20;

/// How many rows a table of the rehearsed catalogue has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableCount {
    /// The table.
    pub table: &'static str,
    /// Its rows.
    pub rows: u64,
}

/// What a rehearsal found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rehearsed {
    /// What was restored.
    pub restored: Restored,
    /// The change at which every table was compared with a snapshot of the live catalogue; `None` if the
    /// backup has one snapshot only.
    pub compared_at: Option<u64>,
    /// The tables that differ there, in words; empty if all is well.
    pub differences: Vec<String>,
    /// Records that contradict each other, in words; empty if all is well.
    pub inconsistencies: Vec<String>,
    /// The tables at the newest change.
    pub tables: Vec<TableCount>,
}

impl Rehearsed {
    /// Whether the backup would have given back the catalogue.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.differences.is_empty() && self.inconsistencies.is_empty() && self.restored.passed_over.is_empty()
    }
}

/// Restores the newest point into `scratch`, which must be empty or absent and is left for the caller to
/// remove. On the way, at the change of the newest snapshot, all tables are compared with that snapshot,
/// which is a copy of the live catalogue: it was not used for the restore, unless there is no other.
///
/// # Errors
/// As [`crate::restore()`].
pub fn rehearse(
    from: &BackupDirectory,
    scratch: &Path,
    map_size: ByteCount,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rehearsed, RestoreError> {
    let nothing = || RestoreError::NothingFor {
        path: from.root().to_owned(),
        target: RestoreTo::Newest.to_string(),
        earliest: "there is none".to_owned(),
    };
    let line = from.lines()?.pop().ok_or_else(nothing)?;
    let snapshots = line.snapshots()?;
    let (newest, path) = snapshots.last().ok_or_else(nothing)?;
    let live = line.snapshot(path)?;
    // A restore asks for it too.
    newest_change(from)?;
    let has_older = snapshots.len() > 1;
    let (to, before) =
        if has_older { (RestoreTo::Change(*newest), *newest) } else { (RestoreTo::Newest, u64::MAX) };
    let (mut restored, mut replay) = restore_before(from, to, before, scratch, map_size, progress)?;
    let mut differences = Vec::new();
    if has_older {
        live.verify(None)?;
        let expected = SnapshotReader::open(&live.path)?.digests().map_err(catalogue::ReadError::from)?;
        let found = replay.digests()?;
        for ((table, expected), (_, found)) in expected.iter().zip(&found) {
            if expected != found {
                let name = table.name();
                let (rows, live_rows) = (found.rows, expected.rows);
                differences.push(format!("table {name}: {rows} rows restored, {live_rows} live, or others"));
            }
        }
        progress(Progress::of("tables compared", found.len() as u64, found.len() as u64));
        replay_line(from, &line, RestoreTo::Newest, &mut replay, &mut restored, progress)?;
    }
    let wrong = replay.read(|view| view.check())?;
    let more = wrong.len().saturating_sub(INCONSISTENCIES_SHOWN_MAX);
    let mut inconsistencies: Vec<String> = wrong
        .iter()
        .take(INCONSISTENCIES_SHOWN_MAX)
        .map(|wrong| format!("table {}, key {}: {}", wrong.table.name(), wrong.key, wrong.what))
        .collect();
    if more > 0 {
        inconsistencies.push(format!("and {more} more"));
    }
    let tables = replay.digests()?;
    let tables =
        tables.into_iter().map(|(table, digest)| TableCount { table: table.name(), rows: digest.rows });
    let compared_at = has_older.then_some(*newest);
    Ok(Rehearsed { restored, compared_at, differences, inconsistencies, tables: tables.collect() })
}
