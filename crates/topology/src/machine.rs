//! What a machine has.

use crate::order::by_number;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use scsi::ata::SmartAttribute;
use scsi::enclosure::{Condition, ElementCode, ElementKind};
use scsi::log::LogPage;
use scsi::log::disk::PortPhy;

use crate::nvme::SmartLog;
use crate::tree::Unread;

/// What could not be read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// Where it stands.
    pub path: String,
    /// Why.
    pub why: Unread,
}

/// Of which machine, and when.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// The name of the machine.
    pub host: Option<String>,
    /// The release of its kernel.
    pub kernel: Option<String>,
    /// When it was looked at, in seconds since 1970.
    pub seconds: Option<u64>,
    /// Sockets and the like that have memory of their own: numbers of NUMA nodes.
    pub nodes: Vec<u32>,
}

/// A link of PCI Express.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PciLink {
    /// Megatransfers a second of a lane: 8,000 is generation 3.
    pub megatransfers: u32,
    /// Lanes.
    pub lanes: u32,
}

/// A function on the way from a processor to disks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PciFunction {
    /// Its address, such as `0000:18:00.0`.
    pub address: String,
    /// The link to what is above it as it is; `None` if it has none or does not tell.
    pub link: Option<PciLink>,
    /// The link as this end of it could be.
    pub link_possible: Option<PciLink>,
    /// Whether it is the lower end of a link: not a root port, nor the lower side of a switch.
    pub has_link_above: bool,
    /// The function above it.
    pub above: Option<String>,
    /// The NUMA node that it is attached to.
    pub node: Option<u32>,
    /// Vendor and device.
    pub ids: Option<(u16, u16)>,
    /// Its driver.
    pub driver: Option<String>,
    /// Errors that its links have reported: corrected, not fatal, fatal.
    pub errors: [Option<u64>; 3],
}

/// What kind of adapter a SCSI host is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostKind {
    /// SAS.
    Sas,
    /// SATA ports without SAS.
    Sata,
    /// USB.
    Usb,
    /// Of a hypervisor.
    Virtual,
    /// Anything else.
    Other,
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostKind::Sas => "SAS",
            HostKind::Sata => "SATA",
            HostKind::Usb => "USB",
            HostKind::Virtual => "virtual",
            HostKind::Other => "other",
        })
    }
}

/// A SCSI host: an adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name, such as `host7`.
    pub name: String,
    /// What it is.
    pub kind: HostKind,
    /// The driver.
    pub driver: Option<String>,
    /// The board as the driver names it.
    pub board: Option<String>,
    /// Its firmware.
    pub firmware: Option<String>,
    /// The function on PCI, if it is one.
    pub pci: Option<String>,
    /// Whether the driver shows SAS objects: ports, phys, expanders. Without them widths are not known.
    pub has_sas_objects: bool,
}

/// How fast a phy runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PhyRate {
    /// So many megabits a second.
    Runs(u32),
    /// Nothing is connected, or it is not known.
    Unknown,
    /// It is switched off.
    Disabled,
    /// The ends could not agree.
    Failed,
    /// A SATA disk waits to be spun up.
    SpinUpHold,
}

impl PhyRate {
    /// Reads what Linux writes (linux: drivers/scsi/scsi_transport_sas.c, `sas_linkspeed_names`).
    #[must_use]
    pub fn parse(text: &str) -> Option<PhyRate> {
        Some(match text {
            "Unknown" => PhyRate::Unknown,
            "Phy disabled" => PhyRate::Disabled,
            "Link Rate failed" => PhyRate::Failed,
            "Spin-up hold" => PhyRate::SpinUpHold,
            rate => {
                let (whole, tenth) = rate.strip_suffix(" Gbit")?.split_once('.')?;
                let (whole, tenth): (u32, u32) = (whole.parse().ok()?, tenth.parse().ok()?);
                let megabits = whole.checked_mul(1_000)?.checked_add(tenth.checked_mul(100)?)?;
                (tenth < 10 && megabits > 0 && whole < 1_000).then_some(PhyRate::Runs(megabits))?
            }
        })
    }

    /// Megabits a second, if it runs.
    #[must_use]
    pub fn megabits(self) -> Option<u32> {
        match self {
            PhyRate::Runs(megabits) => Some(megabits),
            _ => None,
        }
    }
}

