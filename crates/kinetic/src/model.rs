//! A drive in memory, for tests and for the simulator: what a store does, as simply as it can be said.
//!
//! It tells what was made durable from what was only written back, so that a crash can be tried.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::access::KeyFilter;
use crate::code::{LogType, PowerLevel, StatusCode, Synchronization};
use crate::entry::{Change, Metadata, TagCheck, check_batch, check_tag};
use crate::log::{Capacity, Log, Temperature, Utilization};
use crate::push::{Peer, Push};
use crate::request::{KeyRange, Which};
use crate::response::Entry;
use crate::server::{DeviceState, Operation, Outcome};
use crate::status::Status;
use crate::{Put, Synchronization::WriteThrough};

/// The other drives that a push reaches, by host and port.
pub type Peers = BTreeMap<(String, u16), Drive>;

type Entries = BTreeMap<Bytes, (Metadata, Bytes)>;

/// A drive in memory.
#[derive(Clone, Debug)]
pub struct Drive {
    entries: Entries,
    durable: Entries,
    state: DeviceState,
    /// Bytes of values that fit.
    pub capacity_bytes: u64,
    /// The power level it was set to.
    pub power: PowerLevel,
    /// The programs it was given.
    pub firmware: Vec<Bytes>,
    /// Logs of its maker, by name.
    pub logs: BTreeMap<Bytes, Bytes>,
}

impl Default for Drive {
    fn default() -> Self {
        Drive {
            entries: Entries::new(),
            durable: Entries::new(),
            state: DeviceState::factory(),
            capacity_bytes: 1 << 30,
            power: PowerLevel::Operational,
            firmware: Vec::new(),
            logs: BTreeMap::new(),
        }
    }
}

impl Drive {
    /// The state that it keeps.
    #[must_use]
    pub fn state(&self) -> &DeviceState {
        &self.state
    }

    /// What stands at a key.
    #[must_use]
    pub fn stands(&self, key: &[u8]) -> Option<&(Metadata, Bytes)> {
        self.entries.get(key)
    }

    /// How many entries it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Its keys, in their order.
    #[must_use]
    pub fn keys(&self) -> Vec<Bytes> {
        self.entries.keys().cloned().collect()
    }

    /// Spoils the value at a key, as a bad sector would.
    pub fn spoil(&mut self, key: &[u8]) {
        if let Some((_, value)) = self.entries.get_mut(key) {
            *value = value.iter().map(|byte| !byte).collect();
        }
    }

    /// The power fails: of what was only written back, only these keys were written by luck.
    pub fn crash(&mut self, is_written: impl Fn(&[u8]) -> bool) {
        let keys: Vec<Bytes> = self.entries.keys().chain(self.durable.keys()).cloned().collect();
        for key in keys.into_iter().filter(|key| is_written(key)) {
            match self.entries.get(&key) {
                Some(entry) => self.durable.insert(key, entry.clone()),
                None => self.durable.remove(&key),
            };
        }
        self.entries = self.durable.clone();
        self.power = PowerLevel::Operational;
    }

    /// Does what a connection hands out.
    pub fn execute(&mut self, operation: Operation, peers: &mut Peers) -> Outcome {
        match operation {
            Operation::Get { which, key, metadata_only, filter } => {
                self.get(which, &key, metadata_only, &filter)
            }
            Operation::GetPart { key, offset, length } => self.part(&key, offset, length),
            Operation::GetVersion { key } => match self.entries.get(&key) {
                Some((metadata, _)) => Outcome::Version(metadata.version.clone()),
                None => not_found(),
            },
            Operation::Change(change) => self.change(change),
            Operation::Batch(changes) => self.batch(changes),
            Operation::KeyRange { range, filter } => {
                let all = self.entries.keys().filter(|key| range.has(key) && filter.sees(key));
                Outcome::Keys(take(all, &range))
            }
            Operation::MediaScan { range, filter } => {
                let damaged = self.entries.iter().filter(|(key, (metadata, value))| {
                    range.has(key) && filter.sees(key) && check_tag(metadata, value) == TagCheck::Differs
                });
                Outcome::Scanned { damaged: take(damaged.map(|(key, _)| key), &range), last: None }
            }
            Operation::MediaOptimize { .. } => Outcome::Done,
            Operation::Flush => {
                self.durable = self.entries.clone();
                Outcome::Done
            }
            Operation::Log(types) => Outcome::Log(Box::new(self.log(&types))),
            Operation::DeviceLog(name) => {
                self.logs.get(&name).cloned().map_or_else(not_found, Outcome::DeviceLog)
            }
            Operation::Push(push) => Outcome::Push(self.push(push, peers)),
            Operation::Firmware(program) => {
                self.firmware.push(program);
                Outcome::Done
            }
            Operation::Save(state) => {
                self.state = state;
                Outcome::Done
            }
            Operation::Erase { state, .. } => {
                self.entries.clear();
                self.durable.clear();
                self.state = state;
                Outcome::Done
            }
            Operation::Power(level) => {
                self.power = level;
                Outcome::Done
            }
        }
    }

    fn get(&self, which: Which, key: &Bytes, metadata_only: bool, filter: &KeyFilter) -> Outcome {
        let seen = |(one, _): &(&Bytes, _)| filter.sees(one);
        let above = (Bound::Excluded(key.clone()), Bound::Unbounded);
        let found = match which {
            Which::Exact => self.entries.get_key_value(key),
            Which::Next => self.entries.range::<Bytes, _>(above).find(seen),
            Which::Previous => self.entries.range::<Bytes, _>(..key.clone()).rev().find(seen),
        };
        let Some((key, (metadata, value))) = found else { return not_found() };
        let value = if metadata_only { Bytes::new() } else { value.clone() };
        Outcome::Entry(Entry { key: key.clone(), metadata: metadata.clone(), value })
    }

