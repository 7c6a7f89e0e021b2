//! Hosts, ports, phys and expanders (linux: Documentation/ABI/testing/sysfs-class-* and
//! drivers/scsi/scsi_transport_sas.c).

use super::chain::Chain;
use super::{devices, functions};
use crate::machine::{Counter, Counters, Expander, Host, Machine, Phy, PhyRate, Port};
use crate::reader::{Reader, number};

pub(super) fn read(machine: &mut Machine, reader: &Reader<'_>) {
    let with_objects = devices(reader, "/sys/class/sas_host");
    for name in devices(reader, "/sys/class/scsi_host") {
        host(machine, reader, name, &with_objects);
    }
    for name in devices(reader, "/sys/class/sas_phy") {
        phy(machine, reader, name);
    }
    for name in devices(reader, "/sys/class/sas_port") {
        port(machine, reader, name);
    }
    for name in devices(reader, "/sys/class/sas_expander") {
        expander(machine, reader, name);
    }
}

fn host(machine: &mut Machine, reader: &Reader<'_>, name: String, with_objects: &[String]) {
    let directory = format!("/sys/class/scsi_host/{name}");
    let Some(place) = reader.place(&directory) else { return };
    let chain = Chain::of(&place);
    functions(machine, reader, &place, &chain);
    let text = |file: &str| reader.text(&format!("{directory}/{file}"));
    let driver = text("proc_name").filter(|driver| driver != "(null)" && driver != "<NULL>");
    let has_sas_objects = with_objects.contains(&name);
    let host = Host {
        kind: chain.host_kind(has_sas_objects, driver.as_deref()),
        driver,
        board: text("board_name").or_else(|| text("model_name")),
        firmware: text("version_fw").or_else(|| text("fw_version")).or_else(|| text("firmware_version")),
        pci: chain.pci.last().map(|(address, _)| address.clone()),
        has_sas_objects,
        name: name.clone(),
    };
    machine.hosts.insert(name, host);
}

/// The host or expander that something in its directory belongs to.
fn owner(place: &str) -> Option<String> {
    let chain = Chain::of(place);
    let expander = chain.ports.iter().rev().find_map(|(_, expander)| expander.clone());
    expander.or(chain.host)
}

fn phy(machine: &mut Machine, reader: &Reader<'_>, name: String) {
    let directory = format!("/sys/class/sas_phy/{name}");
    let Some(owner) = reader.place(&directory).and_then(|place| owner(&place)) else { return };
    let at = |file: &str| format!("{directory}/{file}");
    let rate = |file: &str| reader.parsed(&at(file), PhyRate::parse);
    let mut counters = Counters::default();
    for (file, counter) in [
        ("invalid_dword_count", Counter::InvalidDwords),
        ("running_disparity_error_count", Counter::DisparityErrors),
        ("loss_of_dword_sync_count", Counter::SyncLosses),
        ("phy_reset_problem_count", Counter::ResetProblems),
    ] {
        if let Some(value) = reader.number(&at(file)) {
            counters.add(counter, value);
        }
    }
    let of_name = name.rsplit(':').next().and_then(|number| number.parse().ok());
    let number =
        reader.number(&at("phy_identifier")).and_then(|number| u32::try_from(number).ok()).or(of_name);
    let phy = Phy {
        number: number.unwrap_or(0),
        rate: rate("negotiated_linkrate").unwrap_or(PhyRate::Unknown),
        rate_max: rate("maximum_linkrate").and_then(PhyRate::megabits),
        rate_hardware: rate("maximum_linkrate_hw").and_then(PhyRate::megabits),
        port: None,
        counters,
        owner,
        name: name.clone(),
    };
    machine.phys.insert(name, phy);
}

fn port(machine: &mut Machine, reader: &Reader<'_>, name: String) {
    let Some(place) = reader.place(&format!("/sys/class/sas_port/{name}/device")).or_else(|| {
        // Its place in the class is `…/port-7:0/sas_port/port-7:0`.
        let place = reader.place(&format!("/sys/class/sas_port/{name}"))?;
        place.strip_suffix(&format!("/sas_port/{name}")).map(str::to_owned)
    }) else {
        return;
    };
    let chain = Chain::of(&place);
    let owner = match chain.ports.len().checked_sub(2).and_then(|above| chain.ports.get(above)) {
        Some((_, expander)) => expander.clone(),
        None => chain.host.clone(),
    };
    let Some(owner) = owner else { return };
    let mut phys = Vec::new();
    for child in reader.names(&place) {
        if let Some(phy) = machine.phys.get_mut(&child) {
            phy.port = Some(name.clone());
            phys.push(child);
        }
    }
    phys.sort_by_key(|phy| machine.phys.get(phy).map(|phy| phy.number));
    machine.ports.insert(name.clone(), Port { name, owner, expander: None, phys });
}

fn expander(machine: &mut Machine, reader: &Reader<'_>, name: String) {
    let directory = format!("/sys/class/sas_expander/{name}");
    let Some(place) = reader.place(&directory) else { return };
    let chain = Chain::of(&place);
    let Some((host, (port, _))) = chain.host.clone().zip(chain.ports.last().cloned()) else { return };
    if let Some(port) = machine.ports.get_mut(&port) {
        port.expander = Some(name.clone());
    }
    let product =
        ["vendor_id", "product_id", "product_rev"].map(|file| reader.text(&format!("{directory}/{file}")));
    let address = reader.parsed(&format!("/sys/class/sas_device/{name}/sas_address"), number);
    machine.expanders.insert(name.clone(), Expander { name, host, port, product, address });
}
