//! Writing one extent file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use base::planted::{Bug, is_planted};

use crate::buffer::AlignedBuffer;
use crate::error::{is_full, is_shortage};
use crate::files::Shared;
use crate::object::{ExtentWriter, PAGE};
use crate::{DriveError, ExtentId};

pub(crate) struct FileExtentWriter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ExtentId,
    pub(crate) file: File,
    pub(crate) parent: PathBuf,
    pub(crate) direct: bool,
    pub(crate) reserved: u64,
    pub(crate) length: u64,
    pub(crate) name_is_durable: bool,
    pub(crate) poisoned: bool,
    /// Of an extent that replaces another: the name it is written under and the one it gets.
    pub(crate) rename: Option<(PathBuf, PathBuf)>,
}

impl Drop for FileExtentWriter {
    fn drop(&mut self) {
        if let Some((temporary, _)) = self.rename.take() {
            // What cannot be removed now goes when the drive is opened again.
            let _ = fs::remove_file(temporary);
        }
    }
}

impl FileExtentWriter {
    fn check_poison(&self) -> Result<(), DriveError> {
        if self.poisoned {
            return Err(DriveError::Poisoned { drive: self.shared.id, extent: self.id });
        }
        Ok(())
    }

    /// Turns a failed write or sync into the end of this writer.
    fn poison(&mut self, operation: &'static str, source: io::Error) -> DriveError {
        self.poisoned = true;
        if is_full(&source) {
            return DriveError::Full { drive: self.shared.id, extent: self.id };
        }
        if !is_shortage(&source) {
            self.shared.mark_suspect();
        }
        DriveError::Io { drive: self.shared.id, extent: self.id, operation, source }
    }

    /// Whether these bytes can be appended; gives the copy that is written in their place if the file takes
    /// no memory that lies as they do.
    pub(crate) fn begin_append(&self, bytes: &[u8]) -> Result<Option<AlignedBuffer>, DriveError> {
        self.check_poison()?;
        if !bytes.len().is_multiple_of(PAGE) {
            return Err(DriveError::Unaligned {
                drive: self.shared.id,
                extent: self.id,
                length: bytes.len(),
            });
        }
        if self.direct && bytes.as_ptr().align_offset(PAGE) != 0 {
            let mut copy = AlignedBuffer::new(bytes.len());
            copy.as_mut_slice().copy_from_slice(bytes);
            return Ok(Some(copy));
        }
        Ok(None)
    }

    /// Takes note of what came of writing so many bytes at the end.
    pub(crate) fn end_append(&mut self, length: usize, written: io::Result<()>) -> Result<(), DriveError> {
        if let Err(source) = written {
            return Err(self.poison("write", source));
        }
        self.length += length as u64;
        Ok(())
    }
}

impl ExtentWriter for FileExtentWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        let copy = self.begin_append(bytes)?;
        let outgoing = copy.as_ref().map_or(bytes, AlignedBuffer::as_slice);
        let written = self.file.write_all_at(outgoing, self.length);
        self.end_append(bytes.len(), written)
    }

    fn sync(&mut self) -> Result<(), DriveError> {
        self.check_poison()?;
        if let Err(source) = self.file.sync_data() {
            if is_planted(Bug::RetriedSync) && self.file.sync_data().is_ok() {
                return Ok(());
            }
            return Err(self.poison("sync", source));
        }
        match self.file.metadata() {
            // What has no name is gone with this descriptor, however well it was synced.
            Ok(found) if found.nlink() == 0 => {
                let source = io::Error::new(io::ErrorKind::NotFound, "it was removed while it was written");
                return Err(self.poison("sync", source));
            }
            Ok(_) => {}
            Err(source) => return Err(self.poison("sync", source)),
        }
        // The temporary name of a replacement promises nothing.
        if !self.name_is_durable && self.rename.is_none() {
            // The name is as much part of the promise as the bytes; nothing else syncs this directory for us.
            if let Err(source) = File::open(&self.parent).and_then(|directory| directory.sync_all()) {
                return Err(self.poison("sync of the directory", source));
            }
            self.name_is_durable = true;
        }
        Ok(())
    }

    fn seal(mut self: Box<Self>) -> Result<(), DriveError> {
        self.check_poison()?;
        if self.reserved > self.length
            && let Err(source) = self.file.set_len(self.length)
        {
            return Err(self.poison("truncate", source));
        }
        self.sync()?;
        if let Some((temporary, last)) = self.rename.take() {
            if let Err(source) = fs::rename(&temporary, last) {
                let _ = fs::remove_file(temporary);
                return Err(self.poison("rename", source));
            }
            self.sync()?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base::{BlobId, DriveId};

    /// A writer to a special file that refuses what an extent's file would take.
    pub(crate) fn writer(file: File) -> FileExtentWriter {
        let directory = File::open("/").unwrap();
        FileExtentWriter {
            shared: Shared::new(DriveId(1), directory),
            id: ExtentId { blob: BlobId(1), stripe: 0, shard: 0 },
            file,
            parent: PathBuf::from("/"),
            direct: false,
            reserved: 0,
            length: 0,
            name_is_durable: false,
            poisoned: false,
            rename: None,
        }
    }

    fn check_poisoned(mut writer: FileExtentWriter) {
        assert!(matches!(writer.append(&[0; PAGE]), Err(DriveError::Poisoned { .. })));
        assert!(matches!(writer.sync(), Err(DriveError::Poisoned { .. })));
        assert!(matches!(Box::new(writer).seal(), Err(DriveError::Poisoned { .. })));
    }

    #[test]
    fn a_failed_sync_poisons_for_good() {
        let mut writer = writer(File::options().write(true).open("/dev/null").unwrap());
        writer.append(&[0; PAGE]).unwrap();
        assert!(matches!(writer.sync(), Err(DriveError::Io { operation: "sync", .. })));
        assert!(writer.shared.is_suspect());
        check_poisoned(writer);
    }

    #[test]
    fn a_failed_write_poisons_for_good() {
        let mut writer = writer(File::open("/dev/null").unwrap());
        assert!(matches!(writer.append(&[0; PAGE]), Err(DriveError::Io { operation: "write", .. })));
        assert!(writer.shared.is_suspect());
        check_poisoned(writer);
    }

    #[test]
    fn a_full_drive_is_not_suspect() {
        let mut writer = writer(File::options().write(true).open("/dev/full").unwrap());
        assert!(matches!(writer.append(&[0; PAGE]), Err(DriveError::Full { .. })));
        assert!(!writer.shared.is_suspect());
        check_poisoned(writer);
    }
}
