//! What other systems do, against what it comes to by hand.

use base::{ByteCount, Duration};
use report::outcome::{DriveActivity, Outcome};
use scenario::model::{Labels, Marks, Model, WorkloadKind};

use crate::support::{GB, MB, campaign, hold, hours, model, secs, timing};

fn run(model: &Model) -> Outcome {
    let outcome = twin::run(model, 1);
    assert_eq!(outcome.violation, None, "{:?}", outcome.totals);
    assert!(outcome.is_drained, "{:?}", outcome.totals);
    outcome
}

/// So many files of one size are put at once, each a container of its own, and wanted at the given times.
fn written(files: u64, bytes: u64, tape: u64, stages: &[(Duration, u64)]) -> Model {
    let mut model = model(1, 1, tape);
    let class = &mut model.site.classes[0];
    class.sizes = scenario::model::SizeLaw::Fixed(bytes);
    class.large = ByteCount(1);
    class.residency = Duration::ZERO;
    model.site.pool.network.total = u64::MAX;
    model.site.pool.network.stream = u64::MAX;
    model.site.work.flush_bytes = ByteCount(u64::MAX >> 1);
    model.site.work.flush_age = hours(1_000);
    model.site.work.index_bytes = ByteCount(u64::MAX >> 1);
    model.site.work.index_bytes_a_file = 0;
    model.policy.tape_pools.values_mut().for_each(|pool| {
        (pool.mount_bytes, pool.mount_age, pool.drives_max) = (ByteCount(files * bytes), hours(2), 1);
    });
    let kind = WorkloadKind::Recorded { puts: vec![secs(0); files as usize], stages: stages.to_vec() };
    model.workloads.push(scenario::model::Workload {
        name: "recorded".to_owned(),
        class: scenario::model::ClassIndex(0),
        kind,
        begin: secs(0),
        end: None,
        priority: 4,
    });
    model
}

/// Seconds that drives spend writing: streaming, and flushes.
fn writing(outcome: &Outcome) -> f64 {
    outcome.drives.iter().map(|drive| drive.seconds[DriveActivity::Write as usize]).sum()
}

fn flush_seconds() -> f64 {
    timing().flush_us as f64 / 1e6
}

fn close(found: f64, wanted: f64, part: f64) {
    assert!((found / wanted - 1.0).abs() <= part, "{found}, and by hand {wanted}");
}

/// By hand: `t = n S / v + ceil(n / k) f`: n files of S bytes at rate v, and a flush of f seconds after each
/// k files (CTA: 200 files).
#[test]
fn a_flush_after_so_many_files_costs_its_time() {
    let (files, bytes) = (1_000u64, 100 * MB);
    for every in [0u64, 200, 10] {
        let mut model = written(files, bytes, 1_000 * GB, &[]);
        model.foreign.flush_files = every;
        let flushes = if every == 0 { 1 } else { files.div_ceil(every) };
        let stream = (files * bytes) as f64 / timing().native_rate as f64;
        close(writing(&run(&model)), stream + flushes as f64 * flush_seconds(), 0.01);
    }
    // After so many bytes: five files, however many may be more.
    let mut model = written(files, bytes, 1_000 * GB, &[]);
    (model.foreign.flush_files, model.site.work.flush_bytes) = (200, ByteCount(5 * bytes));
    let stream = (files * bytes) as f64 / timing().native_rate as f64;
    close(writing(&run(&model)), stream + 200.0 * flush_seconds(), 0.01);
}

/// Story: whoever asked for any rule of another system lost the reading of labels and indexes at each mount,
/// so that "a flush after 1,000 files" made a campaign that only reads almost twice as fast.
#[test]
fn a_rule_of_writing_makes_no_mount_cheaper() {
    let mounting = |flush_files: u64, labels: Labels| {
        let mut model = model(1, 1, 1_000 * GB);
        hold(&mut model, 200);
        campaign(&mut model, None);
        model.site.libraries[0].mount_extra = Duration::ZERO;
        (model.foreign.flush_files, model.foreign.labels) = (flush_files, labels);
        let drives = run(&model).drives;
        drives.iter().map(|drive| drive.seconds[DriveActivity::Mount as usize]).sum::<f64>()
    };
    let kist = mounting(0, Labels::None);
    close(mounting(1_000, Labels::None), kist, 0.001);
    assert!(mounting(0, Labels::Aul) < kist, "tapes with the labels of another system have no index");
}

/// Story: the server flushed after 1,024 containers, its twin when `flush_bytes` had come together. By hand,
/// as above with k = 1,024.
#[test]
fn a_flush_is_due_with_as_many_containers_as_in_the_server() {
    let (files, bytes) = (3_000u64, 10 * MB);
    let stream = (files * bytes) as f64 / timing().native_rate as f64;
    let flushes = files.div_ceil(session::WRITE_BATCH_CONTAINERS);
    assert_eq!(flushes, 3);
    let found = writing(&run(&written(files, bytes, 1_000 * GB, &[])));
    close(found - stream, flushes as f64 * flush_seconds(), 0.05);
}

