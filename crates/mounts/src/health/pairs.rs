//! What is known of each tape in each drive, and what is conspicuous in it.

use std::collections::BTreeMap;
use std::fmt;

use base::{ByteCount, Timestamp, Vid};
use library::TapeAlert;

use super::sample::MountSample;
use super::verdict::HealthRules;

/// Flags by which a drive says that reading or writing was hard: drive or tape (TapeAlert 1 to 6).
const OF_TRANSFER: std::ops::RangeInclusive<u8> = 1..=6;
const GIGABYTE: f64 = 1e9;

/// What is conspicuous in a drive's work with a tape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Symptom {
    /// So many errors could not be corrected.
    Uncorrected(u64),
    /// The drive has raised this flag.
    Alert(TapeAlert),
    /// So many errors were corrected for 10^9 bytes, and so many are usual.
    Corrected {
        /// Of this drive and tape.
        per_gb: f64,
        /// The median of all.
        usual: f64,
    },
    /// It writes so many bytes a second, and so many are usual.
    Slow {
        /// Of this drive and tape.
        rate: f64,
        /// The median of all.
        usual: f64,
    },
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Symptom::Uncorrected(1) => f.write_str("1 error that could not be corrected"),
            Symptom::Uncorrected(count) => write!(f, "{count} errors that could not be corrected"),
            Symptom::Alert(alert) => write!(f, "{alert}"),
            Symptom::Corrected { per_gb, usual } => {
                write!(f, "{per_gb:.1} corrected errors a GB, where {usual:.1} are usual")
            }
            Symptom::Slow { rate, usual } => {
                let (rate, usual) = (ByteCount(rate as u64), ByteCount(usual as u64));
                write!(f, "written with {rate}/s, where {usual}/s are usual")
            }
        }
    }
}

/// The last mounts of a tape in a drive.
#[derive(Clone, PartialEq, Debug)]
pub struct PairHealth {
    /// The drive.
    pub drive: String,
    /// The tape.
    pub vid: Vid,
    /// How many mounts that are, at most [`HealthRules::mounts_of_pair`].
    pub mounts: u64,
    /// When the last of them ended.
    pub last: Timestamp,
    /// Bytes of blocks read and written in them.
    pub bytes: ByteCount,
    /// Errors corrected in them, if the drive tells.
    pub corrected: Option<u64>,
    /// Errors not corrected in them, if the drive tells.
    pub uncorrected: Option<u64>,
    /// Bytes a second while it was written, if that was much.
    pub write_rate: Option<f64>,
    /// What is conspicuous, the worst first.
    pub symptoms: Vec<Symptom>,
    /// Whether enough was done to count, as far as nothing is conspicuous.
    pub is_measured: bool,
}

impl PairHealth {
    /// Corrected errors for 10^9 bytes.
    #[must_use]
    pub fn corrected_per_gb(&self) -> Option<f64> {
        let corrected = self.corrected.filter(|_| self.bytes.0 > 0)?;
        Some(corrected as f64 / (self.bytes.0 as f64 / GIGABYTE))
    }

    /// Whether the drive does badly with the tape.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        !self.symptoms.is_empty()
    }

    /// Whether it says anything about drive and tape.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.is_measured || self.is_bad()
    }
}

/// One pair while it is added up.
struct Sum {
    pair: PairHealth,
    /// Its drive's vendor and model.
    model: Option<String>,
    rates: Vec<f64>,
    alerts: Vec<TapeAlert>,
    /// Whether the drive counts errors.
    tells: bool,
}

impl Sum {
    fn new(sample: &MountSample) -> Sum {
        let pair = PairHealth {
            drive: sample.drive.clone(),
            vid: sample.vid,
            mounts: 0,
            last: sample.ended,
            bytes: ByteCount(0),
            corrected: None,
            uncorrected: None,
            write_rate: None,
            symptoms: Vec::new(),
            is_measured: false,
        };
        let model = sample.product.as_ref().map(|it| format!("{} {}", it.vendor, it.product));
        Sum { pair, model, rates: Vec::new(), alerts: Vec::new(), tells: false }
    }

