//! `kist bench disk`: what it prints, what it refuses, what it leaves; never how fast a disk was.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Ran, command, kist, write_ext4_image};

/// As little as there is: a second a row, a file of 4 MiB.
const LITTLE: [&str; 6] = ["--seconds", "1", "--bytes", "4MiB", "--depth", "4"];

fn bench(path: &Path, more: &[&str]) -> Ran {
    kist(&[&["bench", "disk", path.to_str().unwrap()], &LITTLE[..], more].concat())
}

/// Beside fio a second is cut in six, and the machine may be busy.
fn bench_beside_fio(path: &Path, more: &[&str]) -> Ran {
    let longer = ["--seconds", "2", "--bytes", "4MiB", "--depth", "4", "--access", "random", "--fio"];
    kist(&[&["bench", "disk", path.to_str().unwrap()], &longer[..], more].concat())
}

fn names(directory: &TempDir) -> usize {
    fs::read_dir(directory.path()).unwrap().count()
}

fn whole(row: &Value) {
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&row["bytes_per_second"]) > 0.0 && number(&row["operations_per_second"]) > 0.0, "{row}");
    assert_eq!(row["faults"].as_array().unwrap().len(), 0, "{row}");
    let mut bytes = 0.0;
    for side in ["read", "write"] {
        let took = &row[side]["seconds"];
        assert!(number(&took["p50"]) <= number(&took["p99"]), "{row}");
        assert!(number(&took["p99"]) <= number(&took["max"]), "{row}");
        let moved = number(&row[side]["operations"]) * number(&row["size_bytes"]);
        assert_eq!(moved, number(&row[side]["bytes"]), "{row}");
        bytes += moved;
    }
    assert!((bytes / number(&row["seconds"]) / number(&row["bytes_per_second"]) - 1.0).abs() < 1e-6, "{row}");
}

#[test]
fn rows_are_checked_and_nothing_is_left() {
    for engine in ["io_uring", "threads"] {
        let directory = tempfile::tempdir().unwrap();
        let pages = tempfile::tempdir().unwrap();
        let page = pages.path().join("page.html");
        let ran = bench(
            directory.path(),
            &[
                "--size",
                "4KiB,64KiB",
                "--mix",
                "read,2:1",
                "--access",
                "random",
                "--engine",
                engine,
                "--json",
                "--page",
                page.to_str().unwrap(),
            ],
        );
        // Where the kernel refuses io_uring, that is said, and threads are named.
        if engine == "io_uring" && ran.code == 4 {
            ran.says(&["io_uring", "threads"]);
            continue;
        }
        let report = ran.exits(0).json();
        assert_eq!(report["engine"], engine);
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4, "{report}");
        for row in rows {
            whole(row);
            assert_eq!(row["is_verified"], true, "{row}");
            let writes = row["write"]["operations"].as_u64().unwrap();
            assert_eq!(writes > 0, row["mix"] == "2:1", "{row}");
        }
        assert_eq!(report["places"][0]["kind"], "temporary file");
        assert_eq!(names(&directory), 0, "the file is gone");
        let page = fs::read_to_string(&page).unwrap();
        // Rate, operations, p50 and p99; those two of reads and of writes in the rows that have both.
        assert_eq!(page.matches("<circle").count(), 2 * 4 + 2 * 6, "points for each row");
        assert!(page.contains(">64 KiB</text>") && page.contains("MB/s"), "{page}");
    }
}

#[test]
fn what_is_printed_has_units() {
    let directory = tempfile::tempdir().unwrap();
    let ran = bench(directory.path(), &["--size", "64KiB", "--access", "sequential"]).exits(0);
    for words in ["64 KiB", " read ", "sequential", " MB/s", "/s", "temporary file", "bottleneck"] {
        assert!(ran.out.contains(words), "'{words}' is not in:\n{}", ran.out);
    }
    assert!(ran.out.contains(" µs") || ran.out.contains(" ms"), "{}", ran.out);
}

#[test]
fn several_paths_are_measured_together() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let second = directories[1].path().to_str().unwrap();
    let more = [second, "--size", "64KiB", "--access", "random", "--mix", "write", "--json"];
    let report = bench(directories[0].path(), &more).exits(0).json();
    let paths = report["rows"][0]["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{report}");
    assert!(paths.iter().all(|one| one["bytes_per_second"].as_f64().unwrap() > 0.0), "{report}");
    assert_eq!(report["rows"][0]["is_verified"], false, "nothing was read");
}

#[test]
fn a_call_that_is_killed_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let mut child =
        command(&["bench", "disk", path, "--bytes", "64MiB", "--seconds", "600", "--quiet"]).spawn().unwrap();
    // Its file is open when a descriptor leads below the directory.
    let open = || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        descriptors.filter_map(|one| fs::read_link(one.path()).ok()).any(|to| to.starts_with(path))
    };
    for _ in 0..6_000 {
        if open() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(open(), "it has a file");
    assert_eq!(names(&directory), 0, "which has no name");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&directory), 0);
}

