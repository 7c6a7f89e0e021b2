//! `kist bench schedule`: what an order of reading costs and how long it takes to find, on simulated tapes.

mod exact;
mod figures;
mod show;
mod tape;

use std::io::{IsTerminal, stderr};
use std::path::Path;

use base::BlockAddress;
use durability::SplitMix;
use rustix::time::{ClockId, clock_gettime};
use session::order::{Aim, OrderLimits, Plan, Segment, block_order, nearest_first, plan, trace};
use terminal::{Failure, Outcome, Progress, Style, output};

use self::figures::{Report, Row, Run, Spread, WaitRow};
use self::tape::Tape;
use super::page;

/// The tapes.
const TAPES: [&str; 2] = ["LTO-8", "LTO-9"];
/// Wanted files.
const FILES: [usize; 8] = [8, 12, 32, 128, 512, 2_000, 10_000, 100_000];
/// Bytes of a file.
const SIZES: [u64; 3] = [200_000_000, 2_000_000_000, 20_000_000_000];
/// With so many files, those of `SIZES` fit on no tape; these do.
const LARGE: (usize, [u64; 2]) = (100_000, [20_000_000, 100_000_000]);
/// Up to so many files the best of all orders is looked for.
const OPTIMUM_MAX: usize = 12;
/// Runs of each row, and of those with the most files.
const SEEDS: (u64, u64) = (100, 10);
const SEEDS_QUICK: (u64, u64) = (3, 1);
/// With `--quick`: no more files than this, but for the row of the bar.
const FILES_QUICK: usize = 512;
/// Files, bytes of each and whether they are on one wrap, where users wait for each file.
const WAITS: [(usize, u64, bool); 6] = [
    (8, 200_000_000, true),
    (32, 200_000_000, true),
    (128, 200_000_000, true),
    (32, 2_000_000_000, false),
    (128, 2_000_000_000, false),
    (512, 2_000_000_000, false),
];

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    /// Fewer seeds and sizes.
    pub quick: bool,
    /// Seeds of each row, for tests.
    pub seeds: Option<u32>,
}

/// Measures, prints, and writes the page if one is named.
pub fn run(args: Args, write: Option<&Path>, style: Style) -> Outcome {
    let report = measure(args, style)?;
    if let Some(page) = write {
        page::write(page, "kist bench schedule", &show::markdown(&report))?;
    }
    if style.json { output::json(&report) } else { output::write(&show::text(&report)) }
}

/// Files, bytes of each.
fn shapes(args: Args) -> Vec<(usize, u64)> {
    let large = LARGE.1.map(|bytes| (LARGE.0, bytes));
    let shapes = FILES.into_iter().flat_map(|files| SIZES.map(|bytes| (files, bytes)));
    let all = shapes.chain(large);
    all.filter(|(files, bytes)| !args.quick || *files <= FILES_QUICK || (*files, *bytes) == large[0])
        .collect()
}

