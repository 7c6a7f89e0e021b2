//! Faults on demand. Only with the feature `faults`, which a released daemon is built without.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{BlockAddress, TapePosition, Vid};

use crate::{DriveName, TapeError};

/// A command to a drive at which it may be planned to die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DriveCommand {
    /// Loading a cartridge.
    Load,
    /// Reading a block.
    Read,
    /// Writing a block.
    Write,
    /// Writing file marks, hence flushing.
    Flush,
    /// Any move of the tape.
    Locate,
    /// Unloading a cartridge.
    Unload,
}

impl DriveCommand {
    fn word(self) -> &'static str {
        match self {
            DriveCommand::Load => "load",
            DriveCommand::Read => "read",
            DriveCommand::Write => "write",
            DriveCommand::Flush => "flush",
            DriveCommand::Locate => "locate",
            DriveCommand::Unload => "unload",
        }
    }
}

/// The faults planned for a library's cartridges. Clones share one plan.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Default)]
struct Plan {
    write_errors: BTreeSet<(Vid, TapePosition)>,
    write_errors_once: BTreeSet<(Vid, TapePosition)>,
    ends: BTreeSet<(Vid, TapePosition)>,
    unreadable: BTreeSet<(Vid, TapePosition)>,
    unreadable_in: BTreeSet<(DriveName, Vid, TapePosition)>,
    jams: BTreeSet<Vid>,
    deaths: BTreeSet<(DriveName, DriveCommand)>,
    dead: BTreeSet<DriveName>,
    strays: BTreeMap<Vid, Vid>,
    lost_positions: BTreeSet<(Vid, TapePosition)>,
    fired: usize,
}

impl Faults {
    /// Writing this block fails with an input/output error.
    pub fn plan_write_error(&self, vid: Vid, at: TapePosition) {
        self.lock().write_errors.insert((vid, at));
    }

    /// The same once: the next attempt succeeds.
    pub fn plan_write_error_once(&self, vid: Vid, at: TapePosition) {
        self.lock().write_errors_once.insert((vid, at));
    }

    /// The partition ends at this block.
    pub fn plan_end(&self, vid: Vid, at: TapePosition) {
        self.lock().ends.insert((vid, at));
    }

    /// This block is unreadable.
    pub fn plan_unreadable(&self, vid: Vid, at: TapePosition) {
        self.lock().unreadable.insert((vid, at));
    }

    /// This block is unreadable in one drive, as with dirt on its head.
    pub fn plan_unreadable_in(&self, drive: &DriveName, vid: Vid, at: TapePosition) {
        self.lock().unreadable_in.insert((drive.clone(), vid, at));
    }

    /// The next mount of this cartridge jams the robot.
    pub fn plan_jam(&self, vid: Vid) {
        self.lock().jams.insert(vid);
    }

    /// The drive dies at its next command of this kind and stays dead, with what it holds, until
    /// [`Faults::revive`].
    pub fn plan_death(&self, drive: &DriveName, at: DriveCommand) {
        self.lock().deaths.insert((drive.clone(), at));
    }

    /// The drive works again.
    pub fn revive(&self, drive: &DriveName) {
        let mut plan = self.lock();
        plan.dead.remove(drive);
        plan.deaths.retain(|(name, _)| name != drive);
    }

    /// The next mount of `vid` brings `instead`, which must stand in its slot.
    pub fn plan_wrong_cartridge(&self, vid: Vid, instead: Vid) {
        self.lock().strays.insert(vid, instead);
    }

    /// Once, when asked for its position here, the drive does not know it.
    pub fn plan_lost_position(&self, vid: Vid, at: TapePosition) {
        self.lock().lost_positions.insert((vid, at));
    }

    /// Forgets all plans. Dead drives stay dead.
    pub fn clear(&self) {
        let fired = self.fired();
        let mut plan = self.lock();
        let dead = std::mem::take(&mut plan.dead);
        *plan = Plan { fired, dead, ..Plan::default() };
    }

    /// How many faults have happened: a test of a fault asserts that this rose.
    #[must_use]
    pub fn fired(&self) -> usize {
        self.lock().fired
    }

    pub(super) fn write_at(&self, vid: Vid, at: TapePosition) -> io::Result<()> {
        let mut plan = self.lock();
        if plan.write_errors.contains(&(vid, at)) || plan.write_errors_once.remove(&(vid, at)) {
            plan.fired += 1;
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    pub(super) fn is_end(&self, vid: Vid, at: TapePosition) -> bool {
        let mut plan = self.lock();
        let first = TapePosition { block: BlockAddress(0), ..at };
        let ends = plan.ends.range((vid, first)..=(vid, at)).next().is_some();
        plan.fired += usize::from(ends);
        ends
    }

    pub(super) fn is_unreadable(&self, drive: &DriveName, vid: Vid, at: TapePosition) -> bool {
        let mut plan = self.lock();
        let unreadable =
            plan.unreadable.contains(&(vid, at)) || plan.unreadable_in.contains(&(drive.clone(), vid, at));
        plan.fired += usize::from(unreadable);
        unreadable
    }

    pub(super) fn jams(&self, vid: Vid) -> bool {
        let mut plan = self.lock();
        let jams = plan.jams.remove(&vid);
        plan.fired += usize::from(jams);
        jams
    }

    /// Whether the drive is dead, or dies now.
    pub(super) fn is_dead(&self, drive: &DriveName, command: DriveCommand) -> bool {
        let mut plan = self.lock();
        if plan.deaths.remove(&(drive.clone(), command)) {
            plan.fired += 1;
            plan.dead.insert(drive.clone());
        }
        plan.dead.contains(drive)
    }

    pub(super) fn check_alive(&self, drive: &DriveName, command: DriveCommand) -> Result<(), TapeError> {
        if self.is_dead(drive, command) {
            return Err(TapeError::DriveFailed { drive: drive.clone(), operation: command.word() });
        }
        Ok(())
    }

    pub(super) fn stray(&self, vid: Vid) -> Option<Vid> {
        let mut plan = self.lock();
        let stray = plan.strays.remove(&vid);
        plan.fired += usize::from(stray.is_some());
        stray
    }

    pub(super) fn loses_position(&self, vid: Vid, at: TapePosition) -> bool {
        let mut plan = self.lock();
        let lost = plan.lost_positions.remove(&(vid, at));
        plan.fired += usize::from(lost);
        lost
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
