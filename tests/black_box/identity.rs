//! Who may do what, and who did what: keys, the local admin, the audit log.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Instance, kist};

#[test]
fn keys_are_given_out_and_open_only_what_is_theirs() {
    let instance = Instance::serving();
    let file = instance.beside("file");
    fs::write(&file, "bytes").unwrap();
    let file = file.to_str().unwrap();
    instance.kist(&["put", file, "/secret"]).exits(0);
    let made = instance.kist(&["key", "create", "carl", "--group", "cms", "--expires", "30d", "--json"]);
    let made = made.exits(0).json();
    let key = instance.beside("carl.key");
    fs::write(&key, made["secret"].as_str().unwrap()).unwrap();
    let key = key.to_str().unwrap();
    let as_carl = |arguments: &[&str]| instance.kist(&[arguments, &["--key-file", key]].concat());
    as_carl(&["class", "ls"]).exits(0);
    as_carl(&["stat", "/secret"]).exits(6).says(&["carl may not stat /secret"]);
    as_carl(&["put", file, "/other"]).exits(6);
    as_carl(&["key", "ls"]).exits(6).says(&["only admins"]);
    as_carl(&["scrub", "--now"]).exits(6);
    let id = made["id"].as_str().unwrap();
    assert!(instance.kist(&["key", "ls"]).exits(0).out.contains(id));
    instance.kist(&["key", "disable", id]).exits(0);
    as_carl(&["class", "ls"]).exits(6).says(&["does not take the key"]);
    instance.kist(&["key", "enable", id]).exits(0);
    as_carl(&["class", "ls"]).exits(0);
    instance.kist(&["key", "rm", id]).exits(0);
    instance.kist(&["key", "rm", id]).exits(3);
    let signing = instance.kist(&["key", "create", "ci", "--s3"]).exits(0).out;
    assert!(signing.contains("access key id  KIST") && signing.contains("secret "), "{signing}");
    let kept = fs::metadata(instance.dir().join("access-keys.toml")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
}

#[test]
fn whoever_may_read_the_instance_may_administrate_it() {
    let mut instance = Instance::serving();
    let run_key = instance.dir().join("run/admin-key");
    assert_eq!(fs::metadata(&run_key).unwrap().permissions().mode() & 0o777, 0o600);
    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    kist(&["status", "--instance", dir]).exits(0);
    // Another server does not get to see the key.
    kist(&["status", "--instance", dir, "--server", &instance.url]).exits(6).says(&["--key-file"]);
    let old = fs::read_to_string(&run_key).unwrap();
    instance.stop();
    assert!(!run_key.exists());
    instance.start();
    assert_ne!(fs::read_to_string(&run_key).unwrap(), old);
}

#[test]
fn the_audit_log_tells_who_did_what_and_that_it_was_not_changed() {
    let mut instance = Instance::serving();
    let file = instance.beside("file");
    fs::write(&file, "bytes").unwrap();
    instance.kist(&["put", file.to_str().unwrap(), "/a"]).exits(0);
    let headers = [("Authorization", "Bearer kist_forged")];
    assert_eq!(instance.http("GET", "/data/a", &headers, b"").0, 401);
    instance.kist(&["rm", "/a"]).exits(0);
    instance.stop();
    let shown = instance.kist(&["audit", "show", "--since", "1h"]).exits(0).out;
    for words in ["admin (key) put /a done", "- (key) GET /data/a refused", "admin (key) remove /a done"] {
        assert!(shown.contains(words), "'{words}' is not in\n{shown}");
    }
    let json = instance.kist(&["audit", "show", "--json"]).exits(0).out;
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{json}");
    let good = instance.kist(&["audit", "verify", "--json"]).exits(0).json();
    let hash = good["hash"].as_str().unwrap();
    instance.start();
    instance.kist(&["audit", "verify", "--contains", hash]).exits(0);
    instance
        .kist(&["audit", "verify", "--contains", &"0".repeat(64)])
        .exits(7)
        .says(&["no line with that hash"]);
    instance.stop();
    let log = instance.dir().join("log/audit.000001.log");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("remove", "rename", 1)).unwrap();
    instance.kist(&["audit", "verify"]).exits(7).says(&["was changed or damaged there"]);
    let without: String =
        text.lines().filter(|line| !line.contains("refused")).map(|l| format!("{l}\n")).collect();
    fs::write(&log, without).unwrap();
    instance.kist(&["audit", "verify"]).exits(7);
}

/// Nobody was told of keys that others can read, nor that the log of who did what had been changed.
#[test]
fn a_start_warns_of_open_keys_and_of_a_changed_audit_log() {
    let mut instance = Instance::serving();
    instance.kist(&["key", "create", "carl"]).exits(0);
    instance.kist(&["mkdir", "/d"]).exits(0);
    instance.stop();
    instance.start();
    let quiet = instance.log_until("");
    assert!(!quiet.contains("others can") && !quiet.contains("audit log is not"), "{quiet}");
    instance.stop();
    let keys = instance.dir().join("access-keys.toml");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(instance.dir().join("kist.toml"), fs::Permissions::from_mode(0o666)).unwrap();
    let log = instance.dir().join("log/audit.000001.log");
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("mkdir"), "{text}");
    fs::write(&log, text.replacen("mkdir", "chdir", 1)).unwrap();
    instance.start();
    let told = instance.log_until("the audit log is not what was written");
    assert!(told.contains("others can read this file (mode 0644)"), "{told}");
    assert!(told.contains("others can change this file (mode 0666)"), "{told}");
    instance.kist(&["stat", "/"]).exits(0);
}
