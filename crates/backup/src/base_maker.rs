//! A base of the catalogue in the making: its rows, read once into the files in which it waits to be written
//! to tapes.
//!
//! The files stand beside the catalogue, so that no read of the catalogue waits for a tape.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{ByteCount, Duration, Uuid};
use catalogue::ReadError;
use ltfs::catalogue_base::{BasePartWriter, BaseRow, PART_BYTES_MAX, PARTS_MAX, PartHead};
use ltfs::changes::ChangeNumber;
use store::CatalogueStore;

/// Rows are read in one go for at most so long: pages that are freed meanwhile cannot be used again, and the
/// catalogue's file grows by as much.
const READ_LONGEST: Duration = Duration::from_secs(15 * 60);
/// A base may take one part in so many of what the catalogue's file system has free, so that the catalogue,
/// which grows meanwhile, has as much.
const FREE_PART: u64 = 2;
/// So much stays free of it whatever a base turns out to need.
const KEPT_FREE: u64 = 2 * ltfs::catalogue_base::PART_BYTES as u64;

/// A base in files, which are removed when it is dropped.
pub struct MadeBase {
    /// The newest change that is in it.
    pub change: u64,
    /// Bytes of all parts.
    pub bytes: ByteCount,
    parts: Vec<MadePart>,
    directory: Option<Directory>,
}

/// A directory that is removed when nobody needs it any more.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        remove_spool(&self.0);
    }
}

enum MadePart {
    File(PathBuf),
    /// In simulations there is no file system.
    Memory(Vec<u8>),
}

/// Why a base cannot be made. Whoever wants one tries again later; until then the log of changes stays as
/// long as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeBaseError {
    /// A file of it cannot be written: look at the disk of the catalogue.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The catalogue cannot be read: all of it is to be looked at, and restored if it is damaged.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// The catalogue's disk is too slow for it.
    #[error("reading the catalogue took longer than {} minutes", READ_LONGEST.as_nanos() / 60_000_000_000)]
    TooLong,
    /// The server stops: nothing is wrong.
    #[error("the server stops")]
    Stopped,
    /// Make room on the file system of the catalogue.
    #[error("the file system of the catalogue has too little room for it")]
    NoRoom,
    /// The format has no place for it.
    #[error("a row, or the catalogue, is longer than a base can be")]
    TooLarge,
}

impl MakeBaseError {
    /// Why not all rows were read.
    fn not_whole(is_stopping: bool) -> MakeBaseError {
        if is_stopping { MakeBaseError::Stopped } else { MakeBaseError::TooLong }
    }
}

impl MadeBase {
    #[cfg(test)]
    fn in_directory(path: PathBuf) -> MadeBase {
        MadeBase { change: 1, bytes: ByteCount(0), parts: Vec::new(), directory: Some(Directory(path)) }
    }

