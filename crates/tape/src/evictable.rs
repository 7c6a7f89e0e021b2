//! How much could leave the pool now: from counters and the heads of queues, never by a scan of files.

use std::collections::BTreeSet;

use base::{BlockAddress, ByteCount, ContainerId, FileId, TapePoolId};
use catalogue::{Counter, FileRecord, ReadError, Tally, View};

use upkeep::is_out_of_reach;

use crate::room::Tape;
use ground::PoolHolders;

/// Containers without all their copies that are looked up one by one; of further ones only the bytes count.
const CONTAINERS_MAX: usize = 2_000;
/// Pinned files that are looked up one by one; further ones count as if nobody held them.
const PINNED_MAX: usize = 2_000;
/// Files of tapes out of reach that are looked up one by one; further ones count as if these could be read.
const OUT_OF_REACH_MAX: usize = 2_000;

/// Who holds the pool's room. Empty files and links among the files are not told apart, and neither is what
/// pins or queues hold beyond the first thousands. Nothing is evicted before a restore is settled.
pub(crate) fn holders(room: &Tape, view: &View<'_>) -> Result<PoolHolders, ReadError> {
    let quarantined = room.upkeep.quarantine_use().map_or(ByteCount(0), |kept| kept.bytes);
    let mut holders = PoolHolders { quarantined, ..PoolHolders::default() };
    if view.is_restored()? {
        return Ok(holders);
    }
    let mut sum = Tally::default();
    for class in room.classes.all() {
        let (online, todo) = (view.tally(Counter::Online(class.id))?, view.tally(Counter::Todo(class.id))?);
        if class.copies.is_empty() {
            add(&mut holders.without_tape, online);
        } else {
            add(&mut sum, online);
            add(&mut holders.unsafe_yet, todo);
        }
    }
    let (waiting, uncounted) = waiting_containers(room, view)?;
    add(&mut holders.unsafe_yet, Tally { files: 0, bytes: uncounted });
    for id in waiting {
        let Some(container) = view.container(id)?.filter(|container| !container.is_safe()) else { continue };
        let members = Tally { files: container.live_members.into(), bytes: container.live_bytes };
        add(&mut holders.unsafe_yet, members);
    }
    for file in view.pinned_files(PINNED_MAX)? {
        if let Some(record) = held_by_pins_alone(room, view, file)? {
            add(&mut holders.pinned, Tally { files: 1, bytes: record.size });
        }
    }
    holders.out_of_reach = out_of_reach(room, view)?;
    let held = |of: fn(Tally) -> u64| {
        let others = of(holders.pinned).saturating_add(of(holders.out_of_reach));
        of(holders.unsafe_yet).saturating_add(others)
    };
    let bytes = sum.bytes.0.saturating_sub(held(|tally| tally.bytes.0));
    if bytes > 0 {
        let files = sum.files.saturating_sub(held(|tally| tally.files));
        holders.evictable = Tally { files, bytes: ByteCount(bytes) };
    }
    Ok(holders)
}

fn add(sum: &mut Tally, more: Tally) {
    sum.files = sum.files.saturating_add(more.files);
    sum.bytes.0 = sum.bytes.0.saturating_add(more.bytes.0);
}

/// Containers that may lack a copy under an index, and the bytes of those that were not looked for.
fn waiting_containers(room: &Tape, view: &View<'_>) -> Result<(BTreeSet<ContainerId>, ByteCount), ReadError> {
    let mut found = BTreeSet::new();
    let mut uncounted = 0;
    for pool in room.classes.tape_pools().keys() {
        let rows = view.queue(*pool, None, CONTAINERS_MAX)?;
        if rows.len() == CONTAINERS_MAX {
            let seen = rows.iter().fold(0u64, |sum, (_, queued)| sum.saturating_add(queued.length.0));
            uncounted = uncounted.max(queued_bytes(view, *pool)?.saturating_sub(seen));
        }
        found.extend(rows.into_iter().map(|(id, _)| id));
    }
    for (vid, tape) in view.tapes()? {
        if tape.uuid.is_some() {
            let from = BlockAddress(tape.index_block.0 + 1);
            found.extend(view.content(vid, from, CONTAINERS_MAX)?.into_iter().map(|(_, id)| id));
        }
        let Some(run) = tape.run else { continue };
        let from = view.run(run)?.map_or(0, |record| record.committed);
        found.extend(view.run_items(run, from, CONTAINERS_MAX)?.into_iter().map(|item| item.container));
    }
    Ok((found, ByteCount(uncounted)))
}

