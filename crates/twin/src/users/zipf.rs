//! Zipf's law over a number of things that grows: no table, some draws each.
//!
//! Rejection-inversion: a continuous density above the law is inverted, and rounded draws are accepted with
//! the share that the law has of it. (W. Hörmann, G. Derflinger, 1996.)

use durability::SplitMix;

/// The law: rank `k` of 1 to `count` has a weight of `k^-exponent`.
#[derive(Clone, Copy)]
pub(super) struct Zipf {
    exponent: f64,
    count: u64,
    /// The integral at the left and right end.
    left: f64,
    right: f64,
    /// Rounded draws no further off than this need no test.
    near: f64,
}

impl Zipf {
    pub(super) fn new(exponent: f64, count: u64) -> Zipf {
        let mut law =
            Zipf { exponent: exponent.max(0.0), count: count.max(1), left: 0.0, right: 0.0, near: 0.0 };
        law.left = law.integral(1.5) - 1.0;
        law.right = law.integral(law.count as f64 + 0.5);
        law.near = 2.0 - law.inverse(law.integral(2.5) - law.weight(2.0));
        law
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A rank, 1 to `count`.
    pub(super) fn draw(&self, random: &mut SplitMix) -> u64 {
        loop {
            let u = self.right + random.unit() * (self.left - self.right);
            let x = self.inverse(u);
            let k = ((x + 0.5) as u64).clamp(1, self.count);
            let rank = k as f64;
            if rank - x <= self.near || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return k;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let z = (1.0 - self.exponent) * log;
        let slope = if z.abs() > 1e-8 { z.exp_m1() / z } else { 1.0 + z / 2.0 };
        slope * log
    }

    fn inverse(&self, x: f64) -> f64 {
        let z = (x * (1.0 - self.exponent)).max(-1.0);
        let slope = if z.abs() > 1e-8 { z.ln_1p() / z } else { 1.0 - z / 2.0 };
        (slope * x).exp()
    }
}
