//! The server is killed while it writes to tape and while it reads back; nothing is lost and nothing written
//! twice.

use std::process::Command;
use std::time::Duration;

use crate::harness::{Instance, bytes, write};

/// Kills at different moments of the same work.
const KILLS: u64 = 8;

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
    instance.stop();

    // Read without Kist: each copy's tapes hold each file once, whatever was torn on the way.
    let mut found = [0, 0];
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
        found[usize::from(found[0] >= 66)] += files;
    }
    assert_eq!(found, [66, 66], "each file exactly once in each of two tape pools");
}
