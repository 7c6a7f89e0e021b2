//! One look of `kist disk watch`.
//!
//! In this order: what takes the place of lost drives, lights, and what the server is told. Each step is
//! known again by the next look if this process is killed after it: a file system that was made by its UUID,
//! one that is mounted by where it is, a light by what the server has recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use archive::DriveLocation;
use base::Blake3;
use client::Client;
use drive::BurnInDemand;
use probe::Recorded;
use probe::blank::{self, NotMade};
use terminal::{Exit, Failure, Outcome};
use topology::counters::Since;
use topology::health::{DiskHealth, Health};
use topology::takeover::{DiskInSlot, LostDrive, Policy, SlotId, Taken, disk_in_slot, slot_at, take_over};
use topology::{Machine, Slot};
use wire::{
    DiskReasonWire, DiskReportBody, DiskWaitsWire, DiskWatchReply, DisksFoundBody, DisksFoundReply,
    DriveDiskReply, DriveLightBody, DriveSlotWire, FoundDiskBody, ReplaceReply, TakeOverBody,
    WatchedDriveReply,
};

use super::disk_watch_burn_in::{BurnIns, Newcomer};

/// A disk that was found not to be blank is read again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// What a look says.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line {
    /// Of which drive; `None`: of all.
    pub drive: Option<u16>,
    /// A word for programs.
    pub what: &'static str,
    /// For people.
    pub text: String,
}

impl Line {
    /// A line of no single drive.
    pub fn of_all(what: &'static str, text: String) -> Line {
        Line { drive: None, what, text }
    }
}

/// Disks that were found not to be blank, and when.
type Refusals = BTreeMap<String, (Instant, DiskWaitsWire)>;

/// What a look leaves to the next one.
#[derive(Default)]
pub struct Memory {
    refusals: Refusals,
    /// Disks that are burnt in.
    pub burn_ins: BurnIns,
}

/// A look.
pub struct Pass<'a> {
    /// The server.
    pub client: &'a Client,
    /// The machine as it is.
    pub recorded: &'a Recorded,
    /// As it was when this began.
    pub first: Option<&'a Machine>,
    /// File systems are made and mounted, lights switched, drives replaced.
    pub acts: bool,
    /// The server is told.
    pub tells: bool,
    /// The machine is this one.
    pub is_here: bool,
}

/// What is said and told.
#[derive(Default)]
struct Told {
    lines: BTreeSet<Line>,
    reports: BTreeMap<u16, DiskReportBody>,
}

impl Told {
    fn say(&mut self, drive: u16, what: &'static str, text: String) {
        self.lines.insert(Line { drive: Some(drive), what, text });
    }

    fn report(&mut self, drive: u16) -> &mut DiskReportBody {
        self.reports.entry(drive).or_insert(DiskReportBody { drive, found: None, waits: None })
    }

    fn waits(&mut self, drive: u16, waits: DiskWaitsWire) {
        self.say(drive, "waits", format!("nothing takes its place: {}", waits.text));
        self.report(drive).waits = Some(waits);
    }
}

