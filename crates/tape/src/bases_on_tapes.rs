//! Which tapes have a base of the catalogue, how many must, and which tape is due for one.
//!
//! The log of changes is trimmed behind bases only, so what counts as one decides what may be dropped: it was
//! read back whole from a tape that is to stay and can be read, with its key at hand. A tape of each tape
//! pool in use must have one, and where that is a single pool, two of its tapes, or one and the backup:
//! whatever one tape has is never the only thing that can take the place of a catalogue that is lost.

use std::collections::{BTreeMap, BTreeSet};

use base::{TapePoolId, Vid};
use catalogue::{ReadError, TapeRecord, TapeState, View, changes_behind};
use store::LogSize;

use crate::room::Tape;
use ground::ChangeLogSettings;

/// The bases that count.
pub(crate) struct Standing {
    /// Of the tape pools with labelled tapes that classes have copies in, and those with a tape that may be
    /// written: the newest base of each tape that has one. A pool that nobody uses any more, of which no
    /// tape is written, gets none, nor does one that has no labelled tape yet: it holds nothing, and gets
    /// one with its first tape.
    pools: BTreeMap<TapePoolId, BTreeMap<Vid, u64>>,
    /// So many tapes of a pool must have one.
    wanted: usize,
}

impl Standing {
    /// What the tapes that are to stay have.
    pub(crate) fn of(room: &Tape, view: &View<'_>, has_backup: bool) -> Result<Standing, ReadError> {
        Standing::of_those(room, view, has_backup, |_, tape| is_to_stay(tape))
    }

    /// The same, of the tapes that count.
    pub(crate) fn of_those(
        room: &Tape,
        view: &View<'_>,
        has_backup: bool,
        counts: impl Fn(Vid, &TapeRecord) -> bool,
    ) -> Result<Standing, ReadError> {
        let mut tapes = view.tapes()?;
        tapes.retain(|(_, tape)| tape.generation.0 > 0);
        // Whether or not they count: what a pool with a tape that is lost had must be replaced.
        let labelled: BTreeSet<TapePoolId> = tapes.iter().filter_map(|(_, tape)| tape.tape_pool).collect();
        let copies = view.classes()?.into_iter().flat_map(|(_, class)| class.copies);
        let mut pools: BTreeMap<TapePoolId, BTreeMap<Vid, u64>> =
            copies.filter(|pool| labelled.contains(pool)).map(|pool| (pool, BTreeMap::new())).collect();
        tapes.retain(|(vid, tape)| counts(*vid, tape));
        let gets_more = |tape: &TapeRecord| tape.state == TapeState::Active && room.has_current_key(tape);
        for (_, tape) in tapes.iter().filter(|(_, tape)| gets_more(tape)) {
            if let Some(pool) = tape.tape_pool {
                pools.entry(pool).or_default();
            }
        }
        for (vid, tape) in &tapes {
            // Whatever else counts: what nobody can decrypt gives nothing back.
            if view.lacks_key(tape)? {
                continue;
            }
            if let Some(of_pool) = tape.tape_pool.and_then(|pool| pools.get_mut(&pool)) {
                let newest = view.bases(*vid)?.into_iter().map(|(change, _)| change).max();
                of_pool.extend(newest.map(|change| (*vid, change)));
            }
        }
        let wanted = if has_backup || pools.len() > 1 { 1 } else { 2 };
        Ok(Standing { pools, wanted })
    }

    /// The newest change up to which as many tapes of a pool as must have a base; 0: too few have one.
    pub(crate) fn of_pool(&self, pool: TapePoolId) -> u64 {
        self.on_tapes(pool, self.wanted)
    }

    /// The same for so many tapes, at least one.
    pub(crate) fn on_tapes(&self, pool: TapePoolId, wanted: usize) -> u64 {
        let Some(tapes) = self.pools.get(&pool) else { return 0 };
        let mut newest: Vec<u64> = tapes.values().copied().collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        newest.get(wanted - 1).copied().unwrap_or(0)
    }

    /// The pool of which that is the oldest; `None`: there is no tape pool.
    pub(crate) fn oldest(&self) -> Option<(TapePoolId, u64)> {
        self.pools().map(|pool| (pool, self.of_pool(pool))).min_by_key(|(_, change)| *change)
    }

    /// The pools that must have bases.
    pub(crate) fn pools(&self) -> impl Iterator<Item = TapePoolId> {
        self.pools.keys().copied()
    }

    /// Whether a pool must have bases.
    pub(crate) fn needs(&self, pool: TapePoolId) -> bool {
        self.pools.contains_key(&pool)
    }

    /// So many tapes of a pool must have one.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether a tape of a pool is to get one: too few tapes of the pool have one that is new enough, and
    /// this one has none.
    pub(crate) fn is_due(&self, log: &Log, settings: ChangeLogSettings, pool: TapePoolId, vid: Vid) -> bool {
        let of_tape = self.pools.get(&pool).and_then(|tapes| tapes.get(&vid)).copied().unwrap_or(0);
        log.is_behind(settings, self.of_pool(pool)) && log.is_behind(settings, of_tape)
    }
}

/// Whether what a tape has counts: it is to stay and can be read.
pub(crate) fn is_to_stay(tape: &TapeRecord) -> bool {
    matches!(tape.state, TapeState::Active | TapeState::Full | TapeState::ReadOnly)
}

