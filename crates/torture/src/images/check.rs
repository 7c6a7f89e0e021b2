//! Whether the engine, opened on an image, has everything that was acknowledged.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use archive::{Archive, ArchiveError, Locality, Selection, Stat};
use catalogue::TapeState;

use super::engine;
use super::work::{Expected, migrate, path, stage};
use crate::content::Version;

/// How long an image may take to bring everything to tape.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a look at each path gave.
pub type Found = BTreeMap<String, Result<Option<Version>, String>>;

/// Opens the engine in `directory` and reads every path of `expected`. A `full` check also brings
/// everything to tape, evicts and stages it, and reads it again.
///
/// # Errors
/// If the engine does not open.
pub fn look_at(
    directory: &Path,
    expected: &Expected,
    full: bool,
    violations: &mut Vec<String>,
) -> io::Result<Found> {
    let archive = engine::open(directory, !full)?;
    let mut found = Found::new();
    for at in expected.keys() {
        let seen = look(&archive, at).map(|(found, _)| found).map_err(|error| error.to_string());
        found.insert(at.clone(), seen);
    }
    if full && let Err(error) = to_tape_and_back(&archive, expected, violations) {
        violations.push(format!("to tape and back: {error}"));
    }
    archive.close();
    Ok(found)
}

/// Compares what was found with what may be there; gives how many files were read.
pub fn judge(found: &Found, expected: &Expected, violations: &mut Vec<String>) -> u64 {
    let mut read = 0;
    for (at, allowed) in expected {
        match found.get(at) {
            Some(Ok(found)) if allowed.contains(found) => read += u64::from(found.is_some()),
            Some(Ok(None)) => violations.push(format!("LOST {at}, expected {allowed:?}")),
            Some(Ok(found)) => violations.push(format!("WRONG {at}: {found:?}, expected {allowed:?}")),
            Some(Err(error)) => violations.push(format!("UNREAD {at}: {error}, expected {allowed:?}")),
            None => violations.push(format!("UNREAD {at}: nobody looked")),
        }
    }
    read
}

/// What stands at a path; of a file that is on tape only, what the catalogue says.
fn look(archive: &Archive, at: &str) -> Result<(Option<Version>, bool), ArchiveError> {
    let stat = match archive.stat(&path(at)) {
        Ok(Stat::File(stat)) => stat,
        Ok(Stat::Directory(_)) | Err(ArchiveError::NotFound(_)) => return Ok((None, true)),
        Err(error) => return Err(error),
    };
    let is_online = stat.locality != Locality::Nearline;
    let length = stat.size.0;
    if !is_online {
        return Ok((Some(Version { id: id_of(&stat.checksums.blake3), length }), false));
    }
    let mut download = archive.open_read(&path(at))?;
    let mut hasher = blake3::Hasher::new();
    let mut received = 0;
    while let Some(piece) = download.next()? {
        hasher.update(piece.as_ref());
        received += piece.as_ref().len() as u64;
    }
    let hash = base::Blake3(*hasher.finalize().as_bytes());
    Ok((Some(Version { id: id_of(&hash), length: received }), true))
}

/// In checks a version goes by its hash, which a file on tape has too.
fn id_of(hash: &base::Blake3) -> u64 {
    hash.0.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte))
}

/// The same values with hashes in place of numbers.
#[must_use]
pub fn hashed(expected: &Expected) -> Expected {
    let hash = |version: Version| Version { id: id_of(&base::Blake3::of(&version.bytes())), ..version };
    expected
        .iter()
        .map(|(path, values)| (path.clone(), values.iter().map(|value| value.map(hash)).collect()))
        .collect()
}

fn to_tape_and_back(
    archive: &Archive,
    expected: &Expected,
    violations: &mut Vec<String>,
) -> Result<(), ArchiveError> {
    if !migrate(archive, PATIENCE)? {
        let queue = archive.queue()?;
        violations.push(format!("HUNG migration: {queue:?}"));
        return Ok(());
    }
    for tape in archive.tapes()? {
        if matches!(tape.state, TapeState::ReadOnly | TapeState::Suspect | TapeState::Disabled) {
            violations.push(format!("tape {} is {:?}: {}", tape.vid, tape.state, tape.reason));
        }
    }
    let mut there = Vec::new();
    for at in expected.keys() {
        if let Ok(Stat::File(stat)) = archive.stat(&path(at)) {
            if stat.copies.len() != 2 {
                violations.push(format!("WRONG copies of {at}: {:?}", stat.copies));
            }
            there.push(path(at));
        }
    }
    if there.is_empty() {
        return Ok(());
    }
    let selection = Selection { paths: there, recursive: true };
    archive.evict(&selection)?;
    if !stage(archive, selection)? {
        violations.push("HUNG stage".to_owned());
        return Ok(());
    }
    for (at, allowed) in expected {
        match look(archive, at) {
            Ok((found, online)) if !allowed.contains(&found) || !online => {
                violations
                    .push(format!("WRONG {at} from tape: {found:?}, online {online}, expected {allowed:?}"));
            }
            Ok(_) => {}
            Err(error) => violations.push(format!("UNREAD {at} from tape: {error}")),
        }
    }
    Ok(())
}
