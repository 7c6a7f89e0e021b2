//! A rebalance: what is stored moves from the fuller drives of the pool to the emptier ones, shard by shard,
//! until they are about equally full. How full one is is what the catalogue names there, of its size.
//!
//! What lasts is the word in the catalogue. How far it has come is kept in memory: after a restart it is
//! counted anew what stands where. It gives way to rebuilds and to drives that are emptied.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BlobId, ByteCount, DriveId, PercentPoints, Timestamp};
use catalogue::{Command, RebalanceRecord};
use cluster::{Fills, LevellingMove, Share};
use pool::{BadShard, DriveHealth};

use crate::Upkeep;
use crate::moving::{Moving, Round, Weighed, standing};
use crate::pool_work::Progress;
use crate::scrub::Scrubber;
use ground::{ArchiveError, PoolWork, RebalanceInfo};

/// Before it is counted anew whether the drives are near enough to each other, they are to be so by this part
/// (of ten) of the difference asked for: what clients have put and deleted since the last count is not known.
const AIM_TENTHS: u64 = 8;

/// Why it waits.
pub(crate) const REBUILD_FIRST: &str = "what drives held is rebuilt first: kist scrub shows how far it is";
/// Why it has ended.
const BY_OPERATOR: &str = "an operator has ended it: what has moved stays where it is";

/// A rebalance under way.
pub(crate) struct Rebalance {
    record: RebalanceRecord,
    /// What stands on each drive, as counted, and as moved since; `None`: to be counted.
    used: Option<BTreeMap<DriveId, ByteCount>>,
    round: Round,
    /// What could not be moved in this round, and why the first of it.
    left: (u64, String),
}

impl Rebalance {
    fn of(record: RebalanceRecord) -> Self {
        Rebalance { record, used: None, round: Round::new(), left: (0, String::new()) }
    }

    fn to(&self) -> Share {
        Share::of_points(self.record.to)
    }

    /// Drives that are not so far apart give each other nothing: a move would gain too little.
    fn least(&self) -> Share {
        Share(self.to().0 / 2)
    }

    /// What stood on the drives stands on others now: it is counted anew.
    pub(crate) fn forget_what_stands(&mut self) {
        self.used = None;
        self.round.restart();
    }

    fn note_left(&mut self, why: &str) {
        if self.left.0 == 0 {
            why.clone_into(&mut self.left.1);
        }
        self.left.0 += 1;
    }

    /// What stands on the drives after a move.
    fn moved(&mut self, step: &LevellingMove, bytes: ByteCount) {
        let used = self.used.get_or_insert_default();
        let from = used.entry(step.from).or_default();
        from.0 = from.0.saturating_sub(bytes.0);
        let to = used.entry(step.to).or_default();
        to.0 = to.0.saturating_add(bytes.0);
    }
}

fn apart(spread: Share) -> String {
    format!("the fullest drive and the emptiest are {:.1} percentage points apart", spread.points())
}