#[test]
fn what_is_there_is_only_read_and_what_stands_there_is_not_destroyed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.image");
    let mut bytes = write_ext4_image(&path);
    let name = path.to_str().unwrap();
    let row = ["--size", "4KiB", "--access", "random"];
    let report = bench(&path, &[&row[..], &["--json"]].concat()).exits(0).json();
    whole(&report["rows"][0]);
    assert_eq!(
        (&report["rows"][0]["is_verified"], &report["places"][0]["kind"]),
        (&false.into(), &"file".into())
    );

    let write = [&row[..], &["--mix", "write"]].concat();
    bench(&path, &write).exits(4).says(&[name, "only read", "--destroy"]);
    bench(&path, &[&write[..], &["--destroy", name]].concat()).exits(4).says(&["ext4", "not destroyed"]);
    bench(&path, &[&write[..], &["--destroy", "ZL200042"]].concat()).exits(2).says(&["ZL200042"]);
    assert!(fs::read(&path).unwrap() == bytes, "not a byte was changed");
    bytes[1024 + 56..1024 + 58].fill(0);
    bytes[(4 << 20) - 1] = 1;
    fs::write(&path, &bytes).unwrap();
    bench(&path, &[&write[..], &["--destroy", name]].concat()).exits(4).says(&["data of an unknown kind"]);
    assert!(fs::read(&path).unwrap() == bytes, "not a byte was changed");

    // Empty, and then what the bench itself has left.
    bytes[(4 << 20) - 1] = 0;
    fs::write(&path, &bytes).unwrap();
    for _ in 0..2 {
        bench(&path, &[&write[..], &["--destroy", name]].concat()).exits(0);
    }
    let into = directory.path().to_str().unwrap();
    bench(directory.path(), &[&write[..], &["--destroy", into]].concat()).exits(2).says(&["directory"]);
}

#[test]
fn limits_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let one = ["--size", "4KiB", "--access", "random", "--json"];
    kist(
        &[
            &["bench", "disk", path.to_str().unwrap(), "--seconds", "1", "--bytes", "1MiB", "--depth", "256"],
            &one[..],
        ]
        .concat(),
    )
    .exits(0);
    for (wrong, words) in [
        (&["--depth", "257"][..], "257"),
        (&["--depth", "0"], "0"),
        (&["--seconds", "0"], "0"),
        (&["--seconds", "3601"], "3601"),
        (&["--size", "4097B"], "multiple of 4KiB"),
        (&["--size", "16388KiB"], "at most 16MiB"),
        (&["--mix", "0:1"], "0:1"),
        (&["--mix", "1001:1"], "1001:1"),
        (&["--stream", "999kB"], "999kB"),
        (&["--stream", "4001MB"], "4001MB"),
    ] {
        kist(&[&["bench", "disk", path.to_str().unwrap()], wrong].concat()).exits(2).says(&[words]);
    }
    for (wrong, words) in [
        (&["--size", "4KiB", "--bytes", "1023KiB"][..], "1MiB"),
        (&["--bytes", "1025GiB"], "1TiB"),
        (&["--size", "16MiB", "--bytes", "31MiB"], "32MiB"),
        (&["--size", "4KiB", "--stream", "100MB", "--bytes", "63MiB"], "64MiB"),
        (&["--fio", "--stream", "100MB"], "--stream"),
    ] {
        kist(&[&["bench", "disk", path.to_str().unwrap()], wrong].concat()).exits(2).says(&[words]);
    }
    let much = ["--size", "16MiB", "--depth", "129"];
    kist(&[&["bench", "disk", path.to_str().unwrap()], &much[..]].concat()).exits(4).says(&["--depth"]);
    kist(&["bench", "disk", "/nowhere/at/all"]).exits(3).says(&["/nowhere/at/all"]);
    kist(&["bench", "disk", "/dev/null"]).exits(2).says(&["/dev/null", "block device"]);
    kist(&["bench", "disk"]).exits(2).says(&["PATH"]);
    assert_eq!(names(&directory), 0);
}

#[test]
fn a_file_system_is_not_filled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    // More than any file system that tests run on has free.
    let ran = kist(&["bench", "disk", path, "--bytes", "1TiB", "--seconds", "1", "--size", "4KiB"]);
    ran.exits(4).says(&[path, "leave 1.07 GB free"]);
    assert_eq!(names(&directory), 0);
}

#[test]
fn a_tape_drive_is_read_for_beside_the_load() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let arguments = [
        "bench",
        "disk",
        path,
        "--bytes",
        "64MiB",
        "--seconds",
        "1",
        "--size",
        "64KiB",
        "--access",
        "random",
        "--stream",
        "1MB",
        "--json",
    ];
    let report = kist(&arguments).exits(0).json();
    let row = &report["rows"][0];
    whole(row);
    assert_eq!(row["stream"]["asked_bytes_per_second"], 1_000_000, "{row}");
    assert_eq!(row["stream"]["fell_behind"], 0, "a run lasts for a minute: {row}");
}

#[test]
fn fio_is_run_in_turn() {
    let directory = tempfile::tempdir().unwrap();
    let ran = bench_beside_fio(directory.path(), &["--size", "64KiB", "--mix", "2:1", "--json"]);
    if Command::new("fio").arg("--version").output().is_err() {
        ran.exits(3).says(&["fio", "install"]);
        return;
    }
    let report = ran.exits(0).json();
    let row = &report["rows"][0];
    whole(row);
    assert!(report["fio"].as_str().unwrap().starts_with("fio-"), "{report}");
    let fio = &row["fio"];
    let number = |key: &str| fio[key].as_f64().unwrap();
    assert!(number("ratio") > 0.0 && number("bytes_per_second") > 0.0, "{row}");
    assert!(fio["ratio_interval"][0].as_f64().unwrap() <= number("ratio"), "{row}");
    assert_eq!(fio["pairs"].as_array().unwrap().len(), 6, "{row}");
    assert_eq!(row["is_verified"], false, "fio wrote there, too");
    assert_eq!(names(&directory), 0);

    // A file that stays is known again, though fio wrote over it, and is not longer.
    let path = directory.path().join("file");
    let length = (4 << 20) + 100;
    fs::File::create(&path).unwrap().set_len(length).unwrap();
    let write = ["--size", "4KiB", "--mix", "write", "--destroy", path.to_str().unwrap()];
    bench_beside_fio(&path, &write).exits(0);
    bench(&path, &[&write[..], &["--access", "random"]].concat()).exits(0);
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
}
