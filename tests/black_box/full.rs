//! File systems without room below the catalogue, the audit log and the instance itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Instance, bytes, wait_until, write};
use crate::trouble::{Mounted, shown};

fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("other");
    let mut other = fs::File::create(&path).unwrap();
    let filled = std::io::copy(&mut std::io::repeat(7), &mut other);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    path
}

/// Moves a directory of the instance to a file system of its own.
fn move_to(disk: &Mounted, from: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(disk.path()).status().unwrap();
    assert!(copied.success());
    fs::remove_dir_all(from).unwrap();
    std::os::unix::fs::symlink(disk.path(), from).unwrap();
}

fn health(instance: &Instance) -> (u16, String) {
    instance.http("GET", "/healthz", &[("Authorization", "")], b"")
}

/// Puts small files until one is refused; how many were taken, all of which are read afterwards.
fn put_until_refused(instance: &Instance, files_max: usize) -> usize {
    let content = "x".repeat(200);
    for n in 0..files_max {
        let long = format!("/data/{n:0>240}");
        let (status, answer) = instance.http("PUT", &long, &[], format!("{n}{content}").as_bytes());
        match status {
            201 => {}
            503 => {
                assert!(answer.to_lowercase().contains("kist-problem: server-full"), "{answer}");
                assert!(answer.to_lowercase().contains("retry-after"), "{answer}");
                return n;
            }
            _ => panic!("{status}: {answer}"),
        }
    }
    panic!("{files_max} files and still room");
}

