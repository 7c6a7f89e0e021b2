//! Quotas, owners and access control lists from the command line.

use crate::harness::{Instance, bytes, write};

/// The quotas, once all their files are counted.
fn counted(instance: &Instance) -> serde_json::Value {
    loop {
        let quotas = instance.kist(&["quota", "ls", "--json"]).exits(0).json();
        if quotas.as_array().unwrap().iter().all(|quota| quota["counting"] == false) {
            return quotas;
        }
    }
}

#[test]
fn what_a_quota_refuses_is_said_and_changes_nothing() {
    let instance = Instance::serving();
    let file = instance.beside("file");
    write(&file, &bytes(300_000, 1));
    let file = file.to_str().unwrap();
    instance.kist(&["put", file, "/a/b/one"]).exits(0);
    instance.kist(&["quota", "set", "/a", "--bytes", "500kB", "--files", "10"]).exits(0);
    instance.kist(&["quota", "set", "--vo", "cms", "--files", "3"]).exits(0);
    // What is still being counted refuses only what is too much for what is counted by then.
    counted(&instance);
    let refused = instance.kist(&["put", "--again", file, "/a/b/two"]).exits(4);
    assert!(refused.err.contains("the quota of /a is 500 kB"), "{}", refused.err);
    instance.kist(&["stat", "/a/b/two"]).exits(3);
    instance.kist(&["put", file, "/else/two"]).exits(0);
    instance.kist(&["mv", "/a/b", "/else/b"]).exits(4).says(&["across the border"]);
    let quotas = counted(&instance);
    let of_a = &quotas[0];
    assert_eq!((of_a["path"].as_str(), of_a["bytes"].as_u64()), (Some("/a"), Some(500_000)));
    assert_eq!((of_a["bytes_used"].as_u64(), of_a["files_used"].as_u64()), (Some(300_000), Some(1)));
    assert_eq!((quotas[1]["vo"].as_str(), quotas[1]["files"].as_u64()), (Some("cms"), Some(3)));
    let table = instance.kist(&["quota", "ls"]).exits(0).out;
    assert!(table.contains("60 %") && table.contains("vo cms") && table.contains("all"), "{table}");
    instance.kist(&["quota", "rm", "/a"]).exits(0);
    instance.kist(&["quota", "rm", "/a"]).exits(3).says(&["there is no quota of /a"]);
    instance.kist(&["put", file, "/a/b/two"]).exits(0);
    instance.kist(&["quota", "set", "/a"]).exits(2);
    instance.kist(&["quota", "set", "/a", "--vo", "cms", "--files", "1"]).exits(2);
    instance.kist(&["quota", "set", "/none", "--files", "1"]).exits(3);
}

#[test]
fn lists_and_owners_are_set_and_shown() {
    let instance = Instance::serving();
    let file = instance.beside("file");
    write(&file, b"1");
    instance.kist(&["put", file.to_str().unwrap(), "/a/b/one"]).exits(0);
    instance.kist(&["acl", "set", "/a", "user:anna=rlw", "group:cms:r"]).exits(0);
    let shown = instance.kist(&["acl", "show", "/a/b"]).exits(0).out;
    assert!(
        shown.contains("that of /a holds") && shown.contains("user:anna") && shown.contains("lrw"),
        "{shown}"
    );
    let shown = instance.kist(&["acl", "show", "--json", "/a"]).exits(0).json();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 2);
    assert_eq!(shown["effective_path"], "/a");
    instance.kist(&["acl", "set", "/a", "user:anna=x"]).exits(2).says(&["'x' is no right"]);
    instance.kist(&["acl", "set", "/a/b/one", "anyone=r"]).exits(4);
    instance.kist(&["acl", "rm", "/a"]).exits(0);
    let shown = instance.kist(&["acl", "show", "--json", "/a/b"]).exits(0).json();
    assert!(shown["entries"].is_null() && shown["effective"].is_null(), "{shown}");
    instance.kist(&["chown", "anna:cms", "/a/b/one", "/a"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/a/b/one"]).exits(0).json();
    assert!(stat.to_string().contains("\"anna\"") && stat.to_string().contains("\"cms\""), "{stat}");
    instance.kist(&["chown", ":", "/a"]).exits(2);
    instance.kist(&["chown", "anna", "/none"]).exits(3);
}
