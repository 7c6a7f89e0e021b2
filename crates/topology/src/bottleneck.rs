//! Which link limits what: what all disks together could move, link by link from the disks to the processor,
//! and the smallest term of each way.
//!
//! The model: every disk moves large files as fast as its kind does, in equal shares over its paths. What a
//! link cannot carry is taken from all that share it in equal parts. On a tree this gives what the whole can
//! move.

use std::collections::{BTreeMap, BTreeSet};

use crate::constants::{
    self, HDD_RATE, HDD_RATE_FITTED, NVME_RATE, PCIE_SHARE, PCIE3_LANE_KISTI, SAS_SHARE, SOCKET_LINK,
    SSD_RATE,
};
use crate::machine::{Disk, DiskKind, Hop, Machine, PciLink, PhyRate, Port};
use crate::order::by_number;

/// How fast disks are taken to be, in megabytes (10^6 bytes) a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// A disk that turns.
    pub hdd: f64,
    /// A flash disk behind SAS or SATA.
    pub ssd: f64,
    /// An NVMe drive.
    pub nvme: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Rates { hdd: HDD_RATE.value, ssd: SSD_RATE.value, nvme: NVME_RATE.value }
    }
}

impl Rates {
    fn of(self, disk: &Disk) -> f64 {
        match disk.kind {
            DiskKind::Hdd => self.hdd,
            DiskKind::Ssd => self.ssd,
            DiskKind::Nvme => self.nvme,
            // What is behind a hypervisor is not known: it asks for nothing.
            DiskKind::Virtual => 0.0,
        }
    }
}

/// What a link is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkKind {
    /// PCI Express.
    Pcie,
    /// SAS.
    Sas,
}

/// Lanes by how fast they run: megabits a second of SAS, megatransfers of PCI Express.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Width(pub BTreeMap<u32, u32>);

impl Width {
    fn of(rates: impl IntoIterator<Item = u32>) -> Width {
        let mut width = Width::default();
        for rate in rates {
            *width.0.entry(rate).or_default() += 1;
        }
        width
    }

    /// Lanes in total.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.0.values().sum()
    }

    /// In words: `4 x 12 Gbit/s`, `8 x 8 GT/s`.
    #[must_use]
    pub fn words(&self, kind: LinkKind) -> String {
        let unit = match kind {
            LinkKind::Sas => "Gbit/s",
            LinkKind::Pcie => "GT/s",
        };
        let one = |(rate, lanes): (&u32, &u32)| format!("{lanes} x {} {unit}", f64::from(*rate) / 1_000.0);
        let all: Vec<String> = self.0.iter().rev().map(one).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(" + ") }
    }

    /// What it carries in megabytes a second.
    #[must_use]
    pub fn usable(&self, kind: LinkKind) -> f64 {
        let lane = |rate: u32| match kind {
            LinkKind::Sas => constants::sas_lane(rate) * SAS_SHARE.value,
            LinkKind::Pcie => constants::pcie_lane(rate) * PCIE_SHARE.value,
        };
        self.0.iter().map(|(rate, lanes)| f64::from(*lanes) * lane(*rate)).sum()
    }
}

impl From<PciLink> for Width {
    fn from(link: PciLink) -> Width {
        Width(BTreeMap::from([(link.megatransfers, link.lanes)]))
    }
}

/// A link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkRow {
    /// The step of the way that ends it: its lower end on PCI, the port on SAS.
    pub hop: Hop,
    /// What it is made of.
    pub kind: LinkKind,
    /// What its upper end is: a function, a host, an expander.
    pub from: String,
    /// What its lower end is.
    pub to: String,
    /// As it is.
    pub now: Width,
    /// As both ends could have it.
    pub possible: Width,
    /// What it carries in megabytes a second, as it is.
    pub usable: f64,
    /// Disks behind it.
    pub disks: BTreeSet<usize>,
    /// What they could move over it, if their other paths take their share.
    pub needs: f64,
    /// What they could move over it, if it were their only path.
    pub needs_alone: f64,
    /// What is moved over it, when all that is above and below limits as well.
    pub carried: f64,
}

impl LinkRow {
    /// It carries less than the disks behind it could move.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.usable < self.needs * 0.999
    }

    /// It is narrower or slower than both its ends could have it.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.usable < self.possible.usable(self.kind) * 0.999
    }
}