impl Pass<'_> {
    /// Looks, does what is to be done, and tells the server.
    pub fn run(&self, memory: &mut Memory) -> Outcome<BTreeSet<Line>> {
        let watch: DiskWatchReply = self.client.get("/api/v1/pool/disks")?;
        self.check_machine(&watch)?;
        let mut told = Told::default();
        self.find(&watch, &mut told);
        memory.burn_ins.begin_look();
        self.replace(&watch, memory, &mut told);
        memory.burn_ins.end_look();
        for drive in &watch.drives {
            self.light(drive, &mut told);
        }
        self.tell(told)
    }

    /// Another machine has other disks under the same directories.
    fn check_machine(&self, watch: &DiskWatchReply) -> Outcome {
        let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        match !self.is_here || !watch.boot.is_empty() && watch.boot == own.trim() {
            true => Ok(()),
            false => Err(Failure::new(
                Exit::Refused,
                "the server runs on another machine: disks are watched on its own",
            )),
        }
    }

    fn tell(&self, told: Told) -> Outcome<BTreeSet<Line>> {
        let Told { mut lines, reports } = told;
        if self.tells {
            let body = DisksFoundBody { drives: reports.into_values().collect() };
            let reply: DisksFoundReply = self.client.post_for("/api/v1/pool/disks", &body)?;
            if let Some(drive) = reply.drained {
                let text = "its disk foretells its failure: the server empties it".to_owned();
                lines.insert(Line { drive: Some(drive), what: "drained", text });
            }
        }
        Ok(lines)
    }

    /// The disk under each drive that works.
    fn find(&self, watch: &DiskWatchReply, told: &mut Told) {
        let machine = &self.recorded.machine;
        let since = self.first.map(|first| Since::of(first, machine));
        let health = Health::of(machine, since.as_ref());
        for drive in watch.drives.iter().filter(|drive| drive.up) {
            match self.disk_under(drive, &watch.instance) {
                Ok(at) => {
                    let judged = health.disks.iter().find(|judged| judged.disk == at);
                    self.found(drive.id, at, judged, told);
                }
                Err(why) => {
                    told.say(drive.id, "no-disk", format!("it is not known on which disk it is: {why}"));
                }
            }
        }
    }

    /// Which disk, if the directory holds this drive and no other.
    fn disk_under(&self, drive: &WatchedDriveReply, instance: &str) -> Result<usize, String> {
        let place = Path::new(&drive.path);
        let at = DriveLocation::parse(place, Path::new("")).map_err(|error| error.to_string())?;
        if !at.is_directory() {
            return Err("it is a drive of the network".to_owned());
        }
        let stamp = at.read_stamp().map_err(|error| error.to_string())?;
        if stamp.drive.0 != drive.id || stamp.instance.to_string() != instance {
            return Err(format!("{} holds drive {} of another instance or number", drive.path, stamp.drive));
        }
        let path = real(place);
        let mounts = &self.recorded.mounts;
        let mount = mounts.over(&path).ok_or("what is mounted cannot be read")?;
        let (disk, _) = mounts.disk_of(&self.recorded.machine, mount).map_err(|error| error.to_string())?;
        Ok(disk)
    }

    fn found(&self, id: u16, at: usize, judged: Option<&DiskHealth>, told: &mut Told) {
        let machine = &self.recorded.machine;
        let Some(disk) = machine.disks.get(at) else { return };
        let name = disk.key.to_string();
        let slot = disk_in_slot(machine, at);
        let verdict = judged.map_or_else(|| "unknown".to_owned(), |judged| judged.verdict.to_string());
        let reasons = judged.map_or_else(Vec::new, |judged| {
            let reason = |one: &topology::health::Reason| DiskReasonWire {
                reason: one.word().to_owned(),
                text: one.to_string(),
                predicts: one.predicts(),
            };
            judged.reasons.iter().map(reason).collect()
        });
        let where_ = match &slot {
            Ok(found) => found.slot.to_string(),
            Err(why) => format!("in no known slot: {why}"),
        };
        let why: String = reasons.iter().map(|reason| format!("; {}", reason.text)).collect();
        told.say(id, "found", format!("on {name} ({}), {where_}: {verdict}{why}", disk.name()));
        let slot = slot.ok().map(|found| slot_wire(found.slot));
        told.report(id).found = Some(FoundDiskBody { disk: name, slot, verdict, reasons });
    }

    /// What takes the place of each lost drive.
    fn replace(&self, watch: &DiskWatchReply, memory: &mut Memory, told: &mut Told) {
        let lost: Vec<&WatchedDriveReply> = watch.drives.iter().filter(|drive| drive.lost).collect();
        let policy = match watch.replace.as_str() {
            "mounted" => Policy::Mounted,
            "blank" => Policy::Blank,
            _ => Policy::No,
        };
        let facts: Vec<LostDrive> = lost.iter().map(|drive| lost_drive(drive)).collect();
        let known = |drive: &WatchedDriveReply| Some((drive.id, drive.disk.as_ref()?.disk.clone()));
        let mut others: Vec<(u16, String)> = watch.drives.iter().filter_map(known).collect();
        // What is under a drive now may be newer than what the server has recorded.
        others.extend(
            told.reports.values().filter_map(|one| Some((one.drive, one.found.as_ref()?.disk.clone()))),
        );
        let Recorded { machine, mounts, .. } = self.recorded;
        let taken = take_over(machine, mounts, &facts, &others, policy);
        for (drive, taken) in lost.into_iter().zip(taken) {
            let done = match (&watch.holds, taken) {
                (Some(holds), _) => Err(holds.clone()),
                (None, Err(left)) => Err(waits(left.word(), left.to_string())),
                (None, Ok(taken)) => self.take(watch, drive, &taken, memory, told),
            };
            if let Err(waits) = done {
                told.waits(drive.id, waits);
            }
        }
    }

    /// Has a disk take the place of a lost drive's.
    fn take(
        &self,
        watch: &DiskWatchReply,
        drive: &WatchedDriveReply,
        taken: &Taken,
        memory: &mut Memory,
        told: &mut Told,
    ) -> Result<(), DiskWaitsWire> {
        let machine = &self.recorded.machine;
        let (Taken::Mounted { disk, .. } | Taken::Disk { disk, .. }) = taken;
        let found = disk_in_slot(machine, *disk).map_err(|why| waits("unproven", why.to_string()))?;
        let uuid = own_uuid(&watch.instance, drive.id, &found.disk);
        let directory = PathBuf::from(real(Path::new(&drive.path)));
        let name = machine.disks.get(*disk).map_or("", |disk| disk.name());
        if !self.acts {
            let does = match taken {
                Taken::Mounted { .. } => "its empty file system would take its place",
                Taken::Disk { .. } => "a file system would be made on it if it is blank, and take its place",
            };
            let before = match watch.replace_burn_in.as_str() {
                "off" => String::new(),
                demand => format!(", once its burn-in ({demand}) is passed"),
            };
            told.say(drive.id, "would", format!("{} ({name}), {}: {does}{before}", found.disk, found.slot));
            return Ok(());
        }
        if let Taken::Disk { device, unmount, .. } = taken {
            make(&mut memory.refusals, &found.disk, device, &uuid, unmount.then_some(&directory))?;
            if !DriveLocation::parse(&directory, Path::new("")).is_ok_and(|at| at.is_vacant()) {
                let what =
                    format!("something stands in {} below what was mounted there", directory.display());
                return Err(waits("not-empty", what));
            }
            blank::mount(device, &directory).map_err(|error| not_made(&error))?;
            told.say(
                drive.id,
                "made",
                format!(
                    "an XFS was made on {} ({name}), {}, and mounted at {}; for the next start of the \
                     machine /etc/fstab wants: UUID={uuid} {} xfs defaults,nofail 0 0",
                    found.disk,
                    found.slot,
                    directory.display(),
                    directory.display()
                ),
            );
        }
        let serial = machine.disks.get(*disk).and_then(|disk| disk.serial.as_deref());
        let words = match serial {
            None => format!("{} in {}", found.disk, found.slot),
            Some(serial) => format!("serial {serial} in {}", found.slot),
        };
        let newcomer = Newcomer { disk: &found.disk, words: &words, directory: &directory };
        self.burn_in(watch, drive.id, newcomer, memory, told)?;
        self.hand_over(watch, drive, &found, &directory, &uuid, told)
    }

    /// Demands of a disk that is mounted what kist.toml wants of its burn-in.
    fn burn_in(
        &self,
        watch: &DiskWatchReply,
        drive: u16,
        newcomer: Newcomer<'_>,
        memory: &mut Memory,
        told: &mut Told,
    ) -> Result<(), DiskWaitsWire> {
        let demand = BurnInDemand::parse(&watch.replace_burn_in).unwrap_or_default();
        let passed = memory.burn_ins.passed(newcomer, demand);
        if let Some(said) = memory.burn_ins.said(newcomer.disk) {
            told.say(drive, "burn-in", format!("{}: {said}", newcomer.words));
        }
        passed.map_err(|why| waits(why.word, why.text))
    }

    /// Tells the server that the new disk is there: it makes a drive of what is mounted, if it finds it so.
    fn hand_over(
        &self,
        watch: &DiskWatchReply,
        drive: &WatchedDriveReply,
        found: &DiskInSlot,
        directory: &Path,
        uuid: &str,
        told: &mut Told,
    ) -> Result<(), DiskWaitsWire> {
        let failed = |error: std::io::Error| waits("failed", format!("{}: {error}", directory.display()));
        let about = fs::metadata(directory).map_err(failed)?;
        let (major, minor) = (rustix::fs::major(about.dev()), rustix::fs::minor(about.dev()));
        // What was made here belongs to root still; what somebody else has mounted is his affair.
        let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).map_err(failed)?;
        let device = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if about.uid() != watch.uid && blank::is_own(&device, uuid) {
            chown(directory, Some(watch.uid), Some(watch.gid)).map_err(failed)?;
        }
        let body = TakeOverBody { disk: found.disk.clone(), slot: slot_wire(found.slot), major, minor };
        let target = format!("/api/v1/pool/drives/{}/take-over", drive.id);
        let done: Outcome<ReplaceReply> = self.client.post_for(&target, &body);
        done.map_err(|failure| waits("refused", failure.message))?;
        told.say(drive.id, "replaced", format!("{}, {}, has taken its place", found.disk, found.slot));
        Ok(())
    }

    /// Switches the light of a drive's slot. A light that somebody else switched on is left on.
    fn light(&self, drive: &WatchedDriveReply, told: &mut Told) {
        let Some(disk) = &drive.disk else { return };
        let (lit, wanted) = (slot_of(disk.light.as_ref()), slot_of(disk.slot.as_ref()));
        // One that was taken out of the pool needs no light once its disk is pulled: nothing takes its place.
        let is_there = self.recorded.machine.disks.iter().any(|one| one.key.to_string() == disk.disk);
        let is_done = !drive.up && !drive.lost && !is_there;
        let wanted = wanted.filter(|_| disk.wants_light && !is_done);
        if let Some(lit) = lit.filter(|lit| Some(*lit) != wanted) {
            self.switch(drive.id, lit, false, true, told);
        } else if let Some(wanted) = wanted {
            self.switch(drive.id, wanted, true, lit.is_some(), told);
        }
    }

    fn switch(&self, drive: u16, id: SlotId, on: bool, is_own: bool, told: &mut Told) {
        let machine = &self.recorded.machine;
        let place = slot_at(machine, id);
        let found = place.and_then(|place| {
            let enclosure = machine.enclosures.get(place.enclosure)?;
            Some((enclosure, enclosure.slots.get(place.slot)?))
        });
        let Some((enclosure, slot)) = found else {
            told.say(drive, "no-light", format!("the light of {id} is to be switched, and is not there"));
            return;
        };
        // A recorded machine tells how it was: the lights of this one are nobody's concern then.
        let is_lit = match self.is_here {
            true => probe::is_lit(enclosure, slot),
            false => Some(slot.locate),
        };
        match (on, is_lit) {
            (true, Some(true)) => {
                let whose = if is_own { "its disk is to be pulled" } else { "somebody has switched it on" };
                return told.say(drive, "light", format!("the light of {id} is on: {whose}"));
            }
            (true, None) => {
                let what = format!("whether the light of {id} is on cannot be told: it is not switched");
                return told.say(drive, "no-light", what);
            }
            _ => {}
        }
        let word = if on { "on" } else { "off" };
        if !self.acts {
            told.say(drive, "would", format!("the light of {id} would be switched {word}"));
            return;
        }
        // Recorded before it goes on, and after it is off: what this process did it knows again.
        let done = match on {
            true => self.record_light(drive, Some(id)).and_then(|()| switched(enclosure, slot, on)),
            false => switched(enclosure, slot, on).and_then(|()| self.record_light(drive, None)),
        };
        match done {
            Ok(()) => told.say(drive, "light", format!("the light of {id} was switched {word}")),
            Err(why) => {
                if on && !is_own {
                    // It is not on, and is not to be switched off later.
                    let _ = self.record_light(drive, None);
                }
                told.say(drive, "no-light", format!("the light of {id} was not switched {word}: {why}"));
            }
        }
    }

    fn record_light(&self, drive: u16, slot: Option<SlotId>) -> Result<(), String> {
        let body = DriveLightBody { slot: slot.map(slot_wire) };
        let done = self.client.post(&format!("/api/v1/pool/drives/{drive}/light"), &body);
        done.map(drop).map_err(|failure| failure.message)
    }
}

