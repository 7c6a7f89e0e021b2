//! Enclosures and their slots: from the kernel's directories (linux: drivers/misc/enclosure.c) and from what
//! the enclosures themselves have answered.

use std::collections::{BTreeMap, BTreeSet};

use scsi::enclosure::{
    Additional, Configuration, Descriptors, ElementCode, ElementKind, ElementStatus, EnclosureStatus,
    SasElement, Thresholds, page,
};

use super::chain::{Chain, is_scsi_address};
use super::{devices, functions, grouped};
use crate::machine::{DiskKind, Element, Enclosure, Machine, Place, Services, Slot, SlotAt};
use crate::reader::{Reader, number};
use crate::tree::Unread;

/// The type of a device that serves an enclosure (SPC-5, peripheral device type).
const ENCLOSURE: u64 = 0x0d;

/// What one device tells of the enclosure that it serves.
struct Told {
    identifier: Option<u64>,
    product: [Option<String>; 3],
    services: Services,
    slots: Vec<ToldSlot>,
    elements: Vec<Element>,
    condition: Option<scsi::enclosure::Condition>,
}

/// A slot as one device tells of it.
struct ToldSlot {
    slot: Slot,
    /// The SCSI device that the kernel links it with.
    device: Option<String>,
}

pub(super) fn read(machine: &mut Machine, reader: &Reader<'_>) {
    let mut told = Vec::new();
    for name in devices(reader, "/sys/class/scsi_device") {
        told.extend(device(machine, reader, &name));
    }
    // One enclosure has one logical identifier, however many processes serve it.
    let key = |one: &Told| match one.identifier {
        Some(identifier) => (0, identifier, String::new()),
        None => (1, 0, one.services.device.clone()),
    };
    let paths = paths(machine);
    for (_, all) in grouped(told.into_iter().map(|one| (key(&one), one))) {
        let at = machine.enclosures.len();
        let enclosure = merged(all, &paths);
        for (slot, one) in enclosure.slots.iter().enumerate() {
            if let Some(disk) = one.disk.and_then(|disk| machine.disks.get_mut(disk)) {
                disk.place.get_or_insert(Place { enclosure: at, slot });
            }
        }
        machine.enclosures.push(enclosure);
    }
    bays(machine);
}

/// The devices that serve enclosures, without what they tell.
pub(super) fn services(reader: &Reader<'_>) -> Vec<Services> {
    let mut all = Vec::new();
    for name in devices(reader, "/sys/class/scsi_device") {
        let class = format!("/sys/class/scsi_device/{name}/device");
        if is_scsi_address(&name) && reader.number(&format!("{class}/type")) == Some(ENCLOSURE) {
            let chain = reader.place(&class).map(|place| Chain::of(&place)).unwrap_or_default();
            all.push(served(reader, &name, &class, &chain));
        }
    }
    all
}

fn served(reader: &Reader<'_>, device: &str, class: &str, chain: &Chain) -> Services {
    Services {
        device: device.to_owned(),
        generic: reader.names(&format!("{class}/scsi_generic")).into_iter().next(),
        host: chain.host.clone(),
        hops: chain.hops(),
        pages: Err("it was not asked".to_owned()),
    }
}

/// How disks are found: by devices, and by SAS addresses.
struct Paths {
    devices: BTreeMap<String, usize>,
    addresses: BTreeMap<u64, usize>,
}

fn paths(machine: &Machine) -> Paths {
    let mut paths = Paths { devices: BTreeMap::new(), addresses: BTreeMap::new() };
    for (at, disk) in machine.disks.iter().enumerate() {
        for path in &disk.paths {
            paths.devices.insert(path.device.clone(), at);
            paths.addresses.extend(path.address.filter(|address| *address != 0).map(|address| (address, at)));
        }
    }
    paths
}

fn device(machine: &mut Machine, reader: &Reader<'_>, name: &str) -> Option<Told> {
    if !is_scsi_address(name) {
        return None;
    }
    let class = format!("/sys/class/scsi_device/{name}/device");
    let text = |file: &str| reader.text(&format!("{class}/{file}"));
    if reader.number(&format!("{class}/type")) != Some(ENCLOSURE) {
        return None;
    }
    let place = reader.place(&class)?;
    let chain = Chain::of(&place);
    functions(machine, reader, &place, &chain);
    let mut services = served(reader, name, &class, &chain);
    let directory = format!("/sys/class/enclosure/{name}");
    let has_driver = reader.is_there(&directory);
    let identifier = reader.parsed(&format!("{directory}/id"), number).filter(|id| *id != 0);
    // Each of the kernel's attributes costs a command to the enclosure (linux: ses.c, `ses_get_status`):
    // where its pages are there, they are not asked again.
    let kernel = |with_status| match has_driver {
        true => kernel_slots(reader, name, &directory, with_status),
        false => Vec::new(),
    };
    let mut told = Told {
        identifier,
        product: [text("vendor"), text("model"), text("rev")],
        slots: Vec::new(),
        elements: Vec::new(),
        condition: None,
        services: services.clone(),
    };
    match pages(reader, name, &mut told) {
        Ok(own) => {
            services.pages = Ok(());
            told.slots = joined(own, kernel(false));
        }
        Err(why) => {
            services.pages = Err(why.unwrap_or_else(|| "it was not asked".to_owned()));
            // Of an enclosure that does not answer each of the kernel's attributes would wait for its end as
            // well.
            told.slots = kernel(!reader.is_there(&format!("/answers/scsi/{name}/silent")));
        }
    }
    told.services = services;
    Some(told)
}