    fn part(&self, key: &Bytes, offset: u64, length: u64) -> Outcome {
        let Some((metadata, value)) = self.entries.get(key) else { return not_found() };
        let range = usize::try_from(offset)
            .ok()
            .zip(offset.checked_add(length).and_then(|end| usize::try_from(end).ok()))
            .filter(|(_, end)| *end <= value.len());
        let Some((start, end)) = range else {
            return Outcome::refused(StatusCode::InvalidRequest, "the value has no such part");
        };
        let value = value.slice(start..end);
        Outcome::Entry(Entry { key: key.clone(), metadata: metadata.clone(), value })
    }

    fn change(&mut self, change: Change) -> Outcome {
        let stands = self.entries.get(change.key()).map(|(metadata, _)| metadata.version.as_ref());
        if let Err(code) = change.check(stands) {
            return Outcome::refused(code, "what stands there has another version");
        }
        if !self.has_room(std::slice::from_ref(&change)) {
            return Outcome::refused(StatusCode::NoSpace, "the drive is full");
        }
        let synchronization = match &change {
            Change::Put(put) => put.synchronization,
            Change::Delete(delete) => delete.synchronization,
        };
        let key = change.key().clone();
        apply(&mut self.entries, change);
        match synchronization {
            Synchronization::WriteBack => {}
            Synchronization::Flush => self.durable = self.entries.clone(),
            WriteThrough => match self.entries.get(&key) {
                Some(entry) => drop(self.durable.insert(key, entry.clone())),
                None => drop(self.durable.remove(&key)),
            },
        }
        Outcome::Done
    }

    fn batch(&mut self, changes: Vec<Change>) -> Outcome {
        let stands = |key: &[u8]| self.entries.get(key).map(|(metadata, _)| metadata.version.clone());
        if let Err((place, code)) = check_batch(&changes, stands) {
            return Outcome::BatchFailed { place, code };
        }
        if !self.has_room(&changes) {
            return Outcome::BatchFailed { place: 0, code: StatusCode::NoSpace };
        }
        for change in changes {
            apply(&mut self.durable, change.clone());
            apply(&mut self.entries, change);
        }
        Outcome::Done
    }

    fn has_room(&self, changes: &[Change]) -> bool {
        let more: u64 = changes.iter().map(Change::value_bytes).sum();
        self.used_bytes() + more <= self.capacity_bytes
    }

    fn used_bytes(&self) -> u64 {
        self.entries.values().map(|(_, value)| value.len() as u64).sum()
    }

    fn log(&self, types: &[LogType]) -> Log {
        let mut log = Log::default();
        if types.contains(&LogType::Utilizations) {
            log.utilizations = vec![Utilization { name: "HDA".to_owned(), portion: 0.25 }];
        }
        if types.contains(&LogType::Temperatures) {
            let name = "HDA".to_owned();
            log.temperatures = vec![Temperature { name, current: 30.0, ..Temperature::default() }];
        }
        if types.contains(&LogType::Capacities) {
            let portion_full = self.used_bytes() as f64 / self.capacity_bytes.max(1) as f64;
            #[expect(clippy::cast_possible_truncation, reason = "a portion")]
            let portion_full = portion_full as f32;
            log.capacity = Some(Capacity { nominal_bytes: self.capacity_bytes, portion_full });
        }
        if types.contains(&LogType::Messages) {
            log.messages = Bytes::from_static(b"a drive in memory");
        }
        log
    }

    fn push(&mut self, mut push: Push, peers: &mut Peers) -> Push {
        let Peer { host, port, .. } = push.peer.clone();
        let Some(mut other) = peers.remove(&(host.clone(), port)) else {
            let text = "the peer was not reached";
            fail(&mut push, StatusCode::RemoteConnectionError, text);
            return push;
        };
        for operation in &mut push.operations {
            let status = match self.entries.get(&operation.key) {
                None => Status::new(StatusCode::NotFound, "no such key"),
                Some((metadata, value)) => {
                    let put = Put {
                        key: operation.new_key.clone().unwrap_or_else(|| operation.key.clone()),
                        metadata: metadata.clone(),
                        db_version: operation.version.clone(),
                        force: operation.force,
                        synchronization: WriteThrough,
                        value: value.clone(),
                    };
                    match other.change(Change::Put(put)) {
                        Outcome::Refused(status) => status,
                        _ => Status::success(),
                    }
                }
            };
            operation.then = operation.then.take().map(|mut then| {
                if status.is_success() {
                    return other.push(then, peers);
                }
                fail(&mut then, StatusCode::NotAttempted, "the operation before it failed");
                then
            });
            operation.status = Some(status);
        }
        peers.insert((host, port), other);
        push
    }
}

fn fail(push: &mut Push, code: StatusCode, text: &str) {
    for operation in &mut push.operations {
        operation.status = Some(Status::new(code, text));
        if let Some(then) = &mut operation.then {
            fail(then, StatusCode::NotAttempted, "the operation before it failed");
        }
    }
}

fn not_found() -> Outcome {
    Outcome::refused(StatusCode::NotFound, "there is no such entry")
}

fn apply(entries: &mut Entries, change: Change) {
    match change {
        Change::Put(put) => drop(entries.insert(put.key, (put.metadata, put.value))),
        Change::Delete(delete) => drop(entries.remove(&delete.key)),
    }
}

fn take<'a>(keys: impl DoubleEndedIterator<Item = &'a Bytes>, range: &KeyRange) -> Vec<Bytes> {
    let most = range.max_returned as usize;
    if range.reverse { keys.rev().take(most).cloned().collect() } else { keys.take(most).cloned().collect() }
}
