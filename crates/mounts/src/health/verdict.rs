//! Who what is conspicuous speaks against.
//!
//! A drive that does badly with many tapes, each of which does well in other drives, is bad; so is a tape
//! that does badly in several drives, each of which does well with other tapes. What both explain speaks
//! against neither: a bad tape makes no bad drive.

use std::collections::BTreeMap;
use std::fmt;

use base::{ByteCount, Count, Timestamp, Vid};
use library::TapeAlert;

use super::pairs::{PairHealth, Symptom, pairs};
use super::sample::MountSample;

/// Flags by which a drive says that it is itself defective (TapeAlert 30, 31, 38, 39).
const OF_DRIVE: [u8; 4] = [30, 31, 38, 39];
/// Flags by which a drive says that the tape is at its end, or its memory does not work (TapeAlert 7, 15).
const OF_TAPE: [u8; 2] = [7, 15];

/// Flags about cleaning: the drive asks for it (20, 21), or its cleaning cartridge is used up (22) or none
/// (23).
const OF_CLEANING: [u8; 4] = [20, 21, 22, 23];

/// From when on something is conspicuous, and much enough to say whose fault it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HealthRules {
    /// The newest mounts of a tape in a drive that count: what was well long ago says little.
    pub mounts_of_pair: u64,
    /// The newest mounts of a drive or tape whose flags about itself count.
    pub mounts_of_flags: usize,
    /// A drive does well with a tape if nothing is conspicuous in so many bytes.
    pub measured_from: ByteCount,
    /// Pairs of drives of one model from which on what is usual with them is known.
    pub usual_from: usize,
    /// Corrected errors are conspicuous from so many times as many as usual on ...
    pub corrected_factor: f64,
    /// ... and more than so many for 10^9 bytes ...
    pub corrected_per_gb: f64,
    /// ... and so many in all.
    pub corrected_least: u64,
    /// Writing with less than this share of the usual rate is conspicuous.
    pub slow_share: f64,
    /// A drive is bad from so many tapes on, with which it does badly and others do not.
    pub tapes_of_bad_drive: u64,
    /// A tape is bad from so many drives on, in which it does badly and others do not.
    pub drives_of_bad_tape: u64,
    /// A drive is well from so many tapes on.
    pub tapes_of_good_drive: u64,
    /// A tape is well from so many drives on.
    pub drives_of_good_tape: u64,
}

impl Default for HealthRules {
    fn default() -> Self {
        HealthRules {
            mounts_of_pair: 8,
            mounts_of_flags: 5,
            measured_from: ByteCount(1_000_000_000),
            usual_from: 4,
            corrected_factor: 10.0,
            corrected_per_gb: 1.0,
            corrected_least: 10,
            slow_share: 0.5,
            tapes_of_bad_drive: 3,
            drives_of_bad_tape: 2,
            tapes_of_good_drive: 3,
            drives_of_good_tape: 1,
        }
    }
}

/// How well a drive or a tape is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It does badly, and it is its own fault.
    Bad,
    /// Something is conspicuous, and it cannot be said whose fault it is.
    Doubtful,
    /// Nothing speaks against it.
    Well,
    /// Too little was done with it.
    TooFewMounts,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 4] = [Verdict::Bad, Verdict::Doubtful, Verdict::Well, Verdict::TooFewMounts];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Bad => "bad",
            Verdict::Doubtful => "doubtful",
            Verdict::Well => "well",
            Verdict::TooFewMounts => "too-few-mounts",
        }
    }
}

/// What was looked at: what the others are that it was compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partner {
    /// Tapes, of a drive.
    Tape,
    /// Drives, of a tape.
    Drive,
}

/// The figures behind a verdict.
#[derive(Clone, PartialEq, Debug)]
pub enum VerdictReason {
    /// The drive has raised this flag about itself, or about the tape.
    Flag {
        /// The flag.
        alert: TapeAlert,
        /// With, or in which.
        partner: String,
        /// When the mount ended in which it did.
        at: Timestamp,
    },
    /// It does badly with these.
    DoesBadly(Badly),
    /// It does well with so many.
    DoesWell {
        /// What they are.
        partner: Partner,
        /// How many.
        with: u64,
    },
    /// It did enough with so many, and so many are needed.
    TooFew {
        /// What they are.
        partner: Partner,
        /// How many.
        with: u64,
        /// The least.
        needed: u64,
    },
}

