//! The lines of a plan: each figure with its formula, the numbers put in, and where the formula comes from.

use std::fmt;

use super::expression::{self, Expression};

/// What a part of the plan is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Section {
    /// What users bring and fetch.
    Workload,
    /// Drives needed.
    Drives,
    /// Mounts and robots.
    Robots,
    /// The cache before the tapes.
    Cache,
    /// JBODs and servers.
    Bandwidth,
    /// What the pool must move.
    Pool,
    /// Tapes.
    Media,
    /// Electrical power.
    Power,
    /// Safety of what the pool holds.
    Durability,
    /// Money.
    Cost,
    /// How much of each part is used.
    Bottleneck,
}

impl Section {
    /// All, in the order of the plan.
    pub const ALL: [Section; 11] = [
        Section::Workload,
        Section::Drives,
        Section::Robots,
        Section::Cache,
        Section::Bandwidth,
        Section::Pool,
        Section::Media,
        Section::Power,
        Section::Durability,
        Section::Cost,
        Section::Bottleneck,
    ];
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Workload => "workload",
            Section::Drives => "drives",
            Section::Robots => "robots",
            Section::Cache => "cache",
            Section::Bandwidth => "bandwidth",
            Section::Pool => "pool",
            Section::Media => "media",
            Section::Power => "power",
            Section::Durability => "durability",
            Section::Cost => "cost",
            Section::Bottleneck => "bottleneck",
        })
    }
}

/// What a value counts. Values are always in the basic unit; people see a fitting multiple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Rate,
    /// Bytes per day of 86,400 s.
    PerDay,
    /// Seconds.
    Seconds,
    /// Days.
    Days,
    /// A proportion, 1 is all.
    Share,
    /// Money, in the currency of the prices.
    Money,
    /// Anything that is counted or has one unit of its own.
    Of(&'static str),
}

impl Unit {
    /// The basic unit's name; empty for a plain number.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "B",
            Unit::Rate => "B/s",
            Unit::PerDay => "B/d",
            Unit::Seconds => "s",
            Unit::Days => "d",
            Unit::Share => "1",
            Unit::Money => "money",
            Unit::Of(name) => name,
        }
    }

    /// A value for people, in four digits.
    #[must_use]
    pub fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return if value == f64::INFINITY { "no bound" } else { "undefined" }.to_owned();
        }
        match self {
            Unit::Bytes => prefixed(value, "B"),
            Unit::Rate => prefixed(value, "B/s"),
            Unit::PerDay => prefixed(value, "B/d"),
            Unit::Share => format!("{} %", digits(value * 100.0)),
            Unit::Seconds => seconds(value),
            Unit::Of("a year") if value.abs() < 1e-3 && value != 0.0 => seldom(value),
            Unit::Of("W") if value.abs() >= 1e4 => format!("{} kW", digits(value / 1e3)),
            Unit::Money if (1e6..1e12).contains(&value.abs()) => format!("{} M", digits(value / 1e6)),
            Unit::Money | Unit::Of("") => digits(value),
            unit => format!("{} {}", digits(value), unit.name()),
        }
    }
}

fn prefixed(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let prefix = PREFIXES.iter().find(|(scale, _)| value.abs() >= *scale);
    let (scale, prefix) = prefix.copied().unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", digits(value / scale))
}

/// A time, in the unit in which it has few digits.
fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0 s".to_owned(),
        size if size < 1e-9 => "< 1 ns".to_owned(),
        size if size < 1e-6 => format!("{} ns", digits(value * 1e9)),
        size if size < 1e-3 => format!("{} µs", digits(value * 1e6)),
        size if size < 1.0 => format!("{} ms", digits(value * 1e3)),
        _ => format!("{} s", digits(value)),
    }
}

/// So often a year, where that is hardly ever.
fn seldom(per_year: f64) -> String {
    const YEARS_MAX: f64 = 1e9;
    let years = 1.0 / per_year.abs();
    match years < YEARS_MAX {
        true => format!("once in {} years", digits(years)),
        false => format!("less than once in {} years", digits(YEARS_MAX)),
    }
}

