//! What one cartridge tells without a catalogue: its newest index, its change-log segments, its containers.

use std::collections::BTreeMap;

use base::{BlockAddress, ContainerId, Generation, Partition, TapePosition, Uuid, Vid};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::catalogue_base::{PART_HEAD_BYTES, part_at};
use ltfs::changes::{ChangeSegment, SEGMENT_BYTES_MAX, SEGMENT_HEAD_BYTES};
use ltfs::naming::{KIST_DIRECTORY, XATTR_CONTAINER, XATTR_PATH, parse_base_path};
use ltfs::{BlockSize, Index};
use mover::Found;

use super::bases::BasePlace;
use crate::backup::BackupError;

/// What every change-log segment begins with.
const SEGMENT_MAGIC: &[u8] = b"KISTCHG1";
/// Bytes of a segment's trailer.
const SEGMENT_TRAILER_BYTES: u64 = 8;

/// A volume of Kist as it stands on its cartridge.
pub(crate) struct TapeSeen {
    pub(crate) vid: Vid,
    pub(crate) uuid: Uuid,
    pub(crate) block_size: BlockSize,
    pub(crate) end_of_data: BlockAddress,
    /// The newest whole index of the data partition and its first block.
    pub(crate) index: Index,
    pub(crate) index_block: BlockAddress,
    /// Whether something behind that index could not be read: there may be a newer one.
    pub(crate) is_doubtful: bool,
}

/// A container that an index names.
pub(crate) struct Named {
    pub(crate) container: ContainerId,
    pub(crate) block: BlockAddress,
    /// Its path in the archive, or on tape if that is a pack.
    pub(crate) path: String,
}

/// Why a cartridge tells nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    #[error("{0}")]
    Volume(#[from] mover::VolumeError),
    #[error("{0}")]
    Tape(#[from] TapeError),
    #[error("no index of it can be read")]
    NoIndex,
}

/// Looks at the cartridge in the drive. What is blank or no volume of Kist is given as found.
pub(crate) fn look(drive: &mut dyn TapeDrive) -> Result<Result<TapeSeen, Found>, LookError> {
    let (vid, uuid, block_size) = match mover::identify(drive)? {
        Found::Volume { vid, uuid, by_kist: true, block_size } => (vid, uuid, block_size),
        other => return Ok(Err(other)),
    };
    let end = drive.space_to_end_of_data(Partition::Data)?.block;
    let mut is_doubtful = false;
    let newest = newest_index(drive, uuid, block_size, end, &mut is_doubtful)?;
    let (index_block, index) = newest.ok_or(LookError::NoIndex)?;
    Ok(Ok(TapeSeen { vid, uuid, block_size, end_of_data: end, index, index_block, is_doubtful }))
}

impl TapeSeen {
    pub(crate) fn generation(&self) -> Generation {
        self.index.generation
    }

    /// The containers that the newest index names.
    pub(crate) fn containers(&self) -> impl Iterator<Item = Named> {
        self.index.tree.iter().filter_map(|(path, file)| {
            let value = |key: &str| {
                let found = file.xattrs.iter().find(|(k, _)| k == key);
                found.and_then(|(_, value)| String::from_utf8(value.clone()).ok())
            };
            let container = ContainerId(value(XATTR_CONTAINER)?.parse().ok()?);
            let block = file.extents.first().map(|extent| extent.start_block)?;
            let path = value(XATTR_PATH).unwrap_or_else(|| format!("/{}", path.join("/")));
            Some(Named { container, block, path })
        })
    }

    /// Gives all change-log segments of the tape to `take`, those that stand behind the newest index too. A
    /// damaged one is told and left out: another tape may have it whole.
    pub(crate) fn spool_segments(
        &self,
        drive: &mut dyn TapeDrive,
        take: &mut dyn FnMut(Segment) -> Result<(), BackupError>,
    ) -> Result<(), SpoolError> {
        let changes = self.index.tree.iter().filter_map(|(path, file)| {
            let is_segment = path.len() == 3
                && path.first().is_some_and(|name| *name == KIST_DIRECTORY)
                && path.get(1).is_some_and(|name| *name == "changes");
            let extent = file.extents.first().filter(|_| is_segment)?;
            Some((extent.start_block, file.length.0))
        });
        for (block, length) in changes {
            take(self.segment(drive, (block, length))?)?;
        }
        let mut at = self.index_block;
        while at < self.end_of_data {
            let head = read_bytes(drive, at, SEGMENT_HEAD_BYTES as u64, self.block_size);
            let body = head.ok().as_deref().and_then(segment_body);
            let mut next = BlockAddress(at.0 + 1);
            if let Some(body) = body {
                let length = SEGMENT_HEAD_BYTES as u64 + body + SEGMENT_TRAILER_BYTES;
                take(self.segment(drive, (at, length))?)?;
                next = BlockAddress(at.0 + length.div_ceil(u64::from(self.block_size.bytes())).max(1));
            }
            at = next;
        }
        Ok(())
    }

    /// The bases of which the newest index names parts. Only the first block of each is read: it tells whose
    /// it is.
    pub(super) fn bases(&self, drive: &mut dyn TapeDrive) -> Result<Vec<BasePlace>, TapeError> {
        let mut bases: BTreeMap<(u64, u32), BasePlace> = BTreeMap::new();
        for (path, file) in self.index.tree.iter() {
            let Some((change, part, parts)) = parse_base_path(&path) else { continue };
            let Some(extent) = file.extents.first() else { continue };
            let base = bases.entry((change.0, parts)).or_insert_with(|| BasePlace {
                vid: self.vid,
                block_size: self.block_size,
                instance: None,
                change: change.0,
                parts,
                places: BTreeMap::new(),
            });
            base.places.insert(part, (extent.start_block, file.length.0));
        }
        for base in bases.values_mut() {
            for (block, _) in base.places.values() {
                match read_bytes(drive, *block, PART_HEAD_BYTES as u64, self.block_size) {
                    Ok(head) => base.instance = part_at(&head).map(|(_, instance)| instance),
                    Err(TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. }) => {}
                    Err(error) => return Err(error),
                }
                if base.instance.is_some() {
                    break;
                }
            }
        }
        Ok(bases.into_values().collect())
    }

    fn segment(
        &self,
        drive: &mut dyn TapeDrive,
        (block, length): (BlockAddress, u64),
    ) -> Result<Segment, TapeError> {
        let place = format!("tape {}, block {block}", self.vid);
        let bytes = match read_bytes(drive, block, length, self.block_size) {
            Ok(bytes) => bytes,
            Err(error @ (TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. })) => {
                return Ok(Segment::Damaged(format!("{place}: a change-log segment is unreadable: {error}")));
            }
            Err(error) => return Err(error),
        };
        Ok(match ChangeSegment::parse(&bytes) {
            Ok(segment) => {
                let (first, last, instance) = (segment.first.0, segment.last.0, segment.instance);
                Segment::Whole { first, last, instance, bytes }
            }
            Err(error) => Segment::Damaged(format!("{place}: {error}")),
        })
    }
}

