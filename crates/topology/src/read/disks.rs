//! Disks and the ways to them.

use std::collections::BTreeSet;

use scsi::vpd::{Association, DesignatorType, Vpd, VpdPage};

use super::chain::{Chain, is_scsi_address};
use super::{answers, devices, functions, grouped};
use crate::machine::{Answered, Counter, Counters, Disk, DiskKey, DiskKind, Machine, Path};
use crate::maps;
use crate::order::by_number;
use crate::reader::{Reader, number};
use crate::tree::Unread;

/// A disk as one path shows it.
struct Seen {
    key: DiskKey,
    disk: Disk,
}

pub(super) fn read(machine: &mut Machine, reader: &Reader<'_>) {
    let mut seen = Vec::new();
    for name in devices(reader, "/sys/class/scsi_device") {
        seen.extend(scsi(machine, reader, &name));
    }
    for name in devices(reader, "/sys/class/nvme") {
        seen.extend(nvme(machine, reader, &name));
    }
    for name in devices(reader, "/sys/block") {
        seen.extend(other(machine, reader, &name));
    }
    machine.disks = merged(reader, seen);
    multipaths(machine, reader);
    for disk in &mut machine.disks {
        if disk.kind == DiskKind::Virtual {
            disk.answered = Answered::Nothing("a hypervisor stands before it".to_owned());
        }
        answers::read(reader, disk);
    }
    links(machine);
}

/// One disk on two paths is one disk.
fn merged(reader: &Reader<'_>, seen: Vec<Seen>) -> Vec<Disk> {
    let mut disks = Vec::new();
    for (_, all) in grouped(seen.into_iter().map(|one| (one.key, one.disk))) {
        let mut all = all.into_iter();
        let Some(mut first) = all.next() else { continue };
        for mut one in all {
            // A name in the world that two serial numbers have is no name: some bridges give all disks the
            // same.
            if first.serial.is_some() && one.serial.is_some() && first.serial != one.serial {
                let device = one.paths.first().map(|path| path.device.clone()).unwrap_or_default();
                reader.problem(&format!("/sys/class/scsi_device/{device}/device/wwid"), Unread::Garbage);
                one.key = DiskKey::Device(device);
                disks.push(one);
                continue;
            }
            first.paths.append(&mut one.paths);
            for (counter, value) in one.counters.0 {
                first.counters.add(counter, value);
            }
            first.serial = first.serial.or(one.serial);
            first.size = first.size.or(one.size);
        }
        disks.push(first);
    }
    // People look for disks by their names: sdb before sdaa, 7:0:9:0 before 7:0:10:0.
    disks.sort_by(|a, b| by_number(a.name(), b.name()));
    disks
}

/// The name in the world, as Linux writes it in `wwid` and as page 83h has it.
fn world_name(text: &str) -> Option<String> {
    let text = text.trim();
    let (kind, digits) = text.split_once('.')?;
    let is_unique = match kind {
        "naa" | "eui" | "uuid" => {
            digits.len() >= 16
                && digits.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
                && digits.bytes().any(|b| !matches!(b, b'0' | b'-'))
                && digits.bytes().any(|b| !matches!(b, b'f' | b'F' | b'-'))
        }
        _ => false,
    };
    is_unique.then(|| format!("{kind}.{}", digits.to_ascii_lowercase()))
}

/// What page 83h says: the name of the unit, and the SAS address of the port that answered.
fn identification(bytes: &[u8]) -> Option<(Option<String>, Option<u64>)> {
    let VpdPage::Identification(all) = Vpd::decode(bytes).ok()?.page else { return None };
    let naa = |association| {
        all.iter().find(move |one| one.kind == DesignatorType::Naa && one.association == association)
    };
    let eui =
        all.iter().find(|one| one.kind == DesignatorType::Eui64 && one.association == Association::Unit);
    let unit = naa(Association::Unit).map(|one| format!("naa.{}", one.text()));
    let unit = unit.or_else(|| eui.map(|one| format!("eui.{}", one.text())));
    let port = naa(Association::Port)
        .and_then(|one| Some(u64::from_be_bytes(one.value.as_slice().try_into().ok()?)));
    Some((unit.and_then(|name| world_name(&name)), port))
}

