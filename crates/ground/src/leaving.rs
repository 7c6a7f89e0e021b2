//! What wakes the thread that has files leave the pool by themselves.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::ByteCount;
use threads::{Doorbell, Mutex, MutexGuard};

/// Why it is to look at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeavingCause {
    /// A put was refused that needs so many bytes.
    PutRefused(ByteCount),
    /// A recall waits for room.
    RecallWaits,
    /// Files may leave that could not before: nobody pins them any more, or tapes have them now.
    MayLeave,
}

/// What was told since it looked last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeavingCauses {
    /// What the put needs that needs least of those that were refused: one that never fits must not hide the
    /// others.
    pub put_refused: Option<ByteCount>,
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
    /// Rung for what may not wait for the end of a rest.
    called: Doorbell,
    /// Whether room for new files comes by itself, as far as the last look has found.
    room_comes: AtomicBool,
}

impl LeavingSignal {
    /// Has the thread look now.
    pub fn tell(&self, cause: LeavingCause) {
        {
            let mut told = self.told();
            match cause {
                LeavingCause::PutRefused(bytes) => {
                    told.put_refused = Some(told.put_refused.map_or(bytes, |known| known.min(bytes)));
                }
                LeavingCause::RecallWaits => told.recall_waits = true,
                LeavingCause::MayLeave => told.may_leave = true,
            }
        }
        self.doorbell.ring();
    }

    /// Wakes the thread for no cause but to look: it is to stop, or somebody asks.
    pub fn ring(&self) {
        self.called.ring();
        self.doorbell.ring();
    }

    /// Waits, whatever is told meanwhile, but for [`LeavingSignal::ring`]: a thousand refused puts a second
    /// are not to be a thousand looks.
    pub fn rest(&self, span: Duration) {
        self.called.wait(span);
    }

    /// What was told and not heard yet.
    pub fn pending(&self) -> LeavingCauses {
        *self.told()
    }

    /// What was told. For the thread, before it looks: what is told from then on wakes it again.
    pub fn hear(&self) -> LeavingCauses {
        std::mem::take(&mut *self.told())
    }

    /// Whether room for new files comes by itself, or may, if the pool has none: each look says it, and what
    /// changes that between two looks.
    pub fn set_room_comes(&self, room_comes: bool) {
        self.room_comes.store(room_comes, Ordering::Relaxed);
    }

    /// Whether it is worth a wait for who finds no room. Never, if nothing leaves for want of room.
    pub fn room_comes(&self) -> bool {
        self.room_comes.load(Ordering::Relaxed)
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
        for cause in [4, 3, 9].map(|bytes| LeavingCause::PutRefused(ByteCount(bytes))) {
            signal.tell(cause);
        }
        signal.tell(LeavingCause::MayLeave);
        // Far longer than the test may take.
        signal.wait(Duration::from_secs(3_600));
        let told = LeavingCauses { put_refused: Some(ByteCount(3)), recall_waits: false, may_leave: true };
        assert_eq!((signal.pending(), signal.hear()), (told, told));
        assert!(!signal.pending().are_any() && !signal.hear().are_any());
    }

    #[test]
    fn a_rest_ends_for_who_calls() {
        let signal = LeavingSignal::default();
        signal.tell(LeavingCause::MayLeave);
        signal.rest(Duration::from_millis(1));
        signal.ring();
        // Far longer than the test may take.
        signal.rest(Duration::from_secs(3_600));
        assert!(signal.pending().may_leave, "it is heard after the rest");
    }
}
