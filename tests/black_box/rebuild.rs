//! The catalogue is destroyed under a server that was killed, and comes back: from its backup, and from the
//! tapes alone.

use std::fs;
use std::path::{Path, PathBuf};

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

/// Waits until a restored catalogue was compared with pool and tapes: until then the quarantine is kept.
fn wait_settled(instance: &Instance) {
    for _ in 0..1_200 {
        let status = instance.kist(&["status", "--json"]).exits(0).json();
        let settling = &status["settling"];
        if settling.is_null() || settling["stage"] == "settled" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the restore is not settled");
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
    wait_settled(&instance);
    wait_shipped(&instance);
    instance.kist(&["pool", "quarantine", "--end"]).exits(4).says(&["line-0001", "before the restore"]);
    fs::remove_dir_all(Path::new(&backup).join("line-0001")).unwrap();
    let ended = instance.kist(&["pool", "quarantine", "--end", "--json"]).exits(0).json();
    assert_eq!(ended["was_on"].as_bool(), Some(true), "{ended}");
    let kept = instance.kist(&["pool", "quarantine", "--json"]).exits(0).json();
    assert_eq!(kept["on"].as_bool(), Some(false), "{kept}");
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
    // What is put before the first snapshot of the line is in that.
    wait_shipped(&instance);
    // Two, whatever else is changed meanwhile.
    instance.kist(&["mkdir", "/later"]).exits(0);
    instance.kist(&["mkdir", "/latest"]).exits(0);
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
    // What the catalogue that was there has beyond the backup, and how to look, is said.
    let catalogue = instance.dir().join("catalogue");
    let newer = accepted.out.lines().find(|line| line.starts_with("NEWER")).unwrap();
    assert!(newer.contains("changes that the backup does not have"), "{newer}");
    assert!(newer.contains(&format!("mv {} ", catalogue.display())), "{newer}");
    // Two within a second have names of their own. On the one that is moved now no server was started.
    let second = kist(&[&again[..], &["--accept-loss"]].concat()).exits(0);
    assert!(!second.out.contains("NEWER"), "{}", second.out);
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
    // It answers at once, and says nothing of a file that it does not know yet.
    instance.kist(&["stat", "/t/gone"]).exits(3);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let status = instance.kist(&["status", "--json"]).exits(0).json();
    assert_eq!(status["settling"]["stage"], "settled", "{status}");
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    instance.stop();
}

/// Story: a rebuild ended with 0 although a cartridge was not read.
#[test]
fn a_cartridge_that_cannot_be_read_is_no_success() {
    let mut instance = Instance::serving();
    write(&instance.beside("file"), &bytes(50_000, 7));
    instance.kist(&["put", instance.beside("file").to_str().unwrap(), "/f"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let stat = instance.kist(&["stat", "/f", "--json"]).exits(0).json();
    let vid = stat["copies"][0]["vid"].as_str().unwrap().to_owned();
    instance.stop();
    for file in names_in(&instance.dir().join("library/cartridges").join(&vid)) {
        let mut content = fs::read(&file).unwrap();
        content.iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&file, content).unwrap();
    }
    fs::remove_dir_all(instance.dir().join("catalogue")).unwrap();
    let dir = instance.dir();
    let rebuild = ["rebuild", "--from-tapes", "--json", dir.to_str().unwrap()];
    let refused = kist(&rebuild).exits(9).says(&["nothing was put in place", "--accept-loss", &vid]);
    let told = refused.json();
    assert_eq!((told["in_place"].as_bool(), &told["unread"][0]["vid"]), (Some(false), &vid.as_str().into()));
    assert!(!dir.join("catalogue").exists() && dir.join("catalogue.incomplete").exists());
    let accepted = kist(&[&rebuild[..], &["--accept-loss"]].concat()).exits(1).says(&["in place", &vid]);
    let told = accepted.json();
    assert_eq!((told["in_place"].as_bool(), &told["unread"][0]["vid"]), (Some(true), &vid.as_str().into()));
    assert!(told["left_behind"][0].as_str().unwrap().ends_with("catalogue.incomplete"), "{told}");
    let text = kist(&["rebuild", "--from-tapes", "--move-aside", dir.to_str().unwrap()]).exits(9);
    assert!(text.out.contains(&format!("NOT READ   tape {vid}: ")), "{}", text.out);
    instance.start();
    instance.kist(&["stat", "/f"]).exits(0);
    instance.stop();
}

fn names_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// Later than all that a test does.
const LATE: &str = "2099-01-01T00:00:00Z";

/// Story: with the last segments of the backup gone, `--to-time` of a minute ahead restored what was left and
/// said nothing, though the newest point was refused; and so it did from the history that a restore had given
/// up, when the line of after it was gone.
#[test]
fn a_time_behind_the_end_of_the_backup_is_no_silent_step_back() {
    let mut instance = Instance::init();
    let backup = with_backup(&instance);
    instance.start();
    for name in ["/a", "/b", "/c"] {
        instance.kist(&["mkdir", name]).exits(0);
        wait_shipped(&instance);
    }
    instance.stop();
    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    let to_time = ["restore", "--from", &backup, "--move-aside", "--to-time", LATE, dir];
    let line = Path::new(&backup).join("line-0001");
    let segments = names_in(&line.join("segments"));
    let aside = instance.beside("aside");
    fs::create_dir(&aside).unwrap();
    let lost = &segments[segments.len() - 2..];
    for segment in lost {
        fs::rename(segment, aside.join(segment.file_name().unwrap())).unwrap();
    }
    kist(&to_time).exits(9).says(&["drives of the pool have seen change", "missing", "--accept-loss"]);
    let accepted = kist(&[&to_time[..], &["--accept-loss"]].concat()).exits(0);
    assert!(accepted.out.contains("MISSING"), "{}", accepted.out);
    for segment in lost {
        fs::rename(aside.join(segment.file_name().unwrap()), segment).unwrap();
    }
    let whole = kist(&to_time).exits(0);
    assert!(whole.out.contains("the newest point of the backup: no later change"), "{}", whole.out);

    instance.start();
    instance.kist(&["mkdir", "/after the restore"]).exits(0);
    wait_shipped(&instance);
    instance.stop();
    let second = Path::new(&backup).join("line-0002");
    let kept = instance.beside("line-0002");
    fs::rename(&second, &kept).unwrap();
    kist(&to_time).exits(9).says(&["all of the history that a restore began later", "--accept-loss"]);
    fs::rename(&kept, &second).unwrap();
    fs::rename(second.join("snapshots"), &kept).unwrap();
    kist(&to_time).exits(3).says(&["no whole snapshot", "line 2", "--to-change"]);
    fs::rename(&kept, second.join("snapshots")).unwrap();
    let whole = kist(&[&to_time[..], &["--json"]].concat()).exits(0).json();
    assert_eq!((whole["line"].as_u64(), whole["missing_to"].is_null()), (Some(2), true), "{whole}");
    let start = fs::read_to_string(second.join("LINE")).unwrap();
    assert!(start.starts_with("kist-line 1\nline 2\n"), "{start}");
}

/// Story: a snapshot without its manifest, or on a bad place of the disk, ended every restore with exit code
/// 8, though an older snapshot and all segments were there; only wrong bytes were passed over.
#[test]
fn a_snapshot_that_cannot_be_read_is_passed_over() {
    let mut instance = Instance::init();
    let backup = with_backup(&instance);
    instance.start();
    // Else the first snapshot may have the directory already, and the next one is the same.
    wait_shipped(&instance);
    instance.kist(&["mkdir", "/a"]).exits(0);
    wait_shipped(&instance);
    instance.kist(&["backup", "now"]).exits(0);
    instance.kist(&["mkdir", "/b"]).exits(0);
    wait_shipped(&instance);
    instance.stop();
    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    let restore = ["restore", "--from", &backup, "--move-aside", "--json", dir];
    let whole = kist(&restore).exits(0).json();
    assert_eq!(whole["damaged_snapshots"].as_array().map(Vec::len), Some(0), "{whole}");
    let snapshots = names_in(&Path::new(&backup).join("line-0001/snapshots"));
    let newest = snapshots.last().unwrap();
    for (file, is_gone) in [("MANIFEST", true), ("MANIFEST", false), ("data.mdb", true), ("data.mdb", false)]
    {
        let (path, kept) = (newest.join(file), instance.beside("kept"));
        fs::rename(&path, &kept).unwrap();
        if !is_gone {
            // The system refuses to read a directory as a file, as it would a bad place of a disk.
            fs::create_dir(&path).unwrap();
        }
        let what = if is_gone { "it is missing" } else { "cannot be read" };
        for to in [&[][..], &["--to-time", LATE], &["--to-change", &whole["change"].to_string()]] {
            let restored = kist(&[&restore[..], to].concat()).exits(0).json();
            assert_eq!(restored["change"], whole["change"], "{restored}");
            assert!(restored["snapshot"].as_u64() < whole["snapshot"].as_u64(), "{restored}");
            let told = restored["damaged_snapshots"][0].as_str().unwrap();
            assert!(told.contains(path.to_str().unwrap()) && told.contains(what), "{told}");
        }
        if !is_gone {
            fs::remove_dir(&path).unwrap();
        }
        fs::rename(&kept, &path).unwrap();
    }
    // A segment that cannot be read is named, with the point up to which a restore goes.
    let segments = names_in(&Path::new(&backup).join("line-0001/segments"));
    let last = segments.last().unwrap();
    fs::remove_file(last).unwrap();
    fs::create_dir(last).unwrap();
    kist(&restore).exits(7).says(&[
        last.to_str().unwrap(),
        "cannot be read",
        "a restore can go up to change",
    ]);
}
