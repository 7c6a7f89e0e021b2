//! Tapes that are encrypted with a key of their pool.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::{Instance, bytes, kist, wait_until, write};

const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// Gives all tape pools this key, from this file.
pub fn use_key(instance: &Instance, id: &str, keys: &Path) {
    let config = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&config).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("encryption = ")).collect();
    let line = format!("encryption = {{ key = \"{id}\", keys = \"file:{}\" }}", keys.display());
    let text = kept.join("\n").replace("[[tape_pools]]", &format!("[[tape_pools]]\n{line}")) + "\n";
    assert!(text.contains(&line));
    fs::write(config, text).unwrap();
}

pub fn give(keys: &Path, text: &str, mode: u32) {
    fs::write(keys, text).unwrap();
    fs::set_permissions(keys, fs::Permissions::from_mode(mode)).unwrap();
}

/// All bytes of all files below a directory.
pub fn gather(at: &Path, all: &mut Vec<u8>) {
    if at.is_dir() {
        fs::read_dir(at).unwrap().for_each(|entry| gather(&entry.unwrap().path(), all));
    } else {
        all.extend(fs::read(at).unwrap());
    }
}

pub fn has(all: &[u8], what: &[u8]) -> bool {
    all.windows(what.len()).any(|part| part == what)
}

/// From kist.toml to a tape in cipher text, a key that is away and comes back, and a catalogue from tapes.
#[test]
fn tapes_are_encrypted_and_wait_for_their_key() {
    let mut instance = Instance::init();
    let keys = instance.beside("tape-keys");
    let line = format!("# of this site\nvault-2026 {SECRET}\n");
    use_key(&instance, "vault-2026", &keys);
    give(&keys, &line, 0o600);
    instance.start();
    let local = instance.beside("plainly-named");
    write(&local, &bytes(3_000_000, 7));
    instance.kist(&["put", local.to_str().unwrap(), "/t/plainly-named"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    let used: Vec<&serde_json::Value> =
        tapes.as_array().unwrap().iter().filter(|tape| tape["uuid"].is_string()).collect();
    assert_eq!(used.len(), 2, "{tapes}");
    for tape in &used {
        assert_eq!(tape["key"], "vault-2026");
        assert_eq!(tape["key_check"].as_str().map(str::len), Some(12));
    }
    let vid = used[0]["vid"].as_str().unwrap().to_owned();
    let check = used[0]["key_check"].as_str().unwrap().to_owned();
    let shown = instance.kist(&["tape", "show", &vid]).exits(0).out;
    assert!(shown.contains(&format!("encrypted with key vault-2026 (check value {check})")), "{shown}");
    instance.kist(&["evict", "/t"]).exits(0);

    // Nobody else may read the file: then it is not read at all. A start finds it out before anybody wants
    // anything.
    instance.stop();
    give(&keys, &line, 0o640);
    instance.start();
    let status = |instance: &Instance| instance.kist(&["status"]).exits(0).out;
    wait_until("status tells of the key", || status(&instance).contains("key vault-2026 cannot be had"));
    let waits =
        |vid: &str| instance.kist(&["tape", "show", vid]).exits(0).out.contains("it waits for its key");
    assert!(used.iter().all(|tape| waits(tape["vid"].as_str().unwrap())));
    instance.kist(&["stage", "/t/plainly-named"]).exits(0);
    let why = || instance.kist(&["why", "/t/plainly-named", "--json"]).exits(0).out;
    wait_until("why tells of the key", || why().contains("key-missing"));
    for words in ["vault-2026", "chmod 0600", "goes on by itself"] {
        assert!(why().contains(words), "{}", why());
    }
    give(&keys, &line, 0o400);
    instance.kist(&["wait", "--timeout", "60s"]).exits(0);
    let back = instance.beside("back");
    instance.kist(&["get", "/t/plainly-named", back.to_str().unwrap()]).exits(0);
    assert_eq!(fs::read(back).unwrap(), bytes(3_000_000, 7));
    instance.stop();

    // The key stands nowhere but in its file, and on tape stands no name.
    let digits = |text: &str| -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    let (mut all, mut on_tape) = (Vec::new(), Vec::new());
    gather(&instance.dir(), &mut all);
    gather(&instance.dir().join("library"), &mut on_tape);
    assert!(has(&on_tape, b"vault-2026") && has(&on_tape, check.as_bytes()) && has(&all, b"plainly-named"));
    assert!(!has(&on_tape, b"plainly-named") && !has(&on_tape, b"<ltfsindex"));
    assert!(!has(&all, SECRET.as_bytes()) && !has(&all, &digits(SECRET)));

    // Without the key nothing is made of the tapes; with it all.
    fs::remove_dir_all(instance.dir().join("catalogue")).unwrap();
    let dir = instance.dir().to_str().unwrap().to_owned();
    give(&keys, "# none\n", 0o600);
    let refused = kist(&["rebuild", "--from-tapes", &dir]);
    assert!(refused.code != 0 && refused.err.contains("vault-2026"), "{}", refused.err);
    give(&keys, &line, 0o600);
    // The stage came behind the last session, and is on no tape.
    kist(&["rebuild", "--from-tapes", "--accept-loss", &dir]).exits(0);
    instance.start();
    let stat = instance.kist(&["stat", "--json", "/t/plainly-named"]).exits(0).json();
    assert_eq!(stat["size"], 3_000_000, "{stat}");
    instance.stop();
}
