//! Crashes at any moment: all that was not synced may be lost, reordered and torn.

use crate::disk::{Disk, Event, Image, Random, layout};
use crate::history::{History, crashed, key, put, show, show_all};
use valuelog::{Durability, ValueLog};

const SEGMENT: usize = 64 << 10;

fn small() -> Disk {
    let disk = Disk::new(9, SEGMENT);
    disk.format(layout(SEGMENT as u64, 16 << 10));
    disk
}

fn open(image: Image) -> (ValueLog, Disk) {
    let disk = Disk::of(image);
    (disk.open().unwrap_or_else(|error| panic!("a crash never closes a store: {error}")), disk)
}

/// A crash image holds what it must, and goes on holding it: through another opening, and through one that
/// crashed itself.
fn check(history: &History, image: Image, events: usize, random: &mut Random) {
    let (log, disk) = open(image);
    history.check(&log, events).unwrap();
    let shown = show_all(&log);
    assert!(log.recovery().damage.is_empty(), "a crash is no damage: {:?}", log.recovery().damage);
    drop(log);
    if random.below(4) > 0 {
        return;
    }
    let recovery = std::mem::take(&mut disk.recorded().events);
    let at = random.below(recovery.len() + 1);
    let torn = crashed(&disk.recorded().base, &recovery[..at], |_, _| random.below(2) == 0);
    let (log, disk) = open(torn);
    assert!(show_all(&log) == shown, "a crash of the opening changes nothing");
    log.put(&put(b"after", b"all"), Durability::Through).unwrap();
    drop(log);
    let (log, _) = open(disk.image());
    assert_eq!(&*log.get(b"after").unwrap().value, b"all");
    for at in 0..crate::history::KEYS {
        let was = shown.get(&key(at)).cloned();
        assert!(show(&log, at).unwrap() == was, "key {at} is as it was");
    }
}

/// Runs of several hundred changes with cleaning, a crash after each event of the disk.
pub fn campaign(seeds: std::ops::Range<u64>, operations: usize) -> (usize, usize) {
    let (mut images, mut cleaned) = (0, 0);
    for seed in seeds {
        let disk = small();
        let mut random = Random::new(seed);
        let log = disk.open().unwrap();
        let mut history = History::default();
        history.run(&log, &disk, &mut random, operations, 9 << 10);
        cleaned += log.figures().cleaned.0 as usize;
        history.check(&log, usize::MAX).unwrap();
        drop(log);
        let (base, events) = {
            let recorded = disk.recorded();
            (recorded.base.clone(), recorded.events.clone())
        };
        // What is durable is applied once, not for each crash again.
        let (mut image, mut applied) = (base, 0);
        for at in 1..=events.len() {
            let synced =
                events[..at].iter().rposition(|event| matches!(event, Event::Sync)).map_or(0, |at| at + 1);
            if synced > applied {
                events[applied..synced].iter().for_each(|event| image.apply(event, |_| true));
                applied = synced;
            }
            if synced == 0 {
                // It is not a store yet.
                continue;
            }
            let rest = &events[synced..at];
            let last = rest.len().saturating_sub(1);
            let chance = 1 + random.below(15);
            let variants: [&mut dyn FnMut(usize, usize) -> bool; 4] =
                [&mut |_, _| false, &mut |_, _| true, &mut |event, _| event == last, &mut |_, _| {
                    random.below(16) < chance
                }];
            let mut crash_images = Vec::new();
            for variant in variants {
                crash_images.push(crashed(&image, rest, variant));
            }
            // Before the first opening is through nothing was promised.
            for crash_image in crash_images {
                images += 1;
                check(&history, crash_image, at, &mut random);
            }
        }
    }
    (images, cleaned)
}

#[test]
fn what_was_durable_is_there_after_a_crash_after_each_event() {
    let (images, cleaned) = campaign(1..5, 140);
    assert!(images > 2_000, "only {images} crashes");
    assert!(cleaned > 20, "only {cleaned} segments were cleaned");
}

/// A batch and single changes, cut at each sector of each write: the sectors before it are there, or those
/// behind it.
#[test]
fn a_crash_at_each_sector() {
    let disk = small();
    let log = disk.open().unwrap();
    let mut history = History::default();
    let mut random = Random::new(77);
    history.run(&log, &disk, &mut random, 24, 5 << 10);
    drop(log);
    let recorded = disk.recorded();
    let first = recorded.events.iter().position(|event| matches!(event, Event::Sync)).unwrap();
    let mut images = 0;
    for at in first + 1..recorded.events.len() {
        let Event::Write { bytes, .. } = &recorded.events[at] else { continue };
        for sector in 0..=bytes.len() / 512 {
            for (before, keep_front) in [(true, true), (false, true), (true, false), (false, false)] {
                let kept = |event: usize, number: usize| match event == at {
                    true => (number < sector) == keep_front,
                    false => before,
                };
                let image = crashed(&recorded.base, &recorded.events[..=at], kept);
                let (log, _) = open(image);
                history.check(&log, at + 1).unwrap();
                images += 1;
            }
        }
    }
    assert!(images > 1_000, "only {images} crashes");
}
