//! What `kist tape report` says of mounts that happened.

use crate::harness::{Instance, make_tree};

/// Tries until a mount that happens just now is counted on both sides.
const TRIES_MAX: usize = 200;

fn mounts_of_tapes(instance: &Instance) -> u64 {
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    tapes.as_array().unwrap().iter().map(|tape| tape["mounts"].as_u64().unwrap()).sum()
}

fn report(instance: &Instance, since: &str, by: &str) -> serde_json::Value {
    instance.kist(&["tape", "report", "--json", "--since", since, "--by", by]).exits(0).json()
}

/// The sum of a figure over all rows.
fn sum(report: &serde_json::Value, figure: &str) -> u64 {
    report["rows"].as_array().unwrap().iter().map(|row| row[figure].as_u64().unwrap()).sum()
}

#[test]
fn a_report_counts_the_mounts_that_the_tapes_count() {
    let mut instance = Instance::serving();
    let nothing = report(&instance, "24h", "drive");
    assert_eq!((nothing["logged"].as_bool(), nothing["total"]["mounts"].as_u64()), (Some(true), Some(0)));
    assert!(nothing["total"]["efficiency"].is_null() && nothing["total"]["mount_seconds"].is_null());
    let text = instance.kist(&["tape", "report"]).exits(0).out;
    assert!(text.contains("\nnone\n") && text.contains("nothing waits for tape"), "{text}");

    let tree = instance.beside("tree");
    make_tree(&tree);
    let put = instance.kist(&["put", "--json", tree.to_str().unwrap(), "/t"]).exits(0).json();
    let bytes = put["bytes"].as_u64().unwrap();
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0);

    let counted = |instance: &Instance| {
        (0..TRIES_MAX).find_map(|_| {
            let before = mounts_of_tapes(instance);
            let report = report(instance, "24h", "drive");
            (report["total"]["mounts"] == before && mounts_of_tapes(instance) == before).then_some(report)
        })
    };
    let report_of_drives = counted(&instance).expect("the report and the tapes count the same mounts");
    let total = &report_of_drives["total"];
    assert!(total["mounts"].as_u64().unwrap() >= 2, "two copies stand on two tapes: {total}");
    assert_eq!(sum(&report_of_drives, "mounts"), total["mounts"].as_u64().unwrap());
    assert!(total["written"].as_u64().unwrap() >= 2 * bytes, "two copies of {bytes} bytes: {total}");
    assert!(total["read"].as_u64().unwrap() >= bytes, "all of it was recalled: {total}");
    assert!(total["tape_written"].as_u64() >= total["written"].as_u64(), "indexes come on top: {total}");
    let time = &total["mount_seconds"];
    assert!(
        time["mean"].as_f64().unwrap() > 0.0 && time["p95"].as_f64() >= time["median"].as_f64(),
        "{time}"
    );
    assert!(total["wait_seconds"]["count"].as_u64().unwrap() >= 2, "{total}");
    let share = total["efficiency"].as_f64().unwrap();
    assert!(share > 0.0 && share <= 1.0, "{total}");
    assert_eq!((total["mount_failures"].as_u64(), total["session_failures"].as_u64()), (Some(0), Some(0)));

    // What a stopped server wrote down, the next one reads.
    instance.stop();
    instance.start();
    let again = counted(&instance).expect("after a restart the report still counts all mounts");
    assert_eq!(again["total"]["written"], total["written"]);
    let of_tapes = report(&instance, "24h", "tape");
    assert!(of_tapes["rows"].as_array().unwrap().iter().all(|row| row["name"].as_str().unwrap().len() == 6));
    let of_pools = report(&instance, "24h", "pool");
    assert_eq!(of_pools["rows"].as_array().unwrap().len(), 2, "{of_pools}");
    assert_eq!(sum(&of_tapes, "written"), sum(&of_pools, "written"));
    let text = instance.kist(&["tape", "report", "--by", "pool"]).exits(0).out;
    // A rate itself is shown only where data flowed for long enough to have one: the machine decides.
    for word in ["tape pool", "mounts/TB", "efficiency", "total", "rate"] {
        assert!(text.contains(word), "'{word}' is not in:\n{text}");
    }

    // A window of no length holds only what goes on.
    let now = report(&instance, "0s", "drive");
    assert_eq!(now["total"]["mounts"], now["total"]["mounted_now"], "{now}");
    assert!(now["total"]["mounts"].as_u64() < again["total"]["mounts"].as_u64(), "{now}");
    instance.kist(&["tape", "report", "--since", "soon"]).exits(2).says(&["24h"]);
    instance.kist(&["tape", "report", "--by", "robot"]).exits(2).says(&["drive"]);
}