/// With how many it does badly.
#[derive(Clone, PartialEq, Debug)]
pub struct Badly {
    /// What they are.
    pub partner: Partner,
    /// It does badly with so many ...
    pub with: u64,
    /// ... of so many with which enough was done.
    pub of: u64,
    /// So many of those with which it does badly do well elsewhere.
    pub well_elsewhere: u64,
    /// So many do badly elsewhere too.
    pub badly_elsewhere: u64,
    /// An example: the worst of them.
    pub example: String,
    /// What is conspicuous there.
    pub symptom: Symptom,
}

impl fmt::Display for VerdictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: u64, partner: Partner| {
            let noun = match partner {
                Partner::Tape => "tape",
                Partner::Drive => "drive",
            };
            format!("{} {noun}{}", Count(count), if count == 1 { "" } else { "s" })
        };
        match self {
            VerdictReason::Flag { alert, partner, at } => write!(f, "{alert} ({partner}, {at})"),
            VerdictReason::DoesBadly(badly) => {
                let Badly { partner, with, of, well_elsewhere, badly_elsewhere, example, symptom } = badly;
                let elsewhere = match partner {
                    Partner::Tape => "in other drives",
                    Partner::Drive => "with other tapes",
                };
                write!(f, "does badly with {with} of {}, ", number(*of, *partner))?;
                write!(f, "of which {well_elsewhere} do well {elsewhere}")?;
                if *badly_elsewhere > 0 {
                    write!(f, " and {badly_elsewhere} do not")?;
                }
                write!(f, " ({example}: {symptom})")
            }
            VerdictReason::DoesWell { partner, with } => {
                write!(f, "does well with {}", number(*with, *partner))
            }
            VerdictReason::TooFew { partner, with, needed } => {
                write!(f, "not enough mounts yet: {} measured, {needed} needed", number(*with, *partner))
            }
        }
    }
}

/// A verdict and its reason.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: VerdictReason,
}

/// What the mounts say of drives and tapes.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HealthReport {
    /// Each tape in each drive, by drive.
    pub pairs: Vec<PairHealth>,
    /// The drives.
    pub drives: BTreeMap<String, Judgement>,
    /// The tapes.
    pub tapes: BTreeMap<Vid, Judgement>,
    /// What drives have said of their cleaning in the newest of their mounts: a drive that was cleaned
    /// meanwhile says no more.
    pub cleaning: BTreeMap<String, TapeAlert>,
}

impl HealthReport {
    /// What these mounts say, in the order of their times.
    #[must_use]
    pub fn of(samples: &[&MountSample], rules: &HealthRules) -> HealthReport {
        let pairs = pairs(samples, rules);
        let mut of_drives: BTreeMap<&str, Vec<&PairHealth>> = BTreeMap::new();
        let mut of_tapes: BTreeMap<Vid, Vec<&PairHealth>> = BTreeMap::new();
        for pair in &pairs {
            of_drives.entry(&pair.drive).or_default().push(pair);
            of_tapes.entry(pair.vid).or_default().push(pair);
        }
        let (mut mounts_in, mut mounts_of) = (BTreeMap::new(), BTreeMap::new());
        for sample in samples {
            mounts_in.entry(sample.drive.as_str()).or_insert_with(Vec::new).push(*sample);
            mounts_of.entry(sample.vid).or_insert_with(Vec::new).push(*sample);
        }
        let asked = mounts_in.iter().filter_map(|(drive, mounts)| {
            let newest: &&MountSample = mounts.last()?;
            let alert = newest.alerts.iter().find(|alert| OF_CLEANING.contains(&alert.0))?;
            Some(((*drive).to_owned(), *alert))
        });
        let cleaning = asked.collect();
        let drives = of_drives.iter().map(|(drive, own)| {
            let flag = flag_of(mounts_in.get(drive), &OF_DRIVE, rules);
            let flag = flag.map(|(alert, sample)| (alert, format!("with tape {}", sample.vid), sample.ended));
            let others = own.iter().map(|pair| {
                let elsewhere = of_tapes.get(&pair.vid).into_iter().flatten();
                (*pair, pair.vid.to_string(), fares(elsewhere.filter(|it| it.drive != *drive)))
            });
            let needs = Needs {
                partner: Partner::Tape,
                bad: rules.tapes_of_bad_drive,
                good: rules.tapes_of_good_drive,
            };
            ((*drive).to_owned(), judge(flag, others, &needs))
        });
        let tapes = of_tapes.iter().map(|(vid, own)| {
            let flag = flag_of(mounts_of.get(vid), &OF_TAPE, rules);
            let flag =
                flag.map(|(alert, sample)| (alert, format!("in drive {}", sample.drive), sample.ended));
            let others = own.iter().map(|pair| {
                let elsewhere = of_drives.get(pair.drive.as_str()).into_iter().flatten();
                (*pair, pair.drive.clone(), fares(elsewhere.filter(|it| it.vid != *vid)))
            });
            let needs = Needs {
                partner: Partner::Drive,
                bad: rules.drives_of_bad_tape,
                good: rules.drives_of_good_tape,
            };
            (*vid, judge(flag, others, &needs))
        });
        let (drives, tapes) = (drives.collect(), tapes.collect());
        HealthReport { pairs, drives, tapes, cleaning }
    }
}

