//! Sums, bins and drives add up, however long a run is.

mod pages;

use base::{ByteCount, Duration};
use mechanics::RobotTiming;
use scheduler::Policy;

use super::bins::{BINS_MAX, Bins};
use super::progress::{Progress, TIMES_MAX};
use super::*;
use report::outcome::{Outcome, Series};
use scenario::model::{DataPath, Foreign, Network, OneWay, PoolModel, Site, TapeWork};

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1_000_000)
}

/// A site without anything but a class and a workload.
pub(crate) fn model(step: u64) -> Model {
    let class = scenario::model::ClassModel {
        name: "raw".into(),
        copies: vec![],
        sizes: scenario::model::SizeLaw::Fixed(1),
        large: ByteCount(1),
        pack: ByteCount(1),
        recall_packs: false,
        residency: Duration::ZERO,
        pool_max: None,
        data_set_files: 1,
        gather: scenario::model::GatherBy::Class,
    };
    let choice = scenario::model::Choice {
        files: None,
        data_sets: false,
        share_per_mille: 1000,
        shuffled: false,
        tapes: 0,
    };
    let workload = Workload {
        name: "campaign".into(),
        class: ClassIndex(0),
        kind: WorkloadKind::Campaign { choice, window: 0 },
        begin: Duration::ZERO,
        end: None,
        priority: 5,
    };
    Model {
        name: "variant".into(),
        site: site(class),
        policy: Policy::default(),
        foreign: Foreign::default(),
        workloads: vec![workload],
        faults: vec![],
        span: Duration::from_secs(1_000_000),
        until_done: true,
        warm_up: None,
        step: Duration::from_secs(step),
        seeds: vec![1],
    }
}
fn site(class: scenario::model::ClassModel) -> Site {
    let library = scenario::model::LibraryModel {
        name: "library".into(),
        robots: RobotTiming { robots: 1, move_us: 1 },
        drives: vec![],
        tape: scenario::model::TapeModel {
            geometry: mechanics::Geometry::ltfs(208, ByteCount(58_000_000_000), 0..170_000),
            capacity: ByteCount(12_000_000_000_000),
        },
        scratch: 0,
        mount_extra: Duration::ZERO,
    };
    Site {
        libraries: vec![library],
        tape_pools: vec![],
        classes: vec![class],
        holdings: vec![],
        pool: PoolModel {
            capacity: ByteCount(1),
            high_water_percent: 90,
            low_water_percent: 80,
            disks: None,
            write_factor: 1.0,
            tape_first: false,
            network: Network { total: 1, stream: 1 },
        },
        path: DataPath {
            read_file: Duration::ZERO,
            write_file: Duration::ZERO,
            stream: 1,
            total: 1,
            read: OneWay::FREE,
            write: OneWay::FREE,
        },
        work: TapeWork {
            flush_bytes: ByteCount(1),
            flush_age: Duration::ZERO,
            index_bytes: ByteCount(1),
            index_bytes_a_file: 1,
            flush_each_file: false,
            recall_batch: ByteCount(1),
            replan: Duration::ZERO,
        },
    }
}

fn meter(step: u64, drives: usize) -> Meter {
    Meter::new(&model(step), 1, (0..drives).map(|drive| format!("d{drive}")).collect())
}

#[test]
fn a_transfer_is_spread_evenly_and_not_a_byte_is_lost() {
    let mut meter = meter(10, 1);
    meter.tape_read(at(5), at(35), 0, 3_000, 2);
    meter.tape_read(at(12), at(12), 0, 7, 1);
    meter.client_written(at(38), at(50), 100);
    let outcome = meter.finish(at(41), End::default());
    assert_eq!(outcome.series.tape_read, [500, 1_007, 1_000, 500, 0]);
    // What was told in advance ends with the run, all of it.
    assert_eq!(outcome.series.client_written.iter().sum::<u64>(), 100);
    assert_eq!(
        (outcome.totals.tape_read, outcome.totals.files_read, outcome.drives[0].read),
        (3_007, 3, 3_007)
    );
}

