//! `kist pool drive burn-in`: what it says, what it refuses, what it leaves; never how fast a disk was.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::harness::{Instance, Ran, command, kist, ran, write_ext4_image};

const SIZE: [&str; 2] = ["--size", "64MiB"];

fn burn_in(path: &Path, more: &[&str]) -> Ran {
    kist(&[&["pool", "drive", "burn-in", path.to_str().unwrap(), "--quiet"], more].concat())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A call whose files the system does not let grow beyond so many bytes: it refuses further writes (EFBIG).
fn limited(bytes: u64, arguments: &[&str]) -> Command {
    let line = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
    let mut shell = Command::new("sh");
    let whole = command(arguments);
    shell.args(["-c", &line]).arg(whole.get_program()).args(whole.get_args());
    for name in ["KIST_SERVER", "KIST_KEY_FILE", "KIST_INSTANCE"] {
        shell.env_remove(name);
    }
    shell
}

#[test]
fn a_directory_is_burnt_in_and_has_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let report = burn_in(directory.path(), &[&SIZE[..], &["--json"]].concat()).exits(0).json();
    assert_eq!((&report["verdict"], &report["kind"]), (&"passed".into(), &"temporary file".into()));
    assert_eq!(report["bytes"], 64 << 20);
    assert_eq!(report["is_judged_by_place"], false, "64 MiB are too few: {report}");
    let zone = &report["zones"][0];
    for figure in ["write_bytes_per_second", "read_bytes_per_second", "median_seconds", "p99_seconds"] {
        assert!(zone[figure].as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!(names(directory.path()), ["burn-in.kist"]);
    let ran = burn_in(directory.path(), &SIZE).exits(0);
    for words in [": passed: 67.1 MB of ", "written at ", "read at ", "and compared", "too few to tell slow"]
    {
        assert!(ran.out.contains(words), "'{words}' is not in:\n{}", ran.out);
    }
    // What the last one said, and no other.
    assert_eq!(names(directory.path()), ["burn-in.kist"]);
}

/// A fault without a faulty disk.
#[test]
fn writes_that_fail_make_a_disk_faulty() {
    const HALF: u64 = 32 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.image");
    fs::File::create(&path).unwrap().set_len(2 * HALF).unwrap();
    let name = path.to_str().unwrap();
    let call = ["pool", "drive", "burn-in", name, "--destroy", name, "--json", "--quiet"];
    let ran = ran(&mut limited(HALF, &call)).exits(7).says(&["is faulty", "use another disk"]);
    let report = ran.json();
    assert_eq!(report["verdict"], "faulty");
    let faults = report["faults"].as_array().unwrap();
    let of = |what: &str| {
        faults.iter().find(|fault| fault["what"].as_str().unwrap().starts_with(what)).expect(what)
    };
    let refused = of("write: File too large");
    assert_eq!((&refused["count"], &refused["first_byte"]), (&32.into(), &HALF.into()));
    // And what was not written is not there.
    assert_eq!(of("read gave a block that was not written")["first_byte"], HALF);
    // The same file without the fault.
    burn_in(&path, &["--destroy", name]).exits(0);
}

#[test]
fn a_call_that_is_interrupted_leaves_nothing() {
    // On a busy machine it may have ended before it is interrupted: then once more.
    let was_interrupted = (0..10).any(|_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let mut child =
            command(&["pool", "drive", "burn-in", path, "--size", "1GiB", "--quiet"]).spawn().unwrap();
        let is_open = |id: u32| {
            let descriptors = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
            descriptors.filter_map(|one| fs::read_link(one.path()).ok()).any(|to| to.starts_with(path))
        };
        while !is_open(child.id()) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let was_interrupted = !child.wait().unwrap().success();
        if was_interrupted {
            assert!(names(directory.path()).is_empty());
        }
        was_interrupted
    });
    assert!(was_interrupted);
}

#[test]
fn what_stands_somewhere_is_not_written_over_and_room_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.image");
    let bytes = write_ext4_image(&path);
    let name = path.to_str().unwrap();
    burn_in(&path, &[]).exits(4).says(&["only read", "--destroy"]);
    burn_in(&path, &["--destroy", name]).exits(4).says(&["ext4"]);
    burn_in(&path, &["--destroy", "/dev/null"]).exits(2).says(&["that is another one"]);
    assert!(fs::read(&path).unwrap() == bytes);
    let place = directory.path().to_str().unwrap();
    burn_in(directory.path(), &["--destroy", place]).exits(2).says(&["a directory is not written over"]);
    burn_in(directory.path(), &["--size", "100TiB"]).exits(4).says(&["are free", "leave 1.07 GB free"]);
    burn_in(directory.path(), &["--size", "129TiB"]).exits(2);
    burn_in(&directory.path().join("gone"), &[]).exits(3);
    // Somebody's directory is not written to.
    burn_in(directory.path(), &SIZE).exits(0).says(&[]);
    assert_eq!(names(directory.path()), ["disk.image"]);
}