/// By hand: labels and marks that go into the buffer cost their bytes only, `t = n (S + 480 B) / v + f`;
/// marks that are waited for `t = n ((S + 480 B) / v + 3 f)`. On tape stand `n (S + 480 B)`.
#[test]
fn labels_cost_three_marks_a_file() {
    let (files, bytes) = (500u64, 100 * MB);
    let with = |labels: Labels, marks: Marks| {
        let mut model = written(files, bytes, 1_000 * GB, &[]);
        (model.foreign.labels, model.foreign.marks) = (labels, marks);
        writing(&run(&model))
    };
    let stream = (files * (bytes + 480)) as f64 / timing().native_rate as f64;
    let (none, immediate) = (with(Labels::None, Marks::Immediate), with(Labels::Aul, Marks::Immediate));
    close(immediate, stream + flush_seconds(), 0.01);
    close(none, immediate, 0.001);
    let synchronous = with(Labels::Aul, Marks::Synchronous);
    close(synchronous, stream + 3.0 * files as f64 * flush_seconds(), 0.01);
    assert!(synchronous > 3.0 * immediate, "{synchronous} {immediate}");
    // Ten files of 99.9 GB go onto a tape of 999 GB, and with labels nine do.
    let tapes = |labels: Labels| {
        let mut model = written(10, 99_900 * MB, 999 * GB, &[]);
        model.foreign.labels = labels;
        run(&model).totals.tapes_mounted
    };
    assert_eq!((tapes(Labels::None), tapes(Labels::Aul)), (1, 2));
}

/// By hand: a way back of 200 MB/s brings n S bytes in `n S / 200 MB/s`, and the way out stays at the drive's
/// rate; and the other way round.
#[test]
fn the_way_to_tape_and_the_way_back_have_their_own_limits() {
    // Above the least rate of the drive, which matches its host's then.
    let (files, slow) = (100u64, 200 * MB);
    assert!(slow > timing().least_rate && 2 * slow < 2 * timing().native_rate);
    let rate_of = |bytes: u64, seconds: f64| bytes as f64 / seconds;
    let both = |read: u64, write: u64| {
        let mut back = model(1, 1, 1_000 * GB);
        hold(&mut back, files);
        campaign(&mut back, None);
        let mut out = written(files, GB, 1_000 * GB, &[]);
        for model in [&mut back, &mut out] {
            (model.site.path.read.stream, model.site.path.write.stream) = (read, write);
        }
        let (back, out) = (run(&back), run(&out));
        // A drive that its host is too slow for waits between runs.
        let spent = |outcome: &Outcome, moves: DriveActivity| -> f64 {
            let of =
                |activity: DriveActivity| outcome.drives.iter().map(move |it| it.seconds[activity as usize]);
            of(moves).chain(of(DriveActivity::Wait)).sum()
        };
        let reading = rate_of(back.totals.tape_read, spent(&back, DriveActivity::Read));
        (reading, rate_of(out.totals.tape_written, spent(&out, DriveActivity::Write)))
    };
    let native = timing().native_rate as f64;
    let (back, out) = both(slow, u64::MAX);
    close(back, slow as f64, 0.05);
    close(out, native, 0.05);
    let (back, out) = both(u64::MAX, slow);
    close(back, native, 0.05);
    close(out, slow as f64, 0.05);
    // All drives together: two share it.
    let mut two = model(2, 1, 50 * GB);
    hold(&mut two, files);
    campaign(&mut two, None);
    two.site.path.read.total = 2 * slow;
    let outcome = run(&two);
    let least = outcome.totals.tape_read as f64 / (2 * slow) as f64;
    assert!(outcome.end >= least && outcome.end < 1.3 * least + 300.0, "{} of {least}", outcome.end);
}

/// By hand: n files of S bytes stand on `ceil(n S / C)` tapes of C bytes where they go on on the next one,
/// and on `ceil(n / floor(C / S))` where they do not; a file on two tapes takes two mounts to come back.
#[test]
fn a_file_goes_on_on_the_next_tape_and_comes_back_from_both() {
    let (files, bytes, tape) = (10u64, 100 * GB, 250 * GB);
    let later = hours(24 * 5);
    let with = |spans: bool, stages: &[(Duration, u64)]| {
        let mut model = written(files, bytes, tape, stages);
        model.foreign.spans = spans;
        run(&model)
    };
    let tapes = |outcome: &Outcome| outcome.totals.tapes_mounted;
    assert_eq!(tapes(&with(false, &[])), 5, "ceil(10 / floor(250 / 100))");
    let spanned = with(true, &[]);
    assert_eq!(tapes(&spanned), 4, "ceil(10 x 100 / 250)");
    assert_eq!(spanned.totals.files_written, files);
    // The first file stands whole, the third on the first and the second tape: 50 GB on each.
    let more = |stages: &[(Duration, u64)]| {
        let outcome = with(true, stages);
        assert_eq!(outcome.totals.files_served, stages.len() as u64);
        assert_eq!(outcome.totals.tape_read, stages.len() as u64 * bytes);
        outcome.totals.mounts - spanned.totals.mounts
    };
    assert_eq!(more(&[(later, 0)]), 1);
    assert_eq!(more(&[(later, 2)]), 2);
    // Asked for once more when it is gone again, it takes both once more.
    assert_eq!(more(&[(later, 2), (later + hours(48), 2)]), 4);
    // All of them: four tapes, each mounted once or, for the second parts of what was begun elsewhere, twice.
    let all: Vec<(Duration, u64)> = (0..files).map(|file| (later, file)).collect();
    assert!((4..=8).contains(&more(&all)), "{}", more(&all));
}

/// A file that is larger than a cartridge is refused where files do not go on, and stands on several where
/// they do.
#[test]
fn a_file_larger_than_a_cartridge_goes_on_on_several() {
    let stages = [(hours(24 * 5), 0u64)];
    let mut model = written(2, 600 * GB, 250 * GB, &stages);
    model.foreign.spans = true;
    let outcome = run(&model);
    assert_eq!((outcome.totals.tapes_mounted, outcome.totals.files_served), (5, 1), "ceil(2 x 600 / 250)");
    assert_eq!(outcome.totals.tape_read, 600 * GB);
    assert_eq!(outcome.puts_too_large, 0);
}