#[test]
fn the_seconds_of_drives_add_up_to_the_runs_length() {
    let mut random = durability::SplitMix::new(3);
    let mut meter = meter(60, 3);
    let mut now = 0;
    for _ in 0..20_000 {
        now += random.below(50_000_000) as u64;
        meter.drive(Moment(now), random.below(3), DriveActivity::ALL[random.below(7)]);
    }
    let outcome = meter.finish(Moment(now + 17), End::default());
    for drive in &outcome.drives {
        let sum: f64 = drive.seconds.iter().sum();
        assert!((sum - outcome.end).abs() < 1e-6, "{sum} of {}", outcome.end);
        assert_eq!(drive.spans.len(), report::outcome::DriveUse::SPANS_MAX);
        assert!(drive.spans.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].2 != pair[1].2));
    }
    let binned: f64 = outcome.series.activity.iter().flatten().sum();
    assert!((binned - 3.0 * outcome.end).abs() < 1e-3);
    for (index, bin) in outcome.series.activity.iter().enumerate() {
        let width = (outcome.end - index as f64 * 60.0).min(60.0);
        assert!((bin.iter().sum::<f64>() - 3.0 * width).abs() < 1e-6, "bin {index}");
    }
}

#[test]
fn long_runs_have_wider_bins_and_the_same_sums() {
    let mut bins = Bins::new(Duration::from_secs(1));
    let seconds = 5 * BINS_MAX as u64 + 3;
    let mut level = Level::default();
    for second in 0..seconds {
        bins.level(at(second), &level);
        level.queue = second;
        bins.at(at(second)).mounts += 1;
        bins.spread(at(second), at(second + 1), 10, |bin| &mut bin.tape_read);
    }
    let series = bins.finish(at(seconds), &level);
    assert_eq!(series.step, 8.0);
    assert_eq!(series.mounts.len(), seconds.div_ceil(8) as usize);
    assert_eq!(series.mounts.iter().sum::<u64>(), seconds);
    assert_eq!(series.tape_read.iter().sum::<u64>(), 10 * seconds);
    // Levels are those of each bin's end: what was set in its last second.
    assert!(
        series.queue.iter().enumerate().all(|(bin, queue)| *queue == (8 * bin as u64 + 7).min(seconds - 1))
    );
}

fn lengths(series: &Series) -> Vec<usize> {
    vec![
        series.tape_read.len(),
        series.tape_written.len(),
        series.client_written.len(),
        series.client_read.len(),
        series.queue.len(),
        series.queue_age.len(),
        series.backlog.len(),
        series.pool_used.len(),
        series.wanted.len(),
        series.hits.len(),
        series.mounts.len(),
        series.activity.len(),
    ]
}

#[test]
fn a_run_in_which_nothing_happens_is_an_outcome_too() {
    let outcome: Outcome = meter(10, 2).finish(at(0), End::default());
    assert_eq!(lengths(&outcome.series), [1; 12]);
    let outcome = meter(10, 2).finish(at(30), End { is_drained: true, ..End::default() });
    assert_eq!(lengths(&outcome.series), [3; 12]);
    assert!(outcome.is_drained && outcome.campaigns[0].progress.is_empty());
    assert_eq!(outcome.drives[1].spans, [(0.0, 30.0, DriveActivity::Idle)]);
}

#[test]
fn levels_stand_until_they_are_told_anew() {
    let mut meter = meter(10, 1);
    meter.level(at(5), Level { queue: 4, oldest: Some(at(5)), backlog: 9, pool_used: 2 });
    meter.level(at(31), Level { queue: 1, oldest: Some(at(30)), backlog: 0, pool_used: 3 });
    meter.level(at(32), Level { queue: 6, oldest: Some(at(30)), backlog: 0, pool_used: 3 });
    meter.level(at(33), Level { queue: 0, oldest: None, backlog: 0, pool_used: 3 });
    let outcome = meter.finish(at(45), End::default());
    assert_eq!(outcome.series.queue, [4, 4, 4, 0, 0]);
    assert_eq!(outcome.series.queue_age, [5.0, 15.0, 25.0, 0.0, 0.0]);
    assert_eq!(outcome.series.backlog, [9, 9, 9, 0, 0]);
    assert_eq!((outcome.queue_max, outcome.queue_age_max), (6, 26.0));
}