fn wait_until_healthy(instance: &Instance) {
    let begin = Instant::now();
    while health(instance).0 != 200 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", health(instance));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What an operator sees: the reason, in each place.
fn assert_told(instance: &Instance, word: &str, words: &str) {
    let (status, answer) = health(instance);
    assert!(status == 503 && answer.contains(word) && answer.contains(words), "{status} {answer}");
    let told = instance.kist(&["status"]).exits(0);
    assert!(told.out.contains(words), "{}", told.out);
    let (_, metrics) = instance.http("GET", "/metrics", &[], b"");
    assert!(metrics.contains(&format!("kist_refuses_changes{{reason=\"{word}\"}} 1")), "{metrics}");
}

/// Found by filling the disk of a server: the writer stopped for good, and `/healthz` said 200.
#[test]
fn a_full_catalogue_refuses_puts_says_so_and_goes_on_by_itself() {
    let mut instance = Instance::init();
    let Some(disk) = Mounted::new(instance.beside("small"), "64m") else { return };
    move_to(&disk, &instance.dir().join("catalogue"));
    instance.start();
    let file = instance.beside("file");
    write(&file, &bytes(3_000_000, 1));
    instance.kist(&["put", shown(&file), "/first"]).exits(0);
    let other = fill(disk.path());
    let kept = put_until_refused(&instance, 20_000);
    assert!(kept > 0);
    assert_told(&instance, "catalogue-disk-full", "the file system of the catalogue is full");
    instance.kist(&["put", "--quiet", shown(&file), "/no"]).exits(4).says(&["full"]);
    instance.kist(&["mkdir", "/no"]).exits(4).says(&["full"]);
    // Reads, migration, eviction and removal go on; a restart too.
    instance.kist(&["compare", shown(&file), "/first"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    instance.kist(&["evict", "/first"]).exits(0);
    instance.stop();
    instance.start();
    instance.kist(&["rm", "/first"]).exits(0);
    assert_eq!(instance.http("PUT", "/data/no", &[], b"1").0, 503);
    fs::remove_file(other).unwrap();
    wait_until_healthy(&instance);
    instance.kist(&["put", shown(&file), "/again"]).exits(0);
    instance.kist(&["compare", shown(&file), "/again"]).exits(0);
    instance.kist(&["verify", "--catalogue"]).exits(0);
    instance.stop();
}

/// Found by filling the disk of a server: changes hung, and timed out although they had been made.
#[test]
fn a_full_audit_log_refuses_changes_before_they_are_made_and_goes_on_by_itself() {
    let mut instance = Instance::init();
    let log = instance.dir().join("log");
    fs::create_dir_all(&log).unwrap();
    let Some(disk) = Mounted::new(instance.beside("small"), "8m") else { return };
    move_to(&disk, &log);
    instance.start();
    instance.kist(&["mkdir", "/d"]).exits(0);
    let other = fill(disk.path());
    let kept = put_until_refused(&instance, 20_000);
    assert!(kept > 0);
    assert_told(&instance, "audit-full", "the audit log");
    // What is refused is not made; what makes room is taken from the reserve of the log.
    instance.kist(&["mkdir", "/no"]).exits(4).says(&["audit log"]);
    instance.kist(&["stat", "/no"]).exits(3);
    instance.kist(&["rm", "-r", "/d"]).exits(0);
    fs::remove_file(other).unwrap();
    wait_until_healthy(&instance);
    instance.kist(&["mkdir", "/again"]).exits(0);
    instance.stop();
    instance.kist(&["audit", "verify"]).exits(0);
}

/// Found by filling the disk of a server: it did not start again.
#[test]
fn an_instance_on_a_full_file_system_starts_serves_and_goes_on_by_itself() {
    let mut instance = Instance::init();
    let Some(disk) = Mounted::new(instance.beside("small"), "96m") else { return };
    // The pool and the library stay where they are: what is full is the disk of the instance.
    for part in ["pool", "library"] {
        let (from, to) = (instance.dir().join(part), instance.beside(part));
        if from.exists() {
            fs::rename(&from, &to).unwrap();
            std::os::unix::fs::symlink(&to, &from).unwrap();
        }
    }
    move_to(&disk, &instance.dir());
    instance.start();
    let file = instance.beside("file");
    write(&file, &bytes(3_000_000, 1));
    instance.kist(&["put", shown(&file), "/first"]).exits(0);
    let other = fill(disk.path());
    for _ in 0..3 {
        instance.stop();
        instance.start();
        instance.kist(&["status"]).exits(0);
        instance.kist(&["compare", shown(&file), "/first"]).exits(0);
    }
    instance.kist(&["rm", "/first"]).exits(0);
    fs::remove_file(other).unwrap();
    wait_until_healthy(&instance);
    instance.kist(&["put", shown(&file), "/again"]).exits(0);
    instance.kill();
    instance.start();
    instance.kist(&["compare", shown(&file), "/again"]).exits(0);
    instance.stop();
}

/// Story: a put right behind an evict that had made room was refused for a while: the evict was answered
/// before the bytes had left the drives, and drives that shared the file system knew of the room a second
/// later.
#[test]
fn what_an_evict_gives_back_is_room_at_once() {
    let mut instance = Instance::init();
    let Some(disk) = Mounted::new(instance.beside("small"), "400m") else { return };
    move_to(&disk, &instance.dir().join("pool"));
    // Nothing leaves by itself here.
    let settings = instance.dir().join("kist.toml");
    let marked = fs::read_to_string(&settings).unwrap();
    let plain = marked.replace("high_water =", "# high_water =").replace("low_water =", "# low_water =");
    fs::write(&settings, &plain).unwrap();
    assert!(plain.matches("# high_water =").count() == 1 && plain.matches("# low_water =").count() == 1);
    instance.start();
    let body = bytes(12_000_000, 1);
    let put = |name: &str| instance.http("PUT", &format!("/data/t/{name}"), &[], &body).0;
    let kept = (0..100).take_while(|n| put(&n.to_string()) == 201).count();
    assert!((8..100).contains(&kept), "{kept}");
    instance.kist(&["migrate", "--now", "--quiet"]).exits(0);
    instance.kist(&["wait", "--quiet"]).exits(0);
    let json = [("Content-Type", "application/json")];
    for round in 0..kept / 2 {
        let paths = format!(r#"{{"paths":["/t/{}","/t/{}"],"recursive":false}}"#, 2 * round, 2 * round + 1);
        let (status, answer) = instance.http("POST", "/api/v1/evict", &json, paths.as_bytes());
        assert!(status == 200 && answer.contains(r#""evicted":2"#), "{answer}");
        assert_eq!(put(&format!("new-{round}")), 201, "round {round}");
        // Full again, for the next round.
        let more = (0..10).take_while(|n| put(&format!("more-{round}-{n}")) == 201).count();
        assert!(more < 10);
    }
}

/// Nothing was evicted by itself: an archive filled, and refused, until somebody evicted by path.
#[test]
fn a_full_pool_makes_room_by_itself_with_what_tapes_have() {
    let mut instance = Instance::init();
    let Some(disk) = Mounted::new(instance.beside("small"), "400m") else { return };
    move_to(&disk, &instance.dir().join("pool"));
    instance.start();
    let body = bytes(12_000_000, 1);
    let put = |n: usize| instance.http("PUT", &format!("/data/t/{n}"), &[], &body).0;
    let kept = (0..100).take_while(|n| put(*n) == 201).count();
    assert!((8..100).contains(&kept), "{kept}");
    let evictor = || instance.kist(&["pool", "show", "--json"]).exits(0).json()["evictor"].clone();
    assert_eq!(evictor()["evicted_files"].as_u64(), Some(0), "what no tape has stays");
    instance.kist(&["migrate", "--now", "--quiet"]).exits(0);
    instance.kist(&["wait", "--quiet"]).exits(0);
    // As much again as the pool holds goes through it, the oldest leaving first.
    for n in kept..2 * kept {
        wait_until("there is room for another file", || put(n) == 201);
        if n % 4 == 0 {
            instance.kist(&["migrate", "--now", "--quiet"]).exits(0);
        }
    }
    assert!(evictor()["evicted_files"].as_u64() >= Some(kept as u64 / 2), "{}", evictor());
    let locality = |n: usize| {
        let stat = instance.kist(&["stat", &format!("/t/{n}"), "--json"]).exits(0).json();
        stat["locality"].as_str().unwrap().to_owned()
    };
    assert_eq!((locality(0).as_str(), locality(2 * kept - 1).starts_with("ONLINE")), ("NEARLINE", true));
    let file = instance.beside("file");
    write(&file, &body);
    instance.kist(&["wait", "--quiet"]).exits(0);
    instance.kist(&["stage", "--wait", "/t/0"]).exits(0);
    instance.kist(&["compare", file.to_str().unwrap(), "/t/0"]).exits(0);
    instance.stop();
}
