//! How long things take: what a drive model says, corrected by what was seen.

use std::collections::{BTreeMap, VecDeque};

use base::{ByteCount, ClassId, Duration, TapePoolId, Timestamp};
use mechanics::{DriveTiming, RobotTiming};

/// Observations of each kind that are remembered.
const SEEN_MAX: usize = 32;
/// Observations before the nominal figure gives way to them.
const SEEN_LEAST: usize = 3;
/// Mean locate between the files of one session, by their number: files of 2 GB at random places of an LTO-8
/// tape, read in the best order known (seconds).
const LOCATES: [(f64, f64); 7] =
    [(1.0, 45.0), (8.0, 26.6), (32.0, 18.1), (128.0, 13.9), (512.0, 11.5), (2_000.0, 7.6), (10_000.0, 5.0)];
/// The mean locate between two random files by the formula that [`LOCATES`] was computed with, in seconds.
const LOCATE_NOMINAL: f64 = 56.3;
/// A locate where nothing moves, in seconds: the next record is looked up.
const UNTIMED_LOCATE: f64 = 0.001;
/// Half of the longitudinal positions of a tape: the mean way to a random place.
const LPOS_HALF: f64 = 84_000.0;

/// How long the steps of a tape's work take.
///
/// Nominal: from the data of a drive model. What a scheduler's forecast uses is this, corrected by the last
/// 32 observations of each kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Pace {
    /// From the order to mount to the tape ready and its label checked.
    pub mount: Duration,
    /// From the order to unmount to the empty drive.
    pub unmount: Duration,
    /// A session's fixed part.
    pub begin: Duration,
    /// Factor on the usual mean locate between the files of one session.
    pub locate: f64,
    /// Bytes a second while reading.
    pub read_rate: u64,
    /// Bytes a second while writing.
    pub write_rate: u64,
    /// Bytes a second while containers are gathered.
    pub seal_rate: u64,
    /// A session of work that nobody waits for.
    pub maintenance: Duration,
    /// Where the containers of a class go: a copy in each of these tape pools.
    pub tape_pools: BTreeMap<ClassId, Vec<TapePoolId>>,
}

impl Default for Pace {
    /// An LTO-8 drive in a library of one robot.
    fn default() -> Self {
        Pace {
            mount: Duration::from_secs(60),
            unmount: Duration::from_secs(90),
            begin: Duration::from_secs(30),
            locate: 1.0,
            read_rate: 340_000_000,
            write_rate: 340_000_000,
            seal_rate: 1_000_000_000,
            maintenance: Duration::from_secs(3_600),
            tape_pools: BTreeMap::new(),
        }
    }
}

impl Pace {
    /// What a drive model and a robot say.
    #[must_use]
    pub fn of_drive(drive: &DriveTiming, robot: &RobotTiming) -> Self {
        let micros = Duration::from_micros;
        let way = if drive.lpos_per_second > 0.0 { LPOS_HALF / drive.lpos_per_second } else { 0.0 };
        let rewind = micros(drive.rewind_us) + Duration::from_secs_f64(way.clamp(0.0, 600.0));
        let locate = (drive.locate.base_us + drive.locate.lpos_us * LPOS_HALF) / 1e6;
        Pace {
            mount: micros(robot.move_us) + micros(drive.load_us) + Duration::from_secs(15),
            unmount: rewind + micros(drive.unload_us) + micros(robot.move_us),
            locate: (locate / LOCATE_NOMINAL).clamp(0.01, 100.0),
            read_rate: drive.native_rate.max(1) / 100 * 95,
            write_rate: drive.native_rate.max(1) / 100 * 95,
            ..Pace::default()
        }
    }

    /// A library without timing: directories on disks, whose commands take milliseconds. Drives that turn out
    /// to be slower are learned of from what they take.
    #[must_use]
    pub fn untimed() -> Self {
        Pace {
            mount: Duration::from_millis(20),
            unmount: Duration::from_millis(20),
            begin: Duration::from_millis(50),
            locate: UNTIMED_LOCATE / LOCATE_NOMINAL,
            read_rate: 300_000_000,
            write_rate: 300_000_000,
            seal_rate: 1_000_000_000,
            maintenance: Duration::from_secs(60),
            tape_pools: BTreeMap::new(),
        }
    }

    /// The locates of a session of so many files. More than the table has are no farther apart, all together,
    /// than its last number of them: the tape is not longer.
    pub(crate) fn locates(&self, files: u64) -> Duration {
        let files = (files as f64).min(LOCATES[LOCATES.len() - 1].0);
        seconds(files * mean_locate(files) * self.locate)
    }