pub(crate) fn serial_of(reader: &Reader<'_>, path: &str) -> Option<String> {
    let bytes = reader.bytes(path)?;
    match Vpd::decode(&bytes) {
        Ok(vpd) => Some(vpd.page.serial()).filter(|serial| !serial.is_empty()),
        Err(_) => {
            reader.problem(path, Unread::Garbage);
            None
        }
    }
}

fn scsi(machine: &mut Machine, reader: &Reader<'_>, name: &str) -> Option<Seen> {
    if !is_scsi_address(name) {
        return None;
    }
    let class = format!("/sys/class/scsi_device/{name}/device");
    let at = |file: &str| format!("{class}/{file}");
    // 0: a disk; 14h: a disk that is written in zones (SPC-5, peripheral device type).
    if !matches!(reader.number(&at("type")), Some(0 | 0x14)) {
        return None;
    }
    let place = reader.place(&class)?;
    let chain = Chain::of(&place);
    functions(machine, reader, &place, &chain);
    let block = reader.names(&at("block")).into_iter().next();
    let identified = reader.bytes(&at("vpd_pg83")).and_then(|bytes| {
        let read = identification(&bytes);
        if read.is_none() {
            reader.problem(&at("vpd_pg83"), Unread::Garbage);
        }
        read
    });
    let (unit, port) = identified.unwrap_or_default();
    let [vendor, model, firmware] = ["vendor", "model", "rev"].map(|file| reader.text(&at(file)));
    let serial = serial_of(reader, &at("vpd_pg80"));
    let world = unit.or_else(|| reader.text(&at("wwid")).and_then(|text| world_name(&text)));
    let mut path = Path {
        device: name.to_owned(),
        generic: reader.names(&at("scsi_generic")).into_iter().next(),
        host: chain.host.clone(),
        hops: chain.hops(),
        address: reader.parsed(&at("sas_address"), number).or(port),
        state: reader.text(&at("state")),
        slot: slot_link(reader, &class),
        block: block.clone(),
        ..Path::default()
    };
    if let Some(end) = &chain.end_device {
        let end = |file: &str| format!("/sys/class/sas_device/{end}/{file}");
        path.address = reader.parsed(&end("sas_address"), number).or(path.address);
        let enclosure = reader.number(&end("enclosure_identifier")).filter(|id| *id != 0);
        let bay = reader.number(&end("bay_identifier")).and_then(|bay| u32::try_from(bay).ok());
        path.bay = enclosure.zip(bay);
    }
    let mut counters = Counters::default();
    if let Some(errors) = reader.number(&at("ioerr_cnt")) {
        counters.add(Counter::IoErrors, errors);
    }
    let size = block.as_ref().and_then(|block| block_size(reader, block));
    let is_virtual =
        chain.is_virtio || vendor.as_deref().is_some_and(|vendor| vendor == "QEMU" || vendor == "VMware");
    let turns =
        block.as_ref().and_then(|block| reader.number(&format!("/sys/block/{block}/queue/rotational")));
    let kind = match (is_virtual, turns) {
        (true, _) => DiskKind::Virtual,
        (_, Some(0)) => DiskKind::Ssd,
        _ => DiskKind::Hdd,
    };
    let key = key(world, &vendor, &model, &serial, name);
    let celsius = hwmon(reader, &class);
    let disk = Disk { kind, vendor, model, firmware, serial, celsius, counters, ..blank(key.clone(), path) };
    Some(Seen { key, disk: sized(disk, size) })
}

fn sized(mut disk: Disk, size: Option<(u64, Option<u64>)>) -> Disk {
    disk.size = size.map(|(size, _)| size);
    disk.block_size = size.and_then(|(_, block)| block);
    disk
}

pub(crate) fn blank(key: DiskKey, path: Path) -> Disk {
    Disk {
        key,
        kind: DiskKind::Virtual,
        vendor: None,
        model: None,
        firmware: None,
        serial: None,
        size: None,
        block_size: None,
        multipath: None,
        paths: vec![path],
        place: None,
        celsius: None,
        celsius_max: None,
        power_on_hours: None,
        counters: Counters::default(),
        answered: Answered::Nothing("it was not asked".to_owned()),
    }
}

