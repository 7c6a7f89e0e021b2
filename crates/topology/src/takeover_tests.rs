//! Which disk takes the place of a lost one, and each reason for which none does.

use super::*;
use crate::Record;
use crate::machine::{Enclosure, Path, Slot};
use crate::read::disks::blank;
use crate::reader::Reader;

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

fn disk(enclosure: usize, slot: usize) -> Disk {
    let at = enclosure * 4 + slot;
    let block = format!("sd{}", char::from(b'a' + at as u8));
    let path = Path { device: format!("0:0:{at}:0"), block: Some(block), ..Path::default() };
    Disk { place: Some(Place { enclosure, slot }), ..blank(DiskKey::World(format!("naa.{at}")), path) }
}

/// What is mounted, as lines of a device, the mounted directory of its file system, and where.
fn mounts(mounted: &[(&str, &str, &str)]) -> Mounts {
    let mut tree = Record::default();
    for at in 0..8 {
        let name = char::from(b'a' + at);
        tree.put_text(&format!("/sys/block/sd{name}/dev"), &format!("8:{}", at * 16));
    }
    if mounted.iter().any(|(number, ..)| *number == "8:81") {
        tree.put_text("/sys/block/sdf/sdf1/dev", "8:81");
    }
    let line =
        |(number, root, point): &(&str, &str, &str)| format!("36 22 {number} {root} {point} rw - xfs x rw\n");
    let lines: String = mounted.iter().map(line).collect();
    tree.put_text("/proc/self/mountinfo", &format!("22 1 254:9 / / rw - ext4 /dev/root rw\n{lines}"));
    Mounts::read(&Reader::new(&tree))
}

/// The disk that was in the slot of `sdf`: slot 1 of the second enclosure.
fn dead() -> DiskInSlot {
    let slot = SlotId { enclosure: 0x5000_0000_0000_0101, number: 1 };
    DiskInSlot { slot, disk: "naa.dead".into() }
}

fn lost(was: Option<DiskInSlot>) -> LostDrive {
    LostDrive { id: 3, was, directory: "/mnt/d3".into(), is_empty: true }
}

/// The file system of the whole of `sdf`, at the directory of the lost drive.
const OWN: (&str, &str, &str) = ("8:80", "/", "/mnt/d3");

fn take_with(machine: &Machine, mounted: &[(&str, &str, &str)], policy: Policy) -> Result<Taken, Left> {
    take_over(machine, &mounts(mounted), &[lost(Some(dead()))], &[], policy).remove(0)
}

#[test]
fn an_empty_file_system_on_the_new_disk_in_the_slot_is_taken_and_no_other() {
    let machine = machine();
    assert_eq!(disk_in_slot(&machine, 5).unwrap().slot, dead().slot);
    let taken = Ok(Taken::Mounted { disk: 5, number: "8:80".into() });
    for policy in [Policy::Mounted, Policy::Blank] {
        assert_eq!(take_with(&machine, &[OWN], policy), taken);
    }
    assert_eq!(take_with(&machine, &[OWN], Policy::No), Err(Left::Policy));
    // The same number in the other enclosure is another slot.
    assert_eq!(take_with(&machine, &[("8:16", "/", "/mnt/d3")], Policy::Blank), Err(Left::OtherMounted));
}

#[test]
fn a_disk_that_nobody_uses_is_proposed_only_where_that_is_wanted() {
    let machine = machine();
    let disk = |unmount| Ok(Taken::Disk { disk: 5, device: "sdf".into(), unmount });
    assert_eq!(take_with(&machine, &[], Policy::Blank), disk(false));
    assert_eq!(take_with(&machine, &[], Policy::Mounted), Err(Left::NotMounted("/mnt/d3".into())));
    assert_eq!(take_with(&machine, &[], Policy::No), Err(Left::Policy));
    // What is left of the dead one: its device is gone. What is in memory is somebody's.
    assert_eq!(take_with(&machine, &[("8:240", "/", "/mnt/d3")], Policy::Blank), disk(true));
    assert_eq!(take_with(&machine, &[("0:50", "/", "/mnt/d3")], Policy::Blank), Err(Left::OtherMounted));
    let elsewhere = [("8:80", "/", "/srv")];
    let used = Err(Left::InUse(InUse::Mounted("/srv".into())));
    assert_eq!(take_with(&machine, &elsewhere, Policy::Blank), used);
}