impl Scrubber {
    /// Moves the next shard of a rebalance; `false` if there is nothing to be done now. `first`: what comes
    /// before it.
    pub(crate) fn rebalance(&mut self, first: Option<&str>) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let Some(record) = upkeep.read(|view| view.rebalance())? else {
            self.rebalance = None;
            upkeep.rebalancing.state(PoolWork::Ended(BY_OPERATOR.to_owned()));
            return Ok(false);
        };
        let known = self.rebalance.take_if(|rebalance| rebalance.record == record);
        let mut rebalance = known.unwrap_or_else(|| {
            upkeep.rebalancing.begin(record);
            Rebalance::of(record)
        });
        let waits = match first {
            Some(first) => Some(first.to_owned()),
            None => self.rebalance_waits_for()?,
        };
        if let Some(why) = waits {
            upkeep.rebalancing.state(PoolWork::Waiting(why));
            self.rebalance = Some(rebalance);
            return Ok(false);
        }
        if !rebalance.round.is_due(upkeep.steady()) {
            self.rebalance = Some(rebalance);
            return Ok(false);
        }
        if rebalance.used.is_some() {
            upkeep.rebalancing.state(PoolWork::Working);
        }
        self.me.does("rebalancing");
        self.phase("rebalancing");
        let done = match rebalance.used.is_some() {
            true => self.rebalance_next(&mut rebalance),
            false => self.count_fills(&mut rebalance),
        };
        self.phase("idle");
        if let Err(error) = &done {
            // It must not keep the scrubber from all else.
            tracing::warn!(%error, "the rebalance of the pool waits");
            upkeep.rebalancing.state(PoolWork::Waiting(error.to_string()));
            rebalance.round.rest_after_failure(upkeep.steady());
        }
        self.rebalance = Some(rebalance);
        Ok(done.is_ok())
    }

    /// What a rebalance gives way to, besides what is done before it comes to its turn.
    fn rebalance_waits_for(&self) -> Result<Option<String>, ArchiveError> {
        if self.rebuild_is_due() {
            return Ok(Some(REBUILD_FIRST.to_owned()));
        }
        if self.upkeep.read(|view| view.quarantine())?.is_some() {
            return Ok(Some(
                "since a restore there may be shards that the catalogue does not name: kist pool quarantine \
                 --end first, when the restore is settled"
                    .into(),
            ));
        }
        Ok(None)
    }

    /// Counts what stands on the drives, and ends if they are near enough to each other.
    fn count_fills(&self, rebalance: &mut Rebalance) -> Result<(), ArchiveError> {
        let upkeep = &self.upkeep;
        upkeep.rebalancing.state(PoolWork::Counting);
        let used = standing(upkeep)?.into_iter().map(|(drive, on)| (drive, on.bytes)).collect();
        let spread = upkeep.tell_fills(rebalance, &upkeep.pool.fills(&used));
        rebalance.used = Some(used);
        if spread <= rebalance.to() {
            return self.end_rebalance(rebalance, &format!("balanced: {}", apart(spread)));
        }
        let now = upkeep.now();
        upkeep.rebalancing.note(|info| {
            info.state = PoolWork::Working;
            info.began = info.began.or(Some(now));
        });
        Ok(())
    }

    fn rebalance_next(&mut self, rebalance: &mut Rebalance) -> Result<(), ArchiveError> {
        let Some((blob, stripe)) = rebalance.round.next() else { return self.rebalance_look(rebalance) };
        self.remove_left_behind();
        if let Err(error) = self.rebalance_stripe(rebalance, blob, stripe) {
            tracing::warn!(%blob, stripe, %error, "a shard cannot be moved to an emptier drive");
            rebalance.note_left(&error.to_string());
        }
        Ok(())
    }

    /// Looks at the next blobs; at the end of all, whether the drives are near enough to each other, or
    /// nothing more can move.
    fn rebalance_look(&self, rebalance: &mut Rebalance) -> Result<(), ArchiveError> {
        let upkeep = &self.upkeep;
        let fills = upkeep.pool.fills(rebalance.used.get_or_insert_default());
        let spread = upkeep.tell_fills(rebalance, &fills);
        if spread.0 <= rebalance.to().0 / 10 * AIM_TENTHS {
            // As far as is known here: who ends it counts.
            return self.count_again(rebalance);
        }
        let least = rebalance.least();
        let may_move = |weighed: &Weighed, stripe: u32| {
            let bytes = upkeep.pool.shard_bytes(&weighed.blob, stripe, weighed.live)?;
            Ok(upkeep.pool.levelling_move(&weighed.blob, (stripe, bytes), &fills, least)?.is_some())
        };
        if rebalance.round.look(upkeep, may_move)? {
            return Ok(());
        }
        let (left, why) = std::mem::take(&mut rebalance.left);
        if rebalance.round.end(upkeep.steady(), left > 0) > 0 {
            return self.count_again(rebalance);
        }
        if left > 0 {
            let why = format!("{left} shards that should move could not, and are tried again: {why}");
            upkeep.rebalancing.state(PoolWork::Waiting(why));
            rebalance.used = None;
            return Ok(());
        }
        let why = format!("no shard can move to an emptier drive with gain: {}", apart(spread));
        self.end_rebalance(rebalance, &why)
    }

    /// Ends it, unless a drive takes no part that is to be as full as the others when it is back.
    fn end_rebalance(&self, rebalance: &mut Rebalance, why: &str) -> Result<(), ArchiveError> {
        let upkeep = &self.upkeep;
        let draining = upkeep.pool.draining();
        let is_expected = |(drive, health): &(DriveId, DriveHealth)| {
            !health.is_up() && !health.is_given_up() && !draining.contains(drive)
        };
        let Some((drive, health)) = upkeep.pool.drive_health().into_iter().find(is_expected) else {
            return upkeep.end_rebalance(rebalance.record, why);
        };
        let why = format!("drive {drive} is {}, and takes its part when it works again", health.word());
        upkeep.rebalancing.state(PoolWork::Waiting(why));
        rebalance.used = None;
        rebalance.round.rest_after_failure(upkeep.steady());
        Ok(())
    }

    fn count_again(&self, rebalance: &mut Rebalance) -> Result<(), ArchiveError> {
        rebalance.round.restart();
        self.count_fills(rebalance)
    }

    fn rebalance_stripe(
        &mut self,
        rebalance: &mut Rebalance,
        id: BlobId,
        stripe: u32,
    ) -> Result<(), ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let (mut chosen, mut silent) = (None, false);
        let fills = upkeep.pool.fills(rebalance.used.get_or_insert_default());
        let moved = self.move_shards(id, |weighed| {
            let bytes = upkeep.pool.shard_bytes(&weighed.blob, stripe, weighed.live)?;
            let step =
                upkeep.pool.levelling_move(&weighed.blob, (stripe, bytes), &fills, rebalance.least())?;
            let set = usize::try_from(stripe).ok().and_then(|stripe| weighed.blob.stripes.get(stripe));
            let Some((step, set)) = step.zip(set) else { return Ok(None) };
            // What is on it is rebuilt first, or comes back.
            let without = upkeep.pool.silent_drives();
            silent = set.drives.iter().any(|drive| without.contains(drive));
            if silent {
                return Ok(None);
            }
            let to = upkeep.pool.set_of_drives(step.drives_after(set))?;
            let shard = u8::try_from(step.shard).unwrap_or(u8::MAX);
            chosen = Some((step, bytes));
            Ok(Some(Moving::To(BadShard { stripe, shard, drive: step.from }, to)))
        })?;
        if silent {
            rebalance.note_left("a drive that has another shard of the stripe does not answer");
        }
        for (_, why) in &moved.failed {
            rebalance.note_left(why);
        }
        let Some((step, bytes)) = chosen.filter(|_| !moved.shards.is_empty()) else { return Ok(()) };
        rebalance.moved(&step, bytes);
        rebalance.round.moved += 1;
        rebalance.round.again(id, stripe);
        let fills = upkeep.pool.fills(rebalance.used.get_or_insert_default());
        let spread = upkeep.tell_fills(rebalance, &fills);
        upkeep.rebalancing.note(|info| {
            info.moved += 1;
            info.moved_bytes.0 += moved.bytes.0;
        });
        if spread.0 <= rebalance.to().0 / 10 * AIM_TENTHS {
            rebalance.round.forget_found();
        }
        Ok(())
    }
}

