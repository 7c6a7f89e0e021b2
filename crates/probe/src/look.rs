//! A look at this machine, and recorded ones.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use topology::mounts::Mounts;
use topology::{Machine, Overlay, RECORD_MAX, Reader, Record, RecordError, Recorder, askable};

use crate::ask;
use crate::files::Files;

/// A machine, and the tree that it was read from.
#[derive(Debug)]
pub struct Recorded {
    /// The machine.
    pub machine: Machine,
    /// All that was read of it, with what devices answered.
    pub record: Record,
    /// What is mounted on it.
    pub mounts: Mounts,
}

/// Where what is not in the machine's own files stands.
const PREFIXES: &[&str] = &["/answers", "/about"];

/// Looks at this machine. With `asking`, disks and enclosures are asked how they are: that takes some
/// milliseconds each and root's rights, and is refused by devices one by one.
#[must_use]
pub fn live(asking: bool) -> Recorded {
    let files = Files::of_machine();
    let mut above = Record::default();
    if asking {
        let (disks, services) = askable(&files);
        above = ask::all(&disks, &services);
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    above.put_text("/about/seconds", &seconds.to_string());
    let tree = Overlay { base: files, above, prefixes: PREFIXES };
    let recorder = Recorder::new(&tree);
    let machine = Machine::read(&recorder);
    let mounts = Mounts::read(&Reader::new(&recorder));
    let mut record = recorder.into_record();
    // Answers that this version does not look at are kept for one that does.
    record.absorb(&tree.above);
    Recorded { machine, record, mounts }
}

/// Why a recorded machine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no recorded machine.
    #[error("{}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The directory is no copy of a machine's.
    #[error("{} is no recorded machine: it has neither 'sys' nor 'class' in it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
}

/// Opens a recorded machine: a file that [`save`] has written, or a directory with a copy of `/sys`.
///
/// # Errors
/// If it is neither.
pub fn open(path: &Path) -> Result<Recorded, RecordedError> {
    let failed = |source| RecordedError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.is_dir() {
        if !path.join("sys").is_dir() && !path.join("class").is_dir() {
            return Err(RecordedError::Directory { path: path.to_owned() });
        }
        let files = Files::of_directory(path);
        let recorder = Recorder::new(&files);
        let machine = Machine::read(&recorder);
        let mounts = Mounts::read(&Reader::new(&recorder));
        return Ok(Recorded { machine, record: recorder.into_record(), mounts });
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(RECORD_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let record = Record::parse(&bytes);
    let record = record.map_err(|source| RecordedError::Record { path: path.to_owned(), source })?;
    let mounts = Mounts::read(&Reader::new(&record));
    Ok(Recorded { machine: Machine::read(&record), record, mounts })
}

/// Why a record could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// It is longer than any is read.
    #[error("the record has {0} bytes, more than the {RECORD_MAX} that are read")]
    TooLarge(usize),
    /// The file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Saves a record as a new file, which is not there yet. Gives its length in bytes.
///
/// # Errors
/// If there is something of that name, or it cannot be written.
pub fn save(record: &Record, path: &Path) -> Result<usize, SaveError> {
    let text = record.to_text();
    if text.len() > RECORD_MAX {
        return Err(SaveError::TooLarge(text.len()));
    }
    let write = || {
        let mut file = fs::File::create_new(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| SaveError::Write { path: path.to_owned(), source })?;
    Ok(text.len())
}
