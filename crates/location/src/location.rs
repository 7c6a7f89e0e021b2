//! Where a drive of the pool is, and the backend that drives it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DriveId, Uuid};
use drive::{
    BurnInRecord, BurnInRecordError, DirectIo, DirectoryDrive, DriveIo, DriveOpenError, ObjectDrive, Stamp,
    holds_nothing,
};
use kinetic_drive::{AddressError, KineticAddress, KineticDrive, KineticPlace};

/// The host of what stands in the machine that the server runs on.
const THIS_HOST: &str = "localhost";

/// Where a drive is. Its kind says which backend opens it; who stands above names no backend.
///
/// As text: a path, or `file:///` and a path, for a directory; `kinetic://` or `kinetics://` and what
/// [`KineticAddress`] says for a drive of the network.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DriveLocation {
    /// A directory of a file system.
    Directory(PathBuf),
    /// A Kinetic drive.
    Kinetic(KineticAddress),
}

/// Why a text is no location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// An address of a Kinetic drive is wrong.
    #[error(transparent)]
    Kinetic(#[from] AddressError),
    /// No backend has this scheme.
    #[error(
        "no drive is at '{text}': '{scheme}' is no known kind, use the path of a directory, or kinetic://"
    )]
    Scheme {
        /// The text.
        text: String,
        /// Its scheme.
        scheme: String,
    },
    /// A `file:` URL names a host or a relative path.
    #[error("no drive is at '{0}': a URL of a directory is file:/// and its absolute path")]
    File(String),
}

impl DriveLocation {
    /// Reads a location; a relative path is one below `base`.
    ///
    /// # Errors
    /// [`LocationError`].
    pub fn parse(text: &Path, base: &Path) -> Result<Self, LocationError> {
        let Some((scheme, rest)) = text.to_str().and_then(|text| text.split_once("://")) else {
            return Ok(DriveLocation::Directory(base.join(text)));
        };
        let whole = || text.display().to_string();
        match scheme {
            "file" if rest.starts_with('/') => Ok(DriveLocation::Directory(PathBuf::from(rest))),
            "file" => Err(LocationError::File(whole())),
            _ if KineticAddress::SCHEMES.contains(&scheme) => {
                Ok(DriveLocation::Kinetic(KineticAddress::parse(scheme, rest, base)?))
            }
            _ => Err(LocationError::Scheme { text: whole(), scheme: scheme.to_owned() }),
        }
    }

