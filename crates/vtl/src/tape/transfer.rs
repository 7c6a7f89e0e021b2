//! READ, WRITE and WRITE FILEMARKS (SSC-5, clauses 5 and 6).

use base::{Partition, TapePosition};
use library::{BLOCK_BYTES_MAX, FILE_MARKS_MAX, ReadBlock, TapeError, WriteResult};
use scsi::lbp::BlockProtection;
use scsi::position::{BlockLimits, ObjectLimit};
use scsi::{Packed, Sense, SenseKey};

use super::{Run, TRANSFER_MAX, Tape, end_of_data, filemark};
use crate::answer::{Outcome, Refusal, give};
use crate::errors::{early_warning, programmable_early_warning};

/// The longest block as it goes over the wire, with its checksum.
pub const BLOCK_MAX: usize = BLOCK_BYTES_MAX + BlockProtection::LENGTH;

/// A scratch buffer up to this long is kept for the next command.
const SCRATCH_KEPT_MAX: usize = 1 << 20;

/// READ BLOCK LIMITS.
pub fn block_limits(run: &mut Run<'_>, maximum_object: bool) -> Outcome {
    let longest = u32::try_from(BLOCK_BYTES_MAX).unwrap_or(u32::MAX);
    let data = if maximum_object {
        ObjectLimit { greatest: u64::MAX - 1 }.encode()
    } else {
        BlockLimits { granularity: 0, longest, shortest: 1 }.encode()
    };
    Ok(give(&data, data.len() as u64, run.into))
}

/// What a write has to add of the end of its partition; the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Warning {
    None,
    /// The programmable early warning zone was entered: told once.
    Programmable,
    /// It ended behind early warning: told each time.
    Early,
}

impl Warning {
    fn refusal(self) -> Option<Refusal> {
        match self {
            Warning::None => None,
            Warning::Programmable => Some(programmable_early_warning()),
            Warning::Early => Some(early_warning()),
        }
    }
}

/// How a block came.
enum Block {
    /// So many bytes with the checksum if it was asked for: the first of them are in the buffer.
    Read(usize),
    Filemark,
    EndOfData,
}

