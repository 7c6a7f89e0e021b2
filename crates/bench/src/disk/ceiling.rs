//! What the links to the measured disks carry, and how fast disks of their kinds are: the bottleneck that
//! `kist disk bottleneck` computes, of these disks and paths alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use disk_load::Target;
use serde::Serialize;
use topology::bottleneck::{Rates, bottlenecks};
use topology::{DiskKind, Hop, Machine};

/// Devices below a device: md over multipath over disks is three deep.
const DEPTH_MAX: usize = 8;

/// The bottleneck.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ceiling {
    /// Megabytes (10^6 bytes) a second; nothing where it cannot be computed.
    pub mb_s: Option<f64>,
    /// What limits, or why nothing is known.
    pub words: String,
    /// Disks that are measured.
    pub disks: Vec<String>,
    /// Paths to them that are used.
    pub paths: usize,
}

impl Ceiling {
    fn unknown(words: impl Into<String>) -> Ceiling {
        Ceiling { mb_s: None, words: words.into(), disks: Vec::new(), paths: 0 }
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        match self.mb_s {
            Some(rate) => format!("{} (computed): {rate:.0} MB/s", self.words),
            None => format!("no bottleneck is computed: {}", self.words),
        }
    }
}

/// Of the disks below these targets.
pub fn of(targets: &[&Target]) -> Ceiling {
    let mut blocks = BTreeSet::new();
    for target in targets {
        let found = target
            .device()
            .ok()
            .and_then(|(major, minor)| fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok());
        let Some(device) = found else {
            return Ceiling::unknown(format!("{} is on no block device", target.path().display()));
        };
        below(&device, DEPTH_MAX, &mut blocks);
    }
    let machine = probe::live(false).machine;
    of_machine(machine, &blocks)
}

/// Names of the disks' block devices below a device.
fn below(device: &Path, depth: usize, blocks: &mut BTreeSet<String>) {
    if device.join("partition").exists()
        && let Some(disk) = device.parent()
    {
        return below(disk, depth, blocks);
    }
    let slaves: Vec<_> = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten().collect();
    if slaves.is_empty() || depth == 0 {
        blocks.extend(device.file_name().map(|name| name.to_string_lossy().into_owned()));
        return;
    }
    for slave in slaves {
        if let Ok(device) = fs::canonicalize(slave.path()) {
            below(&device, depth - 1, blocks);
        }
    }
}

/// Of these block devices of a machine.
fn of_machine(mut machine: Machine, blocks: &BTreeSet<String>) -> Ceiling {
    let is_used = |block: &Option<String>| block.as_ref().is_some_and(|block| blocks.contains(block));
    for disk in &mut machine.disks {
        disk.paths.retain(|path| is_used(&path.block));
    }
    machine.disks.retain(|disk| !disk.paths.is_empty());
    let paths: usize = machine.disks.iter().map(|disk| disk.paths.len()).sum();
    if paths < blocks.len() || blocks.is_empty() {
        let seen = |block: &&String| {
            machine.disks.iter().flat_map(|disk| &disk.paths).any(|path| path.block.as_ref() == Some(*block))
        };
        let missing: Vec<&str> = blocks.iter().filter(|block| !seen(block)).map(String::as_str).collect();
        return Ceiling::unknown(format!("nothing is known of the links to {}", missing.join(", ")));
    }
    let disks: Vec<String> = machine.disks.iter().map(|disk| disk.name().to_owned()).collect();
    if machine.disks.iter().any(|disk| disk.kind == DiskKind::Virtual) {
        let words = "what is behind a virtual disk is not known".to_owned();
        return Ceiling { mb_s: None, words, disks, paths };
    }
    let found = bottlenecks(&machine, Rates::default());
    let limit = found.ways.iter().find_map(|way| way.limit.as_ref());
    let words = match limit {
        Some(Hop::Pci(address)) => format!("the PCI Express link of {address} limits"),
        Some(Hop::Port(port)) => format!("the SAS link of {port} limits"),
        None => "disks of this kind limit".to_owned(),
    };
    Ceiling { mb_s: Some((found.carried * 10.0).round() / 10.0), words, disks, paths }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn recorded(name: &str) -> Machine {
        let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
        probe::open(&machines.join(format!("{name}.machine"))).unwrap().machine
    }

    fn ceiling(name: &str, blocks: &[&str]) -> Ceiling {
        of_machine(recorded(name), &blocks.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn one_disk_is_as_fast_as_its_kind_and_many_as_their_links() {
        let one = ceiling("me484-one-path", &["sda"]);
        assert_eq!((one.mb_s, one.words.as_str(), one.paths), (Some(230.0), "disks of this kind limit", 1));
        let machine = recorded("me484-one-path");
        let all: BTreeSet<String> =
            machine.disks.iter().flat_map(|disk| &disk.paths).filter_map(|path| path.block.clone()).collect();
        let many = of_machine(machine.clone(), &all);
        let whole = bottlenecks(&machine, Rates::default());
        assert!(many.words.starts_with("the SAS link of") || many.words.starts_with("the PCI"), "{many:?}");
        assert!((many.mb_s.unwrap() - whole.carried).abs() < 0.1, "{many:?}");
        assert!(whole.carried < whole.needs, "the links are the limit: {}", whole.carried);
    }

    #[test]
    fn two_paths_to_one_disk_are_one_disk() {
        let machine = recorded("me484-two-path");
        let blocks: Vec<String> =
            machine.disks[0].paths.iter().filter_map(|path| path.block.clone()).collect();
        assert_eq!(blocks.len(), 2);
        let both = ceiling("me484-two-path", &[&blocks[0], &blocks[1]]);
        assert_eq!((both.disks.len(), both.paths, both.mb_s), (1, 2, Some(230.0)));
        let one = ceiling("me484-two-path", &[&blocks[1]]);
        assert_eq!((one.disks.len(), one.paths, one.mb_s), (1, 1, Some(230.0)));
    }

    #[test]
    fn what_is_not_known_has_no_figure() {
        let virtual_disk = ceiling("virtio", &["vda"]);
        assert_eq!((virtual_disk.mb_s, virtual_disk.disks), (None, vec!["vda".to_owned()]));
        let missing = ceiling("me484-one-path", &["sda", "loop7"]);
        assert!(missing.mb_s.is_none() && missing.words.contains("loop7"), "{missing:?}");
        assert!(ceiling("me484-one-path", &[]).mb_s.is_none());
    }
}
