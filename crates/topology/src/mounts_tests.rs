//! Directories on disks, and what uses these.

use super::*;
use crate::Record;
use crate::drive_place::{NoPlace, drive_place};
use crate::machine::{DiskKey, Path};
use crate::read::disks::blank;

/// `sda` with a partition; `sdb` and `sdc`, two paths to one disk, with a map and a volume on it; `sdd`, on
/// which nothing stands; `sde` and `sdf` with a volume over both.
fn tree() -> Record {
    let mut tree = Record::default();
    let blocks = [
        ("sda", "8:0", "", ""),
        ("sdb", "8:16", "", "dm-0"),
        ("sdc", "8:32", "", "dm-0"),
        ("sdd", "8:48", "", ""),
        ("sde", "8:64", "", "dm-2"),
        ("sdf", "8:80", "", "dm-2"),
        ("dm-0", "254:0", "sdb sdc", "dm-1"),
        ("dm-1", "254:1", "dm-0", ""),
        ("dm-2", "254:2", "sde sdf", ""),
    ];
    for (name, number, below, above) in blocks {
        tree.put_text(&format!("/sys/block/{name}/dev"), number);
        for (kind, names) in [("slaves", below), ("holders", above)] {
            let names = names.split_whitespace();
            names.for_each(|one| tree.put_text(&format!("/sys/block/{name}/{kind}/{one}"), "x"));
        }
    }
    tree.put_text("/sys/block/sda/sda1/dev", "8:1");
    tree
}

fn bench(mountinfo: &str) -> (Machine, Mounts) {
    let mut tree = tree();
    tree.put_text(MOUNTINFO, mountinfo);
    let reader = Reader::new(&tree);
    let mut machine = Machine::default();
    for paths in [&["sda"][..], &["sdb", "sdc"], &["sdd"], &["sde"], &["sdf"]] {
        let mut disk = blank(DiskKey::World(paths[0].to_owned()), Path::default());
        disk.paths =
            paths.iter().map(|block| Path { block: Some((*block).to_owned()), ..Path::default() }).collect();
        machine.disks.push(disk);
    }
    (machine, Mounts::read(&reader))
}

const MOUNTED: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
        23 22 254:1 / /mnt/d\\0401 rw - xfs /dev/mapper/one rw\n\
        24 22 254:2 / /mnt/d2 rw - xfs /dev/mapper/two rw\n\
        25 22 0:30 / /mnt/d3 rw - tmpfs none rw\n";

#[test]
fn a_directory_is_found_on_its_disk_through_maps_and_partitions() {
    let (machine, mounts) = bench(MOUNTED);
    let of = |path: &str| mounts.disk_of(&machine, mounts.over(path).unwrap());
    assert_eq!(of("/mnt/d 1/kist"), Ok((1, true)));
    assert_eq!(of("/mnt/d 10"), Ok((0, false)), "a name that only begins like it; a partition");
    assert_eq!(of("/mnt/d2"), Err(NotOnDisk::NoOneDisk("dm-2".into())));
    assert_eq!(of("/mnt/d3"), Err(NotOnDisk::NoDevice("0:30".into())));
    let mut gone = mounts.clone();
    gone.blocks.remove("sdb");
    assert_eq!(gone.disk_of(&machine, mounts.at("/mnt/d 1").unwrap()), Ok((1, true)), "one of two paths");
    gone.blocks.remove("sdc");
    assert_eq!(gone.disk_of(&machine, mounts.at("/mnt/d 1").unwrap()), Err(NotOnDisk::Gone));
    gone.blocks.get_mut("dm-0").unwrap().below.clear();
    assert_eq!(gone.disk_of(&machine, mounts.at("/mnt/d 1").unwrap()), Err(NotOnDisk::Gone));
    gone.blocks.remove("dm-1");
    assert_eq!(gone.disk_of(&machine, mounts.at("/mnt/d 1").unwrap()), Err(NotOnDisk::Gone));
    assert!(mounts.at("/mnt/d 1").is_some() && mounts.at("/mnt/d 1/kist").is_none());
    // What is mounted last at a place is what is seen there.
    let (machine, mounts) = bench(&format!("{MOUNTED}26 22 8:48 / /mnt/d2 rw - xfs /dev/sdd rw\n"));
    assert_eq!(mounts.disk_of(&machine, mounts.at("/mnt/d2").unwrap()), Ok((2, true)));
    assert_eq!(mounts.mounts_of(&machine, 2), 1);
}

