//! What is known of the room on a drive.
//!
//! A drive that hangs does not even say how much room it has. So nobody but the drive's own threads asks it:
//! others have the question put, wait a moment for the answer, and take what was known last if none comes.

use threads::Mutex;

use base::Timestamp;
use drive::DriveStatus;
use std::sync::Arc;

use crate::config::{SPACE_KEPT, SPACE_PATIENCE};
use crate::gather::{Gather, Ticket, lock};

/// What a drive said last, and who waits for what it says now.
#[derive(Default)]
pub(crate) struct KnownSpace(Mutex<State>);

/// Counts how often what was known has ceased to count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Turn(u64);

#[derive(Default)]
struct State {
    /// `None` before the drive has said anything, and if it could not.
    last: Option<DriveStatus>,
    /// In which turn it was asked for that, and when.
    told: (Turn, Timestamp),
    turn: Turn,
    /// Since when a question is under way.
    asked: Option<Timestamp>,
    /// Who waits for an answer to a question that is put in this turn or later.
    waiting: Vec<(Turn, Ticket<()>)>,
}

impl State {
    fn is_due(&self, now: Timestamp) -> bool {
        let (turn, at) = self.told;
        self.last.is_none() || turn < self.turn || at > now || now.since(at) >= SPACE_KEPT
    }
}

impl KnownSpace {
    /// What the drive said last, however long ago.
    pub(crate) fn last(&self) -> Option<DriveStatus> {
        lock(&self.0).last
    }

    /// What is known counts no more: whoever needs it has the drive asked anew.
    pub(crate) fn forget(&self) {
        lock(&self.0).turn.0 += 1;
    }

    /// Has `gather` wait for the answer if what is known is old. Not for a question that is under way for
    /// [`SPACE_PATIENCE`]: one that hangs holds up each caller no more than once. Gives whether the caller is
    /// to put the question.
    pub(crate) fn wait_with(&self, gather: &Arc<Gather<()>>, now: Timestamp) -> bool {
        let mut state = lock(&self.0);
        if !state.is_due(now) {
            return false;
        }
        let is_new = state.asked.is_none();
        let since = *state.asked.get_or_insert(now);
        if now.since(since) < SPACE_PATIENCE {
            let turn = state.turn;
            state.waiting.push((turn, gather.ticket()));
        }
        is_new
    }

    /// The time that counts has gone back a little: what was told meanwhile was told now. Else no answer
    /// would be newer for as long.
    pub(crate) fn forget_future(&self, now: Timestamp) {
        let mut state = lock(&self.0);
        state.told.1 = state.told.1.min(now);
        state.asked = state.asked.map(|asked| asked.min(now));
    }

    /// The turn of a question that is put now.
    pub(crate) fn turn(&self) -> Turn {
        lock(&self.0).turn
    }

    /// Takes what was answered to a question of this turn and time. Gives whether nobody waits for another
    /// answer.
    pub(crate) fn told(&self, asked: (Turn, Timestamp), status: Option<DriveStatus>) -> bool {
        let mut state = lock(&self.0);
        assert!(asked.0 <= state.turn, "no question is put in a turn that has not begun");
        if asked >= state.told {
            (state.told, state.last) = (asked, status);
        }
        let (answered, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.waiting).into_iter().partition(|(turn, _)| *turn <= asked.0);
        state.waiting = waiting;
        let is_all = state.waiting.is_empty();
        drop(state);
        // Tickets take the lock of who waits.
        drop(answered);
        is_all
    }

    /// The question is over, answered or not.
    pub(crate) fn is_over(&self) {
        let waiting = {
            let mut state = lock(&self.0);
            let was_asked = state.asked.take();
            assert!(was_asked.is_some(), "a question that is over was put");
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ByteCount;
    use std::time::Duration;

    fn status(free: u64) -> Option<DriveStatus> {
        let (capacity, used, free) = (ByteCount(100), ByteCount(100 - free), ByteCount(free));
        Some(DriveStatus { capacity, used, free, suspect: false, file_system: None })
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp(1).plus(Duration::from_millis(millis))
    }

    fn free(space: &KnownSpace) -> Option<u64> {
        space.last().map(|status| status.free.0)
    }

    /// Whether the caller is to ask, and whether it waits.
    fn asks(space: &KnownSpace, millis: u64) -> (bool, bool) {
        let gather = Gather::new();
        let is_to_ask = space.wait_with(&gather, at(millis));
        (is_to_ask, !gather.wait_for(Duration::ZERO).1)
    }

    #[test]
    fn a_figure_counts_for_a_second_and_until_it_is_forgotten() {
        let space = KnownSpace::default();
        assert_eq!(asks(&space, 0), (true, true), "nothing is known");
        assert!(space.told((space.turn(), at(0)), status(7)));
        space.is_over();
        assert_eq!(asks(&space, 999), (false, false));
        assert_eq!((asks(&space, 1_000), free(&space)), ((true, true), Some(7)));
        space.told((space.turn(), at(1_000)), status(6));
        space.is_over();
        space.forget();
        assert_eq!((asks(&space, 1_001), free(&space)), ((true, true), Some(6)), "the last figure stays");
    }

    /// Story: after a virtual machine had stood still the room of a drive stayed what it was for as long.
    #[test]
    fn an_answer_counts_although_time_has_gone_back_since_the_last_one() {
        let space = KnownSpace::default();
        assert_eq!(asks(&space, 10_000), (true, true));
        assert!(space.told((space.turn(), at(10_000)), status(7)));
        space.is_over();
        space.forget_future(at(5));
        assert_eq!(asks(&space, 2_000), (true, true));
        space.told((space.turn(), at(2_000)), status(6));
        assert_eq!(free(&space), Some(6));
    }

    #[test]
    fn a_question_without_an_answer_holds_up_nobody_for_long() {
        let space = KnownSpace::default();
        assert_eq!(asks(&space, 0), (true, true));
        assert_eq!(asks(&space, 1_999), (false, true), "it has been put");
        assert_eq!(asks(&space, 2_000), (false, false));
        space.is_over();
        assert_eq!(asks(&space, 2_001), (true, true), "one that was dropped is put once more");
    }

    #[test]
    fn what_was_asked_before_something_came_free_is_no_answer_to_who_asks_after_it() {
        let space = KnownSpace::default();
        let (early, late) = (Gather::new(), Gather::new());
        assert!(space.wait_with(&early, at(0)));
        let before = space.turn();
        space.forget();
        assert!(!space.wait_with(&late, at(1)));
        assert!(!space.told((before, at(0)), status(1)), "somebody waits for more");
        assert!(early.wait_for(Duration::ZERO).1 && !late.wait_for(Duration::ZERO).1);
        assert!(space.told((space.turn(), at(2)), status(2)));
        assert!(late.wait_for(Duration::ZERO).1);
        space.told((before, at(0)), status(1));
        assert_eq!(free(&space), Some(2), "an older answer that comes late changes nothing");
    }
}