fn key(
    world: Option<String>,
    vendor: &Option<String>,
    model: &Option<String>,
    serial: &Option<String>,
    device: &str,
) -> DiskKey {
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    match (world, serial) {
        (Some(world), _) => DiskKey::World(world),
        (None, Some(serial)) => DiskKey::Serial(word(vendor), word(model), serial.clone()),
        (None, None) => DiskKey::Device(device.to_owned()),
    }
}

/// Bytes of a block device, and of its blocks. Linux counts 512 bytes, whatever the block.
fn block_size(reader: &Reader<'_>, block: &str) -> Option<(u64, Option<u64>)> {
    let size = reader.number(&format!("/sys/block/{block}/size"))?.checked_mul(512)?;
    Some((size, reader.number(&format!("/sys/block/{block}/queue/logical_block_size"))))
}

/// The slot that the kernel links a disk with: `enclosure_device:SLOT 01` leads to the slot's directory.
fn slot_link(reader: &Reader<'_>, class: &str) -> Option<(String, String)> {
    let names = reader.names(class);
    let link = names.iter().find(|name| name.starts_with("enclosure_device:"))?;
    let place = reader.place(&format!("{class}/{link}"))?;
    let mut parts = place.rsplit('/');
    let (slot, device) = (parts.next()?, parts.next()?);
    Some((device.to_owned(), slot.to_owned()))
}

/// Degrees of the kernel's own sensor, in thousandths (linux: Documentation/hwmon/sysfs-interface.rst).
fn hwmon(reader: &Reader<'_>, device: &str) -> Option<i16> {
    let direct =
        reader.names(device).into_iter().filter(|name| name.starts_with("hwmon")).collect::<Vec<_>>();
    for name in direct {
        let within = format!("{device}/{name}");
        let deeper = reader.names(&within).into_iter().filter(|name| name.starts_with("hwmon"));
        let sensors: Vec<String> =
            std::iter::once(within.clone()).chain(deeper.map(|n| format!("{within}/{n}"))).collect();
        for sensor in sensors {
            let file = format!("{sensor}/temp1_input");
            let thousandths = reader.parsed(&file, |text| text.parse::<i64>().ok());
            if let Some(thousandths) = thousandths {
                return i16::try_from(thousandths / 1_000).ok();
            }
        }
    }
    None
}

fn nvme(machine: &mut Machine, reader: &Reader<'_>, name: &str) -> Option<Seen> {
    let class = format!("/sys/class/nvme/{name}");
    let at = |file: &str| format!("{class}/{file}");
    let place = reader.place(&class)?;
    let chain = Chain::of(&place);
    functions(machine, reader, &place, &chain);
    // `nvme0n1`; with the kernel's own multipathing `nvme0c0n1`, whose block device is `nvme0n1`.
    let namespaces =
        reader.names(&class).into_iter().filter(|child| child.starts_with("nvme") && child.contains('n'));
    let block =
        namespaces.filter_map(|child| namespace(&child)).min_by_key(|block| (block.len(), block.clone()));
    let [model, serial, firmware] = ["model", "serial", "firmware_rev"].map(|file| reader.text(&at(file)));
    let wwid = block.as_ref().and_then(|block| reader.text(&format!("/sys/block/{block}/wwid")));
    let vendor = None;
    let path = Path {
        device: name.to_owned(),
        block: block.clone(),
        hops: chain.hops(),
        state: reader.text(&at("state")),
        ..Path::default()
    };
    let key = key(wwid.and_then(|text| world_name(&text)), &vendor, &model, &serial, name);
    let size = block.as_ref().and_then(|block| block_size(reader, block));
    let disk = Disk {
        kind: DiskKind::Nvme,
        model,
        serial,
        firmware,
        celsius: hwmon(reader, &class),
        ..blank(key.clone(), path)
    };
    Some(Seen { key, disk: sized(disk, size) })
}

