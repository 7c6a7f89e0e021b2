//! The order of tapes beside the oldest first, on a grid of loads: the table in docs/reference/ordering.md.
//! `cargo run --release -p twin --example tape_choice [SEEDS [WORD]]`; WORD: only rows with this in their
//! names.

#[path = "../tests/it/support/mod.rs"]
mod support;

use support::GB;
use support::choice::{Figures, Load, Pair, SINGLE};

fn grid() -> Vec<Load> {
    let mut grid: Vec<Load> =
        [0.5, 0.6, 0.7, 0.8, 0.9, 0.95].into_iter().map(|load| Load { load, ..SINGLE }).collect();
    let small = Load { name: "one drive, 2 GB", mean: 2 * GB, service: 155.0, ..SINGLE };
    let alone = Load { load: 0.0, ..SINGLE };
    grid.extend([
        Load { name: "four drives", drives: 4, load: 0.7, ..SINGLE },
        Load { name: "four drives", drives: 4, ..SINGLE },
        Load { name: "16 drives", drives: 16, hours: 24 * 10, ..SINGLE },
    ]);
    let robots =
        |mounts: usize, name, load| Load { name, mounts, load, drives: 16, hours: 24 * 10, ..SINGLE };
    grid.extend([
        robots(8, "16 drives, 8 mounts", 0.9),
        robots(5, "16 drives, 5 mounts", 0.9),
        robots(4, "16 drives, 4 mounts", 0.5),
        robots(4, "16 drives, 4 mounts", 0.6),
        robots(4, "16 drives, 4 mounts", 0.7),
        robots(4, "16 drives, 4 mounts", 0.8),
        robots(4, "16 drives, 4 mounts", 0.9),
        Load { drives: 4, ..robots(1, "four drives, one mount", 0.5) },
        Load { drives: 4, ..robots(1, "four drives, one mount", 0.6) },
        Load { drives: 4, ..robots(1, "four drives, one mount", 0.7) },
    ]);
    grid.extend([
        Load { load: 0.7, ..small },
        small,
        Load { name: "one drive, 30 tapes", tapes: 30, ..SINGLE },
        Load { name: "one drive, two copies", copies: 2, tapes: 100, ..SINGLE },
        Load { name: "one drive, 100 whole tapes", load: 0.5, campaign: 100, hours: 24 * 14, ..SINGLE },
        Load {
            name: "four drives, 200 whole tapes",
            drives: 4,
            load: 0.5,
            campaign: 200,
            hours: 240,
            ..SINGLE
        },
        Load { name: "one drive, 40 whole tapes", campaign: 40, ..alone },
        Load {
            name: "four drives, 100 whole tapes, duplicates",
            drives: 4,
            campaign: 100,
            duplicates: 300,
            ..alone
        },
        Load {
            name: "one drive, 400 whole tapes of 1 GB, duplicates",
            mean: GB,
            campaign: 400,
            duplicates: 300,
            ..alone
        },
    ]);
    grid
}

/// With the oldest first, and how much it is now.
fn cell(pair: &Pair, what: impl Fn(&Figures) -> f64 + Copy) -> String {
    let comparison = pair.of(what);
    let Some(ratio) = comparison.ratio else { return "-".to_owned() };
    let (before, difference) = (pair.oldest(what), comparison.difference);
    let half = difference.half_width.unwrap_or(f64::NAN) / before;
    format!("{before:.0}: {ratio:.3} ± {half:.3}")
}

fn main() {
    let seeds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let word = std::env::args().nth(2).unwrap_or_default();
    println!("| drives | load | mean wait | of single files | longest | campaign | mounts |");
    println!("|---|---|---|---|---|---|---|");
    for load in grid().into_iter().filter(|load| load.name.contains(&word)) {
        let pair = load.compare(seeds);
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            load.name,
            if load.load > 0.0 { load.load.to_string() } else { "-".to_owned() },
            cell(&pair, |run| run.all),
            cell(&pair, |run| run.users),
            cell(&pair, |run| run.longest),
            cell(&pair, |run| run.campaign),
            cell(&pair, |run| run.mounts),
        );
    }
}