/// A way from a processor to disks: that of an adapter, or of an NVMe drive's root port.
#[derive(Clone, PartialEq, Debug)]
pub struct WayRow {
    /// The SCSI host, or the PCI function nearest to the processor.
    pub name: String,
    /// The NUMA node at which it begins.
    pub node: Option<u32>,
    /// Disks on it.
    pub disks: BTreeSet<usize>,
    /// What they could move over it.
    pub needs: f64,
    /// The smallest of what the links of SAS at the adapter carry together; `None` if it has none that are
    /// told.
    pub sas: Option<f64>,
    /// What the narrowest link of PCI Express carries; `None` if it has none that are told.
    pub pcie: Option<f64>,
    /// What is moved.
    pub carried: f64,
    /// The link that limits it; `None`: the disks do.
    pub limit: Option<Hop>,
    /// How many disks of 230 MB/s it feeds, rounded down (KISTI's count).
    pub hdds: u64,
    /// How many flash disks it feeds.
    pub ssds: u64,
    /// The driver does not show the links of SAS: what they carry is not known, and not counted.
    pub is_blind: bool,
}

/// A network interface as a term.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkRow {
    /// Its name.
    pub name: String,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// What it carries of files, in megabytes a second.
    pub usable: f64,
}

/// What limits a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Bottlenecks {
    /// The rates that were taken.
    pub rates: Rates,
    /// Links that more than one disk shares, and those that are degraded; from the processor on.
    pub links: Vec<LinkRow>,
    /// Ways.
    pub ways: Vec<WayRow>,
    /// Network interfaces whose link is up.
    pub networks: Vec<NetworkRow>,
    /// What all disks together could move.
    pub needs: f64,
    /// What the ways to them carry.
    pub carried: f64,
    /// What all network interfaces carry.
    pub network: f64,
    /// What must pass between sockets, if the network interfaces of a node serve first the disks of the same
    /// one: and what one link between them carries.
    pub between_nodes: Option<(f64, f64)>,
}

/// A path's share of what its disk moves.
struct Flow {
    disk: usize,
    links: Vec<Hop>,
    way: String,
    rate: f64,
    alone: f64,
    limit: Option<Hop>,
}

/// Computes it.
#[must_use]
pub fn bottlenecks(machine: &Machine, rates: Rates) -> Bottlenecks {
    let mut rows: BTreeMap<Hop, LinkRow> = BTreeMap::new();
    let mut depths: BTreeMap<Hop, usize> = BTreeMap::new();
    let mut flows = Vec::new();
    for (at, disk) in machine.disks.iter().enumerate() {
        for path in &disk.paths {
            let mut links = Vec::new();
            for (depth, hop) in path.hops.iter().enumerate() {
                let Some(row) = row(machine, hop) else { continue };
                let row = rows.entry(hop.clone()).or_insert(row);
                row.disks.insert(at);
                let deepest = depths.entry(hop.clone()).or_default();
                *deepest = depth.max(*deepest);
                links.push(hop.clone());
            }
            let alone = rates.of(disk);
            let first = path.hops.first().map_or("-", Hop::name);
            let way = path.host.clone().unwrap_or_else(|| first.to_owned());
            let rate = alone / disk.paths.len().max(1) as f64;
            flows.push(Flow { disk: at, links, way, rate, alone, limit: None });
        }
    }
    let mut over: BTreeMap<Hop, Vec<usize>> = BTreeMap::new();
    for (at, flow) in flows.iter().enumerate() {
        for hop in &flow.links {
            over.entry(hop.clone()).or_default().push(at);
        }
    }
    // From the disks to the processor.
    let mut order: Vec<Hop> = rows.keys().cloned().collect();
    order.sort_by_key(|hop| std::cmp::Reverse(depths.get(hop).copied()));
    for hop in &order {
        let Some(row) = rows.get_mut(hop) else { continue };
        let own = over.get(hop).map(Vec::as_slice).unwrap_or_default();
        let of = |flows: &[Flow], what: fn(&Flow) -> f64| {
            own.iter().filter_map(|at| flows.get(*at)).map(what).sum::<f64>()
        };
        let asked = of(&flows, |flow| flow.rate);
        row.needs_alone = of(&flows, |flow| flow.alone);
        row.needs = own.iter().filter_map(|at| flows.get(*at)).map(|flow| share(machine, flow)).sum();
        if asked > row.usable {
            for at in own {
                if let Some(flow) = flows.get_mut(*at) {
                    flow.rate *= row.usable / asked;
                    flow.limit = Some(hop.clone());
                }
            }
        }
    }
    for (hop, row) in &mut rows {
        let own = over.get(hop).map(Vec::as_slice).unwrap_or_default();
        row.carried = own.iter().filter_map(|at| flows.get(*at)).map(|flow| flow.rate).sum();
    }
    let ways = ways(machine, &flows, &rows, rates);
    let networks = networks(machine);
    let mut links: Vec<LinkRow> = rows.into_values().collect();
    links.retain(|row| row.disks.len() > 1 || row.is_degraded() || row.kind == LinkKind::Pcie);
    links.sort_by_key(|row| (depths.get(&row.hop).copied(), row.hop.clone()));
    Bottlenecks {
        rates,
        needs: total(machine.disks.iter().map(|disk| rates.of(disk))),
        carried: total(flows.iter().map(|flow| flow.rate)),
        network: total(networks.iter().map(|row| row.usable)),
        between_nodes: between_nodes(machine, &flows, &networks),
        links,
        ways,
        networks,
    }
}

