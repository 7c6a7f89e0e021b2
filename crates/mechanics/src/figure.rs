//! Numbers that keep their source.

use std::fmt;

/// A number of a model: what it is, in which unit, who says so, and whether that was read there.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// In [`Figure::unit`].
    pub value: f64,
    /// The unit in which the source gives it.
    pub unit: Unit,
    /// Who says so; `derived: ...` or `assumed: ...` where nobody does.
    pub source: String,
    /// Whether it was read in the source, for this very drive or medium. What is derived, assumed or recalled
    /// is not verified.
    pub verified: bool,
}

/// A property of a model that is so or not, with its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Whether it is so.
    pub value: bool,
    /// As [`Figure::source`].
    pub source: String,
    /// As [`Figure::verified`].
    pub verified: bool,
}

/// A unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    name: &'static str,
    pub(crate) dimension: Dimension,
}

/// What a unit measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dimension {
    /// In microseconds.
    Time,
    /// In bytes.
    Size,
    /// In bytes a second.
    Rate,
    /// In metres.
    Length,
    Wraps,
    Bands,
    /// In a drive's own units of position along the tape.
    Position,
    /// In microseconds a unit of position.
    Pace,
    Robots,
}

impl Dimension {
    /// What a figure of it looks like, for errors.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Dimension::Time => "us, ms, s or min",
            Dimension::Size => "MB, GB or TB",
            Dimension::Rate => "MB/s",
            Dimension::Length => "m",
            Dimension::Wraps => "wraps",
            Dimension::Bands => "bands",
            Dimension::Position => "LPOS",
            Dimension::Pace => "us/LPOS",
            Dimension::Robots => "robots",
        }
    }
}

const UNITS: [(Unit, f64); 14] = [
    (Unit { name: "us", dimension: Dimension::Time }, 1.0),
    (Unit { name: "ms", dimension: Dimension::Time }, 1e3),
    (Unit { name: "s", dimension: Dimension::Time }, 1e6),
    (Unit { name: "min", dimension: Dimension::Time }, 60e6),
    (Unit { name: "MB", dimension: Dimension::Size }, 1e6),
    (Unit { name: "GB", dimension: Dimension::Size }, 1e9),
    (Unit { name: "TB", dimension: Dimension::Size }, 1e12),
    (Unit { name: "MB/s", dimension: Dimension::Rate }, 1e6),
    (Unit { name: "m", dimension: Dimension::Length }, 1.0),
    (Unit { name: "wraps", dimension: Dimension::Wraps }, 1.0),
    (Unit { name: "bands", dimension: Dimension::Bands }, 1.0),
    (Unit { name: "LPOS", dimension: Dimension::Position }, 1.0),
    (Unit { name: "us/LPOS", dimension: Dimension::Pace }, 1.0),
    (Unit { name: "robots", dimension: Dimension::Robots }, 1.0),
];

impl Unit {
    /// The unit of that name, as data files write it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Unit> {
        UNITS.iter().map(|(unit, _)| *unit).find(|unit| unit.name == name)
    }

    /// As data files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    fn factor(self) -> f64 {
        UNITS.iter().find(|(unit, _)| *unit == self).map_or(1.0, |(_, factor)| *factor)
    }
}

impl Figure {
    /// The value in the base unit of its kind: microseconds, bytes, bytes a second, metres, pieces.
    #[must_use]
    pub fn base(&self) -> f64 {
        self.value * self.unit.factor()
    }

    /// The same, as a whole number; 0 for what is negative.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.base().round() as u64
    }
}

impl fmt::Display for Figure {
    /// `360 MB/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit.name)
    }
}
