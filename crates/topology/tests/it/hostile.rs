//! Trees that no machine has: whatever they hold, the reading ends, and says what it could not read.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use topology::bottleneck::{Rates, bottlenecks, kisti_table};
use topology::counters::Since;
use topology::health::Health;
use topology::layout::Layout;
use topology::{Machine, Record, Tree, Unread};

use crate::record;

/// Everything that is asked of a machine.
fn ask(machine: &Machine) {
    let found = bottlenecks(machine, Rates::default());
    assert!(found.carried.is_finite() && found.carried <= found.needs + 0.1, "{found:?}");
    let since = Since::of(machine, machine);
    assert!(since.disks.is_empty() && since.gone.is_empty() && since.new.is_empty());
    let health = Health::of(machine, Some(&since));
    assert_eq!(health.disks.len(), machine.disks.len());
    for one in &health.disks {
        let _ = one.reasons.iter().map(ToString::to_string).collect::<Vec<_>>();
    }
    let _ = health.findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    for enclosure in &machine.enclosures {
        let layout = Layout::of(enclosure);
        let places: usize = layout.panels.iter().flat_map(|panel| &panel.rows).map(Vec::len).sum();
        assert_eq!(places, enclosure.slots.len(), "every slot is in the picture once");
    }
    for disk in &machine.disks {
        if let Some((_, slot)) = machine.slot_of(disk) {
            assert!(slot.disk.is_some());
        }
    }
    let _ = kisti_table();
}

/// Every directory has the same names, every file is noise, every third name is a link, half of them loops.
struct Noise {
    asked: Cell<usize>,
    bytes: Vec<u8>,
    names: Vec<String>,
}

impl Noise {
    fn new(bytes: &[u8]) -> Noise {
        let names = [
            "host0",
            "port-0:0",
            "expander-0:0",
            "phy-0:0",
            "0:0:0:0",
            "end_device-0:0",
            "block",
            "sda",
            "dm-0",
            "nvme0",
            "nvme0n1",
            "enclosure_device:x",
            "hwmon0",
            "0000:00:00.0",
            "node0",
            "loop",
            "..%",
            "\u{202e}x",
        ];
        Noise { asked: Cell::new(0), bytes: bytes.to_vec(), names: names.map(str::to_owned).to_vec() }
    }
}

impl Tree for Noise {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        self.asked.set(self.asked.get() + 1);
        if path.ends_with("type") { Ok(b"0\n".to_vec()) } else { Ok(self.bytes.clone()) }
    }

    fn list(&self, _: &str) -> Result<Vec<String>, Unread> {
        self.asked.set(self.asked.get() + 1);
        Ok(self.names.clone())
    }

    fn link(&self, path: &str) -> Result<Option<String>, Unread> {
        self.asked.set(self.asked.get() + 1);
        match path.len() % 6 {
            0 => Ok(Some(path.to_owned())),
            3 if path.len() < 200 => {
                Ok(Some("/sys/devices/pci0000:00/0000:00:00.0/host0/port-0:0".to_owned()))
            }
            _ => Ok(None),
        }
    }
}

#[test]
fn noise_is_read_to_its_end() {
    let binary: Vec<u8> = (0..=255).cycle().take(4_096).collect();
    let huge = vec![b'9'; topology::READ_MAX + 1];
    for bytes in [&binary[..], &huge, b"", b"0x", b"-1\n", b"18446744073709551615\n", b"\xff\xfe"] {
        let noise = Noise::new(bytes);
        let machine = Machine::read(&noise);
        assert!(!machine.problems.is_empty(), "{} bytes", bytes.len());
        assert!(noise.asked.get() < 100_000, "{} questions", noise.asked.get());
        ask(&machine);
    }
}

/// A tree in which each directory of `/sys` leads to itself, or nothing is there at all.
#[test]
fn loops_and_nothing() {
    let loops = "kist-machine 1\n/sys\nclass > class\nblock > ../sys/block\ndevices > /sys/class\nend 3\n";
    let machine = Machine::read(&Record::parse(loops.as_bytes()).unwrap());
    assert!(machine.disks.is_empty());
    assert!(machine.problems.iter().any(|problem| problem.why == Unread::Loop), "{:?}", machine.problems);
    ask(&machine);
    let nothing = Machine::read(&Record::parse(b"kist-machine 1\nend 0\n").unwrap());
    assert_eq!((nothing.disks.len(), nothing.problems.len()), (0, 0));
    ask(&nothing);
}

