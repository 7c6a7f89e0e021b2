//! The newest index of a volume, whichever partition gives it.
//!
//! It is looked for on the data partition, from its end backwards. What cannot be read there, or is an index
//! and cannot be understood, may be a newer one than the one that is found. Then the copy on the index
//! partition is asked, which is never ahead of the data partition: it takes the place of the index that it is
//! a copy of, if nothing else is in doubt.

use base::{BlockAddress, Generation, Partition, TapePosition, Uuid};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::coherency::{VOLUME_COHERENCY, VolumeCoherency};
use ltfs::{BlockSize, Index};

use super::LookError;

/// Within so many bytes an index says that it is one.
const INDEX_HEAD_BYTES: usize = 1_024;

/// The newest index that was found.
pub(super) struct Newest {
    pub(super) index: Index,
    /// Its first block on the data partition.
    pub(super) index_block: BlockAddress,
    /// Whether there may be a newer one.
    pub(super) is_doubtful: bool,
}

/// What of the data partition could not be read or understood: the first and the last such block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Doubt(Option<(BlockAddress, BlockAddress)>);

impl Doubt {
    fn add(&mut self, first: BlockAddress, last: BlockAddress) {
        let (from, to) = self.0.unwrap_or((first, last));
        self.0 = Some((from.min(first), to.max(last)));
    }

    fn join(&mut self, other: Doubt) {
        if let Some((first, last)) = other.0 {
            self.add(first, last);
        }
    }

    /// Whether all of it lies in the blocks that an index may take that begins there.
    fn lies_in(&self, index: &Index, begins: BlockAddress, block_size: BlockSize) -> bool {
        // The copy is a few digits longer or shorter; behind its blocks comes its closing file mark.
        let blocks = (index.encode().len() as u64).div_ceil(u64::from(block_size.bytes())) + 1;
        self.0.is_none_or(|(first, last)| begins <= first && last.0 <= begins.0.saturating_add(blocks))
    }
}

/// What stands between two file marks.
enum Between {
    Index(Box<Index>),
    Data,
    /// An index that cannot be read, or is not what was written.
    Bad,
}

/// The newest index of the volume; `None` if neither partition gives one.
pub(super) fn newest_index(
    drive: &mut dyn TapeDrive,
    uuid: Uuid,
    block_size: BlockSize,
    end: BlockAddress,
) -> Result<Option<Newest>, LookError> {
    let (found, doubt) = newest_on_data(drive, uuid, block_size, end)?;
    let known = generation_in_memory(drive, uuid)?;
    let is_newest = |generation: Generation| known.is_none_or(|known| known <= generation);
    match found {
        Some((index_block, index)) if doubt.0.is_none() && is_newest(index.generation) => {
            Ok(Some(Newest { index, index_block, is_doubtful: false }))
        }
        found => {
            let copy = mover::newest_of_index_partition(drive, uuid, Generation(u64::MAX), block_size)?;
            let copy = copy.and_then(|copy| Some((place_on_data(&copy, end)?, copy)));
            let is_newer =
                |copy: &Index| found.as_ref().is_none_or(|(_, index)| index.generation < copy.generation);
            if let Some((index_block, index)) = copy.filter(|(_, copy)| is_newer(copy)) {
                let is_whole = doubt.lies_in(&index, index_block, block_size) && is_newest(index.generation);
                return Ok(Some(Newest { index, index_block, is_doubtful: !is_whole }));
            }
            Ok(found.map(|(index_block, index)| Newest { index, index_block, is_doubtful: true }))
        }
    }
}

/// Where the index stands on the data partition of which this is a copy.
fn place_on_data(copy: &Index, end: BlockAddress) -> Option<BlockAddress> {
    let on_data = copy.previous.filter(|previous| previous.partition == Partition::Data)?.block;
    (copy.location.partition == Partition::Index && on_data < end).then_some(on_data)
}

