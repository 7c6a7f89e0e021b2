//! Multipath maps: which stand over the disks of a machine, and which Kist is to make, change or take away.
//!
//! Kist makes a map only where no other does, over a disk of which nothing is in use, and knows its own by
//! their `uuid`. It touches no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::machine::{Disk, DiskKey, Machine, Path};
use crate::mounts::{MOUNTINFO, places};
use crate::read::disks::serial_of;
use crate::reader::Reader;

/// What the `uuid` of a map of Kist begins with.
pub const OWN: &str = "kist-";
/// What that of multipathd begins with.
pub const OF_MULTIPATHD: &str = "mpath-";

/// A device of the device mapper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// Its name.
    pub name: String,
    /// Its `uuid`.
    pub uuid: String,
    /// Its block device, such as `dm-3`.
    pub device: String,
    /// The block devices that it stands on.
    pub below: BTreeSet<String>,
    /// Whether something stands on it, or it is mounted.
    pub is_used: bool,
    /// Whether what is asked of it waits: somebody suspended it.
    pub is_suspended: bool,
}

impl Map {
    /// Whether Kist made it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.uuid.starts_with(OWN)
    }

    /// Who made it, in one word.
    #[must_use]
    pub fn maker(&self) -> &'static str {
        match &self.uuid {
            uuid if uuid.starts_with(OWN) => "kist",
            uuid if uuid.starts_with(OF_MULTIPATHD) => "multipathd",
            _ => "other",
        }
    }
}

/// A block device that is a path to a disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Block {
    /// Major and minor number, such as `8:16`.
    number: String,
    /// Its size in sectors of 512 bytes.
    sectors: u64,
    /// What has it, by device of the device mapper or the like.
    holders: BTreeSet<String>,
    /// Who uses it otherwise, in words.
    uses: Vec<String>,
    /// Whether the kernel sees partitions on it.
    has_partitions: bool,
    /// The serial number that the disk tells by this path.
    serial: Option<String>,
}

/// A path to the disk of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its block device, such as `sdb`.
    pub block: String,
    /// Major and minor number, such as `8:16`.
    pub number: String,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Make this map over a disk.
    Make {
        /// Its name, and `uuid`.
        name: String,
        /// Its table.
        table: String,
        /// The block devices that it stands on.
        over: Vec<String>,
    },
    /// Give a map of Kist another table: paths have come or gone.
    Reload {
        /// Its name.
        name: String,
        /// Its block device, such as `dm-3`.
        device: String,
        /// The size of its disk, in sectors of 512 bytes.
        sectors: u64,
        /// The paths that it has and keeps.
        kept: Vec<Member>,
        /// Those that it is to get, each of which has to be compared with what the map has.
        new: Vec<Member>,
        /// Whether it loses any.
        loses: bool,
    },
    /// Have a map of Kist go on that was suspended.
    Resume {
        /// Its name.
        name: String,
    },
    /// Do not take this path into a map of Kist that stands.
    LeaveOut {
        /// The map.
        map: String,
        /// The block device.
        path: String,
        /// Why.
        why: String,
    },
    /// Take a map of Kist away: none of its paths is left, and nobody uses it.
    Remove {
        /// Its name.
        name: String,
    },
    /// Nothing, though the disk has several paths.
    Leave {
        /// The disk.
        disk: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Make { name, over, .. } => write!(f, "{name}: made over {}", over.join(", ")),
            Step::Reload { name, kept, new, .. } => {
                let over: Vec<&str> = kept.iter().chain(new).map(|member| member.block.as_str()).collect();
                write!(f, "{name}: stands over {} now", over.join(", "))
            }
            Step::Resume { name } => write!(f, "{name}: was suspended, and goes on"),
            Step::LeaveOut { map, path, why } => write!(f, "{map}: {path} is not taken in: {why}"),
            Step::Remove { name } => {
                write!(f, "{name}: taken away: none of its paths leads to its disk, and nobody uses it")
            }
            Step::Leave { disk, why } => write!(f, "{disk}: no map is made: {why}"),
        }
    }
}

/// The maps of a machine, and what its paths are used for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Maps {
    /// The maps.
    pub maps: Vec<Map>,
    blocks: BTreeMap<String, Block>,
    /// What is mounted or swapped to could not be read: nothing is known to be free.
    is_blind: bool,
}

