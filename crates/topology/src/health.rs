//! How disks are: a verdict each, with the reasons.

use std::collections::BTreeMap;
use std::fmt;

use scsi::enclosure::{ElementCode, ElementKind};
use scsi::log::{disk, page};

use crate::bottleneck::{Rates, bottlenecks};
use crate::counters::Since;
use crate::machine::{Answered, Counter, Disk, DiskKind, Hop, Machine, SlotState};
use crate::nvme::SmartLog;
use crate::order::in_order;

/// Percent of a flash drive's life from which on it is watched: there is time to order another.
pub const WORN_WATCH: u8 = 90;
/// Percent at which its maker promises nothing more.
pub const WORN_REPLACE: u8 = 100;
/// Defects that a disk may find between two looks before it is to be replaced: one or two come and stay, a
/// surface that goes gives hundreds (judgement).
pub const DEFECTS_GROWN_REPLACE: u64 = 50;
/// Errors of a link, since somebody reset the counters, from which on they are told even if nothing says that
/// they grow: each reset of a link and each start of a disk costs some (judgement).
pub const LINK_ERRORS_TOLD: u64 = 1_000;
/// Degrees below the greatest at which a disk works from which on it is watched.
pub const HOT_MARGIN: i16 = 5;
/// Degrees Celsius from which on a disk is watched that does not tell its own limit: data sheets of disks for
/// data centres allow 60.
pub const HOT_ASSUMED: i16 = 60;

/// The additional sense code qualifier of a failure that is foretold for a test only.
const FALSE_PREDICTION: u8 = 0xff;

/// What is to be done about a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// Nothing is known against it.
    Good,
    /// Nothing is known: it was not asked, or does not answer.
    Unknown,
    /// Something is to be looked at.
    Watch,
    /// It is to be replaced.
    Replace,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Good => "good",
            Verdict::Unknown => "unknown",
            Verdict::Watch => "watch",
            Verdict::Replace => "replace",
        })
    }
}

/// Why.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The disk itself expects to fail: additional sense code and qualifier.
    FailureExpected(u8, u8),
    /// The disk itself warns: additional sense code and qualifier.
    Warning(u8, u8),
    /// A SMART attribute that announces failures has fallen to its threshold: number, value, threshold.
    Attribute(u8, u8, u8),
    /// Spare capacity: percent that are left, and its threshold.
    SpareLow(u8, u8),
    /// An NVMe drive says that its reliability is degraded.
    Degraded,
    /// It can only be read.
    ReadOnly,
    /// It no longer keeps its cache over a loss of power.
    BackupFailed,
    /// The kernel has it in this state.
    State(String),
    /// It says that it has no size.
    NoSize,
    /// The enclosure has noticed a fault.
    EnclosureFault,
    /// The enclosure expects a failure.
    EnclosureExpects,
    /// The enclosure says this of its slot.
    EnclosureSays(ElementCode),
    /// Its slot has no power.
    Off,
    /// Data were lost: the counter, and by how much it has grown between two looks.
    LostSince(Counter, u64),
    /// Data were lost at some time.
    Lost(Counter, u64),
    /// Places of the medium were given up between two looks.
    DefectsSince(Counter, u64),
    /// Places of the medium were given up at some time.
    Defects(Counter, u64),
    /// Errors of its link between two looks: cable, backplane or connector rather than the disk.
    LinkSince(Counter, u64),
    /// Errors of its link at some time.
    Link(Counter, u64),
    /// Another counter has grown between two looks.
    OtherSince(Counter, u64),
    /// It is warm: degrees, and the limit.
    Hot(i16, i16),
    /// It is warmer than it may be.
    TooHot(i16, i16),
    /// Percent of its life that are used.
    Worn(u8),
    /// It has fewer paths than others of its enclosure: its paths, and theirs.
    FewPaths(usize, usize),
    /// Its link is slower than those of other disks of its model: megabits a second, and theirs.
    Slow(u32, u32),
    /// It was not asked, or did not answer: why.
    NotAsked(String),
}

