//! The one place that tells why something waits. `kist why`, `queue`, `request show`, `status`, the answers
//! of the doors and the metrics all ask here, so that no two of them name different causes.

use base::{ByteCount, ClassId, ContainerId, FileId, TapePoolId, Timestamp, Vid};
use catalogue::{ContainerKind, Counter, QueuedContainer, ReadError, Tally, TapeRecord, TapeState, View};
use cluster::PlacementError;
use pool::{DriveHealth, PoolError};
use scheduler::DriveName;

use crate::capacity::is_of_no_use;
use crate::resting::Rest;
use crate::room::Tape;
use crate::room_for_reads::Short;
use ground::{HealthProblem, is_unidentified};
use scheduler::{Reason, ShortRoom};

/// Containers at the head of a queue that are compared with the tapes. What no tape takes stays there: it is
/// found although only the head is looked at.
const HEAD_MAX: usize = 256;
/// Empty tapes that a reason names.
const EMPTY_NAMED_MAX: usize = 10;

/// What may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting<'a> {
    /// The files of a class, to be gathered into containers.
    Seal(ClassId),
    /// The containers queued for a tape pool, but for those that no tape takes.
    Migration(TapePoolId),
    /// One container that is queued for a tape pool, with its bytes.
    Copy(ContainerId, ByteCount, TapePoolId),
    /// A container that was planned on a tape and is not whole there.
    Planned(Vid),
    /// A file that somebody waits for.
    Recall(FileId),
    /// A tape: what is done with it, or why what is wanted from it is not read.
    Tape(Vid),
    /// Work on a tape for which nobody waits: checks, what repacks and repairs read there.
    Maintenance(Vid),
    /// The repack of a tape.
    Repack(Vid),
    /// Copies that are written anew because they are damaged, and whose bytes are to come from tape.
    Repairs,
    /// What repacks and repairs read from tapes, if it waits for room in the pool.
    RoomForReads,
    /// A tape drive: what it does, or why it does nothing.
    Drive(&'a DriveName),
}

/// Containers at the head of a tape pool's queue that no tape of the pool takes.
#[derive(Clone, Default, Debug)]
pub(crate) struct TooLarge {
    pub(crate) containers: Vec<(ContainerId, QueuedContainer)>,
    /// The largest container that a tape of the pool takes when it is empty.
    pub(crate) largest: ByteCount,
}

impl TooLarge {
    pub(crate) fn tally(&self) -> Tally {
        let bytes = self.containers.iter().fold(0u64, |sum, (_, row)| sum.saturating_add(row.length.0));
        Tally { files: self.containers.len() as u64, bytes: ByteCount(bytes) }
    }

    /// The reason of the first one.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let (_, first) = self.containers.first()?;
        Some(Reason::LargerThanTapes { length: first.length, largest: self.largest })
    }
}

impl Tape {
    /// Why something waits; `None` if the scheduler has not heard of it yet, or there is no such thing.
    pub(crate) fn reason(&self, waiting: Waiting<'_>) -> Result<Option<Reason>, ReadError> {
        let now = self.now();
        let reason = match waiting {
            Waiting::Seal(class) => Some(self.why_not_sealed(class, now)),
            Waiting::Migration(pool) => Some(self.why_queue_waits(pool, now)?),
            Waiting::Copy(container, length, pool) => {
                let largest = self.catalogue.read(|view| self.largest_of(view, pool))?;
                match largest.filter(|largest| length > *largest) {
                    Some(largest) => Some(Reason::LargerThanTapes { length, largest }),
                    None => self.rest_of(container, now).or_else(|| Some(self.why_not_written(pool, now))),
                }
            }
            Waiting::Planned(vid) => self.scheduler().why_planned(vid),
            Waiting::Recall(file) => self.why_recalling(file, now)?,
            Waiting::Tape(vid) => Some(self.why_tape(vid)?),
            Waiting::Maintenance(vid) => Some(self.why_maintenance_waits(vid)),
            // What they wait for was asked for here already.
            Waiting::Repack(vid) => return Ok(self.repack_waits_for(vid)?.map(|wait| wait.reason)),
            Waiting::Repairs => return self.why_repairs_wait(),
            Waiting::RoomForReads => self.no_room_for_reads(),
            Waiting::Drive(drive) => self.scheduler().why_drive(drive, now),
        };
        let reason = reason.map(|reason| self.while_drives_look(self.why_nothing_fits(reason)));
        let reason = reason.map(|reason| self.while_keys_are_missing(waiting, reason));
        reason.map(|reason| self.with_other_tapes(waiting, reason)).transpose()
    }

