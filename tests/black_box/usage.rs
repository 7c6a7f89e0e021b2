//! What `kist usage` says of puts, gets and recalls that happened.

use crate::harness::{Instance, bytes, kist, write};

/// Sizes of the files that are put.
const SIZES: [usize; 4] = [1_000, 20_000, 400_000, 3_000_000];

fn usage(instance: &Instance, options: &[&str]) -> serde_json::Value {
    instance.kist(&[&["usage", "--json"], options].concat()).exits(0).json()
}

#[test]
fn usage_counts_what_clients_did_and_outlives_the_server() {
    let mut instance = Instance::serving();
    let nothing = usage(&instance, &[]);
    assert_eq!((nothing["logged"].as_bool(), nothing["lines"].as_u64()), (Some(true), Some(0)));
    assert!(nothing["pool"].as_u64().is_some_and(|pool| pool > 0), "{nothing}");
    let text = instance.kist(&["usage"]).exits(0).out;
    assert!(text.contains("what users did") && text.contains("nothing"), "{text}");

    let tree = instance.beside("tree");
    for (number, length) in SIZES.iter().enumerate() {
        write(&tree.join(format!("file{number}")), &bytes(*length, number as u64));
    }
    let whole: u64 = SIZES.iter().map(|length| *length as u64).sum();
    instance.kist(&["put", tree.to_str().unwrap(), "/t"]).exits(0);
    let got = instance.beside("got");
    instance.kist(&["get", "/t", got.to_str().unwrap()]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    std::fs::remove_dir_all(&got).unwrap();
    instance.kist(&["get", "/t", got.to_str().unwrap()]).exits(0);

    let check = |report: &serde_json::Value| {
        let total = &report["total"];
        let number = |name: &str, part: &str| total[name][part].as_u64().unwrap();
        for (name, files, bytes) in [
            ("puts", 4, whole),
            ("gets", 8, 2 * whole),
            ("hits", 4, whole),
            ("misses", 4, whole),
            ("staged", 4, whole),
            ("recalled", 4, whole),
            ("evicted", 4, whole),
        ] {
            assert_eq!((number(name, "files"), number(name, "bytes")), (files, bytes), "{name}: {total}");
        }
        assert_eq!((total["hit_rate"].as_f64(), total["hit_rate_bytes"].as_f64()), (Some(0.5), Some(0.5)));
        assert!(number("migrated", "bytes") >= 2 * whole, "two copies: {total}");
        assert_eq!(total["sizes_written"]["most"].as_u64(), Some(3_000_000));
        assert_eq!(total["wait_seconds"]["count"].as_u64(), Some(4));
        let cache = &total["cache"];
        // h = 1/2, R = 2 W: (1 - h) R + W = 2 W a day.
        assert_eq!(cache["fill"].as_f64(), Some(2.0 * whole as f64));
        let days = cache["space"].as_f64().unwrap() / cache["fill"].as_f64().unwrap();
        assert!((cache["mean_days"].as_f64().unwrap() / days - 1.0).abs() < 1e-9, "{cache}");
        assert_eq!(total["workload"]["bytes_read"].as_f64(), Some(2.0 * whole as f64));
        assert!(total["movement"]["internal_factor"].as_f64().is_some_and(|factor| factor > 1.9), "{total}");
    };
    check(&usage(&instance, &[]));
    let class = usage(&instance, &[])["classes"][0]["name"].as_str().unwrap().to_owned();
    let one = usage(&instance, &["--class", &class]);
    assert_eq!((one["classes"].as_array().unwrap().len(), &one["classes"][0]["name"]), (1, &class.into()));
    let text = instance.kist(&["usage", "--since", "7d"]).exits(0).out;
    for word in ["hit rate", "50.0 %", "half of the bytes", "to tape", "lifetime", "On the peak day"] {
        assert!(text.contains(word), "'{word}' is not in:\n{text}");
    }

    // What a stopped server wrote down is read without one, and by the next one.
    instance.stop();
    let log = instance.dir().join("log");
    let log = log.to_str().unwrap();
    check(&kist(&["usage", "--json", "--log", log]).exits(0).json());
    instance.start();
    check(&usage(&instance, &[]));
    assert_eq!(usage(&instance, &["--since", "0s"])["lines"].as_u64(), Some(0));
    instance.kist(&["usage", "--since", "soon"]).exits(2).says(&["30d"]);
    instance.kist(&["usage", "--class", "nope"]).says(&["nope"]);
    kist(&["usage", "--log", tree.to_str().unwrap()]).exits(2).says(&["access.log"]);
}
