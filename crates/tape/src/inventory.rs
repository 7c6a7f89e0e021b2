//! Cartridges that come and go while the server runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use base::{LibraryId, Vid};
use library::ChangerAlert;
use threads::{Doorbell, Mutex, MutexGuard};

use crate::exports::ExportFailure;
use crate::room::Tape;
use ground::ArchiveError;
use ground::Worker;
use ground::libraries::register_tapes;

/// How often the library is asked whether its inventory has changed.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// How far the thread is that asks.
pub(crate) struct Inventory {
    doorbell: Doorbell,
    /// [`library::Library::changes`] of the inventory that is known; held while it is taken.
    seen: Mutex<u64>,
    /// Tapes that are to be exported as soon as no drive has them.
    pub(crate) leaving: Mutex<BTreeSet<Vid>>,
    /// Of these, those that their library could not bring out.
    pub(crate) export_failures: Mutex<BTreeMap<Vid, ExportFailure>>,
    /// Held while a tape is exported, until the inventory knows where it is.
    exporting: Mutex<()>,
    /// Cleaning cartridges that may be used, as the scheduler was told.
    cleaners: Mutex<Option<Vec<(LibraryId, Vid)>>>,
    /// Flags of changers that the log tells of already.
    alerts: Mutex<BTreeSet<(u16, ChangerAlert)>>,
}

impl Inventory {
    pub(crate) fn new(changes: u64) -> Self {
        Inventory {
            doorbell: Doorbell::default(),
            seen: Mutex::new(changes),
            leaving: Mutex::default(),
            export_failures: Mutex::default(),
            exporting: Mutex::new(()),
            cleaners: Mutex::default(),
            alerts: Mutex::default(),
        }
    }

    pub(crate) fn cleaners(&self) -> MutexGuard<'_, Option<Vec<(LibraryId, Vid)>>> {
        self.cleaners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while a tape is exported.
    pub(crate) fn exporting(&self) -> MutexGuard<'_, ()> {
        self.exporting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while the inventory is taken, or must not be.
    pub(crate) fn seen(&self) -> MutexGuard<'_, u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread, which ends if the engine stops.
    pub(crate) fn stop(&self) {
        self.doorbell.ring();
    }
}

/// The thread of the inventory. A library that does not answer holds up nobody else.
pub(crate) fn run(room: &Tape, me: &Worker) {
    let mut failed = false;
    // What came back while nobody looked.
    if let Err(error) = room.note_returned() {
        tracing::error!(%error, "which tapes are here again cannot be recorded");
        me.failed(&error);
    }
    while !room.stopping() {
        me.rests();
        room.inventory.doorbell.wait(ASK_EVERY);
        me.does("asking the library");
        let looked = room.look_at_inventory();
        // What a library holds that does not say it decides nothing.
        let is_known = looked.is_ok();
        match looked {
            Ok(_) => failed = false,
            // Once, not every few seconds.
            Err(error) if !failed => {
                tracing::error!(%error, "the library does not say what it holds; it is asked again");
                me.failed(&error);
                failed = true;
            }
            Err(error) => me.failed(&error),
        }
        room.look_at_cleaners();
        room.tell_of_changers();
        if is_known {
            room.export_what_leaves();
        }
    }
}

impl Tape {
    /// What changers have raised of themselves goes to the log, once, where a site's monitoring finds it.
    fn tell_of_changers(&self) {
        let conditions = self.library.conditions();
        let mut told = self.inventory.alerts.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeSet<(u16, ChangerAlert)> =
            conditions.iter().flat_map(|one| one.alerts.iter().map(|alert| (one.library, *alert))).collect();
        for (library, alert) in now.difference(&told) {
            let library = self.libraries.name(*library);
            tracing::warn!(library, %alert, "the library asks for attention");
        }
        *told = now;
    }

    /// Takes the inventory anew if it has changed: new tapes are registered, those that are gone are mounted
    /// no more. Gives the tapes that came, went, or can be used otherwise than before.
    ///
    /// # Errors
    /// If the library cannot be asked, or the catalogue not be written: it is tried again the next time.
    pub(crate) fn look_at_inventory(&self) -> Result<BTreeSet<Vid>, ArchiveError> {
        let mut seen = self.inventory.seen();
        // Before the inventory: what comes meanwhile is another change.
        let changes = self.library.changes()?;
        if changes == *seen {
            return Ok(BTreeSet::new());
        }
        let inventory = ground::libraries::inventory(&self.catalogue, self.library.as_ref())?;
        let mut new = inventory.clone();
        new.retain(|cartridge| self.libraries.capacity_of(cartridge.vid) != Some(cartridge.capacity));
        register_tapes(&self.catalogue, &new).map_err(|error| self.failed(error))?;
        let changed = self.libraries.replace(inventory);
        // If it cannot be recorded it is tried again the next time; the scheduler hears of what came all the
        // same.
        let returned = self.note_returned();
        if returned.is_ok() {
            *seen = changes;
        }
        drop(seen);
        for vid in &changed {
            if self.libraries.holds(*vid) {
                tracing::info!(%vid, "the tape is in the library now");
            } else {
                match self.tape(*vid).ok().and_then(|record| record.away) {
                    Some(away) => tracing::info!(%vid, %away, "the tape has left the library"),
                    None => {
                        tracing::warn!(%vid, "the tape is gone from the library: put it in again to use it");
                    }
                }
            }
            self.post_tape(*vid);
        }
        if changed.iter().any(|vid| self.libraries.holds(*vid)) {
            self.retry_mends()?;
        }
        returned.map(|()| changed)
    }
}

impl Tape {
    /// Asks the library now whether cartridges came or went, which is done every few seconds anyway. Gives
    /// those that did, or can be used otherwise than before.
    ///
    /// # Errors
    /// If the library cannot be asked, or the catalogue not be written.
    pub fn take_inventory(&self) -> Result<BTreeSet<Vid>, ArchiveError> {
        let changed = self.look_at_inventory();
        self.look_at_cleaners();
        changed
    }
}