impl Reason {
    /// What it makes of a disk.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Reason::FailureExpected(..)
            | Reason::Attribute(..)
            | Reason::SpareLow(..)
            | Reason::Degraded
            | Reason::ReadOnly
            | Reason::NoSize
            | Reason::EnclosureFault
            | Reason::EnclosureExpects
            | Reason::LostSince(..) => Verdict::Replace,
            Reason::DefectsSince(_, by) if *by >= DEFECTS_GROWN_REPLACE => Verdict::Replace,
            Reason::Worn(percent) if *percent >= WORN_REPLACE => Verdict::Replace,
            Reason::EnclosureSays(ElementCode::Critical | ElementCode::Unrecoverable) => Verdict::Replace,
            Reason::NotAsked(_) => Verdict::Unknown,
            Reason::Warning(..)
            | Reason::BackupFailed
            | Reason::State(_)
            | Reason::EnclosureSays(_)
            | Reason::Off
            | Reason::Lost(..)
            | Reason::DefectsSince(..)
            | Reason::Defects(..)
            | Reason::LinkSince(..)
            | Reason::Link(..)
            | Reason::OtherSince(..)
            | Reason::Hot(..)
            | Reason::TooHot(..)
            | Reason::Worn(_)
            | Reason::FewPaths(..)
            | Reason::Slow(..) => Verdict::Watch,
        }
    }

    /// Whether it foretells that the disk fails while it can still be read: told by the disk itself, by its
    /// enclosure, or by defects that come in numbers. Not that data were lost once, nor that its life is used
    /// up: a whole batch of flash drives is that in one week, and goes on.
    #[must_use]
    pub fn predicts(&self) -> bool {
        // A disk that is told to try whether anybody heeds that says so as well (SPC-5, `TEST` of the page of
        // informational exceptions).
        if matches!(self, Reason::FailureExpected(_, FALSE_PREDICTION)) {
            return false;
        }
        matches!(
            self,
            Reason::FailureExpected(..)
                | Reason::Attribute(..)
                | Reason::SpareLow(..)
                | Reason::Degraded
                | Reason::ReadOnly
                | Reason::EnclosureExpects
        ) || matches!(self, Reason::DefectsSince(_, by) if *by >= DEFECTS_GROWN_REPLACE)
    }

    /// The next step, where it is not to replace the disk or to wait.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Reason::LinkSince(..) | Reason::Link(..) => Some("look at cable, backplane and connector"),
            Reason::FewPaths(..) => Some("look at the cable of the other path"),
            Reason::Slow(..) => Some("put the disk in anew, or into another slot"),
            Reason::Hot(..) | Reason::TooHot(..) => Some("look at the fans of the enclosure"),
            Reason::Lost(..) | Reason::Defects(..) => Some("compare with a later look (--since)"),
            _ => None,
        }
    }

    /// A word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Reason::FailureExpected(..) => "failure-expected",
            Reason::Warning(..) => "warning",
            Reason::Attribute(..) => "smart-attribute",
            Reason::SpareLow(..) => "spare-low",
            Reason::Degraded => "degraded",
            Reason::ReadOnly => "read-only",
            Reason::BackupFailed => "backup-failed",
            Reason::State(_) => "state",
            Reason::NoSize => "no-size",
            Reason::EnclosureFault => "enclosure-fault",
            Reason::EnclosureExpects => "enclosure-expects-failure",
            Reason::EnclosureSays(_) => "enclosure-status",
            Reason::Off => "off",
            Reason::LostSince(..) => "data-lost-since",
            Reason::Lost(..) => "data-lost",
            Reason::DefectsSince(..) => "defects-since",
            Reason::Defects(..) => "defects",
            Reason::LinkSince(..) => "link-errors-since",
            Reason::Link(..) => "link-errors",
            Reason::OtherSince(..) => "errors-since",
            Reason::Hot(..) => "hot",
            Reason::TooHot(..) => "too-hot",
            Reason::Worn(_) => "worn",
            Reason::FewPaths(..) => "few-paths",
            Reason::Slow(..) => "slow-link",
            Reason::NotAsked(_) => "not-asked",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gbit = |megabits: u32| f64::from(megabits) / 1_000.0;
        match self {
            Reason::FailureExpected(code, qualifier) => {
                write!(f, "the disk expects to fail ({code:02X}h/{qualifier:02X}h)")
            }
            Reason::Warning(code, qualifier) => write!(f, "the disk warns ({code:02X}h/{qualifier:02X}h)"),
            Reason::Attribute(id, value, threshold) => {
                write!(f, "SMART attribute {id} has fallen to {value}, its threshold is {threshold}")
            }
            Reason::SpareLow(left, threshold) => {
                write!(f, "{left} % of the spare capacity are left, the threshold is {threshold} %")
            }
            Reason::Degraded => f.write_str("the drive says that its reliability is degraded"),
            Reason::ReadOnly => f.write_str("the drive can only be read"),
            Reason::BackupFailed => f.write_str("the drive no longer keeps its cache over a loss of power"),
            Reason::State(state) => write!(f, "the kernel has it as '{state}'"),
            Reason::NoSize => f.write_str("it says that it has no size"),
            Reason::EnclosureFault => f.write_str("the enclosure has noticed a fault"),
            Reason::EnclosureExpects => f.write_str("the enclosure expects a failure"),
            Reason::EnclosureSays(code) => write!(f, "the enclosure says '{code}' of its slot"),
            Reason::Off => f.write_str("its slot has no power"),
            Reason::LostSince(counter, by)
            | Reason::DefectsSince(counter, by)
            | Reason::LinkSince(counter, by)
            | Reason::OtherSince(counter, by) => write!(f, "{counter}: {by} more"),
            Reason::Lost(counter, count) | Reason::Defects(counter, count) | Reason::Link(counter, count) => {
                write!(f, "{counter}: {count} so far")
            }
            Reason::Hot(celsius, limit) => write!(f, "{celsius} °C, of {limit} °C at most"),
            Reason::TooHot(celsius, limit) => write!(f, "{celsius} °C, more than the {limit} °C it may have"),
            Reason::Worn(percent) => write!(f, "{percent} % of its life are used"),
            Reason::FewPaths(own, others) => {
                write!(f, "{own} of {others} paths that other disks beside it have")
            }
            Reason::Slow(own, others) => {
                write!(f, "its link runs at {} Gbit/s, others of its model at {}", gbit(*own), gbit(*others))
            }
            Reason::NotAsked(why) => write!(f, "not asked how it is: {why}"),
        }
    }
}

