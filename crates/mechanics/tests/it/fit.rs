//! Factors by which a drive differs from its model.

use base::BlockAddress;
use mechanics::{DriveFit, DriveTiming, FittedDrive, LocateFit, LocateSample, TapeMap, Track};

const BLOCK: u32 = 1 << 19;

fn model() -> (DriveTiming, TapeMap) {
    (mechanics::timing("LTO-8").unwrap(), mechanics::medium("LTO-8").unwrap().data_map(BLOCK))
}

/// Locates between blocks that a fixed sequence of numbers chooses; `span`: within so many of each other.
fn samples(count: usize, span: Option<u64>, took: impl Fn(usize, LocateSample) -> u64) -> Vec<LocateSample> {
    let (_, map) = model();
    let blocks = *map.ends().last().unwrap();
    let mut number = 17_u64;
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number >> 20
    };
    let mut one = |index| {
        let from = next() % blocks;
        let number = next();
        let to = span.map_or(number % blocks, |span| (from + 1 + number % span).min(blocks - 1));
        let place = |block| map.place(BlockAddress(block));
        let sample = LocateSample { from: place(from), to: place(to), took_us: 0 };
        LocateSample { took_us: took(index, sample), ..sample }
    };
    (0..count).map(&mut one).collect()
}

/// A drive of these factors, and one locate in ten that waited a minute for something else.
fn disturbed(fixed: f64, way: f64) -> impl Fn(usize, LocateSample) -> u64 {
    let (timing, map) = model();
    let cost = timing.locate.fitted(&LocateFit { fixed, way, samples: 0 });
    move |index, sample| {
        let late = if index % 10 == 3 { 60_000_000 } else { 0 };
        cost.between(&map, sample.from, sample.to) + late
    }
}

fn fit(samples: &[LocateSample]) -> LocateFit {
    let (timing, map) = model();
    LocateFit::of(&timing.locate, &map, samples)
}

#[test]
fn the_factors_of_a_drive_are_found_again() {
    for (fixed, way) in [(1.0, 1.0), (1.4, 0.8), (0.7, 1.3), (2.0, 2.5)] {
        let found = fit(&samples(400, None, disturbed(fixed, way)));
        assert!((found.fixed / fixed - 1.0).abs() < 0.04, "{fixed} {way}: {found:?}");
        assert!((found.way / way - 1.0).abs() < 0.04, "{fixed} {way}: {found:?}");
    }
}

#[test]
fn short_locates_alone_give_one_factor_for_both() {
    let found = fit(&samples(40, Some(100), disturbed(1.5, 1.5)));
    assert!((found.fixed - 1.5).abs() < 0.02 && (found.way - found.fixed).abs() < 1e-9, "{found:?}");
}

#[test]
fn too_few_change_nothing_and_nonsense_is_bounded() {
    let few = fit(&samples(7, None, disturbed(2.0, 2.0)));
    assert_eq!((few.fixed, few.way, few.samples), (1.0, 1.0, 7));
    assert_eq!(fit(&samples(8, Some(100), disturbed(2.0, 2.0))).samples, 8);
    assert!(fit(&samples(8, Some(100), disturbed(2.0, 2.0))).fixed > 1.9);
    let at_once = fit(&samples(100, None, |_, _| 0));
    assert_eq!((at_once.fixed, at_once.way), (LocateFit::FACTOR_MIN, LocateFit::FACTOR_MIN));
    let never = fit(&samples(100, None, |_, _| u64::MAX));
    assert_eq!((never.fixed, never.way), (LocateFit::FACTOR_MAX, LocateFit::FACTOR_MAX));
    // Where the head stands already there is no way.
    let still: Vec<_> =
        samples(20, None, |_, _| 9).iter().map(|s| LocateSample { to: s.from, ..*s }).collect();
    assert_eq!(fit(&still), LocateFit::default());
}

#[test]
fn a_fitted_timing_is_the_model_where_nothing_is_known() {
    let (timing, map) = model();
    assert_eq!(timing.fitted(&LocateFit::default()), timing);
    let slow = timing.fitted(&LocateFit { fixed: 2.0, way: 3.0, samples: 0 });
    let (from, to) = (map.place(BlockAddress(0)), map.place(BlockAddress(1_000_000)));
    assert!(slow.locate.between(&map, from, to) > 2 * timing.locate.between(&map, from, to) - 10);
    assert!(slow.mean_rewind_us(&map) > 2 * timing.mean_rewind_us(&map));
}

#[test]
fn a_track_is_fitted_again_from_the_model_on() {
    let (drive, medium) = (mechanics::drive("LTO-9").unwrap(), mechanics::medium("LTO-9").unwrap());
    let fitted = FittedDrive { serial: "1".to_owned(), drive, medium, fit: None };
    let model = Track { fitted: Some(fitted), ..medium.track(drive, 1 << 18, None) };
    let fit = |fixed, way, error| DriveFit { locate: LocateFit { fixed, way, samples: 9 }, error };
    let (first, second) = (fit(1.5, 0.8, 0.1), fit(2.0, 1.25, 0.03));
    let once = model.clone().refitted(first);
    assert_eq!((once.error, once.locate), (Some(0.1), model.locate.fitted(&first.locate)));
    let again = once.refitted(second);
    assert_eq!(again.fitted.unwrap().fit, Some(second));
    assert_eq!(again.error, Some(0.03));
    let expected = model.locate.fitted(&second.locate);
    let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    assert!(
        is_near(again.locate.base_us, expected.base_us) && is_near(again.locate.lpos_us, expected.lpos_us)
    );
    // What is not fitted to a drive stays as it is.
    let nobodys = medium.track(drive, 1 << 18, None);
    assert_eq!(nobodys.clone().refitted(first), nobodys);
}
