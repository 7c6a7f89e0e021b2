//! The store beside a map, with reopening at any step.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;
use valuelog::{Change, Delete, Durability, Expected, KeyRange, LogError, Put, ValueLog};

use crate::disk::{Disk, layout};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, usize, Option<u8>),
    Delete(u8, Option<u8>),
    Batch(Vec<(u8, Option<(u8, usize)>)>),
    Get(u8),
    Next(u8),
    Previous(u8),
    Keys(u8, u8, bool, usize),
    Flush,
    Reopen,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..12;
    let length = prop_oneof![3 => 0usize..300, 2 => 4_000usize..9_000, 1 => 33_000usize..40_000];
    let version = proptest::option::of(0u8..3);
    let change = (key.clone(), proptest::option::of((0u8..3, 0usize..5_000)));
    prop_oneof![
        8 => (key.clone(), 0u8..3, length, version.clone()).prop_map(|(k, v, l, e)| Step::Put(k, v, l, e)),
        4 => (key.clone(), version).prop_map(|(k, e)| Step::Delete(k, e)),
        2 => vec(change, 0..6).prop_map(Step::Batch),
        3 => key.clone().prop_map(Step::Get),
        1 => key.clone().prop_map(Step::Next),
        1 => key.clone().prop_map(Step::Previous),
        1 => (key.clone(), key, any::<bool>(), 0usize..9).prop_map(|(a, b, r, m)| Step::Keys(a, b, r, m)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => Just(Step::Close),
    ]
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>;

fn may(model: &Model, key: &[u8], expected: Option<&[u8]>, is_put: bool) -> Result<(), &'static str> {
    let stands = model.get(key).map(|(version, _)| version.as_slice());
    match (stands, expected) {
        (_, None) => Ok(()),
        (None, Some(_)) if !is_put => Err("missing"),
        (stands, Some(expected)) if stands.unwrap_or_default() == expected => Ok(()),
        _ => Err("mismatch"),
    }
}

fn word(done: &Result<(), LogError>) -> Result<(), &'static str> {
    match done {
        Ok(()) => Ok(()),
        Err(LogError::NotFound) => Err("missing"),
        Err(LogError::VersionMismatch) => Err("mismatch"),
        Err(LogError::NoSpace) => Err("full"),
        Err(_) => Err("other"),
    }
}

fn run(steps: &[Step]) {
    let disk = Disk::new(12, 128 << 10);
    disk.format(layout(128 << 10, 48 << 10));
    let mut log = disk.open().unwrap();
    let mut model = Model::new();
    let key = |number: &u8| vec![b'k'; usize::from(*number) + 1];
    let value =
        |at: usize, length: usize| -> Vec<u8> { (0..length).map(|byte| (byte * 7 + at) as u8).collect() };
    for (at, step) in steps.iter().enumerate() {
        let durability = if at % 4 == 0 { Durability::Through } else { Durability::Back };
        let expected = |version: &'_ Option<u8>| version.map(|version| vec![b'v'; usize::from(version)]);
        match step {
            Step::Put(number, version, length, given) => {
                let (key, version) = (key(number), vec![b'v'; usize::from(*version)]);
                let (given, value) = (expected(given), value(at, *length));
                let asked = Put {
                    key: &key,
                    value: &value,
                    version: &version,
                    tag: b"t",
                    algorithm: at as i32,
                    expected: given.as_deref().map_or(Expected::Any, Expected::Version),
                };
                let done = log.put(&asked, durability);
                assert_eq!(word(&done), may(&model, &key, given.as_deref(), true), "step {at}: {step:?}");
                if done.is_ok() {
                    model.insert(key, (version, value));
                }
            }
            Step::Delete(number, given) => {
                let (key, given) = (key(number), expected(given));
                let expected = given.as_deref().map_or(Expected::Any, Expected::Version);
                let done = log.delete(&Delete { key: &key, expected }, durability);
                assert_eq!(word(&done), may(&model, &key, given.as_deref(), false), "step {at}: {step:?}");
                if done.is_ok() {
                    model.remove(&key);
                }
            }
            Step::Batch(changes) => {
                let owned: Vec<_> = changes
                    .iter()
                    .map(|(number, put)| {
                        (key(number), put.map(|(v, l)| (vec![b'v'; usize::from(v)], value(at, l))))
                    })
                    .collect();
                let asked: Vec<Change<'_>> = owned
                    .iter()
                    .map(|(key, put)| match put {
                        Some((version, value)) => Change::Put(Put {
                            key,
                            value,
                            version,
                            tag: b"t",
                            algorithm: 0,
                            expected: Expected::Any,
                        }),
                        None => Change::Delete(Delete { key, expected: Expected::Any }),
                    })
                    .collect();
                log.batch(&asked, durability).unwrap();
                for (key, put) in owned {
                    match put {
                        Some(put) => drop(model.insert(key, put)),
                        None => drop(model.remove(&key)),
                    }
                }
            }
            Step::Get(number) => same(&log, &model, &key(number)),
            Step::Next(number) => {
                let key = key(number);
                let above = (Bound::Excluded(key.clone()), Bound::Unbounded);
                let next = model.range::<Vec<u8>, _>(above).next().map(|(key, _)| key.clone());
                assert_eq!(log.next(&key).unwrap().map(|(key, _)| key.into_vec()), next);
            }
            Step::Previous(number) => {
                let key = key(number);
                let previous = model.range(..key.clone()).next_back().map(|(key, _)| key.clone());
                assert_eq!(log.previous(&key).unwrap().map(|(key, _)| key.into_vec()), previous);
            }
            Step::Keys(start, end, reverse, most) => {
                let (start, end) = (key(start), key(end));
                let range = KeyRange {
                    start: Bound::Included(&start),
                    end: Bound::Excluded(&end),
                    most: *most,
                    reverse: *reverse,
                };
                let mut keys: Vec<_> =
                    model.keys().filter(|key| **key >= start && **key < end).cloned().collect();
                if *reverse {
                    keys.reverse();
                }
                keys.truncate(*most);
                let found: Vec<Vec<u8>> = log.keys(&range).into_iter().map(<[u8]>::into_vec).collect();
                assert_eq!(found, keys);
            }
            Step::Flush => log.flush().unwrap(),
            Step::Reopen => {
                drop(log);
                log = disk.open().unwrap();
                assert!(log.recovery().damage.is_empty());
            }
            Step::Close => {
                log.close().unwrap();
                log = disk.open().unwrap();
                assert_eq!(log.recovery().scanned.0, 0);
            }
        }
        disk.recorded().events.clear();
    }
    model.keys().for_each(|key| same(&log, &model, key));
    assert_eq!(log.keys(&KeyRange::all(100)).len(), model.len());
    assert!(log.scan(&KeyRange::all(100)).unwrap().damage.is_empty());
}

fn same(log: &ValueLog, model: &Model, key: &[u8]) {
    match (log.get(key), model.get(key)) {
        (Ok(entry), Some((version, value))) => {
            assert_eq!((&*entry.metadata.version, &*entry.value), (&version[..], &value[..]));
            assert_eq!(log.metadata(key).unwrap(), entry.metadata);
        }
        (Err(LogError::NotFound), None) => {}
        (found, model) => panic!("{found:?} beside {model:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_a_map_does(steps in vec(step(), 1..160)) {
        run(&steps);
    }
}
