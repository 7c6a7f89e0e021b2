//! Where a run has settled.

/// Values of a batch.
const BATCH: usize = 5;
/// Below so many batches nothing can be said.
const BATCHES_MIN: usize = 10;

/// How many values at the beginning are warm-up, by MSER-5 (K. P. White, "An effective truncation heuristic
/// for
/// bias reduction in simulation output", Simulation 69(6), 1997; K. P. White, M. J. Cobb, S. C. Spratt, WSC
/// 2000):
/// the beginning is cut where the standard error of the mean of the rest, taken over batches of five, is
/// least.
///
/// At most half of the run is cut; a run of fewer than 50 values is not cut at all.
#[must_use]
pub fn warm_up_bins(values: &[f64]) -> usize {
    let means: Vec<f64> =
        values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let count = means.len();
    if count < BATCHES_MIN {
        return 0;
    }
    // From the end, so that each cut's mean and sum of squares follow from the one after it (Welford).
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (taken, value) in means.iter().rev().enumerate() {
        let taken = taken + 1;
        let delta = value - mean;
        mean += delta / taken as f64;
        squares += delta * (value - mean);
        let cut = count - taken;
        let error = squares / (taken as f64 * taken as f64);
        // Of equal errors the shorter cut: `<=`, as cuts become shorter.
        if cut <= count / 2 && error <= best.0 {
            best = (error, cut);
        }
    }
    best.1 * BATCH
}

#[cfg(test)]
mod tests {
    use super::*;
    use durability::SplitMix;

    #[test]
    fn a_ramp_at_the_beginning_is_cut_and_a_settled_run_is_not() {
        let mut random = SplitMix::new(7);
        let noise: Vec<f64> = (0..1_000).map(|_| random.unit()).collect();
        let ramp: Vec<f64> =
            noise.iter().enumerate().map(|(at, x)| x + 20.0 * (1.0 - at as f64 / 200.0).max(0.0)).collect();
        let cut = warm_up_bins(&ramp);
        assert!((170..=230).contains(&cut), "{cut}");
        assert!(warm_up_bins(&noise) < 150, "{}", warm_up_bins(&noise));
    }

    #[test]
    fn short_and_constant_runs_are_kept_whole() {
        assert_eq!(warm_up_bins(&[9.0; 49]), 0);
        assert_eq!(warm_up_bins(&[4.0; 500]), 0);
        assert_eq!(warm_up_bins(&[]), 0);
    }
}
