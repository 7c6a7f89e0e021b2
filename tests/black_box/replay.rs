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
