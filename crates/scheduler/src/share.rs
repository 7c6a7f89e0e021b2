//! What each share has of the drives now and has had of them lately.

use std::collections::BTreeMap;

use base::{Duration, ShareId, Timestamp, Vid};

use crate::scheduler::{Scheduler, Side};
use crate::{DriveState, Purpose};

/// A drive that works for a share now counts as much as this drive time used, so that drives that become free
/// at once go to different shares.
const AHEAD: Duration = Duration::from_secs(1800);
/// Usage decays in so many steps a half-life ...
const STEPS: u32 = 8;
/// ... each of which leaves this much of 65,536: the eighth root of a half.
const STEP_LEAVES: u128 = 60_097;
/// After so many steps nothing is left.
const STEPS_MAX: i64 = 64 * STEPS as i64;

/// Drive time used by each share, in microseconds, decayed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Usage {
    used: BTreeMap<ShareId, u64>,
    /// The step of the last decay.
    step: Option<i64>,
}

impl Usage {
    fn decay(&mut self, now: Timestamp, half_life: Duration) {
        let length = (half_life / STEPS).max(Duration::from_secs(1)).as_nanos();
        let step = now.0.div_euclid(i64::try_from(length).unwrap_or(i64::MAX));
        let steps = self.step.map_or(0, |last| step.saturating_sub(last)).clamp(0, STEPS_MAX);
        self.step = Some(self.step.map_or(step, |last| last.max(step)));
        if steps == STEPS_MAX {
            self.used.clear();
        }
        for used in self.used.values_mut() {
            for _ in 0..steps {
                *used = u64::try_from((u128::from(*used) * STEP_LEAVES) >> 16).unwrap_or(u64::MAX);
            }
        }
    }

    fn add(&mut self, share: ShareId, micros: u64) {
        let used = self.used.entry(share).or_default();
        *used = used.saturating_add(micros);
    }
}

/// Which drives are used for what at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ledger {
    /// Those with a drive, by number.
    shares: Vec<(ShareId, usize)>,
    recall: usize,
    migration: usize,
}

impl Ledger {
    pub(crate) fn add(&mut self, share: ShareId, side: Side) {
        match self.shares.binary_search_by_key(&share, |(id, _)| *id) {
            Ok(at) => self.shares[at].1 += 1,
            Err(at) => self.shares.insert(at, (share, 1)),
        }
        match side {
            Side::Recall => self.recall += 1,
            Side::Migration => self.migration += 1,
        }
    }

    pub(crate) fn of_share(&self, share: ShareId) -> usize {
        let at = self.shares.binary_search_by_key(&share, |(id, _)| *id);
        at.map_or(0, |at| self.shares[at].1)
    }

    pub(crate) fn of_side(&self, side: Side) -> usize {
        match side {
            Side::Recall => self.recall,
            Side::Migration => self.migration,
        }
    }

    pub(crate) fn streams(&self) -> usize {
        self.recall + self.migration
    }
}

/// What a drive in this state is used for by a share.
pub(crate) fn side_of(state: &DriveState) -> Option<Side> {
    match state {
        DriveState::Mounting { purpose: Purpose::Recall, .. } | DriveState::Recalling { .. } => {
            Some(Side::Recall)
        }
        DriveState::Mounting { purpose: Purpose::Migration(_), .. } | DriveState::Migrating { .. } => {
            Some(Side::Migration)
        }
        _ => None,
    }
}

impl Scheduler {
    /// Drive time that each share has used lately, decayed by half in each half-life of the policy, and the
    /// number of drives that mount, read or write on its behalf now.
    #[must_use]
    pub fn shares(&self) -> BTreeMap<ShareId, (Duration, usize)> {
        let ledger = self.ledger();
        let used = self
            .usage
            .used
            .keys()
            .chain(ledger.shares.iter().map(|(share, _)| share))
            .chain(self.policy.shares.keys());
        let of = |share: &ShareId| {
            let used = self.usage.used.get(share).copied().unwrap_or(0);
            (*share, (Duration::from_micros(used), ledger.of_share(*share)))
        };
        used.map(of).collect()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        if let Some(census) = self.drives.census() {
            return census.ledger.clone();
        }
        let mut ledger = Ledger::default();
        for drive in self.drives.values() {
            if let Some(side) = side_of(&drive.state) {
                ledger.add(drive.share, side);
            }
        }
        ledger
    }

    /// Charges the drives' time since the last event of a drive to the shares, in proportion to the bytes
    /// that they wanted from the tape when it was mounted or its session began.
    pub(crate) fn charge(&mut self, now: Timestamp) {
        self.usage.decay(now, self.policy.share_half_life);
        for drive in self.drives.uncounted_mut() {
            let span = u64::try_from(now.since(drive.charged).as_micros()).unwrap_or(u64::MAX);
            drive.charged = drive.charged.max(now);
            if side_of(&drive.state).is_none() {
                continue;
            }
            let all: u128 = drive.parts.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
            if all == 0 {
                self.usage.add(drive.share, span);
            }
            for (share, bytes) in drive.parts.iter().filter(|_| all > 0) {
                let part = u128::from(span) * u128::from(*bytes) / all;
                self.usage.add(*share, u64::try_from(part).unwrap_or(u64::MAX));
            }
        }
    }

