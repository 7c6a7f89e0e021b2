//! The model in words and formulas, with the figures of a pool put in.

use crate::assess::Assessment;
use crate::inputs::{HOURS_PER_YEAR, Inputs};
use crate::rebuild::Method;

/// One formula.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// What it gives.
    pub name: &'static str,
    /// With letters.
    pub formula: String,
    /// With figures, and the result.
    pub figures: String,
}

/// What the figures take for granted.
pub const ASSUMPTIONS: [&str; 9] = [
    "Drives fail independently, at one constant rate. In truth failures cluster by model, age, \
     enclosure, heat and power, and the real risk is higher.",
    "A whole enclosure, a controller, software that writes wrong bytes, and operators are not in \
     it.",
    "Drives are full: a rebuild reads and writes for all of a drive.",
    "Rebuilds run at the given share of each drive's sequential speed, all at once and none \
     slowed by another.",
    "A lost drive counts as lost in all its groups until all of it is rebuilt; Kist mends stripes \
     with the least slack first, so the real window of a critical stripe is shorter.",
    "The pool's probability adds up that of its groups. Groups that share m+1 drives are lost \
     together, so it is an upper bound.",
    "Of a lost group all its user data is counted as lost, although part of it was rebuilt by \
     then.",
    "Unreadable places are independent, are found by scrub and else only by the last possible \
     rebuild; each costs one row of the stripe (k MiB).",
    "A local code is taken to survive every pattern that a code of its shape can.",
];

/// The formulas in the order in which they are used.
#[must_use]
pub fn explain(inputs: &Inputs, found: &Assessment) -> Vec<Line> {
    let mut lines = vec![rebuild_line(inputs, found), window_line(inputs, found)];
    lines.extend(group_lines(inputs, found));
    lines.extend(chain_lines(inputs, found));
    lines.extend(pool_lines(inputs, found));
    lines
}

fn line(name: &'static str, formula: impl Into<String>, figures: String) -> Line {
    Line { name, formula: formula.into(), figures }
}

fn rebuild_line(inputs: &Inputs, found: &Assessment) -> Line {
    let rebuild = &found.rebuild;
    let (lost, speed) = (inputs.drive_bytes / 1e12, inputs.drive_speed / 1e6);
    let bound = match inputs.bandwidth {
        Some(bandwidth) => format!(", at most {} MB/s", round(bandwidth / 1e6)),
        None => String::new(),
    };
    match inputs.method {
        Method::Declustered => line(
            "rebuild of one drive",
            "t = (r + 1) x lost / (participating drives x speed x share)",
            format!(
                "({} + 1) x {} TB / ({} x {} MB/s x {}{bound}) = {} TB / {} GB/s = {} h",
                round(rebuild.reads),
                round(lost),
                round(rebuild.participants),
                round(speed),
                round(inputs.rebuild_share),
                round((rebuild.read_bytes + rebuild.written_bytes) / 1e12),
                round(rebuild.bandwidth / 1e9),
                round(rebuild.hours)
            ),
        ),
        Method::HotSpare => line(
            "rebuild of one drive",
            "t = lost / (speed x share of the one spare)",
            format!(
                "{} TB / ({} MB/s x {}{bound}) = {} h",
                round(lost),
                round(speed),
                round(inputs.rebuild_share),
                round(rebuild.hours)
            ),
        ),
    }
}

fn window_line(inputs: &Inputs, found: &Assessment) -> Line {
    let hours = found.rebuild.window_hours;
    match inputs.window_hours {
        Some(_) => line("window", "T, as given", format!("{} h", round(hours))),
        None => line(
            "window",
            "T = detection + t",
            format!(
                "{} h + {} h = {} h",
                round(inputs.detection_hours),
                round(found.rebuild.hours),
                round(hours)
            ),
        ),
    }
}

fn group_lines(inputs: &Inputs, found: &Assessment) -> Vec<Line> {
    let (n, m) = (found.width, inputs.code.tolerance());
    let (rate, hours) = (inputs.afr, found.rebuild.window_hours);
    let (afr, window) = (plain(rate), hours / HOURS_PER_YEAR);
    let (lost, note) = match inputs.code {
        crate::Code::ReedSolomon { .. } => ("", String::new()),
        crate::Code::Local { .. } => {
            let share = 1.0 - inputs.code.survived_shares()[m as usize + 1];
            (
                " x d(j+1)",
                format!(
                    ", d(i) = share of patterns of i losses not survived, d({}) = {}",
                    m + 1,
                    round(share)
                ),
            )
        }
    };
    let falling: Vec<String> = (0..=m).map(|at| (n - at).to_string()).collect();
    vec![
        line(
            "loss of a group, by windows",
            format!(
                "P = n x AFR x sum(j = m..n-1) C(n-1,j) p^j (1-p)^(n-1-j){lost}, p = AFR x T / 8760 h{note}"
            ),
            format!(
                "p = {afr} x {} / 8760 = {:.2e}; n = {n}, m = {m}: P = {:.1e} a year",
                round(hours),
                rate * window,
                found.windowed
            ),
        ),
        line(
            "its leading term",
            format!("P = n(n-1)...(n-m)/m! x AFR^(m+1) x T^m{}", lost.replace("j+1", "m+1")),
            format!(
                "{}/{m}! x {afr}^{} x ({} / 8760)^{m} = {:.1e} a year",
                falling.join("x"),
                m + 1,
                round(hours),
                found.leading
            ),
        ),
        line(
            "in the long run, exact",
            "P = sum(j) C(n,j) U^j (1-U)^(n-j) (n-j) AFR (s(j) - s(j+1)), s = share survived, \
             U = AFR x T / (1 + AFR x T)",
            format!("U = {:.2e}: P = {:.1e} a year", rate * window / (1.0 + rate * window), found.stationary),
        ),
        line(
            "without any repair for a year",
            format!("P = sum(j > m) C(n,j) AFR^j (1-AFR)^(n-j){}", lost.replace("j+1", "j")),
            format!(
                "sum(j = {}..{n}) C({n},j) {afr}^j {}^({n}-j) = {:.3e}",
                m + 1,
                plain(1.0 - rate),
                found.no_repair
            ),
        ),
    ]
}

