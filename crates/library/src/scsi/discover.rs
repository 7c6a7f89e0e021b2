//! Which changers and drives there are: at iSCSI portals, and among the devices of this machine. A device is
//! known by its serial number and its identifiers (VPD 80h and 83h), never by its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::scsi::command::{Primary, SelectReport, SupportedReport};
use ::scsi::luns::Luns;
use ::scsi::opcodes::SupportedOpcodes;
use ::scsi::vpd::{Designator, Vpd, VpdPage};
use ::scsi::{Command, DeviceType, ElementAddress, Inquiry, Lun, Packed, Transport};
use iscsi::initiator::{Initiator, InitiatorConfig, discover as targets_of};
use iscsi::login::{Account, DigestWish, Name};
use sgio::SgDevice;

use super::address::{DeviceAddress, DeviceChoice};
use super::changer::{Devices, LoadableDrive, Unreached, WantedDrive, names_serial};
use super::unit::{Failure, Unit};
use crate::{DriveName, Waiter};

/// Targets of a portal that are looked at.
const TARGETS_MAX: usize = 1_000;
/// Units of a target that are looked at.
const LUNS_MAX: usize = 1_000;
/// Devices of a machine that are looked at.
const GENERIC_MAX: usize = 4_096;
/// Bytes of a page of vital product data; devices of old standards do not take more than one byte says.
const PAGE: u16 = 255;
/// Bytes of a list of commands.
const OPCODES: u32 = 16 * 1024;
/// Where Linux lists generic SCSI devices.
pub const GENERIC_DEVICES: &str = "/sys/class/scsi_generic";
/// Where Linux lists the same devices as its other generic driver knows them (bsg).
pub const BSG_DEVICES: &str = "/sys/class/bsg";

/// Who asks at iSCSI portals, and the ways to devices.
#[derive(Clone)]
pub struct Ways {
    /// The name of this initiator.
    pub initiator: Name,
    /// With it this initiator proves who it is (CHAP).
    pub account: Option<Account>,
    /// Lets time go by.
    pub waiter: Arc<dyn Waiter>,
}

impl Ways {
    fn config(&self, portal: &str, target: Name, lun: Lun) -> Result<InitiatorConfig, Unreached> {
        let bytes = iscsi::pdu::Lun(lun.0);
        let mut config = InitiatorConfig::new(portal, self.initiator.clone(), target, bytes)
            .map_err(|error| Unreached(error.to_string()))?;
        config.account.clone_from(&self.account);
        // TCP's own checksum lets one damaged packet in 65,536 through, and a bit makes TEST UNIT READY of
        // FORMAT MEDIUM. LBP guards blocks only.
        (config.parameters.header_digest, config.parameters.data_digest) =
            (DigestWish::Prefer, DigestWish::Prefer);
        Ok(config)
    }

    /// The way to a device.
    ///
    /// # Errors
    /// If there is none. A device that does not answer is found out with the first command.
    pub fn open(&self, address: &DeviceAddress) -> Result<Box<dyn Transport>, Unreached> {
        match address {
            DeviceAddress::Iscsi { portal, target, lun } => {
                let config = self.config(portal, target.clone(), *lun)?;
                let initiator = Initiator::new(config);
                Ok(Box::new(initiator.map_err(|error| Unreached(format!("{address}: {error}")))?))
            }
            DeviceAddress::Generic(path) => match SgDevice::open(path) {
                Ok(device) => Ok(Box::new(device)),
                Err(error) => Err(Unreached(error.to_string())),
            },
        }
    }

    fn unit(&self, address: &DeviceAddress) -> Result<Unit, Unreached> {
        Ok(Unit::new(self.open(address)?, Arc::clone(&self.waiter)))
    }
}

/// Where devices are looked for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sources {
    /// iSCSI portals, host and port.
    pub portals: Vec<String>,
    /// The directory in which Linux lists generic devices, [`GENERIC_DEVICES`]; `None`: not looked at.
    pub generic: Option<PathBuf>,
    /// The directory of the other driver, [`BSG_DEVICES`]; `None`: not looked at. Of a device that both list,
    /// that of `generic` is taken: it takes data in pieces. A machine whose kernel has no sg has only this
    /// one.
    pub bsg: Option<PathBuf>,
}