impl Maps {
    /// Reads them from the tree that the machine was read from.
    #[must_use]
    pub fn read(reader: &Reader<'_>, machine: &Machine) -> Maps {
        // Longer than one value: a line for each file system.
        let mounts = reader.bytes(MOUNTINFO).and_then(|bytes| String::from_utf8(bytes).ok());
        let mounted = mounts.as_deref().map(places).unwrap_or_default();
        let swaps = reader.text("/proc/swaps").unwrap_or_default();
        let devices = reader.names("/sys/block");
        let maps = devices.into_iter().filter(|name| name.starts_with("dm-")).filter_map(|device| {
            let text = |file: &str| reader.text(&format!("/sys/block/{device}/{file}"));
            let has_holders = !reader.names(&format!("/sys/block/{device}/holders")).is_empty();
            Some(Map {
                name: text("dm/name")?,
                uuid: text("dm/uuid").unwrap_or_default(),
                below: reader.names(&format!("/sys/block/{device}/slaves")).into_iter().collect(),
                is_used: has_holders || text("dev").is_none_or(|number| mounted.contains_key(&number)),
                is_suspended: text("dm/suspended").is_some_and(|word| word == "1"),
                device,
            })
        });
        let maps = maps.collect();
        let of_paths = machine.disks.iter().flat_map(|disk| &disk.paths);
        let blocks = of_paths.filter_map(|path| path.block.clone()).filter_map(|name| {
            let text = |file: &str| reader.text(&format!("/sys/block/{name}/{file}"));
            let number = text("dev")?;
            let mut uses = Vec::new();
            let place = |number: &str| mounted.get(number).map(|place| format!("it is mounted at {place}"));
            uses.extend(place(&number));
            let parts = reader.names(&format!("/sys/block/{name}"));
            let has_partitions = parts.iter().any(|part| part.starts_with(&name));
            if swaps.lines().any(|line| line.split_whitespace().next() == Some(&format!("/dev/{name}"))) {
                uses.push("it is swapped to".to_owned());
            }
            let holders = reader.names(&format!("/sys/block/{name}/holders")).into_iter().collect();
            let sectors = text("size").and_then(|size| size.parse().ok()).unwrap_or(0);
            let serial = serial_of(reader, &format!("/sys/block/{name}/device/vpd_pg80"));
            Some((name, Block { number, sectors, holders, uses, has_partitions, serial }))
        });
        let blocks = blocks.collect();
        Maps { maps, blocks, is_blind: mounts.is_none() }
    }

    /// The map over a disk, if there is one.
    #[must_use]
    pub fn over(&self, disk: &Disk) -> Option<&Map> {
        let own = name_of(disk);
        let is_over = |map: &&Map| {
            let leads = |path: &Path| path.block.as_ref().is_some_and(|block| map.below.contains(block));
            disk.paths.iter().any(leads)
        };
        let by_name = self.maps.iter().find(|map| Some(&map.uuid) == own.as_ref());
        by_name.or_else(|| self.maps.iter().find(is_over))
    }

    /// The number by which the device mapper speaks of a path, such as `8:16`.
    #[must_use]
    pub fn number(&self, block: &str) -> Option<&str> {
        self.blocks.get(block).map(|block| block.number.as_str())
    }

    /// Maps of Kist that are suspended: whoever changed one was killed, or could not have it go on. What is
    /// asked of them waits, and nothing else is planned for them.
    #[must_use]
    pub fn suspended(&self) -> Vec<Step> {
        let suspended = self.maps.iter().filter(|map| map.is_own() && map.is_suspended);
        suspended.map(|map| Step::Resume { name: map.name.clone() }).collect()
    }

    /// Whether a map of Kist leads to no disk of the machine any more.
    #[must_use]
    pub fn has_forsaken(&self, machine: &Machine) -> bool {
        let there: BTreeSet<String> = machine.disks.iter().filter_map(name_of).collect();
        self.maps.iter().any(|map| map.is_own() && !there.contains(&map.uuid))
    }

