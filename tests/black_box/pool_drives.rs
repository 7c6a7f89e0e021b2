//! A drive is added to the pool of a running server, which is killed at any moment of it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Instance, Ran, bytes, command, wait_until, write};

/// Kills at different moments of the same work: from before it to after it, which takes some milliseconds.
const KILLS: u64 = 8;

fn states(instance: &Instance) -> Vec<(u64, String)> {
    let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    let drives = pool["drives"].as_array().unwrap().iter();
    drives.map(|drive| (drive["id"].as_u64().unwrap(), drive["state"].as_str().unwrap().to_owned())).collect()
}

fn up(count: u64) -> Vec<(u64, String)> {
    (0..count).map(|id| (id, "up".to_owned())).collect()
}

fn put(instance: &Instance, n: u64) {
    let local = instance.beside("file");
    write(&local, &bytes(600_000, n));
    instance.kist(&["put", local.to_str().unwrap(), &format!("/t/{n}")]).exits(0);
}

fn check(instance: &Instance, n: u64) {
    let got = instance.beside(&format!("got{n}"));
    instance.kist(&["get", &format!("/t/{n}"), got.to_str().unwrap()]).exits(0);
    assert!(fs::read(got).unwrap() == bytes(600_000, n), "{n}");
}

fn config(instance: &Instance) -> String {
    fs::read_to_string(instance.dir().join("kist.toml")).unwrap()
}

fn add(instance: &Instance, path: &Path) -> Ran {
    instance.kist(&["pool", "drive", "add", path.to_str().unwrap(), "--new"])
}

fn extents(drive: &Path) -> usize {
    let buckets = fs::read_dir(drive.join("extents")).unwrap();
    buckets.map(|bucket| fs::read_dir(bucket.unwrap().path()).unwrap().count()).sum()
}

/// After each kill the next start has all drives that it knows, and the same words finish what was begun.
#[test]
fn kills_while_a_drive_is_added_leave_none_or_a_whole_one() {
    let mut instance = Instance::serving();
    let comment = "# mine: do not touch\n";
    fs::write(instance.dir().join("kist.toml"), format!("{comment}{}", config(&instance))).unwrap();
    let before = states(&instance).len() as u64;
    put(&instance, 0);
    for kill in 0..KILLS {
        let drives = before + kill;
        // Below the instance, so that the file says it in short.
        let path = instance.dir().join(format!("pool/d{drives}"));
        let mut adding = command(&["pool", "drive", "add", path.to_str().unwrap(), "--new"]);
        adding.env("KIST_INSTANCE", instance.dir()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut adding = adding.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(kill * 6));
        instance.kill();
        adding.wait().unwrap();
        instance.start();
        let entry = format!("path = \"pool/d{drives}\"\n");
        let named = config(&instance).matches(&entry).count();
        assert_eq!(states(&instance), up(drives + named as u64), "kill {kill}");
        let said = add(&instance, &path).exits(0);
        assert!(said.out.starts_with(&format!("drive {drives}: ")), "{}", said.out);
        assert_eq!(states(&instance), up(drives + 1), "kill {kill}");
        assert_eq!(config(&instance).matches(&entry).count(), 1);
        put(&instance, kill + 1);
        check(&instance, kill);
    }
    let last = instance.dir().join(format!("pool/d{}", before + KILLS - 1));
    for n in KILLS..KILLS + 30 {
        put(&instance, n + 1);
    }
    assert!(extents(&last) > 3, "{}", extents(&last));
    assert!(config(&instance).starts_with(comment));
    instance.kist(&["serve", "--check-config", instance.dir().to_str().unwrap()]).exits(0);
    assert!(add(&instance, &last).exits(0).out.contains("in use already"));
    let other = instance.beside("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("mine"), "x").unwrap();
    let text = config(&instance);
    add(&instance, &other).exits(4).says(&["is not empty"]);
    assert_eq!(config(&instance), text);
    instance.stop();
    // Without a server nothing is changed.
    add(&instance, &instance.beside("more"));
    assert_eq!((config(&instance), instance.beside("more").exists()), (text, false));
    instance.start();
    assert_eq!(states(&instance), up(before + KILLS));
    (0..KILLS).for_each(|n| check(&instance, n));
    instance.stop();
}

/// The server is killed again and again while what is stored moves to drives that were added.
#[test]
fn kills_while_what_is_stored_moves_cost_nothing() {
    let mut instance = Instance::serving();
    let before = states(&instance).len() as u64;
    (0..30).for_each(|n| put(&instance, n));
    let added: Vec<_> =
        (before..before + 3).map(|drive| instance.dir().join(format!("pool/d{drive}"))).collect();
    for path in &added {
        let said = add(&instance, path).exits(0);
        assert!(said.out.contains("kist pool rebalance"), "{}", said.out);
    }
    let on_added = || added.iter().map(|drive| extents(drive)).sum::<usize>();
    let first = on_added();
    let none = instance.kist(&["pool", "rebalance", "--end"]).exits(0).out;
    assert!(none.contains("none is under way"), "{none}");
    instance.kist(&["pool", "rebalance", "--to", "101"]).exits(2);
    // All are parts of one file system: until nothing gains.
    let said = instance.kist(&["pool", "rebalance", "--to", "0"]).exits(0).out;
    assert!(said.contains("kist pool show"), "{said}");
    for kill in 0..4 {
        std::thread::sleep(Duration::from_millis(40 * kill));
        instance.kill();
        instance.start();
        check(&instance, kill * 7);
    }
    let rebalance = |instance: &Instance| {
        let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
        pool["rebalance"].clone()
    };
    let is_over = |instance: &Instance| {
        let now = rebalance(instance);
        now.is_null() || now["state"] == "ended"
    };
    wait_until("the rebalance has ended", || is_over(&instance));
    assert!(on_added() > first + 20, "{first} {}", on_added());
    (0..30).for_each(|n| check(&instance, n));
    let scrubbed = instance.kist(&["scrub", "--now", "--json"]).exits(0).json();
    assert_eq!((scrubbed["found"].as_u64(), scrubbed["failed"].as_u64()), (Some(0), Some(0)), "{scrubbed}");
    instance.kist(&["pool", "rebalance"]).exits(0);
    wait_until("it has ended", || is_over(&instance));
    let show = instance.kist(&["pool", "show"]).exits(0).out;
    assert!(show.contains("rebalance: ended: balanced: "), "{show}");
    let spread = rebalance(&instance)["spread"].as_f64().unwrap();
    assert!((0.0..5.0).contains(&spread), "{spread}");
}
