//! What the drive really took for its movements, and the model of its ways fitted to it.
//!
//! Times are those between a command and its end, by the waiter's clock: what this host waits. A locate that
//! had to be looked into, or was told twice, says nothing of the drive and is left out.

use std::collections::VecDeque;
use std::time::Duration;

use base::{BlockAddress, Partition, TapePosition};
use mechanics::{
    DriveFit, DriveModel, FittedDrive, LocateFit, LocateSample, MediumModel, MotionReport, TapeMap, Track,
};

use super::{AttentionsSeen, Drive, Medium};
use crate::TapeError;

/// Locates that are remembered, the newest: some days of a drive that works, so that the fit follows it.
const SAMPLES_MAX: usize = 512;
/// Locates of this mount that wait for the map of its tape.
const UNPLACED_MAX: usize = 512;
/// Loads that are remembered.
const LOADS_MAX: usize = 64;

/// A locate on the data partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedLocate {
    /// The object where the tape stood.
    pub from: BlockAddress,
    /// The object where it was sent.
    pub to: BlockAddress,
    /// How long it took.
    pub took: Duration,
}

/// What was measured of a drive since it was opened.
#[derive(Default)]
pub struct Measured {
    /// Of the last mount; `None` before the first.
    report: Option<MotionReport>,
    /// When its load ended, until its unload: microseconds of the waiter's clock.
    loaded_us: Option<u64>,
    /// Locates of this mount whose places are not known yet.
    unplaced: VecDeque<TimedLocate>,
    /// The medium that the samples are of: places of another cannot be compared with them.
    medium: Option<&'static MediumModel>,
    samples: VecDeque<LocateSample>,
    loads: VecDeque<Duration>,
}

fn push<T>(into: &mut VecDeque<T>, value: T, most: usize) {
    if into.len() == most {
        into.pop_front();
    }
    into.push_back(value);
}

/// Microseconds as seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Before a movement.
pub struct Begun {
    at_us: u64,
    from: Option<TapePosition>,
    seen: AttentionsSeen,
}

impl Medium {
    /// The models of this drive and cartridge. `product`: the drive's, which tells a half-height one. A
    /// cartridge that the drive does not describe is taken for the drive's own.
    #[must_use]
    pub fn models(&self, product: &str) -> Option<(&'static DriveModel, &'static MediumModel)> {
        let by_generation = || mechanics::drive(&self.drive?.to_string()).ok();
        let drive = mechanics::drive(product).ok().or_else(by_generation)?;
        let medium = match self.cartridge {
            Some(super::Cartridge::Ibm3592 { letters, .. }) => mechanics::medium(letters).ok()?,
            Some(super::Cartridge::Lto { m8: true, .. }) => mechanics::medium("LTO-M8").ok()?,
            Some(super::Cartridge::Lto { generation, .. }) => {
                mechanics::medium(&format!("LTO-{generation}")).ok()?
            }
            None => drive.own_medium().ok()?,
        };
        drive.takes(medium).map(|_| (drive, medium))
    }
}

impl Drive {
    /// A movement begins.
    pub fn begin(&self) -> Begun {
        let from = self.session.as_ref().filter(|session| session.sure).map(|session| session.at);
        Begun { at_us: self.unit.now_us(), from, seen: self.seen }
    }

    fn took_us(&self, begun: &Begun) -> u64 {
        self.unit.now_us().saturating_sub(begun.at_us)
    }

    /// Another cartridge was loaded.
    pub fn measure_load(&mut self, begun: &Begun) {
        let took = self.took_us(begun);
        let report = MotionReport { load_seconds: seconds(took), ..MotionReport::default() };
        let measured = &mut self.measured;
        (measured.report, measured.loaded_us) = (Some(report), Some(begun.at_us.saturating_add(took)));
        measured.unplaced.clear();
        push(&mut measured.loads, Duration::from_micros(took), LOADS_MAX);
    }

    /// It was unloaded.
    pub fn measure_unload(&mut self, begun: &Begun) {
        let took = self.took_us(begun);
        let now = self.unit.now_us();
        self.measured.wait_until(now);
        self.measured.loaded_us = None;
        self.measured.add(|report| report.unload_seconds += seconds(took));
    }

    /// The tape was moved to `to`.
    pub fn measure_locate(&mut self, begun: &Begun, to: TapePosition) {
        let took = self.took_us(begun);
        let Some(from) = begun.from.filter(|from| *from != to) else { return };
        self.measured.add(|report| {
            report.locate_seconds += seconds(took);
            report.locates += 1;
        });
        let is_plain = self.seen == begun.seen;
        if is_plain && (from.partition, to.partition) == (Partition::Data, Partition::Data) {
            let took = Duration::from_micros(took);
            let locate = TimedLocate { from: from.block, to: to.block, took };
            push(&mut self.measured.unplaced, locate, UNPLACED_MAX);
        }
    }

