//! Which cartridge is in which element. The library knows drives and slots of its own; which storage, import
//! or export element a cartridge stands in is known here, and kept for the next start in `places.rs`.

use std::collections::{BTreeMap, BTreeSet};

use base::Vid;
use library::{CartridgeInfo, Place};
use scsi::ElementAddress;
use scsi::command::ElementType;
use scsi::mode::ElementAddressAssignment;

use super::places::Places;
use crate::answer::Refusal;
use crate::options::Options;

/// The address of the picker.
pub const TRANSPORT: ElementAddress = ElementAddress(1);
/// The first import and export element.
const IMPORT_EXPORT: u16 = 16;
/// The first drive.
const DATA_TRANSFER: u16 = 256;
/// The first storage element.
const STORAGE: u16 = 1024;

const _: () = assert!(IMPORT_EXPORT + Options::IMPORT_EXPORT_MAX <= DATA_TRANSFER);
const _: () = assert!(DATA_TRANSFER as usize + Options::DRIVES_MAX <= STORAGE as usize);
const _: () = assert!(STORAGE as u32 + Options::SLOTS_MAX as u32 <= u16::MAX as u32);

/// A cartridge in an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub vid: Vid,
    /// The storage, import or export element that it came from last.
    pub source: Option<ElementAddress>,
    /// In a drive: it is loaded, and the robot does not get at it.
    pub loaded: bool,
    /// The library cannot identify it.
    pub damaged: bool,
    /// An operator put it in.
    pub by_operator: bool,
}

/// What a look at the library has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refreshed {
    /// Cartridges came or went, or can be identified now.
    pub changed: bool,
    /// Some of them in import and export elements.
    pub accessed: bool,
}

/// All elements.
pub struct Elements {
    ranges: ElementAddressAssignment,
    held: BTreeMap<u16, Held>,
    /// Elements to which the robot is on its way: no new cartridge gets one of them.
    reserved: BTreeSet<u16>,
    /// Cartridges of the library for which there is no element.
    left_out: usize,
    /// Those that clean drives.
    cleaners: BTreeSet<Vid>,
    /// Where cartridges stood before this start.
    before: Places,
}

impl Elements {
    /// `before`: where cartridges stood at the last start, and stand now if they are still of that kind.
    pub fn new(slots: u16, import_export: u16, drives: u16, before: Places) -> Elements {
        let ranges = ElementAddressAssignment {
            transport: (TRANSPORT, 1),
            storage: (ElementAddress(STORAGE), slots),
            import_export: (ElementAddress(IMPORT_EXPORT), import_export),
            data_transfer: (ElementAddress(DATA_TRANSFER), drives),
        };
        Elements {
            ranges,
            held: BTreeMap::new(),
            reserved: BTreeSet::new(),
            left_out: 0,
            cleaners: BTreeSet::new(),
            before,
        }
    }

    /// The address of a drive, by its number from 0 on.
    pub fn drive(number: u16) -> ElementAddress {
        ElementAddress(DATA_TRANSFER.saturating_add(number))
    }

    pub fn ranges(&self) -> &ElementAddressAssignment {
        &self.ranges
    }

    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Which cartridges clean drives.
    pub fn cleaners(&self) -> &BTreeSet<Vid> {
        &self.cleaners
    }

    /// These clean drives; the next refresh has them among the cartridges.
    pub fn set_cleaners(&mut self, cleaners: BTreeSet<Vid>) {
        self.cleaners = cleaners;
    }

    /// The addresses of a type.
    pub fn addresses(&self, kind: ElementType) -> impl Iterator<Item = ElementAddress> + use<> {
        let (first, count) = self.ranges.range(kind);
        (first.0..first.0.saturating_add(count)).map(ElementAddress)
    }

    /// What an element is.
    ///
    /// # Errors
    /// 5/21/01 if there is none.
    pub fn kind(&self, address: ElementAddress) -> Result<ElementType, Refusal> {
        let kinds = [
            ElementType::Transport,
            ElementType::Storage,
            ElementType::ImportExport,
            ElementType::DataTransfer,
        ];
        let within = |kind: &ElementType| {
            let (first, count) = self.ranges.range(*kind);
            address.0.checked_sub(first.0).is_some_and(|number| number < count)
        };
        kinds.into_iter().find(within).ok_or_else(|| Refusal::illegal(0x21, 0x01))
    }

