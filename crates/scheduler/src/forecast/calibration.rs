//! How far forecasts were off, and the ranges that follow from it (conformal prediction).
//!
//! A forecast of one moment is remembered until what it spoke of has come; the ratio of the time it really
//! took to the time that was foretold goes into a ring. A range is the foretold time stretched by the
//! quantiles of that ring. Forecasts of minutes and of days are off in different ways, so each class of waits
//! has its own ring.

use std::collections::{BTreeMap, VecDeque};

use base::{ClassId, Duration, FileId, RequestId, TapePoolId, Timestamp, Vid};

use crate::DriveName;

/// Ratios in one ring.
const RING: usize = 128;
/// Below so many ratios of their own, requests borrow those of tapes.
const OWN_LEAST: usize = 24;
/// Forecasts that are remembered until they come true.
const OUTSTANDING_MAX: usize = 20_000;
/// Waits are counted as so much longer: seconds more or less on a wait of seconds are no matter.
const SMOOTHING: f64 = 10.0;
/// Upper ends of the classes of waits, in seconds; the last class has none.
const CLASSES: [f64; 4] = [300.0, 1_800.0, 7_200.0, 43_200.0];
/// Once for what waits, once for what is under way.
const CLASS_COUNT: usize = 2 * (CLASSES.len() + 1);
/// What stands in for ratios before enough were seen: wide, and a little late, since what is not known of yet
/// is mostly more work. The widest go last.
const PRIOR: [f64; 16] =
    [1.0, 1.05, 0.95, 1.12, 0.88, 1.2, 0.80, 1.35, 0.70, 1.6, 0.60, 2.0, 0.45, 2.8, 0.30, 4.0];
/// A file may lie anywhere on its tape: it may come at once when the tape is mounted.
const PRIOR_FILE: [f64; 16] =
    [1.0, 1.1, 0.9, 1.2, 0.8, 1.3, 0.7, 1.5, 0.6, 1.8, 0.5, 2.2, 0.35, 3.0, 0.15, 4.0];
/// The share of outcomes left out below a range ...
const TAIL_LOW: f64 = 0.05;
/// ... and above it: to be late is worse than to be early.
const TAIL_HIGH: f64 = 0.02;
/// Ratios are cut to this and its inverse.
const RATIO_MAX: f64 = 1_000.0;

/// What a forecast is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// All that is wanted from a tape is read.
    Tape(Vid),
    /// All files of a request are online.
    Request(RequestId),
    /// A wanted file is online.
    File(FileId),
    /// All that is queued for a tape pool is written.
    TapePool(TapePoolId),
    /// The files of a class are gathered into containers.
    Class(ClassId),
    /// A drive has done what it does.
    Drive(DriveName),
}

/// The kinds of subjects, which are off in different ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Tape,
    Request,
    File,
    TapePool,
    Class,
    Drive,
}

const KINDS: [Kind; 6] = [Kind::Tape, Kind::Request, Kind::File, Kind::TapePool, Kind::Class, Kind::Drive];

impl Subject {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Subject::Tape(_) => Kind::Tape,
            Subject::Request(_) => Kind::Request,
            Subject::File(_) => Kind::File,
            Subject::TapePool(_) => Kind::TapePool,
            Subject::Class(_) => Kind::Class,
            Subject::Drive(_) => Kind::Drive,
        }
    }
}

/// A wait as the outlook has it, before experience is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nominal {
    pub(crate) wait: Duration,
    /// The session that does it is under way.
    pub(crate) running: bool,
}

impl Nominal {
    /// Its ring among those of one kind.
    fn class(self) -> usize {
        let wait = self.wait.as_secs_f64();
        let class = CLASSES.iter().position(|end| wait < *end).unwrap_or(CLASSES.len());
        class + if self.running { CLASSES.len() + 1 } else { 0 }
    }
}

/// By how much a foretold wait is stretched: at least, most likely, at most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Stretch {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
}

impl Stretch {
    /// The moments that a wait of so long from `made` on stands for.
    pub(crate) fn moments(self, made: Timestamp, nominal: Nominal) -> [Timestamp; 3] {
        let long = nominal.wait.as_secs_f64() + SMOOTHING;
        [self.low, self.middle, self.high]
            .map(|factor| made.plus(super::pace::seconds(long * factor - SMOOTHING)))
    }
}

/// A forecast that has not come true yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Foretold {
    made: Timestamp,
    nominal: Nominal,
}

/// The stretches of all kinds and classes of waits, as they stood at one time.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Stretches(BTreeMap<(Kind, usize), Stretch>);

impl Stretches {
    pub(crate) fn of(&self, kind: Kind, nominal: Nominal) -> Stretch {
        let stretch = self.0.get(&(kind, nominal.class()));
        stretch.copied().unwrap_or_else(|| stretch_of(kind, &[]))
    }
}

/// What was foretold, and how it turned out.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Calibration {
    rings: BTreeMap<(Kind, usize), VecDeque<f64>>,
    outstanding: BTreeMap<Subject, [Option<Foretold>; CLASS_COUNT]>,
}