    /// So many bytes were read or written. What the drive took for it is what its tape ran, or waited for
    /// the tape: which of the two is not told.
    pub fn measure_transfer(&mut self, begun: &Begun, read: usize, written: usize) {
        let took = self.took_us(begun);
        self.measured.add(|report| {
            report.streaming_seconds += seconds(took);
            report.bytes_read += read as u64;
            report.bytes_written += written as u64;
            report.bytes_streamed += (read + written) as u64;
            report.first_us.get_or_insert(begun.at_us);
            report.last_us = Some(begun.at_us.saturating_add(took));
        });
    }

    /// What was written was flushed.
    pub fn measure_flush(&mut self, begun: &Begun) {
        let took = self.took_us(begun);
        self.measured.add(|report| {
            report.flush_seconds += seconds(took);
            report.flushes += 1;
        });
    }

    /// What the drive did since the mount.
    pub fn motion(&mut self) -> Option<MotionReport> {
        let now = self.unit.now_us();
        self.measured.wait_until(now);
        let report = self.measured.report?;
        self.measured.add(|report| (report.first_us, report.last_us) = (None, None));
        Some(report)
    }

    /// What the ways on the data partition cost, by the model of the drive, the ends of the tape's wraps if
    /// it tells them, and what its locates took so far. `None`: there is no model of it.
    pub fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        let Some(track) = self.model_track(block_size)? else { return Ok(None) };
        let locate = self.measured.fit(&track);
        let fit = self.measured.error(&locate, &track).map(|error| DriveFit { locate, error });
        Ok(Some(fit.into_iter().fold(track, Track::refitted)))
    }

    /// The same by the model alone.
    pub fn model_track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        let product = self.inquiry.product.trimmed();
        let Some((drive, medium)) = self.session()?.medium.models(&product) else { return Ok(None) };
        let map = self.map(medium, block_size)?;
        self.measured.place(medium, &map);
        let serial = self.identity.serial.clone();
        let fitted = FittedDrive { serial, drive, medium, fit: None };
        Ok(Some(Track { fitted: Some(fitted), ..medium.track(drive, block_size, Some(map)) }))
    }

    /// By how much the drive differs from its model, as far as its locates tell.
    pub fn fit(&mut self, block_size: u32) -> Result<Option<LocateFit>, TapeError> {
        Ok(self.model_track(block_size)?.map(|track| self.measured.fit(&track)))
    }

    fn map(&mut self, medium: &MediumModel, block_size: u32) -> Result<TapeMap, TapeError> {
        let mut ends: Vec<u64> = self.wrap_ends()?.unwrap_or_default().iter().map(|end| end.0).collect();
        // The last one is where the data end, unless all wraps are full.
        if ends.len() < usize::from(medium.data_wraps()) {
            ends.pop();
        }
        // What does not fit the medium is not believed.
        Ok(medium.measured_map(&ends, block_size).unwrap_or_else(|_| medium.data_map(block_size)))
    }

    /// Locates of this mount whose places are not known yet, the oldest first.
    pub fn recent_locates(&self) -> Vec<TimedLocate> {
        self.measured.unplaced.iter().copied().collect()
    }

    /// What the last loads took, the oldest first.
    pub fn recent_loads(&self) -> Vec<Duration> {
        self.measured.loads.iter().copied().collect()
    }
}

impl Measured {
    fn add(&mut self, change: impl FnOnce(&mut MotionReport)) {
        if let Some(report) = &mut self.report {
            change(report);
        }
    }

    /// What was not spent on anything else since the load.
    fn wait_until(&mut self, now_us: u64) {
        let Some(loaded_us) = self.loaded_us else { return };
        let since = seconds(now_us.saturating_sub(loaded_us));
        self.add(|report| {
            let busy = report.streaming_seconds + report.locate_seconds + report.flush_seconds;
            report.waiting_seconds = (since - busy).max(report.waiting_seconds);
        });
    }

    /// Says of locates where they went.
    fn place(&mut self, medium: &'static MediumModel, map: &TapeMap) {
        if self.medium.is_none_or(|known| known.name != medium.name) {
            (self.medium, self.samples) = (Some(medium), VecDeque::new());
        }
        for TimedLocate { from, to, took } in std::mem::take(&mut self.unplaced) {
            let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            let sample = LocateSample { from: map.place(from), to: map.place(to), took_us };
            push(&mut self.samples, sample, SAMPLES_MAX);
        }
    }

    fn fit(&self, track: &Track) -> LocateFit {
        let samples: Vec<LocateSample> = self.samples.iter().copied().collect();
        LocateFit::of(&track.locate, &track.map, &samples)
    }

    /// How far off the model is with that fit.
    fn error(&self, fit: &LocateFit, track: &Track) -> Option<f64> {
        let samples: Vec<LocateSample> = self.samples.iter().copied().collect();
        fit.error(&track.locate, &track.map, &samples)
    }
}
