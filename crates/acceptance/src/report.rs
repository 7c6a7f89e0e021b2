//! What came of a test, as values: whoever prints it makes the sentences.

use std::time::Duration;

use library::Sense;

/// In what a figure is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// A ratio.
    Times,
    /// Sense data: key, code and qualifier, a byte each, as [`Figure::sense`] reads them.
    Sense,
}

/// Something that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What.
    pub name: String,
    /// How much of it.
    pub value: f64,
    /// In what.
    pub unit: Unit,
}

impl Figure {
    /// What a device said.
    #[must_use]
    pub fn of_sense(name: impl Into<String>, sense: Sense) -> Self {
        let value = u32::from_be_bytes([0, sense.key, sense.code, sense.qualifier]);
        Figure { name: name.into(), value: f64::from(value), unit: Unit::Sense }
    }

    /// The same again.
    #[must_use]
    pub fn sense(&self) -> Option<Sense> {
        let [_, key, code, qualifier] = (self.value as u32).to_be_bytes();
        (self.unit == Unit::Sense).then_some(Sense { key, code, qualifier })
    }
}

/// What came of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The drive did what it must.
    Passed,
    /// It did not.
    Failed {
        /// What was wrong.
        why: String,
        /// What the drive said, if it did.
        sense: Option<Sense>,
    },
    /// It does not offer what is tested here; an archive does without.
    NotOffered {
        /// What is missing.
        why: String,
    },
    /// It was not tried, because an earlier step had failed or it was not asked for.
    NotRun {
        /// Why.
        why: String,
    },
}

/// A step of the test.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// What it looks at.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// How long it took.
    pub took: Duration,
}

/// What was tested.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DriveFacts {
    /// Its vendor.
    pub vendor: String,
    /// Its product.
    pub product: String,
    /// The revision of its firmware.
    pub revision: String,
    /// Its serial number.
    pub serial: String,
    /// Its generation; `None` if it is not known.
    pub generation: Option<String>,
    /// The kind of cartridge; `None` if the drive does not tell.
    pub cartridge: Option<String>,
    /// The serial number of the cartridge.
    pub cartridge_serial: Option<String>,
    /// What it can do of what an archive makes use of, by its own list of commands.
    pub abilities: Vec<&'static str>,
}

/// What came of a test.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AcceptanceReport {
    /// The drive, once it was reached.
    pub drive: Option<DriveFacts>,
    /// What was found on the tape, if something was.
    pub belonging: Option<String>,
    /// All steps, in their order.
    pub steps: Vec<Step>,
}

impl AcceptanceReport {
    /// Whether no step has failed, nor could not be tried for one that had.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        !self.steps.is_empty()
            && !self.steps.iter().any(|step| matches!(step.verdict, Verdict::Failed { .. }))
    }

    /// The step of that name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

impl Step {
    /// A figure by its name.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}
