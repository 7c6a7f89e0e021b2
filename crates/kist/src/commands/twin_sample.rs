//! `kist twin sample`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use report::with_interval;
use sample::{
    Compared, Draw, Estimated, Observation, Population, SampleError, Shrinking, compare, draw, estimates,
    observe, shrunk,
};
use scenario::model::Model;
use scenario::{RUN_MIN, Sampling};
use serde_json::{Value, json};
use terminal::{Exit, Failure, Outcome, Progress, Table, output, parallel, text};

use crate::cli::Common;
use crate::commands::twin_scenario;

/// Sizes of samples that are compared with all units.
const RUNS: [u32; 3] = [5, 10, 20];
/// Samples of each size, unless said.
const SAMPLES: usize = 10;
/// The most of them.
const SAMPLES_MAX: usize = 1_000;
/// Runs of all units.
const WHOLES: u64 = 1;
/// The first seed of a sample that is compared: none of those that all units are run with.
const SAMPLE_SEEDS: u64 = 1_001;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The scenario describes one unit, and [sample] says how many there are and how many of
them are run. Then the same is done where each unit is a hundredth as large: there all
units are run too, and the table says how far samples were off and how often the
interval that they stated held the truth.

Examples:
  kist twin sample examples/twin/exabyte.toml
  kist twin sample examples/twin/exabyte.toml --only check --samples 20 --json")]
pub struct Args {
    /// The scenario; its table `sample` says how many units there are
    scenario: PathBuf,
    /// How much smaller units are where all of them are run too
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,
    /// Do only one of the two
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Simulated days of these runs at most; a run of all units takes minutes for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    check_days: u32,
    /// Samples of each size that are compared with all units
    #[arg(long, value_name = "N", default_value_t = SAMPLES, value_parser = parse_samples)]
    samples: usize,
    /// Only this variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Runs at a time; all cores unless said
    #[arg(long, value_name = "N", value_parser = parallel::parse_jobs)]
    threads: Option<usize>,
}

/// A part of the work.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The sample of the site as it is described
    Sample,
    /// Samples beside runs of all units, at a smaller scale
    Check,
}

fn parse_samples(text: &str) -> Result<usize, String> {
    let samples = text.parse().ok().filter(|samples| (1..=SAMPLES_MAX).contains(samples));
    samples.ok_or_else(|| format!("it is 1 to {SAMPLES_MAX}"))
}

/// A model to be run.
struct Job {
    unit: Model,
    draw: Draw,
}

/// What came of it.
struct Done {
    observation: Observation,
    events: u64,
    seconds: f64,
    violation: Option<String>,
}

/// One variant.
struct Sampled {
    name: String,
    sampling: Sampling,
    span: Duration,
    sample: Option<AsDescribed>,
    check: Option<Check>,
    violations: Vec<String>,
}

/// The site as it is described.
struct AsDescribed {
    figures: Vec<Estimated>,
    work: Work,
}

/// At a smaller scale.
struct Check {
    by: Shrinking,
    samples: usize,
    figures: Vec<Compared>,
    whole: Work,
    sampled: Work,
}

/// What runs took.
#[derive(Clone, Copy, Default)]
struct Work {
    runs: usize,
    events: u64,
    seconds: f64,
}

