//! Repair of shards, and of all that lost drives held, the least redundant first.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId};
use catalogue::Command;
use pool::{BadShard, MovedStripe, PieceState, PoolError, Repaired};

use crate::Upkeep;
use crate::findings::Found;
use crate::left_behind::OldShards;
use crate::scrub::{Scrubber, pace};
use ground::ArchiveError;

/// Blobs looked up together.
const PAGE: usize = 256;

/// The shards of a blob that should be on these drives.
pub(crate) fn shards_on(blob: &BlobDescription, drives: &BTreeSet<DriveId>) -> Vec<BadShard> {
    let mut shards = Vec::new();
    for (stripe, set) in blob.stripes.iter().enumerate() {
        for (shard, drive) in set.drives.iter().enumerate().filter(|(_, drive)| drives.contains(drive)) {
            shards.push(BadShard {
                stripe: u32::try_from(stripe).unwrap_or(u32::MAX),
                shard: u8::try_from(shard).unwrap_or(u8::MAX),
                drive: *drive,
            });
        }
    }
    shards
}

/// Repairs the bad shards of a blob, but for those of a drive that does not answer and is not given up, and
/// tells the catalogue of what moved. Called within a reading of the gate. Gives what is to be removed when
/// all readers have left. `lost_values`: values of a segment that are known to be whole in no copy.
pub(crate) fn repair(
    scrubber: &mut Scrubber,
    blob: &BlobDescription,
    bad: &BTreeSet<BadShard>,
    lost_values: usize,
) -> Result<Vec<OldShards>, ArchiveError> {
    let upkeep = &Arc::clone(&scrubber.upkeep);
    let silent = upkeep.pool.silent_drives();
    let waits = |drive: &DriveId| silent.contains(drive) && !scrubber.given_up().contains(drive);
    let asked = bad.len();
    let bad: BTreeSet<BadShard> = bad.iter().filter(|bad| !waits(&bad.drive)).copied().collect();
    scrubber.has_left_out |= bad.len() < asked;
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let mut pacing = |bytes: ByteCount| pace(upkeep, bytes);
    let mut repaired = with_sealed(upkeep, || upkeep.pool.repair(blob, &bad, &mut pacing))?;
    if lost_values > 0 {
        let why = format!("written anew, but {lost_values} of its values are whole in no copy");
        repaired.failed.extend(repaired.in_place.drain(..).map(|bad| (bad, why.clone())));
    }
    let failed = repaired.failed.iter().map(|(bad, _)| bad.stripe);
    let left_out: BTreeSet<u32> = failed.chain(repaired.lost.iter().map(|row| row.stripe)).collect();
    for stripe in left_out {
        // Of what no drive holds any more nothing is to come.
        let is_lost = matches!(upkeep.pool.stripe_state(blob, stripe), Ok(PieceState::Gone))
            && upkeep.note_lost_stripe(blob.id, stripe);
        scrubber.has_left_out |= !is_lost;
    }
    tell(scrubber, blob.id, &repaired);
    record_moves(upkeep, blob, repaired.moved)
}

/// Writes shards anew; of a segment that is still written to, once it is sealed.
pub(crate) fn with_sealed<T>(
    upkeep: &Upkeep,
    mut write: impl FnMut() -> Result<T, PoolError>,
) -> Result<T, PoolError> {
    match write() {
        Err(PoolError::SegmentOpen(_)) => {
            upkeep.pool.seal_segments();
            write()
        }
        written => written,
    }
}

