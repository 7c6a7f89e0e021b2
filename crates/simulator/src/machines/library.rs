//! A tape library in memory: cartridges, slots, robots, drives, and what goes wrong with them.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use library::{
    CartridgeError, CartridgeInfo, CleanerInfo, DeviceError, DriveName, Library, LibraryError, Place, Sense,
    Slot, TapeAlert, TapeDrive, TapeError,
};

use super::faults::Place as At;
use super::journal::{Effect, Journal};
use super::tape_drive::SimTapeDrive;
use super::tape_state::{TapeEffect, TapeObject, TapeState};
use super::{Dice, Fault, Surroundings};

/// What a labelled volume without files holds on its data partition, at most: whoever formats more destroys
/// data.
pub(crate) const LABELLED_OBJECTS_MAX: usize = 8;
const MOUNT_NANOS: u64 = 40_000_000_000;
const UNMOUNT_NANOS: u64 = 30_000_000_000;
/// Where a freshly loaded tape stands.
pub(crate) const LOAD_POINT: TapePosition =
    TapePosition { partition: Partition::Index, block: BlockAddress(0) };

/// What a drive is doing when it dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MountState {
    /// A cartridge is on its way in.
    Mounting,
    /// A cartridge is loaded, and the drive is asked for a position, a locate or the cartridge memory.
    Idle,
    /// It reads.
    Reading,
    /// It writes.
    Writing,
    /// A cartridge is on its way out.
    Unmounting,
}

impl MountState {
    /// All of them.
    pub const ALL: [MountState; 5] = [
        MountState::Mounting,
        MountState::Idle,
        MountState::Reading,
        MountState::Writing,
        MountState::Unmounting,
    ];
}

/// A write below the end of data: what tape must never see on the data partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overwrite {
    /// The cartridge.
    pub vid: Vid,
    /// Where it was written.
    pub at: u64,
    /// Where the end of data was.
    pub end: u64,
}

/// A library. Clones are one; it outlives the engines that use it.
#[derive(Clone)]
pub struct SimLibrary(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    state: Mutex<LibraryState>,
    /// Held while a robot moves, which takes its time: so these are the engine's kind of lock.
    robots: Vec<threads::Mutex<()>>,
    pub(crate) around: Surroundings,
    journal: Option<Journal>,
}

pub(crate) struct LibraryState {
    shelves: BTreeMap<Vid, Shelf>,
    pub(crate) bays: Vec<Bay>,
    overwrites: Vec<Overwrite>,
    /// Rises with each crash: handles from before are dead.
    life: u64,
    /// Nobody reaches it.
    is_away: bool,
    /// Somebody has asked it since.
    is_missed: bool,
    /// The life that has reached it: what was never reached holds nothing, and says so.
    reached_in: Option<u64>,
    /// Rises when it is reached for the first time in a life.
    changes: u64,
}

struct Shelf {
    tape: TapeState,
    drive: Option<DriveName>,
    /// What is on it was given up: it may be formatted once.
    may_be_formatted: bool,
}

pub(crate) struct Bay {
    pub(crate) name: DriveName,
    pub(crate) is_taken: bool,
    pub(crate) loaded: Option<Loaded>,
    /// Dies at the next command of this kind.
    pub(crate) dies_when: Option<MountState>,
    pub(crate) is_dead: bool,
}

/// A cartridge under the head.
pub(crate) struct Loaded {
    /// The cartridge that everybody believes to be here.
    pub(crate) vid: Vid,
    /// The one that is.
    pub(crate) actual: Vid,
    pub(crate) position: TapePosition,
    pub(crate) is_poisoned: bool,
    /// Whether the volume change reference rose since the load and since it was last read.
    pub(crate) is_raised: bool,
}

/// Why a library is not reached.
const AWAY: &str = "the way to it is broken";

pub(crate) fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl LibraryState {
    pub(crate) fn tape(&self, vid: Vid) -> &TapeState {
        &self.shelves[&vid].tape
    }

    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// Whether a cartridge's volume was given up; only once.
    pub(crate) fn takes_format(&mut self, vid: Vid) -> bool {
        self.shelves.get_mut(&vid).is_some_and(|shelf| std::mem::take(&mut shelf.may_be_formatted))
    }

    pub(crate) fn note_overwrite(&mut self, overwrite: Overwrite) {
        self.overwrites.push(overwrite);
    }
}

