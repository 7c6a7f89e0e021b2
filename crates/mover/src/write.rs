//! Containers from the store of blobs to tape: one thread reads ahead, the drive's thread writes, blocks go
//! round between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threads::mpsc::{Receiver, SyncSender, sync_channel};

use base::{
    BlobDescription, BlobPiece, BlockAddress, ByteCount, ContainerId, Partition, StreamChecksums,
    TapePosition, Vid,
};
use blob::{BlobStore, TapeFlow, Use};
use library::{TapeDrive, TapeError};
use ltfs::BlockSize;

use crate::blocks::{Block, BlockArena};
use crate::{MoverError, VolumeError};

/// A run of a container's bytes and where they come from.
#[derive(Clone, Debug)]
pub enum Part {
    /// From the store.
    Blob(Arc<BlobDescription>, BlobPiece),
    /// Some bytes of a piece, from an offset in it on: where a part of a file begins or ends within it.
    Within(Arc<BlobDescription>, BlobPiece, (ByteCount, ByteCount)),
    /// A range of bytes in memory: headers of a pack.
    Bytes(Arc<[u8]>, std::ops::Range<usize>),
    /// So many zeros: padding of a pack.
    Zeros(u64),
    /// No bytes: so many files end here, for displays.
    FilesEnd(u64),
}

/// A container to be written.
#[derive(Clone, Debug)]
pub struct ContainerPlan {
    /// The container.
    pub container: ContainerId,
    /// Its first block, as the catalogue has it in the run.
    pub block: BlockAddress,
    /// Its length.
    pub length: ByteCount,
    /// The checksums of its sealing.
    pub checksums: StreamChecksums,
    /// Its bytes, in order.
    pub parts: VecDeque<Part>,
}

impl ContainerPlan {
    /// The blobs that its bytes come from, some more than once.
    pub fn blobs(&self) -> impl Iterator<Item = base::BlobId> {
        self.parts.iter().filter_map(|part| match part {
            Part::Blob(blob, _) | Part::Within(blob, ..) => Some(blob.id),
            Part::Bytes(..) | Part::Zeros(_) | Part::FilesEnd(_) => None,
        })
    }
}

/// Why writing ended.
#[derive(Debug)]
pub enum Ended {
    /// Everything is written.
    All,
    /// The drive gave its early warning while or after the last written container.
    EarlyWarning,
    /// The medium ended within a container, or came so near to its end that nothing could be kept free for
    /// the index. The container has to be written again, whole, on the next tape.
    EndOfMedium,
    /// A container's bytes cannot be had; blocks of it may be on tape.
    Source(ContainerId, MoverError),
    /// The caller could not even say where a container's bytes are; nothing of it is on tape.
    Unavailable(ContainerId, String),
    /// The drive or medium failed.
    Tape(VolumeError),
    /// The caller asked to stop.
    Stopped,
    /// A flush is due by time; the other containers can be written after it.
    FlushDue,
}

/// What was written. Nothing of it is durable before a flush.
#[derive(Debug)]
pub struct Written {
    /// Containers from the first on that are whole on tape, their checksums agreed.
    pub containers: usize,
    /// Bytes of those.
    pub bytes: u64,
    /// Bytes of a container that is not whole.
    pub torn: u64,
    /// Why it ended.
    pub ended: Ended,
}

/// Blocks on their way to the drive.
enum Message {
    Block(Block),
    /// The container is complete and its checksums agree; files that ended behind its last block.
    Complete(u64),
    Failed(ContainerId, MoverError),
}

/// Messages between the threads, beside the blocks themselves.
const MESSAGES_MAX: usize = 64;