/// What rates add up to: zero of none, not the minus zero that `sum` gives.
fn total(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |sum, rate| sum + rate)
}

/// What a path moves before any link limits it.
fn share(machine: &Machine, flow: &Flow) -> f64 {
    let paths = machine.disks.get(flow.disk).map_or(1, |disk| disk.paths.len().max(1));
    flow.alone / paths as f64
}

/// The link that a step of a way ends; `None` if it ends none, or nothing is told of it.
fn row(machine: &Machine, hop: &Hop) -> Option<LinkRow> {
    let (kind, from, to, now, possible) = match hop {
        Hop::Pci(address) => {
            let function = machine.pci.get(address).filter(|function| function.has_link_above)?;
            let above = function.above.clone().unwrap_or_default();
            let now = function.link?;
            let other = machine.pci.get(&above).and_then(|above| above.link_possible);
            let possible = [function.link_possible, other].into_iter().flatten().reduce(|a, b| PciLink {
                megatransfers: a.megatransfers.min(b.megatransfers),
                lanes: a.lanes.min(b.lanes),
            });
            (LinkKind::Pcie, above, address.clone(), now.into(), possible.unwrap_or(now).into())
        }
        Hop::Port(name) => {
            let port = machine.ports.get(name)?;
            let (now, possible) = sas_widths(machine, port);
            if now.lanes() == 0 {
                return None;
            }
            let to = port.expander.clone().unwrap_or_else(|| "disk".to_owned());
            (LinkKind::Sas, port.owner.clone(), to, now, possible)
        }
    };
    let usable = now.usable(kind);
    let (disks, needs, needs_alone, carried) = (BTreeSet::new(), 0.0, 0.0, 0.0);
    Some(LinkRow {
        hop: hop.clone(),
        kind,
        from,
        to,
        now,
        possible,
        usable,
        disks,
        needs,
        needs_alone,
        carried,
    })
}

/// A port as it is, and as it could be. Connectors of SAS have four lanes (SFF-8644, SFF-8643): phys of the
/// same four that are down beside phys of a port to an expander are the rest of its cable. What no cable was
/// ever plugged into is not missed, and neither is a whole second cable.
fn sas_widths(machine: &Machine, port: &Port) -> (Width, Width) {
    const LANES: u32 = 4;
    let own: Vec<_> = port.phys.iter().filter_map(|phy| machine.phys.get(phy)).collect();
    let now = Width::of(own.iter().filter_map(|phy| phy.rate.megabits()));
    let Some(expander) = &port.expander else { return (now.clone(), now) };
    let fours: BTreeSet<u32> = own.iter().map(|phy| phy.number / LANES).collect();
    let of = |owner: &str| {
        let owner = owner.to_owned();
        machine.phys.values().filter(move |phy| phy.owner == owner)
    };
    let far = of(expander).filter_map(|phy| phy.rate_hardware).max();
    let rate = |phy: &crate::machine::Phy| {
        let best = phy.rate_hardware.or_else(|| phy.rate.megabits());
        match (best, far) {
            (Some(best), Some(far)) => Some(best.min(far).max(phy.rate.megabits().unwrap_or(0))),
            (best, _) => best,
        }
    };
    let is_down = |phy: &&crate::machine::Phy| {
        phy.port.is_none() && !matches!(phy.rate, PhyRate::Runs(_) | PhyRate::Disabled)
    };
    let missing: Vec<_> =
        of(&port.owner).filter(is_down).filter(|phy| fours.contains(&(phy.number / LANES))).collect();
    let possible = Width::of(own.iter().copied().chain(missing).filter_map(rate));
    (now, possible)
}

