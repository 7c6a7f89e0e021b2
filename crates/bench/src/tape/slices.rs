//! Several things measured in turn.

use std::time::{Duration, Instant};

/// Does its work for about so long; gives how many bytes went through.
pub type Work = Box<dyn FnMut(Duration) -> Result<u64, String>>;

/// What was measured of one thing.
#[derive(Clone, Debug)]
pub struct Measured {
    pub name: &'static str,
    /// Bytes a second: the median of the slices.
    pub median: f64,
    /// Of all slices.
    pub bytes: u64,
    pub seconds: f64,
}

/// Repeats `step`, which moves `bytes`, for `time`.
pub fn repeat(
    time: Duration,
    bytes: usize,
    mut step: impl FnMut() -> Result<(), String>,
) -> Result<u64, String> {
    let begun = Instant::now();
    let mut moved = 0;
    while begun.elapsed() < time {
        step()?;
        moved += bytes as u64;
    }
    Ok(moved)
}

/// A slice of each, over and over.
pub fn in_turn(
    subjects: &mut [(&'static str, Work)],
    rounds: usize,
    slice: Duration,
    told: &dyn Fn(usize),
) -> Result<Vec<Measured>, String> {
    let mut slices = vec![Vec::with_capacity(rounds); subjects.len()];
    for round in 0..rounds {
        for ((_, work), slices) in subjects.iter_mut().zip(&mut slices) {
            let begun = Instant::now();
            let bytes = work(slice)?;
            slices.push((bytes, begun.elapsed().as_secs_f64()));
        }
        told(round + 1);
    }
    let names = subjects.iter().map(|(name, _)| *name);
    Ok(names.zip(slices).map(|(name, slices)| summed(name, &slices)).collect())
}

fn summed(name: &'static str, slices: &[(u64, f64)]) -> Measured {
    let mut rates: Vec<f64> = slices.iter().map(|(bytes, seconds)| *bytes as f64 / seconds).collect();
    rates.sort_by(f64::total_cmp);
    Measured {
        name,
        median: rates.get(rates.len() / 2).copied().unwrap_or_default(),
        bytes: slices.iter().map(|(bytes, _)| bytes).sum(),
        seconds: slices.iter().map(|(_, seconds)| seconds).sum(),
    }
}