impl Calibration {
    /// Remembers what was foretold. Of one subject the first forecast in each class of waits counts.
    pub(crate) fn foretell(&mut self, subject: Subject, made: Timestamp, nominal: Nominal) {
        if self.outstanding.len() >= OUTSTANDING_MAX && !self.outstanding.contains_key(&subject) {
            return;
        }
        let slots = self.outstanding.entry(subject).or_default();
        slots[nominal.class()].get_or_insert(Foretold { made, nominal });
    }

    /// What was foretold came at this time; forecasts for which `counts` does not hold are left standing.
    pub(crate) fn came(&mut self, subject: &Subject, at: Timestamp, counts: impl Fn(Timestamp) -> bool) {
        let Some(slots) = self.outstanding.get_mut(subject) else { return };
        for (class, slot) in slots.iter_mut().enumerate() {
            let Some(foretold) = slot.take_if(|foretold| counts(foretold.made)) else { continue };
            let took = at.since(foretold.made).as_secs_f64() + SMOOTHING;
            let ratio = took / (foretold.nominal.wait.as_secs_f64() + SMOOTHING);
            let ring = self.rings.entry((subject.kind(), class)).or_default();
            if ring.len() == RING {
                ring.pop_front();
            }
            ring.push_back(ratio.clamp(1.0 / RATIO_MAX, RATIO_MAX));
        }
        if slots.iter().all(Option::is_none) {
            self.outstanding.remove(subject);
        }
    }

    /// It will not come: cancelled, or done in another way.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.outstanding.remove(subject);
    }

    /// What waits to come true, of these.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = &Subject> {
        self.outstanding.keys()
    }

    pub(crate) fn stretches(&self) -> Stretches {
        let mut stretches = BTreeMap::new();
        for (kind, class) in KINDS.iter().flat_map(|kind| (0..CLASS_COUNT).map(|class| (*kind, class))) {
            let seen = |kind: Kind| self.rings.get(&(kind, class)).into_iter().flatten().copied();
            let mut ratios: Vec<f64> = seen(kind).collect();
            if kind == Kind::Request && ratios.len() < OWN_LEAST {
                ratios.extend(seen(Kind::Tape));
            }
            if !ratios.is_empty() {
                stretches.insert((kind, class), stretch_of(kind, &ratios));
            }
        }
        Stretches(stretches)
    }
}

/// Quantiles of these ratios, and of what stands in for more of them, rounded outwards: of `n` ratios the
/// next one lies below the `k`th with a probability of `k / (n + 1)`.
fn stretch_of(kind: Kind, seen: &[f64]) -> Stretch {
    let prior = if kind == Kind::File { PRIOR_FILE } else { PRIOR };
    // Tape pools are foretold rarely; all others have much to learn from before long.
    let per_prior = if kind == Kind::TapePool { 1 } else { 2 };
    let replaced = (seen.len() / per_prior).min(prior.len());
    let mut sorted: Vec<f64> = seen.iter().chain(&prior[replaced..]).copied().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let left_out = |share: f64| (((sorted.len() + 1) as f64 * share) as usize).saturating_sub(1);
    let (low, high) = (sorted[left_out(TAIL_LOW)], sorted[last - left_out(TAIL_HIGH)]);
    Stretch { low, middle: sorted[sorted.len() / 2], high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vid(number: usize) -> Subject {
        Subject::Tape(Vid::new(&format!("T{number:05}")).unwrap())
    }

    fn waits(seconds: u64) -> Nominal {
        Nominal { wait: Duration::from_secs(seconds), running: false }
    }

    #[test]
    fn a_range_follows_what_was_seen() {
        let mut calibration = Calibration::default();
        let (start, wait) = (Timestamp(0), waits(1_000));
        let wide = calibration.stretches().of(Kind::Tape, wait);
        for number in 0..200 {
            calibration.foretell(vid(number), start, wait);
            // Everything takes a fifth longer than foretold, now and then a quarter.
            let late = if number % 20 == 0 { 1_250 } else { 1_200 };
            calibration.came(&vid(number), start.plus(Duration::from_secs(late)), |_| true);
        }
        let narrow = calibration.stretches().of(Kind::Tape, wait);
        assert!(wide.low < 0.5 && wide.high > 2.0, "{wide:?}");
        assert!(narrow.low > 1.15 && narrow.middle < 1.21 && narrow.high < 1.26, "{narrow:?}");
        assert_eq!(calibration.outstanding().count(), 0);
        let other = calibration.stretches().of(Kind::Tape, waits(100_000));
        assert_eq!(other, wide, "other waits have their own ring");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut calibration = Calibration::default();
        for number in 0..=OUTSTANDING_MAX {
            calibration.foretell(vid(number), Timestamp(0), waits(1));
        }
        assert_eq!(calibration.outstanding().count(), OUTSTANDING_MAX);
    }
}
