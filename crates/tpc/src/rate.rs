//! The lowest rate that another server must keep. Pure.

use base::{ByteCount, Duration};

use crate::error::Error;

/// The lowest rate that another server must keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowestRate {
    /// Bytes that it has to send or take within ...
    pub bytes: ByteCount,
    /// ... so much time in which we wait for it. Time in which our own side keeps it waiting does not count.
    pub window: Duration,
}

/// Counts the time that we waited against the bytes that came of it.
#[derive(Debug)]
pub(crate) struct RateWindow {
    rate: LowestRate,
    waited: Duration,
    bytes: u64,
}

impl RateWindow {
    pub(crate) fn new(rate: LowestRate) -> Self {
        RateWindow { rate, waited: Duration::ZERO, bytes: 0 }
    }

    /// For how long to wait before the rate has to be looked at again.
    pub(crate) fn remaining(&self) -> Duration {
        self.rate.window.saturating_sub(self.waited)
    }

    /// Notes a wait and the bytes that ended it, 0 if none did.
    pub(crate) fn note(&mut self, waited: Duration, bytes: u64) -> Result<(), Error> {
        self.waited = self.waited.saturating_add(waited);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < self.rate.window {
            return Ok(());
        }
        let kept = self.bytes >= self.rate.bytes.0;
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        let LowestRate { bytes, window } = self.rate;
        if kept { Ok(()) } else { Err(Error::Slow { bytes, seconds: window.as_secs() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_that_was_waited_counts() {
        let second = Duration::from_secs(1);
        let mut rate = RateWindow::new(LowestRate { bytes: ByteCount(100), window: 10 * second });
        for _ in 0..1000 {
            assert_eq!(rate.note(Duration::ZERO, 1), Ok(()));
        }
        assert_eq!(rate.note(10 * second, 0), Ok(()), "1000 bytes in this window");
        assert_eq!(rate.note(9 * second, 99), Ok(()));
        assert_eq!(rate.remaining(), second);
        assert_eq!(rate.note(second, 0), Err(Error::Slow { bytes: ByteCount(100), seconds: 10 }));
        assert_eq!(rate.note(10 * second, 100), Ok(()), "the limit itself is enough");
    }
}