fn switched(enclosure: &topology::Enclosure, slot: &Slot, on: bool) -> Result<(), String> {
    probe::locate(enclosure, slot, on).map(drop).map_err(|error| error.to_string())
}

/// Makes the file system of a new drive, or finds the one that was made before.
fn make(
    refusals: &mut Refusals,
    disk: &str,
    device: &str,
    uuid: &str,
    unmount: Option<&PathBuf>,
) -> Result<(), DiskWaitsWire> {
    let known = refusals.get(disk).filter(|(when, _)| when.elapsed() < LOOK_AGAIN);
    if let Some((_, waits)) = known {
        return Err(waits.clone());
    }
    let made = blank::file_system(device, uuid, drive::holds_nothing).and_then(|()| match unmount {
        Some(directory) => blank::unmount(directory),
        None => Ok(()),
    });
    made.map_err(|error| {
        let waits = not_made(&error);
        if matches!(
            error,
            NotMade::Standing(..) | NotMade::Small(_) | NotMade::HalfMade(_) | NotMade::NotEmpty(_)
        ) {
            refusals.insert(disk.to_owned(), (Instant::now(), waits.clone()));
        }
        waits
    })
}

fn not_made(error: &NotMade) -> DiskWaitsWire {
    waits(error.word(), error.to_string())
}