/// What goes up only, and is compared between two looks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Counter {
    /// Errors on reading that were not corrected (log page 03h).
    ReadUncorrected,
    /// Errors on writing that were not corrected (log page 02h).
    WriteUncorrected,
    /// Errors on verifying that were not corrected (log page 05h).
    VerifyUncorrected,
    /// Errors that were not of the medium (log page 06h).
    NonMedium,
    /// Defects that the disk found when it read its medium by itself (log page 15h).
    ScanDefects,
    /// Sectors that were replaced (SMART attribute 5).
    Reallocated,
    /// Sectors that wait to be replaced (SMART attribute 197).
    Pending,
    /// Sectors that could not be read offline (SMART attribute 198).
    OfflineUncorrectable,
    /// Errors that reached the host uncorrected (SMART attribute 187).
    ReportedUncorrected,
    /// Errors of the media of an NVMe drive.
    MediaErrors,
    /// Errors that the kernel counted on commands of a path.
    IoErrors,
    /// Checksum errors of the link of a SATA disk (SMART attribute 199).
    LinkChecksum,
    /// Words that were no words, at either end of the links to a disk.
    InvalidDwords,
    /// Words whose disparity was wrong.
    DisparityErrors,
    /// Times that synchronisation was lost.
    SyncLosses,
    /// Resets of a phy that did not succeed.
    ResetProblems,
}

impl Counter {
    /// All, each with its name.
    pub const ALL: [(Counter, &'static str); 16] = [
        (Counter::ReadUncorrected, "uncorrected read errors"),
        (Counter::WriteUncorrected, "uncorrected write errors"),
        (Counter::VerifyUncorrected, "uncorrected verify errors"),
        (Counter::NonMedium, "errors not of the medium"),
        (Counter::ScanDefects, "defects found by background scans"),
        (Counter::Reallocated, "reallocated sectors"),
        (Counter::Pending, "pending sectors"),
        (Counter::OfflineUncorrectable, "offline uncorrectable sectors"),
        (Counter::ReportedUncorrected, "reported uncorrected errors"),
        (Counter::MediaErrors, "media errors"),
        (Counter::IoErrors, "I/O errors of the kernel"),
        (Counter::LinkChecksum, "checksum errors of the link"),
        (Counter::InvalidDwords, "invalid dwords"),
        (Counter::DisparityErrors, "disparity errors"),
        (Counter::SyncLosses, "losses of dword synchronisation"),
        (Counter::ResetProblems, "phy reset problems"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Counter::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }

    /// Its name for programs: `uncorrected_read_errors`.
    #[must_use]
    pub fn word(self) -> String {
        self.name().to_ascii_lowercase().replace('/', "").replace(' ', "_")
    }

    /// Whether data that the disk had to give were lost.
    #[must_use]
    pub fn is_loss(self) -> bool {
        matches!(
            self,
            Counter::ReadUncorrected
                | Counter::WriteUncorrected
                | Counter::VerifyUncorrected
                | Counter::OfflineUncorrectable
                | Counter::ReportedUncorrected
                | Counter::MediaErrors
        )
    }

    /// Whether it is of places of the medium that are given up.
    #[must_use]
    pub fn is_defect(self) -> bool {
        matches!(self, Counter::ScanDefects | Counter::Reallocated | Counter::Pending)
    }

    /// Whether it is of the link: cable, backplane or connector, rather than the disk.
    #[must_use]
    pub fn is_link(self) -> bool {
        matches!(
            self,
            Counter::LinkChecksum
                | Counter::InvalidDwords
                | Counter::DisparityErrors
                | Counter::SyncLosses
                | Counter::ResetProblems
        )
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counters that are told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters(pub BTreeMap<Counter, u64>);

impl Counters {
    /// Adds to a counter.
    pub fn add(&mut self, counter: Counter, value: u64) {
        let now = self.0.entry(counter).or_default();
        *now = now.saturating_add(value);
    }

    /// A counter that is told.
    #[must_use]
    pub fn get(&self, counter: Counter) -> Option<u64> {
        self.0.get(&counter).copied()
    }
}

/// A phy of a host or an expander.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phy {
    /// Its name, such as `phy-7:0:12`.
    pub name: String,
    /// The host or expander that it is of.
    pub owner: String,
    /// Its number there.
    pub number: u32,
    /// How fast it runs.
    pub rate: PhyRate,
    /// How fast it is allowed to run, in megabits a second.
    pub rate_max: Option<u32>,
    /// How fast it can run.
    pub rate_hardware: Option<u32>,
    /// The port that it is part of.
    pub port: Option<String>,
    /// Errors of the link that it has counted.
    pub counters: Counters,
}

/// A port: phys that lead to one other device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name, such as `port-7:0:12`.
    pub name: String,
    /// The host or expander that it is of.
    pub owner: String,
    /// What it leads to: an expander, or nothing of those.
    pub expander: Option<String>,
    /// Its phys.
    pub phys: Vec<String>,
}

/// An expander.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expander {
    /// Its name, such as `expander-7:0`.
    pub name: String,
    /// Its host.
    pub host: String,
    /// The port that leads to it.
    pub port: String,
    /// Vendor, product and revision.
    pub product: [Option<String>; 3],
    /// Its SAS address.
    pub address: Option<u64>,
}

/// A step of the way from a processor to a disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Hop {
    /// A function on PCI.
    Pci(String),
    /// A port of a host or an expander.
    Port(String),
}

