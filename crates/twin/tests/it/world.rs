//! Small worlds, run to their end.

use crate::support::{GB, MB, TB, campaign, fault, hold, hours, ingest, model, secs, users};
use report::outcome::Outcome;
use scenario::model::{FaultKind, Model, ReadOrder};

fn run(model: &Model, seed: u64) -> Outcome {
    let outcome = twin::run(model, seed);
    assert_eq!(outcome.violation, None, "{:?}", outcome.totals);
    outcome
}

#[test]
fn a_campaign_mounts_each_tape_once_and_brings_everything() {
    let mut model = model(2, 1, TB);
    hold(&mut model, 10_000);
    campaign(&mut model, None);
    let outcome = run(&model, 1);
    assert!(outcome.is_drained, "{:?}", outcome.totals);
    assert_eq!(outcome.totals.files_served, 10_000);
    assert_eq!(outcome.totals.tape_read, 10_000 * GB);
    assert_eq!((outcome.totals.mounts, outcome.totals.tapes_mounted), (10, 10));
    let of_drives: u64 = outcome.drives.iter().map(|drive| drive.read).sum();
    assert_eq!(of_drives, 10_000 * GB);
    // 10 TB with two drives at 360 MB/s each, and five mounts for each.
    assert!((13_800.0..15_500.0).contains(&outcome.end), "{}", outcome.end);
}

#[test]
fn the_seconds_of_the_drives_add_up() {
    let mut model = model(3, 2, TB);
    hold(&mut model, 3_000);
    campaign(&mut model, Some(2_000));
    ingest(&mut model, 2_000.0, hours(12));
    fault(&mut model, FaultKind::DriveLoss, hours(2), hours(1));
    let outcome = run(&model, 3);
    for drive in &outcome.drives {
        let sum: f64 = drive.seconds.iter().sum();
        assert!((sum - outcome.end).abs() < 1e-3, "{} has {sum} s of {}", drive.name, outcome.end);
    }
    assert!(outcome.faults["drive-loss"] > 0);
}

#[test]
fn the_same_seed_gives_the_same_and_another_one_another() {
    let mut model = model(3, 2, TB);
    hold(&mut model, 5_000);
    users(&mut model, 2_000.0, hours(24));
    ingest(&mut model, 1_000.0, hours(24));
    for kind in FaultKind::ALL {
        fault(&mut model, kind, hours(6), hours(1));
    }
    let first = run(&model, 7);
    assert!(first == run(&model, 7));
    assert!(first != run(&model, 8));
}

#[test]
fn what_is_put_gets_its_two_copies() {
    let mut model = model(2, 2, TB);
    ingest(&mut model, 2_400.0, hours(24));
    let outcome = run(&model, 1);
    let put = outcome.totals.files_put;
    assert!(put > 2_000, "{put}");
    assert!(outcome.is_drained);
    assert_eq!(outcome.totals.files_written, 2 * put);
    assert_eq!(outcome.totals.tape_written, 2 * put * GB);
    assert!(outcome.classes[0].migration_wait[0] > 0.0);
}

#[test]
fn packs_are_written_and_read_back() {
    let mut model = model(2, 1, TB);
    model.site.classes[0].large = base::ByteCount(2 * GB);
    model.site.pool.capacity = base::ByteCount(1_500 * GB);
    model.site.classes[0].recall_packs = true;
    ingest(&mut model, 4_800.0, hours(24));
    users(&mut model, 200.0, hours(30));
    let outcome = run(&model, 1);
    assert!(outcome.is_drained);
    assert!(outcome.totals.evicted > 0);
    assert!(outcome.totals.files_read > 0);
    assert_eq!(outcome.totals.files_written, outcome.totals.files_put);
}

#[test]
fn every_kind_of_fault_fires_and_everything_ends() {
    for kind in FaultKind::ALL {
        let mut model = model(3, 2, TB);
        hold(&mut model, 4_000);
        users(&mut model, 3_000.0, hours(48));
        ingest(&mut model, 2_000.0, hours(48));
        fault(&mut model, kind, hours(2), secs(1_800));
        if kind == FaultKind::CleanerUsedUp {
            // It is seen when a drive is to be cleaned with one.
            fault(&mut model, FaultKind::DirtyDrive, hours(2), secs(1_800));
        }
        model.span = hours(24 * 60);
        let outcome = run(&model, 11);
        assert!(
            outcome.faults.get(kind.name()).is_some_and(|times| *times > 0),
            "{kind:?}: {:?}",
            outcome.faults
        );
        assert!(outcome.is_drained, "{kind:?}: {:?}", outcome.totals);
        let totals = &outcome.totals;
        assert_eq!(totals.files_served + totals.files_refused, totals.files_wanted, "{kind:?}");
    }
}