    /// How much a share has had against its weight: the lowest goes first.
    pub(crate) fn had(&self, share: ShareId, ledger: &Ledger) -> u128 {
        let used = self.usage.used.get(&share).copied().unwrap_or(0);
        let ahead = AHEAD.as_micros() * u128::try_from(ledger.of_share(share)).unwrap_or(u128::MAX);
        (u128::from(used) + ahead) * 65_536 / u128::from(self.policy.share_weight(share))
    }

    /// Whether one more drive may be used for this side on behalf of this share.
    pub(crate) fn may_use(&self, share: ShareId, side: Side, ledger: &Ledger) -> bool {
        self.may_side(side, ledger) && ledger.of_share(share) < self.policy.share_drives_max(share)
    }

    /// Whether one more drive may be used for this side, and its stream be fed.
    pub(crate) fn may_side(&self, side: Side, ledger: &Ledger) -> bool {
        ledger.streams() < self.streams && ledger.of_side(side) < self.side_policy(side).drives_max
    }

    /// Whether a share has fewer drives than are kept for it.
    pub(crate) fn is_short(&self, share: ShareId, ledger: &Ledger) -> bool {
        ledger.of_share(share) < self.policy.share_drives_min(share)
    }

    pub(crate) fn side_policy(&self, side: Side) -> crate::SidePolicy {
        match side {
            Side::Recall => self.policy.recall,
            Side::Migration => self.policy.migration,
        }
    }

    /// Whether the pool has room for more than what is assigned to tapes already. `running`: than what the
    /// sessions that run will bring.
    pub(crate) fn has_space(&self, share: ShareId, running: bool) -> bool {
        self.lacks_space(share, running).is_none()
    }

    /// The free space and the bytes on their way to it, if those are not less.
    pub(crate) fn lacks_space(&self, share: ShareId, running: bool) -> Option<(u64, u64)> {
        if self.space.is_empty() {
            return None;
        }
        self.lacks(None, running).or_else(|| self.lacks(Some(share), running))
    }

    /// The same for one limit alone; `None`: that for all.
    pub(crate) fn lacks(&self, of: Option<ShareId>, running: bool) -> Option<(u64, u64)> {
        let free = *self.space.get(&of)?;
        let coming = if running { self.running_bytes(of) } else { self.assigned_bytes(of) };
        (coming >= free).then_some((free, coming))
    }

    /// The limit under which least is left of the pool for a share, or for all (`None`): the free space and
    /// the bytes on their way to it. Nothing if there is no limit.
    pub(crate) fn least_space(&self, share: ShareId) -> Option<(Option<ShareId>, u64, u64)> {
        let of = |of: Option<ShareId>| Some((of, *self.space.get(&of)?, self.assigned_bytes(of)));
        let limits = [of(None), of(Some(share))].into_iter().flatten();
        limits.min_by_key(|(_, free, coming)| free.saturating_sub(*coming))
    }

    fn assigned_bytes(&self, of: Option<ShareId>) -> u64 {
        let assigned = self.recall.assigned.iter().filter(|(share, _)| of.is_none_or(|of| of == **share));
        assigned.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn running_bytes(&self, of: Option<ShareId>) -> u64 {
        let reading = self.drives.values().filter_map(|drive| match drive.state {
            DriveState::Recalling { vid, .. } => Some(vid),
            _ => None,
        });
        let bytes = |vid: Vid| {
            let parts = self.recall.tapes.queues.get(&vid).map(|queue| queue.assigned.parts.iter());
            let parts = parts.into_iter().flatten().filter(|(share, _)| of.is_none_or(|of| of == **share));
            parts.fold(0, |sum: u64, (_, part)| sum.saturating_add(part.bytes))
        };
        reading.fold(0, |sum, vid| sum.saturating_add(bytes(vid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_halves_in_a_half_life_whenever_it_is_looked_at() {
        let half_life = Duration::from_secs(3600);
        let at = |second: u64| Timestamp(i64::try_from(second).unwrap() * 1_000_000_000);
        let used = |looks: &[u64]| {
            let mut usage = Usage::default();
            usage.decay(at(0), half_life);
            usage.add(ShareId(1), 1_000_000);
            looks.iter().for_each(|look| usage.decay(at(*look), half_life));
            usage.used.get(&ShareId(1)).copied().unwrap_or(0)
        };
        assert!((499_000..=501_000).contains(&used(&[3600])), "{}", used(&[3600]));
        assert_eq!(used(&[100, 700, 1900, 2000, 3600]), used(&[3600]));
        assert_eq!(used(&[1_000_000_000]), 0);
    }
}