fn waits(reason: &str, text: String) -> DiskWaitsWire {
    DiskWaitsWire { reason: reason.to_owned(), text }
}

fn lost_drive(drive: &WatchedDriveReply) -> LostDrive {
    let place = Path::new(&drive.path);
    let at = DriveLocation::parse(place, Path::new(""));
    LostDrive {
        id: drive.id,
        was: drive.disk.as_ref().and_then(was),
        directory: real(place),
        is_empty: at.is_ok_and(|at| at.is_directory() && at.is_vacant()),
    }
}

fn was(disk: &DriveDiskReply) -> Option<DiskInSlot> {
    Some(DiskInSlot { slot: slot_of(disk.slot.as_ref())?, disk: disk.disk.clone() })
}

/// A path without links; of one that cannot be followed, as where a disk is gone, as it is.
fn real(path: &Path) -> String {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn slot_of(slot: Option<&DriveSlotWire>) -> Option<SlotId> {
    let slot = slot?;
    Some(SlotId { enclosure: u64::from_str_radix(&slot.enclosure, 16).ok()?, number: slot.number })
}

fn slot_wire(slot: SlotId) -> DriveSlotWire {
    DriveSlotWire { enclosure: format!("{:016x}", slot.enclosure), number: slot.number }
}

/// The UUID of the file system that is made for a drive on a disk: the same each time, by which a look knows
/// again what one before it has made.
fn own_uuid(instance: &str, drive: u16, disk: &str) -> String {
    let Blake3(mut bytes) = Blake3::of(format!("kist disk watch\n{instance}\n{drive}\n{disk}").as_bytes());
    // Version 8, of nobody's scheme (RFC 9562, 5.8).
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = *version & 0x0f | 0x80;
    *variant = *variant & 0x3f | 0x80;
    let hex: String = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| hex.get(part).unwrap_or_default().to_owned()).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_its_own_has_the_same_uuid_each_time_and_no_two_drives_have_one() {
        let one = own_uuid("i", 3, "naa.5");
        assert_eq!(one, own_uuid("i", 3, "naa.5"));
        for other in [own_uuid("j", 3, "naa.5"), own_uuid("i", 4, "naa.5"), own_uuid("i", 3, "naa.6")] {
            assert_ne!(one, other);
        }
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'8'));
        assert!(b"89ab".contains(&one.as_bytes()[19]) && one.matches('-').count() == 4);
    }

    #[test]
    fn slots_are_the_same_on_both_ways() {
        let slot = SlotId { enclosure: 0x5000_ccab, number: 7 };
        let wire = slot_wire(slot);
        assert_eq!(wire.enclosure, "000000005000ccab");
        assert_eq!(slot_of(Some(&wire)), Some(slot));
        assert_eq!(slot_of(Some(&DriveSlotWire { enclosure: "x".into(), number: 7 })), None);
    }
}