    /// The directory of a drive that is one, else the empty path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match self {
            DriveLocation::Directory(path) => path,
            DriveLocation::Kinetic(_) => Path::new(""),
        }
    }

    /// Whether it is a directory of this machine.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self, DriveLocation::Directory(_))
    }

    /// Whether it names the same place as another one, lies in it, or around it, by the words alone.
    #[must_use]
    pub fn meets(&self, other: &DriveLocation) -> bool {
        match (self, other) {
            (DriveLocation::Directory(one), DriveLocation::Directory(other)) => {
                one.starts_with(other) || other.starts_with(one)
            }
            (DriveLocation::Kinetic(one), DriveLocation::Kinetic(other)) => one.meets(other),
            _ => false,
        }
    }

    /// Which file system it is on, of those of this machine; `None` if that cannot be told.
    #[must_use]
    pub fn file_system(&self) -> Option<u64> {
        let DriveLocation::Directory(path) = self else { return None };
        std::fs::metadata(path).ok().map(|found| std::os::unix::fs::MetadataExt::dev(&found))
    }

    /// The machine that the drive stands in, by which drives fail together, where the configuration names no
    /// other. Directories stand in this one, whatever it is called: its name may change, what shares it not.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            DriveLocation::Directory(_) => THIS_HOST,
            DriveLocation::Kinetic(address) => address.host(),
        }
    }

    /// Makes a new drive, which holds all that it should: nothing.
    ///
    /// # Errors
    /// If there is something, or it cannot be written.
    pub fn format(&self, instance: Uuid, id: DriveId) -> Result<(), DriveOpenError> {
        match self {
            DriveLocation::Directory(path) => DirectoryDrive::format(path, instance, id),
            DriveLocation::Kinetic(at) => KineticPlace::new(at)?.format(instance, id, false),
        }
    }

    /// Makes a new drive that takes the place of another and lacks what that one held, until
    /// [`DriveLocation::set_filled`].
    ///
    /// # Errors
    /// As [`DriveLocation::format`].
    pub fn format_unfilled(&self, instance: Uuid, id: DriveId) -> Result<(), DriveOpenError> {
        match self {
            DriveLocation::Directory(path) => DirectoryDrive::format_unfilled(path, instance, id),
            DriveLocation::Kinetic(at) => KineticPlace::new(at)?.format(instance, id, true),
        }
    }

    /// Makes the place of a drive if there is none; gives whether it is empty, so that one may be made there.
    /// The record of a burn-in does not count.
    ///
    /// # Errors
    /// If it cannot be made or looked at.
    pub fn make_place(&self) -> io::Result<bool> {
        match self {
            DriveLocation::Directory(path) => {
                std::fs::create_dir_all(path)?;
                holds_nothing(path)
            }
            DriveLocation::Kinetic(at) => vacant(at),
        }
    }

    /// Whether the place, which is there, can become a drive: nobody else has anything in it.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn can_be_made(&self) -> io::Result<bool> {
        match self {
            DriveLocation::Directory(path) => DirectoryDrive::can_be_made(path),
            DriveLocation::Kinetic(at) => vacant(at),
        }
    }

    /// Opens the drive, which must be this one of this instance. A directory is read and written as `io`
    /// says.
    ///
    /// # Errors
    /// As the variants of the error say.
    pub fn open(
        &self,
        instance: Uuid,
        id: DriveId,
        io: DriveIo,
    ) -> Result<Arc<dyn ObjectDrive>, DriveOpenError> {
        match self {
            DriveLocation::Directory(path) => {
                let drive = DirectoryDrive::open(path, instance, id, DirectIo::Auto)?;
                Ok(Arc::new(drive.driven_by(io)?))
            }
            DriveLocation::Kinetic(at) => {
                Ok(Arc::new(KineticDrive::open(&KineticPlace::new(at)?, instance, id)?))
            }
        }
    }

    /// Looks where it really is, to be compared with others. A place that hangs is waited for.
    #[must_use]
    pub fn resolved(&self) -> ResolvedLocation {
        match self {
            DriveLocation::Directory(path) => ResolvedLocation::Directory(real(path)),
            DriveLocation::Kinetic(at) => ResolvedLocation::Kinetic(at.clone()),
        }
    }

    /// The superblock of whatever drive is there, without opening it.
    ///
    /// # Errors
    /// [`DriveOpenError::NotADrive`] if it is none.
    pub fn read_stamp(&self) -> Result<Stamp, DriveOpenError> {
        match self {
            DriveLocation::Directory(path) => DirectoryDrive::read_stamp(path),
            DriveLocation::Kinetic(at) => KineticPlace::new(at)?.read_stamp(),
        }
    }

    /// Whether it lacks what the drive held whose place it took.
    #[must_use]
    pub fn is_unfilled(&self) -> bool {
        match self {
            DriveLocation::Directory(path) => DirectoryDrive::is_unfilled(path),
            // One that cannot be asked counts as unfilled.
            DriveLocation::Kinetic(at) => KineticPlace::new(at).map_or(true, |place| place.is_unfilled()),
        }
    }

    /// It holds all that it should now. Durable on return.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set_filled(&self) -> Result<(), DriveOpenError> {
        match self {
            DriveLocation::Directory(path) => DirectoryDrive::set_filled(path),
            DriveLocation::Kinetic(at) => KineticPlace::new(at)?.set_filled(),
        }
    }

    /// The record of a burn-in that is there; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn burn_in(&self) -> Result<Option<BurnInRecord>, BurnInRecordError> {
        match self {
            DriveLocation::Directory(path) => BurnInRecord::read(path),
            DriveLocation::Kinetic(_) => Ok(None),
        }
    }

    /// Whether there is an empty place for a drive, such as the mount point of a disk that is not mounted. If
    /// that cannot be told it is none.
    #[must_use]
    pub fn is_vacant(&self) -> bool {
        match self {
            DriveLocation::Directory(path) => holds_nothing(path).unwrap_or(false),
            DriveLocation::Kinetic(at) => vacant(at).unwrap_or(false),
        }
    }

    /// Whether it has a storage of its own, as the mount point of a disk that is mounted.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        let DriveLocation::Directory(path) = self else { return true };
        let device = |path: &Path| path.metadata().map(|found| std::os::unix::fs::MetadataExt::dev(&found));
        matches!((device(path), device(&path.join(".."))), (Ok(own), Ok(above)) if own != above)
    }

    /// Whether nothing at all is there, not even an empty place for a drive.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        match self {
            DriveLocation::Directory(path) => {
                path.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            }
            // A drive that is not reached may be there.
            DriveLocation::Kinetic(_) => false,
        }
    }
}

