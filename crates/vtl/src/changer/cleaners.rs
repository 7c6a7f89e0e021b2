//! Cleaning cartridges among the cartridges of a library.

use std::collections::BTreeSet;

use base::{ByteCount, Vid};
use library::{CartridgeInfo, Library, Place, Slot};

/// Behind the VID of one, where tapes have a suffix: it fits drives of all generations.
pub const SUFFIX: &str = "L1";

/// The VIDs of a library's cleaning cartridges that are not tapes too.
pub fn vids(library: &dyn Library, tapes: &[CartridgeInfo]) -> BTreeSet<Vid> {
    let is_tape = |vid: &Vid| tapes.iter().any(|tape| tape.vid == *vid);
    library.cleaners().into_iter().map(|cleaner| cleaner.vid).filter(|vid| !is_tape(vid)).collect()
}

/// The rows of an inventory for them. Which element each is in is this target's own business: in the library
/// all are home again as soon as a drive is clean.
pub fn rows(cleaners: &BTreeSet<Vid>) -> impl Iterator<Item = CartridgeInfo> + '_ {
    cleaners.iter().map(|vid| CartridgeInfo {
        vid: *vid,
        place: Place::Slot(Slot(0)),
        capacity: ByteCount(0),
        write_protected: false,
        damaged: false,
        library: 0,
    })
}
