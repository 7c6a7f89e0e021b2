//! Commands that are refused: nothing breaks, and the reason is said.

use std::fs;

use crate::harness::{Instance, bytes, write};

#[test]
fn bad_paths_and_names_are_refused() {
    let instance = Instance::serving();
    let file = instance.beside("f");
    write(&file, &bytes(1000, 1));
    let local = file.to_str().unwrap();
    instance.kist(&["put", local, "/d/f"]).exits(0);
    let before = instance.kist(&["ls", "-r", "--json", "/"]).exits(0).out;

    let long = format!("/{}", "n".repeat(256));
    let deep = "/abc".repeat(1025);
    for (path, word) in [
        ("/d/../f", ".."),
        ("/d/./f", "'.'"),
        ("relative", "absolute"),
        ("/d//f", "empty component"),
        ("/.kist/x", "reserved"),
        (long.as_str(), "255"),
        (deep.as_str(), "4096"),
    ] {
        for command in [
            &["put", local, path][..],
            &["get", path, "-"],
            &["stat", path],
            &["stage", path],
            &["evict", path],
        ] {
            instance.kist(command).exits(2).says(&[word]);
        }
    }
    for command in [
        &["get", "/absent", "-"][..],
        &["stat", "/absent"],
        &["ls", "/absent"],
        &["rm", "/absent"],
        &["mv", "/absent", "/x"],
        &["stage", "/absent"],
        &["evict", "/absent"],
        &["why", "/absent"],
        &["request", "show", "999"],
        &["tape", "show", "XX9999"],
    ] {
        instance.kist(command).exits(3);
    }
    // A file where a directory is, a directory where a file is.
    let there = instance.beside("there");
    fs::create_dir(&there).unwrap();
    instance.kist_with_input(&["put", "-", "/d"], b"x").exits(4).says(&["/d is a directory"]);
    instance.kist(&["put", local, "/d/f/below"]).exits(4).says(&["not a directory"]);
    instance.kist(&["put", there.to_str().unwrap(), "/d/f"]).exits(4);
    instance.kist(&["get", "/d", "-"]).exits(4).says(&["is a directory"]);
    instance.kist(&["mkdir", "/d"]).exits(4).says(&["exists already"]);
    instance.kist(&["mkdir", "/no/parents"]).exits(3);
    instance.kist(&["rm", "/d"]).exits(4).says(&["not empty"]);
    // The same content again is a repeat, whatever was asked for; other content is refused.
    instance.kist(&["put", "--keep-existing", local, "/d/f"]).exits(0);
    let other = instance.beside("other");
    write(&other, b"other");
    let other = other.to_str().unwrap();
    instance.kist(&["put", "--keep-existing", other, "/d/f"]).exits(4).says(&["exists already"]);
    instance.kist(&["put", "--class", "gold", local, "/d/g"]).exits(3).says(&["small", "medium", "large"]);
    instance.kist(&["put", instance.beside("absent").to_str().unwrap(), "/d/g"]).exits(3);
    instance.kist(&["evict", "/d/f"]).exits(4).says(&["/d/f"]);
    instance.kist(&["stage"]).exits(2);
    instance.kist(&["rm", "/"]).exits(4).says(&["/ cannot be removed"]);
    instance.kist(&["rm", "-r", "/"]).exits(4).says(&["--everything"]);
    instance.kist(&["put", "--jobs", "0", local, "/d/h"]).exits(2).says(&["1 to 256"]);
    instance.kist(&["mv", "-r", "/d/f", "/d/g"]).exits(2);
    instance.kist(&["migrate"]).exits(2).says(&["--now"]);
    assert_eq!(instance.kist(&["ls", "-r", "--json", "/"]).exits(0).out, before);
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let instance = Instance::serving();
    let file = instance.beside("f");
    write(&file, &bytes(1000, 1));
    let local = file.to_str().unwrap();
    assert_eq!(instance.kist_unheard(&["put", local, "/f"]), 0);
    assert_eq!(instance.kist_unheard(&["stage", "--wait", "/f"]), 0);
    assert_eq!(instance.kist_unheard(&["get", "/absent", "-"]), 3);
    assert_eq!(instance.kist_unheard(&["rm", "/absent", "/f"]), 1);
}

#[test]
fn without_a_server_only_that_is_said() {
    let mut instance = Instance::serving();
    instance.stop();
    let tree = instance.beside("tree");
    write(&tree.join("f"), b"x");
    let ran = instance.kist(&["put", "--server", &instance.url, tree.to_str().unwrap(), "/t"]).exits(5);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.contains("kist serve"), "{}", ran.err);
}

#[test]
fn one_bad_item_does_not_stop_the_others() {
    let instance = Instance::serving();
    let tree = instance.beside("tree");
    for n in 0..20 {
        write(&tree.join(format!("{n:02}")), &bytes(100, n));
    }
    let socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    write(&tree.join(std::ffi::OsStr::from_encoded()), b"x");
    instance.kist(&["put", tree.to_str().unwrap(), "/t"]).exits(1).says(&["socket", "UTF-8", "put 20 files"]);
    drop(socket);
    let list = instance.kist(&["ls", "/t"]).exits(0).out;
    assert_eq!(list.lines().count(), 20);
}

trait FromEncoded {
    fn from_encoded() -> &'static Self;
}

impl FromEncoded for std::ffi::OsStr {
    /// A name that is not UTF-8.
    fn from_encoded() -> &'static Self {
        std::os::unix::ffi::OsStrExt::from_bytes(b"bad-\xff-name")
    }
}

/// The documented limit of paths in a request, and one beyond it, which leaves no request behind.
#[test]
fn a_list_of_as_many_paths_as_documented_is_staged() {
    let instance = Instance::serving();
    let file = instance.beside("f");
    write(&file, &bytes(1000, 1));
    instance.kist(&["put", file.to_str().unwrap(), "/f"]).exits(0);
    let list = instance.beside("list");
    write(&list, "/f\n".repeat(100_000).as_bytes());
    let staged = instance.kist(&["stage", "--from-file", list.to_str().unwrap()]).exits(0);
    assert!(staged.out.contains("1 file"), "{}", staged.out);
    let before = instance.kist(&["request", "ls", "--json"]).exits(0).out;
    write(&list, "/f\n".repeat(100_001).as_bytes());
    let refused = instance.kist(&["stage", "--from-file", list.to_str().unwrap()]);
    refused.exits(4).says(&["100001 paths", "the limit is 100000"]);
    assert_eq!(instance.kist(&["request", "ls", "--json"]).exits(0).out, before);
}
