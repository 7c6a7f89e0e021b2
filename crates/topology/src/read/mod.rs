//! Reading a machine.

mod answers;
mod chain;
pub(crate) mod disks;
mod enclosures;
mod sas;

pub use answers::LOG_PAGES;
use std::collections::BTreeMap;

use chain::Chain;

use crate::machine::{Disk, Machine, Network, PciFunction, PciLink, Services};
use crate::reader::{Reader, number};
use crate::tree::Tree;

/// The most devices of a kind that are looked at: more than any machine has.
const DEVICES_MAX: usize = 16_384;

impl Machine {
    /// Reads a machine from its files.
    #[must_use]
    pub fn read(tree: &dyn Tree) -> Machine {
        let reader = Reader::new(tree);
        let mut machine = Machine::default();
        about(&mut machine, &reader);
        sas::read(&mut machine, &reader);
        disks::read(&mut machine, &reader);
        enclosures::read(&mut machine, &reader);
        networks(&mut machine, &reader);
        let (problems, more) = reader.into_problems();
        (machine.problems, machine.problems_left_out) = (problems, more);
        machine
    }
}

/// What can be asked how it is: disks with their paths, and devices that serve enclosures. What costs the
/// devices commands is not read.
#[must_use]
pub fn askable(tree: &dyn Tree) -> (Vec<Disk>, Vec<Services>) {
    let reader = Reader::new(tree);
    let mut machine = Machine::default();
    disks::read(&mut machine, &reader);
    (machine.disks, enclosures::services(&reader))
}

fn about(machine: &mut Machine, reader: &Reader<'_>) {
    machine.about.host = reader.text("/about/host").or_else(|| reader.text("/proc/sys/kernel/hostname"));
    machine.about.kernel = reader.text("/about/kernel").or_else(|| reader.text("/proc/sys/kernel/osrelease"));
    machine.about.seconds = reader.number("/about/seconds");
    let nodes = reader.names("/sys/devices/system/node");
    let node = |name: &String| name.strip_prefix("node")?.parse().ok();
    machine.about.nodes = nodes.iter().filter_map(node).take(DEVICES_MAX).collect();
    machine.about.nodes.sort_unstable();
}

/// Names of a class that are devices of it, as many as are looked at.
fn devices(reader: &Reader<'_>, class: &str) -> Vec<String> {
    let mut names = reader.names(class);
    if names.len() > DEVICES_MAX {
        reader.problem(class, crate::tree::Unread::TooLarge);
        names.truncate(DEVICES_MAX);
    }
    names
}

/// Notes the functions of a way.
fn functions(machine: &mut Machine, reader: &Reader<'_>, place: &str, chain: &Chain) {
    let mut above: Option<String> = None;
    for (address, has_link_above) in chain.linked() {
        if !machine.pci.contains_key(&address) && machine.pci.len() < DEVICES_MAX {
            let Some(end) = place.find(&format!("/{address}")).map(|at| at + 1 + address.len()) else {
                continue;
            };
            let directory = place.get(..end).unwrap_or(place);
            let mut function = function(reader, directory);
            (function.address, function.above) = (address.clone(), above.clone());
            function.has_link_above = has_link_above;
            machine.pci.insert(address.clone(), function);
        }
        above = Some(address);
    }
}

fn function(reader: &Reader<'_>, directory: &str) -> PciFunction {
    let at = |name: &str| format!("{directory}/{name}");
    let link = |which: &str| {
        let megatransfers = reader.parsed(&at(&format!("{which}_link_speed")), transfers).flatten()?;
        let lanes = reader.number(&at(&format!("{which}_link_width")))?;
        // 0 and 255 are said of a link that is down.
        let lanes = u32::try_from(lanes).ok().filter(|lanes| (1..=32).contains(lanes))?;
        Some(PciLink { megatransfers, lanes })
    };
    let id = |name| reader.number(&at(name)).and_then(|id| u16::try_from(id).ok());
    let errors = ["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"];
    let driver = reader.place(&at("driver"));
    PciFunction {
        link: link("current"),
        link_possible: link("max"),
        node: reader
            .parsed(&at("numa_node"), |text| text.parse::<i64>().ok())
            .and_then(|n| u32::try_from(n).ok()),
        ids: id("vendor").zip(id("device")),
        driver: driver.and_then(|place| place.rsplit('/').next().map(str::to_owned)),
        errors: errors.map(|name| reader.text(&at(name)).and_then(|text| total(&text))),
        ..PciFunction::default()
    }
}

/// Megatransfers of `8.0 GT/s PCIe`; the inner `None` is what the kernel does not know.
fn transfers(text: &str) -> Option<Option<u32>> {
    if text.starts_with("Unknown") {
        return Some(None);
    }
    let (number, _) = text.split_once(" GT/s")?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, tenth): (u32, u32) = (whole.parse().ok()?, tenth.parse().ok()?);
    (whole < 1_000 && tenth < 10).then_some(Some(whole * 1_000 + tenth * 100))
}

/// The total of an AER file: lines of a name and a number, the last of which begins with `TOTAL_`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("TOTAL_"))?;
    number(line.split_whitespace().nth(1)?)
}

fn networks(machine: &mut Machine, reader: &Reader<'_>) {
    for name in devices(reader, "/sys/class/net") {
        let at = |file: &str| format!("/sys/class/net/{name}/{file}");
        let Some(place) = reader.place(&at("device")) else { continue };
        let chain = Chain::of(&place);
        if chain.pci.is_empty() {
            continue;
        }
        functions(machine, reader, &place, &chain);
        // Of a link that is down Linux says -1, or nothing.
        let speed = reader.parsed(&at("speed"), |text| text.parse::<i64>().ok());
        let megabits = speed.and_then(|speed| u32::try_from(speed).ok()).filter(|speed| *speed > 0);
        let mtu = reader.number(&at("mtu")).and_then(|mtu| u32::try_from(mtu).ok());
        machine.networks.push(Network { name, megabits, mtu, hops: chain.hops() });
    }
}

/// Numbers of values by what they are equal in.
fn grouped<K: Ord, T>(values: impl IntoIterator<Item = (K, T)>) -> BTreeMap<K, Vec<T>> {
    let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for (key, value) in values {
        groups.entry(key).or_default().push(value);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_and_totals_as_linux_writes_them() {
        assert_eq!(transfers("8.0 GT/s PCIe"), Some(Some(8_000)));
        assert_eq!(transfers("8 GT/s"), Some(Some(8_000)));
        assert_eq!(transfers("2.5 GT/s PCIe"), Some(Some(2_500)));
        assert_eq!(transfers("Unknown speed"), Some(None));
        assert_eq!(transfers("fast"), None);
        assert_eq!(transfers("99999999999 GT/s"), None);
        assert_eq!(total("RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3"), Some(3));
        assert_eq!(total("RxErr 3"), None);
    }
}
