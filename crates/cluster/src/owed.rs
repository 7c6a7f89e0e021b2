//! Which drives are behind with their part of new stripes.
//!
//! Sets come in turn, so a drive gets as many stripes as it is in sets. One that was added is in few, since
//! sets that are known stay; and one with more room than others should get more. So each drive has an
//! account: with each stripe all are owed their part of it, and those that get it pay. If one is owed much,
//! the next stripe goes to the set that is owed most, which keeps all accounts within bounds if any choice of
//! sets does (Tassiulas and Ephremides 1992, the rule of the greatest weight).

use std::collections::BTreeMap;

use base::{ByteCount, DriveId};

use crate::map::DriveEntry;

/// A shard, in the unit of the accounts.
const SHARD: i64 = 1 << 20;
/// Shards that a drive may be owed before sets are not chosen in turn any more: turns in a pool whose drives
/// are alike owe a drive about as many at times.
const OWED_MAX: i64 = 4 * SHARD;
/// No account goes beyond this many shards, above or below: one that cannot get its part, since the domains
/// of others forbid it, is not made up for for ever when it can.
const ACCOUNT_MAX: i64 = 16 * SHARD;
/// The room of a drive counts at most as this many times that of the drive in the middle, and at least as the
/// same part of it: a drive that got all new data would be the only one that works.
const ROOM_FACTOR: u64 = 2;
/// What a drive with the room of the one in the middle counts, before its weight.
const MIDDLE: u64 = 1 << 16;

/// The accounts of drives for stripes of one width.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed(BTreeMap<DriveId, i64>);

impl Owed {
    /// One more stripe comes: each of these drives is owed its part of it.
    pub(crate) fn stripe(&mut self, width: usize, parts: &[(DriveId, u64)]) {
        let all: u128 = parts.iter().map(|(_, part)| u128::from(*part)).sum();
        for (drive, part) in parts {
            let shards = u128::from(*part) * width as u128 * SHARD as u128 / all.max(1);
            // Of a stripe a drive gets one shard and no more.
            let due = i64::try_from(shards).unwrap_or(SHARD).min(SHARD);
            let account = self.0.entry(*drive).or_default();
            *account = (*account + due).min(ACCOUNT_MAX);
        }
    }

    /// These drives get it.
    pub(crate) fn paid(&mut self, drives: &[DriveId]) {
        for drive in drives {
            let account = self.0.entry(*drive).or_default();
            *account = (*account - SHARD).max(-ACCOUNT_MAX);
        }
    }

    /// Whether one of these is owed so much that it does not wait for its turn.
    pub(crate) fn is_behind(&self, parts: &[(DriveId, u64)]) -> bool {
        parts.iter().any(|(drive, _)| self.of(*drive) > OWED_MAX)
    }

    /// What drives are owed together.
    pub(crate) fn together(&self, drives: &[DriveId]) -> i64 {
        drives.iter().map(|drive| self.of(*drive)).sum()
    }

    fn of(&self, drive: DriveId) -> i64 {
        self.0.get(&drive).copied().unwrap_or(0)
    }
}

/// The parts of drives in new data: by weight, and by room as far as it is known.
pub(crate) fn parts<'a>(
    drives: impl Iterator<Item = &'a DriveEntry>,
    rooms: &BTreeMap<DriveId, ByteCount>,
) -> Vec<(DriveId, u64)> {
    let drives: Vec<&DriveEntry> = drives.collect();
    let mut known: Vec<u64> = drives.iter().filter_map(|drive| Some(rooms.get(&drive.id)?.0)).collect();
    known.sort_unstable();
    let middle = known.get(known.len() / 2).copied().unwrap_or(0);
    let by_room = |id: DriveId| {
        let Some(room) = rooms.get(&id).filter(|_| middle > 0) else { return MIDDLE };
        let part = u128::from(room.0) * u128::from(MIDDLE) / u128::from(middle);
        u64::try_from(part).unwrap_or(u64::MAX).clamp(MIDDLE / ROOM_FACTOR, MIDDLE * ROOM_FACTOR)
    };
    drives.iter().map(|drive| (drive.id, by_room(drive.id) * u64::from(drive.weight))).collect()
}
