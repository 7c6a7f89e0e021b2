//! The head of a record file: its identity, and two alternating marks that say up to where it is durable.
//!
//! Page 0 (4,096 bytes) begins with the identity, pages 1 and 2 with one mark each; frames start at 12,288.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::block64::{Block64, SEALED_BYTES, partition_byte, partition_of};
use super::error::CartridgeError;
use super::frame::{FRAME_ALIGNMENT, Home};

/// Where the first frame stands.
pub const FRAMES_START: u64 = 3 * PAGE;
const PAGE: u64 = 4096;
const FILE_MAGIC: [u8; 8] = *b"KISTTREC";
const MARK_MAGIC: [u8; 4] = *b"KMRK";
const FILE_VERSION: u32 = 1;
const MARK_VERSION: u16 = 1;

/// Up to where a partition is durable. What lies behind may be missing or torn after a crash; what lies
/// before is damaged if it does not verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableMark {
    /// Rises with every mark written; the higher of the two counts.
    pub counter: u64,
    /// Rises whenever objects are cut off, so that an older index is not believed.
    pub cuts: u64,
    /// Objects that are durable.
    pub objects: u64,
    /// Where the frame behind them starts.
    pub end: u64,
    /// Payload bytes of them.
    pub payload: u64,
}

impl DurableMark {
    pub fn empty() -> Self {
        DurableMark { counter: 0, cuts: 0, objects: 0, end: FRAMES_START, payload: 0 }
    }

    fn encode(&self, home: Home) -> [u8; SEALED_BYTES] {
        let mut block = Block64::zeroed();
        block.put(0, &MARK_MAGIC);
        block.put(4, &MARK_VERSION.to_le_bytes());
        block.put(6, &[partition_byte(home.partition)]);
        block.put(8, &self.counter.to_le_bytes());
        block.put(16, &self.cuts.to_le_bytes());
        block.put(24, &self.objects.to_le_bytes());
        block.put(32, &self.end.to_le_bytes());
        block.put(40, &self.payload.to_le_bytes());
        block.put(48, home.vid.as_bytes());
        block.seal()
    }

    pub fn decode(block: &Block64, home: Home) -> Option<Self> {
        let mark = DurableMark {
            counter: block.u64_at(8),
            cuts: block.u64_at(16),
            objects: block.u64_at(24),
            end: block.u64_at(32),
            payload: block.u64_at(40),
        };
        let valid = block.bytes_at(0) == MARK_MAGIC
            && block.is_sealed()
            && block.u16_at(4) == MARK_VERSION
            && block.u8_at(6) == partition_byte(home.partition)
            && block.bytes_at::<6>(48) == *home.vid.as_bytes()
            && mark.end >= FRAMES_START
            && mark.end < 1 << 63
            && mark.end.is_multiple_of(FRAME_ALIGNMENT)
            && mark.objects < 1 << 63
            && mark.payload <= mark.end - FRAMES_START;
        valid.then_some(mark)
    }

    /// Writes the mark over the older of the two. Not durable before the file is synced.
    pub fn write(&self, file: &File, home: Home) -> io::Result<()> {
        let page = 1 + self.counter % 2;
        file.write_all_at(&self.encode(home), page * PAGE)
    }
}

/// Writes the head of an empty record file.
pub fn write_head(file: &File, home: Home) -> io::Result<()> {
    let mut block = Block64::zeroed();
    block.put(0, &FILE_MAGIC);
    block.put(8, &FILE_VERSION.to_le_bytes());
    block.put(12, &[partition_byte(home.partition)]);
    block.put(16, home.vid.as_bytes());
    file.set_len(FRAMES_START)?;
    file.write_all_at(&block.seal(), 0)?;
    let first = DurableMark::empty();
    first.write(file, home)?;
    DurableMark { counter: 1, ..first }.write(file, home)
}

/// Checks the head of a record file and returns the newest mark.
pub fn read_head(file: &File, path: &Path, home: Home) -> Result<DurableMark, CartridgeError> {
    let damaged = || CartridgeError::Damaged { path: path.to_owned() };
    let head = read_block(file, path, 0)?;
    if head.bytes_at(0) != FILE_MAGIC || !head.is_sealed() {
        return Err(damaged());
    }
    let version = head.u32_at(8);
    if version != FILE_VERSION {
        return Err(CartridgeError::UnknownVersion { path: path.to_owned(), version, known: FILE_VERSION });
    }
    let found = head.vid_at(16).ok_or_else(damaged)?;
    if found != home.vid {
        return Err(CartridgeError::WrongCartridge { path: path.to_owned(), expected: home.vid, found });
    }
    let partition = partition_of(head.u8_at(12)).ok_or_else(damaged)?;
    if partition != home.partition {
        let (expected, found) = (home.partition.ltfs_id(), partition.ltfs_id());
        return Err(CartridgeError::WrongPartition { path: path.to_owned(), expected, found });
    }
    let mut newest: Option<DurableMark> = None;
    for page in 1..=2 {
        let block = read_block(file, path, page * PAGE)?;
        let version = block.u16_at(4);
        if block.bytes_at(0) == MARK_MAGIC && version != MARK_VERSION && block.is_sealed() {
            let (version, known) = (version.into(), MARK_VERSION.into());
            return Err(CartridgeError::UnknownVersion { path: path.to_owned(), version, known });
        }
        let mark = DurableMark::decode(&block, home);
        if mark.is_some_and(|mark| newest.is_none_or(|best| mark.counter > best.counter)) {
            newest = mark;
        }
    }
    newest.ok_or_else(damaged)
}

fn read_block(file: &File, path: &Path, offset: u64) -> Result<Block64, CartridgeError> {
    let mut bytes = [0; SEALED_BYTES];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Block64(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(CartridgeError::Damaged { path: path.to_owned() })
        }
        Err(error) => Err(CartridgeError::file(path, "read")(error)),
    }
}
