//! Repair of shards, and of all that lost drives held, the least redundant first.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId, Layout};
use catalogue::Command;
use pool::{BadShard, MovedStripe, PieceState, PoolError, Repaired};

use crate::Upkeep;
use crate::findings::Found;
use crate::left_behind::OldShards;
use crate::rebuild_progress::{Due, bears_still};
use crate::rebuild_workers::{self, Finds, Outcome, StripeOf};
use crate::scrub::{Scrubber, pace, pace_rebuild};
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

/// What came of the repair of some shards of a blob.
pub(crate) struct Mended {
    blob: BlobId,
    repaired: Repaired,
    /// A shard stays as it was: its drive does not answer, or too few others are whole.
    left_out: bool,
    /// What is to be removed when all readers have left; an error if the catalogue could not be told.
    old: Result<Vec<OldShards>, ArchiveError>,
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
    let mut pacing = |bytes: ByteCount| pace(upkeep, bytes);
    let mended = mend(upkeep, scrubber.given_up(), (blob, bad, lost_values), &mut pacing)?;
    hear(scrubber, mended)
}

/// As [`repair`], by whichever thread; then the scrubber is to [`hear`] of it.
fn mend(
    upkeep: &Upkeep,
    given_up: &BTreeSet<DriveId>,
    (blob, bad, lost_values): (&BlobDescription, &BTreeSet<BadShard>, usize),
    pacing: &mut dyn FnMut(ByteCount) -> bool,
) -> Result<Mended, ArchiveError> {
    let silent = upkeep.pool.silent_drives();
    let waits = |drive: &DriveId| silent.contains(drive) && !given_up.contains(drive);
    let asked = bad.len();
    let bad: BTreeSet<BadShard> = bad.iter().filter(|bad| !waits(&bad.drive)).copied().collect();
    let mut left_out = bad.len() < asked;
    if bad.is_empty() {
        return Ok(Mended { blob: blob.id, repaired: Repaired::default(), left_out, old: Ok(Vec::new()) });
    }
    let mut repaired = with_sealed(upkeep, || upkeep.pool.repair(blob, &bad, pacing))?;
    if lost_values > 0 {
        let why = format!("written anew, but {lost_values} of its values are whole in no copy");
        repaired.failed.extend(repaired.in_place.drain(..).map(|bad| (bad, why.clone())));
    }
    let failed = repaired.failed.iter().map(|(bad, _)| bad.stripe);
    let not_whole: BTreeSet<u32> = failed.chain(repaired.lost.iter().map(|row| row.stripe)).collect();
    for stripe in not_whole {
        // Of what no drive holds any more nothing is to come.
        let is_lost = matches!(upkeep.pool.stripe_state(blob, stripe), Ok(PieceState::Gone))
            && upkeep.note_lost_stripe(blob.id, stripe);
        left_out |= !is_lost;
    }
    let old = record_moves(upkeep, blob, repaired.moved.clone());
    Ok(Mended { blob: blob.id, repaired, left_out, old })
}

/// Tells what came of a repair, and gives what is to be removed when all readers have left.
fn hear(scrubber: &mut Scrubber, mended: Mended) -> Result<Vec<OldShards>, ArchiveError> {
    let Mended { blob, repaired, left_out, old } = mended;
    scrubber.has_left_out |= left_out;
    tell(scrubber, blob, &repaired);
    old
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
/// stripes that bear no further loss, then those that bear one, and so on; of each kind several at once.
pub(crate) fn all(scrubber: &mut Scrubber, replaced: &BTreeSet<DriveId>) -> Result<(), ArchiveError> {
    let upkeep = Arc::clone(&scrubber.upkeep);
    upkeep.rebuild_begins();
    let done = level_by_level(scrubber, replaced);
    upkeep.rebuild_ends();
    done
}

fn level_by_level(scrubber: &mut Scrubber, replaced: &BTreeSet<DriveId>) -> Result<(), ArchiveError> {
    let upkeep = Arc::clone(&scrubber.upkeep);
    let given_up = scrubber.given_up().clone();
    let wanting: BTreeSet<DriveId> = given_up.union(replaced).copied().collect();
    upkeep.forget_lost_stripes();
    let mut first_error = None;
    let mut due = Due::default();
    for left in 0..=usize::from(u8::MAX) {
        // While stripes move by other threads nothing may be removed that the catalogue does not name: what
        // one of them has written is not there yet.
        scrubber.remove_left_behind();
        upkeep.rebuild_is_at(left, &due);
        let counts = (left == 0).then_some(&mut due);
        let mut level = Level {
            scrubber,
            wanting: &wanting,
            left,
            after: None,
            higher: false,
            counts,
            first_error: None,
        };
        let repair = |stripe| rebuild_one(&upkeep, &given_up, stripe, (&wanting, left));
        rebuild_workers::run(upkeep.pool.repairs_at_once(), &mut level, || upkeep.stopping(), repair)?;
        let (higher, error) = (level.higher, level.first_error);
        first_error = first_error.or(error);
        if upkeep.stopping() {
            return Ok(());
        }
        if !higher {
            break;
        }
    }
    scrubber.remove_left_behind();
    first_error.map_or(Ok(()), Err)
}

/// The stripes that bear so many further losses.
struct Level<'a> {
    scrubber: &'a mut Scrubber,
    wanting: &'a BTreeSet<DriveId>,
    left: usize,
    /// Blobs up to this one were looked at.
    after: Option<BlobId>,
    /// There are stripes that bear more.
    higher: bool,
    /// What there is to be rebuilt, if it is to be counted.
    counts: Option<&'a mut Due>,
    first_error: Option<ArchiveError>,
}