    /// What is to be done so that each disk with several paths has a map. `multipathd`: it runs, and makes
    /// those that are missing.
    #[must_use]
    pub fn plan(&self, machine: &Machine, multipathd: bool) -> Vec<Step> {
        let mut steps: Vec<Step> =
            machine.disks.iter().flat_map(|disk| self.plan_disk(disk, multipathd)).collect();
        let there: BTreeSet<String> = machine.disks.iter().filter_map(name_of).collect();
        let gone = self
            .maps
            .iter()
            .filter(|map| map.is_own() && !there.contains(&map.uuid) && !map.is_used && !map.is_suspended);
        steps.extend(gone.map(|map| Step::Remove { name: map.name.clone() }));
        steps
    }

    fn plan_disk(&self, disk: &Disk, multipathd: bool) -> Vec<Step> {
        let leave = |why: String| vec![Step::Leave { disk: disk.name().to_owned(), why }];
        let own = name_of(disk).and_then(|name| self.maps.iter().find(|map| map.uuid == name));
        let paths: Vec<(&str, &Block)> = disk
            .paths
            .iter()
            .filter_map(|path| {
                let name = path.block.as_deref()?;
                let is_member = own.is_some_and(|map| map.below.contains(name));
                // One that is switched off cannot be taken into a map; one that is in it stays.
                let is_there = path.state.as_deref() == Some("running") || is_member;
                Some((name, self.blocks.get(name)?)).filter(|_| is_there)
            })
            .collect();
        if own.is_some_and(|map| map.is_suspended) || (own.is_none() && paths.len() < 2) {
            return Vec::new();
        }
        if self.is_blind {
            return leave("what is mounted cannot be read".to_owned());
        }
        let name = match name_of(disk) {
            Some(name) => name,
            None => return leave("it has no name in the world: two disks could be taken for one".to_owned()),
        };
        // One by multipathd, or anything else that stands there, is none of ours.
        let foreign: BTreeSet<&str> = paths
            .iter()
            .flat_map(|(_, block)| &block.holders)
            .map(String::as_str)
            .filter(|holder| own.is_none_or(|map| map.device != *holder))
            .collect();
        if let Some(holder) = foreign.first() {
            let map = self.maps.iter().find(|map| map.device == *holder);
            return match map {
                Some(map) if map.uuid.starts_with(OF_MULTIPATHD) => Vec::new(),
                Some(map) => leave(format!("{} stands on it", map.name)),
                None => leave(format!("{holder} stands on it")),
            };
        }
        if let Some(map) = own {
            return plan_members(map, &paths);
        }
        let used = |(name, block): &(&str, &Block)| {
            let partitions = || block.has_partitions.then_some("it has partitions");
            let why = block.uses.first().map(String::as_str).or_else(partitions)?;
            Some(format!("{name}: {why}"))
        };
        if let Some(why) = paths.iter().find_map(used) {
            return leave(why);
        }
        let sectors = paths.first().map_or(0, |(_, block)| block.sectors);
        if sectors == 0 || paths.iter().any(|(_, block)| block.sectors != sectors) {
            return leave("its paths tell different sizes, or none".to_owned());
        }
        if multipathd {
            return leave("multipathd runs: it is to make it, or to be stopped".to_owned());
        }
        let over = paths.iter().map(|(name, _)| (*name).to_owned()).collect();
        let table = table(sectors, paths.iter().map(|(_, block)| block.number.as_str()));
        vec![Step::Make { name, table, over }]
    }
}

/// What is to be done with a map of Kist of whose disk these are the paths.
fn plan_members(map: &Map, paths: &[(&str, &Block)]) -> Vec<Step> {
    let (kept, new): (Vec<_>, Vec<_>) = paths.iter().partition(|(name, _)| map.below.contains(*name));
    let left_out = |name: &str, why: &str| Step::LeaveOut {
        map: map.name.clone(),
        path: name.to_owned(),
        why: why.to_owned(),
    };
    let Some((_, first)) = kept.first() else {
        // Nothing is left that a path could be compared with.
        if !map.is_used {
            return vec![Step::Remove { name: map.name.clone() }];
        }
        let why = "none of the paths that the map had is left to compare it with: end what uses the map";
        return new.iter().map(|(name, _)| left_out(name, why)).collect();
    };
    let mut steps = Vec::new();
    let mut taken = Vec::new();
    for (name, block) in &new {
        match objection(block, first, kept.iter().map(|(_, block)| *block)) {
            Some(why) => steps.push(left_out(name, &why)),
            None => taken.push(member(name, block)),
        }
    }
    let loses = kept.len() < map.below.len();
    if loses || !taken.is_empty() {
        steps.push(Step::Reload {
            name: map.name.clone(),
            device: map.device.clone(),
            sectors: first.sectors,
            kept: kept.iter().map(|(name, block)| member(name, block)).collect(),
            new: taken,
            loses,
        });
    }
    steps
}