    /// For the scheduler a place that could not be read rests, or is none, whatever becomes of the container
    /// meanwhile.
    fn why_recalling(&self, file: FileId, now: Timestamp) -> Result<Option<Reason>, ReadError> {
        let told = self.scheduler().why_recalling(file, now);
        let may_be_awaited = match &told {
            Some(Reason::Resting { .. }) => true,
            // No tape is to give it.
            Some(Reason::NoReadableCopy { tapes }) => tapes.is_empty(),
            _ => false,
        };
        if may_be_awaited { Ok(self.why_awaited(file)?.or(told)) } else { Ok(told) }
    }

    /// For the scheduler, drives that look at tapes since a restore are down; nobody has to do anything about
    /// that.
    fn while_drives_look(&self, reason: Reason) -> Reason {
        match reason {
            Reason::DriveDown { drive, .. } if self.settling.takes_part(&drive) => {
                let vid = self.settling.looked_at_by(&drive);
                Reason::DriveLooks { drive, vid }
            }
            Reason::AllDrivesDown { .. }
            | Reason::PoolsLibraryDown { .. }
            | Reason::NoDriveInLibrary { .. } => match self.settling.drives_look() {
                Some((done, tapes)) => Reason::DrivesLook { done, tapes },
                None => reason,
            },
            Reason::WaitingForStream { .. } | Reason::HostCannotWrite { .. }
                if self.has_no_room_for_work() =>
            {
                Reason::CatalogueFull
            }
            reason => reason,
        }
    }

    /// The scheduler hears of a wanted file a little later than the catalogue, and of those of before a start
    /// all at once; until then nothing waits for it, which is not so.
    fn why_tape(&self, vid: Vid) -> Result<Reason, ReadError> {
        let reason = self.scheduler().why_tape(vid);
        if !matches!(reason, Reason::NothingWaits | Reason::InSlot | Reason::KeptMounted { .. }) {
            return Ok(reason);
        }
        if !self.libraries.holds(vid) {
            let record = self.catalogue.read(|view| view.tape(vid))?;
            let away = record.and_then(|record| record.away).map(|away| away.to_string());
            return Ok(Reason::TapeAway { vid, away, unreached: self.unreached() });
        }
        if let Some(reason) = self.why_awaited_on(vid)? {
            return Ok(reason);
        }
        let wanted = self.catalogue.read(|view| view.tally(Counter::Wanted(vid)))?;
        Ok(if wanted.files > 0 { Reason::NotHeardYet { vid } } else { reason })
    }

    /// The scheduler knows that nothing fits into the pool, not why: no evict helps where drives lack, and
    /// what leaves is no help to who waits for his class's own room, or for more than will be free.
    fn why_nothing_fits(&self, reason: Reason) -> Reason {
        let Reason::WaitingForSpace { free, of, .. } = &reason else { return reason };
        match self.no_place_in_pool() {
            Some(lack @ Reason::TooFewPoolDrives { .. }) => lack,
            _ if *of == ShortRoom::Pool && self.evictor_info().makes_room => {
                Reason::RoomIsBeingMade { free: *free }
            }
            _ => reason,
        }
    }

    /// Why what repacks and repairs read from tape waits that found no room in the pool.
    pub(crate) fn no_room(&self, short: Short) -> Reason {
        let Short { need, until, .. } = short;
        let goes_on = self.maintenance().makes_room();
        match self.no_place_in_pool() {
            Some(lack @ Reason::TooFewPoolDrives { .. }) => lack,
            _ => Reason::NoRoomForReads { need, free: self.room_for_files(), until, goes_on },
        }
    }

    /// For the scheduler nothing waits that has no room in the pool, or whose tape may not be mounted.
    fn why_maintenance_waits(&self, vid: Vid) -> Reason {
        if let Some(reason) = self.why_held_back(vid) {
            return Reason::TapeNotReadable { vid, reason };
        }
        match self.scheduler().why_maintenance(vid) {
            Reason::NothingWaits => {}
            reason => return reason,
        }
        let rests = || self.why_reads_rest_on(vid);
        self.no_room_for_reads_of(vid).or_else(rests).unwrap_or(Reason::NothingWaits)
    }

