//! Forecasts as they are told: a range, or why there is none.

use std::collections::BTreeMap;

use base::{ClassId, Duration, TapePoolId, Timestamp, Vid};

use super::calibration::{Kind, Nominal, Stretches};
use super::summary::{Fate, Outlook};
use super::world::FORECAST_HORIZON;
use crate::recall::WantedGroup;
use crate::{DriveName, Reason};

/// No range ends sooner after the time at which it is given.
const RANGE_LEAST: Duration = Duration::from_secs(5);

/// When something is done: of ten outcomes nine lie between `earliest` and `latest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeRange {
    /// Hardly before.
    pub earliest: Timestamp,
    /// As often before as after.
    pub likely: Timestamp,
    /// Hardly after.
    pub latest: Timestamp,
}

impl TimeRange {
    /// The range as seen at `now`: it does not lie in the past, whatever was foretold.
    #[must_use]
    pub fn seen_at(self, now: Timestamp) -> Self {
        let earliest = self.earliest.max(now);
        let latest = self.latest.max(now.plus(RANGE_LEAST)).max(earliest);
        TimeRange { earliest, likely: self.likely.clamp(earliest, latest), latest }
    }
}

/// What is to be expected of something that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// It is done in this range.
    Within(TimeRange),
    /// It is not done so soon as within this span, or nothing can be said.
    NotWithin(Duration),
    /// It is not done before somebody does something about this.
    Never(Reason),
}

impl Expected {
    /// The same as seen at `now`: no range lies in the past.
    #[must_use]
    pub fn seen_at(self, now: Timestamp) -> Self {
        match self {
            Expected::Within(range) => Expected::Within(range.seen_at(now)),
            other => other,
        }
    }
}

/// What is to be expected of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestForecast {
    /// When its last file is online; `None` if nothing was foretold of what comes last.
    pub expected: Option<Expected>,
    /// The wait foretold as such, without what experience makes of it: for [`Forecaster::foretell`].
    ///
    /// [`Forecaster::foretell`]: crate::Forecaster::foretell
    pub nominal: Option<Nominal>,
    /// Its groups of files, the last one first, and when each one's last file is online.
    pub groups: Vec<(WantedGroup, Option<Expected>)>,
}

/// What is to be expected of everything that waited at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Forecast {
    pub(crate) outlook: Outlook,
    pub(crate) stretches: Stretches,
}

impl Forecast {
    /// When it was made.
    #[must_use]
    pub fn made(&self) -> Timestamp {
        self.outlook.made
    }

    /// When all that is wanted from a tape now is read; `None` if nothing is, or has been since.
    #[must_use]
    pub fn of_tape(&self, vid: Vid) -> Option<Expected> {
        self.outlook.tapes.get(&vid).map(|fate| self.end_of(fate, Kind::Tape))
    }

    /// When all that is queued for a tape pool now is written; `None` if nothing is.
    #[must_use]
    pub fn of_tape_pool(&self, tape_pool: TapePoolId) -> Option<Expected> {
        self.outlook.tape_pools.get(&tape_pool).map(|fate| self.end_of(fate, Kind::TapePool))
    }

    /// When the files of a class are gathered into containers; `None` if all are.
    #[must_use]
    pub fn of_class(&self, class: ClassId) -> Option<Expected> {
        self.outlook.classes.get(&class).map(|fate| self.end_of(fate, Kind::Class))
    }

    /// When a busy drive has done what it does; `None` if it is not busy.
    #[must_use]
    pub fn of_drive(&self, drive: &DriveName) -> Option<Expected> {
        self.outlook.drives.get(drive).map(|fate| self.end_of(fate, Kind::Drive))
    }

    /// Whether something was foretold of a group, or of a tape that has its files.
    #[must_use]
    pub fn knows(&self, group: &WantedGroup) -> bool {
        self.fate_of(group).is_some()
    }