    /// The number of a drive, from 0 on.
    pub fn drive_number(&self, address: ElementAddress) -> Option<usize> {
        let is_drive = self.kind(address) == Ok(ElementType::DataTransfer);
        is_drive.then(|| usize::from(address.0 - DATA_TRANSFER))
    }

    /// Where each cartridge stands; of one in a drive, where it came from.
    pub fn places(&self) -> Places {
        let place = |(address, held): (&u16, &Held)| {
            let address = ElementAddress(*address);
            let is_in_drive = self.kind(address) == Ok(ElementType::DataTransfer);
            Some((held.vid, if is_in_drive { held.source? } else { address }))
        };
        self.held.iter().filter_map(place).collect()
    }

    pub fn held(&self, address: ElementAddress) -> Option<&Held> {
        self.held.get(&address.0)
    }

    /// Takes over what the library has: new cartridges get a free storage element, those that an operator
    /// has put in an import and export element, or they are left out; those that are gone leave theirs.
    /// `drive_of`: the element of a drive by its name.
    pub fn refresh(
        &mut self,
        inventory: &[CartridgeInfo],
        drive_of: impl Fn(&library::DriveName) -> Option<ElementAddress>,
    ) -> Refreshed {
        let there: BTreeMap<Vid, &CartridgeInfo> = inventory.iter().map(|info| (info.vid, info)).collect();
        let is_gone = |held: &Held| !there.contains_key(&held.vid);
        let gone: Vec<u16> =
            self.held.iter().filter(|(_, held)| is_gone(held)).map(|(address, _)| *address).collect();
        let is_door = |address: u16| self.kind(ElementAddress(address)) == Ok(ElementType::ImportExport);
        let mut accessed = gone.iter().any(|address| is_door(*address));
        let mut changed = !gone.is_empty();
        self.held.retain(|address, _| !gone.contains(address));
        for held in self.held.values_mut() {
            let damaged = there.get(&held.vid).is_some_and(|info| info.damaged);
            changed |= held.damaged != damaged;
            held.damaged = damaged;
        }
        let known: BTreeSet<Vid> = self.held.values().map(|held| held.vid).collect();
        let (first, count) = self.ranges.storage;
        let mut free = (first.0..first.0.saturating_add(count)).peekable();
        let (first, count) = self.ranges.import_export;
        let mut doors = (first.0..first.0.saturating_add(count)).peekable();
        self.left_out = 0;
        let before = std::mem::take(&mut self.before);
        let mut homes: BTreeSet<u16> = BTreeSet::new();
        let new = || inventory.iter().filter(|info| !known.contains(&info.vid));
        // First those that have a place: no other gets it.
        let (back, others): (Vec<_>, Vec<_>) = new().partition(|info| before.contains_key(&info.vid));
        for info in back.into_iter().chain(others) {
            let in_drive = match &info.place {
                Place::Drive(name) => drive_of(name),
                _ => None,
            };
            let is_taken = |address: &u16| self.held.contains_key(address) || self.reserved.contains(address);
            let by_operator = matches!(info.place, Place::ImportExport(_));
            let kind = if by_operator { ElementType::ImportExport } else { ElementType::Storage };
            let is_its =
                |address: &u16| self.kind(ElementAddress(*address)) == Ok(kind) && !is_taken(address);
            let its = before.get(&info.vid).map(|address| address.0).filter(is_its);
            let places = if by_operator { &mut doors } else { &mut free };
            let is_given = |address: &u16| is_taken(address) || homes.contains(address);
            while its.is_none() && places.next_if(is_given).is_some() {}
            // One in a drive has a slot to go back to, which no other of this time gets.
            let home = its.or_else(|| places.next());
            let Some(address) = in_drive.map(|drive| drive.0).or(home) else {
                self.left_out += 1;
                continue;
            };
            let held = Held {
                vid: info.vid,
                source: in_drive.and(home).map(ElementAddress),
                loaded: in_drive.is_some(),
                damaged: info.damaged,
                by_operator,
            };
            homes.extend(in_drive.and(home));
            self.held.insert(address, held);
            changed = true;
            accessed |= by_operator;
        }
        Refreshed { changed, accessed }
    }

