//! Samples of small units.

use base::{ByteCount, Duration};
use scheduler::{ClassPolicy, LibraryPolicy, SharePolicy, TapePoolPolicy};

use super::*;
use crate::fixture;
use report::outcome::Outcome;
use scenario::model::{
    Choice, ClassIndex, DriveGroup, Fault, FaultKind, LibraryIndex, Model, Site, Workload, WorkloadKind,
};
use scenario::{RUN_MIN, Sampling};

const UNITS: u32 = 16;

fn sampling(run: u32, spread: f64) -> Sampling {
    Sampling { units: UNITS, run, spread, seed: 3 }
}

/// A unit of two libraries with a copy of each file in both, users and an ingest.
fn unit() -> Model {
    let mut site = fixture::site(2);
    let group = DriveGroup { count: 1, timing: mechanics::timing("LTO-8").expect("the data know LTO-8") };
    site.libraries[0].drives.push(group);
    let mut second = site.libraries[0].clone();
    second.name = "second".to_owned();
    site.libraries.push(second);
    site.tape_pools[1].library = LibraryIndex(1);
    site.holdings.push(fixture::holding(20_000));
    site.pool.capacity = ByteCount(50_000_000_000_000);
    let users = WorkloadKind::Users {
        arrivals: fixture::arrivals(60.0),
        files: 5,
        popularity: 0.0,
        repeat_per_mille: 100,
    };
    let ingest = WorkloadKind::Ingest { arrivals: fixture::arrivals(12.0), burst: 20 };
    let mut model = fixture::model(site, vec![users, ingest]);
    model.workloads[1].name = "new".to_owned();
    model.span = Duration::from_secs(2 * 86_400);
    model.policy.classes.insert(
        base::ClassId(1),
        ClassPolicy {
            name: "raw".to_owned(),
            pack_bytes: ByteCount(20_000_000_000),
            pack_age: Duration::from_secs(3600),
        },
    );
    model.policy.shares.insert(base::ShareId(1), SharePolicy::default());
    for at in 0..2_u16 {
        let pool = TapePoolPolicy {
            name: format!("pool{at}"),
            library: Some(base::LibraryId(at)),
            ..TapePoolPolicy::default()
        };
        model.policy.tape_pools.insert(base::TapePoolId(at + 1), pool);
        let library = LibraryPolicy { name: format!("library{at}"), mount_cost_percent: 100 };
        model.policy.libraries.insert(base::LibraryId(at), library);
    }
    model
}

fn files(site: &Site) -> u64 {
    site.holdings.iter().map(|held| held.files).sum()
}

fn drives(site: &Site) -> u32 {
    site.libraries.iter().flat_map(|library| &library.drives).map(|group| group.count).sum()
}

fn per_day(model: &Model) -> f64 {
    let of = |workload: &Workload| match &workload.kind {
        WorkloadKind::Users { arrivals, .. } | WorkloadKind::Ingest { arrivals, .. } => arrivals.per_day,
        _ => 0.0,
    };
    model.workloads.iter().map(of).sum()
}

#[test]
fn all_units_together_are_so_many_times_one() {
    let unit = unit();
    let all = draw(&unit, &Population::new(&sampling(5, 0.7)), UNITS, 1).unwrap();
    let (one, whole) = (&unit.site, &all.model.site);
    assert_eq!(files(whole), files(one) * u64::from(UNITS));
    assert_eq!(drives(whole), drives(one) * UNITS);
    assert_eq!(whole.pool.capacity.0, one.pool.capacity.0 * u64::from(UNITS));
    assert!((per_day(&all.model) / per_day(&unit) / f64::from(UNITS) - 1.0).abs() < 1e-12);
    assert_eq!(all.model.policy.tape_pools.len(), 2 * UNITS as usize);
    // The last unit's second copy goes to its own second library.
    let last = &whole.classes[UNITS as usize - 1];
    let pool = &whole.tape_pools[usize::from(last.copies[1])];
    assert_eq!((last.name.as_str(), pool.name.as_str()), ("raw-16", "pool1-16"));
    assert_eq!(whole.libraries[usize::from(pool.library.0)].name, "second-16");
    let policy = &all.model.policy.tape_pools[&base::TapePoolId(last.copies[1] + 1)];
    assert_eq!((policy.name.as_str(), policy.library), ("pool1-16", Some(base::LibraryId(pool.library.0))));
}