/// What a writing session is given from outside.
#[derive(Clone, Copy)]
pub struct WriteContext<'a> {
    /// Where the bytes come from.
    pub store: &'a dyn BlobStore,
    /// Memory for blocks.
    pub buffer: ByteCount,
    /// Counts bytes written, for displays.
    pub progress: &'a AtomicU64,
    /// Counts containers that are whole on tape, though no flush has confirmed them, for the mount log.
    pub containers: &'a AtomicU64,
    /// Counts files whose bytes are on tape, for displays: also those of the container that is being written,
    /// which are taken back if it does not become whole.
    pub files: &'a AtomicU64,
    /// Set when the session is to stop after the current container.
    pub stop: &'a AtomicBool,
    /// Asked between containers: whether a flush is due by time.
    pub flush_due: &'a dyn Fn() -> bool,
    /// Is told what is moved and how long the drive waits for the store.
    pub stream: &'a dyn TapeFlow,
    /// What is to be left free on the data partition for what is written behind the containers: the index,
    /// and changes. Kept where the drive says how much it takes from its early warning on.
    pub keep: ByteCount,
}

/// How much of a container may still be written behind the early warning.
///
/// Containers are chosen by what the drive says is left, so that none meets the warning; if one does, the
/// tape is shorter than that. It goes on as far as there is room beside what is kept, since a container that
/// is whole is worth more than the room, and is given up there: were it written on to the end of the medium,
/// it would be torn all the same, and no index would fit behind those that are whole. At the most half of the
/// room is kept: a warning that comes late leaves something to both.
///
/// A drive that does not say how much room there is behind its warning writes on to the end, as it may be
/// far.
fn allowed_behind_warning(room: Option<ByteCount>, keep: ByteCount) -> Option<u64> {
    room.map(|room| room.0 - keep.0.min(room.0 / 2))
}

/// Writes containers one behind the other, each from its own block on, without file marks. Before each one
/// the drive's position is checked against the plan. At least one container is written before a flush is due.
pub fn write_containers(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    block_size: BlockSize,
    plans: Vec<ContainerPlan>,
    context: WriteContext<'_>,
) -> Written {
    let WriteContext { store, buffer, .. } = context;
    let size = block_size.bytes() as usize;
    let heads: Vec<(BlockAddress, u64)> = plans.iter().map(|plan| (plan.block, plan.length.0)).collect();
    assert!(
        heads.is_sorted_by(|(block, _), (next, _)| block < next),
        "containers are written in their order"
    );
    let arena = BlockArena::new(size, usize::try_from(buffer.0).unwrap_or(usize::MAX) / size);
    let (sender, receiver) = sync_channel(MESSAGES_MAX);
    threads::scope(|scope| {
        let reader = threads::Builder::new().name(format!("read-{vid}"));
        let reading = reader.spawn_scoped(scope, move || read_ahead(store, plans, &arena, &sender));
        let written = drain(drive, vid, &heads, receiver, context);
        if reading.is_err() {
            tracing::error!(%vid, "no thread for reading ahead");
        }
        written
    })
}

/// Reads a container as it would be written, and lets the bytes go: so that no tape is taken for one that
/// cannot be written.
///
/// # Errors
/// As writing it would end.
pub fn check_source(
    store: &dyn BlobStore,
    buffer: ByteCount,
    block_size: BlockSize,
    plan: ContainerPlan,
) -> Result<(), MoverError> {
    let size = block_size.bytes() as usize;
    let arena = BlockArena::new(size, usize::try_from(buffer.0).unwrap_or(usize::MAX) / size);
    let (sender, receiver) = sync_channel(MESSAGES_MAX);
    threads::scope(|scope| {
        let reader = threads::Builder::new().name(format!("check-{}", plan.container));
        // Without a thread nothing is received, and nothing is known against the container.
        let _reading = reader.spawn_scoped(scope, move || read_ahead(store, vec![plan], &arena, &sender));
        loop {
            match receiver.recv() {
                Ok(Message::Block(_)) => {}
                Ok(Message::Complete(_)) | Err(_) => return Ok(()),
                Ok(Message::Failed(_, error)) => return Err(error),
            }
        }
    })
}