    /// The same on a tape with so many bytes (0: not known): at most one locate, and reading through all that
    /// is not wanted.
    pub(crate) fn locates_within(&self, files: u64, bytes: ByteCount, written: ByteCount) -> Duration {
        let locates = self.locates(files);
        if written.0 == 0 {
            return locates;
        }
        let through = transfer(ByteCount(written.0.saturating_sub(bytes.0)), self.read_rate);
        locates.min(self.locates(files.min(1)) + through)
    }

    /// Reading so many files of a tape with so many bytes, the session's fixed part included.
    pub(crate) fn reading(&self, files: u64, bytes: ByteCount, written: ByteCount) -> Duration {
        self.begin + self.locates_within(files, bytes, written) + transfer(bytes, self.read_rate)
    }

    pub(crate) fn writing(&self, bytes: ByteCount) -> Duration {
        transfer(bytes, self.write_rate)
    }

    pub(crate) fn sealing(&self, bytes: ByteCount) -> Duration {
        transfer(bytes, self.seal_rate)
    }
}

fn transfer(bytes: ByteCount, rate: u64) -> Duration {
    seconds(bytes.0 as f64 / rate.max(1) as f64)
}

/// Seconds as a span; nothing takes longer than a hundred years.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(if seconds.is_finite() { seconds.clamp(0.0, 3.2e9) } else { 3.2e9 })
}

/// Between the points of the table straight lines.
fn mean_locate(files: f64) -> f64 {
    let Some(above) = LOCATES.iter().position(|(count, _)| files <= *count) else {
        return LOCATES[LOCATES.len() - 1].1;
    };
    if above == 0 {
        return LOCATES[0].1;
    }
    let ((low, low_cost), (high, high_cost)) = (LOCATES[above - 1], LOCATES[above]);
    low_cost + (high_cost - low_cost) * (files - low) / (high - low)
}

/// The last observations of one kind.
#[derive(Clone, PartialEq, Default, Debug)]
struct Seen(VecDeque<f64>);

impl Seen {
    fn push(&mut self, value: f64) {
        if self.0.len() == SEEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().filter(|_| sorted.len() >= SEEN_LEAST)
    }
}

/// What comes for a class, mostly in the last hours.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Inflow {
    last: Timestamp,
    seconds: f64,
    files: f64,
    bytes: f64,
}

/// What came so many seconds ago counts half.
const INFLOW_HALF: f64 = 6.0 * 3_600.0;
/// Below so many seconds of watching nothing is said.
const INFLOW_LEAST: f64 = 900.0;

impl Inflow {
    pub(crate) fn new(now: Timestamp) -> Self {
        Inflow { last: now, seconds: 0.0, files: 0.0, bytes: 0.0 }
    }

    pub(crate) fn add(&mut self, now: Timestamp, files: f64, bytes: f64) {
        let more = now.since(self.last).as_secs_f64();
        let fades = 1.0 / (1.0 + more / INFLOW_HALF);
        self.last = now.max(self.last);
        self.seconds = self.seconds * fades + more;
        self.files = self.files * fades + files;
        self.bytes = self.bytes * fades + bytes;
    }

    /// Files and bytes a second.
    pub(crate) fn rates(&self, now: Timestamp) -> (f64, f64) {
        let mut then = self.clone();
        then.add(now, 0.0, 0.0);
        match then.seconds < INFLOW_LEAST {
            true => (0.0, 0.0),
            false => (then.files / then.seconds, then.bytes / then.seconds),
        }
    }
}

/// One session of reading: the nominal times of its locates and its bytes over the time it took.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ReadSeen {
    locates: f64,
    bytes: f64,
}

/// A nominal pace and what was seen since.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Learned {
    nominal: Pace,
    mount: Seen,
    unmount: Seen,
    write: Seen,
    seal: Seen,
    maintenance: Seen,
    reads: VecDeque<ReadSeen>,
}

impl Learned {
    pub(crate) fn new(nominal: Pace) -> Self {
        Learned {
            nominal,
            mount: Seen::default(),
            unmount: Seen::default(),
            write: Seen::default(),
            seal: Seen::default(),
            maintenance: Seen::default(),
            reads: VecDeque::new(),
        }
    }

    pub(crate) fn mounted(&mut self, took: Duration) {
        self.mount.push(took.as_secs_f64());
    }

    pub(crate) fn unmounted(&mut self, took: Duration) {
        self.unmount.push(took.as_secs_f64());
    }

    pub(crate) fn maintained(&mut self, took: Duration) {
        self.maintenance.push(took.as_secs_f64());
    }

    pub(crate) fn wrote(&mut self, bytes: ByteCount, took: Duration) {
        self.write.push(rate(bytes, took));
    }

    pub(crate) fn sealed(&mut self, bytes: ByteCount, took: Duration) {
        self.seal.push(rate(bytes, took));
    }

