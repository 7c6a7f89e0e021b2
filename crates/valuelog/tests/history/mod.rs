//! A random run of changes, what each has promised when, and whether a crash has kept it.

pub mod campaign;

use std::collections::BTreeMap;

use valuelog::{Change, Delete, Durability, Expected, KeyRange, LogError, Put, ValueLog};

use crate::disk::{Disk, Event, Image, Random};

pub const KEYS: usize = 10;

/// A change, or a batch of them.
#[derive(Clone, Debug)]
pub struct Operation {
    pub changes: Vec<(usize, Option<Vec<u8>>)>,
    /// Events of the disk before it began, and before it was known to be durable.
    pub began: usize,
    pub durable: usize,
}

#[derive(Default)]
pub struct History {
    pub operations: Vec<Operation>,
    pub refused: usize,
}

pub fn key(number: usize) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Bytes that no other operation writes.
fn value(operation: usize, member: usize, length: usize) -> Vec<u8> {
    let mut random = Random::new((operation * 64 + member) as u64 + 1);
    let mut value = format!("{operation}.{member}:").into_bytes();
    value.extend(random.bytes(length));
    value
}

impl History {
    /// Does so many random operations.
    pub fn run(&mut self, log: &ValueLog, disk: &Disk, random: &mut Random, count: usize, length: usize) {
        for _ in 0..count {
            let number = self.operations.len();
            let events = || disk.recorded().events.len();
            let began = events();
            let kind = random.below(10);
            let members = if kind < 3 { 1 + random.below(6) } else { 1 };
            let changes: Vec<(usize, Option<Vec<u8>>)> = (0..members)
                .map(|member| {
                    let is_put = random.below(4) > 0;
                    let length = if members > 1 { length.min(4 << 10) } else { length };
                    let length = if random.below(3) == 0 { random.below(200) } else { random.below(length) };
                    (random.below(KEYS), is_put.then(|| value(number, member, length)))
                })
                .collect();
            let durability = if random.below(3) == 0 { Durability::Through } else { Durability::Back };
            let keys: Vec<Vec<u8>> = changes.iter().map(|(at, _)| key(*at)).collect();
            let asked: Vec<Change<'_>> =
                changes.iter().zip(&keys).map(|((_, value), key)| change(key, value)).collect();
            let done = match (kind < 3, &asked[0]) {
                (true, _) => log.batch(&asked, durability),
                (false, Change::Put(put)) => log.put(put, durability),
                (false, Change::Delete(delete)) => log.delete(delete, durability),
            };
            match done {
                Ok(()) => {}
                Err(error) if error.is_full() => {
                    self.refused += 1;
                    continue;
                }
                Err(error) => panic!("operation {number}: {error}"),
            }
            let durable = if durability == Durability::Through { events() } else { usize::MAX };
            self.operations.push(Operation { changes, began, durable });
            if random.below(12) == 0 {
                log.flush().unwrap();
                let now = events();
                self.operations
                    .iter_mut()
                    .for_each(|operation| operation.durable = operation.durable.min(now));
            }
        }
    }

    /// Whether a store shows what it may after a crash when so many events were done, and no more.
    pub fn check(&self, log: &ValueLog, events: usize) -> Result<(), String> {
        let shown: Vec<Option<Vec<u8>>> = (0..KEYS).map(|at| show(log, at)).collect::<Result<_, _>>()?;
        let begun = || self.operations.iter().enumerate().filter(|(_, operation)| operation.began < events);
        // For each key which operations may be the last ones that are seen there.
        let mut last: Vec<Vec<usize>> = Vec::new();
        for (at, shown) in shown.iter().enumerate() {
            let mut may = vec![];
            let floor = begun()
                .filter(|(_, operation)| operation.durable <= events)
                .filter(|(_, operation)| operation.changes.iter().any(|(key, _)| *key == at))
                .map(|(number, _)| number)
                .max();
            if floor.is_none() && shown.is_none() {
                may.push(usize::MAX);
            }
            for (number, operation) in
                begun().filter(|(number, _)| floor.is_none_or(|floor| *number >= floor))
            {
                let after = operation.changes.iter().rev().find(|(key, _)| *key == at);
                if after.is_some_and(|(_, value)| value == shown) {
                    may.push(number);
                }
            }
            if may.is_empty() {
                let shown = shown
                    .as_ref()
                    .map(|value| String::from_utf8_lossy(&value[..value.len().min(8)]).into_owned());
                return Err(format!("key {at} shows {shown:?} after {events} events, floor {floor:?}"));
            }
            last.push(may);
        }
        for (number, operation) in begun().filter(|(_, operation)| operation.changes.len() > 1) {
            let is_seen = operation.changes.iter().any(|(at, value)| value.is_some() && shown[*at] == *value);
            let is_whole = operation
                .changes
                .iter()
                .all(|(at, _)| last[*at].iter().any(|last| *last != usize::MAX && *last >= number));
            if is_seen && !is_whole {
                return Err(format!("batch {number} is seen in part after {events} events"));
            }
        }
        Ok(())
    }
}

pub fn change<'a>(key: &'a [u8], value: &'a Option<Vec<u8>>) -> Change<'a> {
    match value {
        Some(value) => Change::Put(put(key, value)),
        None => Change::Delete(Delete { key, expected: Expected::Any }),
    }
}

pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    Put { key, value, version: b"version", tag: b"tag", algorithm: 4, expected: Expected::Any }
}

/// What a key shows; damage is none that a crash may make.
pub fn show(log: &ValueLog, at: usize) -> Result<Option<Vec<u8>>, String> {
    match log.get(&key(at)) {
        Ok(entry) => Ok(Some(entry.value.to_vec())),
        Err(LogError::NotFound) => Ok(None),
        Err(error) => Err(format!("key {at}: {error}")),
    }
}

/// Everything that a store shows.
pub fn show_all(log: &ValueLog) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let keys = log.keys(&KeyRange::all(usize::MAX));
    keys.into_iter().map(|key| (key.to_vec(), log.get(&key).unwrap().value.to_vec())).collect()
}

/// The disk after a crash when so many events were done: all before the last sync, and of each sector that
/// was written since what `is_kept` says.
pub fn crashed(base: &Image, events: &[Event], mut is_kept: impl FnMut(usize, usize) -> bool) -> Image {
    let mut image = base.clone();
    let synced = events.iter().rposition(|event| matches!(event, Event::Sync)).map_or(0, |at| at + 1);
    events[..synced].iter().for_each(|event| image.apply(event, |_| true));
    for (number, event) in events.iter().enumerate().skip(synced) {
        image.apply(event, |sector| is_kept(number, sector));
    }
    image
}