#[test]
fn a_foreign_limit_of_the_queue_costs_mounts() {
    let mounts = |limit: u64| {
        let mut model = model(2, 1, TB);
        hold(&mut model, 10_000);
        campaign(&mut model, None);
        if let scenario::model::WorkloadKind::Campaign { choice, .. } = &mut model.workloads[0].kind {
            choice.shuffled = true;
        }
        model.foreign.queue_limit = limit;
        let outcome = run(&model, 1);
        assert!(outcome.is_drained);
        assert_eq!(outcome.totals.files_served, 10_000);
        outcome.totals.mounts
    };
    let (all, few) = (mounts(0), mounts(500));
    assert_eq!(all, 10);
    assert!(few >= 30, "{few}");
}

#[test]
fn the_order_of_arrival_takes_longer_than_the_plan() {
    let end = |order: ReadOrder| {
        let mut model = model(1, 1, TB);
        hold(&mut model, 1_000);
        campaign(&mut model, Some(100));
        if let scenario::model::WorkloadKind::Campaign { choice, .. } = &mut model.workloads[0].kind {
            choice.shuffled = true;
            choice.share_per_mille = 100;
        }
        model.foreign.order = order;
        run(&model, 1).end
    };
    let planned = end(ReadOrder::Planned);
    for other in [ReadOrder::Arrival, ReadOrder::Window(4_000), ReadOrder::Block] {
        assert!(planned <= end(other) * 1.001, "{other:?}");
    }
    assert!(planned < 0.9 * end(ReadOrder::Arrival));
}

/// Seconds of read or write a byte, of one drive whose host takes or gives 250 MB/s.
fn limited(buffer: u64, stream: u64, is_read: bool) -> f64 {
    let mut model = model(1, 1, TB);
    model.site.libraries[0].drives[0].timing.buffer = base::ByteCount(buffer);
    model.site.path.stream = stream;
    if is_read {
        hold(&mut model, 900);
        campaign(&mut model, None);
    } else {
        model.site.work.flush_bytes = base::ByteCount(TB);
        model.site.work.flush_age = hours(24);
        model.site.work.index_bytes = base::ByteCount(2 * TB);
        ingest(&mut model, 100_000.0, secs(900));
    }
    let outcome = run(&model, 1);
    let drive = &outcome.drives[0];
    let seconds = drive.seconds[2] + drive.seconds[3] + drive.seconds[4];
    (drive.read + drive.written) as f64 / seconds / 1e6
}

/// Until 2026-11 bytes were handed over 256 MiB at a time: the drive's buffer was full or empty in between,
/// the tape stopped, and 250 MB/s became 200 with a buffer of 512 MB.
#[test]
fn a_drive_that_can_match_its_host_keeps_its_rate() {
    for buffer in [128, 256, 512, 1_000] {
        for rate in [130, 250, 340] {
            for is_read in [true, false] {
                let found = limited(buffer * MB, rate * MB, is_read);
                let ratio = found / rate as f64;
                let what = format!("{found:.1} of {rate} MB/s with {buffer} MB, reads: {is_read}");
                assert!((0.99..1.01).contains(&ratio), "{what}");
            }
        }
    }
}

/// Small files share blocks. Those of one block were read in the order in which they were asked for, so that
/// the head went back for each that lies before the last.
#[test]
fn a_window_reads_small_files_that_touch_as_they_stand() {
    const FILES: u64 = 1_000;
    let read = |order: ReadOrder| {
        let mut model = model(1, 1, TB);
        model.site.classes[0].sizes = scenario::model::SizeLaw::Fixed(50_000);
        hold(&mut model, FILES);
        let stages = (0..FILES).map(|at| (base::Duration::from_millis(at), at * 7 % FILES)).collect();
        campaign(&mut model, None);
        model.workloads[0].kind = scenario::model::WorkloadKind::Recorded { puts: Vec::new(), stages };
        model.foreign.order = order;
        let outcome = run(&model, 1);
        assert_eq!(outcome.totals.files_served, FILES);
        outcome.drives[0].seconds[1]
    };
    let (window, block) = (read(ReadOrder::Window(4_000)), read(ReadOrder::Block));
    assert!(window < block + 1.0, "{window} s of locates, by block {block} s");
}