impl SimLibrary {
    pub(crate) fn new(
        drives: &[DriveName],
        robots: usize,
        tapes: BTreeMap<Vid, TapeState>,
        around: Surroundings,
        journal: Option<Journal>,
    ) -> Self {
        let shelves = tapes
            .into_iter()
            .map(|(vid, tape)| (vid, Shelf { tape, drive: None, may_be_formatted: false }))
            .collect();
        let bay = |name: &DriveName| Bay {
            name: name.clone(),
            is_taken: false,
            loaded: None,
            dies_when: None,
            is_dead: false,
        };
        let bays = drives.iter().map(bay).collect();
        let state = LibraryState {
            shelves,
            bays,
            overwrites: Vec::new(),
            life: 0,
            is_away: false,
            is_missed: false,
            reached_in: None,
            changes: 0,
        };
        let robots = (0..robots.max(1)).map(|_| threads::Mutex::new(())).collect();
        SimLibrary(Arc::new(Inner { state: Mutex::new(state), robots, around, journal }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LibraryState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn apply(&self, state: &mut LibraryState, vid: Vid, effect: TapeEffect) {
        let Some(shelf) = state.shelves.get_mut(&vid) else { return };
        shelf.tape.apply(&effect);
        if let Some(journal) = &self.0.journal {
            journal.push(Effect::Tape(vid, effect));
        }
    }

    pub(crate) fn hits(&self, fault: Fault, drive: &DriveName, vid: Vid) -> bool {
        self.0.around.faults.hits(fault, At::Tape(drive, vid), &*self.0.around.pace)
    }

    pub(crate) fn dice(&self) -> Dice {
        Dice::new(self.0.around.pace.random())
    }

    /// A drive dies with its buffer: of what was not flushed a beginning is kept.
    pub(crate) fn lose_buffer(&self, state: &mut LibraryState, vid: Vid) -> bool {
        let effects = state.tape(vid).lose_buffer(&mut self.dice());
        let has_lost = !effects.is_empty();
        effects.into_iter().for_each(|effect| self.apply(state, vid, effect));
        has_lost
    }

    /// Whether the drive is dead, or dies now.
    pub(crate) fn is_dead(&self, state: &mut LibraryState, bay: usize, doing: MountState) -> bool {
        let Some(drive) = state.bays.get_mut(bay) else { return true };
        if !drive.is_dead && drive.dies_when == Some(doing) {
            (drive.is_dead, drive.dies_when) = (true, None);
            if let Some(vid) = drive.loaded.as_ref().map(|loaded| loaded.actual) {
                self.lose_buffer(state, vid);
            }
        }
        let is_dead = state.bays[bay].is_dead;
        if is_dead {
            self.0.around.faults.count(Fault::TapeDriveDead);
        }
        is_dead
    }

    /// Whether nobody reaches the library, its robot and its list of cartridges. Its drives have ways of
    /// their own.
    pub fn set_away(&self, is_away: bool) {
        let mut state = self.lock();
        (state.is_away, state.is_missed) = (is_away, false);
    }

    /// Asks the library, which may be away; the first answer that it does not give is counted.
    fn reach(&self) -> Result<MutexGuard<'_, LibraryState>, LibraryError> {
        let mut state = self.lock();
        if state.is_away {
            if !std::mem::replace(&mut state.is_missed, true) {
                self.0.around.faults.count(Fault::LibraryAway);
            }
            return Err(LibraryError::NotReached { why: AWAY.to_owned() });
        }
        if state.reached_in != Some(state.life) {
            state.reached_in = Some(state.life);
            state.changes += 1;
        }
        Ok(state)
    }

    /// Lets a drive die when it next does this.
    pub fn kill_drive(&self, name: &DriveName, when: MountState) {
        let mut state = self.lock();
        state.bays.iter_mut().filter(|bay| bay.name == *name).for_each(|bay| bay.dies_when = Some(when));
    }

    /// Repairs a drive; what is in it stays there.
    pub fn revive_drive(&self, name: &DriveName) {
        let mut state = self.lock();
        for bay in state.bays.iter_mut().filter(|bay| bay.name == *name) {
            (bay.is_dead, bay.dies_when) = (false, None);
        }
    }

    /// Whether a drive is dead.
    #[must_use]
    pub fn is_drive_dead(&self, name: &DriveName) -> bool {
        self.lock().bays.iter().any(|bay| bay.name == *name && bay.is_dead)
    }

    /// Every write below the end of data of a data partition so far.
    #[must_use]
    pub fn overwrites(&self) -> Vec<Overwrite> {
        self.lock().overwrites.clone()
    }

    /// Whether some cartridge holds what a loss of power would take.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        let state = self.lock();
        let unflushed = |shelf: &Shelf| shelf.tape.unflushed(Partition::Data) > 0;
        state.shelves.values().any(unflushed)
    }

    /// All cartridges.
    #[must_use]
    pub fn vids(&self) -> Vec<Vid> {
        self.lock().shelves.keys().copied().collect()
    }

    /// The objects of a partition from the first on; empty if there is no such cartridge.
    #[must_use]
    pub fn objects(&self, vid: Vid, partition: Partition) -> Vec<TapeObject> {
        let state = self.lock();
        let Some(shelf) = state.shelves.get(&vid) else { return Vec::new() };
        (0..shelf.tape.end(partition)).filter_map(|at| shelf.tape.object(partition, at).cloned()).collect()
    }

    /// An attribute of a cartridge's memory as it is at rest.
    #[must_use]
    pub fn attribute(&self, vid: Vid, partition: Partition, id: u16) -> Option<Vec<u8>> {
        self.lock().shelves.get(&vid)?.tape.attribute(partition, id)
    }

    /// Makes a block unreadable at rest; `false` if there is no record.
    pub fn damage(&self, vid: Vid, at: TapePosition) -> bool {
        self.replace(vid, at, Fault::TapeUnreadable, |bytes| TapeObject::Damaged(bytes.len()))
    }

    /// Flips one bit of a block at rest; `false` if there is no record.
    pub fn flip(&self, vid: Vid, at: TapePosition) -> bool {
        let random = self.0.around.pace.random();
        self.replace(vid, at, Fault::TapeBitFlip, |bytes| {
            let mut flipped: Arc<[u8]> = bytes.into();
            let byte = random as usize % flipped.len();
            Arc::make_mut(&mut flipped)[byte] ^= 1 << (random >> 61);
            TapeObject::Record(flipped)
        })
    }

    fn replace(
        &self,
        vid: Vid,
        at: TapePosition,
        fault: Fault,
        change: impl FnOnce(&[u8]) -> TapeObject,
    ) -> bool {
        let mut state = self.lock();
        let block = at.block.0 as usize;
        let found = state.shelves.get(&vid).and_then(|shelf| shelf.tape.object(at.partition, block));
        let Some(TapeObject::Record(bytes)) = found else { return false };
        let object = change(bytes);
        self.apply(&mut state, vid, TapeEffect::Replace(at.partition, block, object));
        self.0.around.faults.count(fault);
        true
    }

    /// Turns the write protection of a cartridge on or off.
    pub fn set_write_protected(&self, vid: Vid, on: bool) {
        if let Some(shelf) = self.lock().shelves.get_mut(&vid) {
            shelf.tape.is_write_protected = on;
        }
    }

    /// Says whether a cartridge's volume was given up, so that its next formatting destroys nothing that
    /// anybody wants.
    pub fn allow_format(&self, vid: Vid, is_allowed: bool) {
        if let Some(shelf) = self.lock().shelves.get_mut(&vid) {
            shelf.may_be_formatted = is_allowed;
        }
    }

    /// Erases a cartridge that stands in its slot and holds no more than labels; whether it did.
    pub fn erase_labels(&self, vid: Vid) -> bool {
        let mut state = self.lock();
        let fits =
            |shelf: &Shelf| shelf.drive.is_none() && shelf.tape.end(Partition::Data) <= LABELLED_OBJECTS_MAX;
        let is_erased = state.shelves.get(&vid).is_some_and(fits);
        if is_erased {
            for partition in [Partition::Index, Partition::Data] {
                self.apply(&mut state, vid, TapeEffect::Cut(partition, 0));
            }
        }
        is_erased
    }

    /// Adds a blank cartridge; `false` if the name is taken.
    pub fn add_cartridge(&self, vid: Vid, capacity: ByteCount) -> bool {
        let mut state = self.lock();
        let is_new = !state.shelves.contains_key(&vid);
        if is_new {
            let tape = TapeState::new(capacity.0);
            state.shelves.insert(vid, Shelf { tape, drive: None, may_be_formatted: false });
        }
        is_new
    }

    /// The process that uses the library dies; the drives write what they hold, and all cartridges go back
    /// into their slots.
    pub(crate) fn process_crash(&self) {
        let mut state = self.lock();
        for shelf in state.shelves.values_mut() {
            shelf.tape.apply(&TapeEffect::Flush);
        }
        reset(&mut state);
    }

    pub(crate) fn power_loss(&self, dice: &mut Dice) {
        let mut state = self.lock();
        for shelf in state.shelves.values_mut() {
            shelf.tape.power_loss(dice);
        }
        reset(&mut state);
    }

    pub(crate) fn tapes(&self) -> BTreeMap<Vid, TapeState> {
        self.lock().shelves.iter().map(|(vid, shelf)| (*vid, shelf.tape.clone())).collect()
    }

    fn bay(&self, drive: &DriveName) -> Result<usize, LibraryError> {
        let bay = self.lock().bays.iter().position(|bay| bay.name == *drive);
        bay.ok_or_else(|| LibraryError::UnknownDrive { drive: drive.clone() })
    }

    fn robot(&self, bay: usize) -> threads::MutexGuard<'_, ()> {
        let robot = &self.0.robots[bay % self.0.robots.len()];
        robot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a cartridge off its shelf, so that no other mount can.
    fn reserve(&self, vid: Vid, bay: usize) -> Result<(), LibraryError> {
        let mut state = self.lock();
        let drive = state.bays[bay].name.clone();
        if let Some(loaded) = &state.bays[bay].loaded {
            return Err(LibraryError::DriveFull { drive, vid: loaded.vid });
        }
        let shelf = state.shelves.get_mut(&vid).ok_or(LibraryError::UnknownCartridge { vid })?;
        if let Some(drive) = &shelf.drive {
            return Err(LibraryError::CartridgeInUse { vid, drive: drive.clone() });
        }
        shelf.drive = Some(drive);
        Ok(())
    }

    /// Another cartridge that stands in a slot, if the robot errs. Never a blank one: which of two blank ones
    /// is being labelled nobody can tell.
    fn mistaken(&self, state: &LibraryState, vid: Vid) -> Option<Vid> {
        let others = state.shelves.iter().filter(|(other, shelf)| {
            **other != vid && shelf.drive.is_none() && shelf.tape.end(Partition::Data) > 0
        });
        let others: Vec<Vid> = others.map(|(other, _)| *other).collect();
        others.get(self.dice().below(others.len() as u64) as usize).copied()
    }

    fn put_back(&self, state: &mut LibraryState, vid: Vid) {
        if let Some(shelf) = state.shelves.get_mut(&vid) {
            shelf.drive = None;
        }
    }
}

fn reset(state: &mut LibraryState) {
    state.life += 1;
    state.shelves.values_mut().for_each(|shelf| shelf.drive = None);
    for bay in &mut state.bays {
        (bay.is_taken, bay.loaded) = (false, None);
    }
}

impl Library for SimLibrary {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let state = match self.reach() {
            Ok(state) => state,
            // As a changer's driver has it: never reached, it stops no start.
            Err(error) => {
                let state = self.lock();
                return if state.reached_in == Some(state.life) { Err(error) } else { Ok(Vec::new()) };
            }
        };
        let rows = state.shelves.iter().enumerate().map(|(rank, (vid, shelf))| CartridgeInfo {
            vid: *vid,
            place: shelf.drive.clone().map_or(Place::Slot(Slot(rank as u32)), Place::Drive),
            capacity: ByteCount(shelf.tape.capacity),
            write_protected: shelf.tape.is_write_protected,
            damaged: false,
            library: 0,
        });
        Ok(rows.collect())
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        match self.reach() {
            Ok(state) => Ok(state.changes),
            Err(error) => {
                let state = self.lock();
                if state.reached_in == Some(state.life) { Err(error) } else { Ok(state.changes) }
            }
        }
    }

