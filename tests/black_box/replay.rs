//! A recorded run of the server, run again in the twin.

use std::fs;
use std::time::Instant;

use crate::harness::Instance;

/// Files on tape, of 3 MB each: some nine tapes of them.
const FILES: usize = 144;
/// A request wants one file of so many.
const STRIDE: usize = 12;
/// How far completion and mounts may be apart. `benches/twin_replay.sh` asks for 5 %; here a machine that
/// does much else may hold a server up whose tapes run 60 times as fast as real ones: a tenth of a second is
/// six seconds of theirs.
const APART: f64 = 0.35;

fn replay(instance: &Instance, since: &str, more: &[&str]) -> serde_json::Value {
    let directory = instance.dir();
    let mut arguments = vec!["twin", "replay", directory.to_str().unwrap(), "--json", "--since", since];
    arguments.extend(more);
    instance.kist(&arguments).exits(0).json()["replay"].clone()
}

fn figure(replay: &serde_json::Value, side: &str, name: &str) -> f64 {
    replay[side][name].as_f64().unwrap_or_else(|| panic!("{side} has no {name}: {replay}"))
}

fn agrees(replay: &serde_json::Value) -> bool {
    ["completion", "mounts"].iter().all(|name| {
        let (was, says) = (figure(replay, "recorded", name), figure(replay, "predicted", name));
        was > 0.0 && (says / was - 1.0).abs() <= APART
    })
}

/// Files on nine tapes, and a server that has just been started.
fn filled() -> Instance {
    let mut instance = Instance::init_as(&[
        "--cartridges",
        "14",
        "--cartridge-size",
        "64MiB",
        "--pack-size",
        "12MB",
        "--tape-drives",
        "2",
        "--timing",
        "LTO-8",
        "--time-scale",
        "60",
    ]);
    let file = instance.dir().join("kist.toml");
    let mut text = fs::read_to_string(&file).unwrap();
    for (from, to) in [
        ("copies = [\"vault-a\", \"vault-b\"]", "copies = [\"vault-a\"]"),
        ("pack_age = \"30s\"", "pack_age = \"1s\""),
        ("mount_age = \"30s\"", "mount_age = \"2s\""),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    fs::write(&file, text).unwrap();
    let tree = instance.beside("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..FILES {
        let bytes: Vec<u8> =
            (0..3_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(tree.join(format!("f{number:03}")), [number.to_le_bytes().as_slice(), &bytes].concat())
            .unwrap();
    }
    instance.start();
    instance.kist(&["put", tree.to_str().unwrap(), "/old"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    instance.kist(&["evict", "/old"]).exits(0);
    instance.stop();
    instance
}

#[test]
fn a_recorded_run_comes_out_of_the_twin_again() {
    let mut instance = filled();
    let began = Instant::now();
    instance.start();
    let wanted = |first: usize| -> Vec<String> {
        (first..FILES).step_by(STRIDE).map(|number| format!("/old/f{number:03}")).collect()
    };
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (instance, wanted) = (&instance, wanted(first));
            scope.spawn(move || {
                let mut arguments = vec!["stage", "--wait"];
                arguments.extend(wanted.iter().map(String::as_str));
                instance.kist(&arguments).exits(0);
            });
        }
        for number in 0..12 {
            instance.kist_with_input(&["put", "-", &format!("/new/{number}")], &[7; 900_000]).exits(0);
        }
    });
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    instance.stop();

    let since = format!("{}ms", began.elapsed().as_millis());
    let as_it_was = replay(&instance, &since, &[]);
    for name in ["requests", "requests_done", "files", "bytes"] {
        let (was, says) = (figure(&as_it_was, "recorded", name), figure(&as_it_was, "predicted", name));
        assert!(was > 0.0 && was == says, "{name}: {was} and {says}");
    }
    assert_eq!(figure(&as_it_was, "recorded", "requests"), 3.0);
    assert_eq!(figure(&as_it_was, "recorded", "files"), (3 * FILES / STRIDE) as f64);
    assert!(figure(&as_it_was, "recorded", "recall_mounts") >= 7.0, "{as_it_was}");
    assert!(figure(&as_it_was, "predicted", "migrate_mounts") >= 1.0, "{as_it_was}");
    assert!(as_it_was["outcome"]["violation"].is_null(), "{}", as_it_was["outcome"]["violation"]);
    assert!(agrees(&as_it_was), "{:#}", as_it_was["rows"]);

    let one_less = replay(&instance, &since, &["--set", "drives=1"]);
    assert!(!agrees(&one_less), "one drive does as well as two: {:#}", one_less["rows"]);
    let text =
        instance.kist(&["twin", "replay", instance.dir().to_str().unwrap(), "--since", &since]).exits(0).out;
    assert!(text.contains("recorded") && text.contains("mounts to write"), "{text}");
    instance.kist(&["twin", "replay", instance.dir().to_str().unwrap(), "--set", "colour=red"]).exits(2);
}

/// Files of 300 kB under `/name`, on tape only.
fn archive(instance: &Instance, name: &str, files: usize) {
    let tree = instance.beside(name);
    fs::create_dir(&tree).unwrap();
    for number in 0..files {
        fs::write(tree.join(format!("f{number:02}")), crate::harness::bytes(300_000, number as u64)).unwrap();
    }
    let at = format!("/{name}");
    instance.kist(&["put", tree.to_str().unwrap(), &at]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    instance.kist(&["evict", &at]).exits(0);
}

fn stage<'a>(instance: &Instance, more: &[&'a str], paths: &'a [String]) {
    let mut arguments = vec!["stage"];
    arguments.extend(more);
    arguments.extend(paths.iter().map(String::as_str));
    instance.kist(&arguments).exits(0);
}