/// The block device of a namespace's directory in that of its controller; `None` of what is none.
fn namespace(child: &str) -> Option<String> {
    let rest = child.strip_prefix("nvme")?;
    let (controller, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = match behind.strip_prefix('c') {
        Some(path) => path.split_once('n')?.1,
        None => behind.strip_prefix('n')?,
    };
    (digits(controller) && digits(number)).then(|| format!("nvme{controller}n{number}"))
}

/// A block device that is neither SCSI nor NVMe, such as that of a hypervisor. What is made of other devices
/// is none.
fn other(machine: &mut Machine, reader: &Reader<'_>, name: &str) -> Option<Seen> {
    let place = reader.place(&format!("/sys/block/{name}"))?;
    let chain = Chain::of(&place);
    let is_made = place.contains("/virtual/") || chain.device.is_some() || place.contains("/nvme/");
    if is_made || name.starts_with("nvme") {
        return None;
    }
    functions(machine, reader, &place, &chain);
    let serial = reader.text(&format!("/sys/block/{name}/serial"));
    let path =
        Path { device: name.to_owned(), block: Some(name.to_owned()), hops: chain.hops(), ..Path::default() };
    // The serial number of a virtual disk is what somebody typed: two machines and two disks may have the
    // same.
    let key = DiskKey::Device(name.to_owned());
    let disk = Disk { serial, ..blank(key.clone(), path) };
    Some(Seen { key, disk: sized(disk, block_size(reader, name)) })
}

/// Names of multipath devices over the paths of disks.
fn multipaths(machine: &mut Machine, reader: &Reader<'_>) {
    for name in devices(reader, "/sys/block").into_iter().filter(|name| name.starts_with("dm-")) {
        let uuid = reader.text(&format!("/sys/block/{name}/dm/uuid")).unwrap_or_default();
        if ![maps::OF_MULTIPATHD, maps::OWN].iter().any(|maker| uuid.starts_with(maker)) {
            continue;
        }
        let Some(map) = reader.text(&format!("/sys/block/{name}/dm/name")) else { continue };
        let slaves: BTreeSet<String> =
            reader.names(&format!("/sys/block/{name}/slaves")).into_iter().collect();
        let is_under = |path: &Path| path.block.as_ref().is_some_and(|block| slaves.contains(block));
        if let Some(disk) = machine.disks.iter_mut().find(|disk| disk.paths.iter().any(is_under)) {
            disk.multipath = Some(map);
        }
    }
    machine.disks.sort_by(|a, b| by_number(a.name(), b.name()));
}

/// How fast the disks' own links run, and the errors at the other ends of them.
fn links(machine: &mut Machine) {
    for disk in &mut machine.disks {
        let mut counters = Vec::new();
        for path in &mut disk.paths {
            let Some(crate::machine::Hop::Port(port)) = path.hops.last() else { continue };
            let Some(port) = machine.ports.get(port).filter(|port| port.expander.is_none()) else { continue };
            let phys: Vec<_> = port.phys.iter().filter_map(|phy| machine.phys.get(phy)).collect();
            let runs = phys.iter().filter_map(|phy| phy.rate.megabits()).max();
            path.megabits = runs.or(path.megabits);
            path.megabits_max = phys.iter().filter_map(|phy| phy.rate_hardware.or(phy.rate_max)).max();
            counters.extend(phys.iter().flat_map(|phy| phy.counters.0.clone()));
        }
        counters.into_iter().for_each(|(counter, value)| disk.counters.add(counter, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_world_are_those_that_only_one_disk_can_have() {
        assert_eq!(world_name("naa.5000C500A1B2C3D7"), Some("naa.5000c500a1b2c3d7".into()));
        assert_eq!(world_name("eui.0025384B11B0A1F2\n"), Some("eui.0025384b11b0a1f2".into()));
        for none in
            ["naa.0000000000000000", "naa.ffffffffffffffff", "naa.5000", "t10.ATA     ST4000", "", "naa.xyz"]
        {
            assert_eq!(world_name(none), None, "{none}");
        }
    }

    #[test]
    fn namespaces_of_controllers() {
        assert_eq!(namespace("nvme0n1"), Some("nvme0n1".into()));
        assert_eq!(namespace("nvme3c4n12"), Some("nvme3n12".into()));
        for none in ["nvme0", "nvmexn1", "nvme0n", "nvme0c1", "ng0n1", "nvme0n1p1"] {
            assert_eq!(namespace(none), None, "{none}");
        }
    }
}