/// Where a drive really is, as far as that was there when it was looked at. Comparing two looks at nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResolvedLocation {
    /// A directory, without links.
    Directory(PathBuf),
    /// A Kinetic drive, by its addresses.
    Kinetic(KineticAddress),
}

impl ResolvedLocation {
    /// Whether another location is of the same place, by whatever name.
    #[must_use]
    pub fn is_same_place(&self, other: &ResolvedLocation) -> bool {
        match (self, other) {
            (ResolvedLocation::Kinetic(one), ResolvedLocation::Kinetic(other)) => one.meets(other),
            _ => self == other,
        }
    }

    /// Whether one of two places is the other, or lies in it.
    #[must_use]
    pub fn overlaps(&self, other: &ResolvedLocation) -> bool {
        match (self, other) {
            (ResolvedLocation::Directory(one), ResolvedLocation::Directory(other)) => {
                one.starts_with(other) || other.starts_with(one)
            }
            _ => self.is_same_place(other),
        }
    }
}

/// Whether nothing of a pool is on a Kinetic drive.
fn vacant(at: &KineticAddress) -> io::Result<bool> {
    let place = KineticPlace::new(at).map_err(io::Error::other)?;
    place.is_vacant().map_err(io::Error::other)
}

/// A path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = there else { return path.to_owned() };
    path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest))
}

impl fmt::Display for DriveLocation {
    /// A directory as its path. No key stands in an address: only where one is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveLocation::Directory(path) => write!(f, "{}", path.display()),
            DriveLocation::Kinetic(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_without_links_and_also_if_they_are_not_there() {
        let above = tempfile::tempdir().unwrap();
        let path = |path: &str| above.path().join(path);
        std::fs::create_dir(path("d0")).unwrap();
        std::os::unix::fs::symlink(path("d0"), path("link")).unwrap();
        let at = |name: &str| DriveLocation::Directory(path(name)).resolved();
        assert!(at("link").is_same_place(&at("d0")) && at("link/x").is_same_place(&at("d0/x")));
        assert!(!at("d0").is_same_place(&at("d1")) && at("d1").is_same_place(&at("d1")));
        assert!(at("link/x/y").overlaps(&at("d0/x")) && at("d0").overlaps(&at("link/x")));
        assert!(!at("d0").overlaps(&at("d01")));
    }

    #[test]
    fn a_location_is_a_path_or_a_url_of_a_known_kind() {
        let at = |text: &str| DriveLocation::parse(Path::new(text), Path::new("/srv"));
        let directory = |path: &str| Ok(DriveLocation::Directory(PathBuf::from(path)));
        assert_eq!(at("pool/d0"), directory("/srv/pool/d0"));
        assert_eq!(at("/mnt/d0"), directory("/mnt/d0"));
        assert_eq!(at("file:///mnt/d0"), directory("/mnt/d0"));
        assert_eq!(at("file://host/d0"), Err(LocationError::File("file://host/d0".to_owned())));
        let error = at("rados://host/wwn").unwrap_err();
        assert!(error.to_string().contains("'rados'"), "{error}");
        assert!(matches!(at("kinetic://host"), Err(LocationError::Kinetic(_))));
        let drive = at("kinetic://a,b?key-file=k").unwrap();
        assert_eq!(drive.to_string(), "kinetic://a:8123,b:8123?key-file=/srv/k");
        assert_eq!((drive.host(), drive.is_directory()), ("a", false));
        assert!(drive.meets(&at("kinetic://b?key-file=k").unwrap()) && !drive.meets(&at("a").unwrap()));
        assert_eq!(at("/mnt/d0").unwrap().to_string(), "/mnt/d0");
        assert_eq!(at("/mnt/d0").unwrap().host(), at("pool/d1").unwrap().host(), "directories fail with one");
    }
}