impl Upkeep {
    /// Has what is stored moved between the drives of the pool until the fullest and the emptiest are no
    /// further apart, or nothing more can move with gain. Durable on return: it goes on after a restart. No
    /// effect if that is so.
    ///
    /// # Errors
    /// If the catalogue cannot be written.
    pub fn pool_rebalance(&self, to: PercentPoints) -> Result<(), ArchiveError> {
        let _one = self.rebalancing.says();
        self.execute(Command::SetRebalance { to: Some(to) })?;
        self.ring();
        Ok(())
    }

    /// Ends a rebalance; what has moved stays where it is. Whether one was under way.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    pub fn pool_rebalance_end(&self) -> Result<bool, ArchiveError> {
        let _one = self.rebalancing.says();
        let Some(record) = self.read(|view| view.rebalance())? else { return Ok(false) };
        self.execute(Command::SetRebalance { to: None })?;
        self.rebalance_has_ended(record, BY_OPERATOR);
        self.ring();
        Ok(true)
    }

    /// How far a rebalance is, or the last one since the start came; `None`: there was none.
    #[must_use]
    pub fn rebalance_info(&self) -> Option<RebalanceInfo> {
        let said = self.read(|view| view.rebalance()).unwrap_or_else(|error| {
            tracing::warn!(%error, "whether a rebalance is under way is not known now");
            None
        });
        self.rebalancing.seen(said, self.now())
    }

    /// Ends the one that was asked for by this word, unless another word was given since.
    fn end_rebalance(&self, record: RebalanceRecord, why: &str) -> Result<(), ArchiveError> {
        let _one = self.rebalancing.says();
        if self.read(|view| view.rebalance())? != Some(record) {
            return Ok(());
        }
        self.execute(Command::SetRebalance { to: None })?;
        tracing::info!("the rebalance of the pool has ended: {why}");
        self.rebalance_has_ended(record, why);
        Ok(())
    }

    fn rebalance_has_ended(&self, record: RebalanceRecord, why: &str) {
        self.rebalancing.end(record, why, |info| info.left_bytes = ByteCount(0));
    }

    /// Tells how far apart the drives are.
    fn tell_fills(&self, rebalance: &Rebalance, fills: &Fills) -> Share {
        let spread = fills.spread();
        self.rebalancing.note(|info| {
            info.spread = Some(spread);
            info.left_bytes = fills.above_level(rebalance.to());
        });
        spread
    }
}

impl Progress for RebalanceInfo {
    type Word = RebalanceRecord;

    fn of(word: RebalanceRecord) -> Self {
        RebalanceInfo { to: word.to, since: word.since, ..RebalanceInfo::default() }
    }

    fn is_of(&self, word: RebalanceRecord) -> bool {
        (self.to, self.since) == (word.to, word.since)
    }

    fn state(&mut self) -> &mut PoolWork {
        &mut self.state
    }

    fn estimate(&mut self, now: Timestamp) {
        self.estimate(now);
    }
}
