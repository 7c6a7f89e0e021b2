//! Files of a running instance are damaged by hand: what is found, repaired, recalled and said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::harness::{Instance, bytes, kist, make_tree, wait_until, write};

/// All extents of a drive with their lengths.
fn extents(instance: &Instance, drive: u16) -> Vec<PathBuf> {
    let root = instance.dir().join(format!("pool/d{drive}/extents"));
    let mut files = Vec::new();
    for bucket in fs::read_dir(root).unwrap() {
        files.extend(fs::read_dir(bucket.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    files.sort();
    files
}

fn flip(file: &Path, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut one = [0];
    file.read_exact_at(&mut one, at).unwrap();
    one[0] ^= 0x10;
    file.write_all_at(&one, at).unwrap();
}

/// An instance with files small and large, and the tree they are of.
fn filled() -> (Instance, PathBuf) {
    let instance = Instance::serving();
    let tree = instance.beside("tree");
    for n in 0..12 {
        write(&tree.join(format!("small/{n}")), &bytes(2000 * n + 1, n as u64));
    }
    for n in 0..4 {
        write(&tree.join(format!("large/{n}")), &bytes(700_000 * (n + 1), 50 + n as u64));
    }
    instance.kist(&["put", tree.to_str().unwrap(), "/t"]).exits(0);
    (instance, tree)
}

#[test]
fn scrub_finds_and_repairs_what_verify_and_get_do_not_even_feel() {
    let (instance, tree) = filled();
    let mut damaged = Vec::new();
    for drive in [0, 1] {
        for file in extents(&instance, drive) {
            let before = fs::read(&file).unwrap();
            // The first cell's payload, or the first record's; and a header.
            flip(&file, if drive == 0 { 4096 + 100 } else { 30 });
            damaged.push((file, before));
        }
    }
    for page in ["drive.kist", "drive.copy"] {
        flip(&instance.dir().join("pool/d2").join(page), 40);
    }
    assert!(damaged.len() > 4);
    let verified = instance.kist(&["verify", "/t", "--json"]).exits(0).json();
    assert_eq!((verified["verified"].as_u64(), verified["failed"].as_u64()), (Some(16), Some(0)));
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    let scrubbed = instance.kist(&["scrub", "--now", "--json"]).exits(0).json();
    assert_eq!((scrubbed["lost"].as_u64(), scrubbed["failed"].as_u64()), (Some(0), Some(0)), "{scrubbed}");
    wait_until("all is repaired", || {
        // A segment may have become longer meanwhile.
        let wrong = |file: &Path, before: &[u8]| {
            let now = fs::read(file).unwrap();
            (0..before.len()).filter(|at| now.get(*at) != before.get(*at)).count()
        };
        // A byte between records of a segment is of no meaning and is left alone.
        damaged.iter().all(|(file, before)| wrong(file, before) <= usize::from(is_segment(file)))
    });
    let again = instance.kist(&["scrub", "--now", "--json"]).exits(0).json();
    assert_eq!(again["found"].as_u64(), Some(0), "{again}");
    let text = instance.kist(&["scrub"]).exits(0).out;
    assert!(text.contains("blobs checked") && text.contains("idle"), "{text}");
    let sound = instance.kist(&["verify", "--catalogue"]).exits(0).out;
    assert!(sound.contains("sound"), "{sound}");
}

fn is_segment(file: &Path) -> bool {
    fs::read(file).unwrap().starts_with(b"KISTSMAL")
}

#[test]
fn a_lost_drive_is_rebuilt_and_a_new_one_takes_its_place() {
    let (instance, tree) = filled();
    fs::remove_dir_all(instance.dir().join("pool/d3")).unwrap();
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    for command in [&["drive", "lost", "99"][..], &["drive", "replace", "99"], &["rebuild", "99"]] {
        instance.kist(&[&["pool"], command].concat()).exits(3).says(&["no drive 99", "kist pool show"]);
    }
    // It was tried, and is not there; another one is in use.
    instance.kist(&["pool", "drive", "replace", "3"]).exits(4).says(&["d3 is not there", "replace 3 --new"]);
    instance.kist(&["pool", "drive", "replace", "4"]).exits(4).says(&["in use", "kist pool drive lost 4"]);
    instance.kist(&["pool", "drive", "lost", "3"]).exits(0);
    let degraded = |instance: &Instance| {
        let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
        (pool["health"]["silent_drives"].as_u64().unwrap(), pool["health"]["degraded"].as_u64().unwrap())
    };
    wait_until("what it held is rebuilt", || degraded(&instance) == (1, 0));
    let show = instance.kist(&["pool", "show"]).exits(0).out;
    assert!(show.contains("lost") && show.contains("1 drive does not answer"), "{show}");
    // A disk that is not mounted: nothing is made in its place on another one, unless that is asked for.
    let refused = instance.kist(&["pool", "drive", "replace", "3"]).exits(4);
    let refused =
        refused.says(&["pool/d3 is not there", "mount its disk", "kist pool drive replace 3 --new"]);
    assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
    assert!(!instance.dir().join("pool/d3").exists());
    let replaced = instance.kist(&["pool", "drive", "replace", "3", "--new"]).exits(0).out;
    assert!(replaced.contains("a new drive"), "{replaced}");
    assert_eq!(degraded(&instance), (0, 0));
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kist(&["scrub", "--now"]).exits(0);
}

/// The server is killed while a drive is emptied; then the drive is taken out, and its number comes back.
#[test]
fn a_drive_is_emptied_over_kills_and_taken_out() {
    let (mut instance, tree) = filled();
    instance.kist(&["pool", "drive", "drain", "99"]).exits(3).says(&["no drive 99", "kist pool show"]);
    instance.kist(&["pool", "drive", "remove", "3"]).exits(4).says(&["in use", "kist pool drive drain 3"]);
    instance.kist(&["pool", "drive", "drain", "3", "--end"]).exits(4).says(&["not being emptied"]);
    let said = |arguments: &[&str], instance: &Instance| instance.kist(arguments).exits(0).out;
    assert!(said(&["pool", "drive", "drain", "3"], &instance).contains("kist pool show"));
    for _ in 0..3 {
        instance.kill();
        instance.start();
        instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    }
    let show = |instance: &Instance| instance.kist(&["pool", "show"]).exits(0).out;
    wait_until("it is empty", || show(&instance).contains("drive 3: empty: kist pool drive remove 3"));
    let drives = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    let drain = &drives["drives"][3]["drain"];
    assert_eq!((drain["empty"].as_bool(), drain["stuck"].as_u64()), (Some(true), Some(0)), "{drain}");
    wait_until("it is taken out", || instance.kist(&["pool", "drive", "remove", "3"]).code == 0);
    assert!(said(&["pool", "drive", "remove", "3"], &instance).contains("kist.toml"));
    fs::remove_dir_all(instance.dir().join("pool/d3")).unwrap();
    assert!(show(&instance).contains("drive 3: taken out"), "{}", show(&instance));
    let status = instance.kist(&["status", "--json"]).exits(0).json();
    assert_eq!((status["pool_drives"].as_u64(), status["pool_drives_up"].as_u64()), (Some(7), Some(7)));
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.stop();
    let settings = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let entry = "\n[[pool.drives]]\nid = 3\npath = \"pool/d3\"\nenclosure = \"\"\n";
    assert!(text.contains(entry), "{text}");
    fs::write(&settings, text.replace(entry, "")).unwrap();
    instance.start();
    assert!(!show(&instance).contains("pool/d3"), "{}", show(&instance));
    instance.kist(&["scrub", "--now"]).exits(0);
    instance.stop();
    fs::write(&settings, text).unwrap();
    instance.start();
    assert!(said(&["pool", "drive", "add", "3", "--new"], &instance).contains("a new drive"));
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kist(&["pool", "drive", "drain", "0"]).exits(0);
    instance.kist(&["pool", "drive", "drain", "1"]).exits(0);
    let few = &["5 drives take files, 6 are needed", "kist pool drive add"];
    instance.kist(&["pool", "drive", "drain", "2"]).exits(4).says(few);
}

/// Story: a drive whose directory was gone could not be replaced before it was given up by another command,
/// which the refusal did not spell out.
#[test]
fn a_drive_whose_directory_is_gone_is_replaced_at_once() {
    let (instance, tree) = filled();
    fs::remove_dir_all(instance.dir().join("pool/d3")).unwrap();
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    let show = || instance.kist(&["pool", "show"]).exits(0).out;
    assert!(show().contains("drive 3: "), "{}", show());
    instance.kist(&["pool", "drive", "replace", "3"]).exits(4).says(&["d3 is not there", "replace 3 --new"]);
    assert!(!instance.dir().join("pool/d3").exists());
    let replaced = instance.kist(&["pool", "drive", "replace", "3", "--new"]).exits(0).out;
    assert!(replaced.contains("a new drive"), "{replaced}");
    // It is new, and was never away.
    assert!(!show().contains("may lack"), "{}", show());
    wait_until("it has all that it should hold", || !show().contains("drive 3: "));
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    let scrubbed = instance.kist(&["scrub", "--now", "--json"]).exits(0).json();
    assert_eq!(scrubbed["found"], 0, "{scrubbed}");
    // Nothing has been asked of this one since it went.
    fs::remove_dir_all(instance.dir().join("pool/d5")).unwrap();
    let replaced = instance.kist(&["pool", "drive", "replace", "5", "--new"]).exits(0).out;
    assert!(replaced.contains("a new drive"), "{replaced}");
    wait_until("it has all that it should hold", || !show().contains("drive 5: "));
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
}

/// A pool at 4+2+1: two lost drives are read through, and rebuilt when they are declared lost.
#[test]
fn a_locally_repairable_pool_bears_and_rebuilds_two_drives() {
    let options = ["--drives", "9", "--data", "4", "--local-parity", "2", "--parity", "1"];
    let mut instance = Instance::init_with(&options);
    instance.start();
    let tree = instance.beside("tree");
    make_tree(&tree);
    instance.kist(&["put", tree.to_str().unwrap(), "/t"]).exits(0);
    let show = instance.kist(&["pool", "show"]).exits(0).out;
    assert!(show.contains("4+2+1 shards, small files 3 times"), "{show}");
    let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    assert_eq!((&pool["data"], &pool["local_parity"], &pool["parity"]), (&4.into(), &2.into(), &1.into()));
    fs::remove_dir_all(instance.dir().join("pool/d1")).unwrap();
    fs::remove_dir_all(instance.dir().join("pool/d5")).unwrap();
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kist(&["pool", "drive", "lost", "1"]).exits(0);
    instance.kist(&["pool", "drive", "lost", "5"]).exits(0);
    wait_until("what they held is rebuilt", || {
        let health = &instance.kist(&["pool", "show", "--json"]).exits(0).json()["health"];
        health["degraded"] == 0 && health["unreadable"] == 0
    });
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kist(&["scrub", "--now"]).exits(0);
    // The instance goes on when it is started anew, and reads what it finds.
    instance.stop();
    instance.start();
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
}

/// Story: with too few drives for a new stripe nothing could be sealed. `kist wait` waited for ever, and
/// `kist status` said nothing of it.
#[test]
fn a_wait_for_a_seal_that_cannot_go_on_says_what_to_do() {
    let (mut instance, _) = filled();
    instance.stop();
    for drive in 0..3 {
        let place = instance.dir().join(format!("pool/d{drive}"));
        fs::rename(&place, place.with_extension("away")).unwrap();
    }
    instance.start();
    instance.kist(&["migrate", "--now"]).exits(0);
    let needed = "5 drives of the pool take new data and 6 are needed";
    wait_until("the seal has failed", || {
        let status = instance.kist(&["status"]).exits(0).out;
        status.lines().any(|line| line.starts_with("waits") && line.contains(needed))
    });
    let waited = instance.kist(&["wait", "--timeout", "5s"]).exits(1);
    waited.says(&["does not end before somebody does something", needed, "drive 0 (missing)"]);
    let queue = instance.kist(&["queue", "--json"]).exits(0).json();
    let line = queue.as_array().unwrap().iter().find(|line| line["cause"]["kind"] == "too-few-pool-drives");
    assert_eq!(line.unwrap_or_else(|| panic!("{queue}"))["cause"]["needs_an_operator"], true);
}

#[test]
fn with_three_drives_gone_files_are_recalled_or_lost_and_found_again() {
    let (mut instance, tree) = filled();
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    let fresh = instance.beside("fresh");
    write(&fresh.join("a"), &bytes(900_000, 9));
    instance.kist(&["put", fresh.to_str().unwrap(), "/fresh"]).exits(0);
    instance.stop();
    let away = instance.beside("away");
    fs::create_dir(&away).unwrap();
    // Three that hold shards of the file that is not on tape, and of one that is: both can no longer be read.
    let drives = three_of_two_blobs(&instance, 900_000);
    for drive in &drives {
        let name = format!("d{drive}");
        fs::rename(instance.dir().join("pool").join(&name), away.join(&name)).unwrap();
    }
    instance.start();
    let [first, second, last] = drives.as_slice() else { panic!("{drives:?}") };
    for drive in [first, second] {
        instance.kist(&["pool", "drive", "lost", &drive.to_string()]).exits(0);
    }
    // The file that is nowhere else would go with it.
    let last = last.to_string();
    let refused = instance.kist(&["pool", "drive", "lost", &last]).exits(4);
    refused.says(&["/fresh/a", "nothing was done", "--accept-loss"]);
    instance.kist(&["pool", "drive", "lost", &last, "--accept-loss"]).exits(0);
    // What tapes have comes back by itself, onto five drives it cannot: the files wait as NEARLINE.
    wait_until("the lost file is named", || {
        let stat = instance.kist(&["stat", "/fresh/a", "--json"]).exits(0).json();
        stat["locality"].as_str() == Some("LOST")
    });
    instance.kist(&["get", "/fresh/a", instance.beside("out").to_str().unwrap()]).exits(7).says(&["LOST"]);
    // Nothing promises it a tape, and who asks for it learns why not.
    let said = |arguments: &[&str], words: &[&str]| {
        let said = instance.kist(arguments).exits(0).out;
        words.iter().for_each(|word| assert!(said.contains(word), "'{word}' is not in:\n{said}"));
    };
    said(&["stat", "/fresh/a"], &["none will come"]);
    said(&["why", "/fresh/a"], &["LOST", "kist pool drive replace"]);
    for options in [&["--quiet"][..], &["--wait"], &["--json"]] {
        let staged = instance.kist(&[&["stage", "/fresh/a"], options].concat()).exits(1);
        staged.says(&["/fresh/a: LOST", "1 of 1 file failed"]);
    }
    let request = instance.kist(&["request", "ls", "--json"]).exits(0).json()[0]["id"].to_string();
    said(&["why", &request], &["/fresh/a failed: LOST"]);
    let shown = instance.kist(&["request", "show", &request, "--json"]).exits(0).json();
    assert_eq!(shown["files"][0]["cause"].as_str(), Some("lost"), "{shown}");
    wait_until("what only tapes have is named", || {
        let files = instance.kist(&["scrub", "--json"]).exits(0).json()["files"].to_string();
        files.contains("/fresh/a LOST") && files.contains(" NEARLINE")
    });
    let scrub = instance.kist(&["scrub", "--json"]).exits(0).json();
    let lost = scrub["lost"].as_u64().unwrap();
    assert_eq!(lost, 1, "only what no tape has: {scrub}");
    // The drives come back.
    for drive in &drives {
        let name = format!("d{drive}");
        let _ = fs::remove_dir_all(instance.dir().join("pool").join(&name));
        fs::rename(away.join(&name), instance.dir().join("pool").join(&name)).unwrap();
        let back = instance.kist(&["pool", "drive", "replace", &drive.to_string()]).exits(0).out;
        assert!(back.contains("the drive itself"), "{back}");
    }
    wait_until("the lost file is found again", || {
        let stat = instance.kist(&["stat", "/fresh/a", "--json"]).exits(0).json();
        stat["locality"].as_str() == Some("ONLINE")
    });
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    // Story: files that had come back were listed as NEARLINE until the next pass.
    let scrub = instance.kist(&["scrub", "--json"]).exits(0).json();
    assert_eq!(scrub["files"], serde_json::json!([]), "{scrub}");
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kist(&["compare", fresh.to_str().unwrap(), "/fresh"]).exits(0);
    instance.kist(&["verify", "--catalogue"]).exits(0);
}

/// Three drives that hold shards of the blob of that size with 4 data shards, and of another blob: any two of
/// six shards on eight drives share four.
fn three_of_two_blobs(instance: &Instance, size: u64) -> Vec<u16> {
    let length = 4096 + size.div_ceil(4).next_multiple_of(4096);
    let mut drives_of = BTreeMap::<String, BTreeSet<u16>>::new();
    let mut sized = None;
    for drive in 0..8 {
        for file in extents(instance, drive) {
            let name = file.file_name().unwrap().to_str().unwrap();
            // BLOB.STRIPE.SHARD; segments of small files are not striped.
            let (Some((blob, _)), false) = (name.split_once('.'), is_segment(&file)) else { continue };
            drives_of.entry(blob.to_owned()).or_default().insert(drive);
            if fs::metadata(&file).unwrap().len() == length {
                sized = Some(blob.to_owned());
            }
        }
    }
    let of_sized = drives_of.remove(&sized.expect("the blob of that size")).unwrap();
    let shared = drives_of.values().map(|drives| &of_sized & drives).find(|shared| shared.len() >= 3);
    shared.expect("another striped blob").into_iter().take(3).collect()
}

/// A page of the catalogue is replaced by another one: a start refuses it, says what to do, and removes
/// nothing. With the good file in its place all is there.
#[test]
fn a_start_on_a_damaged_catalogue_is_refused_and_removes_nothing() {
    const PAGE: usize = 4096;
    let (mut instance, tree) = filled();
    instance.stop();
    let path = instance.dir().join("catalogue/data.mdb");
    let mut good = fs::read(&path).unwrap();
    let held = || -> Vec<Vec<PathBuf>> { (0..8).map(|drive| extents(&instance, drive)).collect() };
    let before = held();
    let pages = good.len() / PAGE;
    let mut refused = 0;
    for page in (0..pages).step_by((pages / 16).max(1)) {
        let from = (page + pages / 2) % pages * PAGE;
        let mut damaged = good.clone();
        damaged.copy_within(from..from + PAGE, page * PAGE);
        fs::write(&path, &damaged).unwrap();
        let served = kist(&["serve", "--stop-with-stdin", instance.dir().to_str().unwrap()]);
        assert_eq!(held(), before, "page {page}");
        if served.code == 0 {
            // A page of no use may be anything.
            good = fs::read(&path).unwrap();
            continue;
        }
        served.exits(7).says(&["the catalogue", "is damaged", "kist restore", "kist rebuild"]);
        assert_eq!(fs::read(&path).unwrap(), damaged, "page {page}: the file was changed");
        fs::write(&path, &good).unwrap();
        refused += 1;
    }
    assert!(refused >= 3, "{refused} refused");
    instance.start();
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
}