#[test]
fn a_campaign_is_followed_to_its_last_file() {
    let mut meter = meter(10, 1);
    for file in 0..1_000 {
        meter.wanted(at(2), 0, 5, file < 100);
    }
    for file in 1..=990u64 {
        meter.served(at(2 + file), 0, Duration::from_secs(file));
    }
    (0..10).for_each(|_| meter.refused(at(2_000), 0));
    for tape in [3, 900, 3] {
        meter.mount(at(3), 0, tape);
    }
    let outcome = meter.finish(at(2_000), End::default());
    let campaign = &outcome.campaigns[0];
    assert_eq!((campaign.files, campaign.bytes, campaign.served, campaign.refused), (1_000, 5_000, 990, 10));
    assert_eq!((campaign.begin, campaign.end), (2.0, 992.0));
    assert_eq!((campaign.progress[0], campaign.progress[50], campaign.progress[100]), (3.0, 497.0, 992.0));
    assert!((campaign.waits[0] / 495.0 - 1.0).abs() < 0.004 && campaign.waits[3] == 990.0);
    assert!((campaign.wait_mean - 495.5).abs() < 1e-9);
    assert_eq!((outcome.classes[0].wanted, outcome.classes[0].hits, outcome.totals.hits), (1_000, 100, 100));
    assert_eq!((outcome.totals.mounts, outcome.totals.tapes_mounted), (3, 2));
}

#[test]
fn progress_of_many_files_is_late_by_one_in_two_thousand_at_most() {
    for count in [1u64, 7, 3_999, 4_000, 4_001, 1_234_567] {
        let mut progress = Progress::new();
        (1..=count).for_each(|second| progress.push(at(second)));
        let found = progress.hundredths();
        assert_eq!(found.len(), 101);
        assert_eq!((found[0], found[100]), (1.0, count as f64));
        for (hundredth, time) in found.iter().enumerate() {
            let exact = (count * hundredth as u64).div_ceil(100).max(1) as f64;
            assert!(
                (0.0..=count as f64 / (TIMES_MAX / 2) as f64).contains(&(time - exact)),
                "{count} {hundredth}"
            );
        }
    }
}

#[test]
fn classes_know_their_pool_residency_and_migration() {
    let mut meter = meter(10, 1);
    meter.pool_of(at(0), ClassIndex(0), 100);
    meter.pool_of(at(10), ClassIndex(0), 300);
    meter.evicted(at(20), ClassIndex(0), 50, Some(Duration::from_secs(4)));
    meter.evicted(at(20), ClassIndex(0), 50, Some(Duration::from_secs(8)));
    // There since before the run, and never used in it: that says nothing of how long files stay.
    meter.evicted(at(20), ClassIndex(0), 0, None);
    meter.migrated(ClassIndex(0), Duration::from_secs(5));
    meter.migrated(ClassIndex(0), Duration::from_secs(7));
    meter.put(at(21), 0, 77);
    meter.fault(FaultKind::RobotJam);
    meter.check("copies");
    let outcome = meter.finish(at(40), End { violation: Some("no".into()), ..End::default() });
    let class = &outcome.classes[0];
    assert_eq!((class.pool_mean, class.residency_mean, class.migration_wait), (250.0, 6.0, [6.0, 7.0]));
    assert_eq!((class.put, class.put_bytes, class.migrated, outcome.totals.evicted), (1, 77, 2, 100));
    assert_eq!(outcome.faults["robot-jam"], 1);
    assert_eq!((outcome.checks["copies"], outcome.violation.as_deref()), (1, Some("no")));
}
