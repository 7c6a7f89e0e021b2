//! `kist disk watch` beside a server, on a recorded machine: no hardware, and nothing is done to any device.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Instance, wait_until};

const ENCLOSURE: &str = "5000ccab04001000";

/// A copy of `/sys` with a disk for each drive of the pool, each in the slot of its number.
struct Machine {
    root: PathBuf,
    drives: Vec<(u64, String)>,
}

impl Machine {
    fn of(instance: &Instance) -> Machine {
        let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
        let drives = pool["drives"].as_array().unwrap().iter();
        let drives = drives
            .map(|drive| (drive["id"].as_u64().unwrap(), drive["path"].as_str().unwrap().to_owned()))
            .collect();
        let machine = Machine { root: instance.beside("machine"), drives };
        machine.write("sys/class/scsi_device/9:0:0:0/device/type", "13\n");
        machine.write(&format!("{}/id", Machine::enclosure()), &format!("0x{ENCLOSURE}\n"));
        let mut mounts = String::from("22 1 254:9 / / rw - ext4 /dev/root rw\n");
        for (id, path) in &machine.drives {
            machine.disk(*id, &format!("naa.5000c500a1b2c3{id:02x}"));
            let path = fs::canonicalize(path).unwrap();
            mounts += &format!("36 22 8:{} / {} rw - xfs x rw\n", id * 16, path.display());
        }
        machine.write("proc/self/mountinfo", &mounts);
        machine
    }

    fn enclosure() -> &'static str {
        "sys/class/enclosure/9:0:0:0"
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A disk of this name in the slot of this number.
    fn disk(&self, id: u64, name: &str) {
        let device = format!("sys/devices/pci0000:00/host0/target0:0:{id}/0:0:{id}:0");
        let block = format!("sd{}", char::from(b'a' + id as u8));
        let slot = format!("{}/Slot {id:02}", Machine::enclosure());
        let about =
            [("type", "0"), ("vendor", "SEAGATE"), ("model", "ST1"), ("state", "running"), ("wwid", name)];
        for (file, text) in about {
            self.write(&format!("{device}/{file}"), text);
        }
        self.write(&format!("{device}/block/{block}/dev"), &format!("8:{}", id * 16));
        self.write(&format!("{device}/block/{block}/size"), "1000000");
        self.write(&format!("{slot}/status"), "OK");
        self.write(&format!("{slot}/slot"), &id.to_string());
        self.write(&format!("{slot}/locate"), "0");
        self.link(&format!("sys/class/scsi_device/0:0:{id}:0/device"), &device);
        self.link(&format!("sys/block/{block}"), &format!("{device}/block/{block}"));
        self.link(&format!("{slot}/device"), &device);
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !path.is_symlink() {
            std::os::unix::fs::symlink(format!("/{to}"), path).unwrap();
        }
    }

    /// What the disk answers of itself (log page 2Fh).
    fn foretells(&self, id: u64, code: u8, qualifier: u8) {
        let path = self.root.join(format!("answers/scsi/0:0:{id}:0/log-2f"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [0x2f, 0, 0, 8, 0, 0, 3, 4, code, qualifier, 30, 0]).unwrap();
    }

    fn root(&self) -> &str {
        self.root.to_str().unwrap()
    }
}

/// What one look says, by drive and word.
fn watch(instance: &Instance, machine: &Machine, more: &[&str]) -> Vec<Value> {
    let words = [&["disk", "watch", "--once", "--json", "--from", machine.root()], more].concat();
    let said = instance.kist(&words).exits(0);
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told<'a>(lines: &'a [Value], drive: u64, what: &str) -> Option<&'a str> {
    let line = lines.iter().find(|line| line["drive"] == drive && line["what"] == what)?;
    line["text"].as_str()
}

fn drive(instance: &Instance, id: u64) -> Value {
    instance.kist(&["pool", "drive", "show", &id.to_string(), "--json"]).exits(0).json()
}

fn serving(pool: &[(&str, &str)]) -> Instance {
    let mut instance = Instance::init();
    let path = instance.dir().join("kist.toml");
    let mut text = fs::read_to_string(&path).unwrap();
    for (before, after) in pool {
        assert_eq!(text.matches(before).count(), 1, "{before}");
        text = text.replace(before, after);
    }
    fs::write(path, text).unwrap();
    instance.start();
    instance
}

