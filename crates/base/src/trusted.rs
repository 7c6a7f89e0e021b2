//! The time that destructive decisions go by: it runs on while the server runs, and does not believe every
//! jump of the system's clock.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Clock, Duration, Timestamp};

/// Differences up to this size are the ordinary work of NTP and are followed, up to this much in an hour:
/// many small steps are not a way to another year.
const FOLLOWED_MAX: Duration = Duration::from_secs(10);
/// A system's clock that is ahead by more puts the time in doubt: what is to be kept for a while from now on
/// would be kept too short by as much, should that clock be right.
pub const TIME_DOUBTED_AHEAD: Duration = Duration::from_secs(3_600);
/// The same for a clock that is behind. Less is harmless, since things are kept longer, and happens where a
/// machine starts with its clock in local time.
pub const TIME_DOUBTED_BEHIND: Duration = Duration::from_secs(86_400);
/// A start believes a clock that is so much ahead of the last known time: the server may have been off for as
/// long, over a weekend and some days of a repair. What is retained is never freed earlier than by this.
pub const RESTART_BELIEVED_MAX: Duration = Duration::from_secs(7 * 86_400);
/// A clock that the kernel says is synchronised is believed if it is so much ahead: a machine may have been
/// off for a year. Beyond that time servers have been wrong as well (GPS receivers by 1,024 weeks).
pub const SYNCHRONISED_BELIEVED_MAX: Duration = Duration::from_secs(400 * 86_400);

/// The steady clock runs so long for each second of it that the time may be followed ahead.
const FOLLOWED_EACH: u32 = 360;

/// What the clocks of a machine show at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The system's clock.
    pub system: Timestamp,
    /// The clock that nobody sets.
    pub steady: Duration,
    /// Whether the kernel says that a time server disciplines the system's clock.
    pub synchronised: bool,
}

/// How the two clocks stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeStanding {
    /// The trusted time.
    pub trusted: Timestamp,
    /// What the system's clock shows.
    pub system: Timestamp,
    /// Whether the kernel says that a time server disciplines the system's clock.
    pub synchronised: bool,
}

impl TimeStanding {
    /// By how many nanoseconds the system's clock is ahead; negative: behind.
    #[must_use]
    pub fn ahead(&self) -> i64 {
        self.system.0.saturating_sub(self.trusted.0)
    }

    /// Whether the trusted time does not follow the system's clock.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        exceeds(self.ahead(), FOLLOWED_MAX)
    }

    /// Whether the difference is so large that the time is in doubt.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        let limit = if self.ahead() > 0 { TIME_DOUBTED_AHEAD } else { TIME_DOUBTED_BEHIND };
        exceeds(self.ahead(), limit)
    }

    /// The time to which the trusted one may leap by itself. It is the system's, if that is ahead no further
    /// than is plausible: when a time server has set it, or at a start (`at_start` is how much of
    /// [`RESTART_BELIEVED_MAX`] earlier starts have used up).
    #[must_use]
    pub fn leap(&self, at_start: Option<Duration>) -> Option<Timestamp> {
        let believed = match (self.synchronised, at_start) {
            (true, _) => SYNCHRONISED_BELIEVED_MAX,
            (false, Some(spent)) => RESTART_BELIEVED_MAX.saturating_sub(spent),
            (false, None) => return None,
        };
        let is_believed = self.ahead() > 0 && !exceeds(self.ahead(), believed);
        // A start counts small steps too: what is followed in them is given anew at each start.
        let is_leap = self.is_apart() || at_start.is_some();
        (is_believed && is_leap).then_some(self.system)
    }
}

fn exceeds(nanos: i64, span: Duration) -> bool {
    u128::from(nanos.unsigned_abs()) > span.as_nanos()
}

/// The trusted time, as a value: readings come in, times come out. Between leaps that its owner asks for it
/// advances as far as the steady clock does, and follows the system's clock while that one runs evenly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrustedTime {
    time: Timestamp,
    /// What the steady clock showed at `time`.
    steady: Duration,
    /// By so much more it may follow the system's clock ahead.
    slack: Duration,
}

impl TrustedTime {
    /// The time is `time` now.
    #[must_use]
    pub fn at(time: Timestamp, reading: ClockReading) -> Self {
        TrustedTime { time, steady: reading.steady, slack: FOLLOWED_MAX }
    }

