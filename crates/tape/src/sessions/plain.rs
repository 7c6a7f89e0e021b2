//! A drive that does not encrypt when it is to.

use base::Duration;
use session::back_off;

/// The longest time for which no tape that needs encryption is moved to such a drive: an hour, since whoever
/// makes it encrypt tells nobody.
const REST_MAX: Duration = Duration::from_secs(3_600);

/// What is known of that, by the steady clock. Each try costs a mount: it comes twice as late each time.
#[derive(Default)]
pub(super) struct Plain {
    until: Option<Duration>,
    times: u32,
}

impl Plain {
    /// It did not encrypt.
    pub(super) fn found(&mut self, now: Duration, retry_delay: Duration) {
        self.until = Some(now.saturating_add(back_off(retry_delay, self.times, REST_MAX.max(retry_delay))));
        self.times = self.times.saturating_add(1);
    }

    /// It took a key.
    pub(super) fn encrypts(&mut self) {
        *self = Plain::default();
    }

    /// Whether no tape that needs encryption is moved to it now.
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
        let (mut plain, delay) = (Plain::default(), Duration::from_secs(600));
        let at = Duration::from_secs;
        assert!(!plain.rests(at(0)));
        for (now, until) in [(0, 600), (600, 1_800), (1_800, 4_200), (4_200, 7_800), (7_800, 11_400)] {
            plain.found(at(now), delay);
            assert!(plain.rests(at(until - 1)) && !plain.rests(at(until)), "{now}");
        }
        plain.encrypts();
        assert!(!plain.rests(at(7_800)));
        plain.found(at(0), delay);
        assert!(!plain.rests(at(600)));
    }
}
