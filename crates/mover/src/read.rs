//! Wanted files from tape to the store of blobs: the drive's thread reads in the order it is given, another
//! one checks and stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threads::mpsc::{Receiver, SyncSender, sync_channel};

use base::{
    BlobDescription, BlobPiece, BlockAddress, ByteCount, ContainerId, DriveGroup, FileId, Partition,
    StreamChecksums, TapePosition, Vid,
};
use blob::{BlobError, BlobSink, BlobStore, NewBlob, TapeFlow, Use};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::BlockSize;
use ltfs::pack::{PackHeaderOf, read_pack_header};

use crate::VolumeError;
use crate::blocks::{Block, BlockArena};

/// A file to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedFile {
    /// The file.
    pub file: FileId,
    /// The container, if that is a part of the file only: it is the part that is read, and meant below.
    pub part: Option<ContainerId>,
    /// First block of its container.
    pub block: BlockAddress,
    /// Where its header begins in the container; equal to `data_offset` outside of packs.
    pub header_offset: ByteCount,
    /// Where its bytes begin in the container.
    pub data_offset: ByteCount,
    /// Its size.
    pub length: ByteCount,
    /// Its checksums.
    pub checksums: StreamChecksums,
    /// The drives of the store that are to hold it, if all of its batch agree.
    pub group: DriveGroup,
    /// Up to so many blocks between the head and it are read and thrown away, because that is quicker than a
    /// locate; 0: none.
    pub read_through: u64,
}

/// A file of a batch that did not come.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecallFault {
    /// The drive cannot read a block.
    #[error("cartridge {vid}, block {block} cannot be read: {reason}")]
    Unreadable {
        /// The cartridge.
        vid: Vid,
        /// The block.
        block: BlockAddress,
        /// What the drive says.
        reason: String,
    },
    /// A block that should hold data is a file mark or the end of data, or shorter than it should be.
    #[error("cartridge {vid}, block {block} does not hold what the catalogue says")]
    Misplaced {
        /// The cartridge.
        vid: Vid,
        /// The block.
        block: BlockAddress,
    },
    /// The pack's header at that place is another file's, or none.
    #[error("the member at block {block} of cartridge {vid} is not file {file}: {reason}")]
    Header {
        /// The cartridge.
        vid: Vid,
        /// First block of the container.
        block: BlockAddress,
        /// The file that should be there.
        file: FileId,
        /// What is there.
        reason: String,
    },
    /// The bytes do not have the file's checksum.
    #[error("file {file} on cartridge {vid} does not have its checksum")]
    Checksum {
        /// The cartridge.
        vid: Vid,
        /// The file.
        file: FileId,
    },
}

/// How one file of a batch fared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recalled {
    /// The file.
    pub file: FileId,
    /// As in [`WantedFile::part`].
    pub part: Option<ContainerId>,
    /// Where it is in the store now, or why this tape cannot give it.
    pub result: Result<BlobPiece, RecallFault>,
}

/// Files whose bytes are synced in the store, to be committed together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecallBatch {
    /// The blob that holds them; `None` if no file came.
    pub blob: Option<BlobDescription>,
    /// Each file of the batch.
    pub files: Vec<Recalled>,
}

enum Message {
    /// A batch of so many bytes begins, which these drives are to hold.
    Open(ByteCount, DriveGroup),
    /// The next file of the current batch begins.
    Begin(WantedFile),
    /// A range of a block belongs to the current file.
    Bytes(Arc<Block>, std::ops::Range<usize>),
    /// All bytes of the current file were sent, or none more will come.
    End(Option<RecallFault>),
    /// The batch is complete.
    Commit,
}

const MESSAGES_MAX: usize = 256;

/// Gives the files that are read next.
pub type NextBatch<'a> = dyn FnMut(&mut dyn TapeDrive) -> Vec<WantedFile> + 'a;

