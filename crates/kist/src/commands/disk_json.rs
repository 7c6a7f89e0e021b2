//! Machines for programs.

use serde_json::{Map, Value, json};
use topology::bottleneck::{LinkRow, Rates, bottlenecks};
use topology::counters::Growth;
use topology::{Answered, Counter, Counters, Disk, Hop, Machine, PciLink, Slot, SlotState, in_order};

use crate::commands::disk_tree::kind_words;

/// Numbers of counters by their names.
pub fn counters(counters: &Counters) -> Value {
    Value::Object(
        counters.0.iter().map(|(counter, value)| (counter.word(), json!(value))).collect::<Map<_, _>>(),
    )
}

/// How counters have moved; `null`: reset in between.
pub fn grown<'a>(all: impl IntoIterator<Item = (&'a Counter, &'a Growth)>) -> Value {
    Value::Object(all.into_iter().map(|(counter, growth)| (counter.word(), json!(growth.by()))).collect())
}

pub fn hop(hop: &Hop) -> Value {
    match hop {
        Hop::Pci(address) => json!({ "pci": address }),
        Hop::Port(port) => json!({ "port": port }),
    }
}

fn hops(all: &[Hop]) -> Value {
    all.iter().map(hop).collect()
}

fn address(address: u64) -> String {
    format!("{address:016x}")
}

/// A disk.
pub fn disk(machine: &Machine, disk: &Disk) -> Value {
    let slot = machine.slot_of(disk).zip(disk.place);
    let slot = slot.map(|((_, slot), place)| json!({ "enclosure": place.enclosure, "slot": slot.number }));
    let paths: Vec<Value> = disk
        .paths
        .iter()
        .map(|path| {
            json!({
                "device": path.device,
                "block": path.block,
                "generic": path.generic,
                "host": path.host,
                "node": machine.node_of(&path.hops),
                "hops": hops(&path.hops),
                "sas_address": path.address.map(address),
                "state": path.state,
                "megabits": path.megabits,
                "megabits_max": path.megabits_max,
            })
        })
        .collect();
    json!({
        "name": disk.name(),
        "id": disk.key.to_string(),
        "kind": disk.kind.to_string(),
        "vendor": disk.vendor,
        "model": disk.model,
        "firmware": disk.firmware,
        "serial": disk.serial,
        "bytes": disk.size,
        "block_bytes": disk.block_size,
        "multipath": disk.multipath,
        "place": slot,
        "celsius": disk.celsius,
        "celsius_max": disk.celsius_max,
        "power_on_hours": disk.power_on_hours,
        "counters": counters(&disk.counters),
        "not_asked": match &disk.answered {
            Answered::Nothing(why) => Some(why),
            _ => None,
        },
        "paths": paths,
    })
}

fn slot(machine: &Machine, slot: &Slot) -> Value {
    let disk = slot.disk.and_then(|disk| machine.disks.get(disk));
    json!({
        "slot": slot.number,
        "name": slot.name,
        "state": match slot.state() {
            SlotState::Disk => "disk",
            SlotState::Hidden => "hidden",
            SlotState::Empty => "empty",
            SlotState::Unknown => "unknown",
        },
        "status": slot.code.map(|code| code.to_string()),
        "disk": disk.map(Disk::name),
        "serial": disk.and_then(|disk| disk.serial.as_deref()),
        "sas_addresses": slot.addresses.iter().copied().map(address).collect::<Vec<_>>(),
        "light": slot.locate,
        "fault_sensed": slot.fault_sensed,
        "fault_requested": slot.fault_requested,
        "failure_predicted": slot.failure_predicted,
        "off": slot.off,
        "bypassed": slot.bypassed,
    })
}

/// An enclosure.
pub fn enclosure(machine: &Machine, at: usize) -> Value {
    let one = &machine.enclosures[at];
    let services = one.services.iter().map(|services| {
        json!({
            "device": services.device,
            "host": services.host,
            "not_asked": services.pages.as_ref().err(),
        })
    });
    let elements = one.elements.iter().map(|element| {
        json!({
            "kind": element.kind.to_string(),
            "name": element.name,
            "status": element.code.to_string(),
            "failure_predicted": element.failure_predicted,
            "value": element.value,
        })
    });
    json!({
        "enclosure": at,
        "identifier": one.identifier.map(address),
        "vendor": one.vendor,
        "product": one.product,
        "revision": one.revision,
        "services": services.collect::<Vec<_>>(),
        "slots": one.slots.iter().map(|one| slot(machine, one)).collect::<Vec<_>>(),
        "parts": elements.collect::<Vec<_>>(),
    })
}

