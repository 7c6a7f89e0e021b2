//! Size laws: what the table of a [`SizeLaw`] is made of.
//!
//! A table has one size for each of 4,096 equal parts of all files. Its mean is exact: it is the mean that
//! was given, to a byte or so, though the largest sizes of a law with a long tail are missing from a table.

use thiserror::Error;

use crate::model::SizeLaw;

/// Entries of a table.
pub const TABLE_SIZES: usize = 4096;

/// A size law. Sizes are bytes.
#[derive(Clone, PartialEq, Debug)]
pub enum Law {
    /// All of one size.
    Fixed(u64),
    /// Each size from the least to the most as likely.
    Uniform {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// The mean of the sizes, after what is less or more has become the least or most.
        mean: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// The least size.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Exponential.
    Exponential {
        /// The mean of the sizes, after what is less or more has become the least or most.
        mean: f64,
        /// The least size.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Measured: at ascending parts of all files (0 to 1) sizes that so many are no larger than; between
    /// them sizes grow evenly in the logarithm.
    Quantiles {
        /// Part of the files, and size.
        points: Vec<(f64, u64)>,
        /// The mean, if it is known: all sizes are scaled to it, within the least and the most.
        mean: Option<f64>,
    },
    /// So many parts of each.
    Mix(Vec<(f64, Law)>),
}

/// Why a law is none.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum LawError {
    /// The least size is 0 or above the most.
    #[error("sizes from {least} to {most} bytes: the least must be 1 or more and no more than the most")]
    Bounds {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The mean cannot be had.
    #[error("a mean of {mean} bytes cannot be had with sizes from {least} to {most} bytes: widen them")]
    Mean {
        /// The mean.
        mean: f64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The deviation is negative or no number.
    #[error("a sigma of {sigma} is none: give 0 or more, at most 10")]
    Sigma {
        /// The deviation.
        sigma: f64,
    },
    /// Quantiles do not ascend, or are outside of 0 to 1.
    #[error("quantile {index} does not ascend, or is outside of 0 to 1, or has no size")]
    Quantile {
        /// Its index; 0 too if there are none.
        index: usize,
    },
    /// A part of a mix is not positive, or there are too many.
    #[error("part {index} of a mix has the weight {weight}: give positive weights, and at most 256 parts")]
    Weight {
        /// Its index.
        index: usize,
        /// Its weight.
        weight: f64,
    },
}

impl Law {
    /// The law as the world draws from it.
    ///
    /// # Errors
    /// What is wrong with the law.
    pub fn table(&self) -> Result<SizeLaw, LawError> {
        if let Law::Fixed(bytes) = self {
            return Ok(SizeLaw::Fixed((*bytes).max(1)));
        }
        let mut sizes = self.sizes(TABLE_SIZES, 1.0)?;
        sizes.sort_unstable();
        Ok(SizeLaw::Table(sizes))
    }

    /// So many sizes, each as likely, ascending but for mixes; their mean is `times` what the law says, as
    /// far as its least and most allow it.
    fn sizes(&self, count: usize, times: f64) -> Result<Vec<u64>, LawError> {
        let middle = |index: usize| (index as f64 + 0.5) / count as f64;
        match self {
            Law::Fixed(bytes) => Ok(vec![((*bytes as f64 * times) as u64).max(1); count]),
            Law::Uniform { least, most } => {
                let bounds = bounds(*least, *most)?;
                let span = (most - least) as f64;
                let shape = (0..count).map(|index| *least as f64 + span * middle(index)).collect();
                Ok(with_mean(shape, f64::midpoint(bounds.0, bounds.1) * times, bounds))
            }
            Law::Lognormal { mean, sigma, least, most } => {
                let bounds = bounds(*least, *most)?;
                if !(0.0..=10.0).contains(sigma) {
                    return Err(LawError::Sigma { sigma: *sigma });
                }
                possible(*mean, *least, *most)?;
                let shape = (0..count).map(|index| (sigma * normal(middle(index))).exp()).collect();
                Ok(with_mean(shape, mean * times, bounds))
            }
            Law::Exponential { mean, least, most } => {
                let bounds = bounds(*least, *most)?;
                possible(*mean, *least, *most)?;
                let shape = (0..count).map(|index| -(1.0 - middle(index)).ln()).collect();
                Ok(with_mean(shape, mean * times, bounds))
            }
            Law::Quantiles { points, mean } => {
                check_points(points)?;
                let shape: Vec<f64> = (0..count).map(|index| between(points, middle(index))).collect();
                let (least, most) = (points[0].1, points[points.len() - 1].1);
                if let Some(mean) = mean {
                    possible(*mean, least, most)?;
                }
                let usual = shape.iter().sum::<f64>() / count as f64;
                Ok(with_mean(shape, mean.unwrap_or(usual) * times, (least as f64, most as f64)))
            }
            Law::Mix(parts) => mixed(parts, count, times),
        }
    }
}

fn bounds(least: u64, most: u64) -> Result<(f64, f64), LawError> {
    if least == 0 || least > most {
        return Err(LawError::Bounds { least, most });
    }
    Ok((least as f64, most as f64))
}

fn possible(mean: f64, least: u64, most: u64) -> Result<(), LawError> {
    if mean >= least as f64 && mean <= most as f64 {
        return Ok(());
    }
    Err(LawError::Mean { mean, least, most })
}

fn check_points(points: &[(f64, u64)]) -> Result<(), LawError> {
    let mut before = (0.0, 1);
    for (index, (part, bytes)) in points.iter().enumerate() {
        if !(before.0..=1.0).contains(part) || *bytes < before.1 {
            return Err(LawError::Quantile { index });
        }
        before = (*part, *bytes);
    }
    if points.is_empty() { Err(LawError::Quantile { index: 0 }) } else { Ok(()) }
}

/// The size at a part of all files; the first and last point hold beyond them.
fn between(points: &[(f64, u64)], part: f64) -> f64 {
    let at = points.partition_point(|(before, _)| *before <= part);
    let Some((to, larger)) = points.get(at) else { return points[points.len() - 1].1 as f64 };
    let Some((from, smaller)) = at.checked_sub(1).map(|before| points[before]) else {
        return *larger as f64;
    };
    let (low, high) = ((smaller as f64).ln(), (*larger as f64).ln());
    (low + (high - low) * (part - from) / (to - from)).exp()
}

/// The sizes of a mix: of each part as many as its weight says and at least one. A part that gets a little
/// more or less than its weight has its mean changed by as much, so that its bytes are right.
fn mixed(parts: &[(f64, Law)], count: usize, times: f64) -> Result<Vec<u64>, LawError> {
    let all: f64 = parts.iter().map(|(weight, _)| weight).sum();
    for (index, (weight, _)) in parts.iter().enumerate() {
        if !weight.is_finite() || *weight <= 0.0 || index >= 256 || parts.len() > count {
            return Err(LawError::Weight { index, weight: *weight });
        }
    }
    let mut sizes = Vec::with_capacity(count);
    let mut weight_left = all;
    for (index, (weight, law)) in parts.iter().enumerate() {
        let (left, behind) = (count - sizes.len(), parts.len() - 1 - index);
        let share = (left as f64 * weight / weight_left).round() as usize;
        let given = if behind == 0 { left } else { share.clamp(1, left - behind) };
        let wanted = count as f64 * weight / all;
        sizes.extend(law.sizes(given, times * wanted / given as f64)?);
        weight_left -= weight;
    }
    if sizes.is_empty() { Err(LawError::Weight { index: 0, weight: 0.0 }) } else { Ok(sizes) }
}

/// Scales a shape so that its sizes, held within bounds, have a mean, and rounds them so that they keep it.
fn with_mean(shape: Vec<f64>, mean: f64, (least, most): (f64, f64)) -> Vec<u64> {
    let mean = mean.clamp(least, most);
    let wanted = mean * shape.len() as f64;
    let sum = |scale: f64| shape.iter().map(|size| (size * scale).clamp(least, most)).sum::<f64>();
    let (mut low, mut high) = (1e-30f64, 1e30f64);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if sum(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut owed = 0.0;
    let rounded = shape.iter().map(|size| {
        let exact = (size * high).clamp(least, most) + owed;
        let size = exact.round().clamp(least, most);
        owed = exact - size;
        size as u64
    });
    let mut sizes: Vec<u64> = rounded.collect();
    // What is owed at a bound can shift neighbours by a byte: order them again.
    sizes.sort_unstable();
    sizes
}

/// The quantile of the normal law: rational approximations of P. Acklam, to 10^-9.
#[must_use]
pub fn normal(part: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.38357751867269e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 5] =
        [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1.0];
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if part < 0.02425 {
        let q = (-2.0 * part.ln()).sqrt();
        return polynomial(&C, q) / polynomial(&D, q);
    }
    if part > 1.0 - 0.02425 {
        return -normal(1.0 - part);
    }
    let q = part - 0.5;
    q * polynomial(&A, q * q) / polynomial(&B, q * q)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(law: Law) -> Vec<u64> {
        match law.table() {
            Ok(SizeLaw::Table(sizes)) => sizes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tables_have_the_mean_that_was_given_and_keep_their_bounds() {
        let (least, most) = (1_000, 20_000_000_000);
        for (mean, sigma) in [(2e9, 0.5), (2e9, 2.5), (1e6, 3.0), (1e10, 2.0)] {
            let law = Law::Lognormal { mean, sigma, least, most };
            let sizes = table(law.clone());
            assert_eq!(sizes.len(), TABLE_SIZES);
            assert!(sizes.is_sorted() && sizes[0] >= least && sizes[TABLE_SIZES - 1] <= most);
            let found = law.table().unwrap().mean();
            assert!((found - mean).abs() <= 1.0, "{found} {mean}");
        }
        let found = Law::Exponential { mean: 5e8, least: 1, most: u64::MAX >> 10 }.table().unwrap().mean();
        assert!((found - 5e8).abs() <= 1.0, "{found}");
        let found = Law::Uniform { least: 10, most: 1_000_000 }.table().unwrap().mean();
        assert!((found - 500_005.0).abs() <= 1.0, "{found}");
    }

    #[test]
    fn the_lognormal_law_has_its_median_and_quantiles() {
        let sizes = table(Law::Lognormal { mean: 1e9, sigma: 1.0, least: 1, most: 1 << 50 });
        let (median, deviation) = (sizes[2048] as f64, sizes[(0.8413 * 4096.0) as usize] as f64);
        // The median is the mean divided by e^(sigma^2 / 2); one sigma is a factor e.
        assert!((median / (1e9 / 0.5f64.exp()) - 1.0).abs() < 0.01, "{median}");
        assert!((deviation / median / 1f64.exp() - 1.0).abs() < 0.01, "{deviation}");
        assert!((normal(0.975) - 1.959_963_985).abs() < 1e-8 && (normal(0.001) + 3.090_232_306).abs() < 1e-8);
    }

    #[test]
    fn mixes_keep_the_bytes_of_rare_parts() {
        // One file in 5,000 holds nearly all bytes: fewer than an entry of the table.
        let large = Law::Fixed(100_000_000_000);
        let law = Law::Mix(vec![(4999.0, Law::Uniform { least: 1000, most: 3000 }), (1.0, large)]);
        let found = law.table().unwrap().mean();
        let wanted = (4999.0 * 2000.0 + 1e11) / 5000.0;
        assert!((found / wanted - 1.0).abs() < 1e-6, "{found} {wanted}");
        let law = Law::Mix(vec![(0.5, Law::Fixed(100)), (0.25, Law::Fixed(200)), (0.25, Law::Fixed(400))]);
        let sizes = table(law);
        let count = |size| sizes.iter().filter(|other| **other == size).count();
        assert_eq!((count(100), count(200), count(400)), (2048, 1024, 1024));
    }

    #[test]
    fn quantiles_are_met() {
        let points = vec![(0.0, 1_000), (0.5, 1_000_000), (0.9, 1_000_000_000), (1.0, 10_000_000_000)];
        let sizes = table(Law::Quantiles { points: points.clone(), mean: None });
        assert!((sizes[2048] as f64 / 1e6 - 1.0).abs() < 0.01, "{}", sizes[2048]);
        assert!((sizes[3686] as f64 / 1e9 - 1.0).abs() < 0.01, "{}", sizes[3686]);
        let found = Law::Quantiles { points, mean: Some(5e8) }.table().unwrap().mean();
        assert!((found - 5e8).abs() <= 1.0, "{found}");
    }

    #[test]
    fn laws_that_are_none_are_refused() {
        let refused = |law: Law| law.table().unwrap_err();
        let bounds = Law::Uniform { least: 5, most: 4 };
        assert_eq!(refused(bounds), LawError::Bounds { least: 5, most: 4 });
        let mean = Law::Lognormal { mean: 5.0, sigma: 1.0, least: 10, most: 20 };
        assert_eq!(refused(mean), LawError::Mean { mean: 5.0, least: 10, most: 20 });
        let points = vec![(0.5, 10), (0.4, 20)];
        assert_eq!(refused(Law::Quantiles { points, mean: None }), LawError::Quantile { index: 1 });
        let mix = Law::Mix(vec![(0.0, Law::Fixed(1))]);
        assert_eq!(refused(mix), LawError::Weight { index: 0, weight: 0.0 });
        assert_eq!(refused(Law::Mix(Vec::new())), LawError::Weight { index: 0, weight: 0.0 });
    }
}
