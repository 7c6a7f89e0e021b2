//! Units in memory: a disk of 512-byte blocks, which also keeps one record of any length, as a tape would.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::pdu::Lun;
use iscsi::target::{LogicalUnits, Nexus, NexusId, Server, TargetConfig};
use scsi::{Cdb, Completion, Data, Status, Transport};

pub const TARGET: &str = "iqn.2026-01.org.kist:ram";
pub const BLOCK: usize = 512;
pub const BLOCKS: usize = 16 * 1024;

/// A vendor's command at which the unit panics.
pub const PANIC: u8 = 0xc1;
/// A vendor's command that does not end before the test says so, or it is aborted.
pub const HOLD: u8 = 0xc0;
pub const WRITE_RECORD: u8 = 0x0a;
pub const READ_RECORD: u8 = 0x08;

#[derive(Default)]
pub struct Ram {
    blocks: Mutex<Vec<u8>>,
    record: Mutex<Vec<u8>>,
    held: (Mutex<Held>, Condvar),
    events: Mutex<Vec<String>>,
    attentions: Mutex<BTreeSet<NexusId>>,
    /// Sessions begin with a unit attention.
    attends: bool,
    /// Held commands do not end when they are aborted.
    is_stubborn: bool,
}

#[derive(Default)]
struct Held {
    running: usize,
    is_released: bool,
    is_aborted: bool,
}

impl Ram {
    /// With a unit attention at the beginning of each session.
    pub fn attending() -> Ram {
        Ram { attends: true, ..Ram::default() }
    }

    /// One whose held commands do not end when they are aborted.
    pub fn stubborn() -> Ram {
        Ram { is_stubborn: true, ..Ram::default() }
    }

    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    fn event(&self, what: String) {
        self.events.lock().unwrap().push(what);
    }

    /// Waits until a held command runs.
    pub fn wait_for_held(&self) {
        let (lock, bell) = &self.held;
        drop(bell.wait_while(lock.lock().unwrap(), |held| held.running == 0).unwrap());
    }

    /// Lets held commands end, those of the future too.
    pub fn release(&self) {
        self.held.0.lock().unwrap().is_released = true;
        self.held.1.notify_all();
    }

    fn hold(&self) {
        let (lock, bell) = &self.held;
        let mut held = lock.lock().unwrap();
        held.running += 1;
        bell.notify_all();
        let mut held = bell
            .wait_while(held, |held| !held.is_released && (self.is_stubborn || !held.is_aborted))
            .unwrap();
        held.running -= 1;
        held.is_aborted = false;
    }

    fn attention(&self, nexus: &Nexus, cdb: &Cdb) -> bool {
        !matches!(cdb.operation_code(), 0x12 | 0xa0) && self.attentions.lock().unwrap().remove(&nexus.id)
    }
}

pub fn check(key: u8, code: u8, qualifier: u8) -> Completion {
    let mut sense = vec![0; 18];
    (sense[0], sense[2], sense[7], sense[12], sense[13]) = (0x70, key, 10, code, qualifier);
    Completion { status: Status::CheckCondition, sense, transferred: 0 }
}

pub fn good(transferred: usize) -> Completion {
    Completion { status: Status::Good, sense: Vec::new(), transferred }
}