/// The log of changes, as far as it decides whether a base is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) size: LogSize,
}

impl Log {
    pub(crate) fn of(view: &View<'_>, size: LogSize) -> Result<Log, ReadError> {
        Ok(Log { first: view.first_change()?, last: view.last_change()?, size })
    }

    /// Whether it does not go back to a base, nor to the first change: nothing but a new base helps.
    pub(crate) fn lacks(&self, base: u64) -> bool {
        self.first > 1 && base.saturating_add(1) < self.first
    }

    /// Whether a base is too old: the log does not go back to it, or so much came behind it that a new one is
    /// worth its tape. What came before it counts for nothing, however long it has to stay in the log.
    fn is_behind(&self, settings: ChangeLogSettings, base: u64) -> bool {
        if self.lacks(base) {
            return true;
        }
        let behind = changes_behind(base, self.last);
        if settings.base_changes == 0 || behind <= settings.base_changes {
            return false;
        }
        let LogSize { changes, bytes, other_bytes } = self.size;
        // By its share of the changes: how many bytes each takes is not known without reading them.
        let behind_bytes = u128::from(bytes) * u128::from(behind.min(changes)) / u128::from(changes.max(1));
        behind_bytes * 100 >= u128::from(other_bytes) * u128::from(settings.base_log_percent)
    }
}

#[cfg(test)]
mod tests {
    use catalogue::RESTORE_JUMP;

    use super::*;

    const POOL: TapePoolId = TapePoolId(1);
    const SETTINGS: ChangeLogSettings = ChangeLogSettings {
        base_changes: 100,
        base_log_percent: 100,
        keep_changes: 0,
        keep_age: base::Duration::ZERO,
    };

    fn vid(n: u8) -> Vid {
        Vid::new(&format!("KT000{n}")).unwrap()
    }

    fn standing(wanted: usize, pools: &[(u16, &[(u8, u64)])]) -> Standing {
        let tapes = |tapes: &[(u8, u64)]| tapes.iter().map(|(n, change)| (vid(*n), *change)).collect();
        let pools = pools.iter().map(|(pool, of_pool)| (TapePoolId(*pool), tapes(of_pool))).collect();
        Standing { pools, wanted }
    }

    fn log(first: u64, last: u64, bytes: u64, other_bytes: u64) -> Log {
        let changes = last + 1 - first;
        Log { first, last, size: LogSize { changes, bytes, other_bytes } }
    }

    /// The log that came before the newest base has to stay, perhaps for long: it made the next base due
    /// again and again, a hundred changes behind the last one.
    #[test]
    fn only_what_came_behind_the_newest_base_makes_the_next_one_due() {
        let long = log(1, 10_000, 1_000_000, 500_000);
        assert!(long.is_behind(SETTINGS, 0));
        assert!(long.is_behind(SETTINGS, 5_000), "half of its bytes came behind it");
        assert!(!long.is_behind(SETTINGS, 5_001));
        assert!(!long.is_behind(SETTINGS, 9_899), "as the whole log would have it");
        assert!(!log(1, 100, 1_000_000, 0).is_behind(SETTINGS, 0), "too few changes");
        assert!(log(1, 101, 1_000_000, 0).is_behind(SETTINGS, 0));
        let off = ChangeLogSettings { base_changes: 0, ..SETTINGS };
        assert!(!long.is_behind(off, 0));
        // Nothing but a base takes the place of changes that were dropped.
        assert!(log(50, 60, 10, 1_000).is_behind(off, 48));
        assert!(!log(50, 60, 10, 1_000).is_behind(off, 49));
        // What a restore has left out is no change.
        assert!(!log(1, RESTORE_JUMP + 50, 1_000_000, 10).is_behind(SETTINGS, 90));
    }

    #[test]
    fn as_many_tapes_of_each_pool_as_must_have_a_base() {
        let two_pools = standing(1, &[(1, &[(1, 40), (2, 70)]), (2, &[(3, 50)])]);
        assert_eq!((two_pools.of_pool(POOL), two_pools.oldest()), (70, Some((TapePoolId(2), 50))));
        let one_lacks = standing(1, &[(1, &[(1, 40)]), (2, &[])]);
        assert_eq!(one_lacks.oldest(), Some((TapePoolId(2), 0)));
        let single = standing(2, &[(1, &[(1, 40), (2, 70)])]);
        assert_eq!(single.oldest(), Some((POOL, 40)));
        assert_eq!(standing(2, &[(1, &[(2, 70)])]).oldest(), Some((POOL, 0)));
        assert_eq!(standing(2, &[]).oldest(), None);
    }

    /// A second base on one tape would be no second one.
    #[test]
    fn a_tape_that_has_a_new_base_is_not_due_for_another() {
        let single = standing(2, &[(1, &[(1, 900)])]);
        let log = log(1, 950, 1_000, 0);
        assert!(!single.is_due(&log, SETTINGS, POOL, vid(1)));
        assert!(single.is_due(&log, SETTINGS, POOL, vid(2)));
        let both = standing(2, &[(1, &[(1, 900), (2, 870)])]);
        assert!(!both.is_due(&log, SETTINGS, POOL, vid(3)));
    }
}
