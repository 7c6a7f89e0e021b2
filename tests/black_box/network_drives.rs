//! A pool whose drives are programs of their own, `kist drive serve`, as on other hosts: the whole life of a
//! file, with drives killed. And `kist kinetic`, with one drive.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::harness::{Instance, bytes, command, kist, wait_until, write};

const DRIVES: usize = 6;
const SIZE: usize = 20_000_000;

/// A drive, which is killed when it is dropped.
struct Served {
    directory: PathBuf,
    address: String,
    child: Option<Child>,
}

impl Served {
    fn new(directory: PathBuf, key: &Path) -> Self {
        let (path, key) = (directory.to_str().unwrap(), key.to_str().unwrap());
        kist(&["drive", "format", "--path", path, "--key-file", key]).exits(0);
        let mut served = Served { directory, address: "127.0.0.1:0".to_owned(), child: None };
        served.start();
        served
    }

    /// Starts it where it was before.
    fn start(&mut self) {
        let path = self.directory.to_str().unwrap();
        let mut serve = command(&["drive", "serve", "--path", path, "--listen", &self.address]);
        let mut child = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, address) = line.trim_end().rsplit_once("kinetic://").expect("it says where it serves");
        self.address = address.to_owned();
        self.child = Some(child);
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

fn drives_up(instance: &Instance) -> usize {
    let pool = instance.kist(&["pool", "show", "--json"]).exits(0).json();
    pool["drives"].as_array().unwrap().iter().filter(|drive| drive["state"] == "up").count()
}

fn check(instance: &Instance, path: &str, seed: u64) {
    let got = instance.beside("got");
    instance.kist(&["get", "--again", path, got.to_str().unwrap()]).exits(0);
    assert!(fs::read(&got).unwrap() == bytes(SIZE, seed), "{path}");
}

#[test]
fn a_pool_of_network_drives_lives_through_kills_of_drives_and_server() {
    let mut instance = Instance::init_with(&["--drives", "6", "--data", "4", "--parity", "2"]);
    let key = instance.beside("drive.key");
    fs::write(&key, "between the two\n").unwrap();
    let drive = |n: usize| Served::new(instance.beside(&format!("drive{n}")), &key);
    let mut drives: Vec<Served> = (0..DRIVES).map(drive).collect();
    let file = instance.dir().join("kist.toml");
    let mut config = fs::read_to_string(&file).unwrap();
    for (n, drive) in drives.iter().enumerate() {
        let at = format!("path = \"kinetic://{}?key-file={}\"", drive.address, key.display());
        let was = format!("path = \"pool/d{n}\"");
        assert!(config.contains(&was));
        config = config.replace(&was, &at);
    }
    fs::write(&file, config).unwrap();
    instance.start();
    for n in 0..DRIVES {
        instance.kist(&["pool", "drive", "replace", &n.to_string(), "--accept-loss"]).exits(0);
    }
    assert_eq!(drives_up(&instance), DRIVES);
    let local = instance.beside("local");
    let put = |instance: &Instance, seed: u64| {
        write(&local, &bytes(SIZE, seed));
        instance.kist(&["put", local.to_str().unwrap(), &format!("/n/{seed}")])
    };
    put(&instance, 1).exits(0);
    check(&instance, "/n/1", 1);

    // As many as the code bears are gone: what is there can be read, and nothing new is taken.
    drives[0].kill();
    drives[4].kill();
    check(&instance, "/n/1", 1);
    put(&instance, 2).exits(4);
    drives[0].start();
    drives[4].start();
    wait_until("the drives are back", || drives_up(&instance) == DRIVES);
    put(&instance, 2).exits(0);

    // All end at once, in the order in which a power failure ends them: none.
    instance.kill();
    drives.iter_mut().for_each(Served::kill);
    drives.iter_mut().for_each(Served::start);
    instance.start();
    wait_until("all drives are up", || drives_up(&instance) == DRIVES);
    check(&instance, "/n/1", 1);
    check(&instance, "/n/2", 2);

    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait"]).exits(0);
    instance.kist(&["evict", "/n/1"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/n/1"]).exits(0);
    assert!(stat.out.contains("NEARLINE") && !stat.out.contains("ONLINE_AND"), "{}", stat.out);
    instance.kist(&["stage", "--wait", "/n/1"]).exits(0);
    check(&instance, "/n/1", 1);
    instance.kist(&["verify", "/"]).exits(0);
    instance.stop();
}

/// Flips a bit of the value that was written last, as earlier ones may not be in use any more.
fn spoil(directory: &Path, value: &[u8]) -> bool {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.is_file()) {
        let mut found = fs::read(&path).unwrap();
        if let Some(at) = found.windows(value.len()).rposition(|window| window == value) {
            found[at] ^= 1;
            fs::write(&path, found).unwrap();
            return true;
        }
    }
    false
}

#[test]
fn kist_kinetic_puts_gets_lists_pushes_and_finds_damage() {
    let root = tempfile::tempdir().unwrap();
    let key = root.path().join("drive.key");
    fs::write(&key, "between the two").unwrap();
    let (mut one, two) =
        (Served::new(root.path().join("one"), &key), Served::new(root.path().join("two"), &key));
    let ask = |drive: &Served, words: &[&str]| {
        let mut all = vec!["kinetic", "--key-file", key.to_str().unwrap(), words[0], &drive.address];
        all.extend(&words[1..]);
        kist(&all)
    };
    let value = root.path().join("value");
    let held = bytes(5_000, 7);
    write(&value, &held);
    let value = value.to_str().unwrap();
    ask(&one, &["put", "k\\x00\\\\1", value, "--new-version", "v1"]).exits(0);
    ask(&one, &["put", "k\\x00\\\\1", value]).exits(4).says(&["VERSION_MISMATCH", "--if-version"]);
    ask(&one, &["put", "k\\x00\\\\1", value, "--if-version", "v1", "--new-version", "v2"]).exits(0);
    for n in 0..3 {
        ask(&one, &["put", &format!("many{n:03}"), value, "--write-back"]).exits(0);
    }
    let listed = ask(&one, &["ls", "--prefix", "k", "-l", "--json"]).exits(0).json();
    assert_eq!(listed[0]["key"], "k\\x00\\\\1");
    assert_eq!(
        (listed[0]["version"].as_str(), listed[0]["algorithm"].as_str()),
        (Some("v2"), Some("CRC-32C"))
    );
    assert_eq!(ask(&one, &["ls", "--limit", "2"]).exits(0).out.lines().count(), 2);
    let got = root.path().join("got");
    ask(&one, &["get", "k\\x00\\\\1", got.to_str().unwrap()]).exits(0);
    assert!(fs::read(&got).unwrap() == held);
    let (host, port) = two.address.split_once(':').unwrap();
    assert_eq!(
        ask(&one, &["push", "many000", "--to", host, "--to-port", port]).exits(0).out,
        "many000: SUCCESS\n"
    );
    assert!(ask(&two, &["stat", "many000"]).exits(0).out.contains("agrees"));
    ask(&two, &["get", "absent"]).exits(3).says(&["NOT_FOUND"]);
    ask(&two, &["rm", "many000"]).exits(4);
    ask(&two, &["rm", "many000", "--force"]).exits(0);
    assert_eq!(ask(&two, &["ls"]).exits(0).out, "");
    // Who does not know the key gets nothing.
    assert_ne!(kist(&["kinetic", "ls", &two.address]).code, 0);

    for read in [&["scan"][..], &["scan", "--read"]] {
        let out = ask(&one, read).exits(0).out;
        assert!(out.contains("4 keys") && out.contains("0 damaged"), "{out}");
    }
    // The very last record of a log that was not closed cannot be told from one that a crash tore.
    ask(&one, &["put", "last", key.to_str().unwrap()]).exits(0);
    ask(&one, &["flush"]).exits(0);
    one.kill();
    assert!(spoil(&one.directory, &held) || spoil(&one.directory.join("segments"), &held), "it is there");
    one.start();
    for read in [&["scan"][..], &["scan", "--read"]] {
        let out = ask(&one, read).exits(7).out;
        assert!(out.contains("1 damaged"), "{out}");
    }
    let log = ask(&one, &["log", "--json"]).exits(0).json();
    assert!(log["capacity"]["nominal_bytes"].as_u64().unwrap() > 0);
    ask(&one, &["erase", "--pin-file", key.to_str().unwrap()]).exits(2).says(&["--yes"]);
    ask(&one, &["erase", "--pin-file", key.to_str().unwrap(), "--yes"]).exits(2).says(&["TLS"]);
}
