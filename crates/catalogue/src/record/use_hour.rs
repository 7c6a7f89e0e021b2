//! When a file in the pool was used last.

use base::Timestamp;

/// An hour since 1970 in which a file was used: put, brought back from tape, or read. No finer: a file that
/// is read again and again is noted once an hour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UseHour(pub u32);

impl UseHour {
    const NANOSECONDS: i64 = 3_600_000_000_000;

    /// The hour of a time; times before 1970 are in the first one.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        UseHour(u32::try_from(at.0 / Self::NANOSECONDS).unwrap_or(0))
    }

    /// When it began.
    #[must_use]
    pub fn begin(self) -> Timestamp {
        Timestamp(i64::from(self.0).saturating_mul(Self::NANOSECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_those_of_their_times() {
        assert_eq!(UseHour::of(Timestamp(-1)), UseHour(0));
        assert_eq!(UseHour::of(Timestamp(i64::MIN)), UseHour(0));
        assert_eq!(UseHour::of(Timestamp(3_599_999_999_999)), UseHour(0));
        assert_eq!(UseHour::of(Timestamp(3_600_000_000_000)), UseHour(1));
        for at in [0, 1_795_292_940_000_000_000, i64::MAX] {
            let hour = UseHour::of(Timestamp(at));
            assert!(hour.begin().0 <= at && UseHour::of(hour.begin()) == hour);
        }
    }
}
