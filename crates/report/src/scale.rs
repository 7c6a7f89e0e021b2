//! Axes: from values to places, with round ticks.

use super::text::{number, scaled, whole};

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The values at its two ends; never the same.
    pub from: f64,
    pub to: f64,
    /// Where its ticks are, and what they say.
    pub ticks: Vec<(f64, String)>,
    /// The unit of what the ticks say.
    pub unit: String,
}

/// The distance between round ticks, so that there are about so many.
fn round_step(span: f64, count: usize) -> f64 {
    let rough = (span / count.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powi(rough.log10().floor() as i32);
    let times = rough / power;
    let nice = if times <= 1.0 {
        1.0
    } else if times <= 2.0 {
        2.0
    } else if times <= 5.0 {
        5.0
    } else {
        10.0
    };
    nice * power
}

impl Axis {
    /// From 0 to a round value that is no less than `most`. Units are those of figures.
    pub fn value(most: f64, unit: &str, count: usize) -> Axis {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let (factor, shown) = scaled(most, unit);
        let mut step = round_step(most / factor, count);
        if matches!(unit, "files" | "drives") {
            step = step.max(1.0);
        }
        let steps = (most / factor / step * 0.9999).ceil().max(1.0) as usize;
        let tick = |at: usize| (at as f64 * step * factor, label(at as f64 * step, step));
        let unit = if matches!(unit, "s" | "bytes" | "MB/s") { shown } else { unit };
        Axis {
            from: 0.0,
            to: steps as f64 * step * factor,
            ticks: (0..=steps).map(tick).collect(),
            unit: unit.to_owned(),
        }
    }

    /// A share from 0 to 100 percent.
    pub fn percent() -> Axis {
        let ticks = [0, 20, 40, 60, 80, 100].map(|at| (f64::from(at), at.to_string())).to_vec();
        Axis { from: 0.0, to: 100.0, ticks, unit: "%".to_owned() }
    }

    /// Time in seconds, between these two, with ticks at round times.
    pub fn time(from: f64, to: f64, count: usize) -> Axis {
        let to = if to > from { to } else { from + 1.0 };
        let span = to - from;
        let (factor, unit, steps): (f64, &str, &[f64]) = match span {
            _ if span <= 300.0 => (1.0, "s", &[]),
            _ if span <= 3.0 * 3_600.0 => (60.0, "min", &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0]),
            _ if span <= 4.0 * 86_400.0 => (3_600.0, "h", &[0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 12.0, 24.0]),
            _ => (86_400.0, "d", &[]),
        };
        let wanted = span / factor / count.max(1) as f64;
        let step = steps.iter().copied().find(|step| *step >= wanted);
        let step = step.unwrap_or_else(|| round_step(span / factor, count));
        let first = (from / factor / step).ceil() as i64;
        let last = (to / factor / step * 1.000_001).floor() as i64;
        let tick = |at: i64| (at as f64 * step * factor, label(at as f64 * step, step));
        Axis { from, to, ticks: (first..=last).map(tick).collect(), unit: unit.to_owned() }
    }

    /// Where a value is, from 0 to 1; values beyond the ends are at the ends.
    pub fn place(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// What a tick says: as many decimals as the step needs.
fn label(value: f64, step: f64) -> String {
    if step >= 1.0 {
        return whole(value);
    }
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    if decimals > 4 { number(value) } else { format!("{value:.decimals$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_beyond_the_largest_value() {
        let axis = Axis::value(612.0, "MB/s", 4);
        assert_eq!((labels(&axis), axis.to), (vec!["0", "200", "400", "600", "800"], 800.0));
        let axis = Axis::value(0.37, "MB/s", 4);
        assert_eq!(labels(&axis), ["0.0", "0.1", "0.2", "0.3", "0.4"]);
        let axis = Axis::value(2.5e12, "bytes", 4);
        assert_eq!((labels(&axis), axis.unit.as_str()), (vec!["0", "1", "2", "3"], "TB"));
        assert_eq!(labels(&Axis::value(2.0, "files", 5)), ["0", "1", "2"]);
        assert_eq!(labels(&Axis::value(0.0, "files", 5)), ["0", "1"]);
    }

    #[test]
    fn times_have_the_unit_of_their_length() {
        assert_eq!(labels(&Axis::time(0.0, 7_200.0, 6)), ["0", "20", "40", "60", "80", "100", "120"]);
        let axis = Axis::time(0.0, 86_400.0, 8);
        assert_eq!(
            (labels(&axis), axis.unit.as_str()),
            (vec!["0", "3", "6", "9", "12", "15", "18", "21", "24"], "h")
        );
        assert_eq!(
            labels(&Axis::time(0.0, 400.0 * 86_400.0, 8)),
            ["0", "50", "100", "150", "200", "250", "300", "350", "400"]
        );
        assert_eq!(labels(&Axis::time(90.0, 130.0, 4)), ["90", "100", "110", "120", "130"]);
        assert_eq!(Axis::time(5.0, 5.0, 4).to, 6.0);
    }
}
