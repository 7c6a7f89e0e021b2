//! A tape drive that reads from disks beside a load, simulated: it takes its rate, never more, and stops when
//! its memory is empty. Pure: the time is given.

use std::time::Duration;

use base::ByteCount;

/// What is read at once, at one place.
pub const RUN: ByteCount = ByteCount(64 << 20);
/// Runs that the drive's memory and the buffer in front of it hold together.
pub const RUNS_HELD: u64 = 2;
/// Rates that a stream can have, in bytes a second: from below the slowest speed of any drive to above the
/// fastest one.
pub const RATE_MIN: u64 = 1_000_000;
/// The highest.
pub const RATE_MAX: u64 = 4_000_000_000;

/// What the drive does. Times count from the beginning of the stream.
#[derive(Clone, Debug)]
pub struct TapeStream {
    /// Bytes a second.
    rate: f64,
    /// Read from disk.
    arrived: f64,
    /// Taken by the drive.
    taken: f64,
    /// Up to when the drive's part is computed.
    now: Duration,
    /// Stopped, at the beginning and whenever its memory ran empty: until a whole run is there.
    is_stopped: bool,
    has_begun: bool,
    fell_behind: u64,
    stopped: Duration,
}

/// How a stream went.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamMeasured {
    /// Bytes that the drive has taken.
    pub bytes: u64,
    /// From the first byte that it took.
    pub span: Duration,
    /// How often it had to stop because nothing was there.
    pub fell_behind: u64,
    /// How long it stood still for it.
    pub stopped: Duration,
}

impl StreamMeasured {
    /// Bytes a second that it kept.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let seconds = self.span.as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

impl TapeStream {
    /// A drive that takes so many bytes a second; `None` if no drive does.
    #[must_use]
    pub fn new(rate: u64) -> Option<TapeStream> {
        (RATE_MIN..=RATE_MAX).contains(&rate).then_some(TapeStream {
            rate: rate as f64,
            arrived: 0.0,
            taken: 0.0,
            now: Duration::ZERO,
            is_stopped: true,
            has_begun: false,
            fell_behind: 0,
            stopped: Duration::ZERO,
        })
    }

    /// How long from now on there is no room for another run; zero: it is to be read now.
    #[must_use]
    pub fn wait(&mut self, now: Duration) -> Duration {
        self.advance(now);
        let room = (RUNS_HELD * RUN.0) as f64 - (self.arrived - self.taken);
        let lacking = RUN.0 as f64 - room;
        if lacking <= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(lacking / self.rate)
    }

    /// Bytes came from the disk.
    pub fn arrive(&mut self, now: Duration, bytes: u64) {
        self.advance(now);
        self.arrived += bytes as f64;
        if self.is_stopped && self.arrived - self.taken >= RUN.0 as f64 {
            self.is_stopped = false;
            self.has_begun = true;
        }
    }

    /// How it went until now; what the drive waited for its first run does not count.
    #[must_use]
    pub fn measured(mut self, now: Duration, begun: Duration) -> StreamMeasured {
        self.advance(now);
        StreamMeasured {
            bytes: self.taken as u64,
            span: now.saturating_sub(begun),
            fell_behind: self.fell_behind,
            stopped: self.stopped,
        }
    }

    /// Whether the drive has taken its first byte.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        if self.is_stopped {
            if self.has_begun {
                self.stopped += passed;
            }
            return;
        }
        let held = self.arrived - self.taken;
        let wanted = passed.as_secs_f64() * self.rate;
        if wanted <= held {
            self.taken += wanted;
            return;
        }
        // It ran empty on the way.
        self.taken = self.arrived;
        self.is_stopped = true;
        self.fell_behind += 1;
        self.stopped += Duration::from_secs_f64((wanted - held) / self.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 400_000_000;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_disk_that_is_fast_enough_keeps_the_drive_going() {
        let mut stream = TapeStream::new(RATE).unwrap();
        let (mut now, mut begun) = (Duration::ZERO, None);
        for _ in 0..100 {
            now += stream.wait(now);
            // A run at 500 MB/s.
            now += seconds(RUN.0 as f64 / 500e6);
            stream.arrive(now, RUN.0);
            begun = begun.or(Some(now));
        }
        let measured = stream.measured(now, begun.unwrap());
        assert_eq!((measured.fell_behind, measured.stopped), (0, Duration::ZERO));
        assert!((measured.rate() / RATE as f64 - 1.0).abs() < 1e-6, "{measured:?}");
    }

    #[test]
    fn a_disk_of_half_the_rate_stops_the_drive_again_and_again() {
        let mut stream = TapeStream::new(RATE).unwrap();
        let (mut now, mut begun) = (Duration::ZERO, None);
        for _ in 0..100 {
            now += stream.wait(now);
            now += seconds(RUN.0 as f64 / 200e6);
            stream.arrive(now, RUN.0);
            begun = begun.or(Some(now));
        }
        let measured = stream.measured(now, begun.unwrap());
        assert!((98..=99).contains(&measured.fell_behind), "{measured:?}");
        assert!((measured.rate() / 200e6 - 1.0).abs() < 0.02, "{measured:?}");
        let still = measured.stopped.as_secs_f64() / measured.span.as_secs_f64();
        assert!((still - 0.5).abs() < 0.02, "{still}");
    }

    #[test]
    fn what_is_held_is_bounded_and_the_wait_ends_when_there_is_room() {
        let mut stream = TapeStream::new(RATE).unwrap();
        stream.arrive(Duration::ZERO, RUN.0);
        assert_eq!(stream.wait(Duration::ZERO), Duration::ZERO);
        stream.arrive(Duration::ZERO, RUN.0);
        let wait = stream.wait(Duration::ZERO);
        assert!((wait.as_secs_f64() - RUN.0 as f64 / RATE as f64).abs() < 1e-6, "{wait:?}");
        assert!(stream.wait(wait + seconds(1e-6)).is_zero());
    }

    #[test]
    fn rates_that_no_drive_has_are_refused() {
        assert!(TapeStream::new(RATE_MIN).is_some() && TapeStream::new(RATE_MAX).is_some());
        assert!(TapeStream::new(RATE_MIN - 1).is_none() && TapeStream::new(RATE_MAX + 1).is_none());
    }
}