/// A link.
pub fn link(machine: &Machine, row: &LinkRow) -> Value {
    let names = row.disks.iter().filter_map(|disk| machine.disks.get(*disk)).map(Disk::name);
    let round = |rate: f64| (rate * 10.0).round() / 10.0;
    json!({
        "link": hop(&row.hop),
        "kind": kind_words(row.kind),
        "from": row.from,
        "to": row.to,
        "now": row.now.words(row.kind),
        "possible": row.possible.words(row.kind),
        "lanes": row.now.lanes(),
        "lanes_possible": row.possible.lanes(),
        "usable_mb_s": round(row.usable),
        "needs_mb_s": round(row.needs),
        "needs_alone_mb_s": round(row.needs_alone),
        "carried_mb_s": round(row.carried),
        "is_limit": row.is_limit(),
        "is_degraded": row.is_degraded(),
        "disks": names.collect::<Vec<_>>(),
    })
}

/// All of a machine.
pub fn machine(machine: &Machine) -> Value {
    let found = bottlenecks(machine, Rates::default());
    let link_of = |link: Option<PciLink>| {
        link.map(|link| json!({ "lanes": link.lanes, "megatransfers": link.megatransfers }))
    };
    let pci = machine.pci.values().map(|function| {
        json!({
            "address": function.address,
            "above": function.above,
            "link": link_of(function.link),
            "link_possible": link_of(function.link_possible),
            "node": function.node,
            "driver": function.driver,
            "errors": {
                "corrected": function.errors[0], "nonfatal": function.errors[1], "fatal": function.errors[2],
            },
        })
    });
    let hosts = in_order(&machine.hosts).into_iter().map(|host| {
        json!({
            "name": host.name,
            "kind": host.kind.to_string(),
            "driver": host.driver,
            "board": host.board,
            "firmware": host.firmware,
            "pci": host.pci,
            "has_sas_objects": host.has_sas_objects,
        })
    });
    let phys = in_order(&machine.phys).into_iter().map(|phy| {
        json!({
            "name": phy.name,
            "owner": phy.owner,
            "number": phy.number,
            "port": phy.port,
            "megabits": phy.rate.megabits(),
            "megabits_max": phy.rate_max,
            "megabits_hardware": phy.rate_hardware,
            "counters": counters(&phy.counters),
        })
    });
    let ports = in_order(&machine.ports).into_iter().map(|port| {
        json!({ "name": port.name, "owner": port.owner, "expander": port.expander, "phys": port.phys })
    });
    let expanders = in_order(&machine.expanders).into_iter().map(|one| {
        let [vendor, product, revision] = &one.product;
        json!({
            "name": one.name, "host": one.host, "port": one.port, "vendor": vendor, "product": product,
            "revision": revision, "sas_address": one.address.map(address),
        })
    });
    let networks = machine.networks.iter().map(|one| {
        json!({
            "name": one.name, "megabits": one.megabits, "mtu": one.mtu, "node": machine.node_of(&one.hops),
        })
    });
    let problems = machine.problems.iter().map(|one| json!({ "path": one.path, "why": one.why.to_string() }));
    json!({
        "host": machine.about.host,
        "kernel": machine.about.kernel,
        "seconds": machine.about.seconds,
        "nodes": machine.about.nodes,
        "pci": pci.collect::<Vec<_>>(),
        "hosts": hosts.collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        "phys": phys.collect::<Vec<_>>(),
        "expanders": expanders.collect::<Vec<_>>(),
        "links": found.links.iter().map(|row| link(machine, row)).collect::<Vec<_>>(),
        "enclosures": (0..machine.enclosures.len()).map(|at| enclosure(machine, at)).collect::<Vec<_>>(),
        "disks": machine.disks.iter().map(|one| disk(machine, one)).collect::<Vec<_>>(),
        "networks": networks.collect::<Vec<_>>(),
        "not_read": problems.collect::<Vec<_>>(),
        "not_read_left_out": machine.problems_left_out,
    })
}