/// The generation of the newest index that the cartridge memory knows of the data partition.
fn generation_in_memory(drive: &mut dyn TapeDrive, uuid: Uuid) -> Result<Option<Generation>, TapeError> {
    let value = drive.read_attribute(Partition::Data, VOLUME_COHERENCY.id)?;
    let known = value.and_then(|value| VolumeCoherency::parse(&value).ok());
    Ok(known.filter(|known| known.volume_uuid == uuid).map(|known| known.generation))
}

/// The last whole index construct of the data partition, found from its end backwards over file marks, and
/// what was passed over that may be a newer one.
fn newest_on_data(
    drive: &mut dyn TapeDrive,
    uuid: Uuid,
    block_size: BlockSize,
    end: BlockAddress,
) -> Result<(Option<(BlockAddress, Index)>, Doubt), TapeError> {
    let mut doubt = Doubt::default();
    let mut behind = file_mark_before(drive, end, block_size, &mut doubt)?;
    while let Some(closing) = behind {
        let mut unreadable = Doubt::default();
        let opening = file_mark_before(drive, closing, block_size, &mut unreadable)?;
        let Some(mark) = opening else {
            // Nothing tells what stood between there and here.
            doubt.join(unreadable);
            break;
        };
        let begins = BlockAddress(mark.0 + 1);
        if begins < closing {
            match read_index(drive, begins, closing, uuid, block_size)? {
                Between::Index(index) => return Ok((Some((begins, *index)), doubt)),
                Between::Bad => doubt.add(begins, closing),
                Between::Data => doubt.join(unreadable),
            }
        }
        behind = opening;
    }
    Ok((None, doubt))
}

/// The file mark nearest before `block`; blocks between that could not be read are added to `doubt`.
fn file_mark_before(
    drive: &mut dyn TapeDrive,
    block: BlockAddress,
    block_size: BlockSize,
    doubt: &mut Doubt,
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
            Err(TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. }) => doubt.add(here, here),
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
) -> Result<Between, TapeError> {
    let position = TapePosition { partition: Partition::Data, block: begins };
    drive.locate(position)?;
    let mut buffer = vec![0u8; block_size.bytes() as usize];
    let mut xml = Vec::new();
    for _ in begins.0..ends.0 {
        match drive.read_block(&mut buffer) {
            Ok(ReadBlock::Data(length)) => xml.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Ok(_) => return Ok(Between::Data),
            Err(TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. }) => {
                return Ok(if xml.is_empty() || is_index(&xml) { Between::Bad } else { Between::Data });
            }
            Err(error) => return Err(error),
        }
        // Data, not an index: told by its first bytes, before it fills the memory.
        if !is_index(&xml) || xml.len() > ltfs::INDEX_BYTES_MAX {
            return Ok(Between::Data);
        }
    }
    let index = Index::parse(&xml, block_size).ok();
    let index = index.filter(|index| index.volume_uuid == uuid && index.location == position);
    Ok(index.map_or(Between::Bad, |index| Between::Index(Box::new(index))))
}

/// Whether what begins so is an index. A file of a user may be XML too.
fn is_index(xml: &[u8]) -> bool {
    let head = xml.get(..xml.len().min(INDEX_HEAD_BYTES)).unwrap_or_default();
    head.starts_with(b"<?xml") && head.windows(b"<ltfsindex".len()).any(|words| words == b"<ltfsindex")
}

#[cfg(test)]
mod tests {
    use base::{ByteCount, Vid};
    use library::{DriveName, WriteResult};

    use super::*;

    /// What stands on a data partition: a block of a user, a file mark (`|`), or one that cannot be read
    /// (`?`).
    struct Blocks(&'static [u8], usize);

    impl TapeDrive for Blocks {
        fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
            let block = BlockAddress(self.1 as u64);
            match self.0[self.1] {
                b'|' => Ok(ReadBlock::FileMark),
                b'?' => Err(TapeError::Unreadable {
                    vid: Vid::new("KT0001").unwrap(),
                    at: TapePosition { partition: Partition::Data, block },
                }),
                byte => {
                    buffer[0] = byte;
                    Ok(ReadBlock::Data(1))
                }
            }
        }

        fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
            self.1 = to.block.0 as usize;
            Ok(())
        }

