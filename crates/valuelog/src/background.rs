//! The thread that makes durable in time what was written back, and cleans ahead.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use threads::{JoinHandle, spawn};

use crate::log::Inner;

pub(crate) struct Background(JoinHandle<()>);

impl Background {
    pub(crate) fn start(inner: &Arc<Inner>) -> Background {
        let inner = Arc::clone(inner);
        Background(spawn(move || run(&inner)))
    }

    pub(crate) fn stop(self, inner: &Inner) {
        inner.is_stopping.store(true, Ordering::SeqCst);
        inner.doorbell.ring();
        // Its panic has been reported by then, and nothing of the state is left half changed.
        let _ = self.0.join();
    }
}

fn run(inner: &Inner) {
    while !inner.is_stopping.load(Ordering::SeqCst) {
        inner.doorbell.wait(inner.settings.dirty_time_max);
        // Failures poison the store: whoever changes anything next is told.
        if inner.flush().is_err() {
            return;
        }
        while !inner.is_stopping.load(Ordering::SeqCst) && inner.wants_cleaning() {
            if !inner.clean_ahead().unwrap_or(false) {
                break;
            }
        }
    }
}
