//! What is where in a changer, as it said last, and what that means. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use base::Vid;
use scsi::element::Element;
use scsi::sense::AdditionalSense;
use scsi::vpd::Designator;
use scsi::{ElementAddress, ElementType};

use super::barcode::Barcode;
use crate::{DriveName, Place, Slot};

/// Of what has no VID so many are told.
const TOLD_MAX: usize = 100;
/// Medium types of an element descriptor (SMC-3, 6.11) that are no tapes for data.
const CLEANING: u8 = 2;
const DIAGNOSTICS: u8 = 3;
const MICROCODE: u8 = 5;

/// An element as it was last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenElement {
    /// What it is.
    pub kind: ElementType,
    /// There is a cartridge in it.
    pub full: bool,
    /// Its label, if one was read.
    pub barcode: Option<Barcode>,
    /// The type of the medium as the changer has it: 0 not known, 1 data, 2 cleaning, 3 diagnostics, 4 WORM,
    /// 5 microcode.
    pub medium_type: u8,
    /// Where the cartridge came from, if the changer knows.
    pub source: Option<ElementAddress>,
    /// The robot can get at it.
    pub accessible: bool,
    /// An import/export element from which cartridges may be taken (EXENAB).
    pub exports: bool,
    /// It is out of use.
    pub disabled: bool,
    /// What is wrong with it.
    pub exception: Option<AdditionalSense>,
    /// The drive's identifier, if the changer tells it.
    pub identifier: Option<Designator>,
}

impl SeenElement {
    /// As the changer describes it.
    #[must_use]
    pub fn of(kind: ElementType, element: &Element) -> SeenElement {
        SeenElement {
            kind,
            full: element.full,
            barcode: element.volume().filter(|_| element.full).and_then(|text| Barcode::new(&text)),
            medium_type: element.medium_type,
            source: element.source.filter(|_| element.full),
            accessible: element.accessible,
            exports: element.exports,
            disabled: element.disabled,
            exception: element.exceptional.then_some(element.exception),
            identifier: element.identifier.clone(),
        }
    }

    fn is_cleaning(&self) -> bool {
        self.medium_type == CLEANING || self.barcode.as_ref().is_some_and(Barcode::is_cleaning)
    }

    /// What an inventory compares: whether a cartridge is there, and which.
    fn content(&self) -> (bool, Option<&Barcode>) {
        (self.full, self.barcode.as_ref())
    }
}

/// All elements that the changer told of.
pub type Elements = BTreeMap<ElementAddress, SeenElement>;

/// Which elements belong to this instance. A changer may serve other software too: what is not in here is
/// neither shown nor touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnElements {
    /// Addresses of slots and doors; `None`: all.
    pub slots: Option<Vec<RangeInclusive<u16>>>,
    /// The drives.
    pub drives: BTreeMap<ElementAddress, DriveName>,
}

impl OwnElements {
    /// Whether a slot or a door is ours.
    #[must_use]
    pub fn has_slot(&self, address: ElementAddress) -> bool {
        let in_range = |range: &RangeInclusive<u16>| range.contains(&address.0);
        self.slots.as_ref().is_none_or(|slots| slots.iter().any(in_range))
    }

    /// Where an element of ours is for the engine; `None` if it is not ours.
    fn place(&self, address: ElementAddress, element: &SeenElement) -> Option<Place> {
        let slot = Slot(u32::from(address.0));
        match element.kind {
            ElementType::Storage => self.has_slot(address).then_some(Place::Slot(slot)),
            ElementType::ImportExport => self.has_slot(address).then_some(Place::ImportExport(slot)),
            ElementType::DataTransfer => self.drives.get(&address).cloned().map(Place::Drive),
            // What other software has on the way is none of our business.
            ElementType::Transport | ElementType::All => {
                let ours = match element.source {
                    Some(source) => self.has_slot(source) || self.drives.contains_key(&source),
                    None => self.slots.is_none(),
                };
                ours.then_some(Place::Unknown)
            }
        }
    }
}

