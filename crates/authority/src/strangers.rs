//! How much those who are not let in may write into the audit log.

use std::sync::PoisonError;

use base::Duration;
use threads::Mutex;

/// Refusals that are written down whatever came before.
const BURST: u32 = 1000;
/// The time after which one more is written down. With lines of at most 1 KiB the log then reaches back by
/// weeks, whatever strangers do.
const EVERY: Duration = Duration::from_millis(500);

/// Counts refusals.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<Counted>);

#[derive(Clone, Copy, Default)]
struct Counted {
    /// Time that has to pass until the whole burst is free again, as of `at`.
    debt: Duration,
    at: Duration,
    left_out: u64,
}

impl Strangers {
    /// Whether a refusal is to be written down, and then how many were left out since the last that was.
    /// `now` is of a clock that never goes back.
    pub(crate) fn admit(&self, now: Duration) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.debt = counted.debt.saturating_sub(now.saturating_sub(counted.at));
        counted.at = now;
        if counted.debt + EVERY > EVERY * BURST {
            if counted.left_out == 0 {
                tracing::warn!("many requests are refused: not all of them are in the audit log");
            }
            counted.left_out += 1;
            return None;
        }
        counted.debt += EVERY;
        Some(std::mem::take(&mut counted.left_out))
    }

    /// What was admitted could not be written: so many are left out.
    pub(crate) fn not_written(&self, count: u64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.left_out = counted.left_out.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_written() {
        let strangers = Strangers::default();
        let at = Duration::from_millis;
        assert!((0..BURST).all(|_| strangers.admit(at(7000)) == Some(0)));
        assert!((0..5000).all(|_| strangers.admit(at(7100)).is_none()));
        assert_eq!(strangers.admit(at(7500)), Some(5000));
        assert_eq!(strangers.admit(at(7500)), None);
        let later = at(7500) + EVERY * (2 * BURST);
        assert_eq!(strangers.admit(later), Some(1));
        let admitted = (0..2 * BURST).filter(|_| strangers.admit(later).is_some()).count();
        assert_eq!(admitted as u64, u64::from(BURST) - 1, "no more than the burst is saved up");
    }
}
