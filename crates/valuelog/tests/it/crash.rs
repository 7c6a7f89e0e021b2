//! Crashes at any moment: all that was not synced may be lost, reordered and torn.

use crate::disk::{Event, Random};
use crate::history::campaign::{campaign, open, small_disk};
use crate::history::{History, crashed};

/// `KIST_VALUELOG_SEEDS=500` hunts longer.
#[test]
fn what_was_durable_is_there_after_a_crash_after_each_event() {
    let seeds = std::env::var("KIST_VALUELOG_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(5);
    let first = std::env::var("KIST_VALUELOG_FIRST").ok().and_then(|f| f.parse().ok()).unwrap_or(1);
    let (images, cleaned) = campaign(first..seeds, 140).unwrap();
    println!("{images} crashes, {cleaned} segments cleaned");
    assert!(images > 2_000, "only {images} crashes");
    assert!(cleaned > 20, "only {cleaned} segments were cleaned");
}

/// A batch and single changes, cut at each sector of each write: the sectors before it are there, or those
/// behind it.
#[test]
fn a_crash_at_each_sector() {
    let disk = small_disk();
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
                let (log, _) = open(image).unwrap();
                history.check(&log, at + 1).unwrap();
                images += 1;
            }
        }
    }
    assert!(images > 1_000, "only {images} crashes");
}
