//! Which tape is read next, and which pool is written next: first those for whom drives are kept, then those
//! that starve, then the share that has had least against its weight, and within it whose turn it is.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use base::{LibraryId, ShareId, TapePoolId, Timestamp, Vid};

use crate::migration::TapeChoice;
use crate::scheduler::{Scheduler, Side, ripe_at};
use crate::share::Ledger;
use crate::{DriveName, DriveState};

/// Something that a drive could be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pick<T> {
    pub(crate) what: T,
    pub(crate) share: ShareId,
    /// Drives are kept for it and it has fewer.
    pub(crate) short: bool,
}

impl Scheduler {
    /// The tape that is to be read next, among those that fit.
    pub(crate) fn next_recall(
        &self,
        now: Timestamp,
        ledger: &Ledger,
        libraries: &BTreeSet<LibraryId>,
        fits: &dyn Fn(Vid) -> bool,
    ) -> Option<Pick<Vid>> {
        if !self.may_recall(now, ledger) {
            return None;
        }
        let may = |share| self.may_use(share, Side::Recall, ledger) && self.has_space(share, false);
        let short = |share| self.is_short(share, ledger) && may(share);
        let any_short = self.policy.shares.keys().any(|share| short(*share));
        if any_short && let Some((what, share)) = self.pick(now, ledger, libraries, fits, &short) {
            return Some(Pick { what, share, short: true });
        }
        let (what, share) = self.pick(now, ledger, libraries, fits, &may)?;
        Some(Pick { what, share, short: false })
    }

    fn pick(
        &self,
        now: Timestamp,
        ledger: &Ledger,
        libraries: &BTreeSet<LibraryId>,
        fits: &dyn Fn(Vid) -> bool,
        may: &dyn Fn(ShareId) -> bool,
    ) -> Option<(Vid, ShareId)> {
        let starves = |vid| fits(vid) && self.lead(vid, ledger, may).is_some();
        if let Some(vid) = self.recall.tapes.starving(libraries, self.starved(now), may, fits) {
            // Its oldest file starves; of the tapes with a copy of that one, the one worth most serves it as
            // well, and others with it.
            let reach = |vid: Vid| starves(vid) && self.recall.tapes.is_mountable(vid, libraries);
            let vid = self.recall.best_for_oldest(vid, &reach).unwrap_or(vid);
            return Some((vid, self.lead(vid, ledger, may)?));
        }
        let mut shares: Vec<ShareId> = self.recall.tapes.shares_due(libraries).into_iter().collect();
        shares.retain(|share| may(*share));
        shares.sort_by_key(|share| (self.had(*share, ledger), *share));
        shares.into_iter().find_map(|share| {
            let vid = self.recall.tapes.best(libraries, share, fits)?;
            let near = |vid: Vid| fits(vid) && self.recall.tapes.is_mountable(vid, libraries);
            Some((self.recall.with_more(vid, share, &near), share))
        })
    }

    /// On whose behalf a tape is read: of the shares that want something from it and may have a drive the one
    /// that has had least.
    pub(crate) fn lead(&self, vid: Vid, ledger: &Ledger, may: &dyn Fn(ShareId) -> bool) -> Option<ShareId> {
        let queue = self.recall.tapes.queues.get(&vid)?;
        let shares = queue.waiting.parts.keys().chain(queue.assigned.parts.keys());
        shares.copied().filter(|share| may(*share)).min_by_key(|share| (self.had(*share, ledger), *share))
    }

    /// What has waited since then starves.
    pub(crate) fn starved(&self, now: Timestamp) -> Timestamp {
        let span = i64::try_from(self.policy.starvation.max(self.policy.recall_age).as_nanos());
        Timestamp(now.0.saturating_sub(span.unwrap_or(i64::MAX)))
    }

    /// The pool that is to be written next in this drive, of those that wait, and the tape for it.
    pub(crate) fn next_migration(
        &self,
        name: &DriveName,
        waiting: &[Pick<TapePoolId>],
    ) -> Option<Pick<(TapePoolId, TapeChoice)>> {
        let mut choices = waiting.iter().filter_map(|pick| {
            let what = (pick.what, self.choose_tape(pick.what, name)?);
            Some(Pick { what, share: pick.share, short: pick.short })
        });
        choices.next()
    }

    /// Pools that are due, may have one more drive, and have no idle tape of their own to go on with: the
    /// order in which they get drives.
    pub(crate) fn waiting_pools(&self, now: Timestamp, ledger: &Ledger) -> Vec<Pick<TapePoolId>> {
        let mut picks = Vec::new();
        for (id, state) in &self.pools {
            if state.backlog.items == 0 || !self.pool_due(*id, now) {
                continue;
            }
            let Some(policy) = self.policy.tape_pools.get(id) else { continue };
            let goes_on = || {
                let idle = self.drives.values().filter(|drive| !drive.leaves);
                let idle = idle.filter(|drive| matches!(drive.state, DriveState::Idle { .. }));
                let mut held = idle.filter_map(|drive| drive.state.vid());
                held.any(|vid| self.migration_to(vid) == Some(*id))
            };
            if !self.may_use(policy.share, Side::Migration, ledger) || goes_on() {
                continue;
            }
            let short = self.writers(*id) < policy.drives_min || self.is_short(policy.share, ledger);
            let starves = ripe_at(&state.backlog, self.policy.starvation).is_some_and(|at| at <= now);
            let had = if starves { 0 } else { self.had(policy.share, ledger) };
            let pick = Pick { what: *id, share: policy.share, short };
            picks.push(((!short, !starves, had, state.backlog.oldest, *id), pick));
        }
        picks.sort_by_key(|(key, _)| *key);
        picks.into_iter().map(|(_, pick)| pick).collect()
    }

    /// The side whose candidate gets a drive when both have one: a side for which drives are kept, then a
    /// share for which drives are kept, then the one whose turn it is.
    pub(crate) fn first_side(&self, recall_short: bool, migration_short: bool, ledger: &Ledger) -> Side {
        let rank = |side: Side, short: bool| {
            let side_short = ledger.of_side(side) < self.side_policy(side).drives_min;
            (side_short, short, side == self.turn)
        };
        let (recall, migration) = (rank(Side::Recall, recall_short), rank(Side::Migration, migration_short));
        if Reverse(recall) < Reverse(migration) { Side::Recall } else { Side::Migration }
    }
}