/// Tells the catalogue where stripes of a blob stand now; gives what is to be removed when all readers have
/// left. Called within a reading of the gate.
pub(crate) fn record_moves(
    upkeep: &Upkeep,
    blob: &BlobDescription,
    moved: Vec<MovedStripe>,
) -> Result<Vec<OldShards>, ArchiveError> {
    let mut old = Vec::new();
    for step in moved {
        let MovedStripe { stripe, from, to, old: left } = step;
        let placed: Vec<BadShard> = left.iter().map(|bad| at(&to.drives, *bad)).collect();
        let (id, extents) = (blob.id, blob.extents());
        match upkeep.execute(Command::MoveStripe { blob: id, stripe, from, to }) {
            Ok(()) => old.push(OldShards { blob: id, extents, shards: left, bytes: ByteCount(0) }),
            Err(error) => {
                // Moved or removed by another: nobody refers to what was written here.
                if error.is_certain_refusal() {
                    upkeep.pool.remove_moved(extents, &placed)?;
                }
                return Err(error);
            }
        }
    }
    Ok(old)
}

fn at(drives: &[DriveId], bad: BadShard) -> BadShard {
    BadShard { drive: drives.get(usize::from(bad.shard)).copied().unwrap_or(bad.drive), ..bad }
}

/// What was repaired, or found again, since the log was told of it last: files may be many, and `kist scrub`
/// lists the findings.
#[derive(Default)]
pub(crate) struct Tally {
    repaired: u64,
    moved: u64,
    failed: u64,
    lost: u64,
    /// What the first line would have been.
    first: Option<String>,
    /// Lost files that can be read again.
    pub(crate) found_again: u64,
}

impl Tally {
    fn add(&mut self, repaired: &Repaired, lines: &[String]) {
        self.repaired += repaired.in_place.len() as u64;
        self.moved += repaired.moved.len() as u64;
        self.failed += repaired.failed.len() as u64;
        self.lost += repaired.lost_rows;
        // What could not be done is worth more to know.
        let first = lines.iter().find(|line| line.contains("not repaired")).or(lines.first());
        self.first = self.first.take().or_else(|| first.cloned());
    }

    /// The lines for the log, each with whether it is a warning; all is counted anew from here on.
    fn take(&mut self) -> Vec<(bool, String)> {
        let Tally { repaired, moved, failed, lost, first, found_again } = std::mem::take(self);
        let mut lines = Vec::new();
        if let Some(first) = first {
            let counts = format!(
                "shards repaired in place: {repaired}, stripes rebuilt on other drives: {moved}, shards not \
                 repaired: {failed}, rows lost: {lost}"
            );
            lines.push((true, format!("{counts}; the first: {first}; all: kist scrub")));
        }
        if found_again > 0 {
            lines.push((false, format!("lost files that can be read again: {found_again}")));
        }
        lines
    }

    /// Tells the log, in a line for each kind of thing.
    pub(crate) fn tell(&mut self) {
        for (is_warning, line) in self.take() {
            if is_warning {
                tracing::warn!("{line}");
            } else {
                tracing::info!("{line}");
            }
        }
    }
}

fn tell(scrubber: &mut Scrubber, blob: BlobId, repaired: &Repaired) {
    let mut found = Vec::new();
    found.extend(repaired.in_place.iter().map(|shard| Found::of_shard(blob, shard, "repaired")));
    for step in &repaired.moved {
        for BadShard { stripe, shard, drive } in &step.old {
            let to = step.to.drives.get(usize::from(*shard)).map(ToString::to_string).unwrap_or_default();
            let place = format!("stripe {stripe}, shard {shard}");
            found.push(Found::at(blob, place, &format!("rebuilt on drive {to} instead of {drive}")));
        }
    }
    for (shard, why) in &repaired.failed {
        found.push(Found::of_shard(blob, shard, &format!("not repaired: {why}")));
    }
    found.extend(repaired.lost.iter().map(Found::from));
    let lines: Vec<String> = found.iter().map(Found::line).collect();
    for line in &lines {
        tracing::debug!("{line}");
    }
    scrubber.tally.add(repaired, &lines);
    scrubber.upkeep.note(|info| {
        info.repaired += repaired.in_place.len() as u64;
        info.moved += repaired.moved.len() as u64;
        info.failed += repaired.failed.len() as u64;
    });
    scrubber.upkeep.found(found);
}

