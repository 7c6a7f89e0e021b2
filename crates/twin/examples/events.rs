//! How many events a second the world takes, in processor time: a campaign with 100,000 recalls that wait all
//! the time, users and ingest as at a Tier-1, and the first days of a scenario.
//! `cargo run --release -p twin --example events [RECALLS [SCENARIO [DAYS]]]`.

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use base::ByteCount;
use scenario::model::{ClassIndex, Model, Workload, WorkloadKind};
use support::{TB, arrivals, campaign, hold, hours, model};

/// Seconds for which this thread has had a processor, where the system tells it.
fn processor(began: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanos.map_or_else(|| began.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn tell(name: &str, model: &Model) {
    let began = Instant::now();
    let before = processor(began);
    let outcome = twin::run(model, 1);
    let took = processor(began) - before;
    let wall = began.elapsed().as_secs_f64();
    let (events, steps) = (outcome.events, outcome.steps);
    let all = (events + steps) as f64;
    let totals = &outcome.totals;
    let moved = (totals.files_read + totals.files_put).max(1);
    println!(
        "{name}: {took:.2} s of processor time ({wall:.2} s), \
         {events} events on the agenda and {steps} steps ({:.0} a second), \
         {} files read, {} put, {} wanted, {} hits, {} mounts, {:.2} us a file read or put, \
         virtual {:.1} days, drained: {}, {:?}",
        all / took,
        totals.files_read,
        totals.files_put,
        totals.files_wanted,
        totals.hits,
        totals.mounts,
        took * 1e6 / moved as f64,
        outcome.end / 86_400.0,
        outcome.is_drained,
        outcome.violation,
    );
}

fn campaigns(recalls: u64) {
    let mut waiting = model(24, 1, 18 * TB);
    hold(&mut waiting, 10 * recalls);
    campaign(&mut waiting, Some(recalls));
    if let WorkloadKind::Campaign { choice, window } = &mut waiting.workloads[0].kind {
        choice.shuffled = true;
        *window = 100_000;
    }
    waiting.site.pool.capacity = ByteCount(4_000 * TB);
    tell("campaign with 100,000 waiting", &waiting);
}

fn tier1(recalls: u64) {
    let mut year = model(24, 2, 18 * TB);
    hold(&mut year, 10_000_000);
    year.site.libraries[0].scratch = 2_000;
    year.site.pool.capacity = ByteCount(2_000 * TB);
    year.site.classes[0].data_set_files = 1_000;
    let days = recalls as f64 / 100_000.0;
    let kind = WorkloadKind::Users {
        arrivals: arrivals(100.0),
        files: 1_000,
        popularity: 0.5,
        repeat_per_mille: 100,
    };
    let end = Some(hours((days * 24.0) as u64));
    let of = |name: &str, kind| Workload {
        name: name.to_owned(),
        class: ClassIndex(0),
        kind,
        begin: hours(0),
        end,
        priority: 4,
    };
    year.workloads.push(of("users", kind));
    let kind = WorkloadKind::Ingest { arrivals: arrivals(100_000.0), burst: 1 };
    year.workloads.push(of("ingest", kind));
    year.until_done = false;
    year.span = hours((days * 24.0) as u64);
    year.step = hours(1);
    tell("users and ingest as at a Tier-1", &year);
}

/// The first days of the first variant of a scenario.
fn scenario(path: &str, days: u64) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let scenario = scenario::parse(path, &text, &|name| Err(format!("{name}: no sites here")));
    let scenario = scenario.unwrap_or_else(|error| panic!("{path}: {error}"));
    let Some(mut model) = scenario.variants.into_iter().next() else { return };
    model.span = Duration::from_secs(days * 86_400).min(model.span);
    model.warm_up = None;
    tell(&format!("the first {days} days of {path}"), &model);
}

fn main() {
    let mut words = std::env::args().skip(1);
    let recalls: u64 = words.next().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    if recalls > 0 {
        campaigns(recalls);
        tier1(recalls);
    }
    if let Some(path) = words.next() {
        scenario(&path, words.next().and_then(|days| days.parse().ok()).unwrap_or(10));
    }
}
