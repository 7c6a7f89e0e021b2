//! A file as a stream.

use std::io::{self, Read};
use std::sync::Arc;

use kineticio::{BlockNumber, Checked};
use threads::mpsc::{Receiver, sync_channel};

use crate::cluster::{Cluster, FileInfo, ImportError};

/// Bytes of blocks that are read ahead of the reader, at most, but for four blocks.
pub const AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Threads that read ahead at most, two blocks each.
pub const AHEAD_BLOCKS_MAX: u32 = 8;
/// At least, so that drives read while the reader writes.
const AHEAD_BLOCKS_MIN: u32 = 2;

/// What was noticed while a file was read.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReadReport {
    /// How its chunks were checked.
    pub checked: Checked,
    /// Data chunks that were computed from others.
    pub rebuilt: u64,
    /// Chunks that were read from stand-ins.
    pub handoffs: u64,
    /// Chunks that are damaged.
    pub damaged: u64,
    /// Bytes that were never written, which are zeros.
    pub hole_bytes: u64,
}

type Came = Result<Option<kineticio::Block>, ImportError>;

/// The bytes of a file in their order. Each of a few threads reads every so-many-th block and holds it until
/// it is taken.
pub struct FileStream {
    info: FileInfo,
    block_bytes: u64,
    ahead: Vec<Receiver<Came>>,
    next: u32,
    now: Vec<u8>,
    place: usize,
    report: ReadReport,
    failure: Option<ImportError>,
}

impl FileStream {
    /// Begins to read a file of which this is known.
    ///
    /// # Errors
    /// If the system has no threads for it.
    pub fn open(cluster: &Arc<Cluster>, path: &[u8], info: FileInfo) -> Result<Self, ImportError> {
        let block_bytes = cluster.shape.block_bytes();
        let fit = u32::try_from(AHEAD_BYTES_MAX / block_bytes.saturating_mul(2)).unwrap_or(u32::MAX);
        let ahead = fit.clamp(AHEAD_BLOCKS_MIN, AHEAD_BLOCKS_MAX).min(info.blocks);
        let mut receivers = Vec::new();
        for first in 0..ahead {
            // One block waits for the reader while the thread reads its next one.
            let (send, receive) = sync_channel::<Came>(1);
            receivers.push(receive);
            let (cluster, path, blocks) = (Arc::clone(cluster), path.to_vec(), info.blocks);
            let run = move || {
                for block in (first..blocks).step_by(ahead as usize) {
                    let came = cluster.block(&path, BlockNumber(block));
                    let is_end = came.is_err();
                    if send.send(came).is_err() || is_end {
                        return;
                    }
                }
            };
            threads::spawn_guarded("import", run, || ())
                .map_err(|error| ImportError::Thread(error.to_string()))?;
        }
        Ok(FileStream {
            info,
            block_bytes,
            ahead: receivers,
            next: 0,
            now: Vec::new(),
            place: 0,
            report: ReadReport::default(),
            failure: None,
        })
    }

    /// What is known of the file.
    #[must_use]
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// What was noticed so far.
    #[must_use]
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// Why a read failed.
    #[must_use]
    pub fn failure(&self) -> Option<&ImportError> {
        self.failure.as_ref()
    }

    /// Bytes of a block by the size of the file.
    fn bytes_of(&self, block: u32) -> u64 {
        self.info.size.saturating_sub(u64::from(block) * self.block_bytes).min(self.block_bytes)
    }

    fn take_next(&mut self) -> Result<(), ImportError> {
        let lanes = u32::try_from(self.ahead.len()).unwrap_or(u32::MAX).max(1);
        let lane = self.ahead.get((self.next % lanes) as usize);
        let came = lane.and_then(|lane| lane.recv().ok());
        let block = came.unwrap_or_else(|| Err(ImportError::Thread("one has ended".to_owned())))?;
        let (expected, number) = (self.bytes_of(self.next), BlockNumber(self.next));
        self.now = Vec::new();
        if let Some(block) = block {
            let size = block.version.size();
            // The last one was written again since its size was read, or one before it is too long.
            if size > expected {
                return Err(ImportError::BlockSize { block: number, size, most: expected });
            }
            self.report.checked.add(block.checked);
            self.report.rebuilt += block.rebuilt as u64;
            self.report.handoffs += block.handoffs as u64;
            self.report.damaged += block.damaged as u64;
            self.now = block.bytes;
        }
        let holes = expected - self.now.len() as u64;
        self.report.hole_bytes += holes;
        self.now.resize(usize::try_from(expected).unwrap_or(usize::MAX), 0);
        self.place = 0;
        self.next += 1;
        Ok(())
    }
}

impl Read for FileStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = &self.failure {
            return Err(io::Error::other(failure.to_string()));
        }
        while self.place == self.now.len() {
            if self.next == self.info.blocks {
                return Ok(0);
            }
            if let Err(failure) = self.take_next() {
                let said = failure.to_string();
                self.failure = Some(failure);
                return Err(io::Error::other(said));
            }
        }
        let left = self.now.get(self.place..).unwrap_or_default();
        let count = left.len().min(to.len());
        if let (Some(to), Some(from)) = (to.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(from);
        }
        self.place += count;
        Ok(count)
    }
}
