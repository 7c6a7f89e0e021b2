//! A pool grows from 6 to 24 drives, half of them are drained and taken out, and what is stored gets another
//! code, all while clients put and get, and the server is killed in the middle of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{sync::Arc, thread};

use serde_json::Value;

use crate::harness::{Instance, bytes, command, wait_until, write};

const FIRST: u64 = 6;
const ALL: u64 = 24;

/// A client that puts and gets until it is told to stop, and repeats what a killed server did not answer.
struct Client {
    is_over: Arc<AtomicBool>,
    /// Gives how many files it has put: all are there.
    thread: JoinHandle<u64>,
}

fn length(n: u64) -> usize {
    // Some small ones among them.
    if n.is_multiple_of(5) { 3_000 } else { 700_000 + 1_000 * n as usize }
}

impl Client {
    fn begin(instance: &Instance, from: u64) -> Client {
        let (dir, local) = (instance.dir(), instance.beside("sent"));
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let kist = |arguments: &[&str]| {
                let mut command = command(arguments);
                command.env("KIST_INSTANCE", &dir).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().unwrap().success()
            };
            let mut n = from;
            while !over.load(Ordering::SeqCst) {
                write(&local, &bytes(length(n), n));
                while !kist(&["put", local.to_str().unwrap(), &format!("/t/{n}")]) {}
                n += 1;
                let (old, got) = (n / 2, local.with_extension("got"));
                if kist(&["get", "--again", &format!("/t/{old}"), got.to_str().unwrap()]) {
                    assert!(fs::read(&got).unwrap() == bytes(length(old), old), "{old}");
                }
                let _ = fs::remove_file(got);
            }
            n
        });
        Client { is_over, thread }
    }

    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn show(instance: &Instance) -> Value {
    instance.kist(&["pool", "show", "--json"]).exits(0).json()
}

fn shards(instance: &Instance) -> BTreeMap<u64, usize> {
    let at = |drive| instance.dir().join(format!("pool/d{drive}/extents"));
    let on = |path: PathBuf| -> usize {
        let buckets = fs::read_dir(path).into_iter().flatten();
        buckets.map(|bucket| fs::read_dir(bucket.unwrap().path()).unwrap().count()).sum()
    };
    (0..ALL).map(|drive| (drive, on(at(drive)))).collect()
}

fn has_ended(work: &Value) -> bool {
    work.is_null() || work["state"] == "ended"
}

/// Kills the server at some moments of what it is at.
fn kills(instance: &mut Instance) {
    for kill in 1..4 {
        thread::sleep(Duration::from_millis(90 * kill));
        instance.kill();
        instance.start();
    }
}

fn check_all(instance: &Instance, files: u64) {
    // After a kill drives are looked through that may lack something.
    let begun = std::time::Instant::now();
    loop {
        let now = show(instance);
        assert_eq!(now["health"]["unreadable"].as_u64(), Some(0), "{now}");
        if now["health"]["degraded"] == 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "stripes lack something: {now:#}");
        thread::sleep(Duration::from_millis(100));
    }
    for n in 0..files {
        let got = instance.beside("all");
        instance.kist(&["get", "--again", &format!("/t/{n}"), got.to_str().unwrap()]).exits(0);
        assert!(fs::read(got).unwrap() == bytes(length(n), n), "{n}");
    }
    let scrubbed = instance.kist(&["scrub", "--now", "--json"]).exits(0).json();
    assert_eq!((scrubbed["found"].as_u64(), scrubbed["failed"].as_u64()), (Some(0), Some(0)), "{scrubbed}");
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, change(text)).unwrap();
}

#[test]
fn a_pool_grows_is_drained_by_half_and_gets_another_code_under_load() {
    let mut instance = Instance::init_with(&["--drives", "6", "--data", "4", "--parity", "2"]);
    instance.start();
    let toml = instance.dir().join("kist.toml");
    let client = Client::begin(&instance, 0);
    for drive in FIRST..ALL {
        let path = instance.dir().join(format!("pool/d{drive}"));
        instance.kist(&["pool", "drive", "add", path.to_str().unwrap(), "--new"]).exits(0);
    }
    instance.kist(&["pool", "rebalance", "--to", "0"]).exits(0);
    kills(&mut instance);
    let files = client.end();
    wait_until("what is stored is spread", || has_ended(&show(&instance)["rebalance"]));
    let on = shards(&instance);
    assert!(on.values().all(|count| *count > 0), "each drive has its part: {on:?}");
    check_all(&instance, files);

    let client = Client::begin(&instance, files);
    let half: Vec<String> = (0..ALL / 2).map(|drive| drive.to_string()).collect();
    for drive in &half {
        instance.kist(&["pool", "drive", "drain", drive]).exits(0);
    }
    kills(&mut instance);
    let files = client.end();
    for drive in &half {
        wait_until("the drive is empty and taken out", || {
            let removed = instance.kist(&["pool", "drive", "remove", drive]);
            removed.code == 0
        });
    }
    let on = shards(&instance);
    // But what a kill has left of moves under way: that is kept for some days.
    let left: usize = (0..ALL / 2).map(|drive| on[&drive]).sum();
    assert!(left < 20 && (ALL / 2..ALL).all(|drive| on[&drive] > 0), "{on:?}");
    check_all(&instance, files);

    // Twelve are left. The server reads the code at its start.
    instance.stop();
    edit(&toml, |text| text.replace("data = 4", "data = 8"));
    instance.kist(&["serve", "--check-config", instance.dir().to_str().unwrap()]).exits(0);
    instance.start();
    let client = Client::begin(&instance, files);
    let said = instance.kist(&["pool", "recode"]).exits(0).out;
    assert!(said.contains("8+2") && said.contains("kist pool show"), "{said}");
    kills(&mut instance);
    let files = client.end();
    wait_until("all has the new code", || has_ended(&show(&instance)["recoding"]));
    check_all(&instance, files);
    assert!(instance.kist(&["pool", "recode"]).exits(0).out.contains("8+2"));
    wait_until("it has nothing to do", || show(&instance)["recoding"]["state"] == "ended");
    let told = instance.kist(&["pool", "show"]).exits(0).out;
    assert!(
        told.contains(
            "change of code to 8+2: ended: what is striped has the code 8+2, small files have 3 copies or \
             more; 0 of 0 blobs"
        ),
        "{told}"
    );
    assert!(instance.kist(&["pool", "recode", "--end"]).exits(0).out.contains("none is under way"));
    instance.stop();
    // After one more start nothing is left of what crashes and the old code have left behind.
    instance.start();
    wait_until("nothing else stands on the drives", || {
        let on = shards(&instance);
        let striped = (0..files).filter(|n| !n.is_multiple_of(5)).count();
        on.values().sum::<usize>() < 10 * striped + 400
    });
    check_all(&instance, files);
    instance.stop();
}
