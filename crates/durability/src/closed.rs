//! Closed forms of the yearly loss of one group of n drives. All take the shares of loss patterns that the
//! code survives ([`crate::Code::survived_shares`]), so that Reed-Solomon and local codes are one case.

use crate::code::choose;

/// Expected losses per group and year by windows: a first drive fails (n x AFR a year), and then so many of
/// the others fail within the `window` (in years) that the data is gone:
/// `n x AFR x sum(j) C(n-1,j) p^j (1-p)^(n-1-j) x (share of patterns of j+1 that is not survived)`, where
/// p = AFR x window. For k+m that is the sum from j = m.
#[must_use]
pub fn windowed(survived: &[f64], afr: f64, window: f64) -> f64 {
    let others = width(survived) - 1;
    let p = (afr * window).min(1.0);
    let lost = |j: u32| binomial(others, j, p) * (1.0 - survived[j as usize + 1]);
    f64::from(others + 1) * afr * (0..=others).map(lost).sum::<f64>()
}

/// The leading term of [`windowed`] and of all the others: `n(n-1)...(n-m)/m! x AFR^(m+1) x window^m`.
#[must_use]
pub fn leading(survived: &[f64], afr: f64, window: f64) -> f64 {
    let n = width(survived);
    let j = (0..n).find(|j| survived[*j as usize + 1] < 1.0 - 1e-12).unwrap_or(n);
    let ways = choose(n, j) * f64::from(n - j) * (1.0 - survived[(j as usize + 1).min(survived.len() - 1)]);
    ways * afr * (afr * window).powi(j as i32)
}

/// Losses per group and year in the long run, exact for independent drives that are up for an exponential
/// time and down for a time of mean `window` years, however that is distributed:
/// `sum(j) C(n,j) U^j (1-U)^(n-j) (n-j) AFR (s_j - s_(j+1))`, U = AFR x window / (1 + AFR x window). A drive
/// fails only while it is up.
#[must_use]
pub fn stationary(survived: &[f64], afr: f64, window: f64) -> f64 {
    let n = width(survived);
    let down = afr * window / (1.0 + afr * window);
    let step = |j: u32| survived[j as usize] - survived[j as usize + 1];
    (0..n).map(|j| binomial(n, j, down) * f64::from(n - j) * afr * step(j)).sum()
}

/// Losses per group and year because a failure leaves the group critical and one of the shards that are now
/// needed cannot be read. `bad` is the expected number of unreadable places on one shard of the group. Each
/// entry into a state of j losses counts; of the n - j others the share 1 - s_(j+1)/s_j is needed. Not for
/// codes without parity, which are always in that state.
#[must_use]
pub fn latent_yearly(survived: &[f64], afr: f64, window: f64, bad: f64) -> f64 {
    let n = width(survived);
    let down = afr * window / (1.0 + afr * window);
    let entry = |j: u32| {
        let enters = binomial(n, j - 1, down) * f64::from(n - j + 1) * afr * survived[j as usize];
        let (now, next) = (survived[j as usize], survived[j as usize + 1]);
        let needed = if now > 0.0 { f64::from(n - j) * (1.0 - next / now) } else { 0.0 };
        enters * -(-bad * needed).exp_m1()
    };
    (1..=n).map(entry).sum()
}

/// Probability that a group is lost within a year in which nothing is repaired, each drive failing with
/// probability `afr`: for k+m `sum(j > m) C(n,j) AFR^j (1-AFR)^(n-j)`.
#[must_use]
pub fn no_repair(survived: &[f64], afr: f64) -> f64 {
    let n = width(survived);
    (1..=n).map(|j| binomial(n, j, afr.min(1.0)) * (1.0 - survived[j as usize])).sum()
}

/// n of a list of shares for 0 ..= n + 1 losses.
fn width(survived: &[f64]) -> u32 {
    assert!(survived.len() > 2, "a code has a shard");
    survived.len() as u32 - 2
}

