//! Machines for people: the tree of `kist disk ls`, the front of `kist disk slots`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::Timestamp;
use terminal::{Table, one_line, text};
use topology::bottleneck::{Bottlenecks, LinkKind, Rates, bottlenecks};
use topology::health::{Health, Verdict};
use topology::layout::Layout;
use topology::{Disk, DiskKind, Enclosure, Hop, HostKind, Machine, Path, Slot, SlotState, in_order};

/// A line with what is below it.
#[derive(Default)]
struct Node {
    line: String,
    /// In the order in which they were met.
    children: Vec<(String, Node)>,
}

impl Node {
    fn child(&mut self, key: &str, line: impl FnOnce() -> String) -> &mut Node {
        let at = self.children.iter().position(|(own, _)| own == key);
        let at = at.unwrap_or_else(|| {
            self.children.push((key.to_owned(), Node { line: line(), children: Vec::new() }));
            self.children.len() - 1
        });
        &mut self.children[at].1
    }

    fn write(&self, out: &mut String, indent: &str) {
        for (at, (_, child)) in self.children.iter().enumerate() {
            let is_last = at + 1 == self.children.len();
            let (own, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            // Writing into a String cannot fail.
            let _ = writeln!(out, "{indent}{own}{}", one_line(&child.line));
            child.write(out, &format!("{indent}{below}"));
        }
    }
}

/// When and where a machine was looked at.
pub fn heading(machine: &Machine) -> String {
    let about = &machine.about;
    let mut parts = vec![about.host.clone().unwrap_or_else(|| "a machine without a name".to_owned())];
    parts.extend(about.kernel.as_ref().map(|kernel| format!("Linux {kernel}")));
    let nanos = about.seconds.and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1_000_000_000));
    parts.extend(nanos.map(|nanos| text::whole_seconds(&text::rfc3339(Timestamp(nanos)))));
    if about.nodes.len() > 1 {
        parts.push(format!("{} NUMA nodes", about.nodes.len()));
    }
    one_line(&parts.join(", "))
}

fn joined(words: impl IntoIterator<Item = Option<String>>) -> String {
    words.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// A link as it is, and as it could be if that is more.
fn link_words(found: &Bottlenecks, hop: &Hop) -> Option<String> {
    let row = found.links.iter().find(|row| row.hop == *hop)?;
    let now = row.now.words(row.kind);
    Some(match row.is_degraded() {
        true => format!("{now} of {} possible", row.possible.words(row.kind)),
        false => now,
    })
}

/// The tree.
pub fn tree(machine: &Machine) -> String {
    let found = bottlenecks(machine, Rates::default());
    let mut root = Node::default();
    for host in in_order(&machine.hosts) {
        let pci = host.pci.as_ref().map(|pci| {
            let link = link_words(&found, &Hop::Pci(pci.clone()));
            joined([Some(format!("PCI {pci}")), link])
        });
        let node = host.pci.as_ref().and_then(|pci| machine.pci.get(pci)?.node);
        let line = joined([
            Some(host.name.clone()),
            Some(host.kind.to_string()),
            host.driver.clone(),
            host.board.clone(),
            host.firmware.as_ref().map(|firmware| format!("firmware {firmware}")),
            pci,
            node.map(|node| format!("NUMA node {node}")),
            (host.kind == HostKind::Sas && !host.has_sas_objects)
                .then(|| "its driver shows no links".to_owned()),
        ]);
        let has_any = machine
            .disks
            .iter()
            .flat_map(|disk| &disk.paths)
            .any(|path| path.host.as_ref() == Some(&host.name));
        if has_any || host.has_sas_objects {
            root.child(&host.name, || line);
        }
    }
    for disk in &machine.disks {
        for (at, path) in disk.paths.iter().enumerate() {
            hang(&mut root, machine, &found, disk, at, path);
        }
    }
    for (at, enclosure) in machine.enclosures.iter().enumerate() {
        for services in &enclosure.services {
            let Some(node) = services.host.as_ref().map(|host| root.child(host, || host.clone())) else {
                continue;
            };
            let node = ports(node, machine, &found, &services.hops);
            node.child(&services.device, || format!("{}  enclosure {at}", services.device));
        }
    }
    let mut out = format!("{}\n", heading(machine));
    root.write(&mut out, "");
    out.push_str(&enclosures(machine));
    if machine.enclosures.is_empty() && !machine.disks.iter().any(|disk| disk.kind != DiskKind::Virtual) {
        let _ = writeln!(out, "\n{}", nothing_of(machine));
    }
    out
}

/// Hangs a disk where its path leads to.
fn hang(root: &mut Node, machine: &Machine, found: &Bottlenecks, disk: &Disk, at: usize, path: &Path) {
    let mut node = root;
    if let Some(host) = &path.host {
        node = ports(node.child(host, || host.clone()), machine, found, &path.hops);
    } else {
        for (at, hop) in path.hops.iter().enumerate() {
            let Hop::Pci(address) = hop else { continue };
            node = node.child(address, || {
                let function = machine.pci.get(address);
                joined([
                    Some(format!("PCI {address}")),
                    link_words(found, hop),
                    function.and_then(|function| function.driver.clone()),
                    // What is below it is on the same node.
                    function
                        .filter(|_| at == 0)
                        .and_then(|one| one.node)
                        .map(|node| format!("NUMA node {node}")),
                ])
            });
        }
    }
    node.child(&format!("{} {at}", path.device), || disk_line(machine, disk, at, path));
}

/// The ports of a way; that of the disk itself is left out, its rate stands with the disk.
fn ports<'a>(mut node: &'a mut Node, machine: &Machine, found: &Bottlenecks, hops: &[Hop]) -> &'a mut Node {
    for hop in hops {
        let Hop::Port(name) = hop else { continue };
        let Some(expander) = machine.ports.get(name).and_then(|port| port.expander.as_ref()) else {
            continue;
        };
        node = node.child(name, || {
            let known = machine.expanders.get(expander);
            let product =
                known.map(|known| known.product.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
            joined([
                Some(name.clone()),
                Some(link_words(found, hop).unwrap_or_else(|| "link down".to_owned())),
                Some(format!("to {expander}")),
                product,
            ])
        });
    }
    node
}

