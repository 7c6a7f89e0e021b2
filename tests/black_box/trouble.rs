//! A full disk and a process without file descriptors: refused, survived, recovered from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Instance, bytes, wait_until, write};

/// A file system of its own in memory, gone when dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    /// `None`, with a word about it, where mounting is not allowed.
    pub fn new(at: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Mounted(at));
        }
        eprintln!("skipped: this machine does not let the test mount a file system");
        None
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

pub fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_full_pool_refuses_puts_serves_the_rest_and_recovers_by_itself() {
    let mut instance = Instance::init();
    let Some(small) = Mounted::new(instance.beside("small"), "128m") else { return };
    let pool = instance.dir().join("pool");
    let copied = Command::new("cp").arg("-a").arg(pool.join(".")).arg(&small.0).status().unwrap();
    assert!(copied.success());
    fs::remove_dir_all(&pool).unwrap();
    std::os::unix::fs::symlink(&small.0, &pool).unwrap();
    instance.start();
    // Else what is put goes to tape, and puts wait for the room that comes of it.
    let drives = |word: &str| {
        for drive in ["vdrive0", "vdrive1"] {
            instance.kist(&["drive", word, drive]).exits(0);
        }
    };
    drives("down");
    let file = instance.beside("file");
    write(&file, &bytes(12_000_000, 1));
    let mut kept = 0;
    let refused = loop {
        let ran = instance.kist(&["put", "--quiet", shown(&file), &format!("/f{kept}")]);
        if ran.code != 0 {
            break ran;
        }
        kept += 1;
        assert!(kept < 20, "the disk has to become full");
    };
    assert!(kept >= 4);
    // Refused beforehand, as full or for so large a file, or by the drive that had no room for its shard.
    let refused = refused.exits(4);
    let tells = |err: &str| ["full", "no space", "has room for"].iter().any(|words| err.contains(words));
    assert!(tells(&refused.err), "{}", refused.err);
    // Story: standard input ended with "broken pipe", and not with what the server had said.
    let input = bytes(40_000_000, 2);
    let refused = instance.kist_with_input(&["put", "-", "/input"], &input).exits(4);
    assert!(tells(&refused.err), "{}", refused.err);
    let copy = instance.beside("copy");
    instance.kist(&["get", "/f0", shown(&copy)]).exits(0);
    assert!(fs::read(&copy).unwrap() == fs::read(&file).unwrap());
    // What empties the pool goes on, and then there is room again.
    drives("up");
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    for n in 0..kept {
        instance.kist(&["evict", &format!("/f{n}")]).exits(0);
    }
    wait_until("there is room again", || {
        instance.kist(&["put", "--quiet", shown(&file), "/again"]).code == 0
    });
    instance.kist(&["stage", "--wait", "/f0"]).exits(0);
    instance.kist(&["compare", shown(&file), "/f0"]).exits(0);
    instance.stop();
}

#[test]
fn without_file_descriptors_nothing_is_lost_or_blamed_and_all_goes_on_afterwards() {
    let instance = Instance::serving();
    let tree = instance.beside("tree");
    for n in 0..8 {
        write(&tree.join(format!("{n}")), &bytes(100_000 + 300_000 * n, n as u64));
    }
    instance.kist(&["put", shown(&tree), "/t"]).exits(0);
    let pid = instance.pid();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let before = line.split_whitespace().nth(4).unwrap().to_owned();
    let limit = |soft: &str| {
        let limit = format!("--nofile={soft}:{before}");
        Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().is_ok_and(|s| s.success())
    };
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    if !limit(&(open + 2).to_string()) {
        eprintln!("skipped: this machine has no prlimit");
        return;
    }
    let (ran, put) = std::thread::scope(|scope| {
        let get = scope.spawn(|| instance.kist(&["compare", "--jobs", "4", shown(&tree), "/t"]));
        let put = scope.spawn(|| instance.kist(&["put", "--quiet", shown(&tree), "/u"]));
        std::thread::sleep(Duration::from_secs(2));
        assert!(limit(&before));
        (get.join().unwrap(), put.join().unwrap())
    });
    // Refused or waited for; never a wrong answer.
    assert!([0, 1, 5, 7].contains(&ran.code), "{} {}", ran.code, ran.err);
    assert!(!ran.err.contains("LOST"), "{}", ran.err);
    assert!([0, 1, 4, 5].contains(&put.code), "{} {}", put.code, put.err);
    instance.kist(&["compare", shown(&tree), "/t"]).exits(0);
    instance.kist(&["put", shown(&tree), "/u"]).exits(0);
    instance.kist(&["compare", shown(&tree), "/u"]).exits(0);
    let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    let states: Vec<&str> =
        pool["drives"].as_array().unwrap().iter().map(|drive| drive["state"].as_str().unwrap()).collect();
    assert!(states.iter().all(|state| *state == "up"), "{states:?}");
    let verified = instance.kist(&["verify", "/", "--json"]).exits(0).json();
    assert_eq!(verified["verified"].as_u64(), Some(16));
}
