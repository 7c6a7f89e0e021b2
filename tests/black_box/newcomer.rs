//! What a newcomer stumbled over: things that went wrong without a word, or with the wrong one.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Instance, Ran, bytes, kist, write};

/// Takes drives of a stopped instance away and gives where they are.
fn take_away(instance: &Instance, drives: std::ops::Range<u16>) -> PathBuf {
    let away = instance.beside("away");
    fs::create_dir(&away).unwrap();
    for drive in drives {
        let name = format!("d{drive}");
        fs::rename(instance.dir().join("pool").join(&name), away.join(&name)).unwrap();
    }
    away
}

fn put(instance: &Instance, name: &str, content: &[u8]) -> Ran {
    let local = instance.beside("local");
    write(&local, content);
    instance.kist(&["put", local.to_str().unwrap(), name]).exits(0)
}

/// The answer began with 200 and broke off in the middle: `the server broke off after 0 bytes`, three times,
/// exit code 8, and `kist why` said that nothing waits.
#[test]
fn a_file_whose_drives_are_away_is_refused_in_words_or_comes_from_tape() {
    let mut instance = Instance::serving();
    let content = bytes(9_000_000, 5);
    put(&instance, "/taped", &content);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    put(&instance, "/fresh", &bytes(9_000_000, 6));
    put(&instance, "/small", b"small");
    instance.stop();
    // Every stripe of 4+2 over 8 drives has at least 3 of these 5.
    let away = take_away(&instance, 0..5);
    instance.start();

    let out = instance.beside("out");
    let out = out.to_str().unwrap();
    // What all its tapes have is as if it had been evicted.
    let stat = instance.kist(&["stat", "/taped", "--json"]).exits(0).json();
    assert_eq!(stat["locality"].as_str(), Some("NEARLINE"), "{stat}");
    let listed = instance.kist(&["ls", "-l", "/", "--json"]).exits(0).json();
    let locality = |name: &str| {
        let found = listed.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        found["locality"].as_str().unwrap().to_owned()
    };
    assert_eq!((locality("taped").as_str(), locality("fresh").as_str()), ("NEARLINE", "ONLINE"));
    instance.kist(&["get", "/taped", out]).exits(4).says(&["NEARLINE", "kist stage"]);
    let (status, answer) = instance.http("GET", "/data/taped", &[], b"");
    assert!(status == 409 && answer.contains("\"nearline\""), "{answer}");
    assert!(answer.contains("do not answer") && answer.contains("KS000"), "{answer}");
    let why = instance.kist(&["why", "/taped"]).exits(0).out;
    assert!(why.contains("do not answer") && why.contains("kist stage /taped"), "{why}");

    // What only the pool has: who is missing is said, before anything is sent.
    for range in ["bytes=0-", "bytes=8000000-8000010"] {
        let (status, answer) = instance.http("GET", "/data/fresh", &[("Range", range)], b"");
        assert!(status == 503 && answer.contains("\"drives-away\""), "{answer}");
    }
    let refused =
        instance.kist(&["get", "/fresh", out]).exits(4).says(&["drives ", "do not answer", "no tape"]);
    assert!(!refused.err.contains("broke off"), "{}", refused.err);
    let why = instance.kist(&["why", "/fresh"]).exits(0).out;
    assert!(why.contains("do not answer"), "{why}");
    // `kist status` names the drives.
    let status = instance.kist(&["status"]).exits(0).out;
    assert!(status.contains("3 of 8 drives up"), "{status}");
    assert!(status.contains("5 of 8 drives of the pool do not answer: 0 (missing), 1 (missing)"), "{status}");
    assert!(status.contains("% full, "), "{status}");
    // A missing drive has a directory.
    let shown = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    assert!(shown["drives"][0]["path"].as_str().unwrap().ends_with("pool/d0"), "{shown}");

    // The drives come back: nothing was given up meanwhile.
    instance.stop();
    for drive in 0..5 {
        let name = format!("d{drive}");
        fs::rename(away.join(&name), instance.dir().join("pool").join(&name)).unwrap();
    }
    instance.start();
    let stat = instance.kist(&["stat", "/taped", "--json"]).exits(0).json();
    assert_eq!(stat["locality"].as_str(), Some("ONLINE_AND_NEARLINE"), "{stat}");
    instance.kist(&["get", "/fresh", out]).exits(0);
    assert!(fs::read(out).unwrap() == bytes(9_000_000, 6));
}

/// With drives away a file of which tapes have everything was `online` for `kist stage`, which did nothing.
#[test]
fn a_file_whose_drives_are_away_is_staged_from_tape() {
    let mut instance = Instance::init_with(&["--drives", "12"]);
    instance.start();
    let content = bytes(9_000_000, 5);
    put(&instance, "/taped", &content);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let holders: Vec<u16> = (0..12).filter(|drive| holds(&instance, *drive)).collect();
    assert!(holders.len() >= 6, "{holders:?}");
    put(&instance, "/fresh", &bytes(9_000_000, 6));
    instance.stop();
    // Six drives are left: enough to take what comes back.
    let away = instance.beside("away");
    fs::create_dir(&away).unwrap();
    for drive in &holders[..6] {
        let name = format!("d{drive}");
        fs::rename(instance.dir().join("pool").join(&name), away.join(&name)).unwrap();
    }
    instance.start();
    let stat = instance.kist(&["stat", "/taped", "--json"]).exits(0).json();
    assert_eq!(stat["locality"].as_str(), Some("NEARLINE"), "{stat}");
    instance.kist(&["stage", "--wait", "/"]).exits(0);
    let out = instance.beside("out");
    instance.kist(&["get", "/taped", out.to_str().unwrap()]).exits(0);
    assert!(fs::read(&out).unwrap() == content);
    instance.stop();
    // What no tape has was not given up.
    for drive in &holders[..6] {
        let name = format!("d{drive}");
        fs::rename(away.join(&name), instance.dir().join("pool").join(&name)).unwrap();
    }
    instance.start();
    instance.kist(&["get", "/fresh", out.to_str().unwrap()]).exits(0);
    assert!(fs::read(&out).unwrap() == bytes(9_000_000, 6));
    instance.kist(&["get", "/taped", out.to_str().unwrap()]).exits(0);
    assert!(fs::read(&out).unwrap() == content);
    instance.kist(&["verify", "--catalogue"]).exits(0);
}