fn measure(args: Args, style: Style) -> Outcome<Report> {
    let tapes: Vec<Tape> = TAPES.into_iter().filter_map(Tape::of).collect();
    if tapes.len() != TAPES.len() {
        return Err(Failure::internal("a drive of the bench is not among those that are known".to_owned()));
    }
    let shapes = shapes(args);
    let quiet = style.quiet || !stderr().is_terminal();
    let total = (tapes.len() * (shapes.len() + WAITS.len()) + 1) as u64;
    let progress = Progress::start_of("bench schedule", "row", total, 0, quiet);
    let (few, fewest) = if args.quick { SEEDS_QUICK } else { SEEDS };
    let seeds = |files: usize| match args.seeds {
        Some(seeds) => u64::from(seeds),
        None if files >= LARGE.0 => fewest,
        None => few,
    };
    let (mut rows, mut waits, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    notes.push(format!("{} files: {} seeds, all others {}", LARGE.0, seeds(LARGE.0), seeds(0)));
    for tape in &tapes {
        for (files, bytes) in &shapes {
            if *files <= tape.holds(*bytes) {
                let runs: Vec<Run> = (0..seeds(*files)).map(|seed| one(tape, *files, *bytes, seed)).collect();
                rows.push(Row::of(tape.name, *bytes, *files, &runs));
            } else {
                let size = show::gb(*bytes);
                notes.push(format!("{}: {files} files of {size} GB do not fit, left out", tape.name));
            }
            progress.add_files(1);
        }
        for (files, bytes, one_wrap) in WAITS {
            waits.push(wait(tape, files, bytes, one_wrap, seeds(files)));
            progress.add_files(1);
        }
    }
    let exact = exact::compare();
    drop(progress);
    let bars = figures::bars(&rows, &exact);
    Ok(Report { rows, waits, exact, notes, bars })
}

/// Seconds that this thread has had of a processor: what else the machine does must not count.
fn processor_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn timed(
    tape: &Tape,
    head: BlockAddress,
    segments: &[Segment],
    aim: Aim,
    limits: &OrderLimits,
) -> (f64, Plan) {
    let before = processor_seconds();
    let plan = plan(&tape.track, head, segments, aim, limits);
    (processor_seconds() - before, plan)
}

/// Each row and seed has its own sequence.
fn random(files: usize, bytes: u64, seed: u64) -> SplitMix {
    SplitMix::new(seed ^ (files as u64) << 40 ^ bytes.rotate_left(20))
}

fn one(tape: &Tape, files: usize, bytes: u64, seed: u64) -> Run {
    let (head, segments) = tape.wanted(0..tape.blocks, files, bytes, &mut random(files, bytes, seed));
    let limits = OrderLimits::default();
    let (planning, plan) = timed(tape, head, &segments, Aim::LastFile, &limits);
    let cost = |order: Vec<usize>| trace(&tape.track, head, &segments, order).cost_us as f64 / 1e6;
    let located = |order: &[usize]| tape.locates_us(head, &segments, order) as f64 / 1e6;
    let optimum = (files <= OPTIMUM_MAX).then(|| {
        let improved = OrderLimits { optimum: 0, ..limits };
        let (_, plan) = timed(tape, head, &segments, Aim::LastFile, &improved);
        (tape.optimum_us(head, &segments) as f64, plan.cost_us as f64)
    });
    Run {
        planning,
        plan: plan.cost_us as f64 / 1e6,
        block: cost(block_order(&segments)),
        nearest: cost(nearest_first(&tape.track, head, &segments)),
        block_located: located(&block_order(&segments)),
        nearest_located: located(&tape.nearest_by_locates(head, &segments)),
        cta: located(&tape.cta(&segments)),
        optimum,
    }
}

fn wait(tape: &Tape, files: usize, bytes: u64, one_wrap: bool, seeds: u64) -> WaitRow {
    let (mut planning, mut waits) = (Vec::new(), Vec::new());
    let (mut to_block, mut to_nearest, mut to_last_file) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 0..seeds {
        let mut random = random(files, bytes, seed);
        let part = if one_wrap { tape.any_wrap(&mut random) } else { 0..tape.blocks };
        let (head, segments) = tape.wanted(part, files, bytes, &mut random);
        let limits = OrderLimits::default();
        let (took, plan) = timed(tape, head, &segments, Aim::MeanWait, &limits);
        let (_, last_file) = timed(tape, head, &segments, Aim::LastFile, &limits);
        let waited = |order: Vec<usize>| trace(&tape.track, head, &segments, order).waits_us as f64;
        let sum = plan.waits_us as f64;
        planning.push(took * 1e3);
        waits.push(sum / segments.len().max(1) as f64 / 1e6);
        to_block.push(sum / waited(block_order(&segments)));
        to_nearest.push(sum / waited(nearest_first(&tape.track, head, &segments)));
        to_last_file.push(sum / last_file.waits_us as f64);
    }
    WaitRow {
        tape: tape.name,
        one_wrap,
        file_bytes: bytes,
        files,
        seeds: seeds as usize,
        planning_ms: Spread::of(planning),
        wait: Spread::of(waits).median,
        to_block: Spread::of(to_block),
        to_nearest: Spread::of(to_nearest),
        to_last_file: Spread::of(to_last_file),
    }
}