/// `4.7 x 10^-20` for `4.7e-20`.
fn powers(text: &str) -> String {
    let power = |word: &str| {
        let body = word.trim_end_matches([',', ';', ')']);
        let (digits, exponent) = body.split_once('e')?;
        let is_number = digits.parse::<f64>().is_ok() && exponent.parse::<i32>().is_ok();
        is_number.then(|| format!("{digits} x 10^{exponent}{}", &word[body.len()..]))
    };
    let words = text.split(' ').map(|word| power(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// Digits in groups of three.
fn grouped(whole: f64) -> String {
    let text = format!("{:.0}", whole.abs());
    let mut out = if whole < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Four digits that count, never with an exponent; whole numbers below a million with all of theirs. In
/// groups of three.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if size < 1e-6 {
        return "< 0.000001".to_owned();
    }
    if size >= 1e6 {
        let step = 10f64.powf((size.log10().floor() - 3.0).max(0.0));
        return grouped((value / step).round() * step);
    }
    if value.fract() == 0.0 || size >= 1e3 {
        return grouped(value.round());
    }
    let decimals = (3.0 - size.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

/// What goes into a formula.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// The letter in the formula.
    pub symbol: &'static str,
    /// What it stands for.
    pub meaning: String,
    /// In its basic unit; nothing: no number.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: Unit,
}

/// Whether a figure is as good as it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// It is.
    Meets,
    /// It is, and waits grow: there is little room.
    Busy,
    /// It is not.
    Misses,
}

/// Use of what is queued for, up to which there is room.
pub const ROOM_UP_TO: f64 = 0.75;
/// Use of what is queued for, from which on it is too little: whatever comes beside the mean waits long.
pub const TOO_LITTLE_FROM: f64 = 0.9;
/// A wait is long if it is more than this part of what is waited for takes.
pub const LONG_WAIT: f64 = 0.1;

/// How a part that is queued for is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Queue {
    /// The part of its time, or rate, that is needed.
    pub used: f64,
    /// The mean wait and what takes that long once it is its turn, seconds.
    pub wait: Option<(f64, f64)>,
}

impl Queue {
    /// The verdict, and why.
    pub fn judge(self) -> (Verdict, String) {
        let share = Unit::Share.write(self.used);
        let (room, most) = (Unit::Share.write(ROOM_UP_TO), Unit::Share.write(TOO_LITTLE_FROM));
        let wait = self.wait.filter(|(wait, _)| *wait > 0.0);
        let waits = wait.map_or_else(String::new, |(wait, takes)| {
            format!("; the mean wait is {} for {}", Unit::Seconds.write(wait), Unit::Seconds.write(takes))
        });
        if self.used >= TOO_LITTLE_FROM {
            return (Verdict::Misses, format!("{share} is used, too little from {most} on{waits}"));
        }
        if self.used > ROOM_UP_TO {
            return (Verdict::Busy, format!("{share} is used, above {room} waits grow{waits}"));
        }
        match wait.filter(|(wait, takes)| *wait > LONG_WAIT * takes) {
            Some(_) => (Verdict::Busy, format!("{share} is used{waits}")),
            None => (Verdict::Meets, format!("{share} is used, up to {room} there is room")),
        }
    }
}

/// One figure of the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What it is about.
    pub section: Section,
    /// Class, server or JBOD; empty: the whole site.
    pub subject: String,
    /// What it is.
    pub name: String,
    /// In the basic unit; nothing where it has no bound or is not defined.
    pub value: Option<f64>,
    /// The unit.
    pub unit: Unit,
    /// The value for people.
    pub text: String,
    /// In symbols; empty for what was given.
    pub formula: String,
    /// With the numbers put in.
    pub figures: String,
    /// Where the formula comes from.
    pub source: String,
    /// What went in.
    pub inputs: Vec<Input>,
    /// Against what is there or wanted, if there is something to compare with.
    pub verdict: Option<Verdict>,
    /// Why, where the value alone does not say it.
    pub reason: String,
}

/// Makes the lines; each is computed from the formula that it shows.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub lines: Vec<Line>,
}