/// How a disk is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskHealth {
    /// Of [`Machine::disks`].
    pub disk: usize,
    /// What is to be done.
    pub verdict: Verdict,
    /// Why, the worst first.
    pub reasons: Vec<Reason>,
}

/// Something beside disks that is to be looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A link that is narrower or slower than it could be: where, as it is, as it could be.
    Degraded(Hop, String, String),
    /// A part of an enclosure: the enclosure's number, the kind, the name, how it is, its value.
    Part(usize, ElementKind, String, ElementCode, Option<String>),
    /// Slots whose disk this machine does not see: the enclosure's number, and their numbers.
    Hidden(usize, Vec<u32>),
    /// The driver of a host does not show SAS objects.
    Blind(String),
    /// An enclosure could not be asked: its number, the device, why.
    NotAsked(usize, String, String),
    /// A disk that was there is gone.
    Gone(String),
    /// Errors of a link that is shared: the phy, the counter, by how much.
    LinkSince(String, Counter, u64),
    /// Errors of a link of PCI Express: the function, and by how much: corrected, not fatal, fatal.
    PciSince(String, [u64; 3]),
}

impl Finding {
    /// A word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Finding::Degraded(..) => "degraded-link",
            Finding::Part(..) => "enclosure-part",
            Finding::Hidden(..) => "hidden-disks",
            Finding::Blind(_) => "no-sas-objects",
            Finding::NotAsked(..) => "enclosure-not-asked",
            Finding::Gone(_) => "disk-gone",
            Finding::LinkSince(..) => "link-errors-since",
            Finding::PciSince(..) => "pci-errors-since",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Degraded(Hop::Pci(name) | Hop::Port(name), now, possible) => {
                write!(f, "link {name} runs with {now}, it could have {possible}: look at cable or slot")
            }
            Finding::Part(enclosure, kind, name, code, value) => {
                write!(f, "enclosure {enclosure}: {kind} '{name}' is {code}")?;
                value.as_ref().map_or(Ok(()), |value| write!(f, " ({value})"))
            }
            Finding::Hidden(enclosure, slots) => {
                let shown: Vec<String> = slots.iter().take(12).map(ToString::to_string).collect();
                let more = if slots.len() > shown.len() { ", ..." } else { "" };
                let (slots, shown) = (slots.len(), shown.join(", "));
                write!(
                    f,
                    "enclosure {enclosure}: {slots} disks are there that no path of this machine leads to: \
                    zoning, or a lost path (slots {shown}{more})"
                )
            }
            Finding::Blind(host) => write!(
                f,
                "{host}: its driver shows no SAS links; widths are not known (newer \
                kernels show them)"
            ),
            Finding::NotAsked(enclosure, device, why) => write!(f, "enclosure {enclosure}, {device}: {why}"),
            Finding::Gone(key) => write!(f, "disk {key} was there and is gone"),
            Finding::LinkSince(phy, counter, by) => {
                write!(f, "{phy}, {counter}: {by} more; look at the cable")
            }
            Finding::PciSince(address, [corrected, nonfatal, fatal]) => write!(
                f,
                "PCI {address}: errors of its link: \
                {corrected} more corrected, {nonfatal} not fatal, {fatal} fatal"
            ),
        }
    }
}