    /// Why a tape on which a session was cut short is not mounted to close it.
    pub(crate) fn why_not_closed(&self, vid: Vid) -> Result<Reason, ReadError> {
        if !self.libraries.holds(vid) {
            return self.why_tape(vid);
        }
        Ok(self.while_drives_look(self.why_maintenance_waits(vid)))
    }

    /// The scheduler knows that nothing could be gathered, not why; and not at all that a seal of full packs
    /// failed. What lasts is told as long as it lasts, also while the seal is tried once more.
    fn why_not_sealed(&self, class: ClassId, now: Timestamp) -> Reason {
        let reason = self.scheduler().why_sealing(class, now);
        let failed = self.seal_failures.of(class);
        let is_due = failed.is_some() || matches!(reason, Reason::Resting { .. });
        if !is_due || matches!(reason, Reason::NothingWaits | Reason::NoPolicy) {
            return reason;
        }
        if self.has_no_room_for_work() {
            return Reason::CatalogueFull;
        }
        if let Some(lasting) = self.no_place_in_pool() {
            return lasting;
        }
        match (reason, failed) {
            (Reason::Resting { until, .. }, Some(cause)) => Reason::Resting { until, cause },
            (reason, _) => reason,
        }
    }

    /// Why the pool takes no new stripe, if it takes none.
    fn no_place_in_pool(&self) -> Option<Reason> {
        match self.pool.check_placement().err()? {
            error if error.is_full() => Some(Reason::PoolFull),
            PoolError::Placement(PlacementError::TooFewDrives { width, writable }) => {
                let drives = self.pool.drive_health();
                let drives = drives.iter().filter(|(_, health)| *health != DriveHealth::Up);
                let drives = drives.map(|(id, health)| (format!("drive {id}"), health.word().to_owned()));
                Some(Reason::TooFewPoolDrives { needed: width, takes: writable, drives: drives.collect() })
            }
            _ => None,
        }
    }

    /// The scheduler hears nothing of what stands on a tape in part, until it was taken over.
    fn why_not_written(&self, pool: TapePoolId, now: Timestamp) -> Reason {
        let scheduler = self.scheduler();
        match scheduler.why_migrating(pool, now) {
            Reason::NothingWaits => scheduler.why_host_cannot_write(pool).unwrap_or(Reason::NothingWaits),
            reason => reason,
        }
    }

    /// Why nothing goes to one of the tape pools until somebody does something.
    pub(crate) fn why_stuck_for_tape(&self) -> Option<Reason> {
        let pools = self.classes.tape_pools().keys();
        let mut reasons = pools.filter_map(|pool| self.reason(Waiting::Migration(*pool)).ok().flatten());
        reasons.find(Reason::needs_an_operator)
    }

    /// The scheduler knows of no tapes that may not be written; some of these may only have to be reclaimed,
    /// or are not at hand.
    fn with_other_tapes(&self, waiting: Waiting<'_>, reason: Reason) -> Result<Reason, ReadError> {
        if reason != Reason::NoScratchTape {
            return Ok(reason);
        }
        let unreached = self.unreached();
        if !unreached.is_empty() {
            return Ok(Reason::NoTapeAtHand { unreached, away: Vec::new(), unidentified: Vec::new() });
        }
        let (known, kept) =
            self.catalogue.read(|view| Ok::<_, ReadError>((view.tapes()?, view.quarantine()?)))?;
        // None is reclaimed before a quarantine ends.
        if kept.is_some() {
            return Ok(reason);
        }
        let empty = known.iter().filter(|(_, tape)| is_to_reclaim(tape)).map(|(vid, _)| *vid);
        let tapes: Vec<Vid> = empty.take(EMPTY_NAMED_MAX).collect();
        if !tapes.is_empty() {
            return Ok(Reason::OnlyEmptyTapes { tapes });
        }
        let of_pool = match waiting {
            Waiting::Migration(pool) | Waiting::Copy(_, _, pool) => Some(pool),
            _ => None,
        };
        let is_away = |(vid, tape): &&(Vid, TapeRecord)| {
            let is_open = tape.state == TapeState::Active && tape.tape_pool == of_pool;
            of_pool.is_some() && is_open && !self.libraries.holds(*vid)
        };
        let is_unknown =
            |(vid, tape): &&(Vid, TapeRecord)| is_unidentified(tape) && self.libraries.holds(*vid);
        let named = |is: &dyn Fn(&&(Vid, TapeRecord)) -> bool| -> Vec<Vid> {
            known.iter().filter(|row| is(row)).map(|(vid, _)| *vid).take(EMPTY_NAMED_MAX).collect()
        };
        let (away, unidentified) = (named(&is_away), named(&is_unknown));
        Ok(match away.is_empty() && unidentified.is_empty() {
            true => reason,
            false => Reason::NoTapeAtHand { unreached, away, unidentified },
        })
    }

