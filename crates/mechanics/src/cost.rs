//! What a drive and a robot take for whole steps: mounts, unmounts, moving data, writing an index.

use base::ByteCount;

use crate::locate::LocateCost;
use crate::map::{Place, TapeMap};
use crate::model::{DriveModel, MediumModel};
use crate::timing::{DriveTiming, RobotTiming};

/// Places along each wrap that a mean is taken over.
const PLACES_A_WRAP: u32 = 64;

/// An index that is written to both partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexWrite {
    /// Of the index, once.
    pub bytes: ByteCount,
    /// Where the data end, and the index behind them begins.
    pub from: Place,
    /// Whether the head returns there.
    pub returns: bool,
}

impl LocateCost {
    /// The mean locate from a place to any other of the tape, in microseconds: to 64 places, evenly along
    /// each wrap of the whole tape.
    #[must_use]
    pub fn mean_us(&self, map: &TapeMap, from: Place) -> u64 {
        let lpos = map.lpos();
        let span = u64::from(lpos.end - lpos.start);
        let along = |index: u32| {
            let part = span * (2 * u64::from(index) + 1) / (2 * u64::from(PLACES_A_WRAP));
            lpos.start + u32::try_from(part).unwrap_or(u32::MAX)
        };
        let places = (0..map.wraps()).flat_map(|wrap| {
            let place = move |index| Place { wrap, lpos: along(index) };
            (0..PLACES_A_WRAP).map(place)
        });
        let sum: u64 = places.map(|to| self.between(map, from, to)).sum();
        sum / (u64::from(map.wraps()) * u64::from(PLACES_A_WRAP)).max(1)
    }
}

impl DriveTiming {
    /// Reading the labels of a tape that has just been loaded, in microseconds: starting and stopping once,
    /// the fixed part of a locate. They stand at the load point.
    #[must_use]
    pub fn label_us(&self) -> u64 {
        self.locate.base_us.max(0.0).round() as u64
    }

    /// From a cartridge in its slot to the head at the first block, in microseconds: `move + load + labels +
    /// locate`.
    ///
    /// `locate_us` is the way from the load point; waiting for a robot is not in it, nor the first load of a
    /// new cartridge ([`MediumModel::first_load`]).
    #[must_use]
    pub fn mount_us(&self, robot: &RobotTiming, locate_us: u64) -> u64 {
        robot.move_us + self.load_us + self.label_us() + locate_us
    }

    /// A rewind, in microseconds: `fixed part + way / winding speed`, where the way is along the tape only; 0
    /// at the load point.
    #[must_use]
    pub fn rewind_from_us(&self, map: &TapeMap, from: Place) -> u64 {
        let way = from.lpos.saturating_sub(map.lpos().start);
        if from.wrap == 0 && way == 0 {
            return 0;
        }
        self.rewind_us + (f64::from(way) / self.lpos_per_second * 1e6).round() as u64
    }

    /// The mean rewind, in microseconds: from the middle of the tape.
    #[must_use]
    pub fn mean_rewind_us(&self, map: &TapeMap) -> u64 {
        let lpos = map.lpos();
        self.rewind_from_us(map, Place { wrap: 1, lpos: lpos.start + (lpos.end - lpos.start) / 2 })
    }

    /// Bytes a second that reach the tape or the host, if the host gives or takes `host_rate`.
    ///
    /// A host as fast as the drive: the drive's own rate. A slower one down to [`DriveTiming::least_rate`]:
    /// the host's, the drive matches it. A host below that, of rate h: the drive runs at its least rate l
    /// until its buffer B is empty (or full), stops, and needs t to stand where it left off. While `B >= t h`
    /// the buffer takes what comes meanwhile, and the rate is h; else the host waits too: `l B / (B + t (l -
    /// h))`.
    #[must_use]
    pub fn stream_rate(&self, host_rate: u64) -> u64 {
        if host_rate >= self.least_rate {
            return host_rate.min(self.native_rate);
        }
        let per_second = 1_000_000_u128;
        let buffer = u128::from(self.buffer.0) * per_second;
        let stop = u128::from(self.backhitch_us);
        if buffer >= stop * u128::from(host_rate) {
            return host_rate;
        }
        let waiting = buffer + stop * u128::from(self.least_rate - host_rate);
        let rate = u128::from(self.least_rate) * buffer / waiting.max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Stops an hour, with the tape backed up each time, for a host of that rate: each run moves `l B / (l -
    /// h)` bytes. 0 if the drive matches the host's speed. They wear tape and heads even where they cost no
    /// rate.
    #[must_use]
    pub fn stops_an_hour(&self, host_rate: u64) -> u64 {
        let below = self.least_rate.saturating_sub(host_rate);
        let bytes_an_hour = u128::from(self.stream_rate(host_rate)) * 3_600;
        let run = u128::from(self.least_rate) * u128::from(self.buffer.0);
        let stops = bytes_an_hour * u128::from(below) / run.max(1);
        u64::try_from(stops).unwrap_or(u64::MAX)
    }

    /// Moving bytes in one go to or from a host of that rate, in microseconds: `bytes / stream rate`.
    #[must_use]
    pub fn stream_us(&self, bytes: ByteCount, host_rate: u64) -> u64 {
        micros(bytes, self.stream_rate(host_rate))
    }

    /// A synchronous file mark, in microseconds: `bytes in the drive's buffer / native rate + fixed part`.
    ///
    /// `buffered` is what was written since the last one, of which the buffer holds no more than its size.
    #[must_use]
    pub fn sync_us(&self, buffered: ByteCount) -> u64 {
        micros(ByteCount(buffered.0.min(self.buffer.0)), self.native_rate) + self.flush_us
    }

    /// Writing an index behind the data and to the index partition, in microseconds: `2 (bytes / native rate
    /// + file mark) + way to the load point`, and the way back if the head returns.
    ///
    /// The index in the index partition is taken to begin at the load point: both stand on the tape's first
    /// wraps, and the labels before it are a few blocks.
    #[must_use]
    pub fn index_us(&self, map: &TapeMap, write: IndexWrite) -> u64 {
        let load_point = Place { wrap: 0, lpos: map.lpos().start };
        let once = micros(write.bytes, self.native_rate) + self.flush_us;
        let there = self.locate.between(map, write.from, load_point);
        let back = if write.returns { self.locate.between(map, load_point, write.from) } else { 0 };
        2 * once + there + back
    }
}

impl DriveModel {
    /// From the head at a place to the cartridge in its slot, in microseconds: `rewind + what the unload
    /// winds more + unload + move`.
    ///
    /// `moved` is as in [`DriveModel::unload_extra_us`].
    #[must_use]
    pub fn unmount_us(
        &self,
        medium: &MediumModel,
        robot: &RobotTiming,
        from: Place,
        moved: Option<ByteCount>,
    ) -> u64 {
        let timing = self.timing(medium);
        let rewind = timing.rewind_from_us(&medium.data_map(1 << 19), from);
        rewind + self.unload_extra_us(moved) + timing.unload_us + robot.move_us
    }
}

fn micros(bytes: ByteCount, rate: u64) -> u64 {
    let us = u128::from(bytes.0) * 1_000_000 / u128::from(rate.max(1));
    u64::try_from(us).unwrap_or(u64::MAX)
}