/// How a machine is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Of each disk, in the order of the machine's.
    pub disks: Vec<DiskHealth>,
    /// What else is to be looked at.
    pub findings: Vec<Finding>,
}

impl Health {
    /// Judges a machine, and what has grown since another look if there was one.
    #[must_use]
    pub fn of(machine: &Machine, since: Option<&Since>) -> Health {
        let peers = Peers::of(machine);
        let one = |(at, disk): (usize, &Disk)| {
            let mut reasons = Vec::new();
            of_answers(disk, &mut reasons);
            of_kernel(disk, &mut reasons);
            of_slot(machine, disk, &mut reasons);
            of_counters(disk, since, &mut reasons);
            of_heat(disk, &mut reasons);
            peers.judge(disk, &mut reasons);
            reasons.sort_by_key(|reason| (std::cmp::Reverse(reason.verdict()), reason.clone()));
            let verdict = reasons.iter().map(Reason::verdict).max().unwrap_or(Verdict::Good);
            DiskHealth { disk: at, verdict, reasons }
        };
        let disks = machine.disks.iter().enumerate().map(one).collect();
        Health { disks, findings: findings(machine, since) }
    }

    /// How many disks have each verdict.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Verdict, usize> {
        let mut counts = BTreeMap::new();
        self.disks.iter().for_each(|disk| *counts.entry(disk.verdict).or_default() += 1);
        counts
    }
}

fn of_answers(disk: &Disk, reasons: &mut Vec<Reason>) {
    match &disk.answered {
        Answered::Nothing(why) => reasons.push(Reason::NotAsked(why.clone())),
        Answered::Nvme(log) => {
            let has = |bit| log.critical_warning & bit != 0;
            if has(SmartLog::SPARE_LOW) {
                reasons.push(Reason::SpareLow(log.spare_percent, log.spare_threshold_percent));
            }
            if has(SmartLog::DEGRADED) {
                reasons.push(Reason::Degraded);
            }
            if has(SmartLog::READ_ONLY) {
                reasons.push(Reason::ReadOnly);
            }
            if has(SmartLog::BACKUP_FAILED) {
                reasons.push(Reason::BackupFailed);
            }
            worn(log.used_percent, reasons);
        }
        Answered::Scsi(answers) => {
            let informational = answers.pages.get(&page::INFORMATIONAL).and_then(disk::Informational::of_log);
            if let Some(told) = informational {
                if told.is_failure_expected() {
                    reasons.push(Reason::FailureExpected(told.code, told.qualifier));
                } else if told.is_warning() {
                    reasons.push(Reason::Warning(told.code, told.qualifier));
                }
            }
            if let Some(percent) = answers.pages.get(&page::SOLID_STATE).and_then(disk::life_used) {
                worn(percent, reasons);
            }
            for attribute in answers.smart.iter().filter(|attribute| attribute.is_prefailure()) {
                let limit = answers.thresholds.iter().find(|(id, _)| *id == attribute.id);
                // A threshold of zero is one that never falls; a value of zero is one that is not told.
                if let Some((_, limit)) = limit.filter(|(_, limit)| *limit != 0 && attribute.value != 0)
                    && attribute.value <= *limit
                {
                    reasons.push(Reason::Attribute(attribute.id, attribute.value, *limit));
                }
            }
        }
    }
}