impl Hop {
    /// The function or port.
    #[must_use]
    pub fn name(&self) -> &str {
        let (Hop::Pci(name) | Hop::Port(name)) = self;
        name
    }
}

impl Ord for Hop {
    /// What is on PCI first, then as people count names.
    fn cmp(&self, other: &Hop) -> Ordering {
        let is_port = |hop: &Hop| matches!(hop, Hop::Port(_));
        is_port(self).cmp(&is_port(other)).then_with(|| by_number(self.name(), other.name()))
    }
}

impl PartialOrd for Hop {
    fn partial_cmp(&self, other: &Hop) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A way to a disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// The device: `7:0:3:0` of a SCSI disk, `nvme0` of an NVMe one, else the name of the block device.
    pub device: String,
    /// The block device, such as `sdd`.
    pub block: Option<String>,
    /// The generic device, such as `sg5`.
    pub generic: Option<String>,
    /// The SCSI host.
    pub host: Option<String>,
    /// The steps, from the processor on.
    pub hops: Vec<Hop>,
    /// The SAS address of the disk's port.
    pub address: Option<u64>,
    /// The state that the kernel has it in; `running` and `live` are the good ones.
    pub state: Option<String>,
    /// How fast the disk's own link runs, in megabits a second, as far as it is told.
    pub megabits: Option<u32>,
    /// How fast the other end of it can run, as far as that is told.
    pub megabits_max: Option<u32>,
    /// The enclosure and the bay in which the expander says it is.
    pub bay: Option<(u64, u32)>,
    /// The slot that the kernel links it with: the SES device and its name there.
    pub slot: Option<(String, String)>,
}

/// What a disk is known by, whatever the path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskKey {
    /// A name that is unique in the world, such as `naa.5000c500a1b2c3d7`.
    World(String),
    /// Vendor, model and serial number.
    Serial(String, String, String),
    /// It says nothing of itself: the device on this machine.
    Device(String),
}

impl fmt::Display for DiskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskKey::World(name) | DiskKey::Device(name) => f.write_str(name),
            DiskKey::Serial(vendor, model, serial) => {
                let all = [vendor.as_str(), model, serial];
                let parts: Vec<&str> = all.into_iter().filter(|part| !part.is_empty()).collect();
                f.write_str(&parts.join(" "))
            }
        }
    }
}

/// What kind of disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskKind {
    /// It turns.
    Hdd,
    /// Flash memory behind SCSI.
    Ssd,
    /// Flash memory behind NVMe.
    Nvme,
    /// Of a hypervisor.
    Virtual,
}

impl fmt::Display for DiskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskKind::Hdd => "HDD",
            DiskKind::Ssd => "SSD",
            DiskKind::Nvme => "NVMe",
            DiskKind::Virtual => "virtual",
        })
    }
}

/// What a SCSI disk answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScsiAnswers {
    /// Log pages by their codes.
    pub pages: BTreeMap<u8, LogPage>,
    /// The attributes of a SATA disk.
    pub smart: Vec<SmartAttribute>,
    /// Their thresholds.
    pub thresholds: Vec<(u8, u8)>,
    /// The phys of its ports.
    pub phys: Vec<PortPhy>,
}

/// What an NVMe drive answered.
pub type NvmeAnswer = SmartLog;

/// What a disk answered when it was asked how it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answered {
    /// Nobody asked, or nothing came: why, in words.
    Nothing(String),
    /// A SCSI disk, also a SATA one behind a translator.
    Scsi(Box<ScsiAnswers>),
    /// An NVMe drive.
    Nvme(NvmeAnswer),
}

