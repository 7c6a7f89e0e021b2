//! `kist disk bottleneck`.

use std::fmt::Write as _;

use serde_json::json;
use terminal::{Failure, Outcome, Table, output, text};
use topology::Hop;
use topology::bottleneck::{Bottlenecks, Rates, bottlenecks, kisti_table};
use topology::constants::{ALL, HDD_RATE, NVME_RATE, SSD_RATE};

use super::disk::{self, Source};
use super::{disk_json, disk_tree};
use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Every disk moves large files as fast as its kind does, in equal shares over its paths.
What a link cannot carry is taken from all that share it. MB are 10^6 bytes. Each
constant stands below the table, with its source; --hdd, --ssd and --nvme set those of
disks, for such as you have measured.

Examples:
  kist disk bottleneck
  kist disk bottleneck --hdd 260 --from jbod.machine
  kist disk bottleneck --table")]
pub struct Args {
    /// MB/s of a disk that turns
    #[arg(long, value_name = "MB/S", default_value_t = HDD_RATE.value)]
    hdd: f64,
    /// MB/s of a flash disk behind SAS or SATA
    #[arg(long, value_name = "MB/S", default_value_t = SSD_RATE.value)]
    ssd: f64,
    /// MB/s of an NVMe drive
    #[arg(long, value_name = "MB/S", default_value_t = NVME_RATE.value)]
    nvme: f64,
    /// Only the table that KISTI has published, computed again; looks at no machine
    #[arg(long)]
    table: bool,
    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    for (option, rate) in [("--hdd", args.hdd), ("--ssd", args.ssd), ("--nvme", args.nvme)] {
        if !(rate > 0.0 && rate <= 1e6) {
            return Err(Failure::usage(format!(
                "{option} {rate} is no rate in MB/s: it is above 0, and at most 1000000"
            )));
        }
    }
    if args.table {
        return if common.json { output::json(&table_json()) } else { output::write(&table_text()) };
    }
    // Links are told by /sys: nothing is asked for them.
    let source = Source { no_ask: true, ..args.source.clone() };
    let machine = source.look()?;
    disk::tell(&machine);
    let found = bottlenecks(&machine, Rates { hdd: args.hdd, ssd: args.ssd, nvme: args.nvme });
    match common.json {
        true => output::json(&as_json(&machine, &found)),
        false => output::write(&as_text(&machine, &found)),
    }
}

fn rate(rate: f64) -> String {
    format!("{} MB/s", text::count(rate.round().max(0.0) as u64))
}

