//! A drive in motion: how long the host waits for each thing that it asks for.
//!
//! The tape streams only while there is something to do: it reads ahead into the drive's buffer, or writes
//! what the host left there. Within a sixteenth of the buffer of its end the drive runs at its least rate and
//! thus follows a host that is slower than itself; a host below the least rate makes it stop. Going on
//! afterwards costs a back-hitch: at once when a read needs more than what is buffered; of a write, when half
//! of the buffer is full again, so that the host waits only if it fills the rest meanwhile. Writing begins
//! when a sixteenth is full.

use base::BlockAddress;

use crate::geometry::{Geometry, TapeByte};
use crate::map::{Place, TapeMap};
use crate::report::MotionReport;
use crate::timing::DriveTiming;

/// The part of the buffer at its end in which the drive runs slowly.
const SLOW_PART: f64 = 1.0 / 16.0;
/// A starved writing drive starts again when this part of its buffer is full.
const RESTART_PART: f64 = 0.5;
/// Less than this is nothing: sums of fractions of bytes are not exact.
const BYTES_EPSILON: f64 = 1e-3;

/// What the tape does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// There is none.
    Empty,
    /// It stands, after a load, locate, rewind or flush: it can start without a back-hitch.
    Ready,
    /// It reads ahead.
    Reading,
    /// Its buffer is full of what was read; it stands.
    Sated,
    /// It writes what is in its buffer.
    Writing,
    /// It stands until the host has filled a part of the buffer; with a hitch, because it has written all
    /// that it was given.
    Filling {
        /// Whether going on costs a back-hitch.
        hitch: bool,
    },
}

/// A drive with a tape in it. Times are microseconds of a clock of the caller's; a time before what was
/// given out last is taken for that.
///
/// Each operation gives the time until which the host has to wait for it. The host may come back earlier, if
/// it makes up for it later: nothing is lost or won by it.
#[derive(Clone, Debug)]
pub struct Motion {
    timing: DriveTiming,
    index: TapeMap,
    data: TapeMap,
    mode: Mode,
    /// Up to when the state is known, in microseconds.
    at: f64,
    /// What the host reads or writes next.
    host: TapeByte,
    /// Bytes in the drive's buffer: read ahead, or not yet written.
    level: f64,
    /// How far there is something to read.
    end: u64,
    /// What is left of a back-hitch that was begun.
    hitch_left: f64,
    streamed: f64,
    report: MotionReport,
}

impl Motion {
    /// An empty drive.
    #[must_use]
    pub fn new(timing: DriveTiming, geometry: &Geometry) -> Self {
        assert!(timing.native_rate > 0 && timing.least_rate > 0, "a drive's tape moves");
        assert!(timing.least_rate <= timing.native_rate && timing.lpos_per_second > 0.0);
        Motion {
            timing,
            // A tape without partitions begins with its data.
            index: match geometry.index_wraps {
                0 => geometry.byte_map(base::Partition::Data),
                _ => geometry.byte_map(base::Partition::Index),
            },
            data: geometry.byte_map(base::Partition::Data),
            mode: Mode::Empty,
            at: 0.0,
            host: TapeByte { partition: base::Partition::Index, byte: 0 },
            level: 0.0,
            end: 0,
            hitch_left: 0.0,
            streamed: 0.0,
            report: MotionReport::default(),
        }
    }

    /// The timing that this drive has.
    #[must_use]
    pub fn timing(&self) -> &DriveTiming {
        &self.timing
    }

    /// Loads a tape and threads it: it then stands at the beginning of the index partition.
    pub fn load(&mut self, now_us: u64) -> u64 {
        self.at = self.at.max(now_us as f64);
        self.stand_at(TapeByte { partition: base::Partition::Index, byte: 0 });
        (self.report, self.streamed) = (MotionReport::default(), 0.0);
        self.report.load_seconds += self.pass(self.timing.load_us as f64);
        self.done()
    }

    /// Writes what is in the buffer, rewinds from where the tape stands, and unloads.
    pub fn unload(&mut self, now_us: u64) -> u64 {
        self.advance(now_us);
        self.write_out();
        let way = self.rewind_us();
        self.report.unload_seconds += self.pass(way + self.timing.unload_us as f64);
        self.stand_at(TapeByte { partition: base::Partition::Index, byte: 0 });
        self.mode = Mode::Empty;
        self.done()
    }

