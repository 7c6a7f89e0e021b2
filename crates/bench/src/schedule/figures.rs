//! Rows and bars.

use serde::Serialize;

/// A row whose bar is about its cost: 512 files of 2 GB on LTO-8.
pub const BAR_CASE: (&str, u64, usize) = ("LTO-8", 2_000_000_000, 512);
/// The bars.
const TO_NEAREST_MOST: f64 = 0.92;
const SECONDS_MOST: f64 = 1.0;
const LARGE: usize = 100_000;
const CASES_LEAST: f64 = 1_000.0;

/// The middle and the worst of some runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Half of the runs are not above it.
    pub median: f64,
    /// The highest.
    pub worst: f64,
}

impl Spread {
    /// Of all runs; zero of none.
    pub fn of(runs: impl IntoIterator<Item = f64>) -> Self {
        let mut runs: Vec<f64> = runs.into_iter().collect();
        runs.sort_by(f64::total_cmp);
        let middle = runs.get(runs.len() / 2).or(runs.last());
        Spread { median: middle.copied().unwrap_or(0.0), worst: runs.last().copied().unwrap_or(0.0) }
    }
}

/// One run: one random head and one random set of files. Times are seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Processor time of planning.
    pub planning: f64,
    /// Cost of the plan.
    pub plan: f64,
    /// Block order, small gaps read through.
    pub block: f64,
    /// Nearest first from the head, small gaps read through.
    pub nearest: f64,
    /// Block order by locates alone.
    pub block_located: f64,
    /// Nearest first by locates alone.
    pub nearest_located: f64,
    /// As CTA does it.
    pub cta: f64,
    /// The best of all orders, for few files, and the plan that did not compare all.
    pub optimum: Option<(f64, f64)>,
}

/// All runs of one tape, size and number of files.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The tape.
    pub tape: &'static str,
    /// Bytes of each file.
    pub file_bytes: u64,
    /// Wanted files.
    pub files: usize,
    /// Runs, each with its own seed.
    pub seeds: usize,
    /// Processor time of planning, milliseconds.
    pub planning_ms: Spread,
    /// Locates and gaps read through for each file of each order, seconds, medians.
    pub seconds_a_file: Seconds,
    /// The plan's cost divided by that of others.
    pub to_block: Spread,
    /// The same.
    pub to_cta: Spread,
    /// The same; both from where the head stands, both with reading through.
    pub to_nearest: Spread,
    /// The plan without comparing all orders, divided by the best of all orders; for few files.
    pub to_optimum: Option<Spread>,
    /// Runs in which the plan cost more than the better of block order and nearest first.
    pub above: usize,
}

/// Medians, seconds a file.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Seconds {
    /// The plan.
    pub plan: f64,
    /// Nearest first from the head.
    pub nearest: f64,
    /// Block order.
    pub block: f64,
    /// As CTA does it.
    pub cta: f64,
    /// Nearest first without reading through.
    pub nearest_located: f64,
    /// Block order without reading through.
    pub block_located: f64,
}

impl Row {
    /// Of its runs.
    pub fn of(tape: &'static str, file_bytes: u64, files: usize, runs: &[Run]) -> Self {
        let each = |value: fn(&Run) -> f64| Spread::of(runs.iter().map(value));
        let a_file = |value: fn(&Run) -> f64| each(value).median / files as f64;
        let optimum: Vec<f64> =
            runs.iter().filter_map(|run| run.optimum).map(|(best, plan)| plan / best).collect();
        Row {
            tape,
            file_bytes,
            files,
            seeds: runs.len(),
            planning_ms: each(|run| run.planning * 1e3),
            seconds_a_file: Seconds {
                plan: a_file(|run| run.plan),
                nearest: a_file(|run| run.nearest),
                block: a_file(|run| run.block),
                cta: a_file(|run| run.cta),
                nearest_located: a_file(|run| run.nearest_located),
                block_located: a_file(|run| run.block_located),
            },
            to_block: each(|run| run.plan / run.block),
            to_cta: each(|run| run.plan / run.cta),
            to_nearest: each(|run| run.plan / run.nearest),
            to_optimum: (!optimum.is_empty()).then(|| Spread::of(optimum)),
            above: runs.iter().filter(|run| run.plan > run.block.min(run.nearest)).count(),
        }
    }
}

