//! Which new disk takes the place of a dead one: the one in the same slot. Pure.
//!
//! A slot is known by the enclosure's logical identifier and the number that stands on it: names of devices,
//! and the order in which the kernel finds enclosures, change with each start. What cannot be proven is not
//! taken: a disk in a wrong place is seen by nobody, and one with data on it cannot be had back.

use std::fmt;

use crate::machine::{Disk, DiskKey, Machine};

/// Where a disk stands, as it is known after a restart too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// The logical identifier of the enclosure.
    pub enclosure: u64,
    /// The number of the slot that stands on it.
    pub number: u32,
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of enclosure {:016x}", self.number, self.enclosure)
    }
}

/// A disk in its slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskInSlot {
    /// Where.
    pub slot: SlotId,
    /// Which disk.
    pub disk: DiskKey,
}

/// Why it is not proven in which slot a disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unproven {
    /// The machine has no disk of this name, or several.
    #[error("no single disk of this machine has this name")]
    NoOneDisk,
    /// The disk says nothing of itself.
    #[error("the disk gives no name of its own and no serial number")]
    Nameless,
    /// No enclosure says that it has it.
    #[error("no enclosure says in which slot the disk is")]
    NoSlot,
    /// The enclosure has no identifier, or two have the same.
    #[error("the enclosure of the disk cannot be told from others")]
    Enclosure,
    /// Two slots of the enclosure have one number, or the slot has another disk.
    #[error("the slot of the disk cannot be told from others")]
    Slot,
}

/// A file system that is mounted as a place for a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// The whole disk that it is on, as block or multipath device, such as `sdd`.
    pub disk: String,
    /// It is the root of its file system: not a directory of a larger one.
    pub is_root: bool,
    /// Nothing is in it.
    pub is_empty: bool,
}

/// Why no disk takes the place of one that is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Left {
    /// It is not known where the dead one was.
    #[error("the slot of the lost drive was never known")]
    SlotUnknown,
    /// Two lost drives were on one disk, or in one slot.
    #[error("another lost drive was in the same slot")]
    SharedSlot,
    /// Nothing that is mounted is in its slot, as far as that is proven.
    #[error("no mounted disk is proven to be in its slot")]
    NothingThere,
    /// The disk in the slot is the one that was there.
    #[error("the disk in its slot is the lost one itself")]
    SameDisk,
    /// Several file systems of the disk are mounted: others use it.
    #[error("the disk in its slot has several file systems mounted")]
    InUse,
    /// The directory is not the whole of its file system, or something is in it.
    #[error("something stands on the disk in its slot")]
    NotEmpty,
}

/// The slot in which a disk is, if that is proven. `name` as [`Machine::find`] takes it.
///
/// # Errors
/// [`Unproven`].
pub fn disk_in_slot(machine: &Machine, name: &str) -> Result<DiskInSlot, Unproven> {
    let [at] = machine.find(name)[..] else { return Err(Unproven::NoOneDisk) };
    let disk: &Disk = machine.disks.get(at).ok_or(Unproven::NoOneDisk)?;
    let is_it = |other: &&Disk| other.key == disk.key;
    if matches!(disk.key, DiskKey::Device(_)) || machine.disks.iter().filter(is_it).count() != 1 {
        return Err(Unproven::Nameless);
    }
    let place = disk.place.ok_or(Unproven::NoSlot)?;
    let enclosure = machine.enclosures.get(place.enclosure).ok_or(Unproven::NoSlot)?;
    let slot = enclosure.slots.get(place.slot).ok_or(Unproven::NoSlot)?;
    let identifier = enclosure.identifier.ok_or(Unproven::Enclosure)?;
    if machine.enclosures.iter().filter(|other| other.identifier == Some(identifier)).count() != 1 {
        return Err(Unproven::Enclosure);
    }
    let number = slot.number;
    if slot.disk != Some(at) || enclosure.slots.iter().filter(|other| other.number == number).count() != 1 {
        return Err(Unproven::Slot);
    }
    Ok(DiskInSlot { slot: SlotId { enclosure: identifier, number }, disk: disk.key.clone() })
}

