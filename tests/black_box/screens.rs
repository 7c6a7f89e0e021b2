//! What people see: lists, what commands say, what logs say, and stops.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::harness::{Instance, Ran, bytes, command, kist, wait_until, write};

/// Checks what a command that went well shows.
fn shows(ran: Ran, words: &[&str]) {
    let ran = ran.exits(0);
    for word in words {
        assert!(ran.out.contains(word), "'{word}' is not in:\n{}", ran.out);
    }
}

fn on_tape() -> Instance {
    let instance = Instance::serving();
    let local = instance.beside("f");
    write(&local, &bytes(300_000, 1));
    instance.kist(&["mkdir", "/t"]).exits(0);
    instance.kist(&["put", local.to_str().unwrap(), "/t/f"]).exits(0);
    shows(instance.kist(&["migrate", "--now"]), &["all that waits goes to tape now", "kist wait"]);
    instance.kist(&["wait", "--timeout", "2min"]).exits(0);
    instance
}

/// `tape ls`, `drive ls`, `queue` and `request ls` had no filter, no total and no `--watch`.
#[test]
fn lists_have_filters_totals_and_watches() {
    let instance = on_tape();
    let ids = |arguments: &[&str], key: &str| -> Vec<String> {
        let list = instance.kist(&[arguments, &["--json"]].concat()).exits(0).json();
        let name = |item: &serde_json::Value| item[key].as_str().unwrap_or_default().to_owned();
        list.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(ids(&["tape", "ls"], "vid").len(), 4);
    assert_eq!(ids(&["tape", "ls", "--state", "scratch"], "vid").len(), 2);
    let of_pool = ids(&["tape", "ls", "--pool", "vault-a"], "tape_pool");
    assert_eq!(of_pool, ["vault-a"]);
    assert!(ids(&["tape", "ls", "--wanted"], "vid").is_empty());
    shows(instance.kist(&["tape", "ls", "--state", "scratch"]), &["2 tapes: ", "0 files wanted"]);
    // What a repack would give back could not be seen.
    let live = || {
        let list = instance.kist(&["tape", "ls", "--pool", "vault-a", "--live", "--json"]).exits(0).json();
        list[0]["live_bytes"].as_u64().unwrap_or_else(|| panic!("{list}"))
    };
    assert_eq!(live(), 300_000);
    instance.kist(&["put", instance.beside("f").to_str().unwrap(), "/g"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "2min"]).exits(0);
    assert_eq!(live(), 600_000);
    instance.kist(&["rm", "/g"]).exits(0);
    wait_until("the removed file counts no more", || live() == 300_000);
    shows(instance.kist(&["tape", "ls", "--live"]), &["of written", "600 kB live;"]);
    shows(instance.kist(&["tape", "show", "KS0001"]), &["300 kB of", "kist tape repack KS0001 gives back"]);
    let drives = instance.kist(&["drive", "ls", "--json"]).exits(0).json();
    assert_eq!(drives[0]["library"], "library");
    assert_eq!(ids(&["drive", "ls", "--state", "down"], "name").len(), 0);
    shows(instance.kist(&["drive", "ls", "--library", "library"]), &["library", "2 drives, "]);
    let request = instance.kist(&["stage", "/t"]).exits(0);
    assert!(request.out.contains("request 1"), "{}", request.out);
    shows(instance.kist(&["request", "ls"]), &["1 request: 1 of 1 file done"]);
    assert!(ids(&["request", "ls", "--state", "cancelled"], "state").is_empty());
    assert_eq!(ids(&["request", "ls", "--owner", "admin"], "owner"), ["admin"]);
    shows(instance.kist(&["queue", "--kind", "recall"]), &["nothing waits"]);
    shows(instance.kist(&["queue", "--of", "vault-a"]), &["nothing waits"]);
    shows(instance.kist(&["queue", "--of", "KS0001"]), &["nothing waits"]);
    // Words that there are not gave empty lists.
    for (arguments, there_are) in [
        (&["tape", "ls", "--state", "fool"][..], "scratch"),
        (&["tape", "ls", "--pool", "vault"], "vault-a"),
        (&["tape", "ls", "--library", "x"], "library"),
        (&["drive", "ls", "--state", "x"], "unmounting"),
        (&["drive", "ls", "--library", "x"], "library"),
        (&["request", "ls", "--state", "done"], "completed"),
        (&["queue", "--of", "vault"], "vault-a"),
    ] {
        instance.kist(arguments).exits(2).says(&[there_are]);
    }
    instance.kist(&["queue", "--watch", "--json"]).exits(2).says(&["leave --json out"]);
    let key = instance.key_file();
    let mut watch = command(&["tape", "ls", "--watch", "1", "--server", &instance.url, "--key-file"])
        .arg(&key)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let totals = lines.map(Result::unwrap).filter(|line| line.starts_with("4 tapes: ")).take(2).count();
    assert_eq!(totals, 2, "it is shown again");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// Commands that had nothing to show said nothing at all, and the audit log did not say what was set.
#[test]
fn what_was_done_is_said_and_written_down() {
    let instance = on_tape();
    let status = instance.kist(&["status"]).exits(0).out;
    assert!(status.contains("evictable  up to 1 file, 300 kB"), "{status}");
    for (arguments, says) in [
        (&["tape", "set", "KS0004", "disabled", "--reason", "old"][..], "tape KS0004 is disabled"),
        (&["drive", "down", "vdrive0", "--reason", "cleaning"], "vdrive0 goes out of use"),
        (&["drive", "up", "vdrive0"], "vdrive0 is in use again"),
        (&["quota", "set", "/t", "--files", "1"], "the quota of /t holds"),
        (&["acl", "set", "/t", "user:anna=lr"], "/t has this list"),
    ] {
        shows(instance.kist(arguments), &[says]);
        let quiet = instance.kist(&[arguments, &["--quiet"]].concat()).exits(0);
        assert_eq!(quiet.out, "", "{arguments:?}");
    }
    // It said active, though a tape that was never written is scratch.
    shows(instance.kist(&["tape", "set", "KS0004", "active"]), &["tape KS0004 is scratch from now on"]);
    let log = instance.kist(&["audit", "show", "--since", "1h"]).exits(0).out;
    assert!(log.contains("KS0004 disabled: old"), "{log}");
    assert!(log.contains("vdrive0: cleaning"), "{log}");
    // A quota is its user's affair: the server's log said ERROR at each refusal.
    let local = instance.beside("g");
    write(&local, b"two");
    instance.kist(&["put", local.to_str().unwrap(), "/t/g"]).exits(4).says(&["quota"]);
    let log = fs::read_to_string(instance.beside("server.log")).unwrap();
    assert!(!log.contains("ERROR"), "{log}");
}

/// A signal that came before the instance was open ended the process as a crash does: `make bench` met that
/// once.
#[test]
fn a_server_that_is_opening_stops_cleanly() {
    let instance = Instance::init();
    for _ in 0..5 {
        let mut server = command(&["serve", instance.dir().to_str().unwrap()])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(log.any(|line| line.contains("opening the instance")), "it says that it opens");
        let pid = server.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let rest: Vec<String> = log.collect();
        let status = server.wait().unwrap();
        assert!(status.success(), "{status}: {rest:?}");
    }
    // Nothing is left of these: the next start is as any other.
    assert!(!instance.dir().join("run/server.json").exists());
    let mut instance = instance;
    instance.start();
    instance.kist(&["ls"]).exits(0);
    instance.stop();
}

/// Drives of the pool that were mounted before the instance was made were refused.
#[test]
fn an_instance_is_made_around_mounted_drives() {
    let other = Instance::init();
    let dir = other.beside("mounted");
    let text = dir.to_str().unwrap();
    for drive in 0..8 {
        fs::create_dir_all(dir.join(format!("pool/d{drive}/lost+found"))).unwrap();
    }
    let foreign = dir.join("pool/d3/data");
    write(&foreign, b"somebody's");
    kist(&["init", text, "--cartridges", "4"]).exits(4).says(&["pool/d3 is not empty", "pool/d3/data"]);
    fs::remove_file(&foreign).unwrap();
    fs::create_dir(dir.join("pool/d8")).unwrap();
    kist(&["init", text, "--cartridges", "4"]).exits(4).says(&["pool/d8 is no directory of the 8 drives"]);
    fs::remove_dir(dir.join("pool/d8")).unwrap();
    write(&dir.join("notes"), b"mine");
    kist(&["init", text, "--cartridges", "4"]).exits(4).says(&["is not empty: it has", "notes"]);
    fs::remove_file(dir.join("notes")).unwrap();
    assert!(!dir.join("kist.toml").exists(), "nothing was done");
    kist(&["init", text, "--cartridges", "4"]).exits(0);
    assert!(dir.join("pool/d3/lost+found").is_dir() && dir.join("pool/d3/extents").is_dir());
    kist(&["serve", "--check-config", text]).exits(0);
    // A backup below a mount that is missing was found out by the server only.
    let file = dir.join("kist.toml");
    let settings = fs::read_to_string(&file).unwrap();
    let backup = "[backup]\ndirectory = \"/nowhere/at/all\"\n";
    fs::write(&file, format!("{settings}\n{backup}")).unwrap();
    kist(&["serve", "--check-config", text]).exits(2).says(&["backup.directory: /nowhere/at is not there"]);
}

/// A rename can make what is below longer than a path may be: the whole listing was refused.
#[test]
fn a_listing_leaves_out_what_no_path_leads_to() {
    let instance = Instance::serving();
    let name = |n: usize| format!("{n}{}", "x".repeat(240));
    let deep: String = (0..16).map(|n| format!("/{}", name(n))).collect();
    assert!(deep.len() < 4_096);
    instance.kist(&["mkdir", "-p", &format!("/a{deep}")]).exits(0);
    instance.kist(&["mv", "/a", &format!("/{}", "a".repeat(255))]).exits(0);
    let listed = instance.kist(&["ls", "-r", "/"]).exits(1).says(&["longer than a path may be"]);
    assert_eq!(listed.out.lines().count(), 17, "all names are listed: {}", listed.out.len());
}

/// Story: `kist ls a b` was no command, though each shell expands to several paths.
#[test]
fn several_paths_are_listed_as_ls_does() {
    let instance = Instance::serving();
    for path in ["/a/one", "/a/two", "/b/three", "/c/four"] {
        instance.kist_with_input(&["put", "-", path], path.as_bytes()).exits(0);
    }
    let listed = |arguments: &[&str]| instance.kist(&[&["ls"], arguments].concat()).exits(0).out;
    assert_eq!(listed(&["/a"]), "one\ntwo\n");
    assert_eq!(listed(&["/a", "/c/four", "/b"]), "/c/four\n\n/a:\none\ntwo\n\n/b:\nthree\n");
    assert_eq!(listed(&["-r", "/a", "/b"]), "/a/one\n/a/two\n/b/three\n");
    let long = listed(&["-l", "/a", "/b"]);
    assert_eq!(long.matches("locality").count(), 2, "{long}");
    let json = instance.kist(&["ls", "--json", "/b", "/a/one"]).exits(0).json();
    let paths: Vec<&str> =
        json.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!((paths, json[1]["size"].as_u64()), (vec!["/a/one", "/b/three"], Some(8)), "{json}");
    let some = instance.kist(&["ls", "/a", "/nowhere"]).exits(1).says(&["/nowhere", "1 of 2 paths"]);
    assert_eq!(some.out, "/a:\none\ntwo\n");
    instance.kist(&["ls", "/nowhere", "/nor/there"]).exits(3);
}
