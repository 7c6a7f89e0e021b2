//! Cartridges that come and go: movements between slots and import/export elements.

use base::Vid;
use scsi::{ElementAddress, ElementType};

use super::library::{Line, ScsiLibrary};
use super::moving::{Moved, Movement};
use crate::{LibraryError, Place, Slot};

fn slot(address: ElementAddress) -> Slot {
    Slot(u32::from(address.0))
}

impl ScsiLibrary {
    /// [`crate::Library::export`].
    pub(super) fn export_from_slot(&self, vid: Vid) -> Result<Slot, LibraryError> {
        let mut line = self.line();
        // Operators empty import/export elements without a word to anybody.
        self.refresh(&mut line)?;
        let (home, barcode) = match self.slot_of(&mut line, vid) {
            Err(LibraryError::UnknownCartridge { .. }) => self.cleaner_in_slot(&mut line, vid)?,
            tape => tape?,
        };
        let free = self.free_import_export()?;
        for to in free {
            let movement = Movement {
                vid: Some(vid),
                barcode: barcode.clone(),
                from: (ElementType::Storage, home),
                to: (ElementType::ImportExport, to),
            };
            if self.was_moved(&mut line, vid, &movement)? {
                return Ok(slot(to));
            }
        }
        Err(LibraryError::ImportExportFull)
    }

    /// Where a cartridge may be brought to be taken out.
    fn free_import_export(&self) -> Result<Vec<ElementAddress>, LibraryError> {
        let mut elements = self.known().import_export();
        elements.retain(|(_, element)| element.exports);
        if elements.is_empty() {
            return Err(LibraryError::NoImportExport);
        }
        elements.retain(|(_, element)| !element.full);
        if elements.is_empty() {
            return Err(LibraryError::ImportExportFull);
        }
        // While an operator has their door open the robot does not get at them (ACCESS).
        elements.retain(|(_, element)| element.accessible);
        if elements.is_empty() {
            return Err(LibraryError::ImportExportOpen);
        }
        Ok(elements.into_iter().map(|(at, _)| at).collect())
    }

    /// [`crate::Library::import`].
    pub(super) fn import_into_slot(&self, vid: Vid) -> Result<Slot, LibraryError> {
        let mut line = self.line();
        self.refresh(&mut line)?;
        let mut held = self.holdings();
        let tapes = held.cartridges.remove(&vid).map(|tape| (tape.place, tape.at, tape.barcode));
        let cleaners = held.cleaning.into_iter().filter(|cleaner| cleaner.vid == Some(vid));
        let found = tapes.into_iter().chain(cleaners.map(|it| (it.place, it.at, it.barcode)));
        let there = found.into_iter().find(|(place, ..)| matches!(place, Place::ImportExport(_)));
        let Some((_, from, barcode)) = there else { return Err(LibraryError::NotInImportExport { vid }) };
        let element = self.look(&mut line, ElementType::ImportExport, from)?;
        if !element.full || element.barcode != barcode {
            return Err(LibraryError::NotInImportExport { vid });
        }
        if !element.accessible {
            return Err(LibraryError::ImportExportOpen);
        }
        let slots = self.known().free_slots();
        for to in slots {
            if self.look(&mut line, ElementType::Storage, to)?.full {
                continue;
            }
            let movement = Movement {
                vid: Some(vid),
                barcode: barcode.clone(),
                from: (ElementType::ImportExport, from),
                to: (ElementType::Storage, to),
            };
            if self.was_moved(&mut line, vid, &movement)? {
                return Ok(slot(to));
            }
        }
        Err(LibraryError::NoSlotToImport { vid })
    }

    /// Moves a cartridge; `false` if somebody was faster and its destination is full.
    fn was_moved(&self, line: &mut Line, vid: Vid, movement: &Movement) -> Result<bool, LibraryError> {
        match self.carry(line, movement)? {
            Moved::There => {
                // Where it can be mounted from has changed.
                self.known().changes += 1;
                Ok(true)
            }
            Moved::DestinationFull => Ok(false),
            Moved::Stayed(source) => Err(LibraryError::NotMoved { vid, source }),
            Moved::Lost(source) => Err(LibraryError::Misplaced { vid, source }),
        }
    }
}
