//! `simulator --seed N`: runs or replays worlds.

use simulator::run::{Plan, simulate};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let first = number("--seed").unwrap_or(1);
    let worlds = number("--worlds").unwrap_or(1);
    let (mut all, mut counters) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for seed in first..first + worlds {
        let begun = std::time::Instant::now();
        let report = simulate(Plan::new(seed));
        match &report.failure {
            Some(failure) => println!("seed {seed} {:?} FAILED: {failure}", report.profile),
            None => println!(
                "seed {seed} {:?} {} faults in {:?}",
                report.profile,
                report.total(),
                begun.elapsed()
            ),
        }
        for (name, count) in report.faults {
            *all.entry(name).or_insert(0u64) += count;
        }
        for (name, count) in report.counters {
            *counters.entry(name).or_insert(0u64) += count;
        }
    }
    println!("{all:#?}\n{counters:#?}");
}