fn queued_bytes(view: &View<'_>, pool: TapePoolId) -> Result<u64, ReadError> {
    Ok(view.tally(Counter::Queued(pool))?.bytes.0)
}

/// Files in the pool that nobody pins and whose tapes could not give them back, by the rule of an evict.
fn out_of_reach(room: &Tape, view: &View<'_>) -> Result<Tally, ReadError> {
    let (mut seen, mut left, mut sum) = (BTreeSet::new(), OUT_OF_REACH_MAX, Tally::default());
    for (vid, tape) in view.tapes()? {
        if tape.uuid.is_none() || room.may_be_read(view, vid, &tape)? {
            continue;
        }
        for (_, container) in view.content(vid, BlockAddress(0), CONTAINERS_MAX)? {
            if left == 0 {
                return Ok(sum);
            }
            if !seen.insert(container) {
                continue;
            }
            let members = view.members(container, None, left)?;
            left -= members.len();
            for member in members {
                if is_out_of_reach(&room.upkeep, view, member.file)? && view.pins(member.file)?.is_empty() {
                    // Bytes of this part: a large file may stand in several.
                    let files = u64::from(member.file_offset.0 == 0);
                    add(&mut sum, Tally { files, bytes: member.length });
                }
            }
        }
    }
    Ok(sum)
}

/// The file, if tapes have all of it and it is in the pool.
fn held_by_pins_alone(room: &Tape, view: &View<'_>, file: FileId) -> Result<Option<FileRecord>, ReadError> {
    let Some(record) = view.file(file)?.filter(|file| file.is_online() && file.has_data()) else {
        return Ok(None);
    };
    if room.classes.get(record.class).is_none_or(|class| class.copies.is_empty()) {
        return Ok(None);
    }
    let is_on_tape = view.safe_on_tape(file)?.is_some_and(|covered| covered.0 > 0);
    Ok(is_on_tape.then_some(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: a full pool all of whose files were pinned was to be migrated.
    #[test]
    fn the_advice_names_who_holds_the_room() {
        let held = |files, bytes| Tally { files, bytes: ByteCount(bytes) };
        let pinned = PoolHolders { pinned: held(3, 3_000_000), ..PoolHolders::default() }.advice(None);
        assert!(
            pinned.starts_with("nothing can be evicted now; 3 files (3.00 MB) are held by pins"),
            "{pinned}"
        );
        assert!(pinned.contains("kist release") && !pinned.contains("migrate"), "{pinned}");
        let waiting = PoolHolders { unsafe_yet: held(1, 500), ..PoolHolders::default() }.advice(None);
        assert!(waiting.contains("kist migrate") && !waiting.contains("release"), "{waiting}");
        // Story: with no scratch tape the advice was to hurry to tape what could not come there.
        let stuck = PoolHolders { unsafe_yet: held(1, 500), ..PoolHolders::default() };
        let stuck = stuck.advice(Some(&scheduler::Reason::NoScratchTape));
        assert!(stuck.contains("there is no scratch tape") && !stuck.contains("kist migrate"), "{stuck}");
        let ready = PoolHolders { evictable: held(2, 500), ..PoolHolders::default() }.advice(None);
        assert_eq!(ready, "up to 2 files (500 B) can be evicted now (kist evict)");
        let kept = PoolHolders { quarantined: ByteCount(4_000_000), ..PoolHolders::default() }.advice(None);
        assert!(kept.starts_with("nothing can be evicted now; 4.00 MB of the drives are in"), "{kept}");
        assert!(kept.contains("kist pool quarantine --end"), "{kept}");
    }
}