fn worn(percent: u8, reasons: &mut Vec<Reason>) {
    if percent >= WORN_WATCH {
        reasons.push(Reason::Worn(percent));
    }
}

fn of_kernel(disk: &Disk, reasons: &mut Vec<Reason>) {
    let states = disk.paths.iter().filter_map(|path| path.state.as_deref());
    for state in states.filter(|state| !matches!(*state, "running" | "live")) {
        let reason = Reason::State(state.to_owned());
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if disk.size == Some(0) {
        reasons.push(Reason::NoSize);
    }
}

fn of_slot(machine: &Machine, disk: &Disk, reasons: &mut Vec<Reason>) {
    let Some((_, slot)) = machine.slot_of(disk) else { return };
    if slot.fault_sensed {
        reasons.push(Reason::EnclosureFault);
    }
    if slot.failure_predicted {
        reasons.push(Reason::EnclosureExpects);
    }
    if slot.off {
        reasons.push(Reason::Off);
    }
    if let Some(code) = slot.code
        && matches!(code, ElementCode::Critical | ElementCode::Noncritical | ElementCode::Unrecoverable)
    {
        reasons.push(Reason::EnclosureSays(code));
    }
}

fn of_counters(disk: &Disk, since: Option<&Since>, reasons: &mut Vec<Reason>) {
    let grown = since.and_then(|since| since.disks.get(&disk.key));
    for (counter, count) in &disk.counters.0 {
        let by =
            grown.and_then(|grown| grown.get(counter)).and_then(|growth| growth.by()).filter(|by| *by > 0);
        let reason = match by {
            Some(by) if counter.is_loss() => Reason::LostSince(*counter, by),
            Some(by) if counter.is_defect() => Reason::DefectsSince(*counter, by),
            Some(by) if counter.is_link() => Reason::LinkSince(*counter, by),
            Some(by) => Reason::OtherSince(*counter, by),
            None if *count == 0 => continue,
            None if counter.is_loss() => Reason::Lost(*counter, *count),
            None if counter.is_defect() => Reason::Defects(*counter, *count),
            // What was counted at some time says little; what grows is what counts.
            None if since.is_none() && counter.is_link() && *count >= LINK_ERRORS_TOLD => {
                Reason::Link(*counter, *count)
            }
            None => continue,
        };
        reasons.push(reason);
    }
}

fn of_heat(disk: &Disk, reasons: &mut Vec<Reason>) {
    let Some(celsius) = disk.celsius else { return };
    let hot = match &disk.answered {
        Answered::Nvme(log) => log.critical_warning & SmartLog::TEMPERATURE != 0,
        _ => false,
    };
    match disk.celsius_max {
        Some(limit) if celsius > limit => reasons.push(Reason::TooHot(celsius, limit)),
        Some(limit) if celsius > limit - HOT_MARGIN => reasons.push(Reason::Hot(celsius, limit)),
        None if disk.kind == DiskKind::Nvme && !hot => {}
        None if celsius >= HOT_ASSUMED || hot => reasons.push(Reason::Hot(celsius, HOT_ASSUMED)),
        _ => {}
    }
}

/// Vendor and model.
type Model = (Option<String>, Option<String>);

/// Disks that are connected in the same way, unless something is wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbours {
    /// Those of an enclosure.
    Enclosure(usize),
    /// Those of a model, of disks that no enclosure tells of.
    Model(Model),
}

impl Neighbours {
    fn of(disk: &Disk) -> Neighbours {
        let model = || Neighbours::Model((disk.vendor.clone(), disk.model.clone()));
        disk.place.map_or_else(model, |place| Neighbours::Enclosure(place.enclosure))
    }
}

/// What other disks have.
struct Peers {
    /// The fastest link of each model.
    rates: BTreeMap<Model, u32>,
    /// The most paths that more than half of the neighbours have.
    paths: BTreeMap<Neighbours, usize>,
}