    /// Whether this host fails to write to tapes.
    pub(crate) fn tapes_not_written(&self) -> Option<HealthProblem> {
        let (_, reason) = self.scheduler().hosts_failures().next()?;
        let Reason::HostCannotWrite { until, cause } = reason else { return None };
        Some(HealthProblem::TapesNotWritten { until, cause })
    }

    /// For the scheduler nothing waits that is left alone.
    fn why_queue_waits(&self, pool: TapePoolId, now: Timestamp) -> Result<Reason, ReadError> {
        let reason = self.scheduler().why_migrating(pool, now);
        if reason != Reason::NothingWaits {
            return Ok(reason);
        }
        let (head, too_large) = self.catalogue.read(|view| {
            Ok::<_, ReadError>((view.queue(pool, None, HEAD_MAX)?, self.too_large(view, pool)?))
        })?;
        // What can never come to tape says more than what is tried again.
        let mut rest = None;
        for (container, _) in &head {
            if let Some(reason) = self.rest_of(*container, now) {
                if self.is_of_lost_file(*container)? {
                    return Ok(Reason::Lost);
                }
                rest = rest.or(Some(reason));
            }
        }
        Ok(rest.or_else(|| too_large.reason()).unwrap_or_else(|| self.why_not_written(pool, now)))
    }

    /// Until when a container is left alone, and why.
    fn rest_of(&self, container: ContainerId, now: Timestamp) -> Option<Reason> {
        let Rest { until, why, .. } = self.own.resting.rest_of(container, now)?;
        Some(Reason::Resting { until, cause: why })
    }

    /// Whether a container is of one file, which is LOST: it is tried again, but nothing comes of that before
    /// somebody does something. What is lost of a pack is left out when the pack is sealed anew.
    fn is_of_lost_file(&self, container: ContainerId) -> Result<bool, ReadError> {
        self.catalogue.read(|view| {
            let Some(record) = view.container(container)? else { return Ok(false) };
            let file = match record.kind {
                ContainerKind::File(file) | ContainerKind::Segment { file, .. } => view.file(file)?,
                ContainerKind::Pack => None,
            };
            Ok(file.is_some_and(|file| file.is_lost()))
        })
    }

    /// What stands at the head of a tape pool's queue and is larger than any of its tapes.
    pub(crate) fn too_large(&self, view: &View<'_>, pool: TapePoolId) -> Result<TooLarge, ReadError> {
        let mut containers = view.queue(pool, None, HEAD_MAX)?;
        if containers.is_empty() {
            return Ok(TooLarge::default());
        }
        let Some(largest) = self.largest_of(view, pool)? else { return Ok(TooLarge::default()) };
        containers.retain(|(_, queued)| queued.length > largest);
        Ok(TooLarge { containers, largest })
    }
}

/// Whether a tape holds nothing and is written to for nothing: reclaimed, it is a scratch tape. That other
/// tapes must take what it has of the catalogue's history first, its reclaim tells.
pub(crate) fn is_to_reclaim(tape: &TapeRecord) -> bool {
    let is_out_of_use = matches!(
        tape.state,
        TapeState::Full | TapeState::ReadOnly | TapeState::Disabled | TapeState::Repacking
    );
    let is_empty = tape.containers == 0 && tape.run.is_none();
    is_out_of_use && is_empty && tape.uuid.is_some() && !is_unidentified(tape) && !is_of_no_use(tape)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Nobody asks the scheduler past this module: screens that did told other causes than the others.
    #[test]
    fn reasons_are_asked_for_here_only() {
        let mut asking = Vec::new();
        let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if fs::read_to_string(&path).unwrap().contains(concat!("scheduler()", ".why_")) {
                asking.push(path.file_name().unwrap().to_owned());
            }
        }
        assert_eq!(asking, ["reasons.rs"]);
    }
}
