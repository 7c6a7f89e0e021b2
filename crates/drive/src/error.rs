//! What can go wrong with a drive.

use std::io;
use std::path::PathBuf;

use base::{ByteCount, DriveId, Uuid};

use crate::ExtentId;

/// Why an operation on an open drive failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// There is no such extent.
    #[error("drive {drive}: extent {extent} does not exist")]
    NotFound {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
    },
    /// The extent to be made is there already.
    #[error("drive {drive}: extent {extent} exists already and is never overwritten")]
    Exists {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
    },
    /// The drive has no space left.
    #[error("drive {drive}: no space for extent {extent}; free space or add drives")]
    Full {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
    },
    /// An earlier write or sync of this extent failed.
    #[error(
        "drive {drive}: extent {extent} had a failed write or sync and takes no more; write it elsewhere"
    )]
    Poisoned {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
    },
    /// An append is no multiple of the page size.
    #[error("drive {drive}: {length} B appended to extent {extent} are not whole pages of 4096 B")]
    Unaligned {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
        /// What was to be appended.
        length: usize,
    },
    /// The extent is shorter than what was to be read.
    #[error("drive {drive}: extent {extent} ends before offset {end:?}; read it from the other shards")]
    Truncated {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
        /// The end of the wanted range.
        end: ByteCount,
    },
    /// The operating system refused an operation on an extent.
    #[error("drive {drive}: {operation} of extent {extent} failed: {source}")]
    Io {
        /// The drive.
        drive: DriveId,
        /// The extent.
        extent: ExtentId,
        /// What was tried.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The extents could not be listed.
    #[error("drive {drive}: listing {path} failed: {source}")]
    List {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The drive does not tell its space.
    #[error("drive {drive}: the file system at {path} gives no status: {source}")]
    Status {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The superblock on the drive is not what it should be.
    #[error(
        "drive {drive}: the superblock in {path} is damaged, old or gone: it is written anew by scrubbing"
    )]
    StampDamaged {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
    },
    /// The drive does not stand where it was opened.
    #[error("drive {drive}: {path} is not there any more: mount its disk, or put it back")]
    NotThere {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
    },
    /// The directory is the one that was opened, and not this drive any more.
    #[error(
        "drive {drive}: {path} was emptied or given to another while in use ({found}): what it held is \
         rebuilt on other drives; empty the directory or put another disk there, then kist pool drive \
         replace {drive}"
    )]
    Wiped {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
        /// What was found instead.
        found: &'static str,
    },
    /// A server of a later epoch has the drive: it takes nothing from this one any more.
    #[error(
        "drive {drive}: {path} belongs to a server of a later epoch ({epoch}), and takes nothing from this \
         one: end this server, or the other one"
    )]
    Fenced {
        /// The drive.
        drive: DriveId,
        /// Where it is.
        path: PathBuf,
        /// The other's epoch, if the drive says it.
        epoch: i64,
    },
    /// The drive failed before and does not work yet.
    #[error("drive {drive}: the probe of {path} failed: {source}")]
    Probe {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The superblock could not be read or replaced.
    #[error("drive {drive}: the superblock in {path} cannot be read or written: {source}")]
    Stamp {
        /// The drive.
        drive: DriveId,
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl DriveError {
    /// What is wrong, for where the drive is named already: each text above begins with `drive N: `.
    #[must_use]
    pub fn without_drive(&self) -> String {
        let text = self.to_string();
        text.split_once(": ").map_or_else(|| text.clone(), |(_, what)| what.to_owned())
    }

    /// The drive has no space, but is otherwise healthy.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, DriveError::Full { .. }) || self.refused_by_system().is_some_and(is_full)
    }

    /// This machine lacks file descriptors or memory for the moment: the drive is not to blame.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        self.refused_by_system().is_some_and(is_shortage)
    }

    /// What the operating system said.
    fn refused_by_system(&self) -> Option<&io::Error> {
        match self {
            DriveError::Io { source, .. }
            | DriveError::List { source, .. }
            | DriveError::Status { source, .. }
            | DriveError::Probe { source, .. }
            | DriveError::Stamp { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// ENOSPC, EDQUOT.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// EMFILE, ENFILE, ENOMEM, and EAGAIN, which a ring says that has no place or memory for an operation.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    error.raw_os_error().is_some_and(|code| shortages.iter().any(|errno| errno.raw_os_error() == code))
}

/// Why a directory could not be formatted or opened as a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveOpenError {
    /// The directory holds a drive or other files already.
    #[error("{0} is not empty; give an empty directory or remove what is there")]
    NotEmpty(PathBuf),
    /// There is no superblock.
    #[error(
        "{0} holds no Kist drive (no drive.kist): mount the right file system there, or make a new drive of \
         it once the server runs: kist pool drive replace ID"
    )]
    NotADrive(PathBuf),
    /// The superblock is damaged.
    #[error(
        "the superblock of {0} is damaged (magic, length or checksum); take the drive out and repair the pool"
    )]
    Damaged(PathBuf),
    /// The superblock is of a format that this program does not know.
    #[error("{path} has drive format {version}, this program knows 1 and 2; use the program that wrote it")]
    Version {
        /// The directory.
        path: PathBuf,
        /// The format found.
        version: u32,
    },
    /// The drive belongs to another instance.
    #[error("{path} belongs to instance {found}, not {expected}; check the configuration")]
    OtherInstance {
        /// The directory.
        path: PathBuf,
        /// What the superblock says.
        found: Uuid,
        /// What was configured.
        expected: Uuid,
    },
    /// The drive has another id: directories were swapped.
    #[error("{path} is drive {found}, not {expected}; check the configuration for swapped paths")]
    OtherDrive {
        /// The directory.
        path: PathBuf,
        /// What the superblock says.
        found: DriveId,
        /// What was configured.
        expected: DriveId,
    },
    /// Another process has the drive open, makes one of the directory, or burns its disk in.
    #[error(
        "{0} is in use by another process: a server, or a burn-in of its disk; wait until that has ended"
    )]
    Locked(PathBuf),
    /// Direct I/O was demanded, but the file system has none.
    #[error("the file system at {0} refuses direct I/O; set it to automatic or off")]
    NoDirectIo(PathBuf),
    /// `io_uring` was demanded, but the kernel does not let this process have it.
    #[error(
        "the kernel refuses io_uring for the drive at {path} ({source}): set io = \"auto\" or \"threads\" in \
         [pool], or allow it (kernel.io_uring_disabled, the filter of system calls of a container)"
    )]
    NoUring {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("{operation} of {path} failed: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// Story: only what an extent lacked counted as a lack of room; a superblock that found none made its
    /// drive suspect.
    #[test]
    fn a_drive_without_room_is_full_whatever_was_to_be_written() {
        let (drive, path) = (DriveId(1), || PathBuf::from("/d"));
        let table = [(Errno::NOSPC, true), (Errno::DQUOT, true), (Errno::IO, false), (Errno::MFILE, false)];
        for (errno, is_full) in table {
            let source = || io::Error::from_raw_os_error(errno.raw_os_error());
            let errors = [
                DriveError::Stamp { drive, path: path(), source: source() },
                DriveError::Probe { drive, path: path(), source: source() },
            ];
            for error in errors {
                assert_eq!(error.is_full(), is_full, "{error}");
            }
        }
    }
}
