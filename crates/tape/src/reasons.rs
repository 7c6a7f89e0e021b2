//! The one place that tells why something waits. `kist why`, `queue`, `request show`, `status`, the answers
//! of the doors and the metrics all ask here, so that no two of them name different causes.

use base::{ByteCount, ClassId, ContainerId, FileId, TapePoolId, Timestamp, Vid};
use catalogue::{Counter, QueuedContainer, ReadError, Tally, View};
use cluster::PlacementError;
use pool::{DriveHealth, PoolError};
use scheduler::DriveName;

use crate::resting::Rest;
use crate::room::Tape;
use crate::room_for_reads::Short;
use ground::HealthProblem;
use scheduler::Reason;

/// Containers at the head of a queue that are compared with the tapes. What no tape takes stays there: it is
/// found although only the head is looked at.
const HEAD_MAX: usize = 256;

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
            Waiting::Recall(file) => self.scheduler().why_recalling(file, now),
            Waiting::Tape(vid) => Some(self.why_tape(vid)?),
            Waiting::Maintenance(vid) => Some(self.why_chores_wait(vid)),
            // What they wait for was asked for here already.
            Waiting::Repack(vid) => return Ok(self.repack_waits_for(vid)?.map(|wait| wait.reason)),
            Waiting::Repairs => return self.why_repairs_wait(),
            Waiting::RoomForReads => self.no_room_for_reads(),
            Waiting::Drive(drive) => self.scheduler().why_drive(drive, now),
        };
        Ok(reason.map(|reason| self.while_drives_look(self.while_drives_are_away(reason))))
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
        let wanted = self.catalogue.read(|view| view.tally(Counter::Wanted(vid)))?;
        Ok(if wanted.files > 0 { Reason::NotHeardYet { vid } } else { reason })
    }

    /// The scheduler knows that nothing fits into the pool, not why: no evict helps where drives lack.
    fn while_drives_are_away(&self, reason: Reason) -> Reason {
        if !matches!(reason, Reason::WaitingForSpace { .. }) {
            return reason;
        }
        match self.no_place_in_pool() {
            Some(lack @ Reason::TooFewPoolDrives { .. }) => lack,
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

    /// For the scheduler nothing waits that has no room in the pool.
    fn why_chores_wait(&self, vid: Vid) -> Reason {
        match self.scheduler().why_maintenance(vid) {
            Reason::NothingWaits => {}
            reason => return reason,
        }
        self.no_room_for_reads_of(vid).unwrap_or(Reason::NothingWaits)
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
        let rest = head.iter().find_map(|(container, _)| self.rest_of(*container, now));
        Ok(rest.or_else(|| too_large.reason()).unwrap_or_else(|| self.why_not_written(pool, now)))
    }

    /// Until when a container is left alone, and why.
    fn rest_of(&self, container: ContainerId, now: Timestamp) -> Option<Reason> {
        let Rest { until, why, .. } = self.own.resting.rest_of(container, now)?;
        Some(Reason::Resting { until, cause: why })
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