fn ways(machine: &Machine, flows: &[Flow], rows: &BTreeMap<Hop, LinkRow>, rates: Rates) -> Vec<WayRow> {
    let mut by_way: BTreeMap<&str, Vec<&Flow>> = BTreeMap::new();
    for flow in flows {
        by_way.entry(&flow.way).or_default().push(flow);
    }
    let one = |(name, flows): (&str, Vec<&Flow>)| {
        let hops: BTreeSet<&Hop> = flows.iter().flat_map(|flow| &flow.links).collect();
        let all = || hops.iter().filter_map(|hop| rows.get(*hop));
        let at_host = |row: &&LinkRow| row.kind == LinkKind::Sas && row.from == name;
        let has_sas = all().any(|row| at_host(&row));
        let sas = has_sas.then(|| all().filter(at_host).map(|row| row.usable).sum());
        let pcie = all().filter(|row| row.kind == LinkKind::Pcie && row.disks.len() * 2 > flows.len());
        let pcie = pcie.map(|row| row.usable).reduce(f64::min);
        let carried: f64 = flows.iter().map(|flow| flow.rate).sum();
        // The link that took the most.
        let mut taken: BTreeMap<&Hop, usize> = BTreeMap::new();
        flows
            .iter()
            .filter_map(|flow| flow.limit.as_ref())
            .for_each(|hop| *taken.entry(hop).or_default() += 1);
        let limit = taken.into_iter().max_by_key(|(_, count)| *count).map(|(hop, _)| hop.clone());
        let least = [sas, pcie].into_iter().flatten().reduce(f64::min).unwrap_or(0.0);
        WayRow {
            name: name.to_owned(),
            node: flows.first().and_then(|flow| {
                let disk = machine.disks.get(flow.disk)?;
                let path = disk.paths.iter().find(|path| path.host.as_deref().unwrap_or(name) == name)?;
                machine.node_of(&path.hops)
            }),
            disks: flows.iter().map(|flow| flow.disk).collect(),
            needs: flows.iter().map(|flow| share(machine, flow)).sum(),
            sas,
            pcie,
            carried,
            limit,
            hdds: fed(least, rates.hdd),
            ssds: fed(least, rates.ssd),
            is_blind: machine
                .hosts
                .get(name)
                .is_some_and(|host| host.kind == crate::machine::HostKind::Sas && !host.has_sas_objects),
        }
    };
    let mut ways: Vec<(&str, Vec<&Flow>)> = by_way.into_iter().collect();
    ways.sort_by(|(a, _), (b, _)| by_number(a, b));
    ways.into_iter().map(one).collect()
}

/// How many disks of a rate something feeds: whole ones.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn fed(usable: f64, rate: f64) -> u64 {
    if rate > 0.0 { (usable / rate).floor() as u64 } else { 0 }
}

fn networks(machine: &Machine) -> Vec<NetworkRow> {
    let one = |network: &crate::machine::Network| {
        // A network of 1,500 bytes a packet, if nothing is told.
        let share = constants::ethernet_share(network.mtu.unwrap_or(1_500));
        let usable = f64::from(network.megabits?) / 8.0 * share;
        Some(NetworkRow { name: network.name.clone(), node: machine.node_of(&network.hops), usable })
    };
    machine.networks.iter().filter_map(one).collect()
}

/// What of the disks' bytes finds no network interface on its own node.
fn between_nodes(machine: &Machine, flows: &[Flow], networks: &[NetworkRow]) -> Option<(f64, f64)> {
    let mut moved: BTreeMap<u32, f64> = BTreeMap::new();
    for flow in flows {
        let node = flow.links.first().and_then(|hop| machine.node_of(std::slice::from_ref(hop)));
        *moved.entry(node?).or_default() += flow.rate;
    }
    if networks.is_empty() || networks.iter().any(|row| row.node.is_none()) || machine.about.nodes.len() < 2 {
        return None;
    }
    let local =
        |node: u32| networks.iter().filter(|row| row.node == Some(node)).map(|row| row.usable).sum::<f64>();
    let beyond: f64 = moved.iter().map(|(node, rate)| (rate - local(*node)).max(0.0)).sum();
    let elsewhere: f64 = networks
        .iter()
        .filter(|row| row.node.is_some_and(|node| !moved.contains_key(&node)))
        .map(|row| row.usable)
        .sum();
    let spare: f64 = moved.iter().map(|(node, rate)| (local(*node) - rate).max(0.0)).sum();
    Some((beyond.min(elsewhere + spare), SOCKET_LINK.value))
}