fn blank(device: &str, number: u32, name: String) -> Slot {
    Slot {
        number,
        name,
        code: None,
        disk: None,
        addresses: BTreeSet::new(),
        locate: false,
        fault_sensed: false,
        fault_requested: false,
        failure_predicted: false,
        off: false,
        bypassed: false,
        at: vec![SlotAt { device: device.to_owned(), directory: None, element: None }],
    }
}

/// The slots as the kernel's `ses` driver shows them.
fn kernel_slots(reader: &Reader<'_>, device: &str, directory: &str, with_status: bool) -> Vec<ToldSlot> {
    let mut slots = Vec::new();
    for name in reader.names(directory) {
        let at = |file: &str| format!("{directory}/{name}/{file}");
        // Every directory that has a status is a slot; others are `power`, `device`, `subsystem`.
        if matches!(name.as_str(), "power" | "device" | "subsystem") {
            continue;
        }
        if !reader.is_there(&at("status")) {
            continue;
        }
        let of_name =
            || name.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
        let number =
            reader.number(&at("slot")).and_then(|number| u32::try_from(number).ok()).or_else(of_name);
        let number = number.unwrap_or_else(|| u32::try_from(slots.len()).unwrap_or(u32::MAX));
        let mut slot = blank(device, number, name.trim().to_owned());
        if with_status {
            slot.code = reader.parsed(&at("status"), code);
            slot.locate = reader.number(&at("locate")).is_some_and(|value| value != 0);
            // Linux shifts both bits into one number: 4 sensed, 2 requested (linux: ses.c, `ses_get_fault`).
            let fault = reader.number(&at("fault")).unwrap_or(0);
            (slot.fault_sensed, slot.fault_requested) = (fault & 4 != 0, fault & 3 != 0);
            slot.off = reader.text(&at("power_status")).is_some_and(|text| text == "off");
        }
        for at in &mut slot.at {
            at.directory = Some(format!("{directory}/{name}"));
        }
        let place = if reader.is_there(&at("device")) { reader.place(&at("device")) } else { None };
        let linked = place.and_then(|place| place.rsplit('/').next().map(str::to_owned));
        slots.push(ToldSlot { slot, device: linked });
    }
    slots
}

/// Reads what the kernel writes (linux: drivers/misc/enclosure.c, `enclosure_status`).
fn code(status: &str) -> Option<ElementCode> {
    Some(match status {
        "unsupported" => ElementCode::Unsupported,
        "OK" => ElementCode::Ok,
        "critical" => ElementCode::Critical,
        "non-critical" => ElementCode::Noncritical,
        "unrecoverable" => ElementCode::Unrecoverable,
        "not installed" => ElementCode::NotInstalled,
        "unknown" => ElementCode::Unknown,
        "unavailable" => ElementCode::NotAvailable,
        _ => return None,
    })
}

