//! Log pages of a drive (SSC-5, 8.3): what passed through it, TapeAlert, the volume, capacities.

use base::{ByteCount, Partition};
use library::{DriveCounters, ErrorCounters, TapeError};
use scsi::command::Primary;
use scsi::log::{
    LogPage, LogParameter, TapeAlerts, capacity, error_counter, page, sequential_access, temperature,
    volume_statistics,
};

use super::cleaning::Wear;
use super::{Run, Tape};
use crate::answer::{Outcome, Refusal};
use crate::gate::LOG_CHANGED;
use crate::primary::log_sense;

const PAGES: [u8; 9] = [
    page::SUPPORTED,
    page::WRITE_ERRORS,
    page::READ_ERRORS,
    page::SEQUENTIAL_ACCESS,
    page::TEMPERATURE,
    page::TAPE_ALERT_RESPONSE,
    page::VOLUME_STATISTICS,
    page::TAPE_ALERT,
    page::TAPE_CAPACITY,
];

/// Those whose counters and flags LOG SELECT sets back: the others tell of the volume and of now.
const RESETTABLE: [u8; 4] =
    [page::WRITE_ERRORS, page::READ_ERRORS, page::SEQUENTIAL_ACCESS, page::TAPE_ALERT];

const MEGABYTE: u64 = 1_000_000;
const MEBIBYTE: u64 = 1 << 20;

/// Bytes that passed through the drive.
#[derive(Default)]
pub struct Moved {
    written: u64,
    read: u64,
    written_since_load: u64,
    read_since_load: u64,
    /// TapeAlert flags that the drive has raised and page 2Eh has not told yet.
    pub alerts: TapeAlerts,
    pub wear: Wear,
    /// What the drive had counted since the load when pages 02h and 03h were reset last.
    before_writes: DriveCounters,
    before_reads: DriveCounters,
}

impl Moved {
    pub fn new(cleaning_after: Option<ByteCount>) -> Moved {
        Moved { wear: Wear::new(cleaning_after), ..Moved::default() }
    }

    pub fn since_load(&mut self) {
        self.wear.since_load();
        (self.before_writes, self.before_reads) = (DriveCounters::default(), DriveCounters::default());
        (self.written_since_load, self.read_since_load) = (0, 0);
    }

    pub fn wrote(&mut self, bytes: usize) {
        self.wear.pass(bytes);
        self.written = self.written.saturating_add(bytes as u64);
        self.written_since_load = self.written_since_load.saturating_add(bytes as u64);
    }

    pub fn read(&mut self, bytes: usize) {
        self.wear.pass(bytes);
        self.read = self.read.saturating_add(bytes as u64);
        self.read_since_load = self.read_since_load.saturating_add(bytes as u64);
    }
}

/// A counter of eight bytes.
fn counter(code: u16, value: u64) -> LogParameter {
    LogParameter::of_number(code, LogParameter::BINARY_LIST, 8, value)
}

/// A number of four bytes, the greatest that fits.
fn number(code: u16, value: u64) -> LogParameter {
    LogParameter::of_number(code, LogParameter::BINARY_LIST, 4, value.min(u64::from(u32::MAX)))
}

fn text(code: u16, value: &str) -> LogParameter {
    LogParameter { code, control: LogParameter::ASCII_LIST, value: value.as_bytes().to_vec() }
}

/// What was counted since a reset; what the drive does not count stays away. Nothing was before a load.
fn less(counted: DriveCounters, before: &DriveCounters) -> DriveCounters {
    if *before == DriveCounters::default() {
        return counted;
    }
    counted.since(before)
}

/// The parameters of an error counter page: what the drive does not count is left out.
fn errors(errors: &ErrorCounters, bytes: Option<ByteCount>) -> Vec<LogParameter> {
    use error_counter as e;
    let all = [
        (e::RETRIES, errors.retries),
        (e::CORRECTED, errors.corrected),
        (e::BYTES, bytes.map(|bytes| bytes.0)),
        (e::UNCORRECTED, errors.uncorrected),
    ];
    let told = all.into_iter().filter_map(|(code, value)| Some((code, value?)));
    told.map(|(code, value)| LogParameter::of_number(code, LogParameter::COUNTER, 8, value)).collect()
}

impl Tape {
    pub fn log_sense(&mut self, run: &mut Run<'_>, command: &Primary) -> Outcome {
        let suffix = run.shared.options.barcode_suffix.clone();
        let given = log_sense(command, &PAGES, |code| self.log_page(code, &suffix), run.into)?;
        // Telling them clears them (SSC-5, 8.3.3): sg_logs asks for the header first, which tells none.
        if let Primary::LogSense { page: page::TAPE_ALERT, subpage: 0, .. } = command
            && given.min(run.into.len()) >= TapeAlerts::default().to_log().encode().len()
        {
            self.moved.alerts = TapeAlerts::default();
        }
        Ok(given)
    }

    /// Sets counters to zero, those of a page or of all that have some. Nothing can be set to a value, or
    /// saved.
    pub fn log_select(
        &mut self,
        run: &mut Run<'_>,
        (reset, save): (bool, bool),
        (page, subpage): (u8, u8),
        length: u16,
    ) -> Outcome {
        if save {
            return Err(Refusal::bit(1, 0));
        }
        if length > 0 {
            return Err(Refusal::field(7));
        }
        match (page, subpage) {
            (page::SUPPORTED, 0) => {}
            (page, 0) if RESETTABLE.contains(&page) => {}
            (page, 0) if PAGES.contains(&page) => return Err(Refusal::bit(1, 1)),
            (_, 0) => return Err(Refusal::field(2)),
            _ => return Err(Refusal::field(3)),
        }
        if !reset {
            return Ok(0);
        }
        let counted = self.counted()?;
        for one in RESETTABLE.into_iter().filter(|one| [page::SUPPORTED, *one].contains(&page)) {
            match one {
                page::WRITE_ERRORS => self.moved.before_writes = counted.clone(),
                page::READ_ERRORS => self.moved.before_reads = counted.clone(),
                page::SEQUENTIAL_ACCESS => (self.moved.written, self.moved.read) = (0, 0),
                _ => {
                    self.gather_alerts()?;
                    self.moved.alerts = TapeAlerts::default();
                }
            }
        }
        run.drive.gate.tell_others(Some(run.nexus), LOG_CHANGED);
        Ok(0)
    }

