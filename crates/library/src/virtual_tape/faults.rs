//! Faults on demand. Only with the feature `faults`, which a released daemon is built without.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{BlockAddress, TapePosition, Vid};

use crate::{DeviceError, DriveName, Sense, TapeAlert, TapeError};

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
    /// Writing to the memory of the cartridge.
    WriteAttribute,
    /// Unloading a cartridge.
    Unload,
    /// Being cleaned.
    Clean,
}

impl DriveCommand {
    fn word(self) -> &'static str {
        match self {
            DriveCommand::Load => "load",
            DriveCommand::Read => "read",
            DriveCommand::Write => "write",
            DriveCommand::Flush => "flush",
            DriveCommand::Locate => "locate",
            DriveCommand::WriteAttribute => "write attribute",
            DriveCommand::Unload => "unload",
            DriveCommand::Clean => "clean",
        }
    }
}

/// A state of a drive, or of the way to it, in which it carries out nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// It was reset (unit attention).
    Reset,
    /// It is busy.
    Busy,
    /// Another host has reserved it.
    Reserved,
    /// It must be cleaned.
    Dirty,
    /// It is not reached.
    Unreached,
    /// This host cannot carry out commands.
    HostFails,
    /// It has no cartridge: it began anew.
    Emptied,
}

impl Condition {
    fn error(self, drive: &DriveName, operation: &'static str) -> TapeError {
        let drive = drive.clone();
        let sense = |key, code, qualifier| Sense { key, code, qualifier };
        match self {
            Condition::Reset => TapeError::Interrupted { drive, sense: sense(0x6, 0x29, 0x00) },
            Condition::Busy => TapeError::NotReady { drive, sense: sense(0x2, 0x04, 0x01) },
            Condition::Reserved => TapeError::Reserved { drive },
            Condition::Dirty => TapeError::CleaningNeeded { drive, sense: sense(0x4, 0x00, 0x17) },
            Condition::Unreached => {
                let source = DeviceError::TimeOut(std::time::Duration::from_secs(60));
                TapeError::Path { drive, operation, source }
            }
            Condition::Emptied => TapeError::NotLoaded { drive },
            Condition::HostFails => {
                let source = DeviceError::System(io::ErrorKind::OutOfMemory.into());
                TapeError::Host { operation, source }
            }
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
    no_space: bool,
    no_space_once: BTreeSet<(Vid, TapePosition)>,
    ends: BTreeSet<(Vid, TapePosition)>,
    unreadable: BTreeSet<(Vid, TapePosition)>,
    unreadable_in: BTreeSet<(DriveName, Vid, TapePosition)>,
    jams: BTreeSet<Vid>,
    deaths: BTreeSet<(DriveName, DriveCommand)>,
    dead: BTreeSet<DriveName>,
    strays: BTreeMap<Vid, Vid>,
    lost_positions: BTreeSet<(Vid, TapePosition)>,
    conditions: BTreeMap<(DriveName, DriveCommand), (Condition, u32)>,
    alerts: BTreeMap<DriveName, Vec<TapeAlert>>,
    used_up: BTreeSet<Vid>,
    cleaners_stay: BTreeSet<Vid>,
    worm: BTreeSet<Vid>,
    cleanings: Vec<(DriveName, Vid)>,
    retries_of_drives: BTreeMap<DriveName, u64>,
    retries_of_tapes: BTreeMap<Vid, u64>,
    plain_drives: BTreeSet<DriveName>,
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

    /// Whether the file system behind all cartridges is full.
    pub fn plan_no_space(&self, is_full: bool) {
        self.lock().no_space = is_full;
    }

    /// The file system is full when this block is written, once.
    pub fn plan_no_space_once(&self, vid: Vid, at: TapePosition) {
        self.lock().no_space_once.insert((vid, at));
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

    /// The drive's next `times` commands of this kind end so, with nothing carried out.
    pub fn plan_condition(&self, drive: &DriveName, at: DriveCommand, condition: Condition, times: u32) {
        self.lock().conditions.insert((drive.clone(), at), (condition, times));
    }

    /// The drive raises this flag, until somebody asks for its flags.
    pub fn plan_alert(&self, drive: &DriveName, alert: TapeAlert) {
        self.lock().alerts.entry(drive.clone()).or_default().push(alert);
    }

    /// The cartridge is a WORM cartridge.
    pub fn plan_worm(&self, vid: Vid) {
        self.lock().worm.insert(vid);
    }

    pub(super) fn is_worm(&self, vid: Vid) -> bool {
        let mut plan = self.lock();
        let is_worm = plan.worm.contains(&vid);
        plan.fired += usize::from(is_worm);
        is_worm
    }

    /// A drive says of this cleaning cartridge that it is used up.
    pub fn plan_used_up(&self, vid: Vid) {
        self.lock().used_up.insert(vid);
    }

    /// The next cleaning with this cartridge cleans the drive, and the robot does not bring it back at once.
    pub fn plan_cleaner_stays(&self, vid: Vid) {
        self.lock().cleaners_stay.insert(vid);
    }

    /// Which drives were cleaned, and with what, one after the other.
    #[must_use]
    pub fn cleanings(&self) -> Vec<(DriveName, Vid)> {
        self.lock().cleanings.clone()
    }

    /// Each block that the drive reads or writes takes so many tries more, as in one whose head is worn.
    pub fn plan_retries_in(&self, drive: &DriveName, retries: u64) {
        self.lock().retries_of_drives.insert(drive.clone(), retries);
    }

    /// Each block of the cartridge takes so many tries more, as on a medium that is worn.
    pub fn plan_retries_of(&self, vid: Vid, retries: u64) {
        self.lock().retries_of_tapes.insert(vid, retries);
    }

    /// The drive cannot encrypt.
    pub fn plan_no_encryption(&self, drive: &DriveName) {
        self.lock().plain_drives.insert(drive.clone());
    }

    /// Forgets all plans. Dead drives stay dead.
    pub fn clear(&self) {
        let fired = self.fired();
        let mut plan = self.lock();
        let dead = std::mem::take(&mut plan.dead);
        *plan = Plan { dead, fired, ..Plan::default() };
    }

    /// How many faults have happened: a test of a fault asserts that this rose.
    #[must_use]
    pub fn fired(&self) -> usize {
        self.lock().fired
    }

    pub(super) fn write_at(&self, vid: Vid, at: TapePosition) -> io::Result<()> {
        let mut plan = self.lock();
        if plan.no_space || plan.no_space_once.remove(&(vid, at)) {
            plan.fired += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
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
        if let Some(condition) = self.condition(drive, command) {
            return Err(condition.error(drive, command.word()));
        }
        if self.is_dead(drive, command) {
            return Err(TapeError::DriveFailed {
                drive: drive.clone(),
                operation: command.word(),
                source: DeviceError::Sense(Sense::INTERNAL_FAILURE),
            });
        }
        Ok(())
    }

    /// The condition that a command of a drive meets, if one is planned.
    fn condition(&self, drive: &DriveName, command: DriveCommand) -> Option<Condition> {
        let mut plan = self.lock();
        let (condition, left) = plan.conditions.get_mut(&(drive.clone(), command))?;
        let condition = *condition;
        *left = left.saturating_sub(1);
        if *left == 0 {
            plan.conditions.remove(&(drive.clone(), command));
        }
        plan.fired += 1;
        Some(condition)
    }

    /// How many tries beyond the first one a block takes.
    pub(super) fn retries(&self, drive: &DriveName, vid: Vid) -> u64 {
        let mut plan = self.lock();
        let of = [plan.retries_of_drives.get(drive), plan.retries_of_tapes.get(&vid)];
        let retries = of.into_iter().flatten().sum();
        plan.fired += usize::from(retries > 0);
        retries
    }

    pub(super) fn cannot_encrypt(&self, drive: &DriveName) -> bool {
        let mut plan = self.lock();
        let cannot = plan.plain_drives.contains(drive);
        plan.fired += usize::from(cannot);
        cannot
    }

    /// The flags that the drive has raised.
    pub(super) fn alerts(&self, drive: &DriveName) -> Vec<TapeAlert> {
        let mut plan = self.lock();
        let raised = plan.alerts.remove(drive).unwrap_or_default();
        plan.fired += raised.len();
        raised
    }

    pub(super) fn cleaned(&self, drive: &DriveName, vid: Vid) {
        self.lock().cleanings.push((drive.clone(), vid));
    }

    /// What the drive says after a cleaning that did not clean it.
    pub(super) fn cleaning_error(&self, drive: &DriveName) -> Option<TapeError> {
        let command = DriveCommand::Clean;
        Some(self.condition(drive, command)?.error(drive, command.word()))
    }

    pub(super) fn cleaner_stays(&self, vid: Vid) -> bool {
        let mut plan = self.lock();
        let stays = plan.cleaners_stay.remove(&vid);
        plan.fired += usize::from(stays);
        stays
    }

    pub(super) fn alerts_of_cleaning(&self, vid: Vid) -> Vec<TapeAlert> {
        let mut plan = self.lock();
        let is_used_up = plan.used_up.contains(&vid);
        plan.fired += usize::from(is_used_up);
        is_used_up.then_some(TapeAlert::CLEANER_USED_UP).into_iter().collect()
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