    fn cleaners(&self) -> Vec<CleanerInfo> {
        let vid = Vid::new("CLN001").expect("six characters are a VID");
        vec![CleanerInfo { vid, place: Place::Slot(Slot(u32::MAX)), library: 0 }]
    }

    fn clean(
        &self,
        vid: Vid,
        drive: &DriveName,
        _most: std::time::Duration,
    ) -> Result<Vec<TapeAlert>, LibraryError> {
        let bay = self.bay(drive)?;
        let _robot = self.robot(bay);
        let life = self.reach()?.life;
        self.0.around.pace.pause(MOUNT_NANOS);
        let jams = self.hits(Fault::RobotJam, drive, vid);
        let state = self.lock();
        if jams || state.life != life || threads::simulated::is_dead() {
            let source = DeviceError::Sense(Sense::MOVE_FAILED);
            return Err(LibraryError::RobotJam { vid, drive: drive.clone(), source });
        }
        Ok(Vec::new())
    }

    fn without_vid(&self) -> Vec<String> {
        Vec::new()
    }

    fn out_of_reach(&self) -> Vec<String> {
        self.lock().is_away.then(|| AWAY.to_owned()).into_iter().collect()
    }

    fn library_of(&self, _drive: &DriveName) -> u16 {
        0
    }

