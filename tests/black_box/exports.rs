//! Tapes that go out of the library and come back.

use std::fs;

use crate::harness::{Instance, bytes, wait_until, write};

/// The commands, from a tape in its slot to one that is off-site, asked for, and back.
#[test]
fn tapes_go_out_and_come_back() {
    let mut instance = Instance::serving();
    let local = instance.beside("file");
    write(&local, &bytes(3_000_000, 7));
    instance.kist(&["put", local.to_str().unwrap(), "/t/file"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/t/file"]).exits(0).json();
    let vids: Vec<String> =
        (0..2).map(|copy| stat["copies"][copy]["vid"].as_str().unwrap().to_owned()).collect();
    let library = instance.dir().join("library");
    for vid in &vids {
        let export = instance.kist(&["tape", "export", vid, "--json"]).exits(0).json();
        assert_eq!((&export["state"], export["vid"].as_str()), (&"done".into(), Some(vid.as_str())));
        // Said again it is told again.
        let said = instance.kist(&["tape", "export", vid]).exits(0).out;
        assert!(said.contains("import/export element"), "{said}");
        let away = instance.beside(vid);
        fs::rename(library.join("import-export").join(vid), away).unwrap();
    }
    instance.kist(&["library", "inventory"]).exits(0);
    let shown = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    let tape = |shown: &serde_json::Value, vid: &str| {
        shown.as_array().unwrap().iter().find(|tape| tape["vid"] == vid).unwrap().clone()
    };
    assert_eq!(
        (&tape(&shown, &vids[0])["away_as"], &tape(&shown, &vids[0])["away"]),
        (&"exported".into(), &true.into())
    );
    instance.kist(&["tape", "set", &vids[0], "active", "--where", "x"]).exits(2).says(&["off-site"]);
    instance.kist(&["tape", "set", &vids[0], "off-site", "--where", "vault 3"]).exits(0);
    let stat = instance.kist(&["stat", "/t/file"]).exits(0).out;
    assert!(
        stat.contains("off-site (vault 3)") && stat.contains("all tapes that have it are away"),
        "{stat}"
    );

    let request = instance.kist(&["stage", "--json", "/t/file"]).exits(0).json()["id"].to_string();
    let asked = format!("{} is off-site (vault 3), 1 file of 1 request waits for it", vids[0]);
    let status = || instance.kist(&["status"]).exits(0).out;
    wait_until("status tells it", || status().contains(&asked));
    let status = status();
    assert!(status.contains(&format!("{} is exported, 1 file", vids[1])), "{status}");
    let why = instance.kist(&["why", &request]).exits(0).out;
    assert!(why.contains("off-site (vault 3)"), "{why}");
    let wait = instance.kist(&["wait", "--timeout", "1s"]).exits(1);
    assert!(wait.err.contains("1 file to be recalled"), "{}", wait.err);

    fs::rename(instance.beside(&vids[0]), library.join("import-export").join(&vids[0])).unwrap();
    let imports = instance.kist(&["tape", "import-slot", "--json"]).exits(0).json();
    assert_eq!(imports.as_array().unwrap().len(), 1, "{imports}");
    assert_eq!((&imports[0]["vid"], imports[0]["slot"].is_u64()), (&vids[0].as_str().into(), true));
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/t/file"]).exits(0).json();
    assert_eq!((&stat["locality"], &stat["tapes_away"]), (&"ONLINE_AND_NEARLINE".into(), &false.into()));
    instance.kist(&["tape", "import-slot", "7"]).exits(3).says(&["no cartridge"]);
    instance.kist(&["tape", "import-slot", "door"]).exits(2);

    // A scratch tape that is never used, until somebody says so.
    let scratch = instance.kist(&["tape", "ls", "--state", "scratch", "--json"]).exits(0).json();
    let blank = scratch[0]["vid"].as_str().unwrap();
    instance.kist(&["tape", "retire", &vids[0]]).exits(4);
    instance.kist(&["tape", "retire", blank, "--reason", "dropped"]).exits(0);
    let retired = instance.kist(&["tape", "ls", "--state", "retired", "--json"]).exits(0).json();
    assert_eq!(retired[0]["vid"], blank);
    instance.kist(&["tape", "add", "ZZ9999"]).exits(3);
    let said = instance.kist(&["tape", "add", blank]).exits(0).out;
    assert!(said.contains("scratch"), "{said}");
    instance.stop();
}

/// A drive is cleaned by command, with a cartridge that stands in the library's directory; the use is counted
/// over a kill, and what is refused says why.
#[test]
fn a_drive_is_cleaned_by_command() {
    let mut instance = Instance::serving();
    let cleaning = instance.dir().join("library/cleaning");
    instance.kist(&["drive", "clean", "vdrive0"]).exits(4).says(&["no cleaning cartridge", "--with VID"]);
    fs::create_dir_all(&cleaning).unwrap();
    fs::write(cleaning.join("CLN001"), b"").unwrap();
    instance.kist(&["drive", "clean", "vdrive0", "--with", "CLN002"]).exits(3).says(&["CLN002"]);
    instance.kist(&["drive", "clean", "vdrive0", "--with", "short"]).exits(2);
    let said = instance.kist(&["drive", "clean", "vdrive0"]).exits(0).out;
    assert!(said.contains("vdrive0 is cleaned"), "{said}");
    let drive = |instance: &Instance| instance.kist(&["drive", "show", "vdrive0", "--json"]).exits(0).json();
    wait_until("the drive was cleaned", || drive(&instance)["cleaned"].is_string());
    instance.kill();
    instance.start();
    let inventory = instance.kist(&["library", "inventory", "--json"]).exits(0).json();
    let cleaner = &inventory["cleaning"][0];
    assert_eq!((&cleaner["vid"], &cleaner["uses"]), (&"CLN001".into(), &1.into()), "{inventory}");
    let said = instance.kist(&["library", "inventory"]).exits(0).out;
    assert!(said.contains("cleaning cartridge CLN001") && said.contains("1 of 50 uses"), "{said}");
    assert!(drive(&instance)["cleaned"].is_string());
    let tapes = instance.kist(&["tape", "ls"]).exits(0).out;
    assert!(!tapes.contains("CLN001"), "it is no tape: {tapes}");
}
