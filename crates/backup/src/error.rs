//! What can be wrong with a backup, by what was to be done with it: reading its files, restoring from it,
//! writing it. What goes wrong in a rebuild from tapes stands there.

use std::io;
use std::path::{Path, PathBuf};

use base::Timestamp;
use catalogue::ReadError;
use ltfs::changes::{SegmentEncodeError, SegmentError};

use crate::line_start::LineStart;

/// A line that may have been in force at a time, and what it has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The line.
    pub line: u32,
    /// How it began, if that is noted.
    pub start: Option<LineStart>,
    /// Its newest change that was not made later, and when it was made; `None` if it has none, or if that
    /// cannot be read.
    pub state: Option<(u64, Timestamp)>,
}

/// Why a file of a backup, or its directory, cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file or directory cannot be used: look at its disk and who may use it.
    #[error("{path}: {doing}: {source}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory holds no backup.
    #[error("{0} holds no backup of Kist: name the directory that [backup] in kist.toml names")]
    NotABackup(PathBuf),
    /// The identity file is damaged.
    #[error("{0} is damaged: compare it with another copy of the backup")]
    DamagedIdentity(PathBuf),
    /// A segment of the change log is damaged.
    #[error("{path} is damaged: {source}; a restore can go up to change {before}", before = .first - 1)]
    DamagedSegment {
        /// The file.
        path: PathBuf,
        /// The first change that should be in it.
        first: u64,
        /// What is wrong.
        source: SegmentError,
    },
    /// A segment holds other changes than its name says, or those of another instance.
    #[error(
        "{path} does not hold what its name says: it was renamed or comes from elsewhere: put \
        the right file in its place"
    )]
    WrongSegment {
        /// The file.
        path: PathBuf,
    },
    /// A segment of the change log cannot be read.
    #[error("{path} cannot be read: {source}; a restore can go up to change {before}", before = .first - 1)]
    UnreadableSegment {
        /// The file.
        path: PathBuf,
        /// The first change that should be in it.
        first: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Changes are missing between two segments.
    #[error("{path}: changes {from} to {to} are missing: a restore can go up to change {before}",
        before = .from - 1)]
    Gap {
        /// The directory.
        path: PathBuf,
        /// The first missing change.
        from: u64,
        /// The last missing change.
        to: u64,
    },
    /// A snapshot is damaged. A restore uses an older one; the next snapshot takes its place.
    #[error("snapshot {path} is damaged: {what}")]
    DamagedSnapshot {
        /// The snapshot's directory, or a file of it.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A snapshot cannot be read: look at the backup's disk. A restore uses an older one.
    #[error("snapshot {path} cannot be read: {source}")]
    UnreadableSnapshot {
        /// A file of the snapshot.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why a catalogue cannot be restored from a backup. What was written of it so far is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Files of the backup cannot be read.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// It is not known which line was in force at the time that was asked for.
    #[error("{}", which_line(*.time, .candidates))]
    WhichLine {
        /// The time.
        time: Timestamp,
        /// The lines that may have been, the newest first.
        candidates: Vec<Candidate>,
    },
    /// There is nothing for the point that was asked for: ask for one that there is.
    #[error("the backup in {path} has no whole snapshot at or before {target}: {earliest}")]
    NothingFor {
        /// The directory.
        path: PathBuf,
        /// The point.
        target: String,
        /// What there is.
        earliest: String,
    },
    /// The change log ends before the point that was asked for.
    #[error("the backup ends at change {reached}, {target} was asked for: leave out --to-change")]
    EndsBefore {
        /// Where it ends.
        reached: u64,
        /// What was asked for.
        target: u64,
    },
    /// The place to restore into is not empty.
    #[error("{0} is not empty: nothing is written over; name a directory that is empty or new")]
    NotEmpty(PathBuf),
    /// The catalogue that is being restored, or the snapshot that it is compared with, cannot be read.
    #[error("the catalogue is damaged: {0}")]
    Catalogue(#[from] ReadError),
    /// The catalogue that is being restored cannot be opened.
    #[error(transparent)]
    Open(#[from] store::OpenError),
    /// A snapshot cannot be opened.
    #[error(transparent)]
    Snapshot(#[from] store::SnapshotError),
    /// A change cannot be replayed: a restore can go up to the one before it.
    #[error(transparent)]
    Replay(#[from] store::ReplayError),
}

/// Why the backup is not written now. Its worker goes on trying: what is wrong is to be put right meanwhile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShipError {
    /// Files of the backup cannot be read or written.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// It was there before.
    #[error("{0} has no snapshot any more: mount the backup's file system, or put back what was removed")]
    Gone(PathBuf),
    /// It is another instance's.
    #[error("{path} holds the backup of instance {found}, not of {expected}: choose another directory")]
    OtherInstance {
        /// The directory.
        path: PathBuf,
        /// The instance that it belongs to.
        found: String,
        /// This instance.
        expected: String,
    },
    /// A snapshot failed a short while ago and is not tried again yet.
    #[error("{0}")]
    Again(String),
    /// A change cannot be encoded, as every one that the catalogue takes can be: it is to be reported.
    #[error("changes from {first} on cannot be shipped: {source}")]
    Encode {
        /// The first of them.
        first: u64,
        /// Why.
        source: SegmentEncodeError,
    },
    /// The catalogue cannot be read: it is to be restored from what was shipped.
    #[error("the catalogue is damaged: {0}")]
    Catalogue(#[from] ReadError),
    /// A snapshot cannot be taken or looked at.
    #[error(transparent)]
    Snapshot(#[from] store::SnapshotError),
    /// The time of a change cannot be read.
    #[error(transparent)]
    Change(#[from] store::ReplayError),
}

impl BackupError {
    /// For `map_err`: an error of the system at `path`.
    pub(crate) fn at(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> BackupError + use<> {
        let path = path.to_owned();
        move |source| BackupError::File { path: path.clone(), doing, source }
    }
}

/// Names the lines that may be meant.
fn which_line(time: Timestamp, candidates: &[Candidate]) -> String {
    let mut text = format!("it is not known which line of the backup was in force at {time}: ");
    for candidate in candidates {
        let begun = match candidate.start {
            Some(start) => start.to_string(),
            None => "when it began is not noted".to_owned(),
        };
        let state = match candidate.state {
            Some((change, made)) => format!("change {change} of {made}"),
            None => "nothing of that time that can be read".to_owned(),
        };
        text.push_str(&format!("line {} ({begun}) has {state}; ", candidate.line));
    }
    text.push_str("nothing was restored: name the change that you want with --to-change");
    text
}
