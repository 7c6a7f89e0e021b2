//! What goes wrong, when, and how often it did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DriveId, Vid};
use library::DriveName;

use super::Pace;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// A sync of an extent fails; pages of it may be dropped.
    DiskSync,
    /// A write of an extent fails.
    DiskWrite,
    /// A write finds the disk full.
    DiskFull,
    /// A read fails.
    DiskRead,
    /// A written page is stored with one bit flipped.
    DiskBitFlip,
    /// A write is acknowledged and not stored.
    DiskLostWrite,
    /// A write lands in another place, of this extent or of another.
    DiskMisdirectedWrite,
    /// A written page keeps what another page held before.
    DiskStalePage,
    /// A call met a disk that is gone.
    DiskGone,
    /// A call takes a hundred times as long.
    DiskSlow,
    /// A call hangs for minutes.
    DiskHung,
    /// A commit fails and changes nothing.
    CatalogueCommit,
    /// A commit is durable but reported as failed.
    CatalogueInDoubt,
    /// A commit takes seconds.
    CatalogueSlow,
    /// A commit finds the map full.
    CatalogueFull,
    /// A record of the catalogue has a flipped bit.
    RecordFlipped,
    /// A record of the catalogue is gone.
    RecordDropped,
    /// A record of the catalogue has the value before the last one.
    RecordStale,
    /// Writing a tape block fails.
    TapeWrite,
    /// Flushing a tape fails; blocks since the last flush may be lost.
    TapeFlush,
    /// The tape ends early at this block.
    TapeEarlyEnd,
    /// A block becomes unreadable.
    TapeUnreadable,
    /// A block is stored with one bit flipped.
    TapeBitFlip,
    /// The robot jams while it brings a cartridge.
    RobotJam,
    /// A cartridge cannot be loaded.
    MountFails,
    /// A call met a tape drive that is dead.
    TapeDriveDead,
    /// The drive was reset: the command fails and the tape stands at its beginning.
    PositionLost,
    /// The robot brings another cartridge.
    WrongCartridge,
    /// A command of a tape drive takes a minute.
    TapeSlow,
    /// The way to a tape drive breaks at a command: carried out or not, its answer is lost.
    DrivePath,
    /// Another host has reserved the tape drive.
    DriveReserved,
    /// The tape drive wants to be cleaned before it goes on.
    DriveCleaning,
    /// The tape drive is not ready for a moment.
    DriveNotReady,
    /// A call met a library that is not reached.
    LibraryAway,
    /// Power is lost: what was not synced is lost, wholly or in part.
    PowerLoss,
    /// The process dies: what the machines have taken stays.
    ProcessCrash,
    /// The clock jumps.
    ClockJump,
}

/// Which machine a planned fault is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The first that fits.
    Any,
    /// This disk.
    Disk(DriveId),
    /// This cartridge.
    Tape(Vid),
    /// This tape drive.
    TapeDrive(DriveName),
}

/// Where an operation takes place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Disk(DriveId),
    Tape(&'a DriveName, Vid),
    Catalogue,
}

impl Target {
    fn fits(&self, place: Place<'_>) -> bool {
        match (self, place) {
            (Target::Any, _) => true,
            (Target::Disk(id), Place::Disk(at)) => *id == at,
            (Target::Tape(vid), Place::Tape(_, at)) => *vid == at,
            (Target::TapeDrive(name), Place::Tape(at, _)) => name == at,
            _ => false,
        }
    }
}

#[derive(Debug)]
enum When {
    /// Once, after so many operations that it could have hit.
    Once(u64),
    /// With one in so many operations.
    OneIn(u64),
}

#[derive(Debug)]
struct Planned {
    fault: Fault,
    target: Target,
    when: When,
}

/// The faults planned for all machines of a world, and how many happened. Clones share one plan.
#[derive(Clone, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Entries of the plan, to be asked without the lock.
    planned: AtomicUsize,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    entries: Vec<Planned>,
    fired: BTreeMap<Fault, u64>,
}

impl Faults {
    /// Plans one fault, after `skip` operations that it could have hit.
    pub fn once(&self, fault: Fault, target: Target, skip: u64) {
        self.plan(Planned { fault, target, when: When::Once(skip) });
    }

    /// Plans a fault for one in `cases` operations, by chance.
    pub fn one_in(&self, fault: Fault, target: Target, cases: u64) {
        self.plan(Planned { fault, target, when: When::OneIn(cases.max(1)) });
    }

    fn plan(&self, planned: Planned) {
        let mut plan = self.lock();
        plan.entries.push(planned);
        self.0.planned.store(plan.entries.len(), Ordering::SeqCst);
    }

    /// Forgets all plans of one kind.
    pub fn cancel(&self, fault: Fault) {
        let mut plan = self.lock();
        plan.entries.retain(|entry| entry.fault != fault);
        self.0.planned.store(plan.entries.len(), Ordering::SeqCst);
    }

    /// Forgets all plans; what happened stays counted.
    pub fn clear(&self) {
        self.lock().entries.clear();
        self.0.planned.store(0, Ordering::SeqCst);
    }

    /// Whether a fault of this kind waits for its operation.
    #[must_use]
    pub fn is_planned(&self, fault: Fault) -> bool {
        self.lock().entries.iter().any(|entry| entry.fault == fault)
    }

    /// How many faults of a kind have happened.
    #[must_use]
    pub fn fired(&self, fault: Fault) -> u64 {
        self.lock().fired.get(&fault).copied().unwrap_or(0)
    }

    /// How many faults of each kind have happened.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Fault, u64> {
        self.lock().fired.clone()
    }

    /// Counts a fault that came by another way than the plan.
    pub fn count(&self, fault: Fault) {
        *self.lock().fired.entry(fault).or_insert(0) += 1;
    }

    /// Whether a planned fault hits the operation that is about to be done; it is counted then.
    pub(crate) fn hits(&self, fault: Fault, place: Place<'_>, pace: &dyn Pace) -> bool {
        if self.0.planned.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut plan = self.lock();
        let mut hit = None;
        for (index, entry) in plan.entries.iter_mut().enumerate() {
            if entry.fault != fault || !entry.target.fits(place) {
                continue;
            }
            match &mut entry.when {
                When::Once(0) => hit = hit.or(Some((index, true))),
                When::Once(skip) => *skip -= 1,
                When::OneIn(cases) if pace.random().is_multiple_of(*cases) => {
                    hit = hit.or(Some((index, false)));
                }
                When::OneIn(_) => {}
            }
        }
        let Some((index, is_used_up)) = hit else { return false };
        if is_used_up {
            plan.entries.remove(index);
            self.0.planned.store(plan.entries.len(), Ordering::SeqCst);
        }
        *plan.fired.entry(fault).or_insert(0) += 1;
        true
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
