//! `kist pool drive add` of a disk: the directory at which it is mounted.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use client::Client;
use probe::Recorded;
use probe::blank::{self, NotMade};
use terminal::{Exit, Failure, Outcome, output};
use topology::Machine;
use topology::drive_place::{NoPlace, drive_place};
use topology::takeover::disk_in_slot;
use wire::DiskWatchReply;

use super::disk;

/// The directory of what is to be added: what was named, or where the disk is mounted that was named.
pub fn directory(place: &Path, client: impl Fn() -> Outcome<Client>, quiet: bool) -> Outcome<PathBuf> {
    let is_device = is_block_device(place);
    if !is_device && is_of_devices(place) {
        return Err(Failure::new(
            Exit::NotFound,
            format!("{}: there is no such device: see kist disk ls", place.display()),
        ));
    }
    if !is_device && (place.exists() || place.is_absolute()) {
        return Ok(place.to_owned());
    }
    let look = probe::live(false);
    let (recorded, found) = (&look, found(&look.machine, place));
    let at = match found[..] {
        [at] => at,
        // A directory that is not there: what is to be said of it the server says.
        [] if !is_device && place.components().count() > 1 && !is_slot(place) => return Ok(place.to_owned()),
        // A bare word may be a serial number that nothing here has: it is made no directory.
        [] => return Err(no_disk(recorded, place)),
        [..] => {
            let what = format!("{} means several disks: name one by its serial number", place.display());
            return Err(Failure::usage(what));
        }
    };
    check_here(&client()?)?;
    let words = words(&recorded.machine, at);
    match drive_place(&recorded.machine, &recorded.mounts, at) {
        Ok(mount) => {
            if !quiet {
                output::note(&format!("{words} is mounted at {}", mount.point));
            }
            Ok(PathBuf::from(&mount.point))
        }
        Err(why) => Err(Failure::new(Exit::Refused, format!("{words}: {why}{}", next(&why, blankness)))),
    }
}

/// Whether a path stands where the system has its devices, and nothing else should.
fn is_of_devices(place: &Path) -> bool {
    let is_above = |directory: &str| place.parent() == Some(Path::new(directory));
    is_above("/dev") || is_above("/dev/mapper") || place.starts_with("/dev/disk")
}

/// Whether a path has the form of a slot, `ENCLOSURE/SLOT`.
fn is_slot(place: &Path) -> bool {
    let mut parts = place.iter();
    let is_number = |part: &std::ffi::OsStr| part.to_str().is_some_and(|text| text.parse::<u32>().is_ok());
    parts.clone().count() == 2 && parts.all(is_number)
}

fn is_block_device(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|found| found.file_type().is_block_device())
}

/// The disks that are meant: by a device, also through links such as those of `/dev/disk/by-id`, by serial
/// number, name in the world or slot.
fn found(machine: &Machine, place: &Path) -> Vec<usize> {
    let mut words = vec![place.to_string_lossy().into_owned()];
    if is_block_device(place) {
        words.extend(fs::canonicalize(place).map(|real| real.to_string_lossy().into_owned()));
    }
    for word in words {
        let mut found = machine.find(&word);
        for slot in machine.find_slots(&word) {
            let disk = machine.enclosures.get(slot.enclosure).and_then(|one| one.slots.get(slot.slot));
            found.extend(disk.and_then(|slot| slot.disk));
        }
        found.sort_unstable();
        found.dedup();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn no_disk(recorded: &Recorded, place: &Path) -> Failure {
    disk::tell(&recorded.machine);
    let what = "is no directory, and no whole disk of this machine has that name, serial number or slot \
                (kist disk ls): name the disk, or the directory where it is mounted; ./NAME is a \
                directory that is made";
    Failure::new(Exit::NotFound, format!("{} {what}", place.display()))
}

/// Where a disk is mounted on another machine says nothing of the server's.
fn check_here(client: &Client) -> Outcome {
    let watch: DiskWatchReply = client.get("/api/v1/pool/disks")?;
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match !watch.boot.is_empty() && watch.boot == own.trim() {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Refused,
            "the server runs on another machine: name the directory there, or say it on that machine",
        )),
    }
}