    fn log_page(&mut self, code: u8, suffix: &str) -> Result<LogPage, Refusal> {
        let parameters = match code {
            page::TAPE_ALERT => {
                self.gather_alerts()?;
                return Ok(self.moved.alerts.to_log());
            }
            page::TAPE_ALERT_RESPONSE => {
                self.gather_alerts()?;
                return Ok(self.moved.alerts.to_response());
            }
            page::WRITE_ERRORS => {
                let counted = less(self.counted()?, &self.moved.before_writes);
                errors(&counted.writing, counted.written)
            }
            page::READ_ERRORS => {
                let counted = less(self.counted()?, &self.moved.before_reads);
                errors(&counted.reading, counted.read)
            }
            page::TEMPERATURE => {
                let celsius = self.counted()?.celsius.unwrap_or(u8::MAX);
                let code = temperature::NOW;
                vec![LogParameter::of_number(code, LogParameter::BINARY_LIST, 2, celsius.into())]
            }
            page::SEQUENTIAL_ACCESS => self.sequential_access(),
            page::VOLUME_STATISTICS => self.volume_statistics(suffix)?,
            _ => self.capacities()?,
        };
        Ok(LogPage { code, parameters, ..LogPage::default() })
    }

    /// What the drive has counted since the last load; without a cartridge nothing.
    fn counted(&mut self) -> Result<DriveCounters, Refusal> {
        match self.drive.counters() {
            Err(TapeError::NotLoaded { .. }) => Ok(DriveCounters::default()),
            counted => Ok(counted?),
        }
    }

    pub(super) fn gather_alerts(&mut self) -> Result<(), Refusal> {
        self.moved.alerts = self.moved.wear.with_flag(self.moved.alerts);
        let raised = self.drive.alerts()?;
        self.moved.alerts = raised.into_iter().fold(self.moved.alerts, |all, alert| all.with(alert.0));
        Ok(())
    }

    fn sequential_access(&self) -> Vec<LogParameter> {
        use sequential_access as s;
        let Moved { written, read, .. } = self.moved;
        vec![
            counter(s::BYTES_FROM_HOST, written),
            counter(s::BYTES_TO_MEDIUM, written),
            counter(s::BYTES_FROM_MEDIUM, read),
            counter(s::BYTES_TO_HOST, read),
            counter(s::CLEANING_REQUESTED, self.moved.wear.asks().is_some().into()),
        ]
    }

    fn volume_statistics(&mut self, suffix: &str) -> Result<Vec<LogParameter>, Refusal> {
        use volume_statistics as v;
        if self.medium.is_none() {
            return Ok(vec![number(v::PAGE_VALID, 0)]);
        }
        let left = self.drive.remaining()?.0;
        let medium = self.medium()?;
        let capacity = medium.capacity.0;
        let vid = medium.vid.as_str().to_owned();
        let write_protected = medium.write_protected;
        let data = u16::from(medium.number(Partition::Data));
        let used = capacity.saturating_sub(left);
        let megabytes = |bytes: u64| u32::try_from(bytes / MEGABYTE).unwrap_or(u32::MAX - 1);
        let of_data = |code, bytes| LogParameter::of_partitions(code, &[(data, megabytes(bytes))]);
        Ok(vec![
            number(v::PAGE_VALID, 1),
            number(v::LAST_MEGABYTES_WRITTEN, self.moved.written_since_load / MEGABYTE),
            number(v::LAST_MEGABYTES_READ, self.moved.read_since_load / MEGABYTE),
            number(v::NATIVE_CAPACITY, capacity / MEGABYTE),
            number(v::NATIVE_USED, used / MEGABYTE),
            text(v::SERIAL, &vid),
            text(v::BARCODE, &format!("{vid}{suffix}")),
            text(v::MANUFACTURER, "KIST"),
            LogParameter::of_number(v::WRITE_PROTECTED, LogParameter::BINARY_LIST, 1, write_protected.into()),
            LogParameter::of_number(v::WORM, LogParameter::BINARY_LIST, 1, 0),
            of_data(v::PARTITION_CAPACITY, capacity),
            of_data(v::PARTITION_USED, used),
            of_data(v::PARTITION_REMAINING, left),
        ])
    }

    /// Capacities in MiB. Of the index partition the library tells nothing: its parameters are left out.
    fn capacities(&mut self) -> Result<Vec<LogParameter>, Refusal> {
        let ByteCount(left) = self.drive_remaining()?;
        let medium = self.medium()?;
        let total = medium.capacity.0;
        let (remaining, maximum) = match medium.partitions {
            1 => (capacity::MAIN_REMAINING, capacity::MAIN_MAXIMUM),
            _ => (capacity::ALTERNATE_REMAINING, capacity::ALTERNATE_MAXIMUM),
        };
        Ok(vec![number(remaining, left / MEBIBYTE), number(maximum, total / MEBIBYTE)])
    }

    fn drive_remaining(&mut self) -> Result<ByteCount, Refusal> {
        self.medium()?;
        Ok(self.drive.remaining()?)
    }
}
