//! A tape drive that keeps count of what is done with it.

use std::sync::{Arc, PoisonError};

use base::{BlockAddress, ByteCount, Clock, Partition, TapePosition, Timestamp};
use library::{
    BlockEncryption, DriveCounters, DriveName, ReadBlock, TapeAlert, TapeDrive, TapeEncryption, TapeError,
    WriteResult,
};
use mechanics::{MotionReport, Track};
use threads::Mutex;

use crate::flow::Flow;

/// What the drive's thread and its counter share; never held across a command.
pub(crate) type SharedFlow = Arc<Mutex<Flow>>;

/// Passes every command on. The clock is read twice for each, which costs some 100 ns; a block takes a
/// thousand times as long.
pub(crate) struct WatchedDrive {
    pub(crate) drive: Box<dyn TapeDrive>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flow: SharedFlow,
}

impl WatchedDrive {
    fn note(&self, change: impl FnOnce(&mut Flow)) {
        change(&mut self.flow.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn noted(&self, begin: Timestamp, change: impl FnOnce(&mut Flow)) {
        let end = self.clock.now();
        self.note(|flow| {
            flow.transfer(begin, end);
            change(flow);
        });
    }

    fn moved_elsewhere(&self) {
        self.note(|flow| {
            flow.halt();
            flow.locates += 1;
        });
    }
}

impl TapeDrive for WatchedDrive {
    fn id(&self) -> &DriveName {
        self.drive.id()
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        let begin = self.clock.now();
        let found = self.drive.read_block(buffer)?;
        if let ReadBlock::Data(length) = found {
            self.noted(begin, |flow| flow.read += length as u64);
        }
        Ok(found)
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        let begin = self.clock.now();
        let result = self.drive.write_block(block)?;
        self.noted(begin, |flow| flow.written += block.len() as u64);
        Ok(result)
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        self.note(Flow::halt);
        self.drive.write_filemarks(count)
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.moved_elsewhere();
        self.drive.locate(to)
    }

    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.moved_elsewhere();
        self.drive.space_to_end_of_data(partition)
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.drive.position()
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.moved_elsewhere();
        self.drive.rewind()
    }

    fn loaded(&self) -> bool {
        self.drive.loaded()
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.note(Flow::halt);
        self.drive.format_partitions()
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.drive.read_attribute(partition, id)
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        self.drive.write_attribute(partition, id, value)
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.drive.remaining()
    }

    fn early_warning_room(&mut self) -> Option<ByteCount> {
        self.drive.early_warning_room()
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.drive.end_of_wrap_positions()
    }

    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        self.drive.recommended_order(segments)
    }

    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        self.drive.track(block_size)
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        self.drive.motion_report()
    }

    fn set_encryption(&mut self, encryption: Option<&TapeEncryption>) -> Result<(), TapeError> {
        self.drive.set_encryption(encryption)
    }

    fn block_encryption(&mut self) -> Result<BlockEncryption, TapeError> {
        self.drive.block_encryption()
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        self.drive.alerts()
    }

    fn counters(&mut self) -> Result<DriveCounters, TapeError> {
        self.drive.counters()
    }
}
