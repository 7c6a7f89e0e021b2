//! A virtual library that takes the time of a real one: the model says how long, a waiter lets it go by.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{BlockAddress, Partition, TapePosition, Vid};
use mechanics::{DriveTiming, Geometry, Motion, RobotTiming, Robots, TapeByte, Track};

use super::partition::PartitionFile;
use crate::{LibraryError, TapeError};

/// The most segments that a drive orders at once.
pub const ORDER_SEGMENTS_MAX: usize = 2_730;

/// Shorter waits are put off: the drive's own time goes on, so that they add up to a longer one.
const WAIT_LEAST_US: u64 = 1_000;

/// Lets time go by.
pub trait Waiter: Send + Sync + fmt::Debug {
    /// Microseconds since some moment; never goes back.
    fn now_us(&self) -> u64;

    /// Returns at that time; up to a millisecond earlier if that saves many short waits, for what is asked
    /// for next counts from the same moment.
    fn wait_until(&self, until_us: u64);
}

/// What a cleaning takes: two minutes, as LTO drives say (IBM and HPE name two to five).
const CLEANING_US: u64 = 120_000_000;

/// A waiter by the machine's steady clock, which sleeps.
#[derive(Debug)]
pub struct SleepingWaiter {
    begin: Instant,
}

impl SleepingWaiter {
    /// A waiter whose time begins now.
    #[must_use]
    pub fn new() -> Self {
        SleepingWaiter { begin: Instant::now() }
    }
}

impl Default for SleepingWaiter {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiter for SleepingWaiter {
    fn now_us(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn wait_until(&self, until_us: u64) {
        let wait = until_us.saturating_sub(self.now_us());
        // A sleep that ends late is made up for: the drive has gone on meanwhile.
        if wait >= WAIT_LEAST_US {
            std::thread::sleep(Duration::from_micros(wait));
        }
    }
}

/// How the machines of a virtual library take time.
#[derive(Clone, Debug)]
pub struct VirtualTiming {
    /// All drives.
    pub drive: DriveTiming,
    /// All cartridges; those of little capacity use the first wraps only.
    pub geometry: Geometry,
    /// The robots.
    pub robot: RobotTiming,
    /// How much faster than a real library it is; 1 is real time.
    pub scale: f64,
    /// Lets the time go by.
    pub waiter: Arc<dyn Waiter>,
}

/// What the drives of a library share to take time.
pub struct Timed {
    timing: VirtualTiming,
    robots: Mutex<Robots>,
}

impl Timed {
    pub fn new(timing: VirtualTiming) -> Result<Self, LibraryError> {
        if !(timing.scale.is_finite() && timing.scale > 0.0) {
            return Err(LibraryError::Scale { scale: timing.scale });
        }
        let robots = Mutex::new(Robots::new(timing.robot));
        Ok(Timed { timing, robots })
    }

    /// A drive, empty.
    pub fn motion(&self) -> Motion {
        Motion::new(self.timing.drive.clone(), &self.timing.geometry)
    }

    /// The machines' time.
    pub fn now_us(&self) -> u64 {
        (self.timing.waiter.now_us() as f64 * self.timing.scale) as u64
    }

    /// Waits until the machines' time is `until_us`.
    pub fn wait_until(&self, until_us: u64) {
        self.timing.waiter.wait_until((until_us as f64 / self.timing.scale).ceil() as u64);
    }

    /// Has a robot bring a cartridge from a slot to a drive or back, which waits for one that is free.
    pub fn move_cartridge(&self) {
        let now = self.now_us();
        let done = self.robots.lock().unwrap_or_else(PoisonError::into_inner).request(now).done_us;
        self.wait_until(done);
    }

    /// A drive is cleaned.
    pub fn clean(&self) {
        self.wait_until(self.now_us().saturating_add(CLEANING_US));
    }

    pub fn recommends_order(&self) -> bool {
        self.timing.drive.recommends_order
    }

    /// The first block behind each wrap of the data partition that has data.
    pub fn ends_of_data(&self, data: &PartitionFile) -> Vec<BlockAddress> {
        let mut ends = self.ends_of_wraps(data);
        let end = BlockAddress(data.end().objects);
        // File marks behind the last full wrap take no room on the next.
        if !data.end().payload.is_multiple_of(self.timing.geometry.wrap_bytes.0) && ends.last() != Some(&end)
        {
            ends.push(end);
        }
        ends
    }