fn give(data: &[u8], allocation: usize, into: &mut [u8]) -> Completion {
    let given = data.len().min(allocation).min(into.len());
    into[..given].copy_from_slice(&data[..given]);
    good(given)
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

impl LogicalUnits for Ram {
    fn targets(&self) -> Vec<Name> {
        vec![Name::new(TARGET).unwrap()]
    }

    fn luns(&self, _target: &Name) -> Vec<Lun> {
        vec![Lun::of(0).unwrap(), Lun::of(300).unwrap()]
    }

    fn begun(&self, nexus: &Nexus) {
        self.event(format!("begun {}", nexus.initiator));
        if self.attends {
            self.attentions.lock().unwrap().insert(nexus.id);
        }
    }

    fn ended(&self, nexus: &Nexus) {
        self.event(format!("ended {}", nexus.initiator));
    }

    fn abort(&self, _nexus: &Nexus, lun: Lun) {
        self.event(format!("abort {lun}"));
        self.held.0.lock().unwrap().is_aborted = true;
        self.held.1.notify_all();
    }

    fn reset(&self, _nexus: &Nexus, lun: Lun) {
        self.event(format!("reset {lun}"));
    }

    fn execute(&self, nexus: &Nexus, _lun: Lun, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        if self.attention(nexus, cdb) {
            return check(6, 0x29, 0);
        }
        let bytes = cdb.bytes();
        match cdb.operation_code() {
            0x00 => good(0),
            0x03 => give(&check(0, 0, 0).sense, usize::from(bytes[4]), into),
            0x12 => inquiry(bytes, into),
            0x1a => give(&[3, 0, 0, 0], usize::from(bytes[4]), into),
            0x25 => {
                let last = ((BLOCKS - 1) as u32).to_be_bytes();
                give(&[last, (BLOCK as u32).to_be_bytes()].concat(), 8, into)
            }
            0x9e if bytes[1] & 0x1f == 0x10 => {
                let mut data = ((BLOCKS - 1) as u64).to_be_bytes().to_vec();
                data.extend((BLOCK as u32).to_be_bytes());
                data.resize(32, 0);
                give(&data, number(&bytes[10..14]), into)
            }
            0x28 => self.read(number(&bytes[2..6]), number(&bytes[7..9]), into),
            0x88 => self.read(number(&bytes[2..10]), number(&bytes[10..14]), into),
            0x2a => self.write(number(&bytes[2..6]), number(&bytes[7..9]), out),
            0x8a => self.write(number(&bytes[2..10]), number(&bytes[10..14]), out),
            WRITE_RECORD => {
                let mut record = self.record.lock().unwrap();
                record.clear();
                record.extend(out);
                good(out.len())
            }
            READ_RECORD => {
                let record = self.record.lock().unwrap();
                let completion = give(&record, into.len(), into);
                // As a tape has it: a record of another length is told of.
                match record.len() == into.len() || bytes[1] & 2 == 2 {
                    true => completion,
                    false => Completion { transferred: completion.transferred, ..check(0x20, 0, 0) },
                }
            }
            PANIC => panic!("as the test asks"),
            HOLD => {
                self.hold();
                into.fill(b'h');
                good(into.len())
            }
            _ => check(5, 0x20, 0),
        }
    }
}

impl Ram {
    fn range(first: usize, count: usize) -> Option<std::ops::Range<usize>> {
        let end = first.checked_add(count).filter(|end| *end <= BLOCKS)?;
        Some(first * BLOCK..end * BLOCK)
    }

    fn read(&self, first: usize, count: usize, into: &mut [u8]) -> Completion {
        let Some(range) = Ram::range(first, count) else { return check(5, 0x21, 0) };
        let mut blocks = self.blocks.lock().unwrap();
        blocks.resize(BLOCK * BLOCKS, 0);
        Completion { transferred: count * BLOCK, ..give(&blocks[range], count * BLOCK, into) }
    }

    fn write(&self, first: usize, count: usize, out: &[u8]) -> Completion {
        let Some(range) = Ram::range(first, count) else { return check(5, 0x21, 0) };
        let mut blocks = self.blocks.lock().unwrap();
        blocks.resize(BLOCK * BLOCKS, 0);
        let taken = out.len().min(range.len());
        blocks[range.start..range.start + taken].copy_from_slice(&out[..taken]);
        good(range.len())
    }
}

fn inquiry(cdb: &[u8], into: &mut [u8]) -> Completion {
    let allocation = number(&cdb[3..5]);
    match (cdb[1] & 1, cdb[2]) {
        (0, 0) => {
            let mut data = vec![0, 0, 6, 2, 31, 0, 0, 2];
            data.extend(b"KIST    RAM DISK        0001");
            give(&data, allocation, into)
        }
        (1, 0x00) => give(&[0, 0, 0, 3, 0x00, 0x80, 0x83], allocation, into),
        (1, 0x80) => give(b"\x00\x80\x00\x08KIST0001", allocation, into),
        (1, 0x83) => give(b"\x00\x83\x00\x10\x02\x01\x00\x0cKIST    0001", allocation, into),
        _ => check(5, 0x24, 0),
    }
}

/// Serves units on a port of its own.
pub fn serve(ram: Ram, change: impl FnOnce(&mut TargetConfig)) -> (Arc<Ram>, Server) {
    let ram = Arc::new(ram);
    let mut config = TargetConfig::default();
    change(&mut config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start(listener, ram.clone(), config).unwrap();
    (ram, server)
}

/// The settings of an initiator for it, with limits that suit tests.
pub fn settings(portal: &str, target: &str, lun: u16) -> InitiatorConfig {
    let initiator = Name::new("iqn.2026-01.org.kist:test").unwrap();
    let target = Name::new(target).unwrap();
    let mut config = InitiatorConfig::new(portal, initiator, target, Lun::of(lun).unwrap()).unwrap();
    config.limits.login = Duration::from_secs(5);
    config.limits.abort = Duration::from_secs(5);
    config
}

pub fn initiator(server: &Server, change: impl FnOnce(&mut InitiatorConfig)) -> Initiator {
    let mut config = settings(&server.address().to_string(), TARGET, 0);
    change(&mut config);
    Initiator::new(config).unwrap()
}

/// Long enough for a loaded machine; no test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn cdb(bytes: &[u8]) -> Cdb {
    Cdb::new(bytes).unwrap()
}

/// TEST UNIT READY.
pub fn ready() -> Cdb {
    cdb(&[0; 6])
}

/// The vendor's command that is held.
pub fn hold() -> Cdb {
    let mut bytes = [0; 16];
    bytes[0] = HOLD;
    cdb(&bytes)
}

/// READ(6) or WRITE(6) of a record; with `silent` a record of another length is no fault.
pub fn record(code: u8, length: usize, silent: bool) -> Cdb {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    cdb(&[code, u8::from(silent) * 2, high, middle, low, 0])
}

/// Bytes that differ at each place and for each seed.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// Writes a record and reads it back in three ways: exactly, with too long and with too short a buffer.
pub fn round_trip(initiator: &mut Initiator, length: usize, seed: u64) {
    let bytes = pattern(length, seed);
    let what = format!("{length} bytes");
    let write = record(WRITE_RECORD, length, false);
    let data = if length == 0 { Data::None } else { Data::Out(&bytes) };
    assert_eq!(initiator.execute(&write, data, PATIENCE).unwrap(), good(length), "{what}");
    for (room, transferred) in [(length, length), (length + 100, length), (length / 2, length / 2)] {
        let mut into = vec![0xee; room];
        let data = if room == 0 { Data::None } else { Data::In(&mut into) };
        let read = initiator.execute(&record(READ_RECORD, room, true), data, PATIENCE).unwrap();
        assert_eq!(read, good(transferred), "{what} into {room}");
        assert!(into[..transferred] == bytes[..transferred], "{what} into {room}: other bytes");
        assert!(into[transferred..].iter().all(|byte| *byte == 0xee), "{what} into {room}: too many bytes");
    }
}

/// Memory of a read is given back when its answer has left, which may be seen a moment later.
pub fn comes_to_nothing(server: &Server) {
    let begun = std::time::Instant::now();
    while server.memory() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} bytes are left", server.memory());
        std::thread::yield_now();
    }
}