fn drain(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    heads: &[(BlockAddress, u64)],
    receiver: Receiver<Message>,
    context: WriteContext<'_>,
) -> Written {
    let mut written = Written { containers: 0, bytes: 0, torn: 0, ended: Ended::All };
    let mut warned = false;
    for (block, length) in heads {
        let early = match () {
            () if warned => Some(Ended::EarlyWarning),
            () if context.stop.load(Ordering::Relaxed) => Some(Ended::Stopped),
            () if written.containers > 0 && (context.flush_due)() => Some(Ended::FlushDue),
            () => None,
        };
        if let Some(early) = early {
            written.ended = early;
            break;
        }
        let mut files = 0;
        match write_one(drive, vid, *block, &receiver, context, (&mut written.torn, &mut files)) {
            Ok(warning) => {
                assert_eq!(written.torn, *length, "a complete container has its length on tape");
                written.containers += 1;
                written.bytes += length;
                written.torn = 0;
                warned |= warning;
            }
            Err(ended) => {
                context.files.fetch_sub(files, Ordering::Relaxed);
                written.ended = ended;
                break;
            }
        }
    }
    let complete = heads.iter().take(written.containers).map(|(_, length)| *length).sum::<u64>();
    assert_eq!(written.bytes, complete, "what is said to be written is that of complete containers");
    assert!(
        written.containers < heads.len() || written.torn == 0,
        "only of an incomplete one a part is torn"
    );
    // Dropping the receiver ends the reading thread at its next message.
    drop(receiver);
    if warned && matches!(written.ended, Ended::All) {
        written.ended = Ended::EarlyWarning;
    }
    written
}

/// One container; whether the drive warned. `torn` counts its bytes on tape, `files` those that end there.
fn write_one(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    block: BlockAddress,
    receiver: &Receiver<Message>,
    context: WriteContext<'_>,
    (torn, files): (&mut u64, &mut u64),
) -> Result<bool, Ended> {
    let mut ended = |count| {
        *files += count;
        context.files.fetch_add(count, Ordering::Relaxed);
    };
    let expected = TapePosition { partition: Partition::Data, block };
    let actual = drive.position().map_err(|error| Ended::Tape(error.into()))?;
    if actual != expected {
        return Err(Ended::Tape(VolumeError::Position { vid, expected, actual }));
    }
    // Bytes of it behind the early warning, once that came.
    let mut behind: Option<u64> = None;
    let mut allowed = None;
    loop {
        let message = {
            let _waiting = context.stream.wait();
            receiver.recv()
        };
        match message {
            Ok(Message::Block(block))
                if behind
                    .zip(allowed)
                    .is_some_and(|(behind, allowed)| behind + block.length as u64 > allowed) =>
            {
                return Err(Ended::EndOfMedium);
            }
            Ok(Message::Block(block)) => match drive.write_block(block.filled()) {
                Ok(result) => {
                    assert!(block.length > 0, "no empty block is written");
                    match &mut behind {
                        Some(behind) => *behind += block.length as u64,
                        None if result.early_warning => {
                            // Of this block only its end may lie there. It is not counted: a container that
                            // was chosen to end just before what is kept is not given up for it.
                            behind = Some(0);
                            allowed = allowed_behind_warning(drive.early_warning_room(), context.keep);
                        }
                        None => {}
                    }
                    *torn += block.length as u64;
                    ended(block.files_ended);
                    context.progress.fetch_add(block.length as u64, Ordering::Relaxed);
                    context.stream.moved(block.length as u64);
                }
                Err(TapeError::EndOfMedium { .. }) => return Err(Ended::EndOfMedium),
                Err(error) => return Err(Ended::Tape(error.into())),
            },
            Ok(Message::Complete(count)) => {
                ended(count);
                context.containers.fetch_add(1, Ordering::Relaxed);
                return Ok(behind.is_some());
            }
            Ok(Message::Failed(container, error)) => return Err(Ended::Source(container, error)),
            Err(_) => return Err(Ended::Stopped),
        }
    }
}

/// The reading thread: fills blocks until all plans are done, one fails, or nobody receives any more.
fn read_ahead(
    store: &dyn BlobStore,
    plans: Vec<ContainerPlan>,
    arena: &BlockArena,
    sender: &SyncSender<Message>,
) {
    for plan in plans {
        let container = plan.container;
        let result = fill(store, plan, arena, sender);
        let message = match result {
            Ok(Some(files)) => Message::Complete(files),
            Ok(None) => return,
            Err(error) => Message::Failed(container, error),
        };
        let failed = matches!(message, Message::Failed(..));
        if sender.send(message).is_err() || failed {
            return;
        }
    }
}