    /// Keeps elements free for what the robot carries, instead of those that were kept before.
    pub fn reserve(&mut self, addresses: &[ElementAddress]) {
        self.reserved = addresses.iter().map(|address| address.0).collect();
    }

    /// The cartridge of an element.
    ///
    /// # Errors
    /// 5/3B/0E if it is empty.
    pub fn full(&self, address: ElementAddress) -> Result<&Held, Refusal> {
        self.held(address).ok_or_else(|| Refusal::illegal(0x3b, 0x0e))
    }

    /// Whether an element is empty.
    ///
    /// # Errors
    /// 5/3B/0D if not.
    pub fn empty(&self, address: ElementAddress) -> Result<(), Refusal> {
        if self.held(address).is_none() { Ok(()) } else { Err(Refusal::illegal(0x3b, 0x0d)) }
    }

    /// A cartridge was moved. In a drive it is loaded.
    ///
    /// # Panics
    /// If another cartridge stands there: whoever moves has looked.
    pub fn moved(&mut self, from: ElementAddress, to: ElementAddress) {
        let Some(held) = self.held.remove(&from.0) else { return };
        self.put(from, to, held);
    }

    /// Takes a cartridge out, to [`Elements::put`] it elsewhere.
    pub fn take(&mut self, from: ElementAddress) -> Option<Held> {
        self.held.remove(&from.0)
    }

    /// Puts a cartridge that came from somewhere into an element.
    ///
    /// # Panics
    /// If another cartridge stands there.
    pub fn put(&mut self, from: ElementAddress, to: ElementAddress, mut held: Held) {
        let keeps =
            |address| matches!(self.kind(address), Ok(ElementType::Storage | ElementType::ImportExport));
        if keeps(from) {
            held.source = Some(from);
        }
        held.loaded = self.kind(to) == Ok(ElementType::DataTransfer);
        held.by_operator = false;
        let before = self.held.insert(to.0, held);
        assert!(before.is_none(), "element {to} held {before:?} when another cartridge came");
    }

    /// A drive has unloaded its cartridge.
    pub fn unloaded(&mut self, drive: ElementAddress) {
        if let Some(held) = self.held.get_mut(&drive.0) {
            held.loaded = false;
        }
    }

    /// A drive has loaded the cartridge in it.
    pub fn loaded(&mut self, drive: ElementAddress) {
        if let Some(held) = self.held.get_mut(&drive.0) {
            held.loaded = true;
        }
    }

    /// The cartridge in a drive that has unloaded it.
    pub fn unloaded_in(&self, drive: ElementAddress) -> Option<Vid> {
        self.held(drive).filter(|held| !held.loaded).map(|held| held.vid)
    }
}

#[cfg(test)]
mod tests {
    use base::ByteCount;
    use library::{DriveName, Slot};

    use super::*;

    fn info(vid: &str, place: Place) -> CartridgeInfo {
        CartridgeInfo {
            vid: Vid::new(vid).unwrap(),
            place,
            capacity: ByteCount(1),
            write_protected: false,
            damaged: false,
            library: 0,
        }
    }

    #[test]
    fn cartridges_keep_their_elements_when_others_come_and_go() {
        let mut elements = Elements::new(3, 1, 1, Places::new());
        let slot = |number| Place::Slot(Slot(number));
        let drive = DriveName::new("d").unwrap();
        let drive_of = |name: &DriveName| (name.as_str() == "d").then_some(Elements::drive(0));
        let first = [info("KT0002", slot(0)), info("KT0003", Place::Drive(drive))];
        assert!(elements.refresh(&first, drive_of).changed);
        assert_eq!(elements.refresh(&first, drive_of), Refreshed::default(), "nothing changed");
        let vid_at = |elements: &Elements, address| {
            elements.held(ElementAddress(address)).map(|held| held.vid.to_string())
        };
        assert_eq!(vid_at(&elements, 1024), Some("KT0002".into()));
        let loaded = elements.held(Elements::drive(0)).unwrap();
        assert_eq!((loaded.loaded, loaded.source), (true, Some(ElementAddress(1025))));
        // One that comes before it in the library's own order does not move it.
        let names = ["KT0001", "KT0002", "KT0004", "KT0005", "KT0006"];
        let all: Vec<_> = (0..).zip(names).map(|(number, vid)| info(vid, slot(number))).collect();
        assert!(elements.refresh(&all, drive_of).changed);
        assert_eq!(vid_at(&elements, 1024), Some("KT0002".into()));
        assert_eq!(vid_at(&elements, 1025), Some("KT0001".into()));
        assert_eq!((elements.left_out(), elements.held(Elements::drive(0))), (2, None));
        let refreshed = elements.refresh(&all[..2], drive_of);
        assert_eq!(refreshed, Refreshed { changed: true, accessed: false });
        assert_eq!((elements.left_out(), vid_at(&elements, 1026)), (0, None));
    }

