//! The catalogue is destroyed under a server that was killed, and comes back: from its backup, and from the
//! tapes alone.

use std::fs;
use std::path::Path;

use crate::harness::{Instance, bytes, kist, make_tree, write};

/// Names the backup's directory in kist.toml.
pub fn with_backup(instance: &Instance) -> String {
    let backup = instance.beside("backup");
    let file = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&file).unwrap();
    let table = format!("[backup]\ndirectory = \"{}\"\nship_every = \"50ms\"\n\n[pool]", backup.display());
    let text = text.replacen("\n[pool]", &format!("\n{table}"), 1);
    fs::write(&file, text).unwrap();
    backup.to_str().unwrap().to_owned()
}

fn wait_shipped(instance: &Instance) {
    for _ in 0..600 {
        let status = instance.kist(&["status", "--json"]).exits(0).json();
        if status["backup"]["failing"].is_null()
            && status["backup"]["line"].as_u64() > Some(0)
            && status["backup"]["shipped"].as_u64() >= status["backup"]["change"].as_u64()
        {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the backup does not keep up");
}

#[test]
fn a_destroyed_catalogue_comes_back_from_its_backup() {
    let mut instance = Instance::init();
    let backup = with_backup(&instance);
    instance.start();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["backup", "now"]).exits(0);
    instance.kist(&["mv", "/t/one", "/t/uno"]).exits(0);
    fs::rename(tree.join("one"), tree.join("uno")).unwrap();
    wait_shipped(&instance);
    let rehearsed = instance.kist(&["backup", "rehearse", "--json"]).exits(0).json();
    assert_eq!(rehearsed["good"].as_bool(), Some(true), "{rehearsed}");
    assert!(rehearsed["compared_at"].as_u64() > Some(0), "{rehearsed}");
    let listed = instance.kist(&["backup", "list", "--json"]).exits(0).json();
    assert!(listed[0]["snapshots"].as_array().unwrap().len() >= 2, "{listed}");
    wait_shipped(&instance);
    instance.kill();

    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    kist(&["restore", "--from", &backup, dir]).exits(4).says(&["--move-aside"]);
    fs::remove_dir_all(instance.dir().join("catalogue")).unwrap();
    // A start makes no empty one, which would pass for the truth and stand in the way of the right one.
    kist(&["serve", instance.dir().to_str().unwrap()]).exits(8).says(&["no catalogue", "kist restore"]);
    assert!(!instance.dir().join("catalogue").exists());
    kist(&["restore", "--from", &backup, dir]).exits(0);
    instance.start();
    instance.kist(&["compare", local, "/t"]).exits(0);
    let kept = instance.kist(&["pool", "quarantine", "--json"]).exits(0).json();
    assert_eq!(kept["on"].as_bool(), Some(true));
    // What is in quarantine belongs to the line of before.
    wait_shipped(&instance);
    instance.kist(&["pool", "quarantine", "--end"]).exits(4).says(&["line-0001", "before the restore"]);
    fs::remove_dir_all(Path::new(&backup).join("line-0001")).unwrap();
    let kept = instance.kist(&["pool", "quarantine", "--end", "--json"]).exits(0).json();
    assert_eq!(kept["on"].as_bool(), Some(false));
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    wait_shipped(&instance);
    instance.kill();
    // A catalogue that is there is kept.
    kist(&["restore", "--from", &backup, "--move-aside", dir]).exits(0);
    instance.start();
    instance.kist(&["mkdir", "/later"]).exits(0);
    instance.stop();
    // The newest changes are missing from the backup: nobody goes back in time without a word.
    let segments = Path::new(&backup).join("line-0003/segments");
    for segment in fs::read_dir(&segments).unwrap() {
        fs::remove_file(segment.unwrap().path()).unwrap();
    }
    let again = ["restore", "--from", &backup, "--move-aside", dir];
    kist(&again).exits(9).says(&["drives of the pool have seen change", "missing", "--accept-loss"]);
    let accepted = kist(&[&again[..], &["--accept-loss"]].concat()).exits(0);
    assert!(accepted.out.contains("MISSING"), "{}", accepted.out);
    // Two within a second have names of their own.
    kist(&[&again[..], &["--accept-loss"]].concat()).exits(0);
    let kept = fs::read_dir(instance.dir()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("catalogue.before-")
    });
    assert_eq!(kept.count(), 3);
}

#[test]
fn a_destroyed_machine_comes_back_from_its_tapes() {
    let mut instance = Instance::serving();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    write(&instance.beside("gone"), &bytes(50_000, 7));
    instance.kist(&["put", instance.beside("gone").to_str().unwrap(), "/t/gone"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["mv", "/t/one", "/t/uno"]).exits(0);
    fs::rename(tree.join("one"), tree.join("uno")).unwrap();
    instance.kist(&["rm", "/t/gone"]).exits(0);
    write(&tree.join("last"), &bytes(120_000, 9));
    let last = tree.join("last");
    instance.kist(&["put", last.to_str().unwrap(), "/t/last"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kill();

    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    fs::remove_dir_all(instance.dir().join("catalogue")).unwrap();
    fs::remove_dir_all(instance.dir().join("pool")).unwrap();
    // It went on as if that were as it should be.
    let refused = kist(&["rebuild", "--from-tapes", dir]).exits(4);
    refused.says(&["none of the pool's 8 drives is there", "mount them", "--new-pool"]);
    assert!(!instance.dir().join("catalogue").exists());
    let rebuilt = kist(&["rebuild", "--from-tapes", "--new-pool", "--json", dir]).exits(0).json();
    assert!(rebuilt["missing_from"].is_null() && rebuilt["inconsistencies"].as_u64() == Some(0), "{rebuilt}");
    instance.start();
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    instance.kist(&["stat", "/t/gone"]).exits(3);
    instance.stop();
}
