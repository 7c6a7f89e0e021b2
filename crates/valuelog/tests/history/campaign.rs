//! Crashes after each event of random runs.

use valuelog::{Durability, ValueLog};

use crate::disk::{Disk, Event, Image, Random, layout};
use crate::history::{History, KEYS, crashed, key, put, show, show_all};

pub const SEGMENT: usize = 64 << 10;

pub fn small_disk() -> Disk {
    let disk = Disk::new(9, SEGMENT);
    disk.format(layout(SEGMENT as u64, 16 << 10));
    disk
}

pub fn open(image: Image) -> Result<(ValueLog, Disk), String> {
    let disk = Disk::of(image);
    let log = disk.open().map_err(|error| format!("a crash never closes a store: {error}"))?;
    Ok((log, disk))
}

/// A crash image holds what it must, and goes on holding it: through another opening, and through one that
/// crashed itself.
fn check(history: &History, image: Image, events: usize, random: &mut Random) -> Result<(), String> {
    let (log, disk) = open(image)?;
    history.check(&log, events)?;
    let shown = show_all(&log);
    if !log.recovery().damage.is_empty() {
        return Err(format!("a crash is no damage: {:?}", log.recovery().damage));
    }
    drop(log);
    if random.below(4) > 0 {
        return Ok(());
    }
    let recovery = std::mem::take(&mut disk.recorded().events);
    let at = random.below(recovery.len() + 1);
    let base = disk.recorded().base.clone();
    let torn = crashed(&base, &recovery[..at], |_, _| random.below(2) == 0);
    let (log, disk) = open(torn)?;
    let again = show_all(&log);
    if again != shown {
        let differs = |key: &&Vec<u8>| again.get(*key) != shown.get(*key);
        let keys: Vec<_> = again.keys().chain(shown.keys()).filter(differs).collect();
        let start = |map: &std::collections::BTreeMap<Vec<u8>, Vec<u8>>, key: &Vec<u8>| {
            map.get(key).map(|value| String::from_utf8_lossy(&value[..value.len().min(7)]).into_owned())
        };
        let what: Vec<_> = keys.iter().map(|key| (key, start(&shown, key), start(&again, key))).collect();
        return Err(format!("after {events} events a crash of the opening changes {what:?}"));
    }
    match log.put(&put(b"after", b"all"), Durability::Through) {
        Err(error) if error.is_full() => return Ok(()),
        done => done.map_err(|error| error.to_string())?,
    }
    drop(log);
    let (log, _) = open(disk.image())?;
    if log.get(b"after").map(|entry| entry.value.to_vec()).ok() != Some(b"all".to_vec()) {
        return Err("what was put after a crash is not there".to_owned());
    }
    match (0..KEYS).find(|at| show(&log, *at).ok() != Some(shown.get(&key(*at)).cloned())) {
        Some(at) => Err(format!("key {at} has changed after a crash")),
        None => Ok(()),
    }
}

/// Runs of so many changes with cleaning, and a crash after each event of the disk: how many crashes were
/// tried, and how many segments were cleaned.
pub fn campaign(seeds: std::ops::Range<u64>, operations: usize) -> Result<(usize, usize), String> {
    let (mut images, mut cleaned) = (0, 0);
    for seed in seeds {
        let disk = small_disk();
        let mut random = Random::new(seed);
        let log = disk.open().unwrap();
        let mut history = History::default();
        history.run(&log, &disk, &mut random, operations, 9 << 10);
        cleaned += log.figures().cleaned.0 as usize;
        let with_seed = |error| format!("seed {seed}: {error}");
        history.check(&log, usize::MAX).map_err(with_seed)?;
        drop(log);
        let (mut image, events) = {
            let recorded = disk.recorded();
            (recorded.base.clone(), recorded.events.clone())
        };
        // What is durable is applied once, not for each crash again.
        let mut applied = 0;
        for at in 1..=events.len() {
            let is_sync = |event: &Event| matches!(event, Event::Sync);
            let synced = events[..at].iter().rposition(is_sync).map_or(0, |at| at + 1);
            events[applied..synced.max(applied)].iter().for_each(|event| image.apply(event, |_| true));
            applied = synced.max(applied);
            if synced == 0 {
                // It is no store yet.
                continue;
            }
            let rest = &events[synced..at];
            let last = rest.len().saturating_sub(1);
            let chance = 1 + random.below(15);
            let mut crashes = vec![
                crashed(&image, rest, |_, _| false),
                crashed(&image, rest, |_, _| true),
                crashed(&image, rest, |event, _| event == last),
            ];
            crashes.extend((0..2).map(|_| crashed(&image, rest, |_, _| random.below(16) < chance)));
            for crash in crashes {
                images += 1;
                check(&history, crash, at, &mut random).map_err(with_seed)?;
            }
        }
    }
    Ok((images, cleaned))
}