#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    Abandoned,
}

/// Fills blocks with one container and sums what goes into them.
struct Filler<'a> {
    arena: &'a BlockArena,
    sender: &'a SyncSender<Message>,
    block: Block,
    sums: StreamChecksums,
    length: u64,
}

impl Filler<'_> {
    fn send_full(&mut self) -> Flow {
        if !self.block.is_full() {
            return Flow::Continue;
        }
        let full = std::mem::replace(&mut self.block, self.arena.take());
        self.send(full)
    }

    fn send(&mut self, block: Block) -> Flow {
        self.sums = self.sums.extend(block.filled());
        self.length += block.length as u64;
        if self.sender.send(Message::Block(block)).is_ok() { Flow::Continue } else { Flow::Abandoned }
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> Flow {
        while !bytes.is_empty() {
            let before = bytes.len();
            bytes = self.block.append(bytes);
            assert!(bytes.len() < before, "each turn takes bytes, so that it ends");
            if self.send_full() == Flow::Abandoned {
                return Flow::Abandoned;
            }
        }
        Flow::Continue
    }

    fn zeros(&mut self, mut count: u64) -> Flow {
        while count > 0 {
            let before = count;
            count = self.block.append_zeros(count);
            assert!(count < before, "each turn takes bytes, so that it ends");
            if self.send_full() == Flow::Abandoned {
                return Flow::Abandoned;
            }
        }
        Flow::Continue
    }
}

/// Sends one container's blocks. Gives how many files end behind its last block; `None` if nobody receives
/// any more.
fn fill(
    store: &dyn BlobStore,
    plan: ContainerPlan,
    arena: &BlockArena,
    sender: &SyncSender<Message>,
) -> Result<Option<u64>, MoverError> {
    let container = plan.container;
    let mut filler =
        Filler { arena, sender, block: arena.take(), sums: StreamChecksums::default(), length: 0 };
    for part in plan.parts {
        let flow = match part {
            Part::Blob(blob, piece) => {
                let whole = (ByteCount(0), piece.length);
                fill_from_store(store, container, &blob, (&piece, whole), &mut filler)?
            }
            Part::Within(blob, piece, range) => {
                fill_from_store(store, container, &blob, (&piece, range), &mut filler)?
            }
            Part::Bytes(bytes, range) => filler.bytes(bytes.get(range).unwrap_or_default()),
            Part::Zeros(count) => filler.zeros(count),
            Part::FilesEnd(count) => {
                filler.block.files_ended += count;
                Flow::Continue
            }
        };
        if flow == Flow::Abandoned {
            return Ok(None);
        }
    }
    if filler.block.length > 0 {
        let last = std::mem::replace(&mut filler.block, arena.take());
        if filler.send(last) == Flow::Abandoned {
            return Ok(None);
        }
    }
    // Its blocks are on their way; without the `Complete` that follows it is never counted as written.
    if filler.sums != plan.checksums || filler.length != plan.length.0 {
        return Err(MoverError::Checksum { container });
    }
    Ok(Some(filler.block.files_ended))
}

fn fill_from_store(
    store: &dyn BlobStore,
    container: ContainerId,
    blob: &BlobDescription,
    (piece, range): (&BlobPiece, (ByteCount, ByteCount)),
    filler: &mut Filler<'_>,
) -> Result<Flow, MoverError> {
    let failed = |source| MoverError::Store { container, source };
    assert_eq!(blob.id, piece.blob, "a piece is read of its own blob");
    let mut given = 0u64;
    let mut source = store.read(blob, piece, range, Use::Stream).map_err(failed)?;
    while let Some(chunk) = source.next().map_err(failed)? {
        given += chunk.len() as u64;
        if filler.bytes(chunk) == Flow::Abandoned {
            return Ok(Flow::Abandoned);
        }
    }
    let (_, length) = range;
    if given != length.0 {
        return Err(MoverError::Length { container, blob: piece.blob, expected: length.0, actual: given });
    }
    Ok(Flow::Continue)
}