#[test]
fn nothing_is_taken_on_which_something_may_stand() {
    let machine = machine();
    let full = LostDrive { is_empty: false, ..lost(Some(dead())) };
    let of = |drive: LostDrive, mounted: &[_]| {
        take_over(&machine, &mounts(mounted), &[drive], &[], Policy::Blank).remove(0)
    };
    assert_eq!(of(full, &[OWN]), Err(Left::NotEmpty));
    for mounted in
        [&[("8:80", "/kist", "/mnt/d3")][..], &[OWN, ("8:80", "/", "/srv")], &[("8:81", "/", "/mnt/d3")]]
    {
        assert_eq!(of(lost(Some(dead())), mounted), Err(Left::InPart), "{mounted:?}");
    }
    let same = DiskInSlot { disk: "naa.5".into(), ..dead() };
    assert_eq!(of(lost(Some(same)), &[OWN]), Err(Left::SameDisk));
    // The lost disk stands in another slot now: another one in its own is no reason to give it up.
    let moved = DiskInSlot { disk: "naa.2".into(), ..dead() };
    assert_eq!(of(lost(Some(moved)), &[OWN]), Err(Left::Moved("/mnt/d3".into())));
}

#[test]
fn the_disk_of_another_drive_is_not_taken() {
    let machine = machine();
    let of = |others: &[(u16, String)]| {
        take_over(&machine, &mounts(&[]), &[lost(Some(dead()))], others, Policy::Blank).remove(0)
    };
    // As after an enclosure has numbered its slots anew.
    assert_eq!(of(&[(3, "naa.dead".into()), (9, "naa.5".into())]), Err(Left::OfAnotherDrive(9)));
    assert!(of(&[(3, "naa.dead".into()), (9, "naa.6".into())]).is_ok());
}

#[test]
fn what_is_not_proven_is_not_taken() {
    assert!(take_with(&machine(), &[OWN], Policy::Blank).is_ok());
    type Change = fn(&mut Machine);
    let changes: [(Change, Unproven, Left); 7] = [
        (|m| m.disks[5].place = None, Unproven::NoSlot, Left::Unproven(Unproven::NoSlot)),
        (
            |m| m.disks[5].key = DiskKey::Device("0:0:5:0".into()),
            Unproven::Nameless,
            Left::Unproven(Unproven::Nameless),
        ),
        (
            |m| m.disks[6].key = DiskKey::World("naa.5".into()),
            Unproven::Nameless,
            Left::Unproven(Unproven::Nameless),
        ),
        (|m| m.enclosures[1].identifier = None, Unproven::Enclosure, Left::NothingThere),
        (
            |m| m.enclosures[0].identifier = m.enclosures[1].identifier,
            Unproven::Enclosure,
            Left::NothingThere,
        ),
        (|m| m.enclosures[1].slots[2].number = 1, Unproven::Slot, Left::NothingThere),
        (|m| m.enclosures[1].slots[1].disk = Some(6), Unproven::Slot, Left::Unproven(Unproven::Slot)),
    ];
    for (change, why, left) in changes {
        let mut machine = machine();
        change(&mut machine);
        assert_eq!(disk_in_slot(&machine, 5), Err(why));
        let found = take_with(&machine, &[OWN], Policy::Blank);
        // A slot with another disk: that one's own place says otherwise.
        assert!(found == Err(left.clone()) || why == Unproven::Slot && found.is_err(), "{why}: {found:?}");
    }
    let mut empty = machine();
    empty.enclosures[1].slots[1].disk = None;
    assert_eq!(take_with(&empty, &[OWN], Policy::Blank), Err(Left::NothingThere));
}

#[test]
fn lost_drives_that_cannot_be_told_apart_wait_for_a_person() {
    let machine = machine();
    let of = |lost: &[LostDrive]| take_over(&machine, &mounts(&[OWN]), lost, &[], Policy::Blank);
    let other = DiskInSlot { disk: "naa.other".into(), ..dead() };
    let shared = vec![Err(Left::SharedSlot); 2];
    assert_eq!(of(&[lost(Some(dead())), lost(Some(other))]), shared);
    // Two drives on one disk that has moved.
    let moved = DiskInSlot { slot: SlotId { number: 3, ..dead().slot }, ..dead() };
    assert_eq!(of(&[lost(Some(dead())), lost(Some(moved))]), shared);
    assert_eq!(of(&[lost(None)]), [Err(Left::SlotUnknown)]);
    let both = of(&[lost(None), lost(Some(dead()))]);
    assert!(both[0] == Err(Left::SlotUnknown) && both[1].is_ok());
}