#[test]
fn a_drive_whose_disk_foretells_its_failure_is_emptied_and_shown_with_its_slot() {
    let mut instance = serving(&[
        ("predicted_failure = \"tell\"", "predicted_failure = \"drain\""),
        ("lights = false", "lights = true"),
    ]);
    let machine = Machine::of(&instance);
    let lines = watch(&instance, &machine, &["--dry-run"]);
    assert!(drive(&instance, 1)["disk"].is_null(), "a dry run tells the server nothing: {lines:?}");
    let lines = watch(&instance, &machine, &[]);
    let found = told(&lines, 1, "found").unwrap_or_else(|| panic!("{lines:?}"));
    assert!(found.contains(&format!("slot 1 of enclosure {ENCLOSURE}")), "{found}");
    assert_eq!(drive(&instance, 1)["disk"]["slot"]["number"], 1);
    machine.foretells(2, 0x5d, 0xff);
    for _ in 0..3 {
        assert!(
            told(&watch(&instance, &machine, &[]), 2, "drained").is_none(),
            "a test of predictions is none"
        );
    }
    machine.foretells(2, 0x5d, 0x10);
    assert!(told(&watch(&instance, &machine, &[]), 2, "drained").is_none(), "said once only");
    assert!(told(&watch(&instance, &machine, &[]), 2, "drained").is_some());
    wait_until("it is empty", || drive(&instance, 2)["drain"]["empty"] == true);
    let shown = instance.kist(&["pool", "show"]).exits(0).out;
    assert!(shown.contains("drive 2: emptied by itself, since its disk foretells its failure"), "{shown}");
    let status = instance.kist(&["status"]).out;
    assert!(status.contains("is empty, and its disk is to be replaced"), "{status}");
    let would = watch(&instance, &machine, &[]);
    assert_eq!(
        told(&would, 2, "would"),
        Some(&*format!("the light of slot 2 of enclosure {ENCLOSURE} would be switched on"))
    );
    // After a restart of the server, and without its disk, the slot is known.
    instance.stop();
    let audit = instance.kist(&["audit", "show", "--since", "1h"]).exits(0).out;
    assert!(audit.contains("drive-drain 2: its disk foretells its failure done"), "{audit}");
    assert!(!audit.contains("disks-found"), "that nothing follows from a look is no news: {audit}");
    let path = PathBuf::from(&machine.drives[3].1);
    fs::rename(&path, path.with_extension("away")).unwrap();
    instance.start();
    let away = drive(&instance, 3);
    assert_eq!((&away["disk"]["slot"]["number"], &away["up"]), (&3.into(), &false.into()), "{away}");
}

#[test]
fn what_takes_the_place_of_a_lost_drive_is_said_and_on_a_recorded_machine_not_done() {
    let mut instance = serving(&[("replace = \"no\"", "replace = \"blank\"")]);
    let machine = Machine::of(&instance);
    watch(&instance, &machine, &[]);
    instance.stop();
    let path = PathBuf::from(&machine.drives[3].1);
    fs::rename(&path, path.with_extension("away")).unwrap();
    fs::create_dir(&path).unwrap();
    instance.start();
    let waits = |lines: &[Value]| told(lines, 3, "waits").unwrap_or_default().to_owned();
    let same = watch(&instance, &machine, &[]);
    assert!(waits(&same).contains("the lost one itself"), "{same:?}");
    assert_eq!(drive(&instance, 3)["disk"]["waits"]["reason"], "same-disk");
    // Another disk stands in its slot, and its empty file system is mounted.
    machine.disk(3, "naa.5000c500ffffff03");
    let other = watch(&instance, &machine, &[]);
    let would = "would take its place, once its burn-in (quick) is passed";
    assert!(told(&other, 3, "would").unwrap().contains(would), "{other:?}");
    fs::write(path.join("somebody's"), "x").unwrap();
    let full = watch(&instance, &machine, &[]);
    assert!(waits(&full).contains("something stands on the file system"), "{full:?}");
    // The disk of another drive, as after slots were numbered anew.
    machine.disk(3, "naa.5000c500a1b2c302");
    let twice = watch(&instance, &machine, &[]);
    assert!(!waits(&twice).is_empty() && told(&twice, 3, "would").is_none(), "{twice:?}");
    let state = drive(&instance, 3)["state"].clone();
    assert_ne!(state, "up");
    // The slot is known of a drive whose disk is gone, whoever asks.
    let slot = format!("its disk was naa.5000c500a1b2c303, in slot 3 of enclosure {ENCLOSURE}");
    let name = path.file_name().unwrap().to_str().unwrap();
    for words in [&["why", name][..], &["why", "3"], &["why", path.to_str().unwrap()], &["pool", "show"]] {
        let said = instance.kist(words).exits(0).out;
        assert!(said.contains(&slot), "{words:?}: {said}");
    }
    let told = instance.kist(&["why", name, "--json"]).exits(0).json();
    assert_eq!(told["subject"], "pool drive 3");
    instance.kist(&["why", "d99"]).exits(3);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing was made");
}

/// A user who is no admin neither learns the disks nor tells of them.
#[test]
fn only_an_admin_may_watch() {
    let instance = Instance::serving();
    let (status, _) = instance.http("GET", "/api/v1/pool/disks", &[("authorization", "Bearer wrong")], b"");
    assert!(matches!(status, 401 | 403), "{status}");
    let machine = Machine { root: Path::new("/nowhere").to_owned(), drives: Vec::new() };
    instance.kist(&["disk", "watch", "--once", "--from", machine.root()]).exits(3);
}
