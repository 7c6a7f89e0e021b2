//! `kist twin run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use report::outcome;
use report::stats::{Summary, summary};
use scenario::model::Model;
use scenario::{SEEDS_MAX, Scenario};
use serde_json::{Value, json};
use terminal::{Exit, Failure, Outcome, Progress, Table, output, parallel, text};

use crate::cli::Common;
use crate::commands::twin_scenario::{self, Read};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Figures are means over seeds, with the interval that holds the true mean in 95 of
100 cases; one long run is cut into batches for it. The same scenario and seed give
the same bytes of JSON. If an invariant does not hold the exit code is 1.

Examples:
  kist twin run examples/twin/small.toml
  kist twin run ours.toml --seeds 10 --report /tmp/ours --json > ours.json")]
pub struct Args {
    /// The scenario
    scenario: PathBuf,
    /// Write a page with pictures, index.html, and all figures, outcome.json, into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// So many seeds, from 1 on, in the place of the scenario's
    #[arg(long, value_name = "N", value_parser = parse_seeds)]
    seeds: Option<usize>,
    /// Only this variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Runs at a time; all cores unless said
    #[arg(long, value_name = "N", value_parser = parallel::parse_jobs)]
    threads: Option<usize>,
    /// Every figure, not only the main ones
    #[arg(long)]
    all: bool,
}

fn parse_seeds(text: &str) -> Result<usize, String> {
    let seeds = text.parse().ok().filter(|seeds| (1..=SEEDS_MAX).contains(seeds));
    seeds.ok_or_else(|| format!("it is 1 to {SEEDS_MAX}"))
}

/// What was run, and how long it took.
struct Ran {
    outcomes: Vec<Vec<outcome::Outcome>>,
    summary: Summary,
    elapsed: Duration,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let mut read = twin_scenario::read(&args.scenario)?;
    twin_scenario::keep(&mut read.scenario, args.variant.as_deref())?;
    if let Some(seeds) = args.seeds {
        for model in &mut read.scenario.variants {
            model.seeds = (1..=seeds as u64).collect();
        }
    }
    if let Some(directory) = &args.report {
        // Before the work, so that it is not for nothing.
        fs::create_dir_all(directory)
            .map_err(|error| Failure::io("making the report's directory", directory, &error))?;
    }
    let ran = runs(&read.scenario, args.threads, common.quiet);
    if let Some(directory) = &args.report {
        write_report(directory, &read, &ran)?;
    }
    match common.json {
        true => output::json(&as_json(&read.scenario, &ran, false))?,
        false => output::write(&written(&read.scenario, &ran, args))?,
    }
    let violations = violations(&ran);
    if violations.is_empty() {
        return Ok(());
    }
    let message =
        format!("{} found; please report it: {}", text::plural(violations.len() as u64, "violation"), {
            violations.join("; ")
        });
    Err(Failure::new(Exit::SomeFailed, message))
}

fn violations(ran: &Ran) -> Vec<String> {
    let outcomes = ran.outcomes.iter().flatten();
    let words = |outcome: &outcome::Outcome| {
        let violation = outcome.violation.as_ref()?;
        Some(format!("variant {:?}, seed {}: {violation}", outcome.variant, outcome.seed))
    };
    outcomes.filter_map(words).collect()
}

/// What comes of each variant with each seed, in the scenario's order.
pub fn outcomes(scenario: &Scenario, threads: Option<usize>, quiet: bool) -> Vec<Vec<outcome::Outcome>> {
    runs(scenario, threads, quiet).outcomes
}