/// What the enclosure answered. The error is why it could not be asked, if that is known.
fn pages(reader: &Reader<'_>, device: &str, told: &mut Told) -> Result<Vec<Slot>, Option<String>> {
    let at = |code: u8| format!("/answers/scsi/{device}/ses-{code:02x}");
    let page_of = |code: u8| reader.bytes(&at(code));
    let garbage = |code: u8| reader.problem(&at(code), Unread::Garbage);
    let Some(bytes) = page_of(page::CONFIGURATION) else {
        return Err(reader.not_asked(&format!("/answers/scsi/{device}")));
    };
    let Ok(configuration) = Configuration::decode(&bytes) else {
        garbage(page::CONFIGURATION);
        return Err(Some("its configuration page has no meaning".to_owned()));
    };
    let Some(bytes) = page_of(page::STATUS) else { return Err(None) };
    let Ok(status) = EnclosureStatus::decode(&bytes, &configuration) else {
        garbage(page::STATUS);
        return Err(Some("its status page does not go with its configuration".to_owned()));
    };
    let read = |code: u8| page_of(code).map(|bytes| (code, bytes));
    let names = read(page::DESCRIPTOR).and_then(|(code, bytes)| {
        Descriptors::decode(&bytes, &configuration).map_err(|_| garbage(code)).ok()
    });
    let limits = read(page::THRESHOLD)
        .and_then(|(code, bytes)| Thresholds::decode(&bytes, &configuration).map_err(|_| garbage(code)).ok());
    let additional = read(page::ADDITIONAL)
        .and_then(|(code, bytes)| Additional::decode(&bytes).map_err(|_| garbage(code)).ok());
    if let Some(first) = configuration.enclosures.first() {
        told.identifier = Some(first.identifier).filter(|id| *id != 0).or(told.identifier);
        let text = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let own =
            [text(first.vendor.trimmed()), text(first.product.trimmed()), text(first.revision.trimmed())];
        told.product = own;
    }
    told.condition = Some(status.condition);
    let attached: BTreeMap<_, _> =
        additional.as_ref().map(|page| page.placed(&configuration)).unwrap_or_default().into_iter().collect();
    let mut slots = Vec::new();
    for (kind, of) in configuration.types.iter().enumerate() {
        for element in 0..usize::from(of.count) {
            let Some(one) = status.of(kind, element) else { continue };
            let name = names.as_ref().map(|names| names.name(kind, element)).unwrap_or_default();
            if of.kind.is_slot() {
                let index = u32::try_from(slots.len()).unwrap_or(u32::MAX);
                let place = scsi::enclosure::AdditionalPlace { kind, element };
                let sas = attached.get(&place).map(|element| &element.sas);
                let mut slot = slot(device, index, name, one, sas);
                slot.at.iter_mut().for_each(|at| at.element = Some((kind, element)));
                slots.push(slot);
            } else {
                let limits = limits.as_ref().map(|limits| limits.of(kind, element));
                told.elements.extend(part(of.kind, name, one, limits));
            }
        }
    }
    Ok(slots)
}

fn slot(device: &str, index: u32, name: String, status: ElementStatus, sas: Option<&SasElement>) -> Slot {
    let mut slot = blank(device, index, name);
    let told = status.slot();
    slot.code = Some(status.code());
    slot.failure_predicted = status.is_failure_predicted();
    (slot.locate, slot.fault_sensed, slot.fault_requested) =
        (told.identify, told.fault_sensed, told.fault_requested);
    (slot.off, slot.bypassed) = (told.off, told.bypassed);
    if let Some(SasElement::Slot { slot: number, phys, .. }) = sas {
        slot.number = number.map_or(index, u32::from);
        let real = phys.iter().filter(|phy| phy.device_type != 0 && phy.address != 0);
        slot.addresses = real.map(|phy| phy.address).collect();
    }
    slot
}

/// A part that is installed.
fn part(
    kind: ElementKind,
    name: String,
    status: ElementStatus,
    limits: Option<scsi::enclosure::Limits>,
) -> Option<Element> {
    let mut code = status.code();
    if matches!(code, ElementCode::NotInstalled | ElementCode::Unsupported) {
        return None;
    }
    let value = match kind {
        ElementKind::Temperature => status.celsius().map(|celsius| {
            let high = limits.and_then(|limits| limits.celsius_high().0);
            high.map_or_else(|| format!("{celsius} °C"), |high| format!("{celsius} °C of {high}"))
        }),
        ElementKind::Voltage => Some(format!("{:.2} V", f64::from(status.millivolts()) / 1_000.0)),
        ElementKind::Current => Some(format!("{:.2} A", f64::from(status.milliamperes()) / 1_000.0)),
        ElementKind::Cooling => Some(format!("{} rpm", status.cooling().revolutions_per_minute)),
        ElementKind::PowerSupply => {
            let power = status.power();
            let words = [
                (power.failed, "failed"),
                (power.no_input, "no input"),
                (power.no_output, "no output"),
                (power.too_hot, "too hot"),
                (power.off, "off"),
            ];
            let told: Vec<&str> = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
            (!told.is_empty()).then(|| told.join(", "))
        }
        _ => None,
    };
    // Some enclosures say OK of a fan that has failed.
    let failed = match kind {
        ElementKind::Cooling => status.cooling().failed,
        ElementKind::PowerSupply => status.power().failed,
        _ => false,
    };
    if failed && code == ElementCode::Ok {
        code = ElementCode::Noncritical;
    }
    Some(Element { kind, name, code, failure_predicted: status.is_failure_predicted(), value })
}