    /// Reads so many bytes; the partition's records end in front of byte `end`, up to which the drive reads
    /// ahead.
    pub fn read(&mut self, now_us: u64, bytes: u64, end: u64) -> u64 {
        self.advance(now_us);
        self.note_first();
        if matches!(self.mode, Mode::Writing | Mode::Filling { .. }) {
            self.write_out();
            self.begin_hitch();
            self.mode = Mode::Ready;
        }
        self.end = end;
        let missing = bytes as f64 - self.level;
        if missing <= 0.0 {
            self.level -= bytes as f64;
        } else {
            if self.mode == Mode::Sated {
                self.begin_hitch();
            }
            self.mode = Mode::Reading;
            self.finish_hitch();
            self.level = 0.0;
            self.stream(missing, missing / self.rate(self.timing.native_rate));
        }
        self.host.byte += bytes;
        self.report.bytes_read += bytes;
        self.note_last()
    }

    /// Takes so many bytes to write; the host waits for room in the buffer only.
    pub fn write(&mut self, now_us: u64, bytes: u64) -> u64 {
        self.advance(now_us);
        self.note_first();
        match self.mode {
            // The tape ran ahead of where the host writes.
            Mode::Reading | Mode::Sated => (self.level, self.mode) = (0.0, Mode::Filling { hitch: true }),
            Mode::Empty | Mode::Ready => self.mode = Mode::Filling { hitch: false },
            Mode::Writing | Mode::Filling { .. } => {}
        }
        let buffer = self.buffer();
        self.level += bytes as f64;
        match self.mode {
            Mode::Filling { hitch: false } if self.level >= buffer * SLOW_PART => self.mode = Mode::Writing,
            Mode::Filling { hitch: true } if self.level >= buffer * RESTART_PART => self.restart(),
            _ => {}
        }
        let excess = self.level - buffer;
        if excess > 0.0 {
            self.finish_hitch();
            self.level -= excess;
            self.stream(excess, excess / self.rate(self.timing.native_rate));
        }
        self.host.byte += bytes;
        self.report.bytes_written += bytes;
        self.note_last()
    }

    /// Writes what is in the buffer, and says so when it is on tape: a synchronous file mark. What is written
    /// next begins without a back-hitch.
    pub fn flush(&mut self, now_us: u64) -> u64 {
        self.advance(now_us);
        if matches!(self.mode, Mode::Writing | Mode::Filling { .. }) {
            self.write_out();
            self.mode = Mode::Ready;
            self.report.flush_seconds += self.pass(self.timing.flush_us as f64);
            self.report.flushes += 1;
        }
        self.done()
    }

    /// Moves to a byte. What follows on, or was read ahead already, is there; all else takes a locate from
    /// where the tape stands, which may be ahead of the host.
    pub fn locate(&mut self, now_us: u64, to: TapeByte) -> u64 {
        self.advance(now_us);
        if to == self.host {
            return self.done();
        }
        let same = to.partition == self.host.partition && to.byte > self.host.byte;
        let ahead = to.byte.saturating_sub(self.host.byte) as f64;
        if matches!(self.mode, Mode::Reading | Mode::Sated) && same && ahead <= self.level {
            self.level -= ahead;
            self.host = to;
            return self.done();
        }
        self.write_out();
        let (from, target) = (self.place(self.head()), self.place(to));
        let cost = self.timing.locate.between(self.map(to.partition), from, target);
        self.report.locate_seconds += self.pass(cost as f64);
        self.report.locates += 1;
        self.stand_at(to);
        self.done()
    }

    /// Moves to the beginning of the partition.
    pub fn rewind(&mut self, now_us: u64) -> u64 {
        self.advance(now_us);
        let to = TapeByte { byte: 0, ..self.host };
        if self.head() != to {
            self.write_out();
            let way = self.rewind_us();
            self.report.locate_seconds += self.pass(way);
            self.report.locates += 1;
        }
        self.stand_at(to);
        self.done()
    }

    /// What the host reads or writes next.
    #[must_use]
    pub fn host(&self) -> TapeByte {
        self.host
    }

    /// The byte under the head: ahead of the host when reading, behind it when writing.
    #[must_use]
    pub fn head(&self) -> TapeByte {
        let level = self.level.round() as u64;
        let byte = match self.mode {
            Mode::Reading | Mode::Sated | Mode::Ready | Mode::Empty => self.host.byte + level,
            Mode::Writing | Mode::Filling { .. } => self.host.byte.saturating_sub(level),
        };
        TapeByte { byte, ..self.host }
    }

    /// Where a byte stands.
    #[must_use]
    pub fn place(&self, at: TapeByte) -> Place {
        self.map(at.partition).place(BlockAddress(at.byte))
    }

    /// What the drive did since the load, the time up to `now_us` taken in. The bounds of the transfers are
    /// those since the last report.
    pub fn report(&mut self, now_us: u64) -> MotionReport {
        self.advance(now_us);
        let report = self.report;
        (self.report.first_us, self.report.last_us) = (None, None);
        MotionReport { bytes_streamed: self.streamed.round() as u64, ..report }
    }

