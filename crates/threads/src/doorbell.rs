//! Wakes one thread that sleeps until there is work.

use std::sync::PoisonError;
use std::time::Duration;

use crate::{Condvar, Mutex};

/// Rung by anybody, heard by the one thread that waits for it. Ringing it twice before it is heard is as
/// ringing it once: what there is to do, the thread looks up itself.
#[derive(Debug, Default)]
pub struct Doorbell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Doorbell {
    /// Wakes the thread that waits, or the next one that does.
    pub fn ring(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rung.notify_one();
    }

    /// Waits until it is rung, at most for `patience`.
    pub fn wait(&self, patience: Duration) {
        let mut is_rung = self.is_rung.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_rung {
            is_rung = self.rung.wait_timeout(is_rung, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_rung = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rung_before_is_heard_once() {
        let doorbell = Doorbell::default();
        doorbell.ring();
        doorbell.ring();
        // Far longer than the test may take: it returns at once.
        doorbell.wait(Duration::from_secs(3_600));
        assert!(!*doorbell.is_rung.lock().unwrap());
        doorbell.wait(Duration::from_millis(1));
    }
}
