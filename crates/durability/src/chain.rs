//! The Markov chain of one group: how many of its drives are lost, until the data is.

/// How lost drives of one group come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Each at its own rate: j losses are repaired at j times the rate of one.
    Parallel,
    /// One after the other.
    Serial,
}

/// Failure and repair rates by number of losses; times in years.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// From j losses to j + 1, the data kept; index j.
    fails: Vec<f64>,
    /// From j losses to data loss.
    ends: Vec<f64>,
    /// From j losses to j - 1.
    mends: Vec<f64>,
}

/// Steps of a transient solution beyond which the mean time is used.
const STEPS_MAX: f64 = 5e6;

impl Chain {
    /// The chain of a code with these shares of survived patterns, failures per drive and year, and a mean
    /// time to repair in years.
    #[must_use]
    pub fn new(survived: &[f64], afr: f64, mean_repair: f64, repair: Repair) -> Self {
        let n = survived.len() - 2;
        let states = survived.iter().take_while(|share| **share > 0.0).count();
        let rate = |j: usize| (n - j) as f64 * afr;
        let kept = |j: usize| survived[j + 1] / survived[j];
        let mend = |j: usize| match repair {
            Repair::Parallel => j as f64 / mean_repair,
            Repair::Serial => f64::from(u8::from(j > 0)) / mean_repair,
        };
        Chain {
            fails: (0..states).map(|j| rate(j) * kept(j)).collect(),
            ends: (0..states).map(|j| rate(j) * (1.0 - kept(j))).collect(),
            mends: (0..states).map(mend).collect(),
        }
    }

    /// Mean time to data loss in years, from a whole group, by solving the chain. Only sums of positive
    /// numbers: no digits are lost where losses are very rare.
    #[must_use]
    pub fn mean_time_to_loss(&self) -> f64 {
        // From state j let the chain run until it first enters j + 1 or ends: `time` is the mean of that
        // span, `end` the probability that it ends. From j, with rates f, e, m: the chain moves after
        // 1/(f+e+m); a mend leads to j - 1, from where it comes back to j or ends.
        let (mut time, mut end) = (0.0, 0.0);
        let mut total = 0.0;
        let mut reached = 1.0;
        for j in 0..self.fails.len() {
            let (f, e, m) = (self.fails[j], self.ends[j], self.mends[j]);
            let leave = f + e + m * end;
            time = (1.0 + m * time) / leave;
            end = (e + m * end) / leave;
            total += reached * time;
            reached *= f / leave;
        }
        total
    }

    /// Probability that a whole group is lost within `years`, by uniformization of the chain.
    #[must_use]
    pub fn loss_within(&self, years: f64) -> f64 {
        let states = self.fails.len();
        let out = |j: usize| self.fails[j] + self.ends[j] + self.mends[j];
        let fastest = (0..states).map(out).fold(0.0, f64::max);
        let steps = fastest * years;
        if steps > STEPS_MAX {
            return -(-years / self.mean_time_to_loss()).exp_m1();
        }
        let mut at = vec![0.0; states];
        at[0] = 1.0;
        let (mut lost, mut answer) = (0.0, 0.0);
        // The weight of a number of steps is Poisson's; its logarithm, since the first ones underflow.
        let mut weight_log = -steps;
        let last = (steps + 12.0 * steps.sqrt() + 60.0) as u64;
        for step in 1..=last {
            let mut next = vec![0.0; states];
            for j in 0..states {
                next[j] += at[j] * (1.0 - out(j) / fastest);
                lost += at[j] * self.ends[j] / fastest;
                if j + 1 < states {
                    next[j + 1] += at[j] * self.fails[j] / fastest;
                }
                if j > 0 {
                    next[j - 1] += at[j] * self.mends[j] / fastest;
                }
            }
            at = next;
            weight_log += (steps / step as f64).ln();
            answer += weight_log.exp() * lost;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::{leading, no_repair};
    use crate::code::Code;

    fn shares(code: &str) -> Vec<f64> {
        Code::parse(code).unwrap().survived_shares()
    }

    /// A mirror: MTTDL = (3 f + r) / (2 f^2), known for fifty years.
    #[test]
    fn a_mirror_is_solved_exactly() {
        let (afr, repair) = (0.3, 0.05);
        let exact = (3.0 * afr + 1.0 / repair) / (2.0 * afr * afr);
        for kind in [Repair::Parallel, Repair::Serial] {
            let found = Chain::new(&shares("1+1"), afr, repair, kind).mean_time_to_loss();
            assert!((found / exact - 1.0).abs() < 1e-12, "{found} against {exact}");
        }
    }

    /// Without repair the time is the sum of the times between failures.
    #[test]
    fn never_repaired_drives_fail_one_after_the_other() {
        let found = Chain::new(&shares("12+4"), 0.5, 1e30, Repair::Parallel).mean_time_to_loss();
        let exact: f64 = (12..=16).map(|alive| 1.0 / (f64::from(alive) * 0.5)).sum();
        assert!((found / exact - 1.0).abs() < 1e-9);
        let chance = Chain::new(&shares("12+4"), 0.5, 1e30, Repair::Parallel).loss_within(1.0);
        let by_count = no_repair(&shares("12+4"), 1.0 - (-0.5f64).exp());
        assert!((chance / by_count - 1.0).abs() < 1e-9, "{chance} against {by_count}");
    }

    #[test]
    fn rare_losses_are_those_of_the_leading_term() {
        for code in ["4+2", "12+4", "12+2+2"] {
            let (afr, repair) = (0.01, 3.0 / 365.0);
            let chain = Chain::new(&shares(code), afr, repair, Repair::Parallel);
            let rate = leading(&shares(code), afr, repair);
            assert!((chain.mean_time_to_loss() * rate - 1.0).abs() < 0.01, "{code}");
            // The first year begins with all drives whole, so a little less is lost in it.
            let first_year = chain.loss_within(1.0) / rate;
            assert!((0.9..1.0).contains(&first_year), "{code}: {first_year}");
        }
    }

    /// One after the other: m! times the losses of repair in parallel.
    #[test]
    fn serial_repair_costs_a_factorial() {
        let time = |kind| Chain::new(&shares("12+4"), 0.001, 1e-3, kind).mean_time_to_loss();
        let factor = time(Repair::Parallel) / time(Repair::Serial);
        assert!((factor - 24.0).abs() < 0.1, "{factor}");
    }
}
