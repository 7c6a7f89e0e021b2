//! A library behind a medium changer, over iSCSI: the target is the virtual library's, in this process.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteCount, Vid};
use iscsi::login::Name;
use iscsi::target::{Server, TargetConfig};
use library::{DriveName, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use scsi::{Sense, SenseKey};
use vtl::{Fault, Options, Target};

use crate::harness::{Instance, bytes, kist, make_tree, wait_until, write};
use crate::tape_keys::{gather, give, has, use_key};

const TARGET: &str = "iqn.2026-01.org.kist:vtl";

/// A target of four cartridges and two drives. It keeps its address and its cartridges while it is away.
pub struct Library {
    directory: tempfile::TempDir,
    target: Arc<Target>,
    pub address: String,
    /// The address that it tells, if another one leads to it.
    told: Option<String>,
    server: Option<Server>,
}

impl Library {
    pub fn new() -> Library {
        let directory = tempfile::tempdir().unwrap();
        let config = VirtualLibraryConfig {
            drives: ["bay0", "bay1"].map(|name| DriveName::new(name).unwrap()).to_vec(),
            robots: 1,
            cartridges: (1..=4)
                .map(|number| (Vid::new(&format!("KS{number:04}")).unwrap(), ByteCount::gib(1)))
                .collect(),
            options: VirtualCartridgeOptions::default(),
            drop_cache: false,
        };
        let library = Arc::new(VirtualLibrary::create(directory.path(), &config).unwrap());
        let mut options = Options::new(Name::new(TARGET).unwrap());
        options.barcode_suffix = "VT".to_owned();
        let target = Target::new(library, options).unwrap();
        let address = "127.0.0.1:0".to_owned();
        let mut library = Library { directory, target, address, told: None, server: None };
        library.come();
        library
    }

    fn come(&mut self) {
        let listener = TcpListener::bind(&self.address).unwrap();
        let config = TargetConfig { address: self.told.clone(), ..TargetConfig::default() };
        let server = Server::start(listener, self.target.clone(), config).unwrap();
        self.address = server.address().to_string();
        self.server = Some(server);
    }

    /// Where its cartridges stand.
    fn directory(&self) -> PathBuf {
        self.directory.path().join("cartridges")
    }

    fn go_away(&mut self) {
        self.server.take().unwrap().stop();
    }

    /// From now on it tells those who look for it to go there.
    pub fn is_behind(&mut self, address: &str) {
        self.go_away();
        self.told = Some(address.to_owned());
        self.come();
    }
}

/// An instance whose library is what `kist library scan` says of this one.
pub fn instance_on(library: &Library) -> Instance {
    let portal = library.told.as_ref().unwrap_or(&library.address);
    let scan = kist(&["library", "scan", "--portal", portal, "--json"]).exits(0).json();
    let changer = &scan["changers"][0];
    assert_eq!(changer["serial"], "KISTVTL0", "{scan:#}");
    assert_eq!(changer["slots"]["full"], 4, "{scan:#}");
    let vids = |row: &serde_json::Value| row["vid"].as_str().unwrap().to_owned();
    let cartridges: Vec<String> = changer["cartridges"].as_array().unwrap().iter().map(vids).collect();
    assert_eq!(cartridges, ["KS0001", "KS0002", "KS0003", "KS0004"]);
    assert_eq!(changer["cartridges"][0]["suffix"], "VT");
    assert_eq!(changer["drives"].as_array().unwrap().len(), 2);
    assert!(scan["drives"].as_array().unwrap().is_empty(), "each drive has its changer: {scan:#}");

    let instance = Instance::init();
    let file = instance.dir().join("kist.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("[library]").unwrap();
    let (_, after) = rest.split_once("[tape]").unwrap();
    let configuration = changer["configuration"].as_str().unwrap();
    assert!(configuration.contains("# cartridge_capacity"), "VT is no medium that is known: {configuration}");
    let configuration = format!("{configuration}cartridge_capacity = \"1GB\"\n");
    std::fs::write(&file, format!("{before}{configuration}\n[tape]{after}")).unwrap();
    instance
}

#[test]
fn the_whole_way_through_a_changer_and_back() {
    let mut library = Library::new();
    let mut instance = instance_on(&library);
    instance.start();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/t/large"]).exits(0).json();
    let copies = stat["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 2);
    assert_ne!(copies[0]["vid"], copies[1]["vid"]);
    assert!(copies.iter().all(|copy| copy["state"] == "indexed"), "{copies:?}");
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0).says(&["staged"]);
    instance.kist(&["compare", local, "/t"]).exits(0);
    let drives = instance.kist(&["drive", "ls", "--json"]).exits(0).json();
    let names: Vec<&str> =
        drives.as_array().unwrap().iter().map(|drive| drive["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["drive0", "drive1"]);

    // A kill leaves cartridges in drives: the next server has them from there.
    instance.kist(&["release", "1"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kill();
    instance.start();
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);

    // A library that is away stops no server, and is used when it is back.
    instance.stop();
    library.go_away();
    instance.start();
    let status = instance.kist(&["status"]).exits(0).out;
    assert!(status.contains("KISTVTL0 is not found") && status.contains("it is tried again"), "{status}");
    instance.kist(&["put", local, "/u"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    library.come();
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    instance.kist(&["evict", "/u"]).exits(0);
    instance.kist(&["stage", "--wait", "/u"]).exits(0);
    instance.kist(&["compare", local, "/u"]).exits(0);
    instance.stop();
}

/// What the changer says of itself is shown by a scan and told by the server.
#[test]
fn a_library_that_asks_for_attention_is_told() {
    let library = Library::new();
    let mut instance = instance_on(&library);
    library.target.raise_changer_alert(27);
    library.target.heat_changer(44);
    let scan = |more: &[&str]| {
        kist(&[&["library", "scan", "--portal", &library.address][..], more].concat()).exits(0)
    };
    let said = scan(&["--json"]).json();
    let changer = &said["changers"][0];
    let fan = serde_json::json!({ "flag": 27, "name": "cooling fan failure", "meaning": "a fan has failed" });
    assert_eq!(changer["alerts"], serde_json::json!([fan]), "{said:#}");
    assert_eq!((&changer["celsius"], &changer["robot"]["moves"]), (&44.into(), &0.into()), "{said:#}");
    library.target.raise_changer_alert(16);
    let said = scan(&[]).out;
    assert!(said.contains("raised TapeAlert 16, library door:") && said.contains("44 \u{b0}C"), "{said}");

    library.target.raise_changer_alert(16);
    instance.start();
    let status = || instance.kist(&["status"]).exits(0).out;
    wait_until("status tells of the door", || status().contains("has raised TapeAlert 16, library door:"));
    // Raised while the server runs: it is heard of with the next inventory.
    library.target.raise_changer_alert(27);
    instance.kist(&["library", "inventory"]).exits(0);
    wait_until("status tells of the fan", || status().contains("TapeAlert 27, cooling fan failure: a fan"));
    instance.stop();
}

/// Keys of tape pools through SCSI (security protocol 20h): two encrypted copies, read back with their key,
/// and with another one told as such, by both drives.
#[test]
fn tapes_are_encrypted_by_drives_behind_a_changer() {
    const OURS: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
    const ANOTHER: &str = "1f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let library = Library::new();
    let mut instance = instance_on(&library);
    let keys = instance.beside("tape-keys");
    use_key(&instance, "vault-2026", &keys);
    give(&keys, &format!("vault-2026 {OURS}\n"), 0o600);
    instance.start();
    let (local, content) = (instance.beside("plainly-named"), bytes(3_000_000, 7));
    write(&local, &content);
    instance.kist(&["put", local.to_str().unwrap(), "/t/plainly-named"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    let used: Vec<&serde_json::Value> =
        tapes.as_array().unwrap().iter().filter(|tape| tape["uuid"].is_string()).collect();
    assert_eq!(used.len(), 2, "{tapes}");
    assert!(used.iter().all(|tape| tape["key"] == "vault-2026"), "{tapes}");
    let get_back = |instance: &Instance, name: &str| {
        let back = instance.beside(name);
        instance.kist(&["get", "/t/plainly-named", back.to_str().unwrap()]).exits(0);
        assert_eq!(std::fs::read(back).unwrap(), content);
    };
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t/plainly-named"]).exits(0);
    get_back(&instance, "back");
    instance.kist(&["release", "1"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.stop();

    // Of the bytes nothing stands in clear on any cartridge, nor of names and indexes; the key's id does.
    let mut on_tape = Vec::new();
    gather(&library.directory(), &mut on_tape);
    assert!(on_tape.len() > 2 * content.len(), "both copies: {}", on_tape.len());
    assert!(has(&on_tape, b"vault-2026"));
    for clear in [
        &content[..32],
        &content[1_000_000..1_000_032],
        &content[2_999_968..],
        b"plainly-named",
        b"<ltfsindex",
    ] {
        assert!(!has(&on_tape, clear), "{:?} stands in clear", String::from_utf8_lossy(clear));
    }

    // Another key of the same name is another key: both copies wait for theirs, and no tape is suspected.
    give(&keys, &format!("vault-2026 {ANOTHER}\n"), 0o600);
    instance.start();
    instance.kist(&["stage", "/t/plainly-named"]).exits(0);
    let why = || instance.kist(&["why", "/t/plainly-named", "--json"]).exits(0).out;
    wait_until("why tells of the key", || why().contains("key-missing"));
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    let states: Vec<&str> =
        tapes.as_array().unwrap().iter().filter_map(|tape| tape["state"].as_str()).collect();
    assert!(states.iter().all(|state| ["active", "scratch"].contains(state)), "{states:?}");
    give(&keys, &format!("vault-2026 {OURS}\n"), 0o600);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    get_back(&instance, "back again");
    instance.stop();
}

/// An export that waits for a drive lasts over a kill, also where the next server finds the tape in that
/// drive; and it can be called off.
#[test]
fn an_export_that_waits_goes_on_after_a_kill() {
    /// LOAD UNLOAD.
    const UNLOAD: u8 = 0x1b;
    let library = Library::new();
    let mut instance = instance_on(&library);
    let file = instance.dir().join("kist.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("dismount_delay = \"1s\""), "{text}");
    std::fs::write(&file, text.replace("dismount_delay = \"1s\"", "dismount_delay = \"10min\"")).unwrap();
    instance.start();
    let (local, back) = (instance.beside("file"), instance.beside("back"));
    write(&local, &bytes(3_000_000, 7));
    instance.kist(&["put", local.to_str().unwrap(), "/t/file"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t/file"]).exits(0);
    // What a drive has got it does not give back before the kill.
    let faults = library.target.faults();
    for drive in [1, 2] {
        faults.plan_at(drive, UNLOAD, 0, u32::MAX, Fault::NoAnswer);
    }
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    let read = tapes.as_array().unwrap().iter().find(|tape| tape["drive"].is_string());
    let read =
        read.unwrap_or_else(|| panic!("a drive has what was read: {tapes:#}"))["vid"].as_str().unwrap();
    let state_of = |instance: &Instance| {
        let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
        tapes.as_array().unwrap().iter().find(|tape| tape["vid"] == read).unwrap().clone()
    };
    let export = |instance: &Instance| {
        instance.kist(&["tape", "export", read, "--no-wait", "--json"]).exits(0).json()["state"].clone()
    };

    assert_eq!(export(&instance), "waiting");
    instance.kist(&["tape", "set", read, "active"]).exits(0);
    instance.kill();
    instance.start();
    assert_eq!(export(&instance), "waiting", "called off, and asked for again");
    wait_until("its drive is asked to give it back", || faults.fired() > 0);
    instance.kill();
    faults.clear();
    instance.start();
    wait_until("it went out by itself", || state_of(&instance)["away_as"] == "exported");

    // The other tape has the file.
    instance.kist(&["release", "1"]).exits(0);
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t/file"]).exits(0);
    instance.kist(&["get", "/t/file", back.to_str().unwrap()]).exits(0);
    assert_eq!(std::fs::read(back).unwrap(), bytes(3_000_000, 7));
    instance.stop();
}

#[test]
fn a_scan_that_finds_nothing_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = listener.local_addr().unwrap().to_string();
    drop(listener);
    let ran = kist(&["library", "scan", "--portal", &portal]);
    assert!(ran.out.contains("Not reached: portal"), "{}", ran.out);
    assert!(ran.out.contains("nothing listens at this port: start the target"), "{}", ran.out);
    kist(&["library", "scan", "--portal", "a b"]).exits(2).says(&["'a b' is no device"]);
    kist(&["library", "scan", "--chap-user", "x"]).exits(2);
}

/// The library of an instance is tested while its server is stopped, on a tape that is nobody's. A fault is
/// found by the step that looks at it.
#[test]
fn the_library_of_an_instance_is_tested_on_what_is_scratch() {
    let library = Library::new();
    let mut instance = instance_on(&library);
    let test = |instance: &Instance, vid: &str| {
        let named = ["--tape", vid, "--destroy", vid, "--data", "16MiB", "--drive", "drive0", "--json"];
        let directory = instance.dir().to_str().unwrap().to_owned();
        kist(&[&["library", "test", "--quiet", "--instance", &directory][..], &named].concat())
    };
    instance.start();
    test(&instance, "KS0004").exits(4).says(&["an instance has one server"]);
    let tree = instance.beside("tree");
    make_tree(&tree);
    instance.kist(&["put", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    let tapes = instance.kist(&["tape", "ls", "--json"]).exits(0).json();
    let tapes = tapes.as_array().unwrap();
    let of = |state: &str| {
        let found = tapes.iter().find(|tape| tape["state"] == state);
        found.unwrap_or_else(|| panic!("no {state} tape: {tapes:#?}"))["vid"].as_str().unwrap().to_owned()
    };
    instance.stop();
    test(&instance, &of("active")).exits(4).says(&["belongs to the archive", "'active'"]);
    let report = test(&instance, &of("scratch")).exits(0).json();
    assert_eq!(report["passed"], true, "{report:#}");

    let faults = library.target.faults();
    let sense = Sense::new(SenseKey::HardwareError, 0x15, 0x01);
    faults.plan_at(1, 0x04, 0, 1, Fault::Sense(sense));
    let report = test(&instance, &of("scratch")).exits(1).json();
    assert_eq!(faults.fired(), 1);
    let steps = report["drives"][0]["steps"].as_array().unwrap();
    let failed: Vec<_> = steps.iter().filter(|step| step["verdict"] == "fail").collect();
    let [failed] = failed[..] else { panic!("{report:#}") };
    assert_eq!(failed["name"], "format");
    let (key, meaning) = ("hardware error", "mechanical positioning error");
    assert_eq!(failed["sense"], serde_json::json!({ "code": "4/15/01", "key": key, "meaning": meaning }));
    assert!(failed["why"].as_str().unwrap().contains("format"), "{failed:#}");

    // The archive goes on with all its tapes.
    instance.start();
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.stop();
}
