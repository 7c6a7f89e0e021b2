//! A virtual library for other programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use base::{BlockAddress, Partition, TapePosition, Vid};
use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::{Account, Name};
use iscsi::pdu::Lun;
use library::scsi::{ScsiDrive, ScsiDriveOptions};
use library::{
    BlockEncryption, CartridgeReader, DriveName, EncryptionKey, KeyIdentity, ReadBlock, RecordCheck,
    RecordInfo, RecordKind, TapeEncryption, TapeError,
};
use scsi::command::{Changer, Primary, Stream};
use scsi::{Command, Data, ElementAddress, Status, Transport};

use crate::harness::{Instance, command, kist, make_tree};

const PATIENCE: Duration = Duration::from_secs(60);
const TARGET: &str = "iqn.2026-01.org.kist:library";

/// A library that is served; it ends with this value.
struct Served {
    child: Child,
    portal: String,
}

impl Served {
    fn start(directory: &Path, options: &[&str]) -> Served {
        let directory = directory.to_str().unwrap();
        let arguments = ["library", "serve", "--stop-with-stdin", "--listen", "127.0.0.1:0", "--log", "warn"];
        let mut child = command(&[&arguments[..], options, &[directory]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let portal = line.split("iscsi://").nth(1).and_then(|url| url.split('/').next());
        let portal = portal.unwrap_or_else(|| panic!("it said '{line}'")).to_owned();
        Served { child, portal }
    }

    fn unit(&self, lun: u16, account: Option<Account>) -> Initiator {
        let name = |text| Name::new(text).unwrap();
        let initiator = name("iqn.2026-01.org.kist:test");
        let mut config =
            InitiatorConfig::new(&self.portal, initiator, name(TARGET), Lun::of(lun).unwrap()).unwrap();
        config.account = account;
        Initiator::new(config).unwrap()
    }

    fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Sends a command until its unit attentions are told.
fn go(unit: &mut Initiator, command: impl Into<Command>, out: &[u8]) {
    let cdb = command.into().encode().unwrap();
    loop {
        let data = if out.is_empty() { Data::None } else { Data::Out(out) };
        let end = unit.execute(&cdb, data, PATIENCE).unwrap();
        if end.status == Status::Good {
            return;
        }
        let sense = scsi::Sense::decode(&end.sense).unwrap();
        assert_eq!(sense.key, scsi::SenseKey::UnitAttention, "{sense}");
    }
}

fn read(unit: &mut Initiator, length: u32) -> Vec<u8> {
    let command = Command::from(Stream::Read6 { suppress: false, fixed: false, length });
    let mut into = vec![0; length as usize];
    let end = unit.execute(&command.encode().unwrap(), Data::In(&mut into), PATIENCE).unwrap();
    assert_eq!(end.status, Status::Good);
    into
}

fn unload() -> Stream {
    Stream::LoadUnload { immediate: false, hold: false, end_of_tape: false, retension: false, load: false }
}

fn move_medium(from: u16, to: u16) -> Changer {
    let (from, to) = (ElementAddress(from), ElementAddress(to));
    Changer::MoveMedium { transport: ElementAddress(0), from, to, invert: false }
}

/// What was written is there after the program was stopped with the tape in its drive.
#[test]
fn a_library_is_served_and_stopped_with_a_tape_in_a_drive() {
    let directory = tempfile::tempdir().unwrap();
    let tapes = directory.path().join("tapes");
    kist(&["library", "serve", tapes.to_str().unwrap()]).exits(3).says(&["there is no virtual library"]);
    let accounts = directory.path().join("accounts");
    fs::write(&accounts, "backup the secret of backup\n").unwrap();
    let chap = ["--chap-file", accounts.to_str().unwrap()];
    let account = Account::new("backup", "the secret of backup").unwrap();

    let new = ["--new-cartridges", "2", "--cartridge-size", "64MiB"];
    let served = Served::start(&tapes, &[&new[..], &chap].concat());
    kist(&["library", "serve", tapes.to_str().unwrap()]).exits(4).says(&["in use by another program"]);
    let mut stranger = served.unit(0, None);
    let ready = Command::from(Primary::TestUnitReady).encode().unwrap();
    stranger.execute(&ready, Data::None, PATIENCE).unwrap_err();
    go(&mut served.unit(0, Some(account.clone())), move_medium(1024, 256), &[]);
    let mut drive = served.unit(1, Some(account.clone()));
    go(&mut drive, Stream::Write6 { fixed: false, length: 5 }, b"hello");
    served.stop();

    let served = Served::start(&tapes, &chap);
    go(&mut served.unit(0, Some(account.clone())), move_medium(1024, 257), &[]);
    let mut drive = served.unit(2, Some(account));
    go(&mut drive, Primary::TestUnitReady, &[]);
    assert_eq!(read(&mut drive, 5), b"hello");
    served.stop();
}

/// The account of a library that asks for one: the scan needs it, and so does an instance that uses it.
#[test]
fn an_instance_proves_to_its_library_who_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let accounts = file("accounts", "kist the secret of kist\nbackup the secret of backup\n");
    let (secret, wrong) = (file("secret", "the secret of kist\n"), file("wrong", "the secret of backup\n"));
    let new = ["--new-cartridges", "4", "--cartridge-size", "1GB", "--chap-file", &accounts];
    let served = Served::start(&directory.path().join("tapes"), &new);
    let scan = |more: &[&str]| {
        kist(&[&["library", "scan", "--json", "--portal", &served.portal][..], more].concat())
    };
    for stranger in [&[][..], &["--chap-user", "kist", "--chap-secret-file", &wrong]] {
        let scan = scan(stranger).json();
        assert_eq!(scan["changers"].as_array().unwrap().len(), 0, "{scan:#}");
        let failed = scan["failed"][0].as_str().unwrap();
        assert!(failed.contains("login"), "{failed}");
    }
    let found = scan(&["--chap-user", "kist", "--chap-secret-file", &secret]).exits(0).json();
    let changer = &found["changers"][0];
    assert_eq!((&changer["revision"], changer["drives"].as_array().unwrap().len()), (&"0001".into(), 2));

    let mut instance = Instance::init();
    let config = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&config).unwrap();
    let (before, rest) = text.split_once("[library]").unwrap();
    let (_, after) = rest.split_once("[tape]").unwrap();
    let account = |file: &str| format!("chap = {{ user = \"kist\", secret_file = \"{file}\" }}\n");
    let printed = changer["configuration"].as_str().unwrap();
    assert!(printed.contains(&account(&secret)), "{printed}");
    let library = printed.replace(&account(&secret), "");
    let with = |account: &str| {
        let library = format!("{library}cartridge_capacity = \"1GB\"\n{account}");
        fs::write(&config, format!("{before}{library}\n[tape]{after}")).unwrap();
    };
    for stranger in [String::new(), account(&wrong)] {
        with(&stranger);
        instance.start();
        let status = instance.kist(&["status"]).exits(0).out;
        assert!(status.contains("login"), "{status}");
        instance.stop();
    }
    with(&account(&secret));
    instance.start();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();
    instance.kist(&["put", local, "/t"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    let shown = instance.kist(&["drive", "show", "--json", "drive0"]).exits(0).json();
    assert_eq!(shown["element"], 256, "{shown:#}");
    // Also while its first mount lasts.
    let product = &shown["product"];
    let is_told = |what: &str| product[what].as_str().is_some_and(|told| !told.is_empty());
    assert!(is_told("vendor") && is_told("product") && is_told("serial"), "{shown:#}");
    let can = shown["abilities"].as_array().unwrap();
    assert!(can.contains(&"locate".into()) && can.contains(&"cartridge memory".into()), "{shown:#}");
    let shown = instance.kist(&["drive", "show", "drive0"]).exits(0).out;
    assert!(shown.contains("element        256\n") && shown.contains("reservations"), "{shown}");
    instance.kist(&["evict", "/t"]).exits(0);
    instance.kist(&["stage", "--wait", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    instance.stop();
    served.stop();
}

#[test]
fn a_library_has_one_program_that_uses_it() {
    let mut instance = Instance::serving();
    let tapes = instance.dir().join("library");
    let served = ["library", "serve", "--listen", "127.0.0.1:0", tapes.to_str().unwrap()];
    kist(&served).exits(4).says(&["in use by another program"]);
    instance.stop();
    let served = Served::start(&tapes, &[]);
    let directory = instance.dir();
    let directory = directory.to_str().unwrap();
    for command in [&["serve", directory][..], &["rebuild", "--from-tapes", "--move-aside", directory]] {
        kist(command).exits(4).says(&["in use by another program"]);
    }
    served.stop();
    instance.start();
}

fn step<'a>(drive: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let steps = drive["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step '{name}': {drive:#}"))
}

/// Drives are tested on a scratch tape without an instance, and what is on a tape is left as it is.
#[test]
fn a_library_is_tested_on_a_scratch_tape() {
    let directory = tempfile::tempdir().unwrap();
    let tapes = directory.path().join("tapes");
    let served = Served::start(&tapes, &["--new-cartridges", "2", "--cartridge-size", "96MiB"]);
    let report = directory.path().join("report.txt");
    let test = |more: &[&str]| {
        let first = ["library", "test", "--portal", &served.portal, "--instance", "/nowhere", "--quiet"];
        kist(&[&first[..], more].concat())
    };
    let named = ["--tape", "KV0001", "--destroy", "KV0001", "--data", "16MiB"];
    // A tape with a label of another program.
    go(&mut served.unit(0, None), move_medium(1025, 256), &[]);
    let mut unit = served.unit(1, None);
    let label = format!("{:<80}", "VOL1KV0002");
    go(&mut unit, Stream::Write6 { fixed: false, length: 80 }, label.as_bytes());
    go(&mut unit, unload(), &[]);
    go(&mut served.unit(0, None), move_medium(256, 1025), &[]);
    test(&["--tape", "KV0001"]).exits(2).says(&["--destroy"]);
    test(&["--tape", "KV0001", "--destroy", "KV0002"]).exits(2).says(&["name the same cartridge"]);
    test(&["--tape", "KV0009", "--destroy", "KV0009"]).exits(3).says(&["no cartridge KV0009"]);
    test(&[&named[..], &["--drive", "drive7"]].concat()).exits(3).says(&["there are drive0, drive1"]);

    let both = test(&[&named[..], &["--report", report.to_str().unwrap()]].concat()).exits(0);
    for words in ["drive0: pass", "drive1: pass", "not offered", "serial number KISTVTL0D01"] {
        assert!(both.out.contains(words), "'{words}' is not in:\n{}", both.out);
    }
    let kept = fs::read_to_string(&report).unwrap();
    assert_eq!(kept, both.out);
    assert!(kept.contains("Linux") && kept.contains("write 512 KiB"), "{kept}");

    let one = test(&[&named[..], &["--drive", "drive1", "--to-end", "--json"]].concat()).exits(0).json();
    assert_eq!((one["passed"].as_bool(), one["drives"].as_array().unwrap().len()), (Some(true), 1));
    let drive = &one["drives"][0];
    assert_eq!(drive["drive"]["serial"], "KISTVTL0D01");
    for name in ["positions", "locate", "block protection", "reservations", "to the end", "unload"] {
        assert_eq!(step(drive, name)["verdict"], "pass", "{name}: {drive:#}");
    }
    let rates = step(drive, "rates by block size")["figures"].as_array().unwrap();
    assert!(rates.iter().any(|figure| figure["unit"] == "bytes/s"), "{rates:?}");

    let labelled = ["--tape", "KV0002", "--destroy", "KV0002", "--data", "16MiB", "--drive", "drive0"];
    let refused = test(&labelled).exits(1);
    assert!(refused.out.contains("an ANSI label (VOL1) of \"KV0002\""), "{}", refused.out);
    refused.says(&["1 drive did not pass"]);
    let again = test(&labelled).exits(1);
    assert!(again.out.contains("an ANSI label (VOL1) of \"KV0002\""), "it was left as it is: {}", again.out);
    test(&[&labelled[..], &["--overwrite", "KV0002"]].concat()).exits(0);
}

/// What an initiator has the drives of a served library encrypt is not on the cartridge, and comes back with
/// its key alone, from another process of the program too.
#[test]
fn a_served_library_encrypts_with_the_initiators_key() {
    let directory = tempfile::tempdir().unwrap();
    let tapes = directory.path().join("tapes");
    let secret = b"a line that must not be found on the cartridge\n".repeat(2000);
    let identity = KeyIdentity::new(b"vault-2026", b"").unwrap();
    let key = |byte| TapeEncryption::of(EncryptionKey::new([byte; 32]), identity.clone());
    let begin = TapePosition { partition: Partition::Index, block: BlockAddress(0) };
    let open = |served: &Served| {
        go(&mut served.unit(0, None), move_medium(1024, 256), &[]);
        let transport = Box::new(served.unit(1, None));
        let name = DriveName::new("drive0").unwrap();
        let drive = ScsiDrive::open(name, transport, None, ScsiDriveOptions::default()).unwrap();
        drive.load(Vid::new("KV0001").unwrap()).unwrap();
        drive
    };

    let served = Served::start(&tapes, &["--new-cartridges", "1", "--cartridge-size", "64MiB"]);
    let scsi = open(&served);
    let mut drive = scsi.take().unwrap();
    drive.write_block(b"a label in clear").unwrap();
    drive.set_encryption(Some(&key(7))).unwrap();
    drive.write_block(&secret).unwrap();
    drive.write_filemarks(1).unwrap();
    scsi.unload().unwrap().flushed.unwrap();
    served.stop();

    let cartridges: Vec<_> = fs::read_dir(tapes.join("cartridges")).unwrap().collect();
    let cartridge = cartridges[0].as_ref().unwrap().path();
    let stands = |bytes: &[u8]| {
        ["partition-a.rec", "partition-b.rec"].iter().any(|file| {
            fs::read(cartridge.join(file)).unwrap().windows(bytes.len()).any(|window| window == bytes)
        })
    };
    assert!(stands(b"a label in clear") && stands(b"vault-2026"), "what tells the key is in clear");
    assert!(!stands(b"must not be found") && !stands(&[7; 32]), "neither data nor key are");
    let mut kinds = Vec::new();
    let reader = CartridgeReader::open(&cartridge).unwrap();
    let visit = |record: RecordInfo| {
        kinds.push(record.kind);
        record.check == RecordCheck::Good
    };
    reader.visit(visit).unwrap();
    assert_eq!(kinds, [RecordKind::Data, RecordKind::Encrypted, RecordKind::FileMark]);
    drop(reader);

    let served = Served::start(&tapes, &[]);
    let scsi = open(&served);
    let mut drive = scsi.take().unwrap();
    let mut buffer = vec![0; secret.len()];
    drive.locate(begin).unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), ReadBlock::Data(16));
    let found = drive.block_encryption().unwrap();
    assert_eq!(found, BlockEncryption::Encrypted { identity: identity.clone(), is_readable: false });
    assert!(matches!(drive.read_block(&mut buffer), Err(TapeError::KeyMissing { .. })));
    drive.set_encryption(Some(&key(8))).unwrap();
    assert!(matches!(drive.read_block(&mut buffer), Err(TapeError::WrongKey { .. })));
    drive.set_encryption(Some(&key(7))).unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), ReadBlock::Data(secret.len()));
    assert!(buffer == secret);
    scsi.unload().unwrap().flushed.unwrap();
    served.stop();
}