impl Peers {
    fn of(machine: &Machine) -> Peers {
        let mut rates: BTreeMap<_, u32> = BTreeMap::new();
        let mut counts: BTreeMap<Neighbours, BTreeMap<usize, usize>> = BTreeMap::new();
        for disk in &machine.disks {
            let fastest = rates.entry((disk.vendor.clone(), disk.model.clone())).or_default();
            let own = disk.paths.iter().filter_map(|path| path.megabits).max();
            *fastest = own.unwrap_or(0).max(*fastest);
            *counts.entry(Neighbours::of(disk)).or_default().entry(disk.paths.len()).or_default() += 1;
        }
        let most = |counts: BTreeMap<usize, usize>| {
            let all: usize = counts.values().sum();
            counts.into_iter().rev().find(|(_, count)| count * 2 > all).map(|(paths, _)| paths)
        };
        let paths = counts.into_iter().filter_map(|(at, counts)| Some((at, most(counts)?))).collect();
        Peers { rates, paths }
    }

    fn judge(&self, disk: &Disk, reasons: &mut Vec<Reason>) {
        let most = self.paths.get(&Neighbours::of(disk)).copied().unwrap_or(0);
        if disk.paths.len() < most {
            reasons.push(Reason::FewPaths(disk.paths.len(), most));
        }
        let fastest = self.rates.get(&(disk.vendor.clone(), disk.model.clone())).copied().unwrap_or(0);
        // A link that cannot be faster at its other end is no fault of the disk's.
        let slow = disk.paths.iter().filter_map(|path| {
            let possible = fastest.min(path.megabits_max.unwrap_or(fastest));
            path.megabits.filter(|own| *own < possible).map(|own| (own, possible))
        });
        if let Some((own, possible)) = slow.min().filter(|_| disk.model.is_some()) {
            reasons.push(Reason::Slow(own, possible));
        }
    }
}

fn findings(machine: &Machine, since: Option<&Since>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in bottlenecks(machine, Rates::default()).links.into_iter().filter(|row| row.is_degraded()) {
        let words = |width: &crate::bottleneck::Width| width.words(row.kind);
        findings.push(Finding::Degraded(row.hop.clone(), words(&row.now), words(&row.possible)));
    }
    for host in in_order(&machine.hosts) {
        let has_disks = || {
            let of_host = |path: &crate::machine::Path| path.host.as_deref() == Some(host.name.as_str());
            machine.disks.iter().any(|disk| disk.paths.iter().any(of_host))
        };
        if host.kind == crate::machine::HostKind::Sas && !host.has_sas_objects && has_disks() {
            findings.push(Finding::Blind(host.name.clone()));
        }
    }
    for (at, enclosure) in machine.enclosures.iter().enumerate() {
        for element in &enclosure.elements {
            let is_well =
                matches!(element.code, ElementCode::Ok | ElementCode::Unknown | ElementCode::NotAvailable);
            if !is_well || element.failure_predicted {
                let (name, value) = (element.name.clone(), element.value.clone());
                findings.push(Finding::Part(at, element.kind, name, element.code, value));
            }
        }
        let hidden = enclosure.slots.iter().filter(|slot| slot.state() == SlotState::Hidden);
        let hidden: Vec<u32> = hidden.map(|slot| slot.number).collect();
        if !hidden.is_empty() {
            findings.push(Finding::Hidden(at, hidden));
        }
        if enclosure.services.iter().all(|one| one.pages.is_err())
            && let Some((device, Err(why))) = enclosure.services.first().map(|one| (&one.device, &one.pages))
        {
            findings.push(Finding::NotAsked(at, device.clone(), why.clone()));
        }
    }
    let Some(since) = since else { return findings };
    findings.extend(since.gone.iter().map(|key| Finding::Gone(key.to_string())));
    for (phy, grown) in &since.phys {
        // Those of single disks are told with the disks.
        let leads_on = machine.phys.get(phy).and_then(|phy| machine.ports.get(phy.port.as_ref()?));
        if leads_on.is_none_or(|port| port.expander.is_some()) {
            let grown = grown.iter().filter_map(|(counter, growth)| Some((*counter, growth.by()?)));
            findings.extend(grown.map(|(counter, by)| Finding::LinkSince(phy.clone(), counter, by)));
        }
    }
    for (address, grown) in &since.pci {
        let by = grown.map(|growth| growth.and_then(|growth| growth.by()).unwrap_or(0));
        if by != [0; 3] {
            findings.push(Finding::PciSince(address.clone(), by));
        }
    }
    findings
}