fn paths(name: &str, files: std::ops::Range<usize>) -> Vec<String> {
    files.map(|number| format!("/{name}/f{number:02}")).collect()
}

/// A library of 30 times the speed, and a class that may hold twenty files in the pool: 746 s were foretold
/// where 5.7 s had been waited, or nothing was compared at all. The twin did not know of the index that
/// `migrate --now` brings, nor of one whose tape was in a drive already, let puts wait for `pool_max`, and
/// did not tell its scheduler of the room that evictions made.
#[test]
fn a_class_with_little_room_and_haste_are_foretold_from_the_whole_record() {
    const FILES: usize = 40;
    let mut instance = Instance::init_as(&[
        "--cartridges",
        "4",
        "--cartridge-size",
        "1GB",
        "--tape-drives",
        "2",
        "--timing",
        "LTO-8",
        "--time-scale",
        "30",
    ]);
    let file = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&file).unwrap();
    let mut rewritten = String::new();
    for line in text.lines() {
        rewritten.push_str(line);
        rewritten.push('\n');
        if line.starts_with("pack_age = ") {
            rewritten.push_str("pool_max = \"7MB\"\n");
        }
    }
    // Nothing but haste writes anything, and a tape stays for a while.
    for (from, to) in [
        ("pack_age = \"30s\"", "pack_age = \"1h\""),
        ("mount_age = \"30s\"", "mount_age = \"8h\""),
        ("dismount_delay = \"1s\"", "dismount_delay = \"20s\""),
    ] {
        assert!(rewritten.contains(from), "{from}");
        rewritten = rewritten.replace(from, to);
    }
    fs::write(&file, rewritten).unwrap();
    instance.start();
    archive(&instance, "a", FILES);
    archive(&instance, "b", FILES);
    stage(&instance, &["--wait"], &paths("a", 0..20));
    // No room, until the first ones go.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| stage(&instance, &["--wait"], &paths("b", 0..20)));
        let began = Instant::now();
        while instance.kist(&["request", "show", "2"]).code != 0 {
            assert!(began.elapsed().as_secs() < 60, "the second request is made");
        }
        instance.kist(&["release", "1"]).exits(0);
        instance.kist(&["evict", "/a"]).exits(0);
        waits.join().unwrap();
    });
    instance.kist(&["release", "2"]).exits(0);
    instance.kist(&["evict", "/b"]).exits(0);
    stage(&instance, &["--wait"], &paths("a", 20..40));
    instance.stop();

    let replay = replay(&instance, "1h", &[]);
    assert!(replay["outcome"]["violation"].is_null(), "{}", replay["outcome"]["violation"]);
    assert_eq!(replay["left"]["requests"], 0, "all is compared: {:#}", replay["left"]);
    for (name, wanted) in [("requests", 3.0), ("requests_done", 3.0), ("files", 60.0)] {
        for side in ["recorded", "predicted"] {
            assert_eq!(figure(&replay, side, name), wanted, "{side} {name}: {:#}", replay["rows"]);
        }
    }
    for name in ["wait_median", "wait_90", "request_mean", "migration"] {
        let (was, says) = (figure(&replay, "recorded", name), figure(&replay, "predicted", name));
        // Beside a share, what a busy machine takes for itself.
        let bound = 2.0 + APART * was;
        assert!((was - says).abs() <= bound, "{name}: {was} and {says}: {:#}", replay["rows"]);
    }
}

/// Of a server whose library takes no time nothing was compared, and nothing said so.
#[test]
fn of_a_library_without_timing_is_compared_what_it_did() {
    let mut instance = Instance::init();
    instance.start();
    archive(&instance, "a", 30);
    stage(&instance, &["--wait"], &paths("a", 0..10));
    stage(&instance, &["--wait"], &paths("a", 10..25));
    instance.stop();
    let directory = instance.dir();
    let directory = directory.to_str().unwrap();
    let said = instance.kist(&["twin", "replay", directory]).exits(0).out;
    assert!(said.contains("library library takes no time"), "{said}");
    assert!(said.contains("order of mounts") && !said.contains("wait: median"), "{said}");
    let replay = replay(&instance, "1h", &[]);
    assert_eq!(replay["untimed"][0], "library");
    for name in ["requests", "files", "bytes", "migrate_mounts", "tapes"] {
        let (was, says) = (figure(&replay, "recorded", name), figure(&replay, "predicted", name));
        assert!(was > 0.0 && was == says, "{name}: {was} and {says}: {:#}", replay["rows"]);
    }
    assert!(replay["rows"].as_array().unwrap().iter().all(|row| row["unit"] != "s"));
    let supposed = instance.kist(&["twin", "replay", directory, "--set", "drive=LTO-9"]).exits(0).out;
    assert!(supposed.contains("took no time when this was recorded"), "{supposed}");
}