fn round(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

fn hop_words(hop: &Hop) -> String {
    match hop {
        Hop::Pci(address) => format!("PCI {address}"),
        Hop::Port(port) => port.clone(),
    }
}

fn as_json(machine: &topology::Machine, found: &Bottlenecks) -> serde_json::Value {
    let ways = found.ways.iter().map(|way| {
        json!({
            "way": way.name,
            "node": way.node,
            "disks": way.disks.len(),
            "needs_mb_s": round(way.needs),
            "sas_mb_s": way.sas.map(round),
            "pcie_mb_s": way.pcie.map(round),
            "carried_mb_s": round(way.carried),
            "limit": way.limit.as_ref().map(disk_json::hop),
            "hdds_fed": way.hdds,
            "ssds_fed": way.ssds,
            "sas_not_told": way.is_blind,
        })
    });
    let networks = found
        .networks
        .iter()
        .map(|one| json!({ "name": one.name, "node": one.node, "usable_mb_s": round(one.usable) }));
    json!({
        "host": machine.about.host,
        "rates_mb_s": { "hdd": found.rates.hdd, "ssd": found.rates.ssd, "nvme": found.rates.nvme },
        "needs_mb_s": round(found.needs),
        "carried_mb_s": round(found.carried),
        "network_mb_s": round(found.network),
        "between_nodes": found.between_nodes.map(|(beyond, link)| {
            json!({ "needs_mb_s": round(beyond), "link_mb_s": link })
        }),
        "ways": ways.collect::<Vec<_>>(),
        "links": found.links.iter().map(|row| disk_json::link(machine, row)).collect::<Vec<_>>(),
        "networks": networks.collect::<Vec<_>>(),
        "constants": constants_json(),
    })
}

fn constants_json() -> serde_json::Value {
    ALL.iter()
        .map(|one| {
            json!({
                "name": one.name, "value": one.value, "unit": one.unit, "source": one.source,
                "verified": one.verified,
            })
        })
        .collect()
}

fn as_text(machine: &topology::Machine, found: &Bottlenecks) -> String {
    let mut out = format!("{}\n", disk_tree::heading(machine));
    if found.links.is_empty() && found.ways.iter().all(|way| way.needs == 0.0) {
        let _ = writeln!(out, "\n{}", disk_tree::nothing_of(machine));
        return out;
    }
    let mut table = Table::new(&[
        "link",
        "kind",
        "from",
        "to",
        "runs with",
        "possible",
        ">usable",
        ">disks",
        ">need",
        ">get",
        "verdict",
    ]);
    for row in &found.links {
        let verdict = match (row.is_limit(), row.is_degraded()) {
            (true, true) => "limits, degraded",
            (true, false) => "limits",
            (false, true) => "degraded",
            (false, false) => "-",
        };
        table.row(vec![
            hop_words(&row.hop),
            disk_tree::kind_words(row.kind).to_owned(),
            row.from.clone(),
            row.to.clone(),
            row.now.words(row.kind),
            if row.is_degraded() { row.possible.words(row.kind) } else { "=".to_owned() },
            rate(row.usable),
            row.disks.len().to_string(),
            rate(row.needs),
            rate(row.carried),
            verdict.to_owned(),
        ]);
    }
    let _ = write!(out, "\nLinks, from the processor on\n{}", table.render());
    let mut table = Table::new(&[
        "way",
        ">node",
        ">disks",
        ">need",
        ">SAS",
        ">PCIe",
        ">get",
        "limited by",
        ">feeds HDDs",
        ">or SSDs",
    ]);
    for way in &found.ways {
        let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let sas = if way.is_blind { "not told".to_owned() } else { dash(way.sas.map(rate)) };
        table.row(vec![
            way.name.clone(),
            dash(way.node.map(|node| node.to_string())),
            way.disks.len().to_string(),
            rate(way.needs),
            sas,
            dash(way.pcie.map(rate)),
            rate(way.carried),
            way.limit.as_ref().map_or_else(|| "its disks".to_owned(), hop_words),
            text::count(way.hdds),
            text::count(way.ssds),
        ]);
    }
    let _ = write!(out, "\nWays\n{}", table.render());
    if !found.networks.is_empty() {
        let mut table = Table::new(&["network", ">node", ">usable"]);
        for one in &found.networks {
            let node = one.node.map_or_else(|| "-".to_owned(), |node| node.to_string());
            table.row(vec![one.name.clone(), node, rate(one.usable)]);
        }
        let _ = write!(out, "\nNetworks\n{}", table.render());
    }
    let _ = writeln!(out, "\n{}", conclusion(machine, found));
    let _ = write!(out, "\nConstants\n{}", constants_text());
    out
}

/// What it all comes to.
fn conclusion(machine: &topology::Machine, found: &Bottlenecks) -> String {
    let disks = machine.disks.len() as u64;
    let mut words = format!(
        "{} could move {}; the links to them carry {}",
        text::plural(disks, "disk"),
        rate(found.needs),
        rate(found.carried)
    );
    if found.network > 0.0 {
        let _ = write!(words, ", the networks {}", rate(found.network));
    }
    let terms = [
        (found.needs, "the disks"),
        (found.carried, "the links to the disks"),
        (if found.network > 0.0 { found.network } else { f64::INFINITY }, "the networks"),
    ];
    let least = terms.iter().map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min);
    let limit = terms.iter().find(|(rate, _)| *rate <= least * 1.001).map_or("", |(_, name)| name);
    let _ = write!(words, ". The limit is {limit}: {}.", rate(least));
    if let Some((beyond, link)) = found.between_nodes.filter(|(beyond, _)| *beyond > 0.5) {
        let _ = write!(
            words,
            "\n{} pass between NUMA nodes on their way to a network; one link between sockets carries {}.",
            rate(beyond),
            rate(link)
        );
    }
    words
}

fn constants_text() -> String {
    let mut table = Table::new(&["constant", ">value", "source"]);
    for one in &ALL {
        let value = match one.unit {
            "" => format!("{:.2} %", one.value * 100.0),
            unit => format!("{} {unit}", one.value),
        };
        let star = if one.verified { "" } else { " (not verified)" };
        table.row(vec![one.name.to_owned(), value, format!("{}{star}", one.source)]);
    }
    table.render()
}

fn table_json() -> serde_json::Value {
    let rows = kisti_table().into_iter().map(|row| {
        let [printed, of_230, of_225] = row.hdds;
        json!({
            "sas_lanes": row.sas_lanes,
            "sas_megabits": row.sas_megabits,
            "pcie_generation": row.pcie_generation,
            "pcie_lanes": 8,
            "sas_mb_s": round(row.sas),
            "pcie_published_mb_s": round(row.pcie_published),
            "pcie_mb_s": round(row.pcie),
            "published_mb_s": round(row.published),
            "usable_mb_s": round(row.usable),
            "hdds_printed": printed,
            "hdds_of_230": of_230,
            "hdds_of_225": of_225,
            "ssds_printed": row.ssds_printed,
        })
    });
    json!({ "rows": rows.collect::<Vec<_>>(), "constants": constants_json() })
}

fn table_text() -> String {
    let mut table = Table::new(&[
        "SAS",
        "PCIe",
        ">SAS carries",
        ">PCIe as published",
        ">PCIe with its coding",
        ">smaller, published",
        ">smaller",
        ">HDDs printed",
        ">of 230",
        ">of 225",
        ">SSDs printed",
    ]);
    for row in kisti_table() {
        let [printed, of_230, of_225] = row.hdds;
        table.row(vec![
            format!("{} x {} Gbit/s", row.sas_lanes, row.sas_megabits / 1_000),
            format!("generation {} x 8", row.pcie_generation),
            rate(row.sas),
            rate(row.pcie_published),
            rate(row.pcie),
            rate(row.published),
            rate(row.usable),
            printed.to_string(),
            of_230.to_string(),
            of_225.to_string(),
            row.ssds_printed.to_string(),
        ]);
    }
    format!(
        "JBOD based archive storage project at KISTI, DOMA-QoS workshop, 7 February 2020\n\n\
         {}\nConstants\n{}",
        table.render(),
        constants_text()
    )
}
