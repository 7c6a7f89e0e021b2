//! Where what lies in a backup's directory.
//!
//! ```text
//! KIST-BACKUP                          whose backup it is
//! line-0001/LINE                       when the line began
//! line-0001/segments/<first>-<last>.kcl
//! line-0001/snapshots/<change>/{data.mdb,FORMAT,MANIFEST}
//! line-0002/…                          begun when the catalogue went another way, as after a restore
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use base::{Crc32c, Uuid};

use crate::error::{BackupError, ShipError};
use crate::files::{TEMPORARY, remove_temporary, sync_directory, write_durable};
use crate::manifest::SnapshotInfo;

const IDENTITY: &str = "KIST-BACKUP";
const MAGIC: &str = "kist-backup 1";
const SEGMENTS: &str = "segments";
const SNAPSHOTS: &str = "snapshots";
/// Digits of a change number in a name.
const DIGITS: usize = 20;

/// A directory that holds the backup of one instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupDirectory {
    root: PathBuf,
    instance: Uuid,
}

/// One history of the catalogue. Restoring an older point begins another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number, from 1.
    pub number: u32,
    pub(crate) path: PathBuf,
}

/// A file with a range of the change log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFile {
    /// The first change.
    pub first: u64,
    /// The last change.
    pub last: u64,
    /// The file.
    pub path: PathBuf,
}

impl BackupDirectory {
    /// Opens the backup in `root`.
    ///
    /// # Errors
    /// If there is none, or what says so is damaged.
    pub fn open(root: &Path) -> Result<Self, BackupError> {
        let path = root.join(IDENTITY);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(BackupError::NotABackup(root.to_owned()));
            }
            Err(error) => return Err(BackupError::at(&path, "reading")(error)),
        };
        let instance = parse_identity(&text).ok_or(BackupError::DamagedIdentity(path))?;
        Ok(BackupDirectory { root: root.to_owned(), instance })
    }

    /// Opens the backup of `instance` in `root`, or begins it. The directory itself is made; its parent must
    /// be there, so that a disk that is not mounted is not mistaken for an empty one.
    pub(crate) fn open_or_create(root: &Path, instance: Uuid) -> Result<Self, ShipError> {
        if !root.join(IDENTITY).exists() {
            match fs::create_dir(root) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(BackupError::at(root, "making the directory")(error).into());
                }
                _ => {}
            }
            write_durable(root, IDENTITY, identity(instance).as_bytes())?;
        }
        let found = BackupDirectory::open(root)?;
        if found.instance != instance {
            return Err(ShipError::OtherInstance {
                path: root.to_owned(),
                found: found.instance.to_string(),
                expected: instance.to_string(),
            });
        }
        Ok(found)
    }

    /// The instance whose backup it is.
    #[must_use]
    pub fn instance(&self) -> Uuid {
        self.instance
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All lines, the oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn lines(&self) -> Result<Vec<Line>, BackupError> {
        let mut lines = Vec::new();
        for (name, path) in names(&self.root)? {
            let number = name.strip_prefix("line-").and_then(|number| number.parse().ok());
            lines.extend(number.map(|number| Line { number, path }));
        }
        lines.sort_by_key(|line| line.number);
        Ok(lines)
    }

    pub(crate) fn begin_line(&self, number: u32) -> Result<Line, BackupError> {
        let path = self.root.join(format!("line-{number:04}"));
        for directory in [path.clone(), path.join(SEGMENTS), path.join(SNAPSHOTS)] {
            fs::create_dir_all(&directory).map_err(BackupError::at(&directory, "making"))?;
        }
        sync_directory(&path)?;
        sync_directory(&self.root)?;
        Ok(Line { number, path })
    }
}

impl Line {
    pub(crate) fn segments_directory(&self) -> PathBuf {
        self.path.join(SEGMENTS)
    }

    pub(crate) fn snapshots_directory(&self) -> PathBuf {
        self.path.join(SNAPSHOTS)
    }

    pub(crate) fn remove_temporary(&self) -> Result<(), BackupError> {
        remove_temporary(&self.segments_directory())?;
        remove_temporary(&self.snapshots_directory())
    }

    /// Its segments in order, each beginning where the one before ends. Looks at names only.
    ///
    /// # Errors
    /// [`BackupError::Gap`] if changes are missing between two.
    pub fn segments(&self) -> Result<Vec<SegmentFile>, BackupError> {
        let segments = self.segment_files()?;
        for pair in segments.windows(2) {
            let [before, after] = pair else { continue };
            if let Some(gap) = self.gap(before.last, after) {
                return Err(gap);
            }
        }
        Ok(segments)
    }

    /// As [`Line::segments`], whether or not changes are missing between two.
    pub(crate) fn segment_files(&self) -> Result<Vec<SegmentFile>, BackupError> {
        let mut segments = Vec::new();
        for (name, path) in names_if_there(&self.segments_directory())? {
            let range = name.strip_suffix(".kcl").and_then(|range| range.split_once('-'));
            let range = range.and_then(|(first, last)| Some((number(first)?, number(last)?)));
            segments.extend(range.map(|(first, last)| SegmentFile { first, last, path }));
        }
        segments.sort_by_key(|segment| (segment.first, segment.last));
        Ok(segments)
    }

    /// What is wrong if `after` does not begin behind change `before`.
    pub(crate) fn gap(&self, before: u64, after: &SegmentFile) -> Option<BackupError> {
        let from = before.saturating_add(1);
        let gap =
            || BackupError::Gap { path: self.segments_directory(), from, to: after.first.saturating_sub(1) };
        (after.first != from).then(gap)
    }

    /// The changes and directories of its snapshots, the oldest first. Looks at names only.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn snapshots(&self) -> Result<Vec<(u64, PathBuf)>, BackupError> {
        let mut snapshots = Vec::new();
        for (name, path) in names_if_there(&self.snapshots_directory())? {
            snapshots.extend(number(&name).map(|change| (change, path)));
        }
        snapshots.sort();
        Ok(snapshots)
    }

    /// Whether it has neither a snapshot nor a segment: nothing is restored from it. Looks at names only.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn is_empty(&self) -> Result<bool, BackupError> {
        Ok(self.snapshots()?.is_empty() && self.segment_files()?.is_empty())
    }

    /// Reads the manifest of a snapshot.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn snapshot(&self, path: &Path) -> Result<SnapshotInfo, BackupError> {
        SnapshotInfo::read(path)
    }
}

/// The name of a change's number in a file name.
pub(crate) fn change_name(change: u64) -> String {
    format!("{change:020}")
}

fn number(digits: &str) -> Option<u64> {
    (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

/// As [`names`]; a directory that is not there has none.
fn names_if_there(directory: &Path) -> Result<Vec<(String, PathBuf)>, BackupError> {
    match names(directory) {
        Err(BackupError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        listed => listed,
    }
}

fn names(directory: &Path) -> Result<Vec<(String, PathBuf)>, BackupError> {
    let failed = BackupError::at(directory, "listing");
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(TEMPORARY) {
            names.push((name, entry.path()));
        }
    }
    names.sort();
    Ok(names)
}

fn identity(instance: Uuid) -> String {
    let body = format!("{MAGIC}\ninstance {instance}\n");
    let sum = Crc32c::of(body.as_bytes());
    format!("{body}end {sum}\n")
}

fn parse_identity(text: &str) -> Option<Uuid> {
    let instance = text.strip_prefix(MAGIC)?.strip_prefix("\ninstance ")?.lines().next()?;
    let instance = Uuid::parse(instance)?;
    (identity(instance) == text).then_some(instance)
}
