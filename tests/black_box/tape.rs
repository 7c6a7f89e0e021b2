//! To tape and back.

use std::fs;

use base::{Partition, TapePosition, Vid};
use library::{DriveName, Library, ReadBlock, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::harness::{Instance, bytes, make_tree, write};

/// Story: `kist wait` ended with 0 while recalls waited, also right after a start, and while a repack was
/// under way.
#[test]
fn a_wait_does_not_end_while_recalls_or_repacks_wait() {
    let mut instance = Instance::serving();
    let local = instance.beside("file");
    write(&local, &bytes(3_000_000, 7));
    instance.kist(&["put", local.to_str().unwrap(), "/t/file"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    let drives = instance.kist(&["drive", "ls", "--json"]).exits(0).json();
    let names = || drives.as_array().unwrap().iter().map(|drive| drive["name"].as_str().unwrap());
    names().for_each(|name| drop(instance.kist(&["drive", "down", name]).exits(0)));
    instance.kist(&["stage", "/t/file"]).exits(0);
    let waited = instance.kist(&["wait", "--timeout", "3s"]).exits(1);
    waited.says(&["does not end before somebody does something", "every tape drive is down"]);
    instance.stop();
    instance.start();
    instance.kist(&["wait", "--timeout", "1s"]).exits(1).says(&["1 file to be recalled"]);
    names().for_each(|name| drop(instance.kist(&["drive", "up", name]).exits(0)));
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/t/file"]).exits(0).json();
    assert_eq!(stat["locality"], "ONLINE_AND_NEARLINE");
    let vid = stat["copies"][0]["vid"].as_str().unwrap();
    names().for_each(|name| drop(instance.kist(&["drive", "down", name]).exits(0)));
    instance.kist(&["tape", "repack", vid]).exits(0);
    instance
        .kist(&["wait", "--timeout", "1s"])
        .exits(1)
        .says(&["1 container to be moved", "every tape drive"]);
    let shown = || instance.kist(&["tape", "repack", "--show", vid]).exits(0).out;
    assert!(shown().contains("1 container waits to be read from tape"), "{}", shown());
    names().for_each(|name| drop(instance.kist(&["drive", "up", name]).exits(0)));
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    assert!(shown().contains("done"), "{}", shown());
}

#[test]
fn the_whole_way_to_two_tapes_and_back() {
    let mut instance = Instance::serving();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);

    let stat = instance.kist(&["stat", "--json", "/t/a/b/medium"]).exits(0).json();
    assert_eq!(stat["locality"], "ONLINE_AND_NEARLINE");
    let copies = stat["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 2);
    assert!(copies.iter().all(|copy| copy["state"] == "indexed"), "{copies:?}");
    assert_ne!(copies[0]["vid"], copies[1]["vid"]);
    assert_ne!(copies[0]["tape_pool"], copies[1]["tape_pool"]);
    let large = instance.kist(&["stat", "--json", "/t/large"]).exits(0).json();
    assert_eq!(large["copies"][0]["container_kind"], "file");

    instance.kist(&["evict", "/t"]).exits(0);
    let nearline = instance.kist(&["stat", "--json", "/t/a/b/medium"]).exits(0).json();
    assert_eq!(nearline["locality"], "NEARLINE");
    instance.kist(&["get", "/t/large", "-"]).exits(4).says(&["NEARLINE", "kist stage"]);
    let copy = instance.beside("copy");
    instance.kist(&["get", "/t", copy.to_str().unwrap()]).exits(4).says(&["NEARLINE", "kist stage"]);

    let compared = instance.kist(&["compare", local, "/t"]).exits(4);
    assert_eq!(compared.err.lines().count(), 1, "{}", compared.err);
    assert!(compared.err.contains("are NEARLINE"), "{}", compared.err);

    instance.kist(&["stage", "--wait", "/t"]).exits(0).says(&["staged"]);
    let again = instance.kist(&["stage", "--wait", "/t"]).exits(0).says(&["all online, pinned for 1d"]);
    assert!(!again.err.contains("/s)"), "{}", again.err);
    let plain = instance.kist(&["stage", "/t/large"]).exits(0).out;
    assert!(plain.starts_with("request 3: 1 file, "), "{plain}");
    for request in ["2", "3"] {
        let released = instance.kist(&["release", "--json", request]).exits(0).json();
        assert_eq!(released["request"].to_string(), request);
    }
    instance.kist(&["compare", local, "/t"]).exits(0);
    let requests = instance.kist(&["request", "ls", "--json"]).exits(0).json();
    for request in requests.as_array().unwrap() {
        let (state, failed) = (request["state"].as_str(), request["failed"].as_u64());
        assert_eq!((state, failed), (Some("completed"), Some(0)));
    }
    instance.kist(&["evict", "/t/large"]).exits(4).says(&[
        "/t/large: a request holds it",
        "request 1 holds 1 file until",
        "kist release 1",
    ]);
    let refused = instance.kist(&["evict", "/t"]).exits(4).says(&["request 1 holds", "and", "more"]);
    assert!(refused.err.lines().count() <= 21, "{}", refused.err);
    instance.kist(&["release", "1"]).exits(0);
    instance.kist(&["evict", "/t/large"]).exits(0);
    // A restart forgets nothing.
    instance.stop();
    instance.start();
    instance.kist(&["stage", "--wait", "/t/large"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);

    for view in
        [&["tape", "ls"][..], &["drive", "ls"], &["pool", "show"], &["class", "ls"], &["queue"], &["status"]]
    {
        instance.kist(view).exits(0);
        instance.kist(&[view, &["--json"]].concat()).exits(0).json();
    }
    let vid = copies[0]["vid"].as_str().unwrap();
    let shown = instance.kist(&["tape", "show", vid, "--json"]).exits(0).json();
    assert!(!shown["containers"].as_array().unwrap().is_empty());

    // Offline, with nothing but the cartridge: the LTFS label is the first record of both partitions.
    instance.stop();
    let records = instance.beside("records");
    instance.kist(&["tape", "dump", vid, records.to_str().unwrap()]).exits(0);
    for partition in ["a", "b"] {
        let label = fs::read(records.join(format!("{partition}-000000000000.record"))).unwrap();
        assert!(label.starts_with(format!("VOL1{vid}").as_bytes()), "{partition}");
    }
}

#[test]
fn a_cartridge_with_a_foreign_label_is_never_written() {
    let mut instance = Instance::init();
    let foreign = b"VOL1ALIEN1              somebody else's tape";
    let directory = instance.dir().join("library");
    write_foreign(&directory, "KS0001", foreign);
    instance.start();
    let file = instance.beside("f");
    write(&file, &bytes(1_000_000, 5));
    instance.kist(&["put", file.to_str().unwrap(), "/f"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/f"]).exits(0).json();
    for copy in stat["copies"].as_array().unwrap() {
        assert_ne!(copy["vid"], "KS0001");
        assert_eq!(copy["state"], "indexed");
    }
    instance.stop();
    assert_eq!(read_first(&directory, "KS0001"), foreign);
}

fn open(directory: &std::path::Path) -> (VirtualLibrary, DriveName) {
    let drive = DriveName::new("vdrive0").unwrap();
    let config = VirtualLibraryConfig {
        drives: vec![drive.clone()],
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    (VirtualLibrary::open(directory, &config).unwrap(), drive)
}

fn write_foreign(directory: &std::path::Path, vid: &str, label: &[u8]) {
    let (library, name) = open(directory);
    let mut drive = library.take_drive(&name).unwrap();
    library.mount(Vid::new(vid).unwrap(), &name).unwrap();
    drive.write_block(label).unwrap();
    drive.write_filemarks(1).unwrap();
    library.unmount(&name).unwrap();
}

fn read_first(directory: &std::path::Path, vid: &str) -> Vec<u8> {
    let (library, name) = open(directory);
    let mut drive = library.take_drive(&name).unwrap();
    library.mount(Vid::new(vid).unwrap(), &name).unwrap();
    drive.locate(TapePosition { partition: Partition::Index, block: base::BlockAddress(0) }).unwrap();
    let mut buffer = vec![0u8; 1 << 20];
    match drive.read_block(&mut buffer).unwrap() {
        ReadBlock::Data(length) => buffer[..length].to_vec(),
        other => panic!("{other:?}"),
    }
}