/// Where a disk stands: numbers of the enclosure and the slot in the lists of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Of [`Machine::enclosures`].
    pub enclosure: usize,
    /// Of [`Enclosure::slots`].
    pub slot: usize,
}

/// A disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// What it is known by.
    pub key: DiskKey,
    /// What kind.
    pub kind: DiskKind,
    /// The vendor.
    pub vendor: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Its firmware.
    pub firmware: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Bytes; `None` if it does not tell.
    pub size: Option<u64>,
    /// Bytes of a logical block.
    pub block_size: Option<u64>,
    /// The multipath device over its paths.
    pub multipath: Option<String>,
    /// The ways to it, at least one.
    pub paths: Vec<Path>,
    /// Where it stands.
    pub place: Option<Place>,
    /// Degrees Celsius.
    pub celsius: Option<i16>,
    /// Degrees Celsius above which it is not to work.
    pub celsius_max: Option<i16>,
    /// Hours with power.
    pub power_on_hours: Option<u64>,
    /// What goes up only.
    pub counters: Counters,
    /// What it answered.
    pub answered: Answered,
}

impl Disk {
    /// The name that people use: the multipath device, else the first block device, else the device.
    #[must_use]
    pub fn name(&self) -> &str {
        let block = self.paths.iter().find_map(|path| path.block.as_deref());
        let device = self.paths.first().map_or("", |path| path.device.as_str());
        self.multipath.as_deref().or(block).unwrap_or(device)
    }
}

/// How full a slot is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotState {
    /// A disk that this machine sees.
    Disk,
    /// The enclosure says that a disk is there, and no path of this machine leads to it: zoning, or a lost
    /// path.
    Hidden,
    /// Empty.
    Empty,
    /// The enclosure does not tell.
    Unknown,
}

/// A place for a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The number that stands on the enclosure.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// How the enclosure says it is.
    pub code: Option<ElementCode>,
    /// The disk in it, of [`Machine::disks`].
    pub disk: Option<usize>,
    /// SAS addresses that the enclosure sees in it.
    pub addresses: BTreeSet<u64>,
    /// Its light shows where it is.
    pub locate: bool,
    /// The enclosure has noticed a fault.
    pub fault_sensed: bool,
    /// The fault light was asked for.
    pub fault_requested: bool,
    /// The enclosure expects a failure.
    pub failure_predicted: bool,
    /// It has no power.
    pub off: bool,
    /// A port of the disk is not connected.
    pub bypassed: bool,
    /// Where the devices that serve the enclosure have it.
    pub at: Vec<SlotAt>,
}

/// Where one device that serves an enclosure has a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotAt {
    /// The device, such as `7:0:84:0`.
    pub device: String,
    /// The directory of the slot in `/sys`, if the kernel shows one.
    pub directory: Option<String>,
    /// The type and the element in the pages of the device, both counted from zero, if these were read.
    pub element: Option<(usize, usize)>,
}

impl Slot {
    /// How full it is.
    #[must_use]
    pub fn state(&self) -> SlotState {
        match (self.disk, self.code) {
            (Some(_), _) => SlotState::Disk,
            (None, Some(ElementCode::NotInstalled)) => SlotState::Empty,
            (None, Some(ElementCode::Unsupported | ElementCode::Unknown) | None) => {
                match self.addresses.is_empty() {
                    true => SlotState::Unknown,
                    false => SlotState::Hidden,
                }
            }
            (None, Some(_)) => SlotState::Hidden,
        }
    }
}

/// A part of an enclosure that is no slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    /// What it is.
    pub kind: ElementKind,
    /// Its name.
    pub name: String,
    /// How it is.
    pub code: ElementCode,
    /// It is expected to fail.
    pub failure_predicted: bool,
    /// Its value with a unit: degrees, volts, revolutions.
    pub value: Option<String>,
}

/// A device that serves an enclosure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Services {
    /// The device, such as `7:0:84:0`.
    pub device: String,
    /// The generic device, such as `sg85`.
    pub generic: Option<String>,
    /// The host through which it is reached.
    pub host: Option<String>,
    /// The steps to it, from the processor on.
    pub hops: Vec<Hop>,
    /// Whether its pages were read; else why not.
    pub pages: Result<(), String>,
}

