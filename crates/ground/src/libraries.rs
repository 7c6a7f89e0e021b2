//! Which library each tape stands in, now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use base::{ByteCount, LibraryId, Vid};
use catalogue::Command;
use library::{CartridgeInfo, Library, LibraryError, Place};
use scheduler::LibraryPolicy;
use store::{BATCH_MAX, CatalogueStore, ExecuteError};
use threads::{Mutex, MutexGuard};

use crate::{LibrarySettings, Settings};

/// The libraries of this instance, numbered in the order of the settings.
#[derive(Debug)]
pub struct Libraries {
    names: Vec<String>,
    tapes: Mutex<BTreeMap<Vid, CartridgeInfo>>,
}

/// All libraries by their numbers.
pub fn all(settings: &Settings) -> impl Iterator<Item = &LibrarySettings> {
    std::iter::once(&settings.library).chain(&settings.more_libraries)
}

/// What the scheduler must know of the libraries.
pub fn policies(settings: &Settings) -> BTreeMap<LibraryId, LibraryPolicy> {
    let policy = |library: &LibrarySettings| LibraryPolicy {
        name: library.name.clone(),
        mount_cost_percent: library.mount_cost_percent,
    };
    (0u16..).map(LibraryId).zip(all(settings).map(policy)).collect()
}

/// What the libraries hold, as far as they can be asked. While a restored catalogue is settled all of them
/// must say: a tape that none shows is taken for one that nobody has.
///
/// # Errors
/// If no library can be asked; while settling, if one cannot.
pub fn inventory(
    catalogue: &CatalogueStore,
    library: &dyn Library,
) -> Result<Vec<CartridgeInfo>, LibraryError> {
    match catalogue.read(|view| view.is_restored()) {
        Ok(false) => library.inventory_in_reach(),
        Ok(true) | Err(_) => library.inventory(),
    }
}

/// Makes known to the catalogue what libraries hold, many tapes with one commit.
///
/// # Errors
/// If one is refused, or the catalogue not be written.
pub fn register_tapes(catalogue: &CatalogueStore, inventory: &[CartridgeInfo]) -> Result<(), ExecuteError> {
    for some in inventory.chunks(BATCH_MAX) {
        let register = |of: &CartridgeInfo| Command::RegisterTape { vid: of.vid, capacity: of.capacity };
        for result in catalogue.execute_all(some.iter().map(register).collect())? {
            result?;
        }
    }
    Ok(())
}

/// The number of a library.
pub fn number(settings: &Settings, name: &str) -> Option<u16> {
    (0u16..).zip(all(settings)).find(|(_, library)| library.name == name).map(|(number, _)| number)
}

impl Libraries {
    /// What the libraries hold.
    pub fn new(settings: &Settings, inventory: Vec<CartridgeInfo>) -> Self {
        let names = all(settings).map(|library| library.name.clone()).collect();
        let libraries = Libraries { names, tapes: Mutex::default() };
        libraries.replace(inventory);
        libraries
    }

    fn tapes(&self) -> MutexGuard<'_, BTreeMap<Vid, CartridgeInfo>> {
        self.tapes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a new inventory; gives the tapes that came, went, or can be used otherwise than before.
    pub fn replace(&self, inventory: Vec<CartridgeInfo>) -> BTreeSet<Vid> {
        let now: BTreeMap<Vid, CartridgeInfo> =
            inventory.into_iter().map(|cartridge| (cartridge.vid, cartridge)).collect();
        let mut tapes = self.tapes();
        let before = std::mem::replace(&mut *tapes, now);
        let is_as_before = |one: &CartridgeInfo, other: &CartridgeInfo| {
            let is_out = |place: &Place| matches!(place, Place::ImportExport(_)).then(|| place.clone());
            let place = one.place.is_in_use() == other.place.is_in_use();
            place
                && is_out(&one.place) == is_out(&other.place)
                && one.capacity == other.capacity
                && one.library == other.library
        };
        let mut changed: BTreeSet<Vid> = BTreeSet::new();
        for (vid, cartridge) in tapes.iter() {
            if !before.get(vid).is_some_and(|old| is_as_before(old, cartridge)) {
                changed.insert(*vid);
            }
        }
        changed.extend(before.into_keys().filter(|vid| !tapes.contains_key(vid)));
        changed
    }

    /// The library of a tape; the first one for a tape that is in none.
    pub fn of_tape(&self, vid: Vid) -> u16 {
        self.tapes().get(&vid).map_or(0, |cartridge| cartridge.library)
    }

    /// What an empty tape holds; `None` if no library has it.
    pub fn capacity_of(&self, vid: Vid) -> Option<ByteCount> {
        self.tapes().get(&vid).map(|cartridge| cartridge.capacity)
    }

    /// Whether a library holds the tape where a robot can take it.
    pub fn holds(&self, vid: Vid) -> bool {
        self.tapes().get(&vid).is_some_and(|cartridge| cartridge.place.is_in_use())
    }

    /// Where a library shows the tape; `None` if none does.
    pub fn place_of(&self, vid: Vid) -> Option<Place> {
        self.tapes().get(&vid).map(|cartridge| cartridge.place.clone())
    }

    /// The import/export element in which the tape stands, if it does in one.
    pub fn import_export_of(&self, vid: Vid) -> Option<u32> {
        match self.place_of(vid) {
            Some(Place::ImportExport(element)) => Some(element.0),
            _ => None,
        }
    }

    /// The name of a library.
    pub fn name(&self, number: u16) -> &str {
        self.names.get(usize::from(number)).map_or("", String::as_str)
    }
}
