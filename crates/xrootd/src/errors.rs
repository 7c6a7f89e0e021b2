//! What an error is to XRootD: a number of errno, which it hands to its client, and words for logs.

use archive::{ArchiveError, ErrorKind};
use rustix::io::Errno;
use transfer::Fault;

use crate::window::WindowError;

/// Why something is not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The number.
    pub errno: u16,
    /// The reason, with what it is about and what can be done.
    pub why: String,
}

impl Refused {
    /// With this number and these words.
    pub fn new(errno: Errno, why: impl Into<String>) -> Self {
        Refused { errno: u16::try_from(errno.raw_os_error()).unwrap_or(5), why: why.into() }
    }
}

impl From<ArchiveError> for Refused {
    fn from(error: ArchiveError) -> Self {
        let kind = error.kind();
        if matches!(kind, ErrorKind::Internal | ErrorKind::Damaged) {
            tracing::error!(%error, "a call of XRootD failed");
        }
        Refused::new(number(kind), error.to_string())
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        let errno = match fault {
            Fault::Busy | Fault::NoThread => Errno::BUSY,
            Fault::TooSlow | Fault::EndedEarly | Fault::Differs | Fault::Lost => Errno::IO,
        };
        Refused::new(errno, fault.to_string())
    }
}

impl From<WindowError> for Refused {
    fn from(error: WindowError) -> Self {
        Refused::new(Errno::NOTSUP, error.to_string())
    }
}

/// Numbers that XRootD has a word for. BUSY makes its client ask again in 5 s; TIMEDOUT would as well, so
/// that nothing else has these two.
fn number(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::BadPath
        | ErrorKind::BadArgument
        | ErrorKind::Malformed
        | ErrorKind::NoSuchClass
        | ErrorKind::Range
        | ErrorKind::KeyReused => Errno::INVAL,
        ErrorKind::LengthMismatch | ErrorKind::DigestMismatch => Errno::ILSEQ,
        ErrorKind::Limit | ErrorKind::TooLarge => Errno::FBIG,
        ErrorKind::NotOffered => Errno::NOTSUP,
        ErrorKind::NotFound | ErrorKind::NoSuchUpload | ErrorKind::NoSuchPart | ErrorKind::NoSuchObject => {
            Errno::NOENT
        }
        ErrorKind::Exists => Errno::EXIST,
        ErrorKind::IsADirectory => Errno::ISDIR,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::NotEmpty | ErrorKind::NotAtOnce => Errno::NOTEMPTY,
        ErrorKind::Changed => Errno::STALE,
        ErrorKind::Held | ErrorKind::WrongState | ErrorKind::KeepsVersions | ErrorKind::Refused => {
            Errno::PERM
        }
        // XRootD tells it as kXR_FileLocked.
        ErrorKind::Locked => Errno::DEADLK,
        ErrorKind::Nearline => NEARLINE,
        ErrorKind::Denied => Errno::ACCESS,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::PoolFull | ErrorKind::RoomIsBeingMade | ErrorKind::ServerFull => Errno::NOSPC,
        ErrorKind::Busy | ErrorKind::NotSettled => Errno::BUSY,
        _ => Errno::IO,
    }
}

/// The bytes are on tape only: "no data available".
pub const NEARLINE: Errno = Errno::NODATA;

#[cfg(test)]
mod tests {
    use base::ArchivePath;

    use super::*;

    #[test]
    fn errors_have_numbers_that_clients_understand() {
        let path = || ArchivePath::new("/a").unwrap();
        let table = [
            (ArchiveError::NotFound(path()), 2),
            (ArchiveError::Exists(path()), 17),
            (ArchiveError::IsADirectory(path()), 21),
            (ArchiveError::PoolFull, 28),
            (ArchiveError::Stopping, 16),
        ];
        for (error, errno) in table {
            assert_eq!(Refused::from(error).errno, errno);
        }
        assert_eq!(Refused::from(WindowError::Again { offset: 0 }).errno, 95);
        assert_eq!(Refused::from(Fault::Busy).errno, 16);
    }
}
