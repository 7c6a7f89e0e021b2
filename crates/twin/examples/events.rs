//! How many events a second the world takes: 24 drives, 100,000 recalls that wait all the time, and as many
//! puts as recalls. `cargo run --release -p twin --example events [RECALLS]`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use base::ByteCount;
use support::{GB, TB, arrivals, campaign, hold, hours, model};
use twin::model::{ClassIndex, Model, Workload, WorkloadKind};

fn tell(name: &str, model: &Model) {
    let began = Instant::now();
    let outcome = twin::run(model, 1);
    let took = began.elapsed().as_secs_f64();
    let (events, steps) = (outcome.events, outcome.steps);
    let totals = &outcome.totals;
    let recalled = totals.files_read.max(1);
    println!(
        "{name}: {took:.2} s, {events} events ({:.0} a second), {steps} steps ({:.0} a second), \
         {} files read, {} put, {} mounts, {:.1} us a file read, virtual {:.1} days, drained: {}, {:?}",
        events as f64 / took,
        steps as f64 / took,
        totals.files_read,
        totals.files_put,
        totals.mounts,
        took * 1e6 / recalled as f64,
        outcome.end / 86_400.0,
        outcome.is_drained,
        outcome.violation,
    );
}

fn main() {
    let recalls: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);

    let mut waiting = model(24, 1, 18 * TB);
    hold(&mut waiting, 10 * recalls);
    campaign(&mut waiting, Some(recalls));
    if let WorkloadKind::Campaign { choice, window } = &mut waiting.workloads[0].kind {
        (choice.shuffled, choice.share_per_mille) = (true, 100);
        *window = 100_000;
    }
    waiting.site.pool.capacity = ByteCount(4_000 * TB);
    tell("campaign with 100,000 waiting", &waiting);

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
    let _ = GB;
}
