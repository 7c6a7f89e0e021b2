//! How a drive is handed operations: several at a time, and each is told when it is done.

use std::sync::Arc;

use base::ByteCount;

use crate::{DriveError, ExtentId, ExtentWriter, ObjectDrive};

/// A drive that has several operations under way at one time: a connection with many requests on it, a device
/// with a queue of its own. It takes what is asked for at once, and tells later, from a thread of its own,
/// what came of it.
///
/// Its user keeps to [`DriveQueue::depth`], and makes no blocking call that changes something
/// ([`ObjectDrive::delete`] and the like) while an operation of writing is under way. An operation that is
/// dropped without a word counts as one of which nothing is known.
pub trait DriveQueue: Send + Sync {
    /// The most reads, and the most operations of writing, that it is handed at one time; 1 or more.
    fn depth(&self) -> usize;

    /// What has the operations done.
    fn engine(&self) -> QueueEngine;

    /// Takes a read. Reads are done in any order.
    fn read(&self, read: Box<dyn ReadOperation>);

    /// Begins an extent as [`ObjectDrive::create`] does, or as [`ObjectDrive::replace`] if it `replaces`.
    /// Asks nothing of the drive yet: its first operation tells what came of it.
    fn extent(&self, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Box<dyn QueuedExtent>;
}

/// How a drive's operations are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueEngine {
    /// By calls that block, each on the thread that hands it over.
    Threads,
    /// By the kernel, through `io_uring`.
    IoUring,
    /// By a queue that the drive has of its own.
    Own,
}

impl QueueEngine {
    /// Its name, as the setting has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            QueueEngine::Threads => "threads",
            QueueEngine::IoUring => "uring",
            QueueEngine::Own => "own",
        }
    }
}

/// An extent that is written by operations. Dropped before its seal was handed over it stays unsealed, as an
/// [`ExtentWriter`] does; what was handed over is done.
pub trait QueuedExtent: Send {
    /// Takes the next operation. Those of one extent take effect, and are told of, in the order in which they
    /// were handed over: a sync covers all appends before it. After one that failed all fail
    /// ([`DriveError::Poisoned`]). Those of different extents are done in any order.
    fn submit(&mut self, operation: Box<dyn WriteOperation>);
}

/// A read on its way, with the memory that it fills.
pub trait ReadOperation: Send {
    /// The extent.
    fn extent(&self) -> ExtentId;

    /// Where part `number` is read from, and where to; `None` behind the last. All parts are read, or the
    /// read fails. A part is always the same memory, until [`ReadOperation::done`].
    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])>;

    /// Tells what came of it: errors as [`ObjectDrive::read_at`] has them. It may be told within
    /// [`DriveQueue::read`], and must not be kept waiting by whoever hands operations over.
    fn done(self: Box<Self>, result: Result<(), DriveError>);

    /// Tells, instead of [`ReadOperation::done`], that it failed and that the queue has lost its memory: this
    /// may be written for ever, and must neither be used nor freed. Unless it is said otherwise all of the
    /// operation is leaked, and nobody is told.
    fn lost(self: Box<Self>, error: DriveError) {
        drop(error);
        std::mem::forget(self);
    }
}

/// What is done with an extent, as [`ExtentWriter`] has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteStep<'a> {
    /// [`ExtentWriter::append`].
    Append(&'a [u8]),
    /// [`ExtentWriter::sync`].
    Sync,
    /// [`ExtentWriter::seal`]: the last.
    Seal,
}

/// An operation of writing on its way, with the bytes that it writes.
pub trait WriteOperation: Send {
    /// What is to be done; the same bytes in the same memory until [`WriteOperation::done`].
    fn step(&self) -> WriteStep<'_>;

    /// Tells what came of it, as [`ReadOperation::done`] does.
    fn done(self: Box<Self>, result: Result<(), DriveError>);

    /// Tells of a failure as [`ReadOperation::lost`] does: the bytes may be read for ever, and must neither
    /// be changed nor freed.
    fn lost(self: Box<Self>, error: DriveError) {
        drop(error);
        std::mem::forget(self);
    }
}

/// The queue of a drive that has none: each operation is done by the thread that hands it over, before it
/// gets on.
pub struct BlockingQueue(Arc<dyn ObjectDrive>);

impl BlockingQueue {
    /// The queue of this drive.
    #[must_use]
    pub fn new(drive: Arc<dyn ObjectDrive>) -> Self {
        BlockingQueue(drive)
    }
}

impl DriveQueue for BlockingQueue {
    fn depth(&self) -> usize {
        1
    }

    fn engine(&self) -> QueueEngine {
        QueueEngine::Threads
    }

    fn read(&self, mut read: Box<dyn ReadOperation>) {
        let (extent, mut number) = (read.extent(), 0);
        let result = loop {
            let Some((offset, into)) = read.part(number) else { break Ok(()) };
            if let Err(error) = self.0.read_at(extent, offset, into) {
                break Err(error);
            }
            number += 1;
        };
        read.done(result);
    }

    fn extent(&self, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Box<dyn QueuedExtent> {
        let state = State::New { preallocate, replaces };
        Box::new(BlockingExtent { drive: Arc::clone(&self.0), id, state })
    }
}

struct BlockingExtent {
    drive: Arc<dyn ObjectDrive>,
    id: ExtentId,
    state: State,
}

enum State {
    New {
        preallocate: ByteCount,
        replaces: bool,
    },
    Open(Box<dyn ExtentWriter>),
    /// Sealed, or failed: the writer is gone, and with it what it held.
    Ended,
}

impl BlockingExtent {
    fn run(&mut self, step: WriteStep<'_>) -> Result<(), DriveError> {
        // What fails ends it.
        let mut writer = match std::mem::replace(&mut self.state, State::Ended) {
            State::New { preallocate, replaces: false } => self.drive.create(self.id, preallocate)?,
            State::New { preallocate, replaces: true } => self.drive.replace(self.id, preallocate)?,
            State::Open(writer) => writer,
            State::Ended => {
                return Err(DriveError::Poisoned { drive: self.drive.id(), extent: self.id });
            }
        };
        match step {
            WriteStep::Append(bytes) => writer.append(bytes)?,
            WriteStep::Sync => writer.sync()?,
            WriteStep::Seal => return writer.seal(),
        }
        self.state = State::Open(writer);
        Ok(())
    }
}

impl QueuedExtent for BlockingExtent {
    fn submit(&mut self, operation: Box<dyn WriteOperation>) {
        let result = self.run(operation.step());
        operation.done(result);
    }
}
