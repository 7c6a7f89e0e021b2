//! Where a store stands.

use std::io;
use std::path::{Path, PathBuf};

use base::{ByteCount, Uuid};
use drive::{AlignedBuffer, DirectIo, PAGE};

use crate::directory::Directory;
use crate::error::{FormatError, OpenError};
use crate::limits::{Layout, RESERVE_SEGMENTS_MIN, SEGMENTS_LIMIT, Settings};
use crate::log::ValueLog;
use crate::medium::Medium;
use crate::raw::Raw;
use crate::recover::read_superblock;
use crate::superblock::Superblock;

/// Segments of the smallest store: the reserve, one that is written, and some to be cleaned.
const SEGMENTS_MIN: u32 = RESERVE_SEGMENTS_MIN + 3;
/// What a store in a directory leaves of the free space of its file system, as a share of it, if it is not
/// told how large it shall be.
const LEFT_SHARE: u64 = 50;

/// Where a store is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A directory of a file system: a file for each segment.
    Directory(PathBuf),
    /// A block device, or a file of fixed size.
    Raw(PathBuf),
}

impl Place {
    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Place::Directory(path) | Place::Raw(path) => path,
        }
    }

    fn medium(&self, direct: DirectIo) -> io::Result<(Box<dyn Medium>, bool)> {
        match self {
            Place::Directory(path) => Directory::open(path, direct).map(|medium| {
                let is_direct = medium.is_direct();
                (Box::new(medium) as Box<dyn Medium>, is_direct)
            }),
            Place::Raw(path) => Raw::open(path, direct).map(|medium| {
                let is_direct = medium.is_direct();
                (Box::new(medium) as Box<dyn Medium>, is_direct)
            }),
        }
    }

    fn open(&self, direct: DirectIo) -> Result<Box<dyn Medium>, OpenError> {
        let path = self.path().to_owned();
        match self.medium(direct) {
            Ok((medium, is_direct)) if is_direct || direct != DirectIo::On => Ok(medium),
            Ok(_) => Err(OpenError::NoDirectIo(path)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(OpenError::NoDirectIo(path)),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(OpenError::Locked(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::NotAStore(path)),
            Err(source) => Err(OpenError::Io { path, operation: "opening", source }),
        }
    }
}

impl ValueLog {
    /// Makes a store of this id, which should be one that was never used; durable on return. `room`: how
    /// large it becomes; in a directory without it nearly all that is free. `replace`: what stands there may
    /// be lost.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn format(
        place: &Place,
        id: Uuid,
        layout: Layout,
        room: Option<ByteCount>,
        replace: bool,
    ) -> Result<(), FormatError> {
        layout.check()?;
        let failed = |operation: &'static str| {
            let path = place.path().to_owned();
            move |source: io::Error| match source.kind() {
                io::ErrorKind::ResourceBusy => FormatError::Locked(path),
                _ => FormatError::Io { path, operation, source },
            }
        };
        let (medium, free): (Box<dyn Medium>, u64) = match place {
            Place::Directory(path) => {
                let is_blank = Directory::is_blank(path).map_err(failed("looking"))?;
                if !is_blank && !replace {
                    return Err(FormatError::NotEmpty(path.clone()));
                }
                Directory::prepare(path).map_err(failed("making the directory"))?;
                let medium = Directory::open(path, DirectIo::Auto).map_err(failed("opening"))?;
                let space = rustix::fs::statvfs(path).map_err(io::Error::from).map_err(failed("asking"))?;
                let free = space.f_bavail.saturating_mul(space.f_frsize);
                (Box::new(medium), free - free / LEFT_SHARE)
            }
            Place::Raw(path) => {
                let medium = Raw::open(path, DirectIo::Auto).map_err(failed("opening"))?;
                if !replace && !medium.is_blank().map_err(failed("reading"))? {
                    return Err(FormatError::NotEmpty(path.clone()));
                }
                let room = medium.room();
                (Box::new(medium), room)
            }
        };
        let wanted = match (place, room) {
            (Place::Raw(_), Some(room)) => room.0.min(free),
            (_, room) => room.map_or(free, |room| room.0),
        };
        let slots = u32::try_from(wanted / layout.segment.0).unwrap_or(u32::MAX);
        Self::format_on(&*medium, place.path(), id, layout, slots)
    }

    /// Makes a store on this medium.
    ///
    /// # Errors
    /// As [`ValueLog::format`].
    #[doc(hidden)]
    pub fn format_on(
        medium: &dyn Medium,
        path: &Path,
        id: Uuid,
        layout: Layout,
        slots: u32,
    ) -> Result<(), FormatError> {
        layout.check()?;
        if !(SEGMENTS_MIN..=SEGMENTS_LIMIT).contains(&slots) {
            let room = ByteCount(u64::from(slots).saturating_mul(layout.segment.0));
            return Err(FormatError::Room { room, segment: layout.segment, least: SEGMENTS_MIN });
        }
        // What stands there of a store of the same id must not be taken for what this one will write.
        let before = read_superblock(medium, path).ok().map(|(superblock, _)| superblock);
        let epoch = before.filter(|before| before.store == id).map_or(0, |before| before.epoch);
        let superblock = Superblock { store: id, generation: 1, epoch, layout, slots, made: 0, wipe: 0 };
        let mut page = AlignedBuffer::new(PAGE);
        superblock.encode(page.as_mut_slice());
        let written = [0, 1].into_iter().try_for_each(|copy| medium.write_superblock(copy, page.as_slice()));
        written.and_then(|()| medium.sync()).map_err(|source| FormatError::Io {
            path: path.to_owned(),
            operation: "writing the superblock",
            source,
        })
    }

    /// Opens a store and locks it against others.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(place: &Place, expected: Option<Uuid>, settings: Settings) -> Result<ValueLog, OpenError> {
        let medium = place.open(settings.direct)?;
        Self::open_on(medium, place.path(), expected, settings)
    }

    /// Which store is at a place, without opening it; it must not be open.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn identify(place: &Place) -> Result<Uuid, OpenError> {
        let medium = place.open(DirectIo::Auto)?;
        read_superblock(&*medium, place.path()).map(|(superblock, _)| superblock.store)
    }
}