/// Which disk, for people.
fn words(machine: &Machine, at: usize) -> String {
    let Some(disk) = machine.disks.get(at) else { return String::new() };
    let serial = disk.serial.as_ref().map_or_else(String::new, |serial| format!(", serial {serial}"));
    let slot = disk_in_slot(machine, at).map_or_else(|_| String::new(), |found| format!(", {}", found.slot));
    format!("{} ({}{serial}{slot})", disk.key, disk.name())
}

/// Whether a device holds nothing, as far as this user may look.
fn blankness(device: &str) -> Result<(), NotMade> {
    blank::is_blank(device)
}

/// What to do next.
fn next(why: &NoPlace, is_blank: impl Fn(&str) -> Result<(), NotMade>) -> String {
    let NoPlace::Unmounted { device } = why else { return String::new() };
    let make = format!("mkfs.xfs /dev/{device}");
    let mount = format!("mount /dev/{device} DIRECTORY (in /etc/fstab by its UUID)");
    let again = "then add it again";
    let by_itself = "in the slot of a lost drive 'kist disk watch' does that (pool.replace = \"blank\")";
    match is_blank(device) {
        Ok(()) => format!(", and it is blank: {make}, {mount}, {again}; {by_itself}"),
        Err(NotMade::Standing(_, byte)) => format!(
            ", and something stands at byte {byte}: if it is a file system, {mount}, {again}; if nobody \
             wants it any more, wipefs -a /dev/{device}, {make} first"
        ),
        // Only root looks.
        Err(_) => {
            format!(": {make} if it is new and nobody wants what is on it, {mount}, {again}; {by_itself}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> Recorded {
        let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
        probe::open(&machines.join(format!("{name}.machine"))).unwrap()
    }

    #[test]
    fn a_disk_is_found_by_all_that_kist_disk_names_it_by() {
        let recorded = machine("me484-two-path");
        let machine = &recorded.machine;
        let at = machine.disks.iter().position(|disk| disk.place.is_some() && disk.serial.is_some()).unwrap();
        let disk = &machine.disks[at];
        let place = disk.place.unwrap();
        let slot = &machine.enclosures[place.enclosure].slots[place.slot];
        let mut words = vec![
            disk.key.to_string(),
            disk.serial.clone().unwrap(),
            format!("{}/{}", place.enclosure, slot.number),
        ];
        let blocks = disk.paths.iter().filter_map(|path| path.block.clone());
        words.extend(blocks.map(|block| format!("/dev/{block}")));
        assert!(words.len() >= 5, "{words:?}");
        for word in words {
            assert_eq!(found(machine, Path::new(&word)), [at], "{word}");
        }
        assert!(
            found(machine, Path::new("pool/d8")).is_empty() && found(machine, Path::new("d8")).is_empty()
        );
    }

    #[test]
    fn what_to_do_next_is_said_of_a_disk_that_is_not_mounted() {
        let unmounted = NoPlace::Unmounted { device: "sdd".into() };
        let blank = next(&unmounted, |_| Ok(()));
        assert!(blank.contains("it is blank: mkfs.xfs /dev/sdd, mount /dev/sdd"), "{blank}");
        let full = next(&unmounted, |_| Err(NotMade::Standing("sdd".into(), 1024)));
        assert!(
            full.contains("byte 1024: if it is a file system, mount") && !full.contains("blank"),
            "{full}"
        );
        let unknown = next(&unmounted, |_| Err(NotMade::Small("sdd".into())));
        assert!(unknown.contains("if it is new and nobody wants what is on it"), "{unknown}");
        assert_eq!(next(&NoPlace::Part("/".into()), |_| unreachable!()), "");
    }

    #[test]
    fn a_directory_is_taken_as_it_is() {
        let none = || -> Outcome<Client> { unreachable!("nobody is asked") };
        for path in ["/", "/not/there", "."] {
            assert_eq!(directory(Path::new(path), none, true).unwrap(), Path::new(path));
        }
    }
}
