//! How full and how well a cartridge and its drive are.

use ::scsi::attribute::{Attribute, id};
use ::scsi::log::{LogPage, TapeAlerts, capacity, page, volume_statistics};
use base::{ByteCount, Partition};

use super::Drive;
use crate::{TapeAlert, TapeError};

/// The unit of the capacity page and of the cartridge memory.
const MEBIBYTE: u64 = 1 << 20;
/// The unit of the volume statistics.
const MEGABYTE: u64 = 1_000_000;

/// What a partition holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionSpace {
    /// In all, `None` if the drive does not tell.
    pub total: Option<ByteCount>,
    /// Still.
    pub remaining: ByteCount,
}

fn mebibytes(number: u64) -> ByteCount {
    ByteCount(number.saturating_mul(MEBIBYTE))
}

impl Drive {
    /// What a partition holds, `None` if the drive does not tell: by its log, or else by the cartridge's memory.
    pub fn space_of(&mut self, partition: Partition) -> Result<Option<PartitionSpace>, TapeError> {
        if self.session()?.is_missing(partition) {
            return Ok(Some(PartitionSpace { total: Some(ByteCount(0)), remaining: ByteCount(0) }));
        }
        let (left, all) = match partition {
            Partition::Index => (capacity::MAIN_REMAINING, capacity::MAIN_MAXIMUM),
            Partition::Data => (capacity::ALTERNATE_REMAINING, capacity::ALTERNATE_MAXIMUM),
        };
        if let Some(log) = self.log_page(page::TAPE_CAPACITY)?
            && let Some(remaining) = log.number(left)
        {
            let total = log.number(all).map(mebibytes);
            return Ok(Some(PartitionSpace { total, remaining: mebibytes(remaining) }));
        }
        let number = |value: Option<Vec<u8>>, id| value.and_then(|value| Attribute::new(id, value).number());
        let remaining = number(self.attribute(partition, id::REMAINING_CAPACITY)?, id::REMAINING_CAPACITY);
        if let Some(remaining) = remaining {
            let total = number(self.attribute(partition, id::MAXIMUM_CAPACITY)?, id::MAXIMUM_CAPACITY);
            let (total, remaining) = (total.map(mebibytes), mebibytes(remaining));
            return Ok(Some(PartitionSpace { total, remaining }));
        }
        let log = self.log_page(page::VOLUME_STATISTICS)?;
        Ok(log.and_then(|log| {
            let remaining = of_partition(&log, volume_statistics::PARTITION_REMAINING, partition)?;
            let total = of_partition(&log, volume_statistics::PARTITION_CAPACITY, partition);
            Some(PartitionSpace { total, remaining })
        }))
    }

    /// The flags that the drive has raised since it was last asked.
    pub fn raised_alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        let Some(log) = self.log_page(page::TAPE_ALERT)? else { return Ok(Vec::new()) };
        Ok(TapeAlerts::of_log(&log).flags().map(TapeAlert).collect())
    }
}

/// The counter of a partition in a list of the volume statistics. All ones: it is not known.
fn of_partition(log: &LogPage, code: u16, partition: Partition) -> Option<ByteCount> {
    const UNKNOWN: u64 = u32::MAX as u64;
    let list = log.find(code)?.partitions().ok()?;
    let found = list.iter().find(|(number, _)| *number == u16::from(partition.scsi_number()))?;
    (found.1 < UNKNOWN - 1).then(|| ByteCount(found.1.saturating_mul(MEGABYTE)))
}