/// Rebuilds what is on drives that are given up onto others, and on replaced drives in place: first the
/// stripes that bear no further loss, then those that bear one, and so on.
pub(crate) fn all(
    scrubber: &mut Scrubber,
    replaced: &BTreeSet<DriveId>,
) -> Result<Vec<OldShards>, ArchiveError> {
    let upkeep = Arc::clone(&scrubber.upkeep);
    let wanting: BTreeSet<DriveId> = scrubber.given_up().union(replaced).copied().collect();
    upkeep.forget_lost_stripes();
    let mut first_error = None;
    for left in 0..=usize::from(u8::MAX) {
        let (mut after, mut higher) = (None, false);
        loop {
            let page = upkeep.blob_page(after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for blob in page.into_iter().filter_map(|(_, blob)| blob) {
                let (now, later) = bad_at(&blob, &wanting, left);
                higher |= later;
                if now.is_empty() {
                    continue;
                }
                if let Err(error) = rebuild_one(scrubber, blob.id, &wanting, left) {
                    tracing::error!(blob = %blob.id, %error, "a blob cannot be rebuilt");
                    first_error.get_or_insert(error);
                }
                if upkeep.stopping() {
                    return Ok(Vec::new());
                }
            }
        }
        if !higher {
            break;
        }
    }
    first_error.map_or(Ok(Vec::new()), Err)
}

/// The shards to be rebuilt in stripes that bear `left` further losses, and whether there are stripes that
/// bear more.
fn bad_at(blob: &BlobDescription, wanting: &BTreeSet<DriveId>, left: usize) -> (BTreeSet<BadShard>, bool) {
    let (mut now, mut later) = (BTreeSet::new(), false);
    let all = shards_on(blob, wanting);
    for bad in &all {
        let lost = all.iter().filter(|other| other.stripe == bad.stripe).count();
        // More may be gone than it bears: a replaced drive may hold shards all the same, so it is tried.
        match blob.layout.bears().saturating_sub(lost) {
            bears if bears == left => drop(now.insert(*bad)),
            bears => later |= bears > left,
        }
    }
    (now, later)
}

/// One blob, its description read anew within the gate.
fn rebuild_one(
    scrubber: &mut Scrubber,
    id: BlobId,
    wanting: &BTreeSet<DriveId>,
    left: usize,
) -> Result<(), ArchiveError> {
    scrubber.remove_left_behind();
    let upkeep = Arc::clone(&scrubber.upkeep);
    let reading = upkeep.gate.enter();
    let Some(blob) = upkeep.read(|view| view.blob(id))? else { return Ok(()) };
    let (bad, _) = bad_at(&blob, wanting, left);
    let moved = repair(scrubber, &blob, &bad, 0)?;
    drop(reading);
    scrubber.leave(moved);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(shard: u8) -> BadShard {
        BadShard { stripe: 0, shard, drive: DriveId(7) }
    }

    /// A lost drive of a full pool wrote nine lines a file into the log.
    #[test]
    fn the_log_is_told_of_repairs_in_one_line() {
        let mut tally = Tally::default();
        assert!(tally.take().is_empty());
        let in_place = Repaired { in_place: vec![shard(0), shard(1)], ..Repaired::default() };
        tally.add(&in_place, &["shard 0: repaired".to_owned(), "shard 1: repaired".to_owned()]);
        for number in 0..9 {
            let failed = vec![(shard(number), "no room".to_owned())];
            let lines = [format!("shard {number}: not repaired: no room")];
            tally.add(&Repaired { failed, ..Repaired::default() }, &lines);
        }
        tally.found_again = 1000;
        let lines = tally.take();
        let [(true, repairs), (false, found)] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(
            repairs.contains("repaired in place: 2,") && repairs.contains("not repaired: 9,"),
            "{repairs}"
        );
        assert!(repairs.contains("the first: shard 0: repaired;"), "{repairs}");
        assert_eq!(found, "lost files that can be read again: 1000");
        assert!(tally.take().is_empty(), "it is told once");
    }
}
