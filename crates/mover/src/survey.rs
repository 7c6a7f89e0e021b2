//! Looking at what stands on a tape between the containers: indexes, change-log segments, torn blocks.

use base::{BlockAddress, Generation, Partition, TapePosition, Uuid};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::catalogue_base::{BasePart, part_at};
use ltfs::changes::{ChangeNumber, ChangeSegment, SegmentError};
use ltfs::{BlockSize, Index};

use crate::VolumeError;

/// Where the length of its body stands in a segment's head.
const SEGMENT_BODY_AT: std::ops::Range<usize> = 56..64;
/// What follows the body.
const SEGMENT_TRAILER_BYTES: u64 = 8;

/// Something that is no container.
#[derive(Clone, Debug)]
pub enum Stray {
    /// A whole index; its first record is here.
    Index(BlockAddress, Box<Index>),
    /// An index that cannot be read whole, or is not this volume's; its generation if its head tells.
    BadIndex(BlockAddress, Option<Generation>, String),
    /// A whole change-log segment: first block, bytes, first and last change.
    Segment(BlockAddress, u64, ChangeNumber, ChangeNumber),
    /// A change-log segment that cannot be read.
    BadSegment(BlockAddress, String),
    /// A whole part of a base of the catalogue: first block, newest change of the base, number of the part.
    Base(BlockAddress, ChangeNumber, u32),
    /// A part of a base that cannot be read.
    BadBase(BlockAddress, String),
    /// A block that cannot be read, so that nothing is known of it.
    Unreadable(BlockAddress, String),
    /// A block that belongs to nothing: a session cut short has left it.
    Torn(BlockAddress),
}

/// One stretch of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The partition.
    pub partition: Partition,
    /// First object.
    pub from: BlockAddress,
    /// Behind the last object.
    pub to: BlockAddress,
}

/// Reads a stretch from front to end and tells what it finds; `found` says whether to go on. Memory is
/// bounded by the largest index.
///
/// # Errors
/// If the drive or the medium as a whole fails.
pub fn survey(
    drive: &mut dyn TapeDrive,
    volume: Uuid,
    block_size: BlockSize,
    stretch: Stretch,
    found: &mut dyn FnMut(Stray) -> bool,
) -> Result<(), VolumeError> {
    let mut walk = Walk {
        drive,
        stretch,
        at: stretch.from,
        stands: false,
        buffer: vec![0; block_size.bytes() as usize],
    };
    while walk.at < stretch.to {
        let block = walk.at;
        let stray = match walk.read()? {
            Object::Data(first) if is_segment(&first) => Some(walk.segment(block, first)?),
            Object::Data(first) => match part_at(&first) {
                Some((length, _)) => Some(walk.base(block, first, length)?),
                None => Some(Stray::Torn(block)),
            },
            Object::FileMark => walk.index(volume, block_size)?,
            Object::Unreadable(reason) => Some(Stray::Unreadable(block, reason)),
            Object::End => return Ok(()),
        };
        assert!(block < walk.at && walk.at <= stretch.to, "each turn gets on, up to the end of the stretch");
        if stray.is_some_and(|stray| !found(stray)) {
            return Ok(());
        }
    }
    Ok(())
}

fn is_segment(record: &[u8]) -> bool {
    !matches!(ChangeSegment::parse(record), Err(SegmentError::Magic))
}

enum Object {
    Data(Vec<u8>),
    FileMark,
    Unreadable(String),
    End,
}

struct Walk<'a> {
    drive: &'a mut dyn TapeDrive,
    stretch: Stretch,
    at: BlockAddress,
    /// Whether the tape stands at `at`.
    stands: bool,
    buffer: Vec<u8>,
}