impl Work {
    fn of<'a>(done: impl Iterator<Item = &'a Done>) -> Work {
        done.fold(Work::default(), |sum, done| Work {
            runs: sum.runs + 1,
            events: sum.events + done.events,
            seconds: sum.seconds + done.seconds,
        })
    }

    fn written(&self) -> String {
        let (runs, events) = (text::plural(self.runs as u64, "run"), text::count(self.events));
        format!("{runs}, {events} events, {:.1} s", self.seconds)
    }
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let mut scenario = twin_scenario::read(&args.scenario)?.scenario;
    twin_scenario::keep(&mut scenario, args.variant.as_deref())?;
    let mut sampled = Vec::new();
    for (model, sampling) in scenario.variants.iter().zip(&scenario.samples) {
        let Some(sampling) = sampling else {
            let message = format!(
                "{}: variant {:?} has no [sample]: add it, with units and run (docs/reference/twin.md), or \
                 use kist twin run",
                args.scenario.display(),
                model.name
            );
            return Err(Failure::usage(message));
        };
        sampled.push(one(model, sampling, args, common.quiet)?);
    }
    match common.json {
        true => output::json(&as_json(&scenario.title, &sampled))?,
        false => output::write(&written(&scenario.title, &sampled))?,
    }
    let violations: Vec<&str> = sampled.iter().flat_map(|of| &of.violations).map(String::as_str).collect();
    if violations.is_empty() {
        return Ok(());
    }
    let found = text::plural(violations.len() as u64, "violation");
    let message = format!("{found} found; please report it: {}", violations.join("; "));
    Err(Failure::new(Exit::SomeFailed, message))
}

fn refused(error: SampleError) -> Failure {
    Failure::usage(error.to_string())
}

fn one(model: &Model, sampling: &Sampling, args: &Args, quiet: bool) -> Outcome<Sampled> {
    let population = Population::new(sampling);
    let job = |unit: &Model, run: u32, seed: u64| {
        let draw = draw(unit, &population, run, seed).map_err(refused)?;
        Ok::<Job, Failure>(Job { unit: unit.clone(), draw })
    };
    let mut jobs = Vec::new();
    if args.only != Some(Part::Check) {
        for seed in &model.seeds {
            jobs.push(job(model, sampling.run, *seed)?);
        }
    }
    let full = jobs.len();
    let mut small = shrunk(model, args.scale).map_err(refused)?;
    let days = base::Duration::from_secs(u64::from(args.check_days) * 86_400);
    small.model.span = small.model.span.min(days);
    let runs: Vec<u32> = RUNS.into_iter().filter(|run| (RUN_MIN..sampling.units).contains(run)).collect();
    let mut wholes = 0;
    if args.only != Some(Part::Sample) {
        for seed in 1..=WHOLES {
            jobs.push(job(&small.model, sampling.units, seed)?);
        }
        wholes = jobs.len();
        for run in &runs {
            for seed in SAMPLE_SEEDS..SAMPLE_SEEDS + args.samples as u64 {
                jobs.push(job(&small.model, *run, seed)?);
            }
        }
    }
    let done = all(&jobs, args.threads, quiet);
    let observed = |done: &[Done]| done.iter().map(|done| done.observation.clone()).collect::<Vec<_>>();
    let sample = (full > 0).then(|| AsDescribed {
        figures: estimates(&observed(&done[..full])),
        work: Work::of(done[..full].iter()),
    });
    let check = (wholes > full).then(|| {
        let samples: Vec<Vec<Observation>> = done[wholes..].chunks(args.samples).map(observed).collect();
        Check {
            by: small.by,
            samples: args.samples,
            figures: compare(&observed(&done[full..wholes]), &samples),
            whole: Work::of(done[full..wholes].iter()),
            sampled: Work::of(done[wholes..].iter()),
        }
    });
    let violations = done.iter().filter_map(|done| done.violation.clone()).collect();
    let (name, sampling, span) = (model.name.clone(), *sampling, model.span);
    Ok(Sampled { name, sampling, span, sample, check, violations })
}

