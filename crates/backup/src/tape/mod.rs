//! What one cartridge tells without a catalogue: its newest index, its change-log segments, its containers.

mod newest;

use std::collections::BTreeMap;

use base::{BlockAddress, ContainerId, Generation, Partition, TapePosition, Uuid, Vid};
use library::{ReadBlock, TapeDrive, TapeError, TapeKeys};
use ltfs::catalogue_base::{PART_HEAD_BYTES, part_at};
use ltfs::changes::{ChangeSegment, SEGMENT_BYTES_MAX, SEGMENT_HEAD_BYTES};
use ltfs::naming::{KIST_DIRECTORY, XATTR_PATH, container_of, parse_base_path, parse_changes_path};
use ltfs::{BlockSize, Index};
use mover::Found;

use crate::BackupError;
use newest::{Newest, newest_index};

/// What every change-log segment begins with.
const SEGMENT_MAGIC: &[u8] = b"KISTCHG1";
/// Bytes of a segment's trailer.
const SEGMENT_TRAILER_BYTES: u64 = 8;

/// A volume of Kist as it stands on its cartridge.
pub struct TapeSeen {
    /// Its name, from its label.
    pub vid: Vid,
    /// The LTFS volume's UUID.
    pub uuid: Uuid,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// The first block of the data partition that nothing is written to.
    pub end_of_data: BlockAddress,
    /// The newest whole index of the data partition, or its copy on the index partition.
    pub index: Index,
    /// Its first block on the data partition.
    pub index_block: BlockAddress,
    /// Whether something behind that index could not be read or understood: there may be a newer one.
    pub is_doubtful: bool,
}

/// A container that an index names.
pub struct NamedContainer {
    /// The container.
    pub container: ContainerId,
    /// Its first block on the data partition.
    pub block: BlockAddress,
    /// Its path in the archive, or on tape if that is a pack.
    pub path: String,
}

/// A base, as far as the index of one tape names it.
pub(crate) struct BasePlace {
    pub(crate) vid: Vid,
    pub(crate) block_size: BlockSize,
    /// Whose it is; `None`: no part of it begins as it should.
    pub(crate) instance: Option<Uuid>,
    pub(crate) change: u64,
    /// In how many parts it is.
    pub(crate) parts: u32,
    /// Of each part that is named its first block and its length.
    pub(crate) places: BTreeMap<u32, (BlockAddress, u64)>,
}

/// Why a cartridge tells nothing. Another drive may read it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// Its labels cannot be read.
    #[error("{0}")]
    Volume(#[from] mover::VolumeError),
    /// The drive or the tape failed.
    #[error("{0}")]
    Tape(#[from] TapeError),
    /// Neither partition has an index that is whole.
    #[error("no index of it can be read")]
    NoIndex,
}

/// Looks at the cartridge in the drive. What is blank or no volume of Kist is given as found. Reads labels
/// and indexes, and moves the tape. If it is encrypted the drive has its key afterwards.
///
/// # Errors
/// [`LookError`], if nothing is known of it.
pub fn look(drive: &mut dyn TapeDrive, keys: &TapeKeys) -> Result<Result<TapeSeen, Found>, LookError> {
    let (vid, uuid, block_size) = match mover::identify(drive)? {
        Found::Volume { vid, uuid, by_kist: true, block_size } => (vid, uuid, block_size),
        other => return Ok(Err(other)),
    };
    if !keys.is_empty() {
        mover::unlock_as_shown(drive, vid, keys)?;
    }
    let end = drive.space_to_end_of_data(Partition::Data)?.block;
    let Newest { index, index_block, is_doubtful } =
        newest_index(drive, uuid, block_size, end)?.ok_or(LookError::NoIndex)?;
    Ok(Ok(TapeSeen { vid, uuid, block_size, end_of_data: end, index, index_block, is_doubtful }))
}

impl TapeSeen {
    /// The generation of its newest index.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.index.generation
    }

    /// The containers that the newest index names.
    pub fn containers(&self) -> impl Iterator<Item = NamedContainer> {
        self.index.tree.iter().filter_map(|(path, file)| {
            let value = |key: &str| {
                let found = file.xattrs.iter().find(|(k, _)| k == key);
                found.and_then(|(_, value)| String::from_utf8(value.clone()).ok())
            };
            let container = container_of(file)?;
            let block = file.extents.first().map(|extent| extent.start_block)?;
            let path = value(XATTR_PATH).unwrap_or_else(|| format!("/{}", path.join("/")));
            Some(NamedContainer { container, block, path })
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
            let last = parse_changes_path(&path).map(|(_, last)| last.0);
            Some(((extent.start_block, file.length.0), last))
        });
        for (place, last) in changes {
            take(self.segment(drive, place, last)?)?;
        }
        let mut at = self.index_block;
        while at < self.end_of_data {
            let body = match read_bytes(drive, at, SEGMENT_HEAD_BYTES as u64, self.block_size) {
                Ok(head) => segment_body(&head),
                // Whoever looked for the newest index has met it too: there may be more than was read.
                Err(TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let mut next = BlockAddress(at.0 + 1);
            if let Some(body) = body {
                let length = SEGMENT_HEAD_BYTES as u64 + body + SEGMENT_TRAILER_BYTES;
                take(self.segment(drive, (at, length), None)?)?;
                next = BlockAddress(at.0 + length.div_ceil(u64::from(self.block_size.bytes())).max(1));
            }
            at = next;
        }
        Ok(())
    }

    /// The bases of which the newest index names parts. Only the first block of each is read: it tells whose
    /// it is.
    pub(crate) fn bases(&self, drive: &mut dyn TapeDrive) -> Result<Vec<BasePlace>, TapeError> {
        let mut bases: BTreeMap<(u64, u32), BasePlace> = BTreeMap::new();
        for (path, file) in &self.index.tree {
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
        last: Option<u64>,
    ) -> Result<Segment, TapeError> {
        let bytes = match read_bytes(drive, block, length, self.block_size) {
            Ok(bytes) => bytes,
            Err(error @ (TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. })) => {
                let what = format!("a change-log segment is unreadable: {error}");
                return Ok(Segment::Damaged { block, last, what });
            }
            Err(error) => return Err(error),
        };
        Ok(match ChangeSegment::parse(&bytes) {
            Ok(segment) => {
                let (first, last, instance) = (segment.first.0, segment.last.0, segment.instance);
                Segment::Whole { block, first, last, instance, bytes }
            }
            Err(error) => Segment::Damaged { block, last, what: error.to_string() },
        })
    }
}

/// A change-log segment as it was read.
pub(crate) enum Segment {
    /// The changes `first` to `last` of an instance.
    Whole { block: BlockAddress, first: u64, last: u64, instance: Uuid, bytes: Vec<u8> },
    /// Where it stands, its last change if the index says so, and what is wrong, in words.
    Damaged { block: BlockAddress, last: Option<u64>, what: String },
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

/// `length` bytes of the data partition from the start of `block` on, at most as many as a change-log segment
/// may have; fewer if a file mark or the end of data comes before.
///
/// # Errors
/// As the drive gives them.
pub fn read_bytes(
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