/// Reads batch after batch of wanted files in the order given, until `next_batch` gives an empty one. It is
/// called when the head stands behind the last file of the batch before, and may ask the drive. `buffer` is
/// the memory for blocks.
/// `commit` is called on another thread with each batch once its bytes are synced in the store; `false` ends
/// the session. `stream` is told what is moved and how long the drive waits for the store.
///
/// # Errors [`RecallEnd::Tape`] if the drive fails, [`RecallEnd::Store`] if the store cannot take the bytes.
/// Batches committed before stay committed.
#[allow(clippy::too_many_arguments)]
pub fn recall(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    block_size: BlockSize,
    store: &dyn BlobStore,
    buffer: ByteCount,
    progress: &AtomicU64,
    stop: &AtomicBool,
    next_batch: &mut NextBatch<'_>,
    commit: &mut (dyn FnMut(RecallBatch) -> bool + Send),
    stream: &dyn TapeFlow,
) -> Result<(), RecallEnd> {
    let size = block_size.bytes() as usize;
    let arena = BlockArena::new(size, usize::try_from(buffer.0).unwrap_or(usize::MAX) / size);
    let (sender, receiver) = sync_channel(MESSAGES_MAX);
    threads::scope(|scope| {
        let storing = scope.spawn(move || keep(store, vid, receiver, commit));
        let mut head = Head { drive, vid, arena, size, block: None, stream };
        let read = read_batches(&mut head, sender, progress, stop, next_batch);
        match (read, storing.join()) {
            (Err(error), _) => Err(RecallEnd::Tape(error)),
            (Ok(()), Ok(result)) => result.map_err(RecallEnd::Store),
            (Ok(()), Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// Why a recall session ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecallEnd {
    /// The drive or medium failed as a whole.
    #[error(transparent)]
    Tape(VolumeError),
    /// The store cannot take the bytes.
    #[error("the pool cannot take recalled files: {0}")]
    Store(BlobError),
}

fn read_batches(
    head: &mut Head<'_>,
    sender: SyncSender<Message>,
    progress: &AtomicU64,
    stop: &AtomicBool,
    next_batch: &mut NextBatch<'_>,
) -> Result<(), VolumeError> {
    while !stop.load(Ordering::Relaxed) {
        let batch = next_batch(head.drive);
        if batch.is_empty() {
            return Ok(());
        }
        let bytes = batch.iter().map(|wanted| wanted.length.0).sum();
        if sender.send(Message::Open(ByteCount(bytes), group_of(&batch))).is_err() {
            return Ok(());
        }
        for wanted in batch {
            if sender.send(Message::Begin(wanted.clone())).is_err() {
                return Ok(());
            }
            let fault = head.read_file(&wanted, &sender)?;
            progress.fetch_add(wanted.length.0, Ordering::Relaxed);
            if sender.send(Message::End(fault)).is_err() {
                return Ok(());
            }
        }
        if sender.send(Message::Commit).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The drives that all files of a batch are to be on.
fn group_of(batch: &[WantedFile]) -> DriveGroup {
    let first = batch.first().map_or(DriveGroup::MAIN, |wanted| wanted.group);
    assert!(!batch.is_empty(), "a batch has files");
    if batch.iter().all(|wanted| wanted.group == first) { first } else { DriveGroup::MAIN }
}

/// The drive, and the block that was read last.
struct Head<'a> {
    drive: &'a mut dyn TapeDrive,
    vid: Vid,
    arena: BlockArena,
    size: usize,
    block: Option<(u64, Arc<Block>)>,
    stream: &'a dyn TapeFlow,
}

impl Head<'_> {
    /// Sends the bytes of one file, header included. A fault concerns this file only; an error the whole
    /// drive.
    fn read_file(
        &mut self,
        wanted: &WantedFile,
        sender: &SyncSender<Message>,
    ) -> Result<Option<RecallFault>, VolumeError> {
        let size = self.size as u64;
        let mut at = wanted.header_offset.0;
        let end = wanted.data_offset.0 + wanted.length.0;
        assert!(wanted.header_offset <= wanted.data_offset, "a member's header stands before its bytes");
        let mut read_through = wanted.read_through;
        while at < end {
            let number = wanted.block.0 + at / size;
            let block = match self.fetch(number, std::mem::take(&mut read_through))? {
                Ok(block) => block,
                Err(fault) => return Ok(Some(fault)),
            };
            let (from, left) = (index(at % size), index(end - at));
            let to = from.saturating_add(left).min(self.size);
            assert!(from < to && to <= self.size, "each turn reads bytes of one block, so that it ends");
            if to > block.length {
                return Ok(Some(RecallFault::Misplaced { vid: self.vid, block: BlockAddress(number) }));
            }
            at += (to - from) as u64;
            self.stream.moved((to - from) as u64);
            let waiting = self.stream.wait();
            let sent = sender.send(Message::Bytes(block, from..to));
            drop(waiting);
            if sent.is_err() {
                return Ok(None);
            }
        }
        assert_eq!(at, end, "a file is read to its end and not further");
        Ok(None)
    }

    /// The block of that number: the one at hand, or read after a move if it is not the next one.
    fn fetch(
        &mut self,
        number: u64,
        read_through: u64,
    ) -> Result<Result<Arc<Block>, RecallFault>, VolumeError> {
        if let Some((at, block)) = &self.block
            && *at == number
        {
            return Ok(Ok(Arc::clone(block)));
        }
        let next = self.block.take().map(|(at, _)| at + 1);
        let target = TapePosition { partition: Partition::Data, block: BlockAddress(number) };
        match next {
            Some(next) if next == number => {}
            // What the order put in front of it may have been left out: then the way is longer than planned.
            Some(next) if next < number && number - next <= read_through => {
                for between in next..number {
                    if self.read(between)?.is_err() {
                        self.drive.locate(target)?;
                        break;
                    }
                }
            }
            _ => self.drive.locate(target)?,
        }
        let read = self.read(number)?;
        if let Ok(block) = &read {
            self.block = Some((number, Arc::clone(block)));
        }
        Ok(read)
    }

    fn read(&mut self, number: u64) -> Result<Result<Arc<Block>, RecallFault>, VolumeError> {
        let (vid, address) = (self.vid, BlockAddress(number));
        let mut block = {
            let _waiting = self.stream.wait();
            self.arena.take()
        };
        match self.drive.read_block(block.whole()) {
            Ok(ReadBlock::Data(length)) => {
                assert!(length <= self.size, "a drive gives no more than the buffer takes");
                block.length = length;
                Ok(Ok(Arc::new(block)))
            }
            Ok(ReadBlock::FileMark | ReadBlock::EndOfData) | Err(TapeError::BufferTooSmall { .. }) => {
                Ok(Err(RecallFault::Misplaced { vid, block: address }))
            }
            Err(error @ TapeError::Unreadable { .. }) => {
                Ok(Err(RecallFault::Unreadable { vid, block: address, reason: error.to_string() }))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A file of the current batch while its bytes arrive.
struct Arriving {
    wanted: WantedFile,
    header: Vec<u8>,
    /// Where it begins in the blob.
    begin: u64,
    received: u64,
    sums: StreamChecksums,
}

/// The storing thread: one blob a batch.
fn keep(
    store: &dyn BlobStore,
    vid: Vid,
    receiver: Receiver<Message>,
    commit: &mut (dyn FnMut(RecallBatch) -> bool + Send),
) -> Result<(), BlobError> {
    let mut writer: Option<Box<dyn BlobSink>> = None;
    let (mut expected, mut stored, mut group) = (ByteCount(0), 0u64, DriveGroup::MAIN);
    let mut batch = RecallBatch::default();
    let mut current: Option<Arriving> = None;
    for message in receiver {
        match message {
            Message::Open(bytes, of) => {
                assert!(
                    writer.is_none() && batch.files.is_empty(),
                    "a batch begins when the last is committed"
                );
                (expected, group) = (bytes, of);
            }
            Message::Begin(wanted) => {
                assert!(current.is_none(), "one file arrives at a time");
                current = Some(Arriving {
                    wanted,
                    header: Vec::new(),
                    begin: stored,
                    received: 0,
                    sums: StreamChecksums::default(),
                });
            }
            Message::Bytes(block, range) => {
                let Some(file) = &mut current else { continue };
                assert!(range.end <= block.length, "what was sent was read");
                let bytes = block.filled().get(range).unwrap_or_default();
                let data = file.split_header(bytes);
                if data.is_empty() {
                    continue;
                }
                file.sums = file.sums.extend(data);
                file.received += data.len() as u64;
                let writer = match &mut writer {
                    Some(writer) => writer,
                    None => {
                        let new = NewBlob { length: Some(expected), whose: Use::Stream, group };
                        writer.insert(store.create(new)?)
                    }
                };
                writer.write(data)?;
                stored += data.len() as u64;
                assert!(stored <= expected.0, "no more arrives than the room that was asked for");
                assert!(file.received <= file.wanted.length.0, "nor more of a file than it has");
            }
            Message::End(fault) => {
                let Some(file) = current.take() else { continue };
                batch.files.push(file.judge(vid, fault));
            }
            Message::Commit => {
                assert!(current.is_none(), "a batch ends when its last file has");
                if let Some(writer) = writer.take() {
                    let blob = writer.finish()?;
                    assert_eq!(blob.length.0, stored, "a blob has all that was written to it");
                    batch.blob = Some(blob);
                }
                let complete = settle(std::mem::take(&mut batch));
                stored = 0;
                if !commit(complete) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// A place in memory; more than it can address is as far as it goes.
fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Gives the pieces the id of their blob, known only now.
fn settle(mut batch: RecallBatch) -> RecallBatch {
    let has_blob = batch.blob.is_some();
    let stands =
        |recalled: &Recalled| has_blob || recalled.result.as_ref().is_ok_and(|piece| piece.length.0 == 0);
    assert!(
        batch.files.iter().all(|recalled| recalled.result.is_err() || stands(recalled)),
        "a recalled file with bytes stands in a blob"
    );
    if let Some(blob) = &batch.blob {
        for recalled in &mut batch.files {
            if let Ok(piece) = &mut recalled.result {
                piece.blob = blob.id;
                assert!(
                    piece.offset.0 + piece.length.0 <= blob.length.0,
                    "a recalled file lies within its blob"
                );
            }
        }
    }
    batch
}

impl Arriving {
    /// Keeps what belongs to the header and gives the file's own bytes.
    fn split_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let header_length = index(self.wanted.data_offset.0 - self.wanted.header_offset.0);
        let missing = header_length.saturating_sub(self.header.len()).min(bytes.len());
        let (header, data) = bytes.split_at(missing);
        self.header.extend_from_slice(header);
        data
    }

    fn judge(self, vid: Vid, fault: Option<RecallFault>) -> Recalled {
        let (file, part) = (self.wanted.file, self.wanted.part);
        let result = match fault {
            Some(fault) => Err(fault),
            None => self.check(vid),
        };
        Recalled { file, part, result }
    }

    fn check(self, vid: Vid) -> Result<BlobPiece, RecallFault> {
        let WantedFile { file, block, length, checksums, header_offset, data_offset, .. } = self.wanted;
        assert!(
            self.header.len() as u64 <= data_offset.0 - header_offset.0,
            "no bytes of a file are its header"
        );
        if header_offset != data_offset {
            let refuse = |reason: String| RecallFault::Header { vid, block, file, reason };
            let header = read_pack_header(&self.header).map_err(|error| refuse(error.to_string()))?;
            match header.of {
                PackHeaderOf::Member { file: found, .. } if found == file => {}
                PackHeaderOf::Member { file: found, .. } => {
                    return Err(refuse(format!("its header names file {found}")));
                }
                PackHeaderOf::Manifest(_) => {
                    return Err(refuse("its header is that of a manifest".to_owned()));
                }
            }
        }
        if self.received != length.0 || self.sums != checksums {
            return Err(RecallFault::Checksum { vid, file });
        }
        Ok(BlobPiece { blob: base::BlobId(0), offset: ByteCount(self.begin), length })
    }
}
