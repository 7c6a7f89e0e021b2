//! Reading whole containers back, block by block, against the checksums of their sealing.

use base::{BlockAddress, ByteCount, ContainerId, Partition, StreamChecksums, TapePosition, Vid};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::BlockSize;

use crate::VolumeError;

/// Faults of one container that are told; reading it ends there.
pub const FAULTS_MAX: usize = 1_000;

/// A container where the catalogue says that it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContainerOnTape {
    /// The container.
    pub container: ContainerId,
    /// Its first block on the data partition.
    pub block: BlockAddress,
    /// Its length.
    pub length: ByteCount,
    /// The checksums of its sealing.
    pub checksums: StreamChecksums,
}

impl ContainerOnTape {
    /// How many blocks it has.
    #[must_use]
    pub fn blocks(&self, block_size: BlockSize) -> u64 {
        self.length.0.div_ceil(u64::from(block_size.bytes()))
    }
}

/// A place of a container that does not hold what it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFault {
    /// The block.
    pub block: BlockAddress,
    /// The first of its bytes in the container.
    pub offset: u64,
    /// How many of them cannot be had.
    pub length: u64,
    /// Why, for people.
    pub reason: String,
}

/// What reading a container back found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadBack {
    /// What cannot be had, in order; empty: every byte was read and the checksums agree.
    pub faults: Vec<BlockFault>,
    /// Whether `sink` broke it off; then nothing is said about the rest.
    pub stopped: bool,
}

impl ReadBack {
    /// Whether the whole container was read and is what was sealed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.faults.is_empty() && !self.stopped
    }
}

/// Reads a container from its first block to its last. `sink` is given all its bytes in order, zeros in place
/// of a block that cannot be read, and says whether to go on. What is passed on before the end is not
/// verified; the answer tells.
///
/// # Errors
/// If the drive or the medium as a whole fails; a block that cannot be read is a fault.
pub fn read_back(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    block_size: BlockSize,
    what: &ContainerOnTape,
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<ReadBack, VolumeError> {
    let size = u64::from(block_size.bytes());
    let mut buffer = vec![0u8; block_size.bytes() as usize];
    let mut back = ReadBack { faults: Vec::new(), stopped: false };
    let mut sums = StreamChecksums::default();
    let (mut stands, mut given) = (None, 0);
    for number in 0..what.blocks(block_size) {
        let block = BlockAddress(what.block.0 + number);
        let offset = number * size;
        let length = size.min(what.length.0 - offset);
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        assert!(0 < wanted && wanted <= buffer.len(), "each block of a container holds bytes of it");
        let fault = match read_at(drive, vid, block, stands, &mut buffer)? {
            Ok(read) if read == wanted => None,
            Ok(read) => Some(format!("it holds {read} bytes, {wanted} were written")),
            Err(reason) => Some(reason),
        };
        stands = fault.is_none().then_some(BlockAddress(block.0 + 1));
        if let Some(reason) = fault {
            buffer.fill(0);
            back.faults.push(BlockFault { block, offset, length, reason });
            if back.faults.len() >= FAULTS_MAX {
                let rest = what.length.0 - offset;
                back.faults.last_mut().into_iter().for_each(|fault| fault.length = rest);
                return Ok(back);
            }
        }
        let bytes = buffer.get(..wanted).unwrap_or_default();
        sums = sums.extend(bytes);
        given += length;
        if !sink(bytes) {
            back.stopped = true;
            return Ok(back);
        }
    }
    assert_eq!(given, what.length.0, "all of a container is looked at, good or bad");
    assert!(back.faults.len() < FAULTS_MAX, "what is found wrong is bounded");
    assert!(back.faults.is_sorted_by(|one, next| one.block < next.block), "each bad block is told once");
    if back.faults.is_empty() && sums != what.checksums {
        let reason = "its bytes do not have the checksums of its sealing".to_owned();
        back.faults.push(BlockFault { block: what.block, offset: 0, length: what.length.0, reason });
    }
    Ok(back)
}

/// Reads one block of a container again, as it was written, into `buffer`; `None` if it cannot be had.
///
/// # Errors
/// If the drive or the medium as a whole fails.
pub fn read_piece_of(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    block: BlockAddress,
    buffer: &mut [u8],
) -> Result<Option<usize>, VolumeError> {
    Ok(read_at(drive, vid, block, None, buffer)?.ok())
}

/// One block; `stands` is where the tape is known to stand. The inner error is the block's, in words.
fn read_at(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    block: BlockAddress,
    stands: Option<BlockAddress>,
    buffer: &mut [u8],
) -> Result<Result<usize, String>, VolumeError> {
    if stands != Some(block) {
        match drive.locate(TapePosition { partition: Partition::Data, block }) {
            Ok(()) => {}
            Err(error @ TapeError::BeyondEndOfData { .. }) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    match drive.read_block(buffer) {
        Ok(ReadBlock::Data(length)) => Ok(Ok(length)),
        Ok(ReadBlock::FileMark) => Ok(Err(format!("cartridge {vid}, block {block} is a file mark"))),
        Ok(ReadBlock::EndOfData) => Ok(Err(format!("cartridge {vid} ends at block {block}"))),
        Err(error @ (TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}