impl Finds for Level<'_> {
    fn more(&mut self) -> Result<Option<Vec<rebuild_workers::Found>>, ArchiveError> {
        let page = self.scrubber.upkeep.blob_page(self.after, PAGE)?;
        let Some((last, _)) = page.last() else {
            if let Some(due) = &mut self.counts {
                due.is_counted();
                self.scrubber.upkeep.rebuild_counts(self.left, due);
            }
            return Ok(None);
        };
        self.after = Some(*last);
        let mut found = Vec::new();
        for blob in page.into_iter().filter_map(|(_, blob)| blob) {
            if let Some(due) = &mut self.counts {
                due.count(&self.scrubber.upkeep, &blob, self.wanting);
            }
            let (now, later) = bad_at(&blob, self.wanting, self.left);
            self.higher |= later;
            let stripes: BTreeSet<u32> = now.iter().map(|bad| bad.stripe).collect();
            for stripe in stripes {
                let set = usize::try_from(stripe).ok().and_then(|stripe| blob.stripes.get(stripe));
                let drives = set.into_iter().flat_map(|set| &set.drives).copied();
                let read = drives.filter(|drive| !self.wanting.contains(drive)).collect();
                found.push(((blob.id, stripe), read));
            }
        }
        if let Some(due) = &self.counts {
            self.scrubber.upkeep.rebuild_counts(self.left, due);
        }
        Ok(Some(found))
    }

    fn over(&mut self, blob: BlobId, outcome: Outcome) {
        let bytes = match &outcome {
            Ok(Some(mended)) => mended.repaired.bytes,
            _ => ByteCount(0),
        };
        self.scrubber.upkeep.rebuild_has_done(bytes);
        let heard = outcome.and_then(|mended| mended.map_or(Ok(Vec::new()), |it| hear(self.scrubber, it)));
        match heard {
            Ok(old) => self.scrubber.leave(old),
            Err(error) => {
                tracing::error!(%blob, %error, "a blob cannot be rebuilt");
                self.first_error.get_or_insert(error);
            }
        }
    }
}

/// The shards to be rebuilt in stripes that bear `left` further losses, and whether there are stripes that
/// bear more.
fn bad_at(blob: &BlobDescription, wanting: &BTreeSet<DriveId>, left: usize) -> (BTreeSet<BadShard>, bool) {
    let (mut now, mut later) = (BTreeSet::new(), false);
    let all = shards_on(blob, wanting);
    for bad in &all {
        let lost = all.iter().filter(|other| other.stripe == bad.stripe).count();
        match bears_still(blob, lost) {
            bears if bears == left => drop(now.insert(*bad)),
            bears => later |= bears > left,
        }
    }
    (now, later)
}

/// One stripe, its description read anew within the gate.
fn rebuild_one(
    upkeep: &Upkeep,
    given_up: &BTreeSet<DriveId>,
    (id, stripe): StripeOf,
    (wanting, left): (&BTreeSet<DriveId>, usize),
) -> Outcome {
    let _reading = upkeep.gate.enter();
    let Some(blob) = upkeep.read(|view| view.blob(id))? else { return Ok(None) };
    let (mut bad, _) = bad_at(&blob, wanting, left);
    bad.retain(|bad| bad.stripe == stripe);
    // What is read of segments stands in no order at the drives: clients come first by waiting for them.
    let is_segment = matches!(blob.layout, Layout::Segment { .. });
    let mut pacing =
        |bytes: ByteCount| if is_segment { pace(upkeep, bytes) } else { pace_rebuild(upkeep, bytes) };
    mend(upkeep, given_up, (&blob, &bad, 0), &mut pacing).map(Some)
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