    /// Story: after a restart of the target the cartridges at the door had swapped places.
    #[test]
    fn cartridges_stand_where_they_stood_when_the_target_starts_again() {
        let drive = DriveName::new("d").unwrap();
        let drive_of = |name: &DriveName| (name.as_str() == "d").then_some(Elements::drive(0));
        let slot = Place::Slot(Slot(0));
        let door = Place::ImportExport(Slot(0));
        let mut all = vec![
            info("KT0001", door.clone()),
            info("KT0002", slot.clone()),
            info("KT0003", Place::Drive(drive)),
            info("KT0004", door.clone()),
        ];
        let mut elements = Elements::new(4, 3, 1, Places::new());
        elements.refresh(&all, drive_of);
        elements.moved(ElementAddress(IMPORT_EXPORT), ElementAddress(IMPORT_EXPORT + 2));
        elements.moved(ElementAddress(IMPORT_EXPORT + 1), ElementAddress(IMPORT_EXPORT));
        elements.moved(ElementAddress(STORAGE), ElementAddress(STORAGE + 3));
        let places = elements.places();
        let mut again = Elements::new(4, 3, 1, places.clone());
        again.refresh(&all, drive_of);
        assert_eq!(again.places(), places);
        // One that went in meanwhile, and one that is new, get free elements.
        all[0] = info("KT0001", slot);
        all.push(info("KT0005", door));
        let mut again = Elements::new(4, 3, 1, places.clone());
        again.refresh(&all, drive_of);
        let at = |vid: &str| again.places().get(&Vid::new(vid).unwrap()).map(|address| address.0);
        assert_eq!((at("KT0004"), at("KT0005")), (Some(IMPORT_EXPORT), Some(IMPORT_EXPORT + 1)));
        assert_eq!((at("KT0002"), at("KT0003")), (Some(STORAGE + 3), Some(STORAGE + 1)));
        assert_eq!((at("KT0001"), again.left_out()), (Some(STORAGE), 0));
    }

    #[test]
    fn what_an_operator_puts_in_stands_in_an_import_and_export_element() {
        let mut elements = Elements::new(3, 1, 0, Places::new());
        let none = |_: &DriveName| None;
        let door = |vid| info(vid, Place::ImportExport(Slot(7)));
        let accessed = Refreshed { changed: true, accessed: true };
        assert_eq!(elements.refresh(&[door("KT0001"), door("KT0002")], none), accessed);
        let held = elements.held(ElementAddress(IMPORT_EXPORT)).unwrap();
        assert_eq!((held.vid.to_string(), held.by_operator), ("KT0001".into(), true));
        assert_eq!(elements.left_out(), 1);
        // The robot takes it in: it came from there, and no operator has put it where it is now.
        elements.moved(ElementAddress(IMPORT_EXPORT), ElementAddress(STORAGE));
        let held = elements.held(ElementAddress(STORAGE)).unwrap();
        assert_eq!((held.source, held.by_operator), (Some(ElementAddress(IMPORT_EXPORT)), false));
        elements.moved(ElementAddress(STORAGE), ElementAddress(IMPORT_EXPORT));
        assert_eq!(elements.refresh(&[], none), accessed, "an operator has taken it out");
    }

    #[test]
    fn addresses_have_one_type() {
        let elements = Elements::new(2, 1, 3, Places::new());
        let kind = |address| elements.kind(ElementAddress(address)).ok();
        assert_eq!(
            (kind(0), kind(1), kind(16), kind(17)),
            (None, Some(ElementType::Transport), Some(ElementType::ImportExport), None)
        );
        assert_eq!(
            (kind(258), kind(259), kind(1025), kind(1026)),
            (Some(ElementType::DataTransfer), None, Some(ElementType::Storage), None)
        );
        assert_eq!(elements.drive_number(ElementAddress(258)), Some(2));
    }
}