impl Sources {
    /// These portals, and all devices of this machine.
    #[must_use]
    pub fn with_this_machine(portals: Vec<String>) -> Sources {
        Sources { portals, generic: Some(GENERIC_DEVICES.into()), bsg: Some(BSG_DEVICES.into()) }
    }
}

/// A changer or a drive that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundDevice {
    /// Where it is.
    pub address: DeviceAddress,
    /// Which of the two it is.
    pub device_type: DeviceType,
    /// Its vendor.
    pub vendor: String,
    /// Its product.
    pub product: String,
    /// The revision of its firmware.
    pub revision: String,
    /// Its serial number; empty if it tells none.
    pub serial: String,
    /// Its identifiers.
    pub identifiers: Vec<Designator>,
    /// A drive: the serial number of the library that it is in, if it tells (VPD B3h).
    pub library_serial: Option<String>,
    /// A drive: where it stands in it (VPD B4h).
    pub element: Option<ElementAddress>,
}

impl FoundDevice {
    /// Whether this is the device that a changer names.
    #[must_use]
    pub fn is_named_by(&self, identifier: &Designator) -> bool {
        let same = |own: &Designator| (own.kind, &own.value) == (identifier.kind, &identifier.value);
        self.identifiers.iter().any(same) || names_serial(identifier, &self.serial)
    }
}

/// What a search has given.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// Changers and drives, in the order in which they were found.
    pub devices: Vec<FoundDevice>,
    /// What could not be asked, in words.
    pub failed: Vec<String>,
}

impl Found {
    /// Devices of a type.
    pub fn of_type(&self, device_type: DeviceType) -> impl Iterator<Item = &FoundDevice> {
        self.devices.iter().filter(move |device| device.device_type == device_type)
    }
}

/// Looks for changers and drives. What does not answer is told, and the others are found all the same.
#[must_use]
pub fn discover(ways: &Ways, sources: &Sources) -> Found {
    let mut found = Found::default();
    for portal in &sources.portals {
        if let Err(Unreached(why)) = at_portal(ways, portal, &mut found) {
            found.failed.push(format!("portal {portal}: {why}"));
        }
    }
    let mut listed = BTreeSet::new();
    if let Some(directory) = &sources.generic {
        of_this_machine(directory, &SG, &mut listed, &mut found);
    }
    if let Some(directory) = &sources.bsg {
        of_this_machine(directory, &BSG, &mut listed, &mut found);
    }
    found
}

/// What a tape drive can do of what an archive makes use of, by its own list of commands, in words; `None` if
/// it gives none, or is not reached.
#[must_use]
pub fn drive_abilities(ways: &Ways, address: &DeviceAddress) -> Option<Vec<&'static str>> {
    let report = Primary::ReportSupportedOperationCodes {
        timeouts: false,
        report: SupportedReport::All,
        operation: 0,
        service_action: 0,
        allocation_length: OPCODES,
    };
    let answer = ways.unit(address).ok()?.ask(&report.into(), usize::try_from(OPCODES).ok()?).ok()?;
    let list = SupportedOpcodes::decode(&answer).ok()?;
    Some(super::drive::ability_words(&list))
}

fn at_portal(ways: &Ways, portal: &str, found: &mut Found) -> Result<(), Unreached> {
    // Who is asked for the targets is not one of them.
    let config = ways.config(portal, ways.initiator.clone(), Lun::default())?;
    let targets = targets_of(&config).map_err(|error| Unreached(error.to_string()))?;
    for target in targets.into_iter().take(TARGETS_MAX) {
        // A target may have several addresses. The one that we asked at is known to be reached.
        let addresses = || target.addresses.iter().filter_map(|address| address.split(',').next());
        let at = addresses().find(|address| *address == portal).or_else(|| addresses().next());
        let at = at.unwrap_or(portal).to_owned();
        let unit = |lun| DeviceAddress::Iscsi { portal: at.clone(), target: target.name.clone(), lun };
        let luns = ways.unit(&unit(Lun::default())).and_then(|mut zero| {
            luns(&mut zero).map_err(|failure| Unreached(failure.device_error().to_string()))
        });
        match luns {
            Ok(luns) => luns.into_iter().take(LUNS_MAX).for_each(|lun| look_at(ways, unit(lun), found)),
            Err(Unreached(why)) => found.failed.push(format!("target {} at {at}: {why}", target.name)),
        }
    }
    Ok(())
}