    /// Goes on to a reading. It never goes back.
    pub fn advance(&mut self, reading: ClockReading) -> Timestamp {
        let run = reading.steady.saturating_sub(self.steady);
        let even = self.time.plus(run);
        let mut slack = self.slack.saturating_add(run / FOLLOWED_EACH).min(FOLLOWED_MAX);
        let ahead = reading.system.0.saturating_sub(even.0);
        let time = if ahead <= 0 && !exceeds(ahead, FOLLOWED_MAX) {
            reading.system.max(self.time)
        } else if ahead > 0 && !exceeds(ahead, slack) {
            slack = slack.saturating_sub(reading.system.since(even));
            reading.system
        } else {
            even
        };
        *self = TrustedTime { time, steady: self.steady.max(reading.steady), slack };
        time
    }
}

/// A clock that shows the trusted time over another one, the system's.
///
/// So ages, rests and pins stay what they were when somebody sets the system's clock by an hour or ten years,
/// and a start in the wrong year ends no retention.
pub struct TrustedClock {
    source: Arc<dyn Clock>,
    time: Mutex<TrustedTime>,
}

impl TrustedClock {
    /// A clock that begins with the time of `source`, until [`TrustedClock::begin`] knows better.
    #[must_use]
    pub fn new(source: Arc<dyn Clock>) -> Self {
        let reading = read(source.as_ref());
        let time = TrustedTime::at(reading.system, reading);
        TrustedClock { source, time: Mutex::new(time) }
    }

    /// Goes on from the last known time, whatever the system's clock says.
    pub fn begin(&self, last: Timestamp) {
        let reading = read(self.source.as_ref());
        // No slack: how far a start goes ahead is counted.
        *self.lock() = TrustedTime { slack: Duration::ZERO, ..TrustedTime::at(last, reading) };
    }

    /// Leaps ahead to a time that is known to be right; never back.
    pub fn leap(&self, to: Timestamp) {
        let mut time = self.lock();
        let reading = read(self.source.as_ref());
        let now = time.advance(reading);
        *time = TrustedTime { slack: time.slack, ..TrustedTime::at(now.max(to), reading) };
    }

    /// Both clocks, at one moment.
    #[must_use]
    pub fn standing(&self) -> TimeStanding {
        let mut time = self.lock();
        let reading = read(self.source.as_ref());
        let trusted = time.advance(reading);
        TimeStanding { trusted, system: reading.system, synchronised: reading.synchronised }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TrustedTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(clock: &dyn Clock) -> ClockReading {
    ClockReading { system: clock.now(), steady: clock.steady(), synchronised: clock.synchronised() }
}

impl Clock for TrustedClock {
    fn now(&self) -> Timestamp {
        let mut time = self.lock();
        // Asked for with every command: whether a time server is at work is not looked at.
        let (system, steady) = (self.source.now(), self.source.steady());
        time.advance(ClockReading { system, steady, synchronised: false })
    }

    fn steady(&self) -> Duration {
        self.source.steady()
    }

    fn synchronised(&self) -> bool {
        self.source.synchronised()
    }

    fn trusted(&self) -> Option<&TrustedClock> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    const DAY: i64 = 86_400;
    const TEN_YEARS: i64 = 10 * 365 * DAY;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000_000)
    }

    fn clocks(seconds: i64) -> (Arc<ManualClock>, TrustedClock) {
        let source = Arc::new(ManualClock::new(at(seconds)));
        let clock = TrustedClock::new(Arc::clone(&source) as Arc<dyn Clock>);
        (source, clock)
    }

    fn run(source: &ManualClock, seconds: u64) {
        source.advance(Duration::from_secs(seconds));
    }

    fn seconds(clock: &TrustedClock) -> i64 {
        clock.now().0 / 1_000_000_000
    }

