//! Crash images at the storage seam: many histories, each cut at many points; nothing acknowledged may be
//! lost or altered, and planted bugs must be found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use base::planted::{Bug, plant};
use simulator::images::{Broken, Depth, History, Tally};

/// Images of each history.
const IMAGES: usize = 100;
/// Images in an ordinary run; `KIST_CRASH_IMAGES` asks for more.
const IMAGES_USUAL: u64 = 2_000;
/// Histories within which a planted bug must be found.
const HUNT_MAX: u64 = 12;

fn history(seed: u64) -> Result<History, Broken> {
    History::new(seed).map_err(|what| Broken { seed, at: 0, dice: 0, what })
}

/// `KIST_CRASH_ONE=history:cut:image` looks at one image again, with the engine's log.
fn check_one(text: &str) -> Result<Tally, Broken> {
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG).init();
    let numbers: Vec<u64> = text.split(':').map(|number| number.parse().unwrap()).collect();
    let [seed, at, dice] = numbers[..] else { panic!("history:cut:image, not {text}") };
    history(seed)?.check_one(at as usize, dice)
}

#[test]
fn nothing_acknowledged_is_lost_whenever_the_power_fails() {
    let _one = crate::alone();
    if let Ok(one) = std::env::var("KIST_CRASH_ONE") {
        println!("{:?}", check_one(&one).unwrap_or_else(|broken| panic!("{broken}")));
        return;
    }
    let wanted = std::env::var("KIST_CRASH_IMAGES").ok().and_then(|text| text.parse().ok());
    let wanted: u64 = wanted.unwrap_or(IMAGES_USUAL);
    let first = std::env::var("KIST_CRASH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let begin = Instant::now();
    let (tally, distinct) = check_all(first, wanted).unwrap_or_else(|broken| panic!("{broken}"));
    let seconds = begin.elapsed().as_secs_f64();
    println!("{tally}{:<36} {distinct:>12}", "distinct histories");
    println!("{:<36} {seconds:>12.1}", "seconds");
    println!("{:<36} {:>12.0}", "images in a second", tally.images as f64 / seconds);
    assert!(tally.images >= wanted && tally.files > tally.images && tally.recalled > 0, "{tally:?}");
    assert!(tally.in_flight > tally.images / 10, "{tally:?}");
    assert_eq!(distinct, tally.histories, "histories repeat each other");
}

/// Checks so many images of histories from `first` on; gives also how many of these histories are distinct.
fn check_all(first: u64, wanted: u64) -> Result<(Tally, u64), Broken> {
    let (next, sum) = (AtomicU64::new(0), Mutex::new((Tally::default(), BTreeSet::new())));
    let histories = wanted.div_ceil(IMAGES as u64);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= histories {
                return Ok(());
            }
            let checked = history(first + number)
                .and_then(|history| Ok((history.check(IMAGES, Depth::Whole)?, history.fingerprint())));
            // Who has found something ends the others too.
            let (tally, fingerprint) = checked.inspect_err(|_| next.store(histories, Ordering::Relaxed))?;
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.0.add(tally);
            sum.1.insert(fingerprint.0);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;
    let (tally, fingerprints) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((tally, fingerprints.len() as u64))
}

fn is_found(bug: Bug) {
    let _one = crate::alone();
    plant(Some(bug));
    let found = (0..HUNT_MAX)
        .find_map(|seed| history(seed).and_then(|history| history.check(IMAGES, Depth::Opened)).err());
    plant(None);
    let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
    println!("{bug:?}: {found}");
    assert!(!found.what.contains("deadlock"), "{found}");
}

#[test]
fn a_missing_sync_of_the_pool_is_found() {
    is_found(Bug::MissingPoolSync);
}

#[test]
fn a_missing_sync_of_a_segment_is_found() {
    is_found(Bug::MissingSegmentSync);
}

#[test]
fn a_missing_flush_of_a_tape_is_found() {
    is_found(Bug::MissingTapeFlush);
}