fn chain_lines(inputs: &Inputs, found: &Assessment) -> Vec<Line> {
    let (n, m) = (found.width, inputs.code.tolerance());
    let rates = format!(
        "failures (n-j) x {}, repairs j x {} a year, j = 0..{m} of {n}",
        plain(inputs.afr),
        round(HOURS_PER_YEAR / found.rebuild.window_hours)
    );
    vec![
        line(
            "Markov chain, repairs in parallel",
            "MTTDL solved exactly; beside it 1 / leading term; P of the first year",
            format!(
                "{rates}: MTTDL = {:.2e} years ({:.2e}), P = {:.1e}",
                found.mttdl_parallel, found.mttdl_leading, found.first_year_parallel
            ),
        ),
        line(
            "Markov chain, one repair at a time",
            "the same with one repair rate, m! times the losses if they are rare",
            format!("MTTDL = {:.2e} years, P = {:.1e}", found.mttdl_serial, found.first_year_serial),
        ),
    ]
}

fn pool_lines(inputs: &Inputs, found: &Assessment) -> Vec<Line> {
    let latent = &found.latent;
    let waits = inputs.scrub_hours / 2.0;
    vec![
        line(
            "loss in the pool",
            "1 - exp(-G x P), G distinct groups",
            format!(
                "G = {}, P = {:.1e}: {:.1e} a year",
                round(found.groups),
                found.windowed,
                found.pool_drives
            ),
        ),
        line(
            "unreadable places on a group's part of a drive",
            "e = bytes x 8 x errors per bit + errors a year x scrub interval / 2 x bytes / drive",
            format!(
                "{} GB x 8 x {:e} + {} x {} / 8760 x {:.2e} = {:.2e}",
                round(latent.bytes / 1e9),
                inputs.bit_error_rate,
                plain(inputs.latent_per_year),
                round(waits),
                latent.bytes / inputs.drive_bytes,
                latent.expected()
            ),
        ),
        line(
            "a last rebuild meets one",
            "Q = (rate of reaching m losses) x (1 - exp(-k x e))",
            format!(
                "Q = {:.1e} a year and group, {:.1e} in the pool",
                found.latent_yearly,
                found.groups * found.latent_yearly
            ),
        ),
        line(
            "expected loss",
            "G x (P x k x bytes + Q x k x 1 MiB)",
            format!(
                "{:.1e} B + {:.1e} B a year of {:.2e} B stored",
                found.bytes_drives, found.bytes_latent, found.stored_bytes
            ),
        ),
    ]
}

/// Up to eight decimals: a share such as 0.0136 as it was given.
fn plain(value: f64) -> String {
    let text = format!("{value:.8}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Three figures or more, without zeros at the end.
fn round(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e7).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    let digits = (2 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, assess};

    #[test]
    fn figures_are_put_into_the_formulas() {
        let inputs = Inputs {
            scatter: Some(84),
            detection_hours: 0.0,
            ..Inputs::typical(Code::parse("12+4").unwrap(), 168)
        };
        let lines = explain(&inputs, &assess(&inputs).unwrap());
        let text = |name: &str| lines.iter().find(|line| line.name == name).unwrap().figures.clone();
        assert_eq!(
            text("rebuild of one drive"),
            "(12 + 1) x 20 TB / (84 x 200 MB/s x 0.5) = 260 TB / 8.4 GB/s = 8.6 h"
        );
        assert!(text("its leading term").starts_with("16x15x14x13x12/4! x 0.0136^5 x (8.6 / 8760)^4 = "));
        assert!(lines.iter().all(|line| !line.figures.contains("NaN")), "{lines:?}");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (12.0, "12"), (8.597, "8.6"), (0.5, "0.5"), (260.0, "260"), (1e-9, "1.00e-9")]
        {
            assert_eq!(round(value), text);
        }
        assert_eq!(round(1511.6), "1512");
        assert_eq!([plain(1.36 / 100.0), plain(1.0 - 0.0117), plain(3.0)], ["0.0136", "0.9883", "3"]);
    }
}
