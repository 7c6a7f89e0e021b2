//! Which library each tape stands in.

use std::collections::BTreeMap;

use base::{LibraryId, Vid};
use library::CartridgeInfo;
use scheduler::LibraryPolicy;

use crate::{LibrarySettings, Settings};

/// The libraries of this instance, numbered in the order of the settings.
#[derive(Clone, Default, Debug)]
pub(crate) struct Libraries {
    names: Vec<String>,
    tapes: BTreeMap<Vid, u16>,
}

/// All libraries by their numbers.
pub(crate) fn all(settings: &Settings) -> impl Iterator<Item = &LibrarySettings> {
    std::iter::once(&settings.library).chain(&settings.more_libraries)
}

/// What the scheduler must know of the libraries.
pub(crate) fn policies(settings: &Settings) -> BTreeMap<LibraryId, LibraryPolicy> {
    let policy = |library: &LibrarySettings| LibraryPolicy {
        name: library.name.clone(),
        mount_cost_percent: library.mount_cost_percent,
    };
    (0u16..).map(LibraryId).zip(all(settings).map(policy)).collect()
}

/// The number of a library.
pub(crate) fn number(settings: &Settings, name: &str) -> Option<u16> {
    (0u16..).zip(all(settings)).find(|(_, library)| library.name == name).map(|(number, _)| number)
}

impl Libraries {
    pub(crate) fn new(settings: &Settings, inventory: &[CartridgeInfo]) -> Self {
        let tapes = inventory.iter().map(|cartridge| (cartridge.vid, cartridge.library));
        let names = all(settings).map(|library| library.name.clone());
        Libraries { names: names.collect(), tapes: tapes.collect() }
    }

    /// The library of a tape; the first one for a tape that is in none.
    pub(crate) fn of_tape(&self, vid: Vid) -> u16 {
        self.tapes.get(&vid).copied().unwrap_or(0)
    }

    /// Whether a library held the tape when the server was started.
    pub(crate) fn holds(&self, vid: Vid) -> bool {
        self.tapes.contains_key(&vid)
    }

    /// The name of a library.
    pub(crate) fn name(&self, number: u16) -> &str {
        self.names.get(usize::from(number)).map_or("", String::as_str)
    }
}