/// Where users wait for each file: mean waits of plans for that, against others.
#[derive(Clone, Debug, Serialize)]
pub struct WaitRow {
    /// The tape.
    pub tape: &'static str,
    /// Whether all files are on one wrap.
    pub one_wrap: bool,
    /// Bytes of each file.
    pub file_bytes: u64,
    /// Wanted files.
    pub files: usize,
    /// Runs.
    pub seeds: usize,
    /// Processor time of planning, milliseconds.
    pub planning_ms: Spread,
    /// Mean wait of a file, seconds, median of the runs.
    pub wait: f64,
    /// Its ratio to block order.
    pub to_block: Spread,
    /// Its ratio to nearest first.
    pub to_nearest: Spread,
    /// Its ratio to the plan that has the last file early.
    pub to_last_file: Spread,
}

/// A bar of the design.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// In words.
    pub bar: &'static str,
    /// `reached`, `missed` or `not measured`.
    pub verdict: &'static str,
    /// What was measured.
    pub measured: Option<f64>,
    /// Its bound.
    pub bound: f64,
    /// Runs that it is about.
    pub runs: usize,
}

/// Exhaustive search against the exact dynamic programme.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Exact {
    /// Cases.
    pub cases: usize,
    /// Of these, both gave the same cost.
    pub equal: usize,
    /// The programme without nesting, divided by the best of all orders.
    pub simple: Spread,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Planning and costs.
    pub rows: Vec<Row>,
    /// Where users wait for each file.
    pub waits: Vec<WaitRow>,
    /// The exact programme.
    pub exact: Exact,
    /// What does not fit on the tape, or was given fewer seeds.
    pub notes: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// The bars of the design against what was measured.
pub fn bars(rows: &[Row], exact: &Exact) -> Vec<Bar> {
    let bar = |bar, bound, runs, measured: Option<f64>, reached: fn(f64, f64) -> bool| {
        let verdict = match measured {
            None => "not measured",
            Some(measured) if reached(measured, bound) => "reached",
            Some(_) => "missed",
        };
        Bar { bar, verdict, measured, bound, runs }
    };
    let case = rows.iter().find(|row| (row.tape, row.file_bytes, row.files) == BAR_CASE);
    let large: Vec<&Row> = rows.iter().filter(|row| row.files == LARGE).collect();
    let slowest = large.iter().map(|row| row.planning_ms.worst / 1e3).max_by(f64::total_cmp);
    let runs = rows.iter().map(|row| row.seeds).sum();
    let above = rows.iter().map(|row| row.above).sum::<usize>() as f64;
    let equal = if exact.cases == exact.equal { exact.equal as f64 } else { 0.0 };
    vec![
        bar(
            "512 files of 2 GB on LTO-8: median cost ≤ 0.92 × nearest first from the same head",
            TO_NEAREST_MOST,
            case.map_or(0, |row| row.seeds),
            case.map(|row| row.to_nearest.median),
            |measured, bound| measured <= bound,
        ),
        bar(
            "runs above the better of block order and nearest first: none",
            0.0,
            runs,
            (runs > 0).then_some(above),
            |measured, bound| measured <= bound,
        ),
        bar(
            "100,000 files of one tape ordered in < 1 s of one core, the slowest run",
            SECONDS_MOST,
            large.iter().map(|row| row.seeds).sum(),
            slowest,
            |measured, bound| measured < bound,
        ),
        bar(
            "exact programme = search through all orders, ≥ 1,000 cases, all equal",
            CASES_LEAST,
            exact.cases,
            Some(equal),
            |measured, bound| measured >= bound,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(plan: f64, planning: f64, files: usize) -> Row {
        let run = Run { planning, plan, block: 3.0, nearest: 1.0, cta: 2.0, ..Run::default() };
        Row::of(BAR_CASE.0, BAR_CASE.1, files, &[run, run])
    }

    fn verdicts(rows: &[Row], equal: usize) -> Vec<&'static str> {
        let exact = Exact { cases: 1_000, equal, simple: Spread::of([1.0]) };
        bars(rows, &exact).iter().map(|bar| bar.verdict).collect()
    }

    #[test]
    fn bars_are_reached_and_missed() {
        let good = [row(0.92, 0.1, 512), row(1.0, 0.9, LARGE)];
        assert_eq!(verdicts(&good, 1_000), ["reached"; 4]);
        let bad = [row(1.01, 0.1, 512), row(1.0, 1.0, LARGE)];
        assert_eq!(verdicts(&bad, 999), ["missed"; 4]);
        assert_eq!(verdicts(&[], 1_000), ["not measured", "not measured", "not measured", "reached"]);
    }

    #[test]
    fn the_median_and_the_worst_of_runs() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.worst), (2.0, 3.0));
        assert_eq!(Spread::of([]).worst, 0.0);
    }
}