/// What takes the place of each lost drive: for each, in order, which of `mounted` does, or why none.
#[must_use]
pub fn take_over(
    machine: &Machine,
    lost: &[Option<DiskInSlot>],
    mounted: &[Mounted],
) -> Vec<Result<usize, Left>> {
    let proven: Vec<Option<DiskInSlot>> =
        mounted.iter().map(|place| disk_in_slot(machine, &place.disk).ok()).collect();
    let of = |was: &Option<DiskInSlot>| {
        let was = was.as_ref().ok_or(Left::SlotUnknown)?;
        if lost.iter().flatten().filter(|other| other.slot == was.slot || other.disk == was.disk).count() > 1
        {
            return Err(Left::SharedSlot);
        }
        let here = proven.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?)));
        let here: Vec<(usize, &DiskInSlot)> = here.filter(|(_, found)| found.slot == was.slot).collect();
        match here[..] {
            [] => Err(Left::NothingThere),
            _ if here.iter().any(|(_, found)| found.disk == was.disk) => Err(Left::SameDisk),
            [(at, _)] => match mounted.get(at) {
                Some(place) if place.is_root && place.is_empty => Ok(at),
                _ => Err(Left::NotEmpty),
            },
            _ => Err(Left::InUse),
        }
    };
    lost.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Answered, Counters, DiskKind, Enclosure, Path, Place, Slot};

    /// Two enclosures of four slots, disks `sda` to `sdh`.
    fn machine() -> Machine {
        let mut machine = Machine::default();
        for enclosure in 0..2usize {
            let slot = |slot: usize| Slot {
                number: slot as u32,
                name: format!("Slot {slot:02}"),
                code: None,
                disk: Some(enclosure * 4 + slot),
                addresses: Default::default(),
                locate: false,
                fault_sensed: false,
                fault_requested: false,
                failure_predicted: false,
                off: false,
                bypassed: false,
                at: Vec::new(),
            };
            machine.enclosures.push(Enclosure {
                identifier: Some(0x5000_0000_0000_0100 + enclosure as u64),
                vendor: None,
                product: None,
                revision: None,
                services: Vec::new(),
                slots: (0..4).map(slot).collect(),
                elements: Vec::new(),
                condition: None,
            });
            machine.disks.extend((0..4).map(|slot| disk(enclosure, slot)));
        }
        machine
    }

    fn name(at: usize) -> String {
        format!("sd{}", char::from(b'a' + at as u8))
    }

    fn disk(enclosure: usize, slot: usize) -> Disk {
        let at = enclosure * 4 + slot;
        let path = Path {
            device: format!("0:0:{at}:0"),
            block: Some(name(at)),
            generic: None,
            host: None,
            hops: Vec::new(),
            address: None,
            state: None,
            megabits: None,
            megabits_max: None,
            bay: None,
            slot: None,
        };
        Disk {
            key: DiskKey::World(format!("naa.{at}")),
            kind: DiskKind::Hdd,
            vendor: None,
            model: None,
            firmware: None,
            serial: None,
            size: None,
            block_size: None,
            multipath: None,
            paths: vec![path],
            place: Some(Place { enclosure, slot }),
            celsius: None,
            celsius_max: None,
            power_on_hours: None,
            counters: Counters::default(),
            answered: Answered::Nothing(String::new()),
        }
    }

    fn mounted(disk: &str) -> Mounted {
        Mounted { disk: disk.to_owned(), is_root: true, is_empty: true }
    }

    /// The disk that was in the slot of `sdf`: slot 1 of the second enclosure.
    fn dead() -> DiskInSlot {
        let slot = SlotId { enclosure: 0x5000_0000_0000_0101, number: 1 };
        DiskInSlot { slot, disk: DiskKey::World("naa.dead".into()) }
    }

    #[test]
    fn the_new_disk_in_the_slot_is_taken_and_no_other() {
        let machine = machine();
        assert_eq!(disk_in_slot(&machine, "sdf").unwrap().slot, dead().slot);
        let places = [mounted("sda"), mounted("sdf"), mounted("sdb")];
        assert_eq!(take_over(&machine, &[Some(dead())], &places), [Ok(1)]);
        // The same number in the other enclosure is another slot.
        assert_eq!(take_over(&machine, &[Some(dead())], &[mounted("sdb")]), [Err(Left::NothingThere)]);
    }

    #[test]
    fn nothing_is_taken_on_which_something_may_stand() {
        let machine = machine();
        let take = |places: &[Mounted]| take_over(&machine, &[Some(dead())], places)[0];
        assert_eq!(take(&[Mounted { is_empty: false, ..mounted("sdf") }]), Err(Left::NotEmpty));
        assert_eq!(take(&[Mounted { is_root: false, ..mounted("sdf") }]), Err(Left::NotEmpty));
        assert_eq!(take(&[mounted("sdf"), mounted("sdf")]), Err(Left::InUse));
        let same = DiskInSlot { disk: DiskKey::World("naa.5".into()), ..dead() };
        assert_eq!(take_over(&machine, &[Some(same)], &[mounted("sdf")]), [Err(Left::SameDisk)]);
    }

    #[test]
    fn what_is_not_proven_is_not_taken() {
        let take = |machine: &Machine| take_over(machine, &[Some(dead())], &[mounted("sdf")])[0];
        assert_eq!(take(&machine()), Ok(0));
        type Change = fn(&mut Machine);
        let changes: [(Change, Unproven); 8] = [
            (|m| m.disks[5].place = None, Unproven::NoSlot),
            (|m| m.disks[5].key = DiskKey::Device("0:0:5:0".into()), Unproven::Nameless),
            (|m| m.disks[6].key = DiskKey::World("naa.5".into()), Unproven::Nameless),
            (|m| m.enclosures[1].identifier = None, Unproven::Enclosure),
            (|m| m.enclosures[0].identifier = m.enclosures[1].identifier, Unproven::Enclosure),
            (|m| m.enclosures[1].slots[2].number = 1, Unproven::Slot),
            (|m| m.enclosures[1].slots[1].disk = Some(6), Unproven::Slot),
            (|m| m.disks[6].paths[0].block = Some("sdf".into()), Unproven::NoOneDisk),
        ];
        for (change, why) in changes {
            let mut machine = machine();
            change(&mut machine);
            assert_eq!(disk_in_slot(&machine, "sdf"), Err(why));
            assert_eq!(take(&machine), Err(Left::NothingThere), "{why}");
        }
    }

    #[test]
    fn lost_drives_that_cannot_be_told_apart_wait_for_a_person() {
        let machine = machine();
        let places = [mounted("sdf")];
        let other = DiskInSlot { disk: DiskKey::World("naa.other".into()), ..dead() };
        assert_eq!(take_over(&machine, &[Some(dead()), Some(other)], &places), [Err(Left::SharedSlot); 2]);
        // Two drives on one disk that has moved.
        let moved = DiskInSlot { slot: SlotId { number: 3, ..dead().slot }, ..dead() };
        assert_eq!(take_over(&machine, &[Some(dead()), Some(moved)], &places), [Err(Left::SharedSlot); 2]);
        assert_eq!(take_over(&machine, &[None], &places), [Err(Left::SlotUnknown)]);
        assert_eq!(take_over(&machine, &[None, Some(dead())], &places), [Err(Left::SlotUnknown), Ok(0)]);
    }
}