    fn drives(&self) -> Vec<DriveName> {
        self.lock().bays.iter().map(|bay| bay.name.clone()).collect()
    }

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        let index = self.bay(name)?;
        let mut state = self.lock();
        let life = state.life;
        let bay = &mut state.bays[index];
        if bay.is_taken {
            return Err(LibraryError::DriveTaken { drive: name.clone() });
        }
        bay.is_taken = true;
        Ok(Box::new(SimTapeDrive::new(self.clone(), name.clone(), index, life)))
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let bay = self.bay(drive)?;
        let _robot = self.robot(bay);
        let life = self.reach()?.life;
        self.reserve(vid, bay)?;
        self.0.around.pace.pause(MOUNT_NANOS);
        let jams = self.hits(Fault::RobotJam, drive, vid);
        let fails = self.hits(Fault::MountFails, drive, vid);
        let errs = self.hits(Fault::WrongCartridge, drive, vid);
        let mut state = self.lock();
        let is_dead = self.is_dead(&mut state, bay, MountState::Mounting);
        if jams || is_dead || state.life != life || threads::simulated::is_dead() {
            self.put_back(&mut state, vid);
            let source = DeviceError::Sense(Sense::MOVE_FAILED);
            return Err(LibraryError::RobotJam { vid, drive: drive.clone(), source });
        }
        if fails {
            self.put_back(&mut state, vid);
            let path = PathBuf::from(vid.as_str());
            return Err(CartridgeError::File { path, operation: "load", source: eio() }.into());
        }
        let actual = errs.then(|| self.mistaken(&state, vid)).flatten().unwrap_or(vid);
        if actual != vid
            && let Some(shelf) = state.shelves.get_mut(&actual)
        {
            shelf.drive = Some(drive.clone());
        }
        state.bays[bay].loaded =
            Some(Loaded { vid, actual, position: LOAD_POINT, is_poisoned: false, is_raised: false });
        Ok(())
    }

    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError> {
        let bay = self.bay(drive)?;
        let _robot = self.robot(bay);
        let empty = || LibraryError::DriveEmpty { drive: drive.clone() };
        let vid = self.reach()?.bays[bay].loaded.as_ref().map(|loaded| loaded.vid).ok_or_else(empty)?;
        let life = self.lock().life;
        self.0.around.pace.pause(UNMOUNT_NANOS);
        let flush_fails = self.hits(Fault::TapeFlush, drive, vid);
        let mut state = self.lock();
        let process_is_dead = threads::simulated::is_dead() || state.life != life;
        if process_is_dead || self.is_dead(&mut state, bay, MountState::Unmounting) {
            // The cartridge is stuck in the drive.
            let source = DeviceError::Sense(Sense::MOVE_FAILED);
            return Err(LibraryError::RobotJam { vid, drive: drive.clone(), source });
        }
        let loaded = state.bays[bay].loaded.take().ok_or_else(empty)?;
        self.put_back(&mut state, loaded.vid);
        self.put_back(&mut state, loaded.actual);
        if loaded.is_poisoned || state.tape(loaded.actual).is_write_protected {
            return Ok(vid);
        }
        if flush_fails && self.lose_buffer(&mut state, loaded.actual) {
            let source = Box::new(TapeError::Medium { vid, operation: "flush", source: eio().into() });
            return Err(LibraryError::UnmountFlush { vid, source });
        }
        self.apply(&mut state, loaded.actual, TapeEffect::Flush);
        Ok(vid)
    }
}