/// Where a disk stands: `0/42`.
pub fn slot_words(machine: &Machine, disk: &Disk) -> Option<String> {
    let place = disk.place?;
    let (_, slot) = machine.slot_of(disk)?;
    Some(format!("{}/{}", place.enclosure, slot.number))
}

fn disk_line(machine: &Machine, disk: &Disk, at: usize, path: &Path) -> String {
    let gbit = |megabits: u32| format!("{} Gbit/s", f64::from(megabits) / 1_000.0);
    let multipath = disk.multipath.as_ref().map(|name| format!("({name})"));
    let paths = (disk.paths.len() > 1).then(|| format!("path {} of {}", at + 1, disk.paths.len()));
    let bad = path.state.as_ref().filter(|state| !matches!(state.as_str(), "running" | "live"));
    joined([
        Some(path.block.clone().unwrap_or_else(|| path.device.clone())),
        multipath,
        slot_words(machine, disk).map(|slot| format!("slot {slot}")),
        Some(disk.kind.to_string()),
        disk.size.map(text::size),
        disk.vendor.clone(),
        disk.model.clone(),
        disk.serial.clone(),
        path.megabits.map(gbit),
        disk.celsius.map(|celsius| format!("{celsius} °C")),
        paths,
        bad.cloned(),
    ])
}

fn enclosures(machine: &Machine) -> String {
    if machine.enclosures.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ">enclosure",
        "product",
        "identifier",
        ">slots",
        ">disks",
        ">empty",
        ">not seen",
        "served by",
    ]);
    for (at, enclosure) in machine.enclosures.iter().enumerate() {
        let count = |state| enclosure.slots.iter().filter(|slot| slot.state() == state).count().to_string();
        let served: Vec<&str> = enclosure.services.iter().map(|one| one.device.as_str()).collect();
        table.row(vec![
            at.to_string(),
            product(enclosure),
            enclosure.identifier.map_or_else(|| "-".to_owned(), |identifier| format!("{identifier:016x}")),
            enclosure.slots.len().to_string(),
            count(SlotState::Disk),
            count(SlotState::Empty),
            count(SlotState::Hidden),
            served.join(", "),
        ]);
    }
    format!("\n{}", table.render())
}

fn product(enclosure: &Enclosure) -> String {
    let all = [&enclosure.vendor, &enclosure.product, &enclosure.revision];
    let words: Vec<&str> = all.into_iter().flatten().map(String::as_str).collect();
    text::or_dash(&words.join(" "))
}