fn luns(unit: &mut Unit) -> Result<Vec<Lun>, Failure> {
    let length = 16 + 8 * LUNS_MAX;
    let allocation_length = u32::try_from(length).unwrap_or(u32::MAX);
    let report = Primary::ReportLuns { select: SelectReport::Addressed, allocation_length };
    let answer = unit.ask(&report.into(), length)?;
    Ok(Luns::decode(&answer).map_err(Failure::Strange)?.0)
}

fn look_at(ways: &Ways, address: DeviceAddress, found: &mut Found) {
    let seen = ways.unit(&address).and_then(|mut unit| {
        identify(&mut unit, &address).map_err(|failure| Unreached(failure.device_error().to_string()))
    });
    match seen {
        Ok(device) => found.devices.extend(device),
        Err(Unreached(why)) => found.failed.push(format!("{address}: {why}")),
    }
}

/// What a device is; `None` if it is neither a changer nor a drive.
fn identify(unit: &mut Unit, address: &DeviceAddress) -> Result<Option<FoundDevice>, Failure> {
    let inquiry = Command::from(Primary::Inquiry { vital: false, page: 0, allocation_length: 96 });
    let answer = unit.ask(&inquiry, 96)?;
    let inquiry = Inquiry::decode(&answer).map_err(Failure::Strange)?;
    if inquiry.qualifier != 0 || !matches!(inquiry.device_type, DeviceType::Changer | DeviceType::Tape) {
        return Ok(None);
    }
    let is_tape = inquiry.device_type == DeviceType::Tape;
    let mut device = FoundDevice {
        address: address.clone(),
        device_type: inquiry.device_type,
        vendor: inquiry.vendor.trimmed(),
        product: inquiry.product.trimmed(),
        revision: inquiry.revision.trimmed(),
        serial: String::new(),
        identifiers: Vec::new(),
        library_serial: None,
        element: None,
    };
    for code in [0x80, 0x83, 0xb3, 0xb4].into_iter().filter(|code| is_tape || *code < 0xb0) {
        device.learn(page(unit, code)?);
    }
    Ok(Some(device))
}

/// A page of vital product data; `None` if there is none, or it cannot be read.
fn page(unit: &mut Unit, code: u8) -> Result<Option<VpdPage>, Failure> {
    let inquiry = Primary::Inquiry { vital: true, page: code, allocation_length: PAGE };
    match unit.ask(&inquiry.into(), usize::from(PAGE)) {
        Ok(answer) => Ok(Vpd::decode(&answer).ok().map(|vpd| vpd.page)),
        Err(failure) if failure.is_refusal() => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl FoundDevice {
    fn learn(&mut self, page: Option<VpdPage>) {
        match page {
            Some(page @ VpdPage::SerialNumber(_)) => self.serial = page.serial(),
            Some(page @ VpdPage::AutomationSerial(_)) => {
                self.library_serial = Some(page.serial()).filter(|serial| !serial.is_empty());
            }
            Some(VpdPage::Identification(all)) => self.identifiers = all,
            Some(VpdPage::DataTransferElement(at)) => self.element = Some(at),
            _ => {}
        }
    }
}

/// A generic driver of Linux.
struct GenericDriver {
    /// What it calls its units. It may list others, as host adapters.
    is_unit: fn(&str) -> bool,
    /// Where their nodes are.
    nodes: &'static str,
}

const SG: GenericDriver = GenericDriver { is_unit: |name| name.starts_with("sg"), nodes: "/dev" };
/// Units are called by host, channel, target and number: `1:0:0:0`.
const BSG: GenericDriver =
    GenericDriver { is_unit: |name| name.matches(':').count() == 3, nodes: "/dev/bsg" };

/// What Linux knows of the generic devices of this machine, without opening one. Of those that are `listed`,
/// which is what the kernel knows them by, nothing more is told.
fn of_this_machine(
    directory: &Path,
    driver: &GenericDriver,
    listed: &mut BTreeSet<PathBuf>,
    found: &mut Found,
) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // A machine without SCSI has no such directory.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => return found.failed.push(format!("{}: {error}", directory.display())),
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| (driver.is_unit)(name))
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    for name in names.into_iter().take(GENERIC_MAX) {
        let device = directory.join(&name).join("device");
        let known = fs::canonicalize(&device).unwrap_or_else(|_| device.clone());
        if listed.insert(known) {
            found.devices.extend(from_files(&device, Path::new(driver.nodes).join(&name)));
        }
    }
}