/// An enclosure. One that two services processes serve is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enclosure {
    /// Its logical identifier, if it tells.
    pub identifier: Option<u64>,
    /// The vendor.
    pub vendor: Option<String>,
    /// The product.
    pub product: Option<String>,
    /// Its revision.
    pub revision: Option<String>,
    /// The devices that serve it.
    pub services: Vec<Services>,
    /// The places for disks, by their numbers.
    pub slots: Vec<Slot>,
    /// Everything else that it tells of: through the first device that told.
    pub elements: Vec<Element>,
    /// All of it together.
    pub condition: Option<Condition>,
}

/// A network interface that has hardware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Megabits a second of its link, if that is up.
    pub megabits: Option<u32>,
    /// The longest packet in bytes.
    pub mtu: Option<u32>,
    /// The steps to it, from the processor on.
    pub hops: Vec<Hop>,
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// Which one, and when.
    pub about: About,
    /// Functions on the ways to disks and networks, by address.
    pub pci: BTreeMap<String, PciFunction>,
    /// SCSI hosts with devices or SAS objects, by name.
    pub hosts: BTreeMap<String, Host>,
    /// Ports of hosts and expanders, by name.
    pub ports: BTreeMap<String, Port>,
    /// Phys of hosts and expanders, by name.
    pub phys: BTreeMap<String, Phy>,
    /// Expanders, by name.
    pub expanders: BTreeMap<String, Expander>,
    /// Enclosures.
    pub enclosures: Vec<Enclosure>,
    /// Disks, in order of their names.
    pub disks: Vec<Disk>,
    /// Network interfaces.
    pub networks: Vec<Network>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// How many more problems there were.
    pub problems_left_out: usize,
}

impl Machine {
    /// The NUMA node at which a way begins.
    #[must_use]
    pub fn node_of(&self, hops: &[Hop]) -> Option<u32> {
        hops.iter().find_map(|hop| match hop {
            Hop::Pci(address) => self.pci.get(address).and_then(|function| function.node),
            Hop::Port(_) => None,
        })
    }

    /// The slot of a disk.
    #[must_use]
    pub fn slot_of(&self, disk: &Disk) -> Option<(&Enclosure, &Slot)> {
        let place = disk.place?;
        let enclosure = self.enclosures.get(place.enclosure)?;
        Some((enclosure, enclosure.slots.get(place.slot)?))
    }

    /// Slots that people may mean by a word: `ENCLOSURE/SLOT`, where the enclosure is its number in the list
    /// of the machine, its logical identifier or one of the devices that serve it, and the slot its number
    /// or name; or what [`Machine::find`] takes for a disk that stands in one.
    #[must_use]
    pub fn find_slots(&self, word: &str) -> Vec<Place> {
        let Some((own, slot)) = word.split_once('/').filter(|_| !word.starts_with('/')) else {
            let mut places: Vec<Place> =
                self.find(word).into_iter().filter_map(|at| self.disks.get(at)?.place).collect();
            places.dedup();
            return places;
        };
        let digits = own.trim_start_matches("0x");
        let mut places = Vec::new();
        for (enclosure, one) in self.enclosures.iter().enumerate() {
            let is = enclosure.to_string() == own
                || one.identifier.is_some_and(|identifier| format!("{identifier:016x}") == digits)
                || one.services.iter().any(|services| services.device == own);
            let matching = |it: &Slot| it.name == slot || slot.parse() == Ok(it.number);
            let slots = one.slots.iter().enumerate().filter(|(_, it)| is && matching(it));
            places.extend(slots.map(|(slot, _)| Place { enclosure, slot }));
        }
        places
    }

    /// Disks that people may mean by a word: a block device, the multipath device, a device, the serial
    /// number, the name in the world.
    #[must_use]
    pub fn find(&self, word: &str) -> Vec<usize> {
        let word = word.strip_prefix("/dev/mapper/").or_else(|| word.strip_prefix("/dev/")).unwrap_or(word);
        let is = |disk: &Disk| {
            let of_path = |path: &Path| path.device == word || path.block.as_deref() == Some(word);
            let key = disk.key.to_string();
            disk.multipath.as_deref() == Some(word)
                || disk.serial.as_deref() == Some(word)
                || key == word
                || key.split_once('.').is_some_and(|(_, digits)| digits == word.trim_start_matches("0x"))
                || disk.paths.iter().any(of_path)
        };
        self.disks.iter().enumerate().filter(|(_, disk)| is(disk)).map(|(at, _)| at).collect()
    }
}