        fn id(&self) -> &DriveName {
            unreachable!()
        }

        fn write_block(&mut self, _: &[u8]) -> Result<WriteResult, TapeError> {
            unreachable!()
        }

        fn write_filemarks(&mut self, _: u32) -> Result<WriteResult, TapeError> {
            unreachable!()
        }

        fn space_to_end_of_data(&mut self, _: Partition) -> Result<TapePosition, TapeError> {
            unreachable!()
        }

        fn position(&mut self) -> Result<TapePosition, TapeError> {
            unreachable!()
        }

        fn rewind(&mut self) -> Result<(), TapeError> {
            unreachable!()
        }

        fn loaded(&self) -> bool {
            true
        }

        fn format_partitions(&mut self) -> Result<(), TapeError> {
            unreachable!()
        }

        fn read_attribute(&mut self, _: Partition, _: u16) -> Result<Option<Vec<u8>>, TapeError> {
            unreachable!()
        }

        fn write_attribute(&mut self, _: Partition, _: u16, _: &[u8]) -> Result<(), TapeError> {
            unreachable!()
        }

        fn remaining(&mut self) -> Result<ByteCount, TapeError> {
            unreachable!()
        }

        fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
            unreachable!()
        }

        fn recommended_order(
            &mut self,
            _segments: &[(BlockAddress, BlockAddress)],
        ) -> Result<Option<Vec<usize>>, TapeError> {
            unreachable!()
        }

        fn track(&mut self, _block_size: u32) -> Result<Option<library::Track>, TapeError> {
            unreachable!()
        }

        fn motion_report(&mut self) -> Option<library::MotionReport> {
            unreachable!()
        }

        fn set_encryption(&mut self, _: Option<&library::TapeEncryption>) -> Result<(), TapeError> {
            unreachable!()
        }

        fn block_encryption(&mut self) -> Result<library::BlockEncryption, TapeError> {
            unreachable!()
        }

        fn alerts(&mut self) -> Result<Vec<library::TapeAlert>, TapeError> {
            unreachable!()
        }

        fn counters(&mut self) -> Result<library::DriveCounters, TapeError> {
            unreachable!()
        }
    }

    fn doubt_of(blocks: &'static [u8]) -> Option<(u64, u64)> {
        let block_size = BlockSize::new(65_536).unwrap();
        let end = BlockAddress(blocks.len() as u64);
        let (found, doubt) = newest_on_data(&mut Blocks(blocks, 0), Uuid([1; 16]), block_size, end).unwrap();
        assert!(found.is_none());
        doubt.0.map(|(first, last)| (first.0, last.0))
    }

    /// What could not be read before the first file mark that was found may have been an index too: it did
    /// not count, and the copy on the index partition was taken for the newest one without a doubt.
    #[test]
    fn what_cannot_be_read_is_doubted_up_to_the_beginning_of_the_tape() {
        assert_eq!(doubt_of(b"v|data|data|"), None);
        assert_eq!(doubt_of(b"v|da?a|data|"), Some((4, 4)));
        assert_eq!(doubt_of(b"v|data|data?"), Some((11, 11)));
        assert_eq!(doubt_of(b"v?data|data|"), Some((1, 1)));
        assert_eq!(doubt_of(b"v?da?a|"), Some((1, 4)));
    }

    #[test]
    fn a_doubt_has_one_stretch() {
        let at = |first, last| (BlockAddress(first), BlockAddress(last));
        let mut doubt = Doubt::default();
        doubt.add(BlockAddress(7), BlockAddress(9));
        doubt.join(Doubt::default());
        doubt.join(Doubt(Some(at(3, 4))));
        assert_eq!(doubt, Doubt(Some(at(3, 9))));
    }

    #[test]
    fn a_users_xml_is_no_index() {
        assert!(is_index(b"<?xml version=\"1.0\"?>\n<ltfsindex version=\"2.4.0\">"));
        assert!(!is_index(b"<?xml version=\"1.0\"?>\n<html>") && !is_index(b"<ltfsindex") && !is_index(b""));
    }
}
