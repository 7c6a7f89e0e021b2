//! The memory of what keeps the pool whole: who of repairs and scrubs may begin, and how much each may take.
//!
//! A repair claims its share before it begins, with nothing in hand, and keeps to it: so several at once have
//! room, whatever each of them reads. A rebuild takes at most twice as much memory as [`PoolConfig::arena`]
//! beside it, or 512 cells if that is more; it is given back when none runs any more.
//!
//! [`PoolConfig::arena`]: crate::PoolConfig::arena

use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex};

use crate::arena::Arena;
use crate::config::{REPAIR_APPEND_CELLS, REPAIRS_AT_ONCE_MAX};
use crate::gather::lock;

/// Rows of a stripe that a share has room for at least: with fewer it is better to repair fewer at once.
const ROWS_LEAST: usize = 8;

/// How many repairs run at once, and the memory of each: the arithmetic alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// Cells for all.
    budget: usize,
    /// So many stripes are repaired at once at most.
    pub(crate) at_once: usize,
}

/// What one repair may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// Cells in all.
    cells: usize,
    /// Cells of rows that are read ahead of the one that is computed.
    pub(crate) ahead: usize,
    /// Cells of each shard that are gathered to be appended together.
    pub(crate) append: usize,
}

impl Shares {
    /// Of so many cells, where the widest row has so many.
    pub(crate) fn new(budget: usize, widest: usize) -> Self {
        assert!(widest > 0, "a row has cells");
        let at_once = (budget / (ROWS_LEAST * widest)).clamp(1, REPAIRS_AT_ONCE_MAX);
        Shares { budget, at_once }
    }

    /// Of a stripe so wide, of which so many shards are written. A row that is computed needs as many cells
    /// again at most; of each shard one append is filled while another is under way.
    pub(crate) fn of(self, width: usize, shards: usize) -> Share {
        assert!(0 < shards && shards <= width, "some of a stripe is repaired");
        let cells = (self.budget / self.at_once).max(2 * width);
        let append = (cells / 8 / shards).clamp(1, REPAIR_APPEND_CELLS);
        let ahead = cells.saturating_sub(2 * width + 2 * append * shards);
        Share { cells, ahead, append }
    }
}

/// Who is in, by cells.
pub(crate) struct RepairRoom {
    pub(crate) shares: Shares,
    arena: Arc<Arena>,
    claimed: Mutex<usize>,
    left: Condvar,
}

/// A share, until it is dropped.
pub(crate) struct Claim<'a> {
    room: &'a RepairRoom,
    pub(crate) share: Share,
}

impl RepairRoom {
    pub(crate) fn new(arena: Arc<Arena>, budget: usize, widest: usize) -> Self {
        RepairRoom {
            shares: Shares::new(budget, widest),
            arena,
            claimed: Mutex::new(0),
            left: Condvar::new(),
        }
    }

    /// Waits for a share; to be called with nothing of the arena in hand.
    pub(crate) fn enter(&self, width: usize, shards: usize) -> Claim<'_> {
        let share = self.shares.of(width, shards);
        let mut claimed = lock(&self.claimed);
        // One that is wider than all that the others may have goes alone.
        while *claimed > 0 && *claimed + share.cells > self.arena.capacity() {
            claimed = self.left.wait(claimed).unwrap_or_else(PoisonError::into_inner);
        }
        *claimed += share.cells;
        Claim { room: self, share }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = lock(&self.room.claimed);
        assert!(*claimed >= self.share.cells, "a share is given back once");
        *claimed -= self.share.cells;
        if *claimed == 0 {
            self.room.arena.free_all();
        }
        self.room.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::REPAIR_CELLS_MIN;

    /// However small or large the arena is, shares have room for two rows, and all of them fit.
    #[test]
    fn shares_fit_and_each_has_room_for_a_row_and_what_is_computed_of_it() {
        for (budget, width) in [(50, 10), (128, 10), (128, 3), (2048, 10), (2048, 255), (510, 255), (30, 255)]
        {
            let shares = Shares::new(budget, width);
            assert!((1..=REPAIRS_AT_ONCE_MAX).contains(&shares.at_once));
            for shards in [1, 2, width] {
                let share = shares.of(width, shards);
                assert!(share.cells >= 2 * width && share.append >= 1, "{budget} {width}: {share:?}");
                assert!(share.cells * shares.at_once <= budget.max(2 * width), "{budget} {width}: {share:?}");
                let used = 2 * width + share.ahead + 2 * share.append * shards;
                assert!(used <= share.cells || share.ahead == 0, "{budget} {width}: {share:?}");
            }
        }
        assert_eq!(Shares::new(REPAIR_CELLS_MIN, 10).at_once, 6, "with the default of pool.arena");
        assert_eq!(Shares::new(2048, 10).at_once, REPAIRS_AT_ONCE_MAX);
    }

    #[test]
    fn who_comes_when_all_is_claimed_waits_with_nothing_in_hand() {
        let arena = Arena::new(4096, 64);
        let room = RepairRoom::new(Arc::clone(&arena), 64, 4);
        assert_eq!(room.shares.at_once, 2);
        let (first, second) = (room.enter(4, 1), room.enter(4, 1));
        drop(arena.acquire(4, blob::Use::Upkeep));
        std::thread::scope(|scope| {
            let third = scope.spawn(|| drop(room.enter(4, 1)));
            drop(first);
            third.join().unwrap();
        });
        drop(second);
        assert_eq!(*lock(&room.claimed), 0);
        assert_eq!(arena.kept(), 0, "what nobody needs goes back to the system");
    }
}