/// A change-log segment as it was read.
pub(crate) enum Segment {
    /// The changes `first` to `last` of an instance.
    Whole { first: u64, last: u64, instance: Uuid, bytes: Vec<u8> },
    /// Where it stands and what is wrong, in words.
    Damaged(String),
}

/// Why segments cannot be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error(transparent)]
    File(#[from] BackupError),
}

/// Length of the body if a segment begins here.
fn segment_body(head: &[u8]) -> Option<u64> {
    if !head.starts_with(SEGMENT_MAGIC) {
        return None;
    }
    let body = head.get(56..64).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)?;
    (body <= SEGMENT_BYTES_MAX as u64).then_some(body)
}

/// `length` bytes of the data partition from the start of `block` on.
pub(crate) fn read_bytes(
    drive: &mut dyn TapeDrive,
    block: BlockAddress,
    length: u64,
    block_size: BlockSize,
) -> Result<Vec<u8>, TapeError> {
    drive.locate(TapePosition { partition: Partition::Data, block })?;
    let mut buffer = vec![0u8; block_size.bytes() as usize];
    let mut bytes = Vec::new();
    let length = length.min(SEGMENT_BYTES_MAX as u64);
    while (bytes.len() as u64) < length {
        match drive.read_block(&mut buffer)? {
            ReadBlock::Data(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            // What is too short does not agree with its checksum.
            ReadBlock::FileMark | ReadBlock::EndOfData => break,
        }
    }
    bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    Ok(bytes)
}

/// The last whole index construct of the data partition, found from its end backwards over file marks.
/// `is_doubtful` becomes true if something was passed over that could not be read.
fn newest_index(
    drive: &mut dyn TapeDrive,
    uuid: Uuid,
    block_size: BlockSize,
    end: BlockAddress,
    is_doubtful: &mut bool,
) -> Result<Option<(BlockAddress, Index)>, TapeError> {
    let mut behind = file_mark_before(drive, end, block_size, is_doubtful)?;
    while let Some(closing) = behind {
        let mut is_unreadable = false;
        let opening = file_mark_before(drive, closing, block_size, &mut is_unreadable)?;
        let Some(mark) = opening else { return Ok(None) };
        let begins = BlockAddress(mark.0 + 1);
        if begins < closing
            && let Some(index) = read_index(drive, begins, closing, uuid, block_size)?
        {
            return Ok(Some((begins, index)));
        }
        *is_doubtful |= is_unreadable;
        behind = opening;
    }
    Ok(None)
}

/// The file mark nearest before `block`. `is_doubtful` becomes true if a block between could not be read.
fn file_mark_before(
    drive: &mut dyn TapeDrive,
    block: BlockAddress,
    block_size: BlockSize,
    is_doubtful: &mut bool,
) -> Result<Option<BlockAddress>, TapeError> {
    let mut buffer = vec![0u8; block_size.bytes() as usize];
    let mut at = block.0;
    while let Some(before) = at.checked_sub(1) {
        at = before;
        let here = BlockAddress(at);
        drive.locate(TapePosition { partition: Partition::Data, block: here })?;
        match drive.read_block(&mut buffer) {
            Ok(ReadBlock::FileMark) => return Ok(Some(here)),
            Ok(_) => {}
            Err(TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. }) => *is_doubtful = true,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn read_index(
    drive: &mut dyn TapeDrive,
    begins: BlockAddress,
    ends: BlockAddress,
    uuid: Uuid,
    block_size: BlockSize,
) -> Result<Option<Index>, TapeError> {
    let position = TapePosition { partition: Partition::Data, block: begins };
    drive.locate(position)?;
    let mut buffer = vec![0u8; block_size.bytes() as usize];
    let mut xml = Vec::new();
    for _ in begins.0..ends.0 {
        match drive.read_block(&mut buffer) {
            Ok(ReadBlock::Data(length)) => xml.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Ok(_) | Err(TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        // Data, not an index: told by its first bytes, before it fills the memory.
        if !xml.starts_with(b"<?xml") || xml.len() > ltfs::INDEX_BYTES_MAX {
            return Ok(None);
        }
    }
    let index = Index::parse(&xml, block_size).ok();
    Ok(index.filter(|index| index.volume_uuid == uuid && index.location == position))
}