/// Runs each variant with each seed.
fn runs(scenario: &Scenario, threads: Option<usize>, quiet: bool) -> Ran {
    let begun = Instant::now();
    let pair =
        |(at, model): (usize, &Model)| model.seeds.iter().map(move |seed| (at, *seed)).collect::<Vec<_>>();
    let runs: Vec<(usize, u64)> = scenario.variants.iter().enumerate().flat_map(pair).collect();
    let watch = Watch::new(scenario, &runs, quiet);
    let done: Mutex<Vec<(usize, u64, outcome::Outcome)>> = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    parallel::each(&runs, threads.unwrap_or(cores), &AtomicBool::new(false), |(at, seed)| {
        let Some(model) = scenario.variants.get(*at) else { return };
        let outcome = watch.run(model, *seed);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((*at, *seed, outcome));
    });
    drop(watch);
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // In the order of the scenario, whichever was done first.
    done.sort_by_key(|(at, seed, _)| runs.iter().position(|run| run == &(*at, *seed)));
    let mut outcomes: Vec<Vec<outcome::Outcome>> = scenario.variants.iter().map(|_| Vec::new()).collect();
    for (at, _, outcome) in done {
        outcomes[at].push(outcome);
    }
    let summary = summary(&outcomes);
    Ran { outcomes, summary, elapsed: begun.elapsed() }
}

/// How far all runs are.
struct Watch {
    progress: Progress,
    /// Simulated minutes of all runs.
    minutes: AtomicU64,
    events: AtomicU64,
    runs_done: AtomicU64,
    runs: u64,
}

impl Watch {
    fn new(scenario: &Scenario, runs: &[(usize, u64)], quiet: bool) -> Watch {
        let spans = runs.iter().filter_map(|(at, _)| scenario.variants.get(*at));
        let minutes: u64 = spans.map(|model| model.span.as_secs() / 60).sum();
        let progress = Progress::start_of("twin", "simulated hour", (minutes / 60).max(1), 0, quiet);
        let [simulated, events, runs_done] = [(); 3].map(|()| AtomicU64::new(0));
        Watch { progress, minutes: simulated, events, runs_done, runs: runs.len() as u64 }
    }

    fn run(&self, model: &Model, seed: u64) -> outcome::Outcome {
        let mut told = 0;
        let mut shown = Instant::now();
        let mut tell = |now: ::twin::moment::Moment, events: u64| {
            let minutes = now.0 / 60_000_000;
            self.minutes.fetch_add(minutes - told, Ordering::Relaxed);
            told = minutes;
            self.events.fetch_add(events, Ordering::Relaxed);
            if shown.elapsed() > Duration::from_millis(200) {
                shown = Instant::now();
                self.show();
            }
        };
        let outcome = ::twin::world::run_watched(model, seed, None, &mut tell);
        // A run that was over before its time leaves nothing to wait for.
        let whole = model.span.as_secs() / 60;
        self.minutes.fetch_add(whole.saturating_sub(told), Ordering::Relaxed);
        self.runs_done.fetch_add(1, Ordering::Relaxed);
        self.show();
        outcome
    }

    fn show(&self) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.progress.set(load(&self.minutes) / 60, 0);
        let seconds = self.progress.elapsed().as_secs_f64().max(1e-3);
        let (times, events) = (load(&self.minutes) as f64 * 60.0 / seconds, load(&self.events) as f64);
        let (done, runs) = (load(&self.runs_done), self.runs);
        self.progress.note(&format!(
            "{} times real time, {:.2} M events/s, {done} of {runs} runs done",
            text::count(times as u64),
            events / seconds / 1e6
        ));
    }
}

fn shown(ran: &Ran) -> Vec<&outcome::Outcome> {
    ran.outcomes.iter().filter_map(|seeds| seeds.first()).collect()
}

fn sentences(ran: &Ran) -> Vec<String> {
    report::sentences(&ran.summary, &shown(ran))
}

/// How much simulated time in how much of the user's: `1d 2h in 0.8 s, 960,000 events (1.20 M events/s)`.
fn speed(simulated: f64, events: u64, seconds: f64) -> String {
    let span = Duration::from_secs_f64(simulated.clamp(0.0, 1e15));
    let ratio = simulated / seconds.max(1e-3);
    format!(
        "{} simulated in {seconds:.1} s, {} times as fast as real time; {} events ({:.2} M events/s)",
        text::span(span),
        text::count(ratio.round() as u64),
        text::count(events),
        events as f64 / 1e6 / seconds.max(1e-3),
    )
}

