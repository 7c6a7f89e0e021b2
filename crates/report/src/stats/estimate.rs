//! Means with two-sided 95 % confidence intervals, after Student's t distribution.

use serde::Serialize;

/// Batches into which one long run is cut: 10 to 30 serve best (B. Schmeiser, "Batch size effects in the
/// analysis of simulation output", Operations Research 30(3), 1982).
const BATCHES: usize = 20;

/// Quantile 0.975 of Student's t for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
    2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
    2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272,
];

/// A mean and how sure it is.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval; nothing where a single value says nothing of it.
    pub half_width: Option<f64>,
    /// Values, or batches, that it was made of.
    pub count: usize,
}

/// Two variants, run with the same seeds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Comparison {
    /// The variant less the one it is compared with, seed by seed.
    pub difference: Estimate,
    /// Mean over mean; nothing where the other's mean is 0.
    pub ratio: Option<f64>,
    /// Whether the interval of the difference leaves out 0; nothing where there is no interval.
    pub is_different: Option<bool>,
}

/// The mean of values that do not depend on each other, such as one for each seed; 0 if there are none.
#[must_use]
pub fn estimate(values: &[f64]) -> Estimate {
    let count = values.len();
    if count == 0 {
        return Estimate::default();
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    let half_width = (count > 1).then(|| {
        let freedom = count - 1;
        t_975(freedom) * (squares / freedom as f64 / count as f64).sqrt()
    });
    Estimate { mean, half_width, count }
}

/// The mean of values of one long run that follow each other: 20 batches of equal length, whose means hardly
/// depend on each other. Fewer than 100 values give no interval. What does not fill a batch, at the
/// beginning, is
/// left out of the interval only.
#[must_use]
pub fn batch_means(values: &[f64]) -> Estimate {
    let whole = estimate(values);
    let length = values.len() / BATCHES;
    if length < 5 {
        return Estimate { half_width: None, count: 1, ..whole };
    }
    let rest = values.len() - length * BATCHES;
    let means: Vec<f64> =
        values[rest..].chunks_exact(length).map(|batch| batch.iter().sum::<f64>() / length as f64).collect();
    Estimate { mean: whole.mean, half_width: estimate(&means).half_width, count: BATCHES }
}

/// A variant against another one: values of the same seeds in the same order. Where one has more values, the
/// rest of them counts for the ratio only.
#[must_use]
pub fn compare(variant: &[f64], other: &[f64]) -> Comparison {
    let differences: Vec<f64> = variant.iter().zip(other).map(|(mine, others)| mine - others).collect();
    let difference = estimate(&differences);
    let base = estimate(other).mean;
    Comparison {
        difference,
        ratio: (base != 0.0).then(|| estimate(variant).mean / base),
        is_different: difference.half_width.map(|half| difference.mean.abs() > half),
    }
}

/// Quantile 0.975 of Student's t. Above 30 degrees of freedom by the expansion of Cornish and Fisher about
/// the
/// normal quantile, which is right to 0.0001 there.
#[must_use]
pub fn t_975(freedom: usize) -> f64 {
    assert!(freedom > 0, "no interval from one value");
    if let Some(t) = T_975.get(freedom - 1) {
        return *t;
    }
    let (z, n) = (1.959_963_985, freedom as f64);
    let (z3, z5) = (z * z * z, z * z * z * z * z);
    z + (z3 + z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use durability::SplitMix;

    #[test]
    fn students_t_is_that_of_the_tables() {
        for (freedom, t) in
            [(1, 12.7062), (4, 2.7764), (30, 2.0423), (40, 2.021_075), (60, 2.000_298), (120, 1.979_930)]
        {
            assert!((t_975(freedom) - t).abs() < 1e-4, "{freedom}: {}", t_975(freedom));
        }
        assert!((1..200).all(|freedom| t_975(freedom) > t_975(freedom + 1)));
    }

    #[test]
    fn an_interval_is_that_of_a_worked_example() {
        // Mean 5, standard deviation 1.581139, over the root of 5: 0.707107; times 2.776445.
        let found = estimate(&[3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!((found.mean, found.count), (5.0, 5));
        assert!((found.half_width.unwrap() - 1.963_243).abs() < 1e-5);
        assert_eq!(estimate(&[4.0]), Estimate { mean: 4.0, half_width: None, count: 1 });
        assert_eq!(estimate(&[]), Estimate::default());
    }

    #[test]
    fn an_interval_holds_the_truth_as_often_as_it_says() {
        let mut random = SplitMix::new(11);
        let mut held = 0;
        for _ in 0..4_000 {
            let values: Vec<f64> = (0..5).map(|_| (0..12).map(|_| random.unit()).sum::<f64>()).collect();
            let found = estimate(&values);
            held += u32::from((found.mean - 6.0).abs() <= found.half_width.unwrap());
        }
        assert!((3_750..=3_850).contains(&held), "{held} of 4,000");
    }

    #[test]
    fn batches_see_that_neighbours_depend_on_each_other() {
        let mut random = SplitMix::new(5);
        let mut value = 0.0;
        let walk: Vec<f64> = (0..20_000)
            .map(|_| {
                value = 0.95 * value + random.unit() - 0.5;
                value
            })
            .collect();
        let naive = estimate(&walk).half_width.unwrap();
        let batched = batch_means(&walk).half_width.unwrap();
        assert!(batched > 3.0 * naive, "{batched} against {naive}");
        assert!(batch_means(&walk[..99]).half_width.is_none());
    }

    #[test]
    fn pairs_see_what_seeds_hide() {
        let other = [100.0, 200.0, 300.0, 400.0, 500.0];
        let variant = [103.0, 202.0, 303.0, 404.0, 503.0];
        let found = compare(&variant, &other);
        assert_eq!((found.difference.mean, found.is_different), (3.0, Some(true)));
        assert!((found.ratio.unwrap() - 1.01).abs() < 1e-12);
        let apart = estimate(&other).half_width.unwrap();
        assert!(apart > 100.0 && found.difference.half_width.unwrap() < 1.0);
        assert_eq!(compare(&other, &other).is_different, Some(false));
        assert_eq!(
            compare(&[1.0], &[0.0]),
            Comparison {
                difference: Estimate { mean: 1.0, half_width: None, count: 1 },
                ratio: None,
                is_different: None,
            }
        );
    }
}