#[test]
fn a_disk_is_free_only_if_nothing_uses_it() {
    let (machine, mounts) = bench(MOUNTED);
    let free = |mounts: &Mounts, at: usize| mounts.unused(&machine.disks[at]);
    assert_eq!(free(&mounts, 2), Ok("sdd".into()));
    assert_eq!(free(&mounts, 0), Err(InUse::Partitions));
    assert_eq!(free(&mounts, 1), Err(InUse::Held("dm-1".into())));
    assert_eq!(free(&mounts, 3), Err(InUse::Held("dm-2".into())));
    let mut other = mounts.clone();
    other.blocks.get_mut("dm-0").unwrap().above.clear();
    assert_eq!(free(&other, 1), Ok("dm-0".into()));
    other.blocks.get_mut("dm-0").unwrap().below.remove("sdc");
    assert_eq!(free(&other, 1), Err(InUse::NoMap));
    other.swapped.insert("sdd".into());
    assert_eq!(free(&other, 2), Err(InUse::Swap));
    let mounted = bench("26 22 8:48 / /mnt/d2 rw - xfs /dev/sdd rw\n").1;
    assert_eq!(free(&mounted, 2), Err(InUse::Mounted("/mnt/d2".into())));
    other.is_blind = true;
    assert_eq!(free(&other, 2), Err(InUse::Blind));
}

#[test]
fn the_drive_of_a_disk_is_the_one_file_system_on_the_whole_of_it() {
    let place = |mountinfo: &str, disk: usize| {
        let (machine, mounts) = bench(&format!("{MOUNTED}{mountinfo}"));
        drive_place(&machine, &mounts, disk).map(|mount| mount.point.clone())
    };
    // Through a volume and a map, by whichever path.
    assert_eq!(place("", 1), Ok("/mnt/d 1".into()));
    assert_eq!(place("", 0), Err(NoPlace::Part("/".into())), "a partition");
    assert_eq!(place("", 2), Err(NoPlace::Unmounted { device: "sdd".into() }));
    assert_eq!(place("", 3), Err(NoPlace::InUse(InUse::Held("dm-2".into()))), "a volume over two disks");
    let line = |root: &str, point: &str, kind: &str| format!("26 22 8:48 {root} {point} rw - {kind} x rw\n");
    assert_eq!(place(&line("/", "/mnt/d4", "ext4"), 2), Ok("/mnt/d4".into()));
    assert_eq!(place(&line("/sub", "/mnt/d4", "xfs"), 2), Err(NoPlace::Part("/mnt/d4".into())));
    let twice = line("/", "/mnt/d4", "xfs") + &line("/", "/mnt/d5", "xfs");
    assert_eq!(place(&twice, 2), Err(NoPlace::Several(vec!["/mnt/d4".into(), "/mnt/d5".into()])));
    let btrfs = NoPlace::Kind { kind: "btrfs".into(), point: "/mnt/d4".into() };
    assert_eq!(place(&line("/", "/mnt/d4", "btrfs"), 2), Err(btrfs));
    assert_eq!(place("", 9), Err(NoPlace::InUse(InUse::NoBlock)));
}

/// What is mounted cannot be read: nothing is known to be there, and nothing to be free.
#[test]
fn without_a_list_of_mounts_no_disk_is_free() {
    let tree = tree();
    let mounts = Mounts::read(&Reader::new(&tree));
    let (machine, _) = bench("");
    assert_eq!(drive_place(&machine, &mounts, 2).err(), Some(NoPlace::InUse(InUse::Blind)));
}
