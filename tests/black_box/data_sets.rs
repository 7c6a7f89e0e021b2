//! What is archived together stands together; and copies in two libraries.

use std::collections::BTreeSet;
use std::fs;

use base::{ByteCount, Vid};
use library::{DriveName, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::harness::{Instance, bytes, write};

fn containers(instance: &Instance, path: &str) -> BTreeSet<u64> {
    let stat = instance.kist(&["stat", "--json", path]).exits(0).json();
    let copies = stat["copies"].as_array().unwrap();
    copies.iter().map(|copy| copy["container"].as_u64().unwrap()).collect()
}

#[test]
fn each_directory_and_each_hint_has_packs_of_its_own() {
    let mut instance = Instance::init_with(&["--pack-size", "1MiB"]);
    // Nothing is sealed by age while it comes in.
    let config = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("pack_age = \"30s\"", "pack_age = \"1h\"")).unwrap();
    instance.start();
    let local = instance.beside("file");
    for n in 0..9u64 {
        write(&local, &bytes(100_000, n + 1));
        for directory in ["a", "b"] {
            let remote = format!("/{directory}/{n}");
            instance.kist(&["put", local.to_str().unwrap(), &remote]).exits(0);
        }
        // Each hint has files of both directories.
        let (hint, remote) =
            (format!("h{}", n % 2), format!("/{}/hinted{n}", ["c", "d"][n as usize / 2 % 2]));
        instance.kist(&["put", "--dataset", &hint, local.to_str().unwrap(), &remote]).exits(0);
        write(&local, &bytes(100_000, n + 100));
        let remote = remote.replace("hinted", "more");
        instance.kist(&["put", "--dataset", &hint, local.to_str().unwrap(), &remote]).exits(0);
    }
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let mut sets = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for n in 0..9usize {
        sets[0].extend(containers(&instance, &format!("/a/{n}")));
        sets[1].extend(containers(&instance, &format!("/b/{n}")));
        for name in ["hinted", "more"] {
            let path = format!("/{}/{name}{n}", ["c", "d"][n / 2 % 2]);
            sets[2 + n % 2].extend(containers(&instance, &path));
        }
    }
    for (number, set) in sets.iter().enumerate() {
        assert!(!set.is_empty());
        assert!(sets.iter().skip(number + 1).all(|other| set.is_disjoint(other)), "{sets:?}");
    }
}

fn add_library(instance: &Instance) {
    let config = VirtualLibraryConfig {
        drives: vec![DriveName::new("hill-vdrive0").unwrap()],
        robots: 1,
        cartridges: (1..=3).map(|n| (Vid::new(&format!("HL000{n}")).unwrap(), ByteCount::gib(1))).collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(&instance.dir().join("hill"), &config).unwrap();
    let config = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace("kind = \"virtual\"", "kind = \"virtual\"\nsite = \"valley\"");
    let text = text.replace("name = \"vault-a\"", "name = \"vault-a\"\nlibrary = \"library\"");
    let text = text.replace("name = \"vault-b\"", "name = \"vault-b\"\nlibrary = \"hill\"");
    let text = text.replace("copies = [", "apart = \"site\"\ncopies = [");
    let more = "\n[[more_libraries]]\nname = \"hill\"\nsite = \"hill\"\nkind = \"virtual\"\n\
                directory = \"hill\"\ndrives = 1\n";
    fs::write(&config, text + more).unwrap();
}

#[test]
fn copies_stand_apart_in_two_libraries() {
    let mut instance = Instance::init();
    add_library(&instance);
    instance.start();
    let tree = instance.beside("tree");
    for n in 0..5 {
        write(&tree.join(format!("f{n}")), &bytes(400_000, n));
    }
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/t/f3"]).exits(0).json();
    let mut copies: Vec<(String, String)> = Vec::new();
    for copy in stat["copies"].as_array().unwrap() {
        let text = |key: &str| copy[key].as_str().unwrap().to_owned();
        copies.push((text("tape_pool"), text("vid")[..2].to_owned()));
    }
    copies.sort();
    assert_eq!(copies, [("vault-a", "KS"), ("vault-b", "HL")].map(|(a, b)| (a.to_owned(), b.to_owned())));

    // The first library is out of use: the other one gives everything.
    for drive in ["vdrive0", "vdrive1"] {
        instance.kist(&["drive", "down", drive, "--reason", "fire drill"]).exits(0);
    }
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    let vid = stat["copies"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|copy| copy["vid"].as_str().filter(|vid| vid.starts_with("HL")));
    instance.stop();
    instance.kist(&["tape", "dump", vid.unwrap()]).exits(0);
}
