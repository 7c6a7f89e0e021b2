//! What a drive is not asked to do for a while, since it just could not: to encrypt, or to label empty tapes.

use base::Duration;
use session::back_off;

/// The longest time for which no such tape is moved to the drive: an hour, since whoever mends it tells
/// nobody.
const REST_MAX: Duration = Duration::from_secs(3_600);

/// How long, by the steady clock. Each try costs a mount: it comes twice as late each time.
#[derive(Default)]
pub(super) struct Rests {
    until: Option<Duration>,
    times: u32,
}

impl Rests {
    /// It could not.
    pub(super) fn found(&mut self, now: Duration, retry_delay: Duration) {
        self.until = Some(now.saturating_add(back_off(retry_delay, self.times, REST_MAX.max(retry_delay))));
        self.times = self.times.saturating_add(1);
    }

    /// It could.
    pub(super) fn works(&mut self) {
        *self = Rests::default();
    }

    /// Whether it is not asked now.
    pub(super) fn rests(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: each drive that could not encrypt cost a mount every `retry_delay`, for ever.
    #[test]
    fn each_try_comes_twice_as_late() {
        let (mut rests, delay) = (Rests::default(), Duration::from_secs(600));
        let at = Duration::from_secs;
        assert!(!rests.rests(at(0)));
        for (now, until) in [(0, 600), (600, 1_800), (1_800, 4_200), (4_200, 7_800), (7_800, 11_400)] {
            rests.found(at(now), delay);
            assert!(rests.rests(at(until - 1)) && !rests.rests(at(until)), "{now}");
        }
        rests.works();
        assert!(!rests.rests(at(7_800)));
        rests.found(at(0), delay);
        assert!(!rests.rests(at(600)));
    }
}
