//! When things happen: a Poisson process whose rate swings with the day, the week, and storms.

use durability::SplitMix;

use crate::moment::Moment;
use scenario::model::Arrivals;

/// Microseconds of a day.
const DAY: f64 = 86_400e6;

/// The busiest time of a day: two in the afternoon.
const NOON: f64 = 14.0 / 24.0;

/// Saturday, in days of a week that begins on the Wednesday of [`Moment::EPOCH`].
const SATURDAY: f64 = 3.0;

/// A Poisson process.
pub(super) struct Process {
    /// Mean rate of a weekday without storms, each microsecond.
    rate: f64,
    swing: f64,
    weekend: f64,
    /// Mean time between storms, microseconds; infinite: none.
    storm_gap: f64,
    storm_factor: f64,
    storm_length: f64,
    /// From outside.
    factor: f64,
    storm: Storm,
    /// The storm as it was before the last arrival was drawn, in case it has to be drawn again.
    before: Storm,
}

#[derive(Clone, Copy)]
struct Storm {
    is_on: bool,
    /// When it changes, microseconds.
    until: f64,
}

impl Process {
    /// The mean over a week without storms is what the arrivals say.
    pub(super) fn new(arrivals: &Arrivals, begin: Moment, random: &mut SplitMix) -> Process {
        let weekend = f64::from(arrivals.weekend_percent) / 100.0;
        let storm_gap = match arrivals.storms_per_year {
            storms if storms > 0.0 && !arrivals.storm_length.is_zero() => 365.25 * DAY / storms,
            _ => f64::INFINITY,
        };
        let until = match storm_gap.is_finite() {
            true => begin.0 as f64 + random.exponential(storm_gap),
            false => f64::INFINITY,
        };
        let storm = Storm { is_on: false, until };
        Process {
            rate: arrivals.per_day.max(0.0) / DAY * 7.0 / (5.0 + 2.0 * weekend),
            swing: f64::from(arrivals.day_swing_percent.min(100)) / 100.0,
            weekend,
            storm_gap,
            storm_factor: arrivals.storm_factor.max(0.0),
            storm_length: arrivals.storm_length.as_micros() as f64,
            factor: 1.0,
            storm,
            before: storm,
        }
    }

    /// The next arrival after `from`; `None`: never.
    pub(super) fn next(&mut self, from: Moment, random: &mut SplitMix) -> Option<Moment> {
        self.before = self.storm;
        let steady = self.rate * self.factor;
        if !steady.is_finite() || steady <= 0.0 {
            return None;
        }
        let highest = steady * (1.0 + self.swing) * self.weekend.max(1.0);
        let mut at = from.0 as f64;
        loop {
            while self.storm.until <= at {
                self.turn(random);
            }
            let times = if self.storm.is_on { self.storm_factor } else { 1.0 };
            let gap = if times > 0.0 { random.exponential(1.0 / (highest * times)) } else { f64::INFINITY };
            if at + gap >= self.storm.until {
                at = self.storm.until;
                continue;
            }
            at += gap;
            if at >= u64::MAX as f64 {
                return None;
            }
            if random.unit() * highest <= steady * self.swung(at) {
                return Some(Moment(at as u64).max(from));
            }
        }
    }

    /// As [`Process::next`], in the place of the one drawn before, with another factor from outside.
    pub(super) fn again(&mut self, from: Moment, factor: f64, random: &mut SplitMix) -> Option<Moment> {
        self.factor = factor.max(0.0);
        self.storm = self.before;
        self.next(from, random)
    }

    fn turn(&mut self, random: &mut SplitMix) {
        let span = if self.storm.is_on { random.exponential(self.storm_gap) } else { self.storm_length };
        self.storm = Storm { is_on: !self.storm.is_on, until: self.storm.until + span };
    }

    /// How much of the mean rate there is at a time, storms aside.
    fn swung(&self, at: f64) -> f64 {
        let days = at / DAY;
        let day = 1.0 + self.swing * (std::f64::consts::TAU * (days - NOON)).cos();
        let weekday = days.floor().rem_euclid(7.0);
        let is_weekend = (SATURDAY..SATURDAY + 2.0).contains(&weekday);
        if is_weekend { day * self.weekend } else { day }
    }
}