/// The slots that the pages tell of, with what the kernel links them with. Both are in the order of the
/// configuration (linux: ses.c, `ses_enclosure_data_process`), which the kernel's directories lose; so names
/// decide, and where these are missing, numbers.
fn joined(own: Vec<Slot>, kernel: Vec<ToldSlot>) -> Vec<ToldSlot> {
    let mut by_name: BTreeMap<String, ToldSlot> = BTreeMap::new();
    let mut by_number: BTreeMap<u32, ToldSlot> = BTreeMap::new();
    let names: BTreeSet<&str> = own.iter().map(|slot| slot.name.as_str()).collect();
    for told in kernel {
        match names.contains(told.slot.name.as_str()) && !told.slot.name.is_empty() {
            true => drop(by_name.insert(told.slot.name.clone(), told)),
            false => drop(by_number.insert(told.slot.number, told)),
        }
    }
    let mut all = Vec::new();
    for mut slot in own {
        let told = by_name.remove(&slot.name).or_else(|| by_number.remove(&slot.number));
        let device = told.as_ref().and_then(|told| told.device.clone());
        if let Some(told) = told {
            let directory = told.slot.at.into_iter().find_map(|at| at.directory);
            slot.at.iter_mut().for_each(|at| at.directory.clone_from(&directory));
            if slot.name.is_empty() {
                slot.name = told.slot.name;
            }
        }
        all.push(ToldSlot { slot, device });
    }
    all
}

/// What all devices of an enclosure tell of it.
fn merged(all: Vec<Told>, paths: &Paths) -> Enclosure {
    let mut enclosure = Enclosure {
        identifier: None,
        vendor: None,
        product: None,
        revision: None,
        services: Vec::new(),
        slots: Vec::new(),
        elements: Vec::new(),
        condition: None,
    };
    let mut slots: BTreeMap<u32, Slot> = BTreeMap::new();
    for told in all {
        let [vendor, product, revision] = told.product;
        enclosure.identifier = enclosure.identifier.or(told.identifier);
        enclosure.vendor = enclosure.vendor.or(vendor);
        enclosure.product = enclosure.product.or(product);
        enclosure.revision = enclosure.revision.or(revision);
        enclosure.condition = enclosure.condition.or(told.condition);
        if enclosure.elements.is_empty() {
            enclosure.elements = told.elements;
        }
        enclosure.services.push(told.services);
        // Numbers that two slots of one device have are no numbers: they are counted instead.
        let numbers: BTreeSet<u32> = told.slots.iter().map(|told| told.slot.number).collect();
        let are_numbers = numbers.len() == told.slots.len();
        for (index, ToldSlot { mut slot, device }) in (0..).zip(told.slots) {
            if !are_numbers {
                slot.number = index;
            }
            let linked = device.and_then(|device| paths.devices.get(&device).copied());
            let addressed =
                || slot.addresses.iter().find_map(|address| paths.addresses.get(address).copied());
            slot.disk = linked.or_else(addressed);
            match slots.get_mut(&slot.number) {
                None => drop(slots.insert(slot.number, slot)),
                Some(known) => known.join(slot),
            }
        }
    }
    enclosure.slots = slots.into_values().collect();
    enclosure
}

impl Slot {
    /// Takes in what another device tells of the same slot.
    fn join(&mut self, other: Slot) {
        self.disk = self.disk.or(other.disk);
        self.code = match (self.code, other.code) {
            // A device that does not see a disk, as zoning has it, does not make the slot empty.
            (None | Some(ElementCode::NotInstalled | ElementCode::Unknown), Some(code)) => Some(code),
            (code, _) => code,
        };
        self.addresses.extend(other.addresses);
        self.locate |= other.locate;
        self.fault_sensed |= other.fault_sensed;
        self.fault_requested |= other.fault_requested;
        self.failure_predicted |= other.failure_predicted;
        self.off |= other.off;
        self.at.extend(other.at);
    }
}

/// Disks in no slot yet whose expander says in which bay they are; and slots of enclosures that nobody
/// serves.
fn bays(machine: &mut Machine) {
    let known: BTreeMap<u64, usize> =
        machine.enclosures.iter().enumerate().filter_map(|(at, one)| Some((one.identifier?, at))).collect();
    for (at, disk) in machine.disks.iter_mut().enumerate() {
        if disk.place.is_some() || disk.kind == DiskKind::Virtual {
            continue;
        }
        let bays = disk.paths.iter().filter_map(|path| path.bay);
        for (identifier, bay) in bays.collect::<Vec<_>>() {
            let Some(enclosure) = known.get(&identifier).copied() else { continue };
            let Some(slots) = machine.enclosures.get_mut(enclosure).map(|one| &mut one.slots) else {
                continue;
            };
            let Some(slot) = slots.iter().position(|slot| slot.number == bay) else { continue };
            let Some(one) = slots.get_mut(slot).filter(|one| one.disk.is_none()) else { continue };
            one.disk = Some(at);
            disk.place = Some(Place { enclosure, slot });
            break;
        }
    }
}
