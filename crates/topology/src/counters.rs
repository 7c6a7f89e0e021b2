//! What has grown between two looks.

use std::collections::BTreeMap;

use crate::machine::{Answered, Counter, Counters, Disk, DiskKey, Machine};

/// How a counter has moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// As it was.
    pub before: u64,
    /// As it is.
    pub now: u64,
}

impl Growth {
    /// By how much it has grown; `None` if it is smaller than it was: it was reset, as by power or by hand,
    /// and what it had grown by then is lost.
    #[must_use]
    pub fn by(self) -> Option<u64> {
        self.now.checked_sub(self.before)
    }
}

/// What two looks at a machine tell together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Since {
    /// Seconds between them, if both say when they were.
    pub seconds: Option<u64>,
    /// Of each disk that is in both, every counter that is in both and has moved.
    pub disks: BTreeMap<DiskKey, BTreeMap<Counter, Growth>>,
    /// Disks that are gone.
    pub gone: Vec<DiskKey>,
    /// Disks that are new.
    pub new: Vec<DiskKey>,
    /// Of each phy of a host or an expander that is in both, the same. By names, which are stable while the
    /// machine runs.
    pub phys: BTreeMap<String, BTreeMap<Counter, Growth>>,
    /// Errors that links of PCI Express have reported, by address: corrected, not fatal, fatal.
    pub pci: BTreeMap<String, [Option<Growth>; 3]>,
}

fn moved(before: &Counters, now: &Counters) -> BTreeMap<Counter, Growth> {
    let one = |(counter, now): (&Counter, &u64)| {
        let growth = Growth { before: before.get(*counter)?, now: *now };
        (growth.before != growth.now).then_some((*counter, growth))
    };
    now.0.iter().filter_map(one).collect()
}

/// What the counters of links and paths are added up from: paths, and phys that the disk told of. Another
/// path or an answer more is no growth.
fn added_up_from(disk: &Disk) -> (usize, usize) {
    let phys = match &disk.answered {
        Answered::Scsi(answers) => answers.phys.len(),
        _ => 0,
    };
    (disk.paths.len(), phys)
}

impl Since {
    /// Compares two looks at one machine.
    #[must_use]
    pub fn of(before: &Machine, now: &Machine) -> Since {
        let times = before.about.seconds.zip(now.about.seconds);
        let seconds = times.and_then(|(before, now)| now.checked_sub(before));
        let mut since = Since { seconds, ..Since::default() };
        let old: BTreeMap<&DiskKey, &Disk> = before.disks.iter().map(|disk| (&disk.key, disk)).collect();
        for disk in &now.disks {
            match old.get(&disk.key) {
                Some(old) => {
                    let mut moved = moved(&old.counters, &disk.counters);
                    if added_up_from(old) != added_up_from(disk) {
                        moved.retain(|counter, _| !counter.is_link() && *counter != Counter::IoErrors);
                    }
                    if !moved.is_empty() {
                        since.disks.insert(disk.key.clone(), moved);
                    }
                }
                None => since.new.push(disk.key.clone()),
            }
        }
        let keys: std::collections::BTreeSet<&DiskKey> = now.disks.iter().map(|disk| &disk.key).collect();
        since.gone = old.keys().filter(|key| !keys.contains(*key)).map(|key| (*key).clone()).collect();
        for (name, phy) in &now.phys {
            let Some(old) = before.phys.get(name).filter(|old| old.owner == phy.owner) else { continue };
            let moved = moved(&old.counters, &phy.counters);
            if !moved.is_empty() {
                since.phys.insert(name.clone(), moved);
            }
        }
        for (address, function) in &now.pci {
            let Some(old) = before.pci.get(address) else { continue };
            let mut grown = [None; 3];
            for ((growth, before), now) in grown.iter_mut().zip(old.errors).zip(function.errors) {
                *growth = before.zip(now).map(|(before, now)| Growth { before, now });
                *growth = growth.filter(|growth| growth.before != growth.now);
            }
            if grown.iter().any(Option::is_some) {
                since.pci.insert(address.clone(), grown);
            }
        }
        since
    }
}