    /// When the last of so many files of a group is online; `None` if nothing was foretold of it.
    #[must_use]
    pub fn of_group(&self, group: &WantedGroup, files: u64) -> Option<Expected> {
        let kind = if files == 1 { Kind::File } else { Kind::Request };
        Some(match self.fate_of(group)? {
            Fate::Done { begin, end } => self.within(self.last_of(*begin, *end, files), kind),
            Fate::Late => Expected::NotWithin(FORECAST_HORIZON),
            Fate::Never(reason) => Expected::Never(reason.clone()),
        })
    }

    /// When the last of these files is online: how many of each group a request waits for.
    #[must_use]
    pub fn of_request(&self, waiting: &BTreeMap<WantedGroup, u64>) -> RequestForecast {
        let mut groups: Vec<_> =
            waiting.iter().map(|(group, files)| (self.rank(group, *files), group, *files)).collect();
        groups.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let all: u64 = waiting.values().sum();
        let last = groups.first();
        let nominal = last.and_then(|(_, group, files)| self.nominal(group, *files));
        let expected = match nominal {
            Some(nominal) if all > 1 => Some(self.within(nominal, Kind::Request)),
            _ => last.and_then(|(_, group, files)| self.of_group(group, *files)),
        };
        let told = groups.iter().map(|(_, group, files)| ((*group).clone(), self.of_group(group, *files)));
        RequestForecast { expected, nominal, groups: told.collect() }
    }

    /// What never comes is last, then what comes late.
    fn rank(&self, group: &WantedGroup, files: u64) -> (u8, Timestamp) {
        match self.fate_of(group) {
            Some(Fate::Done { begin, end }) => (0, self.made().plus(self.last_of(*begin, *end, files).wait)),
            Some(Fate::Late) | None => (1, Timestamp(0)),
            Some(Fate::Never(_)) => (2, Timestamp(0)),
        }
    }

    /// A group that came into being since the forecast is done with its tape, or with the first of its tapes.
    fn fate_of(&self, group: &WantedGroup) -> Option<&Fate> {
        let known = self.outlook.groups.get(group);
        let taken = || group.taken_by().and_then(|vid| self.outlook.tapes.get(&vid));
        let first = || {
            let fates = group.copies().iter().filter_map(|vid| self.outlook.tapes.get(vid));
            fates.min_by_key(|fate| match fate {
                Fate::Done { end, .. } => (0, *end),
                Fate::Late => (1, Timestamp(0)),
                Fate::Never(_) => (2, Timestamp(0)),
            })
        };
        known.or_else(taken).or_else(first)
    }

    /// The wait foretold for the last of so many files of a group, as such.
    pub(crate) fn nominal(&self, group: &WantedGroup, files: u64) -> Option<Nominal> {
        match self.fate_of(group)? {
            Fate::Done { begin, end } => Some(self.last_of(*begin, *end, files)),
            Fate::Late | Fate::Never(_) => None,
        }
    }

    /// Where in a session the last of so many of its files is to be expected: they may lie anywhere on the
    /// tape.
    fn last_of(&self, begin: Timestamp, end: Timestamp, files: u64) -> Nominal {
        let from = begin.max(self.made());
        let part = files as f64 / (files as f64 + 1.0);
        let last = from.plus(end.since(from).mul_f64(part));
        Nominal { wait: last.since(self.made()), running: begin <= self.made() }
    }

    fn end_of(&self, fate: &Fate, kind: Kind) -> Expected {
        match fate {
            Fate::Done { .. } => self
                .outlook
                .nominal(fate)
                .map_or(Expected::NotWithin(FORECAST_HORIZON), |nominal| self.within(nominal, kind)),
            Fate::Late => Expected::NotWithin(FORECAST_HORIZON),
            Fate::Never(reason) => Expected::Never(reason.clone()),
        }
    }

    fn within(&self, nominal: Nominal, kind: Kind) -> Expected {
        let [earliest, likely, latest] = self.stretches.of(kind, nominal).moments(self.made(), nominal);
        Expected::Within(TimeRange { earliest, likely, latest }.seen_at(self.made()))
    }
}