/// A cartridge with a VID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenCartridge {
    /// The element in which it is.
    pub at: ElementAddress,
    /// The same for the engine.
    pub place: Place,
    /// Its label; `None` if it is known only since this process mounted it.
    pub barcode: Option<Barcode>,
}

/// What this process has put into a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InDrive {
    /// The cartridge.
    pub vid: Vid,
    /// It cleans the drive.
    pub is_cleaning: bool,
}

/// A cartridge that cleans drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleaningCartridge {
    /// The element in which it is.
    pub at: ElementAddress,
    /// Its label, if one was read.
    pub barcode: Option<Barcode>,
    /// Where it is.
    pub place: Place,
    /// By what it is asked for: what its label says, or what we know to have put into a drive.
    pub vid: Option<Vid>,
}

/// Why a cartridge is none that could be asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum WithoutVid {
    NoLabel(Option<AdditionalSense>),
    NoVid(Barcode),
    Twice(Barcode),
    Other(u8),
}

impl fmt::Display for WithoutVid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WithoutVid::NoLabel(None) => f.write_str("no label could be read"),
            WithoutVid::NoLabel(Some(sense)) => write!(f, "no label could be read: {sense}"),
            WithoutVid::NoVid(barcode) => write!(f, "its label '{barcode}' is no VID"),
            WithoutVid::Twice(barcode) => write!(f, "label '{barcode}' is there more than once"),
            WithoutVid::Other(DIAGNOSTICS) => f.write_str("it is for diagnostics"),
            WithoutVid::Other(MICROCODE) => f.write_str("it holds microcode"),
            WithoutVid::Other(kind) => write!(f, "its medium is of type {kind}"),
        }
    }
}

/// What the elements of ours hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Tapes by their VIDs.
    pub cartridges: BTreeMap<Vid, SeenCartridge>,
    /// What is there and cannot be asked for, in words.
    pub without_vid: Vec<String>,
    /// Cleaning cartridges; never offered as tapes.
    pub cleaning: Vec<CleaningCartridge>,
}

/// What our elements hold. `mounted`: what this process knows to be in a drive, for changers that do not read
/// labels there, and since of two cartridges with one label the one that we mounted is known.
#[must_use]
pub fn holdings(
    elements: &Elements,
    own: &OwnElements,
    mounted: &BTreeMap<ElementAddress, InDrive>,
) -> Holdings {
    let mut held = Holdings::default();
    let tell = |held: &mut Holdings, place: &Place, why: &WithoutVid| {
        if held.without_vid.len() < TOLD_MAX {
            held.without_vid.push(format!("{} ({why})", words(place)));
        }
    };
    let mut by_vid: BTreeMap<Vid, Vec<SeenCartridge>> = BTreeMap::new();
    for (address, element) in elements.iter().filter(|(_, element)| element.full) {
        let Some(place) = own.place(*address, element) else { continue };
        let ours = mounted.get(address).copied();
        // Also where the changer reads no label in the drive: it is never taken for a tape.
        if element.is_cleaning() || ours.is_some_and(|ours| ours.is_cleaning) {
            let barcode = element.barcode.clone();
            let by_label = barcode.as_ref().and_then(|barcode| barcode.vid().ok());
            let vid = by_label.or(ours.map(|ours| ours.vid));
            held.cleaning.push(CleaningCartridge { at: *address, barcode, place, vid });
            continue;
        }
        if matches!(element.medium_type, DIAGNOSTICS | MICROCODE) {
            tell(&mut held, &place, &WithoutVid::Other(element.medium_type));
            continue;
        }
        let known = ours.map(|ours| ours.vid);
        let vid = match (&element.barcode, known) {
            (Some(barcode), _) => match barcode.vid() {
                Ok(vid) => vid,
                Err(_) => {
                    tell(&mut held, &place, &WithoutVid::NoVid(barcode.clone()));
                    continue;
                }
            },
            (None, Some(vid)) => vid,
            (None, None) => {
                tell(&mut held, &place, &WithoutVid::NoLabel(element.exception));
                continue;
            }
        };
        let seen = SeenCartridge { at: *address, place, barcode: element.barcode.clone() };
        by_vid.entry(vid).or_default().push(seen);
    }
    for (vid, mut all) in by_vid {
        if all.len() > 1 {
            // Nobody can tell which of them is meant, unless we have one in a drive.
            let (ours, others): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|one| mounted.get(&one.at).is_some_and(|it| it.vid == vid));
            for other in others {
                let why = other.barcode.map_or(WithoutVid::NoLabel(None), WithoutVid::Twice);
                tell(&mut held, &other.place, &why);
            }
            all = ours;
        }
        held.cartridges.extend(all.into_iter().next().map(|one| (vid, one)));
    }
    held
}