    /// What the drive does while the host does nothing, up to `now_us`.
    fn advance(&mut self, now_us: u64) {
        let now = now_us as f64;
        let span = now - self.at;
        if span <= 0.0 {
            return;
        }
        let hitch = span.min(self.hitch_left);
        self.hitch_left -= hitch;
        self.report.backhitch_seconds += self.pass(hitch);
        match self.mode {
            Mode::Reading => self.read_ahead(span - hitch),
            Mode::Writing => self.write_behind(span - hitch),
            Mode::Empty | Mode::Ready | Mode::Sated | Mode::Filling { .. } => {}
        }
        if self.mode != Mode::Empty {
            self.report.waiting_seconds += (now - self.at).max(0.0) / 1e6;
        }
        self.at = now;
    }

    fn read_ahead(&mut self, span: f64) {
        let buffer = self.buffer();
        let readable = self.end.saturating_sub(self.host.byte) as f64;
        let slow_from = buffer * (1.0 - SLOW_PART);
        let fast = (slow_from.min(readable) - self.level).max(0.0);
        let left = self.run(fast, self.timing.native_rate, 1.0, span);
        let slow = (buffer.min(readable) - self.level).max(0.0);
        let left = self.run(slow, self.timing.least_rate, 1.0, left);
        if left > 0.0 {
            self.mode = Mode::Sated;
        }
    }

    fn write_behind(&mut self, span: f64) {
        let fast = (self.level - self.buffer() * SLOW_PART).max(0.0);
        let left = self.run(fast, self.timing.native_rate, -1.0, span);
        let left = self.run(self.level, self.timing.least_rate, -1.0, left);
        if left > 0.0 && self.level <= BYTES_EPSILON {
            (self.level, self.mode) = (0.0, Mode::Filling { hitch: true });
        }
    }

    /// Streams up to `bytes`, into or out of the buffer, in no more than `span`; gives what is left of it.
    fn run(&mut self, bytes: f64, rate: u64, sign: f64, span: f64) -> f64 {
        let rate = self.rate(rate);
        let time = span.min(bytes / rate);
        let moved = if time < span { bytes } else { bytes.min(time * rate) };
        self.level = (self.level + sign * moved).max(0.0);
        self.stream(moved, time);
        span - time
    }

    /// Empties the buffer of what is to be written.
    fn write_out(&mut self) {
        match self.mode {
            Mode::Writing | Mode::Filling { hitch: false } => {}
            Mode::Filling { hitch: true } if self.level > 0.0 => self.restart(),
            _ => return,
        }
        self.finish_hitch();
        let level = std::mem::take(&mut self.level);
        self.stream(level, level / self.rate(self.timing.native_rate));
    }

    /// Goes on writing after the host has starved the drive.
    fn restart(&mut self) {
        self.begin_hitch();
        self.mode = Mode::Writing;
    }

    fn begin_hitch(&mut self) {
        self.hitch_left = self.timing.backhitch_us as f64;
        self.report.backhitches += 1;
    }

    fn finish_hitch(&mut self) {
        let left = std::mem::take(&mut self.hitch_left);
        self.report.backhitch_seconds += self.pass(left);
    }

    fn stand_at(&mut self, to: TapeByte) {
        (self.host, self.mode) = (to, Mode::Ready);
        (self.level, self.hitch_left) = (0.0, 0.0);
    }

    fn stream(&mut self, bytes: f64, time: f64) {
        self.streamed += bytes;
        self.report.streaming_seconds += self.pass(time);
    }

    /// Lets so many microseconds go by and gives them in seconds.
    fn pass(&mut self, time: f64) -> f64 {
        self.at += time;
        time / 1e6
    }

    fn rewind_us(&self) -> f64 {
        self.timing.rewind_from_us(&self.data, self.place(self.head())) as f64
    }

    fn map(&self, partition: base::Partition) -> &TapeMap {
        match partition {
            base::Partition::Index => &self.index,
            base::Partition::Data => &self.data,
        }
    }

    fn buffer(&self) -> f64 {
        self.timing.buffer.0 as f64
    }

    /// Bytes a microsecond.
    fn rate(&self, rate: u64) -> f64 {
        rate as f64 / 1e6
    }

    fn note_first(&mut self) {
        let now = self.done();
        self.report.first_us.get_or_insert(now);
    }

    fn note_last(&mut self) -> u64 {
        let done = self.done();
        self.report.last_us = Some(done);
        done
    }

    fn done(&self) -> u64 {
        self.at.ceil() as u64
    }
}
