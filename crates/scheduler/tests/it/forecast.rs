//! Forecasts against what then happens, in a simulated archive: random requests and campaigns, two copies,
//! ingest in between, mounts that take longer or shorter, drives that fail and come back.

use crate::forecast_world::{Told, World, seeds};

/// Seeds of the campaign.
const SEEDS: u64 = 50;
/// The share of outcomes that ranges must hold.
const COVERAGE: f64 = 0.90;
/// What ranges are given for, and how wide they may be to be of use: the median of (latest wait) / (earliest
/// wait) is below this. A file may lie anywhere on its tape; a class is gathered when the next file comes.
const KINDS: [(&str, f64); 7] = [
    ("request", 3.5),
    ("request, on the way", 4.0),
    ("file", 10.0),
    ("tape", 4.0),
    ("drive", 7.0),
    ("tape pool", 15.0),
    ("class", 20.0),
];

fn share(told: &[&Told], holds: impl Fn(&Told) -> bool) -> f64 {
    told.iter().filter(|told| holds(told)).count() as f64 / told.len().max(1) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn ranges_hold_what_comes() {
    let worlds: Vec<World> = seeds(SEEDS).map(World::run).collect();
    let failures: u32 = worlds.iter().map(|world| world.failures).sum();
    assert!(failures >= SEEDS as u32, "{failures} drives failed");
    let all: Vec<&Told> = worlds.iter().flat_map(|world| &world.told).collect();
    let mut wrong = Vec::new();
    for (what, spread_max) in KINDS {
        let told: Vec<&Told> = all.iter().copied().filter(|told| told.what == what).collect();
        assert!(told.len() > 200, "{} forecasts of a {what}", told.len());
        let held = share(&told, Told::holds);
        let below = share(&told, |told| told.came < told.range.earliest);
        let spread = median(told.iter().map(|told| told.spread()).collect());
        let width = told.iter().map(|told| told.width().as_secs_f64()).sum::<f64>() / told.len() as f64;
        let wait = told.iter().map(|told| told.waited().as_secs_f64()).sum::<f64>() / told.len() as f64;
        println!(
            "{what}: {} ranges, {:.1} % held ({:.1} % came before), mean wait {:.0} s, mean width {:.0} s, \
             median latest/earliest {spread:.1}",
            told.len(),
            100.0 * held,
            100.0 * below,
            wait,
            width
        );
        wrong.extend((held < COVERAGE).then(|| format!("a {what}: only {held} lie within")));
        wrong.extend((spread > spread_max).then(|| format!("a {what}: ranges of {spread} say nothing")));
        // The test can fail: the same ranges at a third of their width do not hold enough.
        let narrow = share(&told, |told| told.holds_shrunk(0.33));
        let too_good = format!("a {what}: {narrow} of the outcomes lie in a third of the range");
        wrong.extend((narrow >= COVERAGE).then_some(too_good));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
