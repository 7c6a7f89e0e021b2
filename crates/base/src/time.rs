//! Points in time and spans, and the clock as an argument.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::TrustedClock;

/// Nanoseconds since 1970-01-01 UTC, leap seconds not counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

pub use std::time::Duration;

impl Timestamp {
    /// Which times there are, in words: what 64 bits of nanoseconds reach.
    pub const RANGE: &str = "times are kept from 1677-09-21 to 2262-04-11";

    /// The span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This time plus a span; saturates.
    #[must_use]
    pub fn plus(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// This time less a span; saturates.
    #[must_use]
    pub fn minus(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// `(year, month, day, hour, minute, second, nanosecond)` in UTC, Gregorian calendar.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "parts of a day, a month or a year")]
    pub fn civil(self) -> (i64, u32, u32, u32, u32, u32, u32) {
        let seconds = self.0.div_euclid(1_000_000_000);
        let nanos = self.0.rem_euclid(1_000_000_000) as u32;
        let of_day = seconds.rem_euclid(86_400) as u32;
        // Days to civil date by the era method of 400 years, 146,097 days each, years starting in March.
        let days = seconds.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60, nanos)
    }

    /// The time of a civil date in UTC: every date that [`Timestamp::civil`] gives comes back. `None` if
    /// there is no such date or time of day, or if it is not between 1677-09-21T00:12:43.145224192Z and
    /// 2262-04-11T23:47:16.854775807Z, which is what 64 bits of nanoseconds reach.
    #[must_use]
    pub fn from_civil(
        year: i64,
        month: u32,
        day: u32,
        hour: u32,
        minute: u32,
        second: u32,
        nanos: u32,
    ) -> Option<Self> {
        let is_date = (1677..=2262).contains(&year) && (1..=days_of_month(year, month)).contains(&day);
        if !is_date || hour >= 24 || minute >= 60 || second >= 60 || nanos >= 1_000_000_000 {
            return None;
        }
        let year = if month <= 2 { year - 1 } else { year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
        let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let seconds = days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        // The first second that can be represented is not whole, so its beginning alone does not fit 64 bits.
        let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        i64::try_from(total).ok().map(Timestamp)
    }
}

/// The days of a month from 1 to 12 of the Gregorian calendar; 0 if there is no such month.
fn days_of_month(year: i64, month: u32) -> u32 {
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

impl fmt::Display for Timestamp {
    /// `2026-11-21T20:29:00Z`, whole seconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, hour, minute, second, _) = self.civil();
        f.pad(&format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({} ns)", self.0)
    }
}

/// What is watched for standing still is looked at about once a second, at most every some seconds. When
/// nobody looked for longer than this, the program or the whole machine stood still, and nothing is to blame
/// for it.
pub const LOOK_LATE_MAX: Duration = Duration::from_secs(10);

/// How much of the time between two looks, by the steady clock, does not count, since everything stood still:
/// a virtual machine was moved, or a program stopped.
#[must_use]
pub fn stood_still(before: Duration, now: Duration) -> Option<Duration> {
    now.saturating_sub(before).checked_sub(LOOK_LATE_MAX).filter(|lost| !lost.is_zero())
}

/// The time as an argument: the daemon gives the system's, tests and the twin give their own.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Timestamp;

    /// The span since some fixed moment, by a clock that nobody sets; it runs on while the machine sleeps.
    fn steady(&self) -> Duration {
        self.now().since(Timestamp(0))
    }

    /// Whether a time server disciplines this clock, as far as is known.
    fn synchronised(&self) -> bool {
        false
    }

    /// The trusted time, if this clock keeps one. One that keeps none is believed as it is.
    fn trusted(&self) -> Option<&TrustedClock> {
        None
    }
}

/// A clock that stands until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicI64,
    /// By how much `now` was set since the beginning, which the steady clock knows nothing of.
    set_by: AtomicI64,
    synchronised: AtomicBool,
}

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        ManualClock { now: AtomicI64::new(now.0), ..ManualClock::default() }
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        let nanos = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.now.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Sets the clock, as somebody sets the system's: no time passes.
    pub fn set(&self, now: Timestamp) {
        let before = self.now.swap(now.0, Ordering::SeqCst);
        self.set_by.fetch_add(now.0.saturating_sub(before), Ordering::SeqCst);
    }

