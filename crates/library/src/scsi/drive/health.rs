//! How full and how well a cartridge and its drive are.

use ::scsi::attribute::{Attribute, id};
use ::scsi::log::{
    LogPage, TapeAlerts, capacity, device_statistics, error_counter, page, sequential_access, temperature,
    volume_statistics,
};
use base::{ByteCount, Partition};

use super::Drive;
use crate::{DriveCounters, DriveProduct, ErrorCounters, TapeAlert, TapeError};

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
    /// What a partition holds, `None` if the drive does not tell: by its log, or else by the cartridge's
    /// memory.
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

    /// What the drive counts, as far as it has the pages: each is asked for once. After the first that fails
    /// no other is, so that a drive that has fallen silent is waited for once.
    pub fn count(&mut self) -> Result<DriveCounters, TapeError> {
        self.session()?;
        let mut told = Told::default();
        let asked = told.ask(self);
        // What came before the failure counts all the same.
        if told.is_empty() {
            asked?;
        }
        Ok(DriveCounters { product: Some(self.product()), ..told.counters() })
    }

    /// What it says that it is.
    pub fn product(&self) -> DriveProduct {
        DriveProduct {
            vendor: self.inquiry.vendor.trimmed(),
            product: self.inquiry.product.trimmed(),
            firmware: self.inquiry.revision.trimmed(),
            serial: self.identity.serial.clone(),
        }
    }
}

/// The pages with counters that a drive has told.
#[derive(Default)]
struct Told {
    writing: Option<LogPage>,
    reading: Option<LogPage>,
    access: Option<LogPage>,
    device: Option<LogPage>,
    volume: Option<LogPage>,
    temperature: Option<LogPage>,
}

impl Told {
    fn ask(&mut self, drive: &mut Drive) -> Result<(), TapeError> {
        self.writing = drive.log_page_at_once(page::WRITE_ERRORS)?;
        self.reading = drive.log_page_at_once(page::READ_ERRORS)?;
        self.access = drive.log_page_at_once(page::SEQUENTIAL_ACCESS)?;
        self.device = drive.log_page_at_once(page::DEVICE_STATISTICS)?;
        self.volume = drive.log_page_at_once(page::VOLUME_STATISTICS)?;
        self.temperature = drive.log_page_at_once(page::TEMPERATURE)?;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let Told { writing, reading, access, device, volume, temperature } = self;
        [writing, reading, access, device, volume, temperature].iter().all(|page| page.is_none())
    }

    /// Each counter from the first page that has it, the drive's own before the volume's: which page that is
    /// does not change with what is in the drive.
    fn counters(&self) -> DriveCounters {
        use {device_statistics as d, error_counter as e, sequential_access as s, volume_statistics as v};
        let number = |page: &Option<LogPage>, code| page.as_ref().and_then(|page| page.number(code));
        let is_valid = number(&self.volume, v::PAGE_VALID).is_some_and(|valid| valid != 0);
        let of_volume = |code| number(&self.volume, code).filter(|_| is_valid);
        let bytes = |access, errors, volume| {
            let own = number(&self.access, access).or_else(|| number(errors, e::BYTES));
            own.or_else(|| of_volume(volume)?.checked_mul(MEGABYTE)).map(ByteCount)
        };
        let errors = |page, hard, retries, unrecovered| ErrorCounters {
            corrected: number(page, e::CORRECTED),
            retries: number(page, e::RETRIES).or_else(|| of_volume(retries)),
            uncorrected: number(page, e::UNCORRECTED)
                .or_else(|| number(&self.device, hard))
                .or_else(|| of_volume(unrecovered)),
        };
        DriveCounters {
            written: bytes(s::BYTES_TO_MEDIUM, &self.writing, v::MEGABYTES_WRITTEN),
            read: bytes(s::BYTES_FROM_MEDIUM, &self.reading, v::MEGABYTES_READ),
            writing: errors(
                &self.writing,
                d::HARD_WRITE_ERRORS,
                v::WRITE_RETRIES,
                v::UNRECOVERED_WRITE_ERRORS,
            ),
            reading: errors(&self.reading, d::HARD_READ_ERRORS, v::READ_RETRIES, v::UNRECOVERED_READ_ERRORS),
            celsius: self.temperature.as_ref().and_then(temperature::celsius),
            product: None,
        }
    }
}

/// The counter of a partition in a list of the volume statistics. All ones: it is not known.
fn of_partition(log: &LogPage, code: u16, partition: Partition) -> Option<ByteCount> {
    const UNKNOWN: u64 = u32::MAX as u64;
    let list = log.find(code)?.partitions().ok()?;
    let found = list.iter().find(|(number, _)| *number == u16::from(partition.scsi_number()))?;
    (found.1 < UNKNOWN - 1).then(|| ByteCount(found.1.saturating_mul(MEGABYTE)))
}
