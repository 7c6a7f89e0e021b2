//! A library whose mounts wait for a test, and are remembered.

#![allow(dead_code)]

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use archive::{Archive, Machines};
use base::{Clock, Vid};
use library::{CartridgeInfo, DriveName, Library, LibraryError};

use crate::common::{Instance, PATIENCE, SystemClock};
use crate::within::as_the_library_within;

/// How long a mount waits for a test that does not come back to it. Longer than any test waits for anything:
/// it is the test that fails then, and says why. A panic here would be one of the engine's threads, which
/// ends the process without a word.
const LONG_PATIENCE: Duration = Duration::from_secs(5 * PATIENCE.as_secs());

/// Nobody opens the gate any more.
fn never(drive: &DriveName) -> LibraryError {
    LibraryError::UnknownDrive { drive: drive.clone() }
}

/// What a test lets the library do. Clones are the same.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    /// Mounts that may go on; `None`: all.
    allowed: Option<usize>,
    waiting: usize,
    mounted: Vec<Vid>,
    /// Drives that mount nothing.
    broken: BTreeSet<DriveName>,
    refused: usize,
    /// Drives whose mounts do not come back.
    hung: BTreeSet<DriveName>,
    /// Tapes whose mounts do not come back.
    held: BTreeSet<Vid>,
    hanging: usize,
    /// Tapes that are not in the library.
    gone: BTreeSet<Vid>,
    /// No tape can be exported.
    no_exports: bool,
    /// And never will be.
    has_no_import_export: bool,
    /// How often a tape was taken out or put back.
    changes: u64,
}

impl Gate {
    /// Lets no mount through until it is opened.
    pub fn shut() -> Self {
        let gate = Gate::default();
        gate.0.0.lock().unwrap().allowed = Some(0);
        gate
    }

    /// Lets further mounts through, or all.
    pub fn open(&self, more: Option<usize>) {
        let mut state = self.0.0.lock().unwrap();
        state.allowed = more.map(|more| state.allowed.unwrap_or(0) + more);
        self.0.1.notify_all();
    }

    /// From now on a drive mounts nothing.
    pub fn break_drive(&self, drive: &DriveName) {
        self.0.0.lock().unwrap().broken.insert(drive.clone());
    }

    /// From now on mounts in a drive do not come back, until it is [freed](Gate::free).
    pub fn hang(&self, drive: &DriveName) {
        self.0.0.lock().unwrap().hung.insert(drive.clone());
    }

    /// From now on mounts of a tape do not come back.
    pub fn hold(&self, vid: Vid) {
        self.0.0.lock().unwrap().held.insert(vid);
    }

    /// Mounts of all tapes come back.
    pub fn hold_none(&self) {
        self.0.0.lock().unwrap().held.clear();
        self.0.1.notify_all();
    }

    /// Whether exports fail from now on.
    pub fn fail_exports(&self, fail: bool) {
        self.0.0.lock().unwrap().no_exports = fail;
    }

    /// From now on the library has no import/export element.
    pub fn close_exports(&self) {
        self.0.0.lock().unwrap().has_no_import_export = true;
    }

    /// A tape leaves the library: further mounts of it are refused.
    pub fn take_out(&self, vid: Vid) {
        let mut state = self.0.0.lock().unwrap();
        state.changes += u64::from(state.gone.insert(vid));
    }

    /// A tape is in the library again.
    pub fn put_back(&self, vid: Vid) {
        let mut state = self.0.0.lock().unwrap();
        state.changes += u64::from(state.gone.remove(&vid));
    }

    fn is_gone(&self, vid: Vid) -> bool {
        self.0.0.lock().unwrap().gone.contains(&vid)
    }

    /// Mounts in the drive come back, also if no others are let through.
    pub fn free(&self, drive: &DriveName) {
        self.0.0.lock().unwrap().hung.remove(drive);
        self.0.1.notify_all();
    }

    /// Mounts that do not come back.
    pub fn hanging(&self) -> usize {
        self.0.0.lock().unwrap().hanging
    }

    /// The tapes in the order in which they were mounted.
    pub fn mounted(&self) -> Vec<Vid> {
        self.0.0.lock().unwrap().mounted.clone()
    }

    /// Mounts that wait.
    pub fn waiting(&self) -> usize {
        self.0.0.lock().unwrap().waiting
    }

    /// Mounts that a broken drive refused.
    pub fn refused(&self) -> usize {
        self.0.0.lock().unwrap().refused
    }

    fn pass(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        let hangs = |state: &mut State| state.hung.contains(drive) || state.held.contains(&vid);
        if hangs(&mut state) {
            state.hanging += 1;
            let (mut state, over) = changed.wait_timeout_while(state, LONG_PATIENCE, hangs).unwrap();
            state.hanging -= 1;
            if over.timed_out() {
                return Err(never(drive));
            }
            state.mounted.push(vid);
            return Ok(());
        }
        state.waiting += 1;
        let shut = |state: &mut State| state.allowed == Some(0);
        let (mut state, over) = changed.wait_timeout_while(state, LONG_PATIENCE, shut).unwrap();
        state.waiting -= 1;
        if over.timed_out() {
            return Err(never(drive));
        }
        state.allowed = state.allowed.map(|allowed| allowed - 1);
        if state.broken.contains(drive) {
            state.refused += 1;
            return Err(LibraryError::UnknownDrive { drive: drive.clone() });
        }
        state.mounted.push(vid);
        Ok(())
    }
}

/// A library behind a gate.
pub struct Held {
    pub library: Arc<dyn Library>,
    pub gate: Gate,
}

impl Library for Held {
    as_the_library_within!(
        drives without_vid out_of_reach library_of take_drive unmount look_again import
    );

    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let mut inventory = self.library.inventory()?;
        inventory.retain(|cartridge| !self.gate.is_gone(cartridge.vid));
        Ok(inventory)
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        Ok(self.library.changes()? + self.gate.0.0.lock().unwrap().changes)
    }

    fn export(&self, vid: Vid) -> Result<library::Slot, LibraryError> {
        if self.gate.0.0.lock().unwrap().has_no_import_export {
            return Err(LibraryError::NoImportExport);
        }
        if self.gate.0.0.lock().unwrap().no_exports {
            return Err(LibraryError::NotReached { why: "nobody answers".to_owned() });
        }
        self.library.export(vid)
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        if self.gate.is_gone(vid) {
            return Err(LibraryError::UnknownCartridge { vid });
        }
        self.gate.pass(vid, drive)?;
        self.library.mount(vid, drive)
    }
}

/// The server of an instance, whose mounts wait for a gate.
pub fn open_behind(instance: &Instance, gate: &Gate) -> Archive {
    open_behind_at(instance, gate, Arc::new(SystemClock))
}

/// The same, by a clock of the test.
pub fn open_behind_at(instance: &Instance, gate: &Gate, clock: Arc<dyn Clock>) -> Archive {
    let machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    let library = Arc::new(Held { library: Arc::clone(&machines.library), gate: gate.clone() });
    Archive::open_on(Machines { library, ..machines }, instance.settings.clone(), clock).unwrap()
}