/// Runs all jobs, the largest first in the order given; results are in that order.
fn all(jobs: &[Job], threads: Option<usize>, quiet: bool) -> Vec<Done> {
    let days = |job: &Job| job.draw.model.span.as_secs() / 86_400 * job.draw.chosen.len() as u64;
    let progress =
        Progress::start_of("twin", "simulated unit-day", jobs.iter().map(days).sum::<u64>().max(1), 0, quiet);
    let over = AtomicU64::new(0);
    let done: Mutex<Vec<(usize, Done)>> = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let numbered: Vec<(usize, &Job)> = jobs.iter().enumerate().collect();
    parallel::each(&numbered, threads.unwrap_or(cores), &AtomicBool::new(false), |(at, job)| {
        let begun = Instant::now();
        let outcome = ::twin::run(&job.draw.model, job.draw.seed);
        let found = Done {
            observation: observe(&job.unit, &job.draw, &outcome),
            events: outcome.events,
            seconds: begun.elapsed().as_secs_f64(),
            violation: outcome.violation.map(|words| {
                format!(
                    "{} of {} units, seed {}: {words}",
                    job.draw.chosen.len(),
                    job.draw.units,
                    job.draw.seed
                )
            }),
        };
        progress.set(over.fetch_add(days(job), Ordering::Relaxed) + days(job), 0);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((*at, found));
    });
    drop(progress);
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

fn name(figure: &report::stats::Figure) -> String {
    match figure.of.as_str() {
        "" => figure.name.to_owned(),
        of => format!("{of}: {}", figure.name),
    }
}

fn written(title: &str, sampled: &[Sampled]) -> String {
    let mut text = format!("{title}\n");
    for of in sampled {
        let Sampling { units, run, spread, .. } = of.sampling;
        if sampled.len() > 1 {
            text.push_str(&format!("\nVariant {}\n", of.name));
        }
        if let Some(part) = &of.sample {
            text.push_str(&format!(
                "\n{run} of {units} units, spread {spread}, {}: {}\n\n",
                text::span(of.span),
                part.work.written()
            ));
            let mut table = Table::new(&["", ">all units"]);
            for of in &part.figures {
                table.row(vec![name(&of.figure), with_interval(&of.estimate, of.figure.unit)]);
            }
            text.push_str(&table.render());
        }
        if let Some(check) = &of.check {
            text.push_str(&checked(check, units));
        }
        for violation in &of.violations {
            text.push_str(&format!("\nVIOLATION: {violation}\n"));
        }
    }
    text
}

fn checked(check: &Check, units: u32) -> String {
    let Shrinking { scale, drives_before, drives, load } = check.by;
    let mut text = format!(
        "\nAt 1/{scale}: files on tape 1/{scale}, {drives} of {drives_before} drives,\n\
         requests and pool {:.4}; \
         all {units} units: {}; samples: {}\n\n",
        load,
        check.whole.written(),
        check.sampled.written()
    );
    let runs: Vec<u32> =
        check.figures.first().map_or(Vec::new(), |of| of.samples.iter().map(|it| it.run).collect());
    let headings = runs.iter().map(|run| format!(">off with {run} (stated, held)"));
    let headings: Vec<String> =
        [String::new(), ">all units".to_owned()].into_iter().chain(headings).collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for of in &check.figures {
        let mut row = vec![name(&of.figure), with_interval(&of.whole, of.figure.unit)];
        row.extend(of.samples.iter().map(|it| {
            let (off, stated) = (100.0 * it.off, 100.0 * it.stated);
            format!("{off:.1} % (±{stated:.1} %, {} of {})", it.covered, it.intervals)
        }));
        table.row(row);
    }
    text.push_str(&table.render());
    text.push_str(
        "\noff: mean over samples of how far each was off; stated: mean of the half 95 % intervals\n",
    );
    text
}

fn as_json(title: &str, sampled: &[Sampled]) -> Value {
    let variant = |of: &Sampled| {
        let Sampling { units, run, spread, seed } = of.sampling;
        let sample =
            of.sample.as_ref().map(|part| json!({"figures": part.figures, "events": part.work.events}));
        let check = of.check.as_ref().map(|check| {
            json!({
                "by": check.by, "samples": check.samples, "figures": check.figures,
                "events": check.whole.events + check.sampled.events,
            })
        });
        json!({
            "name": of.name, "units": units, "run": run, "spread": spread, "seed": seed,
            "sample": sample, "check": check, "violations": of.violations,
        })
    };
    json!({"title": title, "variants": sampled.iter().map(variant).collect::<Vec<_>>()})
}