/// A place in the sheet: lines of one section and subject.
pub(crate) struct Place<'a> {
    sheet: &'a mut Sheet,
    section: Section,
    subject: String,
}

/// An input of a formula.
pub(crate) fn input(symbol: &'static str, meaning: &str, value: f64, unit: Unit) -> Input {
    Input { symbol, meaning: meaning.to_owned(), value: Some(value), unit }
}

/// An input that is a plain number.
pub(crate) fn number(symbol: &'static str, meaning: &str, value: f64) -> Input {
    input(symbol, meaning, value, Unit::Of(""))
}

impl Sheet {
    pub fn at(&mut self, section: Section, subject: &str) -> Place<'_> {
        Place { sheet: self, section, subject: subject.to_owned() }
    }

    /// Judges the last line.
    pub fn judge(&mut self, is_met: bool) {
        if let Some(line) = self.lines.last_mut() {
            line.verdict = Some(if is_met { Verdict::Meets } else { Verdict::Misses });
        }
    }

    /// Judges the last line, with the reason.
    pub fn judge_as(&mut self, (verdict, reason): (Verdict, String)) {
        if let Some(line) = self.lines.last_mut() {
            (line.verdict, line.reason) = (Some(verdict), reason);
        }
    }
}

impl Place<'_> {
    /// Adds a figure and returns it. `formula` is `N = D / (86400 * v)`; the symbol in front is for people.
    ///
    /// # Panics
    /// If the formula has a symbol that is not among the inputs: both are constants of this crate.
    pub fn line(
        &mut self,
        name: &str,
        unit: Unit,
        formula: &'static str,
        source: &str,
        inputs: Vec<Input>,
    ) -> f64 {
        let (_, right) = formula.split_once(" = ").expect("a formula has two sides");
        let expression = expression::parse(right);
        let find = |symbol: &str| {
            let found = inputs.iter().find(|input| input.symbol == symbol);
            found.unwrap_or_else(|| panic!("{formula:?} needs {symbol}"))
        };
        let value = expression.value(&|symbol| find(symbol).value.unwrap_or(f64::NAN));
        let put_in = expression.with(&|symbol| {
            let input = find(symbol);
            let unit = if matches!(input.unit, Unit::Of(_)) { Unit::Of("") } else { input.unit };
            unit.write(input.value.unwrap_or(f64::NAN))
        });
        let text = unit.write(value);
        // What is only taken over is not written twice.
        let put_in = if matches!(expression, Expression::Symbol(_)) { text.clone() } else { put_in };
        self.sheet.lines.push(Line {
            section: self.section,
            subject: self.subject.clone(),
            name: name.to_owned(),
            value: value.is_finite().then_some(value),
            unit,
            formula: formula.replace(" * ", " x "),
            figures: if put_in == text { put_in } else { format!("{put_in} = {text}") },
            text,
            source: source.to_owned(),
            inputs: inputs
                .into_iter()
                .map(|input| Input { value: input.value.filter(|value| value.is_finite()), ..input })
                .collect(),
            verdict: None,
            reason: String::new(),
        });
        value
    }

    /// Adds a figure that another part of the program explains.
    pub fn told(&mut self, name: &str, unit: Unit, value: f64, formula: &str, figures: &str, source: &str) {
        self.sheet.lines.push(Line {
            section: self.section,
            subject: self.subject.clone(),
            name: name.to_owned(),
            value: value.is_finite().then_some(value),
            unit,
            text: unit.write(value),
            formula: formula.to_owned(),
            figures: powers(figures),
            source: source.to_owned(),
            inputs: Vec::new(),
            verdict: None,
            reason: String::new(),
        });
    }

    /// Judges the last line.
    pub fn judge(&mut self, is_met: bool) {
        self.sheet.judge(is_met);
    }

    /// Judges the last line, with the reason.
    pub fn judge_as(&mut self, judged: (Verdict, String)) {
        self.sheet.judge_as(judged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        assert_eq!(Unit::Rate.write(6.4e9), "6.4 GB/s");
        assert_eq!(Unit::PerDay.write(223e9), "223 GB/d");
        assert_eq!(Unit::Share.write(0.15), "15 %");
        assert_eq!(Unit::Of("drives").write(1.9117), "1.912 drives");
        assert_eq!(Unit::Of("drives").write(74.0), "74 drives");
        assert_eq!(Unit::Of("W").write(12_345.6), "12.35 kW");
        assert_eq!(Unit::Days.write(f64::INFINITY), "no bound");
        assert_eq!(digits(0.000_012_3), "0.0000123");
        assert_eq!(digits(999_999.9), "1,000,000");
        assert_eq!((digits(12_345.0), digits(1_234.5)), ("12,345".into(), "1,235".into()));
    }

    /// `wait for a drive: 9.977e-13 s` was printed, and `4.659e-20 a year`.
    #[test]
    fn nothing_is_written_with_an_exponent() {
        let written = |value| Unit::Seconds.write(value);
        assert_eq!([9.977e-13, 3e-9, 2.5e-6].map(written), ["< 1 ns", "3 ns", "2.5 µs"]);
        assert_eq!([0.098_83, 1.5, 247.1].map(written), ["98.83 ms", "1.5 s", "247.1 s"]);
        assert_eq!(Unit::Of("a year").write(4.659e-20), "less than once in 1,000,000,000 years");
        assert_eq!(Unit::Of("a year").write(1e-5), "once in 100,000 years");
        assert_eq!(powers("G = 3, P = 4.7e-20, e = 2"), "G = 3, P = 4.7 x 10^-20, e = 2");
        assert_eq!(digits(1e-12), "< 0.000001");
        assert_eq!((digits(12_345_678.0), digits(-2e9)), ("12,350,000".into(), "-2,000,000,000".into()));
        for power in -60..60 {
            for unit in [Unit::Bytes, Unit::Seconds, Unit::Share, Unit::Money, Unit::Of("a year")] {
                let text = unit.write(1.234_567 * 10f64.powi(power));
                assert!(!text.contains("e-") && !text.contains("e+") && !text.contains("e1"), "{text}");
            }
        }
    }

    /// Drives in use for 95 % of their time were called enough.
    #[test]
    fn what_is_queued_for_is_judged_by_its_use_and_its_wait() {
        let judge = |used, wait| Queue { used, wait }.judge();
        assert_eq!(judge(0.95, Some((247.0, 900.0))).0, Verdict::Misses);
        assert_eq!(judge(0.9, None).0, Verdict::Misses);
        assert_eq!(judge(0.8, None).0, Verdict::Busy);
        assert_eq!(judge(0.75, Some((89.0, 900.0))).0, Verdict::Meets);
        assert_eq!(judge(0.6, Some((91.0, 900.0))).0, Verdict::Busy);
        let (_, why) = judge(0.954, Some((247.1, 900.0)));
        assert_eq!(why, "95.4 % is used, too little from 90 % on; the mean wait is 247.1 s for 900 s");
    }

    #[test]
    fn a_line_shows_what_it_computed() {
        let mut sheet = Sheet::default();
        let inputs = vec![
            input("D", "moved a day", 223e9, Unit::PerDay),
            input("v", "effective rate", 1.35e6, Unit::Rate),
        ];
        let value = sheet.at(Section::Drives, "all").line(
            "drives",
            Unit::Of("drives"),
            "N = D / (86400 * v)",
            "SDSC",
            inputs,
        );
        assert!((value - 1.9119).abs() < 1e-3);
        let line = &sheet.lines[0];
        assert_eq!(line.formula, "N = D / (86400 x v)");
        assert_eq!(line.figures, "223 GB/d / (86400 x 1.35 MB/s) = 1.912 drives");
    }

    #[test]
    fn what_has_no_bound_is_no_number() {
        let mut sheet = Sheet::default();
        let inputs = vec![number("a", "", 1.0), number("b", "", 0.0)];
        let value = sheet.at(Section::Cache, "").line("life", Unit::Days, "L = a / b", "", inputs);
        assert!(value.is_infinite() && sheet.lines[0].value.is_none());
        assert_eq!(sheet.lines[0].figures, "1 / 0 = no bound");
    }
}
