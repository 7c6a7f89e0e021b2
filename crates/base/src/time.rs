//! Points in time and spans, and the clock as an argument.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// Nanoseconds since 1970-01-01 UTC, leap seconds not counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

pub use std::time::Duration;

impl Timestamp {
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

    /// `(year, month, day, hour, minute, second, nanosecond)` in UTC, Gregorian calendar.
    #[must_use]
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

    /// The time of a civil date in UTC. Fields are not range-checked; years from -290 to 2261 are exact.
    #[must_use]
    pub fn from_civil(
        year: i64,
        month: u32,
        day: u32,
        hour: u32,
        minute: u32,
        second: u32,
        nanos: u32,
    ) -> Self {
        let year = if month <= 2 { year - 1 } else { year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
        let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let seconds = days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Timestamp(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
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

/// The time as an argument: the daemon gives the system's, tests and the twin give their own.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Timestamp;

    /// The span since some fixed moment, by a clock that nobody sets; it runs on while the machine sleeps.
    fn steady(&self) -> Duration {
        self.now().since(Timestamp(0))
    }

    /// Tells that this time has been seen before, so that a clock which can help it shows none before it.
    fn not_before(&self, _seen: Timestamp) {}

    /// By how many nanoseconds the clock behind this one has jumped away from it, if it has.
    fn jumped(&self) -> Option<i64> {
        None
    }
}

/// A clock that stands until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        ManualClock(AtomicI64::new(now.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Duration) {
        let nanos = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn civil_round_trips(nanos in any::<i64>()) {
            let (y, mo, d, h, mi, s, n) = Timestamp(nanos).civil();
            prop_assert!((1..=12).contains(&mo) && (1..=31).contains(&d) && h < 24 && mi < 60 && s < 60);
            // The first second of the range saturates on the way back.
            if nanos > i64::MIN + 1_000_000_000 {
                prop_assert_eq!(Timestamp::from_civil(y, mo, d, h, mi, s, n), Timestamp(nanos));
            }
        }
    }
}
