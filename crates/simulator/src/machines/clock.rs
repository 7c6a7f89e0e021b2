//! The clock that the engine sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base::{Clock, Duration, Timestamp};

/// Virtual time plus an offset. Clones are one clock.
#[derive(Clone)]
pub struct SimClock(Arc<Inner>);

struct Inner {
    offset: AtomicI64,
    elapsed: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl SimClock {
    /// A clock that shows `start` when `elapsed`, the virtual nanoseconds so far, is 0.
    #[must_use]
    pub fn new(start: Timestamp, elapsed: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        SimClock(Arc::new(Inner { offset: AtomicI64::new(start.0), elapsed: Box::new(elapsed) }))
    }

    /// Lets the clock jump by so many nanoseconds, forward or back.
    pub fn jump(&self, nanos: i64) {
        self.0.offset.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from((self.0.elapsed)()).unwrap_or(i64::MAX);
        Timestamp(self.0.offset.load(Ordering::SeqCst).saturating_add(elapsed))
    }

    fn steady(&self) -> Duration {
        Duration::from_nanos((self.0.elapsed)())
    }
}