/// Whether a drive has extents of more than a megabyte.
fn holds(instance: &Instance, drive: u16) -> bool {
    let root = instance.dir().join(format!("pool/d{drive}/extents"));
    let buckets = fs::read_dir(root).unwrap().map(|bucket| bucket.unwrap().path());
    let mut extents = buckets.flat_map(|bucket| fs::read_dir(bucket).unwrap());
    extents.any(|extent| extent.unwrap().metadata().unwrap().len() > 1_000_000)
}

/// `kist put -` over a file that was there did so without a word; so did other puts.
#[test]
fn a_put_that_takes_the_place_of_a_file_says_so() {
    let instance = Instance::serving();
    let first = instance.kist_with_input(&["put", "-", "/f"], b"first").exits(0);
    assert!(first.err.contains("put ") && !first.err.contains("older version"), "{}", first.err);
    instance.kist_with_input(&["put", "-", "/f"], b"first").exits(0).says(&["was there already"]);
    instance.kist_with_input(&["put", "-", "/f"], b"second").exits(0).says(&["in place of an older version"]);
    let refused = instance.kist_with_input(&["put", "--keep-existing", "-", "/f"], b"third").exits(4);
    refused.says(&["exists already"]);
    let tree = instance.beside("tree");
    write(&tree.join("f"), b"fourth");
    write(&tree.join("g"), b"new");
    let tree = tree.to_str().unwrap();
    instance.kist(&["put", tree, "/"]).exits(0).says(&["put 2 files", "1 file in place of older versions"]);
    let again = instance.kist(&["put", "--json", tree, "/"]).exits(0).json();
    assert_eq!((again["replaced"].as_u64(), again["skipped"].as_u64()), (Some(0), Some(2)), "{again}");
}

/// The index of a tape that was emptied and reclaimed goes on naming what stood there: the rebuild took that
/// for content that it does not know, and exited with 7.
#[test]
fn a_repacked_or_reclaimed_tape_is_no_alarm_in_a_rebuild() {
    let mut instance = Instance::serving();
    let migrate = |instance: &Instance| {
        instance.kist(&["migrate", "--now"]).exits(0);
        instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    };
    put(&instance, "/f", &bytes(2_000_000, 3));
    migrate(&instance);
    let stat = instance.kist(&["stat", "/f", "--json"]).exits(0).json();
    let vid = stat["copies"][0]["vid"].as_str().unwrap().to_owned();
    persist(&instance, &["tape", "repack", &vid, "--reason", "old"]);
    for round in 0.. {
        let repack = instance.kist(&["tape", "repack", &vid, "--show", "--json"]).exits(0).json();
        if repack["state"] == "done" {
            break;
        }
        assert!(round < 600, "{repack}");
        instance.kist(&["migrate", "--now"]).exits(0);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let listed = instance.kist(&["tape", "ls"]).exits(0).out;
    assert!(listed.lines().next().unwrap().ends_with("reason"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with(&vid) && line.ends_with("old")), "{listed}");
    let rebuild = |instance: &mut Instance| {
        instance.stop();
        fs::remove_dir_all(instance.dir().join("catalogue")).unwrap();
        // The drives have seen the changes behind the last index of a tape.
        let dir = instance.dir();
        let arguments = ["rebuild", "--from-tapes", "--json", "--accept-loss", dir.to_str().unwrap()];
        let rebuilt = kist(&arguments).exits(0).json();
        assert_eq!(rebuilt["in_place"].as_bool(), Some(true), "{rebuilt}");
        instance.start();
        rebuilt["tapes"].as_array().unwrap().iter().find(|tape| tape["vid"] == *vid).unwrap().clone()
    };
    let found = rebuild(&mut instance);
    assert!(found["containers"].as_u64() > Some(0), "the old index names what was there: {found}");
    // Not before the rebuilt catalogue is settled.
    persist(&instance, &["pool", "quarantine", "--end"]);
    persist(&instance, &["tape", "reclaim", &vid]);
    put(&instance, "/g", &bytes(2_000_000, 4));
    migrate(&instance);
    let found = rebuild(&mut instance);
    assert!(found["what"].as_str().unwrap().contains("reclaimed"), "{found}");
}

/// Does a tape's command as soon as its session has ended and its change-log segments stand elsewhere.
fn persist(instance: &Instance, command: &[&str]) {
    for _ in 0..600 {
        let ran = instance.kist(command);
        if ran.code == 0 {
            return;
        }
        assert!(matches!(ran.code, 4 | 8), "{}", ran.err);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{command:?} is refused for ever");
}
