//! How far forecasts were off, and the ranges that follow from it (conformal prediction).
//!
//! A forecast of one moment is remembered until what it spoke of has come; the ratio of the time it really
//! took to the time that was foretold goes into a ring. A range is the foretold time stretched by the
//! quantiles of that ring. Forecasts of minutes and of days are off in different ways, so each class of waits
//! has its own ring.

use std::collections::{BTreeMap, VecDeque};

use base::{ClassId, Duration, RequestId, TapePoolId, Timestamp, Vid};

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
const CLASS_COUNT: usize = CLASSES.len() + 1;
/// What a ring holds before anything was seen: wide, and a little late, since what is not known of yet is
/// mostly more work.
const PRIOR: [f64; 16] =
    [0.30, 0.45, 0.60, 0.70, 0.80, 0.88, 0.95, 1.0, 1.05, 1.12, 1.2, 1.35, 1.6, 2.0, 2.8, 4.0];
/// The share of outcomes left out below and above a range.
const TAIL: f64 = 0.035;
/// Ratios are cut to this and its inverse.
const RATIO_MAX: f64 = 1_000.0;

/// What a forecast is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// All that is wanted from a tape is read.
    Tape(Vid),
    /// All files of a request are online, or one wanted file is.
    Request(RequestId),
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
    TapePool,
    Class,
    Drive,
}

impl Subject {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Subject::Tape(_) => Kind::Tape,
            Subject::Request(_) => Kind::Request,
            Subject::TapePool(_) => Kind::TapePool,
            Subject::Class(_) => Kind::Class,
            Subject::Drive(_) => Kind::Drive,
        }
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
    pub(crate) fn moments(self, made: Timestamp, wait: Duration) -> [Timestamp; 3] {
        let long = wait.as_secs_f64() + SMOOTHING;
        [self.low, self.middle, self.high]
            .map(|factor| made.plus(super::pace::seconds(long * factor - SMOOTHING)))
    }
}

/// A forecast that has not come true yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Foretold {
    made: Timestamp,
    wait: Duration,
}

/// The stretches of all kinds and classes of waits, as they stood at one time.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Stretches(BTreeMap<(Kind, usize), Stretch>);

impl Stretches {
    pub(crate) fn of(&self, kind: Kind, wait: Duration) -> Stretch {
        let stretch = self.0.get(&(kind, class_of(wait)));
        stretch.copied().unwrap_or_else(|| stretch_of(&PRIOR))
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
    pub(crate) fn foretell(&mut self, subject: Subject, made: Timestamp, wait: Duration) {
        if self.outstanding.len() >= OUTSTANDING_MAX && !self.outstanding.contains_key(&subject) {
            return;
        }
        let slots = self.outstanding.entry(subject).or_default();
        slots[class_of(wait)].get_or_insert(Foretold { made, wait });
    }

    /// What was foretold came at this time; forecasts for which `counts` does not hold are left standing.
    pub(crate) fn came(&mut self, subject: &Subject, at: Timestamp, counts: impl Fn(Timestamp) -> bool) {
        let Some(slots) = self.outstanding.get_mut(subject) else { return };
        for (class, slot) in slots.iter_mut().enumerate() {
            let Some(foretold) = slot.take_if(|foretold| counts(foretold.made)) else { continue };
            let took = at.since(foretold.made).as_secs_f64() + SMOOTHING;
            let ratio = took / (foretold.wait.as_secs_f64() + SMOOTHING);
            let ring = self
                .rings
                .entry((subject.kind(), class))
                .or_insert_with(|| PRIOR.iter().copied().collect::<VecDeque<f64>>());
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
        for kind in [Kind::Tape, Kind::Request, Kind::TapePool, Kind::Class, Kind::Drive] {
            for class in 0..CLASS_COUNT {
                let own = self.rings.get(&(kind, class));
                let mut ratios: Vec<f64> = own.into_iter().flatten().copied().collect();
                if kind == Kind::Request && ratios.len() < PRIOR.len() + OWN_LEAST {
                    ratios.extend(self.rings.get(&(Kind::Tape, class)).into_iter().flatten());
                }
                if !ratios.is_empty() {
                    stretches.insert((kind, class), stretch_of(&ratios));
                }
            }
        }
        Stretches(stretches)
    }
}

fn class_of(wait: Duration) -> usize {
    let wait = wait.as_secs_f64();
    CLASSES.iter().position(|end| wait < *end).unwrap_or(CLASSES.len())
}

/// Quantiles of these ratios, rounded outwards.
fn stretch_of(ratios: &[f64]) -> Stretch {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let below = (sorted.len() as f64 * TAIL) as usize;
    Stretch { low: sorted[below], middle: sorted[sorted.len() / 2], high: sorted[last - below] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vid(number: usize) -> Subject {
        Subject::Tape(Vid::new(&format!("T{number:05}")).unwrap())
    }

    #[test]
    fn a_range_follows_what_was_seen() {
        let mut calibration = Calibration::default();
        let (start, wait) = (Timestamp(0), Duration::from_secs(1_000));
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
        let other = calibration.stretches().of(Kind::Tape, Duration::from_secs(100_000));
        assert_eq!(other, wide, "other waits have their own ring");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut calibration = Calibration::default();
        for number in 0..=OUTSTANDING_MAX {
            calibration.foretell(vid(number), Timestamp(0), Duration::from_secs(1));
        }
        assert_eq!(calibration.outstanding().count(), OUTSTANDING_MAX);
    }
}