/// A place for people.
fn words(place: &Place) -> String {
    match place {
        Place::Slot(slot) => format!("the cartridge in slot {slot}"),
        Place::Drive(drive) => format!("the cartridge in drive {drive}"),
        Place::ImportExport(slot) => format!("the cartridge in import/export slot {slot}"),
        Place::Unknown => "the cartridge in the robot's hand".to_owned(),
    }
}

/// Whether cartridges came or went between two looks at the same changer. Elements that are not ours do not
/// count.
#[must_use]
pub fn differ(before: &Elements, after: &Elements, own: &OwnElements) -> bool {
    let full = |elements: &Elements| -> Vec<(ElementAddress, Option<Barcode>)> {
        let ours = elements
            .iter()
            .filter(|(address, element)| element.full && own.place(**address, element).is_some());
        ours.map(|(address, element)| (*address, element.content().1.cloned())).collect()
    };
    full(before) != full(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(kind: ElementType, label: &str) -> SeenElement {
        SeenElement {
            kind,
            full: true,
            barcode: Barcode::new(label),
            medium_type: 0,
            source: None,
            accessible: true,
            exports: false,
            disabled: false,
            exception: None,
            identifier: None,
        }
    }

    fn slots(labels: &[(u16, &str)]) -> Elements {
        let one = |(at, label): &(u16, &str)| (ElementAddress(*at), element(ElementType::Storage, label));
        labels.iter().map(one).collect()
    }

    fn vid(text: &str) -> Vid {
        Vid::new(text).unwrap()
    }

    fn own(slots: Option<RangeInclusive<u16>>) -> OwnElements {
        let drives = BTreeMap::from([(ElementAddress(256), DriveName::new("drive0").unwrap())]);
        OwnElements { slots: slots.map(|range| vec![range]), drives }
    }

    fn held(elements: &Elements, own: &OwnElements) -> Holdings {
        holdings(elements, own, &BTreeMap::new())
    }

    #[test]
    fn what_has_no_vid_of_its_own_is_told_and_not_offered() {
        let mut elements = slots(&[
            (1, "KS0001L8"),
            (2, "KS0002L8"),
            (3, "KS0002L9"),
            (4, ""),
            (5, "short"),
            (6, "CLN001L1"),
        ]);
        elements
            .insert(ElementAddress(7), SeenElement { medium_type: 2, ..element(ElementType::Storage, "") });
        elements.insert(
            ElementAddress(8),
            SeenElement { medium_type: MICROCODE, ..element(ElementType::Storage, "FMR001L8") },
        );
        let held = held(&elements, &own(None));
        assert_eq!(held.cartridges.keys().copied().collect::<Vec<_>>(), [vid("KS0001")]);
        assert_eq!(held.cleaning.len(), 2);
        assert_eq!(
            held.without_vid,
            [
                "the cartridge in slot 4 (no label could be read)",
                "the cartridge in slot 5 (its label 'short' is no VID)",
                "the cartridge in slot 8 (it holds microcode)",
                "the cartridge in slot 2 (label 'KS0002L8' is there more than once)",
                "the cartridge in slot 3 (label 'KS0002L9' is there more than once)",
            ]
        );
    }

    #[test]
    fn of_two_with_one_label_the_mounted_one_is_known() {
        let mut elements = slots(&[(2, "KS0002L8")]);
        elements.insert(ElementAddress(256), element(ElementType::DataTransfer, "KS0002L8"));
        let ours = InDrive { vid: vid("KS0002"), is_cleaning: false };
        let mounted = BTreeMap::from([(ElementAddress(256), ours)]);
        let held = holdings(&elements, &own(None), &mounted);
        assert_eq!(held.cartridges[&vid("KS0002")].at, ElementAddress(256));
        assert_eq!(held.without_vid.len(), 1);
        // A drive in which no label is read.
        elements.insert(ElementAddress(256), element(ElementType::DataTransfer, ""));
        elements.remove(&ElementAddress(2));
        let held = holdings(&elements, &own(None), &mounted);
        assert_eq!(held.cartridges[&vid("KS0002")].place, Place::Drive(DriveName::new("drive0").unwrap()));
    }

    /// Story: on a changer that reads no labels in its drives, the cleaning cartridge that we had put into
    /// one would have been a tape of that VID.
    #[test]
    fn a_cleaning_cartridge_in_a_drive_is_no_tape() {
        let elements = Elements::from([(ElementAddress(256), element(ElementType::DataTransfer, ""))]);
        let ours = InDrive { vid: vid("CLN001"), is_cleaning: true };
        let found = holdings(&elements, &own(None), &BTreeMap::from([(ElementAddress(256), ours)]));
        assert_eq!((found.cartridges.len(), found.cleaning.len()), (0, 1));
        assert_eq!(found.cleaning[0].vid, Some(vid("CLN001")));
        // After a restart nobody knows what it is: it is told, and offered as nothing.
        let found = held(&elements, &own(None));
        assert_eq!((found.cartridges.len(), found.cleaning.len(), found.without_vid.len()), (0, 0, 1));
    }

    #[test]
    fn only_our_elements_are_seen() {
        let mut elements = slots(&[(1, "KS0001L8"), (10, "XX0001L8")]);
        elements.insert(ElementAddress(257), element(ElementType::DataTransfer, "XX0002L8"));
        elements.insert(ElementAddress(20), element(ElementType::ImportExport, "XX0003L8"));
        let picker = |source: u16| SeenElement {
            source: Some(ElementAddress(source)),
            ..element(ElementType::Transport, "KS0009L8")
        };
        elements.insert(ElementAddress(0), picker(10));
        let ours = own(Some(1..=9));
        assert_eq!(held(&elements, &ours).cartridges.len(), 1);
        assert!(held(&elements, &ours).without_vid.is_empty());
        elements.insert(ElementAddress(0), picker(2));
        assert_eq!(held(&elements, &ours).cartridges[&vid("KS0009")].place, Place::Unknown);
        // Without bounds all slots and doors are ours; drives are named one by one.
        let all = held(&elements, &own(None)).cartridges;
        assert_eq!(all[&vid("XX0003")].place, Place::ImportExport(Slot(20)));
        assert!(all.contains_key(&vid("XX0001")) && !all.contains_key(&vid("XX0002")));
    }

    #[test]
    fn changes_elsewhere_are_none_of_ours() {
        let before = slots(&[(1, "KS0001L8"), (10, "XX0001L8")]);
        let ours = own(Some(1..=9));
        assert!(!differ(&before, &slots(&[(1, "KS0001L8"), (11, "XX0001L8")]), &ours));
        assert!(differ(&before, &slots(&[(2, "KS0001L8"), (10, "XX0001L8")]), &ours));
        assert!(differ(&before, &slots(&[(1, "KS0003L8"), (10, "XX0001L8")]), &ours));
        assert!(differ(&before, &slots(&[(10, "XX0001L8")]), &ours));
    }
}
