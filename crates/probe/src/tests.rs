//! A device that answers as a recorded machine has it, and takes requests for its lights.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use scsi::{Cdb, Completion, TransportError};
use topology::{Machine, Reader, Record};

use super::*;
use crate::ask::{log_pages, smart_data};

struct Answering {
    /// Answers by operation code and page (of SMART: feature).
    answers: BTreeMap<(u8, u8), Vec<u8>>,
    /// The unit attention that comes first.
    attention: bool,
    /// Lights do not follow.
    is_deaf: bool,
    /// Commands with their operation codes and lengths.
    sent: Vec<(u8, usize)>,
}

impl Answering {
    fn of(record: &Record, device: &str) -> Answering {
        let reader = Reader::new(record);
        let mut answers = BTreeMap::new();
        for name in reader.names(&format!("/answers/scsi/{device}")) {
            let bytes = reader.bytes(&format!("/answers/scsi/{device}/{name}")).unwrap();
            let key = match name.split_once('-').unwrap() {
                ("ses", page) => (0x1c, u8::from_str_radix(page, 16).unwrap()),
                ("log", page) => (0x4d, u8::from_str_radix(page, 16).unwrap()),
                (_, "smart") => (0x85, 0xd0),
                (_, _) => (0x85, 0xd1),
            };
            answers.insert(key, bytes);
        }
        Answering { answers, attention: true, is_deaf: false, sent: Vec::new() }
    }
}

fn ended(status: Status, sense: Vec<u8>, transferred: usize) -> Result<Completion, TransportError> {
    Ok(Completion { status, sense, transferred })
}

impl Transport for Answering {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, _: Duration) -> Result<Completion, TransportError> {
        let bytes = cdb.bytes();
        let sense = |key, code| scsi::Sense::new(key, code, 0).encode();
        if std::mem::take(&mut self.attention) {
            return ended(Status::CheckCondition, sense(scsi::SenseKey::UnitAttention, 0x29), 0);
        }
        match data {
            Data::Out(page) => {
                self.sent.push((bytes[0], page.len()));
                assert_eq!(
                    (bytes[0], bytes[1], usize::from(bytes[3]) << 8 | usize::from(bytes[4])),
                    (0x1d, 0x10, page.len())
                );
                let own = self.answers.get_mut(&(0x1c, 2)).unwrap();
                assert_eq!(own.len(), page.len());
                for (status, control) in own[8..].chunks_mut(4).zip(page[8..].chunks(4)) {
                    if control[0] & 0x80 != 0 && !self.is_deaf {
                        status[2] = status[2] & !2 | control[2] & 2;
                    }
                }
                ended(Status::Good, vec![], 0)
            }
            Data::In(buffer) => {
                self.sent.push((bytes[0], buffer.len()));
                let key = match bytes[0] {
                    0x1c => (0x1c, bytes[2]),
                    0x4d => (0x4d, bytes[2] & 0x3f),
                    other => (other, bytes[4]),
                };
                // Page 00h is not in the record: the device refuses it, and others are tried all the same.
                let Some(answer) = self.answers.get(&key) else {
                    return ended(Status::CheckCondition, sense(scsi::SenseKey::IllegalRequest, 0x24), 0);
                };
                let length = answer.len().min(buffer.len());
                buffer[..length].copy_from_slice(&answer[..length]);
                ended(Status::Good, vec![], length)
            }
            Data::None | Data::InParts(_) | Data::OutParts(_) => panic!("no such command is sent"),
        }
    }

    fn transfer_max(&self) -> usize {
        512 * 1024
    }

    fn address(&self) -> &'static str {
        "a recorded device"
    }
}

fn record(name: &str) -> Record {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").join(name);
    Record::parse(&fs::read(file).unwrap()).unwrap()
}

/// What was asked of devices is what they have, byte for byte: the length comes from the header.
#[test]
fn what_devices_have_is_what_is_kept() {
    let record = record("half-cable.machine");
    let mut disk = Answering::of(&record, "0:0:0:0");
    let pages = log_pages(&mut disk).unwrap();
    assert_eq!(pages.len(), 9);
    for (code, bytes) in &pages {
        assert_eq!(Some(bytes), disk.answers.get(&(0x4d, *code)), "page {code:02X}h");
    }
    let mut sata = Answering::of(&record, "0:0:10:0");
    assert!(log_pages(&mut sata).is_err());
    let (data, thresholds) = smart_data(&mut sata);
    assert_eq!(
        (data.as_ref(), thresholds.as_ref()),
        (sata.answers.get(&(0x85, 0xd0)), sata.answers.get(&(0x85, 0xd1)))
    );
    let mut enclosure = Answering::of(&record, "0:0:12:0");
    let pages = enclosure_pages(&mut enclosure).unwrap();
    assert_eq!(pages.iter().map(|(code, _)| *code).collect::<Vec<_>>(), page::ALL);
    for (code, bytes) in &pages {
        assert_eq!(Some(bytes), enclosure.answers.get(&(0x1c, *code)), "page {code:02X}h");
    }
}

#[test]
fn a_light_goes_on_and_off_and_one_that_does_not_is_told() {
    let record = record("half-cable.machine");
    let machine = Machine::read(&record);
    let place = machine.find_slots("0/5")[0];
    assert_eq!(machine.find_slots("sdf"), [place], "the disk that stands there");
    assert_eq!(machine.find_slots("500304801f2a3b00/Slot05"), [place]);
    let slot = &machine.enclosures[0].slots[place.slot];
    let at = &slot.at[0];
    assert_eq!(at.element, Some((0, 5)));
    assert_eq!(at.directory.as_deref(), Some("/sys/class/enclosure/0:0:12:0/Slot05"));
    let mut device = Answering::of(&record, "0:0:12:0");
    let light = |device: &Answering, slot: usize| device.answers[&(0x1c, 2)][8 + 4 * (slot + 1) + 2] & 2 != 0;
    assert_eq!(through(&mut device, slot, at, true), Ok(Switched::Page));
    assert!(light(&device, 5) && !light(&device, 4) && !light(&device, 6));
    assert_eq!(through(&mut device, slot, at, false), Ok(Switched::Page));
    assert!(!light(&device, 5));
    assert_eq!(device.sent.iter().filter(|(code, _)| *code == 0x1d).count(), 2);
    device.is_deaf = true;
    assert_eq!(through(&mut device, slot, at, true), Err(None));
}