fn from_files(device: &Path, node: PathBuf) -> Option<FoundDevice> {
    let text = |name: &str| fs::read_to_string(device.join(name)).ok().map(|text| text.trim().to_owned());
    let device_type = DeviceType::of(text("type")?.parse().ok()?);
    if !matches!(device_type, DeviceType::Changer | DeviceType::Tape) {
        return None;
    }
    let mut found = FoundDevice {
        address: DeviceAddress::Generic(node),
        device_type,
        vendor: text("vendor").unwrap_or_default(),
        product: text("model").unwrap_or_default(),
        revision: text("rev").unwrap_or_default(),
        serial: String::new(),
        identifiers: Vec::new(),
        library_serial: None,
        element: None,
    };
    // Pages as they came. Kernels of before 6.x have no others.
    for name in ["vpd_pg80", "vpd_pg83"] {
        let bytes = fs::read(device.join(name)).ok();
        found.learn(bytes.and_then(|bytes| Vpd::decode(&bytes).ok()).map(|vpd| vpd.page));
    }
    Some(found)
}

/// Makes a drive of the way to it.
pub type DriveMaker =
    dyn Fn(&DriveName, Box<dyn Transport>) -> Result<Box<dyn LoadableDrive>, Unreached> + Send + Sync;

/// The devices of a library, looked for each time that they are needed.
pub struct FoundDevices {
    /// The ways.
    pub ways: Ways,
    /// Where they are looked for.
    pub sources: Sources,
    /// The changer.
    pub changer: DeviceChoice,
    /// Makes drives.
    pub make: Box<DriveMaker>,
}

impl FoundDevices {
    fn one(
        &self,
        found: &Found,
        what: &str,
        is_it: impl Fn(&FoundDevice) -> bool,
    ) -> Result<FoundDevice, Unreached> {
        let mut all = found.devices.iter().filter(|device| is_it(device));
        let one = all.next().ok_or_else(|| {
            let failed = match found.failed.as_slice() {
                [] => String::new(),
                failed => format!(" ({})", failed.join("; ")),
            };
            Unreached(format!("{what} is not found{failed}"))
        })?;
        // Several ways to one device have all the same serial number and identifiers.
        match all.find(|other| other.identifiers != one.identifiers) {
            Some(other) => {
                Err(Unreached(format!("{what} is two devices: {} and {}", one.address, other.address)))
            }
            None => Ok(one.clone()),
        }
    }
}

impl Devices for FoundDevices {
    fn changer(&self) -> Result<Box<dyn Transport>, Unreached> {
        let serial = match &self.changer {
            DeviceChoice::At(address) => return self.ways.open(address),
            DeviceChoice::Serial(serial) => serial,
        };
        let found = discover(&self.ways, &self.sources);
        let is_it =
            |device: &FoundDevice| device.device_type == DeviceType::Changer && device.serial == *serial;
        let changer = self.one(&found, &format!("the changer with serial number {serial}"), is_it)?;
        self.ways.open(&changer.address)
    }

    fn drive(&self, wanted: &WantedDrive) -> Result<Box<dyn LoadableDrive>, Unreached> {
        let found = discover(&self.ways, &self.sources);
        let at = wanted.element;
        let device = match (&wanted.serial, &wanted.identifier) {
            (Some(serial), _) => {
                let is_it =
                    |device: &FoundDevice| device.device_type == DeviceType::Tape && device.serial == *serial;
                self.one(&found, &format!("the drive with serial number {serial}"), is_it)?
            }
            (None, Some(identifier)) => {
                let is_it = |device: &FoundDevice| {
                    device.device_type == DeviceType::Tape && device.is_named_by(identifier)
                };
                let what =
                    format!("the drive at element {at}, which the changer calls '{}',", identifier.text());
                self.one(&found, &what, is_it)?
            }
            (None, None) => {
                return Err(Unreached(format!(
                    "the changer does not say which drive is at element {at}: write it as \
                     \"{at}=serial:NUMBER\""
                )));
            }
        };
        if let Some(other) = device.element.filter(|element| *element != at) {
            return Err(Unreached(format!(
                "drive {} at {} says that it is at element {other}, not {at}",
                device.serial, device.address
            )));
        }
        (self.make)(&wanted.name, self.ways.open(&device.address)?)
    }
}
