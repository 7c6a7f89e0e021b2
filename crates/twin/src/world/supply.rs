//! Whether a tape pool has anything left to write to.

use base::{LibraryId, TapePoolId};

use super::World;
use crate::moment::Moment;

/// What a pool can still be written to.
#[derive(Clone, Copy, Default)]
pub(super) struct Supply {
    /// Tapes before this one are none for the pool, and never will be again: tapes only fill.
    cursor: usize,
    /// When something was queued and no tape was left for it.
    dry_since: Option<Moment>,
}

impl World<'_> {
    /// Takes down when a pool with something in its queue has neither a begun tape nor a scratch tape.
    pub(super) fn note_supply(&mut self, pool: usize) {
        if self.migration.queues[pool].is_empty() || self.migration.supply[pool].dry_since.is_some() {
            return;
        }
        let policy = self.model.policy.tape_pools.get(&TapePoolId(pool as u16 + 1));
        let only = policy.and_then(|policy| policy.library);
        let supply = &mut self.migration.supply[pool];
        let rest = self.holdings.tapes().iter().zip(&self.tapes).skip(supply.cursor);
        let can_take = |(tape, state): &(&crate::holdings::Tape, &super::drives::TapeState)| {
            tape.tape_pool.is_none_or(|of| usize::from(of) == pool)
                && only.is_none_or(|only| only == LibraryId(tape.library.0))
                && !(tape.is_lost || state.is_full || state.is_read_only || state.is_suspect)
        };
        supply.cursor += rest.take_while(|tape| !can_take(tape)).count();
        if supply.cursor == self.tapes.len() {
            supply.dry_since = Some(self.now);
        }
    }

    /// Since when the first pool had no tape, and the bytes that wait in the queues of all that have none.
    pub(super) fn without_tape(&mut self) -> (Option<Moment>, u64) {
        (0..self.migration.supply.len()).for_each(|pool| self.note_supply(pool));
        let pools = self.migration.supply.iter().zip(&self.migration.queued);
        let dry = || pools.clone().filter_map(|(supply, queued)| Some((supply.dry_since?, *queued)));
        (dry().map(|(since, _)| since).min(), dry().map(|(_, queued)| queued).sum())
    }

    /// Bytes of wanted files that are not in the pool and for which it has no room: nothing while one more
    /// file of mean size would fit.
    pub(super) fn without_room(&self) -> u64 {
        let short = |class: &usize| {
            let index = scenario::model::ClassIndex(*class as u16);
            !self.has_room_for(index, self.holdings.mean(index) as u64)
        };
        let classes = (0..self.room.wanted.len()).filter(short);
        classes
            .map(|class| {
                self.room.wanted[class]
                    .saturating_sub(self.room.claims.claimed_of(base::ClassId(class as u16 + 1)).0)
            })
            .sum()
    }
}
