//! Beyond which values sensors warn: page 05h (SES-3, 6.1.8).

use super::{Configuration, ElementKind, finish, header, page};
use crate::bytes::Malformed;

/// The limits of a sensor, as bytes: of a temperature degrees Celsius above -20, of a voltage or current
/// steps of half a percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Above it is critical.
    pub high_critical: u8,
    /// Above it is a warning.
    pub high_warning: u8,
    /// Below it is a warning.
    pub low_warning: u8,
    /// Below it is critical.
    pub low_critical: u8,
}

impl Limits {
    /// The degrees Celsius above which a temperature is a warning and critical; `None` where no limit is set.
    #[must_use]
    pub fn celsius_high(self) -> (Option<i16>, Option<i16>) {
        let celsius = |byte: u8| (byte != 0).then(|| i16::from(byte) - 20);
        (celsius(self.high_warning), celsius(self.high_critical))
    }
}

/// The threshold page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// INVOP: the last operation was not one.
    pub invalid_operation: bool,
    /// The generation of the configuration that it belongs to.
    pub generation: u32,
    /// Of each type the limits of all of it, then those of each element.
    pub types: Vec<Vec<Limits>>,
}

impl Thresholds {
    const NAME: &'static str = "threshold page";

    /// Reads it.
    ///
    /// # Errors
    /// If it has fewer limits than `configuration` has elements.
    pub fn decode(bytes: &[u8], configuration: &Configuration) -> Result<Thresholds, Malformed> {
        let head = header(Thresholds::NAME, page::THRESHOLD, bytes)?;
        let mut body = head.body;
        let mut types = Vec::new();
        for kind in &configuration.types {
            let mut all = Vec::new();
            for _ in 0..=kind.count {
                let [high_critical, high_warning, low_warning, low_critical] = body.array()?;
                all.push(Limits { high_critical, high_warning, low_warning, low_critical });
            }
            types.push(all);
        }
        Ok(Thresholds { invalid_operation: head.flags & 0x10 != 0, generation: head.generation, types })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If it is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let bytes = |one: &Limits| [one.high_critical, one.high_warning, one.low_warning, one.low_critical];
        let body: Vec<u8> = self.types.iter().flatten().flat_map(bytes).collect();
        finish(page::THRESHOLD, u8::from(self.invalid_operation) << 4, self.generation, &body)
    }

    /// The limits of an element: its own, or where these are not set those of its type.
    #[must_use]
    pub fn of(&self, kind: usize, element: usize) -> Limits {
        let limits = self.types.get(kind).map(Vec::as_slice).unwrap_or_default();
        let own = limits.get(element + 1).copied().filter(|own| *own != Limits::default());
        own.or_else(|| limits.first().copied()).unwrap_or_default()
    }

    /// Whether limits mean something for such an element (SES-3, 7.2.3).
    #[must_use]
    pub fn apply_to(kind: ElementKind) -> bool {
        matches!(
            kind,
            ElementKind::Temperature
                | ElementKind::Uninterruptible
                | ElementKind::Voltage
                | ElementKind::Current
        )
    }
}