    /// The first block behind each full wrap of the data partition.
    fn ends_of_wraps(&self, data: &PartitionFile) -> Vec<BlockAddress> {
        let wrap = self.timing.geometry.wrap_bytes.0;
        let full = data.end().payload / wrap;
        let wraps = full.min(u64::from(self.timing.geometry.wraps_of(Partition::Data)));
        let mut ends: Vec<_> = (1..=wraps).map(|end| BlockAddress(data.at_payload(end * wrap))).collect();
        // Damaged objects may leave it open how far a wrap goes.
        ends.dedup();
        ends
    }

    pub fn track(&self, data: &PartitionFile, block_size: u32) -> Track {
        let drive = &self.timing.drive;
        Track {
            map: self.timing.geometry.map_of_ends(&self.ends_of_wraps(data), block_size),
            locate: drive.locate,
            block_us: f64::from(block_size) / drive.native_rate as f64 * 1e6,
            error: Some(0.0),
            fitted: None,
        }
    }

    /// Segments by the way to each from the end of the one before, the first from `from`.
    pub fn nearest_first(&self, from: TapeByte, segments: &[(TapeByte, TapeByte)]) -> Vec<usize> {
        let (geometry, locate) = (&self.timing.geometry, &self.timing.drive.locate);
        let map = geometry.byte_map(Partition::Data);
        let place = |at: TapeByte| map.place(BlockAddress(at.byte));
        let places: Vec<_> = segments.iter().map(|(begin, end)| (place(*begin), place(*end))).collect();
        let mut head = geometry.place(from);
        let mut left: Vec<usize> = (0..segments.len()).collect();
        let mut order = Vec::with_capacity(segments.len());
        let way =
            |head, segment: usize| places.get(segment).map_or(0, |(to, _)| locate.between(&map, head, *to));
        while let Some(at) =
            (0..left.len()).min_by_key(|at| left.get(*at).map(|next| (way(head, *next), *next)))
        {
            let next = left.swap_remove(at);
            head = places.get(next).map_or(head, |(_, end)| *end);
            order.push(next);
        }
        order
    }
}

/// Refuses segments that are too many or are not on the tape.
pub fn check_segments(
    vid: Vid,
    segments: &[(BlockAddress, BlockAddress)],
    end: TapePosition,
) -> Result<(), TapeError> {
    if segments.len() > ORDER_SEGMENTS_MAX {
        return Err(TapeError::SegmentCount { count: segments.len(), max: ORDER_SEGMENTS_MAX });
    }
    let behind = segments.iter().map(|(begin, behind)| *begin.max(behind)).max();
    match behind.filter(|behind| *behind > end.block) {
        Some(block) => Err(TapeError::BeyondEndOfData { vid, to: TapePosition { block, ..end }, end }),
        None => Ok(()),
    }
}

/// How long a command lasts: begun when it is made, it tells afterwards what to wait for.
pub struct Pace<'a> {
    motion: Option<&'a mut Motion>,
    at_us: u64,
    lasts: bool,
}

impl<'a> Pace<'a> {
    pub fn new(timed: Option<&Timed>, motion: Option<&'a mut Motion>) -> Self {
        Pace { motion, at_us: timed.map_or(0, Timed::now_us), lasts: false }
    }

    /// Until when the host waits, if the command takes time.
    pub fn until_us(&self) -> Option<u64> {
        self.lasts.then_some(self.at_us)
    }

    /// So many bytes from `at` on; the partition's records end at `end`.
    pub fn read(&mut self, at: impl FnOnce() -> TapeByte, bytes: u64, end: u64) {
        self.go(|motion, now| {
            let now = motion.locate(now, at());
            motion.read(now, bytes, end)
        });
    }

    pub fn write(&mut self, at: impl FnOnce() -> TapeByte, bytes: u64) {
        self.go(|motion, now| {
            let now = motion.locate(now, at());
            motion.write(now, bytes)
        });
    }

    pub fn flush(&mut self) {
        self.go(Motion::flush);
    }

    pub fn locate(&mut self, to: impl FnOnce() -> TapeByte) {
        self.go(|motion, now| motion.locate(now, to()));
    }

    pub fn rewind(&mut self) {
        self.go(Motion::rewind);
    }

    fn go(&mut self, run: impl FnOnce(&mut Motion, u64) -> u64) {
        if let Some(motion) = &mut self.motion {
            self.at_us = run(motion, self.at_us);
            self.lasts = true;
        }
    }
}
