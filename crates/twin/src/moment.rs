//! Virtual time.

use base::{Duration, Timestamp};

/// Microseconds since the beginning of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Moment(pub u64);

impl Moment {
    /// The beginning of a run as the scheduler sees it: 2020-01-01 UTC.
    pub const EPOCH: Timestamp = Timestamp(1_577_836_800_000_000_000);

    /// The same moment as the scheduler sees it.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        Moment::EPOCH.plus(Duration::from_micros(self.0))
    }

    /// The moment of a timestamp; one before the beginning is the beginning. Rounded up to microseconds.
    #[must_use]
    pub fn of(timestamp: Timestamp) -> Moment {
        let nanos = timestamp.since(Moment::EPOCH).as_nanos();
        Moment(u64::try_from(nanos.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The time since an earlier moment; nothing if it is later.
    #[must_use]
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// In seconds since the beginning.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}