#[test]
fn samples_keep_the_load_in_the_mean_and_pools_go_with_it() {
    let unit = unit();
    let population = Population::new(&sampling(6, 0.7));
    let mut load = 0.0;
    const SEEDS: u64 = 400;
    for seed in 0..SEEDS {
        let sample = draw(&unit, &population, 6, seed).unwrap();
        assert_eq!(files(&sample.model.site), 6 * files(&unit.site));
        let weight: f64 = sample.weights.iter().sum();
        load += weight / 6.0;
        let pool = sample.model.site.pool.capacity.0 as f64 / unit.site.pool.capacity.0 as f64;
        assert!((pool / weight - 1.0).abs() < 1e-9);
        assert!(sample.chosen.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", sample.chosen);
    }
    let mean = load / SEEDS as f64;
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn faults_of_hardware_come_oftener_and_those_of_the_site_do_not() {
    let mut unit = unit();
    let day = Duration::from_secs(86_400);
    let fault = |kind| Fault { kind, every: day * 30, lasts: day, begin: Duration::ZERO };
    unit.faults = vec![fault(FaultKind::DriveLoss), fault(FaultKind::Restart)];
    let sample = draw(&unit, &Population::new(&sampling(6, 0.0)), 6, 1).unwrap();
    assert_eq!(sample.model.faults[0].every, day * 5);
    assert_eq!(sample.model.faults[1].every, day * 30);
}

#[test]
fn a_smaller_unit_keeps_what_each_drive_has_to_do() {
    let mut unit = unit();
    unit.site.libraries.iter_mut().for_each(|library| library.drives[0].count = 16);
    let small = shrunk(&unit, 100).unwrap();
    assert_eq!((small.by.drives_before, small.by.drives), (32, 2));
    assert_eq!(files(&small.model.site), 200);
    let before = per_day(&unit) / f64::from(drives(&unit.site));
    let after = per_day(&small.model) / f64::from(drives(&small.model.site));
    assert!((before / after - 1.0).abs() < 1e-12);
    assert_eq!(shrunk(&unit, 1).unwrap().model, unit);
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let mut unit = unit();
    let population = Population::new(&sampling(5, 0.5));
    for run in [0, RUN_MIN - 1, UNITS + 1] {
        let refused = draw(&unit, &population, run, 1).unwrap_err();
        assert_eq!(refused, SampleError::Run { run, units: UNITS, least: RUN_MIN });
    }
    assert_eq!(shrunk(&unit, 0).unwrap_err(), SampleError::Scale);
    let many = Population::new(&Sampling { units: 2_000, run: 5, spread: 0.0, seed: 1 });
    let refused = draw(&unit, &many, 2_000, 1).unwrap_err();
    assert!(matches!(refused, SampleError::Limit { limit: "LIBRARIES_MAX", found: 4_000, .. }), "{refused}");
    unit.workloads[0].kind = WorkloadKind::Recorded { puts: Vec::new(), stages: Vec::new() };
    let refused = draw(&unit, &population, 5, 1).unwrap_err();
    assert!(matches!(refused, SampleError::Recorded { .. }), "{refused}");
    let alike = Population::new(&sampling(5, 0.0));
    assert!(draw(&unit, &alike, 5, 1).is_ok(), "units that are all alike can do what was recorded");
}

#[test]
fn campaigns_of_busier_units_are_larger() {
    let mut unit = unit();
    let choice = Choice { files: Some(1_000), ..fixture::choice() };
    unit.workloads[0].kind = WorkloadKind::Campaign { choice, window: 0 };
    let sample = draw(&unit, &Population::new(&sampling(5, 0.7)), 5, 1).unwrap();
    for (at, weight) in sample.weights.iter().enumerate() {
        let WorkloadKind::Campaign { choice, .. } = &sample.model.workloads[2 * at].kind else {
            panic!("a campaign stays one")
        };
        assert_eq!(choice.files, Some((1_000.0 * weight).round() as u64));
        assert_eq!(sample.model.workloads[2 * at].class, ClassIndex(at as u16));
    }
}

fn ran(unit: &Model, population: &Population, run: u32, seed: u64) -> (Observation, Outcome) {
    let draw = draw(unit, population, run, seed).unwrap();
    let outcome = twin::run(&draw.model, seed);
    assert_eq!(outcome.violation, None);
    (observe(unit, &draw, &outcome), outcome)
}

fn of<'e>(figures: &'e [Estimated], name: &str) -> &'e Estimated {
    figures.iter().find(|estimated| estimated.figure.name == name).unwrap()
}

