//! Crash images at the storage seam: many histories, each cut at many points; nothing acknowledged may be
//! lost or altered, and planted bugs must be found.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use base::planted::{Bug, plant};
use simulator::images::{Broken, Depth, History, Tally};

/// Images of each history.
const IMAGES: usize = 100;
/// Images in an ordinary run; `KIST_CRASH_IMAGES` asks for more.
const IMAGES_USUAL: u64 = 2_400;
/// Histories within which a planted bug must be found.
const HUNT_MAX: u64 = 12;

/// What is planted is planted in the whole process.
static PLANTED: Mutex<()> = Mutex::new(());

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
    let _one = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(one) = std::env::var("KIST_CRASH_ONE") {
        println!("{:?}", check_one(&one).unwrap_or_else(|broken| panic!("{broken}")));
        return;
    }
    let wanted = std::env::var("KIST_CRASH_IMAGES").ok().and_then(|text| text.parse().ok());
    let wanted: u64 = wanted.unwrap_or(IMAGES_USUAL);
    let first = std::env::var("KIST_CRASH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number * IMAGES as u64 >= wanted {
                        return;
                    }
                    let tally =
                        history(first + number).and_then(|history| history.check(IMAGES, Depth::Whole));
                    let tally = tally.unwrap_or_else(|broken| panic!("{broken}"));
                    sum.lock().unwrap().add(tally);
                }
            });
        }
    });
    let tally = *sum.lock().unwrap();
    println!("{tally:?}");
    assert!(tally.images >= wanted && tally.files > tally.images && tally.recalled > 0, "{tally:?}");
    assert!(tally.in_flight > tally.images / 10, "{tally:?}");
}

fn is_found(bug: Bug) {
    let _one = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
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