fn member(name: &str, block: &Block) -> Member {
    Member { block: name.to_owned(), number: block.number.clone() }
}

/// What stands against a path to a disk of which a map stands, as far as it is known without reading from it.
/// Partitions are those of the disk below the map: whether somebody has one, the exclusive opening tells.
fn objection<'a>(block: &Block, first: &Block, mut kept: impl Iterator<Item = &'a Block>) -> Option<String> {
    if let Some(used) = block.uses.first() {
        return Some(used.clone());
    }
    if block.sectors == 0 || block.sectors != first.sectors {
        return Some("it tells another size than the map, or none".to_owned());
    }
    if block.serial.is_none() || kept.any(|other| other.serial != block.serial) {
        return Some("it and the paths of the map do not all tell the same serial number".to_owned());
    }
    None
}

/// The name and `uuid` of the map that Kist makes over a disk; `None` if it has no name in the world.
fn name_of(disk: &Disk) -> Option<String> {
    let DiskKey::World(name) = &disk.key else { return None };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '_' };
    Some(format!("{OWN}{}", name.chars().map(plain).collect::<String>()))
}

/// All paths are used in turn, by what each takes. Without any an operation fails at once: the pool has other
/// drives, and a queue would hold up its clients (Linux: Documentation/admin-guide/device-mapper/dm-init.rst;
/// drivers/md/dm-mpath.c, `multipath_ctr`).
#[must_use]
pub fn table<'a>(sectors: u64, numbers: impl Iterator<Item = &'a str>) -> String {
    let paths: Vec<String> = numbers.map(|number| format!("{number} 1")).collect();
    format!("0 {sectors} multipath 0 0 1 1 service-time 0 {} 1 {}", paths.len(), paths.join(" "))
}