/// Story: the mount point of a disk that was not mounted was burnt in: the root file system was filled.
#[test]
fn a_directory_without_a_file_system_of_its_own_is_not_filled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d8");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("burn-in.kist"), "an earlier record").unwrap();
    burn_in(&path, &[]).exits(4).says(&["mount its disk there", "--size", "--shared"]);
    burn_in(&path, &["--shared", "--size", "64MiB"]).exits(2);
    // Nor is what an earlier one said removed by one that does not begin.
    burn_in(&path, &["--size", "100TiB"]).exits(4);
    assert_eq!(fs::read(path.join("burn-in.kist")).unwrap(), b"an earlier record");
}

/// Story: a server made a drive of the directory meanwhile, and the record of two days said "passed" there.
#[test]
fn no_drive_is_made_of_a_directory_that_is_burnt_in() {
    let mut instance = Instance::serving();
    let path = instance.beside("d9");
    fs::create_dir(&path).unwrap();
    let place = path.to_str().unwrap();
    let call = ["pool", "drive", "burn-in", place, "--size", "1GiB", "--quiet"];
    let is_open = |id: u32| {
        let descriptors = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        let mut to = descriptors.filter_map(|one| fs::read_link(one.path()).ok());
        to.any(|to| to.starts_with(place) && to != path)
    };
    let signal = |child: &Child, name: &str| {
        Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    };
    // It stands still, so that it has not ended before the drive is added; if it has before that, once more.
    let burning = (0..10).find_map(|_| {
        let mut child = command(&call).spawn().unwrap();
        while !is_open(child.id()) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(&child, "-STOP");
        child.try_wait().unwrap().is_none().then_some(child)
    });
    let mut child = burning.expect("one of ten is caught");
    let add = ["pool", "drive", "add", place, "--new"];
    instance.kist(&add).exits(4).says(&["in use by another process", "burn-in"]);
    burn_in(&path, &SIZE).exits(4).says(&["in use by another process"]);
    signal(&child, "-KILL");
    child.wait().unwrap();
    instance.kist(&add).exits(0);
    instance.stop();
}

#[test]
fn a_drive_is_burnt_in_and_added_and_tells_of_it() {
    let mut instance = Instance::serving();
    let path = instance.beside("d9");
    fs::create_dir(&path).unwrap();
    let place = path.to_str().unwrap();
    let proving = ["pool", "drive", "add", place, "--new", "--burn-in", "--size", "64MiB", "--quiet"];
    let add = [&proving[..], &["--accept-burn-in"]].concat();
    // What cannot prove a disk is not begun.
    instance.kist(&proving).exits(4).says(&["would not prove the disk", "--accept-burn-in"]);
    assert!(names(&path).is_empty());
    // One that cannot be burnt in is not added.
    let failed = ran(limited(1 << 20, &add).env("KIST_INSTANCE", instance.dir()));
    failed.exits(8).says(&["reserving room failed"]);
    assert!(names(&path).is_empty());
    let said = instance.kist(&add).exits(0).out;
    assert!(said.contains(": passed: 67.1 MB of ") && said.contains("a new drive, in use"), "{said}");
    let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    let drives = pool["drives"].as_array().unwrap();
    let drive = drives.iter().find(|drive| drive["path"] == place).unwrap();
    assert_eq!(
        (&drive["burn_in"]["verdict"], &drive["burn_in"]["bytes"]),
        (&"passed".into(), &(64 << 20).into())
    );
    let id = drive["id"].to_string();
    let told = instance.kist(&["pool", "drive", "show", &id]).exits(0).out;
    for words in ["burn-in", "passed, 20", "67.1 MB", "not judged by place: too few bytes"] {
        assert!(told.contains(words), "'{words}' is not in:\n{told}");
    }
    let other = instance.kist(&["pool", "drive", "show", "0"]).exits(0).out;
    assert!(other.contains("none is recorded"), "{other}");
    instance.kist(&["pool", "drive", "show", "77"]).exits(3);
    // It is a drive now.
    burn_in(&path, &SIZE).exits(4).says(&["before its first use"]);
    instance.kist(&add).exits(4).says(&["it is the place of drive", "before its first use"]);
    // The record is still there after a restart.
    instance.stop();
    instance.start();
    let again = instance.kist(&["pool", "drive", "show", &id, "--json"]).exits(0).json();
    assert_eq!(again["burn_in"], drive["burn_in"]);
    instance.stop();
}