    /// A reading session ended after so many files and bytes, on a tape with `written` bytes.
    pub(crate) fn read(&mut self, files: u64, bytes: ByteCount, written: ByteCount, took: Duration) {
        let took = took.as_secs_f64().max(1e-3);
        let locates = self.nominal.begin + self.nominal.locates_within(files, bytes, written);
        let locates = locates.as_secs_f64();
        let bytes = transfer(bytes, self.nominal.read_rate).as_secs_f64();
        if self.reads.len() == SEEN_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back(ReadSeen { locates: locates / took, bytes: bytes / took });
    }

    /// What is to be expected from now on.
    pub(crate) fn pace(&self) -> Pace {
        let nominal = &self.nominal;
        let or = |seen: &Seen, nominal: Duration| seen.median().map_or(nominal, seconds);
        let rate = |seen: &Seen, nominal: u64| seen.median().map_or(nominal, |rate| rate.max(1.0) as u64);
        let (locates, bytes) = self.read_factors();
        Pace {
            mount: or(&self.mount, nominal.mount),
            unmount: or(&self.unmount, nominal.unmount),
            begin: seconds(nominal.begin.as_secs_f64() * locates),
            locate: nominal.locate * locates,
            read_rate: (nominal.read_rate as f64 / bytes).clamp(1.0, 1e15) as u64,
            write_rate: rate(&self.write, nominal.write_rate),
            seal_rate: rate(&self.seal, nominal.seal_rate),
            maintenance: or(&self.maintenance, nominal.maintenance),
            tape_pools: nominal.tape_pools.clone(),
        }
    }

    /// The factors on locates and on transfer that fit the sessions seen best: least squares of the relative
    /// errors, drawn to 1 as long as little was seen.
    fn read_factors(&self) -> (f64, f64) {
        const PULL: f64 = 0.5;
        let (mut ll, mut lb, mut bb, mut l, mut b) = (PULL, 0.0, PULL, PULL, PULL);
        for seen in &self.reads {
            ll += seen.locates * seen.locates;
            lb += seen.locates * seen.bytes;
            bb += seen.bytes * seen.bytes;
            l += seen.locates;
            b += seen.bytes;
        }
        let determinant = ll * bb - lb * lb;
        let (locates, bytes) = ((l * bb - b * lb) / determinant, (b * ll - l * lb) / determinant);
        // A factor cannot be negative: then the other one explains everything.
        let (locates, bytes) = match (locates > 0.0, bytes > 0.0) {
            (true, true) => (locates, bytes),
            (false, _) => (0.0, b / bb),
            (true, false) => (l / ll, 0.0),
        };
        (locates.clamp(1e-6, 1e6), bytes.clamp(1e-6, 1e6))
    }
}

fn rate(bytes: ByteCount, took: Duration) -> f64 {
    bytes.0 as f64 / took.as_secs_f64().max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn a_mean_locate_falls_with_the_number_of_files() {
        let costs: Vec<f64> = [1.0, 8.0, 20.0, 100.0, 1e3, 1e4, 1e6].map(mean_locate).to_vec();
        assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
    }

    /// 18 s were foretold where 1.2 s were waited, of small files of a small tape at a hundred times the
    /// speed: each was charged a locate of its own, and all of them took longer than all of the tape does.
    #[test]
    fn locates_take_no_longer_than_reading_the_tape_through() {
        let pace = Pace { locate: 0.01, read_rate: 34_000_000_000, ..Pace::default() };
        let (wanted, tape) = (ByteCount(GB / 10), ByteCount(2 * GB));
        let bounded = pace.reading(150, wanted, tape) - pace.begin;
        assert!(pace.locates(150) > Duration::from_secs(20));
        assert!(bounded < Duration::from_millis(600), "{bounded:?}: a locate of 0.45 s and 2 GB");
        // On a full tape nothing changes, nor where it is not known how full it is.
        for written in [ByteCount(12_000 * GB), ByteCount(0)] {
            assert_eq!(pace.locates_within(5, wanted, written), pace.locates(5));
        }
        assert_eq!(pace.locates_within(0, ByteCount(0), tape), Duration::ZERO);
    }

    #[test]
    fn what_was_seen_takes_the_place_of_what_was_said() {
        let mut learned = Learned::new(Pace::default());
        assert_eq!(learned.pace(), Pace::default(), "nothing seen, nothing changed");
        for round in 0..20 {
            learned.mounted(Duration::from_secs(100 + round % 3));
            // A library of disks: hardly any locate, and twice the rate.
            let files = 10 + 13 * (round % 5);
            let bytes = ByteCount(files * (1 + round % 4) * GB);
            learned.read(files, bytes, ByteCount(0), seconds(bytes.0 as f64 / 680e6));
        }
        let pace = learned.pace();
        assert_eq!(pace.mount, Duration::from_secs(101));
        let took = pace.reading(40, ByteCount(80 * GB), ByteCount(0)).as_secs_f64();
        assert!((took / (80e9 / 680e6) - 1.0).abs() < 0.1, "{took} s");
    }
}
