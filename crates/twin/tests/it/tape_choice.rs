//! The order of tapes is never worse than the oldest first. The whole grid: `examples/tape_choice.rs`.

use crate::support::GB;
use crate::support::choice::{Load, SINGLE};
use report::stats::Comparison;

/// Not worse: either less, or the interval of the difference has 0 in it, or it is less than a part in 200.
fn assert_no_worse(load: &Load, what: &str, found: Comparison) {
    let ratio = found.ratio.unwrap_or(1.0);
    let is_worse = ratio > 1.005 && found.is_different != Some(false);
    assert!(!is_worse, "{} at {}: {what} is {ratio:.3} of that with the oldest first", load.name, load.load);
}

fn check(load: &Load) -> f64 {
    let pair = load.compare(5);
    assert_no_worse(load, "the mean wait", pair.of(|run| run.all));
    assert_no_worse(load, "the mean wait of single files", pair.of(|run| run.users));
    assert_no_worse(load, "the campaign's span", pair.of(|run| run.campaign));
    // Tapes that are mounted sooner have gathered a little less.
    let mounts = pair.of(|run| run.mounts).ratio.unwrap_or(1.0);
    assert!(mounts < 1.02, "{}: {mounts:.3} of the mounts", load.name);
    pair.of(|run| run.all).ratio.unwrap_or(1.0)
}

/// Until 2026-11 the tape with the most bytes went first: 1.56 of the mean wait at a load of 0.9.
#[test]
fn single_files_wait_less_than_with_the_oldest_first() {
    for load in [0.5, 0.7, 0.9, 0.95] {
        let ratio = check(&Load { load, hours: 24 * 15, ..SINGLE });
        assert!(ratio < 0.95, "{ratio:.3} of the wait at a load of {load}");
    }
    check(&Load { name: "small files", mean: 2 * GB, service: 155.0, hours: 24 * 10, ..SINGLE });
    check(&Load { name: "four drives", drives: 4, hours: 24 * 10, ..SINGLE });
}

/// Until 2026-11 drive time alone counted here too: 1.10 of the mean wait where 16 drives share four mounts.
#[test]
fn where_mounts_are_scarce_no_file_waits_longer() {
    check(&Load { name: "one mount at once", drives: 4, mounts: 1, load: 0.7, hours: 24 * 5, ..SINGLE });
    check(&Load { name: "four mounts at once", drives: 16, mounts: 4, hours: 24 * 5, ..SINGLE });
}

#[test]
fn whole_tapes_lose_nothing() {
    check(&Load { name: "whole tapes", load: 0.0, campaign: 40, ..SINGLE });
    check(&Load { name: "duplicates", load: 0.0, drives: 4, campaign: 50, duplicates: 300, ..SINGLE });
    let mixture = Load { name: "a mixture", load: 0.5, drives: 2, hours: 24 * 5, ..SINGLE };
    check(&Load { campaign: 50, ..mixture });
}
