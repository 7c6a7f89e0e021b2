//! `kist disk` on recorded machines: no server, no hardware.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Ran, kist};

fn recorded(name: &str) -> String {
    let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../machines");
    machines.join(format!("{name}.machine")).to_str().unwrap().to_owned()
}

fn disk(arguments: &[&str], name: &str) -> Ran {
    kist(&[&["disk"], arguments, &["--from", &recorded(name)]].concat())
}

fn json(arguments: &[&str], name: &str, code: i32) -> Value {
    disk(&[arguments, &["--json"]].concat(), name).exits(code).json()
}

fn has(ran: &Ran, words: &[&str]) {
    for word in words {
        assert!(ran.out.contains(word), "'{word}' is not in:\n{}", ran.out);
    }
}

#[test]
fn a_tree_has_links_disks_and_enclosures() {
    let ran = disk(&["ls"], "me484-two-path").exits(0);
    has(
        &ran,
        &[
            "jbod-2, Linux 6.1.0-28-amd64, 2026-09-21T14:13:20Z, 2 NUMA nodes",
            "├─ host7  SAS  mpt3sas  HBA 9400-8e  firmware 24.00.00.00  PCI 0000:18:00.0  8 x 8 GT/s",
            "8 x 8 GT/s  NUMA node 1",
            "port-7:0  4 x 12 Gbit/s  to expander-7:0",
            "sda  (mpatha)  slot 0/0  HDD  16.0 TB  SEAGATE  ST16000NM002G  ZL200000  12 Gbit/s  34 °C",
            "34 °C  path 1 of 2",
            "500c0ff012345600",
        ],
    );
    assert_eq!(ran.err, "", "all of it was read");
    let machine = json(&["ls"], "me484-two-path", 0);
    assert_eq!(machine["disks"].as_array().unwrap().len(), 80);
    assert_eq!(machine["disks"][0]["paths"].as_array().unwrap().len(), 2);
    assert_eq!(machine["enclosures"][0]["services"].as_array().unwrap().len(), 2);
    assert_eq!(machine["not_read"].as_array().unwrap().len(), 0);
}

#[test]
fn half_a_cable_is_seen_in_the_tree() {
    let ran = disk(&["ls"], "half-cable").exits(0);
    has(&ran, &["port-0:0  2 x 12 Gbit/s of 4 x 12 Gbit/s possible  to expander-0:0"]);
}

#[test]
fn the_front_of_an_enclosure() {
    let ran = disk(&["slots"], "me484-one-path").exits(0);
    has(
        &ran,
        &[
            "Enclosure 0  DellEMC Array584EMM 2071",
            "top drawer",
            "bottom drawer",
            "12 sdmX",
            "20 sdu!",
            "83 -",
        ],
    );
    has(&ran, &["cooling", "Fan 3", "critical", "28 °C of 50"]);
    let enclosures = json(&["slots", "500c0ff012345600"], "me484-one-path", 0);
    let slots = enclosures["enclosures"][0]["slots"].as_array().unwrap();
    assert_eq!((slots.len(), slots[30]["fault_sensed"].as_bool()), (84, Some(true)));
    assert_eq!((slots[81]["state"].as_str(), slots[81]["disk"].as_str()), (Some("empty"), None));
    has(&disk(&["slots"], "data60-zoned").exits(0), &[" 1 ~", " 0 sda"]);
    disk(&["slots", "7"], "me484-one-path").exits(3).says(&["there is no enclosure 7"]);
    disk(&["slots"], "virtio").exits(3).says(&["1 virtual disk", "no SCSI adapters", "--from"]);
}

#[test]
fn verdicts_have_reasons_and_an_exit_code() {
    let ran = disk(&["health"], "me484-one-path").exits(1).says(&["2 disks to be replaced"]);
    has(
        &ran,
        &[
            "the disk expects to fail (5Dh/10h)",
            "0/12",
            "57 °C, of 60 °C at most",
            "80 disks: 2 replace, 4 watch, 74 good",
        ],
    );
    assert!(!ran.out.contains("ZL200000"), "good disks are shown with --all only:\n{}", ran.out);
    has(&disk(&["health", "--all"], "me484-one-path").exits(1), &["ZL200000"]);
    // Zoned: nothing is bad, and what is not seen is told.
    has(
        &disk(&["health"], "data60-zoned").exits(0),
        &["30 disks are there that no path", "30 disks: 30 good"],
    );
    let health = json(&["health"], "nvme-switch", 1);
    let worn = &health["disks"][4];
    assert_eq!(
        (worn["verdict"].as_str(), worn["reasons"][0]["reason"].as_str()),
        (Some("watch"), Some("worn"))
    );
    assert_eq!(health["counts"]["replace"], 1);
    assert_eq!(health["findings"][0]["finding"], "degraded-link");
    // One disk alone, with its counters.
    let ran = disk(&["health", "sdk"], "half-cable").exits(0);
    has(&ran, &["pending sectors: 8 so far", "ZA100010"]);
    disk(&["health", "sdzz"], "half-cable").exits(3).says(&["there is no disk sdzz"]);
}