fn written(scenario: &Scenario, ran: &Ran, args: &Args) -> String {
    let mut text = format!("{}\n", scenario.title);
    let all = || ran.outcomes.iter().flatten();
    let events: u64 = all().map(|outcome| outcome.events).sum();
    let seconds = ran.elapsed.as_secs_f64();
    let simulated: f64 = all().map(|outcome| outcome.end).sum();
    text.push_str(&format!(
        "{}, {}: {}\n\n",
        text::plural(scenario.variants.len() as u64, "variant"),
        text::plural(all().count() as u64, "run"),
        speed(simulated, events, seconds),
    ));
    let mut rows = ran.summary.rows(!args.all, report::leading(&ran.summary, &shown(ran))).into_iter();
    let headings = rows.next().unwrap_or_default();
    let headings = headings.iter().enumerate().map(|(at, heading)| match at {
        0 => heading.clone(),
        _ => format!(">{heading}"),
    });
    let headings: Vec<String> = headings.collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    rows.for_each(|row| table.row(row));
    text.push_str(&table.render());
    text.push('\n');
    for sentence in sentences(ran) {
        text.push_str(&format!("{sentence}\n"));
    }
    for violation in violations(ran) {
        text.push_str(&format!("\nVIOLATION: {violation}\n"));
    }
    if let Some(directory) = &args.report {
        text.push_str(&format!("\nReport: {}\n", directory.join("index.html").display()));
    }
    text
}

/// All figures; with the outcomes of all runs if `is_whole`. Nothing of how long it took: the same scenario
/// gives the same text.
fn as_json(scenario: &Scenario, ran: &Ran, is_whole: bool) -> Value {
    let mut value = json!({
        "title": scenario.title,
        "text": scenario.text,
        "site": scenario.site,
        "variants": ran.summary.variants,
        "sentences": sentences(ran),
        "violations": violations(ran),
    });
    if is_whole {
        value["outcomes"] = json!(ran.outcomes);
    } else {
        let short = ran.outcomes.iter().flatten().map(|outcome| {
            json!({
                "variant": outcome.variant, "seed": outcome.seed, "end": outcome.end,
                "warm_up": outcome.warm_up, "is_drained": outcome.is_drained, "events": outcome.events,
                "steps": outcome.steps, "totals": outcome.totals, "campaigns": outcome.campaigns,
                "classes": outcome.classes, "faults": outcome.faults, "checks": outcome.checks,
                "violation": outcome.violation,
            })
        });
        value["runs"] = json!(short.collect::<Vec<_>>());
    }
    value
}

fn write_report(directory: &Path, read: &Read, ran: &Ran) -> Outcome {
    let write = |name: &str, text: &str| {
        let file = directory.join(name);
        fs::write(&file, text).map_err(|error| Failure::io("writing the report", &file, &error))
    };
    let mut described = twin_scenario::described(read);
    if read.scenario.variants.is_empty() {
        described.parameters.clear();
    }
    write("index.html", &report::html(&described, &ran.outcomes))?;
    let figures = serde_json::to_string(&as_json(&read.scenario, ran, true))
        .map_err(|error| Failure::internal(error.to_string()))?;
    write("outcome.json", &(figures + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The speed counted events over wall time only, which says nothing of how long a year takes.
    #[test]
    fn the_speed_tells_simulated_time_over_wall_time() {
        let said = speed(86_400.0, 960_000, 0.8);
        let wanted = "24 h 00 min simulated in 0.8 s, 108,000 times as fast as real time; ";
        assert_eq!(said, wanted.to_owned() + "960,000 events (1.20 M events/s)");
        assert!(speed(f64::INFINITY, 0, 0.0).contains("0 events"));
    }
}