    /// Lets a time server discipline the clock, or not.
    pub fn set_synchronised(&self, synchronised: bool) {
        self.synchronised.store(synchronised, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        self.now().since(Timestamp(self.set_by.load(Ordering::SeqCst)))
    }

    fn synchronised(&self) -> bool {
        self.synchronised.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_exceeds_the_time_between_two_looks_is_lost() {
        let seconds = Duration::from_secs;
        for (before, now, lost) in
            [(5, 5, None), (5, 15, None), (5, 16, Some(1)), (5, 3_615, Some(3_600)), (9, 5, None)]
        {
            assert_eq!(stood_still(seconds(before), seconds(now)), lost.map(seconds));
        }
    }

    #[test]
    fn known_dates() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (1_795_292_940_000_000_000, "2026-11-21T20:29:00Z"),
            (-1_000_000_000, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp(nanos).to_string(), text);
        }
    }

    /// Fuzzing found times of 2262 that were written and not read again, and the calendar took the end of
    /// what can be represented for all times beyond it.
    #[test]
    fn the_first_and_the_last_time_come_back_and_what_is_beyond_is_refused() {
        for nanos in [i64::MIN, i64::MIN + 1, -9_223_372_036_000_000_000, -1, 0, i64::MAX - 1, i64::MAX] {
            let (y, mo, d, h, mi, s, n) = Timestamp(nanos).civil();
            assert_eq!(Timestamp::from_civil(y, mo, d, h, mi, s, n), Some(Timestamp(nanos)));
        }
        assert_eq!(Timestamp::from_civil(2262, 4, 11, 23, 47, 16, 854_775_808), None);
        assert_eq!(Timestamp::from_civil(1677, 9, 21, 0, 12, 43, 145_224_191), None);
        assert_eq!(Timestamp::from_civil(i64::MAX, 1, 1, 0, 0, 0, 0), None);
        assert_eq!(Timestamp::from_civil(i64::MIN, 1, 1, 0, 0, 0, 0), None);
    }

    #[test]
    fn what_is_no_date_is_refused() {
        let date = |year, month, day| Timestamp::from_civil(year, month, day, 0, 0, 0, 0);
        for (year, month, day) in [(2000, 2, 29), (2024, 2, 29), (2026, 4, 30), (2026, 12, 31)] {
            assert!(date(year, month, day).is_some());
            assert_eq!(date(year, month, day + 1), None);
        }
        assert_eq!((date(1900, 2, 29), date(2026, 2, 29)), (None, None));
        assert_eq!((date(2026, 0, 1), date(2026, 13, 1), date(2026, 1, 0)), (None, None, None));
        let clock =
            |hour, minute, second, nanos| Timestamp::from_civil(2026, 1, 1, hour, minute, second, nanos);
        assert!(clock(23, 59, 59, 999_999_999).is_some());
        for past in
            [clock(24, 0, 0, 0), clock(0, 60, 0, 0), clock(0, 0, 60, 0), clock(0, 0, 0, 1_000_000_000)]
        {
            assert_eq!(past, None);
        }
    }

    proptest! {
        #[test]
        fn civil_round_trips(nanos in any::<i64>()) {
            let (y, mo, d, h, mi, s, n) = Timestamp(nanos).civil();
            prop_assert!((1..=12).contains(&mo) && (1..=31).contains(&d) && h < 24 && mi < 60 && s < 60);
            prop_assert_eq!(Timestamp::from_civil(y, mo, d, h, mi, s, n), Some(Timestamp(nanos)));
        }
    }
}