/// Which paths of a map the kernel uses, by number: from the line of `dmsetup status` (Linux:
/// drivers/md/dm-mpath.c, `multipath_status`).
#[must_use]
pub fn kernel_states(status: &str) -> BTreeMap<String, bool> {
    let words: Vec<&str> = status.split_whitespace().collect();
    let states = words.windows(2).filter_map(|pair| {
        let [number, state] = pair else { return None };
        let (major, minor) = number.split_once(':')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_state = matches!(*state, "A" | "F");
        (is_number(major) && is_number(minor) && is_state).then(|| ((*number).to_owned(), *state == "A"))
    });
    states.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk on these paths, and what they are used for: nothing.
    fn bench(name: &str, paths: &[&str]) -> (Disk, Maps) {
        let path = |block: &&str| Path {
            device: format!("{}:0:1:0", block.len()),
            block: Some((*block).to_owned()),
            state: Some("running".to_owned()),
            ..Path::default()
        };
        let key = DiskKey::World(name.to_owned());
        let mut disk = crate::read::disks::blank(key, Path::default());
        disk.paths = paths.iter().map(path).collect();
        let block = |(at, name): (usize, &&str)| {
            let number = format!("8:{}", 16 * at);
            let serial = Some("ZL0A1B2C".to_owned());
            let block = Block { number, sectors: 2_048, serial, ..Block::default() };
            ((*name).to_owned(), block)
        };
        let blocks = paths.iter().enumerate().map(block).collect();
        (disk, Maps { maps: Vec::new(), blocks, is_blind: false })
    }

    fn map(uuid: &str, below: &[&str]) -> Map {
        let below = below.iter().map(|name| (*name).to_owned()).collect();
        Map {
            name: uuid.to_owned(),
            uuid: uuid.to_owned(),
            device: "dm-0".to_owned(),
            below,
            is_used: true,
            is_suspended: false,
        }
    }

    fn plan(disk: &Disk, maps: &Maps) -> Vec<Step> {
        let machine = Machine { disks: vec![disk.clone()], ..Machine::default() };
        maps.plan(&machine, false)
    }

    #[test]
    fn a_free_disk_with_two_paths_gets_a_map() {
        let (disk, maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        let table = "0 2048 multipath 0 0 1 1 service-time 0 2 1 8:0 1 8:16 1".to_owned();
        let made = Step::Make {
            name: "kist-naa.5000c500a1b2c3d7".to_owned(),
            table,
            over: vec!["sda".to_owned(), "sdb".to_owned()],
        };
        assert_eq!(plan(&disk, &maps), [made]);
        let machine = Machine { disks: vec![disk], ..Machine::default() };
        assert!(
            matches!(&maps.plan(&machine, true)[..], [Step::Leave { why, .. }] if why.contains("multipathd"))
        );
        let (single, maps) = bench("naa.5000c500a1b2c3d7", &["sda"]);
        assert_eq!(plan(&single, &maps), []);
    }

    #[test]
    fn what_is_used_or_not_known_for_certain_is_left_alone() {
        let why = |disk: &Disk, maps: &Maps| match &plan(disk, maps)[..] {
            [Step::Leave { why, .. }] => why.clone(),
            other => panic!("{other:?}"),
        };
        let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        maps.is_blind = true;
        assert_eq!(why(&disk, &maps), "what is mounted cannot be read");
        let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        maps.blocks.get_mut("sdb").unwrap().has_partitions = true;
        assert_eq!(why(&disk, &maps), "sdb: it has partitions");
        for used in ["it is mounted at /srv", "it is swapped to"] {
            let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
            maps.blocks.get_mut("sdb").unwrap().uses.push(used.to_owned());
            assert_eq!(why(&disk, &maps), format!("sdb: {used}"));
        }
        // Of the device mapper, but neither multipathd's nor ours; and of something else.
        for (holder, told) in [("dm-0", "data stands on it"), ("md0", "md0 stands on it")] {
            let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
            maps.maps.push(Map { name: "data".to_owned(), ..map("LVM-1234", &["sda"]) });
            maps.blocks.get_mut("sda").unwrap().holders.insert(holder.to_owned());
            assert_eq!(why(&disk, &maps), told);
        }
        let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        maps.blocks.get_mut("sdb").unwrap().sectors = 4_096;
        assert_eq!(why(&disk, &maps), "its paths tell different sizes, or none");
        let (mut disk, maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        disk.key = DiskKey::Serial("A".to_owned(), "B".to_owned(), "1".to_owned());
        assert_eq!(why(&disk, &maps), "it has no name in the world: two disks could be taken for one");
    }

    #[test]
    fn a_map_of_multipathd_is_its_own_affair() {
        let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        maps.maps.push(map("mpath-35000c500a1b2c3d7", &["sda", "sdb"]));
        maps.blocks.values_mut().for_each(|block| assert!(block.holders.insert("dm-0".to_owned())));
        assert_eq!(plan(&disk, &maps), []);
        assert_eq!(maps.over(&disk).unwrap().maker(), "multipathd");
    }

    #[test]
    fn a_map_of_kist_follows_the_paths_that_there_are() {
        let (mut disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdc"]);
        maps.maps.push(map("kist-naa.5000c500a1b2c3d7", &["sda", "sdb"]));
        maps.blocks.get_mut("sda").unwrap().holders.insert("dm-0".to_owned());
        let stands = |steps: &[Step], over: &str| match steps {
            [step @ Step::Reload { loses: true, .. }] => {
                assert_eq!(step.to_string(), format!("kist-naa.5000c500a1b2c3d7: stands over {over} now"));
            }
            other => panic!("{other:?}"),
        };
        stands(&plan(&disk, &maps), "sda, sdc");
        // What is off cannot be opened, and what somebody else has is not ours.
        disk.paths[1].state = Some("offline".to_owned());
        stands(&plan(&disk, &maps), "sda");
        disk.paths[1].state = Some("running".to_owned());
        maps.blocks.get_mut("sdc").unwrap().holders.insert("md0".to_owned());
        assert!(matches!(&plan(&disk, &maps)[..], [Step::Leave { why, .. }] if why == "md0 stands on it"));
        // One that is off, and in the map, stays there.
        let (mut disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdb"]);
        maps.maps.push(map("kist-naa.5000c500a1b2c3d7", &["sda", "sdb"]));
        disk.paths[1].state = Some("offline".to_owned());
        assert_eq!(plan(&disk, &maps), []);
    }

    /// A map over sda, and a disk that has sdc too.
    fn with_new_path() -> (Disk, Maps) {
        let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sda", "sdc"]);
        maps.maps.push(map("kist-naa.5000c500a1b2c3d7", &["sda"]));
        (disk, maps)
    }

    #[test]
    fn partitions_keep_no_path_out_of_a_map_that_stands() {
        let (disk, mut maps) = with_new_path();
        maps.blocks.values_mut().for_each(|block| block.has_partitions = true);
        let new = [Member { block: "sdc".to_owned(), number: "8:16".to_owned() }];
        match &plan(&disk, &maps)[..] {
            [Step::Reload { kept, new: taken, loses: false, device, sectors: 2_048, .. }] => {
                assert_eq!((kept.len(), &taken[..], device.as_str()), (1, &new[..], "dm-0"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_path_that_is_not_known_for_the_same_disk_stays_out_of_a_map_that_stands() {
        let serial = |name: &str, serial: Option<&str>| {
            let (disk, mut maps) = with_new_path();
            maps.blocks.get_mut(name).unwrap().serial = serial.map(str::to_owned);
            (disk, maps)
        };
        let (disk, mut size) = with_new_path();
        size.blocks.get_mut("sdc").unwrap().sectors = 4_096;
        let (_, mut mounted) = with_new_path();
        mounted.blocks.get_mut("sdc").unwrap().uses.push("it is mounted at /srv".to_owned());
        let cases =
            [serial("sdc", None).1, serial("sda", None).1, serial("sdc", Some("ZL0A1B2D")).1, size, mounted];
        for maps in cases {
            let steps = plan(&disk, &maps);
            assert!(matches!(&steps[..], [Step::LeaveOut { path, .. }] if path == "sdc"), "{steps:?}");
        }
    }

    #[test]
    fn a_map_that_lost_all_its_paths_is_made_anew_and_takes_none_in() {
        let (disk, mut maps) = bench("naa.5000c500a1b2c3d7", &["sdc", "sdd"]);
        maps.maps.push(map("kist-naa.5000c500a1b2c3d7", &["sda", "sdb"]));
        let steps = plan(&disk, &maps);
        assert!(matches!(&steps[..], [Step::LeaveOut { .. }, Step::LeaveOut { .. }]), "{steps:?}");
        maps.maps[0].is_used = false;
        assert!(matches!(&plan(&disk, &maps)[..], [Step::Remove { .. }]));
    }

    #[test]
    fn a_map_of_kist_that_is_suspended_goes_on_before_anything_else() {
        let (disk, mut maps) = with_new_path();
        maps.maps.push(Map { is_suspended: true, ..map("mpath-1", &[]) });
        assert_eq!(maps.suspended(), []);
        maps.maps[0].is_suspended = true;
        assert_eq!(maps.suspended(), [Step::Resume { name: "kist-naa.5000c500a1b2c3d7".to_owned() }]);
        assert_eq!(plan(&disk, &maps), []);
    }

    #[test]
    fn a_map_without_a_disk_goes_once_nobody_uses_it() {
        let (_, mut maps) = bench("naa.5000c500a1b2c3d7", &[]);
        maps.maps.push(map("kist-naa.5000c500a1b2c3d7", &[]));
        maps.maps.push(Map { is_used: false, ..map("mpath-1", &[]) });
        assert_eq!(maps.plan(&Machine::default(), false), []);
        assert!(maps.has_forsaken(&Machine::default()));
        maps.maps[0].is_used = false;
        let gone = Step::Remove { name: "kist-naa.5000c500a1b2c3d7".to_owned() };
        assert_eq!(maps.plan(&Machine::default(), false), [gone]);
    }

    #[test]
    fn lines_of_the_kernel() {
        let status = "0 196608 multipath 2 0 0 0 1 1 A 0 2 2 8:32 F 1 0 1 8:48 A 0 0 1";
        let states = kernel_states(status);
        assert_eq!(states, [("8:32".to_owned(), false), ("8:48".to_owned(), true)].into());
        assert!(kernel_states("").is_empty() && kernel_states("8: A 8:x F :8 A").is_empty());
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      36 22 254:1 / /srv rw - xfs /dev/dm-1 rw\n";
        assert_eq!(places(mounts)["254:1"], "/srv");
    }
}
