//! The queue of a directory drive over `io_uring`: bytes are read and written by the kernel, many at a time;
//! what else is done with an extent is done by threads of the drive, each of which blocks.

mod extent;
mod read;
mod ring;
mod workers;
mod write;

use std::io;
use std::sync::Arc;

use base::ByteCount;

use crate::files::Files;
use crate::queue::{DriveQueue, QueueEngine, QueuedExtent, ReadOperation};
use crate::uring::extent::UringExtent;
use crate::uring::read::Reading;
use crate::uring::ring::{Inbox, OPERATIONS, Work};
use crate::uring::workers::Workers;
use crate::{DriveError, ExtentId};

/// Whether the kernel lets this process have queues of this kind.
///
/// # Errors
/// Why not: it is too old, or forbids it (`kernel.io_uring_disabled`, a filter of system calls as containers
/// have it).
pub fn io_uring() -> io::Result<()> {
    ring::probe()
}

/// One ring with its thread, and the threads that block, for one drive. Of these only what is under way holds
/// the drive's lock, as every call does.
pub(crate) struct UringQueue {
    files: Arc<Files>,
    parts: Arc<Parts>,
    depth: usize,
}

/// What the queue and its extents share. When it is dropped all threads end that have nothing to do; nobody
/// waits for the others, since a drive may hang.
pub(crate) struct Parts {
    inbox: Arc<Inbox>,
    workers: Arc<Workers>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.inbox.close();
        self.workers.close();
    }
}

impl UringQueue {
    /// Has the kernel make a queue for so many reads and as many operations of writing.
    pub(crate) fn open(files: Arc<Files>, depth: usize) -> io::Result<Self> {
        assert!(depth > 0, "a queue has a place");
        let name = format!("io-{}", files.shared.id);
        let inbox = ring::start(&name, 2 * depth, OPERATIONS)?;
        let workers = Workers::start(&name, depth).inspect_err(|_| inbox.close())?;
        Ok(UringQueue { files, parts: Arc::new(Parts { inbox, workers }), depth })
    }

    /// An error if it does nothing more: its ring broke, or somebody panicked who was told of an end.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.parts.inbox.has_ended().map_or(Ok(()), |why| {
            let next = "restart the server, with io = \"threads\" in [pool] if it happens again";
            Err(io::Error::other(format!("its io_uring queue has ended ({why}): {next}")))
        })
    }
}

/// What is not done any more.
fn has_ended() -> io::Error {
    io::Error::other("the io_uring queue of the drive has ended")
}

impl DriveQueue for UringQueue {
    fn depth(&self) -> usize {
        self.depth
    }

    fn engine(&self) -> QueueEngine {
        QueueEngine::IoUring
    }

    fn read(&self, read: Box<dyn ReadOperation>) {
        let reading = Reading::new(Arc::clone(&self.files), Arc::clone(&self.parts), read);
        self.parts.inbox.push(Work::Read(reading));
    }

    fn extent(&self, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Box<dyn QueuedExtent> {
        let (files, parts) = (Arc::clone(&self.files), Arc::clone(&self.parts));
        Box::new(UringExtent::new(files, parts, id, preallocate, replaces))
    }
}

/// What the kernel answered: bytes moved, or the negative of an error's number.
fn answer(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.saturating_neg()))
}

/// The most that is asked for at once: the kernel moves no more by one call.
const TRANSFER_MAX: usize = 1 << 30;

fn transfer_length(left: usize) -> u32 {
    u32::try_from(left.min(TRANSFER_MAX)).unwrap_or(u32::MAX)
}

type Told = Result<(), DriveError>;
