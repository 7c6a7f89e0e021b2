//! Reading a cartridge aside, without library and drive: for dumps and rescue.

use std::fs::File;
use std::path::{Path, PathBuf};

use base::{BlockAddress, BlockCount, ByteCount, Partition, Vid};

use super::cartridge::{self, CartridgeLock};
use super::durable;
use super::error::CartridgeError;
use super::frame::{FRAME_VERSION, FrameHeader, FrameKind, HEADER_BYTES, Home};
use super::identity::{Identity, vid_of_directory};
use super::map::{End, ObjectMap};
use super::partition::record_path;
use super::scan::{Found, Scanner, payload_verifies};

/// What an object on tape is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// A record.
    Data,
    /// An encrypted record.
    Encrypted,
    /// A file mark.
    FileMark,
    /// Objects whose headers are damaged.
    Unknown,
}

/// Whether an object verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordCheck {
    /// Header and payload agree with their checksums.
    Good,
    /// The header is intact, the payload is not.
    PayloadDamaged,
    /// The header is damaged.
    HeaderDamaged,
}

/// An object of a cartridge, or a row of damaged ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordInfo {
    /// The partition.
    pub partition: Partition,
    /// Its number within the partition.
    pub block: BlockAddress,
    /// How many objects this is: 1, but for damaged headers perhaps more.
    pub count: BlockCount,
    /// What it is.
    pub kind: RecordKind,
    /// Its payload bytes; of damaged headers, the bytes that they and theirs take in the file.
    pub length: ByteCount,
    /// Where its frame begins in the record file, in bytes.
    pub offset: ByteCount,
    /// Whether it verified.
    pub check: RecordCheck,
}

/// Walks over all objects of a cartridge, index partition first, without changing anything. Holds a shared
/// lock, so a loaded cartridge is refused.
pub struct CartridgeReader {
    vid: Vid,
    partitions: [(Home, PathBuf, File); 2],
    _lock: CartridgeLock,
}

impl CartridgeReader {
    /// Opens the cartridge in `directory`, whose name is its VID.
    ///
    /// # Errors
    /// [`CartridgeError::Locked`] while it is loaded; others as the variants say.
    pub fn open(directory: &Path) -> Result<Self, CartridgeError> {
        let vid = vid_of_directory(directory)?;
        let lock = cartridge::lock(directory, vid, false)?;
        Identity::read(directory, vid)?;
        let open = |partition| {
            let home = Home { vid, partition };
            let path = record_path(directory, home);
            let file = File::open(&path).map_err(CartridgeError::file(&path, "open"))?;
            Ok::<_, CartridgeError>((home, path, file))
        };
        Ok(CartridgeReader {
            vid,
            partitions: [open(Partition::Index)?, open(Partition::Data)?],
            _lock: lock,
        })
    }

    /// The cartridge.
    #[must_use]
    pub fn vid(&self) -> Vid {
        self.vid
    }

    /// Calls `visit` with each object in order, verified by its checksums, until the end or until it returns
    /// `false`.
    ///
    /// # Errors
    /// If a record file cannot be read or is of an unknown version. A damaged object is no error.
    pub fn visit(&self, mut visit: impl FnMut(RecordInfo) -> bool) -> Result<(), CartridgeError> {
        for (home, path, file) in &self.partitions {
            let io = || CartridgeError::file(path, "read");
            let mark = durable::read_head(file, path, *home)?;
            let start = ObjectMap::empty(durable::FRAMES_START).end();
            let mut scanner = Scanner::new(file, *home, mark, start).map_err(io())?;
            loop {
                let info = match scanner.advance().map_err(io())? {
                    Found::End => break,
                    Found::Frame(header) => {
                        let good = payload_verifies(file, &header).map_err(io())?;
                        frame_info(home.partition, &header, good)
                    }
                    Found::Damaged { start, end } => damaged_info(home.partition, start, end),
                    Found::Version(version) => {
                        let (version, known) = (version.into(), FRAME_VERSION.into());
                        return Err(CartridgeError::UnknownVersion { path: path.clone(), version, known });
                    }
                };
                if !visit(info) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn frame_info(partition: Partition, header: &FrameHeader, good: bool) -> RecordInfo {
    RecordInfo {
        partition,
        block: BlockAddress(header.object),
        count: BlockCount(1),
        kind: match header.kind {
            FrameKind::Record => RecordKind::Data,
            FrameKind::FileMark => RecordKind::FileMark,
            FrameKind::Encrypted => RecordKind::Encrypted,
        },
        length: ByteCount(header.length.into()),
        offset: ByteCount(header.offset),
        check: if good { RecordCheck::Good } else { RecordCheck::PayloadDamaged },
    }
}

fn damaged_info(partition: Partition, start: End, end: End) -> RecordInfo {
    RecordInfo {
        partition,
        block: BlockAddress(start.objects),
        count: BlockCount(end.objects - start.objects),
        kind: RecordKind::Unknown,
        length: ByteCount((end.offset - start.offset).saturating_sub(HEADER_BYTES)),
        offset: ByteCount(start.offset),
        check: RecordCheck::HeaderDamaged,
    }
}
