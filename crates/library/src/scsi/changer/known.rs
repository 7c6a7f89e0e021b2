//! What is known of a changer between two questions.

use std::collections::BTreeMap;

use base::Vid;
use scsi::{ElementAddress, ElementType};

use super::condition::Condition;
use super::elements::{Elements, Holdings, InDrive, OwnElements, SeenElement, differ, holdings};
use super::reach::{DriveSeat, ScsiLibraryConfig, WantedDrive};
use super::robot::ChangerIdentity;
use crate::DriveName;

/// What this process has put into a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mounted {
    pub vid: Vid,
    /// The slot that it came from.
    pub home: ElementAddress,
    /// It cleans the drive.
    pub is_cleaning: bool,
}

/// What is known, held for moments only.
#[derive(Default)]
pub(super) struct Known {
    /// As last read; `None` before the changer was reached for the first time.
    pub elements: Option<Elements>,
    /// Who the changer was then.
    pub identity: Option<ChangerIdentity>,
    pub own: OwnElements,
    /// Where each drive stands, or why that is not known.
    pub seats: BTreeMap<DriveName, Result<WantedDrive, String>>,
    /// Drives that hold what this process has mounted.
    pub mounted: BTreeMap<ElementAddress, Mounted>,
    /// See [`crate::Library::changes`].
    pub changes: u64,
    /// Why the changer could not be asked the last time.
    pub trouble: Option<String>,
    /// What the changer says of itself.
    pub condition: Condition,
}

impl Known {
    /// What our elements hold.
    pub(super) fn holdings(&self) -> Holdings {
        let in_drive = |mounted: &Mounted| InDrive { vid: mounted.vid, is_cleaning: mounted.is_cleaning };
        let mounted = self.mounted.iter().map(|(at, mounted)| (*at, in_drive(mounted))).collect();
        self.elements.as_ref().map(|elements| holdings(elements, &self.own, &mounted)).unwrap_or_default()
    }

    /// Takes over all elements as they were read just now.
    pub(super) fn replace(&mut self, elements: Elements, config: &ScsiLibraryConfig) {
        let before = self.elements.take();
        let was_reached = before.is_some();
        let seats = seats(&elements, config);
        let drives = seats.values().filter_map(|seat| seat.as_ref().ok());
        let drives = drives.map(|seat| (seat.element, seat.name.clone())).collect();
        self.own = OwnElements { slots: config.slots.clone(), drives };
        self.seats = seats;
        if !was_reached || differ(&before.unwrap_or_default(), &elements, &self.own) {
            self.changes += 1;
        }
        let is_empty = |at: &ElementAddress| elements.get(at).is_some_and(|element| !element.full);
        self.mounted.retain(|at, _| !is_empty(at));
        self.elements = Some(elements);
    }

    /// Takes over some elements: `ours`, if what they show is what we did.
    pub(super) fn amend(&mut self, seen: Elements, ours: bool) {
        let Some(elements) = &mut self.elements else { return };
        let before: Elements =
            seen.keys().filter_map(|at| elements.get(at).map(|element| (*at, element.clone()))).collect();
        if !ours && differ(&before, &seen, &self.own) {
            self.changes += 1;
        }
        elements.extend(seen);
    }

    pub(super) fn element(&self, at: ElementAddress) -> Option<&SeenElement> {
        self.elements.as_ref()?.get(&at)
    }

    /// Whether this is a slot, and ours.
    pub(super) fn is_own_slot(&self, at: ElementAddress) -> bool {
        self.own.has_slot(at) && self.element(at).is_some_and(|element| element.kind == ElementType::Storage)
    }

    /// Import/export elements of ours.
    pub(super) fn import_export(&self) -> Vec<(ElementAddress, SeenElement)> {
        let elements = self.elements.iter().flatten();
        let doors = elements.filter(|(at, element)| {
            element.kind == ElementType::ImportExport && !element.disabled && self.own.has_slot(**at)
        });
        doors.map(|(at, element)| (*at, element.clone())).collect()
    }

    /// Slots of ours that were empty, those first from which nothing is in a drive.
    pub(super) fn free_slots(&self) -> Vec<ElementAddress> {
        let elements = self.elements.iter().flatten();
        let free = elements.filter(|(at, element)| {
            element.kind == ElementType::Storage
                && !element.full
                && !element.disabled
                && self.own.has_slot(**at)
        });
        let mut free: Vec<ElementAddress> = free.map(|(at, _)| *at).collect();
        free.sort_by_key(|at| self.mounted.values().any(|mounted| mounted.home == *at));
        free
    }
}

/// Where the drives stand that the configuration names.
fn seats(
    elements: &Elements,
    config: &ScsiLibraryConfig,
) -> BTreeMap<DriveName, Result<WantedDrive, String>> {
    let drives: Vec<(&ElementAddress, &SeenElement)> =
        elements.iter().filter(|(_, element)| element.kind == ElementType::DataTransfer).collect();
    let mut seats = BTreeMap::new();
    let mut given: BTreeMap<ElementAddress, DriveName> = BTreeMap::new();
    for (name, seat) in &config.drives {
        let found = match seat {
            DriveSeat::Number(number) => drives
                .get(usize::from(*number))
                .copied()
                .ok_or_else(|| format!("the changer has {} drives, which are numbered from 0", drives.len())),
            DriveSeat::SerialAt(_, at) => elements
                .get_key_value(at)
                .filter(|(_, element)| element.kind == ElementType::DataTransfer)
                .ok_or_else(|| format!("the changer has no drive at element {at}")),
            DriveSeat::Serial(serial) => by_serial(&drives, serial),
        };
        let seat = found.and_then(|(at, element)| {
            if let Some(other) = given.get(at) {
                return Err(format!("drive {other} is at element {at} already"));
            }
            given.insert(*at, name.clone());
            let serial = match seat {
                DriveSeat::Number(_) => None,
                DriveSeat::Serial(serial) | DriveSeat::SerialAt(serial, _) => Some(serial.clone()),
            };
            let identifier = element.identifier.clone();
            Ok(WantedDrive { name: name.clone(), serial, identifier, element: *at })
        });
        seats.insert(name.clone(), seat);
    }
    seats
}

/// The drive element whose identifier has this serial number.
fn by_serial<'a>(
    drives: &[(&'a ElementAddress, &'a SeenElement)],
    serial: &str,
) -> Result<(&'a ElementAddress, &'a SeenElement), String> {
    let has = |element: &SeenElement| {
        element.identifier.as_ref().is_some_and(|identifier| names_serial(identifier, serial))
    };
    let mut all = drives.iter().filter(|(_, element)| has(element));
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(*one),
        (Some(_), Some(_)) => Err(format!("the changer shows serial number {serial} at several elements")),
        (None, _) if drives.iter().all(|(_, element)| element.identifier.is_none()) => Err(format!(
            "the changer does not say where which drive is: write the element in front, as in \
             \"{}=serial:{serial}\"",
            drives.first().map_or(256, |(at, _)| at.0)
        )),
        (None, _) => Err(format!("the changer has no drive with serial number {serial}")),
    }
}

/// Whether an identifier has this serial number: alone, or behind vendor and product (SPC-5, T10 vendor
/// identification).
pub(crate) fn names_serial(identifier: &scsi::vpd::Designator, serial: &str) -> bool {
    let text = identifier.text();
    let text = text.trim();
    !serial.is_empty()
        && (text == serial || text.split_ascii_whitespace().next_back().is_some_and(|last| last == serial))
}
