//! The server is killed while it writes to tape and while it reads back; nothing is lost and nothing written
//! twice.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Instance, bytes, command, write};

/// Kills at different moments of the same work.
const KILLS: u64 = 8;

/// Story: each kill left the segment of small files that was open with the 64 MiB reserved for it on three
/// drives, and ten kills 1.9 GB.
#[test]
fn kills_leave_no_reserved_space() {
    let mut instance = Instance::serving();
    let local = instance.beside("small");
    for n in 0..10u64 {
        write(&local, &bytes(3_000, n));
        instance.kist(&["put", local.to_str().unwrap(), &format!("/t/small{n}")]).exits(0);
        instance.kill();
        instance.start();
    }
    // Ten segments with a value or two, and nothing else: no segment is open yet.
    let most = 10 * 3 * 64_000;
    let begun = std::time::Instant::now();
    while allocated(&instance.dir().join("pool")) > most {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", allocated(&instance.dir().join("pool")));
        std::thread::sleep(Duration::from_millis(50));
    }
    for n in 0..10u64 {
        let got = instance.beside(&format!("got{n}"));
        instance.kist(&["get", &format!("/t/small{n}"), got.to_str().unwrap()]).exits(0);
        assert!(std::fs::read(got).unwrap() == bytes(3_000, n));
    }
    instance.stop();
}

/// Story: a put of many files with the key of a local admin, which each start of the server makes anew, died
/// when the server was killed and started again.
#[test]
fn a_put_with_the_key_of_a_local_admin_outlasts_a_restart() {
    let mut instance = Instance::serving();
    let tree = instance.beside("many");
    for n in 0..4_000u64 {
        write(&tree.join(n.to_string()), &bytes(2_000, n));
    }
    let local = tree.to_str().unwrap();
    let mut put = command(&["put", "--jobs", "2", local, "/many"]);
    put.env("KIST_INSTANCE", instance.dir()).stderr(Stdio::piped());
    let put = put.spawn().unwrap();
    let files = |instance: &Instance| instance.kist(&["status", "--json"]).exits(0).json()["files"].as_u64();
    while files(&instance) < Some(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    instance.kill();
    std::thread::sleep(Duration::from_secs(2));
    instance.start();
    assert!(files(&instance) < Some(3_900), "the put was over before the kill");
    let put = put.wait_with_output().unwrap();
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    instance.kist(&["compare", local, "/many"]).exits(0);
    instance.stop();
}

/// What the extents below a directory take.
fn allocated(directory: &Path) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            sum += allocated(&path);
        } else if directory.parent().is_some_and(|above| above.ends_with("extents")) {
            sum += found.blocks() * 512;
        }
    }
    sum
}

#[test]
fn kills_while_migrating_and_recalling_lose_and_double_nothing() {
    let mut instance = Instance::serving();
    let tree = instance.beside("tree");
    for n in 0..60u64 {
        write(&tree.join(format!("small/{n}")), &bytes(1_000 + n as usize * 700, n));
    }
    for n in 0..6u64 {
        write(&tree.join(format!("large/{n}")), &bytes(9_000_000, 100 + n));
    }
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    let mut interrupted = 0;
    for attempt in 0..KILLS {
        instance.kist(&["migrate", "--now"]).exits(0);
        std::thread::sleep(Duration::from_millis(15 + 40 * attempt));
        let status = instance.kist(&["status", "--json"]).exits(0).json();
        let waiting = ["todo_files", "queued_containers", "unindexed_containers"];
        interrupted += u64::from(waiting.iter().any(|key| status[*key].as_u64() != Some(0)));
        instance.kill();
        instance.start();
    }
    assert!(interrupted > 0, "no kill met work under way");
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let evicted = instance.kist(&["evict", "--json", "/t"]).exits(0).json();
    assert_eq!((evicted["evicted"].as_u64(), evicted["refused_count"].as_u64()), (Some(66), Some(0)));

    for attempt in 0..3 {
        instance.kist(&["stage", "/t"]).exits(0);
        std::thread::sleep(Duration::from_millis(600 + 150 * attempt));
        instance.kill();
        instance.start();
    }
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    instance.stop();

    // Read without Kist: each pool's tapes hold each file once, whatever was torn on the way. A pool may have
    // begun a second tape where a kill left its first one in a drive.
    let mut found = std::collections::BTreeMap::<String, u64>::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../openness/read_cartridge.py");
    for vid in ["KS0001", "KS0002", "KS0003", "KS0004"] {
        let cartridge = instance.dir().join("library/cartridges").join(vid);
        let out = instance.beside(vid);
        let ran = Command::new("python3").arg(script).arg(cartridge).arg(&out).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        if !ran.status.success() {
            assert!(text.contains("partition a: there is no object 0"), "{vid} is not blank: {text}");
            continue;
        }
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let files = summary["files"].as_u64().unwrap();
        let twice = summary["warnings"].to_string().contains("twice");
        assert!(!twice, "{vid} holds a file twice: {text}");
        let tape = tapes.as_array().unwrap().iter().find(|tape| tape["vid"] == vid).unwrap();
        *found.entry(tape["tape_pool"].as_str().unwrap().to_owned()).or_default() += files;
    }
    let found: Vec<u64> = found.into_values().collect();
    assert_eq!(found, [66, 66], "each file exactly once in each of two tape pools");
}