impl Walk<'_> {
    /// The object at hand, and moves behind it.
    fn read(&mut self) -> Result<Object, VolumeError> {
        if self.at >= self.stretch.to {
            return Ok(Object::End);
        }
        let here = TapePosition { partition: self.stretch.partition, block: self.at };
        if !self.stands {
            match self.drive.locate(here) {
                Ok(()) => {}
                Err(TapeError::BeyondEndOfData { .. }) => return Ok(Object::End),
                Err(error) => return Err(error.into()),
            }
        }
        let read = self.drive.read_block(&mut self.buffer);
        self.stands = read.is_ok();
        let object = match read {
            Ok(ReadBlock::Data(length)) => {
                Object::Data(self.buffer.get(..length).unwrap_or_default().to_vec())
            }
            Ok(ReadBlock::FileMark) => Object::FileMark,
            Ok(ReadBlock::EndOfData) => return Ok(Object::End),
            Err(error @ (TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. })) => {
                Object::Unreadable(error.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        self.at = BlockAddress(self.at.0 + 1);
        Ok(object)
    }

    /// Goes back so that the object at `block` is read next.
    fn back_to(&mut self, block: BlockAddress) {
        (self.at, self.stands) = (block, false);
    }

    fn segment(&mut self, block: BlockAddress, first: Vec<u8>) -> Result<Stray, VolumeError> {
        let body = first.get(SEGMENT_BODY_AT).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let body = body.map_or(0, u64::from_le_bytes).min(ltfs::changes::SEGMENT_BYTES_MAX as u64);
        let total = ltfs::changes::SEGMENT_HEAD_BYTES as u64 + body + SEGMENT_TRAILER_BYTES;
        let bytes = match self.rest(first, total)? {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Stray::BadSegment(block, reason)),
        };
        Ok(match ChangeSegment::parse(&bytes) {
            Ok(segment) => Stray::Segment(block, bytes.len() as u64, segment.first, segment.last),
            Err(error) => Stray::BadSegment(block, error.to_string()),
        })
    }

    fn base(&mut self, block: BlockAddress, first: Vec<u8>, length: u64) -> Result<Stray, VolumeError> {
        let bytes = match self.rest(first, length)? {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Stray::BadBase(block, reason)),
        };
        Ok(match BasePart::parse(&bytes) {
            Ok(part) => Stray::Base(block, part.head.change, part.head.part),
            Err(error) => Stray::BadBase(block, error.to_string()),
        })
    }

    /// The bytes of something that begins with `first` and has `total`, or why they cannot be read; fewer if
    /// a file mark or the end of the stretch comes first.
    fn rest(&mut self, first: Vec<u8>, total: u64) -> Result<Result<Vec<u8>, String>, VolumeError> {
        let mut bytes = first;
        while (bytes.len() as u64) < total {
            let next = self.at;
            match self.read()? {
                Object::Data(more) => bytes.extend_from_slice(&more),
                Object::Unreadable(reason) => return Ok(Err(reason)),
                Object::FileMark | Object::End => {
                    self.back_to(next);
                    break;
                }
            }
        }
        Ok(Ok(bytes))
    }

    /// What follows a file mark: the records of an index and its second mark, or nothing.
    fn index(&mut self, volume: Uuid, block_size: BlockSize) -> Result<Option<Stray>, VolumeError> {
        let begin = self.at;
        let bad = |xml: &[u8], reason: String| Some(Stray::BadIndex(begin, generation_of(xml), reason));
        let mut xml = Vec::new();
        let mark = loop {
            let here = self.at;
            match self.read()? {
                Object::Data(more) if xml.is_empty() && !more.starts_with(b"<?xml") => {
                    self.back_to(here);
                    return Ok(None);
                }
                Object::Data(more) => xml.extend_from_slice(&more),
                Object::Unreadable(reason) => return Ok(bad(&xml, reason)),
                Object::FileMark if xml.is_empty() => {
                    self.back_to(here);
                    return Ok(None);
                }
                Object::FileMark => break here,
                Object::End if xml.is_empty() => return Ok(None),
                Object::End => return Ok(bad(&xml, "it was cut short".to_owned())),
            }
            if xml.len() > ltfs::INDEX_BYTES_MAX {
                return Ok(bad(&xml, "it has no end".to_owned()));
            }
        };
        let reason = match Index::parse(&xml, block_size) {
            Ok(index) if index.volume_uuid == volume => {
                return Ok(Some(Stray::Index(begin, Box::new(index))));
            }
            Ok(index) => format!("it is an index of volume {}", index.volume_uuid),
            Err(error) => error.to_string(),
        };
        // Of an index that was cut short there is no second mark: this one may begin the next index.
        self.back_to(mark);
        Ok(bad(&xml, reason))
    }
}

/// The generation that the head of an index names.
fn generation_of(xml: &[u8]) -> Option<Generation> {
    const TAG: &str = "<generationnumber>";
    let head = String::from_utf8_lossy(xml.get(..xml.len().min(4_096)).unwrap_or_default());
    let digits = head.split_once(TAG)?.1;
    digits.split('<').next()?.trim().parse().ok().map(Generation)
}