impl Tape {
    /// Bytes of the blocks of a READ or WRITE: how many and how long.
    fn blocks(&self, fixed: bool, length: u32) -> Result<(usize, usize), Refusal> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if !fixed {
            return Ok((1, length));
        }
        match usize::try_from(self.settings.block_length) {
            // FIXED has no meaning with blocks of variable length.
            Ok(0) | Err(_) => Err(Refusal::bit(1, 0)),
            Ok(block) => Ok((length, block)),
        }
    }

    pub fn read(&mut self, run: &mut Run<'_>, suppress: bool, fixed: bool, length: u32) -> Outcome {
        self.medium()?;
        self.apply_encryption(run)?;
        let (count, block) = self.blocks(fixed, length)?;
        if fixed && suppress {
            return Err(Refusal::bit(1, 1));
        }
        let fits = count.checked_mul(block).is_some_and(|bytes| bytes <= TRANSFER_MAX);
        if block > BLOCK_MAX || !fits {
            return Err(Refusal::field(2));
        }
        if length == 0 {
            return Ok(0);
        }
        let mut transferred = 0;
        for number in 0..count {
            run.goes_on()?;
            let left = || residual(if fixed { count - number } else { block });
            let begin = transferred.min(run.into.len());
            let into = run.into.get_mut(begin..).unwrap_or_default();
            let refused = |refusal: Refusal| refusal.with_residual(left()).with_transferred(transferred);
            let read = self.read_one(into, block).map_err(refused)?;
            let bytes = match read {
                Block::Read(bytes) => bytes,
                Block::Filemark => return Err(refused(filemark())),
                Block::EndOfData => return Err(refused(end_of_data())),
            };
            let given = bytes.min(block);
            transferred += given;
            // With SILI, and blocks of variable length, another length is what the initiator asked to be
            // spared; a longer one it hears of while a block length is set (SSC-5, 5.5).
            let spared = suppress && (bytes < block || self.settings.block_length == 0);
            if bytes != block && !spared {
                let sense = Sense { incorrect_length: true, ..Sense::new(SenseKey::NoSense, 0, 0) };
                let asked = residual(if fixed { count - number } else { block });
                let done = if fixed { 0 } else { residual(bytes) };
                let refusal = Refusal::from(sense).with_residual(asked - done);
                return Err(refusal.with_transferred(transferred));
            }
        }
        Ok(transferred)
    }

    /// Reads what is under the head: `length` bytes of it go into `into`, as far as that goes.
    fn read_one(&mut self, into: &mut [u8], length: usize) -> Result<Block, Refusal> {
        let at = self.position()?;
        let protection = self.settings.protection_on_read();
        let checksum = if protection.is_some() { BlockProtection::LENGTH } else { 0 };
        // The block itself, then its checksum behind it.
        let room = into.len().min(length);
        let first = self.drive.read_block(into.get_mut(..room).unwrap_or_default());
        let bytes = match first {
            Ok(ReadBlock::FileMark) => {
                self.medium()?.marks(at.partition).saw(at.block.0, true);
                return Ok(Block::Filemark);
            }
            Ok(ReadBlock::EndOfData) => return Ok(Block::EndOfData),
            Ok(ReadBlock::Data(bytes)) => {
                if let Some(protection) = protection {
                    let block = into.get(..bytes).unwrap_or_default();
                    let sum = protection.checksum(block);
                    into.iter_mut().take(length).skip(bytes).zip(sum).for_each(|(to, from)| *to = from);
                }
                bytes
            }
            Err(TapeError::BufferTooSmall { record, .. }) => self.read_longer(into, record, length)?,
            Err(error) => return Err(error.into()),
        };
        self.medium()?.marks(at.partition).saw(at.block.0, false);
        // As on writing: the checksum is of the way to the host.
        self.moved.read(bytes);
        Ok(Block::Read(bytes + checksum))
    }

    /// Reads a block of `record` bytes that does not fit the buffer.
    fn read_longer(&mut self, into: &mut [u8], record: usize, length: usize) -> Result<usize, Refusal> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(record.min(BLOCK_BYTES_MAX), 0);
        let read = self.drive.read_block(&mut scratch);
        let outcome = match read {
            Ok(ReadBlock::Data(bytes)) => {
                scratch.truncate(bytes);
                if let Some(protection) = self.settings.protection_on_read() {
                    protection.append(&mut scratch);
                }
                give(&scratch, length as u64, into);
                Ok(bytes)
            }
            // It was longer than a buffer a moment ago.
            Ok(ReadBlock::FileMark | ReadBlock::EndOfData) => {
                Err(Refusal::new(SenseKey::HardwareError, 0x44, 0))
            }
            Err(error) => Err(error.into()),
        };
        if scratch.capacity() <= SCRATCH_KEPT_MAX {
            self.scratch = scratch;
        }
        outcome
    }

    pub fn write(&mut self, run: &mut Run<'_>, fixed: bool, length: u32) -> Outcome {
        self.medium()?;
        self.apply_encryption(run)?;
        let (count, block) = self.blocks(fixed, length)?;
        let protection = self.settings.protection_on_write();
        let checksum = if protection.is_some() { BlockProtection::LENGTH } else { 0 };
        if length == 0 {
            return Ok(0);
        }
        if block > BLOCK_BYTES_MAX + checksum || protection.is_some() && block <= checksum {
            return Err(Refusal::field(2));
        }
        // A block of which a part did not come is never written.
        let all = count.checked_mul(block).and_then(|bytes| run.out.get(..bytes));
        let all = all.ok_or_else(|| Refusal::field(2))?;
        let mut warned = Warning::None;
        for (number, bytes) in all.chunks(block).enumerate() {
            run.goes_on()?;
            let left = residual(if fixed { count - number } else { block });
            let data = match protection {
                None => bytes,
                Some(protection) => protection
                    .verify(bytes)
                    .map_err(|_| Refusal::new(SenseKey::AbortedCommand, 0x10, 0x01).with_residual(left))?,
            };
            let at = self.position()?;
            let written = self.drive.write_block(data);
            let told = self.written(at, 1, false, written).map_err(|refusal| refusal.with_residual(left))?;
            warned = warned.max(told);
            self.moved.wrote(data.len());
        }
        if self.settings.buffered == 0 {
            self.drive.write_filemarks(0)?;
        }
        match warned.refusal() {
            Some(told) => Err(told.with_transferred(all.len())),
            None => Ok(all.len()),
        }
    }

    /// Takes note of what was written at a position.
    fn written(
        &mut self,
        at: TapePosition,
        count: u64,
        is_filemark: bool,
        result: Result<WriteResult, TapeError>,
    ) -> Result<Warning, Refusal> {
        let medium = self.medium()?;
        let first = at.block.0;
        let marks = medium.marks(at.partition);
        match result {
            Ok(WriteResult { early_warning }) => {
                (first..first + count).for_each(|block| marks.wrote(block, is_filemark));
                medium.note_warning(at.partition, first + count, early_warning);
                let enters = self.look_for_zone(at.partition, first + count)?;
                Ok(match (early_warning, enters) {
                    (true, _) => Warning::Early,
                    (false, true) => Warning::Programmable,
                    (false, false) => Warning::None,
                })
            }
            Err(error) => {
                // What became of it is not known.
                marks.cut(first);
                Err(error.into())
            }
        }
    }

    /// Whether what ends before this block, the last one of its partition, entered the programmable early
    /// warning zone. The library tells only of the data partition what is left: the index partition has no
    /// zone.
    pub(super) fn look_for_zone(&mut self, partition: Partition, block: u64) -> Result<bool, Refusal> {
        let (Some(size), Partition::Data) = (self.settings.early_warning(), partition) else {
            return Ok(false);
        };
        let behind = self.drive.early_warning_room().map_or(0, |room| room.0);
        let left = self.drive.remaining()?.0;
        Ok(self.medium()?.note_zone(block, left <= behind.saturating_add(size)))
    }

    /// Filemarks; none is a flush. Both return when all is on the medium, whatever IMMED says.
    pub fn write_filemarks(&mut self, count: u32) -> Outcome {
        let at = self.position()?;
        if count > FILE_MARKS_MAX {
            return Err(Refusal::field(2));
        }
        let result = self.drive.write_filemarks(count);
        let left = i64::from(count);
        let warned = self
            .written(at, u64::from(count), true, result)
            .map_err(|refusal| refusal.with_residual(left))?;
        match warned.refusal().filter(|_| count > 0) {
            Some(told) => Err(told),
            None => Ok(0),
        }
    }
}

/// A count of bytes or blocks for an information field.
fn residual(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