/// Disks whose bridge gives all of them one name are as many disks as there are serial numbers.
#[test]
fn one_name_for_two_serial_numbers_is_no_name() {
    let text = include_str!("../../../../tests/machines/half-cable.machine");
    let other = text
        .replace("naa.5000c500a101f503", "naa.5000c500a101f403")
        .replace("5000c500a101f503", "5000c500a101f403");
    assert_ne!(text, other);
    let machine = Machine::read(&Record::parse(other.as_bytes()).unwrap());
    assert_eq!(machine.disks.len(), 12, "none is lost");
    assert!(machine.disks.iter().all(|disk| disk.paths.len() == 1));
    assert!(machine.problems.iter().any(|problem| problem.path.ends_with("wwid")), "{:?}", machine.problems);
}

/// Answers of another device, cut off or empty.
#[test]
fn answers_that_have_no_meaning_are_told() {
    let mut record = record("half-cable");
    for (file, bytes) in [
        ("/answers/scsi/0:0:0:0/log-0d", vec![0x0d, 0, 0xff, 0xff]),
        ("/answers/scsi/0:0:1:0/log-18", vec![0x18, 0, 0, 8, 0, 1, 3, 4, 6, 0, 0, 9]),
        ("/answers/scsi/0:0:10:0/ata-smart", vec![0; 511]),
        ("/answers/scsi/0:0:12:0/ses-02", vec![2, 0, 0, 4, 0, 0, 0, 1]),
    ] {
        record.put(file, bytes);
        let machine = Machine::read(&record);
        assert!(
            machine.problems.iter().any(|problem| problem.path == file),
            "{file}: {:?}",
            machine.problems
        );
        ask(&machine);
    }
    // The kernel still knows the slots.
    let machine = Machine::read(&record);
    assert!(machine.disks.iter().all(|disk| disk.place.is_some()));
    assert_eq!(
        machine.enclosures[0].services[0].pages.as_ref().unwrap_err().as_str(),
        "its status page does not go \
        with its configuration"
    );
}

/// An enclosure that does not answer: the kernel's files, each of which would wait for it, are left alone;
/// the disks still stand in their slots.
#[test]
fn an_enclosure_that_is_silent_is_not_asked_through_the_kernel() {
    struct Counting(Record, Cell<usize>);
    impl Tree for Counting {
        fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
            let is_asked = path.contains("/enclosure/")
                && ["status", "locate", "fault", "power_status"].iter().any(|file| path.ends_with(file));
            self.1.set(self.1.get() + usize::from(is_asked));
            if path.contains("/answers/scsi/0:0:12:0/ses-") {
                Err(Unread::Missing)
            } else {
                self.0.read(path)
            }
        }

        fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
            self.0.list(path)
        }

        fn link(&self, path: &str) -> Result<Option<String>, Unread> {
            self.0.link(path)
        }
    }
    let unasked = Counting(record("half-cable"), Cell::new(0));
    assert_eq!(Machine::read(&unasked).enclosures[0].slots.len(), 12);
    assert_eq!(unasked.1.get(), 4 * 12, "nobody has asked: the kernel knows it");
    let mut silent = record("half-cable");
    silent.put_text("/answers/scsi/0:0:12:0/silent", "no answer came in 10 s");
    let silent = Counting(silent, Cell::new(0));
    let machine = Machine::read(&silent);
    assert_eq!(silent.1.get(), 0);
    assert!(machine.disks.iter().all(|disk| disk.place.is_some()));
    assert_eq!(machine.enclosures[0].services[0].pages, Err("no answer came in 10 s".to_owned()));
}

fn text(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/machines/{name}.machine")))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// A record with some bytes changed is refused, or read.
    #[test]
    fn a_damaged_record_is_refused_or_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        which in 0..3,
    ) {
        let mut bytes = text(["half-cable", "mpi3mr-24g", "nvme-switch"][which as usize]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            // Mostly what keeps the form: a digit for a digit.
            bytes[at] = if bytes[at].is_ascii_digit() { b'0' + byte % 10 } else { bytes[at] };
            if byte == 0 {
                bytes[at] = byte;
            }
        }
        if let Ok(record) = Record::parse(&bytes) {
            ask(&Machine::read(&record));
        }
    }
}