    fn add(&mut self, sample: &MountSample) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        self.pair.mounts += 1;
        self.pair.bytes.0 = self.pair.bytes.0.saturating_add(sample.bytes.0);
        add(&mut self.pair.corrected, sample.corrected());
        add(&mut self.pair.uncorrected, sample.uncorrected());
        self.rates.extend(sample.write_rate);
        self.alerts.extend(sample.alerts.iter().filter(|alert| OF_TRANSFER.contains(&alert.0)));
        self.tells |= sample.uncorrected().is_some() || sample.corrected().is_some();
    }
}

/// The pairs of all mounts, which are ordered by their times, and what is conspicuous in them: by drive, then
/// by tape.
pub(super) fn pairs(samples: &[&MountSample], rules: &HealthRules) -> Vec<PairHealth> {
    let mut sums: BTreeMap<(&str, Vid), Sum> = BTreeMap::new();
    for sample in samples.iter().rev() {
        let sum = sums.entry((&sample.drive, sample.vid)).or_insert_with(|| Sum::new(sample));
        if sum.pair.mounts < rules.mounts_of_pair {
            sum.add(sample);
        }
    }
    let mut sums: Vec<Sum> = sums.into_values().collect();
    for sum in &mut sums {
        sum.pair.write_rate = median(sum.rates.clone());
        // A drive that tells nothing of errors may be well, but nobody knows.
        sum.pair.is_measured = sum.tells && sum.pair.bytes >= rules.measured_from;
    }
    let usual = Usual::of(&sums, rules);
    sums.iter_mut().for_each(|sum| sum.pair.symptoms = symptoms(sum, &usual, rules));
    sums.into_iter().map(|sum| sum.pair).collect()
}

/// What is usual with drives of each model: drives of different models count different things.
struct Usual(BTreeMap<Option<String>, (Option<f64>, Option<f64>)>);

impl Usual {
    fn of(sums: &[Sum], rules: &HealthRules) -> Usual {
        let mut all: BTreeMap<Option<String>, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for sum in sums {
            let (corrected, rates) = all.entry(sum.model.clone()).or_default();
            corrected.extend(sum.pair.corrected_per_gb().filter(|_| sum.pair.is_measured));
            rates.extend(sum.pair.write_rate);
        }
        let usual = |values: Vec<f64>| if values.len() < rules.usual_from { None } else { median(values) };
        Usual(
            all.into_iter().map(|(model, (errors, rates))| (model, (usual(errors), usual(rates)))).collect(),
        )
    }
}

fn symptoms(sum: &Sum, usual: &Usual, rules: &HealthRules) -> Vec<Symptom> {
    let pair = &sum.pair;
    let (usual_errors, usual_rate) = usual.0.get(&sum.model).copied().unwrap_or_default();
    let mut found = Vec::new();
    found.extend(pair.uncorrected.filter(|count| *count > 0).map(Symptom::Uncorrected));
    let mut alerts = sum.alerts.clone();
    alerts.sort_unstable();
    alerts.dedup();
    found.extend(alerts.into_iter().map(Symptom::Alert));
    if let (Some(per_gb), Some(usual), Some(count)) = (pair.corrected_per_gb(), usual_errors, pair.corrected)
    {
        let most = (rules.corrected_factor * usual).max(rules.corrected_per_gb);
        if per_gb > most && count >= rules.corrected_least && pair.is_measured {
            found.push(Symptom::Corrected { per_gb, usual });
        }
    }
    if let (Some(rate), Some(usual)) = (pair.write_rate, usual_rate)
        && rate < usual * rules.slow_share
    {
        found.push(Symptom::Slow { rate, usual });
    }
    found
}

/// The middle one.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
