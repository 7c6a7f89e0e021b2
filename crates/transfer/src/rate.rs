//! The lowest rate that a client must keep.

use base::{ByteCount, Duration};

use crate::places::Pace;

/// The lowest rate that a client must keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowestRate {
    /// Bytes that a client has to send or take within ...
    pub bytes: ByteCount,
    /// ... so much time in which a door waits for it: as many times as its caller holds transfers, while few
    /// places for transfers are free ([`Pace`]).
    pub window: Duration,
}

/// Counts the time that the door waited for a client against the bytes that came of it. Time in which the
/// engine keeps the client waiting does not count.
#[derive(Clone)]
pub struct RateWindow {
    window: Duration,
    bytes_min: u64,
    /// How many times `bytes_min` is due.
    pace: Pace,
    waited: Duration,
    bytes: u64,
}

impl RateWindow {
    /// At least the bytes of `rate`, times the factor of `pace`, are due in each window of waiting.
    #[must_use]
    pub fn new(rate: LowestRate, pace: Pace) -> Self {
        let LowestRate { bytes, window } = rate;
        RateWindow { window, bytes_min: bytes.0, pace, waited: Duration::ZERO, bytes: 0 }
    }

    /// For how long a door may go on waiting before it has to look at the rate again.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.window.saturating_sub(self.waited)
    }

    /// Notes a wait and the bytes that ended it (0: it ended without any). Returns `false` if the client is
    /// too slow.
    #[must_use]
    pub fn note(&mut self, waited: Duration, bytes: u64) -> bool {
        self.waited = self.waited.saturating_add(waited);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < self.window {
            return true;
        }
        let kept = self.bytes >= self.bytes_min.saturating_mul(self.pace.factor());
        self.waited = Duration::ZERO;
        self.bytes = 0;
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use crate::places::{Holder, Places};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lowest(window: Duration) -> LowestRate {
        LowestRate { bytes: ByteCount(100), window }
    }

    #[test]
    fn the_rate_counts_only_time_that_was_waited() {
        let mut rate = RateWindow::new(lowest(10 * SECOND), Pace::default());
        // Bytes without waiting never end a window.
        for _ in 0..1000 {
            assert!(rate.note(Duration::ZERO, 1));
        }
        assert!(rate.note(10 * SECOND, 0), "1000 bytes in this window");
        assert!(rate.note(9 * SECOND, 99));
        assert_eq!(rate.remaining(), SECOND);
        assert!(!rate.note(SECOND, 0), "99 bytes in 10 s");
    }

    #[test]
    fn the_limit_itself_is_enough() {
        let mut rate = RateWindow::new(lowest(SECOND), Pace::default());
        assert!(rate.note(SECOND, 100));
        assert!(!rate.note(SECOND, 99));
    }

    #[test]
    fn what_is_due_rises_with_the_places_of_the_caller() {
        let places = Places::new(4);
        let holder = Holder { caller: "anna".to_owned(), ..Holder::default() };
        let take = |holder: &Holder| {
            let mut admission = pin!(places.admit(holder));
            match admission.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(place) => place,
                Poll::Pending => panic!("there is a place"),
            }
        };
        let mut rate = RateWindow::new(lowest(SECOND), holder.pace.clone());
        let _held = [take(&holder), take(&holder)];
        assert!(rate.note(SECOND, 100), "two of four are free");
        let _others = [
            take(&Holder { caller: "bert".to_owned(), ..Holder::default() }),
            take(&Holder { caller: "carl".to_owned(), ..Holder::default() }),
        ];
        assert!(rate.note(SECOND, 200));
        assert!(!rate.note(SECOND, 199));
    }
}