    /// In how many parts it is.
    #[must_use]
    pub fn parts(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// The bytes of a part, the first one being 0.
    ///
    /// # Errors
    /// If its file cannot be read, or there is no such part.
    pub fn part(&self, at: u32) -> std::io::Result<Vec<u8>> {
        match self.parts.get(at as usize) {
            Some(MadePart::File(path)) => {
                let mut bytes = Vec::new();
                File::open(path)?.take(PART_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Some(MadePart::Memory(bytes)) => Ok(bytes.clone()),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether the file system of the catalogue, of which `free` tells how many bytes are free, is all but
    /// full, and no session is writing the files.
    #[must_use]
    pub fn is_in_the_way(self: &Arc<Self>, free: impl Fn(&Path) -> Option<u64>) -> bool {
        if Arc::strong_count(self) > 1 {
            return false;
        }
        self.directory.as_ref().and_then(|Directory(path)| free(path)).is_some_and(|free| free < KEPT_FREE)
    }
}

/// Reads all rows of the catalogue of `instance` into parts: files beside the catalogue's `directory`, below
/// the name `number`. `is_stopping` is asked at each row.
///
/// # Errors
/// [`MakeBaseError`]. What was written so far is removed.
pub fn make_base(
    catalogue: &CatalogueStore,
    instance: Uuid,
    directory: &Path,
    number: u64,
    is_stopping: &dyn Fn() -> bool,
) -> Result<MadeBase, MakeBaseError> {
    let mut maker = Maker::begin(catalogue, instance, directory, number)?;
    let mut failed = None;
    let whole = catalogue.each_base_row(READ_LONGEST, &mut |change, table, key, value| {
        let row = BaseRow { table, key, value };
        failed = maker.add(change, row).err();
        failed.is_none() && !is_stopping()
    })?;
    match failed {
        Some(error) => Err(error),
        None if !whole => Err(MakeBaseError::not_whole(is_stopping())),
        None => maker.end(),
    }
}

struct Maker {
    instance: Uuid,
    /// `None`: into memory.
    directory: Option<Directory>,
    change: u64,
    part: BasePartWriter,
    rows_before: u64,
    made: Vec<MadePart>,
    bytes: u64,
}

impl Maker {
    fn begin(
        catalogue: &CatalogueStore,
        instance: Uuid,
        directory: &Path,
        number: u64,
    ) -> Result<Maker, MakeBaseError> {
        let directory = match catalogue.is_in_memory() {
            true => None,
            false => {
                let path = spool(directory).join(number.to_string());
                let directory = Directory(path.clone());
                let failed = |source| MakeBaseError::File { path: path.clone(), source };
                fs::create_dir_all(&path).map_err(failed)?;
                let wanted = catalogue.log_size()?.other_bytes;
                if store::free_bytes(&path).map_err(failed)? / FREE_PART < wanted {
                    return Err(MakeBaseError::NoRoom);
                }
                Some(directory)
            }
        };
        Ok(Maker {
            instance,
            directory,
            change: 0,
            part: BasePartWriter::default(),
            rows_before: 0,
            made: Vec::new(),
            bytes: 0,
        })
    }

    fn add(&mut self, change: u64, row: BaseRow<'_>) -> Result<(), MakeBaseError> {
        self.change = change;
        if self.part.add(row) {
            return Ok(());
        }
        self.close(false)?;
        if self.part.add(row) { Ok(()) } else { Err(MakeBaseError::TooLarge) }
    }

    fn close(&mut self, is_last: bool) -> Result<(), MakeBaseError> {
        let number = u32::try_from(self.made.len() + 1).unwrap_or(u32::MAX);
        if number > PARTS_MAX || self.part.rows() == 0 {
            return Err(MakeBaseError::TooLarge);
        }
        let part = std::mem::take(&mut self.part);
        let rows = part.rows();
        let head = PartHead {
            instance: self.instance,
            format: store::FORMAT_VERSION,
            change: ChangeNumber(self.change),
            part: number,
            is_last,
            rows_before: self.rows_before,
        };
        let bytes = part.close(&head);
        self.rows_before += rows;
        self.bytes += bytes.len() as u64;
        let made = match &self.directory {
            None => MadePart::Memory(bytes),
            Some(Directory(directory)) => {
                let path = directory.join(format!("{number:06}.kcb"));
                write(directory, &path, &bytes)?;
                MadePart::File(path)
            }
        };
        self.made.push(made);
        Ok(())
    }

    fn end(mut self) -> Result<MadeBase, MakeBaseError> {
        self.close(true)?;
        let (bytes, parts) = (ByteCount(self.bytes), self.made);
        Ok(MadeBase { change: self.change, bytes, parts, directory: self.directory })
    }
}

/// Writes a part, if that leaves the catalogue room to grow. It is not synced: what waits here does not
/// outlive the server.
fn write(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(), MakeBaseError> {
    let failed = |source| MakeBaseError::File { path: path.to_owned(), source };
    let free = store::free_bytes(directory).map_err(failed)?;
    if free < KEPT_FREE.saturating_add(bytes.len() as u64) {
        return Err(MakeBaseError::NoRoom);
    }
    fs::write(path, bytes).map_err(failed)
}

/// Where a base waits to be written.
fn spool(catalogue: &Path) -> PathBuf {
    let mut name = catalogue.file_name().unwrap_or_default().to_owned();
    name.push(".base");
    catalogue.with_file_name(name)
}

fn remove_spool(spool: &Path) {
    match fs::remove_dir_all(spool) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(path = %spool.display(), %error, "files of a base cannot be removed");
        }
        _ => {}
    }
}

/// Removes what a server that was killed has left of bases beside its catalogue.
pub fn remove_made_bases(catalogue: &Path) {
    remove_spool(&spool(catalogue));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The catalogue's disk was full, its puts were refused, and the files stayed.
    #[test]
    fn a_base_gives_way_when_the_catalogue_needs_its_room_and_nobody_writes_it() {
        let temp = tempfile::tempdir().unwrap();
        let made = Arc::new(MadeBase::in_directory(temp.path().join("1")));
        let session = Arc::clone(&made);
        assert!(!made.is_in_the_way(|_| Some(0)), "a session has it");
        drop(session);
        assert!(made.is_in_the_way(|_| Some(KEPT_FREE - 1)));
        assert!(!made.is_in_the_way(|_| Some(KEPT_FREE)) && !made.is_in_the_way(|_| None));
    }

    /// A stop was told as a read of 15 minutes.
    #[test]
    fn a_stop_is_not_told_as_a_long_read() {
        assert!(matches!(MakeBaseError::not_whole(true), MakeBaseError::Stopped));
        assert!(matches!(MakeBaseError::not_whole(false), MakeBaseError::TooLong));
    }
}
