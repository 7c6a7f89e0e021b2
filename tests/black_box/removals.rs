//! `kist rm -r`: a directory goes at once with all that is in it, by whom it may, and as far as it may.

use std::fs;

use crate::harness::{Instance, make_tree};

fn instance_with_tree() -> (Instance, String) {
    let instance = Instance::serving();
    let local = instance.beside("tree");
    make_tree(&local);
    let local = local.to_str().unwrap().to_owned();
    instance.kist(&["put", &local, "/t"]).exits(0);
    (instance, local)
}

/// A key of somebody who is no admin, in a file.
fn key_of(instance: &Instance, name: &str) -> String {
    let made = instance.kist(&["key", "create", name, "--json"]).exits(0).json();
    let file = instance.beside(&format!("{name}.key"));
    fs::write(&file, made["secret"].as_str().unwrap()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_tree_goes_with_one_call_and_says_how_far_it_is() {
    let (mut instance, local) = instance_with_tree();
    let names = instance.kist(&["ls", "-r", "/t", "--json"]).exits(0).json().as_array().unwrap().len() + 1;
    let done = instance.kist(&["rm", "-r", "/t", "--json"]).exits(0).says(&["names removed"]).json();
    assert_eq!((done["removed"].as_u64(), done["failed"].as_u64()), (Some(names as u64), Some(0)));
    instance.kist(&["stat", "/t"]).exits(3);
    let id = done["removals"][0].as_u64().unwrap();
    let shown = instance.kist(&["rm", "--show", "--json"]).exits(0).json();
    assert_eq!((shown[0]["id"].as_u64(), shown[0]["state"].as_str()), (Some(id), Some("done")));
    assert!(instance.kist(&["rm", "--show"]).exits(0).out.contains("/t"));

    // The name can be used again while the old tree is still being removed, and a restart forgets nothing.
    instance.kist(&["put", &local, "/t"]).exits(0);
    instance.kist(&["rm", "-r", "--no-wait", "/t"]).exits(0).says(&["is gone", "kist rm --show"]);
    instance.kist(&["put", &local, "/t"]).exits(0);
    instance.kill();
    instance.start();
    instance.kist(&["compare", &local, "/t"]).exits(0);
    let second = instance.kist(&["rm", "-r", "/t", "--json"]).exits(0).json();
    assert_eq!(second["removed"].as_u64(), Some(names as u64));
    instance.kist(&["rm", "-r", "/t"]).exits(3);
    instance.kist(&["rm", "--show", "/t"]).exits(2);
    let audit = instance.kist(&["audit", "show", "--since", "1h"]).exits(0).out;
    assert!(audit.contains("admin (key) remove-tree /t done"), "{audit}");
}

#[test]
fn everything_goes_tree_by_tree_and_the_root_stays() {
    let (instance, local) = instance_with_tree();
    instance.kist(&["put", &local, "/u"]).exits(0);
    let file = instance.beside("file");
    fs::write(&file, "bytes").unwrap();
    instance.kist(&["put", file.to_str().unwrap(), "/f"]).exits(0);
    instance.kist(&["rm", "-r", "/"]).exits(4).says(&["--everything"]);
    let done = instance.kist(&["rm", "-r", "--everything", "/", "--json"]).exits(0).json();
    assert_eq!(done["removals"].as_array().unwrap().len(), 2);
    assert_eq!(instance.kist(&["ls", "/", "--json"]).exits(0).json().as_array().unwrap().len(), 0);
}

/// Whoever may not remove each name may not remove the tree; a list inside has it go name by name, as far as
/// it is allowed, and what stays is told.
#[test]
fn rights_are_those_of_a_removal_name_by_name() {
    let (instance, _) = instance_with_tree();
    let (anna, bert) = (key_of(&instance, "anna"), key_of(&instance, "bert"));
    let run_as = |key: &str, arguments: &[&str]| instance.kist(&[arguments, &["--key-file", key]].concat());
    let file = instance.beside("file");
    fs::write(&file, "bytes").unwrap();
    let file = file.to_str().unwrap();
    for path in ["/a/x", "/a/inner/y", "/a/inner/z", "/a/other/w"] {
        instance.kist(&["put", file, path]).exits(0);
    }
    run_as(&anna, &["rm", "-r", "/a"]).exits(6);
    instance.kist(&["acl", "set", "/a", "user:anna=rlw"]).exits(0);
    instance.kist(&["acl", "set", "/a/inner", "user:anna=rl", "user:bert=rlw"]).exits(0);
    let why = "/a/inner has an access control list of its own";
    run_as(&anna, &["rm", "-r", "/a"]).exits(6).says(&[why, "anna may not remove /a/inner/"]);
    instance.kist(&["stat", "/a/inner/y", "/a/inner/z"]).exits(0);
    // The list of the directory itself decides, and bert sees what is his only.
    run_as(&bert, &["rm", "-r", "/a/inner"]).exits(0);
    instance.kist(&["stat", "/a/inner"]).exits(3);
    let seen = |key: &str| {
        let shown = run_as(key, &["rm", "--show", "--json"]).exits(0).json();
        shown
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    // Beside the directory with a list of its own the others of the tree went at once.
    assert_eq!((seen(&anna), seen(&bert)), (vec!["/a/other".to_owned()], vec!["/a/inner".to_owned()]));
    // An admin needs no list.
    instance.kist(&["put", file, "/a/inner/y"]).exits(0);
    instance.kist(&["acl", "set", "/a/inner", "user:anna=rl"]).exits(0);
    let all = instance.kist(&["rm", "-r", "/a", "--json"]).exits(0).json();
    assert_eq!(all["removals"].as_array().unwrap().len(), 1);
}

/// Story: the server remembers a thousand removals that have ended; the command asked for more of them when
/// all were begun, and told a hundred as failed that were done.
#[test]
fn more_directories_than_removals_are_remembered_are_removed() {
    let instance = Instance::serving();
    let tree = instance.beside("tree");
    for number in 0..1_100 {
        let directory = tree.join(format!("d{number}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("f"), "x").unwrap();
    }
    instance.kist(&["put", tree.to_str().unwrap(), "/"]).exits(0);
    instance.kist(&["rm", "-r", "--everything", "/"]).exits(0).says(&["2,200 names removed"]);
    assert_eq!(instance.kist(&["ls", "/"]).exits(0).out.trim(), "");
}

/// Story: the refusal of a removal named a directory in one that its caller may not list.
#[test]
fn a_refusal_names_nothing_that_its_caller_may_not_list() {
    let instance = Instance::serving();
    let anna = key_of(&instance, "anna");
    let file = instance.beside("file");
    fs::write(&file, "bytes").unwrap();
    for path in ["/a/x", "/b/hidden/v", "/a/closed/w"] {
        instance.kist(&["put", file.to_str().unwrap(), path]).exits(0);
    }
    for (path, list) in [("/a", "user:anna=rlw"), ("/b/hidden", "user:bert=r"), ("/a/closed", "user:bert=r")]
    {
        instance.kist(&["acl", "set", path, list]).exits(0);
    }
    instance.kist(&["mv", "/b/hidden", "/a/closed/hidden"]).exits(0);
    let why = "a directory in it has an access control list of its own";
    let refused = instance.kist(&["rm", "-r", "/a", "--key-file", &anna]).exits(6).says(&[why]);
    assert!(!refused.err.contains("hidden"), "{}", refused.err);
    instance.kist(&["stat", "/a/closed/hidden/v"]).exits(0);
}
