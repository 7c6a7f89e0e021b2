//! A clock that does not follow the jumps of the system's.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Clock, Duration, Timestamp};

/// Differences up to this size are the ordinary work of NTP and are followed.
const FOLLOWED_MAX: Duration = Duration::from_secs(10);

/// Follows another clock as long as that one runs evenly; when it jumps, goes on evenly by itself. It never
/// goes back, not even behind a time that somebody has seen before.
///
/// So ages, rests and pins stay what they were when somebody sets the system's clock by an hour or ten years.
pub struct SteadyClock {
    source: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// Time shown at `steady`.
    time: Timestamp,
    steady: Duration,
    /// By how much the source is ahead (or, negative, behind) in nanoseconds since it jumped.
    jumped: Option<i64>,
}

impl SteadyClock {
    /// A clock that begins with the time of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn Clock>) -> Self {
        let state = State { time: source.now(), steady: source.steady(), jumped: None };
        SteadyClock { source, state: Mutex::new(state) }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, steady) = (self.source.now(), self.source.steady());
        let even = state.time.plus(steady.saturating_sub(state.steady));
        let ahead = wall.0.saturating_sub(even.0);
        let follows = u128::from(ahead.unsigned_abs()) <= FOLLOWED_MAX.as_nanos();
        let time = if follows { wall.max(state.time) } else { even };
        *state = State { time, steady, jumped: (!follows).then_some(ahead) };
        time
    }

    fn steady(&self) -> Duration {
        self.source.steady()
    }

    fn not_before(&self, seen: Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.time = state.time.max(seen);
    }

    fn jumped(&self) -> Option<i64> {
        self.now();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).jumped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[derive(Default)]
    struct Source {
        wall: AtomicI64,
        steady: AtomicI64,
    }

    impl Source {
        fn run(&self, seconds: i64) {
            self.wall.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
            self.steady.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
        }

        fn set(&self, seconds: i64) {
            self.wall.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
        }
    }

    impl Clock for Source {
        fn now(&self) -> Timestamp {
            Timestamp(self.wall.load(Ordering::SeqCst))
        }

        fn steady(&self) -> Duration {
            Duration::from_nanos(self.steady.load(Ordering::SeqCst).unsigned_abs())
        }
    }

    fn seconds(clock: &SteadyClock) -> i64 {
        clock.now().0 / 1_000_000_000
    }

    const TEN_YEARS: i64 = 10 * 365 * 86_400;

    #[test]
    fn jumps_are_not_followed_and_small_steps_are() {
        for jump in [3_600, -3_600, TEN_YEARS, -TEN_YEARS] {
            let source = Arc::new(Source::default());
            source.run(1_000);
            let clock = SteadyClock::new(Arc::clone(&source) as Arc<dyn Clock>);
            source.set(jump);
            source.run(100);
            assert_eq!(seconds(&clock), 1_100, "after a jump of {jump} s");
            assert_eq!(clock.jumped(), Some(jump * 1_000_000_000));
            source.set(5 - jump);
            assert_eq!(seconds(&clock), 1_105, "back again, five seconds of NTP are followed");
            assert_eq!(clock.jumped(), None);
        }
    }

    #[test]
    fn it_never_goes_back() {
        let source = Arc::new(Source::default());
        source.run(1_000);
        let clock = SteadyClock::new(Arc::clone(&source) as Arc<dyn Clock>);
        clock.not_before(Timestamp(5_000 * 1_000_000_000));
        source.run(10);
        assert_eq!(seconds(&clock), 5_010, "it goes on from the newest time that was seen");
        source.set(3_992);
        assert_eq!(seconds(&clock), 5_010);
        source.run(20);
        assert_eq!(seconds(&clock), 5_022, "the source has come close and is followed");
    }
}
