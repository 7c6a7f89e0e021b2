//! What wakes the thread that has files leave the pool by themselves.

use std::sync::PoisonError;
use std::time::Duration;

use base::ByteCount;
use threads::{Doorbell, Mutex, MutexGuard};

/// Why it is to look at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeavingCause {
    /// A put was refused: it lacks so many bytes of what is free.
    PutLacks(ByteCount),
    /// A recall waits for room.
    RecallWaits,
    /// Files may leave that could not before: nobody pins them any more, or tapes have them now.
    MayLeave,
}

/// What was told since it looked last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeavingCauses {
    /// What the put lacks that lacks least: one that never fits must not hide the others.
    pub put_lacks: Option<ByteCount>,
    /// A recall waits for room.
    pub recall_waits: bool,
    /// Files may leave that could not before.
    pub may_leave: bool,
}

impl LeavingCauses {
    /// Whether it is to look at once.
    pub fn are_any(self) -> bool {
        self != LeavingCauses::default()
    }
}

/// Told by all who want room or give files free, and heard by the one thread that makes room.
#[derive(Debug, Default)]
pub struct LeavingSignal {
    told: Mutex<LeavingCauses>,
    doorbell: Doorbell,
}

impl LeavingSignal {
    /// Has the thread look now.
    pub fn tell(&self, cause: LeavingCause) {
        {
            let mut told = self.told();
            match cause {
                LeavingCause::PutLacks(bytes) => {
                    told.put_lacks = Some(told.put_lacks.map_or(bytes, |known| known.min(bytes)));
                }
                LeavingCause::RecallWaits => told.recall_waits = true,
                LeavingCause::MayLeave => told.may_leave = true,
            }
        }
        self.doorbell.ring();
    }

    /// Wakes the thread for no cause but to look: it is to stop, or somebody asks.
    pub fn ring(&self) {
        self.doorbell.ring();
    }

    /// What was told and not heard yet.
    pub fn pending(&self) -> LeavingCauses {
        *self.told()
    }

    /// What was told. For the thread, before it looks: what is told from then on wakes it again.
    pub fn hear(&self) -> LeavingCauses {
        std::mem::take(&mut *self.told())
    }

    /// Waits until something is told, at most for `patience`.
    pub fn wait(&self, patience: Duration) {
        self.doorbell.wait(patience);
    }

    fn told(&self) -> MutexGuard<'_, LeavingCauses> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_kept_until_it_is_heard_and_wakes_at_once() {
        let signal = LeavingSignal::default();
        for cause in [4, 3, 9].map(|bytes| LeavingCause::PutLacks(ByteCount(bytes))) {
            signal.tell(cause);
        }
        signal.tell(LeavingCause::MayLeave);
        // Far longer than the test may take.
        signal.wait(Duration::from_secs(3_600));
        let told = LeavingCauses { put_lacks: Some(ByteCount(3)), recall_waits: false, may_leave: true };
        assert_eq!((signal.pending(), signal.hear()), (told, told));
        assert!(!signal.pending().are_any() && !signal.hear().are_any());
    }
}
