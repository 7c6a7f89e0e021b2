//! Instances, settings, keys and servers that are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Instance, kist};

#[test]
fn init_refuses_what_is_there() {
    let instance = Instance::init();
    let dir = instance.dir();
    kist(&["init", dir.to_str().unwrap()]).exits(4).says(&["is an instance already", "nothing was done"]);
    let other = instance.beside("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("f"), "").unwrap();
    kist(&["init", other.to_str().unwrap()]).exits(4).says(&["is not empty"]);
    let new = instance.beside("new");
    let text = new.to_str().unwrap();
    kist(&["init", text, "--drives", "5"]).exits(2).says(&["--drives 6 or more", "nothing was made"]);
    kist(&["init", text, "--cartridges", "0"]).exits(2);
    // A key file that is there may hold the key of another instance: nothing is made then.
    let key = instance.key();
    let saved = instance.key_file();
    let new = instance.beside("newer");
    let arguments = ["init", new.to_str().unwrap(), "--save-key", saved.to_str().unwrap()];
    kist(&arguments).exits(4).says(&["another key", "nothing was done"]);
    assert_eq!(instance.key(), key);
    assert!(!new.exists());
    // The key of an instance that cannot be made is not left behind.
    let unused = instance.beside("unused");
    kist(&["init", text, "--drives", "5", "--save-key", unused.to_str().unwrap()]).exits(2);
    assert!(!unused.exists());
    let key = fs::metadata(instance.key_file()).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
    let keys = fs::read_to_string(dir.join("keys.toml")).unwrap();
    assert!(!keys.contains(&instance.key()), "the key itself is kept");
}

#[test]
fn broken_settings_are_refused_with_line_and_key() {
    let instance = Instance::init();
    let file = instance.dir().join("kist.toml");
    let good = fs::read_to_string(&file).unwrap();
    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    kist(&["serve", "--check-config", dir]).exits(0);
    let effective = kist(&["serve", "--print-effective-config", dir]).exits(0).out;
    fs::write(&file, effective).unwrap();
    kist(&["serve", "--check-config", dir]).exits(0);
    let at = |key: &str| good.lines().position(|line| line.starts_with(key)).unwrap() + 1;
    for (from, to, words) in [
        ("parity = 2", "parity = two", vec![format!("kist.toml:{}", at("parity"))]),
        ("parity = 2", "pairity = 2", vec![format!("kist.toml:{}", at("parity")), "pairity".to_owned()]),
        ("arena = \"128MiB\"", "arena = 256", vec!["pool.arena".to_owned(), "unit".to_owned()]),
        ("parity = 2", "parity = 7", vec!["need 11 drives".to_owned()]),
        ("format = 1", "format = 9", vec!["newer kist".to_owned()]),
        ("[tape]", "[tape", vec!["kist.toml:".to_owned()]),
        ("listen = \"127.0.0.1:0\"", "listen = \"here\"", vec!["server.listen".to_owned()]),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        kist(&["serve", "--check-config", dir]).exits(2).says(&words);
        kist(&["serve", dir]).exits(2).says(&words);
    }
    // Keys of tapes that nobody could read were good.
    let (pool, keys) = ("[[tape_pools]]\nname = \"vault-a\"\n", instance.dir().join("tape-keys"));
    assert!(good.contains(pool), "{good}");
    let encryption = format!("encryption = {{ key = \"k\", keys = \"file:{}\" }}\n", keys.display());
    fs::write(&file, good.replacen(pool, &format!("{pool}{encryption}"), 1)).unwrap();
    let check = || kist(&["serve", "--check-config", dir]);
    check().exits(2).says(&["tape pool 'vault-a'", "tape-keys: No such file"]);
    fs::write(&keys, format!("k {}\n", "0f".repeat(32))).unwrap();
    for (mode, exit) in [(0o644, 2), (0o600, 0)] {
        fs::set_permissions(&keys, fs::Permissions::from_mode(mode)).unwrap();
        check().exits(exit);
    }
    fs::remove_file(&file).unwrap();
    kist(&["serve", dir]).exits(2).says(&["kist.toml"]);
}

#[test]
fn one_server_and_no_newer_instance() {
    let mut instance = Instance::serving();
    let dir = instance.dir();
    let dir = dir.to_str().unwrap();
    let waits = "its end is waited for, 5 s at most";
    kist(&["serve", dir]).exits(4).says(&["another server", "process", &instance.url.clone(), waits]);
    std::fs::write(instance.dir().join("admin.key"), instance.key()).unwrap();
    kist(&["demo", dir]).exits(4).says(&["another server", "process", &instance.url.clone()]);
    std::fs::remove_file(instance.dir().join("admin.key")).unwrap();
    instance.stop();
    assert!(!instance.dir().join("run/server.json").exists());
    instance.kist(&["ls"]).exits(5).says(&["kist serve"]);
    let file = instance.dir().join("instance.kist");
    let text = fs::read_to_string(&file).unwrap();
    // A format is believed behind the checksum only.
    fs::write(&file, text.replace("format = 1", "format = 2")).unwrap();
    kist(&["serve", dir]).exits(7).says(&["checksum"]);
    let body = text.rsplit_once("crc32c = ").unwrap().0.replace("format = 1", "format = 2");
    fs::write(&file, format!("{body}crc32c = {}\n", base::Crc32c::of(body.as_bytes()))).unwrap();
    kist(&["serve", dir]).exits(4).says(&["newer kist"]);
    fs::write(&file, text.replace("created", "creatd")).unwrap();
    kist(&["serve", dir]).exits(7).says(&["checksum"]);
    kist(&["serve", instance.beside("nowhere").to_str().unwrap()]).exits(3).says(&["kist init"]);
}

#[test]
fn keys_decide() {
    let instance = Instance::serving();
    let wrong = instance.beside("wrong");
    fs::write(&wrong, format!("kist_{}\n", "0".repeat(64))).unwrap();
    let wrong = wrong.to_str().unwrap();
    instance.kist(&["ls", "--key-file", wrong]).exits(6).says(&["does not take the key", wrong]);
    instance.kist(&["put", wrong, "/f", "--key-file", wrong]).exits(6);
    instance.kist(&["ls", "--key-file", instance.beside("absent").to_str().unwrap()]).exits(3);
    fs::write(wrong, "two words\n").unwrap();
    instance.kist(&["ls", "--key-file", wrong]).exits(2);
    kist(&["ls", "--server", &instance.url, "--instance", instance.dir().to_str().unwrap()])
        .exits(6)
        .says(&["--key-file"]);
    for authorization in
        ["", "Bearer", "Bearer kist_", "Basic YTpi", &format!("bearer  {}", "x".repeat(5000))]
    {
        let (status, answer) =
            instance.http("GET", "/api/v1/status", &[("Authorization", authorization)], b"");
        assert_eq!(status, 401, "{authorization}: {answer}");
    }
    assert_eq!(instance.http("GET", "/healthz", &[("Authorization", "")], b"").0, 200);
}

#[test]
fn help_teaches() {
    let overview = kist(&[]).exits(0).out;
    for command in ["demo", "init", "serve", "put", "stage --wait"] {
        assert!(overview.contains(&format!("kist {command}")), "{command}");
    }
    assert!(kist(&["help", "exit-codes"]).exits(0).out.contains("7  data differs"));
    assert!(kist(&["help", "put"]).exits(0).out.contains("Examples:"));
    assert!(kist(&["tape", "dump", "--help"]).exits(0).out.contains("kist tape dump KS0001"));
    kist(&["help", "nonsense"]).exits(2);
    kist(&["nonsense"]).exits(2);
    kist(&["ls", "--instance", "/nonexistent/kist"]).exits(5).says(&["kist init"]);
    kist(&["ls", "--server", "http://127.0.0.1:1", "--key-file", "/etc/hostname"]).exits(5);
}