/// What there is where nothing is that the commands are about.
pub fn nothing_of(machine: &Machine) -> String {
    let count = |kind| machine.disks.iter().filter(|disk| disk.kind == kind).count() as u64;
    let hosts: Vec<String> =
        in_order(&machine.hosts).iter().map(|host| format!("{} ({})", host.name, host.kind)).collect();
    let hosts = if hosts.is_empty() { "no SCSI adapters".to_owned() } else { hosts.join(", ") };
    let disks: Vec<String> = [DiskKind::Hdd, DiskKind::Ssd, DiskKind::Nvme, DiskKind::Virtual]
        .into_iter()
        .filter(|kind| count(*kind) > 0)
        .map(|kind| text::plural(count(kind), &format!("{kind} disk")))
        .collect();
    let disks = if disks.is_empty() { "no disks".to_owned() } else { disks.join(", ") };
    format!(
        "No SAS adapter, enclosure or NVMe drive is seen here: {disks}, {hosts}. In a virtual machine the \
         host has them; elsewhere look whether the adapter's driver and the module ses are loaded, or give a \
         recorded machine with --from."
    )
}

/// What a slot's cell says behind its number.
fn cell(machine: &Machine, health: &Health, slot: &Slot) -> String {
    let name = match (slot.state(), slot.disk) {
        (_, Some(disk)) => {
            let verdict = health.disks.get(disk).map_or(Verdict::Unknown, |one| one.verdict);
            let mark = match verdict {
                Verdict::Good => "",
                Verdict::Unknown => "?",
                Verdict::Watch => "!",
                Verdict::Replace => "X",
            };
            format!("{}{mark}", machine.disks.get(disk).map_or("", Disk::name))
        }
        (SlotState::Empty, _) => "-".to_owned(),
        (SlotState::Hidden, _) => "~".to_owned(),
        _ => "·".to_owned(),
    };
    let light = if slot.locate { "*" } else { "" };
    one_line(&format!("{:>2} {name}{light}", slot.number))
}

/// The front of an enclosure.
pub fn front(machine: &Machine, at: usize) -> String {
    let enclosure = &machine.enclosures[at];
    let health = Health::of(machine, None);
    let mut out = String::new();
    let identifier = enclosure.identifier.map(|identifier| format!("{identifier:016x}"));
    let _ = writeln!(
        out,
        "{}",
        one_line(&joined([Some(format!("Enclosure {at}")), Some(product(enclosure)), identifier]))
    );
    for one in &enclosure.services {
        let pages = one.pages.as_ref().err().map(|why| format!("not asked: {why}"));
        let host = one.host.as_ref().map(|host| format!("on {host}"));
        let _ = writeln!(out, "  served by {}", one_line(&joined([Some(one.device.clone()), host, pages])));
    }
    let layout = Layout::of(enclosure);
    let cells: BTreeMap<usize, String> =
        enclosure.slots.iter().enumerate().map(|(at, slot)| (at, cell(machine, &health, slot))).collect();
    let width = cells.values().map(|cell| cell.chars().count()).max().unwrap_or(0);
    for panel in &layout.panels {
        let _ = writeln!(
            out,
            "{}",
            if panel.title.is_empty() { String::new() } else { format!("\n  {}", panel.title) }
        );
        for row in &panel.rows {
            let row: Vec<String> = row.iter().map(|at| format!("{:<width$}", cells[at])).collect();
            let _ = writeln!(out, "  |{}|", row.join("|"));
        }
    }
    let _ = writeln!(
        out,
        "\n  - empty   ~ a disk that this machine does not see   ! watch   X replace   ? not asked   \
         * light on\n  Picture: {}",
        layout.source
    );
    if !enclosure.elements.is_empty() {
        let mut table = Table::new(&["part", "name", "state", "value"]);
        for element in &enclosure.elements {
            let failure = if element.failure_predicted { ", expected to fail" } else { "" };
            table.row(vec![
                element.kind.to_string(),
                text::or_dash(&element.name),
                format!("{}{failure}", element.code),
                element.value.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        let _ = write!(out, "\n{}", table.render());
    }
    out.push('\n');
    out
}

/// What kind of link it is, in words.
pub fn kind_words(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Pcie => "PCIe",
        LinkKind::Sas => "SAS",
    }
}
