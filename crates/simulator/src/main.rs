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
    for seed in first..first + worlds {
        let begun = std::time::Instant::now();
        let report = simulate(Plan::new(seed));
        println!("{:?} in {:?}", report, begun.elapsed());
    }
}
