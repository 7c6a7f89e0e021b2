//! The files of a log: their names, which of them are there, and files that are whole or not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use base::Timestamp;

use crate::form::{Naming, Record, TimedRecord};
use crate::lines::{LineReader, Piece};

/// Names that begin so are of files being written.
pub const TEMPORARY: &str = ".new-";
/// Lines at the beginning of a file that are looked at for its first time.
const FIRST_LINES_MAX: usize = 100;

/// Where the files of a log are, and how long and how many they may become.
#[derive(Debug)]
pub struct LogFiles<R> {
    pub(crate) directory: PathBuf,
    pub(crate) bytes_max: u64,
    pub(crate) files_max: u32,
    record: PhantomData<fn() -> R>,
}

impl<R> Clone for LogFiles<R> {
    fn clone(&self) -> Self {
        let LogFiles { directory, bytes_max, files_max, record } = self;
        LogFiles {
            directory: directory.clone(),
            bytes_max: *bytes_max,
            files_max: *files_max,
            record: *record,
        }
    }
}

impl<R: Record> LogFiles<R> {
    /// Those in `directory`, with the limits of the log's description.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        LogFiles::with_limits(directory, R::FORM.bytes_max, R::FORM.files_max)
    }

    /// As [`LogFiles::new`], with files of `bytes_max` bytes, `files_max` of them.
    #[must_use]
    pub fn with_limits(directory: &Path, bytes_max: u64, files_max: u32) -> Self {
        assert!(files_max > 0, "a log has a file");
        LogFiles { directory: directory.to_owned(), bytes_max, files_max, record: PhantomData }
    }

    /// Where they are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of the file with this age or number.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.directory.join(name::<R>(number))
    }

    /// The ages or numbers, and the paths, of the files that are there; the oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read. One that is missing has no files.
    pub fn list(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        match R::FORM.naming {
            Naming::ByAge => self.list_by_age(),
            Naming::ByNumber => self.list_by_number(),
        }
    }

    fn list_by_age(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for age in (0..u64::from(self.files_max)).rev() {
            let path = self.path(age);
            if path.try_exists()? {
                found.push((age, path));
            }
        }
        Ok(found)
    }

    fn list_by_number(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            other => other?,
        };
        let prefix = format!("{}.", R::FORM.stem);
        for entry in entries {
            let path = entry?.path();
            let known = path.file_name().and_then(|known| known.to_str()).unwrap_or_default();
            let number = known.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".log"));
            if let Some(number) = number.and_then(|digits| digits.parse().ok())
                && known == name::<R>(number)
            {
                found.push((number, path));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Opens the files that are there to be read, the oldest first.
    pub(crate) fn open_all(&self) -> io::Result<Vec<LogFile>> {
        let mut files = Vec::new();
        for (_, path) in self.list()? {
            match File::open(path) {
                Ok(file) => files.push(LogFile::new(file)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// The number of the file that follows the one with this number. By age: each file gets the next name,
    /// and the oldest goes.
    pub(crate) fn make_way(&self, number: u64) -> io::Result<u64> {
        if R::FORM.naming == Naming::ByNumber {
            return Ok(number + 1);
        }
        if self.files_max == 1 {
            missing_is_fine(fs::remove_file(self.path(0)))?;
        }
        for age in (0..u64::from(self.files_max) - 1).rev() {
            missing_is_fine(fs::rename(self.path(age), self.path(age + 1)))?;
        }
        Ok(0)
    }

    /// Removes the oldest files beyond those that are kept.
    pub(crate) fn trim(&self) -> io::Result<()> {
        let files = self.list()?;
        let kept = usize::try_from(self.files_max).unwrap_or(usize::MAX);
        for (_, path) in files.iter().take(files.len().saturating_sub(kept)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn name<R: Record>(number: u64) -> String {
    let stem = R::FORM.stem;
    match R::FORM.naming {
        Naming::ByAge if number == 0 => format!("{stem}.log"),
        Naming::ByAge => format!("{stem}.{number}.log"),
        Naming::ByNumber => format!("{stem}.{number:06}.log"),
    }
}

/// A file of a log as it was when it was opened to be read.
pub(crate) struct LogFile {
    pub(crate) file: File,
    pub(crate) length: u64,
    /// When it was written last, in nanoseconds since 1970.
    pub(crate) modified: i128,
}

impl LogFile {
    fn new(file: File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = file.metadata()?;
        let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Ok(LogFile { length: found.len(), modified, file })
    }

    /// The time of its first line that can be read.
    pub(crate) fn first_time<R: TimedRecord>(&self) -> io::Result<Option<Timestamp>> {
        let mut lines = LineReader::<_, R>::at(&self.file, 0, self.length)?;
        for _ in 0..FIRST_LINES_MAX {
            match lines.next_piece()? {
                None => break,
                Some(Piece::Whole(line)) => {
                    if let Ok((record, ())) = R::decode(line) {
                        return Ok(Some(record.written_at()));
                    }
                }
                Some(Piece::Torn(_) | Piece::TooLong) => {}
            }
        }
        Ok(None)
    }
}

/// Writes `directory/name` by another name, sync, rename and sync of the directory: after a crash it is whole
/// or not there.
///
/// # Errors
/// If it cannot be written. What was written of it is removed: a full disk must not stay full of what is of
/// no use.
pub fn write_durable(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = directory.join(format!("{TEMPORARY}{name}"));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, directory.join(name))?;
        File::open(directory)?.sync_all()
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Nothing has to be done with a file that is not there.
pub(crate) fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(directory.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        write_durable(directory.path(), "a", b"one").unwrap();
        write_durable(directory.path(), "a", b"two").unwrap();
        assert_eq!(
            (fs::read(directory.path().join("a")).unwrap(), names()),
            (b"two".into(), vec!["a".into()])
        );
        // A directory is in the way of the name: the rename fails.
        fs::create_dir_all(directory.path().join("b/below")).unwrap();
        assert!(write_durable(directory.path(), "b", b"three").is_err());
        assert_eq!(names().len(), 2, "{:?}", names());
    }
}