/// The newest flag of a list in the last mounts, and the mount.
fn flag_of<'a>(
    samples: Option<&Vec<&'a MountSample>>,
    flags: &[u8],
    rules: &HealthRules,
) -> Option<(TapeAlert, &'a MountSample)> {
    let mut newest = samples?.iter().rev().take(rules.mounts_of_flags);
    newest.find_map(|sample| {
        let alert = sample.alerts.iter().find(|alert| flags.contains(&alert.0))?;
        Some((*alert, *sample))
    })
}

/// How a drive or tape does with all others but one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    Well,
    Badly,
    Unknown,
}

fn fares<'a>(pairs: impl Iterator<Item = &'a &'a PairHealth>) -> Elsewhere {
    let (mut well, mut badly) = (0, 0);
    for pair in pairs.filter(|pair| pair.counts()) {
        *(if pair.is_bad() { &mut badly } else { &mut well }) += 1;
    }
    match (well, badly) {
        (0, 0) => Elsewhere::Unknown,
        (well, badly) if well > badly => Elsewhere::Well,
        _ => Elsewhere::Badly,
    }
}

/// How much is needed for a verdict.
struct Needs {
    partner: Partner,
    bad: u64,
    good: u64,
}

/// `others`: each pair, the name of the partner, and how that one does without the judged.
fn judge<'a>(
    flag: Option<(TapeAlert, String, Timestamp)>,
    others: impl Iterator<Item = (&'a PairHealth, String, Elsewhere)>,
    needs: &Needs,
) -> Judgement {
    if let Some((alert, partner, at)) = flag {
        return Judgement { verdict: Verdict::Bad, reason: VerdictReason::Flag { alert, partner, at } };
    }
    let partner = needs.partner;
    let (mut well, mut against, mut explained, mut unknown) = (0, 0, 0, 0);
    let mut example: Option<(String, Symptom)> = None;
    for (pair, name, elsewhere) in others.filter(|(pair, ..)| pair.counts()) {
        let Some(symptom) = pair.symptoms.first() else {
            well += 1;
            continue;
        };
        match elsewhere {
            Elsewhere::Well => against += 1,
            Elsewhere::Badly => explained += 1,
            Elsewhere::Unknown => unknown += 1,
        }
        if elsewhere != Elsewhere::Badly && example.as_ref().is_none_or(|(_, worst)| is_worse(symptom, worst))
        {
            example = Some((name, *symptom));
        }
    }
    let of = well + against + explained + unknown;
    let is_bad = against >= needs.bad && against >= well;
    // One of many is chance, one of a few is not yet.
    let is_doubtful = (against + unknown) * 4 >= of;
    match example {
        Some((example, symptom)) if is_bad || is_doubtful => {
            let (with, badly_elsewhere) = (against + explained + unknown, explained);
            let badly =
                Badly { partner, with, of, well_elsewhere: against, badly_elsewhere, example, symptom };
            let verdict = if is_bad { Verdict::Bad } else { Verdict::Doubtful };
            Judgement { verdict, reason: VerdictReason::DoesBadly(badly) }
        }
        _ if well >= needs.good => {
            Judgement { verdict: Verdict::Well, reason: VerdictReason::DoesWell { partner, with: well } }
        }
        _ => {
            let reason = VerdictReason::TooFew { partner, with: well, needed: needs.good };
            Judgement { verdict: Verdict::TooFewMounts, reason }
        }
    }
}

fn is_worse(one: &Symptom, other: &Symptom) -> bool {
    let rank = |symptom: &Symptom| match *symptom {
        Symptom::Uncorrected(count) => (3, count as f64),
        Symptom::Alert(alert) => (2, f64::from(alert.0)),
        Symptom::Corrected { per_gb, .. } => (1, per_gb),
        Symptom::Slow { rate, .. } => (0, -rate),
    };
    rank(one) > rank(other)
}