fn binomial(n: u32, j: u32, p: f64) -> f64 {
    choose(n, j) * p.powi(j as i32) * (1.0 - p).powi((n - j) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Repair};
    use crate::code::Code;
    use crate::inputs::HOURS_PER_YEAR;

    fn shares(code: &str) -> Vec<f64> {
        Code::parse(code).unwrap().survived_shares()
    }

    /// The reference table "Per group and year, independent failures", every cell to its printed digits.
    #[test]
    fn the_reference_table_of_windows_comes_out() {
        let columns = [(0.0136, 24.0), (0.0136, 72.0), (0.0136, 156.0), (0.05, 72.0)];
        let rows = [
            ("10+2", ["1.2e-8", "1.1e-7", "5.3e-7", "5.6e-6"]),
            ("12+4", ["5.7e-16", "4.6e-14", "1.0e-12", "3.1e-11"]),
            ("16+4", ["2.0e-15", "1.6e-13", "3.6e-12", "1.1e-10"]),
            ("17+3", ["1.4e-11", "3.7e-10", "3.7e-9", "6.7e-8"]),
            ("32+4", ["4.9e-14", "4.0e-12", "8.8e-11", "2.7e-9"]),
        ];
        for (code, printed) in rows {
            for ((afr, hours), printed) in columns.iter().zip(printed) {
                let found = windowed(&shares(code), *afr, hours / HOURS_PER_YEAR);
                assert_eq!(format!("{found:.1e}"), printed, "{code} at {afr} and {hours} h");
            }
        }
    }

    /// The reference table of the pool by mean time to repair; where a code has no second row there it has
    /// none here.
    #[test]
    fn the_reference_table_of_repair_times_comes_out() {
        let rows = [
            ("8+2", 1.0, ["6.6e-9", "7.3e-8"]),
            ("8+2", 7.0, ["3.3e-7", "3.6e-6"]),
            ("12+4", 1.0, ["5.5e-16", "3.0e-14"]),
            ("12+4", 7.0, ["1.3e-12", "7.2e-11"]),
            ("16+4", 1.0, ["2.0e-15", "1.1e-13"]),
            ("32+4", 1.0, ["4.8e-14", "2.6e-12"]),
            ("32+4", 7.0, ["1.1e-10", "6.2e-9"]),
        ];
        for (code, days, printed) in rows {
            for (afr, printed) in [0.0135, 0.03].iter().zip(printed) {
                let found = leading(&shares(code), *afr, days / 365.0);
                assert_eq!(format!("{found:.1e}"), printed, "{code} at {afr} and {days} d");
            }
        }
        let gain = leading(&shares("16+4"), 0.0135, 7.0) / leading(&shares("16+4"), 0.0135, 1.0);
        assert!((gain - 2401.0).abs() < 0.1, "{gain}");
    }

    /// Two figures were published for one archive of 12+4, 10^7 apart. The first is a year without repair,
    /// the second follows from repair within 88.6 hours.
    #[test]
    fn both_figures_of_the_kisti_archive_come_out() {
        let twelve = shares("12+4");
        assert_eq!(format!("{:.3e}", no_repair(&twelve, 0.0117)), "8.599e-7");
        assert_eq!(format!("{:.1e}", leading(&twelve, 0.0117, 88.6 / HOURS_PER_YEAR)), "5.0e-14");
        assert_eq!(format!("{:.1e}", windowed(&twelve, 0.0117, 88.6 / HOURS_PER_YEAR)), "5.0e-14");
    }

    /// Other assumptions that give the second figure, as the documentation lists them.
    #[test]
    fn other_ways_to_the_second_figure_come_out() {
        let twelve = shares("12+4");
        let disjoint = 94.5 * leading(&twelve, 0.0117, 28.4 / HOURS_PER_YEAR);
        assert_eq!(format!("{disjoint:.1e}"), "5.0e-14");
        let serial = Chain::new(&twelve, 0.0117, 40.0 / HOURS_PER_YEAR, Repair::Serial);
        assert_eq!(format!("{:.1e}", 1.0 / serial.mean_time_to_loss()), "5.0e-14");
        assert_eq!(format!("{:.1e}", 6048.0 * windowed(&twelve, 0.0117, 88.6 / HOURS_PER_YEAR)), "3.0e-10");
    }

    #[test]
    fn the_forms_agree_where_failures_are_rare() {
        for code in ["4+2", "12+4", "12+2+2"] {
            let (shares, afr, window) = (shares(code), 0.01, 1e-3);
            let first = leading(&shares, afr, window);
            for found in [windowed(&shares, afr, window), stationary(&shares, afr, window)] {
                assert!((found / first - 1.0).abs() < 1e-3, "{code}: {found} against {first}");
            }
        }
    }

    #[test]
    fn without_parity_every_failure_is_a_loss() {
        let shares = shares("5+0");
        assert!((windowed(&shares, 0.01, 0.1) - 0.05).abs() < 1e-12);
        assert!((leading(&shares, 0.01, 0.1) - 0.05).abs() < 1e-12);
    }

    #[test]
    fn a_local_code_lies_between_those_of_its_sure_and_its_all_parities() {
        let at = |code| windowed(&shares(code), 0.0136, 72.0 / HOURS_PER_YEAR);
        assert!(at("12+4") < at("12+2+2") && at("12+2+2") < at("13+3"), "16 shards each");
    }

    #[test]
    fn unreadable_places_count_at_the_last_rebuild() {
        // 4+2: the second failure leaves 4 shards that are all needed.
        let (shares, afr, window, bad) = (shares("4+2"), 0.01, 1e-3, 0.001);
        let found = latent_yearly(&shares, afr, window, bad);
        let expected = 6.0 * afr * 5.0 * afr * window * (4.0 * bad);
        assert!((found / expected - 1.0).abs() < 5e-3, "{found} against {expected}");
    }
}