/// A row of KISTI's table: an adapter with a link of SAS on eight lanes of PCI Express.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KistiRow {
    /// Lanes of SAS.
    pub sas_lanes: u32,
    /// Megabits a second of a lane.
    pub sas_megabits: u32,
    /// Generation of PCI Express.
    pub pcie_generation: u32,
    /// What the link of SAS carries.
    pub sas: f64,
    /// What the slot carries as KISTI took it.
    pub pcie_published: f64,
    /// What it carries with the coding of its generation.
    pub pcie: f64,
    /// The smaller of the two, as published.
    pub published: f64,
    /// The smaller of the two.
    pub usable: f64,
    /// Disks that turn: as printed, of 230 MB/s, of 225 MB/s; whole ones of what was published.
    pub hdds: [u64; 3],
    /// Flash disks as printed.
    pub ssds_printed: u64,
}

/// KISTI's table (H. Han et al., "JBOD based archive storage project at KISTI", DOMA-QoS workshop, 7 Feb
/// 2020), computed again.
#[must_use]
pub fn kisti_table() -> Vec<KistiRow> {
    /// Lanes of the adapters.
    const PCIE_LANES: u32 = 8;
    // Lanes and megabits of SAS, generation, and the counts that are printed.
    let rows: [(u32, u32, u32, u64, u64); 5] = [
        (4, 6_000, 2, 9, 4),
        (8, 6_000, 2, 14, 6),
        (4, 12_000, 2, 14, 6),
        (4, 12_000, 3, 19, 8),
        (8, 12_000, 3, 28, 12),
    ];
    let row = |(sas_lanes, sas_megabits, pcie_generation, hdds_printed, ssds_printed)| {
        let sas = f64::from(sas_lanes) * constants::sas_lane(sas_megabits) * SAS_SHARE.value;
        let lane = constants::pcie_lane(if pcie_generation == 2 { 5_000 } else { 8_000 });
        let lane_published = if pcie_generation == 2 { lane } else { PCIE3_LANE_KISTI.value };
        let slot = |lane: f64| f64::from(PCIE_LANES) * lane * PCIE_SHARE.value;
        let published = sas.min(slot(lane_published));
        // The thirds of eleven twelfths are not exact: 2200 must not become 2199.99.
        let whole = |usable: f64, rate: f64| fed(usable + 1e-6, rate);
        KistiRow {
            sas_lanes,
            sas_megabits,
            pcie_generation,
            sas,
            pcie_published: slot(lane_published),
            pcie: slot(lane),
            published,
            usable: sas.min(slot(lane)),
            hdds: [hdds_printed, whole(published, HDD_RATE.value), whole(published, HDD_RATE_FITTED.value)],
            ssds_printed,
        }
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The five rows as they are printed, and the counts of disks as the reference has them.
    #[test]
    fn the_rows_of_kisti_come_out() {
        let table = kisti_table();
        let published: Vec<f64> = table.iter().map(|row| row.published.round()).collect();
        assert_eq!(published, [2200.0, 3200.0, 3200.0, 4400.0, 6400.0]);
        let hdds: Vec<[u64; 3]> = table.iter().map(|row| row.hdds).collect();
        assert_eq!(hdds, [[9, 9, 9], [14, 13, 14], [14, 13, 14], [19, 19, 19], [28, 27, 28]]);
        // With the coding of generation 3 the last row is 6302, not 6400.
        let usable: Vec<f64> = table.iter().map(|row| row.usable.round()).collect();
        assert_eq!(usable, [2200.0, 3200.0, 3200.0, 4400.0, 6302.0]);
    }

    #[test]
    fn lanes_of_different_rates_add_up() {
        let width = Width::of([12_000, 12_000, 6_000, 6_000]);
        assert_eq!((width.lanes(), width.usable(LinkKind::Sas).round()), (4, 3300.0));
    }
}