#[test]
fn what_grows_between_two_looks_is_told() {
    let since = recorded("half-cable");
    let ran = disk(&["health", "--since", &since], "half-cable-later").exits(1);
    has(
        &ran,
        &[
            "compared with a look 60 min 00 s before",
            "uncorrected read errors: 3 more",
            "invalid dwords: 800 more; disparity errors: 760 more; losses of dword",
            "synchronisation: 2 more; look at cable, backplane and connector",
            "phy-0:0, invalid dwords: 4000 more; look at the cable",
            "disk naa.5000c500a1026303 was there and is gone",
            "PCI 0000:01:00.0: errors of its link: 5 more corrected",
        ],
    );
    let health = json(&["health", "--since", &since], "half-cable-later", 1);
    assert_eq!(health["since_seconds"], 3600);
    let lost = health["disks"].as_array().unwrap().iter().find(|disk| disk["name"] == "sdf").unwrap();
    assert_eq!(lost["grown"]["uncorrected_read_errors"], 3);
    disk(&["health", "--watch"], "half-cable").exits(2).says(&["--watch looks at this machine"]);
}

#[test]
fn the_link_that_limits_is_named_with_its_numbers() {
    let ran = disk(&["bottleneck"], "me484-one-path").exits(0);
    has(
        &ran,
        &[
            "4,400 MB/s",
            "80 disks could move 18,400 MB/s; the links to them carry 4,400 MB/s, the networks 12,392 MB/s",
            "The limit is the links to the disks: 4,400 MB/s.",
            "Constants",
            "DOMA-QoS workshop",
        ],
    );
    let found = json(&["bottleneck"], "kisti-five", 0);
    let carried: Vec<f64> =
        found["ways"].as_array().unwrap().iter().map(|way| way["carried_mb_s"].as_f64().unwrap()).collect();
    assert_eq!(carried, [2200.0, 3200.0, 3200.0, 4400.0, 6301.5]);
    let fed: Vec<u64> =
        found["ways"].as_array().unwrap().iter().map(|way| way["hdds_fed"].as_u64().unwrap()).collect();
    assert_eq!(fed, [9, 13, 13, 19, 27]);
    has(&disk(&["bottleneck"], "mpi3mr-24g").exits(0), &["not told", "degraded"]);
    has(&disk(&["bottleneck"], "nvme-switch").exits(0), &["pass between NUMA nodes", "19,200 MB/s"]);
    has(&disk(&["bottleneck"], "virtio").exits(0), &["No SAS adapter"]);
    disk(&["bottleneck", "--hdd", "0"], "virtio").exits(2).says(&["--hdd 0 is no rate"]);
}

#[test]
fn the_published_table_is_computed_again() {
    let table = kist(&["disk", "bottleneck", "--table", "--json"]).exits(0).json();
    let of = |key: &str| -> Vec<f64> {
        table["rows"].as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).collect()
    };
    assert_eq!(of("published_mb_s"), [2200.0, 3200.0, 3200.0, 4400.0, 6400.0]);
    assert_eq!(of("hdds_printed"), [9.0, 14.0, 14.0, 19.0, 28.0]);
    assert_eq!(of("hdds_of_230"), [9.0, 13.0, 13.0, 19.0, 27.0]);
    assert_eq!(of("hdds_of_225"), [9.0, 14.0, 14.0, 19.0, 28.0]);
    has(&kist(&["disk", "bottleneck", "--table"]).exits(0), &["6,302 MB/s", "6,400 MB/s"]);
}

/// On whatever machine the tests run: something sensible is said, and the record of it says the same.
#[test]
fn this_machine_can_be_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("this.machine");
    let file = file.to_str().unwrap();
    let live = kist(&["disk", "ls", "--no-ask", "--json"]).exits(0).json();
    let said = kist(&["disk", "record", "--no-ask", "--json", file]).exits(0).json();
    assert_eq!(said["disks"].as_u64().unwrap(), live["disks"].as_array().unwrap().len() as u64);
    let again = kist(&["disk", "ls", "--json", "--from", file]).exits(0).json();
    for key in ["host", "kernel", "hosts", "nodes"] {
        assert_eq!(again[key], live[key], "{key}");
    }
    // What moves by itself, such as temperatures, is left out.
    let disks = |machine: &Value| -> Vec<Value> {
        let fields = |disk: &Value| ["name", "id", "kind", "bytes", "serial"].map(|key| disk[key].clone());
        machine["disks"].as_array().unwrap().iter().flat_map(fields).collect()
    };
    assert_eq!(disks(&again), disks(&live));
    kist(&["disk", "record", "--no-ask", file]).exits(4).says(&["is there already"]);
    kist(&["disk", "locate", "no-such-disk", "on"]).exits(3).says(&["there is no slot or disk no-such-disk"]);
}

#[test]
fn what_is_no_record_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let ls = |path: &str| kist(&["disk", "ls", "--from", path]);
    ls(&path("missing")).exits(3).says(&["cannot be read"]);
    ls(directory.path().to_str().unwrap()).exits(2).says(&["neither 'sys' nor 'class'"]);
    let whole = fs::read_to_string(recorded("half-cable")).unwrap();
    for (name, text, words) in [
        ("binary", "\u{0}\u{1}".to_owned(), "is no recorded machine"),
        ("later", whole.replace("kist-machine 1", "kist-machine 9"), "use a newer one"),
        ("cut", whole[..whole.len() / 2].to_owned(), "line"),
        ("short", whole[..whole.rfind("end ").unwrap()].to_owned(), "its end is missing"),
    ] {
        fs::write(path(name), text).unwrap();
        ls(&path(name)).exits(2).says(&[words]);
    }
    // A copy of /sys, with links that lead out of it.
    let sys = directory.path().join("copy/sys/class/scsi_device");
    fs::create_dir_all(&sys).unwrap();
    std::os::unix::fs::symlink("/etc", sys.join("0:0:0:0")).unwrap();
    std::os::unix::fs::symlink("1:0:0:0", sys.join("1:0:0:0")).unwrap();
    ls(&path("copy")).exits(0).says(&["its links lead nowhere"]);
}