    #[test]
    fn jumps_are_not_followed_and_small_steps_are() {
        for (jump, is_doubted) in
            [(3_601, true), (-3_601, false), (11, false), (TEN_YEARS, true), (-TEN_YEARS, true)]
        {
            let (source, clock) = clocks(1_000);
            source.set(at(1_000 + jump));
            run(&source, 100);
            assert_eq!(seconds(&clock), 1_100, "after a jump of {jump} s");
            let standing = clock.standing();
            assert_eq!(standing.ahead(), jump * 1_000_000_000);
            assert_eq!((standing.is_apart(), standing.is_doubted()), (true, is_doubted), "{jump} s");
            assert_eq!(standing.leap(None), None, "nobody vouches for it");
            source.set(at(1_105));
            assert_eq!(seconds(&clock), 1_105, "back again, five seconds of NTP are followed");
            assert!(!clock.standing().is_apart());
        }
    }

    #[test]
    fn it_never_goes_back() {
        let (source, clock) = clocks(1_000);
        clock.begin(at(5_000));
        run(&source, 10);
        assert_eq!(seconds(&clock), 5_010, "it goes on from the last known time");
        source.set(at(5_002));
        assert_eq!(seconds(&clock), 5_010);
        run(&source, 20);
        assert_eq!(seconds(&clock), 5_022, "the system's clock has come close and is followed");
    }

    /// One start with the clock ten years ahead kept the time of the catalogue in 2036 for good.
    #[test]
    fn a_start_ten_years_ahead_goes_on_from_the_last_known_time() {
        for synchronised in [false, true] {
            let (source, clock) = clocks(1_000 + TEN_YEARS);
            source.set_synchronised(synchronised);
            clock.begin(at(1_000));
            run(&source, 50);
            assert_eq!(
                clock.standing().leap(Some(Duration::ZERO)),
                None,
                "not even a time server is believed so much"
            );
            assert_eq!(seconds(&clock), 1_050);
            source.set(at(1_060));
            assert_eq!(seconds(&clock), 1_050, "no start gives so much for nothing");
            run(&source, 3_600);
            assert_eq!(seconds(&clock), 4_660, "once the clock is right it is followed, little by little");
        }
    }

    #[test]
    fn a_start_believes_a_week_and_a_time_server_a_year() {
        let leap = |off: i64, synchronised: bool, at_start: bool| {
            let (source, clock) = clocks(1_000 + off);
            source.set_synchronised(synchronised);
            clock.begin(at(1_000));
            let leap = clock.standing().leap(at_start.then_some(Duration::ZERO));
            leap.inspect(|to| assert_eq!(*to, at(1_000 + off))).is_some()
        };
        assert!(leap(7 * DAY, false, true) && !leap(7 * DAY + 1, false, true));
        assert!(leap(400 * DAY, true, true) && !leap(400 * DAY + 1, true, true));
        assert!(leap(400 * DAY, true, false) && !leap(11, false, false), "nothing explains a jump of a run");
        assert!(!leap(5, true, false), "so little is followed without a leap");
        assert!(leap(5, false, true), "a start counts small steps too");
        assert!(!leap(-7_200, true, true), "nobody makes it go back");
    }

    #[test]
    fn a_leap_that_is_vouched_for_goes_ahead_only() {
        let (source, clock) = clocks(1_000 + TEN_YEARS);
        clock.begin(at(1_000));
        clock.leap(at(1_000 + TEN_YEARS));
        run(&source, 1);
        assert_eq!(seconds(&clock), 1_001 + TEN_YEARS);
        clock.leap(at(5));
        assert_eq!(seconds(&clock), 1_001 + TEN_YEARS);
        assert!(!clock.standing().is_apart());
    }

    #[test]
    fn many_small_steps_are_no_way_to_another_year() {
        let (source, clock) = clocks(1_000);
        // Nine seconds ahead in each second, for a day.
        for _ in 0..86_400 {
            run(&source, 1);
            source.set(source.now().plus(Duration::from_secs(9)));
            clock.now();
        }
        let gained = clock.now().since(at(1_000 + DAY));
        assert!(gained <= Duration::from_secs(10 + 240), "{gained:?}");
    }

    #[test]
    fn what_earlier_starts_believed_is_not_believed_again() {
        let (source, clock) = clocks(1_000);
        source.set(at(1_000 + 5 * DAY));
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        assert_eq!(clock.standing().leap(days(2)), Some(at(1_000 + 5 * DAY)));
        assert_eq!(clock.standing().leap(days(3)), None);
        assert_eq!(clock.standing().leap(days(30)), None);
    }
}