#[test]
fn all_units_observed_are_the_whole_run() {
    let (observation, outcome) = ran(&unit(), &Population::new(&sampling(5, 0.5)), UNITS, 1);
    let found = estimates(&[observation]);
    let totals = &outcome.totals;
    let same = |name: &str, value: f64| {
        let estimate = of(&found, name).estimate;
        assert!((estimate.mean / value - 1.0).abs() < 1e-9, "{name}: {} is not {value}", estimate.mean);
        assert_eq!(estimate.half_width, None, "one run of all says nothing of others");
    };
    assert!(totals.tape_read > 0 && totals.tape_written > 0 && totals.mounts > 0 && totals.hits > 0);
    same("read from tape", totals.tape_read as f64 / outcome.end / 1e6);
    same("written to tape", totals.tape_written as f64 / outcome.end / 1e6);
    same("files served", totals.files_served as f64);
    same("files put", totals.files_put as f64);
    same("mounts", totals.mounts as f64);
    same("hit rate", 100.0 * totals.hits as f64 / totals.files_wanted as f64);
    let waits: f64 = outcome.campaigns.iter().map(|it| it.wait_mean * it.served as f64).sum();
    let served: f64 = outcome.campaigns.iter().map(|it| it.served as f64).sum();
    same("wait, mean", waits / served);
}

#[test]
fn what_a_sample_says_of_its_error_holds() {
    let unit = unit();
    let population = Population::new(&sampling(6, 0.5));
    let whole: Vec<Observation> = [1, 2, 3, 4, 5].map(|seed| ran(&unit, &population, UNITS, seed).0).into();
    let samples: Vec<Observation> = (101..111).map(|seed| ran(&unit, &population, 6, seed).0).collect();
    let compared = compare(&whole, &[samples]);
    let mut failed = Vec::new();
    for name in ["read from tape", "written to tape", "files served", "mounts", "drives in use", "efficiency"]
    {
        let found = compared.iter().find(|compared| compared.figure.name == name).unwrap();
        let sample = &found.samples[0];
        if sample.covered < 8 || sample.off > 0.2 || sample.stated > 0.6 {
            failed.push(format!("{name}: {sample:?} of {:?}", found.whole));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn a_line_through_units_is_right_where_the_sample_is_busier_than_the_mean() {
    let amount = |weight: f64| Amount { weight, much: 10.0 + 5.0 * weight, of: 0.0 };
    let figure = report::stats::Figure { of: String::new(), name: "mounts", unit: "", is_main: true };
    let amounts = [0.9, 1.2, 1.6, 2.5].map(amount).to_vec();
    let figures = vec![Observed { figure, is_total: true, amounts }];
    let found = estimates(&[Observation { run: 4, units: 100, seed: 1, figures }]);
    let estimate = found[0].estimate;
    assert!((estimate.mean - 1_500.0).abs() < 1e-9, "{estimate:?}");
    assert!(estimate.half_width.unwrap() < 1e-6, "{estimate:?}");
}
